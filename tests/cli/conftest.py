"""A run directory as verl and the plugin leave it."""

import json
from pathlib import Path

import pytest


def write_metrics(run_dir: Path, steps: int = 12) -> None:
    lines = [{"step": 0, "data": {"val-core/demo/acc/mean@1": 0.25, "val-aux/num_turns/min": 1}}]
    for step in range(1, steps + 1):
        data = {
            "critic/score/mean": step / steps,
            "swe/resolved": step / steps / 2,
            "timing_s/step": 5.0,
            "timing_s/gen": 3.0,
            "timing_s/update_actor": 1.5,
            "training/rollout_actor_probs_pearson_corr": 1.0 - step / 10_000,
            "swe/grade/cache_hit_rate": 0.5,
            "swe/failed_total": 1 if step == 2 else 0,
            "swe/stop/submitted": 0.75,
            "swe/stop/turn_limit": 0.25,
            "swe/stop/cancelled": 0.0,
            "actor/entropy": None,
        }
        if step == steps:
            data |= {"val-core/demo/acc/mean@1": 0.75, "timing_s/testing": 4.0}
        lines.append({"step": step, "data": data})
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(name="write_metrics")
def write_metrics_fixture():
    return write_metrics


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    write_metrics(tmp_path)
    (tmp_path / "baselines.json").write_text(json.dumps({"random_policy": 0.125}))
    (tmp_path / "step_1").mkdir()
    return tmp_path
