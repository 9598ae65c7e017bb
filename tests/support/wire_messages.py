"""The messages of a provider's request, as its API is sent them."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from mainstay.core.ports import Context, Options

_FIELDS = ("messages", "input", "contents")  # where an API takes the conversation


class BodyBuilder(Protocol):
    def build_body(self, context: Context, options: Options) -> bytes: ...


def wire_messages(provider: BodyBuilder, context: Context) -> list[dict[str, Any]]:
    body = msgspec.json.decode(provider.build_body(context, Options()), type=dict[str, Any])
    (messages,) = [body[field] for field in _FIELDS if field in body]
    return msgspec.convert(messages, list[dict[str, Any]])
