"""`output=`: a structured answer, checked against its schema."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainstay import Agent, Config, Limits
from mainstay.agent.structured_output import OutputSchema
from mainstay.core.errors import ToolDefinitionError
from mainstay.core.outcome import Answered, Failed
from mainstay.testing import Call, ScriptedProvider


class City(msgspec.Struct):
    name: str
    people: int


def asked(script: list[Any], **given: Any) -> tuple[Agent, ScriptedProvider]:
    provider = ScriptedProvider(script)
    return Agent(provider, home=":memory:", **given), provider


async def test_an_answer_that_fits_is_read_into_the_wanted_type() -> None:
    agent, provider = asked(['{"name": "Lisbon", "people": 545000}', "[1, 2, 3]", "7", "text again"])
    async with agent:
        reply = await agent.run("s", "a city", output=City)
        assert reply.output == City("Lisbon", 545_000)
        assert reply.text == '{"name": "Lisbon", "people": 545000}'
        assert (await agent.run("s", "numbers", output=list[int])).output == [1, 2, 3]
        assert (await agent.run("s", "a number", output=int)).output == 7
        plain = await agent.run("s", "just talk")
        assert (plain.text, plain.output) == ("text again", None)
    wanted = provider.asked[0].messages[0][1]
    assert wanted.startswith("a city\n")
    assert '"people"' in wanted, "the model is shown the schema"
    assert "JSON Schema" not in provider.asked[3].messages[-1][1]


async def test_a_pydantic_model_works_too() -> None:
    pydantic = pytest.importorskip("pydantic")
    Person = pydantic.create_model("Person", name=(str, ...), age=(int, pydantic.Field(ge=0)))
    agent, provider = asked(['{"name": "Ann", "age": -1}', '{"name": "Ann", "age": 41}'])
    async with agent:
        reply = await agent.run("s", "who?", output=Person)
        assert reply.output == Person(name="Ann", age=41)
        assert "greater than or equal to 0" in provider.asked[1].messages[-1][1]


@pytest.mark.parametrize(
    "text", ['```json\n{"name":"X","people":1}\n```', '```\n{"name":"X","people":1}```', ' {"name":"X","people":1}\n']
)
async def test_a_fence_around_the_json_is_forgiven(text: str) -> None:
    agent, provider = asked([text])
    async with agent:
        assert (await agent.run("s", "x", output=City)).output == City("X", 1)
        assert len(provider.asked) == 1


async def test_a_wrong_answer_is_sent_back_with_what_is_wrong_until_it_is_right() -> None:
    agent, provider = asked(["Lisbon, I think", '{"name": "Lisbon"}', '{"name": "Lisbon", "people": 5}'])
    async with agent:
        reply = await agent.run("s", "a city", output=City)
        assert (reply.output, reply.outcome) == (City("Lisbon", 5), Answered())
        first, second = (question.messages[-1] for question in provider.asked[1:])
        assert first[0] == second[0] == "system"
        assert "does not fit the JSON Schema" in first[1]
        assert "missing required field `people`" in second[1]
        assert (await agent.sessions.replay("s")).is_identical


async def test_an_answer_that_is_never_right_fails_after_output_attempts_max() -> None:
    for most in (1, 2, 3):
        agent, provider = asked(
            [f"no {n}" for n in range(most)], config=Config(limits=Limits(output_attempts_max=most))
        )
        async with agent:
            reply = await agent.run("s", "a city", output=City)
            assert isinstance(reply.outcome, Failed)
            assert "no answer of the wanted shape came" in reply.outcome.sentence
            assert reply.output is None
            assert len(provider.asked) == most
            assert (await agent.sessions.replay("s")).is_identical


async def test_tools_may_be_used_on_the_way_to_a_structured_answer() -> None:
    async def people(city: str) -> int:
        return 545_000

    agent, _ = asked([Call("people", {"city": "Lisbon"}), '{"name": "Lisbon", "people": 545000}'], tools=[people])
    async with agent:
        assert (await agent.run("s", "a city", output=City)).output == City("Lisbon", 545_000)


async def test_an_attempt_that_is_wrong_does_not_count_for_the_next_turn() -> None:
    agent, _ = asked(["no", '{"name": "A", "people": 1}', "no", '{"name": "B", "people": 2}'])
    async with agent:
        for name in ("A", "B"):
            assert (await agent.run("s", "x", output=City)).output.name == name


def test_a_type_that_json_cannot_carry_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(ToolDefinitionError, match="has no JSON Schema"):
        OutputSchema(type("Odd", (), {}))


async def test_f44_the_same_id_gives_the_same_structured_answer() -> None:
    agent, provider = asked(['{"name": "A", "people": 1}'])
    async with agent:
        first = await agent.run("s", "x", output=City, id="m1")
        assert await agent.run("s", "x", output=City, id="m1") == first
        assert first.output == City("A", 1)
        assert len(provider.asked) == 1
