"""Bind mounts of a sandboxed command: the session's folders, with protected paths hidden or read-only."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Literal

import msgspec

from mainstay.core.tool_ports import SandboxCommand
from mainstay.core.tree_removal import remove_tree
from mainstay.sandbox.base import MergeResult
from mainstay.sandbox.bubblewrap.overlay_folders import OPEN_FOLDER_FLAGS
from mainstay.sandbox.limits import SandboxUnusable, is_within

if TYPE_CHECKING:  # loaded with the first command
    from mainstay.sandbox.bubblewrap.obeyed_file_watch import ObeyedFileWatch
    from mainstay.sandbox.bubblewrap.overlay import CommandOverlay

MountKind = Literal["read", "write", "pin", "hide"]
_PRECEDENCE: dict[MountKind, int] = {"pin": 0, "write": 1, "read": 2, "hide": 3}  # for the same path, the highest wins


class SandboxMount(msgspec.Struct, frozen=True):
    """One mount. `pin` mounts a folder on itself, so that it cannot be renamed; `hide` covers a path."""

    path: str
    kind: MountKind


def writable_roots(command: SandboxCommand) -> list[str]:
    """Return the folders to mount writable; a nested one only if a read-only or hidden path lies between."""
    folders = command.folders
    wanted = dict.fromkeys(path for path in (*folders.writable, folders.scratch) if path and os.path.isdir(path))
    walls = (*folders.readable, *folders.protected)
    return [path for path in wanted if not any(_covers(other, path, walls) for other in wanted)]


def _covers(outer: str, path: str, barriers: tuple[str, ...]) -> bool:
    if outer == path or not is_within(path, outer):
        return False
    return not any(is_within(path, wall) and is_within(wall, outer) for wall in barriers)


def plan_mounts(
    command: SandboxCommand, toolchains: list[str], *, on_overlay: bool = False, pinned: tuple[str, ...] = ()
) -> list[SandboxMount]:
    """Return all mounts, parents before the paths inside them. `pinned` are read-only, and cannot be renamed."""
    folders, roots = command.folders, writable_roots(command)
    kinds: dict[str, MountKind] = {}

    def add_mount(path: str, kind: MountKind) -> None:
        if path not in kinds or _PRECEDENCE[kind] >= _PRECEDENCE[kinds[path]]:
            kinds[path] = kind

    for path in toolchains:
        # Our own Python environment is never writable, even inside a writable folder.
        if path == sys.prefix or not any(is_within(path, root) for root in roots):
            add_mount(path, "read")
    for path in folders.readable:
        if os.path.isdir(path):
            add_mount(path, "read")
    for path in roots:
        add_mount(path, "write")
    for path in existing_paths(folders.command_readonly, roots):
        add_mount(path, "read")
    fixed = list(existing_paths(folders.protected, [*roots, *folders.readable]))
    for path in fixed:
        add_mount(path, "hide")
    for path in pinned:
        add_mount(path, "read")
    if not on_overlay:
        # A mount point cannot be renamed. Otherwise a command could rename a folder above a hidden file, and read that
        # file under its new path the next time. An overlay cannot rename folders that were there before.
        for path in [*fixed, *pinned, *(path for path in kinds if path == sys.prefix)]:
            for above in folders_between(path, roots):
                add_mount(above, "pin")
    mounts = [SandboxMount(path, kind) for path, kind in kinds.items()]
    return sorted(mounts, key=lambda mount: (mount.path.count("/"), mount.path))


def existing_paths(paths: tuple[str, ...], roots: list[str]) -> list[str]:
    return [path for path in paths if os.path.lexists(path) and any(is_within(path, root) for root in roots)]


def folders_between(path: str, roots: list[str]) -> list[str]:
    """Return the folders between a path and the root that contains it."""
    folders = []
    above = os.path.dirname(path)
    while above not in roots and any(is_within(above, root) for root in roots):
        folders.append(above)
        above = os.path.dirname(above)
    return folders


def mount_arguments(mounts: list[SandboxMount], overlays: dict[str, list[str]]) -> list[str]:
    """Return the arguments for bwrap. Hidden folders are made read-only last: other mounts may go inside them."""
    arguments: list[str] = []
    closed: list[str] = []
    for mount in mounts:
        path = mount.path
        match mount.kind:
            case "write" if path in overlays:
                arguments += overlays[path]
            case "write" | "pin":
                arguments += ["--bind", path, path]
            case "read":
                arguments += ["--ro-bind", path, path]
            case "hide" if os.path.isdir(path) and not os.path.islink(path):
                arguments += ["--perms", "0555", "--size", "4096", "--tmpfs", path]
                closed += ["--remount-ro", path]
            case "hide":
                arguments += ["--ro-bind", os.devnull, path]
    return arguments + closed


class BubblewrapSetup:
    """File-system setup of one command: its overlay, if any, and protected paths that must not come to exist."""

    def __init__(self, command: SandboxCommand, overlay_folder: str | None) -> None:
        folders = command.folders
        self._roots = writable_roots(command)
        self._absent_protected = [path for path in folders.protected if not os.path.lexists(path)]
        self.overlay: CommandOverlay | None = None
        self._watch: ObeyedFileWatch | None = None
        if command.protect_obeyed and overlay_folder is None:
            from mainstay.sandbox.bubblewrap.obeyed_file_watch import ObeyedFileWatch

            # not the scratch folder: it is the commands' own home, with settings of their programs
            watched = [root for root in self._roots if root != folders.scratch or root == folders.cwd]
            self._watch = ObeyedFileWatch(watched, folders.obeyed_paths, command.may_change)
        if overlay_folder is not None:
            from mainstay.sandbox.bubblewrap.obeyed_file_guard import ObeyedFileGuard
            from mainstay.sandbox.bubblewrap.overlay import CommandOverlay

            protects_obeyed = command.protect_deletions or command.protect_obeyed
            guard = ObeyedFileGuard(
                self._roots,
                folders.protected,
                obeyed=folders.obeyed_paths,
                may_change=command.may_change if protects_obeyed else lambda path, topic: True,
                accepts_harmless=not command.protect_deletions,
                home=folders.scratch,
            )
            removable = command.is_own_file if command.protect_deletions else None
            try:
                self.overlay = CommandOverlay(
                    self._roots, overlay_folder, guard, removable, command.on_written, command.change_recorder
                )
                self.overlay.copy_folders(command.movable_folders)
            except OSError as error:
                raise SandboxUnusable(f"deletions cannot be held back: {error.strerror or error}") from error

    @property
    def pinned_paths(self) -> tuple[str, ...]:
        """Return existing files to mount read-only, where there is no overlay."""
        return self._watch.existing_paths if self._watch is not None else ()

    def finish(self) -> MergeResult:
        merged = MergeResult()
        if self.overlay is not None:
            merged = self.overlay.merge()
        elif self._watch is not None:
            from mainstay.sandbox.bubblewrap.held_changes import HeldChangeCollector

            collector = HeldChangeCollector()
            for path in self._watch.find_new_paths():
                root = next(root for root in self._roots if is_within(path, root))
                collector.add_created(path)
                remove_created_path(root, os.path.relpath(path, root).split("/"))
            merged = MergeResult(held_changes=collector.to_tuple())
        for path in self._absent_protected:
            for root in self._roots:
                if is_within(path, root) and os.path.lexists(path):
                    remove_created_path(root, os.path.relpath(path, root).split("/"))
        return merged


def remove_created_path(root: str, steps: list[str]) -> None:
    """Remove a path that a command created against protection. If a parent is a link, the link is removed instead."""
    folder = os.open(root, OPEN_FOLDER_FLAGS)
    try:
        for number, step in enumerate(steps):
            status = os.stat(step, dir_fd=folder, follow_symlinks=False)
            if number == len(steps) - 1 and stat.S_ISDIR(status.st_mode):
                remove_tree(step, dir_fd=folder)
            elif number == len(steps) - 1 or not stat.S_ISDIR(status.st_mode):
                os.unlink(step, dir_fd=folder)
                return
            else:
                inner = os.open(step, OPEN_FOLDER_FLAGS, dir_fd=folder)
                os.close(folder)
                folder = inner
    except FileNotFoundError:  # another process removed it
        pass
    finally:
        os.close(folder)
