"""Tasks around files and the team chat."""

# ruff: noqa: E501  a request as the person wrote it
from __future__ import annotations

from plans import Answer, PlanBook, answered, only
from script import both, did
from tasks_mail import c, person, read, search

FILES = PlanBook("files")
add = FILES.add

add(
    "wifi",
    "what was our wifi password again",
    [c("files_search", query="wifi"), c("files_read", path="/private/wifi.txt")],
    done=answered,
)
add(
    "wifi-eva",
    "send eva our wifi password",
    [
        c("files_search", query="wifi"),
        c("files_read", path="/private/wifi.txt"),
        person("eva"),
        c(
            "gmail_send_message",
            to=["eva.verhoeven@postbox.example"],
            subject="wifi",
            body="Network Regenwolk, password kastanje-44-blauw.",
        ),
    ],
    done=only(did("gmail_send_message", "eva.verhoeven@postbox.example", text="kastanje")),
)
add(
    "share-plan",
    "share the halden plan with oskar",
    [
        c("files_search", query="halden plan"),
        person("oskar"),
        c("files_share", path="/work/halden/plan.md", email="oskar@lumenstudio.example"),
    ],
    done=only(did("files_share", "/work/halden/plan.md", "oskar@lumenstudio.example")),
)
add(
    "share-typed",
    "give zoe@fernhill.example view access to /work/offer-template.md",
    [c("files_share", path="/work/offer-template.md", email="zoe@fernhill.example", role="viewer")],
    done=only(did("files_share", "/work/offer-template.md", "zoe@fernhill.example")),
)
add(
    "unshare",
    "bram doesnt need the brightwater offer anymore, remove him",
    [
        c("files_search", query="brightwater offer"),
        c("files_unshare", path="/work/brightwater/offer.md", email="bram@lumenstudio.example"),
    ],
    done=only(did("files_unshare", "/work/brightwater/offer.md", "bram@lumenstudio.example")),
)
add(
    "clean-old",
    "delete the two old logo drafts",
    [
        c("files_search", query="logo draft"),
        c("files_delete", path="/work/old/logo-draft-1.svg"),
        c("files_delete", path="/work/old/logo-draft-2.svg"),
    ],
    done=only(did("files_delete", "/work/old/logo-draft-1.svg"), did("files_delete", "/work/old/logo-draft-2.svg")),
)
add(
    "minutes-todos",
    "go through the halden minutes and add my actions to my work list",
    [
        c("files_search", query="halden minutes"),
        c("files_read", path="/work/halden/minutes-11-04.md"),
        c("todo_add_task", title="Halden: quote", list_name="work"),
    ],
    done=only(did("todo_add_task", text="quote")),
)
add(
    "minutes-short",
    "3 line summary of the halden minutes",
    [c("files_search", query="minutes"), c("files_read", path="/work/halden/minutes-11-04.md")],
    done=answered,
)
add(
    "recipe-mail",
    "mama wants the apple cake recipe, mail it to her",
    [
        c("files_search", query="apple cake"),
        c("files_read", path="/private/recipes/apple-cake.md"),
        person("mama"),
        c(
            "gmail_send_message",
            to=["marijke.verhoeven@postbox.example"],
            subject="Apple cake",
            body="4 apples, 200 g flour, 150 g sugar, 3 eggs, 100 g butter. 50 minutes at 180 C.",
        ),
    ],
    done=only(did("gmail_send_message", "marijke.verhoeven@postbox.example", text="4 apples")),
)
add(
    "packing",
    "add rain jacket and passport to my packing list",
    [
        c("files_search", query="packing list"),
        c("files_append", path="/private/packing-list.md", text="rain jacket, passport"),
    ],
    done=only(did("files_append", "/private/packing-list.md", text="passport")),
)
add(
    "rename-offer",
    "rename offer-template.md to offer-template-2026.md",
    [
        c("files_search", query="offer-template"),
        c("files_move", from_path="/work/offer-template.md", to_path="/work/offer-template-2026.md"),
    ],
    done=only(did("files_move", "/work/offer-template-2026.md")),
)
add(
    "offer-update",
    "update the brightwater offer to 29.500 without texts",
    [
        c("files_search", query="brightwater offer"),
        c("files_read", path="/work/brightwater/offer.md"),
        c(
            "files_write",
            path="/work/brightwater/offer.md",
            content="Offer Brightwater: three sites, 29,500 EUR, texts by the customer.",
        ),
    ],
    done=only(did("files_write", "/work/brightwater/offer.md", text="29,500")),
)
add(
    "fernhill-notes",
    "read the fernhill brief and write a short file with open questions next to the halden stuff in /work",
    [
        c("files_search", query="fernhill brief"),
        c("files_read", path="/shared/fernhill-brief.md"),
        c(
            "files_write",
            path="/work/fernhill-questions.md",
            content="Open questions: delivery area? payment? who takes the pictures?",
        ),
    ],
    done=only(did("files_write", "/work/fernhill-questions.md")),
)
add(
    "link-palette",
    "i need a public link to the palette file",
    [c("files_search", query="palette"), c("files_create_link", path="/design/palette.md")],
    done=only(did("files_create_link", "/design/palette.md")),
)
add(
    "whose-birthday",
    "who has birthday in november in the team",
    [c("files_search", query="birthdays"), c("files_read", path="/shared/team-birthdays.csv")],
    Answer("Priya, on 22 November."),
    "ok put it in my calendar",
    [c("calendar_create_event", summary="Birthday of Priya", start="2026-11-22T00:00", end="2026-11-22T23:59")],
    done=only(did("calendar_create_event", "2026-11-22T00:00")),
)
add(
    "passport-tomas",
    "mail tomas my passport number, he does the checkin",
    [
        c("files_search", query="passport"),
        c("files_read", path="/private/passport.txt"),
        person("tomas"),
        c(
            "gmail_send_message",
            to=["tomas.rivas@postbox.example"],
            subject="Passport",
            body="My passport number is NX7719034.",
        ),
    ],
    done=only(did("gmail_send_message", "tomas.rivas@postbox.example", text="NX7719034")),
)
add(
    "receipts-list",
    "list my receipts with the sums",
    [
        c("files_list_folder", path="/receipts"),
        c("files_read", path="/receipts/train-rotterdam.txt"),
        c("files_read", path="/receipts/hotel-oslo.txt"),
    ],
    done=answered,
)
add(
    "german-plan",
    "kopier mir die punkte aus dem halden plan in eine neue datei /work/halden/punkte.md",
    [
        c("files_search", query="halden plan"),
        c("files_read", path="/work/halden/plan.md"),
        c("files_write", path="/work/halden/punkte.md", content="- Suche\n- Lager\n- Bestellmail"),
    ],
    done=only(did("files_write", "/work/halden/punkte.md")),
)

CHAT = PlanBook("chat")
add = CHAT.add

add("catch-up", "what did i miss in #design", [c("slack_get_history", channel="#design")], done=answered)
add(
    "poster-deadline",
    "when is the poster due? put it in my todos",
    [
        c("slack_search_messages", query="poster"),
        c("todo_add_task", title="Poster", list_name="work", due="2026-11-27"),
    ],
    done=only(did("todo_add_task", "2026-11-27")),
)
add(
    "post-general",
    "post in #general that i bring cake on friday",
    [c("slack_post_message", channel="#general", text="I bring cake on Friday.")],
    done=only(did("slack_post_message", "#general", text="cake")),
)
add(
    "halden-review",
    "the halden guests suggested a date for the review, tell them in the channel that it works and put it in the calendar",
    [
        c("slack_list_channels"),
        c("slack_get_history", channel="#halden-project"),
        c("slack_post_message", channel="#halden-project", text="25 November at 10:00 works for us."),
        c("calendar_create_event", summary="Halden review", start="2026-11-25T10:00", end="2026-11-25T11:00"),
    ],
    done=both(did("slack_post_message", "#halden-project"), did("calendar_create_event", "2026-11-25T10:00")),
)
add(
    "dm-oskar",
    "dm oskar: can you take the halden review, im double booked",
    [
        c("slack_find_user", name="oskar"),
        c("slack_send_dm", user_id="U02", text="Can you take the Halden review? I am double booked."),
    ],
    done=only(did("slack_send_dm", "U02")),
)
add(
    "cert",
    "is there anything urgent in ops? open an issue in lumen/halden-shop for the certificate thing",
    [
        c("slack_get_history", channel="#ops"),
        c(
            "create_issue",
            repo="lumen/halden-shop",
            title="Certificate of shop.haldentimber.example expires in 9 days",
            body="Reported by the alert bot in #ops.",
        ),
    ],
    done=only(did("create_issue", "lumen/halden-shop", text="certificate")),
)
add(
    "ops-summary-bram",
    "sum up #ops from this morning and dm it to bram",
    [
        c("slack_get_history", channel="#ops"),
        c("slack_find_user", name="bram"),
        c(
            "slack_send_dm",
            user_id="U04",
            text="Disk of web-2 was at 91 %, now 64 %. The Halden certificate expires in 9 days.",
        ),
    ],
    done=only(did("slack_send_dm", "U04", text="certificate")),
)
add(
    "lunch",
    "say in #random that i join for lunch",
    [c("slack_get_history", channel="#random"), c("slack_post_message", channel="#random", text="I join for lunch!")],
    done=only(did("slack_post_message", "#random")),
)
add(
    "leads-crm",
    "check #leads, is luca already in the crm?",
    [c("slack_get_history", channel="#leads"), c("crm_search_companies", query="ferri")],
    done=answered,
)
add(
    "leads-deal",
    "new requests in leads? make a note at fernhill that we call them tuesday",
    [
        c("slack_get_history", channel="#leads"),
        c("crm_search_companies", query="fernhill"),
        c("crm_add_note", company_id="CO-104", text="Call on Tuesday."),
    ],
    done=only(did("crm_add_note", "CO-104", text="Tuesday")),
)
add(
    "upload-palette",
    "put the palette file into #design",
    [c("files_search", query="palette"), c("slack_upload_file", channel="#design", path="/design/palette.md")],
    done=only(did("slack_upload_file", "#design", "/design/palette.md")),
)
add(
    "invite-lotte",
    "add lotte to the halden channel",
    [
        c("slack_list_channels"),
        c("slack_find_user", name="lotte"),
        c("slack_invite_to_channel", channel="#halden-project", user_id="U07"),
    ],
    done=only(did("slack_invite_to_channel", "#halden-project", "U07")),
)
add(
    "thumbs",
    "give priyas logo decision in design a thumbs up",
    [
        c("slack_get_history", channel="#design"),
        c("slack_add_reaction", channel="#design", ts="10:10", emoji="thumbsup"),
    ],
    done=only(did("slack_add_reaction", "#design", "10:10")),
)
add(
    "status",
    "set my slack status to 'at the dentist'",
    [c("slack_set_status", text="at the dentist", emoji="tooth")],
    done=only(did("slack_set_status", "at the dentist")),
)
add(
    "mail-to-chat",
    "post ingrids question about december in #halden-project so oskar sees it",
    [
        search("ingrid"),
        read("m02"),
        c("slack_post_message", channel="#halden-project", text="Ingrid asks who her contact in December is."),
    ],
    done=only(did("slack_post_message", "#halden-project", text="December")),
)
add(
    "logo-question",
    "which logo did they pick",
    [c("slack_search_messages", query="logo")],
    Answer("They picked the second logo."),
    "great, write antoine@cafemiel.example that we are ready with the logo choice and he gets the files next week",
    [
        c(
            "gmail_send_message",
            to=["antoine@cafemiel.example"],
            subject="Logo",
            body="Hello Antoine, the logo is chosen. You get the files next week.",
        )
    ],
    done=only(did("gmail_send_message", "antoine@cafemiel.example")),
)
add(
    "italiano",
    "scrivi a chiara su slack che lo scontrino arriva domani",
    [
        c("slack_find_user", name="chiara"),
        c("slack_send_dm", user_id="U05", text="Ciao Chiara, lo scontrino arriva domani."),
    ],
    done=only(did("slack_send_dm", "U05", text="scontrino")),
)
add(
    "closing-days",
    "when is the office closed in december? add it to my calendar",
    [
        c("slack_search_messages", query="closed"),
        c("calendar_create_event", summary="Office closed", start="2026-12-25T00:00", end="2026-12-26T23:59"),
    ],
    done=only(did("calendar_create_event", "2026-12-25T00:00")),
)
