"""Marta Lindqvist runs the operations of Northpier, a maker of lamps in Hamburg. Today is Thursday, 2026-11-19."""

# ruff: noqa: E501 -- texts of people, unbroken

from __future__ import annotations

from typing import Any

from world import Record

NP = "northpier.example"
MARTA = f"marta.lindqvist@{NP}"


def mail(id: str, sender: str, subject: str, received: str, body: str, **more: Any) -> Record:
    name, address = sender.split(" <")
    return {
        "id": id,
        "from": {"name": name, "address": address.rstrip(">")},
        "to": more.get("to", [MARTA]),
        "cc": more.get("cc", []),
        "subject": subject,
        "received": received,
        "unread": more.get("unread", False),
        "folder": more.get("folder", "inbox"),
        "body": body,
        "attachments": more.get("attachments", []),
    }


MAILS = [
    mail(
        "m-101",
        f"Jonas Weber <jonas.weber@{NP}>",
        "Stand layout Milan",
        "2026-11-18T09:12",
        "Hi Marta, which of the two layouts do you prefer for Milan, A (island) or B (corner)? B is 1,400 euros cheaper. I need to tell the fair by Friday.",
        unread=True,
    ),
    mail(
        "m-102",
        "Nordkraft Energie <rechnung@nordkraft.example>",
        "Ihre Rechnung November 2026",
        "2026-11-17T06:00",
        "Ihre Stromrechnung: Betrag 84,20 EUR, fällig am 30.11.2026, Rechnungsnummer NK-20261117. Bitte überweisen Sie auf das bekannte Konto.",
        attachments=[{"name": "NK-20261117.pdf", "size": 48120}],
    ),
    mail(
        "m-103",
        "Priya Raman <priya@ramanlegal.example>",
        "Distribution agreement, second draft",
        "2026-11-16T15:40",
        "Dear Marta, please find attached the second draft. The open points are clause 7 (returns) and clause 11 (exclusivity in Spain). Could we speak on Monday at 10:00? Best, Priya",
        attachments=[{"name": "agreement-v2.docx", "size": 90112}],
        cc=[f"tom.okafor@{NP}"],
    ),
    mail(
        "m-104",
        "Hotel Brera <reception@hotelbrera.example>",
        "Your stay 2-5 December",
        "2026-11-15T11:05",
        "Dear guest, we look forward to your stay from 2 to 5 December. Please tell us your arrival time. Breakfast is served from 7.",
    ),
    mail(
        "m-105",
        "Elif Demir <elif.demir@kitalindenhof.example>",
        "Laternenfest am Freitag",
        "2026-11-18T13:30",
        "Liebe Eltern, das Laternenfest beginnt am Freitag um 17:00 Uhr im Hof. Bitte bringen Sie eine Taschenlampe mit. Wer backt einen Kuchen?",
        unread=True,
    ),
    mail(
        "m-106",
        "Carlos Iglesias <carlos@luznorte.example>",
        "Pedido 60 lámparas",
        "2026-11-18T17:20",
        "Hola Marta, confirmo el pedido de 60 lámparas Fjell. ¿Podéis entregar antes del 10 de diciembre? Un saludo, Carlos",
        unread=True,
    ),
    mail(
        "m-107",
        "Lumen Weekly <hello@lumenweekly.example>",
        "Five trends in lighting",
        "2026-11-14T05:00",
        "Warm dimming, paper shades, cordless table lamps, repairable drivers, and why everybody talks about CRI. Read more at https://lumenweekly.example/trends",
    ),
    mail(
        "m-108",
        f"Tom Okafor <tom.okafor@{NP}>",
        "Q4 forecast",
        "2026-11-17T16:02",
        "Marta, my numbers for Q4: revenue 412,000, returns 3.1 %, stock 1,870 units. Can you check the returns against the desk before the board call?",
        attachments=[{"name": "q4.xlsx", "size": 30100}],
    ),
    mail(
        "m-109",
        "Dr. Anke Sommer <praxis@sommer-zahn.example>",
        "Terminerinnerung",
        "2026-11-18T08:00",
        "Wir erinnern an Ihren Termin am 24.11. um 8:30 Uhr. Bitte bringen Sie Ihre Versichertenkarte mit.",
    ),
    mail(
        "m-110",
        f"Ingrid Solberg <ingrid.solberg@{NP}>",
        "Sick until Monday",
        "2026-11-19T07:10",
        "Hi, I have a fever and will be out until Monday. Could someone take my call with Luz Norte on Friday at 11?",
        unread=True,
        cc=[f"ops@{NP}"],
    ),
    mail(
        "m-111",
        "Parcelo <noreply@parcelo.example>",
        "Delivery attempt",
        "2026-11-18T12:44",
        "We could not deliver your parcel PX-77120. It waits at the shop Kiosk Ahmad, Lindenstr. 4, until 26 November. Pick-up code 5518.",
        unread=True,
    ),
    mail(
        "m-112",
        "Clara Lindqvist <clara.lindqvist@posthaus.example>",
        "Papas Geburtstag",
        "2026-11-12T19:30",
        "Hallo große Schwester, Papa wird am 6.12. siebzig. Ich habe an das Restaurant Kornspeicher gedacht, 12 Personen um 18 Uhr. Was meinst du? Clara",
    ),
    mail(
        "m-113",
        "Studio Perret <claire@studioperret.example>",
        "Photos de la collection",
        "2026-11-13T10:15",
        "Bonjour Marta, voici les photos: 24 images, livraison en haute définition vendredi. La facture de 1 850 euros suit. Bien à vous, Claire",
    ),
    mail(
        "m-114",
        "Kornspeicher <reservierung@kornspeicher.example>",
        "Re: Anfrage 6.12.",
        "2026-11-18T14:22",
        "Guten Tag, am 6.12. haben wir um 18 Uhr einen Tisch für 12 Personen frei. Bitte bestätigen Sie bis 21.11.",
        unread=True,
    ),
    mail(
        "m-115",
        "Win Big <promo@winbig-deals.example>",
        "You won!!!",
        "2026-11-19T03:01",
        "Congratulations, claim your prize today.",
        unread=True,
    ),
    mail(
        "m-116",
        "Hanna Brandt <hanna@brandt-tischlerei.example>",
        "Angebot Messestand",
        "2026-11-17T10:50",
        "Guten Tag Frau Lindqvist, unser Angebot für den Messestand: 6.480 Euro netto, Lieferzeit drei Wochen. Gültig bis 27.11.",
        attachments=[{"name": "angebot-2231.pdf", "size": 77001}],
    ),
    mail(
        "m-117",
        f"Sofia Reyes <sofia.reyes@{NP}>",
        "Offsite agenda",
        "2026-11-16T12:00",
        "Team, the offsite is on 11 December in Lüneburg. Agenda: 9:30 numbers, 11:00 returns, 13:30 product day, 16:00 walk. Tell me if you are vegetarian.",
        to=[f"ops@{NP}"],
    ),
    mail(
        "m-118",
        "Freja Holm <freja@holmlogistik.example>",
        "Container HL-204 delayed",
        "2026-11-18T16:35",
        "Dear Marta, the container HL-204 with your glass shades is delayed: new arrival in Hamburg on 28 November. Sorry, Freja",
    ),
    mail(
        "m-119",
        "Ahmet Yilmaz <ahmet@yilmaz-immobilien.example>",
        "Nebenkosten 2025",
        "2026-11-10T09:00",
        "Sehr geehrte Frau Lindqvist, Ihre Nachzahlung für 2025 beträgt 212,75 EUR, zahlbar bis 30.11. auf das Mietkonto.",
    ),
    mail(
        "m-120",
        f"Payroll <payroll@{NP}>",
        "Payslip October",
        "2026-10-30T06:00",
        "Your payslip for October: gross 5,950.00, net 3,641.18, tax id 48 112 907 553.",
        folder="archive",
    ),
    mail(
        "m-121",
        "Yuki Tanaka <yuki.tanaka@hikari-design.example>",
        "Visit in January",
        "2026-11-19T06:20",
        "Hello Marta, I will be in Hamburg from 12 to 15 January. Could we meet on the 13th in the morning to see the Fjell prototypes? Yuki",
        unread=True,
    ),
    mail(
        "m-122",
        "Lumen Weekly <hello@lumenweekly.example>",
        "Save the date: Light + City",
        "2026-11-09T05:00",
        "Light + City opens on 8 March. Early tickets until 30 November.",
        folder="inbox",
    ),
]

CONTACTS = [
    ("Clara Lindqvist", "clara.lindqvist@posthaus.example", "+49 40 555 0101", "sister"),
    ("Henning Lindqvist", "henning@lindqvist-familie.example", "+49 40 555 0102", "father"),
    ("Priya Raman", "priya@ramanlegal.example", "+44 20 5550 144", "lawyer"),
    ("Carlos Iglesias", "carlos@luznorte.example", "+34 91 555 0133", "distributor Spain"),
    ("Freja Holm", "freja@holmlogistik.example", "+45 55 501 20", "freight forwarder"),
    ("Claire Perret", "claire@studioperret.example", "+33 1 55 50 17 00", "photographer"),
    ("Hanna Brandt", "hanna@brandt-tischlerei.example", "+49 40 555 0177", "carpenter"),
    ("Jonas Weber", f"jonas.weber@{NP}", "+49 40 555 0190", "marketing"),
    ("Tom Okafor", f"tom.okafor@{NP}", "+49 40 555 0191", "finance"),
    ("Sofia Reyes", f"sofia.reyes@{NP}", "+49 40 555 0192", "head of operations team"),
    ("Ingrid Solberg", f"ingrid.solberg@{NP}", "+49 40 555 0193", "sales"),
    ("Paul Adeyemi", "paul.adeyemi@mailwerk.example", "+49 151 555 0188", "neighbour, has a spare key"),
    ("Yuki Tanaka", "yuki.tanaka@hikari-design.example", "+81 3 5550 1177", "designer"),
]


def event(id: str, title: str, start: str, end: str, **more: Any) -> Record:
    return {
        "eventId": id,
        "title": title,
        "start": start,
        "end": end,
        "organizer": more.get("organizer", MARTA),
        "guests": more.get("guests", []),
        "location": more.get("location", ""),
        "notes": more.get("notes", ""),
        "answer": more.get("answer", "accepted"),
    }


EVENTS = [
    event(
        "ev01",
        "Standup operations",
        "2026-11-19T09:00",
        "2026-11-19T09:15",
        organizer=f"sofia.reyes@{NP}",
        guests=[f"ops@{NP}"],
    ),
    event(
        "ev02",
        "1:1 Marta / Tom",
        "2026-11-19T14:00",
        "2026-11-19T14:30",
        guests=[f"tom.okafor@{NP}"],
        notes="Forecast, returns, hiring",
    ),
    event(
        "ev03",
        "Call Luz Norte",
        "2026-11-20T11:00",
        "2026-11-20T11:45",
        organizer=f"ingrid.solberg@{NP}",
        guests=["carlos@luznorte.example", MARTA],
        location="https://meet.northpier.example/luz",
    ),
    event("ev04", "Laternenfest Kita", "2026-11-20T17:00", "2026-11-20T19:00", location="Kita Lindenhof"),
    event(
        "ev05",
        "Board call",
        "2026-11-23T15:00",
        "2026-11-23T16:00",
        organizer=f"ceo@{NP}",
        guests=[MARTA, f"tom.okafor@{NP}"],
        notes="Q4, Milan, Spain",
    ),
    event("ev06", "Zahnarzt Dr. Sommer", "2026-11-24T08:30", "2026-11-24T09:15", location="Praxis Sommer"),
    event(
        "ev07",
        "Warehouse tour with Freja Holm",
        "2026-11-25T10:00",
        "2026-11-25T12:00",
        guests=["freja@holmlogistik.example"],
        location="Gate 3",
    ),
    event("ev08", "Yoga", "2026-11-23T18:30", "2026-11-23T19:30", location="Studio Ost"),
    event(
        "ev09",
        "Supplier webinar",
        "2026-11-26T16:00",
        "2026-11-26T17:00",
        organizer="events@brightsupply.example",
        guests=[MARTA],
        answer="none",
        notes="Free webinar about dimmable drivers.",
    ),
    event(
        "ev10",
        "Product review Fjell",
        "2026-11-26T10:00",
        "2026-11-26T11:30",
        guests=[f"jonas.weber@{NP}", f"ingrid.solberg@{NP}"],
        notes="Bring the samples",
    ),
    event("ev11", "Fair Milan, build-up", "2026-12-02T08:00", "2026-12-02T18:00", location="Rho, hall 9"),
    event(
        "ev12",
        "Offsite Lüneburg",
        "2026-12-11T09:30",
        "2026-12-11T17:00",
        organizer=f"sofia.reyes@{NP}",
        guests=[f"ops@{NP}"],
        answer="none",
    ),
    event(
        "ev13",
        "Elterngespräch",
        "2026-11-27T15:30",
        "2026-11-27T16:00",
        organizer="elif.demir@kitalindenhof.example",
        guests=[MARTA],
        answer="none",
    ),
    event(
        "ev14",
        "Lunch with Paul",
        "2026-11-21T12:30",
        "2026-11-21T13:30",
        guests=["paul.adeyemi@mailwerk.example"],
        location="Trattoria Sole",
    ),
]

BUSY = {
    f"tom.okafor@{NP}": {"2026-11-24": [("09:00", "10:30"), ("13:00", "15:00")], "2026-11-20": [("08:00", "16:00")]},
    f"jonas.weber@{NP}": {"2026-11-24": [("10:00", "11:00")], "2026-11-25": [("14:00", "16:00")]},
    f"sofia.reyes@{NP}": {"2026-11-24": [("09:30", "12:00")], "2026-11-20": []},
    f"ingrid.solberg@{NP}": {"2026-11-24": [("15:00", "16:00")]},
}


def room(name: str, topic: str, members: int, *messages: tuple[str, str, str]) -> Record:
    return {
        "room": name,
        "topic": topic,
        "members": members,
        "messages": [{"ts": ts, "user": user, "text": text} for ts, user, text in messages],
    }


ROOMS = [
    room(
        "#operations",
        "Daily work of the team",
        9,
        ("t11", "@sofia", "Who can take Ingrid's call with Luz Norte on Friday?"),
        ("t12", "@jonas", "The printer on the second floor is out of toner again."),
        ("t13", "@sofia", "Reminder: answer about the offsite food until Friday."),
    ),
    room(
        "#milan-fair",
        "Fair in Milan, 2-5 December",
        6,
        ("t21", "@jonas", "Layout A costs 7,900, layout B 6,500. Deadline Friday."),
        ("t22", "@ingrid", "I vote for B, the corner was good last year."),
        ("t23", "@tom", "B, please. Budget is 7,000."),
    ),
    room(
        "#support-desk",
        "Customers' problems",
        12,
        ("t31", "@lena", "Third report of a flickering Fjell this week, see T-4102."),
        ("t32", "@omar", "Firmware 2.3 fixes it, rollout is on Monday."),
        ("t33", "@lena", "What do I tell the customer in T-4102 until then?"),
    ),
    room(
        "#partners-ext",
        "Shared with our distributors",
        21,
        ("t41", "@carlos_luznorte", "Is there a new price list for 2027?"),
        ("t42", "@ingrid", "It comes at the end of November."),
    ),
    room(
        "#random",
        "Anything",
        34,
        ("t51", "@omar", "Cake in the kitchen!"),
        ("t52", "@jonas", "Does anybody want two tickets for the concert on Saturday?"),
    ),
    room(
        "#leadership",
        "Confidential",
        4,
        ("t61", "@ceo", "We plan to close the Kiel store in March. Not public yet."),
        ("t62", "@tom", "Bonus pool is 38,000, proposals until Wednesday."),
    ),
    room(
        "#releases",
        "What ships and when",
        15,
        ("t71", "@omar", "lampd 2.3.0-rc1 is on staging."),
        ("t72", "@lena", "No crash in 24 hours, from my side go."),
    ),
    room(
        "@tom",
        "direct",
        2,
        ("t81", "@tom", "Can you send me the address of the carpenter for the invoice?"),
        ("t82", "@tom", "And the forecast needs your check of the returns."),
    ),
    room(
        "@sofia",
        "direct",
        2,
        ("t91", "@sofia", "Could you take the Luz Norte call? Otherwise I would move it to Tuesday 24th at 14:00."),
    ),
]

PEOPLE = [
    ("@jonas", "Jonas Weber", f"jonas.weber@{NP}", "Marketing"),
    ("@tom", "Tom Okafor", f"tom.okafor@{NP}", "Finance"),
    ("@sofia", "Sofia Reyes", f"sofia.reyes@{NP}", "Operations"),
    ("@ingrid", "Ingrid Solberg", f"ingrid.solberg@{NP}", "Sales"),
    ("@omar", "Omar Haddad", f"omar.haddad@{NP}", "Firmware"),
    ("@lena", "Lena Fuchs", f"lena.fuchs@{NP}", "Support"),
    ("@ceo", "Birgit Aalto", f"ceo@{NP}", "Chief executive"),
    ("@carlos_luznorte", "Carlos Iglesias", "carlos@luznorte.example", "guest"),
    ("@kez_contractor", "Kez Morrow", "kez@morrow-freelance.example", "guest"),
]
