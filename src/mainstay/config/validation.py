"""Raw values in, checked values out, with the place of every mistake.

Which keys there are is the schema's business: it is handed in as a struct type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin

import msgspec

from mainstay.config.type_descriptions import describe, is_plain, noun, options, shown
from mainstay.core.errors import ConfigError
from mainstay.io.yaml import YamlRefused, load, plain

Keys = tuple[str | int, ...]

_VARIABLE = re.compile(r"\$\$\{|\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}|\$\{")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_FREE_NAME = re.compile(r"[\w@](?:[\w ./@+()-]*[\w)])?")  # nothing that means more than itself in a rule
ANY_NAME = {"named": "anyhow"}  # of a mapping's values: their names are somebody else's ids


class Source(msgspec.Struct, frozen=True):
    """Where values come from: `where` begins a complaint, `origin` is what `config show` prints.

    `env` is what `${VAR}` may name; without it such text is taken as it stands.
    """

    where: Callable[[Keys], str]
    origin: Callable[[Keys], str]
    env: Mapping[str, str] | None = None


def named(name: str) -> Source:
    return Source(lambda _: name, lambda _: name)


# --- what a type takes ---------------------------------------------------------------------------


class Shape(msgspec.Struct, frozen=True):
    """What a field takes, in the few words that the checks need."""

    struct: type[msgspec.Struct] | None = None
    items: Any = None  # of a list
    values: Any = None  # of a mapping of names
    text: bool = False
    nullable: bool = False
    scalar: bool = False


def shape_of(kind: Any) -> Shape:
    struct = items = values = None
    text = nullable = scalar = False
    for option in options(kind):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            struct = option
        elif get_origin(option) is tuple:
            items = get_args(option)[0]
        elif get_origin(option) is dict:
            values = get_args(option)[1]
        else:
            nullable = nullable or option is NoneType
            text = text or option is str or get_origin(option) is Literal
            scalar = True
    return Shape(struct, items, values, text, nullable, scalar)


def dotted(path: Sequence[str | int]) -> str:
    """A path as people write it, safe to print whatever a file called its keys."""
    name = ".".join(part if _NAME.fullmatch(part) else repr(part)[1:-1] for part in map(str, path))
    return name if len(name) <= 120 else name[:120] + "…"


# --- checking ------------------------------------------------------------------------------------


class Checker:
    """Checks raw values against the schema and remembers where each came from.

    `sense` says what is wrong with a value of the right type, or None. In sections that are `patient`, text that names
    a variable which is not set stays as it is written, and `lacks` says what it needs.
    """

    def __init__(
        self,
        schema: type[msgspec.Struct],
        unavailable: frozenset[str],
        sense: Callable[[Keys, Any], str | None],
        patient: frozenset[str] = frozenset(),
    ) -> None:
        self._schema = schema
        self._unavailable = unavailable
        self._sense = sense
        self._patient = patient
        self.origins: dict[Keys, str] = {}
        self.lacks: dict[Keys, str] = {}

    def check(self, value: Any, kind: Any, path: Keys, source: Source) -> Any:
        """The value as the schema wants it, or a ConfigError that says where and what was expected."""
        shape = shape_of(kind)
        if value is None and not shape.scalar:
            value = [] if shape.items is not None else {}  # a heading with nothing under it
        if isinstance(value, dict) and shape.struct is not None:
            return self._check_struct(value, shape.struct, path, source)
        if isinstance(value, dict) and shape.values is not None:
            return {key: self._check_named(key, one, shape.values, (*path, key), source) for key, one in value.items()}
        if isinstance(value, list) and shape.items is not None:
            return [self.check(one, shape.items, (*path, n), source) for n, one in enumerate(value)]
        return self._check_scalar(value, kind, path, source)

    def _check_struct(self, value: dict[str, Any], struct: type[msgspec.Struct], path: Keys, source: Source) -> Any:
        kinds = {one.name: one for one in msgspec.structs.fields(struct)}
        adapted = getattr(struct, "adapted", None)  # from the shape that others write it in
        if adapted is not None:
            value = adapted(value)
        checked = {}
        for key, one in value.items():
            if key not in kinds:
                self._refuse_key((*path, key), kinds, source)
            checked[key] = self.check(one, kinds[key].type, (*path, key), source)
        for name, one in kinds.items():
            if one.required and name not in value:
                raise ConfigError(f"{source.where(path)}: '{dotted(path)}' needs '{name}'")
        return checked

    def _check_named(self, key: str, value: Any, kind: Any, path: Keys, source: Source) -> Any:
        if not _may_be_named(key, kind):
            sentence = "a name may hold only letters, digits, '-' and '_'"
            if _is_free(kind):
                sentence = "a name may hold only letters, digits, spaces between them, and any of . _ - @ / + ( )"
            raise ConfigError(f"{source.where(path)}: '{dotted(path)}': {sentence}")
        return self.check(value, kind, path, source)

    def _check_scalar(self, value: Any, kind: Any, path: Keys, source: Source) -> Any:
        where = f"{source.where(path)}: '{dotted(path)}'"
        self.lacks.pop(path, None)
        tell = shown if is_plain(kind) else noun
        if isinstance(value, str) and source.env is not None:
            if "${" in value:
                tell = noun  # what a variable holds is not ours to print
            value = self._filled(value, kind, path, where, source.env)
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            raise ConfigError(f"{where}: expected {describe(kind)}, got {tell(value)}{_hint(value, kind)}") from None
        wrong = self._sense(path, value)
        if wrong is not None:
            raise ConfigError(f"{where} {wrong}")
        self.origins[path] = source.origin(path)
        return value

    def _filled(self, text: str, kind: Any, path: Keys, where: str, env: Mapping[str, str]) -> Any:
        try:
            filled = _substituted(text, shape_of(kind), where, env)
        except ConfigError as error:
            if path[0] not in self._patient or str not in options(kind):
                raise
            self.lacks[path] = str(error)
            return text
        return filled

    def _refuse_key(self, path: Keys, beside: Collection[str], source: Source) -> NoReturn:
        where = source.where(path)
        if len(path) == 1 and path[0] in self._unavailable:
            raise ConfigError(f"{where}: '{path[0]}' is not available in this release")
        near = _nearest(path, beside, list(keys_of(self._schema)))
        hint = f"; did you mean '{near}'?" if near else ""
        raise ConfigError(f"{where}: unknown key '{dotted(path)}'{hint}")

    def locate(self, parts: Sequence[str], data: Any, source: Source, *, fold: bool) -> tuple[Keys, Any]:
        """The path and type that a dotted name means; `fold` ignores case, and takes '_' for '-' in names."""
        path: Keys = ()
        kind: Any = self._schema
        for part in parts:
            shape = shape_of(kind)
            key: str | int | None = None
            beside: Collection[str] = ()
            if shape.struct is not None:
                kinds = {one.name: one.type for one in msgspec.structs.fields(shape.struct)}
                beside = kinds
                key = _match(part, kinds if path else {**kinds, **dict.fromkeys(self._unavailable)}, fold)
                kind = kinds.get(key or "")
            elif shape.values is not None and _may_be_named(part, shape.values):
                key = _match(part, data if isinstance(data, dict) else {}, fold) or (part.lower() if fold else part)
                kind = shape.values
            elif shape.items is not None and not fold and isinstance(data, list):
                key = next((n for n in range(len(data)) if str(n) == part), None)
                kind = shape.items
            if key is None or kind is None:
                self._refuse_key((*path, key or (part.lower() if fold else part)), beside, source)
            path = (*path, key)
            data = _inside(data, key)
        return path, kind

    def override(self, data: dict[str, Any], parts: Sequence[str], value: Any, source: Source) -> None:
        """Put one value over what is there: mappings are joined, everything else is replaced."""
        path, kind = self.locate(parts, data, source, fold=True)
        if isinstance(value, str):
            value = from_text(value, kind, f"{source.where(path)}: '{dotted(path)}'")
        else:
            value = msgspec.to_builtins(value)
        if not isinstance(value, dict):
            self.origins = {key: one for key, one in self.origins.items() if key[: len(path)] != path}
            self.lacks = {key: one for key, one in self.lacks.items() if key[: len(path)] != path}
        checked = self.check(value, kind, path, source)
        for key in reversed(path):
            checked = {key: checked}
        _join(data, checked)


def _is_free(kind: Any) -> bool:
    return getattr(shape_of(kind).struct, "FREELY_NAMED", False)


def _may_be_named(name: str, kind: Any) -> bool:
    if any(getattr(one, "extra", None) == ANY_NAME for one in get_args(kind)[1:] if get_origin(kind) is Annotated):
        return name.isprintable() and len(name) <= 255
    return (_FREE_NAME if _is_free(kind) else _NAME).fullmatch(name) is not None


def _inside(data: Any, key: str | int) -> Any:
    if isinstance(data, list) and isinstance(key, int):
        return data[key]
    return data.get(key) if isinstance(data, dict) else None


def _match(part: str, names: Mapping[str, Any], fold: bool) -> str | None:
    if part in names or not fold:
        return part if part in names else None
    return next((one for one in names if one.lower().replace("-", "_") == part.lower().replace("-", "_")), None)


def _join(data: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(data.get(key), dict):
            _join(data[key], value)
        else:
            data[key] = value


def _hint(value: Any, kind: Any) -> str:
    if shape_of(kind).text and isinstance(value, bool | int | float):
        return "; put it in quotes to make it text"
    return ""


def keys_of(struct: type[msgspec.Struct], above: str = "") -> Iterator[str]:
    """Every key of the schema, dotted; `<name>` stands for the keys that the user names."""
    for one in msgspec.structs.fields(struct):
        name = above + one.name
        yield name
        shape = shape_of(one.type)
        inner = shape_of(shape.values).struct if shape.values is not None else shape.struct
        if inner is not None:
            yield from keys_of(inner, name + (".<name>." if shape.values is not None else "."))


def _nearest(path: Keys, beside: Collection[str], known: list[str]) -> str | None:
    """The key that was probably meant: one beside it, else one of that name in the same section, or for what stands at
    the top, in any."""
    from difflib import get_close_matches  # only for those who made a mistake

    key, above = str(path[-1])[:100], dotted(path[:-1])
    close = get_close_matches(key, beside, n=1)
    if close:
        return f"{above}.{close[0]}" if above else close[0]
    near = [one for one in known if len(path) == 1 or one.startswith(f"{path[0]}.")]
    by_name = {one.rpartition(".")[2]: one for one in reversed(near)}
    close = get_close_matches(key, by_name, n=1, cutoff=0.7)
    return by_name[close[0]] if close else None


# --- text to values ------------------------------------------------------------------------------


def from_text(text: str, kind: Any, where: str) -> Any:
    """A value typed on a command line or set in the environment: a YAML scalar, or JSON where it fits."""
    shape = shape_of(kind)
    start = text.strip()[:1]
    if start and start in "[{" and not (shape.struct is shape.items is shape.values is None):
        return _from_json(text, where)
    value = plain(text.strip())
    if value is None and shape.nullable:
        return None
    if not shape.text:
        return value
    if start and start in "'\"":
        try:
            quoted = load(text).data
        except YamlRefused:
            return text
        return quoted if isinstance(quoted, str) else text
    return text


def _from_json(text: str, where: str) -> Any:
    import json  # msgspec's would not tell of a key given twice

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) != len(found):
            raise ConfigError(f"{where}: a key is given twice")
        return dict(found)

    try:
        return json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        raise ConfigError(f"{where}: this is not JSON") from None


def _substituted(text: str, shape: Shape, where: str, env: Mapping[str, str]) -> Any:
    """`${VAR}` and `${VAR:-default}` replaced; `$${` is a literal `${`."""

    def value(match: re.Match[str]) -> str:
        if match.group() == "$${":
            return "${"
        name, default = match["name"], match["default"]
        if name is None:
            raise ConfigError(
                f"{where}: after '${{' comes a variable's name and '}}'; write '$${{' for the text itself"
            )
        found = env.get(name)
        if default is not None and not found:
            return str(default[2:])
        if found is None:
            raise ConfigError(f"{where} needs the environment variable '{name}', which is not set")
        return found

    result = _VARIABLE.sub(value, text)
    whole = _VARIABLE.fullmatch(text)
    if whole is None or whole["name"] is None:
        return result
    if shape.nullable and not result:
        return None  # `${KEY:-}`: there is none
    return result if shape.text or not shape.scalar else plain(result.strip())
