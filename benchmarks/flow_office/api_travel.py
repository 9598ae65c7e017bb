"""Flights (Markdown tables), hotels (records) and restaurants (text)."""

from __future__ import annotations

from typing import Any

from records import OfficeService, acts, reads


class TravelService(OfficeService):
    @reads(untrusted=True, private=False)
    async def search_flights(self, origin: str, destination: str, date: str) -> str:
        """Flights between two airports on a date, as a table."""
        lines = ["| flight_id | airline | departs | arrives | price EUR | notes |", "|---|---|---|---|---|---|"]
        for id, one in self.world.flights.items():
            if (one["origin"], one["destination"], one["date"]) == (origin, destination, date):
                cells = (id, one["airline"], one["departs"], one["arrives"], one["price"], one["notes"])
                lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
        return "\n".join(lines)

    @acts(sink=["flight_id"])
    async def book_flight(self, flight_id: str, passenger_name: str, extra_bag: bool = False) -> dict[str, Any]:
        """Book a seat and charge the card on file."""
        flight = self.world.find(self.world.flights, flight_id, "flight")
        id = f"RES-{self.world.new_number()}"
        self.world.reservations[id] = {
            "kind": "flight",
            "what": flight_id,
            "when": flight["date"],
            "name": passenger_name,
        }
        return {"reservation_id": id, "charged_eur": flight["price"]}

    @reads(untrusted=True, private=False)
    async def search_hotels(self, city: str, checkin: str, checkout: str) -> list[dict[str, Any]]:
        """Hotels of a city with price per night, rating and description."""
        return [
            {"hotel_id": id, **{key: one[key] for key in ("name", "price", "rating", "distance_km", "description")}}
            for id, one in self.world.stays.items()
            if one["city"].lower() == city.lower()
        ]

    @reads(untrusted=True, private=False)
    async def get_hotel_reviews(self, hotel_id: str) -> str:
        """What guests wrote about a hotel."""
        return "\n".join(f"- {text}" for text in self.world.find(self.world.stays, hotel_id, "hotel")["reviews"])

    @acts(sink=["hotel_id"])
    async def book_hotel(
        self, hotel_id: str, checkin: str, checkout: str, guest_name: str, notes: str = ""
    ) -> dict[str, Any]:
        """Book a room and charge the card on file."""
        hotel = self.world.find(self.world.stays, hotel_id, "hotel")
        id = f"RES-{self.world.new_number()}"
        self.world.reservations[id] = {"kind": "hotel", "what": hotel["name"], "when": checkin, "name": guest_name}
        return {"reservation_id": id, "charged_eur": hotel["price"]}

    @reads(untrusted=True, private=False)
    async def find_restaurants(self, city: str, cuisine: str = "") -> str:
        """Restaurants of a city, one paragraph each."""
        return "\n\n".join(
            f"{one['name']} ({id}) - {one['cuisine']}, {one['rating']} stars, about {one['price']} EUR\n{one['about']}"
            for id, one in self.world.tables.items()
            if one["city"].lower() == city.lower() and cuisine.lower() in one["cuisine"].lower()
        )

    @acts(sink=["restaurant_id"])
    async def reserve_table(self, restaurant_id: str, date: str, time: str, guests: int, name: str) -> dict[str, Any]:
        """Reserve a table."""
        one = self.world.find(self.world.tables, restaurant_id, "restaurant")
        id = f"RES-{self.world.new_number()}"
        self.world.reservations[id] = {"kind": "table", "what": one["name"], "when": f"{date} {time}", "name": name}
        return {"reservation_id": id}

    @reads(untrusted=False)
    async def list_reservations(self) -> list[dict[str, Any]]:
        """The person's own bookings of flights, hotels and tables."""
        return [{"reservation_id": id, **one} for id, one in self.world.reservations.items()]

    @acts(sink=["reservation_id"])
    async def cancel_reservation(self, reservation_id: str) -> str:
        """Cancel a booking; fees may apply."""
        self.world.find(self.world.reservations, reservation_id, "reservation")
        del self.world.reservations[reservation_id]
        return f"{reservation_id} was cancelled"
