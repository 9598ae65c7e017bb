"""What can be configured. Descriptions are part of the schema: the reference page is made from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mainstay.core.errors import ConfigError
from mainstay.core.limits import Limits

FILE = "mainstay.yaml"
HIDDEN = "set (hidden)"

Count = Annotated[int, Meta(ge=1)]
Price = Annotated[float, Meta(ge=0)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prints without its secrets: a configuration ends up in logs and tracebacks."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, masked(name, getattr(self, name))) for name in self.__struct_fields__]


class ModelEntry(_Section, frozen=True, kw_only=True):
    model: Annotated[str, Meta(description="`<provider>/<model>`.")]
    base_url: Annotated[str | None, Meta(description="Where to reach it; default: the provider's.")] = None
    api_key: Annotated[str | None, Meta(description="Its key; default: the provider's.")] = None
    window: Annotated[Count | None, Meta(description="Context window in tokens; default: what is known.")] = None
    output: Annotated[Count | None, Meta(description="Longest answer in tokens; default: what is known.")] = None
    price_prompt: Annotated[Price | None, Meta(description="Dollars per million prompt tokens.")] = None
    price_completion: Annotated[Price | None, Meta(description="Dollars per million completion tokens.")] = None


class ProviderEntry(_Section, frozen=True, kw_only=True):
    base_url: Annotated[str | None, Meta(description="Where to reach it; default: its usual address.")] = None
    api_key: Annotated[
        str | None, Meta(description="Its key, best given as `${VAR}`; default: its usual environment variable.")
    ] = None


class ToolSettings(_Section, frozen=True, kw_only=True):
    parallel: Annotated[
        bool, Meta(description="Run calls of one response side by side where all of them are `pure`.")
    ] = True


class LaneSettings(_Section, frozen=True, kw_only=True):
    key: Annotated[
        Literal["thread", "user", "single"],
        Meta(description="What has a lane of its own: a conversation, a person, or one agent that hears everything."),
    ] = "thread"


class StateSettings(_Section, frozen=True, kw_only=True):
    data_dir: Annotated[str | None, Meta(description="Where state is kept; default: the home.")] = None


class CompactionSettings(_Section, frozen=True, kw_only=True):
    strategy: Annotated[Literal["summarize"], Meta(description="What becomes of messages that leave the window.")] = (
        "summarize"
    )
    summary_model: Annotated[str, Meta(description="The model that writes summaries.")] = "openai/gpt-4.1-mini"
    batch_size: Annotated[Count, Meta(description="How many messages are summarised at once.")] = 50


class RecentStoreSettings(_Section, frozen=True, kw_only=True):
    max_messages: Annotated[
        Count | None, Meta(description="Only so many of the newest messages can be searched; null: all.")
    ] = None


class SummarySettings(_Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Keep summaries of what left the window.")] = True
    extract_facts: Annotated[bool, Meta(description="Take facts out of what is summarised.")] = True


class KnowledgeSettings(_Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Keep facts.")] = True
    scope: Annotated[Literal["workspace"], Meta(description="Who shares facts.")] = "workspace"


class EmbeddingSettings(_Section, frozen=True, kw_only=True):
    enabled: Annotated[bool, Meta(description="Search by meaning.")] = True
    model: Annotated[str, Meta(description="The model that makes the vectors.")] = "openai/text-embedding-3-small"


class MemorySettings(_Section, frozen=True, kw_only=True):
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


class SessionSettings(_Section, frozen=True, kw_only=True):
    memory: Annotated[MemorySettings, Meta(description="What is remembered, and how much of it is shown.")] = (
        MemorySettings()
    )


class BackendSettings(_Section, frozen=True, kw_only=True):
    backend: Annotated[Literal["sqlite"], Meta(description="Which database.")] = "sqlite"


class VectorSettings(_Section, frozen=True, kw_only=True):
    backend: Annotated[Literal["sqlite_vec"], Meta(description="Which database keeps vectors.")] = "sqlite_vec"


class MemoryStorageSettings(_Section, frozen=True, kw_only=True):
    knowledge: Annotated[BackendSettings, Meta(description="Where facts are kept.")] = BackendSettings()


class StorageSettings(_Section, frozen=True, kw_only=True):
    backend: Annotated[Literal["sqlite"], Meta(description="Which database keeps everything not named below.")] = (
        "sqlite"
    )
    memory: Annotated[MemoryStorageSettings, Meta(description="Where memory is kept.")] = MemoryStorageSettings()
    vector: Annotated[VectorSettings, Meta(description="Where vectors are kept.")] = VectorSettings()


class Config(_Section, frozen=True, kw_only=True):
    """Everything that can be configured; `Config()` is the defaults."""

    model: Annotated[str | None, Meta(description="The model to ask: `<provider>/<model>`.")] = None
    models: Annotated[
        tuple[str | ModelEntry, ...],
        Meta(description="Models in failover order; an entry may be a mapping that says more about its model."),
    ] = ()
    providers: Annotated[dict[str, ProviderEntry], Meta(description="How providers are reached, by name.")] = {}
    instructions: Annotated[str, Meta(description="What the agent is told before anything else.")] = ""
    limits: Annotated[Limits, Meta(description="A bound on everything.")] = Limits()
    tools: Annotated[ToolSettings, Meta(description="How tools are run.")] = ToolSettings()
    lanes: Annotated[LaneSettings, Meta(description="How conversations are kept apart.")] = LaneSettings()
    state: Annotated[StateSettings, Meta(description="Where things are kept.")] = StateSettings()
    sessions: Annotated[SessionSettings, Meta(description="What a session remembers.")] = SessionSettings()
    storage: Annotated[StorageSettings, Meta(description="Which databases are used.")] = StorageSettings()


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


def masked(name: str, value: Any) -> Any:
    """A value as it may be seen: keys are hidden, and so is what a URL may carry beside its address."""
    if name == "api_key" and value is not None:
        return HIDDEN
    if name == "base_url" and isinstance(value, str):
        return re.sub(r"\?.*", "?(hidden)", re.sub(r"://[^/?#]*@", "://(hidden)@", value), flags=re.DOTALL)
    return value
