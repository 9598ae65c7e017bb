"""Health checks of SQLite: the library, and the databases of all workspaces."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mainstay.core.component_options import StoreOptions
from mainstay.core.errors import MainstayError
from mainstay.core.health import PROBLEMS_MAX, CheckContext, CheckFinding
from mainstay.store.sqlite.manifest import DATABASE_FILE

SQLITE_MIN = (3, 38)


def check_sqlite(*, has_vectors: bool = True) -> CheckFinding:
    """Check SQLite by using each feature that the store needs: for semantic search also its vector extension."""
    import apsw  # the store's SQLite, not Python's own

    version = apsw.sqlite_lib_version()
    again = "reinstall apsw: pip install --force-reinstall apsw"
    try:
        temporary = tempfile.TemporaryDirectory()
    except OSError as error:
        message = f"{version}: no temporary folder can be used ({error.strerror or error})"
        return CheckFinding("SQLite", "FAIL", message, "set TMPDIR to a folder that can be written")
    with temporary as folder:
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
    from mainstay.store.sqlite.journal_loss import list_known_workspaces

    folder = context.data / "workspaces"
    known = list_known_workspaces(context.home_database) if context.home_database is not None else []
    paths = sorted({*folder.glob(f"*/{DATABASE_FILE}"), *(folder / name / DATABASE_FILE for name in known)})
    if not paths:
        yield CheckFinding("Database", "ok", "none yet")
    for path in paths:
        prefix = "" if len(paths) == 1 else f"{path.parent.name}: "
        yield _check_completeness(path, context.home_database) or check_database(path, prefix)
        yield from _check_set_aside(path, prefix)


def _check_completeness(path: Path, home_database: Path | None) -> CheckFinding | None:
    """Return a finding if the database lacks what the home knows of it, else None, also if it cannot be read."""
    from mainstay.store.sqlite.journal_loss import find_loss

    try:
        loss = find_loss(path, home_database)
    except MainstayError:
        return None
    return CheckFinding("Database", "FAIL", loss.describe(), loss.describe_choices()) if loss is not None else None


def check_database(path: Path, prefix: str = "") -> CheckFinding:
    """Read a whole database."""
    from mainstay.store.sqlite.connection import connect, load_migrations
    from mainstay.store.sqlite.open_database_health import find_damage

    command = f"mainstay restore FOLDER --workspace {path.parent.name}"
    how = f"stop Mainstay and replace {path} with a backup (`{command}`), or choose another home"
    try:
        if damage := find_damage(path):
            return CheckFinding("Database", "FAIL", f"{path} is damaged: {damage}", how)
        db = connect(str(path), busy_s=5.0, read_only=True)
        try:
            version = db.pragma("user_version")
        finally:
            db.close()
    except MainstayError as error:
        return CheckFinding("Database", "FAIL", f"{prefix}{error}", how)
    if version > len(load_migrations()):
        return CheckFinding("Database", "FAIL", f"{path} was written by a newer release", "use that release")
    return CheckFinding("Database", "ok", f"{prefix}{path.stat().st_size / 1e6:.1f} MB, intact")


def _check_set_aside(path: Path, prefix: str) -> Iterator[CheckFinding]:
    """Report sessions whose turn was set aside because processes ended while they ran it."""
    from mainstay.store.sqlite.connection import connect, map_sqlite_errors

    sql = "SELECT key FROM sessions WHERE unfinished AND json_extract(settings, '$.set_aside') ORDER BY id"
    try:
        with map_sqlite_errors(str(path)):
            db = connect(str(path), busy_s=5.0, read_only=True)
            try:
                keys = [str(key) for (key,) in db.execute(sql)]
            finally:
                db.close()
    except MainstayError:  # reported with the database
        return
    for key in keys[:PROBLEMS_MAX]:
        message = f"{prefix}the turn of {key!r} was set aside: processes ended while they ran it"
        yield CheckFinding("Sessions", "warn", message, f"mainstay session release {key}")
    if len(keys) > PROBLEMS_MAX:
        message = f"{prefix}and {len(keys) - PROBLEMS_MAX} more"
        yield CheckFinding("Sessions", "warn", message, "mainstay session list")
