"""From the records of a turn to its spans: names by the published conventions, times by the journal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.span_records import (
    BEGUN,
    Told,
    answer,
    calls,
    child_turn,
    ended,
    everything,
    finished,
    records,
    standing,
    started,
    tool_turn,
)

from mainstay import Agent, Config, providers
from mainstay.agent.telemetry import index_models
from mainstay.config.schema_skills_patterns_triggers import PatternSettings
from mainstay.core.errors import StoreBusy
from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    DurableEvent,
    Folded,
    Guarded,
    Judged,
    MessageAdded,
    Relieved,
    Reserved,
    Score,
    Settled,
    Spawned,
    StepCheckpointed,
    StepRestarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnResumed,
)
from mainstay.core.journal import Record
from mainstay.core.memory_tiers import RUNTIME
from mainstay.core.messages import Finish, FinishReason, Text, ToolResult, Usage
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed
from mainstay.core.projection_ports import JournalBatch
from mainstay.core.provider_manifest import ProviderComponent, ProviderSettings
from mainstay.core.turn_location import trace_id
from mainstay.observe.otlp_encoder import encode_spans
from mainstay.observe.span_types import ModelEndpoint, Span, TelemetryOptions, Trace, TraceContext, group_by_turn
from mainstay.observe.traces import TraceProjection, build_trace
from mainstay.observe.turn_spans import build_turn_spans
from mainstay.testing import ScriptedProvider

TRACE = trace_id("s", BEGUN, 1)
HERE = TraceContext(TRACE, "s")


PLAIN = TelemetryOptions()


def spans_of(told: Sequence[Record], telling: TelemetryOptions = PLAIN, now: int | None = None) -> list[Span]:
    return build_turn_spans(told, HERE, telling, now)


def named(spans: Sequence[Span], name: str) -> Span:
    (found,) = (span for span in spans if span.name == name)
    return found


def times(span: Span) -> tuple[int, int]:
    return span.start - BEGUN, span.end - BEGUN


class Journals:
    """Journals by session."""

    def __init__(self, **kept: list[Record]) -> None:
        self.kept = {name.replace("__", "/"): told for name, told in kept.items()}

    async def read_records(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        return [one for one in self.kept.get(key, []) if one.seq > after][:limit]


FAMILY = Journals(s=everything(), s__call_1_1_2=child_turn())


async def whole() -> Trace:
    made = await build_trace(FAMILY, standing(), everything(), TelemetryOptions(workspace="w"))
    assert made is not None
    return made


# --- what there is, and when ---------------------------------------------------------------------


def test_a_call_that_the_model_never_answered_is_there_with_the_time_that_it_took() -> None:
    failed = Failed("The model could not answer: 401", "Unauthorised", turn=1, step=1)
    reserved = Reserved("1.1", "gpt-9", 100, 500, 4_000_000, turn=1, step=1)
    told = records(*started(), (30, reserved), (900, Settled("1.1", turn=1, step=1)), (905, TurnEnded(failed, turn=1)))
    spans = spans_of(told)
    assert [span.name for span in spans] == ["invoke_agent mainstay", "prepare", "chat gpt-9"]
    assert times(spans[2]) == (30, 905)
    assert spans[2].error_type


def test_a_turn_is_an_agent_with_its_model_and_tool_calls_below() -> None:
    spans = spans_of(tool_turn())
    assert [span.name for span in spans] == [
        "invoke_agent mainstay",
        "chat gpt-9",
        "execute_tool write",
        "chat gpt-9",
    ]
    assert [times(span) for span in spans] == [(0, 1510), (0, 400), (410, 700), (700, 1500)]
    assert {span.parent_id for span in spans[1:]} == {spans[0].id}
    assert spans[0].parent_id == ""


def test_tokens_cost_and_finish_reason_are_with_the_call_and_their_sum_with_the_turn() -> None:
    root, first, *_ = spans_of(tool_turn())
    assert first.attributes["gen_ai.usage.input_tokens"] == 100
    assert first.attributes["gen_ai.usage.output_tokens"] == 20
    assert first.attributes["gen_ai.usage.cache_read.input_tokens"] == 40
    assert first.attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert first.attributes["mainstay.cost"] == 0.002
    assert root.attributes["gen_ai.usage.input_tokens"] == 230
    assert root.attributes["mainstay.cost"] == pytest.approx(0.003)
    assert root.attributes["mainstay.turn"] == 1
    assert root.attributes["mainstay.outcome"] == "answered"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai-responses/m", "openai"),
        ("gemini/m", "gcp.gemini"),
        ("google/m", "gcp.gemini"),
        ("mistral/m", "mistral_ai"),
        ("xai/m", "x_ai"),
        ("azure/m", "azure.ai.openai"),
        ("bedrock/m", "aws.bedrock"),
        ("anthropic/m", "anthropic"),
        ("my-server/m", "my-server"),
    ],
)
def test_providers_have_the_names_of_the_conventions_in_their_manifests(model: str, name: str) -> None:
    assert TelemetryOptions().find_model(model).provider == name
    entries = {"my-server": ProviderSettings(base_url="http://127.0.0.1:9/v1")}
    assert index_models(Config(model=model, providers=entries))[model].provider == name


def test_a_provider_of_another_distribution_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = ModuleType("fake_delphi")
    manifest.COMPONENT = ProviderComponent(  # type: ignore[attr-defined]
        name="delphi", title="Delphi", summary="Riddles.", factory="x:y", telemetry_name="gr.delphi"
    )
    monkeypatch.setitem(sys.modules, manifest.__name__, manifest)
    monkeypatch.setitem(providers.COMPONENTS, "delphi", manifest.__name__)
    assert TelemetryOptions().find_model("delphi/pythia").provider == "gr.delphi"


def test_a_bare_model_name_is_exported_with_its_provider() -> None:
    telling = TelemetryOptions(models={"fast": ModelEndpoint("gcp.gemini", "fast", "ai.example.org")})
    told = records(*started(model="fast"), answer(10, step=1), ended(10))
    chat = spans_of(told, telling)[1]
    assert chat.attributes["gen_ai.provider.name"] == "gcp.gemini"
    assert chat.attributes["gen_ai.request.model"] == "fast"
    assert chat.attributes["server.address"] == "ai.example.org"
    unknown = spans_of(told)[1]
    assert unknown.attributes["gen_ai.provider.name"] == "unknown"


def test_calls_that_ended_together_began_together_and_others_one_after_the_other() -> None:
    pair = (("call_1_1_0", "read"), ("call_1_1_1", "grep"), ("call_1_1_2", "ls"))
    told = records(
        *started(), calls(100, *pair), finished(300, *pair[0]), finished(300, *pair[1]), finished(350, *pair[2])
    )
    told += records(answer(400), ended(400), after=len(told))
    found = [times(span) for span in spans_of(told) if span.name.startswith("execute_tool")]
    assert found == [(100, 300), (100, 300), (300, 350)]


def test_a_reserved_call_begins_when_it_was_sent_and_what_came_before_is_its_preparation() -> None:
    reserved = Reserved("1.1", "gpt-9", 10, 10, 3_000_000, turn=1, step=1)
    spans = spans_of(records(*started(), (250, reserved), answer(900, step=1), ended(900)))
    assert times(named(spans, "prepare")) == (0, 250)
    assert named(spans, "prepare").attributes["mainstay.budget.reserved"] == 0.003
    assert times(named(spans, "chat gpt-9")) == (250, 900)


def test_waiting_for_an_approval_is_a_span_and_a_denied_call_says_so() -> None:
    one = ("call_1_1_0", "bash")
    asked = ApprovalAsked("a1", "call_1_1_0", "bash", "{}", turn=1, step=1)
    told = [*started(), calls(100, one), (110, asked), (60_000, ApprovalAnswered("a1", "denied", by="ann"))]
    spans = spans_of(records(*told, finished(60_001, *one, error=True), answer(60_500), ended(60_500)))
    waited = named(spans, "approval bash")
    assert times(waited) == (110, 60_000)
    assert waited.attributes["mainstay.approval.verdict"] == "denied"
    assert named(spans, "execute_tool bash").error_type == "denied"
    assert [mark.name for mark in spans[0].events] == ["mainstay.approval.asked", "mainstay.approval.answered"]


def test_an_answer_that_broke_off_and_the_one_asked_for_instead_are_two_spans_with_two_ids() -> None:
    told = records(*started(), (50, StepRestarted("cut", turn=1, step=1)), answer(90, step=1), ended(90))
    spans = spans_of(told, TelemetryOptions(include_error_messages=True))
    first, second = spans[1:]
    assert (first.error_type, first.error_message, times(first)) == ("stream_broken", "cut", (0, 50))
    assert (second.error_type, times(second)) == ("", (50, 90))
    assert first.id != second.id
    assert [mark.name for mark in spans[0].events] == ["mainstay.step.restarted"]


@pytest.mark.parametrize(
    ("outcome", "error", "kind"),
    [
        (Failed("The model could not answer.", "Unauthorised"), "Unauthorised", "failed"),
        (Failed("It broke.", "KeyError: 'what somebody said'"), "turn_failed", "failed"),
        (Aborted(), "", "aborted"),
        (Exhausted("25 steps"), "", "exhausted"),
    ],
    ids=["by name", "in words", "aborted", "exhausted"],
)
def test_the_end_of_a_turn_is_one_word(outcome: Failed | Aborted | Exhausted, error: str, kind: str) -> None:
    root = spans_of(records(*started(), (20, TurnEnded(outcome, turn=1))))[0]
    assert (root.error_type, root.attributes["mainstay.outcome"]) == (error, kind)
    assert root.attributes.get("error.type", "") == error


def test_text_of_the_runtime_in_place_of_the_model_is_no_model_call() -> None:
    said = MessageAdded("assistant", (Text("I had to stop.", origin=RUNTIME), Finish(FinishReason.END)), turn=1, step=1)
    spans = spans_of(records(*started(), (5, said), (5, TurnEnded(Exhausted("money"), turn=1))))
    assert [span.name for span in spans] == ["invoke_agent mainstay"]
    assert [mark.name for mark in spans[0].events] == ["mainstay.stopped"]


def test_a_clock_that_is_set_back_makes_no_span_end_before_it_began() -> None:
    one = ("call_1_1_0", "read")
    spans = spans_of(records(*started(900), calls(300, one), finished(100, *one), answer(50), ended(20)))
    assert all(span.start <= span.end for span in spans)


# --- crashes -------------------------------------------------------------------------------------


def crashed() -> list[Record]:
    one = ("call_1_1_0", "write")
    return records(
        *started(),
        calls(100, one),
        (110, ToolStarted("call_1_1_0", turn=1, step=1)),
        (5_000, TurnResumed(turn=1)),
        finished(5_200, *one),
        (5_300, StepCheckpointed("It", turn=1, step=2)),
        (9_000, TurnResumed(turn=1)),
        answer(9_500),
        ended(9_510),
    )


def test_a_turn_that_was_resumed_after_crashes_is_one_trace_that_shows_them() -> None:
    spans = spans_of(crashed())
    assert len({span.id for span in spans}) == len(spans)
    gaps = [span for span in spans if span.name == "interrupted"]
    assert [times(span) for span in gaps] == [(110, 5_000), (5_300, 9_000)]
    call = named(spans, "execute_tool write")
    assert times(call) == (110, 5_200)
    assert [mark.name for mark in call.events] == ["mainstay.turn.resumed"]
    chats = [span for span in spans if span.name == "chat gpt-9"]
    assert [(span.error_type, times(span)) for span in chats] == [
        ("", (0, 100)),
        ("interrupted", (5_200, 5_300)),
        ("", (9_000, 9_500)),
    ]


class SentTraces:
    """What was handed over to be sent."""

    def __init__(self) -> None:
        self.sent: list[list[bytes]] = []

    def enqueue(self, blocks: Sequence[bytes]) -> None:
        self.sent.append(list(blocks))


async def test_a_resumed_turn_is_sent_once_and_is_the_very_trace_that_the_terminal_draws() -> None:
    told, kept = crashed(), SentTraces()
    reader = TraceProjection(Journals(s=told), kept, TelemetryOptions(), 1.0, {})
    cut = 4  # another process reads on from here, and is not given again what had streamed
    await reader.apply(JournalBatch(standing(), told[:cut]))
    earlier = [one for one in told[:cut] if not isinstance(one.event, StepCheckpointed)]
    await reader.apply(JournalBatch(standing(), told[cut:7], earlier))
    assert kept.sent == [], "it has not ended"
    earlier = [one for one in told[:7] if not isinstance(one.event, StepCheckpointed)]
    assert len(earlier) == 6
    await reader.apply(JournalBatch(standing(), told[7:], earlier))
    shown = await build_trace(Journals(), standing(), group_by_turn(told)[1], TelemetryOptions())
    assert shown is not None
    assert kept.sent == [encode_spans(shown)]


# --- sub-agents ----------------------------------------------------------------------------------


async def test_a_sub_agent_is_in_the_trace_of_the_turn_that_sent_it_below_the_call() -> None:
    trace = await whole()
    call = named(trace.spans, "execute_tool spawn")
    child = named(trace.spans, "invoke_agent sub-agent")
    assert child.parent_id == call.id
    assert child.attributes["gen_ai.conversation.id"] == "s/call_1_1_2"
    assert named(trace.spans, "execute_tool read").parent_id == child.id
    assert len({span.id for span in trace.spans}) == len(trace.spans)
    assert child.attributes["mainstay.trace"] == trace_id("s/call_1_1_2", BEGUN + 9_120, 1)


async def test_a_sub_agents_own_records_make_no_trace_of_their_own() -> None:
    kept = SentTraces()
    reader = TraceProjection(FAMILY, kept, TelemetryOptions(), 1.0, {})
    errand = Spawned("s", "call_1_1_2")
    await reader.apply(JournalBatch(standing("s/call_1_1_2", spawned=errand), child_turn()))
    assert kept.sent == []
    await reader.apply(JournalBatch(standing(), everything()))
    assert len(kept.sent) == 1


class Failing(Journals):
    """Journals that cannot be read for as long as `busy` says so."""

    def __init__(self, **kept: list[Record]) -> None:
        super().__init__(**kept)
        self.busy = 0

    async def read_records(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        if self.busy:
            self.busy -= 1
            raise StoreBusy("another program holds it")
        return await super().read_records(key, after, limit)


async def test_a_trace_that_could_not_be_made_is_made_again_and_those_before_it_are_not() -> None:
    first = records(*started(), answer(10), ended(20))
    crashed = [*started(turn=2), (5, TurnResumed(turn=2)), (9, TurnEnded(Answered(), turn=2))]
    told = [*first, *records(*crashed, after=len(first))]
    kept, books = SentTraces(), Failing(s=told)
    reader = TraceProjection(books, kept, TelemetryOptions(), 1.0, {})
    books.busy = 1
    with pytest.raises(StoreBusy):
        await reader.apply(JournalBatch(standing(), told))
    assert len(kept.sent) == 1
    assert await reader.positions() == {"s": len(first)}
    await reader.apply(JournalBatch(standing(), told))  # records that are offered again
    assert len(kept.sent) == 2
    assert await reader.positions() == {"s": len(told)}


# --- sampling ------------------------------------------------------------------------------------


async def test_a_tenth_of_the_turns_is_sent_always_the_same_ones_and_every_one_that_failed() -> None:
    async def sent(outcome: object) -> list[int]:
        found = []
        for turn in range(1, 1001):
            kept = SentTraces()
            told = records(*started(turn=turn), (9, TurnEnded(outcome, turn=turn)))  # type: ignore[arg-type]
            await TraceProjection(Journals(), kept, TelemetryOptions(), 0.1, {}).apply(JournalBatch(standing(), told))
            found += [turn] * len(kept.sent)
        return found

    aborted = await sent(Aborted())
    assert 60 < len(aborted) < 150
    assert await sent(Aborted()) == aborted
    assert len(await sent(Failed("It broke."))) == 1000


# --- what may be told ----------------------------------------------------------------------------

SECRET = "zq7canarytracev9k2m4x8w3"


def telling_secrets() -> list[Record]:
    one = ("call_1_1_0", "write")
    told: list[Told] = [*started(), calls(10, one), finished(20, *one)]
    broken = (30, StepRestarted(f"refused: {SECRET}", turn=1, step=2))
    failed = (50, TurnEnded(Failed(f"It broke: {SECRET}", SECRET), turn=1))
    judged = (45, Judged((Score("true", error="a judge's words"),), 0.0, False, turn=1, step=2))
    return records(*told, broken, answer(40, text=f"the key is {SECRET}"), judged, failed)


def test_f40_nothing_that_was_said_is_in_a_trace_unless_it_was_asked_for() -> None:
    spans = spans_of(telling_secrets(), TelemetryOptions(redact=lambda text: text.replace(SECRET, "[redacted]")))
    body = b"".join(encode_spans(Trace(id=TRACE, session="s", turn=1, spans=tuple(spans))))
    assert SECRET.encode() not in body
    for word in (b"the key is", b"2 + 3", b'"a": 2', b"It broke", b"refused", b"a judge's words"):
        assert word not in body
    assert {span.error_type for span in spans} == {"", "turn_failed", "stream_broken", "judge_failed"}
    for telling in (TelemetryOptions(include_content=True), TelemetryOptions(include_error_messages=True)):
        notes = [span.error_message for span in spans_of(telling_secrets(), telling) if span.error_type]
        assert notes == [f"It broke: {SECRET}", f"refused: {SECRET}", "a judge's words"]


def test_f40_conversation_text_is_exported_without_secrets_where_configured() -> None:
    telling = TelemetryOptions(include_content=True, redact=lambda text: text.replace(SECRET, "[redacted]"))
    spans = spans_of(telling_secrets(), telling)
    body = b"".join(encode_spans(Trace(id=TRACE, session="s", turn=1, spans=tuple(spans))))
    assert SECRET.encode() not in body
    for word in (b"the key is [redacted]", b"2 + 3", b'"a": 2'):
        assert word in body
    assert named(spans, "execute_tool write").attributes["gen_ai.tool.call.result"] == "5"


def test_a_text_is_cut_after_it_was_cleaned_so_that_half_a_secret_is_never_left() -> None:
    telling = TelemetryOptions(include_content=True, redact=lambda text: text.replace(SECRET, "[redacted]"))
    shown = telling.redact_text("x" * (16 * 1024 - 12) + SECRET + "y" * 100)
    assert len(shown) <= 16 * 1024
    assert SECRET[:8] not in shown


@pytest.mark.parametrize(
    "said", ["There is no tool 'x'. Available: look.", "Not run: the turn ended before this call.", "Skipped: x"]
)
def test_a_name_that_a_model_made_up_is_in_no_trace(said: str) -> None:
    one = ("call_1_1_0", "ann_lee_555_1234")
    over = (20, ToolFinished(ToolResult(*one, said, is_error=True), turn=1, step=1))
    spans = spans_of(records(*started(), calls(10, one), over, ended(30)))
    assert named(spans, "execute_tool unknown").attributes["gen_ai.tool.name"] == "unknown"
    assert "ann_lee" not in str(spans)
    ran = (15, ToolStarted(one[0], turn=1, step=1))
    assert "execute_tool ann_lee_555_1234" in str(spans_of(records(*started(), calls(10, one), ran, over, ended(30))))


# --- the published conventions -------------------------------------------------------------------

REQUIRED = {
    "invoke_agent": {"gen_ai.provider.name", "gen_ai.agent.name", "gen_ai.conversation.id", "gen_ai.request.model"},
    "chat": {"gen_ai.provider.name", "gen_ai.request.model"},
    "execute_tool": {"gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type"},
    "retrieval": {"gen_ai.data_source.id"},
}
OTHERS = {"error.type", "server.address"}


async def test_every_name_of_the_conventions_that_is_used_is_published_and_what_they_require_is_there() -> None:
    published = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    names = {value for name, value in vars(published).items() if name.startswith("GEN_AI_")}
    operations = {one.value for one in published.GenAiOperationNameValues}
    telling = TelemetryOptions(include_content=True, workspace="w")
    trace = await build_trace(FAMILY, standing(), everything(), telling)
    assert trace is not None
    seen = set()
    for span in trace.spans:
        for attributes in (span.attributes, *(mark.attributes for mark in span.events)):
            for name in attributes:
                assert name in names or name in OTHERS or name.startswith("mainstay."), name
        operation = span.attributes.get("gen_ai.operation.name")
        if operation is not None:
            assert operation in operations
            assert REQUIRED[str(operation)] <= set(span.attributes), span.name
            assert span.name.startswith(str(operation))
            seen.add(operation)
        assert ("error.type" in span.attributes) == bool(span.error_type)
    assert seen == set(REQUIRED)


# Kinds of records that are no decision of a turn.
NO_DECISIONS = {
    "Received": "what is said to the turn; the turn's inputs are its content, which is exported where configured",
    "TurnSetAside": "a decision about the session between turns; the turn's trace goes on when it is released",
    "StepCheckpointed": "a piece of an answer; the call that was interrupted ends with it",
    "Spawned": "the first record of another session, whose turn is in the trace below the call",
    "Delivered": "what became of the answer after the turn",
    "SessionChanged": "settings of the session, changed by people and between turns",
    "Forked": "a decision about the session between turns",
    "Blanked": "something was here",
}


def every_decision() -> list[Record]:
    """The records of `everything`, and the kinds of records that it does not have."""
    pattern = Text("Check the total.", origin="context:pattern:invoice_check")
    skill = Text("Skill: deploy", origin="untrusted:context:skill:deploy")
    told = [(record.at - BEGUN, record.event) for record in everything()]
    more: list[Told] = [
        (1, MessageAdded("system", (pattern,), turn=1)),
        (2, MessageAdded("system", (skill,), turn=1)),
        (3, Relieved(results=("call_0_1_0",), turn=1)),
        (405, Guarded("policy", "denied", ("rule",), "call_1_1_0", turn=1)),
        (9_930, Reserved("fold:1", "gpt-9", 10, 10, 3_000_000, turn=1)),
        (10_450, Settled("1.2", usage=Usage(11, 1), cost=0.01, turn=1, step=2)),
    ]
    return records(*sorted([*told, *more], key=lambda one: one[0]))


def drawn(told: Sequence[Record]) -> list[tuple[object, ...]]:
    """What a trace shows of these records, without ids."""
    spans = spans_of(told)
    return [
        *((one.name, one.start, one.end, one.error_type, sorted(one.attributes.items())) for one in spans),
        *((one.name, mark.at, mark.name, sorted(mark.attributes)) for one in spans for mark in one.events),
    ]


def test_loom_007_every_decision_of_a_turn_can_be_found_in_its_trace() -> None:
    told = every_decision()
    assert {type(one.event) for one in told} >= {
        kind for kind in get_args(DurableEvent) if kind.__name__ not in NO_DECISIONS
    }
    shown = drawn(told)
    for record in told:
        if type(record.event).__name__ not in NO_DECISIONS:
            assert drawn([one for one in told if one != record]) != shown, f"{record.event} leaves no trace"


async def test_loom_007_what_was_decided_has_its_name_in_the_trace() -> None:
    trace = await build_trace(FAMILY, standing(), every_decision(), TelemetryOptions(workspace="w"))
    assert trace is not None
    found = {span.name for span in trace.spans} | {mark.name for span in trace.spans for mark in span.events}
    assert {
        *("invoke_agent w", "chat gpt-9", "prepare", "execute_tool memory_search", "retrieval memory"),
        *("approval bash", "execute_tool bash", "execute_tool spawn", "invoke_agent sub-agent", "interrupted"),
        *("fold", "judge kind", "judge true"),
        *("mainstay.guard", "mainstay.approval.asked", "mainstay.approval.answered", "mainstay.turn.resumed"),
        *("mainstay.step.restarted", "mainstay.steered", "mainstay.correction", "mainstay.context.relieved"),
    } <= found
    notes = [mark.attributes for mark in trace.root.events if mark.name == "mainstay.note"]
    assert notes == [
        {"mainstay.note.source": "pattern:invoice_check"},
        {"mainstay.note.source": "skill:deploy"},
    ]
    assert named(trace.spans, "judge true").error_type == "judge_failed"
    assert [mark.name for mark in named(trace.spans, "execute_tool bash").events] == [
        "mainstay.guard",
        "mainstay.turn.resumed",
    ]


async def test_loom_007_the_skill_and_the_pattern_chosen_for_a_turn_are_in_its_trace(tmp_path: Path) -> None:
    folder, home = tmp_path / "library", tmp_path / "home"
    (home / "skills" / "deploy").mkdir(parents=True)
    (home / "skills" / "deploy" / "SKILL.md").write_text(
        "---\nname: deploy\ndescription: To deploy.\nmetadata:\n  gateway:trigger: keyword\n"
        "  gateway:keywords: deploy\n---\nRun the checks first.\n"
    )
    folder.mkdir()
    (folder / "refund.yaml").write_text("name: refund_guide\ndescription: How to refund.\nintents: [deploy, refund]\n")
    config = Config(patterns=PatternSettings(folders=(str(folder),)))
    async with Agent(ScriptedProvider(["Yes."]), home=home, config=config) as agent:
        await agent.run("s", "deploy a refund, please")
        told = await agent.sessions.records("s")
    root = spans_of(told)[0]
    sources = [mark.attributes["mainstay.note.source"] for mark in root.events if mark.name == "mainstay.note"]
    assert sorted(str(one) for one in sources) == ["pattern:refund_guide", "skill:deploy"]


# --- any turn at all -----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_turn_with_any_missing_records_has_valid_spans(data: st.DataObject) -> None:
    told = everything()
    left = [one for one in told if data.draw(st.booleans())]
    for now in (None, BEGUN + 20_000):
        spans = spans_of(left, now=now)
        assert len({span.id for span in spans}) == len(spans)
        for span in spans:
            assert span.start <= span.end
            assert now is not None or not span.is_open
            assert not spans or spans[0].start <= span.start
        known = {span.id for span in spans}
        assert all(span.parent_id in known for span in spans[1:])


def test_a_running_turn_is_shown_so_far_and_not_sent() -> None:
    one = ("call_1_1_0", "bash")
    told = records(*started(), calls(100, one), (110, ToolStarted("call_1_1_0", turn=1, step=1)))
    assert spans_of(told) == []
    spans = spans_of(told, now=BEGUN + 700)
    assert [(span.name, span.is_open, times(span)) for span in spans] == [
        ("invoke_agent mainstay", True, (0, 700)),
        ("chat gpt-9", False, (0, 100)),
        ("execute_tool bash", True, (110, 700)),
    ]


async def test_a_summary_that_was_made_between_two_turns_is_a_trace_of_its_own_with_what_it_cost() -> None:
    kept = SentTraces()
    fold = Folded(3, "so far", by="openai/gpt-9", usage=Usage(70, 7), cost=0.25)
    told = [*tool_turn(), *records((2_000, fold), after=len(tool_turn()))]
    await TraceProjection(Journals(s=told), kept, TelemetryOptions(), 1.0, {}).apply(JournalBatch(standing(), told))
    turn, folded = kept.sent
    assert len(turn) == len(spans_of(tool_turn()))
    assert len(folded) == 1
    shown = await build_trace(Journals(), standing(), group_by_turn(told)[1], TelemetryOptions())
    assert shown is not None
    assert encode_spans(shown) == turn


def test_a_turn_without_its_beginning_is_exported_from_there_on() -> None:
    spans = spans_of(tool_turn()[4:])
    assert [span.name.split()[0] for span in spans] == ["invoke_agent", "execute_tool", "chat"]
    assert spans[0].attributes["mainstay.turn"] == 1
