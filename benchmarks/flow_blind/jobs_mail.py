"""Tasks that begin with mail."""

# ruff: noqa: E501

from __future__ import annotations

from script import (
    Script,
    TaskBook,
    answered,
    both,
    call,
    did,
    find_address,
    find_entry,
    find_file,
    find_mail,
    find_payee,
    listed,
    mailed,
    noted,
)

BOOK = TaskBook("mail")
SOPHIE = "sophie.marchand@atelier-lumiere.example"
GRETA = "greta.lindqvist@posteo.example"
CLARA = "clara.weiss@nordlicht.example"
INES = "ines.carvalho@nordlicht.example"
PAVEL = "pavel@nordlicht.example"
OMAR = "omar@haddad-steuer.example"
BEN = "ben.okafor@inbox.example"
NADIA = "nadia.petrova@nordlicht.example"
JORGE = "jorge.medina@luzviva.example"


@BOOK.task("whats new in my inbox? short pls", done=answered)
def whats_new() -> Script:
    found = yield call("mail_search", q="", max_results=8)
    for mail in found.data[:4]:
        yield call("mail_open", message_id=mail["message_id"])


@BOOK.task("which mails from today still need an answer from me", done=answered)
def need_answer() -> Script:
    found = yield call("mail_search", q="")
    yield [call("mail_open", message_id=mail["message_id"]) for mail in found.data if mail["date"] == "2026-11-18"]


@BOOK.task("wann kommt mein paket", done=answered)
def parcel() -> Script:
    yield from find_mail("parcel")


@BOOK.task("What exactly did Pavel write about the firmware tests?", done=answered)
def firmware_tests() -> Script:
    yield from find_mail("pavel firmware")


@BOOK.task("hat der steuerberater geschrieben welche unterlagen er braucht? und hab ich die im drive?", done=answered)
def tax_documents() -> Script:
    yield from find_mail("omar")
    yield call("drive_find", folder="Steuer")


@BOOK.task("how much do i owe in bills this month according to my mails", done=answered)
def open_bills() -> Script:
    for word in ("IBAN", "Nachzahlung"):
        found = yield call("mail_search", q=word)
        for mail in found.data:
            yield call("mail_open", message_id=mail["message_id"])


@BOOK.task("until when is the call for papers open? check the mail and their website", done=answered)
def paper_deadline() -> Script:
    yield from find_mail("call for papers")
    yield call("web_search", query="photonics days")


@BOOK.task("qu'est-ce que Sophie veut exactement?", done=answered)
def sophie_wants() -> Script:
    found = yield call("mail_search", q="sophie")
    for mail in found.data:
        yield call("mail_open", message_id=mail["message_id"])


@BOOK.task("que dice jorge en su último correo? y estoy libre a esa hora?", done=answered)
def jorge_says() -> Script:
    yield from find_mail("jorge")
    yield call("listCalendarEntries", fromDate="2026-11-26", toDate="2026-11-26")


@BOOK.task("Summarise the last two Optics Weekly newsletters in three bullets", done=answered)
def newsletters() -> Script:
    found = yield call("mail_search", q="optics weekly")
    for mail in found.data[:2]:
        yield call("mail_open", message_id=mail["message_id"])


@BOOK.task("put the deadline of the photonics days cfp on my todo list", done=listed("photonics"))
def todo_deadline() -> Script:
    yield from find_mail("call for papers")
    yield call("todo_add", text="Photonics Days abstract, 300 words", due="2026-12-05")


@BOOK.task("go through this weeks mails and write the action items for me into the notebook 'week'", done=noted("week"))
def action_items() -> Script:
    found = yield call("mail_search", q="", max_results=10)
    yield [call("mail_open", message_id=mail["message_id"]) for mail in found.data[:6]]
    yield call("notebook_add", notebook="week", text="Clara: optics numbers by Friday noon")
    yield call("notebook_add", notebook="week", text="Nadia: receipt Hotel Spree by Monday")


@BOOK.task("notier mir was greta wegen mamas geburtstag vorschlägt", done=noted("Geburtstag Mama", "Olivo"))
def note_birthday() -> Script:
    yield from find_mail("greta")
    yield call("notebook_add", notebook="Geburtstag Mama", text="Sa 28.11. 18 Uhr Trattoria Olivo, Kuchen mitbringen")


@BOOK.task("reply to Ben that thursday 19:30 is fine", done=mailed(BEN, text="fine"))
def reply_ben() -> Script:
    id = yield from find_mail("ben climbing")
    yield call("mail_reply", message_id=id, body="Thursday 19:30 is fine. See you at 7!")


@BOOK.task("antworte greta: ja passt, ich bring den kuchen mit", done=mailed(GRETA, text="kuchen"))
def reply_greta() -> Script:
    id = yield from find_mail("greta geburtstag")
    yield call("mail_reply", message_id=id, body="Ja, passt! Ich bringe den Kuchen mit. Theo")


@BOOK.task("tell clara i vote for chiemsee", done=mailed(CLARA, text="chiemsee"))
def vote() -> Script:
    id = yield from find_mail("clara offsite")
    yield call("mail_reply", message_id=id, body="Chiemsee")


@BOOK.task("Forward Pavel's mail with the test results to Yuki", done=mailed("yuki.tanaka@nordlicht.example"))
def forward_yuki() -> Script:
    id = yield from find_mail("pavel firmware")
    to = yield from find_address("Yuki")
    yield call("mail_forward", message_id=id, to=[to])


@BOOK.task("forward the volta invoice to omar@haddad-steuer.example", done=mailed(OMAR, "m-2048"))
def forward_invoice() -> Script:
    id = yield from find_mail("volta")
    yield call("mail_forward", message_id=id, to=[OMAR])


@BOOK.task("leite die nebenkosten mail an meine schwester weiter mit der frage ob das normal ist", done=mailed(GRETA))
def forward_sister() -> Script:
    id = yield from find_mail("nebenkosten")
    to = yield from find_address("Schwester")
    yield call("mail_forward", message_id=id, to=[to], note="Ist das normal?")


@BOOK.task(
    "clara wants the optics numbers, theyre in the drive, send her three bullets", done=mailed(CLARA, text="1.24")
)
def board_numbers() -> Script:
    id = yield from find_mail("clara board slides")
    file = yield from find_file("optics numbers")
    yield call("drive_get", file=file)
    yield call("mail_reply", message_id=id, body="- Revenue 1.24 M EUR, up 8 %\n- Margin 41 %\n- Backlog 310 units")


@BOOK.task("Send Nadia the receipt she is missing, it must be somewhere in my drive.", done=mailed(NADIA, "D108"))
def send_receipt() -> Script:
    yield from find_mail("nadia receipt")
    file = yield from find_file("hotel spree")
    to = yield from find_address("Nadia")
    yield call("mail_send", to=[to], subject="Receipt Hotel Spree", body="Here it is.", attach=[file])


@BOOK.task(
    "schick herrn haddad die spendenquittung und die rechnung fürs arbeitszimmer aus dem drive",
    done=mailed(OMAR, "D106", "D107"),
)
def send_tax() -> Script:
    one = yield from find_file("Spendenquittung")
    two = yield from find_file("Arbeitszimmer")
    to = yield from find_address("Haddad")
    yield call("mail_send", to=[to], subject="Unterlagen Steuer 2025", body="Wie gewünscht.", attach=[one, two])


@BOOK.task("réponds à Sophie que le devis arrive demain", done=mailed(SOPHIE, text="demain"))
def reply_sophie() -> Script:
    id = yield from find_mail("sophie devis")
    yield call("mail_reply", message_id=id, body="Bonjour Sophie, le devis arrive demain. Theo")


@BOOK.task(
    "make a quote for sophie with the prices from our template in the sales folder and mail it to her",
    done=mailed(SOPHIE, text="5282"),
)
def quote() -> Script:
    id = yield from find_mail("sophie devis")
    found = yield call("drive_find", folder="Sales")
    yield call("drive_get", file=found.text.split(" | ")[0])
    yield call("mail_reply", message_id=id, body="Bonjour, 40 spots LX-2: 5282 EUR, livraison 3 semaines. Theo")


@BOOK.task("contesta a jorge que sí, jueves 26 a las 11 perfecto, y ponlo en mi calendario con él invitado",
           done=both(mailed(JORGE), did("event.created", "2026-11-26T11:00", JORGE)))  # fmt: skip
def accept_jorge() -> Script:
    id = yield from find_mail("jorge")
    yield call("mail_reply", message_id=id, body="Hola Jorge, jueves 26 a las 11:00 perfecto.")
    yield call(
        "createCalendarEntry",
        title="Video con Jorge (Luz Viva)",
        start="2026-11-26T11:00",
        end="2026-11-26T12:00",
        guests=[JORGE],
    )


@BOOK.task("archive all optics weekly mails", done=both(did("mail.archived", "m-2031"), did("mail.archived", "m-2032")))
def archive_newsletters() -> Script:
    found = yield call("mail_search", q="optics weekly")
    yield [call("mail_archive", message_id=mail["message_id"]) for mail in found.data]


@BOOK.task("delete the recruiter mail", done=did("mail.trashed", "m-2034"))
def delete_recruiter() -> Script:
    found = yield call("mail_search", q="talent")
    yield call("mail_trash", message_id=found.data[0]["message_id"])


@BOOK.task(
    "label the mails that contain a bill with 'bills'",
    done=both(*(did("mail.labelled", id, "bills") for id in ("m-2033", "m-2047", "m-2048"))),
)
def label_bills() -> Script:
    found = yield call("mail_search", q="IBAN")
    more = yield call("mail_search", q="nebenkosten")
    ids = sorted({mail["message_id"] for mail in [*found.data, *more.data]})
    yield [call("mail_open", message_id=id) for id in ids]
    for id in ids:
        yield call("mail_label", message_id=id, label="bills")


@BOOK.task("pay the volta bill", done=did("money.sent", "DE21700202700015883190", "84.90"))
def pay_volta() -> Script:
    yield from find_mail("volta rechnung")
    yield call(
        "payment_order", payee_iban="DE21 7002 0270 0015 8831 90", amount_eur=84.9, reference="88123", name="Volta"
    )


@BOOK.task(
    "überweise die nebenkosten nachzahlung an wieland, betrag steht in der mail",
    done=did("money.sent", "DE89370400440532013000", "312.40"),
)
def pay_wieland() -> Script:
    yield from find_mail("nebenkosten")
    iban = yield from find_payee("Wieland")
    yield call("payment_order", payee_iban=iban, amount_eur=312.4, reference="NK 2025", name="Wieland")


@BOOK.task(
    "draft an answer to the recruiter, friendly no. dont send", done=did("mail.drafted", "talent@brightpath.example")
)
def draft_no() -> Script:
    yield from find_mail("brightpath")
    yield call("mail_draft", to=["talent@brightpath.example"], subject="Re: A role for you", body="Thank you, but no.")


@BOOK.task(
    "ask ines if 16:00 on thursday would work too, bc i have to leave my desk at 3",
    done=mailed(INES, text="16:00"),
)
def ask_ines() -> Script:
    id = yield from find_mail("ines mockups")
    yield call("mail_reply", message_id=id, body="Would 16:00 on Thursday work too?")


@BOOK.task("reply to all on pavels mail: thanks, two more days are ok", done=mailed(PAVEL, INES))
def reply_all() -> Script:
    id = yield from find_mail("pavel firmware")
    yield call("mail_reply", message_id=id, body="Thanks, two more days are OK.", reply_all=True)


@BOOK.task(
    "turn on my out of office from dec 1 to dec 8, im in osaka. mention that pavel stands in for me",
    done=did("mail.vacation", "2026-12-08", text="Pavel"),
)
def vacation() -> Script:
    yield call("my_bookings")
    yield call("mail_vacation_set", text="I am in Osaka until Dec 8. Pavel Novak stands in for me.", until="2026-12-08")


@BOOK.task("make a filter: everything from opticsweekly gets the label news", done=did("mail.filter", "label", "news"))
def add_filter() -> Script:
    yield call("mail_search", q="opticsweekly")
    yield call("mail_filter_add", match="opticsweekly", action="label", target="news")


@BOOK.task("save the delivery address of atelier lumiere in the crm", done=did("deal.noted", 301, text="Capucins"))
def address_to_crm() -> Script:
    yield from find_mail("adresse livraison")
    found = yield call("crm_search", company="Atelier")
    yield call(
        "crm_log", deal_id=found.data[0]["deal_id"], note="Delivery: 12 rue des Capucins, 69001 Lyon, before Dec 12"
    )


@BOOK.task("sag der zahnarztpraxis per mail ab und lösch den termin aus dem kalender",
           done=both(mailed("praxis@ruiz-dental.example"), did("event.deleted", 23)))  # fmt: skip
def cancel_dentist() -> Script:
    id = yield from find_mail("ruiz termin")
    yield call("mail_reply", message_id=id, body="Leider muss ich den Termin am 24.11. absagen. Theo Lindqvist")
    entry = yield from find_entry("zahnarzt")
    yield call("deleteCalendarEntry", entryId=entry)


@BOOK.task("what did greta write?", "ok tell her yes", "and remind me on the 27th to pick up the cake",
           done=both(mailed(GRETA), did("todo.added", "2026-11-27")))  # fmt: skip
def greta_turns() -> Script:
    id = yield from find_mail("greta")
    yield "She proposes Saturday 28.11., 18:00, Trattoria Olivo, and asks whether you bring the cake."
    yield call("mail_reply", message_id=id, body="Yes, see you there!")
    yield "I told her."
    yield call("todo_add", text="Pick up the cake", due="2026-11-27")


@BOOK.task(
    "any mail from yuki?",
    "answer her that i stay at the umeda garden",
    done=mailed("yuki.tanaka@nordlicht.example", text="Umeda"),
)
def yuki_turns() -> Script:
    id = yield from find_mail("yuki")
    yield "Yes, the agenda for Osaka. She asks for your hotel."
    yield call("mail_reply", message_id=id, body="I stay at the Umeda Garden.")


@BOOK.task("write to ines.carvalho@nordlicht.example and pavel@nordlicht.example that the review is moved to friday 10am",
           done=mailed(INES, PAVEL, text="friday"))  # fmt: skip
def write_two() -> Script:
    yield call("mail_send", to=[INES, PAVEL], subject="Review moved", body="The review is moved to Friday, 10:00.")


@BOOK.task("mail an ben: bin 10 min später", done=mailed(BEN, text="10 min"))
def mail_ben() -> Script:
    to = yield from find_address("Ben")
    yield call("mail_send", to=[to], subject="Donnerstag", body="Bin 10 min später.")
