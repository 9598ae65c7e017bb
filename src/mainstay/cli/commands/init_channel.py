"""The first channel of a new home. Secrets are neither asked for nor written: they belong in environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from mainstay.cli.commands.plugin_mcp_helpers import parse_pairs
from mainstay.cli.parser.base import UsageError
from mainstay.config.template import ChannelChoice
from mainstay.core.channel_settings import ChannelComponent, find_channel_component, list_channel_components
from mainstay.core.components import component_names
from mainstay.core.settings import list_secret_settings


def list_offered_kinds() -> list[str]:
    """Return the chat platforms to choose from. The terminal of the server is none: `mainstay chat` is simpler."""
    return [component.name for component in list_channel_components() if not component.is_owners_terminal]


def channel_from_options(kind: str, settings: list[str]) -> ChannelChoice:
    """Return the channel that the command line options describe. Raises UsageError."""
    if kind not in component_names("channel"):
        kinds = ", ".join(list_offered_kinds())
        raise UsageError(f"{kind!r} is not a supported chat platform; choose one of: none, {kinds}")
    component = find_channel_component(kind)
    pairs = parse_pairs(settings, "setting: write KEY=VALUE")
    for key in pairs:
        if key in list_secret_settings(component.settings):
            raise UsageError(
                f"{key} is a secret, and is not written: set the variable {component.secret_variable(kind, key)}"
            )
        if key not in component.required:
            hint = f"only {', '.join(component.required)}" if component.required else "it needs none"
            raise UsageError(f"{kind} has no setting {key!r} here, {hint}; `mainstay channel add` accepts more")
    if missing := [key for key in component.required if key not in pairs]:
        example = " ".join(f"--set {key}={component.required[key]}" for key in missing)
        raise UsageError(f"{kind} needs {' and '.join(missing)}: add {example}")
    return ChannelChoice(kind, _build_settings(component, pairs))


def ask_channel(kind: str, ask: Callable[[str, str], str]) -> ChannelChoice | None:
    """Ask the user for the required settings; None if one is left empty: then no channel is added."""
    component = find_channel_component(kind)
    answers: dict[str, str] = {}
    for key, example in component.required.items():
        answers[key] = ask(f"  {key}, for example {example}; Enter leaves the channel out", "")
        if not answers[key]:
            return None
    return ChannelChoice(kind, _build_settings(component, answers))


def _build_settings(component: ChannelComponent, settings: Mapping[str, str]) -> dict[str, str]:
    """Add an environment variable for each secret, named as `mainstay channel add` names it."""
    variables = {group[0]: component.secret_variable(component.name, group[0]) for group in component.secrets}
    return {**settings, **{key: f"${{{variable}}}" for key, variable in variables.items()}}


def list_secret_variables(channel: ChannelChoice) -> list[tuple[str, str, bool]]:
    """Return the variables of the channel's secrets: name, description, and whether it is set."""
    component = find_channel_component(channel.kind)
    secret_keys = list_secret_settings(component.settings)
    variables = [(key, value[2:-1]) for key, value in channel.settings.items() if key in secret_keys]
    return [(name, component.describe_secret(key), bool(os.environ.get(name))) for key, name in variables]


def remaining_steps(channel: ChannelChoice) -> list[str]:
    """Return what the owner still has to do on the platform."""
    return find_channel_component(channel.kind).setup_steps(channel.kind, channel.settings)
