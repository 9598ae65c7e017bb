"""Converts `mcpServers` entries in the formats of other MCP hosts to ours, before they are checked."""

from __future__ import annotations

from typing import Any

# Keys that have no meaning here, or would grant what only a policy rule can grant.
IGNORED_KEYS = ("description", "trust", "envFile")
_TIMEOUT_SECONDS_MAX = 1000  # a `timeout` from here on is in milliseconds
_TRANSPORTS = {"streamablehttp": "streamable-http", "streamable-http": "streamable-http"}


def convert_server_entry(raw: dict[str, Any]) -> dict[str, Any]:
    """Convert one entry of `mcpServers`. A value under our own key wins over one under another host's key."""
    entry = {key: value for key, value in raw.items() if key not in IGNORED_KEYS}
    for other in ("transport", "transportType"):
        _rename(entry, other, "type")
    if isinstance(kind := entry.get("type"), str):
        plain = kind.lower().replace("_", "-")
        entry["type"] = _TRANSPORTS.get(plain, plain)
    if "httpUrl" in entry:  # in an entry with both, `url` is for the older SSE transport
        entry["url"] = entry.pop("httpUrl")
    _rename(entry, "serverUrl", "url")
    if "timeout" in entry:
        entry.setdefault("timeout_s", _to_seconds(entry.pop("timeout")))
    for other in ("enabled", "isActive"):
        if isinstance(entry.get(other), bool):
            entry[other] = not entry[other]
        _rename(entry, other, "disabled")
    _rename(entry, "disabledTools", "excludeTools")
    return with_text_values(entry)


def with_text_values(raw: dict[str, Any]) -> dict[str, Any]:
    """Convert numbers and booleans in `env` and `headers` to text: `PORT: 8080`, `DEBUG: true`."""
    converted = {key: _to_texts(raw[key]) for key in ("env", "headers") if isinstance(raw.get(key), dict)}
    return {**raw, **converted}


def _to_texts(values: dict[str, Any]) -> dict[str, Any]:
    def text(value: Any) -> Any:
        match value:
            case bool():
                return "true" if value else "false"
            case int() | float():
                return str(value)
        return value

    return {key: text(value) for key, value in values.items()}


def _rename(entry: dict[str, Any], host_key: str, own_key: str) -> None:
    if host_key in entry:
        entry.setdefault(own_key, entry.pop(host_key))
        entry.pop(host_key, None)


def _to_seconds(value: Any) -> Any:
    if isinstance(value, int | float) and value >= _TIMEOUT_SECONDS_MAX:
        return value / 1000
    return value
