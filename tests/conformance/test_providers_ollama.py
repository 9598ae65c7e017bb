"""What only Ollama does: JSON by the line, a window that each request chooses, and a server that knows its models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from support.streams.formats import ask
from support.streams.more import OllamaFormat, dumped
from support.streams.server import STALL, Action, Loopback, chunked, status
from test_providers import HELLO, call_stream, joined, parse_parts

from mainstay.core import errors
from mainstay.core.ports import ModelInfo, Options, StreamFinished
from mainstay.providers.ollama import provider
from mainstay.providers.ollama.environment import DEFAULT_WINDOW
from mainstay.providers.ollama.provider import KEEP_ALIVE, OllamaProvider

api = OllamaFormat()
SHOWN = {
    "license": "x" * 3000,
    "parameters": 'stop                           "<|im_end|>"\ntemperature                    0.7',
    "details": {"family": "qwen3"},
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960, "qwen3.vision.context_length": 7},
    "capabilities": ["completion", "tools", "thinking"],
}


def shown(**changed: Any) -> list[Action]:
    return status(200, dumped({**SHOWN, **changed}))


def fine() -> list[Action]:
    return chunked(*api.text("x"), *api.end("end"))


async def asked(
    *scripts: list[Action], info: ModelInfo | None = None, now: Callable[[], float] | None = None
) -> tuple[OllamaProvider, Loopback]:
    """After two turns. `now` is called with each request that arrives."""
    async with Loopback(*scripts, now=now) as server:
        provider = OllamaProvider("qwen3", base_url=server.url, info=info)
        for _ in range(2):
            pieces, error = await ask(provider, HELLO)
            assert error is None, error
            assert isinstance(pieces[-1], StreamFinished)
        await provider.close()
    return provider, server


def windows(server: Loopback) -> list[int]:
    return [one.body["options"]["num_ctx"] for one in server.asked if "/api/chat" in one.line]


async def test_every_request_says_its_window_and_that_nothing_may_be_cut() -> None:
    provider, server = await asked(fine(), info=ModelInfo(name="qwen3", window=32_768))
    assert [one.line for one in server.asked] == ["POST /api/chat HTTP/1.1"] * 2
    assert windows(server) == [32_768, 32_768]
    assert all((one.body["truncate"], one.body["shift"]) == (False, False) for one in server.asked)
    assert all(one.body["keep_alive"] == KEEP_ALIVE for one in server.asked)
    assert provider.model().window == 32_768


async def test_an_unconfigured_window_is_read_from_the_server_before_the_first_request_and_stays() -> None:
    provider, server = await asked(shown(), fine())
    assert [one.line.split()[1] for one in server.asked] == ["/api/show", "/api/chat", "/api/chat"]
    assert server.asked[0].body == {"model": "qwen3"}
    assert windows(server) == [DEFAULT_WINDOW, DEFAULT_WINDOW]
    assert [one.body.get("think") for one in server.asked] == [None, True, True]
    assert provider.model() == ModelInfo(name="qwen3", window=DEFAULT_WINDOW, output=4096, images=False, thinking=True)


@pytest.mark.parametrize(
    ("changed", "window"),
    [
        ({"model_info": {"llama.context_length": 4096}}, 4096),
        ({"parameters": "num_ctx                        65536\nstop x"}, 65_536),
        ({"model_info": {"llama.context_length": 2048}, "parameters": "num_ctx 1024"}, 1024),
        ({"model_info": None, "parameters": None, "capabilities": None}, DEFAULT_WINDOW),
        ({"model_info": {"llama.context_length": "many"}, "parameters": "num_ctx many"}, DEFAULT_WINDOW),
    ],
    ids=["trained for less", "its maker chose", "both", "an old server", "nonsense"],
)
async def test_the_window_is_what_its_maker_chose_or_it_was_trained_for(changed: dict[str, Any], window: int) -> None:
    provider, server = await asked(shown(**changed), fine())
    assert windows(server) == [window, window]
    assert provider.model().window == window
    assert provider.model().output <= window


async def test_a_server_that_does_not_report_its_window_does_not_block_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, open_timeout, waiting = asyncio.get_running_loop(), asyncio.timeout, list[asyncio.Timeout]()
    show_timeout_s = 3600.0

    def note_timeout(delay: float | None) -> asyncio.Timeout:
        opened = open_timeout(delay)
        if delay == show_timeout_s:
            waiting.append(opened)
        return opened

    def let_time_pass() -> float:
        """Let the timeout expire once the server has the request, however long that took."""
        while waiting:
            waiting.pop().reschedule(loop.time())
        return loop.time()

    monkeypatch.setattr(provider, "SHOW_TIMEOUT_S", show_timeout_s)
    monkeypatch.setattr(asyncio, "timeout", note_timeout)
    _, server = await asked([STALL], fine(), now=let_time_pass)
    assert [one.line.split()[1] for one in server.asked] == ["/api/show", "/api/chat", "/api/chat"]
    assert windows(server) == [DEFAULT_WINDOW, DEFAULT_WINDOW]


async def test_a_server_that_cannot_say_is_asked_again_next_time() -> None:
    _, server = await asked(status(404, b'{"error":"x"}'), fine(), shown(parameters="num_ctx 8192"), fine())
    assert windows(server) == [DEFAULT_WINDOW, 8192]


async def test_an_unknown_model_is_named() -> None:
    async with Loopback(status(404, b'{"error":"model \'qwen3\' not found"}')) as server:
        provider = OllamaProvider("qwen3", base_url=server.url)
        _, error = await ask(provider, HELLO)
        await provider.close()
    assert isinstance(error, errors.RequestRefused)
    assert "model 'qwen3' not found" in str(error)


async def test_f17_a_prompt_that_does_not_fit_is_recognised() -> None:
    async with Loopback(status(400, b'{"error":"the input length exceeds the context length"}')) as server:
        provider = api.make(server.url)
        _, error = await ask(provider, HELLO)
        await provider.close()
    assert isinstance(error, errors.ContextTooLong)


@pytest.mark.parametrize("step", [1, 7, 100_000])
@pytest.mark.parametrize(("before", "after"), [(b"\n", b"\r\n"), (b"\n", b"\n\n\n"), (b"{", b" {")])
def test_every_way_to_write_lines_is_read(before: bytes, after: bytes, step: int) -> None:
    whole = b"".join(call_stream(api))
    body = whole.replace(before, after)
    assert parse_parts(api, *(body[at : at + step] for at in range(0, len(body), step))) == parse_parts(api, whole)


def test_arguments_that_came_as_text_are_read() -> None:
    calls = [{"function": {"name": "a", "arguments": '{"n":1}'}}, {"function": {"name": "b", "arguments": None}}]
    said, _, _ = parse_parts(api, api.line({"role": "assistant", "tool_calls": calls}), *api.end("end"))
    assert said == [("call", "a", '{"n":1}'), ("call", "b", "")]


def test_thinking_text_and_calls_of_one_line_are_all_read() -> None:
    message = {"thinking": "hm", "content": "well", "tool_calls": [{"function": {"name": "a", "arguments": {}}}]}
    said, _, _ = parse_parts(api, api.line(message), *api.end("end"))
    assert said == [("thinking", "hm", ""), ("text", "well"), ("call", "a", "{}")]


async def test_no_key_means_no_authorization_header_and_a_key_goes_along() -> None:
    async with Loopback(fine()) as server:
        for key in (None, "k"):
            provider = OllamaProvider("m", base_url=server.url, api_key=key, info=ModelInfo(name="m"))
            pieces, _ = await ask(provider, HELLO)
            assert joined(pieces)[0] == ("text", "x")
            await provider.close()
    assert [one.headers.get("authorization") for one in server.asked] == [None, "Bearer k"]


def test_the_bound_of_an_answer_is_said_beside_the_window() -> None:
    body = json.loads(api.make("http://127.0.0.1:1").build_body(HELLO, Options(output_tokens_max=9)))
    assert body["options"] == {"num_ctx": 128_000, "num_predict": 9}
