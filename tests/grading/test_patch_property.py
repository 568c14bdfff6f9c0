"""A patch is exact: what an agent leaves behind and what the patch makes of a fresh copy are the same tree."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings

from grading.local import LocalEnvironment
from grading.trees import GIT_SCRIPTS, PATHS, Delete, Edit, Link, Script, Write, build, changes, snapshot
from swe_plugin.environments.base import EnvironmentSpec
from swe_plugin.grading.apply import apply_patch
from swe_plugin.grading.baseline import Baseline, record_baseline
from swe_plugin.grading.patch import extract_patch
from swe_plugin.grading.paths import Change, file_changes
from swe_plugin.types import Image


class Copy(LocalEnvironment):
    """Starts as a copy of a template."""

    def __init__(self, template: Path) -> None:
        super().__init__(EnvironmentSpec(Image()))
        self.template = template

    async def start(self) -> None:
        await super().start()
        shutil.rmtree(self.root)
        shutil.copytree(self.template, self.root, symlinks=True)


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> tuple[Path, Baseline]:
    root = tmp_path_factory.mktemp("template") / "testbed"
    root.mkdir()
    build(root)

    async def record() -> Baseline:
        async with Copy(root) as environment:
            return await record_baseline(environment)

    return root, asyncio.run(record())


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(changes)
@example([Write("dir", b"a file now", False), Script(GIT_SCRIPTS[0])])
@example([Write("link/under", b"a directory now", True), Script(GIT_SCRIPTS[3])])
@example([Link("dir", b"", True), Script(GIT_SCRIPTS[7])])
@example([Edit("latin1.txt", b"\xe9\n", False), Write("new.txt", b"\r\nno end", True)])
@example([Delete(path, b"", False) for path in PATHS])
def test_applying_the_patch_gives_exactly_the_agents_tree(template, done):
    root, baseline = template

    async def round_trip():
        async with Copy(root) as agent, Copy(root) as fresh:
            before = snapshot(agent.root)
            for change in done:
                change(agent.root)
            wanted = snapshot(agent.root)
            ran = agent.top / "fsmonitor-ran"
            ran.unlink(missing_ok=True)  # the agent's own git may run it, ours must not
            patch = await extract_patch(agent, baseline)
            if patch.text:
                await apply_patch(fresh, patch.text)
            assert snapshot(fresh.root) == wanted
            assert patch.flags == ()
            assert not ran.exists()
            touched = {item.path: item.change for item in file_changes(patch.text)}
            assert set(touched) == {p for p in before.keys() | wanted.keys() if before.get(p) != wanted.get(p)}
            for path, change in touched.items():
                kinds = {Change.ADDED: (False, True), Change.DELETED: (True, False)}.get(change, (True, True))
                if before.get(path, wanted.get(path))[0] == wanted.get(path, before.get(path))[0]:
                    assert (path in before, path in wanted) == kinds

    asyncio.run(round_trip())


def test_the_paths_are_those_that_git_reads(template):
    root, baseline = template

    async def check():
        async with Copy(root) as agent:
            for path in PATHS:
                if path not in ("dir", "dir/sub", "link"):
                    Edit(path, b"more\n", False)(agent.root)
            patch = (await extract_patch(agent, baseline)).text
            argv = ["git", "apply", "--numstat", "-z", "-"]
            listed = subprocess.run(argv, input=patch.encode(), capture_output=True, check=True, cwd="/").stdout
        theirs = [entry.split(b"\t", 2)[2].decode() for entry in listed.split(b"\0") if entry]
        assert [item.path for item in file_changes(patch)] == theirs
        assert len(theirs) >= 20

    asyncio.run(check())
