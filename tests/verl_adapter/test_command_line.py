"""`+plugin=swe` behaves as Hydra users expect, on verl's own main; what is ours explains every mistake in one line."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import swe_plugin
from swe_plugin.config import check_key, load_config
from swe_plugin.errors import ConfigError
from swe_plugin.verl_adapter.checks import RULES, require
from swe_plugin.verl_adapter.command_line import check_words
from swe_plugin.verl_adapter.searchpath import recipes_directory

from .main_ppo import main_ppo

pytestmark = pytest.mark.slow


def job(*words, **options):
    """The configuration that these words compose; it passes our checks."""
    done = main_ppo(*words, "--cfg", "job", **options)
    assert done.returncode == 0, done.stderr
    config = OmegaConf.create(done.stdout)
    load_config(OmegaConf.to_container(config.swe))
    require(config, RULES)
    return config


@pytest.mark.parametrize("place", [0, 1, 3])
def test_any_key_is_overridden_wherever_it_stands(place):
    words = ["trainer.total_training_steps=3", "swe.scaffold.max_turns=7", "+trainer.note=mine"]
    config = job(*words[:place], "+plugin=swe/demo_ppo", *words[place:])
    assert (config.trainer.total_training_steps, config.swe.scaffold.max_turns, config.trainer.note) == (3, 7, "mine")
    assert config.algorithm.adv_estimator == "gae"


def test_resolve_leaves_no_interpolation():
    done = main_ppo("+plugin=swe", "swe.demo.seed=4", "--cfg", "job", "--resolve")
    assert done.returncode == 0, done.stderr
    assert "${" not in done.stdout
    assert OmegaConf.create(done.stdout).data.seed == 4


def test_help_shows_what_would_run():
    done = main_ppo("+plugin=swe", "--help")
    assert done.returncode == 0
    assert "command_timeout_s: 60.0" in done.stdout
    assert "Powered by Hydra" in done.stdout


OWN = "defaults: [/plugin/swe/demo_grpo, _self_]\nswe: {scaffold: {max_turns: 5}}\n"


@pytest.mark.parametrize("where", ["my", "/elsewhere"])
def test_a_users_folder_extends_ours_in_three_lines(tmp_path, where):
    folder = Path(f"{tmp_path}{where}") if where.startswith("/") else tmp_path / where
    (folder / "plugin").mkdir(parents=True)
    (folder / "plugin" / "mine.yaml").write_text("# @package _global_\n" + OWN)
    given = str(folder) if where.startswith("/") else where
    config = job("--config-dir", given, "+plugin=mine", "trainer.nnodes=2", cwd=tmp_path)
    assert (config.swe.scaffold.max_turns, config.trainer.nnodes, config.algorithm.adv_estimator) == (5, 2, "grpo")


def test_a_users_own_primary_file_extends_verls_and_ours(tmp_path):
    (tmp_path / "mine.yaml").write_text(OWN.replace("[", "[ppo_trainer, "))
    config = job("--config-dir", str(tmp_path), "--config-name", "mine", "swe.slots.start=2")
    assert (config.swe.scaffold.max_turns, config.swe.slots.start) == (5, 2)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["+plugin=swe/demo_grp0"],
            "plugin='swe/demo_grp0': no such recipe; did you mean swe/demo_grpo? there are swe",
        ),
        (["+plugin=swe/zzz"], "plugin='swe/zzz': no such recipe; there are swe, swe/base, "),
        (["+plugin=swee"], "plugin='swee': no such recipe; did you mean swe?"),
        (["swe.scafold.name=x", "+plugin=swe"], "swe.scafold.name='x': unknown key; did you mean swe.scaffold.name?"),
        (["+plugin=swe", "+swe.slots.runing=9"], "swe.slots.runing='9': unknown key; did you mean swe.slots.running?"),
    ],
)
def test_a_mistake_is_one_line_with_what_was_meant(words, line):
    done = main_ppo(*words, "--cfg", "job")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"swe-plugin: {line}")
    assert done.stderr.count("\n") == 1


def test_what_is_not_ours_is_left_to_hydra():
    check_words(["+plugin=other", "+plugin=swe", "swe.environment.env.A=1", "++swe.environment.options.mode=root"])
    check_words(["--config-dir", "my", "+plugin=swe/their_own"])
    check_words(["swe.scafold.name=x"])  # somebody else's section
    check_key("swe.output")
    with pytest.raises(ConfigError, match=r"swe\.environment\.envs"):
        check_key("swe.environment.envs.A")
    done = main_ppo("+plugin=swe", "trainer.no_such_key=1", "--cfg", "job")
    assert done.returncode == 1
    assert "Key 'no_such_key' is not in struct" in done.stderr


@pytest.mark.parametrize("option", ["--config-dir {}", "--config-dir={}", "-cd {}"])
@pytest.mark.parametrize(("file", "words"), [("plugin/mine", "+plugin=mine"), ("mine", "--config-name mine")])
def test_a_users_file_that_is_no_yaml_is_named_with_its_line(tmp_path, option, file, words):
    (tmp_path / "plugin").mkdir()
    (tmp_path / f"{file}.yaml").write_text(
        "defaults: [/plugin/swe/demo_grpo, _self_]\nswe: {scaffold: {max_turns: 5}\n"
    )
    place = re.escape(f"{tmp_path}/{file}.yaml:3:1: no valid YAML: ")
    with pytest.raises(ConfigError, match=place):
        check_words([*option.format(tmp_path).split(), *words.split()])


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "+plugin=swe", "trainer.total_epochs=1,2"],
        ["+plugin=swe", "-m", "trainer.total_epochs=1,2"],  # argparse would call the last word unknown
        ["hydra.mode=MULTIRUN", "+plugin=swe", "trainer.total_epochs=1,2"],
    ],
)
def test_multirun_is_refused_with_what_to_do_instead(words, tmp_path):
    done = main_ppo(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert "swe-plugin: --multirun: one process trains once; let your shell start one after another" in done.stderr
    assert not list(tmp_path.iterdir())


def python_m(tmp_path, *words, **environment):
    """The real thing, as a user types it; it must end by itself long before it could train."""
    return subprocess.run(
        [sys.executable, "-m", "verl.trainer.main_ppo", *words],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "SWE_PLUGIN_DEVICE"} | environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_installed_the_line_composes(tmp_path):
    done = python_m(tmp_path, "+plugin=swe", "--cfg", "job", "--package", "swe")
    assert done.returncode == 0, done.stderr
    assert OmegaConf.create(done.stdout).demo.enabled is True


def test_not_installed_the_line_of_the_quickstart_shows_it(tmp_path):
    """To verl alone `+plugin=swe` is a key like any other, and it would train."""
    words = ("+plugin=swe", "--cfg", "job", "--package", "swe")
    done = python_m(tmp_path, *words, VERL_USE_EXTERNAL_PLUGINS="none")
    assert done.returncode == 1
    assert "package 'swe' not found in config" in done.stderr


@pytest.fixture
def copy(tmp_path):
    """A copy of this installation, to be broken, in front of it on the path."""
    site = tmp_path / "site"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(swe_plugin.__file__).parent, site / "swe_plugin", ignore=ignored)
    shutil.copytree(recipes_directory(), site / "recipes")
    return site


@pytest.mark.parametrize(
    ("breakage", "why"),
    [
        (lambda site: shutil.rmtree(site / "recipes"), "swe-plugin cannot start: FileNotFoundError: no recipes in"),
        (lambda site: (site / "pluggy.py").write_text("1 / 0"), "swe-plugin cannot start: ZeroDivisionError"),
    ],
    ids=["recipes are missing", "a dependency is broken"],
)
def test_installed_but_broken_stops_at_once_with_the_reason(copy, tmp_path, breakage, why):
    breakage(copy)
    done = python_m(tmp_path, "+plugin=swe", PYTHONPATH=str(copy))
    assert done.returncode not in (0, 124)
    assert why in done.stderr
    assert not (tmp_path / "outputs").exists()
