"""An OpenAPI description (3.0, 3.1, or Swagger 2.0; JSON or YAML), read no further than it is asked about.

Published ones have a dozen megabytes, of which a conversation needs a few kilobytes. So the text is kept as it is, the
list of operations is read by skipping over everything else, and the rest is decoded piece by piece, when it is wanted.
References are followed inside the description and nowhere else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import unquote

import msgspec
from msgspec import Raw

from mainstay.backends.common import BackendRefused, clean_line
from mainstay.io import yaml
from mainstay.io.http import METHODS

JSON_BYTES_MAX = 32 * 1024 * 1024
YAML_BYTES_MAX = 16 * 1024 * 1024
NODE_BYTES_MAX = 1024 * 1024  # of one operation or schema
OPERATIONS_MAX = 20_000
PARAMETERS_MAX = 200
REFERENCES_MAX = 20  # one leading to the next
SERVERS_MAX = 20
STEPS_MAX = 20

Where = Literal["path", "query", "header", "cookie"]
_PLACES: dict[str, Where] = {"path": "path", "query": "query", "header": "header", "cookie": "cookie"}

_ID = re.compile(r"[\w.:/-]{1,120}")
_PATH = re.compile(r"/[^\x00-\x20\x7f-\xa0?#\\]{0,500}")
SLOT = re.compile(r"\{([^{}/]{1,100})\}")
_UNREADABLE = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """What can be asked: as the list has it."""

    id: str
    method: str
    path: str
    summary: str = ""
    tags: tuple[str, ...] = ()


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """`key` is how a call names it: by its name, and by its place too where there are two of that name."""

    key: str
    name: str
    where: Where
    required: bool = False
    schema: Any = True
    style: str = ""
    explode: bool | None = None
    json: bool = False  # its value is written as JSON
    slashes: bool = False  # of a path: it stands for several steps
    about: str = ""


class Body(msgspec.Struct, frozen=True):
    mime: str
    schema: Any


class Asked(msgspec.Struct, frozen=True):
    """All that one operation takes. `bodies`: any one of them."""

    operation: Operation
    parameters: tuple[Parameter, ...]
    bodies: tuple[Body, ...] = ()
    body_required: bool = False


class _Head(msgspec.Struct):
    operationId: str = ""
    summary: str = ""
    description: str = ""
    tags: list[str] = []


class Description:
    """Raises BackendRefused if it cannot be read at all; single operations that cannot be are counted."""

    def __init__(self, data: bytes) -> None:
        self._top = _table(Raw(_as_json(data)))
        version = self._decoded(self._top.get("openapi")) or self._decoded(self._top.get("swagger"))
        self.version = str(version)[:10]
        if not self.version.startswith(("3.", "2.0")):
            raise BackendRefused("The description is neither OpenAPI 3 nor Swagger 2.0.")
        self._tables: dict[tuple[str, ...], dict[str, Raw]] = {(): self._top}
        self.unreadable = 0
        self._paths = _table(self._top.get("paths", Raw(b"{}")))
        self.operations = self._named(list(self._listed()))

    @property
    def old(self) -> bool:
        return self.version.startswith("2.")

    def find(self, name: str) -> Operation | None:
        """By id, or as "GET /pets/{id}"."""
        found = self.operations.get(name)
        if found is not None:
            return found
        method, _, path = name.strip().partition(" ")
        wanted = (method.upper(), path.strip())
        return next((one for one in self.operations.values() if (one.method, one.path) == wanted), None)

    # --- the list --------------------------------------------------------------------------------

    def _listed(self) -> Iterator[Operation]:
        """As they stand there. What is odd about a path could be read as another one by a server: it is left out."""
        count = 0
        for path, raw in self._paths.items():
            item = self._item(raw)
            plain = _PATH.fullmatch(path) is not None and not has_dots(path) and "//" not in path
            for method in METHODS:
                one = item.get(method.lower())
                head = _head(one) if one is not None and plain else None
                if head is None:
                    self.unreadable += one is not None
                    continue
                count += 1
                if count > OPERATIONS_MAX:
                    raise BackendRefused(f"The description has more than {OPERATIONS_MAX} operations.")
                said = clean_line(head.summary or head.description, 120)
                tags = tuple(clean_line(tag, 60) for tag in head.tags[:5])
                yield Operation(id=head.operationId, method=method, path=path, summary=said, tags=tags)

    def _item(self, raw: Raw) -> Mapping[str, Raw]:
        try:
            for _ in range(REFERENCES_MAX):
                item = _table(raw)
                if "$ref" not in item:
                    return item
                raw = self._raw(str(self._decoded(item["$ref"])))
        except BackendRefused:
            pass
        self.unreadable += 1
        return {}

    def _named(self, listed: list[Operation]) -> dict[str, Operation]:
        """An id that stands there twice names neither, lest a scope that allows one allow the other."""
        counts = Counter(one.id for one in listed)
        named = {}
        for one in listed:
            plain = _ID.fullmatch(one.id) is not None and counts[one.id] == 1
            id = one.id if plain else f"{one.method} {one.path}"
            named[id] = msgspec.structs.replace(one, id=id)
        return named

    # --- one of them -----------------------------------------------------------------------------

    def asked(self, operation: Operation) -> Asked:
        item = self._item(self._paths[operation.path])
        whole = self._decoded(item[operation.method.lower()])
        if not isinstance(whole, dict):
            raise BackendRefused(f"{operation.id} cannot be read.")
        listed: dict[tuple[str, str], dict[str, Any]] = {}
        for source in (self._decoded(item.get("parameters")), whole.get("parameters")):
            for one in (source if isinstance(source, list) else [])[:PARAMETERS_MAX]:
                found = self.follow(one)
                if isinstance(found, dict) and isinstance(found.get("name"), str):
                    listed[str(found.get("in")), found["name"]] = found
        names = Counter(name for where, name in listed if where in _PLACES)
        parameters = [
            made for (where, name), raw in listed.items() if (made := _parameter(where, name, raw, names[name] > 1))
        ]
        slots = set(SLOT.findall(operation.path))
        known = {one.name for one in parameters if one.where == "path"}
        parameters = [one for one in parameters if one.where != "path" or one.name in slots]
        parameters += [Parameter(key=name, name=name, where="path", required=True) for name in slots - known]
        bodies, required = self._old_bodies(whole, listed) if self.old else self._bodies(whole)
        return Asked(operation, tuple(parameters), bodies, required)

    def _bodies(self, whole: dict[str, Any]) -> tuple[tuple[Body, ...], bool]:
        given = self.follow(whole.get("requestBody"))
        content = given.get("content") if isinstance(given, dict) else None
        if not isinstance(given, dict) or not isinstance(content, dict):
            return (), False
        bodies = [
            Body(str(mime).partition(";")[0].strip().lower(), media.get("schema", True))
            for mime, media in list(content.items())[:10]
            if isinstance(media, dict)
        ]
        return tuple(bodies), given.get("required") is True

    def _old_bodies(
        self, whole: dict[str, Any], listed: dict[tuple[str, str], dict[str, Any]]
    ) -> tuple[tuple[Body, ...], bool]:
        """Swagger 2.0 has the body among the parameters, and the fields of a form one by one."""
        consumes = whole.get("consumes") or self._decoded(self._top.get("consumes")) or ["application/json"]
        mimes = [str(one).partition(";")[0].strip().lower() for one in consumes[:10]]
        fields = {name: one for (where, name), one in listed.items() if where == "formData"}
        if fields:
            form = {
                "type": "object",
                "properties": {name: _own_schema(one) for name, one in fields.items()},
                "required": [name for name, one in fields.items() if one.get("required") is True],
            }
            mime = "multipart/form-data" if "multipart/form-data" in mimes else "application/x-www-form-urlencoded"
            return (Body(mime, form),), bool(form["required"])
        body = next((one for (where, _), one in listed.items() if where == "body"), None)
        if body is None:
            return (), False
        return tuple(Body(mime, body.get("schema", True)) for mime in mimes), body.get("required") is True

    def servers(self) -> list[str]:
        """Where it says that it is, with the default of each variable; some begin with a slash."""
        if self.old:
            host, path = self._decoded(self._top.get("host")), self._decoded(self._top.get("basePath")) or ""
            schemes = self._decoded(self._top.get("schemes"))
            known = [one for one in schemes if one in ("https", "http")] if isinstance(schemes, list) else ["https"]
            return [f"{one}://{host}{path}" for one in known] if host else [str(path)] if path else []
        listed = self._decoded(self._top.get("servers"))
        return (
            [_server(one) for one in listed[:SERVERS_MAX] if isinstance(one, dict)] if isinstance(listed, list) else []
        )

    # --- references ------------------------------------------------------------------------------

    def follow(self, node: Any) -> Any:
        """What a node stands for: itself, unless it is a reference."""
        for _ in range(REFERENCES_MAX):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node
            node = self.at(node["$ref"])
        raise BackendRefused("The description goes from reference to reference.")

    def at(self, pointer: str) -> Any:
        """What a reference names, decoded."""
        return self._decoded(self._raw(pointer))

    def _raw(self, pointer: str) -> Raw:
        if not pointer.startswith("#/") or len(pointer) > 1000:
            raise BackendRefused(f"The description points outside of itself ({clean_line(pointer, 80)}): not followed.")
        steps = tuple(unquote(step).replace("~1", "/").replace("~0", "~") for step in pointer[2:].split("/"))
        missing = BackendRefused(f"The description has nothing under {clean_line(pointer, 80)}.")
        if len(steps) > STEPS_MAX:
            raise missing
        node = None
        for depth, step in enumerate(steps):
            table = self._tables.get(steps[:depth])
            if table is None:
                assert node is not None, "the top is always known"
                table = _table(node)
                if depth <= 2:  # "components", "schemas": looked into again and again
                    self._tables[steps[:depth]] = table
            node = table.get(step)
            if node is None:
                raise missing
        assert node is not None, "there is at least one step"
        return node

    def _decoded(self, raw: Raw | None) -> Any:
        if raw is None:
            return None
        size = memoryview(raw).nbytes
        if size > NODE_BYTES_MAX:
            raise BackendRefused(f"This part of the description has {size} bytes: too large to be read.")
        try:
            return msgspec.json.decode(raw)
        except _UNREADABLE:
            raise BackendRefused("This part of the description cannot be read.") from None


def has_dots(path: str) -> bool:
    """One of its steps leads up or nowhere, however it is written."""
    return any(step in (".", "..") for step in unquote(unquote(path)).replace("\\", "/").split("/"))


def _as_json(data: bytes) -> bytes:
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data.lstrip()[:1] == b"{":
        if len(data) > JSON_BYTES_MAX:
            raise BackendRefused(f"The description is larger than {JSON_BYTES_MAX} bytes.")
        return data
    try:
        return msgspec.json.encode(yaml.load(data, bytes_max=YAML_BYTES_MAX, aliases_max=1000, depth_max=100).data)
    except yaml.YamlRefused as error:
        raise BackendRefused(f"The description cannot be read: {error}.") from None
    except (msgspec.MsgspecError, OverflowError, RecursionError):
        raise BackendRefused("The description cannot be read: it holds what JSON cannot.") from None


def _table(raw: Raw) -> dict[str, Raw]:
    """One level of it; a list is one of numbers."""
    try:
        if bytes(memoryview(raw)[:1]) == b"[":
            return {str(at): one for at, one in enumerate(msgspec.json.decode(raw, type=list[Raw]))}
        return msgspec.json.decode(raw, type=dict[str, Raw])
    except _UNREADABLE:
        raise BackendRefused("The description cannot be read: it is not JSON, or not of the expected form.") from None


def _head(raw: Raw) -> _Head | None:
    try:
        return msgspec.json.decode(raw, type=_Head)
    except _UNREADABLE:
        return None


def _parameter(where: str, name: str, raw: dict[str, Any], twice: bool) -> Parameter | None:
    if where not in _PLACES:
        return None
    content = raw.get("content")
    media = next(iter(content.values()), None) if isinstance(content, dict) else None
    style, explode = str(raw.get("style") or ""), raw.get("explode")
    if "collectionFormat" in raw:  # Swagger 2.0
        explode = raw["collectionFormat"] == "multi"
        style = {"ssv": "spaceDelimited", "pipes": "pipeDelimited"}.get(str(raw["collectionFormat"]), "")
    elif "schema" not in raw and media is None:
        explode = False
    return Parameter(
        key=f"{where}:{name}" if twice else name,
        name=name,
        where=_PLACES[where],
        required=raw.get("required") is True or where == "path",
        schema=media.get("schema", True) if isinstance(media, dict) else raw.get("schema", _own_schema(raw)),
        style=style,
        explode=explode if isinstance(explode, bool) else None,
        json=isinstance(media, dict),
        slashes=where == "path" and (raw.get("allowReserved") is True or raw.get("x-multi-segment") is True),
        about=clean_line(raw["description"]) if isinstance(raw.get("description"), str) else "",
    )


def _own_schema(raw: dict[str, Any]) -> dict[str, Any]:
    """Swagger 2.0 has a parameter's schema in the parameter itself."""
    outer = ("name", "in", "required", "description", "collectionFormat", "allowEmptyValue")
    return {key: value for key, value in raw.items() if key not in outer}


def _server(one: dict[str, Any]) -> str:
    variables = one.get("variables")
    known = variables if isinstance(variables, dict) else {}

    def value(found: re.Match[str]) -> str:
        variable = known.get(found[1])
        return str(variable.get("default", "")) if isinstance(variable, dict) else ""

    return re.sub(r"\{([^{}]{1,100})\}", value, str(one.get("url") or "")[:2000])
