"""A name is looked up once a run names it, and every mistake is explained."""

import pytest

from swe_plugin.errors import ConfigError, PluginError

from .distributions import backend

KEY = "swe.environment.backend"


def test_an_unknown_name_says_what_is_registered_and_from_where(site):
    with pytest.raises(ConfigError, match=r"did you mean 'sandbox'\?.*dummy \(swe-plugin\)"):
        site.load().load("environments", "sandbx", KEY)


def test_an_unknown_name_says_what_is_broken_or_disabled(site, monkeypatch):
    monkeypatch.setenv("SWE_PLUGIN_DISABLE", "swe-off")
    site.add("swe-bad", "import no_such_module").add("swe-off", backend("off"))
    with pytest.raises(ConfigError, match=r"swe-bad 1.0 \(entry point swe_bad\) is broken: .*swe-off .* is disabled"):
        site.load().load("environments", "off", KEY)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("no_such_module:Thing", "ModuleNotFoundError"),
        ("swe_lazy:Absent", "AttributeError"),
        ("swe_exits:Thing", "SystemExit: not here"),
        ("swe_plugin.environments.base:Environment", "does not implement download, exec"),
    ],
)
def test_a_target_that_cannot_be_used_names_its_distribution(site, target, why):
    (site.folder / "swe_exits.py").write_text("raise SystemExit('not here')")
    loaded = site.add("swe-lazy", backend("lazy", target)).load()
    assert not loaded.broken
    with pytest.raises(PluginError, match=f"environment 'lazy' of swe-lazy: .*{target}.*{why}"):
        loaded.load("environments", "lazy", KEY)


def test_a_plugin_that_the_run_needs_stops_it(site, monkeypatch):
    monkeypatch.setenv("SWE_PLUGIN_DISABLE", "swe-off")
    site.add("swe-bad", "import no_such_module").add("swe-off", backend("off")).add("swe-good", backend("good"))
    loaded = site.load()
    loaded.require(["swe-good", "swe_good"])
    for name, why in {
        "swe-bad": r"swe-bad 1.0 .* is broken: .*no_such_module",
        "swe_off": "'swe_off' is disabled by SWE_PLUGIN_DISABLE",
        "swe-none": "'swe-none' is not installed; installed plugins: swe-plugin, swe-good",
    }.items():
        with pytest.raises(PluginError, match=f"swe.plugins: {why}"):
            loaded.require(["swe-good", name])
