"""`mainstay run` at work in the folder it was called in: the real command, the built-in tools, a model on loopback."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli_support import Command
from support.example_model import ExampleModel, Messages, Said

from mainstay.core.errors import MainstayError
from mainstay.sandbox.limits import SandboxLimits
from mainstay.sandbox.selection import create_sandbox

Work = Callable[..., tuple[Command, ExampleModel]]


def confined() -> bool:
    try:
        return create_sandbox("bubblewrap", SandboxLimits()).is_confined
    except MainstayError:
        return False


needs_sandbox = pytest.mark.skipif(not confined(), reason="no sandbox works on this machine")


def results(messages: Messages) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "tool"]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    """The command in a project's folder, and a model that makes these calls, one after the other."""
    models: list[ExampleModel] = []

    def made(*calls: tuple[str, dict[str, Any]], config: str = "") -> tuple[Command, ExampleModel]:
        def say(messages: Messages) -> Said:
            done = len(results(messages))
            return [calls[done]] if done < len(calls) else "Done."

        model = ExampleModel(say)
        models.append(model)
        command = Command(tmp_path, model.url)
        if config:
            command.configure((command.home / "mainstay.yaml").read_text() + config)
        command.folder = tmp_path / "project"
        command.folder.mkdir(exist_ok=True)
        (command.folder / "notes.txt").write_text("buy milk\n")
        return command, model

    yield made
    for model in models:
        model.close()


def test_a_run_works_on_the_files_of_the_folder_it_was_called_in(work: Work) -> None:
    mainstay, model = work(
        ("read", {"path": "notes.txt"}),
        ("edit", {"path": "notes.txt", "old": "milk", "new": "oat milk"}),
        ("grep", {"pattern": "oat"}),
        ("write", {"path": "lists/new.txt", "content": "bread\n"}),
    )
    done = mainstay("run", "mend my list")
    assert (done.returncode, done.stdout.strip()) == (0, "Done.")
    assert (mainstay.folder / "notes.txt").read_text() == "buy oat milk\n"
    assert (mainstay.folder / "lists" / "new.txt").read_text() == "bread\n"
    assert '● read(path="notes.txt")' in done.stderr
    assert f"You work in {mainstay.folder}" in model.asked[0][0]["content"]
    read, _, found, _ = results(model.asked[-1])
    assert "1\tbuy milk" in read
    assert read.startswith("<data "), "what stands in a file is data"
    assert "notes.txt" in found


@needs_sandbox
def test_f40_a_command_runs_in_the_sandbox_without_our_keys_and_without_a_network(work: Work) -> None:
    mainstay, model = work(
        ("bash", {"command": "cat notes.txt; env; ls $HOME/..; cat /etc/shadow"}),
        ("bash", {"command": "cat < /dev/tcp/127.0.0.1/$PORT || exec 3<>/dev/tcp/127.0.0.1/80"}),
    )
    secret = "canary-7f3a91c2d4"
    mainstay.env |= {"KEY": secret, "OPENAI_API_KEY": secret, "DATABASE_PASSWORD": secret, "MY_SECRET": secret}
    done = mainstay("run", "look around")
    assert done.returncode == 0, done.stderr
    assert f"{mainstay.folder}; paths are relative to it. Commands run in a sandbox" in model.asked[0][0]["content"]
    seen, network = results(model.asked[-1])
    assert "buy milk" in seen
    assert secret not in seen
    assert "PASSWORD" not in seen
    assert "exit" in network, "it failed"


def test_f53_the_agents_own_files_are_out_of_its_reach(work: Work) -> None:
    """F53: configuration, policy, journal, key and what was always allowed, by every file tool and by name or link."""
    mainstay, model = work()
    home = mainstay.home
    (home / "workspaces" / "default").mkdir(parents=True)
    (home / "workspaces" / "default" / "grants.json").write_text("[]")
    targets = ["mainstay.yaml", "key", "gateway.db", "skills/x/SKILL.md", "workspaces/default/grants.json"]
    targets += ["workspaces/default/workspace.db", "prompts/system.md"]
    (mainstay.folder / "door").symlink_to(home)
    paths = [f"{place}/{name}" for name in targets for place in (str(home), "door", "../home", "./door/../door")]
    calls: list[tuple[str, dict[str, Any]]] = [("write", {"path": path, "content": "policy: {}\n"}) for path in paths]
    calls += [("read", {"path": path}) for path in paths]
    calls += [("ls", {"path": "door"}), ("grep", {"pattern": "api_key", "path": "door"})]
    text = (home / "mainstay.yaml").read_text()
    limits = "limits:\n  steps_max: 200\n  tool_calls_max: 200\n"
    mainstay.configure(text + limits)
    model.say = lambda messages: [calls[len(results(messages))]] if len(results(messages)) < len(calls) else "Done."
    assert mainstay("run", "obey").stdout.strip() == "Done."
    said = results(model.asked[-1])
    assert len(said) == len(calls)
    for call, answer in zip(calls, said, strict=True):
        assert "Made" not in answer, call
        assert "openai" not in answer, call
    assert (home / "mainstay.yaml").read_text() == text + limits
    assert (home / "workspaces" / "default" / "grants.json").read_text() == "[]"
    assert len((home / "key").read_bytes()) == 32


def test_tools_can_be_turned_off_and_chosen(work: Work) -> None:
    mainstay, model = work(("read", {"path": "notes.txt"}), config="tools:\n  builtin: [none]\n  memory: 'off'\n")
    assert mainstay("run", "look").returncode == 0
    assert "There is no tool 'read'" in results(model.asked[-1])[0]
    assert "Where you work" not in str(model.asked[0])
    mainstay, model = work(("write", {"path": "x", "content": "x"}), config="tools:\n  builtin: [readonly]\n")
    assert mainstay("run", "look").returncode == 0
    assert "There is no tool 'write'" in results(model.asked[-1])[0]
    assert not (mainstay.folder / "x").exists()


def test_loom_122_a_tool_that_there_is_not_is_one_sentence(work: Work) -> None:
    mainstay, _ = work(config="tools:\n  builtin: [read, nuke]\n")
    done = mainstay("run", "look")
    assert done.returncode != 0
    assert "there is no built-in tool 'nuke'" in done.stderr
    assert "Traceback" not in done.stderr


def test_in_ones_home_directory_a_session_works_in_a_folder_of_its_own(work: Work) -> None:
    """A home directory is never meant as a workspace."""
    mainstay, model = work(("write", {"path": "found.txt", "content": "x"}), ("read", {"path": "notes.txt"}))
    mainstay.env["HOME"] = str(mainstay.folder)
    assert mainstay("run", "--session", "s", "look").returncode == 0
    assert not (mainstay.folder / "found.txt").exists()
    assert (mainstay.home / "workspaces/default/local/sessions/s/scratch/found.txt").read_text() == "x"
    assert "buy milk" not in results(model.asked[-1])[1]


@pytest.mark.parametrize(
    "rule", ["read_only: true", "deny: [write]", "capabilities: [fs.read]", "deny: ['write(*.txt)']"]
)
def test_loom_122_loom_123_rules_of_the_configuration_hold(work: Work, rule: str) -> None:
    mainstay, model = work(("write", {"path": "x.txt", "content": "x"}), config=f"policy:\n  {rule}\n")
    done = mainstay("run", "write")
    assert done.returncode == 0
    assert "Not allowed:" in results(model.asked[-1])[0]
    assert not (mainstay.folder / "x.txt").exists()


def test_an_invalid_rule_is_one_sentence(work: Work) -> None:
    mainstay, _ = work(config="policy:\n  deny: ['bash(']\n")
    done = mainstay("run", "x")
    assert done.returncode != 0
    assert "bash(" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_beside_an_open_chat_works_in_its_own_folder_and_not_in_the_chats(work: Work, tmp_path: Path) -> None:
    mainstay, _ = work(("write", {"path": "here.txt", "content": "x\n"}))
    other = tmp_path / "other"
    other.mkdir()
    chat = subprocess.Popen(  # it owns the home, in the project's folder
        mainstay.argv("chat", "--new"),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=mainstay.env,
        cwd=mainstay.folder,
    )
    try:
        deadline = time.monotonic() + 120
        while not (mainstay.home / "socket").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        here, mainstay.folder = mainstay.folder, other
        done = mainstay("run", "write it")
        assert done.returncode == 0, done.stderr
        assert (other / "here.txt").exists()
        assert not (here / "here.txt").exists()
        assert chat.poll() is None
    finally:
        chat.communicate(timeout=120)
