"""Docker references without a daemon: a registry on this machine that asks for a token and redirects blobs."""

import base64
import gzip
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from swe_plugin.environments.images import ImageStore, resolve
from swe_plugin.environments.images.estimate import estimate
from swe_plugin.environments.images.registry import Reference
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

from .image_archives import HERE, layer, oci_layout, sha256

OWNER = (os.geteuid(), os.getegid())
LOGIN = base64.b64encode(b"me:secret").decode()


class Registry(BaseHTTPRequestHandler):
    """Speaks the pull half of the distribution specification."""

    def do_GET(self):
        server, url = self.server, urlsplit(self.path)
        server.asked.append(url.path)
        if url.path == "/token":
            wanted = parse_qs(url.query)
            assert wanted == {"service": ["here"], "scope": ["repository:team/demo:pull"]}
            allowed = not server.private or self.headers["Authorization"] == f"Basic {LOGIN}"
            return self.answer(200 if allowed else 401, json.dumps({"token": "t0ken"}).encode())
        if url.path.startswith("/cdn/"):
            assert self.headers["Authorization"] is None, "the token is the registry's, not the store's"
            return self.blob(server.blobs[url.path.removeprefix("/cdn/")])
        if self.headers["Authorization"] != "Bearer t0ken":
            realm = f"http://{self.headers['Host']}/token"
            challenge = f'Bearer realm="{realm}",service="here",scope="repository:team/demo:pull"'
            return self.answer(401, b"", **{"WWW-Authenticate": challenge})
        if server.hiccups:
            server.hiccups -= 1
            return self.answer(503, b"")
        kind, _, name = url.path.removeprefix("/v2/team/demo/").partition("/")
        if kind == "manifests":
            data = server.manifests.get(name)
            return self.answer(200 if data else 404, data or b"")
        if name in server.blobs:
            return self.answer(307, b"", Location=f"/cdn/{name}")
        return self.answer(404, b"")

    def blob(self, data):
        """A piece, from where it is asked for if the server knows how, in bits if the line is bad."""
        wanted = self.headers["Range"]
        if wanted and self.server.knows_ranges:
            data = data[int(wanted.removeprefix("bytes=").removesuffix("-")) :]
        self.send_response(206 if wanted and self.server.knows_ranges else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if self.server.breaks else data)
        self.server.breaks = max(0, self.server.breaks - 1)
        return None

    def answer(self, code, data, **headers):
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A registry with `team/demo:1`, an index of two machines; `address` is its host and port."""
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    layout = oci_layout(tmp_path / "layout", {"demo": [layer(("a", "one")), layer(("b", "two"))]})
    blobs = {f"sha256:{path.name}": path.read_bytes() for path in (layout / "blobs/sha256").iterdir()}
    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    other = {"digest": sha256(b"other"), "platform": {"os": "linux", "architecture": "riscv64"}}
    index = json.dumps({"schemaVersion": 2, "manifests": [other, entry]}).encode()
    lonely = json.dumps({"schemaVersion": 2, "manifests": [other]}).encode()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    server.manifests = {"1": index, sha256(index): index, "riscv": lonely, sha256(lonely): lonely}
    server.manifests[entry["digest"]] = blobs.pop(entry["digest"])
    server.blobs, server.asked, server.private, server.hiccups = blobs, [], False, 0
    server.knows_ranges, server.breaks = True, 0
    server.entry = entry["digest"]
    server.address = f"127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def pull(registry, name="team/demo:1"):
    return resolve(Image(f"docker:{registry.address}/{name}", workdir="/nowhere"), owner=OWNER)


def test_an_image_is_pulled_with_a_token_for_this_machine(registry):
    layers = pull(registry)
    assert [path.name for path in layers.view.layers[0].iterdir()] == ["b"]
    assert (layers.directories[1] / "a").read_text() == "one"
    assert layers.directories == pull(registry).directories


def test_what_is_here_needs_no_registry(registry, monkeypatch):
    first = pull(registry).directories
    monkeypatch.setattr(sys.modules[resolve.__module__], "_known", {})
    registry.asked.clear()
    assert pull(registry).directories == first
    assert registry.asked == []


def test_a_killed_pull_goes_on_with_the_layers_that_are_missing(registry, monkeypatch):
    second = next(name for name, data in registry.blobs.items() if b"two" in _plain(data))
    good, registry.blobs[second] = registry.blobs[second], registry.blobs[second][:-20]
    with pytest.raises(EnvironmentStartError, match="damaged"):
        pull(registry)
    registry.blobs[second] = good
    registry.asked.clear()
    pull(registry)
    assert [path for path in registry.asked if path.startswith("/cdn/")] == [f"/cdn/{second}"]


def _plain(data):
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def test_the_login_of_docker_is_used(registry, tmp_path):
    registry.private = True
    with pytest.raises(EnvironmentStartError, match=r"registry 127.0.0.1:\d+: 401 .*'docker login 127.0.0.1:\d+'\?"):
        pull(registry)
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/config.json").write_text(json.dumps({"auths": {registry.address: {"auth": LOGIN}}}))
    assert pull(registry)


def test_a_registry_that_hiccups_is_asked_again(registry, monkeypatch):
    monkeypatch.setattr("swe_plugin.environments.images.registry._PAUSE_S", 0.01)
    registry.hiccups = 2
    assert pull(registry)


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_download_that_breaks_off_goes_on(registry, monkeypatch, knows_ranges):
    registry.breaks, registry.knows_ranges = 3, knows_ranges
    read = []
    layers = resolve(
        Image(f"docker:{registry.address}/team/demo:1", workdir="/nowhere"), owner=OWNER, on_read=read.append
    )
    assert (layers.directories[1] / "a").read_text() == "one"
    assert registry.breaks == 0
    wanted = json.loads(registry.manifests[registry.entry])["layers"]
    assert sum(read) == sum(layer["size"] for layer in wanted)


def test_a_line_that_gives_nothing_is_given_up(registry):
    registry.breaks, registry.knows_ranges = 10**6, False
    with pytest.raises(EnvironmentStartError, match=r"the download broke off at byte \d+ of \d+"):
        pull(registry)


def test_a_pinned_image_is_what_its_digest_says(registry):
    wrong = "sha256:" + "0" * 64
    registry.manifests[wrong] = registry.manifests["1"]
    with pytest.raises(EnvironmentStartError, match=f"damaged: {wrong} has the content of sha256:"):
        pull(registry, f"team/demo@{wrong}")


def test_many_may_ask_at_once(registry):
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: pull(registry), range(16)))
    assert len({layers.directories for layers in found}) == 1
    blobs = [path for path in registry.asked if path.startswith("/cdn/")]
    assert len({*blobs}) == 3
    assert blobs.count(max(blobs, key=blobs.count)) <= 8, "the configuration, by each; no layer twice"


@pytest.mark.parametrize(
    ("config", "helper", "message"),
    [
        ("{", "", r"config.json cannot be used \(JSONDecodeError"),
        ('{"auths": {"HOST": {"auth": "%%%"}}}', "", "config.json cannot be used"),
        ('{"credsStore": "none-such"}', "", "names docker-credential-none-such, which is not installed"),
        ('{"credHelpers": {"HOST": "here"}}', "exit 1", "401 .*'docker login"),
        ('{"credHelpers": {"HOST": "here"}}', 'echo "{"', "config.json cannot be used"),
        ('{"credHelpers": {"HOST": "here"}}', 'read server; test $server = HOST && echo "$ANSWER"', ""),
    ],
    ids=["no JSON", "no base64", "no helper", "helper knows nothing", "helper says nonsense", "helper knows"],
)
def test_what_docker_is_configured_to_do_is_done_or_said(registry, tmp_path, monkeypatch, config, helper, message):
    registry.private = True
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/config.json").write_text(config.replace("HOST", registry.address))
    if helper:
        program = tmp_path / "docker-credential-here"
        program.write_text("#!/bin/sh\n" + helper.replace("HOST", registry.address))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("ANSWER", '{"Username": "me", "Secret": "secret"}')
    if message:
        with pytest.raises(EnvironmentStartError, match=message) as caught:
            pull(registry)
        assert "\n" not in str(caught.value)
    else:
        assert pull(registry)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("team/demo:none", "has no such image"),
        ("team/demo:riscv", f"wrong architecture: it is for linux/riscv64, this machine is linux/{HERE}"),
        ("Team/Demo", "is no reference; wanted"),
    ],
)
def test_what_cannot_be_pulled_is_said(registry, name, message):
    with pytest.raises(EnvironmentStartError, match=message):
        pull(registry, name)


def test_a_registry_that_is_away_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path))
    monkeypatch.setattr("swe_plugin.environments.images.registry._PAUSE_S", 0.01)
    with pytest.raises(EnvironmentStartError, match=r"registry localhost:9: .*refused"):
        resolve(Image("docker:localhost:9/x"), owner=OWNER)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("python", ("docker.io", "library/python", "latest")),
        ("swebench/sweb.eval.x86_64.a_1776_b:latest", ("docker.io", "swebench/sweb.eval.x86_64.a_1776_b", "latest")),
        ("ghcr.io/a/b:c", ("ghcr.io", "a/b", "c")),
        ("localhost:5000/x", ("localhost:5000", "x", "latest")),
        ("a/b@sha256:" + "0" * 64, ("docker.io", "a/b", "sha256:" + "0" * 64)),
        ("a/b:tag@sha256:" + "0" * 64, ("docker.io", "a/b", "sha256:" + "0" * 64)),
    ],
)
def test_short_names_are_completed_as_docker_does(text, parts):
    reference = Reference.parse(text)
    assert (reference.host, reference.repository, reference.version) == parts


def test_a_size_is_looked_up_without_pulling_and_a_registry_that_is_away_is_asked_once(registry):
    here, gone = (
        [f"docker:{registry.address}/team/demo:{tag}" for tag in (1, 2)],
        [f"docker:localhost:9/x:{n}" for n in range(40)],
    )
    found = estimate([*here, *gone], ImageStore(), squash=True)
    assert (found.n_layers, found.n_present, found.n_unknown) == (2, 0, 0)
    assert found.total_bytes == found.read_bytes > 0
    assert "has no such image" in found.failed.pop(here[1])
    assert sorted(found.failed) == sorted(gone)
    assert len(set(found.failed.values())) <= 8, "each thread at most asks before the first answer"
    assert ImageStore().entries() == []
    pull(registry)
    again = estimate(here[:1], ImageStore(), squash=True)
    assert (again.n_present, again.read_bytes, again.total_bytes) == (2, 0, found.total_bytes)
    assert (found.present_bytes, again.present_bytes > 0) == (0, True)
