"""The index of a folder of documents: passages by their words (BM25), kept up with the files before every search.

Looking at all files is quick and reading them is not: only those that have changed are read again. All of this runs in
threads, one at a time.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from mainstay.backends.common import BackendRefused, clean_name
from mainstay.core.errors import ConfigError
from mainstay.core.outside import Grounds
from mainstay.io.beneath import PathRefused
from mainstay.io.fetch import Fetched, text_of
from mainstay.io.files import Confined, mark_of
from mainstay.io.globs import BadPattern, glob
from mainstay.io.html import readable
from mainstay.io.walk import Seen, Walk

FILES_MAX = 20_000
FILE_BYTES_MAX = 2 * 1024 * 1024
BYTES_MAX = 64 * 1024 * 1024  # of all texts
PASSAGE_LINES = 40
PASSAGE_CHARS = 1_500
WORDS_MAX = 32
SHOWN_CHARS_MAX = 300  # of a path
VERSION = 1

Stop = Callable[[], bool]

_NO_TEXT = frozenset(
    (
        *("pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "epub", "zip", "gz", "tar", "7z", "rar"),
        *("png", "jpg", "jpeg", "gif", "webp", "ico", "bmp", "tiff", "mp3", "mp4", "mov", "avi", "wav", "ogg", "webm"),
        *("exe", "dll", "so", "dylib", "o", "a", "class", "jar", "pyc", "woff", "woff2", "ttf", "otf", "db", "sqlite"),
    )
)
_WORD = re.compile(r"\w+")

_TABLES = """
CREATE TABLE files (path TEXT PRIMARY KEY, mark TEXT NOT NULL, size INTEGER NOT NULL, is_text INTEGER NOT NULL,
                    low INTEGER NOT NULL, high INTEGER NOT NULL);
CREATE VIRTUAL TABLE passages USING fts5 (path, text, first UNINDEXED, last UNINDEXED,
                                          tokenize = 'porter unicode61 remove_diacritics 2');
"""


class Document(msgspec.Struct, frozen=True, gc=False):
    """A file; `path` from the folder on."""

    path: str
    size: int
    is_text: bool


class Known(msgspec.Struct, frozen=True, gc=False):
    """A file as it was when it was read."""

    mark: str
    size: int
    is_text: bool

    @property
    def weight(self) -> int:
        return min(self.size, FILE_BYTES_MAX) if self.is_text else 0


class Passage(msgspec.Struct, frozen=True, gc=False):
    path: str
    first: int
    last: int
    text: str


class Found(msgspec.Struct, frozen=True):
    """The best first; `cut` says what was not looked at."""

    passages: list[Passage]
    more: bool = False
    cut: str = ""


class Index:
    def __init__(self, root: str, globs: Sequence[str], kept: str = "", protected: Sequence[str] = ()) -> None:
        self.root = root
        self._kept = kept
        self._scope = f"{root}\0{chr(0).join(globs)}"
        try:
            self._globs = [glob(one) for one in globs]
        except BadPattern as error:
            raise ConfigError(f"scope.paths: {error}") from None
        self._files = Confined(Grounds(cwd=root, writable=(), readable=(root,), protected=tuple(protected)))
        self._lock = threading.Lock()
        self._base: Any = None
        self._marks: dict[str, Known] = {}  # by path
        self._cut = ""

    def close(self) -> None:
        with self._lock:
            if self._base is not None:
                self._base.close()
            self._base = None

    # --- what is there ---------------------------------------------------------------------------

    def listed(self, stop: Stop) -> tuple[Document, ...]:
        """All documents. Before one was read, its name says whether it is text."""
        with self._lock:
            found = []
            for seen, _ in self._walk(stop):
                try:
                    size = os.stat(seen.name, dir_fd=seen.folder, follow_symlinks=False).st_size
                except OSError:
                    continue
                known = self._marks.get(seen.below)
                found.append(Document(seen.below, size, known.is_text if known else _may_be_text(seen.name)))
            return tuple(found)

    def read(self, path: str, stop: Stop) -> tuple[Document, list[str]]:
        """One document, in lines: only what a walk comes across is there to be read."""
        wanted = path.strip().removeprefix("./")
        with self._lock:
            for seen, walk in self._walk(stop):
                if wanted in (seen.below, clean_name(seen.below, SHOWN_CHARS_MAX)):
                    with walk.open(seen) as opened:
                        text = _text(seen.name, opened.file.read(FILE_BYTES_MAX + 1))
                        size = opened.stat.st_size
                    return Document(seen.below, size, text is not None), (text or "").splitlines()
        raise BackendRefused(f"There is no document {clean_name(path)} here.")

    def _walk(self, stop: Stop) -> Iterator[tuple[Seen, Walk]]:
        walk = Walk(self._files, self.root, hidden=False, stop=stop)
        count = 0
        for seen in walk:
            if self._globs and not any(fits(seen.below) for fits in self._globs):
                continue
            count += 1
            if count > FILES_MAX:
                self._cut = f"only the first {FILES_MAX} files were looked at"
                return
            yield seen, walk
        self._cut = walk.cut

    # --- searching -------------------------------------------------------------------------------

    def search(self, text: str, path: str, offset: int, most: int, stop: Stop) -> Found:
        words = _WORD.findall(text)[:WORDS_MAX]
        fits = chosen(path)
        with self._lock:
            base = self._open()
            try:
                self._refresh(base, stop)
            except BaseException:  # what was written is undone, and what is known of it must be too
                base.close()
                self._base, self._marks = None, {}
                raise
            base.create_scalar_function("chosen", fits, 1)
            bounds = (most + 1, offset)
            rows: list[tuple[str, int, int, str]] = []
            if words:
                rows = list(base.execute(_BY_WORDS, (" OR ".join(f'"{word}"' for word in words), *bounds)))
            if not rows and text.strip() and not offset:  # there may be no spaces between its words
                words = [text.strip().lower()]
                rows = list(base.execute(_BY_TEXT, (words[0], *bounds)))
            passages = [Passage(path, first, last, _excerpt(said, words)) for path, first, last, said in rows[:most]]
            return Found(passages, len(rows) > most, self._cut)

    def _open(self) -> Any:
        if self._base is not None:
            return self._base
        import apsw

        if self._kept:
            try:
                self._base = self._opened(apsw.Connection(self._kept))
                return self._base
            except (apsw.Error, OSError):
                for end in ("", "-journal", "-wal", "-shm"):  # it can be made again
                    if os.path.lexists(self._kept + end):
                        os.unlink(self._kept + end)
        self._base = self._opened(apsw.Connection(self._kept or ":memory:"))
        return self._base

    def _opened(self, base: Any) -> Any:
        """With its tables. What was kept for another folder, or by another release, is made anew."""
        base.execute("PRAGMA synchronous = OFF")
        version = base.execute("PRAGMA user_version").fetchone()[0]
        scope = ""
        if version == VERSION:
            scope = base.execute("SELECT path FROM files WHERE mark = 'scope'").fetchone()[0]
        if scope != self._scope:
            with base:
                base.execute("DROP TABLE IF EXISTS files; DROP TABLE IF EXISTS passages;" + _TABLES)
                base.execute("INSERT INTO files VALUES (?, 'scope', 0, 0, 0, 0)", (self._scope,))
                base.execute(f"PRAGMA user_version = {VERSION}")
        rows = base.execute("SELECT path, mark, size, is_text FROM files WHERE mark <> 'scope'")
        self._marks = {path: Known(mark, size, bool(is_text)) for path, mark, size, is_text in rows}
        return base

    # --- keeping up ------------------------------------------------------------------------------

    def _refresh(self, base: Any, stop: Stop) -> None:
        """Whatever was changed is read again, and whatever is gone is gone; a stop leaves it right as far as it got."""
        gone = set(self._marks)
        room = BYTES_MAX - sum(known.weight for known in self._marks.values())
        full = False
        with base:
            for seen, walk in self._walk(stop):
                gone.discard(seen.below)
                try:
                    found = os.stat(seen.name, dir_fd=seen.folder, follow_symlinks=False)
                except OSError:
                    continue
                mark = mark_of(found)
                known = self._marks.get(seen.below)
                if known is not None and known.mark == mark:
                    continue
                room += known.weight if known is not None else 0
                text = self._text_of(walk, seen) if min(found.st_size, FILE_BYTES_MAX) <= room else None
                full = full or (text is None and min(found.st_size, FILE_BYTES_MAX) > room)
                known = Known(mark, found.st_size, text is not None)
                room -= known.weight
                self._put(base, seen.below, known, text)
            for path in gone if not stop() else ():  # what was not come to is not gone
                self._drop(base, path)
        if full and not self._cut:
            self._cut = "there is more text here than is searched"

    def _text_of(self, walk: Walk, seen: Seen) -> str | None:
        if not _may_be_text(seen.name):
            return None
        try:
            with walk.open(seen) as opened:
                return _text(seen.name, opened.file.read(FILE_BYTES_MAX + 1))
        except (PathRefused, OSError):  # not ours to read, or gone by now
            return None

    def _drop(self, base: Any, path: str) -> None:
        row = base.execute("SELECT low, high FROM files WHERE path = ?", (path,)).fetchone()
        if row is not None:
            base.execute("DELETE FROM passages WHERE rowid BETWEEN ? AND ?", row)
            base.execute("DELETE FROM files WHERE path = ?", (path,))
        self._marks.pop(path, None)

    def _put(self, base: Any, path: str, known: Known, text: str | None) -> None:
        self._drop(base, path)
        low = (base.execute("SELECT max(high) FROM files").fetchone()[0] or 0) + 1
        passages = list(split(text)) if text else [(1, 1, "")]  # one that is no text is found by its name
        rows = [(low + at, path, said, first, last) for at, (first, last, said) in enumerate(passages)]
        base.executemany("INSERT INTO passages (rowid, path, text, first, last) VALUES (?, ?, ?, ?, ?)", rows)
        base.execute(
            "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)",
            (path, known.mark, known.size, known.is_text, low, rows[-1][0]),
        )
        self._marks[path] = known


_BY_WORDS = """
SELECT path, first, last, text FROM passages WHERE passages MATCH ? AND chosen(path)
ORDER BY bm25(passages, 2.0, 1.0), rowid LIMIT ? OFFSET ?
"""
_BY_TEXT = """
SELECT path, first, last, text FROM passages WHERE instr(lower(text), ?) AND chosen(path)
ORDER BY rowid LIMIT ? OFFSET ?
"""


def chosen(path: str) -> Callable[[str], bool]:
    """Whether a document is this file, lies in this folder, or fits this glob."""
    plain = path.strip().removeprefix("./").strip("/")
    if plain in ("", "."):
        return lambda one: True
    try:
        fits = glob(plain)
    except BadPattern as error:
        raise BackendRefused(f"This is no pattern: {error}.") from None
    return lambda one: one == plain or one.startswith(f"{plain}/") or fits(one)


def _excerpt(text: str, words: Sequence[str]) -> str:
    """A passage as it is shown: of a very long one, where the first of the words stands."""
    if len(text) <= PASSAGE_CHARS:
        return text
    low = text.lower()
    at = min((found for word in words if (found := low.find(word.lower())) >= 0), default=0)
    begin = max(0, at - PASSAGE_CHARS // 2)
    return f"{'…' if begin else ''}{text[begin : begin + PASSAGE_CHARS]}…"


# --- texts ---------------------------------------------------------------------------------------


def _may_be_text(name: str) -> bool:
    return name.rsplit(".", 1)[-1].lower() not in _NO_TEXT


def _text(name: str, data: bytes) -> str | None:
    """What a file says; None if it is no text. More than the bound is cut."""
    if not _may_be_text(name) or (b"\x00" in data[:4096] and not data.startswith((b"\xff\xfe", b"\xfe\xff"))):
        return None
    text = text_of(Fetched(url="", status=200, body=data[:FILE_BYTES_MAX]))
    if name.lower().endswith((".html", ".htm", ".xhtml")):
        page = readable(text)
        text = f"# {page.title}\n\n{page.text}" if page.title else page.text
    return text


def split(text: str) -> Iterator[tuple[int, int, str]]:
    """Passages with their first and last line. One ends at a heading or an empty line, if there is one in time."""
    lines = text.splitlines()
    begin, size = 0, 0
    for at, line in enumerate(lines):
        here = at - begin
        long = here >= PASSAGE_LINES or size + len(line) > PASSAGE_CHARS
        rests = here >= PASSAGE_LINES // 4 and (line.startswith("#") or not line.strip())
        if here and (long or rests):
            yield begin + 1, at, "\n".join(lines[begin:at]).strip("\n")
            begin, size = at, 0
        size += len(line) + 1
    if begin < len(lines):
        yield begin + 1, len(lines), "\n".join(lines[begin:]).strip("\n")
