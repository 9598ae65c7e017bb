"""System clock and random ids: the real implementations of the Clock and IdGenerator ports."""

from __future__ import annotations

import asyncio
import random
import secrets
import time


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RandomIdGenerator:
    def new_id(self) -> str:
        return secrets.token_hex(8)

    def random(self) -> float:
        return random.random()
