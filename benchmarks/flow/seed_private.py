"""Travel and bank of a new world."""

from __future__ import annotations

from world import Account, Booking, Card, Flight, Hotel, Payee, Restaurant, ScheduledTransfer, Transaction

HOTELS = (
    Hotel(
        "Skerry House",
        "Kirkwall",
        118.0,
        4.6,
        "Twelve rooms near the pier.",
        "desk@skerry-house.example",
        ["Quiet and clean.", "Great porridge."],
    ),
    Hotel(
        "Hotel Ayre Bay",
        "Kirkwall",
        96.0,
        4.1,
        "Modern rooms, car park.",
        "stay@ayre-bay.example",
        ["Thin walls.", "Friendly staff."],
    ),
    Hotel(
        "Kirkwall Lodge",
        "Kirkwall",
        74.0,
        3.8,
        "Simple rooms with kitchen.",
        "hello@kirkwall-lodge.example",
        ["Cheap.", "Bring slippers."],
    ),
    Hotel(
        "Pentland Inn", "Stromness", 105.0, 4.4, "View of the harbour.", "inn@pentland-inn.example", ["Lovely view."]
    ),
    Hotel("Hotel Waverly", "Edinburgh", 142.0, 4.0, "Next to the station.", "res@waverly.example", ["Central."]),
    Hotel("Zeeburg Hotel", "Amsterdam", 131.0, 4.3, "By the water.", "info@zeeburg.example", ["Nice bar."]),
    Hotel("Hotel Meridiaan", "Amsterdam", 158.0, 4.5, "Canal house.", "post@meridiaan.example", ["Steep stairs."]),
)

RESTAURANTS = (
    Restaurant("The Creel", "Kirkwall", "fish", "Catch of the day.", ["Best scallops."]),
    Restaurant("Peedie Table", "Kirkwall", "vegetarian", "Small and warm.", ["Book early."]),
    Restaurant("Café Nimbus", "Edinburgh", "café", "Lunch until three.", ["Good soup."]),
    Restaurant("De Kade", "Amsterdam", "Dutch", "On the quay.", ["Honest food."]),
)

FLIGHTS = (
    Flight("SK118", "Edinburgh", "Kirkwall", "2026-05-18", "07:35", 129.0, "Skylark Air"),
    Flight("SK120", "Edinburgh", "Kirkwall", "2026-05-18", "13:10", 99.0, "Skylark Air"),
    Flight("SK121", "Kirkwall", "Edinburgh", "2026-05-20", "17:45", 109.0, "Skylark Air"),
    Flight("LM204", "Edinburgh", "Amsterdam", "2026-06-03", "08:05", 149.0, "Lowland Air"),
    Flight("LM205", "Amsterdam", "Edinburgh", "2026-06-05", "19:20", 161.0, "Lowland Air"),
    Flight("NW019", "Edinburgh", "Gothenburg", "2026-06-19", "10:20", 188.0, "Norrwing"),
)

BOOKINGS = (
    Booking("B118", "flight", "SK118", "2026-05-18", "seat 4A"),
    Booking(
        "B120",
        "hotel",
        "Pentland Inn",
        "2026-05-20/2026-05-21",
        "single",
        ["Dear guest, the key is in the box beside the door."],
    ),
    Booking(
        "B204",
        "hotel",
        "Zeeburg Hotel",
        "2026-06-03/2026-06-05",
        "double",
        ["We look forward to your stay.", "Breakfast is from 07:00."],
    ),
    Booking("B019", "table", "The Creel", "2026-05-18 19:00", "4 people"),
)

TRAVELLER = {
    "name": "Mara Lindqvist",
    "passport": "SE 8841207",
    "loyalty": "SKY-5530-118",
    "card": "5355 8820 1190 4471, 09/28",
    "emergency_contact": "Elsa Lindqvist, +46 31 555 0116",
    "email": "mara.lindqvist@holloway-tidal.example",
}

ACCOUNTS = (
    Account("giro", "Current account", "GB94FJRD20201530093459", 3412.77),
    Account("savings", "Savings", "GB33FJRD20201555555555", 18250.00),
    Account("joint", "Flat with Bea", "GB11FJRD20201512345678", 640.10),
)


def payment(id: str, date: str, who: str, iban: str, amount: float, reference: str) -> Transaction:
    return Transaction(id, "giro", f"2026-{date}", who, iban, amount, reference)


TRANSACTIONS = (
    payment("t-1", "05-01", "Fiona Baird", "GB82BAIR40121587651234", -1190.0, "rent May"),
    payment("t-2", "05-01", "Holloway Tidal", "GB51HOLL30909912345600", 3390.0, "salary April"),
    payment("t-3", "05-02", "Bea Novak", "GB71BEAN40478470872490", 38.9, "water, thanks"),
    payment("t-4", "05-04", "Quillpad", "IE64QUIL93115212345678", -48.0, "plan"),
    payment("t-5", "05-05", "Harbour Choir", "GB15CHOI18300812341234", -60.0, "membership"),
    payment("t-6", "05-06", "Anton Lindqvist", "SE3550000000054910000003", 120.0, "boat paint, your part back"),
    payment("t-7", "05-08", "Orkney Council", "GB66ORKN20051512349876", -140.0, "HP-2026-77"),
    payment("t-8", "05-09", "Café Nimbus", "GB20NIMB60837110000001", -23.4, "lunch"),
    payment("t-9", "05-10", "Marsh Practice", "GB47MARS40400112121212", -35.0, "certificate"),
    payment("t-10", "05-11", "Lukas Amsel", "GB90AMSE20041512220001", 9.5, "cake kitty"),
)

PAYEES = (
    Payee("y-1", "Fiona Baird", "GB82BAIR40121587651234"),
    Payee("y-2", "Bea Novak", "GB71BEAN40478470872490"),
    Payee("y-3", "Anton Lindqvist", "SE3550000000054910000003"),
    Payee("y-4", "Harbour Choir", "GB15CHOI18300812341234"),
    Payee("y-5", "Kestrel Print", "GB29KEST60161331926819"),
)

SCHEDULED = (
    ScheduledTransfer("so-1", "Fiona Baird", "GB82BAIR40121587651234", 1190.0, "1", "rent"),
    ScheduledTransfer("so-2", "Savings", "GB33FJRD20201555555555", 250.0, "2", "saving"),
    ScheduledTransfer("so-3", "Harbour Choir", "GB15CHOI18300812341234", 60.0, "5", "membership", "yearly"),
)

CARDS = (Card("card-1", "Debit", 2000.0), Card("card-2", "Credit", 1500.0))

BANK_PROFILE = {"email": "mara.lindqvist@homepost.example", "phone": "+44 7700 900 118", "address": "9 Shore Row"}
