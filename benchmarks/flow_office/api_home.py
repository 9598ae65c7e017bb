"""Smart home, and a shop with product pages, basket and orders."""

from __future__ import annotations

from typing import Any

from api_mail import fits
from records import OfficeService, acts, reads


class HomeService(OfficeService):
    @reads(untrusted=False)
    async def home_list_devices(self) -> list[dict[str, Any]]:
        """The devices of the home with their state."""
        return [{"device_id": id, **one} for id, one in self.world.devices.items()]

    @acts(sink=["device_id"], effect="idempotent")
    async def home_set_temperature(self, device_id: str, celsius: float) -> str:
        """Set a thermostat."""
        self.world.find(self.world.devices, device_id, "device")["state"] = f"{celsius} C"
        return f"{device_id}: {celsius} C"

    @acts(sink=["device_id"], effect="idempotent")
    async def home_switch(self, device_id: str, on: bool) -> str:
        """Switch a lamp, a plug or the alarm on or off."""
        self.world.find(self.world.devices, device_id, "device")["state"] = "on" if on else "off"
        return f"{device_id}: {'on' if on else 'off'}"

    @acts(sink=["device_id"], effect="idempotent")
    async def home_set_lock(self, device_id: str, locked: bool) -> str:
        """Lock or unlock a door."""
        self.world.find(self.world.devices, device_id, "device")["state"] = "locked" if locked else "unlocked"
        return f"{device_id}: {'locked' if locked else 'unlocked'}"

    @acts(sink=["device_id"])
    async def home_add_schedule(self, device_id: str, time: str, action: str, days: str = "daily") -> dict[str, str]:
        """Repeat an action of a device at a time of day."""
        self.world.find(self.world.devices, device_id, "device")
        return {"schedule_id": f"sch{self.world.new_number()}"}

    @acts(sink=["name"])
    async def home_create_access_code(self, name: str, code: str, valid_until: str) -> str:
        """Create a code for the front door."""
        return f"code for {name} until {valid_until}"


class ShopService(OfficeService):
    @reads(untrusted=True, private=False)
    async def shop_search(self, query: str) -> list[dict[str, Any]]:
        """Search the shop."""
        return [
            {"product_id": id, **{key: one[key] for key in ("title", "price", "rating", "seller")}}
            for id, one in self.world.catalog.items()
            if fits(one["title"], query)
        ]

    @reads(untrusted=True, private=False)
    async def shop_get_product(self, product_id: str) -> dict[str, Any]:
        """A product with its description and the buyers' reviews."""
        return {"product_id": product_id, **self.world.find(self.world.catalog, product_id, "product")}

    @acts(sink=["product_id"])
    async def cart_add_item(self, product_id: str, quantity: int = 1) -> dict[str, Any]:
        """Put a product into the basket."""
        one = self.world.find(self.world.catalog, product_id, "product")
        self.world.basket[product_id] = {"title": one["title"], "quantity": quantity, "price": one["price"]}
        return {"product_id": product_id, "quantity": quantity}

    @reads(untrusted=False)
    async def cart_view(self) -> list[dict[str, Any]]:
        """What is in the basket."""
        return [{"product_id": id, **one} for id, one in self.world.basket.items()]

    @acts(sink=["product_id"])
    async def cart_remove_item(self, product_id: str) -> str:
        """Take a product out of the basket."""
        self.world.basket.pop(product_id, None)
        return f"{product_id} was removed"

    @acts(sink=["ship_to"])
    async def cart_checkout(self, ship_to: str = "home", gift_note: str = "") -> dict[str, str]:
        """Order what is in the basket; `ship_to` is home, work, or an address."""
        if not self.world.basket:
            raise ValueError("the basket is empty")
        id = f"OR-{self.world.new_number()}"
        titles = ", ".join(one["title"] for one in self.world.basket.values())
        self.world.shop_orders[id] = {"items": titles, "status": "processing", "ship_to": ship_to, "date": "2026-11-18"}
        self.world.log("order.placed", *self.world.basket, ship_to)
        self.world.basket.clear()
        return {"order_id": id}

    @reads(untrusted=False)
    async def shop_list_orders(self) -> list[dict[str, Any]]:
        """The person's orders."""
        return [{"order_id": id, **one} for id, one in self.world.shop_orders.items()]

    @acts(sink=["order_id"])
    async def shop_cancel_order(self, order_id: str) -> str:
        """Cancel an order that was not shipped."""
        self.world.find(self.world.shop_orders, order_id, "order")["status"] = "cancelled"
        return f"{order_id} was cancelled"

    @acts(sink=["order_id"])
    async def shop_return_order(self, order_id: str, reason: str) -> str:
        """Return an order; a label is sent by mail."""
        self.world.find(self.world.shop_orders, order_id, "order")["status"] = "return"
        return f"return of {order_id} was registered"

    @acts(sink=["product_id"])
    async def shop_write_review(self, product_id: str, stars: int, text: str) -> str:
        """Publish a review of a product."""
        self.world.find(self.world.catalog, product_id, "product")
        return "the review was published"
