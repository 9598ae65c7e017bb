"""An MCP server as it is configured, and a bound on everything that it can do."""

from __future__ import annotations

import hashlib
import re

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.outside import Needs
from mainstay.io.addresses import AddressRefused, place_of
from mainstay.io.http import HeaderRefused, check_headers

MB = 1024 * 1024
NAME_CHARS_MAX = 100
SLUG_CHARS_MAX = 24
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*")


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """One of `mcpServers`: a program to start, or an address."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    timeout_s: float = 30.0  # for one call
    needs: Needs = Needs()  # of a server elsewhere: hosts whose addresses may be private
    confined: bool = True
    protected: tuple[str, ...] = ()  # what it never sees, even in a folder that was granted

    @property
    def local(self) -> bool:
        return bool(self.command)

    @property
    def outward(self) -> bool:
        """What is told to it may leave the machine."""
        return not self.local or not self.confined or bool(self.needs.network)


class McpLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of one server."""

    # its life
    start_s: float = 15.0  # until it has told what it offers
    stop_s: float = 2.0  # between the polite and the firm end
    idle_s: float = 600.0  # nobody asks: it is ended
    write_s: float = 10.0  # for reading what it is told
    backoff_s: tuple[float, ...] = (0.2, 1.0, 5.0)  # before it is started again
    failures_max: int = 3
    failures_within_s: float = 60.0  # so many in that time, and it rests as long

    # what it says
    message_bytes_max: int = 4 * MB
    backlog_bytes_max: int = 16 * MB  # that we have not got round to
    marks_max: int = 50_000  # values in one message, about: it is taken apart in one go
    unasked_burst: int = 500  # notifications and requests of its own
    unasked_per_s: float = 50.0
    dropped_max: int = 100_000  # messages over all that, or no messages at all; more, and it is ended
    dropped_bytes_max: int = 256 * MB
    log_bytes_max: int = 256 * 1024
    relist_s: float = 1.0  # between two looks at a list that is said to have changed

    # what it offers
    tools_max: int = 500
    pages_max: int = 100
    schema_bytes_max: int = 64 * 1024
    description_chars_max: int = 4096
    listing_bytes_max: int = 2 * MB

    # calls
    calls_max: int = 32  # at a time; others wait
    images_max: int = 8  # in one answer
    image_bytes_max: int = 5 * MB
    progress_s: float = 0.1  # between two that are passed on


def check(server: McpServer) -> None:
    """Raises ConfigError, with a sentence, for what can never work."""
    where = f"mcpServers.{server.name[:NAME_CHARS_MAX]}"
    if not server.name or len(server.name) > NAME_CHARS_MAX:
        raise ConfigError(f"{where}: a server's name has 1 to {NAME_CHARS_MAX} characters")
    if bool(server.command) == bool(server.url):
        both = "both a `command` and a `url`" if server.url else "neither a `command` nor a `url`"
        raise ConfigError(f"{where} has {both}: one of them says how it is reached")
    try:
        check_headers(tuple(server.headers.items()))
        if server.url:
            place_of(server.url)
    except (AddressRefused, HeaderRefused) as error:
        raise ConfigError(f"{where}: {error}") from None
    for text in (server.command, *server.args, server.cwd):
        if "\0" in text:
            raise ConfigError(f"{where}: a command cannot hold the character NUL")


def slug_of(server: str) -> str:
    """How its tools begin: letters, digits, and single `_` or `-` between them, so that `__` can only be the seam
    between server and tool. A name that is otherwise is written so, with a mark that no other name has."""
    if len(server) <= SLUG_CHARS_MAX and _PLAIN.fullmatch(server):
        return server
    plain = "-".join(re.findall(r"[A-Za-z0-9]+", server))[: SLUG_CHARS_MAX - 7].strip("-") or "server"
    if not plain[0].isalpha():
        plain = f"s{plain}"[: SLUG_CHARS_MAX - 7].strip("-")
    return f"{plain}-{hashlib.sha256(server.encode()).hexdigest()[:6]}"


def fingerprint(server: McpServer) -> str:
    """Which server this is. The values of its environment and headers are no part of it: a new token is no new server,
    and must not be a way to have other descriptions taken on trust."""
    told = (
        server.command,
        server.args,
        sorted(server.env),
        server.cwd,
        server.url,
        sorted(map(str.lower, server.headers)),
    )
    return hashlib.sha256(msgspec.json.encode(told)).hexdigest()
