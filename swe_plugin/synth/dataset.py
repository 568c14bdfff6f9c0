"""`make_dataset`: tasks of any number of projects, in one file that training reads."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from swe_plugin.data.ledger import Ledger
from swe_plugin.data.training_file import TrainingFile
from swe_plugin.environments import EnvironmentPool, EnvironmentSpec, Slots, build_environment_factory, spec_for
from swe_plugin.policies.litellm_policy import LitellmPolicy
from swe_plugin.synth import run
from swe_plugin.synth.origin import read_project
from swe_plugin.synth.report import ProjectReport
from swe_plugin.synth.requirements import merged_requirements
from swe_plugin.synth.statement import ModelWriter, TemplateWriter, Writer
from swe_plugin.synth.suite import Suite, suite_command
from swe_plugin.types import Image

if TYPE_CHECKING:
    from swe_plugin.config import EnvironmentConfig, SweConfig
    from swe_plugin.environments import EnvironmentFactory
    from swe_plugin.plugins import Plugins
    from swe_plugin.synth.project import Project
    from swe_plugin.synth.settings import SynthSettings

__all__ = ["Ingredients", "Watcher", "make_dataset"]

_MODEL = "litellm:"
_BASE, _PYTHON = "host", "python3"
_BUILD_S = 1800.0


class Watcher(run.Watcher, Protocol):
    """Sees the work. All methods return at once."""

    def begin(self, source: str) -> None:
        """The next source."""


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What tasks are made of.

    Attributes:
        sources: see `origin.read_project`.
        requirements: lines that the tests need beside what the projects say.
        image: base with Python, pytest and what the projects need; empty: this machine's tools, and what they need.
        as_of: requirements are resolved as on this day (``YYYY-MM-DD``); empty: today.
        jobs: bugs at once.
    """

    sources: Sequence[str]
    requirements: Sequence[str] = ()
    image: str = ""
    as_of: str = ""
    jobs: int = 1


async def make_dataset(
    ingredients: Ingredients,
    settings: SynthSettings,
    out: Path,
    config: SweConfig,
    plugins: Plugins,
    watcher: Watcher,
    *,
    factory: EnvironmentFactory | None = None,
) -> list[ProjectReport]:
    """Write ``tasks.parquet`` and ``report.json``; ``tried.jsonl`` remembers what is done.

    Args:
        ingredients: what of.
        settings: how.
        out: directory, made if it is not there.
        config: backend and limits of environments, and of the model that writes statements.
        plugins: where the backend is registered.
        watcher: told of everything.
        factory: makes environments instead of the configured backend (tests, wrappers).

    Raises:
        ConfigError: a setting is wrong, or a source cannot be used; nothing is written.
        InfrastructureError: nothing works, several times in a row.
        asyncio.CancelledError: the caller was cancelled; no environment is left.
    """
    settings.check()
    slots = Slots(config.slots.start, config.slots.running, max(config.slots.grading, ingredients.jobs))
    pool = EnvironmentPool(factory or build_environment_factory(config.environment, plugins), slots)
    write = _writers(settings, config)
    reports: list[ProjectReport] = []
    with Ledger(out / "tried.jsonl", "--out") as ledger:
        for source in ingredients.sources:
            watcher.begin(source)
            suite = await _suite(source, ingredients, settings, config.environment, pool, watcher)
            writer = write(suite.project)
            report = await run.synthesize(suite, settings, writer, ledger, watcher, jobs=ingredients.jobs)
            reports.append(report)
        with TrainingFile(out / "tasks.parquet", "synth") as file:
            for report in reports:
                for task in report.tasks:
                    file.add(task)
        text = json.dumps([report.to_json() for report in reports], indent=1)
        (out / "report.json").write_text(text, encoding="utf-8")
    return reports


async def _suite(
    source: str,
    ingredients: Ingredients,
    settings: SynthSettings,
    config: EnvironmentConfig,
    pool: EnvironmentPool,
    watcher: Watcher,
) -> Suite:
    watcher.doing(f"{source}: reading")
    project = await asyncio.to_thread(read_project, source)
    needed = () if ingredients.image else ("pytest", *project.requirements)
    requirements = merged_requirements(needed, ingredients.requirements, project.name)
    image = Image(
        base=ingredients.image or _BASE,
        files=project.files,
        python=_PYTHON if requirements else "",
        requirements=requirements,
        as_of=ingredients.as_of if requirements else "",
    )

    def spec(image: Image, label: str) -> EnvironmentSpec:
        return spec_for(image, config, label=label)

    suite = Suite(project, image, suite_command(project, settings.arguments), pool, spec)
    watcher.doing(f"{project.name}: image {image.base} with {', '.join(requirements) or 'nothing more'}")
    await suite.check_image(_BUILD_S)
    return suite


def _writers(settings: SynthSettings, config: SweConfig) -> Callable[[Project], Writer]:
    """Makes the writer of a project; what is wrong with a model is said before anything runs."""
    if not settings.statements.startswith(_MODEL):
        return lambda project: TemplateWriter(settings.hint, _visible_command(project))
    make = partial(LitellmPolicy, settings.statements.removeprefix(_MODEL), config.policy, {})
    make()
    return lambda project: ModelWriter(make, settings.hint)


def _visible_command(project: Project) -> str:
    """How a person would run the tests."""
    paths = () if project.root == "." else ("-o", f"pythonpath={project.root}")
    return shlex.join(["python3", "-m", "pytest", *paths, *project.test_paths])
