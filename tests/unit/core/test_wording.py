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
