"""`swe-plugin clean`: remove what runs that no longer live left on this machine."""

from __future__ import annotations

from rich.console import Console

__all__ = ["clean"]


def clean(console: Console, *, quiet: bool = False) -> None:
    """Reap leases of dead owners: processes, mounts, cgroups, directories. Living runs are not touched."""
    from swe_plugin.environments.leases import reap

    reaped = reap()
    if reaped or not quiet:
        console.print(f"removed what {reaped} dead environments left" if reaped else "nothing was left over")
