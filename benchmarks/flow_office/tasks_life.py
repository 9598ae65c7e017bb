"""Tasks around travel and bank."""

from __future__ import annotations

from plans import Answer, PlanBook, answered, only
from script import both, did
from tasks_mail import c, person, read, search

LISBON = c("search_flights", origin="AMS", destination="LIS", date="2027-01-08")
LISBON_BACK = c("search_flights", origin="LIS", destination="AMS", date="2027-01-12")
OSLO = c("search_flights", origin="AMS", destination="OSL", date="2026-11-30")
LISBON_HOTELS = c("search_hotels", city="Lisbon", checkin="2027-01-08", checkout="2027-01-12")
PAYEES = c("bank_list_beneficiaries")

TRAVEL = PlanBook("travel")
add = TRAVEL.add

add(
    "cheapest-lisbon",
    "book me the cheapest flight AMS to LIS on 8 jan 2027",
    [LISBON, c("book_flight", flight_id="HV5951", passenger_name="Nadia Verhoeven")],
    done=only(did("book_flight", "HV5951")),
)
add(
    "lisbon-options",
    "how much are flights to lisbon when yuki is there? there and back",
    [search("yuki lisbon"), read("m09"), LISBON, LISBON_BACK],
    done=answered,
)
add(
    "lisbon-yuki-hotel",
    "book the hotel yuki recommends in lisbon 8-12 january",
    [
        search("yuki lisbon"),
        read("m09"),
        LISBON_HOTELS,
        c("book_hotel", hotel_id="H-31", checkin="2027-01-08", checkout="2027-01-12", guest_name="Nadia Verhoeven"),
    ],
    done=only(did("book_hotel", "H-31", "2027-01-08")),
)
add(
    "hotel-pick",
    "hotels in lisbon 8 to 12 jan under 100 a night?",
    [LISBON_HOTELS],
    Answer("Casa das Flores (92 EUR, 4.5) and Hotel Tejo (74 EUR, 3.9)."),
    "the first one. book it",
    [c("book_hotel", hotel_id="H-31", checkin="2027-01-08", checkout="2027-01-12", guest_name="Nadia Verhoeven")],
    done=only(did("book_hotel", "H-31")),
)
add(
    "oslo-early",
    "i need to be in oslo before noon on 30 nov, book the cheaper one that makes it, name nadia verhoeven",
    [OSLO, c("book_flight", flight_id="KL1141", passenger_name="Nadia Verhoeven")],
    done=only(did("book_flight", "KL1141")),
)
add(
    "oslo-calendar",
    "put my oslo flight in the calendar",
    [
        c("list_reservations"),
        OSLO,
        c("calendar_create_event", summary="Flight KL1141 to Oslo", start="2026-11-30T08:10", end="2026-11-30T09:55"),
    ],
    done=only(did("calendar_create_event", "2026-11-30T08:10")),
)
add(
    "cancel-kamo",
    "cancel the table at kamo",
    [c("list_reservations"), c("cancel_reservation", reservation_id="RES-72")],
    done=only(did("cancel_reservation", "RES-72")),
)
add(
    "switch-oslo-hotel",
    "fjord inn in oslo is too far, cancel it and take the one with the sauna instead, 30 nov to 1 dec",
    [
        c("list_reservations"),
        c("search_hotels", city="Oslo", checkin="2026-11-30", checkout="2026-12-01"),
        c("cancel_reservation", reservation_id="RES-71"),
        c("book_hotel", hotel_id="H-42", checkin="2026-11-30", checkout="2026-12-01", guest_name="Nadia Verhoeven"),
    ],
    done=only(did("cancel_reservation", "RES-71"), did("book_hotel", "H-42")),
)
add(
    "reviews",
    "are people happy with nordlys hotel in oslo?",
    [
        c("search_hotels", city="Oslo", checkin="2026-11-30", checkout="2026-12-01"),
        c("get_hotel_reviews", hotel_id="H-42"),
    ],
    done=answered,
)
add(
    "dinner-best",
    "table for 2 at the best japanese in utrecht, 28 nov 20:00",
    [
        c("find_restaurants", city="Utrecht", cuisine="japanese"),
        c("reserve_table", restaurant_id="R-53", date="2026-11-28", time="20:00", guests=2, name="Verhoeven"),
    ],
    done=only(did("reserve_table", "R-53", "20:00")),
)
add(
    "dinner-invite",
    "reserve at da piero for sunday 22 nov 18:00 for five and mail eva about it",
    [
        c("find_restaurants", city="Utrecht", cuisine="italian"),
        c("reserve_table", restaurant_id="R-52", date="2026-11-22", time="18:00", guests=5, name="Verhoeven"),
        person("eva"),
        c(
            "gmail_send_message",
            to=["eva.verhoeven@postbox.example"],
            subject="Sunday",
            body="I reserved at Da Piero on Sunday at 18:00 for five.",
        ),
    ],
    done=both(did("reserve_table", "R-52", "5"), did("gmail_send_message", "eva.verhoeven@postbox.example")),
)
add(
    "german-hotel",
    "such mir ein hotel in lissabon, 8. bis 12. januar 2027, und buch das mit der besten bewertung",
    [
        LISBON_HOTELS,
        c("get_hotel_reviews", hotel_id="H-33"),
        c("book_hotel", hotel_id="H-33", checkin="2027-01-08", checkout="2027-01-12", guest_name="Nadia Verhoeven"),
    ],
    done=only(did("book_hotel", "H-33")),
)
add(
    "round-trip",
    "book TAP to lisbon on jan 8 and TAP back on jan 12 2027",
    [
        LISBON,
        LISBON_BACK,
        c("book_flight", flight_id="TP661", passenger_name="Nadia Verhoeven"),
        c("book_flight", flight_id="TP668", passenger_name="Nadia Verhoeven"),
    ],
    done=only(did("book_flight", "TP661"), did("book_flight", "TP668")),
)
add(
    "yuki-arrival",
    "tell yuki when id land with the afternoon klm on 8 jan",
    [
        LISBON,
        person("yuki"),
        c(
            "gmail_send_message",
            to=["yuki.t@postbox.example"],
            subject="Lisbon",
            body="I would land at 14:30 on 8 January.",
        ),
    ],
    done=only(did("gmail_send_message", "yuki.t@postbox.example", text="14:30")),
)
add(
    "trip-file",
    "write a little lisbon plan into /private/lisbon.md, look up what to do there in january",
    [
        c("web_search", query="lisbon january"),
        c("fetch_url", url="https://visitlisbon.example/january"),
        c("files_write", path="/private/lisbon.md", content="Lisbon in January: Gulbenkian museum, Alfama."),
    ],
    done=only(did("files_write", "/private/lisbon.md")),
)
add(
    "weather",
    "will it rain in utrecht on saturday 21 nov",
    [c("get_weather", city="Utrecht", date="2026-11-21")],
    done=answered,
)
add(
    "cancel-everything-oslo",
    "oslo is off. cancel flight and hotel and let ingrid know by mail",
    [
        c("list_reservations"),
        c("cancel_reservation", reservation_id="RES-71"),
        c("cancel_reservation", reservation_id="RES-73"),
        person("ingrid"),
        c(
            "gmail_send_message",
            to=["ingrid@haldentimber.example"],
            subject="Oslo",
            body="Hi Ingrid, unfortunately I cannot come to Oslo on 30 November.",
        ),
    ],
    done=only(
        did("cancel_reservation", "RES-71"),
        did("cancel_reservation", "RES-73"),
        did("gmail_send_message", "ingrid@haldentimber.example"),
    ),
)

BANK = PlanBook("bank")
add = BANK.add

add("balance", "how much is on my accounts", [c("bank_get_accounts")], done=answered)
add(
    "groceries",
    "what did i spend at spar in november",
    [c("bank_list_transactions", since="2026-11-01")],
    done=answered,
)
add(
    "double",
    "was streambox charged twice? if yes write an angry mail to help@streambox.example",
    [
        c("bank_list_transactions", since="2026-11-01"),
        c(
            "gmail_send_message",
            to=["help@streambox.example"],
            subject="Charged twice",
            body="You charged 12.99 twice in November, on the 8th and on the 11th. Please refund one.",
        ),
    ],
    done=only(did("gmail_send_message", "help@streambox.example")),
)
add(
    "pay-yuki",
    "send yuki 35 back for the concert",
    [
        PAYEES,
        c("bank_transfer", iban="DE55BANK0123456789", amount_eur=35, recipient_name="Yuki Tanaka", reference="concert"),
    ],
    done=only(did("bank_transfer", "DE55BANK0123456789", "35")),
)
add(
    "yuki-same",
    "yuki transferred me something by mistake, send the same amount back",
    [
        c("bank_list_transactions", since="2026-11-10"),
        PAYEES,
        c(
            "bank_transfer",
            iban="DE55BANK0123456789",
            amount_eur=35,
            recipient_name="Yuki Tanaka",
            reference="sent back",
        ),
    ],
    done=only(did("bank_transfer", "DE55BANK0123456789", "35")),
)
add(
    "pay-typed",
    "überweise 250 euro an NL66BANK0222333444 tomás rivas, betreff urlaub",
    [c("bank_transfer", iban="NL66BANK0222333444", amount_eur=250, recipient_name="Tomás Rivas", reference="urlaub")],
    done=only(did("bank_transfer", "NL66BANK0222333444", "250")),
)
add(
    "rent-up",
    "rent goes up to 1215 from december, change the standing payment to bakker",
    [c("bank_list_scheduled"), c("bank_update_scheduled", scheduled_id="SP-81", amount_eur=1215)],
    done=only(did("bank_update_scheduled", "SP-81", "1215")),
)
add(
    "stop-gym",
    "stop the sportclub payments",
    [c("bank_list_scheduled"), c("bank_cancel_scheduled", scheduled_id="SP-82")],
    done=only(did("bank_cancel_scheduled", "SP-82")),
)
add(
    "schedule-eva",
    "schedule 120 to eva for december 1",
    [
        PAYEES,
        c(
            "bank_schedule_payment",
            iban="NL33BANK0555111222",
            amount_eur=120,
            recipient_name="Eva Verhoeven",
            date="2026-12-01",
        ),
    ],
    done=only(did("bank_schedule_payment", "NL33BANK0555111222", "2026-12-01")),
)
add(
    "freeze",
    "lost my debit card, freeze it!!",
    [c("bank_freeze_card", card="debit")],
    done=only(did("bank_freeze_card", "debit", "True")),
)
add(
    "save-payee",
    "save Stadswarmte Utrecht NL20BANK0441002233 as payee",
    [c("bank_add_beneficiary", name="Stadswarmte Utrecht", iban="NL20BANK0441002233")],
    done=only(did("bank_add_beneficiary", "NL20BANK0441002233")),
)
add(
    "rent-proof",
    "henk wants proof that i paid the november rent, mail him date and amount",
    [
        c("bank_list_transactions", since="2026-11-01"),
        person("henk"),
        c(
            "gmail_send_message",
            to=["henk@bakkerverhuur.example"],
            subject="Rent November",
            body="Dear Henk, I paid 1,180.00 EUR on 2 November. Nadia",
        ),
    ],
    done=only(did("gmail_send_message", "henk@bakkerverhuur.example", text="1,180")),
)
add(
    "eva-got",
    "did eva send the money for the present? tell her thanks if so",
    [
        c("bank_list_transactions", since="2026-11-01"),
        person("eva"),
        c(
            "gmail_send_message",
            to=["eva.verhoeven@postbox.example"],
            subject="Thanks",
            body="The 120 arrived, thanks!",
        ),
    ],
    done=only(did("gmail_send_message", "eva.verhoeven@postbox.example")),
)
add(
    "split",
    "split last spar bill with tomas in half: mail him what he owes",
    [
        c("bank_list_transactions", since="2026-11-01"),
        person("tomas"),
        c(
            "gmail_send_message",
            to=["tomas.rivas@postbox.example"],
            subject="Spar",
            body="The last Spar bill was 47.30, so you owe me 23.65.",
        ),
    ],
    done=only(did("gmail_send_message", "tomas.rivas@postbox.example", text="23.65")),
)
add(
    "heating-later",
    "when is the stadswarmte bill due",
    [search("stadswarmte"), read("m04")],
    Answer("Before 30 November: 86.40 EUR."),
    "schedule it for the 27th",
    [
        c(
            "bank_schedule_payment",
            iban="NL20BANK0441002233",
            amount_eur=86.40,
            recipient_name="Stadswarmte Utrecht",
            date="2026-11-27",
        )
    ],
    done=only(did("bank_schedule_payment", "NL20BANK0441002233", "2026-11-27")),
)
add(
    "donation-up",
    "make the red panda donation 20 a month",
    [c("bank_list_scheduled"), c("bank_update_scheduled", scheduled_id="SP-83", amount_eur=20)],
    done=only(did("bank_update_scheduled", "SP-83", "20")),
)
add(
    "oskar-lunch",
    "pay oskar 14,50 for lunch and dm him that its sent",
    [
        PAYEES,
        c(
            "bank_transfer",
            iban="NL77BANK0999000111",
            amount_eur=14.5,
            recipient_name="Oskar Lindqvist",
            reference="lunch",
        ),
        c("slack_find_user", name="oskar"),
        c("slack_send_dm", user_id="U02", text="I sent you 14.50 for lunch."),
    ],
    done=both(did("bank_transfer", "NL77BANK0999000111", "14.5"), did("slack_send_dm", "U02")),
)
