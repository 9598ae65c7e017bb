"""The native API described, from the same table that it is routed by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mainstay.server.api import CONVERSATIONS, Taken
from mainstay.server.api_audit import AUDIT
from mainstay.server.api_errors import ERRORS
from mainstay.server.api_home import HOME
from mainstay.server.calls import SEQUENCE_MAX, SSE, Asked, Operation
from mainstay.server.health import Status
from mainstay.server.problems import Told

OPERATIONS: tuple[Operation, ...] = (*CONVERSATIONS, *HOME, *ERRORS, *AUDIT)
_REF = "#/components/schemas/{name}"
_NAMES = re.compile(r"\{(\w+)\}")
_INTRO = (
    "Errors have one shape. Names in paths are percent-encoded. A stream (SSE) gives every durable event its sequence "
    "as its id; a client that lost it says the last as `Last-Event-ID`. The same over a WebSocket: `/api/ws`."
)
_TOLD = {
    "description": "What is wrong, in one sentence",
    "content": {"application/json": {"schema": {"$ref": _REF.format(name="Told")}}},
}


def describe(version: str) -> dict[str, Any]:
    """OpenAPI 3.1."""
    shapes = [*_shapes(), Told, Status, Taken]
    made, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    schemas = dict(zip(map(_called, shapes), made, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    for path, says in (("/healthz", "The process is alive"), ("/readyz", "It can be used")):
        paths[path] = {"get": _open(path, says, schemas)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Mainstay", "version": version or "0", "description": _INTRO},
        "paths": paths,
        "security": [{"key": []}, {}],
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "`mainstay user key`"}},
        },
    }


def _shapes() -> list[Any]:
    found: dict[str, Any] = {}
    for one in OPERATIONS:
        for shape in (one.answers, one.body):
            if shape is not None:
                found[_called(shape)] = shape
    return list(found.values())


def _called(shape: Any) -> str:
    return f"{shape.__module__}.{shape.__qualname__}"


def _operation(one: Operation, schemas: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": f"{one.do.__name__}",
        "summary": one.says,
        "tags": [one.path.split("/")[2]],
        "responses": {str(one.status): _answer(one, schemas), "default": _TOLD},
    }
    if one.body is not None and one.body.__struct_fields__:
        needed = any(field.required for field in msgspec.structs.fields(one.body))
        made["requestBody"] = {
            "required": needed or "text" in one.body.__struct_fields__,
            "content": {"application/json": {"schema": schemas[_called(one.body)]}},
        }
    if one.body is not None and "wait" in one.body.__struct_fields__:
        taken = {"application/json": {"schema": schemas[_called(Taken)]}}
        made["responses"]["202"] = {"description": "It is on disk, and will be answered", "content": taken}
    if parameters := [*_names(one.path), *_query(one.query), *_resume(one)]:
        made["parameters"] = parameters
    return made


def _answer(one: Operation, schemas: Mapping[str, Any]) -> dict[str, Any]:
    if one.answers is None:
        return {"description": "Done"}
    content: dict[str, Any] = {"application/json": {"schema": schemas[_called(one.answers)]}}
    if one.streams:
        content[SSE] = {"schema": {"type": "string"}}
    return {"description": one.says, "content": content}


def _names(path: str) -> list[dict[str, Any]]:
    shape = {"type": "string", "minLength": 1}
    return [{"name": name, "in": "path", "required": True, "schema": shape} for name in _NAMES.findall(path)]


def _query(shape: type[Asked]) -> list[dict[str, Any]]:
    described = msgspec.json.schema(shape)
    inside = described["$defs"][shape.__name__]
    needed: Sequence[str] = inside.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": schema}
        for name, schema in inside["properties"].items()
    ]


def _resume(one: Operation) -> list[dict[str, Any]]:
    if not one.streams:
        return []
    shape = {"type": "integer", "minimum": 0, "maximum": SEQUENCE_MAX}
    return [{"name": "Last-Event-ID", "in": "header", "required": False, "schema": shape}]


def _open(path: str, says: str, schemas: Mapping[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schemas[_called(Status)]}}
    responses = {"200": {"description": says, "content": content}, "default": _TOLD}
    return {"operationId": path[1:], "summary": says, "tags": ["health"], "security": [], "responses": responses}
