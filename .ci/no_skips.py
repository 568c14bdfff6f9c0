"""Fail if a test was skipped (or expected to fail) for any reason that .ci/allowed_skips.txt does not list.

Usage: python .ci/no_skips.py RESULTS.xml ...   (JUnit files of pytest). Each line of the list is a regular
expression over ``<test id>: <reason>``; lines that start with # are comments.
"""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree


def skipped(path: Path) -> list[str]:
    """``<class>::<test>: <reason>`` of every test in one file that did not run."""
    cases = ElementTree.parse(path).getroot().iter("testcase")  # noqa: S314 - our own file
    return [
        f"{case.get('classname')}::{case.get('name')}: {skip.get('message')}"
        for case in cases
        for skip in case.findall("skipped")
    ]


def main(paths: list[str]) -> int:
    """Exit code: 1 if a test was skipped that should have run, or if nothing ran at all."""
    text = Path(__file__).with_name("allowed_skips.txt").read_text(encoding="utf-8")
    allowed = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    failed = False
    for path in map(Path, paths):
        ran = len(list(ElementTree.parse(path).getroot().iter("testcase")))  # noqa: S314 - our own file
        wrong = [line for line in skipped(path) if not any(re.search(pattern, line) for pattern in allowed)]
        print(f"{path}: {ran} tests, {len(wrong)} skipped without permission")
        print("".join(f"  {line}\n" for line in wrong), end="")
        failed = failed or bool(wrong) or ran == 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
