"""AWS credentials and request signing: Signature Version 4, by hand, because it is four HMACs and the SDK is 100 MB."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.provider_manifest import ApiKeySource

SERVICE = "bedrock"
_MISSING_KEY = (
    "bedrock needs a key: set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass api_key"
)
_MISSING_REGION = "bedrock needs a region: set AWS_REGION, for example us-east-1, or pass base_url"


class AwsCredentials(msgspec.Struct, frozen=True):
    """AWS credentials. `session_token` belongs to temporary ones."""

    access_key_id: str
    secret_access_key: str
    region: str
    session_token: str = ""

    def __repr__(self) -> str:
        return f"AwsCredentials({self.access_key_id!r}, …, {self.region!r})"


def resolve_endpoint(
    base_url: str, api_key: ApiKeySource, environ: Mapping[str, str]
) -> tuple[str, ApiKeySource | AwsCredentials]:
    """Return the base URL and the API key or, without an API key, the AWS credentials from the environment.

    Raises ConfigError if the key, the credentials or the region are missing.
    """
    configured = (environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "").strip()
    region = _parse_region(base_url) or configured  # a signature must be for the region in the URL
    if not base_url:
        if not region:
            raise ConfigError(_MISSING_REGION)
        base_url = f"https://bedrock-runtime.{region}.amazonaws.com"
    if api_key is not None:
        return base_url, api_key
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    id, secret, token = (environ.get(name, "").strip() for name in names)
    if not id or not secret:
        raise ConfigError(_MISSING_KEY)
    if not region:
        raise ConfigError(_MISSING_REGION)
    return base_url, AwsCredentials(id, secret, region, token)


def _parse_region(base_url: str) -> str:
    parts = (urlsplit(base_url).hostname or "").split(".")
    return parts[1] if len(parts) > 3 and parts[0].startswith("bedrock-runtime") and parts[2] == "amazonaws" else ""


def sign_headers(
    url: str, headers: dict[str, str], body: bytes, credentials: AwsCredentials, now: datetime
) -> dict[str, str]:
    """Return the headers with the signature added. The host and all headers but User-Agent are signed, because proxies
    may change that one."""
    parts = urlsplit(url)
    at = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {
        **headers,
        "X-Amz-Date": at,
        **({"X-Amz-Security-Token": credentials.session_token} if credentials.session_token else {}),
    }
    signed_headers = {
        name.lower(): " ".join(value.split())
        for name, value in {**headers, "Host": parts.netloc.rpartition("@")[2]}.items()
    }
    signed_headers.pop("user-agent", None)
    names = ";".join(sorted(signed_headers))
    lines = "".join(f"{name}:{signed_headers[name]}\n" for name in sorted(signed_headers))
    path = quote(parts.path, safe="/-._~")  # the path in the signed text is escaped twice
    request = f"POST\n{path}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{at[:8]}/{credentials.region}/{SERVICE}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_access_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    value = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return {**headers, "Authorization": value}
