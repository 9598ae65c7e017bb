"""`mainstay channel list|add|remove|test`: the chat platforms that the gateway connects to."""

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

from mainstay.cli.commands.agent_setup import find_owner, print_note
from mainstay.cli.commands.home_locator import WorkspaceLocation, run_async
from mainstay.cli.commands.output import print_json, print_table, style_text
from mainstay.cli.commands.plugin_mcp_helpers import check_utf8, parse_pairs
from mainstay.cli.commands.user import load_home
from mainstay.cli.parser.root import UsageError
from mainstay.config.editor import add_entry, read_entry, remove_entry
from mainstay.config.loader import FILE
from mainstay.config.schema import Config, check_workspace
from mainstay.config.schema_validator import parse_text_value
from mainstay.core.channel_settings import ChannelComponent, ChannelSettings, channel_kind, find_channel_component
from mainstay.core.channels import ChannelError, ChatChannel, IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.components import component_names
from mainstay.core.errors import AgentClosed, ConfigError, HomeTaken, InputRefused
from mainstay.core.outcome_text import format_count
from mainstay.core.settings import list_secret_settings
from mainstay.gateway.channel_connection import ChannelCrashed, start_channel
from mainstay.gateway.channel_factory import build_channel, channel_state_path
from mainstay.gateway.delivery import with_call_timeout
from mainstay.gateway.health import find_channel_problem
from mainstay.gateway.home_client import execute_on_home, load_server_status
from mainstay.gateway.workspace_folders import list_workspace_names
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.operations.people import ListPeople
from mainstay.store.home import HomeLock, prepare_home, read_lock_owner

SECTION = "channels"
TEST_MESSAGE = "This is a test: Mainstay can post here."
_WRAPPER = TextWrapper(
    100, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
)
_VARIABLE_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_SETTING_HINTS = {"kind": "it is the first argument", "workspace": "use --workspace"}


def _is_server_running(location: WorkspaceLocation) -> bool:
    """Whether a server owns the home. It reloads its configuration on SIGHUP, which would end any other process."""
    try:
        return run_async(load_server_status(location.data)) is not None
    except HomeTaken:
        return False


def _owner_pid(location: WorkspaceLocation) -> Any:
    return read_lock_owner(location.data).get("pid", "?")


# --- list ----------------------------------------------------------------------------------------


def list_channels(options: argparse.Namespace) -> int:
    config, place = load_home(options)
    rows = run_async(_describe_channels(config, place))
    if options.json:
        print_json({"ok": True, "channels": rows})
    elif not rows:
        kinds = ", ".join(component_names("channel"))
        print_note(f"no channels are configured; `mainstay channel add KIND` adds one: {kinds}")
    else:
        table = [[row["name"], row["kind"], row["workspace"], row["state"]] for row in rows]
        print_table(["NAME", "KIND", "WORKSPACE", "STATE"], table)
    return 0


async def _describe_channels(config: Config, location: WorkspaceLocation) -> list[dict[str, Any]]:
    server = await load_server_status(location.data)
    states = dict(server.channels) if server is not None else {}
    rows: list[dict[str, Any]] = []
    for name, channel in config.channels.items():
        about: dict[str, Any] = {"name": name, "kind": channel_kind(name, channel)}
        row = about | {"workspace": channel.workspace or config.workspace}
        state = states.pop(name, None)
        row["connected"] = state == "connected"
        rows.append(
            row
            | {"state": state or _describe_unconnected(name, channel, location, is_server_running=server is not None)}
        )
    removed = f"no longer in {FILE}; `kill -HUP {_owner_pid(location)}` makes the server close it"
    return rows + [
        {"name": name, "kind": "", "workspace": "", "connected": state == "connected", "state": f"{state}; {removed}"}
        for name, state in states.items()
    ]


def _describe_unconnected(
    name: str, entry: ChannelSettings, location: WorkspaceLocation, *, is_server_running: bool
) -> str:
    if not entry.enabled:
        return "disabled"
    if problem := find_channel_problem(name, entry):
        return problem
    if is_server_running:
        return f"the server has not loaded it yet: `kill -HUP {_owner_pid(location)}`"
    return "not connected: no server is running"


# --- add, remove ---------------------------------------------------------------------------------


def add(options: argparse.Namespace) -> int:
    config, place = load_home(options)
    kind: str = options.kind
    component = find_channel_component(kind)
    name = check_utf8(options.name or kind)
    settings = _build_entry(
        name, component, parse_pairs(options.settings, "setting: write KEY=VALUE"), allow_plain=options.plain
    )
    settings |= {"workspace": options.workspace} if options.workspace is not None else {}
    workspace = settings.get("workspace", config.workspace)
    for used in (workspace, *settings.get("rooms", {}).values()):
        _check_workspace_exists(used, config, place)
    if not add_entry(place.home, (SECTION, name), settings):
        remove = f"remove it with `mainstay channel remove {name}`"
        raise ConfigError(f"there is already a channel {name}: {remove}, or choose another name with --name")
    if options.plain:
        (place.home / FILE).chmod(0o600)  # the file now contains a secret
    wanted = [
        (key, settings[key][2:-1])
        for key in settings
        if key in list_secret_settings(component.settings) and _VARIABLE_REFERENCE.fullmatch(settings[key])
    ]
    instructions = component.setup_steps(name, settings)
    if options.json:
        variables = [{"name": env, "for": key, "set": bool(os.environ.get(env))} for key, env in wanted]
        about = {"name": name, "kind": kind, "workspace": workspace}
        print_json({"ok": True, **about, "path": str(place.home / FILE), "variables": variables, "steps": instructions})
        return 0
    print(f"{name} was added: {kind}, in the workspace {workspace}")
    for key, env in wanted:
        unset = "" if os.environ.get(env) else ": set it where the server runs"
        print(f"  - {style_text(env, 'bold')} is {component.describe_secret(key)}{unset}")
    for step in instructions:
        print(_WRAPPER.fill(escape_line(step)))
    _print_next_step(place, name)
    return 0


def _print_next_step(location: WorkspaceLocation, name: str) -> None:
    if not _is_server_running(location):
        print_note(f"then test it with `mainstay channel test {name}`, and start `mainstay serve` or send it SIGHUP")
    else:
        restart = "restart it if a variable is new to it"
        print_note(f"then send SIGHUP to the server: `kill -HUP {_owner_pid(location)}`; {restart}")


def _check_workspace_exists(workspace: str, config: Config, location: WorkspaceLocation) -> None:
    if check_workspace(workspace) not in list_workspace_names(location.data, config):
        create = f"create it with `mainstay workspace create {workspace}`"
        raise InputRefused(f"there is no workspace {workspace!r}; {create}")


def _build_entry(
    name: str, component: ChannelComponent, arguments: dict[str, str], *, allow_plain: bool
) -> dict[str, Any]:
    """Build the channel's configuration entry, with a variable reference for each secret that was not given."""
    kind, secret_keys = component.name, list_secret_settings(component.settings)
    settings: dict[str, Any] = {"kind": kind} if name != kind else {}
    for key, value in arguments.items():
        if key in secret_keys and not allow_plain and not _VARIABLE_REFERENCE.fullmatch(value):
            best = f"write {key}='${{{component.secret_variable(name, key)}}}' and set that variable"
            raise UsageError(f"{key} is a secret and is not written into {FILE}: {best}, or add --plain to write it")
        if key.startswith("rooms."):
            settings.setdefault("rooms", {})[key.removeprefix("rooms.")] = value
        else:
            settings[key] = _parse_setting(component, key, value)
    if missing := [key for key in component.required if key not in settings]:
        example = " ".join(f"{key}={value}" for key, value in component.required.items())
        raise UsageError(f"{kind} needs {missing[0]}: `mainstay channel add {kind} {example}`")
    for any_of in component.secrets:
        if not any(key in settings for key in any_of):
            settings[any_of[0]] = f"${{{component.secret_variable(name, any_of[0])}}}"
    return settings


def _parse_setting(component: ChannelComponent, key: str, text: str) -> Any:
    types = {field.name: field.type for field in msgspec.structs.fields(component.settings)}
    if key not in types or key in (*_SETTING_HINTS, "rooms"):
        names = sorted("rooms.ID" if name == "rooms" else name for name in types if name not in _SETTING_HINTS)
        known = f"the settings of {component.name} are {', '.join(names)}"
        raise UsageError(f"{key!r} is not a setting: {_SETTING_HINTS.get(key) or known}")
    return parse_text_value(text, types[key], key) if "${" not in text else text


def remove(options: argparse.Namespace) -> int:
    config, place = load_home(options)
    name: str = check_utf8(options.name)
    if read_entry(place.home, (SECTION, name)) is None:
        raise ConfigError(_describe_unknown_channel(config, name))
    remove_entry(place.home, (SECTION, name))
    if find_owner(place) is None:  # a running server may still use the state; a new channel of this name starts fresh
        channel_state_path(place.data, name).unlink(missing_ok=True)
    paired = run_async(_list_paired_accounts(config, place, name))
    if options.json:
        print_json({"ok": True, "name": name, "paired": paired})
        return 0
    print(f"{name} was removed")
    if _is_server_running(place):
        print_note(f"the server keeps it connected until it gets SIGHUP: `kill -HUP {_owner_pid(place)}`")
    if paired:
        still = f"{format_count(len(paired), 'account')} on {name} stay paired, also for a new channel of this name"
        print_note(escape_line(f"{still}; `mainstay user unpair {name} {paired[0]}` removes one"))
    return 0


async def _list_paired_accounts(config: Config, location: WorkspaceLocation, name: str) -> list[str]:
    """Return the accounts paired on this channel: a new channel of the same name would accept them."""
    try:
        people = (await execute_on_home(config, location.data, ListPeople())).people
    except HomeTaken:  # a chat owns the home, and has no list of people
        return []
    return [account.user for person in people for account in person.accounts if account.channel == name]


def _describe_unknown_channel(config: Config, name: str) -> str:
    return f"there is no channel {name!r} in {FILE}; configured channels: {', '.join(config.channels) or 'none'}"


# --- test ----------------------------------------------------------------------------------------


class ChannelTestResult(msgspec.Struct, frozen=True, kw_only=True, rename={"messages_received": "heard"}):
    name: str
    kind: str
    account: str = ""  # the bot's account on the platform
    state: str = ""
    posted: str = ""  # the platform's id of the test message; "": none was posted
    messages_received: int = 0  # messages that arrived during the test


def test(options: argparse.Namespace) -> int:
    config, place = load_home(options)
    name: str = check_utf8(options.name)
    if name not in config.channels:
        raise ConfigError(_describe_unknown_channel(config, name))
    result = run_async(_test_channel(config.channels[name], place, options))
    if options.json:
        print_json({"ok": True, **msgspec.to_builtins(result)})
        return 0
    account = f" as {escape_line(result.account)}" if result.account else ""
    print(f"{style_text('ok', 'green')}: {name} is connected{account}")
    if result.posted:
        print(f"posted to {escape_line(options.room)}")
    if result.messages_received:
        redelivers = find_channel_component(channel_kind(name, config.channels[name])).redelivers
        fate = "delivered again to the server" if redelivers else "lost, because the platform delivers each only once"
        print_note(f"{format_count(result.messages_received, 'message')} arrived during the test and will be {fate}")
    return 0


async def _test_channel(
    entry: ChannelSettings, location: WorkspaceLocation, options: argparse.Namespace
) -> ChannelTestResult:
    name: str = options.name
    server = await load_server_status(location.data)
    if server is not None and server.channels.get(name) == "connected":
        connected = (
            f"the server (process {_owner_pid(location)}) is connected to it, and a second connection would interfere"
        )
        raise HomeTaken(f"{name} was not tested: {connected}")
    with ExitStack() as stack:
        if find_owner(location) is None:  # lock the home, so that no server starts meanwhile
            prepare_home(location.data)
            lock = HomeLock(location.data)
            lock.acquire()
            stack.callback(lock.release)
        channel = build_channel(name, entry, location.data, lambda channel, user: False)
        return await _connect_and_post(channel, options)


async def _connect_and_post(channel: ChatChannel, options: argparse.Namespace) -> ChannelTestResult:
    received: set[str] = set()

    async def refuse(message: IncomingMessage) -> None:
        received.add(message.id)
        raise AgentClosed("this is only a test; deliver it again later")

    starting = asyncio.ensure_future(start_channel(channel, refuse))
    try:
        await asyncio.wait((starting,), timeout=options.wait)
        if not starting.done():
            raise ChannelError(f"{channel.name} did not connect within {options.wait:g} s: {channel.state}")
        try:
            starting.result()
        except ChannelCrashed as error:
            raise ChannelError(f"{channel.name} is not connected: {error}") from error
        posted = ""
        if options.room:
            at = ChatAddress(channel.name, check_utf8(options.room))
            text, key = channel.format(TEST_MESSAGE), f"test-{secrets.token_hex(8)}"
            posted = (await with_call_timeout(channel.post(at, text, key=key))).id
        return ChannelTestResult(
            name=channel.name,
            kind=channel.kind,
            account=getattr(channel, "account", ""),
            state=channel.state,
            posted=posted,
            messages_received=len(received),
        )
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await channel.close()
