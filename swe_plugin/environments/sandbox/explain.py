"""From the step at which a trial sandbox failed to what a person can do about it."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["explain"]

_CONTAINER = (
    "inside a container, start it with --cap-add SYS_ADMIN --security-opt seccomp=unconfined "
    "--security-opt systempaths=unconfined (Kubernetes: a privileged pod), or use another backend "
    "(swe.environment.backend=docker)"
)
_SYS_ADMIN = 1 << 21
_NAMESPACE = ("clone", "unshare", "user namespace")
_SETTINGS = (
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "user namespaces are switched off: sysctl -w user.max_user_namespaces=15000",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "unprivileged user namespaces are switched off: sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor restricts user namespaces (Ubuntu 23.10 and later): sysctl -w "
        "kernel.apparmor_restrict_unprivileged_userns=0, or give this Python a profile with the rule 'userns,'",
    ),
)


def explain(mode: str, reason: str, *, root: Path = Path("/")) -> str:
    """One sentence that says what to change.

    Args:
        mode: that failed.
        reason: what `probe.try_mode` returned; empty gives empty.
        root: where ``/proc`` is looked for (tests have their own).
    """
    if not reason:
        return ""
    reason = re.sub(r"^\[Errno \d+\] ", "", reason)  # as an OSError of the trial prints itself
    if reason == "this process is not root":
        return "none needed if mode user works; otherwise run as root"
    if reason.startswith("root's processes"):
        return "run as an ordinary user, for whom the kernel bounds them, or make the pids cgroup writable"
    if reason.startswith("processes of a range"):
        return "make the pids cgroup writable"
    if reason.startswith("user namespace for host ids") and "Invalid argument" in reason:
        return "run outside of the container or user namespace, which has no such ids"
    if mode == "rootmap" and (reason.startswith(("mount overlay", "overlay", "owners")) or "owners of" in reason):
        return "needs Linux 5.19 or later, and SWE_PLUGIN_HOME on ext4, xfs or btrfs (tmpfs: 6.3), not on an overlay"
    if reason.startswith(_NAMESPACE) or any(name in reason for name in ("uid_map", "gid_map", "setgroups")):
        setting = "" if mode == "root" else _setting(root)
        if "No space left" in reason:  # what the kernel also says where the limit is 0
            return setting or "a limit under /proc/sys/user/max_*_namespaces is reached: raise it"
        return setting or _refused_by(root) + _CONTAINER
    if reason.startswith("mount proc"):
        return "parts of /proc are masked here, so that no new one may be mounted: " + _CONTAINER
    if reason.startswith("mount overlay") or reason.startswith("overlay"):
        return "needs a kernel with overlayfs (modprobe overlay); without root Linux 5.11 or later, best 6.6 or later"
    if reason.startswith("mount"):
        # AppArmor lets the namespace be made and then takes its capabilities away.
        return (_setting(root) if mode == "user" else "") or _CONTAINER
    if reason.startswith("no system-call filter"):
        return "sandboxes run on x86_64 and aarch64 only; use another backend (swe.environment.backend=docker)"
    if reason.startswith("confinement"):
        return "this kernel does not enforce the filter (CONFIG_SECCOMP_FILTER): use another backend"
    return _CONTAINER


def _refused_by(root: Path) -> str:
    """What of this process makes the kernel refuse namespaces, as ``/proc/self/status`` has it."""
    try:
        lines = (root / "proc/self/status").read_text().splitlines()
    except OSError:
        return ""
    status = dict(line.partition(":\t")[::2] for line in lines)
    causes = []
    if not int(status.get("CapEff", "0"), 16) & _SYS_ADMIN:
        causes.append("this process lacks the capability SYS_ADMIN")
    if status.get("Seccomp") == "2":
        causes.append("a seccomp filter is on it")
    return " and ".join(causes) + ": " if causes else ""


def _setting(root: Path) -> str:
    for path, value, advice in _SETTINGS:
        try:
            if (root / path.lstrip("/")).read_text().strip() == value:
                return advice
        except OSError:
            continue
    return ""
