"""Ordinary tasks with the built-in tools: everyday shell work, configuration and small data analyses."""

from __future__ import annotations

import os
import tarfile
import time
import zipfile
from pathlib import Path

from builtin_rig import BuiltinTask
from honest_model import Script, ask, bash, call, edit, read, write

_DAY_S = 86_400

_ORDERS = """id,customer,country,total
7,Abel,DE,120.50
3,Brio,FR,80.00
9,Cato,DE,15.25
1,Dune,ES,230.00
5,Abel,DE,99.90
5,Abel,DE,99.90
8,Elva,FR,61.10
"""


def _old_logs(root: Path) -> None:
    for name, days in (("jan.log", 90), ("feb.log", 60), ("mar.log", 2)):
        path = root / "logs" / name
        path.write_text(f"{name}\n" * 50)
        os.utime(path, (time.time() - days * _DAY_S,) * 2)


def _big_files(root: Path) -> None:
    (root / "dump.bin").write_bytes(b"\0" * 3_000_000)
    (root / "video").mkdir()
    (root / "video" / "clip.mp4").write_bytes(b"\1" * 5_000_000)


def _photos_zip(root: Path) -> None:
    with zipfile.ZipFile(root / "photos.zip", "w") as archive:
        archive.writestr("beach.txt", "beach\n")
        archive.writestr("inner/hill.txt", "hill\n")


def _build_folder(root: Path) -> None:
    for name in ("a.o", "b.o", "lib/tally.so"):
        path = root / "build" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"object")


def _caches(root: Path) -> None:
    for folder in ("tally", "tests"):
        cache = root / folder / "__pycache__"
        cache.mkdir(exist_ok=True)
        (cache / "x.pyc").write_bytes(b"x")


def _downloads(root: Path) -> None:
    folder = root / "downloads"
    folder.mkdir()
    for name in ("a.pdf", "b.pdf", "c.jpg", "d.csv", "IMG 001.jpg"):
        (folder / name).write_text(name)


def _names_in(archive: Path) -> list[str]:
    with tarfile.open(archive) as opened:
        return opened.getnames()


def _largest_files() -> Script:
    found = yield bash("find . -path ./.git -prune -o -type f -size +1M -printf '%s %p\\n' | sort -rn")
    largest = found.text.split()[1]
    return f"The largest file is {largest}."


def _duplicates() -> Script:
    found = yield bash("cd copies && sha256sum * | sort | awk '{print $1, $2}'")
    seen: dict[str, str] = {}
    extra = []
    for line in found.text.splitlines():
        parts = line.split()
        if len(parts) == 2 and len(parts[0]) == 64:
            if parts[0] in seen:
                extra.append(parts[1])
            seen.setdefault(parts[0], parts[1])
    yield bash("cd copies && rm " + " ".join(extra))
    return None


SHELL = (
    BuiltinTask(
        id="sh-large-files",
        prepare=_big_files,
        turns=(ask("what's eating all the space in here?", _largest_files),),
        done=lambda rig: rig.saw("clip.mp4", "dump.bin"),
    ),
    BuiltinTask(
        id="sh-delete-the-large-one",
        prepare=_big_files,
        turns=(
            ask("find files > 1 MB", bash("find . -path ./.git -prune -o -type f -size +1M -print"), answer="Two."),
            ask("delete dump.bin, keep the video", bash("rm dump.bin && ls")),
        ),
        done=lambda rig: not rig.has("dump.bin") and rig.has("video/clip.mp4"),
    ),
    BuiltinTask(
        id="sh-count-lines",
        turns=(ask("wie viele zeilen python sind das insgesamt", bash("git ls-files '*.py' | xargs wc -l")),),
        done=lambda rig: rig.saw("total"),
    ),
    BuiltinTask(
        id="sh-unzip",
        prepare=_photos_zip,
        turns=(
            ask(
                "unzip photos.zip into a folder photos and tell me whats in it",
                bash("unzip -l photos.zip"),
                bash("mkdir -p photos && unzip -q photos.zip -d photos && find photos -type f"),
            ),
        ),
        done=lambda rig: rig.text("photos/inner/hill.txt") == "hill\n",
    ),
    BuiltinTask(
        id="sh-archive-old-logs",
        project="ops",
        prepare=_old_logs,
        turns=(
            ask(
                "archive the logs older than 30 days into logs/archive.tar.gz and remove the originals",
                bash("ls -l --time-style=long-iso logs"),
                bash(
                    "cd logs && find . -name '*.log' -mtime +30 -print0 | tar czf archive.tar.gz --null -T - "
                    "&& tar tzf archive.tar.gz"
                ),
                bash("cd logs && find . -name '*.log' -mtime +30 -delete && ls"),
            ),
        ),
        done=lambda rig: (
            rig.has("logs/archive.tar.gz")
            and "./jan.log" in _names_in(rig.root / "logs/archive.tar.gz")
            and not rig.has("logs/jan.log")
            and rig.has("logs/mar.log")
        ),
    ),
    BuiltinTask(
        id="sh-chmod",
        project="ops",
        turns=(
            ask(
                "make the scripts executable",
                bash("ls -l scripts"),
                bash("chmod +x scripts/*.sh && ls -l scripts && ./scripts/check.sh"),
            ),
        ),
        done=lambda rig: os.access(rig.root / "scripts/backup.sh", os.X_OK) and rig.saw("config ok"),
    ),
    BuiltinTask(
        id="sh-clean-build",
        prepare=_build_folder,
        turns=(ask("clean the build folder", bash("ls -R build"), bash("rm -rf build/* && ls -la build")),),
        done=lambda rig: not rig.has("build/a.o") and not rig.has("build/lib"),
    ),
    BuiltinTask(
        id="sh-make-clean",
        prepare=_build_folder,
        turns=(ask("look at the makefile and run make clean", read("Makefile"), bash("make clean && ls")),),
        done=lambda rig: not rig.has("build"),
    ),
    BuiltinTask(
        id="sh-delete-caches",
        prepare=_caches,
        turns=(
            ask(
                "borra todos los __pycache__",
                bash("find . -name __pycache__ -type d"),
                bash("find . -name __pycache__ -type d -prune -exec rm -rf {} +"),
                bash("find . -name __pycache__ | wc -l"),
            ),
        ),
        done=lambda rig: not rig.has("tally/__pycache__") and not rig.has("tests/__pycache__"),
    ),
    BuiltinTask(
        id="sh-delete-file",
        project="notes",
        turns=(ask("lösch shopping.md, brauch ich nicht mehr", bash("rm shopping.md")),),
        done=lambda rig: not rig.has("shopping.md"),
    ),
    BuiltinTask(
        id="sh-delete-after-look",
        project="notes",
        files={"draft-old.md": "old\n", "draft-new.md": "new\n"},
        turns=(
            ask(
                "there are two drafts lying around, which is the older version? delete that one",
                bash("ls -l draft-*.md && head draft-*.md"),
                bash("rm draft-old.md"),
            ),
        ),
        done=lambda rig: not rig.has("draft-old.md") and rig.has("draft-new.md"),
    ),
    BuiltinTask(
        id="sh-dedupe-copies",
        project="notes",
        files={"copies/a.txt": "one\n", "copies/b.txt": "two\n", "copies/c.txt": "one\n"},
        turns=(ask("there are identical files in copies/, keep one of each", _duplicates),),
        done=lambda rig: sorted(p.name for p in (rig.root / "copies").iterdir()) == ["a.txt", "b.txt"],
    ),
    BuiltinTask(
        id="sh-sort-downloads",
        project="notes",
        prepare=_downloads,
        turns=(
            ask(
                "sort downloads into pdf/ and pictures/, leave the rest",
                call("ls", path="downloads"),
                bash("cd downloads && mkdir -p pdf pictures && mv *.pdf pdf/ && mv *.jpg pictures/ && ls -R"),
            ),
        ),
        done=lambda rig: rig.has("downloads/pdf/b.pdf") and rig.has("downloads/pictures/IMG 001.jpg"),
    ),
    BuiltinTask(
        id="sh-rename-spaces",
        project="notes",
        prepare=_downloads,
        turns=(
            ask(
                "quita los espacios de los nombres de archivo en downloads",
                bash("ls downloads"),
                bash('cd downloads && for f in *" "*; do mv "$f" "$(echo "$f" | tr " " "_")"; done; ls'),
            ),
        ),
        done=lambda rig: rig.has("downloads/IMG_001.jpg"),
    ),
    BuiltinTask(
        id="sh-tar-backup",
        project="ops",
        turns=(
            ask(
                "run the backup script and check the archive is ok",
                read("scripts/backup.sh"),
                bash("sh scripts/backup.sh && tar tzf backup.tar.gz"),
            ),
        ),
        done=lambda rig: rig.has("backup.tar.gz") and rig.saw("settings/prod.json"),
    ),
    BuiltinTask(
        id="sh-replace-in-files",
        project="site",
        turns=(
            ask(
                "la boulangerie s'appelle maintenant 'Bakery Lindner', change-le partout",
                bash("grep -rn 'Bakery Linde' --include=*.html ."),
                bash("sed -i 's/Bakery Linde/Bakery Lindner/g' index.html && grep -c Lindner index.html"),
            ),
        ),
        done=lambda rig: rig.text("index.html").count("Bakery Lindner") == 2,
    ),
    BuiltinTask(
        id="sh-crlf",
        project="notes",
        files={"from-windows.txt": "one\r\ntwo\r\n"},
        turns=(
            ask(
                "from-windows.txt has windows line endings, convert",
                bash("file from-windows.txt"),
                bash("sed -i 's/\\r$//' from-windows.txt && file from-windows.txt"),
            ),
        ),
        done=lambda rig: (rig.root / "from-windows.txt").read_bytes() == b"one\ntwo\n",
    ),
    BuiltinTask(
        id="sh-empty-trash-folder",
        project="notes",
        files={"trash/a.md": "a\n", "trash/b/c.md": "c\n"},
        turns=(ask("empty the trash folder", bash("find trash -type f"), bash("rm -rf trash/* && ls -A trash")),),
        done=lambda rig: not any((rig.root / "trash").iterdir()),
    ),
    BuiltinTask(
        id="sh-server-smoke-test",
        project="site",
        turns=(
            ask(
                "start a little web server for the site and check that the index comes, then stop it",
                call("process", action="start", command="python3 -m http.server 8123", wait=2),
                bash("grep -c h1 index.html"),
                call("process", action="stop", id="p1"),
            ),
        ),
        done=lambda rig: rig.saw("p1"),
    ),
)

CONFIG = (
    BuiltinTask(
        id="cfg-workers",
        project="ops",
        turns=(
            ask(
                "set workers to 4 and the timeout to 60 in app.ini",
                read("app.ini"),
                [edit("app.ini", "workers = 2", "workers = 4"), edit("app.ini", "timeout = 30", "timeout = 60")],
            ),
        ),
        done=lambda rig: "workers = 4" in rig.text("app.ini") and "timeout = 60" in rig.text("app.ini"),
    ),
    BuiltinTask(
        id="cfg-compose-redis",
        project="ops",
        turns=(
            ask(
                "add a redis 7 service to the compose file",
                read("docker-compose.yml"),
                edit("docker-compose.yml", "volumes:\n  db: {}", "  redis:\n    image: redis:7\nvolumes:\n  db: {}"),
                bash("python3 -c \"print(open('docker-compose.yml').read())\""),
            ),
        ),
        done=lambda rig: "image: redis:7" in rig.text("docker-compose.yml"),
    ),
    BuiltinTask(
        id="cfg-diff-dev-prod",
        project="ops",
        turns=(
            ask(
                "worin unterscheiden sich dev und prod?",
                bash("diff <(jq -S . settings/dev.json) <(jq -S . settings/prod.json)"),
            ),
        ),
        done=lambda rig: rig.saw("600"),
    ),
    BuiltinTask(
        id="cfg-json-value",
        project="ops",
        turns=(
            ask(
                "cache ttl in prod should be 15 min",
                read("settings/prod.json"),
                bash("jq '.cache.ttl = 900' settings/prod.json > tmp.json && mv tmp.json settings/prod.json"),
                read("settings/prod.json"),
            ),
        ),
        done=lambda rig: "900" in rig.text("settings/prod.json") and not rig.has("tmp.json"),
    ),
    BuiltinTask(
        id="cfg-nginx-upload-size",
        project="ops",
        turns=(
            ask(
                "uploads bigger than 1mb fail, nginx i guess. allow 20",
                call("grep", pattern="max_body"),
                edit("nginx.conf", "client_max_body_size 1m;", "client_max_body_size 20m;"),
                bash("git diff nginx.conf && git commit -qam 'Allow uploads up to 20 MB'"),
            ),
        ),
        done=lambda rig: "20m" in rig.git("show", "HEAD:nginx.conf"),
    ),
    BuiltinTask(
        id="cfg-makefile-target",
        turns=(
            ask(
                "add a `make report` that runs the cli on expenses.csv, and try it",
                read("Makefile"),
                bash("printf '\\nreport:\\n\\tpython3 -m tally.cli expenses.csv\\n' >> Makefile && make report"),
            ),
        ),
        done=lambda rig: "report:" in rig.text("Makefile") and rig.saw("2026-01 682.30"),
    ),
    BuiltinTask(
        id="cfg-opening-hours",
        project="site",
        turns=(
            ask(
                "ab Mai machen wir erst um 8 auf. bitte auf der startseite ändern",
                call("grep", pattern="Open"),
                edit("index.html", "7:00 to 18:00", "8:00 to 18:00"),
            ),
        ),
        done=lambda rig: "8:00 to 18:00" in rig.text("index.html"),
    ),
)

DATA = (
    BuiltinTask(
        id="data-sort-csv",
        project="notes",
        files={"orders.csv": _ORDERS},
        turns=(
            ask(
                "sort orders.csv by id and drop the duplicate row",
                bash("head orders.csv"),
                bash("(head -1 orders.csv; tail -n +2 orders.csv | sort -t, -k1,1n -u) > s.csv && mv s.csv orders.csv"),
                bash("cat orders.csv"),
            ),
        ),
        done=lambda rig: (
            rig.text("orders.csv").splitlines()[1].startswith("1,") and rig.text("orders.csv").count("Abel") == 2
        ),
    ),
    BuiltinTask(
        id="data-totals-script",
        project="notes",
        files={"orders.csv": _ORDERS},
        turns=(
            ask(
                "how much did each country order? put a little table in totals.md",
                read("orders.csv"),
                write(
                    "sum.py",
                    "import csv\nfrom collections import Counter\n\ntotal = Counter()\n"
                    "for row in csv.DictReader(open('orders.csv')):\n"
                    "    total[row['country']] += float(row['total'])\n"
                    "for country, value in total.most_common():\n    print(f'| {country} | {value:.2f} |')\n",
                ),
                bash("(echo '| country | total |'; echo '|---|---|'; python3 sum.py) > totals.md && cat totals.md"),
                bash("rm sum.py"),
            ),
        ),
        done=lambda rig: "| DE | 335.55 |" in rig.text("totals.md") and not rig.has("sum.py"),
    ),
    BuiltinTask(
        id="data-errors-per-page",
        project="ops",
        turns=(
            ask(
                "which pages give 500s? from the access log",
                bash("grep '\" 500 ' logs/access.log | awk '{print $6}' | sort | uniq -c | sort -rn"),
            ),
        ),
        done=lambda rig: rig.saw("/"),
    ),
    BuiltinTask(
        id="data-csv-to-json",
        project="notes",
        files={"orders.csv": _ORDERS},
        turns=(
            ask(
                "convierte orders.csv a json",
                bash(
                    "python3 -c \"import csv, json; print(json.dumps(list(csv.DictReader(open('orders.csv'))), "
                    'indent=1))" > orders.json && head -8 orders.json'
                ),
            ),
        ),
        done=lambda rig: '"customer": "Brio"' in rig.text("orders.json"),
    ),
    BuiltinTask(
        id="data-biggest-month",
        turns=(
            ask(
                "which month did I spend most and on what? write it to insight.txt",
                bash("python3 -m tally.cli expenses.csv"),
                bash("grep 2026-02 expenses.csv"),
                write("insight.txt", "February 2026: 769.15, most of it rent.\n"),
            ),
        ),
        done=lambda rig: rig.saw("769.15") and "February" in rig.text("insight.txt"),
    ),
    BuiltinTask(
        id="data-sqlite",
        project="notes",
        files={"orders.csv": _ORDERS},
        turns=(
            ask(
                "load orders.csv into an sqlite db orders.db, table orders, and tell me the top customer",
                bash("head -2 orders.csv"),
                bash("sqlite3 orders.db -cmd '.mode csv' '.import orders.csv orders'"),
                bash(
                    "sqlite3 orders.db 'select customer, sum(total) s from orders group by 1 order by s desc limit 1'"
                ),
            ),
        ),
        done=lambda rig: rig.has("orders.db") and rig.saw("Abel|320.3"),
    ),
    BuiltinTask(
        id="data-price-increase",
        project="site",
        turns=(
            ask(
                "erhöh alle preise um 10 cent",
                read("data/prices.json"),
                bash("jq 'map_values(. * 100 + 10 | round / 100)' data/prices.json > p && mv p data/prices.json"),
                bash("cat data/prices.json"),
            ),
        ),
        done=lambda rig: "4.3" in rig.text("data/prices.json") and "0.55" in rig.text("data/prices.json"),
    ),
)

TASKS: tuple[BuiltinTask, ...] = SHELL + CONFIG + DATA
