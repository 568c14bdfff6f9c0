"""What we add to a rollout: `python tests/benchmarks/bench_overhead.py` (`make bench`).

One agent-loop worker in this process, verl's queue included, a model that answers at once, an environment in memory.
The same conversation once with verl's `tool_agent` and a tool that returns a text, once with ours: scaffold, recorder,
journal, baseline, patch, grade, record on disk. CPU seconds per rollout, alternating, median of rounds; more turns show
what a turn costs and what a rollout costs by itself. Prints a table and writes it to docs/benchmarks.md.
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from page import machine, write_section

sys.path.insert(0, str(Path(__file__).parents[1]))

import transfer_queue as tq
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.workers.rollout.replica import TokenOutput
from verl_adapter.conftest import compose_verl, local_queue, wired, write_model
from verl_adapter.worker_parts import prompts

from swe_plugin.plugins import Entry, load_plugins
from swe_plugin.verl_adapter.worker import SweAgentLoopWorker

TURNS, GROUPS, SIZE, ROUNDS = (2, 8, 32), 8, 8, 5
PROMPT_CHARS = 780
ANSWER = {
    "verl": '<tool_call>\n{"name": "run", "arguments": {"script": "fix"}}\n</tool_call>',
    "ours": "I change the word now as it is asked for ..\n```bash\nfix\n```",
}
LAST = {"verl": "That is all that was asked.", "ours": "```bash\nsubmit\n```"}
TOOL = '''
from verl.tools.function_tool import function_tool

@function_tool(name="run")
def run(script: str) -> str:
    """Run a script.

    Args:
        script: what to run.
    """
    return "done\\n"
'''


class Instant:
    """`generate` of verl's client: the n-th answer of a rollout, at once."""

    def __init__(self, tokenizer, kind: str, turns: int) -> None:
        encode = [[*tokenizer.encode(text), tokenizer.eos_token_id] for text in (ANSWER[kind], LAST[kind])]
        self._answers = [encode[0]] * (turns - 1) + [encode[1]]
        self._turn: dict[str, int] = {}

    async def generate(self, request_id, *, prompt_ids, sampling_params, **_):
        turn = self._turn[request_id] = self._turn.get(request_id, -1) + 1
        ids = self._answers[turn]
        steps = dict.fromkeys(("global_steps", "min_global_steps", "max_global_steps"), 0)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason="completed", extra_fields=steps)


def verl_config(directory: Path, composed, model: Path):
    """verl's own worker and tool agent."""
    config = wired(composed, model, directory)
    tool = directory / "tool.py"
    tool.write_text(TOOL)
    rollout = config.actor_rollout_ref.rollout
    rollout.agent.default_agent_loop = "tool_agent"
    rollout.multi_turn.function_tool_path = str(tool)
    return config


def our_config(directory: Path, composed, model: Path):
    """Ours, on the environment in memory; every grade anew, as no two tasks share one in a real run."""
    config = wired(composed, model, directory)
    config.swe.environment = {"backend": "word"}
    config.swe.grading = {"grader": "word", "cache": False}
    config.swe.scaffold = {"max_turns": max(TURNS) + 1}
    for kind, name, target in (("environments", "word", "WordEnvironment"), ("graders", "word", "WordGrader")):
        load_plugins().entries[kind, name] = Entry(kind, name, f"verl_adapter.worker_parts:{target}", "", "bench")
    return config


async def batch(worker, round_: int) -> tuple[float, int]:
    """CPU seconds of one batch, and the ids of its rows."""
    uids = [f"{round_}-{i}" for i in range(GROUPS)]
    tags = [{"is_prompt": True, "status": "pending", "global_steps": 1} for _ in uids]
    tq.kv_batch_put(keys=uids, partition_id="train", tags=tags)
    began = time.process_time()
    long = [[{"role": "user", "content": "x" * PROMPT_CHARS}]] * GROUPS  # as long as our templates; ours is not read
    await worker.generate_sequences(prompts(uids, raw_prompt=long))
    await asyncio.gather(*worker.background_tasks)
    seconds = time.process_time() - began
    listed = tq.kv_list("train")["train"]
    assert all(listed[uid]["status"] == "finished" for uid in uids), listed
    rows = [key for key in listed if key not in uids]
    assert len(rows) == GROUPS * SIZE, (len(rows), rows[:3])
    length = sum(listed[key]["seq_len"] for key in rows)
    tq.kv_clear(keys=list(listed), partition_id="train")
    return seconds, length


async def compare(turns: int, configs: dict[str, object]) -> str:
    """One row of the table."""
    workers = {}
    for kind, (make, config) in configs.items():
        config.actor_rollout_ref.rollout.n = SIZE
        config.actor_rollout_ref.rollout.response_length = 16384
        config.actor_rollout_ref.rollout.max_model_len = 32768
        workers[kind] = make(config, None)
    seconds: dict[str, list[float]] = {kind: [] for kind in workers}
    ids = {}
    for round_ in range(ROUNDS + 1):
        for kind, worker in workers.items():
            worker.llm_client = Instant(worker.tokenizer, kind, turns)
            used, ids[kind] = await batch(worker, round_)
            if round_:  # the first one imports and compiles
                seconds[kind].append(1000 * used / (GROUPS * SIZE))
    verl, ours = median(seconds["verl"]), median(seconds["ours"])
    lengths = " / ".join(str(ids[kind] // (GROUPS * SIZE)) for kind in workers)
    return f"| {turns} | {lengths} | {verl:.2f} | {ours:.2f} | {ours - verl:+.2f} | {ours / verl:.2f} |"


def main() -> int:
    """Measure, print, write."""
    head = (
        f"`make bench` ({machine()}), CPU milliseconds per rollout, {GROUPS} x {SIZE} at once, median of {ROUNDS}:\n\n"
        "| turns | ids, verl / ours | verl's tool agent | ours | more | ratio |\n|---|---|---|---|---|---|"
    )
    rows = []
    with tempfile.TemporaryDirectory() as scratch, contextlib.contextmanager(local_queue)():
        directory = Path(scratch)
        tq.init = lambda *_: None
        (directory / "model").mkdir()
        model, composed = write_model(directory / "model"), compose_verl()
        verl_worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class
        for turns in TURNS:
            configs = {
                "verl": (verl_worker, verl_config(directory, composed, model)),
                "ours": (SweAgentLoopWorker, our_config(directory, composed, model)),
            }
            rows.append(asyncio.run(compare(turns, configs)))
            print(rows[-1], flush=True)
    write_section("overhead", "\n".join([head, *rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
