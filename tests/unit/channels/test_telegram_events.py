"""Decoding of Telegram updates; no update breaks the decoder."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from support.telegram_platform import ANN, BASIC, BOB, FORUM, GROUP, ME

from mainstay.channels.telegram.albums import group_albums
from mainstay.channels.telegram.events import TelegramThreadCache, TelegramUpdateDecoder, TelegramUser
from mainstay.core.channels import IncomingMessage

CHATS = {
    GROUP: {"id": GROUP, "type": "supergroup", "title": "The group"},
    FORUM: {"id": FORUM, "type": "supergroup", "is_forum": True},
    BASIC: {"id": BASIC, "type": "group"},
    5001: {"id": 5001, "type": "private"},
}


def reader() -> TelegramUpdateDecoder:
    return TelegramUpdateDecoder(
        "tg", TelegramUser(id=int(str(ME["id"])), username="tester_bot"), TelegramThreadCache()
    )


def update_of(text: str = "", *, chat: int = GROUP, id: int = 10, **more: Any) -> dict[str, Any]:
    message = {"message_id": id, "date": 1_700_000_000, "chat": CHATS[chat], "from": ANN, **more}
    return {"update_id": id, "message": {**message, **({"text": text} if text else {})}}


def decode_update(raw: dict[str, Any], by: TelegramUpdateDecoder | None = None) -> IncomingMessage:
    update = (by or reader()).decode(raw)
    assert update is not None
    assert update.message is not None
    return update.message


def entity(kind: str, offset: int, length: int, **more: Any) -> list[dict[str, Any]]:
    return [{"type": kind, "offset": offset, "length": length, **more}]


def test_places_in_a_text_are_counted_in_utf_16() -> None:
    named = decode_update(update_of("👍👍 @Tester_Bot hi", entities=entity("mention", 5, 11)))
    assert named.mentioned
    assert named.text == "👍👍 @Tester_Bot hi", "only at the beginning a mention is not part of the words"
    wrong = decode_update(update_of("👍👍 @Tester_Bot hi", entities=entity("mention", 3, 11)))
    assert not wrong.mentioned


@pytest.mark.parametrize(
    ("text", "entities", "mentioned", "said"),
    [
        ("@tester_bot, hello", entity("mention", 0, 11), True, "hello"),
        ("/stop@tester_bot now", entity("bot_command", 0, 16), True, "/stop now"),
        ("do /stop@tester_bot", entity("bot_command", 3, 16), True, "do /stop@tester_bot"),
        ("/stop@other_bot now", entity("bot_command", 0, 15), False, "/stop@other_bot now"),
        ("/stop", entity("bot_command", 0, 5), False, "/stop"),
        ("you there", entity("text_mention", 0, 3, user=ME), True, "there"),
        ("@tester_bot2 hello", entity("mention", 0, 12), False, "@tester_bot2 hello"),
        ("ask @tester_bot", entity("url", 4, 11), False, "ask @tester_bot"),
        ("@tester_bot hi", entity("mention", -1, 5) + entity("mention", 99, 5), False, "@tester_bot hi"),
    ],
)
def test_mentions_are_recognised(text: str, entities: list[dict[str, Any]], mentioned: bool, said: str) -> None:
    message = decode_update(update_of(text, entities=entities))
    assert (message.mentioned, message.text) == (mentioned, said)


def test_a_caption_is_read_like_a_text() -> None:
    document = {"file_id": "f", "file_name": "a.pdf", "mime_type": "application/pdf", "file_size": 7}
    message = decode_update(
        update_of(caption="@tester_bot look", caption_entities=entity("mention", 0, 11), document=document)
    )
    assert (message.mentioned, message.text) == (True, "look")
    assert [(one.ref, one.name, one.mime, one.size) for one in message.files] == [("f", "a.pdf", "application/pdf", 7)]


def test_threads() -> None:
    by = reader()
    assert decode_update(update_of("hi", chat=5001), by).address.thread == "", "between two there is one conversation"
    assert decode_update(update_of("hi", chat=5001), by).direct
    assert (
        decode_update(update_of("hi", chat=FORUM, message_thread_id=7, is_topic_message=True), by).address.thread
        == "topic_7"
    )
    assert decode_update(update_of("among us"), by).address.thread == ""
    begun = decode_update(update_of("@tester_bot hi", id=20, entities=entity("mention", 0, 11)), by)
    assert begun.address.thread == "20", "naming us begins a thread"
    reply = {"message_id": 21, "from": ME}
    follows = decode_update(update_of("and?", id=22, reply_to_message=reply, message_thread_id=20), by)
    assert (follows.address.thread, follows.mentioned) == ("20", True)


def test_in_a_small_group_a_thread_is_known_by_what_was_seen_of_it() -> None:
    by = reader()
    decode_update(update_of("@tester_bot hi", chat=BASIC, id=30, entities=entity("mention", 0, 11)), by)
    decode_update(update_of("yes", chat=BASIC, id=31, reply_to_message={"message_id": 30, "from": ANN}), by)
    deep = decode_update(update_of("no", chat=BASIC, id=32, reply_to_message={"message_id": 31, "from": BOB}), by)
    assert deep.address.thread == "30"
    unknown = decode_update(update_of("what?", chat=BASIC, id=33, reply_to_message={"message_id": 5, "from": ME}), by)
    assert unknown.address.thread == "5"


def test_a_sender_who_posts_as_a_group_is_identified_as_that_group() -> None:
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    message = decode_update(update_of("psst", **{"from": anonymous}, sender_chat=CHATS[GROUP]))
    assert (message.user, message.name) == (str(GROUP), "The group")


def test_a_group_has_a_name_and_a_direct_conversation_has_none() -> None:
    assert decode_update(update_of("hi")).room_name == "The group"
    assert decode_update(update_of("hi", chat=5001)).room_name == ""
    assert decode_update(update_of("hi", chat=BASIC)).room_name == ""


def test_our_own_words_are_marked() -> None:
    assert decode_update(update_of("me", **{"from": ME})).own


@pytest.mark.parametrize(
    "update",
    [
        {"edited_message": update_of("edited")["message"]},
        {"channel_post": update_of("post")["message"]},
        {"callback_query": {"id": "1", "data": "x"}},
        {"message": {**update_of()["message"], "new_chat_members": [BOB]}},
        {"message": {**update_of("x")["message"], "chat": {"id": -1, "type": "channel"}}},
    ],
    ids=["edited", "post", "button", "service", "channel"],
)
def test_an_update_without_a_message_is_ignored_and_confirmed(update: dict[str, Any]) -> None:
    read = reader().decode({"update_id": 77, **update})
    assert read is not None
    assert (read.id, read.message) == (77, None)


def test_of_a_photo_the_largest_is_used_and_an_animation_is_read_once() -> None:
    sizes = [{"file_id": str(side), "width": side, "height": side} for side in (90, 1280, 320)]
    assert [(one.ref, one.mime) for one in decode_update(update_of(photo=sizes)).files] == [("1280", "image/jpeg")]
    moving = {"file_id": "gif", "file_name": "cat.mp4", "mime_type": "video/mp4"}
    assert len(decode_update(update_of(animation=moving, document=moving)).files) == 1
    assert decode_update(update_of(id=4, voice={"file_id": "v"})).files[0].name == "voice_4.ogg"


def test_an_album_is_one_message() -> None:
    by = reader()
    pictures = [
        update_of(
            id=n, media_group_id="g1", photo=[{"file_id": f"p{n}"}], **({"caption": "all of us"} if n == 41 else {})
        )
        for n in (40, 41, 42)
    ]
    alone = update_of("after", id=43)
    updates = [update for one in (*pictures, alone) if (update := by.decode(one)) is not None]
    album, after = group_albums(updates)
    assert album.ids == (40, 41, 42)
    assert album.message is not None
    assert (album.message.id, album.message.text) == ("40", "all of us")
    assert [file.ref for file in album.message.files] == ["p40", "p41", "p42"]
    assert after.ids == (43,)


JUNK: tuple[Any, ...] = (
    *(None, True, -1, 2**70, 1.5, "", "\ud800", "x" * 100_000, "\x00", [], {}, [[]], {"id": {}}, [None] * 50),
    json.loads("[" * 500 + "]" * 500),
)


def _spoilt(rng: random.Random, node: Any) -> Any:
    """The same with something in it replaced or left out."""
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
    whole = update_of(
        "👍 @tester_bot hi",
        entities=entity("mention", 3, 11) + entity("text_mention", 0, 2, user=ME),
        reply_to_message={"message_id": 3, "from": ME},
        photo=[{"file_id": "p", "width": 3, "height": 4, "file_size": 5}],
        document={"file_id": "d", "file_name": "n", "mime_type": "m"},
        media_group_id="g",
        sender_chat=CHATS[GROUP],
        message_thread_id=3,
    )
    rng = random.Random(7)
    by = reader()
    read = 0
    for _ in range(3000):
        raw = whole
        for _ in range(rng.randint(1, 3)):
            raw = _spoilt(rng, raw)
        update = by.decode(raw)
        if update is not None and update.message is not None:
            read += 1
            json.dumps([update.message.text, update.message.name, update.message.user], ensure_ascii=False).encode()
    assert read > 100, "some of it still made sense"
