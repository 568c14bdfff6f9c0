"""The public test suite of the `Environment` contract. Needs pytest and pytest-asyncio.

A backend passes it by one subclass in its own tests (docs/writing_a_backend.md)::

    from swe_plugin.environments.conformance import ConformanceSuite


    class TestMyEnvironment(ConformanceSuite):
        backend = MyEnvironment
"""

from __future__ import annotations

import pytest

_SUBJECTS = ("checks", "commands", "failures", "files", "isolation", "lifecycle", "limits", "shell", "trees")
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in _SUBJECTS))  # before the import below

from swe_plugin.environments.conformance.checks import needs  # noqa: E402
from swe_plugin.environments.conformance.suite import ConformanceSuite  # noqa: E402

__all__ = ["ConformanceSuite", "needs"]
