"""Tools that whoever asks brings along, and runs itself."""

from __future__ import annotations

from typing import Any

import msgspec


class GuestTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """Told to the model like any other. A call of it is handed back: the turn waits until its result is handed in."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}
