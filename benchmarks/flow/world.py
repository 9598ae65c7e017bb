"""The simulated services of one person's assistant: mail, calendar, files, chat, travel, bank, tracker and web.

A `World` is all state of one case. Every change and everything that leaves is also written to `World.ledger`, so an
effect can be judged without knowing which tool caused it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import getaddresses
from typing import TypeVar

T = TypeVar("T")

ME = "mara.lindqvist@holloway-tidal.example"
MY_NAME = "Mara Lindqvist"
MY_HANDLE = "mara"
TODAY = "2026-05-12"


@dataclass
class Contact:
    id: str
    name: str
    email: str
    phone: str = ""
    note: str = ""


@dataclass
class Mail:
    id: str
    sender: str
    sender_name: str
    recipients: list[str]
    subject: str
    body: str
    date: str
    cc: list[str] = field(default_factory=list)
    folder: str = "inbox"
    read: bool = True
    labels: list[str] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)


@dataclass
class Draft:
    id: str
    to: list[str]
    subject: str
    body: str


@dataclass
class MailRule:
    id: str
    match: str
    action: str
    target: str


@dataclass
class Event:
    id: str
    title: str
    start: str
    end: str
    organiser: str = ME
    participants: list[str] = field(default_factory=list)
    location: str = ""
    description: str = ""
    status: str = "confirmed"


@dataclass
class File:
    id: str
    name: str
    content: str
    owner: str = ME
    folder: str = "My files"
    collaborators: dict[str, str] = field(default_factory=dict)
    public_link: bool = False
    comments: list[str] = field(default_factory=list)


@dataclass
class Note:
    id: str
    title: str
    body: str


@dataclass
class ChatUser:
    handle: str
    display_name: str
    email: str
    title: str = ""


@dataclass
class Channel:
    name: str
    members: list[str]
    private: bool = False
    topic: str = ""
    external: bool = False


@dataclass
class Message:
    id: str
    channel: str  # a channel's name, or "@handle" for direct messages with that user
    author: str
    text: str
    date: str


@dataclass
class Hotel:
    name: str
    city: str
    price: float
    rating: float
    description: str
    contact: str
    reviews: list[str] = field(default_factory=list)
    booking_error: str = ""


@dataclass
class Restaurant:
    name: str
    city: str
    cuisine: str
    description: str
    reviews: list[str] = field(default_factory=list)


@dataclass
class Flight:
    id: str
    origin: str
    destination: str
    date: str
    departs: str
    price: float
    airline: str


@dataclass
class Booking:
    id: str
    kind: str
    what: str
    dates: str
    details: str = ""
    messages: list[str] = field(default_factory=list)


@dataclass
class Account:
    id: str
    name: str
    iban: str
    balance: float


@dataclass
class Transaction:
    id: str
    account: str
    date: str
    counterparty: str
    iban: str
    amount: float
    reference: str


@dataclass
class Payee:
    id: str
    name: str
    iban: str


@dataclass
class ScheduledTransfer:
    id: str
    name: str
    iban: str
    amount: float
    day: str
    reference: str
    repeats: str = "monthly"


@dataclass
class Card:
    id: str
    label: str
    limit: float
    frozen: bool = False


@dataclass
class Issue:
    id: str
    repo: str
    title: str
    body: str
    author: str
    state: str = "open"
    assignee: str = ""
    labels: list[str] = field(default_factory=list)
    comments: list[dict[str, str]] = field(default_factory=list)


@dataclass
class Pull:
    id: str
    repo: str
    title: str
    body: str
    author: str
    branch: str
    state: str = "open"
    comments: list[dict[str, str]] = field(default_factory=list)


@dataclass
class Commit:
    sha: str
    repo: str
    author: str
    message: str
    date: str


@dataclass
class Repo:
    name: str
    visibility: str
    collaborators: dict[str, str]
    files: dict[str, str]
    branches: list[str]
    webhooks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Entry:
    """One change, or one thing that left. `targets`: who or what; `text`: everything that it carried."""

    verb: str
    targets: tuple[str, ...]
    text: str = ""


@dataclass
class World:
    contacts: dict[str, Contact] = field(default_factory=dict)
    mails: dict[str, Mail] = field(default_factory=dict)
    drafts: dict[str, Draft] = field(default_factory=dict)
    mail_rules: dict[str, MailRule] = field(default_factory=dict)
    auto_reply: str = ""
    signature: str = "Mara Lindqvist, Operations, Holloway Tidal"
    events: dict[str, Event] = field(default_factory=dict)
    calendar_shares: dict[str, str] = field(default_factory=dict)
    files: dict[str, File] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)
    users: dict[str, ChatUser] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)
    messages: dict[str, Message] = field(default_factory=dict)
    chat_status: str = ""
    hotels: dict[str, Hotel] = field(default_factory=dict)
    restaurants: dict[str, Restaurant] = field(default_factory=dict)
    flights: dict[str, Flight] = field(default_factory=dict)
    bookings: dict[str, Booking] = field(default_factory=dict)
    traveller: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, Account] = field(default_factory=dict)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    payees: dict[str, Payee] = field(default_factory=dict)
    scheduled: dict[str, ScheduledTransfer] = field(default_factory=dict)
    cards: dict[str, Card] = field(default_factory=dict)
    bank_profile: dict[str, str] = field(default_factory=dict)
    repos: dict[str, Repo] = field(default_factory=dict)
    issues: dict[str, Issue] = field(default_factory=dict)
    pulls: dict[str, Pull] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    ledger: list[Entry] = field(default_factory=list)
    next_number: int = 900

    def record(self, verb: str, targets: str | Iterable[str], text: str = "") -> None:
        """Write a change to the ledger."""
        named = (targets,) if isinstance(targets, str) else tuple(targets)
        self.ledger.append(Entry(verb, named, text))

    def new_id(self, prefix: str = "") -> str:
        """Return the id of a new record; ids count up, so scripts know them in advance."""
        self.next_number += 1
        return f"{prefix}{self.next_number}"


def addresses_of(fields: Iterable[str]) -> list[str]:
    """Return the addresses a mail server would deliver to: names removed, lists split, case folded.

    A line break in a field starts another header, as in a careless mail library.
    """
    parts = [piece for field_ in fields for piece in re.split(r"[\r\n;]+(?:b?cc:|to:)?", field_, flags=re.IGNORECASE)]
    found = (address for _, address in getaddresses(parts) if address)
    return list(dict.fromkeys(address.strip().rstrip(".").lower() for address in found))


def find(records: Mapping[str, T], id: str, kind: str) -> T:
    """Return the record, or raise the error the service would answer with."""
    if id not in records:
        raise ValueError(f"there is no {kind} {id!r}")
    return records[id]
