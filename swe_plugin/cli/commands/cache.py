"""`swe-plugin cache`."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from swe_plugin.cli.commands import completion
from swe_plugin.cli.commands.options import FAILED, USAGE, AsJson, fail
from swe_plugin.cli.interrupts import INTERRUPTED
from swe_plugin.errors import ConfigError, EnvironmentStartError

if TYPE_CHECKING:
    from swe_plugin.environments.images import ImageStore

__all__ = ["register"]

_GIB = 1 << 30
_SOURCES = (
    "Task files (.jsonl, .parquet), or images: docker:<reference>, oci:<path>[#<name>], rootfs:<path>, host. "
    "Settings (swe.environment.KEY=VALUE) may stand between them."
)
_BUILD = (
    "Example: swe-plugin cache build tasks.jsonl --jobs 4 --backend docker\n\nInterrupted, it goes on where it was "
    "when it is started again.\n\nExit codes: 0 all are there; 1 at least one is not (shown); 2 a source is wrong, or "
    "the backend does not work here; 130 Ctrl-C."
)
_LS = "Example: swe-plugin cache ls --json\n\nExit codes: 0."
_VERIFY = "Example: swe-plugin cache verify --remove\n\nExit codes: 0; 1 a layer is not as it was built (shown)."
_PRUNE = "Example: swe-plugin cache prune --keep-gib 50\n\nExit codes: 0; 1 what is in use takes more than that."


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    group = typer.Typer(
        name="cache", help="Images of this machine: build ahead, list, check, remove.", no_args_is_help=True
    )
    for command, epilog in ((build, _BUILD), (ls, _LS), (verify, _VERIFY), (prune, _PRUNE)):
        group.command(epilog=epilog)(command)
    app.add_typer(group)


def build(
    sources: Annotated[list[str], typer.Argument(help=_SOURCES)],
    jobs: Annotated[int, typer.Option(min=1, help="Images at once.")] = 2,
    mode: Annotated[str, typer.Option(help="Sandbox mode that they are for: auto, root, rootmap, user.")] = "",
    backend: Annotated[
        str, typer.Option(help="Short for swe.environment.backend.", autocompletion=completion.backends)
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, build nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch, unpack and build images before a run needs them: into this node's store, or onto a Docker daemon."""
    from swe_plugin.cli import cache
    from swe_plugin.cli.image_builders import image_builder
    from swe_plugin.cli.overrides import config_from_words

    console = Console(stderr=True, highlight=False)
    settings = [word for word in sources if word.startswith("swe.") and "=" in word]
    shorts = {"backend": backend, "options.mode": mode}
    settings += [f"swe.environment.{key}={value}" for key, value in shorts.items() if value]
    try:
        items = cache.wanted([word for word in sources if word not in settings])
        builder = image_builder(config_from_words(settings).environment)
        estimate = builder.estimate(item.image for item in items)
    except (ConfigError, EnvironmentStartError) as error:
        fail(error, USAGE)
    console.print(
        f"{len(items)} images, {estimate.n_layers} layers of bases, {estimate.n_present} of them here; to read: "
        f"{cache.size(estimate.read_bytes)}"
        + (f" and {estimate.n_unknown} of unknown size" * bool(estimate.n_unknown)),
        soft_wrap=True,
    )
    read_bytes = 0 if estimate.n_unknown else estimate.read_bytes
    try:
        results = [] if dry_run else cache.build(items, builder, jobs, read_bytes, console)
    except KeyboardInterrupt:
        fail("stopped; what is whole stays, and the same command goes on with the rest", INTERRUPTED)
    if as_json:
        print(json.dumps({"estimate": asdict(estimate), "images": [asdict(result) for result in results]}, indent=2))
    failed = [result for result in results if result.error]
    for result in failed:
        console.print(f"{result.name}: {result.error}", style="red", markup=False, soft_wrap=True)
    if not as_json and not dry_run:
        print(f"{len(results) - len(failed)} images are there, {len(failed)} are not")
    raise typer.Exit(FAILED if failed else 0)


def ls(as_json: AsJson = False) -> None:
    """List layers, least recently used first, with their sizes and whether they are in use."""
    from swe_plugin.cli import cache

    store = _store()
    entries = store.entries()
    if as_json:
        print(json.dumps([asdict(entry) | {"in_use": store.is_held(entry.key)} for entry in entries], indent=2))
        return
    table = Table("layer", "what", "size", "files", "last used", "in use")
    for entry in entries:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_use))
        in_use = "yes" if store.is_held(entry.key) else ""
        table.add_row(entry.key[:12], entry.what, cache.size(entry.size_bytes), str(entry.n_files), used, in_use)
    console = Console()
    console.print(table)
    console.print(f"{len(entries)} layers, {cache.size(sum(entry.size_bytes for entry in entries))} below {store.root}")


def verify(
    remove: Annotated[bool, typer.Option("--remove", help="Take damaged layers away; they are built again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that no layer lost or changed a file since it was built (names, sizes, times; not contents)."""
    from swe_plugin.cli import cache

    store = _store()
    damaged = cache.verify(store, Console(stderr=True), remove=remove)
    if as_json:
        print(json.dumps([asdict(item) for item in damaged], indent=2))
    else:
        for item in damaged:
            print(f"{item.key} {item.what}: {item.reason}{' (removed)' if item.removed else ''}")
        print(f"{len(store.entries())} layers are here, {len(damaged)} were damaged")
    raise typer.Exit(FAILED if damaged else 0)


def prune(
    keep_gib: Annotated[float, typer.Option(min=0, help="Disk that may stay taken; 0: only what is in use stays.")],
    as_json: AsJson = False,
) -> None:
    """Remove the least recently used layers that nobody uses until the rest fits."""
    from swe_plugin.cli import cache

    store = _store()
    removed = store.shrink(int(keep_gib * _GIB))
    left = sum(entry.size_bytes for entry in store.entries())
    if as_json:
        print(json.dumps({"removed": [asdict(entry) for entry in removed], "left_bytes": left}, indent=2))
    else:
        gone = sum(entry.size_bytes for entry in removed)
        print(f"{len(removed)} layers removed, {cache.size(gone)}; {cache.size(left)} are left")
    raise typer.Exit(FAILED if left > keep_gib * _GIB else 0)


def _store() -> ImageStore:
    from swe_plugin.environments.images import ImageStore

    return ImageStore()
