"""Changes of files that a sandbox held back, and the document that shows them for approval.

The document is the approval's input: what is shown, what is stored and what is applied is one text. An edit is a diff
against the file's recorded fingerprint, so lines that do not change are neither stored nor sent anywhere.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

APPLY_CHANGES = "apply_changes"  # the name that an approval of held changes has in place of a tool's
HELD_FILE_BYTES_MAX = 256 * 1024  # of a file whose change can be approved
HELD_BYTES_MAX = 512 * 1024  # of all new contents of one command
HELD_CHANGES_MAX = 5_000
DIFF_CONTEXT_LINES = 3
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


class HeldChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change that a command made and that was not applied. A folder is removed with everything in it, or only if it
    is empty by then (`remove_empty`)."""

    path: str  # absolute
    kind: Literal["write", "link", "remove", "remove_folder", "remove_empty"] = "write"
    data: bytes = b""  # the new content; of a link: its target
    mode: int = 0  # of a written file
    old_data: bytes | None = None  # the content that is there now, for a diff; None: nothing, or no text to compare
    old_mode: int = 0
    before: str = ""  # fingerprint of what is there now; empty: nothing
    files: int = 0  # in a removed folder
    problem: str = ""  # why it cannot be approved: "is too large to be shown"; empty: it can


class ShownChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One change as the approval shows it. Paths are relative to the session's working folder, or absolute."""

    change: Literal["create", "edit", "replace", "link", "delete", "delete folder", "delete empty folder"]
    path: str
    diff: str = ""
    content: str | None = None
    base64: str | None = None  # of content that is no text
    target: str = ""  # of a link
    mode: str = ""  # octal
    files: int = 0  # in a deleted folder
    before: str = ""  # fingerprint of what is there; empty: nothing
    sha256: str = ""  # of the new content


class ChangeSet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All changes of one approval, in the order in which they are applied."""

    changes: tuple[ShownChange, ...]


class ChangeOutdated(Exception):
    """A diff does not fit what is in the file."""


def encode_changes(changes: Iterable[HeldChange], cwd: str, context_lines: int = DIFF_CONTEXT_LINES) -> str:
    """Return the document for an approval. Raises UnicodeEncodeError for a path that is not valid text."""
    shown = tuple(show_change(change, cwd, context_lines) for change in changes)
    return msgspec.json.encode(ChangeSet(changes=shown)).decode()


def decode_changes(document: str) -> tuple[ShownChange, ...]:
    """Return the changes of an approval. Raises msgspec.DecodeError or msgspec.ValidationError."""
    return msgspec.json.decode(document, type=ChangeSet).changes


def show_change(change: HeldChange, cwd: str, context_lines: int) -> ShownChange:
    """Return a change as an approval shows it. Raises UnicodeDecodeError for a link whose target is not valid text."""
    path = change.path.removeprefix(cwd.rstrip("/") + "/")
    match change.kind:
        case "remove":
            return ShownChange(change="delete", path=path, before=change.before)
        case "remove_folder":
            return ShownChange(change="delete folder", path=path, before=change.before, files=change.files)
        case "remove_empty":
            return ShownChange(change="delete empty folder", path=path)
        case "link":
            target = change.data.decode()
            return ShownChange(change="link", path=path, target=target, before=change.before)
    mode = f"{change.mode:o}" if change.mode != change.old_mode else ""
    sha256, before = hashlib.sha256(change.data).hexdigest(), change.before
    old, new = decode_text(change.old_data), decode_text(change.data)
    if old is not None and new is not None:
        diff = build_diff(old, new, context_lines)
        return ShownChange(change="edit", path=path, diff=diff, mode=mode, before=before, sha256=sha256)
    kind: Literal["create", "replace"] = "replace" if before else "create"
    if new is not None:
        return ShownChange(change=kind, path=path, content=new, mode=mode, before=before, sha256=sha256)
    encoded = base64.b64encode(change.data).decode()
    return ShownChange(change=kind, path=path, base64=encoded, mode=mode, before=before, sha256=sha256)


def decode_text(data: bytes | None) -> str | None:
    """Return the text of a file; None if it is none."""
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


# --- diffs ---------------------------------------------------------------------------------------


def build_diff(old: str, new: str, context_lines: int) -> str:
    """Return a unified diff without its header. Lines are separated by `\\n` alone, so that it restores every byte."""
    import difflib  # only questions need it

    lines = difflib.unified_diff(old.split("\n"), new.split("\n"), lineterm="", n=context_lines)
    return "\n".join(list(lines)[2:])


def apply_diff(old: str, diff: str) -> str:
    """Return the new text. Raises ChangeOutdated if the old text is not the one that the diff was made from."""
    source, result, at = old.split("\n"), [], 0
    for line in diff.split("\n") if diff else ():
        if (hunk := _HUNK.fullmatch(line)) is not None:
            start = int(hunk[1]) - (hunk[2] != "0")
            if start < at:
                raise ChangeOutdated
            result += source[at:start]
            at = start
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            if line[:1] not in (" ", "-") or at >= len(source) or source[at] != line[1:]:
                raise ChangeOutdated
            if line.startswith(" "):
                result.append(source[at])
            at += 1
    return "\n".join([*result, *source[at:]])


def build_new_content(change: ShownChange, current: bytes | None) -> bytes:
    """Return the content that a change gives a file. Raises ChangeOutdated if it is not the one that was approved."""
    try:
        if change.change == "edit":
            new = apply_diff(decode_text(current) or "", change.diff).encode()
        elif change.base64 is not None:
            new = base64.b64decode(change.base64, validate=True)
        else:
            new = (change.content or "").encode()
    except (binascii.Error, UnicodeEncodeError):
        raise ChangeOutdated from None
    if hashlib.sha256(new).hexdigest() != change.sha256:
        raise ChangeOutdated
    return new


def name_paths(paths: Sequence[str], shown_max: int = 20) -> str:
    """Return the paths as a list for a sentence; of many, the first ones and how many more there are."""
    more = f" and {len(paths) - shown_max} more" if len(paths) > shown_max else ""
    return ", ".join(paths[:shown_max]) + more
