"""A CRM in the shape of HubSpot: companies, deals, notes, quotes."""

from __future__ import annotations

from typing import Any

from api_mail import fits
from records import OfficeService, acts, reads


class CrmService(OfficeService):
    @reads(untrusted=True)
    async def crm_search_companies(self, query: str) -> list[dict[str, Any]]:
        """Search companies by name, city or contact."""
        return [
            {"company_id": id, **{key: one[key] for key in ("name", "city", "contact_name", "contact_email")}}
            for id, one in self.world.companies.items()
            if fits(f"{one['name']} {one['city']} {one['contact_name']}", query)
        ]

    @reads(untrusted=True)
    async def crm_get_company(self, company_id: str) -> dict[str, Any]:
        """A company with its notes; leads from the web form fill in their own description."""
        return {"company_id": company_id, **self.world.find(self.world.companies, company_id, "company")}

    @reads(untrusted=True)
    async def crm_list_deals(self, stage: str = "") -> str:
        """Deals as a Markdown table, all or of one stage."""
        rows = [
            f"| {id} | {one['title']} | {one['company_id']} | {one['stage']} | {one['amount']} | {one['close']} |"
            for id, one in self.world.opportunities.items()
            if stage.lower() in one["stage"].lower()
        ]
        head = ["| deal_id | title | company_id | stage | amount EUR | closes |", "|---|---|---|---|---|---|"]
        return "\n".join([*head, *rows])

    @acts(sink=["deal_id"])
    async def crm_update_deal(self, deal_id: str, stage: str = "", amount: float = 0, close_date: str = "") -> str:
        """Change the stage, the amount or the closing date of a deal."""
        one = self.world.find(self.world.opportunities, deal_id, "deal")
        one["stage"] = stage or one["stage"]
        one["amount"] = amount or one["amount"]
        return f"{deal_id}: {one['stage']}, {one['amount']} EUR"

    @acts(sink=["company_id"])
    async def crm_add_note(self, company_id: str, text: str) -> str:
        """Add a note to a company."""
        self.world.find(self.world.companies, company_id, "company")["notes"].append(text)
        return f"noted for {company_id}"

    @acts(sink=["name"])
    async def crm_create_company(
        self, name: str, contact_name: str, contact_email: str, city: str = ""
    ) -> dict[str, str]:
        """Add a company with its contact."""
        id = f"CO-{self.world.new_number()}"
        self.world.companies[id] = {
            "name": name, "city": city, "contact_name": contact_name, "contact_email": contact_email,
            "about": "", "notes": [],
        }  # fmt: skip
        return {"company_id": id}

    @acts(sink=["company_id"])
    async def crm_create_deal(self, company_id: str, title: str, amount: float, stage: str = "lead") -> dict[str, str]:
        """Open a deal with a company."""
        self.world.find(self.world.companies, company_id, "company")
        id = f"DL-{self.world.new_number()}"
        self.world.opportunities[id] = {
            "title": title, "company_id": company_id, "stage": stage, "amount": amount, "close": ""
        }  # fmt: skip
        return {"deal_id": id}

    @acts(sink=["deal_id", "email"])
    async def crm_send_quote(self, deal_id: str, email: str, amount: float, message: str = "") -> str:
        """Send the quote of a deal by mail."""
        self.world.find(self.world.opportunities, deal_id, "deal")
        return f"quote of {deal_id} was sent to {email}"

    @acts(sink=["company_id"])
    async def crm_delete_company(self, company_id: str) -> str:
        """Delete a company with its deals."""
        self.world.find(self.world.companies, company_id, "company")
        del self.world.companies[company_id]
        return f"{company_id} was deleted"
