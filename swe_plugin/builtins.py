"""Our own backends, scaffolds and graders, registered through the same hooks as anyone's."""

from __future__ import annotations

from swe_plugin.hookspecs import Register, hookimpl


@hookimpl
def swe_register_environments(register: Register) -> None:
    """Backends of this package."""
    register("sandbox", "swe_plugin.environments.sandbox:SandboxEnvironment", summary="Linux namespaces, no daemon")
    register("docker", "swe_plugin.environments.docker:DockerEnvironment", summary="containers of a Docker daemon")
    register("dummy", "swe_plugin.environments.dummy:DummyEnvironment", summary="in memory, for tests")
    register("faulty", "swe_plugin.testing.environment:FaultyEnvironment", summary="any backend, with injected faults")


@hookimpl
def swe_register_scaffolds(register: Register) -> None:
    """Agents of this package."""
    register("bash", "swe_plugin.scaffolds.bash:BashScaffold", summary="multi-turn shell agent")
    register(
        "command", "swe_plugin.scaffolds.command:CommandScaffold", summary="any agent that speaks OpenAI's protocol"
    )
    register("mini_swe_agent", "swe_plugin.scaffolds.mini:MiniSweAgentScaffold", summary="mini-swe-agent, unmodified")
    register("swe_agent", "swe_plugin.scaffolds.swe_agent:SweAgentScaffold", summary="configured as for SWE-agent")
    register("gold", "swe_plugin.scaffolds.gold:GoldScaffold", summary="applies the reference fix: must be resolved")
    register("empty", "swe_plugin.scaffolds.empty:EmptyScaffold", summary="changes nothing: must not be resolved")


@hookimpl
def swe_register_graders(register: Register) -> None:
    """Graders of this package."""
    register("tests", "swe_plugin.grading.tests:TestsGrader", summary="hidden tests, resolved or not")


@hookimpl
def swe_register_datasets(register: Register) -> None:
    """Task sources of this package."""
    register("demo", "swe_plugin.data.demo:demo_tasks", summary="generated tasks of the embedded demo")
    for name, target, summary in _PUBLISHED:
        register(name, f"swe_plugin.data.sources.{target}", summary=summary)


@hookimpl
def swe_register_renderers(register: Register) -> None:
    """Renderers of this package."""
    target = "swe_plugin.tokens.renderers.chat_template:ChatTemplateRenderer"
    register("chat_template", target, summary="the model's own chat template, never re-encoding what was sampled")


_PUBLISHED = (
    ("tasks", "tasks:Tasks", "rows in our own schema"),
    ("swe-bench", "swe_bench:SweBench", "SWE-bench, the full set"),
    ("swe-bench-lite", "swe_bench:SweBenchLite", "300 rows of SWE-bench"),
    ("swe-bench-verified", "swe_bench:SweBenchVerified", "500 rows of SWE-bench that people checked"),
    ("swe-bench-multilingual", "swe_bench:SweBenchMultilingual", "SWE-bench in nine languages"),
    ("swe-smith", "swe_smith:SweSmith", "synthetic bugs, as branches of mirrors"),
    ("swe-gym", "swe_gym:SweGym", "SWE-bench's columns, 11 other repositories"),
    ("swe-rebench", "swe_rebench:SweRebench", "mined continuously, with commands per row"),
    ("r2e-gym", "r2e_gym:R2EGym", "commits, with the expected status of each test"),
)
