"""`swe-plugin cache`: images of this machine's store, built ahead, listed, checked and removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from swe_plugin.errors import EnvironmentStartError, SwePluginError

if TYPE_CHECKING:
    from swe_plugin.cli.image_builders import ImageBuilder
    from swe_plugin.environments.images import ImageStore
    from swe_plugin.types import Image

__all__ = ["Built", "Damaged", "Wanted", "build", "size", "verify", "wanted"]

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Wanted:
    """An image, who wants it (the first instance, for messages), and whether an agent has to be able to work in it."""

    image: Image
    name: str
    checked: bool


@dataclass(frozen=True, slots=True)
class Built:
    """What became of one image; `error` is empty if it is there."""

    name: str
    base: str
    error: str
    n_layers: int
    duration_s: float


@dataclass(frozen=True, slots=True)
class Damaged:
    """A layer that is not as it was built, and whether it is gone now."""

    key: str
    what: str
    reason: str
    removed: bool


def wanted(sources: Sequence[str]) -> list[Wanted]:
    """The images that task files (``.jsonl``, ``.parquet``) and bases (``docker:...``) ask for, each once.

    Raises:
        ConfigError: a file is no task file.
    """
    from swe_plugin.data.files import SUFFIXES, read_tasks
    from swe_plugin.types import Image

    found: list[Wanted] = []
    for source in sources:
        if source.endswith(SUFFIXES):
            for task in read_tasks(Path(source), "SOURCE"):
                image = replace(task.image, commit=task.image.commit or task.base_commit)
                found.append(Wanted(image, task.instance_id, True))
        else:
            found.append(Wanted(Image(source), source, False))
    return list({repr(item.image): item for item in reversed(found)}.values())[::-1]


def build(items: Sequence[Wanted], builder: ImageBuilder, jobs: int, read_bytes: int, console: Console) -> list[Built]:
    """Build what is missing, several at once, with progress bars; one that fails stops no other.

    Started again after an interruption, it goes on with what is not there yet.

    Args:
        items: what to build.
        builder: with what.
        jobs: how many at once.
        read_bytes: what the bases' layers will take to read; 0: not known.
        console: for the bars.
    """
    results: list[Built] = []
    stopped = threading.Event()
    with _progress(console) as progress, ThreadPoolExecutor(jobs) as threads:
        bar = progress.add_task("images", total=len(items), shown=f"0/{len(items)}")
        reading = progress.add_task("read", total=read_bytes or None, shown="")

        def on_read(n_read: int) -> None:
            if stopped.is_set():
                raise EnvironmentStartError("stopped")
            progress.advance(reading, n_read)
            progress.update(reading, shown=size(progress.tasks[reading].completed))

        try:
            for done in as_completed([threads.submit(_build, item, builder, on_read) for item in items]):
                results.append(done.result())
                progress.update(bar, advance=1, shown=f"{len(results)}/{len(items)}")
        except BaseException:  # Ctrl-C: what is read stops at the next read, what runs in sandboxes with them
            stopped.set()
            threads.shutdown(wait=False, cancel_futures=True)
            builder.close()
            raise
    return results


def _build(item: Wanted, builder: ImageBuilder, on_read: Callable[[int], None]) -> Built:
    began, n_layers, error = time.monotonic(), 0, ""
    try:
        n_layers = builder.build(item.image, item.name, on_read, checked=item.checked)
    except (SwePluginError, OSError) as failure:
        error = str(failure)
    return Built(item.name, item.image.base, error, n_layers, round(time.monotonic() - began, 3))


def verify(store: ImageStore, console: Console, *, remove: bool) -> list[Damaged]:
    """Compare every layer with its description; `remove` takes damaged ones away that nobody uses."""
    found: list[Damaged] = []
    with _progress(console) as progress:
        entries = store.entries()
        bar = progress.add_task("layers", total=len(entries), shown="")
        for number, entry in enumerate(entries, start=1):
            progress.update(bar, completed=number, shown=f"{number}/{len(entries)}")
            if reason := store.damage(entry):
                found.append(Damaged(entry.key, entry.what, reason, remove and store.remove(entry.key)))
    return found


def size(size_bytes: float) -> str:
    """For people."""
    return f"{size_bytes / _GIB:.2f} GiB"


def _progress(console: Console) -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[shown]}"), TimeElapsedColumn()
    return Progress(*columns, console=console, transient=True)
