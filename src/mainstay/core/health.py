"""Findings of health checks (`mainstay doctor`). A check lives beside what it checks."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

Verdict = Literal["ok", "warn", "FAIL"]


class CheckFinding(msgspec.Struct, frozen=True, rename={"message": "says", "is_fixed": "mended"}):
    """Result of one check. `fix` says what to do; with `is_fixed` it was done."""

    check: str
    verdict: Verdict
    message: str
    fix: str = ""
    is_fixed: bool = False


class CheckContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the check of a component may know beside the component's settings."""

    home: Path  # folder with the configuration
    data: Path  # folder with the databases; mostly the home
    workspace: str
    timeout_s: float = 10.0  # for the whole check
    is_offline: bool = False  # True: no network access
