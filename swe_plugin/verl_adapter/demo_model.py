"""Makes everything the embedded demo trains on: a tiny model, its tokenizer, and two parquet files.

Built once per content: the directory's name is a hash of all sources, prompts, settings and library versions
that the result depends on, and it appears by an atomic rename, so that concurrent runs cannot see half of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from swe_plugin.config import DemoConfig

__all__ = ["DemoArtifacts", "default_cache", "prepare_demo"]

_LOG = logging.getLogger(__name__)
_SOURCES = ("swe_plugin.data.demo", "swe_plugin.verl_adapter.demo", "swe_plugin.scaffolds.prompts")


@dataclass(frozen=True, slots=True)
class DemoArtifacts:
    """What `prepare_demo` made.

    Attributes:
        model: directory that ``from_pretrained`` and vLLM load (warm-started weights, tokenizer, chat template).
        train: parquet file in training order (keep ``data.shuffle=False``).
        heldout: parquet file of repositories that training never sees.
        baselines: name -> resolved rate on held-out tasks: ``random_policy``, ``never_reads``, ``untrained``.
    """

    model: Path
    train: Path
    heldout: Path
    baselines: dict[str, float]


def default_cache() -> Path:
    """``$SWE_PLUGIN_HOME``, else ``$XDG_CACHE_HOME/swe-plugin``, else ``~/.cache/swe-plugin``."""
    if home := os.environ.get("SWE_PLUGIN_HOME"):
        return Path(home)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "swe-plugin"


def prepare_demo(config: DemoConfig, cache: Path | None = None) -> DemoArtifacts:
    """Build the demo's model and data, or reuse what an earlier call built.

    Takes about a minute on one thread the first time. To be called in the driver, before Ray starts.

    Args:
        config: ``swe.demo``.
        cache: where built things are kept; default `default_cache`.

    Raises:
        OSError: the cache cannot be written.
    """
    root = (cache or default_cache()) / "demo"
    target = root / _key(config)
    if not target.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=root))
        try:
            _build(config, building)
            _publish(building, target)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    baselines = json.loads((target / "baselines.json").read_text(encoding="utf-8"))
    return DemoArtifacts(target / "model", target / "train.parquet", target / "heldout.parquet", baselines)


def _publish(building: Path, target: Path) -> None:
    """Rename into place; when another process was faster, its result is as good."""
    try:
        building.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _key(config: DemoConfig) -> str:
    digest = hashlib.sha256(json.dumps(dataclasses.asdict(config), sort_keys=True).encode())
    for package in _SOURCES:
        for item in sorted(files(package).iterdir(), key=lambda item: item.name):
            if item.name.endswith((".py", ".jinja")) and (package != _SOURCES[2] or item.name.startswith("demo_")):
                digest.update(item.name.encode() + b"\0" + item.read_bytes())
    for library in ("torch", "transformers", "tokenizers", "pyarrow"):
        digest.update(f"{library}={version(library)}\n".encode())
    return digest.hexdigest()[:16]


def _build(config: DemoConfig, directory: Path) -> None:
    import torch

    from swe_plugin.data.demo import balanced_order, split_tasks
    from swe_plugin.verl_adapter.demo import rows, tokenizer, warm_start

    _LOG.info("building the demo's model and data (about a minute, once)")
    threads = torch.get_num_threads()
    state = torch.random.get_rng_state()
    torch.set_num_threads(1)
    try:
        words = tokenizer.build_tokenizer(warm_start.corpus(config.seed))
        model = warm_start.build_model(words, config.seed)
        train, heldout = split_tasks(config.seed)
        baselines = _baselines(model, words, heldout, config)
        loss = warm_start.warm_start(model, words, seed=config.seed, steps=config.warm_start_steps)
    finally:
        torch.set_num_threads(threads)
        torch.random.set_rng_state(state)
    _LOG.info("warm start ended at %.3f nats per agent token", loss)
    words.save_pretrained(directory / "model")
    model.save_pretrained(directory / "model")
    rows.write_rows(balanced_order(train, config.seed), directory / "train.parquet")
    rows.write_rows(balanced_order(heldout, config.seed), directory / "heldout.parquet")
    (directory / "baselines.json").write_text(json.dumps(baselines, indent=1), encoding="utf-8")


def _baselines(untrained: Any, words: Any, heldout: Any, config: DemoConfig) -> dict[str, float]:
    from swe_plugin.verl_adapter.demo import baselines
    from swe_plugin.verl_adapter.demo.warm_start import MAX_TURNS

    return {
        "random_policy": baselines.random_policy_rate(heldout, MAX_TURNS),
        "never_reads": baselines.blind_rate(heldout),
        "untrained": baselines.model_rate(untrained, words, heldout, max_turns=MAX_TURNS, max_turn_tokens=16),
    }
