"""Argument parsers of `mainstay user`, `mainstay workspace` and `mainstay channel`."""

from __future__ import annotations

import argparse
import re

from mainstay.cli.parser.base import CommandGroup, CommandParser, ComponentChoices, parse_seconds

ROLES = ("admin", "member", "guest")
SCOPES = ("chat", "read", "approve", "admin")
_DURATION = re.compile(r"([0-9]{1,5})([mhdw])", re.ASCII)
_UNIT_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def add_gateway(commands: CommandGroup) -> None:
    """Add all three groups to the top level."""
    commands.add_group("user", "Manage users, their roles, paired channel accounts and API keys.", add_users)
    commands.add_group(
        "workspace", "List, create and remove workspaces; accept the loss of a database.", add_workspaces
    )
    commands.add_group("channel", "Connect the agent to chat platforms, and test the connections.", add_channels)


def add_users(commands: CommandGroup) -> None:
    commands.add_command("list", "List users with their roles and channel accounts.", "user:list_users")
    add = _add_user_name(commands.add_command("add", "Add a user.", "user:add"))
    add.add_argument("--called", metavar="NAME", default="", help="the display name: 'Ann Lee'")
    _add_role_option(_add_workspace_option(add))
    pair = commands.add_command(
        "pair", "Pair a channel account with a user, by the pairing code the account got.", "user:pair"
    )
    pair.add_argument("code", metavar="CODE", help="like K7QM-4XPA")
    pair.add_argument("--as", dest="name", metavar="NAME", required=True, help="the user, new or existing")
    _add_role_option(_add_workspace_option(pair))
    commands.add_command("pairings", "List channel accounts that wait for pairing.", "user:list_pairings")
    unpair = commands.add_command("unpair", "Remove a channel account from its user.", "user:unpair")
    unpair.add_argument("channel", metavar="CHANNEL", help="the channel's name in mainstay.yaml")
    unpair.add_argument("user", metavar="ACCOUNT", help="as printed by `mainstay user list`")
    grant = _add_workspace_option(
        _add_user_name(commands.add_command("grant", "Give a user a role in a workspace.", "user:grant")), required=True
    )
    grant.add_argument("--role", choices=ROLES, required=True, help=", ".join(ROLES))
    about = "Withdraw a user's role in a workspace, and revoke the user's keys for it."
    _add_workspace_option(_add_user_name(commands.add_command("withdraw", about, "user:withdraw")), required=True)
    remove = _add_user_name(
        commands.add_command("remove", "Remove a user with their accounts and keys.", "user:remove")
    )
    remove.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    key = _add_workspace_option(
        _add_user_name(commands.add_command("key", "Create an API key and print it once.", "user:create_key"))
    )
    what = f"what the key allows: {', '.join(SCOPES)}; can be repeated (default: chat)"
    key.add_argument("--scope", dest="scopes", choices=SCOPES, action="append", default=[], metavar="S", help=what)
    key.add_argument("--note", metavar="TEXT", default="", help="what it is for")
    what = "when it expires: 12h, 30d, 8w (default: never)"
    key.add_argument("--expires", metavar="SPAN", type=parse_duration, default=0, help=what)
    commands.add_command("keys", "List API keys, without their secrets.", "user:list_keys")
    revoke = commands.add_command("revoke", "Revoke an API key, effective at once.", "user:revoke")
    revoke.add_argument("id", metavar="KEYID", help="as printed by `mainstay user keys`")


def add_workspaces(commands: CommandGroup) -> None:
    commands.add_command("list", "List workspaces with their size, sessions and last use.", "workspace:list_workspaces")
    create = commands.add_command("create", "Create a workspace.", "workspace:create")
    create.add_argument("name", metavar="NAME", help="1 to 64 of a-z, 0-9, _ and -")
    remove = commands.add_command("remove", "Move a workspace to the folder `removed` of the home.", "workspace:remove")
    remove.add_argument("name", metavar="NAME", help="the workspace")
    remove.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    about = "Go on with a workspace whose database is missing, empty or older than what the home knows of it."
    accept = commands.add_command("accept-loss", about, "backup:accept_loss")
    accept.add_argument("name", metavar="NAME", help="the workspace")
    accept.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def add_channels(commands: CommandGroup) -> None:
    about = "List channels with their platform, workspace and connection state."
    commands.add_command("list", about, "channel:list_channels")
    about = "Add a channel to mainstay.yaml, and print the remaining set-up steps."
    add = commands.add_command("add", about, "channel:add")
    add.add_argument("kind", choices=ComponentChoices("channel"), metavar="KIND", help="%(choices)s")
    what = "settings of channels.NAME; give secrets as '${VAR}', or leave them out to use suggested variables"
    add.add_argument("settings", nargs="*", default=[], metavar="KEY=VALUE", help=what)
    add.add_argument("--name", metavar="NAME", help="the channel's name (default: its kind)")
    add.add_argument("--plain", action="store_true", help="write given secrets to the file in plain text")
    add.set_defaults(rest="settings")
    remove = commands.add_command("remove", "Remove a channel from mainstay.yaml.", "channel:remove")
    remove.add_argument("name", metavar="NAME", help="its name in channels")
    test = commands.add_command(
        "test", "Connect to a channel, and print the bot's account or the error.", "channel:test"
    )
    test.add_argument("name", metavar="NAME", help="its name in channels")
    test.add_argument("--room", metavar="ROOM", default="", help="also post a short message to this room (platform id)")
    test.add_argument(
        "--wait", type=parse_seconds, metavar="S", default=20.0, help="time limit in seconds (default: 20)"
    )


def _add_user_name(parser: CommandParser) -> CommandParser:
    parser.add_argument("name", metavar="NAME", help="1 to 32 of a-z, 0-9, '.', '_' and '-'")
    return parser


def _add_workspace_option(parser: CommandParser, *, required: bool = False) -> CommandParser:
    help = "the workspace" if required else "the workspace (default: the configured one)"
    parser.add_argument("--in", dest="target_workspace", metavar="W", required=required, help=help)
    return parser


def _add_role_option(parser: CommandParser) -> CommandParser:
    parser.add_argument("--role", choices=ROLES, default="member", help=f"{', '.join(ROLES)} (default: member)")
    return parser


def parse_duration(text: str) -> int:
    """Return the seconds of a duration such as 12h, 30d or 8w."""
    match = _DURATION.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration like 12h, 30d or 8w")
    return int(match[1]) * _UNIT_SECONDS[match[2]]
