"""The documentation is complete, current and connected."""

import re
from pathlib import Path

import pytest

from swe_plugin import hookspecs
from swe_plugin.cli.app import build_app
from swe_plugin.cli.docs import keys, main
from swe_plugin.cli.recipes import find_recipes

from .shell_blocks import blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("swe_plugin/**/*.md"),
        *ROOT.glob("recipes/*.md"),
    ]
    if ".venv" not in page.parts
)
HOOKS = [name for name in vars(hookspecs) if name.startswith("swe_")]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_generated_pages_are_current():
    assert main(["--check"]) == 0, "make docs"


@pytest.mark.parametrize("key", keys(), ids=lambda key: key.path)
def test_every_key_has_a_meaning_and_a_row(key):
    assert key.meaning, f"{key.path} has no docstring in the schema"
    assert f"`{key.path}`" in text("docs/configuration.md")


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_explained_to_plugin_authors(hook):
    assert f"`{hook}`" in text("docs/writing_a_plugin.md")
    assert getattr(hookspecs, hook).__doc__


def test_the_backend_that_the_page_explains_is_the_example():
    shown = [block for block in blocks(text("docs/writing_a_backend.md")) if block.file]
    assert len(shown) == 2
    for block in shown:
        assert block.text == text(f"tests/example_plugin/{block.file}"), block.file


def test_every_metric_of_ours_is_explained():
    source = text("swe_plugin/verl_adapter/metrics.py")
    names = set(re.findall(r'"(swe/[\w/]+[\w])[/{"]', source)) - {"swe/stop"}
    assert len(names) > 15
    assert not {
        name
        for name in names
        if f"`{name}`" not in text("docs/metrics.md") and f"`{name}/*`" not in text("docs/metrics.md")
    }


def test_every_command_is_mentioned():
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for command in build_app().registered_commands:
        name = command.name or command.callback.__name__
        assert re.search(rf"swe-plugin [^\n]*\b{name}\b", pages), name


def test_every_command_has_a_manual():
    for command in build_app().registered_commands:
        assert command.callback.__doc__
        for part in ("Examples?:", "Exit codes:"):
            assert re.search(part, command.epilog or ""), f"{command.callback.__name__}: {part}"


def test_every_recipe_is_described_with_its_state():
    for recipe in find_recipes():
        assert f"`{recipe.name}`" in text("docs/recipes.md"), recipe.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name} -> {target}"


def test_every_page_of_docs_is_in_the_index():
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in text("docs/README.md"), page.name
    for page in (ROOT / "docs/decisions").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in text("docs/decisions/README.md"), page.name


def test_the_readme_fits_a_screen_and_names_the_line():
    readme = text("README.md")
    assert "python -m verl.trainer.main_ppo +plugin=swe" in readme
    assert len(readme.splitlines()) <= 75


@pytest.mark.parametrize(
    "package", sorted({path.parent for path in (ROOT / "swe_plugin").glob("*/__init__.py")}), ids=str
)
def test_every_room_has_a_short_readme(package):
    readme = package / "README.md"
    assert readme.exists()
    assert len(readme.read_text(encoding="utf-8").splitlines()) <= 40


@pytest.mark.parametrize(
    "word", [r"\bTODO\b", r"\bFIXME\b", r"\bXXX\b", r"(?<![\w/.])/(?:root|home|Users|work)/\w", r"lorem ipsum"]
)
def test_no_page_is_unfinished_or_tied_to_one_machine(word):
    inside = {page.name for page in PAGES if re.search(word, page.read_text(encoding="utf-8"), re.IGNORECASE)}
    assert not inside
