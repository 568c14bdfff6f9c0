"""Containers by lease: what belongs to one, and its removal."""

from __future__ import annotations

from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException

__all__ = ["LABEL", "remove_container", "remove_containers"]

LABEL = "swe-plugin.lease"
_TIMEOUT_S = 20
_GONE = {404, 409}
"""Not there, or being removed already."""


def remove_container(api: Any, name: str) -> bool:
    """Kill and remove one container with its anonymous volumes; False if it was not there."""
    try:
        api.remove_container(name, force=True, v=True)
    except APIError as error:
        if error.status_code not in _GONE:
            raise
        return False
    return True


def remove_containers(host: str, lease: str) -> tuple[int, str]:
    """Remove all containers of a lease. Blocking.

    Args:
        host: address of the daemon.
        lease: id of the lease.

    Returns:
        How many were removed, and why others could not be (empty: there are none).
    """
    try:
        client = docker.DockerClient(base_url=host, version="auto", timeout=_TIMEOUT_S)
        try:
            found = client.api.containers(all=True, quiet=True, filters={"label": f"{LABEL}={lease}"})
            return sum(remove_container(client.api, item["Id"]) for item in found), ""
        finally:
            client.close()
    except (DockerException, requests.RequestException) as error:
        return 0, f"containers of {lease} on {host}: {error}"
