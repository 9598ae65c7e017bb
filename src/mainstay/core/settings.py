"""Base class of settings: sections of the configuration and settings of components. Masks secrets when printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, get_args

import msgspec
from msgspec import Meta

MASK = "set (hidden)"
_SECRET_KEYS = ("api_key", "secret", "others", "token", "app_token", "signing_secret", "password")
_SECRET_MAPPINGS = ("env", "headers")  # mappings whose values may be API keys

_AUTH_SCHEMES = ("bearer", "basic", "digest", "apikey", "api-key")  # before a secret in a header, not secrets
_SECRET_MARK = {"secret": True}

Count = Annotated[int, Meta(ge=1)]
Secret = Annotated[str, Meta(extra=_SECRET_MARK)]  # type of a setting that is a secret, whatever its name


class ConfigSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of the configuration. `repr` masks its secrets: configurations end up in logs and tracebacks."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [(name, mask_value(name, getattr(self, name))) for name in self.__struct_fields__]


@cache
def list_secret_settings(settings: type[ConfigSection]) -> tuple[str, ...]:
    """Return the names of the settings that are secrets: named like one, or of the type `Secret`."""
    fields = msgspec.structs.fields(settings)
    return tuple(field.name for field in fields if field.name in _SECRET_KEYS or _is_marked(field.type))


def _is_marked(field_type: object) -> bool:
    parts = get_args(field_type)
    return any(getattr(part, "extra", None) == _SECRET_MARK or _is_marked(part) for part in parts)


def find_header_secrets(headers: Mapping[str, str]) -> list[str]:
    """Return the words in the values of HTTP headers that may be secrets."""
    return [word for value in headers.values() for word in value.split() if word.lower() not in _AUTH_SCHEMES]


def mask_value(name: str, value: object) -> object:
    """Return a value with secrets masked: API keys and passwords, user names and query strings in URLs."""
    if name in _SECRET_KEYS and value:
        return MASK
    if name in _SECRET_MAPPINGS and isinstance(value, dict):
        return dict.fromkeys(value, MASK)
    if name in ("base_url", "url") and isinstance(value, str):
        return re.sub(r"\?.*", "?(hidden)", re.sub(r"://[^/?#]*@", "://(hidden)@", value), flags=re.DOTALL)
    return value


def mask_value_at(keys: tuple[str | int, ...], value: object) -> object:
    """Mask a value by its path: also values below a key that contains secrets."""
    if any(key in (*_SECRET_MAPPINGS, *_SECRET_KEYS) for key in keys[:-1]):
        return MASK
    return mask_value(str(keys[-1]), value)
