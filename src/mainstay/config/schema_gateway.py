"""What can be configured about the gateway: where it listens, who may come in, and on which channels."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mainstay.config.schema_base import Count, Section

Seconds = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]
KINDS = ("slack", "telegram", "discord", "matrix", "signal", "webhook", "terminal")


class TlsSettings(Section, frozen=True, kw_only=True):
    certificate: Annotated[str, Meta(description="A file with the certificate and those it depends on (PEM).")] = ""
    key: Annotated[str, Meta(description="A file with its private key (PEM).")] = ""


class ServerSettings(Section, frozen=True, kw_only=True):
    host: Annotated[
        str, Meta(description="Where `mainstay serve` listens; any other address than loopback needs an API key.")
    ] = "127.0.0.1"
    port: Annotated[Port, Meta(description="For HTTP; 0: any that is free.")] = 7460
    grpc_port: Annotated[Port | None, Meta(description="For gRPC; null: none.")] = None
    keys: Annotated[
        Literal["auto", "required"],
        Meta(description="auto: on loopback whoever is on this machine may come in without a key, as the owner."),
    ] = "auto"
    tls: Annotated[TlsSettings, Meta(description="To serve HTTPS, and gRPC over TLS.")] = TlsSettings()
    hosts: Annotated[
        tuple[str, ...], Meta(description="Names that this server is reached by, beside its address: `agent.lan`.")
    ] = ()
    origins: Annotated[
        tuple[str, ...], Meta(description="Web pages that may use it from elsewhere (CORS): `https://chat.example`.")
    ] = ()
    body_bytes_max: Annotated[Count, Meta(description="How large a request may be.")] = 32 * 1024 * 1024
    connections_max: Annotated[Count, Meta(description="Open connections at a time.")] = 2_000
    rate_per_min: Annotated[Count, Meta(description="Requests a minute with one key, unless the key says more.")] = 600
    streams_max: Annotated[Count, Meta(description="Open streams at a time with one key, unless it says more.")] = 64
    drain_s: Annotated[
        Seconds, Meta(description="How long turns may go on when the server is stopped; then they are taken up later.")
    ] = 30.0
    logs: Annotated[Literal["text", "json"], Meta(description="How the log is written.")] = "text"


class PersonEntry(Section, frozen=True, kw_only=True):
    """Somebody who is known without pairing."""

    called: Annotated[str, Meta(description="As people say it: `Ann Lee`.")] = ""
    role: Annotated[Literal["admin", "member", "guest"], Meta(description="What they may do.")] = "member"
    workspaces: Annotated[
        tuple[str, ...], Meta(description="Where they may enter, the first by default; empty: the configured one.")
    ] = ()
    identities: Annotated[
        dict[str, str], Meta(description="Their accounts, by the name of the channel: `slack: U012AB3CD`.")
    ] = {}


class ChannelEntry(Section, frozen=True, kw_only=True):
    """A chat platform. Which of the keys it needs depends on its kind."""

    kind: Annotated[
        Literal["", "slack", "telegram", "discord", "matrix", "signal", "webhook", "terminal"],
        Meta(description="Which platform; empty: as it is named."),
    ] = ""
    enabled: Annotated[bool, Meta(description="Connect to it.")] = True
    workspace: Annotated[str, Meta(description="Whose rooms these are; empty: the configured one.")] = ""
    rooms: Annotated[
        dict[str, Annotated[str, Meta(extra={"named": "anyhow"})]],
        Meta(description="Rooms that are another workspace's, by their ids: `C012AB3CD: team`."),
    ] = {}
    token: Annotated[str, Meta(description="The bot's token, best given as `${VAR}`.")] = ""
    app_token: Annotated[str, Meta(description="Slack: the token for socket mode (`xapp-…`).")] = ""
    signing_secret: Annotated[
        str, Meta(description="Slack: instead of an app token, events are posted to `/channels/NAME` and signed so.")
    ] = ""
    secret: Annotated[str, Meta(description="Webhook: what both sides sign with. Telegram: of its own webhook.")] = ""
    homeserver: Annotated[str, Meta(description="Matrix: where the account is, `https://matrix.example`.")] = ""
    user: Annotated[str, Meta(description="Matrix: the account, `@agent:example`. Signal: the number.")] = ""
    password: Annotated[str, Meta(description="Matrix: its password, if there is no token.")] = ""
    address: Annotated[
        str, Meta(description="Signal: where signal-cli's JSON-RPC listens, `host:port` or a path of a socket.")
    ] = ""
    url: Annotated[
        str, Meta(description="Webhook: where answers are posted to. Telegram: where its webhook reaches us.")
    ] = ""
    base_url: Annotated[str, Meta(description="The platform's API, where it is not the usual one.")] = ""
    stream: Annotated[bool, Meta(description="Show an answer while it is written, where messages can be edited.")] = (
        True
    )
    backfill: Annotated[
        Annotated[int, Meta(ge=0, le=200)], Meta(description="Messages of a thread that are caught up with at most.")
    ] = 50
    attachments: Annotated[bool, Meta(description="Fetch files that come with messages.")] = True
    attachment_bytes_max: Annotated[Count, Meta(description="The largest such file.")] = 20 * 1024 * 1024
