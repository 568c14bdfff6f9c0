"""What environments start from: images become read-only directories, built once per node."""

from __future__ import annotations

from swe_plugin.environments.images.archive import write_archive
from swe_plugin.environments.images.recipe import Runner
from swe_plugin.environments.images.resolve import Layers, check_image, expects_root, resolve
from swe_plugin.environments.images.store import ImageStore

__all__ = ["ImageStore", "Layers", "Runner", "check_image", "expects_root", "resolve", "write_archive"]
