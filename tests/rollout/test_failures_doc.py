"""The docs and the matrix are one."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from omegaconf import OmegaConf

from swe_plugin import grading
from swe_plugin.cli.docs import keys
from swe_plugin.config import SweConfig
from swe_plugin.grading.honesty import Signal
from swe_plugin.rollout.failures_doc import BUDGETS, failures_markdown
from swe_plugin.types import StopReason

DOCS = Path(__file__).parents[2] / "docs" / "failures.md"


def test_every_stop_reason_is_explained():
    for stop in StopReason:
        assert f"| `{stop}` |" in failures_markdown()


def test_every_flag_that_the_code_raises_is_explained():
    sources = "".join(path.read_text() for path in Path(inspect.getfile(grading)).parent.rglob("*.py"))
    flags = {"empty_patch", "patch_too_large", "patch_incomplete", "patch_unreadable", "grader_timeout", "grader_error"}
    assert flags <= set(re.findall(r'"((?:patch|grader|tests|empty)_(?:\w+))"', sources))
    assert all(f"| `{flag}` |" in failures_markdown() for flag in flags | {"tests_edited", "tests_aborted"})


def test_every_limit_is_a_key_in_seconds_and_a_limit_of_time_is_explained():
    default = OmegaConf.structured(SweConfig)
    explained = {key for key, _ in BUDGETS.values()}
    assert all(OmegaConf.select(default, key.removeprefix("swe.")) > 0 for key in explained)
    limits = {key.path for key in keys() if key.path.endswith("_s")}
    assert explained == limits - {"swe.failure.watchdog_s"}


def test_every_signal_is_explained():
    page = (DOCS.parent / "rewards.md").read_text()
    assert not [signal for signal in Signal if f"| `{signal}` |" not in page]
