"""The client library, and what it is to be kept from. Imported once a bot is started: not before."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import httpx
from telegram import Bot
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, TelegramError
from telegram.error import EndPointNotFound as EndPointNotFound
from telegram.request import HTTPXRequest

from mainstay.core.channels import ChannelError, MaybeSent, NeverSent, NotSent

CONNECTIONS_MAX = 32
CONNECT_S = 10.0
ANSWER_S = 20.0
FILE_S = 120.0  # to hand a file over
TALKATIVE = ("httpx", "telegram.Bot")  # who log what nobody should read

_UPDATE = re.compile(rb'"update_id"\s*:\s*(\d{1,15})(?!\d)')
_TOO_SOON = re.compile(r"Too Many Requests: retry after ([0-9]{1,7})\Z")
_GONE = ("to delete not found", "to edit not found", "message_id_invalid")


class Unreadable(TelegramError):
    """An answer that is none. `update`: the first update in it, where it should have held some."""

    def __init__(self, update: int | None) -> None:
        super().__init__("Telegram's answer cannot be read")
        self.update = update


class Request(HTTPXRequest):
    """Reads answers that are not what they should be, and says so in one way."""

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        try:
            data = json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict) or (data.get("ok") is True and "result" not in data):
            found = _UPDATE.search(payload[:4096])
            raise Unreadable(int(found[1]) if found else None)
        return {**data, **_explained(data)}


def _explained(data: dict[str, Any]) -> dict[str, Any]:
    """What the library reads of a refusal. How long to wait it reads itself with a warning: we read it (`wait_of`)."""
    description, given = data.get("description"), data.get("parameters")
    told = given if isinstance(given, dict) else {}
    moved, after = told.get("migrate_to_chat_id"), told.get("retry_after")
    if type(after) is int and 0 <= after < 10**7:
        description = f"Too Many Requests: retry after {after}"
    parameters = {"migrate_to_chat_id": moved} if type(moved) is int and abs(moved) < 2**53 else None
    return {"description": str(description)[:1000] if description else None, "parameters": parameters}


class _Discreet(logging.Filter):
    """The libraries' logs tell addresses, and in ours there is the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def filter(self, record: logging.LogRecord) -> bool:
        return self._token not in record.getMessage()


class Wire:
    """One bot, connected."""

    def __init__(self, token: str, base_url: str) -> None:
        self._discreet = _Discreet(token)
        for name in TALKATIVE:
            logging.getLogger(name).addFilter(self._discreet)
        self.bot = Bot(
            token,
            base_url=f"{base_url}/bot",
            base_file_url=f"{base_url}/file/bot",
            request=_request(),
            get_updates_request=_request(),
        )

    async def open(self) -> dict[str, Any]:
        """Who we are, as Telegram says it. Can be tried again."""
        await self.bot.initialize()
        return self.bot.bot.to_dict()

    async def close(self) -> None:
        await self.bot.shutdown()
        for name in TALKATIVE:
            logging.getLogger(name).removeFilter(self._discreet)

    async def updates(self, offset: int, wait_s: int, limit: int) -> list[Any]:
        """What Telegram tells, as it tells it: the library's own reader gives up on all of it if it cannot read one.
        Methods are the same in any case of their letters; so written, the library lets this one through."""
        asked = {"offset": offset, "timeout": wait_s, "limit": limit, "allowed_updates": ["message"]}
        told = await self.bot.do_api_request("GetUpdates", asked, read_timeout=wait_s + ANSWER_S)
        return told if isinstance(told, list) else []


def _request() -> Request:
    return Request(
        connection_pool_size=CONNECTIONS_MAX,
        connect_timeout=CONNECT_S,
        read_timeout=ANSWER_S,
        write_timeout=ANSWER_S,
        pool_timeout=CONNECT_S,
        media_write_timeout=FILE_S,
        httpx_kwargs={"trust_env": False},  # no proxy of the environment learns the token
    )


def trouble_of(error: Exception) -> ChannelError:
    """What a request's failure means for what was to be sent."""
    match error:
        case TelegramError() if (wait := wait_of(error)) is not None:
            return NotSent("Telegram says that this is too soon.", retry_after_s=wait)
        case Forbidden():
            return NeverSent(f"Telegram does not let us write there: {_said(error)}.")
        case ChatMigrated():
            return NeverSent("The group has become another one.")
        case InvalidToken() | EndPointNotFound():
            return NotSent("Telegram refuses the bot's token.")
        case BadRequest():
            return NeverSent(f"Telegram does not take it: {_said(error)}.")
        case TelegramError() if "too large" in error.message.lower():
            return NeverSent("This is more than Telegram takes.")
        case TelegramError() if isinstance(
            error.__cause__, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
        ):
            return NotSent("Telegram cannot be reached.")
        case TimeoutError():
            return MaybeSent("Telegram did not answer in time.")
        case _:  # lost on the way, a server that has failed, an answer without sense
            return MaybeSent("Whether Telegram has taken it is unknown: the connection was lost, or it failed.")


def is_gone(error: BadRequest) -> bool:
    return any(words in error.message.lower() for words in _GONE)


def wait_of(error: TelegramError) -> float | None:
    """How long Telegram wants us to wait; None: it does not."""
    found = _TOO_SOON.match(error.message)
    return float(found[1]) if found else None


def _said(error: TelegramError) -> str:
    return error.message[:200].rstrip(".")
