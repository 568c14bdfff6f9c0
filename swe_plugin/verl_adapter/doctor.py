"""`python -m swe_plugin.verl_adapter.doctor RESULT WORD...`: the part of `swe-plugin doctor` that needs verl.

A process of its own, so that verl is imported, and finds its plugins, exactly as a run of these words would have it.
Writes ``{"backend": ..., "findings": [...]}`` to the file RESULT.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_plugin.errors import ConfigError
from swe_plugin.preflight.finding import Finding

if TYPE_CHECKING:
    from omegaconf import DictConfig

__all__ = ["Examination", "main", "refusal"]

_BOOTSTRAP = "swe_plugin.verl_adapter.bootstrap"
_POLICY = "VERL_USE_EXTERNAL_PLUGINS"
_CALLBACK = "swe_plugin.verl_adapter.callback.SweCallback"


@dataclass(slots=True)
class Examination:
    """What became of one command line.

    Attributes:
        findings: in the order of a run; those that an earlier failure makes pointless are left out.
        backend: of its environments, empty if it does not compose.
    """

    findings: list[Finding] = field(default_factory=list)
    backend: str = ""

    def run(self, words: Sequence[str]) -> None:
        """Load verl with its plugins, compose, check."""
        self.findings.append(_load_plugin())
        if not self.findings[-1].ok:
            return
        config = self._compose(words)
        if config is None:
            return
        from swe_plugin.verl_adapter.checks import findings

        self.backend = str((config.get("swe") or {}).get("environment", {}).get("backend", "sandbox"))
        self.findings.extend(findings(config))

    def _compose(self, words: Sequence[str]) -> DictConfig | None:
        from hydra import compose, initialize_config_module
        from hydra.errors import HydraException
        from omegaconf.errors import OmegaConfBaseException

        given = _parser().parse_intermixed_args(words)
        overrides = list(given.words)
        if given.config_dir:
            overrides.append(f"hydra.searchpath=[file://{Path(given.config_dir).absolute()}]")
        command_line = " ".join(words)
        try:
            with initialize_config_module("verl.trainer.config", version_base=None):
                config = compose(given.config_name, overrides, return_hydra_config=True)
        except (HydraException, OmegaConfBaseException) as error:
            self.findings.append(Finding("recipe", False, key="command line", value=command_line, fix=str(error)))
            return None
        callbacks = (config.hydra.get("callbacks") or {}).values()
        ours = any(callback.get("_target_") == _CALLBACK for callback in callbacks)
        extend = "verl would train without us: let the recipe extend /plugin/swe/base, and select it with +plugin="
        self.findings.append(Finding("recipe", ours, f"composes: {command_line}", "command line", command_line, extend))
        return config if ours else None


def main(arguments: Sequence[str]) -> int:
    """Examine a command line; 0 however that ends, because the result says it."""
    result, *words = arguments
    examination = Examination()
    examination.run(words)
    report: dict[str, Any] = {"backend": examination.backend}
    report["findings"] = [finding.to_dict() for finding in examination.findings]
    Path(result).write_text(json.dumps(report), encoding="utf-8")
    return 0


def _load_plugin() -> Finding:
    """Import verl, which loads its plugins, and see whether ours came to life."""
    try:
        import hydra  # noqa: F401 - as in a run's driver; the bootstrap looks for it
        import verl
    except SystemExit as error:  # what our bootstrap ends a run with
        return refusal(error)
    except Exception as error:  # a broken installation can raise anything
        return Finding("verl", False, key="verl", value="cannot be imported", fix=f"{type(error).__name__}: {error}")
    if _BOOTSTRAP in sys.modules:
        return Finding("plugin in verl", True, f"verl {verl.__version__} has loaded it")
    return Finding("plugin in verl", False, key="verl.plugins", value="not loaded", fix="; ".join(_reasons()))


def refusal(error: SystemExit) -> Finding:
    """What ended the import of verl: words of the command line, or something of ours that is broken."""
    if isinstance(error.__cause__, ConfigError):
        return Finding.of("recipe", error.__cause__)
    return Finding("plugin in verl", False, fix=str(error))


def _reasons() -> Iterator[str]:
    """Why verl did not load us: it swallows the reason."""
    policy = os.environ.get(_POLICY, "auto").strip()
    points = [point for point in entry_points(group="verl.plugins") if point.module.startswith("swe_plugin.")]
    if not points:
        yield "swe-plugin is not installed in this Python: pip install swe-plugin (in a clone: pip install -e .)"
    allowed = {name.strip() for name in policy.split(",")}
    if policy.lower() != "auto" and not {point.name for point in points} & allowed:
        yield f"the environment variable {_POLICY}={policy!r} keeps it out: unset it"
    for point in points:
        try:
            point.load()
        except (Exception, SystemExit) as error:
            yield f"{point.name} is broken: {type(error).__name__}: {error}"


def _parser() -> argparse.ArgumentParser:
    """Words of a Hydra command line, of which only where configurations lie matters here."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--config-dir", "-cd", default="")
    parser.add_argument("--config-name", "-cn", default="ppo_trainer")
    parser.add_argument("words", nargs="*")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
