"""Real chat templates: every cell is exact, kept with a note, or refused with a reason; never silently wrong."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer

from .families import CASES, FAMILIES, TEMPLATES, Family, cell, page

pytestmark = pytest.mark.templates
PAGE = Path(__file__).parents[2] / "docs" / "families.md"


@cache
def found(family: Family, case: str) -> tuple[str, str]:
    return cell(family, CASES[case])


@pytest.fixture(autouse=True, scope="module")
def templates():
    assert any(TEMPLATES.glob("*.jinja")), f"no templates in {TEMPLATES}: `make test-templates` fetches them"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_cell_is_silently_wrong(family, case):
    state, reason = found(family, case)
    assert state in ("exact", "kept", "refused")
    assert (state == "exact") == (reason == "")


def test_the_page_is_what_was_found():
    text = page(found)
    if os.environ.get("UPDATE"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text


def test_a_date_is_that_of_the_run(monkeypatch):
    from swe_plugin.tokens.renderers.build import pinned_date
    from swe_plugin.types import Message

    family = next(f for f in FAMILIES if f.name == "Llama-3.2")
    renderer = ChatTemplateRenderer(family.tokenizer(), template_kwargs=pinned_date("2026-01-31"))
    text = family.tokenizer().decode(renderer.initial([Message("user", "hi")]))
    assert "31 Jan 2026" in text
