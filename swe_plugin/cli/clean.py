"""`swe-plugin clean`: remove what runs that no longer live left on this machine."""

from __future__ import annotations

from rich.console import Console

__all__ = ["clean"]


def clean(console: Console, *, quiet: bool = False) -> int:
    """Reap leases of dead owners: processes, mounts, cgroups, directories. Living runs are not touched.

    Args:
        console: where the outcome goes.
        quiet: say only what could not be removed.

    Returns:
        Exit code: 1 if something could not be removed.
    """
    from swe_plugin.environments.leases import reap

    report = reap()
    if report.problems or not quiet:
        nothing = not (report.leases or report.problems)
        console.print("nothing was left over" if nothing else str(report), markup=False, soft_wrap=True)
    return int(bool(report.problems))
