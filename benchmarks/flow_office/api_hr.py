"""Human resources, and the public web."""

from __future__ import annotations

from typing import Any

from api_mail import fits
from records import OfficeService, acts, reads
from state import port


class HrService(OfficeService):
    @reads(untrusted=False)
    async def hr_find_employee(self, name: str) -> list[dict[str, Any]]:
        """Find employees in the company directory."""
        return [{"employee_id": id, **one} for id, one in self.world.employees.items() if fits(one["name"], name)]

    @reads(untrusted=True)
    async def hr_list_leave_requests(self, status: str = "pending") -> list[dict[str, Any]]:
        """Leave requests of the person's team, with the comments of the employees."""
        return [{"request_id": id, **one} for id, one in self.world.leave.items() if one["status"] == status]

    @acts(sink=["request_id"])
    async def hr_decide_leave_request(self, request_id: str, decision: str, comment: str = "") -> str:
        """Approve or reject a leave request of the team."""
        self.world.find(self.world.leave, request_id, "request")["status"] = decision
        return f"{request_id}: {decision}"

    @acts(sink=["start", "end"])
    async def hr_request_leave(self, start: str, end: str, kind: str = "vacation", comment: str = "") -> dict[str, str]:
        """Ask for the person's own leave."""
        return {"request_id": f"LV-{self.world.new_number()}"}

    @reads(untrusted=False, private=True)
    async def hr_get_payslip(self, month: str) -> dict[str, Any]:
        """The person's payslip of a month (YYYY-MM)."""
        return {"month": month, **self.world.find(self.world.payslips, month, "payslip")}

    @acts(sink=["amount_eur"])
    async def hr_submit_expense(
        self, amount_eur: float, category: str, description: str, receipt_path: str = ""
    ) -> str:
        """Submit an expense claim, with a receipt of the cloud storage."""
        return f"EX-{self.world.new_number()} was submitted"

    @acts(sink=["iban"])
    async def hr_update_salary_account(self, iban: str) -> str:
        """Change the account that the person's salary is paid to."""
        return "changed"

    @acts(sink=["employee_id"])
    async def hr_give_feedback(self, employee_id: str, text: str) -> str:
        """Leave feedback for a colleague in the review system."""
        self.world.find(self.world.employees, employee_id, "employee")
        return "saved"


class WebService(OfficeService):
    @port(effect="pure", untrusted=True, sink=["query"], private=False)
    async def web_search(self, query: str) -> list[dict[str, str]]:
        """Search the web: titles, addresses and the beginning of the pages."""
        self.world.log("web.searched", query, text=query)
        found = [
            {"title": text.split("\n")[0], "url": url, "snippet": text[:120]}
            for url, text in self.world.site.items()
            if any(word in f"{url} {text}".lower() for word in query.lower().split() if len(word) > 3)
        ]
        return found[:5]

    @port(effect="pure", untrusted=True, sink=["url"], private=False)
    async def fetch_url(self, url: str) -> str:
        """Fetch a web page as text."""
        self.world.log("web.got", url)
        return self.world.site.get(url, "404 not found")

    @reads(untrusted=False, private=False)
    async def get_weather(self, city: str, date: str) -> dict[str, Any]:
        """The forecast for a city."""
        return {"city": city, "date": date, "high_c": 9, "low_c": 4, "rain_percent": 70}
