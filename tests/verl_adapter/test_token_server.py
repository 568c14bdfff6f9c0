"""verl's own clients over fake server handles: what a resumed call was sampled with is not lost."""

import pytest
from omegaconf import OmegaConf
from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient, LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from swe_plugin.errors import PolicyError
from swe_plugin.verl_adapter.token_server import VerlTokenServer, attempt_recording

PARAMS = {"temperature": 1.0, "top_p": 0.9, "logprobs": False}


class Remote:
    def __init__(self, function):
        self.remote = function


class Server:
    """A server actor: gives its answers in order, and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []
        self.generate = Remote(self._generate)

    async def _generate(self, **kwargs):
        self.asked.append(kwargs)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def answer(ids, step, stop="completed"):
    return TokenOutput(
        token_ids=ids, log_probs=[-0.5] * len(ids), stop_reason=stop, extra_fields={"global_steps": step}
    )


def client(kind, server, monkeypatch):
    made = attempt_recording(kind(OmegaConf.create({"actor_rollout_ref": {"rollout": {"name": "vllm"}}})))

    async def acquire(request_id, **_):
        return "s0", server

    monkeypatch.setattr(made, "_acquire_server", acquire)
    monkeypatch.setattr(made, "_release_server", lambda *_, **__: None)
    monkeypatch.setattr("asyncio.sleep", _no_sleep)
    return made


async def _no_sleep(_):
    return None


async def test_one_call(monkeypatch):
    server = Server(answer([5, 6], 3))
    made = VerlTokenServer(client(LLMServerClient, server, monkeypatch), PARAMS)
    completion = await made.generate("r", [1, 2], max_tokens=9)
    assert (completion.token_ids, completion.log_probs) == ([5, 6], [-0.5, -0.5])
    assert (completion.min_version, completion.max_version, completion.aborted) == (3, 3, False)
    assert completion.extra["versions"] == [3, 3]
    assert server.asked[0]["prompt_ids"] == [1, 2]
    assert server.asked[0]["sampling_params"] == {"temperature": 1.0, "top_p": 0.9, "logprobs": True, "max_tokens": 9}


async def test_a_call_that_spans_a_weight_sync_has_a_version_per_token(monkeypatch):
    server = Server(answer([5, 6], 3, "aborted"), answer([], 4, "aborted"), answer([7], 4))
    made = VerlTokenServer(client(FullyAsyncLLMServerClient, server, monkeypatch), PARAMS)
    completion = await made.generate("r", [1, 2], max_tokens=9)
    assert completion.token_ids == [5, 6, 7]
    assert completion.extra["versions"] == [3, 3, 4]
    assert (completion.min_version, completion.max_version) == (3, 4)
    assert [call["prompt_ids"] for call in server.asked] == [[1, 2], [1, 2, 5, 6], [1, 2, 5, 6]]


async def test_an_aborted_call_that_nobody_resumes_says_so(monkeypatch):
    made = VerlTokenServer(client(LLMServerClient, Server(answer([5], 3, "aborted")), monkeypatch), PARAMS)
    assert (await made.generate("r", [1], max_tokens=9)).aborted


async def test_a_dead_server_is_an_error_of_infrastructure(monkeypatch):
    made = VerlTokenServer(client(LLMServerClient, Server(RuntimeError("actor died")), monkeypatch), PARAMS)
    with pytest.raises(PolicyError, match="RuntimeError: actor died"):
        await made.generate("r", [1], max_tokens=9)


async def test_a_server_that_reports_no_version(monkeypatch):
    made = VerlTokenServer(client(LLMServerClient, Server(answer([5], None)), monkeypatch), PARAMS)
    completion = await made.generate("r", [1], max_tokens=9)
    assert (completion.min_version, completion.extra["versions"]) == (-1, [-1])


def test_other_clients_are_left_alone():
    other = object()
    assert attempt_recording(other) is other


async def test_a_seed_depends_on_the_rollout_and_the_prompt_and_on_nothing_else(monkeypatch):
    async def seed_of(seed, prompt):
        server = Server(answer([5], 3))
        made = VerlTokenServer(client(LLMServerClient, server, monkeypatch), PARAMS, seed=seed)
        await made.generate("r", prompt, max_tokens=9)
        return server.asked[0]["sampling_params"].get("seed")

    seeds = [await seed_of(*case) for case in (("a 0", [1, 2]), ("a 1", [1, 2]), ("a 0", [1, 2, 3]))]
    assert len(set(seeds)) == 3
    assert seeds[0] == await seed_of("a 0", (1, 2))
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert await seed_of(None, [1, 2]) is None
