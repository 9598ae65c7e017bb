"""Plugin key-value state: quota checks used by every store."""

from __future__ import annotations

import re

from mainstay.core.errors import InputRefused
from mainstay.core.tool_ports import PluginStateQuota

KEY_BYTES_MAX = 256
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class PluginStateUsage:
    """How much state a plugin stores: number of keys, and bytes of keys and values."""

    __slots__ = ("bytes", "keys")

    def __init__(self, keys: int = 0, bytes: int = 0) -> None:
        self.keys = keys
        self.bytes = bytes

    def with_entry(self, old_bytes: int | None, new_bytes: int, quota: PluginStateQuota) -> PluginStateUsage:
        """Return the usage after an entry of `new_bytes` replaces one of `old_bytes` (None: is added).

        Raises InputRefused beyond the quota.
        """
        usage = PluginStateUsage(self.keys + (old_bytes is None), self.bytes - (old_bytes or 0) + new_bytes)
        if usage.keys > quota.keys_max:
            raise InputRefused(f"at most {quota.keys_max} keys can be stored")
        if usage.bytes > quota.bytes_max:
            raise InputRefused(f"at most {quota.bytes_max} bytes can be stored; this would be {usage.bytes}")
        return usage

    def without_entry(self, old_bytes: int) -> PluginStateUsage:
        return PluginStateUsage(self.keys - 1, self.bytes - old_bytes)


def entry_bytes(key: str, value: str, quota: PluginStateQuota) -> int:
    """Return the size of an entry in bytes; raises InputRefused if the key or the value is invalid."""
    size = _utf8_bytes(value)
    if size > quota.value_bytes_max:
        raise InputRefused(f"a value has at most {quota.value_bytes_max} bytes; this has {size}")
    return key_bytes(key) + size


def key_bytes(key: str) -> int:
    """Return the size of a key in bytes; raises InputRefused if it is invalid."""
    size = _utf8_bytes(key)
    if not 0 < size <= KEY_BYTES_MAX:
        raise InputRefused(f"a key has 1 to {KEY_BYTES_MAX} bytes; this has {size}")
    if _CONTROL_CHARACTERS.search(key):
        raise InputRefused("a key must not contain control characters")
    return size


def _utf8_bytes(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InputRefused("this text cannot be stored: it contains half characters (lone surrogates)") from None
