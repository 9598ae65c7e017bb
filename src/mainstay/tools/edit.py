"""`edit`: one text for another in a file, where it is clear which is meant."""

from __future__ import annotations

import difflib
import re
import unicodedata

from mainstay.core.outside import Reach
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.io.beneath import PathMissing
from mainstay.tools.common import Arguments, BuiltIn, Files, ToolRefused
from mainstay.tools.text import Decoded, decode
from mainstay.tools.work import FILE_BYTES_MAX, Change, Work

SHOWN_MAX = 10
NEAR_LINES_MAX = 5_000
NEAR_CHARS = 200


class _Edit(Arguments, frozen=True):
    path: str
    old: str
    new: str
    replace_all: bool = False


class Edit(BuiltIn):
    name = "edit"
    description = "Replace old by new in a file. old must occur exactly once, or set replace_all."
    arguments = _Edit
    effect: Effect = "reconcile"
    capabilities: tuple[str, ...] = ("fs.write",)

    def __init__(self, files: Files) -> None:
        self._files = files

    def reach(self, arguments: _Edit, context: ToolContext) -> Reach:
        return Work(self._files, context).judge([Change(path=arguments.path, data=b"")])

    async def run(self, arguments: _Edit, context: ToolContext) -> str:
        work = Work(self._files, context)
        change, told = await work.aside(lambda: _prepare(work, arguments))
        await work.change([change])
        return told

    async def reconcile(self, arguments: _Edit, context: ToolContext) -> str | None:
        """Whether it was done already, as far as the file shows."""
        work = Work(self._files, context)
        decoded, _, _ = await work.aside(lambda: _load(work, arguments.path))
        old, new = _as_written(decoded.text, arguments.old, arguments.new)
        others = (decoded.text.replace(new, "\0") if new else decoded.text).count(old)
        if others == 0 and (not new or new in decoded.text):
            return f"Edited {work.confined.shown(work.confined.real(arguments.path))}."
        if others and new and new in decoded.text and not arguments.replace_all:
            return "Outcome unknown: the process stopped while this ran, and both texts are in the file. Read it."
        return None


def edit_tool(files: Files) -> Tool:
    return Edit(files)


def _load(work: Work, path: str) -> tuple[Decoded, str, str]:
    """The text, the mark of its file, and where it comes from."""
    try:
        data, opened = work.confined.read_bytes(path, FILE_BYTES_MAX)
    except PathMissing as error:
        work.bring_names(error.near)
        raise
    return decode(data, work.confined.shown(opened.path)), opened.mark, work.origin(opened.path, opened.mark)


def _prepare(work: Work, wanted: _Edit) -> tuple[Change, str]:
    if not wanted.old:
        raise ToolRefused("old is empty. To make a file use write; to insert, give the text beside it in old and new.")
    if wanted.old == wanted.new:
        raise ToolRefused("old and new are the same. Nothing was changed.")
    decoded, mark, base = _load(work, wanted.path)
    old, new = _as_written(decoded.text, wanted.old, wanted.new)
    places = _places(decoded.text, old)
    if not places:
        with_content = _near(decoded.text, wanted.old)
        work.bring(work.confined.real(wanted.path), mark)  # what is said of it quotes it
        raise ToolRefused(f"old is not in the file. {with_content}Nothing was changed.")
    if len(places) > 1 and not wanted.replace_all:
        lines = [decoded.text.count("\n", 0, at) + 1 for at in places[:SHOWN_MAX]]
        more = ", …" if len(places) > SHOWN_MAX else ""
        raise ToolRefused(
            f"old is in the file {len(places)} times, at lines {', '.join(map(str, lines))}{more}. "
            "Give more of the text around it, or set replace_all. Nothing was changed."
        )
    data = decoded.encode(decoded.text.replace(old, new))
    shown = work.confined.shown(work.confined.real(wanted.path))
    line = decoded.text.count("\n", 0, places[0]) + 1
    where = f"line {line}" if len(places) == 1 else f"{len(places)} places"
    return Change(path=wanted.path, data=data, expected=mark, base=base), f"Edited {shown}: {where}."


def _as_written(text: str, old: str, new: str) -> tuple[str, str]:
    """With the line ends of the file, which whoever reads it does not see."""
    if old in text or "\r\n" not in text:
        return old, new
    return _returned(old), _returned(new)


def _returned(text: str) -> str:
    return re.sub(r"(?<!\r)\n", "\r\n", text)


def _places(text: str, old: str) -> list[int]:
    """Where it begins, as `replace` would count."""
    found, at = [], text.find(old)
    while at >= 0:
        found.append(at)
        at = text.find(old, at + len(old))
    return found


def _near(text: str, old: str) -> str:
    """What may have been meant."""
    bare = re.sub(r"(?m)^ *\d+\t", "", old)
    if bare != old and bare in text.replace("\r\n", "\n"):
        return "It is without the line numbers that read shows: leave them out. "
    if unicodedata.normalize("NFC", old) in unicodedata.normalize("NFC", text):
        return "It is with its accents composed differently: copy it from read. "
    lines = text.split("\n")[:NEAR_LINES_MAX]
    wanted = [" ".join(line.split()) for line in old.strip().split("\n")]
    settled = [" ".join(line.split()) for line in lines]
    for at in range(len(settled) - len(wanted) + 1):
        if settled[at : at + len(wanted)] == wanted:
            return f"At line {at + 1} it differs only in white space: {_quoted(lines[at])}. "
    nearest = difflib.get_close_matches(wanted[0][:NEAR_CHARS], [line[:NEAR_CHARS] for line in settled], n=1)
    if not nearest:
        return ""
    at = next(at for at, line in enumerate(settled) if line[:NEAR_CHARS] == nearest[0])
    return f"Nearest is line {at + 1}: {_quoted(lines[at])}. "


def _quoted(line: str) -> str:
    return ascii(line[:NEAR_CHARS]) if not line.isprintable() else repr(line[:NEAR_CHARS])
