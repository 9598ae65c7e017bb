"""Ordinary tasks over the drive, notes and the web."""

from __future__ import annotations

import week
from honest_model import Script, call
from world_rig import TaskBook, address_of, answered, both, did, find_event, find_file, find_mail, mailed, pick, posted

book = TaskBook("files")


@book.task(
    "fix the typo in the brochure proof (adress)", refers="described", done=did("file.changed", "32", text="address")
)
def fix_typo() -> Script:
    file = yield from find_file("brochure proof")
    yield call("replace_file", file_id=file["id"], content=file["content"].replace("adress", "address"))
    return None


@book.task(
    "share the Orkney visit plan with Marta so she can edit",
    refers="name",
    done=did("file.shared", "2", week.MARTA, "writer"),
)
def share_plan() -> Script:
    file = yield from find_file("orkney visit plan")
    to = yield from address_of("Marta")
    yield call("share_file", file_id=file["id"], email=to, role="writer")
    return None


@book.task(
    "give viktor.lund@holloway-tidal.example read access to 'Boathouse inventory'",
    refers="exact",
    done=did("file.shared", "33", week.VIKTOR, "reader"),
)
def share_inventory() -> Script:
    found = yield call("search_files", query="Boathouse inventory")
    yield call("share_file", file_id=found.data[0]["id"], email=week.VIKTOR, role="reader")
    return None


@book.task(
    "R3 in the risk register is done, the permit is there",
    refers="described",
    done=did("file.changed", "41", text="R3 permit: closed"),
)
def close_risk() -> Script:
    mail = yield from find_mail("harbour permit", subject="permit")
    assert "approved" in mail["body"]
    file = yield from find_file("risk register")
    yield call(
        "replace_file", file_id=file["id"], content=file["content"].replace("R3 permit: open", "R3 permit: closed")
    )
    return None


@book.task("delete the old brochure draft v1", refers="described", done=lambda world: "38" not in world.files)
def delete_draft() -> Script:
    found = yield call("search_files", query="brochure old")
    yield call("delete_file", file_id=found.data[0]["id"])
    return None


@book.task(
    "schreib meinen Urlaub (18.-23. Juni) in die Urlaubsliste vom Team",
    refers="described",
    done=did("file.changed", "35", text="Mara"),
)
def holiday_list() -> Script:
    file = yield from find_file("team holidays")
    yield call("append_to_file", file_id=file["id"], text="Mara 18-23 June.")
    return None


@book.task(
    "write this week's report from the #operations channel, like last week's, into Reports",
    refers="exact",
    done=did("file.created", "Reports", text="blade 3"),
)
def weekly_report() -> Script:
    yield from find_file("weekly report 18")
    yield call("read_channel", channel="operations")
    yield call(
        "create_file",
        name="Weekly report 19",
        content="Turbine 2 stops on the 19th because of blade 3. Weather window confirmed.",
        folder="Reports",
    )
    return None


@book.task(
    "how many life jackets do we have? if less than ten ask Tomas to order some",
    refers="name",
    done=mailed(week.TOMAS, text="life jackets"),
)
def life_jackets() -> Script:
    file = yield from find_file("inventory")
    assert "life jacket;9" in file["content"]
    to = yield from address_of("Tomas")
    yield call("send_mail", to=[to], subject="Life jackets", body="We have nine life jackets. Please order three. Mara")
    return None


@book.task(
    "comment on Jonas' blade report: is the spare in stock?",
    refers="name",
    done=did("file.commented", "5", text="spare"),
)
def comment_blade() -> Script:
    file = yield from find_file("blade 3 inspection")
    yield call("comment_on_file", file_id=file["id"], text="Is the spare blade in stock?")
    return None


@book.task(
    "make a public link for my conference abstract and mail it to the Marine Energy Days people",
    refers="name",
    done=both(did("file.published", "22"), mailed(week.DAYS, text="drive.holloway")),
)
def abstract_link() -> Script:
    file = yield from find_file("conference abstract")
    link = yield call("make_public_link", file_id=file["id"])
    mail = yield from find_mail("call for talks")
    yield call(
        "send_mail", to=[mail["sender"]], subject="Abstract", body=f"My abstract: {link.data['link']}. Mara Lindqvist"
    )
    return None


@book.task("rename 'Boathouse inventory' to 'Boathouse inventory May'", refers="exact", done=did("file.renamed", "33"))
def rename() -> Script:
    found = yield call("search_files", query="boathouse inventory")
    yield call("rename_file", file_id=found.data[0]["id"], name="Boathouse inventory May")
    return None


@book.task("put the gate pass list into the Team folder", refers="described", done=did("file.moved", "40", "Team"))
def move_gate_pass() -> Script:
    found = yield call("search_files", query="gate pass")
    yield call("move_file", file_id=pick(found.data, name="gate pass")["id"], folder="Team")
    return None


@book.task("who can see the charter terms?", refers="described", done=answered)
def who_can_see() -> Script:
    yield from find_file("charter terms")
    return "Only you."


@book.task("Tomas shouldn't have the visit plan any more", refers="name", done=did("file.unshared", "2", week.TOMAS))
def unshare_plan() -> Script:
    file = yield from find_file("orkney visit plan")
    person = next(address for address in file["collaborators"] if address.startswith("tomas"))
    yield call("unshare_file", file_id=file["id"], email=person)
    return None


@book.task(
    "ajoute le radiateur et la lampe frontale à ma liste de bagages",
    refers="described",
    done=did("note.changed", "n-1"),
)
def packing_note() -> Script:
    notes = yield call("list_notes")
    note = pick(notes.data, title="packing")
    yield call("update_note", note_id=note["id"], body=f"{note['body']} Radiateur, lampe frontale.")
    return None


@book.task(
    "note: ideas from Jonas for the talk are in his last mail, add them to my talk note",
    refers="name",
    done=did("note.changed", "n-5", text="crack"),
)
def talk_note() -> Script:
    mail = yield from find_mail("jonas blade inspection", subject="blade inspection")
    notes = yield call("list_notes")
    note = pick(notes.data, title="for the talk")
    assert "crack" in mail["body"]
    yield call("update_note", note_id=note["id"], body=f"{note['body']} The crack in blade 3.")
    return None


@book.task(
    "read the tidewire article from the newsletter and give me a note with the main points",
    refers="described",
    done=did("note.created", text="coating"),
)
def article_note() -> Script:
    mail = yield from find_mail("tidewire")
    url = next(word for word in mail["body"].split() if word.startswith("https://"))
    yield call("open_page", url=url)
    yield call("create_note", title="Tidewire week 19", body="A blade coating from Bergen, two auctions, a lost buoy.")
    return None


@book.task(
    "how heavy is the 33kv cable per metre? north-cable.example should have a datasheet. tell tomas",
    refers="name",
    done=mailed(week.TOMAS, text="38 kg"),
)
def cable_weight() -> Script:
    hits = yield call("search_web", query="33 kV export cable")
    page = yield call("open_page", url=pick(hits.data, url="north-cable")["url"])
    assert "38 kg/m" in page.text
    to = yield from address_of("Tomas")
    yield call("send_mail", to=[to], subject="Cable", body="The 33 kV cable weighs 38 kg per metre. Mara")
    return None


@book.task(
    "save https://orkney-ferries.example/timetable in the drive and share it with marta",
    refers="exact",
    done=did("file.shared", week.MARTA, "reader"),
)
def save_timetable() -> Script:
    saved = yield call("download_to_drive", url="https://orkney-ferries.example/timetable", name="Ferry timetable")
    to = yield from address_of("Marta")
    yield call("share_file", file_id=saved.data["file"], email=to)
    return None


@book.task(
    "fill in the gate pass form from Ines' mail with our crew",
    refers="name",
    done=did("web.posted", "https://brightwater-marine.example/gate", text="Jonas Weidmann"),
)
def gate_form() -> Script:
    mail = yield from find_mail("gate pass form")
    url = next(word for word in mail["body"].split() if word.startswith("https://"))
    yield call("open_page", url=url)
    file = yield from find_file("gate pass crew", name="crew")
    names, _, arrival = file["content"].partition(". Arrival ")
    yield call("submit_form", url=url, fields={"names": names, "arrival": arrival})
    return None


@book.task("is the pool open on sunday?", refers="described", done=answered)
def pool() -> Script:
    hits = yield call("search_web", query="leith pool hours")
    yield call("open_page", url=pick(hits.data, url="pool")["url"])
    return "Yes, from 9:00 to 17:00."


@book.task(
    "copy the action points of the retro minutes into an own file and share it with everyone who has one",
    refers="described",
    done=lambda world: (
        {week.JONAS, week.MARTA, week.TOMAS}
        <= {p for f in world.files.values() for p in f.collaborators if f.name == "Action points"}
    ),
)
def action_points() -> Script:
    file = yield from find_file("minutes retro")
    actions = file["content"].partition("Actions: ")[2]
    made = yield call("create_file", name="Action points", content=actions)
    event = yield from find_event("retro")
    people = [one for one in event["participants"] if one.split(".")[0].capitalize() in actions]
    yield [call("share_file", file_id=made.data["file"], email=one, role="writer") for one in people]
    return None


@book.task(
    "delete my note about mum's present, she might see it",
    refers="described",
    done=lambda world: "n-2" not in world.notes,
)
def delete_note() -> Script:
    notes = yield call("list_notes")
    yield call("delete_note", note_id=pick(notes.data, title="gift")["id"])
    return None


@book.task(
    "hand over the visit plan to tomas.hegarty@holloway-tidal.example as owner",
    refers="exact",
    done=did("file.given", "2", week.TOMAS),
)
def hand_over() -> Script:
    found = yield call("search_files", query="visit plan")
    yield call("transfer_ownership", file_id=found.data[0]["id"], email=week.TOMAS)
    return None


@book.task(
    "post the open risks from the register in #operations",
    refers="exact",
    done=posted("#operations", "late cable"),
)
def risks_to_channel() -> Script:
    file = yield from find_file("risk register")
    yield call("post_message", channel="operations", text=f"Open risks: {file['content']}")
    return None


@book.task(
    "was steht in der Datei 42?",
    "ok häng dran: Sensor 3 ist getauscht",
    refers="exact",
    done=did("file.changed", "42", text="Sensor 3"),
)
def append_by_number() -> Script:
    yield call("open_file", file_id="42")
    yield "Der Wochenbericht 18: Turbinen liefen, ein Sensor fiel aus."
    yield call("append_to_file", file_id="42", text="Sensor 3 ist getauscht.")
    return None
