"""Images of a registry, without a daemon: the pieces are streamed from there into the store.

Speaks the OCI distribution specification 1.1 (pull), with Docker's token authentication. Credentials come from the
user's Docker configuration (``$DOCKER_CONFIG/config.json`` or ``~/.docker/config.json``), credential helpers included.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import http.client
import io
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

from swe_plugin.environments.images.blobs import Blobs
from swe_plugin.environments.images.credentials import credentials
from swe_plugin.environments.images.download import Download
from swe_plugin.environments.images.manifest import MAX_JSON, Contents, LayerSource, read_manifest
from swe_plugin.errors import EnvironmentStartError

__all__ = ["LOOK", "Reference", "open_registry"]

_HUB, _HUB_API = "docker.io", "registry-1.docker.io"
_HUB_LOGIN = "https://index.docker.io/v1/"
_ACCEPT = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_TIMEOUT_S, _PAUSE_S = 60.0, 2.0
LOOK, _LOOK_TIMEOUT_S = 2, 10.0
"""Attempts of one who only wants to know a size: the first may be answered by a request to log in."""
_BUFFER = 1 << 20
_LOCAL = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")


@dataclass(frozen=True, slots=True)
class Reference:
    """``[host/]repository[:tag][@digest]``, short names completed as Docker does."""

    host: str
    repository: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Take a reference apart.

        Raises:
            EnvironmentStartError: it is none.
        """
        name, _, digest = text.partition("@")
        first, slash, rest = name.partition("/")
        if slash and ("." in first or ":" in first or first == "localhost"):
            host, name = first, rest
        else:
            host, name = _HUB, name if slash else f"library/{name}"
        name, _, tag = name.partition(":")
        if not re.fullmatch(r"[a-z0-9]+([._/-]+[a-z0-9]+)*", name):
            raise EnvironmentStartError(f"{text!r} is no reference; wanted: [host/]repository[:tag]")
        return cls(host, name, digest or tag or "latest")


def open_registry(text: str, known: Path, *, attempts: int) -> tuple[Blobs, Contents]:
    """Where the pieces of an image are, and what it consists of. Blocking; unpacks nothing.

    Args:
        text: the reference.
        known: directory that remembers what references led to: a tag means the same until it is deleted there, and
            an image that is in the store needs no network.
        attempts: for each request; 0: no network; up to `LOOK`: each waits a few seconds only.

    Raises:
        EnvironmentStartError: the registry does not have it, does not let us in, or cannot be reached.
    """
    registry = _Registry(Reference.parse(text), attempts)
    note = known / f"{hashlib.sha256(f'2 {text}'.encode()).hexdigest()[:32]}.json"
    if note.is_file():
        raw = json.loads(note.read_text())
        return registry, Contents([LayerSource(**layer) for layer in raw["layers"]], raw["env"], raw["user"])
    with registry.fetch(f"manifests/{registry.reference.version}") as stream:
        digest = f"sha256:{hashlib.sha256(stream.read(MAX_JSON)).hexdigest()}"
    if registry.reference.version.startswith("sha256:") and registry.reference.version != digest:
        raise EnvironmentStartError(f"damaged: {registry.reference.version} has the content of {digest}")
    contents = read_manifest(registry, {"digest": digest})
    known.mkdir(parents=True, exist_ok=True)
    draft = note.with_suffix(f".{uuid.uuid4().hex}")
    draft.write_text(json.dumps({"reference": text, "digest": digest, **dataclasses.asdict(contents)}))
    draft.rename(note)
    return registry, contents


class _Registry:
    """The pieces of one repository, as `Blobs`."""

    def __init__(self, reference: Reference, attempts: int) -> None:
        self.reference, self._attempts = reference, attempts
        self._timeout_s = _TIMEOUT_S if attempts > LOOK else _LOOK_TIMEOUT_S
        host = _HUB_API if reference.host == _HUB else reference.host
        scheme = "http" if _LOCAL.fullmatch(host) else "https"
        self._url = f"{scheme}://{host}/v2/{reference.repository}/"
        self._authorization = ""

    @contextmanager
    def open(self, name: str) -> Iterator[io.BufferedReader]:
        digest = name.replace("blobs/sha256/", "sha256:")
        try:
            download = Download(lambda start: self._get(f"blobs/{digest}", start))
        except FileNotFoundError:
            download = Download(lambda start: self._get(f"manifests/{digest}", start))
        stream: io.BufferedReader[Any] = io.BufferedReader(download, _BUFFER)
        with stream:
            yield stream

    def size(self, name: str) -> int:
        return 0  # manifests say it

    @contextmanager
    def fetch(self, path: str) -> Iterator[http.client.HTTPResponse]:
        """One document, by its path in the repository."""
        try:
            response = self._get(path)
        except FileNotFoundError:
            raise EnvironmentStartError(
                f"{self.reference.host} has no such image (or hides it: docker login)"
            ) from None
        with response:
            yield response

    def _get(self, path: str, start: int = 0) -> http.client.HTTPResponse:
        reason = "is not asked"
        for attempt in range(self._attempts):
            try:
                return self._open(path, start)
            except urllib.error.HTTPError as error:
                if error.code == HTTPStatus.UNAUTHORIZED and not attempt:
                    self._authorization = self._log_in(error.headers.get("WWW-Authenticate", ""))
                elif error.code == HTTPStatus.NOT_FOUND:
                    raise FileNotFoundError(path) from None
                elif error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code != HTTPStatus.TOO_MANY_REQUESTS:
                    raise self._refused(error) from None
                reason = f"{error.code} {error.reason}"
            except OSError as error:
                reason = str(getattr(error, "reason", error))
            time.sleep(attempt * _PAUSE_S if attempt + 1 < self._attempts else 0)
        raise self._error(reason)

    def _open(self, path: str, start: int) -> http.client.HTTPResponse:
        request = urllib.request.Request(self._url + path, headers={"Accept": _ACCEPT})  # noqa: S310 - http(s) by `_url`
        if start:
            request.add_header("Range", f"bytes={start}-")
        if self._authorization:  # not passed on to where the registry redirects
            request.add_unredirected_header("Authorization", self._authorization)
        return cast("http.client.HTTPResponse", urllib.request.urlopen(request, timeout=self._timeout_s))  # noqa: S310

    def _log_in(self, challenge: str) -> str:
        host = self.reference.host
        login = credentials(_HUB_LOGIN if host == _HUB else host)
        basic = "Basic " + base64.b64encode(":".join(login).encode()).decode() if login else ""
        if not challenge.lower().startswith("bearer"):
            return basic
        fields = dict(_CHALLENGE.findall(challenge))
        realm = fields.pop("realm", "")
        if not realm.startswith(("https://", "http://localhost", "http://127.0.0.1")):
            raise self._error(f"asks to log in at {realm!r}, which is not https")
        request = urllib.request.Request(f"{realm}?{urllib.parse.urlencode(fields)}")  # noqa: S310
        if basic:
            request.add_unredirected_header("Authorization", basic)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:  # noqa: S310
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise self._refused(error) from None
        return f"Bearer {answer.get('token') or answer.get('access_token')}"

    def _refused(self, error: urllib.error.HTTPError) -> EnvironmentStartError:
        return self._error(f"{error.code} {error.reason}; 'docker login {self.reference.host}'?")

    def _error(self, reason: str) -> EnvironmentStartError:
        return EnvironmentStartError(f"registry {self.reference.host}: {reason}")
