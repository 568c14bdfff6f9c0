"""Where tasks come from: callables ``(settings) -> Iterable[Task]``, registered as datasets."""
