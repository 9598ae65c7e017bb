"""Reads mainstay.yaml, edits single values in its text, and replaces the file atomically under a lock."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainstay.core.errors import ConfigError
from mainstay.io.yaml import BYTES_MAX, YamlDocument, YamlPosition, parse_plain_scalar

Keys = tuple[str | int, ...]

# YAML text cannot begin with @
_UNQUOTED_TEXT = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*")
_LOCK_TIMEOUT_S = 10.0  # timeout for the lock; others hold it only while they read and write the file
_LOCK_RETRY_S = 0.02  # between two attempts to take it


def read_file(path: Path) -> bytes | None:
    """Return the file's bytes, or None if it does not exist. Raises ConfigError if it cannot be read."""
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{path} is not a regular file")
            return file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigError(f"{path} is a symbolic link to a file that does not exist") from None
        return None
    except NotADirectoryError:
        raise ConfigError(f"{path.parent} is not a directory") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe of this name would block for ever


SECRET_KEYS = ("api_key", "secret", "token", "app_token", "signing_secret", "password")


def refuse_readable_secrets(path: Path, data: Any, more_keys: Collection[str] = ()) -> None:
    """Raise ConfigError if the file contains a secret as plain text and other users can read it; `more_keys` are keys
    of secrets in addition to SECRET_KEYS."""
    if not _has_plain_secret(data, {*SECRET_KEYS, *more_keys}):
        return
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise ConfigError(f"{path} contains a secret and other users may read it: run `chmod 600 {path}`")


def _has_plain_secret(data: Any, keys: Collection[str]) -> bool:
    if isinstance(data, list):
        return any(_has_plain_secret(item, keys) for item in data)
    if not isinstance(data, dict):
        return False
    secrets = (data.get(name) for name in keys)
    is_plain_text = any(isinstance(secret, str) and secret and "${" not in secret for secret in secrets)
    return is_plain_text or any(_has_plain_secret(value, keys) for value in data.values())


# --- locking -------------------------------------------------------------------------------------


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold the lock for reading, changing and writing the file. It is a kernel lock on the file's folder, which a crash
    releases. Not reentrant. Raises ConfigError if another process holds it for too long."""
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileExistsError, NotADirectoryError):
        raise ConfigError(f"{folder} is not a directory") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    try:
        _acquire_lock(handle, path)
        yield
    finally:
        os.close(handle)


def _acquire_lock(handle: int, path: Path) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConfigError(f"{path} is being changed by another command; try again") from None
            time.sleep(_LOCK_RETRY_S)
        except OSError as error:
            raise ConfigError(f"{path} cannot be locked: {error.strerror}") from None


# --- editing one value ---------------------------------------------------------------------------


def with_value(data: Any, path: Keys, value: Any) -> Any:
    """Return a copy of the data with one value changed."""
    if not path:
        return value
    if isinstance(data, list):
        return [with_value(item, path[1:], value) if n == path[0] else item for n, item in enumerate(data)]
    known = data if isinstance(data, dict) else {}
    return {**known, path[0]: with_value(known.get(path[0]), path[1:], value)}


def edit_text(text: str, document: YamlDocument, path: Keys, value: Any) -> str:
    """Return the text with one value changed and everything else as it was. The caller must check that the result
    parses to the intended data. Raises ConfigError if the value spans several lines."""
    place = document.find_position(path)
    if place is not None:
        return _replace_value(text, place, to_yaml(value), path)
    depth = max(n for n in range(len(path)) if document.find_position(path[:n]) is not None)
    above = document.find_position(path[:depth])
    assert above is not None, "the document itself has a position"
    newline = "\r\n" if "\r\n" in text else "\n"
    if above.kind == "block" and depth == 0:
        return _insert_lines(text, len(text), _build_block_lines(path, value, _block_indent(above)), newline)
    if above.kind == "block":
        return _insert_lines(
            text, _section_end(above, text), _build_block_lines(path[depth:], value, _block_indent(above)), newline
        )
    if above.kind == "flow":
        return append_flow_entry(text, above, _build_flow_entry(path[depth:], value), newline)
    if text[above.start : above.end]:
        return _replace_value(text, above, "{" + _build_flow_entry(path[depth:], value) + "}", path[:depth])
    if depth == 0:
        return _insert_lines(text, len(text), _build_block_lines(path, value, 0), newline)
    return _insert_lines(text, above.end, _build_block_lines(path[depth:], value, above.column + 2), newline)


def append_flow_entry(text: str, parent: YamlPosition, entry: str, newline: str) -> str:
    """Append an entry to `{…}` or `[…]`, on a line of its own if the last entry is."""
    if not parent.children:
        return text[: parent.end - 1].rstrip() + entry + text[parent.end - 1 :]
    last = max(parent.children.values(), key=lambda child: child.end)
    start = entry_offset(text, last)
    indent = text[text.rfind("\n", 0, start) + 1 : start]
    comma = ", " if indent.strip() else f",{newline}{indent}"
    return text[: last.end] + comma + entry + text[last.end :]


def entry_offset(text: str, position: YamlPosition) -> int:
    """Return the offset of an entry's key, or of the item itself in a list."""
    start = 0
    for _ in range(position.line - 1):
        start = text.index("\n", start) + 1
    return start + position.column


def _replace_value(text: str, position: YamlPosition, new: str, path: Keys) -> str:
    old = text[position.start : position.end]
    if position.kind == "block" or "\n" in old:
        name = ".".join(map(str, path))
        raise ConfigError(f"'{name}' spans several lines of the file; use an editor to change it")
    space = "" if old or text[position.start - 1 : position.start].isspace() else " "
    return text[: position.start] + space + new + text[position.end :]


def _insert_lines(text: str, after: int, lines: list[str], newline: str) -> str:
    """Insert lines below the line that contains the offset `after`."""
    line_end = text.find("\n", after)
    at = line_end + 1 if line_end >= 0 else len(text)
    head = text[:at]
    if head and not head.endswith("\n"):
        head += newline
    return head + "".join(line + newline for line in lines) + text[at:]


def _block_indent(block: YamlPosition) -> int:
    return next((child.column for child in block.children.values()), 0)


def _section_end(position: YamlPosition, text: str) -> int:
    """Return the offset where a section's last value ends; the parser's end of a block includes the comments after
    it."""
    if position.kind == "block" and position.children:
        return max(_section_end(child, text) for child in position.children.values())
    return len(text[: position.end].rstrip())


def _build_block_lines(path: Keys, value: Any, indent: int) -> list[str]:
    lines = [f"{' ' * (indent + 2 * n)}{to_yaml(key)}:" for n, key in enumerate(path)]
    lines[-1] += " " + to_yaml(value)
    return lines


def _build_flow_entry(path: Keys, value: Any) -> str:
    inner = to_yaml(value)
    for key in reversed(path[1:]):
        inner = f"{{{to_yaml(key)}: {inner}}}"
    return f"{to_yaml(path[0])}: {inner}"


def to_yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            bare = _UNQUOTED_TEXT.fullmatch(value) and parse_plain_scalar(value) == value and value.strip("-.")
            return value if bare else _quote(value)
        case list() | tuple():
            return "[" + ", ".join(map(to_yaml, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{_quote(str(key))}: {to_yaml(item)}" for key, item in value.items()) + "}"
    raise ConfigError(f"a value of type {type(value).__name__} cannot be written to the file")


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in escaped) + '"'


def write_file(path: Path, text: str) -> None:
    """Replace the file atomically, with mode 0600; a crash leaves the old file or the new one."""
    import tempfile

    target = path.resolve()  # a symbolic link stays one
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
