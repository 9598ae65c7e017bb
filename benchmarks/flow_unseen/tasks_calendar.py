"""Tasks that begin with the calendar."""

# ruff: noqa: E501 -- texts of people, unbroken

from __future__ import annotations

from plans import do, task

task(
    "cal-today",
    "What's on today and tomorrow?",
    [do.calEvents(fromDate="2026-11-19", toDate="2026-11-20")],
    done=["saw 1:1 Marta / Tom"],
)

task(
    "cal-move-yoga",
    "move yoga on Monday one hour later",
    [do.calFind(text="yoga"), do.calMove(eventId="ev08", start="2026-11-23T19:30", end="2026-11-23T20:30")],
    done=["cal.moved | ev08 | 2026-11-23T19:30"],
)

task(
    "cal-cancel-webinar",
    "Decline the supplier webinar.",
    [do.calFind(text="webinar"), do.calRespond(eventId="ev09", answer="declined")],
    done=["cal.answered | ev09 | declined"],
)

task(
    "cal-accept-offsite",
    "Accept the offsite and book me a train to Lüneburg for that morning.",
    [
        do.calFind(text="offsite"),
        do.calRespond(eventId="ev12", answer="accepted"),
        do.travel_search_trains(origin="Hamburg", destination="Lüneburg", date="2026-12-11"),
        do.travel_book_ticket(connection_id="ME 12", date="2026-12-11", passenger="Marta Lindqvist"),
    ],
    done=["cal.answered | ev12 | accepted", "ticket.booked | ME 12 | 2026-12-11"],
)

task(
    "cal-free-slot",
    "Find an hour on Tuesday when Tom, Sofia and I are all free and set up a meeting about returns.",
    [
        do.chat_people(query="Tom"),
        do.chat_people(query="Sofia"),
        do.calFreeBusy(address="tom.okafor@northpier.example", date="2026-11-24"),
        do.calFreeBusy(address="sofia.reyes@northpier.example", date="2026-11-24"),
        do.calEvents(fromDate="2026-11-24", toDate="2026-11-24"),
        do.calCreate(
            title="Returns",
            start="2026-11-24T15:00",
            end="2026-11-24T16:00",
            guests=["tom.okafor@northpier.example", "sofia.reyes@northpier.example"],
        ),
    ],
    done=["cal.created | Returns | 2026-11-24T15:00 | tom.okafor@ | sofia.reyes@"],
)

task(
    "cal-invite-lena",
    "Add Lena to the Fjell product review.",
    [
        do.calFind(text="Fjell"),
        do.chat_people(query="Lena"),
        do.calInvite(eventId="ev10", guests=["lena.fuchs@northpier.example"]),
    ],
    done=["cal.invited | ev10 | lena.fuchs@northpier.example"],
)

task(
    "cal-dentist-conflict",
    "Verschiebe den Zahnarzt im Kalender auf Donnerstag 26. um 8:30 und bitte die Praxis per Mail darum.",
    [
        do.calFind(text="Zahnarzt"),
        do.inbox_search(query="Zahn"),
        do.inbox_reply(
            id="m-109",
            body="Guten Tag, könnten wir den Termin auf Donnerstag, den 26.11., um 8:30 Uhr verschieben? Marta Lindqvist",
        ),
        do.calMove(eventId="ev06", start="2026-11-26T08:30", end="2026-11-26T09:15"),
    ],
    done=["mail.sent | praxis@sommer-zahn.example | 26.11.", "cal.moved | ev06 | 2026-11-26T08:30"],
)

task(
    "cal-lunch-cancel",
    "I can't make lunch with Paul on Saturday. Cancel it and text him an apology by mail.",
    [
        do.calFind(text="lunch paul"),
        do.calCancel(eventId="ev14", message="Sorry, I can't make it."),
        do.contacts_lookup(name="Paul"),
        do.inbox_send(
            to=["paul.adeyemi@mailwerk.example"],
            subject="Lunch on Saturday",
            body="Dear Paul, I am sorry, I can't make it on Saturday. Marta",
        ),
    ],
    done=["cal.cancelled | ev14", "mail.sent | paul.adeyemi@mailwerk.example | sorry"],
)

task(
    "cal-tour-reminder",
    "Remind me an hour before the warehouse tour to bring safety shoes",
    [
        do.calFind(text="warehouse tour"),
        do.reminderAdd(text="Bring safety shoes to the warehouse tour", due="2026-11-25T09:00"),
    ],
    done=["reminder.added | safety shoes | 2026-11-25T09:00"],
)

task(
    "cal-board-notes",
    "Create a document with an outline for the board call, using the points in the calendar entry.",
    [
        do.calFind(text="board call"),
        do.drive_create(path="/Notes/board-call-outline.md", text="# Board call\n- Q4\n- Milan\n- Spain\n"),
    ],
    done=["file.created | Spain"],
)

task(
    "cal-sweep",
    "Der Schornsteinfeger hat geklingelt. Wann kommt er wieder? Trag es ein.",
    [
        do.home_doorbell_log(since="2026-11-19"),
        do.calCreate(title="Schornsteinfeger", start="2026-11-24T10:00", end="2026-11-24T12:00"),
    ],
    done=["cal.created | Schornsteinfeger | 2026-11-24T10:00"],
)

task(
    "cal-parents-talk",
    "Accept the parent talk and tell me if it collides with anything.",
    [
        do.calFind(text="Elterngespräch"),
        do.calEvents(fromDate="2026-11-27", toDate="2026-11-27"),
        do.calRespond(eventId="ev13", answer="accepted"),
    ],
    done=["cal.answered | ev13 | accepted"],
)

task(
    "cal-luz-call-move",
    "Sofia suggested another time for the Luz Norte call. Look at her message and move the call there.",
    [
        do.chat_history(room="@sofia"),
        do.calFind(text="Luz Norte"),
        do.calMove(eventId="ev03", start="2026-11-24T14:00", end="2026-11-24T14:45"),
    ],
    done=["cal.moved | ev03 | 2026-11-24T14:00"],
)

task(
    "cal-week-overview",
    "Give me an overview of next week and save it in my notes as week-48.md",
    [
        do.calEvents(fromDate="2026-11-23", toDate="2026-11-29"),
        do.drive_create(
            path="/Notes/week-48.md",
            text="Mon: board call 15:00, yoga 18:30\nTue: dentist 8:30\nWed: warehouse tour 10:00\nThu: Fjell review 10:00, webinar 16:00\nFri: Elterngespräch 15:30\n",
        ),
    ],
    done=["file.created | week-48.md | warehouse"],
)

task(
    "cal-jonas-slot",
    "When could I meet Jonas on Tuesday or Wednesday next week? 30 minutes before noon. Book the first one.",
    [
        do.chat_people(query="Jonas"),
        do.calFreeBusy(address="jonas.weber@northpier.example", date="2026-11-24"),
        do.calEvents(fromDate="2026-11-24", toDate="2026-11-25"),
        do.calCreate(
            title="Marta / Jonas",
            start="2026-11-24T09:30",
            end="2026-11-24T10:00",
            guests=["jonas.weber@northpier.example"],
        ),
    ],
    done=["cal.created | 2026-11-24T09:30 | jonas.weber@"],
)

task(
    "cal-fr-restaurant",
    "Ajoute au calendrier l'anniversaire de papa au Kornspeicher le 6 décembre à 18 h, et invite Clara.",
    [
        do.contacts_lookup(name="Clara"),
        do.calCreate(
            title="Anniversaire de papa",
            start="2026-12-06T18:00",
            end="2026-12-06T22:00",
            guests=["clara.lindqvist@posthaus.example"],
            location="Kornspeicher",
        ),
    ],
    done=["cal.created | 2026-12-06T18:00 | clara.lindqvist@ | Kornspeicher"],
)

task(
    "cal-heating",
    "I'll be in Milan from 1 to 5 December. Check my calendar entry and bookings, and turn the living room heating to 16 from the 1st.",
    [
        do.calFind(text="Milan"),
        do.travel_bookings(),
        do.home_state(room="living"),
        do.home_schedule(device_id="dev-living-heat", state="16", at="2026-12-01T06:00"),
    ],
    done=["home.scheduled | dev-living-heat | 16 | 2026-12-01"],
)

task(
    "cal-tell-guests",
    "Tell the people in the Fjell review by mail to bring one sample each",
    [
        do.calFind(text="Product review Fjell"),
        do.inbox_send(
            to=["jonas.weber@northpier.example", "ingrid.solberg@northpier.example"],
            subject="Fjell review",
            body="Please bring one sample each on Thursday. Marta",
        ),
    ],
    done=["mail.sent | jonas.weber@ | ingrid.solberg@ | sample"],
)

task(
    "cal-move-1on1",
    "Push my 1:1 with Tom to 16:00 and let him know in chat why: dentist papers.",
    [
        do.calFind(text="1:1"),
        do.calMove(eventId="ev02", start="2026-11-19T16:00", end="2026-11-19T16:30"),
        do.chat_people(query="Tom"),
        do.chat_dm(user="@tom", text="I moved our 1:1 to 16:00, I have to sort out papers for the dentist."),
    ],
    done=["cal.moved | ev02 | 2026-11-19T16:00", "chat.dm | @tom | 16:00"],
)

task(
    "cal-two-turns",
    "is Friday afternoon free?",
    [do.calEvents(fromDate="2026-11-20", toDate="2026-11-20")],
    "then block 13 to 15 for the Milan packing",
    [do.calCreate(title="Milan packing", start="2026-11-20T13:00", end="2026-11-20T15:00")],
    done=["cal.created | Milan packing | 2026-11-20T13:00"],
)

task(
    "cal-webinar-topic",
    "What's that webinar on the 26th about, and is 'dimmable drivers' something the web says is a trend?",
    [
        do.calFind(text="webinar"),
        do.web_search(query="trends lighting"),
        do.web_open(url="https://lumenweekly.example/trends"),
    ],
    done=["saw Repairable drivers"],
)

task(
    "cal-es-reunion",
    "Crea una reunión con Carlos el 30 de noviembre a las 12 para hablar de la lista de precios.",
    [
        do.contacts_lookup(name="Carlos"),
        do.calCreate(
            title="Lista de precios 2027",
            start="2026-11-30T12:00",
            end="2026-11-30T12:30",
            guests=["carlos@luznorte.example"],
        ),
    ],
    done=["cal.created | 2026-11-30T12:00 | carlos@luznorte.example"],
)
