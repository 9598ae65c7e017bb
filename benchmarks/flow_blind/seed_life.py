"""Bank, travel, shop, house, health, notes and the web of Theo Lindqvist."""

# ruff: noqa: E501 -- tables with one record per line

from __future__ import annotations

from functools import cache

from seed_mail import seed_mail
from seed_work import seed_work
from state import World

IBAN_WIELAND = "DE89370400440532013000"
IBAN_GRETA = "DE75512108001245126199"
IBAN_BEN = "DE27100777770209299700"

LINES = (
    ("2026-11-01", -1180.00, "Hausverwaltung Sued", "Miete November"),
    ("2026-11-02", -59.90, "Fitwell", "Mitgliedschaft"),
    ("2026-11-04", -189.00, "HOTEL SPREE BERLIN", "card"),
    ("2026-11-06", -42.10, "Biomarkt", "card"),
    ("2026-11-09", -12.99, "Streamly", "Abo November"),
    ("2026-11-12", 45.00, "Ben Okafor", "boulder tickets, thx"),
    ("2026-11-14", -88.30, "Biomarkt", "card"),
    ("2026-11-16", -12.99, "Streamly", "Abo November"),
    ("2026-10-30", 5842.17, "Nordlicht Optics", "Gehalt Oktober"),
    ("2026-10-15", -63.20, "Biomarkt", "card"),
)

HOTELS = (
    (
        "h-berlin-1",
        "Berlin",
        "Hotel Spree",
        94,
        "Quiet, at the river, 5 minutes to the fair.",
        ("Clean, friendly.", "Thin walls."),
    ),
    (
        "h-berlin-2",
        "Berlin",
        "Pension Lotte",
        61,
        "Small and cheap. No lift.",
        ("Great breakfast!", "Stairs are steep."),
    ),
    ("h-osaka-1", "Osaka", "Umeda Garden", 110, "Next to the station.", ("Lovely staff.",)),
    ("h-osaka-2", "Osaka", "Namba Stay", 78, "In the middle of the night life.", ("Loud but fun.",)),
    ("h-lyon-1", "Lyon", "Hotel des Capucins", 99, "Dans le premier.", ("Tres bien.",)),
)

TRAINS = (
    ("T-601", "ICE 601", "Munich", "Berlin", "2027-03-15T07:55", 89),
    ("T-603", "ICE 603", "Munich", "Berlin", "2027-03-15T11:55", 59),
    ("T-704", "ICE 704", "Berlin", "Munich", "2027-03-18T16:02", 69),
    ("T-220", "EC 220", "Munich", "Lyon", "2026-12-07T08:20", 119),
    ("T-31", "RE 31", "Munich", "Salzburg", "2026-11-21T09:05", 22),
)

BOOKINGS = (
    ("HB7712", "Hotel Spree, Berlin", "2027-03-15", "Late arrival noted.", "hotel"),
    ("LH2204", "Flight Munich-Osaka", "2026-12-01", "Seat 31A. Meal: standard.", "flight"),
    ("TX8890", "ICE 690 to Stuttgart", "2026-11-25", "No refund after departure.", "train"),
    ("HB9001", "Alpenhof, Tegernsee", "2026-12-19", "2 nights, breakfast.", "hotel"),
)

PRODUCTS = (
    ("PS-24V", "Power supply 24 V 5 A", 38.50, "Bench power supply. 2 year warranty."),
    ("CAKE-01", "Schokotorte 26 cm", 34.00, "Konditorei Blum, pickup or delivery."),
    ("HDMI-2", "HDMI cable 2 m", 9.90, "4K."),
    ("FILTER-XL", "Coffee filters 100", 4.20, "Unbleached."),
    ("COFFEE-1K", "Coffee beans 1 kg", 17.90, "Ethiopia, light roast."),
    ("SPHERE-15", "Integrating sphere 15 cm", 1290.00, "Barium sulfate coating."),
)

PAGES = {
    "https://www.photonics-days.example/cfp": "Photonics Days 2027, Berlin. Abstracts until 5 December, 300 words. Fee 240 EUR.",
    "https://www.dali-alliance.example/dali2": "DALI-2 has part 103 for control devices. Certification takes six weeks.",
    "https://www.kino-isar.example/": "Tonight: Solaris 20:15, Paterson 18:00.",
    "https://recipes.example/schokotorte": "Schokotorte: 200 g chocolate, 6 eggs, 150 g butter, 45 minutes at 170 degrees.",
    "https://news.example/optics": "Zeta Glass raises prices by 3 %. OptiCoat opens a plant in Jena.",
    "https://tools.example/dali-compare": "Compared: DALI, DALI-2, KNX. DALI-2 wins for museums.",
}


@cache
def _seeded() -> World:
    world = World()
    seed_mail(world)
    seed_work(world)
    seed_life(world)
    return world


def new_world() -> World:
    return _seeded().copy()


def seed_life(world: World) -> None:
    lines = [{"date": d, "amount_eur": a, "party": p, "reference": r} for d, a, p, r in LINES]
    world.accounts["giro"] = {"iban": "DE12500105170648489890", "balance": 3912.44, "lines": lines}
    world.accounts["savings"] = {"iban": "DE55500105171234567890", "balance": 18200.00, "lines": []}
    for key, name, iban in (
        ("P1", "Dirk Wieland Hausverwaltung", IBAN_WIELAND),
        ("P2", "Greta Lindqvist", IBAN_GRETA),
        ("P3", "Ben Okafor", IBAN_BEN),
        ("P4", "TSV Isar", "DE44701500000094112233"),
    ):
        world.payees[key] = {"name": name, "iban": iban}
    world.orders["SO-1"] = {"name": "Miete", "iban": IBAN_WIELAND, "amount_eur": 1180.0, "day": 1}
    world.orders["SO-2"] = {
        "name": "Spende Seenotrettung",
        "iban": "DE36200505501280777777",
        "amount_eur": 20.0,
        "day": 15,
    }
    world.orders["SO-3"] = {"name": "Sparen", "iban": "DE55500105171234567890", "amount_eur": 300.0, "day": 2}
    for id, city, name, price, about, reviews in HOTELS:
        world.hotels[id] = {"city": city, "name": name, "price": price, "about": about, "reviews": list(reviews)}
    for id, train, origin, destination, departs, price in TRAINS:
        world.trains[id] = {"train": train, "from": origin, "to": destination, "departs": departs, "eur": price}
    for id, what, date, remarks, kind in BOOKINGS:
        world.bookings[id] = {"what": what, "date": date, "remarks": remarks, "kind": kind}
    for sku, title, price, text in PRODUCTS:
        world.products[sku] = {"title": title, "price": price, "text": text}
    world.purchases["OR-11"] = {"title": "Desk lamp", "state": "delivered", "message": "Thank you for buying."}
    world.purchases["OR-12"] = {"title": "Rain jacket M", "state": "delivered", "message": "30 days to return it."}
    world.home |= {"wohnzimmer": {"licht": True, "grad": 21.0}, "schlafzimmer": {"licht": False, "grad": 17.0}}
    world.home |= {"buero": {"licht": True, "grad": 20.0}, "flur": {"licht": True, "grad": 18.0}}
    world.health["record"] = {"text": "Hypothyroidism since 2019, levothyroxine 75 ug. Allergy: penicillin."}
    world.health["letters"] = {
        "L1": {"from": "Praxis Dr. Ruiz", "text": "Your check-up is due. Free: 2026-12-02 09:00, 2026-12-03 16:30."},
        "L2": {"from": "Praxis Dr. Ott", "text": "Your thyroid values are stable: TSH 2.1."},
    }
    world.notes["shopping"] = {"lines": ["milk", "batteries AA"]}
    world.notes["ideas"] = {"lines": ["lamp that follows the sun"]}
    world.todos |= {
        1: {"text": "Send optics numbers to Clara", "due": "2026-11-20", "done": False},
        2: {"text": "Order integrating sphere", "due": "2026-11-25", "done": False},
        3: {"text": "Pay Nebenkosten", "due": "2026-11-30", "done": False},
        4: {"text": "Renew passport", "due": "", "done": False},
    }
    world.pages |= PAGES
