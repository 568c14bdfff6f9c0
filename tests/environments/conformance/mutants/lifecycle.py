"""Faults of start, stop and death."""

import asyncio
import shutil
import tempfile
import time
from pathlib import Path

from swe_plugin.errors import EnvironmentUnavailable
from swe_plugin.types import ExecResult

from .table import Bubblewrap, found_by


@found_by("an_environment_is_alive_from_start_to_stop", "nothing_works_after_a_stop")
class StopsNothing(Bubblewrap):
    async def stop(self):
        pass


@found_by("an_environment_is_started_once")
class StartsTwice(Bubblewrap):
    async def start(self):
        self._used = False
        await super().start()


@found_by("stop_is_idempotent_and_safe_before_a_start")
class StopsOnce(Bubblewrap):
    async def remove(self):
        await asyncio.sleep(0.01)
        shutil.rmtree(self.root)


@found_by("a_start_that_takes_too_long_fails")
class TakesItsTime(Bubblewrap):
    async def start(self):
        self._used = True
        await self._launch()


@found_by("environments_share_no_files", "many_environments_at_once")
class SharesADirectory(Bubblewrap):
    async def launch(self):
        self.root = f"{tempfile.gettempdir()}/swe-example-shared"
        Path(self.root).mkdir(exist_ok=True)


@found_by("the_repository_is_clean_and_has_one_commit")
class CommitsNothing(Bubblewrap):
    async def _launch(self):
        await super()._launch()
        await self.exec(["git", "update-ref", "-d", "HEAD"])


@found_by("files_of_the_image_are_written_as_they_are")
class KnowsOneDirectory(Bubblewrap):
    async def exec(self, argv, *, cwd=None, **options):
        return await super().exec(argv, cwd=cwd or "/testbed", **options)


@found_by("an_unusable_image_fails_the_start")
class TakesAnyImage(Bubblewrap):
    async def launch(self):
        self.root = tempfile.mkdtemp()


@found_by("many_environments_at_once")
class BlocksTheLoop(Bubblewrap):
    async def launch(self):
        await super().launch()
        time.sleep(0.7)


@found_by("a_dead_environment_is_unavailable")
class DeathIsAResult(Bubblewrap):
    async def exec(self, argv, **options):
        try:
            return await super().exec(argv, **options)
        except EnvironmentUnavailable:
            if self._live:
                return ExecResult("", exit_code=255)
            raise


@found_by("a_running_command_of_a_dying_environment_raises_at_once[exec]")
class WaitsForTheDead(Bubblewrap):
    async def is_running(self):
        return Path(self.root).is_dir() or bool(self._commands)


@found_by("a_dead_environment_can_be_stopped")
class CannotStopTheDead(Bubblewrap):
    async def remove(self):
        shutil.rmtree(self.root)
