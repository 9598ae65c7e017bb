"""`schedule`: prompts for later, which come back to this very conversation."""

from __future__ import annotations

from typing import Literal

from mainstay.core.errors import InputRefused
from mainstay.core.outside import Appointment, Reach, Scheduler
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.recall import is_private, is_untrusted, origin_of
from mainstay.io.beneath import brief
from mainstay.tools.common import Arguments, BuiltIn, ToolRefused

TEXT_CHARS_MAX = 8_000
WHEN_CHARS_MAX = 100
SHOWN_MAX = 50
SHOWN_CHARS = 200


class _Schedule(Arguments, frozen=True):
    action: Literal["add", "list", "remove"]
    when: str | None = None
    text: str | None = None
    id: str | None = None
    timezone: str | None = None


class Schedule(BuiltIn):
    name = "schedule"
    description = (
        "Prompt yourself later: add (when: 2026-11-02T15:30 or five cron fields; text; timezone: Europe/Lisbon, "
        "default UTC), list, remove (id)."
    )
    arguments = _Schedule
    effect: Effect = "idempotent"
    sink: bool | tuple[str, ...] = True
    capabilities: tuple[str, ...] = ("schedule",)

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def reach(self, arguments: _Schedule, context: ToolContext) -> Reach:
        """Whoever can have something said to a later turn can have it done there."""
        match arguments.action:
            case "add" if self._refusal(arguments):  # nobody is asked about what cannot be
                return Reach()
            case "add":
                what = f"has this conversation prompted at {brief(arguments.when or '')}"
                return Reach(sink=True, destinations=(arguments.text or "",), what=what)
            case "remove":
                what = f"removes the appointment {brief(arguments.id or '')}"
                return Reach(sink=True, destinations=(arguments.id or "",), what=what)
            case _:
                return Reach()

    async def run(self, arguments: _Schedule, context: ToolContext) -> str:
        match arguments.action:
            case "add":
                return await self._add(arguments, context)
            case "remove":
                gone = await self._scheduler.remove(context.session, arguments.id or "")
                if not gone:
                    raise ToolRefused(f"There is no appointment {brief(arguments.id or '')!r} of this conversation.")
                return f"Removed {brief(arguments.id or '')}."
            case _:
                return await self._list(context)

    def _refusal(self, arguments: _Schedule) -> str:
        when, text = (arguments.when or "").strip(), (arguments.text or "").strip()
        if not when or not text:
            return "To add something, give when and text. Nothing was scheduled."
        if len(when) > WHEN_CHARS_MAX or len(text) > TEXT_CHARS_MAX:
            return f"The text has at most {TEXT_CHARS_MAX} characters. Nothing was scheduled."
        try:
            self._scheduler.check(when, arguments.timezone or "UTC")
        except InputRefused as error:
            return str(error)
        return ""

    async def _add(self, arguments: _Schedule, context: ToolContext) -> str:
        if refusal := self._refusal(arguments):
            raise ToolRefused(refusal)
        when, text = (arguments.when or "").strip(), (arguments.text or "").strip()
        id = await self._scheduler.add(
            Appointment(
                when=when,
                text=text,
                session=context.session,
                timezone=arguments.timezone or "UTC",
                key=context.key,
                person=context.person,
                origin=origin_of("conversation", untrusted=context.tainted, private=context.secret),
            )
        )
        return f"Scheduled as {id}: {when} ({arguments.timezone or 'UTC'})."

    async def _list(self, context: ToolContext) -> str:
        found = await self._scheduler.list(context.session)
        context.untrusted = context.untrusted or any(is_untrusted(one.origin) for one in found)
        context.private = context.private or any(is_private(one.origin) for one in found)
        lines = [_line(one) for one in found[:SHOWN_MAX]]
        if len(found) > SHOWN_MAX:
            lines.append(f"({len(found) - SHOWN_MAX} more are left out.)")
        return "\n".join(lines) or "Nothing is scheduled."


def _line(one: Appointment) -> str:
    text = " ".join(one.text.split())
    text = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
    return f"{one.id} {one.when} {one.timezone}: {text}"


def schedule_tool(scheduler: Scheduler) -> Tool:
    return Schedule(scheduler)
