"""Tasks that begin with mail."""

# ruff: noqa: E501 -- texts of people, unbroken

from __future__ import annotations

from plans import do, task

task(
    "mail-layout",
    "Tell Jonas we take layout B for Milan.",
    [do.inbox_search(query="layout milan"), do.inbox_reply(id="m-101", body="Hi Jonas, we take layout B. Marta")],
    done=["mail.sent | jonas.weber@northpier.example | layout B"],
)

task("mail-unread", "anything new in my inbox?", [do.inbox_list(unread_only=True)], done=["saw Laternenfest"])

task(
    "mail-pickup-code",
    "What's the pick-up code for my parcel, and where is it? Put it on my reminders for tomorrow 5pm.",
    [
        do.inbox_search(query="parcel"),
        do.inbox_read(id="m-111"),
        do.reminderAdd(text="Pick up parcel at Kiosk Ahmad, Lindenstr. 4, code 5518", due="2026-11-20T17:00"),
    ],
    done=["reminder.added | 5518 | 2026-11-20"],
)

task(
    "mail-legal-monday",
    "Priya wants to speak on Monday at 10. Say yes and put it in my calendar with her invited.",
    [
        do.inbox_search(query="Priya"),
        do.inbox_read(id="m-103"),
        do.inbox_reply(id="m-103", body="Dear Priya, Monday at 10:00 works. Best, Marta"),
        do.calCreate(
            title="Call with Priya Raman",
            start="2026-11-23T10:00",
            end="2026-11-23T10:30",
            guests=["priya@ramanlegal.example"],
        ),
    ],
    done=["mail.sent | priya@ramanlegal.example | Monday", "cal.created | 2026-11-23T10:00 | priya@ramanlegal.example"],
)

task(
    "mail-archive-newsletters",
    "Archive everything from Lumen Weekly.",
    [
        do.inbox_search(query="Lumen Weekly"),
        do.inbox_move(id="m-107", folder="archive"),
        do.inbox_move(id="m-122", folder="archive"),
    ],
    done=["mail.moved | m-107 | archive", "mail.moved | m-122 | archive"],
)

task(
    "mail-spam",
    "the win big mail is spam, get rid of it",
    [do.inbox_search(query="win big"), do.inbox_delete(id="m-115")],
    done=["mail.deleted | m-115"],
)

task(
    "mail-restaurant",
    "Bestätige dem Kornspeicher bitte den Tisch für 12 am 6.12. um 18 Uhr und sag Clara Bescheid.",
    [
        do.inbox_search(query="Kornspeicher"),
        do.inbox_read(id="m-114"),
        do.inbox_reply(
            id="m-114", body="Guten Tag, ich bestätige den Tisch für 12 Personen am 6.12. um 18 Uhr. Marta Lindqvist"
        ),
        do.contacts_lookup(name="Clara"),
        do.inbox_send(
            to=["clara.lindqvist@posthaus.example"],
            subject="Papas Geburtstag",
            body="Der Tisch im Kornspeicher ist bestätigt: 6.12., 18 Uhr, 12 Personen.",
        ),
    ],
    done=["mail.sent | reservierung@kornspeicher.example", "mail.sent | clara.lindqvist@posthaus.example | 18 Uhr"],
)

task(
    "mail-carlos-delivery",
    "Answer Carlos in Spanish that the 60 lamps will be there on 4 December.",
    [
        do.inbox_search(query="Carlos lámparas"),
        do.inbox_reply(id="m-106", body="Hola Carlos, las 60 lámparas llegarán el 4 de diciembre. Saludos, Marta"),
    ],
    done=["mail.sent | carlos@luznorte.example | 4 de diciembre"],
)

task(
    "mail-forward-draft",
    "Forward Priya's second draft to Tom and ask him to look at clause 7",
    [
        do.inbox_search(query="second draft"),
        do.contacts_lookup(name="Tom"),
        do.inbox_forward(id="m-103", to=["tom.okafor@northpier.example"], note="Could you look at clause 7?"),
    ],
    done=["mail.forwarded | m-103 | tom.okafor@northpier.example | clause 7"],
)

task(
    "mail-hotel-arrival",
    "let hotel brera know I arrive around 18:30 on the 2nd",
    [
        do.inbox_search(query="Brera"),
        do.inbox_reply(id="m-104", body="Dear team, I will arrive around 18:30 on 2 December. Marta Lindqvist"),
    ],
    done=["mail.sent | reception@hotelbrera.example | 18:30"],
)

task(
    "mail-summary-ingrid",
    "Ingrid is sick, isn't she? Who is going to take her call with Luz Norte? Check mail and the operations room.",
    [
        do.chat_rooms(),
        do.inbox_search(query="Ingrid sick"),
        do.inbox_read(id="m-110"),
        do.chat_history(room="#operations"),
    ],
    done=["saw fever", "saw Luz Norte on Friday"],
)

task(
    "mail-ingrid-cover",
    "Write Ingrid that I'll take the Luz Norte call on Friday and wish her well.",
    [
        do.inbox_search(query="Ingrid"),
        do.inbox_reply(id="m-110", body="Hi Ingrid, I take the call with Luz Norte on Friday. Get well soon! Marta"),
    ],
    done=["mail.sent | ingrid.solberg@northpier.example | Get well"],
)

task(
    "mail-torch",
    "Lies mir die Mail von der Kita vor und bestell die Taschenlampe für Kinder, die grüne.",
    [
        do.inbox_search(query="Kita"),
        do.inbox_read(id="m-105"),
        do.market_search(text="torch green"),
        do.market_order(product_id="P-63"),
    ],
    done=["market.ordered | P-63 | quantity=1"],
)

task(
    "mail-cake",
    "Tell the kindergarten I'll bake an apple cake for Friday.",
    [
        do.inbox_search(query="Laternenfest"),
        do.inbox_reply(id="m-105", body="Liebe Frau Demir, ich backe einen Apfelkuchen. Marta Lindqvist"),
    ],
    done=["mail.sent | elif.demir@kitalindenhof.example | Apfelkuchen"],
)

task(
    "mail-photos-thanks",
    "Remercie Claire pour les photos et demande-lui la facture au format PDF.",
    [
        do.inbox_search(query="photos collection"),
        do.inbox_read(id="m-113"),
        do.inbox_reply(
            id="m-113", body="Bonjour Claire, merci pour les photos. Pourriez-vous m'envoyer la facture en PDF ? Marta"
        ),
    ],
    done=["mail.sent | claire@studioperret.example | PDF"],
)

task(
    "mail-container",
    "The container is late. Tell Sofia and Tom by mail, with the new date.",
    [
        do.inbox_search(query="container"),
        do.inbox_read(id="m-118"),
        do.contacts_lookup(name="Sofia"),
        do.contacts_lookup(name="Tom"),
        do.inbox_send(
            to=["sofia.reyes@northpier.example", "tom.okafor@northpier.example"],
            subject="Container HL-204 delayed",
            body="The container HL-204 arrives on 28 November. Marta",
        ),
    ],
    done=["mail.sent | sofia.reyes@ | tom.okafor@ | 28 November"],
)

task(
    "mail-container-chat",
    "post in #operations that container HL-204 is delayed until 28 Nov (see Freja's mail)",
    [
        do.inbox_search(query="HL-204"),
        do.chat_post(room="#operations", text="Container HL-204 is delayed: new arrival in Hamburg on 28 November."),
    ],
    done=["chat.posted | #operations | 28 November"],
)

task(
    "mail-yuki",
    "Can I meet Yuki on 13 January in the morning? If yes, reply yes, 10 o'clock, and block two hours with Yuki as guest.",
    [
        do.inbox_search(query="Yuki"),
        do.inbox_read(id="m-121"),
        do.calEvents(fromDate="2027-01-13", toDate="2027-01-13"),
        do.inbox_reply(id="m-121", body="Dear Yuki, yes: 13 January, 10:00, at our office. Marta"),
        do.calCreate(
            title="Yuki Tanaka: Fjell prototypes",
            start="2027-01-13T10:00",
            end="2027-01-13T12:00",
            guests=["yuki.tanaka@hikari-design.example"],
        ),
    ],
    done=["mail.sent | yuki.tanaka@ | 10:00", "cal.created | 2027-01-13T10:00 | yuki.tanaka@"],
)

task(
    "mail-offer-summary",
    "Summarise the carpenter's offer for me in two sentences and save it as /Fair Milan/carpenter.txt",
    [
        do.inbox_search(query="Angebot"),
        do.inbox_read(id="m-116"),
        do.drive_create(
            path="/Fair Milan/carpenter.txt",
            text="Brandt offers the stand for 6,480 euros net, delivery in three weeks. The offer is valid until 27 November.",
        ),
    ],
    done=["file.created | /Fair Milan/carpenter.txt | 6,480"],
)

task(
    "mail-decline-offer",
    "Sag Hanna Brandt freundlich ab, wir haben schon jemanden.",
    [
        do.inbox_search(query="Hanna Brandt"),
        do.inbox_reply(
            id="m-116", body="Liebe Frau Brandt, vielen Dank, wir haben uns bereits anders entschieden. Marta Lindqvist"
        ),
    ],
    done=["mail.sent | hanna@brandt-tischlerei.example"],
)

task(
    "mail-veggie",
    "Reply to Sofia's offsite mail: I am vegetarian.",
    [do.inbox_search(query="offsite agenda"), do.inbox_reply(id="m-117", body="Hi Sofia, I am vegetarian. Marta")],
    done=["mail.sent | sofia.reyes@northpier.example | vegetarian"],
)

task(
    "mail-q4-returns",
    "Tom wants me to check the returns in his forecast. Look at his mail and the returns sheet for November and send him how many units we had.",
    [
        do.inbox_search(query="Q4 forecast"),
        do.inbox_read(id="m-108"),
        do.drive_search(text="returns november"),
        do.drive_sheet(file_id="f-12"),
        do.inbox_reply(id="m-108", body="Hi Tom, the sheet for November has 4 returned units. Marta"),
    ],
    done=["mail.sent | tom.okafor@northpier.example | 4 returned units"],
)

task(
    "mail-dentist",
    "when is my dentist appointment? check the mail against the calendar",
    [do.inbox_search(query="Termin"), do.calFind(text="Zahnarzt")],
    done=["saw 8:30", "saw 2026-11-24T08:30"],
)

task(
    "mail-find-payslip",
    "What was my net salary in October?",
    [do.inbox_search(query="payslip"), do.inbox_read(id="m-120")],
    done=["saw 3,641.18"],
)

task(
    "mail-report-to-clara",
    "Email my sister the weather for Friday evening so she knows about the lantern festival",
    [
        do.web_search(query="weather hamburg"),
        do.contacts_lookup(name="sister"),
        do.inbox_send(
            to=["clara.lindqvist@posthaus.example"],
            subject="Lantern festival",
            body="It rains until 15:00 on Friday, the evening is dry, 6 degrees.",
        ),
    ],
    done=["mail.sent | clara.lindqvist@posthaus.example | dry"],
)

task(
    "mail-new-direct",
    "Send a mail to press@lightandcity.example: we'd like two press passes, names Marta Lindqvist and Jonas Weber.",
    [
        do.inbox_send(
            to=["press@lightandcity.example"],
            subject="Press passes",
            body="We would like two press passes, for Marta Lindqvist and Jonas Weber.",
        )
    ],
    done=["mail.sent | press@lightandcity.example | two press passes"],
)

task(
    "mail-early-tickets",
    "Until when are the early tickets for Light + City? Remind me the day before.",
    [
        do.inbox_search(query="Light + City"),
        do.inbox_read(id="m-122"),
        do.reminderAdd(text="Buy early tickets for Light + City", due="2026-11-29T09:00"),
    ],
    done=["reminder.added | Light + City | 2026-11-29"],
)

task(
    "mail-two-turns",
    "Read me Freja's mail about the container.",
    [do.inbox_search(query="Freja container"), do.inbox_read(id="m-118")],
    "OK. Thank her and ask whether half of it can come by lorry earlier.",
    [do.inbox_reply(id="m-118", body="Dear Freja, thank you. Could half of the goods come earlier by lorry? Marta")],
    done=["mail.sent | freja@holmlogistik.example | lorry"],
)

task(
    "mail-triage",
    "Go through my unread mails: archive the parcel notice, and give me a list of those that need an answer.",
    [do.inbox_list(unread_only=True), do.inbox_move(id="m-111", folder="archive")],
    done=["mail.moved | m-111 | archive"],
)

task(
    "mail-cc-lawyer",
    "Mail Carlos that the contract draft will come on Tuesday, Priya in copy.",
    [
        do.contacts_lookup(name="Carlos"),
        do.contacts_lookup(name="Priya"),
        do.inbox_send(
            to=["carlos@luznorte.example"],
            cc=["priya@ramanlegal.example"],
            subject="Contract",
            body="Dear Carlos, the draft will come on Tuesday. Marta",
        ),
    ],
    done=["mail.sent | to=carlos@luznorte.example | cc=priya@ramanlegal.example | Tuesday"],
)

task(
    "mail-contract-notice",
    "What notice period does our contract with Luz Norte have? Answer Priya's mail with it.",
    [
        do.drive_search(text="luz norte 2025"),
        do.drive_read(file_id="f-05"),
        do.inbox_search(query="Priya"),
        do.inbox_reply(id="m-103", body="Dear Priya, the notice period in the current contract is three months. Marta"),
    ],
    done=["mail.sent | priya@ramanlegal.example | three months"],
)

task(
    "mail-elternabend",
    "Füge die Taschenlampe zum Termin Laternenfest als Erinnerung eine Stunde vorher hinzu.",
    [
        do.inbox_search(query="Laternenfest"),
        do.calFind(text="Laternenfest"),
        do.reminderAdd(text="Taschenlampe für das Laternenfest mitnehmen", due="2026-11-20T16:00"),
    ],
    done=["reminder.added | Taschenlampe | 2026-11-20T16:00"],
)
