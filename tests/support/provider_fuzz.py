"""Mutated streams of model servers: types, numbers, order, cuts, sizes, nesting, invalid bytes.

Everything follows from a `random.Random`, so that a seed repeats a case.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mainstay.core.errors import ProviderError
from mainstay.core.limits import Limits
from mainstay.core.messages import Usage
from mainstay.core.model_info import ModelInfo
from mainstay.core.ports import Options, Piece, StreamFinished, ThinkingPiece, ToolCallPiece
from mainstay.core.usage_bounds import RECORD_TOKENS_MAX
from mainstay.providers.local.provider import READING_MAX_S, LocalProvider
from mainstay.providers.local.response import LocalResponseParser
from mainstay.providers.wire.api_client import ApiClient, ApiRequest, ModelHttpClient, ResponseParser
from mainstay.providers.wire.decoding import CALLS_MAX
from mainstay.providers.wire.sse import SseDecoder
from support.paths import ROOT
from support.streams.formats import Format, OpenAIFormat, sse
from support.streams.more import FORMATS, BedrockFormat

MODEL = ModelInfo(name="m", price_prompt=3.0, price_completion=15.0, price_cached=0.3, price_written=3.75)
COST_MAX = MODEL.cost(Usage(8 * MODEL.window, 8 * MODEL.window, written=8 * MODEL.window))
MESSAGE_CHARS_MAX = 4000  # of an error, with its details
RAW_MARK = "\ufdd0"  # a string that begins with it is written without quotes


class LocalFormat(OpenAIFormat):
    """The server of llama.cpp: as chat completions, with counts of its own."""

    name = "local"

    def answer(self) -> ResponseParser:
        provider = LocalProvider(ROOT / "none.gguf", ROOT, info=ModelInfo(name="m"))
        waits = Options(on_wait=_check_wait)
        return LocalResponseParser("local", "say", frozenset({"add", "see"}), provider._progress_callback(waits))

    def begin(self) -> list[bytes]:
        progress = {"total": 900, "cache": 100, "processed": 300, "time_ms": 20.5}
        return [sse({"choices": [], "prompt_progress": progress}), self.delta({"content": "say "})]

    def call(self, index: int, name: str, *parts: str) -> list[bytes]:
        return [self.delta({"content": part}) for part in (f"{name} ", *parts)]

    def tail(self) -> list[bytes]:
        timings = {"cache_n": 30, "prompt_n": 20, "predicted_n": 7}
        return [sse({"choices": [], "timings": timings}), b"data: [DONE]\n\n"]


def _check_wait(sentence: str, seconds: float) -> None:
    assert 0 <= seconds <= READING_MAX_S, seconds
    assert len(sentence) < 200


FUZZED_FORMATS: tuple[Format, ...] = (*FORMATS, LocalFormat())


# --- recorded streams ----------------------------------------------------------------------------


def record_streams(api: Format) -> list[list[bytes]]:
    """Sound streams: text, thinking and calls, an end by length, an error."""
    calls = [*api.call(0, "add", '{"a":', " 2}"), *api.call(1, "see", '{"x":"é"}')]
    return [
        [*api.begin(), *api.text("Grüße, ", "👋🏽"), *api.end("end"), *api.tail()],
        [*api.begin(), *api.thinking("let me"), *api.text("so"), *calls, *api.end("tool_calls"), *api.tail()],
        [*api.begin(), *api.text("and then"), *api.end("length"), *api.tail()],
        [*api.begin(), *api.text("oh"), api.error(api.too_long)],
    ]


def split_payloads(api: Format, events: list[bytes]) -> list[bytes]:
    cutter = api.cutter()
    return [*cutter.feed(b"".join(events)), *cutter.flush()]


def frame_payload(api: Format, payload: bytes) -> bytes:
    """Return a payload as an event of the API."""
    if not isinstance(api, BedrockFormat):
        return api.frame(payload)
    name, _, rest = payload[2:].partition(b'":')
    return api.frame(rest[:-1], name.decode(errors="replace")[:60]) if rest else api.frame(payload)


# --- mutations -----------------------------------------------------------------------------------

HOSTILE_NUMBERS: tuple[Any, ...] = (
    *(-1, 0, 1, -(2**31), 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**18, -(10**18), 10**30, 1.5, -0.5, 1e308, 7.0),
    *(RAW_MARK + "9" * 5000, RAW_MARK + "1e400", RAW_MARK + "-0", RAW_MARK + "NaN", RAW_MARK + "01", RAW_MARK + "1e3"),
)
HOSTILE_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "7", "\ud800", "\x00", "-", "x" * 300, "x" * 70_000, [], {}, [None], {"": None}),
    *(["a", 1], {"text": 5}, {"message": {"message": 7}}, {"code": 529, "message": 10**30}, "maximum context ,,,a"),
    *(RAW_MARK + "[" * depth + "]" * depth for depth in (50, 900, 985, 995, 1100, 20_000)),
    *(RAW_MARK + '{"a":' * depth + "1" + "}" * depth for depth in (50, 900, 985, 995, 1100, 20_000)),
    *HOSTILE_NUMBERS,
)
HOSTILE_BYTES = (
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\x00",
    b"\r",
    b"\n\n",
    b"data: ",
    b'"',
    b"{",
    b"}",
    b"\\u",
    b"\xef\xbb\xbf",
)


def dump_payload(value: Any) -> bytes:
    text = json.dumps(value, separators=(",", ":"))
    mark = json.dumps(RAW_MARK)[1:-1]
    while (start := text.find(f'"{mark}')) >= 0:
        end = start + len(mark) + 1
        stop = end
        while text[stop] != '"' or text[stop - 1] == "\\":
            stop += 1
        text = text[:start] + json.loads(f'"{text[end:stop]}"') + text[stop + 1 :]
    return text.encode()


def list_places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container with each of its keys."""
    places: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            places += list_places(value[key])
    return places


def mutate_payload(chance: random.Random, payload: bytes) -> bytes:
    """Change a value, remove, rename or double a key."""
    try:
        value = json.loads(payload)
        places = list_places(value)
    except (ValueError, RecursionError):  # mutated before
        return payload
    if not places:
        return dump_payload(chance.choice(HOSTILE_VALUES))
    container, key = chance.choice(places)
    numbers = [place for place in places if isinstance(place[0][place[1]], int | float)]
    match chance.randrange(8):
        case 0:
            del container[key]
        case 1 if isinstance(container, dict):
            container[chance.choice(list(container))] = container[key]
        case 2 if numbers:
            container, key = chance.choice(numbers)
            container[key] = chance.choice(HOSTILE_NUMBERS)
        case 3:
            container[key] = [container[key]] * chance.choice((1, 2, 300))
        case 4:
            return dump_payload(chance.choice(HOSTILE_VALUES)) if chance.random() < 0.2 else dump_payload([value])
        case _:
            container[key] = chance.choice(HOSTILE_VALUES)
    return dump_payload(value)


def mutate_stream(chance: random.Random, api: Format, streams: list[list[bytes]]) -> bytes:
    """Return the bytes of a stream with one to three mutations."""
    payloads = split_payloads(api, chance.choice(streams))
    cuts: list[Callable[[bytes], bytes]] = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(payloads)) if payloads else 0
        match chance.randrange(12):
            case 0 if payloads:
                del payloads[at]
            case 1 if payloads:
                payloads.insert(chance.randrange(len(payloads) + 1), payloads[at])
            case 2:
                chance.shuffle(payloads)
            case 3 if payloads and chance.random() < 0.1:
                payloads[at : at + 1] = [payloads[at]] * chance.choice((20, 300, 2000))
            case 4:
                payloads += split_payloads(api, chance.choice(streams))
            case 5:
                cuts.append(lambda data: data[: chance.randrange(len(data) + 1)])
            case 6:
                cuts.append(lambda data: _insert_bytes(chance, data))
            case _ if payloads:
                payloads[at] = mutate_payload(chance, payloads[at])
    data = b"".join(frame_payload(api, payload) for payload in payloads)
    for cut in cuts:
        data = cut(data)
    return data


def _insert_bytes(chance: random.Random, data: bytes) -> bytes:
    """Insert, replace or remove a few bytes."""
    at = chance.randrange(len(data) + 1)
    removed = chance.choice((0, 0, 1, 5, 40))
    return data[:at] + chance.choice(HOSTILE_BYTES) * chance.choice((0, 1, 1, 3)) + data[at + removed :]


def list_exact_cases(api: Format) -> Iterator[bytes]:
    """Every cut of every recorded stream, and every hostile number in every place of a number."""
    for stream in record_streams(api):
        whole = b"".join(stream)
        for size in range(len(whole)):
            yield whole[:size]
        payloads = split_payloads(api, stream)
        for index, payload in enumerate(payloads):
            if not payload.startswith(b"{"):
                continue
            value = json.loads(payload)
            for container, key in list_places(value):
                before = container[key]
                if isinstance(before, int | float) and not isinstance(before, bool):
                    for number in (*HOSTILE_NUMBERS, None, "7", [], {}):
                        container[key] = number
                        changed = [*payloads[:index], dump_payload(value), *payloads[index + 1 :]]
                        yield b"".join(frame_payload(api, one) for one in changed)
                    container[key] = before


def chop_bytes(chance: random.Random, data: bytes) -> list[bytes]:
    """Return the bytes as they may arrive."""
    count = chance.choice((0, 0, 1, 2, 5, 30))
    places = sorted(chance.randrange(len(data) + 1) for _ in range(count))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


# --- the decoder ---------------------------------------------------------------------------------


class ChunkStream:
    """A `PayloadStream` of given bytes."""

    headers: Mapping[str, str] = {}

    def __init__(self, chunks: list[bytes], decoder: SseDecoder) -> None:
        self._chunks = [*chunks, None]
        self._decoder = decoder
        self.has_output = self.is_done = False

    async def read(self) -> list[bytes]:
        while self._chunks:
            chunk = self._chunks.pop(0)
            if payloads := self._decoder.flush() if chunk is None else self._decoder.feed(chunk):
                return payloads
        return []

    @property
    def non_event_data(self) -> bytes:
        return self._decoder.non_event_data

    def close(self) -> None: ...


class ChunkClient:
    """A `ModelHttpClient` that answers with given bytes."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks

    def is_usable(self) -> bool:
        return True

    async def close(self) -> None: ...

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> bytes:
        return b"".join(self.chunks)

    async def open_stream(
        self, url: str, headers: dict[str, str], body: bytes, decoder_factory: Callable[[], SseDecoder]
    ) -> ChunkStream:
        return ChunkStream(self.chunks, decoder_factory())


class ChunkApiClient(ApiClient):
    def __init__(self, client: ChunkClient, decoder_factory: Callable[[], SseDecoder] = SseDecoder) -> None:
        super().__init__("fuzzed", Limits(), decoder_factory)
        self._client = client

    def _open_client(self) -> ModelHttpClient:
        return self._client


async def decode_stream(api: Format, chunks: list[bytes]) -> tuple[list[Piece], ProviderError | None]:
    """Return what the API's decoder makes of these bytes. Raises what no decoder may raise."""
    client = ChunkApiClient(ChunkClient(chunks), api.cutter)
    pieces: list[Piece] = []
    try:
        async for piece in client.stream_pieces(ApiRequest("http://h/", {}, b""), None, api.answer()):
            pieces.append(piece)
    except ProviderError as error:
        return pieces, error
    return pieces, None


def check_pieces(pieces: list[Piece], error: ProviderError | None) -> None:
    """Check what the turn relies on."""
    calls = {piece.index for piece in pieces if isinstance(piece, ToolCallPiece)}
    assert len(calls) <= CALLS_MAX
    for piece in pieces[:-1]:
        assert not isinstance(piece, StreamFinished)
    for piece in pieces:
        match piece:
            case ThinkingPiece(text=text, signature=signature):
                assert type(text) is type(signature) is str
            case ToolCallPiece(index=index, name=name, input=input):
                assert type(index) is int
                assert 0 <= index <= 2_000_000
                assert type(name) is type(input) is str
            case StreamFinished(usage=usage):
                check_usage(usage)
    finished = bool(pieces) and isinstance(pieces[-1], StreamFinished)
    assert finished != (error is not None)
    if error is not None:
        assert len(str(error)) + len(error.details) <= MESSAGE_CHARS_MAX


def check_usage(usage: Usage) -> None:
    counts = (usage.prompt, usage.completion, usage.cached, usage.reasoning, usage.written)
    assert all(type(count) is int and 0 <= count <= 3 * RECORD_TOKENS_MAX for count in counts), usage
    assert usage.cached + usage.written <= usage.prompt
    assert len(usage.correction) < 300
    believed = MODEL.check_usage(usage)
    assert 0 <= MODEL.cost(believed) <= COST_MAX, usage
