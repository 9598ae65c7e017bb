"""The two halves of the corpus, by a checksum of the names."""

from __future__ import annotations

from typing import Literal
from zlib import crc32

Half = Literal["seen", "unseen"]


def half_of(name: str) -> Half:
    return "seen" if crc32(name.encode()) % 2 else "unseen"
