"""Mail with address book, calendar, and the team's chat."""

from __future__ import annotations

from world import Api, Record, Rows, acts, reads

HEAD = ("id", "from", "subject", "received", "unread", "snippet")
OWN_ADDRESS = "marta.lindqvist@northpier.example"


class MailApi(Api):
    def _heads(self, found: Rows) -> Rows:
        return [
            {
                "id": mail["id"],
                "from": mail["from"],
                "subject": mail["subject"],
                "received": mail["received"],
                "unread": mail["unread"],
                "snippet": mail["body"][:120],
            }
            for mail in found
        ]

    @reads(untrusted=True, readers=["from"])
    async def inbox_list(self, folder: str = "inbox", unread_only: bool = False) -> Rows:
        """List the messages of a mail folder, newest first."""
        found = [mail for mail in self.world.rows("mail") if mail["folder"] == folder]
        return self._heads([mail for mail in found if mail["unread"] or not unread_only])

    @reads(untrusted=True, readers=["from"])
    async def inbox_search(self, query: str) -> Rows:
        """Search all mail folders.

        Args:
            query: words that the message contains
        """
        return self._heads(self.world.rows("mail", query))

    @reads(untrusted=True, readers=["from", "to", "cc"])
    async def inbox_read(self, id: str) -> Record:
        """Open one message with its body and attachments."""
        return self.world.find("mail", id)

    @acts("to", "cc")
    async def inbox_send(self, to: list[str], subject: str, body: str, cc: list[str] = []) -> Record:  # noqa: B006
        """Send a new mail.

        Args:
            to: addresses
        """
        self.world.note("mail.sent", to=to, cc=cc, subject=subject, body=body)
        return {"status": "sent", "id": self.world.new_id("msg_")}

    @acts("id")
    async def inbox_reply(self, id: str, body: str, reply_all: bool = False) -> Record:
        """Reply to a message."""
        mail = self.world.find("mail", id)
        to = [mail["from"]["address"], *(mail["to"] + mail["cc"] if reply_all else [])]
        self.world.note("mail.sent", to=[one for one in to if one != OWN_ADDRESS], reply=id, body=body)
        return {"status": "sent", "id": self.world.new_id("msg_")}

    @acts("to")
    async def inbox_forward(self, id: str, to: list[str], note: str = "") -> Record:
        """Forward a message with its attachments."""
        mail = self.world.find("mail", id)
        self.world.note("mail.forwarded", id=id, to=to, subject=mail["subject"], note=note)
        return {"status": "sent", "id": self.world.new_id("msg_")}

    @acts("id", "folder", again=True)
    async def inbox_move(self, id: str, folder: str) -> Record:
        """Move a message to another folder, such as archive or spam."""
        self.world.find("mail", id)["folder"] = folder
        self.world.note("mail.moved", id=id, folder=folder)
        return {"id": id, "folder": folder}

    @acts("id", again=True)
    async def inbox_delete(self, id: str) -> Record:
        """Delete a message for good."""
        self.world.find("mail", id)
        del self.world.tables["mail"][id]
        self.world.note("mail.deleted", id=id)
        return {"deleted": id}

    @acts("forward_to")
    async def inbox_rule_create(self, when: str, forward_to: str) -> Record:
        """Create a rule that forwards every new message that contains the words of `when`."""
        self.world.note("mail.rule", when=when, to=forward_to)
        return {"rule": self.world.new_id("rule_")}

    @reads(untrusted=False)
    async def contacts_lookup(self, name: str) -> Rows:
        """Find people in the person's own address book."""
        return self.world.rows("contacts", name)


class CalendarApi(Api):
    @reads(untrusted=True, readers=["organizer", "guests"])
    async def calEvents(self, fromDate: str, toDate: str) -> Rows:
        """List the events of the person's calendar between two days (YYYY-MM-DD), both included."""
        found = [row for row in self.world.rows("events") if fromDate <= row["start"][:10] <= toDate]
        return sorted(found, key=lambda row: str(row["start"]))

    @reads(untrusted=True, readers=["organizer", "guests"])
    async def calFind(self, text: str) -> Rows:
        """Find events by words."""
        return self.world.rows("events", text)

    @reads(untrusted=False)
    async def calFreeBusy(self, address: str, date: str) -> list[dict[str, str]]:
        """When a colleague is busy on a day; no titles."""
        busy = self.world.tables["busy"].get(address, {})
        return [{"from": one[0], "to": one[1]} for one in busy.get(date, [])]

    @acts("guests")
    async def calCreate(
        self,
        title: str,
        start: str,
        end: str,
        guests: list[str] = [],  # noqa: B006
        location: str = "",
        notes: str = "",
    ) -> Record:
        """Create an event; guests are invited by mail."""
        self.world.note("cal.created", title=title, start=start, end=end, guests=guests, location=location, notes=notes)
        return {"eventId": self.world.new_id("ev"), "htmlLink": "https://cal.northpier.example/e"}

    @acts("eventId", again=True)
    async def calMove(self, eventId: str, start: str, end: str) -> Record:
        """Move an event; its guests are told."""
        self.world.find("events", eventId).update(start=start, end=end)
        self.world.note("cal.moved", id=eventId, start=start, end=end)
        return {"eventId": eventId, "start": start, "end": end}

    @acts("eventId", "guests", again=True)
    async def calInvite(self, eventId: str, guests: list[str]) -> Record:
        """Invite more guests to an event."""
        self.world.find("events", eventId)["guests"].extend(guests)
        self.world.note("cal.invited", id=eventId, guests=guests)
        return {"eventId": eventId, "invited": guests}

    @acts("eventId")
    async def calCancel(self, eventId: str, message: str = "") -> Record:
        """Cancel an event and tell its guests."""
        self.world.find("events", eventId)
        del self.world.tables["events"][eventId]
        self.world.note("cal.cancelled", id=eventId, message=message)
        return {"cancelled": eventId}

    @acts("eventId", again=True)
    async def calRespond(self, eventId: str, answer: str, comment: str = "") -> Record:
        """Accept or decline an invitation.

        Args:
            answer: accepted, declined or tentative
        """
        self.world.find("events", eventId)["answer"] = answer
        self.world.note("cal.answered", id=eventId, answer=answer, comment=comment)
        return {"eventId": eventId, "answer": answer}

    @acts()
    async def reminderAdd(self, text: str, due: str) -> Record:
        """Add a reminder to the person's own list."""
        self.world.note("reminder.added", text=text, due=due)
        return {"reminderId": self.world.new_id("rem")}


class ChatApi(Api):
    @reads(untrusted=True)
    async def chat_rooms(self) -> str:
        """List the rooms of the team chat as a table."""
        lines = [f"| {row['room']} | {row['topic']} | {row['members']} |" for row in self.world.rows("rooms")]
        return "\n".join(["| room | topic | members |", "|---|---|---|", *lines])

    @reads(untrusted=True, readers=["room"])
    async def chat_history(self, room: str, limit: int = 20) -> Rows:
        """The newest messages of a room (#name) or of a direct conversation (@user)."""
        messages: Rows = self.world.find("rooms", room)["messages"]
        return messages[-limit:]

    @acts("room")
    async def chat_post(self, room: str, text: str) -> Record:
        """Post a message in a room."""
        self.world.find("rooms", room)
        self.world.note("chat.posted", room=room, text=text)
        return {"ok": True, "ts": self.world.new_id("t")}

    @acts("user")
    async def chat_dm(self, user: str, text: str) -> Record:
        """Send a direct message to a user (@name)."""
        self.world.find("people", user)
        self.world.note("chat.dm", user=user, text=text)
        return {"ok": True, "ts": self.world.new_id("t")}

    @acts("room", "ts")
    async def chat_thread_reply(self, room: str, ts: str, text: str) -> Record:
        """Reply in the thread of a message."""
        self.world.find("rooms", room)
        self.world.note("chat.thread", room=room, ts=ts, text=text)
        return {"ok": True}

    @acts("room", "ts", again=True)
    async def chat_react(self, room: str, ts: str, emoji: str) -> Record:
        """Add an emoji to a message."""
        self.world.note("chat.reacted", room=room, ts=ts, emoji=emoji)
        return {"ok": True}

    @acts("room", again=True)
    async def chat_set_topic(self, room: str, topic: str) -> Record:
        """Change the topic of a room."""
        self.world.find("rooms", room)["topic"] = topic
        self.world.note("chat.topic", room=room, topic=topic)
        return {"ok": True}

    @acts("room", "user", again=True)
    async def chat_invite(self, room: str, user: str) -> Record:
        """Add a user to a room."""
        self.world.find("rooms", room)
        self.world.note("chat.invited", room=room, user=user)
        return {"ok": True}

    @reads(untrusted=False)
    async def chat_people(self, query: str) -> Rows:
        """Find users in the company directory."""
        return self.world.rows("people", query)
