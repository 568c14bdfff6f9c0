"""Recipes compose through verl's own configuration, and say what they promise."""

import copy
import functools
import os
import subprocess
import sys

import pytest
from hydra import compose, initialize_config_module
from hydra.errors import MissingConfigException
from omegaconf import DictConfig, OmegaConf, open_dict

from swe_plugin.config import SweConfig, load_config
from swe_plugin.verl_adapter import searchpath
from swe_plugin.verl_adapter.checks import RULES, require

pytestmark = pytest.mark.slow

RECIPES = sorted(path.stem for path in (searchpath.recipes_directory() / "plugin" / "swe").glob("*.yaml"))


@functools.cache
def _composed(*overrides: str) -> DictConfig:
    searchpath.register()
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", list(overrides), return_hydra_config=True)


def composed(*overrides: str) -> DictConfig:
    """verl's configuration with these words on the command line."""
    config = copy.deepcopy(_composed(*overrides))
    with open_dict(config):
        del config["hydra"]
    return config


def test_the_section_in_the_base_recipe_is_the_schema():
    section = OmegaConf.to_container(composed("+plugin=swe/base").swe)
    assert section == OmegaConf.to_container(OmegaConf.structured(SweConfig))


def test_bare_plugin_is_the_grpo_demo():
    assert composed("+plugin=swe") == composed("+plugin=swe/demo_grpo")


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_passes_our_checks_and_has_our_callback(recipe):
    config = _composed(f"+plugin=swe/{recipe}")
    load_config(config.swe)
    if recipe != "base":  # the base is a part: verl's default estimator and batch sizes are still in it
        require(config, RULES)
    assert config.hydra.callbacks.swe._target_ == "swe_plugin.verl_adapter.callback.SweCallback"


@pytest.mark.parametrize("recipe", ["demo_grpo", "demo_ppo"])
def test_a_demo_passes_every_check_before_its_model_exists(recipe):
    require(composed(f"+plugin=swe/{recipe}"))


def test_the_demo_is_grpo_and_the_other_one_ppo_with_a_critic():
    grpo, ppo = composed("+plugin=swe/demo_grpo"), composed("+plugin=swe/demo_ppo")
    assert grpo.algorithm.adv_estimator == "grpo"
    assert (ppo.algorithm.adv_estimator, ppo.algorithm.gamma, ppo.algorithm.lam) == ("gae", 1.0, 1.0)
    assert ppo.critic.ppo_mini_batch_size == ppo.actor_rollout_ref.actor.ppo_mini_batch_size
    assert ppo.critic.shuffle is True


def test_without_the_plugin_verl_is_untouched():
    config = composed()
    assert "swe" not in config
    assert config.trainer.device == "cuda"


def test_the_command_line_wins_wherever_it_stands():
    words = ("trainer.total_training_steps=3", "swe.scaffold.max_turns=7", "+plugin=swe/demo_ppo", "critic.optim.lr=5")
    config = composed(*words)
    assert (config.trainer.total_training_steps, config.swe.scaffold.max_turns, config.critic.optim.lr) == (3, 7, 5)


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ((), "sync"),
        (("swe.overlap=prewarm",), "sync"),
        (("swe.overlap=async",), "colocate_async"),
        (("trainer.v1.trainer_mode=separate_async", "swe.overlap=async"), "separate_async"),
    ],
)
def test_overlap_selects_the_trainers_mode_unless_the_user_does(words, mode):
    config = composed("+plugin=swe", *words)
    assert config.trainer.v1.trainer_mode == mode
    assert config.trainer.v1.sampler.max_off_policy_threshold == 2
    require(config, RULES)


@pytest.mark.parametrize(("choice", "device", "ours"), [("cpu", "cpu", "cpu"), ("gpu", "cuda", "gpu")])
def test_the_device_may_be_chosen(choice, device, ours):
    config = composed("+plugin=swe", f"swe_device={choice}")
    assert config.trainer.device == device
    assert ours == config.ray_kwargs.ray_init.runtime_env.env_vars.SWE_PLUGIN_DEVICE
    assert searchpath.chosen_device(["+plugin=swe", f"swe_device={choice}"]) == choice


def test_the_machine_decides_otherwise():
    config = composed("+plugin=swe")
    assert config.trainer.device == {"cpu": "cpu", "gpu": "cuda"}[searchpath.machine()]
    assert searchpath.chosen_device(["+plugin=swe"]) == searchpath.machine()


def test_a_users_own_file_extends_ours_in_three_lines(tmp_path):
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [/plugin/swe/demo_ppo, _self_]\nswe: {slots: {start: 2}}\n"
    )
    config = composed("+plugin=mine", f"hydra.searchpath=[file://{tmp_path}]")
    assert config.swe.slots.start == 2
    assert config.algorithm.adv_estimator == "gae"


def test_an_unknown_recipe_is_refused_by_hydra():
    with pytest.raises(MissingConfigException, match="plugin/swe/nonsense"):
        composed("+plugin=swe/nonsense")


def test_warnings_survive_what_vllm_imports_and_only_because_of_the_recipe():
    name = "SAGEMAKER_CONTAINER_LOG_LEVEL"
    level = composed("+plugin=swe").ray_kwargs.ray_init.runtime_env.env_vars[name]
    code = (
        "import logging; logging.basicConfig(level=logging.WARNING)\n"
        "from model_hosting_container_standards import logging_config\n"
        "logging.warning('heard')"
    )
    for extra, heard in (({}, False), ({name: level}, True)):
        variables = {key: value for key, value in os.environ.items() if key != name} | extra
        done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
        assert ("heard" in done.stderr) is heard


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_preset_of_separate_async_knows_the_device(device):
    config = composed("+plugin=swe", "+swe_trainer=separate_async", f"trainer.device={device}")
    rollout = config.actor_rollout_ref.rollout
    assert rollout.checkpoint_engine.backend == {"cpu": "gloo", "cuda": "nccl"}[device]
    assert (rollout.nnodes, rollout.n_gpus_per_node) == (config.trainer.nnodes, config.trainer.n_gpus_per_node)
    assert config.trainer.v1.trainer_mode == "separate_async"
    assert config.trainer.v1.sampler.max_off_policy_threshold is not None
