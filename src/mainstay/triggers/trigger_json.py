"""Parses and writes trigger definitions: the JSON of an event file.

    {"type": "periodic", "threadId": "team", "text": "Any news?", "schedule": "0 9 * * 1-5", "timezone": "Asia/Tokyo"}

A file is accepted as a whole or refused with one sentence. The error says whether the file is merely incomplete, in
which case a program may still be writing it.
"""

from __future__ import annotations

import codecs
import json
from typing import cast, get_args

import msgspec

from mainstay.core.errors import InputRefused
from mainstay.core.input_envelope import check_session_name
from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.core.limits import Limits
from mainstay.core.triggers import MissedPolicy, Trigger, TriggerKind, TriggerTarget
from mainstay.triggers.schedule import ScheduleInvalid, TriggerSchedule, is_iso_time
from mainstay.triggers.webhook_templates import is_shallow

FILE_BYTES_MAX = 1024 * 1024
TEXT_BYTES_MAX = 64 * 1024
DATA_BYTES_MAX = 256 * 1024
CHECK_BYTES_MAX = 4_000
SHORT_TEXT_CHARS_MAX = 200  # of a short text: a room, a person, an origin
NAME_BYTES_MAX = 150  # leaves room in a file name for an id before it and a time after it
JITTER_S_MAX = 86_400.0

KINDS = ("immediate", "one-shot", "periodic")
FIELDS = (
    *("type", "threadId", "adapterId", "channelId", "text", "schedule", "timezone", "workspace"),
    *("missed", "jitter_s", "check", "paused", "data", "person", "origin"),
)
_SCHEDULE_FIELDS = ("schedule", "missed", "jitter_s", "check")  # fields that an immediate trigger must not have
NOT_AN_OBJECT = "it is not a JSON object, which begins with {."
_BOM = codecs.BOM_UTF8


class TriggerRefused(InputRefused):
    """Not a valid trigger. `incomplete`: the text ends too early, and the rest may follow."""

    def __init__(self, sentence: str, incomplete: bool = False) -> None:
        super().__init__(sentence)
        self.incomplete = incomplete


def parse_trigger(name: str, raw: bytes) -> Trigger:
    """Parse an event file. A time in the past is accepted: it was missed, and the trigger's misfire policy applies.
    Raises TriggerRefused."""
    check_trigger_name(name)
    fields = _TriggerFields(_decode_json(raw))
    kind = fields.get_short_text("type")
    if kind not in KINDS:
        raise TriggerRefused(f"`type` is one of {', '.join(KINDS)}{f', not {kind[:40]!r}' if kind else ''}.")
    trigger = Trigger(
        name=name,
        kind=cast(TriggerKind, kind),
        text=fields.get_text("text", TEXT_BYTES_MAX),
        target=_parse_target(fields),
        schedule=fields.get_short_text("schedule").strip(),
        timezone=fields.get_short_text("timezone") or "UTC",
        missed=_parse_missed(fields),
        jitter_s=_parse_jitter(fields),
        check=fields.get_text("check", CHECK_BYTES_MAX),
        paused=fields.get_flag("paused"),
        data=_parse_data(fields),
        person=fields.get_short_text("person"),
        origin=fields.get_short_text("origin"),
    )
    if not trigger.text.strip():
        raise TriggerRefused("`text` is missing: it says what is to be done.")
    if kind == "immediate" and (extra := next((field for field in _SCHEDULE_FIELDS if fields.has(field)), None)):
        raise TriggerRefused(f"an immediate trigger fires when its file appears: it has no `{extra}`.")
    _check_schedule(trigger)
    return trigger


def encode_trigger(trigger: Trigger) -> bytes:
    """Return the event file of a trigger; parsing it yields the same trigger."""
    target, defaults = trigger.target, Trigger(name="", kind="immediate", text="")
    fields: dict[str, object] = {"type": trigger.kind}
    for field, value in (("threadId", target.session), ("adapterId", target.channel), ("channelId", target.room)):
        if value:
            fields[field] = value
    fields["text"] = trigger.text
    for field in ("schedule", "timezone", "missed", "jitter_s", "check", "paused", "data", "person", "origin"):
        if getattr(trigger, field) != getattr(defaults, field):
            fields[field] = getattr(trigger, field)
    if target.workspace:
        fields["workspace"] = target.workspace
    return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"


def check_trigger_name(name: str) -> str:
    """Return the name if it is valid for a trigger, which has the name of its file. Raises TriggerRefused."""
    if not name or name != name.strip() or name.startswith("."):
        raise TriggerRefused("a trigger's name is not empty and begins with neither a dot nor a space.")
    if any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) <= 0xDFFF for char in name):
        raise TriggerRefused("a trigger's name must be UTF-8 without control characters.")
    if "/" in name or len(name.encode()) > NAME_BYTES_MAX:
        raise TriggerRefused(f"a trigger's name has at most {NAME_BYTES_MAX} bytes and no slash.")
    return name


def check_is_future(trigger: Trigger, now_ms: int) -> None:
    """Raise TriggerRefused for a new trigger whose time has passed: its author has mistaken the time."""
    if trigger.schedule and TriggerSchedule(trigger.schedule, trigger.timezone).next_after(now_ms) is None:
        raise TriggerRefused(f"{trigger.schedule} ({trigger.timezone}) is in the past.")


# --- bytes to fields -----------------------------------------------------------------------------


def _decode_json(raw: bytes) -> JsonObject:
    if len(raw) > FILE_BYTES_MAX:
        raise TriggerRefused(f"it has more than {FILE_BYTES_MAX} bytes.")
    body = raw.removeprefix(_BOM)
    if not body.strip() or _BOM.startswith(body):
        raise TriggerRefused("it is empty.", incomplete=True)
    written = body.rstrip(b"\0")  # after a power failure, or on a mount, unwritten bytes may read as zeros
    try:
        _, decoded = codecs.utf_8_decode(written, "strict", False)
    except UnicodeDecodeError as error:
        raise TriggerRefused(f"it is not UTF-8 text (byte {error.start}).") from None
    if written.strip() and not written.lstrip().startswith(b"{"):
        raise TriggerRefused(NOT_AN_OBJECT)
    if len(written) < len(body):
        raise TriggerRefused("it ends in zero bytes, as a file that was not completely written.", incomplete=True)
    if decoded < len(body):
        raise TriggerRefused("it ends in the middle of a character.", incomplete=True)
    try:
        return msgspec.json.decode(body, type=JsonObject)
    except RecursionError:
        raise TriggerRefused("it is nested too deeply.") from None
    except msgspec.ValidationError:
        raise TriggerRefused("a number in it is too large.") from None
    except msgspec.DecodeError as error:
        if "truncated" in str(error) and not _is_valid_json(body):
            raise TriggerRefused("it ends before the JSON does.", incomplete=True) from None
        reason = str(error).removeprefix("JSON is malformed: ") if "malformed" in str(error) else "half a character"
        raise TriggerRefused(f"it is not JSON: {reason}.") from None


def _is_valid_json(body: bytes) -> bool:
    """True if the standard parser accepts it: msgspec also reports an unpaired surrogate escape as truncated."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


class _TriggerFields:
    """Typed access to the fields of a file; null counts as missing. Raises TriggerRefused for unknown fields."""

    def __init__(self, values: JsonObject) -> None:
        self._values = {name: value for name, value in values.items() if value is not None}
        if unknown := next((name for name in values if name not in FIELDS), None):
            raise TriggerRefused(_unknown_field_message(unknown))

    def has(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str) -> JsonValue:
        return self._values.get(name)

    def get_text(self, name: str, bytes_max: int) -> str:
        value = self._values.get(name, "")
        if not isinstance(value, str):
            raise TriggerRefused(f"`{name}` is text, not {_type_name(value)}.")
        if len(value.encode()) > bytes_max:
            raise TriggerRefused(f"`{name}` has at most {bytes_max} bytes.")
        return value

    def get_short_text(self, name: str) -> str:
        value = self.get_text(name, 4 * SHORT_TEXT_CHARS_MAX)
        if len(value) > SHORT_TEXT_CHARS_MAX or any(ord(char) < 32 or ord(char) == 127 for char in value):
            raise TriggerRefused(
                f"`{name}` has at most {SHORT_TEXT_CHARS_MAX} characters, none of which is a line break."
            )
        return value

    def get_flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise TriggerRefused(f"`{name}` is true or false, not {_type_name(value)}.")
        return value


# common mistakes, and the field that is meant
_COMMON_MISTAKES = {
    "cron": "schedule",
    "when": "schedule",
    "at": "schedule",
    "time": "schedule",
    "session": "threadId",
    "thread": "threadId",
    "prompt": "text",
    "message": "text",
    "channel": "adapterId",
    "adapter": "adapterId",
    "room": "channelId",
    "tz": "timezone",
    "zone": "timezone",
    "kind": "type",
    "jitter": "jitter_s",
}


def _unknown_field_message(name: str) -> str:
    from difflib import get_close_matches  # needed for mistakes only

    by_fold = {field.casefold(): field for field in FIELDS} | _COMMON_MISTAKES
    folded = name[:100].casefold()
    near = [folded] if folded in by_fold else get_close_matches(folded, by_fold, n=1)
    hint = f"; did you mean `{by_fold[near[0]]}`?" if near else f"; there are {', '.join(FIELDS)}."
    return f"there is no field {name[:100]!r}{hint}"


def _type_name(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"


# --- fields to a trigger -------------------------------------------------------------------------


def _parse_target(fields: _TriggerFields) -> TriggerTarget:
    session = fields.get_text("threadId", FILE_BYTES_MAX)
    channel, room, workspace = (fields.get_short_text(name) for name in ("adapterId", "channelId", "workspace"))
    if session and (channel or room):
        raise TriggerRefused("give `threadId`, or `adapterId` and `channelId`, but not both.")
    if not session and not (channel and room):
        raise TriggerRefused("it has no target: give `threadId`, or `adapterId` and `channelId`.")
    if session:
        try:
            check_session_name(session, Limits())
        except InputRefused as error:
            raise TriggerRefused(f"`threadId` names no session: {error}.") from None
    return TriggerTarget(session=session, channel=channel, room=room, workspace=workspace)


def _parse_missed(fields: _TriggerFields) -> MissedPolicy:
    value = fields.get_short_text("missed") or "once"
    if value not in get_args(MissedPolicy):
        raise TriggerRefused(f"`missed` is one of {', '.join(get_args(MissedPolicy))}, not {value[:40]!r}.")
    return cast(MissedPolicy, value)


def _parse_jitter(fields: _TriggerFields) -> float:
    value = fields.get("jitter_s")
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= JITTER_S_MAX:
        raise TriggerRefused(f"`jitter_s` is a number of seconds from 0 to {JITTER_S_MAX:.0f}.")
    return float(value)


def _parse_data(fields: _TriggerFields) -> str:
    value = fields.get("data")
    if value is None or isinstance(value, str):
        return fields.get_text("data", DATA_BYTES_MAX)
    line = msgspec.json.encode(value)  # measured first: indenting deep nesting makes it a thousand times as long
    if len(line) > DATA_BYTES_MAX:
        raise TriggerRefused(f"`data` has at most {DATA_BYTES_MAX} bytes.")
    formatted = msgspec.json.format(line, indent=2) if is_shallow(value) else line
    return (formatted if len(formatted) <= DATA_BYTES_MAX else line).decode()


def _check_schedule(trigger: Trigger) -> None:
    try:
        if trigger.kind == "immediate":
            # unused here, but an unknown time zone is a mistake all the same
            TriggerSchedule("@daily", trigger.timezone)
            return
        if not trigger.schedule:
            expected = "an ISO time" if trigger.kind == "one-shot" else "five cron fields"
            raise TriggerRefused(f"a {trigger.kind} trigger needs a `schedule`: {expected}.")
        if trigger.kind == "one-shot" and not is_iso_time(trigger.schedule):
            raise TriggerRefused("the `schedule` of a one-shot trigger is an ISO time, as 2026-03-01T09:00:00.")
        if trigger.kind == "periodic" and is_iso_time(trigger.schedule):
            raise TriggerRefused("the `schedule` of a periodic trigger is cron fields; `one-shot` has an ISO time.")
        TriggerSchedule(trigger.schedule, trigger.timezone)
    except ScheduleInvalid as error:
        raise TriggerRefused(str(error)) from None
