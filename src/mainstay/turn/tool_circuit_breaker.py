"""Circuit breaker port for tools, and which tool errors count as failures."""

from __future__ import annotations

from typing import Protocol

from mainstay.core.errors import MainstayError


class ToolCircuitBreaker(Protocol):
    """One per tool of a workspace. Every admitted call reports its outcome with one of the `record_` methods."""

    def admit(self) -> bool: ...
    def open_for_s(self) -> float:
        """Return for how many seconds calls are still refused; 0 if a call may be tried."""
        ...

    def record_success(self) -> None: ...
    def record_failure(self) -> bool:
        """Return True if this failure opened the breaker."""
        ...

    def record_ignored(self) -> None:
        """The call's outcome does not count for or against the tool."""
        ...


def counts_as_failure(error: BaseException) -> bool:
    """Return True if the error means that the tool is broken.

    A refusal by the runtime (`MainstayError`), a bad value or a missing item is a normal answer. An error's own
    `counts_as_failure` attribute takes precedence.
    """
    own: bool | None = getattr(error, "counts_as_failure", None)
    return own if own is not None else not isinstance(error, MainstayError | ValueError | LookupError)


def describe_open_breaker(name: str, open_for_s: float) -> str:
    """Return the result text for a call that an open breaker refused."""
    when = f"Try again in {open_for_s:.0f} s" if open_for_s >= 1 else "Another call is testing it now; try again later"
    return f"Not run: {name} failed several times in a row and is left alone for a while. {when}, or do without it."
