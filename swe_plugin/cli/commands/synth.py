"""`swe-plugin synth`."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from swe_plugin.cli.commands.options import FAILED, AsJson, Backend, settings_of

if TYPE_CHECKING:
    from swe_plugin.synth.dataset import Ingredients
    from swe_plugin.synth.report import ProjectReport
    from swe_plugin.synth.settings import SynthSettings

__all__ = ["register"]

_EPILOG = (
    "Examples: swe-plugin synth path/to/repository, swe-plugin synth cachetools==6.2.0 --count 20, swe-plugin synth "
    "click-8.1.8.tar.gz --with 'pytest<8.4' --set swe.environment.memory_mib=1024\n\n"
    "Then: swe-plugin validate OUT/tasks.parquet; swe-plugin prepare tasks OUT/tasks.parquet\n\n"
    "Exit codes: 0; 1 not one task was made; 2 an argument is wrong, or a source's tests cannot be used (says why); "
    "130 Ctrl-C, 143 SIGTERM: no environment is left, and the same command goes on where it stopped."
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(synth)


def synth(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="Directory, .tar.gz, .zip, or NAME==VERSION for pip.")
    ],
    out: Annotated[Path, typer.Option(help="Directory of tasks.parquet, report.json and tried.jsonl.")] = Path(
        "data/synth"
    ),
    count: Annotated[int, typer.Option(min=1, help="Tasks per source.")] = 50,
    attempts: Annotated[int, typer.Option(min=0, help="Bugs tried per source at most; 0: ten per task.")] = 0,
    kind: Annotated[list[str] | None, typer.Option(help="Kind of bug; all, if none is named.")] = None,
    with_: Annotated[list[str] | None, typer.Option("--with", help="Requirement that the tests need.")] = None,
    as_of: Annotated[str, typer.Option(help="Day, YYYY-MM-DD, of the requirements' versions; default: today.")] = "",
    image: Annotated[str, typer.Option(help="Image base with all that the tests need, e.g. docker:REFERENCE.")] = "",
    pytest: Annotated[list[str] | None, typer.Option(help="One more word for pytest.")] = None,
    hint: Annotated[str, typer.Option(help="What a statement names: function, module or none.")] = "function",
    statements: Annotated[str, typer.Option(help="template, or litellm:<provider>/<model>.")] = "template",
    visible: Annotated[float, typer.Option(min=0, max=1, help="Share of the passing tests that agents see.")] = 0.5,
    most_failing: Annotated[float, typer.Option(min=0, max=1, help="Share of the tests that may fail.")] = 0.5,
    per_function: Annotated[int, typer.Option(min=1, help="Tasks per function at most.")] = 3,
    runs: Annotated[int, typer.Option(help="Runs of the tests before and with each bug.")] = 3,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds of one run of a source's tests.")] = 120.0,
    seed: Annotated[int, typer.Option(help="Of every choice.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Bugs at once. Default: one per core.", show_default=False)] = (
        os.cpu_count() or 1
    ),
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="swe.KEY=VALUE", help="Settings, see docs/configuration.md.")
    ] = None,
    backend: Backend = "",
    as_json: AsJson = False,
) -> None:
    """Make verified tasks of any Python repository whose tests run under pytest.

    A small bug is put into a function that tests call. The tests run before and with it, several times: those that
    fail each time become F2P, those that pass each time P2P. The failing ones and a part of the others are hidden. The
    reference fix takes the bug back. Nothing of the repository runs outside the environments.
    """
    from swe_plugin.cli.interrupts import run_command
    from swe_plugin.cli.synth import print_report
    from swe_plugin.synth.dataset import Ingredients
    from swe_plugin.synth.settings import SynthSettings

    logging.getLogger("swe_plugin").addHandler(logging.NullHandler())  # what is logged is in the report
    chosen = SynthSettings(
        count=count,
        attempts=attempts or 10 * count,
        per_function=per_function,
        runs=runs,
        visible=visible,
        most_failing=most_failing,
        hint=hint,
        statements=statements,
        seed=seed,
        timeout_s=timeout,
        arguments=tuple(pytest or ()),
    )
    chosen = replace(chosen, kinds=tuple(kind)) if kind else chosen
    ingredients = Ingredients(sources, with_ or (), image, as_of, jobs)
    work = _synth(ingredients, chosen, out, settings_of(settings, backend))
    reports = run_command(work, stopped="stopped; no environment is left; the same command goes on from here")
    if as_json:
        print(json.dumps({"tasks": str(out / "tasks.parquet"), "projects": [r.to_json() for r in reports]}, indent=2))
    else:
        print_report(reports, [str(out / "tasks.parquet"), str(out / "report.json")], Console(highlight=False))
    raise typer.Exit(0 if any(report.tasks for report in reports) else FAILED)


async def _synth(ingredients: Ingredients, settings: SynthSettings, out: Path, words: list[str]) -> list[ProjectReport]:
    from swe_plugin.cli.episode.before import check_backend
    from swe_plugin.cli.overrides import config_from_words
    from swe_plugin.cli.synth import SynthProgress
    from swe_plugin.plugins import load_plugins
    from swe_plugin.synth.dataset import make_dataset

    config, plugins = config_from_words(words), load_plugins()
    check_backend(config, plugins)
    with SynthProgress(Console(stderr=True, highlight=False), settings.count) as progress:
        return await make_dataset(ingredients, settings, out, config, plugins, progress)
