"""What can be configured about know-how and triggers: skills, patterns, and work that nobody typed."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from mainstay.config.schema_base import Count, Section

Seconds = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]


class SkillSettings(Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Look for skills and offer them.")] = True
    folders: Annotated[
        tuple[str, ...],
        Meta(description="Further folders of skills, as `~/.agents/skills`: the broadest of all scopes."),
    ] = ()
    trusted: Annotated[
        tuple[str, ...],
        Meta(description="Names of installed skills that you have read and vouch for: their words are yours."),
    ] = ()
    catalogue_tokens: Annotated[
        Count,
        Meta(description="What the list of skills may take of every call, in tokens."),
    ] = 1_500
    body_tokens: Annotated[
        Count, Meta(description="What one skill may take when it is brought into a turn; the rest is read on demand.")
    ] = 8_000


class PatternSettings(Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Look for patterns and match them with what is asked.")] = True
    folders: Annotated[
        tuple[str, ...],
        Meta(description="Further folders of patterns: those of the home, and then the workspace's, go before them."),
    ] = ()
    matches: Annotated[int, Meta(ge=0, le=20, description="How many are appended to a turn at most.")] = 3
    threshold: Annotated[Share, Meta(description="How similar to a request a pattern must be, from 0 to 1.")] = 0.22
    tokens: Annotated[Count, Meta(description="What matched patterns may take of a turn together, in tokens.")] = 2_000


class WebhookEntry(Section, frozen=True, kw_only=True):
    """What comes in at `/hooks/NAME`."""

    secret: Annotated[str, Meta(description="What its sender signs with, best given as `${VAR}`.")]
    others: Annotated[
        tuple[str, ...], Meta(description="Further secrets that are taken too, while one is being changed.")
    ] = ()
    scheme: Annotated[
        Literal["timestamp", "standard", "github"],
        Meta(
            description="How it is signed: HMAC-SHA256 over `timestamp.body` in `X-Mainstay-Signature`; `standard`: as "
            "Standard Webhooks; `github`: over the body alone, as GitHub does."
        ),
    ] = "timestamp"
    workspace: Annotated[str, Meta(description="The workspace of that; empty: the configured one.")] = ""
    session: Annotated[str, Meta(description="The session that it speaks to.")] = ""
    channel: Annotated[str, Meta(description="Or a channel and a room, where each delivery is a new thread.")] = ""
    room: Annotated[str, Meta(description="The room in that channel.")] = ""
    text: Annotated[str, Meta(description="What the agent is to do, in your words; said before what came.")] = ""
    template: Annotated[
        str, Meta(description="What is shown of what came: `{{ issue.title }}` is a field of its JSON; empty: all.")
    ] = ""
    window_s: Annotated[Seconds, Meta(description="How old a delivery may be.")] = 300.0
    bytes_max: Annotated[Count, Meta(description="How large a delivery may be.")] = 1024 * 1024
    paused: Annotated[bool, Meta(description="Take nothing for now.")] = False


class TriggerSettings(Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="A chat and `trigger serve` fire what is due while they run.")] = True
    grace_s: Annotated[
        Seconds, Meta(description="What is later than this was missed, and its policy says what is done.")
    ] = 60.0
    catch_up_max: Annotated[
        Count, Meta(description="Of times that were missed, so many are run at most where the policy is `all`.")
    ] = 10
    check_timeout_s: Annotated[Seconds, Meta(description="For the command that says whether to wake the model.")] = 30.0
    poll_s: Annotated[
        Seconds, Meta(description="Files are also looked at so often, for disks that do not tell of changes.")
    ] = 2.0
    webhooks: Annotated[dict[str, WebhookEntry], Meta(description="What may come in at `/hooks/NAME`, by name.")] = {}
