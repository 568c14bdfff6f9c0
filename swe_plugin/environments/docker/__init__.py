"""The ``docker`` backend: containers of a Docker daemon, here or elsewhere."""

from __future__ import annotations

try:
    import docker as _sdk  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise ImportError("the docker backend needs the Docker SDK: pip install 'swe-plugin[docker]'") from error

from swe_plugin.environments.docker.daemon import close_daemons
from swe_plugin.environments.docker.environment import DockerEnvironment

__all__ = ["DockerEnvironment", "close_daemons"]
