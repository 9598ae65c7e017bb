"""What the configuration may not say about the gateway, and what becomes of what it says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from mainstay.config.schema import Config, wrong_workspace
from mainstay.config.schema_gateway import ChannelEntry
from mainstay.config.validation import Keys
from mainstay.core.errors import ConfigError
from mainstay.core.people import PERSON, Identity, Person, Role

CHANNEL = re.compile(r"[a-z][a-z0-9_-]{0,31}")  # the first part of its sessions' keys
OWNER = "owner"  # at a terminal
RESERVED = ("web", "user", "agent", "local", "main")  # what other keys begin with
_UNSET = re.compile(r"\$\{([^}]*)\}")
# what each kind cannot do without; of a tuple, one of them
_NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "slack": (("token",), ("app_token", "signing_secret")),
    "telegram": (("token",),),
    "discord": (("token",),),
    "matrix": (("homeserver",), ("user",), ("token", "password")),
    "signal": (("address",), ("user",)),
    "webhook": (("secret",), ("url",)),
    "terminal": (),
}
SECRETS = ("token", "app_token", "signing_secret", "secret", "password")


def check_gateway(config: Config, begun: Callable[[Keys], str]) -> None:
    """Raises ConfigError for the first thing that is wrong; `begun` says where that is."""
    for name in config.workspaces:
        if said := wrong_workspace(name):
            raise ConfigError(f"{begun(('workspaces', name))}the workspace {name[:80]!r} {said}")
    _check_people(config, begun)
    for name, entry in config.channels.items():
        keys: Keys = ("channels", name)
        if not CHANNEL.fullmatch(name) or name in RESERVED:
            said = f"must be named with 1 to 32 of a-z, 0-9, _ and -, and not {', '.join(RESERVED)}"
            raise ConfigError(f"{begun(keys)}the channel {name[:80]!r} {said}")
        if (kind := kind_of(name, entry)) not in _NEEDED:
            kinds = ", ".join(_NEEDED)
            raise ConfigError(f"{begun(keys)}the channel {name!r} must say which kind it is: {kinds}")
        for any_of in _NEEDED[kind]:
            if not any(getattr(entry, one) for one in any_of):
                raise ConfigError(f"{begun(keys)}the channel {name!r} needs {' or '.join(any_of)}")
        for workspace in (entry.workspace, *entry.rooms.values()):
            if workspace and (said := wrong_workspace(workspace)):
                raise ConfigError(
                    f"{begun(keys)}the channel {name!r} names the workspace {workspace[:80]!r}, which {said}"
                )


def _check_people(config: Config, begun: Callable[[Keys], str]) -> None:
    accounts: dict[tuple[str, str], str] = {}
    for name, entry in config.people.items():
        keys: Keys = ("people", name)
        if not PERSON.fullmatch(name) or name == OWNER:
            said = "must be named with 1 to 32 of a-z, 0-9, ., _ and -, and begin with a letter or a digit"
            raise ConfigError(f"{begun(keys)}the person {name[:80]!r} {said}")
        for workspace in entry.workspaces:
            if said := wrong_workspace(workspace):  # type: ignore[assignment]
                raise ConfigError(f"{begun(keys)}the workspace {workspace[:80]!r} of {name} {said}")
        for account in entry.identities.items():
            if (other := accounts.setdefault(account, name)) != name:
                raise ConfigError(f"{begun(keys)}{other} and {name} have the same account on {account[0]}")


def kind_of(name: str, entry: ChannelEntry) -> str:
    return entry.kind or name


def lacking(name: str, entry: ChannelEntry) -> str:
    """Why a channel cannot be used as things are: a variable that is not set; empty if it can."""
    for field in entry.__struct_fields__:
        value = getattr(entry, field)
        if isinstance(value, str) and (unset := _UNSET.search(value)) is not None:
            return f"the channel {name!r} needs its {field}: the variable {unset[1]} is not set"
    return ""


def people_of(config: Config) -> tuple[Sequence[Person], Sequence[Identity]]:
    """Those who are known without pairing, and their accounts."""
    people: list[Person] = []
    accounts: list[Identity] = []
    for name, entry in config.people.items():
        roles: dict[str, Role] = dict.fromkeys(entry.workspaces or (config.workspace,), entry.role)
        people.append(Person(name=name, called=entry.called, roles=roles))
        accounts += [Identity(channel=one, user=user, person=name) for one, user in entry.identities.items()]
    terminals = [name for name, entry in config.channels.items() if kind_of(name, entry) == "terminal"]
    if terminals:  # whoever sits at it is the owner
        everywhere: dict[str, Role] = dict.fromkeys((config.workspace, *config.workspaces), "admin")
        people.append(Person(name=OWNER, roles=everywhere))
        accounts += [Identity(channel=one, user=OWNER, person=OWNER) for one in terminals]
    return people, accounts


def channel_secrets(channels: Mapping[str, ChannelEntry]) -> list[str]:
    return [value for one in channels.values() for field in SECRETS if (value := getattr(one, field))]
