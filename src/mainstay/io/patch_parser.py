"""Parses patches that a model wrote: leniently where the meaning is clear, else refused with a message.

Two formats: `*** Begin Patch` with `*** Add File:`, `*** Update File:`, `*** Move to:`, `*** Delete File:` and `@@`, or
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

HunkLine = tuple[Literal[" ", "-", "+"], str]


class PatchRefused(MainstayError):
    """The text is not a patch, or the patch does not apply; the message says where."""


class Hunk(msgspec.Struct, frozen=True):
    """One change at one place of a file."""

    lines: tuple[HunkLine, ...]
    anchor: str = ""  # a line somewhere before the change, from `@@ line`; "" for none
    start_line: int | None = None  # declared first line, from 1; for a pure insertion, the line to insert after
    is_at_end: bool = False  # the old lines must be the last of the file
    final_newlines: tuple[bool, bool] | None = (
        None  # whether the old and the new last line end with a newline; None: unspecified
    )

    @property
    def old_lines(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new_lines(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "-"]


class FilePatch(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one file."""

    kind: Literal["add", "update", "delete"]
    path: str
    new_path: str = ""  # where the file is moved; "" for nowhere
    hunks: tuple[Hunk, ...] = ()
    content: str = ""  # of an added file
    is_executable: bool = False


def parse_patch(text: str) -> list[FilePatch]:
    if len(text) > PATCH_CHARS_MAX:
        raise PatchRefused(f"The patch has more than {PATCH_CHARS_MAX} characters.")
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    begin_line = next((at for at, line in enumerate(lines) if line.strip() == "*** Begin Patch"), None)
    patches = list(_parse_envelope(lines, begin_line + 1) if begin_line is not None else _parse_unified(lines))
    if not patches:
        raise PatchRefused("There is no change in the patch. It begins with *** Begin Patch, or is a unified diff.")
    if len(patches) > FILES_MAX or sum(len(patch.hunks) for patch in patches) > HUNKS_MAX:
        raise PatchRefused(f"The patch changes more than {FILES_MAX} files or {HUNKS_MAX} places.")
    return patches


# --- *** Begin Patch -----------------------------------------------------------------------------

_FILE_HEADER = re.compile(r"\*\*\* (Add File|Update File|Delete File|Move to): ?(.*)")


def _parse_envelope(lines: Sequence[str], at: int) -> Iterator[FilePatch]:
    while at < len(lines):
        line = lines[at].rstrip()
        at += 1
        if line == "*** End Patch":
            return
        if not line:
            continue
        match = _FILE_HEADER.fullmatch(line)
        if match is None or match[1] == "Move to":
            raise PatchRefused(
                f"Line {at} of the patch is not *** Add File, Update File or Delete File: {_shorten(line)}"
            )
        path = _check_path(match[2], at)
        body, at = _read_body(lines, at)
        match match[1]:
            case "Add File":
                yield FilePatch(kind="add", path=path, content=_parse_added_content(body, path))
            case "Delete File":
                if any(text.strip() for text in body):
                    raise PatchRefused(f"Nothing can follow *** Delete File: {_shorten(path)}.")
                yield FilePatch(kind="delete", path=path)
            case _:
                yield _parse_update(path, body)
    raise PatchRefused("The patch has no *** End Patch: it may have been cut off.")


def _read_body(lines: Sequence[str], at: int) -> tuple[list[str], int]:
    """Return the lines up to the next file header; `Move to` and `End of File` belong to this file."""
    first = at
    while at < len(lines) and not re.match(r"\*\*\* (Add File:|Update File:|Delete File:|End Patch)", lines[at]):
        at += 1
    return list(lines[first:at]), at


def _parse_added_content(body: Sequence[str], path: str) -> str:
    lines = list(body)
    while lines and not lines[-1].strip():
        lines.pop()
    if wrong := next((line for line in lines if line[:1] != "+"), None):
        raise PatchRefused(f"*** Add File: {_shorten(path)}: each line begins with +, but one is {_shorten(wrong)}")
    return "".join(f"{line[1:]}\n" for line in lines)


def _parse_update(path: str, body: Sequence[str]) -> FilePatch:
    to = ""
    if body and (match := _FILE_HEADER.fullmatch(body[0].rstrip())) is not None:
        to, body = _check_path(match[2], 0), body[1:]
    hunks: list[Hunk] = []
    anchor, lines, at_end = "", list[str](), False
    for line in [*body, "@@"]:
        if line.startswith("@@") and (line == "@@" or line[2:3] == " "):
            if any(text.strip() for text in lines):
                hunks.append(_parse_hunk(lines, path, len(hunks) + 1, anchor=anchor, is_at_end=at_end))
            elif anchor and not lines:
                raise PatchRefused(f"{_shorten(path)}: nothing follows @@ {_shorten(anchor)}")
            anchor, lines, at_end = _parse_anchor(line), [], False
        elif line.rstrip() == "*** End of File":
            at_end = True
        else:
            lines.append(line)
    if not hunks and not to:
        raise PatchRefused(f"*** Update File: {_shorten(path)} contains no change.")
    return FilePatch(kind="update", path=path, new_path=to, hunks=tuple(hunks))


def _parse_anchor(line: str) -> str:
    """Return the text after `@@`; line numbers, as in a unified diff, are ignored here."""
    text = line[2:].strip()
    numbered = re.match(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)", text)
    return (numbered[1] if numbered else text.removesuffix("@@")).strip()


def _parse_hunk(lines: list[str], path: str, number: int, *, anchor: str = "", is_at_end: bool = False) -> Hunk:
    while lines and not lines[-1]:  # blank lines between two hunks
        lines.pop()
    parsed: list[HunkLine] = []
    for line in lines:
        sign, text = (line[0], line[1:]) if line else (" ", "")
        if sign not in (" ", "-", "+"):
            raise PatchRefused(
                f"{_shorten(path)}, change {number}: each line begins with a space, - or +, but one is {_shorten(line)}"
            )
        parsed.append((sign, text))  # type: ignore[arg-type]
    return _check_hunk(Hunk(tuple(parsed), anchor, is_at_end=is_at_end), path, number)


def _check_hunk(hunk: Hunk, path: str, number: int) -> Hunk:
    if all(sign == " " for sign, _ in hunk.lines) and hunk.final_newlines is None:
        raise PatchRefused(f"{_shorten(path)}, change {number}: no line begins with - or +.")
    return hunk


# --- unified diffs -------------------------------------------------------------------------------

_HUNK_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)")


def _parse_unified(lines: Sequence[str]) -> Iterator[FilePatch]:
    at = 0
    git_headers: dict[str, str] = {}  # extended headers of git, before the file itself
    while at < len(lines):
        line = lines[at]
        if line.startswith("diff --git "):
            yield from _parse_pure_rename(git_headers)
            git_headers = {}
        elif (match := re.match(r"(rename from|rename to|new file mode|new mode) (.+)", line)) is not None:
            git_headers[match[1]] = match[2].strip()
        elif line.startswith(("GIT binary patch", "Binary files ")):
            raise PatchRefused("The patch contains binary data; patches can change only text.")
        elif line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            file_patch, at = _parse_unified_file(lines, at, git_headers)
            git_headers = {}
            yield file_patch
            continue
        elif line.startswith("@@ "):
            raise PatchRefused(f"Line {at + 1} of the patch: no --- and +++ lines name the file of this change.")
        at += 1
    yield from _parse_pure_rename(git_headers)


def _parse_pure_rename(git_headers: dict[str, str]) -> Iterator[FilePatch]:
    """Yield a pure rename, if the headers of git declare one."""
    if "rename from" in git_headers and "rename to" in git_headers:
        yield FilePatch(kind="update", path=git_headers["rename from"], new_path=git_headers["rename to"])
    elif git_headers:
        raise PatchRefused("Patches cannot change file modes or create empty files.")


def _parse_unified_file(lines: Sequence[str], at: int, git_headers: dict[str, str]) -> tuple[FilePatch, int]:
    old, new = _parse_file_name(lines[at]), _parse_file_name(lines[at + 1])
    if all(name == "/dev/null" or name.startswith(prefix) for name, prefix in ((old, "a/"), (new, "b/"))):
        old, new = (name if name == "/dev/null" else name[2:] for name in (old, new))
    line = at + 1
    at += 2
    hunks: list[Hunk] = []
    while at < len(lines) and (match := _HUNK_HEADER.match(lines[at])) is not None:
        hunk, at = _parse_unified_hunk(lines, at + 1, match, new)
        hunks.append(_check_hunk(hunk, new, len(hunks) + 1))
        while at < len(lines) and not lines[at].strip():
            at += 1
    if not hunks:
        raise PatchRefused(f"Line {line} of the patch: no @@ -1,2 +1,2 @@ line follows.")
    if old == "/dev/null":
        content = "".join(f"{text}\n" for text in hunks[0].new_lines)
        if len(hunks) > 1 or hunks[0].old_lines:
            raise PatchRefused(f"{_shorten(new)}: a new file has no old lines.")
        if hunks[0].final_newlines is not None and not hunks[0].final_newlines[1]:
            content = content[:-1]
        mode = git_headers.get("new file mode", "")
        if mode.startswith("120"):
            raise PatchRefused(f"{_shorten(new)}: patches cannot create links.")
        return FilePatch(
            kind="add", path=_check_path(new, line), content=content, is_executable=mode.endswith("755")
        ), at
    if new == "/dev/null":
        return FilePatch(kind="delete", path=_check_path(old, line), hunks=tuple(hunks)), at
    to = "" if old == new else _check_path(new, line)
    return FilePatch(kind="update", path=_check_path(old, line), new_path=to, hunks=tuple(hunks)), at


def _parse_file_name(line: str) -> str:
    name = line[4:].split("\t")[0].rstrip()
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name


def _parse_unified_hunk(lines: Sequence[str], at: int, match: re.Match[str], path: str) -> tuple[Hunk, int]:
    """Parse one hunk. Its end is where the counts say, as any line may look like content; but models miscount."""
    left = int(match[2] or "1"), int(match[4] or "1")
    parsed: list[HunkLine] = []
    ends: dict[str, bool] = {}
    while at < len(lines):
        line = lines[at]
        sign, text = (line[0], line[1:]) if line else (" ", "")
        is_complete = left[0] <= 0 and left[1] <= 0
        is_file_header = line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")
        if sign == "\\" and parsed:
            ends[parsed[-1][0]] = False
        elif (
            sign not in (" ", "-", "+")
            or (is_complete and (not line or is_file_header))
            or (is_file_header and left[0] <= 0)
        ):
            break
        else:
            parsed.append((sign, text))  # type: ignore[arg-type]
            left = left[0] - (sign != "+"), left[1] - (sign != "-")
        at += 1
    while left != (0, 0) and parsed and parsed[-1] == (" ", "") and not lines[at - 1]:  # blank lines between two hunks
        parsed.pop()
        at -= 1
    start = int(match[1])
    both = ends.get(" ", True)
    final_newlines = (ends.get("-", both), ends.get("+", both)) if ends else None
    return Hunk(
        tuple(parsed), start_line=start if int(match[2] or "1") == 0 else max(start, 1), final_newlines=final_newlines
    ), at


def _check_path(text: str, line: int) -> str:
    path = text.strip()
    if not path:
        raise PatchRefused(f"Line {line} of the patch names no file.")
    return path


def _shorten(text: str) -> str:
    printable = text if text.isprintable() else ascii(text)[1:-1]
    return printable if len(printable) <= 120 else printable[:119] + "…"


def reverse_patch(patch: FilePatch) -> FilePatch:
    """Return the patch that undoes an update."""
    swap: dict[str, Literal[" ", "-", "+"]] = {"+": "-", "-": "+", " ": " "}
    hunks = tuple(
        msgspec.structs.replace(
            hunk,
            lines=tuple((swap[sign], text) for sign, text in hunk.lines),
            final_newlines=None if hunk.final_newlines is None else hunk.final_newlines[::-1],
        )
        for hunk in patch.hunks
    )
    return msgspec.structs.replace(
        patch, path=patch.new_path or patch.path, new_path=patch.path if patch.new_path else "", hunks=hunks
    )
