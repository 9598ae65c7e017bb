"""The MCP servers of a workspace as a source of tools: pinned tools, approval of changes, direct requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.json_types import JsonObject
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import Sandbox
from mainstay.core.worker_threads import run_in_thread
from mainstay.plugins.mcp.data_types import ListedTool, McpAnswer, McpPrompt, McpResourcePage, ServerListing, ToolChange
from mainstay.plugins.mcp.errors import ToolChanged
from mainstay.plugins.mcp.server_config import McpLimits, McpServerConfig, check_server, server_fingerprint, server_slug
from mainstay.plugins.mcp.server_supervisor import McpServerEnvironment, ServerSupervisor
from mainstay.plugins.mcp.tool import ListResourcesTool, McpTool, ReadResourceTool
from mainstay.plugins.mcp.tool_names import build_tool_name, similarity_key
from mainstay.plugins.mcp.tool_pins import PinnedServer, ToolPinStore
from mainstay.plugins.output_log import PluginLog

log = logging.getLogger("mainstay.plugins.mcp")

SERVERS_FOLDER = "mcp"  # in the workspace: the servers' home folders and logs


class McpToolSource:
    """A ToolSource. The constructor starts no server; `discover` starts those that were never approved, and each other
    one is started by its first request.

    `folder` is the workspace's; `unconfined_sandbox` runs the servers that their owner allows to be unconfined.
    """

    def __init__(
        self,
        servers: Sequence[McpServerConfig],
        folder: Path,
        sandbox: Sandbox,
        *,
        unconfined_sandbox: Sandbox | None = None,
        limits: McpLimits | None = None,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._limits = limits or McpLimits()
        self._folder = folder
        self._pins = ToolPinStore(folder)
        self._redact = redact
        self._supervisors: dict[str, ServerSupervisor] = {}
        self._tools: dict[str, tuple[Tool, ...]] = {}
        self.problems: dict[str, str] = {}  # by server: why it offers fewer tools than it has, or none
        _check_distinct_names(servers)
        for server in servers:
            self._add(server, sandbox, unconfined_sandbox)
        if self._pins.problem:
            log.warning("%s", self._pins.problem)

    def _add(self, server: McpServerConfig, sandbox: Sandbox, unconfined_sandbox: Sandbox | None) -> None:
        check_server(server)
        server = replace(server, protected=(*server.protected, str(self._folder)))  # pins, and other servers' files
        slug = server_slug(server.name)
        home = self._folder / SERVERS_FOLDER / slug
        output_log = PluginLog(f"mcp {server.name}", home.with_suffix(".log"), self._limits.log_bytes_max, self._redact)
        own_sandbox = sandbox if server.confined else unconfined_sandbox
        pinned = self._pins.get(server.name, server_fingerprint(server))
        keeper = ServerSupervisor(server, McpServerEnvironment(own_sandbox, home, output_log), self._limits, pinned)
        keeper.reload_pin = partial(self._reload_pin, server)
        self._supervisors[server.name] = keeper
        if pinned is not None:
            self._publish_tools(server.name, pinned)

    def _reload_pin(self, server: McpServerConfig) -> PinnedServer | None:
        """Return the current approval, which another process may have changed."""
        self._pins.reload_if_changed()
        return self._pins.get(server.name, server_fingerprint(server))

    @property
    def tools(self) -> Sequence[Tool]:
        """The approved tools, whether or not their server runs, in the order of the configuration."""
        return tuple(tool for name in self._supervisors for tool in self._tools.get(name, ()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._supervisors)

    def is_running(self, name: str) -> bool:
        return self._supervisor(name).running

    def can_send_out(self, name: str) -> bool:
        """True if data sent to it may leave the machine."""
        return self._supervisor(name).server.can_send_out

    def is_pinned(self, name: str) -> bool:
        """True if it was approved with its current configuration."""
        return self._supervisor(name).pinned is not None

    def approved_tools(self, name: str) -> tuple[ListedTool, ...]:
        """Return the server's approved tools."""
        pinned = self._supervisor(name).pinned
        return pinned.tools if pinned is not None else ()

    def _publish_tools(self, name: str, pinned: PinnedServer) -> None:
        keeper, slug = self._supervisors[name], server_slug(name)
        tools: dict[str, Tool] = {}
        for listed in pinned.tools:
            offered_name = build_tool_name(slug, listed.name)
            if similarity_key(offered_name) in tools:  # shortened names can collide
                self._report_left_out(name, {listed.name: "its name is too similar to another tool's"})
            else:
                tools[similarity_key(offered_name)] = McpTool(offered_name, listed, keeper, self._limits)
        if pinned.resources:
            prefix = f"Resources of the MCP server {name}"
            list_name, read_name = f"{slug}__list_resources", f"{slug}__read_resource"
            tools.setdefault(
                similarity_key(list_name),
                ListResourcesTool(list_name, f"{prefix}: list them.", keeper, self._limits),
            )
            tools.setdefault(
                similarity_key(read_name), ReadResourceTool(read_name, f"{prefix}: read one.", keeper, self._limits)
            )
        self._tools[name] = tuple(tools.values())

    def _report_left_out(self, name: str, reasons: dict[str, str]) -> None:
        details = "; ".join(f"{tool!r}: {reason}" for tool, reason in list(reasons.items())[:10])
        self.problems[name] = f"Some tools of the MCP server {name} are left out: {details}."
        log.warning("%s", self.problems[name])

    # --- approval -----------------------------------------------------------------------------------

    async def discover(self, names: Sequence[str] | None = None) -> None:
        """Start the servers that were never approved, in parallel, and pin what they offer now: the owner has
        configured them, so the first listing is trusted. Errors are in `problems`."""
        keepers = [self._supervisor(name) for name in (names if names is not None else self._supervisors)]
        await asyncio.gather(*(self._discover(keeper) for keeper in keepers if keeper.pinned is None))

    async def _discover(self, supervisor: ServerSupervisor) -> None:
        name = supervisor.server.name
        try:
            listing = await self.refresh(name)
            if listing.resources and not (await self.list_resources(name)).resources:
                listing = replace(listing, resources=False)  # many servers declare the capability and have none
            pinned = _build_pin(supervisor, listing)
            await run_in_thread(partial(self._pins.save, name, pinned))
            self._apply_pin(supervisor, listing, pinned)
        except MainstayError as error:
            self.problems[name] = str(error)
            log.warning("%s", error)

    async def refresh(self, name: str) -> ServerListing:
        """Return what the server offers now; starts it if necessary. Approves nothing."""
        keeper = self._supervisor(name)
        await keeper.connect()
        assert keeper.last_listing is not None, "it is connected"
        return keeper.last_listing

    def changes(self, name: str) -> list[ToolChange]:
        """Return the differences between what was approved and the last listing (`refresh`)."""
        return self._supervisor(name).changes()

    def approve(self, name: str) -> None:
        """Pin the last listing, which `changes` has shown: it is offered from now on. Raises ToolChanged if there is
        none, HomeUnusable."""
        keeper = self._supervisor(name)
        if keeper.last_listing is None:
            raise ToolChanged(f"The MCP server {name} has not listed its tools yet: there is nothing to approve.")
        may_offer_resources = keeper.pinned is None or keeper.pinned.resources
        listing = replace(keeper.last_listing, resources=keeper.last_listing.resources and may_offer_resources)
        pinned = _build_pin(keeper, listing)
        self._pins.save(name, pinned)
        self._apply_pin(keeper, listing, pinned)

    def _apply_pin(self, supervisor: ServerSupervisor, listing: ServerListing, pinned: PinnedServer) -> None:
        name = supervisor.server.name
        supervisor.pinned = pinned
        self.problems.pop(name, None)
        if listing.left_out:
            self._report_left_out(name, listing.left_out)
        self._publish_tools(name, pinned)

    # --- direct requests, for commands and backends --------------------------------------------------

    async def call_tool(self, name: str, tool: str, arguments: JsonObject) -> McpAnswer:
        """Call an approved tool by the server's own name for it."""
        approved = next((listed for listed in self.approved_tools(name) if listed.name == tool), None)
        if approved is None:
            raise ToolChanged(f"The MCP server {name} has no approved tool {tool!r}.")
        limits = self._limits
        keeper = self._supervisor(name)
        return await keeper.request(
            lambda remote: remote.build_tool_call(tool, arguments, _ignore_progress, limits), tool=approved
        )

    async def list_resources(self, name: str, cursor: str = "") -> McpResourcePage:
        return await self._supervisor(name).request(lambda remote: remote.build_resource_list(cursor, self._limits))

    async def read_resource(self, name: str, uri: str) -> McpAnswer:
        return await self._supervisor(name).request(lambda remote: remote.build_resource_read(uri, self._limits))

    async def list_prompts(self, name: str) -> list[McpPrompt]:
        return await self._supervisor(name).request(lambda remote: remote.build_prompt_list(self._limits))

    async def get_prompt(self, name: str, prompt: str, arguments: dict[str, str]) -> list[tuple[str, str]]:
        """Return the prompt's messages as pairs of role and text."""
        return await self._supervisor(name).request(
            lambda remote: remote.build_prompt_get(prompt, arguments, self._limits)
        )

    def _supervisor(self, name: str) -> ServerSupervisor:
        keeper = self._supervisors.get(name)
        if keeper is None:
            names = ", ".join(self._supervisors) or "none"
            raise ConfigError(f"there is no MCP server {name!r} in `mcpServers`; configured servers: {names}")
        return keeper

    async def close(self) -> None:
        await asyncio.gather(*(keeper.close() for keeper in self._supervisors.values()))


def _build_pin(supervisor: ServerSupervisor, listing: ServerListing) -> PinnedServer:
    return PinnedServer(
        fingerprint=server_fingerprint(supervisor.server),
        tools=listing.tools,
        resources=listing.resources,
        prompts=listing.prompts,
    )


def _ignore_progress(progress: float, total: float | None, message: str) -> None:
    pass


def _check_distinct_names(servers: Sequence[McpServerConfig]) -> None:
    names_by_key: dict[str, str] = {}
    for server in servers:
        other = names_by_key.setdefault(similarity_key(server_slug(server.name)), server.name)
        if other is not server.name:
            raise ConfigError(
                f"mcpServers: the names {other!r} and {server.name!r} are too similar; rename one of them"
            )
