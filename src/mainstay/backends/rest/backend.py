"""REST backend: an API with an OpenAPI description, as the tools `describe` and `query`, and `change` where granted.

Requests go only to the owner's URL (without one, to the server that the description names, if it is public HTTPS), with
the owner's headers. The description is third-party text: only operation ids and paths stand in the fixed section.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from collections import Counter
from collections.abc import Iterable

import msgspec

from mainstay.backends.base import (
    BackendRefused,
    BackendTool,
    BackendToolArguments,
    clean_line,
    clean_name,
    fit_lines,
    is_single_word,
    paginate,
)
from mainstay.backends.factory_context import BackendFactoryContext
from mainstay.backends.rest.manifest import RestSettings
from mainstay.backends.rest.openapi import JSON_BYTES_MAX, ApiOperation, OpenApiDocument, OperationDetails
from mainstay.backends.rest.request_builder import RequestBuilder
from mainstay.backends.rest.response_formatter import OwnerHeaderMasker, format_response
from mainstay.backends.rest.schema_converters import SchemaFormatter
from mainstay.backends.rest.scope import RestScopeMatcher
from mainstay.core.errors import ConfigError
from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.fetch import FetchRules, HostResolver
from mainstay.io.http_client import (
    SAFE_METHODS,
    HttpRequest,
    HttpRequestRefused,
    check_headers,
    has_same_origin,
    send_request,
)
from mainstay.io.http_response import FetchFailed
from mainstay.io.urls import AddressRefused, ParsedUrl, parse_url, resolve_redirect

DESCRIPTION_TIMEOUT_S = 60.0
RESPONSE_BYTES_MAX = 5 * 1024 * 1024
SEARCH_HITS_MAX = 30


class LoadedRestApi(msgspec.Struct, frozen=True):
    """An API whose description has been loaded."""

    document: OpenApiDocument
    request_builder: RequestBuilder
    base_url: ParsedUrl
    private_hosts: tuple[str, ...]
    operations: tuple[ApiOperation, ...]  # in scope
    digest: str  # SHA-256 of the description


def build_rest_backend(name: str, settings: RestSettings, context: BackendFactoryContext) -> RestBackend:
    return RestBackend(name, settings)


class RestBackend:
    """One API. `resolve` and `tls` replace the host resolver and the TLS settings, for tests and unusual networks."""

    def __init__(
        self,
        name: str,
        settings: RestSettings,
        *,
        resolve: HostResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ):
        self.name = name
        self.settings = settings
        self._resolve = resolve
        self._tls = tls
        self._scope = RestScopeMatcher(settings.scope.paths, settings.scope.operations, write=settings.write)
        self._headers = _check_owner_headers(name, settings)
        self._base_url = _parse_base_url(name, settings)
        self._masker = OwnerHeaderMasker(self._headers)
        self._api: LoadedRestApi | None = None
        self._load_error = ""
        self._load_lock = asyncio.Lock()
        self.tools: tuple[Tool, ...] = (
            RestDescribeTool(self),
            RestQueryTool(self),
            *((RestChangeTool(self),) if settings.write else ()),
        )

    async def start(self) -> None:
        from mainstay.io.json_schema import CompiledJsonSchema  # raises now if its library is not installed

        CompiledJsonSchema({"type": "object"})
        try:
            await self.load_api()
        except (FetchFailed, OSError) as error:
            if not _is_url(self.settings.description):
                raise ConfigError(f"backends.{self.name}.description: cannot be read: {error}") from None
            self._load_error = f"Its description cannot be fetched now: {clean_line(str(error))}"
            raise BackendRefused(self._load_error) from None
        except (BackendRefused, AddressRefused) as error:
            raise ConfigError(f"backends.{self.name}: {error}") from None

    async def close(self) -> None:
        self._api = None

    def schema_summary(self) -> str:
        access = "reading and changing" if self.settings.write else "reading only"
        lines = [f"### {self.name}: an API, {access}", *([self.settings.about] if self.settings.about else [])]
        if self._api is None:
            return "\n".join((*lines, self._load_error or f"{self.name}__describe lists its operations."))
        tokens = max(self.settings.schema_tokens - len("\n".join(lines)) // 3 - 40, 20)
        in_scope = self._api.operations
        listable = [operation for operation in in_scope if is_single_word(operation.path) and len(operation.id) <= 60]
        operation_lines, omitted = (
            [f"- {_format_operation(operation)}" for operation in listable],
            len(in_scope) - len(listable),
        )
        listing = fit_lines(operation_lines, tokens, "operations", omitted)
        if listing.count("\n") + 1 < len(operation_lines):
            listing = fit_lines(_group_by_path(listable), tokens, "groups")
        hint = f"{self.name}__describe finds operations and shows the parameters of one."
        return "\n".join((*lines, hint, listing))

    # --- description -----------------------------------------------------------------------------

    async def load_api(self) -> LoadedRestApi:
        """Load the description on first use and cache it: a changed description takes effect at the next start."""
        async with self._load_lock:
            if self._api is None:
                source = self.settings.description
                data = await (
                    self._fetch_description(source)
                    if _is_url(source)
                    else run_in_thread(lambda: _read_description(source))
                )
                self._api = await run_in_thread(lambda: self._build_api(data))
                self._load_error = ""
            return self._api

    async def _fetch_description(self, source: str) -> bytes:
        url = parse_url(source)
        is_same_origin = self._base_url is not None and has_same_origin(url, self._base_url)
        rules = FetchRules(
            bytes_max=JSON_BYTES_MAX, timeout_s=DESCRIPTION_TIMEOUT_S, private_hosts=(_host_and_port(url),)
        )
        request = HttpRequest(url=source, headers=self._headers if is_same_origin else ())
        response = await send_request(request, rules=rules, resolve=self._resolve, tls=self._tls)
        if response.result.status != 200:
            raise FetchFailed(f"{url.host} answered with HTTP {response.result.status}.")
        return response.result.body

    def _build_api(self, data: bytes) -> LoadedRestApi:
        document = OpenApiDocument(data)
        base, private_ok = self._find_base_url(document)
        operations = tuple(operation for operation in document.operations.values() if self._scope.contains(operation))
        builder = RequestBuilder(document, base, self._headers)
        return LoadedRestApi(document, builder, base, private_ok, operations, hashlib.sha256(data).hexdigest())

    def _find_base_url(self, document: OpenApiDocument) -> tuple[ParsedUrl, tuple[str, ...]]:
        """Return the base URL and the private hosts that requests may reach: only those that the owner configured."""
        if self._base_url is not None:
            return self._base_url, (_host_and_port(self._base_url),)
        source = self.settings.description
        source_url = parse_url(source) if _is_url(source) else None
        for server in document.server_urls() or (["/"] if source_url is not None else []):
            try:
                url = (
                    parse_url(server) if source_url is None or "://" in server else resolve_redirect(source_url, server)
                )
            except AddressRefused:
                continue
            if source_url is not None and has_same_origin(url, source_url):
                return _refuse_query_string(url), (_host_and_port(url),)
            if url.scheme == "https":
                return _refuse_query_string(url), ()
        raise BackendRefused("the description has no https address: set the address of the API as url")

    # --- calls -----------------------------------------------------------------------------------

    async def find_operation(self, name: str) -> tuple[LoadedRestApi, ApiOperation]:
        api = await self.load_api()
        operation = api.document.find_operation(name)
        if operation is None or operation not in api.operations:
            similar = [candidate.id for candidate in _rank_operations(api.operations, name)[:3]]
            hint = f" Similar: {', '.join(similar)}." if similar else ""
            raise BackendRefused(f"There is no operation {clean_name(name)} here.{hint}")
        return api, operation

    async def call_operation(
        self, api: LoadedRestApi, details: OperationDetails, arguments: _RestCallArguments, context: ToolContext
    ) -> str:
        in_scope = self._scope.build_path_check(details.operation, api.document.operations.values())
        request = api.request_builder.build_request(
            details, arguments.parameters, arguments.body, context.key, in_scope
        )
        rules = FetchRules(
            bytes_max=RESPONSE_BYTES_MAX,
            timeout_s=self.settings.timeout_s,
            redirects_max=3,
            private_hosts=api.private_hosts,
        )
        response = await send_request(request, rules=rules, resolve=self._resolve, tls=self._tls)
        return format_response(response, self.settings.rows_max, arguments.offset, self._masker)


# --- tools ---------------------------------------------------------------------------------------


class _RestDescribeArguments(BackendToolArguments, frozen=True):
    operation: str | None = None
    search: str | None = None
    offset: int | None = None


class _RestCallArguments(BackendToolArguments, frozen=True):
    operation: str
    parameters: JsonObject = {}
    body: JsonValue = None
    offset: int | None = None


_CALL_PROPERTIES: dict[str, JsonObject] = {
    "operation": {"type": "string"},
    "parameters": {"type": "object", "description": "by name, for the path, the query and the headers"},
}


class RestDescribeTool(BackendTool[_RestDescribeArguments]):
    action = "describe"
    arguments = _RestDescribeArguments

    def __init__(self, backend: RestBackend) -> None:
        about = f" ({backend.settings.about})" if backend.settings.about else ""
        usage = "lists its operations; search: those that match; operation: the parameters of that one."
        super().__init__(backend, f"The API {backend.name}{about}: {usage}")
        self._backend = backend

    async def execute(self, arguments: _RestDescribeArguments, context: ToolContext) -> str:
        if arguments.operation:
            api, operation = await self._backend.find_operation(arguments.operation)
            description: str = await run_in_thread(
                lambda: _describe_operation(api, api.document.load_details(operation))
            )
            return description
        api = await self._backend.load_api()
        if arguments.search:
            ranked = _rank_operations(api.operations, arguments.search)
            listed, note = paginate(ranked, arguments.offset, SEARCH_HITS_MAX)
            lines = [_format_operation(candidate, with_summary=True) for candidate in listed]
            return "\n".join((*lines, note)) if lines else "No operation matches. Without search, all are listed."
        listed, note = paginate(api.operations, arguments.offset, self._backend.settings.rows_max)
        unreadable = api.document.unreadable_count
        lines = [_format_operation(candidate, with_summary=True) for candidate in listed]
        lines += [
            text for text in (note, f"[{unreadable} cannot be read and are left out]" if unreadable else "") if text
        ]
        return "\n".join(lines) or "There are no operations in scope."


class RestQueryTool(BackendTool[_RestCallArguments]):
    action = "query"
    arguments = _RestCallArguments
    schema = {
        "type": "object",
        "properties": {**_CALL_PROPERTIES, "offset": {"type": "integer"}},
        "required": ["operation"],
    }

    def __init__(self, backend: RestBackend) -> None:
        super().__init__(backend, f"Run a reading operation of the API {backend.name}.")
        self._backend = backend

    async def execute(self, arguments: _RestCallArguments, context: ToolContext) -> str:
        api, operation = await self._backend.find_operation(arguments.operation)
        if operation.method not in SAFE_METHODS:
            alternative = f": use {self._backend.name}__change" if self._backend.settings.write else ""
            raise BackendRefused(f"{operation.id} is {operation.method}, which may change something{alternative}.")
        details = await run_in_thread(lambda: api.document.load_details(operation))
        return await self._backend.call_operation(api, details, arguments, context)


class RestChangeTool(BackendTool[_RestCallArguments]):
    action = "change"
    arguments = _RestCallArguments
    writes = True
    effect: Effect = "unsafe"
    schema = {"type": "object", "properties": {**_CALL_PROPERTIES, "body": {}}, "required": ["operation"]}

    def __init__(self, backend: RestBackend) -> None:
        super().__init__(backend, f"Run a changing operation (POST, PUT, PATCH, DELETE) of {backend.name}.")
        self._backend = backend

    async def execute(self, arguments: _RestCallArguments, context: ToolContext) -> str:
        api, operation = await self._backend.find_operation(arguments.operation)
        if operation.method in SAFE_METHODS:
            raise BackendRefused(f"{operation.id} only reads: use {self._backend.name}__query.")
        details = await run_in_thread(lambda: api.document.load_details(operation))
        return await self._backend.call_operation(api, details, arguments, context)


# --- formatting ----------------------------------------------------------------------------------


def _format_operation(operation: ApiOperation, *, with_summary: bool = False) -> str:
    heading = (
        operation.id
        if operation.id.startswith(f"{operation.method} ")
        else f"{operation.id} {operation.method} {operation.path}"
    )
    return f"{heading} — {operation.summary}" if with_summary and operation.summary else heading


def _group_by_path(operations: Iterable[ApiOperation]) -> list[str]:
    """Count operations by the first segment of their path, most first: for APIs with too many operations to list."""
    counts = Counter("/".join(operation.path.split("/")[:2]) for operation in operations)
    return ["Operations by path:", *(f"- {clean_name(path, 40)}: {count}" for path, count in counts.most_common(200))]


def _rank_operations(operations: Iterable[ApiOperation], search: str) -> list[ApiOperation]:
    """Rank operations by the words they contain; a word in the id or path counts more than one in the summary."""
    words = [
        word for word in clean_line(search.casefold()).replace("/", " ").replace("-", " ").split() if len(word) > 1
    ]
    stems = [word.removesuffix("s") for word in words[:20]]
    scored = []
    for position, operation in enumerate(operations):
        name, summary = (
            f"{operation.id} {operation.method} {operation.path}".casefold(),
            f"{operation.summary} {' '.join(operation.tags)}".casefold(),
        )
        score = sum(3 * (stem in name) + (stem in summary) for stem in stems)
        if score:
            scored.append((-score, len(operation.path), position, operation))
    return [operation for *_, operation in sorted(scored, key=lambda item: item[:3])]


def _describe_operation(api: LoadedRestApi, details: OperationDetails) -> str:
    formatter = SchemaFormatter(api.document)
    lines = [_format_operation(details.operation, with_summary=True)]
    for parameter in sorted(
        api.request_builder.settable_parameters(details), key=lambda parameter: not parameter.required
    ):
        optional = "" if parameter.required else "?"
        about = f" — {parameter.description}" if parameter.description else ""
        schema = formatter.format_schema(parameter.schema)
        lines.append(f"  {clean_name(parameter.key)}{optional} ({parameter.location}): {schema}{about}")
    for body in details.bodies:
        optional = "" if details.body_required else "?"
        lines.append(f"  body{optional} ({clean_line(body.mime, 60)}): {formatter.format_schema(body.schema)}")
    if len(lines) == 1:
        lines.append("  It has no parameters.")
    return "\n".join(lines)


# --- settings ------------------------------------------------------------------------------------


def _is_url(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _check_owner_headers(name: str, settings: RestSettings) -> tuple[tuple[str, str], ...]:
    try:
        return check_headers(tuple(settings.headers.items()))
    except HttpRequestRefused as error:
        raise ConfigError(f"backends.{name}.headers: {error}") from None


def _parse_base_url(name: str, settings: RestSettings) -> ParsedUrl | None:
    if not settings.url:
        return None
    try:
        return _refuse_query_string(parse_url(settings.url))
    except AddressRefused as error:
        raise ConfigError(f"backends.{name}.url: {error}") from None


def _refuse_query_string(url: ParsedUrl) -> ParsedUrl:
    if "?" in url.target:
        raise AddressRefused("The address of an API must not contain a question mark.")
    return url


def _host_and_port(url: ParsedUrl) -> str:
    return f"{url.host}:{url.port}"


def _read_description(path: str) -> bytes:
    with open(os.path.expanduser(path), "rb") as file:
        data = file.read(JSON_BYTES_MAX + 1)
    if len(data) > JSON_BYTES_MAX:
        raise BackendRefused(f"{clean_line(path)} is larger than {JSON_BYTES_MAX} bytes")
    return data
