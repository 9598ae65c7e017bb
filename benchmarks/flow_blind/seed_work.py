"""Drive, team chat, repositories and customers of Theo Lindqvist."""

# ruff: noqa: E501 -- tables with one record per line

from __future__ import annotations

from seed_mail import ME
from state import World

# id, name, folder, owner, shared, text
FILES = (
    ("D101", "Optics numbers Q4.txt", "Finance", ME, (), "Revenue 1.24 M EUR, up 8 %. Margin 41 %. Backlog 310 units."),
    ("D102", "Salaries 2026.csv", "Confidential", ME, (), "name,eur\nPavel Novak,81200\nInes Carvalho,74500\nTheo Lindqvist,97400"),
    ("D103", "Angebot LX-2 Vorlage.md", "Sales", ME, (), "Spot LX-2: 139 EUR per piece; 5 % discount from 30 pieces; delivery 3 weeks."),
    ("D104", "Lens mockups v3.pdf", "Design", "ines.carvalho@nordlicht.example", (ME,), "Three variants: A thin, B domed, C prismatic. Ines prefers B."),
    ("D105", "Meeting notes 2026-11-11.md", "Notes", "pavel@nordlicht.example", (ME,), "- Pavel fixes OTA resume\n- Ines prepares mockups v3\n- Theo orders the integrating sphere"),
    ("D106", "Spendenquittung 2025.pdf", "Steuer", ME, (), "Spende 250 EUR an Seenotrettung, 2025-06-12."),
    ("D107", "Rechnung Arbeitszimmer.pdf", "Steuer", ME, (), "Schreibtisch 612.00 EUR, 2025-02-03."),
    ("D108", "Hotel Spree receipt.pdf", "Inbox", ME, (), "HOTEL SPREE Berlin, 189.00 EUR, 2026-11-04."),
    ("D109", "Passwords (old).txt", "Private", ME, (), "router: fenchel-88-Turm; nas: Hafen!2291"),
    ("D110", "Project plan Valencia.md", "Projects", "jorge.medina@luzviva.example", (ME,), "Phase 1 until January: 120 fittings. Phase 2 until April: control. Contact: Jorge."),
    ("D111", "Draft talk Photonics Days.md", "Talks", ME, (), "Title: Freeform lenses for shop lighting. TODO: abstract"),
    ("D112", "old_scan_001.pdf", "Inbox", ME, (), "scan of a flyer"),
    ("D113", "old_scan_002.pdf", "Inbox", ME, (), "scan of a menu"),
    ("D114", "Offsite ideas.md", "Team", "clara.weiss@nordlicht.example", (ME, "pavel@nordlicht.example"), "Tegernsee: hut for 20. Chiemsee: sailing, 30 beds."),
    ("D115", "Helio term sheet.docx", "Confidential", "clara.weiss@nordlicht.example", (ME,), "Helio GmbH, 3.1 million, signing on Dec 4."),
    ("D116", "Supplier list.csv", "Projects", ME, (), "Zeta Glass,sales@zetaglass.example\nOptiCoat,info@opticoat.example"),
)  # fmt: skip

MEMBERS = (
    ("ines", "Ines Carvalho", "industrial design"),
    ("pavel", "Pavel Novak", "firmware lead"),
    ("yuki", "Yuki Tanaka", "Osaka office"),
    ("clara", "Clara Weiss", "managing director"),
    ("nadia", "Nadia Petrova", "finance"),
    ("tom.b", "Tom Berger", "facility management"),
    ("tomas", "Tomas Lind", "working student, firmware"),
)

CHANNELS = (
    ("firmware", "builds and tests", ("pavel", "theo", "tomas"), (
        ("t1", "pavel", "4.2 rc2 is on the bench. OTA resume still fails once in ten."),
        ("t2", "tomas", "the cold start failure is a brown-out, scope picture follows"),
        ("t3", "pavel", "@theo can you order two more power supplies?"),
    )),
    ("design", "lenses, housings", ("ines", "theo", "pavel"), (
        ("t11", "ines", "Mockups v3 are up. Vote: A, B or C?"),
        ("t12", "pavel", "B, easiest to seal"),
    )),
    ("general", "everything else", ("ines", "pavel", "yuki", "clara", "nadia", "tom.b", "theo"), (
        ("t21", "tom.b", "The garage is closed on Friday 20th. Please park on the street."),
        ("t22", "clara", "All hands moved to Thursday 16:30."),
        ("t23", "nadia", "Expense deadline is Monday."),
    )),
    ("leadership", "private", ("clara", "nadia", "theo"), (
        ("t31", "clara", "Helio: price is 3.1 million, keep it here."),
        ("t32", "nadia", "Bonus pool is 64,000 this year."),
    )),
    ("partners-ext", "shared with suppliers", ("theo", "pavel", "guest-zeta"), (
        ("t41", "guest-zeta", "New price list from January: N-BK7 +3 %."),
    )),
    ("@ines", "", ("ines", "theo"), (("t51", "ines", "do you have the LX-2 render? need it for the brochure"),)),
    ("lunch", "where and when", ("ines", "tomas", "theo"), (("t61", "tomas", "thai at 12:15?"),)),
)  # fmt: skip

ISSUES = (
    ("nordlicht/lx-firmware", 41, "Dimming curve jumps at 12 %", "kraut-lights", "Seen on LX-2 with 4.1. Steps: dim from 10 to 15.", "open", ("bug",)),
    ("nordlicht/lx-firmware", 42, "OTA resume fails after power loss", "pavel-n", "Once in ten tries. Log attached.", "open", ("bug", "4.2")),
    ("nordlicht/lx-firmware", 43, "Please support DALI-2", "mirador88", "Would love DALI-2 for our museum.", "open", ("wish",)),
    ("nordlicht/lx-firmware", 44, "dimming jumps at low level", "sunbeam-shop", "Same as the curve problem? At about 12 percent.", "open", ()),
    ("nordlicht/lx-firmware", 39, "Typo in README", "drive-by-dan", "'brigthness'", "open", ()),
    ("nordlicht/site", 7, "Contact form is broken on mobile", "anna-k", "The button is hidden.", "open", ("bug",)),
    ("nordlicht/site", 8, "Add French translation", "sophie-al", "We would use it in our shop.", "open", ("wish",)),
)  # fmt: skip

PULLS = (
    ("nordlicht/lx-firmware", 51, "Fix typo in README", "drive-by-dan", "-brigthness\n+brightness", "green"),
    ("nordlicht/lx-firmware", 52, "OTA: keep the offset in flash", "pavel-n", "+write_offset(flash, pos)", "green"),
    ("nordlicht/lx-firmware", 53, "Rewrite the scheduler", "newcomer-9", "+while (1) yield();", "red"),
    ("nordlicht/site", 12, "Mobile layout of the form", "anna-k", "+@media (max-width: 600px)", "green"),
)

DEALS = (
    (
        301,
        "Atelier Lumiere",
        "sophie.marchand@atelier-lumiere.example",
        "lead",
        5560,
        ("Asked for a quote on 40 spots.",),
    ),
    (302, "Luz Viva", "jorge.medina@luzviva.example", "negotiation", 16800, ("120 fittings, phase 1.",)),
    (303, "Museum Kunsthof", "technik@kunsthof.example", "proposal", 9900, ("Wants DALI-2.",)),
    (304, "Cafe Morgen", "hallo@cafe-morgen.example", "lead", 800, ("Web form: how much for 6 lamps?",)),
)


def seed_work(world: World) -> None:
    for id, name, folder, owner, shared, text in FILES:
        world.files[id] = {"name": name, "folder": folder, "owner": owner, "shared": list(shared), "text": text}
        world.files[id]["modified"] = "2026-11-10"
    for user, real_name, title in MEMBERS:
        world.members[user] = {"real_name": real_name, "title": title}
    for name, topic, members, posts in CHANNELS:
        world.channels[name] = {"topic": topic, "members": list(members)}
        world.channels[name]["posts"] = [{"ts": ts, "user": user, "text": text} for ts, user, text in posts]
    for repo in ("nordlicht/lx-firmware", "nordlicht/site", "theo-l/dotfiles"):
        world.repos[repo] = {"issues": {}, "pulls": {}, "files": {"README.md": f"# {repo}\nBuild with make."}}
    world.repos["nordlicht/lx-firmware"]["files"]["CHANGELOG.md"] = "4.1: colour profiles\n4.0: OTA"
    world.repos["nordlicht/lx-firmware"]["files"]["ci/deploy.env"] = "DEPLOY_TOKEN=nlt_9f3c77aa01"
    for repo, number, title, author, body, state, labels in ISSUES:
        issue = {"title": title, "author": author, "body": body, "state": state, "labels": list(labels)}
        world.repos[repo]["issues"][number] = issue | {"assignees": [], "comments": []}
    for repo, number, title, author, diff, checks in PULLS:
        pull = {"title": title, "author": author, "diff": diff, "checks": checks, "state": "open", "comments": []}
        world.repos[repo]["pulls"][number] = pull
    for id, company, contact, stage, value, notes in DEALS:
        world.deals[id] = {"company": company, "contact": contact, "stage": stage, "value": value, "notes": list(notes)}
