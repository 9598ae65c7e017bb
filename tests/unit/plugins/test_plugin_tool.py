"""The actions of plugins as the model and the policy see them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import plugin_lab as lab

from mainstay.core.limits import Limits
from mainstay.core.messages import Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.ports import ToolContext
from mainstay.core.tool_ports import CallDestinations, ProcessPermissions, has_third_party_text, tool_origin
from mainstay.core.tools import BadArguments
from mainstay.plugins.host import PluginHost
from mainstay.plugins.manifest import PluginAction
from mainstay.plugins.tool import PluginTool, PluginToolSource, build_call_context, build_call_id, build_plugin_tools
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox
from mainstay.store.memory.plugin_state import InMemoryPluginState
from mainstay.turn.toolbox import Toolbox

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "to": {}}, "required": ["city"]}


def host(where: Path, action: PluginAction | None = None, **changed: Any) -> PluginHost:
    made = lab.plugin("behaves", where, lab.PluginSetup(name="weather", context=changed.pop("context", ())))
    if action is not None:
        made = msgspec.structs.replace(made, manifest=msgspec.structs.replace(made.manifest, actions=(action,)))
    return PluginHost(msgspec.structs.replace(made, **changed), BubblewrapSandbox(), InMemoryPluginState())


def tool(where: Path, sink: bool | tuple[str, ...] = False, **changed: Any) -> PluginTool:
    action = PluginAction(name="now", description="The weather now.", parameters=CITY, effect="pure", sink=sink)
    (made,) = build_plugin_tools(host(where, action, **changed))
    assert isinstance(made, PluginTool)
    return made


def context(*messages: Message) -> ToolContext:
    made = ToolContext("cli:me", 1, 1, "call-1", lambda event: None)
    made.messages = messages
    return made


async def test_an_action_is_a_tool_with_its_origin_on_it(tmp_path: Path) -> None:
    """OPENTALON-011, OPENTALON-012, OPENTALON-013: what a plugin declares is what the model is offered."""
    made = tool(tmp_path)
    assert (made.name, made.description, made.schema) == ("weather__now", "The weather now.", CITY)
    assert (made.effect, made.untrusted, made.capabilities) == ("pure", True, ("plugin.weather",))
    assert tool_origin(made) == "plugin:weather"
    assert has_third_party_text(made)
    offered = Toolbox([made], Limits())
    assert [one.name for one in offered.select_for_request(memory=False, inline=True)] == ["weather__now"]
    assert offered.has_external_descriptions


async def test_a_call_may_take_thirty_seconds_or_what_was_said(tmp_path: Path) -> None:
    """OPENTALON-049: by default 30 s, and each plugin can have its own limit."""
    assert tool(tmp_path)._call_timeout_s == 30.0
    assert tool(tmp_path, timeout_s=5.0)._call_timeout_s == 5.0
    timeout_s = tool(tmp_path, timeout_s=5.0).timeout_s
    assert timeout_s is not None
    assert 5 < timeout_s < 10  # the caller of the host has a slightly longer timeout


async def test_a_call_is_checked_before_anything_is_sent(tmp_path: Path) -> None:
    """OPENTALON-060: against what is registered; an unknown action or a wrong argument reaches no plugin."""
    made = tool(tmp_path)
    assert made.parse('{"city": "Bern"}') == {"city": "Bern"}
    for bad in ("{}", '{"city": 1}', "[]", '{"city": "a", "city": "b"}', "nonsense"):
        with pytest.raises(BadArguments):
            made.parse(bad)
    refused = Toolbox([made], Limits()).prepare(ToolCall("c", "weather__later", "{}"))
    assert isinstance(refused, ToolResult)
    assert "There is no tool 'weather__later'" in refused.content


async def test_the_owner_can_trust_a_plugin_and_the_plugin_itself_cannot_say_so(tmp_path: Path) -> None:
    modest = PluginAction(name="now", description="d", untrusted=False)
    assert [one.untrusted for one in build_plugin_tools(host(tmp_path, modest))] == [True]
    assert [one.untrusted for one in build_plugin_tools(host(tmp_path, modest, trusted=True))] == [False]


async def test_without_network_it_is_no_sink_unless_it_says_so(tmp_path: Path) -> None:
    arguments = {"city": "Bern", "to": ["a@example.com", "b@example.com"]}
    assert tool(tmp_path).reach(arguments, context()) == CallDestinations()
    declared = tool(tmp_path, sink=True).reach(arguments, context())
    assert (declared.sink, declared.leaves_workspace, declared.destinations) == (True, False, ("plugin:weather",))
    named = tool(tmp_path, sink=("to",)).reach(arguments, context())
    assert named.destinations == ("a@example.com", "b@example.com")


async def test_an_action_that_may_change_the_owners_files_is_a_sink_unless_it_only_reads(tmp_path: Path) -> None:
    needs = ProcessPermissions(write=("/srv/notes",))
    writes = PluginAction(name="put", description="d", parameters=CITY, effect="idempotent")
    (made,) = build_plugin_tools(host(tmp_path, writes, permissions=needs))
    reach = made.reach({"city": "Bern"}, context())  # type: ignore[attr-defined]
    assert (reach.sink, reach.leaves_workspace, reach.destinations) == (True, False, ("plugin:weather",))
    assert not tool(tmp_path, permissions=needs).reach({"city": "Bern"}, context()).sink


async def test_with_network_every_call_goes_to_the_plugin_and_to_any_destination_it_names(tmp_path: Path) -> None:
    needs = ProcessPermissions(network=("api.example.com",))
    made = tool(tmp_path, permissions=needs)
    assert made.capabilities == ("plugin.weather", "net")
    reach = made.reach({"city": "Bern"}, context())
    assert (reach.sink, reach.leaves_workspace, reach.destinations) == (True, True, ("plugin:weather",))
    named = tool(tmp_path, sink=("to",), permissions=needs)
    assert named.reach({"city": "x", "to": {"a": ["x.com", 5]}}, context()).destinations == (
        "plugin:weather",
        "x.com",
        "5",
    )
    assert named.reach({"city": "x"}, context()).destinations == ("plugin:weather",)
    granted_nothing = tool(tmp_path, permissions=ProcessPermissions())  # it asks for network, and was not given it
    assert not granted_nothing.reach({"city": "x"}, context()).sink


async def test_a_call_id_tells_nothing_and_is_the_same_when_the_call_is_run_again(tmp_path: Path) -> None:
    """OPENTALON-014: each call has an id of its own."""
    one, again = context(), context()
    other = ToolContext("cli:you", 1, 1, "call-1", lambda event: None)
    second = ToolContext("cli:me", 1, 1, "call-2", lambda event: None)
    assert build_call_id(one) == build_call_id(again)
    assert len({build_call_id(one), build_call_id(other), build_call_id(second)}) == 3
    assert "cli" not in build_call_id(one)


SAID = (
    Message(1, "user", (Text("first"),)),
    Message(2, "assistant", (Thinking("hm"), Text("a plan"), ToolCall("c", "read", "{}"))),
    Message(3, "tool", (ToolResult("c", "read", "a secret file"),)),
    Message(4, "user", (Text("then the weather"),)),
)


async def test_it_gets_the_context_that_its_manifest_requests_and_nothing_more(tmp_path: Path) -> None:
    """OPENTALON-005: the context it was granted and its task."""
    assert build_call_context(host(tmp_path), context(*SAID)) == {}
    wanted = ("session", "workspace", "person", "prompt", "conversation")
    assert build_call_context(host(tmp_path, context=wanted), context(*SAID)) == {
        "session": "cli:me",
        "workspace": "lab",
        "prompt": "then the weather",
        "conversation": "user: first\nassistant: a plan\nuser: then the weather",
    }
    assert build_call_context(host(tmp_path, context=("prompt",)), context()) == {}
    long = context(Message(1, "user", (Text("ä" * 100_000),)), *SAID)
    assert (
        len(build_call_context(host(tmp_path, context=("conversation",)), long)["conversation"].encode()) <= 16 * 1024
    )


@pytest.mark.skipif(lab.NO_WALLS is not None, reason=lab.NO_WALLS or "")
async def test_the_plugin_sees_its_task_and_that_context(tmp_path: Path) -> None:
    sandbox = BubblewrapSandbox()
    made = lab.host("behaves", tmp_path, sandbox, lab.PluginSetup(context=("session", "workspace")))
    result = await lab.call(made, "hello", session="cli:me")
    action, text, given = result.content.split(" ", 2)
    assert (action, text, json.loads(given)) == ("do", "hello", {"session": "cli:me", "workspace": "lab"})
    await PluginToolSource([made]).close()
    await sandbox.close()
