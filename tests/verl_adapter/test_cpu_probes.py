"""Each thing we do for the CPU is still needed. A failure means that verl or vLLM has learnt it and ours can go."""

import importlib
import inspect
import sys
from importlib.metadata import version
from types import ModuleType

import pytest
import torch

from swe_plugin.verl_adapter import vllm_cpu
from swe_plugin.verl_adapter.cpu import device, distribution, imports
from swe_plugin.verl_adapter.cpu.patch import Patch, package_source
from swe_plugin.verl_adapter.cpu.patches import PATCHES


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.module)
def test_verl_still_has_the_line_that_a_patch_answers(patch):
    assert patch.needed(), f"{patch.module} has changed; without our patch: {patch.why}"


def test_a_probe_notices_that_a_line_is_gone():
    patch = Patch(module="verl.utils.distributed", line="a line that is not there", why="", apply=lambda _: None)
    assert not patch.needed()


@pytest.mark.parametrize(
    ("module", "line"),
    [
        # platform: verl brings none for the CPU, counts GPUs and NPUs only, and registers FSDP for these
        (
            "verl.single_controller.ray.base",
            'node_info.get("GPU", 0) if "GPU" in node_info else node_info.get("NPU", 0)',
        ),
        ("verl.workers.rollout.vllm_rollout.vllm_async_server", "get_accelerator_ids()[get_resource_name()][0]"),
        ("verl.workers.engine.fsdp.transformer_impl", 'backend=["fsdp", "fsdp2"], device=["cuda", "npu"]'),
        ("verl.workers.engine.base", 'device = os.getenv("VERL_ENGINE_DEVICE")'),
        # distribution: asked for by name
        ("verl.workers.rollout.vllm_rollout", 'vllm_package_name = "vllm"'),
        ("verl.third_party.vllm", 'package_name = "vllm"'),
        # vLLM packs linear layers and throws the weight away
        ("vllm.model_executor.layers.linear", "dispatch_cpu_unquantized_gemm(layer, remove_weight=True)"),
        # and turns "uni" into "mp" unless VLLM_ENABLE_V1_MULTIPROCESSING=0 (recipes/swe_device/cpu.yaml)
        ("vllm.platforms.cpu", 'parallel_config.distributed_executor_backend = "mp"'),
    ],
)
def test_the_reason_for_what_is_registered_or_set_still_holds(module, line):
    assert line in package_source(module)


def test_verl_has_no_cpu_platform_of_its_own():
    from verl.plugin.platform import platform_manager

    assert '"cpu"' not in inspect.getsource(platform_manager)


def test_metadata_of_vllm_comes_from_the_cpu_build():
    if distribution.needed():
        distribution.install()
    assert version("vllm") == f"{version('vllm-cpu')}+cpu"


def test_the_index_of_the_cpu_works_as_an_index_and_as_a_device():
    index = device.CpuIndex()
    assert torch.ones(1).to(index).device.type == "cpu"
    assert torch.empty(1, device=index).device.type == "cpu"
    assert torch.device(f"cpu:{index}") == torch.device("cpu", 0)
    assert [10][index] == 10


def test_one_logsumexp_gives_verls_log_probabilities_and_gradients():
    from verl.utils import torch_functional

    ours = ModuleType("ours")
    PATCHES[-1].apply(ours)
    logits, labels = torch.randn(3, 5, 11), torch.randint(0, 11, (3, 5))
    results = []
    for function in (inspect.unwrap(torch_functional.logprobs_from_logits_v2), ours.logprobs_from_logits_v2):
        leaf = logits.clone().requires_grad_()
        value = function(leaf, labels)
        value.sum().backward()
        results.append((value.detach(), leaf.grad))
    torch.testing.assert_close(*[value for value, _ in results])
    torch.testing.assert_close(*[gradient for _, gradient in results])


def test_a_module_is_patched_when_it_is_imported_and_not_before(tmp_path, monkeypatch):
    (tmp_path / "patched_later.py").write_text("answer = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    imports.when_imported("patched_later", lambda module: (seen.append(module.answer), setattr(module, "answer", 2)))
    assert not seen
    assert importlib.import_module("patched_later").answer == 2
    imports.when_imported("patched_later", lambda module: seen.append(module.answer))
    assert seen == [1, 2]
    del sys.modules["patched_later"]


def test_vllm_layers_keep_their_weight_only_in_our_runs(monkeypatch):
    waiting = []
    monkeypatch.setattr(imports, "when_imported", lambda name, _: waiting.append(name))
    monkeypatch.delenv("SWE_PLUGIN_DEVICE", raising=False)
    vllm_cpu.register()
    monkeypatch.setenv("SWE_PLUGIN_DEVICE", "gpu")
    vllm_cpu.register()
    assert not waiting
    monkeypatch.setenv("SWE_PLUGIN_DEVICE", "cpu")
    vllm_cpu.register()
    assert waiting == ["vllm.model_executor.layers.utils"]


def test_new_weights_reach_a_layer_that_vllm_has_prepared():
    module = ModuleType("utils")
    module.dispatch_cpu_unquantized_gemm = lambda layer, remove_weight: setattr(layer, "packed", remove_weight)
    vllm_cpu._keep_weights(module)
    layer, inputs = torch.nn.Linear(4, 2, bias=False), torch.ones(4)
    module.dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
    with torch.no_grad():
        layer.weight.fill_(3.0)
    assert layer.cpu_linear(inputs, layer.weight, None).tolist() == [12.0, 12.0]
    convolution = torch.nn.Conv1d(1, 1, 3)
    module.dispatch_cpu_unquantized_gemm(convolution, remove_weight=True)
    assert convolution.packed is True
