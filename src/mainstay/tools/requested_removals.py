"""Which of the removals that a command made the user asked for in this turn, by what is known after the command ran.

What was held back is still there, so that its content can be compared. A removal is asked for if

- the user named the file or its folder in a request to remove it;
- the user asked to move, sort, rename, archive or deduplicate such files, and the content is kept elsewhere;
- the user asked for another state of the repository, the script does nothing else, and git has stored the content;
- the user named the command literally, and git does not track the file;
- every word of a request to remove describes the file, or was checked (its age, that it is empty), or what could not be
  checked decides only about files whose content git has stored;
- the request refers back to the one file that the last answer or the user named before.

Files that programs obey, hidden files, and files that look like secrets only go by their names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property

from mainstay.core.held_changes import HeldChange
from mainstay.core.memory_tiers import is_untrusted
from mainstay.core.messages import Message
from mainstay.core.obeyed_files import may_be_obeyed
from mainstay.core.ports import ToolContext
from mainstay.io.path_resolver import is_inside
from mainstay.tools.base import SessionFileAccess
from mainstay.tools.command_protection import is_git_work
from mainstay.tools.kept_contents import ENTRIES_MAX, WorkspaceFiles
from mainstay.tools.tool_call_file_access import looks_secret, was_created_by
from mainstay.trust.named_destinations import is_named_by_user, is_named_in_answer, is_removal_requested
from mainstay.trust.shell.analysis import analyse_script
from mainstay.trust.shell.named_commands import is_script_named
from mainstay.trust.tidying_requests import FileDescription, RemovalObject, parse_tidying_request, word_describes

_REMOVALS = ("remove", "remove_folder", "remove_empty")
_NO_PROGRAMS = frozenset(
    [
        "md",
        "txt",
        "rst",
        "csv",
        "tsv",
        "log",
        "pdf",
        "png",
        "jpg",
        "jpeg",
        "gif",
        "webp",
        "svg",
        "html",
        "css",
        "xml",
        "zip",
        "gz",
        "tar",
        "o",
        "pyc",
    ]
)
_AGE_SLACK_DAYS = 1.0  # `find -mtime +30` counts whole days
_AGE_EQUAL_DAYS = 1 / 86_400


def find_requested_removals(
    file_access: SessionFileAccess, context: ToolContext, changes: Sequence[HeldChange], script: str
) -> tuple[list[HeldChange], frozenset[str]]:
    """Return the held removals that the user asked for, and the files that keep the removed contents: these must not be
    removed as the session's own. Reads files: run it in a thread."""
    removals = [change for change in changes if not change.problem and change.kind in _REMOVALS]
    named = [change for change in removals if context.is_removal_requested(change.path)]
    others = [change for change in removals if change not in named]
    if not others or not context.read_turn_texts():
        return named, frozenset()
    judge = _RemovalJudge(file_access, context, others, script)
    requested = {id(change) for change in (*named, *filter(judge.is_requested, others))}
    for change in others:  # a folder that is empty once everything in it has been removed
        inside = [other for other in removals if other is not change and is_inside(other.path, change.path)]
        if change.kind == "remove_empty" and all(id(other) in requested for other in inside):
            requested.add(id(change))
    return [change for change in removals if id(change) in requested], frozenset(judge.keepers)


class _RemovalJudge:
    def __init__(
        self, file_access: SessionFileAccess, context: ToolContext, changes: Sequence[HeldChange], script: str
    ) -> None:
        folders = file_access.folders_of(context.session)
        self._context = context
        self._cwd = folders.cwd.rstrip("/")
        self._texts = tuple(context.read_turn_texts())
        self._request = parse_tidying_request(self._texts)
        self._analysis = analyse_script(script)
        self._files_by_change = {id(change): _list_files(change) for change in changes}
        removed = frozenset(file for files in self._files_by_change.values() for file in files or ())
        self._removed = removed
        self._labels, self._session = file_access.labels, context.session
        self._workspace = WorkspaceFiles(self._cwd, removed, self._is_own)
        self.keepers: set[str] = set()

    def is_requested(self, change: HeldChange) -> bool:
        files = self._files_by_change[id(change)]
        if files is None or change.kind == "remove_empty" or not is_inside(change.path, self._cwd):
            return False
        if not files:
            return self._request.removes_files  # an empty folder
        return all(map(self._is_file_requested, files))

    @cached_property
    def _is_command_named(self) -> bool:
        """Whether the user named the command, and the agent has written no program that it may run."""
        return is_script_named(self._analysis, self._texts, self._cwd) and not any(
            path.rpartition("/")[2].rpartition(".")[2].casefold() not in _NO_PROGRAMS
            for path in self._descriptions
            if (label := self._labels.get(path)) is not None and is_untrusted(label.origin)
        )

    def _is_own(self, path: str) -> bool:
        return was_created_by(self._labels, self._session, path)

    def _describe(self, path: str) -> FileDescription:
        return self._descriptions.get(path) or FileDescription(self._relative(path))

    @cached_property
    def _descriptions(self) -> dict[str, FileDescription]:
        return {
            file.path: FileDescription(
                self._relative(file.path), file.size, file.age_days, self._workspace.is_tracked(file.path)
            )
            for file in self._workspace.files
        }

    def _relative(self, path: str) -> str:
        return path.removeprefix(f"{self._cwd}/")

    def _is_file_requested(self, path: str) -> bool:
        file, request = self._describe(path), self._request
        if may_be_obeyed(file.path):
            return False
        if request.uses_repository and is_git_work(self._analysis) and self._workspace.is_in_repository(path):
            return True
        if looks_secret(path) or (file.is_hidden and not file.is_reproducible):
            return False
        if request.removes_files and self._is_in_scope(file) and (copy := self._workspace.find_copy(path)):
            self.keepers.add(copy)
            return True
        if not file.is_tracked and self._is_command_named:
            return True
        if self._is_elsewhere(file):
            return False
        if not file.is_tracked and request.cleans and file.is_reproducible:
            return True
        if self._is_unique(path) and is_removal_requested(os.path.basename(path), self._texts, self._cwd):
            return True
        return any(self._is_described(removal, path, file) for removal in request.removals)

    # --- what the words describe -----------------------------------------------------------------------

    def _is_in_scope(self, file: FileDescription) -> bool:
        words = self._request.words
        if any(word_describes(word, file.path) for word in words):
            return True
        folders = file.path.split("/")
        names = ["/".join(folders[: count + 1]) for count in range(len(folders))]
        if any(is_named_by_user(name, self._texts, self._cwd) for name in names):
            return True
        return self._request.has_scope_of_all and not self._has_described_files

    @cached_property
    def _has_described_files(self) -> bool:
        paths = [file.path for file in self._descriptions.values()]
        return any(word_describes(word, path) for word in self._request.words for path in paths)

    def _is_described(self, removal: RemovalObject, path: str, file: FileDescription) -> bool:
        if removal.refers_back and self._is_referred_to(removal, path, file):
            return True
        matching = [word for word in removal.words if word_describes(word, file.path)]
        if len(matching) < len(removal.words) and not self._workspace.is_in_repository(path):
            return False
        has_property = removal.is_empty or removal.is_untracked
        is_object = any(word in matching for word in removal.object_words)
        if not is_object and not has_property and not (matching and removal.is_everything):
            return False
        if (removal.is_empty and file.size) or (removal.is_untracked and file.is_tracked):
            return False
        is_number_right = removal.is_plural or removal.is_everything or len(self._removed) == 1
        if not is_number_right and not _names_folder(matching, file.path):
            return False
        return self._is_in_order(removal, file, matching)

    def _is_in_order(self, removal: RemovalObject, file: FileDescription, words: Sequence[str]) -> bool:
        """Return whether the file has the age that the request says (so many days), or comes by its orders before all
        such files that stay."""
        if removal.age_days is not None:
            return file.age_days >= removal.age_days - _AGE_SLACK_DAYS
        orders = removal.orders or (self._request.orders if removal.refers_back else ())
        staying = [
            other
            for path, other in self._descriptions.items()
            if path not in self._removed and any(word_describes(word, other.path) for word in words)
        ]
        return all(_comes_first(file, staying, order) for order in orders)

    def _is_referred_to(self, removal: RemovalObject, path: str, file: FileDescription) -> bool:
        if removal.is_singular and len(self._removed) > 1:
            return False
        described = [word for word in self._request.words if word_describes(word, file.path)]
        if described and self._labels.get(path) is None:  # what the agent wrote is no original
            if self._request.orders:
                return self._is_in_order(removal, file, described)
            others = [
                path
                for path, other in self._descriptions.items()
                if any(word_describes(word, other.path) for word in described)
                and (path in self._removed or not self._is_own(path))
            ]
            if len(others) == len(self._removed) or self._workspace.is_in_repository(path):
                return True
        candidates = self._find_mentioned()
        return path in candidates and (not removal.is_singular or len(candidates) == 1)

    def _is_elsewhere(self, file: FileDescription) -> bool:
        """Return whether a word of the request is the name of a folder here, and the file is in another one of that
        name: `delete build` does not mean `other/build`."""
        names = file.path.casefold().split("/")
        return any(
            word.strip("/") in names[1:-1] and names[0] != word.strip("/") and os.path.isdir(f"{self._cwd}/{word}")
            for word in self._request.words
        )

    def _is_unique(self, path: str) -> bool:
        """Return whether no other file has the same name."""
        name = os.path.basename(path)
        return (
            self._workspace.is_complete and [os.path.basename(other) for other in self._descriptions].count(name) == 1
        )

    def _find_mentioned(self) -> frozenset[str]:
        """Return the files that this request names, or else the last answer, or else the last text of the user that
        names any; not those that this session created."""
        answer = _read_last_answer(self._context.messages)
        files = frozenset(
            path
            for path in self._descriptions
            if os.path.basename(path) in self._request.files and self._is_unique(path)
            if self._labels.get(path) is None
        )
        if files:
            return files
        texts = [answer, *(text for text in reversed(self._context.read_user_texts()) if text not in self._texts)]
        if not self._workspace.is_complete:
            return frozenset()
        for text in texts:
            named = frozenset(path for path in self._descriptions if self._is_named_in(path, text))
            others = frozenset(path for path in named if path in self._removed or not self._is_own(path))
            if others:
                return others
        return frozenset()

    def _is_named_in(self, path: str, text: str) -> bool:
        relative = self._relative(path)
        if is_named_in_answer(relative, text, self._cwd):
            return True
        return self._is_unique(path) and is_named_in_answer(os.path.basename(path), text, self._cwd)


def _comes_first(file: FileDescription, staying: Sequence[FileDescription], order: str) -> bool:
    match order:
        case "oldest":
            if word_describes("old", file.path) and not any(word_describes("old", other.path) for other in staying):
                return True
            return bool(staying) and all(other.age_days <= file.age_days + _AGE_EQUAL_DAYS for other in staying)
        case "newest":
            return bool(staying) and all(other.age_days >= file.age_days - _AGE_EQUAL_DAYS for other in staying)
        case "largest":
            return bool(staying) and all(other.size <= file.size for other in staying)
        case _:
            return bool(staying) and all(other.size >= file.size for other in staying)


def _names_folder(words: Sequence[str], path: str) -> bool:
    return any(word.strip("/") in path.casefold().split("/")[:-1] for word in words)


def _list_files(change: HeldChange) -> list[str] | None:
    """Return the files that a change removes; None if they are too many, or something in it is no file."""
    if change.kind != "remove_folder":
        return [change.path]
    files = []
    for folder, folders, names in os.walk(change.path):
        links = [name for name in folders if os.path.islink(f"{folder}/{name}")]
        files += [f"{folder}/{name}" for name in (*names, *links)]
        if len(files) > ENTRIES_MAX:
            return None
    return files


def _read_last_answer(messages: Sequence[Message]) -> str:
    """Return the answer that the user read before this turn."""
    turn = messages[-1].turn if messages else 0
    earlier = (message for message in reversed(messages) if message.turn < turn and message.role == "assistant")
    return next((message.text for message in earlier if message.text), "")
