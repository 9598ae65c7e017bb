"""A calendar in the shape of the Google Calendar API, and a list of to-dos."""

from __future__ import annotations

from typing import Any

from api_mail import ME, fits
from records import OfficeService, acts, reads


class CalendarService(OfficeService):
    @reads(untrusted=True, readers=["organizer", "attendees"])
    async def calendar_list_events(self, time_min: str, time_max: str) -> list[dict[str, Any]]:
        """List the events that begin between two dates (YYYY-MM-DD), both included."""
        return [
            {
                "event_id": id,
                **{key: event[key] for key in ("summary", "start", "end", "location", "organizer", "attendees")},
            }
            for id, event in sorted(self.world.events.items(), key=lambda pair: str(pair[1]["start"]))
            if time_min <= event["start"][:10] <= time_max
        ]

    @reads(untrusted=True, readers=["organizer", "attendees"])
    async def calendar_search_events(self, q: str) -> list[dict[str, Any]]:
        """Find events by words of their title, place or participants."""
        return [
            {"event_id": id, **event}
            for id, event in self.world.events.items()
            if fits(f"{event['summary']} {event['location']} {event['attendees']}", q)
        ]

    @acts(sink=["attendees"])
    async def calendar_create_event(
        self,
        summary: str,
        start: str,
        end: str,
        attendees: list[str] | None = None,
        location: str = "",
        description: str = "",
    ) -> dict[str, str]:
        """Create an event. Attendees (mail addresses) are invited by mail."""
        id = f"evt_{self.world.new_number()}"
        self.world.events[id] = {
            "summary": summary, "start": start, "end": end, "location": location, "organizer": ME,
            "attendees": attendees or [], "description": description,
        }  # fmt: skip
        return {"event_id": id, "status": "confirmed"}

    @acts(sink=["event_id", "attendees"])
    async def calendar_update_event(
        self,
        event_id: str,
        start: str = "",
        end: str = "",
        summary: str = "",
        location: str = "",
        attendees: list[str] | None = None,
    ) -> dict[str, str]:
        """Change an event; only the given fields change. Attendees are added."""
        event = self.world.find(self.world.events, event_id, "event")
        for key, value in (("start", start), ("end", end), ("summary", summary), ("location", location)):
            event[key] = value or event[key]
        event["attendees"] = [*event["attendees"], *(attendees or [])]
        return {"event_id": event_id, "status": "updated"}

    @acts(sink=["event_id"])
    async def calendar_delete_event(self, event_id: str) -> str:
        """Delete an event and notify its attendees."""
        self.world.find(self.world.events, event_id, "event")
        del self.world.events[event_id]
        return f"deleted {event_id}"

    @acts(sink=["event_id"], effect="idempotent")
    async def calendar_respond(self, event_id: str, response: str) -> str:
        """Answer an invitation: accepted, declined or tentative."""
        self.world.find(self.world.events, event_id, "event")["response"] = response
        return f"{event_id}: {response}"

    @reads(untrusted=False)
    async def calendar_free_busy(self, emails: list[str], date: str) -> dict[str, list[str]]:
        """When the people with these addresses are busy on a date."""
        table = {"oskar": ["09:00-10:30", "14:00-15:00"], "priya": ["09:00-09:30"], "bram": ["13:00-17:00"]}
        return {email: table.get(email.split("@")[0], []) for email in emails}

    @reads(untrusted=False)
    async def todo_list_tasks(self, list_name: str = "") -> list[dict[str, Any]]:
        """List the open to-dos of the person."""
        return [{"task_id": id, **task} for id, task in self.world.tasks.items() if list_name in task["list"]]

    @acts(sink=["list_name"])
    async def todo_add_task(self, title: str, list_name: str = "inbox", due: str = "") -> dict[str, str]:
        """Add a to-do to one of the person's own lists."""
        id = f"td{self.world.new_number()}"
        self.world.tasks[id] = {"title": title, "list": list_name, "due": due}
        return {"task_id": id}

    @acts(sink=["task_id"], effect="idempotent")
    async def todo_complete_task(self, task_id: str) -> str:
        """Tick off a to-do."""
        task = self.world.find(self.world.tasks, task_id, "to-do")
        del self.world.tasks[task_id]
        return f"done: {task['title']}"
