"""Recipes: requirements as of a day, a repository at a commit and set-up commands become shared layers."""

import base64
import hashlib
import threading
import zipfile
from dataclasses import replace

import pytest

from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec, disk
from swe_plugin.environments.images import ImageStore, resolve
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.environments.sandbox.builder import run_in_layers
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

from .conftest import AGENT, MODES, skip_unless
from .image_repositories import git

pytestmark = pytest.mark.slow


def wheel(path, name, version, text):
    """A wheel of one module."""
    files = {
        f"{name}.py": text,
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{name}-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{file},sha256={base64.urlsafe_b64encode(hashlib.sha256(data.encode()).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for file, data in files.items()
    )
    with zipfile.ZipFile(path / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for file, data in {**files, f"{name}-{version}.dist-info/RECORD": record}.items():
            archive.writestr(file, data)
    return f"{name}-{version}-py3-none-any.whl"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository of two commits and the ids of both."""
    top = tmp_path_factory.mktemp("repository") / "repo"
    top.mkdir()
    git(top, "init", "-q")
    commits = []
    for number in (1, 2):
        (top / "version").write_text(f"{number}\n")
        git(top, "add", ".")
        git(top, "commit", "-qm", f"commit {number}")
        commits.append(git(top, "rev-parse", "HEAD"))
    return top, commits


def spec(image, mode="auto"):
    return EnvironmentSpec(image, EnvironmentLimits(), AGENT_ENV, label="recipe", options={"mode": mode})


SETUP = (
    "cat version > made",
    "mkdir -p /opt/tool && echo setup > /opt/tool/file",
    "rm -r /usr/share/git-core && mkdir /usr/share/git-core && touch /usr/share/git-core/new",
    "rm /etc/hosts",
)


@pytest.mark.parametrize("mode", MODES)
async def test_set_up_runs_once_on_the_repository_and_stays(home, repository, mode):
    skip_unless(mode)
    top, (first, _) = repository
    image, store, built = Image(repository=str(top), commit=first, setup=SETUP), ImageStore(), []
    for _ in range(2):
        async with SandboxEnvironment(spec(image, mode)) as environment:
            result = await environment.shell(
                "cat made /opt/tool/file; ls /usr/share/git-core; ls /etc/hosts; echo more >> made"
            )
            assert result.stdout.startswith("1\nsetup\nnew\n")
            assert "No such file" in result.stdout
            assert "denied" not in result.stdout
            assert (await environment.exec(["git", "status", "--porcelain"])).stdout == "?? made\n"
            assert (await environment.exec(["test", "-e", "/etc/resolv.conf"])).exit_code != 0
        built.append(sorted(entry.key for entry in store.entries() if entry.what == "host set-up"))
    assert built[0] == built[1] != []


async def test_set_up_has_uv_and_the_certificates_of_this_machine_and_leaves_neither(home, tmp_path, monkeypatch):
    pytest.importorskip("uv", reason="requirements are installed with uv")
    (tmp_path / "ca.pem").write_text("ours")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    setup = ('uv --version > made; cat "$SSL_CERT_FILE" >> made',)
    async with SandboxEnvironment(spec(Image(files={"c": "z"}, setup=setup))) as environment:
        result = await environment.shell("cat made; type uv; echo $SSL_CERT_FILE; ls -d /swe-build")
    assert result.stdout.startswith("uv ")
    assert result.stdout.splitlines()[1].startswith("ours"), result.stdout
    assert result.stdout.count("swe-build") == 1, "ls does not find it"
    assert "not found" in result.stdout


def test_commits_share_what_is_below_them(home, repository):
    top, (first, second) = repository
    one, two = (
        resolve(Image(repository=str(top), commit=commit), owner=AGENT).directories for commit in (first, second)
    )
    assert one[1:] == two[1:]
    assert [(layers[0] / "testbed/version").read_text() for layers in (one, two)] == ["1\n", "2\n"]


def test_a_command_that_fails_is_an_error_with_what_it_said_and_no_layer(home):
    image = Image(files={"a": "x"}, setup=("echo fine", "echo reason >&2; false", "touch /never"))
    before = len(ImageStore().entries())
    with pytest.raises(EnvironmentStartError, match=r"image 'host': .*failed \(exit code 1\): fine\nreason"):
        resolve(image, owner=AGENT, run=run_in_layers)
    assert len(ImageStore().entries()) <= before + 2, "the repository, for both owners"
    assert list((home / "images/tmp").iterdir()) == []


def test_a_recipe_that_turns_etc_into_a_link_touches_nothing_here(home, tmp_path):
    (tmp_path / "resolv.conf").write_text("mine")
    setup = ("mv /etc /old", f"ln -s {tmp_path} /etc")
    layers = resolve(Image(files={"link": "x"}, setup=setup), owner=AGENT, run=run_in_layers)
    assert layers.view.lookup("/etc").is_symlink()
    assert (tmp_path / "resolv.conf").read_text() == "mine"
    layers.release()


def test_without_a_sandbox_a_recipe_is_refused(home):
    with pytest.raises(EnvironmentStartError, match="run in a sandbox, which does not work here"):
        resolve(Image(files={"b": "y"}, setup=("true",)), owner=AGENT)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"requirements": ["x"]}, "image.python is empty"),
        ({"requirements": ["x"], "python": "python", "as_of": "yesterday"}, "image.as_of='yesterday': must be a day"),
        ({"repository": "/x", "files": {"a": ""}, "commit": "1" * 40}, "exclude each other"),
    ],
)
def test_recipes_that_contradict_are_refused(home, fields, message):
    with pytest.raises(EnvironmentStartError, match=message):
        resolve(replace(Image(), **fields), owner=AGENT)


async def test_requirements_are_installed_for_the_interpreter_of_the_base(home, tmp_path):
    pytest.importorskip("uv", reason="requirements are installed with uv")
    import shutil

    root = tmp_path / "root"
    shutil.copytree(resolve(Image(), owner=AGENT).directories[-1], root, symlinks=True)
    (root / "wheels").mkdir()
    name = wheel(root / "wheels", "leftpad", "1.0", "pad = str.rjust\n")
    image = Image(
        f"rootfs:{root}", files={"a": "x"}, python="python3", requirements=[f"/wheels/{name}"], as_of="2024-01-31"
    )
    async with SandboxEnvironment(spec(image)) as environment:
        result = await environment.exec(
            ["python3", "-c", "import leftpad; print(leftpad.pad('x', 3), leftpad.__file__)"]
        )
        assert result.stdout.startswith("  x /usr/local/"), result.stderr
        assert (await environment.exec(["ls", "/"])).stdout.count("swe-build") == 0


def test_set_ups_that_build_their_own_base_need_one_slot_of_the_disk_only(home, monkeypatch):
    monkeypatch.setattr(disk, "_settings", (1, 0.0))
    found = []

    def build(name):
        found.append(resolve(Image(files={"slot": name}, setup=("true",)), owner=AGENT, run=run_in_layers))

    threads = [threading.Thread(target=build, args=(name,), daemon=True) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 3, "they wait for each other"
    for layers in found:
        layers.release()
