"""System calls that Python's standard library does not wrap. Each raises `OSError` naming itself."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct

__all__ = [
    "attach",
    "check",
    "clone",
    "clone_mapped",
    "drop_capabilities",
    "loopback_up",
    "mount",
    "pivot_root",
    "prctl",
    "sethostname",
    "setns",
    "umount",
    "unshare",
    "write",
]

_libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL: the interpreter lock stays held, which `clone` needs
_libc.syscall.restype = ctypes.c_long

MACHINE = os.uname().machine
_SAME = {"open_tree": 428, "move_mount": 429, "mount_setattr": 442}
_NUMBERS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "capset": 126, **_SAME},
    "aarch64": {"clone": 220, "pivot_root": 41, "capset": 91, **_SAME},
}

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 4096, 8192, 16384, 1 << 18
MNT_DETACH = 2

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
_SIGCHLD = 17

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 36, 38, 22
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

_OPEN_TREE_CLONE, _MOVE_FROM_DESCRIPTOR, _MOUNT_IDMAP = 1, 4, 1 << 20
_AT_HERE, _AT_EMPTY_PATH = -100, 0x1000
_CAP_VERSION_3 = 0x20080522
_IFF_UP, _SIOCSIFFLAGS = 1, 0x8914


def check(result: int, what: str) -> int:
    """Turn a result of -1 into `OSError`, named after the call."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _syscall(name: str, *arguments: object) -> int:
    number = _NUMBERS.get(MACHINE, {}).get(name)
    if number is None:
        raise OSError(38, f"{name}: not known on {MACHINE}")
    return check(_libc.syscall(ctypes.c_long(number), *arguments), name)


def clone(flags: int) -> int:
    """`os.fork` with CLONE_NEW* flags: the process id in the parent, 0 in the child."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    try:
        pid = _syscall("clone", *(ctypes.c_ulong(value) for value in (flags | _SIGCHLD, 0, 0, 0, 0)))
    except OSError:
        python.PyOS_AfterFork_Parent()
        raise
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


def unshare(flags: int) -> None:
    """Leave the given namespaces for new ones."""
    check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int) -> None:
    """Join the namespace behind a descriptor."""
    check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def clone_mapped(path: str, namespace: int) -> int:
    """Descriptor of a mount, attached nowhere yet, of a directory whose owners are seen through a user namespace."""
    flags = ctypes.c_uint(_OPEN_TREE_CLONE | os.O_CLOEXEC)
    fd = _syscall("open_tree", ctypes.c_int(_AT_HERE), os.fsencode(path), flags)
    attributes = struct.pack("=4Q", _MOUNT_IDMAP, 0, 0, namespace)
    words = ctypes.c_uint(_AT_EMPTY_PATH), attributes, ctypes.c_size_t(len(attributes))
    _syscall("mount_setattr", ctypes.c_int(fd), b"", *words)
    return fd


def attach(fd: int, target: str) -> None:
    """Put a mount of `clone_mapped` on a directory; the descriptor is closed."""
    here = ctypes.c_int(_AT_HERE), target.encode(), ctypes.c_uint(_MOVE_FROM_DESCRIPTOR)
    _syscall("move_mount", ctypes.c_int(fd), b"", *here)
    os.close(fd)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    words = [word.encode() or None for word in (source, target, kind)]
    result = _libc.mount(*words, ctypes.c_ulong(flags), data.encode() or None)
    check(result, f"mount {kind or 'bind'} on {target}")


def umount(target: str, flags: int = 0) -> None:
    """umount2(2)."""
    check(_libc.umount2(target.encode(), ctypes.c_int(flags)), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    """pivot_root(2)."""
    _syscall("pivot_root", new.encode(), old.encode())


def prctl(option: int, *arguments: int) -> int:
    """prctl(2); missing arguments are 0."""
    words = [*arguments, 0, 0, 0, 0][:4]
    return check(_libc.prctl(ctypes.c_int(option), *(ctypes.c_ulong(word) for word in words)), f"prctl {option}")


def set_seccomp_filter(program: bytes) -> None:
    """Install a BPF program (8-byte instructions) for this thread and its children."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer)))
    prctl(PR_SET_SECCOMP, 2, ctypes.addressof(header))


def drop_capabilities(keep: int = 0) -> None:
    """Keep only the capabilities of the bit set `keep` (effective and permitted; none inheritable or ambient)."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("=Ii", _CAP_VERSION_3, 0)
    low, high = keep & 0xFFFFFFFF, keep >> 32
    _syscall("capset", header, struct.pack("=6I", low, low, 0, high, high, 0))


def drop_bounding_set(keep: int = 0) -> None:
    """No process below this one can ever gain a capability that is not in the bit set `keep` by executing a file."""
    for capability in range(64):
        if not keep >> capability & 1 and _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0):
            if ctypes.get_errno() == errno.EINVAL:  # this kernel has no more
                return
            check(-1, "prctl")


def trace_me() -> None:
    """ptrace(PTRACE_TRACEME), which a filter should refuse."""
    check(_libc.ptrace(ctypes.c_long(0), 0, None, None), "ptrace")


def sethostname(name: str) -> None:
    """sethostname(2)."""
    socket.sethostname(name)


def write(path: str, text: str) -> None:
    """Write to a file of the kernel in one call; `open` makes six."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def loopback_up() -> None:
    """Set the flag UP on ``lo`` of the current network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
