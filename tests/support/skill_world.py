"""Skills on a disk, for tests: folders with a SKILL.md in the scopes of a home."""

from __future__ import annotations

from pathlib import Path

from mainstay.core.ports import ToolContext
from mainstay.skills.lock_file import SkillLockEntry, compute_digest, read_lock, write_lock
from mainstay.skills.registry import SkillRegistry, SkillScope


def write_skill(
    folder: Path, *, description: str = "Does it.", header: str = "", body: str = "# How\n\nDo it.\n", name: str = ""
) -> Path:
    """`header` are further lines of it."""
    folder.mkdir(parents=True, exist_ok=True)
    more = header if header.endswith("\n") or not header else f"{header}\n"
    named = f"name: {name or folder.name}\ndescription: {description}\n{more}"
    (folder / "SKILL.md").write_text(f"---\n{named}---\n\n{body}", newline="")
    return folder


def pin(folder: Path, *, trusted: bool = False, source: str = "https://example.com/s.zip", digest: str = "") -> None:
    """As `mainstay skill install` leaves it."""
    known = read_lock(folder.parent)
    known[folder.name] = SkillLockEntry(
        name=folder.name, digest=digest or compute_digest(folder), source=source, trusted=trusted
    )
    write_lock(folder.parent, known)


class World:
    """A home with the scopes that sessions have: home, workspace and, for `chat:ROOM:…`, the room."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.workspace = root / "home" / "workspaces" / "main"
        self.workspace.mkdir(parents=True)
        self.labels: dict[str, str] = {}

    @property
    def skills(self) -> Path:
        return self.home / "skills"

    def scopes(self, session: str) -> list[SkillScope]:
        found = [
            SkillScope("home", str(self.home / "skills"), str(self.home)),
            SkillScope("workspace", str(self.workspace / "skills"), str(self.workspace)),
        ]
        room = session.split(":")[1:2]
        if room:
            found.append(SkillScope(f"room {room[0]}", str(self.workspace / room[0] / "skills"), str(self.workspace)))
        return found

    def shelf(self, *trusted: str, again_s: float = 0.0) -> SkillRegistry:
        return SkillRegistry(
            self.scopes,
            workspace="main",
            trusted=trusted,
            file_origin=lambda path: self.labels.get(path, ""),
            refresh_s=again_s,
        )


def names(shelf: SkillRegistry, session: str = "s") -> list[str]:
    return [found.skill.name for found in shelf.skills(session)]


def context(session: str = "s") -> ToolContext:
    """To be made inside of a loop."""
    return ToolContext(session, 1, 1, "call", lambda event: None)
