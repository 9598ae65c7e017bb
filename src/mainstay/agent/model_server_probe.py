"""Models to check, and their servers: resolves base URL and API key variable, probes a server without a model call."""

from __future__ import annotations

import json
import os
import time
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import msgspec

from mainstay.config.schema import FILE, Config, ModelEntry
from mainstay.core.errors import ConfigError
from mainstay.core.provider_manifest import ProviderComponent, ProviderSettings
from mainstay.core.worker_threads import run_in_thread
from mainstay.providers.registry import find_provider

RESPONSE_BYTES_MAX = 1024 * 1024
NAMES_MAX = 200


class ModelCheckTarget(msgspec.Struct, frozen=True):
    """A model to check, and the configuration to use for it."""

    config: Config
    spec: str  # provider/model
    reason: str  # why it is used, as a clause: "it is in your configuration"

    @property
    def provider(self) -> str:
        return self.spec.partition("/")[0]

    @property
    def name(self) -> str:
        return self.spec.partition("/")[2]

    @property
    def settings(self) -> ProviderSettings:
        return self.config.providers.get(self.provider) or ProviderSettings()

    def find_component(self) -> ProviderComponent | None:
        """Return the provider's manifest; None if it is a server of the user's own, or cannot be loaded."""
        try:
            return find_provider(self.provider)
        except ConfigError:  # building the provider reports it
            return None


class ServerProbeResult(msgspec.Struct, frozen=True):
    """A server that answered. `clock_ahead_s`: how far its clock is ahead of ours; None: it sent no date."""

    host: str
    clock_ahead_s: float | None
    models: tuple[str, ...] = ()


def resolve_base_url(target: ModelCheckTarget) -> str:
    """Return the base URL that the provider will use; "" if none is known."""
    entry = next(
        (entry for entry in target.config.models if isinstance(entry, ModelEntry) and entry.model == target.spec), None
    )
    if url := (entry.base_url if entry else None) or target.settings.base_url:
        return url
    component = target.find_component()
    if component is None:
        return ""
    try:
        return component.find_base_url(os.environ)
    except ConfigError:  # reported when a model of it is used
        return component.base_url


def redact_base_url(target: ModelCheckTarget) -> str:
    """Return the base URL without password and query: people share the output of `doctor`."""
    try:
        parts = urlsplit(resolve_base_url(target))
    except ValueError:
        return ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def is_local_server(target: ModelCheckTarget) -> bool:
    """Whether the model's server is on this machine."""
    host = urlsplit(redact_base_url(target)).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def api_key_variable(target: ModelCheckTarget) -> str:
    """Return the provider's usual environment variable for the API key; "" if it needs none."""
    component = target.find_component()
    return component.key_variable if component is not None else ""


def api_key_advice(target: ModelCheckTarget) -> str:
    """Return where to set the API key: in the configuration if it is set there, else in the environment."""
    configured, variable = target.settings.api_key, api_key_variable(target)
    if configured and configured != os.environ.get(variable, ""):
        return f"see providers.{target.provider}.api_key in {FILE}, and the variable it refers to"
    return (
        f"export {variable}=…" if variable else f"mainstay config set providers.{target.provider}.api_key '${{NAME}}'"
    )


async def probe_server(target: ModelCheckTarget, timeout_s: float) -> ServerProbeResult | None:
    """Request the model list without an API key; None if nothing answers in time."""
    address = redact_base_url(target)
    if urlsplit(address).scheme not in ("http", "https"):
        return None
    reached: ServerProbeResult | None = await run_in_thread(lambda: _request_models(address, timeout_s))
    return reached


def _request_models(base_url: str, timeout_s: float) -> ServerProbeResult | None:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen  # which use the proxies of the environment

    body = b""
    sent = time.time()
    try:
        request = Request(f"{base_url.rstrip('/')}/models", headers={"Accept": "application/json"})
        with urlopen(request, timeout=timeout_s) as response:
            headers, received = response.headers, time.time()
            body = response.read(RESPONSE_BYTES_MAX)
    except HTTPError as error:  # the server answered
        headers, received = error.headers, time.time()
        error.close()
    except (OSError, HTTPException, ValueError):
        return None
    return ServerProbeResult(
        urlsplit(base_url).hostname or "",
        _compute_clock_ahead(headers.get("Date"), sent, received),
        _parse_model_names(body),
    )


def _compute_clock_ahead(date: str | None, sent_at: float, received_at: float) -> float | None:
    """Return how far the server's clock is ahead of the middle of the exchange; its date has whole seconds only."""
    if not date:
        return None
    try:
        server_time = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None
    if sent_at - 1 <= server_time <= received_at + 1:
        return 0.0
    return server_time - (sent_at + received_at) / 2


def _parse_model_names(body: bytes) -> tuple[str, ...]:
    try:
        listed: object = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return ()
    match listed:
        case {"data": list(entries)}:
            names = [entry["id"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
            return tuple(name for name in names if name.isprintable())[:NAMES_MAX]
    return ()
