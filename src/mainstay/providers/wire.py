"""From a request to pieces: the part of asking a model that all HTTP providers share."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from mainstay.core.allowance import Allowance
from mainstay.core.errors import ModelSilent, ProviderError, StreamBroken, Unauthorised
from mainstay.core.limits import Limits
from mainstay.core.ports import Finished, Piece
from mainstay.providers import allowance, trouble
from mainstay.providers.sse import EventCutter

Key = str | Callable[[], str | Awaitable[str]] | None


class Request(msgspec.Struct, frozen=True):
    url: str
    headers: dict[str, str]
    body: bytes


class Events(Protocol):
    """A streamed answer as batches of payloads: what arrived together is handled together.

    Set `spoken` once words came and `done` once the rest is only form: until the first and after the second
    nothing is held back. `close` gives the connection back if `done`, else closes it at once.
    """

    spoken: bool
    done: bool
    headers: Mapping[str, str]

    async def read(self) -> list[bytes]: ...
    @property
    def stray(self) -> bytes: ...
    def close(self) -> None: ...


class Answer(Protocol):
    """Makes pieces of payloads. `error` is what to raise after the pieces it returned."""

    error: ProviderError | None
    over: bool  # the stream has said that nothing follows

    def feed(self, payloads: list[bytes]) -> list[Piece]: ...
    def finished(self) -> Finished | None:
        """How it ended, or None as long as the model has not said so."""
        ...


class _Client(Protocol):
    def usable(self) -> bool: ...
    async def close(self) -> None: ...
    async def open(
        self, url: str, headers: dict[str, str], body: bytes, cutter: Callable[[], EventCutter]
    ) -> Events: ...


class Wire:
    """One provider's way to its API. `who` is its name in sentences; `cutter` cuts its answers into events."""

    def __init__(self, who: str, limits: Limits, cutter: Callable[[], EventCutter] = EventCutter) -> None:
        self.who = who
        self._limits = limits
        self._cutter = cutter
        self._client: _Client | None = None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def post_stream(self, url: str, headers: dict[str, str], body: bytes) -> Events:
        """Ask; returns when the answer begins. Raises only `ProviderError`s."""
        client = self._client
        if client is None or not client.usable():
            from mainstay.providers.http_client import Client  # TLS and proxies are loaded by those who ask

            client = self._client = Client(self.who, self._limits)
        return await client.open(url, headers, body, self._cutter)

    async def pieces(
        self, request: Request, key: Key, answer: Answer, heard: Callable[[Allowance], None] | None = None
    ) -> AsyncGenerator[Piece, None]:
        """Ask, and say what comes back. Closing this generator closes the connection at once."""
        secret = await _reveal(key, self.who)
        try:
            events = await self.post_stream(request.url, _with_key(request.headers, secret), request.body)
        except ProviderError as error:
            raise _scrub(error, secret) from None
        try:
            if heard is not None:
                heard(allowance.read(events.headers))
            while not answer.over:
                try:
                    payloads = await events.read()
                except (StreamBroken, ModelSilent):
                    if events.done:  # the model had finished; only the envelope is torn
                        break
                    raise
                if not payloads:
                    break
                for piece in answer.feed(payloads):
                    events.spoken = True
                    yield piece
                if answer.error is not None:
                    raise _scrub(answer.error, secret)
                events.done = answer.finished() is not None
            finished = answer.finished()
            if finished is None:
                raise _scrub(self._unfinished(events), secret)
            yield finished
        finally:
            events.close()

    def _unfinished(self, events: Events) -> ProviderError:
        if events.spoken:
            return StreamBroken(f"the answer of {self.who} stopped in the middle")
        return trouble.no_stream(self.who, events.stray)


async def _reveal(key: Key, who: str) -> str:
    secret = key
    if callable(key):
        try:
            made = key()
            secret = await made if inspect.isawaitable(made) else made
        except Exception as error:  # the caller's own function: whatever it raises, the key is what is missing
            sentence = f"the function that gives the API key for {who} failed: {type(error).__name__}"
            raise Unauthorised(sentence) from error
    secret = str(secret or "").strip()
    if not secret.isprintable():
        raise Unauthorised(f"the API key for {who} contains characters that no key has")
    return secret


def _with_key(headers: dict[str, str], secret: str) -> dict[str, str]:
    """Headers hold the place of the key as `{key}`; a header without a key to fill it is not sent."""
    return {name: value.replace("{key}", secret) for name, value in headers.items() if secret or "{key}" not in value}


def _scrub(error: ProviderError, secret: str) -> ProviderError:
    """No error ever carries the key, whatever the provider put into its message."""
    if secret and (secret in str(error) or secret in error.details):
        error.args = tuple(str(arg).replace(secret, "***") for arg in error.args)
        error.details = error.details.replace(secret, "***")
    return error
