"""Configuration of backends: the settings that every data source has. Each kind adds its own in a subclass."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, ClassVar, Self

from msgspec import Meta

from mainstay.core.component_settings import ComponentSettings
from mainstay.core.components import ComponentKind
from mainstay.core.settings import Count, find_header_secrets

_URL_PASSWORD = re.compile(r"://[^/?#@:]*:([^/?#@]+)@")

Seconds = Annotated[float, Meta(gt=0)]


class BackendSettings(ComponentSettings, frozen=True, kw_only=True):
    """A data source, offered as the tools `NAME__describe` and `NAME__query`, and `NAME__change` if it can be
    changed."""

    COMPONENT_KIND: ClassVar[ComponentKind] = "backend"

    kind: Annotated[str, Meta(description="Kind of data source: one of those below, or of another distribution.")]
    about: Annotated[str, Meta(description="What the data source contains, as one sentence for the model.")] = ""
    write: Annotated[bool, Meta(description="Allow changes, with the tool `NAME__change`.")] = False
    private: Annotated[
        bool,
        Meta(description="Label results as private: sending data out then needs approval or an allowed destination."),
    ] = False
    rows_max: Annotated[Count, Meta(description="Rows in one result.")] = 100
    timeout_s: Annotated[Seconds, Meta(description="Timeout of one query, in seconds.")] = 30.0
    schema_tokens: Annotated[
        Count, Meta(description="Tokens of the schema summary that is part of every model call.")
    ] = 800

    @property
    def location(self) -> str:
        """Where the data is, for its owner: a path or a URL without credentials; empty: the settings do not say."""
        return ""

    def list_secrets(self) -> list[str]:
        """Return the secrets that are given, those in `headers` and the password in a `url` too."""
        secrets = super().list_secrets()
        for name in self.__struct_fields__:
            match name, getattr(self, name):
                case "headers", dict() as headers:
                    secrets += find_header_secrets(headers)
                case "url", str() as url if (password := _URL_PASSWORD.search(url)) is not None:
                    secrets.append(password[1])
        return secrets

    def find_problem(self, mcp_servers: Collection[str]) -> str:
        """Return what is wrong with the settings, as a sentence; empty if nothing is. `mcp_servers` are the names of
        the configured MCP servers."""
        return ""

    def resolve_paths(self, home: Path) -> Self:
        """Return the settings with absolute paths; relative ones are relative to `home`."""
        return self


def resolve_path(path: str, home: Path) -> str:
    """Return a path of the configuration as an absolute one; an empty path stays empty."""
    return os.path.join(home, os.path.expanduser(path)) if path else ""


def strip_credentials(url: str) -> str:
    """Return a URL without user, password and query."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}" if mark else url
