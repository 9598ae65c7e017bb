"""What goes between the core and a plugin: the messages of `proto/mainstay/plugin/v1`, read strictly.

Written by hand because this is a trust boundary: a field that is not in the contract, a wrong type, a second value for
the same field or text that is not UTF-8 is no message at all, where a general reader would pass over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec

from mainstay.core.errors import MainstayError

PLUGIN_SOCKET, STATE_SOCKET = "MAINSTAY_PLUGIN_SOCKET", "MAINSTAY_STATE_SOCKET"  # variables of a plugin's environment
EXECUTE = "/mainstay.plugin.v1.Plugin/Execute"
STATE = "/mainstay.plugin.v1.State"  # and /Get, /Set, /Delete, /Keys

T = TypeVar("T", bound=msgspec.Struct)
_VARINT, _BYTES = 0, 2
_VARINT_BYTES_MAX = 10


class ContractBroken(MainstayError):
    """These bytes are not the message they should be."""


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


class _Entry(msgspec.Struct, frozen=True):
    """One pair of a map."""

    key: str = ""
    value: str = ""


# --- writing -------------------------------------------------------------------------------------


def encode(message: msgspec.Struct) -> bytes:
    made = bytearray()
    for number, name in enumerate(message.__struct_fields__, 1):
        match getattr(message, name):
            case True:
                made += _varint(number << 3 | _VARINT) + b"\x01"
            case str() as text if text:
                made += _block(number, text.encode("utf-8", "replace"))
            case tuple() as texts:
                for text in texts:
                    made += _block(number, text.encode("utf-8", "replace"))
            case dict() as pairs:
                for key, value in pairs.items():  # both are always written, as everybody does
                    pair = _block(1, key.encode("utf-8", "replace")) + _block(2, value.encode("utf-8", "replace"))
                    made += _block(number, pair)
    return bytes(made)


def _block(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


# --- reading -------------------------------------------------------------------------------------


def decode(data: bytes, kind: type[T]) -> T:
    """Raises ContractBroken."""
    kinds = _kinds(kind)
    values: dict[str, Any] = {}
    for number, value in _fields(data):
        if not 0 < number <= len(kinds):
            raise ContractBroken(f"field {number} is not part of {kind.__name__}")
        name, wanted = kinds[number - 1]
        if isinstance(value, int) != (wanted is bool):
            raise ContractBroken(f"{name} has the wrong type")
        if isinstance(value, int):
            if value > 1:
                raise ContractBroken(f"{name} is neither true nor false")
            _once(values, name, value == 1)
        elif wanted is str:
            _once(values, name, _text(value, name))
        elif wanted == tuple[str, ...]:
            values.setdefault(name, []).append(_text(value, name))
        else:
            pair = decode(value, _Entry)
            _once(values.setdefault(name, {}), pair.key, pair.value)
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


@cache
def _kinds(kind: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(name, hints[name]) for name in kind.__struct_fields__]


def _once(values: dict[str, Any], name: str, value: Any) -> None:
    if name in values:
        raise ContractBroken(f"{name[:100]} is given twice")
    values[name] = value


def _text(value: bytes, name: str) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise ContractBroken(f"{name} is not UTF-8") from None


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            flag, at = _read_varint(data, at)
            yield number, flag
        elif kind == _BYTES:
            length, at = _read_varint(data, at)
            if length > len(data) - at:
                raise ContractBroken("it is cut off")
            yield number, data[at : at + length]
            at += length
        else:
            raise ContractBroken(f"field {number} has a type that is not in the contract")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place in range(_VARINT_BYTES_MAX):
        if at + place >= len(data):
            raise ContractBroken("it is cut off")
        byte = data[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise ContractBroken("a number in it has no end")
