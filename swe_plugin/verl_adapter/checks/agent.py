"""The parts of a rollout: plugins, backend, scaffold with its prompts, grader, renderer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from swe_plugin.grading.rewards import Rewards
from swe_plugin.plugins import load_plugins
from swe_plugin.preflight.finding import Finding
from swe_plugin.verl_adapter.checks.settings import Settings

__all__ = ["check_agent"]


def check_agent(s: Settings) -> Iterator[Finding]:
    """What is named is registered, can be imported, and takes its settings."""
    plugins = load_plugins()
    section = s.swe
    backend, scaffold, grader = section.environment.backend, section.scaffold.name, section.grading.grader

    def load(kind: str, name: str, key: str) -> Callable[[], object]:
        return lambda: plugins.load(kind, name, key)

    yield Finding.attempt("plugins", lambda: plugins.require(section.plugins))
    yield Finding.attempt("backend", load("environments", backend, "swe.environment.backend"), f"backend {backend}")
    yield Finding.attempt(
        "scaffold",
        lambda: plugins.load("scaffolds", scaffold, "swe.scaffold.name")(section.scaffold),
        f"scaffold {scaffold}",
    )
    yield Finding.attempt(
        "grader",
        lambda: Rewards(
            section.grading.rewards, plugins.load("graders", grader, "swe.grading.grader")(section.grading)
        ),
        f"grader {grader}, rewards {', '.join(section.grading.rewards)}",
    )
    renderer = section.policy.renderer
    yield Finding.attempt("renderer", load("renderers", renderer, "swe.policy.renderer"), f"renderer {renderer}")
