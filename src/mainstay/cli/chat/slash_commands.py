"""Slash commands of the chat (`/new`, `/stop`, `/model` …), shared by its user interfaces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from mainstay.cli.chat.chat_session import ChatSession
from mainstay.cli.commands.output import format_time
from mainstay.config.schema_judges_budgets_telemetry import limits_money
from mainstay.context.fallback_summary import OUTLINE_NOTE
from mainstay.core.errors import InputRefused, SessionUnknown
from mainstay.core.limits import SessionBudget
from mainstay.core.outcome_text import format_count
from mainstay.core.ports import SessionInfo
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.terminal.context_chart import draw_context_chart
from mainstay.terminal.formatters import StyledLine, describe_waiting, format_number, format_price
from mainstay.terminal.tool_calls import format_call_details, format_call_row

COMMANDS = {
    "/new": "start a new session",
    "/stop": "stop the running turn",
    "/steer": "TEXT: send a message to the running turn (plain text does the same)",
    "/status": "show the model, the session and its state",
    "/model": "[NAME]: show or change the model",
    "/pause": "pause this session: prompts wait until /resume",
    "/resume": "resume this session after /pause",
    "/approve": "[always | JSON]: approve the pending tool call; JSON replaces its arguments",
    "/deny": "[REASON]: deny the pending tool call",
    "/undo": "[TURN | list]: show what the last turn changed in files, and restore it",
    "/usage": "show tokens and cost of this session",
    "/calls": "[NUMBER]: list tool calls, or show one with its arguments and result (Ctrl-O: the last)",
    "/trace": "[TURN]: show what the last turn did, how long it took and what it cost",
    "/context": "show what the model sees, and how much space is left",
    "/compact": "[FOCUS]: summarise older turns now; FOCUS is what the summary must keep",
    "/profile": "[KEY=VALUE … | clear]: show or change what the agent knows about you in this session",
    "/metadata": "[KEY=VALUE … | clear]: show or change values kept with this session, which the model does not see",
    "/budget": "[money=D tokens=N tool_calls=N | reset]: show or change what this session may spend in all",
    "/skill": "NAME [TEXT]: use a skill; /skills lists them",
    "/skills": "list the agent's skills",
    "/sessions": "[NAME or NUMBER]: list sessions, or continue another one",
    "/help": "show this list",
    "/quit": "exit (also Ctrl-D)",
}
ALIASES = {"/reset": "/new", "/exit": "/quit", "/session": "/sessions", "/abort": "/stop", "/?": "/help"}
KEY_HELP = (
    "Enter sends, Alt-Enter or a \\ at the end adds a line, Tab completes, Up recalls earlier prompts,",
    "Ctrl-O shows the last tool call in full, Ctrl-C stops the turn, Ctrl-C twice or Ctrl-D exits.",
)
LISTED_MAX = 20
SKILL_CHARS_MAX = 100
COLUMNS_DEFAULT = 80  # assumed terminal width


class SlashCommandResult(msgspec.Struct, frozen=True):
    """A command's output, and what the user interface does next ("greet": show the session's recap)."""

    lines: list[StyledLine] = []
    next_action: Literal["continue", "greet", "exit"] = "continue"


async def run_slash_command(chat: ChatSession, line: str, columns: int = COLUMNS_DEFAULT) -> SlashCommandResult:
    """Run the command; a unique prefix of its name is enough."""
    name, _, rest = line.strip().partition(" ")
    matches = [command for command in COMMANDS if command.startswith(name)]
    name = matches[0] if len(matches) == 1 and len(name) > 1 else ALIASES.get(name, name)
    if name not in COMMANDS:
        return SlashCommandResult([_describe_unknown_command(name)])
    if chat.is_busy and name in ("/new", "/model", "/sessions", "/compact") and (rest or name in ("/new", "/compact")):
        return SlashCommandResult([f"a turn is running; stop it with /stop, then enter {name} again"])
    try:
        if name == "/context":
            return SlashCommandResult(draw_context_chart(await chat.agent.sessions.context(chat.session), columns))
        if name == "/trace":
            return SlashCommandResult(await _show_trace(chat, rest.strip(), columns))
        return await _HANDLERS[name](chat, rest.strip())
    except SessionUnknown:
        return SlashCommandResult(["this session is still empty; send a prompt first"])


def _describe_unknown_command(name: str) -> str:
    from difflib import get_close_matches  # only needed for errors

    near = get_close_matches(name, COMMANDS, n=1)
    return f"unknown command {escape_line(name)}; " + (
        f"did you mean {near[0]}?" if near else "/help lists the commands"
    )


async def _start_session(chat: ChatSession, argument: str) -> SlashCommandResult:
    await chat.start_session()
    return SlashCommandResult([f"new session: {chat.session}"], "greet")


async def _stop_turn(chat: ChatSession, argument: str) -> SlashCommandResult:
    return SlashCommandResult() if await chat.stop() else SlashCommandResult(["nothing is running"])


async def _steer_turn(chat: ChatSession, argument: str) -> SlashCommandResult:
    if not argument:
        return SlashCommandResult(["the text is missing: /steer TEXT"])
    await chat.steer(argument)
    return SlashCommandResult()


async def _show_status(chat: ChatSession, argument: str) -> SlashCommandResult:
    standing = await chat.load_info() or SessionInfo(key=chat.session)
    waiting = chat.pending_approval or standing.approval
    doing = "a turn is running" if chat.is_busy else describe_waiting(waiting) if waiting is not None else "idle"
    return SlashCommandResult(
        [
            f"model    {escape_line(chat.model)} ({escape_line(chat.setup.discovered.reason)})",
            f"session  {escape_line(chat.session)}, {_format_session_size(standing)}, {doing}",
            f"home     {escape_line(str(chat.setup.home))}, workspace {escape_line(chat.setup.config.workspace)}",
            *(["status   paused: prompts wait until /resume"] if standing.status == "paused" else []),
            *([f"summary  of older turns, {format_time(standing.compacted)}"] if standing.compacted else []),
            *(["trust    open: no information flow control"] if chat.setup.config.trust == "open" else []),
        ]
    )


async def _show_or_change_model(chat: ChatSession, argument: str) -> SlashCommandResult:
    if argument:
        await chat.set_model(argument)
        return SlashCommandResult([f"model changed to {escape_line(chat.model)}"])
    reason = escape_line(chat.setup.discovered.reason)
    return SlashCommandResult([f"{escape_line(chat.model)} ({reason}); /model <provider>/<model> changes it"])


async def _pause_session(chat: ChatSession, argument: str) -> SlashCommandResult:
    await chat.agent.sessions.pause(chat.session)
    return SlashCommandResult(["this session is paused: prompts are stored and wait until /resume"])


async def _resume_session(chat: ChatSession, argument: str) -> SlashCommandResult:
    await chat.agent.sessions.activate(chat.session)
    return SlashCommandResult(["this session is active again"])


async def _approve_call(chat: ChatSession, argument: str) -> SlashCommandResult:
    if chat.pending_approval is None:
        return SlashCommandResult(["no tool call is waiting for approval"])
    always = argument.lower() == "always"
    await chat.approve(input=chat.pasted.to_text(argument) if argument and not always else None, always=always)
    return SlashCommandResult()


async def _deny_call(chat: ChatSession, argument: str) -> SlashCommandResult:
    if chat.pending_approval is None:
        return SlashCommandResult(["no tool call is waiting for approval"])
    await chat.deny(argument)
    return SlashCommandResult()


async def _undo_turn(chat: ChatSession, argument: str) -> SlashCommandResult:
    from mainstay.agent.undo_dialog import run_undo_command  # rarely used

    answer = await run_undo_command(chat.agent, chat.session, argument, chat.shown_undo_turn)
    chat.shown_undo_turn = answer.turn
    return SlashCommandResult([escape_line(line) for line in answer.lines])


async def _show_usage(chat: ChatSession, argument: str) -> SlashCommandResult:
    standing = await chat.load_info() or SessionInfo(key=chat.session)
    spent = f"{format_number(standing.prompt_tokens)} tokens in, {format_number(standing.completion_tokens)} out"
    from mainstay.cli.chat.budget_status import format_budgets, is_price_estimated  # slow to import
    from mainstay.operations.budgets import ShowBudget

    charged = format_price(chat.model, standing.cost)
    config = chat.setup.config
    if standing.cost and limits_money(config.budgets) and is_price_estimated(chat.model, config):
        charged = f"~{charged} (estimated: this model's price is unknown)"
    line = f"{format_count(standing.turns, 'turn')}: {spent}"
    if standing.prompt_tokens or standing.completion_tokens:  # without a model call there is no price to report
        line += f", {charged}"
    report = await chat.agent.execute(ShowBudget(workspace=config.workspace))
    return SlashCommandResult([line, *format_budgets(report, config.workspace, standing)])


async def _show_trace(chat: ChatSession, argument: str, columns: int) -> list[StyledLine]:
    from mainstay.cli.commands.trace import load_traces  # slow to import
    from mainstay.observe.waterfall import render_waterfall

    if argument and not _parse_number(argument):
        return ["a turn's number is needed: /trace NUMBER"]
    try:
        (trace,) = await load_traces(
            chat.setup.location, chat.setup.config, chat.session, _parse_number(argument) or None
        )
    except InputRefused as error:
        return [escape_line(str(error))]
    lines = [
        ((line.text, line.style or "default"),) for line in render_waterfall(trace, max(columns - 1, 60), escape_line)
    ]
    return [*lines]


async def _show_calls(chat: ChatSession, argument: str) -> SlashCommandResult:
    calls = chat.calls.by_number
    if not calls:
        return SlashCommandResult(["no tool calls in this chat yet"])
    if not argument:
        more = [f"… and {len(calls) - LISTED_MAX} earlier"] if len(calls) > LISTED_MAX else []
        return SlashCommandResult(
            [*more, *map(format_call_row, calls[-LISTED_MAX:]), "/calls NUMBER shows one in full"]
        )
    number = _parse_number(argument.removeprefix("#"))
    call = chat.calls.find_by_number(number)
    if call is None:
        return SlashCommandResult(
            [f"there is no call {escape_line(argument)}; the calls are {calls[0].number} to {calls[-1].number}"]
        )
    return SlashCommandResult(format_call_details(call))


async def _compact_session(chat: ChatSession, argument: str) -> SlashCommandResult:
    summary = await chat.agent.sessions.compact(chat.session, argument)
    if summary is None:
        return SlashCommandResult(["nothing is old enough to summarise"])
    how = "no model could write a summary, so an outline replaces it" if OUTLINE_NOTE in summary else "summarised"
    return SlashCommandResult(
        [f"{how}; all messages are kept, and the agent can search them:", *sanitize_text(summary).splitlines()]
    )


async def _show_or_change_profile(chat: ChatSession, argument: str) -> SlashCommandResult:
    profile = chat.agent.profile(chat.session)
    if argument == "clear":
        await profile.clear()
        return SlashCommandResult(["the profile is now empty"])
    if argument:
        fields = _parse_fields(argument)
        if not fields:
            return SlashCommandResult(
                ['usage: /profile name=Ana goal="learn Portuguese", or /profile clear to remove all fields']
            )
        await profile.set(**fields)
    return SlashCommandResult(_format_fields(await profile.get(), "profile", "name=Ana"))


async def _show_or_change_metadata(chat: ChatSession, argument: str) -> SlashCommandResult:
    sessions = chat.agent.sessions
    if argument == "clear":
        await sessions.clear_metadata(chat.session)
        return SlashCommandResult(["the metadata is now empty"])
    if argument:
        fields = _parse_fields(argument)
        if not fields:
            return SlashCommandResult(["usage: /metadata ticket=T-1, or /metadata clear to remove all fields"])
        await sessions.set_metadata(chat.session, fields)
    return SlashCommandResult(_format_fields(await sessions.metadata(chat.session), "metadata", "ticket=T-1"))


def _format_fields(fields: dict[str, str], kind: str, example: str) -> list[StyledLine]:
    if not fields:
        return [f"the {kind} is empty; /{kind} {example} adds a field"]
    width = max(len(escape_line(name)) for name in fields)
    return [f"{escape_line(name):{width}}  {escape_line(value)}" for name, value in sorted(fields.items())]


async def _show_or_change_budget(chat: ChatSession, argument: str) -> SlashCommandResult:
    from mainstay.cli.commands.session_settings import describe_session_budget  # rarely used

    sessions = chat.agent.sessions
    info = await chat.load_info() or SessionInfo(key=chat.session)
    if argument == "reset":
        info = await sessions.set_budget(chat.session)
    elif argument:
        fields = _parse_fields(argument)
        limits = msgspec.to_builtins(info.budget) | fields
        try:
            budget = msgspec.convert(limits, SessionBudget, strict=False)
        except msgspec.ValidationError:
            budget = None
        if not fields or budget is None or not limits.keys() <= set(SessionBudget.__struct_fields__):
            return SlashCommandResult(["usage: /budget money=0.50 tokens=100000 tool_calls=20, or /budget reset"])
        info = await sessions.set_budget(chat.session, **msgspec.structs.asdict(budget))
    own = describe_session_budget(info.budget)
    return SlashCommandResult([own or "this session has no budget of its own; /budget money=0.50 sets one"])


def _parse_fields(text: str) -> dict[str, str]:
    """Parse `name=Ana goal="learn Portuguese"`; {} if any word has another form."""
    import shlex  # only needed here

    try:
        tokens = shlex.split(text)
    except ValueError:  # an unclosed quote, as in: don't
        tokens = text.split()
    pairs = [word.partition("=") for word in tokens]
    return {name: value for name, mark, value in pairs} if all(name and mark for name, mark, _ in pairs) else {}


async def _use_skill(chat: ChatSession, argument: str) -> SlashCommandResult:
    name, _, text = argument.partition(" ")
    if not name:
        return await _list_skills(chat, "")
    names = [skill.name for skill in await chat.agent.skills(chat.session)]
    if name not in names:
        from difflib import get_close_matches  # only needed for errors

        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else "/skills lists them"
        return SlashCommandResult([f"there is no skill {escape_line(name)}; {hint}"])
    chat.send_prompt(f"use skill: {name}" + (f"\n\n{text.strip()}" if text.strip() else ""))
    return SlashCommandResult()


async def _list_skills(chat: ChatSession, argument: str) -> SlashCommandResult:
    skills = await chat.agent.skills(chat.session)
    if not skills:
        return SlashCommandResult(["there are no skills; `mainstay skill install` installs some"])
    width = max(len(escape_line(skill.name)) for skill in skills)
    return SlashCommandResult(
        [
            *(
                f"{escape_line(skill.name):{width}}  {escape_line(skill.description)[:SKILL_CHARS_MAX]}"
                for skill in skills
            ),
            "/skill NAME uses one",
        ]
    )


async def _list_or_switch_sessions(chat: ChatSession, argument: str) -> SlashCommandResult:
    sessions: list[SessionInfo] = await chat.agent.sessions.list(limit=LISTED_MAX)
    if not argument:
        if not sessions:
            return SlashCommandResult(["there are no sessions yet"])
        width = max(len(escape_line(session.key)) for session in sessions)
        lines = [
            f"{number:3}{'*' if session.key == chat.session else ' '} {escape_line(session.key):{width}}"
            + f"  {_format_session_size(session)}"
            + (f", {describe_waiting(session.approval)}" if session.approval is not None else "")
            for number, session in enumerate(sessions, start=1)
        ]
        return SlashCommandResult([*lines, "/sessions NUMBER continues one of them"])
    chosen = sessions[_parse_number(argument) - 1].key if 0 < _parse_number(argument) <= len(sessions) else argument
    if chosen not in chat.known_sessions and chosen not in {session.key for session in sessions}:
        return SlashCommandResult([f"there is no session {escape_line(argument)}; /new starts one"])
    await chat.switch_session(chosen)
    return SlashCommandResult([f"continuing {escape_line(chosen)}"], "greet")


def _format_session_size(info: SessionInfo) -> str:
    return f"{format_count(info.turns, 'turn')}, {format_count(info.messages, 'message')}"


async def _show_help(chat: ChatSession, argument: str) -> SlashCommandResult:
    width = max(map(len, COMMANDS))
    commands: list[StyledLine] = [
        ((f"{name:{width}}  ", "cyan"), (about, "default")) for name, about in COMMANDS.items()
    ]
    return SlashCommandResult([*commands, "", *KEY_HELP])


async def _exit_chat(chat: ChatSession, argument: str) -> SlashCommandResult:
    return SlashCommandResult([], "exit")


_HANDLERS: dict[str, Callable[[ChatSession, str], Awaitable[SlashCommandResult]]] = {
    "/new": _start_session,
    "/stop": _stop_turn,
    "/steer": _steer_turn,
    "/status": _show_status,
    "/model": _show_or_change_model,
    "/approve": _approve_call,
    "/deny": _deny_call,
    "/undo": _undo_turn,
    "/usage": _show_usage,
    "/pause": _pause_session,
    "/resume": _resume_session,
    "/metadata": _show_or_change_metadata,
    "/budget": _show_or_change_budget,
    "/calls": _show_calls,
    "/compact": _compact_session,
    "/profile": _show_or_change_profile,
    "/skill": _use_skill,
    "/skills": _list_skills,
    "/sessions": _list_or_switch_sessions,
    "/help": _show_help,
    "/quit": _exit_chat,
}


def _parse_number(word: str) -> int:
    """Return the number, or 0 if the word is not a number of at most nine digits."""
    return int(word) if word.isdecimal() and len(word) < 10 else 0
