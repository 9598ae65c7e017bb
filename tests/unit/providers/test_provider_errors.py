"""Errors of providers."""

from __future__ import annotations

import pytest

from mainstay.core import errors
from mainstay.core.rate_limits import WAIT_MAX_S
from mainstay.providers.wire.errors import (
    ProviderErrorReport,
    error_from_report,
    error_from_status,
    parse_error_body,
    parse_retry_after_s,
)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:20:00 GMT"}, 200.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s"}, 1.0),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "1s"}, None),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "120ms",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "1h6m0s",
            },
            3960.0,
        ),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "soon"}, None),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "1970-01-01T00:17:00Z",
            },
            20.0,
        ),
    ],
)
def test_f16_the_retry_time_is_read(headers: dict[str, str], wait_s: float | None) -> None:
    assert parse_retry_after_s(headers, now_s=1000.0) == wait_s


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"no"}}', "no"),
        (b'{"error":"no"}', "no"),
        (b'{"message":"no"}', "no"),
        (b'{"detail":[{"msg":"no"}]}', "[{'msg': 'no'}]"),
        (b'[{"error":{"message":"no"}}]', "no"),
        (b"no\n  way", "no way"),
        (b"  <html>secret</html>", "an HTML page"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", ""),
        (b"null", "None"),
        (b"[" * 100_000, None),
    ],
)
def test_reports_of_every_shape_are_read(body: bytes, message: str | None) -> None:
    report = parse_error_body(body)
    assert message is None or report.message == message
    assert len(report.message) <= 500


@pytest.mark.parametrize(
    ("report", "kind"),
    [
        (ProviderErrorReport("x", "rate_limit_error"), errors.RateLimited),
        (ProviderErrorReport("x", "insufficient_quota"), errors.Unauthorised),
        (ProviderErrorReport("x", "", 429), errors.RateLimited),
        (ProviderErrorReport("x", "", 502), errors.Overloaded),
        (ProviderErrorReport("x", "authentication_error"), errors.Unauthorised),
        (ProviderErrorReport("x", "context_length_exceeded"), errors.ContextTooLong),
        (ProviderErrorReport("the prompt is too long", ""), errors.ContextTooLong),
        (ProviderErrorReport("x", "invalid_request_error"), errors.RequestRefused),
        (ProviderErrorReport("x", "unheard_of"), errors.Overloaded),
    ],
)
def test_an_error_inside_a_stream_is_mapped_by_its_kind(report: ProviderErrorReport, kind: type) -> None:
    assert type(error_from_report("p", report)) is kind


def test_an_unknown_model_is_answered_with_a_hint() -> None:
    error = error_from_status("p", 404, {}, b'{"error":{"message":"no such model"}}', now_s=0)
    assert isinstance(error, errors.RequestRefused)
    assert "check the model's name and base_url: no such model" in str(error)


def test_spent_credit_is_not_waited_for() -> None:
    error = error_from_status("p", 429, {}, b'{"error":{"code":"insufficient_quota"}}', now_s=0)
    assert isinstance(error, errors.Unauthorised)


@pytest.mark.parametrize(
    ("status", "message", "window"),
    [
        (429, "Request too large for gpt-4 on tokens per min (TPM): Limit 30000, Requested 41000.", 30_000),
        (413, "Request too large for model `x` (TPM): Limit 6000, Requested 7,500, please reduce your size", 6000),
        (429, "Rate limit reached on tokens (TPM): Limit: 30,000, Used: 10, Requested: 41,000.", 30_000),
        (429, "Request too large.", None),
        (429, "Request too large: Limit 10, Requested 41", None),
    ],
)
def test_more_at_once_than_an_account_has_is_made_shorter_and_not_waited_for(
    status: int, message: str, window: int | None
) -> None:
    body = b'{"error":{"message":"%s","code":"rate_limit_exceeded"}}' % message.encode()
    error = error_from_status("p", status, {"retry-after": "7"}, body, now_s=0)
    assert isinstance(error, errors.ContextTooLong)
    assert error.window == window


@pytest.mark.parametrize(
    "message",
    [
        "Rate limit reached for gpt-4 on tokens per min (TPM): Limit 30000, Used 29900, Requested 1000. Try in 1.8s.",
        "Rate limit reached on requests per min (RPM): Limit 3, Used 3, Requested 1.",
        "This request would exceed your organization's rate limit of 30,000 input tokens per minute.",
        "slow down",
    ],
)
def test_a_temporary_lack_of_capacity_is_waited_for(message: str) -> None:
    error = error_from_status("p", 429, {}, b'{"error":{"message":"%s"}}' % message.encode(), now_s=0)
    assert isinstance(error, errors.RateLimited)


@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms"])
def test_a_retry_time_is_at_most_a_month(name: str) -> None:
    error = error_from_status("p", 429, {name: "1e300"}, b"", now_s=0)
    assert error.retry_after_s == WAIT_MAX_S
    assert error.rate_limits is not None
    assert error.rate_limits.retry_after_s == WAIT_MAX_S
