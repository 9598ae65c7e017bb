"""Signing requests to Amazon: Signature Version 4, by hand, because it is four HMACs and the SDK is 100 MB."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.providers.wire import Key

SERVICE = "bedrock"
_NO_KEY = (
    "bedrock needs a key: set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass api_key"
)
_NO_REGION = "bedrock needs a region: set AWS_REGION, for example us-east-1, or pass base_url"


class AwsKeys(msgspec.Struct, frozen=True):
    """Whoever holds these may ask. `token` comes with keys that expire."""

    id: str
    secret: str
    region: str
    token: str = ""

    def __repr__(self) -> str:
        return f"AwsKeys({self.id!r}, …, {self.region!r})"


def find_access(address: str, key: Key, environ: Mapping[str, str]) -> tuple[str, Key | AwsKeys]:
    """Where to ask, and with what: a bearer's key where there is one, else the keys that requests are signed with."""
    named = (environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "").strip()
    region = _region_in(address) or named  # a signature for another region than the address's is refused
    if not address:
        if not region:
            raise ConfigError(_NO_REGION)
        address = f"https://bedrock-runtime.{region}.amazonaws.com"
    if key is not None:
        return address, key
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    id, secret, token = (environ.get(name, "").strip() for name in names)
    if not id or not secret:
        raise ConfigError(_NO_KEY)
    if not region:
        raise ConfigError(_NO_REGION)
    return address, AwsKeys(id, secret, region, token)


def _region_in(address: str) -> str:
    parts = (urlsplit(address).hostname or "").split(".")
    return parts[1] if len(parts) > 3 and parts[0].startswith("bedrock-runtime") and parts[2] == "amazonaws" else ""


def signed(url: str, headers: dict[str, str], body: bytes, keys: AwsKeys, now: datetime) -> dict[str, str]:
    """The headers with the signature among them. All are signed that no proxy changes, and the host."""
    parts = urlsplit(url)
    at = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {**headers, "X-Amz-Date": at, **({"X-Amz-Security-Token": keys.token} if keys.token else {})}
    listed = {
        name.lower(): " ".join(value.split())
        for name, value in {**headers, "Host": parts.netloc.rpartition("@")[2]}.items()
    }
    del listed["user-agent"]
    names = ";".join(sorted(listed))
    lines = "".join(f"{name}:{listed[name]}\n" for name in sorted(listed))
    path = quote(parts.path, safe="/-._~")  # once more: what was escaped in the path is escaped again in what is signed
    request = f"POST\n{path}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{at[:8]}/{keys.region}/{SERVICE}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{keys.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    value = f"AWS4-HMAC-SHA256 Credential={keys.id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**headers, "Authorization": value}
