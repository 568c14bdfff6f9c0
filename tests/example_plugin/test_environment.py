import shutil

import pytest
from swe_plugin_example.environment import BubblewrapEnvironment

from swe_plugin.environments.conformance import ConformanceSuite

pytestmark = pytest.mark.slow


class TestBubblewrap(ConformanceSuite):
    backend = BubblewrapEnvironment

    async def kill(self, environment):  # end it from outside, as a crash would
        shutil.rmtree(environment.root)
