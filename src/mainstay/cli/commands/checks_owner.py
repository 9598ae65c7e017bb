"""Whoever owns a home read its configuration when it started: has that changed since?"""

from __future__ import annotations

from pathlib import Path

from mainstay.config.schema import FILE
from mainstay.store.home import LOCK, is_owned, owner


def works_with_old(home: Path, data: Path) -> str:
    """A sentence, if a process owns the home and its configuration is newer than what that process has read; else
    empty.

    `data` is where the home's things are kept, which the configuration may say. The lock was written when the process
    started, or last touched when it read the configuration again.
    """
    path = home / FILE
    if not is_owned(data):
        return ""
    try:
        changed = path.stat().st_mtime > (data / LOCK).stat().st_mtime
    except OSError:
        return ""
    if not changed:
        return ""
    return f"{path} was changed since; process {owner(data).get('pid')} works with what it said before"
