"""A model server with a provider's rate limits: token buckets for requests and tokens; requests above them get 429.

It serves OpenAI chat completions on 127.0.0.1 in a separate process, prints its port and exits when its standard input
closes. A call takes the tokens of its prompt and `max_tokens`. The rate limit headers are true, missing or false
(`--says`). In bursts (`--burst-s`) it refuses all requests, or some at random (`--refused-share`). Another client of
the account (`--elsewhere`) may take requests, too.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import sys
import time
from dataclasses import dataclass

import msgspec
import uvloop
from model_server import (
    CALL_ID,
    STREAMED_RESPONSES,
    Connection,
    build_json_response,
    classify_conversation,
    decode_request,
)

CHARS_PER_TOKEN = 4
HEADER_MODES = ("truth", "nothing", "too-much", "too-little", "always-full", "always-empty")


class OutputLimit(msgspec.Struct):
    max_tokens: int = 0


decode_output_limit = msgspec.json.Decoder(OutputLimit).decode


@dataclass
class TokenBucket:
    """A bucket that holds at most `size` units and is refilled by `rate` units per second."""

    rate: float
    size: float
    level: float = 0.0
    updated_at: float = 0.0
    taken: float = 0.0

    def refill(self, now: float) -> float:
        self.level = min(self.size, self.level + self.rate * (now - self.updated_at)) if self.updated_at else self.size
        self.updated_at = now
        return self.level

    def take(self, amount: float) -> None:
        self.level -= amount
        self.taken += amount

    def report_state(self, mode: str) -> tuple[int, int, float] | None:
        """What the headers report: remaining units, limit, and seconds until the bucket is full."""
        full_s = (self.size - self.level) / self.rate
        match mode:
            case "truth":
                return int(self.level), int(self.size), full_s
            case "too-much":
                return int(4 * self.level), int(4 * self.size), full_s
            case "too-little":
                return int(self.level / 4), int(self.size / 4), full_s
            case "always-full":
                return int(self.size), int(self.size), 0.0
            case "always-empty":
                return 0, int(self.size / 10), 60.0
        return None


class Account:
    """The rate limits of one account, and counts of what it took and refused."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.requests = TokenBucket(arguments.requests, arguments.requests * arguments.bucket_s)
        self.tokens = TokenBucket(arguments.tokens, arguments.tokens * arguments.bucket_s)
        self.header_mode: str = arguments.says
        self.burst_s, self.every_s = arguments.burst_s, arguments.every_s
        self.refused_share: float = arguments.refused_share
        self.elsewhere: float = arguments.elsewhere
        self.refused = 0
        self.taken_elsewhere = 0
        self.first_request_at = self.last_taken_at = 0.0
        self.random = random.Random(1)

    def take_or_refuse(self, tokens: float) -> float | None:
        """Take a request with its tokens and return None, or refuse it and return the seconds until a retry."""
        now = time.monotonic()
        self.first_request_at = self.first_request_at or now
        waits_s = [
            (1 - self.requests.refill(now)) / self.requests.rate,
            (tokens - self.tokens.refill(now)) / self.tokens.rate,
        ]
        if self.burst_s and (now - self.first_request_at) % self.every_s >= self.every_s - self.burst_s:
            waits_s.append(1.0)
        if self.random.random() < self.refused_share:
            waits_s.append(1.0)
        if max(waits_s) > 0:
            self.refused += 1
            return math.ceil(max(waits_s))
        self.requests.take(1)
        self.tokens.take(tokens)
        self.last_taken_at = now
        return None

    async def take_elsewhere(self) -> None:
        """Take requests as another client of the account does that takes no notice of refusals."""
        while True:
            await asyncio.sleep(self.random.expovariate(self.elsewhere))
            if self.first_request_at and self.requests.refill(time.monotonic()) >= 1:
                self.requests.take(1)
                self.taken_elsewhere += 1

    def build_headers(self) -> bytes:
        lines = []
        for name, bucket in (("requests", self.requests), ("tokens", self.tokens)):
            if (state := bucket.report_state(self.header_mode)) is not None:
                for part, value in zip(("remaining", "limit", "reset"), state, strict=True):
                    text = f"{value * 1000:.0f}ms" if part == "reset" else str(value)
                    lines.append(f"x-ratelimit-{part}-{name}: {text}\r\n")
        return "".join(lines).encode()

    def stats(self) -> dict[str, float]:
        """`used` is the share of what the limits allowed from the first request to the last accepted one."""
        seconds = self.last_taken_at - self.first_request_at
        buckets = (self.requests, self.tokens)
        used = [bucket.taken / (bucket.size + bucket.rate * seconds) for bucket in buckets]
        ideal_s = max((bucket.taken - bucket.size) / bucket.rate for bucket in buckets)
        return {
            "taken": self.requests.taken - self.taken_elsewhere,
            "taken_elsewhere": self.taken_elsewhere,
            "tokens": self.tokens.taken,
            "refused": self.refused,
            "seconds": seconds,
            "used": max(used),
            "ideal_s": max(ideal_s, 0.0),
        }


class RateLimitedConnection(Connection):
    account: Account

    def handle_request(self, path: bytes, body: bytes) -> None:
        if path == b"/stats":
            self.transport.write(build_json_response(self.account.stats()))
            return
        tokens = len(body) // CHARS_PER_TOKEN + decode_output_limit(body).max_tokens
        wait_s = self.account.take_or_refuse(tokens)
        if wait_s is not None:
            refusal = build_json_response(
                {"error": {"message": "slow down", "type": "rate_limit_error"}}, "429 Too Many Requests"
            )
            self.transport.write(add_headers(refusal, self.account.build_headers() + b"Retry-After: %d\r\n" % wait_s))
            return
        headers = self.account.build_headers()  # the state now, although the answer is sent later
        parts = STREAMED_RESPONSES[classify_conversation(decode_request(body).messages), True]
        response = b"".join(parts).replace(CALL_ID.encode(), b"call_%09d" % next(self.ids))
        delay_s = self.latency_s * self.account.random.uniform(0.5, 1.5)
        asyncio.get_running_loop().call_later(delay_s, self.send_response, add_headers(response, headers))

    def send_response(self, response: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(response)


def add_headers(response: bytes, headers: bytes) -> bytes:
    """Insert headers after the status line."""
    status, rest = response.split(b"\r\n", 1)
    return status + b"\r\n" + headers + rest


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(RateLimitedConnection, "127.0.0.1", 0, backlog=1024)
    account = RateLimitedConnection.account
    other = asyncio.create_task(account.take_elsewhere()) if account.elsewhere else None
    print(server.sockets[0].getsockname()[1], flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()  # until the parent process exits or closes the pipe
    if other is not None:
        other.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--says", choices=HEADER_MODES, default="truth", help="what the rate limit headers report")
    parser.add_argument("--requests", type=float, default=70, help="requests per second")
    parser.add_argument("--tokens", type=float, default=1e9, help="tokens per second")
    parser.add_argument("--bucket-s", type=float, default=5, help="size of the buckets, in seconds of their rate")
    parser.add_argument(
        "--burst-s", type=float, default=0, help="seconds of each period in which all requests are refused"
    )
    parser.add_argument("--every-s", type=float, default=8, help="length of that period")
    parser.add_argument("--refused-share", type=float, default=0, help="of all requests that are refused at random")
    parser.add_argument("--elsewhere", type=float, default=0, help="requests per second of another client")
    parser.add_argument("--latency-ms", type=float, default=250, help="mean latency of an answer, varied by 50 %%")
    arguments = parser.parse_args()
    RateLimitedConnection.account = Account(arguments)
    RateLimitedConnection.latency_s = arguments.latency_ms / 1000
    uvloop.run(serve())


if __name__ == "__main__":
    main()
