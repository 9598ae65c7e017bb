"""Where data may go once something from outside has been read: what a call reaches, and whether the person named it."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mainstay.core.outside import Reach
from mainstay.core.ports import Tool, ToolContext
from mainstay.trust.calls import flattened, named_values
from mainstay.trust.globs import glob, normal_path, path_matches, url_matches
from mainstay.trust.shell.analysis import Script

UNKNOWN = "?"
REMOVES = "removes or changes things"
DESTINATION = "destination:"  # how a grant of one begins
_OUTWARD = ("net", "send")
_DESTINATION_CHARS_MAX = 4000
_PLACES_MAX = 2000  # of a destination in a text
_WORD_CHARS_MAX = 300  # what stands around a destination is looked at so far
# What a tool's own `reach` may raise when a call makes no sense: then it is a sink to nowhere in particular.
_CONFUSED = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


class Confinement(msgspec.Struct, frozen=True):
    """Of the sandbox: commands cannot leave it; they have the network; it can hold removals back."""

    confined: bool = False
    network: bool = False
    guards: bool = False


def reach_of(tool: Tool, arguments: Any, context: ToolContext) -> Reach:
    """How far this call reaches, by the tool's own word."""
    own = getattr(tool, "reach", None)
    if own is not None:
        try:
            reach: Reach = own(arguments, context)
        except _CONFUSED:
            return Reach(sink=True, outward=True, what=f"calls {tool.name} in a way that it does not understand itself")
        return reach
    if not tool.sink:
        return Reach()
    outward = any(one.partition(".")[0] in _OUTWARD for one in tool.capabilities)
    values = named_values(arguments)
    names = () if isinstance(tool.sink, bool) else tool.sink
    destinations = tuple(text for name in names for text in flattened(values.get(name)))
    return Reach(sink=True, outward=outward, destinations=destinations)


def script_reach(script: Script, confinement: Confinement, folder: str, cwd: str = "") -> Reach:
    """How far a command reaches, given where it runs. `folder` is the one it starts in, as the call says it, and `cwd`
    the one that the session works in."""
    leaves = confinement.network or not confinement.confined
    unclear = bool(script.opaque or script.others)
    out = [*script.reaches] if leaves else []
    if leaves and unclear:
        out.append(UNKNOWN)
    kept = [] if confinement.confined else [target for target in script.writes if not is_scratch(target, cwd)]
    gone = [_placed(target, folder) for target in (*script.removes, *kept)]
    gone = [target for target in gone if not is_scratch(target, cwd)]
    if unclear and not confinement.guards and UNKNOWN not in out:
        gone.append(UNKNOWN)
    whats = [what for what, said in (("reaches out", out), (REMOVES, gone)) if said]
    return Reach(
        sink=bool(out or gone),
        outward=bool(out),
        destinations=tuple(dict.fromkeys((*out, *gone))),
        what=" and ".join(whats),
    )


def _placed(target: str, folder: str) -> str:
    return (
        target if not folder or target == UNKNOWN or target.startswith(("/", "~")) else posixpath.join(folder, target)
    )


def is_scratch(path: str, cwd: str = "") -> bool:
    """Below /tmp, whatever the dots in it say, but for the folder that the session works in."""
    plain = posixpath.normpath(path)
    below = path.startswith("/tmp/") and plain.startswith("/tmp/") and ".." not in path.split("/")
    ours = cwd and (plain == cwd or plain.startswith(f"{cwd}/") or cwd.startswith(f"{plain}/"))
    return below and not ours


# --- what the person named -----------------------------------------------------------------------

_HARD = frozenset(
    '<>"`|\u00ab\u00bb\u201c\u201d\u201e \t\n\r\v\f\u00a0\u2028\u2029\u3000'
)  # never inside of an address
_OPENERS = frozenset("([{',;\u2018\uff08\u300c")
_CLOSERS = frozenset(")]}',;\u2019\uff09\u300d\u3001\u3002\uff0c\uff1b")
_SENTENCE = ".:!?\u2026\uff01\uff1f\uff1a"
_AFTER_SENTENCE = _SENTENCE + ")]}'\"\u2019\u201d*_"
_ADDRESS = r"[^\s<>@,;:?\"]+@[^\s<>@,;:?\"]+"
_MAIL = re.compile(rf"(?:mailto:)?({_ADDRESS})|[^<>@]*<({_ADDRESS})>")
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)([^/?#]*)")


def named(destination: str, spoken: Iterable[str], cwd: str = "") -> bool:
    """True if the person wrote this destination, whole and by itself."""
    if not _nameable(destination):
        return False
    destination = unicodedata.normalize("NFC", destination)
    hosted = tuple(dict.fromkeys(_hosted_forms(destination)))
    forms = () if hosted else tuple(dict.fromkeys(_forms(destination, cwd)))
    for said in spoken:
        text = unicodedata.normalize("NFC", said)
        lowered = _lowered(text) if hosted else ""
        if any(_stands_in(form, text, lowered) for form in hosted) or any(_stands_in(form, text) for form in forms):
            return True
    return False


def _nameable(destination: str) -> bool:
    if not destination or destination == UNKNOWN or len(destination) > _DESTINATION_CHARS_MAX:
        return False
    if sum(char.isalnum() for char in destination) < 2:
        return False  # "." and "*" and "a" stand in any text
    return not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for char in destination)


def _hosted_forms(destination: str) -> Iterator[str]:
    """The ways in which a person would write an address of the web or of a mailbox; case means nothing in its host."""
    if _URL.match(destination):
        url = _folded(destination.partition("#")[0])
        yield from _slashed(url)
        if url.startswith("https://") and "@" not in url.partition("//")[2].partition("/")[0]:
            yield from _slashed(url.removeprefix("https://"))
    elif found := _MAIL.fullmatch(destination):
        yield _folded(found[1] or found[2])


def _forms(destination: str, cwd: str) -> Iterator[str]:
    """The ways in which a person would write anything else: a path, a room, a name."""
    yield destination
    if re.search(r"[\s@:]", destination) or not cwd:
        if "/" in destination:
            yield from _slashed(destination)
        return
    if ".." in destination.split("/"):  # where that leads is up to links
        return
    whole = normal_path(destination, cwd)
    below = whole.removeprefix(cwd.rstrip("/") + "/")
    for form in (destination, whole, below, f"./{below}") if below != whole else (destination, whole):
        if sum(char.isalnum() for char in form) >= 2:
            yield from _slashed(form)


def _slashed(text: str) -> Iterator[str]:
    bare = text.rstrip("/")
    yield text
    yield bare
    yield bare + "/"


def _folded(text: str) -> str:
    """Scheme and host, or the domain of a mail address, in lower case; the rest as it is."""
    if found := _URL.match(text):
        return _lowered(found[0]) + text[found.end() :]
    if "@" in text and "/" not in text.partition("@")[0]:
        local, at, domain = text.rpartition("@")
        return f"{local}{at}{_lowered(domain)}"
    host, slash, rest = text.partition("/")
    return f"{_lowered(host)}{slash}{rest}"


def _stands_in(form: str, text: str, lowered: str = "") -> bool:
    inside, wanted = (lowered, _lowered(form)) if lowered else (text, form)
    at = -1
    for _ in range(_PLACES_MAX):
        if (at := inside.find(wanted, at + 1)) < 0:
            break
        end = at + len(form)
        whole = _begins(text, at) and _ends(text, end) and _paired(text, at, end)
        if whole and (not lowered or _folded(text[at:end]) == form):
            return True
    return False


def _lowered(text: str) -> str:
    """Lower case that never changes a text's length."""
    return text.lower() if text.isascii() else "".join(char.lower() if char.isascii() else char for char in text)


def _begins(text: str, at: int) -> bool:
    if at == 0:
        return True
    before = text[at - 1]
    if before in _HARD or before.isspace():
        return True
    if before == "*":
        return True  # emphasis, if it also ends with it
    if text[max(0, at - 7) : at].lower() == "mailto:":
        return at == 7 or not text[at - 8].isalnum()
    if before not in _OPENERS:
        return False
    if text.startswith("](", at - 2):
        return True
    start = at - 1
    while start > 0 and text[start - 1] not in _HARD and not text[start - 1].isspace():
        start -= 1
        if at - start > _WORD_CHARS_MAX:  # no word that a person wrote
            return False
    return "://" not in text[start : at - 1] and not re.search(r"[/@=]", text[start : at - 1])


def _ends(text: str, end: int) -> bool:
    if end >= len(text):
        return True
    after, following = text[end], text[end + 1 : end + 2]
    if after in _HARD or after.isspace() or after == "*":
        return True
    if after in "'\u2019":
        return not following.isalnum() or re.match(r"s(?!\w)", text[end + 1 : end + 3]) is not None
    if after in _CLOSERS:
        return after not in ",;" or not re.match(r"[^\s]*[/@=]", text[end + 1 : end + 200])
    if after in _SENTENCE:
        rest = text[end : end + 100].lstrip(_AFTER_SENTENCE)
        return not rest or rest[0].isspace() or rest[0] in _HARD or rest[0] in _CLOSERS
    return False


def _paired(text: str, at: int, end: int) -> bool:
    """A star beside it is emphasis only if there is one on both sides; else it is part of a pattern."""
    left, right = at > 0 and text[at - 1] == "*", end < len(text) and text[end] == "*"
    if not left and not right:
        return True
    head = text[max(0, at - _WORD_CHARS_MAX) : at].rstrip("*")
    tail = text[end : end + _WORD_CHARS_MAX].lstrip("*")
    ends = not tail or tail[0].isspace() or tail[0] in _HARD or tail[0] in _CLOSERS or tail[0] in _SENTENCE
    return left and right and (not head or head[-1].isspace() or head[-1] in _HARD or head[-1] in _OPENERS) and ends


# --- what the owner opened -----------------------------------------------------------------------


def opened(destination: str, patterns: Iterable[str], cwd: str = "") -> bool:
    """True if one of these patterns lets data go there. What is unknown, or does not show, goes nowhere."""
    if destination == UNKNOWN or not _nameable(destination):
        return False
    return any(_pattern_opens(pattern, destination, cwd) for pattern in patterns)


def _pattern_opens(pattern: str, destination: str, cwd: str) -> bool:
    if "://" in pattern:
        return url_matches(pattern, destination, broad=False)
    if "://" in destination:
        return False
    whole = unicodedata.normalize("NFC", destination)
    if ".." not in whole.split("/") and glob(pattern, "/?#@\\ \t\n")(whole):
        return True
    return "/" in pattern and "@" not in destination and path_matches(pattern, destination, cwd, broad=False)
