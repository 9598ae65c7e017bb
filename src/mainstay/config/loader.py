"""Loads the configuration from mainstay.yaml and environment variables, and checks it.

Sections of later releases are refused by name: a setting that has no effect is an error.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from mainstay.config import yaml_file
from mainstay.config.schema import FILE as FILE
from mainstay.config.schema import Config as Config
from mainstay.config.schema import ModelEntry as ModelEntry
from mainstay.config.schema import (
    SandboxSettings,
    StorageSettings,
    expand_builtin_tools,
    find_workspace_name_problem,
)
from mainstay.config.schema import default_home as default_home
from mainstay.config.schema_external_tools import EXTERNAL_TOOL_SECTIONS
from mainstay.config.schema_validator import (
    Keys,
    SchemaChecker,
    ValueSource,
    build_named_source,
    parse_text_value,
    to_dotted_key,
)
from mainstay.core.component_options import AUTO_SANDBOX
from mainstay.core.component_settings import ComponentSettings
from mainstay.core.components import ComponentKind, find_component, has_component
from mainstay.core.errors import ConfigError
from mainstay.core.settings import MASK, list_secret_settings, mask_value_at
from mainstay.io.yaml import YamlDocument, YamlRefused, load_yaml

PREFIX = "MAINSTAY__"

# Sections of later releases: the error says so, instead of suggesting another key.
FUTURE_SECTIONS = frozenset({"engine"})

_MODEL_NAME = re.compile(r"[^\s/]+/\S+")
_HTTP_URL = re.compile(r"https?://[^\s/?#]+\S*")
_MAY_BE_ZERO = frozenset(
    {
        "step_restarts_max", "resumes_max", "last_attempt_delay_s", "retries_max", "retry_base_s", "retry_jitter",
        "retry_wait_max_s", "failure_retries_max", "failure_retry_base_s", "coalesce_window_s", "watchdog_grace_s",
        "ride_along_s",
    }
)  # fmt: skip
_COUNT_MAX = 2**53
_MONEY_MIN = 1e-9  # dollars: money is counted in nanodollars
_SECONDS_MAX = 1_000_000_000  # the longest wait that threads and event loops support


class LoadedConfig(msgspec.Struct, frozen=True):
    """The configuration in force, and where its values come from."""

    config: Config
    origins: dict[str, str]  # by dotted key: `mainstay.yaml:3`, `environment NAME`, `default`
    path: Path  # of mainstay.yaml, which need not exist
    data: dict[str, Any] = {}  # the values that were given, without defaults

    def __repr__(self) -> str:
        return f"LoadedConfig({self.config!r}, {self.path})"  # without `data`, which may contain API keys

    def for_workspace(self, workspace: str) -> Config:
        """Return the configuration of one workspace: `workspaces.NAME` over everything else."""
        own = self.data.get("workspaces", {}).get(workspace)
        if not own:
            return msgspec.structs.replace(self.config, workspace=workspace)
        merged = _merge(self.data, {**own, "workspace": workspace})
        config: Config = _build_checker().build(merged, build_named_source(f"{FILE}: the workspace {workspace}"))
        _check_combinations(config)
        checked = {  # shared entries: the objects that say which variables they lack
            section: {name: _shared_entry(self.config, section, name, entry, own) for name, entry in entries.items()}
            for section in EXTERNAL_TOOL_SECTIONS
            if (entries := getattr(config, section))
        }
        return msgspec.structs.replace(config, **checked)


# --- loading -------------------------------------------------------------------------------------


def load_config(home: Path, *, env: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> LoadedConfig:
    """Load and check the configuration. Later sources win: defaults, the file, `MAINSTAY__…` variables, `overrides`
    (dotted key to value). Raises ConfigError with the position of the first mistake."""
    path = home / FILE
    raw = yaml_file.read_file(path)
    loaded = _load_bytes(path, raw, env, overrides or {})
    keys = _list_component_secrets(loaded.config)
    if raw is not None and (keys or any(word in raw for word in (b"api_key", b"secret", b"token", b"password"))):
        yaml_file.refuse_readable_secrets(path, _parse_yaml(raw).data, keys)
    return loaded


def _load_bytes(path: Path, raw: bytes | None, env: Mapping[str, str], overrides: Mapping[str, Any]) -> LoadedConfig:
    checker = _build_checker()
    data: dict[str, Any] = {}
    document = None
    if raw is not None:
        document = _parse_yaml(raw)
        line = document.find_line
        if not isinstance(document.data, dict | None):
            raise ConfigError(f"{FILE} line {line(())}: expected a mapping of sections")
        source = ValueSource(lambda keys: f"{FILE} line {line(keys)}", lambda keys: f"{FILE}:{line(keys)}", env)
        data = checker.check_value(document.data, Config, (), source)
    for name, parts in sorted(_list_override_variables(env), key=lambda item: _override_rank(item[1])):
        checker.override_value(data, parts, env[name], build_named_source(f"environment {name}"))
    for parts, name in sorted(
        ((name.split("."), name) for name in overrides), key=lambda item: _override_rank(item[0])
    ):
        checker.override_value(data, parts, overrides[name], build_named_source(f"argument {name}"))
    found = ValueSource(lambda keys: _error_position(keys, document, checker).removesuffix(": "), lambda keys: "")
    config: Config = checker.build(data, found)
    _check_combinations(config)
    if config.plugins or config.mcpServers or config.backends:
        # imported only where needed
        from mainstay.config.check_plugins_mcp_backends import check_external_tools, mark_incomplete_entries

        config = mark_incomplete_entries(config, checker)
        check_external_tools(config, lambda keys: _error_position(keys, document, checker))
    if config.triggers.webhooks:
        from mainstay.config.check_webhooks import check_webhooks  # likewise

        check_webhooks(config.triggers.webhooks, lambda keys: _error_position(keys, document, checker))
    if config.judges.panel or any(entry.judges is not None for entry in config.workspaces.values()):
        from mainstay.config.check_judges import check_judges  # likewise

        check_judges(config, lambda keys: _error_position(keys, document, checker))
    if config.telemetry.endpoint:
        from mainstay.config.check_telemetry import check_telemetry  # likewise

        check_telemetry(config.telemetry, lambda keys: _error_position(keys, document, checker))
    if config.workspaces or config.people or config.channels:
        from mainstay.config.check_gateway import check_gateway  # likewise

        check_gateway(config, lambda keys: _error_position(keys, document, checker))
    origins = {to_dotted_key(keys): checker.origins.get(keys, "default") for keys, _ in _iter_leaves(config)}
    loaded = LoadedConfig(config, origins, path, data)
    return (
        LoadedConfig(loaded.for_workspace(config.workspace), origins, path, data)
        if config.workspace in config.workspaces
        else loaded
    )


def _list_component_secrets(config: Config) -> frozenset[str]:
    """Return the names of settings that are secrets of a configured component."""
    sections = (section for name in config.__struct_fields__ if isinstance(section := getattr(config, name), dict))
    types = {type(entry) for section in sections for entry in section.values() if isinstance(entry, ComponentSettings)}
    types |= {
        type(config.sandbox.options),
        type(config.storage.options),
        type(config.sessions.memory.embeddings.options),
    }
    return frozenset(name for settings in types for name in list_secret_settings(settings))


def _shared_entry(config: Config, section: str, name: str, entry: Any, own: Mapping[str, Any]) -> Any:
    return entry if name in own.get(section, {}) else getattr(config, section)[name]


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge mappings recursively; a list or a scalar in `over` replaces the one in `base`."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _build_checker() -> SchemaChecker:
    return SchemaChecker(
        Config, FUTURE_SECTIONS, _find_problem, frozenset((*EXTERNAL_TOOL_SECTIONS, "triggers", "channels"))
    )


def _error_position(keys: Keys, document: YamlDocument | None, checker: SchemaChecker) -> str:
    """Return the beginning of an error about a key: its file and line, or the variable that set it."""
    if document is not None and document.find_position(keys) is not None:
        return f"{FILE} line {document.find_line(keys)}: "
    origin = next((origin for path, origin in checker.origins.items() if path[: len(keys)] == keys), "")
    return f"{origin}: " if origin else ""


def _check_combinations(config: Config) -> None:
    """Raise ConfigError for values that are valid by themselves but not together."""
    if config.context.low >= config.context.high:
        raise ConfigError("'context.low' must be below 'context.high'")
    expand_builtin_tools(config.tools.builtin)
    if config.sandbox != SandboxSettings() or config.storage != StorageSettings():
        from mainstay.config.component_options import check_component_options  # imported only where needed

        check_component_options(config)
    if config.guards.forbidden_patterns:
        _compile_patterns(config.guards.forbidden_patterns)


def _compile_patterns(patterns: tuple[str, ...]) -> None:
    from mainstay.guards.injection_scanner import InjectionScanner  # imported only where needed

    try:
        InjectionScanner(patterns)
    except ConfigError as error:
        raise ConfigError(f"'guards.forbidden_patterns': {error}") from None


def _parse_yaml(raw: bytes) -> YamlDocument:
    try:
        return load_yaml(raw)
    except YamlRefused as error:
        raise ConfigError(f"{FILE} line {error.line}: {error.reason}") from None


def _list_override_variables(env: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Return the variables that set a value with the parts of their keys; a section comes before the keys in it."""
    names: dict[str, str] = {}
    for name in sorted(env):
        if not name.upper().startswith(PREFIX):
            continue
        if name.upper() in names:
            raise ConfigError(f"environment {names[name.upper()]} and {name} set the same value; unset one of them")
        names[name.upper()] = name
    return [(names[upper], names[upper][len(PREFIX) :].split("__")) for upper in sorted(names)]


def _override_rank(parts: list[str]) -> tuple[int, bool]:
    """Return when a value is overridden: a section before the keys in it, and the name of a component before its other
    settings, which depend on it."""
    return len(parts), parts[-1].lower() != ComponentSettings.NAMED_BY


def list_values(loaded: LoadedConfig) -> list[tuple[str, str, str]]:
    """Return every value in force as (key, printable value, origin); secrets are masked."""
    rows = []
    for keys, value in _iter_leaves(loaded.config):
        name = to_dotted_key(keys)
        rows.append((name, _format_value(mask_value_at(keys, value)), loaded.origins.get(name, "default")))
    return rows


def _iter_leaves(config: Config) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    def inside(keys: tuple[str | int, ...], value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        if value is None and keys[:1] == ("workspaces",):
            return  # not set for this workspace
        if isinstance(value, msgspec.Struct):
            value = _list_settings(value)
        if isinstance(value, dict | list | tuple) and value:
            for key, child in value.items() if isinstance(value, dict) else enumerate(value):
                yield from inside((*keys, key), child)
        else:
            yield keys, value

    return inside((), config)


def _list_settings(section: msgspec.Struct) -> dict[str, Any]:
    """Return the settings of a section, with the secrets of components masked: only their types say what is secret."""
    secrets = list_secret_settings(type(section)) if isinstance(section, ComponentSettings) else ()
    values = zip(section.__struct_encode_fields__, section.__struct_fields__, strict=True)
    settings = {key: getattr(section, name) for key, name in values}
    return {key: MASK if key in secrets and value else value for key, value in settings.items()}


def _format_value(value: Any) -> str:
    if isinstance(value, str) and value and value.isprintable():
        return value
    return yaml_file.to_yaml(value)


def set_value(home: Path, key: str, value: Any, *, env: Mapping[str, str] | None = None) -> None:
    """Change one value in the file and nothing else; text is parsed as on a command line.

    The file is left unchanged if the result would not load; `env` are the variables that `${VAR}` may use.
    """
    with yaml_file.lock_file(home / FILE):
        text, document = read_document(home)
        source = ValueSource(lambda _: "config set", lambda _: "", os.environ if env is None else env)
        keys, kind = _build_checker().locate_key(key.split("."), document.data, source, ignore_case=False)
        if isinstance(value, str) and "${" not in value:
            value = parse_text_value(value, kind, f"config set: '{to_dotted_key(keys)}'")
        with explain_unchanged():
            if isinstance(value, float) and not math.isfinite(value):  # NaN would fail the comparison in `save_text`
                raise ConfigError(f"'{to_dotted_key(keys)}' must be a finite number")
            new = yaml_file.edit_text(text, document, keys, value)
        save_text(home, new, yaml_file.with_value(document.data, keys, value), env=env)


def read_document(home: Path) -> tuple[str, YamlDocument]:
    """Return the file's text and its parsed document; an absent file is empty."""
    text = _decode_text(yaml_file.read_file(home / FILE) or b"")
    return text, _parse_yaml(text.encode())


def save_text(home: Path, text: str, expected_data: Any, *, env: Mapping[str, str] | None = None) -> None:
    """Replace the file's text. Raises ConfigError, and leaves the file unchanged, if the new text does not parse to
    `expected_data` or would not load. Call it inside of the lock under which the file was read."""
    path = home / FILE
    variables = os.environ if env is None else env
    env = {name: value for name, value in variables.items() if not name.upper().startswith(PREFIX)}
    with explain_unchanged():
        if _parse_yaml(text.encode()).data != expected_data:
            raise ConfigError("its layout cannot be edited automatically; use an editor")
        _load_bytes(path, text.encode(), env, {})
    yaml_file.write_file(path, text)


@contextmanager
def explain_unchanged() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{FILE} was left unchanged: {error}") from None


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{FILE} is not UTF-8; save it with that encoding") from None


# --- values of the right type that are not valid -------------------------------------------------


def _find_problem(path: tuple[str | int, ...], value: Any) -> str | None:
    if path[0] == "workspaces" and len(path) > 2:
        path = path[2:]  # a workspace's keys have the rules of the top-level ones
    match value:
        case float() if not math.isfinite(value):
            return "must be a finite number"
        case int() if value > _COUNT_MAX:
            return f"must be at most {_COUNT_MAX}"
        case int() | float() if path[0] == "limits":
            return _find_limit_problem(str(path[-1]), value)
        case int() | float() if path[-1] in ("high", "low") and not 0.1 <= value <= 1:
            return "must be a share from 0.1 to 1"
        case float() if path[0] == "budgets" and path[-1] == "money" and value < _MONEY_MIN:
            return "must be more than 0"
        case str():
            return _find_text_problem(path, value)
    return None


def _find_limit_problem(name: str, value: float) -> str | None:
    if value < 0 and name in _MAY_BE_ZERO:
        return "must not be negative"
    if value <= 0 and name not in _MAY_BE_ZERO:
        return "must be more than 0" if name.endswith("_s") else "must be at least 1"
    if name == "retry_jitter" and value > 1:
        return "must be at most 1"
    if name.endswith("_s") and value > _SECONDS_MAX:
        return f"must be at most {_SECONDS_MAX} seconds"
    return None


def _find_text_problem(path: tuple[str | int, ...], value: str) -> str | None:
    if "\0" in value:
        return "contains a NUL character"
    if not value.isascii() and value != value.encode("utf-8", "replace").decode():
        return "contains an incomplete character: it is not UTF-8"
    if path[0] in (*EXTERNAL_TOOL_SECTIONS, "people", "channels", "server"):
        return None  # checked with their sections
    match path[-1]:
        case "kind" if path == ("sandbox", "kind") and value != AUTO_SANDBOX:
            return _find_component_problem("sandbox", value)
        case "backend" if path == ("storage", "backend"):
            return _find_component_problem("store", value)
        case "backend" if path == ("storage", "memory", "knowledge", "backend"):
            return _find_component_problem("fact store", value)
        case "workspace":
            return find_workspace_name_problem(value)
        case "model" if path[-2:] == ("embeddings", "model") and "/" not in value and has_component("embedder", value):
            return None
        case int() if path[0] == "policy" and path[-2] in ("allow", "ask", "deny"):
            return _find_rule_problem(value)
        case int() if path[0] != "models":
            return _find_item_problem(path, value)
        case "model" | "summary_model" | int() if not _MODEL_NAME.fullmatch(value):
            return "must be '<provider>/<model>', for example 'openai/gpt-4.1-mini'"
        case "base_url" if not _HTTP_URL.fullmatch(value):
            return "must be an address that begins with http:// or https://"
        case "api_key" if not value or not value.isprintable() or " " in value:
            return "must be an API key without spaces or line breaks"
        case "data_dir" if not value:
            return "must not be empty"
    return None


def _find_component_problem(kind: ComponentKind, name: str) -> str | None:
    try:
        find_component(kind, name)
    except ConfigError as error:
        return f"is not valid: {error}"
    return None


def _find_item_problem(path: tuple[str | int, ...], value: str) -> str | None:
    """Return what is wrong with an item of a list of texts; None if nothing is."""
    match path[:-1]:
        case ("tools", "builtin"):
            try:
                expand_builtin_tools((value,))
            except ConfigError as error:
                return f"is not valid: {str(error).partition(': ')[2]}"
        case ("policy", "capabilities"):
            return _find_rule_problem(f"cap:{value}")
        case ("guards", "forbidden_patterns"):
            try:
                _compile_patterns((value,))
            except ConfigError as error:
                return f"is not a valid pattern: {str(error).partition(': ')[2]}"
        case ("tools", "fetch_private"):
            from mainstay.io.fetch import parse_private_hosts  # imported only where needed

            try:
                parse_private_hosts((value,))
            except ConfigError:
                return f"must be host:port, for example wiki.internal:8080, not {value[:80]!r}"
        case ("tools", "protected") if not value.strip() or "*" in value:
            return f"must be the path of a file or folder, not a pattern; it is {value[:80]!r}"
    return None


def _find_rule_problem(text: str) -> str | None:
    from mainstay.trust.rules import ToolRule  # imported only where needed

    try:
        ToolRule.parse(text)
    except ConfigError as error:
        return f"is not a rule: {error}"
    return None
