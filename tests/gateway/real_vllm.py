"""Every scaffold against a real model: `python tests/gateway/real_vllm.py MODEL [URL]`.

MODEL is a folder with a small chat model, e.g. SmolLM2-135M-Instruct, which `vllm serve` serves here unless URL names a
server that does. Each scaffold has one rollout of a few turns in a sandbox; the model solves nothing, but every token
is audited. Prints a line per scaffold; the exit code is 1 if one is not proved.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from transformers import AutoTokenizer

from swe_plugin.config import load_config
from swe_plugin.data.demo import demo_tasks
from swe_plugin.errors import PolicyError
from swe_plugin.plugins import load_plugins
from swe_plugin.policies import TokenLimits, TokenPolicy
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.tokens import Completion, audit_segments, training_rows
from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer

AGENTS = Path(__file__).parents[1] / "scaffolds" / "agents"
CHAT = """python3 - <<'END'
import json, os, urllib.request
url, key = os.environ["OPENAI_BASE_URL"] + "/chat/completions", os.environ["OPENAI_API_KEY"]
messages = [{"role": "user", "content": {{ prompt | tojson }}}]
for _ in range(4):
    body = json.dumps({"model": "policy", "messages": messages}).encode()
    request = urllib.request.Request(url, body, {"authorization": f"Bearer {key}"})
    answer = json.load(urllib.request.urlopen(request, timeout=900))
    messages += [answer["choices"][0]["message"], {"role": "user", "content": "go on"}]
END"""
SCAFFOLDS = {
    "bash": {"name": "bash"},
    "command": {"name": "command", "options": {"command": CHAT}},
    "mini_swe_agent": {
        "name": "mini_swe_agent",
        "options": {"config": "mini_textbased", "model_class": "litellm_textbased"},
    },
    "swe_agent": {"name": "swe_agent", "options": {"config": str(AGENTS / "swe_agent_text.yaml")}},
}
TURNS, TURN_TOKENS = 4, 48


class VllmServer:
    """vLLM's completions in token ids, as a `TokenServer`."""

    def __init__(self, http: httpx.AsyncClient, model: str) -> None:
        self._http, self._model = http, model

    async def generate(self, request_id: str, prompt_ids: Sequence[int], *, max_tokens: int) -> Completion:
        asked = {"prompt": list(prompt_ids), "max_tokens": max_tokens, "temperature": 1.0, "logprobs": 0}
        response = await self._http.post("/completions", json={"model": self._model, "return_token_ids": True, **asked})
        if response.status_code != 200:
            raise PolicyError(response.text)
        (choice,) = response.json()["choices"]
        return Completion(choice["token_ids"], choice["logprobs"]["token_logprobs"], 0, 0)


@contextmanager
def served(model: str):
    """The base URL of a server that is ready."""
    words = ["vllm", "serve", model, "--port", "8765", "--max-model-len", "4096", "--served-model-name", model]
    program = Path(sys.executable).with_name(words[0])
    with subprocess.Popen([str(program), *words[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while True:
                assert process.poll() is None, "vllm has ended"
                try:
                    httpx.get("http://127.0.0.1:8765/v1/models").raise_for_status()
                    break
                except httpx.HTTPError:
                    time.sleep(2)
            yield "http://127.0.0.1:8765/v1"
        finally:
            process.terminate()


async def rollout(name: str, scaffold: dict, url: str, model: str) -> tuple[str, bool]:
    """One rollout; what is printed of it, and whether all of it is proved."""
    limits = {"max_turns": TURNS, "max_format_errors": TURNS, "wall_clock_s": 1800}
    config = load_config({"scaffold": {**limits, **scaffold}})
    tokenizer = AutoTokenizer.from_pretrained(model)
    renderer = ChatTemplateRenderer(tokenizer)
    worker = build_rollout_worker(config, load_plugins(), None)
    task = next(iter(demo_tasks(config.demo)))
    async with httpx.AsyncClient(base_url=url, timeout=900, trust_env=False) as http:
        policies = []

        def policy() -> TokenPolicy:
            window = TokenLimits(4096, max_turn_tokens=TURN_TOKENS)
            policies.append(TokenPolicy(renderer, VllmServer(http, model), window, request_id=f"r{len(policies)}"))
            return policies[-1]

        began = time.perf_counter()
        result = await worker.run(task, 0, policy, step=0, phase="val")
        await worker.close()
    records = policies[-1].journal.records
    report = audit_segments(result.segments, records, request_id=policies[-1].request_id)
    rows = training_rows(result.segments, 4096, 4096)
    sampled = sum(sum(row.response_mask) for row in rows)
    proved = report.ok and sampled == report.n_trained > 0 and not result.failures
    words = [name, str(result.stop), f"{len(records)} calls", f"{len(rows)} rows", f"{sampled} sampled tokens"]
    words += ["audit clean" if proved else f"NOT PROVED {report.violations} {result.failures}"]
    return f"{', '.join(words)}, {time.perf_counter() - began:.0f} s", proved


async def drive(url: str, model: str) -> int:
    """All scaffolds at once."""
    every = [rollout(name, scaffold, url, model) for name, scaffold in SCAFFOLDS.items()]
    found = await asyncio.gather(*every)
    print("\n".join(line for line, _ in found))
    return int(not all(proved for _, proved in found))


def main(model: str, url: str = "") -> int:
    """Serve if there is no server, then drive."""
    if url:
        return asyncio.run(drive(url, model))
    with served(model) as url:
        return asyncio.run(drive(url, model))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
