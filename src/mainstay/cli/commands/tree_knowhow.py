"""The tree's nouns of know-how and of work that nobody typed: skills, patterns, triggers."""

from __future__ import annotations

from mainstay.cli.commands.verbs import Parser, Verbs, count, port, seconds


def add_skills(verbs: Verbs) -> None:
    verbs.verb("list", "List the skills that a workspace has, its own and the home's.", "skill:list_skills")
    _skill(verbs.verb("show", "Print a skill: where it is from, what it may do, what it says.", "skill:show"))
    search = verbs.verb("search", "Find skills by words in their names and descriptions.", "skill:search")
    search.add_argument("words", nargs="+", metavar="WORDS", help="what to look for")
    check = verbs.verb("validate", "Say what is wrong with skills, by their specification.", "skill:validate")
    check.add_argument("paths", nargs="*", metavar="PATH", help="folders with a SKILL.md (default: those of this home)")
    about = "Show what a skill brings, and install it for every workspace or for one (--workspace)."
    install = _asking(verbs.verb("install", about, "skill_install:install"), danger=True)
    what = "a folder, an archive (.zip, .tar, .tar.gz, .tgz), or the https address of one"
    install.add_argument("source", metavar="SOURCE", help=what)
    install.add_argument(
        "--skill", metavar="NAME", action="append", default=[], help="of several in it, this; may be given again"
    )
    install.add_argument("--all", action="store_true", help="of several in it, all")
    install.add_argument("--trust", action="store_true", help="you have read it: its words count as yours")
    copy = _skill(verbs.verb("copy", "Copy a skill to another workspace.", "skill_install:copy"))
    link = _skill(
        verbs.verb("link", "Share a skill with another workspace: an edit shows in both.", "skill_install:link")
    )
    for verb in (copy, link):
        verb.add_argument("--from", dest="start", metavar="W", help="the workspace that has it (default: the home)")
        verb.add_argument("--to", dest="end", metavar="W", help="the workspace that gets it (default: the home)")
        verb.add_argument("--force", action="store_true", help="replace one of the same name")
    help = "Look at what has changed in an installed skill, and accept it."
    approve = _asking(_skill(verbs.verb("approve", help, "skill_install:approve")), danger=True)
    approve.add_argument("--trust", action="store_true", help="you have read it: its words count as yours")
    trust = _asking(_skill(verbs.verb("trust", "Vouch for the words of an installed skill.", "skill_install:trust")))
    trust.add_argument("--revoke", action="store_true", help="no longer")
    _asking(_skill(verbs.verb("remove", "Remove a skill, or a link to one.", "skill_install:remove")))


def _skill(parser: Parser) -> Parser:
    parser.add_argument("name", metavar="NAME", help="its name")
    return parser


def _asking(parser: Parser, *, danger: bool = False) -> Parser:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    if danger:
        parser.add_argument("--force", action="store_true", help="even if it looks dangerous, or replaces your own")
    return parser


def add_patterns(verbs: Verbs) -> None:
    verbs.verb("list", "List patterns.", "pattern:list_patterns")
    search = verbs.verb("search", "Find patterns as a request would: which fit it, and how well.", "pattern:search")
    search.add_argument("words", nargs="+", metavar="WORDS", help="what somebody might ask for")
    check = verbs.verb("validate", "Say everything that is wrong with patterns, and where.", "pattern:validate")
    check.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: those of this home)")
    show = verbs.verb("show", "Print a pattern as the model sees it, whole.", "pattern:show")
    show.add_argument("name", metavar="NAME", help="its name")


def add_triggers(verbs: Verbs) -> None:
    verbs.verb("list", "List triggers, when each is due and what came of it last.", "trigger:list_triggers")
    add = verbs.verb("add", "Add a trigger: a file in the home's events folder.", "trigger:add")
    add.add_argument("name", metavar="NAME", help="its name, which becomes its file's")
    add.add_argument("text", metavar="TEXT", help="what the agent is to do")
    when = add.add_mutually_exclusive_group(required=True)
    when.add_argument("--now", action="store_true", help="at once")
    when.add_argument("--at", metavar="TIME", help="once, at an ISO time: 2026-11-02T15:30")
    when.add_argument("--cron", metavar="FIELDS", help="again and again, by five cron fields: '0 9 * * mon-fri'")
    where = add.add_argument_group("where", "a session, else one that is named like the trigger")
    where.add_argument("--session", metavar="S", help="the conversation that it speaks to")
    where.add_argument("--channel", metavar="C", help="with --room: a new thread for every run")
    where.add_argument("--room", metavar="R", help="the room in that channel")
    add.add_argument("--timezone", metavar="ZONE", help="Europe/Lisbon (default: this machine's)")
    add.add_argument("--missed", choices=("once", "skip", "all"), help="what to do about times that were missed")
    add.add_argument("--jitter", metavar="S", type=seconds, help="later by up to so many seconds")
    add.add_argument("--check", metavar="COMMAND", help="run in the sandbox first; 0: go on, 1: nothing to do")
    add.add_argument("--force", action="store_true", help="replace one of the same name")
    for name, help in (
        ("show", "Print a trigger, and what came of it."),
        ("remove", "Remove a trigger; what came of it stays."),
        ("pause", "Let nothing of it come due for now."),
        ("resume", "Go on with it; what passed meanwhile is not made up for."),
        ("run", "Run a trigger now, beside its schedule, and wait for the answer."),
    ):
        verbs.verb(name, help, f"trigger:{name}").add_argument("name", metavar="NAME", help="its name")
    history = verbs.verb("history", "List what triggers did, the newest first.", "trigger:history")
    history.add_argument("name", nargs="?", metavar="NAME", help="of this one only")
    history.add_argument("--limit", type=count, default=20, metavar="N", help="so many (default: 20)")
    serve = verbs.verb("serve", "Fire triggers and take webhooks until stopped.", "trigger_serving:serve", json=False)
    serve.add_argument("--host", default="127.0.0.1", help="where webhooks are taken (default: this machine only)")
    serve.add_argument("--port", type=port, default=7460, help="default: 7460; 0: any that is free")
    serve.add_argument("--model", metavar="M", help="<provider>/<model>")
