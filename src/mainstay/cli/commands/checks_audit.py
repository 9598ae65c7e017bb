"""What `doctor` looks at of the audit: whether every entry is as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from mainstay.agent.auditing import checked
from mainstay.agent.places import GATEWAY
from mainstay.cli.commands.checks import Finding
from mainstay.cli.commands.homes import kept_in

SAID_MAX = 3  # of what is wrong; `audit verify` says all of it


def audit(home: Path) -> Iterator[Finding]:
    """Whole, so this takes a moment where it is long. Those who have none hear nothing of it."""
    data = kept_in(home)
    wrong = list(islice((one for one in checked(data) if not one.fine), SAID_MAX))
    if not wrong and (data / GATEWAY).exists():
        yield Finding("Audit", "ok", "every entry is as it was written")
    for one in wrong:
        yield Finding("Audit", "FAIL", str(one), "mainstay audit verify; see docs/how-to/audit.md")
