"""Folders of the checkout, and the PYTHONPATH of processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
TESTS = SUPPORT.parent
ROOT = TESTS.parent
SRC = ROOT / "src"
KEYS = SUPPORT / "keys"  # TLS certificates of test servers
PYTHONPATH = os.pathsep.join((str(SRC), str(TESTS)))
