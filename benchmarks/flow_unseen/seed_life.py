"""Bank, travel, home, web, market and vault; and the whole world."""

from __future__ import annotations

import copy
from typing import Any

import seed_people as people
import seed_work as work
from world import Record, World

ACCOUNTS = [
    ("giro", "DE12200300000047110815", 4812.6),
    ("savings", "DE87200300000047110899", 18240.0),
    ("joint", "DE55200300000047110777", 963.14),
]
PAYEES = [
    ("Nordkraft Energie", "DE44500105175407324931"),
    ("Yilmaz Immobilien Mietkonto", "DE21700519950000007229"),
    ("Clara Lindqvist", "DE02120300000000202051"),
    ("Kita Lindenhof", "DE75512108001245126199"),
    ("Studio Perret", "FR1420041010050500013M02606"),
    ("Brandt Tischlerei", "DE68210501700012345678"),
    ("Paul Adeyemi", "DE91100000000123456789"),
]
ORDERS = [
    ("SO-1", "Yilmaz Immobilien Mietkonto", 1480.0, "rent", "monthly, day 1"),
    ("SO-2", "Kita Lindenhof", 310.0, "Kita Beitrag", "monthly, day 3"),
    ("SO-3", "FitPoint", 39.9, "membership 77120", "monthly, day 15"),
    ("SO-4", "Streambox", 12.99, "subscription", "monthly, day 20"),
]
TRANSACTIONS = [
    ("tx90", "giro", "2026-11-18", -63.4, "Market Hall", "groceries"),
    ("tx89", "giro", "2026-11-17", -39.9, "FitPoint", "membership 77120"),
    ("tx88", "giro", "2026-11-16", -129.0, "Railpoint", "ticket Berlin"),
    ("tx87", "giro", "2026-11-15", -1850.0, "Studio Perret", "facture 2026-311"),
    ("tx86", "giro", "2026-11-14", 45.0, "Paul Adeyemi", "concert tickets, thanks"),
    ("tx85", "giro", "2026-11-12", -12.99, "Streambox", "subscription"),
    ("tx84", "giro", "2026-11-12", -12.99, "Streambox", "subscription"),
    ("tx83", "giro", "2026-11-03", -310.0, "Kita Lindenhof", "Kita Beitrag"),
    ("tx82", "giro", "2026-11-01", -1480.0, "Yilmaz Immobilien", "rent"),
    ("tx81", "giro", "2026-10-30", 3641.18, "Northpier GmbH", "salary October"),
    ("tx70", "joint", "2026-11-16", -84.3, "Baumarkt Nord", "paint"),
    ("tx71", "joint", "2026-11-10", 200.0, "Clara Lindqvist", "present for papa"),
]
TRAINS = [
    ("ICE 1602", "Hamburg", "Berlin", "2026-11-30", "06:34", "08:22", 49.9, "quiet car available"),
    ("ICE 1604", "Hamburg", "Berlin", "2026-11-30", "08:34", "10:22", 79.9, "often full"),
    ("RE 8", "Hamburg", "Berlin", "2026-11-30", "07:10", "10:05", 29.0, "slow, with bicycles"),
    ("ME 12", "Hamburg", "Lüneburg", "2026-12-11", "08:27", "08:56", 10.6, ""),
    ("ICE 881", "Berlin", "Hamburg", "2026-12-01", "17:38", "19:25", 59.9, ""),
]
FLIGHTS = [
    ("NA481", "HAM", "MXP", "2026-12-01", "07:05", "08:55", "129 EUR", "hand luggage only"),
    ("EW920", "HAM", "MXP", "2026-12-01", "14:20", "16:10", "184 EUR", "bag included"),
    ("NA482", "MXP", "HAM", "2026-12-05", "19:40", "21:30", "142 EUR", "hand luggage only"),
    ("TP567", "HAM", "LIS", "2027-05-14", "11:30", "14:10", "167 EUR", "bag included"),
]
HOTELS = [
    (
        "H-11",
        "Hotel Brera",
        "Milan",
        148,
        "Quiet courtyard, ten minutes from the metro.",
        ["Great breakfast.", "Small rooms, kind staff."],
    ),
    ("H-12", "Fiera Inn", "Milan", 99, "Next to the fair.", ["Loud at night.", "Perfect for the fair."]),
    ("H-21", "Haus am Kalkberg", "Lüneburg", 84, "House with a garden.", ["Lovely garden."]),
    ("H-31", "Spreebogen", "Berlin", 112, "At the river.", ["Close to the station.", "The sauna was closed."]),
    ("H-32", "Pension Linde", "Berlin", 71, "Simple and clean.", ["Good value.", "No lift."]),
]
BOOKINGS = [
    ("BK-7", "Hotel Brera", "2026-12-02", "3 nights, code HB-5521", 444.0),
    ("BK-8", "Flight EW920", "2026-12-01", "seat 14A", 184.0),
    ("BK-9", "Rental car Milan", "2026-12-02", "compact, pick-up MXP", 156.0),
    ("BK-10", "Train ICE 73 to Basel", "2027-01-20", "seat 41", 89.9),
]
DEVICES = [
    ("dev-hall-lock", "hall", "front door lock", "locked"),
    ("dev-alarm", "hall", "alarm", "armed at night"),
    ("dev-living-lamp", "living room", "lamp", "off"),
    ("dev-living-heat", "living room", "thermostat", "20"),
    ("dev-bath-heat", "bathroom", "thermostat", "21"),
    ("dev-kitchen-plug", "kitchen", "plug of the coffee machine", "off"),
    ("dev-blinds", "bedroom", "blinds", "open"),
    ("dev-cam", "hall", "camera", "on"),
]
RINGS = [
    ("r1", "2026-11-18T12:44", "courier", "Parcel PX-77120, left at the kiosk."),
    ("r2", "2026-11-18T18:05", "unknown visitor", "Hello, I am the new neighbour from the third floor."),
    ("r3", "2026-11-19T08:15", "chimney sweep", "Measurement on Tuesday 24 between 10 and 12, please be at home."),
]
PAGES = [
    (
        "https://lumenweekly.example/trends",
        "Five trends in lighting",
        "Warm dimming, paper shades, cordless lamps. Repairable drivers are the trend of the year.",
    ),
    (
        "https://fieramilano.example/exhibitors",
        "Milan fair, exhibitors' guide",
        "Build-up on 2 December from 8:00. Exhibitor badges are picked up at gate Sud. Lorries need a slot.",
    ),
    (
        "https://recipes.example/apfelkuchen",
        "Apfelkuchen vom Blech",
        "Ingredients: 1.5 kg apples, 300 g flour, 150 g butter, 2 eggs. Bake 40 minutes at 180 degrees.",
    ),
    (
        "https://docs.msgpack.example/changes",
        "msgpack 1.1 changes",
        "strict_map_key is now True by default. Pass strict_map_key=False for integer keys.",
    ),
    (
        "https://lueneburg.example/salzmuseum",
        "Salt museum Lüneburg",
        "Open Tuesday to Sunday 10-17. Groups by appointment. Admission 8 euros.",
    ),
    (
        "https://weatherly.example/hamburg",
        "Weather Hamburg",
        "Friday: rain until 15:00, dry in the evening, 6 degrees. Saturday: sunny.",
    ),
    (
        "https://lampforum.example/fjell-flicker",
        "Forum: Fjell flickers",
        "Set the minimum to 12 percent until the update. Worked for me.",
    ),
    (
        "https://lofoten.example/ferries",
        "Ferries to Lofoten",
        "Bodø to Moskenes four times a day in summer, 3.5 hours.",
    ),
]
PRODUCTS = [
    ("P-61", "Toner TX-200 black", 38.9, 4.4, ["Works in the NP-3."]),
    ("P-62", "Toner TX-200 compatible", 14.5, 3.1, ["Leaks.", "Good for the price."]),
    ("P-63", "Children's torch, green", 9.95, 4.7, ["My daughter loves it."]),
    ("P-64", "Torch Pro 900 lumen", 34.0, 4.2, ["Too bright for children."]),
    ("P-65", "Baking tray 40x30", 16.9, 4.6, ["Fits my oven."]),
    ("P-66", "AA batteries, 24 pieces", 11.2, 4.5, ["Last long."]),
]
VAULT = [("fair portal", "exhibitor-2231", "tulip-Anchor-71"), ("router", "admin", "Kelp&Harbour9")]


def table(names: str, rows: list[Any], key: str | None = None) -> dict[Any, Record]:
    """Records from tuples; the first field is the key unless another is named."""
    fields = names.split()
    records = [dict(zip(fields, row, strict=True)) for row in rows]
    return {record[key or fields[0]]: record for record in records}


def keyed(key: str, rows: list[Record]) -> dict[Any, Record]:
    return {row[key]: row for row in rows}


def _all_tables() -> dict[str, dict[Any, Record]]:
    return {
        "mail": keyed("id", sorted(people.MAILS, key=lambda mail: str(mail["received"]), reverse=True)),
        "contacts": table("name address phone about", people.CONTACTS),
        "events": keyed("eventId", people.EVENTS),
        "busy": people.BUSY,  # type: ignore[dict-item]
        "rooms": keyed("room", people.ROOMS),
        "people": table("user name address team", people.PEOPLE),
        "files": keyed("file_id", work.FILES),
        "issues": {f"{one['repo']}#{one['number']}": one for one in work.ISSUES},
        "code": {path: {"text": text} for path, text in work.CODE.items()},
        "ci": {id: {"log": text} for id, text in work.CI.items()},
        "tickets": keyed("id", work.TICKETS),
        "customers": table("id name email segment revenue notes", work.CUSTOMERS),
        "deals": table("id title customer stage value remark", work.DEALS),
        "shop_orders": keyed("id", work.SHOP_ORDERS),
        "accounts": table("account iban balance", ACCOUNTS),
        "payees": table("name iban", PAYEES),
        "orders": table("id to amount reference rhythm", ORDERS),
        "transactions": table("id account date amount counterpart reference", TRANSACTIONS),
        "trains": table("connection_id origin destination date departs arrives price remark", TRAINS),
        "flights": table("flight origin destination date departs arrives price remark", FLIGHTS),
        "hotels": table("hotel_id name city price description reviews", HOTELS),
        "bookings": table("booking_id what date details price", BOOKINGS),
        "devices": table("device_id room what state", DEVICES),
        "rings": table("id at visitor message", RINGS),
        "pages": table("url title text", PAGES),
        "products": table("product_id name price rating reviews", PRODUCTS),
        "vault": table("name login password", VAULT),
    }


TABLES = _all_tables()


def new_world() -> World:
    return World(copy.deepcopy(TABLES))
