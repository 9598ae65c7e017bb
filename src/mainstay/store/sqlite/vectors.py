"""Every message by its meaning: the VectorTier on sqlite-vec.

Each vector is kept twice: one bit for each dimension, to go through all of them quickly, and one byte for each, to
put the best of those in order. The bits lie in partitions that have nothing to do with their content: the time that
sqlite-vec takes grows with how many neighbours it is asked for, and sixteen small questions are quicker than one.
"""

from __future__ import annotations

import importlib.util
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import apsw

from mainstay.core.errors import InputRefused
from mainstay.core.recall import Spot
from mainstay.store.sqlite.cursors import MOST, Gone, advance, followed, keys, listed, position
from mainstay.store.sqlite.slices import Step
from mainstay.store.sqlite.tier import SqliteTier

PARTITIONS = 16
CHUNK = 512  # vectors that lie together
EACH_MAX = 16  # vectors of one message: four bits of the id
SLICE = 32  # vectors written in one go
SWEEP = 512  # old ones deleted in one go
DIMENSIONS_MAX = 4_096
LIMIT_MAX = 1_000

NEAR = "vectors_near"
SHADOWS = f"SELECT name FROM sqlite_schema WHERE name LIKE '{NEAR}\\_%' ESCAPE '\\' AND type='table'"
PUT = f"INSERT INTO {NEAR} (rowid, part, bits) VALUES (?, ?, vec_quantize_binary(vec_int8(?)))"
COARSE = f"""
SELECT found.rowid FROM json_each(?) AS parts CROSS JOIN {NEAR} AS found
WHERE found.bits MATCH vec_quantize_binary(vec_int8(?)) AND found.k = ? AND found.part = parts.value"""
FINE = """
SELECT vectors.id >> 4 AS place, min(vec_distance_cosine(vec_int8(vectors.fine), vec_int8(?))) AS distance
FROM json_each(?) AS found CROSS JOIN vectors ON vectors.id = found.value
GROUP BY place ORDER BY distance, place LIMIT ?"""
MODEL = "SELECT id, name, dimensions FROM vector_models ORDER BY id DESC LIMIT 1"


@cache
def extension() -> str | None:
    """Where sqlite-vec's library is; None if it is not installed or cannot be loaded."""
    found = importlib.util.find_spec("sqlite_vec")  # importing it would import numpy too
    if found is None or not found.submodule_search_locations:
        return None
    path = str(Path(found.submodule_search_locations[0]) / "vec0")
    try:
        db = apsw.Connection(":memory:")
        _load(db, path)
        db.close()
    except (apsw.Error, AttributeError):  # built without, or for another machine
        return None
    return path


def ready(db: apsw.Connection) -> bool:
    """Whether this connection can work with vectors."""
    try:
        db.execute("SELECT vec_version()").fetchall()
    except apsw.SQLError:
        path = extension()
        if path is None:
            return False
        _load(db, path)
    return True


def _load(db: apsw.Connection, path: str) -> None:
    db.enable_load_extension(True)
    try:
        db.load_extension(path)
    finally:
        db.enable_load_extension(False)


class SqliteVectors(SqliteTier):
    name = "vectors"

    @staticmethod
    def held(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        low = session << 36
        if seqs is None:
            rows: Any = db.execute("SELECT id FROM vectors WHERE id >= ? AND id < ?", (low, low + (1 << 36)))
        else:
            wanted = listed(low + (seq << 4) + n for seq in seqs for n in range(EACH_MAX))
            rows = db.execute("SELECT id FROM vectors WHERE id IN (SELECT value FROM json_each(?))", (wanted,))
        return [row[0] for row in rows]

    @staticmethod
    def delete(db: apsw.Connection, rows: Sequence[int]) -> None:
        db.executemany("DELETE FROM vectors WHERE id=?", ((id,) for id in rows))
        if not _made(db):
            return
        if ready(db):
            db.executemany(f"DELETE FROM {NEAR} WHERE rowid=?", ((id,) for id in rows))
            return
        # Without its library single rows cannot be taken out of that table: all of it goes, and is made again from
        # the fine ones when the library is back.
        for (table,) in db.execute(SHADOWS).fetchall():
            db.execute(f'DELETE FROM "{table}"')
        db.execute("INSERT OR IGNORE INTO chores VALUES ('vectors', 1)")

    # --- following -------------------------------------------------------------------------------

    async def use(self, model: str, dimensions: int) -> None:
        if not 0 < dimensions <= DIMENSIONS_MAX:
            raise InputRefused(f"vectors of {dimensions} dimensions cannot be kept; at most {DIMENSIONS_MAX}")
        await self._desk.trickle(_using(model, dimensions))

    async def absorb(self, session: str, vectors: Sequence[tuple[int, bytes]], upto: int) -> None:
        await self._desk.trickle(self._slices(session, vectors, upto))

    def _slices(self, session: str, vectors: Sequence[tuple[int, bytes]], upto: int) -> Iterator[Step]:
        """The position comes with the last of them; before that, the same again replaces what is there."""
        count: Counter[int] = Counter()
        numbered: list[tuple[int, int, bytes]] = []
        for seq, vector in vectors:
            if count[seq] < EACH_MAX:
                numbered.append((seq, count[seq], vector))
            count[seq] += 1
        for start in range(0, len(numbered), SLICE):
            yield partial(self._absorb, session=session, vectors=numbered[start : start + SLICE], upto=upto)
        yield partial(self._arrive, session=session, upto=upto)

    def _absorb(self, db: apsw.Connection, session: str, vectors: Sequence[tuple[int, int, bytes]], upto: int) -> None:
        number = followed(db, session, self._desk.journal)
        have = position(db, self.name, number)
        if upto <= have:
            return
        model, dimensions = _model(db)
        gone = Gone(db, number)
        for seq, n, vector in vectors:
            fine = _bytes(vector, dimensions)
            if fine is None or seq in gone or not 0 < seq <= MOST:
                continue
            first = ((number << 32) + seq) << 4
            id = first + n if seq > have else _free(db, first, fine)
            if id is not None:
                _put(db, id, model, fine)

    def _arrive(self, db: apsw.Connection, session: str, upto: int) -> None:
        advance(db, self.name, followed(db, session, self._desk.journal), upto)

    # --- finding ---------------------------------------------------------------------------------

    async def nearest(self, vector: bytes, limit: int) -> list[Spot]:
        return await self._desk.read(lambda db: _nearest(db, vector, max(0, min(limit, LIMIT_MAX))))

    async def count(self) -> int:
        def work(db: apsw.Connection) -> int:
            row: Any = db.execute("SELECT count(*) FROM vectors").fetchone()
            return int(row[0])

        return await self._desk.read(work)


def _nearest(db: apsw.Connection, vector: bytes, limit: int) -> list[Spot]:
    if not (limit and ready(db) and _made(db)):
        return []
    fine = _bytes(vector, _model(db)[1])
    if fine is None:
        return []
    each = max(16, min(limit * 6 // PARTITIONS + 1, 64))  # one message may have many vectors
    rows: Any = db.execute(COARSE, (listed(range(PARTITIONS)), fine, each))
    found = listed(id for (id,) in rows)
    rows = db.execute(FINE, (fine, found, limit)).fetchall()
    names = keys(db, (place >> 32 for place, _ in rows))
    return [Spot(names[place >> 32], place & MOST, 1.0 - distance) for place, distance in rows]


# --- the two copies ------------------------------------------------------------------------------


def _bytes(vector: bytes, dimensions: int) -> bytes | None:
    """A byte for each dimension, scaled so that the largest fills it: an angle does not depend on lengths. None for
    a vector that points nowhere."""
    if len(vector) != dimensions * 4:
        raise InputRefused(f"a vector of {len(vector) // 4} dimensions came; the model in use has {dimensions}")
    numbers = array("f", vector)
    most = max(max(numbers), -min(numbers))
    if not 0 < most < math.inf:
        return None
    scale = 127 / most
    fine = array("b", [round(number * scale) for number in numbers])
    return fine.tobytes() + bytes(-dimensions % 8)


def _put(db: apsw.Connection, id: int, model: int, fine: bytes) -> None:
    db.execute("INSERT OR REPLACE INTO vectors (id, model, fine) VALUES (?,?,?)", (id, model, fine))
    db.execute(f"DELETE FROM {NEAR} WHERE rowid=?", (id,))
    db.execute(PUT, (id, _part(id), fine))


def _part(id: int) -> int:
    """Spread evenly, whatever ids look like."""
    return (id * 0x9E3779B97F4A7C15 >> 40) % PARTITIONS


def _free(db: apsw.Connection, first: int, fine: bytes) -> int | None:
    """Where one more vector of an older message goes; None if it is there already, or has too many."""
    rows: Any = db.execute(
        "SELECT id, fine FROM vectors WHERE id BETWEEN ? AND ?", (first, first + EACH_MAX - 1)
    ).fetchall()
    if any(have == fine for _, have in rows):
        return None
    taken = {id for id, _ in rows}
    return next((id for id in range(first, first + EACH_MAX) if id not in taken), None)


# --- models --------------------------------------------------------------------------------------


def _model(db: apsw.Connection) -> tuple[int, int]:
    row: Any = db.execute(MODEL).fetchone()
    if row is None:
        raise InputRefused("no model for vectors is in use yet")
    return row[0], row[2]


def _made(db: apsw.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_schema WHERE name=?", (NEAR,)).fetchone() is not None


def _using(model: str, dimensions: int) -> Iterator[Step]:
    """Those of another model go: at once for whoever searches, and from the disk a little at a time."""
    yield partial(_use, model=model, dimensions=dimensions)
    for begin, some in ((None, _sweep), (_begin_again, _restore)):
        after = [0]
        if begin is not None:
            yield begin
        while after[-1] >= 0:
            yield partial(_go_on, some, after)


def _go_on(some: Callable[[apsw.Connection, int], int], after: list[int], db: apsw.Connection) -> None:
    after.append(some(db, after[-1]))


def _use(db: apsw.Connection, model: str, dimensions: int) -> None:
    if not ready(db):
        raise InputRefused("vectors cannot be kept here: sqlite-vec is not installed")
    row: Any = db.execute(MODEL).fetchone()
    if row is not None and row[1:] == (model, dimensions) and _made(db):
        return
    db.execute("DELETE FROM cursors WHERE tier='vectors'")
    db.execute("DELETE FROM vector_models")
    db.execute("INSERT INTO vector_models VALUES (?,?,?)", (row[0] + 1 if row else 1, model, dimensions))
    _make(db, dimensions)
    db.execute("DELETE FROM chores WHERE name='vectors'")
    db.execute("INSERT OR IGNORE INTO chores VALUES ('sweep', 1)")


def _due(db: apsw.Connection, chore: str) -> bool:
    return db.execute("SELECT 1 FROM chores WHERE name=?", (chore,)).fetchone() is not None


def _make(db: apsw.Connection, dimensions: int) -> None:
    bits = dimensions + -dimensions % 8
    db.execute(f"DROP TABLE IF EXISTS {NEAR}")
    db.execute(
        f"CREATE VIRTUAL TABLE {NEAR} USING vec0 (part integer partition key, bits bit[{bits}], chunk_size={CHUNK})"
    )


def _sweep(db: apsw.Connection, after: int) -> int:
    """Delete the next few of other models; -1 when there are no more."""
    if not _due(db, "sweep"):
        return -1
    rows: Any = db.execute("SELECT id, model FROM vectors WHERE id > ? ORDER BY id LIMIT ?", (after, SWEEP)).fetchall()
    current, _ = _model(db)
    db.executemany("DELETE FROM vectors WHERE id=?", [(id,) for id, model in rows if model != current])
    if not rows:
        db.execute("DELETE FROM chores WHERE name='sweep'")
    return rows[-1][0] if rows else -1


def _begin_again(db: apsw.Connection) -> None:
    """If the coarse ones had to be thrown away (see `delete`)."""
    if _due(db, "vectors"):
        _make(db, _model(db)[1])


def _restore(db: apsw.Connection, after: int) -> int:
    """Make the next few coarse ones from the fine; -1 when there are no more, or nothing is missing."""
    if not _due(db, "vectors"):
        return -1
    rows: Any = db.execute("SELECT id, fine FROM vectors WHERE id > ? ORDER BY id LIMIT ?", (after, SWEEP)).fetchall()
    db.executemany(PUT, [(id, _part(id), fine) for id, fine in rows])
    if not rows:
        db.execute("DELETE FROM chores WHERE name='vectors'")
    return rows[-1][0] if rows else -1
