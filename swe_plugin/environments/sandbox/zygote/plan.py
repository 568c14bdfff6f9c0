"""What the owner asks the zygote to build: one sandbox, completely described."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["AGENT", "Ground", "Plan"]

AGENT = 1000
"""User and group of an agent that is not root."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a sandbox can be built on before its plan is known.

    Attributes:
        mode, network: see `Plan`.
        mount_point: an empty directory of the host, used in the private mount namespace only.
        first, namespace: host id of root inside and descriptor of its user namespace (``rootmap``), or -1.
    """

    mode: str
    network: str
    mount_point: str
    first: int = -1
    namespace: int = -1


@dataclass(frozen=True, slots=True)
class Plan:
    """One sandbox. Travels as the first frame on its socket.

    Attributes:
        mode: ``root``, ``rootmap`` or ``user``.
        layers: read-only directories of the host, topmost first.
        workdir: directory inside in which commands run.
        env: the agent's environment variables, complete.
        network: ``none`` or ``full``.
        uid, gid: the agent's; inside in mode ``user``, outside else (``rootmap``: set by the zygote).
        disk_bytes, disk_inodes: bounds of everything that can be written.
        memory_bytes, pids, cpus, open_files, output_bytes: bounds of the agent.
        cgroups: controller -> directory to make for this sandbox; empty where there is none.
        cgroup_version: 1 or 2, of those.
        trial: check the machine and end, without a session.
        namespace: descriptor of the user namespace of the agent's processes (``rootmap``; set by the zygote), or -1.
        upper, work: directories of the host that get what is written outside /tmp (image builds); empty: the tmpfs.
    """

    mode: str
    layers: list[str]
    workdir: str
    env: dict[str, str]
    network: str
    disk_bytes: int
    disk_inodes: int
    memory_bytes: int
    pids: int
    cpus: float
    output_bytes: int
    open_files: int = 4096
    uid: int = AGENT
    gid: int = AGENT
    cgroups: dict[str, str] = field(default_factory=dict)
    cgroup_version: int = 1
    trial: bool = False
    namespace: int = -1
    upper: str = ""
    work: str = ""

    @property
    def user_namespace(self) -> bool:
        """Whether the sandbox lives in a user namespace of its own."""
        return self.mode == "user"

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able data."""
        return {name: getattr(self, name) for name in self.__slots__}
