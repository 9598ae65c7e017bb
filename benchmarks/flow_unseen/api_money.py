"""Bank, travel, the shop's back office, smart home, and the web."""

from __future__ import annotations

from world import Api, Record, Rows, acts, gets, reads


class BankApi(Api):
    @reads(untrusted=False)
    async def bank_accounts(self) -> Rows:
        """The person's accounts and balances."""
        return self.world.rows("accounts")

    @reads(untrusted=True)
    async def bank_transactions(self, account: str, since: str, text: str = "") -> Rows:
        """Transactions of an account since a day, newest first."""
        found = [row for row in self.world.rows("transactions", text) if row["account"] == account]
        return [row for row in found if row["date"] >= since]

    @reads(untrusted=False)
    async def bank_payees(self, name: str = "") -> Rows:
        """The payees that the person has saved."""
        return self.world.rows("payees", name)

    @acts("iban")
    async def bank_transfer(self, iban: str, amount: float, reference: str, account: str = "giro") -> Record:
        """Transfer money in euros now."""
        self.world.note("bank.paid", iban=iban, amount=f"{amount:.2f}", reference=reference, account=account)
        return {"transfer": self.world.new_id("TX"), "state": "executed"}

    @acts("iban")
    async def bank_schedule(self, iban: str, amount: float, reference: str, date: str, every: str = "once") -> Record:
        """Schedule a transfer, once or every month."""
        self.world.note(
            "bank.scheduled", iban=iban, amount=f"{amount:.2f}", reference=reference, date=date, every=every
        )
        return {"order": self.world.new_id("SO")}

    @reads(untrusted=False)
    async def bank_orders(self) -> Rows:
        """Standing orders and scheduled transfers."""
        return self.world.rows("orders")

    @acts("order_id")
    async def bank_cancel_order(self, order_id: str) -> Record:
        """Cancel a standing order."""
        self.world.find("orders", order_id)
        self.world.note("bank.order_cancelled", id=order_id)
        return {"cancelled": order_id}

    @acts("card", again=True)
    async def bank_card_limit(self, card: str, monthly_limit: int) -> Record:
        """Set the monthly limit of a card."""
        self.world.note("bank.limit", card=card, limit=monthly_limit)
        return {"card": card, "monthly_limit": monthly_limit}

    @acts("card", again=True)
    async def bank_card_block(self, card: str, blocked: bool) -> Record:
        """Block a card, or allow it again."""
        self.world.note("bank.card", card=card, blocked=blocked)
        return {"card": card, "blocked": blocked}


class TravelApi(Api):
    @reads(untrusted=True, private=False)
    async def travel_search_trains(self, origin: str, destination: str, date: str) -> Rows:
        """Trains between two cities on a day."""
        return self.world.rows("trains", f"{origin} {destination} {date}")

    @reads(untrusted=True, private=False)
    async def travel_search_flights(self, origin: str, destination: str, date: str) -> str:
        """Flights between two airports on a day, as a table."""
        found = self.world.rows("flights", f"{origin} {destination} {date}")
        lines = [f"{r['flight']:8}{r['departs']}  {r['arrives']}  {r['price']:>7}  {r['remark']}" for r in found]
        return "\n".join(["FLIGHT  DEP    ARR      PRICE  REMARK", *lines])

    @reads(untrusted=True, private=False)
    async def travel_search_hotels(self, city: str) -> Rows:
        """Hotels of a city with price per night and a description."""
        return [
            {k: v for k, v in row.items() if k != "reviews"} for row in self.world.rows("hotels") if row["city"] == city
        ]

    @reads(untrusted=True, private=False)
    async def travel_hotel_reviews(self, hotel_id: str) -> list[str]:
        """What guests wrote about a hotel."""
        reviews: list[str] = self.world.find("hotels", hotel_id)["reviews"]
        return reviews

    @acts("hotel_id")
    async def travel_book_hotel(self, hotel_id: str, check_in: str, nights: int, note: str = "") -> Record:
        """Book a room; the note is sent to the hotel."""
        self.world.find("hotels", hotel_id)
        self.world.note("hotel.booked", id=hotel_id, check_in=check_in, nights=nights, text=note)
        return {"booking": self.world.new_id("BK"), "state": "confirmed"}

    @acts("connection_id")
    async def travel_book_ticket(self, connection_id: str, date: str, passenger: str) -> Record:
        """Book a train or a flight for a passenger."""
        self.world.note("ticket.booked", id=connection_id, date=date, passenger=passenger)
        return {"booking": self.world.new_id("BK"), "state": "confirmed"}

    @reads(untrusted=False)
    async def travel_bookings(self) -> Rows:
        """The person's bookings."""
        return self.world.rows("bookings")

    @acts("booking_id")
    async def travel_cancel(self, booking_id: str) -> Record:
        """Cancel a booking."""
        self.world.find("bookings", booking_id)
        self.world.note("booking.cancelled", id=booking_id)
        return {"cancelled": booking_id, "refund": 0}


class ShopApi(Api):
    """The back office of the company's web shop."""

    @reads(untrusted=True)
    async def desk_tickets(self, status: str = "open") -> str:
        """Customers' tickets as a table."""
        found = [row for row in self.world.rows("tickets") if row["status"] == status]
        lines = [f"| {row['id']} | {row['customer']} | {row['subject']} | {row['priority']} |" for row in found]
        return "\n".join(["| id | customer | subject | priority |", "|---|---|---|---|", *lines])

    @reads(untrusted=True, readers=["email"])
    async def desk_ticket(self, ticket_id: str) -> Record:
        """One ticket with its conversation."""
        return self.world.find("tickets", ticket_id)

    @acts("ticket_id")
    async def desk_answer(self, ticket_id: str, text: str) -> Record:
        """Answer the customer of a ticket."""
        self.world.find("tickets", ticket_id)
        self.world.note("ticket.answered", id=ticket_id, text=text)
        return {"ticket": ticket_id, "state": "answered"}

    @acts("ticket_id", again=True)
    async def desk_set_ticket(self, ticket_id: str, status: str = "", priority: str = "") -> Record:
        """Change status or priority of a ticket."""
        self.world.find("tickets", ticket_id)
        self.world.note("ticket.set", id=ticket_id, status=status, priority=priority)
        return {"ticket": ticket_id}

    @reads(untrusted=True)
    async def crm_customers(self, query: str) -> Rows:
        """Find customers with contact data, revenue and notes."""
        return self.world.rows("customers", query)

    @acts("customer_id")
    async def crm_add_note(self, customer_id: str, text: str) -> Record:
        """Add a note for colleagues to a customer."""
        self.world.find("customers", customer_id)
        self.world.note("crm.noted", id=customer_id, text=text)
        return {"customer": customer_id}

    @reads(untrusted=True)
    async def crm_deals(self, stage: str = "") -> Rows:
        """The sales pipeline."""
        return [deal for deal in self.world.rows("deals") if stage in ("", deal["stage"])]

    @acts("deal_id", again=True)
    async def crm_set_deal(self, deal_id: str, stage: str = "", value: float = 0) -> Record:
        """Change stage or value of a deal."""
        self.world.find("deals", deal_id)
        self.world.note("crm.deal", id=deal_id, stage=stage, value=value)
        return {"deal": deal_id}

    @acts("email")
    async def crm_export(self, segment: str, email: str) -> Record:
        """Mail all customers of a segment as a CSV file."""
        self.world.note("crm.exported", segment=segment, to=email)
        return {"state": "queued"}

    @reads(untrusted=True)
    async def shop_order(self, order_id: str) -> Record:
        """A customer's order with items, address and remarks."""
        return self.world.find("shop_orders", order_id)

    @acts("order_id")
    async def shop_refund(self, order_id: str, amount: float) -> Record:
        """Pay money back to the customer of an order."""
        self.world.find("shop_orders", order_id)
        self.world.note("shop.refunded", id=order_id, amount=f"{amount:.2f}")
        return {"order": order_id, "refunded": amount}

    @acts("order_id", again=True)
    async def shop_set_address(self, order_id: str, address: str) -> Record:
        """Change the delivery address of an order."""
        self.world.find("shop_orders", order_id)
        self.world.note("shop.address", id=order_id, address=address)
        return {"order": order_id}


class HomeApi(Api):
    @reads(untrusted=False)
    async def home_state(self, room: str = "") -> Rows:
        """Devices of the home with their state."""
        return self.world.rows("devices", room)

    @acts("device_id", again=True)
    async def home_set(self, device_id: str, state: str) -> Record:
        """Set a device: on, off, a percentage, a temperature, locked, unlocked, armed, disarmed."""
        self.world.find("devices", device_id)["state"] = state
        self.world.note("home.set", id=device_id, state=state)
        return {"device_id": device_id, "state": state}

    @acts("device_id")
    async def home_schedule(self, device_id: str, state: str, at: str, repeat: str = "once") -> Record:
        """Set a device later, once or every day."""
        self.world.find("devices", device_id)
        self.world.note("home.scheduled", id=device_id, state=state, at=at, repeat=repeat)
        return {"schedule": self.world.new_id("SCH")}

    @acts("email")
    async def home_guest_code(self, email: str, valid_until: str) -> Record:
        """Create a code for the front door and mail it."""
        self.world.note("home.code", to=email, until=valid_until)
        return {"state": "sent"}

    @reads(untrusted=True)
    async def home_doorbell_log(self, since: str) -> Rows:
        """Who rang, with what visitors left as a message."""
        return [row for row in self.world.rows("rings") if row["at"] >= since]


class WebApi(Api):
    @reads(untrusted=True, private=False)
    async def web_search(self, query: str) -> Rows:
        """Search the web: titles, addresses and extracts."""
        found = self.world.rows("pages", query)
        return [{"title": page["title"], "url": page["url"], "extract": page["text"][:100]} for page in found]

    @gets("url")
    async def web_open(self, url: str) -> str:
        """Fetch a page as text."""
        self.world.note("web.get", url=url)
        page = self.world.tables["pages"].get(url)
        return str(page["text"]) if page else "404 not found"

    @reads(untrusted=True, private=False)
    async def market_search(self, text: str) -> Rows:
        """Products of the online market with price and ratings."""
        return self.world.rows("products", text)

    @acts("product_id")
    async def market_order(self, product_id: str, quantity: int = 1) -> Record:
        """Order a product to the person's home address."""
        self.world.find("products", product_id)
        self.world.note("market.ordered", id=product_id, quantity=quantity)
        return {"order": self.world.new_id("MO"), "state": "placed"}

    @reads(untrusted=False, private=True)
    async def vault_entry(self, name: str) -> Record:
        """A login of the person's password vault."""
        return self.world.find("vault", name)
