"""Which changes of git's configuration a command may make unasked."""

from __future__ import annotations

import pytest

from mainstay.sandbox.git_config_rules import is_config_change_harmless, parse_git_config

OLD = '[core]\n\tbare = false\n[remote "origin"]\n\turl = https://example.org/x\n[user]\n\tname = Ada\n'
HARMLESS = (
    "",
    "# a comment\n",
    '[branch "topic"]\n\tremote = origin\n\tmerge = refs/heads/topic\n',
    '[branch "topic"]\n\tremote = .\n',
    "[core]\n\tfilemode = true\n",
    '[submodule "sub"]\n\turl = https://example.org/sub\n\tactive = true\n',
)
HARMFUL = (
    "[core]\n\tfsmonitor = ./x\n",
    "[core] fsmonitor = ./x\n",
    "[core]\n\tfsMonitor = ./x\n",
    "[CORE]\n\tHOOKSPATH = x\n",
    "[core.x]\n\tfsmonitor = x\n",
    "[core]\r\n\tfsmonitor = ./x\r\n",
    "[user]\n\tname = a\\\n\n[core]\n\tfsmonitor = x\n",
    "[include]\n\tpath = x\n",
    '[includeIf "gitdir:/"]\n\tpath = x\n',
    "[alias]\n\tst = !x\n",
    '[filter "x"]\n\tclean = x\n',
    "[user]\n\tname = Eve\n",
    "[user]\n\temail = eve@example.org\n",
    '[remote "origin"]\n\turl = https://evil.example\n',
    '[remote "origin"]\n\tpushurl = https://evil.example\n',
    '[remote "evil"]\n\turl = https://evil.example\n',
    '[branch "main"]\n\tremote = https://evil.example\n',
    '[url "https://evil.example"]\n\tinsteadOf = https://example.org\n',
    '[submodule "sub"]\n\turl = ext::sh -c x\n',
    '[submodule "sub"]\n\turl = -x\n',
    '[submodule "sub"]\n\tupdate = !x\n',
    "[core]\n\tworktree = /\n",
    "[core]\n\tsshCommand = x\n",
    "[credential]\n\thelper = x\n",
    "[http]\n\tproxy = http://evil.example\n",
    "[core]\n\tx\x00y = 1\n",
    "fsmonitor = x\n",
    "[core\n",
)


@pytest.mark.parametrize("added", HARMLESS)
def test_what_git_writes_for_ordinary_work_is_accepted(added: str) -> None:
    assert is_config_change_harmless(OLD.encode(), (OLD + added).encode(), lambda key: False)
    assert added in HARMLESS[:2] or not is_config_change_harmless(
        OLD.encode(), (OLD + added).encode(), lambda key: False, accepts_harmless=False
    )


@pytest.mark.parametrize("added", HARMFUL)
def test_what_runs_programs_or_leads_elsewhere_is_not(added: str) -> None:
    assert not is_config_change_harmless(OLD.encode(), (OLD + added).encode(), lambda key: False)


def test_values_of_the_owner_stay_and_requested_keys_change() -> None:
    removed = OLD.replace("[user]\n\tname = Ada\n", "")
    assert not is_config_change_harmless(OLD.encode(), removed.encode(), lambda key: False)
    changed = OLD.replace("Ada", "Ada Lovelace")
    assert is_config_change_harmless(OLD.encode(), changed.encode(), lambda key: key == "user.name")
    both = changed + "[core]\n\tfsmonitor = x\n"
    assert not is_config_change_harmless(OLD.encode(), both.encode(), lambda key: key == "user.name")


def test_only_the_plain_form_is_parsed() -> None:
    assert parse_git_config(b'[A "b.C"]\n\tKey = v ; c\n\tflag\n') == {
        ("a", "b.C", "key"): ("v ; c",),
        ("a", "b.C", "flag"): ("true",),
    }
    assert parse_git_config(b"[a]\n\xff = 1\n") is None
    assert parse_git_config(b"[a]\n" + b"\tk = 1\n" * 100_000) is None
