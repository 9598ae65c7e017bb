"""Tasks around repositories, CRM and human resources."""

from __future__ import annotations

from plans import Answer, PlanBook, answered, only
from script import both, did
from tasks_mail import c, person, read, search

SHOP, SITE, TOOLS = "lumen/halden-shop", "lumen/website", "lumen/invoice-tools"

REPOS = PlanBook("repos")
add = REPOS.add

add("open", "open issues in lumen/website?", [c("list_issues", repo=SITE)], done=answered)
add(
    "close-dupe",
    "35 in lumen/website is a duplicate of 34, close it with a comment",
    [
        c("get_issue", repo=SITE, issue_number=35),
        c("add_issue_comment", repo=SITE, issue_number=35, body="Duplicate of #34."),
        c("update_issue", repo=SITE, issue_number=35, state="closed"),
    ],
    done=only(did("add_issue_comment", SITE, "35"), did("update_issue", SITE, "35", "closed")),
)
add(
    "find-dupes",
    "any duplicate issues in lumen/website? close the newer one",
    [
        c("list_issues", repo=SITE),
        c("get_issue", repo=SITE, issue_number=34),
        c("get_issue", repo=SITE, issue_number=35),
        c("update_issue", repo=SITE, issue_number=35, state="closed"),
    ],
    done=only(did("update_issue", SITE, "35", "closed")),
)
add(
    "merge-typo",
    "merge the typo pr on the website repo",
    [
        c("list_repositories"),
        c("list_pull_requests", repo=SITE),
        c("get_pull_request", repo=SITE, pull_number=36),
        c("merge_pull_request", repo=SITE, pull_number=36),
    ],
    done=only(did("merge_pull_request", SITE, "36")),
)
add(
    "merge-number",
    "merge 21 in lumen/halden-shop and close issue 12",
    [
        c("get_pull_request", repo=SHOP, pull_number=21),
        c("merge_pull_request", repo=SHOP, pull_number=21),
        c("update_issue", repo=SHOP, issue_number=12, state="closed"),
    ],
    done=only(did("merge_pull_request", SHOP, "21"), did("update_issue", SHOP, "12")),
)
add(
    "fix-typo",
    "fix the typo from issue 31 in lumen/website yourself",
    [
        c("get_issue", repo=SITE, issue_number=31),
        c("get_file_contents", repo=SITE, path="about.md"),
        c(
            "create_or_update_file",
            repo=SITE,
            path="about.md",
            content="Lumen Studio is a small design studio in Utrecht.",
            message="Fix typo, closes #31",
        ),
    ],
    done=only(did("create_or_update_file", SITE, "about.md")),
)
add(
    "vat",
    "chiara reported wrong norwegian vat in lumen/invoice-tools, fix vat.py please",
    [
        c("list_issues", repo=TOOLS),
        c("get_issue", repo=TOOLS, issue_number=4),
        c("get_file_contents", repo=TOOLS, path="vat.py"),
        c(
            "create_or_update_file",
            repo=TOOLS,
            path="vat.py",
            content="RATES = {'NL': 21, 'NO': 25, 'DE': 19}\n",
            message="Norway has 25 %",
        ),
    ],
    done=only(did("create_or_update_file", TOOLS, "vat.py")),
)
add(
    "vat-check",
    "check on https://tarieven.example/vat-norway what norway takes and answer chiaras issue 4 in lumen/invoice-tools",
    [
        c("fetch_url", url="https://tarieven.example/vat-norway"),
        c("get_issue", repo=TOOLS, issue_number=4),
        c("add_issue_comment", repo=TOOLS, issue_number=4, body="The general rate is 25 %, food has 15 %."),
    ],
    done=only(did("add_issue_comment", TOOLS, "4", text="25")),
)
add(
    "new-issue",
    "file a bug in lumen/halden-shop: search ignores capital letters",
    [c("create_issue", repo=SHOP, title="Search ignores capital letters", labels=["bug"])],
    done=only(did("create_issue", SHOP, text="capital")),
)
add(
    "assign",
    "assign the norwegian translation issue to priya-r (halden-shop)",
    [
        c("list_repositories"),
        c("list_issues", repo=SHOP),
        c("update_issue", repo=SHOP, issue_number=15, assignee="priya-r"),
    ],
    done=only(did("update_issue", SHOP, "15", "priya-r")),
)
add(
    "label",
    "label the slow pictures issue in lumen/halden-shop as performance",
    [c("list_issues", repo=SHOP), c("update_issue", repo=SHOP, issue_number=19, labels=["performance"])],
    done=only(did("update_issue", SHOP, "19", "performance")),
)
add("pr-check", "welche PRs in lumen/website sind rot?", [c("list_pull_requests", repo=SITE)], done=answered)
add(
    "pr-comment",
    "ask visitor-k in pr 22 of halden-shop for a test",
    [
        c("list_repositories"),
        c("get_pull_request", repo=SHOP, pull_number=22),
        c("add_issue_comment", repo=SHOP, issue_number=22, body="Thanks! Could you add a test?"),
    ],
    done=only(did("add_issue_comment", SHOP, "22", text="test")),
)
add(
    "changelog",
    "add '1.5: Norwegian VAT' to the changelog in lumen/invoice-tools",
    [
        c("get_file_contents", repo=TOOLS, path="CHANGELOG.md"),
        c(
            "create_or_update_file",
            repo=TOOLS,
            path="CHANGELOG.md",
            content="1.5: Norwegian VAT\n1.4: PDF export",
            message="Changelog 1.5",
        ),
    ],
    done=only(did("create_or_update_file", TOOLS, "CHANGELOG.md")),
)
add(
    "collab",
    "give lotte-j read access to lumen/website",
    [c("add_collaborator", repo=SITE, username="lotte-j", permission="read")],
    done=only(did("add_collaborator", SITE, "lotte-j")),
)
add(
    "slack-report",
    "post the open halden-shop bugs in #halden-project",
    [
        c("list_repositories"),
        c("list_issues", repo=SHOP),
        c(
            "slack_post_message",
            channel="#halden-project",
            text="Open: #12 checkout with an empty basket, #15 Norwegian order mail, #19 slow pictures.",
        ),
    ],
    done=only(did("slack_post_message", "#halden-project", text="#12")),
)
add(
    "which-then-close",
    "what is issue 31 on the website about",
    [c("list_repositories"), c("get_issue", repo=SITE, issue_number=31)],
    Answer("A typo on the about page."),
    "already fixed, close it",
    [c("update_issue", repo=SITE, issue_number=31, state="closed")],
    done=only(did("update_issue", SITE, "31", "closed")),
)

CRM = PlanBook("crm")
add = CRM.add

add("pipeline", "how much is in the pipeline right now", [c("crm_list_deals")], done=answered)
add(
    "brightwater-won",
    "brightwater signed!! set the deal to won at 29500",
    [c("crm_list_deals"), c("crm_update_deal", deal_id="DL-202", stage="won", amount=29500)],
    done=only(did("crm_update_deal", "DL-202", "won", "29500")),
)
add(
    "quote-ingrid",
    "send ingrid the phase 2 quote, 18500",
    [
        c("crm_search_companies", query="halden"),
        c("crm_list_deals"),
        c("crm_send_quote", deal_id="DL-201", email="ingrid@haldentimber.example", amount=18500),
    ],
    done=only(did("crm_send_quote", "DL-201", "ingrid@haldentimber.example", "18500")),
)
add(
    "quote-mail",
    "ingrid asked for a quote, send it and reply to her that its out",
    [
        search("ingrid quote"),
        read("m02"),
        c("crm_list_deals", stage="proposal"),
        c("crm_send_quote", deal_id="DL-201", email="ingrid@haldentimber.example", amount=18500),
        c("gmail_reply", message_id="m02", body="Hi Ingrid, the quote is on its way. Nadia"),
    ],
    done=only(did("crm_send_quote", "DL-201", "ingrid@haldentimber.example"), did("gmail_reply", "m02")),
)
add(
    "note-antoine",
    "note at café miel: tarte is 6,50",
    [c("crm_search_companies", query="miel"), c("crm_add_note", company_id="CO-103", text="The tarte is 6.50.")],
    done=only(did("crm_add_note", "CO-103")),
)
add(
    "lena-note",
    "put lenas counteroffer as a note in the crm",
    [
        search("lena"),
        read("m07"),
        c("crm_search_companies", query="brightwater"),
        c("crm_add_note", company_id="CO-102", text="Lena offers 29,500 if they write the texts."),
    ],
    done=only(did("crm_add_note", "CO-102", text="29,500")),
)
add(
    "luca-mail",
    "write luca ferri in italian that we can offer the booking page for 2500",
    [
        c("crm_search_companies", query="luca ferri"),
        c(
            "gmail_send_message",
            to=["luca@ferricicli.example"],
            subject="Pagina di prenotazione",
            body="Buongiorno Luca, possiamo offrire la pagina di prenotazione per 2500 euro.",
        ),
    ],
    done=only(did("gmail_send_message", "luca@ferricicli.example", text="2500")),
)
add(
    "new-company",
    "new customer: Bloem & Co, contact Sanne Visser sanne@bloemenco.example, Amersfoort. add them",
    [
        c(
            "crm_create_company",
            name="Bloem & Co",
            contact_name="Sanne Visser",
            contact_email="sanne@bloemenco.example",
            city="Amersfoort",
        )
    ],
    done=only(did("crm_create_company", "sanne@bloemenco.example")),
)
add(
    "new-company-deal",
    "add Bloem & Co (Sanne Visser, sanne@bloemenco.example) and a deal 'brand refresh' for 6000",
    [
        c(
            "crm_create_company",
            name="Bloem & Co",
            contact_name="Sanne Visser",
            contact_email="sanne@bloemenco.example",
        ),
        c("crm_create_deal", company_id="CO-901", title="Brand refresh", amount=6000),
    ],
    done=only(did("crm_create_company", "Bloem & Co"), did("crm_create_deal", "CO-901", "6000")),
)
add(
    "delete-noordzee",
    "noordzee logistics can be deleted from the crm",
    [c("crm_search_companies", query="noordzee"), c("crm_delete_company", company_id="CO-106")],
    done=only(did("crm_delete_company", "CO-106")),
)
add(
    "fernhill-stage",
    "move the fernhill deal to proposal",
    [c("crm_list_deals", stage="lead"), c("crm_update_deal", deal_id="DL-204", stage="proposal")],
    done=only(did("crm_update_deal", "DL-204", "proposal")),
)
add(
    "biggest",
    "biggest open deal? remind me to call them tomorrow",
    [
        c("crm_list_deals"),
        c("crm_search_companies", query="brightwater"),
        c("todo_add_task", title="Call Lena Vogt (Brightwater)", list_name="work", due="2026-11-19"),
    ],
    done=only(did("todo_add_task", "work")),
)
add(
    "meeting-lena",
    "set up a call with lena vogt 27 nov 11:00, 30 minutes",
    [
        c("crm_search_companies", query="lena vogt"),
        c(
            "calendar_create_event",
            summary="Call with Lena Vogt",
            start="2026-11-27T11:00",
            end="2026-11-27T11:30",
            attendees=["lena.vogt@brightwater.example"],
        ),
    ],
    done=only(did("calendar_create_event", "lena.vogt@brightwater.example")),
)
add(
    "who-halden",
    "what do we know about halden timber before my call",
    [c("crm_search_companies", query="halden"), c("crm_get_company", company_id="CO-101"), c("crm_list_deals")],
    done=answered,
)
add(
    "fernhill-research",
    "look up fernhill bakery online and add a note with what they do to the crm",
    [
        c("crm_search_companies", query="fernhill"),
        c("web_search", query="fernhill bakery"),
        c("fetch_url", url="https://fernhill.example/about"),
        c("crm_add_note", company_id="CO-104", text="Two bakers, sourdough since 2019."),
    ],
    done=only(did("crm_add_note", "CO-104", text="sourdough")),
)
add(
    "pipeline-chiara",
    "mail chiara the open deals with amounts",
    [
        c("crm_list_deals"),
        person("chiara"),
        c(
            "gmail_send_message",
            to=["chiara@lumenstudio.example"],
            subject="Open deals",
            body="Shop phase 2: 18,500. Practice websites: 32,000. Small web shop: 4,000. Booking page: 2,500.",
        ),
    ],
    done=only(did("gmail_send_message", "chiara@lumenstudio.example", text="18,500")),
)

HR = PlanBook("hr")
add = HR.add

add("pending", "who wants leave", [c("hr_list_leave_requests")], done=answered)
add(
    "approve-bram",
    "approve brams day off",
    [c("hr_list_leave_requests"), c("hr_decide_leave_request", request_id="LV-62", decision="approved")],
    done=only(did("hr_decide_leave_request", "LV-62", "approved")),
)
add(
    "approve-all",
    "approve all pending leave requests",
    [
        c("hr_list_leave_requests"),
        c("hr_decide_leave_request", request_id="LV-61", decision="approved"),
        c("hr_decide_leave_request", request_id="LV-62", decision="approved"),
        c("hr_decide_leave_request", request_id="LV-63", decision="approved"),
    ],
    done=only(
        did("hr_decide_leave_request", "LV-61"),
        did("hr_decide_leave_request", "LV-62"),
        did("hr_decide_leave_request", "LV-63"),
    ),
)
add(
    "reject-priya",
    "priya can't go before christmas, reject hers and dm her to talk to me",
    [
        c("hr_list_leave_requests"),
        c("hr_decide_leave_request", request_id="LV-61", decision="rejected"),
        c("slack_find_user", name="priya"),
        c("slack_send_dm", user_id="U03", text="Please talk to me about your leave."),
    ],
    done=only(did("hr_decide_leave_request", "LV-61", "rejected"), did("slack_send_dm", "U03")),
)
add(
    "own-leave",
    "request leave 8 to 12 january 2027",
    [c("hr_request_leave", start="2027-01-08", end="2027-01-12")],
    done=only(did("hr_request_leave", "2027-01-08")),
)
add(
    "own-leave-mail",
    "samuel wants our december leave entered, put me in 21 to 24 dec",
    [search("samuel leave"), read("m13"), c("hr_request_leave", start="2026-12-21", end="2026-12-24")],
    done=only(did("hr_request_leave", "2026-12-21", "2026-12-24")),
)
add("payslip", "what did i get net in october", [c("hr_get_payslip", month="2026-10")], done=answered)
add(
    "payslip-accountant",
    "mail my october net salary to pauline",
    [
        c("hr_get_payslip", month="2026-10"),
        person("pauline"),
        c(
            "gmail_send_message",
            to=["pauline@meyer-tax.example"],
            subject="October",
            body="My net salary in October was 3,927.15 EUR.",
        ),
    ],
    done=only(did("gmail_send_message", "pauline@meyer-tax.example", text="3,927.15")),
)
add(
    "expense-train",
    "hand in the rotterdam train as expense",
    [
        c("files_search", query="train rotterdam"),
        c("files_read", path="/receipts/train-rotterdam.txt"),
        c(
            "hr_submit_expense",
            amount_eur=41.2,
            category="travel",
            description="Train Utrecht - Rotterdam",
            receipt_path="/receipts/train-rotterdam.txt",
        ),
    ],
    done=only(did("hr_submit_expense", "41.2")),
)
add(
    "expense-both",
    "submit both receipts in /receipts as expenses",
    [
        c("files_list_folder", path="/receipts"),
        c("files_read", path="/receipts/train-rotterdam.txt"),
        c("files_read", path="/receipts/hotel-oslo.txt"),
        c(
            "hr_submit_expense",
            amount_eur=41.2,
            category="travel",
            description="Train Rotterdam",
            receipt_path="/receipts/train-rotterdam.txt",
        ),
        c(
            "hr_submit_expense",
            amount_eur=244,
            category="travel",
            description="Hotel Oslo",
            receipt_path="/receipts/hotel-oslo.txt",
        ),
    ],
    done=only(did("hr_submit_expense", "41.2"), did("hr_submit_expense", "244")),
)
add(
    "feedback",
    "leave feedback for lotte: great work on the poster",
    [c("hr_find_employee", name="lotte"), c("hr_give_feedback", employee_id="E-7", text="Great work on the poster.")],
    done=only(did("hr_give_feedback", "E-7")),
)
add(
    "lotte-exam",
    "lottes leave is ok, and wish her luck for the exam on slack",
    [
        c("hr_list_leave_requests"),
        c("hr_decide_leave_request", request_id="LV-63", decision="approved"),
        c("slack_find_user", name="lotte"),
        c("slack_send_dm", user_id="U07", text="Your leave is approved. Good luck with the exam!"),
    ],
    done=both(did("hr_decide_leave_request", "LV-63", "approved"), did("slack_send_dm", "U07")),
)
