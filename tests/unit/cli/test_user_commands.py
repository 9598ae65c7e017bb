"""`mainstay user` and `mainstay workspace`, as people type them: alone in a home, and beside a process that owns it."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainstay.cli.commands import agent_setup
from mainstay.cli.parser.base import CommandGroup, CommandParser, UsageError, build_json_option, build_shared_options
from mainstay.cli.parser.users_workspaces_channels import add_gateway
from mainstay.config.loader import load_config
from mainstay.config.schema import Config
from mainstay.core.errors import ConfigError, HomeTaken, HomeUnusable, InputRefused
from mainstay.core.people import Principal
from mainstay.gateway import home_socket
from mainstay.gateway.home_socket import SOCKET_NAME, RemoteAgent, serve_socket
from mainstay.gateway.offline_home import OfflineHome, open_people
from mainstay.gateway.people import People
from mainstay.gateway.workspace_folders import move_to_removed
from mainstay.operations.caller import OWNER, Caller
from mainstay.operations.execute import execute
from mainstay.operations.operation import Operation
from mainstay.operations.people import ListKeys, ListPeople
from mainstay.operations.runtime_protocols import RemovedWorkspace
from mainstay.store.home import HomeLock
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing.store_writer import SessionWriter


class Typed:
    """The nouns of people on a tree of their own, run in this process."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[str, str]:
        parser = CommandParser(
            prog="mainstay", allow_abbrev=False, parents=[build_shared_options(), build_json_option()]
        )
        add_gateway(CommandGroup(parser, required=False))
        blank = argparse.Namespace(home=str(self.home), workspace=None, json=False, log_level=None, run=None)
        options = parser.parse_args(words, blank)
        module, _, name = str(options.run).partition(":")
        code = getattr(importlib.import_module(f"mainstay.cli.commands.{module}"), name)(options)
        assert code == 0
        return self._capsys.readouterr()

    def json(self, *words: str) -> Any:
        out, err = self(*words, "--json")
        assert not err
        found = json.loads(out)
        assert found.pop("ok") is True
        return found

    def principal(self, token: str) -> Principal | None:
        async def look() -> Principal | None:
            async with open_people(self.home, load_config(self.home, env={}).config) as people:
                return people.authenticate_key(token)

        return asyncio.run(look())

    def told(self, user: str = "U1") -> str:
        async def ask() -> str | None:
            async with open_people(self.home, load_config(self.home, env={}).config) as people:
                return await people.issue_pairing_code("slack", user, "Ann \x1b[31mLee")

        code = asyncio.run(ask())
        assert code is not None
        return code


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    for name in ("MAINSTAY_HOME", "MAINSTAY__WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return Typed(home, capsys)


def test_a_person_is_added_granted_a_role_withdrawn_and_removed(typed: Typed) -> None:
    typed("workspace", "create", "team")
    out, _ = typed("user", "add", "ann", "--called", "Ann Lee", "--role", "admin")
    assert out == "ann was added (roles: default: admin)\n"
    typed("user", "grant", "ann", "--in", "team", "--role", "guest")
    (ann,) = typed.json("user", "list")["users"]
    assert ann.pop("created") > 0
    assert ann == {
        "name": "ann",
        "called": "Ann Lee",
        "roles": {"default": "admin", "team": "guest"},
        "accounts": [],
        "keys": 0,
        "declared": False,
    }
    out, _ = typed("users", "list")
    assert "default: admin, team: guest" in out
    typed("user", "withdraw", "ann", "--in", "default")
    assert typed.json("user", "list")["users"][0]["roles"] == {"team": "guest"}
    with pytest.raises(UsageError, match="add --yes"):
        typed("user", "remove", "ann")
    assert len(typed.json("user", "list")["users"]) == 1
    typed("user", "remove", "ann", "--yes")
    assert typed.json("user", "list")["users"] == []
    assert stat.S_IMODE((typed.home / "gateway.db").stat().st_mode) == 0o600


def test_on_a_terminal_removing_a_person_asks_first(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    typed("user", "add", "ann")
    typed("user", "key", "ann")
    asked: list[str] = []
    answers = ["", "y"]

    def answer(question: str) -> str:
        asked.append(question)
        return answers.pop(0)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", answer)
    assert typed("user", "remove", "ann")[0] == "no user was removed\n"
    assert asked == ["Remove ann with 0 accounts and 1 key? [y/N] "]
    assert len(typed.json("user", "list")["users"]) == 1
    assert typed("user", "remove", "ann")[0].startswith("ann was removed")
    assert typed.json("user", "list")["users"] == []


def test_looking_makes_nothing(typed: Typed) -> None:
    for words in (["user", "list"], ["user", "keys"], ["user", "pairings"], ["workspace", "list"]):
        typed(*words)
    assert list(typed.home.iterdir()) == []
    (typed.home / "mainstay.yaml").write_text("people:\n  ann: {role: guest}\n")
    assert [one["name"] for one in typed.json("user", "list")["users"]] == ["ann"]
    assert [one.name for one in typed.home.iterdir()] == ["mainstay.yaml"]


def test_an_unknown_user_is_paired_by_their_code(typed: Typed) -> None:
    code = typed.told()
    (waiting,) = typed.json("user", "pairings")["pairings"]
    assert (waiting["channel"], waiting["user"], waiting["called"]) == ("slack", "U1", "Ann [31mLee")
    assert code not in json.dumps(waiting)
    assert "digest" not in waiting
    out, _ = typed("user", "pair", code.lower(), "--as", "ann")
    assert out == "ann was paired (roles: default: member)\n"
    assert typed.json("user", "list")["users"][0]["accounts"] == [{"channel": "slack", "user": "U1"}]
    _, err = typed("user", "pairings")
    assert "no channel accounts wait" in err
    with pytest.raises(InputRefused, match="mistyped, used, replaced"):
        typed("user", "pair", code, "--as", "eve")
    typed("user", "unpair", "slack", "U1")
    with pytest.raises(InputRefused, match="is not paired"):
        typed("user", "unpair", "slack", "U1")


def test_a_key_is_printed_once_alone_and_revoked(typed: Typed) -> None:
    typed("user", "add", "ann", "--role", "admin")
    out, err = typed("user", "key", "ann", "--scope", "read", "--scope", "chat", "--note", "board", "--expires", "30d")
    token = out.strip()
    found = typed.principal(token)
    assert found is not None
    assert found.scopes == {"chat", "read"}
    assert "Authorization: Bearer" in err
    assert token not in err
    (key,) = typed.json("user", "keys")["keys"]
    assert (key["note"], key["usable"], key["expires"] - key["created"]) == (
        "board",
        True,
        pytest.approx(30 * 86_400_000, abs=60_000),
    )
    for said in (*typed("user", "keys"), json.dumps(key), *typed("user", "list")):
        assert token.rpartition("_")[2] not in said
        assert "digest" not in said
    typed("user", "revoke", key["id"])
    assert typed.principal(token) is None
    assert "revoked" in typed("user", "keys")[0]
    with pytest.raises(InputRefused, match="revoked before"):
        typed("user", "revoke", key["id"])
    with pytest.raises(InputRefused, match="no key"):
        typed("user", "revoke", "nokeyatall")


def test_a_key_as_json_is_for_programs(typed: Typed) -> None:
    typed("user", "add", "ann")
    made = typed.json("user", "key", "ann")
    assert made["key"]["scopes"] == ["chat"]
    found = typed.principal(made["token"])
    assert found is not None
    assert (found.person, found.workspace, found.key) == ("ann", "default", made["key"]["id"])


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        (["user", "add", "Ann"], InputRefused, "a person's name has"),
        (["user", "add", "ann", "--in", "nowhere"], InputRefused, "mainstay workspace create nowhere"),
        (["user", "add", "ann", "--in", "../x"], ConfigError, "1 to 64 characters"),
        (["user", "add", "ann", "--role", "root"], UsageError, "'root' is not a valid value"),
        (["user", "add", "ann", "--called", "a\nb"], InputRefused, "one line"),
        (["user", "add", "ann", "--called", "\udcff"], UsageError, "not UTF-8"),
        (["user", "pair", "K7QM-4XPA"], UsageError, "--as"),
        (["user", "pair", "nonsense!", "--as", "ann"], InputRefused, "like K7QM-4XPA"),
        (["user", "grant", "ann", "--in", "default", "--role", "guest"], InputRefused, "no person 'ann'"),
        (["user", "key", "ann"], InputRefused, "no person 'ann'"),
        (["user", "key", "ann", "--expires", "soon"], UsageError, "is not a duration"),
        (["user", "key", "ann", "--expires", "0d"], UsageError, "is not a duration"),
        (["user", "key", "ann", "--scope", "root"], UsageError, "not a valid value"),
        (["user", "remove", "ann"], InputRefused, "no person 'ann'"),
    ],
    ids=lambda given: None if not isinstance(given, list) else ascii(" ".join(given)),
)
def test_an_impossible_request_is_one_sentence_and_changes_nothing(
    typed: Typed, words: list[str], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        typed(*words)
    assert typed.json("user", "list")["users"] == []


def test_a_person_in_the_configuration_is_shown_and_changed_only_there(typed: Typed) -> None:
    (typed.home / "mainstay.yaml").write_text(
        "people:\n  ann:\n    role: admin\n    identities:\n      slack: U1\nchannels:\n"
        "  hook:\n    kind: webhook\n    secret: some long secret\n    url: https://chat.example\n    workspace: team\n"
    )
    (typed.home / "mainstay.yaml").chmod(0o600)
    (ann,) = typed.json("user", "list")["users"]
    assert (ann["declared"], ann["roles"], ann["accounts"]) == (
        True,
        {"default": "admin"},
        [{"channel": "slack", "user": "U1"}],
    )
    assert "configured in mainstay.yaml" in typed("user", "list")[0]
    with pytest.raises(InputRefused, match="declared in the configuration"):
        typed("user", "remove", "ann")
    token = typed.json("user", "key", "ann", "--scope", "admin")["token"]
    assert typed.principal(token) is not None
    typed("workspace", "create", "team")
    with pytest.raises(InputRefused, match=r"channels\.hook"):
        typed("workspace", "remove", "team", "--yes")


# --- operations as another process asks for them -------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"operation": "Nonsense"},
        {"operation": "__class__"},
        {"operation": "ListPeople", "more": 1},
        {"operation": "AddPerson"},
        {"operation": "AddPerson", "name": 7},
        {"operation": "AddPerson", "name": "ann", "roles": {"default": "root"}},
        {"operation": "CreateKey", "person": "ann", "scopes": "chat"},
        {"operation": "CreateKey", "person": "ann", "scopes": ["root"]},
        {"operation": "CreateKey", "person": "ann", "scopes": []},
        {"operation": "RevokeKey", "id": None},
    ],
    ids=str,
)
async def test_an_invalid_operation_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    config = load_config(tmp_path, env={}).config
    async with open_people(tmp_path, config) as people:
        home = OfflineHome(tmp_path, config, people)

        async def caller(workspace: str) -> Caller:
            return Caller(OWNER, NoAgent(), home)

        async with serve_socket(caller, tmp_path):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / SOCKET_NAME))
            writer.write(json.dumps({"request": given}).encode() + b"\n")
            answer = json.loads(await reader.readline())
            writer.close()
            assert answer["error"][0] == "InputRefused"
            assert (await RemoteAgent(tmp_path).execute(ListPeople())).people == []


class NoAgent:
    """The source of a runtime where there is none."""

    async def runtime(self) -> Any:
        raise HomeTaken("there is no agent here")

    @property
    def current(self) -> Any:
        raise HomeTaken("there is no agent here")


class OwnedHome(OfflineHome):
    """The home of a server, which closes a workspace before it is removed."""

    def __init__(self, data: Path, config: Config, people: People, closed: list[str]) -> None:
        super().__init__(data, config, people)
        self._closed = closed

    async def remove_workspace(self, name: str) -> RemovedWorkspace:
        return await move_to_removed(self._home, self._config, self.people, name, self._close)

    async def _close(self, name: str) -> None:
        self._closed.append(name)


class Owner:
    """A server that owns the home, in a thread with a loop of its own."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self.done: list[str] = []
        self.closed: list[str] = []
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))
        self._thread.start()
        assert self._ready.wait(120)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        config = load_config(self._home, env={}).config
        async with open_people(self._home, config) as people, serve_socket(self._caller, self._home):
            self._people, self._owned = people, OwnedHome(self._home, config, people, self.closed)
            self._ready.set()
            await self._stop.wait()

    async def _caller(self, workspace: str) -> Caller:
        return Caller(OWNER, NoAgent(), self._owned)

    async def execute(self, caller: Caller, operation: Operation[Any]) -> Any:
        self.done.append(type(operation).__name__)
        return await execute(caller, operation)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(120)


@pytest.fixture
def owner(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Owner]:
    made = Owner(typed.home)
    monkeypatch.setattr(home_socket, "execute", made.execute)
    yield made
    made.end()


def test_beside_a_server_everything_is_done_by_the_server(typed: Typed, owner: Owner) -> None:
    typed("workspace", "create", "team")
    typed("user", "add", "ann", "--in", "team")
    token = typed("user", "key", "ann", "--in", "team")[0].strip()
    found = owner._people.authenticate_key(token)
    assert found is not None
    assert found.workspace == "team"
    typed("user", "revoke", found.key)
    assert owner._people.authenticate_key(token) is None, "at once"
    with pytest.raises(InputRefused, match="no person 'ben'"):
        typed("user", "remove", "ben", "--yes")
    assert owner.done == ["CreateWorkspace", "AddPerson", "CreateKey", "RevokeKey", "RemovePerson"]
    out, _ = typed("workspace", "remove", "team", "--yes")
    assert owner.closed == ["team"]
    assert "lost their role in it: ann" in out
    assert not (typed.home / "workspaces" / "team").exists()


def test_an_owner_of_the_home_that_does_not_answer_is_waited_for_and_then_named(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mainstay.gateway import home_client

    for module in (home_client, agent_setup):
        monkeypatch.setattr(module, "OWNER_WAIT_S", 0.2)
    typed("workspace", "create", "team")
    lock = HomeLock(typed.home)
    lock.acquire()
    try:
        for words in (["user", "add", "ann"], ["workspace", "remove", "team", "--yes"]):
            with pytest.raises(HomeTaken, match="in use by process"):
                typed(*words)
    finally:
        lock.release()
    assert (typed.home / "workspaces" / "team").is_dir()
    assert typed.json("user", "list")["users"] == []


# --- workspaces ----------------------------------------------------------------------------------


def test_workspaces_are_made_and_listed_with_what_is_in_them(typed: Typed) -> None:
    assert [one["name"] for one in typed.json("workspace", "list")["workspaces"]] == ["default"]
    typed("workspace", "create", "team")
    asyncio.run(_say(typed.home / "workspaces" / "team"))
    found = {one["name"]: one for one in typed.json("workspaces", "list")["workspaces"]}
    assert (found["default"]["configured"], found["default"]["sessions"]) == (True, 0)
    assert (found["team"]["configured"], found["team"]["sessions"], found["team"]["trouble"]) == (False, 2, "")
    assert found["team"]["bytes"] > 1000
    assert found["team"]["updated"] > 0
    assert "default*" in typed("workspace", "list")[0]
    assert stat.S_IMODE((typed.home / "workspaces" / "team").stat().st_mode) == 0o700
    with pytest.raises(InputRefused, match="already"):
        typed("workspace", "create", "team")
    with pytest.raises(ConfigError, match="1 to 64 characters"):
        typed("workspace", "create", "../team")


async def _say(folder: Path) -> None:
    store = SqliteStore(str(folder / "workspace.db"))
    await store.open()
    for key in ("a", "b"):
        await SessionWriter(store, key).write_turn("hello")
    await store.close()


def test_a_workspace_is_put_away_whole_and_roles_in_it_go(typed: Typed) -> None:
    typed("workspace", "create", "team")
    (typed.home / "workspaces" / "team" / "canary").write_text("still here")
    typed("user", "add", "ann", "--in", "team")
    typed("user", "grant", "ann", "--in", "default", "--role", "guest")
    token = typed.json("user", "key", "ann", "--in", "team")["token"]
    with pytest.raises(UsageError, match="add --yes"):
        typed("workspace", "remove", "team")
    assert typed.principal(token) is not None
    done = typed.json("workspace", "remove", "team", "--yes")
    moved = Path(done["moved"])
    assert moved.parent == typed.home / "removed"
    assert (moved / "canary").read_text() == "still here"
    assert stat.S_IMODE(moved.parent.stat().st_mode) == 0o700
    assert done["withdrawn"] == ["ann"]
    assert typed.json("user", "list")["users"][0]["roles"] == {"default": "guest"}
    typed("workspace", "create", "team")
    typed("user", "grant", "ann", "--in", "team", "--role", "admin")
    assert typed.principal(token) is None, "it is another workspace, of the same name"
    second = typed.json("workspace", "remove", "team", "--yes")
    assert second["moved"] != done["moved"]


def test_a_workspace_that_is_needed_or_not_there_is_not_removed(typed: Typed) -> None:
    typed("workspace", "create", "default")
    with pytest.raises(InputRefused, match="is the default workspace"):
        typed("workspace", "remove", "default", "--yes")
    with pytest.raises(InputRefused, match="there is no workspace 'team'"):
        typed("workspace", "remove", "team", "--yes")
    (typed.home / "workspaces" / "link").symlink_to(typed.home / "workspaces" / "default")
    with pytest.raises(HomeUnusable, match="is a symbolic link"):
        typed("workspace", "remove", "link", "--yes")
    assert (typed.home / "workspaces" / "default").is_dir()


def test_a_workspace_that_cannot_be_read_is_listed_with_the_reason(typed: Typed) -> None:
    typed("workspace", "create", "team")
    (typed.home / "workspaces" / "team" / "workspace.db").write_bytes(b"no database at all" * 100)
    (found,) = [one for one in typed.json("workspace", "list")["workspaces"] if one["name"] == "team"]
    assert "damaged" in found["trouble"]


def test_people_of_a_remote_home_are_the_same_in_every_workspace(typed: Typed, owner: Owner) -> None:
    asked = asyncio.run(RemoteAgent(typed.home).execute(ListKeys()))
    assert asked.keys == []
    assert owner.done == ["ListKeys"]
