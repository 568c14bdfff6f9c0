"""From configuration to a `Renderer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from swe_plugin.errors import ConfigError
from swe_plugin.tokens.renderer import Renderer

if TYPE_CHECKING:
    from swe_plugin.config import SweConfig
    from swe_plugin.plugins import Plugins

__all__ = ["RendererFactory", "build_renderer", "pinned_date", "read_template", "stop_ids_of"]


_JINJA = ("{{", "{%")


class RendererFactory(Protocol):
    """What ``swe_register_renderers`` registers. It is called once per process, before the first rollout: what it
    cannot render exactly it refuses here."""

    def __call__(
        self,
        tokenizer: Any,
        chat_template: str | None,
        *,
        stop_ids: Iterable[int],
        template_kwargs: Mapping[str, Any],
        tools: bool,
    ) -> Renderer:
        """Make a renderer.

        Args:
            tokenizer: the model's, of Hugging Face.
            chat_template: jinja text of ``swe.policy.chat_template``; None: the tokenizer's own.
            stop_ids: ids at which the server ends a turn by itself.
            template_kwargs: variables for the template.
            tools: the run offers tools to the model.

        Raises:
            ConfigError: it cannot render what this run needs.
        """
        ...


def build_renderer(
    config: SweConfig,
    plugins: Plugins,
    tokenizer: Any,
    *,
    stop_ids: Iterable[int] = (),
    template_kwargs: Mapping[str, Any] | None = None,
) -> Renderer:
    """The renderer of ``swe.policy.renderer``.

    Raises:
        ConfigError: no such renderer or template, or it refuses the template.
        PluginError: it cannot be imported.
    """
    factory: RendererFactory = plugins.load("renderers", config.policy.renderer, "swe.policy.renderer")
    renderer = factory(
        tokenizer,
        read_template(config.policy.chat_template),
        stop_ids=stop_ids,
        template_kwargs={**pinned_date(config.policy.template_date), **(template_kwargs or {})},
        tools=config.scaffold.action == "tools",
    )
    if not isinstance(renderer, Renderer):
        lacks = [name for name in ("stop_ids", "initial", "extension", "decode") if not hasattr(renderer, name)]
        raise ConfigError(
            "swe.policy.renderer", config.policy.renderer, f"is no Renderer: it has no {', '.join(lacks)}"
        )
    return renderer


def stop_ids_of(generation_config: Any) -> list[int]:
    """Ids at which an inference server ends a turn by itself, from a model's generation configuration (or None)."""
    ids = getattr(generation_config, "eos_token_id", None)
    return [] if ids is None else [ids] if isinstance(ids, int) else list(ids)


def pinned_date(text: str) -> dict[str, Any]:
    """Template variables that stop the clock: `strftime_now`, which Hugging Face gives templates, tells one day.

    Args:
        text: the day as YYYY-MM-DD; empty: today.
    """
    day = date.fromisoformat(text) if text else datetime.now().date()
    return {"strftime_now": datetime(day.year, day.month, day.day).strftime}


def read_template(given: str) -> str | None:
    """Text of ``swe.policy.chat_template``, None if it is not set.

    Args:
        given: path of a file, or the text itself, which has ``{{`` or ``{%``.

    Raises:
        ConfigError: the file cannot be read.
    """
    if not given:
        return None
    if any(mark in given for mark in _JINJA):
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        fix = f"cannot be read ({reason}): give the path of a jinja file, or its text"
        raise ConfigError("swe.policy.chat_template", given, fix) from error
