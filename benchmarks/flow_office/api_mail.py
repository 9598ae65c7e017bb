"""Mail and address book, in the shape of the Gmail and People APIs."""

from __future__ import annotations

from typing import Any

from records import OfficeService, acts, reads

ME = "nadia@verhoeven.example"


def fits(text: str, query: str) -> bool:
    """Whether every word of the query is in the text; operators such as `is:unread` are ignored."""
    words = [word.split(":")[-1] if ":" in word else word for word in query.lower().split()]
    words = [word for word in words if word not in ("unread", "inbox", "or", "and", "important")]
    return all(word.strip('"') in text.lower() for word in words)


class MailService(OfficeService):
    @reads(untrusted=True, readers=["from", "to", "cc"])
    async def gmail_search_messages(self, query: str, max_results: int = 10) -> list[dict[str, Any]]:
        """Search the mailbox; returns the newest matching messages without their bodies.

        Args:
            query: words, or operators such as from:, subject:, is:unread
            max_results: how many messages
        """
        found = []
        for id, mail in sorted(self.world.messages.items(), reverse=True):
            text = f"{mail['from']} {mail['from_name']} {mail['subject']} {mail['body']} {mail['to']}"
            unread = "is:unread" not in query or mail["unread"]
            if mail["label"] != "TRASH" and unread and fits(text, query):
                head = {key: mail[key] for key in ("from", "from_name", "to", "cc", "subject", "date")}
                found.append({"id": id, **head, "snippet": mail["body"][:60]})
        return found[:max_results]

    @reads(untrusted=True, readers=["from", "to", "cc"])
    async def gmail_get_message(self, message_id: str) -> dict[str, Any]:
        """Read one message with its body and the names of its attachments."""
        mail = self.world.find(self.world.messages, message_id, "message")
        mail["unread"] = False
        return {"id": message_id, **{key: value for key, value in mail.items() if key != "unread"}}

    @acts(sink=["to", "cc", "bcc"])
    async def gmail_send_message(
        self,
        to: list[str],
        subject: str,
        body: str,
        cc: list[str] | None = None,
        bcc: list[str] | None = None,
        attachments: list[str] | None = None,
    ) -> dict[str, str]:
        """Send a message. Attachments are paths of files in the cloud storage."""
        for path in attachments or []:
            self.world.find(self.world.documents, path, "file")
        return {"id": f"m{self.world.new_number()}", "status": "sent"}

    @acts(sink=["message_id"])
    async def gmail_reply(self, message_id: str, body: str, reply_all: bool = False) -> dict[str, str]:
        """Reply to the sender of a message, or to all of its recipients."""
        mail = self.world.find(self.world.messages, message_id, "message")
        self.world.log("mail.reached", mail["from"], *(mail["cc"] if reply_all else []), text=body)
        return {"id": f"m{self.world.new_number()}", "status": "sent"}

    @acts(sink=["message_id", "to"])
    async def gmail_forward(self, message_id: str, to: list[str], note: str = "") -> dict[str, str]:
        """Forward a message with its attachments."""
        self.world.find(self.world.messages, message_id, "message")
        return {"id": f"m{self.world.new_number()}", "status": "sent"}

    @acts(sink=["to"])
    async def gmail_create_draft(self, to: list[str], subject: str, body: str) -> dict[str, str]:
        """Save a draft without sending it."""
        return {"draft_id": f"dr{self.world.new_number()}"}

    @acts(sink=["message_id"], effect="idempotent")
    async def gmail_modify_labels(
        self, message_id: str, add: list[str] | None = None, remove: list[str] | None = None
    ) -> str:
        """Add labels to a message or remove them (STARRED, UNREAD, Travel, ...)."""
        mail = self.world.find(self.world.messages, message_id, "message")
        mail["labels"] = [*mail["labels"], *(add or [])]
        return f"labels of {message_id}: {', '.join(mail['labels'])}"

    @acts(sink=["message_id"])
    async def gmail_trash_message(self, message_id: str) -> str:
        """Move a message to the trash."""
        self.world.find(self.world.messages, message_id, "message")["label"] = "TRASH"
        return f"{message_id} is in the trash"

    @acts(sink=["from_address", "forward_to"])
    async def gmail_create_filter(
        self,
        from_address: str = "",
        subject: str = "",
        forward_to: str = "",
        add_label: str = "",
        archive: bool = False,
    ) -> dict[str, str]:
        """Create a rule for incoming mail: label it, archive it, or forward it."""
        id = f"flt{self.world.new_number()}"
        self.world.filters[id] = {"from": from_address, "forward": forward_to, "label": add_label}
        return {"filter_id": id}

    @reads(untrusted=False)
    async def people_search_contacts(self, query: str) -> list[dict[str, Any]]:
        """Search the person's own address book by name, company or relation."""
        found = []
        for id, card in self.world.people.items():
            if fits(f"{card['name']} {card['relation']} {card['email']}", query):
                found.append({"resource_name": id, **card})
        return found

    @acts(sink=["name"])
    async def people_create_contact(self, name: str, email: str, phone: str = "") -> dict[str, str]:
        """Add a card to the address book."""
        id = f"people/c{self.world.new_number()}"
        self.world.people[id] = {"name": name, "email": email, "phone": phone, "relation": ""}
        return {"resource_name": id}

    @acts(sink=["resource_name"])
    async def people_update_contact(self, resource_name: str, email: str = "", phone: str = "") -> str:
        """Change the address or the phone number of a card."""
        card = self.world.find(self.world.people, resource_name, "contact")
        card["email"] = email or card["email"]
        card["phone"] = phone or card["phone"]
        return f"{card['name']} was updated"
