"""The door: who is asking, and may they ask this server at all, before anything of what they ask is looked at.

A browser is a confused deputy: a page from anywhere can make it ask us, under a name that only seems to be ours. So
every request has to name us rightly (`Host`), one that a page makes has to come from a page that is allowed
(`Origin`), and whoever has no key is the owner only if nothing about the request comes from further than this machine.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from ipaddress import IPv6Address, ip_address
from typing import cast
from urllib.parse import parse_qsl

from starlette.requests import HTTPConnection

from mainstay.core.audit import acting
from mainstay.core.people import KEY_PREFIX, Principal
from mainstay.gateway.rates import TooMany
from mainstay.gateway.visit import Visit
from mainstay.server.doors import Doors
from mainstay.server.problems import BUSY_S, Problem, problem_of

DOORS = "mainstay.doors"  # where a request's scope has them
VISIT = "mainstay.visit"  # and who asks, once that is known
LEAVING = "mainstay.leaving"  # and what is let go of when it has been answered
BEARER = "bearer."  # how a WebSocket's subprotocol begins that is a key
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_SECRETS = frozenset(
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
# Somebody else was asked first, and passed it on.
_FORWARDED = ("forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "cf-connecting-ip", "true-client-ip", "via")


async def enter(request: HTTPConnection, *, stream: bool = False) -> Visit:
    """Whoever gets a `Visit` may be here. With `stream`, it counts as one that is open until it has been answered.
    Raises Problem, or what opening a workspace raises."""
    doors = doors_of(request)
    check_address(request, doors)
    principal = who(request, doors)
    check_rate(doors, principal)
    if stream:
        _take_stream(request, doors, principal)
    if doors.draining and request.scope.get("method") not in ("GET", "HEAD"):
        raise Problem(503, "stopping", "the server is being stopped; try again in a moment", BUSY_S)
    visit: Visit = await doors.gateway.visit(principal)
    request.scope[VISIT] = visit
    acting.set(principal.person)
    return visit


def doors_of(request: HTTPConnection) -> Doors:
    return cast(Doors, request.scope[DOORS])


# --- by which name, from which page --------------------------------------------------------------


def check_address(request: HTTPConnection, doors: Doors) -> None:
    """Raises Problem if this was meant for somebody else, or comes from a page that may not ask."""
    _check_query(request)
    host = named_host(request)
    if host is None or not _is_ours(host, request, doors):
        raise Problem(
            403, "wrong_host", "this server is not known by that name; names that it has are configured as server.hosts"
        )
    origins = request.headers.getlist("origin")
    if origins and not all(_may_ask(origin, request, doors) for origin in origins):
        raise Problem(
            403,
            "wrong_origin",
            "pages from there may not use this server; those that may are configured as server.origins",
        )


def _check_query(request: HTTPConnection) -> None:
    """A key in an address ends up in logs and histories, so that none is taken from there."""
    query = request.scope.get("query_string", b"").decode("latin-1")
    if not query:
        return
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.lower() in _SECRETS or value.startswith(KEY_PREFIX):
            raise Problem(
                400,
                "key_in_address",
                "a key does not belong into an address: send it as `Authorization: Bearer …`, and make a new one",
            )


def named_host(request: HTTPConnection) -> str | None:
    """The name that it was asked by, without the port; None: that is none."""
    given = request.headers.getlist("host")
    found = _HOST.fullmatch(given[0].lower()) if len(given) == 1 else None
    return found["name"] if found is not None else None


def _is_ours(host: str, request: HTTPConnection, doors: Doors) -> bool:
    settings = doors.settings
    ours = {settings.host.lower(), f"[{settings.host.lower()}]", *(bare(name) for name in settings.hosts)}
    if host in ours or is_loopback(host):
        return True
    at = request.scope.get("server")  # the very address that the connection came to
    return at is not None and host.strip("[]") == str(at[0]).lower() and _is_address(host)


def bare(name: str) -> str:
    """Of a host, without its port."""
    found = _HOST.fullmatch(name.lower())
    return found["name"] if found is not None else name.lower()


def is_own(origin: str, request: HTTPConnection, doors: Doors) -> bool:
    """A page that we served: it has our name and port, and our scheme unless somebody in front of us has another."""
    scheme, _, authority = origin.lower().partition("://")
    if authority != request.headers["host"].lower():
        return False
    ours = {"ws": "http", "wss": "https"}.get(request.scope["scheme"], request.scope["scheme"])
    named = bare(authority) in {bare(name) for name in doors.settings.hosts}
    return scheme == ours or (named and scheme == "https")


def _may_ask(origin: str, request: HTTPConnection, doors: Doors) -> bool:
    return is_own(origin, request, doors) or is_configured(origin, doors)


def is_configured(origin: str, doors: Doors) -> bool:
    return origin.lower() in {one.lower().rstrip("/") for one in doors.settings.origins}


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


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


# --- who -----------------------------------------------------------------------------------------


def who(request: HTTPConnection, doors: Doors) -> Principal:
    workspace = request.headers.get("x-workspace", "")
    token = token_of(request)
    if token is None or _is_anybodys(token, request, doors):
        if not is_owner(request, doors):
            raise _no_key("a key is needed: send it as `Authorization: Bearer …`")
        return Principal(person="", workspace=workspace or doors.settings.workspace)
    principal = doors.gateway.people.principal(token)
    if principal is None:
        raise _no_key("this key is not valid here", 'Bearer realm="mainstay", error="invalid_token"')
    if workspace not in ("", principal.workspace):
        raise Problem(403, "forbidden", "a key is for one workspace, and this one is not for that")
    return principal


def _is_anybodys(token: str, request: HTTPConnection, doors: Doors) -> bool:
    """Many clients send some key, wanted or not. To whoever needs none, one that cannot be ours says nothing."""
    plain = bool(token) and token.isascii() and not token.startswith(KEY_PREFIX)
    return plain and is_owner(request, doors)


def _no_key(sentence: str, challenge: str = 'Bearer realm="mainstay"') -> Problem:
    return Problem(401, "unauthorised", sentence, headers={"WWW-Authenticate": challenge})


def token_of(request: HTTPConnection) -> str | None:
    """The key that was shown; None: none was. Whatever else was shown instead is a wrong one."""
    given = request.headers.getlist("authorization") + request.headers.getlist("x-api-key")
    tokens = {_bearer(value) for value in request.headers.getlist("authorization")}
    tokens |= {value.strip() for value in request.headers.getlist("x-api-key")}
    for offered in request.scope.get("subprotocols", ()):
        if offered.startswith(BEARER):
            given.append(offered)
            tokens.add(offered.removeprefix(BEARER))
    if not given:
        return None
    return tokens.pop() if len(tokens) == 1 else ""


def _bearer(value: str) -> str:
    scheme, _, token = value.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_owner(request: HTTPConnection, doors: Doors) -> bool:
    """Without a key, and nothing about it comes from further than this machine."""
    settings, peer, host = doors.settings, request.scope.get("client"), named_host(request)
    return (
        settings.keys == "auto"
        and is_loopback(settings.host.lower())
        and peer is not None
        and is_loopback(str(peer[0]))
        and host is not None
        and (is_loopback(host) or host.strip("[]") == settings.host.lower())
        and all(is_own(origin, request, doors) for origin in request.headers.getlist("origin"))
        and request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        and not any(name in _FORWARDED or name.startswith("x-forwarded-") for name in request.headers)
    )


# --- how often -----------------------------------------------------------------------------------


def check_rate(doors: Doors, principal: Principal) -> None:
    """Raises Problem if this is once too often."""
    if not principal.key:
        return  # the owner has the whole machine
    key = doors.gateway.people.key(principal.key)
    per_min = (key.rate_per_min if key is not None else 0) or doors.settings.rate_per_min
    wait = doors.rates.check(principal.key, per_min)
    if wait is not None:
        raise Problem(429, "too_many_requests", f"more than {per_min} requests a minute came with this key", wait)


def _take_stream(request: HTTPConnection, doors: Doors, principal: Principal) -> None:
    if not principal.key:
        return
    key = doors.gateway.people.key(principal.key)
    most = (key.streams_max if key is not None else 0) or doors.settings.streams_max
    try:
        cast(ExitStack, request.scope[LEAVING]).enter_context(doors.rates.stream(principal.key, most))
    except TooMany as error:
        raise problem_of(error) from None


def stays(doors: Doors, principal: Principal) -> bool:
    """A key that was revoked opens nothing, and keeps nothing open; nor does one whose holder may less by now."""
    return not principal.key or doors.gateway.people.still(principal)
