"""Connection to Discord's gateway and API, over discord.py, with its failures mapped to ChannelErrors."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from mainstay.channels.incoming_dispatch import compute_backoff_s
from mainstay.core.channels import DeliveryDeferred, DeliveryRejected, DeliveryUnknown
from mainstay.core.errors import ConfigError
from mainstay.core.supervision import start_supervised_task

T = TypeVar("T")
REQUEST_TIMEOUT_S = 40.0
CONNECT_TIMEOUT_S = 60.0
RATE_LIMIT_WAIT_MAX_S = 1.0  # the library waits by itself for rate limits up to this long
RETRY_AFTER_MAX_S = 3_600.0
DEFAULT_BASE_URL = "https://discord.com/api/v10"
FATAL_CLOSE_CODES = {
    4004: "Discord does not accept the token",
    4010: "Discord's gateway does not know this shard",
    4011: "the bot is in too many servers for one connection",
    4012: "Discord's gateway does not support this API version any more",
    4013: "Discord's gateway does not know these intents",
    4014: "the bot may not read messages: switch on the Message Content Intent in Discord's developer portal",
}

_log = logging.getLogger(__name__)


class DiscordRateLimited(Exception):
    """Discord responded with 429. Raised instead of waiting, so that the outbox waits and not a pending request."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"the rate limit was reached; retry after {retry_after_s:g} s")
        self.retry_after_s = retry_after_s


def import_discord() -> Any:
    """Import discord.py; raises ConfigError if it is not installed. Its deprecation warnings are suppressed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import discord
            import discord.gateway
            import discord.http
    except ImportError:
        raise ConfigError("Discord needs discord.py: pip install -e '.[discord]'") from None
    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # voice is not used
    return discord


class _DiscordBaseUrlOverride:
    """Sets the API's base URL, which discord.py keeps per process: only one can be in use at a time."""

    def __init__(self) -> None:
        self._base_url = DEFAULT_BASE_URL
        self._user_count = 0
        self._original_gateway: Any = None

    def acquire(self, base_url: str) -> None:
        discord = import_discord()
        if self._user_count and base_url != self._base_url:
            raise ConfigError(f"Discord channels cannot use different base_urls; {self._base_url} is in use already")
        if not self._user_count:
            self._original_gateway = discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY
        self._base_url, self._user_count = base_url, self._user_count + 1
        discord.http.Route.BASE = base_url

    def set_gateway(self, gateway: str) -> None:
        from yarl import URL

        import_discord().gateway.DiscordWebSocket.DEFAULT_GATEWAY = URL(gateway)

    def release(self) -> None:
        self._user_count -= 1
        if not self._user_count:
            discord = import_discord()
            discord.http.Route.BASE = self._base_url = DEFAULT_BASE_URL
            discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = self._original_gateway


_shared_base_url = _DiscordBaseUrlOverride()


class DiscordConnection:
    """A discord.py client that is reconnected whenever the connection is lost. `on_message` is called with each
    message, and with None when messages may have been missed."""

    def __init__(self, name: str, base_url: str, on_message: Callable[[Any], None]) -> None:
        self.name = name
        self.problem = "not started"
        self.client: Any = None
        self._base_url = (base_url or DEFAULT_BASE_URL).rstrip("/")
        self._on_message = on_message
        self._connected = asyncio.Event()
        self._run_task: asyncio.Task[None] | None = None
        self._fatal_error = ""
        self._holds_base_url = False

    async def open(self, token: str) -> None:
        """Return when connected. Raises ConfigError if that can never succeed."""
        _shared_base_url.acquire(self._base_url)
        self._holds_base_url = True
        try:
            await self._login(token)
            self._run_task = start_supervised_task(f"connection of {self.name} to Discord", self._run)
            up = asyncio.create_task(self._connected.wait())
            await asyncio.wait((up, self._run_task), return_when=asyncio.FIRST_COMPLETED)
            up.cancel()
            if self._fatal_error:
                raise ConfigError(f"{self.name}: {self._fatal_error}")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self.problem = "closed"
        running, self._run_task = self._run_task, None
        if self.client is not None:
            await self.client.close()
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        if self._holds_base_url:
            self._holds_base_url = False
            _shared_base_url.release()

    async def _login(self, token: str) -> None:
        discord, attempts = import_discord(), 0
        while True:
            self.client = self._create_client()
            try:
                await call_api(self.client.login(token))
                if self._base_url != DEFAULT_BASE_URL:
                    _shared_base_url.set_gateway((await call_api(self.client.http.get_bot_gateway()))[1])
                return
            except discord.LoginFailure:
                raise ConfigError(f"{self.name}: Discord does not accept the token") from None
            except DeliveryRejected as error:
                raise ConfigError(f"{self.name}: the bot cannot log in: {error}") from None
            except (DeliveryDeferred, DeliveryUnknown) as error:
                self.problem = f"not connected: {error}"
                await self.client.close()
                await asyncio.sleep(compute_backoff_s(attempts))
                attempts += 1

    def _create_client(self) -> Any:
        import aiohttp

        discord = import_discord()
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(_raise_rate_limited)
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.dm_messages = intents.message_content = True
        client = discord.Client(
            intents=intents,
            max_messages=None,
            chunk_guilds_at_startup=False,
            member_cache_flags=discord.MemberCacheFlags.none(),
            allowed_mentions=discord.AllowedMentions.none(),  # answers notify no one
            http_trace=trace,
        )
        for handler in (self.on_connect, self.on_resumed, self.on_disconnect, self.on_message):
            client.event(handler)
        return client

    async def _run(self) -> None:
        discord, attempts = import_discord(), 0
        while True:
            try:
                await self.client.connect(reconnect=True)
                return  # the client was closed
            except discord.PrivilegedIntentsRequired:
                self._fatal_error = FATAL_CLOSE_CODES[4014]
            except discord.ConnectionClosed as error:
                self._fatal_error = FATAL_CLOSE_CODES.get(
                    error.code or 0, f"Discord's gateway closed the connection ({error.code})"
                )
            except Exception as error:  # the library may raise anything, and the connection must be reopened
                _log.warning("%s: the connection failed (%s); reconnecting", self.name, type(error).__name__)
                self.problem = f"the connection failed ({type(error).__name__})"
                if self.client.ws is not None:
                    await self.client.ws.close()  # which also ends its heartbeat thread
            if self._fatal_error:
                self.problem = self._fatal_error
                _log.error("%s: %s", self.name, self._fatal_error)
                return
            await asyncio.sleep(compute_backoff_s(attempts, 1.0))
            attempts += 1

    # --- discord.py event handlers ---------------------------------------------------------------

    async def on_connect(self) -> None:
        self.problem = ""
        if self._connected.is_set():  # a new session: Discord does not send the messages between the two
            self._on_message(None)
        self._connected.set()

    async def on_resumed(self) -> None:
        self.problem = ""

    async def on_disconnect(self) -> None:
        if self.problem != "closed":
            self.problem = "the connection was lost; reconnecting"

    async def on_message(self, message: Any) -> None:
        self._on_message(message)


async def _raise_rate_limited(session: Any, context: SimpleNamespace, params: Any) -> None:
    """aiohttp trace hook: raise DiscordRateLimited for a 429 before the library sees it and waits."""
    if params.response.status != 429:
        return
    try:
        wait_s = float(params.response.headers.get("Retry-After", "5"))
    except ValueError:
        wait_s = 5.0
    if wait_s > RATE_LIMIT_WAIT_MAX_S:
        params.response.close()
        raise DiscordRateLimited(min(wait_s, RETRY_AFTER_MAX_S))


async def call_api(request: Awaitable[T], timeout_s: float = REQUEST_TIMEOUT_S) -> T:
    """Await a call of the library, with a timeout. Raises only ChannelErrors and discord.LoginFailure."""
    from aiohttp import ClientConnectorError, ClientError

    discord = import_discord()
    try:
        async with asyncio.timeout(timeout_s):
            return await request
    except DiscordRateLimited as error:
        raise DeliveryDeferred("Discord's rate limit was reached", retry_after_s=error.retry_after_s) from None
    except discord.RateLimited as error:
        raise DeliveryDeferred("Discord's rate limit was reached", retry_after_s=error.retry_after) from None
    except discord.LoginFailure:
        raise
    except discord.HTTPException as error:
        raise _to_channel_error(error) from None
    except (discord.GatewayNotFound, ClientConnectorError):
        raise DeliveryDeferred("Discord cannot be reached") from None
    except TimeoutError:
        raise DeliveryUnknown(f"Discord did not answer within {timeout_s:g} s") from None
    except (ClientError, OSError) as error:
        raise DeliveryUnknown(f"the connection to Discord was lost ({type(error).__name__})") from None
    except RuntimeError:  # the library's session was closed meanwhile
        raise DeliveryDeferred("the connection to Discord is closed") from None


class DiscordRequestRefused(DeliveryRejected):
    """Discord refused the request; `code` is its error code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


def _to_channel_error(error: Any) -> Exception:
    sentence = f"Discord answered with {error.status}: {' '.join(str(error.text).split())[:200]}"
    if error.status == 429:
        return DeliveryDeferred(sentence, retry_after_s=5.0)
    if error.status >= 500 or error.status == 408:
        return DeliveryUnknown(sentence)
    return DiscordRequestRefused(sentence, int(error.code))
