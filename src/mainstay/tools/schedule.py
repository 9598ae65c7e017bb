"""The `schedule` tool: prompts this conversation at a later time, once or by a cron schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mainstay.core.errors import InputRefused
from mainstay.core.memory_tiers import format_origin, is_private, is_untrusted
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations, ScheduledPrompt, Scheduler
from mainstay.io.path_resolver import shorten_for_message
from mainstay.tools.base import BuiltInTool, ToolArguments, ToolRefused
from mainstay.tools.dependencies import ToolDependencies

TEXT_CHARS_MAX = 8_000
WHEN_CHARS_MAX = 100
PROMPTS_SHOWN_MAX = 50
PROMPT_SHOWN_CHARS_MAX = 200


class _ScheduleArguments(ToolArguments, frozen=True):
    action: Literal["add", "list", "remove"]
    when: str | None = None
    text: str | None = None
    id: str | None = None
    timezone: str | None = None


class ScheduleTool(BuiltInTool):
    name = "schedule"
    description = (
        "Prompt yourself later: add (when: 2026-11-02T15:30 or five cron fields; text; timezone: Europe/Lisbon, "
        "default UTC), list, remove (id)."
    )
    arguments = _ScheduleArguments
    effect: Effect = "idempotent"
    sink: bool | tuple[str, ...] = True
    capabilities: tuple[str, ...] = ("schedule",)

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def reach(self, arguments: _ScheduleArguments, context: ToolContext) -> CallDestinations:
        """Adding and removing are sinks: a prompt of a later turn can make that turn act, with a person's rights."""
        match arguments.action:
            case "add" if self._find_problem(arguments):  # no approval for a call that will fail
                return CallDestinations()
            case "add":
                # no destinations: a word or a time that the user wrote does not make it the user's request
                return CallDestinations(sink=True, description=_describe_addition(arguments, context.person))
            case "remove":
                what = f"removes the scheduled prompt {shorten_for_message(arguments.id or '')}"
                return CallDestinations(sink=True, destinations=(arguments.id or "",), description=what)
            case _:
                return CallDestinations()

    def is_stated_by_user(
        self, arguments: _ScheduleArguments, turn_texts: Sequence[str], user_texts: Sequence[str]
    ) -> bool:
        """Return whether the user asked for this prompt in this turn, in their own words and for this time."""
        from mainstay.trust.own_reminders import is_own_reminder  # only schedules under taint need it

        when, text = (arguments.when or "").strip(), arguments.text or ""
        return arguments.action == "add" and is_own_reminder(when, text, turn_texts, user_texts)

    async def run(self, arguments: _ScheduleArguments, context: ToolContext) -> str:
        match arguments.action:
            case "add":
                return await self._add(arguments, context)
            case "remove":
                gone = await self._scheduler.remove(context.session, arguments.id or "")
                if not gone:
                    raise ToolRefused(
                        f"This session has no scheduled prompt {shorten_for_message(arguments.id or '')!r}."
                    )
                return f"Removed {shorten_for_message(arguments.id or '')}."
            case _:
                return await self._list(context)

    def _find_problem(self, arguments: _ScheduleArguments) -> str:
        when, text = (arguments.when or "").strip(), (arguments.text or "").strip()
        if not when or not text:
            return "To add something, give when and text. Nothing was scheduled."
        if len(when) > WHEN_CHARS_MAX or len(text) > TEXT_CHARS_MAX:
            return f"The text has at most {TEXT_CHARS_MAX} characters. Nothing was scheduled."
        try:
            self._scheduler.check_time(when, arguments.timezone or "UTC")
        except InputRefused as error:
            return str(error)
        return ""

    async def _add(self, arguments: _ScheduleArguments, context: ToolContext) -> str:
        if refusal := self._find_problem(arguments):
            raise ToolRefused(refusal)
        when, text = (arguments.when or "").strip(), (arguments.text or "").strip()
        id = await self._scheduler.add(
            ScheduledPrompt(
                when=when,
                text=text,
                session=context.session,
                timezone=arguments.timezone or "UTC",
                key=context.key,
                person=context.person,
                origin=format_origin("conversation", untrusted=context.tainted, private=context.has_private_content),
            )
        )
        return f"Scheduled as {id}: {when} ({arguments.timezone or 'UTC'})."

    async def _list(self, context: ToolContext) -> str:
        appointments = await self._scheduler.list(context.session)
        context.untrusted = context.untrusted or any(is_untrusted(appointment.origin) for appointment in appointments)
        context.private = context.private or any(is_private(appointment.origin) for appointment in appointments)
        lines = [_format_prompt(appointment) for appointment in appointments[:PROMPTS_SHOWN_MAX]]
        if len(appointments) > PROMPTS_SHOWN_MAX:
            lines.append(f"({len(appointments) - PROMPTS_SHOWN_MAX} more are left out.)")
        return "\n".join(lines) or "Nothing is scheduled."


def _describe_addition(arguments: _ScheduleArguments, person: str) -> str:
    when, text = shorten_for_message(arguments.when or ""), _shorten_text(arguments.text or "")
    zone = f" ({shorten_for_message(arguments.timezone)})" if arguments.timezone else ""
    speaker = shorten_for_message(person) if person else "the owner"
    return f"schedules a prompt to this session at {when}{zone}, which will speak as {speaker}: {text}"


def _format_prompt(appointment: ScheduledPrompt) -> str:
    return f"{appointment.id} {appointment.when} {appointment.timezone}: {_shorten_text(appointment.text)}"


def _shorten_text(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= PROMPT_SHOWN_CHARS_MAX else f"{text[:PROMPT_SHOWN_CHARS_MAX]}…"


def create_schedule_tool(scheduler: Scheduler) -> Tool:
    return ScheduleTool(scheduler)


def build(dependencies: ToolDependencies) -> Tool | None:
    scheduler = dependencies.scheduler
    return create_schedule_tool(scheduler) if scheduler is not None else None
