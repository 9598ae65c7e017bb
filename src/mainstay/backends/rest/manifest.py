"""Manifest of the REST backend, and its settings."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from mainstay.core.backend_settings import BackendSettings, resolve_path, strip_credentials
from mainstay.core.components import Component
from mainstay.core.settings import ConfigSection

_URL = re.compile(r"https?://[^\s/?#]+\S*")


class RestScope(ConfigSection, frozen=True, kw_only=True):
    """Globs of what can be reached; empty: everything."""

    paths: Annotated[tuple[str, ...], Meta(description="Paths: `/pets/**`; empty: all.")] = ()
    operations: Annotated[tuple[str, ...], Meta(description="Operations, by id; empty: all.")] = ()


class RestSettings(BackendSettings, frozen=True, kw_only=True):
    """One API."""

    kind: str = "rest"
    description: Annotated[str, Meta(description="OpenAPI description of the API, a file or a URL.")] = ""
    url: Annotated[str, Meta(description="Base URL of the API; default: from its OpenAPI description.")] = ""
    headers: Annotated[
        dict[str, str],
        Meta(description="HTTP headers of every request, for example for authentication; best given as `${VAR}`."),
    ] = {}
    scope: Annotated[RestScope, Meta(description="Allowlist of what can be reached, as globs.")] = RestScope()

    @property
    def location(self) -> str:
        return strip_credentials(self.url or self.description)

    def find_problem(self, mcp_servers: Collection[str]) -> str:
        return "'url' must begin with http:// or https://" if self.url and not _URL.fullmatch(self.url) else ""

    def resolve_paths(self, home: Path) -> Self:
        if "://" in self.description:
            return self
        return msgspec.structs.replace(self, description=resolve_path(self.description, home))


COMPONENT = Component(
    kind="backend",
    name="rest",
    summary="An HTTP API with an OpenAPI description.",
    settings=RestSettings,
    factory="mainstay.backends.rest.backend:build_rest_backend",
    required={"description": "openapi.yaml"},
    libraries={"jsonschema_rs": "jsonschema-rs"},
    install="pip install -e '.[rest]'",
    check="mainstay.backends.rest.health:check_rest_backend",
)
