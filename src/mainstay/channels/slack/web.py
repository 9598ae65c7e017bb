"""The Web API, through Slack's own client, and everything it can say mapped to what that means for a message.

The client is told not to try again by itself: it would do so after a connection was lost, when nobody knows whether
the message was posted. What it logs goes nowhere: tokens and other people's words are in it. The environment's proxy
is asked for here, since the client would use it for hosts that are to be reached without. It is slow to import,
and imported when it is first needed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from mainstay.channels.slack.bounds import Bounds
from mainstay.core.channels import ChannelError, MaybeSent, NeverSent, NotSent

API = "https://slack.com/api/"
RETRY_S = 30.0  # after a refusal that does not say when
RETRY_S_MAX = 3600.0

# The token is no good, until somebody does something about it.
_REFUSED = frozenset(
    ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type")
)
# Nothing has happened, and later it may.
_LATER = frozenset(
    (
        *("ratelimited", "rate_limited", "service_unavailable", "request_timeout", "team_added_to_org"),
        *("org_login_required", "accesslimited", "two_factor_setup_required"),
    )
)
# In Slack's own words: some of it may have succeeded.
_HALF_DONE = frozenset(("internal_error", "fatal_error"))
_SAID = {
    "channel_not_found": "there is no such room, or we are not in it",
    "is_archived": "the room is archived",
    "not_in_channel": "we are not in that room: invite the app there",
    "msg_too_long": "the message is too long",
    "message_not_found": "the message is not there any more",
    "thread_not_found": "the thread is not there any more",
    "missing_scope": "the app may not do this",
}


class TokenRefused(NotSent):
    """Nothing can be done with this token, now at least."""


def quiet() -> logging.Logger:
    """For the library: nobody hears it, whatever the program's logging is set to."""
    logger = logging.Logger("slack_sdk", logging.CRITICAL + 1)
    logger.addHandler(logging.NullHandler())
    return logger


def proxy_for(url: str) -> str | None:
    """As the environment says for this host."""
    parts = urlsplit(url)
    proxy = getproxies().get({"wss": "https", "ws": "http"}.get(parts.scheme, parts.scheme))
    if not proxy or (parts.hostname and proxy_bypass(parts.hostname)):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


class Web:
    """One for a channel's life, made in the loop that it is used in."""

    def __init__(self, token: str, base_url: str, bounds: Bounds) -> None:
        import aiohttp
        from slack_sdk.web.async_client import AsyncWebClient

        self.base_url = base_url or API
        self.token = token
        self.trouble = ""  # what is wrong with the token, since it was last asked
        self._bounds = bounds
        timeout = aiohttp.ClientTimeout(total=bounds.call_s, sock_connect=bounds.connect_s)
        self.session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        self.client = AsyncWebClient(
            token, base_url=self.base_url, session=self.session, logger=quiet(), retry_handlers=[]
        )
        self.client.proxy = proxy_for(self.base_url)

    async def close(self) -> None:
        await self.session.close()

    async def call(self, method: str, arguments: Mapping[str, Any], *, writes: bool = False) -> dict[str, Any]:
        """Raises ChannelErrors. `writes`: what was lost on the way may have been done."""
        self._check_open()
        form = {name: _written(value) for name, value in arguments.items() if value is not None}
        return await self._answer(method, self.client.api_call(method, data=form), writes)

    async def open_socket(self, app_token: str) -> str:
        """Where to connect to in socket mode. The address is a secret itself."""
        self._check_open()
        answer = await self._answer(
            "apps.connections.open", self.client.apps_connections_open(app_token=app_token), False
        )
        url = answer.get("url")
        schemes = ("wss://",) if self.base_url.startswith("https:") else ("wss://", "ws://")
        if not isinstance(url, str) or not url.startswith(schemes):
            raise NotSent("Slack did not say where to connect to.")
        return url

    async def put(self, url: str, content: bytes) -> None:
        """A file's content, to where Slack said. Nothing is posted by it."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=self._bounds.upload_s, sock_connect=self._bounds.connect_s)
        asked = self.session.post(url, data=content, proxy=proxy_for(url), allow_redirects=False, timeout=timeout)
        try:
            async with asked as response:
                if response.status != 200:
                    raise NotSent(f"Slack did not take the file ({response.status}).")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            raise NotSent("The file could not be handed over to Slack.") from None

    def _check_open(self) -> None:
        """The client would make a connection of its own."""
        if self.session.closed:
            raise NotSent("The channel is closed.")

    async def _answer(self, method: str, asked: Awaitable[Any], writes: bool) -> dict[str, Any]:
        import aiohttp
        from slack_sdk.errors import SlackApiError

        lost = MaybeSent if writes else NotSent
        try:
            data = (await asked).data
        except SlackApiError as error:
            raise self._meaning(method, error.response, writes) from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):  # nothing of it has left
            raise NotSent("Slack cannot be reached.") from None
        except TimeoutError:
            raise lost(f"Slack did not answer in time ({method}).") from None
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError):
            raise lost(f"The connection to Slack was lost ({method}).") from None
        except RuntimeError:  # the session was closed meanwhile
            raise NotSent("The channel is closed.") from None
        except (AttributeError, TypeError, ValueError):  # the client itself fails at what is no JSON object
            raise lost(f"What Slack answered makes no sense ({method}).") from None
        self.trouble = ""
        return data if isinstance(data, dict) else {}

    def _meaning(self, method: str, response: Any, writes: bool) -> ChannelError:
        """Of an answer that is not "ok"; `response` is the client's own, or aiohttp's where that had no JSON."""
        status = getattr(response, "status_code", None) or getattr(response, "status", 0)
        data = getattr(response, "data", None)
        told = data if isinstance(data, dict) else {}
        code = str(told.get("error") or "")[:60]
        if status == 429 or code in ("ratelimited", "rate_limited"):
            return NotSent(f"Slack asks to wait ({method}).", retry_after_s=_retry_after(response.headers))
        if code in _REFUSED:
            self.trouble = f"Slack refuses the token ({code})"
            return TokenRefused(f"{self.trouble}.", retry_after_s=RETRY_S)
        if code in _HALF_DONE or (not code and status != 503):
            kind = MaybeSent if writes else NotSent
            return kind(f"Slack failed at {method} ({code or status}).")
        if code in _LATER or not code:
            return NotSent(f"Slack cannot do this now ({method}: {code or status}).")
        said = _SAID.get(code, code)
        if code == "missing_scope" and "needed" in told:
            said += f" without the scope {str(told['needed'])[:80]}"
        return Refused(f"Slack refuses {method}: {said}.", code)


class Refused(NeverSent):
    """With Slack's own word for it."""

    def __init__(self, sentence: str, code: str) -> None:
        super().__init__(sentence)
        self.code = code


def _retry_after(headers: Mapping[str, str]) -> float:
    told = headers.get("Retry-After", "")
    return min(max(float(told), 1.0), RETRY_S_MAX) if told.isascii() and told.isdigit() else RETRY_S


def _written(value: Any) -> str:
    """As a form has it."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
    return json.dumps(value)
