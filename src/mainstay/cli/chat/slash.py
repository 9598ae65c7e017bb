"""What can be typed with a slash in front, in any kind of chat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from mainstay.cli.chat.calls import folded, unfolded
from mainstay.cli.chat.picture import picture
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.chat.talk import Talk
from mainstay.cli.chat.words import Line, charge, count, short, waits
from mainstay.config.schema_observability import bounds_money
from mainstay.context.outline import OUTLINED
from mainstay.core.errors import InputRefused, SessionUnknown
from mainstay.core.ports import Standing

COMMANDS = {
    "/new": "start another conversation",
    "/stop": "end the running turn",
    "/steer": "TEXT: put something into the running turn (plain text does the same)",
    "/status": "model, session, what is going on",
    "/model": "[NAME]: show or change the model",
    "/approve": "[always | JSON]: let the call run that waits; JSON are other arguments for it",
    "/deny": "[REASON]: do not let it run",
    "/usage": "tokens and cost of this conversation",
    "/calls": "[NUMBER]: list tool calls, or show one with all that went in and came out (Ctrl-O: the last)",
    "/trace": "[TURN]: what the last turn did, how long it took and what it cost",
    "/context": "what the model sees, and how much room is left",
    "/compact": "[FOCUS]: summarise what is old now; FOCUS is what must be kept",
    "/profile": "[KEY=VALUE … | clear]: what the agent knows about you in this conversation",
    "/skill": "NAME [TEXT]: follow a skill; /skills lists them",
    "/skills": "what the agent knows how to do",
    "/sessions": "[NAME or NUMBER]: list conversations, go on with another",
    "/help": "this list",
    "/quit": "leave (also Ctrl-D)",
}
SAME = {"/reset": "/new", "/exit": "/quit", "/session": "/sessions", "/abort": "/stop", "/?": "/help"}
KEYS = (
    "Enter sends, Alt-Enter or a \\ at the end adds a line, Tab completes, Up brings back what was typed,",
    "Ctrl-O unfolds the last tool call, Ctrl-C stops the turn and twice leaves, Ctrl-D leaves.",
)
LISTED_MAX = 20
SKILL_CHARS = 100
COLUMNS = 80  # where nobody says how wide a line may be


class Told(msgspec.Struct, frozen=True):
    """What a command has to say, and what the screen does next."""

    lines: list[Line] = []
    then: Literal["go on", "greet", "leave"] = "go on"


async def obey(talk: Talk, line: str, columns: int = COLUMNS) -> Told:
    name, _, rest = line.strip().partition(" ")
    begun = [one for one in COMMANDS if one.startswith(name)]
    name = begun[0] if len(begun) == 1 and len(name) > 1 else SAME.get(name, name)
    if name not in COMMANDS:
        return Told([_unknown(name)])
    if talk.busy and name in ("/new", "/model", "/sessions", "/compact") and (rest or name in ("/new", "/compact")):
        return Told([f"a turn is running; /stop it first, then {name}"])
    try:
        if name == "/context":
            return Told(picture(await talk.agent.sessions.context(talk.session), columns))
        if name == "/trace":
            return Told(await _trace(talk, rest.strip(), columns))
        return await _DOES[name](talk, rest.strip())
    except SessionUnknown:
        return Told(["nothing was said in this conversation yet; say something first"])


def _unknown(name: str) -> str:
    from difflib import get_close_matches  # only for those who made a mistake

    near = get_close_matches(name, COMMANDS, n=1)
    return f"there is no {visible(name)}; " + (f"did you mean {near[0]}?" if near else "/help lists what there is")


async def _new(talk: Talk, rest: str) -> Told:
    await talk.new()
    return Told([f"a new conversation: {talk.session}"], "greet")


async def _stop(talk: Talk, rest: str) -> Told:
    return Told() if await talk.stop() else Told(["nothing is running"])


async def _steer(talk: Talk, rest: str) -> Told:
    if not rest:
        return Told(["say what: /steer TEXT"])
    await talk.steer(rest)
    return Told()


async def _status(talk: Talk, rest: str) -> Told:
    standing = await talk.standing() or Standing(key=talk.session)
    waiting = talk.asked or standing.approval
    doing = "a turn is running" if talk.busy else waits(waiting) if waiting is not None else "idle"
    return Told(
        [
            f"model    {visible(talk.model)} ({visible(talk.where.found.how)})",
            f"session  {visible(talk.session)}, {_size(standing)}, {doing}",
            f"home     {visible(str(talk.where.home))}, workspace {visible(talk.where.config.workspace)}",
        ]
    )


async def _model(talk: Talk, rest: str) -> Told:
    if rest:
        await talk.use_model(rest)
        return Told([f"from now on: {visible(talk.model)}"])
    return Told([f"{visible(talk.model)} ({visible(talk.where.found.how)}); /model <provider>/<model> changes it"])


async def _approve(talk: Talk, rest: str) -> Told:
    if talk.asked is None:
        return Told(["nothing waits for an approval"])
    always = rest.lower() == "always"
    await talk.approve(input=rest if rest and not always else None, always=always)
    return Told()


async def _deny(talk: Talk, rest: str) -> Told:
    if talk.asked is None:
        return Told(["nothing waits for an approval"])
    await talk.deny(rest)
    return Told()


async def _usage(talk: Talk, rest: str) -> Told:
    standing = await talk.standing() or Standing(key=talk.session)
    spent = f"{short(standing.prompt_tokens)} tokens in, {short(standing.completion_tokens)} out"
    from mainstay.cli.chat.budgets import budget_lines, is_guessed  # only for those who ask

    charged = charge(talk.model, standing.cost)
    config = talk.where.config
    if standing.cost and bounds_money(config.budgets) and is_guessed(talk.model, config):
        charged = f"~{charged} (nobody knows this model's price)"
    line = f"{count(standing.turns, 'turn')}: {spent}"
    if standing.prompt_tokens or standing.completion_tokens:  # where nothing was asked, nobody looked for a price
        line += f", {charged}"
    return Told([line, *budget_lines(talk.where.data, config, standing)])


async def _trace(talk: Talk, rest: str, columns: int) -> list[Line]:
    from mainstay.cli.commands.trace import traces_of  # and all that traces need
    from mainstay.observe.waterfall import waterfall

    if rest and not _number(rest):
        return ["say which turn: /trace NUMBER"]
    try:
        (found,) = await traces_of(talk.where.place, talk.where.config, talk.session, _number(rest) or None)
    except InputRefused as error:
        return [visible(str(error))]
    lines = [((one.text, one.style or "default"),) for one in waterfall(found, max(columns - 1, 60), visible)]
    return [*lines]


async def _calls(talk: Talk, rest: str) -> Told:
    made = talk.calls.all
    if not made:
        return Told(["no tool was called since this chat began"])
    if not rest:
        more = [f"… and {len(made) - LISTED_MAX} before them"] if len(made) > LISTED_MAX else []
        return Told([*more, *map(folded, made[-LISTED_MAX:]), "/calls NUMBER shows all of one"])
    number = _number(rest.removeprefix("#"))
    call = talk.calls.numbered(number)
    if call is None:
        return Told([f"there is no call {visible(rest)}; there are {made[0].number} to {made[-1].number}"])
    return Told(unfolded(call))


async def _compact(talk: Talk, rest: str) -> Told:
    summary = await talk.agent.sessions.compact(talk.session, rest)
    if summary is None:
        return Told(["there is nothing old enough to summarise"])
    made = "no model could write a summary, so this stands for it" if OUTLINED in summary else "summarised"
    return Told([f"{made}; nothing is lost, and the agent can search what was said:", *safe(summary).splitlines()])


async def _profile(talk: Talk, rest: str) -> Told:
    profile = talk.agent.profile(talk.session)
    if rest == "clear":
        await profile.clear()
        return Told(["the profile is empty now"])
    if rest:
        fields = _fields(rest)
        if not fields:
            return Told(['write it as /profile name=Ana goal="learn Portuguese"; /profile clear empties it'])
        await profile.set(**fields)
    known = await profile.get()
    if not known:
        return Told(["the profile is empty; /profile name=Ana adds to it"])
    width = max(len(visible(name)) for name in known)
    return Told([f"{visible(name):{width}}  {visible(value)}" for name, value in sorted(known.items())])


def _fields(text: str) -> dict[str, str]:
    """`name=Ana goal="learn Portuguese"`; nothing if any of it is something else."""
    import shlex  # only for those who set something

    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is never closed, as in: don't
        words = text.split()
    pairs = [word.partition("=") for word in words]
    return {name: value for name, mark, value in pairs} if all(name and mark for name, mark, _ in pairs) else {}


async def _skill(talk: Talk, rest: str) -> Told:
    name, _, text = rest.partition(" ")
    if not name:
        return await _skills(talk, "")
    known = [one.name for one in await talk.agent.skills(talk.session)]
    if name not in known:
        from difflib import get_close_matches  # only for those who made a mistake

        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "/skills lists what there is"
        return Told([f"there is no skill {visible(name)}; {hint}"])
    talk.say(f"use skill: {name}" + (f"\n\n{text.strip()}" if text.strip() else ""))
    return Told()


async def _skills(talk: Talk, rest: str) -> Told:
    found = await talk.agent.skills(talk.session)
    if not found:
        return Told(["there are no skills; `mainstay skill install` brings some"])
    width = max(len(visible(one.name)) for one in found)
    return Told(
        [
            *(f"{visible(one.name):{width}}  {visible(one.description)[:SKILL_CHARS]}" for one in found),
            "/skill NAME follows one",
        ]
    )


async def _sessions(talk: Talk, rest: str) -> Told:
    found: list[Standing] = await talk.agent.sessions.list(limit=LISTED_MAX)
    if not rest:
        if not found:
            return Told(["there is no conversation yet"])
        width = max(len(visible(one.key)) for one in found)
        lines = [
            f"{number:3}{'*' if one.key == talk.session else ' '} {visible(one.key):{width}}  {_size(one)}"
            + (f", {waits(one.approval)}" if one.approval is not None else "")
            for number, one in enumerate(found, start=1)
        ]
        return Told([*lines, "/sessions NUMBER goes on with one of them"])
    chosen = found[_number(rest) - 1].key if 0 < _number(rest) <= len(found) else rest
    if chosen not in talk.known and chosen not in {one.key for one in found}:
        return Told([f"there is no conversation {visible(rest)}; /new starts one"])
    await talk.switch(chosen)
    return Told([f"going on with {visible(chosen)}"], "greet")


def _size(standing: Standing) -> str:
    return f"{count(standing.turns, 'turn')}, {count(standing.messages, 'message')}"


async def _help(talk: Talk, rest: str) -> Told:
    width = max(map(len, COMMANDS))
    commands: list[Line] = [((f"{name:{width}}  ", "cyan"), (what, "default")) for name, what in COMMANDS.items()]
    return Told([*commands, "", *KEYS])


async def _quit(talk: Talk, rest: str) -> Told:
    return Told([], "leave")


_DOES: dict[str, Callable[[Talk, str], Awaitable[Told]]] = {
    "/new": _new,
    "/stop": _stop,
    "/steer": _steer,
    "/status": _status,
    "/model": _model,
    "/approve": _approve,
    "/deny": _deny,
    "/usage": _usage,
    "/calls": _calls,
    "/compact": _compact,
    "/profile": _profile,
    "/skill": _skill,
    "/skills": _skills,
    "/sessions": _sessions,
    "/help": _help,
    "/quit": _quit,
}


def _number(word: str) -> int:
    """0 if it is none; one that fills the screen is none of ours either."""
    return int(word) if word.isdecimal() and len(word) < 10 else 0
