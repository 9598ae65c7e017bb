"""`lock.json`: which plugins were added, what each of them was granted, and what its files were then."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.outside import Needs
from mainstay.io.packages import LOCK, read_lock_file, write_lock_file
from mainstay.plugins.manifest import Given, Name
from mainstay.trust.guards.lines import one_line

BYTES_MAX = 1024 * 1024


class Installed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plugin that the owner has added: the very files that were shown, and no other rights than were shown."""

    name: Name
    version: str
    digest: str  # "sha256:…" over all files
    needs: Needs = Needs()
    env: tuple[str, ...] = ()  # variables and secrets of the owner's that it may be given
    context: tuple[Given, ...] = ()
    added: str = ""  # when, as ISO 8601 in UTC


class _Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plugins: tuple[Installed, ...] = ()
    format: int = 1


def read_lock(plugins_folder: Path) -> dict[str, Installed]:
    """By name. Raises ConfigError if it cannot be read."""
    data = read_lock_file(plugins_folder, BYTES_MAX)
    if data is None:
        return {}
    try:
        lock = msgspec.json.decode(data, type=_Lock)
    except (msgspec.DecodeError, RecursionError):
        lock = None
    if lock is None or lock.format != 1 or len(data) > BYTES_MAX:
        path = one_line(str(plugins_folder / LOCK))
        raise ConfigError(f"{path} is damaged, or of a newer release; add the plugins again without it")
    return {one.name: one for one in lock.plugins}


def write_lock(plugins_folder: Path, plugins: dict[str, Installed]) -> None:
    """Replaced in one step: whoever reads sees the old one or the new one."""
    lock = _Lock(tuple(plugins[name] for name in sorted(plugins)))
    write_lock_file(plugins_folder, msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n")
