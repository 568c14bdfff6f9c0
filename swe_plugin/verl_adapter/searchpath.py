"""Our recipes on Hydra's search path, and the one decision that a recipe cannot make itself: CPU or GPU."""

from __future__ import annotations

import shutil
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

import swe_plugin

__all__ = ["RecipeSearchPath", "chosen_device", "machine", "recipe_names", "recipes_directory", "register"]


def recipes_directory() -> Path:
    """Directory of the recipes: inside the wheel, or beside the package in an editable install.

    Raises:
        FileNotFoundError: neither is there; the installation is incomplete.
    """
    package = Path(swe_plugin.__file__).resolve().parent
    for directory in (package / "_recipes", package.parent / "recipes"):
        if (directory / "plugin" / "swe.yaml").is_file():
            return directory
    raise FileNotFoundError(f"no recipes in {package} nor beside it; reinstall swe-plugin")


def recipe_names() -> list[str]:
    """What ``+plugin=`` can select: ``swe`` and the recipes below it."""
    folder = recipes_directory() / "plugin"
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def machine() -> str:
    """What this machine can train on: ``gpu`` when PyTorch or a driver tool sees one, else ``cpu``.

    A driver on a head node without a GPU says ``swe_device=gpu``.
    """
    import torch

    return "gpu" if torch.cuda.is_available() or shutil.which("nvidia-smi") else "cpu"


def chosen_device(arguments: list[str]) -> str:
    """Device group of a command line: ``swe_device=...`` if given, else what the machine has."""
    for argument in arguments:
        key, _, value = argument.lstrip("+").partition("=")
        if key == "swe_device":
            return value
    return machine()


class RecipeSearchPath(SearchPathPlugin):  # type: ignore[misc]
    """Adds `recipes_directory` after verl's own configuration."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Hook of Hydra, called once per application."""
        search_path.append(provider="swe-plugin", path=f"file://{recipes_directory()}")


def register() -> None:
    """Make recipes and our resolvers known to Hydra; safe to call again.

    They are ``${swe_machine:}``, ``${swe_trainer_mode:<overlap>}`` and ``${swe_checkpoint_engine:<device>}``.
    """
    recipes_directory()
    Plugins.instance().register(RecipeSearchPath)
    OmegaConf.register_new_resolver("swe_machine", machine, replace=True)
    OmegaConf.register_new_resolver("swe_trainer_mode", _trainer_mode, replace=True)
    OmegaConf.register_new_resolver("swe_checkpoint_engine", _checkpoint_engine, replace=True)


def _trainer_mode(overlap: str) -> str:
    return "colocate_async" if overlap == "async" else "sync"


def _checkpoint_engine(device: str) -> str:
    return {"cpu": "gloo", "npu": "hccl"}.get(device, "nccl")
