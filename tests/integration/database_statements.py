"""Statements that a database must refuse, and harmless ones that look like them. The tables are those of test_databases.py."""

# ---- PostgreSQL ----

_CALLS = """
pg_sleep(0) pg_sleep_for('1ms') pg_sleep_until(now()) set_config('work_mem','1MB',false) set_config('transaction_read_only','off',true)
pg_read_file('/etc/passwd') pg_read_binary_file('/etc/passwd') pg_ls_dir('/') pg_ls_logdir() pg_ls_waldir() pg_ls_tmpdir()
pg_stat_file('/etc/passwd') pg_terminate_backend(1) pg_cancel_backend(1) pg_reload_conf() pg_rotate_logfile() pg_switch_wal()
pg_advisory_lock(1) pg_advisory_lock_shared(1) pg_advisory_xact_lock(1) pg_try_advisory_lock(1) pg_advisory_unlock_all()
pg_notify('c','x') nextval('counter') setval('counter',5) lo_create(0) lo_creat(-1) lo_import('/etc/passwd') lo_export(1,'/tmp/x')
lo_unlink(1) lo_from_bytea(0,'x') lo_put(1,0,'x') lo_get(1) lo_open(1,1) loread(0,1) lowrite(0,'x')
dblink('dbname=postgres','select_1') dblink_exec('x','y') query_to_xml('select_1',true,true,'') cursor_to_xml('c',1,true,true,'')
query_to_xml_and_xmlschema('a',true,true,'') database_to_xml(true,true,'') schema_to_xml('public',true,true,'') table_to_xml('users',true,true,'')
ts_stat('select_1') crosstab('select_1') connectby('a','b','c','d',1) xpath_table('a','b','c','d','e')
pg_logical_emit_message(true,'a','b') pg_logical_slot_get_changes('a',null,null) pg_replication_origin_create('a') pg_create_restore_point('a')
pg_create_physical_replication_slot('a') pg_drop_replication_slot('a') pg_copy_physical_replication_slot('a','b') pg_backup_start('a')
pg_start_backup('a') pg_stop_backup() pg_promote() pg_wal_replay_pause() pg_export_snapshot() pg_import_system_collations(1)
pg_file_write('a','b',false) pg_file_unlink('a') pg_stat_reset() pg_stat_reset_shared('bgwriter') txid_current() pg_current_xact_id()
pg_log_backend_memory_contexts(1) gin_clean_pending_list('x') brin_summarize_new_values('x') pg_prewarm('users') setseed(0.5)
binary_upgrade_set_next_pg_enum_oid(1) pg_hba_file_rules() pg_show_all_file_settings() pg_current_logfile() pg_nextoid(1,'a',1)
bump() app.bump() public.bump() touch_row(u)
""".split()

POSTGRES_REFUSED = [f"SELECT {call}" for call in _CALLS] + """
INSERT INTO users (id) VALUES (99)
UPDATE users SET name = 'x'
DELETE FROM users
SELECT query FROM pg_stat_activity
SELECT query FROM pg_catalog."pg_stat_activity"
TABLE PG_STAT_ACTIVITY
SELECT * FROM pg_stat_get_activity(NULL)
SELECT pg_stat_get_backend_activity(1)
TRUNCATE users
DROP TABLE users
CREATE TABLE x (a int)
CREATE TEMP TABLE x (a int)
CREATE TABLE x AS SELECT 1
CREATE VIEW v AS SELECT 1
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'
CREATE EXTENSION dblink
CREATE ROLE x
ALTER TABLE users ADD COLUMN x int
ALTER ROLE reader SUPERUSER
ALTER SYSTEM SET work_mem = '1MB'
GRANT ALL ON users TO reader
REVOKE ALL ON users FROM reader
COMMENT ON TABLE users IS 'x'
COPY users TO '/tmp/x'
COPY users FROM '/etc/passwd'
COPY (SELECT 1) TO PROGRAM 'id'
COPY users TO STDOUT
DO $$ BEGIN PERFORM 1; END $$
CALL proc()
SET work_mem = '1MB'
SET SESSION AUTHORIZATION boss
SET ROLE boss
RESET ALL
SHOW ALL
BEGIN
COMMIT
ROLLBACK
START TRANSACTION READ WRITE
SAVEPOINT a
PREPARE p AS SELECT 1
EXECUTE p
DEALLOCATE ALL
DECLARE c CURSOR FOR SELECT 1
FETCH ALL FROM c
LISTEN c
NOTIFY c
UNLISTEN *
LOCK TABLE users
VACUUM
ANALYZE users
REINDEX TABLE users
CLUSTER users
CHECKPOINT
LOAD 'x'
DISCARD ALL
IMPORT FOREIGN SCHEMA a FROM SERVER b INTO c
REFRESH MATERIALIZED VIEW v
SECURITY LABEL ON TABLE users IS 'x'
MERGE INTO users u USING users v ON u.id = v.id WHEN MATCHED THEN DELETE
EXPLAIN ANALYZE SELECT 1
EXPLAIN (ANALYZE) SELECT 1
EXPLAIN (COSTS off, ANALYZE true) SELECT 1
EXPLAIN DELETE FROM users
EXPLAIN ANALYZE DELETE FROM users
EXPLAIN INSERT INTO users VALUES (1)
SELECT 1; SELECT 2
SELECT 1; DROP TABLE users
SELECT 1;;SELECT 2
SELECT * INTO x FROM users
SELECT id INTO TEMP x FROM users
SELECT id INTO UNLOGGED TABLE x FROM users
WITH a AS (SELECT 1) SELECT * INTO x FROM a
WITH a AS (DELETE FROM users RETURNING *) SELECT * FROM a
WITH a AS (INSERT INTO users (id) VALUES (5) RETURNING id) SELECT * FROM a
WITH a AS (UPDATE users SET name = 'x' RETURNING id) SELECT * FROM a
WITH a AS NOT MATERIALIZED (DELETE FROM users RETURNING *) SELECT * FROM a
WITH a AS (SELECT 1) DELETE FROM users
WITH a AS (SELECT 1) UPDATE users SET name = 'x'
WITH a AS (SELECT 1) INSERT INTO users (id) SELECT 7
WITH a AS (WITH b AS (DELETE FROM users RETURNING *) SELECT * FROM b) SELECT * FROM a
SELECT * FROM users FOR UPDATE
SELECT * FROM users FOR SHARE
SELECT * FROM users FOR NO KEY UPDATE
SELECT * FROM users FOR KEY SHARE SKIP LOCKED
SELECT 1::watched
SELECT CAST(1 AS public.watched)
SELECT watched '1'
SELECT '{1}'::watched[]
SELECT 1::watched_twice
SELECT ROW(1, 'x')::pair
SELECT jsonb_populate_record(NULL::pairs, '{}')
SELECT * FROM json_to_record('{"a": 1}') AS x(a watched)
SELECT stepping(id) FROM users
SELECT stepping(id) OVER () FROM users
SELECT "pg_sleep"(0)
SELECT pg_catalog.pg_sleep(0)
SELECT pg_catalog."pg_sleep"(0)
SELECT "pg_catalog"."pg_sleep"(0)
SELECT PG_SLEEP(0)
SELECT Pg_Sleep /* x */ (0)
SELECT pg_sleep/**/(0)
SELECT (0.0::float8).pg_sleep
SELECT ((0.0)::float8) . pg_sleep
SELECT u.touch_row FROM users u
SELECT (u).touch_row FROM users u
SELECT U&"pg\\005fsleep"(0)
SELECT U&"pg!005fsleep" UESCAPE '!' (0)
SELECT 'a' || /* ' */ pg_sleep(0)::text
SELECT /* /* */ ' */ pg_sleep(0) --'
SELECT $a$ ' $a$, pg_sleep(0), $a$ ' $a$
SELECT $$a$$, pg_sleep(0)
SELECT E'\\'', pg_sleep(0), ''
SELECT e'\\\\', pg_sleep(0)
SELECT '\\', pg_sleep(0), '\\'
SELECT N'x', pg_sleep(0)
SELECT B'1', pg_sleep(0)
SELECT U&'x', pg_sleep(0)
SELECT count(*) FROM users WHERE pg_sleep(0) IS NULL
SELECT CASE WHEN true THEN pg_sleep(0) END
SELECT * FROM pg_sleep(0)
SELECT * FROM users, LATERAL pg_sleep(0)
SELECT * FROM ROWS FROM (pg_sleep(0))
SELECT (SELECT pg_sleep(0))
SELECT array(SELECT pg_sleep(0)::text)
SELECT 1 WHERE EXISTS (SELECT pg_sleep(0))
SELECT id FROM users ORDER BY pg_sleep(0)::text
SELECT id FROM users GROUP BY id HAVING nextval('counter') > 0
SELECT max(nextval('counter')) FROM users
SELECT nextval('counter') OVER () FROM users
VALUES (nextval('counter'))
VALUES (1), (pg_sleep(0)::text::int)
TABLE users; DROP TABLE users
(SELECT pg_sleep(0))
((DELETE FROM users))
SELECT 1 UNION SELECT 2 FROM pg_sleep(0)
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t WHERE n < 2 AND nextval('counter') > 0) SELECT * FROM t
SELECT $1
SELECT * FROM users WHERE id = $1
UPDATE documents SET body = 'x'
DELETE FROM ONLY documents
INSERT INTO app.documents VALUES (1)
INSERT INTO notes (id) SELECT nextval('counter')
WITH a AS (SELECT 1) INSERT INTO notes SELECT 2
INSERT INTO notes SELECT 1; DROP TABLE users
UPDATE users SET name = (SELECT 'notes')
DELETE FROM users USING notes
""".strip().split("\n") + [
    "SELECT E'a'\n'\\'', pg_sleep(0), '' ",
    "SELECT E'a' -- x\n'\\'', pg_sleep(0), '' ",
    "SELECT\npg_sleep\n(\n0\n)",
    "\ufeffDROP TABLE users",
    "SELECT 1\r;\rDROP TABLE users",
    "SELECT 'a'\n'b', pg_sleep(0)",
    "SELECT " + "x" * 70 + ", pg_sleep(0)",
]

POSTGRES_HARMLESS = """
SELECT 1
SELECT 1;
select id from users
SELECT 'DROP TABLE users'
SELECT 'a; DELETE FROM users'
SELECT 'pg_sleep(1)'
SELECT $$DELETE FROM users; pg_sleep(1)$$
SELECT $x$ $$ ; pg_sleep(1) $x$
SELECT E'\\'; pg_sleep(1) --'
SELECT U&'pg\\005fsleep(1)'
SELECT 'it''s; INSERT INTO x'
SELECT '\\'
SELECT B'101', X'1F', N'x'
SELECT 1 -- ; DROP TABLE users
SELECT 1 /* ; DROP TABLE users; pg_sleep(1) */
SELECT /* /* nested */ pg_sleep(1) */ 1
SELECT 1 AS "DROP TABLE"
SELECT 1 AS "pg_sleep(1)"
SELECT 1 AS into
SELECT 1 AS update
SELECT 1 AS delete
SELECT 1 AS "insert into"
SELECT "update", "delete" FROM odd
SELECT odd.update, odd.delete FROM odd
SELECT o.nextval, o.set_config FROM odd o
SELECT nextval, set_config FROM odd
SELECT update FROM odd
SELECT (update) FROM odd
SELECT id, name FROM users WHERE name = 'update users set'
SELECT name AS truncate FROM users
SELECT created_at, updated_at FROM odd
SELECT * FROM users WHERE email LIKE '%@example.org'
SELECT * FROM users WHERE name ILIKE 'a%'
SELECT count(*) FROM users
SELECT count(*) AS copy FROM users
SELECT sum(score), avg(score), min(score), max(score) FROM users
SELECT count(DISTINCT name) FILTER (WHERE id > 1) FROM users
SELECT name, row_number() OVER (PARTITION BY name ORDER BY id) FROM users
SELECT lag(score) OVER w FROM users WINDOW w AS (ORDER BY id)
SELECT string_agg(name, ', ' ORDER BY id) FROM users
SELECT array_agg(id) FROM users
SELECT json_agg(u) FROM users u
SELECT jsonb_build_object('a', 1)
SELECT to_jsonb(u) FROM users u
SELECT '{"a":1}'::jsonb -> 'a'
SELECT '{"a":1}'::jsonb ->> 'a'
SELECT '{"a":1}'::jsonb ? 'a'
SELECT '{"a":1}'::jsonb @> '{"a":1}'
SELECT (ARRAY[1,2,3])[1:2]
SELECT (ARRAY[1,2,3])[2]
SELECT 1::text, CAST(1 AS text), '1'::int
SELECT date '2024-01-01' + interval '1 day'
SELECT now(), current_date, current_timestamp
SELECT date_trunc('month', created_at) FROM users
SELECT extract(year FROM created_at) FROM users
SELECT to_char(created_at, 'YYYY-MM') FROM users
SELECT age(created_at) FROM users
SELECT now() - interval '7 days'
SELECT * FROM users WHERE created_at > NOW() - INTERVAL '7 days'
SELECT clock_timestamp() IS NOT NULL
SELECT random() IS NOT NULL
SELECT gen_random_uuid() IS NOT NULL
SELECT coalesce(NULL, 1), nullif(1, 2), greatest(1, 2), least(1, 2)
SELECT CASE WHEN id > 1 THEN 'a' ELSE 'b' END FROM users
SELECT 1::plain, CAST(2 AS plain)
SELECT summing(id) FROM users
SELECT 5 # 3, ~5, @ -5, '[1, 2]'::jsonb @> '1'
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM users
SELECT upper(name), lower(name), length(name), trim(name) FROM users
SELECT substring(name FROM 1 FOR 2) FROM users
SELECT position('a' IN name) FROM users
SELECT overlay('abc' PLACING 'x' FROM 2 FOR 1)
SELECT left(name, 2), right(name, 2) FROM users
SELECT split_part(email, '@', 2) FROM users
SELECT regexp_replace(name, 'a', 'b') FROM users
SELECT regexp_matches(name, 'a', 'g') FROM users
SELECT name ~ '^a', name !~ 'b', name ~* 'A' FROM users
SELECT md5('x'), encode('x', 'hex'), decode('78', 'hex')
SELECT round(1.5), ceil(1.2), floor(1.8), abs(-1), power(2, 3), sqrt(4), mod(5, 2)
SELECT width_bucket(score, 0, 10, 5) FROM users
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY score) FROM users
SELECT mode() WITHIN GROUP (ORDER BY name) FROM users
SELECT * FROM generate_series(1, 5)
SELECT * FROM unnest(ARRAY[1,2]) WITH ORDINALITY
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) v(a, b)
SELECT * FROM users u JOIN notes n ON n.id = u.id
SELECT * FROM users u LEFT JOIN notes n USING (id)
SELECT * FROM users u CROSS JOIN notes
SELECT * FROM users NATURAL JOIN notes
SELECT * FROM users, LATERAL (SELECT 1) x
SELECT * FROM users WHERE id IN (SELECT id FROM notes)
SELECT * FROM users WHERE EXISTS (SELECT 1 FROM notes)
SELECT * FROM users WHERE id = ANY (ARRAY[1,2])
SELECT * FROM users WHERE (id, name) IN ((1, 'a'))
SELECT * FROM users WHERE id BETWEEN 1 AND 2
SELECT * FROM users WHERE name IS NOT DISTINCT FROM 'a'
SELECT id FROM users UNION SELECT id FROM notes
SELECT id FROM users EXCEPT SELECT id FROM notes
SELECT id FROM users INTERSECT ALL SELECT id FROM notes
SELECT id FROM users ORDER BY id DESC NULLS LAST LIMIT 2 OFFSET 1
SELECT id FROM users FETCH FIRST 2 ROWS ONLY
SELECT DISTINCT ON (name) name, id FROM users ORDER BY name, id
SELECT name, count(*) FROM users GROUP BY name HAVING count(*) > 0
SELECT name, count(*) FROM users GROUP BY ROLLUP (name)
SELECT name, id, count(*) FROM users GROUP BY GROUPING SETS ((name), (id), ())
SELECT grouping(name) FROM users GROUP BY CUBE (name)
WITH a AS (SELECT 1 AS n) SELECT * FROM a
WITH a AS MATERIALIZED (SELECT 1 AS n) SELECT * FROM a
WITH a(n) AS (VALUES (1)) SELECT * FROM a
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t
WITH deleted AS (SELECT 1 AS n) SELECT * FROM deleted
WITH "delete" AS (SELECT 1 AS n) SELECT * FROM "delete"
VALUES (1), (2)
VALUES ('INSERT INTO users')
TABLE users
(SELECT 1)
(SELECT 1) UNION (SELECT 2)
((SELECT 1))
EXPLAIN SELECT * FROM users
EXPLAIN (COSTS off) SELECT * FROM users
EXPLAIN (FORMAT JSON) SELECT 1
EXPLAIN VERBOSE SELECT 1
SELECT pg_relation_size('users') IS NOT NULL
SELECT pg_size_pretty(10::bigint)
SELECT current_setting('server_version') IS NOT NULL
SELECT version() IS NOT NULL
SELECT current_user IS NOT NULL, session_user IS NOT NULL
SELECT pg_backend_pid() > 0
SELECT pg_typeof(1)
SELECT to_regclass('users') IS NOT NULL
SELECT obj_description('users'::regclass)
SELECT has_table_privilege('users', 'SELECT')
SELECT table_name FROM information_schema.tables LIMIT 1
SELECT relname FROM pg_class LIMIT 1
SELECT * FROM pg_stat_user_tables LIMIT 1
SELECT 'pg_stat_activity' AS x
SELECT count(*) AS pg_stat_activity FROM users
SELECT steady()
SELECT app.steady()
SELECT "steady"()
SELECT u.full_name FROM users u
SELECT (u).full_name FROM users u
SELECT full_name(u) FROM users u
SELECT * FROM recent
SELECT * FROM app.documents
SELECT "app"."documents"."id" FROM app.documents
SELECT documents.id FROM app.documents AS documents
SELECT id::text || '-' || name FROM users
SELECT name COLLATE "C" FROM users
SELECT name FROM users TABLESAMPLE BERNOULLI (100)
SELECT name FROM users TABLESAMPLE SYSTEM (100) REPEATABLE (1)
SELECT xmlelement(name a, 'b')::text
SELECT xpath('/a', '<a/>')::text
SELECT to_tsvector('english', 'a fat cat') @@ to_tsquery('cat')
SELECT ts_rank(to_tsvector('a'), to_tsquery('a'))
SELECT point(1, 2) <-> point(2, 3)
SELECT int4range(1, 5) && int4range(2, 3)
SELECT '192.168.0.1'::inet << '192.168.0.0/16'
SELECT 1 <> 2, 1 != 2, 1 <= 2, 2 >= 1, -1, +1, 2 ^ 3, 5 % 2, 5 & 1, 5 | 1, 5 # 1, ~1, 1 << 2
SELECT :n, :n + 1, :s
SELECT * FROM users WHERE name = :s OR id = :n
SELECT ':n', "id" FROM users WHERE id = :n
SELECT (ARRAY[1,2,3])[:n:2]
SELECT delete, update AS x FROM odd
SELECT 'x'::text::varchar(5)
SELECT 1 AS "pg_catalog.pg_sleep"
SELECT 'lo_import', 'dblink', 'COPY'
SELECT name FROM users WHERE name <> 'FOR UPDATE'
SELECT bit_and(id), bool_or(ok), every(ok) FROM users
""".strip().split("\n") + [
    "SELECT 'a'\n'b'",
    "SELECT E'a'\n'\\'; pg_sleep(1)'",
    "SELECT 1 -- x\n -- DROP TABLE users\n",
    "  \n\t SELECT 1 \r\n ",
]

# ---- SQLite ----

SQLITE_REFUSED = """
INSERT INTO users VALUES (9, 'x')
INSERT OR REPLACE INTO users VALUES (9, 'x')
REPLACE INTO users VALUES (9, 'x')
UPDATE users SET name = 'x'
UPDATE OR IGNORE users SET name = 'x'
DELETE FROM users
DELETE FROM users WHERE id = 1
DROP TABLE users
DROP TABLE IF EXISTS users
DROP INDEX by_name
DROP VIEW recent
DROP TRIGGER trig
CREATE TABLE x (a)
CREATE TABLE IF NOT EXISTS x (a)
CREATE TEMP TABLE x (a)
CREATE TEMPORARY TABLE x AS SELECT 1
CREATE TABLE x AS SELECT * FROM users
CREATE INDEX i ON users (name)
CREATE UNIQUE INDEX i ON users (name)
CREATE VIEW v AS SELECT 1
CREATE TEMP VIEW v AS SELECT 1
CREATE TRIGGER t AFTER INSERT ON users BEGIN SELECT 1; END
CREATE TEMP TRIGGER t AFTER INSERT ON users BEGIN SELECT 1; END
CREATE VIRTUAL TABLE v USING fts5(a)
CREATE VIRTUAL TABLE temp.v USING rtree(a, b, c)
ALTER TABLE users ADD COLUMN x
ALTER TABLE users RENAME TO x
ALTER TABLE users RENAME COLUMN name TO x
ALTER TABLE users DROP COLUMN name
ATTACH '/tmp/x.db' AS x
ATTACH DATABASE ':memory:' AS x
ATTACH '/etc/passwd' AS x
DETACH main
DETACH DATABASE temp
VACUUM
VACUUM INTO '/tmp/x.db'
REINDEX
REINDEX users
ANALYZE
ANALYZE users
BEGIN
BEGIN IMMEDIATE
BEGIN EXCLUSIVE TRANSACTION
COMMIT
END
ROLLBACK
SAVEPOINT a
RELEASE a
ROLLBACK TO a
PRAGMA journal_mode
PRAGMA journal_mode = DELETE
PRAGMA journal_mode = OFF
PRAGMA query_only = OFF
PRAGMA writable_schema = ON
PRAGMA foreign_keys = OFF
PRAGMA user_version
PRAGMA user_version = 5
PRAGMA application_id = 5
PRAGMA database_list
PRAGMA temp_store_directory = '/tmp'
PRAGMA data_store_directory = '/tmp'
PRAGMA cache_size = 1000000
PRAGMA mmap_size = 100000000
PRAGMA wal_checkpoint
PRAGMA optimize
PRAGMA integrity_check
PRAGMA quick_check
PRAGMA secure_delete = OFF
PRAGMA synchronous = OFF
PRAGMA locking_mode = EXCLUSIVE
PRAGMA trusted_schema = ON
PRAGMA recursive_triggers = ON
PRAGMA defer_foreign_keys = ON
PRAGMA encoding = 'UTF-16'
PRAGMA page_size = 512
PRAGMA auto_vacuum = 1
PRAGMA incremental_vacuum
PRAGMA case_sensitive_like = ON
PRAGMA hard_heap_limit = 1
PRAGMA soft_heap_limit = 1
PRAGMA threads = 8
PRAGMA busy_timeout = 100000
PRAGMA main.journal_mode = DELETE
PRAGMA schema_version = 1
PRAGMA cell_size_check = OFF
PRAGMA shrink_memory
PRAGMA analysis_limit = 1
PRAGMA automatic_index = OFF
PRAGMA checkpoint_fullfsync = ON
PRAGMA ignore_check_constraints = ON
PRAGMA legacy_alter_table = ON
PRAGMA reverse_unordered_selects = ON
PRAGMA read_uncommitted = ON
PRAGMA temp_store = 2
PRAGMA wal_autocheckpoint = 1
PRAGMA max_page_count = 1
PRAGMA journal_size_limit = 1
SELECT load_extension('/tmp/x.so')
SELECT load_extension('/tmp/x.so', 'entry')
SELECT LOAD_EXTENSION('/tmp/x.so')
SELECT "load_extension"('/tmp/x.so')
SELECT [load_extension]('/tmp/x.so')
SELECT `load_extension`('/tmp/x.so')
SELECT load_extension/**/('/tmp/x.so')
SELECT 1 WHERE load_extension('x') IS NULL
SELECT (SELECT load_extension('x'))
WITH a AS (SELECT load_extension('x')) SELECT * FROM a
SELECT fts3_tokenizer('simple')
SELECT fts3_tokenizer('simple', x'00')
SELECT * FROM pragma_database_list
SELECT * FROM pragma_journal_mode
SELECT * FROM pragma_user_version
SELECT * FROM pragma_integrity_check
SELECT 1; SELECT 2
SELECT 1; DROP TABLE users
SELECT 1;;SELECT 2
SELECT 1; /* x */ SELECT 2
SELECT 1 /* ; */ ; DELETE FROM users
SELECT 1; -- x
WITH a AS (SELECT 1) INSERT INTO users SELECT 7, 'x'
WITH a AS (SELECT 1) DELETE FROM users
WITH a AS (SELECT 1) UPDATE users SET name = 'x'
WITH a AS (SELECT 1) REPLACE INTO users SELECT 7, 'x'
INSERT INTO users SELECT 8, 'x' RETURNING id
DELETE FROM users RETURNING *
UPDATE users SET name = 'x' RETURNING *
INSERT INTO users VALUES (1, 'x') ON CONFLICT DO NOTHING
INSERT INTO users VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET name = 'x'
INSERT INTO users DEFAULT VALUES
INSERT INTO main.users VALUES (9, 'x')
INSERT INTO "users" VALUES (9, 'x')
INSERT INTO [users] VALUES (9, 'x')
insert into USERS values (9, 'x')
/* x */ DELETE FROM users
-- x
EXPLAIN DELETE FROM users
EXPLAIN QUERY PLAN DELETE FROM users
EXPLAIN INSERT INTO users VALUES (1, 'x')
UPDATE sqlite_master SET sql = 'x'
DELETE FROM sqlite_master
INSERT INTO sqlite_master VALUES ('a', 'b', 'c', 1, 'd')
UPDATE sqlite_schema SET sql = ''
UPDATE sqlite_sequence SET seq = 1
SELECT ?
SELECT ?1
SELECT * FROM users WHERE id = ?
SELECT @a
SELECT $a
CREATE TABLE main.x (a)
CREATE TABLE temp.x (a)
DROP TABLE main.users
UPDATE main.users SET name = 'x'
DELETE FROM main.users
INSERT INTO notes SELECT id, name FROM users; DROP TABLE users
UPDATE users SET name = (SELECT 'notes')
UPDATE notes SET id = load_extension('x')
DROP TABLE notes
ALTER TABLE notes ADD COLUMN x
CREATE INDEX i ON notes (id)
""".strip().split("\n")
SQLITE_REFUSED.remove("-- x")
SQLITE_REFUSED.remove("SELECT 1; -- x")

SQLITE_HARMLESS = """
SELECT 1
SELECT 1;
SELECT 1; -- x
SELECT 1; /* x */
SELECT * FROM users
SELECT 'DROP TABLE users'
SELECT 'a; DELETE FROM users'
SELECT "name" FROM users
SELECT [name] FROM users
SELECT `name` FROM users
SELECT 1 AS "DROP TABLE"
SELECT 1 AS "load_extension('x')"
SELECT 'load_extension(1)'
SELECT 1 -- ; DROP TABLE users
SELECT 1 /* ; DROP TABLE users */
SELECT 'it''s; INSERT INTO x'
SELECT name AS truncate FROM users
SELECT name AS "delete" FROM users
SELECT name AS replace FROM users
SELECT replace(name, 'a', 'b') FROM users
SELECT count(*) FROM users
SELECT sum(id), avg(id), min(id), max(id), total(id) FROM users
SELECT count(DISTINCT name) FROM users
SELECT count(*) FILTER (WHERE id > 1) FROM users
SELECT group_concat(name, ', ') FROM users
SELECT row_number() OVER (ORDER BY id) FROM users
SELECT lag(id) OVER w FROM users WINDOW w AS (ORDER BY id)
SELECT rank() OVER (PARTITION BY name ORDER BY id) FROM users
SELECT name, count(*) FROM users GROUP BY name HAVING count(*) > 0
SELECT DISTINCT name FROM users ORDER BY name DESC LIMIT 2 OFFSET 1
SELECT * FROM users WHERE name LIKE 'a%'
SELECT * FROM users WHERE name GLOB 'a*'
SELECT * FROM users WHERE name LIKE 'a\\%' ESCAPE '\\'
SELECT * FROM users WHERE id IN (1, 2)
SELECT * FROM users WHERE id IN (SELECT id FROM notes)
SELECT * FROM users WHERE EXISTS (SELECT 1 FROM notes)
SELECT * FROM users WHERE id BETWEEN 1 AND 2
SELECT * FROM users WHERE name IS NOT NULL
SELECT * FROM users WHERE name = 'update users set'
SELECT * FROM users u JOIN notes n ON n.id = u.id
SELECT * FROM users u LEFT JOIN notes n USING (id)
SELECT * FROM users CROSS JOIN notes
SELECT * FROM users NATURAL JOIN notes
SELECT id FROM users UNION SELECT id FROM notes
SELECT id FROM users UNION ALL SELECT id FROM notes
SELECT id FROM users EXCEPT SELECT id FROM notes
SELECT id FROM users INTERSECT SELECT id FROM notes
WITH a AS (SELECT 1 AS n) SELECT * FROM a
WITH a(n) AS (VALUES (1)) SELECT * FROM a
WITH a AS MATERIALIZED (SELECT 1) SELECT * FROM a
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t
WITH deleted AS (SELECT 1 AS n) SELECT * FROM deleted
VALUES (1), (2)
VALUES ('INSERT INTO users')
EXPLAIN SELECT 1
EXPLAIN QUERY PLAN SELECT * FROM users
SELECT CASE WHEN id > 1 THEN 'a' ELSE 'b' END FROM users
SELECT coalesce(NULL, 1), ifnull(NULL, 1), nullif(1, 2), iif(1, 2, 3)
SELECT upper(name), lower(name), length(name), trim(name) FROM users
SELECT substr(name, 1, 2), instr(name, 'a') FROM users
SELECT printf('%d', 1), format('%d', 1)
SELECT hex('x'), quote('x'), unicode('x'), char(65)
SELECT abs(-1), round(1.5), max(1, 2), min(1, 2)
SELECT random() IS NOT NULL
SELECT randomblob(4) IS NOT NULL
SELECT zeroblob(4)
SELECT typeof(1), typeof('a'), typeof(NULL), typeof(1.5), typeof(x'00')
SELECT date('now') IS NOT NULL
SELECT datetime('2024-01-01', '+1 day')
SELECT strftime('%Y-%m', '2024-01-01')
SELECT julianday('2024-01-01')
SELECT unixepoch('2024-01-01')
SELECT time('12:00')
SELECT json('{"a":1}')
SELECT json_extract('{"a":1}', '$.a')
SELECT '{"a":1}' -> '$.a'
SELECT '{"a":1}' ->> 'a'
SELECT json_object('a', 1), json_array(1, 2)
SELECT value FROM json_each('[1, 2]')
SELECT key, value FROM json_tree('{"a":[1]}')
SELECT u.id, j.value FROM users u, json_each('[1]') j
SELECT json_group_array(id) FROM users
SELECT sqlite_version()
SELECT sqlite_source_id() IS NOT NULL
SELECT changes(), total_changes(), last_insert_rowid()
SELECT name FROM sqlite_master
SELECT name, sql FROM sqlite_schema WHERE type = 'table'
SELECT * FROM pragma_table_info('users')
SELECT name FROM pragma_table_list
SELECT * FROM pragma_index_list('users')
SELECT * FROM pragma_foreign_key_list('users')
PRAGMA table_info(users)
PRAGMA table_xinfo(users)
PRAGMA table_list
PRAGMA index_list(users)
PRAGMA foreign_key_list(users)
PRAGMA collation_list
PRAGMA compile_options
SELECT * FROM recent
SELECT * FROM main.users
SELECT main.users.id FROM main.users
SELECT rowid, _rowid_, oid FROM users
SELECT CAST('1' AS INTEGER), CAST(1 AS TEXT)
SELECT 1 = 1, 1 == 1, 1 <> 2, 1 != 2, 1 < 2, 1 <= 2
SELECT 1 + 2, 3 - 1, 2 * 3, 7 / 2, 7 % 2, -1, +1, ~1
SELECT 1 << 2, 4 >> 1, 5 & 1, 5 | 1
SELECT 'a' || 'b'
SELECT 1 AND 0, 1 OR 0, NOT 1
SELECT 1 IS 1, 1 IS NOT 2, NULL IS NULL
SELECT x'00ff', X'AB'
SELECT 1e5, .5, 0x1F
SELECT (1, 2) = (1, 2)
SELECT (SELECT max(id) FROM users)
SELECT * FROM (SELECT id FROM users) AS sub
SELECT * FROM (VALUES (1, 'a'), (2, 'b'))
SELECT name COLLATE NOCASE FROM users
SELECT * FROM users ORDER BY name COLLATE BINARY NULLS LAST
SELECT * FROM users INDEXED BY by_name WHERE name = 'a'
SELECT * FROM users NOT INDEXED
SELECT likely(1), unlikely(0)
SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM users
SELECT ntile(2) OVER (ORDER BY id) FROM users
SELECT first_value(id) OVER (ORDER BY id) FROM users
SELECT percent_rank() OVER (ORDER BY id) FROM users
SELECT :n, :n + 1, :s
SELECT * FROM users WHERE id = :n OR name = :s
SELECT ':n'
SELECT 'VACUUM', 'ATTACH', 'PRAGMA'
SELECT name FROM users WHERE name <> 'PRAGMA journal_mode'
SELECT name FROM users WHERE name NOT IN ('DROP', 'ALTER')
SELECT "update", "delete" FROM odd
SELECT odd."update" FROM odd
SELECT created_at, updated_at FROM odd
SELECT sin(1) IS NOT NULL, pow(2, 3), sqrt(4), ceil(1.5), floor(1.5), ln(1), pi()
SELECT soundex('a') IS NOT NULL OR true
SELECT sign(-5)
SELECT trim('  a '), ltrim(' a'), rtrim('a ')
SELECT glob('a*', 'abc'), like('a%', 'abc')
SELECT total(id) FROM users WHERE id > 100
SELECT avg(id) FROM users WHERE 0
SELECT max(length(name)) FROM users
SELECT count(*) FROM users u, notes n WHERE u.id = n.id
SELECT u.id FROM users u WHERE u.id = (SELECT max(n.id) FROM notes n)
SELECT group_concat(DISTINCT name) FROM users
SELECT json_type('{"a":1}'), json_valid('x')
SELECT json_set('{"a":1}', '$.b', 2), json_insert('[]', '$[0]', 1), json_remove('[1]', '$[0]')
SELECT json_patch('{}', '{"a":1}'), json_replace('{"a":1}', '$.a', 2)
SELECT dense_rank() OVER (ORDER BY name) FROM users
SELECT lead(id, 1, 0) OVER (ORDER BY id) FROM users
SELECT NULL
SELECT 9223372036854775807
SELECT 'ü', '日本', '🙂'
SELECT "id" AS "insert into" FROM users
SELECT id FROM users WHERE name LIKE '%;%'
SELECT 'x' AS "a;b"
SELECT substr('DELETE', 1, 3)
SELECT id FROM users -- c1
""".strip().split("\n")
