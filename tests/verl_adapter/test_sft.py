"""verl's own SFT trainer takes the rows of `swe-plugin convert`, on a CPU."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys

import pytest

from swe_plugin.errors import ConfigError
from swe_plugin.trajectories.sft import SftRow, write_rows
from swe_plugin.verl_adapter.sft_dataset import TokenRows

ROWS = [SftRow("a", [1, 2, 3], [0, 1, 1]), SftRow("b", [4, 5], [0, 1], [0.0, -0.5], 1.0)]


@pytest.fixture
def rows(tmp_path):
    write_rows(tmp_path / "rows.parquet", ROWS)
    return str(tmp_path / "rows.parquet")


def test_rows_are_given_as_they_are(rows):
    dataset = TokenRows([rows, rows], None, {})
    assert len(dataset) == 4
    assert [{key: value.tolist() for key, value in dataset[i].items()} for i in (0, 3)] == [
        {"input_ids": [1, 2, 3], "position_ids": [0, 1, 2], "loss_mask": [0, 1, 1]},
        {"input_ids": [4, 5], "position_ids": [0, 1], "loss_mask": [0, 1]},
    ]
    assert len(TokenRows(rows, None, {}, max_samples=1)) == 1


@pytest.mark.parametrize(
    ("config", "reason"), [({"max_length": 2}, "a row has 3 tokens"), ({"pad_mode": "right"}, "must be no_padding")]
)
def test_nothing_is_cut_or_padded(rows, config, reason):
    with pytest.raises(ConfigError, match=reason):
        TokenRows(rows, None, config)


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


@pytest.mark.slow
def test_verls_sft_trainer_learns_from_converted_text(tmp_path, model_dir):
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    model = tmp_path / "model"
    AutoTokenizer.from_pretrained(model_dir).save_pretrained(model)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model_dir)).save_pretrained(model)
    log = [{"role": "user", "content": "fix it"}, {"role": "assistant", "content": "```bash\nsubmit\n```"}]
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({"messages": log}) for _ in range(8)))
    convert = ["convert", "log.jsonl", "--out", "rows.parquet", "--tokenizer", "model", "--check"]
    subprocess.run([sys.executable, "-m", "swe_plugin.cli", *convert], cwd=tmp_path, check=True, timeout=120)
    settings = f"""
        model.path={model} data.train_files={tmp_path}/rows.parquet data.val_files=null
        data.custom_cls.path=pkg://swe_plugin.verl_adapter.sft_dataset data.custom_cls.name=TokenRows
        data.train_batch_size=8 data.micro_batch_size_per_gpu=4 data.use_dynamic_bsz=False data.num_workers=0
        engine.strategy=fsdp2 optim.lr=1e-2 model.use_remove_padding=False
        +model.override_config.attn_implementation=sdpa trainer.device=cpu trainer.total_training_steps=6
        trainer.total_epochs=9 trainer.logger=[console] trainer.test_freq=-1 trainer.save_freq=-1
        trainer.resume_mode=disable trainer.default_local_dir={tmp_path}/checkpoints""".split()
    group = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    device = {"SWE_PLUGIN_DEVICE": "cpu", "VERL_ENGINE_DEVICE": "cuda", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "verl.trainer.sft_trainer", *settings],
        cwd=tmp_path,
        env={**os.environ, **group, **device, "MASTER_PORT": str(_free_port())},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    losses = [float(loss) for loss in re.findall(r"train/loss:([0-9.]+)", done.stdout)]
    assert len(losses) == 6
    assert losses[-1] < 0.7 * losses[0], losses
