"""The command's tree of verbs and options. Nothing but argparse is loaded to show it.

Each verb names the function that does it as "module:function" in `mainstay.cli.commands`; the module is
imported when the verb is run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise

from mainstay.cli.commands.tree_audit import add_audit
from mainstay.cli.commands.tree_budget import add_budgets
from mainstay.cli.commands.tree_errors import add_errors
from mainstay.cli.commands.tree_eval import add_eval
from mainstay.cli.commands.tree_gateway import add_people
from mainstay.cli.commands.tree_knowhow import add_patterns, add_skills, add_triggers
from mainstay.cli.commands.tree_model import add_models
from mainstay.cli.commands.verbs import LATER as LATER
from mainstay.cli.commands.verbs import Parser, Verbs, count, json_option, port, seconds, shared
from mainstay.cli.commands.verbs import UsageError as UsageError


def build() -> Parser:
    about = "A durable agent runtime: nothing accepted is lost, nothing runs twice that must not."
    start = "Start with `mainstay init`, then `mainstay chat`. `mainstay COMMAND --help` says more."
    parser = Parser(
        prog="mainstay", description=about, epilog=start, allow_abbrev=False, parents=[shared(), json_option()]
    )
    verbs = Verbs(parser, required=False)
    _add_talking(verbs)
    _add_setup(verbs)
    add_models(verbs.noun("model", "See and bring models that run on this machine, with no account anywhere."))
    _add_sessions(verbs.noun("session", "Look at conversations, copy them, put them away."))
    _add_memory(verbs.noun("memory", "Find what was said, known and remembered; forget it."))
    _add_approvals(verbs.noun("approval", "Answer what turns wait for."))
    _add_plugins(verbs.noun("plugin", "Add programs that bring tools, try them, write one."))
    _add_backends(verbs.noun("backend", "See what data the agent can ask for, and ask for some."))
    add_skills(verbs.noun("skill", "See, install and share know-how in folders: instructions with their scripts."))
    add_patterns(verbs.noun("pattern", "See which ways of doing things are written down, and try them on a request."))
    add_triggers(verbs.noun("trigger", "Have the agent work when nobody types: later, by the clock, by webhook."))
    add_people(verbs)
    add_eval(verbs)
    add_budgets(verbs)
    add_errors(verbs)
    add_audit(verbs)
    serving = _serving()
    about_mcp = "Offer run, steer, abort and memory search to other MCP hosts; look after the MCP servers used here."
    _add_mcp(verbs.noun("mcp", about_mcp, serving), serving)
    _add_config(verbs.noun("config", "See and change the configuration."))
    return parser


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    own, words = _without_words(arguments)
    blank = argparse.Namespace(home=None, workspace=None, json=False, log_level=None, run=None)
    given, unknown = build().parse_known_args(own, blank)
    if (rest := getattr(given, "rest", "")) and not any(one.startswith("-") for one in unknown):
        setattr(given, rest, [*getattr(given, rest), *unknown])  # argparse takes none that stand after an option
        unknown = []
    if unknown:
        raise UsageError(_unknown(own, unknown))
    if words:
        given.words = [*given.words, *words]
    if given.home == "":
        raise UsageError("--home needs a folder")
    return given


def _unknown(arguments: Sequence[str], unknown: Sequence[str]) -> str:
    said = f"unrecognized arguments: {' '.join(unknown)}"
    if _adds_server(arguments):
        return f"{said}; put `--` before the command: `mainstay mcp add NAME -- COMMAND …`"
    return f"{said} (see `mainstay --help`)"


def _adds_server(arguments: Sequence[str]) -> bool:
    return any(noun in ("mcp", "mcps") and verb == "add" for noun, verb in pairwise(arguments))


def _without_words(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Another program's command line (`mcp add NAME … -- COMMAND …`) is none of argparse's business."""
    if "--" in arguments:
        at = arguments.index("--")
        own = arguments[:at]
        if _adds_server(own):
            return own, arguments[at + 1 :]
    return arguments, ()


def _add_talking(verbs: Verbs) -> None:
    chat = verbs.verb("chat", "Talk to the agent in this terminal.", "chat:chat", json=False)
    which = chat.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="S", help="the conversation to go on with (default: the last one)")
    which.add_argument("--new", action="store_true", help="start another conversation")
    chat.add_argument("--model", metavar="M", help='the model to ask, as "<provider>/<model>"')
    _offering(chat)
    run = verbs.verb("run", "Run one turn and print the answer, for scripts.", "run:run")
    run.add_argument("text", nargs="*", metavar="TEXT", help="the prompt; `-` stands for what comes from stdin")
    run.add_argument("--session", metavar="S", help="the conversation it belongs to (default: a new one)")
    run.add_argument("--model", metavar="M", help='the model to ask, as "<provider>/<model>"')
    _offering(run)
    about = "Run the gateway: HTTP, gRPC, chat platforms and triggers for all workspaces, until it is stopped."
    serve = verbs.verb("serve", about, "serve:serve", json=False)
    serve.add_argument("--host", metavar="HOST", help="where to listen (default: server.host, 127.0.0.1)")
    serve.add_argument("--port", type=port, metavar="N", help="for HTTP; 0: any (default: server.port, 7460)")
    serve.add_argument("--grpc-port", type=port, metavar="N", help="for gRPC; 0: any (default: server.grpc_port)")


def _offering(parser: Parser) -> None:
    help = "if no model is found: bring one that runs here (1.1 GB), without asking (MAINSTAY_LOCAL=1)"
    parser.add_argument("--yes", dest="take_offer", action="store_true", help=help)


def _add_setup(verbs: Verbs) -> None:
    init = verbs.verb("init", "Set up a home: find a model, write mainstay.yaml.", "init:init")
    init.add_argument("--model", metavar="M", help='the model to use, as "<provider>/<model>"')
    init.add_argument("--base-url", metavar="URL", help="where that model is reached, if not at its usual address")
    init.add_argument("--pull", action="store_true", help="if no model is found: bring a local one (MAINSTAY_LOCAL=1)")
    init.add_argument("--name", metavar="NAME", help="what the agent is called")
    init.add_argument("--channel", metavar="KIND", help="a chat platform to be on: slack, telegram, … (default: none)")
    init.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a setting of that channel")
    init.add_argument("--yes", action="store_true", help="ask nothing, take the defaults")
    init.add_argument("--force", action="store_true", help="replace a mainstay.yaml that is there; it is kept beside")
    doctor = verbs.verb("doctor", "Check that everything Mainstay needs is there, and works.", "doctor:doctor")
    doctor.add_argument("--fix", action="store_true", help="repair what can be repaired")
    doctor.add_argument("--offline", action="store_true", help="ask no model anything")
    doctor.add_argument("--deep", action="store_true", help="read and load local models too, which takes a while")
    doctor.add_argument("--wait", type=seconds, metavar="S", help="for a model to answer (default: 60 s)")


def _add_sessions(verbs: Verbs) -> None:
    listing = verbs.verb("list", "List conversations, the newest first.", "session:list_sessions")
    listing.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")
    show = _named(verbs.verb("show", "Print a conversation.", "session:show"))
    show.add_argument("--context", action="store_true", help="what the model sees of it now, section by section")
    show.set_defaults(model=None)
    trace = _named(verbs.verb("trace", "Draw what a turn did, how long it took and what it cost.", "trace:trace"))
    which = trace.add_mutually_exclusive_group()
    which.add_argument("--turn", type=count, metavar="N", help="which turn (default: the last one)")
    which.add_argument("--all", action="store_true", help="every turn of it")
    _named(verbs.verb("records", "Print every record of a conversation's journal.", "session:print_records"))
    bring = verbs.verb("import", "Bring a conversation from elsewhere.", "session_write:import_file")
    bring.add_argument("file", metavar="FILE", help='JSON or JSON lines of {"role": …, "content": …}; `-` is stdin')
    bring.add_argument("--session", metavar="S", help="what to call it (default: the file's name)")
    export = _named(verbs.verb("export", "Write log.jsonl and context.jsonl.", "session:export"))
    export.add_argument("--to", metavar="DIR", help="the folder to write to (default: one named like the session)")
    fork = _named(verbs.verb("fork", "Copy a conversation's past into a new one.", "session_write:fork_session"))
    fork.add_argument("new", metavar="NEW", help="what to call the new one")
    fork.add_argument("--upto", type=count, metavar="N", help="copy only records 1 to N")
    help = "Run a conversation again from its records, with no model, and compare."
    _named(verbs.verb("replay", help, "session:replay_session"))
    archive = verbs.verb("archive", "Take no more prompts; keep everything.", "session_write:archive")
    archive.add_argument("sessions", nargs="+", metavar="SESSION", help="its name")
    activate = verbs.verb("activate", "Take prompts again, of one that was archived.", "session_write:activate")
    activate.add_argument("sessions", nargs="+", metavar="SESSION", help="its name")
    delete = verbs.verb("delete", "Forget what was said.", "session_write:delete")
    delete.add_argument("sessions", nargs="+", metavar="SESSION", help="its name")
    delete.add_argument("--yes", action="store_true", help="do not ask")


def _add_approvals(verbs: Verbs) -> None:
    verbs.verb("list", "List the calls that wait for somebody's word.", "approvals:list_approvals")
    approve = verbs.verb("approve", "Let a call run, and its turn go on; prints the answer.", "approvals:approve")
    approve.add_argument("id", metavar="ID", help="the approval's id, or the beginning of it")
    approve.add_argument("--always", action="store_true", help="let its like run from now on")
    approve.add_argument("--input", metavar="JSON", help="other arguments to run it with")
    deny = verbs.verb("deny", "Do not let a call run; its turn goes on without it.", "approvals:deny")
    deny.add_argument("id", metavar="ID", help="the approval's id, or the beginning of it")
    deny.add_argument("reason", nargs="*", metavar="REASON", help="what the model is told")
    verbs.verb("rules", "List what was always allowed.", "approvals:rules")
    revoke = verbs.verb("revoke", "Ask again about what was always allowed.", "approvals:revoke")
    revoke.add_argument("rule", metavar="RULE", help="as `mainstay approvals rules` prints it")


def _add_memory(verbs: Verbs) -> None:
    search = verbs.verb("search", "Search all conversations by words and meaning.", "memory:search")
    search.add_argument("query", nargs="+", metavar="QUERY", help="what to look for")
    search.add_argument("-k", type=count, default=10, metavar="N", help="at most so many (default: 10)")
    _spanned(search)
    search.add_argument("--speaker", metavar="S", help="only what this one said: a sender, user, assistant, a tool")
    search.add_argument("--session", metavar="S", help="only in this conversation")
    search.add_argument("--semantic", action="store_true", help="by meaning alone")
    recall = verbs.verb("recall", "Print facts and memories about a topic.", "memory:recall")
    recall.add_argument("topic", nargs="+", metavar="TOPIC", help="a person, a place, a thing")
    _spanned(verbs.verb("summary", "Print what conversations were about, by date.", "memory:summary"))
    get = verbs.verb("get", "Print a message, a fact or a memory whole.", "memory:get")
    get.add_argument("id", metavar="ID", help="as a search prints it")
    listing = verbs.verb("list", "List what was remembered, the newest first.", "memory:list_memories")
    listing.add_argument("--tag", metavar="T", default="", help="only with this tag")
    listing.add_argument("--origin", metavar="O", default="", help="only what came from there, for example untrusted")
    listing.add_argument("--pinned", action="store_true", help="only what the model always has before it")
    listing.add_argument("--facts", action="store_true", help="facts instead")
    listing.add_argument("--limit", type=count, default=100, metavar="N", help="at most so many (default: 100)")
    remember = verbs.verb("remember", "Keep something for all conversations.", "memory:remember")
    remember.add_argument("text", nargs="+", metavar="TEXT", help="what to keep")
    remember.add_argument("--tag", metavar="T", action="append", default=[], help="a tag; may be given again")
    remember.add_argument("--pin", action="store_true", help="the model always has it before it")
    pin = verbs.verb("pin", "Have the model always see a memory.", "memory:pin")
    pin.add_argument("id", metavar="ID", help="as `memory list` prints it")
    unpin = verbs.verb("unpin", "Keep a memory, but out of the model's sight.", "memory:unpin")
    unpin.add_argument("id", metavar="ID", help="as `memory list` prints it")
    forget = verbs.verb("forget", "Remove messages, facts or memories from everywhere.", "memory:forget")
    forget.add_argument("ids", nargs="*", metavar="ID", help="as a search or `memory list` prints it")
    forget.add_argument("--origin", metavar="O", help="instead: every fact and memory that came from there")
    forget.add_argument("--yes", action="store_true", help="do not ask")
    verbs.verb("status", "Print how much is remembered and how it is searched.", "memory:status")


def _spanned(parser: Parser) -> None:
    help = "since then: 2026-11-02, 2026-11-02T15:30, today, yesterday, 7d (UTC)"
    parser.add_argument("--from", dest="start", metavar="D", help=help)
    parser.add_argument("--to", dest="end", metavar="D", help="until then, that day included")


def _add_plugins(verbs: Verbs) -> None:
    verbs.verb("list", "List plugins, what they offer and what they may touch.", "plugin:list_plugins")
    add = verbs.verb("add", "Show what a plugin asks for, and install it.", "plugin:add")
    add.add_argument("source", metavar="SOURCE", help="its folder, or an archive: .zip, .tar, .tar.gz, .tgz")
    add.add_argument("--yes", action="store_true", help="do not ask")
    add.add_argument("--allow", action="store_true", help="let the agent use it: adds a rule to policy.allow")
    add.add_argument("--sha256", metavar="HASH", help="install this very content and no other: the hash that is shown")
    remove = verbs.verb("remove", "Remove a plugin and what it kept.", "plugin:remove")
    remove.add_argument("name", metavar="NAME", help="its name")
    remove.add_argument("--keep-state", action="store_true", help="leave what it kept")
    remove.add_argument("--yes", action="store_true", help="do not ask")
    call = verbs.verb("call", "Run one action of a plugin, in its sandbox, and print the result.", "plugin_call:call")
    call.add_argument("name", metavar="NAME", help="its name, or a folder with a plugin.yaml: `./weather`")
    call.add_argument("action", metavar="ACTION", help="what to run")
    what = "its arguments; a value that is JSON counts so"
    call.add_argument("arguments", nargs="*", default=[], metavar="KEY=VALUE", help=what)
    call.add_argument("--input", metavar="JSON", help="all its arguments, instead")
    new = verbs.verb("new", "Write a plugin that works, to begin with.", "plugin:new")
    new.add_argument("name", metavar="NAME", help="small letters and digits")
    new.add_argument("--dir", metavar="DIR", help="the folder to make (default: one named like the plugin)")
    said = verbs.verb("log", "Print what a plugin said on stdout and stderr.", "plugin:log")
    said.add_argument("name", metavar="NAME", help="its name")


def _add_backends(verbs: Verbs) -> None:
    verbs.verb("list", "List backends, where they are and what they have.", "backend:list_backends")
    test = verbs.verb("test", "Open a backend and print what the model sees of it.", "backend:test")
    test.add_argument("name", metavar="NAME", help="its name in backends")
    query = verbs.verb("query", "Ask a backend something, as the model would, and print the result.", "backend:query")
    query.add_argument("name", metavar="NAME", help="its name in backends")
    what = "arguments of NAME__query: `sql='SELECT …'`; a value that is JSON counts so"
    query.add_argument("arguments", nargs="*", default=[], metavar="KEY=VALUE", help=what)
    query.add_argument("--input", metavar="JSON", help="all its arguments, instead")


def _serving() -> Parser:
    """What `mainstay mcp` takes, with `serve` or without: no defaults, or the later would undo the earlier."""
    alone = Parser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    help = "speak HTTP on this port of 127.0.0.1 instead of stdin and stdout (default: 7461; 0: any that is free)"
    alone.add_argument("--http", type=port, nargs="?", const=7461, metavar="PORT", help=help)
    alone.add_argument("--model", metavar="M", help='the model to ask, as "<provider>/<model>"')
    alone.set_defaults(run="mcp:serve")
    return alone


def _add_mcp(verbs: Verbs, serving: Parser) -> None:
    verbs.verb("serve", "Be an MCP server; `mainstay mcp` alone is the same.", "mcp:serve", json=False, more=serving)
    listing = verbs.verb("list", "List the MCP servers that the agent uses.", "mcp_servers:list_servers")
    listing.add_argument("--check", action="store_true", help="start or reach each of them, and say what has changed")
    test = _server(verbs.verb("test", "Start or reach a server and list what it offers.", "mcp_servers:test"))
    test.add_argument("--schemas", action="store_true", help="with what each tool takes")
    approve = _server(verbs.verb("approve", "Look at what a server changed, and accept it.", "mcp_servers:approve"))
    approve.add_argument("--yes", action="store_true", help="do not ask")
    _server(verbs.verb("prompts", "List the prompts that a server offers.", "mcp_servers:prompts"))
    prompt = _server(verbs.verb("prompt", "Print a prompt of a server, filled in.", "mcp_servers:prompt"))
    prompt.add_argument("prompt", metavar="PROMPT", help="its name")
    prompt.add_argument("arguments", nargs="*", default=[], metavar="KEY=VALUE", help="its arguments")
    resources = _server(verbs.verb("resources", "List a server's resources, or print one.", "mcp_servers:resources"))
    resources.add_argument("uri", nargs="?", metavar="URI", help="the one to print")
    add = _server(verbs.verb("add", "Write a server into mainstay.yaml.", "mcp_config:add"))
    what = "the program and its arguments, after `--`"
    add.add_argument("words", nargs="*", default=[], metavar="COMMAND", help=what)
    add.add_argument("--url", metavar="URL", help="instead: where it is reached")
    for option, noun, what in (
        ("--env", "VAR=VALUE", "a variable it gets; best a ${VAR} of yours, in single quotes"),
        ("--header", "NAME=VALUE", "sent along with every request to it"),
        ("--network", "HOST", "a host it may reach; '*' for all"),
        ("--read", "DIR", "a folder it may read"),
        ("--write", "DIR", "a folder it may read and write"),
    ):
        add.add_argument(option, metavar=noun, action="append", default=[], help=f"{what}; may be given again")
    add.add_argument("--allow", action="store_true", help="let the agent use it: adds a rule to policy.allow")
    _server(verbs.verb("remove", "Take a server out of mainstay.yaml.", "mcp_config:remove"))
    _server(verbs.verb("log", "Print what a server on this machine said on stderr.", "mcp_servers:log"))


def _server(parser: Parser) -> Parser:
    parser.add_argument("name", metavar="NAME", help="the server's name in mcpServers")
    return parser


def _add_config(verbs: Verbs) -> None:
    verbs.verb("show", "Print what is in force and where each value came from.", "config:show")
    verbs.verb("check", "Check the configuration.", "config:check")
    change = verbs.verb("set", "Change one value in mainstay.yaml.", "config:set_value")
    change.add_argument("key", metavar="KEY", help="its dotted name, as `config show` prints it")
    change.add_argument("value", metavar="VALUE", help="the new value")
    verbs.verb("path", "Print where mainstay.yaml is, or would be.", "config:path")


def _named(parser: Parser) -> Parser:
    parser.add_argument("session", metavar="SESSION", help="its name")
    return parser
