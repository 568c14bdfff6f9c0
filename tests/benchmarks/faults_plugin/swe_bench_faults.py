"""The scaffold `faulty`: the bash scaffold under faults of the policy, of the agent and of the scaffold itself.

On `PYTHONPATH` for `bench_faults.py` alone; the folder beside it makes it a plugin. Together with the backend `faulty`
it brings about every row of the failure matrix.
"""

import asyncio
import random

from swe_plugin.errors import RolloutCancelled
from swe_plugin.hookspecs import hookimpl
from swe_plugin.scaffolds.bash import BashScaffold
from swe_plugin.testing import Faults, FaultyPolicy
from swe_plugin.types import ExecResult, StopReason, Turn

POLICY = {"policy_fails": 0.03, "policy_bug": 0.02, "policy_full": 0.03}
OWN = {"cancelled": 0.02, "hangs": 0.01, "never_ends": 0.004, "cheats": 0.03, "stops": 0.03, "babbles": 0.02}


class FaultyScaffold(BashScaffold):
    """Draws one fault for each episode by the label of its environment."""

    def __init__(self, settings):
        super().__init__(settings)
        self._faults, self._asked = Faults(1, POLICY), {}

    async def run(self, task, environment, policy, episode):
        label = environment.spec.label
        number = self._asked[label] = self._asked.get(label, 0) + 1
        fault = _draw(f"{label} {number}")
        if fault == "cancelled":
            raise RolloutCancelled("injected cancelled")
        if fault == "hangs":
            await asyncio.Event().wait()
        if fault == "never_ends":
            await _deaf()
        if fault == "cheats":
            script = "git log --all"
            episode.turns.append(Turn([script], [await environment.shell(script) or ExecResult("")]))
        stop = await super().run(task, environment, FaultyPolicy(policy, self._faults, label), episode)
        ends = {"stops": StopReason.STOPPED, "babbles": StopReason.FORMAT_ERRORS}
        return ends.get(fault, stop)


async def _deaf():
    """Go on when told to stop, as a scaffold that catches everything does; the second time it gives in."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()


def _draw(label):
    chance = random.Random(label).random()
    for fault, rate in OWN.items():
        chance -= rate
        if chance < 0:
            return fault
    return None


@hookimpl
def swe_register_scaffolds(register):
    register("faulty", "swe_bench_faults:FaultyScaffold", summary="bash, with faults")
