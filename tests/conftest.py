"""Shared by all tests: where the doubles are found."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "simulation"))
sys.path.insert(0, str(Path(__file__).parent / "conformance"))
sys.path.insert(0, str(Path(__file__).parent / "unit" / "lane"))
sys.path.insert(0, str(Path(__file__).parent / "unit" / "context"))
