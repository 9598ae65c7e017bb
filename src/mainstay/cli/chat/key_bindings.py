"""Key bindings of the chat's prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys


class KeyCallbacks(NamedTuple):
    """Callbacks for keys that do more than edit the prompt."""

    on_enter: Callable[[str], None]
    on_paste: Callable[[str], str]  # returns what is inserted into the prompt
    on_interrupt: Callable[[], None]
    on_show_details: Callable[[], None]
    on_exit: Callable[[], None]


def build_key_bindings(actions: KeyCallbacks) -> KeyBindings:
    """Build the key bindings. Enter submits the text and keeps the prompt open, also during a turn."""
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
        actions.on_enter(text)

    @keys.add("escape", "enter")
    @keys.add("escape", "c-j")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(actions.on_paste(event.data))

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        actions.on_show_details()

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        actions.on_interrupt()

    @keys.add("c-d", filter=Condition(lambda: not get_app().current_buffer.text))
    def _(event: KeyPressEvent) -> None:
        actions.on_exit()

    return keys
