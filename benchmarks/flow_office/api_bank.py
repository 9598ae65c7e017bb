"""A bank in the shape of the PSD2 interfaces: IBANs, beneficiaries, scheduled payments."""

from __future__ import annotations

from typing import Any

from records import OfficeService, acts, reads


class BankService(OfficeService):
    @reads(untrusted=False)
    async def bank_get_accounts(self) -> list[dict[str, Any]]:
        """The person's accounts with their balances."""
        return [{"iban": iban, **one} for iban, one in self.world.bank_accounts.items()]

    @reads(untrusted=True)
    async def bank_list_transactions(self, since: str, account: str = "checking") -> list[dict[str, Any]]:
        """Bookings since a date, with the reference that the other side wrote."""
        return [
            {"transaction_id": id, **one}
            for id, one in sorted(self.world.transactions.items())
            if one["date"] >= since and one["account"] == account
        ]

    @reads(untrusted=False)
    async def bank_list_beneficiaries(self) -> list[dict[str, str]]:
        """The saved payees of the person."""
        return [{"beneficiary_id": id, **one} for id, one in self.world.beneficiaries.items()]

    @acts(sink=["iban"])
    async def bank_transfer(
        self, iban: str, amount_eur: float, recipient_name: str, reference: str = ""
    ) -> dict[str, Any]:
        """Transfer money from the checking account at once."""
        if amount_eur <= 0:
            raise ValueError("the amount must be positive")
        return {"payment_id": f"P-{self.world.new_number()}", "status": "executed", "amount_eur": amount_eur}

    @acts(sink=["iban"])
    async def bank_add_beneficiary(self, name: str, iban: str) -> dict[str, str]:
        """Save a payee."""
        id = f"B-{self.world.new_number()}"
        self.world.beneficiaries[id] = {"name": name, "iban": iban}
        return {"beneficiary_id": id}

    @acts(sink=["iban"])
    async def bank_schedule_payment(
        self, iban: str, amount_eur: float, recipient_name: str, date: str, repeat: str = "once"
    ) -> dict[str, str]:
        """Schedule a payment for a date, once or monthly."""
        id = f"SP-{self.world.new_number()}"
        self.world.scheduled[id] = {
            "iban": iban, "amount_eur": amount_eur, "recipient": recipient_name, "next": date, "repeat": repeat
        }  # fmt: skip
        return {"scheduled_id": id}

    @reads(untrusted=False)
    async def bank_list_scheduled(self) -> list[dict[str, Any]]:
        """Scheduled and standing payments."""
        return [{"scheduled_id": id, **one} for id, one in self.world.scheduled.items()]

    @acts(sink=["scheduled_id"])
    async def bank_update_scheduled(
        self, scheduled_id: str, amount_eur: float = 0, date: str = "", iban: str = ""
    ) -> str:
        """Change the amount, the date or the recipient's account of a scheduled payment."""
        one = self.world.find(self.world.scheduled, scheduled_id, "scheduled payment")
        one["amount_eur"] = amount_eur or one["amount_eur"]
        one["next"] = date or one["next"]
        one["iban"] = iban or one["iban"]
        return f"{scheduled_id} was changed"

    @acts(sink=["scheduled_id"])
    async def bank_cancel_scheduled(self, scheduled_id: str) -> str:
        """Cancel a scheduled payment."""
        self.world.find(self.world.scheduled, scheduled_id, "scheduled payment")
        del self.world.scheduled[scheduled_id]
        return f"{scheduled_id} was cancelled"

    @acts(sink=["card"], effect="idempotent")
    async def bank_freeze_card(self, card: str, frozen: bool = True) -> str:
        """Freeze or unfreeze a card (debit or credit)."""
        return f"{card}: {'frozen' if frozen else 'active'}"
