"""Invented rows in the published schemas of the datasets that `swe-plugin prepare` reads."""

from __future__ import annotations

import json

FIX = "diff --git a/src/calc.py b/src/calc.py\n--- a/src/calc.py\n+++ b/src/calc.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
TESTS = (
    "diff --git a/tests/test_calc.py b/tests/test_calc.py\n--- a/tests/test_calc.py\n+++ b/tests/test_calc.py\n"
    "@@ -1 +1,2 @@\n import calc\n+assert calc.x == 2\n"
)
F2P = ["tests/test_calc.py::test_x[a b]"]
P2P = ["tests/test_calc.py::test_y", 'tests/test_more.py::TestZ::test_z[it\'s "quoted" - so]']
BASE = {
    "repo": "acme/Calc",
    "instance_id": "acme__Calc-7",
    "base_commit": "0123abcd",
    "patch": FIX,
    "test_patch": TESTS,
    "problem_statement": "x must be 2",
    "hints_text": "",
    "created_at": "2024-01-01T00:00:00Z",
    "version": "3.10",
}

SWE_BENCH = BASE | {
    "FAIL_TO_PASS": json.dumps(F2P),
    "PASS_TO_PASS": json.dumps(P2P),
    "environment_setup_commit": "0123",
}
SWE_BENCH_LISTS = BASE | {"FAIL_TO_PASS": F2P, "PASS_TO_PASS": P2P}
SWE_BENCH_5 = SWE_BENCH | {
    "image": "swebench/sweb.eval.x86_64.acme_1776_calc-7:v2",
    "eval_script": "#!/bin/bash\necho run\n",
    "log_parser": "parse_log_pytest",
    "eval_type": "pass_and_fail",
}
SWE_REBENCH = SWE_BENCH_LISTS | {
    "FAIL_TO_FAIL": ["tests/test_old.py::test_never"],
    "PASS_TO_FAIL": [],
    "docker_image": "swerebench/sweb.eval.x86_64.acme_1776_calc-7",
    "install_config": {"python": "3.10", "test_cmd": "pytest --no-header -rA -p no:cacheprovider", "install": "x"},
}
SWE_SMITH = {
    "instance_id": "acme__calc.0123abcd.func_pm_remove_cond__x1y2",
    "patch": FIX,
    "FAIL_TO_PASS": F2P,
    "PASS_TO_PASS": P2P,
    "image_name": "jyangballin/swesmith.x86_64.acme_1776_calc.0123abcd",
    "repo": "swesmith/acme__calc.0123abcd",
    "problem_statement": "x should be 1",
}
R2E_GYM = {
    "repo_name": "calc",
    "docker_image": "namanjain12/calc_final:0123abcd",
    "commit_hash": "0123abcd",
    "parsed_commit_content": "{}",
    "problem_statement": "[ISSUE]\nx must be 2\n[/ISSUE]",
    "expected_output_json": json.dumps({"TestX.test_x": "PASSED", "test_y": "FAILED", "": "PASSED"}),
}
TASK = {
    "instance_id": "mine-1",
    "problem_statement": "x must be 2",
    "repo": "mine",
    "image": {"base": "docker:registry.example/mine:1", "workdir": "/app"},
    "grading": {"command": ["bash", "run.sh"], "parser": "pytest", "fail_to_pass": F2P, "pass_to_pass": P2P},
}
ROWS = {
    "swe-bench": SWE_BENCH,
    "swe-bench-lite": SWE_BENCH,
    "swe-bench-verified": SWE_BENCH_5,
    "swe-bench-multilingual": SWE_BENCH_LISTS,
    "swe-smith": SWE_SMITH,
    "swe-gym": SWE_BENCH_LISTS,
    "swe-rebench": SWE_REBENCH,
    "r2e-gym": R2E_GYM,
    "tasks": TASK,
}
"""One good row of each dataset by registered name."""
