"""From a configuration to what keeps an agent harmless: its guards, its policy, and which tools it has at all."""

from __future__ import annotations

import fnmatch
import logging
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from mainstay.agent.config_warn import known_tools, warnings
from mainstay.agent.grants import Grants
from mainstay.agent.remembering import Place
from mainstay.config.check_gateway import channel_secrets
from mainstay.config.schema import SECRET_CHARS_MIN, Config, RuleSettings, secrets_in
from mainstay.core.errors import HomeUnusable, InputRefused
from mainstay.core.events import Event, Guarded
from mainstay.core.outside import Sandbox
from mainstay.core.ports import Tool, ToolContext
from mainstay.trust.guards.guard import GuardRules, Guards
from mainstay.trust.policy import Circumstances, Confinement, Policy
from mainstay.trust.rules import PolicyRules

KEY = "key"
_SCHEMES = ("bearer", "basic", "digest", "apikey", "api-key")  # words before a secret, not secrets
_UNSET = re.compile(r"\$\{[^}]*\}")  # a variable's name, where there is no value
_PASSWORD = re.compile(r"://[^/?#@:]*:([^/?#@]+)@")

log = logging.getLogger("mainstay")


# --- guards --------------------------------------------------------------------------------------


def make_guards(config: Config, place: Place | None, env: Mapping[str, str], own: object = None) -> Guards:
    """`own` is the key that the agent was given in code."""
    rules = GuardRules(
        input=config.guards.input,
        tools=config.guards.tools,
        secrets=config.guards.secrets,
        pii=config.guards.pii,
        forbidden=config.guards.forbidden_patterns,
    )
    guards = Guards(rules, _key(place), known_secrets(config, env))
    if isinstance(own, str):
        guards.know(own)
    elif isinstance(own, MadeKey):
        own.know = guards.know
    return guards


class MadeKey:
    """A key that is made whenever it is needed: what comes of it is a secret from then on."""

    def __init__(self, make: Callable[[], str | Awaitable[str]]) -> None:
        self._make = make
        self.know: Callable[[str], None] = lambda key: None

    async def __call__(self) -> str:
        made = self._make()
        key = made if isinstance(made, str) else await made
        self.know(key)
        return key


def known_secrets(config: Config, env: Mapping[str, str]) -> list[str]:
    """Every key of the configuration, and whatever of the environment is named like one."""
    keys = [one.api_key for one in config.providers.values()]
    keys += [one.api_key for one in config.models if not isinstance(one, str)]
    plugins, servers, backends = config.plugins.values(), config.mcpServers.values(), config.backends.values()
    for given in [*(one.env for one in plugins), *(one.env for one in servers)]:
        keys += secrets_in(given)
    sent = [*(one.headers for one in servers), *(one.headers for one in backends), config.telemetry.headers]
    for headers in sent:
        keys += [word for value in headers.values() for word in value.split() if word.lower() not in _SCHEMES]
    keys += [found[1] for one in backends if (found := _PASSWORD.search(one.url))]
    for hook in config.triggers.webhooks.values():
        keys += [hook.secret, *hook.others]
    keys += channel_secrets(config.channels)
    for one in config.workspaces.values():
        keys += [entry.api_key for entry in (one.providers or {}).values()]
        keys += [entry.api_key for entry in one.models or () if not isinstance(entry, str)]
    known = (key for key in keys if key and len(key) >= SECRET_CHARS_MIN and not _UNSET.fullmatch(key))
    return sorted({*secrets_in(env), *known})


def _key(place: Place | None) -> bytes:
    """What makes the marks of blocks unguessable: the home's own, so that they are the same when asked again."""
    if place is None:
        return secrets.token_bytes(32)
    path = place.home / KEY
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
    except FileExistsError:
        pass
    except OSError as error:
        raise HomeUnusable(f"{path} cannot be written: {error.strerror}") from error
    key = path.read_bytes()
    if len(key) != 32:
        raise HomeUnusable(f"{path} is damaged; remove it, and another one is made")
    return key


def screening(guards: Guards, config: Config) -> Callable[[str], Event | None] | None:
    """What a guard says of an input."""
    if config.guards.input == "off":
        return None

    def screen(text: str) -> Event | None:
        finding = guards.input(text)
        if finding is None:
            return None
        kinds = ", ".join(finding.kinds)
        if config.guards.input == "block":
            raise InputRefused(f"the message was not taken: it reads like an attack ({kinds}); say it in other words")
        return Guarded("input", "flagged", finding.kinds, note=guards.redactor.whole(finding.excerpt)[0])

    return screen


# --- policy --------------------------------------------------------------------------------------


def make_policy(config: Config, grants: Grants, sandbox: Sandbox | None) -> Policy:
    given = config.policy
    workspace = PolicyRules(
        allow=(*given.allow, *_named_by_servers(config)),
        ask=given.ask,
        deny=(*given.deny, *_left_out_by_servers(config)),
        capabilities=given.capabilities,
        read_only=given.read_only,
        destinations=given.destinations,
    )
    confinement = Confinement(
        confined=sandbox is not None and sandbox.confined,
        network=config.sandbox.network,
        guards=sandbox is not None and sandbox.guards,
    )
    people = {name: _person(rules) for name, rules in given.people.items()}
    policy = Policy(workspace, people=people, grants=grants.rules, confinement=confinement)
    grants.on_change = policy.regrant
    return policy


def _named_by_servers(config: Config) -> list[str]:
    """What other hosts keep beside a server, we keep with the rules; it says the same."""
    return _rules_of({name: (*one.autoApprove, *one.alwaysAllow) for name, one in config.mcpServers.items()})


def _left_out_by_servers(config: Config) -> list[str]:
    return _rules_of({name: one.excludeTools for name, one in config.mcpServers.items()})


def _rules_of(named: Mapping[str, tuple[str, ...]]) -> list[str]:
    if not any(named.values()):
        return []
    from mainstay.plugins.mcp.names import tool_name  # only for those who have some
    from mainstay.plugins.mcp.server import slug_of

    return [
        f"{slug_of(name)}__*" if tool == "*" else tool_name(slug_of(name), tool)
        for name, tools in named.items()
        for tool in tools
    ]


def warn_of_rules(config: Config, tools: Iterable[Tool]) -> None:
    """Into the log: rules that are about none of these tools, nor of those that are built in."""
    for said in warnings(config, known_tools(tools)):
        log.warning("%s", said)


def denies(policy: Policy, tool: Tool, url: str) -> bool:
    """A rule forbids this tool this address, whoever sent it there."""
    context = ToolContext("", 0, 0, "", lambda event: None)
    return policy.judge(tool, {"url": url}, context, Circumstances()).decision == "deny"


def _person(rules: RuleSettings) -> PolicyRules:
    return PolicyRules(allow=rules.allow, ask=rules.ask, deny=rules.deny, read_only=rules.read_only)


# --- which tools ---------------------------------------------------------------------------------


def only(tools: Iterable[Tool], globs: tuple[str, ...]) -> tuple[Tool, ...]:
    """Those that one of the globs names; without any, all."""
    return tuple(one for one in tools if not globs or any(fnmatch.fnmatchcase(one.name, glob) for glob in globs))


def has_elsewhere(config: Config, home: Path | None) -> bool:
    """Most agents have no tools from elsewhere, and load nothing of what these need."""
    configured = bool(config.plugins or config.mcpServers or config.backends)
    return configured or (home is not None and (home / "plugins" / "lock.json").exists())


def has_knowhow(config: Config, place: Place | None) -> bool:
    """Most agents of a library have none, and load nothing of what it needs."""
    if config.skills.folders or config.patterns.folders:
        return True
    if place is None:
        return False
    roots = (place.home, place.workspace)
    if any((root / kind).is_dir() for root in roots for kind in ("skills", "patterns")):
        return True
    return any(True for depth in ("*", "*/*") for _ in place.workspace.glob(f"{depth}/skills"))
