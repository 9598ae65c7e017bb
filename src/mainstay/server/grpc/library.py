"""gRPC, when it is served: it takes its time to load, and not everyone serves it."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from mainstay.core.errors import ConfigError

# What peers do wrong is told by the library on our own error output, where a screen may be: it says nothing instead.
# Forks are the sandbox's business, and start another program at once.
_QUIET = {"GRPC_VERBOSITY": "NONE", "GRPC_ENABLE_FORK_SUPPORT": "0"}


class Library(msgspec.Struct, frozen=True):
    grpc: Any
    health: Any  # grpc_health.v1
    reflection: Any  # grpc_reflection.v1alpha


def load_grpc() -> Library:
    """Raises ConfigError."""
    os.environ.update({name: value for name, value in _QUIET.items() if name not in os.environ})
    try:
        import grpc  # type: ignore[import-untyped]
        import grpc.aio  # type: ignore[import-untyped]
        import grpc_health.v1.health  # type: ignore[import-untyped]
        import grpc_health.v1.health_pb2_grpc  # type: ignore[import-untyped]
        import grpc_reflection.v1alpha.reflection  # type: ignore[import-untyped]
        import grpc_reflection.v1alpha.reflection_pb2_grpc  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigError(f"gRPC needs {error.name or 'grpcio'}: pip install -e '.[grpc]'") from None
    return Library(grpc, grpc_health.v1, grpc_reflection.v1alpha)
