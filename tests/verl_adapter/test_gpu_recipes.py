"""GPU recipes: verl's own checks accept them, and the arithmetic in their comments is that of their settings.

Nobody has run them; this is what can be known without a GPU.
"""

import re

import pytest
from hydra import compose, initialize_config_module
from omegaconf import DictConfig
from verl.utils.config import omega_conf_to_dataclass, validate_config

from swe_plugin.verl_adapter import searchpath

pytestmark = pytest.mark.slow

FOLDER = searchpath.recipes_directory() / "plugin" / "swe"
GPU = [path.stem for path in sorted(FOLDER.glob("grpo_*.yaml"))]
GPU_GB = 80
VOCABULARY = 151936


def composed(recipe: str) -> DictConfig:
    searchpath.register()
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", [f"+plugin=swe/{recipe}", "swe.output.run=test"])


def stated(recipe: str, label: str) -> float:
    """The number at the end of the comment line that starts with `label`, in GB."""
    (line,) = re.findall(rf"^# +{label}.*$", (FOLDER / f"{recipe}.yaml").read_text(), re.MULTILINE)
    return float(re.search(r"([\d.]+)(?:  of 80)?$", line)[1])


@pytest.mark.parametrize("recipe", GPU)
def test_verl_accepts_the_settings(recipe):
    config = composed(recipe)
    validate_config(config, use_reference_policy=False, use_critic=False)
    omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    assert config.trainer.device == "cuda"


@pytest.mark.parametrize("recipe", GPU)
def test_it_says_that_it_was_not_run(recipe):
    assert "Composed, not run" in (FOLDER / f"{recipe}.yaml").read_text().splitlines()[1]


@pytest.mark.parametrize("recipe", GPU)
def test_lengths_fit_into_each_other(recipe):
    config = composed(recipe)
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    window = config.data.max_prompt_length + config.data.max_response_length
    assert rollout.max_model_len == window
    parallel = (
        actor.megatron.context_parallel_size if actor.strategy == "megatron" else actor.ulysses_sequence_parallel_size
    )
    assert actor.ppo_max_token_len_per_gpu * parallel >= window
    assert config.swe.policy.max_turn_tokens <= config.data.max_response_length
    assert config.data.train_batch_size * rollout.n <= config.swe.slots.running * config.trainer.nnodes


@pytest.mark.parametrize("recipe", GPU)
def test_gpus_divide_by_every_parallel_group(recipe):
    config = composed(recipe)
    actor, gpus = config.actor_rollout_ref.actor, config.trainer.nnodes * config.trainer.n_gpus_per_node
    assert gpus % config.actor_rollout_ref.rollout.tensor_model_parallel_size == 0
    if actor.strategy == "megatron":
        dense = actor.megatron.tensor_model_parallel_size * actor.megatron.context_parallel_size
        assert gpus % dense == gpus % actor.megatron.expert_model_parallel_size == 0
    else:
        assert gpus % actor.ulysses_sequence_parallel_size == 0


def test_qwen3_8b_memory_is_what_the_comment_says():
    recipe, config = "grpo_qwen3_8b_sandbox", composed("grpo_qwen3_8b_sandbox")
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    parameters, layers, width, gpus = 8.19e9, 36, 4096, config.trainer.n_gpus_per_node
    tokens = actor.ppo_max_token_len_per_gpu
    state = 16 * parameters / gpus / 1e9
    kept = 2 * width * layers * tokens / 1e9
    logits = 10 * VOCABULARY * tokens / 1e9
    assert state == pytest.approx(stated(recipe, "fp32 weights"), abs=0.1)
    assert kept == pytest.approx(stated(recipe, "layer inputs"), abs=0.1)
    assert logits == pytest.approx(stated(recipe, "logits"), abs=0.1)
    assert stated(recipe, "peak") == pytest.approx(state + 3.3 + kept + 1.5 + logits, abs=0.2)
    resident = 12 * parameters / gpus / 1e9
    assert stated(recipe, "sum") == pytest.approx(resident + rollout.gpu_memory_utilization * GPU_GB, abs=0.2)
    assert max(stated(recipe, "peak"), stated(recipe, "sum")) < GPU_GB


def test_qwen3_coder_memory_is_what_the_comment_says():
    recipe, config = "grpo_qwen3_coder_30b_multinode", composed("grpo_qwen3_coder_30b_multinode")
    megatron, rollout = config.actor_rollout_ref.actor.megatron, config.actor_rollout_ref.rollout
    gpus = config.trainer.nnodes * config.trainer.n_gpus_per_node
    experts, others = 48 * 128 * 3 * 2048 * 768, 1.54e9
    expert, other = experts / megatron.expert_model_parallel_size, others / megatron.tensor_model_parallel_size
    copies = gpus / megatron.expert_model_parallel_size
    optimizer = 12 * (expert / copies + other / (gpus / megatron.tensor_model_parallel_size)) / 1e9
    window = rollout.max_model_len / megatron.context_parallel_size
    logits = 10 * VOCABULARY / megatron.tensor_model_parallel_size * window / 1e9
    assert stated(recipe, "bf16 weights") == pytest.approx(2 * (expert + other) / 1e9, abs=0.1)
    assert stated(recipe, "fp32 gradient") == pytest.approx(4 * (expert + other) / 1e9, abs=0.1)
    assert stated(recipe, "master weights") == pytest.approx(optimizer, abs=0.1)
    assert stated(recipe, "logits") == pytest.approx(logits, abs=0.1)
    assert stated(recipe, "peak") < GPU_GB
    # Offloading is not a matter of taste here: both together would not fit.
    resident = (2 + 4) * (expert + other) / 1e9 + optimizer
    assert resident + rollout.gpu_memory_utilization * GPU_GB > GPU_GB
    assert megatron.param_offload
    assert megatron.optimizer_offload


@pytest.mark.slow
def test_routes_of_the_sampler_are_replayed_in_training():
    config = composed("grpo_qwen3_coder_30b_multinode").actor_rollout_ref
    assert (config.actor.megatron.router_replay.mode, config.rollout.enable_rollout_routing_replay) == ("R3", True)
