"""The system-call filter of agent processes: a classic BPF program, built once per zygote.

Default is allow, as in container engines' profiles, minus what widens the kernel's attack surface or leads
out of the namespaces. Numbers: the kernel's syscall tables for x86_64 and (asm-generic) aarch64.
"""

from __future__ import annotations

import errno
import struct

__all__ = ["DENIED", "build_filter", "denying"]

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_OFFSET_NR, _OFFSET_ARCH, _OFFSET_ARG0, _OFFSET_ARG1 = 0, 4, 16, 24  # struct seccomp_data, little endian low words

_NEW_NAMESPACE = 0x7E020080
"""All CLONE_NEW* flags, CLONE_NEWTIME included."""
_TERMINAL_INJECTION = (0x5412, 0x541C)
"""ioctl requests TIOCSTI and TIOCLINUX."""
_FAMILIES = (1, 2, 10, 16)
"""Socket families that stay: UNIX, INET, INET6, NETLINK. Others (VSOCK above all) ignore network namespaces."""

DENIED: dict[str, tuple[int, int]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
"""Answered with EPERM: name -> (x86_64 number, aarch64 number)."""

_ABSENT = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
"""Answered with ENOSYS, so that callers fall back: their arguments are out of a filter's sight."""

_OF_PROCESS = {
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
}
"""Refused for process 1, their first argument: who has the supervisor's user id may otherwise take its limits away."""

_CLONE, _IOCTL, _PRCTL = (56, 220), (16, 29), (157, 167)
_SOCKETS = {"socket": (41, 198), "socketpair": (53, 199)}
_PR_SET_CHILD_SUBREAPER = 36


def denying(name: str, machine: str) -> bytes:
    """A program to go on top of that of `build_filter`: refuses one more of the `DENIED` calls."""
    number = DENIED[name][list(_AUDIT_ARCH).index(machine)]
    refuse = _op(_RETURN, _ERRNO | errno.EPERM)
    return b"".join([_op(_LOAD, _OFFSET_NR), _op(_JEQ, number, 0, 1), refuse, _op(_RETURN, _ALLOW)])


def build_filter(machine: str, *, but: str = "") -> bytes:
    """The program for a machine as `platform.machine` names it, but for one call that stays allowed for the time being.

    Raises:
        ValueError: no filter is known for it.
    """
    if machine not in _AUDIT_ARCH:
        raise ValueError(f"no system-call filter for {machine}; known: {', '.join(_AUDIT_ARCH)}")
    column = list(_AUDIT_ARCH).index(machine)
    program = [
        _op(_LOAD, _OFFSET_ARCH),
        _op(_JEQ, _AUDIT_ARCH[machine], 1, 0),
        _op(_RETURN, _KILL),
        _op(_LOAD, _OFFSET_NR),
    ]
    if machine == "x86_64":
        program += [_op(_JGE, _X32_BIT, 0, 1), _op(_RETURN, _KILL)]
    for numbers in (numbers for name, numbers in DENIED.items() if name != but):
        program += [_op(_JEQ, numbers[column], 0, 1), _op(_RETURN, _ERRNO | errno.EPERM)]
    for numbers in _ABSENT.values():
        program += [_op(_JEQ, numbers[column], 0, 1), _op(_RETURN, _ERRNO | errno.ENOSYS)]
    program += _on(
        _CLONE[column],
        [_op(_LOAD, _OFFSET_ARG0), _op(_JSET, _NEW_NAMESPACE, 0, 1), _op(_RETURN, _ERRNO | errno.EPERM)],
    )
    for numbers in _OF_PROCESS.values():
        program += _on(
            numbers[column],
            [_op(_LOAD, _OFFSET_ARG0), _op(_JEQ, 1, 0, 1), _op(_RETURN, _ERRNO | errno.EPERM)],
        )
    program += _on(
        _IOCTL[column],
        [
            _op(_LOAD, _OFFSET_ARG1),
            *(_op(_JEQ, request, len(_TERMINAL_INJECTION) - i, 0) for i, request in enumerate(_TERMINAL_INJECTION)),
            _op(_RETURN, _ALLOW),
            _op(_RETURN, _ERRNO | errno.EPERM),
        ],
    )
    # Orphans come back to the root of their command, which its time limit ends: that it may not refuse.
    program += _on(
        _PRCTL[column],
        [
            *(_op(_LOAD, _OFFSET_ARG0), _op(_JEQ, _PR_SET_CHILD_SUBREAPER, 0, 3)),
            *(_op(_LOAD, _OFFSET_ARG1), _op(_JEQ, 0, 0, 1), _op(_RETURN, _ERRNO | errno.EPERM)),
        ],
    )
    for numbers in _SOCKETS.values():
        program += _on(
            numbers[column],
            [
                _op(_LOAD, _OFFSET_ARG0),
                *(_op(_JEQ, family, len(_FAMILIES) - i, 0) for i, family in enumerate(_FAMILIES)),
                _op(_RETURN, _ERRNO | errno.EAFNOSUPPORT),
                _op(_RETURN, _ALLOW),
            ],
        )
    return b"".join([*program, _op(_RETURN, _ALLOW)])


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _on(number: int, body: list[bytes]) -> list[bytes]:
    """Run `body` for one system call; it ends in a return or falls through to allow."""
    return [_op(_JEQ, number, 0, len(body) + 1), *body, _op(_RETURN, _ALLOW)]
