"""Telling whoever hears of a message, until they have it."""

from __future__ import annotations

import asyncio
import logging
import random

from mainstay.core.channels import Hear, Incoming
from mainstay.core.errors import MainstayError

FIRST_WAIT_S = 0.2
WAIT_MAX_S = 60.0
FAULTS_MAX = 6  # of ours, with one message: the others must not wait for it for ever

_log = logging.getLogger(__name__)


async def tell(hear: Hear, message: Incoming) -> None:
    """Returns once they have it. What cannot be taken in now (a full disk, a busy lane) is told again with a growing
    wait, for as long as it takes. What breaks them is a bug: it is told a few times more, and then left out."""
    faults = tries = 0
    while True:
        try:
            await hear(message)
            return
        except MainstayError as error:
            _log.warning("%s: a message could not be taken in and is told again: %s", message.address.channel, error)
        except Exception:  # whoever hears may raise anything, and the channel goes on
            faults += 1
            _log.exception("%s: a message broke what hears it (%d)", message.address.channel, faults)
            if faults >= FAULTS_MAX:
                return
        await asyncio.sleep(growing(tries))
        tries += 1


def growing(tries: int, first_s: float = FIRST_WAIT_S) -> float:
    """How long to wait after so many vain tries: longer each time, and not for everybody the same."""
    return min(first_s * 2.0 ** min(tries, 16), WAIT_MAX_S) * random.uniform(0.75, 1.0)
