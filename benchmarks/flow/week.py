"""One more week of ordinary records for the tasks: what the people around the person sent, planned and filed."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from world import (
    ME,
    Channel,
    ChatUser,
    Contact,
    Event,
    File,
    Flight,
    Hotel,
    Issue,
    Mail,
    Message,
    Note,
    Payee,
    Pull,
    Restaurant,
    Transaction,
    World,
)

OFFICE = "holloway-tidal.example"
PRIYA = f"priya.raman@{OFFICE}"
NADIA = f"nadia.okafor@{OFFICE}"
JONAS = f"jonas.weidmann@{OFFICE}"
TOMAS = f"tomas.hegarty@{OFFICE}"
LENA = f"lena.fischbach@{OFFICE}"
OWEN = f"owen.price@{OFFICE}"
SADIA = f"sadia.rahim@{OFFICE}"
VIKTOR = f"viktor.lund@{OFFICE}"
GRACE = f"grace.adeyemi@{OFFICE}"
MARTA = f"marta.silva@{OFFICE}"
LUKAS = f"lukas.amsel@{OFFICE}"
PIET = "piet@brightwater-marine.example"
INES = "ines.caldeira@brightwater-marine.example"
ROLF = "rolf.eklund@north-cable.example"
KESTREL = "orders@kestrel-print.example"
MARSH = "reception@marsh-practice.example"
MUM = "elsa.lindqvist@homepost.example"
ANTON = "anton.l@homepost.example"
FIONA = "fiona@baird-lettings.example"
CALLUM = "callum.reid@reid-accounting.example"
CHOIR = "n.petrov@harbour-choir.example"
HANNAH = "hannah.osei@tribune-north.example"
SAMIR = "samir@haddad-catering.example"
JOAN = "joan.weir@orkney-council.example"
BEA = "bea.novak@homepost.example"
SOPHIE = "sophie.lambert@labo-marees.example"
KLAUS = "k.brandt@werft-nord.example"
CARMEN = "carmen.ortiz@costa-energia.example"
PLUMBER = "office@leith-plumbing.example"
DAYS = "events@marine-energy-days.example"


def _mail(id: str, sender: str, name: str, subject: str, body: str, cc: Sequence[str] = ()) -> Mail:
    """A mail of the day that its id says: 41 to 59 came on 11 May, the others on 12 May."""
    day = "11" if id < "60" else "12"
    return Mail(id, sender, name, [ME], subject, body, f"2026-05-{day} {10 + int(id) % 9}:00", list(cc), read=False)


MAILS = (
    _mail(
        "41",
        PLUMBER,
        "Leith Plumbing",
        "Invoice 883, kitchen tap",
        "Replacing the kitchen tap on 6 May: 145.00 GBP. Please pay to GB12LEIP30001244556677 with reference 883.",
    ),
    _mail("42", LUKAS, "Lukas Amsel", "Laptop", "Hi Mara, who do I ask about a second screen? Lukas"),
    _mail(
        "43",
        DAYS,
        "Marine Energy Days",
        "Speaker dinner",
        "The speaker dinner is on 16 June at 19:00. Please tell us by Friday whether you come and what you don't eat.",
    ),
    _mail(
        "44",
        MARSH,
        "Marsh Practice",
        "Your appointment on 13 May",
        "We need to move Wednesday's appointment. Free are Thursday 10:00 and Friday 09:15. Please answer by mail.",
    ),
    _mail(
        "45",
        JONAS,
        "Jonas Weidmann",
        "Agenda blade 3 review",
        "1. findings 2. spare blade 3. who goes to Orkney. Anything missing? Jonas",
        [MARTA, TOMAS],
    ),
    _mail("46", NADIA, "Nadia Okafor", "Taxi receipt", "I still miss your taxi receipt of 22 April (18.40). Nadia"),
    _mail("47", OWEN, "Owen Price", "Your laptop", "It is repaired, pick it up from Thursday 9:00, desk 4. Owen"),
    _mail(
        "48",
        SOPHIE,
        "Sophie Lambert",
        "Visite du site",
        "Bonjour Mara, serait-il possible de visiter le site le 9 ou le 10 juin ? Nous serions trois. Sophie Lambert",
    ),
    _mail(
        "49",
        KLAUS,
        "Klaus Brandt",
        "Angebot Schlepper",
        "Guten Tag, der Schlepper Greif kostet 8.400 EUR pro Woche, frei ab 1. Juni. Gruß, Klaus Brandt",
    ),
    _mail(
        "50",
        CARMEN,
        "Carmen Ortiz",
        "Reunión en junio",
        "Hola Mara, ¿nos vemos el 11 de junio a las 15:00 por vídeo? Carmen",
    ),
    _mail("52", FIONA, "Fiona Baird", "Boiler check", "The engineer comes on Friday between 9 and 11. Is that fine?"),
    _mail("53", MUM, "Elsa Lindqvist", "Anton's birthday", "He turns 35 on 30 May. He wants a head torch. Mum"),
    _mail("54", GRACE, "Grace Adeyemi", "Quote for the newsletter", "One sentence about the visit by Thursday? Grace"),
    _mail(
        "55",
        INES,
        "Ines Caldeira",
        "Gate pass form",
        "You can also use the form: https://brightwater-marine.example/gate (names and arrival). Ines",
        [PIET],
    ),
    _mail("56", "deals@fjell-outdoor.example", "Fjell Outdoor", "Spring sale", "20 % on all jackets until Sunday!"),
    _mail("57", VIKTOR, "Viktor Lund", "Review?", "Could you have a look at pull request 19? Viktor"),
    _mail(
        "58", PRIYA, "Priya Raman", "Two things", "How many telemetry issues are open? And what were April's expenses?"
    ),
    _mail("59", LENA, "Lena Fischbach", "Panel on Thursday", "Can you come to the interview panel, Thursday 13:00?"),
    _mail(
        "61",
        KESTREL,
        "Kestrel Print",
        "Proof of the brochure",
        "The proof is ready. Please approve by Wednesday: https://kestrel-print.example/proof/118",
    ),
    _mail("62", SAMIR, "Samir Haddad", "Board lunch: how many?", "I need the final number by tomorrow. Samir"),
    _mail(
        "63",
        MARTA,
        "Marta Silva",
        "First aid course",
        "Dates: 2 June or 4 June, 9:00 to 13:00. Tell me what suits you. Marta",
        [JONAS, TOMAS],
    ),
    _mail("64", BEA, "Bea Novak", "Fridge", "The repair was 60, half each? Same account. Bea"),
    _mail(
        "65",
        SAMIR,
        "Samir Haddad",
        "Invoice board lunch April",
        "Lunch on 17 April: 216.00 GBP to GB55HADD20304050607080, reference HC-41.",
    ),
    _mail(
        "66",
        CALLUM,
        "Callum Reid",
        "Fee note",
        "My fee for 2025 is 120.00 GBP, to GB77REID11223344556677, reference LINDQVIST.",
    ),
    _mail("67", "webinars@gridtalk.example", "Gridtalk", "Webinar tomorrow", "Learn all about grids in 45 minutes."),
    _mail(
        "68",
        "emil.torvald@homepost.example",
        "Emil Torvald",
        "Application for the internship",
        "I study marine engineering in Trondheim and would like to come from August. Emil",
    ),
    _mail("69", "zoe.kaplan@homepost.example", "Zoe Kaplan", "Internship", "May I start in September? Zoe"),
    _mail("70", TOMAS, "Tomas Hegarty", "Rental car", "Do you need a car on Orkney? I could fetch you at 08:40."),
)

EVENTS = (
    Event("31", "Team retro", "2026-05-11 15:00", "2026-05-11 16:00", ME, [PRIYA, JONAS, TOMAS, MARTA], "Room 12"),
    Event("32", "Yoga", "2026-05-12 18:00", "2026-05-12 19:00"),
    Event("33", "Call with Werft Nord", "2026-05-21 10:00", "2026-05-21 10:30", ME, [KLAUS], "video", "tug Greif"),
    Event("35", "Coffee with Lukas", "2026-05-14 11:00", "2026-05-14 11:30", ME, [LUKAS]),
    Event("37", "Speaker dinner", "2026-06-16 19:00", "2026-06-16 22:00", DAYS, [ME], "Harbour Hall", status="invited"),
    Event("38", "Site visit Labo Marées", "2026-06-09 10:00", "2026-06-09 15:00", SOPHIE, [ME], status="invited"),
    Event("39", "Brochure review", "2026-05-13 14:00", "2026-05-13 15:00", GRACE, [ME, LUKAS], "Room 3"),
    Event("40", "Interview panel", "2026-05-14 13:00", "2026-05-14 14:00", LENA, [ME, PRIYA], status="invited"),
    Event("41", "Weekly report", "2026-05-15 16:00", "2026-05-15 16:30"),
)

FILES = (
    File(
        "31",
        "Minutes retro 11 May",
        "Good: calm weather. Bad: late spare parts. Actions: Jonas orders spares, Marta updates the briefing, "
        "Tomas checks the radio.",
        folder="Team",
    ),
    File(
        "32", "Brochure proof", "Front: tide turbine. Back: adress and phone.", GRACE, "Communications", {ME: "writer"}
    ),
    File("33", "Boathouse inventory", "item;count\nlife jacket;9\nradio;4\nrope 20 m;6\nflare;2"),
    File("34", "Expenses April", "taxi 18.40\nhotel 142.00\nlunch 51.90\ntotal 212.30"),
    File("35", "Team holidays", "Jonas 6-10 July. Marta 20-31 July. Tomas August.", LENA, "Team", {ME: "writer"}),
    File("36", "Interview notes Zoe", "Clear, curious, knows Python.", folder="People"),
    File("38", "Brochure v1 old", "First try.", folder="Communications"),
    File("39", "Saffron buns", "500 g flour, 1 g saffron, 250 ml milk.", MUM, "Shared with me", {ME: "reader"}),
    File("40", "Gate pass crew", "Mara Lindqvist, Jonas Weidmann, Tomas Hegarty, Marta Silva. Arrival 19 May 09:00."),
    File(
        "41",
        "Risk register",
        "R1 blade crack: open. R2 late cable: open. R3 permit: open.",
        MARTA,
        "Team",
        {ME: "writer"},
    ),
    File("42", "Weekly report 18", "Turbines 1 and 2 ran. One sensor failed.", folder="Reports"),
)

MESSAGES = (
    Message("71", "design", "grace", "Logo variant A or B for the brochure? Mara, please decide.", "2026-05-12"),
    Message("72", "design", "intern-7", "I like B.", "2026-05-12"),
    Message("73", "orkney", "jonas", "Who brings the drone?", "2026-05-12"),
    Message("74", "@lena", "lena", "Could you bring the interview notes on Thursday?", "2026-05-12"),
    Message("75", "@owen", "owen", "Your laptop is ready.", "2026-05-12"),
    Message("76", "operations", "marta", "Weather window on the 19th is confirmed.", "2026-05-12"),
    Message("77", "random", "grace", "Quiz night on Friday, 20:00. Who is in?", "2026-05-12"),
    Message("78", "it-help", "intern-7", "My badge does not open room 3.", "2026-05-12"),
    Message(
        "79", "ext-brightwater", "ines-bw", "The vessel comes alongside pier 2 at 09:00 on the 19th.", "2026-05-12"
    ),
)

ISSUES = (
    Issue("105", "telemetry", "Typo in the README", "'recieve'", "viktor", labels=["docs"]),
    Issue(
        "106",
        "telemetry",
        "Interval is hard-coded",
        "Should come from the settings.",
        "jonas",
        comments=[{"author": "viktor", "text": "fixed in a41"}],
    ),
    Issue("107", "telemetry", "Dashboard is slow", "Takes 20 s for a month of data.", "priya"),
    Issue(
        "205",
        "tide-tables",
        "Add Scrabster",
        "Please.",
        "kayak-kim",
        comments=[{"author": "viktor", "text": "done in b17"}],
    ),
    Issue("302", "ops-scripts", "Back up the notes", "They are not in the backup.", "mara"),
)

PULLS = (
    Pull("21", "ops-scripts", "Retry the backup", "Tries rsync three times. Closes 301.", "viktor", "nightly"),
    Pull("22", "tide-tables", "Fix typos in docs", "Two words.", "openmaps-lou", "docs"),
)

HOTELS = (
    Hotel(
        "Harbour Rooms",
        "Kirkwall",
        89.0,
        4.2,
        "Breakfast included, near the bus.",
        "rooms@harbour-rooms.example",
        ["Good coffee."],
    ),
    Hotel(
        "St Magnus Guesthouse",
        "Kirkwall",
        101.0,
        4.7,
        "Breakfast included, garden.",
        "hi@magnus-guest.example",
        ["Very kind hosts."],
    ),
    Hotel(
        "Hotell Vinden", "Gothenburg", 112.0, 4.4, "Breakfast included, sauna.", "bok@vinden.example", ["Warm sauna."]
    ),
    Hotel("Hotell Eken", "Gothenburg", 97.0, 3.9, "By the tram.", "info@eken.example", ["Noisy trams."]),
)

RESTAURANTS = (
    Restaurant("Spice Wharf", "Edinburgh", "Indian", "Vegetarian menu too.", ["Great dosa."]),
    Restaurant("Trattoria Levante", "Edinburgh", "Italian", "Wood oven.", ["Loud but good."]),
    Restaurant("Krogen Ankaret", "Gothenburg", "fish", "Quay side.", ["Herring!"]),
)

FLIGHTS = (
    Flight("NW020", "Gothenburg", "Edinburgh", "2026-06-23", "09:15", 176.0, "Norrwing"),
    Flight("NW022", "Gothenburg", "Edinburgh", "2026-06-23", "18:40", 131.0, "Norrwing"),
    Flight("SK123", "Kirkwall", "Edinburgh", "2026-05-21", "12:30", 89.0, "Skylark Air"),
)

TRANSACTIONS = (
    Transaction("t-21", "giro", "2026-05-11", "Fjell Outdoor", "NO9386011117947", -79.0, "order 5512"),
    Transaction("t-22", "giro", "2026-05-11", "Fjell Outdoor", "NO9386011117947", -79.0, "order 5512"),
    Transaction("t-23", "joint", "2026-05-10", "City Power", "GB40CITY12341234123412", -82.4, "electricity April"),
    Transaction("t-24", "giro", "2026-05-12", "Zoe Kaplan", "GB31KAPL12341234999999", 12.0, "quiz night, thanks"),
)


def _copies(records: Iterable[Any], key: str = "id") -> dict[str, Any]:
    return {getattr(record, key): copy.deepcopy(record) for record in records}


def add_week(world: World) -> World:
    """Add these records to a new world and return it."""
    world.mails.update(_copies(MAILS))
    world.events.update(_copies(EVENTS))
    world.files.update(_copies(FILES))
    world.messages.update(_copies(MESSAGES))
    world.issues.update(_copies(ISSUES))
    world.pulls.update(_copies(PULLS))
    world.hotels.update(_copies(HOTELS, "name"))
    world.restaurants.update(_copies(RESTAURANTS, "name"))
    world.flights.update(_copies(FLIGHTS))
    world.transactions.update(_copies(TRANSACTIONS))
    world.channels["design"] = Channel("design", ["mara", "grace", "intern-7"], topic="Brochure and logo")
    world.users["sadia"] = ChatUser("sadia", "Sadia Rahim", SADIA, "Legal")
    world.contacts["c-31"] = Contact("c-31", "Lukas Amsel", LUKAS, note="intern")
    world.contacts["c-32"] = Contact("c-32", "Sophie Lambert", SOPHIE, note="Labo Marées")
    world.payees["y-6"] = Payee("y-6", "Callum Reid", "GB77REID11223344556677")
    world.notes["n-5"] = Note("n-5", "Ideas for the talk", "Photos of the first blade. Costs per year.")
    world.pages["https://kestrel-print.example/proof/118"] = "Brochure 118, proof 2: 8 pages, matt paper."
    world.pages["https://brightwater-marine.example/gate"] = "Gate pass. Fields: names, arrival."
    world.pages["https://orkney-ferries.example/prices"] = "Adult 9.40 GBP, bicycle 3 GBP."
    world.pages["https://leith-pool.example/hours"] = "Pool: Monday to Friday 06:30 to 21:00, Sunday 09:00 to 17:00."
    return world
