"""Who calls over gRPC, and how much they may: the same rules as for HTTP."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import unquote

import msgspec

from mainstay.core.errors import WorkspaceUnknown
from mainstay.core.people import Principal
from mainstay.gateway.gateway import Gateway
from mainstay.gateway.rates import Rates
from mainstay.server.problems import Problem

WORKSPACE = "x-workspace"
# Somebody has passed it on, and is not who asks; or it is a page in a browser.
_PASSED_ON = frozenset(
    ("forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "cf-connecting-ip", "true-client-ip", "via", "origin")
)


class Grpc(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured (`server`), as plain values."""

    workspace: str = "default"  # the owner's, where they choose no other
    keys: Literal["auto", "required"] = "auto"
    needs_key: Callable[[], bool] | None = None  # as it is now, where that may change
    certificate: str = ""  # files, PEM; empty: no TLS
    private_key: str = ""
    message_bytes_max: int = 32 * 1024 * 1024
    connections_max: int = 2_000
    calls_max: int = 2_000  # at a time, of everybody
    rate_per_min: int = 600
    streams_max: int = 64
    unread_s: float = 30.0  # for a client to read on, while there is something to be told
    handshake_s: float = 10.0
    drain_s: float = 30.0


class Entry:
    """`private`: only this very machine can reach the address."""

    def __init__(self, gateway: Gateway, settings: Grpc, rates: Rates, *, private: bool) -> None:
        self._people = gateway.people
        self._settings = settings
        self._rates = rates
        self._private = private
        self._needs_key = settings.needs_key or (lambda: settings.keys != "auto")

    def enter(self, context: Any) -> Principal:
        """Raises Problem. It counts as a request."""
        given = [(str(name), value) for name, value in context.invocation_metadata() or ()]
        token = _token(given)
        principal = self._keyed(token) if token is not None else self._owner(given, str(context.peer()))
        wait_s = self._rates.check(principal.key, self._bound(principal, "rate_per_min"))
        if wait_s is not None:
            raise Problem(429, "rate_limited", "too many requests with this key; try again later", wait_s)
        return _in_workspace(principal, _only(given, WORKSPACE))

    @contextmanager
    def stream(self, principal: Principal) -> Iterator[None]:
        """For as long as the call is held open. Raises TooMany."""
        with self._rates.stream(principal.key, self._bound(principal, "streams_max")):
            yield

    def _bound(self, principal: Principal, name: Literal["rate_per_min", "streams_max"]) -> int:
        key = self._people.key(principal.key) if principal.key else None
        own: int = getattr(key, name) if key is not None else 0
        configured: int = getattr(self._settings, name)
        return own or configured

    def _keyed(self, token: str) -> Principal:
        principal = self._people.principal(token)
        if principal is None:
            raise Problem(401, "unauthorized", "this key is not known, or not any more")
        return principal

    def _owner(self, given: list[tuple[str, Any]], peer: str) -> Principal:
        passed_on = any(name.lower() in _PASSED_ON or name.lower().startswith("x-forwarded-") for name, _ in given)
        if self._needs_key() or not self._private or passed_on or not _is_near(peer):
            raise Problem(401, "unauthorized", "this needs an API key: metadata `authorization: Bearer ms_…`")
        return Principal(person="", workspace=self._settings.workspace)


def is_private(address: str) -> bool:
    """Nobody but this machine can reach it: `127.0.0.1:7461`, `[::1]:7461`, `localhost:7461`, `unix:/path`."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address.rpartition(":")[0].strip("[]")
    return host == "localhost" or _is_loopback(host)


def _is_near(peer: str) -> bool:
    """As gRPC writes it: `ipv4:127.0.0.1:5000`, `ipv6:%5B::1%5D:5000`, `unix:`."""
    family, _, rest = unquote(peer).partition(":")
    return family == "unix" or _is_loopback(rest.rpartition(":")[0].strip("[]"))


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _in_workspace(principal: Principal, wanted: str | None) -> Principal:
    """The owner may choose. A key is for one workspace: any other does not exist."""
    if wanted is None or wanted == principal.workspace:
        return principal
    if principal.key:
        raise WorkspaceUnknown(f"there is no workspace {wanted[:80]!r}")
    return msgspec.structs.replace(principal, workspace=wanted)


def _token(given: list[tuple[str, Any]]) -> str | None:
    plain, header = _only(given, "x-api-key"), _only(given, "authorization")
    if header is None:
        return plain
    scheme, _, token = header.partition(" ")
    if plain is not None or scheme.lower() != "bearer" or not token.strip():
        raise Problem(401, "unauthorized", "the metadata `authorization` is not `Bearer ms_…`")
    return token.strip()


def _only(given: list[tuple[str, Any]], name: str) -> str | None:
    found = [value for key, value in given if key.lower() == name]
    if len(found) > 1:
        raise Problem(400, "invalid_request", f"the metadata `{name}` is there {len(found)} times")
    return str(found[0]) if found else None
