"""Receives Slack events by Socket Mode: a WebSocket that is reopened whenever it is lost.

The client library's connection is used, but not its reconnect: that waits the same few seconds without end, reports
nothing, and writes secret URLs into the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from slack_sdk.socket_mode.aiohttp import SocketModeClient

from mainstay.channels.incoming_dispatch import compute_backoff_s
from mainstay.channels.slack.client import (
    SlackClient,
    SlackRequestRefused,
    SlackTokenRefused,
    create_silent_logger,
    find_proxy,
)
from mainstay.channels.slack.limits import SlackLimits
from mainstay.core.channels import ChannelError, DeliveryDeferred
from mainstay.core.errors import ConfigError
from mainstay.core.supervision import start_supervised_task

log = logging.getLogger("mainstay.channels.slack")

# takes an envelope's type and payload; returns once it is durable
EnvelopeHandler = Callable[[str, Any], Awaitable[None]]

# Reasons with which Slack announces a disconnect a few seconds before: the next connection is opened first.
_REFRESH_REASONS = ("warning", "refresh_requested")
CLOSE_TIMEOUT_S = 2.0


class SocketModeConnection(SocketModeClient):
    """One WebSocket connection. It does not reconnect: `lost` is set when it has ended."""

    def __init__(
        self,
        url: str,
        client: SlackClient,
        limits: SlackLimits,
        on_envelope: Callable[[SocketModeConnection, dict[str, Any]], None],
    ) -> None:
        super().__init__(
            "", logger=create_silent_logger(), web_client=client.sdk_client, ping_interval=limits.ping_interval_s
        )
        self.proxy = find_proxy(url)
        self.wss_uri = url
        self.hello_received = asyncio.Event()
        self.lost = asyncio.Event()
        self.disconnect_reason = ""  # the reason that Slack gave; empty: none
        self._on_envelope = on_envelope

    async def connect_to_new_endpoint(self, force: bool = False) -> None:
        """Called by the library when this connection has ended."""
        self.lost.set()

    async def run_message_listeners(self, message: dict[str, Any], raw_message: str) -> None:
        """Called by the library for every message, in order."""
        match message.get("type"):
            case "hello":
                self.hello_received.set()
            case "disconnect":
                self.disconnect_reason = str(message.get("reason") or "")[:60]
                self.lost.set()
            case _:
                self._on_envelope(self, message)

    async def acknowledge(self, envelope_id: str) -> None:
        """Acknowledge an envelope. If the connection is lost, Slack sends the envelope again."""
        try:
            await self.send_socket_mode_response({"envelope_id": envelope_id})
        except (ConnectionError, RuntimeError, aiohttp.ClientError):
            pass

    async def shut_down(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.close()  # type: ignore[no-untyped-call]
        except (TimeoutError, aiohttp.ClientError, OSError):  # the connection has ended in any case
            pass
        tasks = [t for t in (self.message_processor, self.current_session_monitor, self.message_receiver) if t]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.aiohttp_client_session.close()


class SocketModeReceiver:
    """Keeps a Socket Mode connection open and hands its envelopes to the handler."""

    def __init__(
        self, client: SlackClient, app_token: str, handle_envelope: EnvelopeHandler, limits: SlackLimits
    ) -> None:
        self._client = client
        self._app_token = app_token
        self._handle_envelope = handle_envelope
        self._limits = limits
        self._reconnect_task: asyncio.Task[None] | None = None
        self._connections: set[SocketModeConnection] = set()
        self._envelope_tasks: set[asyncio.Task[None]] = set()
        self.state = "not started"

    async def start(self) -> None:
        """Connect. Raises ConfigError if the app token is refused, and a ChannelError if Slack is not reachable now."""
        try:
            connection = await self._connect()
        except (SlackTokenRefused, SlackRequestRefused) as error:
            raise ConfigError(f"the app token cannot be used. {error}") from None
        first: SocketModeConnection | None = connection

        async def keep_connected() -> None:
            nonlocal first
            connection, first = first, None
            if connection is None:  # it failed before
                self.state = "not connected: the receiver failed because of an internal error; reconnecting"
                connection, _ = await self._reconnect(0, at_once=True)
            await self._keep_connected(connection)

        self._reconnect_task = start_supervised_task("connection to Slack", keep_connected)

    async def close(self) -> None:
        self.state = "closed"
        tasks = [*([self._reconnect_task] if self._reconnect_task else []), *self._envelope_tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._connections):
            await self._disconnect(connection)

    # --- the connection --------------------------------------------------------------------------

    async def _connect(self) -> SocketModeConnection:
        connection = SocketModeConnection(
            await self._client.request_socket_url(self._app_token), self._client, self._limits, self._on_envelope
        )
        self._connections.add(connection)
        try:
            async with asyncio.timeout(self._limits.connect_timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.hello_received.wait()
        except TimeoutError:
            await self._disconnect(connection)
            raise DeliveryDeferred("Slack did not open a connection in time.") from None
        except BaseException:
            await self._disconnect(connection)
            raise
        self.state = "connected"
        return connection

    async def _disconnect(self, connection: SocketModeConnection) -> None:
        await connection.shut_down()
        self._connections.discard(connection)

    async def _keep_connected(self, connection: SocketModeConnection) -> None:
        attempts = 0
        while True:
            since = time.monotonic()
            await connection.lost.wait()
            if time.monotonic() - since >= self._limits.backoff_reset_s:
                attempts = 0
            is_refresh = connection.disconnect_reason in _REFRESH_REASONS
            if not is_refresh:
                reason = f" ({connection.disconnect_reason})" if connection.disconnect_reason else ""
                self.state = f"the connection was lost{reason}; reconnecting"
                log.info("slack: %s", self.state)
                await self._disconnect(connection)
            new_connection, attempts = await self._reconnect(attempts, at_once=is_refresh and not attempts)
            if is_refresh:
                await self._disconnect(connection)
            connection = new_connection

    async def _reconnect(self, attempts: int, *, at_once: bool) -> tuple[SocketModeConnection, int]:
        """Connect, retrying without limit. Returns the connection and the number of attempts so far."""
        wait_s = 0.0 if at_once else compute_backoff_s(attempts, self._limits.reconnect_wait_s)
        while True:
            await asyncio.sleep(wait_s)
            attempts += 1
            try:
                return await self._connect(), attempts
            except ChannelError as error:
                retry_after_s = error.retry_after_s if isinstance(error, DeliveryDeferred) else None
                wait_s = max(compute_backoff_s(attempts, self._limits.reconnect_wait_s), retry_after_s or 0.0)
                self.state = f"not connected: {str(error).rstrip('.')}; next attempt in {wait_s:.0f} s"
                log.warning("slack: %s", self.state)

    # --- envelopes -------------------------------------------------------------------------------

    def _on_envelope(self, connection: SocketModeConnection, message: dict[str, Any]) -> None:
        if len(self._envelope_tasks) >= self._limits.envelopes_pending_max:
            return  # not acknowledged: Slack will send it again
        task = asyncio.create_task(self._process_envelope(connection, message), name="slack envelope")
        self._envelope_tasks.add(task)
        task.add_done_callback(self._on_envelope_task_done)

    def _on_envelope_task_done(self, task: asyncio.Task[None]) -> None:
        self._envelope_tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:  # not acknowledged, so not lost
            log.error("slack: an envelope could not be handled: %s", type(error).__name__, exc_info=error)

    async def _process_envelope(self, connection: SocketModeConnection, message: dict[str, Any]) -> None:
        id, kind = message.get("envelope_id"), message.get("type")
        if not isinstance(id, str) or not isinstance(kind, str):
            return
        try:
            await self._handle_envelope(kind, message.get("payload"))
        except TimeoutError:  # not acknowledged: Slack may send it again
            log.error("slack: a message could not be stored within %g s and is dropped", self._limits.accept_timeout_s)
            return
        await connection.acknowledge(id)
