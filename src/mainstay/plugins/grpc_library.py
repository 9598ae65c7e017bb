"""gRPC, when it is first needed: it takes its time to load, and not everyone has plugins."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from mainstay.core.errors import ConfigError

# What peers do wrong is told by the library on our own error output, where a screen may be: it says nothing instead.
# Forks are the sandbox's business, and start another program at once.
_QUIET = {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}


@cache
def grpc_for(plugin: str) -> Any:
    """The module `grpc`; raises ConfigError."""
    os.environ.update({name: value for name, value in _QUIET.items() if name not in os.environ})
    try:
        import grpc  # type: ignore[import-untyped]
        import grpc.aio  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError(f"the plugin {plugin} needs grpcio: pip install -e '.[plugins]'") from None
    return grpc
