"""Converts Markdown to Slack's mrkdwn, and mrkdwn that users wrote to plain text.

    Markdown  **bold**  *italic*  ~~strike~~  [text](url)   # heading   - item   tables
    mrkdwn    *bold*    _italic_  ~strike~    <url|text>    *heading*   • item   a code block

`&`, `<` and `>` are control characters in mrkdwn and always escaped, so that no output of the model becomes a mention
of the whole channel. Each pattern has a bound on the length that it matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from mainstay.channels.mentions import format_mention

# --- Markdown to mrkdwn --------------------------------------------------------------------------

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[^\n`]*")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*)")
_RULE = re.compile(r" {0,3}(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}")
_QUOTE = re.compile(r" {0,3}((?:> ?)+)(.*)")
_ITEM = re.compile(r"([ \t]*)[-*+][ \t]+(?:\[([ xX])\][ \t]+)?(.*)")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*){0,100}\|?[ \t]*")
_CELL_SEPARATOR = re.compile(r"(?<!\\)\|")
_LINK = re.compile(
    r"!?\[([^\[\]\n]{0,500})\]\([ \t]{0,9}<?([^\s()<>]{1,2000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,200}){0,3})>?"
    r"(?:[ \t]+\"[^\"\n]{0,200}\")?[ \t]{0,9}\)"
)
_BARE_URL = re.compile('<((?:https?|mailto):[^\\s<>|\ue000]{1,2000})>|https?://[^\\s<>|*`"\ue000]{1,2000}')
_BACKSLASH = re.compile(r"\\([!-/:-@\[-`{-~])")
_PLACEHOLDER = re.compile("\ue000([0-9]{1,9})\ue001")
_RESERVED_CHARS = re.compile("[\x00\ue000-\ue003]")  # placeholders that are used below
_BOLD_ITALIC_SPAN = re.compile(r"\*\*\*(?=\S)(.{1,1000}?)(?<=\S)\*\*\*")
_BOLD_SPAN = re.compile(r"\*\*(?=\S)(.{1,1000}?)(?<=\S)\*\*|(?<!\w)__(?=\S)(.{1,1000}?)(?<=\S)__(?!\w)")
_ITALIC_SPAN = re.compile(r"(?<![*\w])\*(?![\s*])([^*\n]{1,1000}?)(?<=\S)\*(?![*\w])")
_STRIKE_SPAN = re.compile(r"~~(?=\S)(.{1,1000}?)(?<=\S)~~")
_BOLD, _ITALIC = "\ue002", "\ue003"
_CELL_CHARS_MAX = 40  # wider cells are not aligned
_ZERO_WIDTH_SPACE = "\u200b"  # zero-width space: without it Slack ignores a formatting character next to a letter
_BACKTICK_SUBSTITUTE = "\u02cb"  # replaces a backtick inside inline code, which cannot be escaped
_SCHEMES = ("http://", "https://", "mailto:")


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def markdown_to_mrkdwn(text: str) -> str:
    """Convert Markdown to mrkdwn. An unclosed code block (in a streamed answer) extends to the end."""
    lines = _RESERVED_CHARS.sub("", text.replace("\r\n", "\n")).split("\n")
    output: list[str] = []
    row = 0
    while row < len(lines):
        fence = _FENCE.fullmatch(lines[row])
        next_line = lines[row + 1] if row + 1 < len(lines) else ""
        if fence is not None:
            end = _find_code_end(lines, row, fence[1])
            output.append(_format_code(lines[row + 1 : end]))
            row = end + 1
        elif "|" in lines[row] and "-" in next_line and _TABLE_RULE.fullmatch(next_line):
            end = next((n for n in range(row + 2, len(lines)) if "|" not in lines[n]), len(lines))
            output.append(_format_table([lines[row], *lines[row + 2 : end]]))
            row = end
        else:
            output.append(_convert_line(lines[row]))
            row += 1
    return "\n".join(output)


def _find_code_end(lines: list[str], start: int, fence: str) -> int:
    for number in range(start + 1, len(lines)):
        line = lines[number].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return number
    return len(lines)


def _format_code(lines: list[str]) -> str:
    inner = escape("\n".join(lines)).replace("```", f"``{_ZERO_WIDTH_SPACE}`")
    return f"```\n{inner}\n```"


def _format_table(lines: list[str]) -> str:
    rows = [[_strip_markup(cell.strip()) for cell in _CELL_SEPARATOR.split(line.strip().strip("|"))] for line in lines]
    widths = [
        min(_CELL_CHARS_MAX, max((len(row[column]) for row in rows if column < len(row)), default=0))
        for column in range(max(len(row) for row in rows))
    ]
    output = ["  ".join(cell.ljust(widths[column]) for column, cell in enumerate(row)).rstrip() for row in rows]
    output.insert(1, "  ".join("-" * width for width in widths))
    return _format_code(output)


def _strip_markup(cell: str) -> str:
    """Remove the markup of a table cell, because it is shown in a code block."""
    cell = _LINK.sub(lambda match: f"{match[1]} ({match[2]})" if match[1] else match[2], cell)
    return _BACKSLASH.sub(r"\1", _BOLD_SPAN.sub(lambda match: match[1] or match[2], cell).replace("`", ""))


def _convert_line(line: str) -> str:
    if heading := _HEADING.fullmatch(line):
        title = _convert_to_placeholders(re.sub(r"[ \t]#+[ \t]*$", "", heading[1])).strip()
        return f"*{title.replace(_BOLD, '').replace(_ITALIC, '_')}*" if title else ""
    if _RULE.fullmatch(line):
        return "———"
    if quote := _QUOTE.fullmatch(line):
        return f"> {_convert_inline(quote[2])}"
    if item := _ITEM.fullmatch(line):
        box = {"": "•", " ": "☐"}.get(item[2] or "", "☑")
        return f"{item[1]}{box} {_convert_inline(item[3])}"
    return _convert_inline(line)


def _convert_inline(text: str) -> str:
    return _convert_to_placeholders(text).replace(_BOLD, "*").replace(_ITALIC, "_")


def _convert_to_placeholders(text: str) -> str:
    """Convert a line, with placeholders for bold and italic, since `*` means italic in Markdown and bold in mrkdwn."""
    protected: list[str] = []

    def protect(piece: str) -> str:
        protected.append(piece)
        return f"\ue000{len(protected) - 1}\ue001"

    text = "".join(protect(f"`{escape(part)}`") if is_code else part for part, is_code in _split_code(text))
    text = _BACKSLASH.sub(lambda match: protect(escape(match[1])), text)
    text = _LINK.sub(
        lambda match: protect(_format_link(*(_restore_protected(escape(match[n]), protected) for n in (2, 1)))), text
    )
    text = _BARE_URL.sub(
        lambda match: protect(_format_link(escape(match[1]), "") if match[1] else escape(match[0])), text
    )
    text = escape(text)
    text = _BOLD_ITALIC_SPAN.sub(_wrap_in(_BOLD + _ITALIC), text)
    text = _BOLD_SPAN.sub(_wrap_in(_BOLD), text)
    text = _ITALIC_SPAN.sub(_wrap_in(_ITALIC), text)
    text = _STRIKE_SPAN.sub(_wrap_in("~"), text)
    return _restore_protected(text, protected)


def _restore_protected(text: str, protected: list[str]) -> str:
    return _PLACEHOLDER.sub(lambda match: protected[int(match[1])], text)


def _wrap_in(mark: str) -> Callable[[re.Match[str]], str]:
    def wrap(match: re.Match[str]) -> str:
        inner = match[1] or match[2]
        before, after = match.string[: match.start()][-1:], match.string[match.end() : match.end() + 1]
        left = _ZERO_WIDTH_SPACE if before.isalnum() else ""
        right = _ZERO_WIDTH_SPACE if after.isalnum() else ""
        return f"{left}{mark}{inner}{mark[::-1]}{right}"

    return wrap


def _format_link(url: str, text: str) -> str:
    """Return a link. Both arguments are escaped already."""
    if not url.lower().startswith(_SCHEMES) or any(char in url for char in "|<>`"):
        return f"{text} ({url})" if text else url
    label = re.sub("<[^<>]*>", "", text).replace("|", "¦")  # characters that would end the label
    return f"<{url}|{label}>" if label else f"<{url}>"


def _split_code(text: str) -> Iterator[tuple[str, bool]]:
    """Yield pieces of the text and whether each is inline code."""
    runs = list(re.finditer("`+", text))
    closing: dict[int, int] = {}  # length of a run of backticks -> index of the nearest later run of that length
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
        yield text[runs[number].end() : runs[end].start()].strip().replace("`", _BACKTICK_SUBSTITUTE) or " ", True
        at, number = runs[end].end(), end + 1
    yield text[at:], False


# --- mrkdwn to text ------------------------------------------------------------------------------

_CONTROL = re.compile(r"<([^<>\n]{1,4000})>")
_USER_MENTION = re.compile(r"<@([A-Z0-9]{2,30})(?:\|[^<>\n]{0,200})?>")


def find_mentioned_users(text: str) -> list[str]:
    """Return the ids of the mentioned users, without duplicates."""
    return list(dict.fromkeys(_USER_MENTION.findall(text)))


def leading_mention_length(text: str, user: str) -> int:
    """Return the length of a leading mention of this user, with the punctuation and space after it; 0: none."""
    mention = _USER_MENTION.match(text, len(text) - len(text.lstrip()))
    if mention is None or mention[1] != user:
        return 0
    rest = re.compile(r"\s*[:,]?\s*").match(text, mention.end())
    return rest.end() if rest is not None else mention.end()


def mrkdwn_to_text(text: str, names: Mapping[str, str]) -> str:
    """Convert mrkdwn to the text that its author sees. `names` are user names by id."""
    pieces: list[str] = []
    position = 0
    for control in _CONTROL.finditer(text):
        pieces += (unescape(text[position : control.start()]), _resolve_control(control[1], names))
        position = control.end()
    return "".join((*pieces, unescape(text[position:])))


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _resolve_control(inner: str, names: Mapping[str, str]) -> str:
    target, _, label = inner.partition("|")
    target, label = unescape(target), unescape(label)
    match target[:1]:
        case "@":
            return format_mention(names.get(target[1:]) or label or target[1:])
        case "#":
            return f"#{label or target[1:]}"
        case "!":
            return label or f"@{target[1:].partition('^')[0]}"
    if not label or target == label:
        return target
    if target.rstrip("/").endswith(label.rstrip("/")):  # Slack made the link from plain text
        return label
    return f"[{label}]({target})"
