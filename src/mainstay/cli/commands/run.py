"""`mainstay run`: one turn, for scripts."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from mainstay.agent.agent import Agent
from mainstay.cli.chat.asking import elsewhere
from mainstay.cli.chat.plain import Printer
from mainstay.cli.chat.words import ending
from mainstay.cli.commands.homes import run_async
from mainstay.cli.commands.out import print_json
from mainstay.cli.commands.talking import Setting, new_session, own_model, setting, settle_in, tell
from mainstay.cli.commands.tree import UsageError
from mainstay.core.events import ApprovalAsked, TurnEnded
from mainstay.core.limits import Limits
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused, Reply
from mainstay.core.where import Where
from mainstay.gateway.owner import Remote

ABORT_S = 5.0
LINGER_S = 1.0


def run(options: argparse.Namespace) -> int:
    prompt = _prompt(options.text)
    where = setting(options)
    session: str = options.session or new_session("run")
    if not options.json:
        return exit_code(run_async(_streamed(where, session, prompt)))
    reply = run_async(_whole(where, session, prompt))
    print_json(_document(reply))
    return exit_code(reply.outcome)


def _prompt(given: list[str]) -> str:
    if not given:
        if sys.stdin.isatty():
            raise UsageError('what should it do? Give the text: mainstay run "…", or a pipe')
        return _stdin()
    return "\n\n".join(_stdin() if one == "-" else one for one in given) if "-" in given else " ".join(given)


def _stdin() -> str:
    limit = Limits().input_bytes_max
    return sys.stdin.buffer.read(limit + 1).decode(errors="replace").rstrip("\n")


async def _streamed(where: Setting, session: str, prompt: str) -> Outcome:
    printer = Printer(_write, tell, elsewhere)
    async with where.agent() as agent:
        outcome: Outcome | None = None
        try:
            await own_model(where, agent, session)
            await settle_in(where, agent, session)
            async for event in agent.stream(session, prompt):
                printer.show(event)
                match event:
                    case TurnEnded():
                        outcome = event.outcome
                    case ApprovalAsked(id=id):
                        outcome = Paused(id)
        except asyncio.CancelledError:
            await _abort(agent, session)
            raise
        assert outcome is not None, "a stream ends with its turn or raises"
        await _others(agent)
        return outcome


async def _whole(where: Setting, session: str, prompt: str) -> Reply:
    async with where.agent() as agent:
        try:
            await own_model(where, agent, session)
            await settle_in(where, agent, session)
            reply = await agent.run(session, prompt)
        except asyncio.CancelledError:
            await _abort(agent, session)
            raise
        await _others(agent)
        return reply


async def _abort(agent: Agent | Remote, session: str) -> None:
    """Who interrupts the command does not want the turn to be resumed later."""
    async with asyncio.timeout(ABORT_S):
        await agent.abort(session)


async def _others(agent: Agent | Remote) -> None:
    """Turns that an earlier process left unfinished were taken up with ours; they are let finish."""
    settling = asyncio.ensure_future(agent.settled())
    done, _ = await asyncio.wait((settling,), timeout=LINGER_S)
    if not done:
        tell("finishing turns that were interrupted earlier; Ctrl-C leaves them for the next start")
    await settling


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def exit_code(outcome: Outcome) -> int:
    match outcome:
        case Answered():
            return 0
        case Exhausted():
            return 3
        case Aborted():
            return 4
        case Paused():
            return 5
        case Failed():
            return 1


def _document(reply: Reply) -> dict[str, object]:
    name = type(reply.outcome).__name__
    made: dict[str, object] = {"ok": isinstance(reply.outcome, Answered)}
    if not made["ok"]:
        made["error"] = {"type": name, "message": ending(reply.outcome)}
    if isinstance(failed := reply.outcome, Failed):
        where = Where(reply.session, failed.turn, failed.step, failed.trace)
        made["error"] = {"type": name, "message": failed.sentence, "details": where}
    if isinstance(judged := reply.outcome, Answered) and judged.score is not None:
        made |= {"score": judged.score, "passed": judged.passed}
    if reply.cut:
        made["cut"] = True
    if isinstance(reply.outcome, Paused):
        made["approval"] = reply.outcome.approval
    usage = msgspec.structs.asdict(reply.usage)
    made |= {"session": reply.session, "turn": reply.turn, "outcome": name, "text": reply.text}
    return made | {"usage": usage, "cost": reply.cost, "trace": reply.trace}
