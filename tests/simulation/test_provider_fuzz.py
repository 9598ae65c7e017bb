"""Model servers that send anything: every decoder is fed with mutated streams, and real turns go on after them.

`make test-all` runs more than 100,000 cases. A failure names its seed and case; MAINSTAY_TEST_SEED repeats a run.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import sqlite3
import time
from array import array
from collections.abc import Iterator
from contextlib import closing as closing_connection
from itertools import islice
from pathlib import Path

import pytest
from support.provider_fuzz import (
    COST_MAX,
    FUZZED_FORMATS,
    MODEL,
    ChunkApiClient,
    ChunkClient,
    check_pieces,
    chop_bytes,
    decode_stream,
    list_exact_cases,
    mutate_payload,
    mutate_stream,
    record_streams,
)
from support.sampling import SEED_VARIABLE, WHOLE_VARIABLE
from support.streams.formats import Format, OpenAIFormat
from support.streams.more import FORMATS
from support.streams.server import Action, Loopback, closing

from mainstay import Agent, Config, tool
from mainstay.config.schema_judges_budgets_telemetry import BudgetEntry, BudgetSettings, PeriodBudgets
from mainstay.core.errors import EmbedderMissing, ProviderError
from mainstay.core.events import Received
from mainstay.core.limits import Limits
from mainstay.core.outcome import Answered, Failed
from mainstay.providers.embeddings.embedder import ApiEmbedder
from mainstay.providers.openai.tool_calls import StreamedToolCall
from mainstay.providers.wire.decoding import CALLS_MAX

WHOLE = bool(os.environ.get(WHOLE_VARIABLE))
SEED = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1, 100_000))
WHOLE_CASES, WHOLE_VECTOR_CASES = 30_000, 6_000  # in `make test-all`, with all exact ones
CASES = WHOLE_CASES if WHOLE else 150  # random ones of each API
EXACT_SHARE = 1 if WHOLE else 150  # every which exact case is run
VECTOR_CASES = WHOLE_VECTOR_CASES if WHOLE else 150
TURNS = 300 if WHOLE else 3  # of each API
CASE_CPU_S = 20.0  # of one case; it takes a millisecond
TURN_S = 300.0

BUDGETS = Config(
    limits=Limits(model_idle_timeout_s=20.0),
    budgets=BudgetSettings(home=PeriodBudgets(month=BudgetEntry(money=10_000.0, tokens=10**9))),
)


def list_cases(api: Format) -> Iterator[bytes]:
    chance = random.Random(f"{SEED} {api.name}")
    yield from islice(list_exact_cases(api), chance.randrange(EXACT_SHARE), None, EXACT_SHARE)
    streams = record_streams(api)
    for _ in range(CASES):
        yield mutate_stream(chance, api, streams)


async def check_decoder(api: Format) -> int:
    chance, count = random.Random(SEED), 0
    for count, data in enumerate(list_cases(api), start=1):
        begun = time.process_time()
        try:
            check_pieces(*await decode_stream(api, chop_bytes(chance, data)))
        except Exception as error:
            raise AssertionError(f"seed {SEED}, {api.name}, case {count}: {data[:2000]!r}") from error
        assert time.process_time() - begun < CASE_CPU_S, f"seed {SEED}, {api.name}, case {count}: {data[:2000]!r}"
    return count


@pytest.mark.parametrize("api", FUZZED_FORMATS, ids=lambda api: api.name)
def test_f56_a_decoder_makes_pieces_or_a_provider_error_of_anything(api: Format) -> None:
    count = asyncio.run(check_decoder(api))
    print(f"seed {SEED}: {count} streams of {api.name}")
    assert count >= CASES


def test_there_are_more_than_100000_cases() -> None:
    exact = sum(1 for api in FUZZED_FORMATS for _ in list_exact_cases(api))
    assert exact + WHOLE_CASES * len(FUZZED_FORMATS) + WHOLE_VECTOR_CASES > 200_000


def test_a_stream_that_only_pretends_to_begin_calls_is_not_read_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, checks = OpenAIFormat(), []
    check = StreamedToolCall.has_complete_arguments
    monkeypatch.setattr(StreamedToolCall, "has_complete_arguments", lambda call: (checks.append(call), check(call))[1])
    function = {"name": "add", "arguments": "["}
    calls = [
        api.delta({"tool_calls": [{"index": 0, "id": f"c{number}", "function": function}]}) for number in range(5000)
    ]
    pieces, error = asyncio.run(decode_stream(api, [b"".join([*calls, *api.end("tool_calls")])]))
    check_pieces(pieces, error)
    assert len(checks) <= CALLS_MAX


def test_f56_vectors_are_finite_or_a_provider_error() -> None:
    rows = [{"object": "embedding", "index": index, "embedding": [0.5, -0.25, 3]} for index in range(2)]
    body = json.dumps({"object": "list", "data": rows, "usage": {"prompt_tokens": 5, "total_tokens": 5}}).encode()
    chance = random.Random(SEED)

    async def main() -> None:
        client = ChunkClient([])
        embedder = ApiEmbedder("m", base_url="http://h", limits=Limits(retries_max=0))
        embedder._api = ChunkApiClient(client)
        for case in range(VECTOR_CASES):
            data = body
            for _ in range(chance.choice((1, 1, 2))):
                data = mutate_payload(chance, data)
            client.chunks = [data[: chance.randrange(len(data))] if chance.random() < 0.1 else data]
            embedder._dimensions = 0
            try:
                vectors = await embedder._request_vectors(["a", "b"])
            except (ProviderError, EmbedderMissing):
                continue
            assert len(vectors) == 2, (SEED, case)
            assert all(math.isfinite(number) and abs(number) <= 1.001 for one in vectors for number in array("f", one))

    asyncio.run(main())


@tool(effect="pure", untrusted=False, sink=False)
def add(a: int) -> int:
    """Add."""
    return a


@pytest.mark.parametrize("api", FORMATS, ids=lambda api: api.name)
async def test_f56_after_any_answer_the_prompt_is_kept_the_charge_is_bounded_and_the_session_goes_on(
    api: Format, tmp_path: Path
) -> None:
    chance = random.Random(f"{SEED} turns {api.name}")
    streams = record_streams(api)
    sound: list[Action] = closing(b"".join(streams[0]))
    before = 0
    async with Loopback(sound) as server:
        for life in range(2):  # after a restart, all of it is counted again
            provider = api.make(server.url, BUDGETS.limits, MODEL)
            async with Agent(provider, tools=[add], home=tmp_path, config=BUDGETS) as agent:
                for number in range(TURNS):
                    data = mutate_stream(chance, api, streams)
                    hint = f"seed {SEED}, {api.name}, turn {life}.{number}: {data[:2000]!r}"
                    server.scripts[:] = [closing(data), sound]
                    async with asyncio.timeout(TURN_S):
                        reply = await agent.run(f"s{number}", "hello")
                        assert isinstance(reply.outcome, Answered | Failed), (hint, reply.outcome)
                        again = await agent.run(f"s{number}", "go on")
                        assert isinstance(again.outcome, Answered), (hint, again.outcome)
                    assert 0 <= reply.cost <= 30 * COST_MAX, hint
                    records = await agent.sessions.records(f"s{number}")
                    assert sum(isinstance(record.event, Received) for record in records) == 2 * (life + 1), hint
            rows = read_ledger(tmp_path)
            assert rows
            assert all(money >= 0 and tokens >= 0 for money, tokens in rows)
            assert sum(money for money, _ in rows) >= before
            before = sum(money for money, _ in rows)


def read_ledger(home: Path) -> list[tuple[int, int]]:
    """Return nanodollars and tokens of every hour of the home."""
    with closing_connection(sqlite3.connect(home / "gateway.db")) as database:
        return database.execute("SELECT nanodollars, tokens FROM ledger WHERE scope='home'").fetchall()
