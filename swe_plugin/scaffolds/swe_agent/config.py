"""`AgentConfig`: what we take from a configuration of SWE-agent; anything else in it is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from swe_plugin.config import read_options
from swe_plugin.errors import ConfigError
from swe_plugin.scaffolds.swe_agent.history import HistoryProcessor, make_processor
from swe_plugin.scaffolds.swe_agent.parsers import PARSERS

__all__ = ["BUNDLES", "AgentConfig", "Templates", "Tools", "read_config"]

KEY = "swe.scaffold.options.config"
BUNDLES: Mapping[str, tuple[str, ...]] = {
    "registry": (),
    "edit_anthropic": ("str_replace_editor",),
    "submit": ("submit",),
    "review_on_submit_m": ("submit",),
}
"""Bundle, by the last part of its path -> its tools."""
_OURS = ("name", "model", "type", "action_sampler")
"""Keys of ``agent`` that verl's or our configuration stands for; of ``model`` only the limit of calls is read."""


@dataclass
class Templates:
    """Jinja texts; variables: docs/migrating.md."""

    system_template: str = ""
    instance_template: str = "{{ problem_statement }}"
    next_step_template: str = "Observation: {{ observation }}"
    next_step_no_output_template: str = "Your command ran successfully and did not produce any output."
    next_step_truncated_observation_template: str = (
        "Observation: {{ observation }}<response clipped>\nObservations must not exceed {{ max_observation_length }} "
        "characters; {{ elided_chars }} were left out."
    )
    max_observation_length: int = 100_000
    command_cancelled_timeout_template: str = (
        "The command '{{ command }}' was cancelled because it took more than {{ timeout }} seconds."
    )
    shell_check_error_template: str = ""
    """Not used: a script with a syntax error runs and says so itself."""
    demonstrations: list[Any] = field(default_factory=list)
    put_demos_in_history: bool = False
    disable_image_processing: bool = False


@dataclass
class Tools:
    """What the agent can call, and how long that may take."""

    bundles: list[Any] = field(default_factory=list)
    enable_bash_tool: bool = True
    parse_function: dict[str, Any] = field(default_factory=lambda: {"type": "function_calling"})
    env_variables: dict[str, Any] = field(default_factory=dict)
    registry_variables: dict[str, Any] = field(default_factory=dict)
    execution_timeout: float = 30.0
    total_execution_timeout: float = 1800.0
    max_consecutive_execution_timeouts: int = 3
    format_error_template: str = ""
    install_timeout: int = 300
    """Not used: nothing is installed."""


@dataclass(frozen=True)
class AgentConfig:
    """One configuration, checked.

    Attributes:
        templates, tools: as written, with SWE-agent's defaults.
        names: of the tools.
        parse_function: key of `PARSERS`, or ``function_calling``.
        review: messages that the first submissions are answered with, one each.
        processors: of the history, in order.
        max_requeries: answers in a row without an action after the first one.
        max_calls: answers; 0: no limit but ``swe.scaffold.max_turns``.
    """

    templates: Templates
    tools: Tools
    names: tuple[str, ...]
    parse_function: str
    review: tuple[str, ...]
    processors: tuple[HistoryProcessor, ...]
    max_requeries: int = 3
    max_calls: int = 0


def read_config(path: str) -> AgentConfig:
    """Read the section ``agent`` of a YAML file.

    Raises:
        ConfigError: it cannot be read, or holds something that is not supported here; names it.
    """
    try:
        agent = dict(yaml.safe_load(Path(path).read_text(encoding="utf-8"))["agent"])
    except (OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        fix = f"give the path of a configuration of SWE-agent, with a section agent ({type(error).__name__}: {error})"
        raise ConfigError(KEY, path, fix) from error
    known = {"templates", "tools", "history_processors", "max_requeries", *_OURS}
    if unknown := sorted(agent.keys() - known):
        raise ConfigError(f"{KEY}: agent.{unknown[0]}", agent[unknown[0]], "is not supported; remove it")
    templates = read_options(Templates, agent.get("templates") or {}, f"{KEY}: agent.templates")
    if templates.demonstrations:
        raise ConfigError(
            f"{KEY}: agent.templates.demonstrations", templates.demonstrations, "cannot be trained on; remove"
        )
    tools = read_options(Tools, agent.get("tools") or {}, f"{KEY}: agent.tools")
    bundles = [_bundle(bundle) for bundle in tools.bundles]
    names = [name for bundle in bundles for name in BUNDLES[bundle]]
    kind = str(tools.parse_function.get("type"))
    if kind not in (*PARSERS, "function_calling"):
        fix = f"there are {', '.join((*PARSERS, 'function_calling'))}"
        raise ConfigError(f"{KEY}: agent.tools.parse_function.type", kind, fix)
    reviews = "review_on_submit_m" in bundles
    processors = [make_processor(item, KEY) for item in agent.get("history_processors") or ()]
    return AgentConfig(
        templates,
        tools,
        tuple(dict.fromkeys([*(["bash"] if tools.enable_bash_tool else []), *names])),
        kind,
        tuple(tools.registry_variables.get("SUBMIT_REVIEW_MESSAGES", [_REVIEW]) if reviews else ()),
        tuple(made for made in processors if made is not None),
        int(agent.get("max_requeries", 3)),
        int((agent.get("model") or {}).get("per_instance_call_limit") or 0),
    )


_REVIEW = (
    "Before this is handed in, look at your changes once more:\n\n<diff>\n{{ diff }}\n</diff>\n\n"
    "Remove what is not part of the fix, then submit again."
)


def _bundle(raw: Any) -> str:
    name = PurePosixPath(str(raw.get("path", "") if isinstance(raw, Mapping) else raw)).name
    if name not in BUNDLES:
        raise ConfigError(f"{KEY}: agent.tools.bundles", name, f"no such bundle here; there are {', '.join(BUNDLES)}")
    return name
