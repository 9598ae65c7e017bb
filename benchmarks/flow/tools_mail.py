"""Mail and contacts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from toolbox import reads, writes
from world import ME, MY_NAME, TODAY, Contact, Draft, Mail, MailRule, World, addresses_of, find

MAIL_READERS = ["sender", "recipients", "cc"]


def summary_of(mail: Mail) -> dict[str, Any]:
    return {
        "id": mail.id,
        "sender": mail.sender,
        "sender_name": mail.sender_name,
        "recipients": mail.recipients,
        "cc": mail.cc,
        "subject": mail.subject,
        "date": mail.date,
        "read": mail.read,
    }


class MailTools:
    def __init__(self, world: World) -> None:
        self.world = world

    def _deliver(self, to: list[str], subject: str, body: str, attachments: list[str]) -> str:
        """Put a mail into the outbox and return its id."""
        world = self.world
        files = [find(world.files, id, "file") for id in attachments]
        recipients = addresses_of(to)
        if not recipients:
            raise ValueError("a mail needs a recipient")
        id = world.new_id("m-")
        world.mails[id] = Mail(
            id, ME, MY_NAME, recipients, subject, body, TODAY, folder="sent", attachments=list(attachments)
        )
        content = "\n".join(f"{file.name}\n{file.content}" for file in files)
        world.record("mail.sent", recipients, f"{subject}\n{body}\n{content}".strip())
        return id

    @reads(untrusted=True, readers=MAIL_READERS)
    async def list_mails(self, folder: str = "inbox", limit: int = 20) -> list[dict[str, Any]]:
        """List the newest mails of a folder (inbox, sent, archive, trash), without their bodies."""
        mails = [mail for mail in self.world.mails.values() if mail.folder == folder]
        return [summary_of(mail) for mail in sorted(mails, key=lambda mail: mail.date, reverse=True)[:limit]]

    @reads(untrusted=True, readers=MAIL_READERS)
    async def search_mails(self, query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Find mails with these words in sender, subject or body; returns them whole."""
        words = query.lower().split()
        found = []
        for mail in self.world.mails.values():
            text = f"{mail.sender} {mail.sender_name} {mail.subject} {mail.body}".lower()
            if mail.folder != "trash" and all(word in text for word in words):
                found.append(mail)
        return [asdict(mail) for mail in sorted(found, key=lambda mail: mail.date, reverse=True)[:limit]]

    @reads(untrusted=True, readers=MAIL_READERS)
    async def read_mail(self, mail_id: str) -> dict[str, Any]:
        """Read one mail."""
        return asdict(find(self.world.mails, mail_id, "mail"))

    @writes(["to", "cc", "bcc"])
    async def send_mail(
        self,
        to: list[str],
        subject: str,
        body: str,
        cc: list[str] | None = None,
        bcc: list[str] | None = None,
        attachments: list[str] | None = None,
    ) -> dict[str, Any]:
        """Send a mail.

        Args:
            to: addresses of the recipients
            subject: the subject
            body: plain text
            cc: addresses that get a copy
            bcc: addresses that get a blind copy
            attachments: ids of files in the drive
        """
        id = self._deliver([*to, *(cc or []), *(bcc or [])], subject, body, attachments or [])
        return {"sent": id}

    @writes(["mail_id"])
    async def reply_to_mail(self, mail_id: str, body: str, reply_all: bool = False) -> dict[str, Any]:
        """Answer a mail, to its sender or to everybody on it."""
        mail = find(self.world.mails, mail_id, "mail")
        others = [*mail.recipients, *mail.cc] if reply_all else []
        to = [mail.sender, *(address for address in others if address != ME)]
        return {"sent": self._deliver(to, f"Re: {mail.subject}", body, [])}

    @writes(["mail_id", "to"])
    async def forward_mail(self, mail_id: str, to: list[str], note: str = "") -> dict[str, Any]:
        """Forward a mail, with a note above it."""
        mail = find(self.world.mails, mail_id, "mail")
        return {"sent": self._deliver(to, f"Fwd: {mail.subject}", f"{note}\n---\n{mail.body}", mail.attachments)}

    @writes(["mail_id"], effect="idempotent")
    async def delete_mail(self, mail_id: str) -> dict[str, Any]:
        """Delete a mail for good."""
        find(self.world.mails, mail_id, "mail")
        del self.world.mails[mail_id]
        self.world.record("mail.deleted", mail_id)
        return {"deleted": mail_id}

    @writes(["mail_id", "folder"], effect="idempotent")
    async def move_mail(self, mail_id: str, folder: str) -> dict[str, Any]:
        """Move a mail to a folder: inbox, archive, spam or trash."""
        find(self.world.mails, mail_id, "mail").folder = folder
        self.world.record("mail.moved", (mail_id, folder))
        return {"moved": mail_id, "folder": folder}

    @writes(["mail_id"], effect="idempotent")
    async def label_mail(self, mail_id: str, label: str) -> dict[str, Any]:
        """Put a label on a mail."""
        find(self.world.mails, mail_id, "mail").labels.append(label)
        self.world.record("mail.labelled", (mail_id, label))
        return {"labelled": mail_id}

    @writes(["mail_id"], effect="idempotent")
    async def mark_mail_read(self, mail_id: str, read: bool = True) -> dict[str, Any]:
        """Mark a mail as read or unread."""
        find(self.world.mails, mail_id, "mail").read = read
        self.world.record("mail.marked", mail_id, str(read))
        return {"id": mail_id, "read": read}

    @writes(True)
    async def create_draft(self, to: list[str], subject: str, body: str) -> dict[str, Any]:
        """Write a draft that the person can look at and send."""
        id = self.world.new_id("d-")
        self.world.drafts[id] = Draft(id, to, subject, body)
        self.world.record("draft.created", addresses_of(to), f"{subject}\n{body}")
        return {"draft": id}

    @writes(["draft_id"])
    async def send_draft(self, draft_id: str) -> dict[str, Any]:
        """Send a draft."""
        draft = find(self.world.drafts, draft_id, "draft")
        sent = self._deliver(draft.to, draft.subject, draft.body, [])
        del self.world.drafts[draft_id]
        return {"sent": sent}

    @reads(untrusted=False)
    async def list_mail_rules(self) -> list[dict[str, Any]]:
        """List the rules for incoming mail."""
        return [asdict(rule) for rule in self.world.mail_rules.values()]

    @writes(["target"])
    async def create_mail_rule(self, match: str, action: str, target: str) -> dict[str, Any]:
        """Create a rule for incoming mail.

        Args:
            match: words in sender or subject; empty for all mail
            action: forward, move or delete
            target: the address or folder that mail goes to
        """
        id = self.world.new_id("rule-")
        self.world.mail_rules[id] = MailRule(id, match, action, target)
        self.world.record("mail_rule.created", (action, *(addresses_of([target]) or [target])), match)
        return {"rule": id}

    @writes(["rule_id"], effect="idempotent")
    async def delete_mail_rule(self, rule_id: str) -> dict[str, Any]:
        """Delete a rule for incoming mail."""
        find(self.world.mail_rules, rule_id, "rule")
        del self.world.mail_rules[rule_id]
        self.world.record("mail_rule.deleted", rule_id)
        return {"deleted": rule_id}

    @writes(True, effect="idempotent")
    async def set_auto_reply(self, text: str, until: str = "") -> dict[str, Any]:
        """Answer every incoming mail with this text; an empty text switches it off."""
        self.world.auto_reply = text
        self.world.record("auto_reply.set", until or "always", text)
        return {"auto_reply": bool(text)}

    @reads(untrusted=False)
    async def list_contacts(self) -> list[dict[str, Any]]:
        """List the person's address book."""
        return [asdict(contact) for contact in self.world.contacts.values()]

    @reads(untrusted=False)
    async def search_contacts(self, name: str) -> list[dict[str, Any]]:
        """Find people in the person's address book by a part of their name or address."""
        wanted = name.lower()
        return [asdict(c) for c in self.world.contacts.values() if wanted in f"{c.name} {c.email}".lower()]

    @writes(["email"])
    async def add_contact(self, name: str, email: str, phone: str = "") -> dict[str, Any]:
        """Add somebody to the address book."""
        id = self.world.new_id("c-")
        self.world.contacts[id] = Contact(id, name, email, phone)
        self.world.record("contact.added", (name, email), phone)
        return {"contact": id}

    @writes(["contact_id", "email"], effect="idempotent")
    async def update_contact(self, contact_id: str, email: str = "", phone: str = "") -> dict[str, Any]:
        """Change the address or phone number of a contact."""
        contact = find(self.world.contacts, contact_id, "contact")
        contact.email = email or contact.email
        contact.phone = phone or contact.phone
        self.world.record("contact.changed", (contact_id, email), phone)
        return {"contact": contact_id}

    @writes(["contact_id"], effect="idempotent")
    async def delete_contact(self, contact_id: str) -> dict[str, Any]:
        """Remove somebody from the address book."""
        find(self.world.contacts, contact_id, "contact")
        del self.world.contacts[contact_id]
        self.world.record("contact.deleted", contact_id)
        return {"deleted": contact_id}
