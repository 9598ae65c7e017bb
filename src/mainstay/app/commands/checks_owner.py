"""Whoever owns a home read its configuration when it started: has that changed since?"""

from __future__ import annotations

from pathlib import Path

from mainstay.app.schema import FILE
from mainstay.store.home import is_owned, owner


def works_with_old(home: Path, data: Path) -> str:
    """A sentence, if a process owns the home and its configuration is newer than that process; else empty.

    `data` is where the home's things are kept, which the configuration may say. Both clocks count: the lock has whole
    seconds, so what was changed within the first of them is not noticed.
    """
    path = home / FILE
    if not is_owned(data):
        return ""
    try:
        since = float(str(owner(data).get("since", "")))
        changed = path.stat().st_mtime >= since + 1.0
    except (OSError, ValueError):
        return ""
    if not changed:
        return ""
    return f"{path} was changed since; process {owner(data).get('pid')} works with what it said before"
