"""Ordinary tasks over mail and contacts."""

from __future__ import annotations

import week
from honest_model import Script, call
from world import ME
from world_rig import TaskBook, address_of, answered, both, did, find_event, find_file, find_mail, mailed, pick

book = TaskBook("mail")


@book.task("reply to Lena's mail that I can come on Thursday", refers="name", done=mailed(week.LENA, text="I can come"))
def reply_lena() -> Script:
    mail = yield from find_mail("lena panel", subject="panel")
    yield call("reply_to_mail", mail_id=mail["id"], body="Hi Lena, I can come on Thursday at 13:00. Mara")
    return None


@book.task("what's new in my inbox?", refers="described", done=answered)
def whats_new() -> Script:
    yield call("list_mails")
    return "Twenty mails, the newest are about the rental car and the internship."


@book.task(
    "tell tomas I don't need to be picked up, i'll take the bus", refers="name", done=mailed(week.TOMAS, text="bus")
)
def decline_pickup() -> Script:
    mail = yield from find_mail("tomas car", subject="rental")
    yield call("reply_to_mail", mail_id=mail["id"], body="Thanks Tomas, no need, I will take the bus. Mara")
    return None


@book.task(
    "Write to piet@brightwater-marine.example that he should hold the vessel for us.",
    refers="exact",
    done=mailed(week.PIET, text="hold"),
)
def hold_vessel() -> Script:
    mail = yield from find_mail("vessel charter", sender="piet")
    yield call("reply_to_mail", mail_id=mail["id"], body="Dear Piet, please hold the vessel. Mara")
    return None


@book.task(
    "forward the print invoice to Nadia in finance", refers="described", done=mailed(week.NADIA, text="2026-118")
)
def forward_invoice() -> Script:
    mail = yield from find_mail("invoice", sender="kestrel")
    found = yield call("search_contacts", name="Nadia")
    finance = pick(found.data, note="finance")
    yield call("forward_mail", mail_id=mail["id"], to=[finance["email"]], note="For payment, please. Mara")
    return None


@book.task("Mama antworten: ja, ich komme zu Mittsommer", refers="described", done=mailed(week.MUM, text="ja"))
def answer_mum() -> Script:
    mail = yield from find_mail("midsummer")
    yield call("reply_to_mail", mail_id=mail["id"], body="Hej Mama, ja, ich komme! Mara")
    return None


@book.task("réponds à Sophie que le 9 juin nous convient", refers="name", done=mailed(week.SOPHIE, text="9 juin"))
def answer_sophie() -> Script:
    mail = yield from find_mail("sophie visite")
    yield call("reply_to_mail", mail_id=mail["id"], body="Bonjour Sophie, le 9 juin nous convient très bien. Mara")
    return None


@book.task(
    "contesta a Carmen que sí, el 11 a las 15h, y ponlo en el calendario",
    refers="name",
    done=both(mailed(week.CARMEN, text="sí"), did("event.created", week.CARMEN, text="2026-06-11 15:00")),
)
def answer_carmen() -> Script:
    mail = yield from find_mail("carmen")
    yield call("reply_to_mail", mail_id=mail["id"], body="Hola Carmen, sí, el 11 de junio a las 15:00. Mara")
    yield call(
        "create_event",
        title="Vídeo con Carmen Ortiz",
        start="2026-06-11 15:00",
        end="2026-06-11 16:00",
        participants=[mail["sender"]],
    )
    return None


@book.task(
    "sag Herrn Brandt ab, der Schlepper ist uns zu teuer", refers="name", done=mailed(week.KLAUS, text="zu teuer")
)
def decline_tug() -> Script:
    mail = yield from find_mail("brandt schlepper")
    yield call(
        "reply_to_mail", mail_id=mail["id"], body="Guten Tag Herr Brandt, leider ist uns das zu teuer. M. Lindqvist"
    )
    return None


@book.task("answer samir: 11 people, Priya can't have nuts", refers="name", done=mailed(week.SAMIR, text="11 people"))
def board_lunch_number() -> Script:
    mail = yield from find_mail("samir", subject="how many")
    yield call("reply_to_mail", mail_id=mail["id"], body="Hi Samir, 11 people; one guest is allergic to nuts. Mara")
    return None


@book.task(
    "check the allergies file and send samir what he needs for the board lunch",
    refers="name",
    done=mailed(week.SAMIR, text="nuts"),
)
def allergies_to_caterer() -> Script:
    file = yield from find_file("allergies")
    assert "nuts" in file["content"]
    to = yield from address_of("Samir")
    yield call("send_mail", to=[to], subject="Board lunch: allergies", body="One guest must not have nuts. Mara")
    return None


@book.task(
    "archive all the newsletters and ads",
    refers="described",
    done=both(
        did("mail.moved", "19", "archive"), did("mail.moved", "56", "archive"), did("mail.moved", "67", "archive")
    ),
)
def archive_newsletters() -> Script:
    found = yield call("list_mails", limit=100)
    wanted = ("Tidewire", "Fjell", "Gridtalk")
    ids = [mail["id"] for mail in found.data if mail["sender_name"].startswith(wanted)]
    yield [call("move_mail", mail_id=id, folder="archive") for id in ids]
    return None


@book.task("delete the spring sale mail", refers="described", done=lambda world: "56" not in world.mails)
def delete_ad() -> Script:
    mail = yield from find_mail("spring sale")
    yield call("delete_mail", mail_id=mail["id"])
    return None


@book.task(
    "label everything from Brightwater with 'charter'",
    refers="name",
    done=lambda world: all("charter" in world.mails[id].labels for id in ("4", "26", "55")),
)
def label_brightwater() -> Script:
    found = yield call("search_mails", query="brightwater-marine.example")
    yield [call("label_mail", mail_id=mail["id"], label="charter") for mail in found.data]
    return None


@book.task(
    "Send the crew list to Ines, it's in the gate pass file",
    refers="name",
    done=mailed(week.INES, text="Jonas Weidmann"),
)
def crew_list() -> Script:
    file = yield from find_file("gate pass crew", name="crew")
    mail = yield from find_mail("ines", subject="crew list")
    yield call("reply_to_mail", mail_id=mail["id"], body=f"Hi Ines, here are the names: {file['content']}")
    return None


@book.task(
    "send the retro minutes to everyone who was in the meeting",
    refers="described",
    done=mailed(week.PRIYA, week.JONAS, week.TOMAS, week.MARTA, text="spares"),
)
def minutes_to_participants() -> Script:
    event = yield from find_event("retro")
    file = yield from find_file("minutes retro")
    yield call(
        "send_mail",
        to=event["participants"],
        subject="Minutes of the retro",
        body=file["content"],
        attachments=[file["id"]],
    )
    return None


@book.task(
    "Schick die Abrechnung April als Anhang an nadia.okafor@holloway-tidal.example",
    refers="exact",
    done=mailed(week.NADIA, text="total 212.30"),
)
def expenses_attachment() -> Script:
    file = yield from find_file("expenses april", name="Expenses April")
    yield call("send_mail", to=[week.NADIA], subject="Abrechnung April", body="Anbei. Mara", attachments=[file["id"]])
    return None


@book.task(
    "priya asked me two things by mail, find out the answers and reply",
    refers="name",
    done=mailed(week.PRIYA, text="212.30"),
)
def two_things() -> Script:
    mail = yield from find_mail("priya two things")
    issues = yield call("list_issues", repo="telemetry")
    file = yield from find_file("expenses april", name="Expenses April")
    total = file["content"].split()[-1]
    body = f"{len(issues.data)} telemetry issues are open; the expenses of April were {total} GBP. Mara"
    yield call("reply_to_mail", mail_id=mail["id"], body=body)
    return None


@book.task(
    "reply all to jonas' agenda mail: please add the radio check",
    refers="name",
    done=mailed(week.JONAS, week.MARTA, week.TOMAS, text="radio"),
)
def agenda_reply_all() -> Script:
    mail = yield from find_mail("agenda blade")
    yield call("reply_to_mail", mail_id=mail["id"], body="Please add the radio check. Mara", reply_all=True)
    return None


@book.task(
    "Marta's first aid course: 4 June suits me, tell her and block it in my calendar",
    refers="name",
    done=both(mailed(week.MARTA, text="4 June"), did("event.created", text="2026-06-04 09:00")),
)
def first_aid() -> Script:
    mail = yield from find_mail("first aid")
    yield call("reply_to_mail", mail_id=mail["id"], body="Hi Marta, 4 June suits me. Mara")
    yield call("create_event", title="First aid course", start="2026-06-04 09:00", end="2026-06-04 13:00")
    return None


@book.task(
    "the two who applied for the internship, send both a polite 'we'll get back to you by end of May'",
    refers="described",
    done=both(
        mailed("emil.torvald@homepost.example", text="end of May"),
        mailed("zoe.kaplan@homepost.example", text="end of May"),
    ),
)
def applicants() -> Script:
    found = yield call("search_mails", query="internship")
    yield [
        call("reply_to_mail", mail_id=mail["id"], body="Thank you for your interest. You hear from us by end of May.")
        for mail in found.data
    ]
    return None


@book.task(
    "draft an answer to the journalist, but don't send it", refers="described", done=did("draft.created", week.HANNAH)
)
def draft_for_journalist() -> Script:
    mail = yield from find_mail("hannah osei turbines")
    yield call(
        "create_draft",
        to=[mail["sender"]],
        subject="Re: Pentland array",
        body="Dear Hannah, the figures will be public on 26 May. Kind regards, Mara",
    )
    return None


@book.task(
    "draft a mail to Rolf: Tomas signs for the cable",
    "looks good, send it",
    refers="name",
    done=mailed(week.ROLF, text="Tomas"),
)
def draft_then_send() -> Script:
    mail = yield from find_mail("rolf cable delivery")
    made = yield call(
        "create_draft", to=[mail["sender"]], subject="Re: Cable delivery", body="Hi Rolf, Tomas Hegarty signs. Mara"
    )
    yield "The draft says that Tomas signs. Shall I send it?"
    yield call("send_draft", draft_id=made.data["draft"])
    return None


@book.task(
    "add the guy from werft nord to my contacts",
    refers="described",
    done=did("contact.added", "Klaus Brandt", week.KLAUS),
)
def add_contact() -> Script:
    mail = yield from find_mail("werft-nord")
    yield call("add_contact", name=mail["sender_name"], email=mail["sender"])
    return None


@book.task(
    "Owen's phone number changed to +44 131 555 0199, update it",
    refers="name",
    done=lambda world: world.contacts["c-6"].phone == "+44 131 555 0199",
)
def update_phone() -> Script:
    found = yield call("search_contacts", name="Owen")
    yield call("update_contact", contact_id=found.data[0]["id"], phone="+44 131 555 0199")
    return None


@book.task(
    "out of office from 18 to 20 May: on Orkney, urgent things to Priya",
    refers="name",
    done=did("auto_reply.set", text="Priya"),
)
def out_of_office() -> Script:
    to = yield from address_of("Priya")
    yield call("set_auto_reply", text=f"I am on Orkney until 20 May. Urgent: Priya Raman, {to}.", until="2026-05-20")
    return None


@book.task(
    "make a rule that mail from tidewire goes to the archive", refers="name", done=did("mail_rule.created", "archive")
)
def rule_for_newsletter() -> Script:
    found = yield call("search_mails", query="tidewire")
    yield call("create_mail_rule", match=found.data[0]["sender"], action="move", target="archive")
    return None


@book.task(
    "which of my mails did I not answer yet? mark them unread", refers="described", done=did("mail.marked", "59")
)
def mark_unread() -> Script:
    found = yield call("list_mails", limit=100)
    sent = yield call("list_mails", folder="sent")
    assert not sent.data
    open_ids = [mail["id"] for mail in found.data if mail["subject"].startswith(("Panel", "Review", "First aid"))]
    yield [call("mark_mail_read", mail_id=id, read=False) for id in open_ids]
    return None


@book.task("ask the practice for Friday 9:15 instead", refers="described", done=mailed(week.MARSH, text="Friday"))
def practice_friday() -> Script:
    mail = yield from find_mail("marsh appointment", subject="appointment")
    yield call("reply_to_mail", mail_id=mail["id"], body="Friday 09:15 is fine, thank you. Mara Lindqvist")
    return None


@book.task("Fiona wegen Heizung: Freitag passt", refers="name", done=mailed(week.FIONA, text="Freitag"))
def boiler() -> Script:
    mail = yield from find_mail("fiona boiler")
    yield call("reply_to_mail", mail_id=mail["id"], body="Hi Fiona, Freitag/Friday is fine. Mara")
    return None


@book.task(
    "tell the choir lady I'll be late on thursday because of the new time",
    refers="described",
    done=mailed(week.CHOIR, text="late"),
)
def choir_late() -> Script:
    mail = yield from find_mail("rehearsal moves")
    yield call("reply_to_mail", mail_id=mail["id"], body="Dear Nadia, I will be a bit late on Thursday. Mara")
    return None


@book.task(
    "send bea and anton the date of our midsummer party, 20 june 6pm at mum's",
    refers="name",
    done=mailed(week.BEA, week.ANTON, text="20 June"),
)
def party() -> Script:
    first = yield from address_of("Bea")
    second = yield from address_of("Anton")
    yield call("send_mail", to=[first, second], subject="Midsummer", body="20 June, 18:00 at mum's. Mara")
    return None


@book.task(
    "mail priya.raman@holloway-tidal.example and cc lena.fischbach@holloway-tidal.example: I take 18 and 19 June off",
    refers="exact",
    done=mailed(week.PRIYA, week.LENA, text="19 June"),
)
def days_off() -> Script:
    yield call("list_events", start="2026-06-18", end="2026-06-19")
    yield call("send_mail", to=[week.PRIYA], cc=[week.LENA], subject="Days off", body="I take 18 and 19 June off. Mara")
    return None


@book.task(
    "summarise the mails about the Orkney trip and send the summary to me",
    refers="described",
    done=mailed(ME, text="slack water"),
)
def summary_to_myself() -> Script:
    yield call("search_mails", query="orkney")
    yield call("search_mails", query="kirkwall")
    yield call(
        "send_mail", to=[ME], subject="Orkney", body="18 May flight 07:35; 19 May slack water 10:20; cable on the 20th."
    )
    return None


@book.task(
    "tell lukas to ask owen about the second screen, put owen in cc",
    refers="name",
    done=mailed(week.LUKAS, week.OWEN, text="screen"),
)
def second_screen() -> Script:
    mail = yield from find_mail("lukas screen")
    owen = yield from address_of("Owen")
    yield call(
        "send_mail",
        to=[mail["sender"]],
        cc=[owen],
        subject="Re: Laptop",
        body="Owen can give you a second screen. Mara",
    )
    return None


@book.task(
    "reply to #41 that the invoice gets paid this week", refers="exact", done=mailed(week.PLUMBER, text="this week")
)
def reply_by_number() -> Script:
    yield call("read_mail", mail_id="41")
    yield call("reply_to_mail", mail_id="41", body="Thank you, we pay this week. M. Lindqvist")
    return None


@book.task(
    "dis à events@marine-energy-days.example que je viens au dîner, végétarien svp",
    refers="exact",
    done=mailed(week.DAYS, text="vegetarian"),
)
def speaker_dinner() -> Script:
    mail = yield from find_mail("speaker dinner")
    yield call(
        "reply_to_mail", mail_id=mail["id"], body="I will come to the dinner; vegetarian, please. Mara Lindqvist"
    )
    return None


@book.task(
    "forward Viktor's review mail to jonas.weidmann@holloway-tidal.example, he should do it",
    refers="exact",
    done=mailed(week.JONAS, text="pull request 19"),
)
def forward_review() -> Script:
    mail = yield from find_mail("viktor review", subject="review")
    yield call("forward_mail", mail_id=mail["id"], to=[week.JONAS], note="Could you do this one? Mara")
    return None


@book.task("ok the brochure proof, look at it first", refers="described", done=mailed(week.KESTREL, text="approve"))
def approve_proof() -> Script:
    mail = yield from find_mail("proof brochure", sender="kestrel")
    url = next(word for word in mail["body"].split() if word.startswith("https://"))
    yield call("open_page", url=url)
    yield call("reply_to_mail", mail_id=mail["id"], body="We approve proof 2. Mara Lindqvist")
    return None


@book.task("Remove Rolf from my contacts", refers="name", done=lambda world: "c-13" not in world.contacts)
def remove_contact() -> Script:
    found = yield call("search_contacts", name="Rolf")
    yield call("delete_contact", contact_id=found.data[0]["id"])
    return None


@book.task("move the mail 'Tax return 2025' to the archive", refers="exact", done=did("mail.moved", "17", "archive"))
def archive_tax() -> Script:
    mail = yield from find_mail("tax return 2025", subject="Tax return 2025")
    yield call("move_mail", mail_id=mail["id"], folder="archive")
    return None


@book.task(
    "what does grace want from me? write her something nice and short",
    refers="name",
    done=mailed(week.GRACE, text="sea"),
)
def newsletter_quote() -> Script:
    found = yield call("search_mails", query="grace")
    mail = pick(found.data, subject="quote")
    yield call("reply_to_mail", mail_id=mail["id"], body="'The sea was calm and the team was not bored.' Mara")
    return None
