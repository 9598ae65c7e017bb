"""`doctor` checks of the running server and its API keys, of its listeners (server/listener_health.py) and of the
gateway behind it (gateway/health.py)."""

from __future__ import annotations

from pathlib import Path

from mainstay.agent.home_paths import GATEWAY_DATABASE as PEOPLE
from mainstay.config.schema import Config, resolve_data_folder
from mainstay.config.schema_gateway import ServerSettings
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.gateway.health import (
    check_api_keys,
    check_channels,
    check_people_database,
    check_running_server,
    check_workspaces,
    has_people,
)
from mainstay.server.listener_health import check_libraries, check_ports, check_tls
from mainstay.server.network_listeners import is_loopback_host
from mainstay.store.home import is_home_locked


async def check_gateway(
    config: Config | None, home: Path, *, fix: bool, is_offline: bool = False
) -> list[CheckFinding]:
    """Check the gateway; if it is neither configured nor running, only whether its port is free."""
    if config is None:
        return []
    data = resolve_data_folder(home, config)
    people = data / PEOPLE
    used = bool(config.channels or config.people) or has_people(people) or config.server != ServerSettings()
    if not used and not is_home_locked(data):
        return list(check_ports(config.server, is_configured=False))
    server, findings = await check_running_server(data)
    if not used:
        return findings
    settings = config.server
    findings += [
        *check_libraries(settings),
        *(check_ports(settings, is_configured=True) if server is None else ()),
        *check_tls(settings.tls),
    ]
    if not is_loopback_host(settings.host):
        findings += await check_api_keys(config, data)
    context = CheckContext(home=home, data=data, workspace=config.workspace, is_offline=is_offline)
    return [
        *findings,
        *check_people_database(people, fix=fix),
        *check_channels(config, server, context),
        *check_workspaces(config, data),
    ]
