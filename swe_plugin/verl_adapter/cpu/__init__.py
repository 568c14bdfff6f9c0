"""verl on a machine without an accelerator: everything that verl does not do for a CPU, in one place.

Nothing here runs unless `activate` is called, and only `swe_plugin.verl_adapter.bootstrap` and the Hydra
callback call it, in processes of a run whose device is ``cpu``. What can be registered is registered (platform,
distribution metadata, the engine's environment variable); what cannot is a `Patch` with the line of verl that
it answers and a probe that says whether verl still needs it.
"""

from __future__ import annotations

from types import ModuleType

from swe_plugin.verl_adapter.cpu.patch import Patch

__all__ = ["Patch", "activate"]

_active = False


def activate() -> None:
    """Make this process ready for verl on the CPU; safe to call again."""
    global _active
    if _active:
        return
    _active = True
    from swe_plugin.verl_adapter.cpu import distribution, imports, patches, platform

    distribution.install()
    platform.install()
    for patch in patches.PATCHES:
        imports.when_imported(patch.module, patch.apply)
    imports.when_imported("verl.checkpoint_engine.base", _register_checkpoint_engine)


def _register_checkpoint_engine(base: ModuleType) -> None:
    from swe_plugin.verl_adapter.cpu.weights import GlooCheckpointEngine

    base.CheckpointEngineRegistry.register("gloo")(GlooCheckpointEngine)
