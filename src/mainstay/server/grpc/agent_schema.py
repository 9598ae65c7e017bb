"""The protobuf schema of `mainstay.v1.Agent`, generated from its message structs, and the pool for reflection."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import msgspec

from mainstay.core.protobuf import is_message, message_fields, protobuf_name
from mainstay.server.grpc.message_types import FILE, MESSAGES, METHODS, PACKAGE, SERVICE
from mainstay.server.grpc.operations_schema import build_file_descriptor as describe_operations

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool


def build_file_descriptor() -> FileDescriptorProto:
    """Return the schema as a FileDescriptorProto."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    for kind in MESSAGES:
        _describe_message(file.message_type.add(name=protobuf_name(kind)), kind)
    service = file.service.add(name=SERVICE.rpartition(".")[2])
    for method in METHODS:
        service.method.add(
            name=method.name,
            input_type=_full_name(method.request),
            output_type=_full_name(method.response),
            **({"server_streaming": True} if method.is_stream else {}),
        )
    return file


def _describe_message(descriptor: DescriptorProto, kind: type[msgspec.Struct]) -> None:
    for number, (name, hint) in enumerate(message_fields(kind), 1):
        field = descriptor.field.add(name=name, number=number, label=1, json_name=_camel_case(name))
        if len(inner := get_args(hint)) == 2 and inner[1] is Ellipsis:
            field.label, hint = 3, inner[0]
        elif hint == int | None:
            field.proto3_optional, field.oneof_index, hint = True, len(descriptor.oneof_decl), int
            descriptor.oneof_decl.add(name=f"_{name}")
        assert isinstance(hint, type)
        if is_message(hint):
            field.type, field.type_name = 11, _full_name(hint)
        else:
            field.type = {bool: 8, int: 4, float: 1, str: 9, bytes: 12}[hint]  # types of descriptor.proto


def _full_name(kind: type[msgspec.Struct]) -> str:
    return f".{PACKAGE}.{protobuf_name(kind)}"


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def create_descriptor_pool() -> DescriptorPool:
    """Return the pool of all served files: ours, health and reflection. It is not the default pool, so that a program
    with its own copy of our files there can serve them too."""
    from google.protobuf import descriptor_pb2, descriptor_pool, empty_pb2, struct_pb2
    from grpc_health.v1 import health_pb2
    from grpc_reflection.v1alpha import reflection_pb2

    pool = descriptor_pool.DescriptorPool()
    for descriptor in (
        empty_pb2.DESCRIPTOR,
        struct_pb2.DESCRIPTOR,
        health_pb2.DESCRIPTOR,
        reflection_pb2.DESCRIPTOR,
    ):
        file = descriptor_pb2.FileDescriptorProto()
        descriptor.CopyToProto(file)
        pool.Add(file)
    pool.Add(build_file_descriptor())
    pool.Add(describe_operations())
    return pool
