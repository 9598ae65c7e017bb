"""`mainstay run`: runs one turn and prints the answer, for scripts."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from mainstay.agent.client import AgentClient
from mainstay.cli.commands.agent_setup import (
    AgentSetup,
    apply_requested_model,
    build_session_name,
    load_agent_setup,
    print_note,
    set_working_folder,
)
from mainstay.cli.commands.home_locator import run_async
from mainstay.cli.commands.output import print_json
from mainstay.cli.parser.root import UsageError
from mainstay.core.errors import SessionUnknown
from mainstay.core.events import ApprovalAsked, TurnEnded
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import format_origin
from mainstay.core.messages import Text
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused, Reply
from mainstay.core.outcome_text import describe_outcome
from mainstay.core.turn_location import TurnLocation
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.terminal.approval_formatter import format_shell_hints
from mainstay.terminal.plain_printer import PlainPrinter

ABORT_TIMEOUT_S = 5.0
RESUME_NOTICE_S = 1.0


def run(options: argparse.Namespace) -> int:
    prompt = _read_prompt(options.text)
    setup = load_agent_setup(options)
    session: str = options.session or build_session_name("run")
    if not options.json:
        return exit_code(run_async(_stream_turn(setup, session, prompt)))
    reply = run_async(_run_turn(setup, session, prompt))
    print_json(_build_document(reply))
    return exit_code(reply.outcome)


def _read_prompt(words: list[str]) -> list[Text]:
    """Return the prompt as parts. What `-` is replaced by is content, not the user's own words: it is a file or the
    output of a command. Without arguments, stdin is the prompt itself."""
    if not words:
        if sys.stdin.isatty():
            raise UsageError('the prompt is missing: mainstay run "…", or pipe it to stdin')
        return [Text(_read_stdin())]
    if "-" not in words:
        return [Text(" ".join(words))]
    parts = [
        Text(_read_stdin(), origin=format_origin("stdin", untrusted=True)) if word == "-" else Text(word)
        for word in words
    ]
    return [parts[0], *(msgspec.structs.replace(part, text=f"\n{part.text}") for part in parts[1:])]


def _read_stdin() -> str:
    limit = Limits().input_bytes_max
    return sys.stdin.buffer.read(limit + 1).decode(errors="replace").rstrip("\n")


async def _note_if_paused(agent: AgentClient, session: str) -> None:
    try:
        info = await agent.sessions.get(session)
    except SessionUnknown:
        return
    if info.status == "paused":
        name = escape_line(session)
        print_note(f"{name} is paused: the prompt waits for `mainstay session activate {name}`")


async def _stream_turn(setup: AgentSetup, session: str, prompt: list[Text]) -> Outcome:
    # a script gets only text that is final
    printer = PlainPrinter(_write_stdout, print_note, format_shell_hints, streams=sys.stdout.isatty())
    async with setup.open_agent() as agent:
        outcome: Outcome | None = None
        try:
            await apply_requested_model(setup, agent, session)
            await set_working_folder(setup, agent, session)
            await _note_if_paused(agent, session)
            async for event in agent.stream(session, prompt):
                printer.show_event(event)
                match event:
                    case TurnEnded():
                        outcome = event.outcome
                    case ApprovalAsked(id=id):
                        outcome = Paused(id)
        except asyncio.CancelledError:
            await _abort_turn(agent, session)
            raise
        assert outcome is not None, "a stream ends with its turn or raises"
        await _wait_for_resumed_turns(agent)
        return outcome


async def _run_turn(setup: AgentSetup, session: str, prompt: list[Text]) -> Reply:
    async with setup.open_agent() as agent:
        try:
            await apply_requested_model(setup, agent, session)
            await set_working_folder(setup, agent, session)
            await _note_if_paused(agent, session)
            reply = await agent.run(session, prompt)
        except asyncio.CancelledError:
            await _abort_turn(agent, session)
            raise
        await _wait_for_resumed_turns(agent)
        return reply


async def _abort_turn(agent: AgentClient, session: str) -> None:
    """Abort the turn of an interrupted command, so that it is not resumed later."""
    async with asyncio.timeout(ABORT_TIMEOUT_S):
        await agent.abort(session)


async def _wait_for_resumed_turns(agent: AgentClient) -> None:
    """Wait for turns that an earlier process left unfinished, and that were resumed when this agent was opened."""
    settling = asyncio.ensure_future(agent.settled())
    done, _ = await asyncio.wait((settling,), timeout=RESUME_NOTICE_S)
    if not done:
        print_note("finishing turns that were interrupted earlier; Ctrl-C leaves them for the next start")
    await settling


def _write_stdout(text: str) -> None:
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


def _build_document(reply: Reply) -> dict[str, object]:
    name = type(reply.outcome).__name__
    document: dict[str, object] = {"ok": isinstance(reply.outcome, Answered)}
    if not document["ok"]:
        document["error"] = {"type": name, "message": describe_outcome(reply.outcome)}
    if isinstance(failed := reply.outcome, Failed):
        details = TurnLocation(reply.session, failed.turn, failed.step, failed.trace)
        document["error"] = {"type": name, "message": failed.sentence, "details": details}
    if isinstance(judged := reply.outcome, Answered) and judged.score is not None:
        document |= {"score": judged.score, "passed": judged.passed}
    if reply.cut:
        document["cut"] = True
    if isinstance(reply.outcome, Paused):
        document["approval"] = reply.outcome.approval
    usage = msgspec.structs.asdict(reply.usage)
    document |= {"session": reply.session, "turn": reply.turn, "outcome": name, "text": reply.text}
    return document | {"usage": usage, "cost": reply.cost, "trace": reply.trace}
