"""Our own backends, scaffolds and graders, registered through the same hooks as anyone's."""

from __future__ import annotations

from swe_plugin.hookspecs import Register, hookimpl


@hookimpl
def swe_register_environments(register: Register) -> None:
    """Backends of this package."""
    register("sandbox", "swe_plugin.environments.sandbox:SandboxEnvironment", summary="Linux namespaces, no daemon")
    register("dummy", "swe_plugin.environments.dummy:DummyEnvironment", summary="in memory, for tests")


@hookimpl
def swe_register_scaffolds(register: Register) -> None:
    """Agents of this package."""
    register("bash", "swe_plugin.scaffolds.bash:BashScaffold", summary="multi-turn shell agent")
    register("gold", "swe_plugin.scaffolds.gold:GoldScaffold", summary="applies the reference fix: must be resolved")
    register("empty", "swe_plugin.scaffolds.empty:EmptyScaffold", summary="changes nothing: must not be resolved")


@hookimpl
def swe_register_graders(register: Register) -> None:
    """Graders of this package."""
    register("tests", "swe_plugin.grading.tests:TestsGrader", summary="hidden tests, resolved or not")


@hookimpl
def swe_register_renderers(register: Register) -> None:
    """Renderers of this package."""
    target = "swe_plugin.tokens.renderers.chat_template:ChatTemplateRenderer"
    register("chat_template", target, summary="any Hugging Face template that only appends")


@hookimpl
def swe_register_datasets(register: Register) -> None:
    """Task sources of this package."""
    register("demo", "swe_plugin.data.demo:demo_tasks", summary="generated tasks of the embedded demo")
