"""Tries a command in a workspace as a session with content from outside would: what is asked before, what after it ran.

The command really runs, on a copy. What it wrote is then brought into the workspace, and what it removed is held back,
as the sandbox does.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mainstay.core.file_fingerprints import compute_fingerprint
from mainstay.core.held_changes import HeldChange
from mainstay.core.messages import Message, Text
from mainstay.core.tool_ports import FileOriginLabel, SessionFolders
from mainstay.tools.base import SessionFileAccess
from mainstay.tools.requested_removals import find_requested_removals
from mainstay.trust.named_destinations import is_removal_requested
from mainstay.trust.policy import Policy, PolicyContext
from mainstay.trust.rules import PolicyRules
from support.policy_world import BASH, BOXED
from support.tool_world import KnownFiles, calling

SESSION = "s"
_IDENTITY = {
    name: "Ann" if name.endswith("NAME") else "ann@example.org"
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
}


class TrialResult(msgspec.Struct, frozen=True):
    """`why`: the question before the command; empty: it ran. `held`: what is asked about after it, relative paths."""

    why: str
    held: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_asked(self) -> bool:
        return bool(self.why or self.held)


class RemovalTrial:
    """One conversation in a workspace. `own` are files that its session created."""

    def __init__(self, root: Path, *, says: str, earlier: Sequence[str] = (), answer: str = "") -> None:
        self.root = root
        self._says = says
        self._earlier = list(earlier)
        self._labels = KnownFiles()
        self._messages = [
            *(Message(1, "user", (Text(text),), turn=1) for text in self._earlier),
            *((Message(2, "assistant", (Text(answer),), turn=1),) if answer else ()),
            Message(3, "user", (Text(says),), turn=2),
        ]

    def run(self, command: str) -> TrialResult:
        verdict = self._decide(command)
        if verdict.decision != "allow":
            return TrialResult(verdict.reason)
        after = self.root.with_name(f"{self.root.name}.after")
        subprocess.run(["cp", "-a", self.root, after], check=True)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.root.parent), **_IDENTITY}
        subprocess.run(["bash", "-c", command], cwd=after, env=environment, check=True, capture_output=True)
        removed = self._merge(after)
        shutil.rmtree(after)
        exempt = [str(self.root / path) for path in verdict.removable_paths]
        held = [
            change
            for change in removed
            if not any(change.path == path or change.path.startswith(f"{path}/") for path in exempt)
            and not self._is_own(change.path)
        ]
        requested, keepers = find_requested_removals(self._access(), self._context(), held, command)
        for path in keepers & self._labels.known.keys():
            self._labels.known[path] = msgspec.structs.replace(self._labels.known[path], session="")
        left = [change.path for change in held if change not in requested]
        for change in removed:
            if change.path not in left:
                os.unlink(change.path)
        return TrialResult(
            "",
            tuple(path.removeprefix(f"{self.root}/") for path in left),
            tuple(change.path.removeprefix(f"{self.root}/") for change in removed if change.path not in left),
        )

    def _is_own(self, path: str) -> bool:
        label = self._labels.get(path)
        return label is not None and label.session == SESSION

    def _decide(self, command: str):  # type: ignore[no-untyped-def]
        policy_context = PolicyContext(
            tainted=True,
            read_user_texts=lambda: [*self._earlier, self._says],
            read_request_texts=lambda: [self._says],
            read_messages=lambda: self._messages,
            cwd=str(self.root),
            is_own_file=self._is_own,
        )
        policy = Policy(PolicyRules(), confinement=BOXED)
        return policy.decide(BASH, {"command": command}, calling(), policy_context)

    def _merge(self, after: Path) -> list[HeldChange]:
        """Bring what the command wrote into the workspace; return its removals."""
        for path in sorted(after.rglob("*")):
            target = self.root / path.relative_to(after)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            elif not target.exists() or not filecmp.cmp(path, target, shallow=False):
                session = "" if target.exists() else SESSION
                self._labels.known[str(target)] = FileOriginLabel(str(target), "untrusted:conversation", session)
                shutil.copy2(path, target)
        return [
            HeldChange(path=str(path), kind="remove", before=compute_fingerprint(path.stat()))
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not (after / path.relative_to(self.root)).exists() and ".git" not in path.parts
        ]

    def _access(self) -> SessionFileAccess:
        folders = SessionFolders(cwd=str(self.root), writable=(str(self.root),))
        return SessionFileAccess(lambda session: folders, self._labels)

    def _context(self):  # type: ignore[no-untyped-def]
        context = calling(SESSION)
        context.tainted = True
        context.messages = self._messages
        context.read_turn_texts = lambda: [self._says]
        context.read_user_texts = lambda: [*self._earlier, self._says]
        context.is_removal_requested = lambda path: any(
            is_removal_requested(str(one), [self._says], str(self.root))
            for one in (Path(path), *Path(path).parents)
            if one.is_relative_to(self.root) and one != self.root
        )
        return context
