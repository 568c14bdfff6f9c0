"""What can be known of a machine before a run: each look at the real thing, and what it says when that is missing."""

import json
import socket
import threading
from contextlib import contextmanager

import pytest

from swe_plugin.errors import ConfigError, PluginError
from swe_plugin.preflight import Finding
from swe_plugin.preflight.docker import look_at_docker
from swe_plugin.preflight.machine import look_at_machine, open_file_limit, open_files
from swe_plugin.preflight.pins import look_at_pins
from swe_plugin.preflight.ports import port_is_free
from swe_plugin.preflight.sandboxes import look_at_sandboxes
from swe_plugin.preflight.space import room, temporary_room, writable


def test_a_failing_finding_is_the_error_of_a_run():
    error = ConfigError("swe.slots.start", 0, "must be at least 1")
    finding = Finding.of("slots", error)
    assert (finding.line, str(finding.error())) == (str(error), str(error))
    assert Finding.of("plugins", PluginError("'x' is not installed")).line == "'x' is not installed"


def test_a_finding_is_json_whatever_its_value_is():
    value = json.loads(json.dumps(Finding("n", False, key="k", value={"a": [1]}).to_dict()))
    assert value["value"] == "{'a': [1]}"


def test_this_machine_is_described():
    found = {finding.name: finding for finding in look_at_machine()}
    assert found["Python"].ok
    assert found["GPU"].ok, "a machine without a GPU is no failure"
    assert "GiB" in found["memory"].detail


def test_more_environments_than_descriptors_are_refused():
    assert open_files(4).ok
    finding = open_files(open_file_limit())
    assert not finding.ok
    assert finding.line.startswith(f"ulimit -n={open_file_limit()}: must be at least ")


def test_a_directory_is_tried_and_nothing_is_left_in_it(tmp_path):
    assert writable(tmp_path / "a/b", "k", "v").ok
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    assert "file: is not a directory" in writable(tmp_path / "file/a", "k", "v").line
    assert "/proc: " in writable(tmp_path.joinpath("/proc/a"), "k", "v").line


def test_room_is_that_of_the_file_system(tmp_path):
    assert room(tmp_path / "new", 1e-6, "k", "v", "records").ok
    line = room(tmp_path / "new", 1e9, "k", "v", "records").line
    assert line.startswith("k='v': ")
    assert "1000000000.0 are needed for records" in line
    assert temporary_room().name == "temporary files"


def test_a_port_in_use_is_named_with_its_key():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port_is_free(port, "a.port", "name another one").line == (
            f"a.port={port}: Address already in use; name another one"
        )
    assert port_is_free(port, "a.port", "").ok
    assert not port_is_free(99999, "a.port", "name another one").ok


@contextmanager
def daemon(path, answer):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve():
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1024).startswith(b"GET /_ping ")
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join()


@pytest.mark.parametrize(
    ("answer", "ok"), [(b"HTTP/1.0 200 OK\r\n\r\nOK", True), (b"HTTP/1.0 500 Internal Server Error\r\n\r\n", False)]
)
def test_dockerd_is_asked_whether_it_lives(tmp_path, monkeypatch, answer, ok):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with daemon(tmp_path / "docker.sock", answer):
        assert look_at_docker(needed=True).ok is ok


def test_an_absent_dockerd_is_a_failure_only_where_it_is_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert look_at_docker(needed=False).ok
    line = look_at_docker(needed=True).line
    assert line.startswith(f"DOCKER_HOST='unix://{tmp_path}/no.sock': dockerd does not answer (No such file")


def test_a_version_out_of_bounds_is_named_with_its_bounds(tmp_path, monkeypatch):
    before = [finding.name for finding in look_at_pins()]
    (tmp_path / "tenacity-1.0.dist-info").mkdir()
    (tmp_path / "tenacity-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: tenacity\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = {finding.name: finding for finding in look_at_pins()}
    assert found.keys() - set(before) == {"version of tenacity"}
    assert found["version of tenacity"].line.startswith("tenacity='1.0': swe-plugin[")


def test_sandboxes_are_tried(tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path))
    found = {finding.name: finding for finding in look_at_sandboxes(needed=True)}
    assert found["namespaces"].detail.startswith("sandbox mode ")
    assert found["cgroups"].detail.startswith("memory: ")
    assert not list(tmp_path.rglob("*.json")), "a lease is left"
