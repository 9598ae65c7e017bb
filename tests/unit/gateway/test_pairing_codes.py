"""Pairing codes of unknown users: sent once, valid once and for an hour, not guessable, and rate limited."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.people_lab import HandClock, opened

from mainstay.core.errors import InputRefused
from mainstay.core.people import Person
from mainstay.gateway import pairing_codes
from mainstay.gateway.people import CODE_UNKNOWN, People
from mainstay.store.sqlite.people_store import SqlitePeopleStore


async def issue_code(people: People, user: str = "U1", called: str = "Ann") -> str:
    code = await people.issue_pairing_code("slack", user, called)
    assert code is not None
    return code


async def test_an_unknown_user_gets_a_code_and_is_paired_with_it_once() -> None:
    async with opened() as people:
        code = await issue_code(people)
        assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}", code)
        assert people.find_by_account("slack", "U1") is None, "told is not let in"
        made = await people.pair_account(code, name="ann", workspace="team", role="member")
        assert people.find_by_account("slack", "U1") == made
        assert made.roles == {"team": "member"}
        assert people.list_pairings() == []
        with pytest.raises(InputRefused, match=re.escape(CODE_UNKNOWN)):
            await people.pair_account(code, name="eve", workspace="team", role="admin")
        assert people.get_person("eve") is None


async def test_a_pending_pairing_shows_the_sanitised_display_name() -> None:
    async with opened() as people:
        code = await issue_code(people, called="  Ann\x1b[31m\n\u202eLee \ud800 " + "x" * 500)
        (one,) = people.list_pairings()
        assert one.display_name.startswith("Ann [31m Lee x")
        assert len(one.display_name) == 80
        assert code not in repr(one)
        assert code.replace("-", "") not in repr(one)


@pytest.mark.parametrize("typed", ["k7qm4xpa", " K7QM 4XPA ", "k7qm-4xpa\n", "K7-QM-4X-PA"])
def test_a_code_is_read_however_it_is_typed(typed: str) -> None:
    assert pairing_codes.parse_code(typed) == "K7QM-4XPA"


def test_letters_that_look_like_digits_are_read_as_those() -> None:
    assert pairing_codes.parse_code("oOiI-lL23") == "0011-1123"


@pytest.mark.parametrize(
    "typed", ["", "K7QM", "K7QM-4XPAA", "K7QM-4XP!", "K7QM-4XPU", "K" * 1000, "Ⅷ7QM-4XPA", None, 5]
)
def test_an_invalid_code_is_refused_in_a_sentence(typed: Any) -> None:
    with pytest.raises(InputRefused, match="like K7QM-4XPA"):
        pairing_codes.parse_code(typed)


@given(st.text(max_size=60))
def test_any_typed_text_is_a_code_or_is_refused(typed: str) -> None:
    try:
        code = pairing_codes.parse_code(typed)
    except InputRefused:
        return
    assert pairing_codes.parse_code(code) == code
    assert set(code) <= {*pairing_codes.CODE_ALPHABET, "-"}


async def test_a_second_request_within_ten_minutes_gets_no_message_and_the_newer_code_is_valid() -> None:
    clock = HandClock()
    async with opened(clock=clock) as people:
        first = await issue_code(people)
        clock.pass_minutes(9.99)
        assert await people.issue_pairing_code("slack", "U1", "Ann") is None
        assert await people.issue_pairing_code("matrix", "U1", "Ann") is not None, "that is another account"
        clock.pass_minutes(0.01)
        second = await issue_code(people)
        with pytest.raises(InputRefused, match="mistyped, used, replaced"):
            await people.pair_account(first, name="ann", workspace="team", role="member")
        await people.pair_account(second, name="ann", workspace="team", role="member")


async def test_a_clock_set_back_does_not_delay_a_new_code() -> None:
    clock = HandClock()
    async with opened(clock=clock) as people:
        await issue_code(people)
        clock.ms -= 365 * 86_400_000
        assert await people.issue_pairing_code("slack", "U1", "Ann") is not None


async def test_a_code_is_good_for_an_hour() -> None:
    clock = HandClock()
    async with opened(clock=clock) as people:
        code = await issue_code(people)
        clock.pass_minutes(60)
        assert people.list_pairings() == []
        with pytest.raises(InputRefused, match="older than an hour"):
            await people.pair_account(code, name="ann", workspace="team", role="member")
        late = await issue_code(people, "U2")
        clock.pass_minutes(59.99)
        await people.pair_account(late, name="ann", workspace="team", role="member")


async def test_a_flood_of_unknown_users_cannot_grow_the_store() -> None:
    clock = HandClock()
    async with opened(clock=clock) as people:
        codes: list[str] = []
        for minute in range(12):
            asked = [await people.issue_pairing_code("slack", f"U{minute}-{n}", "Eve") for n in range(25)]
            codes += [code for code in asked if code is not None]
            assert len(codes) == 20 * (minute + 1)
            clock.pass_minutes(1)
        assert len(people.list_pairings()) == pairing_codes.PAIRINGS_PER_CHANNEL_MAX
        with pytest.raises(InputRefused, match="pairing code is unknown"):
            await people.pair_account(codes[0], name="eve", workspace="team", role="guest")
        await people.pair_account(codes[-1], name="ann", workspace="team", role="guest")


async def test_expired_codes_do_not_stay_in_the_store(tmp_path: Path) -> None:
    clock, store = HandClock(), SqlitePeopleStore(str(tmp_path / "gateway.db"))
    async with opened(store, clock) as people:
        for number in range(5):
            await issue_code(people, f"U{number}")
        clock.pass_minutes(61)
        await issue_code(people, "U9")
        assert [one.user for one in await store.list_pairings()] == ["U9"]


async def test_after_ten_wrong_codes_even_the_right_one_waits_a_minute() -> None:
    clock = HandClock()
    async with opened(clock=clock) as people:
        code = await issue_code(people)
        wrong = [f"ZZZZ-ZZZ{n}" for n in range(pairing_codes.WRONG_CODES_PER_MIN)]
        assert code not in wrong
        for one in wrong:
            with pytest.raises(InputRefused, match="pairing code is unknown"):
                await people.pair_account(one, name="ann", workspace="team", role="member")
            clock.pass_minutes(0.01)
        for one in (wrong[0], code):
            with pytest.raises(InputRefused, match="too many wrong codes"):
                await people.pair_account(one, name="ann", workspace="team", role="member")
        clock.pass_minutes(0.9)
        await people.pair_account(code, name="ann", workspace="team", role="member")


async def test_a_known_person_gets_one_more_account_and_keeps_their_role() -> None:
    async with opened() as people:
        await people.add_person(Person(name="ann", roles={"team": "member"}))
        await people.pair_account(await issue_code(people, "U1"), name="ann", workspace="team", role="admin")
        found = await people.pair_account(await issue_code(people, "U2"), name="ann", workspace="lab", role="guest")
        assert list(found.roles.items()) == [("team", "member"), ("lab", "guest")]
        assert [one.user for one in people.list_accounts("ann")] == ["U1", "U2"]


async def test_of_two_concurrent_uses_of_a_code_one_wins(tmp_path: Path) -> None:
    async with opened(SqlitePeopleStore(str(tmp_path / "gateway.db"))) as people:
        code = await issue_code(people)
        tries = (people.pair_account(code, name=f"p{n}", workspace="team", role="member") for n in range(8))
        done = await asyncio.gather(*tries, return_exceptions=True)
        won = [one for one in done if isinstance(one, Person)]
        assert len(won) == 1
        assert people.list_people() == won
        assert people.find_by_account("slack", "U1") == won[0]


@pytest.mark.parametrize("number", range(5))
async def test_an_account_that_cannot_be_stored_gets_no_code(number: int) -> None:
    bad = ("", "x" * 257, "two\nlines", "half \ud800", "\x00")[number]
    async with opened() as people:
        assert await people.issue_pairing_code("slack", bad, "") is None
        assert await people.issue_pairing_code(bad, "U1", "") is None
        assert people.list_pairings() == []


async def test_every_pending_code_is_compared_whole_and_none_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compared: list[str] = []
    real = pairing_codes.hmac.compare_digest
    monkeypatch.setattr(pairing_codes.hmac, "compare_digest", lambda a, b: compared.append(a) or real(a, b))
    caplog.set_level("DEBUG")
    async with opened(SqlitePeopleStore(str(tmp_path / "gateway.db"))) as people:
        codes = [await issue_code(people, f"U{n}") for n in range(5)]
        await people.pair_account(codes[0], name="ann", workspace="team", role="member")
        assert len(compared) == 5, "finding the first takes as long as finding the last"
        files = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    for code in codes:
        for kept in (code, code.replace("-", "")):
            assert kept.encode() not in files
            assert kept not in caplog.text
