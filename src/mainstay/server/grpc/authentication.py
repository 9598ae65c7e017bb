"""Authentication and rate limits of gRPC calls, with the same rules as HTTP."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

import msgspec

from mainstay.core.errors import WorkspaceUnknown
from mainstay.core.people import Principal
from mainstay.gateway.api_rate_limiter import ApiRateLimiter
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.server.grpc.open_calls import OpenCalls
from mainstay.server.problems import Problem

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

CallMetadata = list[tuple[str, str | bytes]]

WORKSPACE_METADATA = "x-workspace"
# Metadata of a proxy or a browser: the call comes from further away than its peer address says.
_PROXY_METADATA = frozenset(
    ("forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "cf-connecting-ip", "true-client-ip", "via", "origin")
)
_PROXY_PREFIXES = ("x-forwarded-", "sec-fetch-")


class GrpcSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the gRPC server."""

    workspace: str = "default"  # of the owner, unless the metadata names another
    keys: Literal["auto", "required"] = "auto"
    needs_key: Callable[[], bool] | None = None  # overrides `keys`, where that can change while it runs
    certificate: str = ""  # path of a PEM file; empty: no TLS
    private_key: str = ""  # path of a PEM file
    message_bytes_max: int = 32 * 1024 * 1024
    connections_max: int = 2_000
    calls_max: int = 2_000  # concurrent calls of all clients
    rate_per_min: int = 600  # calls with one key
    streams_max: int = 64  # open at a time with one key
    read_timeout_s: float = 30.0  # for a slow client to read the next message
    handshake_timeout_s: float = 10.0
    drain_s: float = 30.0  # for running calls to end at shutdown
    # what is not ready → the reason, for the health service; None: everything is ready
    find_unready: Callable[[], Awaitable[dict[str, str]]] | None = None


class GrpcAuthenticator:
    """Authenticates calls. `is_local`: only this machine can reach the server's address."""

    def __init__(
        self, gateway: OperationGateway, settings: GrpcSettings, rate_limiter: ApiRateLimiter, *, is_local: bool
    ) -> None:
        self._people = gateway.people
        self._settings = settings
        self._rate_limiter = rate_limiter
        self._is_local = is_local
        self._needs_key = settings.needs_key or (lambda: settings.keys != "auto")
        self.open_calls = OpenCalls(gateway.people.is_still_valid)

    def authenticate(self, context: ServicerContext) -> Principal:
        """Return the principal of a call, and count it as a request. Raises Problem, and WorkspaceUnknown."""
        metadata = [(str(name), value) for name, value in context.invocation_metadata() or ()]
        token = _get_token(metadata)
        principal = (
            self._resolve_key(token) if token is not None else self._resolve_owner(metadata, str(context.peer()))
        )
        wait_s = self._rate_limiter.count_request(principal.key, self._limit_of(principal, "rate_per_min"))
        if wait_s is not None:
            raise Problem(429, "rate_limited", "rate limit exceeded with this key; try again later", wait_s)
        return _select_workspace(principal, _get_single(metadata, WORKSPACE_METADATA))

    @contextmanager
    def hold_stream(self, principal: Principal) -> Iterator[None]:
        """Count an open stream while the block runs. Raises a MainstayError if its key has too many, and Problem when
        its key stops being valid."""
        limit = self._limit_of(principal, "streams_max")
        with self._rate_limiter.hold_stream(principal.key, limit), self.open_calls.watch(principal):
            yield

    def _limit_of(self, principal: Principal, name: Literal["rate_per_min", "streams_max"]) -> int:
        key = self._people.get_key(principal.key) if principal.key else None
        own: int = getattr(key, name) if key is not None else 0
        configured: int = getattr(self._settings, name)
        return own or configured

    def _resolve_key(self, token: str) -> Principal:
        principal = self._people.authenticate_key(token)
        if principal is None:
            raise Problem(401, "unauthorized", "this API key is not valid")
        return principal

    def _resolve_owner(self, metadata: CallMetadata, peer: str) -> Principal:
        is_forwarded = any(
            name.lower() in _PROXY_METADATA or name.lower().startswith(_PROXY_PREFIXES) for name, _ in metadata
        )
        if self._needs_key() or not self._is_local or is_forwarded or not _is_local_peer(peer):
            raise Problem(
                401, "unauthorized", "an API key is required: send it as metadata `authorization: Bearer ms_…`"
            )
        return Principal(person="", workspace=self._settings.workspace)


def is_local_address(address: str) -> bool:
    """True if only this machine can reach it: `127.0.0.1:7461`, `[::1]:7461`, `localhost:7461`, `unix:/path`."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address.rpartition(":")[0].strip("[]")
    return host == "localhost" or _is_loopback(host)


def _is_local_peer(peer: str) -> bool:
    """True for a peer on this machine, as gRPC writes it: `ipv4:127.0.0.1:5000`, `ipv6:%5B::1%5D:5000`, `unix:`."""
    family, _, rest = unquote(peer).partition(":")
    return family == "unix" or _is_loopback(rest.rpartition(":")[0].strip("[]"))


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _select_workspace(principal: Principal, workspace: str | None) -> Principal:
    """Apply the workspace that the metadata names. The owner may choose; for a key, other workspaces do not exist."""
    if workspace is None or workspace == principal.workspace:
        return principal
    if principal.key:
        raise WorkspaceUnknown(f"there is no workspace {workspace[:80]!r}")
    return msgspec.structs.replace(principal, workspace=workspace)


def _get_token(metadata: CallMetadata) -> str | None:
    api_key, authorization = _get_single(metadata, "x-api-key"), _get_single(metadata, "authorization")
    if authorization is None:
        return api_key
    scheme, _, token = authorization.partition(" ")
    if api_key is not None or scheme.lower() != "bearer" or not token.strip():
        raise Problem(401, "unauthorized", "the metadata `authorization` must be `Bearer ms_…`, without `x-api-key`")
    return token.strip()


def _get_single(metadata: CallMetadata, name: str) -> str | None:
    values = [value for key, value in metadata if key.lower() == name]
    if len(values) > 1:
        raise Problem(400, "invalid_request", f"the metadata `{name}` is given {len(values)} times")
    return str(values[0]) if values else None
