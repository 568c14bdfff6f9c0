"""Faults of isolation and of limits."""

import os
from pathlib import Path

from swe_plugin_example.environment import KERNEL

from swe_plugin.environments.process import run_process

from .table import Bubblewrap, Sandbox, found_by, replaced


@found_by("variables_are_those_of_the_spec_and_no_others", "a_secret_of_the_caller_is_nowhere")
class PassesVariablesOn(Bubblewrap):
    async def exec(self, argv, *, env=None, **options):
        return await super().exec(argv, env={**os.environ, **self.spec.env, **(env or {})}, **options)


@found_by("a_secret_of_the_caller_is_nowhere")
class RunsWithOurVariables(Bubblewrap):
    """The command has not got them, but what started it has, and /proc shows it."""

    async def run(self, argv, *, timeout_s, stdin):
        words = ["env", *(f"{key}={value}" for key, value in os.environ.items()), *self.command(argv)]
        return await run_process(words, timeout_s=timeout_s, stdin=stdin)


@found_by("settings_of_the_kernel_cannot_be_changed")
class LeavesTheKernelOpen(Bubblewrap):
    def command(self, argv):
        words = super().command(argv)
        for path in KERNEL.split():
            place = words.index(path) - 1
            del words[place : place + 3]
        return words


@found_by("without_network_there_is_only_a_loopback")
class KeepsTheNetwork(Bubblewrap):
    def command(self, argv):
        words = super().command(argv)
        return [*words[:2], "--share-net", *words[2:]]


@found_by("files_of_this_machine_are_not_there")
class ShowsTheMachine(Bubblewrap):
    def command(self, argv):
        words = super().command(argv)
        seen = str(Path(__file__).parents[3])
        place = words.index("--proc")
        return [*words[:place], "--ro-bind", seen, seen, "--ro-bind", "/tmp", "/tmp", *words[place:]]


@found_by("descriptors_are_the_three_and_no_others")
class LeavesDescriptorsOpen(Bubblewrap):
    def command(self, argv):
        return ["bash", "-c", 'exec 7< /etc/hostname; exec "$@"', "bash", *super().command(argv)]


@found_by("memory_above_the_limit_ends_the_command")
class KeepsNoMemoryLimit(Sandbox):
    def __init__(self, spec):
        super().__init__(replaced(spec, limits=replaced(spec.limits, memory_mib=2048)))


@found_by("processes_above_the_limit_cannot_be_made")
class KeepsNoPidsLimit(Sandbox):
    def __init__(self, spec):
        super().__init__(replaced(spec, limits=replaced(spec.limits, pids=4096)))


@found_by("the_disk_is_bounded")
class KeepsNoDiskLimit(Sandbox):
    def __init__(self, spec):
        super().__init__(replaced(spec, limits=replaced(spec.limits, disk_mib=128)))


@found_by("output_is_bounded_as_told")
class KeepsNoOutputLimit(Sandbox):
    def __init__(self, spec):
        super().__init__(replaced(spec, limits=replaced(spec.limits, output_bytes=1 << 20)))
