"""An API as tools: describing, reading, changing, and what goes over the wire for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop
import yaml
from support.api_double import ApiServer, Asked, answer, context, run

from mainstay.backends.base import BackendRefused
from mainstay.backends.rest.backend import RestBackend
from mainstay.backends.rest.manifest import RestScope, RestSettings
from mainstay.core.errors import ConfigError
from mainstay.core.tool_ports import tool_origin

KEY = "Bearer sesame-opens-it"

PETS: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://{region}.pets.example/v1", "variables": {"region": {"default": "eu"}}}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "summary": "List all pets",
                "tags": ["animals"],
                "parameters": [
                    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100}},
                    {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {
                        "name": "kind",
                        "in": "query",
                        "explode": False,
                        "schema": {"type": "array", "items": {"type": "string"}},
                    },
                    {
                        "name": "place",
                        "in": "query",
                        "style": "pipeDelimited",
                        "schema": {"type": "array", "items": {"type": "string"}},
                    },
                    {"$ref": "#/components/parameters/State"},
                    {
                        "name": "where",
                        "in": "query",
                        "style": "deepObject",
                        "schema": {"type": "object", "properties": {"city": {"type": "string"}}},
                    },
                    {
                        "name": "filter",
                        "in": "query",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    },
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "seen", "in": "cookie", "schema": {"type": "boolean"}},
                    {"name": "Authorization", "in": "header", "required": True, "schema": {"type": "string"}},
                ],
            },
            "post": {
                "operationId": "createPet",
                "parameters": [{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NewPet"}}},
                },
            },
        },
        "/pets/{petId}": {
            "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": "getPet", "summary": "One pet"},
            "put": {
                "operationId": "replacePet",
                "requestBody": {
                    "content": {
                        "application/x-www-form-urlencoded": {
                            "schema": {"type": "object", "properties": {"name": {"type": "string"}}}
                        }
                    }
                },
            },
            "delete": {"operationId": "deletePet"},
        },
        "/pets/export": {"get": {"operationId": "exportPets"}},
        "/notes": {"post": {"operationId": "note", "requestBody": {"content": {"text/plain": {}}}}},
        "/files/{path}": {
            "get": {
                "operationId": "getFile",
                "parameters": [{"name": "path", "in": "path", "x-multi-segment": True, "schema": {"type": "string"}}],
            }
        },
        "/unnamed": {"get": {"summary": "It has no id"}},
    },
    "components": {
        "parameters": {
            "State": {"name": "state", "in": "query", "schema": {"type": "string", "enum": ["open", "closed"]}}
        },
        "schemas": {
            "NewPet": {
                "type": "object",
                "required": ["name", "id"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "name": {"type": "string"},
                    "age": {"type": "integer", "nullable": True},
                    "parent": {"$ref": "#/components/schemas/NewPet"},
                },
            }
        },
    },
}


def written(tmp_path: Path, description: dict[str, Any], name: str = "api.json") -> str:
    file = tmp_path / name
    file.write_bytes(
        msgspec.json.encode(description) if name.endswith("json") else yaml.safe_dump(description).encode()
    )
    return str(file)


def backend(tmp_path: Path, server: ApiServer | None = None, **more: Any) -> RestBackend:
    given = {"description": written(tmp_path, PETS), "url": f"{server.url}/v1" if server else "", **more}
    return RestBackend("pets", RestSettings(**given))


# --- describing ----------------------------------------------------------------------------------


async def test_the_operations_in_scope_are_listed_searched_and_described(tmp_path: Path) -> None:
    pets = backend(tmp_path)
    await pets.start()
    describe = pets.tools[0]
    listed = await run(describe)
    assert "listPets GET /pets — List all pets" in listed
    assert "GET /unnamed — It has no id" in listed
    assert "createPet" not in listed  # nothing changes unless it is granted
    assert (await run(describe, search="one pet")).startswith("getPet")
    assert "no operation" not in await run(describe, search="pets")
    one = await run(describe, operation="listPets")
    assert 'state? (query): "open" | "closed"' in one
    assert "limit? (query): integer(≥1, ≤100)" in one
    assert "Authorization" not in one  # the owner gives that
    assert "  petId (path): string" in await run(describe, operation="GET /pets/{petId}")


async def test_a_body_is_described_in_a_line_even_if_it_holds_itself(tmp_path: Path) -> None:
    pets = backend(tmp_path, write=True)
    said = await run(pets.tools[0], operation="createPet")
    assert "body (application/json): {name: string, age?: integer | null, parent?: NewPet}" in said


async def test_the_schema_has_names_and_no_sentences_and_stays_within_its_budget(tmp_path: Path) -> None:
    """LOOM-018: what a backend offers is part of the fixed section."""
    pets = backend(tmp_path, about="Our pets.")
    assert "pets__describe" in pets.schema_summary()  # before it was read, at least how to find out
    await pets.start()
    schema = pets.schema_summary()
    assert schema.startswith("### pets: an API, reading only\nOur pets.\n")
    assert "- getPet GET /pets/{petId}" in schema
    assert "List all pets" not in schema
    small = backend(tmp_path, schema_tokens=60)
    await small.start()
    assert "- /pets: 3" in small.schema_summary()
    assert len(small.schema_summary()) < 60 * 4


async def test_tools_are_the_backends_and_changing_is_there_only_if_granted(tmp_path: Path) -> None:
    assert [tool.name for tool in backend(tmp_path).tools] == ["pets__describe", "pets__query"]
    *_, change = backend(tmp_path, write=True).tools
    assert (change.name, change.effect, change.sink) == ("pets__change", "unsafe", True)
    assert {tool_origin(tool) for tool in backend(tmp_path, write=True).tools} == {"backend:pets"}


# --- reading -------------------------------------------------------------------------------------


async def test_every_kind_of_parameter_goes_where_the_description_says(tmp_path: Path) -> None:
    async with ApiServer() as server:
        pets = backend(tmp_path, server, headers={"Authorization": KEY})
        said = await run(
            pets.tools[1],
            operation="listPets",
            parameters={
                "limit": "5",
                "tag": ["a b", "c&d"],
                "kind": ["x", "y,z"],
                "place": ["p", "q"],
                "state": "open",
                "where": {"city": "Köln"},
                "filter": {"a": 1},
                "X-Trace": "t1",
                "seen": True,
            },
        )
    asked = server.asked[0]
    assert said == 'HTTP 200 application/json\n{"ok":true}'
    assert (asked.method, asked.path) == ("GET", "/v1/pets")
    assert asked.query == [
        "limit=5",
        "tag=a%20b",
        "tag=c%26d",
        "kind=x,y%2Cz",
        "place=p%7Cq",
        "state=open",
        "where%5Bcity%5D=K%C3%B6ln",
        "filter=%7B%22a%22%3A1%7D",
    ]
    assert (asked.headers["x-trace"], asked.headers["cookie"]) == ("t1", "seen=true")
    assert asked.headers["authorization"] == KEY


async def test_a_path_parameter_is_one_step_and_several_only_where_that_is_said(tmp_path: Path) -> None:
    async with ApiServer() as server:
        query = backend(tmp_path, server).tools[1]
        await run(query, operation="getPet", parameters={"petId": "a b?c#d%;é"})
        await run(query, operation="getFile", parameters={"path": "docs/a b.md"})
    assert [asked.target for asked in server.asked] == ["/v1/pets/a%20b%3Fc%23d%25%3B%C3%A9", "/v1/files/docs/a%20b.md"]


WRONG = {
    "unknown": ({"colour": "red"}, "has no colour"),
    "out of range": ({"limit": 1000}, "do not fit"),
    "not of the type": ({"limit": "many"}, "do not fit"),
    "not of the list": ({"state": "asleep"}, "do not fit"),
    "the owner's": ({"Authorization": "mine"}, "has no Authorization"),
}


@pytest.mark.parametrize(("parameters", "why"), WRONG.values(), ids=WRONG.keys())
async def test_wrong_parameters_are_refused_before_anything_is_sent(
    tmp_path: Path, parameters: dict[str, Any], why: str
) -> None:
    """LOOM-125: a query is validated before it runs."""
    async with ApiServer() as server:
        with pytest.raises(BackendRefused, match=why):
            await run(backend(tmp_path, server).tools[1], operation="listPets", parameters=parameters)
        assert server.asked == []


async def test_a_missing_parameter_and_an_unknown_operation_say_what_there_is(tmp_path: Path) -> None:
    query = backend(tmp_path).tools[1]
    with pytest.raises(BackendRefused, match="getPet needs petId"):
        await run(query, operation="getPet")
    with pytest.raises(BackendRefused, match=r"Similar: .*getPet"):
        await run(query, operation="getPets")


async def test_a_long_list_is_paged_whether_it_is_the_answer_or_inside_of_it(tmp_path: Path) -> None:
    rows = [{"id": number} for number in range(25)]

    def reply(asked: Asked) -> bytes:
        link = 'Link: <http://127.0.0.1/pets?page=2&tag=a>; rel="next"\r\n' if asked.path.endswith("pets") else ""
        return answer(rows if link else {"total": 25, "items": rows}, headers=link)

    async with ApiServer(reply) as server:
        query = backend(tmp_path, server, rows_max=10).tools[1]
        first = await run(query, operation="listPets")
        second = await run(query, operation="listPets", offset=20)
        inside = await run(query, operation="exportPets")
    assert first.splitlines()[1:4] == ['{"id":0}', '{"id":1}', '{"id":2}']
    assert first.splitlines()[-2:] == [
        "[1 to 10 of 25; continue with offset=10]",
        "[the server has more: page=2, tag=a]",
    ]
    assert second.splitlines()[1] == '{"id":20}'
    assert "[21 to 25 of 25]" in second
    assert inside.splitlines()[1:4] == ['{"total":25}', "items:", '{"id":0}']


ANSWERS = {
    "text": (answer(b"a\nb", mime="text/csv"), "HTTP 200 text/csv\na\nb"),
    "page": (answer(b"<html><script>x</script><p>Hi</p>", mime="text/html"), "HTTP 200 text/html\nHi"),
    "image": (answer(b"\x89PNG\x00", mime="image/png"), "HTTP 200 image/png\n[5 bytes that are not text]"),
    "not the JSON it says": (answer(b"{oops", mime="application/json"), "\n{oops"),
    "nothing": (b"HTTP/1.1 204 X\r\n\r\n", "HTTP 204"),
    "empty list": (answer([]), "HTTP 200 application/json\n[]"),
}


@pytest.mark.parametrize(("reply", "said"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_answers_are_reduced_to_their_useful_part(tmp_path: Path, reply: bytes, said: str) -> None:
    async with ApiServer(reply) as server:
        assert (await run(backend(tmp_path, server).tools[1], operation="exportPets")).endswith(said)


async def test_an_error_is_shown_in_the_servers_words_and_bounded(tmp_path: Path) -> None:
    for reply, said in (
        (answer({"message": "no such pet", "documentation_url": "https://x"}, status=404), "HTTP 404: no such pet"),
        (answer({"errors": [{"field": "a"}]}, status=422), r'HTTP 422: \[?{"field":"a"}'),
        (answer(b"<h1>Broken</h1>", status=500, mime="text/html"), "HTTP 500: # Broken"),
        (answer(b"\x00\x01", status=502, mime="image/png"), "HTTP 502, and the server gives no reason"),
    ):
        async with ApiServer(reply) as server:
            with pytest.raises(BackendRefused, match=said):
                await run(backend(tmp_path, server).tools[1], operation="exportPets")
    async with ApiServer(answer({"message": "x" * 100_000}, status=400)) as server:
        with pytest.raises(BackendRefused) as refused:
            await run(backend(tmp_path, server).tools[1], operation="exportPets")
    assert len(str(refused.value)) < 1_100


async def test_the_owners_headers_are_never_shown_even_if_the_server_repeats_them(tmp_path: Path) -> None:
    def echo(asked: Asked) -> bytes:
        padded = {"message": "x" * 990 + asked.headers["authorization"], "headers": asked.headers}
        return answer(padded, status=400 if asked.path.endswith("/1") else 200)

    async with ApiServer(echo) as server:
        query = backend(tmp_path, server, headers={"Authorization": KEY}).tools[1]
        said = await run(query, operation="exportPets")
        with pytest.raises(BackendRefused) as refused:
            await run(query, operation="getPet", parameters={"petId": "1"})
    assert server.asked[0].headers["authorization"] == KEY
    assert "sesame" not in said
    assert "sesame" not in str(refused.value)
    assert "Bearer" not in str(refused.value)  # nor the half of it that a bound would leave


# --- changing ------------------------------------------------------------------------------------


async def test_changes_carry_json_forms_and_text(tmp_path: Path) -> None:
    async with ApiServer(answer({"id": 1}, status=201)) as server:
        *_, change = backend(tmp_path, server, write=True).tools
        await run(change, operation="createPet", body={"name": "Ada", "age": None})
        await run(change, operation="createPet", body='{"name": "Ada"}')
        await run(change, operation="replacePet", parameters={"petId": 7}, body={"name": "a&b", "tags": ["x", "y"]})
        await run(change, operation="note", body="hello")
        await run(change, operation="deletePet", parameters={"petId": "7"})
    first, again, form, text, gone = server.asked
    assert (first.method, first.body, first.headers["content-type"]) == (
        "POST",
        b'{"name":"Ada","age":null}',
        "application/json",
    )
    assert again.body == b'{"name":"Ada"}'
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"]  # the same call, to the server too
    assert (form.method, form.path, form.body) == ("PUT", "/v1/pets/7", b"name=a%26b&tags=x&tags=y")
    assert (text.body, text.headers["content-type"]) == (b"hello", "text/plain; charset=utf-8")
    assert (gone.method, gone.body) == ("DELETE", b"")


async def test_a_body_that_does_not_fit_is_not_sent(tmp_path: Path) -> None:
    async with ApiServer() as server:
        *_, change = backend(tmp_path, server, write=True).tools
        for arguments in (
            {"operation": "createPet"},
            {"operation": "createPet", "body": {"age": 3}},
            {"operation": "createPet", "body": {"name": "a", "parent": {"name": 5}}},
            {"operation": "deletePet", "parameters": {"petId": "1"}, "body": {"a": 1}},
        ):
            with pytest.raises(BackendRefused):
                await run(change, **arguments)
        assert server.asked == []


async def test_reading_does_not_change_and_changing_does_not_read(tmp_path: Path) -> None:
    pets = backend(tmp_path, write=True)
    with pytest.raises(BackendRefused, match="pets__change"):
        await run(pets.tools[1], operation="deletePet", parameters={"petId": "1"})
    with pytest.raises(BackendRefused, match="pets__query"):
        await run(pets.tools[2], operation="listPets")
    with pytest.raises(BackendRefused, match="no operation"):
        await run(backend(tmp_path).tools[1], operation="deletePet", parameters={"petId": "1"})


# --- descriptions --------------------------------------------------------------------------------


async def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    described = [
        await run(backend(tmp_path, description=written(tmp_path, PETS, name)).tools[0], operation="listPets")
        for name in ("a.json", "a.yaml")
    ]
    assert described[0] == described[1]


async def test_swagger_2_is_read_too(tmp_path: Path) -> None:
    old = {
        "swagger": "2.0",
        "host": "pets.example",
        "basePath": "/v2",
        "schemes": ["http", "https"],
        "paths": {
            "/pets": {
                "get": {
                    "operationId": "list",
                    "parameters": [
                        {"name": "tags", "in": "query", "type": "array", "items": {"type": "string"}},
                        {
                            "name": "kinds",
                            "in": "query",
                            "type": "array",
                            "items": {"type": "string"},
                            "collectionFormat": "multi",
                        },
                        {"name": "n", "in": "query", "type": "integer"},
                    ],
                },
                "post": {
                    "operationId": "add",
                    "parameters": [{"name": "pet", "in": "body", "schema": {"$ref": "#/definitions/Pet"}}],
                },
            }
        },
        "definitions": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }
    file = written(tmp_path, old, "old.json")
    assert (await RestBackend("p", RestSettings(description=file)).load_api()).base_url.url == "https://pets.example/v2"
    async with ApiServer() as server:
        pets = RestBackend("p", RestSettings(description=file, url=server.url, write=True))
        await run(pets.tools[1], operation="list", parameters={"tags": ["a", "b"], "kinds": ["c", "d"], "n": 3})
        await run(pets.tools[2], operation="add", body={"name": "x"})
        with pytest.raises(BackendRefused):
            await run(pets.tools[2], operation="add", body={"name": 5})
    assert server.asked[0].query == ["tags=a,b", "kinds=c", "kinds=d", "n=3"]
    assert server.asked[1].body == b'{"name":"x"}'


async def test_a_description_at_an_address_is_fetched_once_and_kept(tmp_path: Path) -> None:
    def reply(asked: Asked) -> bytes:
        return answer({**PETS, "servers": [{"url": "/v1"}]}) if asked.path == "/api.json" else answer({"ok": 1})

    async with ApiServer(reply) as server:
        pets = RestBackend("pets", RestSettings(description=f"{server.url}/api.json", headers={"X-Key": KEY}))
        await pets.start()
        await run(pets.tools[0])
        await run(pets.tools[1], operation="exportPets")
    assert [asked.target for asked in server.asked] == ["/api.json", "/v1/pets/export"]
    assert "x-key" not in server.asked[0].headers  # the owner named no API there, only its description
    assert server.asked[1].headers["x-key"] == KEY


async def test_a_description_that_cannot_be_fetched_is_tried_again_when_it_is_needed(tmp_path: Path) -> None:
    replies = [answer(b"", status=503), answer(PETS)]
    async with ApiServer(lambda asked: replies.pop(0)) as server:
        pets = RestBackend("pets", RestSettings(description=f"{server.url}/api.json", url=server.url))
        with pytest.raises(BackendRefused, match="HTTP 503"):
            await pets.start()
        assert "HTTP 503" in pets.schema_summary()
        assert "listPets" in await run(pets.tools[0])
        assert "listPets" in pets.schema_summary()


BAD = {
    "no file": {"description": "/nowhere/api.json"},
    "header": {"headers": {"X-A": "a\r\nX-B: c"}},
    "address": {"url": "ftp://x"},
    "question mark": {"url": "https://api.example/v1?key=1"},
    "pattern": {"scope": RestScope(paths=("{" + "a,b}{" * 20 + "a}",))},
}


@pytest.mark.parametrize("more", BAD.values(), ids=BAD.keys())
async def test_configuration_errors_are_reported_at_the_start(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        await backend(tmp_path, **more).start()


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b"\xff\xfe", b"a: [", b'{"openapi": "4.0"}', b'{"paths": 3}', b"[" * 9999]
)
async def test_an_invalid_description_is_reported_in_a_sentence(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=r"backends\.pets: "):
        await backend(tmp_path, description=str(file)).start()


async def test_answers_of_a_private_backend_are_labelled_so(tmp_path: Path) -> None:
    async with ApiServer() as server:
        query = backend(tmp_path, server, private=True).tools[1]
        here = context()
        await query.run(query.parse('{"operation": "exportPets"}'), here)
    assert here.private


def test_it_works_on_uvloop_as_well(tmp_path: Path) -> None:
    async def main() -> str:
        async with ApiServer() as server:
            pets = backend(tmp_path, server)
            await pets.start()
            said = await run(pets.tools[1], operation="exportPets")
            await pets.close()
            return said

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()).startswith("HTTP 200")
