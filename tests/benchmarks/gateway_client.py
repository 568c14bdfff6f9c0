"""Clients of bench_gateway.py, in a process of their own: `python gateway_client.py` with a job as JSON on stdin.

Plain asyncio over kept connections, so that what is measured is the gateway. Prints the seconds of each call, and of
all.
"""

import asyncio
import json
import random
import sys
import time


async def post(reader, writer, key: str, messages: list) -> dict:
    """One request on a kept connection."""
    body = json.dumps({"model": "policy", "messages": messages}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {key}\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
    length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
    answer = json.loads(await reader.readexactly(length))
    assert b" 200 " in lines[0], answer
    return answer["choices"][0]["message"]


async def rollout(port: int, key: str, turns: int, pause_s: float, observation: str, took: list) -> None:
    """One agent: asks, waits as long as a command takes, goes on."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    messages = [{"role": "user", "content": "fix it"}]
    await asyncio.sleep(random.uniform(0, pause_s))
    for _ in range(turns):
        began = time.perf_counter()
        answer = await post(reader, writer, key, messages)
        took.append(time.perf_counter() - began)
        messages += [answer, {"role": "user", "content": observation}]
        await asyncio.sleep(random.uniform(0, 2 * pause_s))
    writer.close()


async def main(job: dict) -> None:
    """All rollouts at once."""
    took: list[float] = []
    settings = (job["turns"], job["pause_s"], "x" * job["observation_chars"], took)
    began = time.perf_counter()
    await asyncio.gather(*(rollout(job["port"], key, *settings) for key in job["keys"]))
    print(json.dumps({"took": took, "all_s": time.perf_counter() - began}))


if __name__ == "__main__":
    asyncio.run(main(json.load(sys.stdin)))
