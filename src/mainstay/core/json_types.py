"""Types of JSON values.

`JsonValue` and `JsonObject` are for values that are decoded or built here. A parameter that only reads takes a
`JsonMapping`: a `dict[str, str]` is one, but not a `JsonObject`, because a list could be stored in a `JsonObject`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
    ReadOnlyJson: TypeAlias = bool | int | float | str | Sequence["ReadOnlyJson"] | Mapping[str, "ReadOnlyJson"] | None
else:  # in a field of a struct, msgspec decodes any JSON into `Any`; it has no recursive types
    JsonValue = ReadOnlyJson = Any

JsonObject: TypeAlias = dict[str, JsonValue]
JsonMapping: TypeAlias = Mapping[str, ReadOnlyJson]
