"""`apply_patch`: changes of several files, all of them or none."""

from __future__ import annotations

import stat
from collections.abc import Sequence

import msgspec

from mainstay.core.outside import Reach
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.io.beneath import PathMissing
from mainstay.io.patch import FilePatch, PatchRefused, parse, reverse
from mainstay.io.patching import patched
from mainstay.tools.common import Arguments, BuiltIn, Files, ToolRefused
from mainstay.tools.text import PROBE, decode, encoding_of
from mainstay.tools.work import FILE_BYTES_MAX, Change, Work

PATCH_BYTES_MAX = 4 * FILE_BYTES_MAX  # of all files together, as they are all held until the last one is written

_DESCRIPTION = (
    "Change files: *** Begin Patch, then *** Add File: p with +lines, *** Delete File: p, or *** Update File: p "
    "(*** Move to: q) with @@ and lines led by space, - or +; *** End Patch. Unified diffs work too."
)


class _Patch(Arguments, frozen=True):
    patch: str


class ApplyPatch(BuiltIn):
    name = "apply_patch"
    description = _DESCRIPTION
    arguments = _Patch
    effect: Effect = "reconcile"
    capabilities: tuple[str, ...] = ("fs.write",)

    def __init__(self, files: Files) -> None:
        self._files = files

    def subjects(self, arguments: _Patch) -> dict[str, list[str]]:
        """The files that it is about, for rules that name paths."""
        try:
            patches = parse(arguments.patch)
        except PatchRefused:
            return {}
        return {"path": [change.path for patch in patches for change in _touched(patch)]}

    def reach(self, arguments: _Patch, context: ToolContext) -> Reach:
        try:
            patches = parse(arguments.patch)
        except PatchRefused:  # as it will be when it runs
            return Reach()
        return Work(self._files, context).judge([change for patch in patches for change in _touched(patch)])

    async def run(self, arguments: _Patch, context: ToolContext) -> str:
        work = Work(self._files, context)
        draft = await work.aside(lambda: _drafted(work, parse(arguments.patch)))
        await work.change(draft.changes())
        return "\n".join(draft.told)

    async def reconcile(self, arguments: _Patch, context: ToolContext) -> str | None:
        """Each file is replaced at once, but one after the other: some may have been, when the process stopped."""
        work = Work(self._files, context)
        return await work.aside(lambda: _found_out(work, arguments.patch))


def apply_patch_tool(files: Files) -> Tool:
    return ApplyPatch(files)


def _touched(patch: FilePatch) -> list[Change]:
    """What a patch writes and removes, without its contents."""
    match patch.kind:
        case "delete":
            return [Change(path=patch.path, data=None)]
        case "update" if patch.to:
            return [Change(path=patch.to, data=b""), Change(path=patch.path, data=None)]
        case _:
            return [Change(path=patch.path, data=b"")]


class _File(msgspec.Struct):
    """A file as it will be. `data` is None for one that is not there (any more)."""

    path: str  # as the patch names it
    data: bytes | None
    mark: str = ""  # as it was; "" for none
    base: str = ""
    mode: int | None = None
    session: str | None = None
    touched: bool = False


class _Draft:
    """The files of a patch, by their real paths: two names of one are one."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._files: dict[str, _File] = {}
        self.told: list[str] = []

    def add(self, patch: FilePatch) -> None:
        file = self._file(patch.path)
        if file.data is not None:
            raise ToolRefused(f"{patch.path} is there already: use *** Update File. Nothing was changed.")
        file.data, file.touched = patch.content.encode(), True
        file.mode = 0o755 if patch.executable else file.mode
        self.told.append(f"Made {patch.path}.")

    def delete(self, patch: FilePatch) -> None:
        file, _ = self._present(patch.path, leaves=True)
        file.data, file.touched = None, True
        self.told.append(f"Removed {patch.path}.")

    def update(self, patch: FilePatch) -> None:
        file, data = self._present(patch.path, leaves=bool(patch.to))
        if patch.hunks:
            form = decode(data, patch.path)
            data = form.encode(patched(form.text, patch))
        if not patch.to:
            file.data, file.touched = data, True
            places = "1 place" if len(patch.hunks) == 1 else f"{len(patch.hunks)} places"
            self.told.append(f"Changed {patch.path}: {places}.")
            return
        target = self._file(patch.to)
        if target.data is not None:
            raise ToolRefused(f"{patch.to} is there already. Nothing was changed.")
        label = self._work.files.labels.get(self._work.confined.real(patch.path))
        target.session = label.session if label is not None else ""
        target.data, target.base, target.mode, target.touched = data, file.base, file.mode, True
        file.data, file.touched = None, True
        self.told.append(f"Moved {patch.path} to {patch.to}.")

    def changes(self) -> list[Change]:
        """Files first, removals last: whoever is stopped in between leaves too much, not too little."""
        return [
            Change(
                path=file.path,
                data=file.data,
                expected=file.mark,
                mode=file.mode,
                base=file.base,
                session=file.session,
            )
            for file in sorted(self._files.values(), key=lambda one: one.data is None)
            if file.touched and (file.data is not None or file.mark)
        ]

    def _present(self, path: str, *, leaves: bool) -> tuple[_File, bytes]:
        """A file that is there; one that will not stay must not be a link."""
        with self._work.confined.find(path, follow=not leaves, write=True) as spot:
            if spot.stat is not None and stat.S_ISLNK(spot.stat.st_mode):
                raise ToolRefused(f"{path} is a link: only files are removed. Nothing was changed.")
        file = self._file(path)
        if file.data is None:
            self._work.confined.open_read(path).file.close()  # says what is missing
            raise ToolRefused(f"{path} is removed by the patch before this. Nothing was changed.")
        return file, file.data

    def _file(self, path: str) -> _File:
        confined = self._work.confined
        with confined.find(path, write=True) as spot:
            real, there = spot.path, spot.stat is not None
        if real not in self._files:
            self._files[real] = self._loaded(path) if there else _File(path, None)
        if sum(len(one.data or b"") for one in self._files.values()) > PATCH_BYTES_MAX:
            raise ToolRefused(f"The files of the patch have more than {PATCH_BYTES_MAX} bytes. Nothing was changed.")
        return self._files[real]

    def _loaded(self, path: str) -> _File:
        data, opened = self._work.confined.read_bytes(path, FILE_BYTES_MAX)
        base = self._work.origin(opened.path, opened.mark)
        return _File(path, data, opened.mark, base, opened.stat.st_mode & 0o777)


def _drafted(work: Work, patches: Sequence[FilePatch]) -> _Draft:
    """Everything that can be refused is, before anything is changed."""
    draft = _Draft(work)
    for patch in patches:
        try:
            match patch.kind:
                case "add":
                    draft.add(patch)
                case "delete":
                    draft.delete(patch)
                case "update":
                    draft.update(patch)
        except PathMissing as error:
            work.bring_names(error.near)
            raise
    return draft


# --- after a crash -------------------------------------------------------------------------------


def _found_out(work: Work, text: str) -> str | None:
    states = {_state(work, patch) for patch in parse(text)}
    if states == {"todo"}:
        return None
    if states == {"done"}:
        return "The patch was applied."
    return (
        "Outcome unknown: the process stopped while this ran. Read the files of the patch before changing them again."
    )


def _state(work: Work, patch: FilePatch) -> str:
    """todo, done, or unclear."""
    now = _now(work, patch.path)
    match patch.kind:
        case "add":
            return "todo" if now is None else "done" if now == patch.content else "unclear"
        case "delete":
            return "done" if now is None else "todo"
    moved = _now(work, patch.to) if patch.to else None
    if patch.to and not patch.hunks:
        there = now is not None, moved is not None
        return "todo" if there == (True, False) else "done" if there == (False, True) else "unclear"
    forth = now is not None and _fits(now, patch)
    after = moved if patch.to else now
    back = after is not None and _fits(after, reverse(patch)) and (not patch.to or now is None)
    return "unclear" if forth == back else "todo" if forth else "done"


def _fits(text: str, patch: FilePatch) -> bool:
    try:
        patched(text, patch)
    except PatchRefused:
        return False
    return True


def _now(work: Work, path: str) -> str | None:
    try:
        data, _ = work.confined.read_bytes(path, FILE_BYTES_MAX)
    except PathMissing:
        return None
    encoding, bom = encoding_of(data[:PROBE])
    return data[len(bom) :].decode(encoding or "latin-1", errors="replace")
