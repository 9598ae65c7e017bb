"""The pages about the gateway: each command runs as written, against a real server with a model on loopback, and its
output is compared; each configuration is checked; each table is compared with the code."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from threading import Thread
from typing import get_args

import msgspec
import pytest
from support.cli_support import SOURCE
from support.example_model import ExampleModel, Messages, Said
from support.published_packages import node, npm_packages
from test_docs_plugins import Block, blocks, like, words

from mainstay.channels import COMPONENTS as CHANNEL_COMPONENTS
from mainstay.channels.webhook.messages import WebhookIncomingMessage, WebhookOutgoingMessage
from mainstay.config.loader import load_config
from mainstay.config.schema_gateway import PersonEntry, ServerSettings
from mainstay.core.channel_settings import find_channel_component
from mainstay.core.channels import ChannelCapabilities
from mainstay.core.events import DurableEvent, PartialEvent
from mainstay.core.people import ROLE_SCOPES, AccessScope
from mainstay.gateway.channel_factory import build_channel
from mainstay.gateway.slash_commands import COMMAND_NAMES as COMMANDS
from mainstay.operations.operation_entry import OperationEntry
from mainstay.operations.table import entries_for
from mainstay.server import quota_problem
from mainstay.server.http_operations import OperationCodec
from mainstay.server.openai.routes import create_openai_routes
from mainstay.server.problems import Problem

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SERVE, HTTP, GRPC, PEOPLE, CHANNELS = (
    DOCS / "how-to" / f"{name}.md" for name in ("serve", "http-api", "grpc", "people", "channels")
)
GATEWAY, REFERENCE = DOCS / "concepts" / "gateway.md", DOCS / "reference" / "http.md"
PAGES = (SERVE, HTTP, GRPC, PEOPLE, CHANNELS, GATEWAY, REFERENCE)
PATIENCE_S = 120.0
PORTS = ("7460", "7461", "8765")  # as the pages have them
LAST = "programs on this machine"  # of what a server says at its start
CODE = re.compile(r"\b[0-9A-Z]{4}-[0-9A-Z]{4}\b")
SHOWN_CODE = "K7QM-4XPA"
COMMENTS = {"py": "# ", "js": "// "}


# --- runs the commands of a page ------------------------------------------------------------------


def free_port() -> str:
    """One that no client is given by chance meanwhile: those have higher numbers."""
    while True:
        with socket.socket() as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                made.bind(("127.0.0.1", random.randint(15_000, 32_000)))
            except OSError:
                continue
            return str(made.getsockname()[1])


class Server:
    """`mainstay serve`, in another terminal."""

    def __init__(self, script: str, env: dict[str, str], folder: Path) -> None:
        argv = ["sh", "-c", f"exec {script}"]
        self._process = subprocess.Popen(argv, env=env, cwd=folder, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        self.says(LAST)

    def says(self, what: str) -> None:
        """Now, or in a moment."""
        end = time.monotonic() + PATIENCE_S
        while not any(what in line for line in self.said):
            late = time.monotonic() > end or not self._reader.is_alive()
            assert not late, "\n".join(self.said)
            time.sleep(0.02)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said.append(line.rstrip())

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            assert self._process.wait(PATIENCE_S) == 0, "\n".join(self.said)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join(PATIENCE_S)
            assert self._process.stderr is not None
            self._process.stderr.close()


class Doer:
    """With an empty home, and ports of their own."""

    def __init__(self, folder: Path, model: ExampleModel) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        (self.folder / "proto").symlink_to(ROOT / "proto")
        self._ports = {shown: free_port() for shown in PORTS}
        self._code = SHOWN_CODE
        self._servers: list[Server] = []
        self.left_out: list[str] = []
        bin = folder / "bin"
        bin.mkdir()
        (bin / "mainstay").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mainstay "$@"\n')
        (bin / "mainstay").chmod(0o755)
        self.env = {
            "HOME": str(folder),
            "PATH": os.pathsep.join((str(bin), os.path.dirname(sys.executable), os.environ.get("PATH", ""))),
            "PYTHONPATH": str(SOURCE),
            "PYTHONUNBUFFERED": "1",  # in the order in which a terminal shows it
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "DESK_SECRET": "a secret that nobody guesses",
            "MAINSTAY__SERVER__PORT": self._ports["7460"],
            **model.environment(),
        }

    def does(self, page: Path) -> int:
        """How many commands there were."""
        count, printed, found = 0, "", blocks(page)
        for block, after in zip_longest(found, found[1:]):
            where, text = f"{page.name}, line {block.line}", self._mine(block.text)
            match block.kind:
                case "sh" if text.startswith("# not run"):
                    printed = ""
                case "sh" if text.startswith("mainstay serve"):
                    self._servers.append(Server(text, self.env, self.folder))
                    printed = self._shown(list(self._servers[-1].said))
                case "sh" if text.startswith("node ") and not self._has_node():
                    printed = "…"
                case "sh":
                    fails = after is not None and after.kind == "text" and "\nmainstay: " in after.text
                    printed = self._run(text, where, fails=fails)
                    count += 1
                    if "kill -HUP" in text:
                        self._servers[-1].says("the configuration was reloaded")
                case "text" if printed != "…":
                    assert like(_plain(block.text)).fullmatch(_plain(printed)), f"{where}: it is\n{printed}"
                case "py" | "js":
                    self._write(block, text)
        return count

    def _mine(self, text: str) -> str:
        for shown, port in self._ports.items():
            text = text.replace(shown, port)
        return text.replace(SHOWN_CODE, self._code)

    def _shown(self, lines: list[str]) -> str:
        """As on the page; what only takes its time, and the log, are not on it."""
        text = "\n".join(line.rstrip() for line in lines if not re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ ", line))
        for shown, port in self._ports.items():
            text = text.replace(port, shown)
        return text

    def _write(self, block: Block, text: str) -> None:
        first, _, _ = text.partition("\n")
        mark = COMMENTS[block.kind]
        assert first.startswith(mark), "its first line says what it is to be called"
        (self.folder / first.removeprefix(mark)).write_text(text)

    def _run(self, script: str, where: str, *, fails: bool) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", script],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        lines = done.stdout.strip("\n").split("\n")
        assert done.returncode == int(fails), f"{where}: {done.stdout}"
        if found := CODE.search(done.stdout):
            self._code = found[0]
        return self._shown(lines)

    def _has_node(self) -> bool:
        try:
            packages = npm_packages("openai-node", "openai@7.53.0")
        except pytest.skip.Exception as reason:
            self.left_out.append(str(reason))
            return False
        (self.folder / "node_modules").symlink_to(packages / "node_modules")
        self.env["PATH"] = os.pathsep.join((str(node().parent), self.env["PATH"]))
        return True

    def close(self) -> None:
        for server in self._servers:
            server.close()


def _plain(text: str) -> str:
    return CODE.sub("CODE", text)


def say(messages: Messages) -> Said:
    """Does what the pages ask."""
    last = messages[-1]["content"] or ""
    if messages[-1]["role"] == "tool":
        return "It snows." if "snow" in last else "Then not."
    asked = [one["content"] or "" for one in messages if one["role"] == "user"]
    said = next(text for text in reversed(asked) if not text.startswith("[note"))
    if "What is my name?" in said:
        return "Ada." if any("Ada" in one for one in asked) else "I do not know."
    if "Write that down." in said:
        return [("write", {"path": "note.txt", "content": "that"})]
    if "weather" in said:
        return [("weather", {"city": "Oslo"})]
    if "long" in said:
        return "and then " * 500
    return "Good morning!" if "Good morning!" in said else "Very well."


@pytest.fixture
def doer(tmp_path: Path) -> Iterator[Doer]:
    model = ExampleModel(say, pause_s=0.01)
    made = Doer(tmp_path, model)
    try:
        yield made
        made.close()
    finally:
        model.close()


@pytest.mark.parametrize(
    ("page", "least"),
    [(SERVE, 5), (HTTP, 13), (GRPC, 2), (PEOPLE, 5), (CHANNELS, 4)],
    ids=["serve", "http-api", "grpc", "people", "channels"],
)
def test_every_command_of_the_page_does_what_the_page_says(page: Path, least: int, doer: Doer) -> None:
    assert doer.does(page) + len(doer.left_out) >= least
    for reason in doer.left_out:
        print(f"left out: {reason}")


# --- configurations and messages -----------------------------------------------------------------

CONFIGURED = [
    pytest.param(block.text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(block for block in blocks(page) if block.kind == "yaml")
]


@pytest.mark.parametrize("text", CONFIGURED)
def test_every_configuration_that_a_page_shows_is_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "mainstay.yaml").write_text(text)
    (tmp_path / "mainstay.yaml").chmod(0o600)
    env = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "a-secret-of-some-length")
    loaded = load_config(tmp_path, env=env)
    for workspace in loaded.config.workspaces:
        loaded.for_workspace(workspace)


@pytest.mark.parametrize(
    ("page", "struct"),
    [
        (SERVE, ServerSettings),
        (PEOPLE, PersonEntry),
        *((CHANNELS, find_channel_component(kind).settings) for kind in CHANNEL_COMPONENTS),
    ],
    ids=["server", "people", *CHANNEL_COMPONENTS],
)
def test_the_pages_name_everything_that_can_be_configured(page: Path, struct: type[msgspec.Struct]) -> None:
    assert set(struct.__struct_fields__) - words(page) - {"password", "base_url"} == set()


def test_the_messages_of_a_webhook_channel_are_those_that_it_takes_and_posts() -> None:
    taken, posted = (json.loads(block.text) for block in blocks(CHANNELS) if block.kind == "json")
    assert msgspec.convert(taken, WebhookIncomingMessage)
    assert set(taken) == set(WebhookIncomingMessage.__struct_fields__)
    assert set(posted) == set(WebhookOutgoingMessage.__struct_fields__)


# --- tables --------------------------------------------------------------------------------------


def rows(page: Path, heading: str) -> list[list[str]]:
    """The cells of the tables below a heading, up to the next."""
    below = page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"^\|[-|]+\|\n((?:\|.*\n)+)", below, re.MULTILINE)
    assert tables, heading
    return [[cell.strip() for cell in line[1:-1].split("|")] for table in tables for line in table.splitlines()]


def quoted(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def row_of(entry: OperationEntry) -> str:
    codec = OperationCodec(entry)
    takes = ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(codec.rest_type))
    route = f"`{codec.route.method} {codec.route.path}`"
    return f"| {route} | {entry.summary} | {takes} | `{entry.access}` | {codec.route.status} |"


def test_every_route_is_on_the_page_with_what_it_takes_and_nothing_else() -> None:
    there = re.findall(r"^\| `[A-Z]+ /api/.*$", REFERENCE.read_text(), re.MULTILINE)
    assert sorted(there) == sorted(map(row_of, entries_for("http")))


def test_every_route_of_the_openai_api_is_on_the_page() -> None:
    methods = [(route.path, method) for route in create_openai_routes() for method in route.methods or ()]
    made = {f"{method} {path.replace(':path', '')}" for path, method in methods if method != "HEAD"}
    assert {name for row in rows(REFERENCE, "OpenAI's API") for name in quoted(row[:1])} == made


def test_every_event_is_on_the_page_on_its_side() -> None:
    told = [name for row in rows(REFERENCE, "Events") for name in quoted(row[:1])]
    assert sorted(told) == sorted(one.__name__ for one in (*get_args(DurableEvent), *get_args(PartialEvent)))
    assert told[-len(get_args(PartialEvent)) :] == [one.__name__ for one in get_args(PartialEvent)]


def test_every_error_over_http_is_on_the_page() -> None:
    """As the sources have them; gRPC has a page of its own."""
    sources = [path.read_text() for path in (SOURCE / "mainstay" / "server").glob("*.py")]
    made = {found for source in sources for found in re.findall(rf'{Problem.__name__}\(\s*(\d+),\s*"(\w+)"', source)}
    made.add((str(quota_problem.QUOTA_STATUS), quota_problem.QUOTA_PROBLEM))
    told = {
        (status, kind)
        for row in rows(REFERENCE, "Errors")
        for status in row[0].split(", ")
        for kind in quoted(row[1:2])
    }
    assert made - told == set()
    assert {kind for _, kind in told} == {kind for _, kind in made}


def test_every_role_scope_and_command_is_on_its_page() -> None:
    assert quoted([row[0] for row in rows(PEOPLE, "People and roles")]) == list(ROLE_SCOPES)
    assert quoted([row[0] for row in rows(PEOPLE, "Keys")]) == list(get_args(AccessScope))
    said = quoted([row[0] for row in rows(CHANNELS, "Chat commands")])
    assert {one.split()[0].removeprefix("/") for one in said} == set(COMMANDS)


ONCE = {"key": "once: by key", "look": "once: looked for", "none": "at most once"}
MADE: dict[str, dict[str, str]] = {
    "slack": {"token": "xoxb-1", "app_token": "xapp-1"},
    "telegram": {"token": "123:abcdefghijklmno"},
    "discord": {"token": "a"},
    "matrix": {"homeserver": "https://matrix.example", "user": "@a:matrix.example", "token": "a"},
    "signal": {"address": "127.0.0.1:7583", "user": "+15550100100"},
    "webhook": {"url": "https://chat.example/", "secret": "a secret that nobody guesses"},
    "terminal": {},
}


@pytest.mark.parametrize("kind", CHANNEL_COMPONENTS)
def test_the_documented_capabilities_of_each_platform_are_correct(kind: str, tmp_path: Path) -> None:
    [row] = [row for row in rows(CHANNELS, "What each platform supports") if row[0] == f"`{kind}`"]
    settings = find_channel_component(kind).settings(**MADE[kind])
    assert row[1:] == _shown(build_channel(kind, settings, tmp_path, lambda channel, user: False).capabilities)
    assert re.search(rf"^## {kind}$", CHANNELS.read_text(), re.MULTILINE | re.IGNORECASE), "it has a section"


def _shown(shows: ChannelCapabilities) -> list[str]:
    can = (shows.edits, shows.files, shows.typing, shows.threads, shows.history, shows.search)
    return [shows.markup, f"{shows.length_max:,}", *("yes" if one else "no" for one in can), ONCE[shows.idempotency]]


# --- links ---------------------------------------------------------------------------------------


def headings(page: Path) -> set[str]:
    found = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_headings_that_are_there(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text()):
        if "://" not in target:
            there = (page.parent / target).resolve() if target else page
            assert anchor in headings(there), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_pages_that_are_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"
