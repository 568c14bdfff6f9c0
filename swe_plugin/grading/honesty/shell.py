"""Scripts of an agent, taken apart into commands: well enough to see what was called, not a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

__all__ = ["Command", "commands"]

_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)(\w+)\1")
_BODY = "HEREDOC-BODY-"
_ENDS = set(";&|()\n")
_ASSIGNMENT = re.compile(r"\w+=")
_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_BEFORE = {"sudo", "env", "timeout", "nohup", "time", "nice", "xargs", "command", "exec", "builtin", "stdbuf"}
_KEYWORDS = {"then", "do", "else", "elif", "if", "while", "until", "!", "{"}
_SHELLS = {"bash", "sh", "dash", "zsh"}
_SUBSTITUTION = re.compile(r"\$\(([^()]+)\)|`([^`]+)`")
_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: `words` without assignments and wrappers like ``timeout 5``; `stdin` is its here-document."""

    words: tuple[str, ...]
    stdin: str = ""

    @property
    def name(self) -> str:
        """What is called."""
        return PurePosixPath(self.words[0]).name or self.words[0]


def commands(script: str, depth: int = 0) -> Iterator[Command]:
    """The simple commands of a script, those in ``bash -c``, ``eval`` and substitutions included."""
    text, bodies = _without_bodies(script)
    for words in _split(text):
        stdin = "".join(bodies[int(word.removeprefix(_BODY))] for word in words if word.startswith(_BODY))
        words = _called([word for word in words if not word.startswith(_BODY)])
        if not words:
            continue
        command = Command(tuple(words), stdin)
        yield command
        if depth < _MAX_DEPTH:
            for inner in _inside(command):
                yield from commands(inner, depth + 1)


def _inside(command: Command) -> Iterator[str]:
    words = command.words
    if command.name in _SHELLS:
        if stdin := command.stdin:
            yield stdin
        yield from (after for word, after in pairwise(words) if re.fullmatch(r"-\w*c", word))
    elif command.name == "eval":
        yield " ".join(words[1:])
    for word in words:
        yield from (match[1] or match[2] for match in _SUBSTITUTION.finditer(word))


def _without_bodies(script: str) -> tuple[str, list[str]]:
    """The script with names in place of its here-documents, and their texts."""
    kept: list[str] = []
    bodies: list[str] = []
    lines = iter(script.replace("\\\n", " ").split("\n"))
    for line in lines:
        for marker in _HEREDOC.finditer(line):
            body = []
            for inner in lines:
                if inner.strip() == marker[2]:
                    break
                body.append(f"{inner}\n")
            line = line.replace(marker[0], f" {_BODY}{len(bodies)} ", 1)
            bodies.append("".join(body))
        kept.append(line)
    return "\n".join(kept), bodies


def _split(text: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        tokens = list(lexer)
    except ValueError:  # quotes that are not closed
        tokens = re.findall(r"\n|[;&|()]+|[^\s;&|()]+", text)
    words: list[str] = []
    comment = False
    for token in tokens:
        if _ENDS.intersection(token) and set(token) <= _ENDS | {"<", ">"}:
            comment = comment and "\n" not in token
            yield words
            words = []
        elif token.startswith("#") or comment:
            comment = True
        elif not set(token) <= {"<", ">"}:
            words.append(token)
    yield words


def _called(words: list[str]) -> list[str]:
    """The words from the one on that names what is called."""
    wrapped = False
    while words:
        head = PurePosixPath(words[0]).name or words[0]
        if head in _BEFORE:
            wrapped = True
        elif not (
            head in _KEYWORDS
            or _ASSIGNMENT.match(words[0])
            or (wrapped and (head.startswith("-") or _DURATION.fullmatch(words[0])))
        ):
            break
        words = words[1:]
    return words
