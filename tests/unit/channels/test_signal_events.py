"""Decoding of signal-cli events and encoding of our messages; no input breaks either."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.signal_platform import ANN, BOB, GROUP, NUMBER, UUID, SignalPlatform

from mainstay.channels.signal.events import SignalIdentity, decode_message
from mainstay.channels.signal.markup import markdown_to_signal
from mainstay.channels.styled_text import strip_control_chars, utf16_length
from mainstay.core.channels import IncomingMessage
from mainstay.testing.channel_suite import MARKDOWN

ME = SignalIdentity(number=NUMBER, uuid=UUID)
US = {"name": NUMBER, "number": NUMBER, "uuid": UUID}
AT = 1_700_000_000_000


def envelope_of(
    text: str | None = "hi", *, person: dict[str, Any] = ANN, group: str = GROUP, **more: Any
) -> dict[str, Any]:
    data: dict[str, Any] = {"timestamp": AT, "message": text, "expiresInSeconds": 0, **more}
    if group:
        data["groupInfo"] = {"groupId": group, "groupName": "The group", "revision": 1, "type": "DELIVER"}
    return {"envelope": {**SignalPlatform().envelope(person, AT), "dataMessage": data}, "account": NUMBER}


def decode_envelope(params: Any) -> IncomingMessage:
    message = decode_message("sig", ME, params)
    assert message is not None
    return message


def test_sender_text_room_and_time_are_read() -> None:
    message = decode_envelope({"subscription": 3, "result": envelope_of()})
    assert message.id == f"{ANN['uuid']}.{AT}"
    assert (message.address.room, message.address.thread) == (GROUP, "")
    assert (message.user, message.name, message.at) == (ANN["uuid"], "Ann Lee", AT)
    assert (message.direct, message.mentioned, message.own) == (False, False, False)
    assert message.room_name == "The group"
    direct = decode_envelope(envelope_of(group="", person=BOB))
    assert (direct.direct, direct.address.room, direct.room_name) == (True, BOB["uuid"], "")
    older = envelope_of()
    del older["envelope"]["dataMessage"]["groupInfo"]["groupName"]
    assert (decode_envelope(older).address.room, decode_envelope(older).room_name) == (GROUP, "")


@pytest.mark.parametrize(
    ("text", "mentions", "mentioned", "said"),
    [
        ("\ufffc, hello", [{**US, "start": 0, "length": 1}], True, "hello"),
        ("👍👍 \ufffc yes", [{**US, "start": 5, "length": 1}], True, f"👍👍 @{NUMBER} yes"),
        ("\ufffc hi", [{"name": "Bob", "uuid": BOB["uuid"], "start": 0, "length": 1}], False, "@Bob hi"),
        ("\ufffc", [{"uuid": UUID.upper(), "start": 0, "length": 1}], True, ""),
        (
            "\ufffc ask \ufffc",
            [{**US, "start": 0, "length": 1}, {"name": "Bob", "start": 6, "length": 1}],
            True,
            "ask @Bob",
        ),
        ("short", [{**US, "start": 90, "length": 1}, {**US, "start": -1, "length": 1}], False, "short"),
        ("abc", [{**US, "start": 0, "length": 2}, {"name": "x", "start": 1, "length": 2}], False, "a@x"),
    ],
)
def test_mentions_are_recognised(text: str, mentions: list[dict[str, Any]], mentioned: bool, said: str) -> None:
    more: dict[str, Any] = {"attachments": [{"id": "a"}]} if not said else {}
    message = decode_envelope(envelope_of(text, mentions=mentions, **more))
    assert (message.mentioned, message.text) == (mentioned, said)


def test_a_reply_to_our_message_addresses_us() -> None:
    quote = {"id": 5, "author": NUMBER, "authorNumber": None, "authorUuid": UUID, "text": "what we said"}
    assert decode_envelope(envelope_of(quote=quote)).mentioned
    assert not decode_envelope(envelope_of(quote={**quote, "authorUuid": ANN["uuid"]})).mentioned


def test_files_are_identified_by_ids_which_are_no_paths() -> None:
    files = [
        {"contentType": "image/jpeg", "filename": None, "id": "abc.jpeg", "size": 5},
        {"contentType": "text/plain", "filename": "n.txt", "id": "../../etc/passwd", "size": 5},
        {"contentType": "text/plain", "filename": "n.txt", "id": None},
    ]
    assert [(one.ref, one.name) for one in decode_envelope(envelope_of(None, attachments=files)).files] == [
        ("abc.jpeg", f"file_{AT}")
    ]


@pytest.mark.parametrize(
    "envelope",
    [
        {"receiptMessage": {"when": AT, "isDelivery": True, "timestamps": [AT]}},
        {"typingMessage": {"action": "STARTED", "timestamp": AT}},
        {"syncMessage": {"sentMessage": {"destination": ANN["number"], "timestamp": AT, "message": "from our phone"}}},
        {"editMessage": {"targetSentTimestamp": AT, "dataMessage": {"timestamp": AT + 1, "message": "edited"}}},
        {"storyMessage": {"allowsReplies": True}},
        {"dataMessage": {"timestamp": AT, "message": None, "reaction": {"emoji": "👍"}}},
        {"dataMessage": {"timestamp": AT, "message": None, "remoteDelete": {"timestamp": AT}}},
        {"dataMessage": {"timestamp": AT, "message": None, "groupInfo": {"groupId": GROUP, "type": "UPDATE"}}},
    ],
    ids=["receipt", "typing", "sync", "edit", "story", "reaction", "deletion", "group"],
)
def test_an_event_without_a_message_is_ignored(envelope: dict[str, Any]) -> None:
    whole = {**SignalPlatform().envelope(ANN, AT), **envelope}
    assert decode_message("sig", ME, {"envelope": whole, "account": NUMBER}) is None


def test_messages_to_another_account_of_the_daemon_are_ignored() -> None:
    assert decode_message("sig", ME, {**envelope_of(), "account": "+15550999999"}) is None
    assert decode_message("sig", SignalIdentity(uuid=UUID), envelope_of()) is not None, "whose number we do not know"


JUNK: tuple[Any, ...] = (
    *(None, True, -1, 2**70, 1.5, "", "\ud800", "x" * 100_000, "\x00", [], {}, [[]], {"id": {}}, [None] * 50),
    json.loads("[" * 500 + "]" * 500),
)


def _spoilt(rng: random.Random, node: Any) -> Any:
    if not isinstance(node, dict | list) or not node or rng.random() < 0.15:
        return rng.choice(JUNK)
    node = copy.copy(node)
    key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
    if isinstance(node, dict) and rng.random() < 0.2:
        del node[key]
    else:
        node[key] = _spoilt(rng, node[key])
    return node


def test_no_event_breaks_the_decoder() -> None:
    whole = envelope_of(
        "👍 \ufffc hi",
        mentions=[{**US, "start": 3, "length": 1}],
        attachments=[{"contentType": "a/b", "filename": "n", "id": "x", "size": 3}],
        quote={"id": 5, "authorNumber": NUMBER, "authorUuid": UUID},
    )
    rng = random.Random(11)
    understood = 0
    for _ in range(3000):
        raw: Any = {"subscription": 0, "result": whole} if rng.random() < 0.5 else whole
        for _ in range(rng.randint(1, 3)):
            raw = _spoilt(rng, raw)
        message = decode_message("sig", ME, raw)
        if message is not None:
            understood += 1
            json.dumps([message.text, message.name, message.user, message.id], ensure_ascii=False).encode()
    assert understood > 100, "some of it still made sense"


# --- and what we write ---------------------------------------------------------------------------


def test_styles_are_counted_in_utf_16_and_stand_beside_the_text() -> None:
    made = markdown_to_signal("👍 **bold *both*** `x`\n\n> said\n> so\n\n[here](https://a.b)")
    assert made.text == "👍 bold both x\n\n> said\n> so\n\nhere (https://a.b)"
    assert set(made.styles) == {"3:9:BOLD", "8:4:ITALIC", "13:1:MONOSPACE"}


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.text(st.sampled_from("*_`~#>-+|[]()!<&\\ \n12ab.:/👍\ud800\x00"), max_size=100), st.text(max_size=60))
)
def test_no_style_reaches_beyond_the_text(text: str) -> None:
    made = markdown_to_signal(strip_control_chars(text))
    made.text.encode()
    for one in made.styles:
        start, length, name = one.split(":")
        assert 0 <= int(start) < int(start) + int(length) <= utf16_length(made.text)
        assert name in ("BOLD", "ITALIC", "STRIKETHROUGH", "MONOSPACE")


def test_no_mark_of_markdown_is_shown() -> None:
    made = markdown_to_signal(MARKDOWN)
    assert "**" not in made.text
    assert "```" not in made.text
    assert 'return x["a"] < 3' in made.text
