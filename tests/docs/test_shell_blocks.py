"""Every command in the docs runs, or says why not.

A block of commands is fenced as ``sh``; `<!-- not run: <reason> -->` on the line before it is the exception. A block
whose fence names a file after its language is written there first, so that later commands find it. Each page has an
empty directory of its own.
"""

import re

import pytest

from swe_plugin.environments.home import home as node_state

from .shell_blocks import MARKER, ROOT, blocks, run_block

pytestmark = pytest.mark.slow

LANGUAGES = {"sh", "text", "python", "yaml", "toml", "json", "jinja", "diff"}
COMMAND = re.compile(r"^\s*(\$ |make |swe-plugin |pip |python |bash |sudo |export )")
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
BLOCKS = {page: blocks(page.read_text(encoding="utf-8")) for page in PAGES}


def name(page):
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """State of these commands alone, but images as they are cached on this machine."""
    path = tmp_path_factory.mktemp("home")
    shared = node_state() / "images"
    shared.mkdir(exist_ok=True)
    (path / "images").symlink_to(shared)
    return path


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS[page]], ids=name)
def test_every_block_says_what_it_is(page):
    for block in BLOCKS[page]:
        assert block.language in LANGUAGES, f"{name(page)}:{block.line}: say what it is: {sorted(LANGUAGES)}"
        commands = [] if block.language == "sh" else [line for line in block.text.splitlines() if COMMAND.match(line)]
        assert block.language in ("sh", "python") or not commands, f"{name(page)}:{block.line}: fence it as sh"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_marker_stands_before_commands_and_gives_a_reason(page):
    markers = MARKER.findall(page.read_text(encoding="utf-8"))
    used = [block.not_run for block in BLOCKS[page] if block.language == "sh" and block.not_run]
    assert markers == used
    assert all(len(reason.split()) >= 3 for reason in used)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(b.language == "sh" and not b.not_run for b in BLOCKS[page])], ids=name
)
def test_the_commands_of_a_page_run(page, tmp_path, home):
    for block in BLOCKS[page]:
        run_block(block, tmp_path, home)


@pytest.mark.parametrize(
    "command",
    [
        "make no-such-target",
        "swe-plugin no-such-command",
        "swe-plugin train --recipe no_such_recipe",
        "python -m verl.trainer.main_ppo +plugin=swe trainer.no_such_key=1",
        "no-such-program",
    ],
)
def test_a_wrong_command_would_be_found(command, tmp_path, home):
    (block,) = blocks(f"text\n\n```sh\ntrue # fine\n{command}\n```\n")
    with pytest.raises(AssertionError, match="line 3"):
        run_block(block, tmp_path, home)


PAGE = r"""
```yaml my/file.yaml
a: 1
```

```sh
grep 'a: 1' \
  my/file.yaml
```

<!-- not run: it would fail -->
```sh
false
```
"""


def test_a_page_may_write_the_files_that_its_commands_read(tmp_path, home):
    for block in blocks(PAGE):
        run_block(block, tmp_path, home)
