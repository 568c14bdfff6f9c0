"""Real verl and a real TransferQueue, without Ray: the queue's actor classes run inside the test process."""

from __future__ import annotations

import warnings
from importlib import resources

import pytest

warnings.filterwarnings("ignore", module="verl")

pytest.importorskip("verl")

import transfer_queue as tq  # noqa: E402
from hydra import compose, initialize_config_module  # noqa: E402
from omegaconf import OmegaConf, open_dict  # noqa: E402
from transfer_queue import interface  # noqa: E402
from transfer_queue.controller import TransferQueueController  # noqa: E402
from transfer_queue.storage.simple_storage import SimpleStorageUnit  # noqa: E402

from swe_plugin.verl_adapter.checks import MANAGER, SAMPLER  # noqa: E402

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _plain(actor_class):
    """The class below a Ray actor class."""
    return actor_class.__ray_metadata__.modified_class


def local_queue():
    """The queue's controller, storage and client, connected over its own ZMQ sockets."""
    conf = OmegaConf.create({}, flags={"allow_objects": True})
    conf = OmegaConf.merge(conf, OmegaConf.load(resources.files("transfer_queue") / "config.yaml"))
    controller = _plain(TransferQueueController)()
    storage = _plain(SimpleStorageUnit)(OmegaConf.to_container(conf.backend.SimpleStorage))
    conf.controller.zmq_info = controller.get_zmq_server_info()
    info = storage.get_zmq_server_info()
    conf.backend.SimpleStorage.zmq_info = {info.id: info}
    client = interface._maybe_create_tq_client(conf)
    yield tq
    client.close()
    storage.shutdown()
    interface._TQ_CLIENT = None


queue_process = pytest.fixture(scope="session", name="queue_process")(local_queue)


@pytest.fixture
def queue(queue_process, monkeypatch):
    """An empty queue; `init`, which a worker calls, has nothing left to do."""
    monkeypatch.setattr(tq, "init", lambda *_: None)
    yield queue_process
    for partition, tags in (tq.kv_list() or {}).items():
        if tags:
            tq.kv_clear(keys=list(tags), partition_id=partition)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def write_model(path):
    """A tokenizer of bytes with ChatML, and the configuration of a tiny model; no weights."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, PreTrainedTokenizerFast

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*special, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHATML
    )
    fast.save_pretrained(path)
    LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        architectures=["LlamaForCausalLM"],
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
        bos_token_id=None,
    ).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def composed():
    return compose_verl()


def compose_verl():
    """verl's own configuration."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer")


@pytest.fixture
def config(composed, model_dir, tmp_path):
    """verl's own configuration with our wiring, as a recipe composes it; 4 rollouts per prompt."""
    return wired(composed, model_dir, tmp_path)


def wired(composed, model_dir, directory):
    """A copy of verl's configuration that keeps our rules."""
    config = composed.copy()
    OmegaConf.set_struct(config, False)
    n = 4
    changes = {
        "algorithm": {"adv_estimator": "grpo"},
        "actor_rollout_ref": {
            "model": {"path": str(model_dir)},
            "actor": {"shuffle": True, "ppo_mini_batch_size": 2},
            "rollout": {
                "name": "vllm",
                "n": n,
                "prompt_length": 4096,
                "response_length": 4096,
                "max_model_len": 8192,
                "calculate_log_probs": True,
                "agent": {"num_workers": 1, "default_agent_loop": "swe", "agent_loop_manager_class": MANAGER},
            },
        },
        "critic": {"ppo_mini_batch_size": 2},
        "data": {"train_batch_size": 2},
        "trainer": {
            "v1": {
                "sampler": {
                    "custom_sampler": {"path": SAMPLER[0], "name": SAMPLER[1]},
                    "sampler_kwargs": {
                        "breaker_failures": 32,
                        "rollout_n": n,
                        "mini_batch_size": 2,
                        "train_batch_size": 2,
                        "poll_interval_s": 0.01,
                    },
                }
            }
        },
        "swe": {"environment": {"backend": "dummy"}, "output": {"dir": str(directory / "outputs"), "run": "test"}},
    }
    with open_dict(config):
        config.merge_with(OmegaConf.create(changes))
    return config
