"""`mainstay backend list|test|query` and what `doctor` says of backends: the owner learns what is there, or why not."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

import apsw
import pytest
from support.cli_support import Command
from support.ports import choose_port
from test_cli_mcp_servers import ECHO, SANDBOXED, WIPE, Server
from test_cli_plugin import refused

from mainstay.store.home import HomeLock

PETS = {
    "openapi": "3.0.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://pets.example.com"}],
    "paths": {
        "/pets": {"get": {"operationId": "listPets", "responses": {}}},
        "/pets/{id}": {
            "get": {
                "operationId": "getPet",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "responses": {},
            },
            "delete": {"operationId": "dropPet", "responses": {}},
        },
    },
}


@pytest.fixture
def mainstay(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    command.home.mkdir(mode=0o700)
    database = apsw.Connection(str(command.home / "shop.db"))
    database.execute("CREATE TABLE orders (id INTEGER, what TEXT); INSERT INTO orders VALUES (1, 'tea'), (2, 'milk')")
    database.execute("CREATE TABLE keys (secret TEXT); CREATE TABLE customers (name TEXT)")
    database.close()
    (command.home / "handbook").mkdir()
    (command.home / "handbook" / "tea.md").write_text("Tea is green in 2024.\n")
    (command.home / "pets.json").write_text(json.dumps(PETS))
    (command.home / "broken.json").write_text("{")
    return command


def give(mainstay: Command, backends: dict[str, object], allow: str = "*__*", more: str = "") -> None:
    """JSON is YAML."""
    mainstay.configure(f"model: openai/x\npolicy: {{allow: ['{allow}']}}\nbackends: {json.dumps(backends)}\n{more}")


def postgres(port: int) -> dict[str, object]:
    return {"kind": "sql", "url": f"postgresql://ada:hunter2secret@127.0.0.1:{port}/crm"}


SHOP = {"kind": "sql", "url": "sqlite:///shop.db"}
GONE = {"kind": "sql", "url": "sqlite:///gone.db"}
DOCS = {"kind": "documents", "path": "handbook"}
REST = {"kind": "rest", "description": "pets.json"}


# --- doctor --------------------------------------------------------------------------------------


def line_of(said: str, name: str) -> str:
    return next(line for line in said.splitlines() if f"Backend: {name}:" in line)


def test_doctor_opens_what_a_rule_names_and_says_what_it_has(mainstay: Command) -> None:
    one = {**DOCS, "scope": {"paths": ["*.md"]}}
    give(mainstay, {"shop": SHOP, "docs": one, "pets": REST})
    said = mainstay("doctor").stdout
    assert line_of(said, "shop") == "ok    Backend: shop: sql, 3 tables"
    assert line_of(said, "docs") == "ok    Backend: docs: documents, 1 file"
    assert line_of(said, "pets") == "ok    Backend: pets: rest, 2 operations"
    assert not (mainstay.home / "workspaces").exists()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (GONE, "there is no file {home}/gone.db"),
        ({"kind": "sql", "url": "sqlite:///handbook"}, "{home}/handbook is not a file"),
        ({"kind": "sql", "url": "sqlite:///pets.json"}, "the SQLite database cannot be opened: "),
        ({"kind": "documents", "path": "nowhere"}, "there is no folder {home}/nowhere"),
        ({"kind": "rest", "description": "nowhere.json"}, "description: cannot be read: "),
        ({"kind": "rest", "description": "broken.json"}, ""),
    ],
    ids=["no-file", "folder", "no-database", "no-folder", "no-description", "broken-description"],
)
def test_doctor_says_why_a_backend_cannot_be_used(mainstay: Command, entry: dict[str, object], says: str) -> None:
    give(mainstay, {"it": entry, "shop": SHOP})
    done = mainstay("doctor")
    assert done.returncode == 1
    assert line_of(done.stdout, "it").startswith(f"FAIL  Backend: it: {entry['kind']}: ")
    assert says.format(home=mainstay.home) in done.stdout
    assert "backends.it.backends" not in done.stdout
    assert line_of(done.stdout, "shop").startswith("ok ")


def test_doctor_names_an_unreachable_database_without_its_password(mainstay: Command) -> None:
    pytest.importorskip("psycopg")
    give(mainstay, {"crm": postgres(choose_port())})
    said = mainstay("doctor").stdout
    assert "FAIL  Backend: crm: sql: the PostgreSQL database cannot be opened: " in said
    assert "refused" in line_of(said, "crm")
    assert "hunter2secret" not in said


def _hold_connections(silent: socket.socket, count: int, together: threading.Event) -> None:
    """Accept connections and never answer; `together` is set when so many are open at the same time."""
    held: list[socket.socket] = []
    while not together.is_set():
        try:
            connection, _ = silent.accept()
        except OSError:  # the test is over
            return
        connection.setblocking(False)
        held = [one for one in held if _is_open(one)] + [connection]
        if len(held) == count:
            together.set()
    silent.accept()  # hold them until the test is over


def _is_open(connection: socket.socket) -> bool:
    try:
        while connection.recv(4096):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def test_doctor_waits_for_a_silent_backend_no_longer_than_its_timeout(mainstay: Command) -> None:
    pytest.importorskip("psycopg")
    with socket.create_server(("127.0.0.1", 0), backlog=16) as silent:
        port = silent.getsockname()[1]
        names = ("one", "two", "three", "four")
        give(mainstay, dict.fromkeys(names, postgres(port)))
        together = threading.Event()
        threading.Thread(target=_hold_connections, args=(silent, len(names), together), daemon=True).start()
        said = mainstay("doctor").stdout
    assert together.is_set(), "side by side"
    for name in names:
        assert line_of(said, name).startswith(f"FAIL  Backend: {name}: sql: ")


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({**SHOP, "scope": {"tables": ["ordrs"]}}, "sql, 0 tables; scope.tables: ordrs matches nothing"),
        ({**SHOP, "scope": {"tables": ["orders", "x*"]}}, "sql, 1 table; scope.tables: x* matches nothing"),
        ({**DOCS, "scope": {"paths": ["*.txt"]}}, "documents, 0 files; scope.paths: *.txt matches nothing"),
        (
            {**REST, "scope": {"operations": ["listPets", "x*"]}},
            "rest, 1 operation; scope.operations: x* matches nothing",
        ),
        ({**REST, "scope": {"paths": ["/cats/**"]}}, "rest, 0 operations; scope.paths: /cats/** matches nothing"),
        ({**REST, "scope": {"operations": ["dropPet"]}}, "rest, 0 operations"),
    ],
    ids=["no-table", "one-of-two", "no-files", "one-operation", "no-path", "only-changes"],
)
def test_doctor_warns_of_a_scope_that_fits_nothing(mainstay: Command, entry: dict[str, object], says: str) -> None:
    give(mainstay, {"it": entry})
    assert line_of(mainstay("doctor").stdout, "it") == f"warn  Backend: it: {says}"


def test_doctor_leaves_alone_what_no_rule_names(mainstay: Command) -> None:
    give(mainstay, {"gone": GONE}, allow="read")
    said = mainstay("doctor").stdout
    assert line_of(said, "gone") == ("warn  Backend: gone: sql; no rule names its tools, so the model cannot use them")
    assert '→ add "gone__*" to policy.allow' in said


# --- doctor, on other external tools --------------------------------------------------------------


def test_doctor_says_what_runs_as_you_where_the_sandbox_is_the_host(mainstay: Command) -> None:
    mainstay.configure("sandbox: {kind: host}\nmcpServers:\n  it: {command: echo}\n")
    said = mainstay("doctor").stdout
    assert "warn  External tools: sandbox.kind is host: plugins and local MCP servers run as you" in said
    assert "→ mainstay config set sandbox.kind auto" in said
    mainstay.configure("sandbox: {kind: host}\nmcpServers:\n  it: {url: 'https://x.example.com'}\n")
    assert "run as you" not in mainstay("doctor").stdout


def test_doctor_says_once_that_a_secret_is_missing_and_where_to_put_it(mainstay: Command, tmp_path: Path) -> None:
    folder = tmp_path / "wild2"
    folder.mkdir()
    (folder / "plugin.yaml").write_text(
        "name: wild2\nversion: 1.0.0\ndescription: It.\nrun: [python, main.py]\n"
        "actions: [{name: go, description: Go.}]\nenv: {KEY: '${secret:wild}'}\n"
    )
    (folder / "main.py").write_text("")
    mainstay.configure(f"plugins:\n  wild2: {{path: {folder}}}\n")
    said = mainstay("doctor").stdout
    assert said.count("wild2") == 1, said
    assert "FAIL  External tools: the plugin wild2 is left out: 'KEY' needs the secret 'wild'\n" in said
    assert f"→ put it into {mainstay.home}/secrets/wild, mode 600" in said


@SANDBOXED
@pytest.mark.parametrize("tools", [(ECHO,), (ECHO, WIPE)], ids=["one", "two"])
def test_doctor_counts_the_tools_of_a_server_as_mcp_list_does(
    mainstay: Command, tmp_path: Path, tools: tuple[object, ...]
) -> None:
    server = Server(tmp_path / "server")
    server.offer(*tools)
    mainstay.configure("model: openai/x\n")
    mainstay("mcp", "add", "it", "--allow", *server.words)
    assert "MCP server: it: its tools have not been listed yet" in mainstay("doctor").stdout
    assert mainstay("mcp", "approve", "it", "--yes").returncode == 0
    [row] = mainstay.json("mcp", "list")["servers"]
    assert row["tools"] >= len(tools)
    assert f"MCP server: it: {row['tools']} tools approved" in mainstay("doctor").stdout


def test_doctor_says_that_the_owner_still_works_with_the_old_configuration(mainstay: Command) -> None:
    mainstay.configure("model: openai/x\n")
    lock = HomeLock(mainstay.home)
    lock.acquire()
    try:
        said = mainstay("doctor").stdout
        assert "ok    Lock: in use by process " in said
        assert "choose another --home" not in said
        assert "still uses the earlier configuration" not in said
        later = time.time() + 5
        os.utime(mainstay.home / "mainstay.yaml", (later, later))
        said = mainstay("doctor").stdout
        assert f"warn  Lock: {mainstay.home}/mainstay.yaml has changed, but process {os.getpid()} still uses" in said
    finally:
        lock.release()
    assert "still uses the earlier configuration" not in mainstay("doctor").stdout


# --- the command ---------------------------------------------------------------------------------


def test_list_says_where_they_are_what_a_rule_names_and_how_they_are(mainstay: Command) -> None:
    pytest.importorskip("psycopg")
    port = choose_port()
    notes, none = {"kind": "mcp", "server": "wiki"}, {"kind": "mcp", "server": "w2"}
    give(
        mainstay,
        {"shop": SHOP, "gone": GONE, "crm": postgres(port), "notes": notes, "none": none},
        more="mcpServers: {wiki: {url: 'https://wiki.example.com/mcp'}, w2: {command: x, disabled: true}}\n",
    )
    rows = {row["name"]: row for row in mainstay.json("backend", "list")["backends"]}
    assert rows["shop"]["where"] == str(mainstay.home / "shop.db")
    assert (rows["shop"]["state"], rows["shop"]["open"]) == ("3 tables", True)
    assert rows["shop"]["named"] == ["shop__describe", "shop__query"]
    assert rows["gone"]["state"] == f"there is no file {mainstay.home}/gone.db"
    assert rows["crm"]["where"] == f"postgresql://127.0.0.1:{port}/crm"
    assert not rows["crm"]["open"]
    assert rows["notes"]["where"] == "the MCP server wiki"
    assert "mainstay backend test notes" in rows["notes"]["state"]
    assert rows["none"]["state"] == "the MCP server w2 is not there, or disabled"
    done = mainstay("backends", "list")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split() == ["NAME", "KIND", "WHERE", "ALLOWED", "STATE"]
    assert "describe, query" in done.stdout
    assert "hunter2secret" not in done.stdout + done.stderr


def test_list_opens_nothing_that_no_rule_names(mainstay: Command) -> None:
    give(mainstay, {"gone": GONE}, allow="shop__query")
    [row] = mainstay.json("backend", "list")["backends"]
    assert (row["named"], row["state"]) == ([], 'not opened: add "gone__*" to policy.allow')
    mainstay.configure("model: openai/x\n")
    assert "no backends are configured" in mainstay("backend", "list").stderr


def test_test_prints_what_the_model_sees(mainstay: Command) -> None:
    give(mainstay, {"shop": {**SHOP, "about": "The shop.", "scope": {"tables": ["orders", "zz*"]}}}, allow="read")
    done = mainstay("backend", "test", "shop")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ok: shop has 1 table, opened in ")
    assert "warn: scope.tables: zz* matches nothing" in done.stdout
    assert "## Data\n\n### shop (The shop.): SQLite\norders(id INTEGER, what TEXT)\n" in done.stdout
    assert 'add "shop__*" to policy.allow' in done.stdout
    told = mainstay.json("backend", "test", "shop")
    assert (told["ok"], told["has"], told["odd"]) == (True, "1 table", ["scope.tables: zz* matches nothing"])
    assert "orders(id INTEGER" in told["schema"]


@SANDBOXED
def test_an_mcp_server_is_started_by_test_and_by_nothing_else(mainstay: Command, tmp_path: Path) -> None:
    program = Server(tmp_path / "server").folder / "server.py"
    program.write_text("open(__file__ + '.started', 'w').close()\n" + program.read_text())
    entry = {"command": sys.executable, "args": [str(program)], "write": [str(program.parent)]}
    notes = {"kind": "mcp", "server": "it", "scope": {"operations": ["echo"]}}
    give(mainstay, {"notes": notes}, allow="notes__*", more=f"mcpServers: {json.dumps({'it': entry})}\n")
    for verb in (("doctor",), ("backend", "list")):
        assert "started at first use" in mainstay(*verb).stdout
    assert not program.with_name("server.py.started").exists()
    assert mainstay("backend", "test", "notes").stdout.startswith("ok: notes has 1 tool, ")
    assert program.with_name("server.py.started").exists()
    done = mainstay("backend", "query", "notes", "uri=mem://one")
    assert (done.returncode, "what it holds" in done.stdout) == (0, True), done.stderr


def test_test_says_in_one_sentence_why_not(mainstay: Command) -> None:
    give(mainstay, {"gone": GONE})
    refused(mainstay("backend", "test", "gone"), f"gone: there is no file {mainstay.home}/gone.db")
    refused(mainstay("backend", "test", "shop"), "there is no backend 'shop'; configured backends: gone")
    told = json.loads(mainstay("backend", "test", "gone", "--json").stdout)
    assert told["error"] == {"type": "BackendUnusable", "message": f"gone: there is no file {mainstay.home}/gone.db"}


def test_query_asks_through_the_tool_that_the_model_has(mainstay: Command) -> None:
    give(mainstay, {"shop": {**SHOP, "scope": {"tables": ["orders"]}}, "docs": DOCS}, allow="read")
    done = mainstay("backend", "query", "shop", "sql=SELECT what FROM orders WHERE id = 2")
    assert (done.returncode, done.stdout) == (0, "what\nmilk\n[1 row]\n")
    told = mainstay.json("backend", "query", "shop", "--input", '{"sql": "SELECT id FROM orders", "offset": 1}')
    assert told["content"].startswith("id\n2\n")
    assert "Tea is green" in mainstay("backend", "query", "docs", "text=2024").stdout, "a number can be text"
    assert "tea.md" in mainstay("backend", "query", "docs", "path=tea.md", "offset=1").stdout
    refused(mainstay("backend", "query", "shop", "sql=SELECT * FROM keys"), "There is no table keys in scope")
    refused(mainstay("backend", "query", "shop", "sql=DROP TABLE orders"), "not with DROP")
    assert mainstay("backend", "query", "shop", "sql=SELECT count(*) AS n FROM orders").stdout == "n\n2\n[1 row]\n"


def test_query_says_in_one_sentence_what_is_wrong_with_it(mainstay: Command) -> None:
    give(mainstay, {"shop": SHOP, "gone": GONE})
    refused(
        mainstay("backend", "query", "shop", "SELECT 1"), "'SELECT 1' is not a valid argument: write KEY=VALUE", code=2
    )
    refused(mainstay("backend", "query", "shop", "sql=x", "--input", "{}"), "not both", code=2)
    refused(mainstay("backend", "query", "shop", "sqll=SELECT 1"), "sqll")
    refused(mainstay("backend", "query", "gone", "sql=SELECT 1"), f"gone: there is no file {mainstay.home}/gone.db")
    refused(mainstay("backend"), "backend --help", code=2)
