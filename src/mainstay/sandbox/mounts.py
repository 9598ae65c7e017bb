"""Which folders a sandboxed command meets where, and as what: the grounds, and what in them it must not touch."""

from __future__ import annotations

import os
import stat
import sys
from typing import Literal

import msgspec

from mainstay.core.outside import Command
from mainstay.core.remove import remove_tree
from mainstay.sandbox.limits import SandboxUnusable, within
from mainstay.sandbox.overlay import FOLDER, Guarded, Merged

Kind = Literal["read", "write", "pin", "hide"]
_ORDER: dict[Kind, int] = {"pin": 0, "write": 1, "read": 2, "hide": 3}  # of the same path, the last one counts


class Ground(msgspec.Struct, frozen=True):
    path: str
    kind: Kind


def writable_roots(command: Command) -> list[str]:
    """The folders to be mounted for writing; one in another only if something lies between."""
    grounds = command.grounds
    wanted = dict.fromkeys(path for path in (*grounds.writable, grounds.scratch) if path and os.path.isdir(path))
    walls = (*grounds.readable, *grounds.protected)
    return [path for path in wanted if not any(_covers(other, path, walls) for other in wanted)]


def _covers(outer: str, path: str, walls: tuple[str, ...]) -> bool:
    if outer == path or not within(path, outer):
        return False
    return not any(within(path, wall) and within(wall, outer) for wall in walls)


def lay_out(command: Command, installed: list[str]) -> list[Ground]:
    """Everything to be mounted, parents before what lies in them."""
    grounds, roots = command.grounds, writable_roots(command)
    kinds: dict[str, Kind] = {}

    def put(path: str, kind: Kind) -> None:
        if path not in kinds or _ORDER[kind] >= _ORDER[kinds[path]]:
            kinds[path] = kind

    for path in installed:
        # What we ourselves run on is never written by a command, even if it lies where commands work.
        if path == sys.prefix or not any(within(path, root) for root in roots):
            put(path, "read")
    for path in grounds.readable:
        if os.path.isdir(path):
            put(path, "read")
    for path in roots:
        put(path, "write")
    for path in present(grounds.kept, roots):
        put(path, "read")
    fixed = list(present(grounds.protected, [*roots, *grounds.readable]))
    for path in fixed:
        put(path, "hide")
    if command.guarded:
        for path in present(grounds.notes, roots):
            put(path, "read")
    else:
        # A folder that something is mounted on cannot be renamed. Without it, whoever renames a folder above a hidden
        # file finds that file under its new name the next time.
        for path in [*fixed, *(path for path in kinds if path == sys.prefix)]:
            for above in ancestors(path, roots):
                put(above, "pin")
    laid = [Ground(path, kind) for path, kind in kinds.items()]
    return sorted(laid, key=lambda one: (one.path.count("/"), one.path))


def present(paths: tuple[str, ...], roots: list[str]) -> list[str]:
    return [path for path in paths if os.path.lexists(path) and any(within(path, root) for root in roots)]


def ancestors(path: str, roots: list[str]) -> list[str]:
    """The folders between a root and this."""
    found = []
    above = os.path.dirname(path)
    while above not in roots and any(within(above, root) for root in roots):
        found.append(above)
        above = os.path.dirname(above)
    return found


def mount_words(laid: list[Ground], overlays: dict[str, list[str]]) -> list[str]:
    """For bwrap. Hidden folders are closed last: others may have to be mounted in them."""
    words: list[str] = []
    closed: list[str] = []
    for ground in laid:
        path = ground.path
        match ground.kind:
            case "write" if path in overlays:
                words += overlays[path]
            case "write" | "pin":
                words += ["--bind", path, path]
            case "read":
                words += ["--ro-bind", path, path]
            case "hide" if os.path.isdir(path) and not os.path.islink(path):
                words += ["--perms", "0555", "--size", "4096", "--tmpfs", path]
                closed += ["--remount-ro", path]
            case "hide":
                words += ["--ro-bind", os.devnull, path]
    return words + closed


class Site:
    """What is put up for one command: layers if it is guarded, and an eye on what must not come into being."""

    def __init__(self, command: Command, room: str | None) -> None:
        grounds = command.grounds
        self._roots = writable_roots(command)
        self._absent = [path for path in grounds.protected if not os.path.lexists(path)]
        self.guarded: Guarded | None = None
        if room is not None:
            try:
                fixed = (*grounds.protected, *grounds.notes)
                self.guarded = Guarded(self._roots, fixed, room, command.made, command.announce)
            except OSError as error:
                raise SandboxUnusable(f"removals cannot be held back: {error.strerror or error}") from error

    def settle(self) -> Merged:
        told = Merged()
        if self.guarded is not None:
            told = self.guarded.merge()
        for path in self._absent:
            for root in self._roots:
                if within(path, root) and os.path.lexists(path):
                    take_away(root, os.path.relpath(path, root).split("/"))
        return told


def take_away(root: str, steps: list[str]) -> None:
    """Something that a command made where nothing may be. A link on the way there is what it made, and goes instead."""
    folder = os.open(root, FOLDER)
    try:
        for number, step in enumerate(steps):
            found = os.stat(step, dir_fd=folder, follow_symlinks=False)
            if number == len(steps) - 1 and stat.S_ISDIR(found.st_mode):
                remove_tree(step, dir_fd=folder)
            elif number == len(steps) - 1 or not stat.S_ISDIR(found.st_mode):
                os.unlink(step, dir_fd=folder)
                return
            else:
                inner = os.open(step, FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
    except FileNotFoundError:  # somebody else was faster
        pass
    finally:
        os.close(folder)
