"""Information flow control: which destinations a call reaches, and whether the user named or the owner allowed them.

Applies once untrusted or private content is in a conversation (taint): the defence against prompt injection that does
not depend on recognising it.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import MCP_PREFIX, CallDestinations, undeclared_fields
from mainstay.trust.rule_patterns import compile_glob, normalise_path, path_matches, url_matches
from mainstay.trust.tool_invocation import arguments_to_dict, iterate_texts

if TYPE_CHECKING:
    from mainstay.trust.shell.analysis import ScriptAnalysis

UNKNOWN_DESTINATION = "?"
REMOVAL_ACTION = "removes or changes things"
DESTINATION_PREFIX = "destination:"  # prefix of a grant that allows a destination
TOOL_PREFIX = "tool:"  # prefix of the destination that stands for everything a tool may do that declares no sink
_EGRESS_CAPABILITIES = ("net", "send")
_DESTINATION_CHARS_MAX = 4000
_OCCURRENCES_MAX = 2000  # occurrences of a destination in a text that are examined
_WORD_CHARS_MAX = 300  # how far the text around a destination is examined
# What a tool's own `reach` may raise on nonsensical arguments: then the call is a sink with unknown destinations.
_REACH_ERRORS = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)

_REMOVAL = (
    r"\b(?:delet|remov|eras|drop|discard|clean|clear|purg|wip(?:e|ing)|trash|get rid|throw|unlink|uninstall"
    r"|mov(?:e|ing)|renam|reset|revert|undo|prun"  # English; moving a file removes it from its old path
    r"|l(?:ö|oe)sch|entfern|verschieb|umbenenn|aufr(?:ä|ae)um"  # German
    r"|supprim|effac|enl(?:e|è)v|d(?:é|e)plac|renomm|nettoi"  # French
    r"|borr|elimin|quit[ae]|mueve|mover|limpi"  # Spanish
    r"|cancell|rimuov|sposta|rinomin|apag|exclu|verwijder|wis\b|usu(?:ń|n)|skasuj|przenie"  # It, Pt, Nl, Pl
    r"|sil\b|siln|kald.r|ta[şs]"  # Turkish
    r"|удал|сотр|стер|перемест|переимен)"  # Russian
    r"|\b(?:rm|rmdir|mv)\b"
    r"|删|移除|清理|移动|削除|消し|消去|移動|삭제|지워|지우|이동|احذف|حذف|امسح|हटा|मिटा"
)


class SandboxGuarantees(msgspec.Struct, frozen=True):
    """What the sandbox enforces on commands: isolation, network access, deletion protection."""

    confined: bool = False  # commands cannot leave the sandbox
    network: bool = False  # commands have network access
    protects_deletions: bool = False  # removals of files that were there before can be held back


def compute_reach(tool: Tool, arguments: object, context: ToolContext) -> CallDestinations:
    """Return how far this call reaches, as the tool declares it."""
    declare_reach = getattr(tool, "reach", None)
    if declare_reach is not None:
        try:
            reach: CallDestinations = declare_reach(arguments, context)
        except _REACH_ERRORS:
            return CallDestinations(
                sink=True,
                leaves_workspace=True,
                description=f"calls {tool.name} with arguments that it cannot interpret",
            )
        return reach
    if not tool.sink:
        return CallDestinations()
    if "sink" in undeclared_fields(tool):
        return CallDestinations(sink=True, leaves_workspace=True, destinations=(f"{TOOL_PREFIX}{tool.name}",))
    outward = any(capability.partition(".")[0] in _EGRESS_CAPABILITIES for capability in tool.capabilities)
    values = arguments_to_dict(arguments)
    names = () if isinstance(tool.sink, bool) else tool.sink
    destinations = tuple(text for name in names for text in iterate_texts(values.get(name)))
    return CallDestinations(sink=True, leaves_workspace=outward, destinations=destinations)


def compute_script_reach(
    script: ScriptAnalysis, confinement: SandboxGuarantees, folder: str, cwd: str = ""
) -> CallDestinations:
    """Return how far a shell script reaches in this sandbox.

    `folder` is the directory that the call names to start in, `cwd` the session's working directory.
    """
    has_egress = confinement.network or not confinement.confined
    unclear = bool(script.opaque_reasons or script.unknown_programs)
    egress = [*script.destinations] if has_egress else []
    if has_egress and unclear:
        egress.append(UNKNOWN_DESTINATION)
    written = (
        []
        if confinement.confined
        else [target for target in script.written_paths if not is_temporary_path(target, cwd)]
    )
    removals = [_resolve_target(target, folder) for target in (*script.removals, *written)]
    removals = [target for target in removals if not is_temporary_path(target, cwd)]
    if unclear and not confinement.protects_deletions and UNKNOWN_DESTINATION not in egress:
        removals.append(UNKNOWN_DESTINATION)
    actions = [action for action, targets in (("reaches out", egress), (REMOVAL_ACTION, removals)) if targets]
    return CallDestinations(
        sink=bool(egress or removals),
        leaves_workspace=bool(egress),
        destinations=tuple(dict.fromkeys((*egress, *removals))),
        description=" and ".join(actions),
    )


def _resolve_target(target: str, folder: str) -> str:
    return (
        target
        if not folder or target == UNKNOWN_DESTINATION or target.startswith(("/", "~"))
        else posixpath.join(folder, target)
    )


def is_temporary_path(path: str, cwd: str = "") -> bool:
    """Return True for a path below /tmp without `..`, unless it is in or above the session's working directory."""
    normalised = posixpath.normpath(path)
    is_below_tmp = path.startswith("/tmp/") and normalised.startswith("/tmp/") and ".." not in path.split("/")
    overlaps_cwd = cwd and (normalised == cwd or normalised.startswith(f"{cwd}/") or cwd.startswith(f"{normalised}/"))
    return is_below_tmp and not overlaps_cwd


# --- destinations the user named -----------------------------------------------------------------

# never part of an address
_ADDRESS_BREAKS = frozenset('<>"`|\u00ab\u00bb\u201c\u201d\u201e \t\n\r\v\f\u00a0\u2028\u2029\u3000')
_OPENERS = frozenset("([{',;\u2018\uff08\u300c")
_CLOSERS = frozenset(")]}',;\u2019\uff09\u300d\u3001\u3002\uff0c\uff1b")
_SENTENCE_ENDS = ".:!?\u2026\uff01\uff1f\uff1a"
_AFTER_SENTENCE = _SENTENCE_ENDS + ")]}'\"\u2019\u201d*_"
_ADDRESS = r"[^\s<>@,;:?\"]+@[^\s<>@,;:?\"]+"
_MAIL = re.compile(rf"(?:mailto:)?({_ADDRESS})|[^<>@]*<({_ADDRESS})>")
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://)([^/?#]*)")


def is_named_by_user(destination: str, user_texts: Iterable[str], cwd: str = "") -> bool:
    """Return True if the user wrote this destination, whole and by itself."""
    if not _is_nameable(destination):
        return False
    destination = unicodedata.normalize("NFC", destination)
    hosted = tuple(dict.fromkeys(_address_spellings(destination)))
    forms = () if hosted else tuple(dict.fromkeys(_other_spellings(destination, cwd)))
    for user_text in user_texts:
        text = unicodedata.normalize("NFC", user_text)
        lowered = _lower_ascii(text) if hosted else ""
        if any(_occurs_whole(form, text, lowered) for form in hosted) or any(
            _occurs_whole(form, text) for form in forms
        ):
            return True
    return False


def _is_nameable(destination: str) -> bool:
    if not destination or destination == UNKNOWN_DESTINATION or len(destination) > _DESTINATION_CHARS_MAX:
        return False
    if sum(char.isalnum() for char in destination) < 2:
        return False  # ".", "*" and "a" occur in any text
    return not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for char in destination)


def _address_spellings(destination: str) -> Iterator[str]:
    """Yield the spellings of a URL or mail address that a user would write; case is ignored in the host."""
    if _URL.match(destination):
        url = _fold_host(destination.partition("#")[0])
        yield from _slash_variants(url)
        if url.startswith("https://") and "@" not in url.partition("//")[2].partition("/")[0]:
            yield from _slash_variants(url.removeprefix("https://"))
    elif match := _MAIL.fullmatch(destination):
        yield _fold_host(match[1] or match[2])


def _other_spellings(destination: str, cwd: str) -> Iterator[str]:
    """Yield the spellings of any other destination that a user would write: a path, a room, a name."""
    yield destination
    if re.search(r"[\s@:]", destination) or not cwd:
        if "/" in destination:
            yield from _slash_variants(destination)
        return
    if ".." in destination.split("/"):  # the target depends on symbolic links
        return
    whole = normalise_path(destination, cwd)
    below = whole.removeprefix(cwd.rstrip("/") + "/")
    for form in (destination, whole, below, f"./{below}") if below != whole else (destination, whole):
        if sum(char.isalnum() for char in form) >= 2:
            yield from _slash_variants(form)


def _slash_variants(text: str) -> Iterator[str]:
    bare = text.rstrip("/")
    yield text
    yield bare
    yield bare + "/"


def _fold_host(text: str) -> str:
    """Lower-case the scheme and host, or the domain of a mail address; keep the rest."""
    if match := _URL.match(text):
        return _lower_ascii(match[0]) + text[match.end() :]
    if "@" in text and "/" not in text.partition("@")[0]:
        local, at, domain = text.rpartition("@")
        return f"{local}{at}{_lower_ascii(domain)}"
    host, slash, rest = text.partition("/")
    return f"{_lower_ascii(host)}{slash}{rest}"


def _occurs_whole(spelling: str, text: str, lowered: str = "") -> bool:
    haystack, needle = (lowered, _lower_ascii(spelling)) if lowered else (text, spelling)
    at = -1
    for _ in range(_OCCURRENCES_MAX):
        if (at := haystack.find(needle, at + 1)) < 0:
            break
        end = at + len(spelling)
        whole = _is_start_boundary(text, at) and _is_end_boundary(text, end) and _has_paired_emphasis(text, at, end)
        if whole and (not lowered or _fold_host(text[at:end]) == spelling):
            return True
    return False


def _lower_ascii(text: str) -> str:
    """Lower-case ASCII letters only, so that the length never changes."""
    return text.lower() if text.isascii() else "".join(char.lower() if char.isascii() else char for char in text)


def _is_start_boundary(text: str, at: int) -> bool:
    if at == 0:
        return True
    before = text[at - 1]
    if before in _ADDRESS_BREAKS or before.isspace():
        return True
    if before == "*":
        return True  # Markdown emphasis, if `_has_paired_emphasis` agrees
    if text[max(0, at - 7) : at].lower() == "mailto:":
        return at == 7 or not text[at - 8].isalnum()
    if before not in _OPENERS:
        return False
    if text.startswith("](", at - 2):
        return True
    start = at - 1
    while start > 0 and text[start - 1] not in _ADDRESS_BREAKS and not text[start - 1].isspace():
        start -= 1
        if at - start > _WORD_CHARS_MAX:  # longer than any word a user writes
            return False
    return "://" not in text[start : at - 1] and not re.search(r"[/@=]", text[start : at - 1])


def _is_end_boundary(text: str, end: int) -> bool:
    if end >= len(text):
        return True
    after, following = text[end], text[end + 1 : end + 2]
    if after in _ADDRESS_BREAKS or after.isspace() or after == "*":
        return True
    if after in "'\u2019":
        return not following.isalnum() or re.match(r"s(?!\w)", text[end + 1 : end + 3]) is not None
    if after in _CLOSERS:
        return after not in ",;" or not re.match(r"[^\s]*[/@=]", text[end + 1 : end + 200])
    if after in _SENTENCE_ENDS:
        rest = text[end : end + 100].lstrip(_AFTER_SENTENCE)
        return not rest or rest[0].isspace() or rest[0] in _ADDRESS_BREAKS or rest[0] in _CLOSERS
    return False


def _has_paired_emphasis(text: str, at: int, end: int) -> bool:
    """Return False if a `*` stands on one side only: then it is part of a glob, not emphasis."""
    left, right = at > 0 and text[at - 1] == "*", end < len(text) and text[end] == "*"
    if not left and not right:
        return True
    head = text[max(0, at - _WORD_CHARS_MAX) : at].rstrip("*")
    tail = text[end : end + _WORD_CHARS_MAX].lstrip("*")
    ends = (
        not tail or tail[0].isspace() or tail[0] in _ADDRESS_BREAKS or tail[0] in _CLOSERS or tail[0] in _SENTENCE_ENDS
    )
    return (
        left
        and right
        and (not head or head[-1].isspace() or head[-1] in _ADDRESS_BREAKS or head[-1] in _OPENERS)
        and ends
    )


# --- destinations the owner allowed --------------------------------------------------------------


def is_destination_allowed(destination: str, patterns: Iterable[str], cwd: str = "") -> bool:
    """Return True if one of these patterns allows the destination. Unknown or invisible ones are never allowed."""
    if destination == UNKNOWN_DESTINATION or not _is_nameable(destination):
        return False
    return any(_pattern_allows(pattern, destination, cwd) for pattern in patterns)


def _pattern_allows(pattern: str, destination: str, cwd: str) -> bool:
    if destination.startswith(MCP_PREFIX) and "/" in destination:
        server = destination.rpartition("/")[0]
        return _glob_allows(pattern, destination, cwd) or _glob_allows(pattern, server, cwd)  # all tools of the server
    return _glob_allows(pattern, destination, cwd)


def _glob_allows(pattern: str, destination: str, cwd: str) -> bool:
    if "://" in pattern:
        return url_matches(pattern, destination, broad=False)
    if "://" in destination:
        return False
    whole = unicodedata.normalize("NFC", destination)
    if ".." not in whole.split("/") and compile_glob(pattern, "/?#@\\ \t\n")(whole):
        return True
    return "/" in pattern and "@" not in destination and path_matches(pattern, destination, cwd, broad=False)


def asks_to_remove(text: str) -> bool:
    """Return True if a text asks for something to be removed or moved; naming a file alone is no such request."""
    return re.search(_REMOVAL, text, re.IGNORECASE) is not None
