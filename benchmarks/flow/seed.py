"""A new world with believable data: one person, the people around her and their records."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import seed_office
import seed_people
import seed_private
from world import World


def _by_id(records: Iterable[Any], key: str = "id") -> dict[str, Any]:
    return {getattr(record, key): copy.deepcopy(record) for record in records}


def new_world() -> World:
    """Return a world that shares nothing with others."""
    return World(
        contacts=_by_id(seed_people.CONTACTS),
        mails=_by_id(seed_people.MAILS),
        events=_by_id(seed_office.EVENTS),
        calendar_shares={"priya.raman@holloway-tidal.example": "reader"},
        files=_by_id(seed_office.FILES),
        notes=_by_id(seed_office.NOTES),
        users=_by_id(seed_people.USERS, "handle"),
        channels=_by_id(seed_office.CHANNELS, "name"),
        messages=_by_id(seed_office.MESSAGES),
        hotels=_by_id(seed_private.HOTELS, "name"),
        restaurants=_by_id(seed_private.RESTAURANTS, "name"),
        flights=_by_id(seed_private.FLIGHTS),
        bookings=_by_id(seed_private.BOOKINGS),
        traveller=dict(seed_private.TRAVELLER),
        accounts=_by_id(seed_private.ACCOUNTS),
        transactions=_by_id(seed_private.TRANSACTIONS),
        payees=_by_id(seed_private.PAYEES),
        scheduled=_by_id(seed_private.SCHEDULED),
        cards=_by_id(seed_private.CARDS),
        bank_profile=dict(seed_private.BANK_PROFILE),
        repos=_by_id(seed_office.REPOS, "name"),
        issues=_by_id(seed_office.ISSUES),
        pulls=_by_id(seed_office.PULLS),
        commits=copy.deepcopy(list(seed_office.COMMITS)),
        pages=dict(seed_office.PAGES),
    )
