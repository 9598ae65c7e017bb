"""One suite for every provider: hand-cut streams, played byte for byte by a server on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from support.streams.formats import KEY, Format, Made, ask
from support.streams.more import EVENTS, FORMATS
from support.streams.server import OK, RESET, STALL, Action, Loopback, chunked, closing, status

from mainstay.core import errors
from mainstay.core.limits import Limits
from mainstay.core.messages import Binary, FinishReason, Message, Text
from mainstay.core.ports import Context, Options, Piece, StreamFinished, TextPiece, ThinkingPiece, ToolCallPiece
from mainstay.core.tools import tool
from mainstay.providers.wire import http_client
from mainstay.providers.wire.http_client import HttpPayloadStream

HELLO = Context("Be brief.", [Message(1, "user", (Text("hello"),))])
QUICK = Limits(model_idle_timeout_s=0.5)
SOON_S = 120.0  # for what must happen, on a loaded machine; a server that stalls does so for good
UNICODE = ("Grüße, ", "мир ", "👋🏽", " 終")
WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))


@pytest.fixture(params=FORMATS, ids=lambda one: one.name)
def api(request: pytest.FixtureRequest) -> Format:
    made: Format = request.param
    return made


@asynccontextmanager
async def served(
    api: Format, *scripts: list[Action], limits: Limits | None = None
) -> AsyncIterator[tuple[Made, Loopback]]:
    async with Loopback(*scripts) as server:
        provider = api.make(server.url, limits)
        try:
            yield provider, server
        finally:
            await provider.close()


def joined(pieces: list[Piece]) -> list[Any]:
    """Pieces as a listener sums them up, however they were cut."""
    made: list[Any] = []
    calls: dict[int, list[str]] = {}
    for piece in pieces:
        match piece:
            case TextPiece(text=text):
                if made and made[-1][0] == "text":
                    made[-1] = ("text", made[-1][1] + text)
                else:
                    made.append(("text", text))
            case ThinkingPiece(text=text, signature=signature):
                if made and made[-1][0] == "thinking":
                    made[-1] = ("thinking", made[-1][1] + text, made[-1][2] + signature)
                else:
                    made.append(("thinking", text, signature))
            case ToolCallPiece(index=index, name=name, input=input):
                if index not in calls:
                    calls[index] = ["call", name, input]
                    made.append(calls[index])
                else:
                    assert not name, "the name comes with the first piece of a call"
                    calls[index][2] += input
            case StreamFinished():
                made.append(piece)
    return [tuple(one) if isinstance(one, list) else one for one in made]


def text_stream(api: Format) -> list[bytes]:
    return [*api.begin(), *api.text(*UNICODE), *api.end("end"), *api.tail()]


def call_stream(api: Format) -> list[bytes]:
    calls = [*api.call(0, "add", '{"a":', " 2}"), *api.call(1, "see", '{"x":"é"}')]
    return [*api.begin(), *api.text("so"), *calls, *api.end("tool_calls"), *api.tail()]


STREAMS = {"text": text_stream, "calls": call_stream}

# --- what is said --------------------------------------------------------------------------------


async def test_text_arrives_with_its_end_and_its_usage(api: Format) -> None:
    async with served(api, chunked(*text_stream(api))) as (provider, server):
        pieces, error = await ask(provider, HELLO)
    assert error is None
    assert joined(pieces) == [("text", "".join(UNICODE)), StreamFinished(FinishReason.END, api.usage)]
    assert server.asked[0].line == f"POST {api.path} HTTP/1.1"
    assert KEY in "".join(server.asked[0].headers.values())


async def test_text_that_arrives_together_is_one_piece(api: Format) -> None:
    async with served(api, chunked(b"".join(text_stream(api)))) as (provider, _):
        pieces, _ = await ask(provider, HELLO)
    assert [type(piece) for piece in pieces] == [TextPiece, StreamFinished]


async def test_thinking_comes_before_text_and_keeps_its_signature(api: Format) -> None:
    stream = [*api.begin(), *api.thinking("let me ", "see"), *api.text("yes"), *api.end("end"), *api.tail()]
    async with served(api, chunked(*stream)) as (provider, _):
        pieces, _ = await ask(provider, HELLO)
    assert joined(pieces)[:2] == [("thinking", "let me see", api.signature), ("text", "yes")]


async def test_parallel_calls_come_whole_and_in_order(api: Format) -> None:
    async with served(api, chunked(*call_stream(api))) as (provider, _):
        pieces, _ = await ask(provider, HELLO)
    assert joined(pieces) == [
        ("text", "so"),
        ("call", "add", '{"a": 2}'),
        ("call", "see", '{"x":"é"}'),
        StreamFinished(FinishReason.TOOL_CALLS, api.usage),
    ]


async def test_a_call_without_arguments_is_still_a_call(api: Format) -> None:
    stream = [*api.begin(), *api.call(0, "now"), *api.call(1, "later"), *api.end("tool_calls"), *api.tail()]
    async with served(api, chunked(*stream)) as (provider, _):
        pieces, _ = await ask(provider, HELLO)
    assert [one[:2] for one in joined(pieces)[:2]] == [("call", "now"), ("call", "later")]
    assert {one[2] for one in joined(pieces)[:2]} <= {"", "{}"}


async def test_f17_every_stop_reason_is_reported(api: Format) -> None:
    reasons = [reason for reason in api.ends if reason != "tool_calls"]
    streams = [chunked(*api.begin(), *api.text("x"), *api.end(reason), *api.tail()) for reason in reasons]
    async with served(api, *streams) as (provider, _):
        for reason in reasons:
            pieces, _ = await ask(provider, HELLO)
            assert pieces[-1] == StreamFinished(FinishReason(reason), api.usage)


async def test_f17_a_call_that_the_output_limit_cut_ends_as_length(api: Format) -> None:
    stream = [*api.begin(), *api.call(0, "add", '{"a": '), *api.end("length"), *api.tail()]
    async with served(api, chunked(*stream)) as (provider, _):
        pieces, _ = await ask(provider, HELLO)
    assert isinstance(pieces[-1], StreamFinished)
    assert pieces[-1].reason is FinishReason.LENGTH


async def test_an_end_with_calls_counts_as_calls(api: Format) -> None:
    stream = [*api.begin(), *api.call(0, "add", "{}"), *api.end("end"), *api.tail()]
    async with served(api, chunked(*stream)) as (provider, _):
        pieces, _ = await ask(provider, HELLO)
    assert isinstance(pieces[-1], StreamFinished)
    assert pieces[-1].reason is FinishReason.TOOL_CALLS


async def test_an_image_reaches_the_model_and_another_file_by_path(api: Format) -> None:
    parts = (Text("look"), Binary("image/png", b"\x89PNG"), Binary("application/pdf", b"", "/files/a.pdf"))
    async with served(api, chunked(*text_stream(api))) as (provider, server):
        await ask(provider, Context("", [Message(1, "user", parts)]))
    body = server.asked[0].body
    assert api.image in list(walk_values(body))
    told = json.dumps(body)
    assert told.index("look") < told.index("/files/a.pdf")


def walk_values(value: Any) -> Iterator[Any]:
    """Everything in it."""
    yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk_values(one)


async def test_tools_stay_in_the_request_when_none_may_be_called(api: Format) -> None:
    @tool(untrusted=False, sink=False)
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    context = Context("s", HELLO.messages, (add,))
    async with served(api, chunked(*text_stream(api))) as (provider, server):
        for options in (Options(), Options(tool_choice="none", output_tokens_max=77)):
            await ask(provider, context, options)
        await ask(provider, HELLO)
    first, second, third = (asked.body for asked in server.asked)
    assert api.tools(first) == ["add"]
    if api.forbids_calls:
        assert api.tools(second) == ["add"]
        assert len(set(second) - set(first) & {"tool_choice", "toolConfig"}) == 1
    assert api.bound(second) == 77
    assert not api.tools(third)


async def given_back(provider: Made) -> None:
    """The end of a transfer may come after the answer: wait until its connection is free again."""
    client = provider._api._http_client
    assert isinstance(client, http_client.HttpClient)
    async with asyncio.timeout(120):
        while not any(client._idle_connections.values()):
            await asyncio.sleep(0.001)


async def test_one_connection_serves_many_calls(api: Format) -> None:
    async with served(api, chunked(*text_stream(api))) as (provider, server):
        for _ in range(5):
            await ask(provider, HELLO)
            await given_back(provider)
    assert server.connections == 1


async def test_a_connection_is_reused_though_the_transfer_ends_after_the_answer(api: Format) -> None:
    slow = [*chunked(*text_stream(api), end=False), 0.005, b"0\r\n\r\n"]
    async with served(api, slow) as (provider, server):
        for _ in range(3):
            pieces, _ = await ask(provider, HELLO)
            assert isinstance(pieces[-1], StreamFinished)
            await given_back(provider)
    assert server.connections == 1


# --- streams that are cut, split and garbled ------------------------------------------------------


def is_finish(api: Format, event: bytes) -> bool:
    return event in api.end("end") + api.end("tool_calls")


def finish_at(api: Format, events: list[bytes]) -> int:
    """How many bytes it takes to know how the answer ended."""
    place = next(index for index, event in enumerate(events) if is_finish(api, event))
    return len(b"".join(events[: place + 1])) - api.spare


def places(events: list[bytes]) -> list[int]:
    """Every byte in `make test-all`; else some, and those around the ends of the last events.

    Without connections, `test_f12_an_answer_is_the_same_however_it_is_cut` has every byte always.
    """
    size = len(b"".join(events))
    if WHOLE:
        return list(range(size + 1))
    ends = [len(b"".join(events[: count + 1])) for count in range(len(events))]
    near = {end + step for end in ends[-3:] for step in (-3, -2, -1, 0, 1)}
    return sorted(place for place in {*near, *range(0, size, 23)} if 0 <= place <= size)


async def _many(jobs: list[Callable[[], Any]], width: int = 32) -> None:
    queue = list(reversed(jobs))

    async def work() -> None:
        while queue:
            await queue.pop()()

    await asyncio.gather(*(work() for _ in range(width)))


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("stream", STREAMS)
async def test_f12_cut_at_every_byte_never_yields_a_call(api: Format, stream: str, how: str) -> None:
    """F12: a cut stream is an error, at any byte and with any kind of cut; never an end as well."""
    events = STREAMS[stream](api)
    body, end = b"".join(events), finish_at(api, events)

    async def cut(size: int) -> None:
        head = b"Connection: close\r\n\r\n" if how == "fin" else b"Content-Length: %d\r\n\r\n" % (len(body) + 1)
        script: list[Action] = [OK + head, body[:size]]
        async with served(api, script + ([RESET] if how == "rst" else [])) as (provider, _):
            pieces, error = await ask(provider, HELLO)
        finished = [piece for piece in pieces if isinstance(piece, StreamFinished)]
        assert (error is None) == bool(finished), size
        assert len(finished) <= 1, size
        if size < end:
            assert isinstance(error, errors.StreamBroken | errors.Unreachable), (size, error)
        elif how == "fin":
            assert error is None, (size, error)

    await _many([partial(cut, size) for size in places(events)])


@pytest.mark.parametrize("stream", STREAMS)
async def test_f12_split_at_every_byte_says_the_same(api: Format, stream: str) -> None:
    """F12: also inside a character, inside JSON and between the newlines of an event."""
    events = STREAMS[stream](api)
    body = b"".join(events)
    async with served(api, closing(body)) as (provider, _):
        whole, _ = await ask(provider, HELLO)

    async def split(size: int) -> None:
        async with served(api, closing(body[:size], 0.001, body[size:])) as (provider, _):
            pieces, error = await ask(provider, HELLO)
        assert error is None
        assert joined(pieces) == joined(whole), size

    await _many([partial(split, size) for size in places(events)[1:-1]])


def parse_parts(api: Format, *parts: bytes) -> tuple[list[Any], StreamFinished | None, Exception | None]:
    """What is made of bytes that come in these parts, and then end; without a connection, so that it takes no time."""
    cutter, answer = api.cutter(), api.answer()
    pieces: list[Piece] = []
    for part in (*parts, None):
        if answer.is_over:
            break
        try:
            payloads = cutter.flush() if part is None else cutter.feed(part)
        except errors.StreamBroken as error:
            return joined(pieces), None, error
        pieces += answer.feed(payloads)
    return joined(pieces), None if answer.error else answer.final_piece(), answer.error


@pytest.mark.parametrize("stream", STREAMS)
def test_f12_an_answer_is_the_same_however_it_is_cut(api: Format, stream: str) -> None:
    """F12: split at every byte it says the same, and cut at every byte it never ends well before it has ended."""
    events = [*api.thinking("hm"), *STREAMS[stream](api)]
    body, end = b"".join(events), finish_at(api, events)
    whole, finished, _ = parse_parts(api, body)
    assert isinstance(finished, StreamFinished)
    assert parse_parts(api, *(body[at : at + 1] for at in range(len(body))))[:2] == (whole, finished)
    for size in range(len(body) + 1):
        assert parse_parts(api, body[:size], body[size:])[:2] == (whole, finished), size
        assert (parse_parts(api, body[:size])[1] is not None) == (size >= end), size


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\n\n", b"\r\n\r\n"),
        (b"\n", b"\r"),
        (b"\n\n", b"\n\n\n\n"),
        (b"data: ", b"data:"),
        (b"data: ", b": keep-alive\n\ndata: "),
        (b"data: ", b":\n\nid: 7\nretry: 10\ndata: "),
        (b'data: {"', b'data: {\ndata: "'),
    ],
    ids=["crlf", "cr", "blank lines", "no space", "comments", "other fields", "several data lines"],
)
@pytest.mark.parametrize("step", [1, 7, 100_000])
@pytest.mark.parametrize("api", EVENTS, ids=lambda one: one.name)
async def test_every_way_to_write_events_is_read(api: Format, before: bytes, after: bytes, step: int) -> None:
    body = b"\xef\xbb\xbf" + b"".join(call_stream(api)).replace(before, after)
    parts: list[Action] = [body[at : at + step] for at in range(0, len(body), step)]
    async with served(api, chunked(b"".join(call_stream(api))), closing(*parts)) as (provider, _):
        whole, _ = await ask(provider, HELLO)
        pieces, error = await ask(provider, HELLO)
    assert error is None
    assert joined(pieces) == joined(whole)


async def test_an_end_mark_that_never_comes_is_not_missed(api: Format) -> None:
    events = [*api.begin(), *api.text("x"), *api.end("end")]
    async with served(api, chunked(*events), closing(*events)) as (provider, _):
        for _ in range(2):
            pieces, error = await ask(provider, HELLO)
            assert error is None
            assert joined(pieces)[0] == ("text", "x")


async def test_formal_events_after_the_end_are_not_waited_for(api: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "TAIL_TIMEOUT_S", 0.02)
    stream = [*closing(*api.begin(), *api.text("x"), 0.01, *api.end("end")), STALL]
    async with served(api, stream) as (provider, _):
        pieces, error = await asyncio.wait_for(ask(provider, HELLO), SOON_S)
    assert error is None
    assert isinstance(pieces[-1], StreamFinished)


async def test_f12_an_answer_that_never_says_how_it_ended_is_broken(api: Format) -> None:
    events = [*api.begin(), *api.call(0, "add", '{"a":1}'), *api.tail()]
    async with served(api, chunked(*events)) as (provider, _):
        pieces, error = await ask(provider, HELLO)
    assert isinstance(error, errors.StreamBroken)
    assert not any(isinstance(piece, StreamFinished) for piece in pieces)


@pytest.mark.parametrize("junk", [b'{"a"', b"nonsense", b"[1]", b"\xff\xfe"], ids=["half", "words", "list", "binary"])
async def test_f12_an_invalid_event_breaks_the_stream(api: Format, junk: bytes) -> None:
    async with served(api, chunked(*api.begin(), *api.text("x"), api.frame(junk), *api.end("end"))) as (provider, _):
        pieces, error = await ask(provider, HELLO)
    assert joined(pieces) == [("text", "x")]
    assert isinstance(error, errors.StreamBroken)


async def test_f12_a_deeply_nested_event_breaks_the_stream_and_nothing_else(api: Format) -> None:
    async with served(api, chunked(api.frame(b'{"choices":' + b"[" * 200_000))) as (provider, _):
        _, error = await ask(provider, HELLO)
    assert isinstance(error, errors.StreamBroken)


async def test_f12_an_error_after_text_breaks_the_stream(api: Format) -> None:
    async with served(api, chunked(*api.begin(), *api.text("half"), api.error(api.overloaded))) as (provider, _):
        pieces, error = await ask(provider, HELLO)
    assert joined(pieces) == [("text", "half")]
    assert isinstance(error, errors.StreamBroken)
    assert "busy" in str(error)


async def test_f16_an_error_before_text_is_what_it_says(api: Format) -> None:
    scripts = [chunked(*api.begin(), api.error(error)) for error in (api.overloaded, api.too_long)]
    async with served(api, *scripts) as (provider, _):
        _, overloaded = await ask(provider, HELLO)
        _, too_long = await ask(provider, HELLO)
    assert isinstance(overloaded, errors.Overloaded)
    assert overloaded.counts_as_failure == api.overload_counts
    assert isinstance(too_long, errors.ContextTooLong)


async def test_half_a_surrogate_pair_is_replaced_and_never_sent_back(api: Format) -> None:
    stream = api.replaced([*api.begin(), *api.text("XX"), *api.end("end"), *api.tail()], b"XX", b"a\\ud83dz")
    async with served(api, chunked(*stream)) as (provider, server):
        pieces, _ = await ask(provider, Context("s\ud800", [Message(1, "user", (Text("u\udfff"),))]))
    assert joined(pieces)[0] == ("text", "a\ufffdz")
    assert "u\ufffd" in json.dumps(server.asked[0].body, ensure_ascii=False)


# --- refusals ------------------------------------------------------------------------------------

BUSY = json.dumps({"error": {"message": "come back later", "type": "x"}}).encode()
LONG = json.dumps({"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}).encode()
PAGE = b"<!doctype html><html><body>" + b"Bad gateway " * 500 + b"</body></html>"


@pytest.mark.parametrize(
    ("code", "headers", "kind", "wait_s", "counts"),
    [
        (401, (), errors.Unauthorised, None, False),
        (403, (), errors.Unauthorised, None, False),
        (402, (), errors.Unauthorised, None, False),
        (429, (), errors.RateLimited, None, False),
        (429, ("Retry-After: 7",), errors.RateLimited, 7.0, False),
        (429, ("Retry-After: -3",), errors.RateLimited, None, False),
        (429, ("Retry-After: soon",), errors.RateLimited, None, False),
        (429, ("Retry-After: 9", "retry-after-ms: 1500"), errors.RateLimited, 1.5, False),
        (
            429,
            ("Date: Wed, 21 Oct 2026 07:28:00 GMT", "Retry-After: Wed, 21 Oct 2026 07:28:30 GMT"),
            errors.RateLimited,
            30.0,
            False,
        ),
        (429, ("x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-tokens: 1m2.5s"), errors.RateLimited, 62.5, False),
        (529, (), errors.Overloaded, None, False),
        (500, (), errors.Overloaded, None, True),
        (502, (), errors.Overloaded, None, True),
        (503, ("Retry-After: 4",), errors.Overloaded, 4.0, True),
        (504, (), errors.Overloaded, None, True),
        (408, (), errors.Overloaded, None, True),
        (400, (), errors.RequestRefused, None, False),
        (404, (), errors.RequestRefused, None, False),
        (422, (), errors.RequestRefused, None, False),
        (307, ("Location: http://example.org/",), errors.RequestRefused, None, False),
    ],
)
async def test_f16_a_status_is_mapped(
    api: Format, code: int, headers: tuple[str, ...], kind: type, wait_s: float | None, counts: bool
) -> None:
    async with served(api, status(code, BUSY, headers)) as (provider, _):
        pieces, error = await ask(provider, HELLO)
    assert pieces == []
    assert type(error) is kind
    assert isinstance(error, errors.ProviderError)
    assert (error.retry_after_s, error.counts_as_failure) == (wait_s, counts)
    assert KEY not in str(error) + error.details


@pytest.mark.parametrize("code", [400, 413, 422])
async def test_f17_a_context_that_is_too_long_is_recognised(api: Format, code: int) -> None:
    async with served(api, status(code, LONG)) as (provider, _):
        _, error = await ask(provider, HELLO)
    assert isinstance(error, errors.ContextTooLong)


async def test_f16_a_page_is_never_quoted(api: Format) -> None:
    scripts = [status(502, PAGE, mime="text/html"), status(200, PAGE, mime="text/html"), status(400, b"no " * 900)]
    async with served(api, *scripts) as (provider, _):
        _, gateway = await ask(provider, HELLO)
        _, fine = await ask(provider, HELLO)
        _, long = await ask(provider, HELLO)
    assert isinstance(gateway, errors.Overloaded)
    assert isinstance(fine, errors.StreamBroken)
    for error in (gateway, fine):
        assert "an HTML page" in str(error)
        assert "Bad gateway" not in str(error)
    assert len(str(long)) < 600


async def test_f16_an_empty_200_is_broken(api: Format) -> None:
    scripts = [status(200), closing(), closing(b": hello\n\n"), chunked(*api.begin())]
    async with served(api, *scripts) as (provider, _):
        for _ in scripts:
            pieces, error = await ask(provider, HELLO)
            assert pieces == []
            assert isinstance(error, errors.StreamBroken)


async def test_f16_a_200_that_is_an_error_in_json_is_that_error(api: Format) -> None:
    body = json.dumps({"error": {"message": "slow down", "type": "rate_limit_error"}}).encode()
    async with served(api, status(200, body)) as (provider, _):
        _, error = await ask(provider, HELLO)
    assert isinstance(error, errors.RateLimited)


async def test_no_error_carries_the_key_even_if_the_provider_repeats_it(api: Format) -> None:
    body = json.dumps({"error": {"message": f"bad key {KEY}", "code": KEY}}).encode()
    late = api.error({"message": KEY})
    scripts = [status(400, body), status(401, body), chunked(*api.text("x"), late)]
    async with served(api, *scripts) as (provider, _):
        for _ in scripts:
            _, error = await ask(provider, HELLO)
            assert isinstance(error, errors.ProviderError)
            assert KEY not in str(error) + error.details + repr(error.args)


# --- connections ---------------------------------------------------------------------------------


async def test_f16_a_refused_connection_is_unreachable_and_names_the_address(api: Format) -> None:
    async with Loopback([b""]) as server:
        url = server.url
    provider = api.make(url.replace("http://", "http://user:pass@") if api.name == "anthropic" else url)
    _, error = await ask(provider, HELLO)
    await provider.close()
    assert isinstance(error, errors.Unreachable)
    assert url.removesuffix("/v1") in str(error)
    assert "pass@" not in str(error) + error.details


async def test_f16_a_reset_before_the_first_byte_is_unreachable(api: Format) -> None:
    async with served(api, [RESET], [b"HTTP/1.1 200", RESET]) as (provider, _):
        for _ in range(2):
            _, error = await ask(provider, HELLO)
            assert isinstance(error, errors.Unreachable)


async def test_f16_headers_that_do_not_come_are_silence(api: Format) -> None:
    async with served(api, [STALL], [b"HTTP/1.1 200 OK\r\nContent-", STALL], limits=QUICK) as (provider, _):
        for _ in range(2):
            _, error = await ask(provider, HELLO)
            assert isinstance(error, errors.ModelSilent)


async def test_f16_a_stream_that_stalls_is_silence(api: Format) -> None:
    stream = [*closing(*api.begin(), *api.text("x")), STALL]
    async with served(api, stream, limits=QUICK) as (provider, server):
        pieces, error = await ask(provider, HELLO)
        await asyncio.wait_for(server.left.wait(), SOON_S)
    assert joined(pieces) == [("text", "x")]
    assert isinstance(error, errors.ModelSilent)


async def test_a_slow_listener_is_not_the_models_silence(api: Format) -> None:
    stream = closing(*api.begin(), 0.01, *api.text("x"), 0.03, *api.text("y"), *api.end("end"), *api.tail())
    said: list[Piece] = []
    async with served(api, stream, limits=QUICK) as (provider, _):
        async for piece in provider.stream(HELLO, Options()):
            if not said:
                await asyncio.sleep(QUICK.model_idle_timeout_s * 1.5)
            said.append(piece)
    assert joined(said)[0] == ("text", "xy")


async def test_leaving_early_closes_the_connection_at_once(api: Format) -> None:
    stream = [*closing(*api.begin(), *api.text("x")), STALL]
    async with served(api, stream) as (provider, server):
        async with aclosing(provider.stream(HELLO, Options())) as pieces:
            await anext(pieces)
        await asyncio.wait_for(server.left.wait(), SOON_S)


async def test_cancelling_closes_the_connection_at_once(api: Format) -> None:
    stream = [*closing(*api.begin(), *api.text("x")), STALL]
    scripts: list[list[Action]] = [stream, [STALL]]
    for script in scripts:
        said: list[Piece] = []
        async with served(api, script) as (provider, server):
            task = asyncio.create_task(_listen(provider, said))
            async with asyncio.timeout(SOON_S):
                while not (said if script is stream else server.asked):  # unconnected, it has nothing to close
                    await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.wait_for(server.left.wait(), SOON_S)


async def _listen(provider: Made, said: list[Piece]) -> None:
    async for piece in provider.stream(HELLO, Options()):
        said.append(piece)


async def test_f20_an_answer_larger_than_allowed_is_cut_off(api: Format) -> None:
    limits = Limits(response_bytes_max=10_000)
    async with served(api, chunked(*api.begin(), *api.text(*["x" * 1000] * 20)), limits=limits) as (provider, _):
        _, error = await ask(provider, HELLO)
    assert isinstance(error, errors.StreamBroken)


async def test_f20_one_event_is_bounded_too(api: Format) -> None:
    async with served(api, closing(api.huge(5 * 1024 * 1024), STALL)) as (provider, _):
        _, error = await ask(provider, HELLO)
    assert isinstance(error, errors.StreamBroken)
    assert "4 MB" in str(error)


async def test_a_request_of_many_megabytes_is_sent(api: Format) -> None:
    image = Binary("image/png", b"\x00" * 3_000_000)
    async with served(api, chunked(*text_stream(api))) as (provider, server):
        _, error = await ask(provider, Context("", [Message(1, "user", (image,))]))
    assert error is None
    assert int(server.asked[0].headers["content-length"]) > 4_000_000


# --- leaving the socket alone --------------------------------------------------------------------


async def test_a_dense_stream_is_read_in_few_pieces_and_never_held_before_words_or_after_the_end(
    api: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[tuple[bool, bool]] = []
    hold = HttpPayloadStream._pause_reading

    def watched(reply: HttpPayloadStream) -> None:
        held.append((reply.has_output, reply.is_done))
        hold(reply)

    monkeypatch.setattr(HttpPayloadStream, "_pause_reading", watched)
    words = [f"w{number} " for number in range(40)]
    paced: list[Action] = []
    for event in [*api.begin(), *api.text(*words), *api.end("end"), *api.tail()]:
        paced += [event, 0.001]
    async with served(api, closing(*paced)) as (provider, _):
        pieces, error = await ask(provider, HELLO)
    assert error is None
    assert joined(pieces)[0] == ("text", "".join(words))
    assert len(pieces) < 25
    assert set(held) == {(True, False)}


async def test_a_sparse_stream_is_read_as_it_comes(api: Format) -> None:
    paced: list[Action] = []
    for event in [*api.begin(), *api.text(*"abcdefgh"), *api.end("end"), *api.tail()]:
        paced += [event, 0.015]
    async with served(api, closing(*paced)) as (provider, _):
        pieces, _ = await ask(provider, HELLO)
    assert len(pieces) >= 6


async def test_the_connection_reads_again_after_a_held_stream(api: Format) -> None:
    paced: list[Action] = []
    for event in [*api.begin(), *api.text(*["x"] * 12), *api.end("end"), *api.tail()]:
        paced += [b"%x\r\n%b\r\n" % (len(event), event), 0.001]
    script = [OK + b"Transfer-Encoding: chunked\r\n\r\n", *paced, b"0\r\n\r\n"]
    async with served(api, script) as (provider, server):
        for _ in range(3):
            pieces, error = await ask(provider, HELLO)
            assert error is None
            assert joined(pieces)[0] == ("text", "x" * 12)
            await given_back(provider)
    assert server.connections == 1


def test_a_provider_works_in_one_loop_after_another(api: Format) -> None:
    """A script that calls `asyncio.run` twice with the same provider."""
    provider: list[Made] = []

    async def once() -> list[Any]:
        async with Loopback(chunked(*text_stream(api))) as server:
            made = api.make(server.url)
            provider.append(made)
            if len(provider) > 1:
                made._api, made._url = provider[0]._api, made._url
            pieces, _ = await ask(made, HELLO)
            await asyncio.sleep(0)
            if len(provider) > 1:
                await made.close()
            return joined(pieces)

    assert asyncio.run(once()) == asyncio.run(once())
