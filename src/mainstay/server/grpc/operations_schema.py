"""The protobuf schema of `mainstay.v1.Operations`, generated from the operations table.

The number of a field is its position in the struct, so fields are only ever added at the end; a test compares the
result with the published `proto/mainstay/v1/operations.proto`. Protobuf has no tagged unions of open shape: values
whose type is a union of structs (events, outcomes) or is unknown are `google.protobuf.Value`. A field of a request
whose default is not the zero of its type is `optional`, so that a client can send the zero.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from mainstay.core.protobuf import protobuf_name
from mainstay.operations.operation_entry import OperationEntry
from mainstay.operations.table import entries_for
from mainstay.server.grpc.message_types import FILE as AGENT_FILE
from mainstay.server.grpc.message_types import MESSAGES, PACKAGE

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

FILE = "mainstay/v1/operations.proto"
SERVICE = f"{PACKAGE}.Operations"
STREAM_PREFIX = "Stream"  # of the method that runs an operation as a stream of events
_AGENT_MESSAGES = {protobuf_name(message) for message in MESSAGES}
_VALUE = "google.protobuf.Value"
_EMPTY = "google.protobuf.Empty"
_SCALARS = {str: 9, int: 3, float: 1, bool: 8, bytes: 12}  # types of descriptor.proto
_SCALAR_NAMES = {str: "string", int: "int64", float: "double", bool: "bool", bytes: "bytes"}
_MESSAGE_TYPE = 11


class FieldType(msgspec.Struct, frozen=True):
    """A protobuf type: a scalar, a message of this file (a struct), `_VALUE`, or a map of strings to scalars."""

    base: Any
    repeated: bool = False
    optional: bool = False
    is_map: bool = False

    @property
    def name(self) -> str:
        base = self.base if isinstance(self.base, str) else _SCALAR_NAMES.get(self.base) or message_name(self.base)
        if self.is_map:
            return f"map<string, {base}>"
        return f"repeated {base}" if self.repeated else f"optional {base}" if self.optional else base


def message_name(struct: type[msgspec.Struct]) -> str:
    """The name of a struct's message. The names of agent.proto, which is in the same package, are taken."""
    return f"{struct.__name__}Info" if struct.__name__ in _AGENT_MESSAGES else struct.__name__


def field_type(hint: object) -> FieldType:
    """Return the protobuf type of a field's type hint."""
    if get_origin(hint) is Annotated:
        return field_type(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return FieldType(str)
    if hint in _SCALARS:
        return FieldType(hint)
    if get_origin(hint) in (list, tuple) and (args := get_args(hint)) and (len(args) == 1 or args[1] is Ellipsis):
        return FieldType(field_type(args[0]).base, repeated=True)
    if get_origin(hint) is dict:
        value = field_type(get_args(hint)[1]).base
        return FieldType(value, is_map=True) if value in _SCALARS else FieldType(_VALUE)
    if get_origin(hint) in (Union, types.UnionType):
        absent = (type(None), msgspec.UnsetType)
        return _union_type([arg for arg in get_args(hint) if arg not in absent], len(get_args(hint)))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return FieldType(hint)
    return FieldType(_VALUE)


def _union_type(members: list[object], count: int) -> FieldType:
    """`X | None` and `X | UnsetType` are an optional X; every other union is a value of any shape."""
    if len(members) != 1:
        return FieldType(_VALUE)
    inner = field_type(members[0])
    has_presence = inner.repeated or inner.is_map or inner.base not in _SCALARS
    return inner if has_presence or len(members) == count else FieldType(inner.base, optional=True)


@cache
def _request_structs() -> frozenset[type[msgspec.Struct]]:
    """The structs that clients send: the requests, and those inside of them."""
    structs: dict[str, type[msgspec.Struct]] = {}
    for entry in list_entries():
        _collect_nested(entry.request, structs, is_request=True)
    return frozenset((*structs.values(), *(entry.request for entry in list_entries())))


def message_fields(struct: type[msgspec.Struct]) -> Iterator[tuple[msgspec.structs.FieldInfo, FieldType]]:
    """Yield the fields of a message with their protobuf types, in the order of their numbers."""
    for field in msgspec.structs.fields(struct):
        kind = field_type(field.type)
        if struct in _request_structs() and not field.required and _is_ambiguous(kind, field.default):
            kind = FieldType(kind.base, optional=True)
        yield field, kind


def _is_ambiguous(kind: FieldType, default: object) -> bool:
    """Whether a scalar that is missing on the wire would not be the zero that protobuf takes it for."""
    return kind.base in _SCALARS and not kind.repeated and not kind.is_map and default not in (None, kind.base())


def zero_value(kind: FieldType) -> object:
    """Return the value, as JSON, of a field that is missing on the wire; None if protobuf sends its zeros too."""
    if kind.repeated or kind.is_map:
        return [] if kind.repeated else {}
    if kind.optional or kind.base not in _SCALARS:
        return None
    return "" if kind.base is bytes else kind.base()


def list_entries() -> list[OperationEntry]:
    """The operations of the service."""
    return list(entries_for("grpc"))


def request_name(entry: OperationEntry) -> str:
    """The name of an operation's request message. The names of agent.proto, which is in the same package, are taken."""
    name = f"{entry.name}Request"
    return f"{entry.name}OperationRequest" if name in _AGENT_MESSAGES else name


def response_struct(entry: OperationEntry) -> Any:
    """The struct that a method returns; None for an empty message."""
    result = entry.public_type
    if result is type(None) or (entry.http is not None and entry.http.status == 204):
        return None
    return result


def collect_messages() -> dict[str, type[msgspec.Struct]]:
    """Every message of the file by name, requests first."""
    structs: dict[str, type[msgspec.Struct]] = {request_name(entry): entry.request for entry in list_entries()}
    for struct in [*structs.values(), *(response_struct(entry) for entry in list_entries())]:
        if struct is not None:
            _collect_nested(struct, structs, is_request=struct in set(structs.values()))
    return structs


def _collect_nested(
    struct: type[msgspec.Struct], structs: dict[str, type[msgspec.Struct]], *, is_request: bool
) -> None:
    if not is_request:
        known = structs.setdefault(message_name(struct), struct)
        assert known is struct, f"two structs of the gRPC schema are named {struct.__name__}"
    for field in msgspec.structs.fields(struct):
        base = field_type(field.type).base
        if isinstance(base, type) and base not in _SCALARS and base not in structs.values():
            _collect_nested(base, structs, is_request=False)


def render_proto() -> str:
    """The schema as a .proto file."""
    lines = [
        "// The operations of Mainstay over gRPC, turns included. Generated from the operations table:",
        "// `python scripts/reference.py` writes it. Metadata and errors are those of agent.proto.",
        'syntax = "proto3";',
        "",
        f"package {PACKAGE};",
        "",
        'import "google/protobuf/empty.proto";',
        'import "google/protobuf/struct.proto";',
        f'import "{AGENT_FILE}";',
        "",
        "service Operations {",
    ]
    for entry in list_entries():
        response = response_struct(entry)
        returns = message_name(response) if response is not None else _EMPTY
        request = request_name(entry)
        if not entry.is_stream_only:
            lines += [f"  // {entry.summary}.", f"  rpc {entry.name}({request}) returns ({returns});", ""]
        if entry.stream is not None:
            end = "continues live until the client cancels the call" if entry.streams_live else "ends with the turn"
            summary = entry.summary if entry.is_stream_only else f"The same as a stream of events, which {end}"
            lines += [
                f"  // {summary}.",
                f"  rpc {STREAM_PREFIX}{entry.name}({request}) returns (stream Event);",
                "",
            ]
    lines[-1] = "}"
    for name, struct in collect_messages().items():
        lines += ["", f"message {name} {{", *_render_fields(struct), "}"]
    return "\n".join(lines) + "\n"


def _render_fields(struct: type[msgspec.Struct]) -> Iterator[str]:
    for number, (field, kind) in enumerate(message_fields(struct), 1):
        yield f"  {kind.name} {field.encode_name} = {number};"


def build_file_descriptor() -> FileDescriptorProto:
    """Return the schema as a FileDescriptorProto."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    file.dependency.extend(["google/protobuf/empty.proto", "google/protobuf/struct.proto", AGENT_FILE])
    for name, struct in collect_messages().items():
        _describe_message(file.message_type.add(name=name), name, struct)
    service = file.service.add(name=SERVICE.rpartition(".")[2])
    for entry in list_entries():
        request, response = f".{PACKAGE}.{request_name(entry)}", response_struct(entry)
        returns = f".{PACKAGE}.{message_name(response)}" if response is not None else f".{_EMPTY}"
        if not entry.is_stream_only:
            service.method.add(name=entry.name, input_type=request, output_type=returns)
        if entry.stream is not None:
            name = f"{STREAM_PREFIX}{entry.name}"
            service.method.add(name=name, input_type=request, output_type=f".{PACKAGE}.Event", server_streaming=True)
    return file


def _describe_message(message: DescriptorProto, name: str, struct: type[msgspec.Struct]) -> None:
    optional: list[FieldDescriptorProto] = []
    for number, (field, kind) in enumerate(message_fields(struct), 1):
        added = message.field.add(name=field.encode_name, number=number, label=3 if kind.repeated else 1)
        added.json_name = _camel_case(field.encode_name)
        if kind.is_map:
            _describe_map(message, added, f"{PACKAGE}.{name}", kind)
        elif kind.base in _SCALARS:
            added.type = _SCALARS[kind.base]
        else:
            base = kind.base if isinstance(kind.base, str) else f"{PACKAGE}.{message_name(kind.base)}"
            added.type, added.type_name = _MESSAGE_TYPE, f".{base}"
        if kind.optional:
            optional.append(added)
    for added in optional:
        added.proto3_optional, added.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{added.name}")


def _describe_map(message: DescriptorProto, field: FieldDescriptorProto, parent: str, kind: FieldType) -> None:
    entry = message.nested_type.add(name=f"{_camel_case(field.name)[0].upper()}{_camel_case(field.name)[1:]}Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9, json_name="key")
    entry.field.add(name="value", number=2, label=1, type=_SCALARS[kind.base], json_name="value")
    field.label, field.type, field.type_name = 3, _MESSAGE_TYPE, f".{parent}.{entry.name}"


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
