"""Shared by all tests: where the doubles are found, and what is done once for all of them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "simulation"))
sys.path.insert(0, str(Path(__file__).parent / "conformance"))
sys.path.insert(0, str(Path(__file__).parent / "unit" / "lane"))
sys.path.insert(0, str(Path(__file__).parent / "unit" / "context"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thirteen thousand tests are no garbage: looking for some among them took longer than finding the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
