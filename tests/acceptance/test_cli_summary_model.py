"""A conversation is folded and recalled with the real command and a separate model for summaries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli_support import Command
from support.example_model import ExampleModel, Messages

SUMMARISER = "You write the memory of a conversation"
GIST = "Ana rented a flat in Lisbon, Rua das Flores 7, and moves there in spring."


@pytest.fixture
def models() -> Iterator[tuple[ExampleModel, ExampleModel]]:
    """The one that talks, and the one that writes summaries."""

    def write(messages: Messages) -> str:
        fact = {"subject": "Ana", "predicate": "lives in", "object": "Lisbon", "source": 1, "confidence": 0.9}
        return json.dumps({"summary": GIST, "facts": [fact]})

    made = ExampleModel(lambda messages: "Noted."), ExampleModel(write)
    yield made
    for model in made:
        model.close()


def test_sigil_049_050_052_another_model_writes_the_summaries_and_people_find_them(
    tmp_path: Path, models: tuple[ExampleModel, ExampleModel]
) -> None:
    talks, writes = models
    mainstay = Command(tmp_path)
    mainstay.env["KEY"] = "sk-test"
    mainstay.configure(
        f"""
model: openai/talks
models:
  - {{model: openai/talks, base_url: "{talks.url}", api_key: "${{KEY}}"}}
  - {{model: openai/gpt-4.1-mini, base_url: "{writes.url}", api_key: "${{KEY}}"}}
sessions:
  memory:
    compaction: {{strategy: summarize, summary_model: openai/gpt-4.1-mini}}
storage: {{vector: {{backend: none}}}}
"""
    )
    done = mainstay(
        "chat", "--session", "trip", stdin="I am Ana, I rented a flat in Lisbon.\nIn spring.\nBye.\n/compact\n"
    )
    assert done.returncode == 0, done.stderr
    assert not any(SUMMARISER in json.dumps(messages) for messages in talks.asked)
    (asked,) = writes.asked
    assert SUMMARISER in asked[0]["content"]
    assert "I rented a flat in Lisbon." in asked[1]["content"]
    assert "Bye." not in asked[1]["content"], "the newest turn stays as it is"

    assert GIST in mainstay("memory", "summary", "--from", "today").stdout
    assert mainstay.json("memory", "summary", "--to", "2020-01-01")["summaries"] == []
    known = mainstay.json("memory", "recall", "Ana")["hits"]
    assert [(hit["text"], hit["message_id"]) for hit in known] == [("Ana lives in Lisbon", "trip#1")]
    assert mainstay.json("memory", "get", "trip#1")["item"]["text"] == "I am Ana, I rented a flat in Lisbon."

    assert mainstay("run", "And now?", "--session", "trip").stdout.strip() == "Noted."
    shown = [one["content"] for one in talks.asked[-1] if one["role"] != "system"]
    assert GIST in shown[0]
    assert [text.strip() for text in shown[1:]] == ["Bye.", "Noted.", "And now?"]
    told = mainstay.json("session", "show", "trip", "--context")["context"]["sections"]
    assert GIST in next(one["text"] for one in told if one["name"] == "summary")

    mainstay("memory", "forget", "trip#1", "--yes")
    assert mainstay.json("memory", "recall", "Ana")["hits"] == []
    assert "Flores" not in mainstay("memory", "summary").stdout
    assert not any(b"Flores" in path.read_bytes() for path in mainstay.home.rglob("*") if path.is_file())


def test_sigil_031_a_session_talks_to_the_model_that_was_chosen_for_it(
    tmp_path: Path, models: tuple[ExampleModel, ExampleModel]
) -> None:
    usual, other = models
    other.say = lambda messages: "From the other."
    mainstay = Command(tmp_path)
    mainstay.env["KEY"] = "sk-test"
    mainstay.configure(
        f"""
model: openai/usual
models:
  - {{model: openai/usual, base_url: "{usual.url}", api_key: "${{KEY}}"}}
  - {{model: openai/other, base_url: "{other.url}", api_key: "${{KEY}}"}}
storage: {{vector: {{backend: none}}}}
"""
    )
    for session in ("trip", "work"):
        assert mainstay("run", "Hello", "--session", session).stdout.strip() == "Noted."
    assert mainstay.json("session", "model", "trip", "openai/other")["model"] == "openai/other"
    assert mainstay("run", "And now?", "--session", "trip").stdout.strip() == "From the other."
    assert [one["content"].strip() for one in other.asked[0] if one["role"] != "system"] == [
        "Hello", "Noted.", "And now?",
    ]  # fmt: skip
    assert mainstay("run", "And now?", "--session", "work").stdout.strip() == "Noted.", "the others stay"
    assert mainstay.json("session", "show", "trip")["messages"][-1]["model"] == "openai/other"
    mainstay("session", "model", "trip", "--reset")
    assert mainstay("run", "And then?", "--session", "trip").stdout.strip() == "Noted."
    assert len(other.asked) == 1
