"""The model: there, with weights, a tokenizer, and a chat template that can be trained turn by turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swe_plugin.errors import ConfigError
from swe_plugin.preflight.finding import Finding
from swe_plugin.scaffolds.parsers import TOOLS
from swe_plugin.scaffolds.templates import Prompts
from swe_plugin.tokens.renderers.build import pinned_date, read_template, stop_ids_of
from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer
from swe_plugin.types import Message, Task
from swe_plugin.verl_adapter.checks.settings import ROLLOUT, Settings

__all__ = ["check_model"]

_PATH = "actor_rollout_ref.model.path"
_TRUST = "actor_rollout_ref.model.trust_remote_code"
_OWN_RENDERER = "chat_template"
_HUB_TIMEOUT_S = 10.0
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt")


def check_model(s: Settings) -> Iterator[Finding]:
    """Load what the run will load, but for the weights."""
    path = s.get(_PATH)
    if path is None:
        yield s.rule(_PATH, s.swe.demo.enabled, "name a directory or a model of the Hugging Face hub", "the demo's own")
        return
    problem = _missing(str(path))
    yield s.rule(_PATH, not problem, problem, str(path))
    if not problem and "://" not in str(path):
        yield from _window(s)
        yield from _template(s)


def _missing(path: str) -> str:
    """Why no model can be had from `path`, or empty."""
    if "://" in path:
        return ""  # verl copies it from there
    directory = Path(path).expanduser()
    if directory.is_dir():
        if not (directory / "config.json").is_file():
            return "this directory has no config.json: name one that `save_pretrained` or a download wrote"
        if not any(next(directory.glob(pattern), None) for pattern in _WEIGHTS):
            return "this directory has no weights (*.safetensors): download or convert the model again"
        return ""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", path) or path.startswith("."):
        return "no such directory; name one that exists, or a model of the Hugging Face hub (owner/name)"
    return _missing_from_hub(path)


def _missing_from_hub(name: str) -> str:
    """Ask the cache, then the hub: once and briefly, where a library would try for a minute."""
    import huggingface_hub as hub
    from huggingface_hub.errors import RepositoryNotFoundError

    if isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        return ""
    try:
        hub.HfApi().model_info(name, timeout=_HUB_TIMEOUT_S)
    except RepositoryNotFoundError:
        return "neither a directory here nor a model of the Hugging Face hub that this user may read"
    except Exception as error:  # also the errors of the client's HTTP library, which differ by version
        return (
            f"no such directory, not in the cache, and the Hugging Face hub does not answer ({type(error).__name__}): "
            f"run `hf download {name}` where there is a network, or name a directory"
        )
    return ""


def _expanded(path: str) -> str:
    return str(Path(path).expanduser())


def _window(s: Settings) -> Iterator[Finding]:
    """vLLM refuses a window beyond the model's, unless its positions are scaled."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(_expanded(s.get(_PATH)), trust_remote_code=bool(s.get(_TRUST)))
        config = config.get_text_config()
    except Exception as error:  # whatever a broken or unknown configuration raises
        yield s.rule(_PATH, False, f"its config.json cannot be used: {type(error).__name__}: {error}")
        return
    positions = getattr(config, "max_position_embeddings", None)
    scaled = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default") != "default"
    key = f"{ROLLOUT}.max_model_len"
    wanted = s.get(key) or s.get(f"{ROLLOUT}.prompt_length") + s.get(f"{ROLLOUT}.response_length")
    fits = positions is None or scaled or wanted <= positions
    yield s.rule(key, fits, f"must not exceed the model's {positions} positions", f"{positions} positions")


def _template(s: Settings) -> Iterator[Finding]:
    from transformers import AutoTokenizer

    name = "actor_rollout_ref.model.tokenizer_path"
    key = name if s.get(name) else _PATH
    path = str(s.get(key))
    try:
        tokenizer = AutoTokenizer.from_pretrained(_expanded(path), trust_remote_code=bool(s.get(_TRUST)))
    except Exception as error:  # whatever a broken tokenizer raises
        reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        yield s.rule(key, False, f"its tokenizer cannot be loaded: {reason}")
        return
    given = read_template(s.swe.policy.chat_template) or s.get("actor_rollout_ref.model.custom_chat_template")
    if not given and not tokenizer.chat_template:
        fix = f"the tokenizer of {path} has no chat template: give the path of a jinja file that has one"
        raise ConfigError("swe.policy.chat_template", s.swe.policy.chat_template, fix)
    yield from _try_template(s, tokenizer, given)


def _opening(s: Settings) -> list[Message]:
    """What a rollout of the bash agent begins with, so that a template that takes no system prompt is refused early."""
    task = Task("check", "solve it")
    return Prompts(s.swe.scaffold).opening(task) if s.swe.scaffold.name == "bash" else [Message("user", "solve it")]


def _stop_ids(s: Settings) -> list[int]:
    from transformers import GenerationConfig

    try:
        return stop_ids_of(GenerationConfig.from_pretrained(_expanded(s.get(_PATH))))
    except OSError:  # many models have none
        return []


def _try_template(s: Settings, tokenizer: Any, given: str | None) -> Iterator[Finding]:
    """Raises ConfigError: not append-only, or without tools where the agent acts through them."""
    given_variables = s.get("data.apply_chat_template_kwargs") or {}
    variables = {**pinned_date(s.swe.policy.template_date), **given_variables}
    if s.swe.policy.renderer != _OWN_RENDERER:
        yield Finding("chat template", True, f"is the business of renderer {s.swe.policy.renderer}")
        return
    tools = TOOLS if s.swe.scaffold.action == "tools" else ()
    try:
        renderer = ChatTemplateRenderer(
            tokenizer, given, stop_ids=_stop_ids(s), template_kwargs=variables, tools=bool(tools)
        )
        renderer.initial(_opening(s), tools=tools)
    except ConfigError as error:
        if not tools:
            raise
        fix = f"the chat template cannot do tools ({error.fix}); many that cannot work with swe.scaffold.action=fenced"
        yield s.rule("swe.scaffold.action", False, fix)
        return
    yield Finding("chat template", True, "; ".join(["chat template is append-only", *renderer.report.notes]))
    if tools:
        yield Finding("tools", True, f"it shows tools and their calls (written as {renderer.report.call_form})")
