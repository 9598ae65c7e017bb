"""Vectors from an API, against a server that cuts, garbles and refuses as it is told."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.streams.server import RESET, STALL, Action, Loopback, status

from mainstay.core import errors
from mainstay.core.embedder_settings import EmbedderFactoryContext, EmbedderOptions
from mainstay.core.limits import Limits
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.providers.embeddings import embedder as embeddings
from mainstay.providers.embeddings.embedder import ApiEmbedder

KEY = "sk-very-secret-0123456789"


def answer(*vectors: list[float], backwards: bool = False, indexed: bool = True) -> list[Action]:
    data: list[dict[str, Any]] = [
        {"object": "embedding", "embedding": vector} | ({"index": place} if indexed else {})
        for place, vector in enumerate(vectors)
    ]
    return status(200, json.dumps({"object": "list", "data": data[:: -1 if backwards else 1]}).encode())


def numbers(vector: bytes) -> list[float]:
    return [round(number, 6) for number in array("f", vector)]


class Naps:
    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


@asynccontextmanager
async def embedding(
    *scripts: list[Action], limits: Limits | None = None
) -> AsyncIterator[tuple[ApiEmbedder, Loopback, Naps]]:
    naps = Naps()
    async with Loopback(*scripts) as server:
        embedder = ApiEmbedder("small", base_url=server.url, api_key=KEY, limits=limits, sleep=naps)
        try:
            yield embedder, server, naps
        finally:
            await embedder.close()


async def test_it_asks_for_all_texts_and_returns_unit_vectors_in_their_order() -> None:
    async with embedding(answer([3.0, 4.0]), answer([0.0, 2.0], [5.0, 0.0], backwards=True)) as (embedder, server, _):
        assert await embedder.load() == 2
        assert [numbers(vector) for vector in await embedder.embed(["one", "two"])] == [[0.0, 1.0], [1.0, 0.0]]
        asked = server.asked[-1]
        assert asked.line == "POST /v1/embeddings HTTP/1.1"
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert asked.body == {"model": "small", "input": ["one", "two"]}
        assert server.connections == 1, "the connection is kept for the next request"


async def test_vectors_without_an_index_are_read_in_order() -> None:
    async with embedding(answer([1.0, 0.0]), answer([0.0, 1.0], [1.0, 0.0], indexed=False)) as (embedder, _, _):
        assert [numbers(vector) for vector in await embedder.embed(["a", "b"])] == [[0.0, 1.0], [1.0, 0.0]]


async def test_a_text_with_nothing_in_it_is_not_asked_for_and_is_near_to_nothing() -> None:
    async with embedding(answer([1.0, 0.0]), answer([0.0, 1.0])) as (embedder, server, _):
        assert [numbers(vector) for vector in await embedder.embed(["", "word", " \n"])] == [[0, 0], [0, 1], [0, 0]]
        assert server.asked[-1].body["input"] == ["word"]
        assert [numbers(vector) for vector in await embedder.embed([""])] == [[0, 0]]
        assert len(server.asked) == 2


async def test_requests_are_bounded_in_texts_and_in_characters() -> None:
    def all_alike(count: int) -> list[Action]:
        return answer(*[[1.0, 0.0]] * count)

    async with embedding(answer([1.0, 0.0]), all_alike(64), all_alike(36), all_alike(12), all_alike(3)) as (
        embedder,
        server,
        _,
    ):
        assert len(await embedder.embed(["short"] * 100)) == 100
        assert len(await embedder.embed(["long " * 10_000] * 15)) == 15
        asked = [one.body["input"] for one in server.asked[1:]]
        assert [len(texts) for texts in asked] == [64, 36, 12, 3]
        assert all(sum(map(len, texts)) <= embeddings.REQUEST_CHARS_MAX for texts in asked)


async def test_refusals_that_may_pass_are_asked_again_when_the_server_says() -> None:
    scripts = [status(429, headers=["Retry-After: 7"]), status(503), [RESET], answer([1.0, 0.0])]
    async with embedding(*scripts) as (embedder, server, naps):
        assert await embedder.load() == 2
        assert naps.taken == [7, 4, 8]
        assert len(server.asked) == 4


async def test_retries_end_by_count_and_by_time() -> None:
    async with embedding(status(529), limits=Limits(retries_max=2)) as (embedder, server, naps):
        with pytest.raises(errors.Overloaded):
            await embedder.embed(["x"])
        assert (len(server.asked), naps.taken) == (3, [2, 4])
    async with embedding(status(529), limits=Limits(retry_wait_max_s=7)) as (embedder, _, naps):
        with pytest.raises(errors.Overloaded):
            await embedder.load()
        assert naps.taken == [2, 4]


@pytest.mark.parametrize("code", [400, 401, 404])
async def test_a_permanent_error_is_a_missing_embedder_with_the_reason(code: int) -> None:
    body = json.dumps({"error": {"message": f"no such model, and your key is {KEY}"}}).encode()
    async with embedding(status(code, body)) as (embedder, server, naps):
        with pytest.raises(errors.EmbedderMissing) as caught:
            await embedder.load()
        assert len(server.asked) == 1
        assert not naps.taken
        assert "openai/small" in str(caught.value)
        assert KEY not in str(caught.value)


async def test_texts_that_are_too_long_for_the_model_are_asked_for_shorter_from_then_on() -> None:
    too_long = status(
        400, b'{"error":{"message":"this exceeds the maximum context length","code":"context_length_exceeded"}}'
    )
    async with embedding(answer([1.0, 0.0]), too_long, too_long, answer([0.0, 1.0])) as (embedder, server, _):
        assert len(await embedder.embed(["x" * 50_000])) == 1
        await embedder.embed(["y" * 50_000])
        assert [len(one.body["input"][0]) for one in server.asked[1:]] == [8000, 4000, 2000, 2000]
    async with embedding(too_long) as (embedder, server, _):
        with pytest.raises(errors.EmbedderMissing):
            await embedder.load()
        assert len(server.asked) <= 6


RUBBISH = {
    "an empty body": b"",
    "a page": b"<html>welcome</html>",
    "half of it": b'{"data":[{"embedding":[1.0,',
    "no vectors": b'{"data":[]}',
    "too many": b'{"data":[{"embedding":[1.0]},{"embedding":[1.0]}]}',
    "an empty vector": b'{"data":[{"embedding":[]}]}',
    "words for numbers": b'{"data":[{"embedding":["a","b"]}]}',
    "no number": b'{"data":[{"embedding":[NaN]}]}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("body", RUBBISH.values(), ids=RUBBISH.keys())
async def test_rubbish_is_one_sentence_and_no_vector(body: bytes) -> None:
    async with embedding(status(200, body)) as (embedder, server, _):
        with pytest.raises(errors.ProviderError) as caught:
            await embedder.load()
        assert "\n" not in str(caught.value)
        assert len(server.asked) == 1


async def test_an_error_inside_a_good_answer_is_the_error_it_says() -> None:
    async with embedding(status(200, b'{"error":{"message":"slow down","code":429}}'), answer([1.0])) as (
        embedder,
        _,
        naps,
    ):
        assert await embedder.load() == 1
        assert naps.taken == [2]


async def test_vectors_of_another_length_are_refused() -> None:
    async with embedding(answer([1.0, 0.0]), answer([1.0, 0.0, 0.0])) as (embedder, _, _):
        await embedder.load()
        with pytest.raises(errors.StreamBroken, match="now returns 3 dimensions instead of 2"):
            await embedder.embed(["x"])


async def test_vectors_in_one_answer_that_differ_in_length_are_refused() -> None:
    async with embedding(answer([1.0, 0.0]), answer([1.0, 0.0], [1.0])) as (embedder, _, _):
        with pytest.raises(errors.StreamBroken):
            await embedder.embed(["x", "y"])


async def test_a_vector_that_is_all_zeros_stays_so() -> None:
    async with embedding(answer([0.0, 0.0])) as (embedder, _, _):
        assert [numbers(vector) for vector in await embedder.embed(["x"])] == [[0, 0]]


async def test_a_silent_server_is_left_after_the_bound() -> None:
    async with embedding([STALL], limits=Limits(model_idle_timeout_s=0.05)) as (embedder, server, _):
        with pytest.raises(errors.ModelSilent):
            await embedder.load()
        await server.left.wait()


async def test_an_answer_that_is_too_large_is_not_read_to_its_end() -> None:
    async with embedding(answer([0.1] * 5000), limits=Limits(response_bytes_max=10_000)) as (embedder, _, _):
        with pytest.raises(errors.StreamBroken, match="response_bytes_max"):
            await embedder.load()


async def test_text_that_no_encoding_has_is_sent_all_the_same() -> None:
    async with embedding(answer([1.0, 0.0])) as (embedder, server, _):
        assert len(await embedder.embed(["half a pair: \ud800, and \0"])) == 1
        assert server.asked[-1].body["input"][0].startswith("half a pair: ")


async def test_many_numbers_keep_their_direction() -> None:
    numbers_ = [math.sin(n) for n in range(1536)]
    async with embedding(answer(numbers_)) as (embedder, _, _):
        (vector,) = await embedder.embed(["x"])
    got = array("f", vector)
    length = math.sqrt(sum(n * n for n in numbers_))
    assert math.isclose(sum(n * n for n in got), 1.0, rel_tol=1e-5)
    assert all(math.isclose(a, b / length, abs_tol=1e-6) for a, b in zip(got, numbers_, strict=True))


def build(model: str, environ: dict[str, str], base_url: str | None = None) -> ApiEmbedder:
    provider = ProviderSettings(base_url=base_url)
    context = EmbedderFactoryContext(provider=provider, limits=Limits(), environ=environ)
    return embeddings.build_api_embedder(model, EmbedderOptions(), context)


def test_make_finds_the_address_and_the_key_where_models_have_theirs() -> None:
    made = build("openai/text-embedding-3-small", {"OPENAI_API_KEY": KEY})
    assert made.name == "openai/text-embedding-3-small"
    assert build("ollama/nomic-embed-text", {}).name == "ollama/nomic-embed-text"
    assert build("mine/e5", {}, "http://127.0.0.1:9/v1").name == "mine/e5"
    assert build("gemini/text-embedding-004", {"GOOGLE_API_KEY": KEY})._api_key == KEY
    with pytest.raises(errors.ConfigError, match="OPENAI_API_KEY has quotes"):
        build("openai/text-embedding-3-small", {"OPENAI_API_KEY": f'"{KEY}"'})


@pytest.mark.parametrize("spec", ["openai/text-embedding-3-small", "nobody/x", "anthropic/x", "openai", "/", ""])
def test_make_says_what_is_missing(spec: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        build(spec, {})
    assert "\n" not in str(caught.value)
