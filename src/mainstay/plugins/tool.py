"""Tools made of plugin actions, and the context that a plugin is sent with a call."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec

from mainstay.core.json_types import JsonObject
from mainstay.core.messages import Message
from mainstay.core.plugin_protocol import ExecuteRequest
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations
from mainstay.io.json_schema import CompiledJsonSchema, parse_object_arguments
from mainstay.plugins.host import PluginHost
from mainstay.plugins.manifest import PluginAction

CONVERSATION_BYTES_MAX = 16 * 1024
PROMPT_BYTES_MAX = 64 * 1024
TIMEOUT_MARGIN_S = 1.0  # beyond the host's own deadline, whose error says more than the caller's timeout would


class PluginTool:
    """One action of a plugin. Its results are untrusted text unless the owner trusts the plugin."""

    def __init__(self, host: PluginHost, action: PluginAction) -> None:
        plugin = host.plugin
        self.name = plugin.manifest.tool_name(action)
        self.description = action.description
        self.schema = action.parameters
        self.effect: Effect = action.effect
        self.untrusted = not plugin.trusted
        # a manifest that says nothing has the same values as one that names the defaults
        self.undeclared = ("untrusted", "sink") if action.untrusted and action.sink is False else ()
        self.origin = f"plugin:{plugin.name}"
        self.can_send_out = bool(plugin.permissions.network) or host.unconfined
        # may write the owner's files without our tools
        changes = bool(plugin.permissions.write) and action.effect != "pure"
        self.sink: bool | tuple[str, ...] = action.sink or self.can_send_out or changes
        self.capabilities: tuple[str, ...] = (f"plugin.{plugin.name}", *(("net",) if self.can_send_out else ()))
        self._call_timeout_s = plugin.timeout_s or action.timeout_s
        self.timeout_s: float | None = self._call_timeout_s + TIMEOUT_MARGIN_S
        self._host = host
        self._action = action

    @cached_property
    def _parameter_schema(self) -> CompiledJsonSchema:
        return CompiledJsonSchema(self.schema)

    def parse(self, input: str) -> JsonObject:
        return parse_object_arguments(input, self._parameter_schema)

    async def run(self, arguments: JsonObject, context: ToolContext) -> str:
        request = ExecuteRequest(
            call_id=build_call_id(context),
            action=self._action.name,
            arguments=msgspec.json.encode(arguments).decode(),
            context=build_call_context(self._host, context),
        )
        return await self._host.call(request, self._call_timeout_s)

    async def reconcile(self, arguments: JsonObject, context: ToolContext) -> str | None:
        return None  # no action declares the effect that needs it

    def reach(self, arguments: JsonObject, context: ToolContext) -> CallDestinations:
        if not self.sink:
            return CallDestinations()  # it has no network, and writes only its own files and state
        names = () if isinstance(self.sink, bool) else self.sink
        named = tuple(text for name in names for text in _iter_texts(arguments.get(name)))
        return CallDestinations(
            sink=True,
            leaves_workspace=self.can_send_out,
            # A plugin with network can send data to any granted host, whatever parameter it declares as destination.
            destinations=(self.origin, *named) if self.can_send_out else named or (self.origin,),
            description=f"sends this to the plugin {self._host.plugin.name}"
            + (", which has network access" if self.can_send_out else ""),
        )


class PluginToolSource:
    """The tool source of a workspace's plugins."""

    def __init__(self, hosts: Sequence[PluginHost]) -> None:
        self.hosts = tuple(hosts)
        self.tools: tuple[Tool, ...] = tuple(tool for host in hosts for tool in build_plugin_tools(host))

    async def close(self) -> None:
        await asyncio.gather(*(host.close() for host in self.hosts))


def build_plugin_tools(host: PluginHost) -> tuple[Tool, ...]:
    return tuple(PluginTool(host, action) for action in host.plugin.manifest.actions)


def build_call_id(context: ToolContext) -> str:
    """Return an opaque id that is unique to this call, and the same when it is run again."""
    return hashlib.sha256(context.key.encode(errors="replace")).hexdigest()[:32]


def _iter_texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _iter_texts(item)
        case list():
            for item in value:
                yield from _iter_texts(item)
        case None:
            pass
        case _:
            yield msgspec.json.encode(value).decode()


# --- context sent with a call --------------------------------------------------------------------


def build_call_context(host: PluginHost, context: ToolContext) -> dict[str, str]:
    """Return the context fields that the manifest asks for and that are known; nothing else of the conversation is
    sent."""
    values = {
        "session": lambda: context.session,
        "workspace": lambda: host.plugin.workspace,
        "person": lambda: context.person,
        "prompt": lambda: last_prompt(context.messages),
        "conversation": lambda: conversation_tail(context.messages),
    }
    requested = {name: values[name]() for name in host.plugin.manifest.context if name in values}
    return {name: value for name, value in requested.items() if value}


def last_prompt(messages: Sequence[Message]) -> str:
    """Return the user's last message, cut to its end."""
    texts = (message.text for message in reversed(messages) if message.role == "user")
    return _tail(next(texts, ""), PROMPT_BYTES_MAX)


def conversation_tail(messages: Sequence[Message]) -> str:
    """Return the last messages of user and model, one per line, with the role before each."""
    lines: list[str] = []
    bytes_left = CONVERSATION_BYTES_MAX
    for message in reversed(messages):
        if bytes_left > 0 and message.role in ("user", "assistant") and message.text:
            lines.append(f"{message.role}: {message.text}")
            bytes_left -= len(lines[-1].encode(errors="replace")) + 1
    return _tail("\n".join(reversed(lines)), CONVERSATION_BYTES_MAX)


def _tail(text: str, bytes_max: int) -> str:
    return text.encode(errors="replace")[-bytes_max:].decode(errors="ignore")
