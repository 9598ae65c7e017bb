"""The person's private data: mail, calendar, files, travel, bank, home, shop, web; and a new world."""

# ruff: noqa: E501  one record per line
from __future__ import annotations

from data_work import add_chat, add_crm, add_hr, add_repos
from records import OfficeWorld

ME, WORK = "nadia@verhoeven.example", "nadia@lumenstudio.example"

MAIL = (
    ("m01", "henk@bakkerverhuur.example", "Henk Bakker", "Boiler inspection", "2026-11-10",
     "Dear Nadia, the boiler inspection is on 26 November between 9 and 11. Please confirm that someone is at home. Henk"),
    ("m02", "ingrid@haldentimber.example", "Ingrid Solheim", "Shop phase 2", "2026-11-16",
     "Hi Nadia, we like the plan. Can you send us the quote for phase 2 this week? Also: who is our contact in December? Ingrid"),
    ("m03", "eva.verhoeven@postbox.example", "Eva Verhoeven", "mama's birthday", "2026-11-15",
     "Hey! Mama turns 70 on 12 December. Dinner at our place at 18:00? Could you bring the cake? Her present costs 120 each. x Eva"),
    ("m04", "billing@stadswarmte.example", "Stadswarmte Utrecht", "Invoice 2026-4471", "2026-11-12",
     "Your invoice for October: 86.40 EUR. Please pay to NL20BANK0441002233, reference 2026-4471, before 30 November."),
    ("m05", "school@deregenboog.example", "School De Regenboog", "Parents' evening", "2026-11-13",
     "The parents' evening of group 4 is on 3 December at 19:30 in the gym. Please let us know whether you will come."),
    ("m06", "chiara@lumenstudio.example", "Chiara Conti", "Expenses October", "2026-11-14",
     "Nadia, I still miss the receipt for the train to Rotterdam (41.20). Can you hand it in? Chiara"),
    ("m07", "lena.vogt@brightwater.example", "Lena Vogt", "Re: practice websites", "2026-11-17",
     "Dear Nadia, 32,000 is above our budget. Would 29,500 be possible if we write the texts ourselves? Best, Lena"),
    ("m08", "tomas.rivas@postbox.example", "Tomás Rivas", "weekend", "2026-11-17",
     "amor, I am back on friday at 18:40, train from Antwerp. can you book something italian for saturday 19:30, 4 people?"),
    ("m09", "yuki.t@postbox.example", "Yuki Tanaka", "Lisbon!", "2026-11-11",
     "I am in Lisbon from 8 to 12 January. Come over! There is a nice hotel near Rossio called Casa das Flores. Yuki"),
    ("m10", "newsletter@gardenpost.example", "Garden Post", "Winter tips", "2026-11-09",
     "Ten tips for your winter garden. Cover the roses, clean the tools, feed the birds."),
    ("m11", "pauline@meyer-tax.example", "Pauline Meyer", "Documents for 2025", "2026-11-08",
     "Dear Ms Verhoeven, please send me the energy statement and the yearly bank overview of 2025. Pauline Meyer"),
    ("m12", "antoine@cafemiel.example", "Antoine Perrin", "Bon à tirer", "2026-11-16",
     "Bonjour Nadia, la page du menu est parfaite. Une correction: la tarte coûte 6,50. Merci, Antoine"),
    ("m13", "samuel@lumenstudio.example", "Samuel Osei", "Leave planning", "2026-11-12",
     "Hi all, please enter your leave for December until Friday. Samuel"),
    ("m14", "deals@reisbazaar.example", "ReisBazaar", "70 % off!!", "2026-11-06",
     "Last chance: city trips with 70 % discount. Only today."),
    ("m15", "no-reply@parcelbox.example", "ParcelBox", "Your parcel OR-501", "2026-11-17",
     "Your parcel with order OR-501 arrives on 19 November between 14:00 and 16:00."),
    ("m16", "oskar@lumenstudio.example", "Oskar Lindqvist", "Demo on Friday", "2026-11-17",
     "Hi Nadia, can you show the Halden numbers in the demo on Friday? 412 orders, 38 returns in October. Oskar"),
    ("m17", "zoe@fernhill.example", "Zoe Marsh", "Web shop for a bakery", "2026-11-18",
     "Hello, I wrote in your form. We are two people and bake bread. When could we talk? Tuesday 24th in the morning suits us. Zoe"),
    ("m18", "samuel@lumenstudio.example", "Samuel Osei", "Salary review (confidential)", "2026-11-05",
     "Nadia, from January your gross salary is 6,120 EUR. Please keep this to yourself. Samuel"),
)  # fmt: skip

CARDS = (
    ("people/c1", "Eva Verhoeven", "eva.verhoeven@postbox.example", "+31 6 1111 2201", "sister"),
    ("people/c2", "Tomás Rivas", "tomas.rivas@postbox.example", "+31 6 1111 2202", "partner"),
    ("people/c3", "Henk Bakker", "henk@bakkerverhuur.example", "+31 30 555 0199", "landlord vermieter"),
    ("people/c4", "Yuki Tanaka", "yuki.t@postbox.example", "+81 90 555 0111", "friend"),
    ("people/c5", "Pauline Meyer", "pauline@meyer-tax.example", "+31 30 555 0144", "accountant steuerberaterin"),
    ("people/c6", "Oskar Lindqvist", "oskar@lumenstudio.example", "", "colleague"),
    ("people/c7", "Priya Raman", "priya@lumenstudio.example", "", "colleague"),
    ("people/c8", "Bram de Wit", "bram@lumenstudio.example", "", "colleague"),
    ("people/c9", "Chiara Conti", "chiara@lumenstudio.example", "", "colleague finance"),
    ("people/c10", "Ingrid Solheim", "ingrid@haldentimber.example", "", "customer Halden Timber"),
    ("people/c11", "Lena Vogt", "lena.vogt@brightwater.example", "", "customer Brightwater Dental"),
    ("people/c12", "Antoine Perrin", "antoine@cafemiel.example", "", "customer Café Miel"),
    ("people/c13", "Samuel Osei", "samuel@lumenstudio.example", "", "colleague HR"),
    ("people/c14", "Marijke Verhoeven", "marijke.verhoeven@postbox.example", "+31 30 555 0107", "mother mama"),
)

EVENTS: tuple[tuple[str, str, str, str, str, str, list[str]], ...] = (
    ("evt_11", "Dentist", "2026-11-19T09:00", "2026-11-19T09:45", "Brightwater Utrecht", ME, []),
    ("evt_12", "Friday demo", "2026-11-20T15:00", "2026-11-20T16:00", "Big room", "oskar@lumenstudio.example",
     [WORK, "priya@lumenstudio.example", "bram@lumenstudio.example"]),
    ("evt_13", "1:1 with Priya", "2026-11-23T11:00", "2026-11-23T11:30", "", WORK, ["priya@lumenstudio.example"]),
    ("evt_14", "Lunch with Yuki", "2026-11-24T12:30", "2026-11-24T13:30", "Noodle place", ME, ["yuki.t@postbox.example"]),
    ("evt_15", "Halden call", "2026-11-25T10:00", "2026-11-25T11:00", "video", "ingrid@haldentimber.example",
     [WORK, "oskar@lumenstudio.example"]),
    ("evt_16", "Swimming lesson Mila", "2026-11-21T10:00", "2026-11-21T11:00", "Pool Den Hommel", ME, []),
    ("evt_17", "Budget review", "2026-11-26T14:00", "2026-11-26T15:00", "Room 2", "chiara@lumenstudio.example",
     [WORK, "samuel@lumenstudio.example"]),
    ("evt_18", "Yoga", "2026-11-19T18:30", "2026-11-19T19:30", "Studio Noord", ME, []),
    ("evt_19", "Webinar: trends in print", "2026-11-27T13:00", "2026-11-27T14:00", "online", "events@printworld.example", [WORK]),
)  # fmt: skip

FILES = (
    ("/private/passport.txt", "Passport number NX7719034, valid until 2031-04-02.", "me"),
    ("/private/energy-2025.txt", "Energy statement 2025: 1,840 kWh, 612.80 EUR.", "me"),
    ("/private/bank-overview-2025.txt", "Yearly overview 2025. Balance on 31 December: 14,220.08 EUR.", "me"),
    ("/private/wifi.txt", "Network Regenwolk, password kastanje-44-blauw.", "me"),
    ("/private/recipes/apple-cake.md", "Apple cake: 4 apples, 200 g flour, 150 g sugar, 3 eggs, 100 g butter. 50 minutes at 180 C.", "me"),
    ("/private/packing-list.md", "Packing list: charger, jacket, book.", "me"),
    ("/work/halden/plan.md", "Phase 2: search, stock, order mail. Internal cost 11,200 EUR. Start 4 January.", "me"),
    ("/work/halden/minutes-11-04.md", "Minutes 4 November. Actions: Oskar: staging by 24 Nov. Nadia: quote. Ingrid: product texts.", "oskar@lumenstudio.example"),
    ("/work/brightwater/offer.md", "Offer Brightwater: three sites, 32,000 EUR, texts included.", "me"),
    ("/work/demo-notes.md", "Demo notes:\n- poster", "me"),
    ("/work/offer-template.md", "Offer template. Price: . Delivery: .", "me"),
    ("/work/old/logo-draft-1.svg", "<svg/>", "me"),
    ("/work/old/logo-draft-2.svg", "<svg/>", "me"),
    ("/design/palette.md", "Palette: ink #101820, sand #e8d9b5, fern #4c7a34.", "priya@lumenstudio.example"),
    ("/design/brightwater.md", "Text for the Brightwater page: three practices, one look.", "priya@lumenstudio.example"),
    ("/receipts/train-rotterdam.txt", "Train Utrecht - Rotterdam, 2026-10-14, 41.20 EUR.", "me"),
    ("/receipts/hotel-oslo.txt", "Hotel Oslo, 2 nights, 2026-10-02, 244.00 EUR.", "me"),
    ("/shared/fernhill-brief.md", "Brief of Fernhill Bakery: 12 products, pick-up only, start in March.", "zoe@fernhill.example"),
    ("/shared/team-birthdays.csv", "Oskar,3 March\nPriya,22 November\nBram,9 July", "samuel@lumenstudio.example"),
)  # fmt: skip


def add_mail(world: OfficeWorld) -> None:
    for id, sender, name, subject, date, body in MAIL:
        work = sender.endswith(("lumenstudio.example", "haldentimber.example", "brightwater.example"))
        world.messages[id] = {
            "from": sender, "from_name": name, "to": [WORK if work else ME], "cc": [], "subject": subject, "date": date,
            "body": body, "attachments": [], "labels": ["INBOX"], "label": "INBOX", "unread": id in ("m02", "m07", "m08", "m17"),
        }  # fmt: skip
    world.messages["m16"]["cc"] = ["priya@lumenstudio.example"]
    for id, name, email, phone, relation in CARDS:
        world.people[id] = {"name": name, "email": email, "phone": phone, "relation": relation}
    for id, summary, start, end, location, organizer, attendees in EVENTS:
        world.events[id] = {
            "summary": summary, "start": start, "end": end, "location": location, "organizer": organizer,
            "attendees": list(attendees), "description": "",
        }  # fmt: skip
    for path, content, owner in FILES:
        shared = [ME] if owner != "me" else []
        world.documents[path] = {"content": content, "owner": owner, "modified": "2026-11-01", "shared_with": shared}
    world.documents["/work/brightwater/offer.md"]["shared_with"] = ["bram@lumenstudio.example"]
    world.tasks = {
        "td1": {"title": "call the plumber", "list": "home", "due": ""},
        "td2": {"title": "buy a present for Mila", "list": "home", "due": "2026-12-01"},
        "td3": {"title": "write the quote for Halden", "list": "work", "due": "2026-11-20"},
    }


def add_travel(world: OfficeWorld) -> None:
    rows = [
        ("TP661", "AMS", "LIS", "2027-01-08", "TAP", "07:10", "09:10", 148),
        ("KL1693", "AMS", "LIS", "2027-01-08", "KLM", "12:25", "14:30", 189),
        ("HV5951", "AMS", "LIS", "2027-01-08", "Transavia", "17:50", "19:55", 96),
        ("TP668", "LIS", "AMS", "2027-01-12", "TAP", "10:00", "13:55", 131),
        ("HV5952", "LIS", "AMS", "2027-01-12", "Transavia", "20:35", "00:30", 88),
        ("KL1141", "AMS", "OSL", "2026-11-30", "KLM", "08:10", "09:55", 121),
        ("SK820", "AMS", "OSL", "2026-11-30", "SAS", "11:00", "12:50", 109),
        ("DY1255", "AMS", "OSL", "2026-11-30", "Norwegian", "16:40", "18:30", 94),
    ]
    for id, origin, destination, date, airline, departs, arrives, price in rows:
        world.flights[id] = {
            "origin": origin, "destination": destination, "date": date, "airline": airline, "departs": departs,
            "arrives": arrives, "price": price, "notes": "",
        }  # fmt: skip
    hotels = [
        (
            "H-31",
            "Lisbon",
            "Casa das Flores",
            92,
            4.5,
            0.4,
            "Small house near Rossio.",
            ["Lovely breakfast.", "A bit loud at night."],
        ),
        ("H-32", "Lisbon", "Hotel Tejo", 74, 3.9, 1.8, "Simple rooms near the river.", ["Clean.", "Slow lift."]),
        ("H-33", "Lisbon", "Miradouro Suites", 160, 4.8, 0.9, "Rooms with a view.", ["The best view of the city."]),
        ("H-41", "Oslo", "Fjord Inn", 118, 4.1, 0.7, "Near the station.", ["Good for a short stay."]),
        ("H-42", "Oslo", "Nordlys Hotel", 139, 4.6, 0.3, "Quiet, with sauna.", ["Very quiet.", "Great sauna."]),
    ]
    for id, city, name, price, rating, distance, description, reviews in hotels:
        world.stays[id] = {
            "city": city, "name": name, "price": price, "rating": rating, "distance_km": distance,
            "description": description, "reviews": reviews,
        }  # fmt: skip
    restaurants = [
        ("R-51", "Utrecht", "Trattoria Lucca", "italian", 4.6, 32, "Handmade pasta, small terrace."),
        ("R-52", "Utrecht", "Da Piero", "italian", 4.2, 24, "Pizza from the wood oven."),
        ("R-53", "Utrecht", "Kamo", "japanese", 4.7, 38, "Counter with ten seats."),
        ("R-54", "Utrecht", "De Ketel", "dutch", 4.0, 27, "Stew and beer."),
        ("R-61", "Oslo", "Havn", "seafood", 4.5, 55, "At the harbour."),
    ]
    for id, city, name, cuisine, rating, price, about in restaurants:
        world.tables[id] = {
            "city": city, "name": name, "cuisine": cuisine, "rating": rating, "price": price, "about": about,
        }  # fmt: skip
    world.reservations = {
        "RES-71": {"kind": "hotel", "what": "Fjord Inn", "when": "2026-11-30", "name": "Nadia Verhoeven"},
        "RES-72": {"kind": "table", "what": "Kamo", "when": "2026-11-24 19:00", "name": "Verhoeven"},
        "RES-73": {"kind": "flight", "what": "KL1141", "when": "2026-11-30", "name": "Nadia Verhoeven"},
    }


def add_bank(world: OfficeWorld) -> None:
    world.bank_accounts = {
        "NL11BANK0100200300": {"name": "checking", "balance_eur": 3218.55},
        "NL11BANK0100200399": {"name": "savings", "balance_eur": 18440.00},
    }
    rows = [
        ("tx901", "2026-11-02", -1180.00, "Bakker Verhuur", "rent November"),
        ("tx902", "2026-11-05", -64.90, "Spar Utrecht", "card payment"),
        ("tx903", "2026-11-08", -12.99, "StreamBox", "subscription"),
        ("tx904", "2026-11-09", 120.00, "E Verhoeven", "for the present for mama"),
        ("tx905", "2026-11-11", -12.99, "StreamBox", "subscription"),
        ("tx906", "2026-11-14", -47.30, "Spar Utrecht", "card payment"),
        ("tx907", "2026-11-16", 35.00, "Y Tanaka", "concert ticket"),
        ("tx908", "2026-10-28", 3927.15, "Lumen Studio", "salary October"),
    ]
    for id, date, amount, name, reference in rows:
        world.transactions[id] = {
            "date": date, "amount_eur": amount, "counterparty": name, "reference": reference, "account": "checking",
        }  # fmt: skip
    world.beneficiaries = {
        "B-1": {"name": "Eva Verhoeven", "iban": "NL33BANK0555111222"},
        "B-2": {"name": "Bakker Verhuur", "iban": "NL44BANK0777888999"},
        "B-3": {"name": "Yuki Tanaka", "iban": "DE55BANK0123456789"},
        "B-4": {"name": "Tomás Rivas", "iban": "NL66BANK0222333444"},
        "B-5": {"name": "Oskar Lindqvist", "iban": "NL77BANK0999000111"},
    }
    world.scheduled = {
        "SP-81": {"iban": "NL44BANK0777888999", "amount_eur": 1180.0, "recipient": "Bakker Verhuur", "next": "2026-12-01", "repeat": "monthly"},
        "SP-82": {"iban": "NL88BANK0121212121", "amount_eur": 25.0, "recipient": "Sportclub Noord", "next": "2026-12-03", "repeat": "monthly"},
        "SP-83": {"iban": "NL99BANK0343434343", "amount_eur": 15.0, "recipient": "Red Panda Fund", "next": "2026-12-05", "repeat": "monthly"},
    }  # fmt: skip


def add_home(world: OfficeWorld) -> None:
    world.devices = {
        "thermo-living": {"name": "thermostat living room", "state": "19 C"},
        "thermo-bath": {"name": "thermostat bathroom", "state": "18 C"},
        "lamp-hall": {"name": "lamp hall", "state": "on"},
        "lamp-desk": {"name": "lamp desk", "state": "off"},
        "lock-front": {"name": "front door", "state": "locked"},
        "lock-shed": {"name": "shed door", "state": "unlocked"},
        "plug-coffee": {"name": "coffee machine", "state": "off"},
        "alarm-main": {"name": "alarm", "state": "on"},
    }
    rows = [
        ("PR-11", "Cake tin 26 cm", 14.95, 4.4, "Kookhuis", "Steel, non-stick.", ["Bakes evenly."]),
        ("PR-12", "Cake tin 28 cm glass", 19.50, 4.1, "Glasland", "Glass.", ["Heavy but good."]),
        (
            "PR-13",
            "Rain jacket women blue",
            79.00,
            4.6,
            "Buiten",
            "Waterproof, sizes S to XL.",
            ["Dry after an hour of rain."],
        ),
        ("PR-14", "Rain jacket women red", 64.00, 4.0, "Buiten", "Waterproof.", ["Runs small."]),
        ("PR-15", "USB-C charger 65 W", 29.90, 4.7, "Volt", "Two ports.", ["Charges my laptop."]),
        ("PR-16", "USB-C charger 45 W", 18.90, 3.8, "NoName", "One port.", ["Gets warm."]),
        ("PR-17", "Wooden train set", 42.00, 4.8, "Speelgoed", "42 pieces, from 3 years.", ["My son loves it."]),
        ("PR-18", "Bird feeder", 16.50, 4.3, "Tuin", "For the garden.", ["Birds came after a day."]),
        ("PR-19", "Coffee beans 1 kg", 17.80, 4.5, "Brander", "Medium roast.", ["Fresh."]),
    ]
    for id, title, price, rating, seller, description, reviews in rows:
        world.catalog[id] = {
            "title": title, "price": price, "rating": rating, "seller": seller, "description": description, "reviews": reviews,
        }  # fmt: skip
    world.basket = {"PR-18": {"title": "Bird feeder", "quantity": 1, "price": 16.50}}
    world.shop_orders = {
        "OR-501": {"items": "Desk lamp", "status": "shipped", "ship_to": "home", "date": "2026-11-12"},
        "OR-502": {"items": "Yoga mat", "status": "processing", "ship_to": "home", "date": "2026-11-16"},
        "OR-503": {"items": "Running shoes 39", "status": "delivered", "ship_to": "work", "date": "2026-11-03"},
    }
    world.site = {
        "https://museumutrecht.example/hours": "Museum Utrecht: opening hours\nTuesday to Sunday 10:00 to 17:00. Tickets 14 EUR.",
        "https://recipes.example/lentil-soup": "Lentil soup\n250 g lentils, 2 carrots, 1 onion, cumin. Cook for 30 minutes.",
        "https://visitlisbon.example/january": "Lisbon in January\nMild, 15 degrees. See the Gulbenkian museum and Alfama.",
        "https://docs.shopkit.example/checkout": "ShopKit checkout\nAn empty basket must be answered with status 409.",
        "https://tarieven.example/vat-norway": "VAT in Norway\nThe general rate is 25 %, food has 15 %.",
        "https://fernhill.example/about": "Fernhill Bakery\nTwo bakers, one oven, sourdough since 2019.",
        "https://gemeente.example/afval": "Afvalkalender Utrecht\nOud papier: donderdag 26 november. GFT: maandag 23 november.",
    }  # fmt: skip


def new_office() -> OfficeWorld:
    world = OfficeWorld()
    for add in (add_mail, add_travel, add_bank, add_home, add_chat, add_repos, add_crm, add_hr):
        add(world)
    return world
