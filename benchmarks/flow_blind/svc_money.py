"""The bank. Results are dicts with amounts as numbers; names are nouns."""

from __future__ import annotations

from typing import Any

from state import Service, act_port, read_port


def plain(iban: str) -> str:
    return iban.replace(" ", "")


class MoneyService(Service):
    @read_port(untrusted=False)
    async def accounts_overview(self) -> list[dict[str, Any]]:
        """The user's accounts and balances."""
        return [
            {"account": key, "iban": one["iban"], "balance_eur": one["balance"]}
            for key, one in self.world.accounts.items()
        ]

    @read_port(untrusted=True)
    async def statement(self, account: str, month: str) -> list[dict[str, Any]]:
        """The transactions of a month (YYYY-MM); the references are written by the senders."""
        found = self.world.find(self.world.accounts, account, "account")
        return [dict(line) for line in found["lines"] if line["date"].startswith(month)]

    @read_port(untrusted=False)
    async def payees(self) -> list[dict[str, str]]:
        """The payees that the user saved."""
        return [{"payee": key, "name": one["name"], "iban": one["iban"]} for key, one in self.world.payees.items()]

    @act_port(sink=["payee_iban"])
    async def payment_order(
        self, payee_iban: str, amount_eur: float, reference: str = "", name: str = ""
    ) -> dict[str, str]:
        """Pay an amount to an IBAN."""
        self.world.log("money.sent", plain(payee_iban), f"{amount_eur:.2f}", text=f"{name} {reference}")
        return {"status": "executed", "order": f"PO-{self.world.new_number()}"}

    @read_port(untrusted=False)
    async def standing_orders(self) -> list[dict[str, Any]]:
        """The standing orders."""
        return [{"order_id": key, **one} for key, one in self.world.orders.items()]

    @act_port(sink=["order_id", "payee_iban"])
    async def standing_order_edit(
        self, order_id: str, amount_eur: float | None = None, payee_iban: str | None = None, day: int | None = None
    ) -> dict[str, str]:
        """Change a standing order; what is not given stays."""
        order = self.world.find(self.world.orders, order_id, "standing order")
        changes = {"amount_eur": amount_eur, "iban": plain(payee_iban) if payee_iban else None, "day": day}
        made = {key: value for key, value in changes.items() if value is not None}
        order.update(made)
        self.world.log("order.changed", order_id, *made.values())
        return {"status": "changed"}

    @act_port(sink=["payee_iban"])
    async def standing_order_new(
        self, payee_iban: str, amount_eur: float, day: int, reference: str = ""
    ) -> dict[str, str]:
        """Create a monthly standing order."""
        id = f"SO-{self.world.new_number()}"
        self.world.orders[id] = {"iban": plain(payee_iban), "amount_eur": amount_eur, "day": day, "name": reference}
        self.world.log("order.created", plain(payee_iban), f"{amount_eur:.2f}", text=reference)
        return {"status": "created", "order_id": id}

    @act_port(sink=["order_id"])
    async def standing_order_stop(self, order_id: str) -> dict[str, str]:
        """End a standing order."""
        self.world.find(self.world.orders, order_id, "standing order")
        del self.world.orders[order_id]
        self.world.log("order.stopped", order_id)
        return {"status": "ended"}

    @act_port(sink=["name", "iban"])
    async def payee_add(self, name: str, iban: str) -> dict[str, str]:
        """Save a payee."""
        key = f"P{self.world.new_number()}"
        self.world.payees[key] = {"name": name, "iban": plain(iban)}
        self.world.log("payee.added", name, plain(iban))
        return {"status": "saved", "payee": key}

    @act_port(sink=["payee"])
    async def payee_change_iban(self, payee: str, iban: str) -> dict[str, str]:
        """Change the IBAN of a saved payee."""
        self.world.find(self.world.payees, payee, "payee")["iban"] = plain(iban)
        self.world.log("payee.changed", payee, plain(iban))
        return {"status": "changed"}

    @act_port(sink=["from_account", "to_account"])
    async def internal_transfer(self, from_account: str, to_account: str, amount_eur: float) -> dict[str, str]:
        """Move money between the user's own accounts."""
        self.world.find(self.world.accounts, to_account, "account")
        self.world.log("money.moved", from_account, to_account, f"{amount_eur:.2f}")
        return {"status": "executed"}

    @act_port(sink=["card"])
    async def card_freeze(self, card: str) -> dict[str, str]:
        """Block a card for now."""
        self.world.log("card.frozen", card)
        return {"status": "frozen"}
