"""`swe-plugin cache`, as a user calls it, on a store of its own."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from http.server import ThreadingHTTPServer

import pytest
from environments.image_archives import docker_save, layer, oci_layout
from environments.test_registry import Registry
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app
from swe_plugin.environments.images import ImageStore
from swe_plugin.environments.sandbox import close_zygote
from swe_plugin.environments.sandbox.probe import require_mode


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    close_zygote()
    require_mode.cache_clear()
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path / "home"))
    yield
    close_zygote()
    require_mode.cache_clear()


@pytest.fixture
def call():
    return lambda *words: CliRunner().invoke(build_app(), ["cache", *words])


@pytest.fixture
def archive(tmp_path):
    docker_save(tmp_path / "x.tar", [layer(("a", "x" * 5000)), layer(("b", "y"))])
    return f"oci:{tmp_path}/x.tar"


def test_an_image_is_estimated_built_listed_verified_and_pruned(call, archive):
    planned = json.loads(call("build", archive, "--dry-run", "--json").stdout)
    assert planned["images"] == []
    assert (planned["estimate"]["n_layers"], planned["estimate"]["n_present"]) == (2, 0)
    assert planned["estimate"]["read_bytes"] > 10000
    done = call("build", archive, "--json")
    assert done.exit_code == 0, done.stderr
    (built,) = json.loads(done.stdout)["images"]
    assert (built["base"], built["n_layers"], built["error"]) == (archive, 2, "")
    listed = json.loads(call("ls", "--json").stdout)
    assert {entry["what"] for entry in listed} == {f"{archive} layer 1/2", f"{archive} layer 2/2"}
    assert not any(entry["in_use"] for entry in listed)
    assert call("verify").exit_code == 0
    again = call("build", archive)
    assert "2 layers of bases, 2 of them here" in again.stderr
    assert "1 images are there, 0 are not" in again.stdout
    pruned = json.loads(call("prune", "--keep-gib", "0", "--json").stdout)
    assert (len(pruned["removed"]), pruned["left_bytes"]) == (2, 0)
    assert json.loads(call("ls", "--json").stdout) == []


def test_one_bad_image_stops_no_other_and_is_named_by_its_instance(call, archive, tmp_path):
    rows = [
        {"instance_id": "bad-1", "problem_statement": "", "image": {"base": "oci:/no/such"}},
        {"instance_id": "bad-2", "problem_statement": "", "image": {"base": archive, "workdir": "/"}},
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = call("build", archive, str(tmp_path / "tasks.jsonl"), "--json")
    assert done.exit_code == 1
    images = {image["name"]: image["error"] for image in json.loads(done.stdout)["images"]}
    assert images[archive] == ""
    assert "/no/such does not exist" in images["bad-1"]
    assert "the image has no bash" in images["bad-2"]
    assert "bad-1: image 'oci:/no/such': " in done.stderr


def test_damage_is_found_and_taken_away(call, archive):
    call("build", archive)
    store = ImageStore()
    victim = next(entry for entry in store.entries() if "1/2" in entry.what)
    (store.root / victim.key / "a").write_text("short")
    found = call("verify", "--json")
    assert found.exit_code == 1
    ((key, removed),) = [(item["key"], item["removed"]) for item in json.loads(found.stdout)]
    assert (key, removed) == (victim.key, False)
    assert "(removed)" in call("verify", "--remove").stdout
    assert call("verify").exit_code == 0
    assert call("build", archive).exit_code == 0
    assert (store.root / victim.key / "a").stat().st_size == 5000


def test_what_is_in_use_is_not_pruned(call, archive):
    call("build", archive)
    store = ImageStore()
    held = store.get(store.entries()[0].key, lambda root: None)
    done = call("prune", "--keep-gib", "0", "--json")
    assert done.exit_code == 1
    assert len(json.loads(done.stdout)["removed"]) == 1
    assert [entry["in_use"] for entry in json.loads(call("ls", "--json").stdout)] == [True]
    store.release(held)
    assert call("prune", "--keep-gib", "0").exit_code == 0


class Endless(Registry):
    """Never gets to the end of a layer."""

    def blob(self, data):
        if data.startswith(b"{"):
            return super().blob(data)
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 40))
        self.end_headers()
        self.wfile.write(data)
        self.server.reached.set()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(bytes(1000))
                time.sleep(0.01)


@pytest.mark.slow
def test_ctrl_c_ends_downloads_and_leaves_whole_layers_only(tmp_path):
    layout = oci_layout(tmp_path / "layout", {"demo": [layer(("a", "x"))]})
    blobs = {f"sha256:{path.name}": path.read_bytes() for path in (layout / "blobs/sha256").iterdir()}
    (entry,) = json.loads((layout / "index.json").read_text())["manifests"]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    server.daemon_threads, server.block_on_close = True, False
    server.manifests = {"1": blobs[entry["digest"]], entry["digest"]: blobs[entry["digest"]]}
    server.blobs, server.asked, server.private, server.hiccups, server.breaks = blobs, [], False, 0, 0
    server.reached = threading.Event()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    words = ["cache", "build", f"docker:127.0.0.1:{server.server_port}/team/demo:1", "rootfs:/no/such"]
    with subprocess.Popen(
        [sys.executable, "-m", "swe_plugin.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts its background jobs deaf to Ctrl-C, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert server.reached.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    server.shutdown()
    server.server_close()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "stopped; what is whole stays, and the same command goes on with the rest"
    assert list((tmp_path / "home/images/tmp").iterdir()) == []
    assert not [path for path in (tmp_path / "home/leases").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "words", [["build", "tasks.jsonl"], ["build", "host", "--mode", "magic"], ["prune"], ["build"]]
)
def test_a_wrong_argument_is_exit_code_2(call, words):
    assert call(*words).exit_code == 2


@pytest.mark.parametrize("command", ["build", "ls", "verify", "prune"])
def test_every_command_has_a_manual(call, command):
    shown = call(command, "--help").stdout
    assert "Example: swe-plugin cache" in shown
    assert "Exit codes:" in shown
