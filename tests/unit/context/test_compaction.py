"""When a context is nearly full: stubs first, then folds of whole turns, and only then cuts."""

from __future__ import annotations

import pytest
from support.session_records import Talk

from mainstay.context.compaction_plan import CompactionInput, plan_cuts, plan_fold, plan_stubs
from mainstay.context.token_budget import ContextSizeSettings, compute_budget
from mainstay.context.tokenizers import TokenCalibration, tokenizer_for
from mainstay.core.events import Folded, MessageAdded, Received, Relieved, TurnStarted
from mainstay.core.messages import Text, ToolCall, ToolResult
from mainstay.core.ports import ModelInfo

MODEL = ModelInfo(name="gpt-4.1-mini", window=8192)
EXACT = tokenizer_for(MODEL)
BIG = "result " * 3000


def case_of(talk: Talk, window: int = 8192, overhead: int = 100) -> CompactionInput:
    rules = ContextSizeSettings(window=window)
    model = ModelInfo(name="gpt-4.1-mini", window=window)
    return CompactionInput(
        talk.session, overhead, compute_budget(model, rules, TokenCalibration(EXACT, 1.0)), rules, EXACT
    )


def results(talk: Talk) -> list[str]:
    return [part.content for one in talk.session.messages for part in one.parts if isinstance(part, ToolResult)]


def test_the_budget_is_the_window_less_a_reserve_that_shrinks_with_it() -> None:
    exact = TokenCalibration(EXACT, 1.0)
    assert compute_budget(ModelInfo(name="m", window=128_000), ContextSizeSettings(), exact).total == 128_000 - 16_384
    assert compute_budget(ModelInfo(name="m", window=4096), ContextSizeSettings(), exact).total == 3072
    assert (
        compute_budget(ModelInfo(name="m", window=128_000), ContextSizeSettings(reserve_tokens=1000), exact).total
        == 127_000
    )
    assert (
        compute_budget(ModelInfo(name="m", window=128_000), ContextSizeSettings(window=32_000), exact).window == 32_000
    )


def test_the_targets_scale_down_with_the_window() -> None:
    exact = TokenCalibration(EXACT, 1.0)
    large, small = (
        compute_budget(ModelInfo(name="m", window=size), ContextSizeSettings(), exact) for size in (128_000, 4096)
    )
    assert (large.recent, large.summary, large.profile) == (20_000, 3000, 2000)
    assert small.recent + small.summary + small.profile < small.total


def test_a_model_that_counts_more_has_a_smaller_budget_by_our_count() -> None:
    assert (
        compute_budget(MODEL, ContextSizeSettings(), TokenCalibration(EXACT, 2.0)).total
        == compute_budget(MODEL, ContextSizeSettings(), TokenCalibration(EXACT, 1.0)).total // 2
    )


def test_large_results_of_the_running_turn_become_stubs_that_say_how_to_read_on() -> None:
    talk = Talk()
    talk.ask("look")
    talk.call("small")
    talk.call(BIG)
    talk.call("newest")
    event = plan_stubs(case_of(talk))
    assert event == Relieved(("call_1_2_0",))
    talk.add(event)
    first, second, third = results(talk)
    assert (first, third) == ("small", "newest")
    assert second.startswith("result result")
    assert f'[cut: {len(BIG)} characters in all; read on with result(ref="call_1_2_0", offset=600)]' in second


def test_the_result_the_model_has_not_seen_is_the_last_of_them_to_become_a_stub() -> None:
    talk = Talk()
    talk.ask("look")
    talk.call(BIG)
    talk.call(BIG)
    assert plan_stubs(case_of(talk, window=16_384)) == Relieved(("call_1_1_0",))
    assert plan_stubs(case_of(talk, window=4096)) == Relieved(("call_1_1_0", "call_1_2_0"))


def test_older_results_become_stubs_by_age_and_no_more_of_them_than_need_be() -> None:
    talk = Talk()
    for number in range(20):
        talk.turn(f"turn {number}", "page " * 500)
    talk.ask("now")
    event = plan_stubs(case_of(talk, window=16_384))
    assert event == Relieved((), turns=21 - 8)
    talk.add(event)
    kinds = ["cut:" in one for one in results(talk)]
    assert kinds == [True] * event.turns + [False] * (20 - event.turns)


def test_stubs_that_would_gain_nothing_are_not_made() -> None:
    talk = Talk()
    for number in range(30):
        talk.turn(f"turn {number} " + "words " * 200, "ok")
    assert plan_stubs(case_of(talk)) is None


def test_a_fold_takes_the_oldest_whole_turns_and_leaves_the_newest_ones_verbatim() -> None:
    talk = Talk()
    for number in range(30):
        talk.turn(f"turn {number} " + "words " * 100, "short", answer="well " * 50)
    case = case_of(talk)
    plan = plan_fold(case)
    assert plan is not None
    assert plan.messages[0].text.startswith("turn 0 ")
    assert plan.messages[-1].text.startswith("well")
    left = [one for one in talk.session.messages if one.turn > plan.last_turn]
    assert left[0].role == "user"
    assert sum(case.count_message(one) for one in left) >= case.budget.recent
    talk.add(Folded(plan.upto_seq, "they talked", through=plan.last_turn))
    assert [one.id for one in talk.session.messages[1:]] == [one.id for one in left]


def test_a_turn_is_never_torn_and_the_newest_never_folded() -> None:
    talk = Talk()
    talk.ask("only one " + "word " * 9000)
    talk.call("x")
    assert plan_fold(case_of(talk), as_many_as_possible=True) is None


def test_a_fold_keeps_every_record_that_is_needed_to_go_on() -> None:
    """An input that waited while an older turn ran stands before that turn's end in the journal."""
    talk = Talk()
    talk.ask("first")
    talk.add(Received((Text("second, early"),)))  # waits
    early = talk.session.head
    talk.call("x")
    talk.answer("one")
    talk.add(TurnStarted((early,), turn=2))
    talk.answer("two")
    talk.ask("third")
    plan = plan_fold(case_of(talk), as_many_as_possible=True)
    assert plan is not None
    assert plan.last_turn == 2
    talk.add(Folded(plan.upto_seq, "summary", through=plan.last_turn))
    shown = [one.text for one in talk.session.messages]
    assert shown[1:] == ["third"]

    again = Talk()
    for seq, event in talk.records:
        if seq > plan.upto_seq:
            again.session.apply(seq, 0, event)
    assert [(m.role, m.parts) for m in again.session.messages] == [(m.role, m.parts) for m in talk.session.messages]


def test_a_waiting_prompt_is_never_below_a_fold() -> None:
    talk = Talk()
    talk.ask("first")
    talk.add(Received((Text("waits for ever"),)))
    waiting = talk.session.head
    talk.answer("one")
    talk.ask("third")
    plan = plan_fold(case_of(talk), as_many_as_possible=True)
    assert plan is not None
    assert plan.upto_seq < waiting


def test_imported_history_has_no_turns_and_is_folded_by_its_user_messages() -> None:

    talk = Talk()
    for number in range(40):
        talk.add(
            MessageAdded("user", (Text(f"old {number} " + "word " * 150),)), MessageAdded("assistant", (Text("ok"),))
        )
    plan = plan_fold(case_of(talk))
    assert plan is not None
    talk.add(Folded(plan.upto_seq, "old times", through=plan.last_turn))
    assert talk.session.messages[1].role == "user"
    assert talk.session.messages[-2].text.startswith("old 39")


def test_a_turn_too_large_for_a_tiny_window_is_cut_but_its_calls_keep_their_results() -> None:
    talk = Talk()
    talk.ask("do a lot, please")
    for _ in range(25):
        talk.call("page " * 2000, input='{"text": "' + "argument " * 300 + '"}')
    case = case_of(talk, window=4096)
    event = plan_cuts(case)
    assert event is not None
    talk.add(event)
    assert case.count_total() <= case.budget.total
    shown = talk.session.messages
    assert shown[0].text == "do a lot, please"
    calls = [part.id for one in shown for part in one.parts if isinstance(part, ToolCall)]
    assert calls == [part.call_id for one in shown for part in one.parts if isinstance(part, ToolResult)]
    assert calls[-1] == "call_1_25_0"
    assert any("earlier steps of this turn are left out" in one.text for one in shown)


def test_the_newest_words_of_the_person_are_cut_last_and_only_if_nothing_else_helps() -> None:
    talk = Talk()
    talk.ask("please read this: " + "word " * 300)
    talk.call("page " * 20_000)
    event = plan_cuts(case_of(talk, window=4096))
    assert event is not None
    assert event.texts == ()
    huge = Talk()
    huge.ask("please read this: " + "word " * 20_000)
    event = plan_cuts(case_of(huge, window=4096))
    assert event is not None
    huge.add(event)
    assert huge.session.messages[0].text.startswith("please read this: word")
    assert 'memory_get(id="s#1"' in huge.session.messages[0].text


def test_the_other_sections_can_be_too_large_by_themselves() -> None:
    talk = Talk()
    talk.ask("hi")
    assert plan_cuts(case_of(talk, window=4096, overhead=5000)) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_relieved_session_read_back_shows_the_very_same(seed: int) -> None:
    talk = Talk()
    for number in range(12):
        talk.turn(f"turn {number}", BIG, "small", answer="x" * 2000)
    talk.ask("again")
    talk.call(BIG, BIG)
    for window in (16_384, 8192, 4096)[seed:]:
        for plan in (plan_stubs, plan_cuts):
            if (event := plan(case_of(talk, window))) is not None:
                talk.add(event)
    shown = [(m.id, m.role, m.parts) for m in talk.session.messages]
    assert [(m.id, m.role, m.parts) for m in talk.again().messages] == shown


def test_loom_013_the_targets_are_those_of_the_design() -> None:
    rules = ContextSizeSettings()
    sizes = (rules.fixed_tokens, rules.profile_tokens, rules.summary_tokens, rules.recent_tokens)
    assert (*sizes, rules.reserve_tokens) == (5_000, 2_000, 3_000, 20_000, 16_384)
    assert (rules.high_share, rules.low_share, rules.large_chars, rules.batch_size) == (0.9, 0.6, 16 * 1024, 50)
