"""What this machine can do: sandbox modes are tried for real, and what is missing is explained."""

from __future__ import annotations

import logging
import os
import platform
import socket
import time
from dataclasses import dataclass, field
from functools import cache

from swe_plugin.environments.home import home
from swe_plugin.environments.sandbox.explain import explain
from swe_plugin.environments.sandbox.hierarchy import CONTROLLERS
from swe_plugin.environments.sandbox.owner import ZygoteProcess, current_zygote
from swe_plugin.environments.sandbox.zygote.frames import Decoder, encode
from swe_plugin.environments.sandbox.zygote.plan import Plan
from swe_plugin.errors import EnvironmentStartError

__all__ = ["MODES", "Check", "ProbeReport", "describe_modes", "probe", "require_mode", "try_mode"]

logger = logging.getLogger(__name__)

MODES = ("root", "rootmap", "user")
"""In order of preference; for images that expect their user to be root, ``rootmap`` comes first."""
_TRIAL_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report: what was tried, whether it holds, what was seen, and what to do if it does not."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


@dataclass(slots=True)
class ProbeReport:
    """What `probe` found.

    Attributes:
        mode: the mode that sandboxes will use here, None if none works.
        checks: everything that was tried.
        limits: limit -> how it is held here (``cgroup v1``, ``watchdog``, ``tmpfs``...).
    """

    mode: str | None
    checks: list[Check] = field(default_factory=list)
    limits: dict[str, str] = field(default_factory=dict)

    @property
    def for_root(self) -> str:
        """What becomes of images that expect their user to be root, where that differs from others."""
        checks = {check.name: check for check in self.checks}
        if self.mode != "root":
            return ""
        if (rootmap := checks["mode rootmap"]).ok:
            return "; rootmap for images whose user is root"
        return f"; the agent is uid 1000 in images whose user is root: {rootmap.detail} ({rootmap.fix})"

    def __str__(self) -> str:
        lines = [f"sandbox mode: {self.mode or 'none works here'}{self.for_root}"]
        for check in self.checks:
            lines.append(f"  {'ok  ' if check.ok else 'FAIL'} {check.name}: {check.detail}")
            if not check.ok and check.fix:
                lines.append(f"       fix: {check.fix}")
        lines += [f"  limit {name}: {how}" for name, how in self.limits.items()]
        return "\n".join(lines)


def probe() -> ProbeReport:
    """Try every mode and say which limits hold. Blocking, about 0.2 s; leaves nothing behind."""
    report = ProbeReport(None)
    report.checks.append(Check("system", platform.system() == "Linux", f"{platform.system()} {platform.release()}"))
    try:
        zygote = current_zygote()
    except EnvironmentStartError as error:
        report.checks.append(Check("zygote", False, str(error), "see the message"))
        return report
    for mode in MODES:
        reason = try_mode(zygote, mode)
        if not reason and report.mode is None:
            report.mode = mode
        report.checks.append(Check(f"mode {mode}", not reason, reason or "works", explain(mode, reason)))
    _describe_limits(report, zygote)
    return report


@cache
def require_mode(wanted: str, *, for_root: bool = False) -> str:
    """The mode to use, tried once per process.

    Args:
        wanted: ``auto`` or one of `MODES`.
        for_root: with ``auto``, prefer the mode in which the agent is root inside.

    Raises:
        EnvironmentStartError: it does not work here; says why and what to do.
    """
    if wanted not in ("auto", *MODES):
        raise EnvironmentStartError(f"sandbox: mode={wanted!r}: must be one of auto, {', '.join(MODES)}")
    problems: list[str] = []
    order = sorted(MODES, key=lambda mode: mode != "rootmap") if for_root else MODES
    for mode in order if wanted == "auto" else (wanted,):
        reason = try_mode(current_zygote(), mode)
        if not reason:
            if for_root and mode == "root":
                logger.warning("sandbox: in images whose user is root the agent is uid 1000 here. %s", problems[0])
            return mode
        problems.append(f"mode {mode}: {reason}. Fix: {explain(mode, reason)}")
    raise EnvironmentStartError("sandbox: this machine cannot run sandboxes. " + " | ".join(problems))


def describe_modes(wanted: str) -> str:
    """The modes that sandboxes will use here, in a few words.

    Raises:
        EnvironmentStartError: see `require_mode`.
    """
    usual, for_root = require_mode(wanted), require_mode(wanted, for_root=wanted == "auto")
    more = "" if usual == for_root else f"; {for_root} for images whose user is root"
    return f"sandbox mode {usual}{more}"


def try_mode(zygote: ZygoteProcess, mode: str) -> str:
    """Build a trial sandbox; empty if it works, else the reason. Blocking."""
    if mode != "user" and os.geteuid() != 0:
        return "this process is not root"
    if mode != "root" and os.geteuid() == 0 and "pids" not in zygote.hierarchy.parents:
        whose = "root's processes" if mode == "user" else "processes of a range of users"
        return f"{whose} are not bounded without the pids cgroup"
    layer = home() / "trial"
    (layer / "trial/dir").mkdir(parents=True, exist_ok=True)
    for name in ("trial/file", "trial/dir/inner"):
        (layer / name).touch()
    number = zygote.next_number()
    plan = Plan(
        mode=mode,
        layers=[str(layer)],
        workdir="/trial",
        env={},
        network="none",
        disk_bytes=1 << 20,
        disk_inodes=256,
        memory_bytes=64 << 20,
        pids=16,
        cpus=1.0,
        output_bytes=1 << 16,
        cgroups=zygote.cgroups(number),
        cgroup_version=zygote.hierarchy.version,
        trial=True,
    )
    ours, theirs = socket.socketpair()
    with ours:
        try:
            zygote.start_trial(number, theirs, mode)
        except EnvironmentStartError as error:
            return str(error)
        finally:
            theirs.close()
        return _converse(ours, plan)


def _converse(ours: socket.socket, plan: Plan) -> str:
    """Send the plan and read the answer and the end of the stream, which comes when everything is removed."""
    ours.settimeout(_TRIAL_TIMEOUT_S)
    decoder, answer = Decoder(), "the sandbox ended without an answer"
    deadline = time.monotonic() + _TRIAL_TIMEOUT_S
    try:
        ours.sendall(encode(plan.to_dict()))
        while data := ours.recv(1 << 16):
            for header, _ in decoder.feed(data):
                answer = str(header.get("error", ""))
            if time.monotonic() > deadline:
                return "a trial sandbox does not end"
    except OSError as error:
        return answer or str(error)
    return answer


def _describe_limits(report: ProbeReport, zygote: ZygoteProcess) -> None:
    hierarchy = zygote.hierarchy
    for controller in CONTROLLERS:
        held = controller in hierarchy.parents
        how = f"cgroup v{hierarchy.version}"
        reason = how if held else hierarchy.reasons.get(controller, "missing")
        report.checks.append(Check(f"cgroup {controller}", held, reason, "limits below say what is used instead"))
        report.limits[controller] = how if held else _fallback(controller, report.mode == "root")
    report.limits["disk"] = "tmpfs size and inodes"
    report.limits["open files"] = "rlimit"
    report.limits["output"] = "supervisor"
    report.limits["network"] = "own namespace, loopback only"


def _fallback(controller: str, as_root: bool) -> str:
    counted = "over all sandboxes of the node" if as_root else "in the sandbox's user namespace"
    return {
        "memory": "RLIMIT_DATA per process, watchdog over all (5 looks a second)",
        "pids": f"RLIMIT_NPROC {counted}, watchdog",
        "cpu": "not held: a sandbox may use every core",
    }[controller]
