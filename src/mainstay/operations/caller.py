"""The caller of operations: a principal in one workspace, its rights, and the sessions that it can see."""

from __future__ import annotations

import msgspec

from mainstay.core.chat_addresses import WEB_CHANNEL, ChatAddress, escape_part, unescape_part
from mainstay.core.errors import HomeTaken, MainstayError, SessionUnknown
from mainstay.core.events import Event, Forked, SessionChanged, Spawned, TurnEnded
from mainstay.core.input_envelope import check_session_name
from mainstay.core.outcome import Failed
from mainstay.core.people import Principal
from mainstay.core.ports import SessionInfo
from mainstay.core.turn_location import TurnLocation
from mainstay.operations.operation import Access
from mainstay.operations.runtime_protocols import Home, Runtime, RuntimeSource

OWNER = Principal(person="", workspace="")

# events with parts that not every caller may see
_RESTRICTED_EVENTS = (SessionChanged, TurnEnded, Failed, Forked, Spawned)


class NotAllowed(MainstayError):
    """The principal lacks the right to run this operation."""


class Caller:
    """One principal in one workspace. It sees its own sessions, under its own names for them; an admin sees all
    sessions of the workspace, under their keys. Other sessions do not exist for it."""

    def __init__(self, principal: Principal, source: RuntimeSource, home: Home | None = None) -> None:
        self.principal = principal
        self.source = source
        self._home = home
        self.can_see_all = principal.role == "admin" and principal.has_scope("read")
        self._key_prefix = f"{ChatAddress(WEB_CHANNEL, principal.person)}:"  # of the keys of this person's sessions

    async def runtime(self) -> Runtime:
        return await self.source.runtime()

    @property
    def current(self) -> Runtime:
        return self.source.current

    @property
    def workspace(self) -> str:
        return self.source.current.workspace

    @property
    def person(self) -> str:
        """The person's name; "" for the owner."""
        return self.principal.person

    @property
    def has_home(self) -> bool:
        """True in a process that serves the whole home, not one workspace of it."""
        return self._home is not None

    @property
    def home(self) -> Home:
        """Raises HomeTaken where the process that owns the home serves one workspace only."""
        if self._home is None:
            raise HomeTaken("the process that owns this home is not a server; stop it and start `mainstay serve`")
        return self._home

    # --- rights ----------------------------------------------------------------------------------

    def require_access(self, access: Access) -> None:
        """Raise NotAllowed unless the principal has this right."""
        if access == "any":
            return
        if access == "home":
            if not self.can_administer_home:
                raise NotAllowed("only administrators of the home may do this")
        elif not self.principal.has_scope(access):
            raise NotAllowed(f"this needs the scope {access!r}, which the caller does not have")

    @property
    def can_administer_home(self) -> bool:
        """True for the owner, and for an admin of the main workspace whose key has the scope `admin`."""
        if not (self.principal.role == "admin" and self.principal.has_scope("admin")):
            return False
        return not self.person or (self._home is not None and self.principal.workspace == self._home.main_workspace)

    # --- names of sessions -----------------------------------------------------------------------

    def session_key(self, session: str, sender: str | None = None) -> str:
        """Return the key of the session of this name. Raises InputRefused if no session can have this name."""
        sender = self.person if sender is None else sender
        if not self.can_see_all:  # with the prefix, an empty name would be a valid key
            check_session_name(session, self.current.services.limits)
            session = f"{self._key_prefix}{escape_part(session)}"
        return self.current.build_session_key(session, sender)

    def session_name(self, key: str) -> str | None:
        """Return the principal's name for a session; None if the session is not the principal's."""
        if self.can_see_all:
            return key
        return unescape_part(key.removeprefix(self._key_prefix)) if key.startswith(self._key_prefix) else None

    async def find_session(self, session: str) -> tuple[str, SessionInfo]:
        """Return key and state of an existing session. Raises SessionUnknown, with the same sentence for a session
        that does not exist and for one of another person."""
        store = (await self.runtime()).services.store
        keys = (session, self.session_key(session)) if self.can_see_all else (self.session_key(session),)
        for key in dict.fromkeys(keys):  # an admin may name a session by its key, whatever the key policy
            info = await store.get_session(key)
            if info is not None and info.status != "deleted":
                return key, info
        raise SessionUnknown(f"there is no session {quote_name(session)}")

    async def resolve_session_key(self, session: str) -> str:
        """Return the key of a session that may not exist yet."""
        try:
            return (await self.find_session(session))[0]
        except SessionUnknown:
            return self.session_key(session)

    def with_session_name(self, info: SessionInfo) -> SessionInfo | None:
        """Return the session's state under the principal's name for it; None if it is not the principal's."""
        name = self.session_name(info.key)
        return msgspec.structs.replace(info, key=name, workspace=self.workspace) if name is not None else None

    def visible_location(self, location: TurnLocation | None) -> TurnLocation | None:
        """Return where an error arose, as far as the principal may know it."""
        name = self.session_name(location.session) if location is not None else None
        return msgspec.structs.replace(location, session=name) if location is not None and name is not None else None

    # --- visible parts of events -----------------------------------------------------------------

    def visible_event(self, event: Event) -> Event:
        """Return the event as the principal may see it: sessions under its own names for them, without error details
        for operators and without the owner's instructions."""
        if not self.can_see_all:
            event = msgspec.structs.replace(event, session=self.session_name(event.session) or "")
        return self._hide_restricted(event) if isinstance(event, _RESTRICTED_EVENTS) else event

    def _hide_restricted(self, event: Event) -> Event:
        operator = self.principal.role == "admin"
        match event:
            case SessionChanged() if not self.can_see_all:
                return msgspec.structs.replace(event, instructions=None, amended=None, told=())
            case Failed() if not operator:
                return msgspec.structs.replace(event, details="")
            case TurnEnded(outcome=Failed() as failed) if not operator:
                return msgspec.structs.replace(event, outcome=msgspec.structs.replace(failed, details=""))
            case Forked(parent=parent) | Spawned(parent=parent):
                return msgspec.structs.replace(event, parent=self.session_name(parent) or "")
        return event


async def load_session_info(source: RuntimeSource, key: str) -> SessionInfo:
    """Return a session's info by its key, without a check of rights. Raises SessionUnknown."""
    info = await (await source.runtime()).services.store.get_session(key)
    if info is None or info.status == "deleted":
        raise SessionUnknown(f"there is no session {quote_name(key)}")
    return info


def quote_name(name: str) -> str:
    """Quote a name for an error message, at most 80 characters of it."""
    return repr(name if len(name) <= 80 else name[:80] + "…")
