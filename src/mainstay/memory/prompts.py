"""Named prompts: those that come with the package, and the owner's own in `<home>/prompts/`.

A prompt's first line may say its version (`version: 2`). It is not part of the text.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from mainstay.io.paths import Watched

log = logging.getLogger("mainstay.memory")

PROMPT_BYTES_MAX = 64 * 1024
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_VERSION = re.compile(r"version:[ \t]*(\S{1,64})[ \t]*(?:\r?\n|\Z)")


class Prompt(msgspec.Struct, frozen=True):
    name: str
    text: str
    version: str  # of the package, or the owner's; one that says none is known by its content
    own: bool = False  # the owner's, not the package's

    def fill(self, values: Mapping[str, str]) -> str:
        """A name in braces is a place to be filled; all other braces are text."""
        text = self.text
        for key, value in values.items():
            text = text.replace("{" + key + "}", value)
        return text


class Prompts:
    """Looked at whenever they are used, so that a change on disk is seen."""

    def __init__(self, home: Path | None = None) -> None:
        self._home = home
        self._own: dict[str, _Own] = {}

    def get(self, name: str) -> Prompt:
        """The owner's if there is a usable one, else the package's; the same object while it is the same."""
        if self._home is None:
            return _packaged(name)
        own = self._own.get(name)
        if own is None:
            assert _NAME.fullmatch(name), f"{name!r} is no prompt's name"
            own = self._own[name] = _Own(name, self._home)
        return own.get() or _packaged(name)


class _Own:
    """An owner's prompt, if there is one."""

    def __init__(self, name: str, home: Path) -> None:
        self._name = name
        self._path = home / "prompts" / f"{name}.md"
        self._watched = Watched(str(home), str(self._path), PROMPT_BYTES_MAX)
        self._found: tuple[bytes, int] | None = None
        self._prompt: Prompt | None = None
        self._complaint = ""

    def get(self) -> Prompt | None:
        try:
            found = self._watched.read()
        except OSError as error:
            self._complain(error.strerror or str(error))
            found = None
        if found is not self._found:
            self._found = found
            self._prompt = None if found is None else self._read(*found)
        return self._prompt

    def _read(self, data: bytes, size: int) -> Prompt | None:
        if size > PROMPT_BYTES_MAX:
            self._complain(f"it is over {PROMPT_BYTES_MAX} bytes")
            return None
        try:
            prompt = _parse(self._name, data.decode(), own=True)
        except UnicodeDecodeError:
            self._complain("it is not UTF-8")
            return None
        return prompt if prompt.text else None

    def _complain(self, reason: str) -> None:
        if reason != self._complaint:  # once: it is asked again and again
            self._complaint = reason
            log.warning("%s is not used, the packaged prompt is: %s", self._path, reason)


@cache
def _packaged(name: str) -> Prompt:
    return _parse(name, (files("mainstay.memory") / "prompts" / f"{name}.md").read_text("utf-8"), own=False)


def _parse(name: str, text: str, *, own: bool) -> Prompt:
    text = text.removeprefix("\ufeff")
    found = _VERSION.match(text)
    body = (text[found.end() :] if found else text).strip()
    version = found[1] if found else hashlib.sha256(body.encode()).hexdigest()[:12]
    return Prompt(name, body, version, own)
