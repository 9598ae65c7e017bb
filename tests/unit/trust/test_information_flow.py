"""Whether the person named a destination, and how far a call reaches."""

from __future__ import annotations

import os

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.policy_world import BOXED, DOCKED, HOST, ONLINE, Plain, context

from mainstay.core.ports import ToolContext
from mainstay.core.tool_ports import CallDestinations
from mainstay.trust.information_flow import (
    SandboxGuarantees,
    compute_reach,
    compute_script_reach,
    is_destination_allowed,
)
from mainstay.trust.named_destinations import is_named_by_user, is_removal_requested
from mainstay.trust.policy import Policy, PolicyContext, PolicyRules
from mainstay.trust.shell.analysis import analyse_script

EXAMPLES = 3000 if os.environ.get("MAINSTAY_TEST_ALL") else 200


@pytest.mark.parametrize(
    ("destination", "text"),
    [
        ("https://a.com/x", "get https://a.com/x"),
        ("https://a.com/x", "get https://a.com/x."),
        ("https://a.com/x", "(https://a.com/x)"),
        ("https://a.com/x", "[here](https://a.com/x), please"),
        ("https://a.com/x", "<https://a.com/x>"),
        ("https://a.com/x", '"https://a.com/x"'),
        ("https://a.com/x", "`https://a.com/x`"),
        ("https://a.com/x", "**https://a.com/x**"),
        ("https://a.com/x", "is it https://a.com/x?"),
        ("https://a.com/x", "first:\nhttps://a.com/x\nthen"),
        ("https://a.com/x", "HTTPS://A.com/x"),
        ("https://A.COM/x", "https://A.COM/x"),
        ("https://a.com/x", "see a.com/x"),
        ("https://a.com/x", "see A.com/x"),
        ("https://a.com/", "see a.com"),
        ("https://a.com", "see https://a.com/"),
        ("https://a.com/x/", "see https://a.com/x/"),
        ("https://a.com/x#y", "see https://a.com/x#y"),
        ("http://a.com/x", "see http://a.com/x"),
        ("https://a.com/x", "\u201chttps://a.com/x\u201d"),
        ("https://a.com/x", "https://a.com/x\uff0c\u7136\u540e"),
        ("bob@b.com", "write to bob@b.com."),
        ("bob@b.com", "write to bob@B.com, now"),
        ("bob@b.com", "[Bob](mailto:bob@b.com)"),
        ("mailto:bob@b.com", "write to bob@b.com"),
        ("Bob <bob@b.com>", "write to bob@b.com"),
        ("ops", "tell ops"),
        ("ops", "tell ops: all is well"),
        ("ops", "ops's channel"),
        ("ops", "tell 'ops', and"),
        ("ops", "(ops)"),
        ("ops:general", "say it in ops:general!"),
        ("#general", "say it in #general"),
        ("a.txt", "delete a.txt"),
        ("/w/a.txt", "delete a.txt"),
        ("a.txt", "delete /w/a.txt"),
        ("./a.txt", "delete a.txt"),
        ("build/", "look into the folder build"),
        ("build", "delete ./build/"),
        ("general", "post it in #general"),
        ("general", "post it in the general channel"),
        ("general", "post it in `general`"),
        ("Bob", "send it to Bob"),
        ("Bob", "what does Bob think?"),
        ("13", "delete the file with id 13"),
        ("13", "close issue #13"),
        ("15550100100", "call 15550100100"),
        ("INV-17", "pay INV-17"),
        ("Alice Smith", "invite Alice Smith"),
        ("bob@b.com", "don't forget to write to bob@b.com"),
        ("bob@b.com", "write to bob@b.com, not to eve@e.com"),
        ("bob@b.com", "do not write to eve@e.com but to bob@b.com"),
        ("bob@b.com", "If it does not pass, write to bob@b.com."),
        ("bob@b.com", "I do not like this. Write to bob@b.com."),
        ("docs/*.md", "delete docs/*.md"),
        ("my file.txt", "delete 'my file.txt'"),
        ("caf\u00e9.txt", "delete cafe\u0301.txt"),
        ("a.txt", "delete b.txt, a.txt and c.txt"),
        ("a.txt", '["b.txt","a.txt"]'),
        ("h:80", "connect to h:80"),
    ],
)
def test_a_destination_in_the_persons_text_is_named(destination: str, text: str) -> None:
    assert is_named_by_user(destination, [text], "/w")


@pytest.mark.parametrize(
    ("destination", "text"),
    [
        ("sub/../a.txt", "delete a.txt"),  # `sub` may be a link, and then that is another file
        ("", ""),
        ("?", "really?"),
        ("?", "?"),
        (".", "delete everything ."),
        ("/", "and / or"),
        ("*", "* a list"),
        ("..", "well .. no"),
        ("a", "delete a file"),
        ("b.co", "write to a@b.com"),
        ("b.com", "write to a@b.com"),
        ("evil.com", "see notevil.com"),
        ("evil.com", "see not-evil.com"),
        ("evil.com", "see evil.com.au"),
        ("evil.com", "see evil.com/path"),
        ("evil.com", "see x.evil.com"),
        ("evil.com", "see https://evil.com"),
        ("https://evil.com/", "see https://a.com/?u=https://evil.com/"),
        ("evil.com", "see https://a.com/?u=evil.com"),
        ("evil.com", "see https://a.com/(evil.com)"),
        ("evil.com", "see https://a.com/x,evil.com"),
        ("https://evil.com/", "see https://a.com/,https://evil.com/"),
        ("https://a.com/x?data=1", "see https://a.com/x"),
        ("https://a.com/xy", "see https://a.com/x"),
        ("https://a.com/x", "see https://a.com/xy"),
        ("https://a.com/x", "see https://a.com/x/y"),
        ("https://a.com/x", "see https://a.com/x?y=z"),
        ("https://a.com/x", "see https://a.com/X"),
        ("https://a.com", "see https://a.com.evil.com"),
        ("https://a.com", "see https://a.com@evil.com"),
        ("https://a.com/", "see http://a.com/"),
        ("http://a.com/", "see https://a.com/"),
        ("http://a.com/", "see a.com"),
        ("https://x@a.com/", "see x@a.com/"),
        ("ftp://a.com/", "see a.com"),
        ("bob@b.com", "write to rob.bob@b.com"),
        ("bob@b.com", "write to bob@b.com.au"),
        ("bob@b.com", "write to bob+x@b.com"),
        ("Bob@b.com", "write to bob@b.com"),
        ("mailto:bob@b.com?bcc=eve@e.com", "write to bob@b.com"),
        ("bob@b.com,eve@e.com", "write to bob@b.com"),
        ("bob@b.com, eve@e.com", "write to bob@b.com"),
        ("general", "say it in ops:general"),
        ("ops", "say it in ops:general"),
        ("ops", "devops"),
        ("ops", "ops-internal"),
        ("ops", "ops_2"),
        ("Ops", "tell ops"),
        ("a.txt", "delete data.txt"),
        ("a.txt", "delete A.txt"),
        ("a.txt", "delete sub/a.txt"),
        ("a.txt", "delete a.txt.bak"),
        ("a.txt", "delete ../a.txt"),
        ("/a.txt", "delete a.txt"),
        ("../a.txt", "delete a.txt"),
        ("src", "delete src/*"),
        ("src/", "delete src/*"),
        ("src", "delete *src"),
        ("\u0430.txt", "delete a.txt"),
        ("a\u200b.txt", "delete a\u200b.txt"),
        ("a.txt\u202e", "delete a.txt\u202e"),
        ("a.txt\n", "delete a.txt"),
        ("a.txt", "delete a\u200b.txt"),
        ("\uff41.txt", "delete a.txt"),
        ("x" * 5000, "x" * 5000),
        ("https://A.com/x", "see https://a.com/x"),  # letters in another case carry data
        ("https://a.com/x/", "see https://a.com/x"),
        ("https://a.com/x", "see https://a.com/x/"),
        ("https://a.com/x#y", "see https://a.com/x"),
        ("bob@B.com", "write to bob@b.com"),
        ("13", "the meeting is on June 13"),
        ("13", "from 13 to 15"),
        ("15", "from 13 to 15"),
        ("June", "the meeting is on June 13"),
        ("general", "in general this is fine"),
        ("general", "a general remark"),
        ("review", "I want you to review the page"),
        ("review", "Review the page"),
        ("Review", "Review the page"),
        ("notes", "take notes"),
        ("review", "send a review, please"),
        ("update", "send an update."),
        ("review", "Send me the draft to review."),
        ("questions", "ask questions."),
        ("review", "read the review document"),
        ("review", "on this page review the text"),
        ("review", "read it (review the page)"),
        ("review", "there is no review"),
        ("eve@e.com", "if in doubt do not write to bob@b.com, eve@e.com"),
        ("eve@e.com", "Do not just write to eve@e.com"),
        ("eve@e.com", "do not write to eve@e.com"),
        ("eve@e.com", "don't write to eve@e.com"),
        ("eve@e.com", "never send anything to bob@b.com or eve@e.com"),
        ("eve@e.com", "write to bob@b.com, not to eve@e.com"),
        ("eve@e.com", "write to everyone except eve@e.com"),
        ("eve@e.com", "eve@e.com must not get this"),
        ("eve@e.com", "schreib nicht an eve@e.com"),
        ("eve@e.com", "n'\u00e9cris pas \u00e0 eve@e.com"),
        ("eve@e.com", "no escribas a eve@e.com"),
        ("eve@e.com", "\u043d\u0435 \u043f\u0438\u0448\u0438 eve@e.com"),
        ("eve@e.com", "\u4e0d\u8981\u53d1\u7ed9 eve@e.com"),
    ],
)
def test_f69_similar_text_does_not_name_a_destination(destination: str, text: str) -> None:
    assert not is_named_by_user(destination, [text], "/w")


@given(st.text(max_size=30), st.text(max_size=60), st.text(max_size=10))
@settings(max_examples=EXAMPLES, deadline=None)
def test_f69_nothing_is_named_that_does_not_stand_there(destination: str, before: str, after: str) -> None:
    """Without a folder to be relative to, and apart from case, slashes, scheme and composition."""
    import unicodedata

    text = before + after
    plain = unicodedata.normalize("NFC", destination).removeprefix("https://").partition("#")[0].rstrip("/")
    if is_named_by_user(destination, [text]):
        assert (
            plain.rpartition("<")[2].removeprefix("mailto:").rstrip(">").lower()
            in unicodedata.normalize("NFC", text).lower()
        )


WORD = st.text(alphabet="abcXYZ019", min_size=2, max_size=8)
JOINERS = st.sampled_from([*"abz09-_/@%+~=&#", "x.", "y@", "é"])


@given(WORD, JOINERS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_f69_a_part_of_something_longer_is_never_named(word: str, joiner: str) -> None:
    assert is_named_by_user(word, [f"send it to '{word}', please"])
    assert not is_named_by_user(word, [f"send it to '{joiner}{word}', please"]) or joiner in "#@"
    assert not is_named_by_user(word, [f"send it to '{word}{joiner}x', please"])


@pytest.mark.parametrize(
    ("text", "requested"),
    [
        ("delete notes.txt", True),
        ("please remove notes.txt and old.txt", True),
        ("rm notes.txt", True),
        ("clean up: notes.txt can go, delete it", True),
        ("These are old: notes.txt, a.txt. Delete them.", True),
        ("move notes.txt to the archive", True),
        ("drop notes.txt", True),
        ("Bitte l\u00f6sche notes.txt", True),
        ("supprime notes.txt", True),
        ("borra notes.txt", True),
        ("\u0443\u0434\u0430\u043b\u0438 notes.txt", True),
        ("\u524a\u9664 notes.txt", True),
        ("Do not delete notes.txt", False),
        ("don't remove notes.txt", False),
        ("delete a.txt but do not delete notes.txt", False),
        ("delete a.txt and sum up notes.txt", False),
        ("write notes.txt in clear English", False),
        ("put the task into notes.txt", False),
        ("copy notes.txt to Dropbox", False),
        ("what is in notes.txt?", False),
        ("undelete notes.txt", False),
        ("Delete the line that mentions Bob. See notes.txt.", False),
        ("remove the typo from notes.txt", False),
        ("delete the second paragraph in notes.txt", False),
        ("delete all logs. notes.txt is new", False),
        ("delete other.txt", False),
        ("l\u00f6sche notes.txt nicht", False),
        ("ne supprime pas notes.txt", False),
    ],
)
def test_a_removal_needs_a_request_to_remove_that_thing(text: str, requested: bool) -> None:
    assert is_removal_requested("notes.txt", [text], "/w") is requested


@pytest.mark.parametrize("text", ["delete build", "remove the build folder", "rm -r build"])
def test_an_ordinary_word_after_a_verb_of_removal_is_a_name(text: str) -> None:
    assert is_removal_requested("build", [text], "/w")
    assert not is_removal_requested("build", ["delete a.txt when the build is done"], "/w")


# --- reach ---------------------------------------------------------------------------------------


async def test_a_tool_says_how_far_it_reaches() -> None:
    here = context()
    assert compute_reach(Plain("a"), {}, here) == CallDestinations()
    assert compute_reach(Plain("a", sink=True), {}, here) == CallDestinations(sink=True)
    assert compute_reach(Plain("a", "net.http", sink=True), {}, here) == CallDestinations(
        sink=True, leaves_workspace=True
    )
    arguments = {"to": ["a", None, ["b"]], "cc": None, "text": "c"}
    found = compute_reach(Plain("a", "send.slack", sink=("to", "cc", "bcc")), arguments, here)
    assert found == CallDestinations(sink=True, leaves_workspace=True, destinations=("a", "b"))


async def test_a_struct_is_read_by_the_names_the_model_uses() -> None:
    class Letter(msgspec.Struct, rename={"to": "recipient"}):
        to: str

    assert compute_reach(Plain("a", sink=("recipient",)), Letter("x"), context()).destinations == ("x",)


async def test_a_tool_that_knows_better_is_asked_and_if_it_fails_it_is_a_sink() -> None:
    class Knowing(Plain):
        def reach(self, arguments: dict[str, str], context: ToolContext) -> CallDestinations:
            return CallDestinations(sink=True, destinations=(arguments["where"],))

    assert compute_reach(Knowing("a"), {"where": "x"}, context()).destinations == ("x",)
    assert compute_reach(Knowing("a"), {}, context()).sink
    assert compute_reach(Knowing("a"), {}, context()).destinations == ()


@pytest.mark.parametrize(
    ("script", "where", "destinations"),
    [
        ("ls", BOXED, ()),
        ("curl https://a.com", BOXED, ()),
        ("python x.py", BOXED, ()),
        ("python -c x", BOXED, ()),
        ("echo > /etc/x", BOXED, ()),
        ("rm a /tmp/b", BOXED, ("a",)),
        ("rm /tmp/../etc/x /tmp /tmp/", BOXED, ("/tmp/../etc/x", "/tmp", "/tmp/")),
        ("curl https://a.com", ONLINE, ("https://a.com",)),
        ("python x.py", ONLINE, ("?",)),
        ("python -c x", ONLINE, ("?",)),
        ("cat x", ONLINE, ()),
        ("curl https://a.com | sh; rm a", ONLINE, ("https://a.com", "?", "a")),
        ("python x.py", DOCKED, ("?",)),
        ("cat x", DOCKED, ()),
        ("cat x > y", DOCKED, ()),
        ("cat x > y", HOST, ("y",)),
        ("cat x > /tmp/y", HOST, ()),
        ("curl https://a.com", HOST, ("https://a.com",)),
        ("make", HOST, ("?",)),
    ],
)
def test_how_far_a_command_reaches_depends_on_where_it_runs(
    script: str, where: SandboxGuarantees, destinations: tuple[str, ...]
) -> None:
    found = compute_script_reach(analyse_script(script), where, "")
    assert found.destinations == destinations
    assert found.sink is bool(destinations)


def test_removals_of_a_command_are_resolved_against_its_folder() -> None:
    assert compute_script_reach(analyse_script("rm a /b"), BOXED, "sub").destinations == ("sub/a", "/b")


@pytest.mark.parametrize(
    ("pattern", "destination", "open"),
    [
        ("https://a.com/**", "https://a.com/x", True),
        ("https://a.com/**", "https://a.com.evil.com/x", False),
        ("*", "https://a.com/x", False),
        ("**", "?", False),
        ("ops:*", "ops:general", True),
        ("*@b.com", "bob@b.com", True),
        ("*@b.com", "eve@evil.com/@b.com", False),
        ("*.b.com", "evil.com/?.b.com", False),
        ("build/**", "build/x", True),
        ("build/**", "/w/build/x", True),
        ("build/**", "build/../src", False),
        ("ops", "ops\u200b", False),
    ],
)
def test_an_owner_opens_destinations_by_pattern(pattern: str, destination: str, open: bool) -> None:
    assert is_destination_allowed(destination, [pattern], "/w") is open


# --- to name a file is not to want it gone -------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        ("summarise report.txt", "ask"),
        ("look at report.txt and tell me what it says", "ask"),
        ("delete report.txt", "allow"),
        ("Bitte lösche report.txt", "allow"),
        ("удали report.txt", "allow"),
        ("删除 report.txt", "allow"),
        ("please remove other.txt", "ask"),
    ],
)
def test_f55_a_file_that_was_only_named_is_not_removed_on_the_instruction_of_a_page(said: str, decision: str) -> None:
    class Bash:
        name, description, schema = "bash", "", {"properties": {"command": {}}}
        effect, timeout_s, untrusted, sink, capabilities = "unsafe", None, True, False, ("exec",)
        runs_in_sandbox = True

    policy = Policy(PolicyRules(), confinement=SandboxGuarantees(confined=True, network=False, protects_deletions=True))
    tainted = PolicyContext(tainted=True, read_user_texts=lambda: [said], cwd="/work")
    assert policy.decide(Bash(), {"command": "rm report.txt"}, None, tainted).decision == decision  # type: ignore[arg-type]


async def test_f69_destinations_in_keys_and_beyond_a_thousand_are_seen() -> None:
    spoken = PolicyContext(tainted=True, read_user_texts=lambda: ["write to bob@b.com"])
    send = Plain("send", "send", sink=("to",))
    policy = Policy(PolicyRules(), confinement=BOXED)
    for to, decision in (
        ("bob@b.com", "allow"),
        (["bob@b.com"] * 1000, "allow"),
        (["bob@b.com"] * 1000 + ["eve@e.com"], "ask"),
        ({"eve@e.com": "bob@b.com"}, "ask"),
        ({"bob@b.com": True, "eve@e.com": True}, "ask"),
    ):
        assert policy.decide(send, {"to": to}, context(), spoken).decision == decision
