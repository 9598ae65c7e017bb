"""How a turn ends in the journal, and what whoever waited is told."""

from __future__ import annotations

from itertools import takewhile

import msgspec

from mainstay.core.events import Event, Steered, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.messages import ToolCall, ToolResult, is_cut
from mainstay.core.open_turn import OpenTurn
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused, Reply
from mainstay.core.ports import Store
from mainstay.core.session import Session
from mainstay.lane.whereabouts import where_of
from mainstay.turn.catalogue import CALL, read_call
from mainstay.turn.toolbox import CANCELLED, UNKNOWN, Tools, refuse


def closing_events(session: Session, outcome: Outcome) -> list[Event]:
    """Whatever ends a turn, every call has its result first."""
    turn = session.open
    assert turn is not None
    step = turn.step
    text = CANCELLED if isinstance(outcome, Aborted) else "Not run: the turn ended before this call."
    results = [
        ToolFinished(refuse(call, UNKNOWN if call.id in turn.started else text), calls=0, turn=turn.turn, step=step)
        for call in turn.open_calls
    ]
    return [*results, TurnEnded(outcome, turn=turn.turn)]


def reply_of(session: Session, outcome: Outcome) -> Reply:
    turn = session.open
    assert turn is not None
    last = session.messages[-1] if session.messages else None
    text = last.text if last is not None and last.role == "assistant" and not _is_held(turn, outcome) else ""
    if isinstance(outcome, Failed) and not text:
        text = outcome.sentence
    if isinstance(outcome, Failed):
        outcome = msgspec.structs.replace(outcome, session=session.key)
    if isinstance(outcome, Paused) and (asked := session.pending) is not None:
        text = f"Waiting for approval {asked.id}: {asked.name}({asked.input})"
    return Reply(
        text=text,
        outcome=outcome,
        usage=turn.usage,
        cost=turn.cost,
        turn=turn.turn,
        session=session.key,
        results=_results(session, outcome),
        trace=where_of(session).trace,
        cut=isinstance(outcome, Answered) and last is not None and is_cut(last.parts),
    )


def _is_held(turn: OpenTurn, outcome: Outcome) -> bool:
    """Nobody was to see it before it was judged, and that never came to an end."""
    stands = turn.judged is not None and turn.judged.step == turn.step and (turn.judged.passed or turn.judged.last)
    return turn.provisional == "held" and not stands and not isinstance(outcome, Answered | Exhausted)


def _results(session: Session, outcome: Outcome) -> tuple[ToolResult, ...]:
    """Of the turn's calls. Those of its last step join the history together, once each has one."""
    turn = session.open
    assert turn is not None
    ours = takewhile(lambda message: message.turn == turn.turn, reversed(session.messages))
    found = [part for message in reversed([*ours]) for part in message.parts if isinstance(part, ToolResult)]
    if turn.open_calls:
        last = dict(turn.results)
        if not isinstance(outcome, Paused):
            ended = [event.result for event in closing_events(session, outcome) if isinstance(event, ToolFinished)]
            last |= {result.call_id: result for result in ended}
        found += [last[call.id] for call in turn.step_calls if call.id in last]
    return tuple(found)


async def find_reply(store: Store, key: str, seq: int, after: int | None = None) -> Reply | None:
    """The reply to an input that was answered long ago, read back from the journal."""
    session, found = Session(key), False
    standing = await store.get(key)
    session.created = standing.created if standing is not None else 0  # which part of it is read says nothing of that
    after = seq - 1 if after is None else after
    while records := await store.read(key, after=after):
        for record in records:
            match record.event:
                case TurnStarted(inputs=inputs) if seq in inputs:
                    found = True
                case Steered(inputs=inputs) if seq in inputs:
                    if session.open is None:  # the turn it was put into began before it
                        return await find_reply(store, key, seq, after=0)
                    found = True
                case TurnEnded(outcome=outcome) if found:
                    return reply_of(session, outcome)
            session.apply(record.seq, record.at, record.event)
        after = records[-1].seq
    return None


def lacks_a_tool(turn: OpenTurn, tools: Tools) -> bool:
    """A call was running when its process died, and its tool is not here. Whoever has it knows what to do; only if
    somebody asks for this session here is the turn ended without it."""
    have = {tool.name for tool in tools.offered}
    return any(call.id in turn.started and _name_of(call) not in have for call in turn.open_calls)


def _name_of(call: ToolCall) -> str:
    """Of the tool that is meant, where it was called through the catalogue."""
    inner = read_call(call.input) if call.name == CALL else None
    return inner.name if inner is not None else call.name
