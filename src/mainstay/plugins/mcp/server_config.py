"""Configuration of an MCP server, its limits, and its fingerprint."""

from __future__ import annotations

import hashlib
import re

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import ProcessPermissions
from mainstay.io.http_client import HttpRequestRefused, check_headers
from mainstay.io.urls import AddressRefused, parse_url

MB = 1024 * 1024
NAME_CHARS_MAX = 100
SLUG_CHARS_MAX = 24
_PLAIN_SLUG = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*")


class McpServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `mcpServers`: a program to start (`command`), or an address (`url`)."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    timeout_s: float = 30.0  # of one call
    # the grants; of a remote server: hosts whose addresses may be private
    permissions: ProcessPermissions = ProcessPermissions()
    confined: bool = True  # False: its owner allows it to run outside of a sandbox
    trusted: bool = False  # the owner believes the hints of its tools
    protected: tuple[str, ...] = ()  # paths that it never sees, even inside of a granted folder

    @property
    def is_local(self) -> bool:
        return bool(self.command)

    @property
    def can_send_out(self) -> bool:
        """True if data sent to it may leave the machine."""
        return not self.is_local or not self.confined or bool(self.permissions.network)


class McpLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one server."""

    # start and stop
    start_s: float = 15.0  # until its listing is read
    stop_s: float = 2.0  # between SIGTERM and SIGKILL
    idle_s: float = 600.0  # a server without requests for so long is stopped
    write_s: float = 10.0  # for the server to read a message
    backoff_s: tuple[float, ...] = (0.2, 1.0, 5.0)  # delay before a restart, by the number of failures
    failures_max: int = 3  # this many within the following time, and it is not started before that has passed
    failures_within_s: float = 60.0

    # messages from the server
    message_bytes_max: int = 4 * MB
    backlog_bytes_max: int = 16 * MB  # of queued messages
    values_max: int = 50_000  # values in one message, roughly: the SDK parses it in one go
    unsolicited_burst: int = 500  # unsolicited messages: notifications, and requests of the server
    unsolicited_per_s: float = 50.0
    dropped_max: int = 100_000  # messages over these limits, or invalid ones; after more the connection is closed
    dropped_bytes_max: int = 256 * MB
    log_bytes_max: int = 256 * 1024
    relist_s: float = 1.0  # least time between two reads of a tool list that is announced as changed

    # listing
    tools_max: int = 500
    pages_max: int = 100
    schema_bytes_max: int = 64 * 1024
    description_chars_max: int = 4096
    listing_bytes_max: int = 2 * MB

    # calls
    calls_max: int = 32  # concurrent ones; more are queued
    images_max: int = 8  # in one answer
    image_bytes_max: int = 5 * MB
    progress_s: float = 0.1  # least time between two progress notifications that are passed on


def check_server(server: McpServerConfig) -> None:
    """Raise ConfigError for a configuration that cannot work."""
    subject = f"mcpServers.{server.name[:NAME_CHARS_MAX]}"
    if not server.name or len(server.name) > NAME_CHARS_MAX:
        raise ConfigError(f"{subject}: a server's name has 1 to {NAME_CHARS_MAX} characters")
    if bool(server.command) == bool(server.url):
        both = "both a `command` and a `url`" if server.url else "neither a `command` nor a `url`"
        raise ConfigError(f"{subject} has {both}: give exactly one of them")
    try:
        check_headers(tuple(server.headers.items()))
        if server.url:
            parse_url(server.url)
    except (AddressRefused, HttpRequestRefused) as error:
        raise ConfigError(f"{subject}: {error}") from None
    for text in (server.command, *server.args, server.cwd):
        if "\0" in text:
            raise ConfigError(f"{subject}: a command must not contain a NUL character")


def server_slug(server_name: str) -> str:
    """Return the prefix of the server's tool names: letters, digits, and single `_` or `-` between them, so that `__`
    only separates server and tool. Any other name is converted, with a hash that makes it unique."""
    if len(server_name) <= SLUG_CHARS_MAX and _PLAIN_SLUG.fullmatch(server_name):
        return server_name
    plain = "-".join(re.findall(r"[A-Za-z0-9]+", server_name))[: SLUG_CHARS_MAX - 7].strip("-") or "server"
    if not plain[0].isalpha():
        plain = f"s{plain}"[: SLUG_CHARS_MAX - 7].strip("-")
    return f"{plain}-{hashlib.sha256(server_name.encode()).hexdigest()[:6]}"


def server_fingerprint(server: McpServerConfig) -> str:
    """Return a hash that identifies the configured server. Values of its environment and headers are not part of it: a
    new token is not a new server, and must not cause changed descriptions to be trusted as on a first start."""
    identity = (
        server.command,
        server.args,
        sorted(server.env),
        server.cwd,
        server.url,
        sorted(map(str.lower, server.headers)),
    )
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()
