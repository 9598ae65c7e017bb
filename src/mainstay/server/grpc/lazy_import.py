"""Imports the gRPC libraries when they are needed: they are optional and slow to load.

Modules that need one import it in the function that uses it.
"""

from __future__ import annotations

import os
from importlib import import_module

from mainstay.core.errors import ConfigError

# Without these, the library writes errors of peers to stderr, where a terminal interface may be, and installs fork
# handlers, which are not needed: the sandbox forks only to exec.
_GRPC_ENVIRONMENT = {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}


def require_grpc() -> None:
    """Import the libraries. Raises ConfigError if one is not installed. Call it before any of them is imported."""
    os.environ.update({name: value for name, value in _GRPC_ENVIRONMENT.items() if name not in os.environ})
    try:
        for module in ("grpc.aio", "grpc_health.v1.health_pb2_grpc", "grpc_reflection.v1alpha.reflection_pb2_grpc"):
            import_module(module)
    except ImportError as error:
        raise ConfigError(f"gRPC needs {error.name or 'grpcio'}: pip install -e '.[grpc]'") from None
