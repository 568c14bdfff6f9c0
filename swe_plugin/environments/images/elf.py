"""Which shared libraries binaries need, as this machine's loader resolves them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from swe_plugin.errors import EnvironmentStartError

__all__ = ["needed_libraries"]

_BATCH = 64
_LINE = re.compile(r"^\s+(?:(?P<name>\S+) => )?(?P<path>/\S+) \(0x[0-9a-f]+\)$")


def needed_libraries(binaries: Sequence[Path]) -> dict[str, Path]:
    """The closure of shared libraries and the loader.

    Args:
        binaries: ELF files of this machine; others are skipped.

    Returns:
        File name by which a library is asked for -> its path here. The loader is under its own name.

    Raises:
        EnvironmentStartError: no ``ldd`` here, or a library is missing.
    """
    ldd = shutil.which("ldd", path="/usr/bin:/bin:/usr/local/bin:/sbin:/usr/sbin")
    if ldd is None:
        raise EnvironmentStartError("image 'host': ldd was not found; it comes with the C library's tools")
    found: dict[str, Path] = {}
    elf = [str(path) for path in binaries if _is_elf(path)]
    for start in range(0, len(elf), _BATCH):
        run = subprocess.run([ldd, *elf[start : start + _BATCH]], capture_output=True, text=True, check=False)
        for line in run.stdout.splitlines():
            if match := _LINE.match(line):
                path = Path(match["path"])
                found.setdefault(Path(match["name"] or path).name, path)
    return found


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
