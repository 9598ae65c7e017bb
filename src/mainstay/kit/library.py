"""gRPC, when something is served: it takes its time to load, and `--manifest` and tests do without it."""

from __future__ import annotations

from typing import Any

from mainstay.core.errors import ConfigError


def load_grpc() -> Any:
    """The module `grpc`; raises ConfigError."""
    try:
        import grpc  # type: ignore[import-untyped]
        import grpc.aio  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError("a plugin needs grpcio: pip install -e '.[plugins]'") from None
    return grpc
