"""Which answers may show a secret, and which calls must not carry one.

A secret of the configuration is shown nowhere. One in the person's own data is shown in the answer to that person, on
a channel that only they read, in a turn in which they asked for something secret. Calls that leave never carry one,
unless the person typed it in this turn.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainstay.core.messages import AnyPart, Text, ToolCall, ToolResult
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.session import Session
from mainstay.core.tool_ports import tool_origin
from mainstay.guards.guardrails import Guardrails
from mainstay.guards.owner_answer_stream import occurs_in
from mainstay.guards.redaction import RedactionStream, Redactor
from mainstay.trust.policy import Policy
from mainstay.trust.secret_requests import asks_for_secret
from mainstay.turn.client_tool import ClientToolAdapter

_EGRESS_CAPABILITIES = ("net", "send", "memory.write")
TYPED_WORD_CHARS_MIN = 6


# --- answers -------------------------------------------------------------------------------------


def open_answer_stream(guards: Guardrails, session: Session) -> RedactionStream | None:
    """Open the redaction of an answer of the open turn; None if nothing is redacted."""
    if guards.redacts_secrets and may_show_secrets(session):
        return guards.open_owner_answer_stream(lambda text: occurs_in(text, _list_contents(session)))
    return guards.open_answer_stream()


def may_show_secrets(session: Session) -> bool:
    """Return True if the answer of the open turn goes to one person alone, whose session this is and who asked for
    something secret in this turn."""
    turn = session.open_turn
    if turn is None or not turn.is_direct or session.spawned is not None or turn.sender.startswith("agent:"):
        return False
    if session.started_by != turn.sender:
        return False
    texts, others = _list_typed(session)
    return not others and asks_for_secret(texts)


def _list_typed(session: Session) -> tuple[list[str], bool]:
    """Return what the sender of the open turn typed in this turn, and whether other people typed in the session."""
    turn = session.open_turn
    assert turn is not None
    texts, others = [], False
    for message in session.messages:
        if message.role != "user":
            continue
        for speaker, parts in message.inputs or ((message.sender, message.parts),):
            for part in parts:
                if not isinstance(part, Text) or part.origin:
                    continue
                if speaker != turn.sender:
                    others = True
                elif message.turn == turn.turn:
                    texts.append(part.text)
    return texts, others


def _list_contents(session: Session) -> Iterator[str]:
    """Yield the texts that the session's data consists of: results of tools, and what was given to it. Not what the
    model wrote."""
    for message in session.messages:
        if message.role in ("user", "tool"):
            yield from filter(None, map(_part_text, message.parts))


def _part_text(part: AnyPart) -> str:
    match part:
        case Text(text=text):
            return text
        case ToolResult(content=content):
            return content
    return ""


# --- calls ---------------------------------------------------------------------------------------


class CleanedInput(msgspec.Struct, frozen=True):
    """The arguments of a call without secrets, and the kinds of what was removed."""

    input: str
    kinds: tuple[str, ...]


def remove_secrets(guards: Guardrails, session: Session, call: ToolCall) -> CleanedInput | None:
    """Return the call's arguments without secrets; None if there is none in them. Words that the sender typed in this
    turn stay: they were given to be used."""
    if not guards.redacts_secrets:
        return None
    try:
        arguments = msgspec.json.decode(call.input)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # such a call is refused
    kinds: dict[str, None] = {}
    redactor = guards.secret_redactor
    clean = _redact_value(arguments, redactor, [], kinds)
    if kinds and (typed := _find_typed_secrets(redactor, _list_typed(session)[0])):
        kinds.clear()
        clean = _redact_value(arguments, redactor, typed, kinds)
    return CleanedInput(msgspec.json.encode(clean).decode(), tuple(kinds)) if kinds else None


def _find_typed_secrets(redactor: Redactor, texts: list[str]) -> list[str]:
    """Return the words that redaction removes from what the user typed, the longest first."""
    words: set[str] = set()
    for text in texts:
        clean, kinds = redactor.redact(text)
        if kinds:
            words |= {word for word in text.split() if len(word) >= TYPED_WORD_CHARS_MIN and word not in clean}
    return sorted(words, key=lambda word: (-len(word), word))


def _redact_value(value: object, redactor: Redactor, typed: list[str], kinds: dict[str, None]) -> object:
    match value:
        case str():
            return _redact_text(value, redactor, typed, kinds)
        case dict():
            return {
                _redact_text(name, redactor, typed, kinds): _redact_value(item, redactor, typed, kinds)
                for name, item in value.items()
            }
        case list():
            return [_redact_value(item, redactor, typed, kinds) for item in value]
    return value


def _redact_text(text: str, redactor: Redactor, typed: list[str], kinds: dict[str, None]) -> str:
    for word in typed:
        if word in text:
            return word.join(_redact_text(rest, redactor, typed, kinds) for rest in text.split(word))
    clean, found = redactor.redact(text)
    kinds |= dict.fromkeys(found)
    return clean


def leaves(policy: Policy | None, tool: Tool, arguments: object, context: ToolContext, cwd: str) -> bool:
    """Return True if the call's arguments leave the workspace, go to a sink or are stored for all of its sessions.
    Third-party tools, tools with network access and those that the client runs are included, whatever they declare."""
    if policy is None or isinstance(tool, ClientToolAdapter) or tool_origin(tool):
        return True
    if any(capability.startswith(_EGRESS_CAPABILITIES) for capability in tool.capabilities):
        return True
    return policy.is_sink(tool, arguments, context, cwd)
