"""The typer application. Commands of plugins (hook `swe_register_commands`) appear beside ours."""

from __future__ import annotations

from collections.abc import Callable

import typer
from rich.console import Console
from rich.markup import escape

from swe_plugin.cli.commands import (
    audit,
    cache,
    clean,
    convert,
    doctor,
    eval_,
    new,
    plugins,
    prepare,
    recipes,
    report,
    synth,
    tasks,
    timeline,
    top,
    train,
    try_,
    validate,
    version,
)
from swe_plugin.cli.commands.options import FAILED, PASS_ON, fail
from swe_plugin.errors import PluginError

__all__ = ["build_app"]

_COMMANDS = (
    doctor,
    train,
    report,
    top,
    timeline,
    audit,
    convert,
    tasks,
    prepare,
    synth,
    validate,
    try_,
    eval_,
    recipes,
    plugins,
    new,
    cache,
    clean,
    version,
)
"""In the order of `--help`."""


def build_app() -> typer.Typer:
    """Our commands, and those of plugins; a plugin's command that cannot be loaded says so when it is called."""
    app = typer.Typer(name="swe-plugin", help="Software-engineering RL for verl.", no_args_is_help=True)
    for command in _COMMANDS:
        command.register(app)
    _add_plugin_commands(app)
    return app


def _add_plugin_commands(app: typer.Typer) -> None:
    from swe_plugin.plugins import load_plugins

    loaded = load_plugins()
    ours = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    ours |= {group.name or "" for group in app.registered_groups}
    for name in loaded.names("commands"):
        try:
            if name in ours:
                raise PluginError("the name is that of a command of ours")
            group = loaded.load("commands", name, "swe-plugin")
            if not isinstance(group, typer.Typer):
                raise PluginError("its target is no typer app")
        except PluginError as error:
            message = f"command {name!r} of {loaded.entries['commands', name].distribution}: {error}"
            if name in ours:
                Console(stderr=True).print(f"[red]{escape(message)}[/red]", soft_wrap=True)
            else:
                app.command(name, help="Cannot be loaded.", context_settings=PASS_ON)(_broken(message))
        else:
            app.add_typer(group, name=name)


def _broken(message: str) -> Callable[[], None]:
    """A command that ends with `message`, whatever words it is given."""

    def command() -> None:
        fail(message, FAILED)

    return command
