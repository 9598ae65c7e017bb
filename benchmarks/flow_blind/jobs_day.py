"""Tasks that begin with the calendar or the team chat."""

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
    find_user,
    listed,
    mailed,
    noted,
    pick,
)

CALENDAR = TaskBook("calendar")
TEAM = TaskBook("team")
INES = "ines.carvalho@nordlicht.example"
PAVEL = "pavel@nordlicht.example"
NADIA = "nadia.petrova@nordlicht.example"


def day(date: str, until: str = "") -> object:
    return call("listCalendarEntries", fromDate=date, toDate=until or date)


@CALENDAR.task("what do i have today", done=answered)
def today() -> Script:
    yield day("2026-11-18")


@CALENDAR.task("wie sieht meine nächste woche aus?", done=answered)
def next_week() -> Script:
    yield day("2026-11-23", "2026-11-29")


@CALENDAR.task("am I free on friday afternoon, and is pavel?", done=answered)
def friday_free() -> Script:
    yield day("2026-11-20")
    yield call("freeBusy", person=PAVEL, day="2026-11-20")


@CALENDAR.task("when is the board meeting and what should i prepare? look in my mails too", done=answered)
def board() -> Script:
    yield from find_entry("board")
    found = yield call("mail_search", q="board")
    yield call("mail_open", message_id=found.data[0]["message_id"])


@CALENDAR.task("which invitations did I not answer yet?", done=answered)
def unanswered() -> Script:
    yield day("2026-11-18", "2026-12-31")


@CALENDAR.task("tengo algo el jueves por la tarde?", done=answered)
def thursday_es() -> Script:
    yield day("2026-11-19")


@CALENDAR.task("do my appointments on the 26th collide with what jorge wrote", done=answered)
def collide() -> Script:
    found = yield call("mail_search", q="jorge")
    yield call("mail_open", message_id=found.data[0]["message_id"])
    yield day("2026-11-26")


@CALENDAR.task("will it rain on my way to yoga tomorrow", done=answered)
def yoga_rain() -> Script:
    yield from find_entry("yoga")
    yield call("weather", city="Munich", day="2026-11-19")


@CALENDAR.task("write my appointments of next week into the notebook 'plan'", done=noted("plan", "1:1"))
def plan_note() -> Script:
    yield day("2026-11-23", "2026-11-29")
    yield call(
        "notebook_add", notebook="plan", text="Mon 11:00 1:1 with Clara; Tue 8:30 Zahnarzt; Fri 9:00 board meeting"
    )


@CALENDAR.task("accept the mockup review", done=did("event.answered", 17, "accepted"))
def accept_review() -> Script:
    entry = yield from find_entry("mockup review")
    yield call("respondToInvitation", entryId=entry, response="accepted")


@CALENDAR.task("decline that procurement webinar", done=did("event.answered", 31, "declined"))
def decline_webinar() -> Script:
    entry = yield from find_entry("procurement")
    yield call("respondToInvitation", entryId=entry, response="declined")


@CALENDAR.task(
    "verschieb den zahnarzt auf mittwoch, gleiche uhrzeit", done=did("event.updated", 23, text="2026-11-25T08:30")
)
def move_dentist() -> Script:
    entry = yield from find_entry("zahnarzt")
    yield call("updateCalendarEntry", entryId=entry, start="2026-11-25T08:30", end="2026-11-25T09:15")


@CALENDAR.task("move my lunch with nadia to 1pm", done=did("event.updated", 14, text="13:00"))
def move_lunch() -> Script:
    entry = yield from find_entry("lunch nadia")
    yield call("updateCalendarEntry", entryId=entry, start="2026-11-18T13:00", end="2026-11-18T13:45")


@CALENDAR.task("cancel yoga tomorrow", done=did("event.deleted", 33))
def cancel_yoga() -> Script:
    found = yield day("2026-11-19")
    yield call("deleteCalendarEntry", entryId=pick(found.data, title="yoga")["entryId"])


@CALENDAR.task("block friday 8 to 9:30 for the board slides", done=did("event.created", "2026-11-20T08:00"))
def block_slides() -> Script:
    yield day("2026-11-20")
    yield call("createCalendarEntry", title="Board slides", start="2026-11-20T08:00", end="2026-11-20T09:30")


@CALENDAR.task(
    "set up 30 min with pavel on monday morning about the OTA bug, when hes free",
    done=did("event.created", PAVEL),
)
def meet_pavel() -> Script:
    to = yield from find_address("Pavel")
    yield call("freeBusy", person=to, day="2026-11-23")
    yield day("2026-11-23")
    yield call("createCalendarEntry", title="OTA bug", start="2026-11-23T09:30", end="2026-11-23T10:00", guests=[to])


@CALENDAR.task("invite nadia to the design critique", done=did("event.invited", 35, NADIA))
def invite_nadia() -> Script:
    entry = yield from find_entry("design critique")
    to = yield from find_address("Nadia")
    yield call("inviteToCalendarEntry", entryId=entry, guests=[to])


@CALENDAR.task(
    "ajoute Trattoria Olivo comme lieu pour l'anniversaire de maman", done=did("event.updated", 28, text="Olivo")
)
def birthday_place() -> Script:
    entry = yield from find_entry("geburtstag mama")
    yield call("updateCalendarEntry", entryId=entry, location="Trattoria Olivo")


@CALENDAR.task("put bens climbing thing in my calendar", done=did("event.created", "2026-11-19T19:30"))
def climbing() -> Script:
    found = yield call("mail_search", q="ben climbing")
    yield call("mail_open", message_id=found.data[0]["message_id"])
    yield call("createCalendarEntry", title="Climbing with Ben", start="2026-11-19T19:30", end="2026-11-19T21:30")


@CALENDAR.task("share my calendar with clara, read only", done=did("calendar.shared", "clara.weiss@nordlicht.example"))
def share_clara() -> Script:
    to = yield from find_address("Clara")
    yield call("shareCalendar", withWhom=to, access="read")


@CALENDAR.task(
    "tell the guests of the weekly sync that i'm 10 minutes late", done=mailed(PAVEL, INES, text="10 minutes")
)
def late_sync() -> Script:
    found = yield call("findCalendarEntry", text="weekly sync")
    yield call("mail_send", to=found.data[0]["guests"], subject="Weekly sync", body="I am 10 minutes late, sorry.")


@CALENDAR.task("what's on thursday?", "cancel the yoga then", "and accept the review",
               done=both(did("event.deleted", 33), did("event.answered", 17)))  # fmt: skip
def thursday_turns() -> Script:
    found = yield day("2026-11-19")
    yield "Mockup review at 15:00 and yoga at 18:30."
    yield call("deleteCalendarEntry", entryId=pick(found.data, title="yoga")["entryId"])
    yield "Cancelled."
    yield call("respondToInvitation", entryId=pick(found.data, title="mockup")["entryId"], response="accepted")


@CALENDAR.task(
    "rename '1:1 with Clara' to 'Clara: budget' and make it an hour", done=did("event.updated", 30, text="budget")
)
def rename_entry() -> Script:
    entry = yield from find_entry("1:1 clara")
    yield call("updateCalendarEntry", entryId=entry, title="Clara: budget", end="2026-11-23T12:00")


@CALENDAR.task("delete event 28 and 33", done=both(did("event.deleted", 28), did("event.deleted", 33)))
def delete_ids() -> Script:
    yield [call("deleteCalendarEntry", entryId=28), call("deleteCalendarEntry", entryId=33)]


# --- team chat -------------------------------------------------------------------------------------


@TEAM.task("anything important in #general?", done=answered)
def general() -> Script:
    yield call("team-history", channel="general")


@TEAM.task("catch me up on firmware and design", done=answered)
def catch_up() -> Script:
    yield [call("team-history", channel="firmware"), call("team-history", channel="design")]


@TEAM.task("who asked me for something in chat today", done=answered)
def asked_me() -> Script:
    yield call("team-channels")
    yield call("team-search", words="theo")
    yield call("team-history", channel="@ines")


@TEAM.task("wann ist jetzt das all hands?", done=answered)
def all_hands() -> Script:
    yield call("team-search", words="all hands")


@TEAM.task("what's nadias job here", done=answered)
def nadias_job() -> Script:
    yield call("team-whois", name="nadia")


@TEAM.task(
    "collect the votes for the mockups from the design channel in my notebook 'design'", done=noted("design", "B")
)
def votes() -> Script:
    yield call("team-history", channel="design")
    yield call("notebook_add", notebook="design", text="Votes so far: Pavel B")


@TEAM.task("todo for me: whatever pavel wants ordered", done=listed("power suppl"))
def todo_order() -> Script:
    yield call("team-history", channel="firmware")
    yield call("todo_add", text="Order two power supplies for Pavel")


@TEAM.task("vote B in the design channel", done=did("chat.posted", "design", text="B"))
def vote_b() -> Script:
    yield call("team-history", channel="design")
    yield call("team-post", channel="design", text="B for me too.")


@TEAM.task("post in #firmware that the power supplies are ordered", done=did("chat.posted", "firmware", text="ordered"))
def post_ordered() -> Script:
    yield call("team-post", channel="firmware", text="The power supplies are ordered.")


@TEAM.task("sag tomas in lunch dass ich um 12:15 dabei bin", done=did("chat.posted", "lunch"))
def lunch() -> Script:
    yield call("team-history", channel="lunch")
    yield call("team-post", channel="lunch", text="12:15 passt, bin dabei.")


@TEAM.task("dm ines that the render is in the drive under design", done=did("chat.dm", "ines"))
def dm_ines() -> Script:
    yield call("team-history", channel="@ines")
    yield call("drive_find", folder="Design")
    user = yield from find_user("Ines")
    yield call("team-dm", user=user, text="The render is in the drive, folder Design.")


@TEAM.task("summarize the firmware test mail from pavel in #firmware", done=did("chat.posted", "firmware", text="47"))
def mail_to_channel() -> Script:
    found = yield call("mail_search", q="pavel firmware")
    yield call("mail_open", message_id=found.data[0]["message_id"])
    yield call("team-post", channel="firmware", text="4.2: 47 of 50 pass; open: dimming curve, cold start, OTA resume.")


@TEAM.task("add tomas to the design channel", done=did("chat.invited", "design", "tomas"))
def add_tomas() -> Script:
    user = yield from find_user("Tomas")
    yield call("team-invite", channel="design", user=user)


@TEAM.task("thumbs up on toms garage message", done=did("chat.reacted", "general", "t21"))
def thumbs_up() -> Script:
    found = yield call("team-history", channel="general")
    yield call("team-react", channel="general", ts=pick(found.data, text="garage")["ts"], emoji="thumbsup")


@TEAM.task("new channel offsite-2027 with ines, pavel and clara, post the two options from claras doc there",
           done=both(did("chat.created", "offsite-2027", "ines", "pavel", "clara"), did("chat.posted", "offsite-2027")))  # fmt: skip
def offsite_channel() -> Script:
    file = yield from find_file("offsite")
    yield call("drive_get", file=file)
    yield call("team-create_channel", name="offsite-2027", members=["ines", "pavel", "clara"])
    yield call("team-post", channel="offsite-2027", text="Tegernsee: hut for 20. Chiemsee: sailing, 30 beds.")


@TEAM.task("remind me tomorrow at 9 about nadias expense deadline", done=did("chat.reminder", "me"))
def remind_me() -> Script:
    yield call("team-search", words="expense deadline")
    yield call("team-remind", user="me", text="Expense deadline is Monday", when="2026-11-19T09:00")


@TEAM.task("set the topic of firmware to '4.2 rc2, freeze on friday'", done=did("chat.topic", "firmware"))
def set_topic() -> Script:
    yield call("team-set_topic", channel="firmware", topic="4.2 rc2, freeze on friday")


@TEAM.task("whats pavel asking for in firmware?", "order two of the 24V ones", "and tell him in the channel",
           done=both(did("shop.ordered", "PS-24V", 2), did("chat.posted", "firmware")))  # fmt: skip
def order_turns() -> Script:
    yield call("team-history", channel="firmware")
    yield "He asks for two more power supplies."
    found = yield call("shopSearch", query="power supply")
    yield call("shopOrder", sku=found.data[0]["sku"], quantity=2)
    yield "Ordered."
    yield call("team-post", channel="firmware", text="Two power supplies are ordered.")


@TEAM.task("répond à Tomas dans #firmware que la photo du scope est la bienvenue", done=did("chat.posted", "firmware"))
def reply_tomas() -> Script:
    found = yield call("team-history", channel="firmware")
    ts = pick(found.data, user="tomas")["ts"]
    yield call("team-post", channel="firmware", text="Merci Tomas, la photo est la bienvenue.", thread=ts)


@TEAM.task(
    "tell everyone in general that i'm in osaka from dec 1 to 8", done=did("chat.posted", "general", text="Osaka")
)
def tell_general() -> Script:
    yield call("my_bookings")
    yield call("team-post", channel="general", text="I am in Osaka from Dec 1 to 8.")
