"""Tools that fail again and again are left alone for a while, like a provider that does."""

from __future__ import annotations

from typing import Protocol

from mainstay.core.errors import MainstayError


class Breaker(Protocol):
    """One for each tool of a workspace. Who is admitted reports with one of the last three."""

    def admit(self) -> bool: ...
    def closed_for_s(self) -> float: ...
    def succeeded(self) -> None: ...
    def failed(self) -> bool:
        """True if nobody is let through from now on."""
        ...

    def left(self) -> None:
        """It says nothing about the tool how this ended."""
        ...


def counts(error: BaseException) -> bool:
    """Whether the tool itself is broken, or only what was asked of it was wrong: a refusal of ours, a value that does
    not fit and something that is not there are answers."""
    said: bool | None = getattr(error, "counts", None)
    return said if said is not None else not isinstance(error, MainstayError | ValueError | LookupError)


def rests(name: str, closed_s: float) -> str:
    """For the model."""
    when = f"Try again in {closed_s:.0f} s" if closed_s >= 1 else "Somebody is trying it right now; try again later"
    return f"Not run: {name} failed several times in a row and is left alone for a while. {when}, or do without it."
