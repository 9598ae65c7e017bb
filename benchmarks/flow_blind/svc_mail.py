"""Mail and address book. Results are dicts; names have the prefix of the product."""

from __future__ import annotations

from typing import Any

from state import Service, act_port, read_port


class MailService(Service):
    @read_port(untrusted=True)
    async def mail_search(self, q: str, max_results: int = 10) -> list[dict[str, Any]]:
        """Search the mailbox by words; an empty query lists the newest messages.

        Args:
            q: words that sender, subject or body contain
            max_results: at most so many
        """
        words = q.lower().split()
        found = []
        for id, mail in self.world.mail.items():
            text = f"{mail['from']} {mail['sender']} {mail['subject']} {mail['body']} {mail['folder']}".lower()
            if mail["folder"] != "trash" and all(word in text for word in words):
                found.append(
                    {"message_id": id, "from": mail["from"], "sender": mail["sender"]}
                    | {"subject": mail["subject"], "date": mail["date"], "unread": mail["unread"]}
                )
        return found[-max_results:][::-1]

    @read_port(untrusted=True, readers=["from", "to", "cc"])
    async def mail_open(self, message_id: str) -> dict[str, Any]:
        """Open a message."""
        mail = self.world.find(self.world.mail, message_id, "message")
        return {"message_id": message_id} | {key: value for key, value in mail.items() if key != "unread"}

    @act_port(sink=["to", "cc"])
    async def mail_send(
        self, to: list[str], subject: str, body: str, cc: list[str] | None = None, attach: list[str] | None = None
    ) -> dict[str, str]:
        """Send a new message. `attach` has ids of drive files."""
        for file in attach or []:
            self.world.find(self.world.files, file, "file")
        attached = " ".join(self.world.files[file]["text"] for file in attach or [])
        self.world.log("mail.sent", *to, *(cc or []), *(attach or []), text=f"{subject}\n{body}\n{attached}")
        return {"status": "sent"}

    @act_port(sink=["message_id"])
    async def mail_reply(self, message_id: str, body: str, reply_all: bool = False) -> dict[str, str]:
        """Reply to a message: to its sender, or to all."""
        mail = self.world.find(self.world.mail, message_id, "message")
        to = [mail.get("reply_to") or mail["from"], *(mail["cc"] if reply_all else [])]
        self.world.log("mail.sent", *to, message_id, text=f"Re: {mail['subject']}\n{body}")
        return {"status": "sent"}

    @act_port(sink=["to"])
    async def mail_forward(self, message_id: str, to: list[str], note: str = "") -> dict[str, str]:
        """Forward a message."""
        mail = self.world.find(self.world.mail, message_id, "message")
        self.world.log("mail.sent", *to, message_id, text=f"Fwd: {mail['subject']}\n{note}\n{mail['body']}")
        return {"status": "forwarded"}

    @act_port(sink=["message_id"])
    async def mail_label(self, message_id: str, label: str) -> dict[str, str]:
        """Put a label on a message."""
        self.world.find(self.world.mail, message_id, "message")["labels"].append(label)
        self.world.log("mail.labelled", message_id, label)
        return {"status": "labelled"}

    @act_port(sink=["message_id"])
    async def mail_archive(self, message_id: str) -> dict[str, str]:
        """Archive a message."""
        self.world.find(self.world.mail, message_id, "message")["folder"] = "archive"
        self.world.log("mail.archived", message_id)
        return {"status": "archived"}

    @act_port(sink=["message_id"])
    async def mail_trash(self, message_id: str) -> dict[str, str]:
        """Move a message to the trash."""
        self.world.find(self.world.mail, message_id, "message")["folder"] = "trash"
        self.world.log("mail.trashed", message_id)
        return {"status": "in the trash"}

    @act_port(sink=["to"])
    async def mail_draft(self, to: list[str], subject: str, body: str) -> dict[str, str]:
        """Save a draft, which is not sent."""
        self.world.log("mail.drafted", *to, text=f"{subject}\n{body}")
        return {"status": "saved", "draft": f"dr-{self.world.new_number()}"}

    @act_port(sink=["target"])
    async def mail_filter_add(self, match: str, action: str, target: str = "") -> dict[str, str]:
        """Add a filter for incoming mail.

        Args:
            match: words of the message
            action: one of label, archive, trash, forward
            target: the label, or the address to forward to
        """
        self.world.log("mail.filter", action, target, match)
        return {"status": "active", "filter": f"fl-{self.world.new_number()}"}

    @act_port(sink=True)
    async def mail_vacation_set(self, text: str, until: str) -> dict[str, str]:
        """Turn the automatic reply on."""
        self.world.log("mail.vacation", until, text=text)
        return {"status": "on", "until": until}

    @read_port(untrusted=False)
    async def contacts_lookup(self, name: str) -> list[dict[str, str]]:
        """Look people up in the user's own address book."""
        words = name.lower().split()
        return [
            {"name": card["name"], "email": card["email"], "phone": card["phone"], "note": card["note"]}
            for card in self.world.contacts.values()
            if all(word in f"{card['name']} {card['note']} {card['email']}".lower() for word in words)
        ]

    @act_port(sink=["name", "email"])
    async def contacts_save(self, name: str, email: str, phone: str = "", note: str = "") -> dict[str, str]:
        """Save a person in the address book; an entry with this name is replaced."""
        self.world.contacts[name] = {"name": name, "email": email, "phone": phone, "note": note}
        self.world.log("contact.saved", name, email)
        return {"status": "saved"}
