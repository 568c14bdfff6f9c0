"""`swe-plugin cache build --backend docker`: the images of a data set on the daemon before a run needs them."""

import json
import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app
from swe_plugin.environments.docker import close_daemons

from ..image_archives import layer, oci_layout
from .registry import LOGIN, registry

pytestmark = pytest.mark.docker


@pytest.fixture
def published(dockerd, tmp_path, monkeypatch):
    """A registry with `one` and `two`, which share a layer of some MiB, and a configuration of Docker with a login."""
    shared = layer(("usr/share/data", os.urandom(2 << 20).hex()))
    images = {name: [shared, layer((f"etc/{name}", os.urandom(9).hex()))] for name in ("one", "two")}
    oci_layout(tmp_path / "layout", images, compress=bytes)  # gzip would put the time in
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    (tmp_path / "docker").mkdir()
    with registry(tmp_path / "layout") as server:
        login(tmp_path, server, LOGIN)
        yield server
        close_daemons()


def login(tmp_path, server, secret):
    """The daemon's client reads it when it connects."""
    close_daemons()
    text = json.dumps({"auths": {server.name.partition("/")[0]: {"auth": secret}}})
    (tmp_path / "docker/config.json").write_text(text)


def build(*words):
    done = CliRunner().invoke(build_app(), ["cache", "build", *words, "--backend", "docker", "--json"])
    return done, json.loads(done.stdout) if done.stdout else {}


def test_images_are_estimated_and_fetched_once(published, client):
    names = [f"docker:{published.name}:{tag}" for tag in ("one", "two")]
    done, planned = build(*names, "--dry-run")
    assert done.exit_code == 0, done.output
    sizes = {item["digest"]: item["size"] for tag in ("one", "two") for item in manifest(published, tag)["layers"]}
    known = {"n_layers": 3, "n_present": 0, "read_bytes": sum(sizes.values()), "n_unknown": 0, "failed": {}}
    assert {key: planned["estimate"][key] for key in known} == known
    assert not client.images.list(published.name)
    done, built = build(*names)
    assert done.exit_code == 0, done.output
    assert {(image["base"], image["n_layers"], image["error"]) for image in built["images"]} == {
        (name, 2, "") for name in names
    }
    fetched = [name for name in published.asked if name in sizes]
    assert sorted(fetched) == sorted(sizes), "a layer was fetched twice or not at all"
    again, _ = build(*names)
    assert "2 images, 3 layers of bases, 3 of them here; to read: 0.00 GiB" in again.stderr
    assert [name for name in published.asked if name in sizes] == fetched


def manifest(server, tag):
    return json.loads(server.manifests[tag])


def test_what_fails_is_named_by_its_instance_and_stops_no_other(published, tmp_path):
    rows = [
        {"instance_id": "a-1", "problem_statement": "", "image": {"base": f"docker:{published.name}:one"}},
        {"instance_id": "b-2", "problem_statement": "", "image": {"base": f"docker:{published.name}:none"}},
        {"instance_id": "c-3", "problem_statement": "", "image": {"base": "host", "files": {"a": "1"}}},
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done, built = build(str(tmp_path / "tasks.jsonl"), "--jobs", "3")
    assert done.exit_code == 1
    errors = {image["name"]: image["error"] for image in built["images"]}
    assert errors["a-1"].startswith("a-1: the image has no bash in ")
    assert errors["b-2"].startswith(f"image 'docker:{published.name}:none' cannot be fetched: ")
    assert errors["c-3"] == ""


def test_a_wrong_login_is_said(published, tmp_path):
    login(tmp_path, published, "bWU6d3Jvbmc=")
    done, built = build(f"docker:{published.name}:one")
    assert done.exit_code == 1
    assert "cannot be fetched: " in built["images"][0]["error"]


def test_ctrl_c_stops_the_daemon_and_the_same_command_goes_on(published, client, dockerd):
    published.holds_above = 1 << 20
    words = ["cache", "build", f"docker:{published.name}:two", "--backend", "docker"]
    with subprocess.Popen(
        [sys.executable, "-m", "swe_plugin.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts its background jobs deaf to Ctrl-C, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert published.reached.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "stopped; what is whole stays, and the same command goes on with the rest"
    assert not client.images.list(f"{published.name}:two")
    assert not dockerd.containers()
    published.going_on.set()
    done, _ = build(f"docker:{published.name}:two")
    assert done.exit_code == 0, done.output
    assert client.images.list(f"{published.name}:two")


def test_a_daemon_that_is_not_there_is_exit_code_2(tmp_path):
    done = CliRunner().invoke(
        build_app(),
        [
            "cache",
            "build",
            "host",
            "swe.environment.backend=docker",
            f"swe.environment.options.host=unix://{tmp_path}/x",
        ],
    )
    assert done.exit_code == 2
    assert "does not answer" in done.stderr
