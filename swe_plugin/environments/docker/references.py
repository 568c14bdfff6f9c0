"""Published images on a daemon: whether they are there, fetching them, and what that would take."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from docker.errors import DockerException, ImageNotFound
from docker.utils import parse_repository_tag

from swe_plugin.environments.images.estimate import Estimate
from swe_plugin.environments.images.metered import OnRead
from swe_plugin.environments.images.registry import LOOK, open_registry
from swe_plugin.errors import EnvironmentStartError

__all__ = ["estimate_pulls", "find_image"]

_BEAT_S = 1.0


def find_image(api: Any, reference: str, pull: str, on_read: OnRead | None = None) -> dict[str, Any]:
    """What the daemon says of an image, fetched if need be and allowed. Blocking.

    Args:
        api: the SDK's `APIClient`; its logins are those of the user's Docker configuration.
        reference: of the image.
        pull: ``missing`` or ``never``.
        on_read: hears of the bytes that the daemon downloads, compressed.

    Raises:
        EnvironmentStartError: it is not there and may not or cannot be fetched.
    """
    try:
        found: dict[str, Any] = api.inspect_image(reference)
    except ImageNotFound:
        if pull != "missing":
            raise EnvironmentStartError(
                f"image 'docker:{reference}' is not on the daemon: docker pull {reference}, or set "
                "swe.environment.options.pull=missing"
            ) from None
        _fetch(api, reference, on_read)
        found = api.inspect_image(reference)
    return found


def _fetch(api: Any, reference: str, on_read: OnRead | None) -> None:
    repository, tag = parse_repository_tag(reference)
    meter = _Meter(on_read or (lambda _: None))
    try:
        for event in _with_beats(lambda: api.pull(repository, tag=tag or "latest", stream=True, decode=True)):
            meter(event)
    except DockerException as error:
        meter.reason = str(getattr(error, "explanation", None) or error).strip()
    if meter.reason:
        raise EnvironmentStartError(f"image 'docker:{reference}' cannot be fetched: {meter.reason}")


class _Meter:
    """Counts what a pull has downloaded; its events tell it by layer."""

    def __init__(self, on_read: OnRead) -> None:
        self.reason = ""
        self._on_read = on_read
        self._sizes: dict[str, int] = {}
        self._counted: dict[str, int] = {}

    def __call__(self, event: dict[str, Any]) -> None:
        layer, status = event.get("id", ""), event.get("status", "")
        detail = event.get("progressDetail") or {}
        self.reason = self.reason or event.get("error", "")
        before = now = self._counted.get(layer, 0)
        if status == "Downloading":
            self._sizes[layer], now = detail.get("total", 0), max(before, detail.get("current", 0))
        elif status == "Download complete":
            now = max(before, self._sizes.get(layer, 0))
        self._counted[layer] = now
        self._on_read(now - before)  # 0 too: it may raise to stop


def _with_beats(pull: Callable[[], Iterable[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """The events of a pull, with an empty one wherever the daemon says nothing for a second.

    So whoever counts can leave while the daemon waits for its registry; the connection ends with the process.
    """
    events: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            for event in pull():
                events.put(event)
            events.put(None)
        except BaseException as error:
            events.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            event = events.get(timeout=_BEAT_S)
        except queue.Empty:
            event = {}
        if event is None:
            return
        if isinstance(event, BaseException):
            raise event
        yield event


def estimate_pulls(api: Any, references: Iterable[str], known: Path) -> Estimate:
    """What fetching references would take. Sizes of layers that the daemon has are not known. Blocking.

    Args:
        api: the SDK's `APIClient`.
        references: of images.
        known: directory that remembers what references led to, see `open_registry`.
    """
    layers: dict[str, int] = {}
    present_bytes, failed = 0, dict[str, str]()
    for reference in set(references):
        try:
            found = api.inspect_image(reference)
            present_bytes += found["Size"]
            layers |= dict.fromkeys(found["RootFS"]["Layers"], 0)
        except ImageNotFound:
            try:
                contents = open_registry(reference, known, attempts=LOOK)[1]
                layers |= {layer.diff_id: layer.size_bytes for layer in contents.layers}
            except EnvironmentStartError as error:
                failed[f"docker:{reference}"] = str(error)
    images = [api.inspect_image(image["Id"]) for image in api.images()]
    here = {layer for image in images for layer in image["RootFS"].get("Layers") or ()}
    missing = [size for layer, size in layers.items() if layer not in here]
    n_present = len(layers) - len(missing)
    total = sum(layers.values())
    return Estimate(len(layers), n_present, present_bytes, total, sum(missing), missing.count(0), failed)
