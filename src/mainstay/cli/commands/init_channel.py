"""The first channel of a new home: what it needs, of which nothing secret is asked or written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from mainstay.cli.commands.channel_kinds import KINDS, MEANT, needed, steps, variable
from mainstay.cli.commands.foreign import pairs
from mainstay.cli.commands.init_draft import Channel
from mainstay.cli.commands.verbs import UsageError
from mainstay.config.check_gateway import SECRETS

OFFERED = tuple(one for one in KINDS if one != "terminal")


def given(kind: str, settings: list[str]) -> Channel:
    """From the command line."""
    if kind not in KINDS:
        raise UsageError(f"{kind!r} is no chat platform here; there are: none, {', '.join(OFFERED)}")
    told = pairs(settings, "setting: write KEY=VALUE")
    asks = KINDS[kind].asks
    for key in told:
        if key in SECRETS:
            raise UsageError(f"{key} is a secret, and is not written: set the variable {variable(kind, kind, key)}")
        if key not in asks:
            there = f"there are {', '.join(asks)}" if asks else "it needs none"
            raise UsageError(f"{kind} has no setting {key!r} here, {there}; `mainstay channel add` knows more")
    if missing := [key for key in asks if key not in told]:
        example = " ".join(f"--set {key}={asks[key]}" for key in missing)
        raise UsageError(f"{kind} needs {' and '.join(missing)}: add {example}")
    return Channel(kind, _entry(kind, told))


def asked(kind: str, ask: Callable[[str, str], str]) -> Channel | None:
    """From somebody who is there; None if they leave something out: then it is none, for now."""
    told: dict[str, str] = {}
    for key, example in KINDS[kind].asks.items():
        told[key] = ask(f"  {key}, for example {example}; Enter leaves the channel out", "")
        if not told[key]:
            return None
    return Channel(kind, _entry(kind, told))


def _entry(kind: str, told: Mapping[str, str]) -> dict[str, str]:
    """A variable for each secret, as `mainstay channel add` names it."""
    entry = dict(told)
    for any_of in needed(kind):
        if not any(key in entry for key in any_of):
            entry[any_of[0]] = f"${{{variable(kind, kind, any_of[0])}}}"
    return entry


def variables(channel: Channel) -> list[tuple[str, str, bool]]:
    """Its secrets: the variable, what it holds, and whether it is set."""
    found = [(key, value[2:-1]) for key, value in channel.entry.items() if key in SECRETS]
    return [(name, MEANT[key], bool(os.environ.get(name))) for key, name in found]


def left_to_do(channel: Channel) -> list[str]:
    """On the platform's side."""
    return steps(channel.kind, channel.kind, channel.entry)
