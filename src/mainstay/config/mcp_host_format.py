"""MCP servers as other hosts write them: the same things under other names, made into ours before they are checked."""

from __future__ import annotations

from typing import Any

# What says nothing that we need, or gives away what only a rule here can give.
IGNORED = ("description", "trust", "envFile")
_SECONDS_MAX = 1000  # nobody waits longer for a call: from there on they are milliseconds
_TYPES = {"streamablehttp": "streamable-http", "streamable-http": "streamable-http"}


def adapted_server(raw: dict[str, Any]) -> dict[str, Any]:
    """One of `mcpServers`. What is given under its own name wins."""
    given = {key: value for key, value in raw.items() if key not in IGNORED}
    for other in ("transport", "transportType"):
        _rename(given, other, "type")
    if isinstance(kind := given.get("type"), str):
        plain = kind.lower().replace("_", "-")
        given["type"] = _TYPES.get(plain, plain)
    if "httpUrl" in given:  # whoever has both means this one: the other is for the older transport
        given["url"] = given.pop("httpUrl")
    _rename(given, "serverUrl", "url")
    if "timeout" in given:
        given.setdefault("timeout_s", _seconds(given.pop("timeout")))
    for other in ("enabled", "isActive"):
        if isinstance(given.get(other), bool):
            given[other] = not given[other]
        _rename(given, other, "disabled")
    _rename(given, "disabledTools", "excludeTools")
    return with_text(given)


def with_text(raw: dict[str, Any]) -> dict[str, Any]:
    """Variables and headers are text, however they are written: `PORT: 8080`, `DEBUG: true`."""
    made = {key: _texts(raw[key]) for key in ("env", "headers") if isinstance(raw.get(key), dict)}
    return {**raw, **made}


def _texts(values: dict[str, Any]) -> dict[str, Any]:
    def text(value: Any) -> Any:
        match value:
            case bool():
                return "true" if value else "false"
            case int() | float():
                return str(value)
        return value

    return {key: text(value) for key, value in values.items()}


def _rename(given: dict[str, Any], other: str, own: str) -> None:
    if other in given:
        given.setdefault(own, given.pop(other))
        given.pop(other, None)


def _seconds(value: Any) -> Any:
    if isinstance(value, int | float) and value >= _SECONDS_MAX:
        return value / 1000
    return value
