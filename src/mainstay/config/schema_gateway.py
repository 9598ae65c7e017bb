"""Configuration schema of the gateway: server and people."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mainstay.core.settings import ConfigSection, Count

Seconds = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]


class TlsSettings(ConfigSection, frozen=True, kw_only=True):
    certificate: Annotated[str, Meta(description="File with the certificate chain (PEM).")] = ""
    key: Annotated[str, Meta(description="File with the private key (PEM).")] = ""


class ServerSettings(ConfigSection, frozen=True, kw_only=True):
    host: Annotated[
        str, Meta(description="Address on which `mainstay serve` listens; any other than loopback requires API keys.")
    ] = "127.0.0.1"
    port: Annotated[Port, Meta(description="HTTP port; 0: any free port.")] = 7460
    grpc_port: Annotated[Port | None, Meta(description="gRPC port; null: no gRPC.")] = None
    keys: Annotated[
        Literal["auto", "required"],
        Meta(
            description="Authentication; auto: clients on loopback need no API key and act as the owner; required: "
            "every client needs one."
        ),
    ] = "auto"
    tls: Annotated[TlsSettings, Meta(description="Certificate for HTTPS, and for gRPC over TLS.")] = TlsSettings()
    hosts: Annotated[
        tuple[str, ...],
        Meta(description="Host names of this server in addition to its address (Host header allowlist): `agent.lan`."),
    ] = ()
    origins: Annotated[
        tuple[str, ...],
        Meta(
            description="Web origins that may use the server from a browser (CORS allowlist): `https://chat.example`."
        ),
    ] = ()
    body_bytes_max: Annotated[Count, Meta(description="Size of a request body, in bytes.")] = 32 * 1024 * 1024
    connections_max: Annotated[Count, Meta(description="Open connections at a time.")] = 2_000
    rate_per_min: Annotated[
        Count, Meta(description="Rate limit: requests per minute with one API key, unless the key has its own limit.")
    ] = 600
    streams_max: Annotated[
        Count, Meta(description="Open streams at a time with one API key, unless the key has its own limit.")
    ] = 64
    drain_s: Annotated[
        Seconds,
        Meta(
            description="How long turns may continue on shutdown, in seconds; unfinished ones resume at the next start."
        ),
    ] = 30.0
    logs: Annotated[Literal["text", "json"], Meta(description="Format of the log.")] = "text"


class PersonEntry(ConfigSection, frozen=True, kw_only=True):
    """A person who needs no pairing."""

    called: Annotated[str, Meta(description="Display name: `Ann Lee`.")] = ""
    role: Annotated[Literal["admin", "member", "guest"], Meta(description="Role in the workspaces.")] = "member"
    workspaces: Annotated[
        tuple[str, ...], Meta(description="Workspaces of the person, the first by default; empty: the configured one.")
    ] = ()
    identities: Annotated[
        dict[str, str], Meta(description="Accounts on chat platforms, by channel name: `slack: U012AB3CD`.")
    ] = {}
