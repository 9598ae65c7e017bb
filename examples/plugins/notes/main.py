"""A plugin in Python: notes that the agent stores across sessions."""

import asyncio
import sys

from mainstay.kit import ActionFailed, Call, action, serve, state


@action(effect="idempotent")
def add(title: str, text: str) -> str:
    """Keep a note under a title; what was there before is replaced.

    Args:
        title: What to find it by.
        text: The note itself.
    """
    if not title.strip():
        raise ActionFailed("A note needs a title.")
    state.set(title, text)
    return f"Kept: {title}"


@action(effect="pure")
def read(title: str) -> str:
    """Read the note with this title."""
    text = state.get(title)
    if text is None:
        raise ActionFailed(f"There is no note called {title!r}.")
    return text


@action(effect="pure")
async def titles(prefix: str = "") -> list[str]:
    """The titles of all notes, or of those that begin with a prefix."""
    return await state.akeys(prefix)


@action(effect="pure")
async def everything() -> str:
    """All notes in full."""
    notes = [f"# {title}\n{await state.aget(title)}" for title in await state.akeys()]
    return "\n\n".join(notes) or "There are no notes."


@action(effect="idempotent")
def remove(title: str) -> str:
    """Throw a note away."""
    return f"Removed: {title}" if state.delete(title) else f"There was no note called {title!r}."


@action(effect="pure", timeout_s=120)
async def later(title: str, after_s: float, call: Call) -> str:
    """Read a note after so many seconds."""
    try:
        await asyncio.sleep(after_s)
    except asyncio.CancelledError:
        print(f"call {call.id} was called off", file=sys.stderr, flush=True)
        raise
    return await state.aget(title) or "There is no such note."


if __name__ == "__main__":
    serve()
