"""A real Matrix homeserver for tests: synapse, in an environment of its own below `.cache/`, on loopback."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from support.ports import choose_port
from support.published_packages import SYNAPSE, python_packages

START_S = 120.0
SECRET = "between us"
RELAXED = {"per_second": 10_000, "burst_count": 10_000}
LIMITS = ("rc_message", "rc_registration", "rc_joins_per_room", "rc_room_creation")
NESTED = {"rc_login": ("address", "account", "failed_attempts"), "rc_joins": ("local", "remote")}
NESTED |= {"rc_invites": ("per_room", "per_user", "per_issuer")}


class Synapse:
    """Where it listens, and what only its owner may do."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def register(self, name: str, *, admin: bool = False) -> str:
        """A token of a new account, by the secret that synapse shares with its owner. Its password is its name."""
        path = "/_synapse/admin/v1/register"
        async with aiohttp.ClientSession(self.url) as session:
            async with session.get(path) as answer:
                nonce = (await answer.json())["nonce"]
            words = (nonce, name, name, "admin" if admin else "notadmin")
            mac = hmac.new(SECRET.encode(), b"\x00".join(word.encode() for word in words), hashlib.sha1).hexdigest()
            body = {"nonce": nonce, "username": name, "password": name, "admin": admin, "mac": mac}
            async with session.post(path, json=body) as answer:
                assert answer.status == 200, await answer.text()
                return str((await answer.json())["access_token"])

    async def call(self, token: str, method: str, path: str, body: Any = None, *, base: str = "client/v3") -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        root = "" if path.startswith("/_synapse") else f"/_matrix/{base}/"
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"{self.url}{root}{path}", json=body, headers=headers) as answer,
        ):
            said = await answer.json()
            assert answer.status == 200, (method, path, answer.status, said)
            return said


@contextmanager
def synapse(where: Path) -> Iterator[Synapse]:
    """Skips, with the reason, where it cannot be had."""
    program = python_packages(*SYNAPSE) / "bin" / "python"
    port = choose_port()
    config = where / "homeserver.yaml"
    config.write_bytes(msgspec.json.encode(_config(where, port)))  # JSON is YAML
    seed = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
    (where / "signing.key").write_text(f"ed25519 a_test {seed}\n")  # as synapse would make it, in a second less
    log = where / "synapse.log"
    words = [str(program), "-m", "synapse.app.homeserver", "-c", str(config)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with open(log, "wb") as out:
        process = subprocess.Popen(words, cwd=where, env=env, stdout=out, stderr=out)
    try:
        _await_health(port, process, log)
        yield Synapse(f"http://127.0.0.1:{port}")
    finally:
        process.kill()  # nothing of it is kept
        process.wait()


def _await_health(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"synapse did not start: {log.read_text()[-2000:]}")


def _config(where: Path, port: int) -> dict[str, Any]:
    logs = where / "log.yaml"
    logs.write_text('{"version": 1, "disable_existing_loggers": false, "root": {"level": "ERROR"}}')
    listener = {"bind_addresses": ["127.0.0.1"], "port": port, "type": "http", "tls": False}
    return {
        "server_name": "localhost",
        "listeners": [{**listener, "resources": [{"names": ["client"], "compress": False}]}],
        "database": {"name": "sqlite3", "args": {"database": str(where / "homeserver.db")}},
        "log_config": str(logs),
        "media_store_path": str(where / "media"),
        "pid_file": str(where / "pid"),
        "signing_key_path": str(where / "signing.key"),
        "registration_shared_secret": SECRET,
        "macaroon_secret_key": SECRET,
        "form_secret": SECRET,
        "trusted_key_servers": [],
        "suppress_key_server_warning": True,
        "report_stats": False,
        "presence": {"enabled": False},
        "bcrypt_rounds": 4,
        "caches": {"sync_response_cache_duration": "0s"},  # a first sync is that of this moment
        **dict.fromkeys(LIMITS, RELAXED),
        **{name: dict.fromkeys(kinds, RELAXED) for name, kinds in NESTED.items()},
    }
