"""Hands incoming messages to the gateway's handler, with retries and backoff."""

from __future__ import annotations

import asyncio
import logging
import random

from mainstay.core.channels import IncomingMessage, MessageHandler
from mainstay.core.errors import MainstayError

BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 60.0
HANDLER_FAILURES_MAX = 6  # unexpected exceptions per message; then it is dropped, so that later messages can proceed

_log = logging.getLogger(__name__)


async def dispatch_message(on_message: MessageHandler, message: IncomingMessage) -> None:
    """Call the handler with the message until the handler accepts it.

    A MainstayError (a full disk, a busy lane) is retried with backoff, without limit. Any other exception is a bug:
    after HANDLER_FAILURES_MAX of them the message is dropped."""
    failures = attempts = 0
    while True:
        try:
            await on_message(message)
            return
        except MainstayError as error:
            _log.warning("%s: a message could not be accepted and is retried: %s", message.address.channel, error)
        except Exception:  # the handler may raise anything, and the channel must go on
            failures += 1
            _log.exception("%s: the handler failed on a message (failure %d)", message.address.channel, failures)
            if failures >= HANDLER_FAILURES_MAX:
                return
        await asyncio.sleep(compute_backoff_s(attempts))
        attempts += 1


def compute_backoff_s(attempts: int, first_s: float = BACKOFF_FIRST_S) -> float:
    """Return the wait in seconds after this many failed attempts: exponential, capped, with jitter."""
    return min(first_s * 2.0 ** min(attempts, 16), BACKOFF_MAX_S) * random.uniform(0.75, 1.0)
