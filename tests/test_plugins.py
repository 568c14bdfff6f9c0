"""Plugins load one by one; a broken one is reported, a clash is refused, a name is explained."""

import sys
import types
from importlib.metadata import EntryPoint

import pytest

from swe_plugin import plugins
from swe_plugin.errors import ConfigError, PluginError
from swe_plugin.hookspecs import hookimpl


def make_plugin(name: str, backend: str, target: str = "swe_plugin.types:Task") -> str:
    """Put a module with one hook implementation into `sys.modules`."""
    module = types.ModuleType(name)

    @hookimpl
    def swe_register_environments(register):
        register(backend, target, summary="a test backend")

    module.swe_register_environments = swe_register_environments
    sys.modules[name] = module
    return name


@pytest.fixture
def installed(monkeypatch):
    """Install entry points for one test: `installed(("name", "module"), ...)`."""

    def install(*points):
        found = [EntryPoint(name, module, "swe_plugin") for name, module in points]
        monkeypatch.setattr(plugins, "entry_points", lambda group: found)
        plugins.load_plugins.cache_clear()
        return plugins.load_plugins()

    yield install
    plugins.load_plugins.cache_clear()


def test_built_ins_register_through_the_same_hooks(installed):
    loaded = installed()
    assert {"sandbox", "dummy"} <= set(loaded.names("environments"))
    assert loaded.entries["scaffolds", "bash"].distribution == "swe-plugin"


def test_a_third_party_backend_is_loaded_by_name(installed):
    loaded = installed(("k8s", make_plugin("plugin_k8s", "k8s")))
    assert loaded.load("environments", "k8s", "swe.environment.backend").__name__ == "Task"


def test_an_unknown_name_says_what_is_registered_and_from_where(installed):
    with pytest.raises(ConfigError, match=r"did you mean 'sandbox'\?.*dummy \(swe-plugin\)"):
        installed().load("environments", "sandbx", "swe.environment.backend")


def test_a_broken_plugin_is_reported_and_the_others_work(installed):
    loaded = installed(("aaa", "no_such_module_anywhere"), ("good", make_plugin("plugin_good", "good")))
    assert "good" in loaded.names("environments")
    (broken,) = loaded.broken
    assert broken.distribution == "aaa"
    assert "no_such_module_anywhere" in broken.reason


def test_two_plugins_with_one_name_are_refused_naming_both(installed):
    loaded = installed(("one", make_plugin("plugin_one", "same")), ("two", make_plugin("plugin_two", "same")))
    (broken,) = loaded.broken
    assert "one" in broken.reason
    assert "two" in broken.reason
    assert loaded.entries["environments", "same"].distribution == "one"


def test_a_misspelt_hook_is_reported(installed):
    module = types.ModuleType("plugin_misspelt")
    module.swe_register_enviroments = hookimpl(lambda register: None)
    sys.modules["plugin_misspelt"] = module
    loaded = installed(("misspelt", "plugin_misspelt"), ("good", make_plugin("plugin_good2", "good2")))
    (broken,) = loaded.broken
    assert "swe_register_enviroments" in broken.reason
    assert "good2" in loaded.names("environments")


def test_a_plugin_the_run_needs_stops_it_when_broken(installed):
    loaded = installed(("aaa", "no_such_module_anywhere"))
    with pytest.raises(PluginError, match=r"aaa.*no_such_module_anywhere"):
        loaded.require(["aaa"])
    with pytest.raises(PluginError, match="'bbb' is not installed"):
        loaded.require(["bbb"])


def test_a_target_that_cannot_be_imported_names_its_distribution(installed):
    loaded = installed(("lazy", make_plugin("plugin_lazy", "lazy", "no_such_module:Thing")))
    with pytest.raises(PluginError, match="environment 'lazy' of lazy: cannot import no_such_module:Thing"):
        loaded.load("environments", "lazy", "swe.environment.backend")


def test_a_plugin_can_be_disabled_by_an_environment_variable(installed, monkeypatch):
    monkeypatch.setenv("SWE_PLUGIN_DISABLE", "k8s,other")
    assert "k8s" not in installed(("k8s", make_plugin("plugin_k8s", "k8s"))).names("environments")
