"""Protocol buffers as structs, read strictly.

Written by hand because they are read at a trust boundary: a field that is not in the contract, a wrong type, a second
value for the same field or text that is not UTF-8 is no message at all, where a general reader would pass over it.

A message is a struct whose fields have defaults; the number of a field is its place.

    bool   int (uint64)   int | None (optional uint64)   float (double)   str   bytes   dict[str, str] (map)
    Message | None        tuple[str, ...] and tuple[Message, ...] (repeated)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from mainstay.core.errors import MainstayError

T = TypeVar("T", bound=msgspec.Struct)
_VARINT, _DOUBLE, _BYTES = 0, 1, 2
_VARINT_BYTES_MAX = 10
_UINT64_MAX = (1 << 64) - 1


class ContractBroken(MainstayError):
    """These bytes are not the message they should be."""


class _Entry(msgspec.Struct, frozen=True):
    """One pair of a map."""

    key: str = ""
    value: str = ""


@cache
def fields_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    """Name and type of each, in the order of their numbers. A message may always be missing, so that goes unsaid."""
    hints = get_type_hints(kind)
    return tuple((name, _message_in(hints[name]) or hints[name]) for name in kind.__struct_fields__)


def _message_in(hint: Any) -> type[msgspec.Struct] | None:
    return next((one for one in get_args(hint) if is_message(one)), None) if isinstance(hint, UnionType) else None


def is_message(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


# --- writing -------------------------------------------------------------------------------------


def encode(message: msgspec.Struct) -> bytes:
    made = bytearray()
    for number, name in enumerate(message.__struct_fields__, 1):
        value = getattr(message, name)
        if value or _is_given(message, number, value):
            made += _written(number, value)
    return bytes(made)


def _is_given(message: msgspec.Struct, number: int, value: Any) -> bool:
    """A zero is written only where it might have been left out."""
    return type(value) is int and fields_of(type(message))[number - 1][1] == int | None


def _written(number: int, value: Any) -> bytes:
    match value:
        case str():
            return _block(number, value.encode("utf-8", "replace"))
        case int():  # True is 1
            return _varint(number << 3 | _VARINT) + _varint(value)
        case bytes():
            return _block(number, value)
        case float():
            return _varint(number << 3 | _DOUBLE) + struct.pack("<d", value)
        case tuple():
            return b"".join([_written(number, one) if one else _block(number, b"") for one in value])
        case dict():  # of a pair both are always written, as everybody does
            pairs = [
                _block(1, k.encode("utf-8", "replace")) + _block(2, v.encode("utf-8", "replace"))
                for k, v in value.items()
            ]
            return b"".join([_block(number, pair) for pair in pairs])
        case msgspec.Struct():
            return _block(number, encode(value))
    raise TypeError(f"{type(value).__name__} is not part of any contract")


def _block(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    if number < 0x80:
        return number.to_bytes(1, "little")
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


# --- reading -------------------------------------------------------------------------------------


def decode(data: bytes, kind: type[T]) -> T:
    """Raises ContractBroken."""
    kinds = fields_of(kind)
    values: dict[str, Any] = {}
    for number, value in _fields(data):
        if not 0 < number <= len(kinds):
            raise ContractBroken(f"field {number} is not part of {kind.__name__}")
        name, wanted = kinds[number - 1]
        match value:
            case int():
                _once(values, name, _counted(value, wanted, name))
            case float():
                if wanted is not float:
                    raise ContractBroken(f"{name} has the wrong type")
                _once(values, name, value)
            case bytes():
                _take(values, name, value, wanted)
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _counted(value: int, wanted: Any, name: str) -> bool | int:
    if wanted is bool:
        if value > 1:
            raise ContractBroken(f"{name} is neither true nor false")
        return value == 1
    if wanted is not int and wanted != int | None:
        raise ContractBroken(f"{name} has the wrong type")
    if value > _UINT64_MAX:
        raise ContractBroken(f"{name} is too large a number")
    return value


def _take(values: dict[str, Any], name: str, data: bytes, wanted: Any) -> None:
    """Whatever has a length: text, bytes, a message, one of several, a pair of a map."""
    inner = get_args(wanted)
    if wanted is str:
        _once(values, name, _text(data, name))
    elif wanted is bytes:
        _once(values, name, data)
    elif is_message(wanted):
        _once(values, name, decode(data, wanted))
    elif wanted == dict[str, str]:
        pair = decode(data, _Entry)
        _once(values.setdefault(name, {}), pair.key, pair.value)
    elif len(inner) == 2 and inner[1] is Ellipsis:
        values.setdefault(name, []).append(_text(data, name) if inner[0] is str else decode(data, inner[0]))
    else:
        raise ContractBroken(f"{name} has the wrong type")


def _once(values: dict[str, Any], name: str, value: Any) -> None:
    if name in values:
        raise ContractBroken(f"{name[:100]} is given twice")
    values[name] = value


def _text(value: bytes, name: str) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise ContractBroken(f"{name} is not UTF-8") from None


def _fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
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
                raise ContractBroken("it is cut off")
            yield number, data[at : at + length]
            at += length
        elif kind == _DOUBLE:
            if len(data) - at < 8:
                raise ContractBroken("it is cut off")
            yield number, struct.unpack_from("<d", data, at)[0]
            at += 8
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
