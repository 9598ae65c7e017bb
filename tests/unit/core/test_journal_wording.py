"""Versions of the sentences that the runtime writes into journals."""

import msgspec

from mainstay.core.events import TurnStarted
from mainstay.core.journal import decode_event, encode_event
from mainstay.core.journal_wording import CURRENT, CURRENT_VERSION, WORDINGS, JournalWording
from mainstay.core.session import Session


def test_a_journal_without_a_version_was_written_by_0_1_and_keeps_its_sentences() -> None:
    started = decode_event(b'{"type":"TurnStarted","inputs":[1],"turn":1}')
    session = Session("s")
    session.apply(2, 0, started)
    assert session.open_turn is not None
    assert session.open_turn.wording == JournalWording()
    assert session.open_turn.wording.approval_expired == "Not run: nobody approved it in time."


def test_a_turn_names_the_version_that_recorded_it() -> None:
    body = encode_event(TurnStarted((1,), turn=1, wording=CURRENT_VERSION))
    assert msgspec.json.decode(body)["wording"] == CURRENT_VERSION
    session = Session("s")
    session.apply(2, 0, decode_event(body))
    assert session.open_turn is not None
    assert session.open_turn.wording is CURRENT


def test_a_version_of_a_later_release_is_read_with_the_current_sentences() -> None:
    session = Session("s")
    session.apply(2, 0, TurnStarted((1,), turn=1, wording="99"))
    assert session.open_turn is not None
    assert session.open_turn.wording is CURRENT is WORDINGS[CURRENT_VERSION]


def test_limits_budgets_and_forks_have_the_sentences_of_0_1_in_both_versions() -> None:
    """Release 0.1 wrote them literally; 0.2 has not changed them."""
    for wording in (JournalWording(), WORDINGS[""], WORDINGS["0.2"]):
        assert wording.steps_bound.format(count=25) == "25 steps"
        assert wording.tool_calls_bound.format(count=50) == "50 tool calls"
        assert (
            wording.response_calls_exceeded.format(count=10)
            == "Not run: at most 10 calls a response. Ask again for the rest."
        )
        assert (
            wording.turn_calls_exceeded.format(count=50)
            == "Not run: this turn has used its 50 tool calls. Answer with what you have."
        )
        assert wording.call_repeated.format(count=10) == (
            "Not run: this exact call gave the same result 10 times in a row. "
            "Do something else, or answer with what you have."
        )
        assert wording.limit_answer.format(bound="25 steps") == "I had to stop: this turn reached its limit (25 steps)."
        assert wording.budget_answer.format(bound="nothing is left") == "I had to stop: nothing is left."
        assert wording.forked_call == (
            "Outcome unknown: this conversation was copied from another before the call had a result."
        )


def test_a_call_without_a_recorded_start_is_not_said_to_have_not_run() -> None:
    """A `pure` call is not recorded when it starts: it may have run before the turn ended."""
    assert CURRENT.turn_ended == "Not run or not finished: the turn ended before this call had a result."
    assert WORDINGS["0.2"].turn_ended == "Not run: the turn ended before this call."
