"""`agent.profile(session)`: who the person is, their goals and preferences. It changes when someone asks for it."""

from __future__ import annotations

from typing import Any

from mainstay.agent.opened import Opening
from mainstay.core.errors import InputRefused
from mainstay.core.events import SessionChanged
from mainstay.lane.lane import Lane

FIELDS_MAX = 32
NAME_CHARS_MAX = 64
VALUE_CHARS_MAX = 2000


class Profile:
    def __init__(self, session: str, opened: Opening) -> None:
        self._session = session
        self._opened = opened

    async def get(self) -> dict[str, str]:
        return dict((await (await self._lane()).view()).profile)

    async def set(self, **fields: str) -> None:
        """Add or change fields; an empty text removes one."""
        lane = await self._lane()
        made = {**(await lane.view()).profile, **{name: _checked(name, value) for name, value in fields.items()}}
        made = {name: value for name, value in made.items() if value}
        if len(made) > FIELDS_MAX:
            raise InputRefused(f"a profile has at most {FIELDS_MAX} fields")
        await lane.change(SessionChanged(profile=made))

    async def clear(self) -> None:
        await (await self._lane()).change(SessionChanged(profile={}))

    async def _lane(self) -> Lane:
        opened = await self._opened()
        return opened.lanes.get(opened.key(self._session, ""))


def _checked(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputRefused(f"the profile's {name!r} is text, not {type(value).__name__}")
    if not name.strip() or len(name) > NAME_CHARS_MAX:
        raise InputRefused(f"a profile's field is named in 1 to {NAME_CHARS_MAX} characters")
    if len(value) > VALUE_CHARS_MAX:
        raise InputRefused(f"the profile's {name!r} has at most {VALUE_CHARS_MAX} characters")
    return " ".join(value.split())
