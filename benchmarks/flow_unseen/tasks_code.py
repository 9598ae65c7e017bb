"""Tasks about code repositories."""

# ruff: noqa: E501 -- texts of people, unbroken

from __future__ import annotations

from plans import do, task

L, S = "northpier/lampd", "northpier/website"

task(
    "code-bugs",
    "Which open bugs do we have in northpier/lampd?",
    [do.repo_issues(repo=L, label="bug")],
    done=["saw emoji"],
)

task(
    "code-duplicate",
    "Issue 94 in northpier/lampd is a duplicate of 88. Say so and close it.",
    [
        do.repo_issue(repo=L, number=94),
        do.repo_comment(repo=L, number=94, body="Thanks! This is a duplicate of #88."),
        do.repo_set_issue(repo=L, number=94, state="closed"),
    ],
    done=["issue.commented | northpier/lampd#94 | #88", "issue.set | northpier/lampd#94 | closed"],
)

task(
    "code-workaround",
    "Tell dieter-k in lampd #88 that setting the minimum to 12 percent helps until the update.",
    [
        do.repo_issue(repo=L, number=88),
        do.repo_comment(repo=L, number=88, body="dieter-k: set the minimum to 12 percent until the update."),
    ],
    done=["issue.commented | northpier/lampd#88 | 12 percent"],
)

task(
    "code-merge-pwm",
    "If the checks of lampd PR 95 pass, merge it.",
    [do.repo_issue(repo=L, number=95), do.repo_ci_log(repo=L, number=95), do.repo_merge(repo=L, number=95)],
    done=["pull.merged | northpier/lampd#95"],
)

task(
    "code-deps-failed",
    "Why does the dependency update (lampd 96) fail? Look at the log and what changed in msgpack, and leave a comment with the fix.",
    [
        do.repo_ci_log(repo=L, number=96),
        do.web_search(query="msgpack changes"),
        do.web_open(url="https://docs.msgpack.example/changes"),
        do.repo_comment(
            repo=L,
            number=96,
            body="test_pack_scene fails because strict_map_key is now True. Pass strict_map_key=False.",
        ),
    ],
    done=["issue.commented | northpier/lampd#96 | strict_map_key=False"],
)

task(
    "code-typo",
    "Fix the typo that issue 12 of northpier/website reports, and close it.",
    [
        do.repo_issue(repo=S, number=12),
        do.repo_file(repo=S, path="content/repairs.md"),
        do.repo_commit(
            repo=S,
            path="content/repairs.md",
            content="The driver is exchangeable without tools.\n",
            message="Fix a typo",
        ),
        do.repo_set_issue(repo=S, number=12, state="closed"),
    ],
    done=[
        "code.committed | northpier/website | content/repairs.md | exchangeable",
        "issue.set | northpier/website#12 | closed",
    ],
)

task(
    "code-hours",
    "Open on Saturdays until 16 from now on, change it on the website (content/opening-hours.md in northpier/website).",
    [
        do.repo_file(repo=S, path="content/opening-hours.md"),
        do.repo_commit(
            repo=S, path="content/opening-hours.md", content="Mon-Fri 9-18, Sat 10-16\n", message="Saturday until 16"
        ),
    ],
    done=["code.committed | content/opening-hours.md | Sat 10-16"],
)

task(
    "code-open-issue",
    "Open an issue in northpier/lampd: 'Minimum brightness should be configurable', label feature.",
    [
        do.repo_open_issue(
            repo=L,
            title="Minimum brightness should be configurable",
            body="The minimum brightness should be configurable per lamp.",
            labels=["feature"],
        )
    ],
    done=["issue.opened | northpier/lampd | Minimum brightness"],
)

task(
    "code-ticket-to-issue",
    "Make a lampd issue from ticket T-4102, without the customer's name.",
    [
        do.desk_ticket(ticket_id="T-4102"),
        do.repo_open_issue(
            repo=L,
            title="Fjell flickers when dimmed",
            body="A customer reports that the lamp flickers when it is dimmed.",
            labels=["bug"],
        ),
    ],
    done=["issue.opened | northpier/lampd | flickers"],
)

task(
    "code-assign-emoji",
    "assign the emoji crash to omar-np and label it p1 (repo northpier/lampd)",
    [do.repo_issues(repo=L), do.repo_set_issue(repo=L, number=93, assignee="omar-np", add_label="p1")],
    done=["issue.set | northpier/lampd#93 | omar-np | p1"],
)

task(
    "code-changelog",
    "Add to the changelog of northpier/lampd under a new heading 2.3.0: fixed: flicker below 10 percent.",
    [
        do.repo_file(repo=L, path="CHANGELOG.md"),
        do.repo_commit(
            repo=L,
            path="CHANGELOG.md",
            content="## 2.3.0\n\n- fixed: flicker below 10 percent\n\n## 2.2.1\n\n- fixed: names with spaces\n\n## 2.2.0\n\n- added: scenes\n",
            message="Changelog for 2.3.0",
        ),
    ],
    done=["code.committed | CHANGELOG.md | flicker below 10 percent"],
)

task(
    "code-standup",
    "Summarise for #releases what's open in northpier/lampd: bugs and pull requests with their numbers.",
    [do.repo_issues(repo=L), do.chat_post(room="#releases", text="lampd: bugs #88, #93; pull requests #95, #96.")],
    done=["chat.posted | #releases | #95"],
)

task(
    "code-carlos-thanks",
    "Reply to carlos-ln in website issue 14 that help with Spanish is welcome, and tell Carlos by mail too.",
    [
        do.repo_issue(repo=S, number=14),
        do.repo_comment(repo=S, number=14, body="Thank you, your help with Spanish is welcome!"),
        do.contacts_lookup(name="Carlos"),
        do.inbox_send(
            to=["carlos@luznorte.example"],
            subject="Spanish page",
            body="Hola Carlos, gracias, tu ayuda con la traducción es bienvenida. Marta",
        ),
    ],
    done=["issue.commented | northpier/website#14 | welcome", "mail.sent | carlos@luznorte.example"],
)

task(
    "code-member-lena",
    "Give user lena-np write access to northpier/website.",
    [do.repo_add_member(repo=S, user="lena-np", role="write")],
    done=["repo.member | northpier/website | lena-np | write"],
)

task(
    "code-release-check",
    "Prüfe, ob PR 95 in northpier/lampd grün ist, und sag es Omar im Chat.",
    [
        do.repo_ci_log(repo=L, number=95),
        do.chat_people(query="Omar"),
        do.chat_dm(user="@omar", text="PR 95 ist grün: 214 Tests bestanden."),
    ],
    done=["chat.dm | @omar | 214"],
)

task(
    "code-sunrise-doc",
    "Write three sentences into docs/sunrise.md of northpier/lampd, from the wish in issue 91.",
    [
        do.repo_issue(repo=L, number=91),
        do.repo_file(repo=L, path="docs/sunrise.md"),
        do.repo_commit(
            repo=L,
            path="docs/sunrise.md",
            content="# Sunrise (draft)\n\nThe lamp fades in. It takes 30 minutes. It ends at 100 percent.\n",
            message="Describe the sunrise mode",
        ),
    ],
    done=["code.committed | docs/sunrise.md | 30 minutes"],
)

task(
    "code-contributing",
    "What do I have to do before sending a change to lampd? (northpier/lampd CONTRIBUTING.md)",
    [do.repo_file(repo=L, path="CONTRIBUTING.md")],
    done=["saw line in the changelog"],
)

task(
    "code-banner-ping",
    "The cookie banner bug on northpier/website: who has it? Ping them in the issue for a date.",
    [
        do.repo_issues(repo=S, label="bug"),
        do.repo_issue(repo=S, number=15),
        do.repo_comment(repo=S, number=15, body="kez-m: when can you fix this?"),
    ],
    done=["issue.commented | northpier/website#15 | kez-m"],
)

task(
    "code-two-turns",
    "Show me lampd issue 93 (northpier/lampd).",
    [do.repo_issue(repo=L, number=93)],
    "label it 'needs test' and remind me on Monday to look again",
    [
        do.repo_set_issue(repo=L, number=93, add_label="needs test"),
        do.reminderAdd(text="Look at lampd #93 again", due="2026-11-23T09:00"),
    ],
    done=["issue.set | northpier/lampd#93 | needs test", "reminder.added | #93"],
)

task(
    "code-es-cierra",
    "Cierra la incidencia 91 de northpier/lampd con el comentario 'planned for 2027'.",
    [
        do.repo_issue(repo=L, number=91),
        do.repo_comment(repo=L, number=91, body="planned for 2027"),
        do.repo_set_issue(repo=L, number=91, state="closed"),
    ],
    done=["issue.commented | northpier/lampd#91 | planned for 2027", "issue.set | northpier/lampd#91 | closed"],
)
