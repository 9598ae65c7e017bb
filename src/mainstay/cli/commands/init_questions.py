"""Questions of `mainstay init` on a terminal. Each has a default, and an option for use in scripts."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import msgspec

from mainstay.agent.model_discovery import DiscoveredModel
from mainstay.cli.commands.init_channel import ask_channel, list_offered_kinds
from mainstay.cli.commands.init_checks import check_model, find_name_problem
from mainstay.cli.commands.model_download import NEEDS_RUNTIME, format_size, is_runtime_installed
from mainstay.cli.commands.output import style_text
from mainstay.config.schema import find_workspace_name_problem
from mainstay.config.template import InitChoices
from mainstay.core.errors import ConfigError
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.providers.local.catalogue import DEFAULT_WEIGHTS, Weights, is_pulled, weights_folder

NONE = "none"
INVALID_ANSWERS_MAX = 5  # of invalid answers to one question; then the default is used


class InitAnswers(msgspec.Struct, frozen=True):
    choices: InitChoices
    download: Weights | None = None  # to be downloaded before the file is written


class ModelChoice(msgspec.Struct, frozen=True):
    """One line of the list of models."""

    label: str
    model: str | None = None
    base_url: str | None = None
    download: Weights | None = None  # to be downloaded if this is chosen


def ask_questions(choices: InitChoices, discovered: DiscoveredModel | None, options: argparse.Namespace) -> InitAnswers:
    """Ask for everything that the command line does not set."""
    print("A few questions. Enter accepts the default in brackets, Ctrl-C cancels without changes.\n")
    download = None
    if not options.model:
        choice = _ask_model(discovered)
        choices = msgspec.structs.replace(choices, model=choice.model, base_url=choice.base_url)
        download = choice.download
    if not options.name:
        name = _ask_until_valid("What is the agent's name?", choices.name, find_name_problem)
        choices = msgspec.structs.replace(choices, name=name)
    if options.workspace is None:
        workspace = _ask_until_valid("Which workspace should it use?", choices.workspace, _find_workspace_problem)
        choices = msgspec.structs.replace(choices, workspace=workspace)
    if not options.channel:
        choices = _ask_channel(choices)
    print()
    return InitAnswers(choices, download)


# --- the model -----------------------------------------------------------------------------------


def _ask_model(discovered: DiscoveredModel | None) -> ModelChoice:
    choices = list(_list_model_choices(discovered))
    print("Which model should it use?")
    for number, choice in enumerate(choices, 1):
        print(f"  {style_text(str(number), 'bold')}  {escape_line(choice.label)}")
    chosen = choices[0]

    def find_problem(answer: str) -> str:
        nonlocal chosen
        try:
            chosen = _parse_model_choice(answer, choices)
        except ConfigError as error:
            return str(error)
        return ""

    _ask_until_valid("A number, or a model as <provider>/<model>", "1", find_problem)
    return chosen


def _list_model_choices(discovered: DiscoveredModel | None) -> list[ModelChoice]:
    choices = (
        [ModelChoice(f"{discovered.spec}: {discovered.reason}", discovered.spec, discovered.base_url)]
        if discovered
        else []
    )
    if not is_pulled(DEFAULT_WEIGHTS, weights_folder()):
        size = format_size(DEFAULT_WEIGHTS.size_bytes)
        what = f"{DEFAULT_WEIGHTS.title}, {size}, {DEFAULT_WEIGHTS.licence}, from {DEFAULT_WEIGHTS.page_url}"
        choices.append(
            ModelChoice(
                f"download a model that runs on this machine, no account needed: {what}", download=DEFAULT_WEIGHTS
            )
        )
    return [*choices, ModelChoice("none for now: use the first model that is found later")]


def _parse_model_choice(answer: str, choices: list[ModelChoice]) -> ModelChoice:
    """Raises ConfigError if the answer is neither a number of the list nor a model."""
    if answer.isascii() and answer.isdigit():
        if not 1 <= int(answer) <= len(choices):
            raise ConfigError(f"choose a number from 1 to {len(choices)}")
        choice = choices[int(answer) - 1]
        if choice.download is None:
            return choice
        if not is_runtime_installed():
            raise ConfigError(NEEDS_RUNTIME)
        return msgspec.structs.replace(choice, model=f"local/{choice.download.name}")
    if answer == NONE:
        return choices[-1]
    check_model(answer, None)
    return ModelChoice("", answer)


# --- workspace and channel -----------------------------------------------------------------------


def _find_workspace_problem(name: str) -> str:
    problem = find_workspace_name_problem(name)
    return f"it {problem}" if problem else ""


def _ask_channel(choices: InitChoices) -> InitChoices:
    kinds = (NONE, *list_offered_kinds())
    question = f"Connect a chat platform? {', '.join(kinds)}"
    kind = _ask_until_valid(
        question, NONE, lambda answer: "" if answer in kinds else f"choose from: {', '.join(kinds)}"
    )
    if kind == NONE:
        return choices
    channel = ask_channel(kind, _ask)
    if channel is None:
        print(f"  No channel was added; to add it later: mainstay channel add {kind}")
    return msgspec.structs.replace(choices, channel=channel)


def _ask_until_valid(question: str, default: str, find_problem: Callable[[str], str]) -> str:
    """Ask until an answer is valid, and use the default after TRIES invalid ones."""
    for _ in range(INVALID_ANSWERS_MAX):
        answer = _ask(question, default)
        if not (problem := find_problem(answer)):
            return answer
        print(f"  {escape_line(problem)}")
    if find_problem(default):
        raise ConfigError(f"there was no valid answer to: {question}")
    print(f"  Using {escape_line(default)}.")
    return default


def _ask(question: str, default: str) -> str:
    suggestion = f" [{escape_line(default)}]" if default else ""
    try:
        return input(f"{question}{suggestion} ").strip() or default
    except EOFError:
        print()
        return default
