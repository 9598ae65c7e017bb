"""Bounds of what model servers send beside their streams: errors, windows, vectors; and of calls beside the turn."""

from __future__ import annotations

import json

import pytest
from support.provider_fuzz import MODEL

from mainstay.core.budget_ports import CallEstimate
from mainstay.core.budgeted_side_calls import BudgetedCall
from mainstay.core.errors import ContextTooLong, ProviderError
from mainstay.core.events import Reserved
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import StreamFinished
from mainstay.providers.embeddings.embedder import _decode_vectors
from mainstay.providers.ollama.provider import OllamaModelDetails, OllamaProvider
from mainstay.providers.scripted import ScriptedProvider
from mainstay.providers.wire.errors import error_from_status, parse_error_value


@pytest.mark.parametrize("number", [",,,a", "999,999,999", "100", "٣٣٣٣٣٣"])
def test_a_window_in_an_error_message_is_a_plausible_number_or_none(number: str) -> None:
    body = json.dumps({"error": {"message": f"maximum context length is {number} tokens"}}).encode()
    error = error_from_status("m", 400, {}, body, now_s=0.0)
    assert isinstance(error, ContextTooLong)
    assert error.window is None or 512 <= error.window <= 100_000_000


def test_an_error_of_any_depth_or_length_is_described() -> None:
    nested: object = "end"
    for _ in range(5000):
        nested = [nested]
    for value in (nested, {"error": nested}, {"error": {"message": nested}}, {"error": {"message": 10**5000}}):
        report = parse_error_value(value)
        assert 0 < len(report.message) <= 500
    assert isinstance(error_from_status("m", 500, {}, b"[" * 100_000, now_s=0.0), ProviderError)


@pytest.mark.parametrize("size", ["9" * 5000, "999999999999", "1", "100000001"])
def test_a_window_that_ollama_reports_is_plausible_or_ignored(size: str) -> None:
    provider = OllamaProvider("m", base_url="http://127.0.0.1:9")
    before = provider.info.window
    trained = {"llama.context_length": int(size[:40]), "other.context_length": -5}
    provider._apply_details(OllamaModelDetails(f"num_ctx {size}", trained, ["tools"]))
    assert provider.info.window == before


@pytest.mark.parametrize(
    "row",
    [
        {"embedding": [], "index": 0},
        {"embedding": [1.0] * 70_000, "index": 0},
        {"embedding": [1.0], "index": -1},
        {"embedding": [1.0], "index": 2**63},
        {"embedding": "AAAA", "index": 0},
        {"embedding": [None], "index": 0},
    ],
    ids=str,
)
def test_a_vector_beyond_its_bounds_is_refused(row: dict[str, object]) -> None:
    assert _decode_vectors(json.dumps({"data": [row]}).encode(), 1) is None


def test_two_vectors_for_the_same_text_are_refused() -> None:
    rows = [{"embedding": [1.0], "index": 0}] * 2
    assert _decode_vectors(json.dumps({"data": rows}).encode(), 2) is None


class OneCallBudget:
    """A `TurnBudget` for one call."""

    def __init__(self) -> None:
        self.settled: tuple[Usage | None, float] | None = None

    async def reserve(self, estimate: CallEstimate) -> Reserved:
        return Reserved(estimate.id, "m", 100, 200, 3_300_000)

    def settle(self, reserved: Reserved, usage: Usage | None, cost: float) -> None:
        self.settled = usage, cost


@pytest.mark.parametrize("lie", [Usage(2**63, 1), Usage(-5, 1), Usage(5, 1, cached=10**9), Usage(correction="missing")])
async def test_f56_a_summary_or_a_judge_is_charged_its_reservation_for_a_report_that_cannot_be_believed(
    lie: Usage,
) -> None:
    budget = OneCallBudget()
    estimate = CallEstimate("fold:1", MODEL, 100, 200)
    async with BudgetedCall(estimate, ScriptedProvider([], info=MODEL), budget, None) as call:  # type: ignore[arg-type]
        call.observe(StreamFinished(FinishReason.END, lie))
    assert call.usage is not None
    assert (call.usage.prompt, call.usage.completion) == (100, 200)
    assert call.usage.correction
    assert budget.settled == (call.usage, MODEL.cost(Usage(100, 200)))
