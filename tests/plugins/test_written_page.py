"""docs/writing_a_plugin.md: its files are a plugin, and a rollout runs on its backend."""

import tomllib
from pathlib import Path

import pytest
from docs.shell_blocks import blocks, run_block
from rollout import workers

from swe_plugin.environments.factory import build_environment_factory
from swe_plugin.types import StopReason

PAGE = Path(__file__).parents[2] / "docs/writing_a_plugin.md"


@pytest.fixture
def written(site):
    """The page's distribution, installed as its own pyproject.toml says."""
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        if block.file:
            run_block(block, site.folder, site.folder)
    project = tomllib.loads((site.folder / "pyproject.toml").read_text())["project"]
    info = site.folder / "swe_plugin_mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["swe_plugin"]
    (info / "entry_points.txt").write_text("[swe_plugin]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    return site.load()


async def test_a_rollout_runs_on_the_backend_of_the_page(written, tmp_path):
    assert not written.broken
    config = workers.worker(environment__backend="mine").config
    factory = build_environment_factory(config.environment, written)
    made = []

    def recording(spec):
        made.append(factory(spec))
        return made[-1]

    worker = workers.worker(recording, tmp_path / "run", environment__backend="mine")
    result = await workers.play(worker, "```bash\ncat calc.sh\n```", workers.FIX, workers.SUBMIT)
    assert (result.stop, result.reward, result.failures) == (StopReason.SUBMITTED, 1.0, [])
    assert "echo $(($1 - $2))" in result.turns[0].results[0].stdout
    assert "-add() { echo $(($1 - $2)); }" in result.patch
    assert [type(environment).__name__ for environment in made] == ["MyEnvironment"] * 2
    assert not any([await environment.is_alive() for environment in made])


def test_the_backend_has_the_ten_lines_that_the_page_promises():
    (block,) = [b for b in blocks(PAGE.read_text(encoding="utf-8")) if b.file.endswith("environment.py")]
    body = block.text[block.text.index("class ") :].splitlines()
    assert len([line for line in body if line.strip()]) == 10
