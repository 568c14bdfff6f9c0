"""What `swe-plugin prepare` looks up and prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from swe_plugin.cli.cache import size
from swe_plugin.data.prepare.summary import Summary
from swe_plugin.environments.sandbox.probe import require_mode
from swe_plugin.errors import EnvironmentStartError

__all__ = ["image_sizes", "print_summary"]


def print_summary(summary: Summary, folder: Path) -> None:
    """The counts, each reason with its first rows, and what the tasks need."""
    console = Console(highlight=False)
    data = summary.to_json()
    table = Table("rows", "what became of them", "first of them")
    table.columns[0].justify = "right"
    table.add_row(str(summary.read), "read", "")
    for split, kept in summary.kept.items():
        table.add_row(str(kept), f"kept: {escape(str(folder / split))}.parquet", "")
    for reason, found in data["dropped"].items():
        table.add_row(str(found["rows"]), f"left out: {reason}", escape("\n".join(found["examples"])))
    console.print(table)
    if tokens := data["statement_tokens"]:
        spread = ", ".join(f"{name} {value:.0f}" for name, value in tokens.items())
        console.print(f"tokens of a problem statement: {spread}")
    images = data["images"]
    listed = f"{images['bases']} images: {escape(str(folder / 'images.txt'))}"
    console.print(f"{len(summary.repos)} repositories, {listed}", soft_wrap=True)
    if made := images["recipes"]:
        console.print(f"{made} recipes on them, built by their first environment or swe-plugin cache build")
    if summary.sizes:
        console.print(_sizes(images), soft_wrap=True)
    for reason, count in images.get("unknown", {}).items():
        console.print(f"no size of {count} images: {escape(reason)}", soft_wrap=True)


def image_sizes(bases: Iterable[str]) -> dict[str, Any]:
    """What registries, this machine's store and its Docker daemon know of the sizes of bases. Blocking."""
    from swe_plugin.environments.images import ImageStore
    from swe_plugin.environments.images.estimate import estimate

    bases = list(bases)
    try:
        squash = require_mode("auto") == "user"
    except EnvironmentStartError:
        squash = False
    found, daemon = estimate(bases, ImageStore(), squash=squash), _on_daemon(bases)
    return {
        "layers": found.n_layers,
        "layers_here": found.n_present,
        "here_bytes": found.present_bytes,
        "layers_of_unknown_size": found.n_unknown,
        "total_bytes": found.total_bytes,
        "read_bytes": found.read_bytes,
        "on_daemon": len(daemon),
        "on_daemon_bytes": sum(daemon.values()),
        "unknown": dict(Counter(reason for base, reason in found.failed.items() if base not in daemon)),
    }


def _on_daemon(bases: Iterable[str]) -> dict[str, int]:
    from swe_plugin.environments.docker.settings import DockerSettings

    host = DockerSettings.of({}).host
    if host == DockerSettings.default_host() and not Path(host.removeprefix("unix://")).exists():
        return {}
    from swe_plugin.environments.docker.daemon import local_sizes

    try:
        known = local_sizes(host)
    except EnvironmentStartError:  # no daemon, no images on it
        return {}
    names = {base: base.removeprefix("docker:") for base in bases if base.startswith("docker:")}
    tagged = {base: name if ":" in name.rpartition("/")[2] else f"{name}:latest" for base, name in names.items()}
    return {base: known[name] for base, name in tagged.items() if name in known}


def _sizes(images: Mapping[str, Any]) -> str:
    parts = [
        f"{size(images['total_bytes'])} compressed in {images['layers']} layers",
        f"{images['layers_here']} of them here, {size(images['here_bytes'])} unpacked",
        f"{size(images['read_bytes'])} to read",
    ]
    if unknown := images["layers_of_unknown_size"]:
        parts[-1] += f" and {unknown} of unknown size"
    if images["on_daemon"]:
        parts.append(f"{images['on_daemon']} images on the Docker daemon, {size(images['on_daemon_bytes'])} unpacked")
    return "; ".join(parts)
