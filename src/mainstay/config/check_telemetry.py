"""Checks the telemetry settings: the collector's endpoint and the headers of requests to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from mainstay.config.schema_judges_budgets_telemetry import TelemetrySettings
from mainstay.config.schema_validator import Keys
from mainstay.core.errors import ConfigError

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,8192}")
_OWN_HEADERS = frozenset(("content-type", "content-length", "transfer-encoding", "host", "connection"))


def check_telemetry(settings: TelemetrySettings, position_of: Callable[[Keys], str]) -> None:
    """Raise ConfigError for the first mistake; `position_of` returns the position of a key, which begins the error."""
    if problem := find_endpoint_problem(settings.endpoint):
        raise ConfigError(f"{position_of(('telemetry', 'endpoint'))}{problem}")
    if problem := find_header_problem(settings.headers):
        raise ConfigError(f"{position_of(('telemetry', 'headers'))}{problem}")


def find_endpoint_problem(endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or re.search(r"[\s\x00-\x1f\x7f]", endpoint) or not endpoint.isascii():
        return "telemetry.endpoint is not a URL: write one like http://127.0.0.1:4318"
    return ""


def find_header_problem(headers: Mapping[str, str]) -> str:
    """Return what is wrong with the headers, without their values: they may be API keys."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
            return (
                f"telemetry.headers: {name[:100]!r} cannot be used: it is not a header name, or Mainstay sets it itself"
            )
        if not _HEADER_VALUE.fullmatch(value):
            return f"telemetry.headers: the value of {name!r} must be one line of text"
    return ""
