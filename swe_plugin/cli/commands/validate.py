"""`swe-plugin validate`."""

from __future__ import annotations

import json
import logging
import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from swe_plugin.cli.commands import completion
from swe_plugin.cli.commands.options import FAILED, AsJson, Backend, Settings, settings_of

if TYPE_CHECKING:
    from swe_plugin.validation.check import Effort
    from swe_plugin.validation.finding import Finding

__all__ = ["register"]

_EPILOG = (
    "Examples: swe-plugin validate data/mine/train.parquet --jobs 8, swe-plugin validate demo swe.slots.start=8\n\n"
    "Then: swe-plugin prepare SOURCE ROWS --keep OUT/keep.txt\n\n"
    "Exit codes: 0 every task is kept; 1 some are not (OUT/report.json says why); 2 an argument, a setting or a row is "
    "wrong; 130 Ctrl-C, 143 SIGTERM: no environment is left, and the same command goes on where it stopped."
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(validate)


def validate(
    dataset: Annotated[
        str,
        typer.Argument(help="Path of a .jsonl or .parquet, or a registered name.", autocompletion=completion.datasets),
    ],
    settings: Settings = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the lists. Default: validate_DATASET below swe.output.dir.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Tasks at once. Default: one per core.", show_default=False)] = (
        os.cpu_count() or 1
    ),
    repeat: Annotated[int, typer.Option(min=1, help="Gradings of the gold patch, and of the untouched tree.")] = 2,
    orders: Annotated[int, typer.Option(min=0, help="Gradings in random orders of the tests (pytest).")] = 1,
    limit: Annotated[int, typer.Option(min=0, help="Only the first tasks; 0: all.")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Check tasks again that were not good.")] = False,
    drop_order_dependent: Annotated[
        bool, typer.Option("--drop-order-dependent", help="Do not keep tasks whose tests depend on their order.")
    ] = False,
    slow_start: Annotated[float, typer.Option(help="Seconds of a start after which an image is named slow.")] = 10.0,
    slow_tests: Annotated[float, typer.Option(help="Seconds of a grading after which a task is named slow.")] = 60.0,
    backend: Backend = "",
    as_json: AsJson = False,
) -> None:
    """Try every task before training: the reference fix must be resolved, the untouched tree must not.

    Repeats find flaky tests, random orders find tests that depend on others. Writes keep.txt for `prepare --keep`,
    report.json and done.jsonl, from which the same command goes on. Environments, worker and grader are those of
    training. What another machine or other settings did is not known: use another --out for them.
    """
    from swe_plugin.cli.interrupts import run_command
    from swe_plugin.cli.validate import print_report
    from swe_plugin.validation.check import Effort
    from swe_plugin.validation.report import Report

    logging.getLogger("swe_plugin").addHandler(logging.NullHandler())  # what is logged is in the findings
    work = _validate(dataset, settings_of(settings, backend), out, jobs, Effort(repeat, orders), limit, again)
    findings, folder = run_command(work, stopped="stopped; no environment is left; the same command goes on from here")
    report = Report(
        findings,
        keep_order_dependent=not drop_order_dependent,
        slow_start_s=slow_start,
        slow_tests_s=slow_tests,
    )
    (folder / "keep.txt").write_text(report.keep_list(), encoding="utf-8")
    (folder / "report.json").write_text(json.dumps(report.to_json(), indent=1, ensure_ascii=False), encoding="utf-8")
    if as_json:
        print(json.dumps(report.to_json() | {"keep_list": str(folder / "keep.txt")}, indent=2))
    else:
        print_report(report, [str(folder / "keep.txt"), str(folder / "report.json")], Console(highlight=False))
    raise typer.Exit(FAILED if report.left_out else 0)


async def _validate(
    dataset: str, words: list[str], out: Path | None, jobs: int, effort: Effort, limit: int, again: bool
) -> tuple[list[Finding], Path]:
    from swe_plugin.cli.episode.before import check_backend
    from swe_plugin.cli.overrides import config_from_words
    from swe_plugin.cli.validate import LiveTable
    from swe_plugin.data.ledger import Ledger
    from swe_plugin.data.source import open_tasks
    from swe_plugin.plugins import load_plugins
    from swe_plugin.validation.run import prepare_config
    from swe_plugin.validation.run import validate as run

    config, plugins = prepare_config(config_from_words(words), jobs), load_plugins()
    check_backend(config, plugins)
    folder = out or Path(config.output.dir) / f"validate_{Path(dataset).stem}"
    total = sum(1 for _ in islice(open_tasks(dataset, config, plugins, "dataset"), limit or None))
    tasks = islice(open_tasks(dataset, config, plugins, "dataset"), limit or None)
    with (
        Ledger(folder / "done.jsonl", "--out") as ledger,
        LiveTable(Console(stderr=True, highlight=False), total) as table,
    ):
        findings = await run(tasks, config, plugins, ledger, table, effort=effort, jobs=jobs, again=again)
    return findings, folder
