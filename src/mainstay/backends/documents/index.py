"""Full-text index of a folder of documents (SQLite FTS5, BM25), updated before every search.

Listing all files is quick and reading them is not: only changed files are read again. All methods block and run in
worker threads, one at a time.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from mainstay.backends.base import BackendRefused, clean_name
from mainstay.core.errors import ConfigError
from mainstay.core.file_fingerprints import compute_fingerprint
from mainstay.core.tool_ports import SessionFolders
from mainstay.io.confined_files import ConfinedFiles
from mainstay.io.fetch import FetchResult, decode_body
from mainstay.io.file_walk import FileWalk, WalkedFile
from mainstay.io.globs import GlobRefused, compile_path_glob
from mainstay.io.html import convert_html
from mainstay.io.path_resolver import PathRefused

if TYPE_CHECKING:
    import apsw

FILES_MAX = 20_000
FILE_BYTES_MAX = 2 * 1024 * 1024
INDEX_BYTES_MAX = 64 * 1024 * 1024  # for all texts together
PASSAGE_LINES_MAX = 40
PASSAGE_CHARS_MAX = 1_500
QUERY_WORDS_MAX = 32
PATH_CHARS_MAX = 300  # for a displayed path
INDEX_VERSION = 1

StopCheck = Callable[[], bool]  # returns True once the caller has cancelled

_BINARY_EXTENSIONS = frozenset(
    (
        *("pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "ods", "epub", "zip", "gz", "tar", "7z", "rar"),
        *("png", "jpg", "jpeg", "gif", "webp", "ico", "bmp", "tiff", "mp3", "mp4", "mov", "avi", "wav", "ogg", "webm"),
        *("exe", "dll", "so", "dylib", "o", "a", "class", "jar", "pyc", "woff", "woff2", "ttf", "otf", "db", "sqlite"),
    )
)
_WORD = re.compile(r"\w+")

_CREATE_TABLES = """
CREATE TABLE files (path TEXT PRIMARY KEY, mark TEXT NOT NULL, size INTEGER NOT NULL, is_text INTEGER NOT NULL,
                    low INTEGER NOT NULL, high INTEGER NOT NULL);
CREATE VIRTUAL TABLE passages USING fts5 (path, text, first UNINDEXED, last UNINDEXED,
                                          tokenize = 'porter unicode61 remove_diacritics 2');
"""


class DocumentFile(msgspec.Struct, frozen=True, gc=False):
    """A file. `path` is relative to the folder."""

    path: str
    size_bytes: int
    is_text: bool


class IndexedFile(msgspec.Struct, frozen=True, gc=False):
    """A file as it was when it was indexed."""

    fingerprint: str
    size_bytes: int
    is_text: bool

    @property
    def indexed_bytes(self) -> int:
        return min(self.size_bytes, FILE_BYTES_MAX) if self.is_text else 0


class Passage(msgspec.Struct, frozen=True, gc=False):
    """Lines `first_line` to `last_line` of a document."""

    path: str
    first_line: int
    last_line: int
    text: str


class PassageHits(msgspec.Struct, frozen=True):
    """Matching passages, best first. `incomplete_reason` says which files were not searched; empty: all were."""

    passages: list[Passage]
    has_more: bool = False
    incomplete_reason: str = ""


class DocumentIndex:
    """The index of one folder. Thread-safe: one method runs at a time."""

    def __init__(
        self, root: str, globs: Sequence[str], index_path: str = "", protected_paths: Sequence[str] = ()
    ) -> None:
        self.root = root
        self._index_path = index_path
        self._scope_key = f"{root}\0{chr(0).join(globs)}"
        try:
            self._globs = [compile_path_glob(pattern) for pattern in globs]
        except GlobRefused as error:
            raise ConfigError(f"scope.paths: {error}") from None
        self._files = ConfinedFiles(
            SessionFolders(cwd=root, writable=(), readable=(root,), protected=tuple(protected_paths))
        )
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._indexed_files: dict[str, IndexedFile] = {}  # by path
        self._incomplete_reason = ""

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    # --- listing and reading ---------------------------------------------------------------------

    def list_documents(self, stop: StopCheck) -> tuple[DocumentFile, ...]:
        """List all documents. Until a file is read, its extension decides whether it is text."""
        with self._lock:
            documents = []
            for entry, _ in self._walk_files(stop):
                try:
                    size = os.stat(entry.name, dir_fd=entry.folder_fd, follow_symlinks=False).st_size
                except OSError:
                    continue
                indexed = self._indexed_files.get(entry.relative_path)
                documents.append(
                    DocumentFile(
                        entry.relative_path, size, indexed.is_text if indexed else _has_text_extension(entry.name)
                    )
                )
            return tuple(documents)

    def read_document(self, path: str, stop: StopCheck) -> tuple[DocumentFile, list[str]]:
        """Read one document as lines; only files that the walk lists can be read."""
        name = path.strip().removeprefix("./")
        with self._lock:
            for entry, walk in self._walk_files(stop):
                if name in (entry.relative_path, clean_name(entry.relative_path, PATH_CHARS_MAX)):
                    with walk.open_file(entry) as opened:
                        text = _decode_text(entry.name, opened.file.read(FILE_BYTES_MAX + 1))
                        size = opened.stat.st_size
                    return DocumentFile(entry.relative_path, size, text is not None), (text or "").splitlines()
        raise BackendRefused(f"There is no document {clean_name(path)} here.")

    def _walk_files(self, stop: StopCheck) -> Iterator[tuple[WalkedFile, FileWalk]]:
        walk = FileWalk(self._files, self.root, include_hidden=False, should_stop=stop)
        count = 0
        for entry in walk:
            if self._globs and not any(matches(entry.relative_path) for matches in self._globs):
                continue
            count += 1
            if count > FILES_MAX:
                self._incomplete_reason = f"only the first {FILES_MAX} files are indexed"
                return
            yield entry, walk
        self._incomplete_reason = walk.cut_reason

    # --- search ----------------------------------------------------------------------------------

    def search_passages(self, text: str, path: str, offset: int, passages_max: int, stop: StopCheck) -> PassageHits:
        """Update the index and return the passages that match the words, or contain the text if no word matches."""
        words = _WORD.findall(text)[:QUERY_WORDS_MAX]
        matches = build_path_filter(path)
        with self._lock:
            connection = self._open_database()
            try:
                self._update_index(connection, stop)
            except BaseException:  # the transaction is rolled back, so the cached state is invalid
                connection.close()
                self._connection, self._indexed_files = None, {}
                raise
            connection.create_scalar_function("chosen", lambda *values: matches(str(values[0])), 1)
            limits = (passages_max + 1, offset)
            rows: list[tuple[str, int, int, str]] = []
            if words:
                rows = list(connection.execute(_WORDS_QUERY, (" OR ".join(f'"{word}"' for word in words), *limits)))
            if not rows and text.strip() and not offset:  # the language may have no spaces between words
                words = [text.strip().lower()]
                rows = list(connection.execute(_SUBSTRING_QUERY, (words[0], *limits)))
            passages = [
                Passage(path, first, last, _excerpt(passage, words))
                for path, first, last, passage in rows[:passages_max]
            ]
            return PassageHits(passages, len(rows) > passages_max, self._incomplete_reason)

    def _open_database(self) -> apsw.Connection:
        if self._connection is not None:
            return self._connection
        import apsw

        if self._index_path:
            try:
                self._connection = self._prepare_database(apsw.Connection(self._index_path))
                return self._connection
            except (apsw.Error, OSError):
                for suffix in ("", "-journal", "-wal", "-shm"):  # it can be rebuilt
                    if os.path.lexists(self._index_path + suffix):
                        os.unlink(self._index_path + suffix)
        self._connection = self._prepare_database(apsw.Connection(self._index_path or ":memory:"))
        return self._connection

    def _prepare_database(self, connection: apsw.Connection) -> apsw.Connection:
        """Create the tables, or load the list of indexed files. An index of another folder or version is rebuilt."""
        connection.execute("PRAGMA synchronous = OFF")
        version = connection.pragma("user_version")
        scope = ""
        if version == INDEX_VERSION:
            (scope,) = next(connection.execute("SELECT path FROM files WHERE mark = 'scope'"))
        if scope != self._scope_key:
            with connection:
                connection.execute("DROP TABLE IF EXISTS files; DROP TABLE IF EXISTS passages;" + _CREATE_TABLES)
                connection.execute("INSERT INTO files VALUES (?, 'scope', 0, 0, 0, 0)", (self._scope_key,))
                connection.execute(f"PRAGMA user_version = {INDEX_VERSION}")
        rows = connection.execute("SELECT path, mark, size, is_text FROM files WHERE mark <> 'scope'")
        self._indexed_files = {path: IndexedFile(mark, size, bool(is_text)) for path, mark, size, is_text in rows}
        return connection

    # --- updating --------------------------------------------------------------------------------

    def _update_index(self, connection: apsw.Connection, stop: StopCheck) -> None:
        """Index changed files and remove deleted ones. A stop leaves the index consistent with the files visited."""
        gone = set(self._indexed_files)
        bytes_left = INDEX_BYTES_MAX - sum(indexed.indexed_bytes for indexed in self._indexed_files.values())
        is_full = False
        with connection:
            for entry, walk in self._walk_files(stop):
                gone.discard(entry.relative_path)
                try:
                    status = os.stat(entry.name, dir_fd=entry.folder_fd, follow_symlinks=False)
                except OSError:
                    continue
                fingerprint = compute_fingerprint(status)
                indexed = self._indexed_files.get(entry.relative_path)
                if indexed is not None and indexed.fingerprint == fingerprint:
                    continue
                bytes_left += indexed.indexed_bytes if indexed is not None else 0
                text = self._read_text(walk, entry) if min(status.st_size, FILE_BYTES_MAX) <= bytes_left else None
                is_full = is_full or (text is None and min(status.st_size, FILE_BYTES_MAX) > bytes_left)
                indexed = IndexedFile(fingerprint, status.st_size, text is not None)
                bytes_left -= indexed.indexed_bytes
                self._index_file(connection, entry.relative_path, indexed, text)
            for path in gone if not stop() else ():  # after a stop, unvisited files are not missing
                self._remove_file(connection, path)
        if is_full and not self._incomplete_reason:
            self._incomplete_reason = "there is more text than is indexed: the rest is not searched"

    def _read_text(self, walk: FileWalk, entry: WalkedFile) -> str | None:
        if not _has_text_extension(entry.name):
            return None
        try:
            with walk.open_file(entry) as opened:
                return _decode_text(entry.name, opened.file.read(FILE_BYTES_MAX + 1))
        except (PathRefused, OSError):  # not readable, or deleted meanwhile
            return None

    def _remove_file(self, connection: apsw.Connection, path: str) -> None:
        row = connection.execute("SELECT low, high FROM files WHERE path = ?", (path,)).fetchone()
        if row is not None:
            connection.execute("DELETE FROM passages WHERE rowid BETWEEN ? AND ?", row)
            connection.execute("DELETE FROM files WHERE path = ?", (path,))
        self._indexed_files.pop(path, None)

    def _index_file(self, connection: apsw.Connection, path: str, indexed: IndexedFile, text: str | None) -> None:
        self._remove_file(connection, path)
        (last_id,) = next(connection.execute("SELECT max(high) FROM files"))
        first_id = (last_id or 0) + 1
        passages = list(split_passages(text)) if text else [(1, 1, "")]  # a file that is not text is found by its path
        rows = [
            (first_id + offset, path, passage, first, last) for offset, (first, last, passage) in enumerate(passages)
        ]
        connection.executemany("INSERT INTO passages (rowid, path, text, first, last) VALUES (?, ?, ?, ?, ?)", rows)
        connection.execute(
            "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)",
            (path, indexed.fingerprint, indexed.size_bytes, indexed.is_text, first_id, rows[-1][0]),
        )
        self._indexed_files[path] = indexed


_WORDS_QUERY = """
SELECT path, first, last, text FROM passages WHERE passages MATCH ? AND chosen(path)
ORDER BY bm25(passages, 2.0, 1.0), rowid LIMIT ? OFFSET ?
"""
_SUBSTRING_QUERY = """
SELECT path, first, last, text FROM passages WHERE instr(lower(text), ?) AND chosen(path)
ORDER BY rowid LIMIT ? OFFSET ?
"""


def build_path_filter(path: str) -> Callable[[str], bool]:
    """Return a filter for documents: this file, this folder and everything in it, or this glob."""
    plain = path.strip().removeprefix("./").strip("/")
    if plain in ("", "."):
        return lambda name: True
    try:
        matches = compile_path_glob(plain)
    except GlobRefused as error:
        raise BackendRefused(f"The pattern is not valid: {error}.") from None
    return lambda name: name == plain or name.startswith(f"{plain}/") or matches(name)


def _excerpt(text: str, words: Sequence[str]) -> str:
    """Return a passage; of a long one, the part around the first of the words."""
    if len(text) <= PASSAGE_CHARS_MAX:
        return text
    lower = text.lower()
    at = min((position for word in words if (position := lower.find(word.lower())) >= 0), default=0)
    start = max(0, at - PASSAGE_CHARS_MAX // 2)
    return f"{'…' if start else ''}{text[start : start + PASSAGE_CHARS_MAX]}…"


# --- text ----------------------------------------------------------------------------------------


def _has_text_extension(name: str) -> bool:
    return name.rsplit(".", 1)[-1].lower() not in _BINARY_EXTENSIONS


def _decode_text(name: str, data: bytes) -> str | None:
    """Decode a file as text, truncated at the limit; None if it is not text. HTML is converted to readable text."""
    if not _has_text_extension(name) or (b"\x00" in data[:4096] and not data.startswith((b"\xff\xfe", b"\xfe\xff"))):
        return None
    text = decode_body(FetchResult(url="", status=200, body=data[:FILE_BYTES_MAX]))
    if name.lower().endswith((".html", ".htm", ".xhtml")):
        page = convert_html(text)
        text = f"# {page.title}\n\n{page.text}" if page.title else page.text
    return text


def split_passages(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield passages with their first and last line. A passage ends before a heading or empty line, if one is near."""
    lines = text.splitlines()
    start, size = 0, 0
    for number, line in enumerate(lines):
        line_count = number - start
        is_long = line_count >= PASSAGE_LINES_MAX or size + len(line) > PASSAGE_CHARS_MAX
        is_break = line_count >= PASSAGE_LINES_MAX // 4 and (line.startswith("#") or not line.strip())
        if line_count and (is_long or is_break):
            yield start + 1, number, "\n".join(lines[start:number]).strip("\n")
            start, size = number, 0
        size += len(line) + 1
    if start < len(lines):
        yield start + 1, len(lines), "\n".join(lines[start:]).strip("\n")
