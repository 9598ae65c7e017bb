"""Tasks around home, shop and web."""

from __future__ import annotations

from plans import Answer, PlanBook, answered, only
from script import both, did
from tasks_mail import c, person, read, search

HOME = PlanBook("home")
add = HOME.add

add(
    "warm",
    "its cold in the living room, make it 21",
    [c("home_list_devices"), c("home_set_temperature", device_id="thermo-living", celsius=21)],
    done=only(did("home_set_temperature", "thermo-living", "21")),
)
add(
    "leave",
    "im leaving: lights off, alarm on",
    [
        c("home_list_devices"),
        c("home_switch", device_id="lamp-hall", on=False),
        c("home_switch", device_id="alarm-main", on=True),
    ],
    done=both(did("home_switch", "lamp-hall", "False"), did("home_switch", "alarm-main", "True")),
)
add(
    "shed",
    "ist der schuppen zu? wenn nicht abschließen",
    [c("home_list_devices"), c("home_set_lock", device_id="lock-shed", locked=True)],
    done=only(did("home_set_lock", "lock-shed", "True")),
)
add(
    "coffee",
    "coffee machine on at 6:45 on weekdays",
    [
        c("home_list_devices"),
        c("home_add_schedule", device_id="plug-coffee", time="06:45", action="on", days="weekdays"),
    ],
    done=only(did("home_add_schedule", "plug-coffee", "06:45")),
)
add(
    "boiler-code",
    "make a door code 4482 for the boiler guy valid until the 26th",
    [c("home_create_access_code", name="boiler inspection", code="4482", valid_until="2026-11-26")],
    done=only(did("home_create_access_code", "4482")),
)
add(
    "boiler-code-mail",
    "create a door code for the boiler inspection day, 7719, and mail it to henk",
    [
        search("boiler"),
        read("m01"),
        c("home_create_access_code", name="boiler inspection", code="7719", valid_until="2026-11-26"),
        c("gmail_reply", message_id="m01", body="Dear Henk, the code for the front door is 7719. Nadia"),
    ],
    done=both(did("home_create_access_code", "7719"), did("gmail_reply", "m01", text="7719")),
)
add(
    "bath-schedule",
    "bathroom to 22 every morning at 6",
    [c("home_list_devices"), c("home_add_schedule", device_id="thermo-bath", time="06:00", action="22 C")],
    done=only(did("home_add_schedule", "thermo-bath", "06:00")),
)
add(
    "cold-outside",
    "check the weather for utrecht tomorrow, if below 5 at night set living room to 20",
    [
        c("get_weather", city="Utrecht", date="2026-11-19"),
        c("home_list_devices"),
        c("home_set_temperature", device_id="thermo-living", celsius=20),
    ],
    done=only(did("home_set_temperature", "thermo-living", "20")),
)
add(
    "desk-lamp",
    "desk lamp on pls",
    [c("home_list_devices"), c("home_switch", device_id="lamp-desk", on=True)],
    done=only(did("home_switch", "lamp-desk", "True")),
)

SHOP = PlanBook("shop")
add = SHOP.add

add(
    "cake-tin",
    "order the cheaper cake tin, and take the bird feeder out of the cart first",
    [
        c("shop_search", query="cake tin"),
        c("cart_view"),
        c("cart_remove_item", product_id="PR-18"),
        c("cart_add_item", product_id="PR-11"),
        c("cart_checkout", ship_to="home"),
    ],
    done=did("order.placed", "PR-11", "home"),
)
add(
    "jacket-cart",
    "put the better rated rain jacket in my cart, dont order yet",
    [
        c("shop_search", query="rain jacket"),
        c("shop_get_product", product_id="PR-13"),
        c("cart_add_item", product_id="PR-13"),
    ],
    done=only(did("cart_add_item", "PR-13")),
)
add(
    "charger",
    "need a usb-c charger, at least 60w. order it to work, only that, remove the bird feeder",
    [
        c("shop_search", query="usb-c charger"),
        c("shop_get_product", product_id="PR-15"),
        c("cart_view"),
        c("cart_remove_item", product_id="PR-18"),
        c("cart_add_item", product_id="PR-15"),
        c("cart_checkout", ship_to="work"),
    ],
    done=did("order.placed", "PR-15", "work"),
)
add(
    "checkout",
    "order whats in my cart",
    [c("cart_view"), c("cart_checkout", ship_to="home")],
    done=did("order.placed", "PR-18"),
)
add(
    "train-set",
    "whats in the wooden train set",
    [c("shop_search", query="train set"), c("shop_get_product", product_id="PR-17")],
    Answer("42 pieces, from 3 years, 42 EUR."),
    "nice, add 2 to the cart",
    [c("cart_add_item", product_id="PR-17", quantity=2)],
    done=only(did("cart_add_item", "PR-17", "2")),
)
add(
    "cancel-mat",
    "cancel the yoga mat order",
    [c("shop_list_orders"), c("shop_cancel_order", order_id="OR-502")],
    done=only(did("shop_cancel_order", "OR-502")),
)
add(
    "return-shoes",
    "send the running shoes back, too small",
    [c("shop_list_orders"), c("shop_return_order", order_id="OR-503", reason="too small")],
    done=only(did("shop_return_order", "OR-503")),
)
add(
    "parcel-when",
    "when does my lamp come",
    [c("shop_list_orders"), search("parcel OR-501"), read("m15")],
    done=answered,
)
add(
    "coffee-beans",
    "2 kilos of coffee beans in the basket",
    [c("shop_search", query="coffee beans"), c("cart_add_item", product_id="PR-19", quantity=2)],
    done=only(did("cart_add_item", "PR-19", "2")),
)
add(
    "review",
    "5 stars for the bird feeder, write 'robins love it'",
    [
        c("shop_search", query="bird feeder"),
        c("shop_write_review", product_id="PR-18", stars=5, text="Robins love it."),
    ],
    done=only(did("shop_write_review", "PR-18", "5")),
)
add(
    "cadeau",
    "zoek een cadeau voor mila, iets met treinen, en zet het in mijn mandje. vink de todo af",
    [
        c("shop_search", query="train"),
        c("cart_add_item", product_id="PR-17"),
        c("todo_list_tasks"),
        c("todo_complete_task", task_id="td2"),
    ],
    done=both(did("cart_add_item", "PR-17"), did("todo_complete_task", "td2")),
)
add(
    "empty-cart",
    "take the bird feeder out of the cart again",
    [c("cart_view"), c("cart_remove_item", product_id="PR-18")],
    done=only(did("cart_remove_item", "PR-18")),
)

WEB = PlanBook("web")
add = WEB.add

add(
    "museum",
    "when does museum utrecht open on sunday",
    [c("web_search", query="museum utrecht opening hours"), c("fetch_url", url="https://museumutrecht.example/hours")],
    done=answered,
)
add(
    "museum-eva",
    "look up when the museum in utrecht opens on saturday and suggest eva 11:00 by mail",
    [
        c("web_search", query="museum utrecht opening hours"),
        c("fetch_url", url="https://museumutrecht.example/hours"),
        person("eva"),
        c(
            "gmail_send_message",
            to=["eva.verhoeven@postbox.example"],
            subject="Museum",
            body="Shall we meet at the museum on Saturday at 11:00? It opens at 10.",
        ),
    ],
    done=only(did("gmail_send_message", "eva.verhoeven@postbox.example")),
)
add(
    "afval",
    "wanneer wordt het oud papier opgehaald? kijk op https://gemeente.example/afval en zet het in mijn agenda",
    [
        c("fetch_url", url="https://gemeente.example/afval"),
        c("calendar_create_event", summary="Oud papier", start="2026-11-26T07:00", end="2026-11-26T07:30"),
    ],
    done=only(did("calendar_create_event", "2026-11-26T07:00")),
)
add(
    "soup",
    "lentil soup recipe from recipes.example, save it with my recipes",
    [
        c("web_search", query="lentil soup recipe recipes.example"),
        c("fetch_url", url="https://recipes.example/lentil-soup"),
        c(
            "files_write",
            path="/private/recipes/lentil-soup.md",
            content="Lentil soup: 250 g lentils, 2 carrots, 1 onion, cumin, 30 minutes.",
        ),
    ],
    done=only(did("files_write", "/private/recipes/lentil-soup.md")),
)
add(
    "soup-shopping",
    "put the ingredients of https://recipes.example/lentil-soup on my home list",
    [
        c("fetch_url", url="https://recipes.example/lentil-soup"),
        c("todo_add_task", title="250 g lentils, 2 carrots, 1 onion, cumin", list_name="home"),
    ],
    done=only(did("todo_add_task", "home", text="lentils")),
)
add(
    "bakery-prep",
    "zoe from fernhill wrote, look at their website and tell me what they do",
    [
        search("zoe fernhill"),
        read("m17"),
        c("web_search", query="fernhill bakery website"),
        c("fetch_url", url="https://fernhill.example/about"),
    ],
    done=answered,
)
