"""Base commits that are not what an image has checked out: branches, older commits, and what stays as it was."""

import os
import shutil

import pytest

from swe_plugin.environments.images import resolve
from swe_plugin.environments.images.view import MergedView
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

from .image_archives import directory_layer, docker_save
from .image_repositories import git

pytestmark = pytest.mark.slow

ME = (os.geteuid(), os.getegid())
OWNERS = {"the caller's": ME, "the agent's": (1000, 1000)} if ME[0] == 0 else {"the caller's": ME}


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path / "home"))


@pytest.fixture
def repository(tmp_path):
    """On `main`; `origin/bug-1` is a branch off it; `main~1` is older."""
    top = tmp_path / "image/testbed"
    (top / "tests").mkdir(parents=True)
    git(top, "init", "-q")
    write(
        top, {"calc.py": "old", "kept.txt": "kept", "tests/a.py": "a", "tests/b.py": "b", "was/dir": "x", "file": "f"}
    )
    git(top, "add", ".")
    git(top, "commit", "-qm", "one")
    write(top, {"calc.py": "good"})
    git(top, "commit", "-qam", "two")
    git(top, "checkout", "-qb", "bug-1")
    shutil.rmtree(top / "was")
    (top / "file").unlink()
    (top / "tests/a.py").unlink()
    write(top, {"calc.py": "bad", "new/deep/er.py": "new", "was": "now a file", "file/in": "now a directory"})
    git(top, "add", "-A")
    git(top, "commit", "-qm", "bug")
    git(top, "update-ref", "refs/remotes/origin/bug-1", "HEAD")
    git(top, "checkout", "-q", "main")
    git(top, "branch", "-qD", "bug-1")
    write(top, {"kept.txt": "changed in the image", "built.so": "untracked"})
    return top


def write(top, files):
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)


def workspace(tmp_path, top, commit, owner):
    """The work directory that an agent would get, put together on disk."""
    docker_save(tmp_path / "x.tar", [directory_layer(top.parent)])
    layers = resolve(Image(f"oci:{tmp_path}/x.tar", commit=commit), owner=owner)
    target = tmp_path / "seen"
    for path, real in MergedView(layers.directories).walk("/testbed"):
        copy = target / path.relative_to("/testbed")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if real.is_dir():
            copy.mkdir(exist_ok=True)
        else:
            shutil.copy2(real, copy, follow_symlinks=False)
        assert os.geteuid() != 0 or real.lstat().st_uid == owner[0], path
    return target


def files(top):
    return {
        str(path.relative_to(top)): path.read_text()
        for path in top.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(top).parts
    }


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "loose"])
def test_a_branch_off_what_is_checked_out_is_checked_out(tmp_path, repository, owner, packed):
    if packed:
        git(repository, "pack-refs", "--all")
    seen = workspace(tmp_path, repository, "bug-1", owner)
    assert files(seen) == {
        "calc.py": "bad",
        "kept.txt": "changed in the image",
        "built.so": "untracked",
        "tests/b.py": "b",
        "was": "now a file",
        "file/in": "now a directory",
        "new/deep/er.py": "new",
    }
    assert git(seen, "log", "--format=%s").split() == ["bug", "two", "one"]
    assert git(seen, "status", "--porcelain").split("\n") == ["M kept.txt", "?? built.so"]
    git(seen, "fsck", "--full")


@pytest.mark.parametrize("commit", ["main~1", "main^", "v1"])
def test_what_was_put_on_top_of_an_older_base_stays(tmp_path, repository, commit):
    git(repository, "tag", "v1", "main~1")
    seen = workspace(tmp_path, repository, commit, ME)
    assert git(seen, "log", "--all", "--format=%s") == "one"
    assert files(seen)["calc.py"] == "good"


@pytest.mark.parametrize("commit", ["nobody", "--all", "main:calc.py", "bug-1..main", "@{-1}", "../../etc", "main~9"])
def test_what_names_no_commit_is_refused(tmp_path, repository, commit):
    with pytest.raises(EnvironmentStartError, match="lacks the base commit"):
        workspace(tmp_path, repository, commit, ME)


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
def test_submodules_are_cut_loose_and_git_works(tmp_path, repository, owner):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    write(other, {"lib.py": "lib"})
    git(other, "add", ".")
    git(other, "commit", "-qm", "lib")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "vendor/lib")
    git(repository, "commit", "-qm", "with a submodule")
    assert (repository / "vendor/lib/.git").is_file()
    seen = workspace(tmp_path, repository, "", owner)
    assert (seen / "vendor/lib/lib.py").read_text() == "lib"
    assert not (seen / "vendor/lib/.git").exists()
    assert git(seen, "status", "--porcelain").split("\n") == ["M kept.txt", "?? built.so"]
    assert git(seen, "diff", "--stat").startswith("kept.txt")


def test_a_tree_with_names_that_lead_out_is_refused(tmp_path, repository):
    (tmp_path / "image/victim").write_text("v")
    blob = git(repository, "hash-object", "-w", "calc.py")
    up = git(repository, "mktree", input=f"100644 blob {blob}\tvictim\n")
    (tmp_path / "tree").write_bytes(b"40000 ..\0" + bytes.fromhex(up))
    tree = git(repository, "hash-object", "-t", "tree", "-w", "--literally", str(tmp_path / "tree"))
    evil = git(repository, "commit-tree", tree, "-m", "evil")
    git(repository, "update-ref", "refs/heads/main", evil)
    with pytest.raises(EnvironmentStartError, match=r"it has a file '\.\./victim'"):
        workspace(tmp_path, repository, "bug-1", ME)
