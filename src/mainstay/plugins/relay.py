"""Stands before a gRPC server of ours, and lets through no more of HTTP/2 than somebody who means well would send.

The library answers every ping and takes note of every setting, as fast as they come, whatever it is told of bounds: a
program that sends nothing else costs a whole CPU, and memory without end. Here it waits instead.
"""

from __future__ import annotations

import asyncio
import time

from mainstay.plugins.ways import Ways

CHUNK = 16 * 1024
UNITS_PER_S, BURST = 3000.0, 6000.0  # a call takes about ten
BYTES_A_UNIT = 4096
CALL_UNITS = 5  # for the frame that begins a call
_PREFACE = 24  # bytes before the first frame
_HEAD = 9  # bytes: of which three are the length of what follows, and one is the kind
_BEGINS = 1


class Relay(Ways):
    """For one program, whose connections share what it may send."""

    def __init__(self, connections_max: int) -> None:
        super().__init__(connections_max, head_bytes=CHUNK, backlog=connections_max)
        self._inner = ""
        self._left = BURST
        self._counted = time.monotonic()

    async def serve(self, path: str, inner: str) -> None:
        self._inner = inner
        await self.listen(path)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        outward: asyncio.StreamWriter | None = None
        try:
            inward, outward = await asyncio.open_unix_connection(self._inner, limit=CHUNK)
            ways = {
                asyncio.create_task(self._there(reader, outward, writer)),
                asyncio.create_task(_back(inward, writer)),
            }
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.wait(ways)
        except OSError:  # the server is gone
            pass
        finally:
            for one in (writer, outward):
                if one is not None:
                    one.transport.abort()

    async def _there(
        self, reader: asyncio.StreamReader, outward: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        frames = Frames()
        try:
            while data := await reader.read(CHUNK):
                await self._turn(frames.units(data))
                await back.drain()  # who does not read what is answered need not ask
                outward.write(data)
                await outward.drain()
        except OSError:  # one of them left
            pass

    async def _turn(self, units: float) -> None:
        now = time.monotonic()
        self._left = min(BURST, self._left + (now - self._counted) * UNITS_PER_S) - units
        self._counted = now
        if self._left < 0:
            await asyncio.sleep(-self._left / UNITS_PER_S)


async def _back(inward: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await inward.read(CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass


class Frames:
    """Counts what passes on one connection. What is no HTTP/2 is counted as something, and refused behind us."""

    def __init__(self) -> None:
        self._rest = _PREFACE  # of what the last frame, or the preface, holds
        self._head = b""

    def units(self, data: bytes) -> float:
        found, at = len(data) / BYTES_A_UNIT, 0
        while at < len(data):
            if self._rest:
                taken = min(self._rest, len(data) - at)
                self._rest -= taken
                at += taken
                continue
            part = data[at : at + _HEAD - len(self._head)]
            self._head += part
            at += len(part)
            if len(self._head) == _HEAD:
                self._rest = int.from_bytes(self._head[:3])
                found += CALL_UNITS if self._head[3] == _BEGINS else 1
                self._head = b""
        return found
