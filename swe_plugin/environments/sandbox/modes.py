"""The mode of a sandbox, and its image as that mode has it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from swe_plugin.environments.images import ImageStore, Layers, expects_root, resolve
from swe_plugin.environments.images.metered import OnRead
from swe_plugin.environments.sandbox.probe import require_mode
from swe_plugin.types import Image

__all__ = ["prepare"]

_AGENT = 1000, 1000


def prepare(
    image: Image,
    wanted: str,
    store: ImageStore,
    *,
    env: Mapping[str, str] | None = None,
    on_read: OnRead | None = None,
) -> tuple[str, Layers]:
    """Choose the mode and build the image for it. Blocking; both are remembered for the next time.

    Args:
        image: what a sandbox starts from.
        wanted: a mode, or ``auto``: ``rootmap`` for an image that expects its user to be root, else ``root``; what
            works here.
        store: where layers live.
        env: the agent's variables, with which it must be able to work there; None: no agent is meant to.
        on_read: see `images.resolve`.

    Returns:
        The mode and the layers, held.

    Raises:
        EnvironmentStartError: no such mode here, or no such image; says why and what to do.
    """
    from swe_plugin.environments.sandbox.builder import run_in_layers

    mode = require_mode(wanted, for_root=wanted == "auto" and expects_root(image, store))
    owner = {"root": _AGENT, "rootmap": (0, 0)}.get(mode, (os.geteuid(), os.getegid()))
    squash = mode == "user"
    layers = resolve(image, owner=owner, store=store, run=run_in_layers, squash=squash, on_read=on_read)
    try:
        if env is not None:
            layers.check(image, env, owner)
    except BaseException:
        layers.release()
        raise
    return mode, layers
