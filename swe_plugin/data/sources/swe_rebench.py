"""SWE-rebench. https://huggingface.co/datasets/nebius/SWE-rebench"""

from __future__ import annotations

from typing import ClassVar

from swe_plugin.data.sources.pytest_command import PYTEST, pytest_command, test_files
from swe_plugin.data.sources.row import Row
from swe_plugin.data.sources.swe_bench import SweBench
from swe_plugin.types import GradingSpec

__all__ = ["SweRebench"]


class SweRebench(SweBench):
    """SWE-bench's columns, an image in the row, and ``install_config`` with Python version and command."""

    hub: ClassVar[str] = "nebius/SWE-rebench"

    def metadata(self, row: Row) -> dict[str, str]:
        """Also the Python version, which stays the text that it is: 3.10 is not 3.1."""
        return super().metadata(row) | Row(row.mapping("install_config")).kept("python")

    def image(self, row: Row) -> str:
        """Docker reference: the row's own, else SWE-bench's rule under this dataset's name."""
        key = row.text("instance_id").lower().replace("__", "_1776_")
        return row.text("docker_image", "image_name") or (f"swerebench/sweb.eval.x86_64.{key}" if key else "")

    def grading(self, row: Row) -> GradingSpec:
        """The row's command over the files of its ids; FAIL_TO_FAIL and PASS_TO_FAIL decide nothing."""
        f2p, p2p = row.tests("FAIL_TO_PASS"), row.tests("PASS_TO_PASS")
        own = Row(row.mapping("install_config")).text("test_cmd")
        return GradingSpec(
            command=pytest_command(test_files((*f2p, *p2p)), pytest=own if own.startswith("pytest ") else PYTEST),
            parser="pytest",
            test_patch=row.text("test_patch"),
            fail_to_pass=f2p,
            pass_to_pass=p2p,
            timeout_s=1800.0,
        )
