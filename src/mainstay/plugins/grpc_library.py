"""Imports the gRPC library on first use: it is slow to load, and optional."""

from __future__ import annotations

import os
from functools import cache

from mainstay.core.errors import ConfigError

# The library logs mistakes of its peers to our stderr, which may be a terminal screen: silenced. Fork support is not
# needed: the sandbox's forks execute another program at once.
_GRPC_ENV = {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}


@cache
def require_grpc(plugin: str) -> None:
    """Import `grpc.aio`. Raises ConfigError if it is not installed; `plugin` is named in the message. Call it before
    the library is imported: it sets its environment."""
    os.environ.update({name: value for name, value in _GRPC_ENV.items() if name not in os.environ})
    try:
        import grpc.aio as aio  # noqa: F401
    except ImportError:
        raise ConfigError(f"the plugin {plugin} needs grpcio: pip install -e '.[plugins]'") from None
