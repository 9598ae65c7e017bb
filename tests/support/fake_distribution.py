"""A distribution with a component, written into a folder as pip would install it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainstay.core import components

ROOK = '''
"""A channel whose platform is in memory. What goes wrong is in the environment variable ROOK."""

import asyncio
import os
from typing import Annotated

from msgspec import Meta

from mainstay.core.channel_settings import ChannelComponent, ChannelSettings
from mainstay.core.health import CheckFinding
from mainstay.core.settings import Secret
from mainstay.testing.loopback_channel import LoopbackChannel, LoopbackPlatform


class RookSettings(ChannelSettings, frozen=True, kw_only=True):
    url: Annotated[str, Meta(description="Address.", pattern="^https?://")] = ""
    key: Annotated[Secret, Meta(description="API key.")] = ""
    user: Annotated[str, Meta(description="User id.", min_length=1)] = "agent"
    letter: Annotated[str, Meta(description="A letter.", min_length=1, max_length=1)] = "x"


class RookChannel(LoopbackChannel):
    starts = 0

    async def start(self, on_message):
        self.starts += 1
        if os.environ.get("ROOK") == "start" and self.starts < 3:
            raise KeyError("token")
        await super().start(on_message)
        self._task = asyncio.create_task(self._receive(self.starts))

    async def _receive(self, start):
        if os.environ.get("ROOK") == "receive" and start < 3:
            raise UnicodeDecodeError("utf-8", b"\\xff", 0, 1, "invalid start byte")
        await asyncio.Event().wait()

    async def close(self):
        if (task := getattr(self, "_task", None)) is not None:
            task.cancel()
        await super().close()


class Mute:
    """A channel without `format`."""

    def __init__(self, channel):
        self._channel = channel

    def __getattr__(self, name):
        if name == "format":
            raise AttributeError(name)
        return getattr(self._channel, name)


def build_rook(name, settings, context):
    if os.environ.get("ROOK") == "factory":
        return {}["url"]
    if os.environ.get("ROOK") == "coroutine":
        async def build(): ...
        coroutine = build()
        coroutine.close()
        return coroutine
    channel = RookChannel(LoopbackPlatform(), "other" if os.environ.get("ROOK") == "name" else name)
    return Mute(channel) if os.environ.get("ROOK") == "format" else channel


def check_rook(name, settings, context):
    yield CheckFinding("Channel", "FAIL", f"{name}: nobody is there", "wait")


COMPONENT = ChannelComponent(
    name="rook",
    summary="Rooks.",
    settings=RookSettings,
    factory="mainstay_rook:build_rook",
    required={"url": "https://rook.example"},
    secrets=(("key",),),
    check="mainstay_rook:check_rook",
)
'''


def write_distribution(folder: Path, kind: str, name: str, source: str) -> None:
    """Write the module `mainstay_NAME` of the distribution `mainstay-NAME-KIND` and its metadata."""
    (folder / f"mainstay_{name}.py").write_text(source)
    metadata = folder / f"mainstay_{name}_{kind}-1.0.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mainstay-{name}-{kind}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[mainstay.{kind}s]\n{name} = mainstay_{name}:COMPONENT\n")


@contextmanager
def installed_distribution(
    folder: Path, kind: str, name: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The distribution is on the path of this process."""
    folder.mkdir(parents=True, exist_ok=True)
    write_distribution(folder, kind, name, source)
    monkeypatch.syspath_prepend(str(folder))
    components._find_in_distributions.cache_clear()
    try:
        yield
    finally:
        components._find_in_distributions.cache_clear()
        sys.modules.pop(f"mainstay_{name}", None)
