"""Fields of a reply and of a session over HTTP, beyond the text."""

from __future__ import annotations

from support.http_world import world

from mainstay import tool
from mainstay.testing import Call


@tool(effect="pure", untrusted=False, sink=False)
async def add(a: int, b: int) -> int:
    return a + b


async def test_loom_050_sigil_029_a_reply_has_the_results_and_a_session_its_workspace_person_and_times() -> None:
    async with world([Call("add", {"a": 2, "b": 3}), "5"], tools=[add]) as house:
        key = await house.key("ann")
        reply = (await house.say("s", "2 + 3?", key)).json
        assert reply["text"] == "5"
        (result,) = reply["results"]
        assert (result["name"], result["content"]) == ("add", "5")
        session = (await house.ask("GET", "/api/sessions/s", key=key)).json
        assert (session["id"], session["workspace"], session["person"]) == ("s", "default", "ann")
        assert 0 < session["created"] <= session["updated"]
        (listed,) = (await house.ask("GET", "/api/sessions", key=key)).json["sessions"]
        assert listed == session
