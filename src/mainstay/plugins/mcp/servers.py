"""All MCP servers of a workspace: their tools from what was pinned, and everything that can be asked of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.outside import Sandbox
from mainstay.core.ports import Tool
from mainstay.core.workers import in_thread
from mainstay.plugins.logs import PluginLog
from mainstay.plugins.mcp.keeper import Keeper, Place
from mainstay.plugins.mcp.names import alike, tool_name
from mainstay.plugins.mcp.nouns import Answer, Change, Listed, Listing, Prompt, Resources
from mainstay.plugins.mcp.pins import Pinned, Pins
from mainstay.plugins.mcp.server import McpLimits, McpServer, check, fingerprint, slug_of
from mainstay.plugins.mcp.tool import ListResources, McpTool, ReadResource
from mainstay.plugins.mcp.trouble import ToolChanged

log = logging.getLogger("mainstay.plugins.mcp")

FOLDER = "mcp"  # in the workspace: the servers' own folders and logs


class McpServers:
    """A ToolSource. Nothing is started by making one; `discover` starts those that were never trusted before, and any
    other when it is first asked something.

    `folder` is the workspace's; `host` the sandbox for those that their owner lets run unconfined.
    """

    def __init__(
        self,
        servers: Sequence[McpServer],
        folder: Path,
        sandbox: Sandbox,
        *,
        host: Sandbox | None = None,
        limits: McpLimits | None = None,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._limits = limits or McpLimits()
        self._folder = folder
        self._pins = Pins(folder)
        self._redact = redact
        self._keepers: dict[str, Keeper] = {}
        self._tools: dict[str, tuple[Tool, ...]] = {}
        self.troubles: dict[str, str] = {}  # by server: why it offers less than it could
        _tell_apart(servers)
        for server in servers:
            self._add(server, sandbox, host)
        if self._pins.trouble:
            log.warning("%s", self._pins.trouble)

    def _add(self, server: McpServer, sandbox: Sandbox, host: Sandbox | None) -> None:
        check(server)
        server = replace(server, protected=(*server.protected, str(self._folder)))  # pins, and what others keep
        slug = slug_of(server.name)
        path = self._folder / FOLDER / slug
        said = PluginLog(f"mcp {server.name}", path.with_suffix(".log"), self._limits.log_bytes_max, self._redact)
        where = sandbox if server.confined else host
        pinned = self._pins.get(server.name, fingerprint(server))
        keeper = Keeper(server, Place(where, path, said), self._limits, pinned)
        keeper.again = partial(self._again, server)
        self._keepers[server.name] = keeper
        if pinned is not None:
            self._offer(server.name, pinned)

    def _again(self, server: McpServer) -> Pinned | None:
        """What is approved now, as another process may have it."""
        self._pins.look_again()
        return self._pins.get(server.name, fingerprint(server))

    @property
    def tools(self) -> Sequence[Tool]:
        """As they were approved, whether or not their server runs; in the order of the configuration."""
        return tuple(tool for name in self._keepers for tool in self._tools.get(name, ()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._keepers)

    def running(self, name: str) -> bool:
        return self._keeper(name).running

    def outward(self, name: str) -> bool:
        """What is told to it may leave the machine."""
        return self._keeper(name).server.outward

    def pinned(self, name: str) -> bool:
        """It was trusted before, as it is configured now."""
        return self._keeper(name).pinned is not None

    def listed(self, name: str) -> tuple[Listed, ...]:
        """Its tools, as they were approved."""
        pinned = self._keeper(name).pinned
        return pinned.tools if pinned is not None else ()

    def _offer(self, name: str, pinned: Pinned) -> None:
        keeper, slug = self._keepers[name], slug_of(name)
        made: dict[str, Tool] = {}
        for listed in pinned.tools:
            called = tool_name(slug, listed.name)
            if alike(called) in made:  # two names can be written alike once they are cut
                self._left_out(name, {listed.name: "its name is too much like another's"})
            else:
                made[alike(called)] = McpTool(called, listed, keeper, self._limits)
        if pinned.resources:
            about = f"Resources of the MCP server {name}"
            listing, reading = f"{slug}__list_resources", f"{slug}__read_resource"
            made.setdefault(alike(listing), ListResources(listing, f"{about}: what there is.", keeper, self._limits))
            made.setdefault(alike(reading), ReadResource(reading, f"{about}: read one.", keeper, self._limits))
        self._tools[name] = tuple(made.values())

    def _left_out(self, name: str, reasons: dict[str, str]) -> None:
        shown = "; ".join(f"{tool!r}: {reason}" for tool, reason in list(reasons.items())[:10])
        self.troubles[name] = f"Of the MCP server {name} some tools are left out: {shown}."
        log.warning("%s", self.troubles[name])

    # --- trust --------------------------------------------------------------------------------------

    async def discover(self, names: Sequence[str] | None = None) -> None:
        """Servers that were never trusted, side by side: what they say now is what was approved, for the owner has
        configured them. Whatever goes wrong is in `troubles`."""
        wanted = [self._keeper(name) for name in (names if names is not None else self._keepers)]
        await asyncio.gather(*(self._discover(keeper) for keeper in wanted if keeper.pinned is None))

    async def _discover(self, keeper: Keeper) -> None:
        name = keeper.server.name
        try:
            listing = await self.refresh(name)
            if listing.resources and not (await self.resources(name)).resources:
                listing = replace(listing, resources=False)  # many say that they could have some
            pinned = _pinned(keeper, listing)
            await in_thread(partial(self._pins.put, name, pinned))
            self._trust(keeper, listing, pinned)
        except MainstayError as error:
            self.troubles[name] = str(error)
            log.warning("%s", error)

    async def refresh(self, name: str) -> Listing:
        """What it offers now: started if need be. Nothing is approved by this."""
        keeper = self._keeper(name)
        await keeper.connected()
        assert keeper.seen is not None, "it is connected"
        return keeper.seen

    def changes(self, name: str) -> list[Change]:
        """What is not as it was approved, as of the last look (`refresh`)."""
        return self._keeper(name).changes()

    def approve(self, name: str) -> None:
        """What was last seen, and shown by `changes`, is from now on what is offered."""
        keeper = self._keeper(name)
        if keeper.seen is None:
            raise ToolChanged(f"The MCP server {name} has not been looked at: there is nothing to approve.")
        had = keeper.pinned is None or keeper.pinned.resources
        listing = replace(keeper.seen, resources=keeper.seen.resources and had)
        pinned = _pinned(keeper, listing)
        self._pins.put(name, pinned)
        self._trust(keeper, listing, pinned)

    def _trust(self, keeper: Keeper, listing: Listing, pinned: Pinned) -> None:
        name = keeper.server.name
        keeper.pinned = pinned
        self.troubles.pop(name, None)
        if listing.left_out:
            self._left_out(name, listing.left_out)
        self._offer(name, pinned)

    # --- plain requests, for commands and backends ---------------------------------------------------

    async def call(self, name: str, tool: str, arguments: dict[str, Any]) -> Answer:
        """A tool that was approved, by the server's own name for it."""
        found = next((one for one in self.listed(name) if one.name == tool), None)
        if found is None:
            raise ToolChanged(f"The MCP server {name} has no approved tool {tool!r}.")
        limits = self._limits
        keeper = self._keeper(name)
        answer: Answer = await keeper.ask(lambda remote: remote.calling(tool, arguments, _unheeded, limits), tool=found)
        return answer

    async def resources(self, name: str, cursor: str = "") -> Resources:
        page: Resources = await self._keeper(name).ask(lambda remote: remote.resources_from(cursor, self._limits))
        return page

    async def read(self, name: str, uri: str) -> Answer:
        answer: Answer = await self._keeper(name).ask(lambda remote: remote.reading(uri, self._limits))
        return answer

    async def prompts(self, name: str) -> list[Prompt]:
        found: list[Prompt] = await self._keeper(name).ask(lambda remote: remote.prompts(self._limits))
        return found

    async def prompt(self, name: str, prompt: str, arguments: dict[str, str]) -> list[tuple[str, str]]:
        """Its messages: who says it, and what."""
        said: list[tuple[str, str]] = await self._keeper(name).ask(
            lambda remote: remote.prompting(prompt, arguments, self._limits)
        )
        return said

    def _keeper(self, name: str) -> Keeper:
        keeper = self._keepers.get(name)
        if keeper is None:
            known = ", ".join(self._keepers) or "none"
            raise ConfigError(f"there is no MCP server {name!r} in `mcpServers`; there are: {known}")
        return keeper

    async def close(self) -> None:
        await asyncio.gather(*(keeper.close() for keeper in self._keepers.values()))


def _pinned(keeper: Keeper, listing: Listing) -> Pinned:
    return Pinned(
        fingerprint=fingerprint(keeper.server),
        tools=listing.tools,
        resources=listing.resources,
        prompts=listing.prompts,
    )


def _unheeded(progress: float, total: float | None, words: str) -> None:
    pass


def _tell_apart(servers: Sequence[McpServer]) -> None:
    taken: dict[str, str] = {}
    for server in servers:
        other = taken.setdefault(alike(slug_of(server.name)), server.name)
        if other is not server.name:
            raise ConfigError(f"mcpServers: {other!r} and {server.name!r} are too easily mistaken for one another")
