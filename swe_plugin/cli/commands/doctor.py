"""`swe-plugin doctor`."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from swe_plugin.cli.commands.options import FAILED, PASS_ON, AsJson, fail

if TYPE_CHECKING:
    from swe_plugin.preflight.finding import Finding

__all__ = ["register"]

_EPILOG = (
    "Example: swe-plugin doctor --recipe demo_ppo swe.slots.running=64\n\n"
    "docs/doctor.md says what each line means. Nothing is started that stays, and no run directory is made.\n\n"
    "Exit codes: 0 where everything holds; 1 where something does not; 2 where the command line is wrong."
)
_NAME_WIDTH = 22


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG, context_settings=PASS_ON)(doctor)


def doctor(
    context: typer.Context,
    recipe: Annotated[str, typer.Option(help="Recipe after +plugin=swe/; none: the embedded demo.")] = "",
    as_json: AsJson = False,
) -> None:
    """Look at this machine, this installation and a recipe; each line that fails says the fix.

    Takes the words of a training: `key=value`, `+plugin=...`, `--config-dir`. Works without verl and without a GPU.
    """
    from swe_plugin.cli.doctor import examine

    words = _words(recipe, context.args)
    findings: list[Finding] = []
    console, status = Console(highlight=False), Console(stderr=True)
    with status.status("looking at this machine") as spinner:
        for finding in examine(words, spinner.update):
            findings.append(finding)
            if not as_json:
                _print(console, finding)
    failing = sum(not finding.ok for finding in findings)
    if as_json:
        print(json.dumps({"ok": not failing, "findings": [finding.to_dict() for finding in findings]}, indent=2))
    else:
        console.print(f"[red]{failing} of {len(findings)} fail[/red]" if failing else "[green]all fine[/green]")
    raise typer.Exit(FAILED if failing else 0)


def _words(recipe: str, given: list[str]) -> list[str]:
    """The words of the training that is meant."""
    from swe_plugin.cli.recipes import find_recipes

    names = [found.name.removeprefix("swe/") for found in find_recipes()]
    if recipe and recipe not in names:
        near = difflib.get_close_matches(recipe, names, n=1)
        fail(f"--recipe {recipe}: " + (f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"))
    for word in given:
        if "=" not in word and word[0] not in "-~" and not _follows_option(word, given):
            fail(f"{word}: must be key=value, as in swe.slots.running=64")
    if any(word.lstrip("+").startswith("plugin=") for word in given):
        if recipe:
            fail(f"--recipe {recipe}: there is a plugin= among the words already; leave one of them out")
        return given
    return [f"+plugin=swe/{recipe}" if recipe and recipe != "swe" else "+plugin=swe", *given]


def _follows_option(word: str, given: list[str]) -> bool:
    return given[max(given.index(word) - 1, 0)] in ("--config-dir", "-cd", "--config-name", "-cn")


def _print(console: Console, finding: Finding) -> None:
    mark = "[green]ok  [/green]" if finding.ok else "[red]FAIL[/red]"
    console.print(f"{mark} {escape(finding.name.ljust(_NAME_WIDTH))} {escape(finding.line)}", soft_wrap=True)
