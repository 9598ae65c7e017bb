"""What people, workspaces, accounts and keys can be called, and what can be asked for them: one sentence where not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from mainstay.core.errors import InputRefused
from mainstay.core.people import PERSON, SCOPES, Role, Scope

PEOPLE_MAX = 10_000
ROLES_MAX = 1_000
CALLED_CHARS_MAX = 80
NOTE_CHARS_MAX = 200
ACCOUNT_CHARS_MAX = 256
EXPIRES_MS_MAX = 100 * 365 * 86_400_000
RESERVED = frozenset(("owner",))  # whoever sits at the machine; approvals say so
_ALL_SCOPES: tuple[Scope, ...] = get_args(Scope)
_WORKSPACE = re.compile(r"[a-z0-9_-]{1,64}")
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def check_name(name: str) -> str:
    if not isinstance(name, str) or not PERSON.fullmatch(name):
        raise InputRefused("a person's name has 1 to 32 of a-z, 0-9, '.', '_' and '-', a letter or digit first")
    if name in RESERVED:
        raise InputRefused(f"nobody can be called {name!r}: that is who runs this")
    return name


def check_workspace(workspace: str) -> str:
    if not isinstance(workspace, str) or not _WORKSPACE.fullmatch(workspace):
        raise InputRefused("a workspace's name has 1 to 64 of a-z, 0-9, _ and -")
    return workspace


def check_role(role: Role) -> Role:
    if not isinstance(role, str) or role not in SCOPES:
        raise InputRefused(f"a role is one of {', '.join(SCOPES)}")
    return role


def check_roles(roles: dict[str, Role]) -> dict[str, Role]:
    if len(roles) > ROLES_MAX:
        raise InputRefused(f"somebody has a role in at most {ROLES_MAX} workspaces")
    return {check_workspace(workspace): check_role(role) for workspace, role in roles.items()}


def check_scopes(scopes: Sequence[Scope], role: Role) -> tuple[Scope, ...]:
    """Each once, in their own order."""
    known = ", ".join(_ALL_SCOPES)
    if isinstance(scopes, str) or not all(isinstance(one, str) and one in _ALL_SCOPES for one in scopes):
        raise InputRefused(f"a key's scopes are some of {known}")
    if not scopes:
        raise InputRefused(f"a key needs at least one scope of {known}")
    if beyond := [one for one in _ALL_SCOPES if one in scopes and one not in SCOPES[role]]:
        may = ", ".join(one for one in _ALL_SCOPES if one in SCOPES[role])
        raise InputRefused(f"{', '.join(beyond)} is more than a {role} may; possible: {may}")
    return tuple(one for one in _ALL_SCOPES if one in scopes)


def check_expires(expires: int, now: int) -> int:
    if not isinstance(expires, int) or isinstance(expires, bool):
        raise InputRefused("when a key expires is a time in milliseconds")
    if expires and not now < expires <= now + EXPIRES_MS_MAX:
        raise InputRefused("a key expires later than now, within a hundred years, or never")
    return expires


def check_note(note: str) -> str:
    return _line(note, "a note", NOTE_CHARS_MAX)


def check_called(called: str) -> str:
    return _line(called, "what somebody is called", CALLED_CHARS_MAX)


def _line(text: str, what: str, most: int) -> str:
    if not isinstance(text, str) or len(text) > most or _HIDDEN.search(text):
        raise InputRefused(f"{what} is one line of at most {most} characters")
    return text


def is_account(channel: str, user: str) -> bool:
    """Whether a platform's word for somebody can be kept."""
    return all(0 < len(one) <= ACCOUNT_CHARS_MAX and not _HIDDEN.search(one) for one in (channel, user))


def clean(called: str) -> str:
    """What a stranger calls themselves: one short line, with nothing hidden in it."""
    return " ".join(_HIDDEN.sub(" ", called[: 4 * CALLED_CHARS_MAX]).split())[:CALLED_CHARS_MAX]
