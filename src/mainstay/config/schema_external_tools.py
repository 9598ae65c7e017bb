"""What can be configured about tools from elsewhere: plugins, MCP servers, backends."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from mainstay.config.mcp_host_format import adapted_server, with_text
from mainstay.config.schema_base import Count, Section

ELSEWHERE = ("plugins", "mcpServers", "backends")  # the sections
Seconds = Annotated[float, Meta(gt=0)]


class PluginEntry(Section, frozen=True, kw_only=True):
    """What the owner says of one plugin; everything else stands in its manifest and in what was granted."""

    enabled: Annotated[bool, Meta(description="Offer its actions.")] = True
    path: Annotated[
        str, Meta(description="A folder to run it from instead of the installed one, unpinned: for developing it.")
    ] = ""
    env: Annotated[
        dict[str, str], Meta(description="Values for the variables it asks for, best given as `${VAR}`.")
    ] = {}
    timeout_s: Annotated[Seconds | None, Meta(description="For one call; default: what its manifest says.")] = None
    trusted: Annotated[bool, Meta(description="Its answers do not count as from outside.")] = False

    @staticmethod
    def adapted(raw: dict[str, Any]) -> dict[str, Any]:
        return with_text(raw)


class McpEntry(Section, frozen=True, kw_only=True):
    """One server, in the shape that other MCP hosts have; and what it may touch."""

    FREELY_NAMED: ClassVar[bool] = True  # its tools are called by a form of its name that is always one

    command: Annotated[str, Meta(description="The program to start, for a server on this machine.")] = ""
    args: Annotated[tuple[str, ...], Meta(description="Its arguments.")] = ()
    env: Annotated[dict[str, str], Meta(description="Its environment, best given as `${VAR}`.")] = {}
    cwd: Annotated[str, Meta(description="The folder it starts in; default: one of its own.")] = ""
    url: Annotated[str, Meta(description="Where it is reached, for a server elsewhere.")] = ""
    headers: Annotated[dict[str, str], Meta(description="Sent along with every request to it.")] = {}
    type: Annotated[
        Literal["", "stdio", "http", "streamable-http", "sse"],
        Meta(
            description="How it is reached; default: by what is given. `sse`, the older transport, is not supported: "
            "such a server is left out."
        ),
    ] = ""
    disabled: Annotated[bool, Meta(description="Leave it alone.")] = False
    autoApprove: Annotated[tuple[str, ...], Meta(description="Tools of it that may run: rules of `policy.allow`.")] = ()
    alwaysAllow: Annotated[tuple[str, ...], Meta(description="The same, as other hosts call it.")] = ()
    includeTools: Annotated[
        tuple[str, ...], Meta(description="Offer no other tools of it than these; empty: all.")
    ] = ()
    excludeTools: Annotated[
        tuple[str, ...], Meta(description="Tools of it that are left out: rules of `policy.deny`.")
    ] = ()
    timeout_s: Annotated[Seconds, Meta(description="For one call.")] = 30.0
    network: Annotated[
        tuple[str, ...],
        Meta(description="Hosts that a server on this machine may reach: `api.example.com`; `*` for all."),
    ] = ()
    read: Annotated[tuple[str, ...], Meta(description="Folders that a server on this machine may read.")] = ()
    write: Annotated[tuple[str, ...], Meta(description="Folders that it may read and write.")] = ()
    confined: Annotated[
        bool, Meta(description="Run a server on this machine in the sandbox; false: it can do whatever you can.")
    ] = True

    @staticmethod
    def adapted(raw: dict[str, Any]) -> dict[str, Any]:
        return adapted_server(raw)


class ScopeSettings(Section, frozen=True, kw_only=True):
    """What of a backend can be reached, by globs; empty: all of it."""

    databases: Annotated[tuple[str, ...], Meta(description="Databases, of `sql`.")] = ()
    schemas: Annotated[tuple[str, ...], Meta(description="Schemas, of `sql`.")] = ()
    tables: Annotated[tuple[str, ...], Meta(description="Tables and views, of `sql`: `orders`, `public.*`.")] = ()
    paths: Annotated[tuple[str, ...], Meta(description="Paths, of `rest` and `documents`: `/pets/**`, `**/*.md`.")] = ()
    operations: Annotated[
        tuple[str, ...],
        Meta(description="Operations, of `rest`, by their ids; tools, of `mcp`, where empty means none."),
    ] = ()


class BackendEntry(Section, frozen=True, kw_only=True):
    """A source of domain data, offered as `NAME__describe` and `NAME__query`."""

    kind: Annotated[Literal["sql", "rest", "documents", "mcp"], Meta(description="What it is.")]
    url: Annotated[
        str,
        Meta(
            description="`sql`: `sqlite:///file.db`, `postgresql://…`, `mysql://…`. `rest`: where the API is; default: "
            "what its description says."
        ),
    ] = ""
    description: Annotated[str, Meta(description="`rest`: its OpenAPI description, a file or an address.")] = ""
    path: Annotated[str, Meta(description="`documents`: the folder.")] = ""
    server: Annotated[str, Meta(description="`mcp`: which of `mcpServers`.")] = ""
    about: Annotated[str, Meta(description="What it holds, in a sentence for the model.")] = ""
    headers: Annotated[
        dict[str, str], Meta(description="`rest`: sent along with every request, best given as `${VAR}`.")
    ] = {}
    write: Annotated[bool, Meta(description="Changes are possible too, as `NAME__change`.")] = False
    private: Annotated[bool, Meta(description="What it holds is nobody else's business: answers are labelled so.")] = (
        False
    )
    scope: Annotated[ScopeSettings, Meta(description="What of it can be reached.")] = ScopeSettings()
    rows_max: Annotated[Count, Meta(description="Rows that one answer shows.")] = 100
    timeout_s: Annotated[Seconds, Meta(description="For one query.")] = 30.0
    schema_tokens: Annotated[Count, Meta(description="What its schema may take of every call, in tokens.")] = 800


# --- what cannot be used as things are -----------------------------------------------------------


class LackingPlugin(PluginEntry, frozen=True, kw_only=True):
    """A variable that it names is not set, as `lacks` says; what names it stays as it is written."""

    lacks: str


class LackingServer(McpEntry, frozen=True, kw_only=True):
    lacks: str


class LackingBackend(BackendEntry, frozen=True, kw_only=True):
    lacks: str


Entry = PluginEntry | McpEntry | BackendEntry


def why_not(entry: Entry) -> str:
    """Why it is left out, if it is; a sentence."""
    match entry:
        case LackingPlugin() | LackingServer() | LackingBackend():
            return entry.lacks
        case McpEntry(type="sse"):
            return "it speaks the older SSE transport, which is not supported"
    return ""
