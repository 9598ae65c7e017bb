"""Detects the type and size of an image from its header."""

from __future__ import annotations

import struct

import msgspec


class ImageInfo(msgspec.Struct, frozen=True, gc=False):
    mime: str
    width: int = 0  # in pixels; 0: unknown
    height: int = 0


def parse_image_header(head: bytes) -> ImageInfo | None:
    """Parse an image header; None if it is not a PNG, GIF, WebP or JPEG."""
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return ImageInfo("image/png", *struct.unpack(">II", head[16:24]))
        if head.startswith((b"GIF87a", b"GIF89a")):
            return ImageInfo("image/gif", *struct.unpack("<HH", head[6:10]))
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return ImageInfo("image/webp", *_read_webp_size(head))
        if head.startswith(b"\xff\xd8\xff"):
            return ImageInfo("image/jpeg", *_read_jpeg_size(head))
    except struct.error:  # the header is incomplete
        return None
    return None


def _read_webp_size(head: bytes) -> tuple[int, int]:
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


def _read_jpeg_size(head: bytes) -> tuple[int, int]:
    """Find the size in the start-of-frame segment, skipping the segments before it by their lengths."""
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        kind = head[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + (0 if kind == 0xFF else max(int.from_bytes(head[at + 2 : at + 4], "big"), 2))
    return 0, 0
