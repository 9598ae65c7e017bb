"""Tasks about money, travel, shopping, the house, health, notes and the web."""

# ruff: noqa: E501

from __future__ import annotations

from script import (
    Script,
    TaskBook,
    answered,
    both,
    call,
    did,
    find_address,
    find_mail,
    find_payee,
    listed,
    mailed,
    noted,
    pick,
)

MONEY = TaskBook("money")
TRIP = TaskBook("trip")
HOME = TaskBook("home")
IBAN_GRETA = "DE75512108001245126199"
IBAN_BEN = "DE27100777770209299700"


@MONEY.task("how much money do i have", done=answered)
def balance() -> Script:
    yield call("accounts_overview")


@MONEY.task("wieviel hab ich im november für lebensmittel ausgegeben", done=answered)
def groceries() -> Script:
    yield call("statement", account="giro", month="2026-11")


@MONEY.task("did streamly charge me twice?", done=answered)
def twice() -> Script:
    yield call("statement", account="giro", month="2026-11")


@MONEY.task("which standing orders do I have and how much is that per month?", done=answered)
def orders() -> Script:
    yield call("standing_orders")


@MONEY.task("has ben paid me back for the tickets", done=answered)
def ben_paid() -> Script:
    found = yield call("statement", account="giro", month="2026-11")
    pick(found.data, party="Ben")


@MONEY.task("cuánto gasté en noviembre y cuánto en octubre? apúntalo en la libreta 'gastos'", done=noted("gastos"))
def spending_note() -> Script:
    yield [call("statement", account="giro", month="2026-11"), call("statement", account="giro", month="2026-10")]
    yield call("notebook_add", notebook="gastos", text="Noviembre: 1585,27; octubre: 63,20")


@MONEY.task("send greta 40 euro for the present", done=did("money.sent", IBAN_GRETA, "40.00"))
def pay_greta() -> Script:
    iban = yield from find_payee("Greta")
    yield call("payment_order", payee_iban=iban, amount_eur=40, reference="present")


@MONEY.task("überweis ben 22,50 für die pizza", done=did("money.sent", IBAN_BEN, "22.50"))
def pay_ben() -> Script:
    iban = yield from find_payee("Ben")
    yield call("payment_order", payee_iban=iban, amount_eur=22.5, reference="Pizza")


@MONEY.task("pay the TSV membership fee from the mail", done=did("money.sent", "DE44701500000094112233", "96.00"))
def pay_club() -> Script:
    yield from find_mail("tsv beitrag")
    iban = yield from find_payee("TSV")
    yield call("payment_order", payee_iban=iban, amount_eur=96, reference="Beitrag 4471")


@MONEY.task(
    "transfer 150 to DE02 1203 0000 0000 2020 51, reference 'bike', thats for Mia",
    done=did("money.sent", "DE02120300000000202051", "150.00"),
)
def pay_iban() -> Script:
    yield call("payment_order", payee_iban="DE02120300000000202051", amount_eur=150, reference="bike", name="Mia")


@MONEY.task("raise my savings standing order to 350", done=did("order.changed", "SO-3"))
def raise_savings() -> Script:
    found = yield call("standing_orders")
    yield call("standing_order_edit", order_id=pick(found.data, name="Sparen")["order_id"], amount_eur=350)


@MONEY.task("stopp den dauerauftrag für die spende", done=did("order.stopped", "SO-2"))
def stop_donation() -> Script:
    found = yield call("standing_orders")
    yield call("standing_order_stop", order_id=pick(found.data, name="Spende")["order_id"])


@MONEY.task(
    "the rent goes up to 1210 from december, wieland wrote. change the standing order",
    done=did("order.changed", "SO-1", "1210.0"),
)
def rent() -> Script:
    yield call("mail_search", q="wieland")
    found = yield call("standing_orders")
    yield call("standing_order_edit", order_id=pick(found.data, name="Miete")["order_id"], amount_eur=1210)


@MONEY.task("move 500 from giro to savings", done=did("money.moved", "giro", "savings", "500.00"))
def to_savings() -> Script:
    yield call("accounts_overview")
    yield call("internal_transfer", from_account="giro", to_account="savings", amount_eur=500)


@MONEY.task(
    "save volta energie as a payee, iban is in their invoice", done=did("payee.added", "DE21700202700015883190")
)
def save_payee() -> Script:
    yield from find_mail("volta")
    yield call("payee_add", name="Volta Energie", iban="DE21 7002 0270 0015 8831 90")


@MONEY.task("freeze my visa card, i lost it", done=did("card.frozen"))
def freeze() -> Script:
    yield call("card_freeze", card="visa")


@MONEY.task("what did i spend at hotel spree?", "mail that amount to nadia with the date",
            done=mailed("nadia.petrova@nordlicht.example", text="189"))  # fmt: skip
def hotel_turns() -> Script:
    yield call("statement", account="giro", month="2026-11")
    yield "189.00 EUR on 2026-11-04."
    to = yield from find_address("Nadia")
    yield call("mail_send", to=[to], subject="Hotel Spree", body="It was 189.00 EUR on 2026-11-04.")


# --- travel ----------------------------------------------------------------------------------------


@TRIP.task("trains munich to berlin on march 15 2027?", done=answered)
def trains() -> Script:
    yield call("searchTrains", origin="Munich", destination="Berlin", date="2027-03-15")


@TRIP.task("what trips have i booked", done=answered)
def trips() -> Script:
    yield call("my_bookings")


@TRIP.task("compare the berlin hotels, whats the catch with each", done=answered)
def compare() -> Script:
    found = yield call("search_hotels", city="Berlin")
    yield [call("hotel_reviews", hotel_id=hotel["hotel_id"]) for hotel in found.data["hotels"]]


@TRIP.task("ist mein flug nach osaka pünktlich", done=answered)
def flight() -> Script:
    found = yield call("my_bookings")
    yield call("flight_status", flight=pick(found.data["bookings"], what="Osaka")["ref"])


@TRIP.task("when does my passport... whats the number again, i need it for the form", done=answered)
def passport() -> Script:
    yield call("traveller_profile")


@TRIP.task("find me a quiet hotel in osaka and note the name in notebook osaka", done=noted("osaka", "Umeda"))
def quiet_hotel() -> Script:
    found = yield call("search_hotels", city="Osaka")
    for hotel in found.data["hotels"]:
        yield call("hotel_reviews", hotel_id=hotel["hotel_id"])
    yield call("notebook_add", notebook="osaka", text="Umeda Garden, 110 EUR")


@TRIP.task("book the cheaper train munich-berlin on 15 march 2027", done=did("train.booked", "T-603"))
def book_train() -> Script:
    found = yield call("searchTrains", origin="Munich", destination="Berlin", date="2027-03-15")
    offer = min(found.data["results"]["offers"], key=lambda one: one["eur"])["offer"]
    yield call("bookTrain", offer=offer)


@TRIP.task("buch mir die pension lotte in berlin 15.-18. märz 2027", done=did("hotel.booked", "h-berlin-2"))
def book_pension() -> Script:
    found = yield call("search_hotels", city="Berlin")
    id = pick(found.data["hotels"], name="Lotte")["hotel_id"]
    yield call("hotel_reviews", hotel_id=id)
    yield call("book_hotel", hotel_id=id, checkin="2027-03-15", checkout="2027-03-18")


@TRIP.task("réserve l'hôtel des Capucins à Lyon du 7 au 9 décembre", done=did("hotel.booked", "h-lyon-1", "2026-12-07"))
def book_lyon() -> Script:
    found = yield call("search_hotels", city="Lyon")
    id = found.data["hotels"][0]["hotel_id"]
    yield call("book_hotel", hotel_id=id, checkin="2026-12-07", checkout="2026-12-09")


@TRIP.task("book the hotel in osaka with the best reviews for dec 1-8 and tell yuki the name by mail",
           done=both(did("hotel.booked", "h-osaka-1"), mailed("yuki.tanaka@nordlicht.example", text="Umeda")))  # fmt: skip
def book_osaka() -> Script:
    found = yield call("search_hotels", city="Osaka")
    for hotel in found.data["hotels"]:
        yield call("hotel_reviews", hotel_id=hotel["hotel_id"])
    yield call("book_hotel", hotel_id="h-osaka-1", checkin="2026-12-01", checkout="2026-12-08")
    to = yield from find_address("Yuki")
    yield call("mail_send", to=[to], subject="Hotel", body="I stay at Umeda Garden.")


@TRIP.task("cancel the tegernsee booking", done=did("booking.cancelled", "HB9001"))
def cancel_alpenhof() -> Script:
    found = yield call("my_bookings")
    yield call("cancel_booking", booking_ref=pick(found.data["bookings"], what="Tegernsee")["ref"])


@TRIP.task("move my stuttgart train to the 26th", done=did("booking.moved", "TX8890", "2026-11-26"))
def move_train() -> Script:
    found = yield call("my_bookings")
    yield call("rebook", booking_ref=pick(found.data["bookings"], what="Stuttgart")["ref"], new_date="2026-11-26")


@TRIP.task("cancel booking HB7712", done=did("booking.cancelled", "HB7712"))
def cancel_exact() -> Script:
    yield call("cancel_booking", booking_ref="HB7712")


@TRIP.task("train to salzburg on saturday 21st?", "book it, window seat", "and put it in the calendar",
           done=both(did("train.booked", "T-31"), did("event.created", "2026-11-21T09:05")))  # fmt: skip
def salzburg_turns() -> Script:
    found = yield call("searchTrains", origin="Munich", destination="Salzburg", date="2026-11-21")
    yield "RE 31 at 09:05, 22 EUR."
    yield call("bookTrain", offer=found.data["results"]["offers"][0]["offer"], seat="window")
    yield "Booked."
    yield call("createCalendarEntry", title="Train to Salzburg", start="2026-11-21T09:05", end="2026-11-21T10:50")


@TRIP.task("put my flight to osaka into the calendar", done=did("event.created", "2026-12-01T14:35"))
def flight_entry() -> Script:
    found = yield call("my_bookings")
    yield call("flight_status", flight=pick(found.data["bookings"], what="Osaka")["ref"])
    yield call("createCalendarEntry", title="Flight to Osaka", start="2026-12-01T14:35", end="2026-12-02T09:00")


# --- shop, house, health, lists, web ---------------------------------------------------------------


@HOME.task("how much are coffee beans", done=answered)
def beans() -> Script:
    yield call("shopSearch", query="coffee beans")


@HOME.task("what did i buy lately and can i still return the jacket?", done=answered)
def purchases() -> Script:
    yield call("shopPurchases")


@HOME.task("welche medikamente nehme ich", done=answered)
def medicines() -> Script:
    yield call("health_record")


@HOME.task("what do the letters from my doctors say", done=answered)
def letters() -> Script:
    yield call("health_letters")


@HOME.task("whats on my todo list and whats due this week", done=answered)
def todos() -> Script:
    yield call("todo_list")


@HOME.task("what's on in kino isar tonight? https://www.kino-isar.example/", done=answered)
def cinema() -> Script:
    yield call("web_get", url="https://www.kino-isar.example/")


@HOME.task("read me the optics news on news.example", done=answered)
def news() -> Script:
    found = yield call("web_search", query="optics news")
    yield call("web_get", url=found.data[-1]["url"])


@HOME.task("is dali-2 worth it for museums? research a bit", done=answered)
def research() -> Script:
    found = yield call("web_search", query="dali-2 museums")
    for page in found.data:
        if "dali" in page["url"]:
            yield call("web_get", url=page["url"])


@HOME.task(
    "look up the schokotorte recipe on recipes.example and put the ingredients on the shopping notebook",
    done=noted("shopping", "eggs"),
)
def recipe() -> Script:
    found = yield call("web_search", query="schokotorte")
    yield call("web_get", url=pick(found.data, url="recipes")["url"])
    yield call("notebook_add", notebook="shopping", text="200 g chocolate, 6 eggs, 150 g butter")


@HOME.task("what's on my shopping list? add coffee filters", done=noted("shopping", "filters"))
def filters() -> Script:
    yield call("notebook_read", notebook="shopping")
    yield call("notebook_add", notebook="shopping", text="coffee filters")


@HOME.task("put 'call wieland about the heating' on my list for friday", done=listed("wieland"))
def todo_call() -> Script:
    yield call("todo_list")
    yield call("todo_add", text="Call Wieland about the heating", due="2026-11-20")


@HOME.task("tick off the nebenkosten todo, i paid", done=did("todo.done", 3))
def tick() -> Script:
    found = yield call("todo_list")
    yield call("todo_tick", id=pick(found.data, text="Nebenkosten")["id"])


@HOME.task("delete todo 4", done=did("todo.deleted", 4))
def delete_todo() -> Script:
    yield call("todo_list")
    yield call("todo_delete", id=4)


@HOME.task("order 1kg coffee beans", done=did("shop.ordered", "COFFEE-1K"))
def order_beans() -> Script:
    found = yield call("shopSearch", query="coffee beans")
    yield call("shopOrder", sku=found.data[0]["sku"])


@HOME.task("bestell eine schokotorte für mamas geburtstag", done=did("shop.ordered", "CAKE-01"))
def order_cake() -> Script:
    found = yield call("shopSearch", query="schokotorte")
    yield call("shopOrder", sku=found.data[0]["sku"])


@HOME.task("send the rain jacket back, too small", done=did("shop.returned", "OR-12"))
def return_jacket() -> Script:
    found = yield call("shopPurchases")
    yield call("shopReturn", purchase=pick(found.data, title="jacket")["purchase"], reason="too small")


@HOME.task("5 stars for the desk lamp's... no wait the hdmi cable. 'works'", done=did("shop.reviewed", "HDMI-2", 5))
def review_cable() -> Script:
    found = yield call("shopSearch", query="hdmi")
    yield call("shopReview", sku=found.data[0]["sku"], stars=5, text="works")


@HOME.task("licht im flur aus", done=did("home.light", "flur", "False"))
def light_off() -> Script:
    yield call("licht_schalten", raum="flur", an=False)


@HOME.task("im freezing, make the office 2 degrees warmer", done=did("home.heating", "buero", "22"))
def warmer() -> Script:
    yield call("haus_status")
    yield call("heizung_stellen", raum="buero", grad=22)


@HOME.task(
    "mach überall das licht aus",
    done=both(did("home.light", "wohnzimmer", "False"), did("home.light", "flur", "False")),
)
def all_off() -> Script:
    found = yield call("haus_status")
    yield [call("licht_schalten", raum=raum, an=False) for raum, state in found.data.items() if state["licht"]]


@HOME.task("create a door code for greta at the haustuer until sunday", done=did("home.code", "haustuer"))
def guest_code() -> Script:
    to = yield from find_address("Greta")
    yield call("gastcode_anlegen", tuer="haustuer", person=to, bis="2026-11-22")


@HOME.task(
    "book the check-up at dr ruiz, the afternoon slot from the letter",
    done=did("health.booked", "Praxis Dr. Ruiz", "2026-12-03 16:30"),
)
def check_up() -> Script:
    found = yield call("health_letters")
    practice = pick(found.data, text="check-up")["from"]
    yield call("book_appointment", practice=practice, slot="2026-12-03 16:30")


@HOME.task(
    "ask Praxis Dr. Ott for a new prescription of my thyroid pills",
    done=did("health.message", "Praxis Dr. Ott", text="levothyroxine"),
)
def prescription() -> Script:
    yield call("health_record")
    yield call("write_to_practice", practice="Praxis Dr. Ott", text="Please renew my levothyroxine 75 ug.")


@HOME.task(
    "add Mia Brandt, mia.brandt@inbox.example to my contacts", done=did("contact.saved", "mia.brandt@inbox.example")
)
def save_contact() -> Script:
    yield call("contacts_lookup", name="Mia")
    yield call("contacts_save", name="Mia Brandt", email="mia.brandt@inbox.example")


@HOME.task("invite mama and greta to dinner on sunday 22nd 19:00 at my place",
           done=did("event.created", "ulla.lindqvist@posteo.example", "greta.lindqvist@posteo.example"))  # fmt: skip
def dinner() -> Script:
    one = yield from find_address("Mama")
    two = yield from find_address("Greta")
    yield call(
        "createCalendarEntry",
        title="Dinner",
        start="2026-11-22T19:00",
        end="2026-11-22T22:00",
        guests=[one, two],
        location="my place",
    )
