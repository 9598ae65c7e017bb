"""What can be configured. Descriptions are part of the schema: the reference page is made from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from mainstay.config.schema_base import Count, Section
from mainstay.config.schema_external_tools import BackendEntry, McpEntry, PluginEntry
from mainstay.config.schema_gateway import ChannelEntry, PersonEntry, ServerSettings
from mainstay.config.schema_observability import AuditSettings, BudgetSettings, JudgeSettings, TelemetrySettings
from mainstay.config.schema_skills import PatternSettings, SkillSettings, TriggerSettings
from mainstay.core.errors import ConfigError
from mainstay.core.limits import Limits

FILE = "mainstay.yaml"
LOCAL = "local"  # the model for vectors that is installed beside us
WORKSPACE = re.compile(r"[a-z0-9_-]{1,64}")  # becomes a folder's name

SECRET_CHARS_MIN = 6  # a shorter one stands in any text by chance
_SECRET = re.compile(r"(?:API_?KEY|ACCESS_?KEY|TOKEN|SECRET|PASSWORD|PASSWD)$", re.IGNORECASE)

# the built-in tools by name, and what stands for several of them
READING = ("read", "grep", "glob", "ls")
EVERY = (*READING, "write", "edit", "apply_patch", "bash", "process", "fetch", "spawn", "schedule")
ON_CHANNELS = ("upload", "search_channel")  # where a gateway has connected some
NAMES = (*EVERY, "message")
GROUPS: dict[str, tuple[str, ...]] = {"none": (), "readonly": READING, "all": EVERY}

Price = Annotated[float, Meta(ge=0)]


class ModelEntry(Section, frozen=True, kw_only=True):
    model: Annotated[str, Meta(description="`<provider>/<model>`.")]
    base_url: Annotated[str | None, Meta(description="Where to reach it; default: the provider's.")] = None
    api_key: Annotated[str | None, Meta(description="Its key; default: the provider's.")] = None
    window: Annotated[Count | None, Meta(description="Context window in tokens; default: what is known.")] = None
    output: Annotated[Count | None, Meta(description="Longest answer in tokens; default: what is known.")] = None
    price_prompt: Annotated[Price | None, Meta(description="Dollars per million prompt tokens.")] = None
    price_completion: Annotated[Price | None, Meta(description="Dollars per million completion tokens.")] = None
    price_cached: Annotated[
        Price | None, Meta(description="Dollars per million prompt tokens that the provider had in its cache.")
    ] = None


class ProviderEntry(Section, frozen=True, kw_only=True):
    base_url: Annotated[str | None, Meta(description="Where to reach it; default: its usual address.")] = None
    api_key: Annotated[
        str | None, Meta(description="Its key, best given as `${VAR}`; default: its usual environment variable.")
    ] = None


class ToolSettings(Section, frozen=True, kw_only=True):
    parallel: Annotated[
        bool, Meta(description="Run calls of one response side by side where all of them are `pure`.")
    ] = True
    memory: Annotated[
        Literal["auto", "on", "off"],
        Meta(
            description="Offer the memory tools; auto: to agents that have tools, and to every session once something "
            "has left its window."
        ),
    ] = "auto"
    builtin: Annotated[
        tuple[str, ...],
        Meta(description="Built-in tools to offer, by name; `readonly`: those that only read, `all`: all of them."),
    ] = ()
    only: Annotated[
        tuple[str, ...], Meta(description="Offer no other tools than these (globs), whoever brought them; empty: all.")
    ] = ()
    roots: Annotated[
        tuple[str, ...],
        Meta(
            description="Folders in which file tools and commands work, the first is where they begin; empty: a folder "
            "of the session's own. `mainstay chat` and `mainstay run` use the current directory."
        ),
    ] = ()
    readable: Annotated[tuple[str, ...], Meta(description="More folders, only to be read.")] = ()
    protected: Annotated[
        tuple[str, ...],
        Meta(
            description="Files and folders, relative to the roots or absolute, that neither tools nor commands in a "
            "sandbox see, whether they are there yet or not: `.env`."
        ),
    ] = ()
    fetch_private: Annotated[
        tuple[str, ...], Meta(description="`host:port` of services on private addresses that `fetch` may reach.")
    ] = ()


class RuleSettings(Section, frozen=True, kw_only=True):
    """Rules of one person."""

    allow: Annotated[tuple[str, ...], Meta(description="Calls that may run, as `tool` or `tool(pattern)`.")] = ()
    ask: Annotated[tuple[str, ...], Meta(description="Calls that somebody has to approve first.")] = ()
    deny: Annotated[tuple[str, ...], Meta(description="Calls that never run; these are looked at first.")] = ()
    read_only: Annotated[bool, Meta(description="Only tools that change nothing.")] = False


class PolicySettings(Section, frozen=True, kw_only=True):
    allow: Annotated[
        tuple[str, ...], Meta(description="Calls that may run, as `tool` or `tool(pattern)`: `bash(git *)`.")
    ] = ()
    ask: Annotated[tuple[str, ...], Meta(description="Calls that somebody has to approve first.")] = ()
    deny: Annotated[tuple[str, ...], Meta(description="Calls that never run; these are looked at first.")] = ()
    capabilities: Annotated[
        tuple[str, ...], Meta(description="What tools may need at all, dotted globs: `fs.read`, `net`, `send.*`.")
    ] = ("*",)
    read_only: Annotated[bool, Meta(description="Only tools that change nothing.")] = False
    destinations: Annotated[
        tuple[str, ...],
        Meta(
            description="Where data may go although content from outside is in the conversation (globs): "
            "`https://docs.python.org/**`, `slack:team`."
        ),
    ] = ()
    trusted_files: Annotated[
        tuple[str, ...],
        Meta(description="Files whose content does not count as from outside, as globs below the roots: `docs/**`."),
    ] = ()
    people: Annotated[
        dict[str, RuleSettings], Meta(description="Rules for one person more, by the name of the sender.")
    ] = {}


class GuardSettings(Section, frozen=True, kw_only=True):
    input: Annotated[
        Literal["block", "flag", "off"], Meta(description="What is done about a message that looks like an attack.")
    ] = "flag"
    tools: Annotated[
        Literal["block", "flag", "off"], Meta(description="And about a tool's result that does; it is data either way.")
    ] = "flag"
    secrets: Annotated[bool, Meta(description="Take secrets out of answers and logs.")] = True
    pii: Annotated[bool, Meta(description="Take personal data out of answers and logs.")] = False
    forbidden_patterns: Annotated[
        tuple[str, ...], Meta(description="Regular expressions that count as an attack wherever they are found.")
    ] = ()


class SandboxSettings(Section, frozen=True, kw_only=True):
    kind: Annotated[
        Literal["auto", "bubblewrap", "host", "docker"],
        Meta(description="Where commands run; auto: bubblewrap where it works, else the host, which asks first."),
    ] = "auto"
    network: Annotated[bool, Meta(description="Commands may use the network.")] = False
    container: Annotated[str, Meta(description="The container that `docker` runs commands in.")] = ""
    memory_mb: Annotated[Count, Meta(description="Memory of one command.")] = 2048
    processes: Annotated[Count, Meta(description="Processes of one command.")] = 256
    file_mb: Annotated[Count, Meta(description="The largest file that a command may write.")] = 1024


class LaneSettings(Section, frozen=True, kw_only=True):
    key: Annotated[
        Literal["thread", "user", "single"],
        Meta(description="What has a lane of its own: a conversation, a person, or one agent that hears everything."),
    ] = "thread"


class StateSettings(Section, frozen=True, kw_only=True):
    data_dir: Annotated[str | None, Meta(description="Where state is kept; default: the home.")] = None


class CompactionSettings(Section, frozen=True, kw_only=True):
    strategy: Annotated[Literal["summarize"], Meta(description="What becomes of messages that leave the window.")] = (
        "summarize"
    )
    summary_model: Annotated[
        str | None, Meta(description="The model that writes summaries: `<provider>/<model>`; null: the session's own.")
    ] = None
    batch_size: Annotated[Count, Meta(description="How many messages are summarised at once.")] = 50


class RecentStoreSettings(Section, frozen=True, kw_only=True):
    max_messages: Annotated[
        Count | None, Meta(description="Only so many of the newest messages can be searched; null: all.")
    ] = None


class SummarySettings(Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Keep summaries of what left the window.")] = True
    extract_facts: Annotated[bool, Meta(description="Take facts out of what is summarised.")] = True


class KnowledgeSettings(Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Keep facts.")] = True
    scope: Annotated[Literal["workspace"], Meta(description="Who shares facts.")] = "workspace"


class EmbeddingSettings(Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Search by meaning.")] = True
    model: Annotated[
        str,
        Meta(
            description="The model that makes the vectors: `local` (of the extra `memory`, on this machine) "
            "or `<provider>/<model>`."
        ),
    ] = LOCAL


class MemorySettings(Section, frozen=True, kw_only=True):
    active_window: Annotated[
        Count | None, Meta(description="Show the model this many messages; null: as many as fit, by tokens.")
    ] = None
    compaction: Annotated[CompactionSettings, Meta(description="How old messages are summarised.")] = (
        CompactionSettings()
    )
    recent_store: Annotated[RecentStoreSettings, Meta(description="Full text of messages.")] = RecentStoreSettings()
    summaries: Annotated[SummarySettings, Meta(description="Summaries by date.")] = SummarySettings()
    knowledge: Annotated[KnowledgeSettings, Meta(description="Facts.")] = KnowledgeSettings()
    embeddings: Annotated[EmbeddingSettings, Meta(description="Vectors.")] = EmbeddingSettings()


class SessionSettings(Section, frozen=True, kw_only=True):
    memory: Annotated[MemorySettings, Meta(description="What is remembered, and how much of it is shown.")] = (
        MemorySettings()
    )


class KnowledgeStorageSettings(Section, frozen=True, kw_only=True):
    backend: Annotated[
        Literal["sqlite", "oxigraph"],
        Meta(description="Which database keeps facts; oxigraph is a graph database of its own, an extra."),
    ] = "sqlite"


class VectorSettings(Section, frozen=True, kw_only=True):
    backend: Annotated[
        Literal["sqlite_vec", "none"], Meta(description="Which database keeps vectors; none: search by words only.")
    ] = "sqlite_vec"


class MemoryStorageSettings(Section, frozen=True, kw_only=True):
    knowledge: Annotated[KnowledgeStorageSettings, Meta(description="Where facts are kept.")] = (
        KnowledgeStorageSettings()
    )


class StorageSettings(Section, frozen=True, kw_only=True):
    backend: Annotated[Literal["sqlite"], Meta(description="Which database keeps everything not named below.")] = (
        "sqlite"
    )
    memory: Annotated[MemoryStorageSettings, Meta(description="Where memory is kept.")] = MemoryStorageSettings()
    vector: Annotated[VectorSettings, Meta(description="Where vectors are kept.")] = VectorSettings()


class ContextSettings(Section, frozen=True, kw_only=True):
    window: Annotated[
        Annotated[int, Meta(ge=1024)] | None,
        Meta(description="How many tokens the model is shown and answers in; null: what is known of the model."),
    ] = None
    reserve_tokens: Annotated[
        Count, Meta(description="Kept free for the answer, but never more than a quarter of the window.")
    ] = 16_384
    recent_tokens: Annotated[
        Count, Meta(description="So much of the newest is kept word for word, where the window allows.")
    ] = 20_000
    summary_tokens: Annotated[Count, Meta(description="How long the summary may grow before it is folded again.")] = (
        3_000
    )
    profile_tokens: Annotated[Count, Meta(description="What the profile should need at most; more is warned of.")] = (
        2_000
    )
    fixed_tokens: Annotated[
        Count, Meta(description="What instructions and tools should need at most; more is warned of.")
    ] = 5_000
    high: Annotated[float, Meta(description="Share of the budget at which old things make room.")] = 0.9
    low: Annotated[float, Meta(description="Share of the budget down to which room is made.")] = 0.6


class WorkspaceEntry(Section, frozen=True, kw_only=True):
    """What is otherwise in one workspace. What is not said here is as it is for all of them."""

    model: Annotated[str | None, Meta(description="Its model: `<provider>/<model>`.")] = None
    models: Annotated[tuple[str | ModelEntry, ...] | None, Meta(description="Its models in failover order.")] = None
    providers: Annotated[dict[str, ProviderEntry] | None, Meta(description="How it reaches providers.")] = None
    instructions: Annotated[str | None, Meta(description="What its agent is told before anything else.")] = None
    limits: Annotated[Limits | None, Meta(description="Its bounds.")] = None
    context: Annotated[ContextSettings | None, Meta(description="What its model sees.")] = None
    tools: Annotated[ToolSettings | None, Meta(description="Its tools.")] = None
    policy: Annotated[PolicySettings | None, Meta(description="Who may do what in it.")] = None
    guards: Annotated[GuardSettings | None, Meta(description="What is looked for in its texts.")] = None
    sandbox: Annotated[SandboxSettings | None, Meta(description="Where its commands run.")] = None
    plugins: Annotated[dict[str, PluginEntry] | None, Meta(description="Its plugins, beside those of all.")] = None
    mcpServers: Annotated[dict[str, McpEntry] | None, Meta(description="Its MCP servers, beside those of all.")] = None
    backends: Annotated[dict[str, BackendEntry] | None, Meta(description="Its data, beside what all have.")] = None
    skills: Annotated[SkillSettings | None, Meta(description="Its skills.")] = None
    patterns: Annotated[PatternSettings | None, Meta(description="Its patterns.")] = None
    judges: Annotated[JudgeSettings | None, Meta(description="Who judges its answers.")] = None
    budgets: Annotated[BudgetSettings | None, Meta(description="What may be spent in it.")] = None
    lanes: Annotated[LaneSettings | None, Meta(description="How its conversations are kept apart.")] = None
    sessions: Annotated[SessionSettings | None, Meta(description="What its sessions remember.")] = None


class Config(Section, frozen=True, kw_only=True):
    """Everything that can be configured; `Config()` is the defaults."""

    model: Annotated[str | None, Meta(description="The model to ask: `<provider>/<model>`.")] = None
    models: Annotated[
        tuple[str | ModelEntry, ...],
        Meta(description="Models in failover order; an entry may be a mapping that says more about its model."),
    ] = ()
    providers: Annotated[dict[str, ProviderEntry], Meta(description="How providers are reached, by name.")] = {}
    instructions: Annotated[str, Meta(description="What the agent is told before anything else.")] = ""
    workspace: Annotated[str, Meta(description="Whose conversations and memory: 1 to 64 of a-z, 0-9, _ and -.")] = (
        "default"
    )
    limits: Annotated[Limits, Meta(description="A bound on everything.")] = Limits()
    context: Annotated[ContextSettings, Meta(description="What the model sees.")] = ContextSettings()
    tools: Annotated[ToolSettings, Meta(description="How tools are run.")] = ToolSettings()
    policy: Annotated[PolicySettings, Meta(description="Who may do what.")] = PolicySettings()
    guards: Annotated[GuardSettings, Meta(description="What is looked for in text from outside, and in answers.")] = (
        GuardSettings()
    )
    sandbox: Annotated[SandboxSettings, Meta(description="Where commands run.")] = SandboxSettings()
    plugins: Annotated[dict[str, PluginEntry], Meta(description="What is special about a plugin, by its name.")] = {}
    mcpServers: Annotated[dict[str, McpEntry], Meta(description="MCP servers whose tools are offered, by name.")] = {}
    backends: Annotated[dict[str, BackendEntry], Meta(description="Domain data offered as tools, by name.")] = {}
    skills: Annotated[SkillSettings, Meta(description="Know-how in folders with a SKILL.md.")] = SkillSettings()
    patterns: Annotated[PatternSettings, Meta(description="Know-how in YAML, matched with what is asked.")] = (
        PatternSettings()
    )
    triggers: Annotated[TriggerSettings, Meta(description="Work that nobody typed.")] = TriggerSettings()
    judges: Annotated[JudgeSettings, Meta(description="Who judges answers, and by what.")] = JudgeSettings()
    budgets: Annotated[BudgetSettings, Meta(description="What may be spent.")] = BudgetSettings()
    audit: Annotated[AuditSettings, Meta(description="The record of who did what.")] = AuditSettings()
    telemetry: Annotated[TelemetrySettings, Meta(description="Traces and metrics.")] = TelemetrySettings()
    people: Annotated[dict[str, PersonEntry], Meta(description="Who is known, by name; others are paired.")] = {}
    channels: Annotated[dict[str, ChannelEntry], Meta(description="Chat platforms, by name.")] = {}
    server: Annotated[ServerSettings, Meta(description="What `mainstay serve` offers, and to whom.")] = ServerSettings()
    lanes: Annotated[LaneSettings, Meta(description="How conversations are kept apart.")] = LaneSettings()
    state: Annotated[StateSettings, Meta(description="Where things are kept.")] = StateSettings()
    sessions: Annotated[SessionSettings, Meta(description="What a session remembers.")] = SessionSettings()
    storage: Annotated[StorageSettings, Meta(description="Which databases are used.")] = StorageSettings()
    workspaces: Annotated[
        dict[str, WorkspaceEntry], Meta(description="Workspaces in which something is otherwise, by name.")
    ] = {}


def default_home(env: Mapping[str, str]) -> Path:
    """$MAINSTAY_HOME, else ~/.mainstay."""
    given = env.get("MAINSTAY_HOME")
    try:
        return Path(given).expanduser().absolute() if given else Path(env.get("HOME") or Path.home()) / ".mainstay"
    except (RuntimeError, ValueError):
        raise ConfigError("no home directory was found: set MAINSTAY_HOME") from None


def data_home(home: Path, config: Config) -> Path:
    """Where everything is kept: the home, unless `state.data_dir` names another place (relative to the home)."""
    given = config.state.data_dir
    return home / Path(given).expanduser() if given else home


def check_workspace(name: str) -> str:
    """Raises ConfigError if a workspace cannot have this name."""
    if (wrong := wrong_workspace(name)) is not None:
        raise ConfigError(f"the workspace {name[:80]!r} {wrong}")
    return name


def wrong_workspace(name: str) -> str | None:
    return None if WORKSPACE.fullmatch(name) else "must be 1 to 64 characters of a-z, 0-9, _ and -"


def builtin_names(given: tuple[str, ...]) -> tuple[str, ...]:
    """`tools.builtin` with groups spelled out. Raises ConfigError for a name that is none."""
    if "none" in given and len(set(given)) > 1:
        raise ConfigError("'tools.builtin': 'none' stands alone; with it, no other can be named")
    names: dict[str, None] = {}
    for one in given:
        for name in GROUPS.get(one, (one,)):
            if name not in NAMES:
                known = ", ".join((*GROUPS, *NAMES))
                raise ConfigError(f"'tools.builtin': there is no built-in tool {name!r}; there are {known}")
            names[name] = None
    return tuple(names)


def secrets_in(env: Mapping[str, str]) -> list[str]:
    """Values of variables that are named like secrets, so that nothing shows them."""
    return sorted({value for name, value in env.items() if _SECRET.search(name) and len(value) >= SECRET_CHARS_MIN})
