"""Builds HTTP requests from an OpenAPI operation and a model's values, confined to the operation's URL.

A value never becomes structure: in a path it stays inside its segment, in a query inside its parameter, in a header on
its line. Values that a server might decode differently (encoded slashes, dots, backslashes) are refused.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable
from urllib.parse import quote, unquote

import msgspec

from mainstay.backends.base import BackendRefused, clean_line, clean_name
from mainstay.backends.rest.openapi import (
    PATH_PARAMETER,
    ApiParameter,
    OpenApiDocument,
    OperationDetails,
    RequestBody,
    has_dot_segments,
)
from mainstay.backends.rest.schema_converters import JsonSchemaBuilder, SchemaTooLarge
from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.io.http_client import OVERRIDE_HEADERS, HttpRequest
from mainstay.io.urls import ParsedUrl

NAMES_LISTED_MAX = 30  # in one message
JSON_MIME = "application/json"
FORM_MIME = "application/x-www-form-urlencoded"

# OpenAPI ignores parameters with these names; the owner configures the headers.
_OWNER_HEADERS = frozenset(("accept", "content-type", "authorization"))
# Parameters that make some servers run another method or path than the one that was allowed.
_OVERRIDE_NAMES = OVERRIDE_HEADERS | {"_method"}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}
_DELIMITERS = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}

PathCheck = Callable[[str], bool]  # takes the path with values filled in


class RequestBuilder:
    """Builds requests to one API. `owner_headers` are sent with every request, and calls cannot set them."""

    def __init__(
        self, document: OpenApiDocument, base_url: ParsedUrl, owner_headers: tuple[tuple[str, str], ...]
    ) -> None:
        self._document = document
        self._base_url = base_url
        self._owner_headers = owner_headers
        self._reserved_headers = _OWNER_HEADERS | {name.lower() for name, _ in owner_headers}

    def settable_parameters(self, details: OperationDetails) -> list[ApiParameter]:
        """Return the parameters that a call may set."""
        return [
            parameter
            for parameter in details.parameters
            if parameter.location == "path" or self._is_settable(parameter)
        ]

    def _is_settable(self, parameter: ApiParameter) -> bool:
        name = parameter.name.lower()
        if name in _OVERRIDE_NAMES or (parameter.location == "cookie" and "cookie" in self._reserved_headers):
            return False
        return parameter.location != "header" or name not in self._reserved_headers

    def build_request(
        self,
        details: OperationDetails,
        values: JsonObject,
        body: JsonValue,
        idempotency_key: str,
        is_in_scope: PathCheck,
    ) -> HttpRequest:
        """Build the request of a call; raises BackendRefused. `idempotency_key` is the same for each attempt."""
        settable = {parameter.key: parameter for parameter in self.settable_parameters(details)}
        checked = _check_names(details, values, settable)
        checked = {
            name: _coerce_value(value, self._find_single_type(settable[name].schema)) for name, value in checked.items()
        }
        key_parameter = next(
            (parameter for parameter in settable.values() if parameter.name.lower() == "idempotency-key"), None
        )
        if key_parameter is not None and key_parameter.key not in checked:
            checked[key_parameter.key] = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32]
        missing = [name for name, parameter in settable.items() if parameter.required and name not in checked]
        if missing:
            raise BackendRefused(f"{details.operation.id} needs {_join_names(missing)}. Nothing was sent.")
        self._check_values({name: settable[name].schema for name in checked}, checked, "")
        pairs = [(settable[name], value) for name, value in checked.items()]
        path = self._build_path(
            details, {parameter.name: (parameter, value) for parameter, value in pairs if parameter.location == "path"}
        )
        if not is_in_scope(path):
            raise BackendRefused("With these values the path is not in scope. Nothing was sent.")
        names = {parameter.name for parameter in details.parameters}
        query = "&".join(
            text
            for parameter, value in pairs
            if parameter.location == "query"
            for text in self._build_query(parameter, value, names)
        )
        target = self._base_url.target.rstrip("/") + path + (f"?{query}" if query else "")
        url = msgspec.structs.replace(self._base_url, target=target)
        headers = (*self._owner_headers, *_build_headers(pairs))
        mime, data = self._encode_body(details, body)
        if mime and not any(name.lower() == "content-type" for name, _ in headers):
            headers = (*headers, ("Content-Type", mime))
        base = self._base_url.target.rstrip("/")

        def admits(target: str) -> bool:
            path = target.partition("?")[0]
            return path.startswith(f"{base}/") and not has_dot_segments(path) and is_in_scope(path.removeprefix(base))

        method = details.operation.method
        return HttpRequest(url=url.url, method=method, headers=headers, body=data, is_redirect_allowed=admits)

    # --- path and query --------------------------------------------------------------------------

    def _build_path(self, details: OperationDetails, values: dict[str, tuple[ApiParameter, JsonValue]]) -> str:
        template = details.operation.path

        def fill(match: re.Match[str]) -> str:
            parameter, value = values[match[1]]
            is_last = match.end() == len(template)
            return _encode_path_value(parameter, value, allow_slashes=parameter.allows_slashes and is_last)

        path = PATH_PARAMETER.sub(fill, template)
        if has_dot_segments(path):
            raise BackendRefused("A path must not contain the segments . or .. . Nothing was sent.")
        return path

    def _build_query(self, parameter: ApiParameter, value: JsonValue, parameter_names: set[str]) -> list[str]:
        """Return encoded names and values. The fields of an exploded object must not replace other parameters."""
        if isinstance(value, dict) and _is_exploded_object(parameter):
            schema = self._document.resolve_reference(parameter.schema)
            properties = schema.get("properties") if isinstance(schema, dict) else None
            known = properties if isinstance(properties, dict) else {}
            for field in value:
                is_override = field.lower() in _OVERRIDE_NAMES or field in parameter_names - {parameter.name}
                if is_override or (known and field not in known):
                    raise BackendRefused(f"{clean_name(parameter.key)} has no {clean_name(field)}. Nothing was sent.")
        return [f"{quote(name, safe='')}={text}" for name, text in _build_query_pairs(parameter, value)]

    # --- body ------------------------------------------------------------------------------------

    def _encode_body(self, details: OperationDetails, body: JsonValue) -> tuple[str, bytes | None]:
        if body is None:
            if details.body_required:
                raise BackendRefused(f"{details.operation.id} needs a body. Nothing was sent.")
            return "", None
        media = next(
            (candidate for kind in (_is_json, _is_form, _is_text) for candidate in details.bodies if kind(candidate)),
            None,
        )
        if media is None:
            mimes = _join_names(candidate.mime for candidate in details.bodies)
            raise BackendRefused(f"{details.operation.id} takes {f'only {mimes} as a body' if mimes else 'no body'}.")
        body = _coerce_value(
            body, self._find_single_type(media.schema) or ("object" if not _is_text(media) else "string")
        )
        self._check_values({"body": media.schema}, {"body": body}, "body")
        if _is_json(media):
            return media.mime if media.mime != "*/*" else JSON_MIME, _to_json(body).encode()
        if _is_text(media):
            return f"{media.mime}; charset=utf-8", _to_text(body).encode()
        if not isinstance(body, dict):
            raise BackendRefused("A form must be an object of names and values. Nothing was sent.")
        pairs = [(name, text) for name, value in body.items() for text in _flatten(value)]
        return FORM_MIME, "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in pairs).encode()

    # --- types -----------------------------------------------------------------------------------

    def _find_single_type(self, schema: JsonValue) -> str:
        """Return the single type that a schema requires; empty if it allows several."""
        try:
            resolved = self._document.resolve_reference(schema)
        except BackendRefused:
            return ""
        kind = resolved.get("type") if isinstance(resolved, dict) else None
        if isinstance(kind, list):
            types = [name for name in kind if name != "null"]
            kind = types[0] if len(types) == 1 else None
        return kind if isinstance(kind, str) else ""

    def _check_values(self, schemas: JsonObject, values: JsonObject, label: str) -> None:
        """Check values against the whole schema; if it cannot be converted, against the types only."""
        from mainstay.io.json_schema import CompiledJsonSchema, SchemaRefused  # imported with the first value

        for patterns in (True, False):
            try:
                schema = JsonSchemaBuilder(self._document, include_patterns=patterns).build_object_schema(schemas, [])
                problem = CompiledJsonSchema(schema).find_error(values)
            except (SchemaRefused, SchemaTooLarge, BackendRefused):
                continue
            if problem:
                raise BackendRefused(f"The {label or 'parameters'} do not fit: {problem}. Nothing was sent.")
            return
        for name, value in values.items():
            expected_type = self._find_single_type(schemas[name])
            if expected_type in _PYTHON_TYPES and not _has_type(value, expected_type):
                raise BackendRefused(f"{clean_name(name)} must be of type {expected_type}. Nothing was sent.")


def _check_names(details: OperationDetails, values: JsonObject, settable: dict[str, ApiParameter]) -> JsonObject:
    """Return the values without nulls; raises BackendRefused for an unknown name."""
    present: JsonObject = {name: value for name, value in values.items() if value is not None}
    unknown = [name for name in present if name not in settable]
    if unknown:
        known = _join_names(settable) or "none"
        raise BackendRefused(
            f"{details.operation.id} has no {_join_names(unknown)}. It takes: {known}. Nothing was sent."
        )
    return present


def _join_names(names: Iterable[str]) -> str:
    listed = [clean_name(name) for name in names]
    more = f" and {len(listed) - NAMES_LISTED_MAX} more" if len(listed) > NAMES_LISTED_MAX else ""
    return ", ".join(listed[:NAMES_LISTED_MAX]) + more


def _has_type(value: object, expected_type: str) -> bool:
    if isinstance(value, bool):
        return expected_type == "boolean"
    return isinstance(value, _PYTHON_TYPES[expected_type])


def _coerce_value(value: JsonValue, expected_type: str) -> JsonValue:
    """Convert an obvious mismatch: "5" and 5, or a single value where a list is expected."""
    if isinstance(value, str) and expected_type in ("integer", "number", "boolean", "array", "object"):
        try:
            decoded: JsonValue = msgspec.json.decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            decoded = value
        if _has_type(decoded, expected_type):
            return decoded
    if expected_type == "string" and isinstance(value, int | float):
        return _to_text(value)
    if expected_type == "array" and isinstance(value, str | int | float):
        return [value]
    return value


def _is_json(body: RequestBody) -> bool:
    return body.mime in (JSON_MIME, "*/*") or body.mime.endswith("+json")


def _is_form(body: RequestBody) -> bool:
    return body.mime == FORM_MIME


def _is_text(body: RequestBody) -> bool:
    return body.mime.startswith("text/")


# --- encoding of values --------------------------------------------------------------------------


def _to_json(value: JsonValue) -> str:
    return msgspec.json.encode(value).decode()


def _to_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else _to_json(value)


def _flatten(value: JsonValue, *, explode: bool = False) -> list[str]:
    match value:
        case list():
            return [_to_text(item) for item in value]
        case dict() if explode:
            return [f"{name}={_to_text(item)}" for name, item in value.items()]
        case dict():
            return [text for name, item in value.items() for text in (str(name), _to_text(item))]
    return [_to_text(value)]


def _encode_path_value(parameter: ApiParameter, value: JsonValue, *, allow_slashes: bool) -> str:
    """Encode a value as one path segment, or as several if the description allows slashes in it."""
    if parameter.style not in ("", "simple"):
        raise BackendRefused(f"{clean_name(parameter.name)} has a style ({parameter.style}) that is not supported.")
    text = _to_json(value) if parameter.is_json else ",".join(_flatten(value, explode=parameter.explode is True))
    name = clean_name(parameter.key)
    segments = text.split("/") if allow_slashes else [text]
    if not all(segments):
        raise BackendRefused(f"{name} must not be empty. Nothing was sent.")
    for segment in segments:
        decoded = unicodedata.normalize("NFKC", unquote(unquote(unquote(segment))))
        if any(char in "/\\" or unicodedata.category(char) in ("Cc", "Cs") for char in segment + decoded):
            raise BackendRefused(f"{name} must not contain slashes or control characters. Nothing was sent.")
        if decoded in (".", ".."):
            raise BackendRefused(f"{name} cannot be . or .. ({clean_line(segment, 40)}). Nothing was sent.")
    return "/".join(quote(segment, safe="") for segment in segments)


def _build_headers(pairs: list[tuple[ApiParameter, JsonValue]]) -> list[tuple[str, str]]:
    headers, cookies = [], []
    for parameter, value in pairs:
        if parameter.location == "header":
            text = (
                _to_json(value) if parameter.is_json else ",".join(_flatten(value, explode=parameter.explode is True))
            )
            if not text.isascii() or not text.isprintable():
                raise BackendRefused(
                    f"{clean_name(parameter.key)} is sent as a header: it must be one line of printable ASCII."
                )
            headers.append((parameter.name, text.strip(" ")))
        elif parameter.location == "cookie":
            cookies += [f"{quote(parameter.name, safe='')}={quote(text, safe='')}" for text in _flatten(value)]
    if cookies:
        headers.append(("Cookie", "; ".join(cookies)))
    return headers


def _is_exploded_object(parameter: ApiParameter) -> bool:
    """Whether the fields of an object become parameters of their own."""
    return not parameter.is_json and parameter.style in ("", "form") and parameter.explode is not False


def _build_query_pairs(parameter: ApiParameter, value: JsonValue) -> list[tuple[str, str]]:
    name = parameter.name
    if parameter.is_json:
        return [(name, _quote_value(_to_json(value)))]
    if isinstance(value, dict) and parameter.style == "deepObject":
        return [(f"{name}[{key}]", _quote_value(_to_text(item))) for key, item in value.items()]
    if isinstance(value, dict) and _is_exploded_object(parameter):
        return [(str(key), _quote_value(_to_text(item))) for key, item in value.items()]
    texts = [_quote_value(text) for text in _flatten(value)]
    if parameter.explode is not False and parameter.style not in _DELIMITERS:
        return [(name, text) for text in texts]
    return [(name, _DELIMITERS.get(parameter.style, ",").join(texts))]


def _quote_value(text: str) -> str:
    if "\x00" in text:
        raise BackendRefused("A value must not contain a NUL character. Nothing was sent.")
    return quote(text.encode(errors="replace"), safe="")
