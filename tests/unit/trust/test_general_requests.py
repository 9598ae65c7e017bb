"""Requests in many verbs and languages, and results in many forms, for tools that the rules have not been made for."""

from __future__ import annotations

import json

import pytest

from mainstay import Agent, tool
from mainstay.core.outcome import Paused
from mainstay.testing import Call, ScriptedProvider
from mainstay.trust.requested_actions import find_tool_action, is_action_requested, is_thing_requested, iterate_requests
from mainstay.trust.result_records import iterate_lines
from mainstay.trust.stated_values import find_other_decision, find_unstated_value

ORCHARD = "| plot_id | crop | state |\n|---|---|---|\n| PL-7 | Quince hedge | open |\n| PL-8 | Plum row | open |"
FOLDER = "/garden/sowing/plan.md\t120 B\n/garden/harvest/plan.md\t80 B\n/old/sketch-1.svg\t9 B\n/old/sketch-2.svg\t9 B"
LEAVE = [{"request_id": "LR-1", "who": "Ann Moor"}, {"request_id": "LR-2", "who": "Ben Reed"}]


@tool(effect="pure", untrusted=True, sink=False)
def list_plots() -> str:
    """Plots as a table."""
    return ORCHARD


@tool(effect="pure", untrusted=True, sink=False)
def list_folder() -> str:
    """Files, one per line."""
    return FOLDER


@tool(effect="pure", untrusted=True, sink=False)
def search_tickets(query: str) -> str:
    """Tickets as JSON."""
    return json.dumps([{"ticket_id": "T-4", "title": "Leaking tap"}, {"ticket_id": "T-5", "title": "Broken lamp"}])


@tool(effect="pure", untrusted=True, sink=False)
def list_leave_requests() -> list[dict[str, str]]:
    """Leave requests."""
    return LEAVE


@tool(effect="pure", untrusted=True, sink=False)
def read_file(path: str) -> str:
    """Read a file."""
    return "# Sowing\npeas\nbeans\ncarrots"


@tool(effect="pure", untrusted=True, sink=["query"], private=False)
def web_search(query: str) -> str:
    """Search the web."""
    return "nothing"


@tool(untrusted=False, sink=["plot_id"])
def update_plot(plot_id: str, state: str) -> str:
    """Change a plot."""
    return "changed"


@tool(untrusted=False, sink=["path"])
def delete_file(path: str) -> str:
    """Delete a file."""
    return "deleted"


@tool(untrusted=False, sink=["path"])
def file_write(path: str, content: str) -> str:
    """Replace a file."""
    return "saved"


@tool(untrusted=False, sink=["path"])
def file_append(path: str, text: str) -> str:
    """Append to a file."""
    return "saved"


@tool(untrusted=False, sink=["ticket_id"])
def close_ticket(ticket_id: str) -> str:
    """Close a ticket."""
    return "closed"


@tool(untrusted=False, sink=["request_id"])
def decide_leave_request(request_id: str, decision: str) -> str:
    """Approve or reject."""
    return "decided"


@tool(untrusted=False, sink=["list_name"])
def todo_add(title: str, list_name: str = "inbox") -> str:
    """Add a to-do."""
    return "added"


@tool(untrusted=False, sink=["room"])
def post_message(room: str, text: str) -> str:
    """Post in a room."""
    return "posted"


TOOLS = [list_plots, list_folder, search_tickets, list_leave_requests, read_file, web_search, update_plot, delete_file]
TOOLS += [file_write, file_append, close_ticket, decide_leave_request, todo_add, post_message]
PLOTS, FILES, REQUESTS = Call("list_plots", {}), Call("list_folder", {}), Call("list_leave_requests", {})
PAGE = Call("read_file", {"path": "/garden/sowing/plan.md"})


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


@pytest.mark.parametrize(
    ("prompt", "calls", "is_free"),
    [
        ("set the quince hedge to fallow", (PLOTS, Call("update_plot", {"plot_id": "PL-7", "state": "fallow"})), True),
        ("set the quince hedge to fallow", (PLOTS, Call("update_plot", {"plot_id": "PL-8", "state": "fallow"})), False),
        ("append leeks to the sowing plan",
         (FILES, Call("file_append", {"path": "/garden/sowing/plan.md", "text": "leeks"})), True),
        ("append leeks to the plan",  # two files have this name
         (FILES, Call("file_append", {"path": "/garden/sowing/plan.md", "text": "leeks"})), False),
        ("delete the two old sketches", (FILES, Call("delete_file", {"path": "/old/sketch-1.svg"})), True),
        ("delete the three old sketches", (FILES, Call("delete_file", {"path": "/old/sketch-1.svg"})), False),
        ("close the leaking tap ticket",
         (Call("search_tickets", {"query": "tap"}), Call("close_ticket", {"ticket_id": "T-4"})), True),
        ("close the leaking tap ticket",
         (Call("search_tickets", {"query": "tap"}), Call("close_ticket", {"ticket_id": "T-5"})), False),
        ("approve all leave requests",
         (REQUESTS, Call("decide_leave_request", {"request_id": "LR-2", "decision": "approved"})), True),
        ("approve all leave requests except bens",
         (REQUESTS, Call("decide_leave_request", {"request_id": "LR-2", "decision": "approved"})), False),
        ("approve anns leave request",
         (REQUESTS, Call("decide_leave_request", {"request_id": "LR-1", "decision": "rejected"})), False),
        ("what comes first? put it in my todos",
         (PAGE, Call("todo_add", {"title": "Sow peas", "list_name": "work"})), True),
        ("what comes first?", (PAGE, Call("todo_add", {"title": "Sow peas", "list_name": "work"})), False),
        ("read the plan and look up quince hedges", (PAGE, Call("web_search", {"query": "quince hedges"})), True),
        ("read the plan and look up quince hedges", (PAGE, Call("web_search", {"query": "hedges carrots"})), False),
        ("look at #garden and post in #harvest that it is late",
         (PAGE, Call("post_message", {"room": "#garden", "text": "It is late"})), True),
        ("post in #harvest that it is late",
         (PAGE, Call("post_message", {"room": "#garden", "text": "It is late"})), False),
    ],
)  # fmt: skip
async def test_results_in_any_form_have_records_that_the_users_words_name(
    prompt: str, calls: tuple[Call, ...], is_free: bool
) -> None:
    why = await find_question(prompt, *calls)
    assert (why == "") is is_free, why


async def test_an_addition_keeps_what_the_file_had() -> None:
    prompt = "add leeks to /garden/sowing/plan.md"
    path = "/garden/sowing/plan.md"
    kept = Call("file_write", {"path": path, "content": "# Sowing\npeas\nbeans\ncarrots\nleeks"})
    assert await find_question(prompt, PAGE, kept) == ""
    assert await find_question(prompt, PAGE, Call("file_write", {"path": path, "content": "leeks"}))


async def test_a_dictated_message_is_sent_once() -> None:
    posts = [Call("post_message", {"room": "#harvest", "text": text}) for text in ("It is late", "It is late!")]
    assert await find_question("post in #harvest that it is late", PAGE, *posts)


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("bin the newsletter", "remove"),
        ("gooi de nieuwsbrief weg", "remove"),
        ("résilie l'abonnement", "remove"),
        ("vink de taak af", "change"),
        ("hak die aufgabe ab", "change"),
        ("spunta il compito", "change"),
        ("zet het in mijn agenda", "create"),
        ("leg einen termin an", "create"),
        ("inserisci una nota", "create"),
        ("a bag of rice in the basket", "create"),
        ("i need a public link", "create"),
        ("zeg tegen Anna dat ik kom", "send"),
        ("préviens Marc", "send"),
        ("avise a Ana que chego tarde", "send"),
    ],
)
def test_verbs_of_seven_languages_are_requests(text: str, family: str) -> None:
    assert list(iterate_requests(family, (text,)))


@pytest.mark.parametrize(
    "text", ["list the open issues", "check pull request 22", "Ich bin krank", "what is in my basket?", "show my notes"]
)
def test_reading_is_no_request_for_a_change(text: str) -> None:
    assert not any(list(iterate_requests(family, (text,))) for family in ("remove", "change", "create", "send", "pay"))


def test_a_sentence_of_known_words_is_no_unknown_language() -> None:
    assert not is_action_requested("send", ("check #ops but don't post there",), ())


@pytest.mark.parametrize(
    ("tool_name", "family"),
    [
        ("files_write", "create"),
        ("write_message", "send"),
        ("calendar_respond", "decide"),
        ("hr_decide_leave_request", "decide"),
        ("submit_expense", "create"),
        ("submit_payment", "pay"),
        ("upsert_row", "change"),
        ("invite_to_channel", "invite"),
    ],
)
def test_verbs_of_tool_names_have_families(tool_name: str, family: str) -> None:
    assert find_tool_action(tool_name) == family


def test_an_unknown_verb_asks_for_an_unknown_action_on_the_named_thing_only() -> None:
    assert is_thing_requested("freezer_defrost", ("defrost the freezer",))
    assert not is_thing_requested("freezer_defrost", ("is the freezer cold?",))
    assert not is_thing_requested("freezer_defrost", ("do not defrost the freezer",))


def test_rows_of_text_have_ids_but_no_numbers_that_a_cell_could_forge() -> None:
    rows = list(iterate_lines(f"{ORCHARD}\n| PL-9 | Fig | open | extra |"))
    assert [row.id for row in rows] == ["PL-7", "PL-8"]
    assert all(row.is_row and not row.numbers for row in rows)
    assert [row.id for row in iterate_lines("Da Rosa (R-9) - Italian, 4 stars\nNice.\n- #15 Translate it")] == [
        "R-9",
        "15",
    ]


def test_quantities_and_decisions_are_those_of_the_user() -> None:
    assert find_unstated_value({"quantity": 20}, "create", ["add 2 lamps to the cart"])
    assert not find_unstated_value({"quantity": 2}, "create", ["add 2 lamps to the cart"])
    assert find_other_decision({"response": "declined"}, ["accept the review"]) == "declined"
    assert not find_other_decision({"response": "accepted"}, ["accept the review"])
    assert not find_unstated_value({"date": "2026-11-22"}, "book", ["for sunday 22 nov 18:00"])
