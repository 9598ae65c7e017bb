"""`mainstay channel …`: which chat platforms the gateway is on, and whether they work."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import secrets
from contextlib import ExitStack
from textwrap import TextWrapper
from typing import Any

import msgspec

from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.channel_kinds import KINDS, MEANT, needed, steps, variable
from mainstay.cli.commands.foreign import pairs, text_of
from mainstay.cli.commands.homes import Place, run_async
from mainstay.cli.commands.out import paint, print_json, print_table
from mainstay.cli.commands.talking import owner_of, tell
from mainstay.cli.commands.tree import UsageError
from mainstay.cli.commands.user import ask, here
from mainstay.config.check_gateway import SECRETS, kind_of, lacking
from mainstay.config.editing import add_entry, drop_entry, entry
from mainstay.config.loading import FILE
from mainstay.config.schema import Config, check_workspace
from mainstay.config.schema_gateway import ChannelEntry
from mainstay.config.validation import from_text
from mainstay.core.addresses import Address
from mainstay.core.channels import ChannelError, ChatChannel, Incoming
from mainstay.core.errors import AgentClosed, ConfigError, HomeTaken, InputRefused
from mainstay.gateway.channel_factory import KEPT, make_channel
from mainstay.gateway.workspace_folders import names
from mainstay.store.home import HomeLock, owner, prepare

SECTION = "channels"
ANSWER_S = 5.0  # for the server to say how it is
HELLO = "This is a test: Mainstay can post here."
_WRAPPER = TextWrapper(
    100, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
)
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_FIELDS = {one.name: one.type for one in msgspec.structs.fields(ChannelEntry)}
_ANY = ("attachment_bytes_max", "attachments", "backfill", "enabled", "rooms.ID", "stream")  # settings of every kind
_MORE = {"slack": ("base_url",), "telegram": ("base_url", "secret", "url"), "discord": ("base_url",)}  # may be given
_ELSEWHERE = {"kind": "it is the first argument", "workspace": "give it with --workspace"}


async def server_of(place: Place) -> dict[str, Any] | None:
    """What the server says of itself that owns this home; None if none does. Raises HomeTaken if somebody owns it who
    does not answer."""
    if (remote := owner_of(place)) is None:
        return None
    try:
        async with asyncio.timeout(ANSWER_S):
            try:
                found: dict[str, Any] = await remote.household("gateway.status", {})
            except HomeTaken:
                await remote.model()  # a chat knows that, and no server
                return None
            return found
    except TimeoutError:
        raise HomeTaken(f"process {_pid(place)} owns {place.data}, and does not answer; stop it, or wait") from None


def _is_served(place: Place) -> bool:
    """A server has it, which reads its configuration again when it is told to. Anybody else would end by that."""
    try:
        return run_async(server_of(place)) is not None
    except HomeTaken:
        return False


def _pid(place: Place) -> Any:
    return owner(place.data).get("pid", "?")


# --- list ----------------------------------------------------------------------------------------


def list_channels(options: argparse.Namespace) -> int:
    config, place = here(options)
    rows = run_async(_rows(config, place))
    if options.json:
        print_json({"ok": True, "channels": rows})
    elif not rows:
        tell(f"no channels are configured; `mainstay channel add` writes one into {FILE}: {', '.join(KINDS)}")
    else:
        table = [[row["name"], row["kind"], row["workspace"], row["state"]] for row in rows]
        print_table(["NAME", "KIND", "WORKSPACE", "STATE"], table)
    return 0


async def _rows(config: Config, place: Place) -> list[dict[str, Any]]:
    server = await server_of(place)
    states = dict(server["channels"]) if server is not None else {}
    rows: list[dict[str, Any]] = []
    for name, one in config.channels.items():
        about: dict[str, Any] = {"name": name, "kind": kind_of(name, one)}
        row = about | {"workspace": one.workspace or config.workspace}
        found = states.pop(name, None)
        row["connected"] = found == "connected"
        rows.append(row | {"state": found or _without_server(name, one, place, running=server is not None)})
    gone = f"it is not in {FILE} any more: `kill -HUP {_pid(place)}` has the server close it"
    return rows + [
        {"name": name, "kind": "", "workspace": "", "connected": said == "connected", "state": f"{said}; {gone}"}
        for name, said in states.items()
    ]


def _without_server(name: str, one: ChannelEntry, place: Place, *, running: bool) -> str:
    if not one.enabled:
        return "disabled"
    if said := trouble(name, one):
        return said
    if running:
        return f"the server does not know of it yet: `kill -HUP {_pid(place)}`"
    return "not connected: no server runs"


def trouble(name: str, one: ChannelEntry) -> str:
    """What is missing here for it to be connected; empty if nothing is."""
    if said := lacking(name, one):
        return said.removeprefix(f"the channel {name!r} ")
    kind = kind_of(name, one)
    if missing := KINDS[kind].missing():
        return f"needs {' and '.join(missing)}: pip install -e '.[{kind}]'"
    return ""


# --- add, remove ---------------------------------------------------------------------------------


def add(options: argparse.Namespace) -> int:
    config, place = here(options)
    kind: str = options.kind
    name = text_of(options.name or kind)
    made = _made(name, kind, pairs(options.settings, "setting: write KEY=VALUE"), plain=options.plain)
    made |= {"workspace": options.workspace} if options.workspace is not None else {}
    workspace = made.get("workspace", config.workspace)
    for one in (workspace, *made.get("rooms", {}).values()):
        _check_there(one, config, place)
    if not add_entry(place.home, (SECTION, name), made):
        other = "or call the new one otherwise with --name"
        raise ConfigError(f"there is a channel {name} already: `mainstay channel remove {name}` takes it out, {other}")
    if options.plain:
        (place.home / FILE).chmod(0o600)  # it holds a secret now
    wanted = [(key, value[2:-1]) for key, value in made.items() if key in SECRETS and _REFERENCE.fullmatch(value)]
    told = steps(name, kind, made)
    if options.json:
        variables = [{"name": one, "for": key, "set": bool(os.environ.get(one))} for key, one in wanted]
        about = {"name": name, "kind": kind, "workspace": workspace}
        print_json({"ok": True, **about, "path": str(place.home / FILE), "variables": variables, "steps": told})
        return 0
    print(f"{name} was added: {kind}, in the workspace {workspace}")
    for key, one in wanted:
        unset = "" if os.environ.get(one) else ": set it where the server runs"
        print(f"  - {paint(one, 'bold')} is {MEANT[key]}{unset}")
    for one in told:
        print(_WRAPPER.fill(visible(one)))
    _tell_next(place, name)
    return 0


def _tell_next(place: Place, name: str) -> None:
    if not _is_served(place):
        tell(f"then `mainstay channel test {name}` tries it; start `mainstay serve`, or send it SIGHUP")
    else:
        have = "a variable that it was not started with needs a new start"
        tell(f"then send SIGHUP to the server: `kill -HUP {_pid(place)}`; {have}")


def _check_there(workspace: str, config: Config, place: Place) -> None:
    if check_workspace(workspace) not in names(place.data, config):
        raise InputRefused(f"there is no workspace {workspace!r}; `mainstay workspace create {workspace}` makes it")


def _made(name: str, kind: str, given: dict[str, str], *, plain: bool) -> dict[str, Any]:
    """The entry, with a variable for each secret that it needs."""
    made: dict[str, Any] = {"kind": kind} if name != kind else {}
    for key, value in given.items():
        if key in SECRETS and not plain and not _REFERENCE.fullmatch(value):
            best = f"give it as {key}='${{{variable(name, kind, key)}}}' and set that variable"
            raise UsageError(f"{key} is a secret, and is not written into {FILE}: {best}; --plain writes it as it is")
        if key.startswith("rooms."):
            made.setdefault("rooms", {})[key.removeprefix("rooms.")] = value
        else:
            made[key] = _value(kind, key, value)
    for any_of in needed(kind):
        if any(key in made for key in any_of):
            continue
        if any_of[0] not in SECRETS:
            example = " ".join(f"{key}={said}" for key, said in KINDS[kind].asks.items())
            raise UsageError(f"{kind} needs {any_of[0]}: `mainstay channel add {kind} {example}`")
        made[any_of[0]] = f"${{{variable(name, kind, any_of[0])}}}"
    return made


def _settings(kind: str) -> list[str]:
    """Those that mean something to this kind."""
    return sorted({*_ANY, *_MORE.get(kind, ()), *(key for any_of in needed(kind) for key in any_of)})


def _value(kind: str, key: str, text: str) -> Any:
    if key not in _FIELDS or key not in _settings(kind):
        there = f"for {kind} there are {', '.join(_settings(kind))}"
        raise UsageError(f"{key!r} is no setting here: {_ELSEWHERE.get(key) or there}")
    return from_text(text, _FIELDS[key], key) if "${" not in text else text


def remove(options: argparse.Namespace) -> int:
    config, place = here(options)
    name: str = text_of(options.name)
    if entry(place.home, (SECTION, name)) is None:
        raise ConfigError(_unknown(config, name))
    drop_entry(place.home, (SECTION, name))
    if owner_of(place) is None:  # else it may be at work there; another of this name begins anew
        (place.data / KEPT / f"{name}.json").unlink(missing_ok=True)
    paired = run_async(_paired(config, place, name))
    if options.json:
        print_json({"ok": True, "name": name, "paired": paired})
        return 0
    print(f"{name} was removed")
    if _is_served(place):
        tell(f"the server has it until it is sent SIGHUP: `kill -HUP {_pid(place)}`")
    if paired:
        said = f"{count(len(paired), 'account')} on {name} still count, should another come under this name"
        tell(visible(f"{said}: `mainstay user unpair {name} {paired[0]}` takes one out"))
    return 0


async def _paired(config: Config, place: Place, name: str) -> list[str]:
    """Whoever was let in there: under this name they would be again, wherever that leads then."""
    try:
        people = await ask(config, place, "list", {})
    except HomeTaken:  # a chat owns the home, and knows nobody
        return []
    return [one["user"] for person in people for one in person["accounts"] if one["channel"] == name]


def _unknown(config: Config, name: str) -> str:
    return f"there is no channel {name!r} in {FILE}; there are: {', '.join(config.channels) or 'none'}"


# --- test ----------------------------------------------------------------------------------------


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    account: str = ""  # as whom
    state: str = ""
    posted: str = ""  # what the platform calls the message
    heard: int = 0  # messages that came meanwhile


def test(options: argparse.Namespace) -> int:
    config, place = here(options)
    name: str = text_of(options.name)
    if name not in config.channels:
        raise ConfigError(_unknown(config, name))
    tried = run_async(_tried(config.channels[name], place, options))
    if options.json:
        print_json({"ok": True, **msgspec.to_builtins(tried)})
        return 0
    whom = f" as {visible(tried.account)}" if tried.account else ""
    print(f"{paint('ok', 'green')}: {name} is connected{whom}")
    if tried.posted:
        print(f"posted to {visible(options.room)}")
    if tried.heard:
        fate = "lost: signal-cli tells everything once" if tried.kind == "signal" else "told again to the server"
        tell(f"{count(tried.heard, 'message')} came meanwhile, to be {fate}")
    return 0


async def _tried(one: ChannelEntry, place: Place, options: argparse.Namespace) -> Tried:
    name: str = options.name
    server = await server_of(place)
    if server is not None and server["channels"].get(name) == "connected":
        said = f"the server has it: connected (process {_pid(place)}); it is not connected a second time"
        raise HomeTaken(f"{name} is not tried, because {said}")
    with ExitStack() as stack:
        if owner_of(place) is None:  # and no server is to start meanwhile
            prepare(place.data)
            lock = HomeLock(place.data)
            lock.take()
            stack.callback(lock.release)
        channel = make_channel(name, one, place.data, lambda channel, user: False)
        return await _connected(channel, one, options)


async def _connected(channel: ChatChannel, one: ChannelEntry, options: argparse.Namespace) -> Tried:
    heard: set[str] = set()

    async def hear(message: Incoming) -> None:
        heard.add(message.id)
        raise AgentClosed("this is only a test; tell it again later")

    starting = asyncio.ensure_future(channel.start(hear))
    try:
        await asyncio.wait((starting,), timeout=options.wait)
        if not starting.done():
            raise ChannelError(f"{channel.name} was not connected within {options.wait:g} s: {channel.state}")
        starting.result()
        posted = ""
        if options.room:
            at = Address(channel.name, text_of(options.room))
            posted = (await channel.post(at, channel.format(HELLO), key=f"test-{secrets.token_hex(8)}")).id
        account = getattr(channel, "account", "") or one.user
        return Tried(
            name=channel.name, kind=channel.kind, account=account, state=channel.state, posted=posted, heard=len(heard)
        )
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await channel.close()
