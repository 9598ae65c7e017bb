"""Slack's own markup: ours turned into it, and what people wrote in it turned back into what they meant.

    ours      **bold**  *italic*  ~~gone~~  [text](url)   # heading   - item   tables
    Slack's   *bold*    _italic_  ~gone~    <url|text>    *heading*   • item   a block of code

`&`, `<` and `>` are control characters there and always written as entities, so that nothing the model says becomes a
mention of everybody. Each pattern has a bound on what it looks through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

# --- ours into theirs ----------------------------------------------------------------------------

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[^\n`]*")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*)")
_RULE = re.compile(r" {0,3}(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}")
_QUOTE = re.compile(r" {0,3}((?:> ?)+)(.*)")
_ITEM = re.compile(r"([ \t]*)[-*+][ \t]+(?:\[([ xX])\][ \t]+)?(.*)")
_UNDER_HEAD = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*){0,100}\|?[ \t]*")
_CELL = re.compile(r"(?<!\\)\|")
_LINK = re.compile(
    r"!?\[([^\[\]\n]{0,500})\]\([ \t]{0,9}<?([^\s()<>]{1,2000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,200}){0,3})>?"
    r"(?:[ \t]+\"[^\"\n]{0,200}\")?[ \t]{0,9}\)"
)
_BARE = re.compile('<((?:https?|mailto):[^\\s<>|\ue000]{1,2000})>|https?://[^\\s<>|*`"\ue000]{1,2000}')
_BACKSLASH = re.compile(r"\\([!-/:-@\[-`{-~])")
_KEPT = re.compile("\ue000([0-9]{1,9})\ue001")
_OURS = re.compile("[\x00\ue000-\ue003]")  # what stands for something else below
_STRONG_SLANT = re.compile(r"\*\*\*(?=\S)(.{1,1000}?)(?<=\S)\*\*\*")
_STRONG = re.compile(r"\*\*(?=\S)(.{1,1000}?)(?<=\S)\*\*|(?<!\w)__(?=\S)(.{1,1000}?)(?<=\S)__(?!\w)")
_SLANT = re.compile(r"(?<![*\w])\*(?![\s*])([^*\n]{1,1000}?)(?<=\S)\*(?![*\w])")
_GONE = re.compile(r"~~(?=\S)(.{1,1000}?)(?<=\S)~~")
_BOLD, _ITALIC = "\ue002", "\ue003"
_PAD_MAX = 40  # a cell that is wider stands out
_NO_WIDTH = "\u200b"  # beside a word Slack takes a mark for a letter, unless this is between
_LIKE_GRAVE = "\u02cb"  # in code there can be none of those that end it
_SCHEMES = ("http://", "https://", "mailto:")


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def from_markdown(text: str) -> str:
    """A block of code that is still being written is shown as one."""
    lines = _OURS.sub("", text.replace("\r\n", "\n")).split("\n")
    made: list[str] = []
    at = 0
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at])
        if fence is not None:
            end = _end_of_code(lines, at, fence[1])
            made.append(_code(lines[at + 1 : end]))
            at = end + 1
        elif "|" in lines[at] and at + 1 < len(lines) and "-" in lines[at + 1] and _UNDER_HEAD.fullmatch(lines[at + 1]):
            end = next((n for n in range(at + 2, len(lines)) if "|" not in lines[n]), len(lines))
            made.append(_table([lines[at], *lines[at + 2 : end]]))
            at = end
        else:
            made.append(_line(lines[at]))
            at += 1
    return "\n".join(made)


def _end_of_code(lines: list[str], at: int, fence: str) -> int:
    for number in range(at + 1, len(lines)):
        line = lines[number].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return number
    return len(lines)


def _code(lines: list[str]) -> str:
    inner = escape("\n".join(lines)).replace("```", f"``{_NO_WIDTH}`")
    return f"```\n{inner}\n```"


def _table(lines: list[str]) -> str:
    rows = [[_bare_text(cell.strip()) for cell in _CELL.split(line.strip().strip("|"))] for line in lines]
    widths = [
        min(_PAD_MAX, max((len(row[n]) for row in rows if n < len(row)), default=0))
        for n in range(max(len(row) for row in rows))
    ]
    shown = ["  ".join(cell.ljust(widths[n]) for n, cell in enumerate(row)).rstrip() for row in rows]
    shown.insert(1, "  ".join("-" * width for width in widths))
    return _code(shown)


def _bare_text(cell: str) -> str:
    """In a block of code no mark means anything."""
    cell = _LINK.sub(lambda found: f"{found[1]} ({found[2]})" if found[1] else found[2], cell)
    return _BACKSLASH.sub(r"\1", _STRONG.sub(lambda found: found[1] or found[2], cell).replace("`", ""))


def _line(line: str) -> str:
    if heading := _HEADING.fullmatch(line):
        title = _marked(re.sub(r"[ \t]#+[ \t]*$", "", heading[1])).strip()
        return f"*{title.replace(_BOLD, '').replace(_ITALIC, '_')}*" if title else ""
    if _RULE.fullmatch(line):
        return "———"
    if quote := _QUOTE.fullmatch(line):
        return f"> {_inline(quote[2])}"
    if item := _ITEM.fullmatch(line):
        box = {"": "•", " ": "☐"}.get(item[2] or "", "☑")
        return f"{item[1]}{box} {_inline(item[3])}"
    return _inline(line)


def _inline(text: str) -> str:
    return _marked(text).replace(_BOLD, "*").replace(_ITALIC, "_")


def _marked(text: str) -> str:
    """A line with its marks of bold and italic standing for themselves, since one of ours is another of theirs."""
    kept: list[str] = []

    def keep(made: str) -> str:
        kept.append(made)
        return f"\ue000{len(kept) - 1}\ue001"

    text = "".join(keep(f"`{escape(part)}`") if coded else part for part, coded in _spans(text))
    text = _BACKSLASH.sub(lambda found: keep(escape(found[1])), text)
    text = _LINK.sub(lambda found: keep(_link(*(_restored(escape(found[n]), kept) for n in (2, 1)))), text)
    text = _BARE.sub(lambda found: keep(_link(escape(found[1]), "") if found[1] else escape(found[0])), text)
    text = escape(text)
    text = _STRONG_SLANT.sub(_between(_BOLD + _ITALIC), text)
    text = _STRONG.sub(_between(_BOLD), text)
    text = _SLANT.sub(_between(_ITALIC), text)
    text = _GONE.sub(_between("~"), text)
    return _restored(text, kept)


def _restored(text: str, kept: list[str]) -> str:
    return _KEPT.sub(lambda found: kept[int(found[1])], text)


def _between(mark: str) -> Callable[[re.Match[str]], str]:
    def marked(found: re.Match[str]) -> str:
        inner = found[1] or found[2]
        before, after = found.string[: found.start()][-1:], found.string[found.end() : found.end() + 1]
        left = _NO_WIDTH if before.isalnum() else ""
        right = _NO_WIDTH if after.isalnum() else ""
        return f"{left}{mark}{inner}{mark[::-1]}{right}"

    return marked


def _link(url: str, text: str) -> str:
    """Both are escaped already."""
    if not url.lower().startswith(_SCHEMES) or any(char in url for char in "|<>`"):
        return f"{text} ({url})" if text else url
    label = re.sub("<[^<>]*>", "", text).replace("|", "¦")  # nor can a label hold what ends it
    return f"<{url}|{label}>" if label else f"<{url}>"


def _spans(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and which of them are code."""
    runs = list(re.finditer("`+", text))
    closing: dict[int, int] = {}  # by length: the nearest run after this one
    ends: list[int | None] = [None] * len(runs)
    for number in range(len(runs) - 1, -1, -1):
        ends[number] = closing.get(len(runs[number][0]))
        closing[len(runs[number][0])] = number
    at = number = 0
    while number < len(runs):
        end = ends[number]
        if end is None:
            number += 1
            continue
        yield text[at : runs[number].start()], False
        yield text[runs[number].end() : runs[end].start()].strip().replace("`", _LIKE_GRAVE) or " ", True
        at, number = runs[end].end(), end + 1
    yield text[at:], False


# --- theirs into ours ----------------------------------------------------------------------------

_CONTROL = re.compile(r"<([^<>\n]{1,4000})>")
_PERSON = re.compile(r"<@([A-Z0-9]{2,30})(?:\|[^<>\n]{0,200})?>")


def people_in(text: str) -> list[str]:
    """Who is named, each once."""
    return list(dict.fromkeys(_PERSON.findall(text)))


def names_at_beginning(text: str, user: str) -> int:
    """How much of a text is a mention of this user that it begins with."""
    found = _PERSON.match(text, len(text) - len(text.lstrip()))
    if found is None or found[1] != user:
        return 0
    rest = re.compile(r"\s*[:,]?\s*").match(text, found.end())
    return rest.end() if rest is not None else found.end()


def to_text(text: str, names: Mapping[str, str]) -> str:
    """As it was written. `names`: what people are called, by their ids."""
    made: list[str] = []
    at = 0
    for found in _CONTROL.finditer(text):
        made += (unescape(text[at : found.start()]), _meant(found[1], names))
        at = found.end()
    return "".join((*made, unescape(text[at:])))


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _meant(inner: str, names: Mapping[str, str]) -> str:
    target, _, label = inner.partition("|")
    target, label = unescape(target), unescape(label)
    match target[:1]:
        case "@":
            return f"@{names.get(target[1:]) or label or target[1:]}"
        case "#":
            return f"#{label or target[1:]}"
        case "!":
            return label or f"@{target[1:].partition('^')[0]}"
    if not label or target == label:
        return target
    if target.rstrip("/").endswith(label.rstrip("/")):  # Slack made the link, of what somebody wrote
        return label
    return f"[{label}]({target})"
