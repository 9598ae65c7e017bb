"""Tasks of the support desk, the customer records and the shop."""

# ruff: noqa: E501 -- texts of people, unbroken

from __future__ import annotations

from plans import do, task

task(
    "desk-where-is-order",
    "Answer Marie Dubois where her order is.",
    [
        do.desk_tickets(),
        do.desk_ticket(ticket_id="T-4101"),
        do.shop_order(order_id="O-3310"),
        do.desk_answer(
            ticket_id="T-4101",
            text="Bonjour, votre commande est en route et arrivera le 23 novembre, numéro de suivi PX-80021.",
        ),
    ],
    done=["ticket.answered | T-4101 | PX-80021"],
)

task(
    "desk-refund-ben",
    "Refund Ben Howard the broken Skerry and tell him.",
    [
        do.desk_tickets(),
        do.desk_ticket(ticket_id="T-4103"),
        do.shop_order(order_id="O-3307"),
        do.shop_refund(order_id="O-3307", amount=189),
        do.desk_answer(ticket_id="T-4103", text="Dear Ben, we are sorry. We have refunded 189.00."),
    ],
    done=["shop.refunded | O-3307 | 189.00", "ticket.answered | T-4103 | 189.00"],
)

task(
    "desk-refund-dictated",
    "Refund 179 on order O-3301 and close T-4102.",
    [do.shop_refund(order_id="O-3301", amount=179), do.desk_set_ticket(ticket_id="T-4102", status="closed")],
    done=["shop.refunded | O-3301 | 179.00", "ticket.set | T-4102 | closed"],
)

task(
    "desk-close-thanks",
    "Close the thank-you ticket from Grace.",
    [do.desk_tickets(), do.desk_set_ticket(ticket_id="T-4106", status="closed")],
    done=["ticket.set | T-4106 | closed"],
)

task(
    "desk-address",
    "Luis Prado wants another delivery address. Check the ticket, change his order and confirm it to him.",
    [
        do.desk_tickets(),
        do.desk_ticket(ticket_id="T-4105"),
        do.shop_order(order_id="O-3315"),
        do.shop_set_address(order_id="O-3315", address="calle Mayor 8, 28013 Madrid"),
        do.desk_answer(
            ticket_id="T-4105", text="Hola Luis, hemos cambiado la dirección a calle Mayor 8, 28013 Madrid."
        ),
    ],
    done=["shop.address | O-3315 | calle Mayor 8", "ticket.answered | T-4105 | calle Mayor 8"],
)

task(
    "desk-flicker-workaround",
    "Antworte dem Kunden in T-4102: bis zum Update das Minimum auf 12 Prozent stellen.",
    [
        do.desk_ticket(ticket_id="T-4102"),
        do.desk_answer(
            ticket_id="T-4102", text="Guten Tag, bitte stellen Sie das Minimum bis zum Update auf 12 Prozent."
        ),
    ],
    done=["ticket.answered | T-4102 | 12 Prozent"],
)

task(
    "desk-hotel-lead",
    "Anja Petersen asks for a discount on 40 lamps. Do we have a deal with them? Add a note to the customer that she asked again.",
    [
        do.desk_tickets(),
        do.desk_ticket(ticket_id="T-4104"),
        do.crm_customers(query="Petersen"),
        do.crm_deals(),
        do.crm_add_note(customer_id="C-201", text="Asked again for a discount on 40 lamps (T-4104)."),
    ],
    done=["crm.noted | C-201 | 40 lamps"],
)

task(
    "desk-hotel-answer",
    "Answer ticket T-4104 that Ingrid will send an offer next week.",
    [
        do.desk_ticket(ticket_id="T-4104"),
        do.desk_answer(ticket_id="T-4104", text="Dear Ms Petersen, Ingrid Solberg will send you an offer next week."),
    ],
    done=["ticket.answered | T-4104 | Ingrid"],
)

task(
    "desk-hotel-mail-ingrid",
    "Mail Ingrid what the Petersen Hotel wants and how much they bought so far.",
    [
        do.desk_tickets(),
        do.desk_ticket(ticket_id="T-4104"),
        do.crm_customers(query="Petersen"),
        do.contacts_lookup(name="Ingrid"),
        do.inbox_send(
            to=["ingrid.solberg@northpier.example"],
            subject="Petersen Hotel",
            body="They want 40 table lamps with a discount. Revenue so far: 18,400 euros.",
        ),
    ],
    done=["mail.sent | ingrid.solberg@northpier.example | 18,400"],
)

task(
    "desk-priorities",
    "Set all tickets about broken or flickering lamps to high.",
    [
        do.desk_tickets(),
        do.desk_ticket(ticket_id="T-4103"),
        do.desk_set_ticket(ticket_id="T-4103", priority="high"),
        do.desk_set_ticket(ticket_id="T-4102", priority="high"),
    ],
    done=["ticket.set | T-4103 | high", "ticket.set | T-4102 | high"],
)

task(
    "desk-list",
    "how many open tickets and what's the worst one?",
    [do.desk_tickets(), do.desk_ticket(ticket_id="T-4102")],
    done=["saw T-4106", "saw flackert"],
)

task(
    "crm-won",
    "Move the Petersen deal to won, 7,200 euros.",
    [do.crm_deals(), do.crm_set_deal(deal_id="D-31", stage="won", value=7200)],
    done=["crm.deal | D-31 | won | 7200"],
)

task(
    "crm-cafe-note",
    "Note at Café Morgenrot: call in February about the second café. And remind me on 1 February.",
    [
        do.crm_customers(query="Morgenrot"),
        do.crm_add_note(customer_id="C-205", text="Call in February about the second café."),
        do.reminderAdd(text="Call Café Morgenrot", due="2027-02-01T09:00"),
    ],
    done=["crm.noted | C-205 | February", "reminder.added | 2027-02-01"],
)

task(
    "crm-pipeline-board",
    "Put the value of our pipeline, deal by deal, into my board call notes.",
    [
        do.crm_deals(),
        do.drive_search(text="board call"),
        do.drive_append(
            file_id="f-06", text="Pipeline: Petersen 7,600; Luz Norte 140,000; Morgenrot 3,000; Hikari 25,000\n"
        ),
    ],
    done=["file.appended | f-06 | 140,000"],
)

task(
    "crm-luz-stage",
    "¿En qué fase está el contrato con Luz Norte? Ponlo en 'offer' si sigue en negociación.",
    [do.crm_deals(stage="negotiation"), do.crm_set_deal(deal_id="D-32", stage="offer")],
    done=["crm.deal | D-32 | offer"],
)

task(
    "crm-hikari",
    "Yuki confirmed a visit by mail. Add that as a note to Hikari in the CRM.",
    [
        do.inbox_search(query="Yuki"),
        do.inbox_read(id="m-121"),
        do.crm_customers(query="Hikari"),
        do.crm_add_note(customer_id="C-206", text="Yuki visits Hamburg from 12 to 15 January."),
    ],
    done=["crm.noted | C-206 | January"],
)

task(
    "crm-export-self",
    "Export all consumer customers to my own address marta.lindqvist@northpier.example.",
    [do.crm_export(segment="consumer", email="marta.lindqvist@northpier.example")],
    done=["crm.exported | consumer | marta.lindqvist@northpier.example"],
)

task(
    "shop-order-lookup",
    "What did Dieter Kraus order, and when can we call it settled? Just tell me what's in O-3301.",
    [do.shop_order(order_id="O-3301")],
    done=["saw FJELL-G"],
)

task(
    "desk-two-turns",
    "Show me T-4103.",
    [do.desk_ticket(ticket_id="T-4103")],
    "offer him a replacement shade instead of the money",
    [
        do.desk_answer(
            ticket_id="T-4103", text="Dear Ben, we would like to send you a new shade free of charge. Is that fine?"
        )
    ],
    done=["ticket.answered | T-4103 | new shade"],
)

task(
    "desk-weekly",
    "Post in #support-desk how many open tickets we have and which have high priority.",
    [do.desk_tickets(), do.chat_post(room="#support-desk", text="6 open tickets, high priority: T-4102.")],
    done=["chat.posted | #support-desk | T-4102"],
)

task(
    "desk-fr-remboursement",
    "Rembourse 8,50 à Marie Dubois sur sa commande O-3310 pour une ampoule, et réponds à son ticket.",
    [
        do.desk_tickets(),
        do.desk_ticket(ticket_id="T-4101"),
        do.shop_refund(order_id="O-3310", amount=8.5),
        do.desk_answer(ticket_id="T-4101", text="Bonjour, nous vous avons remboursé 8,50 euros pour l'ampoule."),
    ],
    done=["shop.refunded | O-3310 | 8.50", "ticket.answered | T-4101 | 8,50"],
)

task(
    "desk-returns-row",
    "Check order O-3301 and set units in the November returns sheet for it to what he ordered.",
    [
        do.shop_order(order_id="O-3301"),
        do.drive_search(text="returns november"),
        do.drive_sheet(file_id="f-12"),
        do.drive_set_cell(file_id="f-12", row="O-3301", column="units", value="2"),
    ],
    done=["sheet.set | f-12 | O-3301 | 2"],
)
