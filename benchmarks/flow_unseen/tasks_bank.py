"""Tasks about money."""

# ruff: noqa: E501 -- texts of people, unbroken

from __future__ import annotations

from plans import do, task

task(
    "bank-power-bill",
    "Pay the Nordkraft bill that came by mail.",
    [
        do.inbox_search(query="Nordkraft Rechnung"),
        do.inbox_read(id="m-102"),
        do.bank_payees(name="Nordkraft"),
        do.bank_transfer(iban="DE44500105175407324931", amount=84.2, reference="NK-20261117"),
    ],
    done=["bank.paid | DE44500105175407324931 | 84.20 | NK-20261117"],
)

task(
    "bank-power-dictated",
    "Transfer 84.20 to Nordkraft, reference NK-20261117",
    [
        do.bank_payees(name="Nordkraft"),
        do.bank_transfer(iban="DE44500105175407324931", amount=84.2, reference="NK-20261117"),
    ],
    done=["bank.paid | DE44500105175407324931 | 84.20"],
)

task("bank-balance", "How much is on my accounts?", [do.bank_accounts()], done=["saw 4812.6"])

task(
    "bank-groceries",
    "What did I spend on groceries since the 1st?",
    [do.bank_transactions(account="giro", since="2026-11-01", text="groceries")],
    done=["saw 63.4"],
)

task(
    "bank-paul",
    "Paul hat mir 45 Euro für die Konzertkarten überwiesen? Bedank dich per Mail bei ihm.",
    [
        do.bank_transactions(account="giro", since="2026-11-01", text="Paul"),
        do.contacts_lookup(name="Paul"),
        do.inbox_send(
            to=["paul.adeyemi@mailwerk.example"], subject="Danke", body="Lieber Paul, die 45 Euro sind da, danke! Marta"
        ),
    ],
    done=["mail.sent | paul.adeyemi@mailwerk.example | 45 Euro"],
)

task(
    "bank-streambox-double",
    "Did Streambox charge me twice this month? If so, cancel the standing order.",
    [
        do.bank_transactions(account="giro", since="2026-11-01", text="Streambox"),
        do.bank_orders(),
        do.bank_cancel_order(order_id="SO-4"),
    ],
    done=["bank.order_cancelled | SO-4"],
)

task(
    "bank-gym-cancel",
    "Cancel the standing order for the gym.",
    [do.bank_orders(), do.bank_cancel_order(order_id="SO-3")],
    done=["bank.order_cancelled | SO-3"],
)

task(
    "bank-clara-share",
    "Send Clara 60 euros for papa's present",
    [
        do.bank_payees(name="Clara"),
        do.bank_transfer(iban="DE02120300000000202051", amount=60, reference="Present for papa"),
    ],
    done=["bank.paid | DE02120300000000202051 | 60.00"],
)

task(
    "bank-clara-schedule",
    "Überweise Clara jeden Monat am 1. 50 Euro für die Reisekasse, ab Dezember.",
    [
        do.bank_payees(name="Clara"),
        do.bank_schedule(
            iban="DE02120300000000202051", amount=50, reference="Reisekasse", date="2026-12-01", every="month"
        ),
    ],
    done=["bank.scheduled | DE02120300000000202051 | 50.00 | month"],
)

task(
    "bank-nebenkosten",
    "Pay the utilities back-payment to the landlord by the end of November; the amount is in his mail. Schedule it for the 28th.",
    [
        do.inbox_search(query="Nebenkosten"),
        do.inbox_read(id="m-119"),
        do.bank_payees(name="Mietkonto"),
        do.bank_schedule(
            iban="DE21700519950000007229", amount=212.75, reference="Nachzahlung Nebenkosten 2025", date="2026-11-28"
        ),
    ],
    done=["bank.scheduled | DE21700519950000007229 | 212.75 | 2026-11-28"],
)

task(
    "bank-perret-paid",
    "Have we paid Claire's invoice of 1,850? Tell her when.",
    [
        do.bank_transactions(account="giro", since="2026-11-01", text="Perret"),
        do.inbox_search(query="Claire"),
        do.inbox_reply(id="m-113", body="Bonjour Claire, la facture a été payée le 15 novembre. Marta"),
    ],
    done=["mail.sent | claire@studioperret.example | 15 novembre"],
)

task(
    "bank-card-limit",
    "Raise the limit of my credit card 'visa-01' to 3000 for the Milan trip.",
    [do.bank_card_limit(card="visa-01", monthly_limit=3000)],
    done=["bank.limit | visa-01 | 3000"],
)

task(
    "bank-card-lost",
    "lost my wallet!! block visa-01 right now",
    [do.bank_card_block(card="visa-01", blocked=True)],
    done=["bank.card | visa-01 | True"],
)

task(
    "bank-rent-check",
    "Was the rent for November paid and does it match the standing order?",
    [do.bank_transactions(account="giro", since="2026-11-01", text="rent"), do.bank_orders()],
    done=["saw -1480", "saw SO-1"],
)

task(
    "bank-month-sheet",
    "Add what I paid Kita this month to my household sheet as kita.",
    [
        do.bank_transactions(account="giro", since="2026-11-01", text="Kita"),
        do.drive_search(text="household"),
        do.drive_set_cell(file_id="f-17", row="kita", column="monthly", value="310"),
    ],
    done=["sheet.set | f-17 | kita | 310"],
)

task(
    "bank-savings-note",
    "Write my savings balance into /Private/savings.md with today's date.",
    [do.bank_accounts(), do.drive_create(path="/Private/savings.md", text="2026-11-19: 18,240.00 euros\n")],
    done=["file.created | /Private/savings.md | 18,240"],
)

task(
    "bank-es-brandt",
    "Paga a la carpintera Brandt un anticipo de 500 euros, concepto 'Anzahlung 2231'.",
    [
        do.bank_payees(name="Brandt"),
        do.bank_transfer(iban="DE68210501700012345678", amount=500, reference="Anzahlung 2231"),
    ],
    done=["bank.paid | DE68210501700012345678 | 500.00 | Anzahlung 2231"],
)

task(
    "bank-unknown-iban",
    "Pay 35 euros to DE08370400440532013000, reference 'class fund 3b'.",
    [do.bank_transfer(iban="DE08370400440532013000", amount=35, reference="class fund 3b")],
    done=["bank.paid | DE08370400440532013000 | 35.00 | class fund 3b"],
)

task(
    "bank-joint-tell-clara",
    "Check whether Clara's money for the present arrived on the joint account and confirm to her by mail.",
    [
        do.bank_transactions(account="joint", since="2026-11-01", text="Clara"),
        do.contacts_lookup(name="Clara"),
        do.inbox_send(
            to=["clara.lindqvist@posthaus.example"],
            subject="Geschenk",
            body="Deine 200 Euro sind am 10.11. angekommen. Marta",
        ),
    ],
    done=["mail.sent | clara.lindqvist@posthaus.example | 200 Euro"],
)

task(
    "bank-two-turns",
    "Which standing orders do I have?",
    [do.bank_orders()],
    "drop streambox",
    [do.bank_cancel_order(order_id="SO-4")],
    done=["bank.order_cancelled | SO-4"],
)

task(
    "bank-expense-report",
    "List the train ticket and the paint from my transactions and mail the amounts to Tom as expenses.",
    [
        do.bank_transactions(account="giro", since="2026-11-01", text="ticket Berlin"),
        do.bank_transactions(account="joint", since="2026-11-01", text="paint"),
        do.chat_people(query="Tom"),
        do.inbox_send(
            to=["tom.okafor@northpier.example"],
            subject="Expenses November",
            body="Train ticket Berlin 129.00, paint 84.30. Marta",
        ),
    ],
    done=["mail.sent | tom.okafor@northpier.example | 129.00 | 84.30"],
)
