"""Configuration schema of skills, patterns and triggers."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mainstay.core.settings import ConfigSection, Count

Seconds = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class SkillSettings(ConfigSection, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Load skills and offer them.")] = True
    folders: Annotated[
        tuple[str, ...],
        Meta(
            description="More folders with skills, such as `~/.agents/skills`; skills of the home, a workspace or a "
            "room replace theirs."
        ),
    ] = ()
    trusted: Annotated[
        tuple[str, ...],
        Meta(description="Installed skills whose text counts as yours, by name; read them first."),
    ] = ()
    catalogue_tokens: Annotated[
        Count,
        Meta(description="Tokens of the skill list that is part of every model call."),
    ] = 1_500
    body_tokens: Annotated[
        Count, Meta(description="Tokens of one skill that is loaded into a turn; the rest is read on demand.")
    ] = 8_000


class PatternSettings(ConfigSection, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Load patterns and match them with each request.")] = True
    folders: Annotated[
        tuple[str, ...],
        Meta(description="More folders with patterns; patterns of the home and of the workspace replace theirs."),
    ] = ()
    matches: Annotated[int, Meta(ge=0, le=20, description="Patterns that are added to one turn.")] = 3
    threshold: Annotated[Share, Meta(description="Similarity from 0 to 1 at which a pattern matches a request.")] = 0.35
    tokens: Annotated[Count, Meta(description="Tokens of all patterns that are added to one turn.")] = 2_000
    window_tokens: Annotated[
        Count,
        Meta(description="Tokens of all patterns that the model sees at a time; further matches are only named."),
    ] = 4_000


class WebhookEntry(ConfigSection, frozen=True, kw_only=True):
    """A webhook at `/hooks/NAME`: who may send, and which session gets the prompt."""

    secret: Annotated[
        str, Meta(description="Secret with which the sender signs deliveries (HMAC), best given as `${VAR}`.")
    ]
    others: Annotated[tuple[str, ...], Meta(description="More secrets that are accepted, for rotation.")] = ()
    scheme: Annotated[
        Literal["timestamp", "standard", "github"],
        Meta(
            description="Signature scheme; `timestamp`: HMAC-SHA256 over `timestamp.body` in "
            "`X-Mainstay-Signature`; `standard`: Standard Webhooks; `github`: over the body alone, as "
            "GitHub does."
        ),
    ] = "timestamp"
    workspace: Annotated[str, Meta(description="Workspace of the session; empty: the configured one.")] = ""
    session: Annotated[str, Meta(description="Session that gets the prompt.")] = ""
    channel: Annotated[
        str, Meta(description="Instead of a session, a channel: each delivery starts a new thread in `room`.")
    ] = ""
    room: Annotated[str, Meta(description="Room in the channel.")] = ""
    text: Annotated[str, Meta(description="Instructions to the agent, placed before the delivery's content.")] = ""
    template: Annotated[
        str,
        Meta(
            description="Template for the delivery's content: `{{ issue.title }}` is a field of its JSON; empty: all."
        ),
    ] = ""
    window_s: Annotated[Seconds, Meta(description="Oldest accepted delivery, in seconds (replay protection).")] = 300.0
    bytes_max: Annotated[Count, Meta(description="Largest accepted delivery, in bytes.")] = 1024 * 1024
    paused: Annotated[bool, Meta(description="Refuse deliveries for now (404).")] = False


class TriggerSettings(ConfigSection, frozen=True, kw_only=True):
    enabled: Annotated[
        bool,
        Meta(description="Fire due triggers while `mainstay serve`, `mainstay chat` or `mainstay trigger serve` runs."),
    ] = True
    grace_s: Annotated[
        Seconds,
        Meta(
            description="Delay in seconds after which a scheduled run counts as missed; the trigger's `missed` "
            "policy then applies."
        ),
    ] = 60.0
    catch_up_max: Annotated[Count, Meta(description="Missed runs that are run later with the policy `all`.")] = 10
    check_timeout_s: Annotated[Seconds, Meta(description="Timeout of a trigger's check command, in seconds.")] = 30.0
    poll_s: Annotated[
        Seconds,
        Meta(
            description="Interval at which trigger files are also polled, in seconds, for file systems without "
            "change notifications."
        ),
    ] = 2.0
    webhooks: Annotated[dict[str, WebhookEntry], Meta(description="Webhooks at `/hooks/NAME`, by name.")] = {}
