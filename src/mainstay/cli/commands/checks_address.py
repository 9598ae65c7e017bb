"""Where a configured model is reached, which key it wants, and what is heard there without asking a model anything."""

from __future__ import annotations

import json
import os
import time
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mainstay.agent.discover import servers
from mainstay.config.schema import FILE, Config, ModelEntry
from mainstay.core.workers import in_thread
from mainstay.providers.catalogue import PLACES

ANSWER_BYTES_MAX = 1024 * 1024
NAMES_MAX = 200


class Target(msgspec.Struct, frozen=True):
    """A model to try: with which configuration, and why."""

    config: Config
    spec: str
    how: str

    @property
    def provider(self) -> str:
        return self.spec.partition("/")[0]

    @property
    def name(self) -> str:
        return self.spec.partition("/")[2]


class Reached(msgspec.Struct, frozen=True):
    """Somebody answered. `ahead_s`: how far its clock is ahead of ours; None: it does not say."""

    host: str
    ahead_s: float | None
    models: tuple[str, ...] = ()


def address_of(target: Target) -> str:
    """As the provider will be asked; empty if nobody says."""
    entry = next(
        (one for one in target.config.models if isinstance(one, ModelEntry) and one.model == target.spec), None
    )
    given = target.config.providers.get(target.provider)
    place = PLACES.get(target.provider)
    for said in (entry.base_url if entry else None, given.base_url if given else None):
        if said:
            return said
    if target.provider == "ollama":
        return next(one.base_url for one in servers(os.environ) if one.provider == "ollama")
    if place is None:
        return ""
    return (os.environ.get(place.url_variable, "").strip() if place.url_variable else "") or place.base_url


def shown_address(target: Target) -> str:
    """The same without a password or a key that somebody put into it: what a doctor says is passed on."""
    try:
        parts = urlsplit(address_of(target))
    except ValueError:
        return ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def is_here(target: Target) -> bool:
    """On this machine."""
    host = urlsplit(shown_address(target)).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def key_of(target: Target) -> str:
    """The variable that its key is usually in; empty for one that wants none."""
    place = PLACES.get(target.provider)
    return place.key_variable if place is not None else ""


def where_it_is(target: Target) -> str:
    """Where its key comes from now."""
    given = target.config.providers.get(target.provider)
    variable = key_of(target)
    if given is not None and given.api_key and given.api_key != os.environ.get(variable, ""):
        return f"see providers.{target.provider}.api_key in {FILE}, and the variable it names"
    return (
        f"export {variable}=…" if variable else f"mainstay config set providers.{target.provider}.api_key '${{NAME}}'"
    )


async def reach(target: Target, seconds: float) -> Reached | None:
    """Whoever listens there, within this time; None: nobody. No key is sent."""
    address = shown_address(target)
    if urlsplit(address).scheme not in ("http", "https"):
        return None
    found: Reached | None = await in_thread(lambda: _ask(address, seconds))
    return found


def _ask(address: str, seconds: float) -> Reached | None:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen  # they know the proxies of the environment

    body = b""
    sent = time.time()
    try:
        request = Request(f"{address.rstrip('/')}/models", headers={"Accept": "application/json"})
        with urlopen(request, timeout=seconds) as answer:
            headers, came = answer.headers, time.time()
            body = answer.read(ANSWER_BYTES_MAX)
    except HTTPError as error:  # an answer all the same
        headers, came = error.headers, time.time()
        error.close()
    except (OSError, HTTPException, ValueError):
        return None
    return Reached(urlsplit(address).hostname or "", _ahead(headers.get("Date"), sent, came), _names(body))


def _ahead(date: str | None, sent: float, came: float) -> float | None:
    """Against the middle of the exchange; the header has whole seconds."""
    if not date:
        return None
    try:
        there = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
    if sent - 1 <= there <= came + 1:
        return 0.0
    return there - (sent + came) / 2


def _names(body: bytes) -> tuple[str, ...]:
    try:
        listed: Any = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return ()
    match listed:
        case {"data": list(entries)}:
            names = [one["id"] for one in entries if isinstance(one, dict) and isinstance(one.get("id"), str)]
            return tuple(name for name in names if name.isprintable())[:NAMES_MAX]
    return ()
