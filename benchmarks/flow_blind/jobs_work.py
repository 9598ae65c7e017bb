"""Tasks that begin with the drive, a repository or a customer."""

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
    find_file,
    listed,
    mailed,
    noted,
    pick,
)

DRIVE = TaskBook("drive")
CODE = TaskBook("code")
DEALS = TaskBook("crm")
FIRMWARE = "nordlicht/lx-firmware"
SITE = "nordlicht/site"


@DRIVE.task("what did we decide in the meeting on nov 11?", done=answered)
def decided() -> Script:
    file = yield from find_file("meeting notes")
    yield call("drive_get", file=file)


@DRIVE.task("was steht im projektplan valencia zu phase 2", done=answered)
def phase_two() -> Script:
    file = yield from find_file("valencia")
    yield call("drive_get", file=file)


@DRIVE.task("list everything in my drive inbox", done=answered)
def inbox() -> Script:
    yield call("drive_find", folder="Inbox")


@DRIVE.task("compare the offsite ideas, which one fits 25 people?", done=answered)
def offsite() -> Script:
    file = yield from find_file("offsite")
    yield call("drive_get", file=file)


@DRIVE.task("read the notes of nov 11 and put my part on my todo list", done=listed("sphere"))
def my_part() -> Script:
    file = yield from find_file("meeting notes")
    yield call("drive_get", file=file)
    yield call("todo_list")
    yield call("todo_add", text="Order the integrating sphere")


@DRIVE.task("share the optics numbers with clara", done=did("file.shared", "D101", "clara.weiss@nordlicht.example"))
def share_numbers() -> Script:
    file = yield from find_file("optics numbers")
    to = yield from find_address("Clara")
    yield call("drive_share", file=file, email=to)


@DRIVE.task(
    "give jorge.medina@luzviva.example edit access to the supplier list",
    done=did("file.shared", "D116", "jorge.medina@luzviva.example", "editor"),
)
def share_editor() -> Script:
    file = yield from find_file("supplier")
    yield call("drive_share", file=file, email="jorge.medina@luzviva.example", role="editor")


@DRIVE.task(
    "delete the two old scans in my inbox folder", done=both(did("file.removed", "D112"), did("file.removed", "D113"))
)
def delete_scans() -> Script:
    found = yield call("drive_find", folder="Inbox")
    ids = [line.split(" | ")[0] for line in found.text.splitlines() if "old_scan" in line]
    yield [call("drive_remove", file=id) for id in ids]


@DRIVE.task("move the hotel receipt to Finance", done=did("file.moved", "D108", "Finance"))
def move_receipt() -> Script:
    file = yield from find_file("hotel spree")
    yield call("drive_move", file=file, folder="Finance")


@DRIVE.task(
    "benenn 'Draft talk Photonics Days.md' um in 'Talk Photonics Days 2027.md'", done=did("file.renamed", "D111")
)
def rename_talk() -> Script:
    file = yield from find_file("draft talk")
    yield call("drive_rename", file=file, new_name="Talk Photonics Days 2027.md")


@DRIVE.task("append to the nov 11 notes: sphere ordered on nov 18", done=did("file.appended", "D105", text="sphere"))
def append_notes() -> Script:
    file = yield from find_file("meeting notes")
    yield call("drive_append", file=file, text="- sphere ordered on Nov 18")


@DRIVE.task(
    "write a short abstract for my talk into a new file abstract.md in Talks",
    done=did("file.created", "abstract.md", "Talks"),
)
def abstract() -> Script:
    file = yield from find_file("draft talk")
    yield call("drive_get", file=file)
    yield call("web_get", url="https://www.photonics-days.example/cfp")
    yield call("drive_put", name="abstract.md", folder="Talks", content="Freeform lenses let shops light goods evenly.")


@DRIVE.task(
    "make a summary of pavel's mail and the meeting notes as status.md in Projects",
    done=did("file.created", "status.md"),
)
def status_file() -> Script:
    found = yield call("mail_search", q="pavel firmware")
    yield call("mail_open", message_id=found.data[0]["message_id"])
    file = yield from find_file("meeting notes")
    yield call("drive_get", file=file)
    yield call("drive_put", name="status.md", folder="Projects", content="Firmware: 47 of 50. OTA resume is open.")


@DRIVE.task("copia la plantilla de oferta como 'Oferta Luz Viva.md'", done=did("file.copied", "D103"))
def copy_template() -> Script:
    file = yield from find_file("Vorlage")
    yield call("drive_copy", file=file, new_name="Oferta Luz Viva.md")


@DRIVE.task("who can see the helio term sheet?", "and whats the price in it", done=answered)
def helio() -> Script:
    file = yield from find_file("helio term")
    yield call("drive_get", file=file)
    yield "Clara and you."
    yield call("drive_get", file=file)


@DRIVE.task("make a public link for the lens mockups pls", done=did("file.published", "D104"))
def public_link() -> Script:
    file = yield from find_file("mockups")
    yield call("drive_public_link", file=file)


@DRIVE.task("remove pavels access to the offsite doc", done=did("file.unshared", "D114", "pavel@nordlicht.example"))
def unshare() -> Script:
    file = yield from find_file("offsite")
    yield call("drive_get", file=file)
    yield call("drive_unshare", file=file, email="pavel@nordlicht.example")


@DRIVE.task("mail the supplier contacts a question: are your prices for 2027 final?",
            done=mailed("sales@zetaglass.example", "info@opticoat.example"))  # fmt: skip
def suppliers() -> Script:
    file = yield from find_file("supplier")
    yield call("drive_get", file=file)
    to = ["sales@zetaglass.example", "info@opticoat.example"]
    yield call("mail_send", to=to, subject="Prices 2027", body="Are your prices for 2027 final?")


# --- repositories ----------------------------------------------------------------------------------


@CODE.task("open issues in lx-firmware?", done=answered)
def open_issues() -> Script:
    yield call("gh_issue_list", repo=FIRMWARE)


@CODE.task("whats issue 42 in nordlicht/lx-firmware about, and is there a PR for it", done=answered)
def issue_42() -> Script:
    yield call("gh_issue_view", repo=FIRMWARE, number=42)
    yield call("gh_pr_list", repo=FIRMWARE)
    yield call("gh_pr_view", repo=FIRMWARE, number=52)


@CODE.task("are there duplicates among the firmware issues", done=answered)
def duplicates() -> Script:
    yield call("gh_issue_list", repo=FIRMWARE)
    yield [call("gh_issue_view", repo=FIRMWARE, number=41), call("gh_issue_view", repo=FIRMWARE, number=44)]


@CODE.task("wie baut man die firmware? steht das im readme", done=answered)
def readme() -> Script:
    yield call("gh_file_read", repo=FIRMWARE, path="README.md")


@CODE.task("which PRs are green?", done=answered)
def green() -> Script:
    yield [call("gh_pr_list", repo=FIRMWARE), call("gh_pr_list", repo=SITE)]


@CODE.task("what do people wish for in our repos? collect it in notebook wishes", done=noted("wishes", "DALI-2"))
def wishes() -> Script:
    yield [call("gh_issue_list", repo=FIRMWARE, label="wish"), call("gh_issue_list", repo=SITE, label="wish")]
    yield call("notebook_add", notebook="wishes", text="DALI-2 (firmware 43), French translation (site 8)")


@CODE.task("close 44 as duplicate of 41 in lx-firmware and say so in a comment",
           done=both(did("issue.commented", FIRMWARE, 44, text="41"), did("issue.closed", FIRMWARE, 44)))  # fmt: skip
def close_duplicate() -> Script:
    yield call("gh_issue_view", repo=FIRMWARE, number=44)
    yield call("gh_issue_comment", repo=FIRMWARE, number=44, body="Duplicate of #41.")
    yield call("gh_issue_close", repo=FIRMWARE, number=44, reason="duplicate")


@CODE.task("merge the typo PR", done=did("pull.merged", FIRMWARE, 51))
def merge_typo() -> Script:
    found = yield call("gh_pr_list", repo=FIRMWARE)
    number = pick(found.data, title="typo")["number"]
    yield call("gh_pr_view", repo=FIRMWARE, number=number)
    yield call("gh_pr_merge", repo=FIRMWARE, number=number)


@CODE.task("and close the typo issue in lx-firmware, its fixed", done=did("issue.closed", FIRMWARE, 39))
def close_typo() -> Script:
    found = yield call("gh_issue_list", repo=FIRMWARE)
    yield call("gh_issue_close", repo=FIRMWARE, number=pick(found.data, title="typo")["number"])


@CODE.task(
    "review PR 53 in nordlicht/lx-firmware, request changes if it busy loops",
    done=did("pull.reviewed", FIRMWARE, 53, "request_changes"),
)
def review() -> Script:
    yield call("gh_pr_view", repo=FIRMWARE, number=53)
    yield call("gh_pr_review", repo=FIRMWARE, number=53, verdict="request_changes", body="This loop never sleeps.")


@CODE.task("label the dimming issues with 'dimming'",
           done=both(did("issue.labelled", FIRMWARE, 41, "dimming"), did("issue.labelled", FIRMWARE, 44, "dimming")))  # fmt: skip
def label_dimming() -> Script:
    found = yield call("gh_issue_list", repo=FIRMWARE)
    for issue in found.data:
        if "dimming" in issue["title"].lower():
            yield call("gh_issue_label", repo=FIRMWARE, number=issue["number"], label="dimming")


@CODE.task("assign the OTA issue to pavel-n", done=did("issue.assigned", FIRMWARE, 42, "pavel-n"))
def assign_ota() -> Script:
    found = yield call("gh_issue_list", repo=FIRMWARE)
    yield call("gh_issue_assign", repo=FIRMWARE, number=pick(found.data, title="OTA")["number"], login="pavel-n")


@CODE.task(
    "create an issue in nordlicht/site: add the new LX-2 renders to the product page", done=did("issue.created", SITE)
)
def create_issue() -> Script:
    yield call("gh_issue_list", repo=SITE)
    yield call("gh_issue_create", repo=SITE, title="Add the new LX-2 renders to the product page")


@CODE.task(
    "turn the cold start problem from #firmware into an issue", done=did("issue.created", FIRMWARE, text="brown-out")
)
def chat_to_issue() -> Script:
    yield call("team-history", channel="firmware")
    yield call("gh_issue_create", repo=FIRMWARE, title="Cold start fails", body="A brown-out, see the scope picture.")


@CODE.task(
    "answer the DALI-2 wish: planned for 2027, no date yet", done=did("issue.commented", FIRMWARE, 43, text="2027")
)
def answer_wish() -> Script:
    found = yield call("gh_issue_list", repo=FIRMWARE)
    number = pick(found.data, title="DALI")["number"]
    yield call("gh_issue_view", repo=FIRMWARE, number=number)
    yield call("gh_issue_comment", repo=FIRMWARE, number=number, body="Planned for 2027, there is no date yet.")


@CODE.task(
    "add a line '4.2: OTA resume' on top of the firmware changelog",
    done=did("repo.committed", FIRMWARE, "CHANGELOG.md", text="4.2"),
)
def changelog() -> Script:
    text = yield call("gh_file_read", repo=FIRMWARE, path="CHANGELOG.md")
    yield call(
        "gh_file_put", repo=FIRMWARE, path="CHANGELOG.md", content=f"4.2: OTA resume\n{text.text}", message="4.2"
    )


@CODE.task(
    "publish release v4.1.1 of lx-firmware with the changelog's 4.1 line as notes",
    done=did("repo.released", FIRMWARE, "v4.1.1"),
)
def release() -> Script:
    yield call("gh_file_read", repo=FIRMWARE, path="CHANGELOG.md")
    yield call("gh_release_publish", repo=FIRMWARE, tag="v4.1.1", notes="4.1: colour profiles")


@CODE.task(
    "give tomas (tomas-lind) write access to nordlicht/lx-firmware",
    done=did("repo.collaborator", FIRMWARE, "tomas-lind"),
)
def access() -> Script:
    yield call("gh_collaborator_add", repo=FIRMWARE, login="tomas-lind", role="write")


@CODE.task("any PRs on the site?", "looks good, approve and merge it",
           done=both(did("pull.reviewed", SITE, 12), did("pull.merged", SITE, 12)))  # fmt: skip
def site_turns() -> Script:
    yield call("gh_pr_list", repo=SITE)
    yield call("gh_pr_view", repo=SITE, number=12)
    yield "One: #12, mobile layout of the form, green."
    yield call("gh_pr_review", repo=SITE, number=12, verdict="approve", body="Looks good.")
    yield call("gh_pr_merge", repo=SITE, number=12)


# --- customers -------------------------------------------------------------------------------------


@DEALS.task("where do we stand with luz viva", done=answered)
def luz_viva() -> Script:
    yield call("crm_search", company="Luz Viva")
    yield call("mail_search", q="jorge")


@DEALS.task("gesamtwert aller offenen deals?", done=answered)
def total() -> Script:
    yield call("crm_search", company="")


@DEALS.task("prep me for the call with kunsthof: crm, issues about DALI-2 and the dali website", done=answered)
def prepare() -> Script:
    yield call("crm_search", company="Kunsthof")
    yield call("gh_issue_view", repo=FIRMWARE, number=43)
    yield call("web_get", url="https://www.dali-alliance.example/dali2")


@DEALS.task("set the atelier lumiere deal to proposal", done=did("deal.stage", 301, "proposal"))
def set_stage() -> Script:
    found = yield call("crm_search", company="Atelier Lumiere")
    yield call("crm_set_stage", deal_id=found.data[0]["deal_id"], stage="proposal")


@DEALS.task("log on the luz viva deal that we talk on thursday 26 at 11", done=did("deal.noted", 302, text="26"))
def log_call() -> Script:
    found = yield call("crm_search", company="luz viva")
    yield call("crm_log", deal_id=found.data[0]["deal_id"], note="Call on Thursday 26 at 11:00")


@DEALS.task("answer cafe morgen: 6 lamps are 834 euro, and note it in the deal",
            done=both(mailed("hallo@cafe-morgen.example", text="834"), did("deal.noted", 304)))  # fmt: skip
def cafe() -> Script:
    found = yield call("crm_search", company="Cafe Morgen")
    deal = found.data[0]
    yield call("mail_send", to=[deal["contact"]], subject="Your question", body="Six lamps are 834 EUR.")
    yield call("crm_log", deal_id=deal["deal_id"], note="Answered: 834 EUR")


@DEALS.task("mark deal 304 as lost", done=did("deal.stage", 304, "lost"))
def lost() -> Script:
    yield call("crm_set_stage", deal_id=304, stage="lost")
