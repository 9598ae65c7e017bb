"""The beginning that all conversations with the same tools share, read once and kept on disk.

To read a few hundred tokens takes an ordinary processor several seconds. What llama.cpp knows after reading them is a
file of some megabytes that it reads back in a moment, so the first answer of a new process need not wait for it. Such a
file holds our own words and the descriptions of the tools, and nothing that anybody said.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mainstay.core.errors import ProviderError
from mainstay.core.messages import FinishReason
from mainstay.core.ports import Finished, Piece
from mainstay.core.workers import in_thread
from mainstay.providers.forms import encode
from mainstay.providers.local.process import Place
from mainstay.providers.local.prompt import Turn

log = logging.getLogger("mainstay.providers")

CALL_S = 30.0
STATES_MAX = 4  # of a few megabytes each: tools change rarely
SUFFIX = ".state"
Read = Callable[[str, bytes], AsyncGenerator[Piece, None]]  # a path and a body to what a stream says


class Beginning:
    """Brings a process that has read nothing yet to where the conversation begins."""

    def __init__(self, place: Place, states: Path, weights: Path) -> None:
        self._place = place
        self._states = states
        self._weights = weights

    async def prepare(self, turns: Sequence[Turn], read: Read, notice: Callable[[int], None]) -> None:
        """Whatever goes wrong here costs time and nothing else. `notice` is told how much has to be read."""
        try:
            text = await self._shared(turns)
            name = self._name(text)
            if not text or await self._restored(name):
                return
            notice(len(text) // 4)
            async with aclosing(
                read("/completion", encode({"prompt": text, "n_predict": 0, "stream": True}))
            ) as pieces:
                async for _ in pieces:
                    pass
            await self._save(name)
        except (ProviderError, OSError, HTTPException, ValueError, msgspec.DecodeError) as error:
            log.info("the beginning of a conversation could not be kept: %s", error)

    async def _shared(self, turns: Sequence[Turn]) -> str:
        """As the model's own template writes it, up to where people begin to differ."""
        rendered = []
        for last in ("a", "b"):
            messages = [*turns, Turn("user", last)]
            answer = await self._call("/apply-template", {"messages": msgspec.to_builtins(messages)})
            rendered.append(str(answer.get("prompt", "")))
        same = (place for place, (one, other) in enumerate(zip(*rendered, strict=False)) if one != other)
        return rendered[0][: next(same, 0)]

    def _name(self, text: str) -> str:
        """For these words, these weights, and this release of the library: another could read it otherwise."""
        from importlib.metadata import PackageNotFoundError, version  # only when a process has just begun

        try:
            release = version("xllamacpp")
        except PackageNotFoundError:
            release = ""
        seen = self._weights.stat()
        basis = f"{self._weights}\0{seen.st_size}\0{seen.st_mtime_ns}\0{release}\0{text}"
        return hashlib.sha256(basis.encode()).hexdigest()[:32] + SUFFIX

    async def _restored(self, name: str) -> bool:
        file = self._states / name
        if not file.is_file():
            return False
        try:
            answer = await self._call("/slots/0?action=restore", {"filename": name})
            file.touch()
        except (OSError, HTTPException, ValueError, msgspec.DecodeError):
            file.unlink(missing_ok=True)  # half written, or by another release
            return False
        return bool(answer.get("n_restored"))

    async def _save(self, name: str) -> None:
        """Under its name only once it is whole."""
        passing = f"{secrets.token_hex(8)}.new"
        await self._call("/slots/0?action=save", {"filename": passing})
        os.chmod(self._states / passing, 0o600)
        os.replace(self._states / passing, self._states / name)
        prune(self._states)

    async def _call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        done: dict[str, Any] = await in_thread(partial(_post, self._place.url, self._place.key, path, body))
        return done


def prune(states: Path) -> None:
    """The newest stay; what a process left half written goes."""
    found = sorted(states.glob(f"*{SUFFIX}"), key=lambda one: one.stat().st_mtime, reverse=True)
    for one in (*found[STATES_MAX:], *states.glob("*.new")):
        one.unlink(missing_ok=True)


def _post(url: str, key: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """One call that answers at once. Raises ValueError if it was refused."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=CALL_S)
    try:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", path, encode(body), headers)
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise ValueError(f"{path} was refused with {answer.status}")
        return msgspec.json.decode(data, type=dict[str, Any])
    finally:
        connection.close()


class Reading:
    """The answer to a request for none: only that it is over."""

    error: ProviderError | None = None
    over = False

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        for payload in payloads:
            match msgspec.json.decode(payload):
                case {"stop": True}:
                    self.over = True
        return []

    def finished(self) -> Finished | None:
        return Finished(FinishReason.END) if self.over else None
