"""Slack Web API client, over slack_sdk, with its failures mapped to ChannelErrors.

The library's retries are disabled: it would repeat a request after a connection was lost, when it is unknown whether
the message was posted. Its log is discarded, because it contains tokens and users' messages. The environment's proxy
is looked up here, since the library ignores NO_PROXY. The library is slow to import, so it is imported on first use.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from mainstay.channels.slack.limits import SlackLimits
from mainstay.core.channels import ChannelError, DeliveryDeferred, DeliveryRejected, DeliveryUnknown

DEFAULT_BASE_URL = "https://slack.com/api/"
RETRY_AFTER_DEFAULT_S = 30.0  # where Slack sends no Retry-After
RETRY_AFTER_MAX_S = 3600.0

# The token is not valid until the owner changes something.
_TOKEN_REFUSED_CODES = frozenset(
    ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type")
)
# Nothing was done, and a retry may succeed.
_RETRYABLE_CODES = frozenset(
    (
        *("ratelimited", "rate_limited", "service_unavailable", "request_timeout", "team_added_to_org"),
        *("org_login_required", "accesslimited", "two_factor_setup_required"),
    )
)
# According to Slack's documentation, part of the request may have succeeded.
_OUTCOME_UNKNOWN_CODES = frozenset(("internal_error", "fatal_error"))
_REASONS = {
    "channel_not_found": "there is no such room, or the app is not in it",
    "is_archived": "the room is archived",
    "not_in_channel": "the app is not in that room: invite it",
    "msg_too_long": "the message is too long",
    "message_not_found": "the message no longer exists",
    "thread_not_found": "the thread no longer exists",
    "missing_scope": "the app may not do this",
}


class SlackTokenRefused(DeliveryDeferred):
    """Slack does not accept the token."""


def create_silent_logger() -> logging.Logger:
    """Return a logger for the library that discards everything, whatever the logging configuration is."""
    logger = logging.Logger("slack_sdk", logging.CRITICAL + 1)
    logger.addHandler(logging.NullHandler())
    return logger


def find_proxy(url: str) -> str | None:
    """Return the proxy that the environment configures for this URL's host; None: no proxy."""
    parts = urlsplit(url)
    proxy = getproxies().get({"wss": "https", "ws": "http"}.get(parts.scheme, parts.scheme))
    if not proxy or (parts.hostname and proxy_bypass(parts.hostname)):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


class SlackClient:
    """Web API client of one channel. It must be created inside of the event loop that uses it."""

    def __init__(self, token: str, base_url: str, limits: SlackLimits) -> None:
        import aiohttp
        from slack_sdk.web.async_client import AsyncWebClient

        self.base_url = base_url or DEFAULT_BASE_URL
        self.token = token
        self.token_problem = ""  # what is wrong with the token, by the last response; empty: nothing
        self._limits = limits
        timeout = aiohttp.ClientTimeout(total=limits.request_timeout_s, sock_connect=limits.connect_timeout_s)
        self.session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        self.sdk_client = AsyncWebClient(
            token, base_url=self.base_url, session=self.session, logger=create_silent_logger(), retry_handlers=[]
        )
        self.sdk_client.proxy = find_proxy(self.base_url)

    async def close(self) -> None:
        await self.session.close()

    async def call(self, method: str, arguments: Mapping[str, Any], *, writes: bool = False) -> dict[str, Any]:
        """Call a method and return its response. Raises ChannelErrors. `writes`: a lost connection raises
        DeliveryUnknown, because the request may have been executed."""
        self._check_open()
        form = {name: _encode_form_value(value) for name, value in arguments.items() if value is not None}
        return await self._await_response(method, self.sdk_client.api_call(method, data=form), writes)

    async def request_socket_url(self, app_token: str) -> str:
        """Return the WebSocket URL for Socket Mode. The URL is a secret."""
        self._check_open()
        answer = await self._await_response(
            "apps.connections.open", self.sdk_client.apps_connections_open(app_token=app_token), False
        )
        url = answer.get("url")
        schemes = ("wss://",) if self.base_url.startswith("https:") else ("wss://", "ws://")
        if not isinstance(url, str) or not url.startswith(schemes):
            raise DeliveryDeferred("Slack did not return a WebSocket URL for Socket Mode.")
        return url

    async def upload_content(self, url: str, content: bytes) -> None:
        """Upload a file's content to the URL that Slack returned. This posts no message."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(
            total=self._limits.upload_timeout_s, sock_connect=self._limits.connect_timeout_s
        )
        request = self.session.post(url, data=content, proxy=find_proxy(url), allow_redirects=False, timeout=timeout)
        try:
            async with request as response:
                if response.status != 200:
                    raise DeliveryDeferred(f"Slack did not accept the file ({response.status}).")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            raise DeliveryDeferred("The file could not be uploaded to Slack.") from None

    def _check_open(self) -> None:
        """Raise DeliveryDeferred if the session is closed: the library would open a session of its own."""
        if self.session.closed:
            raise DeliveryDeferred("The channel is closed.")

    async def _await_response(self, method: str, request: Awaitable[Any], writes: bool) -> dict[str, Any]:
        import aiohttp
        from slack_sdk.errors import SlackApiError

        lost_type = DeliveryUnknown if writes else DeliveryDeferred
        try:
            data = (await request).data
        except SlackApiError as error:
            raise self._to_channel_error(method, error.response, writes) from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):  # nothing was sent
            raise DeliveryDeferred("Slack cannot be reached.") from None
        except TimeoutError:
            raise lost_type(f"Slack did not answer in time ({method}).") from None
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError):
            raise lost_type(f"The connection to Slack was lost ({method}).") from None
        except RuntimeError:  # the session was closed meanwhile
            raise DeliveryDeferred("The channel is closed.") from None
        except (AttributeError, TypeError, ValueError):  # the library fails on a response that is not a JSON object
            raise lost_type(f"Slack's answer cannot be parsed ({method}).") from None
        self.token_problem = ""
        return data if isinstance(data, dict) else {}

    def _to_channel_error(self, method: str, response: Any, writes: bool) -> ChannelError:
        """Map a response that is not "ok" to an error. `response` is slack_sdk's, or aiohttp's if it had no JSON."""
        status = getattr(response, "status_code", None) or getattr(response, "status", 0)
        data = getattr(response, "data", None)
        fields = data if isinstance(data, dict) else {}
        code = str(fields.get("error") or "")[:60]
        if status == 429 or code in ("ratelimited", "rate_limited"):
            return DeliveryDeferred(
                f"Slack's rate limit was reached ({method}).", retry_after_s=_parse_retry_after_s(response.headers)
            )
        if code in _TOKEN_REFUSED_CODES:
            self.token_problem = f"Slack refuses the token ({code})"
            return SlackTokenRefused(f"{self.token_problem}.", retry_after_s=RETRY_AFTER_DEFAULT_S)
        if code in _OUTCOME_UNKNOWN_CODES or (not code and status != 503):
            error_type = DeliveryUnknown if writes else DeliveryDeferred
            return error_type(f"Slack failed at {method} ({code or status}).")
        if code in _RETRYABLE_CODES or not code:
            return DeliveryDeferred(f"Slack cannot do this now ({method}: {code or status}).")
        reason = _REASONS.get(code, code)
        if code == "missing_scope" and "needed" in fields:
            reason += f" without the scope {str(fields['needed'])[:80]}"
        return SlackRequestRefused(f"Slack refuses {method}: {reason}.", code)


class SlackRequestRefused(DeliveryRejected):
    """Slack refused the request; `code` is its error code."""

    def __init__(self, sentence: str, code: str) -> None:
        super().__init__(sentence)
        self.code = code


def _parse_retry_after_s(headers: Mapping[str, str]) -> float:
    value = headers.get("Retry-After", "")
    return (
        min(max(float(value), 1.0), RETRY_AFTER_MAX_S) if value.isascii() and value.isdigit() else RETRY_AFTER_DEFAULT_S
    )


def _encode_form_value(value: Any) -> str:
    """Encode a value for a form."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
    return json.dumps(value)
