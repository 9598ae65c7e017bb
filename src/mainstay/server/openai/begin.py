"""From what a client sends to a turn: which session it means, what in it is new, and what becomes of that."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

import msgspec

from mainstay.core.errors import InputRefused, SessionUnknown
from mainstay.core.events import Steered, TurnEnded, TurnStarted
from mainstay.core.messages import AnyPart, Text
from mainstay.core.recall import RUNTIME
from mainstay.gateway.visit import Ticket, Visit
from mainstay.server.openai.answer import closing
from mainstay.server.openai.ids import Spot, Who, meant_call, spot_of
from mainstay.server.openai.memory import Begun, Memory
from mainstay.server.openai.refusals import Refused
from mainstay.server.openai.wishes import Said, Wish, as_history

CLIENT = "client"  # the origin of what a program says for itself, beside what a person says through it
SYSTEM = "The program that this conversation is held with says:\n\n"
GO_ON = "The results of your calls are above; go on."


class Attempt(msgspec.Struct, frozen=True):
    """What tells a request that is made again from one that only looks like it."""

    digest: bytes = b""  # empty: nothing does
    id: str = ""  # the client's own word for it
    again: bool = False  # it says so itself


class _Place(msgspec.Struct, frozen=True):
    session: str
    history: tuple[Said, ...] = ()  # what this session has not been told
    fresh: bool = False  # nothing was said in it before
    found: bool = False  # by its history


def who_of(visit: Visit) -> Who:
    return visit.workspace, visit.principal.person


async def begin(visit: Visit, wish: Wish, memory: Memory, attempt: Attempt) -> Begun:
    """Durable when it returns. Whoever listens begins to do so at once: nothing is awaited in between."""
    who = who_of(visit)
    if attempt.digest and (attempt.again or attempt.id):
        known = memory.attempted(who, attempt.digest)
        if known is not None:
            return msgspec.structs.replace(known, again=True)
    place = await _place(visit, wish, memory, attempt)
    try:
        async with memory.door(who, place.session):
            begun = await _prompt(visit, wish, memory, place, attempt)
    except BaseException:
        if place.found:  # it stands where it stood: whoever tries again finds it there
            memory.keep(who, wish.history, place.session)
        raise
    if attempt.digest:  # whoever comes again only listens
        memory.attempt(who, attempt.digest, msgspec.structs.replace(begun, results={}, more=()))
    return begun


# --- which session -------------------------------------------------------------------------------


async def _place(visit: Visit, wish: Wish, memory: Memory, attempt: Attempt) -> _Place:
    if wish.session:
        return await _unless_known(visit, wish.session, wish.history)
    if wish.previous:
        return _Place(await _continued(visit, wish.previous))
    found = memory.take(who_of(visit), wish.history)
    if found is not None and not (await _unless_known(visit, found, wish.history)).fresh:
        return _Place(found, found=True)
    return await _unless_known(visit, _new_name(visit, attempt), wish.history)


async def _unless_known(visit: Visit, session: str, history: tuple[Said, ...]) -> _Place:
    """The journal has what was said in a session; what a client says was said counts only where nothing was."""
    try:
        standing = await visit.session(session)
    except SessionUnknown:
        return _Place(session, history, fresh=True)
    return _Place(session) if standing.turns or standing.messages else _Place(session, history, fresh=True)


def _new_name(visit: Visit, attempt: Attempt) -> str:
    """Of a request with an id: always the same, so that it is one turn even if the server died in between."""
    if not attempt.id:
        return f"chat-{secrets.token_hex(8)}"
    seed = "\0".join((*who_of(visit), attempt.id))
    return f"chat-{hashlib.sha256(seed.encode(errors='replace')).hexdigest()[:16]}"


async def _continued(visit: Visit, previous: str) -> str:
    """The session of an earlier response; a copy that ends with it, if the session has gone on since."""
    spot = spot_of(who_of(visit), previous)
    if spot is None:
        raise response_unknown(previous)
    try:
        head = (await visit.session(spot.session)).head
    except (SessionUnknown, InputRefused):
        raise response_unknown(previous) from None
    end = await _left_behind(visit, spot, head)
    if end is None:
        return spot.session
    branch = f"chat-{secrets.token_hex(8)}"
    await visit.fork(spot.session, branch, upto=end)
    return branch


def response_unknown(id: str) -> Refused:
    """Another's are as unknown as those that never were."""
    return Refused(f"there is no response {id[:80]!r}", "previous_response_id", code="response_not_found", status=404)


async def _left_behind(visit: Visit, spot: Spot, head: int) -> int | None:
    """Where the turn of a response ended, if another has begun after it."""
    turn, end = 0, 0
    async with closing(visit.follow(spot.session, spot.seq - 1, upto=head)) as events:
        async for event in events:
            match event:
                case TurnStarted(inputs=inputs) | Steered(inputs=inputs) if spot.seq in inputs:
                    turn = event.turn
                case TurnStarted() if end:
                    return end
                case TurnEnded() if event.turn == turn:
                    end = event.sequence
            if event.sequence >= head:
                return None
    return None


# --- what is new ---------------------------------------------------------------------------------


async def _prompt(visit: Visit, wish: Wish, memory: Memory, place: _Place, attempt: Attempt) -> Begun:
    results = [one for one in wish.news if one.role == "tool"]
    words = [part for one in wish.news if one.role == "user" for part in one.parts]
    history = (*place.history, *results) if place.fresh else place.history
    if history:
        await visit.import_history(place.session, as_history(history))
    await visit.offer(place.session, wish.tools)
    if results and not place.fresh:
        return await _hand_in(visit, place.session, results, tuple(words))
    if results and not words:
        words = [Text(GO_ON, origin=RUNTIME)]
    ticket = await _accept(visit, wish, memory, place.session, words, attempt.id)
    return Begun(session=place.session, ticket=ticket)


async def _hand_in(visit: Visit, session: str, results: Sequence[Said], words: tuple[AnyPart, ...]) -> Begun:
    (call, text), *rest = ((meant_call(session, one.call_id), one.text) for one in results)
    ticket = await visit.hand_in(session, call, text)
    return Begun(session=session, ticket=ticket, call=call, results=dict(rest), more=words)


async def _accept(visit: Visit, wish: Wish, memory: Memory, session: str, words: Sequence[AnyPart], id: str) -> Ticket:
    """With what the client says for itself before it, where that is new."""
    who, system = who_of(visit), hashlib.sha256(wish.system.encode(errors="replace")).digest()
    if not wish.system or memory.knows(who, session, system):
        return await visit.accept(session, words, id=id)
    told = (Text(SYSTEM + wish.system, origin=CLIENT), *words)
    try:
        ticket = await visit.accept(session, told, id=id)
    except InputRefused:
        if not id:
            raise
        return await visit.accept(session, words, id=id)  # before a restart the session knew it
    memory.told(who, session, system)
    return ticket
