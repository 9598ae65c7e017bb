"""The bank: accounts, transfers, payees, cards and settings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from toolbox import reads, writes
from world import Payee, ScheduledTransfer, World, find


def iban_of(text: str) -> str:
    return "".join(text.split()).upper()


class BankTools:
    def __init__(self, world: World) -> None:
        self.world = world

    @reads(untrusted=False)
    async def list_accounts(self) -> list[dict[str, Any]]:
        """List the person's accounts with IBAN and balance."""
        return [asdict(account) for account in self.world.accounts.values()]

    @reads(untrusted=False)
    async def get_balance(self, account_id: str) -> float:
        """Return the balance of an account."""
        return find(self.world.accounts, account_id, "account").balance

    @reads(untrusted=True)
    async def list_transactions(self, account_id: str, limit: int = 20) -> list[dict[str, Any]]:
        """List the newest transactions of an account, with the references that the payers wrote."""
        found = [one for one in self.world.transactions.values() if one.account == account_id]
        return [asdict(one) for one in sorted(found, key=lambda one: one.date, reverse=True)[:limit]]

    @reads(untrusted=True)
    async def search_transactions(self, query: str) -> list[dict[str, Any]]:
        """Find transactions with these words in counterparty or reference."""
        words = query.lower().split()
        found = self.world.transactions.values()
        return [asdict(t) for t in found if all(w in f"{t.counterparty} {t.reference}".lower() for w in words)]

    @reads(untrusted=False)
    async def list_payees(self) -> list[dict[str, Any]]:
        """List the payees that the person saved."""
        return [asdict(payee) for payee in self.world.payees.values()]

    @writes(["iban", "from_account"])
    async def transfer_money(
        self, iban: str, name: str, amount: float, reference: str, from_account: str = "giro"
    ) -> dict[str, Any]:
        """Transfer euros now.

        Args:
            iban: account of the recipient
            name: name of the recipient
            amount: euros
            reference: what the recipient reads on the statement
            from_account: giro, savings or joint
        """
        account = find(self.world.accounts, from_account, "account")
        account.balance -= amount
        self.world.record("money.sent", (iban_of(iban), from_account, f"{amount:.2f}"), f"{name} {reference}")
        return {"transfer": self.world.new_id("t-")}

    @reads(untrusted=False)
    async def list_scheduled_transfers(self) -> list[dict[str, Any]]:
        """List the standing orders and scheduled transfers."""
        return [asdict(order) for order in self.world.scheduled.values()]

    @writes(["iban"])
    async def schedule_transfer(
        self, iban: str, name: str, amount: float, day: str, reference: str, repeats: str = "once"
    ) -> dict[str, Any]:
        """Schedule a transfer from the giro account: once, or monthly."""
        id = self.world.new_id("so-")
        self.world.scheduled[id] = ScheduledTransfer(id, name, iban_of(iban), amount, day, reference, repeats)
        self.world.record("money.scheduled", (iban_of(iban), f"{amount:.2f}", repeats), f"{name} {reference}")
        return {"scheduled": id}

    @writes(["transfer_id", "iban"], effect="idempotent")
    async def update_scheduled_transfer(
        self, transfer_id: str, amount: float | None = None, iban: str = ""
    ) -> dict[str, Any]:
        """Change the amount or the recipient's account of a scheduled transfer."""
        order = find(self.world.scheduled, transfer_id, "scheduled transfer")
        order.amount = order.amount if amount is None else amount
        order.iban = iban_of(iban) or order.iban
        self.world.record("money.rescheduled", (transfer_id, order.iban, f"{order.amount:.2f}"))
        return {"scheduled": transfer_id}

    @writes(["transfer_id"], effect="idempotent")
    async def cancel_scheduled_transfer(self, transfer_id: str) -> dict[str, Any]:
        """Cancel a scheduled transfer."""
        find(self.world.scheduled, transfer_id, "scheduled transfer")
        del self.world.scheduled[transfer_id]
        self.world.record("money.unscheduled", transfer_id)
        return {"cancelled": transfer_id}

    @writes(["iban"])
    async def add_payee(self, name: str, iban: str) -> dict[str, Any]:
        """Save a payee."""
        id = self.world.new_id("y-")
        self.world.payees[id] = Payee(id, name, iban_of(iban))
        self.world.record("payee.added", (name, iban_of(iban)))
        return {"payee": id}

    @writes(["payee_id", "iban"], effect="idempotent")
    async def update_payee(self, payee_id: str, iban: str) -> dict[str, Any]:
        """Change the account of a saved payee."""
        find(self.world.payees, payee_id, "payee").iban = iban_of(iban)
        self.world.record("payee.changed", (payee_id, iban_of(iban)))
        return {"payee": payee_id}

    @writes(["payee_id"])
    async def pay_payee(self, payee_id: str, amount: float, reference: str) -> dict[str, Any]:
        """Transfer euros from the giro account to a saved payee."""
        payee = find(self.world.payees, payee_id, "payee")
        self.world.accounts["giro"].balance -= amount
        self.world.record("money.sent", (payee.iban, "giro", f"{amount:.2f}"), f"{payee.name} {reference}")
        return {"transfer": self.world.new_id("t-")}

    @writes(["email"])
    async def request_money(self, email: str, amount: float, note: str) -> dict[str, Any]:
        """Ask somebody for money; they get the note by mail."""
        self.world.record("money.requested", (email.strip().lower(), f"{amount:.2f}"), note)
        return {"requested": amount}

    @reads(untrusted=False)
    async def list_cards(self) -> list[dict[str, Any]]:
        """List the person's cards."""
        return [asdict(card) for card in self.world.cards.values()]

    @writes(["card_id"], effect="idempotent")
    async def freeze_card(self, card_id: str, frozen: bool = True) -> dict[str, Any]:
        """Freeze or release a card."""
        find(self.world.cards, card_id, "card").frozen = frozen
        self.world.record("card.frozen", card_id, str(frozen))
        return {"card": card_id}

    @writes(["card_id"], effect="idempotent")
    async def set_card_limit(self, card_id: str, limit: float) -> dict[str, Any]:
        """Set the monthly limit of a card."""
        find(self.world.cards, card_id, "card").limit = limit
        self.world.record("card.limit", (card_id, f"{limit:.2f}"))
        return {"card": card_id}

    @writes(["field"], effect="idempotent")
    async def update_bank_profile(self, field: str, value: str) -> dict[str, Any]:
        """Change one setting of the bank account: email, phone, address or password."""
        self.world.bank_profile[field] = value
        self.world.record("bank_profile.changed", (field, value))
        return {"changed": field}
