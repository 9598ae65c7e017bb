"""Ports for servers that are started again and again on the same one, or that take no socket, and for none at all."""

from __future__ import annotations

import random
import socket

PORTS = range(15_000, 32_000)  # below those that systems give to outgoing connections, which would take one meanwhile


def choose_port() -> int:
    """Return a port of this machine that no server listens on."""
    while True:
        with socket.socket() as free:
            port = random.SystemRandom().choice(PORTS)
            try:
                free.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
