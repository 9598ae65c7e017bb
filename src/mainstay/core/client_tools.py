"""Client tools: tools that an API client declares with its request and runs itself."""

from __future__ import annotations

import msgspec

from mainstay.core.json_types import JsonObject


class ClientTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """Declaration of a client tool. A call is returned to the client, and the turn pauses until it sends the result."""

    name: str
    description: str = ""
    schema: JsonObject = {}
