"""A model on this machine: weights that were pulled, or somebody's own file, run by llama.cpp in a process of its own.

Small models are not asked for tool calls in the way of the large ones: they get them wrong. They answer with a word
that says what follows, held to it by a grammar (`grammar`, `actions`), and are told everything in few words (`prompt`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from mainstay.core.errors import ConfigError, ProviderError, RequestRefused, StreamBroken, Unreachable
from mainstay.core.limits import Limits
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Tool
from mainstay.core.workers import in_thread
from mainstay.providers.forms import Kept, encode
from mainstay.providers.local import weights
from mainstay.providers.local.actions import LocalAnswer, Progress
from mainstay.providers.local.grammar import write_grammar
from mainstay.providers.local.info import info_of
from mainstay.providers.local.prefix import Beginning, Reading
from mainstay.providers.local.process import MISSING, LocalProcess, Place, Weight, give_back, shared
from mainstay.providers.local.prompt import conversation, opening, word_for
from mainstay.providers.wire import Answer, Events, Request, Wire

LOADING_S = 5.0  # as whoever waits is told; it may be more
QUEUE_S = 30.0  # between two words to whoever waits while somebody else is answered
TELL_S = 2.0  # what takes less than this is not worth a word
TOKENS_PER_S = 30.0  # read, until it is known how many it really are
TEMPERATURE = 0.0  # small models wander
STARTS_MAX = 3  # of a process that leaves whenever it is asked
STATES = "states"


def make_local(
    name: str, limits: Limits | None, info: ModelInfo | None, environ: Mapping[str, str] = os.environ
) -> LocalProvider:
    """Raises ConfigError where the weights or the library are not there."""
    place = weights.folder(environ)
    path = weights.path_of(name, place)
    if find_spec("xllamacpp") is None:
        raise ConfigError(MISSING.format(library="xllamacpp"))
    return LocalProvider(path, place / STATES, limits=limits, info=info or info_of(name))


class LocalProvider:
    """One file of weights. Nothing runs before the first request."""

    def __init__(self, path: Path, states: Path, *, limits: Limits | None = None, info: ModelInfo) -> None:
        self._limits = limits or Limits()
        self._info = info
        self._path = path
        self._weight = Weight(path.absolute(), info.window, self._limits.local_idle_s, states)
        self._process: LocalProcess | None = None
        self._closed = False
        self._wire = _NearWire(info.name, self._limits)
        self._grammar = Kept(write_grammar)
        self._loose: set[tuple[Tool, ...]] = set()  # whose schemas became a grammar that was refused
        self._rate = TOKENS_PER_S

    def model(self) -> ModelInfo:
        return self._info

    async def load(self) -> None:
        """Before anybody asks."""
        if self._process is None:
            self._process = shared(self._weight)
        await self._process.place()

    async def close(self) -> None:
        self._closed = True
        process, self._process = self._process, None
        await self._wire.close()
        if process is not None:
            await in_thread(partial(give_back, process))

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        for attempt in range(STARTS_MAX):
            async with self._turn(options) as place:
                try:
                    if place.fresh:
                        await self._begin(place, context, options)
                    async with aclosing(self._answer(place, context, options)) as pieces:
                        async for piece in pieces:
                            yield piece
                    return
                except Unreachable as error:  # nothing was said yet
                    if not await self._has_gone_idle(place) or attempt == STARTS_MAX - 1:
                        raise await self._explained(place, error) from None
                except StreamBroken as error:
                    raise await self._explained(place, error) from None

    # --- one at a time ---------------------------------------------------------------------------

    @asynccontextmanager
    async def _turn(self, options: Options) -> AsyncGenerator[Place, None]:
        """It has one pair of hands: whoever comes second waits, and is told."""
        if self._closed:
            raise Unreachable(f"{self._info.name} is asked no more: whoever used it has closed it")
        if self._process is None:
            self._process = shared(self._weight)
        process = self._process
        lock = process.lock
        while lock.locked():
            _tell(options, f"{self._info.name} answers somebody else first", QUEUE_S)
            if await _acquired(lock, QUEUE_S):
                break
        else:
            await lock.acquire()
        try:
            if not process.running:
                _tell(options, f"{self._info.name} is being loaded", LOADING_S)
            place = await process.place()
            place.tell(b"b")
            try:
                yield place
            finally:
                place.tell(b"e")
        finally:
            lock.release()

    async def _has_gone_idle(self, place: Place) -> bool:
        """It had waited long enough, and left the very moment it was asked."""
        await place.settle()
        return place.process.returncode == 0

    async def _explained(self, place: Place, error: ProviderError) -> ProviderError:
        await place.settle()
        if place.alive:
            return error
        said = f"the process of {self._info.name} went in the middle of its answer: {place.how_it_ended()}"
        return type(error)(said, details=str(error))

    # --- asking ----------------------------------------------------------------------------------

    async def _begin(self, place: Place, context: Context, options: Options) -> None:
        place.fresh = False
        if not context.tools:
            return
        beginning = Beginning(place, self._weight.states, self._weight.path)
        turns = opening(context.tools, word_for(context.tools))

        def notice(tokens: int) -> None:
            _tell(options, f"{self._info.name} reads its instructions, once", tokens / self._rate)

        await beginning.prepare(turns, partial(self._read, place, Reading()), notice)

    async def _answer(self, place: Place, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        word = word_for(context.tools) if context.tools else ""
        offered = context.tools if options.tool_choice == "auto" else ()  # the words before it stay the same
        names = frozenset(tool.name for tool in offered)
        loose = context.tools in self._loose
        while True:
            answer = LocalAnswer(self._info.name, word, names, self._watch(options))
            grammar = self._grammar(offered, word, loose) if word else ""
            body = self._body(context, options, word, grammar)
            try:
                async with aclosing(self._read(place, answer, "/v1/chat/completions", body)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except RequestRefused as error:
                if loose or "grammar" not in str(error):
                    raise
                loose = True
                self._loose.add(context.tools)

    def _read(self, place: Place, answer: Answer, path: str, body: bytes) -> AsyncGenerator[Piece, None]:
        headers = {"Authorization": "Bearer {key}", "Content-Type": "application/json", "User-Agent": "mainstay"}
        return self._wire.pieces(Request(place.url + path, headers, body), place.key, answer)

    def _body(self, context: Context, options: Options, word: str, grammar: str) -> bytes:
        most = min(options.output_tokens or self._info.output, self._info.output)
        asked: dict[str, Any] = {
            "messages": msgspec.to_builtins(conversation(context, word)),
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,
            "cache_prompt": True,
            "temperature": TEMPERATURE,
            "max_tokens": most,
        }
        if grammar:
            asked["grammar"] = grammar
        return encode(asked)

    def _watch(self, options: Options) -> Callable[[Progress], None]:
        """Tells once how long it will read, and learns how fast it does."""
        told = False

        def heed(now: Progress) -> None:
            nonlocal told
            fresh = now.processed - now.cache
            if fresh > 0 and now.time_ms > 0:
                self._rate = max(fresh / now.time_ms * 1000, 1.0)
            seconds = (now.total - now.processed) / self._rate
            if not told and seconds >= TELL_S:
                told = True
                _tell(options, f"{self._info.name} reads {now.total - now.processed} tokens", seconds)

        return heed


class _NearWire(Wire):
    """To a process of our own."""

    async def post_stream(self, url: str, headers: dict[str, str], body: bytes) -> Events:
        if self._client is None or not self._client.usable():
            from mainstay.providers.local.near import NearClient  # the client is loaded by those who ask

            self._client = NearClient(self.who, self._limits)
        return await super().post_stream(url, headers, body)


def _tell(options: Options, sentence: str, seconds: float) -> None:
    if options.notice is not None:
        options.notice(sentence, seconds)


async def _acquired(lock: asyncio.Lock, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await lock.acquire()
    except TimeoutError:
        return False
