"""The plugin protocol: the same bytes as the usual compiler's, and nothing but what is in it."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.core import plugin_protocol
from mainstay.core.plugin_protocol import (
    DeleteRequest,
    DeleteResponse,
    ExecuteRequest,
    ExecuteResponse,
    GetRequest,
    GetResponse,
    KeysRequest,
    KeysResponse,
    ProtobufMessageInvalid,
    SetRequest,
    SetResponse,
    decode,
    encode,
)

PROTO = Path(__file__).parents[3] / "proto"
KINDS: list[type[msgspec.Struct]] = [
    ExecuteRequest,
    ExecuteResponse,
    GetRequest,
    GetResponse,
    SetRequest,
    SetResponse,
    DeleteRequest,
    DeleteResponse,
    KeysRequest,
    KeysResponse,
]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
VALUES = {
    "str": TEXT,
    "bool": st.booleans(),
    "tuple[str, ...]": st.lists(TEXT, max_size=5).map(tuple),
    "dict[str, str]": st.dictionaries(TEXT, TEXT, max_size=5),
}


def any_of(kind: type[msgspec.Struct]) -> st.SearchStrategy[msgspec.Struct]:
    return st.builds(kind, **{name: VALUES[kind.__annotations__[name]] for name in kind.__struct_fields__})


MESSAGES = st.one_of([any_of(kind) for kind in KINDS])


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, type]:
    """What the usual compiler makes of the published files: a class for each message."""
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    made = tmp_path_factory.mktemp("compiled")
    files = sorted(str(path) for path in (PROTO / "mainstay" / "plugin").rglob("*.proto"))
    assert protoc.main(["protoc", f"-I{PROTO}", f"--python_out={made}", *files]) == 0
    modules = [_load(made / "mainstay" / "plugin" / "v1" / f"{Path(file).stem}_pb2.py") for file in files]
    return {
        kind.__name__: getattr(one, kind.__name__) for one in modules for kind in KINDS if hasattr(one, kind.__name__)
    }


def test_every_message_of_the_published_files_is_here_with_its_fields_in_order(compiled: dict[str, type]) -> None:
    """OPENTALON-014, OPENTALON-015"""
    assert set(compiled) == {kind.__name__ for kind in KINDS}
    for kind in KINDS:
        fields = compiled[kind.__name__].DESCRIPTOR.fields
        assert [(one.number, one.name) for one in fields] == list(enumerate(kind.__struct_fields__, 1))


def test_the_service_has_one_method(compiled: dict[str, type]) -> None:
    """OPENTALON-058, OPENTALON-059"""
    file = compiled["ExecuteRequest"].DESCRIPTOR.file
    assert {name: [one.name for one in service.methods] for name, service in file.services_by_name.items()} == {
        "Plugin": ["Execute"]
    }
    assert plugin_protocol.EXECUTE_METHOD == "/mainstay.plugin.v1.Plugin/Execute"


@given(message=MESSAGES)
@settings(max_examples=300, deadline=None)
def test_bytes_are_the_same_both_ways(compiled: dict[str, type], message: msgspec.Struct) -> None:
    values = msgspec.structs.asdict(message)
    theirs = compiled[type(message).__name__](**values)
    ours = encode(message)
    assert decode(ours, type(message)) == message
    assert compiled[type(message).__name__].FromString(ours) == theirs
    assert decode(theirs.SerializeToString(), type(message)) == message
    if len(values.get("context", {})) < 2:  # the order of a map is undefined
        assert theirs.SerializeToString() == ours


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


GOOD = field(1, b"id") + field(2, b"content")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(GOOD + field(4, b"more"), "field 4 is not part of", id="an extra field"),
        pytest.param(GOOD + b"\x20\x01", "field 4 is not part of", id="an extra number"),
        pytest.param(GOOD + field(1, b"other"), "call_id is given twice", id="a second call id"),
        pytest.param(GOOD + field(2, b"content"), "content is given twice", id="a second content"),
        pytest.param(field(1, b"id") + b"\x10\x05", "content has the wrong type", id="a number for text"),
        pytest.param(field(1, b"id") + b"\x15abcd", "a type that is not in the contract", id="a fixed number"),
        pytest.param(field(1, b"id") + b"\x13\x14", "a type that is not in the contract", id="a group"),
        pytest.param(GOOD[:-1], "cut off", id="cut in a text"),
        pytest.param(GOOD + b"\x1a", "cut off", id="cut after a tag"),
        pytest.param(GOOD + b"\xff" * 20, "has no end", id="a number without an end"),
        pytest.param(GOOD + b"\x1a\xff\xff\xff\xff\x7f", "cut off", id="a length beyond the end"),
        pytest.param(GOOD + b"\x02\x00", "field 0 is not part of", id="field zero"),
        pytest.param(field(1, b"id") + field(2, b"\xff\xfe"), "content is not UTF-8", id="binary"),
        pytest.param(field(1, b"id") + field(2, b"\xed\xa0\x80"), "content is not UTF-8", id="half a character"),
        pytest.param(field(1, b"id") + field(2, b"\xc0\x80"), "content is not UTF-8", id="an overlong NUL"),
    ],
)
def test_f25_an_answer_that_is_not_of_the_contract_is_no_answer(data: bytes, why: str) -> None:
    """F25, OPENTALON-054"""
    with pytest.raises(ProtobufMessageInvalid, match=why):
        decode(data, ExecuteResponse)


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        pytest.param(ExecuteRequest, field(4, field(1, b"a")) * 2, "a is given twice", id="a key of a map twice"),
        pytest.param(ExecuteRequest, field(4, field(3, b"a")), "field 3 is not part of", id="more in a map than pairs"),
        pytest.param(GetResponse, b"\x10\x02", "neither true nor false", id="two for true"),
        pytest.param(GetResponse, field(2, b"yes"), "wrong type", id="text for true"),
        pytest.param(KeysResponse, field(1, b"a") + b"\x08\x01", "wrong type", id="a number in a list of texts"),
    ],
)
def test_maps_lists_and_flags_are_read_as_strictly(kind: type[msgspec.Struct], data: bytes, why: str) -> None:
    with pytest.raises(ProtobufMessageInvalid, match=why):
        decode(data, kind)


@given(data=st.binary(max_size=200))
@settings(max_examples=500, deadline=None)
def test_f25_any_bytes_are_a_message_or_refused_and_what_is_read_is_written_the_same_way(data: bytes) -> None:
    for kind in KINDS:
        try:
            message = decode(data, kind)
        except ProtobufMessageInvalid:
            continue
        assert decode(encode(message), kind) == message


def test_a_long_list_is_read_in_time_that_grows_with_its_length() -> None:
    keys = tuple(f"key {n}" for n in range(200_000))
    begun = time.process_time()
    assert decode(encode(KeysResponse(keys)), KeysResponse).keys == keys
    assert time.process_time() - begun < 10  # minutes, if each text copied those before it
