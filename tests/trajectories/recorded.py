"""A recorded run: real workers, environments and journals; only the model is a script."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swe_plugin.config import load_config
from swe_plugin.errors import PolicyError
from swe_plugin.policies import Answer, ScriptedTokenServer, TokenLimits
from swe_plugin.tokens.renderers.bytes import ByteRenderer
from swe_plugin.types import Image, Task
from swe_plugin.verl_adapter.runtime import RolloutRequest, Runtime

RENDERER = ByteRenderer()
LOOK, SUBMIT = "```bash\nls\n```", "```bash\nsubmit\n```"
SCRIPTS: list[list[str | Answer]] = [
    [Answer(LOOK, versions=(2, 2)), Answer("?", versions=(2, 3)), Answer(SUBMIT, versions=(3, 3))],
    # The server gives one call up and asks again.
    [Answer(LOOK, versions=(2, 2)), Answer("half", aborted=True), Answer(SUBMIT, versions=(2, 2))],
    # The server is down in the second turn: a fresh environment, and everything again.
    [Answer(LOOK), Answer(error=PolicyError("down")), Answer(error=PolicyError("down")), LOOK, SUBMIT],
]


async def record(run_dir: Path, scripts: list[list[str | Answer]] = SCRIPTS, step: int = 4) -> Path:
    """Run one group, a rollout per script; returns the run's directory."""
    config = load_config(
        {"environment": {"backend": "dummy"}, "policy": {"max_attempts": 2}, "failure": {"max_attempts": 2}}
    )
    runtime = Runtime(config, RENDERER, TokenLimits(1 << 16, 1 << 15, 1 << 15), run_dir)
    runtime.worker.backoff_s = 0.0
    for session, script in enumerate(scripts):
        server = ScriptedTokenServer(RENDERER.encode, RENDERER.END, script, seed=session)
        task = Task("word/1", "The word is wrong.", image=Image(files={"a.py": "x\n"}))
        await runtime.rollout(RolloutRequest(task, session, "train", step, f"uid_{session}"), server)
    await runtime.close()
    return run_dir


class Spoiler:
    """Changes the files of a recorded run by hand."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.rollouts = sorted(run_dir.glob("step_4/train/word*"))
        self.journals = sorted(run_dir.glob("step_4/train/journals/*.jsonl"))

    def change(self, path: Path, how: Callable[[Any], object]) -> None:
        data = json.loads(path.read_text())
        how(data)
        path.write_text(json.dumps(data))

    def tokens(self, how: Callable[[dict[str, Any]], object], rollout: int = 0) -> None:
        """Change the lists of the first segment of a rollout."""
        self.change(self.rollouts[rollout] / "tokens.json", lambda segments: how(segments[0]))

    def head(self, how: Callable[[dict[str, Any]], object], rollout: int = 0) -> None:
        """Change the record of a rollout."""
        self.change(self.rollouts[rollout] / "trajectory.json", how)

    def spans(self, kind: str, rollout: int = 0) -> list[list[Any]]:
        """``[start, stop, kind, turn]`` of a kind, in the first segment."""
        data = json.loads((self.rollouts[rollout] / "trajectory.json").read_text())
        return [span for span in data["segments"][0]["spans"] if span[2] == kind]

    def calls(self, how: Callable[[list[dict[str, Any]]], object], rollout: int = 0) -> None:
        """Change the records of a journal."""
        path = self.journals[rollout]
        records = [json.loads(line) for line in path.read_text().splitlines()]
        how(records)
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
