"""Weights from a trainer of two ranks to two inference servers, by gloo over loopback."""

import asyncio

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_plugin.verl_adapter.cpu.weights import GlooCheckpointEngine

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool)


async def sync(weights):
    """One weight sync as verl's manager makes it; what each server got."""
    actors = [GlooCheckpointEngine(1 << 20, is_master=rank == 0) for rank in range(2)]
    servers = [GlooCheckpointEngine(1 << 20) for _ in range(2)]
    metadata = [engine.prepare() for engine in actors + servers]
    for_actors, for_servers = GlooCheckpointEngine.build_topology(len(actors), len(servers), metadata)
    calls = []
    for engines, arguments in ((actors, for_actors), (servers, for_servers)):
        for position, engine in enumerate(engines):
            own = {key: values[position] for key, values in arguments.items()}
            calls.append(asyncio.to_thread(engine.init_process_group, **own))
    await asyncio.gather(*calls)

    async def receive(engine):
        return [(name, tensor) async for name, tensor in engine.receive_weights(global_steps=3)]

    sending = [engine.send_weights(iter(weights), global_steps=3) for engine in actors]
    *_, one, other = await asyncio.gather(*sending, *map(receive, servers))
    for engine in actors + servers:
        engine.finalize()
    return one, other


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3)), max_size=5))
def test_every_server_gets_every_tensor_as_it_is(kinds):
    weights = [(f"w{i}", torch.randn(shape).mul(9).to(dtype)) for i, (dtype, shape) in enumerate(kinds)]
    for got in asyncio.run(sync(weights)):
        assert [name for name, _ in got] == [name for name, _ in weights]
        for (_, tensor), (_, other) in zip(weights, got, strict=True):
            assert tensor.dtype == other.dtype
            assert torch.equal(tensor, other)


def test_a_view_of_a_larger_tensor_arrives(tmp_path):
    weights = [("t", torch.arange(12.0).view(3, 4).t())]
    for got in asyncio.run(sync(weights)):
        assert torch.equal(got[0][1], weights[0][1])
