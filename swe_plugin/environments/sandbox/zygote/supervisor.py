"""PID 1 of a sandbox: it answers the owner's requests and is out of the agent's reach."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from swe_plugin.environments.sandbox.zygote import confine, files
from swe_plugin.environments.sandbox.zygote.jobs import Job, drain, read_some, spawn
from swe_plugin.environments.sandbox.zygote.link import Connect, OwnerGone
from swe_plugin.environments.sandbox.zygote.plan import Plan
from swe_plugin.environments.sandbox.zygote.processes import usage
from swe_plugin.environments.sandbox.zygote.session import ARGV, SETUP, STATUS_FD, Session
from swe_plugin.environments.sandbox.zygote.streams import Streams
from swe_plugin.environments.sandbox.zygote.watchdog import Watchdog

__all__ = ["Supervisor"]

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_SETUP_TIMEOUT_S = 30.0


class Supervisor:
    """An event loop over the owner's socket, the pipes of jobs, and the session.

    Args:
        connect: makes the link to the owner from the selector and what to call with each request.
        plan: the sandbox.
        cgroup_fds: open files of the agent's cgroups.
    """

    def __init__(self, connect: Connect, plan: Plan, cgroup_fds: list[int]) -> None:
        self._plan, self._cgroup_fds = plan, cgroup_fds
        self._namespace = {confine.NAMESPACE_FD: plan.namespace} if plan.namespace >= 0 else {}
        self._selector = selectors.DefaultSelector()
        self._owner = connect(self._selector, self._on_request)
        self._streams = Streams(self._selector, self._owner.send)
        self._jobs: dict[int, Job] = {}
        self._session = Session(plan.output_bytes)
        self._session.cwd = plan.workdir
        self._watchdog = Watchdog(plan)
        self._terminal: tuple[int, int] = (-1, -1)
        self._waiting: deque[tuple[int, str, float]] = deque()
        self._operations: dict[str, Callable[[dict[str, Any], bytes], None]] = {
            "cancel": self._cancel,
            "exec": self._exec,
            "file": self._file,
            "ping": self._ping,
            "pull": self._streams.pull,
            "push": self._streams.push,
            "shell": self._shell,
            "usage": self._usage,
        }

    def run(self, first: int) -> None:
        """Serve until the owner is gone.

        Args:
            first: id of the start request, answered when bash is ready.
        """
        wake, wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(wake, _READ, lambda _: self._woken(wake))
        self._terminal = os.openpty()
        self._open_session(first)
        with contextlib.suppress(OwnerGone):
            while True:
                for key, mask in self._selector.select(self._next_deadline()):
                    if self._selector.get_map().get(key.fileobj) is key:  # not closed, or reused, just now
                        key.data(mask)
                self._reap()
                self._check_deadlines()

    def close(self) -> None:
        """Let go of what was made for one that does not `run`."""
        self._selector.close()

    # Requests

    def _on_request(self, header: dict[str, Any], payload: bytes) -> None:
        self._operations[header["op"]](header, payload)

    def _ping(self, header: dict[str, Any], _: bytes) -> None:
        self._owner.send({"id": header["id"]})

    def _usage(self, header: dict[str, Any], _: bytes) -> None:
        cpu_s, memory_bytes = usage()
        self._owner.send({"id": header["id"], "cpu_s": cpu_s, "memory_bytes": memory_bytes})

    def _cancel(self, header: dict[str, Any], _: bytes) -> None:
        target = header["target"]
        if self._session.request == target:
            self._session.give_up(timed_out=False)
        self._waiting = deque(item for item in self._waiting if item[0] != target)
        for job in self._jobs.values():
            if job.request == target:
                job.kill()
        self._streams.close(target)  # after it: at its end a command could exit, and leave behind what it started
        busy = self._session.request == target or any(job.request == target for job in self._jobs.values())
        if not busy:
            self._owner.send({"id": target, "cancelled": True})

    def _shell(self, header: dict[str, Any], _: bytes) -> None:
        self._waiting.append((header["id"], header["script"], header["timeout_s"]))
        self._next_script()

    def _exec(self, header: dict[str, Any], stdin: bytes) -> None:
        argv, env = header["argv"], {**self._plan.env, **header["env"]}
        cwd = header["cwd"] or self._plan.workdir

        def child() -> None:
            confine.become_agent(self._plan)
            try:
                os.chdir(cwd)
            except OSError as error:
                os.write(2, f"{cwd}: {error.strerror}\n".encode(errors="surrogateescape"))
                os._exit(126)
            confine.execute(argv, env)

        job = Job(header["id"], stdin, self._plan.output_bytes, header["timeout_s"])
        self._start_job(job, child, self._stream(header))

    def _file(self, header: dict[str, Any], content: bytes) -> None:
        def child() -> None:
            confine.become_agent(self._plan)
            os.chdir(self._plan.workdir)
            files.run(header["kind"], header["path"], header["mode"])

        job = Job(header["id"], content, files.READ_LIMIT * 2, header["timeout_s"])
        job.operation = header["kind"]
        self._start_job(job, child, self._stream(header))

    # Jobs

    def _stream(self, header: dict[str, Any]) -> int:
        return self._streams.open(header["id"]) if header.get("stream") else -1

    def _start_job(self, job: Job, child: Callable[[], None], stream: int = -1) -> None:
        """Fork a confined child with pipes, or with `stream` (closed here) as its stdin and stdout."""
        out_r, out_w = self._pipe()
        err_r, err_w = self._pipe()
        in_r, in_w = os.pipe2(os.O_CLOEXEC)
        ends = {0: in_r, 1: out_w, 2: err_w} if stream < 0 else {0: stream, 1: stream, 2: err_w}
        try:
            job.pid = spawn(lambda: self._child(ends, child))
        except OSError as error:
            job.stderr.add(f"cannot start a process: {error.strerror}\n".encode())
            self._streams.close(job.request)
            self._owner.send(*job.result(126 << 8))
            for fd in (out_r, err_r, in_w):
                os.close(fd)
            return
        finally:
            for fd in {in_r, out_w, err_w, stream} - {-1}:
                os.close(fd)
        self._jobs[job.pid] = job
        for fd, buffer in ((out_r, job.stdout), (err_r, job.stderr)):
            job.outputs[fd] = buffer
            os.set_blocking(fd, False)
            self._selector.register(fd, _READ, lambda _, fd=fd: self._on_output(job, fd))
        job.input_fd = in_w
        os.set_blocking(in_w, False)
        self._selector.register(in_w, _WRITE, lambda _: self._on_input(job))
        self._on_input(job)

    def _child(self, ends: dict[int, int], child: Callable[[], None]) -> None:
        """First steps of a forked child: join the cgroups while their descriptors are open, keep only `ends`."""
        for fd in self._cgroup_fds:
            os.write(fd, b"0")
        confine.keep_descriptors(ends | self._namespace)
        child()

    def _pipe(self) -> tuple[int, int]:
        """A pipe that the agent may open again by name (/dev/stdout)."""
        ends = os.pipe2(os.O_CLOEXEC)
        if not self._plan.user_namespace:
            os.fchown(ends[1], self._plan.uid, self._plan.gid)
        return ends

    def _on_input(self, job: Job) -> None:
        if job.input_fd >= 0 and not job.feed():
            self._close(job.input_fd)
            job.input_fd = -1

    def _on_output(self, job: Job, fd: int) -> None:
        data = read_some(fd)
        if data == b"":
            del job.outputs[fd]
            self._close(fd)
        elif data and not job.timed_out:
            job.outputs[fd].add(data)

    def _finish_job(self, job: Job, status: int) -> None:
        if job.input_fd >= 0:
            self._close(job.input_fd)
        for fd, buffer in job.outputs.items():
            if not job.timed_out:
                drain(fd, buffer)
            self._close(fd)
        del self._jobs[job.pid]
        header, payload = job.result(status)
        if header["exit_code"] or job.operation != "pack":  # else the owner has not pulled everything yet
            self._streams.close(job.request)
        self._owner.send(header, payload)

    # The session

    def _open_session(self, request: int = SETUP) -> None:
        out_r, out_w = self._pipe()
        status_r, status_w = self._pipe()
        in_r, in_w = os.pipe2(os.O_CLOEXEC)
        cwd = self._session.cwd

        def child() -> None:
            confine.become_agent(self._plan)
            for directory in (cwd, self._plan.workdir, "/"):
                with contextlib.suppress(OSError):
                    os.chdir(directory)
                    break
            confine.execute(ARGV, {**self._plan.env, "PWD": os.getcwd()})

        pid = spawn(lambda: self._child({0: in_r, 1: out_w, 2: self._terminal[1], STATUS_FD: status_w}, child))
        for fd in (in_r, out_w, status_w):
            os.close(fd)
        for fd in (out_r, status_r, in_w):
            os.set_blocking(fd, False)
        self._session.opened(request, pid, in_w, out_r, status_r, _SETUP_TIMEOUT_S)
        self._selector.register(out_r, _READ, lambda _: self._on_session_output())
        self._selector.register(status_r, _READ, lambda _: self._on_report())
        self._send_to_session()

    def _next_script(self) -> None:
        if not self._waiting or self._session.request is not None:
            return
        if not self._session.pid:
            self._open_session()
            return
        self._session.begin(*self._waiting.popleft())
        self._send_to_session()

    def _send_to_session(self) -> None:
        """Write what bash has not got yet, now or whenever its pipe has room."""
        session = self._session
        if session.pid and session.pending:
            try:
                session.pending = session.pending[os.write(session.input_fd, session.pending) :]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                session.pending = b""
        watched = session.input_fd in self._selector.get_map()
        if session.pid and session.pending and not watched:
            self._selector.register(session.input_fd, _WRITE, lambda _: self._send_to_session())
        elif watched and not session.pending:
            self._selector.unregister(session.input_fd)

    def _on_session_output(self) -> None:
        if not self._session.read_output():
            self._selector.unregister(self._session.output_fd)

    def _on_report(self) -> None:
        code = self._session.read_reports()
        if code is not None:
            self._answer_session(code)

    def _answer_session(self, code: int) -> None:
        header, payload = self._session.finish(code)
        if header["id"] != SETUP:
            self._owner.send(header, payload)
        if self._session.needs_sync():
            self._session.sync()
            self._send_to_session()
        else:
            self._next_script()

    def _session_died(self, status: int) -> None:
        session = self._session
        reported = session.read_reports()
        never_ready, descriptors = session.starting and reported is None, session.descriptors
        code = session.died(status)
        if session.request is not None:
            header, payload = session.finish(code if reported is None else reported)
            if never_ready:
                self._bash_fails(header["id"], f"bash does not start (exit code {code}): {payload[-2000:]!r}")
            elif header["id"] != SETUP:
                self._owner.send(header, payload)
        for fd in descriptors:
            self._close(fd)
        self._next_script()

    def _bash_fails(self, request: int, reason: str) -> None:
        for number in {request, *(item[0] for item in self._waiting)} - {SETUP}:
            self._owner.send({"id": number, "error": reason})
        self._waiting.clear()

    # Time and children

    def _woken(self, fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(fd, 4096)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._session.pid:
                self._session_died(status)
            elif pid in self._jobs:
                self._finish_job(self._jobs[pid], status)

    def _next_deadline(self) -> float | None:
        jobs = (job.deadline for job in self._jobs.values())
        soonest = min(self._session.deadline, self._watchdog.deadline, *jobs)
        return None if soonest == float("inf") else max(0.0, soonest - time.monotonic())

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        if now >= self._watchdog.deadline:
            self._watchdog.look()
        for job in list(self._jobs.values()):
            if now >= job.deadline:
                job.kill(timed_out=True)
        if now >= self._session.deadline:
            self._session.on_deadline()
            self._send_to_session()

    def _close(self, fd: int) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(fd)
        os.close(fd)
