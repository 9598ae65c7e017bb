"""Converts MCP results (tool calls, resources, prompts) to text and images for the model. Imports the SDK."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence

import mcp_types as types

from mainstay.guards.line_escaping import one_line
from mainstay.plugins.mcp.data_types import McpAnswer
from mainstay.plugins.mcp.message_filter import LIST_ITEMS_MAX
from mainstay.plugins.mcp.server_config import McpLimits

LABEL_CHARS_MAX = 300
DESCRIPTION_CHARS_MAX = 500


class ImageCollector:
    """Collects the images of one answer, within limits."""

    def __init__(self, limits: McpLimits) -> None:
        self._limits = limits
        self.images: list[tuple[str, bytes]] = []

    def add(self, data: str, mime: str) -> str:
        """Add an image (base64) if its content is of a type that models accept, whatever its declared type. Return the
        text that stands in its place."""
        declared, size = shorten_line(mime), decoded_size(data)
        if size > self._limits.image_bytes_max:
            return f"[{declared}, {size} bytes: too large to be shown]"
        if len(self.images) >= self._limits.images_max:
            return f"[{declared}, {size} bytes: not shown, too many images]"
        try:
            image = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return f"[{declared}: the content is not an image]"
        kind = _image_type(image)
        if not kind:
            return f"[{declared}, {size} bytes: only png, jpeg, gif and webp are shown]"
        self.images.append((kind, image))
        return f"[{kind}, {len(image)} bytes, shown below]"


def call_result_to_answer(result: types.CallToolResult, limits: McpLimits) -> McpAnswer:
    """Convert a tool result: text parts as they are, a short description of every other part. `_meta` is ignored."""
    album = ImageCollector(limits)
    parts = [_render_part(part, album) for part in result.content[:LIST_ITEMS_MAX]]
    has_text = any(isinstance(part, types.TextContent) and part.text for part in result.content)
    if not has_text and result.structured_content is not None:
        parts.append(json.dumps(result.structured_content, ensure_ascii=False))
    text = "\n".join(part for part in parts if part)
    return McpAnswer(text=text, images=tuple(album.images), is_error=result.is_error)


def resource_to_answer(
    parts: Sequence[types.TextResourceContents | types.BlobResourceContents], limits: McpLimits
) -> McpAnswer:
    """Convert the contents of a resource."""
    album = ImageCollector(limits)
    text = "\n".join(_render_contents(part, album) for part in parts[:LIST_ITEMS_MAX])
    return McpAnswer(text=text, images=tuple(album.images))


def prompt_part_to_text(part: types.ContentBlock, limits: McpLimits) -> str:
    """Return one part of a prompt as text; its images are only described."""
    return _render_part(part, ImageCollector(limits))


def _render_part(part: types.ContentBlock, images: ImageCollector) -> str:
    match part:
        case types.TextContent():
            return part.text
        case types.ImageContent():
            return images.add(part.data, part.mime_type)
        case types.AudioContent():
            return f"[{shorten_line(part.mime_type)}, {decoded_size(part.data)} bytes: audio is not supported]"
        case types.ResourceLink():
            about = f": {one_line(part.description)[:DESCRIPTION_CHARS_MAX]}" if part.description else ""
            return f"[resource {shorten_line(part.uri)} ({shorten_line(part.name)}){about}]"
        case types.EmbeddedResource():
            return _render_contents(part.resource, images)


def _render_contents(part: types.TextResourceContents | types.BlobResourceContents, images: ImageCollector) -> str:
    head = f"[resource {shorten_line(part.uri)}]"
    if isinstance(part, types.TextResourceContents):
        return f"{head}\n{part.text}"
    mime = part.mime_type or "no text"
    if mime.startswith("image/"):
        return f"{head}\n{images.add(part.blob, mime)}"
    return f"{head}\n[{shorten_line(mime)}, {decoded_size(part.blob)} bytes: not shown]"


def _image_type(data: bytes) -> str:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data.startswith(b"RIFF") and data[8:12] == b"WEBP" else ""


def decoded_size(data: str) -> int:
    """Return the number of bytes that a base64 text decodes to, roughly."""
    return len(data) * 3 // 4


def shorten_line(text: str) -> str:
    return one_line(text)[:LABEL_CHARS_MAX]
