"""What is wrong with where traces are to go, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from mainstay.config.schema_observability import TelemetrySettings
from mainstay.config.validation import Keys
from mainstay.core.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,8192}")
_OURS = frozenset(("content-type", "content-length", "transfer-encoding", "host", "connection"))


def check_telemetry(settings: TelemetrySettings, begun: Callable[[Keys], str]) -> None:
    """Raises ConfigError; `begun` says where that is."""
    if said := wrong_endpoint(settings.endpoint):
        raise ConfigError(f"{begun(('telemetry', 'endpoint'))}{said}")
    if said := wrong_headers(settings.headers):
        raise ConfigError(f"{begun(('telemetry', 'headers'))}{said}")


def wrong_endpoint(endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or re.search(r"[\s\x00-\x1f\x7f]", endpoint) or not endpoint.isascii():
        return "telemetry.endpoint is no address: write one like http://127.0.0.1:4318"
    return ""


def wrong_headers(headers: Mapping[str, str]) -> str:
    """Without their values, which may be keys."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or name.lower() in _OURS:
            return f"telemetry.headers: {name[:100]!r} cannot be sent along"
        if not _VALUE.fullmatch(value):
            return f"telemetry.headers: what {name!r} says is not one line of text"
    return ""
