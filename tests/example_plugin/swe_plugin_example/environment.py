"""A backend made of bubblewrap: one directory per environment, and fresh namespaces per command."""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import ClassVar

from swe_plugin.environments.base import Capability
from swe_plugin.environments.by_exec import ExecEnvironment
from swe_plugin.environments.process import run_process
from swe_plugin.errors import ConfigError, EnvironmentStartError

NO_LIMITS = (Capability.MEMORY_LIMIT, Capability.PIDS_LIMIT, Capability.CPU_LIMIT, Capability.DISK_LIMIT)
READ_ONLY = "/usr /bin /sbin /lib /lib64 /etc/passwd /etc/group /etc/ld.so.cache /etc/alternatives"
KERNEL = "/proc/sys /proc/sysrq-trigger /proc/irq /proc/bus /proc/fs"  # root of the machine could write there
PYTHON = Path(sys.base_prefix)


class BubblewrapEnvironment(ExecEnvironment):
    lacks: ClassVar = {**ExecEnvironment.lacks, **dict.fromkeys(NO_LIMITS, "bubblewrap limits nothing")}

    @classmethod
    def check(cls, config):
        if program := shutil.which("bwrap"):
            return program
        raise ConfigError("swe.environment.backend", config.backend, "install bubblewrap (apt install bubblewrap)")

    async def launch(self):
        if self.spec.image.base != "host":
            raise EnvironmentStartError(f"image.base={self.spec.image.base!r}: this backend has only host")
        self.root = tempfile.mkdtemp(prefix="swe-example-")  # is / inside

    async def remove(self):
        await asyncio.to_thread(shutil.rmtree, getattr(self, "root", ""), ignore_errors=True)

    async def is_running(self):
        return Path(self.root).is_dir()

    async def run(self, argv, *, timeout_s, stdin):
        limit = self.spec.limits.output_bytes
        return await run_process(self.command(argv), timeout_s=timeout_s, stdin=stdin, output_bytes=limit)

    def command(self, argv):
        bwrap = ["bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--bind", self.root, "/"]
        bwrap += ["--proc", "/proc", "--dev", "/dev"]
        for path in (*READ_ONLY.split(), *KERNEL.split()):
            bwrap += ["--ro-bind-try", path, path]
        if not PYTHON.is_relative_to("/usr"):  # a Python of its own, e.g. of pyenv
            bwrap += ["--ro-bind", f"{PYTHON}", f"{PYTHON}", "--tmpfs", "/usr/local"]
            bwrap += ["--symlink", f"{PYTHON}/bin/python3", "/usr/local/bin/python3"]
        return [*bwrap, *argv]
