"""What recording tokens costs: `python tests/benchmarks/bench_tokens.py` (`make bench-tokens`).

One trajectory of up to 200 turns and 128k tokens, turn by turn through `TokenPolicy`, beside the naive way (render and
encode the whole conversation each turn) and beside one plain pass of the tokenizer over the same text. Then 512
rollouts at once on one event loop, and how late that loop ever was. Qwen3's tokenizer with Qwen2.5's chat template
(`.ci/chat_templates.py` fetches them); the text is Python's own library. CPU seconds, so that a busy machine does not
show. Prints tables and writes them to docs/benchmarks.md.
"""

import asyncio
import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from page import machine, write_section
from transformers import AutoTokenizer

from swe_plugin.policies import TokenLimits, TokenPolicy
from swe_plugin.tokens import Completion, Journal, audit_segments
from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer
from swe_plugin.types import Message

FILES = Path(__file__).parents[2] / ".cache" / "chat_templates"
TURNS = (25, 50, 100, 200)
ANSWER_CHARS, OBSERVATION_CHARS = 500, 2600
ROLLOUTS, CROWD_TURNS = 512, 12
ROUNDS = 3


class Script:
    """A server that answers at once, or after a pause, with ids that were encoded before."""

    def __init__(self, answers: Sequence[list[int]], pause_s: float = 0.0) -> None:
        self._answers, self._pause_s = iter(answers), pause_s

    async def generate(self, request_id: str, prompt_ids: Sequence[int], *, max_tokens: int) -> Completion:
        if self._pause_s:
            await asyncio.sleep(self._pause_s)
        ids = next(self._answers)
        return Completion(ids, [-0.5] * len(ids), 1, 1)


def library() -> str:
    """Text of the standard library, as much as is needed."""
    return "".join(path.read_text(encoding="utf-8") for path in sorted(Path(asyncio.__file__).parent.glob("*.py")))


def pieces(text: str, chars: int, count: int, start: int) -> list[str]:
    """`count` stretches of the text; it begins anew where it ends."""
    places = ((start + i * chars) % (len(text) - chars) for i in range(count))
    return [text[place : place + chars] for place in places]


async def record(renderer: ChatTemplateRenderer, answers: list[list[int]], observations: list[str]) -> TokenPolicy:
    """One rollout, as a scaffold drives it."""
    policy = TokenPolicy(renderer, Script(answers), TokenLimits(1 << 20))
    history = [Message("system", "be brief"), Message("user", "fix it")]
    for observation in observations:
        history += [(await policy.respond(history)).message, Message("user", observation)]
    return policy


def naive(tokenizer: AutoTokenizer, answers: list[str], observations: list[str]) -> None:
    """The same prompts, rendered and encoded whole in every turn."""
    history = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "fix it"}]
    for answer, observation in zip(answers, observations, strict=True):
        text = tokenizer.apply_chat_template(history, tokenize=False, add_generation_prompt=True)
        tokenizer.encode(text, add_special_tokens=False)
        history += [{"role": "assistant", "content": answer}, {"role": "user", "content": observation}]


def cpu(function, *args) -> tuple[float, object]:
    """CPU seconds of this process, and what the function returned."""
    began = time.process_time()
    value = function(*args)
    return time.process_time() - began, value


def lengths(tokenizer: AutoTokenizer, renderer: ChatTemplateRenderer) -> list[str]:
    """Rows of the table of lengths."""
    text, rows = library(), []
    for turns in TURNS:
        answers = pieces(text, ANSWER_CHARS, turns, 0)
        observations = pieces(text, OBSERVATION_CHARS, turns, 7919)
        end = [tokenizer.convert_tokens_to_ids("<|im_end|>")]
        ids = [[*tokenizer.encode(answer, add_special_tokens=False), *end] for answer in answers]
        ours, passes = [], []
        for _ in range(ROUNDS):
            seconds, policy = cpu(asyncio.run, record(renderer, ids, observations))
            ours.append(seconds)
            (segment,) = policy.segments
            whole = tokenizer.decode(segment.ids)
            passes.append(cpu(tokenizer.encode, whole)[0])
        proof, report = cpu(audit_segments, policy.segments, policy.journal.records)
        assert report.ok, report.violations
        again = cpu(naive, tokenizer, answers, observations)[0]
        own, one = statistics.median(ours), statistics.median(passes)
        columns = (
            turns,
            len(segment.ids),
            f"{own:.2f}",
            f"{one:.2f}",
            f"{own / one:.2f}",
            f"{again:.1f}",
            f"{proof:.2f}",
        )
        rows.append("| " + " | ".join(map(str, columns)) + " |")
        print(rows[-1], flush=True)
    return rows


async def crowd(
    renderer: ChatTemplateRenderer, tokenizer: AutoTokenizer, folder: str
) -> tuple[list[float], list[float], float, float]:
    """While 512 rollouts run on one event loop and write their journals: its delays and the CPU time between two looks
    at it (sorted, in milliseconds), the seconds that all took, and the longest garbage collection in milliseconds."""
    text, dice, delays, busy = library(), random.Random(0), [], []
    answer = [*tokenizer.encode(text[:ANSWER_CHARS], add_special_tokens=False)]

    async def watch() -> None:
        while True:
            began, spent = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.001)
            delays.append(1000 * (time.perf_counter() - began - 0.001))
            busy.append(1000 * (time.thread_time() - spent))

    async def rollout(number: int) -> None:
        server = Script([answer] * CROWD_TURNS, pause_s=dice.uniform(1.0, 3.0))
        journal = Journal(Path(folder) / f"{number}.jsonl")
        policy = TokenPolicy(renderer, server, TokenLimits(1 << 20), journal=journal)
        history = [Message("system", "be brief"), Message("user", "fix it")]
        observations = pieces(text, OBSERVATION_CHARS, CROWD_TURNS, 997 * number)
        observations[CROWD_TURNS // 2] = text[:100_000]  # one is long
        for observation in observations:
            history += [(await policy.respond(history)).message, Message("user", observation)]

    collected, started = [0.0], [0.0]

    def note(phase: str, _: dict) -> None:
        if phase == "start":
            started[0] = time.thread_time()
        else:
            collected[0] = max(collected[0], 1000 * (time.thread_time() - started[0]))

    gc.collect()
    gc.freeze()  # as the agent-loop worker does
    gc.callbacks.append(note)
    watcher = asyncio.create_task(watch())
    began = time.perf_counter()
    await asyncio.gather(*(rollout(number) for number in range(ROLLOUTS)))
    took = time.perf_counter() - began
    watcher.cancel()
    gc.callbacks.remove(note)
    return sorted(delays), sorted(busy), took, collected[0]


def main() -> int:
    """Measure, print, write."""
    tokenizer = AutoTokenizer.from_pretrained(FILES / "qwen3")
    tokenizer.chat_template = (FILES / "Qwen-Qwen2.5-7B-Instruct.jinja").read_text(encoding="utf-8")
    renderer = ChatTemplateRenderer(tokenizer)
    head = [
        f"`make bench-tokens` ({machine()}), CPU seconds, median of {ROUNDS}; naive and audit once:\n",
        "| turns | tokens | ours | one tokenizer pass | ratio | naive | audit |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = lengths(tokenizer, renderer)
    with tempfile.TemporaryDirectory() as folder:
        delays, busy, took, collected = asyncio.run(crowd(renderer, tokenizer, folder))
    worst, high, middle = delays[-1], delays[int(0.99 * len(delays))], delays[len(delays) // 2]
    foot = (
        f"\n{ROLLOUTS} rollouts at once, {CROWD_TURNS} turns each, one observation of 100,000 characters in each "
        f"({took:.0f} s): the event loop's delay was {middle:.1f} ms (median), {high:.0f} ms (99th percentile), "
        f"{worst:.0f} ms (worst). Its own thread computed at most {busy[-1]:.0f} ms at a stretch (99th percentile "
        f"{busy[int(0.99 * len(busy))]:.1f} ms; "
        f"its longest garbage collection {collected:.0f} ms); the rest is waiting for the interpreter lock and a core."
    )
    print(foot)
    write_section("bench-tokens", "\n".join([*head, *rows, foot]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
