"""Schema of the configuration. The descriptions of its fields are the text of the reference page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from mainstay.config.schema_external_tools import McpEntry, PluginEntry
from mainstay.config.schema_gateway import PersonEntry, ServerSettings
from mainstay.config.schema_judges_budgets_telemetry import (
    AuditSettings,
    BudgetSettings,
    JudgeSettings,
    TelemetrySettings,
)
from mainstay.config.schema_skills_patterns_triggers import PatternSettings, SkillSettings, TriggerSettings
from mainstay.core.backend_settings import BackendSettings
from mainstay.core.builtin_tool_table import BUILT_IN_TOOLS, CHANNEL_TOOLS, NAMEABLE_TOOLS, TOOL_GROUPS
from mainstay.core.channel_settings import ChannelSettings
from mainstay.core.component_options import FactStoreOptions, SandboxOptions, StoreOptions
from mainstay.core.embedder_settings import EmbedderOptions
from mainstay.core.errors import ConfigError
from mainstay.core.limits import Limits
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.core.settings import ConfigSection, Count
from mainstay.trust.tool_declaration import ToolDeclaration

FILE = "mainstay.yaml"
LOCAL_EMBEDDINGS = "local"  # the embedding model of the extra `memory`
WORKSPACE_NAME = re.compile(r"[a-z0-9_-]{1,64}")  # also the name of its folder

SECRET_CHARS_MIN = 6  # shorter values occur in any text by chance, and are not redacted
_SECRET_VARIABLE = re.compile(r"(?:API_?KEY|ACCESS_?KEY|TOKEN|SECRET|PASSWORD|PASSWD)$", re.IGNORECASE)

_NOT_IN_ALL = ", ".join(f"`{name}`" for name in BUILT_IN_TOOLS if name not in TOOL_GROUPS["all"])

Price = Annotated[float, Meta(ge=0)]


TrustMode = Literal["labelled", "open"]


class ModelEntry(ConfigSection, frozen=True, kw_only=True):
    model: Annotated[str, Meta(description="The model: `<provider>/<model>`.")]
    base_url: Annotated[str | None, Meta(description="Base URL of the API; default: the provider's.")] = None
    api_key: Annotated[str | None, Meta(description="API key, best given as `${VAR}`; default: the provider's.")] = None
    window: Annotated[
        Count | None, Meta(description="Context window in tokens; default: what is known of the model.")
    ] = None
    output: Annotated[
        Count | None,
        Meta(description="Longest answer in tokens (max output tokens); default: what is known of the model."),
    ] = None
    price_prompt: Annotated[Price | None, Meta(description="Dollars per million prompt tokens.")] = None
    price_completion: Annotated[Price | None, Meta(description="Dollars per million completion tokens.")] = None
    price_cached: Annotated[
        Price | None, Meta(description="Dollars per million prompt tokens from the provider's prompt cache.")
    ] = None


class ToolSettings(ConfigSection, frozen=True, kw_only=True):
    parallel: Annotated[
        bool, Meta(description="Run the tool calls of one response in parallel if all of them are `pure`.")
    ] = True
    memory: Annotated[
        Literal["auto", "on", "off"],
        Meta(
            description="Offer the memory tools; auto: to agents that have tools, and to sessions with messages "
            "that left the context window."
        ),
    ] = "auto"
    builtin: Annotated[
        tuple[str, ...],
        Meta(
            description="Built-in tools to offer, by name; `readonly`: those that only read, `all`: all except "
            f"{_NOT_IN_ALL}."
        ),
    ] = ()
    sub_agents: Annotated[
        tuple[str, ...],
        Meta(
            description="Tools that sub-agents may have if the model asks for them, beside those that only read: "
            "names, globs or `all`; empty: they only read."
        ),
    ] = ()
    only: Annotated[
        tuple[str, ...],
        Meta(description="Allowlist of tool names (globs) for all tools, wherever they come from; empty: all."),
    ] = ()
    roots: Annotated[
        tuple[str, ...],
        Meta(
            description="Folders in which file tools and commands work, the first as working directory; empty: a "
            "folder of the session's own. `mainstay chat` and `mainstay run` use the current directory."
        ),
    ] = ()
    readable: Annotated[tuple[str, ...], Meta(description="More folders that file tools and commands may read.")] = ()
    protected: Annotated[
        tuple[str, ...],
        Meta(
            description="Files and folders, relative to the roots or absolute, that tools and sandboxed commands "
            "cannot see, whether they exist yet or not: `.env`."
        ),
    ] = ()
    fetch_private: Annotated[
        tuple[str, ...],
        Meta(
            description="Allowlist of `host:port` on private addresses that `fetch` may reach (SSRF protection "
            "blocks all others)."
        ),
    ] = ()

    declare: Annotated[
        dict[str, ToolDeclaration],
        Meta(
            description="What tools do that you cannot edit, by tool name: `send_mail: {sink: [to]}`. "
            "It replaces the tool's own declaration."
        ),
    ] = {}


class PersonRuleSettings(ConfigSection, frozen=True, kw_only=True):
    """Rules of one person."""

    allow: Annotated[tuple[str, ...], Meta(description="Tool calls that may run, as `tool` or `tool(pattern)`.")] = ()
    ask: Annotated[tuple[str, ...], Meta(description="Tool calls that need approval (human in the loop).")] = ()
    deny: Annotated[
        tuple[str, ...], Meta(description="Tool calls that never run (denylist); checked before all other rules.")
    ] = ()
    read_only: Annotated[bool, Meta(description="Allow only tools that change nothing.")] = False


class PolicySettings(ConfigSection, frozen=True, kw_only=True):
    allow: Annotated[
        tuple[str, ...],
        Meta(description="Tool calls that may run (allowlist), as `tool` or `tool(pattern)`: `bash(git *)`."),
    ] = ()
    ask: Annotated[tuple[str, ...], Meta(description="Tool calls that need approval (human in the loop).")] = ()
    deny: Annotated[
        tuple[str, ...], Meta(description="Tool calls that never run (denylist); checked before all other rules.")
    ] = ()
    capabilities: Annotated[
        tuple[str, ...],
        Meta(
            description="Allowlist of capabilities that tools may require, as dotted globs: `fs.read`, `net`, `send.*`."
        ),
    ] = ("*",)
    read_only: Annotated[bool, Meta(description="Allow only tools that change nothing.")] = False
    destinations: Annotated[
        tuple[str, ...],
        Meta(
            description="Allowlist of destinations (globs) to which data may be sent although the conversation "
            "contains untrusted content: `https://docs.python.org/**`, `slack:team`."
        ),
    ] = ()
    trusted_files: Annotated[
        tuple[str, ...],
        Meta(description="Files whose content is trusted, as globs below the roots: `docs/**`."),
    ] = ()
    people: Annotated[
        dict[str, PersonRuleSettings], Meta(description="Additional rules for one person, by the sender's name.")
    ] = {}


class GuardSettings(ConfigSection, frozen=True, kw_only=True):
    input: Annotated[
        Literal["block", "flag", "off"],
        Meta(
            description="What to do with a user message that looks like a prompt injection: refuse it, record it, "
            "or do not scan."
        ),
    ] = "flag"
    tools: Annotated[
        Literal["block", "flag", "off"],
        Meta(
            description="What to do with a tool result that looks like a prompt injection: withhold it, record it, "
            "or do not scan. Content from outside is marked as untrusted data in any case."
        ),
    ] = "flag"
    secrets: Annotated[bool, Meta(description="Redact secrets in answers, logs and calls that leave.")] = True
    pii: Annotated[bool, Meta(description="Redact personal data (PII) in answers and logs.")] = False
    forbidden_patterns: Annotated[
        tuple[str, ...],
        Meta(description="Regular expressions that count as an attack in user messages and tool results."),
    ] = ()


class SandboxSettings(ConfigSection, frozen=True, kw_only=True):
    kind: Annotated[
        str,
        Meta(
            description="Sandbox in which commands run, by name; auto: bubblewrap if it works, else the host, where "
            "commands that may do more than read need approval."
        ),
    ] = "auto"
    options: Annotated[SandboxOptions, Meta(description="Settings of that sandbox.")] = SandboxOptions()
    network: Annotated[bool, Meta(description="Give commands network access.")] = False
    container: Annotated[str, Meta(description="Name of the container in which `docker` runs commands.")] = ""
    memory_mb: Annotated[Count, Meta(description="Memory limit of one command, in MB.")] = 2048
    processes: Annotated[Count, Meta(description="Process limit of one command.")] = 256
    file_mb: Annotated[Count, Meta(description="Largest file that a command may write, in MB.")] = 1024


class LaneSettings(ConfigSection, frozen=True, kw_only=True):
    key: Annotated[
        Literal["thread", "user", "single"],
        Meta(
            description="What a session is (its turns run in order): one per thread, one per user, or a single one "
            "for everything."
        ),
    ] = "thread"


class StateSettings(ConfigSection, frozen=True, kw_only=True):
    data_dir: Annotated[
        str | None, Meta(description="Folder for all data, relative to the home; default: the home.")
    ] = None


class CompactionSettings(ConfigSection, frozen=True, kw_only=True):
    strategy: Annotated[
        Literal["summarize"], Meta(description="What happens to messages that leave the context window.")
    ] = "summarize"
    summary_model: Annotated[
        str | None, Meta(description="Model that writes summaries: `<provider>/<model>`; null: the session's own.")
    ] = None
    batch_size: Annotated[Count, Meta(description="Messages that are summarized at once.")] = 50


class RecentStoreSettings(ConfigSection, frozen=True, kw_only=True):
    max_messages: Annotated[Count | None, Meta(description="Newest messages that can be searched; null: all.")] = None


class SummarySettings(ConfigSection, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Store summaries of messages that left the context window.")] = True
    extract_facts: Annotated[bool, Meta(description="Extract facts from messages that are summarized.")] = True


class KnowledgeSettings(ConfigSection, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Store facts.")] = True
    scope: Annotated[Literal["workspace"], Meta(description="Which sessions share facts.")] = "workspace"


class EmbeddingSettings(ConfigSection, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Semantic search with embeddings.")] = True
    model: Annotated[
        str,
        Meta(
            description="Embedding model: `local` (from the extra `memory`, on this machine), `<provider>/<model>`, or "
            "`<embedder>/<model>` for an embedder of another distribution."
        ),
    ] = LOCAL_EMBEDDINGS
    options: Annotated[EmbedderOptions, Meta(description="Settings of that embedder.")] = EmbedderOptions()


class MemorySettings(ConfigSection, frozen=True, kw_only=True):
    active_window: Annotated[
        Count | None,
        Meta(
            description="Messages of the conversation that the model sees; null: as many as fit into the token budget."
        ),
    ] = None
    compaction: Annotated[CompactionSettings, Meta(description="How old messages are summarized (compaction).")] = (
        CompactionSettings()
    )
    recent_store: Annotated[RecentStoreSettings, Meta(description="Full-text search over messages.")] = (
        RecentStoreSettings()
    )
    summaries: Annotated[SummarySettings, Meta(description="Summaries of past conversations.")] = SummarySettings()
    knowledge: Annotated[KnowledgeSettings, Meta(description="Facts from conversations.")] = KnowledgeSettings()
    embeddings: Annotated[EmbeddingSettings, Meta(description="Embeddings for semantic search.")] = EmbeddingSettings()


class SessionSettings(ConfigSection, frozen=True, kw_only=True):
    memory: Annotated[MemorySettings, Meta(description="What is remembered, and how much of it the model sees.")] = (
        MemorySettings()
    )
    files: Annotated[
        bool,
        Meta(
            description="Keep `log.jsonl` (all that was said) and `context.jsonl` (what the model sees) of each "
            "session up to date in its folder, for `tail` and `grep`."
        ),
    ] = False


class KnowledgeStorageSettings(ConfigSection, frozen=True, kw_only=True):
    backend: Annotated[
        str, Meta(description="Fact store, by name; sqlite: facts are in the workspace's own store.")
    ] = "sqlite"
    options: Annotated[FactStoreOptions, Meta(description="Settings of that fact store.")] = FactStoreOptions()


class VectorSettings(ConfigSection, frozen=True, kw_only=True):
    backend: Annotated[
        Literal["sqlite_vec", "none"], Meta(description="Vector database for embeddings; none: full-text search only.")
    ] = "sqlite_vec"


class MemoryStorageSettings(ConfigSection, frozen=True, kw_only=True):
    knowledge: Annotated[KnowledgeStorageSettings, Meta(description="Storage of facts.")] = KnowledgeStorageSettings()


class StorageSettings(ConfigSection, frozen=True, kw_only=True):
    backend: Annotated[str, Meta(description="Store for everything that has no key of its own below, by name.")] = (
        "sqlite"
    )
    options: Annotated[StoreOptions, Meta(description="Settings of that store.")] = StoreOptions()
    memory: Annotated[MemoryStorageSettings, Meta(description="Storage of memory.")] = MemoryStorageSettings()
    vector: Annotated[VectorSettings, Meta(description="Storage of embeddings.")] = VectorSettings()


class ContextSettings(ConfigSection, frozen=True, kw_only=True):
    window: Annotated[
        Annotated[int, Meta(ge=1024)] | None,
        Meta(description="Context window in tokens, answer included; null: what is known of the model."),
    ] = None
    reserve_tokens: Annotated[
        Count, Meta(description="Tokens reserved for the answer, at most a quarter of the window.")
    ] = 16_384
    recent_tokens: Annotated[
        Count,
        Meta(
            description="Tokens of the newest messages that are kept verbatim when older ones are summarized, if "
            "the window allows."
        ),
    ] = 20_000
    summary_tokens: Annotated[
        Count, Meta(description="Length of the summary, in tokens, above which it is summarized again.")
    ] = 3_000
    profile_tokens: Annotated[Count, Meta(description="Tokens above which the profile section causes a warning.")] = (
        2_000
    )
    fixed_tokens: Annotated[
        Count, Meta(description="Tokens above which instructions and tool schemas cause a warning.")
    ] = 5_000
    high: Annotated[float, Meta(description="Share of the token budget at which compaction starts.")] = 0.9
    low: Annotated[float, Meta(description="Share of the token budget that compaction reduces the context to.")] = 0.6


class WorkspaceEntry(ConfigSection, frozen=True, kw_only=True):
    """Settings of one workspace. Keys that are not set have the shared values."""

    model: Annotated[str | None, Meta(description="Its model: `<provider>/<model>`.")] = None
    models: Annotated[tuple[str | ModelEntry, ...] | None, Meta(description="Its models in failover order.")] = None
    providers: Annotated[
        dict[str, ProviderSettings] | None, Meta(description="Base URLs and API keys of its providers, by name.")
    ] = None
    instructions: Annotated[str | None, Meta(description="Its system prompt.")] = None
    limits: Annotated[Limits | None, Meta(description="Its limits: timeouts, retries, sizes.")] = None
    context: Annotated[ContextSettings | None, Meta(description="Its context window and token budget.")] = None
    tools: Annotated[ToolSettings | None, Meta(description="Its tools and their folders.")] = None
    policy: Annotated[PolicySettings | None, Meta(description="Its rules for tool calls: allow, ask, deny.")] = None
    guards: Annotated[GuardSettings | None, Meta(description="Its guardrails: prompt injection, secrets, PII.")] = None
    sandbox: Annotated[SandboxSettings | None, Meta(description="The sandbox of its commands.")] = None
    plugins: Annotated[
        dict[str, PluginEntry] | None, Meta(description="Its plugins, in addition to the shared ones.")
    ] = None
    mcpServers: Annotated[
        dict[str, McpEntry] | None, Meta(description="Its MCP servers, in addition to the shared ones.")
    ] = None
    backends: Annotated[
        dict[str, BackendSettings] | None, Meta(description="Its data sources, in addition to the shared ones.")
    ] = None
    skills: Annotated[SkillSettings | None, Meta(description="Its skills.")] = None
    patterns: Annotated[PatternSettings | None, Meta(description="Its patterns.")] = None
    judges: Annotated[JudgeSettings | None, Meta(description="The judges of its answers.")] = None
    budgets: Annotated[BudgetSettings | None, Meta(description="Its spending limits.")] = None
    lanes: Annotated[LaneSettings | None, Meta(description="How its messages are assigned to sessions.")] = None
    sessions: Annotated[SessionSettings | None, Meta(description="The memory of its sessions.")] = None


class Config(ConfigSection, frozen=True, kw_only=True):
    """The configuration; `Config()` has the defaults."""

    model: Annotated[str | None, Meta(description="Default model: `<provider>/<model>`.")] = None
    models: Annotated[
        tuple[str | ModelEntry, ...],
        Meta(description="Models in failover order; an entry may be a mapping with more settings of its model."),
    ] = ()
    providers: Annotated[
        dict[str, ProviderSettings], Meta(description="Base URLs and API keys of model providers, by name.")
    ] = {}
    instructions: Annotated[str, Meta(description="System prompt, sent before every conversation.")] = ""
    workspace: Annotated[
        str,
        Meta(description="Workspace to use when none is named: 1 to 64 characters of a-z, 0-9, _ and -."),
    ] = "default"
    limits: Annotated[Limits, Meta(description="Limits: timeouts, retries, circuit breaker, sizes, depths.")] = Limits()
    context: Annotated[ContextSettings, Meta(description="Context window and token budget.")] = ContextSettings()
    tools: Annotated[ToolSettings, Meta(description="Built-in tools, their folders, and which tools are offered.")] = (
        ToolSettings()
    )
    policy: Annotated[PolicySettings, Meta(description="Rules for tool calls: allow, ask for approval, deny.")] = (
        PolicySettings()
    )
    trust: Annotated[
        TrustMode,
        Meta(
            description="`labelled`: content from outside is labelled, and calls that would send it out or act on it "
            "need approval. `open`: no information flow control; rules, guards and the sandbox still apply."
        ),
    ] = "labelled"
    guards: Annotated[
        GuardSettings,
        Meta(description="Guardrails: prompt injection in inputs and tool results, secrets and PII in answers."),
    ] = GuardSettings()
    sandbox: Annotated[SandboxSettings, Meta(description="Sandbox in which commands run.")] = SandboxSettings()
    plugins: Annotated[dict[str, PluginEntry], Meta(description="Settings of plugins, by plugin name.")] = {}
    mcpServers: Annotated[dict[str, McpEntry], Meta(description="MCP servers whose tools are offered, by name.")] = {}
    backends: Annotated[
        dict[str, BackendSettings],
        Meta(description="Data sources that are offered as tools, by name."),
    ] = {}
    skills: Annotated[SkillSettings, Meta(description="Skills: folders with a SKILL.md.")] = SkillSettings()
    patterns: Annotated[
        PatternSettings, Meta(description="Patterns: YAML files that are matched with each request.")
    ] = PatternSettings()
    triggers: Annotated[TriggerSettings, Meta(description="Triggers: prompts from schedules, files and webhooks.")] = (
        TriggerSettings()
    )
    judges: Annotated[
        JudgeSettings, Meta(description="Judges that score answers before they are shown (LLM as judge, or functions).")
    ] = JudgeSettings()
    budgets: Annotated[
        BudgetSettings, Meta(description="Budgets: spending limits in money, tokens and tool calls.")
    ] = BudgetSettings()
    audit: Annotated[AuditSettings, Meta(description="Audit log: who did what.")] = AuditSettings()
    telemetry: Annotated[
        TelemetrySettings, Meta(description="Telemetry: OpenTelemetry traces and Prometheus metrics.")
    ] = TelemetrySettings()
    people: Annotated[dict[str, PersonEntry], Meta(description="People who are known without pairing, by name.")] = {}
    channels: Annotated[dict[str, ChannelSettings], Meta(description="Chat platforms to connect to, by name.")] = {}
    server: Annotated[
        ServerSettings, Meta(description="The server `mainstay serve`: addresses, authentication, TLS, rate limits.")
    ] = ServerSettings()
    lanes: Annotated[LaneSettings, Meta(description="How messages are assigned to sessions.")] = LaneSettings()
    state: Annotated[StateSettings, Meta(description="Where data is stored.")] = StateSettings()
    sessions: Annotated[SessionSettings, Meta(description="Memory of sessions.")] = SessionSettings()
    storage: Annotated[StorageSettings, Meta(description="Databases.")] = StorageSettings()
    workspaces: Annotated[
        dict[str, WorkspaceEntry],
        Meta(description="Settings of single workspaces that differ from the shared ones (multi-tenant), by name."),
    ] = {}


def default_home(env: Mapping[str, str]) -> Path:
    """Return `$MAINSTAY_HOME`, else `~/.mainstay`. Raises ConfigError if the user has no home directory."""
    configured = env.get("MAINSTAY_HOME")
    try:
        return (
            Path(configured).expanduser().absolute()
            if configured
            else Path(env.get("HOME") or Path.home()) / ".mainstay"
        )
    except (RuntimeError, ValueError):
        raise ConfigError("no home directory was found: set MAINSTAY_HOME") from None


def resolve_data_folder(home: Path, config: Config) -> Path:
    """Return the folder of all data: the home, or `state.data_dir`, which is relative to the home."""
    folder = config.state.data_dir
    return home / Path(folder).expanduser() if folder else home


def check_workspace(name: str) -> str:
    """Return the name. Raises ConfigError if a workspace cannot have it."""
    if (problem := find_workspace_name_problem(name)) is not None:
        raise ConfigError(f"the workspace {name[:80]!r} {problem}")
    return name


def find_workspace_name_problem(name: str) -> str | None:
    return None if WORKSPACE_NAME.fullmatch(name) else "must be 1 to 64 characters of a-z, 0-9, _ and -"


def expand_tool_groups(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Return tool names with groups of built-in tools expanded. Names may be those of any tool."""
    return tuple(dict.fromkeys(name for entry in entries for name in TOOL_GROUPS.get(entry, (entry,))))


def expand_builtin_tools(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tool names of `tools.builtin`, with groups expanded. Raises ConfigError for an unknown name."""
    if "none" in entries and len(set(entries)) > 1:
        raise ConfigError("'tools.builtin': 'none' cannot be combined with other names; remove it or the others")
    names: dict[str, None] = {}
    for entry in entries:
        for name in TOOL_GROUPS.get(entry, (entry,)):
            if name not in NAMEABLE_TOOLS:
                raise ConfigError(f"'tools.builtin': {_explain_unknown_tool(name)}")
            names[name] = None
    return tuple(names)


def _explain_unknown_tool(name: str) -> str:
    if name in CHANNEL_TOOLS:
        return f"{name!r} needs no entry: it is offered where `mainstay serve` has connected a channel; remove it"
    known = ", ".join((*TOOL_GROUPS, *NAMEABLE_TOOLS))
    return (
        f"there is no built-in tool {name!r}; use any of {known}. Your own tools come from a plugin (`mainstay plugin "
        "new`) or an MCP server (`mcpServers`)"
    )


def find_secrets(env: Mapping[str, str]) -> list[str]:
    """Return the values of variables that are named like secrets (`…API_KEY`, `…TOKEN`, `…PASSWORD`)."""
    return sorted(
        {value for name, value in env.items() if _SECRET_VARIABLE.search(name) and len(value) >= SECRET_CHARS_MIN}
    )
