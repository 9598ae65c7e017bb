"""Tab completion for slash commands and their arguments."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from mainstay.cli.chat.chat_session import ChatSession
from mainstay.cli.chat.slash_commands import COMMANDS
from mainstay.core.errors import MainstayError
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.terminal.tool_calls import ToolCallLog

DESCRIPTION_CHARS_MAX = 60
SUGGESTIONS_MAX = 200
Suggestion = tuple[str, str]  # the inserted text, and a short description


class SlashCompleter(Completer):
    """Completer of the prompt.

    Names with characters that the terminal would not show are never suggested: the inserted text is the displayed one.
    """

    def __init__(self, chat: ChatSession) -> None:
        self._chat = chat

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text or " " in text:
            return
        for name, description in COMMANDS.items():
            if name.startswith(text):
                yield Completion(name, start_position=-len(text), display_meta=description)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        for completion in self.get_completions(document, complete_event):
            yield completion
        command, space, rest = document.text_before_cursor.partition(" ")
        if not space or "\n" in rest or " " in rest or command not in COMMANDS:
            return
        try:
            offers = await self._suggest_arguments(command)
        except MainstayError:
            return  # completion was not asked for explicitly, so its errors are not shown
        suggestions = [(name, about) for name, about in offers if name.startswith(rest) and escape_line(name) == name]
        for name, about in suggestions[:SUGGESTIONS_MAX]:
            yield Completion(name, start_position=-len(rest), display_meta=escape_line(about, DESCRIPTION_CHARS_MAX))

    async def _suggest_arguments(self, command: str) -> list[Suggestion]:
        match command:
            case "/sessions":
                return [(name, "") for name in self._chat.known_sessions]
            case "/skill":
                return [(skill.name, skill.description) for skill in await self._chat.agent.skills(self._chat.session)]
            case "/model":
                return _suggest_models(self._chat)
            case "/calls":
                return _suggest_calls(self._chat.calls)
            case "/approve":
                return (
                    [("always", self._chat.pending_approval.always)]
                    if self._chat.pending_approval and self._chat.pending_approval.always
                    else []
                )
            case "/profile":
                fields = await self._chat.agent.profile(self._chat.session).get()
                return [
                    *((f"{name}=", value) for name, value in sorted(fields.items())),
                    ("clear", "remove all fields"),
                ]
        return []


def _suggest_calls(calls: ToolCallLog) -> list[Suggestion]:
    return [(str(call.number), call.heading) for call in reversed(calls.by_number)]


def _suggest_models(chat: ChatSession) -> list[Suggestion]:
    """Suggest configured models, models whose API key is set, and pulled local models."""
    from mainstay.agent.model_discovery import list_models_with_key
    from mainstay.providers.local import catalogue

    config = chat.setup.config
    configured = [entry if isinstance(entry, str) else entry.model for entry in config.models]
    offers = dict.fromkeys(filter(None, [chat.model, config.model, *configured]), "")
    offers |= {model.spec: model.reason for model in list_models_with_key(os.environ)}
    offers |= {
        f"local/{model.name}": model.title for model in catalogue.list_pulled(catalogue.weights_folder(os.environ))
    }
    return list(offers.items())
