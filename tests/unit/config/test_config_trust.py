"""Configuration of tools, rules and sandboxes: invalid settings are refused, rules without effect are warned about,
and hidden files stay hidden."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent, Config, tool
from mainstay.agent import health
from mainstay.agent.config_warnings import build_inspection_tools, check_without_home, describe_known_tools
from mainstay.agent.trust_setup import log_rule_warnings
from mainstay.config.loader import load_config
from mainstay.config.schema import PersonRuleSettings, PolicySettings, SandboxSettings, ToolSettings
from mainstay.core.builtin_tool_table import BUILT_IN_TOOLS
from mainstay.core.errors import ConfigError
from mainstay.core.health import CheckContext
from mainstay.sandbox.bubblewrap.sandbox import bubblewrap_problem
from mainstay.testing import Call, ScriptedProvider
from mainstay.trust.rules import PolicyRules, RuleLayer


def refusal(home: Path, text: str) -> str:
    (home / "mainstay.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(home, env={})
    return str(caught.value)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("guards:\n  forbidden_patterns: ['a(']\n", "line 2: 'guards.forbidden_patterns.0' is not a valid pattern: "),
        ("guards:\n  forbidden_patterns: ['(a+)+']\n", "has nested repetition"),
        ("tools:\n  builtin: [read, bsh]\n", "line 2: 'tools.builtin.1' is not valid: there is no built-in tool"),
        ("tools:\n  builtin: [none, all]\n", "'tools.builtin': 'none' cannot be combined with other names"),
        (
            "tools:\n  fetch_private: [wiki]\n",
            "line 2: 'tools.fetch_private.0' must be host:port, for example wiki.internal:8080",
        ),
        ("tools:\n  protected: ['**/.env']\n", "line 2: 'tools.protected.0' must be the path of a file or folder"),
        ("sandbox:\n  kind: docker\n", "'sandbox.container' must name the container"),
        ("policy:\n  capabilities: ['a b']\n", "line 2: 'policy.capabilities.0' is not a rule"),
        ("guards:\n  input: blok\n", "line 2: 'guards.input': expected 'block' or 'flag' or 'off', got 'blok'"),
        ("sandbox:\n  processes: 0\n", "line 2: 'sandbox.processes': expected a whole number of at least 1, got 0"),
    ],
    ids=lambda value: value.splitlines()[-1].strip()[:24],
)
def test_an_invalid_trust_setting_is_refused_by_its_key(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in refusal(tmp_path, text)


def test_good_settings_of_the_same_keys_load(tmp_path: Path) -> None:
    (tmp_path / "mainstay.yaml").write_text(
        "tools: {builtin: [readonly, bash], fetch_private: ['wiki:8080'], protected: [.env]}\n"
        "guards: {forbidden_patterns: [chimera]}\nsandbox: {kind: docker, container: box}\n"
    )
    assert load_config(tmp_path, env={}).config.tools.protected == (".env",)


# --- rules about nothing -------------------------------------------------------------------------


def test_a_rule_about_no_tool_or_no_argument_of_it_is_warned_of_with_the_nearest_name() -> None:
    config = Config(
        policy=PolicySettings(
            deny=("red", "read(pth=x)", "bash(git push *)", "READ", "web__x", "weather.now", "mem*", "cap:net"),
            ask=("zebra", "apply_patch(path=docs/**)", "memory_search(to=7d)", "call_tool"),
            allow=("Read",),
            people={"guest": PersonRuleSettings(deny=("remembr",))},
        )
    )
    assert check_without_home(config) == [
        "policy.allow: there is no tool 'Read'; did you mean 'read'?",
        "policy.ask: there is no tool 'zebra', unless code adds one of this name",
        "policy.deny: there is no tool 'red'; did you mean 'read'?",
        "policy.deny: read has no argument 'pth'; did you mean 'path'?",
        "policy.people.guest.deny: there is no tool 'remembr'; did you mean 'remember'?",
    ]


def test_all_tools_are_checked() -> None:
    assert (
        set(BUILT_IN_TOOLS)
        <= {one.name for one in build_inspection_tools()}
        <= set(describe_known_tools(build_inspection_tools()))
    )


def test_tools_that_were_given_in_code_count(caplog: pytest.LogCaptureFixture) -> None:
    @tool(untrusted=False, sink=False)
    def mail(to: str) -> str:
        return ""

    config = Config(policy=PolicySettings(deny=("mail(to=a)", "mail(two=a)", "male")))
    with caplog.at_level(logging.WARNING, "mainstay"):
        log_rule_warnings(config, [mail])
    assert [record.getMessage() for record in caplog.records] == [
        "policy.deny: mail has no argument 'two'; did you mean 'to'?",
        "policy.deny: there is no tool 'male'; did you mean 'mail'?",
    ]


def test_deny_and_ask_match_a_tool_in_any_case_and_allow_does_not() -> None:
    @tool(untrusted=False, sink=False)
    def read(path: str) -> str:
        return ""

    share = RuleLayer(PolicyRules(allow=("READ",), ask=("Read",), deny=("reAD(x)",))).select_rules(read, ())
    assert (len(share.allow), len(share.ask), len(share.deny)) == (0, 1, 1)


def test_missing_folders_are_named(tmp_path: Path) -> None:
    for name in ("roots", "readable"):
        with pytest.raises(ConfigError, match=f"tools.{name}: .*gone is not a folder"):
            check_without_home(Config(tools=ToolSettings(**{name: (str(tmp_path / "gone"),)})))
    [finding] = health.check_rules(Config(tools=ToolSettings(roots=(str(tmp_path / "gone"),))), tmp_path)
    assert (finding.check, finding.verdict) == ("Folders", "FAIL")


# --- the sandbox, as doctor tells it -------------------------------------------------------------


NOWHERE = CheckContext(home=Path("/nowhere"), data=Path("/nowhere"), workspace="default")


def test_doctor_says_which_sandbox_is_in_force() -> None:
    host = health.check_sandbox(SandboxSettings(kind="host"), NOWHERE)
    assert host.message.startswith("host: ")
    assert "every command needs approval" in host.message
    unnamed = health.check_sandbox(SandboxSettings(kind="docker"), NOWHERE)
    assert (unnamed.verdict, "sandbox.container is not set" in unnamed.message) == ("FAIL", True)
    named = health.check_sandbox(SandboxSettings(kind="docker", container="no-such-container"), NOWHERE)
    assert (named.verdict, "no-such-container" in named.message) == ("FAIL", True)


def test_doctor_says_whether_commands_have_a_network() -> None:
    closed, opened = (health.check_sandbox(SandboxSettings(network=one), NOWHERE) for one in (False, True))
    if bubblewrap_problem() is None:
        assert ", without network access" in closed.message
        assert ", with network access" in opened.message
    else:
        assert closed.verdict == opened.verdict == "warn"
        assert "every command needs approval" in closed.message


# --- hidden files ---------------------------------------------------------------------------------


async def _results(work: Path, home: Path, given: tuple[str, ...], *calls: Call) -> list[str]:
    config = Config(tools=ToolSettings(builtin=("all",), roots=(str(work),), protected=given))
    script: list[Any] = [list(calls), "done"]
    async with Agent(ScriptedProvider(script), home=home, config=config) as agent:
        await agent.run("s", "go")
        records = await agent.sessions.records("s")
    return [record.event.result.content for record in records if type(record.event).__name__ == "ToolFinished"]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / "keys").mkdir(parents=True)
    (made / ".env").write_text("TOKEN=canary\n")
    (made / "keys" / "one").write_text("canary\n")
    (made / "open.txt").write_text("nothing\n")
    return made


async def test_a_protected_file_is_neither_read_nor_found_nor_made(work: Path, tmp_path: Path) -> None:
    os.symlink(".env", work / "link")
    given = (".env", str(work / "keys"), "later")
    calls = [
        *(Call("read", {"path": path}) for path in (".env", "keys/one", "link", "./keys/../.env")),
        Call("grep", {"pattern": "canary"}),
        Call("write", {"path": "later", "content": "x"}),
        Call("read", {"path": "open.txt"}),
    ]
    results = await _results(work, tmp_path / "home", given, *calls)
    assert "canary" not in "".join(results[:4]) + results[4].replace("'canary'", "")
    assert all("protected" in one for one in (*results[:4], results[5]))
    assert "nothing" in results[6]
    assert not (work / "later").exists()


@pytest.mark.skipif(sys.platform != "linux" or bubblewrap_problem() is not None, reason="no sandbox works here")
async def test_a_command_in_the_sandbox_does_not_see_a_protected_file(work: Path, tmp_path: Path) -> None:
    command = "cat .env keys/one open.txt; grep -r canary .; echo made > later"
    [told] = await _results(work, tmp_path / "home", (".env", "keys", "later"), Call("bash", {"command": command}))
    assert "nothing" in told
    assert "TOKEN" not in told
    assert not (work / "later").exists()
    assert (work / ".env").read_text() == "TOKEN=canary\n"


async def test_a_folder_that_sessions_work_in_cannot_be_hidden(work: Path, tmp_path: Path) -> None:
    for given in (".", str(work.parent)):
        with pytest.raises(ConfigError, match="contains a session's working folder"):
            check_without_home(Config(tools=ToolSettings(roots=(str(work),), protected=(given,))))
