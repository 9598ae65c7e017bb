"""Reads OpenAPI descriptions (3.0, 3.1, or Swagger 2.0; JSON or YAML) lazily.

Published descriptions have a dozen megabytes, of which a conversation needs a few kilobytes. So the text is kept
encoded, the list of operations is read without decoding the rest, and each part is decoded when it is needed.
References are followed only inside the description.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from mainstay.backends.base import BackendRefused, clean_line
from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.io import yaml
from mainstay.io.http_client import METHODS

JSON_BYTES_MAX = 32 * 1024 * 1024
YAML_BYTES_MAX = 16 * 1024 * 1024
NODE_BYTES_MAX = 1024 * 1024  # for one operation or schema
OPERATIONS_MAX = 20_000
PARAMETERS_MAX = 200
REFERENCE_CHAIN_MAX = 20  # in a chain
SERVERS_MAX = 20
POINTER_SEGMENTS_MAX = 20

ParameterLocation = Literal["path", "query", "header", "cookie"]
_LOCATIONS: dict[str, ParameterLocation] = {"path": "path", "query": "query", "header": "header", "cookie": "cookie"}

_OPERATION_ID = re.compile(r"[\w.:/-]{1,120}")
_PLAIN_PATH = re.compile(r"/[^\x00-\x20\x7f-\xa0?#\\]{0,500}")
PATH_PARAMETER = re.compile(r"\{([^{}/]{1,100})\}")
_DECODE_ERRORS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)


class ApiOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as it is listed."""

    id: str
    method: str
    path: str
    summary: str = ""
    tags: tuple[str, ...] = ()


class ApiParameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter. `key` is its name in a call: "location:name" if two parameters of an operation have the same
    name."""

    key: str
    name: str
    location: ParameterLocation
    required: bool = False
    schema: JsonValue = True
    style: str = ""
    explode: bool | None = None
    is_json: bool = False  # its value is encoded as JSON
    allows_slashes: bool = False  # a path parameter that may span several segments
    description: str = ""


class RequestBody(msgspec.Struct, frozen=True):
    """A request body in one media type."""

    mime: str
    schema: JsonValue


class OperationDetails(msgspec.Struct, frozen=True):
    """All inputs of one operation. `bodies` are alternatives."""

    operation: ApiOperation
    parameters: tuple[ApiParameter, ...]
    bodies: tuple[RequestBody, ...] = ()
    body_required: bool = False


class _OperationHeader(msgspec.Struct):
    operationId: str = ""
    summary: str = ""
    description: str = ""
    tags: list[str] = []


class OpenApiDocument:
    """An OpenAPI description. Raises BackendRefused if it cannot be read; single unreadable operations are counted."""

    def __init__(self, data: bytes) -> None:
        self._root = _decode_level(Raw(_to_json(data)))
        version = self._decode(self._root.get("openapi")) or self._decode(self._root.get("swagger"))
        self.version = str(version)[:10]
        if not self.version.startswith(("3.", "2.0")):
            raise BackendRefused("The description is neither OpenAPI 3 nor Swagger 2.0.")
        self._mappings: dict[tuple[str, ...], dict[str, Raw]] = {(): self._root}
        self.unreadable_count = 0
        self._paths = _decode_level(self._root.get("paths", Raw(b"{}")))
        self.operations = self._assign_ids(list(self._read_operations()))

    @property
    def is_swagger_2(self) -> bool:
        return self.version.startswith("2.")

    def find_operation(self, name: str) -> ApiOperation | None:
        """Find an operation by id, or by method and path: "GET /pets/{id}"."""
        operation = self.operations.get(name)
        if operation is not None:
            return operation
        method, _, path = name.strip().partition(" ")
        key = (method.upper(), path.strip())
        return next(
            (candidate for candidate in self.operations.values() if (candidate.method, candidate.path) == key), None
        )

    # --- operations ------------------------------------------------------------------------------

    def _read_operations(self) -> Iterator[ApiOperation]:
        """Yield all operations in order. Unusual paths are skipped: a server could read them as another path."""
        count = 0
        for path, raw in self._paths.items():
            item = self._read_path_item(raw)
            is_plain = _PLAIN_PATH.fullmatch(path) is not None and not has_dot_segments(path) and "//" not in path
            for method in METHODS:
                raw_operation = item.get(method.lower())
                header = _decode_header(raw_operation) if raw_operation is not None and is_plain else None
                if header is None:
                    self.unreadable_count += raw_operation is not None
                    continue
                count += 1
                if count > OPERATIONS_MAX:
                    raise BackendRefused(f"The description has more than {OPERATIONS_MAX} operations.")
                summary = clean_line(header.summary or header.description, 120)
                tags = tuple(clean_line(tag, 60) for tag in header.tags[:5])
                yield ApiOperation(id=header.operationId, method=method, path=path, summary=summary, tags=tags)

    def _read_path_item(self, raw: Raw) -> Mapping[str, Raw]:
        try:
            for _ in range(REFERENCE_CHAIN_MAX):
                item = _decode_level(raw)
                if "$ref" not in item:
                    return item
                raw = self._find_raw(str(self._decode(item["$ref"])))
        except BackendRefused:
            pass
        self.unreadable_count += 1
        return {}

    def _assign_ids(self, operations: list[ApiOperation]) -> dict[str, ApiOperation]:
        """Assign unique ids. A duplicate id is not used: a scope that allows one operation would allow the other."""
        counts = Counter(operation.id for operation in operations)
        by_id = {}
        for operation in operations:
            is_unique = _OPERATION_ID.fullmatch(operation.id) is not None and counts[operation.id] == 1
            id = operation.id if is_unique else f"{operation.method} {operation.path}"
            by_id[id] = msgspec.structs.replace(operation, id=id)
        return by_id

    # --- details of an operation -----------------------------------------------------------------

    def load_details(self, operation: ApiOperation) -> OperationDetails:
        item = self._read_path_item(self._paths[operation.path])
        definition = self._decode(item[operation.method.lower()])
        if not isinstance(definition, dict):
            raise BackendRefused(f"{operation.id} cannot be read.")
        by_location: dict[tuple[str, str], JsonObject] = {}
        for source in (self._decode(item.get("parameters")), definition.get("parameters")):
            for node in (source if isinstance(source, list) else [])[:PARAMETERS_MAX]:
                parameter = self.resolve_reference(node)
                if isinstance(parameter, dict) and isinstance(name := parameter.get("name"), str):
                    by_location[str(parameter.get("in")), name] = parameter
        names = Counter(name for location, name in by_location if location in _LOCATIONS)
        parameters = [
            converted
            for (location, name), raw in by_location.items()
            if (converted := _to_parameter(location, name, raw, names[name] > 1))
        ]
        slots = set(PATH_PARAMETER.findall(operation.path))
        known = {accepted.name for accepted in parameters if accepted.location == "path"}
        parameters = [accepted for accepted in parameters if accepted.location != "path" or accepted.name in slots]
        parameters += [ApiParameter(key=name, name=name, location="path", required=True) for name in slots - known]
        bodies, required = (
            self._read_swagger_bodies(definition, by_location) if self.is_swagger_2 else self._read_bodies(definition)
        )
        return OperationDetails(operation, tuple(parameters), bodies, required)

    def _read_bodies(self, definition: JsonObject) -> tuple[tuple[RequestBody, ...], bool]:
        request_body = self.resolve_reference(definition.get("requestBody"))
        content = request_body.get("content") if isinstance(request_body, dict) else None
        if not isinstance(request_body, dict) or not isinstance(content, dict):
            return (), False
        bodies = [
            RequestBody(str(mime).partition(";")[0].strip().lower(), media.get("schema", True))
            for mime, media in list(content.items())[:10]
            if isinstance(media, dict)
        ]
        return tuple(bodies), request_body.get("required") is True

    def _read_swagger_bodies(
        self, definition: JsonObject, parameters: dict[tuple[str, str], JsonObject]
    ) -> tuple[tuple[RequestBody, ...], bool]:
        """Read the bodies of Swagger 2.0, where the body and each field of a form are parameters."""
        consumes = definition.get("consumes") or self._decode(self._root.get("consumes"))
        accepted = consumes if isinstance(consumes, list) and consumes else ["application/json"]
        mimes = [str(mime).partition(";")[0].strip().lower() for mime in accepted[:10]]
        fields = {name: parameter for (location, name), parameter in parameters.items() if location == "formData"}
        if fields:
            required: list[JsonValue] = [
                name for name, parameter in fields.items() if parameter.get("required") is True
            ]
            form: JsonObject = {
                "type": "object",
                "properties": {name: _inline_schema(parameter) for name, parameter in fields.items()},
                "required": required,
            }
            mime = "multipart/form-data" if "multipart/form-data" in mimes else "application/x-www-form-urlencoded"
            return (RequestBody(mime, form),), bool(required)
        body = next((parameter for (location, _), parameter in parameters.items() if location == "body"), None)
        if body is None:
            return (), False
        return tuple(RequestBody(mime, body.get("schema", True)) for mime in mimes), body.get("required") is True

    def server_urls(self) -> list[str]:
        """Return the server URLs with the default of each variable; some are relative."""
        if self.is_swagger_2:
            host, path = self._decode(self._root.get("host")), self._decode(self._root.get("basePath")) or ""
            schemes = self._decode(self._root.get("schemes"))
            known = (
                [entry for entry in schemes if entry in ("https", "http")] if isinstance(schemes, list) else ["https"]
            )
            return [f"{entry}://{host}{path}" for entry in known] if host else [str(path)] if path else []
        servers = self._decode(self._root.get("servers"))
        return (
            [_fill_server_url(entry) for entry in servers[:SERVERS_MAX] if isinstance(entry, dict)]
            if isinstance(servers, list)
            else []
        )

    # --- references ------------------------------------------------------------------------------

    def resolve_reference(self, node: JsonValue) -> JsonValue:
        """Return the node, or the node that it refers to."""
        for _ in range(REFERENCE_CHAIN_MAX):
            pointer = node.get("$ref") if isinstance(node, dict) else None
            if not isinstance(pointer, str):
                return node
            node = self.read_pointer(pointer)
        raise BackendRefused("The description has too long a chain of references.")

    def read_pointer(self, pointer: str) -> JsonValue:
        """Decode the node that a reference names."""
        return self._decode(self._find_raw(pointer))

    def _find_raw(self, pointer: str) -> Raw:
        if not pointer.startswith("#/") or len(pointer) > 1000:
            raise BackendRefused(
                f"The description refers to another document ({clean_line(pointer, 80)}): not followed."
            )
        segments = tuple(unquote(segment).replace("~1", "/").replace("~0", "~") for segment in pointer[2:].split("/"))
        missing = BackendRefused(f"The description has nothing under {clean_line(pointer, 80)}.")
        if len(segments) > POINTER_SEGMENTS_MAX:
            raise missing
        node = None
        for depth, segment in enumerate(segments):
            mapping = self._mappings.get(segments[:depth])
            if mapping is None:
                assert node is not None, "the top is always known"
                mapping = _decode_level(node)
                if depth <= 2:  # "components", "schemas": needed repeatedly
                    self._mappings[segments[:depth]] = mapping
            node = mapping.get(segment)
            if node is None:
                raise missing
        assert node is not None, "there is at least one step"
        return node

    def _decode(self, raw: Raw | None) -> JsonValue:
        if raw is None:
            return None
        size = memoryview(raw).nbytes
        if size > NODE_BYTES_MAX:
            raise BackendRefused(f"This part of the description has {size} bytes: too large to be read.")
        try:
            value: JsonValue = msgspec.json.decode(raw)
        except _DECODE_ERRORS:
            raise BackendRefused("This part of the description cannot be read.") from None
        return value


def has_dot_segments(path: str) -> bool:
    """Return whether a path segment is "." or "..", also if it is encoded."""
    return any(step in (".", "..") for step in unquote(unquote(path)).replace("\\", "/").split("/"))


def _to_json(data: bytes) -> bytes:
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data.lstrip()[:1] == b"{":
        if len(data) > JSON_BYTES_MAX:
            raise BackendRefused(f"The description is larger than {JSON_BYTES_MAX} bytes.")
        return data
    try:
        return msgspec.json.encode(yaml.load_yaml(data, bytes_max=YAML_BYTES_MAX, aliases_max=1000, depth_max=100).data)
    except yaml.YamlRefused as error:
        raise BackendRefused(f"The description cannot be read: {error}.") from None
    except (msgspec.MsgspecError, OverflowError, RecursionError):
        raise BackendRefused("The description cannot be read: it contains values that JSON cannot represent.") from None


def _decode_level(raw: Raw) -> dict[str, Raw]:
    """Decode one level; a list becomes a mapping from its indexes."""
    try:
        if bytes(memoryview(raw)[:1]) == b"[":
            return {str(index): item for index, item in enumerate(msgspec.json.decode(raw, type=list[Raw]))}
        return msgspec.json.decode(raw, type=dict[str, Raw])
    except _DECODE_ERRORS:
        raise BackendRefused("The description cannot be read: it is not JSON, or not of the expected form.") from None


def _decode_header(raw: Raw) -> _OperationHeader | None:
    try:
        return msgspec.json.decode(raw, type=_OperationHeader)
    except _DECODE_ERRORS:
        return None


def _to_parameter(location: str, name: str, raw: JsonObject, is_ambiguous: bool) -> ApiParameter | None:
    if location not in _LOCATIONS:
        return None
    content = raw.get("content")
    media = next(iter(content.values()), None) if isinstance(content, dict) else None
    style, explode = str(raw.get("style") or ""), raw.get("explode")
    if "collectionFormat" in raw:  # Swagger 2.0
        explode = raw["collectionFormat"] == "multi"
        style = {"ssv": "spaceDelimited", "pipes": "pipeDelimited"}.get(str(raw["collectionFormat"]), "")
    elif "schema" not in raw and media is None:
        explode = False
    return ApiParameter(
        key=f"{location}:{name}" if is_ambiguous else name,
        name=name,
        location=_LOCATIONS[location],
        required=raw.get("required") is True or location == "path",
        schema=media.get("schema", True) if isinstance(media, dict) else raw.get("schema", _inline_schema(raw)),
        style=style,
        explode=explode if isinstance(explode, bool) else None,
        is_json=isinstance(media, dict),
        allows_slashes=location == "path" and (raw.get("allowReserved") is True or raw.get("x-multi-segment") is True),
        description=clean_line(description) if isinstance(description := raw.get("description"), str) else "",
    )


def _inline_schema(raw: JsonObject) -> JsonObject:
    """Return the schema of a Swagger 2.0 parameter, which is part of the parameter itself."""
    other_keys = ("name", "in", "required", "description", "collectionFormat", "allowEmptyValue")
    return {key: value for key, value in raw.items() if key not in other_keys}


def _fill_server_url(server: JsonObject) -> str:
    variables = server.get("variables")
    known = variables if isinstance(variables, dict) else {}

    def fill(match: re.Match[str]) -> str:
        variable = known.get(match[1])
        return str(variable.get("default", "")) if isinstance(variable, dict) else ""

    return re.sub(r"\{([^{}]{1,100})\}", fill, str(server.get("url") or "")[:2000])
