"""What Tab offers behind a slash: commands, and what can follow them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from mainstay.cli.chat.calls import Calls
from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.slash import COMMANDS
from mainstay.cli.chat.talk import Talk
from mainstay.core.errors import MainstayError

META_CHARS = 60
OFFERED_MAX = 200
Offer = tuple[str, str]  # what is put in, and a few words on it


class Slash(Completer):
    """Names that a terminal would not show as they are, are not offered: what is put in is what was seen."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text or " " in text:
            return
        for name, what in COMMANDS.items():
            if name.startswith(text):
                yield Completion(name, start_position=-len(text), display_meta=what)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        for one in self.get_completions(document, complete_event):
            yield one
        command, space, rest = document.text_before_cursor.partition(" ")
        if not space or "\n" in rest or " " in rest or command not in COMMANDS:
            return
        try:
            offers = await self._offers(command)
        except MainstayError:
            return  # whoever types is not told of what they did not ask
        shown = [(name, about) for name, about in offers if name.startswith(rest) and visible(name) == name]
        for name, about in shown[:OFFERED_MAX]:
            yield Completion(name, start_position=-len(rest), display_meta=visible(about, META_CHARS))

    async def _offers(self, command: str) -> list[Offer]:
        match command:
            case "/sessions":
                return [(name, "") for name in self._talk.known]
            case "/skill":
                return [(one.name, one.description) for one in await self._talk.agent.skills(self._talk.session)]
            case "/model":
                return _models(self._talk)
            case "/calls":
                return _calls(self._talk.calls)
            case "/approve":
                return [("always", self._talk.asked.always)] if self._talk.asked and self._talk.asked.always else []
            case "/profile":
                known = await self._talk.agent.profile(self._talk.session).get()
                return [*((f"{name}=", value) for name, value in sorted(known.items())), ("clear", "forget all of it")]
        return []


def _calls(calls: Calls) -> list[Offer]:
    return [(str(call.number), call.head) for call in reversed(calls.all)]


def _models(talk: Talk) -> list[Offer]:
    """What is configured, what there is a key for, what was pulled."""
    from mainstay.agent.discover import keyed
    from mainstay.providers.local import weights

    config = talk.where.config
    named = [one if isinstance(one, str) else one.model for one in config.models]
    offers = dict.fromkeys(filter(None, [talk.model, config.model, *named]), "")
    offers |= {one.spec: one.how for one in keyed(os.environ)}
    offers |= {f"local/{one.name}": one.title for one in weights.pulled(weights.folder(os.environ))}
    return list(offers.items())
