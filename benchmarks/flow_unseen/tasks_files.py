"""Tasks that begin with files."""

# ruff: noqa: E501 -- texts of people, unbroken

from __future__ import annotations

from plans import do, task

task(
    "file-packing-add",
    "Put a power strip and gaffer tape on the Milan packing list.",
    [
        do.drive_search(text="packing"),
        do.drive_read(file_id="f-01"),
        do.drive_append(file_id="f-01", text="power strip\ngaffer tape\n"),
    ],
    done=["file.appended | f-01 | gaffer tape"],
)

task(
    "file-packing-mail",
    "Mail the packing list to Jonas.",
    [
        do.drive_search(text="packing list"),
        do.drive_read(file_id="f-01"),
        do.contacts_lookup(name="Jonas"),
        do.inbox_send(
            to=["jonas.weber@northpier.example"],
            subject="Packing list Milan",
            body="12 Fjell lamps, 4 Skerry lamps, 200 brochures, roll-up banner, toolbox",
        ),
    ],
    done=["mail.sent | jonas.weber@northpier.example | roll-up banner"],
)

task(
    "file-share-budget",
    "share the Milan budget with Tom so he can edit",
    [
        do.drive_search(text="budget"),
        do.chat_people(query="Tom"),
        do.drive_share(file_id="f-02", address="tom.okafor@northpier.example", role="editor"),
    ],
    done=["file.shared | f-02 | tom.okafor@northpier.example | editor"],
)

task(
    "file-offsite-poll",
    "Fill in 'vegetarian' for me in the offsite poll.",
    [
        do.drive_search(text="offsite poll"),
        do.drive_sheet(file_id="f-15"),
        do.drive_set_cell(file_id="f-15", row="Marta", column="food", value="vegetarian"),
    ],
    done=["sheet.set | f-15 | Marta | vegetarian"],
)

task(
    "file-trash-old",
    "Throw the two files in /Old into the trash, they're from the 2022 and 2023 fairs.",
    [do.drive_folder(folder="/Old"), do.drive_trash(file_id="f-13"), do.drive_trash(file_id="f-14")],
    done=["file.trashed | f-13", "file.trashed | f-14"],
)

task(
    "file-survey-summary",
    "Read the survey answers and give me the main complaints; save them to /Notes/survey.md.",
    [
        do.drive_search(text="survey"),
        do.drive_sheet(file_id="f-18"),
        do.drive_create(path="/Notes/survey.md", text="Complaints: glass breaks when cleaned; manual only in German."),
    ],
    done=["file.created | /Notes/survey.md | manual"],
)

task(
    "file-survey-chat",
    "How many stars do we have on average in the survey? Tell @lena.",
    [
        do.drive_search(text="survey"),
        do.drive_sheet(file_id="f-18"),
        do.chat_dm(user="@lena", text="The survey has 3.7 stars on average (3 answers)."),
    ],
    done=["chat.dm | @lena | 3.7"],
)

task(
    "file-terms",
    "What are Bright Supply's payment terms and minimum order?",
    [do.drive_search(text="Bright Supply"), do.drive_read(file_id="f-10")],
    done=["saw 30 days"],
)

task(
    "file-luz-action",
    "Which action do I have from the Luz Norte meeting? Make a reminder for Monday.",
    [
        do.drive_search(text="meeting luz norte"),
        do.drive_read(file_id="f-11"),
        do.reminderAdd(text="Confirm the delivery date to Luz Norte", due="2026-11-23T09:00"),
    ],
    done=["reminder.added | delivery date | 2026-11-23"],
)

task(
    "file-board-add",
    "Add to my board call notes that we take layout B in Milan and that the container is delayed to 28 November.",
    [
        do.drive_search(text="board call"),
        do.drive_read(file_id="f-06"),
        do.drive_append(file_id="f-06", text="- Milan: layout B\n- Container HL-204 delayed to 28 November\n"),
    ],
    done=["file.appended | f-06 | layout B"],
)

task(
    "file-rewrite-hours",
    "Take my ideas file, sort it alphabetically and save it back.",
    [
        do.drive_search(text="ideas"),
        do.drive_read(file_id="f-07"),
        do.drive_overwrite(file_id="f-07", text="- rental lamps for fairs\n- repair café in January\n"),
    ],
    done=["file.overwritten | f-07"],
)

task(
    "file-move-photos",
    "Schieb das Onboarding-Dokument in den Ordner /Team/HR.",
    [do.drive_search(text="onboarding"), do.drive_move(file_id="f-03", folder="/Team/HR")],
    done=["file.moved | f-03 | /Team/HR"],
)

task(
    "file-press-check",
    "Check Jonas's press text: is the stand number right? The exhibitors' guide online may say something about badges, too.",
    [
        do.drive_search(text="press text"),
        do.drive_read(file_id="f-16"),
        do.web_search(query="milan exhibitors"),
        do.web_open(url="https://fieramilano.example/exhibitors"),
    ],
    done=["saw B12", "saw gate Sud"],
)

task(
    "file-press-post",
    "Post the press text in #milan-fair and ask for comments by tomorrow.",
    [
        do.drive_search(text="press"),
        do.drive_read(file_id="f-16"),
        do.chat_post(
            room="#milan-fair",
            text="Press text: Northpier shows Fjell, a lamp whose driver can be exchanged without tools. Hall 9, stand B12. Comments by tomorrow, please.",
        ),
    ],
    done=["chat.posted | #milan-fair | exchanged without tools"],
)

task(
    "file-household",
    "¿Cuánto pago al mes de alquiler, luz y guardería en total?",
    [do.drive_search(text="household"), do.drive_sheet(file_id="f-17")],
    done=["saw 1480"],
)

task(
    "file-household-update",
    "Update power to 91 in my household sheet",
    [
        do.drive_search(text="household"),
        do.drive_sheet(file_id="f-17"),
        do.drive_set_cell(file_id="f-17", row="power", column="monthly", value="91"),
    ],
    done=["sheet.set | f-17 | power | 91"],
)

task(
    "file-returns-issue",
    "Look at the November returns. If flickering is the top reason, say so in a comment on lampd issue 88.",
    [
        do.drive_search(text="returns november"),
        do.drive_sheet(file_id="f-12"),
        do.repo_issue(repo="northpier/lampd", number=88),
        do.repo_comment(
            repo="northpier/lampd", number=88, body="Flickering is the top reason for returns in November."
        ),
    ],
    done=["issue.commented | northpier/lampd#88 | top reason"],
)

task(
    "file-lofoten",
    "Add the ferry connection to Lofoten to my travel ideas.",
    [
        do.web_search(query="Lofoten ferries"),
        do.web_open(url="https://lofoten.example/ferries"),
        do.drive_search(text="travel ideas"),
        do.drive_append(file_id="f-08", text="Ferry: Bodø to Moskenes, four times a day in summer, 3.5 hours\n"),
    ],
    done=["file.appended | f-08 | Moskenes"],
)

task(
    "file-share-external",
    "Give Priya (priya@ramanlegal.example) view access to the meeting notes of Luz Norte",
    [
        do.drive_search(text="meeting notes"),
        do.drive_share(file_id="f-11", address="priya@ramanlegal.example", role="viewer"),
    ],
    done=["file.shared | f-11 | priya@ramanlegal.example | viewer"],
)

task(
    "file-public-packing",
    "Make a public link for the packing list and post it in #milan-fair",
    [
        do.drive_search(text="packing"),
        do.drive_public_link(file_id="f-01"),
        do.chat_post(room="#milan-fair", text="Packing list: https://drive.northpier.example/p/f-01"),
    ],
    done=["file.published | f-01", "chat.posted | #milan-fair | /p/f-01"],
)

task(
    "file-two-turns",
    "Show me the Milan budget.",
    [do.drive_search(text="budget milan"), do.drive_sheet(file_id="f-02")],
    "set spent for stand to 6500",
    [do.drive_set_cell(file_id="f-02", row="stand", column="spent", value="6500")],
    done=["sheet.set | f-02 | stand | 6500"],
)

task(
    "file-translate",
    "Traduis le texte de presse en français et enregistre-le dans /Fair Milan/presse-fr.txt",
    [
        do.drive_search(text="press text"),
        do.drive_read(file_id="f-16"),
        do.drive_create(
            path="/Fair Milan/presse-fr.txt",
            text="Northpier présente Fjell, une lampe dont le driver se change sans outil. Hall 9, stand B12.",
        ),
    ],
    done=["file.created | presse-fr.txt | sans outil"],
)
