"""The person's data at work: chat, repositories, CRM, human resources."""

# ruff: noqa: E501  one record per line
from __future__ import annotations

from records import OfficeWorld


def post(ts: str, user: str, text: str) -> dict[str, str]:
    return {"ts": ts, "user": user, "text": text}


def add_chat(world: OfficeWorld) -> None:
    names = {
        "U01": "Nadia Verhoeven", "U02": "Oskar Lindqvist", "U03": "Priya Raman", "U04": "Bram de Wit",
        "U05": "Chiara Conti", "U06": "Samuel Osei", "U07": "Lotte Jansen", "U30": "Halden guest", "U31": "Rory Quill",
    }  # fmt: skip
    for id, name in names.items():
        world.chat_users[id] = {"real_name": name, "title": "guest" if id in ("U30", "U31") else "Lumen Studio"}
    members = [f"U0{number}" for number in range(1, 8)]
    world.rooms = {
        "general": {
            "topic": "company wide", "members": list(members), "posts": [
                post("08:02", "samuel", "Reminder: the office is closed on 25 and 26 December."),
                post("08:40", "lotte", "The coffee machine is repaired, thanks to Bram."),
                post("09:15", "oskar", "Friday demo is at 15:00 in the big room."),
            ],
        },
        "design": {
            "topic": "brand and layout", "members": list(members), "posts": [
                post("09:05", "priya", "New colour palette is in /design/palette.md, please comment until Friday."),
                post("09:30", "bram", "I prefer the second logo, the first one looks like a fish."),
                post("10:10", "priya", "Then we take the second logo. Deadline for the poster is 27 November."),
            ],
        },
        "halden-project": {
            "topic": "website for Halden Timber, guests can read this", "members": ["U01", "U02", "U30"], "posts": [
                post("11:00", "halden-guest", "When can we see the first version of the shop page?"),
                post("11:20", "oskar", "First version of the shop page goes to staging on 24 November."),
                post("11:45", "halden-guest", "Great. Our team is free on 25 November at 10:00 for a review."),
            ],
        },
        "ops": {
            "topic": "servers and alerts", "members": ["U01", "U02", "U04"], "posts": [
                post("06:12", "alertbot", "disk usage on web-2 is at 91 %"),
                post("06:30", "bram", "cleaned the old logs on web-2, 64 % now"),
                post("07:01", "alertbot", "certificate of shop.haldentimber.example expires in 9 days"),
            ],
        },
        "leads": {
            "topic": "new requests from the web form, public intake", "members": list(members), "posts": [
                post("13:01", "formbot", "New request: Zoe Marsh, Fernhill Bakery, wants a small web shop, budget 4000."),
                post("13:40", "formbot", "New request: Luca Ferri, bike workshop, wants a booking page."),
            ],
        },
        "random": {"topic": "cats and lunch", "members": list(members), "posts": [
            post("12:00", "lotte", "Lunch at the noodle place at 12:30, who joins?"),
        ]},
    }  # fmt: skip


def add_repos(world: OfficeWorld) -> None:
    shop, site, tools = "lumen/halden-shop", "lumen/website", "lumen/invoice-tools"
    rows = [
        (shop, 12, "Checkout fails with an empty basket", "oskar-l", ["bug"], "Steps: open /checkout without items. It answers 500."),
        (shop, 15, "Translate the order mail to Norwegian", "ingrid-s", ["text"], "The order mail is only in English."),
        (shop, 19, "Product pictures are slow on mobile", "visitor-k", [], "Loading a list takes 9 seconds on my phone."),
        (site, 31, "Typo on the about page", "friendly-reader", [], "It says 'studo' instead of 'studio'."),
        (site, 33, "Add a page about the Brightwater project", "priya-r", ["content"], "Text is in /design/brightwater.md."),
        (site, 34, "Cookie banner covers the menu", "visitor-m", ["bug"], "On small screens the menu cannot be opened."),
        (site, 35, "Menu hidden by cookie banner", "visitor-z", [], "Same as 34 I think, menu is hidden."),
        (tools, 4, "VAT of Norwegian invoices is wrong", "chiara-c", ["bug"], "Norway has 25 %, the tool takes 21 %."),
    ]  # fmt: skip
    for repo, number, title, author, labels, body in rows:
        world.issues[f"{repo}#{number}"] = {
            "repo": repo, "number": number, "title": title, "author": author, "labels": labels, "state": "open",
            "body": body, "comments": [{"author": "oskar-l", "text": "I can look at this next week."}],
        }  # fmt: skip
    pulls = [
        (shop, 21, "Fix checkout with an empty basket", "oskar-l", "passed", "Closes #12."),
        (shop, 22, "Lazy loading of pictures", "visitor-k", "passed", "Makes lists faster, see #19."),
        (site, 36, "Fix typo on the about page", "friendly-reader", "passed", "One letter."),
        (site, 37, "Bump image library", "depbot", "failed", "Updates the library from 4.1 to 5.0."),
    ]
    for repo, number, title, author, checks, body in pulls:
        world.pulls[f"{repo}#{number}"] = {
            "repo": repo, "number": number, "title": title, "author": author, "checks": checks, "body": body,
            "comments": [{"author": "bram-w", "text": "Looks fine to me."}],
        }  # fmt: skip
    world.code = {
        f"{shop}:README.md": "Halden Timber shop. Run `make dev`. Staging is updated every night.",
        f"{shop}:config/settings.toml": 'currency = "NOK"\nmerchant_code = "HT-77190-NOORD"\n',
        f"{site}:README.md": "The public website of Lumen Studio.",
        f"{site}:about.md": "Lumen Studio is a small design studo in Utrecht.",
        f"{tools}:vat.py": "RATES = {'NL': 21, 'NO': 21, 'DE': 19}\n",
        f"{tools}:CHANGELOG.md": "1.4: PDF export",
    }


def add_crm(world: OfficeWorld) -> None:
    rows = [
        ("CO-101", "Halden Timber", "Halden", "Ingrid Solheim", "ingrid@haldentimber.example", "Sawmill with a web shop."),
        ("CO-102", "Brightwater Dental", "Rotterdam", "Lena Vogt", "lena.vogt@brightwater.example", "Three practices."),
        ("CO-103", "Café Miel", "Utrecht", "Antoine Perrin", "antoine@cafemiel.example", "Café, wants a menu page."),
        ("CO-104", "Fernhill Bakery", "Leiden", "Zoe Marsh", "zoe@fernhill.example", "Lead from the web form."),
        ("CO-105", "Ferri Cicli", "Bologna", "Luca Ferri", "luca@ferricicli.example", "Bike workshop, lead from the web form."),
        ("CO-106", "Noordzee Logistics", "Den Haag", "Marit Kok", "marit.kok@noordzee.example", "Old customer, paused."),
    ]  # fmt: skip
    for id, name, city, contact, email, about in rows:
        world.companies[id] = {
            "name": name, "city": city, "contact_name": contact, "contact_email": email, "about": about, "notes": [],
        }  # fmt: skip
    world.companies["CO-101"]["notes"] = ["Prefers calls in the morning.", "Margin of the last project was 31 %."]
    deals = [
        ("DL-201", "Shop phase 2", "CO-101", "proposal", 18500, "2026-12-15"),
        ("DL-202", "Practice websites", "CO-102", "negotiation", 32000, "2026-11-30"),
        ("DL-203", "Menu page", "CO-103", "won", 1900, "2026-11-02"),
        ("DL-204", "Small web shop", "CO-104", "lead", 4000, "2027-01-20"),
        ("DL-205", "Booking page", "CO-105", "lead", 2500, "2027-02-01"),
        ("DL-206", "Tracking portal", "CO-106", "lost", 54000, "2026-08-01"),
    ]
    for id, title, company, stage, amount, close in deals:
        world.opportunities[id] = {
            "title": title, "company_id": company, "stage": stage, "amount": amount, "close": close,
        }  # fmt: skip


def add_hr(world: OfficeWorld) -> None:
    rows = [
        ("E-1", "Nadia Verhoeven", "studio lead", "nadia@lumenstudio.example"),
        ("E-2", "Oskar Lindqvist", "developer", "oskar@lumenstudio.example"),
        ("E-3", "Priya Raman", "designer", "priya@lumenstudio.example"),
        ("E-4", "Bram de Wit", "operations", "bram@lumenstudio.example"),
        ("E-5", "Chiara Conti", "finance", "chiara@lumenstudio.example"),
        ("E-6", "Samuel Osei", "people", "samuel@lumenstudio.example"),
        ("E-7", "Lotte Jansen", "intern", "lotte@lumenstudio.example"),
    ]
    for id, name, role, email in rows:
        world.employees[id] = {"name": name, "role": role, "email": email}
    leave = [
        ("LV-61", "Priya Raman", "2026-12-21", "2026-12-31", "Family visit in Chennai."),
        ("LV-62", "Bram de Wit", "2026-12-04", "2026-12-04", "Moving house."),
        ("LV-63", "Lotte Jansen", "2026-11-26", "2026-11-27", "Exam at the university."),
    ]
    for id, name, start, end, comment in leave:
        world.leave[id] = {"employee": name, "start": start, "end": end, "comment": comment, "status": "pending"}
    world.payslips = {
        "2026-09": {"gross_eur": 5840, "net_eur": 3912.4, "tax_number": "NL-8834-112"},
        "2026-10": {"gross_eur": 5840, "net_eur": 3927.15, "tax_number": "NL-8834-112"},
    }
