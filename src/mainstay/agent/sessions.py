"""`agent.sessions`: what can be done with conversations as a whole."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.opened import Opening
from mainstay.context.compile import Shown
from mainstay.core.envelope import check_session_name
from mainstay.core.errors import InputRefused, MainstayError, SessionUnknown
from mainstay.core.events import Event, Forked, SessionChanged, TurnEnded
from mainstay.core.journal import Record, encode
from mainstay.core.ports import Standing, Store
from mainstay.core.session import Session
from mainstay.lane.curtain import Curtain

log = logging.getLogger("mainstay")

_PAGE = 1000
MOST = 1 << 32  # records of a session, and sessions of a workspace


async def read_all(store: Store, key: str) -> list[Record]:
    """A session's whole journal, a page at a time."""
    records: list[Record] = []
    while page := await store.read(key, after=records[-1].seq if records else 0):
        records += page
    return records


async def fork(store: Store, source: str, target: str, upto: int | None, at: int) -> Standing:
    """A new session that shares the old one's past up to a record, and nothing after it."""
    records = await read_all(store, source)
    if not records:
        raise SessionUnknown(f"there is no session {source!r}")
    if await store.get(target) is not None:
        raise InputRefused(f"there is a session {target!r} already")
    last = len(records) if upto is None else upto
    if not 0 < last <= len(records):
        raise InputRefused(f"session {source!r} has records 1 to {len(records)}, not {upto}")
    view = Session(target)
    for record in records[:last]:
        view.apply(record.seq, record.at, record.event)
    event = Forked(source, last)
    view.apply(last + 1, at, event)
    view.created = at
    standing = view.standing()
    await store.fork(source, last, standing, encode(event))
    return standing


async def export(store: Store, key: str, folder: str | Path, clean: Callable[[str], str] | None = None) -> list[Path]:
    """Write `log.jsonl` (what people said) and `context.jsonl` (what the model saw)."""
    records = await read_all(store, key)
    if not records:
        raise SessionUnknown(f"there is no session {key!r}")
    from mainstay.observe.export import write_session  # rarely wanted

    return write_session(records, Path(folder), clean)


async def children_of(store: Store, key: str) -> list[str]:
    """The sessions of the sub-agents that this one sent."""
    found: list[str] = []
    offset = 0
    while page := await store.sessions(limit=_PAGE, offset=offset):
        found += [one.key for one in page if one.errand is not None and one.errand.parent == key]
        offset += len(page)
    return found


def _countable(number: int) -> int:
    """Within what a store can count, and never before the first."""
    return min(max(number, 0), MOST)


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:80] + "…")


class Sessions:
    def __init__(self, opened: Opening) -> None:
        self._opened = opened

    async def list(self, *, limit: int = 100, offset: int = 0) -> Any:
        """The newest first."""
        opened = await self._opened()
        found = await opened.services.store.sessions(limit=_countable(limit), offset=_countable(offset))
        return [msgspec.structs.replace(one, workspace=opened.config.workspace) for one in found]

    async def get(self, key: str) -> Standing:
        opened = await self._opened()
        standing = await opened.services.store.get(key)
        if standing is None or standing.status == "deleted":
            raise SessionUnknown(f"there is no session {_shown(key)}")
        return msgspec.structs.replace(standing, workspace=opened.config.workspace)

    async def records(self, key: str, *, after: int = 0, limit: int = 1000) -> Any:
        """The journal itself, a page at a time: where a client that lost its place catches up."""
        store = (await self._opened()).services.store
        return await store.read(key, after=_countable(after), limit=_countable(limit))

    async def turn(self, key: str, number: int, *, after: int = 0) -> AsyncIterator[Event]:
        """The durable events of one turn, as whoever watched it was told them."""
        curtain = Curtain()
        while page := await self.records(key, after=after):
            for record in page:
                for event in curtain.take(msgspec.structs.replace(record.event, session=key, sequence=record.seq)):
                    if event.turn == number:
                        yield event
                if isinstance(record.event, TurnEnded) and record.event.turn == number:
                    return
            after = page[-1].seq

    async def archive(self, key: str) -> None:
        """No more prompts; everything stays but what still runs for it."""
        await self._change(key, SessionChanged(status="archived"))
        await (await self._opened()).end(key)

    async def pause(self, key: str) -> None:
        """Prompts wait until it is activated again."""
        await self._change(key, SessionChanged(status="paused"))

    async def activate(self, key: str) -> None:
        await self._change(key, SessionChanged(status="active"))

    async def rename(self, key: str, title: str) -> None:
        await self._change(key, SessionChanged(title=title))

    async def delete(self, key: str) -> None:
        """Forget what was said, by its sub-agents too. The running turn is aborted first; the sequence of the journal
        stays. Raises AuditUnavailable if what was done is not on record and cannot be put there now: then all of it
        stays."""
        await self.get(key)
        opened = await self._opened()
        await opened.settle()  # before anything is ended
        keys = [key]
        for one in keys:  # which grows by the sub-agents of each
            await opened.lanes.get(one).end(SessionUnknown(f"session {one!r} was deleted"))
            opened.lanes.forget(one)
            keys += await children_of(opened.services.store, one)
        await opened.settle()
        for one in reversed(keys):
            await opened.services.store.blank(one, opened.services.clock.now_ms())
            opened.services.approvals.note(one, None)
            try:
                await opened.drop(one)
            except MainstayError as error:
                log.error("session %r is deleted, but not all that came of it is gone yet: %s", one, error)

    async def fork(self, key: str, target: str, *, upto: int | None = None) -> Standing:
        """A new session with a copy of the past, whole or up to a record."""
        await self.get(key)
        services = (await self._opened()).services
        check_session_name(target, services.limits)
        await fork(services.store, key, target, upto, services.clock.now_ms())
        if services.touched is not None:
            services.touched(target)
        return await self.get(target)

    async def export(self, key: str, folder: str | Path) -> Any:
        await self.get(key)
        services = (await self._opened()).services
        guards = services.trust.guards
        clean = (lambda text: guards.redactor.whole(text)[0]) if guards is not None else None
        return await export(services.store, key, folder, clean)

    async def replay(self, key: str) -> Any:
        """Run the session again from its recorded answers, with no model, and compare: a `Replayed`."""
        from mainstay.lane.replay import replay  # rarely wanted

        await self.get(key)
        services = (await self._opened()).services
        return await replay(await read_all(services.store, key), services.limits)

    async def context(self, key: str) -> Shown:
        """What the model sees of the session, section by section, with what each weighs."""
        await self.get(key)
        return (await (await self._opened()).lanes.get(key).contexts()).shown()

    async def compact(self, key: str, focus: str = "") -> str | None:
        """Fold everything but the newest turn into the summary now; `focus` is what it should keep above all. The new
        summary, or None if there was nothing to fold."""
        await self.get(key)
        return await (await (await self._opened()).lanes.get(key).contexts()).compact(focus)

    async def work_in(self, key: str, folder: str | Path) -> str:
        """Let the session's files and commands be in this folder, from its next turn on; returns where they are."""
        opened = await self._opened()
        check_session_name(key, opened.config.limits)
        return await opened.work_in(key, str(folder))

    async def set_model(self, key: str, model: str) -> None:
        """The session's own model from its next turn on; "" for the agent's."""
        await (await self._opened()).lanes.get(key).change(SessionChanged(model=model))

    async def _change(self, key: str, event: SessionChanged) -> None:
        await self.get(key)
        await (await self._opened()).lanes.get(key).change(event)
