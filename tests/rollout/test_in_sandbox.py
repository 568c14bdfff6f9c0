"""The same paths for real: git, commands and hidden tests in the sandbox."""

from __future__ import annotations

import asyncio
import json

import pytest
from grading.trees import GIT_SCRIPTS

from rollout.workers import SUBMIT, answers
from swe_plugin.config import load_config
from swe_plugin.environments import spec_for
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.grading.apply import apply_patch
from swe_plugin.grading.baseline import record_baseline
from swe_plugin.grading.patch import extract_patch
from swe_plugin.plugins import load_plugins
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.types import GradingSpec, Image, StopReason, Task

MARK = "only-the-grader-knows-this"
TASK = Task(
    "calc-1",
    "add subtracts",
    image=Image(files={"src/calc.py": "def add(a, b):\n    return a - b\n", ".gitignore": "*.log\n"}),
    grading=GradingSpec(
        command=("python3", "-I", "-S", "tests/hidden.py"),
        parser="nonce_lines",
        tests={
            "tests/hidden.py": f"import sys\nnonce = input()  # {MARK}\nsys.path.insert(0, 'src')\nimport calc\n"
            "print(nonce, 'PASSED' if calc.add(1, 2) == 3 else 'FAILED', 'add two')\n"
        },
        fail_to_pass=("add two",),
        timeout_s=30,
    ),
)
FIX = "sed -i 's/a - b/a + b/' src/calc.py"

ODD = r"""
printf 'no newline' > a; printf 'crlf\r\nmixed\n' > b; printf '\000\001\377' > c; mkdir -p 'with space/é'
printf 'cafe\351\n' > 'with space/é/la"tin'; ln -s ../src link; printf '#!/bin/sh\n' > run; chmod +x run
cat > here <<'END'
EOF
diff --git a/x b/x
END
mv src/calc.py src/renamed.py; printf '* text eol=crlf ident\n' > .gitattributes; rm .gitignore; chmod +x src/keep.txt
rm -r gone; printf x > gone
"""
LISTING = r"""
import hashlib, json, os
found = {}
for top, dirs, names in os.walk("."):
    if ".git" in dirs: dirs.remove(".git")
    for name in names + [d for d in dirs if os.path.islink(os.path.join(top, d))]:
        path = os.path.join(top, name)
        link = os.path.islink(path)
        data = os.readlink(path).encode() if link else open(path, "rb").read()
        mode = "link" if link else bool(os.stat(path).st_mode & 0o100)
        found[path] = [mode, hashlib.sha256(data).hexdigest()]
print(json.dumps(found, sort_keys=True))
"""


def block(script: str) -> str:
    return f"```bash\n{script}\n```"


def sandbox(image: Image) -> SandboxEnvironment:
    return SandboxEnvironment(spec_for(image, load_config({}).environment, label="test"))


async def listing(environment) -> dict[str, list[object]]:
    result = await environment.exec(["python3", "-c", LISTING])
    assert result.exit_code == 0, result
    return json.loads(result.stdout)


@pytest.fixture
def worker(tmp_path):
    return build_rollout_worker(load_config({}), load_plugins(), tmp_path)


async def test_an_episode_on_a_real_repository(worker):
    script = [block("cat src/calc.py"), block(f"{FIX}\ngit diff --stat"), SUBMIT]
    result = await worker.run(TASK, 0, answers(*script), step=1, phase="train")
    assert (result.stop, result.reward, result.failures) == (StopReason.SUBMITTED, 1.0, [])
    assert "a - b" in result.turns[0].results[0].stdout
    assert "1 file changed" in result.turns[1].results[0].stdout
    assert worker.pool.in_use == 0


async def test_the_agent_finds_no_hidden_test_anywhere(worker):
    search = (
        f"for d in /testbed /tmp /home /root /etc /dev/shm /var /proc/[0-9]*/root/testbed; do "
        f"grep -rsl {MARK} $d; done; echo done"
    )
    group = [answers(block(search), block(FIX), SUBMIT) for _ in range(3)]
    results = await asyncio.gather(
        *(worker.run(TASK, n, factory, step=1, phase="train") for n, factory in enumerate(group))
    )
    assert [result.turns[0].results[0].stdout for result in results] == ["done\n"] * 3
    assert [result.reward for result in results] == [1.0] * 3


async def test_processes_that_the_agent_left_behind_do_not_reach_the_grading(worker):
    late = f"(sleep 0.5; {FIX}) > /dev/null 2>&1 & echo started"
    result = await worker.run(TASK, 0, answers(block(late), SUBMIT), step=1, phase="train")
    assert result.turns[0].results[0].stdout.endswith("started\n")
    assert (result.reward, result.flags) == (0.0, ("empty_patch",))


@pytest.mark.parametrize("script", GIT_SCRIPTS[3:11:2])
async def test_what_the_agent_does_to_its_git_changes_nothing(worker, script):
    result = await worker.run(TASK, 0, answers(block(FIX), block(script), SUBMIT), step=1, phase="train")
    assert (result.stop, result.reward, result.flags) == (StopReason.SUBMITTED, 1.0, ())


async def test_changes_of_every_odd_kind_arrive_exactly():
    image = Image(files={**TASK.image.files, "src/keep.txt": "kept\n", "gone/x": "x\n", "gone/y": ""})
    async with sandbox(image) as agent, sandbox(image) as fresh:
        baseline = await record_baseline(agent)
        before = await listing(agent)
        result = await agent.shell(ODD)
        assert result.exit_code == 0, result
        patch = await extract_patch(agent, baseline)
        await apply_patch(fresh, patch.text)
        wanted = await listing(agent)
        assert wanted != before
        assert await listing(fresh) == wanted
        assert patch.flags == ()


async def test_an_agent_that_fills_its_disk_does_not_escape_its_grade(worker):
    fill = "head -c 1G /dev/zero > big.log; head -c 1G /dev/zero > /tmp/big; true"
    result = await worker.run(TASK, 0, answers(block(FIX), block(fill), SUBMIT), step=1, phase="train")
    assert (result.stop, result.reward, result.flags) == (StopReason.SUBMITTED, 0.0, ("patch_unreadable",))
    assert {failure.phase for failure in result.failures} == {"patch"}
