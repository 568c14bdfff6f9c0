"""What becomes of an agent's workspace when it is read as a patch."""

from __future__ import annotations

import dataclasses
import os
import subprocess

import pytest

from grading.local import GIT, LocalEnvironment, local
from swe_plugin.errors import EnvironmentUnavailable, PatchError
from swe_plugin.grading.baseline import BaselineStore, record_baseline
from swe_plugin.grading.patch import extract_patch
from swe_plugin.grading.paths import Change, FileChange, file_changes
from swe_plugin.types import Image, Task

FILES = {"a.py": "x = 1\n", "src/b.py": "y = 2\n"}


async def changed(environment, script):
    """The patch after an agent ran `script` in a fresh `environment`, and the changes it lists."""
    async with environment:
        baseline = await record_baseline(environment)
        result = await environment.shell(script)
        assert result.exit_code == 0, result
        patch = await extract_patch(environment, baseline)
        return patch, file_changes(patch.text)


async def test_nothing_done_is_an_empty_patch():
    patch, _ = await changed(local(FILES), "cat a.py; touch a.py")
    assert patch.text == ""
    assert patch.flags == ()


async def test_committed_staged_and_loose_changes_are_all_in_it():
    git = " ".join(GIT)
    script = f"echo 1 > c; git add c; {git} commit -qm c; echo 2 > d; git add d; echo 3 > e; {git} tag t"
    _, changes = await changed(local(FILES), script)
    assert [item.path for item in changes] == ["c", "d", "e"]


async def test_a_change_that_hides_its_time_and_size_is_seen():
    # within the second in which the file was made, git's own look at the times would miss it
    script = "touch -r a.py ../time; printf 'x = 2\\n' > a.py; touch -r ../time a.py"
    _, changes = await changed(local(FILES), script)
    assert changes == [FileChange("a.py", Change.MODIFIED)]


async def test_what_was_dirty_in_the_image_is_not_the_agents():
    environment = local(FILES)

    async def dirty():
        (environment.root / "a.py").write_text("x = 'dirty'\n")
        (environment.root / "left over.txt").write_text("untracked\n")

    async with environment:
        await dirty()
        baseline = await record_baseline(environment)
        assert (await extract_patch(environment, baseline)).text == ""
        await environment.shell("echo z >> a.py")
        patch = (await extract_patch(environment, baseline)).text
    assert " x = 'dirty'\n+z\n" in patch
    assert file_changes(patch) == [FileChange("a.py", Change.MODIFIED)]


async def test_by_products_of_running_code_and_ignored_files_stay_out():
    script = "mkdir __pycache__ .pytest_cache; touch __pycache__/a.pyc .pytest_cache/x b.pyc t.log"
    patch, _ = await changed(local({**FILES, ".gitignore": "*.log\n"}), script)
    assert patch.text == ""


async def test_a_repository_made_inside_contributes_its_files():
    git = " ".join(GIT)
    script = f"git init -q new; echo 1 > new/f; git init -q done; cd done; echo 2 > g; git add g; {git} commit -qm g"
    patch, changes = await changed(local(FILES), script)
    assert [item.path for item in changes] == ["done/g", "new/f"]
    assert "160000" not in patch.text
    assert patch.flags == ()


async def test_a_submodule_of_the_image_is_left_alone():
    git = " ".join(GIT)
    prepare = f"git init -q sub; cd sub; echo 1 > f; git add f; {git} commit -qm f"
    environment = local(FILES, prepare=prepare)
    async with environment:
        baseline = await record_baseline(environment)
        assert baseline.submodules == ("sub",)
        await environment.shell("git init -q other; echo 2 > other/g; echo 3 >> a.py")
        patch = await extract_patch(environment, baseline)
    assert [item.path for item in file_changes(patch.text)] == ["a.py", "other/g"]


async def test_the_whole_work_directory_may_be_gone():
    _, changes = await changed(local(FILES), 'rm -rf "$PWD"')
    assert changes == [FileChange("a.py", Change.DELETED), FileChange("src/b.py", Change.DELETED)]


async def test_special_files_are_no_changes():
    patch, changes = await changed(local(FILES), "mkfifo pipe; echo z >> a.py")
    assert [item.path for item in changes] == ["a.py"]
    assert patch.flags == ()


async def test_a_file_that_became_a_pipe_is_flagged_and_the_rest_kept():
    patch, changes = await changed(local(FILES), "rm a.py; mkfifo a.py; echo z > src/b.py")
    assert [item.path for item in changes] == ["src/b.py"]
    assert patch.flags == ("patch_incomplete",)


async def test_a_link_to_a_name_that_is_no_text_is_left_out_and_flagged():
    patch, changes = await changed(local(FILES), r"ln -s $'\xff' odd; echo z > src/b.py")
    assert [item.path for item in changes] == ["src/b.py"]
    assert patch.flags == ("patch_incomplete",)


async def test_file_names_that_are_no_text_survive():
    patch, changes = await changed(local(FILES), r"echo z > $'\xff.py'")
    assert patch.text.isascii()
    assert [os.fsencode(item.path) for item in changes] == [b"\xff.py"]


@pytest.mark.parametrize(
    "script", ["head -c 3000 /dev/urandom > blob", "printf '%03000d' 0 > a.py; echo -e '\\xff' >> a.py"]
)
async def test_a_patch_above_the_limit_is_not_read(script):
    async with local(FILES) as environment:
        baseline = await record_baseline(environment)
        await environment.shell(script)
        patch = await extract_patch(environment, baseline, max_bytes=1000)
    assert patch.text == ""
    assert patch.flags == ("patch_too_large",)


async def test_a_patch_longer_than_an_output_is_read_whole(monkeypatch):
    async with local(FILES) as environment:
        baseline = await record_baseline(environment)
        await environment.shell("seq 20000 > numbers; printf '\\xef\\xbf\\xbd\\n' > replacement")
        whole = await extract_patch(environment, baseline)

        async def cut(*args, **kwargs):
            result = await LocalEnvironment.exec(environment, *args, **kwargs)
            return dataclasses.replace(result, stdout=result.stdout[:5000], truncated=len(result.stdout) > 5000)

        monkeypatch.setattr(environment, "exec", cut)
        assert await extract_patch(environment, baseline) == whole
    assert "+20000\n" in whole.text
    assert "+\ufffd\n" in whole.text


async def test_a_git_that_fails_is_an_error_and_not_an_empty_patch():
    async with local(FILES) as environment:
        baseline = await record_baseline(environment)
        environment.spec.env["PATH"] = str(environment.root / "bin")
        (environment.root / "bin").mkdir()
        (environment.root / "bin" / "sh").symlink_to("/bin/sh")
        with pytest.raises(PatchError, match="git failed"):
            await extract_patch(environment, baseline)


async def test_an_object_store_that_is_full_is_an_error_and_not_an_incomplete_patch(monkeypatch):
    monkeypatch.setattr("swe_plugin.grading.patch._ADD", 'echo 1; echo "error: unable to write file x" >&2\n')
    async with local(FILES) as environment:
        baseline = await record_baseline(environment)
        with pytest.raises(PatchError, match="unable to write"):
            await extract_patch(environment, baseline)


async def test_a_dead_environment_raises_what_says_so():
    async with local(FILES) as environment:
        baseline = await record_baseline(environment)
        environment.dead = True
        with pytest.raises(EnvironmentUnavailable):
            await extract_patch(environment, baseline)


async def test_an_image_without_repository_has_a_baseline_too():
    environment = local(FILES)
    async with environment:
        subprocess.run(["rm", "-rf", ".git"], cwd=environment.root, check=True)
        baseline = await record_baseline(environment)
        await environment.shell("echo z > a.py")
        assert [c.path for c in file_changes((await extract_patch(environment, baseline)).text)] == ["a.py"]


async def test_a_baseline_is_recorded_once_per_image():
    store = BaselineStore()
    async with local(FILES) as one, local(FILES) as two:
        first = await store.get(Task("a", "", image=Image(files=FILES)), one)
        two.dead = True  # not needed any more
        assert await store.get(Task("b", "", image=Image(files=FILES)), two) is first


async def test_old_baselines_make_room():
    store = BaselineStore(max_bytes=1)
    async with local(FILES) as one:
        first = await store.get(Task("a", "", image=Image(files=FILES)), one)
        await store.get(Task("b", "", image=Image()), one)
        assert await store.get(Task("a", "", image=Image(files=FILES)), one) is not first
