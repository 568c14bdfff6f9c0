"""How containers are made: what the daemon is told, and how many at once."""

import asyncio
import threading

import pytest

from swe_plugin.config import EnvironmentConfig
from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.environments.docker.daemon import current_daemon
from swe_plugin.errors import ConfigError
from swe_plugin.types import Image

pytestmark = pytest.mark.docker

MIB = 1 << 20


def spec(**options):
    return EnvironmentSpec(Image(workdir="/tmp"), env=AGENT_ENV, label="made", options=options)


async def test_a_container_is_hardened_without_being_asked(dockerd, client):
    limits = EnvironmentLimits(memory_mib=300, pids=50, cpus=0.5)
    async with DockerEnvironment(EnvironmentSpec(Image(workdir="/tmp"), limits, AGENT_ENV)) as environment:
        found = client.api.inspect_container(environment._name)
    host = found["HostConfig"]
    assert found["Config"]["User"] == "1000:1000"
    assert (host["Privileged"], host["CapDrop"]) == (False, ["ALL"])
    assert not any(host[name] for name in ("Binds", "CapAdd", "Devices", "DeviceRequests", "PidMode", "UTSMode"))
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert (host["NetworkMode"], host["IpcMode"], host["CgroupnsMode"]) == ("none", "private", "private")
    assert [volume[-3:] for volume in host["VolumesFrom"]] == [":ro"]
    assert [(mount["Destination"], mount["RW"]) for mount in found["Mounts"]] == [("/.swe-plugin", False)]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (300 * MIB, 300 * MIB, 500_000_000)
    assert host["PidsLimit"] == 51  # one is the supervisor
    assert (host["AutoRemove"], host["LogConfig"]["Type"]) == (True, "none")


async def test_creates_are_bounded(dockerd, monkeypatch):
    """However many rollouts start at once, the daemon is asked for few containers at a time."""
    api, lock, now, most = current_daemon(dockerd.host).api, threading.Lock(), 0, 0
    create = api.create_container

    def counted(*arguments, **options):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        try:
            return create(*arguments, **options)
        finally:
            with lock:
                now -= 1

    monkeypatch.setattr(api, "create_container", counted)

    async def rollout():
        async with DockerEnvironment(spec()) as environment:
            return (await environment.exec(["echo", "up"])).stdout

    assert await asyncio.gather(*(rollout() for _ in range(24))) == ["up\n"] * 24
    assert 1 < most <= 8


async def test_the_check_before_a_run_names_the_daemon_and_what_is_wrong(dockerd, client, tmp_path):
    before = {container["Id"] for container in client.api.containers(all=True)}
    assert DockerEnvironment.check(EnvironmentConfig(backend="docker")).endswith(
        f"at {dockerd.host}, storage driver overlay2"
    )
    assert {container["Id"] for container in client.api.containers(all=True)} == before
    with pytest.raises(ConfigError, match=r"backend='docker': the Docker daemon at .* does not answer"):
        DockerEnvironment.check(EnvironmentConfig(backend="docker", options={"host": f"unix://{tmp_path}/none"}))
    with pytest.raises(ConfigError, match=r"swe\.environment\.options\.pull='x'"):
        DockerEnvironment.check(EnvironmentConfig(backend="docker", options={"pull": "x"}))
