"""What every section of the configuration has in common: it prints without its secrets."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

HIDDEN = "set (hidden)"
_SECRET = ("api_key", "secret", "others", "token", "app_token", "signing_secret", "password")
_KEYED = ("env", "headers")  # their values are whatever the owner puts there, keys mostly

Count = Annotated[int, Meta(ge=1)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prints without its secrets: a configuration ends up in logs and tracebacks."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, masked(name, getattr(self, name))) for name in self.__struct_fields__]


def masked(name: str, value: Any) -> Any:
    """A value as it may be seen: keys are hidden, and so is what a URL may carry beside its address."""
    if name in _SECRET and value:
        return HIDDEN
    if name in _KEYED and isinstance(value, dict):
        return dict.fromkeys(value, HIDDEN)
    if name in ("base_url", "url") and isinstance(value, str):
        return re.sub(r"\?.*", "?(hidden)", re.sub(r"://[^/?#]*@", "://(hidden)@", value), flags=re.DOTALL)
    return value


def masked_at(keys: tuple[str | int, ...], value: Any) -> Any:
    """The same for a value anywhere in the configuration."""
    if any(key in (*_KEYED, *_SECRET) for key in keys[:-1]):
        return HIDDEN
    return masked(str(keys[-1]), value)
