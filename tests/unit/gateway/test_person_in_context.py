"""The name and the profile of a person reach the model in the gateway: over HTTP, in rooms and in direct messages."""

from __future__ import annotations

from pathlib import Path

from support.chat_world import World, running
from support.two_workspaces import ALL, serving_workspaces

from mainstay.testing.loopback_channel import LoopbackRig


async def test_loom_the_model_is_told_the_name_and_the_profile_of_the_person(tmp_path: Path) -> None:
    async with serving_workspaces(tmp_path) as rig:
        await rig.person("ann", "member", "red", called="Ann Lee [boss]")
        await rig.person("adm", "admin", "red", called="Ada Min")
        await rig.key("ann", "red", ("chat",))
        await rig.key("adm", "red", ALL)
        await rig.prompt("ann", "tea", "hello")
        shown = rig.models["red"].shown
        assert any("# Who is talking to you\n\nAnn Lee (boss)" in text for text in shown)
        body = {"fields": {"city": "Lisbon"}}
        assert (await rig.ask("PATCH", "/api/sessions/tea/profile", body, key=rig.keys["ann"])).status == 200
        shown.clear()
        await rig.prompt("ann", "tea", "again")
        assert any("- city: Lisbon" in text and "Ann Lee" in text for text in shown)
        shown.clear()
        await rig.prompt("adm", "notes", "hello")
        assert not any("Ann Lee" in text or "Lisbon" in text for text in shown)

        await rig.paired("cleo", "chat", "cleo-1", "red")
        shown.clear()
        await rig.say("D-red", "hello", "cleo-1")
        await rig.settled()
        assert any("# Who is talking to you\n\ncleo" in text for text in shown)


async def test_sigil_033_a_chat_is_paused_and_resumed_and_its_profile_changed_by_commands(tmp_path: Path) -> None:
    rig = LoopbackRig()
    async with running(World(tmp_path, rig)) as world:
        await rig.send_message("D1", "/pause")
        await world.shown(rig, "D1", "no conversation here")
        await rig.send_message("D1", "hello")
        await world.shown(rig, "D1", "re: hello")
        await rig.send_message("D1", "/pause")
        await world.shown(rig, "D1", "Messages wait until")
        await rig.send_message("D1", "are you there?")
        await rig.send_message("D1", "/status")
        await world.shown(rig, "D1", "This conversation is paused")
        assert "are you there?" not in world.seen_by_the_model()
        await rig.send_message("D1", "/resume")
        await world.shown(rig, "D1", "re: are you there?")
        await rig.send_message("D1", "/profile city=Lisbon")
        await world.shown(rig, "D1", "city: Lisbon")
        await rig.send_message("D1", "where am I?")
        await world.shown(rig, "D1", "re: where am I?")
        profile = await (await world.agent()).profile(world.session(rig, "D1", "")).get()
        assert profile == {"city": "Lisbon"}
        await rig.send_message("C1", "/profile city=Oslo", mention=True)
        await world.shown(rig, "C1", "in a direct message")
