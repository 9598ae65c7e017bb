"""A model with limits as providers have them: requests and tokens, in buckets that come back evenly; over them, 429.

OpenAI chat completions on 127.0.0.1, in a process of its own; it prints its port and ends when its input closes. A call
weighs its prompt and `max_tokens`. What its headers say of what is left is true, missing, or a lie; in bursts it
refuses everybody.
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
from model_server import CALL_ID, STREAMED, Connection, answer_to, decode_request, response

CHARS_A_TOKEN = 4
SAYS = ("truth", "nothing", "too-much", "too-little", "always-full", "always-empty")


class Bounded(msgspec.Struct):
    max_tokens: int = 0


bound_of = msgspec.json.Decoder(Bounded).decode


@dataclass
class Bucket:
    """So many at most, and so many come back in a second."""

    rate: float
    size: float
    level: float = 0.0
    at: float = 0.0
    taken: float = 0.0

    def look(self, now: float) -> float:
        self.level = min(self.size, self.level + self.rate * (now - self.at)) if self.at else self.size
        self.at = now
        return self.level

    def take(self, weight: float) -> None:
        self.level -= weight
        self.taken += weight

    def told(self, says: str) -> tuple[int, int, float] | None:
        """What is left, of how much, and when it is whole: as the headers have it."""
        whole_s = (self.size - self.level) / self.rate
        match says:
            case "truth":
                return int(self.level), int(self.size), whole_s
            case "too-much":
                return int(4 * self.level), int(4 * self.size), whole_s
            case "too-little":
                return int(self.level / 4), int(self.size / 4), whole_s
            case "always-full":
                return int(self.size), int(self.size), 0.0
            case "always-empty":
                return 0, int(self.size / 10), 60.0
        return None


class Account:
    def __init__(self, given: argparse.Namespace) -> None:
        self.requests = Bucket(given.requests, given.requests * given.bucket_s)
        self.tokens = Bucket(given.tokens, given.tokens * given.bucket_s)
        self.says: str = given.says
        self.burst_s, self.every_s = given.burst_s, given.every_s
        self.refused = 0
        self.began = self.last = 0.0
        self.chance = random.Random(1)

    def refusal_s(self, weight: float) -> float | None:
        """When to come back; None if it is taken."""
        now = time.monotonic()
        self.began = self.began or now
        short = [
            (1 - self.requests.look(now)) / self.requests.rate,
            (weight - self.tokens.look(now)) / self.tokens.rate,
        ]
        if self.burst_s and (now - self.began) % self.every_s >= self.every_s - self.burst_s:
            short.append(1.0)
        if max(short) > 0:
            self.refused += 1
            return math.ceil(max(short))
        self.requests.take(1)
        self.tokens.take(weight)
        self.last = now
        return None

    def headers(self) -> bytes:
        lines = []
        for name, bucket in (("requests", self.requests), ("tokens", self.tokens)):
            if (told := bucket.told(self.says)) is not None:
                for part, value in zip(("remaining", "limit", "reset"), told, strict=True):
                    shown = f"{value * 1000:.0f}ms" if part == "reset" else str(value)
                    lines.append(f"x-ratelimit-{part}-{name}: {shown}\r\n")
        return "".join(lines).encode()

    def stats(self) -> dict[str, float]:
        """`used`: of what the limits allowed from the first request to the last that was taken."""
        seconds = self.last - self.began
        used = [one.taken / (one.size + one.rate * seconds) for one in (self.requests, self.tokens)]
        ideal_s = max((one.taken - one.size) / one.rate for one in (self.requests, self.tokens))
        return {
            "taken": self.requests.taken,
            "tokens": self.tokens.taken,
            "refused": self.refused,
            "seconds": seconds,
            "used": max(used),
            "ideal_s": max(ideal_s, 0.0),
        }


class Limited(Connection):
    account: Account

    def answer(self, path: bytes, body: bytes) -> None:
        if path == b"/stats":
            self.transport.write(response(self.account.stats()))
            return
        weight = len(body) // CHARS_A_TOKEN + bound_of(body).max_tokens
        wait_s = self.account.refusal_s(weight)
        if wait_s is not None:
            whole = response({"error": {"message": "slow down", "type": "rate_limit_error"}}, "429 Too Many Requests")
            self.transport.write(_with(whole, self.account.headers() + b"Retry-After: %d\r\n" % wait_s))
            return
        said = self.account.headers()  # of this moment, though it is told with the answer
        parts = STREAMED[answer_to(decode_request(body).messages), True]
        whole = b"".join(parts).replace(CALL_ID.encode(), b"call_%09d" % next(self.ids))
        later_s = self.latency_s * self.account.chance.uniform(0.5, 1.5)
        asyncio.get_running_loop().call_later(later_s, self.send_whole, _with(whole, said))

    def send_whole(self, whole: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(whole)


def _with(whole: bytes, headers: bytes) -> bytes:
    """More of them, after the status."""
    status, rest = whole.split(b"\r\n", 1)
    return status + b"\r\n" + headers + rest


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Limited, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()  # until whoever started this process is gone


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--says", choices=SAYS, default="truth")
    options.add_argument("--requests", type=float, default=70, help="a second")
    options.add_argument("--tokens", type=float, default=1e9, help="a second")
    options.add_argument("--bucket-s", type=float, default=5, help="of each, at once")
    options.add_argument("--burst-s", type=float, default=0, help="refuses everybody for so long")
    options.add_argument("--every-s", type=float, default=8)
    options.add_argument("--latency-ms", type=float, default=250, help="until an answer, half as much more or less")
    given = options.parse_args()
    Limited.account, Limited.latency_s = Account(given), given.latency_ms / 1000
    uvloop.run(serve())


if __name__ == "__main__":
    main()
