"""One suite per mutant, and one per sound backend; collected by `test_suite` only."""

import shutil

from swe_plugin.environments.conformance import ConformanceSuite
from swe_plugin.environments.sandbox.owner import current_zygote

from . import MUTANTS, Bubblewrap, Sandbox


class OfBubblewrap(ConformanceSuite):
    async def kill(self, environment):
        shutil.rmtree(environment.root)


class OfSandbox(ConformanceSuite):
    async def kill(self, environment):
        await current_zygote().kill(environment._number)


for mutant in [Bubblewrap, Sandbox, *(mutant for mutant, _ in MUTANTS.values())]:
    suite = OfSandbox if issubclass(mutant, Sandbox) else OfBubblewrap
    globals()[f"Test{mutant.__name__}"] = type(f"Test{mutant.__name__}", (suite,), {"backend": mutant})
