"""The calendar. Names are camelCase and results are dataclasses, as in a port of a Java client."""

from __future__ import annotations

from dataclasses import dataclass

from state import Record, Service, act_port, read_port


@dataclass
class CalendarEntry:
    entryId: int
    title: str
    start: str
    end: str
    location: str
    description: str
    organizer: str
    guests: list[str]
    myResponse: str


@dataclass
class BusySlot:
    start: str
    end: str


class CalendarService(Service):
    def _view(self, id: int, entry: Record) -> CalendarEntry:
        return CalendarEntry(
            id,
            entry["title"],
            entry["start"],
            entry["end"],
            entry["location"],
            entry["description"],
            entry["organizer"],
            list(entry["guests"]),
            entry["response"],
        )

    @read_port(untrusted=True, readers=["guests", "organizer"])
    async def listCalendarEntries(self, fromDate: str, toDate: str) -> list[CalendarEntry]:
        """List the entries between two dates (YYYY-MM-DD, both included)."""
        return [
            self._view(id, entry)
            for id, entry in sorted(self.world.entries.items(), key=lambda item: str(item[1]["start"]))
            if fromDate <= entry["start"][:10] <= toDate
        ]

    @read_port(untrusted=True, readers=["guests", "organizer"])
    async def findCalendarEntry(self, text: str) -> list[CalendarEntry]:
        """Find entries by words of their title, place, description, organizer or guests."""
        words = text.lower().split()
        return [
            self._view(id, entry)
            for id, entry in self.world.entries.items()
            if all(
                word
                in f"{entry['title']} {entry['location']} {entry['description']} {entry['organizer']} "
                f"{' '.join(entry['guests'])}".lower()
                for word in words
            )
        ]

    @act_port(sink=["guests"])
    async def createCalendarEntry(
        self,
        title: str,
        start: str,
        end: str,
        guests: list[str] | None = None,
        location: str = "",
        description: str = "",
    ) -> CalendarEntry:
        """Create an entry and send invitations to the guests.

        Args:
            title: what it is
            start: YYYY-MM-DDTHH:MM
            end: YYYY-MM-DDTHH:MM
            guests: mail addresses
            location: where
            description: more
        """
        id = self.world.new_number()
        entry = {"title": title, "start": start, "end": end, "location": location, "description": description}
        entry |= {"organizer": "theo.lindqvist@nordlicht.example", "guests": list(guests or []), "response": "accepted"}
        self.world.entries[id] = entry
        self.world.log("event.created", title, start, *(guests or []), text=f"{title}\n{location}\n{description}")
        return self._view(id, entry)

    @act_port(sink=["entryId"])
    async def updateCalendarEntry(
        self,
        entryId: int,
        start: str | None = None,
        end: str | None = None,
        title: str | None = None,
        location: str | None = None,
        description: str | None = None,
    ) -> CalendarEntry:
        """Change an entry; what is not given stays."""
        entry = self.world.find(self.world.entries, entryId, "entry")
        given = {"start": start, "end": end, "title": title, "location": location, "description": description}
        changed = {key: value for key, value in given.items() if value is not None}
        entry.update(changed)
        self.world.log("event.updated", entryId, text=" ".join(f"{key}={value}" for key, value in changed.items()))
        return self._view(entryId, entry)

    @act_port(sink=["entryId"])
    async def deleteCalendarEntry(self, entryId: int) -> bool:
        """Delete an entry; its guests are told."""
        entry = self.world.find(self.world.entries, entryId, "entry")
        del self.world.entries[entryId]
        self.world.log("event.deleted", entryId, entry["title"])
        return True

    @act_port(sink=["entryId", "guests"])
    async def inviteToCalendarEntry(self, entryId: int, guests: list[str]) -> CalendarEntry:
        """Invite more guests."""
        entry = self.world.find(self.world.entries, entryId, "entry")
        entry["guests"] += guests
        self.world.log("event.invited", entryId, *guests, text=f"{entry['title']} {entry['description']}")
        return self._view(entryId, entry)

    @act_port(sink=["entryId"])
    async def respondToInvitation(self, entryId: int, response: str, comment: str = "") -> bool:
        """Answer an invitation with accepted, declined or tentative."""
        entry = self.world.find(self.world.entries, entryId, "entry")
        entry["response"] = response
        self.world.log("event.answered", entryId, response, entry["organizer"], text=comment)
        return True

    @read_port(untrusted=False)
    async def freeBusy(self, person: str, day: str) -> list[BusySlot]:
        """When a colleague is busy on a day."""
        return [
            BusySlot(entry["start"], entry["end"])
            for entry in self.world.entries.values()
            if entry["start"].startswith(day) and (person in entry["guests"] or person == entry["organizer"])
        ]

    @act_port(sink=["withWhom"])
    async def shareCalendar(self, withWhom: str, access: str = "read") -> bool:
        """Give a person access to the whole calendar."""
        self.world.log("calendar.shared", withWhom, access)
        return True
