"""Components for stores and fact stores, and the port for what a workspace keeps beside its journals."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import msgspec

from mainstay.core.components import Component
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import FactTier, WorkspaceTiers
from mainstay.core.tool_ports import FileLabelStore, PluginState

if TYPE_CHECKING:
    from mainstay.core.channels import ChannelQueue
    from mainstay.core.triggers import TriggerLog


@runtime_checkable
class AuxiliaryStores(Protocol):
    """What a workspace keeps beside its journals. A `Store` that implements it too keeps everything in one place; for
    one that does not, these are kept in memory (`store/memory/auxiliary_stores.py`). Use it while the store is open."""

    async def load_file_labels(self) -> FileLabelStore:
        """Load the origins of files that agents wrote."""
        ...

    def plugin_state(self) -> PluginState: ...
    def trigger_log(self) -> TriggerLog: ...
    def channel_queue(self) -> ChannelQueue: ...
    def open_tiers(self, *, vectors: bool) -> AbstractAsyncContextManager[WorkspaceTiers]:
        """Open the memory tiers; `vectors`: with vector search, if it is available."""
        ...


@runtime_checkable
class EphemeralStore(Protocol):
    """A `Store` whose sessions end with the process. The home does not miss their events in the next process."""

    ends_with_process: Literal[True]


class StoreLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Which workspace a store is for."""

    folder: Path  # the workspace's, in the home; it exists unless `read_only`
    workspace: str
    limits: Limits = Limits()
    read_only: bool = False  # another process may be writing; where nothing is stored yet, the store is empty
    home_database: Path | None = None  # the home's own database, which knows how far it has read each journal


class StoreComponent(Component, frozen=True, kw_only=True):
    """The manifest of a store. Its factory is `build(options, location) -> Store`, its check `check(options, context)
    -> Iterable[CheckFinding]`; the check may block."""

    file: str = ""  # in a workspace's folder, if the workspace has been used; empty: the folder itself tells


class FactStoreContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the factory of a fact store gets beside its options. The factory is `open(options, context) ->
    AbstractAsyncContextManager[FactTier]`, its check `check(options, context) -> Iterable[CheckFinding]` with a
    `CheckContext`; the check may block."""

    folder: Path | None  # the workspace's, in the home, with the workspace's name; None: nothing may be stored on disk
    store_facts: FactTier  # that of the workspace's store, which is open
