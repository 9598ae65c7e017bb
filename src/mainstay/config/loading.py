"""The configuration: how it is put together from the file and the environment, and what it may not say.

Sections of later releases are refused by name, so that nobody believes in a setting that does nothing.
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
from mainstay.config.schema import LOCAL, builtin_names, wrong_workspace
from mainstay.config.schema import Config as Config
from mainstay.config.schema import ModelEntry as ModelEntry
from mainstay.config.schema import ProviderEntry as ProviderEntry
from mainstay.config.schema import default_home as default_home
from mainstay.config.schema_base import masked_at
from mainstay.config.schema_external_tools import ELSEWHERE
from mainstay.config.validation import Checker, Keys, Source, dotted, from_text, named
from mainstay.core.errors import ConfigError
from mainstay.io.yaml import Document, YamlRefused, load

PREFIX = "MAINSTAY__"

# Sections of later releases: known names, not typing mistakes.
UNAVAILABLE = frozenset({"engine"})

_MODEL = re.compile(r"[^\s/]+/\S+")
_ADDRESS = re.compile(r"https?://[^\s/?#]+\S*")
_MAY_BE_ZERO = frozenset(
    {
        "step_restarts_max", "resumes_max", "retries_max", "retry_base_s", "retry_jitter", "retry_wait_max_s",
        "coalesce_window_s", "watchdog_grace_s", "ride_along_s",
    }
)  # fmt: skip
_COUNT_MAX = 2**53
_MONEY_MIN = 1e-9  # dollars are counted by the billionth
_SECONDS_MAX = 1_000_000_000  # what threads and event loops can wait for


class Loaded(msgspec.Struct, frozen=True):
    """What is in force, where each value came from, and where the file is or would be."""

    config: Config
    origins: dict[str, str]
    path: Path
    data: dict[str, Any] = {}  # what was said, and nothing that is only a default

    def __repr__(self) -> str:
        return f"Loaded({self.config!r}, {self.path})"  # what was said may hold keys

    def of(self, workspace: str) -> Config:
        """What is in force in one workspace."""
        own = self.data.get("workspaces", {}).get(workspace)
        if not own:
            return msgspec.structs.replace(self.config, workspace=workspace)
        config = msgspec.convert(_merged(self.data, {**own, "workspace": workspace}), Config)
        _refuse_nonsense(config)
        known = {  # of those that all have, it is known which lack something
            section: {name: _as_known(self.config, section, name, one, own) for name, one in given.items()}
            for section in ELSEWHERE
            if (given := getattr(config, section))
        }
        return msgspec.structs.replace(config, **known)


# --- putting it together -------------------------------------------------------------------------


def load_config(home: Path, *, env: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Loaded:
    """Defaults, under the file, under `MAINSTAY__…` variables, under `overrides` (dotted path to value)."""
    path = home / FILE
    raw = yaml_file.read(path)
    loaded = _load(path, raw, env, overrides or {})
    if raw is not None and any(word in raw for word in (b"api_key", b"secret", b"token", b"password")):
        yaml_file.refuse_shared_secrets(path, _parsed(raw).data)
    return loaded


def _load(path: Path, raw: bytes | None, env: Mapping[str, str], overrides: Mapping[str, Any]) -> Loaded:
    checker = _checker()
    data: dict[str, Any] = {}
    document = None
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
    _refuse_nonsense(config)
    if config.plugins or config.mcpServers or config.backends:
        from mainstay.config.check_external_tools import check_elsewhere, with_lacks  # only for those who have some

        config = with_lacks(config, checker)
        check_elsewhere(config, lambda keys: _begun(keys, document, checker))
    if config.triggers.webhooks:
        from mainstay.config.check_webhooks import check_webhooks  # likewise

        check_webhooks(config.triggers.webhooks, lambda keys: _begun(keys, document, checker))
    if config.judges.panel or any(one.judges is not None for one in config.workspaces.values()):
        from mainstay.agent.judges import check_judges  # likewise

        check_judges(config, lambda keys: _begun(keys, document, checker))
    if config.telemetry.endpoint:
        from mainstay.config.check_telemetry import check_telemetry  # likewise

        check_telemetry(config.telemetry, lambda keys: _begun(keys, document, checker))
    if config.workspaces or config.people or config.channels:
        from mainstay.config.check_gateway import check_gateway  # likewise

        check_gateway(config, lambda keys: _begun(keys, document, checker))
    origins = {dotted(keys): checker.origins.get(keys, "default") for keys, _ in _leaves(config)}
    loaded = Loaded(config, origins, path, data)
    return Loaded(loaded.of(config.workspace), origins, path, data) if config.workspace in config.workspaces else loaded


def _as_known(config: Config, section: str, name: str, entry: Any, own: Mapping[str, Any]) -> Any:
    return entry if name in own.get(section, {}) else getattr(config, section)[name]


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Section by section and name by name; a list or a value takes the place of the one before."""
    made = dict(base)
    for key, value in over.items():
        before = made.get(key)
        made[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return made


def _checker() -> Checker:
    return Checker(Config, UNAVAILABLE, _wrong, frozenset((*ELSEWHERE, "triggers", "channels")))


def _begun(keys: Keys, document: Document | None, checker: Checker) -> str:
    """How a complaint about a section begins: where that is."""
    if document is not None and document.place(keys) is not None:
        return f"{FILE} line {document.line(keys)}: "
    origin = next((one for path, one in checker.origins.items() if path[: len(keys)] == keys), "")
    return f"{origin}: " if origin else ""


def _refuse_nonsense(config: Config) -> None:
    """Values that are fine by themselves and make no sense together."""
    if config.context.low >= config.context.high:
        raise ConfigError("'context.low' must be below 'context.high'")
    builtin_names(config.tools.builtin)
    if config.sandbox.kind == "docker" and not config.sandbox.container:
        raise ConfigError("'sandbox.container' must name the container that 'sandbox.kind: docker' runs commands in")
    if config.guards.forbidden_patterns:
        _compile_patterns(config.guards.forbidden_patterns)


def _compile_patterns(patterns: tuple[str, ...]) -> None:
    from mainstay.trust.guards.scan import Scanner  # only for those who have patterns

    try:
        Scanner(patterns)
    except ConfigError as error:
        raise ConfigError(f"'guards.forbidden_patterns': {error}") from None


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
        rows.append((name, _printable(masked_at(keys, value)), loaded.origins.get(name, "default")))
    return rows


def _leaves(config: Config) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    def inside(keys: tuple[str | int, ...], value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        if value is None and keys[:1] == ("workspaces",):
            return  # as it is for all of them
        if isinstance(value, dict | list | tuple) and value:
            for key, one in value.items() if isinstance(value, dict) else enumerate(value):
                yield from inside((*keys, key), one)
        else:
            yield keys, value

    return inside((), msgspec.to_builtins(config))


def _printable(value: Any) -> str:
    if isinstance(value, str) and value and value.isprintable():
        return value
    return yaml_file.written(value)


def set_value(home: Path, name: str, value: Any, *, env: Mapping[str, str] | None = None) -> None:
    """Change one value in the file and nothing else; text is read as on a command line.

    The file is left as it was if the result would not load (`env`: what `${VAR}` may name).
    """
    with yaml_file.changing(home / FILE):
        text, document = read_document(home)
        source = named("config set")
        keys, kind = _checker().locate(name.split("."), document.data, source, fold=False)
        if isinstance(value, str) and "${" not in value:
            value = from_text(value, kind, f"config set: '{dotted(keys)}'")
        with leaving_unchanged():
            if isinstance(value, float) and not math.isfinite(value):  # it could not be told from itself afterwards
                raise ConfigError(f"'{dotted(keys)}' must be a finite number")
            new = yaml_file.edited(text, document, keys, value)
        save(home, new, yaml_file.with_value(document.data, keys, value), env=env)


def read_document(home: Path) -> tuple[str, Document]:
    """The file as it is written, and what it says."""
    text = _decoded(yaml_file.read(home / FILE) or b"")
    return text, _parsed(text.encode())


def save(home: Path, text: str, meant: Any, *, env: Mapping[str, str] | None = None) -> None:
    """Replace the file by a changed one; it is left as it was if that does not say what is meant, or would not load.
    For whoever is `changing` it, and has been since it was read."""
    path = home / FILE
    own = {key: one for key, one in (os.environ if env is None else env).items() if not key.upper().startswith(PREFIX)}
    with leaving_unchanged():
        if _parsed(text.encode()).data != meant:
            raise ConfigError("its layout is too unusual to change by itself; use an editor")
        _load(path, text.encode(), own, {})
    yaml_file.write(path, text)


@contextmanager
def leaving_unchanged() -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{FILE} was left unchanged: {error}") from None


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{FILE} is not UTF-8") from None


# --- values that have the right type and still make no sense -------------------------------------


def _wrong(path: tuple[str | int, ...], value: Any) -> str | None:
    if path[0] == "workspaces" and len(path) > 2:
        path = path[2:]  # what is true of all is true of one
    match value:
        case float() if not math.isfinite(value):
            return "must be a finite number"
        case int() if value > _COUNT_MAX:
            return f"must be at most {_COUNT_MAX}"
        case int() | float() if path[0] == "limits":
            return _wrong_limit(str(path[-1]), value)
        case int() | float() if path[-1] in ("high", "low") and not 0.1 <= value <= 1:
            return "must be a share from 0.1 to 1"
        case float() if path[0] == "budgets" and path[-1] == "money" and value < _MONEY_MIN:
            return "must be more than 0"
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
    if path[0] in (*ELSEWHERE, "people", "channels", "server"):
        return None  # what is named there, its owner named
    match path[-1]:
        case "workspace":
            return wrong_workspace(value)
        case "model" if value == LOCAL and path[-2:] == ("embeddings", "model"):
            return None
        case int() if path[0] == "policy" and path[-2] in ("allow", "ask", "deny"):
            return _wrong_rule(value)
        case int() if path[0] != "models":
            return _wrong_item(path, value)
        case "model" | "summary_model" | int() if not _MODEL.fullmatch(value):
            return "must be '<provider>/<model>', for example 'openai/gpt-4.1-mini'"
        case "base_url" if not _ADDRESS.fullmatch(value):
            return "must be an address that begins with http:// or https://"
        case "api_key" if not value or not value.isprintable() or " " in value:
            return "must be one word, without spaces or line breaks"
        case "data_dir" if not value:
            return "must not be empty"
    return None


def _wrong_item(path: tuple[str | int, ...], value: str) -> str | None:
    """Of a list of texts."""
    match path[:-1]:
        case ("tools", "builtin"):
            try:
                builtin_names((value,))
            except ConfigError as error:
                return f"cannot be offered: {str(error).partition(': ')[2]}"
        case ("policy", "capabilities"):
            return _wrong_rule(f"cap:{value}")
        case ("guards", "forbidden_patterns"):
            try:
                _compile_patterns((value,))
            except ConfigError as error:
                return f"cannot be looked for: {str(error).partition(': ')[2]}"
        case ("tools", "fetch_private"):
            from mainstay.io.fetch import private_places  # only for those who have some

            try:
                private_places((value,))
            except ConfigError:
                return f"must be a host, a colon and a port, like wiki.internal:8080, and is {value[:80]!r}"
        case ("tools", "protected") if not value.strip() or "*" in value:
            return f"must be a file or a folder, not a pattern, and is {value[:80]!r}"
    return None


def _wrong_rule(text: str) -> str | None:
    from mainstay.trust.rules import Rule  # only for those who have rules

    try:
        Rule.parse(text)
    except ConfigError as error:
        return f"is no rule: {error}"
    return None
