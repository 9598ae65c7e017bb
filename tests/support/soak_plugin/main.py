"""A plugin of the soak test: a pure action, and one with an effect that can be counted."""

import os
import threading
from pathlib import Path

from mainstay.kit import ActionFailed, action, serve

LEDGER = Path(os.environ.get("HOME", "."), "ledger")
lock = threading.Lock()


@action(effect="pure")
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@action(effect="unsafe")
def charge(mark: str) -> str:
    """Write a line to the ledger."""
    try:
        with lock, LEDGER.open("a") as ledger:
            ledger.write(f"{mark}\n")
    except OSError as error:
        raise ActionFailed(f"The ledger cannot be written: {error.strerror}.") from None
    return f"charged {mark}"


if __name__ == "__main__":
    serve()
