"""Layers go to the disk while they grow; what cannot be written is an error, whenever it is found."""

import errno
import os
import threading

import pytest

from swe_plugin.environments.images import writeback as module
from swe_plugin.environments.images.writeback import Writeback, written_out


@pytest.fixture
def stride(monkeypatch):
    monkeypatch.setattr(module, "_STRIDE_BYTES", 100)


def test_the_disk_is_written_while_the_caller_goes_on(stride, monkeypatch, tmp_path):
    asked, free = [], threading.Event()
    monkeypatch.setattr(
        module, "_sync", lambda fd: asked.append(os.path.samestat(os.fstat(fd), tmp_path.stat())) or free.wait(60)
    )
    with Writeback(tmp_path) as writeback:
        for _ in range(50):  # would wait for ever if it waited for the disk
            writeback.add(99)
        free.set()
    assert asked == [True]


def test_small_layers_do_not_ask_for_it(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_sync", lambda fd: pytest.fail("asked"))
    with Writeback(tmp_path) as writeback:
        writeback.add(1 << 20)


def raise_(error):
    raise error


def fill(directory, parts, error=None):
    with Writeback(directory) as writeback:
        for _ in range(parts):
            writeback.add(100)
            writeback._thread.join()
        if error:
            raise error


@pytest.mark.parametrize("parts", [1, 2], ids=["at the end", "on the way"])
def test_an_error_of_the_disk_is_not_lost(stride, monkeypatch, tmp_path, parts):
    broken = iter([OSError(errno.EIO, "the disk is broken")])
    monkeypatch.setattr(module, "_sync", lambda fd: [raise_(error) for error in broken])
    with pytest.raises(OSError, match="the disk is broken"):
        fill(tmp_path, parts)


def test_what_the_caller_was_about_comes_first(stride, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_sync", lambda fd: raise_(OSError("the disk is broken")))
    with pytest.raises(ZeroDivisionError):
        fill(tmp_path, 1, ZeroDivisionError())


def test_what_a_block_wrote_is_on_the_disk_or_an_error(monkeypatch, tmp_path):
    with written_out(tmp_path):
        (tmp_path / "a").write_text("x")
    monkeypatch.setattr(module, "_sync", lambda fd: raise_(OSError(errno.EIO, "the disk is broken")))
    with pytest.raises(OSError, match="the disk is broken"), written_out(tmp_path):
        pass
    with pytest.raises(FileNotFoundError), written_out(tmp_path / "none"):
        pass
