"""Event hooks: each plugin hears of each rollout, and an error of one is logged and goes no further."""

import logging

from plugins.conftest import site  # noqa: F401

from swe_plugin.types import StopReason

from . import workers

LISTENS = """
from swe_plugin.hookspecs import hookimpl

heard = []

@hookimpl
def swe_rollout_started(task, environment):
    heard.append(task.instance_id)

@hookimpl
def swe_rollout_finished(result):
    heard.append(result.stop.value)
    {then}
"""


async def test_an_error_of_a_hook_is_logged_and_the_others_still_hear(site, caplog):  # noqa: F811
    site.add("swe-a", LISTENS.format(then="raise OSError('no disk')"))
    site.add("swe-b", LISTENS.format(then="raise SystemExit(1)"))
    loaded = site.add("swe-c", LISTENS.format(then="")).load()
    with caplog.at_level(logging.ERROR):
        result = await workers.play(workers.worker(), workers.FIX, workers.SUBMIT)
    assert (result.stop, result.reward) == (StopReason.SUBMITTED, 1.0)
    heard = [loaded.manager.get_plugin(f"swe-{letter}:swe_{letter}").heard for letter in "abc"]
    assert heard == [["calc-1", "submitted"]] * 3
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "swe_rollout_finished: the hook of plugin swe-a:swe_a failed",
        "swe_rollout_finished: the hook of plugin swe-b:swe_b failed",
    ]
    assert "no disk" in caplog.text
