"""A room's folder is found by the room's name: a link beside it, which follows the name and replaces nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.chat_world import World, running

from mainstay.config.schema import ToolSettings
from mainstay.core.channels import IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.ports import Context, Options
from mainstay.gateway.channel_message_conversion import sanitise_message
from mainstay.gateway.room_name_links import LINKS_PER_NAME_MAX, link_room_name, sanitise_room_name
from mainstay.io.paths import encode_folder_name
from mainstay.providers.scripted import Call, Step
from mainstay.testing.channel_rig import wait_until
from mainstay.testing.loopback_channel import LoopbackRig

C1, C2 = encode_folder_name("C1"), encode_folder_name("C2")


def channel_folder(world: World) -> Path:
    return world.where / "main" / "workspaces" / "main" / "chat"


def list_links(folder: Path) -> dict[str, str]:
    return {path.name: os.readlink(path) for path in folder.iterdir() if path.is_symlink()}


async def say(world: World, rig: LoopbackRig, room: str, text: str) -> None:
    await rig.send_message(room, text, mention=True)
    await world.shown(rig, room, text)


# --- through the gateway -------------------------------------------------------------------------


async def test_guppy_062_the_folder_of_a_room_is_found_by_the_rooms_name(tmp_path: Path) -> None:
    rig = LoopbackRig()
    rig.platform.room_names["C1"] = "Sales: North & South"
    world = World(tmp_path, rig)
    world.config = {"tools": ToolSettings(builtin=("ls",))}
    async with running(world):
        thread = await rig.send_message("C1", "hello", mention=True)
        await world.shown(rig, "C1", "hello")
        await wait_until(lambda: list_links(channel_folder(world)) == {"#Sales_North_South": C1}, "the room is linked")
        assert (channel_folder(world) / "#Sales_North_South" / thread / "scratch").is_dir()
        (received,) = await world.received(world.session(rig, "C1", thread))
        assert "Sales" not in repr(received)
        assert "Sales" not in world.seen_by_the_model()


async def test_a_link_follows_the_name_of_its_room_also_after_a_restart(tmp_path: Path) -> None:
    rig = LoopbackRig()
    rig.platform.room_names["C1"] = "sales"
    async with running(World(tmp_path, rig)) as world:
        await say(world, rig, "C1", "one")
        rig.platform.room_names["C1"] = "marketing"
        await say(world, rig, "C1", "two")
        await wait_until(lambda: list_links(channel_folder(world)) == {"#marketing": C1}, "it was renamed")
        await world.restart()
        rig.platform.room_names["C1"] = "support"
        await say(world, rig, "C1", "three")
        await wait_until(lambda: list_links(channel_folder(world)) == {"#support": C1}, "it was renamed again")
        del rig.platform.room_names["C1"]  # the platform cannot say it now
        await say(world, rig, "C1", "four")
        assert list_links(channel_folder(world)) == {"#support": C1}


async def test_two_rooms_of_one_name_have_a_link_each_and_a_room_without_a_turn_has_none(tmp_path: Path) -> None:
    rig = LoopbackRig()
    rig.platform.rooms.add("C3")
    rig.platform.room_names |= {"C1": "sales", "C2": "sales", "C3": "overheard"}
    async with running(World(tmp_path, rig)) as world:
        await rig.send_message("C3", "not for the agent")
        await say(world, rig, "C1", "one")
        await say(world, rig, "C2", "two")
        await say(world, rig, "D1", "three")
        await wait_until(lambda: len(list_links(channel_folder(world))) == 2, "both are linked")
        assert list_links(channel_folder(world)) == {"#sales": C1, "#sales-2": C2}


async def test_a_room_is_answered_where_no_link_can_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rig = LoopbackRig()
    rig.platform.room_names["C1"] = "sales"
    world = World(tmp_path, rig)
    channel_folder(world).mkdir(parents=True)
    (channel_folder(world) / C1).write_text("not a folder")
    async with running(world):
        await say(world, rig, "C1", "hello")
        await say(world, rig, "C1", "hello again")
        await wait_until(lambda: "cannot be linked" in caplog.text, "it is logged")
        assert list_links(channel_folder(world)) == {}


async def test_the_agent_does_not_leave_its_folder_by_a_link(tmp_path: Path) -> None:
    def script(context: Context, options: Options) -> Step:
        if context.messages[-1].role == "tool":
            return "I tried"
        return [Call("read", {"path": "../../../#other/MEMORY.md"})]

    rig = LoopbackRig()
    rig.platform.room_names["C2"] = "other"
    world = World(tmp_path, rig, script=script)
    world.config = {"tools": ToolSettings(builtin=("read",))}
    (channel_folder(world) / C2).mkdir(parents=True)
    (channel_folder(world) / C2 / "MEMORY.md").write_text("SECRET OF THE OTHER ROOM")
    link_room_name(str(channel_folder(world) / C2), "other")
    async with running(world):
        await rig.send_message("C1", "read it", mention=True)
        await world.shown(rig, "C1", "I tried")
        assert "outside of the folders" in world.seen_by_the_model()
        assert "SECRET" not in world.seen_by_the_model()


# --- links ---------------------------------------------------------------------------------------


def test_a_link_replaces_nothing_that_is_not_a_link_to_its_room(tmp_path: Path) -> None:
    (tmp_path / "#sales").mkdir()
    (tmp_path / "#sales-2").write_text("mine")
    (tmp_path / "#sales-3").symlink_to("elsewhere")
    (tmp_path / "notes").symlink_to("C1")
    link_room_name(str(tmp_path / "C1"), "sales")
    assert list_links(tmp_path) == {"#sales-3": "elsewhere", "#sales-4": "C1", "notes": "C1"}
    link_room_name(str(tmp_path / "C1"), "")
    assert list_links(tmp_path) == {"#sales-3": "elsewhere", "notes": "C1"}
    assert (tmp_path / "#sales-2").read_text() == "mine"
    assert (tmp_path / "C1").stat().st_mode & 0o777 == 0o700


def test_a_room_renamed_to_a_free_name_gets_it_without_a_number(tmp_path: Path) -> None:
    link_room_name(str(tmp_path / "C1"), "sales 2")
    link_room_name(str(tmp_path / "C1"), "sales-2")
    link_room_name(str(tmp_path / "C1"), "sales")
    assert list_links(tmp_path) == {"#sales": "C1"}


def test_the_number_of_links_of_one_name_is_bounded(tmp_path: Path) -> None:
    for number in range(LINKS_PER_NAME_MAX + 2):
        link_room_name(str(tmp_path / f"C{number}"), "sales")
    assert len(list_links(tmp_path)) == LINKS_PER_NAME_MAX


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("general", "general"),
        ("Sales/../../etc", "Sales_.._.._etc"),
        ("..", ""),
        (".", ""),
        ("  ", ""),
        ("-rf", "rf"),
        ("a\nb\x1b[2Jc\x00", "a_b_2Jc"),
        ("safe\u202etxt.exe", "safetxt.exe"),
        ("in\u200bvis\u2066ible\U000e0041", "invisible"),
        ("$(reboot); `x` * 'y' \\ |", "reboot_x_y"),
        ("full\uff0fwidth", "full_width"),
        ("Équipe ・ हिन्दी 🎉", "Équipe_・_हिन्दी_🎉"),
        ("lone \ud800 surrogate", "lone_surrogate"),
        ("x" * 500, "x" * 48),
    ],
)
def test_the_name_of_a_link_is_safe(name: str, safe: str) -> None:
    assert sanitise_room_name(name) == safe


def test_a_link_never_has_the_name_of_a_folder(tmp_path: Path) -> None:
    for room in ("general", "#general", "#", "MEMORY.md", "skills"):
        assert "#" not in encode_folder_name(room)
    link_room_name(str(tmp_path / "C1"), "🎉" * 100)
    (link,) = list_links(tmp_path)
    assert len(f"{link}-{LINKS_PER_NAME_MAX}".encode()) <= 255


def test_the_name_of_a_room_can_be_stored_whatever_it_is() -> None:
    message = IncomingMessage(id="1", address=ChatAddress("chat", "C1"), user="ann", room_name="\ud800" + "x" * 500)
    assert sanitise_message(message).room_name == "?" + "x" * 79
