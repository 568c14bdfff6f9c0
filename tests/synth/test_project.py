"""What is read of a repository."""

import io
import subprocess
import tarfile
import zipfile

import pytest

from swe_plugin.errors import ConfigError
from swe_plugin.synth.origin import read_project
from swe_plugin.synth.requirements import merged_requirements

pytestmark = pytest.mark.slow

FILES = {
    "PKG-INFO": "Metadata-Version: 2.1\nName: My_Calc\nVersion: 1.2\nRequires-Dist: six>=1\n"
    'Requires-Dist: old; python_version < "3"\nRequires-Dist: freezegun; extra == "tests"\n'
    'Requires-Dist: sphinx; extra == "docs"\nRequires-Dist: my-calc[x]; extra == "tests"\n',
    "setup.py": "from setuptools import setup\n",
    "src/calc/__init__.py": "from importlib.metadata import version\n",
    "src/calc/core.py": "def add(a, b):\n    return a + b\n",
    "tests/test_core.py": "from calc.core import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "tests/helpers.py": "x = 1\n",
    "docs/conf.py": "x = 1\n",
    "crlf.txt": "a\r\nb",
}


def write(top, files):
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return top


def check(project):
    assert (project.name, project.version, project.root) == ("my-calc", "1.2", "src")
    assert project.requirements == ("six>=1", "freezegun")
    assert project.test_files == ("tests/test_core.py",)
    assert project.test_paths == ("tests",)
    assert project.source_files == ("src/calc/__init__.py", "src/calc/core.py")
    assert project.files["crlf.txt"] == "a\r\nb"
    assert project.files["src/my_calc.egg-info/PKG-INFO"] == FILES["PKG-INFO"]
    assert project.left_out == ("image.bin",)


def test_a_directory(tmp_path):
    write(tmp_path, {**FILES, "image.bin": b"\xff\xfe", "build/lib/calc.py": "", ".tox/x.py": ""})
    (tmp_path / "link.py").symlink_to("setup.py")
    project = read_project(str(tmp_path))
    check(project)
    assert not {"build/lib/calc.py", ".tox/x.py", "link.py"} & project.files.keys()


def test_a_git_repository_is_what_it_tracks(tmp_path):
    write(tmp_path, {**FILES, "image.bin": b"\xff"})
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    write(tmp_path, {"junk.py": "x"})
    project = read_project(str(tmp_path))
    check(project)
    assert "junk.py" not in project.files


@pytest.mark.parametrize("suffix", [".tar.gz", ".zip"])
def test_a_source_distribution(tmp_path, suffix):
    path = tmp_path / f"My_Calc-1.2{suffix}"
    data = {f"My_Calc-1.2/{name}": text for name, text in {**FILES, "image.bin": b"\xff"}.items()}
    data = {name: text if isinstance(text, bytes) else text.encode() for name, text in data.items()}
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in data.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name, content in {**data, "../evil.py": b"x"}.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    check(read_project(str(path)))


def test_requirements_of_pyproject_and_its_groups(tmp_path):
    table = (
        '[project]\nname = "calc"\nversion = "3"\ndependencies = ["six"]\n[project.optional-dependencies]\n'
        'test = ["hypothesis"]\n[dependency-groups]\ntests = ["freezegun", {include-group = "x"}]\ndocs = ["sphinx"]\n'
    )
    write(tmp_path, {"pyproject.toml": table, "calc.py": "x = 1\n", "test_calc.py": "x = 1\n"})
    project = read_project(str(tmp_path))
    assert (project.name, project.version, project.root) == ("calc", "3", ".")
    assert project.requirements == ("six", "hypothesis", "freezegun")
    assert (project.test_paths, project.source_files) == (("test_calc.py",), ("calc.py",))


@pytest.mark.parametrize(
    ("files", "reason"),
    [({"calc.py": "x"}, "carries no tests"), ({"test_calc.py": "x"}, "no Python modules beside its tests")],
)
def test_what_cannot_be_used_is_refused(tmp_path, files, reason):
    with pytest.raises(ConfigError, match=reason):
        read_project(str(write(tmp_path, files)))


def test_what_is_nothing_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no directory, no archive and no requirement"):
        read_project("no such thing!")
    (tmp_path / "x.tar.gz").write_bytes(b"no")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_project(str(tmp_path / "x.tar.gz"))
    (tmp_path / "x.whl").write_bytes(b"no")
    with pytest.raises(ConfigError, match="no archive"):
        read_project(str(tmp_path / "x.whl"))


def test_the_callers_requirement_replaces_the_projects():
    lines = merged_requirements(["pytest", "six>=1"], ["pytest<8.4", "Six==1.16"], "calc")
    assert lines == ("pytest<8.4", "Six==1.16")
    with pytest.raises(ConfigError, match="shows every agent the fix"):
        merged_requirements([], ["Calc"], "calc")
    with pytest.raises(ConfigError, match="no requirement"):
        merged_requirements([], ["=="], "calc")
