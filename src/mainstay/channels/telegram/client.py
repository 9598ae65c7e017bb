"""Telegram Bot API client, over python-telegram-bot. Imported when a bot is started, since it loads that library."""

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

from mainstay.core.channels import ChannelError, DeliveryDeferred, DeliveryRejected, DeliveryUnknown

CONNECTIONS_MAX = 32
CONNECT_TIMEOUT_S = 10.0
RESPONSE_TIMEOUT_S = 20.0
UPLOAD_TIMEOUT_S = 120.0  # for uploading a file
URL_LOGGERS = ("httpx", "telegram.Bot")  # loggers that log URLs with the token

_UPDATE_ID = re.compile(rb'"update_id"\s*:\s*(\d{1,15})(?!\d)')
_RATE_LIMITED = re.compile(r"Too Many Requests: retry after ([0-9]{1,7})\Z")
_MISSING_MESSAGE = ("to delete not found", "to edit not found", "message_id_invalid")


class TelegramResponseUnreadable(TelegramError):
    """A response that cannot be parsed. `update` is the id of the first update in it, if there is one."""

    def __init__(self, update: int | None) -> None:
        super().__init__("Telegram's response cannot be parsed")
        self.update = update


class StrictHttpxRequest(HTTPXRequest):
    """HTTP requests of the library, with malformed responses reported as TelegramResponseUnreadable."""

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        try:
            data = json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict) or (data.get("ok") is True and "result" not in data):
            match = _UPDATE_ID.search(payload[:4096])
            raise TelegramResponseUnreadable(int(match[1]) if match else None)
        return {**data, **_normalise_error(data)}


def _normalise_error(data: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the library reads from an error. The retry-after time moves into the description, where
    `parse_retry_after` reads it: the library would log a warning for it."""
    description, raw = data.get("description"), data.get("parameters")
    details = raw if isinstance(raw, dict) else {}
    new_chat, retry_after = details.get("migrate_to_chat_id"), details.get("retry_after")
    if type(retry_after) is int and 0 <= retry_after < 10**7:
        description = f"Too Many Requests: retry after {retry_after}"
    parameters = {"migrate_to_chat_id": new_chat} if type(new_chat) is int and abs(new_chat) < 2**53 else None
    return {"description": str(description)[:1000] if description else None, "parameters": parameters}


class _TokenLogFilter(logging.Filter):
    """Drops log records that contain the token: the libraries log URLs, and the token is part of them."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def filter(self, record: logging.LogRecord) -> bool:
        return self._token not in record.getMessage()


class TelegramClient:
    """A connection to the Bot API as one bot."""

    def __init__(self, token: str, base_url: str) -> None:
        self._token_filter = _TokenLogFilter(token)
        for name in URL_LOGGERS:
            logging.getLogger(name).addFilter(self._token_filter)
        self.bot = Bot(
            token,
            base_url=f"{base_url}/bot",
            base_file_url=f"{base_url}/file/bot",
            request=_create_request(),
            get_updates_request=_create_request(),
        )

    async def connect(self) -> dict[str, Any]:
        """Connect and return the bot's account (getMe). May be called again after a failure."""
        await self.bot.initialize()
        return self.bot.bot.to_dict()

    async def close(self) -> None:
        await self.bot.shutdown()
        for name in URL_LOGGERS:
            logging.getLogger(name).removeFilter(self._token_filter)

    async def get_updates(self, offset: int, wait_s: int, limit: int) -> list[Any]:
        """Return updates undecoded: the library's own parser fails on all of them if it cannot parse one.

        Method names are case-insensitive; spelled `GetUpdates`, the library does not intercept the call."""
        arguments = {"offset": offset, "timeout": wait_s, "limit": limit, "allowed_updates": ["message"]}
        updates = await self.bot.do_api_request("GetUpdates", arguments, read_timeout=wait_s + RESPONSE_TIMEOUT_S)
        return updates if isinstance(updates, list) else []


def _create_request() -> StrictHttpxRequest:
    return StrictHttpxRequest(
        connection_pool_size=CONNECTIONS_MAX,
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=RESPONSE_TIMEOUT_S,
        write_timeout=RESPONSE_TIMEOUT_S,
        pool_timeout=CONNECT_TIMEOUT_S,
        media_write_timeout=UPLOAD_TIMEOUT_S,
        httpx_kwargs={"trust_env": False},  # proxies of the environment must not see the token
    )


def to_channel_error(error: Exception) -> ChannelError:
    """Map a failed request to the error that says whether the message was sent."""
    match error:
        case TelegramError() if (wait := parse_retry_after(error)) is not None:
            return DeliveryDeferred("Telegram's rate limit was reached.", retry_after_s=wait)
        case Forbidden():
            return DeliveryRejected(f"Telegram does not let the bot write there: {_error_text(error)}.")
        case ChatMigrated():
            return DeliveryRejected("The group was replaced by another one (a supergroup).")
        case InvalidToken() | EndPointNotFound():
            return DeliveryDeferred("Telegram refuses the bot's token.")
        case BadRequest():
            return DeliveryRejected(f"Telegram refused it: {_error_text(error)}.")
        case TelegramError() if "too large" in error.message.lower():
            return DeliveryRejected("This is larger than Telegram accepts.")
        case TelegramError() if isinstance(
            error.__cause__, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
        ):
            return DeliveryDeferred("Telegram cannot be reached.")
        case TimeoutError():
            return DeliveryUnknown("Telegram did not answer in time.")
        case _:  # connection lost, server error or malformed response
            return DeliveryUnknown(
                "It is unknown whether Telegram accepted it: the connection was lost, or Telegram failed."
            )


def is_message_missing(error: BadRequest) -> bool:
    return any(phrase in error.message.lower() for phrase in _MISSING_MESSAGE)


def parse_retry_after(error: TelegramError) -> float | None:
    """Return the retry-after time of a rate limit error in seconds; None for other errors."""
    match = _RATE_LIMITED.match(error.message)
    return float(match[1]) if match else None


def _error_text(error: TelegramError) -> str:
    return error.message[:200].rstrip(".")
