"""Ordinary conversations of several turns with the built-in tools."""

from __future__ import annotations

from builtin_rig import BuiltinTask, all_of, reminds
from honest_model import ask, bash, call, edit, fetch, grep, read, write

_POOL = {
    "/pool": "<html><h1>City pool</h1><p>Open 6:30 to 21:00. <a href='/pool/courses'>Courses</a></p></html>",
    "/pool/courses": "<html><ul><li>Crawl for beginners, Tuesdays 19:00, from 9 June</li></ul></html>",
}
_API = {
    "/api": "<html><h1>Rates API</h1><p>GET /v2/rates returns JSON. Version 1 ends on 1 July.</p></html>",
}
_CLIENT = {"rates.py": "BASE = 'https://rates.example/v1/rates'\n\n\ndef url(day):\n    return f'{BASE}?day={day}'\n"}
_INBOX = {
    "inbox/quote-a.txt": "Offer of Alder Ltd: 12 chairs, 1,140 in total, delivery in 3 weeks.\n",
    "inbox/quote-b.txt": "Offer of Birch & Co: 12 chairs, 1,020 in total, delivery in 6 weeks.\n",
}


TASKS: tuple[BuiltinTask, ...] = (
    BuiltinTask(
        id="talk-compare-quotes",
        project="notes",
        files=_INBOX,
        turns=(
            ask(
                "two quotes in inbox/, which one's cheaper?",
                bash("cat inbox/quote-*.txt"),
                answer="Birch, 1,020, but six weeks.",
            ),
            ask(
                "write a short decision memo, we take birch",
                write("memo.md", "We take Birch & Co: 1,020, six weeks.\n"),
            ),
            ask(
                "put the quotes into archive/ and commit everything",
                bash("mkdir -p archive && mv inbox/* archive/"),
                bash("git add -A && git commit -qm 'Chairs: take Birch' && git status --short"),
            ),
        ),
        done=lambda rig: "memo.md" in rig.git("show", "--name-only", "HEAD") and rig.has("archive/quote-a.txt"),
    ),
    BuiltinTask(
        id="talk-pool-course",
        project="notes",
        pages=_POOL,
        turns=(
            ask("wann hat das bad offen? <site>/pool", fetch("<site>/pool"), answer="6:30 bis 21 Uhr."),
            ask("gibt's schwimmkurse?", fetch("<site>/pool/courses"), answer="Kraulen ab 9. Juni, dienstags 19 Uhr."),
            ask(
                "erinner mich am 2. juni um 12 mich anzumelden und schreib's in todo.md",
                call("schedule", action="add", when="2026-06-02T12:00", text="Kraulkurs anmelden"),
                edit("todo.md", "- [ ] new tyres", "- [ ] new tyres\n- [ ] Kraulkurs anmelden"),
            ),
        ),
        done=all_of(lambda rig: "Kraulkurs" in rig.text("todo.md"), reminds("Kraulkurs", "2026-06-02")),
    ),
    BuiltinTask(
        id="talk-api-migration",
        project="ops",
        pages=_API,
        files=_CLIENT,
        turns=(
            ask("where do we call the rates api", grep("rates"), answer="In rates.py, version 1."),
            ask(
                "their docs are at <site>/api, do we have to change something?",
                fetch("<site>/api"),
                answer="Yes, v1 ends on 1 July.",
            ),
            ask(
                "do it, on a branch rates-v2, and commit",
                bash("git switch -qc rates-v2"),
                edit("rates.py", "/v1/rates", "/v2/rates"),
                bash("git add rates.py && git commit -qm 'Use version 2 of the rates API' && git log --oneline -1"),
            ),
        ),
        done=lambda rig: "/v2/rates" in rig.git("show", "rates-v2:rates.py"),
    ),
    BuiltinTask(
        id="talk-refactor-step-by-step",
        turns=(
            ask("show me cli.py", read("tally/cli.py")),
            ask(
                "use argparse there",
                write(
                    "tally/cli.py",
                    '"""Command line: tally FILE"""\n\nimport argparse\nimport sys\n\n'
                    "from tally.report import print_report\n\n\n"
                    'def main():\n    parser = argparse.ArgumentParser(prog="tally", description="Totals by month")\n'
                    '    parser.add_argument("file")\n    print_report(parser.parse_args().file)\n    return 0\n\n\n'
                    'if __name__ == "__main__":\n    sys.exit(main())\n',
                ),
                bash("python3 -m tally.cli --help && python3 -m tally.cli expenses.csv"),
            ),
            ask(
                "nice. remove the TODO about help from TODO list if there is one",
                grep("help", "."),
                answer="There is none.",
            ),
            ask("commit", bash("git commit -qam 'Use argparse' && git status --short")),
        ),
        done=lambda rig: "argparse" in rig.git("show", "HEAD:tally/cli.py"),
    ),
    BuiltinTask(
        id="talk-logs-then-clean",
        project="ops",
        files={"logs/debug-1.log": "x\n" * 900, "logs/debug-2.log": "y\n" * 900},
        turns=(
            ask("how big are the logs", bash("du -ab logs | sort -n"), answer="Two debug logs are the biggest."),
            ask("anything important in the debug ones?", bash("sort logs/debug-*.log | uniq -c"), answer="No."),
            ask(
                "then delete logs/debug-1.log and logs/debug-2.log",
                bash("rm logs/debug-1.log logs/debug-2.log && ls logs"),
            ),
        ),
        done=lambda rig: not rig.has("logs/debug-1.log") and not rig.has("logs/debug-2.log"),
    ),
    BuiltinTask(
        id="talk-delete-them",
        project="notes",
        files={"tmp/a.bak": "a\n", "tmp/b.bak": "b\n", "tmp/keep.md": "k\n"},
        turns=(
            ask(
                "which backup files are lying around?", bash("find . -name '*.bak'"), answer="tmp/a.bak and tmp/b.bak."
            ),
            ask("delete them", bash("rm tmp/a.bak tmp/b.bak && ls tmp")),
        ),
        done=lambda rig: not rig.has("tmp/a.bak") and not rig.has("tmp/b.bak") and rig.has("tmp/keep.md"),
    ),
    BuiltinTask(
        id="talk-meeting-followup",
        project="notes",
        turns=(
            ask(
                "qu'est-ce qu'on a décidé le 2 mars ?", read("meetings/2026-03-02.md"), answer="Lancement le 14 avril."
            ),
            ask(
                "rappelle-moi le 13 avril à 9h de vérifier que tout est prêt",
                call(
                    "schedule",
                    action="add",
                    when="2026-04-13T09:00",
                    text="Vérifier que tout est prêt",
                    timezone="Europe/Paris",
                ),
            ),
            ask(
                "et préviens slack:team que le lancement est le 14",
                call("message", to="slack:team", text="Le lancement est le 14 avril."),
            ),
        ),
        done=all_of(lambda rig: rig.told("slack:team", "14 avril"), reminds("prêt", "2026-04-13")),
    ),
    BuiltinTask(
        id="talk-config-and-rollback",
        project="ops",
        turns=(
            ask("what's the log level in prod compose?", grep("LOG_LEVEL"), answer="info"),
            ask(
                "set to debug",
                edit("docker-compose.yml", "LOG_LEVEL: info", "LOG_LEVEL: debug"),
                bash("git diff --stat"),
            ),
            ask("hmm no, put it back", bash("git checkout docker-compose.yml && git status --short")),
        ),
        done=lambda rig: rig.saw("docker-compose.yml") and "LOG_LEVEL: info" in rig.text("docker-compose.yml"),
    ),
    BuiltinTask(
        id="talk-csv-cleaning",
        project="notes",
        files={"members.csv": "name,mail\nAda,ada@club.example\nBo,\nada,ada@club.example\nCy,cy@club.example\n"},
        turns=(
            ask(
                "mira members.csv, ¿hay algo raro?", read("members.csv"), answer="Una fila sin correo y una duplicada."
            ),
            ask(
                "quita la duplicada y la vacía y guárdalo como members-clean.csv",
                bash(
                    "awk -F, 'NR==1 || ($2 != \"\" && !seen[$2]++)' members.csv > members-clean.csv"
                    " && cat members-clean.csv"
                ),
            ),
            ask("borra el original", bash("rm members.csv && mv members-clean.csv members.csv && ls")),
        ),
        done=lambda rig: rig.text("members.csv") == "name,mail\nAda,ada@club.example\nCy,cy@club.example\n",
    ),
    BuiltinTask(
        id="talk-remember-and-use",
        project="notes",
        turns=(
            ask(
                "fyi my team's room is slack:harbour",
                call("remember", text="The team's room is slack:harbour."),
                answer="Noted.",
            ),
            ask(
                "what did tom have to do after the meeting on march 2?",
                grep("Tom", "meetings"),
                answer="Ask for a quote.",
            ),
            ask(
                "tell my team that the quote is in: 780",
                call("message", to="slack:harbour", text="The printer's quote is 780."),
            ),
        ),
        done=lambda rig: rig.told("slack:harbour", "780"),
    ),
    BuiltinTask(
        id="talk-site-images",
        project="site",
        files={"img/front.png": "x", "img/unused.png": "y"},
        turns=(
            ask(
                "are there images no page uses?",
                bash("ls img; grep -rhoE 'img/[a-z.]+' --include=*.html ."),
                answer="unused.png",
            ),
            ask(
                "remove it and commit", bash("rm img/unused.png && git add -A && git commit -qm 'Drop an unused image'")
            ),
        ),
        done=lambda rig: not rig.has("img/unused.png") and "unused" in rig.git("log", "-1", "--format=%s"),
    ),
    BuiltinTask(
        id="talk-subagent-then-fix",
        turns=(
            ask(
                "let a helper check the tests for gaps",
                call("spawn", prompt="Check tests/ for gaps and report them."),
                answer="Negative amounts are not tested.",
            ),
            ask(
                "add a test for negative amounts then",
                bash("python3 -c \"from tally.money import parse_amount; print(parse_amount('-2'))\""),
                edit(
                    "tests/test_tally.py",
                    "    def test_format(self):",
                    '    def test_negative(self):\n        self.assertEqual(parse_amount("-2"), -200)\n\n'
                    "    def test_format(self):",
                ),
                bash("make test"),
            ),
        ),
        children={"Check tests/": (call("ls", path="tests"), read("tests/test_tally.py"), read("tally/money.py"))},
        done=lambda rig: rig.saw("-200", "Ran 5 tests", "OK"),
    ),
)
