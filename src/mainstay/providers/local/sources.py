"""Where the same bytes can be had: a file on this machine, a model hub. (Parts in packages: see `wheels`.)

Nothing here is trusted: what comes is compared with the hash in the catalogue before it gets its name. The checks on
the way only save a person from waiting for a gigabyte of something else.
"""

from __future__ import annotations

import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException, HTTPResponse
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol, cast
from urllib.parse import urlsplit

import msgspec

from mainstay.providers.local.growing import CHUNK, Growing, SourceFailed
from mainstay.providers.local.weights import Weights

_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15}|\*)")


class Source(Protocol):
    """Brings what is missing of a file. `spare` bytes of disk are needed meanwhile, beside the file itself."""

    @property
    def name(self) -> str: ...

    @property
    def spare(self) -> int: ...

    def bring(self, growing: Growing) -> None:
        """Raises SourceFailed if it cannot."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How long a source is waited for."""

    silence_s: float = 30.0  # for an answer, and for the next bytes of it
    slow_s: float = 60.0  # in which at least `slow_bytes` come, or it is as good as cut
    slow_bytes: int = 256 * 1024
    cuts_max: int = 5  # in a row without getting on
    pause_s: float = 1.0  # after the first of these, then twice as long each time
    part_s: float = 300.0  # a package that grows no more is given up after so long


# --- a file on this machine ----------------------------------------------------------------------


class FromFile(msgspec.Struct, frozen=True):
    path: Path
    spare: int = 0

    @property
    def name(self) -> str:
        return str(self.path)

    def bring(self, growing: Growing) -> None:
        try:
            with open(self.path, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size != growing.one.size:
                    raise SourceFailed(f"it has {size:,} bytes and so is not {growing.one.name}, {_own(self.path)}")
                file.seek(growing.have)
                while not growing.whole and (data := file.read(CHUNK)):
                    growing.write(data)
        except OSError as error:
            raise SourceFailed(f"it cannot be read: {error.strerror}") from None
        if not growing.whole:
            raise SourceFailed("it became shorter while it was read")


def _own(path: Path) -> str:
    return f"which is compared with its hash; a model of your own needs no pulling: --model local/{path.absolute()}"


def beside(one: Weights, env: Mapping[str, str]) -> Iterator[Path]:
    """Where the same file may lie already: here, or with other programs that keep it under its name or its hash."""
    home = Path(os.path.expanduser("~"))
    cache = Path(env.get("XDG_CACHE_HOME", "").strip() or home / ".cache")
    hub = Path(
        env.get("HF_HUB_CACHE", "").strip() or Path(env.get("HF_HOME", "").strip() or cache / "huggingface") / "hub"
    )
    repository = "/".join(urlsplit(one.url).path.split("/")[1:3])
    ollama = Path(env.get("OLLAMA_MODELS", "").strip() or home / ".ollama" / "models")
    for path in (
        Path(one.file).absolute(),
        hub / f"models--{repository.replace('/', '--')}" / "blobs" / one.sha256,
        home / ".lmstudio" / "models" / repository / one.file,
        ollama / "blobs" / f"sha256-{one.sha256}",
    ):
        try:
            found = path.stat()
        except OSError:
            continue
        if path.is_file() and found.st_size == one.size:
            yield path


# --- a model hub ---------------------------------------------------------------------------------


class _Cut(Exception):
    """The connection ended in the middle; what came stays."""


class _Away(_Cut):
    """Nobody answered."""


class FromHub(msgspec.Struct, frozen=True):
    """Asks for what is missing, and again after a cut. Proxies come from the environment, as everywhere."""

    url: str
    bounds: Bounds = Bounds()
    spare: int = 0
    clock: Callable[[], float] = time.monotonic

    @property
    def name(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]  # what stands before may be a password

    def bring(self, growing: Growing) -> None:
        check_address(self.url)
        opener = _opener(self.url)
        cuts, found = 0, growing.have
        while not growing.whole:
            before = growing.have
            try:
                self._go_on(opener, growing)
            except _Away as away:
                if growing.have == found:  # it was never there: others are asked at once
                    raise SourceFailed(str(away)) from None
                cuts = self._cut(away, cuts + 1)
            except _Cut as cut:
                cuts = self._cut(cut, 1 if growing.have - before >= self.bounds.slow_bytes else cuts + 1)

    def _cut(self, cut: _Cut, cuts: int) -> int:
        if cuts > self.bounds.cuts_max:
            raise SourceFailed(f"{cut}, {cuts} times in a row") from None
        time.sleep(self.bounds.pause_s * 2 ** (cuts - 1))
        return cuts

    def _go_on(self, opener: urllib.request.OpenerDirector, growing: Growing) -> None:
        headers = {"User-Agent": "mainstay", "Accept-Encoding": "identity"}
        if growing.have:
            headers["Range"] = f"bytes={growing.have}-"
        request = urllib.request.Request(self.url, headers=headers)
        try:
            answer = cast(HTTPResponse, opener.open(request, timeout=self.bounds.silence_s))
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error) from None
        except (OSError, HTTPException, ValueError) as error:
            raise _Away(f"it cannot be reached: {_why(error)}") from None
        with answer:
            skip = _skipped(answer, growing)
            try:
                self._read(answer, growing, skip)
            except (OSError, HTTPException) as error:
                raise _Cut(f"the connection broke: {_why(error)}") from None
        if not growing.whole:
            raise _Cut("it stopped in the middle")

    def _read(self, answer: HTTPResponse, growing: Growing, skip: int) -> None:
        """`skip` bytes are here already: it sends them all the same."""
        since, came, counted = self.clock(), 0, 0
        while not growing.whole and (data := answer.read1(CHUNK)):
            came += len(data)
            dropped = min(skip, len(data))
            skip -= dropped
            growing.write(memoryview(data)[dropped:])
            if (now := self.clock()) - since >= self.bounds.slow_s:
                if came - counted < self.bounds.slow_bytes:
                    raise _Cut(f"only {came - counted:,} bytes came in {now - since:.0f} s")
                since, counted = now, came


def _skipped(answer: HTTPResponse, growing: Growing) -> int:
    """How many bytes of the answer are here already. Raises SourceFailed if this cannot be the file."""
    size = growing.one.size
    kind = answer.headers.get_content_type()
    if kind in ("text/html", "application/xhtml+xml"):
        raise SourceFailed(
            "a web page came instead of a file: something between here and there wants to be asked first"
        )
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise SourceFailed("it sends the file packed, which was not asked for")
    start = 0
    if answer.status == 206:
        found = _RANGE.fullmatch(answer.headers.get("Content-Range", "").strip())
        if found is None or int(found[1]) != growing.have or found[3] not in ("*", str(size)):
            raise SourceFailed("it sends another part of the file than it was asked for")
        start = growing.have
    elif answer.status != 200:
        raise SourceFailed(f"it answers with status {answer.status}")
    if answer.length is not None and start + answer.length != size:
        raise SourceFailed(f"the file there has {start + answer.length:,} bytes, and {growing.one.name} has {size:,}")
    return growing.have - start


def _refused(error: urllib.error.HTTPError) -> Exception:
    if error.code in (301, 302, 303, 307, 308):
        return SourceFailed("it redirects without end, or to where nothing is fetched from")
    if error.code == 429 or error.code >= 500:
        return _Cut(f"it answers with status {error.code}")
    return SourceFailed(f"it answers with status {error.code}")


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return str(said)[:200]


# --- where is asked ------------------------------------------------------------------------------


def check_address(url: str) -> None:
    """https; plain http only to this machine. Raises SourceFailed."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        parts.port  # noqa: B018 - raises if it is none
    except ValueError:
        raise SourceFailed(f"{url[:200]!r} is no address") from None
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and _is_here(host))):
        raise SourceFailed("weights are fetched by https only")


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Guard(urllib.request.BaseHandler):
    """Asked before every request, those that a redirect leads to as well."""

    def default_open(self, request: urllib.request.Request) -> None:
        check_address(request.full_url)


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Redirects are bounded by the library: ten in all, four to the same place."""
    here = _is_here(urlsplit(url).hostname or "")
    return urllib.request.build_opener(urllib.request.ProxyHandler({} if here else None), _Guard)
