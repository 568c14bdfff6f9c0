"""Faults of files and trees."""

import contextlib
import os
import shutil
import tarfile
from pathlib import Path

from swe_plugin.environments.process import run_process

from .table import Bubblewrap, found_by


@found_by("content_goes_in_and_out_unchanged")
class WritesText(Bubblewrap):
    async def write_file(self, path, content, *, mode=0o644):
        await super().write_file(path, content.replace(b"\r\n", b"\n"), mode=mode)


@found_by("a_shorter_file_replaces_a_longer_one")
class Overwrites(Bubblewrap):
    async def write_file(self, path, content, *, mode=0o644):
        with contextlib.suppress(FileNotFoundError):
            content += (await self.read_file(path))[len(content) :]
        await super().write_file(path, content, mode=mode)


@found_by("the_mode_is_kept")
class ForgetsModes(Bubblewrap):
    async def write_file(self, path, content, *, mode=0o644):
        await super().write_file(path, content)


@found_by("a_missing_file_is_missing", "nothing_works_after_a_stop")
class ReadsNothing(Bubblewrap):
    async def read_file(self, path):
        return (await run_process(["cat", f"{self.root}/{self._absolute(path)}"])).stdout.encode()


@found_by("any_file_name_is_taken_as_it_is")
class QuotesNothing(Bubblewrap):
    async def write_file(self, path, content, *, mode=0o644):
        script = f"mkdir -p $(dirname {path}); cat > {path}"
        await self.exec(["bash", "-c", script], stdin=content)


@found_by("relative_paths_count_from_the_work_directory")
class CountsFromTheTop(Bubblewrap):
    def _absolute(self, path):
        return path if path.startswith("/") else f"/{path}"


@found_by("links_of_the_agent_lead_to_no_file_of_this_machine")
class ReadsFromOutside(Bubblewrap):
    """The environment's directory is here, so why ask it? Because its links are the agent's."""

    async def read_file(self, path):
        return Path(self.root + self._absolute(path)).read_bytes()


@found_by("links_of_the_agent_lead_to_no_file_of_this_machine")
class UploadsFromOutside(Bubblewrap):
    async def upload(self, source, target):
        shutil.copy(source, self.root + self._absolute(target))


@found_by("a_download_refuses_links_that_lead_out", "special_files_and_special_bits_do_not_come_out")
class TrustsArchives(Bubblewrap):
    async def download(self, source, target):
        packed = Path(self.root, "out.tar")
        await self.exec(["tar", "-cf", "/out.tar", "-C", source, "."])
        with tarfile.open(packed) as archive:
            archive.extractall(target, filter="fully_trusted")


@found_by("modes_links_and_empty_directories_are_kept")
class FollowsLinks(Bubblewrap):
    async def upload(self, source, target):
        await super().upload(source, target)
        await self.exec(
            ["bash", "-c", 'cd "$1" && cp -RL . ../copy; cp -R --remove-destination ../copy/. .', "x", target]
        )


@found_by("uploads_into_a_directory_that_exists_add_to_it")
class ReplacesDirectories(Bubblewrap):
    async def upload(self, source, target):
        await self.exec(["rm", "-rf", target])
        await super().upload(source, target)


@found_by("many_files", "a_big_file")
class TakesSmallTrees(Bubblewrap):
    async def download(self, source, target):
        await super().download(source, target)
        for path in sorted(Path(target).rglob("*"))[1000:]:
            path.unlink(missing_ok=True) if path.is_file() else None
        if target.is_file():
            os.truncate(target, min(target.stat().st_size, 1 << 20))
