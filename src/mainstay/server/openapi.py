"""The OpenAPI 3.1 description of the HTTP API, generated from the operations table."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainstay.operations.operation import SEQUENCE_MAX
from mainstay.operations.table import entries_for
from mainstay.operations.turns import Accepted
from mainstay.server.health import HealthStatus
from mainstay.server.http_operations import SSE_CONTENT_TYPE, OperationCodec
from mainstay.server.problems import ErrorResponse

_REF = "#/components/schemas/{name}"
_INTRO = (
    "All errors have the same shape. Names in paths are percent-encoded. A stream (SSE) gives every durable event its "
    "sequence as its id; a client that reconnects sends the last one as `Last-Event-ID`. The same over a WebSocket: "
    "`/api/ws`."
)
_ERROR_RESPONSE = {
    "description": "The error, in one sentence",
    "content": {"application/json": {"schema": {"$ref": _REF.format(name=ErrorResponse.__name__)}}},
}
SchemasByType = Mapping[object, dict[str, object]]


def build_openapi(version: str) -> dict[str, object]:
    """Return the OpenAPI document."""
    codecs = [OperationCodec(entry) for entry in entries_for("http")]
    types = dict.fromkeys([*_list_types(codecs), ErrorResponse, HealthStatus, Accepted])
    schemas, components = msgspec.json.schema_components(list(types), ref_template=_REF)
    by_type: SchemasByType = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for codec in codecs:
        paths.setdefault(codec.route.path, {})[codec.route.method.lower()] = _describe_operation(codec, by_type)
    for path, summary in (("/healthz", "The process is alive"), ("/readyz", "The server is ready")):
        paths[path] = {"get": _describe_health(path, summary, by_type)}
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


def _list_types(codecs: list[OperationCodec]) -> list[object]:
    results = [codec.entry.public_type for codec in codecs if codec.entry.public_type is not type(None)]
    return results + [codec.rest_type for codec in codecs if codec.has_body]


def _describe_operation(codec: OperationCodec, schemas: SchemasByType) -> dict[str, object]:
    entry = codec.entry
    responses: dict[str, object] = {
        str(codec.route.status): _describe_result(codec, schemas),
        "default": _ERROR_RESPONSE,
    }
    description: dict[str, object] = {
        "operationId": entry.operation_id,
        "summary": entry.summary,
        "tags": [codec.route.path.split("/")[2]],
        "responses": responses,
    }
    if codec.has_body and codec.rest_type.__struct_fields__:
        content = {"application/json": {"schema": schemas[codec.rest_type]}}
        description["requestBody"] = {"required": codec.requires_rest or _has_field(codec, "text"), "content": content}
    if _has_field(codec, "wait") and entry.stream is not None:
        content = {"application/json": {"schema": schemas[Accepted]}}
        responses["202"] = {
            "description": "The prompt is stored and will be answered",
            "content": content,
        }
    if parameters := [*_path_parameters(codec), *_query_parameters(codec), *_resume_parameters(codec)]:
        description["parameters"] = parameters
    return description


def _has_field(codec: OperationCodec, field: str) -> bool:
    return field in codec.rest_type.__struct_fields__


def _describe_result(codec: OperationCodec, schemas: SchemasByType) -> dict[str, object]:
    if codec.entry.is_stream_only:
        return {"description": codec.entry.summary, "content": {SSE_CONTENT_TYPE: {"schema": {"type": "string"}}}}
    if codec.route.status == 204 or codec.entry.public_type is type(None):
        return {"description": "Done"}
    content: dict[str, object] = {"application/json": {"schema": schemas[codec.entry.public_type]}}
    if codec.entry.stream is not None:
        content[SSE_CONTENT_TYPE] = {"schema": {"type": "string"}}
    return {"description": codec.entry.summary, "content": content}


def _path_parameters(codec: OperationCodec) -> list[dict[str, object]]:
    shape = {"type": "string", "minLength": 1}
    return [{"name": name, "in": "path", "required": True, "schema": shape} for name in codec.path_fields]


def _query_parameters(codec: OperationCodec) -> list[dict[str, object]]:
    if codec.has_body:
        return []
    schema = msgspec.json.schema(codec.rest_type)["$defs"][codec.rest_type.__name__]
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": inner}
        for name, inner in schema["properties"].items()
    ]


def _resume_parameters(codec: OperationCodec) -> list[dict[str, object]]:
    if codec.entry.stream is None or codec.entry.is_stream_only:
        return []
    shape = {"type": "integer", "minimum": 0, "maximum": SEQUENCE_MAX}
    return [{"name": "Last-Event-ID", "in": "header", "required": False, "schema": shape}]


def _describe_health(path: str, summary: str, schemas: SchemasByType) -> dict[str, object]:
    content = {"application/json": {"schema": schemas[HealthStatus]}}
    responses = {"200": {"description": summary, "content": content}, "default": _ERROR_RESPONSE}
    return {"operationId": path[1:], "summary": summary, "tags": ["health"], "security": [], "responses": responses}
