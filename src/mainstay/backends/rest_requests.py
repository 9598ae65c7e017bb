"""From an operation and a model's values to one request, which goes where the description says and nowhere else.

A value never becomes structure: in a path it stays inside its step, in a query inside its parameter, in a header on its
line. What a server might read differently than we do (encoded slashes, dots, backslashes) is refused.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from mainstay.backends.common import BackendRefused, clean_line, clean_name
from mainstay.backends.openapi import SLOT, Asked, Body, Description, Parameter, has_dots
from mainstay.backends.rest_shapes import Plain, TooMuch
from mainstay.io.addresses import Place
from mainstay.io.http import OVERRIDES, Request

NAMED_MAX = 30  # parameters that a sentence lists
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

# As OpenAPI has it, these are no parameters; the owner gives them.
_OWNERS = frozenset(("accept", "content-type", "authorization"))
# Asks for another method or path than the one that was allowed, wherever it stands.
_OTHERWISE = OVERRIDES | {"_method"}
_SCALARS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}
_JOINED = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}

InScope = Callable[[str], bool]  # a path without its parameters' names, as it would be asked for


class Maker:
    """Makes requests to one API. `given` are the headers that the owner sends along: nobody else sets them."""

    def __init__(self, description: Description, base: Place, given: tuple[tuple[str, str], ...]) -> None:
        self._description = description
        self._base = base
        self._given = given
        self._owners = _OWNERS | {name.lower() for name, _ in given}

    def offered(self, asked: Asked) -> list[Parameter]:
        """Those that a call may set."""
        return [one for one in asked.parameters if one.where == "path" or self._may_be_set(one)]

    def _may_be_set(self, one: Parameter) -> bool:
        name = one.name.lower()
        if name in _OTHERWISE or (one.where == "cookie" and "cookie" in self._owners):
            return False
        return one.where != "header" or name not in self._owners

    def request(self, asked: Asked, values: dict[str, Any], body: Any, key: str, in_scope: InScope) -> Request:
        """Raises BackendRefused; `key` is the same for the same call."""
        offered = {one.key: one for one in self.offered(asked)}
        given = _known(asked, values, offered)
        given = {name: _as_meant(value, self._kind(offered[name].schema)) for name, value in given.items()}
        keyed = next((one for one in offered.values() if one.name.lower() == "idempotency-key"), None)
        if keyed is not None and keyed.key not in given:
            given[keyed.key] = hashlib.sha256(key.encode()).hexdigest()[:32]
        missing = [name for name, one in offered.items() if one.required and name not in given]
        if missing:
            raise BackendRefused(f"{asked.operation.id} needs {_listed(missing)}. Nothing was sent.")
        self._check({name: offered[name].schema for name in given}, given, "")
        pairs = [(offered[name], value) for name, value in given.items()]
        path = self._path(asked, {one.name: (one, value) for one, value in pairs if one.where == "path"})
        if not in_scope(path):
            raise BackendRefused("With these values the path is out of what can be reached here. Nothing was sent.")
        names = {one.name for one in asked.parameters}
        query = "&".join(
            text for one, value in pairs if one.where == "query" for text in self._query(one, value, names)
        )
        target = self._base.target.rstrip("/") + path + (f"?{query}" if query else "")
        place = msgspec.structs.replace(self._base, target=target)
        headers = (*self._given, *_headers(pairs))
        mime, data = self._body(asked, body)
        if mime and not any(name.lower() == "content-type" for name, _ in headers):
            headers = (*headers, ("Content-Type", mime))
        base = self._base.target.rstrip("/")

        def admits(target: str) -> bool:
            path = target.partition("?")[0]
            return path.startswith(f"{base}/") and not has_dots(path) and in_scope(path.removeprefix(base))

        method = asked.operation.method
        return Request(url=place.url, method=method, headers=headers, body=data, admits=admits)

    # --- the address -----------------------------------------------------------------------------

    def _path(self, asked: Asked, given: dict[str, tuple[Parameter, Any]]) -> str:
        template = asked.operation.path

        def value(found: re.Match[str]) -> str:
            parameter, one = given[found[1]]
            last = found.end() == len(template)
            return _step(parameter, one, slashes=parameter.slashes and last)

        path = SLOT.sub(value, template)
        if has_dots(path):
            raise BackendRefused("A path cannot have a step that is . or .. in it. Nothing was sent.")
        return path

    def _query(self, parameter: Parameter, value: Any, names: set[str]) -> list[str]:
        """Names and values, encoded. The fields of an object that is spread out must not pass for other parameters."""
        if _is_spread(parameter, value):
            schema = self._description.follow(parameter.schema)
            properties = schema.get("properties") if isinstance(schema, dict) else None
            known = properties if isinstance(properties, dict) else {}
            for field in value:
                strange = field.lower() in _OTHERWISE or field in names - {parameter.name}
                if strange or (known and field not in known):
                    raise BackendRefused(f"{clean_name(parameter.key)} has no {clean_name(field)}. Nothing was sent.")
        return [f"{quote(name, safe='')}={text}" for name, text in _named(parameter, value)]

    # --- the body --------------------------------------------------------------------------------

    def _body(self, asked: Asked, body: Any) -> tuple[str, bytes | None]:
        if body is None:
            if asked.body_required:
                raise BackendRefused(f"{asked.operation.id} needs a body. Nothing was sent.")
            return "", None
        chosen = next((one for kind in (_is_json, _is_form, _is_text) for one in asked.bodies if kind(one)), None)
        if chosen is None:
            kinds = _listed(one.mime for one in asked.bodies)
            raise BackendRefused(f"{asked.operation.id} takes {f'only {kinds} as a body' if kinds else 'no body'}.")
        body = _as_meant(body, self._kind(chosen.schema) or ("object" if not _is_text(chosen) else "string"))
        self._check({"body": chosen.schema}, {"body": body}, "body")
        if _is_json(chosen):
            return chosen.mime if chosen.mime != "*/*" else JSON, _encoded(body).encode()
        if _is_text(chosen):
            return f"{chosen.mime}; charset=utf-8", _text(body).encode()
        if not isinstance(body, dict):
            raise BackendRefused("A form is an object of names and values. Nothing was sent.")
        pairs = [(name, text) for name, value in body.items() for text in _flat(value)]
        return FORM, "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in pairs).encode()

    # --- types -----------------------------------------------------------------------------------

    def _kind(self, schema: Any) -> str:
        """The one type that a value has to have, if there is one."""
        try:
            found = self._description.follow(schema)
        except BackendRefused:
            return ""
        kind = found.get("type") if isinstance(found, dict) else None
        if isinstance(kind, list):
            rest = [one for one in kind if one != "null"]
            kind = rest[0] if len(rest) == 1 else None
        return kind if isinstance(kind, str) else ""

    def _check(self, schemas: dict[str, Any], values: dict[str, Any], about: str) -> None:
        """By the whole schema where it can be had; where it cannot, by the types."""
        from mainstay.io.json_schema import Schema, SchemaRefused  # its library comes with the first value

        for patterns in (True, False):
            try:
                plain = Plain(self._description, patterns=patterns).of(schemas, [])
                trouble = Schema(plain).check(values)
            except (SchemaRefused, TooMuch, BackendRefused):
                continue
            if trouble:
                raise BackendRefused(f"The {about or 'parameters'} do not fit: {trouble}. Nothing was sent.")
            return
        for name, value in values.items():
            wanted = self._kind(schemas[name])
            if wanted in _SCALARS and (not isinstance(value, _SCALARS[wanted]) or _is_wrong_bool(value, wanted)):
                raise BackendRefused(f"{clean_name(name)} must be of type {wanted}. Nothing was sent.")


def _known(asked: Asked, values: dict[str, Any], offered: dict[str, Parameter]) -> dict[str, Any]:
    """What was given, under the keys that we know; null is as good as nothing."""
    given = {name: value for name, value in values.items() if value is not None}
    unknown = [name for name in given if name not in offered]
    if unknown:
        known = _listed(offered) or "none"
        raise BackendRefused(f"{asked.operation.id} has no {_listed(unknown)}. It takes: {known}. Nothing was sent.")
    return given


def _listed(names: Iterable[str]) -> str:
    listed = [clean_name(name) for name in names]
    rest = f" and {len(listed) - NAMED_MAX} more" if len(listed) > NAMED_MAX else ""
    return ", ".join(listed[:NAMED_MAX]) + rest


def _is_wrong_bool(value: Any, wanted: str) -> bool:
    return isinstance(value, bool) and wanted != "boolean"


def _as_meant(value: Any, wanted: str) -> Any:
    """ "5" for 5 and 5 for "5" are no reason to refuse, nor is one value where a list of it is wanted."""
    if isinstance(value, str) and wanted in ("integer", "number", "boolean", "array", "object"):
        try:
            read = msgspec.json.decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            read = value
        if wanted in _SCALARS and isinstance(read, _SCALARS[wanted]) and not _is_wrong_bool(read, wanted):
            return read
    if wanted == "string" and isinstance(value, int | float):
        return _text(value)
    if wanted == "array" and isinstance(value, str | int | float):
        return [value]
    return value


def _is_json(body: Body) -> bool:
    return body.mime in (JSON, "*/*") or body.mime.endswith("+json")


def _is_form(body: Body) -> bool:
    return body.mime == FORM


def _is_text(body: Body) -> bool:
    return body.mime.startswith("text/")


# --- values as text ------------------------------------------------------------------------------


def _encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _encoded(value)


def _flat(value: Any, *, explode: bool = False) -> list[str]:
    match value:
        case list():
            return [_text(one) for one in value]
        case dict() if explode:
            return [f"{name}={_text(one)}" for name, one in value.items()]
        case dict():
            return [text for name, one in value.items() for text in (str(name), _text(one))]
    return [_text(value)]


def _step(parameter: Parameter, value: Any, *, slashes: bool) -> str:
    """A value as one step of a path; as several, where the description says that it stands for several."""
    if parameter.style not in ("", "simple"):
        raise BackendRefused(f"{clean_name(parameter.name)} is written in a way ({parameter.style}) not supported.")
    text = _encoded(value) if parameter.json else ",".join(_flat(value, explode=parameter.explode is True))
    name = clean_name(parameter.key)
    pieces = text.split("/") if slashes else [text]
    if not all(pieces):
        raise BackendRefused(f"{name} must not be empty. Nothing was sent.")
    for piece in pieces:
        read = unicodedata.normalize("NFKC", unquote(unquote(unquote(piece))))
        if any(char in "/\\" or unicodedata.category(char) in ("Cc", "Cs") for char in piece + read):
            raise BackendRefused(f"{name} cannot hold slashes or control characters. Nothing was sent.")
        if read in (".", ".."):
            raise BackendRefused(f"{name} cannot be . or .. ({clean_line(piece, 40)}). Nothing was sent.")
    return "/".join(quote(piece, safe="") for piece in pieces)


def _headers(pairs: list[tuple[Parameter, Any]]) -> list[tuple[str, str]]:
    headers, cookies = [], []
    for one, value in pairs:
        if one.where == "header":
            text = _encoded(value) if one.json else ",".join(_flat(value, explode=one.explode is True))
            if not text.isascii() or not text.isprintable():
                raise BackendRefused(f"{clean_name(one.key)} goes into a header: one line of plain characters.")
            headers.append((one.name, text.strip(" ")))
        elif one.where == "cookie":
            cookies += [f"{quote(one.name, safe='')}={quote(text, safe='')}" for text in _flat(value)]
    if cookies:
        headers.append(("Cookie", "; ".join(cookies)))
    return headers


def _is_spread(parameter: Parameter, value: Any) -> bool:
    if not isinstance(value, dict) or parameter.json:
        return False
    return parameter.style in ("", "form") and parameter.explode is not False


def _named(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    name = parameter.name
    if parameter.json:
        return [(name, _quoted(_encoded(value)))]
    if isinstance(value, dict) and parameter.style == "deepObject":
        return [(f"{name}[{key}]", _quoted(_text(one))) for key, one in value.items()]
    if _is_spread(parameter, value):
        return [(str(key), _quoted(_text(one))) for key, one in value.items()]
    texts = [_quoted(text) for text in _flat(value)]
    if parameter.explode is not False and parameter.style not in _JOINED:
        return [(name, text) for text in texts]
    return [(name, _JOINED.get(parameter.style, ",").join(texts))]


def _quoted(text: str) -> str:
    if "\x00" in text:
        raise BackendRefused("A value cannot hold a NUL character. Nothing was sent.")
    return quote(text.encode(errors="replace"), safe="")
