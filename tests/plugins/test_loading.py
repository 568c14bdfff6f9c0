"""Installed plugins load one by one; a broken one is reported with its distribution, version and reason."""

import re

import pytest

from swe_plugin.plugins import Source

from .distributions import backend

GOOD = backend("good")


def test_built_ins_register_through_the_same_hooks(site):
    loaded = site.load()
    assert {"sandbox", "dummy"} <= set(loaded.names("environments"))
    assert loaded.entries["scaffolds", "bash"].distribution == "swe-plugin"
    assert loaded.manager.list_name_plugin()[0][0] == "swe-plugin:builtins"


def test_an_installed_plugin_is_found_with_its_version(site):
    loaded = site.add("swe-k8s", backend("k8s"), version="1.2").load()
    entry = loaded.entries["environments", "k8s"]
    assert (entry.distribution, entry.version, entry.summary) == ("swe-k8s", "1.2", "a test backend")
    assert Source("swe-k8s", "1.2", "swe_k8s") in loaded.loaded
    assert loaded.load("environments", "k8s", "swe.environment.backend").__name__ == "DummyEnvironment"


HOOK = "from swe_plugin.hookspecs import hookimpl\n@hookimpl\n"
BROKEN = {
    "missing import": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "syntax": ("def broken(:", "SyntaxError: .*swe_broken.py, line 1"),
    "exit at import": ("import sys\nsys.exit('no licence')", "SystemExit: no licence"),
    "skip at import": ("import pytest\npytest.skip('x', allow_module_level=True)", "Skipped: x"),
    "misspelt hook": (
        HOOK + "def swe_register_enviroments(register): pass",
        "unknown hook 'swe_register_enviroments'; did you mean 'swe_register_environments'",
    ),
    "wrong argument": (
        HOOK + "def swe_register_environments(registry): pass",
        "PluginValidationError: .*'registry'.*can not be found in the hookspec",
    ),
    "raises": (HOOK + "def swe_register_graders(register): raise OSError('disk')", "OSError: disk"),
    "exits": (HOOK + "def swe_register_graders(register): raise SystemExit(3)", "SystemExit: 3"),
    "coroutine": (
        HOOK + "async def swe_rollout_started(task, environment): pass",
        "'swe_rollout_started' is a coroutine function",
    ),
    "no hook": ("def swe_register_environments(register): pass", "no hook: mark its functions with .*hookimpl"),
    "target": (backend("x", "some.module"), "target 'some.module' is not of the form package.module:Class"),
    "wrong call": (HOOK + "def swe_register_graders(register): register('a')", "TypeError: .*'target'"),
    "half": (GOOD + "    raise OSError('half')", "OSError: half"),
}


@pytest.mark.parametrize(("source", "why"), BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_is_reported_and_leaves_nothing(site, source, why):
    loaded = site.add("swe-broken", source, version="0.3").add("swe-other", backend("other")).load()
    (broken,) = loaded.broken
    assert broken.source == Source("swe-broken", "0.3", "swe_broken")
    assert re.search(why, broken.reason)
    assert "\n" not in broken.reason
    assert "swe-broken 0.3 (entry point swe_broken) is broken" in str(broken)
    assert "other" in loaded.names("environments")
    assert "good" not in loaded.names("environments")
    assert [name for name, _ in loaded.manager.list_name_plugin()] == ["swe-plugin:builtins", "swe-other:swe_other"]


def test_an_entry_point_without_its_module_is_reported(site):
    loaded = site.add(
        "swe-half", GOOD, entry_points="good = swe_half\nbad = swe_half.more\nworse = swe_half:absent"
    ).load()
    assert [item.source.entry_point for item in loaded.broken] == ["bad", "worse"]
    assert [source.entry_point for source in loaded.loaded] == ["builtins", "good"]


def test_two_entry_points_of_one_distribution_both_load(site):
    (site.folder / "second.py").write_text(backend("two"))
    loaded = site.add("swe-both", backend("one"), entry_points="b = second\na = swe_both").load()
    assert loaded.names("environments")[-2:] == ["one", "two"]
    assert not loaded.broken


def test_one_object_under_two_entry_points_is_refused_once(site):
    loaded = site.add("swe-twice", GOOD, entry_points="a = swe_twice\nb = swe_twice").load()
    (broken,) = loaded.broken
    assert broken.reason.endswith("it points at the same object as swe-twice:a")
    assert "good" in loaded.names("environments")


def test_precedence_is_built_ins_then_distributions_by_name(site):
    for name in ("swe-zeta", "Swe_Alpha", "swe-Beta"):
        site.add(name, backend(name.lower()))
    names = [source.distribution for source in site.load().loaded]
    assert names == ["swe-plugin", "Swe_Alpha", "swe-Beta", "swe-zeta"]


@pytest.mark.parametrize(("name", "first"), [("same", "swe-one"), ("sandbox", "swe-plugin")])
def test_two_plugins_that_claim_one_name_are_refused_naming_both(site, name, first):
    second = "swe-two" if name == "same" else "swe-one"
    site.add("swe-one", backend(name))
    loaded = (site.add("swe-two", backend(name)) if name == "same" else site).load()
    (broken,) = loaded.broken
    assert broken.distribution == second
    assert broken.reason == f"PluginError: environment '{name}' is claimed by {first} and {second}"
    assert loaded.entries["environments", name].distribution == first


@pytest.mark.parametrize("name", ["swe-k8s", "SWE_K8s", "k8s"], ids=["as it is", "as pip takes it", "entry point"])
def test_a_plugin_can_be_disabled_by_an_environment_variable(site, monkeypatch, name):
    monkeypatch.setenv("SWE_PLUGIN_DISABLE", f"other, {name}")
    loaded = site.add("swe-k8s", "import sys; sys.exit('never imported')", entry_points="k8s = swe_k8s").load()
    assert not loaded.broken
    assert loaded.disabled == [Source("swe-k8s", "1.0", "k8s")]


def test_calls_of_hooks_can_be_traced(site, monkeypatch, capsys):
    monkeypatch.setenv("SWE_PLUGIN_TRACE", "1")
    loaded = site.add("swe-good", GOOD).add("swe-bad", "1 / 0").load()
    assert "good" in loaded.names("environments")
    traced = capsys.readouterr().err
    assert "swe_register_environments [hook]" in traced
    assert 'swe_bad.py", line 1' in traced
    monkeypatch.delenv("SWE_PLUGIN_TRACE")
    site.load()
    assert capsys.readouterr().err == ""
