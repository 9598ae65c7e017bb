"""What goes between the core and a plugin: the messages of `proto/mainstay/plugin/v1`, as core/protobuf reads them."""

from __future__ import annotations

import msgspec

from mainstay.core.protobuf import ContractBroken as ContractBroken
from mainstay.core.protobuf import decode as decode
from mainstay.core.protobuf import encode as encode

PLUGIN_SOCKET, STATE_SOCKET = "MAINSTAY_PLUGIN_SOCKET", "MAINSTAY_STATE_SOCKET"  # variables of a plugin's environment
EXECUTE = "/mainstay.plugin.v1.Plugin/Execute"
STATE = "/mainstay.plugin.v1.State"  # and /Get, /Set, /Delete, /Keys

# The number of a field is its place.


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
