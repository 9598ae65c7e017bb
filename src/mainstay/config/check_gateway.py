"""Checks the configuration of the gateway: workspaces, people and channels; declared people and their accounts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from mainstay.config.schema import FILE, Config, find_workspace_name_problem
from mainstay.config.schema_validator import Keys
from mainstay.core.channel_settings import ChannelComponent, ChannelSettings, channel_kind, find_channel_component
from mainstay.core.errors import ConfigError
from mainstay.core.people import PERSON_NAME_PATTERN, ChannelIdentity, Person, PersonRole

CHANNEL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")  # the first part of its sessions' keys
OWNER = "owner"  # the person at a terminal channel
RESERVED_CHANNEL_NAMES = ("web", "user", "agent", "local", "main")  # session keys of other kinds begin with these
_UNSET = re.compile(r"\$\{([^}]*)\}")


def check_gateway(config: Config, position_of: Callable[[Keys], str]) -> None:
    """Raise ConfigError for the first mistake; `position_of` returns the position of a key, which begins the error."""
    for name in config.workspaces:
        if problem := find_workspace_name_problem(name):
            raise ConfigError(f"{position_of(('workspaces', name))}the workspace {name[:80]!r} {problem}")
    _check_people(config, position_of)
    for name, entry in config.channels.items():
        keys: Keys = ("channels", name)
        if not CHANNEL_NAME.fullmatch(name) or name in RESERVED_CHANNEL_NAMES:
            rule = f"must be named with 1 to 32 of a-z, 0-9, _ and -, and not {', '.join(RESERVED_CHANNEL_NAMES)}"
            raise ConfigError(f"{position_of(keys)}the channel {name[:80]!r} {rule}")
        component = find_channel_component(channel_kind(name, entry))
        for any_of in component.required_groups():
            if not any(getattr(entry, key) for key in any_of):
                needs = f"the channel {name!r} needs {' or '.join(any_of)}"
                raise ConfigError(f"{position_of(keys)}{needs}: {_suggest_setting(name, component, any_of[0])}")
        for workspace in (entry.workspace, *entry.rooms.values()):
            if workspace and (problem := find_workspace_name_problem(workspace)):
                raise ConfigError(
                    f"{position_of(keys)}the channel {name!r} names the workspace {workspace[:80]!r}, which {problem}"
                )


def _suggest_setting(name: str, component: ChannelComponent, key: str) -> str:
    """Return what to write for a setting that is missing."""
    if key in component.required:
        return f"for example `{key}: {component.required[key]}`"
    variable = component.secret_variable(name, key)
    hint = f", with {component.secret_hints[key]}" if key in component.secret_hints else ""
    return f"write `{key}: ${{{variable}}}` and set the environment variable {variable}{hint}"


def _check_people(config: Config, position_of: Callable[[Keys], str]) -> None:
    accounts: dict[tuple[str, str], str] = {}
    for name, entry in config.people.items():
        keys: Keys = ("people", name)
        if not PERSON_NAME_PATTERN.fullmatch(name) or name == OWNER:
            rule = (
                f"must be named with 1 to 32 of a-z, 0-9, ., _ and -, begin with a letter or a digit, and not {OWNER!r}"
            )
            raise ConfigError(f"{position_of(keys)}the person {name[:80]!r} {rule}")
        for workspace in entry.workspaces:
            if problem := find_workspace_name_problem(workspace):
                raise ConfigError(f"{position_of(keys)}the workspace {workspace[:80]!r} of {name} {problem}")
        for account in entry.identities.items():
            if (other := accounts.setdefault(account, name)) != name:
                key = f"people.{name}.identities.{account[0]}"
                raise ConfigError(f"{position_of(keys)}'{key}': {other} has the same account; remove one")


def find_missing_setting(name: str, entry: ChannelSettings) -> str:
    """Return which setting needs an environment variable that is not set, as a sentence; empty if none does."""
    if (problem := _find_unset_variable(entry)) is None:
        return ""
    return f"the channel {name!r} needs its {problem[1]}: the variable {problem[0]} is not set"


def _find_unset_variable(entry: ChannelSettings) -> tuple[str, str] | None:
    """Return the first environment variable that is not set, and the setting that needs it."""
    for field in entry.__struct_fields__:
        value = getattr(entry, field)
        if isinstance(value, str) and (unset := _UNSET.search(value)) is not None:
            return unset[1].removeprefix("env:"), field
    return None


def find_unset_channels(config: Config, origins: Mapping[str, str]) -> Iterator[str]:
    """Yield one sentence for every enabled channel that needs an environment variable which is not set; `origins` has
    the file and line of each dotted key."""
    for name, entry in config.channels.items():
        if entry.enabled and (problem := _find_unset_variable(entry)) is not None:
            variable, field = problem
            key = f"channels.{name}.{field}"
            position = origins.get(key, FILE).replace(":", " line ")
            needs = f"needs the environment variable {variable!r}, which is not set"
            yield f"the channel {name} is left out: {position}: {key!r} {needs}"


def build_people(config: Config) -> tuple[Sequence[Person], Sequence[ChannelIdentity]]:
    """Return the people of the configuration and their accounts on channels; they need no pairing."""
    people: list[Person] = []
    accounts: list[ChannelIdentity] = []
    for name, entry in config.people.items():
        roles: dict[str, PersonRole] = dict.fromkeys(entry.workspaces or (config.workspace,), entry.role)
        people.append(Person(name=name, display_name=entry.called, roles=roles))
        accounts += [
            ChannelIdentity(channel=channel, user=user, person=name) for channel, user in entry.identities.items()
        ]
    terminals = [
        name
        for name, entry in config.channels.items()
        if find_channel_component(channel_kind(name, entry)).is_owners_terminal
    ]
    if terminals:  # the person at a terminal is the owner
        admin_roles: dict[str, PersonRole] = dict.fromkeys((config.workspace, *config.workspaces), "admin")
        people.append(Person(name=OWNER, roles=admin_roles))
        accounts += [ChannelIdentity(channel=channel, user=OWNER, person=OWNER) for channel in terminals]
    return people, accounts
