"""What servers offer and answer, in words of our own: nothing here knows the SDK."""

from __future__ import annotations

from typing import Any

import msgspec


class Hints(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server says of the effects of a tool. None: it does not say."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class Listed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as its server describes it."""

    name: str  # as the server calls it
    description: str = ""  # to be shown: cleaned, and cut
    schema: dict[str, Any] = {}
    hints: Hints = Hints()
    hash: str = ""  # of all that was said of it, before it was cleaned


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What there was when it was last looked at."""

    tools: tuple[Listed, ...] = ()
    left_out: dict[str, str] = {}  # a tool's name, and why it is not offered
    resources: bool = False
    prompts: bool = False


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that is not as it was approved. None: there was none, or there is none any more."""

    name: str
    old: Listed | None
    new: Listed | None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a call, or of reading a resource."""

    text: str
    images: tuple[tuple[str, bytes], ...] = ()  # kind and data
    is_error: bool = False


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be read. A template's uri has gaps to be filled: `file:///{path}`."""

    uri: str
    name: str
    description: str = ""
    mime: str = ""
    template: bool = False


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """A page of them, and where the next one begins."""

    resources: tuple[Resource, ...]
    cursor: str = ""


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""
    required: bool = False


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A text that the server has ready for a person."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
