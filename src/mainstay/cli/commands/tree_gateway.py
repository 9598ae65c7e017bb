"""The tree's nouns of who may come in, and where: users, workspaces and channels."""

from __future__ import annotations

import argparse
import re

from mainstay.cli.commands.verbs import Parser, Verbs, seconds

CHANNELS = ("slack", "telegram", "discord", "matrix", "signal", "webhook", "terminal")
ROLES = ("admin", "member", "guest")
SCOPES = ("chat", "read", "approve", "admin")
_SPAN = re.compile(r"([0-9]{1,5})([mhdw])", re.ASCII)
_UNIT_S = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def add_people(verbs: Verbs) -> None:
    """All three nouns, to the tree itself."""
    add_users(verbs.noun("user", "Say who may talk to the agent, let strangers in, make API keys."))
    add_workspaces(verbs.noun("workspace", "See workspaces, make one, put one away."))
    add_channels(verbs.noun("channel", "Put the agent on chat platforms, and see whether they work."))


def add_users(verbs: Verbs) -> None:
    verbs.verb("list", "List people: what they may do where, and which accounts are theirs.", "user:list_users")
    add = _person(verbs.verb("add", "Add somebody.", "user:add"))
    add.add_argument("--called", metavar="NAME", default="", help="as people say it: 'Ann Lee'")
    _role(_where(add))
    pair = verbs.verb("pair", "Let a stranger in, by the code that they were told.", "user:pair")
    pair.add_argument("code", metavar="CODE", help="like K7QM-4XPA")
    pair.add_argument(
        "--as", dest="name", metavar="NAME", required=True, help="who they are: a new name, or a known one"
    )
    _role(_where(pair))
    verbs.verb("pairings", "List strangers who wait to be let in.", "user:pairings")
    unpair = verbs.verb("unpair", "Take an account on a channel from whoever has it.", "user:unpair")
    unpair.add_argument("channel", metavar="CHANNEL", help="as it is configured")
    unpair.add_argument("user", metavar="ACCOUNT", help="as `mainstay user list` prints it")
    grant = _where(_person(verbs.verb("grant", "Give somebody a role in a workspace.", "user:grant")), required=True)
    grant.add_argument("--role", choices=ROLES, required=True, help=", ".join(ROLES))
    about = "Take somebody's role in a workspace, and their keys to it."
    _where(_person(verbs.verb("withdraw", about, "user:withdraw")), required=True)
    remove = _person(verbs.verb("remove", "Remove somebody, their accounts and their keys.", "user:remove"))
    remove.add_argument("--yes", action="store_true", help="do not ask")
    key = _where(_person(verbs.verb("key", "Make an API key, and print it once.", "user:key")))
    what = f"what it may do: {', '.join(SCOPES)}; may be given again (default: chat)"
    key.add_argument("--scope", dest="scopes", choices=SCOPES, action="append", default=[], metavar="S", help=what)
    key.add_argument("--note", metavar="TEXT", default="", help="what it is for")
    key.add_argument(
        "--expires", metavar="SPAN", type=span, default=0, help="after so long: 12h, 30d, 8w (default: never)"
    )
    verbs.verb("keys", "List API keys, without their secrets.", "user:keys")
    revoke = verbs.verb("revoke", "Have an API key be good for nothing, at once.", "user:revoke")
    revoke.add_argument("id", metavar="KEYID", help="as `mainstay user keys` prints it")


def add_workspaces(verbs: Verbs) -> None:
    verbs.verb("list", "List workspaces: how large they are, and when they were used.", "workspace:list_workspaces")
    create = verbs.verb("create", "Make a workspace.", "workspace:create")
    create.add_argument("name", metavar="NAME", help="1 to 64 of a-z, 0-9, _ and -")
    remove = verbs.verb("remove", "Put a workspace away, into the folder `removed` of the home.", "workspace:remove")
    remove.add_argument("name", metavar="NAME", help="its name")
    remove.add_argument("--yes", action="store_true", help="do not ask")


def add_channels(verbs: Verbs) -> None:
    about = "List channels: which platform, whose, and whether the server has them connected."
    verbs.verb("list", about, "channel:list_channels")
    about = "Write a channel into mainstay.yaml, and say what is left to do."
    add = verbs.verb("add", about, "channel:add")
    add.add_argument("kind", choices=CHANNELS, metavar="KIND", help=", ".join(CHANNELS))
    what = "settings of channels.NAME; secrets best as '${VAR}': without them, variables are suggested"
    add.add_argument("settings", nargs="*", default=[], metavar="KEY=VALUE", help=what)
    add.add_argument("--name", metavar="NAME", help="what to call it (default: like its kind)")
    add.add_argument("--plain", action="store_true", help="write secrets that are given into the file as they are")
    add.set_defaults(rest="settings")
    remove = verbs.verb("remove", "Take a channel out of mainstay.yaml.", "channel:remove")
    remove.add_argument("name", metavar="NAME", help="its name in channels")
    test = verbs.verb("test", "Connect to a channel, and say as whom or what is wrong.", "channel:test")
    test.add_argument("name", metavar="NAME", help="its name in channels")
    test.add_argument("--room", metavar="ROOM", default="", help="post a short message there, by the platform's id")
    test.add_argument("--wait", type=seconds, metavar="S", default=20.0, help="for so many seconds (default: 20)")


def _person(parser: Parser) -> Parser:
    parser.add_argument("name", metavar="NAME", help="1 to 32 of a-z, 0-9, '.', '_' and '-'")
    return parser


def _where(parser: Parser, *, required: bool = False) -> Parser:
    help = "the workspace" if required else "the workspace (default: the configured one)"
    parser.add_argument("--in", dest="where", metavar="W", required=required, help=help)
    return parser


def _role(parser: Parser) -> Parser:
    parser.add_argument("--role", choices=ROLES, default="member", help=f"{', '.join(ROLES)} (default: member)")
    return parser


def span(text: str) -> int:
    """In seconds."""
    found = _SPAN.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a span of time like 12h, 30d or 8w")
    return int(found[1]) * _UNIT_S[found[2]]
