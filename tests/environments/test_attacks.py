"""Hostile commands, tried for real in every mode this machine can run."""

import asyncio
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from swe_plugin.environments import AGENT_ENV, EnvironmentSpec
from swe_plugin.environments.images import resolve
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.types import Image

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


async def run(environment, script, **options):
    return await environment.exec(["bash", "-c", script], timeout_s=20, **options)


async def python(environment, code):
    return await environment.exec(["python3", "-I", "-S", "-c", code], timeout_s=20)


IDENTITY = {"root": (1000, 0), "rootmap": (0, 0xFB), "user": (1000, 0)}
"""User id inside and capabilities: as root over files, ids and processes of its own namespace, and nothing else."""


async def test_the_agent_has_the_identity_of_its_mode_and_no_more_capabilities(each_mode):
    status = (
        await run(each_mode, "id -u; grep -E 'Cap(Eff|Prm|Bnd|Amb)|NoNewPrivs|Seccomp:' /proc/self/status")
    ).stdout
    uid, capabilities = IDENTITY[each_mode.spec.options["mode"]]
    assert status.startswith(f"{uid}\n")
    held = [int(line.split("\t")[1], 16) for line in status.splitlines() if line.startswith("Cap")]
    assert held == [capabilities, capabilities, capabilities, 0]
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status


async def test_host_files_are_not_there(each_mode, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    paths = f"{secret} /etc/shadow /root /home/$USER/.ssh {Path.home()} {os.environ['SWE_PLUGIN_HOME']}"
    result = await run(each_mode, f"ls -d {paths} 2>/dev/null; cat /proc/1/environ /proc/1/cmdline 2>/dev/null")
    assert result.stdout == ""
    assert not (await run(each_mode, "find / -xdev -name secret 2>/dev/null")).stdout


async def test_neither_secrets_nor_variables_of_the_trainer_are_inherited(each_mode):
    names = (await run(each_mode, "env | cut -d= -f1 | sort")).stdout.split()
    assert set(names) - set(each_mode.spec.env) <= {"PWD", "SHLVL", "_"}
    assert (await run(each_mode, "ls /proc/self/fd | wc -l")).stdout.strip() == "4"  # 0, 1, 2 and the listing's own


async def test_host_processes_are_not_visible_and_cannot_be_signalled(each_mode):
    seen = (await run(each_mode, "ls /proc | grep -E '^[0-9]+$' | sort -n")).stdout.split()
    assert "1" not in seen
    assert len(seen) < 10
    result = await run(each_mode, f"kill -9 {os.getpid()} {os.getppid()}")
    assert "No such process" in result.stderr


async def test_the_supervisor_is_out_of_reach(each_mode):
    signals = "for s in KILL STOP TERM INT HUP QUIT USR1 SEGV RTMIN; do kill -$s 1; done; cat /proc/1/mem /proc/1/maps"
    await run(each_mode, signals)
    assert not (await run(each_mode, "ls /proc/1/fd /proc/1/root /proc/1/cwd 2>/dev/null")).stdout
    assert await each_mode.is_alive()


async def test_the_supervisors_limits_and_scheduling_cannot_be_set(each_mode):
    code = (
        "import os, resource\n"
        "calls = {\n"
        "    'limit': lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (4096, 4096)),\n"
        "    'scheduler': lambda: os.sched_setscheduler(1, os.SCHED_BATCH, os.sched_param(0)),\n"
        "    'affinity': lambda: os.sched_setaffinity(1, os.sched_getaffinity(0)),\n"
        "}\n"
        "for name, call in calls.items():\n"
        "    try:\n        call()\n    except PermissionError:\n        print(name)\n"
        "resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0))  # one's own can\n"
    )
    result = await python(each_mode, code)
    assert result.stdout.split() == ["limit", "scheduler", "affinity"], result


async def test_a_forged_report_of_the_session_does_not_end_the_supervisor(each_mode):
    code = (
        "import os\n"
        "for fd in os.listdir(f'/proc/{os.getppid()}/fd'):\n"
        "    try:\n"
        "        path = f'/proc/{os.getppid()}/fd/{fd}'\n"
        "        assert int(fd) > 2 and os.readlink(path).startswith('pipe:') and os.lstat(path).st_mode & 0o200\n"
        "        pipe = os.open(path, os.O_WRONLY)\n"
        "        for number in range(60):\n"
        "            os.write(pipe, b'%d %s /\\0' % (number, b'9' * 5000))\n"
        "    except (AssertionError, OSError):\n"
        "        pass\n"
    )
    forged = await each_mode.shell(f"python3 -c {shlex.quote(code)}", timeout_s=20)
    assert forged.exit_code == 0, forged
    assert await each_mode.is_alive()
    assert (await each_mode.shell("echo well")).stdout == "well\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="outside a sandbox only root has what a supervisor gives up")
async def test_a_supervisor_imports_nothing_any_more():
    """Its search path names directories that are the agent's after the pivot."""
    code = (
        "from swe_plugin.environments.sandbox.zygote import build\n"
        "build._harden(build._FILTER)\n"
        "try:\n    import colorsys\nexcept ModuleNotFoundError:\n    print('refused')\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout == "refused\n", result.stderr


async def test_device_nodes_of_the_host_cannot_be_changed(each_mode):
    """In a user namespace that root made, the agent owns their inodes."""
    null = Path("/dev/null")
    before = null.stat()
    result = await run(
        each_mode, "chmod 0666 /dev/null && echo mode; touch -d @1 /dev/null && echo time; echo > /dev/null"
    )
    changed = null.stat().st_mtime == 1
    os.utime(null, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert result.stdout == ""
    assert not changed
    assert result.exit_code == 0  # they can be written


async def test_loopback_of_the_host_is_another_one(each_mode):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = await run(each_mode, f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    assert "Connection refused" in result.stderr
    assert (await run(each_mode, "cat /proc/net/dev | grep -c :")).stdout == "1\n"


async def test_its_own_loopback_works(each_mode):
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname());"
        "c.send(b'x'); print(s.accept()[0].recv(1))"
    )
    assert (await python(each_mode, code)).stdout == "b'x'\n"


async def test_abstract_sockets_of_the_host_cannot_be_reached(each_mode):
    name = f"\0swe-test-{uuid.uuid4().hex}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        assert "ConnectionRefusedError" in (await python(each_mode, code)).stderr


FORBIDDEN = {
    "mount": ((165, 40), "(b'none', b'/tmp', b'tmpfs', 0, None)", "EPERM"),
    "unshare(NEWUSER)": ((272, 97), "(0x10000000,)", "EPERM"),
    "unshare(NEWNS)": ((272, 97), "(0x20000,)", "EPERM"),
    "clone(NEWUSER)": ((56, 220), "(0x10000011, 0, 0, 0, 0)", "EPERM"),
    "clone3": ((435, 435), "(None, 0)", "ENOSYS"),
    "setns": ((308, 268), "(0, 0)", "EPERM"),
    "ptrace": ((101, 117), "(0, 0, 0, 0)", "EPERM"),
    "process_vm_readv": ((310, 270), "(1, None, 0, None, 0, 0)", "EPERM"),
    "process_vm_writev": ((311, 271), "(1, None, 0, None, 0, 0)", "EPERM"),
    "keyctl": ((250, 219), "(0, 0, 0)", "EPERM"),
    "bpf": ((321, 280), "(0, None, 0)", "EPERM"),
    "perf_event_open": ((298, 241), "(None, 0, -1, -1, 0)", "EPERM"),
    "userfaultfd": ((323, 282), "(1,)", "EPERM"),
    "io_uring_setup": ((425, 425), "(1, None)", "ENOSYS"),
    "chroot": ((161, 51), "(b'/tmp',)", "EPERM"),
    "pivot_root": ((155, 41), "(b'.', b'.')", "EPERM"),
    "open_by_handle_at": ((304, 265), "(0, None, 0)", "EPERM"),
    "ioctl(TIOCSTI)": ((16, 29), "(0, 0x5412, b'x')", "EPERM"),
    "ioctl(TIOCSTI) with high bits": ((16, 29), "(0, ctypes.c_ulong(0xF00005412), b'x')", "EPERM"),
    "sethostname": ((170, 161), "(b'x', 1)", "EPERM"),
    "socket(AF_VSOCK)": ((41, 198), "(40, 1, 0)", "EAFNOSUPPORT"),
    "socket(AF_PACKET)": ((41, 198), "(17, 3, 0)", "EAFNOSUPPORT"),
    "socket(AF_ALG)": ((41, 198), "(38, 5, 0)", "EAFNOSUPPORT"),
}
"""Call -> numbers on x86_64 and aarch64, arguments, and how it must end."""


async def test_forbidden_system_calls(each_mode):
    calls = ", ".join(f"{name!r}: ({numbers}, {words})" for name, (numbers, words, _) in FORBIDDEN.items())
    code = f"""
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
for name, (numbers, words) in {{{calls}}}.items():
    result = libc.syscall(numbers[platform.machine() == "aarch64"], *words)
    print(name, result, errno.errorcode.get(ctypes.get_errno()), sep=";")
"""
    result = await python(each_mode, code)
    assert result.stdout.splitlines() == [f"{name};-1;{reason}" for name, (_, _, reason) in FORBIDDEN.items()]


async def test_nobody_becomes_root_or_another_user_of_the_host(each_mode):
    code = (
        "import os\nfor id in [0] * bool(os.getuid()) + [0x70000000, 0xFFFFFFFE]:\n"
        " for f in os.setuid, os.setgid, os.seteuid:\n"
        "  try: f(id)\n  except OSError: continue\n  print(f, id)"
    )
    result = await python(each_mode, code)
    assert (result.stdout, result.stderr) == ("", "")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x32 and int 0x80 exist on x86_64 only")
async def test_x32_calls_end_the_process(each_mode):
    result = await python(each_mode, "import ctypes; ctypes.CDLL(None).syscall(0x40000000 | 39)")
    assert result.exit_code == 128 + 31


CLOSED = [
    "echo 1 > /proc/sys/kernel/panic",
    "echo x > /proc/sys/kernel/core_pattern",
    "echo b > /proc/sysrq-trigger && false",
    "head -c 1 /proc/kcore | grep -q .",
    "mknod /tmp/sda b 8 0",
    "mount -t proc proc /tmp",
    "echo -1000 > /proc/self/oom_score_adj",
    "ls /sys/fs | grep -q .",
    "cp /bin/bash /tmp/suid && chmod 4755 /tmp/suid && chown 1879048192 /tmp/suid",
    "cat /proc/keys | grep -q .",
    "cat /proc/kallsyms | grep -q .",
    'test "$(dd if=/proc/kpageflags bs=8 count=1 | wc -c)" = 8',
    "grep -q name /proc/slabinfo",
    "test -w /proc/mtrr -a ! -c /proc/mtrr",
]


async def test_kernel_interfaces_are_closed(each_mode):
    tries = "\n".join(f"if ( {script} ) >/dev/null 2>&1; then echo open: {script!r}; fi" for script in CLOSED)
    assert (await run(each_mode, tries)).stdout == ""


async def test_shared_layers_are_never_written(each_mode):
    await run(
        each_mode,
        "echo evil >> /testbed/calc.py; echo evil > /usr/bin/evil; rm -rf /testbed/pkg; chmod 777 /etc/passwd",
    )
    mode = each_mode.spec.options["mode"]
    owner = (1000, 1000) if mode == "root" else (os.geteuid(), os.getegid())
    layer, base = resolve(each_mode.spec.image, owner=owner, squash=mode == "user").directories
    assert "evil" not in (layer / "testbed/calc.py").read_text()
    assert (layer / "testbed/pkg/data.txt").exists()
    assert not (base / "usr/bin/evil").exists()
    assert (base / "etc/passwd").stat().st_mode & 0o777 == 0o644


async def test_disk_and_inodes_are_bounded(each_mode):
    result = await run(
        each_mode, "dd if=/dev/zero of=/tmp/a bs=1M count=200; dd if=/dev/zero of=/testbed/b bs=1M count=200"
    )
    assert result.stderr.count("No space left") == 2
    used = int((await run(each_mode, "du -smc /tmp/a /testbed/b /dev/shm | tail -1 | cut -f1")).stdout)
    assert used <= each_mode.spec.limits.disk_mib
    result = await run(each_mode, "rm -f /tmp/a /testbed/b; cd /tmp; for i in $(seq 3000); do : > f$i || exit 9; done")
    assert result.exit_code == 9 or each_mode.spec.limits.disk_mib * 64 > 3000
    assert (await run(each_mode, "rm -f /tmp/f*; echo back > /tmp/x && cat /tmp/x")).stdout == "back\n"


async def test_memory_is_bounded(each_mode):
    code = "blocks = []\nfor _ in range(64): blocks.append(b'x' * (32 << 20))\nprint('got 2 GB')"
    began = time.monotonic()
    result = await python(each_mode, code)
    assert "got" not in result.stdout
    assert result.exit_code in (1, 137)
    assert time.monotonic() - began < 10
    assert (await run(each_mode, "echo fine")).stdout == "fine\n"


async def test_orphans_do_not_outlive_the_time_limit_of_their_command(each_mode):
    code = (
        "import ctypes, os, time\n"
        "ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)  # no subreaper: orphans would go to process 1\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n        os.execvp('sleep', ['sleep', '54321'])\n"
        "    os._exit(0)\n"
        "time.sleep(60)\n"
    )
    result = await each_mode.exec(["python3", "-c", code], timeout_s=1)
    assert result.timed_out
    assert not (await run(each_mode, "grep -l 5432[1] /proc/[0-9]*/cmdline")).stdout


async def test_fork_bomb_ends_with_its_time_limit(each_mode):
    result = await each_mode.shell("b() { b | b & }; b; sleep 600", timeout_s=0.5)
    assert result.duration_s < 10
    for _ in range(20):
        if len((await run(each_mode, "ls /proc | grep -E '^[0-9]+$'")).stdout.split()) < 12:
            break
        await asyncio.sleep(0.1)
    else:
        pytest.fail("processes are left")
    assert (await each_mode.shell("echo usable", timeout_s=10)).stdout.endswith("usable\n")


async def test_another_sandbox_sees_nothing_of_this_one(each_mode):
    await run(each_mode, "echo mine > /tmp/mine; echo mine > /testbed/mine; (sleep 30 &)")
    async with SandboxEnvironment(each_mode.spec) as other:
        seen = await run(other, "ls /tmp /dev/shm; cat /testbed/mine; ps -eo args | grep -c '[s]leep 30'")
    assert seen.stdout == "/dev/shm:\n\n/tmp:\n0\n"


async def test_a_listener_inside_is_not_reachable_from_outside(each_mode):
    await run(
        each_mode, "python3 -c 'import socket, time; s = socket.create_server((\"127.0.0.1\", 45123)); time.sleep(3)' &"
    )
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", 45123)) != 0


def link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


async def test_links_of_an_image_do_not_lead_the_builder_out(tmp_path):
    """With the host's network, its resolv.conf is copied in; not to where the image's links lead outside."""
    outside, image = tmp_path / "outside", tmp_path / "image"
    outside.mkdir()
    host = resolve(Image(), owner=(1000, 1000)).directories[-1]
    shutil.copytree(host, image, symlinks=True, copy_function=link_or_copy)
    (image / "etc").rename(image / "etc.old")
    (image / "etc").symlink_to(outside)
    (image / "work").mkdir()
    spec = EnvironmentSpec(Image(f"rootfs:{image}", workdir="/work"), env=AGENT_ENV, network="full")
    async with SandboxEnvironment(spec) as environment:
        assert (await environment.exec(["true"])).exit_code == 0
    assert not list(outside.iterdir())
