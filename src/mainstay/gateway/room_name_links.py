"""Symbolic links `#NAME` beside the folders of rooms, by which people find a room's folder by the room's name.

A folder is named after the platform's id of its room. Its name never contains a `#` (`encode_folder_name`), so no link
has the name of a folder. Names of rooms are other people's text: here they are file names, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import unicodedata

from mainstay.core.worker_threads import run_in_thread
from mainstay.guards.line_escaping import INVISIBLE_CHARACTERS

log = logging.getLogger("mainstay.channels")

NAME_CHARS_MAX = 48  # at most 192 bytes
LINKS_PER_NAME_MAX = 100  # rooms of the same name in a channel
ROOMS_REMEMBERED_MAX = 100_000
_INVISIBLE = re.compile(f"[{INVISIBLE_CHARACTERS}]")


class RoomNameLinks:
    """Creates the links, and renames them when a room was renamed."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # folder of a room → the name that its link was made for
        self._lock = asyncio.Lock()

    async def update(self, folder: str, name: str) -> None:
        """Link a room's folder by this name, and create it if needed; an empty folder is ignored. Never fails: the
        messages of a room do not depend on it."""
        if not folder or self._names.get(folder) == name:
            return
        async with self._lock:
            try:
                await run_in_thread(lambda: link_room_name(folder, name))
            except OSError as error:
                log.warning("%s cannot be linked by the name of its room: %s", folder, error.strerror or error)
        self._names[folder] = name
        while len(self._names) > ROOMS_REMEMBERED_MAX:
            del self._names[next(iter(self._names))]


def link_room_name(folder: str, name: str) -> None:
    """Make `#NAME` beside a room's folder a link to it, or `#NAME-2` if that is taken, and remove its other links. Only
    links to this folder are ever removed. Raises OSError."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    parent, target = os.path.split(folder)
    link = _create_link(parent, target, sanitise_room_name(name))
    with os.scandir(parent) as entries:
        former = [entry.path for entry in entries if entry.name.startswith("#") and entry.path != link]
    for path in former:
        if _leads_to(path, target):
            os.unlink(path)


def sanitise_room_name(name: str) -> str:
    """Return a room's name as a part of a file name: letters, marks, digits and symbols of any script, and `_` for what
    separates paths or words, or means something to a shell. Empty if nothing is left."""
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", name))
    safe = "".join(char if _is_safe(char) else "_" for char in visible if unicodedata.category(char) != "Cf")
    return re.sub("__+", "_", safe)[:NAME_CHARS_MAX].strip("._-")


def _is_safe(char: str) -> bool:
    return char.isalnum() or char in "._-+@" if char.isascii() else unicodedata.category(char)[0] not in "CZ"


def _create_link(parent: str, target: str, name: str) -> str:
    """Return the path of the link; empty if there is none."""
    for number in range(1, LINKS_PER_NAME_MAX + 1 if name else 1):
        path = os.path.join(parent, f"#{name}-{number}" if number > 1 else f"#{name}")
        try:
            os.symlink(target, path)
        except FileExistsError:
            if not _leads_to(path, target):
                continue
        return path
    return ""


def _leads_to(path: str, target: str) -> bool:
    try:
        return os.readlink(path) == target
    except OSError:  # it is no link, or was removed meanwhile
        return False
