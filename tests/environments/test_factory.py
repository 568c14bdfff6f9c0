"""From configuration to environments."""

import pytest

from swe_plugin.config import EnvironmentConfig
from swe_plugin.environments import build_environment_factory, spec_for
from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.errors import ConfigError
from swe_plugin.plugins import load_plugins
from swe_plugin.types import Image


@pytest.mark.parametrize(("name", "backend"), [("dummy", DummyEnvironment), ("sandbox", SandboxEnvironment)])
def test_backends_are_found_by_name(name, backend):
    factory = build_environment_factory(EnvironmentConfig(backend=name), load_plugins())
    assert isinstance(factory(spec_for(Image(), EnvironmentConfig())), backend)


def test_an_unknown_backend_is_named_with_its_key():
    with pytest.raises(ConfigError, match=r"swe\.environment\.backend='sandbix'.*did you mean 'sandbox'"):
        build_environment_factory(EnvironmentConfig(backend="sandbix"), load_plugins())


def test_a_spec_takes_its_limits_from_the_configuration_and_no_variable_from_this_process(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    monkeypatch.setenv("PATH", "/host/bin")
    config = EnvironmentConfig(memory_mib=100, pids=7, disk_mib=5, env={"EXTRA": "1"}, options={"mode": "user"})
    spec = spec_for(Image(), config, label="task@0")
    assert (spec.limits.memory_mib, spec.limits.pids, spec.limits.disk_mib) == (100, 7, 5)
    assert (spec.label, spec.network, spec.options) == ("task@0", "none", {"mode": "user"})
    assert spec.env["EXTRA"] == "1"
    assert "WANDB_API_KEY" not in spec.env
    assert "/host/bin" not in spec.env["PATH"]
