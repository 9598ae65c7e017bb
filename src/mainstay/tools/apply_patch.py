"""The `apply_patch` tool: changes several files, all or none."""

from __future__ import annotations

import stat
from collections.abc import Sequence

import msgspec

from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations
from mainstay.io.patch_applier import apply_patch_to_text
from mainstay.io.patch_parser import FilePatch, PatchRefused, parse_patch, reverse_patch
from mainstay.io.path_resolver import PathMissing
from mainstay.tools.base import BuiltInTool, SessionFileAccess, ToolArguments, ToolRefused
from mainstay.tools.dependencies import ToolDependencies
from mainstay.tools.text_encoding import PROBE_BYTES, decode_file, detect_encoding
from mainstay.tools.tool_call_file_access import FILE_BYTES_MAX, FileChange, ToolCallFiles

PATCH_BYTES_MAX = 4 * FILE_BYTES_MAX  # all files together: they stay in memory until the last one is written

_DESCRIPTION = (
    "Change files: *** Begin Patch, then *** Add File: p with +lines, *** Delete File: p, or *** Update File: p "
    "(*** Move to: q) with @@ and lines led by space, - or +; *** End Patch. Unified diffs work too."
)


class _ApplyPatchArguments(ToolArguments, frozen=True):
    patch: str


class ApplyPatchTool(BuiltInTool):
    name = "apply_patch"
    description = _DESCRIPTION
    arguments = _ApplyPatchArguments
    effect: Effect = "reconcile"
    capabilities: tuple[str, ...] = ("fs.write",)

    def __init__(self, file_access: SessionFileAccess) -> None:
        self._file_access = file_access

    def subjects(self, arguments: _ApplyPatchArguments) -> dict[str, list[str]]:
        """Return the paths that the call touches, for policy rules on paths."""
        try:
            patches = parse_patch(arguments.patch)
        except PatchRefused:
            return {}
        return {"path": [change.path for patch in patches for change in _list_changes(patch)]}

    def reach(self, arguments: _ApplyPatchArguments, context: ToolContext) -> CallDestinations:
        try:
            patches = parse_patch(arguments.patch)
        except PatchRefused:  # the run will refuse it too
            return CallDestinations()
        return ToolCallFiles(self._file_access, context).judge_reach(
            [change for patch in patches for change in _list_changes(patch)]
        )

    async def run(self, arguments: _ApplyPatchArguments, context: ToolContext) -> str:
        call_files = ToolCallFiles(self._file_access, context)
        draft = await call_files.run_blocking(lambda: _build_draft(call_files, parse_patch(arguments.patch)))
        await call_files.apply_changes(draft.to_changes())
        return "\n".join(filter(None, (*draft.summary_lines, call_files.unkept_note)))

    async def reconcile(self, arguments: _ApplyPatchArguments, context: ToolContext) -> str | None:
        """Find out from the files whether the patch was applied, wholly or in part: they are replaced one by one."""
        call_files = ToolCallFiles(self._file_access, context)
        return await call_files.run_blocking(lambda: _describe_outcome(call_files, arguments.patch))


def build(dependencies: ToolDependencies) -> Tool:
    return ApplyPatchTool(dependencies.file_access)


def _list_changes(patch: FilePatch) -> list[FileChange]:
    """Return the writes and removals of a patch, without contents."""
    match patch.kind:
        case "delete":
            return [FileChange(path=patch.path, data=None)]
        case "update" if patch.new_path:
            return [FileChange(path=patch.new_path, data=b""), FileChange(path=patch.path, data=None)]
        case _:
            return [FileChange(path=patch.path, data=b"")]


class _DraftFile(msgspec.Struct):
    """A file as it will be after the patch. `data` is None if it will not exist."""

    path: str  # as written in the patch
    data: bytes | None
    fingerprint: str = ""  # before the patch; "" if it did not exist
    base_origin: str = ""  # origin of the content before the patch
    mode: int | None = None
    creator_session: str | None = None  # that created it; None: this one
    is_changed: bool = False


class _PatchDraft:
    """The files of a patch after all changes so far, by real path, so that two names of one file are one entry."""

    def __init__(self, call_files: ToolCallFiles) -> None:
        self._call_files = call_files
        self._files: dict[str, _DraftFile] = {}
        self.summary_lines: list[str] = []

    def add_file(self, patch: FilePatch) -> None:
        file = self._get_file(patch.path)
        if file.data is not None:
            raise ToolRefused(f"{patch.path} exists already: use *** Update File. Nothing was changed.")
        file.data, file.is_changed = patch.content.encode(), True
        file.mode = 0o755 if patch.is_executable else file.mode
        self.summary_lines.append(f"Made {patch.path}.")

    def delete_file(self, patch: FilePatch) -> None:
        file, _ = self._get_existing(patch.path, is_leaving=True)
        file.data, file.is_changed = None, True
        self.summary_lines.append(f"Removed {patch.path}.")

    def update_file(self, patch: FilePatch) -> None:
        file, data = self._get_existing(patch.path, is_leaving=bool(patch.new_path))
        if patch.hunks:
            form = decode_file(data, patch.path)
            data = form.encode(apply_patch_to_text(form.text, patch))
        if not patch.new_path:
            file.data, file.is_changed = data, True
            places = "1 place" if len(patch.hunks) == 1 else f"{len(patch.hunks)} places"
            self.summary_lines.append(f"Changed {patch.path}: {places}.")
            return
        target = self._get_file(patch.new_path)
        if target.data is not None:
            raise ToolRefused(f"{patch.new_path} exists already. Nothing was changed.")
        label = self._call_files.file_access.labels.get(self._call_files.confined.real_path(patch.path))
        target.creator_session = label.session if label is not None else ""
        target.data, target.base_origin, target.mode, target.is_changed = data, file.base_origin, file.mode, True
        file.data, file.is_changed = None, True
        self.summary_lines.append(f"Moved {patch.path} to {patch.new_path}.")

    def to_changes(self) -> list[FileChange]:
        """Return writes first, removals last: a crash in between leaves too many files, not too few."""
        return [
            FileChange(
                path=file.path,
                data=file.data,
                expected_fingerprint=file.fingerprint,
                mode=file.mode,
                base_origin=file.base_origin,
                creator_session=file.creator_session,
            )
            for file in sorted(self._files.values(), key=lambda file: file.data is None)
            if file.is_changed and (file.data is not None or file.fingerprint)
        ]

    def _get_existing(self, path: str, *, is_leaving: bool) -> tuple[_DraftFile, bytes]:
        """Return a file that exists, with its content; one that is removed or moved must not be a symlink."""
        with self._call_files.confined.resolve(path, follow_symlinks=not is_leaving, for_writing=True) as resolved:
            if resolved.stat is not None and stat.S_ISLNK(resolved.stat.st_mode):
                raise ToolRefused(f"{path} is a link: only files are removed. Nothing was changed.")
        file = self._get_file(path)
        if file.data is None:
            self._call_files.confined.open_read(path).file.close()  # raises PathMissing with the reason
            raise ToolRefused(f"{path} is removed by the patch before this. Nothing was changed.")
        return file, file.data

    def _get_file(self, path: str) -> _DraftFile:
        confined = self._call_files.confined
        with confined.resolve(path, for_writing=True) as resolved:
            real, there = resolved.path, resolved.stat is not None
        if real not in self._files:
            self._files[real] = self._load_file(path) if there else _DraftFile(path, None)
        if sum(len(file.data or b"") for file in self._files.values()) > PATCH_BYTES_MAX:
            raise ToolRefused(f"The files of the patch have more than {PATCH_BYTES_MAX} bytes. Nothing was changed.")
        return self._files[real]

    def _load_file(self, path: str) -> _DraftFile:
        data, opened = self._call_files.confined.read_bytes(path, FILE_BYTES_MAX)
        base = self._call_files.get_origin(opened.path, opened.fingerprint)
        return _DraftFile(path, data, opened.fingerprint, base, opened.stat.st_mode & 0o777)


def _build_draft(call_files: ToolCallFiles, patches: Sequence[FilePatch]) -> _PatchDraft:
    """Apply the patches in memory. Raises every possible refusal before any file is changed."""
    draft = _PatchDraft(call_files)
    for patch in patches:
        try:
            match patch.kind:
                case "add":
                    draft.add_file(patch)
                case "delete":
                    draft.delete_file(patch)
                case "update":
                    draft.update_file(patch)
        except PathMissing as error:
            call_files.taint_by_names(error.similar_paths)
            raise
    return draft


# --- after a crash -------------------------------------------------------------------------------


def _describe_outcome(call_files: ToolCallFiles, text: str) -> str | None:
    states = {_detect_patch_state(call_files, patch) for patch in parse_patch(text)}
    if states == {"todo"}:
        return None
    if states == {"done"}:
        return "The patch was applied."
    return (
        "Outcome unknown: the process stopped while this ran. Read the files of the patch before changing them again."
    )


def _detect_patch_state(call_files: ToolCallFiles, patch: FilePatch) -> str:
    """Return whether the patch was applied: "todo", "done" or "unclear"."""
    current = _read_current(call_files, patch.path)
    match patch.kind:
        case "add":
            return "todo" if current is None else "done" if current == patch.content else "unclear"
        case "delete":
            return "done" if current is None else "todo"
    moved = _read_current(call_files, patch.new_path) if patch.new_path else None
    if patch.new_path and not patch.hunks:
        existing = current is not None, moved is not None
        return "todo" if existing == (True, False) else "done" if existing == (False, True) else "unclear"
    applies = current is not None and _can_apply(current, patch)
    after = moved if patch.new_path else current
    is_applied = (
        after is not None and _can_apply(after, reverse_patch(patch)) and (not patch.new_path or current is None)
    )
    return "unclear" if applies == is_applied else "todo" if applies else "done"


def _can_apply(text: str, patch: FilePatch) -> bool:
    try:
        apply_patch_to_text(text, patch)
    except PatchRefused:
        return False
    return True


def _read_current(call_files: ToolCallFiles, path: str) -> str | None:
    try:
        data, _ = call_files.confined.read_bytes(path, FILE_BYTES_MAX)
    except PathMissing:
        return None
    encoding, bom = detect_encoding(data[:PROBE_BYTES])
    return data[len(bom) :].decode(encoding or "latin-1", errors="replace")
