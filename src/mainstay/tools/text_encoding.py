"""Detects text encodings, and decodes and encodes files without changing unedited bytes."""

from __future__ import annotations

import codecs

import msgspec

from mainstay.tools.base import ToolRefused

PROBE_BYTES = 8_192
_UTF16_BOMS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_CONTROL_BYTES = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f\b\x1b")

_MAGIC_NUMBERS = (
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


class DecodedText(msgspec.Struct, frozen=True):
    """The text of a file, with its encoding and byte-order mark."""

    text: str
    encoding: str
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            what = text[error.start : error.start + 1]
            raise ToolRefused(
                f"The file is {self.encoding}, which cannot represent {what!a}. Nothing was changed."
            ) from None


def detect_encoding(head: bytes) -> tuple[str, bytes]:
    """Detect the encoding ("" if it is not text) and the byte-order mark from the beginning of a file."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "", b""
    for mark, name in _UTF16_BOMS.items():
        if head.startswith(mark):
            return name, mark
    bom = codecs.BOM_UTF8 if head.startswith(codecs.BOM_UTF8) else b""
    if b"\0" in head or head.startswith(b"%PDF"):
        return "", b""
    control = len(head) - len(head.translate(None, _CONTROL_BYTES))
    if control * 20 > len(head):
        return "", b""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be incomplete
    except UnicodeDecodeError:
        return "latin-1", b""
    return "utf-8", bom


def describe_binary(head: bytes) -> str:
    """Describe a binary file by its magic number, for the model."""
    return next((kind for start, kind in _MAGIC_NUMBERS if head.startswith(start)), "binary data")


def decode_file(data: bytes, display_path: str) -> DecodedText:
    """Decode a whole file. Raises ToolRefused if it is not text."""
    name, bom = detect_encoding(data[:PROBE_BYTES])
    if not name:
        raise ToolRefused(
            f"{display_path} is {describe_binary(data)} of {len(data)} bytes, not text. Nothing was changed."
        )
    try:
        return DecodedText(data[len(bom) :].decode(name), name, bom)
    except UnicodeDecodeError:
        if name.startswith("utf-16"):
            raise ToolRefused(f"{display_path} begins like UTF-16 but is not. Nothing was changed.") from None
        return DecodedText(data.decode("latin-1"), "latin-1")
