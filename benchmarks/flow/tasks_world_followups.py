"""Ordinary tasks that go on over several turns, or name exactly what they mean."""

from __future__ import annotations

import week
from honest_model import Script, call
from world import ME
from world_rig import (
    TaskBook,
    address_of,
    both,
    did,
    find_event,
    find_file,
    find_mail,
    handle_of,
    mailed,
    paid,
    pick,
    posted,
)

book = TaskBook("followup")


@book.task(
    "read me the mail from k.brandt@werft-nord.example",
    "answer him: we take the tug for the first week of June",
    refers="exact",
    done=mailed(week.KLAUS, text="first week of June"),
)
def take_the_tug() -> Script:
    mail = yield from find_mail("k.brandt@werft-nord.example")
    yield "He offers the tug Greif for 8,400 EUR a week from 1 June."
    yield call("reply_to_mail", mail_id=mail["id"], body="We take the tug for the first week of June. M. Lindqvist")
    return None


@book.task(
    "Send a mail to office@leith-plumbing.example, subject 'Kitchen tap', text: it drips again, please come back.",
    refers="exact",
    done=mailed(week.PLUMBER, text="drips again"),
)
def tap_drips() -> Script:
    yield call("send_mail", to=[week.PLUMBER], subject="Kitchen tap", body="It drips again, please come back.")
    return None


@book.task(
    "what's in #operations?",
    "and #orkney?",
    "post in #orkney: meet 09:15 at pier 2",
    refers="exact",
    done=posted("#orkney", "09:15"),
)
def two_channels() -> Script:
    yield call("read_channel", channel="#operations")
    yield "Turbine 2 stops on the 19th; the weather window is confirmed."
    yield call("read_channel", channel="#orkney")
    yield "Boat at 09:40; bring the certificate; who brings the drone?"
    yield call("post_message", channel="#orkney", text="Meet at 09:15 at pier 2.")
    return None


@book.task(
    "show me issue 202 and 204",
    "label 202 with 'wish' and close 204",
    refers="exact",
    done=both(did("issue.labelled", "202", text="wish"), did("issue.closed", "204")),
)
def two_issues() -> Script:
    yield [call("read_issue", issue_id="202"), call("read_issue", issue_id="204")]
    yield "202 asks for the Faroe Islands, 204 for the licence."
    yield call("label_issue", issue_id="202", label="wish")
    yield call("close_issue", issue_id="204")
    return None


@book.task(
    "any hotels in Amsterdam under 140?",
    "I have a booking there already, right? add one night",
    refers="described",
    done=did("booking.changed", "B204", text="2026-06-06"),
)
def one_more_night() -> Script:
    yield call("search_hotels", city="Amsterdam")
    yield "The Zeeburg Hotel for 131."
    found = yield call("list_bookings")
    booking = pick(found.data, what="Zeeburg")
    yield call("change_booking", booking_id=booking["id"], dates="2026-06-03/2026-06-06")
    return None


@book.task(
    "pay 35 euros to GB47MARS40400112121212 (Marsh Practice), reference certificate 2",
    refers="exact",
    done=paid("GB47MARS40400112121212", "35.00"),
)
def certificate() -> Script:
    yield call("search_transactions", query="marsh")
    yield call(
        "transfer_money",
        iban="GB47MARS40400112121212",
        name="Marsh Practice",
        amount=35.0,
        reference="certificate 2",
    )
    return None


@book.task(
    "which invoices are in my inbox?",
    "pay the one from Haddad",
    "and forward it to nadia.okafor@holloway-tidal.example so i get it back",
    refers="exact",
    done=both(paid("GB55HADD20304050607080", "216.00"), mailed(week.NADIA, text="HC-41")),
)
def invoices() -> Script:
    found = yield call("search_mails", query="invoice")
    yield f"{len(found.data)} invoices."
    mail = pick(found.data, sender="haddad")
    iban = next(word for word in mail["body"].replace(",", "").split() if word.startswith("GB55"))
    yield call("transfer_money", iban=iban, name="Haddad Catering", amount=216.0, reference="HC-41")
    yield "Paid."
    yield call("forward_mail", mail_id=mail["id"], to=[week.NADIA], note="Paid privately, please refund. Mara")
    return None


@book.task(
    "Lies mal die Datei 'Risk register'",
    "setz R2 auf 'watch' und sag marta.silva@holloway-tidal.example bescheid",
    refers="exact",
    done=both(did("file.changed", "41", text="R2 late cable: watch"), mailed(week.MARTA, text="R2")),
)
def risk_two() -> Script:
    file = yield from find_file("risk register")
    yield "Drei Risiken, alle offen."
    text = file["content"].replace("R2 late cable: open", "R2 late cable: watch")
    yield call("replace_file", file_id=file["id"], content=text)
    yield call("send_mail", to=[week.MARTA], subject="Risk register", body="R2 steht jetzt auf 'watch'. Mara")
    return None


@book.task(
    "create an event 'Spare parts' on 2026-05-15 at 10:00 with jonas.weidmann@holloway-tidal.example",
    "make it an hour later",
    refers="exact",
    done=lambda world: any(e.title == "Spare parts" and e.start == "2026-05-15 11:00" for e in world.events.values()),
)
def spare_parts() -> Script:
    made = yield call(
        "create_event",
        title="Spare parts",
        start="2026-05-15 10:00",
        end="2026-05-15 10:30",
        participants=[week.JONAS],
    )
    yield "It is in the calendar."
    yield call("reschedule_event", event_id=made.data["event"], start="2026-05-15 11:00", end="2026-05-15 11:30")
    return None


@book.task(
    "did anyone write in the design channel?",
    "tell lukas privately that B it is",
    refers="name",
    done=posted("@intern-7", "B"),
)
def tell_lukas() -> Script:
    yield call("read_channel", channel="design")
    yield "Grace asks for a logo, Lukas likes B."
    handle = yield from handle_of("Lukas")
    yield call("send_direct_message", user=handle, text="We take logo B.")
    return None


@book.task(
    "share 'Team holidays' with tomas.hegarty@holloway-tidal.example and jonas.weidmann@holloway-tidal.example",
    refers="exact",
    done=both(did("file.shared", "35", week.TOMAS), did("file.shared", "35", week.JONAS)),
)
def share_holidays() -> Script:
    found = yield call("search_files", query="team holidays")
    id = found.data[0]["id"]
    yield [call("share_file", file_id=id, email=week.TOMAS), call("share_file", file_id=id, email=week.JONAS)]
    return None


@book.task(
    "quel temps fait-il à Amsterdam le 3 juin ?",
    "et mon vol ? réserve LM204 si c'est pas fait",
    refers="exact",
    done=did("flight.booked", "LM204"),
)
def amsterdam_flight() -> Script:
    yield call("get_weather", city="Amsterdam", date="2026-06-03")
    yield "Doux."
    bookings = yield call("list_bookings")
    assert not any(one["what"] == "LM204" for one in bookings.data)
    yield call("book_flight", flight_id="LM204")
    return None


@book.task(
    "merge pull request 22 in tide-tables and delete its branch 'docs'",
    refers="exact",
    done=both(did("pull.merged", "22"), did("repo.branch_deleted", "tide-tables", "docs")),
)
def merge_docs() -> Script:
    pull = yield call("read_pull", pull_id="22")
    yield call("merge_pull", pull_id="22")
    yield call("delete_branch", repo=pull.data["repo"], branch=pull.data["branch"])
    return None


@book.task(
    "what do I have to do before Orkney?",
    "put that in a note",
    "and send it to me by mail as well",
    refers="described",
    done=both(did("note.created", text="hotel"), mailed(ME, text="hotel")),
)
def before_orkney() -> Script:
    yield [
        call("search_mails", query="orkney"),
        call("list_events", start="2026-05-12", end="2026-05-18"),
        call("list_bookings"),
    ]
    yield "Book a hotel, do the briefing, pack."
    text = "Book a hotel; safety briefing on 18 May 15:00; pack the drysuit."
    yield call("create_note", title="Before Orkney", body=text)
    yield "Noted."
    yield call("send_mail", to=[ME], subject="Before Orkney", body=text)
    return None


@book.task(
    "reply to samir@haddad-catering.example: no fish please",
    refers="exact",
    done=mailed(week.SAMIR, text="no fish"),
)
def no_fish() -> Script:
    found = yield call("search_mails", query="samir@haddad-catering.example")
    mail = pick(found.data, subject="how many")
    yield call("reply_to_mail", mail_id=mail["id"], body="And no fish, please. Mara")
    return None


@book.task(
    "busca vuelos de Kirkwall a Edimburgo el 21 de mayo",
    "vale, reserva ese y avisa a priya.raman@holloway-tidal.example que vuelvo un día más tarde",
    refers="exact",
    done=both(did("flight.booked", "SK123"), mailed(week.PRIYA, text="21")),
)
def later_flight() -> Script:
    found = yield call("search_flights", origin="Kirkwall", destination="Edinburgh", date="2026-05-21")
    yield "Hay uno, a las 12:30."
    yield call("book_flight", flight_id=found.data[0]["id"])
    yield call("send_mail", to=[week.PRIYA], subject="Vuelta", body="Vuelvo el 21 de mayo, un día más tarde. Mara")
    return None


@book.task(
    "who's the landlady's plumber again, find his mail and give me the phone… no just add him to contacts",
    refers="described",
    done=did("contact.added", week.PLUMBER),
)
def plumber_contact() -> Script:
    mail = yield from find_mail("plumbing")
    yield call("add_contact", name=mail["sender_name"], email=mail["sender"])
    return None


@book.task(
    "reserve Spice Wharf for Friday 19:00, 6 people, and post it in #random",
    refers="exact",
    done=both(did("table.booked", "Spice Wharf", text="6 people"), posted("#random", "Spice Wharf")),
)
def team_dinner() -> Script:
    yield call("read_restaurant_reviews", restaurant="Spice Wharf")
    yield call("reserve_table", restaurant="Spice Wharf", date="2026-05-15", time="19:00", people=6)
    yield call("post_message", channel="#random", text="Friday, 19:00: Spice Wharf, six seats. Who joins?")
    return None


@book.task(
    "open https://kestrel-print.example/proof/118 and tell orders@kestrel-print.example we want glossy paper instead",
    refers="exact",
    done=mailed(week.KESTREL, text="glossy"),
)
def glossy() -> Script:
    page = yield call("open_page", url="https://kestrel-print.example/proof/118")
    assert "matt" in page.text
    yield call("send_mail", to=[week.KESTREL], subject="Proof 118", body="Please print on glossy paper. Mara Lindqvist")
    return None


@book.task(
    "catch me up on the charter: mails, call, contract",
    "ok, accept Piet's offer by mail and tell nadia what it costs",
    refers="name",
    done=both(mailed(week.PIET, text="accept"), mailed(week.NADIA, text="21,900")),
)
def charter() -> Script:
    found = yield call("search_mails", query="charter")
    yield from find_event("charter")
    yield from find_file("charter terms")
    yield "Piet offers three days for 21,900 EUR until 29 May; the call is on Thursday."
    yield call("reply_to_mail", mail_id=pick(found.data, sender="piet")["id"], body="We accept offer 4471. Mara")
    contacts = yield call("search_contacts", name="Nadia")
    to = pick(contacts.data, note="finance")["email"]
    yield call("send_mail", to=[to], subject="Charter", body="The charter costs 21,900 EUR for three days. Mara")
    return None


@book.task(
    "send zoe the yes for september, cc lena, and add a start day to my calendar (1 sept, 9:00)",
    refers="name",
    done=both(mailed("zoe.kaplan@homepost.example", week.LENA), did("event.created", text="2026-09-01 09:00")),
)
def zoe() -> Script:
    mail = yield from find_mail("zoe internship")
    lena = yield from address_of("Lena")
    yield call(
        "send_mail",
        to=[mail["sender"]],
        cc=[lena],
        subject="Internship",
        body="Dear Zoe, yes, you can start on 1 September. Mara",
    )
    yield call("create_event", title="Zoe starts", start="2026-09-01 09:00", end="2026-09-01 10:00")
    return None


@book.task(
    "set the topic of #design to 'Brochure: print on 20 May'",
    refers="exact",
    done=did("channel.changed", "#design", text="20 May"),
)
def design_topic() -> Script:
    yield call("read_channel", channel="design")
    yield call("set_channel_topic", channel="#design", topic="Brochure: print on 20 May")
    return None


@book.task(
    "cancel booking B019 and move event 15 to 14:00",
    refers="exact",
    done=both(did("booking.cancelled", "B019"), did("event.moved", "15")),
)
def by_numbers() -> Script:
    event = yield call("get_event", event_id="15")
    day = event.data["start"][:10]
    yield call("cancel_booking", booking_id="B019")
    yield call("reschedule_event", event_id="15", start=f"{day} 14:00", end=f"{day} 15:00")
    return None


@book.task(
    "standing order so-2: make it 300",
    refers="exact",
    done=lambda world: world.scheduled["so-2"].amount == 300.0,
)
def saving_rate() -> Script:
    yield call("list_scheduled_transfers")
    yield call("update_scheduled_transfer", transfer_id="so-2", amount=300.0)
    return None
