"""The terminal as a channel: lines in, answers out, no control sequences on the screen."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from support.terminal_platform import NAME, terminal

from mainstay.channels.terminal.channel import OWNER, QUEUED_LINES_MAX, ROOM, TerminalChannel
from mainstay.channels.terminal.line_reader import LINE_BYTES_MAX
from mainstay.core.channels import DeliveryRejected, IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.testing.channel_rig import RecordingMessageHandler, wait_until

HERE = ChatAddress(NAME, ROOM)


async def test_lines_are_read_in_the_order_they_were_typed() -> None:
    async with terminal() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        for number in range(50):
            await rig.send_message(rig.room, f"line {number}.")
        await rig.send_message(rig.room, "   ")
        await ear.wait_for("line 49.")
        assert [one.text for one in ear.received] == [f"line {number}." for number in range(50)]
        assert len({one.id for one in ear.received}) == 50


async def test_f37_output_is_shown_and_not_executed_by_the_terminal() -> None:
    """F37"""
    async with terminal() as rig:
        await rig.channel.start(RecordingMessageHandler())
        evil = "before \x1b]0;owned\x07\x1b[2J\x1b]52;c;aGk=\x07\x9b31mred\u202eover\rafter\n< forged"
        await rig.channel.post(HERE, evil, key="k")
        await wait_until(lambda: b"forged" in rig.seen, "it is shown")
        assert not set(rig.seen) & {0x1B, 0x07, 0x9B}
        assert "\u202e" not in rig.seen.decode()
        (shown,) = await rig.posted_messages(ROOM)
        assert shown.text.splitlines()[1] == "< forged", "a line of the answer, and no answer of its own"


@pytest.mark.parametrize("kind", ["pipe", "file"])
async def test_it_reads_any_input_to_its_end(kind: str, tmp_path: Path) -> None:
    said = b"first\r\nsecond\n\nno line break at the end \xff"
    if kind == "file":
        (tmp_path / "typed").write_bytes(said)
        source = os.open(tmp_path / "typed", os.O_RDONLY)
    else:
        source, other = os.pipe()
        os.write(other, said)
        os.close(other)
    target = os.open(tmp_path / "written", os.O_WRONLY | os.O_CREAT)
    channel = TerminalChannel(NAME, source=source, target=target)
    ear = RecordingMessageHandler()
    await channel.start(ear)
    await ear.wait_for("no line break")
    await wait_until(lambda: channel.state != "connected", "its end is noticed")
    await channel.post(HERE, "still\nshown", key="k")
    assert [one.text for one in ear.received] == ["first", "second", "no line break at the end \ufffd"]
    assert {(one.user, one.direct) for one in ear.received} == {(OWNER, True)}
    assert (tmp_path / "written").read_text() == "< still\n  shown\n"
    await channel.close()
    for one in (source, target):
        os.close(one)


async def test_an_endless_line_is_left_out_and_the_next_is_read(tmp_path: Path) -> None:
    source, keyboard = os.pipe()
    screen = os.open(tmp_path / "written", os.O_WRONLY | os.O_CREAT)
    channel = TerminalChannel(NAME, source=source, target=screen)
    ear = RecordingMessageHandler()
    await channel.start(ear)
    data = b"x" * (LINE_BYTES_MAX * 3) + b"\nnext\n"
    await asyncio.to_thread(lambda: os.write(keyboard, data) and None)
    heard = await ear.wait_for("next")
    assert heard.text == "next"
    assert len(ear.received) == 1
    assert (tmp_path / "written").read_text().count("longer than") == 1
    await channel.close()
    for one in (source, keyboard, screen):
        os.close(one)


async def test_lines_over_the_queue_limit_are_dropped_with_a_notice(tmp_path: Path) -> None:
    source, keyboard = os.pipe()
    screen = os.open(tmp_path / "written", os.O_WRONLY | os.O_CREAT)
    held = asyncio.Event()

    async def hear(message: IncomingMessage) -> None:
        await held.wait()

    channel = TerminalChannel(NAME, source=source, target=screen)
    await channel.start(hear)
    os.write(keyboard, b"x\n" * (QUEUED_LINES_MAX + 50))
    await wait_until(lambda: "The line was ignored: too many" in (tmp_path / "written").read_text(), "it says so")
    await channel.close()
    for one in (source, keyboard, screen):
        os.close(one)


async def test_closed_it_leaves_no_thread_and_what_is_typed_to_others() -> None:
    async with terminal() as rig:
        before = {one.name for one in threading.enumerate()}
        await rig.channel.start(RecordingMessageHandler())
        assert "terminal" in {one.name for one in threading.enumerate()} - before
        await rig.channel.close()
        assert "terminal" not in {one.name for one in threading.enumerate()}
        await rig.send_message(rig.room, "for the shell")
        later = RecordingMessageHandler()
        await rig.recreate_channel().start(later)
        await later.wait_for("for the shell")


async def test_nothing_is_sent_to_a_closed_terminal() -> None:
    source, keyboard = os.pipe()
    reading, target = os.pipe()
    os.close(reading)
    channel = TerminalChannel(NAME, source=source, target=target)
    await channel.start(RecordingMessageHandler())
    with pytest.raises(DeliveryRejected, match="is closed"):
        await channel.post(HERE, "hello?", key="k")
    await channel.close()
    for one in (source, keyboard, target):
        os.close(one)
