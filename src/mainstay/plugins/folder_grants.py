"""Folder grants of plugins and MCP servers: resolves them and refuses those that symbolic links have redirected.

A program that may write a folder can replace what is in it, for instance a granted folder with a link to the owner's
home. So a grant is stored as the real path at the time it was given, and no link is followed that a program could have
made.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import ProcessPermissions
from mainstay.guards.line_escaping import one_line
from mainstay.io.path_resolver import is_inside

_SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")  # not user folders, and some give access to the whole machine
_LINKS_MAX = 40


def is_too_broad(folder: str) -> bool:
    """True for the root of the disk, the owner's home or a parent of it, and system folders such as /proc."""
    path = os.path.normpath(os.path.expanduser(folder))
    path = f"/{path.lstrip('/')}"  # normpath keeps two leading slashes
    home = os.path.expanduser("~")
    wholes = [path == "/", is_inside(home, path), is_inside(os.path.realpath(home), path)]
    return any(wholes) or any(is_inside(path, root) for root in _SYSTEM_FOLDERS)


def real_path(folder: str) -> str:
    return os.path.realpath(os.path.expanduser(folder))


def resolve_grants(permissions: ProcessPermissions) -> ProcessPermissions:
    """Return the grants as they are stored: with the real paths at this moment. Raises ConfigError if one is too
    broad."""
    return _resolve_folders(permissions, real_path)


def resolve_unpinned_grants(permissions: ProcessPermissions, writable_folders: Iterable[str]) -> ProcessPermissions:
    """Return grants that are not stored, with real paths, refusing links that programs could have made: see
    `resolve_trusted_path`. `writable_folders` are the folders that programs may change."""
    folders = tuple(writable_folders)
    return _resolve_folders(permissions, lambda folder: resolve_trusted_path(os.path.expanduser(folder), folders))


def _resolve_folders(permissions: ProcessPermissions, resolve: Callable[[str], str]) -> ProcessPermissions:
    resolved = msgspec.structs.replace(
        permissions, read=tuple(map(resolve, permissions.read)), write=tuple(map(resolve, permissions.write))
    )
    for path, real_path in zip((*permissions.read, *permissions.write), (*resolved.read, *resolved.write), strict=True):
        if is_too_broad(real_path):
            raise ConfigError(f"{one_line(path)} is {one_line(real_path)}, which is too broad to be granted")
    return resolved


def refuse_redirected(folders: Iterable[str], program_name: str) -> None:
    """Raise ConfigError if a granted folder has become a link to another one since."""
    for folder in folders:
        granted = os.path.normpath(os.path.expanduser(folder))
        if (now := os.path.realpath(granted)) != granted:
            raise ConfigError(
                f"{program_name} is not started: {one_line(granted)} was granted, but is now a link to {one_line(now)};"
                " if you changed it, grant it again"
            )


def resolve_trusted_path(path: str, writable_folders: Iterable[str]) -> str:
    """Return the real path, following only links that are outside of folders that programs may change. Raises
    ConfigError for any other link."""
    roots = [os.path.realpath(folder) for folder in writable_folders]
    steps = os.path.abspath(path).split("/")[:0:-1]
    resolved, links = "/", 0
    while steps:
        step = steps.pop()
        if step in ("", "."):
            continue
        if step == "..":
            resolved = os.path.dirname(resolved)
            continue
        candidate = os.path.join(resolved, step)
        try:
            is_link = stat.S_ISLNK(os.lstat(candidate).st_mode)
            target = os.readlink(candidate) if is_link else ""
        except OSError:  # it does not exist
            is_link, target = False, ""
        if not is_link:
            resolved = candidate
            continue
        links += 1
        if links > _LINKS_MAX:
            raise ConfigError(f"{one_line(path)} is not granted: its path has more than {_LINKS_MAX} links")
        if any(is_inside(candidate, root) and candidate != root for root in roots):
            raise ConfigError(
                f"{one_line(path)} is not granted: {one_line(candidate)} is a link in a folder that programs may"
                " change; grant the folder that it points to"
            )
        steps += target.split("/")[::-1]
        if target.startswith("/"):
            resolved = "/"
    return resolved
