"""The statement checker: a model's statement is checked and rewritten without a database."""

from __future__ import annotations

import contextlib
import os
import time

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.backends.base import BackendRefused
from mainstay.backends.sql.catalog import Catalog, Relation, ascii_lower
from mainstay.backends.sql.manifest import SqlScope
from mainstay.backends.sql.scope import SqlScopeMatcher
from mainstay.backends.sql.statement_allowlists import MYSQL, POSTGRES, SQLITE
from mainstay.backends.sql.statement_checker import StatementChecker, check_keywords, check_view_definition

pytest.importorskip("sqlglot")

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
IN_SCOPE = ("orders", "customers")
BEYOND = ("secrets", "salaries")
DIALECTS = {dialect.name: dialect for dialect in (SQLITE, POSTGRES, MYSQL)}
USUAL = {"sqlite": "main", "postgres": "public", "mysql": "shop"}


def judge(name: str) -> StatementChecker:
    fold = ascii_lower if name == "sqlite" else str
    usual = USUAL[name]
    relations = [Relation(database=usual, schema=usual, name=one) for one in (*IN_SCOPE, *BEYOND)]
    relations.append(Relation(database=usual, schema="hr", name="orders"))
    catalog = Catalog(relations, (usual,), fold)
    return StatementChecker(DIALECTS[name], catalog, SqlScopeMatcher(SqlScope(tables=IN_SCOPE), (usual,), fold))  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        ("sqlite", "select [id], `total` from ORDERS -- x", 'SELECT "id", "total" FROM "main"."orders"'),
        ("postgres", "SELECT ID FROM Orders /* x */", 'SELECT "id" FROM "public"."orders"'),
        ("postgres", 'SELECT "ID" FROM orders', 'SELECT "ID" FROM "public"."orders"'),
        ("mysql", "select id from orders # x", "SELECT `id` FROM `shop`.`orders`"),
        ("mysql", "SELECT 'a\\'b' FROM orders", "SELECT 'a''b' FROM `shop`.`orders`"),
        ("mysql", r"SELECT '\\' FROM orders", r"SELECT '\\' FROM `shop`.`orders`"),
        ("postgres", "SELECT $$a'b$$", "SELECT 'a''b'"),
        ("sqlite", "WITH X AS (SELECT 1) SELECT * FROM x;", 'WITH "X" AS (SELECT 1) SELECT * FROM "x"'),
    ],
)
def test_the_executed_statement_is_rewritten_with_quoted_names_and_qualified_tables(
    name: str, text: str, written: str
) -> None:
    assert judge(name).check_query(text).sql == written


@pytest.mark.parametrize("name", DIALECTS)
def test_a_missing_table_and_one_that_is_not_granted_are_refused_in_the_same_words(name: str) -> None:
    said = []
    for table in ("secrets", "nothing"):
        with pytest.raises(BackendRefused) as caught:
            judge(name).check_query(f"SELECT * FROM {table}")
        said.append(str(caught.value).replace(table, "it"))
    assert said[0] == said[1]


@pytest.mark.parametrize("name", DIALECTS)
def test_a_part_of_a_statement_cannot_be_called_like_anything_in_the_database(name: str) -> None:
    for taken in (*IN_SCOPE, *BEYOND):
        with pytest.raises(BackendRefused, match="another name"):
            judge(name).check_query(f"WITH {taken} AS (SELECT 1 AS id) SELECT id FROM {taken}")


def test_postgresql_never_gets_a_name_that_it_would_cut() -> None:
    with pytest.raises(BackendRefused, match="too long"):
        judge("postgres").check_query(f"SELECT 1 AS {'x' * 64}")


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        (SQLITE, "SELECT 1; SELECT 2"),
        (SQLITE, 'SELECT "a" -- x'),
        (SQLITE, "SELECT /* x */ 1"),
        (SQLITE, "SELECT ?1"),
        (SQLITE, "SELECT load_extension('x')"),
        (SQLITE, 'SELECT "s".UPPER(1)'),
        (SQLITE, "SELECT plain"),
        (POSTGRES, "SELECT 1; SELECT 2"),
        (POSTGRES, "SELECT $1"),
        (POSTGRES, "SELECT PG_SLEEP(1)"),
        (POSTGRES, 'SELECT * FROM "a"."b" FOR UPDATE'),
        (POSTGRES, "SELECT U&'x'"),
        (POSTGRES, "SELECT CAST('x' AS REGCLASS)"),
        (MYSQL, "SELECT @@version"),
        (MYSQL, "SELECT 1 # x"),
        (MYSQL, "SELECT _latin1'x'"),
        (MYSQL, "SELECT 'a\\"),
        (MYSQL, "SELECT `a` || `b`"),
        (MYSQL, "SELECT 1 INTO OUTFILE 'x'"),
    ],
)
def test_only_words_and_operators_known_to_be_harmless_run(dialect: object, sql: str) -> None:
    with pytest.raises(BackendRefused):
        check_keywords(sql, dialect)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "definition",
    [
        "select `leak`() AS `word`",
        "select `shop`.`leak`() AS `word`",
        "select load_file('/etc/passwd') AS `word`",
        "select @@version AS `v`",
        "delete from `shop`.`orders`",
        "select 1; select 2",
    ],
)
def test_a_view_that_could_do_more_than_read_tables_is_not_trusted(definition: str) -> None:
    with pytest.raises(BackendRefused):
        check_view_definition(definition, MYSQL)


def test_the_tables_of_a_view_are_found_at_every_place_of_its_definition() -> None:
    text = (
        "with `p` as (select `a`.`x` AS `x` from `shop`.`a`) select `p`.`x` AS `x` from (`p` join `hr`.`b`) where "
        "exists(select 1 from `hr`.`c` limit 1)"
    )
    assert sorted(check_view_definition(text, MYSQL)) == [("hr", "b"), ("hr", "c"), ("shop", "a")]


@pytest.mark.parametrize("name", DIALECTS)
def test_no_table_is_called_in_what_runs_that_was_not_looked_up_even_if_the_tree_was_read_wrongly(name: str) -> None:
    one = judge(name)
    quote = DIALECTS[name].identifier_quote
    hidden = f"SELECT 1 FROM {quote}{USUAL[name]}{quote} . {quote}secrets{quote}"
    with pytest.raises(BackendRefused):
        one._check_qualified_names(hidden, ())


# --- what takes long to read --------------------------------------------------------------------

ENDLESS = {
    "joins": "SELECT * FROM orders" + " JOIN orders" * 40,
    "greatest": "SELECT " + "greatest(" * 24 + "id" + ", 1)" * 24 + " FROM orders",
    "instr": "SELECT " + "instr('a', 'b', " * 24 + "1" + ")" * 24,
    "locate": "SELECT " + "locate('a', " * 24 + "'b'" + ", 1)" * 24,
    "sort_array": "SELECT " + "sort_array('a', " * 24 + "1" + ")" * 24,
    "array_contains": "SELECT " + "array_contains('a', " * 24 + "1" + ")" * 24,
    "slices": "SELECT id" + "[1:2]" * 2_000 + " FROM orders",
}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("kind", ENDLESS)
def test_no_statement_takes_for_ever_to_parse_or_to_rewrite(name: str, kind: str) -> None:
    """Some of these would take hours, some years, and the thread that reads them cannot be stopped."""
    began = time.process_time()
    with contextlib.suppress(BackendRefused):
        judge(name).check_query(ENDLESS[kind])
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM orders" + "".join(f" LEFT JOIN orders o{n} ON o{n}.id = orders.o{n} + 1" for n in range(60)),
        "SELECT * FROM orders" + "".join(f" JOIN customers c{n} USING (id)" for n in range(60)),
        "SELECT * FROM orders" + "".join(f" JOIN customers c{n}" for n in range(8)),
        "SELECT * FROM orders WHERE id IN (" + ", ".join(str(n) for n in range(3_000)) + ")",
        "SELECT " + ", ".join(f"sum(CASE WHEN id = {n} THEN round(total, 2) END) AS c{n}" for n in range(200)),
        "SELECT 1" + " UNION ALL SELECT (SELECT count(*) FROM orders)" * 60,
        "SELECT * FROM " + "(SELECT * FROM " * 10 + "orders" + ") AS x" * 10,
        "SELECT " + "coalesce(" * 20 + "id" + ", 1)" * 20 + " FROM orders",
    ],
    ids=["joins", "using", "joins without a condition", "in", "columns", "union", "nested", "coalesce"],
)
def test_a_statement_that_is_only_long_is_read(name: str, text: str) -> None:
    assert judge(name).check_query(text).sql


# --- at random -----------------------------------------------------------------------------------

TABLES = st.sampled_from((*IN_SCOPE, *BEYOND, "hr.orders", "main.secrets", '"secrets"', "[orders]", "`orders`"))
ENDS = st.sampled_from((" GROUP BY id", " ORDER BY 1", " LIMIT 3", " ORDER BY (SELECT word FROM secrets)"))
JUNK = st.sampled_from(("'", '"', "`", "(", ")", ";", "--", "/*", "\\", "[", "]", "\u200b", "%", ",", "SELECT"))
COLUMNS = st.sampled_from(("id", "total", "name", "x.id", "count(*)", "1", "'text'", "upper(name)", "*"))


@st.composite
def selects(draw: st.DrawFn, depth: int = 3) -> str:
    """A SELECT of any shape, with tables of both kinds in any place that may hold one."""
    inner = selects(depth - 1) if depth else st.just("SELECT 1")
    source = st.one_of(TABLES, TABLES.map(lambda one: f"{one} AS x"), inner.map(lambda one: f"({one}) AS x"))
    sql = f"SELECT {draw(COLUMNS)} FROM {draw(source)}"
    if draw(st.booleans()):
        how = draw(st.sampled_from((", ", " JOIN ", " LEFT JOIN ", " NATURAL JOIN ", " CROSS JOIN ")))
        sql += f"{how}{draw(source)}"
    if draw(st.booleans()):
        form = st.sampled_from(("EXISTS ({})", "id IN ({})", "id = ({})", "NOT id IN ({})", "id IN secrets", "id > 1"))
        sql += f" WHERE {draw(form).format(draw(inner))}"
    if draw(st.booleans()):
        sql += draw(ENDS)
    if depth and draw(st.booleans()):
        sql += f" {draw(st.sampled_from(('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT')))} {draw(inner)}"
    if depth and draw(st.booleans()):
        named = draw(st.sampled_from(("w", "orders", "secrets", "x")))
        sql = f"WITH {named} AS ({draw(inner)}) {sql}"
    return sql


@pytest.fixture(scope="module")
def witness() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    for name in (*IN_SCOPE, *BEYOND):
        db.execute(f"CREATE TABLE {name} (id, total, name, word)")
    return db


@given(selects())
@settings(
    max_examples=1000 if WHOLE else 1000 if WHOLE else 150,
    deadline=None,
)
def test_every_accepted_statement_reads_only_the_scope_as_sqlite_confirms(witness: apsw.Connection, text: str) -> None:
    try:
        sql = judge("sqlite").check_query(text).sql
    except BackendRefused:
        return
    read: set[str] = set()

    def note(action: int, first: str | None, *rest: object) -> int:
        if action == apsw.SQLITE_READ:
            read.add(first or "")
        assert action in (apsw.SQLITE_READ, apsw.SQLITE_SELECT, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE)
        return apsw.SQLITE_OK

    witness.authorizer = note
    try:
        witness.execute(f"EXPLAIN {sql}")
    except apsw.SQLError:
        pass  # nonsense, which reads nothing
    finally:
        witness.authorizer = None
    assert not read & set(BEYOND), (text, sql)


@given(selects(1), st.data())
@settings(max_examples=1000 if WHOLE else 100, deadline=None)
def test_a_damaged_statement_is_checked_or_refused_without_another_effect(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    junk = data.draw(JUNK)
    damaged = text[:at] + junk + text[at:]
    for name in DIALECTS:
        try:
            made = judge(name).check_query(damaged)
        except BackendRefused:
            continue
        assert {one.name for one in made.relations} <= set(IN_SCOPE)
        check_keywords(made.sql, DIALECTS[name])
