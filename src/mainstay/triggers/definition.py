"""A trigger as it is written: the JSON of an event file, and back.

    {"type": "periodic", "threadId": "team", "text": "Any news?", "schedule": "0 9 * * 1-5", "timezone": "Asia/Tokyo"}

A file is taken as a whole or refused with one sentence. A refusal says whether the file merely ends too early, in
which case somebody may still be writing it.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec

from mainstay.core.envelope import check_session_name
from mainstay.core.errors import InputRefused, MainstayError
from mainstay.core.limits import Limits
from mainstay.core.triggers import Kind, Missed, Target, Trigger
from mainstay.triggers.templates import is_shallow
from mainstay.triggers.times import ScheduleUnreadable, Times, is_moment

FILE_BYTES_MAX = 1024 * 1024
TEXT_BYTES_MAX = 64 * 1024
DATA_BYTES_MAX = 256 * 1024
CHECK_CHARS_MAX = 4_000
WORD_CHARS_MAX = 200  # of what is a name: a room, a person, an origin
NAME_BYTES_MAX = 150  # so that a file can be called after it with an id before it and a time behind it
JITTER_S_MAX = 86_400.0

KINDS = ("immediate", "one-shot", "periodic")
FIELDS = (
    *("type", "threadId", "adapterId", "channelId", "text", "schedule", "timezone", "workspace"),
    *("missed", "jitter_s", "check", "paused", "data", "person", "origin"),
)
_TIMED = ("schedule", "missed", "jitter_s", "check")  # what an immediate one has no use for
NO_OBJECT = "it is not a JSON object, which begins with {."
_BOM = codecs.BOM_UTF8


class TriggerRefused(MainstayError):
    """This is no trigger. `incomplete`: it ends too early, and the rest may come."""

    def __init__(self, sentence: str, incomplete: bool = False) -> None:
        super().__init__(sentence)
        self.incomplete = incomplete


def read_trigger(name: str, raw: bytes) -> Trigger:
    """What an event file says. A time that is over is taken: it was missed, and the trigger's policy holds."""
    check_trigger_name(name)
    fields = _Fields(_decode(raw))
    kind = fields.word("type")
    if kind not in KINDS:
        raise TriggerRefused(f"`type` is one of {', '.join(KINDS)}{f', not {kind[:40]!r}' if kind else ''}.")
    trigger = Trigger(
        name=name,
        kind=cast(Kind, kind),
        text=fields.text("text", TEXT_BYTES_MAX),
        target=_target(fields),
        schedule=fields.word("schedule").strip(),
        timezone=fields.word("timezone") or "UTC",
        missed=_missed(fields),
        jitter_s=_jitter(fields),
        check=fields.text("check", CHECK_CHARS_MAX),
        paused=fields.flag("paused"),
        data=_data(fields),
        person=fields.word("person"),
        origin=fields.word("origin"),
    )
    if not trigger.text.strip():
        raise TriggerRefused("`text` is missing: it says what is to be done.")
    if kind == "immediate" and (idle := next((one for one in _TIMED if fields.has(one)), None)):
        raise TriggerRefused(f"an immediate trigger fires when its file appears: it has no `{idle}`.")
    _check_schedule(trigger)
    return trigger


def write_trigger(trigger: Trigger) -> bytes:
    """The event file of a trigger; read again, it is the same trigger."""
    target, usual = trigger.target, Trigger(name="", kind="immediate", text="")
    fields: dict[str, Any] = {"type": trigger.kind}
    for field, value in (("threadId", target.session), ("adapterId", target.channel), ("channelId", target.room)):
        if value:
            fields[field] = value
    fields["text"] = trigger.text
    for field in ("schedule", "timezone", "missed", "jitter_s", "check", "paused", "data", "person", "origin"):
        if getattr(trigger, field) != getattr(usual, field):
            fields[field] = getattr(trigger, field)
    if target.workspace:
        fields["workspace"] = target.workspace
    return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"


def check_trigger_name(name: str) -> str:
    """A trigger is called after its file: whatever a file may be called, within reason."""
    if not name or name != name.strip() or name.startswith("."):
        raise TriggerRefused("a trigger's name is not empty and begins with neither a dot nor a space.")
    if any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) <= 0xDFFF for char in name):
        raise TriggerRefused("a trigger's name holds no control characters and is UTF-8.")
    if "/" in name or len(name.encode()) > NAME_BYTES_MAX:
        raise TriggerRefused(f"a trigger's name has at most {NAME_BYTES_MAX} bytes and no slash.")
    return name


def check_ahead(trigger: Trigger, now_ms: int) -> None:
    """Refuse what is made now for a time that is over: whoever makes it has mistaken the time."""
    if trigger.schedule and Times(trigger.schedule, trigger.timezone).after(now_ms) is None:
        raise TriggerRefused(f"{trigger.schedule} ({trigger.timezone}) is over already.")


# --- from bytes to fields ------------------------------------------------------------------------


def _decode(raw: bytes) -> dict[str, Any]:
    if len(raw) > FILE_BYTES_MAX:
        raise TriggerRefused(f"it has more than {FILE_BYTES_MAX} bytes.")
    body = raw.removeprefix(_BOM)
    if not body.strip() or _BOM.startswith(body):
        raise TriggerRefused("it is empty.", incomplete=True)
    written = body.rstrip(b"\0")  # a disk that lost its power, or a mount, shows what is not written yet as zeros
    try:
        _, taken = codecs.utf_8_decode(written, "strict", False)
    except UnicodeDecodeError as error:
        raise TriggerRefused(f"it is not UTF-8 text (byte {error.start}).") from None
    if written.strip() and not written.lstrip().startswith(b"{"):
        raise TriggerRefused(NO_OBJECT)
    if len(written) < len(body):
        raise TriggerRefused("it ends in zero bytes, as a file that was not completely written.", incomplete=True)
    if taken < len(body):
        raise TriggerRefused("it ends in the middle of a character.", incomplete=True)
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except RecursionError:
        raise TriggerRefused("it is nested too deeply.") from None
    except msgspec.ValidationError:
        raise TriggerRefused("a number in it is too large.") from None
    except msgspec.DecodeError as error:
        if "truncated" in str(error) and not _is_whole(body):
            raise TriggerRefused("it ends before the JSON does.", incomplete=True) from None
        said = str(error).removeprefix("JSON is malformed: ") if "malformed" in str(error) else "half a character"
        raise TriggerRefused(f"it is not JSON: {said}.") from None


def _is_whole(body: bytes) -> bool:
    """A second opinion: an escape of half a character is called an early end too, but the end is there."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


class _Fields:
    """What a file holds, field by field; null is as good as nothing."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = {name: value for name, value in found.items() if value is not None}
        if unknown := next((name for name in found if name not in FIELDS), None):
            raise TriggerRefused(_unknown_field(unknown))

    def has(self, name: str) -> bool:
        return name in self._found

    def get(self, name: str) -> Any:
        return self._found.get(name)

    def text(self, name: str, bytes_max: int) -> str:
        value = self._found.get(name, "")
        if not isinstance(value, str):
            raise TriggerRefused(f"`{name}` is text, not {_called(value)}.")
        if len(value.encode()) > bytes_max:
            raise TriggerRefused(f"`{name}` has at most {bytes_max} bytes.")
        return value

    def word(self, name: str) -> str:
        value = self.text(name, 4 * WORD_CHARS_MAX)
        if len(value) > WORD_CHARS_MAX or any(ord(char) < 32 or ord(char) == 127 for char in value):
            raise TriggerRefused(f"`{name}` has at most {WORD_CHARS_MAX} characters, none of which is a line break.")
        return value

    def flag(self, name: str) -> bool:
        value = self._found.get(name, False)
        if not isinstance(value, bool):
            raise TriggerRefused(f"`{name}` is true or false, not {_called(value)}.")
        return value


_MEANT = {
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
}  # what people write instead


def _unknown_field(name: str) -> str:
    from difflib import get_close_matches  # only for those who made a mistake

    by_fold = {field.casefold(): field for field in FIELDS} | _MEANT
    folded = name[:100].casefold()
    near = [folded] if folded in by_fold else get_close_matches(folded, by_fold, n=1)
    said = f"; did you mean `{by_fold[near[0]]}`?" if near else f"; there are {', '.join(FIELDS)}."
    return f"there is no field {name[:100]!r}{said}"


def _called(value: Any) -> str:
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


# --- from fields to a trigger --------------------------------------------------------------------


def _target(fields: _Fields) -> Target:
    session = fields.text("threadId", FILE_BYTES_MAX)
    channel, room, workspace = (fields.word(name) for name in ("adapterId", "channelId", "workspace"))
    if session and (channel or room):
        raise TriggerRefused("give `threadId`, or `adapterId` and `channelId`, but not both.")
    if not session and not (channel and room):
        raise TriggerRefused("it does not say where to: give `threadId`, or `adapterId` and `channelId`.")
    if session:
        try:
            check_session_name(session, Limits())
        except InputRefused as error:
            raise TriggerRefused(f"`threadId` names no session: {error}.") from None
    return Target(session=session, channel=channel, room=room, workspace=workspace)


def _missed(fields: _Fields) -> Missed:
    value = fields.word("missed") or "once"
    if value not in get_args(Missed):
        raise TriggerRefused(f"`missed` is one of {', '.join(get_args(Missed))}, not {value[:40]!r}.")
    return cast(Missed, value)


def _jitter(fields: _Fields) -> float:
    value = fields.get("jitter_s")
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= JITTER_S_MAX:
        raise TriggerRefused(f"`jitter_s` is a number of seconds from 0 to {JITTER_S_MAX:.0f}.")
    return float(value)


def _data(fields: _Fields) -> str:
    value = fields.get("data")
    if value is None or isinstance(value, str):
        return fields.text("data", DATA_BYTES_MAX)
    line = msgspec.json.encode(value)  # measured first: indented, what is nested deeply is a thousand times as long
    if len(line) > DATA_BYTES_MAX:
        raise TriggerRefused(f"`data` has at most {DATA_BYTES_MAX} bytes.")
    said = msgspec.json.format(line, indent=2) if is_shallow(value) else line
    return (said if len(said) <= DATA_BYTES_MAX else line).decode()


def _check_schedule(trigger: Trigger) -> None:
    try:
        if trigger.kind == "immediate":
            Times("@daily", trigger.timezone)  # it is not needed, but a wrong one is a mistake all the same
            return
        if not trigger.schedule:
            wanted = "an ISO time" if trigger.kind == "one-shot" else "five cron fields"
            raise TriggerRefused(f"a {trigger.kind} trigger needs a `schedule`: {wanted}.")
        if trigger.kind == "one-shot" and not is_moment(trigger.schedule):
            raise TriggerRefused("the `schedule` of a one-shot trigger is an ISO time, as 2026-03-01T09:00:00.")
        if trigger.kind == "periodic" and is_moment(trigger.schedule):
            raise TriggerRefused("the `schedule` of a periodic trigger is cron fields; `one-shot` has an ISO time.")
        Times(trigger.schedule, trigger.timezone)
    except ScheduleUnreadable as error:
        raise TriggerRefused(str(error)) from None
