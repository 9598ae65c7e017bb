"""Ordinary tasks over the team chat."""

from __future__ import annotations

import week
from honest_model import Script, call
from world_rig import (
    TaskBook,
    answered,
    both,
    did,
    find_event,
    find_file,
    find_mail,
    handle_of,
    mailed,
    pick,
    posted,
)

book = TaskBook("chat")


@book.task("post the retro summary in #design", refers="exact", done=posted("#design", "spare"))
def summary_in_design() -> Script:
    yield from find_file("minutes retro")
    yield call("post_message", channel="#design", text="Retro: calm weather, late spare parts; three actions.")
    return None


@book.task("answer grace's logo question: B", refers="name", done=did("chat.posted", "#design", "71", text="B"))
def logo() -> Script:
    messages = yield call("read_channel", channel="design")
    message = pick(messages.data, author="grace", text="logo")
    yield call("reply_in_thread", message_id=message["id"], text="B, please.")
    return None


@book.task("was hab ich heute im chat verpasst", refers="described", done=answered)
def missed() -> Script:
    channels = yield call("list_channels")
    names = [one["name"] for one in channels.data][:4]
    yield [call("read_channel", channel=name) for name in names]
    return "Nichts Dringendes."


@book.task("DM Jonas: thanks for the blade report", refers="name", done=posted("@jonas", "thanks"))
def thank_jonas() -> Script:
    handle = yield from handle_of("Jonas")
    yield call("send_direct_message", user=handle, text="Thanks for the blade report!")
    return None


@book.task("reply to @owen that I pick the laptop up on thursday", refers="exact", done=posted("@owen", "Thursday"))
def laptop() -> Script:
    yield call("read_direct_messages", user="@owen")
    yield call("send_direct_message", user="owen", text="Great, I pick it up on Thursday.")
    return None


@book.task(
    "someone asked who brings the drone. tell them I do",
    refers="described",
    done=did("chat.posted", "#orkney", "73", text="I bring"),
)
def drone() -> Script:
    found = yield call("search_messages", query="drone")
    yield call("reply_in_thread", message_id=found.data[0]["id"], text="I bring it.")
    return None


@book.task("thumbs up for the quiz night message", refers="described", done=did("chat.reacted", "77"))
def quiz() -> Script:
    found = yield call("search_messages", query="quiz night")
    yield call("react_to_message", message_id=found.data[0]["id"], emoji="+1")
    return None


@book.task("lena wants the interview notes, send them to her", refers="name", done=posted("@lena", "curious"))
def interview_notes() -> Script:
    yield call("read_direct_messages", user="lena")
    file = yield from find_file("interview notes")
    yield call("send_direct_message", user="lena", text=f"{file['name']}: {file['content']}")
    return None


@book.task(
    "tell Brightwater in the shared channel we will be four people",
    refers="described",
    done=posted("#ext-brightwater", "four"),
)
def four_people() -> Script:
    channels = yield call("list_channels")
    channel = pick(channels.data, topic="Brightwater")["name"]
    yield call("read_channel", channel=channel)
    yield call("post_message", channel=channel, text="We will be four people at the gate.")
    return None


@book.task(
    "create a private channel blade-3 with Jonas, Marta and Tomas",
    refers="name",
    done=did("channel.created", "#blade-3", "jonas", "marta", "tomas"),
)
def blade_channel() -> Script:
    users = yield call("list_users")
    handles = [pick(users.data, display_name=name)["handle"] for name in ("Jonas", "Marta", "Tomas")]
    yield call("create_channel", name="blade-3", members=handles, private=True)
    return None


@book.task("add Viktor to #orkney", refers="exact", done=did("channel.joined", "#orkney", "@viktor"))
def add_viktor() -> Script:
    handle = yield from handle_of("Viktor")
    yield call("add_to_channel", channel="#orkney", user=handle)
    return None


@book.task(
    "kick lukas out of #it-help, his badge works now", refers="exact", done=did("channel.left", "#it-help", "@intern-7")
)
def remove_lukas() -> Script:
    handle = yield from handle_of("Lukas")
    yield call("remove_from_channel", channel="#it-help", user=handle)
    return None


@book.task(
    "set the topic of the orkney channel to the boat time tomas posted",
    refers="name",
    done=did("channel.changed", "#orkney", text="09:40"),
)
def boat_topic() -> Script:
    messages = yield call("read_channel", channel="orkney")
    message = pick(messages.data, author="tomas", text="boat")
    assert "09:40" in message["text"]
    yield call("set_channel_topic", channel="orkney", topic="Boat leaves pier 2 at 09:40 on the 19th")
    return None


@book.task("mon statut: à Orkney jusqu'au 20", refers="described", done=did("chat.status", text="Orkney"))
def status() -> Script:
    yield call("search_events", query="kirkwall")
    yield call("set_chat_status", text="À Orkney jusqu'au 20 mai")
    return None


@book.task(
    "pass Marta's weather info from #operations on to #orkney", refers="exact", done=posted("#orkney", "weather window")
)
def weather_window() -> Script:
    messages = yield call("read_channel", channel="operations")
    message = pick(messages.data, author="marta", text="weather")
    yield call("post_message", channel="orkney", text=f"From Marta: {message['text']}")
    return None


@book.task("lukas has a badge problem, ask owen by dm to sort it out", refers="name", done=posted("@owen", "badge"))
def badge() -> Script:
    yield call("read_channel", channel="it-help")
    handle = yield from handle_of("Owen")
    yield call("send_direct_message", user=handle, text="Lukas's badge does not open room 3. Could you fix it?")
    return None


@book.task(
    "dile a Priya por el chat cuántas personas vienen a la reunión del retro",
    refers="name",
    done=posted("@priya", "4"),
)
def retro_count() -> Script:
    event = yield from find_event("retro")
    handle = yield from handle_of("Priya")
    yield call("send_direct_message", user=handle, text=f"Al retro vienen {len(event['participants'])} personas.")
    return None


@book.task(
    "invite k.brandt@werft-nord.example as a guest to #ext-brightwater",
    refers="exact",
    done=did("chat.guest", week.KLAUS, "#ext-brightwater"),
)
def guest() -> Script:
    channels = yield call("list_channels")
    pick(channels.data, name="ext-brightwater")
    yield call("invite_guest", email=week.KLAUS, channel="ext-brightwater")
    return None


@book.task(
    "what did ines say about the vessel? mail it to tomas",
    refers="name",
    done=mailed(week.TOMAS, text="pier 2 at 09:00"),
)
def vessel_to_tomas() -> Script:
    found = yield call("search_messages", query="vessel pier")
    message = pick(found.data, author="ines")
    contact = yield call("search_contacts", name="Tomas")
    yield call("send_mail", to=[contact.data[0]["email"]], subject="Vessel", body=f"Ines says: {message['text']}")
    return None


@book.task(
    "remind the people with actions from the retro in #operations", refers="exact", done=posted("#operations", "radio")
)
def remind_actions() -> Script:
    file = yield from find_file("minutes retro")
    actions = file["content"].partition("Actions: ")[2]
    yield call("post_message", channel="#operations", text=f"A reminder: {actions}")
    return None


@book.task(
    "post in #random that there's cake",
    "ups, delete my message again",
    refers="exact",
    done=both(posted("#random", "cake"), did("chat.deleted")),
)
def post_and_delete() -> Script:
    sent = yield call("post_message", channel="#random", text="There is more cake in the kitchen.")
    yield "Posted."
    yield call("delete_message", message_id=sent.data["message"])
    return None


@book.task(
    "the press release date, tell #general please (only the date!)", refers="exact", done=posted("#general", "26 May")
)
def press_date() -> Script:
    mail = yield from find_mail("press release")
    assert "26th" in mail["body"]
    yield call("post_message", channel="#general", text="The press release goes out on 26 May.")
    return None


@book.task("wer ist eigentlich Lukas? sag ihm hallo von mir", refers="name", done=posted("@intern-7", "hallo"))
def hello_lukas() -> Script:
    found = yield call("find_user", name="Lukas")
    yield call("search_messages", query="Lukas")
    yield call("send_direct_message", user=found.data[0]["handle"], text="Hallo Lukas, schön, dass du da bist!")
    return None
