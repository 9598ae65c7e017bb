"""Health checks of the server's network listeners: libraries, ports, TLS certificate."""

from __future__ import annotations

import importlib.util
import re
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from mainstay.config.schema_gateway import ServerSettings, TlsSettings
from mainstay.core.errors import ConfigError
from mainstay.core.health import CheckFinding
from mainstay.core.listening_processes import find_listener
from mainstay.server.uvicorn_server import bind_socket, create_tls_context

EXPIRY_WARN_S = 14 * 86_400.0  # a certificate that expires sooner is a warning
DER_UTC_TIME = 0x17
DER_VERSION = 0xA0
_PEM_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def check_libraries(settings: ServerSettings) -> Iterator[CheckFinding]:
    wanted = ["starlette", "uvicorn", "websockets", *(["grpc"] if settings.grpc_port is not None else [])]
    if missing := [name for name in wanted if importlib.util.find_spec(name) is None]:
        message = f"{' and '.join(missing)} not installed, which `mainstay serve` needs"
        yield CheckFinding("Server", "FAIL", message, "pip install -e '.[serve]'")


def check_ports(settings: ServerSettings, *, is_configured: bool) -> Iterator[CheckFinding]:
    """Check that the server's ports are free. `is_configured` False, so a taken port is only a warning."""
    check = "Server" if is_configured else "Port"
    for key, port in (("port", settings.port), ("grpc_port", settings.grpc_port)):
        if port is None:
            continue
        try:
            bind_socket(settings.host, port).close()
        except ConfigError as error:
            listener = find_listener(port)
            stop = f"{listener} uses it: stop it, or " if listener else ""
            fix = f"{stop}mainstay config set server.{key} N, or server.host"
            yield CheckFinding(check, "FAIL" if is_configured else "warn", str(error), fix)
        else:
            message = f"port {port} of {settings.host} is free" if port else f"any free port of {settings.host} is used"
            yield CheckFinding(check, "ok", f"{message}{', for gRPC' if key != 'port' else ''}")


# --- its certificate -----------------------------------------------------------------------------


def check_tls(settings: TlsSettings) -> Iterator[CheckFinding]:
    if not settings.certificate:
        if settings.key:
            fix = "mainstay config set server.tls.certificate FILE"
            yield CheckFinding("TLS", "FAIL", "server.tls has a key but no certificate: TLS would not be used", fix)
        return
    try:
        create_tls_context(settings.certificate, settings.key)
        until = parse_certificate_expiry(Path(settings.certificate).read_text())
    except (ConfigError, OSError, ValueError) as error:
        yield CheckFinding("TLS", "FAIL", str(error), "see server.tls: a certificate and its own key, both PEM")
        return
    left_s = until.timestamp() - time.time()
    message = f"{settings.certificate} is valid until {until:%Y-%m-%d}"
    if left_s <= 0:
        yield CheckFinding("TLS", "FAIL", f"{settings.certificate} expired on {until:%Y-%m-%d}", "renew it")
    else:
        soon = left_s < EXPIRY_WARN_S
        yield CheckFinding("TLS", "warn" if soon else "ok", message, "renew it, and restart the server" if soon else "")


def parse_certificate_expiry(pem: str) -> datetime:
    """Return when the first certificate of a PEM file expires. Raises ValueError if there is none."""
    match = _PEM_CERTIFICATE.search(pem)
    if match is None:
        raise ValueError("there is no certificate in the file")
    data = ssl.PEM_cert_to_DER_cert(match[0])
    _, at, _ = _parse_der_element(data, 0)  # Certificate
    _, at, _ = _parse_der_element(data, at)  # tbsCertificate
    tag, _, end = _parse_der_element(data, at)
    at = end if tag == DER_VERSION else at
    for _ in ("serial number", "algorithm", "issuer"):
        _, _, at = _parse_der_element(data, at)
    _, at, _ = _parse_der_element(data, at)  # validity: notBefore, notAfter
    _, _, at = _parse_der_element(data, at)
    tag, start, end = _parse_der_element(data, at)
    form = "%y%m%d%H%M%SZ" if tag == DER_UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(data[start:end].decode("ascii"), form).replace(tzinfo=UTC)


def _parse_der_element(data: bytes, offset: int) -> tuple[int, int, int]:
    """Return a DER element's tag, and the offsets where its content begins and ends."""
    tag, size = data[offset], data[offset + 1]
    offset += 2
    if size & 0x80:
        more = size & 0x7F
        size = int.from_bytes(data[offset : offset + more], "big")
        offset += more
    return tag, offset, offset + size
