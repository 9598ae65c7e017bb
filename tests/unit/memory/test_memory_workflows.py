"""Workflows of successful turns: what is stored of them, and when one is recalled."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainstay.core.chat_addresses import ChatAddress, PlatformMessage
from mainstay.core.events import Event, Forked, MessageAdded, Received, Steered, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.memory_tiers import Memory
from mainstay.core.messages import Text, ToolCall, ToolResult
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused
from mainstay.core.stemming import stem_words
from mainstay.memory.embedders.local.embedder import LocalEmbedder
from mainstay.memory.recorded_workflows import (
    STEPS_MAX,
    WorkflowIndex,
    argument_types,
    decode_workflow,
    extract_workflows,
    render_workflow_note,
)

AT = 1_767_225_600_000
installed = pytest.mark.skipif(
    importlib.util.find_spec("wordllama") is None, reason="needs the extra: pip install -e '.[memory]'"
)


class Journal:
    """Records as a lane would write them."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.turns = 0

    def note(self, *events: Event) -> None:
        for event in events:
            self.records.append(Record(len(self.records) + 1, AT + len(self.records) * 1000, event))

    def turn(
        self,
        prompt: str | Text,
        calls: Sequence[tuple[Any, ...]] = (),
        *,
        answer: str = "Done.",
        outcome: Outcome | None = None,
    ) -> Journal:
        """Each call is a tool, its input, whether it failed, and the origin of its result."""
        self.turns += 1
        self.note(Received((Text(prompt) if isinstance(prompt, str) else prompt,)))
        self.note(TurnStarted((len(self.records),), turn=self.turns))
        for step, call in enumerate(calls):
            name, input, failed, origin = (*call, *(False, "")[len(call) - 2 :])
            id = f"call_{self.turns}_{step}_0"
            text = input if isinstance(input, str) else json.dumps(input)
            self.note(MessageAdded("assistant", (ToolCall(id, name, text),), turn=self.turns, step=step))
            self.note(ToolFinished(ToolResult(id, name, "result", is_error=failed, origin=origin), turn=self.turns))
        self.note(MessageAdded("assistant", (Text(answer),), turn=self.turns, step=len(calls)))
        self.note(TurnEnded(outcome or Answered(), turn=self.turns))
        return self

    def workflows(self) -> list[Memory]:
        return extract_workflows("s", self.records)


TWO = [("build", {"target": "web"}), ("deploy", {"to": "staging", "wait": True})]


# --- what is kept --------------------------------------------------------------------------------


def test_opentalon_010_017_020_a_turn_of_several_steps_is_stored_with_trigger_steps_outcome_and_time() -> None:
    (found,) = Journal().turn("Deploy the web to staging", TWO, answer="It is up.").workflows()
    assert (found.id, found.text, found.tags) == ("workflow:s#1", "Deploy the web to staging", ("workflow",))
    assert (found.source, found.origin, found.pinned) == ("s#1", "", False)
    assert json.loads(found.data) == {
        "trigger": "Deploy the web to staging",
        "steps": [
            {"tool": "build", "order": 1, "arguments": {"target": "string"}},
            {"tool": "deploy", "order": 2, "arguments": {"to": "string", "wait": "boolean"}},
        ],
        "outcome": "It is up.",
        "timestamp": "2026-01-01T00:00:07+00:00",
    }


@pytest.mark.parametrize(
    ("calls", "kept"),
    [
        ([], 0),
        (TWO[:1], 0),
        (TWO, 2),
        ([*TWO, ("check", {}, True)], 0),
        ([("build", {}, True), *TWO], 2),
        ([TWO[0], ("deploy", {}, True), TWO[1]], 2),
        ([TWO[0], ("deploy", {}, True)], 0),
        ([("memory_search", {}), ("memory_recall", {}), ("remember", {}), ("forget", {}), ("result", {})], 0),
        ([("tool_search", {}), *TWO, ("memory_get", {}, True)], 2),
        ([("memories", {}), ("results", {})], 2),
    ],
)
def test_opentalon_016_only_successful_turns_of_several_steps_are_stored(calls: Any, kept: int) -> None:
    found = Journal().turn("Deploy the web", calls).workflows()
    steps = [len(done.steps) for one in found if (done := decode_workflow(one)) is not None]
    assert steps == ([kept] if kept else [])


@pytest.mark.parametrize("outcome", [Aborted(), Exhausted("steps_max"), Paused("x"), Failed("broken")])
def test_a_turn_that_did_not_end_with_an_answer_is_not_kept(outcome: Outcome) -> None:
    assert Journal().turn("Deploy the web", TWO, outcome=outcome).workflows() == []


def test_a_turn_that_has_not_ended_is_not_kept_nor_mixed_with_the_next() -> None:
    journal = Journal().turn("Deploy the web", TWO)
    journal.records.pop()
    assert journal.workflows() == []
    journal.turn("Thank you")
    assert journal.workflows() == []


def test_values_of_arguments_are_never_kept() -> None:
    secret = "hunter2"
    calls = [
        ("login", {"password": secret, "options": {secret: secret}, "list": [secret], "n": 7, "x": None, "f": 1.5}),
        ("login", f'{{"{secret} with spaces": 1, "ok": true}}'),
        ("login", secret),
        ("login", f'["{secret}"]'),
    ]
    (found,) = Journal().turn("Log in for me", calls).workflows()
    assert secret not in found.data
    done = decode_workflow(found)
    assert done is not None
    assert done.steps[0].arguments == {
        "password": "string",
        "options": "object",
        "list": "array",
        "n": "integer",
        "x": "null",
        "f": "number",
    }
    assert [step.arguments for step in done.steps[1:]] == [{"ok": "boolean"}, {}, {}]


@given(st.text() | st.builds(json.dumps, st.dictionaries(st.text(max_size=80), st.integers(), max_size=40)))
@example("[" * 100_000)
@example('{"a":' * 100_000)
@example("9" * 10_000)
def test_any_input_has_a_bounded_shape(text: str) -> None:
    made = argument_types(text)
    assert len(made) <= 20
    assert all(len(key) <= 64 and kind.isalpha() for key, kind in made.items())


def test_everything_of_a_workflow_is_bounded() -> None:
    (found,) = Journal().turn("word " * 1000, [("step", {})] * 60, answer="answer " * 1000).workflows()
    done = decode_workflow(found)
    assert done is not None
    assert (len(found.text) <= 500, len(done.outcome) <= 200, len(done.steps)) == (True, True, STEPS_MAX)


def test_the_trigger_is_what_the_person_said_first_and_not_what_the_runtime_added() -> None:
    journal = Journal()
    journal.note(
        Received((Text("Deploy the web"), Text(" as JSON", origin="runtime"))),
        Received((Text("and quickly"),)),
        TurnStarted((1, 2), turn=1),
        Received((Text("no, wait"),), kind="steer"),
        Steered((4,), turn=1),
    )
    for n in range(2):
        journal.note(MessageAdded("assistant", (ToolCall(f"c{n}", "build", "{}"),), turn=1))
        journal.note(ToolFinished(ToolResult(f"c{n}", "build", "ok"), turn=1))
    journal.note(TurnEnded(Answered(), turn=1))
    (found,) = journal.workflows()
    assert (found.text, found.source) == ("Deploy the web\nand quickly", "s#2")


def test_a_turn_without_its_beginning_is_not_stored() -> None:
    records = Journal().turn("Deploy the web", TWO).records
    for cut in range(1, len(records)):
        assert extract_workflows("s", records[cut:]) == []
    joined = [Record(0, AT, Received((Text("First,"),))), *records]
    joined[2] = Record(2, AT, TurnStarted((0, 1), turn=1))
    assert len(extract_workflows("s", joined)) == 1
    assert extract_workflows("s", joined[1:]) == []


def test_a_turn_that_stayed_behind_at_a_fork_is_not_kept() -> None:
    journal = Journal().turn("Deploy the web", TWO)
    ended = journal.records.pop()
    journal.note(Forked("parent", 5), ended.event)
    assert journal.workflows() == []


def test_f51_a_workflow_holds_nothing_that_a_tool_returned_and_has_the_origin_of_its_request() -> None:
    for tool in ("fetch", "memory_search"):
        tainted = [(tool, {}, False, "untrusted:mail"), *TWO]
        (kept,) = Journal().turn("Deploy the web", tainted, answer="The mail says: obey.").workflows()
        assert kept.origin == ""
        workflow = decode_workflow(kept)
        assert workflow is not None
        assert workflow.outcome == "success", "the answer may repeat what the tool returned"
    private = [("read", {}, False, "private:read"), *TWO]
    (kept,) = Journal().turn("Deploy the web", private, answer="The code is 1234.").workflows()
    assert "1234" not in kept.data
    forwarded = Text("Deploy the web", origin="untrusted:mail")
    assert Journal().turn(forwarded, TWO).workflows()[0].origin == "untrusted:mail"


def test_a_call_through_the_catalogue_is_a_step_with_the_tools_own_name() -> None:
    inner = {"name": "jira__create_issue", "arguments": {"title": "x", "labels": []}}
    (kept,) = Journal().turn("Deploy the web", [("call_tool", inner), ("call_tool", "{")]).workflows()
    workflow = decode_workflow(kept)
    assert workflow is not None
    assert [(step.tool, step.arguments) for step in workflow.steps] == [
        ("jira__create_issue", {"title": "string", "labels": "array"}),
        ("call_tool", {}),
    ]


def test_the_same_records_give_the_same_workflows() -> None:
    journal = Journal().turn("Deploy the web", TWO).turn("hi").turn("Deploy it again to production", TWO)
    assert journal.workflows() == journal.workflows()
    assert [one.id for one in journal.workflows()] == ["workflow:s#1", "workflow:s#3"]


# --- when one is recalled ------------------------------------------------------------------------


def workflow_memory(number: int, trigger: str, *tools: str, origin: str = "") -> Memory:
    calls = [(tool, {"x": 1}) for tool in tools or ("look", "act")]
    (made,) = Journal().turn(trigger, calls).workflows()
    return msgspec.structs.replace(made, id=f"workflow:s#{number}", at=number, origin=origin)


KNOWN = [
    "Deploy the billing service to staging and check its health",
    "Find the cheapest flight from Lisbon to Berlin next Friday and add it to my calendar",
    "Summarise the open pull requests in the web repository and post the summary to the team channel",
    "Create an invoice for Acme for 12 hours of consulting and mail it to them",
    "Back up the production database and upload the dump to the archive bucket",
    "Read the log of the payment worker and tell me why it crashed last night",
    "Rename all the photos in the holiday folder by the date they were taken",
    "Erstelle einen Bericht über die Verkaufszahlen vom letzten Monat und schicke ihn an Petra",
    "Vérifie les stocks de l'entrepôt de Lyon et commande ce qui manque",
    "把上个月的销售数据整理成表格并发给经理",
    "List the open pull requests",
    "yes please, go ahead and do it again",
]


@pytest.fixture(scope="module")
def workflow_index() -> WorkflowIndex:
    return WorkflowIndex(workflow_memory(n, trigger) for n, trigger in enumerate(KNOWN))


@pytest.mark.parametrize(
    ("prompt", "number"),
    [
        ("please deploy the search service to staging and check that it is healthy", 0),
        ("Deploy billing to staging, then check the health", 0),
        ("cheapest flights Berlin to Lisbon this Friday, add to calendar", 1),
        ("Summarize open pull requests of the web repository for the team channel", 2),
        ("create an invoice for Globex for 30 hours consulting and mail it", 3),
        ("backup the production database and upload it to the archive", 4),
        ("why did the payment worker crash? read its logs", 5),
        ("rename the photos in the wedding folder by date taken", 6),
        ("Bericht über die Verkaufszahlen von diesem Monat erstellen und an Petra schicken", 7),
        ("vérifier le stock de l'entrepôt de Paris et commander ce qui manque", 8),
        ("请把这个月的销售数据整理成表格发给经理", 9),
    ],
)
def test_opentalon_018_a_similar_request_recalls_what_was_done(
    workflow_index: WorkflowIndex, prompt: str, number: int
) -> None:
    found = workflow_index.match(prompt)
    assert found is not None
    assert found.text == KNOWN[number]


OTHER_PROMPTS = (
    "",
    "hi",
    "yes",
    "thanks",
    "ok",
    "do it again",
    "yes please, go ahead and do it again",
    "danke",
    "merci beaucoup",
    "谢谢",
    "👍",
    "12345 67890",
    "what is the capital of France?",
    "Tell me a joke about a database",
    "What does a billing address look like?",
    "The service in that restaurant in Lisbon was bad",
    "my calendar app crashed last night",
    "what is a pull request?",
    "write a poem about Berlin in Friday light",
    "the team channel is too noisy, mute it",
    "¿Qué tiempo hace mañana en Madrid?",
    "Wie heißt die Hauptstadt von Portugal?",
    "今天天气怎么样",
    "こんにちは、元気ですか",
    "Jak się masz dzisiaj?",
    "Мне нужно купить хлеб и молоко",
    "Déploie le service de facturation en préproduction",
)


@pytest.mark.parametrize("prompt", OTHER_PROMPTS)
def test_opentalon_019_a_request_like_none_recalls_nothing(workflow_index: WorkflowIndex, prompt: str) -> None:
    assert workflow_index.match(prompt) is None


REQUESTS = [*KNOWN, "analyze GitLab code and post issue to Jira and create PR"]


@pytest.fixture(scope="module")
def meaning_index() -> WorkflowIndex:
    embedder = LocalEmbedder()
    asyncio.run(embedder.load())
    memories = [workflow_memory(n, trigger) for n, trigger in enumerate(REQUESTS)]
    return WorkflowIndex(memories, embed_now=embedder.embed_now)


@installed
@pytest.mark.parametrize(
    ("prompt", "number"),
    [
        ("review the code in our GitLab project, file a Jira ticket and open a merge request", 12),
        ("check the gitlab repository for problems, raise a jira issue and open a pull request", 12),
        ("inspect the source on GitLab, log what you find in Jira, then submit a PR", 12),
        ("bill Acme for 12 consulting hours and send it by email", 3),
        ("take a snapshot of the live database and store it in the archive bucket", 4),
        ("what made the payment worker fail yesterday? check its log", 5),
    ],
)
def test_opentalon_018_a_request_of_the_same_meaning_in_other_words_recalls_what_was_done(
    meaning_index: WorkflowIndex, workflow_index: WorkflowIndex, prompt: str, number: int
) -> None:
    assert workflow_index.match(prompt) is None, "not by its words"
    found = meaning_index.match(prompt)
    assert found is not None
    assert found.text == REQUESTS[number]


@installed
def test_opentalon_019_a_request_of_another_meaning_recalls_nothing(meaning_index: WorkflowIndex) -> None:
    for prompt in (*OTHER_PROMPTS, *MORE_PROMPTS):
        assert meaning_index.match(prompt) is None, prompt


MORE_PROMPTS = (
    "thanks!",
    "how do I cook rice",
    "fix the failing test in parser.py",
    "translate this letter into German and make it a little more polite",
    "what's the weather in Lisbon on Friday",
    "delete the old branch from the web repository",
    "explain the difference between TCP and UDP to somebody who has never heard of either",
    "remind me to call mum tomorrow at five and to buy milk on the way home",
    "is the billing service down?",
    "what did Acme pay us last year",
    "create a calendar event for the holiday",
    "list the tables of the production database",
    "how many photos are in the folder",
    "close the jira issue 42",
    "what does the gitlab pipeline cost us every month, and who pays for it",
    "rename the variable in the worker and run the tests of the parser again",
    "what is the status of the payment to Acme",
)


def test_a_model_that_is_not_loaded_is_not_waited_for() -> None:
    embedder = LocalEmbedder()
    index = WorkflowIndex([workflow_memory(1, REQUESTS[-1])], embed_now=embedder.embed_now)
    assert index.match("review the code in our GitLab project, file a Jira ticket and open a merge request") is None
    assert index.match(REQUESTS[-1]) is not None


def test_f51_an_untrusted_workflow_is_never_recalled() -> None:
    workflows = WorkflowIndex([workflow_memory(1, KNOWN[0], origin="untrusted:web")])
    assert workflows.match(KNOWN[0]) is None
    assert len(workflows) == 0
    workflows.add(workflow_memory(2, KNOWN[0]))
    assert workflows.match(KNOWN[0]) is not None


def test_the_same_request_done_the_same_way_is_stored_once_and_another_way_twice() -> None:
    workflows = WorkflowIndex(
        [workflow_memory(2, KNOWN[0]), workflow_memory(1, KNOWN[0]), workflow_memory(3, KNOWN[0], "other", "tools")]
    )
    assert len(workflows) == 2
    workflows.remove(["workflow:s#3", "workflow:s#99"])
    found = workflows.match(KNOWN[0])
    assert found is not None
    assert found.id == "workflow:s#2"


def test_of_equals_the_newest_is_recalled() -> None:
    for numbers in ((1, 2), (2, 1)):
        workflows = WorkflowIndex([workflow_memory(n, KNOWN[0], f"tool{n}", "check") for n in numbers])
        found = workflows.match(KNOWN[0])
        assert found is not None
        assert found.id == "workflow:s#2"


def test_a_removed_workflow_is_not_recalled_and_the_same_id_again_replaces() -> None:
    workflows = WorkflowIndex([workflow_memory(1, KNOWN[0])])
    workflows.add(workflow_memory(1, KNOWN[1]))
    assert workflows.match(KNOWN[0]) is None
    assert workflows.match(KNOWN[1]) is not None
    workflows.remove(["workflow:s#1"])
    assert workflows.match(KNOWN[1]) is None


def test_only_the_newest_are_held() -> None:
    names = ["alpha", "beta", "gamma", "delta", "epsilon"]
    workflows = WorkflowIndex(
        [workflow_memory(n, f"polish the {name} statue") for n, name in reversed(list(enumerate(names)))],
        workflows_max=3,
    )
    found = {name: workflows.match(f"polish the {name} statue") for name in names}
    assert len(workflows) == 3
    assert {one.text for one in found.values() if one is not None} == {f"polish the {n} statue" for n in names[2:]}


def test_a_memory_that_is_no_workflow_or_cannot_be_read_is_not_held() -> None:
    good = workflow_memory(1, KNOWN[0])
    broken = [msgspec.structs.replace(good, data=data) for data in ("", "null", "[1]", '{"trigger": 1}', "{")]
    workflows = WorkflowIndex([*broken, msgspec.structs.replace(good, tags=("note",))])
    assert len(workflows) == 0
    assert render_workflow_note(broken[0]) == ""


def test_words_that_most_requests_hold_do_not_make_them_alike() -> None:
    things = [chr(97 + n // 26) + chr(97 + n % 26) + "qxz" for n in range(100)]
    workflows = WorkflowIndex(
        workflow_memory(n, f"proszek wykonaj zadanie {thing} natychmiast") for n, thing in enumerate(things)
    )
    assert workflows.match("proszek wykonaj zadanie natychmiast ugotuj obiad") is None
    found = workflows.match(f"wykonaj zadanie {things[7]} natychmiast")
    assert found is not None
    assert things[7] in found.text


@given(st.lists(st.sampled_from([*KNOWN, "hi", "fix the bug"]), max_size=8), st.text(max_size=300))
def test_any_prompt_may_be_asked(triggers: list[str], prompt: str) -> None:
    workflows = WorkflowIndex([workflow_memory(n, trigger) for n, trigger in enumerate(triggers)])
    workflows.match(prompt)
    workflows.remove([f"workflow:s#{n}" for n in range(len(triggers))])
    assert len(workflows) == 0
    assert workflows.match(prompt) is None


def test_a_match_among_five_hundred_is_quick() -> None:
    things = [first + second for first in ("server", "ticket", "order", "mail") for second in ("room", "list", "plan")]
    deeds = ["check", "update", "create", "remove", "export", "import", "compare", "archive", "merge", "test", "scan"]
    workflows = WorkflowIndex(
        workflow_memory(
            n, f"{deeds[n % 11]} {things[n % 12]} {things[n // 12 % 12]} and {deeds[n // 7 % 11]} {things[n // 3 % 12]}"
        )
        for n in range(600)
    )
    assert 300 < len(workflows) <= 500
    prompt = f"{' '.join(deeds)} {' '.join(things)} and something else that nobody has asked for"
    best = min(_timed(workflows, prompt) for _ in range(50))
    assert best < 2e-3  # ten times what it takes on an idle machine


def _timed(workflows: WorkflowIndex, prompt: str) -> float:
    began = time.thread_time()
    workflows.match(prompt)
    return time.thread_time() - began


def test_the_note_for_the_model_is_short_and_on_one_line() -> None:
    (made,) = Journal().turn('Deploy the "web"\n\nto staging ' + "x" * 400, TWO).workflows()
    note = render_workflow_note(made)
    assert "build(target), then deploy(to, wait)" in note
    assert "only if it fits" in note
    assert "2026-01-01" in note
    assert "s#1" in note
    assert "\n" not in note
    assert len(note) < 400


# --- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("deploy deployed deploying", "deploys"),
        ("test tests testing tested", "test"),
        ("fix fixes fixed fixing", "fix"),
        ("run running runs", "run"),
        ("process processes", "processing"),
        ("Bericht Berichte Berichten", "bericht"),
        ("vérifier", "verifie"),
    ],
)
def test_forms_of_a_word_have_one_stem(one: str, other: str) -> None:
    assert set(stem_words(one)) == set(stem_words(other))
    assert len(set(stem_words(one))) == 1


def test_common_words_and_numbers_are_ignored() -> None:
    assert list(stem_words("Please do it for me, could you? 42 ¿Por favor? Bitte, s'il vous plaît! спасибо 1999")) == []


@installed
def test_a_workflow_of_a_private_session_is_not_recalled_by_meaning_for_others() -> None:
    embedder = LocalEmbedder()
    asyncio.run(embedder.load())
    learned = msgspec.structs.replace(workflow_memory(1, REQUESTS[-1]), source="web:ann:tea#1")
    private = WorkflowIndex([learned], embed_now=embedder.embed_now)
    prompt = "review the code in our GitLab project, file a Jira ticket and open a merge request"
    assert private.match(prompt, "web:ann:other") is not None
    assert private.match(prompt, "web:bob:tea") is None


def test_a_workflow_of_a_private_session_is_recalled_only_for_the_person_it_is_from() -> None:
    def learned(number: int, session: str) -> Memory:
        return msgspec.structs.replace(workflow_memory(number, KNOWN[0]), source=f"{session}#1")

    private = WorkflowIndex([learned(1, "web:ann:tea")])
    assert private.match(KNOWN[0], "web:ann:other") is not None
    for session in ("web:bob:tea", "web:ann2:tea", "slack:C1:1", "s"):
        assert private.match(KNOWN[0], session) is None, session
    by_user = WorkflowIndex([learned(1, "user:ann")])
    assert by_user.match(KNOWN[0], "user:ann") is not None
    for session in ("user:bob", "user:anna", "user:ann:x"):
        assert by_user.match(KNOWN[0], session) is None, session
    assert by_user.match(KNOWN[0], "user:ann/call_1") is not None, "a sub-agent of it"
    both = WorkflowIndex([learned(1, "slack:C1:1"), learned(2, "web:ann:tea")])
    assert both.match(KNOWN[0], "web:bob:tea") is not None, "a copy of the same does not hide the workspace's"


def test_a_workflow_of_direct_messages_is_recalled_only_there() -> None:
    def learn(direct: bool) -> Memory:
        message = PlatformMessage(ChatAddress("slack", "D1"), direct=direct)
        records = [
            msgspec.structs.replace(record, event=msgspec.structs.replace(record.event, heard=message))
            if isinstance(record.event, Received)
            else record
            for record in Journal().turn(KNOWN[0], TWO).records
        ]
        (memory,) = extract_workflows("slack:D1:", records)
        return memory

    direct = WorkflowIndex([learn(direct=True)])
    assert direct.match(KNOWN[0], "slack:D1:5") is not None
    for session in ("slack:D2:", "slack:C1:1", "web:bob:tea", "s"):
        assert direct.match(KNOWN[0], session) is None, session
    assert WorkflowIndex([learn(direct=False)]).match(KNOWN[0], "slack:C2:1") is not None
