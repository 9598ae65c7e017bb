"""Keys of the chat's prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


class Acts(NamedTuple):
    """What keys do beside editing."""

    entered: Callable[[str], None]
    interrupt: Callable[[], None]
    unfold: Callable[[], None]
    leave: Callable[[], None]


def bindings(acts: Acts) -> KeyBindings:
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
        acts.entered(text)

    @keys.add("escape", "enter")
    @keys.add("escape", "c-j")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        acts.unfold()

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        acts.interrupt()

    @keys.add("c-d", filter=Condition(lambda: not get_app().current_buffer.text))
    def _(event: KeyPressEvent) -> None:
        acts.leave()

    return keys
