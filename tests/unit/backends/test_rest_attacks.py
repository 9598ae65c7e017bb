"""Attacks on a REST backend: by argument values, by descriptions, and by the server itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.api_double import ApiServer, answer, context, run

from mainstay.backends.base import BackendRefused
from mainstay.backends.rest.backend import RestBackend
from mainstay.backends.rest.manifest import RestScope, RestSettings
from mainstay.backends.rest.openapi import ApiOperation, OpenApiDocument
from mainstay.backends.rest.request_builder import RequestBuilder
from mainstay.backends.rest.schema_converters import SchemaFormatter
from mainstay.backends.rest.scope import RestScopeMatcher
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.io.http_client import HttpRequestRefused
from mainstay.io.urls import AddressRefused, parse_url


def operation(id: str = "", *parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**({"operationId": id} if id else {}), "parameters": list(parameters), **more}


def parameter(name: str, where: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": where, "schema": {"type": "string"}, **more}


def described(paths: dict[str, Any], **more: Any) -> bytes:
    return msgspec.json.encode({"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": paths, **more})


def backend(tmp_path: Path, data: bytes, **more: Any) -> RestBackend:
    file = tmp_path / "api.json"
    file.write_bytes(data)
    return RestBackend("api", RestSettings(description=str(file), **more))


# --- values --------------------------------------------------------------------------------------

USERS = {
    "/users/{id}": {"get": operation("user", parameter("id", "path"))},
    "/users/{id}/{what}.json": {"get": operation("part", parameter("id", "path"), parameter("what", "path"))},
    "/files/{path}": {"get": operation("file", parameter("path", "path", **{"x-multi-segment": True}))},
    "/find": {"get": operation("find", parameter("q", "query"), parameter("X-A", "header"))},
}

ESCAPES = [
    *("..", ".", "../admin", "a/../../admin", "a/b", "/", "//evil.test", "..\\admin", "a\\b", "%2e%2e", "%2e"),
    *("..%2fadmin", "a%2fb", "%252e%252e%252fadmin", "a%255cb", "\uff0e\uff0e", "\uff0e\uff0e\uff0fadmin"),
    *("a\u2215/b", "", "a\nb", "a\x00b", "a%00b", "%0d%0aX-A: b", "\udc80"),
]


@pytest.mark.parametrize("value", ESCAPES, ids=[ascii(one) for one in ESCAPES])
async def test_no_value_leaves_its_step_of_a_path(tmp_path: Path, value: str) -> None:
    async with ApiServer() as server:
        query = backend(tmp_path, described(USERS), url=f"{server.url}/v1").tools[1]
        with pytest.raises(BackendRefused):
            await query.run(query.arguments("user", {"id": value}), context())
        with pytest.raises(BackendRefused):
            await query.run(query.arguments("part", {"id": value, "what": "x"}), context())
        assert server.asked == []


@pytest.mark.parametrize("value", ["../x", "a/../b", "a//b", "/a", "a/", "a/./b", "a/%2e%2e/b", "a/..\\b", "a/..%2fb"])
async def test_a_value_of_several_steps_goes_down_only(tmp_path: Path, value: str) -> None:
    async with ApiServer() as server:
        query = backend(tmp_path, described(USERS), url=server.url).tools[1]
        with pytest.raises(BackendRefused):
            await run(query, operation="file", parameters={"path": value})
        assert server.asked == []


@settings(
    max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(value=st.text(max_size=40) | st.text(alphabet="./\\%2eEfF?#&=;:@~ ", max_size=20))
def test_every_request_that_is_sent_matches_the_description(value: str) -> None:
    description = OpenApiDocument(described(USERS))
    maker = RequestBuilder(description, parse_url("https://api.example/v1"), ())
    asked = description.load_details(description.operations["user"])
    try:
        url = maker.build_request(asked, {"id": value}, None, "k", lambda path: True).url
        place = parse_url(url)
    except MainstayError:
        return
    assert url.startswith("https://api.example/v1/users/")
    step = url.removeprefix("https://api.example/v1/users/")
    assert step
    assert not set(step) & set("/?#\\ \r\n&=;")
    assert step not in (".", "..")
    assert place.url == url


async def test_a_header_value_stays_on_its_line_and_a_query_value_in_its_parameter(tmp_path: Path) -> None:
    async with ApiServer() as server:
        query = backend(tmp_path, described(USERS), url=server.url).tools[1]
        for value in ("a\r\nX-B: c", "a\nb", "a\x00", "a\x7f", "\u2028", "é"):
            with pytest.raises(BackendRefused, match="one line"):
                await run(query, operation="find", parameters={"X-A": value})
        await run(query, operation="find", parameters={"q": "a&admin=1#x\r\ny+z"})
    assert [asked.target for asked in server.asked] == ["/find?q=a%26admin%3D1%23x%0D%0Ay%2Bz"]


async def test_a_spread_object_does_not_pass_for_other_parameters(tmp_path: Path) -> None:
    paths = {
        "/a": {
            "get": operation(
                "a",
                parameter("q", "query"),
                parameter("free", "query", schema={"type": "object"}),
                parameter("set", "query", schema={"type": "object", "properties": {"x": {}}}),
            )
        }
    }
    async with ApiServer() as server:
        query = backend(tmp_path, described(paths), url=server.url).tools[1]
        await run(query, operation="a", parameters={"free": {"n": 1}, "set": {"x": 2}})
        for parameters in ({"free": {"q": "1"}}, {"free": {"_method": "DELETE"}}, {"set": {"y": 1}}):
            with pytest.raises(BackendRefused, match="has no"):
                await run(query, operation="a", parameters=parameters)
    assert [asked.target for asked in server.asked] == ["/a?n=1&x=2"]


async def test_a_header_or_a_parameter_cannot_override_the_method(tmp_path: Path) -> None:
    names = ("X-HTTP-Method-Override", "x-method-override", "X-Original-URL")
    paths = {"/a": {"get": operation("a", *(parameter(one, "header") for one in names), parameter("_method", "query"))}}
    async with ApiServer() as server:
        api = backend(tmp_path, described(paths), url=server.url)
        for name in (*names, "_method"):
            with pytest.raises(BackendRefused, match="has no"):
                await run(api.tools[1], operation="a", parameters={name: "DELETE"})
        assert "verride" not in (await run(api.tools[0], operation="a"))
        assert server.asked == []


async def test_a_description_cannot_set_our_host_or_length_header(tmp_path: Path) -> None:
    paths = {"/a": {"get": operation("a", parameter("Host", "header"), parameter("Transfer-Encoding", "header"))}}
    async with ApiServer() as server:
        query = backend(tmp_path, described(paths), url=server.url).tools[1]
        for name in ("Host", "Transfer-Encoding"):
            with pytest.raises(HttpRequestRefused):
                await run(query, operation="a", parameters={name: "x"})
        assert server.asked == []


# --- scope ---------------------------------------------------------------------------------------

SHOP = {
    "/pets": {"get": operation("listPets"), "delete": operation("deletePets")},
    "/pets/{id}": {"get": operation("getPet", parameter("id", "path"))},
    "/pets/export": {"get": operation("exportPets")},
    "/admin": {"get": operation("admin")},
    "/{any}": {"get": operation("any", parameter("any", "path"))},
}


async def test_a_scope_names_paths_and_operations_and_nothing_else_is_there(tmp_path: Path) -> None:
    """LOOM-124: the scope holds for `rest` too: paths and operations."""
    for scope, wanted in (
        ({"paths": ("/pets/**",)}, {"listPets", "getPet", "exportPets"}),
        ({"paths": ("/pets/*",)}, {"getPet", "exportPets"}),
        ({"paths": ("/pets/{id}",)}, {"getPet"}),
        ({"operations": ("*Pets",)}, {"listPets", "exportPets"}),
        ({"paths": ("/pets",), "operations": ("list*", "admin")}, {"listPets"}),
        ({"operations": ("nothing",)}, set()),
    ):
        api = await backend(tmp_path, described(SHOP), url="http://127.0.0.1:1", scope=RestScope(**scope)).load_api()
        assert {one.id for one in api.operations} == wanted, scope


async def test_a_value_does_not_lead_to_an_operation_that_is_out_of_scope(tmp_path: Path) -> None:
    async with ApiServer() as server:
        only = backend(tmp_path, described(SHOP), url=server.url, scope=RestScope(paths=("/pets/{id}", "/{any}")))
        for operation_, parameters in (
            ("getPet", {"id": "export"}),
            ("getPet", {"id": "EXPORT"}),
            ("any", {"any": "admin"}),
            ("any", {"any": "pets"}),
        ):
            with pytest.raises(BackendRefused, match="is not in scope"):
                await run(only.tools[1], operation=operation_, parameters=parameters)
        assert server.asked == []
        await run(only.tools[1], operation="getPet", parameters={"id": "exports"})
    assert [asked.target for asked in server.asked] == ["/pets/exports"]


async def test_an_id_that_stands_there_twice_or_is_odd_names_nothing(tmp_path: Path) -> None:
    paths = {
        "/pets": {"get": operation("listPets")},
        "/secrets": {"get": operation("listPets")},
        "/hidden": {"get": operation("list\u200bCats")},
        "/spaced": {"get": operation("GET /cats")},
        "/cats": {"get": operation("listCats")},
    }
    api = backend(tmp_path, described(paths), url="http://127.0.0.1:1", scope=RestScope(operations=("list*",)))
    assert [one.path for one in (await api.load_api()).operations] == ["/cats"]
    with pytest.raises(BackendRefused, match="no operation"):
        await run(api.tools[1], operation="listPets")


async def test_a_path_that_could_be_read_as_another_is_left_out(tmp_path: Path) -> None:
    odd = ["/pets/../admin", "/pets/%2e%2e/admin", "/pets//x", "/pets?x=1", "/pets#x", "/pets\\x", "/pets /x", "pets/x"]
    api = backend(tmp_path, described({one: {"get": operation()} for one in odd} | SHOP), url="http://127.0.0.1:1")
    read = await api.load_api()
    assert {one.path for one in read.operations} == {path for path, item in SHOP.items() if "get" in item}
    assert read.document.unreadable_count == len(odd)
    assert f"{len(odd)} cannot be read" in await run(api.tools[0])


@given(st.text(alphabet="/abexport{}.%*", max_size=20))
def test_a_scope_never_fails_on_any_path(path: str) -> None:
    scope = RestScopeMatcher(("/pets/**",), (), write=False)
    one = ApiOperation(id="x", method="GET", path="/pets/{id}")
    assert scope.build_path_check(one, [])(f"/pets/{path}") in (True, False)
    assert not scope.build_path_check(one, [])(f"/other/{path}")


# --- where it goes -------------------------------------------------------------------------------

SERVERS = {
    "private": ["https://127.0.0.1/"],
    "private by name": ["https://localhost/"],
    "the cloud's own": ["https://169.254.169.254/"],
    "carried inside": ["https://[::ffff:10.0.0.1]/"],
}


@pytest.mark.parametrize("servers", SERVERS.values(), ids=SERVERS.keys())
async def test_a_description_does_not_lead_into_the_private_network(tmp_path: Path, servers: list[str]) -> None:
    data = described({"/a": {"get": operation("a")}}, servers=[{"url": one} for one in servers])
    query = backend(tmp_path, data).tools[1]
    with pytest.raises(AddressRefused, match=r"private|special"):
        await run(query, operation="a")


NOWHERE = {
    "not encrypted": ["http://api.example/"],
    "no address": ["javascript:alert(1)", "file:///etc/passwd", "", "/v1", "//api.example"],
    "a user in it": ["https://api.example@10.0.0.1/"],
    "none": [],
}


@pytest.mark.parametrize("servers", NOWHERE.values(), ids=NOWHERE.keys())
async def test_without_a_good_address_the_owner_has_to_name_one(tmp_path: Path, servers: list[str]) -> None:
    data = described({"/a": {"get": operation("a")}}, servers=[{"url": one} for one in servers])
    with pytest.raises(ConfigError, match="set the address of the API"):
        await backend(tmp_path, data).start()


async def test_the_owners_address_counts_and_the_descriptions_do_not(tmp_path: Path) -> None:
    data = described(
        {
            "/a": {
                "get": operation("a", servers=[{"url": "https://evil.test"}]),
                "servers": [{"url": "https://evil.test"}],
            }
        },
        servers=[{"url": "https://evil.test"}],
    )
    async with ApiServer() as server:
        await run(backend(tmp_path, data, url=server.url, headers={"X-Key": "k"}).tools[1], operation="a")
    assert [asked.headers["host"] for asked in server.asked] == [f"127.0.0.1:{server.port}"]


async def test_a_fetched_description_leads_to_its_own_server_or_to_a_public_one(tmp_path: Path) -> None:
    async with ApiServer() as other:
        data = described({"/a": {"get": operation("a")}}, servers=[{"url": other.url}, {"url": "https://127.0.0.1:1/"}])
        async with ApiServer(answer(data)) as server:
            api = RestBackend("api", RestSettings(description=f"{server.url}/api.json", headers={"X-Key": "k"}))
            with pytest.raises(AddressRefused):
                await run(api.tools[1], operation="a")
        assert other.asked == []
        assert all("x-key" not in asked.headers for asked in server.asked)


async def test_a_redirect_takes_the_owners_headers_nowhere(tmp_path: Path) -> None:
    async with ApiServer() as other:
        reply = answer(b"", status=302, headers=f"Location: {other.url}/steal\r\n")
        async with ApiServer(reply) as server:
            paths = {"/a": {"get": operation("a"), "post": operation("b")}}
            api = backend(tmp_path, described(paths), url=server.url, headers={"X-Key": "secret-key"}, write=True)
            with pytest.raises(AddressRefused, match="another server"):
                await run(api.tools[1], operation="a")
            with pytest.raises(BackendRefused, match="it redirects"):
                await run(api.tools[2], operation="b")
        assert other.asked == []


# --- F49: descriptions that explode --------------------------------------------------------------


def layers(depth: int) -> dict[str, Any]:
    """Each holds the next one ten times."""
    made: dict[str, Any] = {
        f"s{n}": {
            "type": "object",
            "properties": {f"p{k}": {"$ref": f"#/components/schemas/s{n + 1}"} for k in range(10)},
        }
        for n in range(depth)
    }
    return {**made, f"s{depth}": {"type": "string"}}


LOOPS: dict[str, dict[str, Any]] = {
    "ten to the thirtieth": layers(30),
    "itself": {"s0": {"$ref": "#/components/schemas/s0"}},
    "each other": {"s0": {"$ref": "#/components/schemas/s1"}, "s1": {"$ref": "#/components/schemas/s0"}},
    "nothing": {"s0": {"$ref": "#/components/schemas/nothing"}},
    "outside": {"s0": {"$ref": "https://evil.test/schema.json"}},
    "a file": {"s0": {"$ref": "file:///etc/passwd"}},
    "another document": {"s0": {"$ref": "other.yaml#/x"}},
    "huge choice": {"s0": {"enum": [f"value {n}" for n in range(50_000)]}},
    "explosive pattern": {"s0": {"type": "string", "pattern": "(a+)+$"}},
    "a pattern that looks back": {"s0": {"type": "string", "pattern": r"(?<=a)b\1"}},
    "many alternatives": {"s0": {"anyOf": [{"anyOf": [{"$ref": "#/components/schemas/s0"}] * 50}] * 50}},
    "wrong kinds": {"s0": {"type": 5, "properties": 7, "required": "x", "enum": {}, "items": [], "allOf": {}}},
}


@pytest.mark.parametrize("schemas", LOOPS.values(), ids=LOOPS.keys())
async def test_references_that_explode_are_described_and_checked_in_bounded_time(
    tmp_path: Path, schemas: dict[str, Any]
) -> None:
    """F49 for descriptions: nothing is fetched, everything ends, and what cannot be checked is checked by its type."""
    ref = {"$ref": "#/components/schemas/s0"}
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": {"x": ref}}}}}
    paths = {"/a": {"post": operation("a", parameter("q", "query", schema=ref), requestBody=body)}}
    async with ApiServer() as server:
        api = backend(tmp_path, described(paths, components={"schemas": schemas}), url=server.url, write=True)
        began = time.process_time()
        said = await run(api.tools[0], operation="a")
        refused = ""
        try:
            await run(api.tools[2], operation="a", body={"x": "a" * 5000 + "!"})
        except BackendRefused as error:
            refused = str(error)
        spent = time.process_time() - began
    assert len(said) < 20_000
    assert bool(refused) == (server.asked == [])
    assert "Nothing was sent" in refused or not refused
    assert spent < 3.0


async def test_a_reference_of_an_operation_outside_of_the_description_is_not_followed(tmp_path: Path) -> None:
    async with ApiServer() as other:
        paths = {
            "/a": {"get": {"operationId": "a", "parameters": [{"$ref": f"{other.url}/p.json"}]}},
            "/b": {"$ref": f"{other.url}/b.json"},
            "/c": {"$ref": "#/paths/~1d"},
            "/d": {"get": operation("d")},
        }
        api = backend(tmp_path, described(paths), url=other.url)
        with pytest.raises(BackendRefused, match="refers to another document"):
            await run(api.tools[0], operation="a")
        listed = await run(api.tools[0])
        assert "1 cannot be read" in listed
        assert "GET /c" in listed  # by the same id as /d, and so by none
        assert other.asked == []


def test_a_deep_or_huge_description_is_refused_quickly() -> None:
    began = time.process_time()
    for data in (
        b'{"openapi": "3.0.0", "paths": ' + b'{"/a":' * 100_000 + b"{}" + b"}" * 100_001,
        b"openapi: 3.0.0\npaths: &a [" + b"*a, " * 10 + b"]",
        b"a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n" + b"openapi: '3.0.0'\n",
        b'{"openapi": "3.0.0", "paths": {' + b",".join(b'"/%d": {"get": {}}' % n for n in range(20_001)) + b"}}",
    ):
        try:
            assert not OpenApiDocument(data).operations
        except BackendRefused:
            pass
    assert time.process_time() - began < 5.0


KEYWORDS = [
    *("type", "properties", "items", "enum", "required", "allOf", "anyOf", "oneOf", "$ref", "nullable", "minimum"),
    *("default", "format", "const", "additionalProperties"),
]


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(KEYWORDS),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_any_value_in_place_of_a_schema_is_shown(schema: Any) -> None:
    assert len(SchemaFormatter(OpenApiDocument(described({}))).format_schema(schema)) < 20_000
