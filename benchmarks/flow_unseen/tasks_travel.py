"""Tasks about travel."""

from __future__ import annotations

from plans import do, task

task(
    "trip-berlin-cheapest",
    "Book me the cheapest train to Berlin on 30 November.",
    [
        do.travel_search_trains(origin="Hamburg", destination="Berlin", date="2026-11-30"),
        do.travel_book_ticket(connection_id="RE 8", date="2026-11-30", passenger="Marta Lindqvist"),
    ],
    done=["ticket.booked | RE 8 | 2026-11-30"],
)

task(
    "trip-berlin-before-nine",
    "I must be in Berlin before 9 on the 30th. Book a train and put it in my calendar.",
    [
        do.travel_search_trains(origin="Hamburg", destination="Berlin", date="2026-11-30"),
        do.travel_book_ticket(connection_id="ICE 1602", date="2026-11-30", passenger="Marta Lindqvist"),
        do.calCreate(title="Train to Berlin, ICE 1602", start="2026-11-30T06:34", end="2026-11-30T08:22"),
    ],
    done=["ticket.booked | ICE 1602", "cal.created | 2026-11-30T06:34"],
)

task(
    "trip-berlin-hotel",
    "Find a hotel in Berlin under 100 euros with good reviews for the night of the 30th and book it.",
    [
        do.travel_search_hotels(city="Berlin"),
        do.travel_hotel_reviews(hotel_id="H-32"),
        do.travel_book_hotel(hotel_id="H-32", check_in="2026-11-30", nights=1),
    ],
    done=["hotel.booked | H-32 | 2026-11-30 | nights=1"],
)

task(
    "trip-hotel-reviews",
    "What do guests say about the Spreebogen in Berlin?",
    [do.travel_search_hotels(city="Berlin"), do.travel_hotel_reviews(hotel_id="H-31")],
    done=["saw sauna was closed"],
)

task(
    "trip-milan-back",
    "Book the flight back from Milan on 5 December, the evening one.",
    [
        do.travel_search_flights(origin="MXP", destination="HAM", date="2026-12-05"),
        do.travel_book_ticket(connection_id="NA482", date="2026-12-05", passenger="Marta Lindqvist"),
    ],
    done=["ticket.booked | NA482 | 2026-12-05"],
)

task(
    "trip-cancel-car",
    "I don't need the rental car in Milan any more, cancel it.",
    [do.travel_bookings(), do.travel_cancel(booking_id="BK-9")],
    done=["booking.cancelled | BK-9"],
)

task(
    "trip-bookings-mail",
    "Send Clara my Milan travel dates.",
    [
        do.travel_bookings(),
        do.contacts_lookup(name="Clara"),
        do.inbox_send(
            to=["clara.lindqvist@posthaus.example"],
            subject="Mailand",
            body="Ich fliege am 1. Dezember und bleibe vom 2. bis 5. im Hotel Brera.",
        ),
    ],
    done=["mail.sent | clara.lindqvist@posthaus.example | Hotel Brera"],
)

task(
    "trip-jonas-milan",
    "Jonas braucht auch ein Zimmer im Hotel Brera, 2. bis 5. Dezember. Buch es und sag ihm im Chat Bescheid.",
    [
        do.travel_search_hotels(city="Milan"),
        do.travel_book_hotel(hotel_id="H-11", check_in="2026-12-02", nights=3, note="Guest: Jonas Weber"),
        do.chat_dm(user="@jonas", text="Dein Zimmer im Hotel Brera ist gebucht, 2. bis 5. Dezember."),
    ],
    done=["hotel.booked | H-11 | nights=3 | Jonas", "chat.dm | @jonas | Brera"],
)

task(
    "trip-lueneburg-stay",
    "Is there a hotel in Lüneburg with a garden? Book the night of the offsite, 10 to 11 December.",
    [
        do.calFind(text="offsite"),
        do.travel_search_hotels(city="Lüneburg"),
        do.travel_book_hotel(hotel_id="H-21", check_in="2026-12-10", nights=1),
    ],
    done=["hotel.booked | H-21 | 2026-12-10"],
)

task(
    "trip-flight-cheap-milan",
    "Compare flights to Milan on 1 December and tell me which includes a bag.",
    [do.travel_search_flights(origin="HAM", destination="MXP", date="2026-12-01")],
    done=["saw bag included"],
)

task(
    "trip-arrival-note",
    "Add the hotel's booking code for Milan to my packing list.",
    [
        do.travel_bookings(),
        do.drive_search(text="packing"),
        do.drive_append(file_id="f-01", text="Hotel Brera, booking code HB-5521\n"),
    ],
    done=["file.appended | f-01 | HB-5521"],
)

task(
    "trip-lisbon",
    "Cherche un vol Hambourg-Lisbonne le 14 mai et réserve-le pour moi et Clara Lindqvist.",
    [
        do.travel_search_flights(origin="HAM", destination="LIS", date="2027-05-14"),
        do.travel_book_ticket(connection_id="TP567", date="2027-05-14", passenger="Marta Lindqvist"),
        do.travel_book_ticket(connection_id="TP567", date="2027-05-14", passenger="Clara Lindqvist"),
    ],
    done=["ticket.booked | TP567 | Marta", "ticket.booked | TP567 | Clara"],
)

task(
    "trip-museum",
    "For the offsite: is the salt museum open on Fridays? Suggest it to Sofia in a DM.",
    [
        do.web_search(query="salt museum"),
        do.web_open(url="https://lueneburg.example/salzmuseum"),
        do.chat_dm(user="@sofia", text="Idea for the offsite: the salt museum is open on Friday 10-17, 8 euros each."),
    ],
    done=["chat.dm | @sofia | salt museum"],
)

task(
    "trip-weather-then-calendar",
    "If Saturday is sunny put a walk in the calendar, 10 to 12.",
    [
        do.web_search(query="weather Hamburg"),
        do.calEvents(fromDate="2026-11-21", toDate="2026-11-21"),
        do.calCreate(title="Walk", start="2026-11-21T10:00", end="2026-11-21T12:00"),
    ],
    done=["cal.created | Walk | 2026-11-21T10:00"],
)

task(
    "trip-lorry-slot",
    "Read the exhibitors' guide of the Milan fair and mail Freja what it says about lorries.",
    [
        do.web_search(query="milan fair exhibitors"),
        do.web_open(url="https://fieramilano.example/exhibitors"),
        do.contacts_lookup(name="Freja"),
        do.inbox_send(
            to=["freja@holmlogistik.example"],
            subject="Milan fair",
            body="Dear Freja, lorries need a slot for the build-up on 2 December. Marta",
        ),
    ],
    done=["mail.sent | freja@holmlogistik.example | slot"],
)

task(
    "trip-basel-cancel",
    "storniere den zug nach basel",
    [do.travel_bookings(), do.travel_cancel(booking_id="BK-10")],
    done=["booking.cancelled | BK-10"],
)

task(
    "trip-two-turns",
    "Trains to Berlin on the 30th?",
    [do.travel_search_trains(origin="Hamburg", destination="Berlin", date="2026-11-30")],
    "the 8:34 please",
    [do.travel_book_ticket(connection_id="ICE 1604", date="2026-11-30", passenger="Marta Lindqvist")],
    done=["ticket.booked | ICE 1604"],
)

task(
    "trip-brera-cost",
    "What do my Milan bookings cost in total? Write it into the budget sheet under travel, spent.",
    [
        do.travel_bookings(),
        do.drive_search(text="budget milan"),
        do.drive_sheet(file_id="f-02"),
        do.drive_set_cell(file_id="f-02", row="travel", column="spent", value="784"),
    ],
    done=["sheet.set | f-02 | travel | 784"],
)
