"""The folders that the tasks with built-in tools work in: files of each commit, oldest first."""

from __future__ import annotations

Commits = tuple[tuple[str, dict[str, str]], ...]

_TALLY_MONEY = '''"""Amounts of money in cents."""


def parse_amount(text):
    """Read an amount like "12.50" or "7" and return cents."""
    whole, _, part = text.strip().partition(".")
    return int(whole) * 100 + int(part or 0)


def format_amount(cents):
    """Write cents as "12.50"."""
    return f"{cents // 100}.{cents % 100:02d}"
'''

_TALLY_REPORT = '''"""Monthly totals of a list of expenses."""

import csv

from tally.money import format_amount, parse_amount


def load_expenses(path):
    """Rows of a CSV with date, category and amount."""
    with open(path, newline="") as file:
        return [(row["date"], row["category"], parse_amount(row["amount"])) for row in csv.DictReader(file)]


def totals_by_month(expenses):
    totals = {}
    for date, _, cents in expenses:
        month = date[:7]
        totals[month] = totals.get(month, 0) + cents
    return totals


def print_report(path):
    # TODO: show categories too
    for month, cents in sorted(totals_by_month(load_expenses(path)).items()):
        print(month, format_amount(cents))
'''

_TALLY_CLI = '''"""Command line: tally FILE"""

import sys

from tally.report import print_report


def main():
    # TODO: a proper help text
    if len(sys.argv) != 2:
        print("usage: tally FILE")
        return 2
    print_report(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''

_TALLY_TESTS = """import unittest

from tally.money import format_amount, parse_amount
from tally.report import totals_by_month


class MoneyTest(unittest.TestCase):
    def test_whole_amount(self):
        self.assertEqual(parse_amount("7"), 700)

    def test_amount_with_cents(self):
        self.assertEqual(parse_amount("12.50"), 1250)

    def test_format(self):
        self.assertEqual(format_amount(1250), "12.50")


class ReportTest(unittest.TestCase):
    def test_months(self):
        rows = [("2026-01-03", "food", 100), ("2026-01-09", "rent", 200), ("2026-02-01", "food", 50)]
        self.assertEqual(totals_by_month(rows), {"2026-01": 300, "2026-02": 50})


if __name__ == "__main__":
    unittest.main()
"""

_EXPENSES = """date,category,amount
2026-01-03,food,23.40
2026-01-04,rent,640.00
2026-01-19,books,18.90
2026-02-01,rent,640.00
2026-02-07,food,41.15
2026-02-20,travel,88.00
2026-03-01,rent,640.00
2026-03-15,food,37.60
"""

TALLY: Commits = (
    (
        "Read and write amounts",
        {
            "tally/__init__.py": '__version__ = "0.3.0"\n',
            "tally/money.py": _TALLY_MONEY,
            ".gitignore": "__pycache__/\n*.pyc\nbuild/\n",
        },
    ),
    ("Monthly report", {"tally/report.py": _TALLY_REPORT, "tally/cli.py": _TALLY_CLI, "expenses.csv": _EXPENSES}),
    (
        "Tests and packaging",
        {
            "tests/__init__.py": "",
            "tests/test_tally.py": _TALLY_TESTS,
            "pyproject.toml": '[project]\nname = "tally"\nversion = "0.3.0"\nrequires-python = ">=3.9"\n',
            "Makefile": "test:\n\tpython3 -m unittest -q\n\nclean:\n\trm -rf build\n",
            "README.md": "# tally\n\nAdds up expences by month.\n",
            "CHANGES.md": "# Changes\n\n## 0.3.0\n\n- monthly report\n",
        },
    ),
)

_POST = "---\ntitle: {title}\ndate: {date}\ndraft: {draft}\n---\n\n{body}\n"

SITE: Commits = (
    (
        "First pages",
        {
            "index.html": (
                "<!doctype html>\n<html>\n<head>\n<title>Bakery Linde</title>\n"
                '<link rel="stylesheet" href="css/main.css">\n</head>\n<body>\n<h1>Bakery Linde</h1>\n'
                "<p>Open Tuesday to Saturday, 7:00 to 18:00.</p>\n"
                '<p>Phone: 0551 20 30 40</p>\n<img src="img/front.png">\n</body>\n</html>\n'
            ),
            "about.html": "<!doctype html>\n<html>\n<body>\n<h1>About us</h1>\n<p>Since 1984.</p>\n</body>\n</html>\n",
            "css/main.css": "body { font-family: serif; }\nh1 { color: #aa3300; }\n.old { display: none; }\n",
            "robots.txt": "User-agent: *\nDisallow:\n",
        },
    ),
    (
        "Posts",
        {
            "posts/rye.md": _POST.format(
                title="Rye bread", date="2026-02-11", draft="false", body="We bake rye on Tuesdays and Fridays."
            ),
            "posts/easter.md": _POST.format(
                title="Easter hours", date="2026-03-20", draft="false", body="Closed on Good Friday and Easter Monday."
            ),
            "posts/summer.md": _POST.format(
                title="Summer", date="2026-06-30", draft="true", body="We teh team go away."
            ),
            "data/prices.json": '{"rye": 4.2, "wheat": 3.1, "roll": 0.45, "pretzel": 0.9}\n',
        },
    ),
)

_COMPOSE = """services:
  web:
    image: shopfront:1.4.2
    ports: ["8080:80"]
    environment:
      LOG_LEVEL: info
  db:
    image: postgres:15
    volumes: ["db:/var/lib/postgresql/data"]
volumes:
  db: {}
"""

_ACCESS = "".join(
    f'10.0.0.{n % 7} - - [12/Mar/2026:0{n % 9}:10:00] "GET /{page} HTTP/1.1" {500 if n % 11 == 0 else 200} {n * 13}\n'
    for n, page in enumerate(["", "cart", "item/4", "", "item/9", "cart", "login"] * 12)
)

OPS: Commits = (
    (
        "Deployment",
        {
            "docker-compose.yml": _COMPOSE,
            "app.ini": "[server]\nport = 8080\nworkers = 2\ntimeout = 30\n\n[log]\nlevel = info\nfile = logs/app.log\n",
            "settings/dev.json": '{"debug": true, "cache": {"ttl": 60, "size": 100}, "url": "http://localhost:8080"}\n',
            "settings/prod.json": '{"debug": false, "cache": {"ttl": 600, "size": 100}, "url": "https://shop.example"}\n',
            "nginx.conf": "server {\n  listen 80;\n  server_name shop.example;\n  client_max_body_size 1m;\n}\n",
            "scripts/backup.sh": "#!/bin/sh\nset -e\ntar czf backup.tar.gz settings app.ini\n",
            "scripts/check.sh": "#!/bin/sh\ngrep -q '^port' app.ini && echo config ok\n",
            "README.md": "# shopfront\n\nDeployment files. Run `sh scripts/check.sh` first.\n",
        },
    ),
    (
        "Logs of last week",
        {"logs/access.log": _ACCESS, "logs/app.log": "INFO start\nWARN slow query 812 ms\nINFO stop\n"},
    ),
)

NOTES: Commits = (
    (
        "Notes",
        {
            "todo.md": "# Todo\n\n- [ ] call the landlord\n- [x] tax papers\n- [ ] new tyres\n- [ ] book the ferry\n",
            "shopping.md": "- oats\n- coffee\n- lemons\n",
            "meetings/2026-03-02.md": (
                "# Team, 2 March\n\nPresent: Ines, Tom, Yusuf\n\n- launch moves to 14 April\n"
                "- Tom asks the printer for a quote by Friday\n- Ines writes the announcement\n- budget: 3,200\n"
            ),
            "meetings/2026-03-09.md": (
                "# Team, 9 March\n\nPresent: Ines, Yusuf\n\n- printer quote: 780, accepted\n- Yusuf books the room\n"
                "- announcement draft is fine, send on 1 April\n"
            ),
            "recipes/lentil-soup.md": "# Lentil soup\n\nFor 2: 150 g red lentils, 1 onion, 1 carrot, 500 ml stock.\n",
            "recipes/plum-cake.md": "# Plum cake\n\n500 g plums, 200 g flour, 100 g sugar, 100 g butter, 2 eggs.\n",
            "lease.md": "# Flat\n\nRent 910, notice period 3 months to the end of a month. Landlord: R. Okafor.\n",
            "trip.md": "# Bergen\n\n- ferry 18 June 20:00\n- hotel: not booked\n- hike: Fløyen, Ulriken\n",
        },
    ),
)

PROJECTS: dict[str, Commits] = {"tally": TALLY, "site": SITE, "ops": OPS, "notes": NOTES}
