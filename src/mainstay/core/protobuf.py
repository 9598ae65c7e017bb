"""Protocol buffer messages as structs, decoded strictly.

Written by hand because they are decoded at a trust boundary: an unknown field, a wrong type, a second value for the
same field or a number that is too large is an error here, and decoding ends at the first one. The protobuf library
accepts some of these, and reads the message to its end before it reports any (docs/concepts/decisions.md).

A message is a struct whose fields have defaults; the number of a field is its position.

    bool   int (uint64)   int | None (optional uint64)   float (double)   str   bytes   dict[str, str] (map)
    Message | None        tuple[str, ...] and tuple[Message, ...] (repeated)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import TypeGuard, TypeVar, get_args, get_type_hints

import msgspec

from mainstay.core.errors import MainstayError

T = TypeVar("T", bound=msgspec.Struct)
_VARINT, _DOUBLE, _BYTES = 0, 1, 2
_VARINT_BYTES_MAX = 10
_UINT64_MAX = (1 << 64) - 1
MESSAGES_MAX = 1000  # items of a repeated message: an empty one has two bytes and takes as long as a large one


class ProtobufMessageInvalid(MainstayError):
    """The bytes are not a valid message of the expected type."""


class _MapEntry(msgspec.Struct, frozen=True):
    """One entry of a map."""

    key: str = ""
    value: str = ""


@cache
def message_fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, object], ...]:
    """Return name and type of each field, in the order of their numbers. `Message | None` is given as `Message`."""
    hints = get_type_hints(kind)
    return tuple((name, _find_message_type(hints[name]) or hints[name]) for name in kind.__struct_fields__)


def _find_message_type(hint: object) -> type[msgspec.Struct] | None:
    return next((kind for kind in get_args(hint) if is_message(kind)), None) if isinstance(hint, UnionType) else None


def is_message(kind: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def protobuf_name(message: type[msgspec.Struct]) -> str:
    """Return a message's name in the schema: `Event` for `GrpcEvent`, whose prefix tells it from the event of core."""
    return message.__name__.removeprefix("Grpc")


# --- encoding -------------------------------------------------------------------------------------


def encode(message: msgspec.Struct) -> bytes:
    encoded = bytearray()
    for number, name in enumerate(message.__struct_fields__, 1):
        value = getattr(message, name)
        if value or _is_explicit_zero(message, number, value):
            encoded += _encode_field(number, value)
    return bytes(encoded)


def _is_explicit_zero(message: msgspec.Struct, number: int, value: object) -> bool:
    """Return True if the value is a zero of an optional field, which must be encoded to differ from None."""
    return type(value) is int and message_fields(type(message))[number - 1][1] == int | None


def _encode_field(number: int, value: object) -> bytes:
    match value:
        case str():
            return _encode_block(number, value.encode("utf-8", "replace"))
        case int():  # True is 1
            return _encode_varint(number << 3 | _VARINT) + _encode_varint(value)
        case bytes():
            return _encode_block(number, value)
        case float():
            return _encode_varint(number << 3 | _DOUBLE) + struct.pack("<d", value)
        case tuple():
            return b"".join([_encode_field(number, item) if item else _encode_block(number, b"") for item in value])
        case dict():  # key and value are always encoded, as other implementations do
            pairs = [
                _encode_block(1, k.encode("utf-8", "replace")) + _encode_block(2, v.encode("utf-8", "replace"))
                for k, v in value.items()
            ]
            return b"".join([_encode_block(number, pair) for pair in pairs])
        case msgspec.Struct():
            return _encode_block(number, encode(value))
    raise TypeError(f"{type(value).__name__} is not part of any contract")


def _encode_block(number: int, data: bytes) -> bytes:
    return _encode_varint(number << 3 | _BYTES) + _encode_varint(len(data)) + data


def _encode_varint(number: int) -> bytes:
    if number < 0x80:
        return number.to_bytes(1, "little")
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


# --- decoding -------------------------------------------------------------------------------------


def decode(data: bytes, kind: type[T]) -> T:
    """Decode a message. Raises ProtobufMessageInvalid."""
    kinds = message_fields(kind)
    values: dict[str, object] = {}
    for number, value in _read_fields(data):
        if not 0 < number <= len(kinds):
            raise ProtobufMessageInvalid(f"field {number} is not part of {protobuf_name(kind)}")
        name, expected = kinds[number - 1]
        match value:
            case int():
                _set_once(values, name, _check_integer(value, expected, name))
            case float():
                if expected is not float:
                    raise ProtobufMessageInvalid(f"{name} has the wrong type")
                _set_once(values, name, value)
            case bytes():
                _decode_bytes(values, name, value, expected)
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _check_integer(value: int, expected: object, name: str) -> bool | int:
    if expected is bool:
        if value > 1:
            raise ProtobufMessageInvalid(f"{name} is neither true nor false")
        return value == 1
    if expected is not int and expected != int | None:
        raise ProtobufMessageInvalid(f"{name} has the wrong type")
    if value > _UINT64_MAX:
        raise ProtobufMessageInvalid(f"{name} is too large a number")
    return value


def _decode_bytes(values: dict[str, object], name: str, data: bytes, expected: object) -> None:
    """Decode a length-delimited value: text, bytes, a message, an item of a repeated field, an entry of a map."""
    inner = get_args(expected)
    if expected is str:
        _set_once(values, name, _decode_text(data, name))
    elif expected is bytes:
        _set_once(values, name, data)
    elif is_message(expected):
        _set_once(values, name, decode(data, expected))
    elif expected == dict[str, str]:
        pair = decode(data, _MapEntry)
        entries = values.setdefault(name, {})
        assert isinstance(entries, dict)
        _set_once(entries, pair.key, pair.value)
    elif len(inner) == 2 and inner[1] is Ellipsis:
        items = values.setdefault(name, [])
        assert isinstance(items, list)
        if inner[0] is not str and len(items) == MESSAGES_MAX:
            raise ProtobufMessageInvalid(f"{name} has more than {MESSAGES_MAX} items")
        items.append(_decode_text(data, name) if inner[0] is str else decode(data, inner[0]))
    else:
        raise ProtobufMessageInvalid(f"{name} has the wrong type")


def _set_once(values: dict[str, object], name: str, value: object) -> None:
    if name in values:
        raise ProtobufMessageInvalid(f"{name[:100]} is given twice")
    values[name] = value


def _decode_text(value: bytes, name: str) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise ProtobufMessageInvalid(f"{name} is not UTF-8") from None


def _read_fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            count, at = _read_varint(data, at)
            yield number, count
        elif kind == _BYTES:
            length, at = _read_varint(data, at)
            if length > len(data) - at:
                raise ProtobufMessageInvalid("it is cut off")
            yield number, data[at : at + length]
            at += length
        elif kind == _DOUBLE:
            if len(data) - at < 8:
                raise ProtobufMessageInvalid("it is cut off")
            yield number, struct.unpack_from("<d", data, at)[0]
            at += 8
        else:
            raise ProtobufMessageInvalid(f"field {number} has a type that is not in the contract")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place in range(_VARINT_BYTES_MAX):
        if at + place >= len(data):
            raise ProtobufMessageInvalid("it is cut off")
        byte = data[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise ProtobufMessageInvalid("a number in it has no end")
