"""Replies: those that callers wait for, those built when a turn ends, and those found in the journal later."""

from __future__ import annotations

import asyncio

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.events import Event, Steered, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.messages import ToolCall, ToolResult, is_truncated
from mainstay.core.open_turn import OpenTurn
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused, Reply
from mainstay.core.ports import Store
from mainstay.core.session import Session
from mainstay.core.turn_location import locate_session
from mainstay.turn.change_answers import build_unsettled_result, find_change_request
from mainstay.turn.dependencies import AnswerValidator
from mainstay.turn.tool_search import CALL_TOOL, parse_catalogue_call
from mainstay.turn.toolbox import TurnTools, error_result


class PendingReply:
    """An accepted input and the future of its reply."""

    __slots__ = ("reply", "seq", "turn", "validate_answer")

    def __init__(self, seq: int, reply: asyncio.Future[Reply], validate_answer: AnswerValidator | None) -> None:
        self.seq = seq
        self.reply = reply
        self.validate_answer = validate_answer
        self.turn = 0  # 0 until the turn has started


class PendingReplies(dict[int, PendingReply]):
    """Pending replies by the sequence of their input."""

    __slots__ = ()

    def add(self, seq: int, validate_answer: AnswerValidator | None) -> PendingReply:
        pending = self[seq] = PendingReply(seq, asyncio.get_running_loop().create_future(), validate_answer)
        return pending

    def resolve(self, inputs: tuple[int, ...], reply: Reply) -> None:
        """Resolve the replies of all inputs of a turn: those that started it and those that steered it."""
        for seq in inputs:
            pending = self.pop(seq, None)
            if pending is None:
                continue
            pending.turn = reply.turn
            if not pending.reply.done():
                pending.reply.set_result(reply)

    def fail_all(self, error: MainstayError) -> None:
        """Fail every pending reply with `error`, which belongs to this lane; the inputs stay stored."""
        error.is_input_stored = True
        while self:
            _, pending = self.popitem()
            if not pending.reply.done():
                pending.reply.set_exception(error)
                pending.reply.exception()  # mark as retrieved: the caller may not be waiting


def build_closing_events(session: Session, outcome: Outcome) -> list[Event]:
    """Return the events that end the open turn; every open call gets its result first."""
    turn = session.open_turn
    assert turn is not None
    step = turn.step
    text = turn.wording.cancelled if isinstance(outcome, Aborted) else turn.wording.turn_ended
    results = [
        ToolFinished(
            build_unsettled_result(turn, request)
            if (request := find_change_request(turn, call)) is not None
            else error_result(call, turn.wording.outcome_unknown if call.id in turn.started_calls else text),
            calls=0,
            turn=turn.turn,
            step=step,
        )
        for call in turn.open_calls
    ]
    return [*results, TurnEnded(outcome, turn=turn.turn)]


def build_reply(session: Session, outcome: Outcome) -> Reply:
    """Build the reply of the open turn, before its closing events are applied."""
    turn = session.open_turn
    assert turn is not None
    last = session.messages[-1] if session.messages else None
    text = last.text if last is not None and last.role == "assistant" and not _is_held(turn, outcome) else ""
    if isinstance(outcome, Failed) and not text:
        text = outcome.sentence
    if isinstance(outcome, Failed):
        outcome = msgspec.structs.replace(outcome, session=session.key)
    if isinstance(outcome, Paused) and (approval := session.pending_approval) is not None:
        text = f"Waiting for approval {approval.id}: {approval.name}({approval.input})"
    return Reply(
        text=text,
        outcome=outcome,
        usage=turn.usage,
        cost=turn.cost,
        turn=turn.turn,
        session=session.key,
        results=_collect_results(session, outcome),
        trace=locate_session(session).trace,
        cut=isinstance(outcome, Answered) and last is not None and is_truncated(last.parts),
    )


def _is_held(turn: OpenTurn, outcome: Outcome) -> bool:
    """Return True if the last answer was held for a verdict that never arrived."""
    stands = (
        turn.last_verdict is not None
        and turn.last_verdict.step == turn.step
        and (turn.last_verdict.passed or turn.last_verdict.last)
    )
    return turn.provisional == "held" and not stands and not isinstance(outcome, Answered | Exhausted)


def _collect_results(session: Session, outcome: Outcome) -> tuple[ToolResult, ...]:
    """Return the results of the turn's calls; those of its last step may not be in the history yet."""
    turn = session.open_turn
    assert turn is not None
    messages = session.messages
    start = len(messages)
    while start and messages[start - 1].turn == turn.turn:
        start -= 1
    results = [part for message in messages[start:] for part in message.parts if isinstance(part, ToolResult)]
    if turn.open_calls:
        last = dict(turn.results)
        if not isinstance(outcome, Paused):
            ended = [
                event.result for event in build_closing_events(session, outcome) if isinstance(event, ToolFinished)
            ]
            last |= {result.call_id: result for result in ended}
        results += [last[call.id] for call in turn.step_calls if call.id in last]
    return tuple(results)


async def find_reply(store: Store, key: str, seq: int, after: int | None = None) -> Reply | None:
    """Read the reply to an earlier input from the journal; None if its turn has not ended."""
    session, in_turn = Session(key), False
    info = await store.get_session(key)
    session.created = info.created if info is not None else 0  # the part that is read may not contain it
    after = seq - 1 if after is None else after
    while records := await store.read_records(key, after=after):
        for record in records:
            match record.event:
                case TurnStarted(inputs=inputs) if seq in inputs:
                    in_turn = True
                case Steered(inputs=inputs) if seq in inputs:
                    if session.open_turn is None:  # its turn began before it: read from the start
                        return await find_reply(store, key, seq, after=0)
                    in_turn = True
                case TurnEnded(outcome=outcome) if in_turn:
                    return build_reply(session, outcome)
            session.apply(record.seq, record.at, record.event)
        after = records[-1].seq
    return None


def needs_missing_tool(turn: OpenTurn, tools: TurnTools) -> bool:
    """Return True if a call was running when its process stopped, and this process does not have its tool.

    A process that has the tool can resume the turn; here it is only resumed if a caller waits for this session.
    """
    have = {tool.name for tool in tools.callable_tools}
    return any(call.id in turn.started_calls and _find_tool_name(call) not in have for call in turn.open_calls)


def _find_tool_name(call: ToolCall) -> str:
    """Return the name of the called tool, also if it was called through `call_tool`."""
    inner = parse_catalogue_call(call.input) if call.name == CALL_TOOL else None
    return inner.name if inner is not None else call.name
