"""What people ask of a shop's database: nothing of it may be refused, and the answers are those of the database."""

from __future__ import annotations

from sql_worlds import ODD

COMMON = r"""
SELECT * FROM customers
SELECT id, name FROM customers ORDER BY id
SELECT DISTINCT city FROM customers ORDER BY city
SELECT count(*) FROM orders
SELECT status, count(*) AS n, sum(total) AS total FROM orders GROUP BY status ORDER BY n DESC, status
SELECT city, count(*) FROM customers GROUP BY city HAVING count(*) > 1 ORDER BY 1
SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id ORDER BY o.id
SELECT c.name, o.id FROM customers AS c LEFT JOIN orders AS o ON o.customer_id = c.id AND o.status = 'late' ORDER BY c.id
SELECT a.id, b.id FROM customers a CROSS JOIN customers b WHERE a.id < b.id ORDER BY 1, 2
SELECT o.id FROM orders o INNER JOIN items USING (id) ORDER BY o.id
SELECT customers.name FROM customers, orders WHERE customers.id = orders.customer_id AND orders.total > 50 ORDER BY orders.id
SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total > 60) ORDER BY name
SELECT name FROM customers WHERE id IN (1, 2, 3) ORDER BY id DESC
SELECT name FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.status = 'paid') ORDER BY id
SELECT name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id) ORDER BY id
SELECT name, (SELECT count(*) FROM orders o WHERE o.customer_id = c.id) AS n FROM customers c ORDER BY id
SELECT name FROM customers WHERE name LIKE 'Name %' AND email NOT LIKE '%.org' ORDER BY id
SELECT name FROM customers WHERE city BETWEEN 'K' AND 'M' ORDER BY id
SELECT id FROM orders WHERE note IS NULL ORDER BY id
SELECT id FROM orders WHERE note IS NOT NULL AND note = '' ORDER BY id
SELECT id, note FROM orders ORDER BY id
SELECT id, coalesce(note, 'none') FROM orders ORDER BY id
SELECT id, nullif(status, 'open') FROM orders ORDER BY id
SELECT id, CASE WHEN total > 50 THEN 'large' WHEN total > 20 THEN 'medium' ELSE 'small' END AS size FROM orders ORDER BY id
SELECT id, CASE status WHEN 'open' THEN 1 ELSE 0 END FROM orders ORDER BY id
SELECT upper(name), lower(city), length(email) FROM customers ORDER BY id
SELECT trim('  x  '), replace(name, 'Name', 'N'), substr(email, 1, 2) FROM customers ORDER BY id
SELECT round(total, 1), abs(0 - total) FROM orders ORDER BY id
SELECT min(total), max(total), avg(qty) FROM orders o JOIN items i ON i.order_id = o.id
SELECT id, row_number() OVER (ORDER BY total DESC) AS place FROM orders ORDER BY id
SELECT id, rank() OVER (PARTITION BY status ORDER BY total DESC) FROM orders ORDER BY id
SELECT id, sum(total) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM orders ORDER BY id
SELECT id, lag(total) OVER (ORDER BY id), lead(total, 1) OVER (ORDER BY id) FROM orders ORDER BY id
SELECT id, first_value(total) OVER w, ntile(2) OVER w FROM orders WINDOW w AS (ORDER BY id) ORDER BY id
WITH late AS (SELECT * FROM orders WHERE status = 'late') SELECT count(*) FROM late
WITH a AS (SELECT id FROM orders), b AS (SELECT id FROM a WHERE id > 2) SELECT * FROM b ORDER BY id
WITH totals (who, total) AS (SELECT customer_id, sum(total) FROM orders GROUP BY customer_id) SELECT c.name, t.total FROM totals t JOIN customers c ON c.id = t.who ORDER BY c.id
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n ORDER BY i
SELECT id FROM orders WHERE status = 'open' UNION SELECT id FROM orders WHERE total > 50 ORDER BY id
SELECT city FROM customers UNION ALL SELECT status FROM orders ORDER BY 1
SELECT id FROM customers INTERSECT SELECT customer_id FROM orders ORDER BY 1
SELECT id FROM customers EXCEPT SELECT customer_id FROM orders ORDER BY 1
SELECT id FROM orders ORDER BY id LIMIT 3
SELECT id FROM orders ORDER BY id LIMIT 3 OFFSET 2
SELECT t.status, t.n FROM (SELECT status, count(*) AS n FROM orders GROUP BY status) AS t ORDER BY t.status
SELECT 1 + 2 * 3, 7 % 4, 10 / 4.0, -5, - 3
SELECT 'it''s', 'a;b', '-- no comment', '/* nor this */'
SELECT id, total * 1.2 AS gross FROM orders WHERE total >= 12.5 AND (status = 'open' OR NOT status = 'paid') AND total <> 99 ORDER BY id
SELECT sum(CASE WHEN status = 'open' THEN 1 ELSE 0 END) AS open, count(DISTINCT customer_id) FROM orders
SELECT CAST(total AS CHAR(10)) FROM orders WHERE id = 2
SELECT o.*, c.name FROM orders o JOIN customers c ON c.id = o.customer_id WHERE c.vip = 1 ORDER BY o.id
SELECT * FROM v_open ORDER BY id
SELECT v.id, o.status FROM v_open v JOIN orders o ON o.id = v.id ORDER BY v.id
SELECT dept, people FROM payroll ORDER BY dept
SELECT count(*) FROM payroll
SELECT count(*) /* all of them */ FROM items -- how many?
SELECT status, status AS s2 FROM orders ORDER BY id;
SELECT id FROM orders WHERE customer_id = (SELECT max(id) FROM customers)
SELECT concat(name, ' from ', city) FROM customers ORDER BY id
SELECT sku, sum(qty * price) AS worth FROM items GROUP BY sku ORDER BY worth DESC LIMIT 2
""".strip().split("\n")

SQLITE = (
    r"""
SELECT date(placed), time(placed), datetime(placed, '+1 day') FROM orders ORDER BY id
SELECT strftime('%Y-%m', placed) AS month, count(*) FROM orders GROUP BY 1
SELECT julianday('2024-03-02') - julianday('2024-03-01'), unixepoch('2024-03-01')
SELECT json_extract(data, '$.n'), data ->> '$.who.name', data -> '$.tags' FROM events ORDER BY id
SELECT e.id, t.value FROM events e, json_each(e.data, '$.tags') t ORDER BY e.id, t.key
SELECT json_group_array(id), json_object('a', 1, 'b', 'x') FROM orders
SELECT group_concat(name, '; ') FROM customers
SELECT name || ' <' || email || '>' FROM customers ORDER BY id
SELECT ifnull(note, '-'), iif(total > 50, 'y', 'n') FROM orders ORDER BY id
SELECT typeof(total), hex('ab'), printf('%05d', id) FROM orders ORDER BY id
SELECT name FROM customers WHERE name GLOB 'Name [1-3]' ORDER BY id
SELECT name COLLATE NOCASE FROM customers ORDER BY name COLLATE NOCASE DESC
SELECT rowid, id FROM customers ORDER BY rowid
SELECT total(total), max(1, 2, 3), instr(name, 'a') FROM orders, customers GROUP BY name ORDER BY name
SELECT body FROM v_diary WHERE v_diary MATCH 'quiet'
SELECT count(*) FROM v_diaries
SELECT * FROM <odd>
SELECT "a b", [SELECT] FROM <odd>
SELECT id FROM orders ORDER BY placed DESC NULLS LAST, id ASC LIMIT 2
SELECT count(*) FILTER (WHERE status = 'open') FROM orders
SELECT x'616263', NULL, 1.5e3, TRUE
VALUES (1, 'a'), (2, 'b')
SELECT id FROM ORDERS WHERE Status = 'open' ORDER BY ID
SELECT main.orders.id FROM main.orders ORDER BY main.orders.id
SELECT substr(name, -1), round(2.567, 2), char(65, 66), unicode('a') FROM customers ORDER BY id
SELECT id, total FROM orders WHERE (customer_id, status) IN (SELECT customer_id, status FROM orders WHERE id < 3) ORDER BY id
""".strip()
    .replace("<odd>", ODD)
    .split("\n")
)

POSTGRES = (
    r"""
SELECT date_trunc('month', placed), extract(year FROM placed), to_char(placed, 'YYYY-MM-DD') FROM orders ORDER BY id
SELECT placed + interval '1 day', placed::date, age(placed, '2024-01-01'::timestamp) FROM orders ORDER BY id
SELECT data ->> 'n', data -> 'who' ->> 'name', data #>> '{tags,0}', data @> '{"n": 1}' FROM events ORDER BY id
SELECT e.id, t.tag FROM events e, jsonb_array_elements_text(e.data -> 'tags') AS t (tag) ORDER BY 1, 2
SELECT e.id, t.tag FROM events e CROSS JOIN LATERAL jsonb_array_elements_text(e.data -> 'tags') AS t (tag) ORDER BY 1, 2
SELECT jsonb_agg(id ORDER BY id), jsonb_build_object('a', 1) FROM orders
SELECT string_agg(name, '; ' ORDER BY id), array_agg(id ORDER BY id) FROM customers
SELECT name || ' <' || email || '>' FROM customers ORDER BY id
SELECT DISTINCT ON (status) status, id, total FROM orders ORDER BY status, total DESC
SELECT c.name, l.total FROM customers c LEFT JOIN LATERAL (SELECT total FROM orders o WHERE o.customer_id = c.id ORDER BY id LIMIT 1) l ON TRUE ORDER BY c.id
SELECT name FROM customers WHERE name ILIKE 'NAME 1%' OR city ~ '^L' OR city !~* 'x' ORDER BY id
SELECT id FROM orders WHERE status = ANY (ARRAY['open', 'late']) ORDER BY id
SELECT generate_series FROM generate_series(1, 3)
SELECT g FROM generate_series('2024-01-01'::date, '2024-01-03'::date, interval '1 day') AS g
SELECT count(*) FILTER (WHERE status = 'open'), percentile_cont(0.5) WITHIN GROUP (ORDER BY total) FROM orders
SELECT status, grouping(status), sum(total) FROM orders GROUP BY ROLLUP (status) ORDER BY 1 NULLS FIRST
SELECT city, vip, count(*) FROM customers GROUP BY GROUPING SETS ((city), (vip), ()) ORDER BY 1, 2
SELECT split_part(email, '@', 2), regexp_replace(name, '\d', 'X'), md5('a') FROM customers ORDER BY id
SELECT greatest(1, 2), least(1, 2), 5::numeric / 2, 'x'::text, CAST('5' AS integer), 2 ^ 3
SELECT * FROM <odd>
SELECT "a b", "SELECT" FROM public.<odd>
SELECT ORDERS.ID FROM Orders ORDER BY 1
SELECT E'a\'b', $$x;y$$, $t$ it's $t$
SELECT position('a' IN name), substring(name FROM 2 FOR 3), overlay('abc' placing 'X' from 2 for 1) FROM customers ORDER BY id
SELECT id FROM orders WHERE placed >= '2024-03-03' AND placed < timestamp '2024-03-06' ORDER BY id
SELECT id, total FROM orders ORDER BY total DESC NULLS LAST FETCH FIRST 2 ROWS ONLY
SELECT o.id, row_to_json(o) FROM orders o WHERE o.id = 1
SELECT (ARRAY[1, 2, 3])[2], array_length(ARRAY[1, 2], 1), unnest(ARRAY['a', 'b'])
SELECT to_tsvector('english', 'a quiet day') @@ to_tsquery('english', 'quiet')
SELECT id IS DISTINCT FROM 2, total IS NOT DISTINCT FROM NULL FROM orders ORDER BY id
SELECT now() > '2020-01-01', current_date > '2020-01-01', current_timestamp IS NOT NULL
SELECT placed AT TIME ZONE 'UTC' AT TIME ZONE 'UTC' FROM orders ORDER BY id
WITH big AS MATERIALIZED (SELECT * FROM orders WHERE total > 50) SELECT count(*) FROM big
SELECT id, sum(total) OVER (ORDER BY placed RANGE BETWEEN INTERVAL '2 days' PRECEDING AND CURRENT ROW) FROM orders ORDER BY id
(SELECT id FROM orders WHERE id = 1) UNION ALL (SELECT id FROM orders WHERE id = 2)
VALUES (1, 'a'), (2, 'b')
SELECT pg_typeof(total) FROM orders LIMIT 1
SELECT decode('616263', 'hex'), NULL, TRUE, 1.5e3
SELECT id FROM orders o WHERE (o.customer_id, o.status) IN (SELECT customer_id, status FROM orders WHERE id < 3) ORDER BY id
""".strip()
    .replace("<odd>", ODD)
    .split("\n")
)

MYSQL = r"""
SELECT date(placed), date_format(placed, '%Y-%m'), year(placed), month(placed) FROM orders ORDER BY id
SELECT placed + INTERVAL 1 DAY, date_add(placed, INTERVAL 2 HOUR), datediff('2024-03-05', '2024-03-01') FROM orders ORDER BY id
SELECT json_extract(data, '$.n'), json_unquote(json_extract(data, '$.who.name')), json_length(data, '$.tags') FROM events ORDER BY id
SELECT json_arrayagg(id), json_object('a', 1) FROM orders WHERE id < 3
SELECT group_concat(name ORDER BY id SEPARATOR '; ') FROM customers
SELECT ifnull(note, '-'), if(total > 50, 'y', 'n') FROM orders ORDER BY id
SELECT name FROM customers WHERE name REGEXP '^Name [1-3]' ORDER BY id
SELECT name FROM customers WHERE name RLIKE '4$' ORDER BY id
SELECT concat_ws('-', name, city), left(name, 2), right(name, 1), lpad(id, 3, '0') FROM customers ORDER BY id
SELECT substring_index(email, '@', -1), locate('a', name), md5('a') FROM customers ORDER BY id
SELECT * FROM `odd "name"`
SELECT `a b`, `SELECT` FROM shop.`odd "name"`
SELECT status, sum(total) FROM orders GROUP BY status WITH ROLLUP
SELECT 7 DIV 2, 7 MOD 2, 7 <=> NULL, TRUE XOR FALSE
SELECT CAST('5' AS SIGNED), CAST(5 AS CHAR), CAST('2024-01-01' AS DATE), CONVERT('7', UNSIGNED)
SELECT greatest(1, 2), least(1, 2), truncate(2.567, 1), floor(2.5), ceil(2.1)
SELECT "double quoted", 'it''s', 'a\'b', 'tab\there'
SELECT unix_timestamp('2024-03-01') > 0, now() > '2020-01-01', curdate() > '2020-01-01'
SELECT id FROM orders ORDER BY id LIMIT 2, 3
SELECT STRAIGHT FROM (SELECT 1 AS STRAIGHT) AS t
SELECT shop.orders.id FROM shop.orders ORDER BY shop.orders.id
SELECT dayname(placed), weekday(placed), timestampdiff(HOUR, '2024-03-01', placed) FROM orders ORDER BY id
SELECT hex('ab'), x'616263', NULL, 1.5e3
SELECT std(total), variance(total), bit_count(7) FROM orders
SELECT extract(YEAR FROM placed), last_day(placed), str_to_date('01.02.2024', '%d.%m.%Y') FROM orders ORDER BY id
SELECT id FROM orders WHERE (customer_id, status) IN (SELECT customer_id, status FROM orders WHERE id < 3) ORDER BY id
SELECT field(status, 'open', 'paid'), elt(1, 'a', 'b'), find_in_set('b', 'a,b') FROM orders ORDER BY id
SELECT json_value(data, '$.n') FROM events ORDER BY id
""".strip().split("\n")

BENIGN = {"sqlite": COMMON + SQLITE, "postgres": COMMON + POSTGRES, "mysql": COMMON + MYSQL}
