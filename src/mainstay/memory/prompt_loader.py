"""Loads named prompts: those of the package, and the owner's overrides in `<home>/prompts/`.

A prompt's first line may be its version (`version: 2`). It is not part of the text.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from mainstay.io.paths import CachedFileReader

log = logging.getLogger("mainstay.memory")

PROMPT_BYTES_MAX = 64 * 1024
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_VERSION = re.compile(r"version:[ \t]*(\S{1,64})[ \t]*(?:\r?\n|\Z)")


class PromptTemplate(msgspec.Struct, frozen=True):
    name: str
    text: str
    version: str  # from the first line; without one, a hash of the text
    is_override: bool = False  # the owner's override, not the package's

    def fill(self, values: Mapping[str, str]) -> str:
        """Replace `{name}` for every given name; all other braces are text."""
        text = self.text
        for key, value in values.items():
            text = text.replace("{" + key + "}", value)
        return text


class PromptLoader:
    """Returns prompts by name. Files are checked on every use, so that changes on disk are seen."""

    def __init__(self, home: Path | None = None) -> None:
        self._home = home
        self._overrides: dict[str, _PromptOverride] = {}

    def get(self, name: str) -> PromptTemplate:
        """Return the owner's override if it is usable, else the package's prompt; the same object until it changes."""
        if self._home is None:
            return _load_packaged(name)
        own = self._overrides.get(name)
        if own is None:
            assert _NAME.fullmatch(name), f"{name!r} is not a valid prompt name"
            own = self._overrides[name] = _PromptOverride(name, self._home)
        return own.get() or _load_packaged(name)


class _PromptOverride:
    """The owner's override of one prompt, if the file exists."""

    def __init__(self, name: str, home: Path) -> None:
        self._name = name
        self._path = home / "prompts" / f"{name}.md"
        self._watched = CachedFileReader(str(home), str(self._path), PROMPT_BYTES_MAX)
        self._content: tuple[bytes, int] | None = None
        self._prompt: PromptTemplate | None = None
        self._last_warning = ""

    def get(self) -> PromptTemplate | None:
        try:
            content = self._watched.read()
        except OSError as error:
            self._warn_once(error.strerror or str(error))
            content = None
        if content is not self._content:
            self._content = content
            self._prompt = None if content is None else self._decode(*content)
        return self._prompt

    def _decode(self, data: bytes, size: int) -> PromptTemplate | None:
        if size > PROMPT_BYTES_MAX:
            self._warn_once(f"it is larger than {PROMPT_BYTES_MAX} bytes")
            return None
        try:
            prompt = _parse_prompt(self._name, data.decode(), is_override=True)
        except UnicodeDecodeError:
            self._warn_once("it is not UTF-8")
            return None
        return prompt if prompt.text else None

    def _warn_once(self, reason: str) -> None:
        if reason != self._last_warning:  # the file is read on every use, so log a reason once
            self._last_warning = reason
            log.warning("%s cannot be used, the packaged prompt is used instead: %s", self._path, reason)


@cache
def _load_packaged(name: str) -> PromptTemplate:
    return _parse_prompt(
        name, (Path(__file__).with_name("prompts") / f"{name}.md").read_text("utf-8"), is_override=False
    )


def _parse_prompt(name: str, text: str, *, is_override: bool) -> PromptTemplate:
    text = text.removeprefix("\ufeff")
    header = _VERSION.match(text)
    body = (text[header.end() :] if header else text).strip()
    version = header[1] if header else hashlib.sha256(body.encode()).hexdigest()[:12]
    return PromptTemplate(name, body, version, is_override)
