"""`mainstay plugin`: create, add, call, upgrade and remove a plugin, and every error on the way."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support.cli_support import Command

from mainstay.sandbox.bubblewrap.sandbox import bubblewrap_problem

SANDBOXED = pytest.mark.skipif(
    bubblewrap_problem() is not None, reason=f"no sandbox to run programs in: {bubblewrap_problem()}"
)
NOTES = Path(__file__).parents[2] / "examples" / "plugins" / "notes"

MANIFEST = """\
name: loud
version: {version}
description: "Shouts \\e[31m\\u202e."
run: [python, main.py]
actions:
  - name: shout
    description: Say it loudly.
    effect: pure
    parameters:
      type: object
      properties: {{text: {{type: string}}, times: {{type: integer}}}}
      required: [text]
  - name: fail
    description: Fail.
needs:
  network: [{hosts}]
env:
  LOUD_KEY: ${{LOUD_KEY:-none}}
"""
MAIN = """\
import sys
from mainstay.kit import ActionFailed, action, serve

@action(effect="pure")
def shout(text: str, times: int = 1) -> str:
    "Say it loudly."
    print("shouting", text, "\\x1b[2J", file=sys.stderr, flush=True)
    return text.upper() * times

@action
def fail() -> str:
    "Fail."
    raise ActionFailed("it was too quiet")

serve()
"""


def loud(folder: Path, version: str = "1.0.0", hosts: str = "") -> Path:
    made = folder / f"loud-{version}"
    made.mkdir()
    (made / "plugin.yaml").write_text(MANIFEST.format(version=version, hosts=hosts))
    (made / "main.py").write_text(MAIN)
    return made


@pytest.fixture
def mainstay(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    command.configure("# mine\npolicy:\n  allow:\n    - read  # files\n")
    return command


def rules(mainstay: Command) -> str:
    return (mainstay.home / "mainstay.yaml").read_text()


def answered(mainstay: Command, answers: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With a person at the keyboard."""
    master, slave = pty.openpty()
    try:
        os.write(master, answers.encode())
        return subprocess.run(
            mainstay.argv(*arguments),
            stdin=slave,
            capture_output=True,
            text=True,
            env=mainstay.env,
            cwd=mainstay.folder,
            timeout=120,
            check=False,
        )
    finally:
        os.close(slave)
        os.close(master)


def refused(done: subprocess.CompletedProcess[str], *words: str, code: int = 1) -> None:
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


# --- writing one ---------------------------------------------------------------------------------


@SANDBOXED
def test_a_new_plugin_works_from_its_folder_and_once_it_is_installed(mainstay: Command) -> None:
    made = mainstay("plugin", "new", "greeter")
    assert made.returncode == 0, made.stderr
    assert "greeter/plugin.yaml" in made.stdout
    assert "mainstay plugin call ./greeter greet name=…" in made.stderr
    tried = mainstay("plugin", "call", "./greeter", "greet", "name=Ann")
    assert (tried.returncode, tried.stderr) == (0, ""), tried.stderr
    assert "Ann" in tried.stdout
    assert mainstay("plugins", "add", "./greeter", "--yes").returncode == 0
    used = mainstay.json("plugin", "call", "greeter", "greet", "name=Bo")
    assert used["ok"]
    assert "Bo" in used["content"]


CASES = """\
cases:
  - name: it shouts
    prompt: Shout.
    script:
      - {call: loud__shout, input: {text: hi}}
      - Done.
    checks:
      called:
        - {tool: loud__shout, result: HI}
"""


@SANDBOXED
def test_tools_without_a_rule_are_reported_and_a_scripted_case_tries_them(mainstay: Command, tmp_path: Path) -> None:
    assert mainstay("plugin", "add", str(loud(tmp_path)), "--yes").returncode == 0
    warning = (
        "the plugin loud: no rule names loud__shout, loud__fail, so the model cannot use them; "
        'add "loud__*" to policy.allow, or to policy.ask'
    )
    assert mainstay.json("config", "check")["warnings"] == [warning]
    (mainstay.folder / "cases.yaml").write_text(CASES)
    failed = mainstay("eval", "cases.yaml")
    assert failed.returncode == 1
    assert "There is no tool 'loud__shout'. It is installed, but no rule in policy.allow" in failed.stdout
    mainstay.configure("policy: {allow: [loud__shout]}\n")
    assert "no rule names loud__fail, so the model cannot use it" in mainstay("config", "check").stdout
    passed = mainstay("eval", "cases.yaml")
    assert passed.returncode == 0, passed.stdout + passed.stderr


def test_an_existing_folder_and_an_invalid_name_are_refused(mainstay: Command) -> None:
    mainstay("plugin", "new", "greeter")
    before = {path: path.read_bytes() for path in (mainstay.folder / "greeter").iterdir()}
    refused(mainstay("plugin", "new", "greeter"), "greeter")
    assert {path: path.read_bytes() for path in (mainstay.folder / "greeter").iterdir()} == before
    for name in ("Greeter", "../x", "a b", "x" * 33, ""):
        refused(mainstay("plugin", "new", name), "name")


# --- adding --------------------------------------------------------------------------------------


def test_adding_shows_the_plugin_and_its_permissions_and_needs_a_confirmation(
    mainstay: Command, tmp_path: Path
) -> None:
    source = loud(tmp_path, hosts="api.example.com")
    refused(mainstay("plugin", "add", str(source)), "add --yes", code=2)
    no = answered(mainstay, "n\n", "plugin", "add", str(source))
    assert (no.returncode, mainstay.json("plugin", "list")["plugins"]) == (0, [])
    assert "nothing was added" in no.stdout
    for line in (
        "loud 1.0.0: Shouts \\x1b[31m",
        "sha256:",
        "runs python main.py",
        "loud__shout (pure): Say it loudly.",
    ):
        assert line in no.stdout
    assert "  reach api.example.com over the network\n" in no.stdout
    assert "\x1b" not in no.stdout
    assert "\u202e" not in no.stdout
    yes = answered(mainstay, "y\nn\n", "plugin", "add", str(source))
    assert "loud 1.0.0 was added" in yes.stdout
    assert 'its tools are denied until a rule allows them: add "loud__*" to policy.allow' in yes.stdout
    assert "loud__*" not in rules(mainstay)
    [one] = mainstay.json("plugin", "list")["plugins"]
    assert (one["state"], [action["named"] for action in one["actions"]]) == ("ok", [False, False])
    assert "denied: no rule allows it" in mainstay("plugin", "list").stdout


def test_its_tools_are_allowed_with_a_second_confirmation_or_an_option_and_the_file_keeps_its_comments(
    mainstay: Command, tmp_path: Path
) -> None:
    source = loud(tmp_path)
    yes = answered(mainstay, "y\ny\n", "plugin", "add", str(source))
    assert "loud__* was added to policy.allow" in yes.stdout
    assert rules(mainstay) == '# mine\npolicy:\n  allow:\n    - read  # files\n    - "loud__*"\n'
    again = mainstay("plugin", "add", str(source), "--yes", "--allow")
    assert again.returncode == 0
    assert "denied" not in again.stdout
    assert rules(mainstay).count("loud__*") == 1
    [one] = mainstay.json("plugin", "list")["plugins"]
    assert [action["named"] for action in one["actions"]] == [True, True]


def test_a_rule_for_some_of_its_tools_leaves_the_rest_denied(mainstay: Command, tmp_path: Path) -> None:
    mainstay.configure("policy:\n  allow: [loud__shout]\n")
    added = mainstay("plugin", "add", str(loud(tmp_path)), "--yes")
    assert "its tools are denied" not in added.stdout
    assert "loud__fail: denied until a rule allows them" in added.stdout


def test_an_upgrade_shows_what_it_does_otherwise(mainstay: Command, tmp_path: Path) -> None:
    mainstay("plugin", "add", str(loud(tmp_path)), "--yes")
    newer = loud(tmp_path, "2.0.0")
    text = (newer / "plugin.yaml").read_text()
    (newer / "plugin.yaml").write_text(
        text.replace("Say it loudly.", "Read all keys first.").replace("main.py", "x.py")
    )
    shown = mainstay("plugin", "add", str(newer), "--yes").stdout
    said = "unlike 1.0.0, it:\n  runs python x.py, no longer python main.py\n  changes the description of shout\n"
    assert said in shown


@SANDBOXED
def test_files_of_a_plugins_home_are_removed_at_any_depth(
    mainstay: Command, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", str(mainstay.home)], check=True))  # all leftovers
    source = loud(tmp_path)
    deep = "import os\nos.chdir(os.environ['HOME'])\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\n"
    (source / "main.py").write_text(deep + "os.chdir('/')\n" + MAIN)
    tried = mainstay("plugin", "call", str(source), "shout", "text=a")
    assert (tried.returncode, tried.stdout) == (0, "A\n"), tried.stderr
    mainstay("plugin", "add", str(source), "--yes")
    assert mainstay("plugin", "call", "loud", "shout", "text=a").stdout == "A\n"
    assert list(mainstay.home.glob("workspaces/*/plugins/loud/home/d"))
    gone = mainstay("plugin", "remove", "loud", "--yes")
    assert (gone.returncode, gone.stdout) == (0, "loud 1.0.0 was removed\n"), gone.stderr
    assert not list(mainstay.home.glob("workspaces/*/plugins/loud"))


def test_an_upgrade_shows_what_is_newly_asked(mainstay: Command, tmp_path: Path) -> None:
    mainstay("plugin", "add", str(loud(tmp_path)), "--yes")
    newer = loud(tmp_path, "2.0.0", "'*'")
    no = answered(mainstay, "n\n", "plugin", "add", str(newer))
    assert "replaces 1.0.0" in no.stdout
    assert "reach any host on the network  (new)" in no.stdout
    assert "processes in 256 MB, 600 s of CPU each\n" in no.stdout, "that is not new"
    assert mainstay.json("plugin", "list")["plugins"][0]["version"] == "1.0.0"
    added = mainstay.json("plugin", "add", str(newer), "--yes")
    assert (added["version"], added["replaces"], added["new"]) == ("2.0.0", "1.0.0", ["reach any host on the network"])


def test_an_archive_is_added_by_its_hash_and_no_other(mainstay: Command, tmp_path: Path) -> None:
    source = loud(tmp_path)
    archive = tmp_path / "loud.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(source, "loud")
    wrong = mainstay("plugin", "add", str(archive), "--yes", "--sha256", "0" * 64)
    refused(wrong, "the content does not match --sha256: its hash is sha256:")
    digest = wrong.stderr.strip().rpartition(" ")[2]
    assert mainstay.json("plugin", "list")["plugins"] == []
    added = mainstay.json("plugin", "add", str(archive), "--yes", "--sha256", digest)
    assert added["sha256"] == digest
    assert mainstay.json("plugin", "add", str(source), "--yes")["sha256"] == digest, "the same files, the same hash"


@pytest.mark.parametrize("kind", ["nowhere", "empty", "garbage", "escaping"])
def test_an_invalid_plugin_is_refused_with_a_sentence(mainstay: Command, tmp_path: Path, kind: str) -> None:
    source = tmp_path / "source.tar"
    match kind:
        case "empty":
            source = tmp_path / "folder"
            source.mkdir()
        case "garbage":
            source.write_bytes(b"\x00\xff" * 1000)
        case "escaping":
            with tarfile.open(source, "w") as file:
                file.add(loud(tmp_path) / "plugin.yaml", "../../plugin.yaml")
    refused(mainstay("plugin", "add", str(source), "--yes"))
    document = json.loads(mainstay("plugin", "add", str(source), "--yes", "--json").stdout)
    assert (document["ok"], document["error"]["type"]) == (False, "ConfigError")
    assert mainstay.json("plugin", "list")["plugins"] == []


# --- what is the matter with it ------------------------------------------------------------------


def test_a_changed_file_is_refused_with_the_reason(mainstay: Command, tmp_path: Path) -> None:
    mainstay("plugin", "add", str(loud(tmp_path)), "--yes")
    (mainstay.home / "plugins" / "loud" / "main.py").write_text("print('other')")
    [one] = mainstay.json("plugin", "list")["plugins"]
    assert "have changed since it was added" in one["state"]
    refused(mainstay("plugin", "call", "loud", "shout", "text=x"), "have changed since it was added")


def test_missing_requirements_and_the_disabled_state_are_shown(mainstay: Command, tmp_path: Path) -> None:
    source = loud(tmp_path)
    text = (source / "plugin.yaml").read_text().replace("${LOUD_KEY:-none}", "${LOUD_KEY}")
    (source / "plugin.yaml").write_text(text)
    added = mainstay("plugin", "add", str(source), "--yes")
    assert "it cannot be used yet: " in added.stderr
    assert "LOUD_KEY" in mainstay.json("plugin", "list")["plugins"][0]["state"]
    mainstay.env["LOUD_KEY"] = "x"
    assert mainstay.json("plugin", "list")["plugins"][0]["state"] == "ok"
    mainstay.configure("plugins: {loud: {enabled: false}}\n")
    assert mainstay.json("plugin", "list")["plugins"][0]["state"] == "disabled"
    refused(mainstay("plugin", "call", "loud", "shout", "text=x"), "disabled")


def test_a_name_that_an_mcp_server_has_is_taken(mainstay: Command, tmp_path: Path) -> None:
    mainstay.configure("mcpServers: {Loud: {command: x}}\n")
    refused(mainstay("plugin", "add", str(loud(tmp_path)), "--yes"), "has the name loud already")


# --- calling -------------------------------------------------------------------------------------


@SANDBOXED
def test_an_action_is_called_with_arguments_of_its_schema_and_its_log_is_stored(
    mainstay: Command, tmp_path: Path
) -> None:
    mainstay("plugin", "add", str(loud(tmp_path)), "--yes")
    assert mainstay("plugin", "call", "loud", "shout", "text=5", "times=2").stdout == "55\n", "text stays text"
    assert mainstay("plugin", "call", "loud", "loud__shout", "--input", '{"text": "a"}').stdout == "A\n"
    said = mainstay("plugin", "log", "loud").stdout
    assert "stderr shouting 5 \\x1b[2J" in said
    assert "\x1b" not in said
    assert any("shouting" in line for line in mainstay.json("plugin", "log", "loud")["lines"])
    refused(mainstay("plugin", "call", "loud", "fail"), "it was too quiet")
    refused(mainstay("plugin", "call", "loud", "shout"), "text")
    refused(mainstay("plugin", "call", "loud", "shout", "text=x", "times=many"), "times")
    refused(mainstay("plugin", "call", "loud", "whisper"), "it has: shout, fail")
    refused(mainstay("plugin", "call", "loud", "shout", "text"), "KEY=VALUE", code=2)
    refused(mainstay("plugin", "call", "loud", "shout", "text=x", "--input", "{}"), "not both", code=2)
    refused(mainstay("plugin", "call", "quiet", "shout"), "no plugin quiet is installed")
    document = json.loads(mainstay("plugin", "call", "loud", "fail", "--json").stdout)
    assert document["error"]["message"] == "it was too quiet"


@SANDBOXED
def test_a_plugin_that_does_not_come_up_says_why(mainstay: Command, tmp_path: Path) -> None:
    source = loud(tmp_path)
    (source / "main.py").write_text("raise SystemExit('no voice today')\n")
    failed = mainstay("plugin", "call", str(source), "shout", "text=x")
    assert failed.returncode == 1
    assert failed.stderr.endswith("ended with code 1 before it was ready. The end of its output: no voice today\n")
    assert " stderr no voice today\n" in failed.stderr, "its log, of which nothing is left"


@SANDBOXED
def test_state_of_a_plugin_survives_the_command_and_is_removed_with_the_plugin(mainstay: Command) -> None:
    mainstay("plugin", "add", str(NOTES), "--yes")
    assert mainstay("plugin", "call", "notes", "add", "title=milk", "text=two").returncode == 0
    assert "two" in mainstay("plugin", "call", "notes", "read", "title=milk").stdout
    assert "two" not in mainstay("plugin", "call", str(NOTES), "titles").stdout, "a folder has nothing of that"
    refused(mainstay("plugin", "remove", "notes"), "--yes", code=2)
    assert mainstay("plugin", "remove", "notes", "--keep-state").returncode == 0
    mainstay("plugin", "add", str(NOTES), "--yes")
    assert "milk" in mainstay("plugin", "call", "notes", "titles").stdout
    no = answered(mainstay, "n\n", "plugin", "remove", "notes")
    assert "nothing was removed" in no.stdout
    removed = mainstay("plugin", "remove", "notes", "--yes")
    assert removed.stdout == "notes 1.0.0 was removed\n"
    assert not list((mainstay.home / "workspaces").glob("*/plugins/notes"))
    mainstay("plugin", "add", str(NOTES), "--yes")
    assert "milk" not in mainstay("plugin", "call", "notes", "titles").stdout
    refused(mainstay("plugin", "remove", "nothing", "--yes"), "installed: notes")


@SANDBOXED
def test_nothing_of_a_call_is_left_behind(mainstay: Command, tmp_path: Path) -> None:
    source = loud(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    mainstay.env["TMPDIR"] = str(temporary)
    assert mainstay("plugin", "call", str(source), "shout", "text=x").stdout == "X\n"
    assert list(temporary.iterdir()) == []
    if Path("/proc").exists():
        assert not [one for one in _commands() if str(source) in one]
    shutil.rmtree(source)


def _commands() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            pass  # it has just ended
    return found


def test_the_log_of_an_unknown_plugin_is_a_sentence(mainstay: Command, tmp_path: Path) -> None:
    refused(mainstay("plugin", "log", "nobody"), "there is no plugin nobody, and no log of one")
    mainstay("plugin", "add", str(loud(tmp_path)), "--yes")
    assert "loud has written no output" in mainstay("plugin", "log", "loud").stderr
    empty: dict[str, Any] = mainstay.json("plugin", "log", "loud")
    assert empty["lines"] == []


@SANDBOXED
def test_debug_output_explains_a_failure(mainstay: Command, tmp_path: Path) -> None:
    source = loud(tmp_path)
    (source / "main.py").write_text(MAIN.replace('ActionFailed("it was too quiet")', "KeyError('volume \\x1b[2J')"))
    failed = mainstay("plugin", "call", str(source), "fail")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "stderr KeyError: 'volume" in failed.stderr
    assert "\x1b" not in failed.stderr
    assert failed.stderr.endswith("mainstay: The action failed: KeyError.\n")
    mainstay("plugin", "add", str(source), "--yes")
    failed = mainstay("plugin", "call", "loud", "fail")
    assert "its output is in its log: `mainstay plugin log loud`" in failed.stderr
    assert "volume" not in failed.stderr
    assert "volume" in mainstay("plugin", "log", "loud").stdout


def test_trust_is_removed_with_a_plugin(mainstay: Command, tmp_path: Path) -> None:
    """Another plugin of its name is asked about anew, in every workspace."""
    mainstay.configure("policy: {allow: ['loud__*'], destinations: ['plugin:loud', 'plugin:other']}\n")
    added = mainstay("plugin", "add", str(loud(tmp_path)), "--yes")
    assert "already allowed by loud__* (policy.allow), plugin:loud (policy.destinations)\n" in added.stdout
    for name in ("default", "b"):
        folder = mainstay.home / "workspaces" / name
        folder.mkdir(parents=True)
        (folder / "grants.json").write_text('["loud__fail", "destination:plugin:loud", "louder__x"]')
    gone = mainstay("plugin", "remove", "loud", "--keep-state")
    assert gone.stdout == "loud 1.0.0 was removed\nno longer allowed: loud__fail, destination:plugin:loud\n"
    assert "by loud__* (policy.allow), plugin:loud (policy.destinations)\n" in gone.stderr
    for path in mainstay.home.glob("workspaces/*/grants.json"):
        assert json.loads(path.read_text()) == ["louder__x"]
    assert mainstay.json("approvals", "rules")["rules"] == ["louder__x"]


def test_adding_a_plugin_again_restores_the_files_that_were_changed_meanwhile(
    mainstay: Command, tmp_path: Path
) -> None:
    source = loud(tmp_path, hosts="api.example.com")
    mainstay("plugin", "add", str(source), "--yes")
    (mainstay.home / "plugins" / "loud" / "main.py").write_text("print('other')")
    again = mainstay("plugin", "add", str(source), "--yes")
    assert "  the same content is installed already\n" in again.stdout
    assert "(new)" not in again.stdout
    assert mainstay.json("plugin", "list")["plugins"][0]["state"] == "ok"


def test_it_is_said_that_nothing_holds_a_plugin(mainstay: Command, tmp_path: Path) -> None:
    mainstay.configure("sandbox: {kind: host}\n")
    assert "it runs as you, with all your permissions" in mainstay("plugin", "add", str(loud(tmp_path)), "--yes").stdout
    assert "  runs as you, with all your permissions" in mainstay("plugin", "list").stdout
    assert mainstay.json("plugin", "list")["plugins"][0]["unconfined"]
    mainstay.configure("")
    assert "runs as you" not in mainstay("plugin", "list").stdout


def test_a_missing_argument_is_reported_with_the_given_command_line(mainstay: Command, tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    bare = str(tmp_path / "bare")
    refused(mainstay("plugin", "add", bare), f"there is no plugin.yaml in {bare}\n")
    refused(mainstay("plugin", "add", "https://example.com/loud.zip"), "download it first")
    refused(mainstay("plugin", "call", "loud"), "required: ACTION (see", code=2)
    mainstay("plugin", "add", str(loud(tmp_path)), "--yes")
    refused(mainstay("plugin", "call", "loud", "shout", "text=\udcff"), "is not UTF-8", code=2)
    refused(mainstay("plugin", "call", "loud", "shout", "--input", "\udcff"), "is not UTF-8", code=2)
