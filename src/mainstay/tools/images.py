"""What an image is, by its header alone."""

from __future__ import annotations

import struct

import msgspec


class Image(msgspec.Struct, frozen=True, gc=False):
    mime: str
    width: int = 0  # 0: its header does not say
    height: int = 0


def image_of(head: bytes) -> Image | None:
    """None if it is none that a model can see."""
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return Image("image/png", *struct.unpack(">II", head[16:24]))
        if head.startswith((b"GIF87a", b"GIF89a")):
            return Image("image/gif", *struct.unpack("<HH", head[6:10]))
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return Image("image/webp", *_webp(head))
        if head.startswith(b"\xff\xd8\xff"):
            return Image("image/jpeg", *_jpeg(head))
    except struct.error:  # it ends in the middle of its header
        return None
    return None


def _webp(head: bytes) -> tuple[int, int]:
    match head[12:16]:
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", head[26:30])
            return width & 0x3FFF, height & 0x3FFF
    return 0, 0


def _jpeg(head: bytes) -> tuple[int, int]:
    """The sizes stand in a segment somewhere behind others, each of which says how long it is."""
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        kind = head[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + (0 if kind == 0xFF else max(int.from_bytes(head[at + 2 : at + 4], "big"), 2))
    return 0, 0
