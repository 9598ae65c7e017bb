"""Imports gRPC on first use: it is slow to load, and `--manifest` and tests do not need it."""

from __future__ import annotations

from mainstay.core.errors import ConfigError


def require_grpc() -> None:
    """Import `grpc.aio`. Raises ConfigError if it is not installed."""
    try:
        import grpc.aio as aio  # noqa: F401
    except ImportError:
        raise ConfigError("a plugin needs grpcio: pip install -e '.[plugins]'") from None
