"""The messages of `mainstay.v1`: the same bytes as the usual compiler's, and nothing but what is in the contract."""

from __future__ import annotations

import time
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.grpc_world import compiled

from mainstay.core.protobuf import (
    MESSAGES_MAX,
    ProtobufMessageInvalid,
    decode,
    encode,
    is_message,
    message_fields,
    protobuf_name,
)
from mainstay.server.grpc.message_types import (
    MESSAGES,
    GrpcEvent,
    GrpcPart,
    GrpcReply,
    StreamWeaveRequest,
    WeaveRequest,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
NUMBER = st.integers(0, 2**64 - 1)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: NUMBER,
    int | None: st.none() | NUMBER,
    float: st.floats(allow_nan=False).filter(lambda one: str(one) != "-0.0"),  # which is written, as it is no zero
    bool: st.booleans(),
    bytes: st.binary(max_size=50),
}


def any_of(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{name: _values(hint) for name, hint in message_fields(kind)})


def _values(hint: Any) -> st.SearchStrategy[Any]:
    inner = get_args(hint)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return st.lists(_values(inner[0]) if not is_message(inner[0]) else any_of(inner[0]), max_size=3).map(tuple)
    return st.none() | any_of(hint) if is_message(hint) else PLAIN[hint]


def theirs(message: msgspec.Struct) -> Any:
    """As the usual client would make it."""
    given = {}
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, msgspec.Struct):
            value = theirs(value)
        elif isinstance(value, tuple):
            value = [theirs(one) if isinstance(one, msgspec.Struct) else one for one in value]
        if value is not None:
            given[name] = value
    return getattr(compiled()[0], protobuf_name(type(message)))(**given)


@given(message=st.one_of([any_of(kind) for kind in MESSAGES]))
@settings(max_examples=200, deadline=None)
def test_bytes_are_the_same_both_ways(message: msgspec.Struct) -> None:
    ours, usual = encode(message), theirs(message).SerializeToString()
    assert ours == usual
    assert decode(usual, type(message)) == message


@given(data=st.binary(max_size=100))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for kind in MESSAGES:
        try:
            message = decode(data, kind)
        except ProtobufMessageInvalid:
            continue
        assert repr(decode(encode(message), kind)) == repr(message)  # by its looks: a number may be none


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        pytest.param(GrpcEvent, b"\x10\x01\x10\x01", "sequence is given twice", id="a number twice"),
        pytest.param(GrpcEvent, b"\x12\x01x", "sequence has the wrong type", id="text for a number"),
        pytest.param(GrpcEvent, b"\x11" + bytes(8), "sequence has the wrong type", id="a double for a number"),
        pytest.param(GrpcEvent, b"\x10" + b"\xff" * 9 + b"\x7f", "too large", id="a number over 64 bits"),
        pytest.param(GrpcEvent, b"\x42\x02\x0a\x05", "cut off", id="a message cut off inside"),
        pytest.param(GrpcEvent, b"\x42\x00\x42\x00", "reply is given twice", id="a message twice"),
        pytest.param(GrpcEvent, b"\x42\x03\x58\x01\x00", "field 11 is not part of Reply", id="a foreign field inside"),
        pytest.param(GrpcReply, b"\x38\x01", "cost has the wrong type", id="a number for a double"),
        pytest.param(GrpcReply, b"\x39\x00\x00", "cut off", id="half a double"),
        pytest.param(GrpcPart, b"\x18\x01", "data has the wrong type", id="a number for bytes"),
        pytest.param(WeaveRequest, b"\x28\x01", "field 5 is not part of", id="after, where there is none"),
        pytest.param(WeaveRequest, b"\x18\x01", "parts has the wrong type", id="a number for parts"),
    ],
)
def test_numbers_and_messages_are_read_as_strictly_as_text(kind: type[msgspec.Struct], data: bytes, why: str) -> None:
    with pytest.raises(ProtobufMessageInvalid, match=why):
        decode(data, kind)


def test_a_repeated_message_has_a_limit_and_reading_ends_there() -> None:
    """Four megabytes of empty parts took six seconds to read."""
    parts = (GrpcPart(),) * MESSAGES_MAX
    assert decode(encode(WeaveRequest(parts=parts)), WeaveRequest).parts == parts
    begun = time.process_time()
    with pytest.raises(ProtobufMessageInvalid, match="parts has more than 1000 items"):
        decode(b"\x1a\x00" * (2 << 20), WeaveRequest)
    assert time.process_time() - begun < 1


def test_after_zero_is_not_the_same_as_no_after() -> None:
    assert encode(StreamWeaveRequest(after=0)) == b"\x28\x00"
    assert decode(b"\x28\x00", StreamWeaveRequest).after == 0
    assert decode(b"", StreamWeaveRequest).after is None
