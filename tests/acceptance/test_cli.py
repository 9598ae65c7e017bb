"""The command as people run it: a process of its own, an empty home, a model on loopback."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli_support import Command, FakeModel

from mainstay.store.home import HomeLock

RUN_MODULES_MAX = 374


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: FakeModel) -> Command:
    return Command(tmp_path, model.url)


@pytest.fixture
def bare(tmp_path: Path) -> Command:
    """No configuration, no key, no server."""
    return Command(tmp_path)


# --- the command itself --------------------------------------------------------------------------


def test_help_lists_the_commands_and_costs_next_to_nothing(bare: Command) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = bare("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0
    for verb in ("chat", "run", "init", "doctor", "session", "config"):
        assert f"\n    {verb} " in done.stdout
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent_s < 1.0  # 0.1 on an idle machine


def test_help_loads_nothing_that_it_does_not_need(bare: Command) -> None:
    code = "import sys; from mainstay.cli.main import main; main(['--help']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=bare.env, capture_output=True, text=True, check=True)
    for heavy in ("asyncio", "msgspec", "yaml", "rich", "prompt_toolkit", "aiohttp", "apsw", "logging", "json"):
        assert f"'{heavy}'" not in done.stdout


def test_run_loads_few_modules_and_none_of_what_it_does_not_use(mainstay: Command) -> None:
    code = "import sys; from mainstay.cli.main import main; main(['run', 'hello']); print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=mainstay.env, cwd=mainstay.folder, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines())
    assert "mainstay.turn.loop" in loaded
    own = {name for name in loaded if name.partition(".")[0] == "mainstay"}
    assert len(own) <= RUN_MODULES_MAX, f"{len(own)} modules: import what few runs need where it is used"
    unused = ("channels", "evals", "server", "testing", "triggers", "trust.shell", "skills.skill", "lane.replay")
    assert not own & {f"mainstay.{name}" for name in unused}


def test_no_arguments_print_help_and_version_prints_the_version(bare: Command) -> None:
    assert "usage: mainstay" in bare().stdout
    assert bare("-V").stdout.startswith("mainstay ")
    assert bare("session", "list", "--version").stdout.startswith("mainstay ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sesion", "list"], "did you mean 'session'?"),
        (["session", "lst"], "did you mean 'list'?"),
        (["worker"], "`mainstay worker` is not available in this release"),
        (["workers", "run"], "not available in this release"),
        (["session"], "required: COMMAND"),
        (["session", "list", "--limit", "0"], "is not a whole number above 0"),
        (["run", "--nonsense", "x"], "unrecognized arguments: --nonsense"),
        (["chat", "--new", "--session", "x"], "not allowed with"),
    ],
)
def test_an_invalid_command_line_is_one_sentence(bare: Command, arguments: list[str], sentence: str) -> None:
    done = bare(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout
    told = bare(*arguments, "--json")
    assert told.returncode == 2
    assert json.loads(told.stdout)["error"]["type"] == "UsageError"


def test_global_options_go_before_or_after_the_verb(mainstay: Command, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    assert json.loads(mainstay("--json", "--home", other, "config", "path").stdout)["path"].startswith(other)
    assert json.loads(mainstay("config", "path", "--json", "--home", other).stdout)["path"].startswith(other)
    told = mainstay("--home", "x", "config", "path", "--home", other, "--json")
    assert json.loads(told.stdout)["path"].startswith(other)


def test_a_closed_pipe_is_no_error(mainstay: Command) -> None:
    mainstay("run", "hello", "--session", "s")
    line = " ".join(mainstay.argv("session", "records", "s", "--json"))
    done = subprocess.run(
        ["sh", "-c", f"{line} | head -c 1"], env=mainstay.env, capture_output=True, text=True, timeout=120, check=False
    )
    assert not done.stderr


# --- one turn ------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["run", "hi"], ["chat"]])
def test_without_a_model_there_is_a_paragraph_of_help(bare: Command, arguments: list[str]) -> None:
    done = bare(*arguments)
    assert done.returncode == 1
    for hint in ("ANTHROPIC_API_KEY", "ollama pull", "mainstay.yaml", "base_url"):
        assert hint in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout
    assert not bare.home.exists()


def test_run_prints_the_answer(mainstay: Command) -> None:
    done = mainstay("run", "what", "is", "new?")
    assert (done.returncode, done.stdout, done.stderr) == (0, "You said **what is new?**.\n", "")


def test_run_takes_its_prompt_from_stdin(mainstay: Command) -> None:
    assert mainstay("run", stdin="from a pipe\n").stdout == "You said **from a pipe**.\n"
    assert mainstay("run", "-", stdin="from a dash\n").stdout == "You said **from a dash**.\n"
    assert "sum up:\n\nthe file" in mainstay("run", "sum up:", "-", stdin="the file\n").stdout


def test_run_with_json_is_one_document(mainstay: Command) -> None:
    told = mainstay.json("run", "hello", "--session", "s")
    assert told["ok"] is True
    assert (told["text"], told["outcome"], told["session"], told["turn"]) == (
        "You said **hello**.", "Answered", "s", 1,
    )  # fmt: skip
    assert told["usage"]["prompt"] == 12


def test_run_goes_on_with_a_session_that_is_named(mainstay: Command, model: FakeModel) -> None:
    mainstay("run", "first", "--session", "s")
    mainstay("run", "second", "--session", "s")
    said = [one["content"] for one in model.requests[-1]["messages"] if one["role"] != "system"]
    assert said == ["first", "You said **first**.", "second"]


def test_a_model_that_refuses_is_one_sentence(mainstay: Command) -> None:
    done = mainstay("run", "refuse")
    assert done.returncode == 1
    assert "refused the API key" in done.stderr
    assert "Traceback" not in done.stderr
    told = mainstay("run", "refuse", "--json")
    assert told.returncode == 1
    assert json.loads(told.stdout)["error"]["type"] == "Failed"


def test_a_model_that_is_not_one_is_one_sentence(mainstay: Command) -> None:
    for name, sentence in (("nonsense", "does not name a model"), ("opnai/x", "did you mean 'openai'?")):
        done = mainstay("run", "hi", "--model", name)
        assert done.returncode == 1
        assert sentence in done.stderr


def test_escape_sequences_of_a_model_do_not_reach_the_terminal(mainstay: Command) -> None:
    done = mainstay("run", "evil", "--session", "s")
    assert done.stdout == "before redover\nafter\n"
    for arguments in (["show", "s"], ["trace", "s"], ["trace", "s", "--json"], ["show", "s", "--json"]):
        shown = mainstay("session", *arguments).stdout
        assert not set(shown) & set("\x1b\x07\r\x9b\u202e"), arguments


def test_an_interrupted_run_ends_its_turn(mainstay: Command, model: FakeModel) -> None:
    process = mainstay.start("run", "slow", "--session", "s")
    model.wait_for_prompt("slow")
    process.send_signal(2)
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert "stopped" in mainstay("session", "show", "s").stdout
    assert mainstay.json("session", "list")["sessions"][0].get("unfinished", False) is False


# --- sessions ------------------------------------------------------------------------------------


def test_sessions_are_listed_shown_and_traced(mainstay: Command) -> None:
    assert "No sessions" in mainstay("session", "list").stdout
    mainstay("run", "hello", "--session", "one")
    mainstay("run", "world", "--session", "two")
    listed = mainstay("sessions", "list").stdout.splitlines()
    assert listed[0].startswith("SESSION")
    assert [line.split()[0] for line in listed[1:]] == ["two", "one"]
    assert len(mainstay.json("session", "list", "--limit", "1")["sessions"]) == 1
    shown = mainstay("session", "show", "one").stdout
    assert "you " in shown
    assert "  hello\n" in shown
    assert "  You said **hello**.\n" in shown
    traced = mainstay("session", "records", "one").stdout
    for word in ("Received", "TurnStarted", "MessageAdded", "TurnEnded", "12 / 3", "+MS"):
        assert word in traced
    kinds = [one["kind"] for one in mainstay.json("session", "records", "one")["records"]]
    assert kinds == ["Received", "TurnStarted", "SessionChanged", "MessageAdded", "TurnEnded"]
    assert [one["role"] for one in mainstay.json("session", "show", "one")["messages"]] == ["user", "assistant"]


def test_sigil_031_032_033_loom_087_settings_of_a_session_are_shown_and_changed(mainstay: Command) -> None:
    mainstay("run", "hello", "--session", "s")
    assert mainstay("session", "metadata", "s", "ticket=T-1", "tenant=acme").stdout == "tenant  acme\nticket  T-1\n"
    assert mainstay.json("session", "metadata", "s", "ticket=")["metadata"] == {"tenant": "acme"}
    assert mainstay.json("session", "profile", "s", "name=Ann")["profile"] == {"name": "Ann"}
    assert mainstay("session", "model", "s", "vllm/other").stdout == "vllm/other\n"
    assert mainstay("session", "budget", "s", "--tokens", "16").stdout == "16 tokens\n"
    assert mainstay.json("session", "budget", "s", "--money", "0.5")["budget"] == {"money": 0.5, "tokens": 16}
    assert mainstay("session", "pause", "s").stdout == "s paused\n"
    shown = mainstay("session", "show", "s").stdout.splitlines()[0]
    for word in ("paused", "model vllm/other", "budget $0.50, 16 tokens"):
        assert word in shown
    assert mainstay.json("session", "show", "s")["session"]["metadata"] == {"tenant": "acme"}
    mainstay("session", "activate", "s")
    refused = mainstay("run", "again", "--session", "s")
    assert refused.returncode != 0
    assert "the session's budget of 16 tokens" in refused.stdout
    assert mainstay("run", "--session", "", "hi").returncode == 2
    assert mainstay("session", "model", "s", "nonsense").returncode != 0


def test_an_unknown_session_is_one_sentence_with_the_nearest_name(mainstay: Command) -> None:
    mainstay("run", "hello", "--session", "meeting")
    for verb in (
        ["show"],
        ["trace"],
        ["records"],
        ["export"],
        ["replay"],
        ["archive"],
        ["undo"],
        ["delete", "--yes"],
        ["fork"],
    ):
        rest = ["new"] if verb == ["fork"] else []
        done = mainstay("session", *verb, "meting", *rest)
        assert done.returncode == 1, verb
        assert done.stderr == "mainstay: there is no session 'meting'; did you mean 'meeting'?\n"


def test_export_fork_and_replay(mainstay: Command, tmp_path: Path) -> None:
    mainstay("run", "hello", "--session", "s")
    mainstay("run", "again", "--session", "s")
    done = mainstay("session", "export", "s", "--to", "out")
    assert done.stdout.split() == ["out/log.jsonl", "out/context.jsonl"]
    log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert [one["text"] for one in log] == ["hello", "You said **hello**.", "again", "You said **again**."]
    assert mainstay("session", "fork", "s", "t", "--upto", "5").returncode == 0
    shown = mainstay("session", "show", "t").stdout
    assert "hello" in shown
    assert "again" not in shown
    assert "already" in mainstay("session", "fork", "s", "t").stderr
    assert "records 1 to 9" in mainstay("session", "fork", "s", "u", "--upto", "99").stderr
    for name in ("s", "t"):
        done = mainstay("session", "replay", name)
        assert (done.returncode, done.stdout.partition(":")[0]) == (0, "identical")
    assert mainstay.json("session", "replay", "s") == {"ok": True, "records": 9, "turns": 2}


def test_a_journal_that_was_tampered_with_does_not_replay(mainstay: Command) -> None:
    mainstay("run", "hello", "--session", "s")
    import sqlite3

    database = sqlite3.connect(mainstay.home / "workspaces" / "default" / "workspace.db")
    with database:
        database.execute("UPDATE events SET body = replace(body, '\"Answered\"', '\"Aborted\"')")
    database.close()
    done = mainstay("session", "replay", "s")
    assert done.returncode == 1
    assert done.stdout.startswith("different at record")
    told = json.loads(mainstay("session", "replay", "s", "--json").stdout)
    assert told["ok"] is False
    assert told["error"]["message"] in done.stdout


def test_archive_and_delete(mainstay: Command) -> None:
    for name in ("a", "b", "c"):
        mainstay("run", "a secret word", "--session", name)
    assert mainstay("session", "archive", "a").stdout == "a archived\n"
    refused = mainstay("run", "more", "--session", "a")
    assert refused.returncode == 1
    assert "archived" in refused.stderr
    assert mainstay("session", "activate", "a").stdout == "a active\n"
    assert mainstay("run", "more", "--session", "a").returncode == 0
    assert mainstay("session", "activate", "nobody").returncode == 1
    asked = mainstay("session", "delete", "b")
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    assert mainstay("session", "delete", "b", "c", "--yes").stdout == "b deleted\nc deleted\n"
    assert [one["key"] for one in mainstay.json("session", "list")["sessions"]] == ["a"]
    database = b"".join(path.read_bytes() for path in mainstay.home.rglob("workspace.db*"))
    assert database.count(b"a secret word") < 6  # what is left belongs to `a`


def test_import_adds_an_external_conversation(mainstay: Command, model: FakeModel, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "I am Ada"}, {"role": "assistant", "content": "Hello Ada"}]
    (tmp_path / "old.json").write_text(json.dumps(messages))
    (tmp_path / "old.jsonl").write_text("".join(json.dumps(one) + "\n" for one in messages))
    assert mainstay("session", "import", "old.json").stdout == "2 messages imported into old\n"
    assert mainstay.json("session", "import", "old.jsonl", "--session", "lines")["messages"] == 2
    whole = json.dumps({"messages": messages})
    assert mainstay("session", "import", "-", "--session", "piped", stdin=whole).returncode == 0
    mainstay("run", "who am I?", "--session", "lines")
    said = [one["content"] for one in model.requests[-1]["messages"] if one["role"] != "system"]
    assert said == ["I am Ada", "Hello Ada", "who am I?"]
    mainstay("session", "export", "lines", "--to", "out")
    assert mainstay("session", "import", "out/log.jsonl", "--session", "again").stdout.startswith("4 messages")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "contains no messages"),
        ("7", "does not contain a list of messages"),
        ('{"role": "user", "content": "a"}\nnonsense', "line 2 is not JSON"),
        ('[{"role": "robot", "content": "a"}]', "message 1 of bad.json is not"),
    ],
)
def test_a_file_that_cannot_be_imported_is_one_sentence(
    mainstay: Command, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "bad.json").write_text(text)
    done = mainstay("session", "import", "bad.json")
    assert done.returncode == 1
    assert sentence in done.stderr
    assert mainstay.json("session", "list")["sessions"] == []
    assert "No such file" in mainstay("session", "import", "missing.json").stderr


def test_an_export_is_redacted_as_the_guards_of_the_configuration_redact_output(
    mainstay: Command, model: FakeModel, tmp_path: Path
) -> None:
    mainstay("run", "hunter2-is-the-key of ann@example.org", "--session", "s")
    place = f"providers: {{openai: {{base_url: '{model.url}', api_key: hunter2-is-the-key}}}}"
    mainstay.configure(f"model: openai/fake\n{place}\nguards: {{pii: true}}\n")
    (mainstay.home / "mainstay.yaml").chmod(0o600)
    assert mainstay("session", "export", "s", "--to", "out").returncode == 0
    owner = mainstay.start("run", "slow", "--session", "long")
    try:
        model.wait_for_prompt("slow")
        assert mainstay("session", "export", "s", "--to", "owned").returncode == 0
    finally:
        owner.kill()
        owner.communicate()
    for file in ("log.jsonl", "context.jsonl"):
        text = (tmp_path / "out" / file).read_text()
        assert text == (tmp_path / "owned" / file).read_text(), "the process that owns the home redacts the same"
        assert "hunter2" not in text
        assert "ann@example.org" not in text
        assert text.count("[redacted") >= 2


def test_two_processes_share_a_home_through_its_owner(mainstay: Command, model: FakeModel) -> None:
    mainstay("run", "hello", "--session", "s")
    owner = mainstay.start("run", "slow", "--session", "long")
    try:
        model.wait_for_prompt("slow")
        for arguments in (["list"], ["show", "s"], ["trace", "s"], ["export", "s", "--to", "out"], ["replay", "s"]):
            assert mainstay("session", *arguments).returncode == 0, arguments
        assert mainstay("run", "x", "--session", "s").stdout == "You said **x**.\n"
        assert json.loads(mainstay("run", "y", "--json").stdout)["text"] == "You said **y**."
        assert "z" in mainstay("chat", "--new", stdin="z\n").stdout
        assert mainstay("session", "fork", "s", "t").returncode == 0
        assert mainstay("session", "archive", "t").returncode == 0
        assert "archived" in mainstay("run", "again", "--session", "t").stderr
        assert mainstay("session", "activate", "t").returncode == 0
        assert mainstay("run", "again", "--session", "t").returncode == 0
        assert mainstay("session", "delete", "t", "--yes").returncode == 0
        assert mainstay("run", "x", "--session", "m", "--model", "openai/other").returncode == 0
        listed = {one["key"]: one.get("model", "") for one in mainstay.json("session", "list")["sessions"]}
        assert listed["m"] == "openai/other", "a model that is asked for is this conversation's and no other's"
        assert listed["s"] == ""
    finally:
        owner.kill()
        owner.communicate(timeout=120)
    shown = mainstay("session", "show", "s").stdout
    assert "hello" in shown
    assert "x" in shown


def test_a_home_is_refused_if_its_owner_serves_no_socket_and_the_owner_is_named(mainstay: Command) -> None:
    home = mainstay.home
    home.mkdir(mode=0o700, exist_ok=True)
    lock = HomeLock(home)
    lock.acquire()
    try:
        for arguments in (["run", "x"], ["chat"], ["session", "import", "-"]):
            done = mainstay(*arguments, stdin='[{"role": "user", "content": "x"}]')
            assert done.returncode == 1, arguments
            assert f"in use by process {os.getpid()}" in done.stderr
            assert done.stderr.count("\n") == 1
        told = json.loads(mainstay("run", "x", "--json").stdout)
        assert told["error"]["type"] == "HomeTaken"
    finally:
        lock.release()


def test_a_turn_that_was_killed_is_finished_by_the_next_command(mainstay: Command, model: FakeModel) -> None:
    victim = mainstay.start("run", "slow for a while", "--session", "long")
    model.wait_for_prompt("slow for a while")
    victim.kill()
    victim.communicate(timeout=120)
    listed = mainstay("session", "list").stdout
    assert "active, unfinished" in listed
    done = mainstay("run", "hello", "--session", "s", "--log-level", "info")
    assert (done.returncode, done.stdout) == (0, "You said **hello**.\n")
    assert "info mainstay: resuming 1 unfinished" in done.stderr
    assert "finishing turns that were interrupted" in done.stderr
    assert mainstay.json("session", "show", "long")["messages"][-1]["role"] == "assistant"


# --- configuration, doctor, init -----------------------------------------------------------------


def test_a_mistake_in_the_configuration_is_named_with_its_line(mainstay: Command) -> None:
    mainstay.configure("model: openai/fake\n\nlimits:\n  step_max: 3\n")
    for arguments in (["config", "check"], ["config", "show"], ["run", "x"], ["chat"]):
        done = mainstay(*arguments)
        assert done.returncode == 1
        assert "mainstay.yaml line 4" in done.stderr
        assert "did you mean 'limits.steps_max'?" in done.stderr
        assert done.stderr.count("\n") == 1


def test_config_show_set_check_path(mainstay: Command) -> None:
    assert mainstay("config", "path").stdout == f"{mainstay.home}/mainstay.yaml\n"
    assert mainstay("config", "check").stdout.startswith("ok")
    assert mainstay("config", "set", "limits.steps_max", "7").returncode == 0
    shown = mainstay("config", "show").stdout
    row = next(line.split() for line in shown.splitlines() if line.startswith("limits.steps_max"))
    assert row == ["limits.steps_max", "7", "mainstay.yaml:7"]
    assert "sk-test" not in shown
    values = mainstay.json("config", "show")["values"]
    assert values["model"] == {"value": "openai/fake", "origin": "mainstay.yaml:1"}
    refused = mainstay("config", "set", "limits.steps_max", "many")
    assert refused.returncode == 1
    assert "left unchanged" in refused.stderr


def test_config_check_and_doctor_warn_of_rules_about_nothing(mainstay: Command) -> None:
    before = (mainstay.home / "mainstay.yaml").read_text()
    mainstay.configure(before + "policy:\n  deny: [red]\n")
    sentence = "policy.deny: there is no tool 'red'; did you mean 'read'?"
    assert mainstay("config", "check").stdout.startswith(f"warn: {sentence}\nok: ")
    assert mainstay.json("config", "check")["warnings"] == [sentence]
    assert f"warn  Rules: {sentence}" in mainstay("doctor").stdout
    mainstay.configure(before + "tools:\n  roots: [/no/such/folder]\n")
    assert "tools.roots: /no/such/folder is not a folder" in mainstay("config", "check").stderr
    assert "FAIL  Folders: tools.roots: /no/such/folder" in mainstay("doctor").stdout


def test_doctor_says_that_all_is_well(mainstay: Command) -> None:
    done = mainstay("doctor")
    assert done.returncode == 0, done.stdout
    verdicts = {line.split(":")[0].split()[-1]: line.split()[0] for line in done.stdout.splitlines() if ": " in line}
    for check in ("Python", "SQLite", "Memory", "Home", "Lock", "Disk", "Clock", "Configuration", "Model"):
        assert verdicts[check] == "ok"
    assert "openai/fake answered" in done.stdout
    told = mainstay.json("doctor")
    assert told["ok"] is True
    assert {one["verdict"] for one in told["checks"]} <= {"ok", "warn"}


def test_doctor_says_what_is_wrong_and_how_to_repair_it(mainstay: Command) -> None:
    mainstay.home.chmod(0o755)
    assert "chmod 700" in mainstay("doctor").stdout
    assert "(fixed)" in mainstay("doctor", "--fix").stdout
    assert mainstay.home.stat().st_mode & 0o777 == 0o700
    mainstay.configure("nonsense: 1\n")
    done = mainstay("doctor")
    assert done.returncode == 1
    assert "FAIL  Configuration: mainstay.yaml line 1" in done.stdout
    mainstay.configure("model: openai/fake\nproviders: {openai: {base_url: 'http://127.0.0.1:9/v1'}}\n")
    done = mainstay("doctor", "--json")
    assert done.returncode == 1
    failed = [one for one in json.loads(done.stdout)["checks"] if one["verdict"] == "FAIL"]
    assert [one["check"] for one in failed] == ["Model"]


def test_init_then_run(bare: Command, model: FakeModel) -> None:
    done = bare("init", "--model", "vllm/fake", "--base-url", model.url, "--name", "Ada")
    assert done.returncode == 0, done.stderr
    path = bare.home / "mainstay.yaml"
    text = path.read_text()
    assert "model: vllm/fake" in text
    assert "# " in text
    assert bare.home.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    assert bare("run", "hello").stdout == "You said **hello**.\n"
    assert "Your name is Ada" in model.requests[-1]["messages"][0]["content"]
    again = bare("init", "--yes")
    assert again.returncode == 1
    assert "--force" in again.stderr
    assert path.read_text() == text
    assert bare("init", "--yes", "--force", "--model", "groq/x").returncode == 0
    assert "groq/x" in path.read_text()


def test_init_finds_a_model_by_itself_and_works_without_one(bare: Command, model: FakeModel) -> None:
    assert "no model to talk to yet" in bare("init", "--yes").stdout
    assert bare("config", "check").returncode == 0
    bare.env["OLLAMA_HOST"] = f"127.0.0.1:{model.port}"
    assert bare.json("init", "--force")["model"] == "ollama/fake"
    assert bare("run", "hello").stdout == "You said **hello**.\n"


def test_init_refuses_a_model_that_is_not_one_and_leaves_nothing(bare: Command) -> None:
    done = bare("init", "--model", "nonsense")
    assert done.returncode == 1
    assert not (bare.home / "mainstay.yaml").exists()


# --- chat in a pipe ------------------------------------------------------------------------------


def test_chat_in_a_pipe_answers_line_by_line(mainstay: Command, model: FakeModel) -> None:
    done = mainstay("chat", stdin="hello\n/approve\n\nmore \\\nlines\n/status\n/quit\nnever\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:4] == [
        "You said **hello**.", "no tool call is waiting for approval", "You said **more ", "lines**.",
    ]  # fmt: skip
    assert "\nmodel    openai/fake" in done.stdout
    assert "never" not in done.stdout
    again = mainstay("chat", stdin="once more\\")  # a line that goes on, and then nothing does
    assert again.stdout == "You said **once more\n**.\n"
    assert [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "user"] == [
        "hello", "more \nlines", "once more\n",
    ]  # fmt: skip
    mainstay("chat", "--new", stdin="fresh\n")
    assert [one["role"] for one in model.requests[-1]["messages"]] == ["system", "user"]
    chats = [one["key"] for one in mainstay.json("session", "list")["sessions"]]
    assert len(chats) == 2
    assert all(name.startswith("chat-") for name in chats)


def test_chat_in_a_pipe_switches_sessions_and_models(mainstay: Command, model: FakeModel) -> None:
    mainstay("run", "hello", "--session", "s")
    done = mainstay("chat", stdin="/sessions s\nagain\n/model nonsense\n/model vllm/other\n/usage\n/nwe\n/st\n")
    assert "continuing s" in done.stdout
    assert "You said **again**." in done.stdout
    assert "does not name a model" in done.stderr
    assert "model changed to vllm/other" in done.stdout
    assert "2 turns: 24 tokens in" in done.stdout
    assert "did you mean /new?" in done.stdout
    assert done.returncode == 0


def test_sigil_033_the_chat_pauses_a_session_and_shows_its_settings(mainstay: Command) -> None:
    mainstay("run", "hello", "--session", "s")
    lines = ["/sessions s", "/pause", "/status", "/resume", "/metadata ticket=T-1", "/budget tokens=16 money=0.5"]
    done = mainstay("chat", stdin="\n".join([*lines, "/usage", "/budget colour=red", "/budget 0.50", "again", ""]))
    assert "this session is paused" in done.stdout
    assert "status   paused" in done.stdout
    assert "this session is active again" in done.stdout
    assert "ticket  T-1" in done.stdout
    assert "$0.50, 16 tokens" in done.stdout
    assert "93 % of the session's budget of 16 tokens is used" in done.stdout
    assert done.stdout.count("usage: /budget") == 2
    assert "the session's budget of 16 tokens" in done.stdout + done.stderr
    assert "You said" not in done.stdout


def test_a_chat_in_a_pipe_that_fails_says_so(mainstay: Command) -> None:
    done = mainstay("chat", stdin="refuse\n")
    assert done.returncode == 1
    assert "refused the API key" in done.stderr


def test_the_memo_and_the_home_are_private(mainstay: Command) -> None:
    mainstay("chat", stdin="hello\n")
    assert mainstay.home.stat().st_mode & 0o777 == 0o700
    assert (mainstay.home / "chat.json").stat().st_mode & 0o777 == 0o600


# --- the reference page --------------------------------------------------------------------------


def test_the_reference_page_is_current() -> None:
    from reference_cli import render_page

    page = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
    assert page.read_text() == render_page(), "run: python scripts/reference.py"
