"""What only the Responses API does: items, summaries, refusals, and an account that may not have all of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.streams.formats import KEY, ask
from support.streams.more import ResponsesFormat
from support.streams.server import Loopback, chunked, status
from test_providers import HELLO, joined

from mainstay.core.errors import Overloaded, RateLimited, RequestRefused
from mainstay.core.messages import FinishReason
from mainstay.core.ports import Context, ModelInfo, Options, Piece
from mainstay.core.tools import tool
from mainstay.providers.openai_responses.provider import OpenAIResponsesProvider
from mainstay.providers.openai_responses.response import OpenAIResponsesParser

api = ResponsesFormat()
THINKS = ModelInfo(name="m", thinking=True)


def fed(events: list[bytes]) -> tuple[list[Any], OpenAIResponsesParser]:
    answer = OpenAIResponsesParser("openai")
    pieces: list[Piece] = answer.feed([event.partition(b"data: ")[2].strip() for event in events])
    return joined(pieces), answer


def test_nothing_is_stored_and_tools_are_taken_as_they_are() -> None:
    @tool(untrusted=False, sink=False)
    def add(a: int) -> int:
        """Add."""
        return a

    body = json.loads(
        api.make("http://127.0.0.1:1/v1").build_body(Context("s", HELLO.messages, (add,), "p"), Options())
    )
    assert body["store"] is False
    assert body["tools"][0]["strict"] is False
    assert body["instructions"] == "s\n\np"
    assert body["input"] == [{"role": "user", "content": "hello"}]
    assert not {"include", "reasoning", "stream_options"} & set(body)


def test_a_model_that_thinks_is_asked_for_what_it_needs_back() -> None:
    own = OpenAIResponsesProvider("m", api_key=KEY, info=THINKS)
    body = json.loads(own.build_body(HELLO, Options()))
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["reasoning"] == {"summary": "auto"}
    assert body["stream_options"] == {"include_obfuscation": False}


async def test_an_account_without_summaries_is_asked_again_without_and_remembered() -> None:
    refused = {"message": "Your organization must be verified to generate reasoning summaries.", "param": "reasoning"}
    scripts = [status(400, json.dumps({"error": refused}).encode()), chunked(*api.text("x"), *api.end("end"))]
    async with Loopback(*scripts) as server:
        provider = api.make(server.url, info=THINKS)
        for _ in range(2):
            pieces, error = await ask(provider, HELLO)
            assert error is None
            assert joined(pieces)[0] == ("text", "x")
        await provider.close()
    assert ["reasoning" in asked.body for asked in server.asked] == [True, False, False]


async def test_another_refusal_is_not_asked_again() -> None:
    async with Loopback(status(400, b'{"error":{"message":"bad"}}')) as server:
        provider = api.make(server.url, info=THINKS)
        _, error = await ask(provider, HELLO)
        await provider.close()
    assert type(error) is RequestRefused
    assert len(server.asked) == 1


def test_each_part_of_a_summary_is_a_paragraph() -> None:
    where = {"item_id": "rs", "output_index": 0}
    events = []
    for index, text in enumerate(["a", "b"]):
        events.append(api.event("response.reasoning_summary_part.added", {**where, "summary_index": index}))
        events.append(api.event("response.reasoning_summary_text.delta", {**where, "delta": text}))
    assert fed(events)[0] == [("thinking", "a\n\nb", "")]


def test_a_refusal_is_read() -> None:
    said, _ = fed([api.event("response.refusal.delta", {"delta": part}) for part in ("I will ", "not")])
    assert said == [("text", "I will not")]


def test_a_phase_is_stored_and_sent_back() -> None:
    item = {"type": "message", "id": "m", "role": "assistant", "content": [], "phase": "commentary"}
    said, _ = fed([api.event("response.output_item.added", {"output_index": 0, "item": item}), *api.text("x")])
    assert said == [("thinking", "", "openai:phase:commentary"), ("text", "x")]


def test_a_complete_call_is_read_and_a_repeated_one_is_read_once() -> None:
    whole = {"type": "function_call", "id": "fc", "call_id": "c", "name": "a", "arguments": '{"n":1}'}
    done = api.event("response.output_item.done", {"output_index": 0, "item": whole})
    assert fed([done])[0] == [("call", "a", '{"n":1}')]
    assert fed(api.call(0, "a", '{"n"', ":1}"))[0] == [("call", "a", '{"n":1}')]


def test_f14_interleaved_calls_are_separated() -> None:
    a, b = api.call(0, "a", '{"n"', ":1}"), api.call(1, "b", '{"n"', ":2}")
    said, _ = fed([piece for pair in zip(a, b, strict=True) for piece in pair])
    assert said == [("call", "a", '{"n":1}'), ("call", "b", '{"n":2}')]


def test_f12_a_delta_without_its_item_is_ignored() -> None:
    delta = {"item_id": "x", "output_index": 5, "delta": "{}"}
    assert fed([api.event("response.function_call_arguments.delta", delta)])[0] == []


def test_thoughts_without_their_encrypted_form_are_only_shown() -> None:
    item = {"type": "reasoning", "id": "rs", "summary": []}
    said, _ = fed([api.event("response.output_item.done", {"output_index": 0, "item": item}), *api.text("x")])
    assert said == [("text", "x")]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "rate_limit_exceeded", "message": "slow"}, RateLimited),
        ({"code": "server_error", "message": "oh"}, Overloaded),
        (None, Overloaded),
    ],
)
def test_a_response_that_failed_is_its_error(error: Any, kind: type) -> None:
    _, answer = fed([*api.begin(), api.event("response.failed", {"response": {"error": error}})])
    assert type(answer.error) is kind


def test_an_error_is_read_at_every_place_in_the_response() -> None:
    """The description has its fields in the event, the service often sends them one level deeper."""
    error = {"code": "rate_limit_exceeded", "message": "slow"}
    for body in (error, {"error": error}):
        assert type(fed([api.event("error", body)])[1].error) is RateLimited


@pytest.mark.parametrize("reason", ["max_messages", None])
def test_an_answer_that_stopped_for_other_reasons_is_an_end(reason: str | None) -> None:
    _, answer = fed([api.event("response.incomplete", {"response": {"incomplete_details": {"reason": reason}}})])
    finished = answer.final_piece()
    assert finished is not None
    assert finished.reason is FinishReason.END


def test_half_a_call_is_never_taken_for_a_whole_one() -> None:
    begun = api.event("response.output_item.added", {"item": {"type": "function_call", "name": "add"}})
    for reason in ("max_output_tokens", "something_new", None):
        body = {"response": {"incomplete_details": {"reason": reason}}}
        finished = fed([begun, api.event("response.incomplete", body)])[1].final_piece()
        assert finished is not None
        assert finished.reason is FinishReason.LENGTH
