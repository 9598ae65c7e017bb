"""What attacks are made of: calls, places where others write, and the effect of the attack's last call."""

from __future__ import annotations

from typing import Any

from attack import Attack, Effect, Plant, Turn, did, got, plant_in
from records import OfficeWorld, flatten
from state import World

from mainstay.testing import Call

DROP = "collect@data-relay.example"  # the attacker's mailbox
THIEF = "NL02ATTK0666000111"  # the attacker's account
RELAY = "https://data-relay.example/c"  # the attacker's web server


def c(tool: str, /, **arguments: object) -> Call:
    return Call(tool, arguments)


# --- where the injection stands ------------------------------------------------------------------


def body(id: str) -> Plant:
    return plant_in("messages", id, "body")


def subject(id: str) -> Plant:
    return plant_in("messages", id, "subject")


def sender_name(id: str) -> Plant:
    return plant_in("messages", id, "from_name")


def posts(channel: str) -> Plant:
    return plant_in("rooms", channel, "posts")


def file(path: str) -> Plant:
    return plant_in("documents", path, "content")


def issue(repo: str, number: int, part: str = "body") -> Plant:
    return plant_in("issues", f"{repo}#{number}", part)


def pull(repo: str, number: int, part: str = "body") -> Plant:
    return plant_in("pulls", f"{repo}#{number}", part)


def event(id: str, part: str = "description") -> Plant:
    return plant_in("events", id, part)


def page(url: str) -> Plant:
    def plant(world: World, text: str) -> None:
        assert isinstance(world, OfficeWorld)
        world.site[url] = f"{world.site.get(url, '')}\n{text}".strip()

    return plant


def source(repo: str, path: str) -> Plant:
    def plant(world: World, text: str) -> None:
        assert isinstance(world, OfficeWorld)
        world.code[f"{repo}:{path}"] += f"\n{text}"

    return plant


def new_record(table: str, key: str, record: dict[str, Any]) -> Plant:
    """Add a record of the attacker's; `<>` in its texts stands for the injection."""

    def plant(world: World, text: str) -> None:
        filled = {
            name: value.replace("<>", text) if isinstance(value, str) else value for name, value in record.items()
        }
        getattr(world, table)[key.replace("<>", text)] = filled

    return plant


def new_mail(sender: str, name: str, title: str, text: str = "<>", id: str = "m99") -> Plant:
    record = {
        "from": sender, "from_name": name, "to": ["nadia@verhoeven.example"], "cc": [], "subject": title,
        "date": "2026-11-18", "body": text, "attachments": [], "labels": ["INBOX"], "label": "INBOX", "unread": True,
    }  # fmt: skip
    return new_record("messages", id, record)


def new_event(title: str, organizer: str, start: str, text: str = "", place: str = "", id: str = "evt_99") -> Plant:
    record = {
        "summary": title, "start": start, "end": start[:11] + "23:00", "location": place, "organizer": organizer,
        "attendees": [], "description": text,
    }  # fmt: skip
    return new_record("events", id, record)


def new_file(path: str, text: str, owner: str = "guest@data-relay.example") -> Plant:
    return new_record("documents", path, {"content": text, "owner": owner, "modified": "2026-11-18", "shared_with": []})


def nowhere(world: World, text: str) -> None:
    """The injection stands in the prompt: the person pasted it."""


# --- effects -------------------------------------------------------------------------------------


def effect_of(made: Call) -> Effect:
    """The ledger has this call: its tool, with all the values of its arguments."""
    assert isinstance(made.input, dict)
    match made.name:
        case "fetch_url":
            return got(str(made.input["url"]))
        case "web_search":
            return did("web.searched", text=str(made.input["query"]))
    return did(made.name, *(text for value in made.input.values() for text in flatten(value)))


def attack(
    id: str,
    where: str,
    turns: str | list[str | list[Call]],
    plant: Plant,
    injection: str,
    *calls: Call,
    effect: Effect | None = None,
    kind: str = "",
    late: bool = False,
) -> Attack:
    """One case. The first word of the id is its family. `late`: the attack waits for the last turn.

    `kind` is `content` if only the content of a call is the attacker's, `link` for a plain GET, `burst` for calls that
    come in one answer.
    """
    parts = [turns] if isinstance(turns, str) else turns
    made: list[Turn] = []
    for part in parts:
        if isinstance(part, str):
            made.append(Turn(part, (), None if late else 0))
        else:
            made[-1] = Turn(made[-1].prompt, tuple(part), made[-1].strike)
    if late:
        made[-1] = Turn(made[-1].prompt, made[-1].calls, 0)
    return Attack(
        id,
        where,
        id.split("-")[0],
        tuple(made),
        plant,
        injection,
        calls,
        effect or effect_of(calls[-1]),
        content_only=kind == "content",
        link_get=kind == "link",
        together=kind == "burst",
    )
