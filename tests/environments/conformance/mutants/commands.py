"""Faults of `exec`."""

import asyncio
import shlex

from .table import Bubblewrap, Sandbox, found_by, replaced


@found_by("streams_are_kept_apart")
class MergesStreams(Bubblewrap):
    async def run(self, argv, **options):
        result = await super().run(argv, **options)
        return replaced(result, stdout=result.stdout + result.stderr)


@found_by("a_signal_is_128_plus_its_number")
class CutsExitCodes(Bubblewrap):
    async def run(self, argv, **options):
        result = await super().run(argv, **options)
        return result if result.timed_out else replaced(result, exit_code=result.exit_code & 127)


@found_by("arguments_arrive_as_they_are", "an_impossible_command_line_is_refused")
class JoinsArguments(Bubblewrap):
    join = False

    async def _launch(self):
        await super()._launch()
        self.join = True

    async def exec(self, argv, **options):
        words = ["bash", "-c", " ".join(argv) or "true"] if self.join else argv
        return await super().exec(words, **options)


@found_by("a_long_argument_arrives_whole")
class CutsArguments(Bubblewrap):
    async def exec(self, argv, **options):
        return await super().exec([word[:65536] for word in argv], **options)


@found_by("a_command_that_cannot_start_is_a_result")
class RaisesForMissingPrograms(Bubblewrap):
    async def exec(self, argv, **options):
        result = await super().exec(argv, **options)
        if result.exit_code == 127:
            raise FileNotFoundError(argv[0])
        return result


@found_by("the_directory_can_be_chosen")
class SplitsDirectories(Bubblewrap):
    async def exec(self, argv, *, cwd=None, **options):
        script = f"cd {cwd or self.spec.image.workdir}; exec {shlex.join(argv)}"
        return await super().exec(["bash", "-c", script], cwd="/", **options)


@found_by("variables_are_added_for_one_command")
class PrefersTheSpecsVariables(Bubblewrap):
    async def exec(self, argv, *, env=None, **options):
        return await super().exec(argv, env={**(env or {}), **self.spec.env}, **options)


@found_by("stdin_is_fed_and_closed")
class ReadsStdinAsText(Bubblewrap):
    async def run(self, argv, *, stdin, **options):
        return await super().run(argv, stdin=stdin.decode(errors="ignore").encode(), **options)


@found_by("output_and_exit_code[printf 'no newline'-no newline-0]")
class StripsOutput(Bubblewrap):
    async def run(self, argv, **options):
        result = await super().run(argv, **options)
        return replaced(result, stdout=result.stdout.strip() and result.stdout.strip() + "\n")


@found_by("huge_output_is_cut_in_the_middle")
class KeepsTheHeadOnly(Bubblewrap):
    async def run(self, argv, **options):
        result = await super().run(argv, **options)
        return replaced(result, stdout=result.stdout[: self.spec.limits.output_bytes // 2])


@found_by("huge_output_is_cut_in_the_middle")
class HidesTheCut(Bubblewrap):
    async def run(self, argv, **options):
        return replaced(await super().run(argv, **options), truncated=False)


@found_by("a_slow_command_times_out_as_a_result")
class RaisesTimeOuts(Bubblewrap):
    async def exec(self, argv, **options):
        result = await super().exec(argv, **options)
        if result.timed_out:
            raise TimeoutError
        return result


@found_by("a_time_out_ends_the_whole_tree_and_keeps_what_was_said")
class ForgetsWhatWasSaid(Bubblewrap):
    async def run(self, argv, **options):
        result = await super().run(argv, **options)
        return replaced(result, stdout="", stderr="") if result.timed_out else result


@found_by("a_time_out_ends_the_whole_tree_and_keeps_what_was_said", "a_time_out_keeps_output_and_ends_the_whole_tree")
class SparesOrphans(Sandbox):
    """Ends the child and not what it left in sessions of their own: GNU `timeout` inside, as some services do it."""

    async def exec(self, argv, *, timeout_s=60.0, **options):
        words = ["timeout", "--foreground", "-s", "KILL", f"{timeout_s}", *argv]
        result = await super().exec(words, timeout_s=timeout_s + 10, **options)
        late = result.exit_code == 137 and result.duration_s >= timeout_s
        return replaced(result, timed_out=late, exit_code=-1 if late else result.exit_code)

    async def shell(self, script, **options):
        return await self.exec(["bash", "-c", f"exec 2>&1\n{script}"], **options)


@found_by("a_cancelled_command_is_dead_when_the_cancellation_returns")
class LeavesCancelledCommands(Sandbox):
    async def exec(self, argv, **options):
        return await asyncio.shield(asyncio.ensure_future(super().exec(argv, **options)))


@found_by("commands_run_side_by_side", "a_shell_and_commands_run_side_by_side")
class OneAtATime(Bubblewrap):
    async def run(self, argv, **options):
        self.turn = getattr(self, "turn", None) or asyncio.Lock()
        async with self.turn:
            return await super().run(argv, **options)


@found_by("the_duration_is_the_command_s", "a_slow_script_times_out_as_a_result")
class TakesNoTime(Bubblewrap):
    async def run(self, argv, **options):
        return replaced(await super().run(argv, **options), duration_s=0.0)
