"""`Operation`, the typed request of one verb, and the types that its fields share."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

R = TypeVar("R", covariant=True)

Interface = Literal["library", "socket", "http", "grpc", "mcp"]
# the owner's own process, and commands on the same machine
LOCAL: frozenset[Interface] = frozenset(("library", "socket"))
NETWORK: frozenset[Interface] = frozenset(("library", "socket", "http", "grpc"))
EVERYWHERE: frozenset[Interface] = NETWORK | {"mcp"}
MODEL_DRIVEN: frozenset[Interface] = frozenset(("mcp",))  # interfaces whose caller may be a language model

# What the caller needs: nothing (`any`), a scope of the principal in its workspace, or (`home`) the right to administer
# the whole home.
Access = Literal["any", "chat", "approve", "admin", "home"]

SEQUENCE_MAX = 1 << 53  # numbers that JavaScript clients read exactly
Name = Annotated[str, Meta(max_length=200)]
SessionName = Annotated[str, Meta(min_length=1, max_length=512)]
Line = Annotated[str, Meta(max_length=2_000)]
Count = Annotated[int, Meta(ge=0, le=SEQUENCE_MAX)]
Milliseconds = Count  # since 1970
PageSize = Annotated[int, Meta(ge=1, le=1_000)]


class Operation(
    msgspec.Struct, Generic[R], frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="operation", tag=True
):
    """A request to do one thing. Subclasses name it as a command (`ForkSession`); `R` is what running it returns."""
