"""Bytes of a file as text and back, byte for byte where nothing was changed; and what is no text at all."""

from __future__ import annotations

import codecs

import msgspec

from mainstay.tools.common import ToolRefused

PROBE = 8_192
_WIDE = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_CONTROL = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f\b\x1b")

_KINDS = (
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a zip archive or office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"(\xb5/\xfd", "a zstd archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"SQLite format 3", "a SQLite database"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"OggS", "audio or video"),
    (b"ID3", "audio"),
    (b"fLaC", "audio"),
    (b"\xca\xfe\xba\xbe", "a Java class"),
    (b"\x00asm", "a WebAssembly module"),
)


class Decoded(msgspec.Struct, frozen=True):
    """A text, and how its file writes it."""

    text: str
    encoding: str
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            what = text[error.start : error.start + 1]
            raise ToolRefused(
                f"The file is {self.encoding}, which cannot hold {what!a}. Nothing was changed."
            ) from None


def encoding_of(head: bytes) -> tuple[str, bytes]:
    """By a file's beginning: its encoding, "" if it is no text, and the mark it begins with."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "", b""
    for mark, name in _WIDE.items():
        if head.startswith(mark):
            return name, mark
    bom = codecs.BOM_UTF8 if head.startswith(codecs.BOM_UTF8) else b""
    if b"\0" in head or head.startswith(b"%PDF"):
        return "", b""
    control = len(head) - len(head.translate(None, _CONTROL))
    if control * 20 > len(head):
        return "", b""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # its last character may be cut
    except UnicodeDecodeError:
        return "latin-1", b""
    return "utf-8", bom


def kind_of(head: bytes) -> str:
    """What is no text, in words."""
    return next((kind for start, kind in _KINDS if head.startswith(start)), "binary data")


def decode(data: bytes, shown: str) -> Decoded:
    """A file whole."""
    name, bom = encoding_of(data[:PROBE])
    if not name:
        raise ToolRefused(f"{shown} is {kind_of(data)} of {len(data)} bytes, not text. Nothing was changed.")
    try:
        return Decoded(data[len(bom) :].decode(name), name, bom)
    except UnicodeDecodeError:
        if name.startswith("utf-16"):
            raise ToolRefused(f"{shown} begins like UTF-16 but is not. Nothing was changed.") from None
        return Decoded(data.decode("latin-1"), "latin-1")
