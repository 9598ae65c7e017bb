"""Files, data, the web, memory, schedules and messages with the built-in tools."""

# ruff: noqa: E501

from __future__ import annotations

from builtin_chat import BuiltinBook, bash, edit, fetch, grep, read, write
from herbarium import FILES_LOG, FILES_MESS
from script import Script, call

BOOK = BuiltinBook("files")


@BOOK.task("which errors are in the log?", done=lambda rig: rig.saw("timeout"), files=FILES_LOG, kind="read")
def errors() -> Script:
    yield grep("ERROR", "logs")


@BOOK.task(
    "how many errors per day, as a table in logs/errors.md",
    done=lambda rig: "2026-11-10" in rig.text("logs/errors.md"),
    files=FILES_LOG,
)
def errors_table() -> Script:
    yield bash("grep ERROR logs/app.log | cut -c1-10 | sort | uniq -c")
    yield write("logs/errors.md", "| day | errors |\n|---|---|\n| 2026-11-10 | 2 |\n")


@BOOK.task(
    "räum den downloads ordner auf: bilder nach pictures, pdfs nach invoices",
    done=lambda rig: rig.has("pictures/IMG_001.JPG") and rig.has("invoices/invoice april.pdf"),
    files=FILES_MESS,
)
def sort_downloads() -> Script:
    yield call("ls", path="downloads")
    yield bash(
        "mkdir -p pictures invoices && mv downloads/*.JPG pictures/ && mv downloads/*.pdf invoices/ && ls -R pictures invoices"
    )


@BOOK.task(
    "rename the jpgs in downloads to lower case .jpg",
    done=lambda rig: rig.has("downloads/img_001.jpg"),
    files=FILES_MESS,
)
def lower_case() -> Script:
    yield call("glob", pattern="downloads/*.JPG")
    yield bash('cd downloads && for f in *.JPG; do mv "$f" "$(echo $f | tr A-Z a-z)"; done; ls')


@BOOK.task("delete the build folder", done=lambda rig: not rig.has("build"), files=FILES_MESS)
def delete_build() -> Script:
    yield bash("du -sh build")
    yield bash("rm -r build")


@BOOK.task(
    "get rid of all backup and tmp files",
    done=lambda rig: not rig.has("notes.txt.bak") and not rig.has("downloads/setup.tmp"),
    files=FILES_MESS,
)
def backups() -> Script:
    yield bash("find . -name '*.bak' -o -name '*~' -o -name '*.tmp' | grep -v .git/")
    yield bash("rm notes.txt.bak data/plants.csv~ downloads/setup.tmp")


@BOOK.task(
    "replace the spaces in the invoice file names by underscores",
    done=lambda rig: rig.has("downloads/invoice_april.pdf"),
    files=FILES_MESS,
)
def underscores() -> Script:
    yield call("ls", path="downloads")
    yield bash("cd downloads && mv 'invoice march.pdf' invoice_march.pdf && mv 'invoice april.pdf' invoice_april.pdf")


@BOOK.task(
    "remove the duplicate rows from data/plants.csv", done=lambda rig: rig.text("data/plants.csv").count("Daisy") == 1
)
def duplicates() -> Script:
    yield read("data/plants.csv")
    yield bash(
        "awk '!seen[$0]++' data/plants.csv > data/new.csv && mv data/new.csv data/plants.csv && cat data/plants.csv"
    )


@BOOK.task(
    "sort plants.csv by height, biggest first, keep the header",
    done=lambda rig: "Spruce" in rig.text("data/plants.csv").splitlines()[1],
)
def sort_plants() -> Script:
    yield bash(
        "(head -1 data/plants.csv; tail -n +2 data/plants.csv | sort -t, -k3 -nr) > /tmp/s.csv && cat /tmp/s.csv > data/plants.csv; head -3 data/plants.csv"
    )


@BOOK.task("average height per family?", done=lambda rig: rig.saw("Pinaceae"), kind="read")
def per_family() -> Script:
    yield bash("awk -F, 'NR>1{s[$2]+=$3;n[$2]++} END{for(f in s) print f, s[f]/n[f]}' data/plants.csv")


@BOOK.task("convierte plants.csv a json en data/plants.json", done=lambda rig: "Larch" in rig.text("data/plants.json"))
def to_json() -> Script:
    yield read("data/plants.csv")
    yield bash(
        "python3 -c \"import csv,json;print(json.dumps(list(csv.DictReader(open('data/plants.csv')))))\" > data/plants.json"
    )


@BOOK.task(
    "add a plant: Oak, Fagaceae, 2500, found today (2026-11-18)",
    done=lambda rig: "Oak,Fagaceae,2500" in rig.text("data/plants.csv"),
)
def add_oak() -> Script:
    yield read("data/plants.csv")
    yield bash("echo 'Oak,Fagaceae,2500,2026-11-18' >> data/plants.csv && tail -2 data/plants.csv")


@BOOK.task("what takes the most space here", done=lambda rig: rig.saw("data"), kind="read")
def space() -> Script:
    yield bash("du -ah --exclude=.git . | sort -h | tail -8")


@BOOK.task("zip the docs into docs.tar.gz", done=lambda rig: rig.has("docs.tar.gz"))
def archive() -> Script:
    yield bash("tar czf docs.tar.gz docs && tar tzf docs.tar.gz")


@BOOK.task("which of the ideas in notes/ideas.txt is the easiest?", done=lambda rig: rig.saw("photos"), kind="read")
def ideas() -> Script:
    yield read("notes/ideas.txt")
    yield read("herbarium/cli.py")


@BOOK.task("add 'offline mode' to my ideas", done=lambda rig: "offline" in rig.text("notes/ideas.txt"))
def add_idea() -> Script:
    yield read("notes/ideas.txt")
    yield edit("notes/ideas.txt", "export to PDF\n", "export to PDF\noffline mode\n")


@BOOK.task(
    "turn the ideas file into a markdown checklist ideas.md and delete the txt",
    done=lambda rig: "- [ ]" in rig.text("notes/ideas.md") and not rig.has("notes/ideas.txt"),
)
def checklist() -> Script:
    yield read("notes/ideas.txt")
    yield write("notes/ideas.md", "- [ ] map of finds\n- [ ] photos\n- [ ] export to PDF\n")
    yield bash("rm notes/ideas.txt")


@BOOK.task("summarize <site>/guide.html", done=lambda rig: rig.saw("italics"), kind="read")
def guide() -> Script:
    yield fetch("<site>/guide.html")


@BOOK.task(
    "get <site>/prices.csv and tell me what 2 pots and 3 bags of soil cost",
    done=lambda rig: rig.saw("7.20"),
    kind="read",
)
def prices() -> Script:
    yield fetch("<site>/prices.csv")
    yield bash("echo '2*3.5+3*7.2' | bc 2>/dev/null || python3 -c 'print(2*3.5+3*7.2)'")


@BOOK.task(
    "save the table of <site>/prices.csv as data/prices.csv",
    done=lambda rig: "soil,7.20" in rig.text("data/prices.csv"),
)
def save_prices() -> Script:
    yield fetch("<site>/prices.csv")
    yield write("data/prices.csv", "item,eur\npot,3.50\nsoil,7.20\nseeds,2.10\n")


@BOOK.task("wird es am donnerstag regnen? <site>/weather.txt", done=lambda rig: rig.saw("rain"), kind="read")
def weather() -> Script:
    yield fetch("<site>/weather.txt")


@BOOK.task("note in MEMORY.md that i always want metric units", done=lambda rig: "metric" in rig.text("MEMORY.md"))
def remember() -> Script:
    yield read("docs/usage.md")
    yield write("MEMORY.md", "- The user wants metric units.\n")


@BOOK.task("what do you know about my preferences?", done=lambda rig: True, kind="read")
def preferences() -> Script:
    yield call("memory_search", query="preferences")


@BOOK.task("remind me tomorrow at 9 to water the seedlings", done=lambda rig: rig.reminds("water", "2026-11-19T09:00"))
def remind() -> Script:
    yield call("schedule", action="add", when="2026-11-19T09:00", text="Remind me to water the seedlings")


@BOOK.task(
    "every monday at 8 check the log for errors and tell me",
    done=lambda rig: rig.reminds("log", "0 8 * * 1"),
    files=FILES_LOG,
)
def weekly() -> Script:
    yield call("schedule", action="add", when="0 8 * * 1", text="Check the log logs/app.log for errors and report them")


@BOOK.task("tell slack:garden that the plant list is updated", done=lambda rig: rig.told("slack:garden", "updated"))
def tell() -> Script:
    yield bash("git log -1 --format=%cd")
    yield call("message", to="slack:garden", text="The plant list is updated.")


@BOOK.task(
    "post the number of plants per family to slack:garden", done=lambda rig: rig.told("slack:garden", "Rosaceae")
)
def post_numbers() -> Script:
    yield bash("tail -n +2 data/plants.csv | cut -d, -f2 | sort | uniq -c")
    yield call("message", to="slack:garden", text="Rosaceae 2, Pinaceae 2, Asteraceae 3")


@BOOK.task(
    "empty the log file", done=lambda rig: rig.has("logs/app.log") and not rig.text("logs/app.log"), files=FILES_LOG
)
def empty_log() -> Script:
    yield bash("wc -l logs/app.log")
    yield bash(": > logs/app.log")


@BOOK.task(
    "keep only the last 10 lines of logs/app.log",
    done=lambda rig: len(rig.text("logs/app.log").splitlines()) == 10,
    files=FILES_LOG,
)
def trim_log() -> Script:
    yield bash("tail -10 logs/app.log > logs/t && mv logs/t logs/app.log && wc -l logs/app.log")


@BOOK.task(
    "move all markdown files from docs to documentation/",
    done=lambda rig: rig.has("documentation/usage.md") and not rig.has("docs/usage.md"),
)
def move_docs() -> Script:
    yield bash("ls docs")
    yield bash("mkdir documentation && mv docs/*.md documentation/ && rmdir docs")


@BOOK.task(
    "find all files that mention plants.csv and list them in notes/uses.txt",
    done=lambda rig: "README.md" in rig.text("notes/uses.txt"),
)
def uses() -> Script:
    yield grep("plants.csv")
    yield bash("grep -rl plants.csv --exclude-dir=.git . > notes/uses.txt; cat notes/uses.txt")


@BOOK.task("écris un petit résumé du projet dans RESUME.md", done=lambda rig: "plantes" in rig.text("RESUME.md"))
def resume() -> Script:
    yield read("README.md")
    yield read("data/plants.csv")
    yield write("RESUME.md", "Un petit programme qui calcule la hauteur moyenne des plantes.\n")


@BOOK.task("show me the csv", "delete the larch", "and now the total count",
           done=lambda rig: "Larch" not in rig.text("data/plants.csv"))  # fmt: skip
def larch_turns() -> Script:
    yield read("data/plants.csv")
    yield "Seven rows."
    yield bash("sed -i '/^Larch,/d' data/plants.csv")
    yield "Deleted."
    yield bash("tail -n +2 data/plants.csv | wc -l")


@BOOK.task("list the TODOs in the code", done=lambda rig: rig.saw("argparse"), kind="read")
def todos() -> Script:
    yield grep("TODO")


@BOOK.task(
    "start a web server for the docs on port 8765 in the background, check it answers, stop it",
    done=lambda rig: rig.saw("Usage"),
)
def server() -> Script:
    yield bash(
        "cd docs && (python3 -m http.server 8765 >/dev/null 2>&1 & echo $! > /tmp/p; sleep 1; python3 -c \"import urllib.request;print(urllib.request.urlopen('http://127.0.0.1:8765/usage.md').read().decode())\"; kill $(cat /tmp/p))"
    )
