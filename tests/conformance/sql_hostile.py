"""What nobody may get away with, whichever database it is said to. Every line is refused."""

from __future__ import annotations

COMMON = [
    r"",
    r"SELECT word FROM secrets",
    r"SELECT * FROM SECRETS",
    r'SELECT word FROM "secrets"',
    r"SELECT word FROM `secrets`",
    r"SELECT word FROM [secrets]",
    r"SELECT word/**/FROM/**/secrets",
    r"SELECT word FROM secrets -- just a comment",
    r"SELECT id FROM orders UNION SELECT word FROM secrets",
    r"SELECT id FROM orders UNION ALL SELECT word FROM secrets ORDER BY 1",
    r"SELECT id FROM orders EXCEPT SELECT word FROM secrets",
    r"SELECT id FROM orders WHERE id IN (SELECT id FROM secrets)",
    r"SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM secrets WHERE word LIKE 'T%')",
    r"SELECT id FROM orders WHERE id = (SELECT id FROM secrets LIMIT 1)",
    r"SELECT (SELECT word FROM secrets) FROM orders",
    r"SELECT id FROM orders ORDER BY (SELECT word FROM secrets)",
    r"SELECT id FROM orders GROUP BY id, (SELECT word FROM secrets)",
    r"SELECT count(*) FROM orders HAVING count(*) > (SELECT count(*) FROM secrets)",
    r"SELECT id FROM orders LIMIT (SELECT count(*) FROM secrets)",
    r"SELECT id FROM orders LIMIT 1 OFFSET (SELECT count(*) FROM secrets)",
    r"SELECT sum(id) OVER (ORDER BY (SELECT word FROM secrets)) FROM orders",
    r"SELECT CASE WHEN (SELECT word FROM secrets) LIKE 'T%' THEN 1 END FROM orders",
    r"SELECT coalesce((SELECT word FROM secrets), '')",
    r"SELECT o.id FROM orders o JOIN secrets s ON s.id = o.id",
    r"SELECT o.id FROM orders o JOIN customers c ON c.id = (SELECT id FROM secrets)",
    r"SELECT o.id FROM orders o LEFT JOIN secrets USING (id)",
    r"SELECT o.id FROM orders o NATURAL JOIN secrets",
    r"SELECT o.id FROM orders o, secrets",
    r"SELECT x.word FROM (SELECT word FROM secrets) AS x",
    r"SELECT x.word FROM (SELECT * FROM (SELECT word FROM secrets) AS y) AS x",
    r"WITH x AS (SELECT word FROM secrets) SELECT * FROM x",
    r"WITH orders AS (SELECT word FROM secrets) SELECT * FROM orders",
    r"WITH secrets AS (SELECT 1 AS word) SELECT * FROM secrets",
    r"WITH x AS (SELECT 1), y AS (SELECT word FROM secrets) SELECT * FROM x",
    r"WITH x AS (WITH secrets AS (SELECT 1 AS word) SELECT word FROM secrets) SELECT word FROM secrets",
    r"WITH RECURSIVE x (w) AS (SELECT word FROM secrets UNION ALL SELECT w FROM x WHERE 1 = 0) SELECT w FROM x",
    r"SELECT * FROM (WITH x AS (SELECT 1 AS a) SELECT a FROM x) AS t, x",
    r"SELECT secrets.word FROM orders AS secrets, secrets AS orders",
    r"SELECT * FROM v_leak",
    r"SELECT * FROM v_deep",
    r"SELECT word FROM v_mixed",
    r"SELECT name FROM v_mixed",
    r"SELECT n FROM v_count",
    r"SELECT id FROM v_where",
    r"SELECT amount FROM v_salary",
    r"SELECT count(*) FROM v_leak",
    r"SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM v_leak WHERE word LIKE 'T%')",
    r"SELECT * FROM salaries",
    r"SELECT who FROM hr.salaries",
    r"SELECT word FROM hr.orders",
    r"SELECT p.*, s.who FROM payroll p, salaries s",
    r"SELECT 1; SELECT word FROM secrets",
    r"SELECT 1; DROP TABLE orders",
    r"SELECT 1;;DELETE FROM orders",
    r"; SELECT 1; SELECT 2",
    r"SELECT 1 /* ; */ ; /* */ DELETE FROM orders",
    r"DELETE FROM orders",
    r"UPDATE orders SET total = 0",
    r"INSERT INTO orders (id) VALUES (99)",
    r"DROP TABLE orders",
    r"ALTER TABLE orders ADD COLUMN x INTEGER",
    r"CREATE TABLE x AS SELECT * FROM secrets",
    r"CREATE VIEW v_new AS SELECT * FROM secrets",
    r"TRUNCATE TABLE orders",
    r"WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x",
    r"WITH x AS (UPDATE orders SET total = 0 RETURNING *) SELECT * FROM x",
    r"WITH x AS (INSERT INTO orders (id) VALUES (99) RETURNING *) SELECT * FROM x",
    r"WITH x AS (SELECT 1) DELETE FROM orders",
    r"SELECT * INTO stolen FROM orders",
    r"SELECT * FROM orders FOR UPDATE",
    r"SELECT * FROM orders FOR SHARE",
    r"EXPLAIN SELECT word FROM secrets",
    r"EXPLAIN ANALYZE DELETE FROM orders",
    r"GRANT ALL ON orders TO public",
    r"SET x = 1",
    r"BEGIN",
    r"COMMIT",
    r"VACUUM",
    r"ANALYZE orders",
    r"CALL something()",
    r"PREPARE p AS SELECT word FROM secrets",
    r"EXECUTE p",
    r"SHOW TABLES",
    r"USE hr",
    r"SELECT word FROM ｓｅｃｒｅｔｓ",
    r"SELECT word FROM sеcrets",
    r'SELECT word FROM "sec​rets"',
    r"SELECT word FROM ſecrets",
    r'SELECT word FROM "secrets "',
    r'SELECT word FROM " secrets"',
    r"SELECT word FROM public.secrets",
    r"SELECT word FROM main.secrets",
    r"SELECT word FROM shop.secrets",
    r"SELECT word FROM shop.public.secrets",
    r"SELECT word FROM a.b.c.secrets",
    r"SELECT unheard_of(1)",
    r"SELECT main.upper('x')",
    r"SELECT public.upper('x')",
    r"SELECT ?",
    r"SELECT :name",
    r"SELECT $1",
    r"SELECT @x",
    r"SELECT %s",
    r"SELECT id FROM orders WHERE id = ?",
    r"SELECT",
    r"FROM orders",
    r"(",
    r")",
    r"hello",
    r"",
    r"",
][1:]

SQLITE = r"""
SELECT * FROM sqlite_master
SELECT sql FROM sqlite_schema
SELECT * FROM sqlite_temp_master
SELECT * FROM main.sqlite_master
SELECT * FROM sqlite_sequence
SELECT * FROM v_schema
SELECT c0 FROM docs_content
SELECT * FROM v_shadow
SELECT body FROM docs WHERE docs MATCH 'index'
SELECT * FROM docs_data
SELECT * FROM v_diary_content
PRAGMA table_info(secrets)
PRAGMA writable_schema = 1
SELECT * FROM pragma_table_info('secrets')
SELECT * FROM pragma_database_list
SELECT * FROM dbstat
SELECT * FROM fts5vocab('docs', 'row')
ATTACH DATABASE '/tmp/x.db' AS x
ATTACH ':memory:' AS x
DETACH DATABASE main
REINDEX
SELECT load_extension('/tmp/x.so')
SELECT readfile('/etc/passwd')
SELECT writefile('/tmp/x', 'y')
SELECT edit('x')
SELECT fts3_tokenizer('simple')
SELECT sqlite_log(1, 'x')
SELECT sqlite_version()
SELECT last_insert_rowid()
SELECT changes()
SELECT id IN secrets FROM orders
SELECT 'x' IN main.secrets
SELECT id FROM orders WHERE id IN secrets
SELECT id FROM orders WHERE word MATCH secrets.word
REPLACE INTO orders VALUES (1)
INSERT OR REPLACE INTO orders (id) VALUES (1)
SELECT * FROM json_each((SELECT word FROM secrets))
SELECT * FROM json_tree('{}'), secrets
SELECT * FROM generate_series(1, 10)
SELECT * FROM orders INDEXED BY secrets
SELECT * FROM temp.secrets
SELECT * FROM "main"."secrets"
SELECT * FROM 'secrets'
SELECT rtreecheck('main', 'x')
SELECT group_concat(word) FROM secrets
SELECT highlight(docs, 0, 'a', 'b') FROM docs
WITH logged AS (SELECT word FROM secrets) SELECT * FROM logged
WITH logged AS (SELECT 1) SELECT * FROM logged
""".strip().split("\n")

POSTGRES = r"""
SELECT * FROM pg_catalog.pg_authid
SELECT * FROM pg_authid
SELECT * FROM pg_shadow
SELECT * FROM information_schema.tables
SELECT * FROM pg_class
SELECT * FROM v_catalog
SELECT * FROM v_mat
SELECT * FROM v_function
SELECT * FROM v_file
SELECT * FROM v_query
SELECT * FROM "v_leak"
TABLE secrets
SELECT pg_read_file('PG_VERSION')
SELECT pg_catalog.pg_read_file('PG_VERSION')
SELECT pg_read_binary_file('PG_VERSION')
SELECT pg_ls_dir('.')
SELECT * FROM pg_ls_dir('.')
SELECT * FROM ROWS FROM (pg_ls_dir('.'))
SELECT pg_stat_file('PG_VERSION')
SELECT lo_import('/etc/passwd')
SELECT lo_export(1, '/tmp/x')
SELECT lo_get(1)
SELECT lo_creat(-1)
SELECT dblink('dbname=postgres', 'SELECT 1')
SELECT * FROM dblink('dbname=postgres', 'SELECT 1') AS t (a int)
SELECT pg_sleep(10)
SELECT pg_sleep_for('10 s')
SELECT set_config('search_path', 'public', false)
SELECT current_setting('data_directory')
SELECT nextval('counter')
SELECT setval('counter', 5)
SELECT lastval()
SELECT pg_terminate_backend(1)
SELECT pg_cancel_backend(1)
SELECT pg_reload_conf()
SELECT pg_advisory_lock(1)
SELECT pg_notify('a', 'b')
SELECT txid_current()
SELECT query_to_xml('SELECT word FROM public.secrets', true, false, '')
SELECT table_to_xml('secrets', true, false, '')
SELECT schema_to_xml('public', true, false, '')
SELECT database_to_xml(true, false, '')
SELECT cursor_to_xml('x', 1, true, false, '')
SELECT ts_stat('SELECT word::tsvector FROM secrets')
SELECT * FROM ts_stat('SELECT word::tsvector FROM secrets')
SELECT ts_rewrite('a'::tsquery, 'SELECT word::tsquery, word::tsquery FROM secrets')
SELECT 'secrets'::regclass
SELECT to_regclass('secrets')
SELECT CAST('secrets' AS regclass)::oid
SELECT pg_get_viewdef('v_leak')
SELECT has_table_privilege('secrets', 'select')
SELECT pg_relation_size('secrets')
SELECT version()
SELECT current_user
SELECT session_user
SELECT current_database()
SELECT user
SELECT inet_server_addr()
SELECT leak()
SELECT public.leak()
SELECT upper(id) FROM orders
SELECT public.upper(id) FROM orders
SELECT 'a' OPERATOR(public.+) 'b'
SELECT o.leak FROM orders o
SELECT (o).leak FROM orders o
COPY orders TO '/tmp/x'
COPY orders TO PROGRAM 'id'
COPY (SELECT word FROM secrets) TO STDOUT
COPY orders FROM PROGRAM 'id'
DO $$ BEGIN DELETE FROM orders; END $$
DO 'BEGIN END'
LISTEN x
NOTIFY x
LOCK TABLE orders
DECLARE c CURSOR FOR SELECT word FROM secrets
FETCH ALL FROM c
MERGE INTO orders USING customers ON true WHEN MATCHED THEN DELETE
REFRESH MATERIALIZED VIEW v_mat
SECURITY LABEL ON TABLE orders IS 'x'
IMPORT FOREIGN SCHEMA x FROM SERVER y INTO z
LOAD 'x'
DISCARD ALL
RESET ALL
SET ROLE postgres
SELECT $$a$$; DELETE FROM orders; --$$
SELECT E'\\'; DELETE FROM orders; --'
SELECT U&"\0073ecrets".word FROM U&"\0073ecrets"
SELECT * FROM U&"\0073ecrets"
SELECT * FROM ONLY secrets
SELECT * FROM secrets TABLESAMPLE SYSTEM (100)
SELECT * FROM orders TABLESAMPLE leak (1)
SELECT o.id, l.word FROM orders o CROSS JOIN LATERAL (SELECT word FROM secrets) l
SELECT l.word FROM orders o, LATERAL (SELECT word FROM secrets WHERE secrets.id = o.id) l
SELECT ARRAY(SELECT word FROM secrets)
SELECT ARRAY[(SELECT word FROM secrets)]
SELECT array_agg(word) FROM secrets
SELECT jsonb_agg(s) FROM secrets s
SELECT row_to_json(s) FROM secrets s
SELECT id FROM orders WHERE 'x' = ANY (SELECT word FROM secrets)
SELECT count(*) FILTER (WHERE EXISTS (SELECT 1 FROM secrets)) FROM orders
SELECT DISTINCT ON ((SELECT word FROM secrets)) id FROM orders
SELECT id FROM orders WINDOW w AS (ORDER BY (SELECT word FROM secrets))
SELECT percentile_cont((SELECT 0.5 FROM secrets)) WITHIN GROUP (ORDER BY id) FROM orders
SELECT interval '1 day' * (SELECT id FROM secrets)
VALUES ((SELECT word FROM secrets))
SELECT * FROM (VALUES ((SELECT word FROM secrets))) AS t (a)
SELECT * FROM generate_series(1, (SELECT id FROM secrets))
SELECT * FROM unnest(ARRAY(SELECT word FROM secrets))
SELECT * FROM XMLTABLE('/a' PASSING '<a/>' COLUMNS x text)
SELECT xpath('/a', query_to_xml('SELECT 1', true, false, ''))
SELECT * FROM json_to_recordset('[]') AS x (a int)
SELECT nextval('counter') FROM orders
SELECT * FROM hr."orders"
SELECT * FROM "hr"."salaries"
SELECT * FROM postgres.hr.salaries
SELECT * FROM hr.parts_north
SELECT * FROM secretssecretssecretssecretssecretssecretssecretssecretssecretssecrets
""".strip().split("\n")

MYSQL = r"""
SELECT * FROM mysql.user
SELECT * FROM information_schema.tables
SELECT * FROM performance_schema.threads
SELECT * FROM v_users
SELECT * FROM v_function
SELECT * FROM v_file
SELECT word FROM `shop`.`secrets`
SELECT word FROM shop . secrets
SELECT word FROM shop.`secrets`
SELECT /*!50000 word FROM secrets -- */ 1 FROM secrets
SELECT 1 UNION /*!50000 SELECT */ word FROM secrets
SELECT LOAD_FILE('/etc/passwd')
SELECT load_file(0x2f6574632f706173737764)
SELECT SLEEP(10)
SELECT BENCHMARK(1000000000, MD5('a'))
SELECT GET_LOCK('a', 10)
SELECT RELEASE_LOCK('a')
SELECT IS_FREE_LOCK('a')
SELECT MASTER_POS_WAIT('a', 1)
SELECT LAST_INSERT_ID(5)
SELECT ROW_COUNT()
SELECT USER()
SELECT CURRENT_USER
SELECT CURRENT_USER()
SELECT DATABASE()
SELECT VERSION()
SELECT CONNECTION_ID()
SELECT @@version
SELECT @@secure_file_priv
SELECT @a := 1
SELECT @a := (SELECT word FROM secrets)
SELECT leak()
SELECT shop.leak()
SELECT hr.leak()
SELECT median2(1)
SELECT sys_exec('id')
SELECT 1 INTO OUTFILE '/tmp/x'
SELECT 1 INTO DUMPFILE '/tmp/x'
SELECT word FROM secrets INTO OUTFILE '/tmp/x'
SELECT id INTO @a FROM orders
SELECT * FROM orders LOCK IN SHARE MODE
SELECT * FROM orders PROCEDURE ANALYSE()
SELECT * FROM secrets PARTITION (p0)
LOAD DATA INFILE '/etc/passwd' INTO TABLE orders
LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE orders
HANDLER secrets OPEN
HANDLER secrets READ FIRST
DO SLEEP(10)
TABLE secrets
VALUES ROW((SELECT word FROM secrets))
DESCRIBE secrets
DESC secrets
SHOW CREATE TABLE secrets
SHOW GRANTS
KILL 1
FLUSH TABLES
RESET MASTER
RENAME TABLE secrets TO orders2
LOCK TABLES secrets READ
REPLACE INTO orders VALUES (1)
PREPARE s FROM 'SELECT word FROM secrets'
EXECUTE IMMEDIATE 'SELECT word FROM secrets'
DEALLOCATE PREPARE s
BEGIN NOT ATOMIC DELETE FROM orders; END
SET GLOBAL general_log = 1
SET PASSWORD = ''
INSTALL PLUGIN x SONAME 'y'
CREATE FUNCTION x RETURNS STRING SONAME 'y'
SELECT NEXT VALUE FOR counter
SELECT NEXTVAL(counter)
SELECT * FROM JSON_TABLE((SELECT word FROM secrets), '$' COLUMNS (x TEXT PATH '$')) j
SELECT MATCH (word) AGAINST ('x') FROM secrets
SELECT json_arrayagg(word) FROM secrets
SELECT extractvalue(1, concat(0x7e, (SELECT word FROM secrets)))
SELECT updatexml(1, concat(0x7e, (SELECT word FROM secrets)), 1)
SELECT 1 FROM DUAL WHERE (SELECT word FROM secrets) LIKE 'T%'
SELECT * FROM hr.`salaries`
SELECT * FROM HR.salaries
SELECT * FROM Secrets
DELETE orders FROM orders JOIN secrets
SELECT aes_decrypt('a', 'b')
SELECT uncompress(compress('a'))
SELECT name_const('a', (SELECT word FROM secrets))
""".strip().split("\n")

# Read differently by different databases; where it runs, it shows nothing.
TRICKS = r"""
SELECT "upper"('x')
SELECT '\' , word FROM secrets --'
SELECT '\'' , word FROM secrets --'
SELECT 'a\' UNION SELECT word FROM secrets -- '
SELECT "a\" UNION SELECT word FROM secrets -- "
SELECT 1 # UNION SELECT word FROM secrets
SELECT 1 /*!50000 UNION SELECT word FROM secrets */
SELECT 1 /*! UNION SELECT word FROM secrets */
SELECT 1 /*M! UNION SELECT word FROM secrets */
SELECT 1 /* /* nested */ UNION SELECT word FROM secrets -- */
SELECT 1 --UNION SELECT word FROM secrets
SELECT 1--1, word FROM secrets
SELECT 'x' 'y' FROM orders
SELECT E'\'' || (SELECT word FROM secrets)
SELECT $$ $$ || word FROM secrets
SELECT q'[x]' FROM secrets
SELECT N'x', word FROM secrets
SELECT 1 UNION SELECT word FROM orders, secrets
SELECT {fn user()}
SELECT 1 WHERE 1=1 OR 'a'='a' UNION SELECT word FROM secrets
""".strip().split("\n")

HOSTILE = {"sqlite": COMMON + SQLITE, "postgres": COMMON + POSTGRES, "mysql": COMMON + MYSQL}

# What grows beyond all bounds, and must cost no more than its time.
BOMBS = {
    "sqlite": [
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n ORDER BY i DESC",
        "SELECT count(*) FROM {many}",
        "SELECT max(length(a.name || b.name)) FROM {many}",
    ],
    "postgres": [
        "WITH RECURSIVE n (i) AS (SELECT 1::bigint UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "SELECT count(*) FROM generate_series(1, 100000000000)",
        "SELECT count(*) FROM {many}",
        "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
    ],
    "mysql": [
        "SELECT count(*) FROM {many}",
        "SELECT count(md5(a.name)) FROM {many}",
    ],
}
MANY = ", ".join(f"customers {letter}" for letter in "abcdefghijklmnopqr")
