"""Prompt cache on disk: the prompt prefix that all conversations with the same tools share.

Reading a few hundred tokens takes an ordinary processor several seconds. llama.cpp can save its state after reading
them to a file of some megabytes and restore it in a moment, so the first answer of a new process need not wait. Such a
file contains our own prompt and the descriptions of the tools, and nothing of any conversation.
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

from mainstay.core.errors import ProviderError, StreamBroken
from mainstay.core.messages import FinishReason
from mainstay.core.ports import Piece, StreamFinished
from mainstay.core.worker_threads import run_in_thread
from mainstay.providers.local.process import RunningModelServer
from mainstay.providers.local.prompt import ChatTemplateMessage
from mainstay.providers.wire.decoding import DECODING_ERRORS
from mainstay.providers.wire.encoding import encode

log = logging.getLogger("mainstay.providers")

CALL_TIMEOUT_S = 30.0
CACHE_FILES_MAX = 4  # a few megabytes each; tools change rarely
CACHE_SUFFIX = ".state"
# (path, body) to the pieces of the streamed response
StreamRequest = Callable[[str, bytes], AsyncGenerator[Piece, None]]


class PromptCache:
    """Loads the shared prefix into a server that has read nothing yet, from the cache if possible."""

    def __init__(self, server: RunningModelServer, folder: Path, weights_path: Path) -> None:
        self._server = server
        self._folder = folder
        self._weights_path = weights_path

    async def warm_up(
        self, turns: Sequence[ChatTemplateMessage], stream_request: StreamRequest, on_prefill: Callable[[int], None]
    ) -> None:
        """Restore the prefix, or let the server read it and save its state. Errors are logged: they only cost time.

        `on_prefill` is called with the number of tokens if they have to be read.
        """
        try:
            text = await self._render_shared_prefix(turns)
            name = self._cache_file_name(text)
            if not text or await self._restore(name):
                return
            on_prefill(len(text) // 4)
            async with aclosing(
                stream_request("/completion", encode({"prompt": text, "n_predict": 0, "stream": True}))
            ) as pieces:
                async for _ in pieces:
                    pass
            await self._save(name)
        except (ProviderError, OSError, HTTPException, ValueError, msgspec.DecodeError) as error:
            log.info("the prompt prefix could not be cached: %s", error)

    async def _render_shared_prefix(self, turns: Sequence[ChatTemplateMessage]) -> str:
        """Return the prefix as the model's template renders it, up to the first character of a user's message."""
        rendered = []
        for last in ("a", "b"):
            messages = [*turns, ChatTemplateMessage("user", last)]
            response = await self._call_server("/apply-template", {"messages": msgspec.to_builtins(messages)})
            rendered.append(str(response.get("prompt", "")))
        differences = (index for index, (a, b) in enumerate(zip(*rendered, strict=False)) if a != b)
        return rendered[0][: next(differences, 0)]

    def _cache_file_name(self, text: str) -> str:
        """Return a file name for this text, these weights and this library release, which may change the format."""
        from importlib.metadata import PackageNotFoundError, version  # needed only after a server start

        try:
            release = version("xllamacpp")
        except PackageNotFoundError:
            release = ""
        status = self._weights_path.stat()
        basis = f"{self._weights_path}\0{status.st_size}\0{status.st_mtime_ns}\0{release}\0{text}"
        return hashlib.sha256(basis.encode()).hexdigest()[:32] + CACHE_SUFFIX

    async def _restore(self, name: str) -> bool:
        file = self._folder / name
        if not file.is_file():
            return False
        try:
            response = await self._call_server("/slots/0?action=restore", {"filename": name})
            file.touch()
        except (OSError, HTTPException, ValueError, msgspec.DecodeError):
            file.unlink(missing_ok=True)  # incomplete, or from another release
            return False
        return bool(response.get("n_restored"))

    async def _save(self, name: str) -> None:
        """Save the state of the server. The file gets its name only once it is complete."""
        temporary = f"{secrets.token_hex(8)}.new"
        await self._call_server("/slots/0?action=save", {"filename": temporary})
        os.chmod(self._folder / temporary, 0o600)
        os.replace(self._folder / temporary, self._folder / name)
        prune_cache(self._folder)

    async def _call_server(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response: dict[str, Any] = await run_in_thread(
            partial(_post_json, self._server.url, self._server.key, path, body)
        )
        return response


def prune_cache(folder: Path) -> None:
    """Remove all but the newest `CACHE_FILES_MAX` files, and incomplete ones."""
    newest_first = sorted(folder.glob(f"*{CACHE_SUFFIX}"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in (*newest_first[CACHE_FILES_MAX:], *folder.glob("*.new")):
        file.unlink(missing_ok=True)


def _post_json(url: str, key: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Post JSON and return the decoded response; blocks. Raises ValueError if the status is not 200."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=CALL_TIMEOUT_S)
    try:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", path, encode(body), headers)
        response = connection.getresponse()
        data = response.read()
        if response.status != 200:
            raise ValueError(f"{path} failed with status {response.status}")
        return msgspec.json.decode(data, type=dict[str, Any])
    finally:
        connection.close()


class PrefillResponseParser:
    """A `ResponseParser` for a request that generates no tokens: it only waits for the end."""

    error: ProviderError | None = None
    is_over = False

    def feed(self, payloads: list[bytes]) -> list[Piece]:
        for payload in payloads:
            try:
                event = msgspec.json.decode(payload)
            except DECODING_ERRORS:
                self.error = StreamBroken("the local server sent an event that cannot be parsed")
                break
            match event:
                case {"stop": True}:
                    self.is_over = True
        return []

    def final_piece(self) -> StreamFinished | None:
        return StreamFinished(FinishReason.END) if self.is_over else None
