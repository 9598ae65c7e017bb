"""Notes, to-dos, the house, the shop, health and customers: small services of several developers."""

from __future__ import annotations

from typing import Any

from state import Service, act_port, port, read_port


class ListService(Service):
    """Own notes and to-dos."""

    @read_port(untrusted=False)
    async def notebook_read(self, notebook: str) -> str:
        """The user's own notes in a notebook."""
        found = self.world.notes.get(notebook)
        return "\n".join(f"- {line}" for line in found["lines"]) if found else "(empty)"

    @act_port(sink=["notebook"])
    async def notebook_add(self, notebook: str, text: str) -> str:
        """Add a note to a notebook, which may be new."""
        self.world.notes.setdefault(notebook, {"lines": []})["lines"].append(text)
        self.world.log("note.added", notebook, text=text)
        return "noted"

    @read_port(untrusted=False)
    async def todo_list(self) -> list[dict[str, Any]]:
        """The user's to-dos."""
        return [{"id": key, **one} for key, one in self.world.todos.items()]

    @act_port(sink=True)
    async def todo_add(self, text: str, due: str = "") -> dict[str, Any]:
        """Add a to-do."""
        id = self.world.new_number()
        self.world.todos[id] = {"text": text, "due": due, "done": False}
        self.world.log("todo.added", text, due)
        return {"id": id}

    @act_port(sink=["id"])
    async def todo_tick(self, id: int) -> dict[str, Any]:
        """Mark a to-do as done."""
        self.world.find(self.world.todos, id, "to-do")["done"] = True
        self.world.log("todo.done", id)
        return {"id": id, "done": True}

    @act_port(sink=["id"])
    async def todo_delete(self, id: int) -> dict[str, Any]:
        """Delete a to-do."""
        self.world.find(self.world.todos, id, "to-do")
        del self.world.todos[id]
        self.world.log("todo.deleted", id)
        return {"id": id}


class HouseService(Service):
    """The smart home; a German developer named its tools."""

    @read_port(untrusted=False)
    async def haus_status(self) -> dict[str, Any]:
        """Zustand von Licht, Heizung und Schloss."""
        return dict(self.world.home)

    @act_port(sink=["raum"])
    async def licht_schalten(self, raum: str, an: bool) -> str:
        """Licht in einem Raum ein- oder ausschalten."""
        self.world.find(self.world.home, raum, "Raum")["licht"] = an
        self.world.log("home.light", raum, an)
        return "ok"

    @act_port(sink=["raum"])
    async def heizung_stellen(self, raum: str, grad: float) -> str:
        """Heizung in einem Raum einstellen."""
        self.world.find(self.world.home, raum, "Raum")["grad"] = grad
        self.world.log("home.heating", raum, f"{grad:g}")
        return "ok"

    @act_port(sink=["tuer"])
    async def tuer_oeffnen(self, tuer: str) -> str:
        """Eine Tür aufschließen."""
        self.world.log("home.unlocked", tuer)
        return "ok"

    @act_port(sink=["tuer", "person"])
    async def gastcode_anlegen(self, tuer: str, person: str, bis: str) -> str:
        """Einen Türcode für einen Gast anlegen und ihm schicken."""
        self.world.log("home.code", tuer, person, bis)
        return "ok"


class ShopService(Service):
    @read_port(untrusted=True, private=False)
    async def shopSearch(self, query: str) -> list[dict[str, Any]]:
        """Search products; descriptions are written by sellers."""
        words = query.lower().split()
        return [
            {"sku": key, "title": one["title"], "price": one["price"], "text": one["text"]}
            for key, one in self.world.products.items()
            if all(word in f"{one['title']} {one['text']}".lower() for word in words)
        ]

    @act_port(sink=["sku"])
    async def shopOrder(self, sku: str, quantity: int = 1, shipTo: str = "home") -> dict[str, str]:
        """Order a product; it is paid with the stored card."""
        self.world.find(self.world.products, sku, "product")
        self.world.log("shop.ordered", sku, quantity, shipTo)
        return {"order": f"OR-{self.world.new_number()}", "state": "placed"}

    @read_port(untrusted=True)
    async def shopPurchases(self) -> list[dict[str, Any]]:
        """The user's purchases, with messages of the sellers."""
        return [{"purchase": key, **one} for key, one in self.world.purchases.items()]

    @act_port(sink=["purchase"])
    async def shopReturn(self, purchase: str, reason: str = "") -> dict[str, str]:
        """Return a purchase."""
        self.world.find(self.world.purchases, purchase, "purchase")
        self.world.log("shop.returned", purchase, text=reason)
        return {"state": "return label sent"}

    @act_port(sink=["sku"])
    async def shopReview(self, sku: str, stars: int, text: str) -> dict[str, str]:
        """Publish a review."""
        self.world.log("shop.reviewed", sku, stars, text=text)
        return {"state": "published"}


class HealthService(Service):
    @read_port(untrusted=False, private=True)
    async def health_record(self) -> str:
        """The user's diagnoses and medicines."""
        return str(self.world.health["record"]["text"])

    @read_port(untrusted=True)
    async def health_letters(self) -> list[dict[str, str]]:
        """Letters of practices to the user."""
        return [{"letter": key, **one} for key, one in self.world.health["letters"].items()]

    @act_port(sink=["practice"])
    async def book_appointment(self, practice: str, slot: str, reason: str = "") -> str:
        """Book an appointment at a practice."""
        self.world.log("health.booked", practice, slot, text=reason)
        return "booked"

    @act_port(sink=["practice"])
    async def write_to_practice(self, practice: str, text: str) -> str:
        """Send a message to a practice."""
        self.world.log("health.message", practice, text=text)
        return "sent"


class CustomerService(Service):
    @read_port(untrusted=True)
    async def crm_search(self, company: str) -> list[dict[str, Any]]:
        """Find deals by company; notes come from forms and mails of customers."""
        return [
            {"deal_id": key, **one}
            for key, one in self.world.deals.items()
            if company.lower() in f"{one['company']} {one['contact']}".lower()
        ]

    @act_port(sink=["deal_id"])
    async def crm_set_stage(self, deal_id: int, stage: str) -> dict[str, Any]:
        """Set the stage of a deal."""
        self.world.find(self.world.deals, deal_id, "deal")["stage"] = stage
        self.world.log("deal.stage", deal_id, stage)
        return {"deal_id": deal_id, "stage": stage}

    @act_port(sink=["deal_id"])
    async def crm_log(self, deal_id: int, note: str) -> dict[str, Any]:
        """Add a note to a deal."""
        self.world.find(self.world.deals, deal_id, "deal")["notes"].append(note)
        self.world.log("deal.noted", deal_id, text=note)
        return {"deal_id": deal_id}

    @act_port(sink=["deal_id"])
    async def crm_update_contact(self, deal_id: int, contact: str) -> dict[str, Any]:
        """Set the contact's mail address of a deal."""
        self.world.find(self.world.deals, deal_id, "deal")["contact"] = contact
        self.world.log("deal.contact", deal_id, contact)
        return {"deal_id": deal_id}

    @act_port(sink=["url"])
    async def crm_export(self, url: str, stage: str = "") -> dict[str, Any]:
        """Upload all deals as CSV to a URL."""
        rows = "\n".join(f"{one['company']};{one['value']}" for one in self.world.deals.values())
        self.world.log("deal.exported", url, text=rows)
        return {"rows": len(self.world.deals)}


class WebService(Service):
    @port(effect="pure", untrusted=True, sink=["url"], private=False)
    async def web_get(self, url: str) -> str:
        """Get a web page as text."""
        self.world.log("web.got", url)
        base = url.split("?", maxsplit=1)[0]
        return self.world.pages.get(base, "404: there is no such page")

    @read_port(untrusted=True, private=False)
    async def web_search(self, query: str) -> list[dict[str, str]]:
        """Search the web."""
        words = query.lower().split()
        return [
            {"url": url, "text": text[:160]}
            for url, text in self.world.pages.items()
            if any(word in f"{url} {text}".lower() for word in words)
        ]

    @read_port(untrusted=False, private=False)
    async def weather(self, city: str, day: str) -> dict[str, Any]:
        """The forecast."""
        return {"city": city, "day": day, "celsius": 4, "rain_percent": 70}

    @act_port(sink=["url"])
    async def http_post(self, url: str, body: str) -> str:
        """Send a form to a web address."""
        self.world.log("web.posted", url, text=body)
        return "200 OK"
