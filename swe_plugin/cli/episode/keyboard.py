"""`KeyboardPolicy`: a human types commands."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console

from swe_plugin.scaffolds.parsers import SUBMIT, write_action
from swe_plugin.types import Message, Reply, Segment

__all__ = ["KeyboardPolicy", "Lines"]

_HELP = "bash commands, a line that ends in \\ goes on; submit or Ctrl-D hands in, Ctrl-C gives up"


class Lines:
    """Lines of a descriptor, read without a thread: a thread that waits for input would outlive Ctrl-C."""

    def __init__(self, stream: TextIO) -> None:
        self._descriptor = stream.fileno()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._text, self._ended = "", False

    async def read(self) -> str | None:
        """The next line without its end, or None after the last one."""
        while "\n" not in self._text and not self._ended:
            await self._until_readable()
            chunk = os.read(self._descriptor, 4096)
            self._ended = not chunk
            self._text += self._decode(chunk, final=self._ended)
        if not self._text:
            self._ended = False  # a terminal goes on after Ctrl-D
            return None
        line, _, self._text = self._text.partition("\n")
        return line

    async def _until_readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except PermissionError:  # a regular file or /dev/null, which is always ready
            return
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)


class KeyboardPolicy:
    """Satisfies `policies.base.Policy`. What the agent would see has been printed when it prompts.

    Args:
        console: where the prompt goes.
        lines: what is typed.
        form: how an action is written, ``swe.scaffold.action``.
    """

    def __init__(self, console: Console, lines: Lines, form: str) -> None:
        self._console, self._lines, self._form = console, lines, form
        self._answers = 0

    @property
    def segments(self) -> Sequence[Segment]:
        """Always empty."""
        return ()

    async def respond(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()) -> Reply:
        """Ask for a command; the end of input submits."""
        if not self._answers:
            self._console.print(_HELP, style="dim", markup=False, highlight=False)
        self._answers += 1
        return Reply(write_action(await self._command(), self._form, call_id=f"call_{self._answers}"))

    async def _command(self) -> str:
        typed: list[str] = []
        while True:
            self._console.print("> " if typed else "command> ", end="", style="bold", highlight=False)
            line = await self._lines.read()
            if line is None:
                self._console.print()
                return "\n".join(typed) or SUBMIT
            if not typed and not line.strip():
                continue
            typed.append(line)
            if not line.endswith("\\"):
                return "\n".join(typed)
