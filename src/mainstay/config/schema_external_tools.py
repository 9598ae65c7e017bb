"""Configuration schema of external tools: plugins and MCP servers, and entries of them and of backends that lack a
variable."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Meta

from mainstay.core.backend_settings import BackendSettings
from mainstay.core.settings import ConfigSection

EXTERNAL_TOOL_SECTIONS = ("plugins", "mcpServers", "backends")  # the sections
Seconds = Annotated[float, Meta(gt=0)]
# Keys that have no meaning here, or would grant what only a policy rule can grant.
IGNORED_KEYS = ("description", "trust", "envFile")
_TIMEOUT_SECONDS_MAX = 1000  # a `timeout` from here on is in milliseconds
_TRANSPORTS = {"streamablehttp": "streamable-http", "streamable-http": "streamable-http"}


class PluginEntry(ConfigSection, frozen=True, kw_only=True):
    """The owner's settings of one plugin. The rest is in its manifest and in what was granted at installation."""

    enabled: Annotated[bool, Meta(description="Offer the plugin's actions as tools.")] = True
    path: Annotated[
        str,
        Meta(description="Folder to run the plugin from, without integrity check, for development."),
    ] = ""
    env: Annotated[
        dict[str, str],
        Meta(description="Values of the environment variables that the plugin asks for, best given as `${VAR}`."),
    ] = {}
    timeout_s: Annotated[
        Seconds | None, Meta(description="Timeout of one call, in seconds; default: the manifest's.")
    ] = None
    trusted: Annotated[bool, Meta(description="Treat the plugin's results as trusted content.")] = False

    @staticmethod
    def convert_raw(raw: dict[str, Any]) -> dict[str, Any]:
        return with_text_values(raw)


class McpEntry(ConfigSection, frozen=True, kw_only=True):
    """One MCP server, in the format of other MCP hosts, with what its process may access."""

    ALLOWS_ANY_NAME: ClassVar[bool] = True  # any printable name: its tools' prefix is a slug of it

    command: Annotated[
        str, Meta(description="Program that starts the server, for a server on this machine (stdio).")
    ] = ""
    args: Annotated[tuple[str, ...], Meta(description="Arguments of the program.")] = ()
    env: Annotated[
        dict[str, str], Meta(description="Environment variables of the program, best given as `${VAR}`.")
    ] = {}
    cwd: Annotated[str, Meta(description="Working directory of the program; default: a folder of its own.")] = ""
    url: Annotated[str, Meta(description="URL of the server, for a remote server (streamable HTTP).")] = ""
    headers: Annotated[
        dict[str, str], Meta(description="HTTP headers of every request to the server, for example for authentication.")
    ] = {}
    type: Annotated[
        Literal["", "stdio", "http", "streamable-http", "sse"],
        Meta(
            description="Transport; default: from `command` or `url`. `sse`, the older transport, is not supported: "
            "such a server is left out."
        ),
    ] = ""
    disabled: Annotated[bool, Meta(description="Do not use the server.")] = False
    autoApprove: Annotated[
        tuple[str, ...],
        Meta(description="The server's tools that may run without approval; the same as rules in `policy.allow`."),
    ] = ()
    alwaysAllow: Annotated[
        tuple[str, ...], Meta(description="The same as `autoApprove`, under the name that other MCP hosts use.")
    ] = ()
    includeTools: Annotated[tuple[str, ...], Meta(description="Allowlist of the server's tools; empty: all.")] = ()
    excludeTools: Annotated[
        tuple[str, ...], Meta(description="Denylist of the server's tools; the same as rules in `policy.deny`.")
    ] = ()
    timeout_s: Annotated[Seconds, Meta(description="Timeout of one call, in seconds.")] = 30.0
    network: Annotated[
        tuple[str, ...],
        Meta(description="Allowlist of hosts that a server on this machine may reach: `api.example.com`; `*` for all."),
    ] = ()
    read: Annotated[tuple[str, ...], Meta(description="Folders that a server on this machine may read.")] = ()
    write: Annotated[
        tuple[str, ...], Meta(description="Folders that a server on this machine may read and write.")
    ] = ()
    confined: Annotated[
        bool,
        Meta(description="Run a server on this machine in the sandbox; false: it has all your permissions."),
    ] = True
    trusted: Annotated[
        bool,
        Meta(
            description="Believe the server's hints about its tools: one that only reads (`readOnlyHint`) in a closed "
            "world (`openWorldHint: false`) needs no approval. Results are untrusted content all the same."
        ),
    ] = False

    @staticmethod
    def convert_raw(raw: dict[str, Any]) -> dict[str, Any]:
        return convert_server_entry(raw)


# --- entries that need an unset environment variable ---------------------------------------------


ExternalToolEntry = PluginEntry | McpEntry | BackendSettings
EntryT = TypeVar("EntryT", bound=ExternalToolEntry)


@cache
def _incomplete_type(entry_type: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return a subclass with the field `lacks`: why an entry cannot be used, as a sentence."""
    fields = [("lacks", str)]
    return msgspec.defstruct(
        f"Incomplete{entry_type.__name__}", fields, bases=(entry_type,), frozen=True, kw_only=True, module=__name__
    )


def mark_incomplete(entry: EntryT, reason: str) -> EntryT:
    """Return the entry as one that cannot be used: an environment variable is not set. Its `${VAR}` stays as
    written."""
    if find_missing_variable(entry):
        return msgspec.structs.replace(entry, lacks=reason)
    entry_type: type[msgspec.Struct] = type(entry)
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    incomplete = _incomplete_type(entry_type)(**{**fields, "lacks": reason})
    assert isinstance(incomplete, type(entry))
    return incomplete


def find_missing_variable(entry: ExternalToolEntry) -> str:
    """Return which environment variable an entry lacks, as a sentence; empty if none."""
    return str(getattr(entry, "lacks", ""))


def find_unusable_reason(entry: ExternalToolEntry) -> str:
    """Return why an entry cannot be used, as a sentence; empty if it can."""
    if reason := find_missing_variable(entry):
        return reason
    if isinstance(entry, McpEntry) and entry.type == "sse":
        return "the older SSE transport is not supported; use the server's streamable HTTP address, if it has one"
    return ""


# --- `mcpServers` entries in the formats of other MCP hosts ---------------------------------------


def convert_server_entry(raw: dict[str, Any]) -> dict[str, Any]:
    """Convert one entry of `mcpServers`. A value under our own key wins over one under another host's key."""
    entry = {key: value for key, value in raw.items() if key not in IGNORED_KEYS}
    for other in ("transport", "transportType"):
        _rename(entry, other, "type")
    if isinstance(kind := entry.get("type"), str):
        plain = kind.lower().replace("_", "-")
        entry["type"] = _TRANSPORTS.get(plain, plain)
    if "httpUrl" in entry:  # in an entry with both, `url` is for the older SSE transport
        entry["url"] = entry.pop("httpUrl")
    _rename(entry, "serverUrl", "url")
    if "timeout" in entry:
        entry.setdefault("timeout_s", _to_seconds(entry.pop("timeout")))
    for other in ("enabled", "isActive"):
        if isinstance(entry.get(other), bool):
            entry[other] = not entry[other]
        _rename(entry, other, "disabled")
    _rename(entry, "disabledTools", "excludeTools")
    return with_text_values(entry)


def with_text_values(raw: dict[str, Any]) -> dict[str, Any]:
    """Convert numbers and booleans in `env` and `headers` to text: `PORT: 8080`, `DEBUG: true`."""
    converted = {key: _to_texts(raw[key]) for key in ("env", "headers") if isinstance(raw.get(key), dict)}
    return {**raw, **converted}


def _to_texts(values: dict[str, Any]) -> dict[str, Any]:
    def text(value: Any) -> Any:
        match value:
            case bool():
                return "true" if value else "false"
            case int() | float():
                return str(value)
        return value

    return {key: text(value) for key, value in values.items()}


def _rename(entry: dict[str, Any], host_key: str, own_key: str) -> None:
    if host_key in entry:
        entry.setdefault(own_key, entry.pop(host_key))
        entry.pop(host_key, None)


def _to_seconds(value: Any) -> Any:
    if isinstance(value, int | float) and value >= _TIMEOUT_SECONDS_MAX:
        return value / 1000
    return value
