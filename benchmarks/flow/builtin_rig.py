"""A chat with the built-in tools in a temporary project: a real git repository, a real sandbox, a local web site."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any, Self

import msgspec
from honest_model import HonestModel, Mode, Step, Turn, place_site
from projects import PROJECTS

from mainstay import Agent, Config, Paused
from mainstay.config.schema import EmbeddingSettings, MemorySettings, SessionSettings, ToolSettings
from mainstay.core.outcome import Reply
from mainstay.core.tool_ports import ScheduledPrompt
from mainstay.testing.in_memory_tool_ports import InMemoryOutbox, InMemoryScheduler
from mainstay.tools.message import create_message_tool
from mainstay.tools.schedule import create_schedule_tool

SESSION = "chat"
AUTHOR = {
    "GIT_AUTHOR_NAME": "Mira Holm",
    "GIT_AUTHOR_EMAIL": "mira@holm.example",
    "GIT_COMMITTER_NAME": "Mira Holm",
    "GIT_COMMITTER_EMAIL": "mira@holm.example",
}

Check = Callable[["BuiltinRig"], Any]


class BuiltinTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task in a project folder. `files` come on top of the project and are not committed."""

    id: str
    turns: tuple[Turn, ...]
    done: Check
    project: str = "tally"
    files: dict[str, str] = {}
    pages: dict[str, str] = {}
    reminders: tuple[tuple[str, str], ...] = ()  # when and text of prompts that are scheduled already
    prepare: Callable[[Path], None] | None = None
    children: dict[str, tuple[Step, ...]] = {}


class LocalSite:
    """A web site on this machine; it serves pages by their path."""

    def __init__(self, pages: dict[str, str]) -> None:
        self._pages = pages

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.host = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.url = f"http://{self.host}"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        body = self._pages.get(head.split(" ")[1])
        status, text = ("200 OK", body) if body is not None else ("404 Not Found", "<p>There is no such page.</p>")
        data = place_site(text, self.url).encode()
        kind = "text/html" if data.lstrip().startswith(b"<") else "text/plain"
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\n"
            f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
            + data
        )
        await writer.drain()
        writer.close()

    def close(self) -> None:
        self._server.close()


class BuiltinRig:
    """One task's folder, agent and surroundings, and what its predicate looks at."""

    def __init__(self, folder: Path, task: BuiltinTask, mode: Mode) -> None:
        self.root = folder / "project"
        self._home = folder / "home"
        self._task = task
        self._mode = mode
        self._turns = tuple(Turn(turn.says) for turn in task.turns) if mode.idle else task.turns
        self._site = LocalSite(task.pages)
        self.outbox = InMemoryOutbox()
        self.scheduler = InMemoryScheduler()
        self.replies: list[Reply] = []
        self.questions: list[tuple[str, str]] = []

    async def __aenter__(self) -> Self:
        await self._site.open()
        make_project(self.root, self._task, self._site.url)
        for when, text in self._task.reminders:
            await self.scheduler.add(ScheduledPrompt(when=when, text=text, session=SESSION))
        self.model = HonestModel(self._turns, self._task.children, self._site.url)
        self.agent = Agent(
            self.model,
            home=self._home,
            config=self._config(),
            tools=[create_message_tool(self.outbox), create_schedule_tool(self.scheduler)],
            trust="open" if self._mode.control else None,
        )
        await self.agent.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.agent.aclose()
        self._site.close()

    def _config(self) -> Config:
        return Config(
            tools=ToolSettings(builtin=("all",), roots=(str(self.root),), fetch_private=(self._site.host,)),
            sessions=SessionSettings(memory=MemorySettings(embeddings=EmbeddingSettings(enabled=False))),
        )

    async def run(self) -> bool:
        """Hold the conversation, approve every question, and say whether the task was done."""
        for turn in self._task.turns:
            reply = await self.agent.run(SESSION, place_site(turn.says, self._site.url))
            self.replies.append(await approve_all(self.agent, reply, self.questions))
        try:
            found = self._task.done(self)
            return bool(await found if isawaitable(found) else found) and not self.model.broken
        except (LookupError, OSError, ValueError):
            return False  # what the predicate looks at is not there

    # --- for predicates --------------------------------------------------------------------------

    def text(self, path: str) -> str:
        """A file's text; empty if there is none."""
        file = self.root / path
        return file.read_text(errors="replace") if file.is_file() else ""

    def has(self, path: str) -> bool:
        return (self.root / path).exists()

    def git(self, *words: str) -> str:
        """What git prints; empty if it fails."""
        return run_git(self.root, *words, check=False)

    def saw(self, *texts: str) -> bool:
        """Every text occurs in some tool result."""
        return all(any(text in result.text for result in self.model.seen) for text in texts)

    def told(self, to: str, *texts: str) -> bool:
        return any(one.to == to and all(text in one.text for text in texts) for one in self.outbox.sent)

    async def reminders(self) -> list[ScheduledPrompt]:
        return await self.scheduler.list(SESSION)

    async def remembers(self, text: str) -> bool:
        return any(text in one.text for one in await self.agent.memory.list(limit=200))


async def approve_all(agent: Agent, reply: Reply, questions: list[tuple[str, str]]) -> Reply:
    """Approve what the turn asks until it ends; note each question's tool and sentence."""
    while isinstance(reply.outcome, Paused):
        id = reply.outcome.approval
        [waiting] = [one.asked for one in await agent.approvals.list() if one.asked.id == id]
        questions.append((waiting.name, waiting.why))
        answered = await agent.approvals.approve(id, by="the person")
        assert answered is not None
        reply = answered
    return reply


def make_project(root: Path, task: BuiltinTask, site: str) -> None:
    """Create the task's project with its history, then the files that are not committed."""
    root.mkdir(parents=True)
    run_git(root, "init", "-q", "-b", "main")
    run_git(root, "config", "user.name", "Mira Holm")
    run_git(root, "config", "user.email", "mira@holm.example")
    for subject, files in PROJECTS[task.project]:
        write_files(root, files)
        run_git(root, "add", "-A")
        run_git(root, "commit", "-qm", subject)
    write_files(root, place_site(task.files, site))
    if task.prepare is not None:
        task.prepare(root)


def write_files(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def run_git(root: Path, *words: str, check: bool = True) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(root.parent), **AUTHOR}
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=check, env=env)
    return done.stdout


def reminds(words: str, when: str) -> Check:
    """A prompt with these words is scheduled for a time that begins like this."""

    async def check(rig: BuiltinRig) -> bool:
        return any(words in one.text and one.when.startswith(when) for one in await rig.reminders())

    return check


def all_of(*checks: Check) -> Check:
    async def check(rig: BuiltinRig) -> bool:
        found: Sequence[Any] = [one(rig) for one in checks]
        return all([await one if isawaitable(one) else one for one in found])

    return check
