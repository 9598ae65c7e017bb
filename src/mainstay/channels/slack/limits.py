"""Timeouts, sizes and other limits of the Slack channel."""

from __future__ import annotations

import msgspec


class SlackLimits(msgspec.Struct, frozen=True, kw_only=True):
    request_timeout_s: float = 20.0  # for a response of the Web API
    connect_timeout_s: float = 10.0  # for a connection, and for the "hello" of Socket Mode
    ping_interval_s: float = 5.0  # between pings in Socket Mode
    reconnect_wait_s: float = 1.0  # before the first reconnect; grows with each attempt
    backoff_reset_s: float = 30.0  # a connection that lasted this long resets the backoff
    name_lookup_timeout_s: float = 2.0  # for looking up the names in a message; then it is handled without them
    names_cached_max: int = 2_000  # in the cache
    name_ttl_s: float = 3600.0  # lifetime of a cached name
    dedup_entries_max: int = 10_000  # recently accepted messages that are remembered, for deduplication
    envelopes_pending_max: int = 1_000  # messages being handled at a time; Slack sends the others again
    accept_timeout_s: float = 300.0  # for a message to become durable; then it is dropped, so that its room can go on
    http_accept_timeout_s: float = (
        2.5  # for a message from the Events API to become durable: Slack waits 3 s before it sends again
    )
    body_timeout_s: float = 10.0  # for receiving a whole request body
    body_bytes_max: int = 1024 * 1024
    all_bodies_bytes_max: int = 32 * 1024 * 1024  # bodies of all concurrent requests together
    signature_window_s: float = 300.0  # how far a signature's timestamp may be from our clock
    history_pages_max: int = 25  # fetched from a history at most
    page_messages: int = 200  # messages per page, as Slack recommends
    file_bytes_max: int = 20 * 1024 * 1024
    download_timeout_s: float = 60.0
    upload_timeout_s: float = 120.0
    typing_timeout_s: float = 3.0  # for setting the typing indicator
    # waits between checks whether an uploaded file has appeared
    share_poll_waits_s: tuple[float, ...] = (0.0, 0.4, 0.8, 1.6)
