"""`swe-plugin prepare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from swe_plugin.cli.commands.options import FAILED, AsJson, fail
from swe_plugin.errors import ConfigError, PluginError

__all__ = ["register"]

_EPILOG = (
    "Example: swe-plugin prepare swe-bench-verified verified.parquet --out data/verified --shuffle 0 --val-fraction 0.1"
    "\n\nExit codes: 0; 1 not one row was kept; 2 an argument is wrong or a file cannot be read."
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(prepare)


def prepare(
    source: Annotated[str, typer.Argument(help="Name of a dataset (swe-plugin plugins), or a mapping in YAML.")],
    rows: Annotated[
        list[str] | None, typer.Argument(help=".jsonl or .parquet, or hub:OWNER/NAME[:SPLIT]; none: the dataset's hub.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory; default data/SOURCE.")] = None,
    where: Annotated[list[str] | None, typer.Option(help="COLUMN=GLOB or COLUMN!=GLOB; all must hold.")] = None,
    keep: Annotated[Path | None, typer.Option(help="File of instance ids, one a line: no others.")] = None,
    max_tests: Annotated[int, typer.Option(help="Tests of a task at most; 0: any number.")] = 0,
    tokenizer: Annotated[str, typer.Option(help="Directory of a model: count the statements' tokens.")] = "",
    max_statement_tokens: Annotated[int, typer.Option(help="With --tokenizer; 0: any number.")] = 0,
    shuffle: Annotated[int | None, typer.Option(help="Seed of a random order.")] = None,
    part: Annotated[str, typer.Option("--slice", help="START:STOP, after the shuffle.")] = "",
    val_fraction: Annotated[float, typer.Option(min=0, max=0.99, help="Share held out, by whole repositories.")] = 0.0,
    val_repos: Annotated[list[str] | None, typer.Option(help="Globs of repositories that are held out.")] = None,
    seed: Annotated[int, typer.Option(help="Which repositories --val-fraction holds out.")] = 0,
    sizes: Annotated[
        bool, typer.Option(help="Look up how large the images are: asks registries for manifests.")
    ] = True,
    data_source: Annotated[str, typer.Option(help="Name in the files; default SOURCE.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make training files of a published dataset or of your own rows, and say what was left out and why."""
    from swe_plugin.cli.prepare import image_sizes, print_summary
    from swe_plugin.config import SweConfig
    from swe_plugin.data.prepare.inputs import open_source
    from swe_plugin.data.prepare.run import prepare as run
    from swe_plugin.data.prepare.run import token_counter
    from swe_plugin.data.prepare.selection import Condition, Selection, read_keep_list, read_slice
    from swe_plugin.plugins import load_plugins

    try:
        if max_statement_tokens and not tokenizer:
            raise ConfigError("--max-statement-tokens", max_statement_tokens, "needs --tokenizer")
        selection = Selection(
            where=tuple(map(Condition.parse, where or ())),
            keep=read_keep_list(keep) if keep else None,
            max_tests=max_tests,
            max_statement_tokens=max_statement_tokens,
            shuffle=shuffle,
            part=read_slice(part),
            val_repos=tuple(val_repos or ()),
            val_fraction=val_fraction,
            seed=seed,
        )
        found, read = open_source(source, rows or (), SweConfig(), load_plugins())
        name = Path(source).stem if source.endswith((".yaml", ".yml")) else source
        folder = out or Path("data") / name
        count = token_counter(tokenizer) if tokenizer else None
        measure = image_sizes if sizes else None
        summary = run(found, read, selection, folder, data_source=data_source or name, count=count, measure=measure)
    except (ConfigError, PluginError) as error:
        fail(error)
    except OSError as error:
        fail(f"--out={str(out)!r}: cannot be written: {error}")
    if as_json:
        print(json.dumps(summary.to_json(), indent=2))
    else:
        print_summary(summary, folder)
    raise typer.Exit(0 if summary.kept else FAILED)
