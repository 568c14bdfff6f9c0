"""The file system of a sandbox: overlay on shared layers, private /dev, /proc, /tmp, and nothing of the host."""

from __future__ import annotations

import contextlib
import os

from swe_plugin.environments.sandbox.zygote import syscalls as sys_
from swe_plugin.environments.sandbox.zygote.plan import Plan

__all__ = ["enter_root", "lay_out"]

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_HIDDEN_FILES = (
    "kcore",
    "keys",
    "key-users",
    "kmsg",
    "kallsyms",
    "sysrq-trigger",
    "timer_list",
    "sched_debug",
    "config.gz",
    # readable by root only, which is whom the agent is outside in a user namespace that root made
    "kpagecount",
    "kpagecgroup",
    "kpageflags",
    "mtrr",
    "pagetypeinfo",
    "slabinfo",
    "vmallocinfo",
)
_HIDDEN_DIRECTORIES = ("acpi", "asound", "scsi", "driver", "dynamic_debug")
_READ_ONLY = ("sys", "bus", "fs", "irq", "tty", "pressure")
_SAFE = sys_.MS_NOSUID | sys_.MS_NODEV


def lay_out(mount_point: str, *, user_namespace: bool, owner: int = -1) -> None:
    """In a new mount namespace, mount what needs no plan: one tmpfs with a ``dev`` and a ``proc``; it becomes the cwd.

    Args:
        mount_point: an empty directory of the host.
        user_namespace: the sandbox lives in a user namespace of its own.
        owner: of the directories to come; -1: the caller.

    Raises:
        OSError: a mount failed; the message says which.
    """
    sys_.mount("none", "/", flags=sys_.MS_REC | sys_.MS_PRIVATE)
    sys_.mount("tmpfs", mount_point, "tmpfs", _SAFE, "size=64k,nr_inodes=64,mode=0755")
    os.chdir(mount_point)
    for name in ("dev", "proc"):
        os.mkdir(name)
    for name, mode in {"upper": 0o755, "work": 0o755, "root": 0o755, "tmp": 0o1777, "shm": 0o1777}.items():
        os.mkdir(name)
        os.chmod(name, mode)
        os.chown(name, owner, owner)
    _devices()
    sys_.mount("proc", "proc", "proc", _SAFE | sys_.MS_NOEXEC, _proc_options(user_namespace))
    _mask_proc()


def enter_root(plan: Plan) -> None:
    """Put the layers of the plan below what `lay_out` made, and make that the root directory.

    Raises:
        OSError: a mount failed; the message says which.
    """
    resolver = _resolver() if plan.network == "full" else b""
    lowers = [_open_layer(path, plan) for path in plan.layers]
    own = [os.open(path, os.O_PATH | os.O_DIRECTORY) for path in (plan.upper, plan.work) if path]
    bounds = f"size={plan.disk_bytes},nr_inodes={plan.disk_inodes}"
    sys_.mount("none", ".", flags=sys_.MS_REMOUNT | _SAFE, data=bounds)
    _overlay(lowers, own, plan)
    os.chdir("root")
    for name in ("dev", "proc", "tmp"):
        os.makedirs(name, exist_ok=True)
        sys_.mount(f"../{name}", name, flags=sys_.MS_BIND if name == "tmp" else sys_.MS_MOVE)
    sys_.pivot_root(".", ".")
    sys_.umount(".", sys_.MNT_DETACH)
    os.chdir("/")
    if resolver:
        _write_resolver(resolver, plan)


def _open_layer(path: str, plan: Plan) -> int:
    if plan.namespace < 0:
        return os.open(path, os.O_PATH | os.O_DIRECTORY)
    try:
        return sys_.clone_mapped(path, plan.namespace)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} (mapping the owners of {path})") from error


def _overlay(lowers: list[int], own: list[int], plan: Plan) -> None:
    # Layers by descriptor: their paths may be long, hold commas or colons, and are not shown to the agent.
    names = [f"/proc/self/fd/{fd}" for fd in lowers]
    if plan.namespace >= 0:  # before Linux 6.15 overlayfs takes a mount only if it is somewhere
        names = [f"lower{number}" for number in range(len(lowers))]
        for name, fd in zip(names, lowers, strict=True):
            os.mkdir(name)
            sys_.attach(fd, name)
    upper, work = (f"/proc/self/fd/{fd}" for fd in own) if own else ("upper", "work")
    options = f"lowerdir={':'.join(names)},upperdir={upper},workdir={work},metacopy=off,index=off"
    options += ",userxattr" if plan.user_namespace else ",redirect_dir=nofollow"
    sys_.mount("overlay", "root", "overlay", _SAFE, options)
    for fd in (*(lowers if plan.namespace < 0 else ()), *own):
        os.close(fd)


def _devices() -> None:
    sys_.mount("tmpfs", "dev", "tmpfs", sys_.MS_NOSUID | sys_.MS_NOEXEC, "size=64k,nr_inodes=64,mode=0755")
    for name in _DEVICES:
        if os.path.exists(f"/dev/{name}"):
            os.close(os.open(f"dev/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
            _bind_device(name, f"dev/{name}")
    for name, target in _LINKS.items():
        os.symlink(target, f"dev/{name}")
    for name in ("pts", "shm"):
        os.mkdir(f"dev/{name}")
    sys_.mount("devpts", "dev/pts", "devpts", sys_.MS_NOSUID | sys_.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    os.symlink("pts/ptmx", "dev/ptmx")
    sys_.mount("shm", "dev/shm", flags=sys_.MS_BIND)


def _bind_device(name: str, target: str) -> None:
    # The inode is the host's, and in a user namespace made by root the agent is its owner: read-only, so that nobody
    # changes its mode or times. Devices can be written all the same.
    sys_.mount(f"/dev/{name}", target, flags=sys_.MS_BIND)
    flags = sys_.MS_BIND | sys_.MS_REMOUNT | sys_.MS_RDONLY | sys_.MS_NOSUID | sys_.MS_NOEXEC
    sys_.mount("none", target, flags=flags)


def _proc_options(user_namespace: bool) -> str:
    # The supervisor does not even show. It sees all itself: by its group as the host's root, by CAP_SYS_PTRACE in a
    # user namespace (where group 0 must not count, as the caller's own group may be it).
    return "hidepid=4" if user_namespace else "hidepid=2,gid=0"


def _mask_proc() -> None:
    for name in _HIDDEN_FILES:
        if os.path.exists(f"proc/{name}"):
            _bind_device("null", f"proc/{name}")
    for name in _HIDDEN_DIRECTORIES:
        if os.path.isdir(f"proc/{name}"):
            sys_.mount("tmpfs", f"proc/{name}", "tmpfs", _SAFE | sys_.MS_RDONLY, "size=4k,nr_inodes=2")
    flags = sys_.MS_BIND | sys_.MS_REMOUNT | sys_.MS_RDONLY | _SAFE | sys_.MS_NOEXEC
    for name in _READ_ONLY:
        if os.path.exists(f"proc/{name}"):
            sys_.mount(f"proc/{name}", f"proc/{name}", flags=sys_.MS_BIND | sys_.MS_REC)
            sys_.mount("none", f"proc/{name}", flags=flags)


def _resolver() -> bytes:
    with contextlib.suppress(OSError), open("/etc/resolv.conf", "rb") as source:
        return source.read(1 << 16)
    return b""


def _write_resolver(content: bytes, plan: Plan) -> None:
    """After the pivot: links of the image lead nowhere else."""
    with contextlib.suppress(OSError):
        os.makedirs("/etc", exist_ok=True)
        if os.path.islink("/etc/resolv.conf"):
            os.unlink("/etc/resolv.conf")
        with open("/etc/resolv.conf", "wb") as target:
            target.write(content)
        if plan.namespace >= 0:
            os.chown("/etc/resolv.conf", plan.uid, plan.gid)
