"""Destinations that stand in a file of the workspace which the user named as their source in this turn.

`open the dal link from links.md`: the link of the line that the user's words describe, for a call that only reads.
`tell the design team (room is in rooms.md)`: the room of that line. The file must not have been written by the agent:
otherwise the address could carry what the conversation has read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mainstay.core.tool_ports import only_reads
from mainstay.trust.named_destinations import contains_link, is_nameable
from mainstay.trust.request_vocabulary import can_name
from mainstay.trust.requested_actions import is_action_requested, words_of
from mainstay.trust.tool_invocation import ToolInvocation
from mainstay.trust.user_statements import is_negated

_FILES_MAX = 5
_FILE_NAME = re.compile(r"(?<![\w./~-])(?:\./)?[\w-][\w./-]*\.\w{1,8}(?![\w/-]|\.\w)")
_LINK_WORD = re.compile(
    r"\b(?:links?|urls?|pages?|sites?|websites?|address(?:es)?|seiten?|adressen?|liens?|sites?|enlaces?|páginas?|vínculos?"
    r"|collegament[oi]|pagin[ae])\b",
    re.IGNORECASE,
)
# what a file is named for: `the room is in rooms.md`
_ADDRESS_WORD = (
    r"(?:rooms?|channels?|address(?:es)?|contacts?|ids?|handles?|raum|räume|kanal|kanäle|adressen?|kontakte?|salons?|canal"
    r"|canaux|canales|adresses?|contacts?|salas?|direcci(?:ón|ones)|contactos?|stanz[ae]|indirizz[oi]|contatt[oi]|endereços?"
    r"|kanalen|kanaal|contacten)"
)
_ADDRESS_SOURCE = re.compile(
    rf"\b{_ADDRESS_WORD}\b[^.!?\n]{{0,40}}?\b(?:in|from|see|aus|siehe|laut|dans|voir|en|de|da|vedi|em|uit"
    rf"|zie)\s+(?:the )?$",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[\w.+-]+(?::|@)[^\s,;|<>)\]]+")


def is_in_named_file(
    destination: str, call: ToolInvocation, texts: Sequence[str], read_own_file: Callable[[str], str]
) -> bool:
    """Return True if the user named a file as the source of this destination. `read_own_file` returns the text of a
    file of the workspace that the agent has not written; empty for others."""
    if not is_nameable(destination):
        return False
    if only_reads(call.tool):
        return any(
            _is_described_link(destination, content, text, name)
            for text in texts
            for name, _ in _find_files(text)
            if (content := read_own_file(name))
        )
    if not any(capability.startswith("send") for capability in call.tool.capabilities):
        return False
    return is_action_requested("send", texts, texts) and any(
        _is_described_address(destination, content, text, name)
        for text in texts
        for name, at in _find_files(text)
        if _ADDRESS_SOURCE.search(text, 0, at) and (content := read_own_file(name))
    )


def _find_files(text: str) -> list[tuple[str, int]]:
    found = [match for match in _FILE_NAME.finditer(text) if not is_negated(text, *match.span())]
    return [(match[0], match.start()) for match in found[:_FILES_MAX]]


def _is_described_link(destination: str, content: str, text: str, file: str) -> bool:
    lines = [line for line in content.splitlines() if "://" in line]
    best = _find_best(lines, text, file)
    if not best and _LINK_WORD.search(text.replace(file, " ")):
        best = lines
    return any(contains_link(destination, line) for line in best)


def _is_described_address(destination: str, content: str, text: str, file: str) -> bool:
    lines = [line for line in content.splitlines() if _ADDRESS.search(line)]
    best = _find_best(lines, text, file)
    return len(best) == 1 and _ADDRESS.findall(best[0]) == [destination]


def _find_best(lines: Sequence[str], text: str, file: str) -> list[str]:
    """Return the lines with most of the words of the user's text, if they have any."""
    said = {word for word in words_of(text.replace(file, " ")) if can_name(word)}
    scores = [len(said.intersection(words_of(_ADDRESS.sub(" ", line)))) for line in lines]
    most = max(scores, default=0)
    return [line for line, score in zip(lines, scores, strict=True) if score == most] if most else []
