"""The probe: it tries the real thing, names what is missing, and says what to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import swe_plugin
from swe_plugin.environments.sandbox.explain import explain
from swe_plugin.environments.sandbox.hierarchy import detect_hierarchy, find_candidates
from swe_plugin.environments.sandbox.probe import MODES, probe

ORDINARY = 54321


def test_report_names_a_mode_and_how_each_limit_is_held():
    report = probe()
    assert report.mode in MODES
    assert set(report.limits) >= {"memory", "pids", "cpu", "disk", "output", "network"}
    assert f"sandbox mode: {report.mode}" in str(report)
    for check in report.checks:
        assert check.ok or check.fix, check


@pytest.mark.parametrize(
    ("mode", "reason", "words"),
    [
        ("root", "clone: Operation not permitted", "SYS_ADMIN"),
        ("user", "[Errno 1] clone: Operation not permitted", "seccomp=unconfined"),
        ("root", "mount proc on proc: Operation not permitted", "systempaths=unconfined"),
        ("user", "mount overlay on root: No such device", "modprobe overlay"),
        ("user", "clone: No space left on device", "max_*_namespaces"),
        ("user", "no system-call filter for riscv64", "x86_64 and aarch64"),
        ("user", "confinement: an agent process could mount", "CONFIG_SECCOMP_FILTER"),
        ("rootmap", "this process is not root", "mode user"),
        ("rootmap", "processes of a range of users are not bounded without the pids cgroup", "pids cgroup writable"),
        ("rootmap", "mount_setattr: Invalid argument (mapping the owners of /x)", "Linux 5.19 or later"),
        ("rootmap", "mount overlay on root: Invalid argument", "Linux 5.19 or later"),
        ("rootmap", "user namespace for host ids from 1: Invalid argument", "has no such ids"),
        ("rootmap", "user namespace for host ids from 1: No space left on device", "max_*_namespaces"),
        ("root", "", ""),
    ],
)
def test_every_failing_step_has_advice(tmp_path, mode, reason, words):
    assert words in explain(mode, reason, root=tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
    ],
)
def test_settings_that_forbid_user_namespaces_are_named(tmp_path, path, value, words):
    setting = tmp_path / "proc/sys" / path
    setting.parent.mkdir(parents=True)
    setting.write_text(f"{value}\n")
    assert words in explain("user", "clone: Operation not permitted", root=tmp_path)
    assert "SYS_ADMIN" in explain("root", "clone: Operation not permitted", root=tmp_path)


@pytest.mark.parametrize(
    ("capabilities", "seccomp", "says"),
    [
        ("0000000000000000", "2", "lacks the capability SYS_ADMIN and a seccomp filter is on it: inside a container"),
        ("000001ffffffffff", "2", "a seccomp filter is on it: inside a container"),
        ("0000000000000000", "0", "lacks the capability SYS_ADMIN: inside a container"),
        ("000001ffffffffff", "0", "inside a container"),
    ],
)
def test_what_of_this_process_is_to_blame_is_named(tmp_path, capabilities, seccomp, says):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\nSeccomp:\t{seccomp}\n")
    assert explain("user", "[Errno 1] clone: Operation not permitted", root=tmp_path).partition(says)[1]


WITHOUT_NAMESPACES = """
import ctypes, os, sys
from pathlib import Path

uid, gid = os.geteuid(), os.getegid()
assert ctypes.CDLL(None).unshare(0x10000000) == 0  # a user namespace, whose limits are its own
Path("/proc/self/setgroups").write_text("deny")
Path("/proc/self/uid_map").write_text(f"54321 {uid} 1")
Path("/proc/self/gid_map").write_text(f"54321 {gid} 1")
Path("/proc/sys/user/max_user_namespaces").write_text("0")
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
CHECK = """
from swe_plugin.config import EnvironmentConfig
from swe_plugin.environments.sandbox import SandboxEnvironment

SandboxEnvironment.check(EnvironmentConfig())
"""


def test_a_kernel_that_allows_no_namespaces_is_refused_with_the_switch_that_forbids_them(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_NAMESPACES, CHECK],
        env=os.environ | {"SWE_PLUGIN_HOME": str(tmp_path), "PYTHONPATH": str(Path(swe_plugin.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    last = run.stderr.splitlines()[-1]
    assert last.startswith("swe_plugin.errors.ConfigError: swe.environment.backend='sandbox': ")
    assert "sysctl -w user.max_user_namespaces=15000" in last
    assert not list(tmp_path.rglob("*.json"))


def detect(mounts, own):
    return detect_hierarchy(find_candidates(mounts, own), "swe-test")


def test_cgroup_version_2_is_found(tmp_path):
    mount = tmp_path / "cg"
    (mount / "mine").mkdir(parents=True)
    (mount / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    control = mount / "mine/cgroup.subtree_control"
    control.write_text("cpu memory pids\n")
    found = detect(f"1 2 0:1 / {mount} rw - cgroup2 cgroup2 rw\n", "0::/mine\n")
    assert (found.version, found.reasons) == (2, {})
    assert set(found.parents.values()) == {mount / "mine"}
    control.write_text("")
    detect(f"1 2 0:1 / {mount} rw - cgroup2 cgroup2 rw\n", "0::/mine\n")
    assert control.read_text() == "+cpu +memory +pids"


def test_cgroup_version_1_and_missing_controllers_are_found(tmp_path):
    (tmp_path / "memory/own").mkdir(parents=True)
    (tmp_path / "cpu,cpuacct").mkdir()
    mounts = f"1 2 0:1 / {tmp_path}/memory rw - cgroup cgroup rw,memory\n"
    mounts += f"1 2 0:1 / {tmp_path}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    found = detect(mounts, "4:memory:/own\n3:cpu,cpuacct:/gone\n")
    assert found.parents == {"memory": tmp_path / "memory/own", "cpu": tmp_path / "cpu,cpuacct"}
    assert found.reasons == {"pids": "the controller is not mounted"}
    assert not list(tmp_path.rglob("swe-test"))


SCRIPT = """
import asyncio, os, sys
from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.leases import lease_directory, reap
from swe_plugin.environments.sandbox import SandboxEnvironment, close_zygote, probe
from swe_plugin.types import Image

async def main():
    print(probe().mode, flush=True)
    image = Image("rootfs:" + sys.argv[1], files={"calc.py": "x = 1\\n"})
    async with SandboxEnvironment(EnvironmentSpec(image, EnvironmentLimits(pids=40), AGENT_ENV)) as environment:
        script = "id -u; echo y >> calc.py; git diff --stat | tail -1; cat /proc/1/maps; b() { b | b & }; b; sleep 9"
        print((await environment.exec(["bash", "-c", script], timeout_s=0.5)).stdout)
        print((await environment.shell("ls -A /root 2>&1; echo still usable")).stdout)
    close_zygote()

asyncio.run(main())
print(list(lease_directory().glob("*.json")), reap().problems)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="as an ordinary user every other test runs in user mode")
def test_an_ordinary_user_without_any_privilege_gets_user_mode(tmp_path_factory, swe_home):
    from swe_plugin.environments.images import resolve
    from swe_plugin.types import Image

    (host,) = resolve(Image(files={}), owner=(0, 0)).directories
    top = tmp_path_factory.mktemp("ordinary")
    for path in (top, *(path for path in top.parents if "pytest-" in str(path))):
        path.chmod(0o755)
    root, state = top / "rootfs", top / "state"
    shutil.copytree(host, root, symlinks=True, copy_function=os.link)
    state.mkdir()
    os.chown(state, ORDINARY, ORDINARY)
    python = _python_for_everyone()
    try:
        run = subprocess.run(
            [python, "-c", SCRIPT, str(root)],
            user=ORDINARY,
            group=ORDINARY,
            extra_groups=[],
            cwd="/",
            env={
                "SWE_PLUGIN_HOME": str(state),
                "PYTHONPATH": str(Path(swe_plugin.__file__).parents[1]),
                "PATH": os.defpath,
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        shutil.rmtree(top)
    assert run.stderr == ""
    assert run.stdout.split("\n") == [
        *("user", "1000", " 1 file changed, 1 insertion(+)", ""),
        *("ls: cannot access '/root': No such file or directory", "still usable", "", "[] []", ""),
    ]


def _python_for_everyone():
    """An interpreter of this version or later that an ordinary user may execute; skips if there is none."""
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = [candidate, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        try:
            if subprocess.run(check, user=ORDINARY, check=False, capture_output=True).returncode == 0:
                return candidate
        except OSError:
            continue
    pytest.skip("no Python 3.11 that an ordinary user may execute")
