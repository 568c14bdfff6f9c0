"""What a terminal shows while tasks are checked and made."""

import io

from rich.console import Console
from synth.projects import CORE

from swe_plugin.cli.synth import SynthProgress
from swe_plugin.cli.validate import LiveTable, print_report
from swe_plugin.synth.bugs import find_bugs
from swe_plugin.synth.trial import Outcome
from swe_plugin.validation.finding import Finding, Verdict
from swe_plugin.validation.report import Report

BROKEN = Finding("b", "docker:gone", Verdict.BROKEN_IMAGE, "no such image [red]", start_s=1.0)
GOOD = Finding("a", "host", Verdict.GOOD, start_s=12.0, tests_s=61.0)


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=160, height=40, color_system=None)


def test_the_table_lives_and_problems_stay():
    console = terminal()
    with LiveTable(console, total=3) as table:
        table.doing("a", "gold 1 of 2")
        table.doing("b", "gold 1 of 2")
        table.doing("a", "empty 2 of 2")
        table.done(BROKEN, known=False)
        table.done(GOOD, known=True)
        table.doing("c", "order 1 of 1")
    text = console.file.getvalue()
    assert "empty 2 of 2" not in text.splitlines()[0]
    for words in (
        "broken image b (0.0 s): no such image [red]",
        "order 1 of 1",
        "1 good",
        "1 of them from before",
        "2/3",
    ):
        assert words in text


def test_the_report_names_images_and_slow_tests():
    console = terminal()
    print_report(Report([GOOD, BROKEN]), ["keep.txt"], console)
    text = " ".join(console.file.getvalue().split())
    for words in (
        "image docker:gone: broken for 1 of 1 tasks: no such image [red]",
        "image host: slow (slowest start 12.0 s)",
        "slow tests: a: 61.0 s",
        "the order of tests was not changed for 2 tasks",
        "kept 1 of 2: keep.txt",
    ):
        assert words in text


def test_a_bar_per_project():
    console = terminal()
    bug = next(find_bugs("calc/core.py", CORE))
    with SynthProgress(console, count=5) as progress:
        progress.begin("one.tar.gz")
        progress.doing("one: reading")
        progress.tried(bug, Outcome.KEPT, 1)
        progress.tried(bug, None, 1)
        progress.begin("two.tar.gz")
        progress.tried(bug, Outcome.UNNOTICED, 0)
    text = console.file.getvalue()
    for words in ("one.tar.gz", "1/5", "1 kept, 1 infrastructure failed", "two.tar.gz", "0/5", "1 no test notices"):
        assert words in text
