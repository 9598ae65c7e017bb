"""Models to check and the servers that answer for them."""

from __future__ import annotations

import pytest

from mainstay.agent.model_server_probe import ModelCheckTarget, _compute_clock_ahead, resolve_base_url
from mainstay.config.schema import Config, ModelEntry
from mainstay.core.provider_manifest import ProviderSettings


@pytest.mark.parametrize(
    ("date", "ahead"),
    [
        ("Thu, 01 Jan 1970 01:00:00 GMT", 0.0),  # whole seconds: 3600 lies within the exchange
        ("Thu, 01 Jan 1970 02:00:00 GMT", 3599.5),
        ("Thu, 01 Jan 1970 00:00:00 GMT", -3600.5),
        ("some day", None),
        (None, None),
    ],
    ids=["in-step", "ahead", "behind", "nonsense", "silent"],
)
def test_the_date_of_an_answer_says_how_far_clocks_are_apart(date: str | None, ahead: float | None) -> None:
    assert _compute_clock_ahead(date, sent_at=3600.0, received_at=3601.0) == ahead


def test_the_address_is_that_of_the_entry_then_of_the_provider_then_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resolve(spec: str, **given: object) -> str:
        return resolve_base_url(ModelCheckTarget(Config(**given), spec, "it is configured"))  # type: ignore[arg-type]

    monkeypatch.setenv("OLLAMA_HOST", "box")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://env/v1")
    entries = (ModelEntry(model="openai/a", base_url="http://entry/v1"),)
    providers = {"openai": ProviderSettings(base_url="http://settings/v1")}
    assert resolve("openai/a", models=entries, providers=providers) == "http://entry/v1"
    assert resolve("openai/b", models=entries, providers=providers) == "http://settings/v1"
    assert resolve("openai/b") == "http://env/v1"
    assert resolve("ollama/b") == "http://box:11434/v1"
    assert resolve("groq/b") == "https://api.groq.com/openai/v1"
    assert resolve("nobody/b") == ""
    monkeypatch.setenv("OLLAMA_HOST", "box:eleven")
    assert resolve("ollama/b") == "http://127.0.0.1:11434/v1"
