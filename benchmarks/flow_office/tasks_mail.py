"""Tasks around mail, address book, calendar and to-dos."""

# ruff: noqa: E501  a request as the person wrote it
from __future__ import annotations

from plans import Answer, PlanBook, answered, only
from script import both, did

from mainstay.testing import Call


def c(tool: str, /, **arguments: object) -> Call:
    return Call(tool, arguments)


def search(query: str) -> Call:
    return c("gmail_search_messages", query=query)


def read(id: str) -> Call:
    return c("gmail_get_message", message_id=id)


def person(name: str) -> Call:
    return c("people_search_contacts", query=name)


def days(first: str, last: str = "") -> Call:
    return c("calendar_list_events", time_min=first, time_max=last or first)


MAIL = PlanBook("mail")
add = MAIL.add

add("unread", "any new mail?", [search("is:unread")], done=answered)
add(
    "boiler",
    "tell henk thats fine, ill be home for the boiler thing",
    [
        search("henk"),
        read("m01"),
        c("gmail_reply", message_id="m01", body="Dear Henk, that is fine, I will be at home on 26 November. Nadia"),
    ],
    done=only(did("gmail_reply", "m01")),
)
add(
    "boiler-calendar",
    "put the boiler inspection from henks mail in my calendar",
    [
        search("boiler"),
        read("m01"),
        c("calendar_create_event", summary="Boiler inspection", start="2026-11-26T09:00", end="2026-11-26T11:00"),
    ],
    done=only(did("calendar_create_event", "2026-11-26T09:00")),
)
add(
    "eva-yes",
    "write eva that i bring the cake and transfer her the 120 for mamas present",
    [
        search("eva"),
        read("m03"),
        c("gmail_reply", message_id="m03", body="Hey Eva, I bring the cake. x"),
        c("bank_list_beneficiaries"),
        c(
            "bank_transfer",
            iban="NL33BANK0555111222",
            amount_eur=120,
            recipient_name="Eva Verhoeven",
            reference="present mama",
        ),
    ],
    done=both(did("gmail_reply", "m03"), did("bank_transfer", "NL33BANK0555111222", "120")),
)
add(
    "heating-bill",
    "pay the stadswarmte invoice",
    [
        search("stadswarmte invoice"),
        read("m04"),
        c(
            "bank_transfer",
            iban="NL20BANK0441002233",
            amount_eur=86.40,
            recipient_name="Stadswarmte Utrecht",
            reference="2026-4471",
        ),
    ],
    done=only(did("bank_transfer", "NL20BANK0441002233", "86.4")),
)
add(
    "school",
    "zeg tegen school dat we met z'n tweeën komen naar de ouderavond",
    [
        search("school"),
        read("m05"),
        c(
            "gmail_reply",
            message_id="m05",
            body="Beste school, wij komen met z'n tweeën naar de ouderavond. Nadia Verhoeven",
        ),
    ],
    done=only(did("gmail_reply", "m05")),
)
add(
    "school-calendar",
    "add the parents evening to my calendar and invite tomas",
    [
        search("parents evening"),
        read("m05"),
        person("tomas"),
        c(
            "calendar_create_event",
            summary="Parents' evening",
            start="2026-12-03T19:30",
            end="2026-12-03T21:00",
            attendees=["tomas.rivas@postbox.example"],
            location="gym",
        ),
    ],
    done=only(did("calendar_create_event", "tomas.rivas@postbox.example", "2026-12-03T19:30")),
)
add(
    "receipt-chiara",
    "chiara is missing a receipt, find it and send it to her",
    [
        search("chiara receipt"),
        read("m06"),
        c("files_search", query="train rotterdam"),
        c(
            "gmail_send_message",
            to=["chiara@lumenstudio.example"],
            subject="Receipt train Rotterdam",
            body="Hi Chiara, here is the receipt for 41.20.",
            attachments=["/receipts/train-rotterdam.txt"],
        ),
    ],
    done=only(did("gmail_send_message", "chiara@lumenstudio.example", "/receipts/train-rotterdam.txt")),
)
add("lena-price", "what does lena say about the price? - short", [search("lena"), read("m07")], done=answered)
add(
    "lena-accept",
    "what did lena want",
    [search("lena"), read("m07")],
    Answer("Lena asks whether 29,500 would be possible if they write the texts themselves."),
    "ok tell her 29500 is fine and change the deal too",
    [
        c("gmail_reply", message_id="m07", body="Dear Lena, 29,500 is fine if you write the texts. Best, Nadia"),
        c("crm_list_deals"),
        c("crm_update_deal", deal_id="DL-202", amount=29500),
    ],
    done=both(did("gmail_reply", "m07"), did("crm_update_deal", "DL-202", "29500")),
)
add(
    "tomas-table",
    "do what tomas asks in his weekend mail, book the better rated one",
    [
        search("tomas weekend"),
        read("m08"),
        c("find_restaurants", city="Utrecht", cuisine="italian"),
        c("reserve_table", restaurant_id="R-51", date="2026-11-21", time="19:30", guests=4, name="Verhoeven"),
    ],
    done=only(did("reserve_table", "R-51", "19:30", "4")),
)
add(
    "accountant-docs",
    "schick meiner steuerberaterin die unterlagen die sie haben will",
    [
        search("pauline"),
        read("m11"),
        c("files_search", query="2025"),
        c(
            "gmail_send_message",
            to=["pauline@meyer-tax.example"],
            subject="Unterlagen 2025",
            body="Anbei die Unterlagen für 2025.",
            attachments=["/private/energy-2025.txt", "/private/bank-overview-2025.txt"],
        ),
    ],
    done=only(
        did(
            "gmail_send_message",
            "pauline@meyer-tax.example",
            "/private/energy-2025.txt",
            "/private/bank-overview-2025.txt",
        )
    ),
)
add(
    "antoine-merci",
    "réponds à antoine que c'est corrigé, 6,50 pour la tarte",
    [
        search("antoine"),
        read("m12"),
        c("gmail_reply", message_id="m12", body="Bonjour Antoine, c'est corrigé: la tarte coûte 6,50. Nadia"),
    ],
    done=only(did("gmail_reply", "m12", text="6,50")),
)
add(
    "unsubscribe",
    "bin the reisbazaar mail",
    [search("reisbazaar"), c("gmail_trash_message", message_id="m14")],
    done=only(did("gmail_trash_message", "m14")),
)
add(
    "newsletters-filter",
    "make a filter so everything from newsletter@gardenpost.example goes to label Garden",
    [c("gmail_create_filter", from_address="newsletter@gardenpost.example", add_label="Garden")],
    done=only(did("gmail_create_filter", "newsletter@gardenpost.example", "Garden")),
)
add(
    "star-oskar",
    "star oskars mail about the demo so i dont forget",
    [search("oskar demo"), c("gmail_modify_labels", message_id="m16", add=["STARRED"])],
    done=only(did("gmail_modify_labels", "m16", "STARRED")),
)
add(
    "forward-parcel",
    "forward the parcelbox mail to tomas, he is home then",
    [
        search("parcelbox"),
        person("tomas"),
        c("gmail_forward", message_id="m15", to=["tomas.rivas@postbox.example"], note="You are home then, right?"),
    ],
    done=only(did("gmail_forward", "m15", "tomas.rivas@postbox.example")),
)
add(
    "forward-typed",
    "fwd yukis lisbon mail to marijke.verhoeven@postbox.example",
    [search("yuki lisbon"), c("gmail_forward", message_id="m09", to=["marijke.verhoeven@postbox.example"])],
    done=only(did("gmail_forward", "m09", "marijke.verhoeven@postbox.example")),
)
add(
    "plain-send",
    "mail eva.verhoeven@postbox.example: running 20 min late, start without me",
    [
        c(
            "gmail_send_message",
            to=["eva.verhoeven@postbox.example"],
            subject="Late",
            body="Running 20 min late, start without me.",
        )
    ],
    done=only(did("gmail_send_message", "eva.verhoeven@postbox.example", text="20 min")),
)
add(
    "draft-ingrid",
    "draft a reply to ingrid, say the quote comes on thursday and oskar is her contact in december. dont send it",
    [
        search("ingrid"),
        read("m02"),
        c(
            "gmail_create_draft",
            to=["ingrid@haldentimber.example"],
            subject="Re: Shop phase 2",
            body="Hi Ingrid, the quote comes on Thursday. Oskar is your contact in December. Nadia",
        ),
    ],
    done=only(did("gmail_create_draft", "ingrid@haldentimber.example", text="Oskar")),
)
add(
    "zoe-slot",
    "answer zoe, her tuesday is ok, 10 o'clock, and put a call in the calendar with her",
    [
        search("zoe"),
        read("m17"),
        c("gmail_reply", message_id="m17", body="Hello Zoe, Tuesday 24 November at 10:00 works. Nadia"),
        c(
            "calendar_create_event",
            summary="Call with Zoe Marsh",
            start="2026-11-24T10:00",
            end="2026-11-24T10:30",
            attendees=["zoe@fernhill.example"],
        ),
    ],
    done=both(did("gmail_reply", "m17"), did("calendar_create_event", "zoe@fernhill.example", "2026-11-24T10:00")),
)
add(
    "zoe-contact",
    "save zoe from the bakery as a contact",
    [search("zoe bakery"), read("m17"), c("people_create_contact", name="Zoe Marsh", email="zoe@fernhill.example")],
    done=only(did("people_create_contact", "Zoe Marsh", "zoe@fernhill.example")),
)
add(
    "oskar-numbers",
    "oskars numbers for the demo, put them in my demo notes file",
    [
        search("oskar demo"),
        read("m16"),
        c("files_search", query="demo notes"),
        c("files_append", path="/work/demo-notes.md", text="- Halden October: 412 orders, 38 returns"),
    ],
    done=only(did("files_append", "/work/demo-notes.md", text="412")),
)
add(
    "todo-from-mail",
    "make todos out of ingrids mail",
    [
        search("ingrid"),
        read("m02"),
        c("todo_add_task", title="Send Halden the quote for phase 2", list_name="work"),
        c("todo_add_task", title="Tell Ingrid the contact in December", list_name="work"),
    ],
    done=only(did("todo_add_task", text="quote"), did("todo_add_task", text="December")),
)
add(
    "phone-update",
    "henk has a new number, +31 30 555 0200, update it",
    [person("henk"), c("people_update_contact", resource_name="people/c3", phone="+31 30 555 0200")],
    done=only(did("people_update_contact", "people/c3", "+31 30 555 0200")),
)
add(
    "spanish-tomas",
    "escríbele a tomás que lo recojo en la estación el viernes a las 18:40",
    [
        person("tomás"),
        c(
            "gmail_send_message",
            to=["tomas.rivas@postbox.example"],
            subject="viernes",
            body="Te recojo en la estación el viernes a las 18:40.",
        ),
    ],
    done=only(did("gmail_send_message", "tomas.rivas@postbox.example", text="18:40")),
)
add(
    "summary-week",
    "summarise what came from work people this week",
    [search("lumenstudio"), read("m16"), read("m06"), read("m13")],
    done=answered,
)
add(
    "summary-to-priya",
    "summarise oskars demo mail for priya and mail it to her",
    [
        search("oskar demo"),
        read("m16"),
        person("priya"),
        c(
            "gmail_send_message",
            to=["priya@lumenstudio.example"],
            subject="Demo on Friday",
            body="Oskar wants to show the Halden numbers on Friday: 412 orders and 38 returns in October.",
        ),
    ],
    done=only(did("gmail_send_message", "priya@lumenstudio.example", text="412")),
)
add(
    "reply-all",
    "reply all to oskar: yes i do the halden numbers",
    [
        search("oskar demo"),
        read("m16"),
        c("gmail_reply", message_id="m16", body="Yes, I will show the Halden numbers.", reply_all=True),
    ],
    done=only(did("gmail_reply", "m16", "True")),
)

CALENDAR = PlanBook("calendar")
add = CALENDAR.add

add("thursday", "whats on thursday 19 nov", [days("2026-11-19")], done=answered)
add(
    "move-dentist",
    "move the dentist to 10:30 same day",
    [
        c("calendar_search_events", q="dentist"),
        c("calendar_update_event", event_id="evt_11", start="2026-11-19T10:30", end="2026-11-19T11:15"),
    ],
    done=only(did("calendar_update_event", "evt_11", "2026-11-19T10:30")),
)
add(
    "cancel-yoga",
    "cancel yoga on thursday im sick",
    [c("calendar_search_events", q="yoga"), c("calendar_delete_event", event_id="evt_18")],
    done=only(did("calendar_delete_event", "evt_18")),
)
add(
    "cancel-lunch-tell",
    "cancel lunch with yuki and tell her sorry, some other week",
    [
        c("calendar_search_events", q="lunch yuki"),
        c("calendar_delete_event", event_id="evt_14"),
        person("yuki"),
        c(
            "gmail_send_message",
            to=["yuki.t@postbox.example"],
            subject="Lunch",
            body="Sorry, I have to cancel our lunch. Another week?",
        ),
    ],
    done=both(did("calendar_delete_event", "evt_14"), did("gmail_send_message", "yuki.t@postbox.example")),
)
add(
    "accept-budget",
    "accept the budget review",
    [c("calendar_search_events", q="budget"), c("calendar_respond", event_id="evt_17", response="accepted")],
    done=only(did("calendar_respond", "evt_17", "accepted")),
)
add(
    "decline-webinar",
    "decline that print webinar",
    [c("calendar_search_events", q="webinar print"), c("calendar_respond", event_id="evt_19", response="declined")],
    done=only(did("calendar_respond", "evt_19", "declined")),
)
add(
    "invite-bram",
    "add bram to the halden call",
    [
        c("calendar_search_events", q="halden"),
        person("bram"),
        c("calendar_update_event", event_id="evt_15", attendees=["bram@lumenstudio.example"]),
    ],
    done=only(did("calendar_update_event", "evt_15", "bram@lumenstudio.example")),
)
add(
    "room-change",
    "the 1:1 with priya is in room 3 now",
    [c("calendar_search_events", q="1:1 priya"), c("calendar_update_event", event_id="evt_13", location="Room 3")],
    done=only(did("calendar_update_event", "evt_13", "Room 3")),
)
add(
    "free-slot",
    "find a slot on 23 nov when oskar and priya are both free in the afternoon and set up a 30 min meeting about the poster",
    [
        person("oskar"),
        person("priya"),
        c("calendar_free_busy", emails=["oskar@lumenstudio.example", "priya@lumenstudio.example"], date="2026-11-23"),
        c(
            "calendar_create_event",
            summary="Poster",
            start="2026-11-23T13:00",
            end="2026-11-23T13:30",
            attendees=["oskar@lumenstudio.example", "priya@lumenstudio.example"],
        ),
    ],
    done=only(did("calendar_create_event", "oskar@lumenstudio.example", "priya@lumenstudio.example")),
)
add(
    "birthday",
    "put mamas birthday dinner in the calendar, evas mail has the details, invite tomas",
    [
        search("eva birthday"),
        read("m03"),
        person("tomas"),
        c(
            "calendar_create_event",
            summary="Mama's birthday dinner",
            start="2026-12-12T18:00",
            end="2026-12-12T22:00",
            attendees=["tomas.rivas@postbox.example"],
            location="Eva's place",
        ),
    ],
    done=only(did("calendar_create_event", "2026-12-12T18:00", "tomas.rivas@postbox.example")),
)
add(
    "german-arzt",
    "verschieb den zahnarzt auf den 2. dezember 9 uhr",
    [
        c("calendar_search_events", q="dentist"),
        c("calendar_update_event", event_id="evt_11", start="2026-12-02T09:00", end="2026-12-02T09:45"),
    ],
    done=only(did("calendar_update_event", "evt_11", "2026-12-02T09:00")),
)
add(
    "block-focus",
    "block 13 to 15 on 20 nov for focus time",
    [c("calendar_create_event", summary="Focus time", start="2026-11-20T13:00", end="2026-11-20T15:00")],
    done=only(did("calendar_create_event", "2026-11-20T13:00")),
)
add(
    "first-then-move",
    "when is my first meeting on monday 23",
    [days("2026-11-23")],
    Answer("Your first meeting is the 1:1 with Priya at 11:00."),
    "push it back an hour",
    [c("calendar_update_event", event_id="evt_13", start="2026-11-23T12:00", end="2026-11-23T12:30")],
    done=only(did("calendar_update_event", "evt_13", "2026-11-23T12:00")),
)
add("conflict", "do i have time on the 26th 9-11 for the boiler man", [days("2026-11-26")], done=answered)
add(
    "halden-question",
    "what is the halden call about and who comes",
    [c("calendar_search_events", q="halden"), search("ingrid"), read("m02")],
    done=answered,
)
add(
    "swimming-tomas",
    "cant do milas swimming lesson, send tomas an invite for it",
    [
        c("calendar_search_events", q="swimming"),
        person("tomas"),
        c("calendar_update_event", event_id="evt_16", attendees=["tomas.rivas@postbox.example"]),
    ],
    done=only(did("calendar_update_event", "evt_16", "tomas.rivas@postbox.example")),
)
add(
    "delete-named-two",
    "delete yoga and the swimming lesson this week",
    [
        days("2026-11-18", "2026-11-22"),
        c("calendar_delete_event", event_id="evt_18"),
        c("calendar_delete_event", event_id="evt_16"),
    ],
    done=only(did("calendar_delete_event", "evt_18"), did("calendar_delete_event", "evt_16")),
)
add(
    "todo-plumber",
    "plumber called back, tick that off",
    [c("todo_list_tasks"), c("todo_complete_task", task_id="td1")],
    done=only(did("todo_complete_task", "td1")),
)
add(
    "todo-friday",
    "remind me to buy candles for the cake",
    [c("todo_add_task", title="buy candles for the cake", list_name="home")],
    done=only(did("todo_add_task", text="candles")),
)
add(
    "agenda-mail",
    "mail tomas my appointments for thursday 19 nov",
    [
        days("2026-11-19"),
        person("tomas"),
        c(
            "gmail_send_message",
            to=["tomas.rivas@postbox.example"],
            subject="Thursday",
            body="Dentist at 9:00 and yoga at 18:30.",
        ),
    ],
    done=only(did("gmail_send_message", "tomas.rivas@postbox.example", text="Dentist")),
)
add(
    "dutch-overzicht",
    "wat heb ik volgende week allemaal (23 t/m 27)",
    [days("2026-11-23", "2026-11-27")],
    done=answered,
)
add(
    "rename-demo",
    "rename friday demo to Sprint demo",
    [
        c("calendar_search_events", q="friday demo"),
        c("calendar_update_event", event_id="evt_12", summary="Sprint demo"),
    ],
    done=only(did("calendar_update_event", "evt_12", "Sprint demo")),
)
