"""Token counts that a model server makes up: they are corrected where they are read, and never credited."""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import closing as closing_connection
from pathlib import Path
from typing import Any

import pytest
from support.provider_fuzz import MODEL, check_pieces, decode_stream, frame_payload, list_places, split_payloads
from support.streams.formats import AnthropicFormat, Format, OpenAIFormat
from support.streams.more import FORMATS
from support.streams.server import Loopback, closing

from mainstay import Agent, Config
from mainstay.config.schema_judges_budgets_telemetry import BudgetEntry, BudgetSettings, PeriodBudgets
from mainstay.core.errors import ConfigError, StreamBroken
from mainstay.core.events import MessageAdded, Reserved
from mainstay.core.ledger_entries import LEDGER_AMOUNT_MAX
from mainstay.core.messages import TOKENS_MAX, FinishReason, Usage
from mainstay.core.model_info import CORRECTION_CHARS_MAX, LongPromptPrices, ModelInfo
from mainstay.core.outcome import Answered, Failed
from mainstay.core.ports import Context, Options, Piece, StreamFinished, TextPiece, ThinkingPiece, ToolCallPiece
from mainstay.core.usage_bounds import DOLLARS_MAX, RECORD_TOKENS_MAX
from mainstay.providers.scripted import Say, ScriptedProvider
from mainstay.providers.wire.decoding import CALLS_MAX

BUDGETS = Config(budgets=BudgetSettings(home=PeriodBudgets(month=BudgetEntry(money=1000.0, tokens=10**12))))
PROMPT_COUNTS = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_eval_count", "inputTokens")
LIES: list[Any] = [2**63, 2**64, 10**18, 10**9, -5, -(10**18), "many", "7", True, [1], {}, 0.5]


def stream_with_count(api: Format, count: Any) -> bytes:
    """A sound answer whose count of prompt tokens is this."""
    payloads = split_payloads(api, [*api.begin(), *api.text("fine"), *api.end("end"), *api.tail()])
    changed = [change_counts(payload, count) for payload in payloads]
    assert changed != payloads
    return b"".join(frame_payload(api, payload) for payload in changed)


def change_counts(payload: bytes, count: Any, names: tuple[str, ...] = PROMPT_COUNTS) -> bytes:
    if not payload.startswith(b"{"):
        return payload
    value = json.loads(payload)
    for container, key in list_places(value):
        if key in names:
            container[key] = count
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def sound_stream(api: Format) -> bytes:
    return b"".join([*api.begin(), *api.text("sound"), *api.end("end"), *api.tail()])


async def find_events(agent: Agent, kind: type[Any]) -> list[Any]:
    return [record.event for record in await agent.sessions.records("s") if isinstance(record.event, kind)]


def read_spending(home: Path) -> tuple[int, int]:
    """Nanodollars and tokens of the home, as the ledger on disk has them."""
    with closing_connection(sqlite3.connect(home / "gateway.db")) as db:
        rows = db.execute("SELECT nanodollars, tokens FROM ledger WHERE scope='home'").fetchall()
    assert all(0 <= amount <= LEDGER_AMOUNT_MAX for row in rows for amount in row)
    return sum(row[0] for row in rows), sum(row[1] for row in rows)


@pytest.mark.parametrize("lie", LIES, ids=repr)
async def test_f56_the_reservation_is_charged_for_a_report_that_cannot_be_believed(tmp_path: Path, lie: Any) -> None:
    api = OpenAIFormat()
    async with Loopback(closing(stream_with_count(api, lie)), closing(sound_stream(api))) as server:
        async with Agent(api.make(server.url, None, MODEL), home=tmp_path, config=BUDGETS) as agent:
            assert isinstance((await agent.run("s", "hello")).outcome, Answered)
            (said,) = [event for event in await find_events(agent, MessageAdded) if event.role == "assistant"]
            (reserved,) = await find_events(agent, Reserved)
            assert said.usage.correction.endswith("; the reservation was charged")
            assert (said.usage.prompt, said.usage.completion) == (reserved.prompt, reserved.output)
            assert 0 < said.cost <= reserved.cost / 1e9
        charged = read_spending(tmp_path)
        assert charged[1] == reserved.prompt + reserved.output
        async with Agent(api.make(server.url, None, MODEL), home=tmp_path, config=BUDGETS) as agent:  # after a restart
            reply = await agent.run("s", "go on")
            assert (reply.text, reply.usage) == ("sound", Usage(50, 7, 30, 2))
            assert (await agent.sessions.replay("s")).is_identical
        assert read_spending(tmp_path)[1] == charged[1] + 57


@pytest.mark.parametrize("lie", [2**63, -5, "many"], ids=repr)
@pytest.mark.parametrize("api", FORMATS, ids=lambda api: api.name)
async def test_f56_a_lie_of_any_api_is_flagged_and_the_session_goes_on(api: Format, lie: Any) -> None:
    async with (
        Loopback(closing(stream_with_count(api, lie)), closing(sound_stream(api))) as server,
        Agent(api.make(server.url, None, MODEL), home=":memory:") as agent,
    ):
        reply = await agent.run("s", "hello")
        assert (reply.text, reply.cost) == ("fine", 0.0)
        assert reply.usage.correction.startswith("not believed: ")
        assert (await agent.run("s", "go on")).usage == api.usage


async def test_f56_an_api_that_always_reports_usage_is_charged_in_full_if_it_does_not(tmp_path: Path) -> None:
    api = AnthropicFormat()
    silent = sound_stream(api).replace(b'"usage"', b'"use"')
    async with (
        Loopback(closing(silent)) as server,
        Agent(api.make(server.url, None, MODEL), home=tmp_path, config=BUDGETS) as agent,
    ):
        reply = await agent.run("s", "hello")
        (reserved,) = await find_events(agent, Reserved)
        assert (reply.usage.prompt, reply.usage.completion) == (reserved.prompt, reserved.output)
        assert reply.usage.correction == "missing in the response; the reservation was charged"


OUTPUT_COUNTS = ("completion_tokens", "output_tokens", "candidatesTokenCount", "eval_count", "outputTokens")


@pytest.mark.parametrize("count", [0, None])
@pytest.mark.parametrize("api", FORMATS, ids=lambda api: api.name)
async def test_f56_an_answer_with_text_is_charged_though_its_tokens_are_not_reported(
    api: Format, count: int | None, tmp_path: Path
) -> None:
    text = "forty-two " * 100
    payloads = split_payloads(api, [*api.begin(), *api.text(text), *api.end("end"), *api.tail()])
    names = (*OUTPUT_COUNTS, "reasoning_tokens", "thoughtsTokenCount")
    stream = b"".join(frame_payload(api, change_counts(payload, count, names)) for payload in payloads)
    async with (
        Loopback(closing(stream)) as server,
        Agent(api.make(server.url, None, MODEL), home=tmp_path, config=BUDGETS) as agent,
    ):
        usage = (await agent.run("s", "hello")).usage
        assert usage.prompt == api.usage.prompt
        assert usage.completion >= 100
        assert usage.correction == "no completion tokens were reported; they were estimated"
    assert read_spending(tmp_path)[1] == usage.prompt + usage.completion


async def test_f56_a_call_is_charged_for_its_prompt_though_only_the_answer_is_reported(tmp_path: Path) -> None:
    model = ScriptedProvider([Say("one", usage=Usage(0, 5))], info=MODEL)
    async with Agent(model, home=tmp_path, config=BUDGETS) as agent:
        reply = await agent.run("s", "hello")
        (reserved,) = await find_events(agent, Reserved)
    assert (reply.usage.prompt, reply.usage.completion) == (reserved.prompt, 5)
    assert reply.usage.correction == "no prompt tokens were reported; they were estimated"


CODE_LIES: list[Any] = [
    *(Usage(2**63, 5), Usage(5, 10**18), Usage(-5, 5), Usage(5, 5, cached=10**6), Usage(10, 5, written=-3)),
    *(Usage(5, 5, reasoning=2**70), Usage(5, 5, reasoning=6), Usage(5, 5, reasoning=-1)),
]
WRONG_TYPES: list[Any] = [5.0, True, "5", None, math.nan, math.inf, [5]]
CODE_LIES += [Usage(wrong, 5) for wrong in WRONG_TYPES] + [Usage(5, 5, reasoning=wrong) for wrong in WRONG_TYPES]


@pytest.mark.parametrize("lie", CODE_LIES, ids=repr)
async def test_f56_a_provider_in_code_is_not_believed_either(tmp_path: Path, lie: Usage) -> None:
    model = ScriptedProvider([Say("one", usage=lie), Say("two", usage=Usage(3, 4))], info=MODEL)
    async with Agent(model, home=tmp_path, config=BUDGETS) as agent:
        reply = await agent.run("s", "hello")
        assert reply.usage.correction.startswith("not believed: the provider reported ")
        assert reply.cost > 0
        assert (await agent.run("s", "go on")).usage == Usage(3, 4)
        assert (await agent.sessions.replay("s")).is_identical


async def test_f56_a_long_correction_of_a_provider_in_code_is_clipped() -> None:
    wordy: list[Any] = ["x" * 10**6, 7]
    model = ScriptedProvider([Say("one", usage=Usage(5, 5, correction=said)) for said in wordy], info=MODEL)
    async with Agent(model, home=":memory:") as agent:
        corrections = [(await agent.run("s", "hello")).usage.correction for _ in wordy]
        assert corrections == ["x" * CORRECTION_CHARS_MAX, "7"]
        assert (await agent.sessions.replay("s")).is_identical


class YieldingProvider:
    """Yields anything in its first answer, as code of another distribution may."""

    def __init__(self, *pieces: Any) -> None:
        self._pieces = pieces
        self._has_answered = False

    def model(self) -> ModelInfo:
        return MODEL

    async def close(self) -> None: ...

    async def stream(self, context: Context, options: Options) -> AsyncGenerator[Piece, None]:
        sound = (TextPiece("sound"), StreamFinished(FinishReason.END, Usage(3, 4)))
        pieces, self._has_answered = sound if self._has_answered else self._pieces, True
        for piece in pieces:
            yield piece


FINISHED = StreamFinished(FinishReason.END, Usage(5, 5))
WRONG: Any = 7
WRONG_PIECES: list[tuple[Any, ...]] = [
    (TextPiece(WRONG), FINISHED),
    (TextPiece("a"), TextPiece(WRONG), FINISHED),
    (ThinkingPiece("a", WRONG), FINISHED),
    (ToolCallPiece(WRONG, WRONG, "{}"), FINISHED),
    (ToolCallPiece(0, "add", WRONG), FINISHED),
    ("a", FINISHED),
    (TextPiece("a"), StreamFinished(WRONG, Usage(5, 5))),
    (TextPiece("a"), StreamFinished("stop", Usage(5, 5))),  # type: ignore[arg-type]
    (TextPiece("a"), StreamFinished(FinishReason.END, WRONG)),
    (TextPiece("a"), StreamFinished(FinishReason.END, Usage(5, 5), WRONG)),
    (TextPiece("a"), StreamFinished(FinishReason.END, Usage(5, 5), ModelInfo(name=WRONG))),
    (TextPiece("a"), StreamFinished(FinishReason.END, Usage(5, 5), ModelInfo(name="m", price_prompt=math.nan))),
    (TextPiece("a"),),
    (),
]


@pytest.mark.parametrize("pieces", WRONG_PIECES, ids=repr)
async def test_f56_what_is_no_piece_of_an_answer_fails_the_turn_and_the_session_goes_on(
    tmp_path: Path, pieces: tuple[Any, ...]
) -> None:
    provider = YieldingProvider(*pieces)
    async with Agent(provider, home=tmp_path, config=BUDGETS) as agent:
        outcome = (await agent.run("s", "hello")).outcome
        assert isinstance(outcome, Failed)
        assert outcome.sentence.startswith("The code of the provider of m ")
        assert (await agent.run("s", "go on")).text == "sound"
    async with Agent(provider, home=tmp_path, config=BUDGETS) as agent:
        assert (await agent.run("s", "go on")).text == "sound"
        assert (await agent.sessions.replay("s")).is_identical


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": WRONG},
        {"name": "\ud800"},
        {"window": "9"},
        {"window": math.nan},
        {"output": -1},
        {"price_prompt": math.nan},
        {"price_completion": math.inf},
        {"price_cached": -1.0},
        {"long": LongPromptPrices(10, WRONG, "7")},  # type: ignore[arg-type]
    ],
    ids=ascii,
)
async def test_f56_a_model_that_a_provider_in_code_describes_with_wrong_values_is_refused_when_the_agent_opens(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    info = ModelInfo(**{"name": "m", **wrong})
    with pytest.raises(ConfigError, match=r"ScriptedProvider\.model\(\) cannot be used: "):
        async with Agent(ScriptedProvider(["hi"], info=info), home=tmp_path) as agent:
            await agent.run("s", "hello")
    async with Agent(ScriptedProvider(["hi"]), home=tmp_path) as agent:
        assert (await agent.run("s", "hello")).text == "hi"


def test_a_part_that_is_larger_than_its_whole_is_counted_beside_it() -> None:
    api = OpenAIFormat()
    stream = (
        sound_stream(api).replace(b'"cached_tokens":30', b'"cached_tokens":60').replace(b'_tokens":2}', b'_tokens":9}')
    )
    pieces, error = asyncio.run(decode_stream(api, [stream]))
    check_pieces(pieces, error)
    correction = "reasoning tokens were reported beside the completion"
    assert pieces[-1] == StreamFinished(FinishReason.END, Usage(110, 16, 60, 9, correction=correction))


@pytest.mark.parametrize("api", FORMATS, ids=lambda api: api.name)
def test_more_tool_calls_than_any_answer_has_break_the_stream(api: Format) -> None:
    calls = [event for number in range(CALLS_MAX + 50) for event in api.call(number, "add", "{}")]
    stream = b"".join([*api.begin(), *calls, *api.end("tool_calls"), *api.tail()])
    pieces, error = asyncio.run(decode_stream(api, [stream]))
    check_pieces(pieces, error)
    assert isinstance(error, StreamBroken)
    assert len({piece.index for piece in pieces if isinstance(piece, ToolCallPiece)}) == CALLS_MAX


# --- homes of earlier releases ---------------------------------------------------------------------


async def spoil_home(home: Path, config: Config, spoil: Callable[[dict[str, Any]], None]) -> None:
    """Make a home with one turn, whose answer is then changed as an earlier release might have stored it."""
    async with Agent(
        ScriptedProvider([Say("old", usage=Usage(100, 50))], info=MODEL), home=home, config=config
    ) as agent:
        await agent.run("s", "hello")
    with closing_connection(sqlite3.connect(home / "workspaces/default/workspace.db")) as db, db:
        for id, body in db.execute("SELECT id, body FROM events").fetchall():
            event = json.loads(body)
            if "usage" in event:
                spoil(event)
                db.execute("UPDATE events SET body=? WHERE id=?", (json.dumps(event), id))
                db.execute("UPDATE sessions SET prompt_tokens=?, cost=?", (event["usage"]["prompt"], event["cost"]))
    with closing_connection(sqlite3.connect(home / "gateway.db")) as db, db:  # counted again at the next start
        for table in ("ledger", "ledger_followed", "ledger_open"):
            db.execute(f"DELETE FROM {table}")


@pytest.mark.parametrize("prompt", [10**18, -(10**18), 2**63 - 1])
@pytest.mark.parametrize("config", [BUDGETS, Config()], ids=["reserved", "without budgets"])
async def test_f56_a_home_whose_journal_holds_absurd_usage_opens_and_credits_nothing(
    tmp_path: Path, prompt: int, config: Config
) -> None:
    def spoil(event: dict[str, Any]) -> None:
        event["usage"]["prompt"], event["cost"] = prompt, prompt * 3e-6

    await spoil_home(tmp_path, config, spoil)
    model = ScriptedProvider([Say("new", usage=Usage(10, 5))], info=MODEL)
    async with Agent(model, home=tmp_path, config=BUDGETS) as agent:
        info = await agent.sessions.get("s")
        reply = await agent.run("new", "go on")
        assert (reply.text == "new") == (config is BUDGETS or prompt < 0), reply.outcome  # else the budget is used up
        await agent.run("s", "go on")
        info = await agent.sessions.get("s")
        assert info is not None
        assert 0 <= info.prompt_tokens <= TOKENS_MAX
        assert 0 <= info.cost <= DOLLARS_MAX
    money, tokens = read_spending(tmp_path)
    assert 0 < tokens <= 2 * RECORD_TOKENS_MAX
    assert money > 0


@pytest.mark.parametrize("amount", [9 * 10**18, -(9 * 10**18)])
async def test_f56_a_ledger_that_holds_absurd_amounts_is_read_with_bounds(tmp_path: Path, amount: int) -> None:
    model = ScriptedProvider(lambda context, options: Say("well", usage=Usage(100, 50)), info=MODEL)
    async with Agent(model, home=tmp_path, config=BUDGETS) as agent:
        await agent.run("s", "hello")
    with closing_connection(sqlite3.connect(tmp_path / "gateway.db")) as db, db:
        db.execute("UPDATE ledger SET nanodollars=?, tokens=?, calls=?, lost=?", (amount,) * 4)
        db.execute("INSERT INTO ledger SELECT scope, name, hour-1, nanodollars, tokens, calls, lost FROM ledger")
    async with Agent(model, home=tmp_path, config=BUDGETS) as agent:
        reply = await agent.run("s", "go on")
        assert (reply.text == "well") == (amount < 0)
    with closing_connection(sqlite3.connect(tmp_path / "gateway.db")) as db:
        (newest,) = db.execute("SELECT tokens FROM ledger WHERE scope='home' ORDER BY hour DESC LIMIT 1").fetchone()
        assert newest == 150 if amount < 0 else newest >= LEDGER_AMOUNT_MAX


def test_sums_of_usage_stop_at_what_can_be_stored() -> None:
    total = Usage(TOKENS_MAX, 5, correction="a") + Usage(TOKENS_MAX, 6, correction="b")
    assert total == Usage(TOKENS_MAX, 11, correction="a")
