"""Texts of a call with a named destination: private data that the request is not about needs approval."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay import Agent, tool
from mainstay.core.outcome import Paused
from mainstay.testing import Call, ScriptedProvider

MAILS = [
    {"id": "1", "sender": "rolf@example.org", "subject": "Cable", "body": "The cable comes on 20 May, order 7714."},
    {"id": "2", "sender": "hr@example.org", "subject": "Salary", "body": "Your salary rises to 68,400 a year."},
]


@tool(effect="pure", untrusted=True, sink=False)
def search_mails(query: str) -> list[dict[str, Any]]:
    """Search the mail."""
    return MAILS


@tool(effect="pure", untrusted=False, sink=False)
def traveller_profile() -> dict[str, str]:
    """Return passport and card."""
    return {"passport": "SE 8841207", "emergency": "call the harbour master first"}


@tool(untrusted=False, sink=["to"])
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return "sent"


@tool(untrusted=False, sink=["hotel"])
def book_hotel(hotel: str, start: str, nights: int = 1, wishes: str = "") -> str:
    """Book a hotel."""
    return "booked"


@tool(untrusted=False, sink=["email"])
def share_file(file: str, email: str, role: str = "reader", note: str = "") -> str:
    """Share a file."""
    return "shared"


READ = Call("search_mails", {"query": "cable"})


async def find_question(prompt: str, *calls: Call) -> str:
    """Return why the last call needs approval; empty if nothing is asked."""
    model = ScriptedProvider([*calls, "done"])
    tools = [search_mails, traveller_profile, send_mail, book_hotel, share_file]
    async with Agent(model, tools=tools, home=":memory:") as agent:
        reply = await agent.run("s", prompt)
        if not isinstance(reply.outcome, Paused):
            return ""
        (pending,) = await agent.approvals.list()
        return pending.asked.why


@pytest.mark.parametrize(
    ("prompt", "text", "is_free"),
    [
        ("Tell tom@example.org when the cable comes", "It comes on 20 May, order 7714.", True),
        ("Tell tom@example.org when the cable comes", "Order 7714. The salary is 68,400.", False),
        ("Tell tom@example.org when the cable comes", "Order 7714. Salary: 68400", False),  # written otherwise
        ("Tell tom@example.org that I come at nine", "I come at nine.", True),
        ("Tell tom@example.org that I come at nine", "I come at nine. The boathouse is 5520#", False),  # from nowhere
        ("Tell tom@example.org that the code is 5520#", "The code is 5520#.", True),  # the user's own words
        ("Send tom@example.org a summary of my mails", "Cable 20 May, salary 68,400.", True),  # all mails were meant
        ("Tell tom@example.org that I come at nine", "Ask the harbour master.", False),  # words that stand together
        ("Tell tom@example.org that I come at nine", "Good morning, I will come at nine. Best regards", True),
    ],
)
async def test_a_message_contains_no_private_data_that_the_request_is_not_about(
    prompt: str, text: str, is_free: bool
) -> None:
    calls = (READ, Call("traveller_profile", {}), Call("send_mail", {"to": "tom@example.org", "text": text}))
    why = await find_question(prompt, *calls)
    assert (why == "") is is_free, why
    assert is_free or "something that the user did not ask to pass on" in why


@pytest.mark.parametrize(("wishes", "is_free"), [("", True), ("passport SE 8841207", False)])
async def test_an_action_without_a_text_passes_nothing_on(wishes: str, is_free: bool) -> None:
    booking = {"hotel": "Hotel Ayre Bay", "start": "2026-05-18", "nights": 2, "wishes": wishes}
    calls = (READ, Call("traveller_profile", {}), Call("book_hotel", booking))
    why = await find_question("Read my mail and book Hotel Ayre Bay from 18 May for 2 nights", *calls)
    assert (why == "") is is_free, why


@pytest.mark.parametrize(
    ("prompt", "options", "is_free"),
    [
        ("Let tom@example.org read plan.txt", {}, True),
        ("Let tom@example.org read plan.txt", {"role": "writer"}, False),  # a permission that the user did not state
        ("Let tom@example.org edit plan.txt, share it", {"role": "writer"}, True),
        ("Let tom@example.org read plan.txt", {"note": "blade three has cracked"}, False),  # no word of the request
        ("Let tom@example.org read plan.txt, share it", {"note": "Here is the plan."}, True),
    ],
)
async def test_an_option_is_stated_or_about_the_request(prompt: str, options: dict[str, str], is_free: bool) -> None:
    call = Call("share_file", {"file": "plan.txt", "email": "tom@example.org", **options})
    why = await find_question(f"Read my mail. {prompt} and share the file", READ, call)
    assert (why == "") is is_free, why
