"""`mainstay.v1.Operations`: the operations table over gRPC. Requests with unknown fields are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.errors import InputRefused
from mainstay.core.outcome import Reply
from mainstay.core.protobuf import ProtobufMessageInvalid, encode
from mainstay.core.turn_location import TurnLocation
from mainstay.operations.execute import execute, open_stream
from mainstay.operations.operation import Operation
from mainstay.operations.operation_entry import OperationEntry
from mainstay.operations.turns import WatchEvents
from mainstay.server.grpc.call_handler import CallHandler, GrpcCall, GrpcMethod, GrpcMethodRun
from mainstay.server.grpc.errors import find_error
from mainstay.server.grpc.message_types import GrpcEvent
from mainstay.server.grpc.operations_schema import (
    SERVICE,
    STREAM_PREFIX,
    list_entries,
    message_fields,
    message_name,
    request_name,
    response_struct,
    zero_value,
)
from mainstay.server.grpc.turn_stream import event_to_message
from mainstay.server.quota_problem import find_quota_problem

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message
    from grpc import GenericRpcHandler


class OperationsService:
    """The methods of the service. `pool` holds the schema; messages are converted to operations through JSON types."""

    def __init__(self, handler: CallHandler, pool: DescriptorPool) -> None:
        self._handler = handler
        self._pool = pool

    def create_handler(self) -> GenericRpcHandler:
        methods: list[GrpcMethod] = []
        for entry in list_entries():
            decode = self._create_decoder(entry)
            holds = entry.stream is not None
            if not entry.is_stream_only:
                run, encode_result = self._create_run(entry), self._create_encoder(entry)
                methods.append(GrpcMethod(entry.name, decode, encode_result, run, stays_open=holds))
            if entry.stream is not None:
                name = f"{STREAM_PREFIX}{entry.name}"
                methods.append(GrpcMethod(name, decode, bytes, self._stream_events, is_stream=True))
        return self._handler.create_service(SERVICE, methods)

    def _get_message_class(self, name: str) -> type[Message]:
        """Return the class of a message of the schema."""
        from google.protobuf import message_factory

        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))

    def _create_decoder(self, entry: OperationEntry) -> Callable[[bytes], Operation[object]]:
        from google.protobuf.json_format import MessageToDict

        message_class = self._get_message_class(f"mainstay.v1.{request_name(entry)}")
        zeros = {
            field.encode_name: zero
            for field, kind in message_fields(entry.request)
            if field.required and (zero := zero_value(kind)) is not None
        }

        def decode(data: bytes) -> Operation[object]:
            message = message_class()
            try:
                message.ParseFromString(data)
            except Exception as error:  # protobuf raises several classes for malformed messages
                raise ProtobufMessageInvalid(str(error)) from None
            _refuse_unknown_fields(message)
            fields = MessageToDict(message, preserving_proto_field_name=True)
            fields = zeros | fields  # proto3 does not send zeros
            try:
                operation: Operation[object] = msgspec.convert(fields, entry.request, strict=False)
            except msgspec.ValidationError as error:
                raise InputRefused(f"the request is invalid: {error}") from None
            return operation

        return decode

    def _create_encoder(self, entry: OperationEntry) -> Callable[[object], bytes]:
        from google.protobuf.json_format import ParseDict

        response = response_struct(entry)
        if response is None:
            return lambda result: b""
        message_class = self._get_message_class(f"mainstay.v1.{message_name(response)}")

        def encode_result(result: object) -> bytes:
            fields = msgspec.to_builtins(result, enc_hook=str)
            return ParseDict(fields, message_class(), ignore_unknown_fields=True).SerializeToString()

        return encode_result

    def _create_run(self, entry: OperationEntry) -> GrpcMethodRun:
        async def run(call: GrpcCall) -> object:
            result = await execute(call.caller, call.request)
            if isinstance(result, Reply):
                call.progress.turn, call.progress.trace = result.turn, result.trace
                where = TurnLocation(call.progress.session, result.turn, 0, result.trace)
                if (problem := find_quota_problem(result.outcome, result.usage, where)) is not None:
                    raise problem
            return entry.to_view(call.caller, call.request, result) if entry.to_view is not None else result

        return run

    async def _stream_events(self, call: GrpcCall) -> None:
        stream = await open_stream(call.caller, call.request)
        call.progress.trace = stream.trace_id
        try:
            async for event in stream:
                call.progress.turn, call.progress.step = (
                    event.turn or call.progress.turn,
                    event.step or call.progress.step,
                )
                message = event_to_message(event, find_error(event))
                if isinstance(call.request, WatchEvents):
                    message = _with_session(message, event.session)
                await self._handler.write(call.context, encode(message))
        finally:
            await stream.aclose()


def _with_session(message: GrpcEvent, session: str) -> GrpcEvent:
    """Add the caller's name of the session to `data`: the stream has events of many."""
    fields = msgspec.json.decode(message.data) if message.data else {"type": message.type}
    return msgspec.structs.replace(message, data=msgspec.json.encode(fields | {"session": session}).decode())


def _refuse_unknown_fields(message: Message) -> None:
    """Refuse unknown fields at any depth. Listing them (`UnknownFieldSet`) would take a hundred times as long, and
    thirty times their size in memory."""
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        raise ProtobufMessageInvalid(f"{message.DESCRIPTOR.name} has a field that is not in the contract")
