"""Rows of published datasets: `python tests/benchmarks/bench_rows.py` (`make bench-rows`).

Memory of `swe-plugin prepare` over 1,000 and 10,000 generated rows of SWE-bench's schema.

With `ROWS=<file> CLONES=<directory>` also real rows, graded here without Docker: SWE-bench's columns and one more,
`local`. In it, ``{"install": {"date": "2022-01-01", "pip": ["-e .", "@wheel"]}}`` are arguments of `uv pip install` in
their order, with versions of that day unless they begin with ``@``. `<directory>/<owner>/<name>` are clones. Each row
gets a recipe in place of its Docker image and a script as swebench writes them, and goes through `prepare
swe-bench-verified`, then `validate`. Writes its sections of docs/benchmarks.md.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from page import machine, write_section

from swe_plugin.grading.paths import file_changes

COUNTS = (1_000, 10_000)
STATEMENT, PASSING = "Words of a statement. " * 200, [f"tests/test_calc.py::test_{n}" for n in range(200)]
COMMANDS = {"sympy/sympy": "python3 -W ignore bin/test -C --verbose"}
PYTEST = "python3 -m pytest -rA --color=no -p no:cacheprovider"
WHEELS = {"psf/requests": ["@cffi cryptography"], "sqlfluff/sqlfluff": ["@regex"]}
"""Taken in versions that have wheels for this Python, since the image has no compiler."""
SCRIPT = """\
#!/bin/bash
set -uxo pipefail
git checkout {commit} -- {old}
git apply -v - <<'EOF_114329324912'
{patch}EOF_114329324912
: '>>>>> Start Test Output'
{command} {files}
: '>>>>> End Test Output'
"""


def swe_plugin(*words: str) -> tuple[Any, float, float]:
    """What a command prints with ``--json``, its seconds, and the peak of its memory in MiB."""
    command = [sys.executable, "-m", "swe_plugin.cli", *words, "--json"]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        printed = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # 1: some tasks are not good, which is a result
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return json.loads(printed), time.monotonic() - began, usage.ru_maxrss / 1024


def generated(path: Path, count: int) -> Path:
    """A file of so many rows."""
    with path.open("w") as file:
        for n in range(count):
            row = {"instance_id": f"acme__calc-{n}", "repo": f"acme/calc{n % 50}", "base_commit": "0" * 40}
            row |= {"problem_statement": STATEMENT, "patch": "x", "test_patch": "", "version": "1.0"}
            tests = {"FAIL_TO_PASS": '["tests/test_calc.py::test_x"]', "PASS_TO_PASS": json.dumps(PASSING)}
            file.write(json.dumps(row | tests) + "\n")
    return path


def memory(folder: Path) -> str:
    """The section about memory."""
    lines = [
        f"`make bench-rows` ({machine()}):\n",
        "| rows | MB of rows | seconds | peak memory, MiB |",
        "|---|---|---|---|",
    ]
    for count in COUNTS:
        rows = generated(folder / f"{count}.jsonl", count)
        words = (
            "swe-bench",
            str(rows),
            "--shuffle",
            "0",
            "--val-fraction",
            "0.1",
            "--no-sizes",
            "--out",
            str(folder / "out"),
        )
        summary, seconds, mib = swe_plugin("prepare", *words)
        assert sum(summary["kept"].values()) == count, summary
        lines.append(f"| {count:,} | {rows.stat().st_size / 1e6:.0f} | {seconds:.1f} | {mib:.0f} |")
    return "\n".join(lines)


def script(row: dict[str, Any]) -> str:
    """As swebench writes them: the tests' patch, then its test files, between marks."""
    changes = file_changes(row["test_patch"])
    return SCRIPT.format(
        commit=row["base_commit"],
        old=shlex.join(item.path for item in changes if item.change != "added"),
        patch=row["test_patch"],
        command=COMMANDS.get(row["repo"], PYTEST),
        files=shlex.join(item.path for item in changes if item.path.endswith(".py")),
    )


def recipe(row: dict[str, Any], clones: Path) -> dict[str, Any]:
    """An image of this machine's tools, the repository, and what the row says that it needs."""
    install = row["local"]["install"]
    uv = 'uv pip install --python "$(command -v python3)" --break-system-packages'
    dated = f"{uv} --exclude-newer {install['date']}T23:59:59Z"
    lines = WHEELS.get(row["repo"], []) + install["pip"]
    return {
        "base": "host",
        "repository": str(clones / row["repo"]),
        "commit": row["base_commit"],
        "setup": [f"{uv} {line[1:]}" if line.startswith("@") else f"{dated} {line}" for line in lines],
    }


def published(rows: Path, clones: Path, folder: Path) -> str:
    """The section about real rows."""
    from swebench.harness.log_parsers.python import MAP_REPO_TO_PARSER_PY

    made = [json.loads(line) for line in rows.read_text().splitlines()]
    for row in made:
        parser = MAP_REPO_TO_PARSER_PY[row["repo"]].__name__
        row |= {"image": recipe(row, clones), "eval_script": script(row), "log_parser": parser}
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in made))
    summary, _, _ = swe_plugin(
        "prepare", "swe-bench-verified", str(folder / "rows.jsonl"), "--out", str(folder / "made")
    )
    tasks = str(folder / "made/train.parquet")
    swe_plugin("cache", "build", tasks)
    swe_plugin("validate", tasks, "--jobs", "1", "--orders", "0", "--out", str(folder / "checked"))
    done = [json.loads(line) for line in (folder / "checked/done.jsonl").read_text().splitlines()]
    lines = [
        f"`make bench-rows ROWS=... CLONES=...` ({machine()}), {summary['read']} rows, each graded twice with its gold "
        "patch and twice without any:\n",
        "| row | tests that decide | gold 1, empty 0 | seconds of its slowest grading |",
        "|---|---|---|---|",
    ]
    tests = {
        row["instance_id"]: sum(len(_list(row[name])) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")) for row in made
    }
    for item in done:
        verdict = "yes" if item["verdict"] == "good" else f"{item['verdict']}: {item['detail']}"
        lines.append(f"| {item['instance_id']} | {tests[item['instance_id']]} | {verdict} | {item['tests_s']:.0f} |")
    return "\n".join(lines)


def _list(value: Any) -> list[str]:
    return json.loads(value) if isinstance(value, str) else value


def main() -> int:
    """Measure, print, write."""
    with tempfile.TemporaryDirectory(prefix="bench-rows-") as scratch:
        sections = {"bench-rows": memory(Path(scratch))}
        if rows := os.environ.get("ROWS"):
            sections["bench-rows-published"] = published(Path(rows), Path(os.environ["CLONES"]), Path(scratch))
    for name, text in sections.items():
        print(text)
        write_section(name, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
