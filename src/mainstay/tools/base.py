"""Base classes of the built-in tools: arguments, tool declaration, and access to session files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.json_types import JsonObject
from mainstay.core.ports import Effect, ToolContext
from mainstay.core.tool_arguments import build_schema, parse_arguments
from mainstay.core.tool_ports import FileLabelStore, SessionFolders

if TYPE_CHECKING:  # only calls that change files need the module
    from mainstay.io.undo_store import UndoStore

FindTurnOwner = Callable[[str, int], Awaitable[tuple[str, int]]]


class ToolRefused(MainstayError):
    """The tool cannot do what was asked; the message is for the model. Nothing was changed."""


class ToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the arguments of a built-in tool: its fields are the parameters, those with a default are optional.

    Subclasses repeat `frozen=True`, because mypy needs it."""


class BuiltInTool:
    """Base of the built-in tools. A subclass declares its properties in class attributes and implements `run`. It
    implements `reconcile` if that is its effect, and `reach(arguments, context) -> CallDestinations` if the reach
    depends on the call."""

    name: str
    description: str
    arguments: ClassVar[type[msgspec.Struct]]
    schema: JsonObject
    effect: Effect = "pure"
    timeout_s: float | None = None
    untrusted: bool = False
    sink: bool | tuple[str, ...] = False
    capabilities: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "arguments"):
            cls.schema = build_schema(cls.arguments)

    def parse(self, input: str) -> msgspec.Struct:
        return parse_arguments(input, self.arguments, self.schema)

    async def run(self, arguments: Any, context: ToolContext) -> str:
        raise NotImplementedError

    async def reconcile(self, arguments: Any, context: ToolContext) -> str | None:
        return None  # not done yet: run it again


class SessionFileAccess:
    """The folders of each session, the origin labels of the files in them, and where previous contents are kept."""

    __slots__ = ("find_turn_owner", "folders_of", "labels", "sink_verdicts", "undo_store")

    def __init__(
        self,
        folders_of: Callable[[str], SessionFolders],
        labels: FileLabelStore,
        undo_store: UndoStore | None = None,
    ) -> None:
        self.folders_of = folders_of  # by session key
        self.labels = labels
        self.undo_store = undo_store  # None: previous contents are not kept
        # (session, turn) → those of the person's turn that a sub-agent works for; None: the same
        self.find_turn_owner: FindTurnOwner | None = None
        self.sink_verdicts: dict[str, bool] = {}  # by idempotency key: whether the call was a sink when it was judged
