"""The questions of `mainstay init`. Each has a default, and a flag for those who cannot be asked."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import msgspec

from mainstay.agent.discover import Found
from mainstay.cli.chat.safe import visible
from mainstay.cli.commands.bringing import NEEDS_RUNTIME, can_run, size_of
from mainstay.cli.commands.init_channel import OFFERED
from mainstay.cli.commands.init_channel import asked as channel_asked
from mainstay.cli.commands.init_checks import check_model, wrong_name
from mainstay.cli.commands.init_draft import Wishes
from mainstay.cli.commands.out import paint
from mainstay.config.schema import wrong_workspace
from mainstay.core.errors import ConfigError
from mainstay.providers.local.weights import FIRST, Weights, folder, is_there

NONE = "none"
TRIES = 5  # whoever cannot answer keeps what was the default


class Answers(msgspec.Struct, frozen=True):
    """`bring`: weights to be brought before anything is written."""

    wishes: Wishes
    bring: Weights | None = None


class Choice(msgspec.Struct, frozen=True):
    """One line of the list of models."""

    says: str
    model: str | None = None
    base_url: str | None = None
    bring: Weights | None = None


def ask_all(wishes: Wishes, found: Found | None, options: argparse.Namespace) -> Answers:
    print("A few questions. Enter takes what is in brackets, Ctrl-C leaves everything as it is.\n")
    bring = None
    if not options.model:
        choice = _model(found)
        wishes = msgspec.structs.replace(wishes, model=choice.model, base_url=choice.base_url)
        bring = choice.bring
    if not options.name:
        name = _until("What should the agent be called?", wishes.name, wrong_name)
        wishes = msgspec.structs.replace(wishes, name=name)
    if options.workspace is None:
        about = "Its workspace, for whose conversations and memory these are?"
        wishes = msgspec.structs.replace(wishes, workspace=_until(about, wishes.workspace, _wrong_workspace))
    if not options.channel:
        wishes = _with_channel(wishes)
    print()
    return Answers(wishes, bring)


# --- the model -----------------------------------------------------------------------------------


def _model(found: Found | None) -> Choice:
    choices = list(_choices(found))
    print("Which model should answer?")
    for number, one in enumerate(choices, 1):
        print(f"  {paint(str(number), 'bold')}  {visible(one.says)}")
    chosen = choices[0]

    def wrong(answer: str) -> str:
        nonlocal chosen
        try:
            chosen = _chosen(answer, choices)
        except ConfigError as error:
            return str(error)
        return ""

    _until("A number, or another as <provider>/<model>", "1", wrong)
    return chosen


def _choices(found: Found | None) -> list[Choice]:
    made = [Choice(f"{found.spec}: {found.how}", found.spec, found.base_url)] if found else []
    if not is_there(FIRST, folder()):
        what = f"{FIRST.title}, {size_of(FIRST.size)}, {FIRST.licence}, from {FIRST.source}"
        made.append(Choice(f"bring one to this machine, no account needed: {what}", bring=FIRST))
    return [*made, Choice("none for now; whatever is found later is asked")]


def _chosen(answer: str, choices: list[Choice]) -> Choice:
    if answer.isascii() and answer.isdigit():
        if not 1 <= int(answer) <= len(choices):
            raise ConfigError(f"there are 1 to {len(choices)}")
        one = choices[int(answer) - 1]
        if one.bring is None:
            return one
        if not can_run():
            raise ConfigError(NEEDS_RUNTIME)
        return msgspec.structs.replace(one, model=f"local/{one.bring.name}")
    if answer == NONE:
        return choices[-1]
    check_model(answer, None)
    return Choice("", answer)


# --- the rest ------------------------------------------------------------------------------------


def _wrong_workspace(name: str) -> str:
    said = wrong_workspace(name)
    return f"it {said}" if said else ""


def _with_channel(wishes: Wishes) -> Wishes:
    kinds = (NONE, *OFFERED)
    question = f"On a chat platform too? {', '.join(kinds)}"
    kind = _until(question, NONE, lambda one: "" if one in kinds else f"there are: {', '.join(kinds)}")
    if kind == NONE:
        return wishes
    channel = channel_asked(kind, _ask)
    if channel is None:
        print(f"  No channel, then; later: mainstay channel add {kind}")
    return msgspec.structs.replace(wishes, channel=channel)


def _until(question: str, default: str, wrong: Callable[[str], str]) -> str:
    """The first answer that will do; the default after too many that will not."""
    for _ in range(TRIES):
        answer = _ask(question, default)
        if not (said := wrong(answer)):
            return answer
        print(f"  {visible(said)}")
    if wrong(default):
        raise ConfigError(f"there was no answer to: {question}")
    print(f"  {visible(default)}, then.")
    return default


def _ask(question: str, default: str) -> str:
    shown = f" [{visible(default)}]" if default else ""
    try:
        return input(f"{question}{shown} ").strip() or default
    except EOFError:
        print()
        return default
