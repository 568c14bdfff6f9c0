"""Faults of the persistent shell."""

import shlex

from swe_plugin.errors import EnvironmentUnavailable

from .table import Bubblewrap, Sandbox, found_by, replaced


@found_by("directory_variables_functions_and_options_survive")
class Forgets(Bubblewrap):
    async def shell(self, script, **options):
        return await self.exec(["bash", "-c", f"exec 2>&1\n{script}"], **options)


@found_by("time_outs_never_shift_answers")
class AnswersLate(Bubblewrap):
    late = None

    async def shell(self, script, **options):
        result = await super().shell(script, **options)
        stale, self.late = self.late, result if result.timed_out else None
        return stale or result


@found_by("broken_syntax_fails_fast_and_leaves_the_shell_usable")
class WaitsForTheEndOfScripts(Bubblewrap):
    """Feeds an interactive shell and reads until a marker comes back, which an open quote or heredoc swallows."""

    async def shell(self, script, **options):
        marked = f"exec 2>&1; . /dev/stdin <<'END'\n{script}\necho done-marker\nEND\n"
        result = await self.exec(["bash", "-c", marked], **options)
        if "done-marker" not in result.stdout:
            return replaced(result, timed_out=True, exit_code=-1)
        return replaced(result, stdout=result.stdout.replace("done-marker\n", ""))


@found_by("a_script_that_shows_how_it_is_run_forges_nothing")
class TrustsAMarker(Sandbox):
    """Finds the exit code behind a marker in the output, as the script can print it too."""

    async def shell(self, script, **options):
        marker = "__exit_code_7f3a__"
        result = await super().shell(f"__marker={marker}\n{script}\necho {marker}=$?", **options)
        text, _, code = result.stdout.partition(f"{marker}")
        code = code.lstrip("=").split("\n")[0]
        return replaced(result, stdout=text, exit_code=int(code) if code.isdigit() else 0)


@found_by("ending_the_shell_costs_its_variables_and_nothing_else")
class DiesWithItsShell(Sandbox):
    async def shell(self, script, **options):
        if script.startswith("exit"):
            raise EnvironmentUnavailable("the shell has ended")
        return await super().shell(script, **options)


@found_by("ending_the_shell_costs_its_variables_and_nothing_else")
class StartsShellsAtTheTop(Sandbox):
    async def shell(self, script, **options):
        result = await super().shell(script, **options)
        if script.startswith(("exit", "exec", "kill -9 $$", "set -e")):
            await super().shell(f"cd {self.spec.image.workdir}")
        return result


@found_by("background_jobs_do_not_hold_the_answer_back_and_live_on")
class EndsJobs(Sandbox):
    async def shell(self, script, **options):
        result = await super().shell(script, **options)
        await super().shell("kill -9 $(jobs -p) 2> /dev/null")
        return result


@found_by("a_long_script_arrives_whole")
class PassesScriptsAsArguments(Bubblewrap):
    async def shell(self, script, **options):
        return await self.exec(["bash", "-c", script], **options)


@found_by("exec_shares_no_state_with_the_shell")
class RunsCommandsInTheShell(Sandbox):
    async def exec(self, argv, **options):
        return await self.shell(shlex.join(argv), timeout_s=options.get("timeout_s", 60.0))
