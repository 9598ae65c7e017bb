"""An approval on a chat platform shows the whole call, in the message or attached, or it cannot be given there."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.chat_world import World, running
from support.discord_platform import discord_rig
from support.signal_platform import signal
from support.slack_platform import by_socket
from support.telegram_platform import telegram

from mainstay import tool
from mainstay.config.schema import PolicySettings
from mainstay.core.channels import DeliveryDeferred, DeliveryRejected
from mainstay.core.events import ApprovalAsked, TurnEnded
from mainstay.core.held_changes import APPLY_CHANGES, HeldChange, encode_changes
from mainstay.core.messages import ToolResult
from mainstay.core.ports import Context, Options
from mainstay.gateway import approval_messages
from mainstay.gateway.approval_messages import CALL_CHARS_MAX, format_approval_request
from mainstay.providers.scripted import Step
from mainstay.testing import Call
from mainstay.testing.channel_rig import ChannelRig, eventually, wait_until
from mainstay.testing.loopback_channel import ALL_CAPABILITIES, LoopbackRig

CODES = (
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    0x61C,
    0xFEFF,
    0xFE0F,
    0xE0041,
    0xE0100,
)
INVISIBLE = "".join(map(chr, CODES))
LONG = "".join(f"line {number}: rm -rf /{number}\n" for number in range(2_200))  # 50 KB
ADDRESSES = [f"person{number}@example.org" for number in range(500)]


def build_world(where: Path, rig: ChannelRig, arguments: dict[str, Any]) -> tuple[World, list[str]]:
    """A gateway whose model calls `launch` with these arguments; a rule says to ask about it."""
    launched: list[str] = []

    @tool(effect="unsafe", sink=["to"], untrusted=False)
    def launch(what: str = "", to: list[str] | None = None) -> str:
        """Launch."""
        launched.append(what)
        return "launched"

    def script(context: Context, options: Options) -> Step:
        return "It flies." if context.messages[-1].role == "tool" else [Call("launch", arguments)]

    world = World(where, rig, script=script)
    world.tools = [launch]
    world.config = {"policy": PolicySettings(ask=("launch",))}
    return world, launched


async def find_attachment(rig: ChannelRig, room: str) -> str:
    async def probe() -> tuple[str, bytes] | None:
        files = [file for message in await rig.posted_messages(room) for file in message.files]
        return files[0] if files else None

    name, content = await eventually(probe, "the whole call is attached")
    assert re.fullmatch(r"approval-[0-9a-f]{10}\.txt", name)
    return content.decode()


def hidden_characters(text: str) -> set[str]:
    return {char for char in text if unicodedata.category(char) in ("Cf", "Cs", "Co") or char in INVISIBLE}


def build_request(input: str, **more: Any) -> ApprovalAsked:
    return ApprovalAsked("0123456789", "c1", "launch", input, **more)


PLATFORMS: dict[str, Callable[[Path], AbstractAsyncContextManager[Any]]] = {
    "slack": lambda folder: by_socket(),
    "telegram": lambda folder: telegram(),
    "discord": discord_rig,
    "signal": lambda folder: signal(),
}


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_call_of_50_kb_is_attached_whole_without_hidden_characters_and_can_then_be_approved(
    tmp_path: Path, platform: str
) -> None:
    (tmp_path / "platform").mkdir()
    what = f"{LONG}{INVISIBLE}the end ``` *bold*"
    async with PLATFORMS[platform](tmp_path / "platform") as rig:
        world, launched = build_world(tmp_path / "world", rig, {"what": what})
        async with running(world):
            await rig.send_message(rig.direct_room, "launch it")
            asked = await world.shown(rig, rig.direct_room, "/approve")
            whole = await find_attachment(rig, rig.direct_room)
            assert "line 2199: rm -rf /2199" in whole
            assert "the end" in whole
            assert not hidden_characters(whole + asked.text)
            assert all(f"\\u{code:04x}" in whole for code in CODES if code < 0x10000)
            await rig.send_message(rig.direct_room, "/approve")
            await wait_until(lambda: launched == [what], "it was approved after it was shown")


async def test_500_destinations_are_all_shown(tmp_path: Path) -> None:
    rig = LoopbackRig()
    world, launched = build_world(tmp_path, rig, {"what": "x", "to": ADDRESSES})
    async with running(world):
        await rig.send_message("D1", "launch it")
        await world.shown(rig, "D1", "/approve")
        whole = await find_attachment(rig, "D1")
        assert all(address in whole for address in ADDRESSES)
        assert not launched


def test_destinations_that_are_not_among_the_arguments_are_listed() -> None:
    request = build_request(
        '{"list": "friends"}', destinations=tuple(ADDRESSES), why="It goes to person0 and 499 more."
    )
    (attached,) = format_approval_request(request).attached
    assert all(f"\n    {address}" in attached[1] for address in ADDRESSES)


@pytest.mark.parametrize("error", [DeliveryRejected("no files here"), DeliveryDeferred("try later")], ids=str)
async def test_without_its_attachment_a_call_cannot_be_approved_and_can_be_denied(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_messages, "FINISH_WAIT_S", 0.05)
    rig = LoopbackRig()
    tried = asyncio.Event()

    async def upload(*args: Any, **more: Any) -> Any:
        tried.set()
        raise error

    rig.channel.upload = upload  # type: ignore[method-assign]
    world, launched = build_world(tmp_path, rig, {"what": LONG})
    async with running(world):
        await rig.send_message("D1", "launch it")
        asked = await world.shown(rig, "D1", "/approve")
        id = asked.text.split("/approve ")[1].split("`")[0]
        await tried.wait()
        for command in ("/approve", f"/approve {id}", f"/approve {id} always"):
            await rig.send_message("D1", command)
        replies = await eventually(lambda: _find_replies(world, rig, "could not be shown here", 3), "each is refused")
        assert all(f"mainstay approval approve {id}" in reply for reply in replies)
        assert not launched
        await rig.send_message("D1", f"/deny {id} too long")
        session = world.session(rig, "D1", "")
        await eventually(lambda: _find_turn_end(world, session), "it was denied")
        assert not launched


async def _find_turn_end(world: World, session: str) -> bool:
    return any(isinstance(event, TurnEnded) for event in await world.records(session))


async def _find_replies(world: World, rig: LoopbackRig, words: str, count: int) -> list[str] | None:
    """Return the posted messages and those that wait behind one that cannot be posted."""
    texts = [message.text for message in await rig.posted_messages("D1")]
    texts += [waiting.text for waiting in await world.mails["main"].list_due() if not waiting.attached]
    found = [text for text in texts if words in text]
    return found if len(found) >= count else None


async def test_an_attachment_that_is_posted_later_makes_the_approval_possible(tmp_path: Path) -> None:
    rig = LoopbackRig()
    upload, gate = rig.channel.upload, asyncio.Event()

    async def wait_and_upload(*args: Any, **more: Any) -> Any:
        await gate.wait()
        return await upload(*args, **more)

    rig.channel.upload = wait_and_upload  # type: ignore[method-assign]
    world, launched = build_world(tmp_path, rig, {"what": LONG})
    async with running(world):
        await rig.send_message("D1", "launch it")
        await world.shown(rig, "D1", "/approve")
        await rig.send_message("D1", "/approve")
        gate.set()
        await find_attachment(rig, "D1")
        await wait_until(lambda: launched == [LONG], "the answer waited for the attachment")


async def test_where_there_are_no_files_a_longer_call_is_posted_whole_and_a_huge_one_cannot_be_approved(
    tmp_path: Path,
) -> None:
    rig = LoopbackRig(msgspec.structs.replace(ALL_CAPABILITIES, files=False))
    world, launched = build_world(tmp_path, rig, {"what": LONG})
    async with running(world):
        await rig.send_message("D1", "launch it")
        await world.shown(rig, "D1", "could not be shown here")
        await rig.send_message("D1", "/approve")
        await eventually(lambda: _find_replies(world, rig, "could not be shown here", 2), "it is refused")
        assert not launched
    longer = format_approval_request(build_request('{"what": "' + "x" * 5_000 + '"}'), has_files=False)
    assert "x" * 5_000 in longer.text
    assert not longer.attached


def test_a_short_call_is_in_the_message_and_cannot_end_its_code_block() -> None:
    message = format_approval_request(
        build_request('{"what": "a\\n```\\n**approved** \\u202etxt.exe"}', why="It launches.")
    )
    assert not message.attached
    assert message.text.count("```") == 2
    assert "\\u202etxt.exe" in message.text
    assert message.text.startswith("**May this be done?** It launches.")


def test_the_limit_is_exact() -> None:
    base = len(format_approval_request(build_request('{"what": ""}')).text)
    fits = CALL_CHARS_MAX - len("launch\n  what: ")
    assert not format_approval_request(build_request(f'{{"what": "{"x" * fits}"}}')).attached
    assert format_approval_request(build_request(f'{{"what": "{"x" * (fits + 1)}"}}')).attached
    assert base < CALL_CHARS_MAX


def test_held_changes_are_shown_as_diffs() -> None:
    changes = (
        HeldChange(path="/w/.git/config", data=b"a\nb\n", old_data=b"a\n", old_mode=0o644, mode=0o644, before="1"),
        HeldChange(path="/w/hook", data=b"#!/bin/sh\n\xe2\x80\xae", mode=0o755),
        HeldChange(path="/w/build", kind="remove_folder", files=3, before="2"),
        HeldChange(path="/w/key.bin", data=b"\0\1", mode=0o600),
        HeldChange(path="/w/link", kind="link", data=b"/etc/passwd"),
    )
    request = build_request(encode_changes(changes, "/w"), ran=ToolResult("c1", "bash", "ran"), where="/w")
    text = format_approval_request(msgspec.structs.replace(request, name=APPLY_CHANGES)).text
    for line in (
        "edit .git/config",
        "│ +b",
        "create hook (mode 755)",
        "│ #!/bin/sh",
        "│ \\u202e",
        "delete build/ with 3 files in it",
        "create key.bin (mode 600): 2 bytes that are no text",
        "link link to /etc/passwd",
    ):
        assert line in text, line
    assert "before" not in text
