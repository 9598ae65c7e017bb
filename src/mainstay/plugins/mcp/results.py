"""What a server answers, as the text that a model reads and the images that it sees. Imports the SDK."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence

import mcp_types as types

from mainstay.plugins.mcp.nouns import Answer
from mainstay.plugins.mcp.server import McpLimits
from mainstay.plugins.mcp.sieve import PARTS_MAX
from mainstay.trust.guards.lines import one_line

WORD_CHARS_MAX = 300
ABOUT_CHARS_MAX = 500


class Album:
    """The images of one answer."""

    def __init__(self, limits: McpLimits) -> None:
        self._limits = limits
        self.images: list[tuple[str, bytes]] = []

    def add(self, data: str, mime: str) -> str:
        """Shown if it is what models can see, whatever it is said to be; and what is said of it in the text."""
        said, size = plain(mime), size_of(data)
        if size > self._limits.image_bytes_max:
            return f"[{said}, {size} bytes: too large to be shown]"
        if len(self.images) >= self._limits.images_max:
            return f"[{said}, {size} bytes: one image too many]"
        try:
            image = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return f"[{said}: what came is no image]"
        kind = _kind(image)
        if not kind:
            return f"[{said}, {size} bytes: only png, jpeg, gif and webp are shown]"
        self.images.append((kind, image))
        return f"[{kind}, {len(image)} bytes, shown below]"


def answer_of(result: types.CallToolResult, limits: McpLimits) -> Answer:
    """Text parts as they are, one after another; of everything else what it is. `_meta` is nobody's business here."""
    album = Album(limits)
    said = [_rendered(part, album) for part in result.content[:PARTS_MAX]]
    texts = any(isinstance(part, types.TextContent) and part.text for part in result.content)
    if not texts and result.structured_content is not None:
        said.append(json.dumps(result.structured_content, ensure_ascii=False))
    text = "\n".join(one for one in said if one)
    return Answer(text=text, images=tuple(album.images), is_error=result.is_error)


def contents_of(parts: Sequence[types.TextResourceContents | types.BlobResourceContents], limits: McpLimits) -> Answer:
    """Of a resource."""
    album = Album(limits)
    text = "\n".join(_contents(part, album) for part in parts[:PARTS_MAX])
    return Answer(text=text, images=tuple(album.images))


def text_of(part: types.ContentBlock, limits: McpLimits) -> str:
    """Of a prompt, which is words."""
    return _rendered(part, Album(limits))


def _rendered(part: types.ContentBlock, album: Album) -> str:
    match part:
        case types.TextContent():
            return part.text
        case types.ImageContent():
            return album.add(part.data, part.mime_type)
        case types.AudioContent():
            return f"[{plain(part.mime_type)}, {size_of(part.data)} bytes: sound is not played]"
        case types.ResourceLink():
            about = f": {one_line(part.description)[:ABOUT_CHARS_MAX]}" if part.description else ""
            return f"[resource {plain(part.uri)} ({plain(part.name)}){about}]"
        case types.EmbeddedResource():
            return _contents(part.resource, album)


def _contents(part: types.TextResourceContents | types.BlobResourceContents, album: Album) -> str:
    head = f"[resource {plain(part.uri)}]"
    if isinstance(part, types.TextResourceContents):
        return f"{head}\n{part.text}"
    mime = part.mime_type or "no text"
    if mime.startswith("image/"):
        return f"{head}\n{album.add(part.blob, mime)}"
    return f"{head}\n[{plain(mime)}, {size_of(part.blob)} bytes: not shown]"


def _kind(data: bytes) -> str:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data.startswith(b"RIFF") and data[8:12] == b"WEBP" else ""


def size_of(data: str) -> int:
    """Of what stands in base64."""
    return len(data) * 3 // 4


def plain(text: str) -> str:
    return one_line(text)[:WORD_CHARS_MAX]
