"""Health checks of SQLite: the library, and the databases of all workspaces."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mainstay.core.component_options import StoreOptions
from mainstay.core.errors import MainstayError
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.store.sqlite.manifest import DATABASE_FILE

SQLITE_MIN = (3, 38)


def check_sqlite(*, has_vectors: bool = True) -> CheckFinding:
    """Check SQLite by using each feature that the store needs: for semantic search also its vector extension."""
    import apsw  # the store's SQLite, not Python's own

    version = apsw.sqlite_lib_version()
    again = "reinstall apsw: pip install --force-reinstall apsw"
    with tempfile.TemporaryDirectory() as folder:
        database = apsw.Connection(f"{folder}/probe.db")
        try:
            database.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
            database.execute("""SELECT json_extract('{"a": 1}', '$.a')""").fetchall()
            mode = database.pragma("journal_mode", "wal")
        except apsw.Error as error:
            return CheckFinding("SQLite", "FAIL", f"{version}: {error}", again)
        finally:
            database.close()
    if tuple(map(int, version.split(".")[:2])) < SQLITE_MIN:
        return CheckFinding("SQLite", "FAIL", f"{version} is too old", "pip install --upgrade apsw")
    if mode != "wal":
        fix = "set TMPDIR to a folder on a local disk, and try again"
        return CheckFinding(
            "SQLite", "warn", f"{version} cannot use a write-ahead log (WAL) in the temporary folder", fix
        )
    if not has_vectors:
        return CheckFinding("SQLite", "ok", f"{version} with FTS5, JSON and WAL")
    if importlib.util.find_spec("sqlite_vec") is None:
        message = f"{version} with FTS5, JSON and WAL, but sqlite-vec is not installed: no semantic search"
        return CheckFinding("SQLite", "warn", message, "pip install -e '.[memory]'")
    from mainstay.store.sqlite.vector_tier import find_extension  # loads sqlite-vec, which is the test

    if find_extension() is None:
        message = f"{version} with FTS5, JSON and WAL, but it cannot load sqlite-vec: no semantic search"
        return CheckFinding("SQLite", "warn", message, "pip install --force-reinstall apsw sqlite-vec")
    return CheckFinding("SQLite", "ok", f"{version} with FTS5, JSON, WAL and extensions")


def check_databases(options: StoreOptions, context: CheckContext) -> Iterator[CheckFinding]:
    """Check the library, then every workspace's whole database, which takes a while if they are large."""
    library = check_sqlite(has_vectors=context.has_vectors)
    yield library
    if library.verdict == "FAIL":
        return
    paths = sorted((context.data / "workspaces").glob(f"*/{DATABASE_FILE}"))
    if not paths:
        yield CheckFinding("Database", "ok", "none yet")
    for path in paths:
        name = path.parent.name
        yield _check_database(path, "" if len(paths) == 1 else f"{name}: ")


def _check_database(path: Path, prefix: str) -> CheckFinding:
    from mainstay.store.sqlite.connection import connect, load_migrations, map_sqlite_errors

    how = f"stop Mainstay and replace {path} with a backup, or choose another home"
    try:
        with map_sqlite_errors(str(path)):
            db = connect(str(path), busy_s=5.0, read_only=True)
            try:
                verdict = db.execute("PRAGMA quick_check(1)").fetchall()[0][0]
                version = db.pragma("user_version")
            finally:
                db.close()
    except MainstayError as error:
        return CheckFinding("Database", "FAIL", f"{prefix}{error}", how)
    if verdict != "ok":
        return CheckFinding("Database", "FAIL", f"{path} is damaged: {verdict}", how)
    if version > len(load_migrations()):
        return CheckFinding("Database", "FAIL", f"{path} was written by a newer release", "use that release")
    return CheckFinding("Database", "ok", f"{prefix}{path.stat().st_size / 1e6:.1f} MB, intact")
