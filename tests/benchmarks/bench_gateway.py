"""What the gateway costs: `python tests/benchmarks/bench_gateway.py` (`make bench-gateway`).

Rollouts with a policy that answers at once, natively (`policy.respond` in this process) and through the gateway
(clients in another process). Paced: each waits about two seconds between calls, as for a command, and the latency of a
call counts. Unpaced: none waits, and the calls per second count. Then one client inside a sandbox without network.
Prints tables and writes them to docs/benchmarks.md.
"""

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path

from page import machine, write_section

from swe_plugin.config import EnvironmentConfig
from swe_plugin.environments import spec_for
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.gateway import Gateway
from swe_plugin.policies import ScriptedTokenServer, TokenLimits, TokenPolicy
from swe_plugin.scaffolds.base import Episode
from swe_plugin.tokens import audit_segments
from swe_plugin.tokens.renderers.bytes import ByteRenderer
from swe_plugin.types import Image, Message

CROWDS = (1, 64, 512)
TURNS, CHARS, PAUSE_S = 10, 1000, 2.0
INSIDE_CALLS = 100
RENDERER = ByteRenderer()
ANSWER = "I look at it.\n" * 10


def policy() -> TokenPolicy:
    """One that answers at once."""
    server = ScriptedTokenServer(RENDERER.encode, RENDERER.END, lambda _: ANSWER)
    return TokenPolicy(RENDERER, server, TokenLimits(1 << 20), request_id="r")


Took = tuple[list[float], float, float]
"""Seconds of each call, of all, and CPU seconds of the audit."""


async def native(count: int, pause_s: float) -> Took:
    """Rollouts in our own loop."""
    took: list[float] = []

    async def rollout() -> None:
        own, history = policy(), [Message("user", "fix it")]
        await asyncio.sleep(random.uniform(0, pause_s))
        for _ in range(TURNS):
            began = time.perf_counter()
            reply = await own.respond(history)
            took.append(time.perf_counter() - began)
            history += [reply.message, Message("user", "x" * CHARS)]
            await asyncio.sleep(random.uniform(0, 2 * pause_s))

    began = time.perf_counter()
    await asyncio.gather(*(rollout() for _ in range(count)))
    return took, time.perf_counter() - began, 0.0


async def through(count: int, pause_s: float) -> Took:
    """The same through a gateway; every token is proved afterwards."""
    gateway, policies = Gateway(), [policy() for _ in range(count)]
    async with AsyncExitStack() as stack:
        opened = [gateway.open(own, Episode(), max_calls=TURNS) for own in policies]
        keys = [(await stack.enter_async_context(session)).key for session in opened]
        port = int(gateway.url.split(":")[2].split("/")[0])
        job = {"port": port, "keys": keys, "turns": TURNS, "pause_s": pause_s, "observation_chars": CHARS}
        client = Path(__file__).with_name("gateway_client.py")
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(sys.executable, str(client), **pipes)
        out, _ = await process.communicate(json.dumps(job).encode())
    await gateway.close()
    audit = time.process_time()
    for own in policies:
        assert len(own.segments) == 1
        assert audit_segments(own.segments, own.journal.records).ok
    found = json.loads(out)
    return found["took"], found["all_s"], time.process_time() - audit


INSIDE = """
import http.client, json, sys, time
host, port, key, calls = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
connection, took = http.client.HTTPConnection(host, port), []
body = json.dumps({"model": "policy", "messages": [{"role": "user", "content": "fix it"}]})
for _ in range(calls):
    began = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", body, {"authorization": "Bearer " + key})
    assert b"choices" in connection.getresponse().read()
    took.append(time.perf_counter() - began)
print(json.dumps(took))
"""


async def inside() -> list[float]:
    """Seconds of each call of a process in a sandbox."""
    gateway = Gateway()
    spec = spec_for(Image(files={"a.py": ""}), EnvironmentConfig(), label="bench")
    async with (
        SandboxEnvironment(spec) as environment,
        gateway.open(policy(), Episode(), max_calls=1000) as session,
        gateway.inside(environment, session, timeout_s=300) as url,
    ):
        host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
        words = ["python3", "-c", INSIDE, host, port, session.key, str(INSIDE_CALLS)]
        result = await environment.exec(words, timeout_s=300)
    await gateway.close()
    return json.loads(result.stdout)


def unpaced(way: Callable[[int, float], Coroutine[None, None, Took]], count: int) -> tuple[float, float]:
    """Calls per second, and CPU milliseconds of this process for each, the audit left out."""
    began = time.process_time()
    _, all_s, audit_s = asyncio.run(way(count, 0.0))
    return count * TURNS / all_s, 1000 * (time.process_time() - began - audit_s) / (count * TURNS)


def summary(took: list[float]) -> tuple[float, float]:
    """Median and 99th percentile in milliseconds."""
    ordered = sorted(1000 * seconds for seconds in took)
    return statistics.median(ordered), ordered[int(0.99 * (len(ordered) - 1))]


def main() -> int:
    """Measure, print, write."""
    lines = [
        f"`make bench-gateway` ({machine()}), {TURNS} calls a rollout, {CHARS} characters come in at each:\n",
        "| rollouts at once | native ms, median | 99% | gateway ms, median | 99% | added, median | calls/s native "
        "| gateway | CPU ms a call, native | gateway |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for count in CROWDS:
        (own, high), (other, other_high) = (summary(asyncio.run(way(count, PAUSE_S))[0]) for way in (native, through))
        (rate, cpu), (other_rate, other_cpu) = (unpaced(way, count) for way in (native, through))
        cells = (f"{own:.2f}", f"{high:.1f}", f"{other:.2f}", f"{other_high:.1f}", f"{other - own:.2f}")
        busy = (f"{rate:.0f}", f"{other_rate:.0f}", f"{cpu:.2f}", f"{other_cpu:.2f}")
        lines.append(f"| {count} | {' | '.join([*cells, *busy])} |")
        print(lines[-1], flush=True)
    middle, high = summary(asyncio.run(inside()))
    lines.append(
        f"\nA process in a sandbox without network, {INSIDE_CALLS} calls in a row: {middle:.1f} ms (median), "
        f"{high:.1f} ms (99th percentile)."
    )
    print(lines[-1])
    write_section("bench-gateway", "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
