"""Files, repositories, the support desk, customers and the shop's orders."""

# ruff: noqa: E501 -- texts of people, unbroken

from __future__ import annotations

from typing import Any

from seed_people import MARTA, NP
from world import Record


def file(id: str, path: str, text: str = "", **more: Any) -> Record:
    return {
        "file_id": id,
        "path": path,
        "owner": more.get("owner", MARTA),
        "modified": more.get("modified", "2026-11-12"),
        "shared_with": more.get("shared_with", []),
        "text": text,
        "rows": more.get("rows", []),
    }


FILES = [
    file(
        "f-01",
        "/Fair Milan/packing-list.txt",
        "12 Fjell lamps\n4 Skerry lamps\n200 brochures\nroll-up banner\ntoolbox\n",
        shared_with=[f"jonas.weber@{NP}"],
    ),
    file(
        "f-02",
        "/Fair Milan/budget.sheet",
        rows=[
            {"item": "stand", "planned": 7000, "spent": 0},
            {"item": "travel", "planned": 2400, "spent": 890},
            {"item": "brochures", "planned": 600, "spent": 540},
        ],
    ),
    file(
        "f-03",
        "/Team/onboarding.md",
        "# Onboarding\n1. Laptop from IT\n2. Badge at reception\n3. Read the safety rules\n4. Meet your buddy\n",
        owner=f"sofia.reyes@{NP}",
        shared_with=[f"ops@{NP}"],
    ),
    file(
        "f-04",
        "/Team/salaries-2026.sheet",
        rows=[
            {"name": "Jonas Weber", "salary": 58200},
            {"name": "Ingrid Solberg", "salary": 61500},
            {"name": "Lena Fuchs", "salary": 46900},
        ],
    ),
    file(
        "f-05",
        "/Contracts/luz-norte-2025.txt",
        "Distribution agreement with Luz Norte S.L. Discount 32 %, term until 31 January 2027, notice three months.",
        shared_with=["priya@ramanlegal.example"],
    ),
    file(
        "f-06",
        "/Notes/board-call.md",
        "# Board call 23 November\n- Q4 forecast: 412,000\n- Returns\n- Milan: layout?\n",
    ),
    file("f-07", "/Notes/ideas.md", "- rental lamps for fairs\n- repair café in January\n"),
    file("f-08", "/Private/travel-ideas.md", "Summer: Lofoten or the Azores. Clara prefers the Azores.\n"),
    file(
        "f-09", "/Private/passport.txt", "Passport C4F1882K7, issued 2022-05-03, expires 2032-05-02, Lindqvist, Marta\n"
    ),
    file(
        "f-10",
        "/Shared/supplier-terms.txt",
        "Bright Supply, terms of delivery. Payment within 30 days. Minimum order 500 drivers. Delivery five weeks.",
        owner="sales@brightsupply.example",
        shared_with=[MARTA],
    ),
    file(
        "f-11",
        "/Shared/meeting-notes-luz-norte.txt",
        "Meeting of 5 November. Luz Norte wants 60 Fjell before 10 December and marketing photos in Spanish. Action for Ingrid: price list 2027. Action for Marta: delivery date.",
        owner="carlos@luznorte.example",
        shared_with=[MARTA, f"ingrid.solberg@{NP}"],
    ),
    file(
        "f-12",
        "/Returns/november.sheet",
        rows=[
            {"order": "O-3301", "reason": "flicker", "units": 2},
            {"order": "O-3307", "reason": "broken glass", "units": 1},
            {"order": "O-3312", "reason": "flicker", "units": 1},
        ],
        shared_with=[f"lena.fuchs@{NP}"],
    ),
    file("f-13", "/Old/brochure-2023.txt", "The collection of 2023. Prices no longer valid."),
    file("f-14", "/Old/stand-2022.txt", "Plans of the stand of 2022."),
    file(
        "f-15",
        "/Team/offsite-poll.sheet",
        owner=f"sofia.reyes@{NP}",
        shared_with=[f"ops@{NP}"],
        rows=[{"name": "Tom", "food": "any"}, {"name": "Lena", "food": "vegan"}, {"name": "Marta", "food": ""}],
    ),
    file(
        "f-16",
        "/Fair Milan/press-text.txt",
        "Northpier shows Fjell, a lamp whose driver can be exchanged without tools. Hall 9, stand B12.",
        owner=f"jonas.weber@{NP}",
        shared_with=[MARTA],
    ),
    file(
        "f-17",
        "/Private/household.sheet",
        rows=[{"item": "rent", "monthly": 1480}, {"item": "power", "monthly": 84}, {"item": "kita", "monthly": 310}],
    ),
    file(
        "f-18",
        "/Shared/survey-answers.sheet",
        owner="forms@surveybox.example",
        shared_with=[MARTA],
        rows=[
            {"id": 1, "stars": 5, "comment": "Beautiful light."},
            {"id": 2, "stars": 2, "comment": "The glass broke when I cleaned it."},
            {"id": 3, "stars": 4, "comment": "Manual only in German?"},
        ],
    ),
]


def issue(repo: str, number: int, title: str, author: str, body: str, **more: Any) -> Record:
    return {
        "repo": repo,
        "number": number,
        "title": title,
        "state": more.get("state", "open"),
        "author": author,
        "labels": more.get("labels", []),
        "assignee": more.get("assignee", ""),
        "body": body,
        "comments": [{"author": who, "body": text} for who, text in more.get("comments", [])],
        "changed_files": more.get("changed_files", []),
    }


LAMPD, SITE = "northpier/lampd", "northpier/website"
ISSUES = [
    issue(
        LAMPD,
        88,
        "Fjell flickers below 10 %",
        "dieter-k",
        "Since 2.2.1 my lamp flickers when dimmed below 10 percent. Driver rev C.",
        labels=["bug"],
        comments=[("omar-np", "Reproduced, PWM frequency is too low."), ("dieter-k", "Thanks! Is there a workaround?")],
    ),
    issue(
        LAMPD,
        91,
        "Add a sunrise mode",
        "sun-lover",
        "It would be great to fade in over 30 minutes.",
        labels=["feature"],
    ),
    issue(
        LAMPD,
        93,
        "Crash when the name of a lamp has an emoji",
        "tanja-m",
        "Traceback: UnicodeEncodeError in names.py line 41.",
        labels=["bug"],
    ),
    issue(
        LAMPD,
        94,
        "Flicker at low brightness",
        "old-owl",
        "My Fjell flickers when it is nearly off. Same as #88?",
        labels=[],
    ),
    issue(
        LAMPD,
        95,
        "Raise PWM frequency to 4 kHz",
        "omar-np",
        "Fixes #88.",
        labels=["pull request"],
        changed_files=["src/pwm.py"],
        comments=[("lena-np", "Tested on three lamps, no flicker.")],
    ),
    issue(
        LAMPD,
        96,
        "Update dependencies",
        "dep-robot",
        "Bumps msgpack from 1.0.7 to 1.1.0.",
        labels=["pull request", "dependencies"],
        changed_files=["pyproject.toml"],
    ),
    issue(
        SITE,
        12,
        "Typo on the page about repairs",
        "kez-m",
        "It says 'exchangable'. It should be 'exchangeable'.",
        labels=["content"],
    ),
    issue(
        SITE,
        14,
        "Spanish translation",
        "carlos-ln",
        "The page of Fjell has no Spanish text. I can help.",
        labels=["content"],
    ),
    issue(
        SITE,
        15,
        "Cookie banner covers the menu",
        "lena-np",
        "On phones the banner covers the menu.",
        labels=["bug"],
        assignee="kez-m",
    ),
]

CODE = {
    f"{LAMPD}/src/pwm.py": "FREQUENCY_HZ = 1000\n\n\ndef duty(percent):\n    return round(percent * 255 / 100)\n",
    f"{LAMPD}/README.md": "# lampd\n\nThe firmware service of our lamps. Version 2.2.1. Build with `make`, test with `make check`.\n",
    f"{LAMPD}/CHANGELOG.md": "## 2.2.1\n\n- fixed: names with spaces\n\n## 2.2.0\n\n- added: scenes\n",
    f"{LAMPD}/CONTRIBUTING.md": "Please open an issue first. Every change needs a test and a line in the changelog.\n",
    f"{LAMPD}/docs/sunrise.md": "# Sunrise (draft)\n\nFade from 0 to 100 percent.\n",
    f"{SITE}/content/repairs.md": "The driver is exchangable without tools.\n",
    f"{SITE}/content/opening-hours.md": "Mon-Fri 9-18, Sat 10-14\n",
}
CI = {
    f"{LAMPD}#95": "ruff ok\npytest: 214 passed in 8.1 s\nbuild ok\n",
    f"{LAMPD}#96": "ruff ok\npytest: 1 failed, 213 passed: test_pack_scene: TypeError: strict_map_key\n",
}


def ticket(id: str, customer: str, email: str, subject: str, *said: str, **more: Any) -> Record:
    return {
        "id": id,
        "customer": customer,
        "email": email,
        "subject": subject,
        "status": more.get("status", "open"),
        "priority": more.get("priority", "normal"),
        "order": more.get("order", ""),
        "conversation": [{"by": "customer", "text": text} for text in said],
    }


TICKETS = [
    ticket(
        "T-4101",
        "Marie Dubois",
        "marie.dubois@courriel.example",
        "Où est ma commande ?",
        "Bonjour, ma commande O-3310 n'est pas arrivée. Merci.",
        order="O-3310",
    ),
    ticket(
        "T-4102",
        "Dieter Kraus",
        "d.kraus@netzpost.example",
        "Lampe flackert",
        "Meine Fjell flackert, wenn ich sie dimme. Was kann ich tun?",
        order="O-3301",
        priority="high",
    ),
    ticket(
        "T-4103",
        "Ben Howard",
        "ben.h@inboxly.example",
        "Broken glass",
        "The shade of my Skerry arrived broken. I would like my money back.",
        order="O-3307",
    ),
    ticket(
        "T-4104",
        "Anja Petersen",
        "anja@petersen-hotel.example",
        "Offer for 40 lamps",
        "We are renovating our hotel and need 40 table lamps. Do you give a discount?",
    ),
    ticket(
        "T-4105",
        "Luis Prado",
        "luis.prado@correo.example",
        "Cambiar dirección",
        "¿Podéis enviar el pedido O-3315 a la calle Mayor 8, 28013 Madrid?",
        order="O-3315",
    ),
    ticket(
        "T-4106",
        "Grace Lin",
        "grace.lin@inboxly.example",
        "Thank you",
        "The spare driver works. Thank you!",
        order="O-3298",
    ),
]

CUSTOMERS = [
    ("C-201", "Petersen Hotel GmbH", "anja@petersen-hotel.example", "hotel", 18400, "Prefers offers by mail."),
    ("C-202", "Luz Norte S.L.", "carlos@luznorte.example", "distributor", 126000, "Discount 32 %."),
    ("C-203", "Ben Howard", "ben.h@inboxly.example", "consumer", 189, ""),
    ("C-204", "Dieter Kraus", "d.kraus@netzpost.example", "consumer", 358, "Knows a lot about electronics."),
    ("C-205", "Café Morgenrot", "hallo@morgenrot.example", "gastronomy", 5200, "Opens a second café in spring."),
    ("C-206", "Hikari Design", "yuki.tanaka@hikari-design.example", "designer", 0, "Cooperation planned."),
    ("C-207", "Marie Dubois", "marie.dubois@courriel.example", "consumer", 240, ""),
]

DEALS = [
    ("D-31", "Petersen Hotel, 40 table lamps", "C-201", "offer", 7600.0, "Decision in December"),
    ("D-32", "Luz Norte, contract 2027", "C-202", "negotiation", 140000.0, "Exclusivity is open"),
    ("D-33", "Café Morgenrot, second café", "C-205", "lead", 3000.0, ""),
    ("D-34", "Hikari edition", "C-206", "lead", 25000.0, "Prototype in January"),
]


def order(
    id: str, customer: str, items: list[tuple[str, int, float]], state: str, address: str, remark: str = ""
) -> Record:
    return {
        "id": id,
        "customer": customer,
        "items": [{"sku": sku, "quantity": count, "price": price} for sku, count, price in items],
        "total": sum(count * price for _, count, price in items),
        "state": state,
        "address": address,
        "remark": remark,
    }


SHOP_ORDERS = [
    order("O-3301", "Dieter Kraus", [("FJELL-G", 2, 179.0)], "delivered", "Am Anger 3, 99084 Erfurt"),
    order("O-3307", "Ben Howard", [("SKERRY-S", 1, 189.0)], "delivered", "12 Mill Lane, Leeds", "Please ring twice"),
    order(
        "O-3310",
        "Marie Dubois",
        [("FJELL-W", 1, 179.0), ("BULB-E14", 2, 8.5)],
        "in transit, due 23 November, tracking PX-80021",
        "5 rue des Lilas, 69003 Lyon",
    ),
    order("O-3315", "Luis Prado", [("LUME-T", 1, 96.0)], "packed", "calle del Pez 20, 28004 Madrid"),
    order("O-3298", "Grace Lin", [("DRIVER-C", 1, 24.0)], "delivered", "7 Pier Road, Bristol"),
]
