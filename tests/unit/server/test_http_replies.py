"""Fields of a reply and of a session over HTTP, beyond the text."""

from __future__ import annotations

from typing import Any

import pytest
from support.http_world import world

from mainstay import tool
from mainstay.core.errors import HomeUnusable, MainstayError, StoreFailed, StoreFull
from mainstay.testing import Call, Raise


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


STORE_ERRORS = [StoreFull("no space"), StoreFailed("I/O error"), HomeUnusable("read-only")]


@pytest.mark.parametrize("error", STORE_ERRORS, ids=repr)
async def test_f4_a_prompt_that_is_stored_is_not_called_refused_when_its_turn_has_to_wait(error: MainstayError) -> None:
    failures: list[Any] = [Raise(error), Raise(error)]  # as if writes of the turns had failed

    def script(context: Any, options: Any) -> Any:
        return failures.pop() if failures else "at last"

    async with world(script) as house:
        refused = await house.say("s", "hi", id="a")
        assert refused.status == 503
        assert refused.json["error"]["message"].endswith("the prompt is stored and will be answered later")
        async with house.hear("/api/sessions/t/prompt", {"text": "hi", "id": "a"}) as events:
            [*_, problem] = [one async for one in events]
        assert problem.data["error"]["message"] == refused.json["error"]["message"]
        for session in ("s", "t"):
            again = await house.say(session, "hi", id="a")
            assert (again.status, again.json["text"], again.json["turn"]) == (200, "at last", 1)
