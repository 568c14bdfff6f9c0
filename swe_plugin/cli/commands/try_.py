"""`swe-plugin try`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from swe_plugin.cli.commands import completion
from swe_plugin.cli.commands.options import FAILED, AsJson, Backend, Dataset, Script, Settings, fail, settings_of
from swe_plugin.cli.interrupts import run_command

if TYPE_CHECKING:
    from swe_plugin.cli.episode.runner import Tried

__all__ = ["register"]

_EPILOG = (
    "Examples: swe-plugin try demo__orchard-score-1 --policy gold, swe-plugin try demo__orchard-score-1 --policy "
    "litellm:openai/gpt-5-mini swe.scaffold.max_turns=10\n\nExit codes: 0 the episode ended and was graded, whatever "
    "the reward; 1 infrastructure failed, so that there is no verdict (the cause is shown); 2 an argument or a setting "
    "is wrong and nothing was started; 130 Ctrl-C, 143 SIGTERM: nothing is left, nothing is recorded."
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("try", epilog=_EPILOG)(try_)


def try_(
    task: Annotated[str, typer.Argument(help="Instance id, see `swe-plugin tasks`.", autocompletion=completion.tasks)],
    settings: Settings = None,
    policy: Annotated[
        str,
        typer.Option(
            help="gold, empty, scripted, keyboard or litellm:<provider>/<model>.", autocompletion=completion.policies
        ),
    ] = "keyboard",
    dataset: Dataset = "demo",
    backend: Backend = "",
    script: Script = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the record. Default: below swe.output.dir.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run one real episode without verl, Ray or a GPU, and show it as it happens.

    Agent, environment, grader and record are those of training; only the policy is another one:

    gold applies the reference fix (reward 1, or the task is broken). empty submits at once (reward 0, or the tests
    prove nothing). scripted plays a file. keyboard lets you type the commands. litellm:<provider>/<model> asks a hosted
    model; its API key comes from the provider's environment variable.
    """
    tried = run_command(_try(task, settings_of(settings, backend), policy, dataset, script, out, as_json))
    if tried.result.reward is None:
        causes = [failure.error for failure in tried.result.failures]
        fail(f"no verdict ({tried.result.stop}): {causes[-1] if causes else 'see the record'}", FAILED)


async def _try(
    instance_id: str, words: list[str], policy: str, dataset: str, script: Path | None, out: Path | None, as_json: bool
) -> Tried:
    from swe_plugin.cli.episode.before import check_episode, check_writable
    from swe_plugin.cli.episode.choice import choose
    from swe_plugin.cli.episode.runner import run_episode
    from swe_plugin.cli.episode.summary import print_summary, summarize
    from swe_plugin.cli.episode.view import EpisodeView
    from swe_plugin.cli.overrides import config_from_words
    from swe_plugin.cli.tasks import find_task
    from swe_plugin.data.source import open_tasks
    from swe_plugin.plugins import load_plugins

    config, plugins = config_from_words(words), load_plugins()
    console = Console(stderr=as_json, quiet=as_json and policy != "keyboard", highlight=False)
    choice = choose(policy, script, config, console)
    config.scaffold.name = choice.scaffold or config.scaffold.name
    task = find_task(open_tasks(dataset, config, plugins, "--dataset"), instance_id, dataset)
    named = config.output.run or time.strftime("try_%Y-%m-%d_%H-%M-%S")
    run_dir = out or Path(config.output.dir) / named
    check_writable(run_dir, "--out" if out else "swe.output.dir")
    check_episode(task, config, plugins)
    view = EpisodeView(console, task)
    tried = await run_episode(task, choice.policy(None), config, plugins, run_dir, view)
    if as_json:
        print(json.dumps(summarize(tried, policy), indent=2))
    else:
        print_summary(tried, policy, console)
    return tried
