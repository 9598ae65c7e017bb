"""`rest`: an API with an OpenAPI description, as tools: what it offers, reading from it, and changing it if granted.

Requests go to the owner's address (or, without one, to where the description says, if that is encrypted and public),
with the owner's headers, and nowhere else. What the description says of itself is others' text: of it, only ids and
paths stand in the fixed section.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from mainstay.backends.common import (
    Arguments,
    BackendRefused,
    BackendTool,
    Traits,
    clean_line,
    clean_name,
    fit_lines,
    is_one_word,
    page,
)
from mainstay.backends.openapi import JSON_BYTES_MAX, Asked, Description, Operation
from mainstay.backends.rest_answers import Secrets, told
from mainstay.backends.rest_requests import Maker
from mainstay.backends.rest_scope import Scope
from mainstay.backends.rest_shapes import Shapes
from mainstay.core.errors import ConfigError
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.workers import in_thread
from mainstay.io.addresses import AddressRefused, Place, follow, place_of
from mainstay.io.fetch import FetchRules, Resolve
from mainstay.io.http import READING, HeaderRefused, Request, check_headers, same_origin, send
from mainstay.io.response import FetchFailed

FETCH_S = 60.0
ANSWER_BYTES_MAX = 5 * 1024 * 1024
FOUND_MAX = 30


class RestSettings(Traits, frozen=True, kw_only=True):
    """What the owner says of one API."""

    description: str  # a file or an address
    url: str = ""
    headers: dict[str, str] = {}
    paths: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()


class Api(msgspec.Struct, frozen=True):
    """An API whose description was read."""

    description: Description
    maker: Maker
    base: Place
    private_ok: tuple[str, ...]
    listed: tuple[Operation, ...]  # in scope
    digest: str


class RestBackend:
    """`resolve` and `tls` are for tests and odd networks."""

    def __init__(self, settings: RestSettings, *, resolve: Resolve | None = None, tls: ssl.SSLContext | None = None):
        self.settings = settings
        self.name = settings.name
        self._resolve = resolve
        self._tls = tls
        self._scope = Scope(settings.paths, settings.operations, write=settings.write)
        self._headers = _owners(settings)
        self._url = _given(settings)
        self._secrets = Secrets(self._headers)
        self._api: Api | None = None
        self._trouble = ""
        self._reading = asyncio.Lock()
        self.tools: tuple[Tool, ...] = (Describe(self), Query(self), *((Change(self),) if settings.write else ()))

    async def start(self) -> None:
        from mainstay.io.json_schema import Schema  # says so now if its library is missing

        Schema({"type": "object"})
        try:
            await self.api()
        except (FetchFailed, OSError) as error:
            if not _is_address(self.settings.description):
                raise ConfigError(f"backends.{self.name}.description: it cannot be read: {error}") from None
            self._trouble = f"Its description cannot be had just now: {clean_line(str(error))}"
            raise BackendRefused(self._trouble) from None
        except (BackendRefused, AddressRefused) as error:
            raise ConfigError(f"backends.{self.name}: {error}") from None

    async def close(self) -> None:
        self._api = None

    def schema(self) -> str:
        rights = "reading and changing" if self.settings.write else "reading only"
        lines = [f"### {self.name}: an API, {rights}", *([self.settings.about] if self.settings.about else [])]
        if self._api is None:
            return "\n".join((*lines, self._trouble or f"{self.name}__describe lists its operations."))
        tokens = max(self.settings.schema_tokens - len("\n".join(lines)) // 3 - 40, 20)
        plain = [one for one in self._api.listed if is_one_word(one.path) and len(one.id) <= 60]
        every, odd = [f"- {_line(one)}" for one in plain], len(self._api.listed) - len(plain)
        whole = fit_lines(every, tokens, "operations", odd)
        if whole.count("\n") + 1 < len(every):
            whole = fit_lines(_groups(plain), tokens, "groups")
        hint = f"{self.name}__describe finds operations and tells what one takes."
        return "\n".join((*lines, hint, whole))

    # --- the description -------------------------------------------------------------------------

    async def api(self) -> Api:
        """Read once and then kept: another description under the same address is not taken before the next start."""
        async with self._reading:
            if self._api is None:
                source = self.settings.description
                data = await (self._fetched(source) if _is_address(source) else in_thread(lambda: _file(source)))
                self._api = await in_thread(lambda: self._made(data))
                self._trouble = ""
            return self._api

    async def _fetched(self, source: str) -> bytes:
        place = place_of(source)
        ours = self._url is not None and same_origin(place, self._url)
        rules = FetchRules(bytes_max=JSON_BYTES_MAX, time_s=FETCH_S, private_ok=(_host(place),))
        request = Request(url=source, headers=self._headers if ours else ())
        response = await send(request, rules=rules, resolve=self._resolve, tls=self._tls)
        if response.fetched.status != 200:
            raise FetchFailed(f"{place.host} answered with HTTP {response.fetched.status}.")
        return response.fetched.body

    def _made(self, data: bytes) -> Api:
        description = Description(data)
        base, private_ok = self._base(description)
        listed = tuple(one for one in description.operations.values() if self._scope.holds(one))
        maker = Maker(description, base, self._headers)
        return Api(description, maker, base, private_ok, listed, hashlib.sha256(data).hexdigest())

    def _base(self, description: Description) -> tuple[Place, tuple[str, ...]]:
        """Where requests go, and what of the private network that may be: only what the owner has named."""
        if self._url is not None:
            return self._url, (_host(self._url),)
        source = self.settings.description
        named = place_of(source) if _is_address(source) else None
        for server in description.servers() or (["/"] if named is not None else []):
            try:
                place = place_of(server) if named is None or "://" in server else follow(named, server)
            except AddressRefused:
                continue
            if named is not None and same_origin(place, named):
                return _plain(place), (_host(place),)
            if place.scheme == "https":
                return _plain(place), ()
        raise BackendRefused("the description names no encrypted address: say where the API is, as url")

    # --- asking ----------------------------------------------------------------------------------

    async def found(self, name: str) -> tuple[Api, Operation]:
        api = await self.api()
        operation = api.description.find(name)
        if operation is None or operation not in api.listed:
            near = [one.id for one in _ranked(api.listed, name)[:3]]
            hint = f" Near it: {', '.join(near)}." if near else ""
            raise BackendRefused(f"There is no operation {clean_name(name)} here.{hint}")
        return api, operation

    async def ask(self, api: Api, asked: Asked, arguments: _Ask, context: ToolContext) -> str:
        in_scope = self._scope.admits(asked.operation, api.description.operations.values())
        request = api.maker.request(asked, arguments.parameters, arguments.body, context.key, in_scope)
        rules = FetchRules(
            bytes_max=ANSWER_BYTES_MAX, time_s=self.settings.timeout_s, redirects_max=3, private_ok=api.private_ok
        )
        response = await send(request, rules=rules, resolve=self._resolve, tls=self._tls)
        return told(response, self.settings.rows_max, arguments.offset, self._secrets)


# --- the tools -----------------------------------------------------------------------------------


class _Describe(Arguments, frozen=True):
    operation: str | None = None
    search: str | None = None
    offset: int | None = None


class _Ask(Arguments, frozen=True):
    operation: str
    parameters: dict[str, Any] = {}
    body: Any = None
    offset: int | None = None


_ASK: dict[str, dict[str, Any]] = {
    "operation": {"type": "string"},
    "parameters": {"type": "object", "description": "by name, wherever they go: path, query, header"},
}


class Describe(BackendTool):
    action = "describe"
    arguments = _Describe

    def __init__(self, backend: RestBackend) -> None:
        about = f" ({backend.settings.about})" if backend.settings.about else ""
        does = "lists its operations; search: those about something; operation: what that one takes."
        super().__init__(backend.settings, f"The API {backend.name}{about}: {does}")
        self._backend = backend

    async def answer(self, arguments: _Describe, context: ToolContext) -> str:
        if arguments.operation:
            api, operation = await self._backend.found(arguments.operation)
            described: str = await in_thread(lambda: _described(api, api.description.asked(operation)))
            return described
        api = await self._backend.api()
        if arguments.search:
            ranked = _ranked(api.listed, arguments.search)
            listed, note = page(ranked, arguments.offset, FOUND_MAX)
            lines = [_line(one, summary=True) for one in listed]
            return "\n".join((*lines, note)) if lines else "Nothing is about that. Without search, all are listed."
        listed, note = page(api.listed, arguments.offset, self._backend.settings.rows_max)
        odd = api.description.unreadable
        lines = [_line(one, summary=True) for one in listed]
        lines += [text for text in (note, f"[{odd} cannot be read and are left out]" if odd else "") if text]
        return "\n".join(lines) or "There are no operations in scope."


class Query(BackendTool):
    action = "query"
    arguments = _Ask
    schema = {
        "type": "object",
        "properties": {**_ASK, "offset": {"type": "integer"}},
        "required": ["operation"],
    }

    def __init__(self, backend: RestBackend) -> None:
        super().__init__(backend.settings, f"Run a reading operation of the API {backend.name}.")
        self._backend = backend

    async def answer(self, arguments: _Ask, context: ToolContext) -> str:
        api, operation = await self._backend.found(arguments.operation)
        if operation.method not in READING:
            how = f": use {self._backend.name}__change" if self._backend.settings.write else ""
            raise BackendRefused(f"{operation.id} is {operation.method}, which may change something{how}.")
        asked = await in_thread(lambda: api.description.asked(operation))
        return await self._backend.ask(api, asked, arguments, context)


class Change(BackendTool):
    action = "change"
    arguments = _Ask
    writes = True
    effect: Effect = "unsafe"
    schema = {"type": "object", "properties": {**_ASK, "body": {}}, "required": ["operation"]}

    def __init__(self, backend: RestBackend) -> None:
        super().__init__(backend.settings, f"Run a changing operation (POST, PUT, PATCH, DELETE) of {backend.name}.")
        self._backend = backend

    async def answer(self, arguments: _Ask, context: ToolContext) -> str:
        api, operation = await self._backend.found(arguments.operation)
        if operation.method in READING:
            raise BackendRefused(f"{operation.id} only reads: use {self._backend.name}__query.")
        asked = await in_thread(lambda: api.description.asked(operation))
        return await self._backend.ask(api, asked, arguments, context)


# --- lines ---------------------------------------------------------------------------------------


def _line(one: Operation, *, summary: bool = False) -> str:
    head = one.id if one.id.startswith(f"{one.method} ") else f"{one.id} {one.method} {one.path}"
    return f"{head} — {one.summary}" if summary and one.summary else head


def _groups(listed: Iterable[Operation]) -> list[str]:
    """Where there are too many to be named: how many lie under which path, the most first."""
    counts = Counter("/".join(one.path.split("/")[:2]) for one in listed)
    return ["Operations by path:", *(f"- {clean_name(path, 40)}: {count}" for path, count in counts.most_common(200))]


def _ranked(listed: Iterable[Operation], search: str) -> list[Operation]:
    """Those that have the most of the words, a word of the id or path counting more than one of a summary."""
    words = [
        word for word in clean_line(search.casefold()).replace("/", " ").replace("-", " ").split() if len(word) > 1
    ]
    stems = [word.removesuffix("s") for word in words[:20]]
    scored = []
    for at, one in enumerate(listed):
        name, said = f"{one.id} {one.method} {one.path}".casefold(), f"{one.summary} {' '.join(one.tags)}".casefold()
        score = sum(3 * (stem in name) + (stem in said) for stem in stems)
        if score:
            scored.append((-score, len(one.path), at, one))
    return [one for *_, one in sorted(scored, key=lambda item: item[:3])]


def _described(api: Api, asked: Asked) -> str:
    shapes = Shapes(api.description)
    lines = [_line(asked.operation, summary=True)]
    for one in sorted(api.maker.offered(asked), key=lambda one: not one.required):
        need = "" if one.required else "?"
        about = f" — {one.about}" if one.about else ""
        lines.append(f"  {clean_name(one.key)}{need} ({one.where}): {shapes.line(one.schema)}{about}")
    for body in asked.bodies:
        need = "" if asked.body_required else "?"
        lines.append(f"  body{need} ({clean_line(body.mime, 60)}): {shapes.line(body.schema)}")
    if len(lines) == 1:
        lines.append("  It takes nothing.")
    return "\n".join(lines)


# --- what the owner says -------------------------------------------------------------------------


def _is_address(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _owners(settings: RestSettings) -> tuple[tuple[str, str], ...]:
    try:
        return check_headers(tuple(settings.headers.items()))
    except HeaderRefused as error:
        raise ConfigError(f"backends.{settings.name}.headers: {error}") from None


def _given(settings: RestSettings) -> Place | None:
    if not settings.url:
        return None
    try:
        return _plain(place_of(settings.url))
    except AddressRefused as error:
        raise ConfigError(f"backends.{settings.name}.url: {error}") from None


def _plain(place: Place) -> Place:
    if "?" in place.target:
        raise AddressRefused("The address of an API has no question mark in it.")
    return place


def _host(place: Place) -> str:
    return f"{place.host}:{place.port}"


def _file(path: str) -> bytes:
    with open(os.path.expanduser(path), "rb") as file:
        data = file.read(JSON_BYTES_MAX + 1)
    if len(data) > JSON_BYTES_MAX:
        raise BackendRefused(f"{clean_line(path)} is larger than {JSON_BYTES_MAX} bytes")
    return data
