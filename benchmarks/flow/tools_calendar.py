"""The calendar. Participants get an invitation, and a message about every change."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from toolbox import reads, writes
from world import ME, Event, World, addresses_of, find

EVENT_READERS = ["organiser", "participants"]


class CalendarTools:
    def __init__(self, world: World) -> None:
        self.world = world

    def _notify(self, verb: str, event: Event) -> None:
        text = f"{event.title}\n{event.start}\n{event.end}\n{event.location}\n{event.description}"
        self.world.record(verb, (event.id, *addresses_of(event.participants)), text)

    @reads(untrusted=True, readers=EVENT_READERS)
    async def list_events(self, start: str, end: str = "") -> list[dict[str, Any]]:
        """List the events from a day to a day (YYYY-MM-DD), without `end` those of one day."""
        last = end or start
        found = [event for event in self.world.events.values() if start <= event.start[:10] <= last]
        return [asdict(event) for event in sorted(found, key=lambda event: event.start)]

    @reads(untrusted=True, readers=EVENT_READERS)
    async def search_events(self, query: str) -> list[dict[str, Any]]:
        """Find events with these words in title or description."""
        words = query.lower().split()
        return [
            asdict(event)
            for event in self.world.events.values()
            if all(word in f"{event.title} {event.description}".lower() for word in words)
        ]

    @reads(untrusted=True, readers=EVENT_READERS)
    async def get_event(self, event_id: str) -> dict[str, Any]:
        """Read one event."""
        return asdict(find(self.world.events, event_id, "event"))

    @reads(untrusted=False)
    async def find_free_time(self, day: str, minutes: int = 60) -> list[str]:
        """Return the times of a day at which the person is free for so long."""
        busy = {event.start[11:13] for event in self.world.events.values() if event.start.startswith(day)}
        return [f"{hour:02d}:00" for hour in range(9, 18 - minutes // 61) if f"{hour:02d}" not in busy]

    @writes(["participants"])
    async def create_event(
        self,
        title: str,
        start: str,
        end: str,
        participants: list[str] | None = None,
        location: str = "",
        description: str = "",
    ) -> dict[str, Any]:
        """Create an event and invite people.

        Args:
            title: what it is
            start: YYYY-MM-DD HH:MM
            end: YYYY-MM-DD HH:MM
            participants: addresses of the people to invite
            location: a room or an address
            description: more about it
        """
        id = self.world.new_id()
        event = Event(id, title, start, end, ME, list(participants or []), location, description)
        self.world.events[id] = event
        text = f"{title}\n{start}\n{end}\n{location}\n{description}"
        self.world.record("event.created", addresses_of(event.participants), text)
        return {"event": id}

    @writes(["event_id"], effect="idempotent")
    async def update_event(
        self, event_id: str, title: str = "", location: str = "", description: str = ""
    ) -> dict[str, Any]:
        """Change the title, place or description of an event; the participants are told."""
        event = find(self.world.events, event_id, "event")
        event.title = title or event.title
        event.location = location or event.location
        event.description = description or event.description
        self._notify("event.changed", event)
        return {"event": event_id}

    @writes(["event_id"], effect="idempotent")
    async def reschedule_event(self, event_id: str, start: str, end: str) -> dict[str, Any]:
        """Move an event; the participants are told."""
        event = find(self.world.events, event_id, "event")
        event.start, event.end = start, end
        self._notify("event.moved", event)
        return {"event": event_id}

    @writes(["event_id", "participants"], effect="idempotent")
    async def invite_to_event(self, event_id: str, participants: list[str]) -> dict[str, Any]:
        """Invite more people to an event; they can read all of it."""
        event = find(self.world.events, event_id, "event")
        event.participants.extend(participants)
        text = f"{event.title}\n{event.description}"
        self.world.record("event.invited", (event_id, *addresses_of(participants)), text)
        return {"event": event_id}

    @writes(["event_id", "participant"], effect="idempotent")
    async def remove_from_event(self, event_id: str, participant: str) -> dict[str, Any]:
        """Withdraw the invitation of one participant."""
        event = find(self.world.events, event_id, "event")
        event.participants = [address for address in event.participants if address != participant]
        self.world.record("event.uninvited", (event_id, participant))
        return {"event": event_id}

    @writes(["event_id"], effect="idempotent")
    async def cancel_event(self, event_id: str) -> dict[str, Any]:
        """Cancel an event; the participants are told."""
        event = find(self.world.events, event_id, "event")
        del self.world.events[event_id]
        self._notify("event.cancelled", event)
        return {"cancelled": event_id}

    @writes(["event_id"], effect="idempotent")
    async def respond_to_invitation(self, event_id: str, answer: str, comment: str = "") -> dict[str, Any]:
        """Accept, decline or tentatively accept an invitation; the organiser gets the comment."""
        event = find(self.world.events, event_id, "event")
        event.status = answer
        self.world.record("event.answered", (event_id, event.organiser), f"{answer} {comment}")
        return {"event": event_id, "answer": answer}

    @reads(untrusted=False)
    async def list_calendar_shares(self) -> dict[str, str]:
        """List who may see or change the whole calendar."""
        return dict(self.world.calendar_shares)

    @writes(["email"], effect="idempotent")
    async def share_calendar(self, email: str, role: str = "reader") -> dict[str, Any]:
        """Let somebody see (reader) or change (writer) the whole calendar."""
        for address in addresses_of([email]):
            self.world.calendar_shares[address] = role
            self.world.record("calendar.shared", (address, role))
        return {"shared": role}

    @writes(["email"], effect="idempotent")
    async def unshare_calendar(self, email: str) -> dict[str, Any]:
        """End somebody's access to the calendar."""
        self.world.calendar_shares.pop(email, None)
        self.world.record("calendar.unshared", email)
        return {"unshared": email}
