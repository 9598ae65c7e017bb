"""Provider for models on this machine: downloaded weights or the user's own GGUF file, run by llama.cpp in a process.

Small models get native tool calls wrong. So they answer with a keyword that says what follows, enforced by a grammar
(`grammar`, `response`), and get short prompts (`prompt`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from mainstay.core.errors import ConfigError, ProviderError, RequestRefused, StreamBroken, Unreachable
from mainstay.core.limits import Limits
from mainstay.core.ports import Context, ModelInfo, Options, Piece, Tool
from mainstay.core.provider_manifest import ProviderFactoryContext, ProviderSettings
from mainstay.core.worker_threads import run_in_thread
from mainstay.providers.local import catalogue
from mainstay.providers.local.grammar import build_grammar
from mainstay.providers.local.process import (
    LIBRARY_MISSING,
    LocalModelOptions,
    RunningModelServer,
    SharedModelServer,
    acquire_process,
    release_process,
)
from mainstay.providers.local.prompt import build_conversation, build_opening, choose_text_keyword
from mainstay.providers.local.prompt_cache import PrefillResponseParser, PromptCache
from mainstay.providers.local.response import LocalResponseParser, PromptProgress
from mainstay.providers.wire.api_client import ApiClient, ApiRequest, ModelHttpClient, ResponseParser
from mainstay.providers.wire.encoding import IdentityCache, encode

LOADING_ESTIMATE_S = 5.0  # estimate for the notice to the user; it may take longer
QUEUE_NOTICE_S = 30.0  # between two notices while another request is answered
READING_MAX_S = 7200.0  # the longest estimate, which extends the deadline of the call
NOTICE_MIN_S = 2.0  # shorter waits get no notice
INITIAL_TOKENS_PER_S = 30.0  # reading speed, until it is measured
TEMPERATURE = 0.0  # small models lose the thread otherwise
ATTEMPTS_MAX = 3  # if the process ends as idle just when a request arrives
STATES_FOLDER = "states"


def build_local_provider(model: str, settings: ProviderSettings, context: ProviderFactoryContext) -> LocalProvider:
    """Build the provider for `local/<model>`. Raises ConfigError if the weights or the library are missing."""
    folder = catalogue.weights_folder(context.environ)
    path = catalogue.resolve_weights_path(model, folder)
    if find_spec("xllamacpp") is None:
        raise ConfigError(LIBRARY_MISSING.format(library="xllamacpp"))
    return LocalProvider(path, folder / STATES_FOLDER, limits=context.limits, info=context.info)


class LocalProvider:
    """One file of weights. No process runs before the first request."""

    def __init__(self, path: Path, states_folder: Path, *, limits: Limits | None = None, info: ModelInfo) -> None:
        self._limits = limits or Limits()
        self._info = info
        self._model_options = LocalModelOptions(path.absolute(), info.window, self._limits.local_idle_s, states_folder)
        self._process: SharedModelServer | None = None
        self._is_closed = False
        self._api = LoopbackApiClient(info.name, self._limits)
        self._cached_grammar = IdentityCache(build_grammar)
        self._loose_tools: set[tuple[Tool, ...]] = set()  # tools whose grammar llama.cpp refused
        self._tokens_per_s = INITIAL_TOKENS_PER_S

    def model(self) -> ModelInfo:
        return self._info

    async def load(self) -> None:
        """Load the model ahead of the first request. Raises ProviderError."""
        if self._process is None:
            self._process = acquire_process(self._model_options)
        await self._process.wait_until_ready()

    async def close(self) -> None:
        self._is_closed = True
        process, self._process = self._process, None
        await self._api.close()
        if process is not None:
            await run_in_thread(partial(release_process, process))

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        for attempt in range(ATTEMPTS_MAX):
            async with self._hold_server(options) as server:
                try:
                    if server.is_fresh:
                        await self._warm_up(server, context, options)
                    async with aclosing(self._stream_answer(server, context, options)) as pieces:
                        async for piece in pieces:
                            yield piece
                    return
                except Unreachable as error:  # before the first piece
                    if not await self._has_exited_idle(server) or attempt == ATTEMPTS_MAX - 1:
                        raise await self._explain_error(server, error) from None
                except StreamBroken as error:
                    raise await self._explain_error(server, error) from None

    # --- the server process ----------------------------------------------------------------------

    @asynccontextmanager
    async def _hold_server(self, options: Options) -> AsyncGenerator[RunningModelServer, None]:
        """Hold the server for one request, started if needed. Other requests wait, and their users get notices."""
        if self._is_closed:
            raise Unreachable(f"{self._info.name} cannot be used any more: its provider was closed")
        if self._process is None:
            self._process = acquire_process(self._model_options)
        process = self._process
        lock = process.request_lock
        while lock.locked():
            _notify(options, f"{self._info.name} is answering another request first", QUEUE_NOTICE_S)
            if await _acquire_within(lock, QUEUE_NOTICE_S):
                break
        else:
            await lock.acquire()
        try:
            if not process.is_running:
                _notify(options, f"{self._info.name} is being loaded", LOADING_ESTIMATE_S)
            server = await process.wait_until_ready()
            server.report_request(b"b")
            try:
                yield server
            finally:
                server.report_request(b"e")
        finally:
            lock.release()

    async def _has_exited_idle(self, server: RunningModelServer) -> bool:
        """Return whether the process ended because of its idle timeout, just when the request arrived."""
        await server.wait_for_exit()
        return server.process.returncode == 0

    async def _explain_error(self, server: RunningModelServer, error: ProviderError) -> ProviderError:
        """Return the error, with the reason if the process has ended."""
        await server.wait_for_exit()
        if server.is_alive:
            return error
        sentence = f"the process of {self._info.name} ended in the middle of its answer: {server.describe_exit()}"
        return type(error)(sentence, details=str(error))

    # --- requests --------------------------------------------------------------------------------

    async def _warm_up(self, server: RunningModelServer, context: Context, options: Options) -> None:
        server.is_fresh = False
        if not context.tools:
            return
        cache = PromptCache(server, self._model_options.states_folder, self._model_options.path)
        turns = build_opening(context.tools, choose_text_keyword(context.tools))

        def on_prefill(tokens: int) -> None:
            _notify(options, f"{self._info.name} reads its instructions, once", tokens / self._tokens_per_s)

        await cache.warm_up(turns, partial(self._stream_request, server, PrefillResponseParser()), on_prefill)

    async def _stream_answer(
        self, server: RunningModelServer, context: Context, options: Options
    ) -> AsyncGenerator[Piece, None]:
        word = choose_text_keyword(context.tools) if context.tools else ""
        offered = context.tools if options.tool_choice == "auto" else ()  # the prompt stays the same
        names = frozenset(tool.name for tool in offered)
        loose = context.tools in self._loose_tools
        while True:
            parser = LocalResponseParser(self._info.name, word, names, self._progress_callback(options))
            grammar = self._cached_grammar(offered, word, loose) if word else ""
            body = self._build_body(context, options, word, grammar)
            try:
                async with aclosing(self._stream_request(server, parser, "/v1/chat/completions", body)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except RequestRefused as error:
                if loose or "grammar" not in str(error):
                    raise
                loose = True
                self._loose_tools.add(context.tools)

    def _stream_request(
        self, server: RunningModelServer, parser: ResponseParser, path: str, body: bytes
    ) -> AsyncGenerator[Piece, None]:
        headers = {"Authorization": "Bearer {key}", "Content-Type": "application/json", "User-Agent": "mainstay"}
        return self._api.stream_pieces(ApiRequest(server.url + path, headers, body), server.key, parser)

    def _build_body(self, context: Context, options: Options, text_keyword: str, grammar: str) -> bytes:
        output_max = min(options.output_tokens_max or self._info.output, self._info.output)
        request: dict[str, Any] = {
            "messages": msgspec.to_builtins(build_conversation(context, text_keyword)),
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,
            "cache_prompt": True,
            "temperature": TEMPERATURE,
            "max_tokens": output_max,
        }
        if grammar:
            request["grammar"] = grammar
        return encode(request)

    def _progress_callback(self, options: Options) -> Callable[[PromptProgress], None]:
        """Return a callback that measures the reading speed and sends one notice of how long reading will take."""
        has_notified = False

        def on_progress(progress: PromptProgress) -> None:
            nonlocal has_notified
            read = progress.processed - progress.cache
            if read > 0 and progress.time_ms > 0:
                self._tokens_per_s = max(read / progress.time_ms * 1000, 1.0)
            tokens_left = progress.total - progress.processed
            seconds = min(tokens_left / self._tokens_per_s, READING_MAX_S)
            if not has_notified and seconds >= NOTICE_MIN_S:
                has_notified = True
                _notify(options, f"{self._info.name} reads {tokens_left} tokens", seconds)

        return on_progress


class LoopbackApiClient(ApiClient):
    """API client that connects to the local server without a proxy."""

    def _open_client(self) -> ModelHttpClient:
        from mainstay.providers.local.loopback_client import LoopbackClient  # only loaded if used

        return LoopbackClient(self.label, self._limits)


def _notify(options: Options, sentence: str, seconds: float) -> None:
    if options.on_wait is not None:
        options.on_wait(sentence, seconds)


async def _acquire_within(lock: asyncio.Lock, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await lock.acquire()
    except TimeoutError:
        return False
