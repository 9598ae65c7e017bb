"""How long, how often and how much, with Slack."""

from __future__ import annotations

import msgspec


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    call_s: float = 20.0  # for an answer of the Web API
    connect_s: float = 10.0  # for a connection, and for the greeting in socket mode
    ping_s: float = 5.0  # between two signs of life in socket mode
    wait_s: float = 1.0  # before a lost connection is made again; then longer each time
    steady_s: float = 30.0  # a connection that held so long was a good one
    name_s: float = 2.0  # for somebody's name: a message does not wait longer for it
    names_max: int = 2_000  # that are remembered
    name_kept_s: float = 3600.0
    heard_max: int = 10_000  # messages that are known to have been taken in
    pending_max: int = 1_000  # messages being taken in at a time; Slack tells of the others again
    hold_s: float = 300.0  # for a message to be durable: then it is let go, and the next of its room has its turn
    take_s: float = 2.5  # for a message that was posted to us to be durable: after 3 s Slack gives up, and posts again
    body_s: float = 10.0  # for all of a request to come
    body_bytes_max: int = 1024 * 1024
    held_bytes_max: int = 32 * 1024 * 1024  # of all requests together
    window_s: float = 300.0  # how far a signature's time may be from ours
    pages_max: int = 25  # of a history
    page: int = 200  # messages, as Slack recommends
    file_bytes_max: int = 20 * 1024 * 1024
    download_s: float = 60.0
    upload_s: float = 120.0
    typing_s: float = 3.0  # for the sign that we are busy, which nothing waits for
    share_s: tuple[float, ...] = (0.0, 0.4, 0.8, 1.6)  # waits for a file that was handed over to be shown
