"""`plugin.yaml`: what a plugin is, what it offers, and what it asks for.

Whatever stands in it was written by somebody else: every text has a bound, no name can become a path, and a mistake is
one sentence with its line.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from mainstay.core.errors import ConfigError
from mainstay.core.outside import Needs
from mainstay.io.json_schema import Schema, SchemaRefused
from mainstay.io.yaml import Document, YamlRefused, load
from mainstay.plugins.env import checked_value, expand, malformed, references, steers
from mainstay.plugins.grants import real, too_much
from mainstay.trust.guards.lines import one_line

FILE = "plugin.yaml"
BYTES_MAX = 256 * 1024
TOOL_NAME_MAX = 64
GRANTS_MAX = 32

_NAME, _ACTION = r"^[a-z0-9]+\Z", r"^[a-z][a-z0-9_]*\Z"
_VERSION, _VARIABLE = r"^[A-Za-z0-9][A-Za-z0-9.+_-]*\Z", r"^[A-Za-z_][A-Za-z0-9_]*\Z"
Given = Literal["session", "workspace", "person", "prompt", "conversation"]
Effect = Literal["pure", "idempotent", "unsafe"]
Name = Annotated[str, Meta(pattern=_NAME, max_length=32)]  # becomes a folder, and a part of tools' names
Variable = Annotated[str, Meta(pattern=_VARIABLE, max_length=128)]
Word = Annotated[str, Meta(min_length=1, max_length=4096)]


class Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that the plugin can do: a tool for the model."""

    name: Annotated[str, Meta(pattern=_ACTION, max_length=61)]
    description: Annotated[str, Meta(min_length=1, max_length=1024)]
    parameters: dict[str, Any] = msgspec.field(
        default_factory=lambda: {"type": "object", "properties": {}, "additionalProperties": False}
    )
    effect: Effect = "unsafe"
    timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 30.0
    untrusted: bool = True  # what it answers comes from outside; False is a wish that only the owner can grant
    sink: bool | tuple[str, ...] = False  # the parameters that are destinations


class PluginLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it may take. A manifest can ask for more than this, and the owner is shown what it asks for."""

    memory_mb: Annotated[int, Meta(ge=16, le=65_536)] = 256
    cpu_s: Annotated[float, Meta(gt=0, le=1_000_000)] = 600.0  # of a single process, over its whole life
    processes: Annotated[int, Meta(ge=1, le=4096)] = 32  # and threads
    concurrency: Annotated[int, Meta(ge=1, le=64)] = 4  # calls at once
    start_s: Annotated[float, Meta(gt=0, le=120)] = 10.0
    answer_bytes: Annotated[int, Meta(ge=1024, le=16 * 1024 * 1024)] = 1024 * 1024
    log_bytes: Annotated[int, Meta(ge=1024, le=64 * 1024 * 1024)] = 256 * 1024
    state_keys: Annotated[int, Meta(ge=0, le=100_000)] = 1000
    state_bytes: Annotated[int, Meta(ge=0, le=256 * 1024 * 1024)] = 4 * 1024 * 1024
    home_mb: Annotated[int, Meta(ge=1, le=1_048_576)] = 512  # of files that it keeps itself


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plugin as it describes itself."""

    name: Name
    version: Annotated[str, Meta(pattern=_VERSION, max_length=64)]
    description: Annotated[str, Meta(min_length=1, max_length=512)]
    run: Annotated[tuple[Word, ...], Meta(min_length=1, max_length=64)]  # a program and its arguments
    actions: Annotated[tuple[Action, ...], Meta(min_length=1, max_length=128)]
    needs: Needs = Needs()
    env: Annotated[dict[Variable, Annotated[str, Meta(max_length=4096)]], Meta(max_length=64)] = {}
    context: Annotated[tuple[Given, ...], Meta(max_length=5)] = ()  # what it is told with every call
    limits: PluginLimits = PluginLimits()

    def wants_env(self) -> list[str]:
        """What it would read of the owner's: names of variables, and `secret:NAME`."""
        return references(self.env.values())

    def tool_name(self, action: Action) -> str:
        return f"{self.name}__{action.name}"


def fill_env(
    manifest: Manifest, given: Mapping[str, str], env: Mapping[str, str], secrets_folder: Path
) -> dict[str, str]:
    """The variables that the manifest names, and no others: as the configuration gives them (`given`, taken as they
    stand), else as the manifest says. Raises ConfigError for what is missing."""
    who = f"plugin {manifest.name}"
    for name in given:
        if name not in manifest.env:
            known = ", ".join(manifest.env) or "none"
            raise ConfigError(f"{who}: it asks for no variable '{one_line(name)}'; those it asks for: {known}")
    filled = {}
    for name, text in manifest.env.items():
        where = f"{who}: '{name}'"
        if name in given:
            filled[name] = checked_value(given[name], where)
        else:
            filled[name] = expand(text, env, secrets_folder, where)
    return filled


# --- reading -------------------------------------------------------------------------------------


def read_manifest(folder: Path) -> Manifest:
    """Raises ConfigError: `plugin.yaml line N: …`."""
    try:
        document = load(_bytes(folder / FILE), bytes_max=BYTES_MAX)
    except YamlRefused as error:
        raise ConfigError(f"{FILE} line {error.line}: {error.sentence}") from None
    data = document.data
    if not isinstance(data, dict):
        raise ConfigError(f"{FILE} line 1: expected name, version, description, run and actions")
    try:
        if isinstance(data.get("run"), str):
            data = {**data, "run": _words(data["run"])}
        manifest = msgspec.convert(data, Manifest)
    except msgspec.ValidationError as error:
        raise _explained(str(error), document) from None
    except ValueError as error:
        raise ConfigError(f"{FILE} line {document.line(('run',))}: 'run': {error}") from None
    for path, sentence in _senseless(manifest):
        raise ConfigError(f"{FILE} line {document.line(path)}: '{_dotted(path)}' {sentence}")
    return manifest


def _bytes(path: Path) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ConfigError(f"there is no {FILE} in {one_line(str(path.parent))}") from None
    except OSError as error:
        raise ConfigError(f"{one_line(str(path))} cannot be read: {error.strerror}") from None
    with open(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ConfigError(f"{one_line(str(path))} is not a regular file")
        return opened.read(BYTES_MAX + 1)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise ValueError("a quotation in it has no end") from None


Keys = tuple[str | int, ...]
_AT = re.compile(r"^(?P<said>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_WORDS = {
    "`str`": "text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "a mapping",
    "`null`": "nothing",
    "`bool | array`": "true, false or a list",
    f" matching regex {_NAME!r}": " of small letters and digits",
    f" matching regex {_ACTION!r}": " of small letters, digits and _, a letter first",
    f" matching regex {_VERSION!r}": " like 1.0.0",
}
_CHOICES = {"effect": get_args(Effect), "context": get_args(Given)}


def _explained(said: str, document: Document) -> ConfigError:
    """What msgspec says, as a person would: with the line, the key, and the key that was probably meant."""
    found = _AT.match(said)
    assert found is not None, "anything matches"
    path: Keys = tuple(int(number) if number else name for name, number in _STEP.findall(found["path"] or ""))
    said = found["said"]
    if unknown := _UNKNOWN.fullmatch(said):
        path = (*path, unknown[1])
        near = _nearest(path)
        hint = f"; did you mean '{near}'?" if near else ""
        return ConfigError(f"{FILE} line {document.line(path)}: unknown key '{_dotted(path)}'{hint}")
    line = document.line(path)
    if missing := _MISSING.fullmatch(said):
        whose = f"'{_dotted(path)}' needs" if path else "the manifest needs"
        return ConfigError(f"{FILE} line {line}: {whose} '{missing[1]}'")
    if found["key"]:
        return ConfigError(f"{FILE} line {line}: '{_dotted(path)}' has a name that is none of a variable")
    for word, plain in _WORDS.items():
        said = said.replace(word, plain)
    for key, choices in _CHOICES.items():
        if said.startswith("Invalid enum value") and key in path:
            said = f"expected one of {', '.join(choices)}"
    hint = "; put it in quotes to make it text" if re.search("Expected text, got (a|true)", said) else ""
    said = said.replace("Expected", "expected")
    return ConfigError(f"{FILE} line {line}: '{_dotted(path)}': {_cut(said)}{hint}")


def _nearest(path: Keys) -> str | None:
    from difflib import get_close_matches  # only for those who made a mistake

    kinds: dict[str | int, type[msgspec.Struct]] = {"actions": Action, "needs": Needs, "limits": PluginLimits}
    known = kinds[path[0]] if len(path) > 1 and path[0] in kinds else Manifest
    near = get_close_matches(str(path[-1])[:100], known.__struct_fields__, n=1)
    return near[0] if near else None


def _dotted(path: Keys) -> str:
    return _cut(".".join(map(str, path)), 120)


def _cut(text: str, most: int = 240) -> str:
    line = one_line(text)
    return line if len(line) <= most else line[:most] + "…"


# --- what is of the right type and makes no sense ------------------------------------------------

_HOST = re.compile(r"(?:\*|(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")


def _senseless(manifest: Manifest) -> list[tuple[Keys, str]]:
    """Where, and what is wrong there."""
    wrong: list[tuple[Keys, str]] = []
    if any("\0" in word for word in manifest.run):
        wrong.append((("run",), "holds a NUL character"))
    seen: set[str] = set()
    for place, action in enumerate(manifest.actions):
        if action.name in seen:
            wrong.append((("actions", place, "name"), f"is given twice: {action.name}"))
        seen.add(action.name)
        wrong += [(("actions", place, key), sentence) for key, sentence in _senseless_action(manifest, action)]
    wrong += [(("needs", *path), sentence) for path, sentence in _senseless_needs(manifest.needs)]
    for name, text in manifest.env.items():
        if steers(name):
            wrong.append((("env", name), "steers how programs are run, and is not a plugin's to set"))
        if malformed(text) or "\0" in text:
            wrong.append((("env", name), "holds '${' without a variable's name or 'secret:NAME', and '}'"))
    if len(set(manifest.context)) != len(manifest.context):
        wrong.append((("context",), "names something twice"))
    return wrong


def _senseless_action(manifest: Manifest, action: Action) -> list[tuple[str, str]]:
    wrong = []
    if len(manifest.tool_name(action)) > TOOL_NAME_MAX:
        wrong.append(("name", f"is too long: {manifest.tool_name(action)} has more than {TOOL_NAME_MAX} characters"))
    try:
        Schema(action.parameters)
    except SchemaRefused as error:
        wrong.append(("parameters", f"cannot be used: {error}"))
    named = action.sink if isinstance(action.sink, tuple) else ()
    for name in named:
        if name not in action.parameters.get("properties", {}):
            wrong.append(("sink", f"names {_cut(repr(name), 60)}, which is no parameter"))
    return wrong


def _senseless_needs(needs: Needs) -> list[tuple[Keys, str]]:
    wrong: list[tuple[Keys, str]] = []
    for key in Needs.__struct_fields__:
        if len(getattr(needs, key)) > GRANTS_MAX:
            wrong.append(((key,), f"names more than {GRANTS_MAX}"))
    for place, host in enumerate(needs.network):
        if len(host) > 260 or not _HOST.fullmatch(host):
            wrong.append((("network", place), "is no host: `api.example.com`, `*.example.com:8443`, or `*` for all"))
    for key in ("read", "write"):
        for place, folder in enumerate(getattr(needs, key)):
            steps = folder.split("/")
            odd = steps[0] not in ("", "~") or ".." in steps or len(folder) > 1024 or not folder.isprintable()
            if odd or too_much(folder):
                wrong.append(((key, place), "is no folder: a path from / or ~/, without .., and not all of it"))
    return wrong


# --- what the owner is asked ---------------------------------------------------------------------

_TOLD = {
    "session": "know which conversation it is called from",
    "workspace": "know the name of the workspace",
    "person": "know who it is called for",
    "prompt": "see what you wrote last",
    "conversation": "see the whole conversation",
}


def asks(manifest: Manifest) -> list[str]:
    """What it asks for, to be shown before it is added: sentences that go on from "it wants to"."""
    limits = manifest.limits
    wanted = [
        "reach any host on the network" if host == "*" else f"reach {host} over the network"
        for host in manifest.needs.network
    ]
    wanted += [f"read what is in {_led(folder)}" for folder in manifest.needs.read]
    wanted += [f"read and change what is in {_led(folder)}" for folder in manifest.needs.write]
    for name in manifest.wants_env():
        secret = name.removeprefix("secret:")
        wanted.append(
            f"read your secret {secret}" if secret != name else f"read the variable {name} of your environment"
        )
    wanted += [_TOLD[one] for one in manifest.context]
    for action in manifest.actions:
        if action.sink:
            where = f" to its {', '.join(action.sink)}" if isinstance(action.sink, tuple) else ""
            wanted.append(f"carry things out with {action.name}{where}")
    wanted.append(f"run up to {limits.processes} processes in {limits.memory_mb} MB, {limits.cpu_s:g} s of CPU each")
    kept = f"{limits.state_keys} values of its own, {limits.state_bytes // 1024} KB in all"
    wanted.append(f"keep up to {kept}, and {limits.home_mb} MB of files")
    return [_cut(one) for one in wanted]


def _led(folder: str) -> str:
    """With where it leads, if that is elsewhere: that is what would be granted."""
    found = real(folder)
    return folder if found == os.path.normpath(os.path.expanduser(folder)) else f"{folder}, which is {found}"


def changes(old: Manifest, new: Manifest) -> list[str]:
    """What an upgrade does otherwise, beside what it asks for: sentences that go on from "it"."""
    found = []
    if old.run != new.run:
        found.append(f"runs {' '.join(new.run)}, no longer {' '.join(old.run)}")
    before = {action.name: action for action in old.actions}
    now = {action.name: action for action in new.actions}
    found += [f"has no action {name} any more" for name in before if name not in now]
    for name, action in now.items():
        if name not in before:
            found.append(f"has a new action: {name} ({action.effect})")
        else:
            found += [f"{one} of {name}" for one in _changed(before[name], action)]
    return [_cut(one) for one in found]


def _changed(old: Action, new: Action) -> Iterator[str]:
    if old.effect != new.effect:
        yield f"says {new.effect}, no longer {old.effect},"
    if old.sink != new.sink:
        yield f"names {_sinks(new)} as the sink, no longer {_sinks(old)},"
    if old.untrusted != new.untrusted:
        yield f"{'no longer asks' if new.untrusted else 'asks'} you to trust the answers"
    if old.description != new.description:
        yield "changes the description"
    if old.parameters != new.parameters:
        yield "changes the parameters"


def _sinks(action: Action) -> str:
    if isinstance(action.sink, bool):
        return "every call" if action.sink else "nothing"
    return ", ".join(action.sink) or "nothing"
