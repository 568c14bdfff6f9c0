"""What ``docker login`` left for a registry."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from swe_plugin.errors import EnvironmentStartError

__all__ = ["credentials"]


def credentials(server: str) -> tuple[str, str] | None:
    """User and password for a registry; None if there are none. Blocking: credential helpers are programs.

    Args:
        server: as Docker's configuration (``$DOCKER_CONFIG/config.json`` or ``~/.docker/config.json``) names it.

    Raises:
        EnvironmentStartError: the configuration or its helper does not work; says which and how.
    """
    path = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text())
        helper = config.get("credHelpers", {}).get(server) or config.get("credsStore")
        if helper and (answer := _ask(helper, server)):
            return answer
        encoded = config.get("auths", {}).get(server, {}).get("auth", "")
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise EnvironmentStartError(f"{path} cannot be used ({type(error).__name__}: {error}): docker login") from error
    return (user, password) if user else None


def _ask(helper: str, server: str) -> tuple[str, str] | None:
    program = f"docker-credential-{helper}"
    try:
        run = subprocess.run([program, "get"], input=server, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise EnvironmentStartError(f"Docker's configuration names {program}, which is not installed") from None
    if run.returncode:
        return None  # it knows no login for that server: perhaps none is needed
    answer = json.loads(run.stdout)
    return answer["Username"], answer["Secret"]
