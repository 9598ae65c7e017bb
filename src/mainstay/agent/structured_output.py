"""Structured output: asks for JSON of a type, validates the answer, and requests a correction."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Protocol, TypeGuard

import msgspec

from mainstay.core.errors import ToolDefinitionError
from mainstay.core.messages import AnyPart, Text

_CODE_FENCE = re.compile(r"^\s*```[a-zA-Z]*\n(.*?)\n?```\s*$", re.DOTALL)


class PydanticModel(Protocol):
    """The methods of a pydantic model class that are used here."""

    def model_json_schema(self) -> Mapping[str, object]: ...
    def model_validate_json(self, text: str) -> object: ...


def _is_pydantic_model(output_type: object) -> TypeGuard[PydanticModel]:
    return hasattr(output_type, "model_validate_json")


class OutputSchema:
    """The type and JSON Schema that the final answer must fit: any type that msgspec decodes, or a pydantic model."""

    def __init__(self, output_type: object) -> None:
        self.output_type = output_type
        try:
            self.schema: Mapping[str, object] = (
                output_type.model_json_schema() if _is_pydantic_model(output_type) else msgspec.json.schema(output_type)
            )
        except TypeError as error:
            raise ToolDefinitionError(f"output={output_type!r} has no JSON Schema: {error}") from error

    def request_part(self) -> AnyPart:
        """Return the text that is appended to the prompt."""
        schema = json.dumps(self.schema, separators=(",", ":"))
        return Text(
            f"\n\nAnswer with one JSON value and nothing else. It must fit this JSON Schema: {schema}", origin="runtime"
        )

    def parse_answer(self, text: str) -> object:
        """Decode an answer, which may be in a code fence. Raises ValueError if it does not fit."""
        fenced = _CODE_FENCE.match(text)
        body = fenced[1] if fenced else text
        if _is_pydantic_model(self.output_type):
            return self.output_type.model_validate_json(body)
        decoded: object = msgspec.json.decode(body, type=self.output_type)
        return decoded

    def find_correction(self, text: str) -> str | None:
        """Return the correction to send to the model; None if the answer fits."""
        try:
            self.parse_answer(text)
        except ValueError as error:
            return f"The answer does not fit the JSON Schema: {error}. Answer again, with the corrected JSON only."
        return None
