"""What the factory of a backend gets: `factory(name, settings, context) -> Backend`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from mainstay.backends.mcp.data_source_protocol import McpDataSource


class BackendFactoryContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend may use beside its settings, in which paths are absolute already."""

    home: Path  # with the configuration and the databases, which are no data for a model
    index_folder: Path | None  # for files that can be built again, such as a search index; None: keep it in memory
    open_mcp_source: Callable[[str], McpDataSource]  # by name in `mcpServers`; raises ConfigError
