"""A plugin of pytest that writes down what the summary of a run does not say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["PLUGIN", "PLUGIN_FOLDER", "PLUGIN_MODULE", "RECORD_FILE", "Record"]

PLUGIN_FOLDER, PLUGIN_MODULE = ".swe_record", "swe_record"
RECORD_FILE = f"{PLUGIN_FOLDER}/record.json"
PLUGIN = """\
import json, os, sys, threading, time

import pytest

FAILED, CALLED, TOP = {}, {}, os.getcwd() + os.sep


def pytest_runtest_logreport(report):
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        FAILED.setdefault(report.nodeid, crash.message if crash else str(report.longrepr)[-2000:])


if os.environ.get("SWE_RECORD_CALLS"):

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(item):
        seen = set()

        def note(frame, event, _):
            if event == "call":
                seen.add(frame.f_code)

        threading.setprofile(note)
        sys.setprofile(note)
        yield
        sys.setprofile(None)
        threading.setprofile(None)
        for code in seen:
            if code.co_filename.startswith(TOP) and code.co_filename != __file__:
                key = code.co_filename[len(TOP):] + ":" + str(code.co_firstlineno)
                CALLED[key] = CALLED.get(key, 0) + 1


def pytest_unconfigure(config):
    with open(os.path.join(os.path.dirname(__file__), "record.json"), "w") as file:
        json.dump({"failed": FAILED, "called": CALLED, "cpu_s": time.process_time()}, file)
"""


@dataclass(frozen=True, slots=True)
class Record:
    """What the plugin saw.

    Attributes:
        failed: test id -> what it says of its failure.
        called: ``path:first line`` of a function -> number of tests that call it; only where calls were recorded.
        cpu_s: processor seconds of the run, without those of processes that tests start.
    """

    failed: Mapping[str, str] = field(default_factory=dict)
    called: Mapping[str, int] = field(default_factory=dict)
    cpu_s: float = 0.0

    @classmethod
    def read(cls, content: bytes) -> Record:
        """The record that a run left."""
        values = json.loads(content)
        return cls(values["failed"], values["called"], values["cpu_s"])
