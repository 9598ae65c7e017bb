"""Argument parsers of `mainstay skill`, `mainstay pattern` and `mainstay trigger`."""

from __future__ import annotations

from mainstay.cli.parser.base import (
    CommandGroup,
    CommandParser,
    parse_count,
    parse_port,
    parse_seconds,
    parse_session_name,
)


def add_skills(commands: CommandGroup) -> None:
    commands.add_command("list", "List the skills of a workspace, including those of the home.", "skill:list_skills")
    _add_skill_name(commands.add_command("show", "Print a skill: its source, trust, tools and text.", "skill:show"))
    search = commands.add_command("search", "Search skills by words in their names and descriptions.", "skill:search")
    search.add_argument("words", nargs="+", metavar="WORDS", help="words to search for")
    check = commands.add_command("validate", "Check skills against the SKILL.md specification.", "skill:validate")
    check.add_argument("paths", nargs="*", metavar="PATH", help="folders with a SKILL.md (default: those of this home)")
    about = "Show what a skill contains, and install it for all workspaces or for one (--workspace)."
    install = _add_confirmation_options(commands.add_command("install", about, "skill_install:install"), has_force=True)
    what = "a folder, an archive (.zip, .tar, .tar.gz, .tgz), or the https address of an archive"
    install.add_argument("source", metavar="SOURCE", help=what)
    what = "if SOURCE has several skills: install this one; can be repeated"
    install.add_argument("--skill", metavar="NAME", action="append", default=[], help=what)
    install.add_argument("--all", action="store_true", help="if SOURCE has several skills: install all that can be")
    install.add_argument("--trust", action="store_true", help="treat its text as trusted; read it first")
    copy = _add_skill_name(commands.add_command("copy", "Copy a skill to another workspace.", "skill_install:copy"))
    about = "Link a skill into another workspace: edits show in both."
    link = _add_skill_name(commands.add_command("link", about, "skill_install:link"))
    for command in (copy, link):
        what = "the workspace that has it (default: the home)"
        command.add_argument("--from", dest="source_workspace", metavar="W", help=what)
        what = "the workspace that gets it (default: the home)"
        command.add_argument("--to", dest="target_workspace", metavar="W", help=what)
        command.add_argument("--force", action="store_true", help="replace a skill of the same name")
    help = "Show what changed in an installed skill, and accept the changes."
    approve = _add_confirmation_options(
        _add_skill_name(commands.add_command("approve", help, "skill_install:approve")), has_force=True
    )
    approve.add_argument("--trust", action="store_true", help="treat its text as trusted; read it first")
    trust = _add_confirmation_options(
        _add_skill_name(commands.add_command("trust", "Mark the text of a skill as trusted.", "skill_install:trust"))
    )
    trust.add_argument("--revoke", action="store_true", help="mark it as untrusted again")
    _add_confirmation_options(
        _add_skill_name(commands.add_command("remove", "Remove a skill, or a link to one.", "skill_install:remove"))
    )


def _add_skill_name(parser: CommandParser) -> CommandParser:
    parser.add_argument("name", metavar="NAME", help="the skill")
    return parser


def _add_confirmation_options(parser: CommandParser, *, has_force: bool = False) -> CommandParser:
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    if has_force:
        what = "accept dangerous findings, and replace a skill of your own"
        parser.add_argument("--force", action="store_true", help=what)
    return parser


def add_patterns(commands: CommandGroup) -> None:
    commands.add_command("list", "List patterns.", "pattern:list_patterns")
    about = "Show which patterns match a request, and their scores."
    search = commands.add_command("search", about, "pattern:search")
    search.add_argument("words", nargs="+", metavar="WORDS", help="a request as a user would write it")
    check = commands.add_command(
        "validate", "List all problems of pattern files, with their lines.", "pattern:validate"
    )
    check.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: those of this home)")
    show = commands.add_command("show", "Print a pattern as the model sees it, in full.", "pattern:show")
    show.add_argument("name", metavar="NAME", help="the pattern")


def add_triggers(commands: CommandGroup) -> None:
    commands.add_command("list", "List triggers with their next and last run.", "trigger:list_triggers")
    add = commands.add_command("add", "Add a trigger: a file in the home's events folder.", "trigger:add")
    add.add_argument("name", metavar="NAME", help="the trigger's name, also that of its file")
    add.add_argument("text", metavar="TEXT", help="the prompt for the agent")
    when = add.add_mutually_exclusive_group(required=True)
    when.add_argument("--now", action="store_true", help="run at once")
    when.add_argument("--at", metavar="TIME", help="run once, at an ISO time: 2026-11-02T15:30")
    when.add_argument("--cron", metavar="FIELDS", help="run repeatedly, by five cron fields: '0 9 * * mon-fri'")
    target = add.add_argument_group("target", "a session (default: one named like the trigger), or a room of a channel")
    target.add_argument("--session", type=parse_session_name, metavar="S", help="the session that gets the prompt")
    target.add_argument("--channel", metavar="C", help="with --room: a new thread for every run")
    target.add_argument("--room", metavar="R", help="the room of that channel")
    add.add_argument("--timezone", metavar="ZONE", help="Europe/Lisbon (default: this machine's)")
    what = "for runs missed while nothing was running: one run, none, or all"
    add.add_argument("--missed", choices=("once", "skip", "all"), help=what)
    add.add_argument("--jitter", metavar="S", type=parse_seconds, help="random delay of up to S seconds")
    what = "run this in the sandbox first; exit code 0: run the trigger, 1: nothing to do"
    add.add_argument("--check", metavar="COMMAND", help=what)
    add.add_argument("--force", action="store_true", help="replace a trigger of the same name")
    for name, help in (
        ("show", "Print a trigger and its runs."),
        ("remove", "Remove a trigger; its history is kept."),
        ("pause", "Pause a trigger."),
        ("resume", "Resume a paused trigger; runs missed meanwhile are skipped."),
        ("run", "Run a trigger now, regardless of its schedule, and wait for the answer."),
    ):
        commands.add_command(name, help, f"trigger:{name}").add_argument("name", metavar="NAME", help="the trigger")
    history = commands.add_command("history", "List runs of triggers, newest first.", "trigger:list_runs")
    history.add_argument("name", nargs="?", metavar="NAME", help="only of this trigger")
    history.add_argument("--limit", type=parse_count, default=20, metavar="N", help="at most N (default: 20)")
    about = "Run triggers and accept webhooks until stopped."
    serve = commands.add_command("serve", about, "trigger_serve:serve", has_json=False)
    serve.add_argument("--host", default="127.0.0.1", help="address to accept webhooks on (default: 127.0.0.1)")
    serve.add_argument(
        "--port", type=parse_port, default=7460, help="port for webhooks; 0: any free one (default: 7460)"
    )
    serve.add_argument("--model", metavar="M", help='the model to use, as "<provider>/<model>"')
