"""The configuration: its schema, and how it is put together from the file and the environment.

Sections of later releases are refused by name, so that nobody believes in a setting that does nothing.
Descriptions are part of the schema: the reference page is made from them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mainstay.app import config_file
from mainstay.app.config_check import Checker, Source, dotted, from_text, named
from mainstay.core.errors import ConfigError
from mainstay.core.limits import Limits
from mainstay.edges.yaml import Document, YamlRefused, load

FILE = "mainstay.yaml"
PREFIX = "MAINSTAY__"
HIDDEN = "set (hidden)"

# Sections of later releases: known names, not typing mistakes.
UNAVAILABLE = frozenset(
    {
        "context", "policy", "guards", "sandbox", "plugins", "mcpServers", "backends", "skills", "patterns",
        "triggers", "channels", "workspaces", "people", "judges", "budgets", "audit", "telemetry", "server", "engine",
    }
)  # fmt: skip

_MODEL = re.compile(r"[^\s/]+/\S+")
_ADDRESS = re.compile(r"https?://[^\s/?#]+\S*")
_MAY_BE_ZERO = frozenset(
    {
        "step_restarts_max", "resumes_max", "retries_max", "retry_base_s", "retry_jitter", "retry_wait_max_s",
        "coalesce_window_s", "watchdog_grace_s", "ride_along_s",
    }
)  # fmt: skip
_COUNT_MAX = 2**53
_SECONDS_MAX = 1_000_000_000  # what threads and event loops can wait for

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


class Loaded(msgspec.Struct, frozen=True):
    """What is in force, where each value came from, and where the file is or would be."""

    config: Config
    origins: dict[str, str]
    path: Path


# --- putting it together -------------------------------------------------------------------------


def default_home(env: Mapping[str, str]) -> Path:
    """$MAINSTAY_HOME, else ~/.mainstay."""
    given = env.get("MAINSTAY_HOME")
    try:
        return Path(given).expanduser().absolute() if given else Path(env.get("HOME") or Path.home()) / ".mainstay"
    except (RuntimeError, ValueError):
        raise ConfigError("no home directory was found: set MAINSTAY_HOME") from None


def load_config(home: Path, *, env: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Loaded:
    """Defaults, under the file, under `MAINSTAY__…` variables, under `overrides` (dotted path to value)."""
    path = home / FILE
    raw = config_file.read(path)
    loaded = _load(path, raw, env, overrides or {})
    if raw is not None and b"api_key" in raw:
        config_file.refuse_shared_secrets(path, _parsed(raw).data)
    return loaded


def _load(path: Path, raw: bytes | None, env: Mapping[str, str], overrides: Mapping[str, Any]) -> Loaded:
    checker = Checker(Config, UNAVAILABLE, _wrong)
    data: dict[str, Any] = {}
    if raw is not None:
        document = _parsed(raw)
        line = document.line
        if not isinstance(document.data, dict | None):
            raise ConfigError(f"{FILE} line {line(())}: expected a mapping of sections")
        source = Source(lambda keys: f"{FILE} line {line(keys)}", lambda keys: f"{FILE}:{line(keys)}", env)
        data = checker.check(document.data, Config, (), source)
    for name, parts in _overriding(env):
        checker.override(data, parts, env[name], named(f"environment {name}"))
    for name, value in overrides.items():
        checker.override(data, name.split("."), value, named(f"argument {name}"))
    config = msgspec.convert(data, Config)
    origins = {dotted(keys): checker.origins.get(keys, "default") for keys, _ in _leaves(config)}
    return Loaded(config, origins, path)


def _parsed(raw: bytes) -> Document:
    try:
        return load(raw)
    except YamlRefused as error:
        raise ConfigError(f"{FILE} line {error.line}: {error.sentence}") from None


def _overriding(env: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Variables that set a value, a section before what is in it."""
    found: dict[str, str] = {}
    for name in sorted(env):
        if not name.upper().startswith(PREFIX):
            continue
        if name.upper() in found:
            raise ConfigError(f"environment {found[name.upper()]} and {name} set the same value")
        found[name.upper()] = name
    return [(found[upper], found[upper][len(PREFIX) :].split("__")) for upper in sorted(found)]


def show(loaded: Loaded) -> list[tuple[str, str, str]]:
    """Every value in force as (path, printable value, origin); secrets are not among them."""
    rows = []
    for keys, value in _leaves(loaded.config):
        name = dotted(keys)
        rows.append((name, _printable(masked(str(keys[-1]), value)), loaded.origins.get(name, "default")))
    return rows


def _leaves(config: Config) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    def inside(keys: tuple[str | int, ...], value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        if isinstance(value, dict | list | tuple) and value:
            for key, one in value.items() if isinstance(value, dict) else enumerate(value):
                yield from inside((*keys, key), one)
        else:
            yield keys, value

    return inside((), msgspec.to_builtins(config))


def masked(name: str, value: Any) -> Any:
    """A value as it may be seen: keys are hidden, and so is what a URL may carry beside its address."""
    if name == "api_key" and value is not None:
        return HIDDEN
    if name == "base_url" and isinstance(value, str):
        return re.sub(r"\?.*", "?(hidden)", re.sub(r"://[^/?#]*@", "://(hidden)@", value), flags=re.DOTALL)
    return value


def _printable(value: Any) -> str:
    if isinstance(value, str) and value and value.isprintable():
        return value
    return config_file.written(value)


def set_value(home: Path, name: str, value: Any, *, env: Mapping[str, str] | None = None) -> None:
    """Change one value in the file and nothing else; text is read as on a command line.

    The file is left as it was if the result would not load (`env`: what `${VAR}` may name).
    """
    env = os.environ if env is None else env
    path = home / FILE
    text = _decoded(config_file.read(path) or b"")
    document = _parsed(text.encode())
    source = named("config set")
    keys, kind = Checker(Config, UNAVAILABLE, _wrong).locate(name.split("."), document.data, source, fold=False)
    if isinstance(value, str) and "${" not in value:
        value = from_text(value, kind, f"config set: '{dotted(keys)}'")
    try:
        new = config_file.edited(text, document, keys, value)
        if _parsed(new.encode()).data != config_file.with_value(document.data, keys, value):
            raise ConfigError("its layout is too unusual to change by itself; use an editor")
        own = {key: one for key, one in env.items() if not key.upper().startswith(PREFIX)}
        _load(path, new.encode(), own, {})
    except ConfigError as error:
        raise ConfigError(f"{FILE} was left unchanged: {error}") from None
    config_file.write(path, new)


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{FILE} is not UTF-8") from None


# --- values that have the right type and still make no sense -------------------------------------


def _wrong(path: tuple[str | int, ...], value: Any) -> str | None:
    match value:
        case float() if not math.isfinite(value):
            return "must be a finite number"
        case int() if value > _COUNT_MAX:
            return f"must be at most {_COUNT_MAX}"
        case int() | float() if path[0] == "limits":
            return _wrong_limit(str(path[-1]), value)
        case str():
            return _wrong_text(path, value)
    return None


def _wrong_limit(name: str, value: float) -> str | None:
    if value < 0 and name in _MAY_BE_ZERO:
        return "must not be negative"
    if value <= 0 and name not in _MAY_BE_ZERO:
        return "must be more than 0" if name.endswith("_s") else "must be at least 1"
    if name == "retry_jitter" and value > 1:
        return "must be at most 1"
    if name.endswith("_s") and value > _SECONDS_MAX:
        return f"must be at most {_SECONDS_MAX} seconds"
    return None


def _wrong_text(path: tuple[str | int, ...], value: str) -> str | None:
    if "\0" in value:
        return "holds a NUL character"
    if not value.isascii() and value != value.encode("utf-8", "replace").decode():
        return "holds half a character: it is not UTF-8"
    match path[-1]:
        case "model" | "summary_model" | int() if not _MODEL.fullmatch(value):
            return "must be '<provider>/<model>', for example 'openai/gpt-4.1-mini'"
        case "base_url" if not _ADDRESS.fullmatch(value):
            return "must be an address that begins with http:// or https://"
        case "api_key" if not value or not value.isprintable() or " " in value:
            return "must be one word, without spaces or line breaks"
        case "data_dir" if not value:
            return "must not be empty"
    return None
