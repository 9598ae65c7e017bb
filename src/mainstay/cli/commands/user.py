"""`mainstay user …`: manages users, pairings and API keys, through the home's owner or owning the home meanwhile."""

from __future__ import annotations

import argparse
import os
from typing import TypeVar

from mainstay.agent.system_clock import SystemClock
from mainstay.cli.commands.agent_setup import print_note
from mainstay.cli.commands.home_locator import WorkspaceLocation, resolve_home, run_async
from mainstay.cli.commands.output import format_time, print_done, print_json, print_table, style_text
from mainstay.cli.commands.plugin_mcp_helpers import check_utf8, confirm
from mainstay.config.loader import load_config
from mainstay.config.schema import Config, check_workspace, resolve_data_folder
from mainstay.core.errors import InputRefused
from mainstay.core.outcome_text import format_count
from mainstay.gateway.home_client import execute_on_home
from mainstay.gateway.workspace_folders import list_workspace_names
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.operations import people as operations
from mainstay.operations.operation import Operation
from mainstay.operations.people import KeyView, PersonView

R = TypeVar("R")


def list_users(options: argparse.Namespace) -> int:
    users = _execute(options, operations.ListPeople()).people
    if options.json:
        print_json({"ok": True, "users": users})
    elif not users:
        print_note("no users yet; `mainstay user add` adds one, `mainstay user pair` pairs a channel account with one")
    else:
        rows = [
            [_format_name(user), user.called, _format_roles(user), _format_accounts(user), str(user.keys or "")]
            for user in users
        ]
        print_table(["NAME", "DISPLAY NAME", "ROLES", "ACCOUNTS", "KEYS"], rows, "e")
        if any(user.declared for user in users):
            print(style_text("* configured in mainstay.yaml; change it there", "dim"))
    return 0


def _format_name(user: PersonView) -> str:
    return f"{user.name}*" if user.declared else user.name


def _format_roles(user: PersonView) -> str:
    return ", ".join(f"{workspace}: {role}" for workspace, role in user.roles.items())


def _format_accounts(user: PersonView) -> str:
    return ", ".join(f"{account.channel} {account.user}" for account in user.accounts)


def add(options: argparse.Namespace) -> int:
    roles = {_resolve_workspace(options): options.role}
    request = operations.AddPerson(name=options.name, called=check_utf8(options.called), roles=roles)
    return _print_user(options, request, "was added")


def grant(options: argparse.Namespace) -> int:
    request = operations.GrantRole(name=options.name, workspace=_resolve_workspace(options), role=options.role)
    return _print_user(options, request, "has a new role")


def withdraw(options: argparse.Namespace) -> int:
    request = operations.WithdrawRole(name=options.name, workspace=check_workspace(options.target_workspace))
    return _print_user(options, request, f"lost the role and the keys for {options.target_workspace}")


def pair(options: argparse.Namespace) -> int:
    request = operations.PairAccount(
        code=check_utf8(options.code), name=options.name, role=options.role, workspace=_resolve_workspace(options)
    )
    return _print_user(options, request, "was paired")


def _print_user(options: argparse.Namespace, request: Operation[PersonView], done: str) -> int:
    user = _execute(options, request)
    if options.json:
        print_json({"ok": True, "user": user})
    else:
        print(escape_line(f"{user.name} {done} (roles: {_format_roles(user) or 'none'})"))
    return 0


def remove(options: argparse.Namespace) -> int:
    if not options.yes and not _confirm_removal(options):
        print("no user was removed")
        return 0
    _execute(options, operations.RemovePerson(name=options.name))
    return print_done(options, f"{options.name} was removed with all accounts and keys", {"name": options.name})


def _confirm_removal(options: argparse.Namespace) -> bool:
    users = _execute(options, operations.ListPeople()).people
    user = next((user for user in users if user.name == options.name), None)
    if user is None or user.declared:  # no question: the operation refuses it with a reason
        return True
    what = f"{format_count(len(user.accounts), 'account')} and {format_count(user.keys, 'key')}"
    return confirm(f"Remove {options.name} with {what}?", "removing a user needs confirmation; add --yes to confirm")


def unpair(options: argparse.Namespace) -> int:
    channel, account = check_utf8(options.channel), check_utf8(options.user)
    _execute(options, operations.UnpairAccount(channel=channel, user=account))
    done = f"{options.user} on {options.channel} is no longer paired"
    return print_done(options, done, {"channel": channel, "user": account})


def list_pairings(options: argparse.Namespace) -> int:
    waiting = _execute(options, operations.ListPairings()).pairings
    if options.json:
        print_json({"ok": True, "pairings": waiting})
    elif not waiting:
        print_note("no channel accounts wait for pairing")
    else:
        rows = [
            [format_time(pairing.created), pairing.channel, pairing.user, pairing.called, format_time(pairing.expires)]
            for pairing in waiting
        ]
        print_table(["SINCE", "CHANNEL", "ACCOUNT", "DISPLAY NAME", "UNTIL"], rows)
        print_note("ask the person for the pairing code, then run `mainstay user pair CODE --as NAME`")
    return 0


# --- keys ----------------------------------------------------------------------------------------


def create_key(options: argparse.Namespace) -> int:
    expires = SystemClock().now_ms() + options.expires * 1000 if options.expires else 0
    request = operations.CreateKey(
        person=options.name,
        workspace=_resolve_workspace(options),
        note=check_utf8(options.note),
        expires=expires,
        scopes=tuple(options.scopes or ["chat"]),
    )
    created = _execute(options, request)
    if options.json:
        print_json({"ok": True, "token": created.key, "key": created.kept})
        return 0
    about = created.kept
    print(created.key, flush=True)  # alone on stdout, for a script
    until = f"until {format_time(about.expires)}" if about.expires else "until it is revoked"
    print_note(f"{about.person} in {about.workspace}: {', '.join(about.scopes)}, {until}. The key is shown only once.")
    print_note("Use it as the header `Authorization: Bearer KEY`, or as the API key of an OpenAI client;")
    print_note(f"`mainstay user revoke {about.id}` revokes it.")
    return 0


def list_keys(options: argparse.Namespace) -> int:
    existing = _execute(options, operations.ListKeys()).keys
    if options.json:
        print_json({"ok": True, "keys": existing})
    elif not existing:
        print_note("there are no keys; `mainstay user key NAME` creates one")
    else:
        print_table(
            ["ID", "USER", "WORKSPACE", "SCOPES", "CREATED", "STATE", "NOTE"], [_build_key_row(key) for key in existing]
        )
    return 0


def _build_key_row(key: KeyView) -> list[str]:
    scopes = ", ".join(key.scopes)
    return [key.id, key.person, key.workspace, scopes, format_time(key.created), _describe_key_state(key), key.note]


def _describe_key_state(key: KeyView) -> str:
    if key.revoked:
        return f"revoked {format_time(key.revoked)}"
    if key.usable:
        return f"valid until {format_time(key.expires)}" if key.expires else "valid"
    return "expired" if 0 < key.expires <= SystemClock().now_ms() else "user has no role"


def revoke(options: argparse.Namespace) -> int:
    revoked = _execute(options, operations.RevokeKey(id=check_utf8(options.id)))
    return print_done(options, f"{revoked.id} of {revoked.person} was revoked", {"key": revoked})


# --- access to the home --------------------------------------------------------------------------


def _execute(options: argparse.Namespace, operation: Operation[R]) -> R:
    config, location = load_home(options)
    return run_async(execute_on_home(config, location.data, operation))


def load_home(options: argparse.Namespace) -> tuple[Config, WorkspaceLocation]:
    """Return the configuration and the location of the home; users belong to it, not to a workspace."""
    home = resolve_home(options)
    config = load_config(home, env=os.environ).config
    return config, WorkspaceLocation(home, resolve_data_folder(home, config), "")


def _resolve_workspace(options: argparse.Namespace) -> str:
    """Return the workspace given with --in or --workspace, else the configured one. Raises InputRefused if unknown."""
    config, location = load_home(options)
    wanted: str = check_workspace(options.target_workspace or options.workspace or config.workspace)
    if wanted not in (known := list_workspace_names(location.data, config)):
        existing = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
        hint = f"`mainstay workspace create {wanted}` creates it"
        raise InputRefused(f"there is no workspace {wanted!r} (existing: {existing}); {hint}")
    return wanted
