"""Authentication of HTTP requests, with Host and Origin checks and rate limits, before anything else is read.

A browser is a confused deputy: any page can make it send requests to this server (CSRF), also under a host name that
was made to point here (DNS rebinding). So `Host` must name this server, `Origin` must be allowed, and a request without
a key is the owner's only if nothing about it comes from further away than this machine.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from ipaddress import IPv6Address, ip_address
from typing import cast
from urllib.parse import parse_qsl

from starlette.requests import HTTPConnection

from mainstay.core.audit import acting_person
from mainstay.core.people import KEY_PREFIX, Principal
from mainstay.gateway.api_rate_limiter import TooManyStreams
from mainstay.operations.caller import Caller
from mainstay.server.http_state import HttpServerState
from mainstay.server.problems import RETRY_AFTER_S, Problem, problem_from_error

STATE_KEY = "mainstay.http_state"  # in a request's scope: the server's shared state
CALLER_KEY = "mainstay.caller"  # in a request's scope: its caller, once authenticated
EXIT_STACK_KEY = "mainstay.exit_stack"  # in a request's scope: the exit stack that is closed after the response
KEY_CHECK_S = 5.0  # between two checks whether the key of an open request is still valid
BEARER_SUBPROTOCOL_PREFIX = "bearer."  # of a WebSocket subprotocol that is an API key: browsers can set no header there
_HOST_PATTERN = re.compile(r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_SECRET_PARAMETERS = frozenset(
    (
        "access_token",
        "api-key",
        "api_key",
        "apikey",
        "auth",
        "authorization",
        "bearer",
        "key",
        "secret",
        "token",
        "x-api-key",
    )
)
# Headers of a proxy: the request comes from another machine than its peer address says.
_PROXY_HEADERS = ("forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "cf-connecting-ip", "true-client-ip", "via")


async def authenticate_request(request: HTTPConnection, *, stream: bool = False) -> Caller:
    """Authenticate a request and return its caller. With `stream`, it counts as an open stream until it has been
    answered. Raises Problem, and what opening a workspace raises."""
    state = get_state(request)
    check_query_for_keys(request)
    check_host_and_origin(request, state)
    principal = resolve_principal(request, state)
    check_rate_limit(state, principal)
    if stream:
        _count_stream(request, state, principal)
    if state.draining and request.scope.get("method") not in ("GET", "HEAD"):
        raise Problem(503, "stopping", "the server is being stopped; try again in a moment", RETRY_AFTER_S)
    caller = await state.gateway.build_caller(principal)
    request.scope[CALLER_KEY] = caller
    acting_person.set(principal.person)
    return caller


def get_state(request: HTTPConnection) -> HttpServerState:
    return cast(HttpServerState, request.scope[STATE_KEY])


# --- Host and Origin headers ---------------------------------------------------------------------


def check_host_and_origin(request: HTTPConnection, state: HttpServerState) -> None:
    """Raise Problem if the Host header names another server, or a page of an origin that is not allowed sent this."""
    host = get_host(request)
    if host is None or not _is_own_host(host, request, state):
        raise Problem(
            403, "wrong_host", "the Host header does not name this server; other names are configured as server.hosts"
        )
    origins = request.headers.getlist("origin")
    if origins and not all(_is_allowed_origin(origin, request, state) for origin in origins):
        raise Problem(
            403,
            "wrong_origin",
            "pages of this origin may not use this server; origins that may are configured as server.origins",
        )


def check_query_for_keys(request: HTTPConnection) -> None:
    """Raise Problem for a key in the query: URLs end up in logs and browser histories."""
    query = request.scope.get("query_string", b"").decode("latin-1")
    if not query:
        return
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.lower() in _SECRET_PARAMETERS or value.startswith(KEY_PREFIX):
            raise Problem(
                400,
                "key_in_address",
                "do not send a key in the URL: send it as `Authorization: Bearer …`, and replace it by a new one",
            )


def get_host(request: HTTPConnection) -> str | None:
    """Return the name in the Host header, without the port; None if it is missing, repeated or malformed."""
    values = request.headers.getlist("host")
    match = _HOST_PATTERN.fullmatch(values[0].lower()) if len(values) == 1 else None
    return match["name"] if match is not None else None


def _is_own_host(host: str, request: HTTPConnection, state: HttpServerState) -> bool:
    settings = state.settings
    own_names = {settings.host.lower(), f"[{settings.host.lower()}]", *(strip_port(name) for name in settings.hosts)}
    if host in own_names or is_loopback(host):
        return True
    address = request.scope.get("server")  # that the connection was made to
    return address is not None and host.strip("[]") == str(address[0]).lower() and _is_ip_address(host)


def strip_port(host: str) -> str:
    """Return a host without its port, in lower case."""
    match = _HOST_PATTERN.fullmatch(host.lower())
    return match["name"] if match is not None else host.lower()


def is_same_origin(origin: str, request: HTTPConnection, state: HttpServerState) -> bool:
    """True for a page that this server served: same host and port, and same scheme, or https from a proxy in front of
    it for a configured host."""
    scheme, _, authority = origin.lower().partition("://")
    if authority != request.headers["host"].lower():
        return False
    own_scheme = {"ws": "http", "wss": "https"}.get(request.scope["scheme"], request.scope["scheme"])
    is_named = strip_port(authority) in {strip_port(name) for name in state.settings.hosts}
    return scheme == own_scheme or (is_named and scheme == "https")


def _is_allowed_origin(origin: str, request: HTTPConnection, state: HttpServerState) -> bool:
    return is_same_origin(origin, request, state) or is_configured_origin(origin, state)


def is_configured_origin(origin: str, state: HttpServerState) -> bool:
    return origin.lower() in {allowed.lower().rstrip("/") for allowed in state.settings.origins}


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


# --- API keys ------------------------------------------------------------------------------------


def resolve_principal(request: HTTPConnection, state: HttpServerState) -> Principal:
    """Return the principal of the API key, or the owner for a request of this machine without one. Raises Problem."""
    workspace = request.headers.get("x-workspace", "")
    token = get_token(request)
    if token is None or _is_ignorable_token(token, request, state):
        if not is_local_owner(request, state):
            raise _unauthorised("an API key is required: send it as `Authorization: Bearer …`")
        return Principal(person="", workspace=workspace or state.settings.workspace)
    principal = state.gateway.people.authenticate_key(token)
    if principal is None:
        raise _unauthorised("this API key is not valid", 'Bearer realm="mainstay", error="invalid_token"')
    if workspace not in ("", principal.workspace):
        raise Problem(403, "forbidden", "this API key is for another workspace")
    return principal


def _is_ignorable_token(token: str, request: HTTPConnection, state: HttpServerState) -> bool:
    """True for a token that is no key of ours, where none is needed: many clients always send some key."""
    is_foreign = bool(token) and token.isascii() and not token.startswith(KEY_PREFIX)
    return is_foreign and is_local_owner(request, state)


def _unauthorised(sentence: str, challenge: str = 'Bearer realm="mainstay"') -> Problem:
    return Problem(401, "unauthorised", sentence, headers={"WWW-Authenticate": challenge})


def get_token(request: HTTPConnection) -> str | None:
    """Return the API key of a request; None if there is none, "" if it is malformed or there are several."""
    credentials = request.headers.getlist("authorization") + request.headers.getlist("x-api-key")
    tokens = {_parse_bearer(value) for value in request.headers.getlist("authorization")}
    tokens |= {value.strip() for value in request.headers.getlist("x-api-key")}
    for offered in request.scope.get("subprotocols", ()):
        if offered.startswith(BEARER_SUBPROTOCOL_PREFIX):
            credentials.append(offered)
            tokens.add(offered.removeprefix(BEARER_SUBPROTOCOL_PREFIX))
    if not credentials:
        return None
    return tokens.pop() if len(tokens) == 1 else ""


def _parse_bearer(value: str) -> str:
    scheme, _, token = value.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_local_owner(request: HTTPConnection, state: HttpServerState) -> bool:
    """True if keys are optional and nothing about the request comes from further away than this machine."""
    settings, peer, host = state.settings, request.scope.get("client"), get_host(request)
    return (
        settings.keys == "auto"
        and is_loopback(settings.host.lower())
        and peer is not None
        and is_loopback(str(peer[0]))
        and host is not None
        and (is_loopback(host) or host.strip("[]") == settings.host.lower())
        and all(is_same_origin(origin, request, state) for origin in request.headers.getlist("origin"))
        and request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        and not any(name in _PROXY_HEADERS or name.startswith("x-forwarded-") for name in request.headers)
    )


# --- rate limits ---------------------------------------------------------------------------------


def check_rate_limit(state: HttpServerState, principal: Principal) -> None:
    """Count a request. Raises Problem if its key is above its rate limit."""
    if not principal.key:
        return  # the owner has no limit
    key = state.gateway.people.get_key(principal.key)
    per_min = (key.rate_per_min if key is not None else 0) or state.settings.rate_per_min
    wait = state.rate_limiter.count_request(principal.key, per_min)
    if wait is not None:
        raise Problem(429, "too_many_requests", f"rate limit exceeded: {per_min} requests a minute with this key", wait)


def _count_stream(request: HTTPConnection, state: HttpServerState, principal: Principal) -> None:
    """Count an open stream until the response has been sent. Raises Problem."""
    if not principal.key:
        return
    key = state.gateway.people.get_key(principal.key)
    streams_max = (key.streams_max if key is not None else 0) or state.settings.streams_max
    try:
        cast(ExitStack, request.scope[EXIT_STACK_KEY]).enter_context(
            state.rate_limiter.hold_stream(principal.key, streams_max)
        )
    except TooManyStreams as error:
        raise problem_from_error(error) from None


def is_still_authorised(state: HttpServerState, principal: Principal) -> bool:
    """True while the key of an open stream has not been revoked and its holder still has the same rights."""
    return not principal.key or state.gateway.people.is_still_valid(principal)
