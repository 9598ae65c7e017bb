"""Security set-up of an agent from its configuration: guardrails, known secrets, policy, and which tools it has."""

from __future__ import annotations

import fnmatch
import logging
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from mainstay.agent.allow_rule_store import AllowRuleStore
from mainstay.agent.config_warnings import describe_known_tools, find_rule_warnings
from mainstay.agent.memory_context import AgentFolders
from mainstay.config.schema import SECRET_CHARS_MIN, Config, PersonRuleSettings, find_secrets
from mainstay.core.errors import HomeUnusable, InputRefused
from mainstay.core.events import Event, Guarded
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.settings import find_header_secrets
from mainstay.core.tool_ports import Sandbox
from mainstay.guards.guardrails import GuardrailOptions, Guardrails
from mainstay.guards.redaction import Redactor
from mainstay.trust.policy import Policy, PolicyContext, SandboxGuarantees
from mainstay.trust.rules import PolicyRules

KEY_FILE = "key"
_UNSET_VARIABLE = re.compile(r"\$\{[^}]*\}")  # `${VAR}` left in place: the variable is not set

log = logging.getLogger("mainstay")


# --- guards --------------------------------------------------------------------------------------


def build_guardrails(
    config: Config, folders: AgentFolders | None, env: Mapping[str, str], api_key: object = None
) -> Guardrails:
    """Build the guardrails. `api_key` is the argument of the agent, which is redacted too."""
    rules = GuardrailOptions(
        input=config.guards.input,
        tools=config.guards.tools,
        secrets=config.guards.secrets,
        pii=config.guards.pii,
        forbidden=config.guards.forbidden_patterns,
    )
    guards = Guardrails(rules, _load_delimiter_key(folders), list_known_secrets(config, env))
    if isinstance(api_key, str):
        guards.add_temporary_secret(api_key)
    elif isinstance(api_key, ComputedApiKey):
        api_key.connect(guards.add_temporary_secret)
    return guards


class ComputedApiKey:
    """An API key from a function that is called for every request; each key is registered as a secret."""

    def __init__(self, get_key: Callable[[], str | Awaitable[str]]) -> None:
        self._get_key = get_key
        self._register: Callable[[str], None] = lambda key: None

    def connect(self, register: Callable[[str], None]) -> None:
        """Call `register` with every key before it is used."""
        self._register = register

    async def __call__(self) -> str:
        result = self._get_key()
        key = result if isinstance(result, str) else await result
        self._register(key)
        return key


def list_known_secrets(config: Config, env: Mapping[str, str]) -> list[str]:
    """Return every secret of the configuration, and the values of environment variables that are named like secrets."""
    keys: list[str | None] = [key for provider in config.providers.values() for key in provider.list_secrets()]
    keys += [model.api_key for model in config.models if not isinstance(model, str)]
    plugins, servers, backends = config.plugins.values(), config.mcpServers.values(), config.backends.values()
    for variables in [*(plugin.env for plugin in plugins), *(server.env for server in servers)]:
        keys += find_secrets(variables)
    for headers in [*(server.headers for server in servers), config.telemetry.headers]:
        keys += find_header_secrets(headers)
    for backend in backends:
        keys += backend.list_secrets()
    for webhook in config.triggers.webhooks.values():
        keys += [webhook.secret, *webhook.others]
    for channel in config.channels.values():
        keys += channel.list_secrets()
    for options in (config.sandbox.options, config.storage.options, config.sessions.memory.embeddings.options):
        keys += options.list_secrets()
    for workspace in config.workspaces.values():
        keys += [key for provider in (workspace.providers or {}).values() for key in provider.list_secrets()]
        keys += [model.api_key for model in workspace.models or () if not isinstance(model, str)]
    known = (key for key in keys if key and len(key) >= SECRET_CHARS_MIN and not _UNSET_VARIABLE.fullmatch(key))
    return sorted({*find_secrets(env), *known})


def build_output_redactor(config: Config, env: Mapping[str, str]) -> Redactor:
    """Return the redactor that the guardrails of this configuration use for output, for commands that run no agent."""
    return Redactor(list_known_secrets(config, env), secrets=config.guards.secrets, pii=config.guards.pii)


def _load_delimiter_key(folders: AgentFolders | None) -> bytes:
    """Return the HMAC key that makes the delimiters of data blocks unguessable. It is stored in the home, so that a
    resumed turn computes the same delimiters."""
    if folders is None:
        return secrets.token_bytes(32)
    path = folders.home / KEY_FILE
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
    except FileExistsError:
        pass
    except OSError as error:
        raise HomeUnusable(f"{path} cannot be written: {error.strerror}") from error
    key = path.read_bytes()
    if len(key) != 32:
        raise HomeUnusable(f"{path} is damaged; remove it, and a new key is created")
    return key


def build_input_scan(guards: Guardrails, config: Config) -> Callable[[str], Event | None] | None:
    """Return the scan of user input for prompt injection, as `guards.input` configures it; None: off. It raises
    InputRefused in mode `block`."""
    if config.guards.input == "off":
        return None

    def screen(text: str) -> Event | None:
        finding = guards.check_input(text)
        if finding is None:
            return None
        kinds = ", ".join(finding.kinds)
        if config.guards.input == "block":
            raise InputRefused(f"the message was refused: it looks like an attack ({kinds}); rephrase it")
        return Guarded("input", "flagged", finding.kinds, note=guards.redactor.redact(finding.excerpt)[0])

    return screen


# --- policy --------------------------------------------------------------------------------------


def build_policy(
    config: Config,
    allow_rules: AllowRuleStore,
    sandbox: Sandbox | None,
    is_guest: Callable[[str], bool] | None = None,
) -> Policy:
    """Build the policy: rules of the configuration and of its MCP servers, stored allow rules, the sandbox's
    confinement. It follows changes of `allow_rules`."""
    settings = config.policy
    workspace = PolicyRules(
        allow=(*settings.allow, *_server_allow_rules(config)),
        ask=settings.ask,
        deny=(*settings.deny, *_server_deny_rules(config)),
        capabilities=settings.capabilities,
        read_only=settings.read_only,
        destinations=settings.destinations,
    )
    confinement = SandboxGuarantees(
        confined=sandbox is not None and sandbox.is_confined,
        network=config.sandbox.network,
        protects_deletions=sandbox is not None and sandbox.can_protect_deletions,
    )
    people = {name: _build_person_rules(rules) for name, rules in settings.people.items()}
    policy = Policy(
        workspace,
        people=people,
        grants=allow_rules.rules,
        confinement=confinement,
        is_guest=is_guest,
        controls_flow=config.trust == "labelled",
    )
    allow_rules.subscribe(policy.replace_grants)
    return policy


def _server_allow_rules(config: Config) -> list[str]:
    """Return the allow rules that MCP server entries give with the keys of other MCP hosts."""
    servers = config.mcpServers.items()
    return _mcp_tool_rules({name: (*server.autoApprove, *server.alwaysAllow) for name, server in servers})


def _server_deny_rules(config: Config) -> list[str]:
    return _mcp_tool_rules({name: server.excludeTools for name, server in config.mcpServers.items()})


def _mcp_tool_rules(names_by_server: Mapping[str, tuple[str, ...]]) -> list[str]:
    if not any(names_by_server.values()):
        return []
    from mainstay.plugins.mcp.server_config import server_slug
    from mainstay.plugins.mcp.tool_names import build_tool_name  # only needed for MCP servers

    return [
        f"{server_slug(name)}__*" if tool == "*" else build_tool_name(server_slug(name), tool)
        for name, tools in names_by_server.items()
        for tool in tools
    ]


def log_rule_warnings(config: Config, tools: Iterable[Tool]) -> None:
    """Log a warning for each policy rule that matches neither these tools nor a built-in one."""
    for warning in find_rule_warnings(config, describe_known_tools(tools)):
        log.warning("%s", warning)


def is_url_denied(policy: Policy, tool: Tool, url: str) -> bool:
    """Return True if a policy rule denies this tool this URL, in any conversation."""
    context = ToolContext("", 0, 0, "", lambda event: None)
    return policy.decide(tool, {"url": url}, context, PolicyContext()).decision == "deny"


def _build_person_rules(rules: PersonRuleSettings) -> PolicyRules:
    return PolicyRules(allow=rules.allow, ask=rules.ask, deny=rules.deny, read_only=rules.read_only)


# --- which tools ---------------------------------------------------------------------------------


def filter_by_name(tools: Iterable[Tool], globs: tuple[str, ...]) -> tuple[Tool, ...]:
    """Return the tools whose name matches one of the globs; all tools without globs."""
    return tuple(tool for tool in tools if not globs or any(fnmatch.fnmatchcase(tool.name, glob) for glob in globs))


def has_external_tools(config: Config, home: Path | None) -> bool:
    """Return True if there are external tools: configured, or plugins installed in the home. Without them, their
    modules are not imported."""
    configured = bool(config.plugins or config.mcpServers or config.backends)
    return configured or (home is not None and (home / "plugins" / "lock.json").exists())


def has_skills_or_patterns(config: Config, folders: AgentFolders | None) -> bool:
    """Return True if there are folders of skills or patterns. Without them, their modules are not imported."""
    if config.skills.folders or config.patterns.folders:
        return True
    if folders is None:
        return False
    roots = (folders.home, folders.workspace)
    if any((root / kind).is_dir() for root in roots for kind in ("skills", "patterns")):
        return True
    return any(True for depth in ("*", "*/*") for _ in folders.workspace.glob(f"{depth}/skills"))
