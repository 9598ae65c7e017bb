"""Operations on settings of one session: its metadata, which the model does not see, and its own budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.errors import InputRefused
from mainstay.core.events import SessionChanged
from mainstay.core.limits import SessionBudget
from mainstay.core.ports import SessionInfo
from mainstay.core.usage_bounds import DOLLARS_MAX
from mainstay.operations.caller import Caller
from mainstay.operations.operation import SEQUENCE_MAX, Operation, SessionName
from mainstay.operations.operation_entry import OperationEntry, Route
from mainstay.operations.sessions import GetSession, SessionView, get_session, show_session

# metadata is in the session's row, which every append writes
METADATA_FIELDS_MAX = 32
METADATA_NAME_CHARS_MAX = 64
METADATA_VALUE_CHARS_MAX = 2000

DOLLARS_MIN = 0.000001
Dollars = Annotated[float, Meta(gt=0, le=DOLLARS_MAX)]
Limit = Annotated[int, Meta(ge=1, le=SEQUENCE_MAX)]


class MetadataFields(msgspec.Struct, frozen=True, kw_only=True):
    fields: dict[str, str]


class GetMetadata(Operation[MetadataFields], frozen=True, kw_only=True):
    """Show the metadata of a session: values that an application keeps with it, which the model does not see."""

    session: SessionName


class SetMetadata(Operation[MetadataFields], frozen=True, kw_only=True):
    """Add or change fields of a session's metadata; an empty text removes one."""

    session: SessionName
    fields: Annotated[dict[str, str], Meta(max_length=METADATA_FIELDS_MAX)]


class ClearMetadata(Operation[None], frozen=True, kw_only=True):
    """Remove all fields of a session's metadata."""

    session: SessionName


class SetSessionBudget(Operation[SessionInfo], frozen=True, kw_only=True):
    """Set what a session may spend in all, from its next turn on; what is not named has the configured limit."""

    session: SessionName
    money: Dollars | None = None  # dollars
    tokens: Limit | None = None  # prompts and answers together
    tool_calls: Limit | None = None


async def get_metadata(caller: Caller, request: GetMetadata) -> MetadataFields:
    lane = (await caller.runtime()).lanes.get(await caller.resolve_session_key(request.session))
    return MetadataFields(fields=dict((await lane.load_session()).metadata))


async def set_metadata(caller: Caller, request: SetMetadata) -> MetadataFields:
    lane = (await caller.runtime()).lanes.get(await caller.resolve_session_key(request.session))
    fields = merge_metadata((await lane.load_session()).metadata, request.fields)
    await lane.record_changes(SessionChanged(metadata=fields))
    return MetadataFields(fields=fields)


def merge_metadata(current: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata with these changes. Raises InputRefused for a field that is no text or too large."""
    for name, value in changes.items():
        if not isinstance(value, str):
            raise InputRefused(f"the metadata field {name!r} must be text, not {type(value).__name__}")
        if not name.strip() or len(name) > METADATA_NAME_CHARS_MAX:
            raise InputRefused(f"the name of a metadata field has 1 to {METADATA_NAME_CHARS_MAX} characters")
        if len(value) > METADATA_VALUE_CHARS_MAX:
            raise InputRefused(f"the metadata field {name!r} has at most {METADATA_VALUE_CHARS_MAX} characters")
    fields = {name: value for name, value in {**current, **changes}.items() if value}
    if len(fields) > METADATA_FIELDS_MAX:
        raise InputRefused(f"a session's metadata has at most {METADATA_FIELDS_MAX} fields")
    return fields


async def clear_metadata(caller: Caller, request: ClearMetadata) -> None:
    lane = (await caller.runtime()).lanes.get(await caller.resolve_session_key(request.session))
    await lane.record_changes(SessionChanged(metadata={}))


async def set_session_budget(caller: Caller, request: SetSessionBudget) -> SessionInfo:
    _check_money(request.money)
    for name, limit in (("tokens", request.tokens), ("tool_calls", request.tool_calls)):
        if limit is not None and not (type(limit) is int and 0 < limit <= SEQUENCE_MAX):
            raise InputRefused(f"the budget's {name} must be a whole number above 0")
    budget = SessionBudget(money=request.money, tokens=request.tokens, tool_calls=request.tool_calls)
    key = await caller.resolve_session_key(request.session)
    await (await caller.runtime()).lanes.get(key).record_changes(SessionChanged(budget=budget))
    return await get_session(caller, GetSession(session=request.session))


def _check_money(money: float | None) -> None:
    """Raise InputRefused for a limit that is no amount, or below the smallest one that is counted."""
    if money is None:
        return
    is_number = type(money) is float or type(money) is int
    if not (is_number and DOLLARS_MIN <= money <= DOLLARS_MAX):
        raise InputRefused(f"the budget's money must be dollars, from {DOLLARS_MIN:f} to {DOLLARS_MAX:,.0f}")


_PATH_FIELDS = {"id": "session"}
_METADATA = "/api/sessions/{id}/metadata"

ENTRIES = (
    OperationEntry(request=GetMetadata, run=get_metadata, http=Route("GET", _METADATA, _PATH_FIELDS)),
    OperationEntry(request=SetMetadata, run=set_metadata, http=Route("PATCH", _METADATA, _PATH_FIELDS)),
    OperationEntry(request=ClearMetadata, run=clear_metadata, http=Route("DELETE", _METADATA, _PATH_FIELDS, 204)),
    OperationEntry(
        request=SetSessionBudget,
        run=set_session_budget,
        access="admin",
        http=Route("PUT", "/api/sessions/{id}/budget", _PATH_FIELDS),
        to_view=show_session,
        view_type=SessionView,
    ),
)
