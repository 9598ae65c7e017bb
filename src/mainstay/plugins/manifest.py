"""The plugin manifest (`plugin.yaml`): its schema, strict reading, and sentences about it for the owner.

A manifest is untrusted input: every text has a bound, no name can become a path, and a mistake is reported as one
sentence with its line.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from mainstay.core.errors import ConfigError
from mainstay.core.json_types import JsonObject
from mainstay.core.tool_ports import ProcessPermissions
from mainstay.core.tools import parameter_names
from mainstay.guards.line_escaping import one_line
from mainstay.io.json_schema import CompiledJsonSchema, SchemaRefused
from mainstay.io.yaml import YamlDocument, YamlRefused, load_yaml
from mainstay.plugins.env import (
    check_value,
    expand_references,
    find_references,
    has_malformed_reference,
    is_reserved_variable,
)
from mainstay.plugins.folder_grants import is_too_broad, real_path

MANIFEST_FILE = "plugin.yaml"
BYTES_MAX = 256 * 1024
TOOL_NAME_CHARS_MAX = 64
PERMISSIONS_MAX = 32

_NAME_PATTERN, _ACTION_PATTERN = r"^[a-z0-9]+\Z", r"^[a-z][a-z0-9_]*\Z"
_VERSION_PATTERN, _VARIABLE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9.+_-]*\Z", r"^[A-Za-z_][A-Za-z0-9_]*\Z"
CallContextField = Literal["session", "workspace", "person", "prompt", "conversation"]
ActionEffect = Literal["pure", "idempotent", "unsafe"]
# becomes a folder, and the prefix of tool names
PluginName = Annotated[str, Meta(pattern=_NAME_PATTERN, max_length=32)]
EnvVariableName = Annotated[str, Meta(pattern=_VARIABLE_PATTERN, max_length=128)]
CommandArgument = Annotated[str, Meta(min_length=1, max_length=4096)]


class PluginAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One action of a plugin, offered to the model as a tool."""

    name: Annotated[str, Meta(pattern=_ACTION_PATTERN, max_length=61)]
    description: Annotated[str, Meta(min_length=1, max_length=1024)]
    parameters: JsonObject = msgspec.field(
        default_factory=lambda: {"type": "object", "properties": {}, "additionalProperties": False}
    )
    effect: ActionEffect = "unsafe"
    timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    untrusted: bool = True  # its results are untrusted text; False is a request that only the owner can grant
    sink: bool | tuple[str, ...] = False  # sends data out; a tuple names the parameters that are destinations


class PluginLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Resource limits of a plugin. A manifest may ask for more than the defaults; the owner is shown what it asks
    for."""

    memory_mb: Annotated[int, Meta(ge=16, le=65_536)] = 256
    cpu_s: Annotated[float, Meta(gt=0, le=1_000_000)] = 600.0  # of a single process, over its whole life
    processes: Annotated[int, Meta(ge=1, le=4096)] = 32  # and threads
    concurrency: Annotated[int, Meta(ge=1, le=64)] = 4  # concurrent calls
    start_s: Annotated[float, Meta(gt=0, le=120)] = 10.0
    answer_bytes: Annotated[int, Meta(ge=1024, le=16 * 1024 * 1024)] = 1024 * 1024
    log_bytes: Annotated[int, Meta(ge=1024, le=64 * 1024 * 1024)] = 256 * 1024
    state_keys: Annotated[int, Meta(ge=0, le=100_000)] = 1000
    state_bytes: Annotated[int, Meta(ge=0, le=256 * 1024 * 1024)] = 4 * 1024 * 1024
    home_mb: Annotated[int, Meta(ge=1, le=1_048_576)] = 512  # of files in its home folder


class PluginManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plugin's description of itself."""

    name: PluginName
    version: Annotated[str, Meta(pattern=_VERSION_PATTERN, max_length=64)]
    description: Annotated[str, Meta(min_length=1, max_length=512)]
    run: Annotated[tuple[CommandArgument, ...], Meta(min_length=1, max_length=64)]  # a program and its arguments
    actions: Annotated[tuple[PluginAction, ...], Meta(min_length=1, max_length=128)]
    needs: ProcessPermissions = ProcessPermissions()
    env: Annotated[dict[EnvVariableName, Annotated[str, Meta(max_length=4096)]], Meta(max_length=64)] = {}
    context: Annotated[tuple[CallContextField, ...], Meta(max_length=5)] = ()  # facts that it is sent with every call
    limits: PluginLimits = PluginLimits()

    def env_references(self) -> list[str]:
        """Return what it would read of the owner's environment: names of variables, and `secret:NAME`."""
        return find_references(self.env.values())

    def tool_name(self, action: PluginAction) -> str:
        return f"{self.name}__{action.name}"


def fill_env(
    manifest: PluginManifest, configured: Mapping[str, str], env: Mapping[str, str], secrets_folder: Path
) -> dict[str, str]:
    """Return values for exactly the variables that the manifest names: from the configuration (`configured`, not
    expanded), else from the manifest's text, expanded. Raises ConfigError for an unknown or missing variable."""
    who = f"plugin {manifest.name}"
    for name in configured:
        if name not in manifest.env:
            names = ", ".join(manifest.env) or "none"
            raise ConfigError(f"{who}: its manifest does not name the variable '{one_line(name)}'; it names: {names}")
    filled = {}
    for name, text in manifest.env.items():
        subject = f"{who}: '{name}'"
        if name in configured:
            filled[name] = check_value(configured[name], subject)
        else:
            filled[name] = expand_references(text, env, secrets_folder, subject)
    return filled


# --- reading -------------------------------------------------------------------------------------


def read_manifest(folder: Path) -> PluginManifest:
    """Read and check the manifest in a folder. Raises ConfigError, `plugin.yaml line N: …`."""
    try:
        document = load_yaml(_read_manifest_bytes(folder / MANIFEST_FILE), bytes_max=BYTES_MAX)
    except YamlRefused as error:
        raise ConfigError(f"{MANIFEST_FILE} line {error.line}: {error.reason}") from None
    if not isinstance(document.data, dict):
        raise ConfigError(f"{MANIFEST_FILE} line 1: expected name, version, description, run and actions")
    data: dict[str, object] = {**document.data}
    try:
        if isinstance(command := data.get("run"), str):
            data["run"] = _split_command(command)
        manifest = msgspec.convert(data, PluginManifest)
    except msgspec.ValidationError as error:
        raise _explain_validation_error(str(error), document) from None
    except ValueError as error:
        raise ConfigError(f"{MANIFEST_FILE} line {document.find_line(('run',))}: 'run': {error}") from None
    for path, sentence in _find_problems(manifest):
        raise ConfigError(f"{MANIFEST_FILE} line {document.find_line(path)}: '{_dotted_path(path)}' {sentence}")
    return manifest


def _read_manifest_bytes(path: Path) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ConfigError(f"there is no {MANIFEST_FILE} in {one_line(str(path.parent))}") from None
    except OSError as error:
        raise ConfigError(f"{one_line(str(path))} cannot be read: {error.strerror}") from None
    with open(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ConfigError(f"{one_line(str(path))} is not a regular file")
        return opened.read(BYTES_MAX + 1)


def _split_command(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise ValueError("a quotation mark is not closed") from None


KeyPath = tuple[str | int, ...]
_VALIDATION_MESSAGE = re.compile(r"^(?P<message>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?$", re.DOTALL)
_PATH_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`")
_TYPE_DESCRIPTIONS = {
    "`str`": "text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "a mapping",
    "`null`": "nothing",
    "`bool | array`": "true, false or a list",
    f" matching regex {_NAME_PATTERN!r}": " of small letters and digits",
    f" matching regex {_ACTION_PATTERN!r}": " of small letters, digits and _, a letter first",
    f" matching regex {_VERSION_PATTERN!r}": " like 1.0.0",
}
_CHOICES = {"effect": get_args(ActionEffect), "context": get_args(CallContextField)}


def _explain_validation_error(message: str, document: YamlDocument) -> ConfigError:
    """Return an error for a message of msgspec, in plain words, with the line, the key, and a similar key if it is
    unknown."""
    match = _VALIDATION_MESSAGE.match(message)
    assert match is not None, "anything matches"
    path: KeyPath = tuple(int(number) if number else name for name, number in _PATH_STEP.findall(match["path"] or ""))
    message = match["message"]
    if unknown := _UNKNOWN_FIELD.fullmatch(message):
        path = (*path, unknown[1])
        near = _closest_key(path)
        hint = f"; did you mean '{near}'?" if near else ""
        return ConfigError(f"{MANIFEST_FILE} line {document.find_line(path)}: unknown key '{_dotted_path(path)}'{hint}")
    line = document.find_line(path)
    if missing := _MISSING_FIELD.fullmatch(message):
        parent = f"'{_dotted_path(path)}' needs" if path else "the manifest needs"
        return ConfigError(f"{MANIFEST_FILE} line {line}: {parent} '{missing[1]}'")
    if match["key"]:
        return ConfigError(
            f"{MANIFEST_FILE} line {line}: '{_dotted_path(path)}' has a key that is not a valid variable name"
        )
    for word, plain in _TYPE_DESCRIPTIONS.items():
        message = message.replace(word, plain)
    for key, choices in _CHOICES.items():
        if message.startswith("Invalid enum value") and key in path:
            message = f"expected one of {', '.join(choices)}"
    hint = "; put it in quotes to make it text" if re.search("Expected text, got (a|true)", message) else ""
    message = message.replace("Expected", "expected")
    return ConfigError(f"{MANIFEST_FILE} line {line}: '{_dotted_path(path)}': {_shorten(message)}{hint}")


def _closest_key(path: KeyPath) -> str | None:
    from difflib import get_close_matches  # needed for mistakes only

    kinds: dict[str | int, type[msgspec.Struct]] = {
        "actions": PluginAction,
        "needs": ProcessPermissions,
        "limits": PluginLimits,
    }
    struct = kinds[path[0]] if len(path) > 1 and path[0] in kinds else PluginManifest
    near = get_close_matches(str(path[-1])[:100], struct.__struct_fields__, n=1)
    return near[0] if near else None


def _dotted_path(path: KeyPath) -> str:
    return _shorten(".".join(map(str, path)), 120)


def _shorten(text: str, chars_max: int = 240) -> str:
    line = one_line(text)
    return line if len(line) <= chars_max else line[:chars_max] + "…"


# --- checks beyond types -------------------------------------------------------------------------

_HOST_PATTERN = re.compile(r"(?:\*|(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")


def _find_problems(manifest: PluginManifest) -> list[tuple[KeyPath, str]]:
    """Return each problem as a key path and the rest of a sentence that begins with it."""
    problems: list[tuple[KeyPath, str]] = []
    if any("\0" in word for word in manifest.run):
        problems.append((("run",), "contains a NUL character"))
    names: set[str] = set()
    for index, action in enumerate(manifest.actions):
        if action.name in names:
            problems.append((("actions", index, "name"), f"is given twice: {action.name}"))
        names.add(action.name)
        problems += [(("actions", index, key), sentence) for key, sentence in _find_action_problems(manifest, action)]
    problems += [(("needs", *path), sentence) for path, sentence in _find_permission_problems(manifest.needs)]
    for name, text in manifest.env.items():
        if is_reserved_variable(name):
            problems.append((("env", name), "is reserved: it controls how programs are run, and no plugin may set it"))
        if has_malformed_reference(text) or "\0" in text:
            problems.append((("env", name), "contains '${' that does not begin '${NAME}' or '${secret:NAME}'"))
    if len(set(manifest.context)) != len(manifest.context):
        problems.append((("context",), "names something twice"))
    return problems


def _find_action_problems(manifest: PluginManifest, action: PluginAction) -> list[tuple[str, str]]:
    problems = []
    if len(manifest.tool_name(action)) > TOOL_NAME_CHARS_MAX:
        problems.append(
            ("name", f"is too long: {manifest.tool_name(action)} has more than {TOOL_NAME_CHARS_MAX} characters")
        )
    try:
        CompiledJsonSchema(action.parameters)
    except SchemaRefused as error:
        problems.append(("parameters", f"cannot be used: {error}"))
    named = action.sink if isinstance(action.sink, tuple) else ()
    for name in named:
        if name not in parameter_names(action.parameters):
            problems.append(("sink", f"names {_shorten(repr(name), 60)}, which is not a parameter"))
    return problems


def _find_permission_problems(permissions: ProcessPermissions) -> list[tuple[KeyPath, str]]:
    problems: list[tuple[KeyPath, str]] = []
    for key in ProcessPermissions.__struct_fields__:
        if len(getattr(permissions, key)) > PERMISSIONS_MAX:
            problems.append(((key,), f"names more than {PERMISSIONS_MAX}"))
    for index, host in enumerate(permissions.network):
        if len(host) > 260 or not _HOST_PATTERN.fullmatch(host):
            problems.append(
                (("network", index), "is not a host: write `api.example.com`, `*.example.com:8443`, or `*` for all")
            )
    for key in ("read", "write"):
        for index, folder in enumerate(getattr(permissions, key)):
            steps = folder.split("/")
            is_odd = steps[0] not in ("", "~") or ".." in steps or len(folder) > 1024 or not folder.isprintable()
            if is_odd or is_too_broad(folder):
                problems.append(
                    ((key, index), "cannot be granted: write a path that begins with / or ~/, without .., and not all")
                )
    return problems


# --- sentences for the owner ---------------------------------------------------------------------

_CONTEXT_SENTENCES = {
    "session": "know which conversation it is called from",
    "workspace": "know the name of the workspace",
    "person": "know who it is called for",
    "prompt": "see what you wrote last",
    "conversation": "see the whole conversation",
}


def describe_requests(manifest: PluginManifest) -> list[str]:
    """Return what the plugin requests, to be shown before it is installed; each continues "it wants to"."""
    limits = manifest.limits
    requests = [
        "reach any host on the network" if host == "*" else f"reach {host} over the network"
        for host in manifest.needs.network
    ]
    requests += [f"read the files in {_describe_folder(folder)}" for folder in manifest.needs.read]
    requests += [f"read and change the files in {_describe_folder(folder)}" for folder in manifest.needs.write]
    for name in manifest.env_references():
        secret = name.removeprefix("secret:")
        requests.append(
            f"read your secret {secret}" if secret != name else f"read the variable {name} of your environment"
        )
    requests += [_CONTEXT_SENTENCES[field] for field in manifest.context]
    for action in manifest.actions:
        if action.sink:
            destinations = f" (destination: {', '.join(action.sink)})" if isinstance(action.sink, tuple) else ""
            requests.append(f"send data out with {action.name}{destinations}")
    requests.append(f"run up to {limits.processes} processes in {limits.memory_mb} MB, {limits.cpu_s:g} s of CPU each")
    state = f"{limits.state_keys} values of its own, {limits.state_bytes // 1024} KB in all"
    requests.append(f"store up to {state}, and {limits.home_mb} MB of files")
    return [_shorten(request) for request in requests]


def _describe_folder(folder: str) -> str:
    """Return the folder with its real path if that differs: the real path is what would be granted."""
    path = real_path(folder)
    return folder if path == os.path.normpath(os.path.expanduser(folder)) else f"{folder}, which is {path}"


def describe_changes(old: PluginManifest, new: PluginManifest) -> list[str]:
    """Return what an upgrade changes beside its requests; each continues a sentence that begins with "it"."""
    sentences = []
    if old.run != new.run:
        sentences.append(f"runs {' '.join(new.run)}, no longer {' '.join(old.run)}")
    before = {action.name: action for action in old.actions}
    now = {action.name: action for action in new.actions}
    sentences += [f"no longer has the action {name}" for name in before if name not in now]
    for name, action in now.items():
        if name not in before:
            sentences.append(f"has a new action: {name} ({action.effect})")
        else:
            sentences += [f"{change} of {name}" for change in _describe_action_changes(before[name], action)]
    return [_shorten(sentence) for sentence in sentences]


def _describe_action_changes(old: PluginAction, new: PluginAction) -> Iterator[str]:
    if old.effect != new.effect:
        yield f"declares {new.effect}, no longer {old.effect}, as the effect"
    if old.sink != new.sink:
        yield f"declares {_describe_sinks(new)}, no longer {_describe_sinks(old)}, as the sink"
    if old.untrusted != new.untrusted:
        yield f"{'no longer asks' if new.untrusted else 'asks'} you to trust the answers"
    if old.description != new.description:
        yield "changes the description"
    if old.parameters != new.parameters:
        yield "changes the parameters"


def _describe_sinks(action: PluginAction) -> str:
    if isinstance(action.sink, bool):
        return "every call" if action.sink else "nothing"
    return ", ".join(action.sink) or "nothing"
