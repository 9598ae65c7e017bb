"""What only Gemini does: blocked prompts, calls without ids, signatures on parts, and calls that it fails to write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.streams.formats import sse
from support.streams.more import GeminiFormat
from support.wire_messages import wire_messages
from test_providers import HELLO, joined

from mainstay.core.errors import ContextTooLong, RateLimited, StreamBroken, Unauthorised
from mainstay.core.messages import FinishReason, Message, ToolCall, ToolResult, Usage
from mainstay.core.ports import Context, ModelInfo, Options, Piece
from mainstay.core.tools import tool
from mainstay.providers.gemini.provider import GeminiProvider
from mainstay.providers.gemini.response import GeminiResponseParser
from mainstay.providers.wire.errors import error_from_status

api = GeminiFormat()


def fed(*events: bytes) -> tuple[list[Any], GeminiResponseParser]:
    answer = GeminiResponseParser("gemini")
    pieces: list[Piece] = answer.feed([event.partition(b"data: ")[2].strip() for event in events])
    return joined(pieces), answer


def call(name: str, **rest: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"n": 1}, **rest}}


def test_calls_are_separated_with_and_without_ids_in_one_chunk_or_in_many() -> None:
    expected = [("call", "a", '{"n":1}'), ("call", "a", '{"n":1}')]
    assert fed(api.chunk(call("a"), call("a")))[0] == expected
    assert fed(api.chunk(call("a", id="x")), api.chunk(call("a", id="x")))[0] == expected


def test_a_signature_stands_before_its_call_and_after_its_text() -> None:
    said, _ = fed(
        api.chunk({"text": "so"}),
        api.chunk({"text": " it is", "thoughtSignature": "dGV4dA=="}),
        api.chunk({**call("a"), "thoughtSignature": "Y2FsbA=="}, call("b")),
    )
    assert said == [
        ("text", "so it is"),
        ("thinking", "", "gemini:dGV4dA==gemini-call:Y2FsbA=="),  # as the suite sums neighbours up
        ("call", "a", '{"n":1}'),
        ("call", "b", '{"n":1}'),
    ]


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "SPII", "BLOCKLIST", "LANGUAGE"])
def test_a_withheld_answer_is_filtered(reason: str) -> None:
    finished = fed(sse({"candidates": [{"finishReason": reason, "index": 0}]}))[1].final_piece()
    assert finished is not None
    assert finished.reason is FinishReason.FILTERED


def test_a_prompt_that_is_blocked_has_no_candidates_and_is_filtered() -> None:
    usage = {"promptTokenCount": 9, "totalTokenCount": 9}
    _, answer = fed(sse({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage}))
    finished = answer.final_piece()
    assert finished is not None
    assert (finished.reason, finished.usage) == (FinishReason.FILTERED, Usage(9))


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_a_call_that_it_could_not_write_breaks_the_stream_so_that_it_is_asked_again(reason: str) -> None:
    _, answer = fed(api.chunk(reason=reason))
    assert isinstance(answer.error, StreamBroken)
    assert answer.error.details == reason


def test_an_end_with_every_chunk_is_no_end_of_the_stream() -> None:
    said, answer = fed(*(api.chunk({"text": part}, reason="STOP") for part in "abc"))
    assert said == [("text", "abc")]
    assert not answer.is_over


def test_an_error_says_its_own_status() -> None:
    error = {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}
    assert isinstance(fed(sse({"error": error}))[1].error, RateLimited)


def test_the_prompt_counts_tool_tokens_and_the_answer_counts_reasoning() -> None:
    counts = {"toolUsePromptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}
    finished = fed(api.chunk(reason="STOP", counts=counts))[1].final_piece()
    assert finished is not None
    assert finished.usage == Usage(55, 7, 0, 4)


def test_schemas_go_as_they_are_and_thoughts_are_asked_for_where_there_are_any() -> None:
    @tool(untrusted=False, sink=False)
    def add(a: int) -> int:
        """Add."""
        return a

    context = Context("s", HELLO.messages, (add,), "p")
    provider = GeminiProvider("m", base_url="http://127.0.0.1:1", info=ModelInfo(name="m", thinking=True))
    body = json.loads(provider.build_body(context, Options(tool_choice="none")))
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert declared["parametersJsonSchema"]["properties"] == {"a": {"type": "integer"}}
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}
    assert body["generationConfig"] == {"thinkingConfig": {"includeThoughts": True}}
    assert body["systemInstruction"] == {"parts": [{"text": "s"}, {"text": "p"}]}
    plain = json.loads(api.make("http://127.0.0.1:1").build_body(HELLO, Options()))
    assert "generationConfig" not in plain


def test_an_error_of_a_tool_is_sent_as_an_error() -> None:
    asked = Message(2, "assistant", (ToolCall("c", "a", "{}"),))
    answered = Message(3, "tool", (ToolResult("c", "a", "no", is_error=True),))
    made = wire_messages(api.make("http://127.0.0.1:1"), Context("", [*HELLO.messages, asked, answered]))
    assert made[2]["parts"][0]["functionResponse"]["response"] == {"error": "no"}


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("gemini-x", "https://host/v1beta"),
        ("models/gemini-x", "https://host/v1beta/"),
        ("gemini-x", "https://host/v1beta/openai"),
    ],
)
def test_the_address_is_found_from_either_of_its_apis(model: str, base_url: str) -> None:
    provider = GeminiProvider(model, base_url=base_url)
    assert provider._url == "https://host/v1beta/models/gemini-x:streamGenerateContent?alt=sse"


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "API key not valid. Please pass a valid API key.", Unauthorised),
        (
            400,
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ContextTooLong,
        ),
        (429, "You exceeded your current quota. Please retry in 34.07s.", RateLimited),
    ],
)
def test_google_specific_errors_are_understood(status: int, message: str, kind: type) -> None:
    body = json.dumps({"error": {"code": status, "message": message, "status": "X"}}).encode()
    error = error_from_status("gemini", status, {}, body, now_s=0.0)
    assert type(error) is kind
    assert getattr(error, "window", None) in (None, 1_048_576)
    assert error.retry_after_s in (None, 34.07)
