"""What calls found that the model made before it had read anything from outside."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay import Agent, tool
from mainstay.core.outcome import Paused
from mainstay.core.tools import FunctionTool
from mainstay.testing import Call, ScriptedProvider

MAILS = [
    {
        "id": "11",
        "sender": "elsa@example.org",
        "to": "me@example.org",
        "subject": "Midsummer",
        "body": "Will you come?",
    },
    {
        "id": "12",
        "sender": "rolf@example.org",
        "to": "me@example.org",
        "subject": "Cable",
        "body": "It comes on Friday.",
    },
    {"id": "13", "sender": "zoe@example.org", "to": "me@example.org", "subject": "Internship", "body": "I apply."},
    {"id": "14", "sender": "kim@example.org", "to": "me@example.org", "subject": "Internship", "body": "Me too."},
]
HOTELS = [
    {"name": "Lodge", "price": 74.0, "rating": 3.8, "about": "Simple rooms."},
    {"name": "Harbour", "price": 89.0, "rating": 4.2, "about": "Breakfast included."},
    {"name": "Guesthouse", "price": 101.0, "rating": 4.7, "about": "Breakfast included."},
]
FILES = [{"id": "1", "name": "a.bin", "size": 10}, {"id": "2", "name": "b.bin", "size": 9000}]


@tool(effect="pure", untrusted=True, sink=False)
def search_mails(query: str) -> list[dict[str, str]]:
    """Search the mail."""
    return [mail for mail in MAILS if query.lower() in str(mail).lower()]


@tool(effect="pure", untrusted=True, sink=False)
def search_hotels(city: str) -> list[dict[str, Any]]:
    """List hotels."""
    return HOTELS


@tool(effect="pure", untrusted=True, sink=False)
def list_files() -> list[dict[str, Any]]:
    """List files."""
    return FILES


@tool(effect="pure", untrusted=True, sink=False)
def read_room(room: str) -> str:
    """Read a room."""
    return "Ann: hello"


@tool(untrusted=False, sink=["mail_id"])
def reply_to_mail(mail_id: str, body: str, reply_all: bool = False) -> str:
    """Answer a mail."""
    return "sent"


@tool(untrusted=False, sink=["to"])
def send_mail(to: str, body: str) -> str:
    """Send a mail."""
    return "sent"


@tool(untrusted=False, sink=["hotel"])
def book_hotel(hotel: str) -> str:
    """Book a hotel."""
    return "booked"


@tool(untrusted=False, sink=["room"])
def post_message(room: str, text: str) -> str:
    """Post in a room."""
    return "posted"


@tool(untrusted=False, sink=["file_id"])
def delete_file(file_id: str) -> str:
    """Delete a file."""
    return "deleted"


@tool(untrusted=False, sink=["mail_id"])
def delete_mail(mail_id: str) -> str:
    """Delete a mail."""
    return "deleted"


TOOLS: list[FunctionTool] = [search_mails, search_hotels, list_files, read_room, reply_to_mail, send_mail, book_hotel]
TOOLS += [post_message, delete_file, delete_mail]
PAGE = Call("read_room", {"room": "lobby"})  # from outside


async def find_question(prompt: str, *calls: Call) -> str:
    """Return why the last call needs approval; empty if nothing is asked."""
    model = ScriptedProvider([*calls, "done"])
    async with Agent(model, tools=TOOLS, home=":memory:") as agent:
        reply = await agent.run("s", prompt)
        if not isinstance(reply.outcome, Paused):
            return ""
        assert len(model.asked) == len(calls), "an earlier call was asked about"
        (pending,) = await agent.approvals.list()
        return pending.asked.why


def search(query: str) -> Call:
    return Call("search_mails", {"query": query})


def reply(id: str, body: str = "Ja, ich komme!") -> Call:
    return Call("reply_to_mail", {"mail_id": id, "body": body})


@pytest.mark.parametrize(
    ("prompt", "calls", "is_free"),
    [
        ("Mama antworten: ja, ich komme", (search("midsummer"), reply("11")), True),  # the only one, in other words
        ("Mama antworten: ja, ich komme", (PAGE, search("midsummer"), reply("11")), False),  # content chose the query
        ("Mama antworten: ja, ich komme", (PAGE, search("antworten"), reply("11")), False),  # it did not find it
        ("Mama antworten: ja, ich komme", (search("com"), reply("11")), False),  # one of several
        ("Tell Bob that I come", (search("midsummer"), reply("11", "I come")), False),  # another recipient
        ("what does mum write?", (search("midsummer"), reply("11")), False),  # no answer was asked for
        ("send both who want the internship a thank you", (search("internship"), reply("13", "Thank you")), True),
        ("send both who want the internship a thank you", (search("example"), reply("12", "Thank you")), False),
        ("delete mum's mail", (search("midsummer"), Call("delete_mail", {"mail_id": "11"})), False),  # by name only
    ],
)
async def test_the_only_record_of_a_planned_search_is_the_one_that_the_user_means(
    prompt: str, calls: tuple[Call, ...], is_free: bool
) -> None:
    why = await find_question(prompt, *calls)
    assert (why == "") is is_free, why


@pytest.mark.parametrize(
    ("prompt", "hotel", "is_free"),
    [
        ("book the cheapest hotel in Kirkwall", "Lodge", True),
        ("book the cheapest hotel in Kirkwall", "Harbour", False),
        ("book the cheapest hotel with breakfast in Kirkwall", "Harbour", True),
        ("book the cheapest hotel with breakfast in Kirkwall", "Lodge", False),
        ("book the cheapest hotel with sauna in Kirkwall", "Lodge", False),  # none has one
        ("best rated hotel in Kirkwall? book it", "Guesthouse", True),
        ("book a nice hotel in Kirkwall", "Guesthouse", False),  # nothing that can be computed
    ],
)
async def test_a_number_decides_which_record_is_meant(prompt: str, hotel: str, is_free: bool) -> None:
    why = await find_question(prompt, Call("search_hotels", {"city": "Kirkwall"}), Call("book_hotel", {"hotel": hotel}))
    assert (why == "") is is_free, why


@pytest.mark.parametrize(("id", "is_free"), [("2", True), ("1", False)])
async def test_a_removal_needs_a_choice_in_its_own_clause(id: str, is_free: bool) -> None:
    calls = (Call("list_files", {}), Call("delete_file", {"file_id": id}))
    assert (await find_question("find and delete the largest file", *calls) == "") is is_free
    assert await find_question("which is the largest file? delete a.txt", *calls) != ""


@pytest.mark.parametrize(
    ("prompt", "read", "room", "is_free"),
    [
        ("sag ann in lunch dass ich komme", "lunch", "lunch", True),
        ("sag ann in lunch dass ich komme", "salaries", "salaries", False),  # no word of the user
        ("sag ann in lunch dass ich komme", "lunch", "lunch_", False),  # resembles it
    ],
)
async def test_a_place_that_a_planned_call_has_read_is_a_place_of_the_request(
    prompt: str, read: str, room: str, is_free: bool
) -> None:
    calls = (Call("read_room", {"room": read}), Call("post_message", {"room": room, "text": "ich komme"}))
    why = await find_question(prompt, *calls)
    assert (why == "") is is_free, why


@pytest.mark.parametrize(
    ("calls", "is_free"),
    [
        ((search("cable"), Call("send_mail", {"to": "rolf@example.org", "body": "thanks"})), True),
        ((PAGE, search("cable"), Call("send_mail", {"to": "rolf@example.org", "body": "thanks"})), True),  # user's word
        ((PAGE, search("friday"), Call("send_mail", {"to": "rolf@example.org", "body": "thanks"})), False),
        ((search("example"), Call("send_mail", {"to": "rolf@example.org", "body": "thanks"})), False),  # of several
    ],
)
async def test_the_author_of_all_that_a_planned_search_found_may_be_answered(
    calls: tuple[Call, ...], is_free: bool
) -> None:
    why = await find_question("thank the people of the cable by mail", *calls)
    assert (why == "") is is_free, why


async def test_a_place_that_resembles_the_users_is_not_planned_by_reading_it() -> None:
    calls = (PAGE, Call("read_room", {"room": "lunch_"}), Call("post_message", {"room": "lunch_", "text": "ich komme"}))
    assert await find_question("sag ann in lunch dass ich komme", *calls) != ""
