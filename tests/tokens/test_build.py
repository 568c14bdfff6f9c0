"""From configuration to a renderer."""

from __future__ import annotations

import pytest

from swe_plugin.config import SweConfig
from swe_plugin.errors import ConfigError
from swe_plugin.plugins import load_plugins
from swe_plugin.tokens.renderers.build import build_renderer, pinned_date, read_template
from swe_plugin.types import Message

from . import chatml

DATED = "{{ strftime_now('%d %b %Y') }}\n" + chatml.PLAIN


def built(**policy):
    config = SweConfig()
    for key, value in policy.items():
        setattr(config.policy, key, value)
    return build_renderer(config, load_plugins(), chatml.tokenizer(chatml.PLAIN))


@pytest.mark.parametrize("given", ["path", "text"])
def test_a_template_of_ones_own_by_path_or_text(given, tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_text(DATED, encoding="utf-8")
    renderer = built(chat_template=str(path) if given == "path" else DATED, template_date="2026-01-31")
    assert renderer.decode(renderer.initial([Message("user", "hi")])).startswith("31 Jan 2026<")


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), (b"\xff{{", "no UTF-8 text")])
def test_a_template_that_cannot_be_read_says_so(content, reason, tmp_path):
    path = tmp_path / "mine.jinja"
    if content:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"swe\.policy\.chat_template='.*{reason}"):
        read_template(str(path))


def test_without_a_day_it_is_today():
    from datetime import datetime

    assert pinned_date("")["strftime_now"]("%Y-%m-%d") == datetime.now().date().isoformat()


def test_what_is_no_renderer_is_refused(monkeypatch):
    class Plugins:
        def load(self, kind, name, key):
            return lambda *args, **kwargs: object()

    with pytest.raises(ConfigError, match="is no Renderer: it has no stop_ids, initial, extension, decode"):
        build_renderer(SweConfig(), Plugins(), chatml.tokenizer(chatml.PLAIN))
