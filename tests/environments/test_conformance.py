"""Our own backends pass the public suite."""

from typing import ClassVar

import pytest

from swe_plugin.environments import Capability
from swe_plugin.environments.conformance import ConformanceSuite
from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.environments.sandbox.owner import current_zygote
from swe_plugin.environments.sandbox.probe import MODES

from .conftest import skip_unless


class TestDummy(ConformanceSuite):
    backend = DummyEnvironment

    async def kill(self, environment):
        environment.kill()


@pytest.mark.slow  # some hundred checks per mode, many of which wait
class Sandbox(ConformanceSuite):
    backend = SandboxEnvironment

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _mode(cls):
        skip_unless(cls.options["mode"])

    def lacks(self):
        held = current_zygote().hierarchy.parents
        return {} if "cpu" in held else {Capability.CPU_LIMIT: "the cpu controller cannot be used here"}

    async def kill(self, environment):
        await current_zygote().kill(environment._number)


class TestSandboxRoot(Sandbox):
    options: ClassVar = {"mode": "root"}


class TestSandboxRootmap(Sandbox):
    options: ClassVar = {"mode": "rootmap"}
    crowd = 10_000  # the hundred thousand take the same way in mode root


class TestSandboxUser(Sandbox):
    options: ClassVar = {"mode": "user"}
    crowd = 10_000  # the hundred thousand take the same way in mode root


def test_every_mode_of_the_sandbox_is_checked():
    assert {suite.options["mode"] for suite in Sandbox.__subclasses__()} == set(MODES)
