"""CPU of the processes that all nodes of a run share, per thing that is asked of them: ``python scale_services.py``.

The load balancer of verl's inference servers (two calls per turn) and the controller of the rollout queue (tags of
prompts and rows; a list of all tags at each look of the replay buffer), as real Ray actors. Prints JSON.
"""

import asyncio
import json
import warnings
from collections.abc import Callable
from typing import Any

import psutil
import ray
import transfer_queue as tq
from omegaconf import OmegaConf

CALLS, KEYS = 4000, 4000
MEMBERS = [{"session": i, "stop": "submitted", "start_s": 0.1, "total_s": 100.0, "turns": 30} for i in range(8)]


def cpu_of(name: str) -> Callable[[], float]:
    """CPU seconds so far of the Ray actor of a class."""
    below = psutil.Process().children(recursive=True)
    (process,) = [process for process in below if f"ray::{name}" in " ".join(process.cmdline())]

    def seconds() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    return seconds


async def balance(balancer: Any) -> None:
    """A turn as verl's client makes it: wait for a server, let it go without waiting."""
    for number in range(CALLS // 16):
        asked = [balancer.acquire_server.remote(request_id=f"r{number}-{i}") for i in range(16)]
        for server, _ in await asyncio.gather(*asked):
            balancer.release_server.remote(server_id=server)
    await balancer.get_total_inflight.remote()


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    from verl.workers.rollout.router import GlobalRequestLoadBalancer

    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        servers: dict[str, Any] = {f"s{i}": None for i in range(64)}
        balancer = ray.remote(GlobalRequestLoadBalancer).options(name="balancer").remote(servers=servers)
        ray.get(balancer.get_total_inflight.remote())
        busy = cpu_of("GlobalRequestLoadBalancer")
        before = busy()
        asyncio.run(balance(balancer))
        found = {"turn_ms": 1000 * (busy() - before) / CALLS}

        tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
        keys = [f"prompt-{i}" for i in range(KEYS)]
        tags = [{"is_prompt": True, "status": "pending", "global_steps": 1} for _ in keys]
        busy = cpu_of("TransferQueueController")
        tq.kv_batch_put(keys=keys, partition_id="train", tags=tags)
        before = busy()
        for key in keys[: CALLS // 4]:
            tq.kv_put(key=key, partition_id="train", tag={"status": "running", "members": MEMBERS})
        found["tag_ms"] = 1000 * (busy() - before) / (CALLS // 4)
        before, mine = busy(), psutil.Process().cpu_times()
        for _ in range(20):
            tq.kv_list()
        now = psutil.Process().cpu_times()
        found["list_ms_per_1000"] = 1000 * (busy() - before) / 20 / KEYS * 1000
        found["list_trainer_ms_per_1000"] = 1000 * (now.user + now.system - mine.user - mine.system) / 20 / KEYS * 1000
        tq.close()
    finally:
        ray.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
