"""Patches as models write them: read leniently where only one thing can be meant, refused in a sentence otherwise.

Two forms: `*** Begin Patch` with `*** Add File:`, `*** Update File:`, `*** Move to:`, `*** Delete File:` and `@@`, or
a unified diff.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from mainstay.core.errors import MainstayError

PATCH_CHARS_MAX = 2_000_000
FILES_MAX = 200
HUNKS_MAX = 2_000

Line = tuple[Literal[" ", "-", "+"], str]


class PatchRefused(MainstayError):
    """This is no patch, or it does not fit; the sentence says where."""


class Hunk(msgspec.Struct, frozen=True):
    """A place, and what becomes of it."""

    lines: tuple[Line, ...]
    anchor: str = ""  # a line that comes somewhere before it
    start: int | None = None  # where it is said to begin, from 1; for one without old lines, the line it comes after
    at_end: bool = False
    ends: tuple[bool, bool] | None = None  # whether the last line had, and has, an end; None: not said

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "-"]


class FilePatch(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one file."""

    kind: Literal["add", "update", "delete"]
    path: str
    to: str = ""
    hunks: tuple[Hunk, ...] = ()
    content: str = ""  # of one that is added
    executable: bool = False


def parse(text: str) -> list[FilePatch]:
    if len(text) > PATCH_CHARS_MAX:
        raise PatchRefused(f"The patch has more than {PATCH_CHARS_MAX} characters.")
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    begin = next((at for at, line in enumerate(lines) if line.strip() == "*** Begin Patch"), None)
    patches = list(_envelope(lines, begin + 1) if begin is not None else _unified(lines))
    if not patches:
        raise PatchRefused("There is no change in the patch. It begins with *** Begin Patch, or is a unified diff.")
    if len(patches) > FILES_MAX or sum(len(one.hunks) for one in patches) > HUNKS_MAX:
        raise PatchRefused(f"The patch changes more than {FILES_MAX} files or {HUNKS_MAX} places.")
    return patches


# --- *** Begin Patch -----------------------------------------------------------------------------

_HEAD = re.compile(r"\*\*\* (Add File|Update File|Delete File|Move to): ?(.*)")


def _envelope(lines: Sequence[str], at: int) -> Iterator[FilePatch]:
    while at < len(lines):
        line = lines[at].rstrip()
        at += 1
        if line == "*** End Patch":
            return
        if not line:
            continue
        found = _HEAD.fullmatch(line)
        if found is None or found[1] == "Move to":
            raise PatchRefused(f"Line {at} of the patch is not *** Add File, Update File or Delete File: {_cut(line)}")
        path = _path(found[2], at)
        body, at = _body(lines, at)
        match found[1]:
            case "Add File":
                yield FilePatch(kind="add", path=path, content=_added(body, path))
            case "Delete File":
                if any(one.strip() for one in body):
                    raise PatchRefused(f"Nothing can follow *** Delete File: {_cut(path)}.")
                yield FilePatch(kind="delete", path=path)
            case _:
                yield _update(path, body)
    raise PatchRefused("The patch has no *** End Patch: it may have been cut off.")


def _body(lines: Sequence[str], at: int) -> tuple[list[str], int]:
    """Up to the next file; Move to and End of File belong to this one."""
    first = at
    while at < len(lines) and not re.match(r"\*\*\* (Add File:|Update File:|Delete File:|End Patch)", lines[at]):
        at += 1
    return list(lines[first:at]), at


def _added(body: Sequence[str], path: str) -> str:
    kept = list(body)
    while kept and not kept[-1].strip():
        kept.pop()
    if wrong := next((line for line in kept if line[:1] != "+"), None):
        raise PatchRefused(f"*** Add File: {_cut(path)}: each line begins with +, but one is {_cut(wrong)}")
    return "".join(f"{line[1:]}\n" for line in kept)


def _update(path: str, body: Sequence[str]) -> FilePatch:
    to = ""
    if body and (found := _HEAD.fullmatch(body[0].rstrip())) is not None:
        to, body = _path(found[2], 0), body[1:]
    hunks: list[Hunk] = []
    anchor, lines, at_end = "", list[str](), False
    for line in [*body, "@@"]:
        if line.startswith("@@") and (line == "@@" or line[2:3] == " "):
            if any(one.strip() for one in lines):
                hunks.append(_hunk(lines, path, len(hunks) + 1, anchor=anchor, at_end=at_end))
            elif anchor and not lines:
                raise PatchRefused(f"{_cut(path)}: nothing follows @@ {_cut(anchor)}")
            anchor, lines, at_end = _anchor(line), [], False
        elif line.rstrip() == "*** End of File":
            at_end = True
        else:
            lines.append(line)
    if not hunks and not to:
        raise PatchRefused(f"*** Update File: {_cut(path)} says no change.")
    return FilePatch(kind="update", path=path, to=to, hunks=tuple(hunks))


def _anchor(line: str) -> str:
    """What stands behind @@; line numbers, as in a unified diff, say nothing here."""
    said = line[2:].strip()
    numbered = re.match(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)", said)
    return (numbered[1] if numbered else said.removesuffix("@@")).strip()


def _hunk(lines: list[str], path: str, number: int, *, anchor: str = "", at_end: bool = False) -> Hunk:
    while lines and not lines[-1]:  # between two places, not of one
        lines.pop()
    made: list[Line] = []
    for line in lines:
        sign, text = (line[0], line[1:]) if line else (" ", "")
        if sign not in (" ", "-", "+"):
            raise PatchRefused(
                f"{_cut(path)}, change {number}: each line begins with a space, - or +, but one is {_cut(line)}"
            )
        made.append((sign, text))  # type: ignore[arg-type]
    return _checked(Hunk(tuple(made), anchor, at_end=at_end), path, number)


def _checked(hunk: Hunk, path: str, number: int) -> Hunk:
    if all(sign == " " for sign, _ in hunk.lines) and hunk.ends is None:
        raise PatchRefused(f"{_cut(path)}, change {number}: no line begins with - or +.")
    return hunk


# --- unified diffs -------------------------------------------------------------------------------

_RANGE = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)")


def _unified(lines: Sequence[str]) -> Iterator[FilePatch]:
    at = 0
    notes: dict[str, str] = {}  # of git, before the file itself
    while at < len(lines):
        line = lines[at]
        if line.startswith("diff --git "):
            yield from _renamed(notes)
            notes = {}
        elif (found := re.match(r"(rename from|rename to|new file mode|new mode) (.+)", line)) is not None:
            notes[found[1]] = found[2].strip()
        elif line.startswith(("GIT binary patch", "Binary files ")):
            raise PatchRefused("The patch holds binary data, which only text can be changed by.")
        elif line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            made, at = _of_file(lines, at, notes)
            notes = {}
            yield made
            continue
        elif line.startswith("@@ "):
            raise PatchRefused(f"Line {at + 1} of the patch: no --- and +++ line says which file this is of.")
        at += 1
    yield from _renamed(notes)


def _renamed(notes: dict[str, str]) -> Iterator[FilePatch]:
    """Moved as it is."""
    if "rename from" in notes and "rename to" in notes:
        yield FilePatch(kind="update", path=notes["rename from"], to=notes["rename to"])
    elif notes:
        raise PatchRefused("Modes of files are not changed by patches, nor are empty files made.")


def _of_file(lines: Sequence[str], at: int, notes: dict[str, str]) -> tuple[FilePatch, int]:
    old, new = _side(lines[at]), _side(lines[at + 1])
    if all(name == "/dev/null" or name.startswith(prefix) for name, prefix in ((old, "a/"), (new, "b/"))):
        old, new = (name if name == "/dev/null" else name[2:] for name in (old, new))
    line = at + 1
    at += 2
    hunks: list[Hunk] = []
    while at < len(lines) and (found := _RANGE.match(lines[at])) is not None:
        hunk, at = _ranged(lines, at + 1, found, new)
        hunks.append(_checked(hunk, new, len(hunks) + 1))
        while at < len(lines) and not lines[at].strip():
            at += 1
    if not hunks:
        raise PatchRefused(f"Line {line} of the patch: no @@ -1,2 +1,2 @@ line follows.")
    if old == "/dev/null":
        content = "".join(f"{text}\n" for text in hunks[0].new)
        if len(hunks) > 1 or hunks[0].old:
            raise PatchRefused(f"{_cut(new)}: a new file has no old lines.")
        if hunks[0].ends is not None and not hunks[0].ends[1]:
            content = content[:-1]
        mode = notes.get("new file mode", "")
        if mode.startswith("120"):
            raise PatchRefused(f"{_cut(new)}: patches do not make links.")
        return FilePatch(kind="add", path=_path(new, line), content=content, executable=mode.endswith("755")), at
    if new == "/dev/null":
        return FilePatch(kind="delete", path=_path(old, line), hunks=tuple(hunks)), at
    to = "" if old == new else _path(new, line)
    return FilePatch(kind="update", path=_path(old, line), to=to, hunks=tuple(hunks)), at


def _side(line: str) -> str:
    name = line[4:].split("\t")[0].rstrip()
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name


def _ranged(lines: Sequence[str], at: int, found: re.Match[str], path: str) -> tuple[Hunk, int]:
    """The counts say where it ends, as a line may look like anything; but models miscount, so more may follow."""
    left = int(found[2] or "1"), int(found[4] or "1")
    made: list[Line] = []
    ends: dict[str, bool] = {}
    while at < len(lines):
        line = lines[at]
        sign, text = (line[0], line[1:]) if line else (" ", "")
        over = left[0] <= 0 and left[1] <= 0
        heads = line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")
        if sign == "\\" and made:
            ends[made[-1][0]] = False
        elif sign not in (" ", "-", "+") or (over and (not line or heads)) or (heads and left[0] <= 0):
            break
        else:
            made.append((sign, text))  # type: ignore[arg-type]
            left = left[0] - (sign != "+"), left[1] - (sign != "-")
        at += 1
    while left != (0, 0) and made and made[-1] == (" ", "") and not lines[at - 1]:  # between two places, not of one
        made.pop()
        at -= 1
    start = int(found[1])
    both = ends.get(" ", True)
    said = (ends.get("-", both), ends.get("+", both)) if ends else None
    return Hunk(tuple(made), start=start if int(found[2] or "1") == 0 else max(start, 1), ends=said), at


def _path(said: str, line: int) -> str:
    path = said.strip()
    if not path:
        raise PatchRefused(f"Line {line} of the patch names no file.")
    return path


def _cut(text: str) -> str:
    shown = text if text.isprintable() else ascii(text)[1:-1]
    return shown if len(shown) <= 120 else shown[:119] + "…"


def reverse(patch: FilePatch) -> FilePatch:
    """What undoes it, of one that changes a file."""
    swap: dict[str, Literal[" ", "-", "+"]] = {"+": "-", "-": "+", " ": " "}
    hunks = tuple(
        msgspec.structs.replace(
            hunk,
            lines=tuple((swap[sign], text) for sign, text in hunk.lines),
            ends=None if hunk.ends is None else hunk.ends[::-1],
        )
        for hunk in patch.hunks
    )
    return msgspec.structs.replace(patch, path=patch.to or patch.path, to=patch.path if patch.to else "", hunks=hunks)
