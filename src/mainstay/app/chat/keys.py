"""Keys and completion of the chat's prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from mainstay.app.chat.slash import COMMANDS

Act = Callable[[], None]


class Slash(Completer):
    """Commands, and the names of conversations behind `/sessions`."""

    def __init__(self, sessions: Callable[[], list[str]]) -> None:
        self._sessions = sessions

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        command, space, rest = text.partition(" ")
        if not space:
            for name, what in COMMANDS.items():
                if name.startswith(command):
                    yield Completion(name, start_position=-len(text), display_meta=what)
        elif command == "/sessions":
            for name in self._sessions():
                if name.startswith(rest):
                    yield Completion(name, start_position=-len(rest))


def bindings(entered: Callable[[str], None], interrupt: Act, leave: Act) -> KeyBindings:
    """Enter hands the text over and leaves the prompt where it is: it is there during a turn too."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        text = buffer.text
        if text.strip():
            buffer.append_to_history()
        buffer.reset()
        entered(text)

    @keys.add("escape", "enter")
    @keys.add("escape", "c-j")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        interrupt()

    @keys.add("c-d", filter=Condition(lambda: not get_app().current_buffer.text))
    def _(event: KeyPressEvent) -> None:
        leave()

    return keys
