"""Reports of pytest that code under test cannot forge by what it prints, or by ending the run.

Hidden tests import the agent's code, which then runs in the process that reports on it. So a plugin, loaded before any
of that code, notes what pytest reports and writes it to a file at the end, signed with a word that only it and the
grader know: the first line of its standard input. What is printed is not read then. Code that looks for the word in the
memory of its own process could find it; `honesty` knows what such code looks like.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence

from swe_plugin.grading.parsers import SWEBENCH
from swe_plugin.types import GradingSpec

__all__ = ["PLUGIN", "REPORT", "believed", "can_sign", "is_signed", "signed_command"]

_PYTEST = re.compile(r"(?:^|[\s/])pytest(?=\s|$)")
_AGAIN = re.compile(r"\bdo\b(?:(?!\bdone\b).)*\bpytest\b|\bxargs\b.*\bpytest\b", re.DOTALL)
_SWEBENCH = (
    *("pytest", "pytest_options", "pytest_v2"),
    *("astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray"),
)
_PARSERS = ("pytest", "pytest_dotted", *(f"{SWEBENCH}parse_log_{name}" for name in _SWEBENCH))
_EXIT_CODE = re.compile(r"^>>>>> Test Exit Code: .*$", re.MULTILINE)
_START, _END = ">>>>> Start Test Output", ">>>>> End Test Output"
_SCRIPT = (
    'PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}" PYTEST_PLUGINS="$1${PYTEST_PLUGINS:+,$PYTEST_PLUGINS}"; '
    'export PYTHONPATH PYTEST_PLUGINS; shift; exec "$@"'
)
REPORT = "report"
PLUGIN = '''\
import hashlib, hmac, os, sys

NAMES = {"passed": "PASSED", "failed": "FAILED", "error": "ERROR", "skipped": "SKIPPED", "xfailed": "XFAIL"}


def _first_line():
    read = b""
    while not read.endswith(b"\\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        read += byte
    return read.strip()


def _hide():
    """What tests start must not load this again."""
    for name, separator, mine in (("PYTEST_PLUGINS", ",", __name__), ("PYTHONPATH", ":", os.path.dirname(__file__))):
        rest = [word for word in os.environ.get(name, "").split(separator) if word != mine]
        os.environ.pop(name, None)
        if rest:
            os.environ[name] = separator.join(rest)
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(__file__)]


class Reports(object):
    def __init__(self, nonce):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        self.file = os.open(os.path.join(os.path.dirname(__file__), "report"), flags, 0o600)
        self.lines = []
        self.sign = lambda data: hmac.new(nonce, data, hashlib.sha256).hexdigest().encode()
        os.write(1, self.sign(b"loaded") + b"\\n")

    def pytest_runtest_logreport(self, report):
        status = self.config.hook.pytest_report_teststatus(report=report, config=self.config)
        if status and status[0] in NAMES:
            self.note(NAMES[status[0]], report)

    def pytest_collectreport(self, report):
        if report.failed:
            self.note("ERROR", report)

    def note(self, status, report):
        name = self.config.cwd_relative_nodeid(report.nodeid)
        self.lines.append(status + " " + " ".join(name.splitlines()))

    def pytest_unconfigure(self):
        data = "".join(line + "\\n" for line in self.lines).encode("utf-8", "replace")
        data = self.sign(data) + b"\\n" + data
        while data:
            data = data[os.write(self.file, data):]


def _reports():
    _hide()
    nonce = _first_line()
    return Reports(nonce) if nonce else None


_found = _reports()


def pytest_configure(config):
    global _found
    if _found is not None:
        _found.config = config
        config.pluginmanager.register(_found)
        _found = None
'''


def can_sign(spec: GradingSpec) -> bool:
    """Whether the command calls pytest once, as far as its words tell: there is one word for one run."""
    scripts = (text.partition(_START)[2] for text in spec.tests.values())
    text = " ".join([*spec.command, *(scripts if spec.parser.startswith(SWEBENCH) else ())])
    return spec.parser in _PARSERS and len(_PYTEST.findall(text)) == 1 and not _AGAIN.search(text)


def signed_command(command: Sequence[str], folder: str, module: str) -> list[str]:
    """The command with the plugin.

    Args:
        command: calls pytest, by whatever shell or launcher.
        folder: absolute path of a directory that holds `PLUGIN`.
        module: under this name, which is nobody else's.
    """
    return ["sh", "-c", _SCRIPT, folder, module, *command]


def is_signed(log: str, nonce: str) -> bool:
    """Whether the plugin was loaded; then its report counts, and nothing else."""
    return _sign(b"loaded", nonce) in log.split("\n")


def believed(log: str, report: bytes, nonce: str) -> str:
    """The log with what the plugin wrote in place of what was printed; no results if that is not signed.

    Of the log of an evaluation script stay the marks and the exit code, and skips are left out: swebench's parsers
    do not know which tests were skipped.
    """
    signature, _, lines = report.partition(b"\n")
    results = lines.decode(errors="replace") if signature.decode(errors="replace") == _sign(lines, nonce) else ""
    _, start, rest = log.partition(_START)
    if not start:
        return f"short test summary info\n{results}"
    results = "".join(line for line in results.splitlines(keepends=True) if not line.startswith("SKIPPED"))
    exit_codes = "\n".join(_EXIT_CODE.findall(rest.rpartition(_END)[2])[:1])
    return f"{_START}\n{results}{_END}\n{exit_codes}\n"


def _sign(data: bytes, nonce: str) -> str:
    return hmac.new(nonce.encode(), data, hashlib.sha256).hexdigest()
