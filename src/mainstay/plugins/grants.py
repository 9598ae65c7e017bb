"""Folders that were granted, and what has become of them since.

Whoever may write a folder decides what lies in it: a link to the owner's home, say, in the place of a folder that was
granted to itself or to another. So a grant is the real path that it was when it was given, and nothing behind a link
that was laid by somebody else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.outside import Needs
from mainstay.io.beneath import is_inside
from mainstay.trust.guards.lines import one_line

_OF_THE_SYSTEM = ("/proc", "/sys", "/dev")  # no folders of anybody's, and some of them lead everywhere
_LINKS_MAX = 40


def too_much(folder: str) -> bool:
    """All of the disk, all of the owner's, or a place that leads there."""
    path = os.path.normpath(os.path.expanduser(folder))
    path = f"/{path.lstrip('/')}"  # two slashes at the beginning are one
    home = os.path.expanduser("~")
    wholes = [path == "/", is_inside(home, path), is_inside(os.path.realpath(home), path)]
    return any(wholes) or any(is_inside(path, one) for one in _OF_THE_SYSTEM)


def real(folder: str) -> str:
    return os.path.realpath(os.path.expanduser(folder))


def given_now(needs: Needs) -> Needs:
    """As they are kept: the folders that these paths lead to at this moment. Raises ConfigError."""
    return _settled(needs, real)


def given_beside(needs: Needs, changeable: Iterable[str]) -> Needs:
    """The same for what is not kept: see `unlinked`."""
    others = tuple(changeable)
    return _settled(needs, lambda folder: unlinked(os.path.expanduser(folder), others))


def _settled(needs: Needs, place: Callable[[str], str]) -> Needs:
    made = msgspec.structs.replace(needs, read=tuple(map(place, needs.read)), write=tuple(map(place, needs.write)))
    for asked, found in zip((*needs.read, *needs.write), (*made.read, *made.write), strict=True):
        if too_much(found):
            raise ConfigError(f"{one_line(asked)} is {one_line(found)}, which is too much to be granted")
    return made


def refuse_moved(folders: Iterable[str], who: str) -> None:
    """Raises ConfigError if something that was granted leads elsewhere by now."""
    for folder in folders:
        given = os.path.normpath(os.path.expanduser(folder))
        if (now := os.path.realpath(given)) != given:
            raise ConfigError(
                f"{who} is not started: {one_line(given)} was granted, and leads to {one_line(now)} now;"
                " if that is your doing, grant it again"
            )


def unlinked(path: str, changeable: Iterable[str]) -> str:
    """The real path, if no link on the way there lies in a folder that programs may change. Raises ConfigError."""
    roots = [os.path.realpath(one) for one in changeable]
    steps = os.path.abspath(path).split("/")[:0:-1]
    place, links = "/", 0
    while steps:
        step = steps.pop()
        if step in ("", "."):
            continue
        if step == "..":
            place = os.path.dirname(place)
            continue
        inner = os.path.join(place, step)
        try:
            link = stat.S_ISLNK(os.lstat(inner).st_mode)
            to = os.readlink(inner) if link else ""
        except OSError:  # nothing is there, and so nothing is behind it
            link, to = False, ""
        if not link:
            place = inner
            continue
        links += 1
        if links > _LINKS_MAX:
            raise ConfigError(f"{one_line(path)} is not granted: it leads through more than {_LINKS_MAX} links")
        if any(is_inside(inner, root) and inner != root for root in roots):
            raise ConfigError(
                f"{one_line(path)} is not granted: {one_line(inner)} is a link, and lies in a folder that programs may"
                " change; grant the folder that is meant"
            )
        steps += to.split("/")[::-1]
        if to.startswith("/"):
            place = "/"
    return place
