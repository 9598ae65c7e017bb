"""Structured answers: ask for a shape, check it, say what is wrong with it."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import msgspec

from mainstay.core.errors import ToolDefinitionError
from mainstay.core.messages import AnyPart, Text

_FENCE = re.compile(r"^\s*```[a-zA-Z]*\n(.*?)\n?```\s*$", re.DOTALL)


class Shape:
    """A type that the final answer must fit: anything msgspec reads, or a pydantic model."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self._pydantic = hasattr(kind, "model_validate_json")
        try:
            self.schema = (
                cast("dict[str, Any]", kind.model_json_schema()) if self._pydantic else msgspec.json.schema(kind)
            )
        except TypeError as error:
            raise ToolDefinitionError(f"output={kind!r} is not a type that JSON can carry: {error}") from error

    def request(self) -> AnyPart:
        wanted = json.dumps(self.schema, separators=(",", ":"))
        return Text(
            f"\n\nAnswer with one JSON value and nothing else. It must fit this JSON Schema: {wanted}", origin="runtime"
        )

    def read(self, text: str) -> Any:
        """Raises ValueError with what is wrong."""
        fenced = _FENCE.match(text)
        body = fenced[1] if fenced else text
        if self._pydantic:
            return self.kind.model_validate_json(body)
        return msgspec.json.decode(body, type=self.kind)

    def review(self, text: str) -> str | None:
        try:
            self.read(text)
        except ValueError as error:
            return f"The answer does not fit the JSON Schema: {error}. Answer again, with the corrected JSON only."
        return None
