"""The contract as reflection tells it, made of the very structs that are read and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from mainstay.core.protobuf import fields_of, is_message
from mainstay.server.grpc.messages import FILE, MESSAGES, METHODS, PACKAGE, SERVICE


def describe() -> Any:
    """A FileDescriptorProto."""
    from google.protobuf import descriptor_pb2  # type: ignore[import-untyped]

    file = descriptor_pb2.FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    for kind in MESSAGES:
        _describe_message(file.message_type.add(name=kind.__name__), kind)
    service = file.service.add(name=SERVICE.rpartition(".")[2])
    for method in METHODS:
        service.method.add(
            name=method.name,
            input_type=_name(method.request),
            output_type=_name(method.response),
            **({"server_streaming": True} if method.streams else {}),
        )
    return file


def _describe_message(made: Any, kind: type[msgspec.Struct]) -> None:
    for number, (name, hint) in enumerate(fields_of(kind), 1):
        field = made.field.add(name=name, number=number, label=1, json_name=_camel(name))
        if len(inner := get_args(hint)) == 2 and inner[1] is Ellipsis:
            field.label, hint = 3, inner[0]
        elif hint == int | None:
            field.proto3_optional, field.oneof_index, hint = True, len(made.oneof_decl), int
            made.oneof_decl.add(name=f"_{name}")
        if is_message(hint):
            field.type, field.type_name = 11, _name(hint)
        else:
            field.type = {bool: 8, int: 4, float: 1, str: 9, bytes: 12}[hint]  # as descriptor.proto numbers them


def _name(kind: type[msgspec.Struct]) -> str:
    return f".{PACKAGE}.{kind.__name__}"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def pool_of(others: Sequence[Any]) -> Any:
    """What reflection knows: our file, and those of the services that are served beside it. A pool of its own, so that
    a program that has its own copy of our file in the general one can serve it too."""
    from google.protobuf import descriptor_pb2, descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    pool.Add(describe())
    for descriptor in others:
        copied = descriptor_pb2.FileDescriptorProto()
        descriptor.CopyToProto(copied)
        pool.Add(copied)
    return pool
