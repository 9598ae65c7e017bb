"""What `doctor` looks at of the gateway: where it listens, who may come in, its channels. Nothing is connected."""

from __future__ import annotations

import importlib.util
import re
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mainstay import __version__
from mainstay.cli.chat.words import count
from mainstay.cli.commands.checks import Finding
from mainstay.cli.commands.homes import Place
from mainstay.config.schema import FILE, Config, data_home
from mainstay.config.schema_gateway import ServerSettings, TlsSettings
from mainstay.core.errors import ConfigError, MainstayError
from mainstay.gateway.people_commands import FILE as PEOPLE
from mainstay.gateway.workspace_folders import names
from mainstay.store.home import is_owned, owner

EXPIRES_S = 14 * 86_400.0  # a certificate that ends sooner is worth a word
UTC_TIME = 0x17
VERSION = 0xA0
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


async def gateway(config: Config | None, home: Path, *, fix: bool) -> list[Finding]:
    """Those who never serve hear nothing of it."""
    if config is None:
        return []
    place = Place(home, data_home(home, config), config.workspace)
    people = place.data / PEOPLE
    used = bool(config.channels or config.people) or _anybody(people) or config.server != ServerSettings()
    if not used and not is_owned(place.data):
        return list(_ports(config.server, used=False))
    server, found = await _running(place)
    if not used:
        return found
    given = config.server
    found += [*_libraries(given), *(_ports(given, used=True) if server is None else ()), *_tls(given.tls)]
    found += await _entrance(config, place)
    return [*found, *_kept(people, fix=fix), *_channels(config, server), *_workspaces(config, place.data)]


# --- the server ----------------------------------------------------------------------------------


async def _running(place: Place) -> tuple[dict[str, Any] | None, list[Finding]]:
    """What the server says that owns the home, if one does, and what to think of it."""
    from mainstay.cli.commands.channel import server_of  # and what channels need, for those who serve

    try:
        server = await server_of(place)
    except MainstayError as error:
        return None, [Finding("Server", "FAIL", str(error), "look at its log, and stop it")]
    if server is None:
        return None, []
    at = f" at {' and '.join(server['at'])}" if server["at"] else ""
    says = f"process {owner(place.data).get('pid')} serves {count(len(server['workspaces']), 'workspace')}{at}"
    found = [Finding("Server", "ok", says)]
    if server["version"] != __version__:
        says = f"it is of version {server['version']}, and this is {__version__}"
        found.append(Finding("Server", "warn", says, "start it again"))
    return server, found + [
        Finding("Server", "warn", f"not ready: {name}: {why}") for name, why in server["unready"].items()
    ]


def _libraries(settings: ServerSettings) -> Iterator[Finding]:
    wanted = ["starlette", "uvicorn", "websockets", *(["grpc"] if settings.grpc_port is not None else [])]
    if missing := [one for one in wanted if importlib.util.find_spec(one) is None]:
        says = f"{' and '.join(missing)} not installed: there is no `mainstay serve` without"
        yield Finding("Server", "FAIL", says, "pip install -e '.[serve]'")


def _ports(settings: ServerSettings, *, used: bool) -> Iterator[Finding]:
    """Of a server that does not run now; of one that nobody configured, only the port that it would have."""
    from mainstay.cli.commands.checks_ports import listener
    from mainstay.server.web import bind

    check = "Server" if used else "Port"
    for key, port in (("port", settings.port), ("grpc_port", settings.grpc_port)):
        if port is None:
            continue
        try:
            bind(settings.host, port).close()
        except ConfigError as error:
            who = listener(port)
            fix = f"{f'{who} has it: stop it, or ' if who else ''}mainstay config set server.{key} N, or server.host"
            yield Finding(check, "FAIL" if used else "warn", str(error), fix)
        else:
            said = f"port {port} of {settings.host} is free" if port else f"any free port of {settings.host} will do"
            yield Finding(check, "ok", f"{said}{', for gRPC' if key != 'port' else ''}")


async def _entrance(config: Config, place: Place) -> list[Finding]:
    """Whoever reaches it from elsewhere needs a key."""
    from mainstay.cli.commands.user import ask
    from mainstay.server.listening import is_private

    host = config.server.host
    if is_private(host):
        return []
    try:
        keys = await ask(config, place, "keys", {})
    except MainstayError as error:
        return [Finding("Keys", "warn", f"whether there are any cannot be told now: {error}")]
    usable = sum(one["usable"] for one in keys)
    if usable:
        return [Finding("Keys", "ok", f"{count(usable, 'API key')} for those who come from elsewhere to {host}")]
    says = f"there is no API key, and without one nothing is served on {host}"
    return [Finding("Keys", "FAIL", says, "mainstay user add NAME; mainstay user key NAME")]


# --- its certificate -----------------------------------------------------------------------------


def _tls(settings: TlsSettings) -> Iterator[Finding]:
    from mainstay.server.web import tls_context

    if not settings.certificate:
        if settings.key:
            fix = "mainstay config set server.tls.certificate FILE"
            yield Finding("TLS", "FAIL", "server.tls has a key and no certificate: it would not be used", fix)
        return
    try:
        tls_context(settings.certificate, settings.key)
        until = not_after(Path(settings.certificate).read_text())
    except (ConfigError, OSError, ValueError) as error:
        yield Finding("TLS", "FAIL", str(error), "see server.tls: a certificate and its own key, both PEM")
        return
    left_s = until.timestamp() - time.time()
    says = f"{settings.certificate} is good until {until:%Y-%m-%d}"
    if left_s <= 0:
        yield Finding("TLS", "FAIL", f"{settings.certificate} ended on {until:%Y-%m-%d}", "get another")
    else:
        soon = left_s < EXPIRES_S
        yield Finding("TLS", "warn" if soon else "ok", says, "get another, and start the server again" if soon else "")


def not_after(pem: str) -> datetime:
    """When the first certificate of a file ends. Raises ValueError if there is none."""
    found = _PEM.search(pem)
    if found is None:
        raise ValueError("there is no certificate in the file")
    data = ssl.PEM_cert_to_DER_cert(found[0])
    _, at, _ = _element(data, 0)  # the certificate
    _, at, _ = _element(data, at)  # what is signed of it
    tag, _, end = _element(data, at)
    at = end if tag == VERSION else at
    for _ in ("serial number", "algorithm", "issuer"):
        _, _, at = _element(data, at)
    _, at, _ = _element(data, at)  # from when until when
    _, _, at = _element(data, at)
    tag, start, end = _element(data, at)
    form = "%y%m%d%H%M%SZ" if tag == UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(data[start:end].decode("ascii"), form).replace(tzinfo=UTC)


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """Of DER: its tag, where its content begins, and where that ends."""
    tag, size = data[at], data[at + 1]
    at += 2
    if size & 0x80:
        more = size & 0x7F
        size = int.from_bytes(data[at : at + more], "big")
        at += more
    return tag, at, at + size


# --- people, channels, workspaces ----------------------------------------------------------------


def _anybody(path: Path) -> bool:
    """Whether somebody was ever let in. The file is there anyway, for what is derived from the journals."""
    from mainstay.store.sqlite.database import connect, named

    if not path.exists():
        return False
    try:
        with named(str(path)):
            db = connect(str(path), busy_s=5.0, read_only=True)
            try:
                return any(
                    db.execute(f"SELECT 1 FROM {one} LIMIT 1").fetchone() for one in ("people", "keys", "pairings")
                )
            finally:
                db.close()
    except MainstayError:  # which is told of where it is looked at
        return True


def _kept(path: Path, *, fix: bool) -> Iterator[Finding]:
    from mainstay.store.sqlite.database import connect, named

    if not path.exists():
        return
    how = "restore a backup; without it nobody is known, and no key is good"
    try:
        with named(str(path)):
            db = connect(str(path), busy_s=5.0, read_only=True)
            try:
                said = db.execute("PRAGMA quick_check(1)").fetchall()[0][0]
            finally:
                db.close()
    except MainstayError as error:
        yield Finding("People", "FAIL", str(error), how)
        return
    if said != "ok":
        yield Finding("People", "FAIL", f"{path} is damaged: {said}", how)
        return
    shared = bool(path.stat().st_mode & 0o077)
    if shared and not fix:
        yield Finding("People", "warn", f"other users can read {path}", f"doctor --fix, or: chmod 600 {path}")
        return
    if shared:
        path.chmod(0o600)
    says = f"{path} is sound and private" + (" (mended)" if shared else "")
    yield Finding("People", "ok", says, mended=shared)


def _channels(config: Config, server: dict[str, Any] | None) -> Iterator[Finding]:
    """As the server has them, where there is one: it may have variables that we have not."""
    from mainstay.cli.commands.channel import trouble
    from mainstay.config.check_gateway import kind_of

    for name, entry in config.channels.items():
        if not entry.enabled:
            continue
        about = f"{name}: {kind_of(name, entry)} in {entry.workspace or config.workspace}"
        state = server["channels"].get(name) if server is not None else None
        if state == "connected":
            yield Finding("Channel", "ok", f"{about}, connected")
        elif state is not None:
            yield Finding("Channel", "warn", f"{about}: {state}", "see the server's log")
        elif said := trouble(name, entry):
            remedy = said.partition(": ")[2] if "pip install" in said else f"set it, or edit channels.{name} in {FILE}"
            yield Finding("Channel", "FAIL", f"{name}: {said}", remedy)
        elif server is not None:
            yield Finding("Channel", "warn", f"{about}: the server does not know of it yet", "send it SIGHUP")
        else:
            yield Finding("Channel", "ok", f"{about}; `mainstay channel test {name}` tries it")


def _workspaces(config: Config, data: Path) -> Iterator[Finding]:
    """Those that are named and nowhere: what is meant for them is refused."""
    named: dict[str, str] = {}
    for name, channel in config.channels.items():
        for one in filter(None, (channel.workspace, *channel.rooms.values())):
            named.setdefault(one, f"channels.{name}")
    for name, person in config.people.items():
        for one in person.workspaces:
            named.setdefault(one, f"people.{name}")
    for name, hook in config.triggers.webhooks.items():
        if hook.workspace:
            named.setdefault(hook.workspace, f"triggers.webhooks.{name}")
    there = names(data, config)
    for one, where in named.items():
        if one not in there:
            says = f"{where} names the workspace {one}, which is not there"
            yield Finding("Workspace", "warn", says, f"mainstay workspace create {one}")
