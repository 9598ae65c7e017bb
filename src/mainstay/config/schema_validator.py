"""Validates raw configuration values against a schema of structs; errors name the file, line and key.

It knows no key by name: the schema is a struct type that the caller passes.

Sections whose struct type depends on their values: a field whose type is a subclass of `ComponentSettings`, or a
mapping of them such as `dict[str, ChannelSettings]`, stands for the settings of any component of its `COMPONENT_KIND`.
The value of its key `NAMED_BY`, else the section's name, names the component; the section is checked against the
settings struct in that component's manifest, and decoded into it. This is all that a schema has to declare:

    class ChannelSettings(ComponentSettings, frozen=True, kw_only=True):
        COMPONENT_KIND: ClassVar[ComponentKind] = "channel"
        kind: str = ""        # not required: `channels.slack` is a channel of the kind slack

    class Config(...):
        channels: dict[str, ChannelSettings] = {}

A `ComponentOptions` section is the same, but a key of the section above names the component: `sandbox.options` are the
settings of the component in `sandbox.kind`.

`SchemaChecker.check_value` and `locate_key` select the type of each such section, and `SchemaChecker.build` decodes
with it. `msgspec.convert(data, Config)` cannot, because it knows the base class only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin

import msgspec

from mainstay.config.type_descriptions import (
    describe_type,
    describe_value_type,
    is_never_secret,
    show_if_short,
    union_members,
)
from mainstay.core.component_options import ComponentOptions
from mainstay.core.component_settings import ComponentSettings
from mainstay.core.components import component_names, find_similar_component, suggest_component, suggest_name
from mainstay.core.errors import ComponentBroken, ConfigError
from mainstay.io.yaml import YamlRefused, load_yaml, parse_plain_scalar

Keys = tuple[str | int, ...]

_VARIABLE_REFERENCE = re.compile(r"\$\$\{|\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}|\$\{")
_LISTED_KEYS_MAX = 20  # in an error about an unknown key
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
_FREE_NAME = re.compile(r"[\w@](?:[\w ./@+()-]*[\w)])?")  # without characters that have a meaning in policy rules
ANY_NAME_MARK = {"named": "anyhow"}  # `Meta(extra=…)` of a mapping's values: its keys are ids of other systems


class ValueSource(msgspec.Struct, frozen=True):
    """Where values come from: a file, the environment or an argument."""

    error_position: Callable[[Keys], str]  # position of a key, at the beginning of an error
    shown_origin: Callable[[Keys], str]  # position of a key, as `config show` prints it
    env: Mapping[str, str] | None = None  # variables that `${VAR}` may use; None: `${VAR}` is not replaced


def build_named_source(name: str) -> ValueSource:
    return ValueSource(lambda _: name, lambda _: name)


# --- types ---------------------------------------------------------------------------------------


class TypeShape(msgspec.Struct, frozen=True):
    """The kinds of values that a field's type accepts."""

    struct_type: type[msgspec.Struct] | None = None  # a mapping with these keys
    item_type: Any = None  # type of the items of a list; None: no list
    value_type: Any = None  # type of the values of a mapping with free keys; None: no such mapping
    is_text: bool = False
    is_nullable: bool = False
    is_scalar: bool = False


def analyse_type(field_type: Any) -> TypeShape:
    struct = items = values = None
    text = nullable = scalar = False
    for option in union_members(field_type):
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
    return TypeShape(struct, items, values, text, nullable, scalar)


def to_dotted_key(path: Sequence[str | int]) -> str:
    """Return a path as a dotted key, escaped and cut so that it can be printed."""
    name = ".".join(part if _PLAIN_NAME.fullmatch(part) else repr(part)[1:-1] for part in map(str, path))
    return name if len(name) <= 120 else name[:120] + "…"


# --- checking ------------------------------------------------------------------------------------


class SchemaChecker:
    """Checks raw values against the schema and records the origin of each.

    `find_problem` returns what is wrong with a value of the right type, or None. In `tolerant_sections`, an unset
    `${VAR}` is no error: the text stays as it is, and `unset_variables` has the reason.
    """

    def __init__(
        self,
        schema: type[msgspec.Struct],
        future_sections: frozenset[str],
        find_problem: Callable[[Keys, Any], str | None],
        tolerant_sections: frozenset[str] = frozenset(),
    ) -> None:
        self._schema = schema
        self._future_sections = future_sections
        self._find_problem = find_problem
        self._tolerant_sections = tolerant_sections
        self._overridden: dict[str, Any] = {}  # the values that `override_value` changes
        self._components: dict[Keys, tuple[type[ComponentSettings], str]] = {}  # by section: base type and name
        self._sections: dict[Keys, Mapping[str, Any]] = {}  # raw values of sections
        self.origins: dict[Keys, str] = {}
        self.unset_variables: dict[Keys, str] = {}

    def check_value(self, value: Any, field_type: Any, path: Keys, source: ValueSource) -> Any:
        """Return the checked value, with variables replaced. Raises ConfigError with its position and what was
        expected."""
        shape = analyse_type(field_type)
        if value is None and not shape.is_scalar:
            value = [] if shape.item_type is not None else {}  # a section's key with nothing under it
        if isinstance(value, dict) and shape.struct_type is not None:
            return self._check_struct(value, shape.struct_type, path, source)
        if isinstance(value, dict) and shape.value_type is not None:
            entries = value.items()
            return {
                key: self._check_entry(key, entry, shape.value_type, (*path, key), source) for key, entry in entries
            }
        if isinstance(value, list) and shape.item_type is not None:
            return [self.check_value(item, shape.item_type, (*path, n), source) for n, item in enumerate(value)]
        return self._check_scalar(value, field_type, path, source)

    def _check_struct(
        self, value: dict[str, Any], struct_type: type[msgspec.Struct], path: Keys, source: ValueSource
    ) -> Any:
        self._sections[path] = value
        struct_type = self._select_type(struct_type, value, path, source)
        fields = _list_fields(struct_type)
        adapted = getattr(struct_type, "convert_raw", None)  # converts the formats of other programs
        if adapted is not None:
            value = adapted(value)
        checked = {}
        for key, entry in value.items():
            if key not in fields:
                self._refuse_key((*path, key), fields, source)
            checked[key] = self.check_value(entry, fields[key].type, (*path, key), source)
        for name, field in fields.items():
            if field.required and name not in value:
                raise ConfigError(f"{source.error_position(path)}: '{to_dotted_key(path)}' needs '{name}'")
        return checked

    def _select_type(
        self, struct_type: type[msgspec.Struct], value: Mapping[str, Any], path: Keys, source: ValueSource
    ) -> type[msgspec.Struct]:
        """Return the struct type of a section: for settings of components, the one in its component's manifest."""
        if not issubclass(struct_type, ComponentSettings):
            return struct_type
        if issubclass(struct_type, ComponentOptions):
            return self._select_options_type(struct_type, path, source)
        key, position = struct_type.NAMED_BY, source.error_position(path)
        given = (value.get(key) or _value_at(self._overridden, (*path, key))) if key else None
        if given:
            position = f"{source.error_position((*path, key))}: '{to_dotted_key((*path, key))}'"
            if not isinstance(given, str):
                raise ConfigError(f"{position}: expected text, got {describe_value_type(given)}")
            if source.env is not None:
                given = _substitute_variables(given, TypeShape(is_text=True), position, source.env)
        elif key and _list_fields(struct_type)[key].required:
            raise ConfigError(f"{position}: '{to_dotted_key(path)}' needs '{key}'")
        name, kind = str(given or path[-1]), struct_type.COMPONENT_KIND
        self._components[path] = struct_type, name
        try:
            return struct_type.find_type(name)
        except ComponentBroken:  # its distribution is to blame, not this line
            raise
        except ConfigError as error:
            if name in component_names(kind):
                raise ConfigError(f"{position}: {error}") from None
            if key and not given:
                known = ", ".join(component_names(kind))
                near = suggest_name(name, component_names(kind))
                hint = f"; did you mean {near!r}?" if near else ""
                raise ConfigError(f"{position}: the {kind} {name[:80]!r} needs a {key}: {known}{hint}") from None
            shown = show_if_short(name)  # like every value, it may be a secret
            unknown = f"there is no {kind} {shown if shown.startswith(chr(39)) else 'of this name'}"
            raise ConfigError(f"{position}: {unknown}; {suggest_component(kind, name)}") from None

    def _select_options_type(
        self, struct_type: type[ComponentOptions], path: Keys, source: ValueSource
    ) -> type[msgspec.Struct]:
        """Return the struct type of a section `options`: that of the component which the section above names."""
        key = (*path[:-1], struct_type.NAMED_ABOVE)
        position = f"{source.error_position(key)}: '{to_dotted_key(key)}'"
        above = self._sections.get(path[:-1], {})
        name = above.get(struct_type.NAMED_ABOVE) or _value_at(self._overridden, key)
        if not name and path[0] == "workspaces":  # the shared section may name it
            name = _value_at(self._sections.get((), {}), key[2:])
        if isinstance(name, str) and source.env is not None:
            name = _substitute_variables(name, TypeShape(is_text=True), position, source.env)
        name = str(name or struct_type.DEFAULT_NAME)
        self._components[path] = struct_type, name
        try:
            return struct_type.find_type(name)
        except ComponentBroken:  # its distribution is to blame, not this line
            raise
        except ConfigError as error:
            raise ConfigError(f"{position}: {error}") from None

    def _check_entry(self, key: str, value: Any, field_type: Any, path: Keys, source: ValueSource) -> Any:
        if not _is_valid_name(key, field_type):
            sentence = "a name may contain only letters, digits, '-' and '_'"
            if _allows_any_name(field_type):
                sentence = "a name may contain only letters, digits, spaces between them, and any of . _ - @ / + ( )"
            raise ConfigError(f"{source.error_position(path)}: '{to_dotted_key(path)}': {sentence}")
        return self.check_value(value, field_type, path, source)

    def _check_scalar(self, value: Any, field_type: Any, path: Keys, source: ValueSource) -> Any:
        position = f"{source.error_position(path)}: '{to_dotted_key(path)}'"
        self.unset_variables.pop(path, None)
        describe_value = show_if_short if is_never_secret(field_type) else describe_value_type
        if isinstance(value, str) and source.env is not None:
            if "${" in value:
                describe_value = describe_value_type  # a variable's value may be a secret
            value = self._substitute(value, field_type, path, position, source.env)
        try:
            msgspec.convert(value, field_type)
        except msgspec.ValidationError:
            got = f"{describe_value(value)}{_quote_hint(value, field_type)}"
            if isinstance(value, str) and analyse_type(field_type).is_text and got == "text":
                got = "other text" if value else "empty text"  # of the right type, against a rule of the text
            raise ConfigError(f"{position}: expected {describe_type(field_type)}, got {got}") from None
        problem = self._find_problem(path, value)
        if problem is not None:
            raise ConfigError(f"{position} {problem}")
        self.origins[path] = source.shown_origin(path)
        return value

    def _substitute(self, text: str, field_type: Any, path: Keys, position: str, env: Mapping[str, str]) -> Any:
        try:
            filled = _substitute_variables(text, analyse_type(field_type), position, env)
        except ConfigError as error:
            if path[0] not in self._tolerant_sections or str not in union_members(field_type):
                raise
            self.unset_variables[path] = str(error)
            return text
        return filled

    def _refuse_key(self, path: Keys, siblings: Collection[str], source: ValueSource) -> NoReturn:
        position = source.error_position(path)
        if len(path) == 1 and path[0] in self._future_sections:
            raise ConfigError(f"{position}: '{path[0]}' is not available in this release; remove it")
        if problem := self._find_key_of_others(path, siblings):
            raise ConfigError(f"{position}: {problem}")
        similar = _find_similar_key(path, siblings, list(iter_schema_keys(self._schema)))
        hint = f"; did you mean '{similar}'?" if similar else _list_known_keys(path, siblings)
        raise ConfigError(f"{position}: unknown key '{to_dotted_key(path)}'{hint}")

    def _find_key_of_others(self, path: Keys, siblings: Collection[str]) -> str:
        """Return what is wrong with a key that only other components of the same kind have; empty if none has it."""
        section = next((path[:end] for end in range(len(path) - 1, 0, -1) if path[:end] in self._components), None)
        if section is None:
            return ""
        base, name = self._components[section]
        key, naming = to_dotted_key(path[len(section) :]), base.NAMED_BY
        if not any(key in iter_schema_keys(settings) for _, settings in base.list_types()):
            return ""
        if not naming and (similar := find_similar_component(base.COMPONENT_KIND, name)):
            kind, meant = base.COMPONENT_KIND, to_dotted_key((*section[:-1], similar))
            return f"'{to_dotted_key(section)}': there is no {kind} {name!r}; did you mean '{meant}'?"
        component = f"'{naming}: {name}'" if naming else f"the {base.COMPONENT_KIND} {name!r}"
        remedy = "; remove it" if len(path) == len(section) + 1 else f", which has {', '.join(siblings)}"
        return f"'{to_dotted_key(section)}': '{key}' is not a key of {component}{remedy}"

    def locate_key(
        self, parts: Sequence[str], data: Any, source: ValueSource, *, ignore_case: bool
    ) -> tuple[Keys, Any]:
        """Return the path and type of a dotted key; `ignore_case` ignores case, and treats '_' and '-' alike. Raises
        ConfigError for an unknown key."""
        path: Keys = ()
        field_type: Any = self._schema
        for part in parts:
            shape = analyse_type(field_type)
            key: str | int | None = None
            siblings: Collection[str] = ()  # the keys that could have been meant
            if shape.struct_type is not None:
                struct_type = shape.struct_type
                self._sections[path] = data if isinstance(data, dict) else {}
                if not _is_naming_key(struct_type, part, ignore_case):
                    struct_type = self._select_type(struct_type, data if isinstance(data, dict) else {}, path, source)
                types = {name: field.type for name, field in _list_fields(struct_type).items()}
                siblings = types
                key = _match_name(
                    part, types if path else {**types, **dict.fromkeys(self._future_sections)}, ignore_case
                )
                field_type = types.get(key or "")
            elif shape.value_type is not None and _is_valid_name(part, shape.value_type):
                key = _match_name(part, data if isinstance(data, dict) else {}, ignore_case) or (
                    part.lower() if ignore_case else part
                )
                field_type = shape.value_type
            elif shape.item_type is not None and not ignore_case and isinstance(data, list):
                key = next((n for n in range(len(data)) if str(n) == part), None)
                field_type = shape.item_type
            if key is None or field_type is None:
                self._refuse_key((*path, key or (part.lower() if ignore_case else part)), siblings, source)
            path = (*path, key)
            data = _child_value(data, key)
        return path, field_type

    def override_value(self, data: dict[str, Any], parts: Sequence[str], value: Any, source: ValueSource) -> None:
        """Set one value in `data`: mappings are merged, everything else is replaced."""
        path, field_type = self.locate_key(parts, data, source, ignore_case=True)
        if isinstance(value, str):
            value = parse_text_value(value, field_type, f"{source.error_position(path)}: '{to_dotted_key(path)}'")
        else:
            value = msgspec.to_builtins(value)
        if not isinstance(value, dict):
            self.origins = {key: origin for key, origin in self.origins.items() if key[: len(path)] != path}
            self.unset_variables = {
                key: reason for key, reason in self.unset_variables.items() if key[: len(path)] != path
            }
        self._overridden = data
        checked = self.check_value(value, field_type, path, source)
        self._overridden = {}
        for key in reversed(path):
            checked = {key: checked}
        _merge_into(data, checked)

    def build(self, data: dict[str, Any], source: ValueSource) -> Any:
        """Decode checked values into the schema's structs. Raises ConfigError if settings of a component do not fit it:
        they and its name can come from different sources."""
        return self._build_struct(data, self._schema, (), source)

    def _build_struct(
        self, value: dict[str, Any], struct_type: type[msgspec.Struct], path: Keys, source: ValueSource
    ) -> msgspec.Struct:
        self._sections[path] = value
        struct_type = self._select_type(struct_type, value, path, source)
        fields = _list_fields(struct_type)
        built: dict[str, Any] = {}
        for key, inner in value.items():
            if key not in fields:
                self._refuse_key((*path, key), fields, source)
            if isinstance(inner, dict) and _holds_component_settings(fields[key].type):
                built[key] = self._build_section(inner, fields[key].type, (*path, key), source)
        plain = {key: inner for key, inner in value.items() if key not in built}
        try:
            section = msgspec.convert(plain, struct_type)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{source.error_position(path)}: '{to_dotted_key(path)}': {error}") from None
        return msgspec.structs.replace(section, **built) if built else section

    def _build_section(self, value: dict[str, Any], field_type: Any, path: Keys, source: ValueSource) -> Any:
        shape = analyse_type(field_type)
        if shape.struct_type is not None:
            return self._build_struct(value, shape.struct_type, path, source)
        return {key: self._build_section(entry, shape.value_type, (*path, key), source) for key, entry in value.items()}


def _allows_any_name(field_type: Any) -> bool:
    return getattr(analyse_type(field_type).struct_type, "ALLOWS_ANY_NAME", False)


def _is_valid_name(name: str, field_type: Any) -> bool:
    if any(
        getattr(meta, "extra", None) == ANY_NAME_MARK
        for meta in get_args(field_type)[1:]
        if get_origin(field_type) is Annotated
    ):
        return name.isprintable() and len(name) <= 255
    return (_FREE_NAME if _allows_any_name(field_type) else _PLAIN_NAME).fullmatch(name) is not None


@cache
def _list_fields(struct_type: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.name: field for field in msgspec.structs.fields(struct_type)}  # evaluates the type hints at each call


def _holds_component_settings(field_type: Any) -> bool:
    """Whether a section of this type is, or has somewhere below it, the settings of a component."""
    shape = analyse_type(field_type)
    if shape.struct_type is None:
        return shape.value_type is not None and _holds_component_settings(shape.value_type)
    return issubclass(shape.struct_type, ComponentSettings) or _has_component_settings(shape.struct_type)


@cache
def _has_component_settings(struct_type: type[msgspec.Struct]) -> bool:
    return any(_holds_component_settings(field.type) for field in _list_fields(struct_type).values())


def _is_naming_key(struct_type: type[msgspec.Struct], part: str, ignore_case: bool) -> bool:
    """Whether this is the key that names a component: it can be set before there is one."""
    if not issubclass(struct_type, ComponentSettings):
        return False
    return _match_name(part, {struct_type.NAMED_BY: None}, ignore_case) is not None


def _value_at(data: Any, path: Keys) -> Any:
    for key in path:
        data = _child_value(data, key)
    return data


def _child_value(data: Any, key: str | int) -> Any:
    if isinstance(data, list) and isinstance(key, int):
        return data[key]
    return data.get(key) if isinstance(data, dict) else None


def _match_name(part: str, names: Mapping[str, Any], ignore_case: bool) -> str | None:
    if part in names or not ignore_case:
        return part if part in names else None
    folded = part.lower().replace("-", "_")
    return next((name for name in names if name.lower().replace("-", "_") == folded), None)


def _merge_into(data: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(data.get(key), dict):
            _merge_into(data[key], value)
        else:
            data[key] = value


def _quote_hint(value: Any, field_type: Any) -> str:
    if analyse_type(field_type).is_text and isinstance(value, bool | int | float):
        return "; put it in quotes to make it text"
    return ""


def iter_schema_keys(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """Yield every key of the schema, dotted; `<name>` stands for keys that the user chooses."""
    for field in _list_fields(struct).values():
        name = prefix + field.name
        yield name
        shape = analyse_type(field.type)
        inner = analyse_type(shape.value_type).struct_type if shape.value_type is not None else shape.struct_type
        types = [] if inner is None else [inner]
        if inner is not None and issubclass(inner, ComponentSettings):
            types += [settings for _, settings in inner.list_types()]
        for settings in types:
            yield from iter_schema_keys(settings, name + (".<name>." if shape.value_type is not None else "."))


def _list_known_keys(path: Keys, siblings: Collection[str]) -> str:
    """Return the end of an error about an unknown key in a section: the keys of that section."""
    if len(path) == 1 or not siblings:
        return ""
    names = list(siblings)
    more = f" and {len(names) - _LISTED_KEYS_MAX} more" if len(names) > _LISTED_KEYS_MAX else ""
    return f"; '{to_dotted_key(path[:-1])}' has {', '.join(names[:_LISTED_KEYS_MAX])}{more}"


def _find_similar_key(path: Keys, siblings: Collection[str], known: list[str]) -> str | None:
    """Return the key that was probably meant: one in the same place, else one of a similar name anywhere in the same
    section (for a top-level key, in any section)."""
    from difflib import get_close_matches  # only needed for a mistake

    key, above = str(path[-1])[:100], to_dotted_key(path[:-1])
    close = get_close_matches(key, siblings, n=1)
    if close:
        return f"{above}.{close[0]}" if above else close[0]
    candidates = [name for name in known if len(path) == 1 or name.startswith(f"{path[0]}.")]
    by_name = {name.rpartition(".")[2]: name for name in reversed(candidates)}
    close = get_close_matches(key, by_name, n=1, cutoff=0.7)
    return by_name[close[0]] if close else None


# --- text to values ------------------------------------------------------------------------------


def parse_text_value(text: str, field_type: Any, position: str) -> Any:
    """Parse a value from a command line or an environment variable: a YAML scalar, or JSON for a list or mapping."""
    shape = analyse_type(field_type)
    start = text.strip()[:1]
    if start and start in "[{" and not (shape.struct_type is shape.item_type is shape.value_type is None):
        return _parse_json(text, position)
    value = parse_plain_scalar(text.strip())
    if value is None and shape.is_nullable:
        return None
    if not shape.is_text:
        return value
    if start and start in "'\"":
        try:
            quoted = load_yaml(text).data
        except YamlRefused:
            return text
        return quoted if isinstance(quoted, str) else text
    return text


def _parse_json(text: str, position: str) -> Any:
    import json  # msgspec's decoder would not report a repeated key

    def refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ConfigError(f"{position}: a key is given twice")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=refuse_repeated)
    except (ValueError, RecursionError):
        raise ConfigError(f"{position}: this is not valid JSON") from None


def _substitute_variables(text: str, shape: TypeShape, position: str, env: Mapping[str, str]) -> Any:
    """Replace `${VAR}` and `${VAR:-default}`; `$${` becomes `${`. Raises ConfigError for an unset variable."""

    def value(match: re.Match[str]) -> str:
        if match.group() == "$${":
            return "${"
        name, default = match["name"], match["default"]
        if name is None:
            raise ConfigError(
                f"{position}: '${{' must be followed by a variable's name and '}}'; write '$${{' for a literal '${{'"
            )
        variable = env.get(name)
        if default is not None and not variable:
            return str(default[2:])
        if variable is None:
            sentence = f"{position} needs the environment variable '{name}', which is not set"
            raise ConfigError(sentence, fix=f"export {name}=…")
        return variable

    result = _VARIABLE_REFERENCE.sub(value, text)
    whole = _VARIABLE_REFERENCE.fullmatch(text)
    if whole is None or whole["name"] is None:
        return result
    if shape.is_nullable and not result:
        return None  # `${KEY:-}` with KEY unset
    return result if shape.is_text or not shape.is_scalar else parse_plain_scalar(result.strip())
