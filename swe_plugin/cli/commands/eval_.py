"""`swe-plugin eval`."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from swe_plugin.cli.commands import completion
from swe_plugin.cli.commands.options import FAILED, USAGE, AsJson, Backend, Dataset, Script, Settings, fail, settings_of
from swe_plugin.cli.interrupts import INTERRUPTED, TERMINATED
from swe_plugin.errors import SwePluginError, TooManyFailures

if TYPE_CHECKING:
    from swe_plugin.cli.evaluation.job import Done
    from swe_plugin.cli.evaluation.words import Words

__all__ = ["register"]

_EPILOG = (
    "Examples: swe-plugin eval --policy gold --limit 20, swe-plugin eval --policy litellm:openai/my-model --api-base "
    "http://localhost:8000/v1 --dataset val.parquet --samples 4 --temperature 0.8 --out evals/mine, swe-plugin eval "
    "--predictions preds.json --dataset val.parquet\n\nExit codes: 0 every sample has a verdict, whatever it is; 1 "
    "some have none, because infrastructure failed (the same command tries them again); 2 an argument or a setting is "
    "wrong and nothing was started; 130 Ctrl-C, 143 SIGTERM: nothing is left running, the same command goes on."
)
_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("eval", epilog=_EPILOG)(eval_)


def eval_(
    settings: Settings = None,
    policy: Annotated[
        str,
        typer.Option(
            help="gold, empty, scripted or litellm:<provider>/<model>.", autocompletion=completion.unattended_policies
        ),
    ] = "",
    predictions: Annotated[
        list[Path] | None,
        typer.Option(help="Grade a file in SWE-bench's format (.json, .jsonl); once per sample. No agent runs."),
    ] = None,
    dataset: Dataset = "demo",
    split: Annotated[str, typer.Option(help="Only tasks whose metadata says so, e.g. heldout of the demo.")] = "",
    only: Annotated[list[str] | None, typer.Option(help="Glob over instance ids; may be repeated.")] = None,
    keep: Annotated[Path | None, typer.Option(help="File of instance ids, one a line: no others.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Tasks at most; 0: all.")] = 0,
    samples: Annotated[int, typer.Option("--samples", "-n", min=1, help="Attempts at each task.")] = 1,
    k: Annotated[list[int] | None, typer.Option(help="Of pass@k; may be repeated. Default: 1, and --samples.")] = None,
    seed: Annotated[int, typer.Option(help="Of sampling: each sample has its own, made of this one.")] = 0,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0, show_default=False, help="Short for swe.policy.litellm.temperature. Default: the server's."
        ),
    ] = None,
    api_base: Annotated[str, typer.Option(help="Short for swe.policy.litellm.api_base: a server of your own.")] = "",
    concurrency: Annotated[int, typer.Option(min=1, help="Samples at once.")] = 8,
    backend: Backend = "",
    script: Script = None,
    out: Annotated[
        Path | None,
        typer.Option(show_default=False, help="Directory; one that exists is gone on with. Default: a new one."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a policy over a dataset, or grade a file of predictions, and say how good it is.

    Agent, environment, grader and records are those of training. Rates are over samples that have a verdict; how many
    have none, because infrastructure failed, stands beside each.
    """
    from swe_plugin.cli.evaluation.words import Words

    try:
        words = Words(
            settings=settings_of(
                settings, backend, policy__litellm__temperature=temperature, policy__litellm__api_base=api_base or None
            ),
            policy=policy,
            predictions=predictions or (),
            script=script,
            dataset=dataset,
            split=split,
            only=only or (),
            keep=keep,
            limit=limit,
            samples=samples,
            ks=k or (),
            seed=seed,
            concurrency=concurrency,
            out=out,
        )
        done = _run(words, as_json)
    except SwePluginError as error:
        fail(error, FAILED if isinstance(error, TooManyFailures) else USAGE)
    except KeyboardInterrupt:
        fail("stopped before anything was started", _CODES[signal.SIGINT])
    except OSError as error:
        fail(f"cannot write: {error}", FAILED)
    _end(done)


def _end(done: Done) -> None:
    """The exit code, and why it is not 0."""
    if done.stopped_by is not None:
        fail(
            f"stopped after {done.ran} samples; nothing is left running, the same command goes on",
            _CODES[done.stopped_by],
        )
    if done.summary.total.failed:
        fail(f"{done.summary.total.failed} samples have no verdict; the same command tries them again", FAILED)


def _run(words: Words, as_json: bool) -> Done:
    from swe_plugin.cli.evaluation.job import prepare
    from swe_plugin.cli.evaluation.table import print_summary

    job = prepare(words)
    done = asyncio.run(job.run(Console(stderr=True, quiet=as_json, highlight=False)))
    if as_json:
        print(json.dumps(done.summary.to_json() | {"out": str(job.out)}, indent=2))
    else:
        console = Console(highlight=False)
        print_summary(done.summary, console)
        console.print(f"in {job.out}: report.json, preds.json, results.jsonl, records", soft_wrap=True, markup=False)
    return done
