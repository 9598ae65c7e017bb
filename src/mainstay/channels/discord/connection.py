"""A connection to Discord, by discord.py: made, kept, and what its refusals mean."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from mainstay.channels.telling import growing
from mainstay.core.channels import MaybeSent, NeverSent, NotSent
from mainstay.core.errors import ConfigError

T = TypeVar("T")
REQUEST_S = 40.0
CONNECT_S = 60.0
PATIENT_S = 1.0  # so long the library may wait by itself when it was told that it is too soon
RETRY_MAX_S = 3_600.0
USUAL = "https://discord.com/api/v10"
FATAL = {
    4004: "the token is not accepted",
    4010: "the gateway does not know this shard",
    4011: "the bot is in too many servers for one connection",
    4012: "the gateway does not speak this version any more",
    4013: "the gateway does not know these intents",
    4014: "the bot may not read messages: switch on the Message Content Intent in Discord's developer portal",
}

_log = logging.getLogger(__name__)


class TooSoon(Exception):
    """Discord says 429: the outbox waits, and not a request that somebody waits for."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"too soon by {retry_after_s:g} s")
        self.retry_after_s = retry_after_s


def library() -> Any:
    """discord.py, which not everybody has. What it imports may be about to leave Python: that is not for us to say."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import discord
            import discord.gateway
            import discord.http
    except ImportError:
        raise ConfigError("Discord needs discord.py: pip install -e '.[discord]'") from None
    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # nobody misses voice here
    return discord


class _Elsewhere:
    """The library knows one address of Discord for the whole process. Who needs another has it alone."""

    def __init__(self) -> None:
        self._base = USUAL
        self._users = 0
        self._gateway: Any = None

    def take(self, base: str) -> None:
        discord = library()
        if self._users and base != self._base:
            raise ConfigError(f"Discord is reached at {self._base} already; another base_url beside it cannot be used")
        if not self._users:
            self._gateway = discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY
        self._base, self._users = base, self._users + 1
        discord.http.Route.BASE = base

    def connect_to(self, gateway: str) -> None:
        from yarl import URL

        library().gateway.DiscordWebSocket.DEFAULT_GATEWAY = URL(gateway)

    def give_back(self) -> None:
        self._users -= 1
        if not self._users:
            discord = library()
            discord.http.Route.BASE = self._base = USUAL
            discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = self._gateway


_elsewhere = _Elsewhere()


class Connection:
    """A client of the library's, connected for as long as it takes. `listen` is called for whatever may be heard:
    a message, or None when some may have been missed."""

    def __init__(self, name: str, base: str, listen: Callable[[Any], None]) -> None:
        self.name = name
        self.trouble = "not started"
        self.client: Any = None
        self._base = (base or USUAL).rstrip("/")
        self._listen = listen
        self._up = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._fatal = ""
        self._taken = False

    async def open(self, token: str) -> None:
        """Returns when it is connected; raises ConfigError if it never will be."""
        _elsewhere.take(self._base)
        self._taken = True
        try:
            await self._login(token)
            self._running = asyncio.create_task(self._run(), name=f"discord {self.name}")
            up = asyncio.create_task(self._up.wait())
            await asyncio.wait((up, self._running), return_when=asyncio.FIRST_COMPLETED)
            up.cancel()
            if self._fatal:
                raise ConfigError(f"{self.name}: {self._fatal}")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self.trouble = "closed"
        running, self._running = self._running, None
        if self.client is not None:
            await self.client.close()
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        if self._taken:
            self._taken = False
            _elsewhere.give_back()

    async def _login(self, token: str) -> None:
        discord, tries = library(), 0
        while True:
            self.client = self._made()
            try:
                await asked(self.client.login(token))
                if self._base != USUAL:
                    _elsewhere.connect_to((await asked(self.client.http.get_bot_gateway()))[1])
                return
            except discord.LoginFailure:
                raise ConfigError(f"{self.name}: the token is not accepted") from None
            except NeverSent as error:
                raise ConfigError(f"{self.name}: the bot cannot log in: {error}") from None
            except (NotSent, MaybeSent) as error:
                self.trouble = f"not connected: {error}"
                await self.client.close()
                await asyncio.sleep(growing(tries))
                tries += 1

    def _made(self) -> Any:
        import aiohttp

        discord = library()
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(_answered)
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.dm_messages = intents.message_content = True
        client = discord.Client(
            intents=intents,
            max_messages=None,
            chunk_guilds_at_startup=False,
            member_cache_flags=discord.MemberCacheFlags.none(),
            allowed_mentions=discord.AllowedMentions.none(),  # an answer calls nobody's attention
            http_trace=trace,
        )
        for handler in (self.on_connect, self.on_resumed, self.on_disconnect, self.on_message):
            client.event(handler)
        return client

    async def _run(self) -> None:
        discord, tries = library(), 0
        while True:
            try:
                await self.client.connect(reconnect=True)
                return  # it was closed
            except discord.PrivilegedIntentsRequired:
                self._fatal = FATAL[4014]
            except discord.ConnectionClosed as error:
                self._fatal = FATAL.get(error.code or 0, f"the gateway closed the connection ({error.code})")
            except Exception as error:  # the library may raise anything, and connects again
                _log.warning("%s: the connection broke (%s) and is made again", self.name, type(error).__name__)
                self.trouble = f"the connection broke ({type(error).__name__})"
                if self.client.ws is not None:
                    await self.client.ws.close()  # with the thread that keeps it alive
            if self._fatal:
                self.trouble = self._fatal
                _log.error("%s: %s", self.name, self._fatal)
                return
            await asyncio.sleep(growing(tries, 1.0))
            tries += 1

    # --- what the library tells ------------------------------------------------------------------

    async def on_connect(self) -> None:
        self.trouble = ""
        if self._up.is_set():  # another session: what was said between the two is told by nobody
            self._listen(None)
        self._up.set()

    async def on_resumed(self) -> None:
        self.trouble = ""

    async def on_disconnect(self) -> None:
        if self.trouble != "closed":
            self.trouble = "the connection was lost, and is made again"

    async def on_message(self, message: Any) -> None:
        self._listen(message)


async def _answered(session: Any, context: SimpleNamespace, told: Any) -> None:
    """Every answer of Discord's passes here before the library sees it."""
    if told.response.status != 429:
        return
    try:
        wait_s = float(told.response.headers.get("Retry-After", "5"))
    except ValueError:
        wait_s = 5.0
    if wait_s > PATIENT_S:
        told.response.close()
        raise TooSoon(min(wait_s, RETRY_MAX_S))


async def asked(asking: Awaitable[T], patience_s: float = REQUEST_S) -> T:
    """An answer of the library's. Nothing else than ChannelErrors and LoginFailure comes out of it."""
    from aiohttp import ClientConnectorError, ClientError

    discord = library()
    try:
        async with asyncio.timeout(patience_s):
            return await asking
    except TooSoon as error:
        raise NotSent("Discord says that it is too soon", retry_after_s=error.retry_after_s) from None
    except discord.RateLimited as error:
        raise NotSent("Discord says that it is too soon", retry_after_s=error.retry_after) from None
    except discord.LoginFailure:
        raise
    except discord.HTTPException as error:
        raise _refused(error) from None
    except (discord.GatewayNotFound, ClientConnectorError):
        raise NotSent("Discord cannot be reached") from None
    except TimeoutError:
        raise MaybeSent(f"Discord did not answer within {patience_s:g} s") from None
    except (ClientError, OSError) as error:
        raise MaybeSent(f"the connection to Discord was lost ({type(error).__name__})") from None
    except RuntimeError:  # the library's session was closed meanwhile
        raise NotSent("the connection to Discord is closed") from None


class Refused(NeverSent):
    """With Discord's own code for the reason."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


def _refused(error: Any) -> Exception:
    said = f"Discord says {error.status}: {' '.join(str(error.text).split())[:200]}"
    if error.status == 429:
        return NotSent(said, retry_after_s=5.0)
    if error.status >= 500 or error.status == 408:
        return MaybeSent(said)
    return Refused(said, int(error.code))
