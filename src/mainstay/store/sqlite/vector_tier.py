"""VectorTier on sqlite-vec: nearest-neighbour search over the embedding vectors of all messages.

Each vector is stored twice: coarse, one bit per dimension, to scan all of them quickly, and fine, one byte per
dimension, to rank the best of the scan. The coarse vectors are in partitions that are independent of their content: the
time that sqlite-vec needs grows with the number of neighbours requested, and sixteen small queries are faster than one.
"""

from __future__ import annotations

import importlib.util
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import apsw

from mainstay.core.errors import InputRefused
from mainstay.core.memory_tiers import MessageRef
from mainstay.store.sqlite.index_maintenance import BackgroundStep
from mainstay.store.sqlite.tier_base import SqliteTier
from mainstay.store.sqlite.tier_cursors import (
    SEQ_MAX,
    Tombstones,
    advance_cursor,
    ensure_session_id,
    select_position,
    select_session_keys,
    to_json_array,
)

PARTITIONS = 16
CHUNK_VECTORS = 512  # vectors in a chunk of sqlite-vec
VECTORS_PER_MESSAGE_MAX = 16  # vectors of one message: four bits of the id
STEP_VECTORS = 32  # vectors stored in one step
SWEEP_VECTORS = 512  # vectors examined in one step of deleting or restoring
DIMENSIONS_MAX = 4_096
LIMIT_MAX = 1_000

COARSE_TABLE = "vectors_near"
SELECT_SHADOW_TABLES = (
    f"SELECT name FROM sqlite_schema WHERE name LIKE '{COARSE_TABLE}\\_%' ESCAPE '\\' AND type='table'"
)
INSERT_COARSE = f"INSERT INTO {COARSE_TABLE} (rowid, part, bits) VALUES (?, ?, vec_quantize_binary(vec_int8(?)))"
SEARCH_COARSE = f"""
SELECT found.rowid FROM json_each(?) AS parts CROSS JOIN {COARSE_TABLE} AS found
WHERE found.bits MATCH vec_quantize_binary(vec_int8(?)) AND found.k = ? AND found.part = parts.value"""
RANK_FINE = """
SELECT vectors.id >> 4 AS message, min(vec_distance_cosine(vec_int8(vectors.fine), vec_int8(?))) AS distance
FROM json_each(?) AS found CROSS JOIN vectors ON vectors.id = found.value
GROUP BY message ORDER BY distance, message LIMIT ?"""
SELECT_MODEL = "SELECT id, name, dimensions FROM vector_models ORDER BY id DESC LIMIT 1"


@cache
def find_extension() -> str | None:
    """Return the path of sqlite-vec's library; None if it is not installed or cannot be loaded."""
    spec = importlib.util.find_spec("sqlite_vec")  # importing it would import numpy too
    if spec is None or not spec.submodule_search_locations:
        return None
    path = str(Path(spec.submodule_search_locations[0]) / "vec0")
    try:
        db = apsw.Connection(":memory:")
        _load_library(db, path)
        db.close()
    except (apsw.Error, AttributeError):  # SQLite was built without extensions, or the library is for another machine
        return None
    return path


def load_extension(db: apsw.Connection) -> bool:
    """Load sqlite-vec into this connection if it is not loaded; returns False if it is not available."""
    try:
        db.execute("SELECT vec_version()").fetchall()
    except apsw.SQLError:
        path = find_extension()
        if path is None:
            return False
        _load_library(db, path)
    return True


def _load_library(db: apsw.Connection, path: str) -> None:
    db.enable_load_extension(True)
    try:
        db.load_extension(path)
    finally:
        db.enable_load_extension(False)


class SqliteVectorTier(SqliteTier):
    name = "vectors"

    @staticmethod
    def find_rows(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        low = session << 36
        if seqs is None:
            rows: Iterable[tuple[int]] = db.execute(
                "SELECT id FROM vectors WHERE id >= ? AND id < ?", (low, low + (1 << 36))
            )
        else:
            ids = to_json_array(low + (seq << 4) + n for seq in seqs for n in range(VECTORS_PER_MESSAGE_MAX))
            rows = db.execute("SELECT id FROM vectors WHERE id IN (SELECT value FROM json_each(?))", (ids,))
        return [row[0] for row in rows]

    @staticmethod
    def delete_rows(db: apsw.Connection, rows: Sequence[int]) -> None:
        db.executemany("DELETE FROM vectors WHERE id=?", ((id,) for id in rows))
        if not _has_coarse_table(db):
            return
        if load_extension(db):
            db.executemany(f"DELETE FROM {COARSE_TABLE} WHERE rowid=?", ((id,) for id in rows))
            return
        # Without the library single rows of the coarse index cannot be deleted: all are, and the index is rebuilt from
        # the fine vectors once the library is available again.
        for (table,) in db.execute(SELECT_SHADOW_TABLES).fetchall():
            db.execute(f'DELETE FROM "{table}"')
        db.execute("INSERT OR IGNORE INTO chores VALUES ('vectors', 1)")

    # --- ingesting -------------------------------------------------------------------------------

    async def set_model(self, model: str, dimensions: int) -> None:
        if not 0 < dimensions <= DIMENSIONS_MAX:
            raise InputRefused(f"vectors of {dimensions} dimensions cannot be stored; at most {DIMENSIONS_MAX}")
        await self._database.run_in_background(_set_model_steps(model, dimensions))

    async def ingest(self, session: str, vectors: Sequence[tuple[int, bytes]], position: int) -> None:
        await self._database.run_in_background(self._ingest_steps(session, vectors, position))

    def _ingest_steps(
        self, session: str, vectors: Sequence[tuple[int, bytes]], position: int
    ) -> Iterator[BackgroundStep]:
        """Yield the steps that store vectors; the last one stores the position. If interrupted, repeating them replaces
        the vectors."""
        count: Counter[int] = Counter()
        numbered: list[tuple[int, int, bytes]] = []
        for seq, vector in vectors:
            if count[seq] < VECTORS_PER_MESSAGE_MAX:
                numbered.append((seq, count[seq], vector))
            count[seq] += 1
        for start in range(0, len(numbered), STEP_VECTORS):
            yield partial(
                self._ingest_step, session=session, vectors=numbered[start : start + STEP_VECTORS], upto=position
            )
        yield partial(self._store_position, session=session, upto=position)

    def _ingest_step(
        self, db: apsw.Connection, session: str, vectors: Sequence[tuple[int, int, bytes]], upto: int
    ) -> None:
        number = ensure_session_id(db, session, self._database.has_journal)
        stored = select_position(db, self.name, number)
        if upto <= stored:
            return
        model, dimensions = _select_model(db)
        tombstones = Tombstones(db, number)
        for seq, n, vector in vectors:
            fine = _quantise(vector, dimensions)
            if fine is None or seq in tombstones or not 0 < seq <= SEQ_MAX:
                continue
            first = ((number << 32) + seq) << 4
            id = first + n if seq > stored else _find_free_id(db, first, fine)
            if id is not None:
                _replace_vector(db, id, model, fine)

    def _store_position(self, db: apsw.Connection, session: str, upto: int) -> None:
        advance_cursor(db, self.name, ensure_session_id(db, session, self._database.has_journal), upto)

    # --- searching -------------------------------------------------------------------------------

    async def find_nearest(self, vector: bytes, limit: int) -> list[MessageRef]:
        return await self._database.read(lambda db: _search_nearest(db, vector, max(0, min(limit, LIMIT_MAX))))

    async def count(self) -> int:
        def work(db: apsw.Connection) -> int:
            count: int = db.execute("SELECT count(*) FROM vectors").get
            return count

        return await self._database.read(work)


def _search_nearest(db: apsw.Connection, vector: bytes, limit: int) -> list[MessageRef]:
    if not (limit and load_extension(db) and _has_coarse_table(db)):
        return []
    fine = _quantise(vector, _select_model(db)[1])
    if fine is None:
        return []
    per_partition = max(16, min(limit * 6 // PARTITIONS + 1, 64))  # one message may have many vectors
    coarse: Iterable[tuple[int]] = db.execute(SEARCH_COARSE, (to_json_array(range(PARTITIONS)), fine, per_partition))
    candidates = to_json_array(id for (id,) in coarse)
    rows: list[tuple[int, float]] = list(db.execute(RANK_FINE, (fine, candidates, limit)))
    names = select_session_keys(db, (id >> 32 for id, _ in rows))
    return [MessageRef(names[id >> 32], id & SEQ_MAX, 1.0 - distance) for id, distance in rows]


# --- fine and coarse vectors ---------------------------------------------------------------------


def _quantise(vector: bytes, dimensions: int) -> bytes | None:
    """Quantise a vector to one signed byte per dimension, scaled so that the largest is 127: cosine similarity does not
    depend on length. None if all components are zero or one is not finite."""
    if len(vector) != dimensions * 4:
        raise InputRefused(f"this vector has {len(vector) // 4} dimensions; the model in use has {dimensions}")
    numbers = array("f", vector)
    largest = max(max(numbers), -min(numbers))
    if not 0 < largest < math.inf:
        return None
    scale = 127 / largest
    fine = array("b", [round(number * scale) for number in numbers])
    return fine.tobytes() + bytes(-dimensions % 8)


def _replace_vector(db: apsw.Connection, id: int, model: int, fine: bytes) -> None:
    db.execute("INSERT OR REPLACE INTO vectors (id, model, fine) VALUES (?,?,?)", (id, model, fine))
    db.execute(f"DELETE FROM {COARSE_TABLE} WHERE rowid=?", (id,))
    db.execute(INSERT_COARSE, (id, _partition_of(id), fine))


def _partition_of(id: int) -> int:
    """Return the partition of an id: a multiplicative hash, so that consecutive ids are spread evenly."""
    return (id * 0x9E3779B97F4A7C15 >> 40) % PARTITIONS


def _find_free_id(db: apsw.Connection, first: int, fine: bytes) -> int | None:
    """Return a free id for one more vector of an older message; None if it is stored already or there are too many."""
    sql = "SELECT id, fine FROM vectors WHERE id BETWEEN ? AND ?"
    rows: list[tuple[int, bytes]] = list(db.execute(sql, (first, first + VECTORS_PER_MESSAGE_MAX - 1)))
    if any(stored == fine for _, stored in rows):
        return None
    used = {id for id, _ in rows}
    return next((id for id in range(first, first + VECTORS_PER_MESSAGE_MAX) if id not in used), None)


# --- embedding models ----------------------------------------------------------------------------


def _select_model(db: apsw.Connection) -> tuple[int, int]:
    row: tuple[int, str, int] | None = db.execute(SELECT_MODEL).fetchone()
    if row is None:
        raise InputRefused("no embedding model is in use yet")
    return row[0], row[2]


def _has_coarse_table(db: apsw.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_schema WHERE name=?", (COARSE_TABLE,)).fetchone() is not None


def _set_model_steps(model: str, dimensions: int) -> Iterator[BackgroundStep]:
    """Yield the steps that switch to a model: another model's vectors disappear from searches at once, and from the
    disk in small steps."""
    yield partial(_set_model, model=model, dimensions=dimensions)
    for begin, process in ((None, _delete_other_models), (_recreate_coarse_table, _restore_coarse)):
        after = [0]
        if begin is not None:
            yield begin
        while after[-1] >= 0:
            yield partial(_process_next, process, after)


def _process_next(process: Callable[[apsw.Connection, int], int], after: list[int], db: apsw.Connection) -> None:
    """Process the next vectors and append the id to continue after; -1: there are no more."""
    after.append(process(db, after[-1]))


def _set_model(db: apsw.Connection, model: str, dimensions: int) -> None:
    if not load_extension(db):
        raise InputRefused("vectors cannot be stored: sqlite-vec is not installed")
    row: tuple[int, str, int] | None = db.execute(SELECT_MODEL).fetchone()
    if row is not None and row[1:] == (model, dimensions) and _has_coarse_table(db):
        return
    db.execute("DELETE FROM cursors WHERE tier='vectors'")
    db.execute("DELETE FROM vector_models")
    db.execute("INSERT INTO vector_models VALUES (?,?,?)", (row[0] + 1 if row else 1, model, dimensions))
    _create_coarse_table(db, dimensions)
    db.execute("DELETE FROM chores WHERE name='vectors'")
    db.execute("INSERT OR IGNORE INTO chores VALUES ('sweep', 1)")


def _is_chore_due(db: apsw.Connection, chore: str) -> bool:
    return db.execute("SELECT 1 FROM chores WHERE name=?", (chore,)).fetchone() is not None


def _create_coarse_table(db: apsw.Connection, dimensions: int) -> None:
    bits = dimensions + -dimensions % 8
    db.execute(f"DROP TABLE IF EXISTS {COARSE_TABLE}")
    db.execute(
        f"CREATE VIRTUAL TABLE {COARSE_TABLE} "
        f"USING vec0 (part integer partition key, bits bit[{bits}], chunk_size={CHUNK_VECTORS})"
    )


def _delete_other_models(db: apsw.Connection, after: int) -> int:
    """Delete the next vectors of other models; returns the last id examined, -1 when there are no more."""
    if not _is_chore_due(db, "sweep"):
        return -1
    sql = "SELECT id, model FROM vectors WHERE id > ? ORDER BY id LIMIT ?"
    rows: list[tuple[int, int]] = list(db.execute(sql, (after, SWEEP_VECTORS)))
    current, _ = _select_model(db)
    db.executemany("DELETE FROM vectors WHERE id=?", [(id,) for id, model in rows if model != current])
    if not rows:
        db.execute("DELETE FROM chores WHERE name='sweep'")
    return rows[-1][0] if rows else -1


def _recreate_coarse_table(db: apsw.Connection) -> None:
    """Recreate the coarse index if it had to be emptied (see `delete_rows`)."""
    if _is_chore_due(db, "vectors"):
        _create_coarse_table(db, _select_model(db)[1])


def _restore_coarse(db: apsw.Connection, after: int) -> int:
    """Add the next fine vectors to the coarse index; returns the last id, -1 when there are no more to add."""
    if not _is_chore_due(db, "vectors"):
        return -1
    sql = "SELECT id, fine FROM vectors WHERE id > ? ORDER BY id LIMIT ?"
    rows: list[tuple[int, bytes]] = list(db.execute(sql, (after, SWEEP_VECTORS)))
    db.executemany(INSERT_COARSE, [(id, _partition_of(id), fine) for id, fine in rows])
    if not rows:
        db.execute("DELETE FROM chores WHERE name='vectors'")
    return rows[-1][0] if rows else -1
