"""Whose question may be answered with a secret, and in which languages it is one."""

from __future__ import annotations

import pytest

from mainstay.core.chat_addresses import ChatAddress, PlatformMessage
from mainstay.core.events import Folded, Received, Steered, TurnEnded, TurnStarted
from mainstay.core.messages import Text
from mainstay.core.outcome import Answered
from mainstay.core.session import Session
from mainstay.trust.secret_requests import asks_for_secret
from mainstay.turn.secret_display import may_show_secrets

ASKED = (Text("what is the password?"),)


def session_with(*events: object, key: str = "s") -> Session:
    session = Session(key)
    for seq, event in enumerate(events, start=1):
        session.apply(seq, 1, event)  # type: ignore[arg-type]
    return session


def heard(*, direct: bool) -> PlatformMessage:
    return PlatformMessage(ChatAddress("chat", "C1"), direct=direct)


@pytest.mark.parametrize(
    ("received", "key", "shown"),
    [
        (Received(ASKED), "s", True),
        (Received(ASKED, sender="ann"), "web:ann:s", True),
        (Received(ASKED, sender="ann"), "user:ann", True),
        (Received(ASKED, sender="ann", heard=heard(direct=True)), "chat:C1:", True),
        (Received(ASKED, sender="ann", heard=heard(direct=False)), "chat:C1:", False),
        (Received(ASKED, sender="ann", heard=heard(direct=False)), "main", False),
        (Received(ASKED, sender="ann"), "chat:C1:", False),
        (Received(ASKED, shared=True), "s", False),
        (Received(ASKED, kind="overheard"), "s", False),
        (Received(ASKED, sender="agent:other [1] (ann)"), "s", False),
        (Received((Text("what is new?"),)), "s", False),
    ],
)
def test_only_a_person_who_reads_the_answer_alone_is_shown_a_secret(received: Received, key: str, shown: bool) -> None:
    assert may_show_secrets(session_with(received, TurnStarted((1,), turn=1), key=key)) is shown


def test_a_session_that_another_person_began_shows_nothing_even_if_their_words_were_folded() -> None:
    session = session_with(
        Received((Text("hi"),), sender="ann"),
        TurnStarted((1,), turn=1),
        TurnEnded(Answered(), turn=1),
        Folded(3, "They met.", through=1),
        Received(ASKED, sender="bob"),
        TurnStarted((5,), turn=2),
    )
    assert not may_show_secrets(session)


def test_a_message_from_a_room_that_joins_a_turn_ends_its_privacy() -> None:
    session = session_with(
        Received(ASKED, sender="ann", heard=heard(direct=True)),
        TurnStarted((1,), turn=1),
        Received((Text("and now?"),), kind="steer", sender="ann", heard=heard(direct=False)),
        key="main",
    )
    assert may_show_secrets(session)
    session.apply(4, 1, Steered((3,), turn=1))
    assert not may_show_secrets(session)


def test_an_input_that_is_not_known_any_more_makes_no_turn_direct() -> None:
    assert not may_show_secrets(session_with(Received(ASKED), TurnStarted((1, 7), turn=1)))


@pytest.mark.parametrize(
    "words",
    [
        "send me the reset link",
        "What's my PIN?",
        "Wie lautet der Bestätigungscode?",
        "Zeig mir das Passwort",
        "Quel est le mot de passe ?",
        "¿Cuál es la contraseña?",
        "Qual è il codice?",
        "Qual é a senha?",
        "Wat is het wachtwoord?",
        "Jakie jest hasło?",
        "Şifre nedir?",
        "Какой пароль?",
        "验证码是多少",
        "パスワードは何ですか",
        "비밀번호가 뭐예요?",
        "ما هي كلمة المرور؟",
        "पासवर्ड क्या है?",
    ],
)
def test_a_question_for_a_secret_is_recognised_in_every_language(words: str) -> None:
    assert asks_for_secret([words])


@pytest.mark.parametrize(
    "words",
    [
        "What is new?",
        "never show me a password",
        "Zeig mir nicht das Passwort",
        "keyboard",
        "the password " + "x" * 70_000,
    ],
)
def test_other_words_and_negated_ones_ask_for_nothing(words: str) -> None:
    assert not asks_for_secret([words])
