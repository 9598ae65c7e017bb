"""What the built-in tools share: arguments from a struct, a schema of few words, and where files may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from mainstay.core.arguments import read_arguments, schema_of
from mainstay.core.errors import MainstayError
from mainstay.core.outside import Grounds, Labels
from mainstay.core.ports import Effect, ToolContext


class ToolRefused(MainstayError):
    """What was asked for cannot be done, in a sentence for the model. Nothing was changed."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the arguments of a built-in tool: its fields are the parameters, those with a default may be left out.

    `class _Read(Arguments, frozen=True)`: mypy wants the word again."""


class BuiltIn:
    """Base of the built-in tools. A subclass declares itself in class attributes and has `run`; one whose effect is
    `reconcile` has `reconcile`, and one that reaches differently far from call to call has
    `reach(arguments, context) -> Reach`."""

    name: str
    description: str
    arguments: ClassVar[type[msgspec.Struct]]
    schema: dict[str, Any]
    effect: Effect = "pure"
    timeout_s: float | None = None
    untrusted: bool = False
    sink: bool | tuple[str, ...] = False
    capabilities: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "arguments"):
            cls.schema = schema_of(cls.arguments)

    def parse(self, input: str) -> Any:
        return read_arguments(input, self.arguments, self.schema)

    async def run(self, arguments: Any, context: ToolContext) -> str:
        raise NotImplementedError

    async def reconcile(self, arguments: Any, context: ToolContext) -> str | None:
        return None  # may simply be run again


class Files:
    """Where each session may work, and what is known of the files there."""

    __slots__ = ("grounds", "judged", "labels")

    def __init__(self, grounds: Callable[[str], Grounds], labels: Labels) -> None:
        self.grounds = grounds  # by session key
        self.labels = labels
        self.judged: dict[str, bool] = {}  # by call: whether it was a sink when it was asked about
