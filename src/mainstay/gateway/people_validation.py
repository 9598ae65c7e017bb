"""Validates names and fields of people, roles, accounts and API keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from mainstay.core.errors import InputRefused
from mainstay.core.people import PERSON_NAME_PATTERN, ROLE_SCOPES, AccessScope, PersonRole

PEOPLE_MAX = 10_000
ROLES_MAX = 1_000
DISPLAY_NAME_CHARS_MAX = 80
NOTE_CHARS_MAX = 200
ACCOUNT_CHARS_MAX = 256
EXPIRY_MS_MAX = 100 * 365 * 86_400_000
RESERVED_NAMES = frozenset(("owner",))  # how approvals and the audit log name the owner of the home
_ALL_SCOPES: tuple[AccessScope, ...] = get_args(AccessScope)
_WORKSPACE_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_INVISIBLE_CHARS = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def check_person_name(name: str) -> str:
    if not isinstance(name, str) or not PERSON_NAME_PATTERN.fullmatch(name):
        raise InputRefused("a person's name has 1 to 32 of a-z, 0-9, '.', '_' and '-', a letter or digit first")
    if name in RESERVED_NAMES:
        raise InputRefused(f"the name {name!r} is reserved for the owner of the home")
    return name


def check_workspace(workspace: str) -> str:
    if not isinstance(workspace, str) or not _WORKSPACE_NAME.fullmatch(workspace):
        raise InputRefused("a workspace's name has 1 to 64 of a-z, 0-9, _ and -")
    return workspace


def check_role(role: PersonRole) -> PersonRole:
    if not isinstance(role, str) or role not in ROLE_SCOPES:
        raise InputRefused(f"a role is one of {', '.join(ROLE_SCOPES)}")
    return role


def check_roles(roles: dict[str, PersonRole]) -> dict[str, PersonRole]:
    if len(roles) > ROLES_MAX:
        raise InputRefused(f"a person has roles in at most {ROLES_MAX} workspaces")
    return {check_workspace(workspace): check_role(role) for workspace, role in roles.items()}


def check_scopes(scopes: Sequence[AccessScope], role: PersonRole) -> tuple[AccessScope, ...]:
    """Return the scopes without repetitions, in canonical order. Raises InputRefused for a scope that the role does not
    allow."""
    valid = ", ".join(_ALL_SCOPES)
    if isinstance(scopes, str) or not all(isinstance(scope, str) and scope in _ALL_SCOPES for scope in scopes):
        raise InputRefused(f"a key's scopes are some of {valid}")
    if not scopes:
        raise InputRefused(f"a key needs at least one scope of {valid}")
    if excess := [scope for scope in _ALL_SCOPES if scope in scopes and scope not in ROLE_SCOPES[role]]:
        allowed = ", ".join(scope for scope in _ALL_SCOPES if scope in ROLE_SCOPES[role])
        raise InputRefused(f"the role {role} does not allow {', '.join(excess)}; it allows {allowed}")
    return tuple(scope for scope in _ALL_SCOPES if scope in scopes)


def check_expiry(expires: int, now_ms: int) -> int:
    if not isinstance(expires, int) or isinstance(expires, bool):
        raise InputRefused("a key's expiry is a time in milliseconds since 1970")
    if expires and not now_ms < expires <= now_ms + EXPIRY_MS_MAX:
        raise InputRefused("a key's expiry is in the future, at most a hundred years from now, or 0 for never")
    return expires


def check_note(note: str) -> str:
    return _check_line(note, "a note", NOTE_CHARS_MAX)


def check_display_name(display_name: str) -> str:
    return _check_line(display_name, "a person's display name", DISPLAY_NAME_CHARS_MAX)


def _check_line(text: str, what: str, chars_max: int) -> str:
    if not isinstance(text, str) or len(text) > chars_max or _INVISIBLE_CHARS.search(text):
        raise InputRefused(f"{what} is one line of at most {chars_max} characters")
    return text


def is_valid_account(channel: str, user: str) -> bool:
    """True if a channel's name and a platform's user id can be stored."""
    return all(0 < len(text) <= ACCOUNT_CHARS_MAX and not _INVISIBLE_CHARS.search(text) for text in (channel, user))


def sanitise_display_name(display_name: str) -> str:
    """Return an unknown user's display name as one short line without control and invisible characters."""
    return " ".join(_INVISIBLE_CHARS.sub(" ", display_name[: 4 * DISPLAY_NAME_CHARS_MAX]).split())[
        :DISPLAY_NAME_CHARS_MAX
    ]
