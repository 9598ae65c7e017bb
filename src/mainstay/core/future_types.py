"""Type of a future whose result is not read."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

# A Future[str] is not a Future[object], because a caller could set any result. (A Task[str] is a Task[object].)
AnyFuture: TypeAlias = asyncio.Future[Any]
