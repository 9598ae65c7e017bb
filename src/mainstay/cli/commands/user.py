"""`mainstay user …`: who may talk to the agent, through the server that owns the home or owning it meanwhile."""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Any

from mainstay.agent.world import SystemClock
from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.words import count
from mainstay.cli.commands.foreign import sure, text_of
from mainstay.cli.commands.homes import Place, home_of, run_async
from mainstay.cli.commands.out import paint, print_json, print_table, when
from mainstay.cli.commands.talking import OWNER_LOOK_S, OWNER_WAIT_S, owner_of, tell
from mainstay.config.loading import load_config
from mainstay.config.schema import Config, check_workspace, data_home
from mainstay.core.errors import HomeTaken, InputRefused
from mainstay.gateway.people_commands import FILE, LOOKING, PREFIX, do, nobody_yet, own_people
from mainstay.gateway.workspace_folders import names


def list_users(options: argparse.Namespace) -> int:
    found = _asked(options, "list", {})
    if options.json:
        print_json({"ok": True, "users": found})
    elif not found:
        tell("nobody is known but you; `mainstay user add` adds somebody, `mainstay user pair` lets a stranger in")
    else:
        rows = [[_name(one), one["called"], _roles(one), _accounts(one), str(one["keys"] or "")] for one in found]
        print_table(["NAME", "CALLED", "ROLES", "ACCOUNTS", "KEYS"], rows, "e")
        if any(one["declared"] for one in found):
            print(paint("* of mainstay.yaml, and changed there", "dim"))
    return 0


def _name(one: dict[str, Any]) -> str:
    return f"{one['name']}*" if one["declared"] else str(one["name"])


def _roles(one: dict[str, Any]) -> str:
    return ", ".join(f"{workspace}: {role}" for workspace, role in one["roles"].items())


def _accounts(one: dict[str, Any]) -> str:
    return ", ".join(f"{account['channel']} {account['user']}" for account in one["accounts"])


def add(options: argparse.Namespace) -> int:
    given = {"name": options.name, "called": text_of(options.called), "role": options.role}
    return _told(options, "add", given | {"workspace": _where(options)}, "was added")


def grant(options: argparse.Namespace) -> int:
    return _told(options, "grant", {"name": options.name, "workspace": _where(options), "role": options.role}, "now is")


def withdraw(options: argparse.Namespace) -> int:
    given = {"name": options.name, "workspace": check_workspace(options.where)}
    return _told(options, "withdraw", given, f"has no role in {options.where} any more, nor keys to it;")


def pair(options: argparse.Namespace) -> int:
    given = {"code": text_of(options.code), "name": options.name, "role": options.role, "workspace": _where(options)}
    return _told(options, "pair", given, "is let in")


def _told(options: argparse.Namespace, verb: str, given: dict[str, Any], said: str) -> int:
    found = _asked(options, verb, given)
    if options.json:
        print_json({"ok": True, "user": found})
    else:
        print(visible(f"{found['name']} {said} ({_roles(found) or 'no role anywhere'})"))
    return 0


def remove(options: argparse.Namespace) -> int:
    if not options.yes and not _is_sure(options):
        print("nobody was removed")
        return 0
    _asked(options, "remove", {"name": options.name})
    return _done(options, {"name": options.name}, f"{options.name} was removed, with their accounts and keys")


def _is_sure(options: argparse.Namespace) -> bool:
    found = next((one for one in _asked(options, "list", {}) if one["name"] == options.name), None)
    if found is None or found["declared"]:  # there is nothing to ask: it is refused, and said why
        return True
    theirs = f"{count(len(found['accounts']), 'account')} and {count(found['keys'], 'key')}"
    return sure(
        f"Remove {options.name}, with {theirs}?", "somebody is removed with your word only; add --yes to give it"
    )


def unpair(options: argparse.Namespace) -> int:
    given = {"channel": text_of(options.channel), "user": text_of(options.user)}
    _asked(options, "unpair", given)
    return _done(options, given, f"{options.user} on {options.channel} is nobody's account any more")


def pairings(options: argparse.Namespace) -> int:
    found = _asked(options, "pairings", {})
    if options.json:
        print_json({"ok": True, "pairings": found})
    elif not found:
        tell("nobody waits to be let in")
    else:
        rows = [
            [when(one["created"]), one["channel"], one["user"], one["called"], when(one["expires"])] for one in found
        ]
        print_table(["SINCE", "CHANNEL", "ACCOUNT", "CALLS THEMSELVES", "UNTIL"], rows)
        tell("ask whom you know for their code: `mainstay user pair CODE --as NAME` lets them in")
    return 0


# --- keys ----------------------------------------------------------------------------------------


def key(options: argparse.Namespace) -> int:
    expires = SystemClock().now_ms() + options.expires * 1000 if options.expires else 0
    given = {"name": options.name, "workspace": _where(options), "note": text_of(options.note), "expires": expires}
    made = _asked(options, "key", given | {"scopes": options.scopes or ["chat"]})
    if options.json:
        print_json({"ok": True, **made})
        return 0
    about = made["key"]
    print(made["token"], flush=True)  # alone on stdout, for a script
    until = f"until {when(about['expires'])}" if about["expires"] else "until it is revoked"
    tell(f"{about['person']} in {about['workspace']}: {', '.join(about['scopes'])}, {until}. It is shown only now.")
    tell("Use it as the header `Authorization: Bearer KEY`, or as the API key of an OpenAI client;")
    tell(f"`mainstay user revoke {about['id']}` ends it.")
    return 0


def keys(options: argparse.Namespace) -> int:
    found = _asked(options, "keys", {})
    if options.json:
        print_json({"ok": True, "keys": found})
    elif not found:
        tell("there are no keys; `mainstay user key NAME` makes one")
    else:
        print_table(["ID", "PERSON", "WORKSPACE", "SCOPES", "MADE", "STATE", "NOTE"], [_key_row(one) for one in found])
    return 0


def _key_row(one: dict[str, Any]) -> list[str]:
    scopes = ", ".join(one["scopes"])
    return [one["id"], one["person"], one["workspace"], scopes, when(one["created"]), _state(one), one["note"]]


def _state(one: dict[str, Any]) -> str:
    if one["revoked"]:
        return f"revoked {when(one['revoked'])}"
    if one["usable"]:
        return f"good until {when(one['expires'])}" if one["expires"] else "good"
    return "expired" if 0 < one["expires"] <= SystemClock().now_ms() else "no role there"


def revoke(options: argparse.Namespace) -> int:
    found = _asked(options, "revoke", {"id": text_of(options.id)})
    return _done(options, {"key": found}, f"{found['id']} of {found['person']} is good for nothing now")


def _done(options: argparse.Namespace, made: dict[str, Any], said: str) -> int:
    if options.json:
        print_json({"ok": True, **made})
    else:
        print(visible(said))
    return 0


# --- where ---------------------------------------------------------------------------------------


def _asked(options: argparse.Namespace, verb: str, arguments: dict[str, Any]) -> Any:
    config, place = here(options)
    return run_async(ask(config, place, verb, arguments))


async def ask(config: Config, place: Place, verb: str, arguments: dict[str, Any]) -> Any:
    """Through the home's owner if it has one, else we are it for a moment, and so may be another command."""
    for _ in range(int(OWNER_WAIT_S / OWNER_LOOK_S)):
        if (remote := owner_of(place)) is not None:
            return await remote.household(PREFIX + verb, arguments)
        if verb in LOOKING and not (place.data / FILE).exists():  # looking makes nothing
            return await do(await nobody_yet(config), verb, arguments)
        try:
            async with own_people(place.data, config) as people:
                return await do(people, verb, arguments)
        except HomeTaken as error:
            taken = error
            await asyncio.sleep(OWNER_LOOK_S)
    raise taken


def here(options: argparse.Namespace) -> tuple[Config, Place]:
    """People belong to a home, whichever workspace is meant."""
    home = home_of(options)
    config = load_config(home, env=os.environ).config
    return config, Place(home, data_home(home, config), "")


def _where(options: argparse.Namespace) -> str:
    """The workspace that is meant. Raises InputRefused if there is none of this name."""
    config, place = here(options)
    wanted: str = check_workspace(options.where or options.workspace or config.workspace)
    if wanted not in (known := names(place.data, config)):
        there = f"{count(len(known), 'workspace')}: {', '.join(known[:10])}"
        raise InputRefused(f"there is no workspace {wanted!r}; `mainstay workspace create {wanted}` makes it ({there})")
    return wanted
