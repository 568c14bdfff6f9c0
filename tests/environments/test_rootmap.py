"""Mode rootmap: the agent is root inside and nobody outside, in images that expect it."""

import asyncio
import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import pytest_asyncio

import swe_plugin
from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.images import ImageStore, expects_root, resolve
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.environments.sandbox.modes import prepare
from swe_plugin.environments.sandbox.zygote.server import _SPARES
from swe_plugin.types import Image

from .conftest import FILES, host_processes, skip_unless, spec
from .image_archives import directory_layer, docker_save, layer, member

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rootmap():
    skip_unless("rootmap")
    async with SandboxEnvironment(spec(mode="rootmap", memory_mib=256, disk_mib=64)) as environment:
        yield environment


async def bash(environment, script, timeout_s=20):
    done = await environment.exec(["bash", "-c", script], timeout_s=timeout_s)
    return done.stdout + done.stderr


async def test_owners_inside_are_those_of_the_image(rootmap):
    said = await bash(rootmap, "stat -c '%u:%g %n' / /etc/passwd /usr /home/agent /testbed/calc.py /tmp /dev/shm")
    roots = [f"0:0 {name}" for name in ("/", "/etc/passwd", "/usr", "/testbed/calc.py", "/tmp", "/dev/shm")]
    assert sorted(said.splitlines()) == sorted([*roots, "1000:1000 /home/agent"])


async def test_what_root_does_when_it_installs_something_works(rootmap):
    script = """set -e
    site=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    mkdir -p $site/made && echo 'word = "installed"' > $site/made/__init__.py
    install -m 755 /usr/bin/env /usr/bin/tool && chown 0:1000 /usr/bin/tool && chmod 2755 /usr/bin/tool
    echo 'new:x:4242:4242::/:/bin/bash' >> /etc/passwd
    mkdir /opt && mkdir -m 700 /opt/thing && chown -R 4242:4242 /opt/thing && touch -d @5 /etc/hosts
    cd /opt/thing && python3 -c 'import made; print(made.word)'
    stat -c '%u:%g %a %n' /usr/bin/tool /opt/thing && stat -c '%U %n' /opt/thing && stat -c '%U %Y' /etc/hosts
    """
    said = (await bash(rootmap, script)).splitlines()
    assert said == ["installed", "0:1000 2755 /usr/bin/tool", "4242:4242 700 /opt/thing", "new /opt/thing", "root 5"]


async def test_root_acts_for_other_users_and_ends_their_processes(rootmap):
    code = (
        "import os, signal, time\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.setgid(4242); os.setuid(4242)\n"
        "    print(os.getuid(), open('/proc/self/status').read().count('CapEff:\\t0000000000000000'), flush=True)\n"
        "    try: os.setuid(0)\n"
        "    except OSError: print('no way back', flush=True)\n"
        "    time.sleep(60)\n"
        "time.sleep(0.3); os.kill(pid, signal.SIGTERM); print(os.waitpid(pid, 0)[1])\n"
    )
    done = await rootmap.exec(["python3", "-I", "-S", "-c", code], timeout_s=20)
    assert done.stdout.split("\n") == ["4242 1", "no way back", "15", ""], done


async def test_outside_the_agent_is_nobody(rootmap):
    """Its processes and what it writes belong to a range of ids that nobody has; no host user gets at its programs."""
    await rootmap.shell("cp /usr/bin/id /tmp/id && chmod 6755 /tmp/id && chown 1000 /tmp/id; chmod u+s /tmp/id")
    await rootmap.shell("setsid sleep 5432.1 & sleep 0.1")
    (pid,) = host_processes("sleep 5432.1")
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    (first,) = set(map(int, status["Uid"].split() + status["Gid"].split()))
    assert 0x70000000 <= first <= 0x7FFD0000
    assert status["Groups"].strip() == ""
    program = Path(f"/proc/{pid}/root/tmp/id")
    info = program.stat()
    assert (info.st_uid - first, info.st_gid - first, oct(info.st_mode & 0o7777)) == (1000, 0, "0o4755")
    with pytest.raises(PermissionError):
        subprocess.run([program, "-u"], user=1000, group=1000, extra_groups=[], check=False)
    assert subprocess.run([program, "-u"], capture_output=True, text=True, check=True).stdout == f"{os.geteuid()}\n"


async def test_every_sandbox_has_host_ids_of_its_own_which_a_later_one_gets(rootmap):
    async def mapped(environment):
        return (await bash(environment, "cat /proc/self/uid_map /proc/self/gid_map")).split()

    first = await mapped(rootmap)
    assert first[:6] == first[6:]
    assert first[:3] == ["0", first[1], "65536"]
    later = set()
    for _ in range(number := 3 * _SPARES + 2):
        async with SandboxEnvironment(rootmap.spec) as other:
            later.add(tuple(await mapped(other)))
    assert tuple(first) not in later
    assert len(later) < number


async def test_what_the_kernel_counts_per_user_is_not_counted_as_roots(rootmap):
    code = (
        "import ctypes, time\nlibc = ctypes.CDLL(None)\nwhile libc.inotify_init() >= 0: pass\n"
        "print('used up', flush=True); time.sleep(60)"
    )
    await rootmap.write_file("/tmp/up.py", code.encode())
    said = await rootmap.shell("coproc python3 -I -S /tmp/up.py; read -r line <&${COPROC[0]}; echo; echo $line")
    assert said.stdout.splitlines()[-1] == "used up", said
    instance = ctypes.CDLL(None).inotify_init()
    assert instance >= 0
    os.close(instance)
    await rootmap.shell("kill $COPROC_PID")


async def test_the_supervisor_is_another_user_in_another_namespace(rootmap):
    code = (
        "import errno, os, signal\n"
        "for number in (0, signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):\n"
        "    try: os.kill(1, number); print('signalled')\n"
        "    except PermissionError: pass\n"
        "for name in ('mem', 'maps', 'environ', 'status', 'ns/user', 'root', 'fd', 'oom_score_adj'):\n"
        "    try: os.open(f'/proc/1/{name}', os.O_RDONLY); print('opened', name)\n"
        "    except OSError: pass\n"
    )
    done = await rootmap.exec(["python3", "-I", "-S", "-c", code], timeout_s=20)
    assert (done.stdout, done.stderr) == ("", "")
    assert await rootmap.is_alive()


async def test_layers_below_are_never_written_whatever_root_does(rootmap):
    await bash(rootmap, "rm -rf /usr/share /testbed/pkg; chown -R 4242 /etc; chmod -R 777 /testbed; : > /etc/passwd")
    layers, base = resolve(rootmap.spec.image, owner=(0, 0), squash=False).directories
    assert (layers / "testbed/pkg/data.txt").read_text() == FILES["pkg/data.txt"]
    assert (layers / "testbed/calc.py").stat().st_mode & 0o777 == 0o644
    for name in ("etc", "etc/passwd", "etc/hosts", "usr/share"):
        assert (base / name).stat().st_uid == 0
    assert (base / "etc/passwd").stat().st_size > 0


async def test_a_home_that_the_image_lacks_is_the_agents_own_with_what_is_above_it():
    skip_unless("rootmap")
    env = {**AGENT_ENV, "HOME": "/somewhere/else/home"}
    options = {"mode": "rootmap"}
    async with SandboxEnvironment(EnvironmentSpec(Image(files=FILES), env=env, options=options)) as environment:
        said = await bash(environment, "stat -c %u:%g /somewhere /somewhere/else ~; touch /somewhere/x ~/x")
    assert said == "0:0\n" * 3


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Writes an image whose configuration names a user; its work directory is root's, one file a stranger's."""
    host = resolve(Image(), owner=(1000, 1000)).directories[-1]
    top = tmp_path_factory.mktemp("users")
    shutil.copytree(host, top / "root", symlinks=True, ignore=shutil.ignore_patterns("python*"))
    base = directory_layer(top / "root")
    work = layer(("testbed/", None), member("testbed/theirs", uid=1234, gid=5), member("testbed/far", uid=1 << 20))

    def write(user):
        config = {} if user is None else {"config": {"User": user}}
        return Image(f"oci:{docker_save(top / f'{user}.tar', [base, work], **config)}")

    return write


@pytest.mark.parametrize(
    ("user", "mode"),
    [(None, "rootmap"), ("", "rootmap"), ("root", "rootmap"), ("0:0", "rootmap"), ("1000", "root"), ("app", "root")],
)
async def test_an_image_whose_user_is_root_gets_the_mode_for_it(archive, user, mode):
    skip_unless("rootmap")
    image = archive(user)
    assert expects_root(image, ImageStore()) == (mode == "rootmap")
    chosen, layers = prepare(image, "auto", ImageStore(), env=AGENT_ENV)
    layers.release()
    assert chosen == mode


@pytest.mark.parametrize("base", ["host", "rootfs:/"])
async def test_an_image_that_names_no_user_is_made_for_an_ordinary_one(base):
    assert not expects_root(Image(base), ImageStore())


async def test_such_an_image_is_used_as_it_is(archive):
    skip_unless("rootmap")
    environment = SandboxEnvironment(EnvironmentSpec(archive("root"), EnvironmentLimits(), AGENT_ENV))
    async with environment:
        assert len(environment._layers.directories) == 2, "no copy of the work directory"
        said = await bash(environment, "cd /testbed; id -u; stat -c '%u:%g %n' . theirs far; rm far; echo > theirs; ls")
    assert said == "0\n0:0 .\n1234:5 theirs\n1048576:0 far\ntheirs\n"


WITHOUT = """
import logging, sys
from swe_plugin.environments.images import ImageStore
from swe_plugin.environments.sandbox import close_zygote, probe
from swe_plugin.environments.sandbox.modes import prepare
from swe_plugin.types import Image

logging.basicConfig(format="%(message)s", stream=sys.stdout)
print(str(probe()).splitlines()[0])
mode, layers = prepare(Image(sys.argv[1], workdir="/nowhere"), "auto", ImageStore())
layers.release()
close_zygote()
print(mode)
"""


async def test_where_owners_cannot_be_mapped_the_next_best_mode_is_taken_and_said(archive, tmp_path):
    """The state directory on an overlay, as in a container: a file system that cannot map owners."""
    skip_unless("rootmap")
    mount = (
        "mount -t tmpfs none $0 && cd $0 && mkdir u w m && mount -t overlay -o lowerdir=/opt,upperdir=u,workdir=w o m"
    )
    script = f'{mount} && SWE_PLUGIN_HOME=$0/m/home exec "$@"'
    run = await asyncio.to_thread(
        subprocess.run,
        ["unshare", "-m", "bash", "-c", script, tmp_path, sys.executable, "-c", WITHOUT, archive("root").base],
        env=os.environ | {"PYTHONPATH": str(Path(swe_plugin.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    first, warning, mode = run.stdout.splitlines() or [run.stderr]
    assert first.startswith("sandbox mode: root; the agent is uid 1000 in images whose user is root: mount_setattr: ")
    assert "Linux 5.19 or later, and SWE_PLUGIN_HOME on ext4" in first
    assert warning.startswith("sandbox: in images whose user is root the agent is uid 1000 here. mode rootmap: mount_")
    assert mode == "root"
