"""Travel: hotels, flights, restaurants, bookings, and the traveller's profile."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from toolbox import reads, writes
from world import Booking, World, find


class TravelTools:
    def __init__(self, world: World) -> None:
        self.world = world

    def _book(self, kind: str, what: str, dates: str, details: str) -> str:
        id = self.world.new_id("B")
        self.world.bookings[id] = Booking(id, kind, what, dates, details)
        self.world.record(f"{kind}.booked", (what, dates), details)
        return id

    @reads(untrusted=True, private=False)
    async def search_hotels(self, city: str) -> list[dict[str, Any]]:
        """List the hotels of a city with prices and ratings."""
        hotels = [hotel for hotel in self.world.hotels.values() if hotel.city.lower() == city.lower()]
        return [
            {"name": h.name, "price_per_night": h.price, "rating": h.rating, "description": h.description}
            for h in hotels
        ]

    @reads(untrusted=True, private=False)
    async def get_hotel(self, hotel: str) -> dict[str, Any]:
        """Read what a hotel says about itself, and how to reach it."""
        found = asdict(find(self.world.hotels, hotel, "hotel"))
        return {key: found[key] for key in ("name", "city", "price", "rating", "description", "contact")}

    @reads(untrusted=True, private=False)
    async def read_hotel_reviews(self, hotel: str) -> list[str]:
        """Read the reviews of a hotel by its guests."""
        return list(find(self.world.hotels, hotel, "hotel").reviews)

    @reads(untrusted=True, private=False)
    async def search_restaurants(self, city: str, cuisine: str = "") -> list[dict[str, Any]]:
        """List the restaurants of a city."""
        found = [place for place in self.world.restaurants.values() if place.city.lower() == city.lower()]
        return [asdict(place) for place in found if cuisine.lower() in place.cuisine.lower()]

    @reads(untrusted=True, private=False)
    async def read_restaurant_reviews(self, restaurant: str) -> list[str]:
        """Read the reviews of a restaurant by its guests."""
        return list(find(self.world.restaurants, restaurant, "restaurant").reviews)

    @reads(untrusted=False, private=False)
    async def search_flights(self, origin: str, destination: str, date: str) -> list[dict[str, Any]]:
        """List the flights between two cities on a day."""
        return [
            asdict(flight)
            for flight in self.world.flights.values()
            if (flight.origin.lower(), flight.destination.lower()) == (origin.lower(), destination.lower())
            and flight.date == date
        ]

    @reads(untrusted=False, private=False)
    async def get_weather(self, city: str, date: str) -> dict[str, Any]:
        """Forecast the weather of a city."""
        degrees = 9 + (len(city) * 7 + int(date[-2:])) % 14
        return {"city": city, "date": date, "degrees": degrees, "rain": degrees % 3 == 0}

    @writes(["hotel"], untrusted=True)
    async def book_hotel(self, hotel: str, check_in: str, check_out: str, requests: str = "") -> dict[str, Any]:
        """Book a room; the hotel gets the person's name and the special requests."""
        found = find(self.world.hotels, hotel, "hotel")
        if found.booking_error:
            raise ValueError(found.booking_error)
        return {"booking": self._book("hotel", hotel, f"{check_in}/{check_out}", requests), "paid": found.price}

    @writes(["flight_id"])
    async def book_flight(self, flight_id: str, seat: str = "", remarks: str = "") -> dict[str, Any]:
        """Book a flight for the person."""
        flight = find(self.world.flights, flight_id, "flight")
        return {"booking": self._book("flight", flight_id, flight.date, f"{seat} {remarks}".strip())}

    @writes(["restaurant"])
    async def reserve_table(self, restaurant: str, date: str, time: str, people: int, note: str = "") -> dict[str, Any]:
        """Reserve a table; the restaurant gets the note."""
        find(self.world.restaurants, restaurant, "restaurant")
        return {"booking": self._book("table", restaurant, f"{date} {time}", f"{people} people. {note}".strip())}

    @reads(untrusted=False)
    async def list_bookings(self) -> list[dict[str, Any]]:
        """List the person's bookings."""
        bookings = self.world.bookings.values()
        return [{"id": b.id, "kind": b.kind, "what": b.what, "dates": b.dates, "details": b.details} for b in bookings]

    @reads(untrusted=True, readers=["what"])
    async def read_booking_messages(self, booking_id: str) -> dict[str, Any]:
        """Read the messages of the hotel, restaurant or airline about a booking."""
        booking = find(self.world.bookings, booking_id, "booking")
        return {"id": booking.id, "what": booking.what, "messages": booking.messages}

    @writes(["booking_id"])
    async def message_property(self, booking_id: str, text: str) -> dict[str, Any]:
        """Write to the hotel, restaurant or airline of a booking."""
        booking = find(self.world.bookings, booking_id, "booking")
        self.world.record("booking.message", (booking_id, booking.what), text)
        return {"sent": booking_id}

    @writes(["booking_id"], effect="idempotent")
    async def cancel_booking(self, booking_id: str) -> dict[str, Any]:
        """Cancel a booking."""
        find(self.world.bookings, booking_id, "booking")
        del self.world.bookings[booking_id]
        self.world.record("booking.cancelled", booking_id)
        return {"cancelled": booking_id}

    @writes(["booking_id"], effect="idempotent")
    async def change_booking(self, booking_id: str, dates: str, details: str = "") -> dict[str, Any]:
        """Change the dates or details of a booking."""
        booking = find(self.world.bookings, booking_id, "booking")
        booking.dates = dates
        booking.details = details or booking.details
        self.world.record("booking.changed", booking_id, f"{dates} {details}".strip())
        return {"booking": booking_id}

    @writes(["place"])
    async def post_review(self, place: str, stars: int, text: str) -> dict[str, Any]:
        """Publish a review of a hotel or restaurant under the person's name."""
        reviewed = self.world.hotels.get(place) or self.world.restaurants.get(place)
        if reviewed is None:
            raise ValueError(f"there is no place {place!r}")
        reviewed.reviews.append(text)
        self.world.record("review.posted", place, f"{stars} {text}")
        return {"review": place}

    @reads(untrusted=False, private=True)
    async def get_traveller_profile(self) -> dict[str, str]:
        """Read the person's passport, loyalty numbers and card for travel."""
        return dict(self.world.traveller)

    @writes(["field"], effect="idempotent")
    async def update_traveller_profile(self, field: str, value: str) -> dict[str, Any]:
        """Change one field of the traveller's profile."""
        self.world.traveller[field] = value
        self.world.record("traveller.changed", field, value)
        return {"changed": field}
