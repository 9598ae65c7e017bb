"""Tasks that begin in the team's chat."""

# ruff: noqa: E501 -- texts of people, unbroken

from __future__ import annotations

from plans import do, task

task(
    "chat-catchup", "What did I miss in #milan-fair?", [do.chat_history(room="#milan-fair")], done=["saw I vote for B"]
)

task(
    "chat-answer-vote",
    "I'm for B as well, say so in #milan-fair.",
    [do.chat_history(room="#milan-fair"), do.chat_post(room="#milan-fair", text="I am for B as well.")],
    done=["chat.posted | #milan-fair | for B"],
)

task(
    "chat-carpenter-address",
    "Tom asked me for something in our direct chat, answer him. The carpenter should be in my contacts.",
    [
        do.chat_history(room="@tom"),
        do.contacts_lookup(name="carpenter"),
        do.chat_dm(user="@tom", text="Hanna Brandt, hanna@brandt-tischlerei.example, +49 40 555 0177"),
    ],
    done=["chat.dm | @tom | hanna@brandt-tischlerei.example"],
)

task(
    "chat-toner",
    "The printer needs toner again according to #operations. Order the original one, black.",
    [
        do.chat_history(room="#operations"),
        do.market_search(text="toner TX-200 black"),
        do.market_order(product_id="P-61"),
    ],
    done=["market.ordered | P-61"],
)

task(
    "chat-toner-tell",
    "Order a black TX-200 toner and tell #operations it's coming.",
    [
        do.market_search(text="toner black"),
        do.market_order(product_id="P-61"),
        do.chat_post(room="#operations", text="Toner is ordered."),
    ],
    done=["market.ordered | P-61", "chat.posted | #operations | Toner"],
)

task(
    "chat-lena-workaround",
    "Lena asked in #support-desk what to tell the customer. There was a workaround in some forum; find it and answer in her thread.",
    [
        do.chat_history(room="#support-desk"),
        do.web_search(query="fjell flicker"),
        do.web_open(url="https://lampforum.example/fjell-flicker"),
        do.chat_thread_reply(
            room="#support-desk", ts="t33", text="Workaround: set the minimum to 12 percent until the update on Monday."
        ),
    ],
    done=["chat.thread | #support-desk | t33 | 12 percent"],
)

task(
    "chat-offsite-reminder",
    "Sofia reminded us of something with a deadline in #operations. Put it on my list.",
    [do.chat_history(room="#operations"), do.reminderAdd(text="Answer about the offsite food", due="2026-11-20T12:00")],
    done=["reminder.added | offsite food | 2026-11-20"],
)

task(
    "chat-thumbs",
    "give omar's cake message in #random a 🎂",
    [do.chat_history(room="#random"), do.chat_react(room="#random", ts="t51", emoji="🎂")],
    done=["chat.reacted | #random | t51 | 🎂"],
)

task(
    "chat-topic",
    "Set the topic of #milan-fair to 'Milan, 2-5 December, layout B'.",
    [do.chat_set_topic(room="#milan-fair", topic="Milan, 2-5 December, layout B")],
    done=["chat.topic | #milan-fair | layout B"],
)

task(
    "chat-invite-sofia",
    "Add Sofia to the Milan room and welcome her there.",
    [
        do.chat_people(query="Sofia"),
        do.chat_rooms(),
        do.chat_invite(room="#milan-fair", user="@sofia"),
        do.chat_post(room="#milan-fair", text="Welcome, Sofia!"),
    ],
    done=["chat.invited | #milan-fair | @sofia", "chat.posted | #milan-fair | Welcome"],
)

task(
    "chat-release-go",
    "Is there a go for 2.3.0 in #releases? If yes, run the release workflow of lampd.",
    [do.chat_history(room="#releases"), do.repo_run_workflow(repo="northpier/lampd", workflow="release")],
    done=["workflow.run | northpier/lampd | release"],
)

task(
    "chat-luz-yes",
    "Sag Sofia im Chat, dass ich den Anruf mit Luz Norte am Freitag übernehme.",
    [
        do.chat_history(room="@sofia"),
        do.chat_dm(user="@sofia", text="Ich übernehme den Anruf mit Luz Norte am Freitag."),
    ],
    done=["chat.dm | @sofia | Luz Norte"],
)

task(
    "chat-price-list",
    "Carlos asked for the price list in #partners-ext. What did Ingrid say? Also put a reminder for 30 November to send it.",
    [
        do.chat_history(room="#partners-ext"),
        do.reminderAdd(text="Send the price list 2027 to Carlos", due="2026-11-30T09:00"),
    ],
    done=["reminder.added | price list | 2026-11-30"],
)

task(
    "chat-layout-jonas-dm",
    "Read the discussion in #milan-fair and send Jonas the result as a direct message",
    [
        do.chat_history(room="#milan-fair"),
        do.chat_people(query="Jonas"),
        do.chat_dm(user="@jonas", text="Two votes for layout B (Ingrid, Tom), none for A."),
    ],
    done=["chat.dm | @jonas | layout B"],
)

task(
    "chat-layout-summary-mail",
    "Mail our CEO a short summary of the Milan discussion, Birgit likes it brief.",
    [
        do.chat_rooms(),
        do.chat_history(room="#milan-fair"),
        do.chat_people(query="Birgit"),
        do.inbox_send(
            to=["ceo@northpier.example"],
            subject="Milan",
            body="The team prefers layout B: 6,500 euros, within the budget of 7,000.",
        ),
    ],
    done=["mail.sent | ceo@northpier.example | 6,500"],
)

task(
    "chat-bonus-reminder",
    "By when does Tom need bonus proposals? Add it to my calendar as an all-morning block.",
    [
        do.chat_rooms(),
        do.chat_history(room="#leadership"),
        do.calCreate(title="Bonus proposals", start="2026-11-25T09:00", end="2026-11-25T12:00"),
    ],
    done=["cal.created | Bonus | 2026-11-25"],
)

task(
    "chat-concert",
    "Dans #random, Jonas propose des billets. Réponds-lui que je prends les deux billets pour le concert de samedi.",
    [
        do.chat_history(room="#random"),
        do.chat_dm(user="@jonas", text="Je prends les deux billets pour samedi, merci !"),
    ],
    done=["chat.dm | @jonas | deux billets"],
)

task(
    "chat-returns-tom",
    "Tom needs the returns check. Count the units in the November sheet and tell him.",
    [
        do.chat_history(room="@tom"),
        do.drive_search(text="returns november"),
        do.drive_sheet(file_id="f-12"),
        do.chat_dm(user="@tom", text="Returns in November: 4 units."),
    ],
    done=["chat.dm | @tom | 4 units"],
)

task(
    "chat-two-turns",
    "who's in charge of firmware again?",
    [do.chat_people(query="Firmware")],
    "ask him in a DM when 2.3 goes out",
    [do.chat_dm(user="@omar", text="When does 2.3 go out?")],
    done=["chat.dm | @omar | 2.3"],
)

task(
    "chat-support-status",
    "Look up ticket T-4102 and tell #support-desk in one line what the customer's problem is.",
    [
        do.desk_ticket(ticket_id="T-4102"),
        do.chat_post(room="#support-desk", text="T-4102: the customer's Fjell flickers when dimmed."),
    ],
    done=["chat.posted | #support-desk | T-4102"],
)

task(
    "chat-sick-note",
    "Let the operations room know Ingrid is out until Monday and that I do Friday's call.",
    [
        do.chat_rooms(),
        do.inbox_search(query="Ingrid sick"),
        do.chat_post(room="#operations", text="Ingrid is out until Monday. I take Friday's call with Luz Norte."),
    ],
    done=["chat.posted | #operations | Ingrid"],
)
