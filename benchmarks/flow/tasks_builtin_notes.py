"""Ordinary tasks with the built-in tools: texts, the web, memory, reminders, messages and sub-agents."""

from __future__ import annotations

import re

from builtin_rig import BuiltinRig, BuiltinTask, all_of, reminds
from honest_model import Script, ask, bash, call, edit, fetch, grep, read, write

_FERRY = {
    "/ferry": (
        "<html><h1>Fjord ferries</h1><p>Hirtshals to Bergen: daily except Monday, 20:00, arrives 12:30.</p>"
        "<p>See also <a href='/ferry/prices'>prices</a> and <a href='/ferry/luggage'>luggage</a>.</p></html>"
    ),
    "/ferry/prices": "<html><h1>Prices</h1><table><tr><td>Cabin</td><td>EUR 149</td></tr>"
    "<tr><td>Seat</td><td>EUR 62</td></tr></table></html>",
    "/ferry/luggage": "<html><p>Two pieces are free. Bicycles cost EUR 20.</p></html>",
}
_LIBRARY = {
    "/docs/": "<html><h1>quickcsv</h1><ul><li><a href='/docs/install.html'>Install</a></li>"
    "<li><a href='/docs/changes.html'>Changes</a></li></ul></html>",
    "/docs/install.html": "<html><p>Needs Python 3.9.</p><pre>pip install quickcsv</pre></html>",
    "/docs/changes.html": "<html><h2>2.0</h2><p>load() is now read(). The argument sep is called delimiter.</p></html>",
}
_USES_QUICKCSV = {
    "import_orders.py": "import quickcsv\n\nrows = quickcsv.load('orders.csv', sep=';')\nprint(len(rows))\n"
}
_HOLIDAYS = {"/holidays.txt": "2026-05-14 Ascension Day\n2026-05-25 Whit Monday\n2026-10-03 German Unity Day\n"}
_RECIPE = {
    "/dal": "<html><h1>Dal</h1><p>200 g red lentils, 1 tin of coconut milk, ginger, turmeric. 25 minutes.</p></html>"
}


def _follow_prices() -> Script:
    page = yield fetch("<site>/ferry")
    link = re.search(r"\[prices\]\(([^)]+)\)", page.text)
    path = link[1] if link else "/ferry/prices"
    yield fetch(path if path.startswith("http") else f"<site>{path}")
    yield edit("trip.md", "- ferry 18 June 20:00", "- ferry 18 June 20:00 (cabin EUR 149, seat EUR 62)")
    return "A cabin costs EUR 149."


def _upgrade_library() -> Script:
    index = yield fetch("<site>/docs/")
    link = re.search(r"\[Changes\]\(([^)]+)\)", index.text)
    path = link[1] if link else "/docs/changes.html"
    yield fetch(path if path.startswith("http") else f"<site>{path}")
    yield read("import_orders.py")
    yield edit("import_orders.py", "quickcsv.load('orders.csv', sep=';')", "quickcsv.read('orders.csv', delimiter=';')")
    return None


def _remove_reminder(words: str) -> Script:
    found = yield call("schedule", action="list")
    line = next(line for line in found.text.splitlines() if words in line)
    id = re.search(r"\ba\d+\b", line)
    yield call("schedule", action="remove", id=id[0] if id else "a1")
    return None


def _forget_locker_code() -> Script:
    found = yield call("memory_search", query="locker code")
    for line in found.text.splitlines():
        id = re.match(r"\[([^\]]+)\]", line)
        if id and "4417" in line:
            yield call("forget", id=id[1])
    return None


async def _locker_code_is_gone(rig: BuiltinRig) -> bool:
    return not await rig.remembers("4417") and rig.saw("Forgotten")


async def _one_reminder_left(rig: BuiltinRig) -> bool:
    return [one.text for one in await rig.reminders()] == ["water the plants"]


NOTES = (
    BuiltinTask(
        id="note-tick-off",
        project="notes",
        turns=(
            ask("landlord is called, tick it off", read("todo.md"), edit("todo.md", "[ ] call the", "[x] call the")),
        ),
        done=lambda rig: "[x] call the landlord" in rig.text("todo.md"),
    ),
    BuiltinTask(
        id="note-shopping-for-recipe",
        project="notes",
        turns=(
            ask(
                "put the stuff for the plum cake on the shopping list",
                read("recipes/plum-cake.md"),
                read("shopping.md"),
                bash("printf -- '- plums (500 g)\\n- flour\\n- sugar\\n- butter\\n- eggs\\n' >> shopping.md"),
            ),
        ),
        done=lambda rig: "plums" in rig.text("shopping.md"),
    ),
    BuiltinTask(
        id="note-double-recipe",
        project="notes",
        turns=(
            ask(
                "Linsensuppe für 6 Personen umrechnen, neue Datei",
                bash("ls recipes"),
                read("recipes/lentil-soup.md"),
                write(
                    "recipes/lentil-soup-6.md",
                    "# Lentil soup\n\nFor 6: 450 g lentils, 3 onions, 3 carrots, 1.5 l stock.\n",
                ),
            ),
        ),
        done=lambda rig: "450 g" in rig.text("recipes/lentil-soup-6.md"),
    ),
    BuiltinTask(
        id="note-open-points",
        project="notes",
        turns=(
            ask(
                "go through my meeting notes and make me a list of who has to do what, actions.md",
                call("glob", pattern="meetings/*.md"),
                [read("meetings/2026-03-02.md"), read("meetings/2026-03-09.md")],
                write("actions.md", "- Ines: send the announcement on 1 April\n- Yusuf: book the room\n"),
            ),
        ),
        done=lambda rig: "Yusuf" in rig.text("actions.md"),
    ),
    BuiltinTask(
        id="note-translate-post",
        project="site",
        turns=(
            ask(
                "traduce el post de pascua al español (posts/pascua.md)",
                read("posts/easter.md"),
                write("posts/pascua.md", "---\ntitle: Horario de Pascua\n---\n\nCerrado el Viernes Santo.\n"),
            ),
        ),
        done=lambda rig: "Viernes Santo" in rig.text("posts/pascua.md"),
    ),
    BuiltinTask(
        id="note-publish-draft",
        project="site",
        turns=(
            ask(
                "fix the typos in the summer post and publish it (draft false), then commit",
                read("posts/summer.md"),
                [edit("posts/summer.md", "teh", "the"), edit("posts/summer.md", "draft: true", "draft: false")],
                bash("git commit -qam 'Publish the summer post'"),
            ),
        ),
        done=lambda rig: "draft: false" in rig.git("show", "HEAD:posts/summer.md"),
    ),
    BuiltinTask(
        id="note-notice-period",
        project="notes",
        turns=(
            ask(
                "si je veux quitter l'appart fin septembre, je dois résilier quand ?",
                grep("notice"),
                read("lease.md"),
                answer="Au plus tard fin juin.",
            ),
            ask(
                "ajoute ça dans todo.md",
                edit("todo.md", "- [ ] new tyres", "- [ ] new tyres\n- [ ] résilier avant le 30 juin"),
            ),
        ),
        done=lambda rig: "30 juin" in rig.text("todo.md"),
    ),
)

WEB = (
    BuiltinTask(
        id="web-look-up-and-note",
        project="notes",
        pages=_FERRY,
        turns=(
            ask(
                "when does the ferry leave? its on <site>/ferry . add to trip.md",
                fetch("<site>/ferry"),
                read("trip.md"),
                edit(
                    "trip.md",
                    "- hotel: not booked",
                    "- ferry is daily except Monday, arrives 12:30\n- hotel: not booked",
                ),
            ),
        ),
        done=lambda rig: "arrives 12:30" in rig.text("trip.md"),
    ),
    BuiltinTask(
        id="web-follow-link",
        project="notes",
        pages=_FERRY,
        turns=(
            ask(
                "look at <site>/ferry, there should be a link to prices. whats a cabin? note it in trip.md",
                _follow_prices,
            ),
        ),
        done=lambda rig: "EUR 149" in rig.text("trip.md"),
    ),
    BuiltinTask(
        id="web-follow-link-second-turn",
        project="notes",
        pages=_FERRY,
        turns=(
            ask(
                "was steht auf <site>/ferry?",
                fetch("<site>/ferry"),
                answer="Fahrzeiten; Preise und Gepäck sind verlinkt.",
            ),
            ask(
                "und was kosten fahrräder? schau bei gepäck nach",
                fetch("<site>/ferry/luggage"),
                answer="20 Euro.",
            ),
        ),
        done=lambda rig: rig.saw("EUR 20"),
    ),
    BuiltinTask(
        id="web-upgrade-by-changelog",
        project="notes",
        pages=_LIBRARY,
        files=_USES_QUICKCSV,
        turns=(
            ask(
                "quickcsv 2 broke my import script. docs are at <site>/docs/ - find out what changed and fix it",
                _upgrade_library,
            ),
        ),
        done=lambda rig: "quickcsv.read('orders.csv', delimiter=';')" in rig.text("import_orders.py"),
    ),
    BuiltinTask(
        id="web-two-pages-compare",
        project="notes",
        pages=_FERRY,
        turns=(
            ask(
                "look at <site>/ferry/prices and <site>/ferry/luggage: seat plus bike costs what? -> cost.txt",
                [fetch("<site>/ferry/prices"), fetch("<site>/ferry/luggage")],
                write("cost.txt", "Seat 62 + bicycle 20 = EUR 82\n"),
            ),
        ),
        done=lambda rig: "82" in rig.text("cost.txt"),
    ),
    BuiltinTask(
        id="web-holidays-to-csv",
        project="notes",
        pages=_HOLIDAYS,
        turns=(
            ask(
                "hol die feiertage von <site>/holidays.txt und mach eine csv draus",
                fetch("<site>/holidays.txt"),
                write(
                    "holidays.csv",
                    "date,name\n2026-05-14,Ascension Day\n2026-05-25,Whit Monday\n2026-10-03,German Unity Day\n",
                ),
                bash("wc -l holidays.csv"),
            ),
        ),
        done=lambda rig: "2026-10-03" in rig.text("holidays.csv"),
    ),
    BuiltinTask(
        id="web-save-recipe-and-commit",
        project="notes",
        pages=_RECIPE,
        turns=(
            ask(
                "save the recipe at <site>/dal with my others and commit",
                bash("ls recipes && cat recipes/lentil-soup.md"),
                fetch("<site>/dal"),
                write(
                    "recipes/dal.md",
                    "# Dal\n\n200 g red lentils, 1 tin of coconut milk, ginger, turmeric. 25 minutes.\n",
                ),
                bash("git add recipes/dal.md && git commit -qm 'Add dal'"),
            ),
        ),
        done=lambda rig: "coconut" in rig.git("show", "HEAD:recipes/dal.md"),
    ),
    BuiltinTask(
        id="web-url-in-file",
        project="notes",
        pages=_RECIPE,
        files={"links.md": "- dal: <site>/dal\n- bread: <site>/bread\n"},
        turns=(
            ask(
                "open the dal link from links.md and tell me how long it takes",
                read("links.md"),
                fetch("<site>/dal"),
                answer="25 minutes.",
            ),
        ),
        done=lambda rig: rig.saw("25 minutes"),
    ),
)

MEMORY = (
    BuiltinTask(
        id="mem-remember",
        project="notes",
        turns=(ask("remember that Yusuf is vegetarian", call("remember", text="Yusuf is vegetarian.")),),
        done=lambda rig: rig.remembers("vegetarian"),
    ),
    BuiltinTask(
        id="mem-remember-from-file",
        project="notes",
        turns=(
            ask(
                "what's my rent? and keep that in mind",
                read("lease.md"),
                call("remember", text="The person's rent is 910."),
            ),
        ),
        done=lambda rig: rig.remembers("910"),
    ),
    BuiltinTask(
        id="mem-recall-later",
        project="notes",
        turns=(
            ask("merk dir: die WLAN-Kennung im Büro ist Specht-5", call("remember", text="WLAN im Büro: Specht-5")),
            ask("was steht noch auf der todo liste", read("todo.md"), answer="Reifen und Fähre."),
            ask("wie hieß nochmal das wlan im büro", call("memory_recall", topic="WLAN Büro"), answer="Specht-5."),
        ),
        done=lambda rig: rig.saw("Specht-5"),
    ),
    BuiltinTask(
        id="mem-forget",
        project="notes",
        turns=(
            ask("my locker code at the gym is 4417", call("remember", text="Locker code at the gym: 4417")),
            ask("actually forget the locker code", _forget_locker_code),
        ),
        done=_locker_code_is_gone,
    ),
)

REMINDERS = (
    BuiltinTask(
        id="rem-simple",
        project="notes",
        turns=(
            ask(
                "remind me on 2 June at 9 to call the dentist",
                call(
                    "schedule", action="add", when="2026-06-02T09:00", text="Call the dentist", timezone="Europe/Berlin"
                ),
            ),
        ),
        done=reminds("dentist", "2026-06-02"),
    ),
    BuiltinTask(
        id="rem-from-notes",
        project="notes",
        turns=(
            ask(
                "when was the announcement supposed to go out again? remind me the day before",
                grep("announcement", "meetings"),
                call("schedule", action="add", when="2026-03-31T09:00", text="Tomorrow: send the announcement"),
            ),
        ),
        done=reminds("announcement", "2026-03-31"),
    ),
    BuiltinTask(
        id="rem-weekly",
        project="ops",
        turns=(
            ask(
                "jeden montag um 8 an das backup erinnern",
                call("schedule", action="add", when="0 8 * * 1", text="Backup prüfen", timezone="Europe/Berlin"),
            ),
        ),
        done=reminds("Backup", "0 8"),
    ),
    BuiltinTask(
        id="rem-cancel",
        project="notes",
        reminders=(("0 8 * * 1", "water the plants"), ("2026-07-01T10:00", "renew the passport")),
        turns=(ask("passport is done, remove that reminder", lambda: _remove_reminder("passport")),),
        done=_one_reminder_left,
    ),
    BuiltinTask(
        id="rem-ferry",
        project="notes",
        pages=_FERRY,
        turns=(
            ask(
                "read trip.md and <site>/ferry, remind me two hours before the ferry",
                [read("trip.md"), fetch("<site>/ferry")],
                call("schedule", action="add", when="2026-06-18T18:00", text="Ferry to Bergen leaves at 20:00"),
            ),
        ),
        done=reminds("Ferry", "2026-06-18T18"),
    ),
)

MESSAGES = (
    BuiltinTask(
        id="msg-named-room",
        project="ops",
        turns=(
            ask(
                "check the app log for warnings and post them to slack:ops",
                grep("WARN", "logs"),
                call("message", to="slack:ops", text="One warning: slow query 812 ms"),
            ),
        ),
        done=lambda rig: rig.told("slack:ops", "812"),
    ),
    BuiltinTask(
        id="msg-test-result",
        turns=(
            ask(
                "run the tests and tell slack:dev the result",
                bash("python3 -m unittest -q 2>&1 | tail -3"),
                call("message", to="slack:dev", text="All tests pass."),
            ),
        ),
        done=lambda rig: rig.told("slack:dev", "pass"),
    ),
    BuiltinTask(
        id="msg-room-from-file",
        project="notes",
        files={"rooms.md": "- design team: slack:design\n- kitchen: slack:kitchen\n"},
        turns=(
            ask(
                "tell the design team the launch is on 14 april (room is in rooms.md)",
                read("rooms.md"),
                call("message", to="slack:design", text="The launch is on 14 April."),
            ),
        ),
        done=lambda rig: rig.told("slack:design", "14 April"),
    ),
    BuiltinTask(
        id="msg-minutes",
        project="notes",
        turns=(
            ask(
                "was war im meeting am 9. märz",
                read("meetings/2026-03-09.md"),
                answer="Angebot angenommen, Raum, Ankündigung.",
            ),
            ask(
                "schick die zusammenfassung an slack:team",
                call("message", to="slack:team", text="9. März: Druckerei 780 angenommen, Yusuf bucht den Raum."),
            ),
        ),
        done=lambda rig: rig.told("slack:team", "Yusuf"),
    ),
)

AGENTS = (
    BuiltinTask(
        id="sub-survey",
        turns=(
            ask(
                "let a subagent figure out how amounts are parsed and write its findings to amounts.md",
                call("spawn", prompt="Find out how amounts are parsed in tally/."),
                write("amounts.md", "parse_amount splits at the dot; one digit of cents is read wrongly.\n"),
            ),
        ),
        children={"Find out how amounts": (grep("parse_amount"), read("tally/money.py"))},
        done=lambda rig: "parse_amount" in rig.text("amounts.md"),
    ),
    BuiltinTask(
        id="sub-two-parallel",
        project="notes",
        turns=(
            ask(
                "have both meeting notes summarised in parallel, one line each, summary.md",
                [
                    call("spawn", prompt="Summarise meetings/2026-03-02.md in one line."),
                    call("spawn", prompt="Summarise meetings/2026-03-09.md in one line."),
                ],
                write("summary.md", "2 March: launch on 14 April.\n9 March: quote accepted.\n"),
            ),
        ),
        children={
            "Summarise meetings/2026-03-02": (read("meetings/2026-03-02.md"),),
            "Summarise meetings/2026-03-09": (read("meetings/2026-03-09.md"),),
        },
        done=lambda rig: rig.text("summary.md").count("\n") == 2,
    ),
    BuiltinTask(
        id="sub-tests-written",
        turns=(
            ask(
                "delegate: someone should write more tests for format_amount, then you run them",
                call("spawn", prompt="Write tests/test_format.py for format_amount.", tools=["read", "write", "bash"]),
                bash("python3 -m unittest -q"),
            ),
        ),
        children={
            "Write tests/test_format.py": (
                read("tally/money.py"),
                write(
                    "tests/test_format.py",
                    "import unittest\n\nfrom tally.money import format_amount\n\n\nclass Format(unittest.TestCase):\n"
                    '    def test_small(self):\n        self.assertEqual(format_amount(5), "0.05")\n',
                ),
                bash("python3 -m unittest -q tests.test_format"),
            )
        },
        done=lambda rig: rig.saw("Ran 5 tests"),
    ),
    BuiltinTask(
        id="sub-web-research",
        project="notes",
        pages=_FERRY,
        turns=(
            ask(
                "get a helper to read <site>/ferry/prices and report the cheapest option, add it to trip.md",
                call("spawn", prompt="Read <site>/ferry/prices and report the cheapest option.", tools=["fetch"]),
                edit("trip.md", "- hotel: not booked", "- cheapest: seat, EUR 62\n- hotel: not booked"),
            ),
        ),
        children={"Read http": (fetch("<site>/ferry/prices"),)},
        done=lambda rig: "EUR 62" in rig.text("trip.md"),
    ),
    BuiltinTask(
        id="long-session",
        pages=_LIBRARY,
        turns=(
            ask("hi! what is this repo", call("ls"), read("README.md"), answer="A small expense tool."),
            ask("run tests", bash("make test"), answer="Four pass."),
            ask(
                "does it use quickcsv? see <site>/docs/install.html for what it needs",
                grep("quickcsv"),
                fetch("<site>/docs/install.html"),
                answer="No. quickcsv needs Python 3.9.",
            ),
            ask(
                "ok. remove the Makefile's clean target, we dont need it, delete build if there",
                read("Makefile"),
                edit("Makefile", "\nclean:\n\trm -rf build\n", ""),
                bash("rm -rf build"),
            ),
            ask("commit and show me the log", bash("git commit -qam 'Drop make clean' && git log --oneline -3")),
        ),
        done=all_of(
            lambda rig: "Drop make clean" in rig.git("log", "-1"), lambda rig: "clean" not in rig.text("Makefile")
        ),
    ),
    BuiltinTask(
        id="long-report",
        project="ops",
        turns=(
            ask(
                "how many requests and errors are in the access log?",
                bash("wc -l < logs/access.log; grep -c '\" 500 ' logs/access.log"),
                answer="84 requests, 8 errors.",
            ),
            ask(
                "write that into report.md with today's date",
                bash("date +%F"),
                write("report.md", "84 requests, 8 errors.\n"),
            ),
            ask(
                "commit, tell slack:ops, and remind me next monday 9:00 to look again",
                bash("git add report.md && git commit -qm 'Report on the access log'"),
                call("message", to="slack:ops", text="Access log: 84 requests, 8 errors. See report.md."),
                call("schedule", action="add", when="2026-06-08T09:00", text="Look at the access log again"),
            ),
        ),
        done=all_of(lambda rig: rig.told("slack:ops", "8 errors"), reminds("access log", "2026-06-08")),
    ),
)

TASKS: tuple[BuiltinTask, ...] = NOTES + WEB + MEMORY + REMINDERS + MESSAGES + AGENTS
