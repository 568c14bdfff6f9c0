"""The pictures of docs/tokens.md are what is recorded."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .pictures import pictures

DOCS = Path(__file__).parents[2] / "docs"
FOUND = pictures()


@pytest.mark.parametrize("name", FOUND)
def test_a_picture_is_what_was_recorded(name):
    path = DOCS / f"{name}.svg"
    if os.environ.get("UPDATE"):
        path.write_text(FOUND[name], encoding="utf-8")
    assert path.read_text(encoding="utf-8") == FOUND[name]
    assert ElementTree.fromstring(FOUND[name]).tag.endswith("svg")
    assert f"({name}.svg)" in (DOCS / "tokens.md").read_text(encoding="utf-8")
