"""Where a run writes, and the ports that settings name."""

from __future__ import annotations

from collections.abc import Iterator

from swe_plugin.preflight.finding import Finding
from swe_plugin.preflight.ports import port_is_free
from swe_plugin.preflight.space import temporary_room, writable
from swe_plugin.verl_adapter.checks.settings import ROLLOUT, Settings
from swe_plugin.verl_adapter.demo_model import default_cache

__all__ = ["check_places"]

_PORTS = {
    "ray_kwargs.ray_init.dashboard_port": "ray_kwargs.ray_init.include_dashboard",
    "transfer_queue.metrics.port": "transfer_queue.metrics.enabled",
}
"""Ports on this machine that verl or Ray bind if they are named -> the switch that turns them on."""


def check_places(s: Settings) -> Iterator[Finding]:
    """Directories can be made, and named ports are free."""
    yield writable(s.output_dir, "swe.output.dir", s.swe.output.dir)
    yield writable(default_cache(), "SWE_PLUGIN_HOME", str(default_cache()))
    yield temporary_room()
    for key, switch in _PORTS.items():
        port = s.get(key)
        if port and s.get(switch) is not False and not s.joins_cluster:
            host = str(s.get("ray_kwargs.ray_init.dashboard_host") or "127.0.0.1")
            yield port_is_free(int(port), key, "name another one, or leave the key out", host=host)
    if s.get(f"{ROLLOUT}.prometheus.enable"):
        yield Finding("port", True, f"Prometheus itself is yours: port {s.get(f'{ROLLOUT}.prometheus.port')}")
