"""Every mistake is one line that names key, value and fix, before Ray starts; `doctor` shows the same line.

A row is what a user would type (after a configuration that works), or a file that is not what it should be.
"""

import dataclasses
import json
import os
import shutil
import socket

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from swe_plugin.types import GradingSpec, Image, Task
from swe_plugin.verl_adapter import callback, cpu
from swe_plugin.verl_adapter.bootstrap import DEVICE_VARIABLE
from swe_plugin.verl_adapter.checks import findings

from .main_ppo import main_ppo
from .test_recipes import composed

pytestmark = pytest.mark.slow

GOOD = Task("demo-1", "fix it", grading=GradingSpec(("true",), fail_to_pass=("t",)))
MESSAGES = [{"role": "user", "content": "fix it"}]
TIB = 1 << 40


def write(path, tasks, **columns):
    rows = [{"prompt": MESSAGES, "task": task if isinstance(task, str) else task.to_json()} for task in tasks]
    pq.write_table(pa.Table.from_pylist([{**row, **columns} for row in rows]), path)


@pytest.fixture(scope="module")
def there(model_dir, tmp_path_factory):
    """A directory with a model, data, and things that are wrong in one way each."""
    top = tmp_path_factory.mktemp("there")
    for name in ("model", "untemplated", "toolless", "huge", "headless"):
        shutil.copytree(model_dir, top / name)
        (top / name / "model.safetensors").touch()
    for path in (top / "untemplated").glob("chat_template*"):
        path.unlink()
    os.truncate(top / "huge/model.safetensors", 4 * TIB)  # sparse
    (top / "headless/config.json").unlink()
    shutil.copytree(model_dir, top / "weightless")
    (top / "empty").mkdir()
    write(top / "tasks.parquet", [GOOD] * 4)
    other = dataclasses.replace
    write(top / "third_is_no_task.parquet", [GOOD, GOOD, "{}", GOOD])
    write(top / "parser.parquet", [GOOD, other(GOOD, grading=other(GOOD.grading, parser="tap"))])
    write(top / "no_rootfs.parquet", [GOOD, other(GOOD, image=Image("rootfs:/nowhere/at/all"))])
    write(top / "docker.parquet", [other(GOOD, image=Image("vm:python:3.12"))])
    write(top / "flat_prompt.parquet", [GOOD], prompt="fix it")
    pq.write_table(pa.table({"prompt": [MESSAGES], "patch": [""]}), top / "columns.parquet")
    (top / "not.parquet").write_text("id,task\n")
    (top / "tasks.csv").write_text("id,task\n")
    (top / "half.jsonl").write_text(json.dumps({"prompt": MESSAGES, "task": GOOD.to_json()}) + "\n{\n")
    (top / "unclosed.jinja").write_text("{% for x in y %}")
    (top / "unknown_variable.jinja").write_text("{{ task.gold_patch }} {{ answer }}")
    (top / "history.jinja").write_text("{% for m in messages %}{{ loop.length }}{{ m.content }}<|im_end|>{% endfor %}")
    (top / "file").touch()
    return top


@pytest.fixture(autouse=True)
def nothing_outlives_the_test(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu, "activate", lambda: None)
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(DEVICE_VARIABLE, "")


@pytest.fixture(scope="module")
def taken():
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def command_line(there, taken, tmp_path):
    """Words of a run that would start, followed by some more: @ is the directory `there`, PORT a port in use."""
    good = (
        "+plugin=swe swe_device=cpu swe.demo.enabled=false swe.environment.backend=dummy data.train_batch_size=4 "
        f"actor_rollout_ref.model.path={there}/model data.train_files={there}/tasks.parquet "
        f"data.val_files={there}/tasks.parquet swe.output.dir={tmp_path}/outputs"
    )
    return lambda *more: [*good.split(), *(w.replace("@", str(there)).replace("PORT", str(taken)) for w in more)]


SANDBOX = "swe.environment.backend=sandbox"
ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
MODEL = "actor_rollout_ref.model.path"
MISTAKES = {
    # names and types
    "unknown section": (["++swe.scafold.name=bash"], "swe.scafold={'name': 'bash'}: ", "did you mean swe.scaffold"),
    "unknown key": (["++swe.scaffold.max_tuns=3"], "swe.scaffold.max_tuns=3: ", "mean swe.scaffold.max_turns"),
    "wrong type": (["swe.scaffold.max_turns=many"], "swe.scaffold.max_turns='many': ", "Integer"),
    "wrong choice": (["swe.scaffold.action=json"], "swe.scaffold.action='json': ", "one of fenced, tools"),
    "backend": (["swe.environment.backend=sandbx"], "swe.environment.backend='sandbx': ", "mean 'sandbox'? registered"),
    "backend, from where": (["swe.environment.backend=k8s"], "backend='k8s': ", "sandbox (swe-plugin)"),
    "scaffold": (["swe.scaffold.name=bsh"], "swe.scaffold.name='bsh': ", "did you mean 'bash'?"),
    "grader": (["swe.grading.grader=test"], "swe.grading.grader='test': ", "did you mean 'tests'?"),
    "reward": (["+swe.grading.rewards.f3p=1"], "swe.grading.rewards.f3p=1: ", "is not built in; give it use"),
    "plugin": (["swe.plugins=[swe-k8s]"], "swe.plugins: 'swe-k8s' is not installed", ""),
    # prompts
    "prompt missing": (
        ["swe.scaffold.system_prompt=/no/such.jinja"],
        "swe.scaffold.system_prompt='/no/such",
        "bundled",
    ),
    "prompt broken": (["swe.scaffold.system_prompt=@/unclosed.jinja"], "swe.scaffold.system_prompt=", "line 1: "),
    "prompt variable": (["swe.scaffold.system_prompt=@/unknown_variable.jinja"], "no variable answer", "limits, task"),
    # overlap
    "overlap": (["swe.overlap=yes"], "swe.overlap='yes': ", "one of off, prewarm, async"),
    "on-policy in an async mode": (
        ["swe.overlap=prewarm", "trainer.v1.trainer_mode=colocate_async"],
        "trainer.v1.trainer_mode='colocate_async': must be sync with swe.overlap=prewarm",
        "or say swe.overlap=async",
    ),
    "async in a sync mode": (["swe.overlap=async", "trainer.v1.trainer_mode=sync"], "mode='sync': ", "separate_async"),
    "seeds in an async mode": (
        ["swe.overlap=async", "swe.policy.seed=1"],
        "swe.policy.seed=1: must be -1 with trainer.v1.trainer_mode=colocate_async",
        "",
    ),
    "unbounded staleness": (
        ["swe.overlap=async", "trainer.v1.sampler.max_off_policy_threshold=null"],
        "trainer.v1.sampler.max_off_policy_threshold=None: must be a number",
        "",
    ),
    "a dataset that cannot be foreseen": (
        ["swe.overlap=prewarm", "data.custom_cls.path=null"],
        "data.custom_cls.path=None: must be pkg://swe_plugin.verl_adapter.dataset",
        "or swe.overlap=off",
    ),
    # limits
    "command above rollout": (
        ["swe.scaffold.wall_clock_s=50", "swe.policy.call_timeout_s=9"],
        "swe.scaffold.command_timeout_s=60.0: must not exceed swe.scaffold.wall_clock_s=50",
        "",
    ),
    "call above rollout": (["swe.scaffold.wall_clock_s=600"], "swe.policy.call_timeout_s=1200.0: ", "wall_clock_s=600"),
    "window": (["data.max_response_length=900"], f"{ROLLOUT}.max_model_len=192: ", "64 + 900 = 964"),
    "answer above response": (["swe.policy.max_turn_tokens=500"], "swe.policy.max_turn_tokens=500: ", "length=128"),
    "row above micro batch": ([f"{ACTOR}.ppo_max_token_len_per_gpu=128"], "len_per_gpu=128: ", "64 + 128 = 192"),
    "no turns": (["swe.scaffold.max_turns=0"], "swe.scaffold.max_turns=0: ", "at least 1"),
    "no time": (["swe.scaffold.command_timeout_s=0"], "swe.scaffold.command_timeout_s=0.0: ", "greater than 0"),
    "disk above memory": (
        [SANDBOX, "swe.environment.disk_mib=500"],
        "swe.environment.disk_mib=500: ",
        "memory_mib=512",
    ),
    "option of the sandbox": ([SANDBOX, "+swe.environment.options.colour=1"], "options.colour=1: ", "mode, open_files"),
    # what is trained
    "sequence mean": (
        [f"{ACTOR}.loss_agg_mode=seq-mean-token-mean"],
        "loss_agg_mode='seq-mean-token-mean'",
        "token-sum",
    ),
    "estimator": (["algorithm.adv_estimator=rloo"], "algorithm.adv_estimator='rloo': ", "gae, grpo"),
    "one per group": ([f"{ROLLOUT}.n=1"], f"{ROLLOUT}.n=1: ", "every group is dropped"),
    "mini batch": (
        [f"{ACTOR}.ppo_mini_batch_size=3"],
        "ppo_mini_batch_size=3: ",
        "must divide data.train_batch_size=4",
    ),
    "manager": ([f"{ROLLOUT}.agent.agent_loop_manager_class=null"], "agent_loop_manager_class=None: ", "recipe"),
    "verl's own": ([f"{ACTOR}.use_dynamic_bsz=false"], "verl's settings='refused by verl': ", "micro_batch_size"),
    # this machine
    "GPUs": (["swe_device=gpu"], "trainer.n_gpus_per_node=8: this machine has ", "swe_device=cpu"),
    "machines": (["swe_device=gpu", "trainer.nnodes=4"], "trainer.nnodes=4: ", "ray_kwargs.ray_init.address=auto"),
    "memory of one": (
        ["swe.environment.memory_mib=99000000"],
        "swe.environment.memory_mib=99000000: ",
        "this machine's",
    ),
    "memory of the run": (
        ["ray_kwargs.ray_init.runtime_env.env_vars.VLLM_CPU_KVCACHE_SPACE=9000"],
        "VLLM_CPU_KVCACHE_SPACE=9000: ",
        "a run needs 9004 GiB",
    ),
    "disk": ([f"{MODEL}=@/huge", "trainer.save_freq=1"], "swe.output.dir=", "24577.0 are needed for one checkpoint"),
    "descriptors": (
        ["swe.slots.running=9000000", "data.train_batch_size=4000000", f"{ACTOR}.ppo_mini_batch_size=4"],
        "ulimit -n=",
        "environments at once: raise the hard limit",
    ),
    "port": (
        ["+ray_kwargs.ray_init.dashboard_port=PORT", "ray_kwargs.ray_init.include_dashboard=true"],
        "ray_kwargs.ray_init.dashboard_port=",
        "Address already in use; name another one",
    ),
    "no permission": (
        ["swe.output.dir=/proc/outputs"],
        "swe.output.dir='/proc/outputs': cannot write there: /proc: ",
        "",
    ),
    "file in the way": (["swe.output.dir=@/file/outputs"], "file/outputs': cannot write there: ", "is not a directory"),
    # data
    "no data": (["data.train_files=null"], "data.train_files=None: ", "parquet"),
    "file missing": (["data.val_files=@/nowhere.parquet"], "nowhere.parquet': no such file", "docs/recipes.md"),
    "no parquet": (["data.train_files=@/not.parquet"], "data.train_files='", "is no parquet file"),
    "unknown kind of file": (["data.train_files=[@/tasks.parquet,@/tasks.csv]"], "tasks.csv': ", ".jsonl file"),
    "half a line": (["data.train_files=@/half.jsonl"], "data.train_files='", "is no JSON"),
    "column missing": (["data.train_files=@/columns.parquet"], "has no column 'task', only prompt, patch", ""),
    "row is no task": (["data.train_files=@/third_is_no_task.parquet"], "row 3, column task.instance_id: ", "missing"),
    "prompt is text": (["data.train_files=@/flat_prompt.parquet"], "row 1, column prompt: ", "list of messages"),
    "log parser": (["data.train_files=@/parser.parquet"], "row 2, column task: grading.parser='tap'", "status_lines"),
    "image missing": (
        [SANDBOX, "data.train_files=@/no_rootfs.parquet"],
        "row 2, ",
        "'rootfs:/nowhere/at/all': /nowhere/at/all does not exist; wanted: a directory",
    ),
    "image of another kind": (
        [SANDBOX, "data.train_files=@/docker.parquet", "data.train_batch_size=1"],
        "row 1, ",
        "'vm:python:3.12': unknown kind",
    ),
    "too few tasks": (["data.train_batch_size=32"], "data.train_batch_size=32: ", "4 rows of data.train_files"),
    # model
    "model missing": ([f"{MODEL}=/no/such/model"], f"{MODEL}='/no/such/model': no such directory", "Hugging Face"),
    "model not named": ([f"{MODEL}=null"], f"{MODEL}=None: ", "name a directory"),
    "model empty": ([f"{MODEL}=@/headless"], f"{MODEL}='", "no config.json"),
    "weights missing": ([f"{MODEL}=@/weightless"], f"{MODEL}='", "no weights (*.safetensors)"),
    "tokenizer missing": (["actor_rollout_ref.model.tokenizer_path=@/empty"], "tokenizer_path='", "cannot be loaded"),
    "window of the model": (
        ["data.max_response_length=5000", f"{ROLLOUT}.max_model_len=5096"],
        f"{ROLLOUT}.max_model_len=5096: ",
        "the model's 2048 positions",
    ),
    "no chat template": ([f"{MODEL}=@/untemplated"], "swe.policy.chat_template='': ", "has no chat template: give"),
    "template file missing": (["swe.policy.chat_template=/no.jinja"], "swe.policy.chat_template='/no.jinja': ", "read"),
    "template not append-only": (
        ["swe.policy.chat_template=@/history.jinja"],
        "swe.policy.chat_template=",
        "turn by turn",
    ),
    "renderer": (["swe.policy.renderer=chat_templat"], "swe.policy.renderer='chat_templat': ", "mean 'chat_template'"),
    "template without tools": (["swe.scaffold.action=tools"], "swe.scaffold.action='tools': ", "action=fenced"),
}


def failing(config):
    return [finding.line for finding in findings(config) if not finding.ok]


def test_the_configuration_that_the_mistakes_start_from_works(command_line):
    assert failing(composed(*command_line())) == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(command_line, tmp_path, capsys, mistake):
    words, line, fix = MISTAKES[mistake]
    config = composed(*command_line(*words))
    with pytest.raises(SystemExit) as refusal:
        callback.SweCallback().on_run_start(config)
    assert refusal.value.code == callback.EXIT_BAD_CONFIGURATION
    error = capsys.readouterr().err
    assert error.startswith("swe-plugin: ")
    assert error.count("\n") == 1
    assert line in error
    assert fix in error
    assert not (tmp_path / "outputs").exists()
    assert error.removeprefix("swe-plugin: ").strip() in failing(config)


@pytest.mark.parametrize("mistake", ["scaffold", "window", "column missing", "no chat template", "port"])
def test_verls_own_command_ends_with_the_line_before_ray(command_line, tmp_path, mistake):
    words, line, fix = MISTAKES[mistake]
    done = main_ppo(*command_line(*words), cwd=tmp_path, env={"SWE_PLUGIN_HOME": str(tmp_path / "home")})
    assert done.returncode == callback.EXIT_BAD_CONFIGURATION
    assert line in done.stderr
    assert fix in done.stderr
    assert "ray init kwargs" not in done.stdout  # what verl prints before it starts Ray
    assert not (tmp_path / "outputs").exists()


def test_doctor_says_every_mistake_at_once(command_line):
    config = composed(*command_line("swe.scaffold.name=bsh", "data.max_response_length=900", f"{MODEL}=/no/such"))
    lines = "\n".join(failing(config))
    assert all(key in lines for key in ("swe.scaffold.name='bsh'", "max_model_len=192", f"{MODEL}='/no/such'"))
