"""The file itself: read with care, changed by the smallest edit that does it, replaced at once or not at all."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainstay.core.errors import ConfigError
from mainstay.io.yaml import BYTES_MAX, Document, Place, plain

Keys = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*")  # an @ begins nothing in YAML
_WAIT_S = 10.0  # for others who change the file: they hold it for as long as reading and writing takes
_LOOK_S = 0.02


def read(path: Path) -> bytes | None:
    """The file's bytes, or None where there is none."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{path} is not a regular file")
            return file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigError(f"{path} is a link to a file that does not exist") from None
        return None
    except NotADirectoryError:
        raise ConfigError(f"{path.parent} is not a directory") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe under this name would hold us for ever


SECRETS = ("api_key", "secret", "token", "app_token", "signing_secret", "password")


def refuse_shared_secrets(path: Path, data: Any) -> None:
    """A key written out in a file that other users can read is as good as published."""
    if not _holds_secret(data):
        return
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise ConfigError(f"{path} holds a key and other users may read it: run `chmod 600 {path}`")


def _holds_secret(data: Any) -> bool:
    if isinstance(data, list):
        return any(_holds_secret(one) for one in data)
    if not isinstance(data, dict):
        return False
    keys = (data.get(name) for name in SECRETS)
    written_out = any(isinstance(key, str) and key and "${" not in key for key in keys)
    return written_out or any(_holds_secret(one) for one in data.values())


# --- one at a time -------------------------------------------------------------------------------


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Whoever changes the file has read what others wrote before. It is the kernel's lock on the folder, so nothing of
    it is left behind, however we end. Not for use within itself."""
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(f"{folder} is not a directory") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    try:
        _lock(handle, path)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise ConfigError(f"{path} is being changed by another command just now; try again") from None
            time.sleep(_LOOK_S)
        except OSError as error:
            raise ConfigError(f"{path} cannot be locked: {error.strerror}") from None


# --- one value, changed in place -----------------------------------------------------------------


def with_value(data: Any, path: Keys, value: Any) -> Any:
    """What the data would be with this one value changed; the original is left alone."""
    if not path:
        return value
    if isinstance(data, list):
        return [with_value(one, path[1:], value) if n == path[0] else one for n, one in enumerate(data)]
    known = data if isinstance(data, dict) else {}
    return {**known, path[0]: with_value(known.get(path[0]), path[1:], value)}


def edited(text: str, document: Document, path: Keys, value: Any) -> str:
    """The text with one value changed, everything else as it was. The caller checks what came out."""
    place = document.place(path)
    if place is not None:
        return _replaced(text, place, written(value), path)
    depth = max(n for n in range(len(path)) if document.place(path[:n]) is not None)
    above = document.place(path[:depth])
    assert above is not None, "the document itself is always there"
    newline = "\r\n" if "\r\n" in text else "\n"
    if above.kind == "block" and depth == 0:
        return _inserted(text, len(text), _lines(path, value, _indent(above)), newline)
    if above.kind == "block":
        return _inserted(text, _end(above, text), _lines(path[depth:], value, _indent(above)), newline)
    if above.kind == "flow":
        return appended(text, above, _flow(path[depth:], value), newline)
    if text[above.start : above.end]:
        return _replaced(text, above, "{" + _flow(path[depth:], value) + "}", path[:depth])
    if depth == 0:
        return _inserted(text, len(text), _lines(path, value, 0), newline)
    return _inserted(text, above.end, _lines(path[depth:], value, above.column + 2), newline)


def appended(text: str, above: Place, inside: str, newline: str) -> str:
    """One more in `{…}` or `[…]`: on a line of its own if the last one is."""
    if not above.children:
        return text[: above.end - 1].rstrip() + inside + text[above.end - 1 :]
    last = max(above.children.values(), key=lambda child: child.end)
    begins = offset(text, last)
    lead = text[text.rfind("\n", 0, begins) + 1 : begins]
    comma = ", " if lead.strip() else f",{newline}{lead}"
    return text[: last.end] + comma + inside + text[last.end :]


def offset(text: str, place: Place) -> int:
    """Where its key stands, or it itself in a list."""
    start = 0
    for _ in range(place.line - 1):
        start = text.index("\n", start) + 1
    return start + place.column


def _replaced(text: str, place: Place, new: str, path: Keys) -> str:
    old = text[place.start : place.end]
    if place.kind == "block" or "\n" in old:
        name = ".".join(map(str, path))
        raise ConfigError(f"'{name}' spans several lines of the file; change it with an editor")
    space = "" if old or text[place.start - 1 : place.start].isspace() else " "
    return text[: place.start] + space + new + text[place.end :]


def _inserted(text: str, after: int, lines: list[str], newline: str) -> str:
    """New lines below the line that `after` lies in."""
    found = text.find("\n", after)
    at = found + 1 if found >= 0 else len(text)
    before = text[:at]
    if before and not before.endswith("\n"):
        before += newline
    return before + "".join(line + newline for line in lines) + text[at:]


def _indent(block: Place) -> int:
    return next((child.column for child in block.children.values()), 0)


def _end(place: Place, text: str) -> int:
    """Where a section's last value ends; a block's own end lies behind the comments that follow it."""
    if place.kind == "block" and place.children:
        return max(_end(child, text) for child in place.children.values())
    return len(text[: place.end].rstrip())


def _lines(path: Keys, value: Any, indent: int) -> list[str]:
    lines = [f"{' ' * (indent + 2 * n)}{written(key)}:" for n, key in enumerate(path)]
    lines[-1] += " " + written(value)
    return lines


def _flow(path: Keys, value: Any) -> str:
    inner = written(value)
    for key in reversed(path[1:]):
        inner = f"{{{written(key)}: {inner}}}"
    return f"{written(path[0])}: {inner}"


def written(value: Any) -> str:
    """A value as YAML on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            bare = _BARE.fullmatch(value) and plain(value) == value and value.strip("-.")
            return value if bare else _quoted(value)
        case list() | tuple():
            return "[" + ", ".join(map(written, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{_quoted(str(key))}: {written(one)}" for key, one in value.items()) + "}"
    raise ConfigError(f"a value of type {type(value).__name__} cannot be written to the file")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in escaped) + '"'


def write(path: Path, text: str) -> None:
    """Replace the file in one step, readable by its owner only; a crash leaves the old one or the new one."""
    import tempfile

    target = path.resolve()  # a link stays a link
    temporary: str | None = None
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # mode 0600
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        temporary = None
        _sync_directory(target.parent)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        if temporary is not None:
            os.unlink(temporary)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
