"""Layers go to the disk while they grow; what cannot be written is an error, whenever it is found."""

import errno
import threading

import pytest

from swe_plugin.environments.images import writeback as module
from swe_plugin.environments.images.writeback import Writeback, write_out


@pytest.fixture
def stride(monkeypatch):
    monkeypatch.setattr(module, "_STRIDE_BYTES", 100)


def test_the_disk_is_written_while_the_caller_goes_on(stride, monkeypatch, tmp_path):
    asked, free = [], threading.Event()
    monkeypatch.setattr(module, "write_out", lambda directory: asked.append(directory) or free.wait(60))
    with Writeback(tmp_path) as writeback:
        for _ in range(50):  # would wait for ever if it waited for the disk
            writeback.add(99)
        assert asked == [tmp_path]
        free.set()
    assert asked == [tmp_path]


def test_small_layers_do_not_ask_for_it(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "write_out", lambda directory: pytest.fail("asked"))
    with Writeback(tmp_path) as writeback:
        writeback.add(1 << 20)


def fill(directory, parts, error=None):
    with Writeback(directory) as writeback:
        for _ in range(parts):
            writeback.add(100)
            while not writeback._running.done():
                pass
        if error:
            raise error


@pytest.mark.parametrize("parts", [1, 2], ids=["at the end", "on the way"])
def test_an_error_of_the_disk_is_not_lost(stride, monkeypatch, tmp_path, parts):
    def broken(directory):
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(module, "write_out", broken)
    with pytest.raises(OSError, match="the disk is broken"):
        fill(tmp_path, parts)
    with pytest.raises(ZeroDivisionError):  # what the caller was about comes first
        fill(tmp_path, 1, ZeroDivisionError())


def test_writing_out_needs_a_directory(tmp_path):
    write_out(tmp_path)
    with pytest.raises(FileNotFoundError):
        write_out(tmp_path / "none")
