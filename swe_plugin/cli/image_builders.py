"""What `swe-plugin cache build` builds with: the sandboxes' store, or a Docker daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from swe_plugin.errors import ConfigError
from swe_plugin.types import Image

if TYPE_CHECKING:
    from swe_plugin.config import EnvironmentConfig
    from swe_plugin.environments import Environment
    from swe_plugin.environments.images.estimate import Estimate
    from swe_plugin.environments.images.metered import OnRead

__all__ = ["DockerBuilder", "ImageBuilder", "SandboxBuilder", "image_builder"]


class ImageBuilder(Protocol):
    """Makes images ready for the environments of one backend. All calls block; `build` from many threads."""

    def estimate(self, images: Iterable[Image]) -> Estimate:
        """What building them would take."""

    def build(self, image: Image, name: str, on_read: OnRead, *, checked: bool) -> int:
        """Build one and return its number of layers.

        Args:
            image: what.
            name: who wants it, for messages.
            on_read: hears of the bytes that are read or downloaded; may raise to stop.
            checked: whether an agent has to be able to work in it.

        Raises:
            EnvironmentStartError: it cannot be had.
        """

    def close(self) -> None:
        """End what was started for it."""


def image_builder(config: EnvironmentConfig) -> ImageBuilder:
    """The builder for the configured backend.

    Raises:
        ConfigError: it has no images to build, or lacks its SDK.
        EnvironmentStartError: it does not work here.
    """
    if config.backend == "sandbox":
        return SandboxBuilder(config)
    if config.backend == "docker":
        try:
            return DockerBuilder(config)
        except ImportError as error:
            raise ConfigError("swe.environment.backend", config.backend, str(error)) from error
    raise ConfigError("swe.environment.backend", config.backend, "images are built for sandbox and docker")


class SandboxBuilder:
    """Layers in this node's store."""

    def __init__(self, config: EnvironmentConfig) -> None:
        from swe_plugin.environments.images import ImageStore
        from swe_plugin.environments.sandbox.probe import require_mode

        self._store, self._mode = ImageStore(), str(config.options.get("mode", "auto"))
        self._squash = require_mode(self._mode) == "user"

    def estimate(self, images: Iterable[Image]) -> Estimate:
        """See `ImageBuilder`."""
        from swe_plugin.environments.images.estimate import estimate

        return estimate({image.base for image in images}, self._store, squash=self._squash)

    def build(self, image: Image, name: str, on_read: OnRead, *, checked: bool) -> int:
        """See `ImageBuilder`."""
        from swe_plugin.environments import AGENT_ENV
        from swe_plugin.environments.sandbox.modes import prepare

        env = AGENT_ENV if checked else None
        _, layers = prepare(image, self._mode, self._store, env=env, on_read=on_read)
        layers.release()
        return len(layers.directories)

    def close(self) -> None:
        """See `ImageBuilder`."""
        from swe_plugin.environments.sandbox import close_zygote

        close_zygote()


class DockerBuilder:
    """Images of a daemon; references are fetched by it."""

    def __init__(self, config: EnvironmentConfig) -> None:
        from swe_plugin.environments.docker.daemon import current_daemon
        from swe_plugin.environments.docker.settings import DockerSettings

        self._config, self._settings = config, DockerSettings.of(config.options)
        self._daemon = current_daemon(self._settings.host)

    def estimate(self, images: Iterable[Image]) -> Estimate:
        """See `ImageBuilder`."""
        from swe_plugin.environments.docker.daemon import boundary
        from swe_plugin.environments.docker.references import estimate_pulls
        from swe_plugin.environments.images import ImageStore
        from swe_plugin.environments.images.estimate import estimate

        bases, store = {image.base for image in images}, ImageStore()
        pulled = {base for base in bases if base.startswith("docker:")}
        with boundary(self._daemon.host):
            references = [base.removeprefix("docker:") for base in pulled]
            pulls = estimate_pulls(self._daemon.api, references, store.root / "references")
        return pulls + estimate(bases - pulled, store, squash=False)

    def build(self, image: Image, name: str, on_read: OnRead, *, checked: bool) -> int:
        """See `ImageBuilder`; a container is started to check."""
        from swe_plugin.environments.docker.daemon import boundary
        from swe_plugin.environments.docker.images import prepare
        from swe_plugin.environments.factory import spec_for

        daemon, spec = self._daemon, spec_for(image, self._config, label=name)
        with boundary(daemon.host):
            daemon.ensure_bundle()
            found = prepare(
                daemon.api,
                daemon.lease.id,
                daemon.machine,
                image,
                spec.env["HOME"],
                user=self._settings.user,
                pull="missing",
                on_read=on_read,
            )
            n_layers = len(daemon.api.inspect_image(found.id)["RootFS"]["Layers"])
        if checked:
            from swe_plugin.environments.docker import DockerEnvironment

            asyncio.run(_start_and_stop(DockerEnvironment(spec)))
        return n_layers

    def close(self) -> None:
        """See `ImageBuilder`; recipes ran in sandboxes."""
        from swe_plugin.environments.docker import close_daemons
        from swe_plugin.environments.sandbox import close_zygote

        close_daemons()
        close_zygote()


async def _start_and_stop(environment: Environment) -> None:
    async with environment:
        pass
