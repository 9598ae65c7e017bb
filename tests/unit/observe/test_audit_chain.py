"""One changed byte anywhere in the audit is found, and where: in the rows, in the database's pages, in an export."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from mainstay.agent.home_audit import accept_resumed_entry, export_audit, verify_audit
from mainstay.core.audit import (
    CHAIN_BEGUN,
    CHAIN_PRUNED,
    CHAIN_RESUMED,
    ENTRY_FIELDS,
    GENESIS_DIGEST,
    AuditEvent,
    AuditQuery,
    chain_entry,
    entry_digest,
)
from mainstay.core.errors import AuditUnavailable, InputRefused, StoreCorrupt
from mainstay.observe.audit_export import AuditExportFormat, AuditExportReader, encode_export
from mainstay.observe.audit_projection import AuditProjection
from mainstay.observe.audit_verifier import AuditFinding, ChainAnchor, ChainRow, ExportComparison, verify_chain
from mainstay.store.sqlite.audit_log import get_audit_log
from mainstay.store.sqlite.audit_log_reader import ANCHOR_FILE
from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase
from mainstay.testing.virtual_time import VirtualClock

ALL = os.environ.get("MAINSTAY_TEST_ALL") == "1"
DB = "gateway.db"
AT = 1_700_000_000_000  # long ago


def facts(count: int, *, at: int = AT) -> list[AuditEvent]:
    """Of all that stands in names: commas, quotes, lines, other scripts, nothing."""
    names = ("plain", 'a "quoted", name', "two\nlines", "Zürich 東京", "", "tab\tend\r")
    return [
        AuditEvent(
            at=at + number,
            kind="tool",
            what=names[number % len(names)],
            workspace="default",
            session=f"s{number % 3}",
            turn=number,
            record=number + 7,
            person="ann" if number % 2 else "",
            details=f'{{"ms":{number},"digest":"{entry_digest([number])}"}}',
        )
        for number in range(count)
    ]


def written_in(home: Path, *batches: Sequence[AuditEvent], strict: bool = False) -> None:
    async def write() -> None:
        database = HomeProjectionDatabase(str(home / DB))
        await database.open()
        try:
            audit = get_audit_log(database)
            audit.strict = strict
            for batch in batches:
                await audit.add(batch)
        finally:
            await database.close()

    asyncio.run(write())


def found_in(home: Path) -> list[str]:
    return [str(one) for one in verify_audit(home) if not one.is_note]


def changed(home: Path, *statements: str) -> None:
    with closing(sqlite3.connect(home / DB)) as db:
        for one in statements:
            db.execute(one)
        db.commit()


def change_elsewhere(home: Path, statement: str) -> None:
    """In another process: a second SQLite library in this one would release its locks, and remove the log."""
    code = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit(); db.close()"
    subprocess.run([sys.executable, "-c", code, str(home / DB), statement], check=True)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    written_in(tmp_path, facts(5), facts(6))
    assert found_in(tmp_path) == []
    return tmp_path


# --- rows ----------------------------------------------------------------------------------------


def every_change(home: Path) -> Iterator[tuple[int, str, object]]:
    """Of every row and every column every byte, as it could be another."""
    with closing(sqlite3.connect(home / DB)) as db:
        rows = db.execute(f"SELECT {', '.join(ENTRY_FIELDS)} FROM audit ORDER BY seq").fetchall()
    for row in rows:
        for column, value in zip(ENTRY_FIELDS, row, strict=True):
            if column == "seq":
                continue
            if isinstance(value, int):
                yield row[0], column, value ^ 1
                continue
            yield row[0], column, value + "x"
            for place in range(len(value)):
                yield row[0], column, value[:place] + ("x" if value[place] != "x" else "y") + value[place + 1 :]


def test_any_character_of_any_column_of_any_row_is_missed_and_its_entry_named(home: Path) -> None:
    changes = list(every_change(home))
    assert len(changes) > 2_500
    some = changes if ALL else random.Random(7).sample(changes, 400)
    with closing(sqlite3.connect(home / DB, isolation_level=None)) as db:
        for seq, column, value in some:
            db.execute("BEGIN")
            db.execute(f"UPDATE audit SET {column}=? WHERE seq=?", (value, seq))
            rows = [
                ChainRow("db", one) for one in db.execute(f"SELECT {', '.join(ENTRY_FIELDS)} FROM audit ORDER BY seq")
            ]
            db.execute("ROLLBACK")
            found = list(verify_chain(rows, lambda: None))
            what = f"the digest of entry {seq} was changed" if column == "digest" and seq < len(rows) else None
            assert [one.message for one in found] == [what or f"entry {seq} was changed"], (seq, column)


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        (["DELETE FROM audit WHERE seq=4"], ["gateway.db: entry 4 is missing"]),
        (["DELETE FROM audit WHERE seq IN (4, 5, 6)"], ["gateway.db: entries 4 to 6 are missing"]),
        (["DELETE FROM audit WHERE seq=1"], ["gateway.db: entry 1 is missing, and no pruning entry accounts for this"]),
        (
            ["DELETE FROM audit WHERE seq < 5"],
            ["gateway.db: entries 1 to 4 are missing, and no pruning entry accounts for this"],
        ),
        (["DELETE FROM audit WHERE seq=12"], ["audit-head: entry 12 is missing at the end"]),
        (["DELETE FROM audit WHERE seq > 9"], ["audit-head: entries 10 to 12 are missing at the end"]),
        (["DELETE FROM audit"], ["audit-head: entries 1 to 12 are missing at the end"]),
        (["UPDATE audit SET seq=-seq WHERE seq IN (3,4)", "UPDATE audit SET seq=7+seq WHERE seq<0"], None),
        (["UPDATE audit SET seq=40 WHERE seq=5"], None),
        (["INSERT INTO audit SELECT 13, at, kind, workspace, session, turn, record, person, what, details, before, "
          "digest FROM audit WHERE seq=12"], ["gateway.db: entry 13 was changed"]),
        (["INSERT INTO audit SELECT -5, at, kind, workspace, session, turn, record, 'mallory', what, details, before, "
          "digest FROM audit WHERE seq=2"], ["gateway.db: entry -5 was inserted: numbers begin with 1"]),
        (["INSERT INTO audit SELECT 0, at, kind, workspace, session, turn, record, person, what, details, before, "
          "digest FROM audit WHERE seq=2"], ["gateway.db: entry 0 was inserted"]),
    ],
    ids=["one", "some", "the first", "the oldest", "the last", "the newest", "all", "swapped", "moved", "put in",
         "put in before", "numbered nought"],
)  # fmt: skip
def test_removed_inserted_or_moved_rows_are_reported_with_their_numbers(
    home: Path, statements: list[str], says: list[str] | None
) -> None:
    changed(home, *statements)
    found = found_in(home)
    assert found
    if says is not None:
        assert len(found) == len(says)
        assert all(one.startswith(said) for one, said in zip(found, says, strict=True)), found


def test_two_rows_that_changed_places_are_both_named(home: Path) -> None:
    columns = [name for name in ENTRY_FIELDS if name != "seq"]
    with closing(sqlite3.connect(home / DB)) as db:
        rows = {
            row[0]: row[1:] for row in db.execute(f"SELECT {', '.join(ENTRY_FIELDS)} FROM audit WHERE seq IN (4, 5)")
        }
        for seq, other in ((4, 5), (5, 4)):
            assignments = ", ".join(f"{name}=?" for name in columns)
            db.execute(f"UPDATE audit SET {assignments} WHERE seq=?", (*rows[other], seq))
        db.commit()
    found = " ".join(found_in(home))
    assert "entry 4 was changed" in found
    assert "entry 5 was changed" in found


def test_a_chain_that_was_forged_to_its_end_does_not_fit_what_was_noted_beside_it(home: Path) -> None:
    """An attacker who can write the rows can compute digests; one who can write both files is not detected by them."""
    with closing(sqlite3.connect(home / DB)) as db:
        rows = db.execute(f"SELECT {', '.join(ENTRY_FIELDS)} FROM audit ORDER BY seq").fetchall()
        before = rows[3][-1]
        for row in rows[4:]:
            fields = dict(zip(ENTRY_FIELDS, row, strict=True)) | {"person": "mallory"}
            made = chain_entry(
                AuditEvent(**{name: fields[name] for name in AuditEvent.__struct_fields__}), row[0], before
            )
            before = made[-1]
            db.execute(f"REPLACE INTO audit VALUES ({','.join('?' * len(ENTRY_FIELDS))})", made)
        db.commit()
    assert found_in(home) == ["audit-head: entry 12 does not have the digest that is recorded here"]


def test_every_byte_of_the_note_beside_it_counts(home: Path) -> None:
    kept = (home / ANCHOR_FILE).read_bytes()
    for place in range(len(kept) - 1):  # the last is the end of the line, which says nothing
        (home / ANCHOR_FILE).write_bytes(kept[:place] + bytes([kept[place] ^ 1]) + kept[place + 1 :])
        assert found_in(home), f"byte {place}"
    (home / ANCHOR_FILE).unlink()
    assert found_in(home) == ["audit-head: it is missing or empty: entries may be missing at the end"]


def test_rows_that_a_crash_left_newer_than_the_note_are_fine(home: Path) -> None:
    older = (home / ANCHOR_FILE).read_bytes()
    written_in(home, facts(3))
    (home / ANCHOR_FILE).write_bytes(older)
    assert found_in(home) == []
    written_in(home, facts(1))
    assert found_in(home) == []
    assert not [one for one in verify_audit(home) if one.is_note]


# --- pages ---------------------------------------------------------------------------------------


def test_a_changed_byte_of_an_entry_is_found_in_any_page_of_the_database(home: Path) -> None:
    """Bytes that are part of no entry (unused space, other tables) are not the audit's; those that are, are found."""
    path = home / DB
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = db.execute("PRAGMA page_size").fetchone()[0]
        texts = [one for row in db.execute("SELECT details, before, digest FROM audit") for one in row]
        root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name='audit'").fetchone()[0]
    whole = path.read_bytes()
    content = [place + n for text in texts for place in _all(whole, text.encode()) for n in range(len(text))]
    start = (root - 1) * size
    header = range(start, start + 8)  # of the b-tree: its kind, how many cells, where they begin
    assert len(content) > 1_500
    places = sorted(set(content)) if ALL else random.Random(3).sample(sorted(set(content)), 120)
    for place in [*places, *header]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x04]) + whole[place + 1 :])
        found = found_in(home)
        unused = place in header and place - start in (1, 2, 7)  # where free blocks are, of which there are none
        assert found or unused, f"byte {place}"
    path.write_bytes(whole)
    assert found_in(home) == []


def _all(whole: bytes, part: bytes) -> Iterator[int]:
    place = whole.find(part)
    while place >= 0:
        yield place
        place = whole.find(part, place + 1)


def test_a_row_with_invalid_text_is_named_and_the_others_are_read(home: Path) -> None:
    path = home / DB
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (digest,) = db.execute("SELECT digest FROM audit WHERE seq=6").fetchone()
    whole = path.read_bytes()
    for place in _all(whole, digest.encode()):
        whole = whole[:place] + b"\xff" + whole[place + 1 :]
    path.write_bytes(whole)
    found = found_in(home)
    assert "gateway.db: entry 6 cannot be read" in found
    assert not any("entry 9" in one for one in found)
    with pytest.raises(StoreCorrupt, match="entry 6 of the audit log cannot be read"):
        list(export_audit(home, "jsonl"))


def test_a_file_that_is_no_database_any_more_is_one_finding(home: Path) -> None:
    (home / DB).write_bytes(b"nothing of the kind" * 100)
    (found,) = found_in(home)
    assert "is damaged" in found


# --- exports -------------------------------------------------------------------------------------


def read_back(content: bytes) -> list[AuditFinding]:
    kept = AuditExportReader(io.BytesIO(content))
    return list(verify_chain(kept.rows(), kept.anchor))


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_an_export_is_verified_by_itself_and_any_changed_byte_of_it_is_found_and_located(
    home: Path, format: AuditExportFormat
) -> None:
    lines = list(export_audit(home, format))
    content = b"".join(lines)
    assert read_back(content) == []
    ends = [sum(map(len, lines[: number + 1])) for number in range(len(lines))]
    places = range(len(content)) if ALL else random.Random(5).sample(range(len(content)), 700)
    for place in places:
        for bit in (0x01, 0x20):  # 0x20: also what differs only in case
            broken = content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]
            found = read_back(broken)
            assert found, f"byte {place}: {broken[max(0, place - 20) : place + 20]!r}"
            record = next(number for number, end in enumerate(ends) if place < end)
            line = b"".join(lines[:record]).count(b"\n") + 1
            assert f"line {line}" in [one.location for one in found], (place, found)


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_a_cut_or_extended_export_is_reported(home: Path, format: AuditExportFormat) -> None:
    lines = list(export_audit(home, format))
    cases: dict[str, Callable[[], list[bytes]]] = {
        "the end line is missing": lambda: lines[:-1],
        "missing": lambda: [*lines[:4], *lines[5:]],
        "there is something after the end line": lambda: [*lines, lines[3]],
        "comes after entry": lambda: [*lines[:5], lines[3], *lines[5:]],
    }
    for said, cut in cases.items():
        assert said in " ".join(map(str, read_back(b"".join(cut()))))
    halves = b"".join(lines)
    assert all(read_back(halves[:size]) for size in range(0, len(halves), 97))


def test_an_export_of_nothing_is_fine_and_a_file_of_nothing_is_not() -> None:
    for format in ("jsonl", "csv"):
        assert read_back(b"".join(encode_export([], format))) == []  # type: ignore[arg-type]
    assert [one.message for one in read_back(b"")] == ["the end line is missing"]


# --- pruning -------------------------------------------------------------------------------------


def pruned(home: Path, before: int) -> int:
    async def prune() -> int:
        database = HomeProjectionDatabase(str(home / DB))
        await database.open()
        try:
            return await get_audit_log(database).prune(before)
        finally:
            await database.close()

    return asyncio.run(prune())


def test_old_entries_are_pruned_and_the_rest_can_still_be_verified(tmp_path: Path) -> None:
    written_in(tmp_path, facts(30, at=AT), facts(10, at=AT + 1_000_000))
    assert pruned(tmp_path, AT + 1_000) == 0  # the first entry is of today: it keeps what is after it
    home = tmp_path / "older"
    home.mkdir()
    written_in(home, facts(30, at=AT))
    with closing(sqlite3.connect(home / DB)) as db:  # as if it had begun back then
        _again(db, {1: AT - 5})
    written_in(home, facts(10, at=AT + 1_000_000))
    assert pruned(home, AT + 1_000) == 31
    assert found_in(home) == []
    with closing(sqlite3.connect(home / DB)) as db:
        kinds = [kind for (kind,) in db.execute("SELECT kind FROM audit ORDER BY seq")]
        first = db.execute("SELECT min(seq) FROM audit").fetchone()
    assert (first, kinds.count(CHAIN_PRUNED), len(kinds)) == ((32,), 1, 11)
    assert read_back(b"".join(export_audit(home, "jsonl"))) == []
    assert pruned(home, AT + 1_000) == 0
    changed(home, "DELETE FROM audit WHERE seq=32")
    assert "no pruning entry accounts for this" in found_in(home)[0]


def test_old_entries_are_pruned_also_when_idle(tmp_path: Path) -> None:
    async def idle() -> None:
        database = HomeProjectionDatabase(str(tmp_path / DB))
        await database.open()
        try:
            clock = VirtualClock(start_ms=AT + 400 * 86_400_000)
            reader = AuditProjection(get_audit_log(database), clock, "default", str, 365)
            await reader.run_maintenance()
            assert [one.seq for one in await get_audit_log(database).find_entries(AuditQuery())] == [12, 13]
            await reader.run_maintenance()
        finally:
            await database.close()

    written_in(tmp_path, facts(11))
    with closing(sqlite3.connect(tmp_path / DB)) as db:
        _again(db, {1: AT - 5})
    asyncio.run(idle())
    assert found_in(tmp_path) == []


def test_an_audit_into_which_entries_were_put_is_left_as_it_is(home: Path) -> None:
    put = (
        "INSERT INTO audit SELECT -5, 1, kind, workspace, session, turn, record, person, what, details, before, digest"
    )
    changed(home, f"{put} FROM audit WHERE seq=2")
    with pytest.raises(AuditUnavailable, match="with forged entries is not pruned"):
        pruned(home, AT * 2)
    assert len(found_in(home)) == 1


def test_the_first_thing_done_to_an_audit_may_be_to_look_for_what_is_too_old(home: Path) -> None:
    changed(home, "DELETE FROM audit")

    async def look() -> None:
        database = HomeProjectionDatabase(str(home / DB))
        await database.open()
        try:
            await get_audit_log(database).prune(1)
            await get_audit_log(database).add(facts(1))
        finally:
            await database.close()

    asyncio.run(look())
    with closing(sqlite3.connect(home / DB)) as db:
        assert db.execute("SELECT count(*) FROM audit WHERE kind=?", (CHAIN_RESUMED,)).fetchone() == (1,)


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", "\tx", "'quoted", "''", "it's"])
def test_a_name_that_a_spreadsheet_would_evaluate_is_exported_as_text_and_reads_back(name: str) -> None:
    begun = chain_entry(AuditEvent(at=AT, kind=CHAIN_BEGUN), 1, GENESIS_DIGEST)
    row = chain_entry(AuditEvent(at=AT, kind="tool", what=name), 2, begun[-1])
    content = b"".join(encode_export((begun, row), "csv"))
    assert read_back(content) == []
    (cell,) = [one[ENTRY_FIELDS.index("what")] for one in csv.reader(io.StringIO(content.decode())) if one[0] == "2"][
        :1
    ]
    assert cell == (name if name == "it's" else f"'{name}")


def test_a_bug_of_one_writer_is_reported_to_that_one_and_the_others_go_on(tmp_path: Path) -> None:
    def breaks(db: object) -> None:
        raise AttributeError("a bug")

    async def write() -> None:
        database = HomeProjectionDatabase(str(tmp_path / DB))
        await database.open()
        try:
            tried = (
                get_audit_log(database).add(facts(1)),
                database.write(breaks),
                get_audit_log(database).add(facts(1)),
            )
            done = await asyncio.wait_for(asyncio.gather(*tried, return_exceptions=True), 120)
            assert [type(one) for one in done] == [type(None), AttributeError, type(None)]
            await asyncio.wait_for(get_audit_log(database).add(facts(1)), 120)
        finally:
            await database.close()

    asyncio.run(write())
    assert found_in(tmp_path) == []


def _again(db: sqlite3.Connection, times: dict[int, int]) -> None:
    """The same entries at other times, and the note beside them."""
    before = GENESIS_DIGEST
    rows = db.execute(f"SELECT {', '.join(ENTRY_FIELDS)} FROM audit ORDER BY seq").fetchall()
    for row in rows:
        fields = dict(zip(ENTRY_FIELDS, row, strict=True))
        fields["at"] = times.get(row[0], row[1])
        made = chain_entry(AuditEvent(**{name: fields[name] for name in AuditEvent.__struct_fields__}), row[0], before)
        before = made[-1]
        db.execute(f"REPLACE INTO audit VALUES ({','.join('?' * len(ENTRY_FIELDS))})", made)
    path = Path(db.execute("PRAGMA database_list").fetchone()[2]).with_name(ANCHOR_FILE)
    path.write_text(f'{{"seq":{rows[-1][0]},"digest":"{before}"}}\n')
    db.commit()


# --- continuing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM audit WHERE seq > 9", "UPDATE audit SET person='x' WHERE seq=12", "DELETE FROM audit"],
    ids=["the newest are gone", "the last was changed", "all are gone"],
)
def test_an_audit_that_is_not_as_it_was_left_goes_on_with_that_on_record_or_not_at_all(
    home: Path, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    changed(home, statement)
    with pytest.raises(AuditUnavailable, match="the audit log does not match its last recorded state"):
        written_in(home, facts(1), strict=True)
    written_in(home, facts(1))
    assert any(one.levelname == "CRITICAL" for one in caplog.records)
    with closing(sqlite3.connect(home / DB)) as db:
        ((seq,),) = db.execute("SELECT seq FROM audit WHERE kind=?", (CHAIN_RESUMED,)).fetchall()
    written_in(home, facts(1), strict=True)  # that is how it was left now
    *others, went_on = found_in(home)
    assert went_on.startswith(f"gateway.db: entry {seq} says that the audit log was continued although")
    assert others == (["gateway.db: entry 12 was changed"] if "UPDATE" in statement else [])


def test_that_the_audit_went_on_is_wrong_until_the_owner_says_that_they_know_which_is_on_record(home: Path) -> None:
    changed(home, "DELETE FROM audit WHERE seq > 9")
    written_in(home, facts(1))
    for other in (1, 9, 11, 99):
        with pytest.raises(InputRefused, match=f"entry {other} does not say that the audit log was continued"):
            asyncio.run(accept_resumed_entry(home, other))
    assert len(found_in(home)) == 1
    asyncio.run(accept_resumed_entry(home, 10))
    assert found_in(home) == []
    (note,) = [one.message for one in verify_audit(home) if one.is_note]
    assert note.endswith("although entries 10 to 12 are gone; entry 12 acknowledges this")
    changed(home, "DELETE FROM audit WHERE seq > 11")  # and if that goes, it is missed like any other
    with pytest.raises(AuditUnavailable):
        asyncio.run(accept_resumed_entry(home, 10))
    assert len(found_in(home)) == 2


def test_an_audit_of_which_nothing_is_left_is_not_a_new_one(tmp_path: Path) -> None:
    assert found_in(tmp_path) == []  # no export was ever kept
    followed_in(tmp_path)
    (tmp_path / ANCHOR_FILE).unlink()
    changed(tmp_path, "DELETE FROM audit")
    gone = "gateway.db: all entries are missing, although journal records were audited"
    assert found_in(tmp_path) == [gone]
    followed_in(tmp_path)
    assert "although all its entries are gone, and no entry acknowledges" in found_in(tmp_path)[0]
    for name in (DB, f"{DB}-wal", f"{DB}-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    assert found_in(tmp_path) == [
        f"gateway.db: the file is missing, although {ANCHOR_FILE} says that it held an audit log"
    ]


def followed_in(home: Path) -> None:
    async def write() -> None:
        database = HomeProjectionDatabase(str(home / DB))
        await database.open()
        try:
            await get_audit_log(database).add_from_journal("default", "s", 3, facts(2))
        finally:
            await database.close()

    asyncio.run(write())


# --- against an earlier export -------------------------------------------------------------------


def compared(home: Path, export: bytes) -> list[str]:
    return [
        str(one)
        for one in verify_audit(home, ExportComparison("old.jsonl", AuditExportReader(io.BytesIO(export)).rows()))
        if not one.is_note
    ]


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_an_earlier_export_tells_a_rollback_and_a_forged_chain_from_the_true_one(
    home: Path, format: AuditExportFormat
) -> None:
    early = (home / DB).read_bytes(), (home / ANCHOR_FILE).read_bytes()
    assert compared(home, b"".join(export_audit(home, format))) == []
    written_in(home, facts(4))
    export = b"".join(export_audit(home, format))
    written_in(home, facts(3))
    assert compared(home, export) == []  # what came since is none of its business

    whole = (home / DB).read_bytes(), (home / ANCHOR_FILE).read_bytes()
    (home / DB).write_bytes(early[0])
    (home / ANCHOR_FILE).write_bytes(early[1])
    assert found_in(home) == []  # by itself it is sound
    assert compared(home, export) == [
        "old.jsonl: entries 13 to 16 are missing: this export goes further than the audit log"
    ]

    (home / DB).write_bytes(whole[0])
    (home / ANCHOR_FILE).write_bytes(whole[1])
    with closing(sqlite3.connect(home / DB)) as db:
        db.execute("UPDATE audit SET person='mallory' WHERE seq=6")
        _again(db, {})
    assert found_in(home) == []
    assert compared(home, export) == ["old.jsonl: entry 6 was different when this export was written"]


def test_an_export_older_than_all_kept_entries_verifies_what_it_can(tmp_path: Path) -> None:
    written_in(tmp_path, facts(10), facts(10, at=AT * 2))
    changed(tmp_path, "UPDATE audit SET at=1 WHERE seq=1")  # it began long ago
    with closing(sqlite3.connect(tmp_path / DB)) as db:
        _again(db, {})
    whole = b"".join(export_audit(tmp_path, "jsonl"))
    assert pruned(tmp_path, AT * 2) == 11
    assert compared(tmp_path, whole) == []
    lines = whole.splitlines(keepends=True)
    assert compared(tmp_path, b"".join(lines[:11])) == []  # the digest of the last that went is there
    assert compared(tmp_path, b"".join(lines[:5])) == [
        "old.jsonl: it cannot be compared: all of its entries have been removed since"
    ]
    assert compared(tmp_path, b"".join(encode_export((), "jsonl"))) == []


def test_rows_that_go_missing_while_it_is_written_to_are_missed(home: Path) -> None:
    async def write() -> None:
        database = HomeProjectionDatabase(str(home / DB))
        await database.open()
        try:
            await get_audit_log(database).add(facts(2))
            await asyncio.to_thread(change_elsewhere, home, "DELETE FROM audit WHERE seq=14")
            await get_audit_log(database).add(facts(1))
        finally:
            await database.close()

    asyncio.run(write())
    continued = "says that the audit log was continued although entry 14 is gone"
    assert [continued in str(one) for one in verify_audit(home)] == [True]


def test_facts_of_many_writers_are_one_chain(tmp_path: Path) -> None:
    async def write() -> None:
        database = HomeProjectionDatabase(str(tmp_path / DB))
        await database.open()
        try:
            audit = get_audit_log(database)
            await asyncio.gather(*(audit.add_from_journal("w", f"s{n}", 4, facts(3)) for n in range(100)))
            assert await audit.positions("w") == {f"s{n}": 4 for n in range(100)}
        finally:
            await database.close()

    asyncio.run(write())
    assert found_in(tmp_path) == []
    with closing(sqlite3.connect(tmp_path / DB)) as db:
        assert db.execute("SELECT count(*) FROM audit").fetchone() == (301,)


def test_an_exported_end_alone_is_enough_to_verify() -> None:
    rows, before = [], GENESIS_DIGEST
    for seq, fact in enumerate(facts(3), 1):
        rows.append(chain_entry(fact, seq, before))
        before = rows[-1][-1]
    found = list(verify_chain([ChainRow("x", one) for one in rows], lambda: ChainAnchor("there", 3, before)))
    assert [str(one) for one in found] == ["x: entry 1 is not a valid first entry"]
