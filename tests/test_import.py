"""`import swe_plugin` stays light: no trainer, no engine, no daemon client."""

import subprocess
import sys

HEAVY = {"verl", "ray", "torch", "tensordict", "transformers", "vllm", "docker", "litellm", "hydra"}


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return set(output.split())


def test_the_package_imports_nothing_heavy():
    assert not HEAVY & loaded_by("import swe_plugin")


def test_the_core_imports_nothing_heavy():
    rooms = "environments, policies, tokens, scaffolds, grading, rollout, trajectories, data, plugins, config"
    assert not HEAVY & loaded_by(f"from swe_plugin import {rooms}")
