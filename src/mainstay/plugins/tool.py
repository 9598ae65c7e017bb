"""The actions of plugins as tools."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from mainstay.core.contract import ExecuteRequest
from mainstay.core.messages import Message
from mainstay.core.outside import Reach
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.io.json_schema import Schema, object_arguments
from mainstay.plugins.host import PluginHost
from mainstay.plugins.manifest import Action

CONVERSATION_BYTES_MAX = 16 * 1024
PROMPT_BYTES_MAX = 64 * 1024
SPARE_S = 1.0  # the host keeps the deadline, and says more about it than whoever waits for the host


class PluginTool:
    """One action. What it answers is others' words, unless the owner trusts the plugin."""

    def __init__(self, host: PluginHost, action: Action) -> None:
        plugin = host.plugin
        self.name = plugin.manifest.tool_name(action)
        self.description = action.description
        self.schema = action.parameters
        self.effect: Effect = action.effect
        self.untrusted = not plugin.trusted
        self.origin = f"plugin:{plugin.name}"
        self.outward = bool(plugin.needs.network) or host.unheld
        changes = bool(plugin.needs.write) and action.effect != "pure"  # files of the owner's, past our own tools
        self.sink: bool | tuple[str, ...] = action.sink or self.outward or changes
        self.capabilities: tuple[str, ...] = (f"plugin.{plugin.name}", *(("net",) if self.outward else ()))
        self._limit_s = plugin.timeout_s or action.timeout_s
        self.timeout_s: float | None = self._limit_s + SPARE_S
        self._host = host
        self._action = action

    @cached_property
    def _checked(self) -> Schema:
        return Schema(self.schema)

    def parse(self, input: str) -> dict[str, Any]:
        return object_arguments(input, self._checked)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> str:
        request = ExecuteRequest(
            call_id=call_id(context),
            action=self._action.name,
            arguments=msgspec.json.encode(arguments).decode(),
            context=told(self._host, context),
        )
        return await self._host.call(request, self._limit_s)

    async def reconcile(self, arguments: dict[str, Any], context: ToolContext) -> str | None:
        return None  # no action has this effect

    def reach(self, arguments: dict[str, Any], context: ToolContext) -> Reach:
        if not self.sink:
            return Reach()  # it has no way out, and changes nothing but what is its own
        names = () if isinstance(self.sink, bool) else self.sink
        named = tuple(text for name in names for text in _texts(arguments.get(name)))
        return Reach(
            sink=True,
            outward=self.outward,
            # What has network can send it anywhere that it may reach, whatever it calls a destination.
            destinations=(self.origin, *named) if self.outward else named or (self.origin,),
            what=f"hands this to the plugin {self._host.plugin.name}" + (", which has network" if self.outward else ""),
        )


class Plugins:
    """The plugins of a workspace: a source of tools."""

    def __init__(self, hosts: Sequence[PluginHost]) -> None:
        self.hosts = tuple(hosts)
        self.tools: tuple[Tool, ...] = tuple(tool for host in hosts for tool in plugin_tools(host))

    async def close(self) -> None:
        await asyncio.gather(*(host.close() for host in self.hosts))


def plugin_tools(host: PluginHost) -> tuple[Tool, ...]:
    return tuple(PluginTool(host, action) for action in host.plugin.manifest.actions)


def call_id(context: ToolContext) -> str:
    """The same whenever this very call is run again, no other call's, and no word about whose it is."""
    return hashlib.sha256(context.key.encode(errors="replace")).hexdigest()[:32]


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for one in value.values():
                yield from _texts(one)
        case list():
            for one in value:
                yield from _texts(one)
        case None:
            pass
        case _:
            yield msgspec.json.encode(value).decode()


# --- what it is told -----------------------------------------------------------------------------


def told(host: PluginHost, context: ToolContext) -> dict[str, str]:
    """What the manifest asks for and we know; nothing else of the conversation reaches it."""
    known = {
        "session": lambda: context.session,
        "workspace": lambda: host.plugin.workspace,
        "person": lambda: context.person,
        "prompt": lambda: prompt(context.messages),
        "conversation": lambda: conversation(context.messages),
    }
    wanted = {name: known[name]() for name in host.plugin.manifest.context if name in known}
    return {name: value for name, value in wanted.items() if value}


def prompt(messages: Sequence[Message]) -> str:
    """The person's last message."""
    said = (message.text for message in reversed(messages) if message.role == "user")
    return _tail(next(said, ""), PROMPT_BYTES_MAX)


def conversation(messages: Sequence[Message]) -> str:
    """The end of what the person and the model said to each other."""
    lines: list[str] = []
    room = CONVERSATION_BYTES_MAX
    for message in reversed(messages):
        if room > 0 and message.role in ("user", "assistant") and message.text:
            lines.append(f"{message.role}: {message.text}")
            room -= len(lines[-1].encode(errors="replace")) + 1
    return _tail("\n".join(reversed(lines)), CONVERSATION_BYTES_MAX)


def _tail(text: str, bytes_max: int) -> str:
    return text.encode(errors="replace")[-bytes_max:].decode(errors="ignore")
