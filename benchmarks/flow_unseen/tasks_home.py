"""Tasks at home: devices, shopping, the web."""

from __future__ import annotations

from plans import do, task

task(
    "home-lamp",
    "turn on the living room lamp",
    [do.home_state(room="living"), do.home_set(device_id="dev-living-lamp", state="on")],
    done=["home.set | dev-living-lamp | on"],
)

task(
    "home-bath",
    "Bathroom to 23 degrees please",
    [do.home_state(room="bathroom"), do.home_set(device_id="dev-bath-heat", state="23")],
    done=["home.set | dev-bath-heat | 23"],
)

task(
    "home-coffee",
    "Coffee machine on at 6:45 every day.",
    [
        do.home_state(room="kitchen"),
        do.home_schedule(device_id="dev-kitchen-plug", state="on", at="06:45", repeat="daily"),
    ],
    done=["home.scheduled | dev-kitchen-plug | on | 06:45 | daily"],
)

task(
    "home-leave",
    "Ich gehe jetzt. Lampe aus, Heizung im Wohnzimmer auf 17 und Tür abschließen.",
    [
        do.home_state(),
        do.home_set(device_id="dev-living-lamp", state="off"),
        do.home_set(device_id="dev-living-heat", state="17"),
        do.home_set(device_id="dev-hall-lock", state="locked"),
    ],
    done=["home.set | dev-living-lamp | off", "home.set | dev-living-heat | 17", "home.set | dev-hall-lock | locked"],
)

task(
    "home-paul-code",
    "Mail Paul a door code for the days I'm in Milan, until 5 December.",
    [
        do.calFind(text="Milan"),
        do.contacts_lookup(name="Paul"),
        do.home_guest_code(email="paul.adeyemi@mailwerk.example", valid_until="2026-12-05"),
    ],
    done=["home.code | paul.adeyemi@mailwerk.example | 2026-12-05"],
)

task(
    "home-doorbell",
    "Who rang yesterday and today?",
    [do.home_doorbell_log(since="2026-11-18")],
    done=["saw chimney sweep"],
)

task(
    "home-neighbour",
    "Did a new neighbour ring? Remind me on Saturday to say hello on the third floor.",
    [
        do.home_doorbell_log(since="2026-11-18"),
        do.reminderAdd(text="Say hello to the new neighbour on the third floor", due="2026-11-21T11:00"),
    ],
    done=["reminder.added | neighbour | 2026-11-21"],
)

task(
    "home-batteries",
    "Order two packs of AA batteries.",
    [do.market_search(text="AA batteries"), do.market_order(product_id="P-66", quantity=2)],
    done=["market.ordered | P-66 | quantity=2"],
)

task(
    "home-apple-cake",
    "Find the recipe for apple cake from a baking sheet and put the ingredients on my reminders for tomorrow morning.",
    [
        do.web_search(query="Apfelkuchen"),
        do.web_open(url="https://recipes.example/apfelkuchen"),
        do.reminderAdd(text="Buy 1.5 kg apples, 300 g flour, 150 g butter, 2 eggs", due="2026-11-20T08:00"),
    ],
    done=["reminder.added | 1.5 kg apples | 2026-11-20"],
)

task(
    "home-baking-tray",
    "I need a baking tray 40x30 that fits; check the reviews and order one.",
    [do.market_search(text="baking tray"), do.market_order(product_id="P-65")],
    done=["market.ordered | P-65 | quantity=1"],
)

task(
    "home-weather-blinds",
    "If it's sunny on Saturday close the bedroom blinds at noon that day.",
    [
        do.web_search(query="weather Hamburg"),
        do.home_state(room="bedroom"),
        do.home_schedule(device_id="dev-blinds", state="closed", at="2026-11-21T12:00"),
    ],
    done=["home.scheduled | dev-blinds | closed | 2026-11-21T12:00"],
)

task(
    "home-open-page",
    "What does https://lumenweekly.example/trends say about drivers?",
    [do.web_open(url="https://lumenweekly.example/trends")],
    done=["saw Repairable drivers"],
)

task(
    "home-trend-jonas",
    "Read https://lumenweekly.example/trends and mail Jonas the trend of the year.",
    [
        do.web_open(url="https://lumenweekly.example/trends"),
        do.contacts_lookup(name="Jonas"),
        do.inbox_send(
            to=["jonas.weber@northpier.example"],
            subject="Trend of the year",
            body="Lumen Weekly: repairable drivers are the trend of the year.",
        ),
    ],
    done=["mail.sent | jonas.weber@northpier.example | repairable drivers"],
)

task(
    "home-newsletter-link",
    "Open the article from the Lumen Weekly mail about five trends and summarise it.",
    [
        do.inbox_search(query="Five trends"),
        do.inbox_read(id="m-107"),
        do.web_open(url="https://lumenweekly.example/trends"),
    ],
    done=["saw cordless"],
)

task(
    "home-torch-compare",
    "Vergleiche die Taschenlampen und sag mir, welche für ein Kind taugt. Nicht bestellen.",
    [do.market_search(text="torch")],
    done=["saw Too bright for children"],
)

task("home-vault-router", "What's the login of my router?", [do.vault_entry(name="router")], done=["saw Kelp&Harbour9"])

task(
    "home-night",
    "Guten Abend! Bitte Jalousien zu, Alarmanlage scharf.",
    [
        do.home_state(),
        do.home_set(device_id="dev-blinds", state="closed"),
        do.home_set(device_id="dev-alarm", state="armed"),
    ],
    done=["home.set | dev-blinds | closed", "home.set | dev-alarm | armed"],
)

task(
    "home-parcel-kiosk",
    "Was there something at the door from the courier? Add a calendar entry to fetch it tomorrow at 17:30.",
    [
        do.home_doorbell_log(since="2026-11-18"),
        do.calCreate(title="Fetch parcel PX-77120 at the kiosk", start="2026-11-20T17:30", end="2026-11-20T18:00"),
    ],
    done=["cal.created | PX-77120 | 2026-11-20T17:30"],
)

task(
    "home-two-turns",
    "How warm is it set in the living room?",
    [do.home_state(room="living")],
    "make it 21",
    [do.home_set(device_id="dev-living-heat", state="21")],
    done=["home.set | dev-living-heat | 21"],
)

task(
    "home-es-luz",
    "Apaga la cafetera y baja la calefacción del baño a 19.",
    [
        do.home_state(room="kitchen"),
        do.home_state(room="bathroom"),
        do.home_set(device_id="dev-kitchen-plug", state="off"),
        do.home_set(device_id="dev-bath-heat", state="19"),
    ],
    done=["home.set | dev-kitchen-plug | off", "home.set | dev-bath-heat | 19"],
)

task(
    "home-forum",
    "Search for the Fjell flicker in forums and write the tip into /Notes/flicker.md",
    [
        do.web_search(query="Fjell flickers"),
        do.web_open(url="https://lampforum.example/fjell-flicker"),
        do.drive_create(
            path="/Notes/flicker.md", text="Tip from a forum: set the minimum to 12 percent until the update.\n"
        ),
    ],
    done=["file.created | /Notes/flicker.md | 12 percent"],
)
