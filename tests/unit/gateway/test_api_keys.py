"""API keys: made once, shown once, kept as a digest, good for as long as their person may enter."""

from __future__ import annotations

import hmac
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.people_lab import HandClock, opened

from mainstay.core.errors import InputRefused
from mainstay.core.people import REVOKED_KEYS_MAX, ApiKey, Person, Principal
from mainstay.gateway import api_keys
from mainstay.gateway.api_keys import ApiKeyIndex, compute_key_digest, generate_key
from mainstay.store.sqlite.people_store import SqlitePeopleStore

ANN = Person(name="ann", roles={"team": "member", "lab": "admin"})
DAY_MS = 86_400_000


async def test_a_key_leads_to_its_person_in_its_workspace_with_its_scopes() -> None:
    async with opened() as people:
        assert not people.has_usable_keys
        await people.add_person(ANN)
        token, key = await people.create_key("ann", "lab", scopes=["read", "chat", "read"], note="the dashboard")
        assert re.fullmatch(r"ms_[a-z0-9]{12}_[A-Za-z0-9]{40}", token)
        assert token.startswith(f"ms_{key.id}_")
        assert (key.scopes, key.note) == (("chat", "read"), "the dashboard")
        assert people.authenticate_key(token) == Principal(
            person="ann", workspace="lab", role="admin", scopes=frozenset(("chat", "read")), key=key.id
        )
        assert people.has_usable_keys
        assert people.get_key(key.id) == key
        assert people.list_keys() == [key]


async def test_a_key_may_do_no_more_than_its_persons_role_does_now() -> None:
    async with opened() as people:
        await people.add_person(ANN)
        token, _ = await people.create_key("ann", "lab", scopes=["chat", "approve", "admin"])
        await people.grant_role("ann", "lab", "guest")
        found = people.authenticate_key(token)
        assert found is not None
        assert (found.role, found.scopes) == ("guest", {"chat"})


@pytest.mark.parametrize("how", ["revoked", "expired", "withdrawn", "removed"])
async def test_a_key_that_may_no_longer_be_used_authenticates_no_person(how: str, tmp_path: Path) -> None:
    clock, path = HandClock(), str(tmp_path / "gateway.db")
    async with opened(SqlitePeopleStore(path), clock) as people:
        await people.add_person(ANN)
        token, key = await people.create_key("ann", "team", scopes=["chat"], expires=clock.ms + DAY_MS)
        other, _ = await people.create_key("ann", "lab", scopes=["chat"])
        clock.ms += DAY_MS - 1
        assert people.authenticate_key(token) is not None
        match how:
            case "revoked":
                assert await people.revoke_key(key.id)
                assert not await people.revoke_key(key.id)
            case "expired":
                clock.ms += 1
            case "withdrawn":
                await people.withdraw_role("ann", "team")
            case "removed":
                await people.remove_person("ann")
        assert people.authenticate_key(token) is None
        assert (people.authenticate_key(other) is not None) == (how != "removed")
        assert people.has_usable_keys == (how != "removed")
    async with opened(SqlitePeopleStore(path), clock) as people:
        assert people.authenticate_key(token) is None, "nor after a restart"


async def test_a_role_given_again_does_not_bring_old_keys_back() -> None:
    async with opened() as people:
        await people.add_person(ANN)
        token, _ = await people.create_key("ann", "team", scopes=["chat"])
        await people.withdraw_role("ann", "team")
        await people.grant_role("ann", "team", "admin")
        assert people.authenticate_key(token) is None


async def test_a_key_of_another_home_or_a_changed_key_authenticates_no_person() -> None:
    async with opened() as people:
        await people.add_person(ANN)
        token, key = await people.create_key("ann", "team", scopes=["chat"])
        stranger, _ = generate_key()
        swapped = f"ms_{key.id}_{stranger.rpartition('_')[2]}"
        for wrong in (stranger, swapped, token[:-1], token + "a", token.upper(), f" {token}", f"{token}\n", key.digest):
            assert people.authenticate_key(wrong) is None
        for at in range(len(token)):
            other = "b" if token[at] != "b" else "c"
            assert people.authenticate_key(token[:at] + other + token[at + 1 :]) is None


@given(st.text(max_size=80))
def test_no_other_text_is_a_key(text: str) -> None:
    key = ApiKey(id="a" * 12, digest=compute_key_digest("x"), person="ann", workspace="team")
    ring = ApiKeyIndex([key])
    assert ring.authenticate(text, 0) is None
    assert ring.authenticate(f"ms_{key.id}_{text}", 0) is None


BAD: list[dict[str, Any]] = [
    {"scopes": []},
    {"scopes": ["root"]},
    {"scopes": "chat"},
    {"scopes": [None]},
    {"scopes": [["chat"]]},
    {"scopes": ["admin"]},
    {"scopes": ["read", "chat"]},
    {"scopes": ["chat"], "note": "x" * 201},
    {"scopes": ["chat"], "note": "two\nlines"},
    {"scopes": ["chat"], "note": "half \ud800"},
    {"scopes": ["chat"], "note": None},
    {"scopes": ["chat"], "expires": 1},
    {"scopes": ["chat"], "expires": -1},
    {"scopes": ["chat"], "expires": 1 << 70},
    {"scopes": ["chat"], "expires": "30d"},
    {"scopes": ["chat"], "expires": True},
]


@pytest.mark.parametrize("number", range(len(BAD)))
async def test_an_impossible_key_is_refused_in_a_sentence(number: int) -> None:
    async with opened() as people:
        await people.add_person(ANN)
        with pytest.raises(InputRefused):
            await people.create_key("ann", "team", **BAD[number])
        assert people.list_keys() == []


async def test_only_a_person_with_a_role_gets_a_key() -> None:
    async with opened() as people:
        await people.add_person(ANN)
        with pytest.raises(InputRefused, match="no person 'ben'"):
            await people.create_key("ben", "team", scopes=["chat"])
        with pytest.raises(InputRefused, match="no role in the workspace 'default'"):
            await people.create_key("ann", "default", scopes=["chat"])


async def test_there_are_so_many_keys_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from mainstay.gateway import people as module

    monkeypatch.setattr(module, "ACTIVE_KEYS_MAX", 2)
    async with opened() as people:
        await people.add_person(ANN)
        _, first = await people.create_key("ann", "team", scopes=["chat"])
        await people.create_key("ann", "team", scopes=["chat"])
        with pytest.raises(InputRefused, match="revoke some"):
            await people.create_key("ann", "team", scopes=["chat"])
        await people.revoke_key(first.id)
        await people.create_key("ann", "team", scopes=["chat"])


def test_revoked_keys_do_not_pile_up_in_memory() -> None:
    ring = ApiKeyIndex()
    for number in range(REVOKED_KEYS_MAX + 5):
        id = f"{number:012}"
        ring.put_key(ApiKey(id=id, digest=id, person="ann", workspace="team", revoked=number + 1))
    assert len(list(ring)) == REVOKED_KEYS_MAX
    assert ring.get_key("000000000000") is None


async def test_a_key_is_never_in_the_file_nor_in_the_log_and_no_answer_holds_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with opened(SqlitePeopleStore(str(tmp_path / "gateway.db"))) as people:
        await people.add_person(ANN)
        token, key = await people.create_key("ann", "team", scopes=["chat"])
        secret = token.rpartition("_")[2]
        assert people.authenticate_key(token) is not None
        assert people.authenticate_key(token[:-1] + "?") is None
        assert secret not in repr((people.list_keys(), people.authenticate_key(token)))
        files = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
        await people.revoke_key(key.id)
    files |= {f"{one.name} closed": one.read_bytes() for one in tmp_path.iterdir()}
    assert any(key.id.encode() in content for content in files.values()), "it was looked for in the right place"
    for content in files.values():
        assert secret.encode() not in content
    assert key.id in caplog.text
    assert secret not in caplog.text


def test_digests_are_compared_in_constant_time_also_for_an_unknown_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[Any, Any]] = []

    def compare(a: str, b: str) -> bool:
        compared.append((a, b))
        return real(a, b)

    real = hmac.compare_digest
    monkeypatch.setattr(api_keys.hmac, "compare_digest", compare)
    token, id = generate_key()
    ring = ApiKeyIndex([ApiKey(id=id, digest=compute_key_digest(token), person="ann", workspace="team")])
    assert ring.authenticate(token, 0) is not None
    assert ring.authenticate(generate_key()[0], 0) is None
    assert [len(b) for _, b in compared] == [64, 64]


def test_keys_are_made_by_chance_alone() -> None:
    made = [generate_key() for _ in range(500)]
    assert len({token for token, _ in made}) == len({id for _, id in made}) == 500
    assert len(set("".join(token.rpartition("_")[2] for token, _ in made))) == 62
