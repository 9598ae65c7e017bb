"""Messages and method names of the plugin gRPC protocol, `proto/mainstay/plugin/v1`."""

from __future__ import annotations

import msgspec

from mainstay.core.protobuf import ProtobufMessageInvalid as ProtobufMessageInvalid
from mainstay.core.protobuf import decode as decode
from mainstay.core.protobuf import encode as encode

PLUGIN_SOCKET, STATE_SOCKET = "MAINSTAY_PLUGIN_SOCKET", "MAINSTAY_STATE_SOCKET"  # a plugin's environment variables
EXECUTE_METHOD = "/mainstay.plugin.v1.Plugin/Execute"
STATE_SERVICE = "/mainstay.plugin.v1.State"  # followed by /Get, /Set, /Delete or /Keys

# Protobuf field numbers are the positions of the fields.


class ExecuteRequest(msgspec.Struct, frozen=True):
    call_id: str = ""
    action: str = ""
    arguments: str = ""
    context: dict[str, str] = {}


class ExecuteResponse(msgspec.Struct, frozen=True):
    call_id: str = ""
    content: str = ""
    error: str = ""


class GetRequest(msgspec.Struct, frozen=True):
    key: str = ""


class GetResponse(msgspec.Struct, frozen=True):
    value: str = ""
    found: bool = False


class SetRequest(msgspec.Struct, frozen=True):
    key: str = ""
    value: str = ""


class SetResponse(msgspec.Struct, frozen=True):
    pass


class DeleteRequest(msgspec.Struct, frozen=True):
    key: str = ""


class DeleteResponse(msgspec.Struct, frozen=True):
    found: bool = False


class KeysRequest(msgspec.Struct, frozen=True):
    prefix: str = ""


class KeysResponse(msgspec.Struct, frozen=True):
    keys: tuple[str, ...] = ()
