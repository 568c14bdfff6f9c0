"""The bootstrap: nothing in other people's processes, all or nothing in ours."""

import os
import subprocess
import sys

import pytest

from swe_plugin.verl_adapter import bootstrap, cpu, searchpath

VANILLA = {key: value for key, value in os.environ.items() if key != bootstrap.DEVICE_VARIABLE}


def python(code, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=VANILLA | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "ours"),
    [
        (["+plugin=swe"], True),
        (["trainer.device=cpu", "++plugin=swe/demo_ppo"], True),
        (["plugin=swe"], True),
        (["+plugin=swerve"], False),
        (["+plugin=other"], False),
        (["data.plugin=swe"], False),
        ([], False),
    ],
)
def test_command_line_that_asks_for_us(arguments, ours):
    assert bootstrap.asks_for_us(arguments) is ours


def test_drivers_are_told_from_workers(monkeypatch):
    monkeypatch.delitem(sys.modules, "hydra", raising=False)
    assert bootstrap.is_driver(["python", "-m", "verl.trainer.main_ppo"])
    assert bootstrap.is_driver(["python", "train.py", "+plugin=swe"])
    assert not bootstrap.is_driver(["python", "-m", "pytest"])
    assert not bootstrap.is_driver(["python", "default_worker.py", "--node-ip=1.2.3.4"])


@pytest.mark.parametrize("entry", ["bootstrap", "vllm_cpu"])
def test_other_peoples_processes_load_no_more_than_the_entry_point(entry):
    done = python(
        f"import sys, swe_plugin.verl_adapter.{entry} as entry\n"
        "getattr(entry, 'register', lambda: None)()\n"
        "heavy = ('hydra', 'omegaconf', 'torch', 'verl', 'vllm', 'psutil')\n"
        "print(*[m for m in sys.modules if m.split('.')[0] in heavy])\n"
        "print(*sorted(m for m in sys.modules if m.startswith('swe_plugin.')))\n"
        "print([type(f) for f in sys.meta_path if type(f).__module__.startswith('swe_plugin')])"
    )
    heavy, ours, finders = done.stdout.splitlines()
    assert heavy == ""
    assert set(ours.split()) <= {
        "swe_plugin.verl_adapter",
        "swe_plugin.verl_adapter.bootstrap",
        "swe_plugin.verl_adapter.vllm_cpu",
    }
    assert finders == "[]"


def broken(*_):
    raise FileNotFoundError("no recipes")


def test_broken_and_asked_for_ends_the_process_with_the_reason(monkeypatch):
    monkeypatch.setattr(searchpath, "register", broken)
    monkeypatch.setattr(bootstrap, "is_driver", lambda _: True)
    with pytest.raises(SystemExit, match="FileNotFoundError: no recipes"):
        bootstrap.load(["+plugin=swe"])


def test_broken_and_not_asked_for_is_an_exception_that_verl_ignores(monkeypatch):
    monkeypatch.delenv(bootstrap.DEVICE_VARIABLE, raising=False)
    monkeypatch.setattr(searchpath, "register", broken)
    monkeypatch.setattr(bootstrap, "is_driver", lambda _: True)
    with pytest.raises(FileNotFoundError):
        bootstrap.load(["trainer.device=cuda"])


def test_worker_of_our_run_that_cannot_be_made_ready_ends(monkeypatch):
    monkeypatch.setenv(bootstrap.DEVICE_VARIABLE, "cpu")
    monkeypatch.setattr(bootstrap, "is_driver", lambda _: False)
    monkeypatch.setattr(cpu, "activate", broken)
    with pytest.raises(SystemExit, match="no recipes"):
        bootstrap.load([])


def test_installed_and_found_by_verl():
    from importlib.metadata import entry_points

    found = {group: [p.value for p in entry_points(group=group)] for group in ("verl.plugins", "vllm.general_plugins")}
    assert "swe_plugin.verl_adapter.bootstrap" in found["verl.plugins"]
    assert "swe_plugin.verl_adapter.vllm_cpu:register" in found["vllm.general_plugins"]


@pytest.mark.slow
def test_real_verl_in_a_worker_of_our_run_computes_on_the_cpu():
    done = python(
        "import verl, torch, importlib.metadata as metadata\n"
        "from verl.utils.device import get_device_id, get_device_name, get_torch_device\n"
        "from verl.utils.distributed import initialize_global_process_group_ray as group\n"
        "print(get_device_name(), torch.ones(1).to(get_device_id()).device, f'{get_device_id()}')\n"
        "print(metadata.version('vllm'), group.keywords, get_torch_device().max_memory_allocated() > 0)\n"
        "print(verl.utils.torch_functional.logprobs_from_logits_v2.__module__)",
        **{bootstrap.DEVICE_VARIABLE: "cpu"},
    )
    assert done.returncode == 0, done.stderr
    device, distribution, patched = done.stdout.splitlines()
    assert device == "cpu cpu 0"
    assert distribution.endswith("+cpu {'backend': 'cpu:gloo'} True")
    assert patched == "swe_plugin.verl_adapter.cpu.patches"
