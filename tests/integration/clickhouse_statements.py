"""Statements that a ClickHouse database must refuse, and harmless ones that look like them. The tables are those of test_clickhouse.py."""

# Ways to files, programs, other servers and time: as tables, as functions, behind aliases, in subqueries, in quotes, in any case.
_REACHES = """
url('http://127.0.0.1:1/',CSV,'a_Int8') url('http://127.0.0.1:1/','CSV','a_Int8') urlCluster('both','http://x/',CSV,'a_Int8') file('users.csv',CSV,'a_Int8')
file('../../etc/passwd','TabSeparated','a_String') fileCluster('both','*',CSV,'a_Int8') remote('127.0.0.1',default,users)
remote('127.0.0.1:9000','system.one') remoteSecure('127.0.0.1',default,users) cluster('both',default,users) cluster(both,system.one)
clusterAllReplicas(both,system.one) s3('http://x/y',CSV) s3Cluster(both,'http://x/y',CSV) gcs('http://x/y',CSV) oss('http://x/y',CSV)
hdfs('hdfs://x/y',CSV,'a_Int8') hdfsCluster(both,'hdfs://x/y',CSV,'a_Int8') azureBlobStorage('x','y','z') azureBlobStorageCluster(both,'x','y','z')
mysql('127.0.0.1:3306','d','t','u','p') postgresql('127.0.0.1:5432','d','t','u','p') mongodb('127.0.0.1','d','t','u','p','a_Int8')
redis('127.0.0.1','k','a_Int8') sqlite('/etc/x.db','t') odbc('DSN=x','d','t') jdbc('jdbc:x','d','t') executable('id',TSV,'a_String')
executable('cat_/etc/passwd',TSV,'a_String') input('a_Int8') deltaLake('http://x/y') iceberg('http://x/y') icebergS3('http://x/y') hudi('http://x/y')
paimon('http://x/y') ytsaurus('x','y','z') arrowFlight('x','y') catBoostPool('a','b') shardByHash('both','k','default','users') loop(users)
fuzzJSON('x') fuzzQuery('x') prometheusQuery(a,'b',1)
""".split()

_CALLS = """
sleep(0.01) sleep(3) sleepEachRow(0.01) SLEEP(1) addressToLine(1) addressToSymbol(1) addressToLineWithInlines(1) demangle('x') modelEvaluate('m',1)
catboostEvaluate('/x',1) generateSerialID('x') file('/etc/passwd')
""".split()

CLICKHOUSE_REFUSED = [f"SELECT * FROM {call.replace('_', ' ')}" for call in _REACHES] + [f"SELECT {call}" for call in _CALLS] + """
INSERT INTO users (id) VALUES (99)
INSERT INTO users VALUES (99, 'x', 1)
INSERT INTO default.notes VALUES (1, 'x')
INSERT INTO users SELECT 1, 'x', 1
INSERT INTO users FORMAT CSV 1,x,1
INSERT INTO notes FORMAT Values (1, 'x')
INSERT INTO FUNCTION url('http://127.0.0.1:1/', CSV, 'a Int8') VALUES (1)
INSERT INTO TABLE FUNCTION remote('127.0.0.1', default, users) VALUES (1)
INSERT INTO function url('http://x') SELECT 1
INSERT INTO notes SELECT 1, a FROM url('http://127.0.0.1:1/', CSV, 'a String')
INSERT INTO notes SELECT * FROM remote('127.0.0.1', default, notes)
INSERT INTO Notes VALUES (1, 'x')
INSERT INTO "Notes" VALUES (1, 'x')
INSERT INTO notes VALUES (1, 'x'); INSERT INTO users VALUES (1, 'x', 1)
INSERT INTO notes (id, body) SETTINGS async_insert = 1 VALUES (1, 'x')
ALTER TABLE users DELETE WHERE 1
ALTER TABLE notes DELETE WHERE 1, DROP COLUMN body
ALTER TABLE users UPDATE name = 'x' WHERE 1
ALTER TABLE users ADD COLUMN x Int8
ALTER TABLE users DROP PARTITION tuple()
ALTER TABLE users FREEZE
DELETE FROM users WHERE 1
DELETE FROM notes ON CLUSTER both WHERE 1
UPDATE users SET name = 'x' WHERE 1
TRUNCATE TABLE users
DROP TABLE users
DROP DATABASE default
DETACH TABLE users
ATTACH TABLE users
RENAME TABLE users TO users2
EXCHANGE TABLES users AND notes
CREATE TABLE x (a Int8) ENGINE = Memory
CREATE TEMPORARY TABLE x (a Int8)
CREATE TABLE x ENGINE = Memory AS SELECT 1
CREATE TABLE x (a String) ENGINE = URL('http://127.0.0.1:1/', CSV)
CREATE TABLE x (a String) ENGINE = File(CSV)
CREATE VIEW v AS SELECT 1
CREATE MATERIALIZED VIEW v ENGINE = Memory AS SELECT 1
CREATE DATABASE x
CREATE DICTIONARY d (a Int8) PRIMARY KEY a SOURCE(HTTP(url 'http://x'))
CREATE FUNCTION f AS (x) -> x
CREATE USER u
CREATE ROLE r
CREATE QUOTA q
CREATE NAMED COLLECTION c AS a = 1
GRANT ALL ON *.* TO reader
REVOKE ALL ON *.* FROM reader
SET readonly = 0
SET max_execution_time = 0
SET ROLE boss
USE system
SYSTEM RELOAD CONFIG
SYSTEM SHUTDOWN
SYSTEM DROP MARK CACHE
SYSTEM STOP MERGES
SYSTEM FLUSH LOGS
KILL QUERY WHERE 1
KILL QUERY WHERE user = 'boss' SYNC
KILL MUTATION WHERE 1
OPTIMIZE TABLE users FINAL
CHECK TABLE users
BACKUP TABLE users TO Disk('backups', 'x')
RESTORE TABLE users FROM Disk('backups', 'x')
MOVE USER x TO y
WATCH v
SHOW TABLES
SHOW CREATE TABLE users
SHOW PROCESSLIST
SHOW GRANTS
DESCRIBE TABLE users
DESCRIBE url('http://127.0.0.1:1/', CSV)
EXISTS TABLE users
BEGIN TRANSACTION
COMMIT
EXECUTE AS boss SELECT 1
EXPLAIN INSERT INTO users VALUES (1, 'x', 1)
EXPLAIN SELECT * FROM url('http://127.0.0.1:1/', CSV)
EXPLAIN AST DROP TABLE users
FROM users SELECT id
SELECT 1 INTO OUTFILE '/tmp/x'
SELECT query FROM system.processes
SELECT query FROM `system` . "processes"
SELECT query FROM system.query_log
SELECT * FROM merge('system', '^processes$')
SELECT 1 INTO OUTFILE '/tmp/x' FORMAT CSV
SELECT 1 into outfile 'x' truncate
SELECT * FROM users INTO OUTFILE 'x'
SELECT 1 FORMAT CSV
SELECT 1 FORMAT JSON
SELECT 1 FORMAT Null
SELECT id FROM users LIMIT 1 FORMAT TabSeparated;
SELECT 1 FORMAT CSV SETTINGS max_threads = 1
SELECT 1 SETTINGS readonly = 0
SELECT 1 SETTINGS max_execution_time = 0
SELECT 1 settings max_result_rows = 0, readonly = 0
SELECT * FROM (SELECT 1 SETTINGS readonly = 0)
SELECT * FROM users SETTINGS allow_ddl = 1
SELECT 1 SETTINGS "readonly" = 0
SELECT 1 SETTINGS/**/readonly=0
SELECT 1; SELECT 2
SELECT 1; DROP TABLE users
SELECT 1;;SELECT 2
SELECT 1 ; -- x
 DROP TABLE users
SELECT 1 PARALLEL WITH DROP TABLE users
WITH 1 AS x INSERT INTO users VALUES (1, 'x', 1)
WITH x AS (SELECT 1) INSERT INTO users SELECT * FROM x
WITH (SELECT 1 FROM url('http://127.0.0.1:1/', CSV, 'a Int8')) AS x SELECT x
SELECT (SELECT count() FROM remote('127.0.0.1', default, users))
SELECT id FROM users WHERE id IN (SELECT a FROM url('http://127.0.0.1:1/', CSV, 'a Int8'))
SELECT id FROM users WHERE id IN remote('127.0.0.1', default, users)
SELECT * FROM users, url('http://127.0.0.1:1/', CSV, 'a Int8')
SELECT * FROM users JOIN url('http://127.0.0.1:1/', CSV, 'id Int64') AS u ON users.id = u.id
SELECT * FROM users GLOBAL ANY LEFT JOIN remote('127.0.0.1', default, users) AS r USING id
SELECT * FROM `url`('http://127.0.0.1:1/', CSV, 'a Int8')
SELECT * FROM "remote"('127.0.0.1', default, users)
SELECT * FROM URL('http://127.0.0.1:1/', CSV, 'a Int8')
SELECT * FROM Remote('127.0.0.1', default, users)
SELECT * FROM url/* x */('http://127.0.0.1:1/', CSV, 'a Int8')
SELECT * FROM url -- x
('http://127.0.0.1:1/', CSV, 'a Int8')
SELECT 1 UNION ALL SELECT a FROM url('http://127.0.0.1:1/', CSV, 'a Int8')
SELECT 'it\\'s' AS x, a FROM url('http://127.0.0.1:1/', CSV, 'a Int8')
SELECT '\\\\' AS x, a FROM url('http://127.0.0.1:1/', CSV, 'a Int8') -- '
SELECT 'a''b', a FROM file('x', CSV, 'a Int8')
SELECT * FROM nosuchtable(1)
SELECT * FROM dictionary('d')
SELECT * FROM generateRandom('a Int8')
SELECT * FROM users JOIN someFutureTable('x') USING id
SELECT * FROM (SELECT * FROM (SELECT * FROM executable('id', TSV, 'a String')))
(SELECT * FROM url('http://127.0.0.1:1/', CSV, 'a Int8'))
SELECT arrayMap(x -> sleep(1), [1])
SELECT if(1, sleepEachRow(1), 0)
SELECT {name:String}
SELECT {x:Identifier} FROM users
SELECT 1 # comment
SELECT 1 #! comment
SELECT $$text$$
SELECT $tag$ text $tag$
SELECT ‘text’
SELECT “id” FROM users
SELECT 1 /* outer /* inner */ , 2 */
SELECT é FROM users
SELECT "a\\"b" FROM users
SELECT 1\u00a0AS x
SELECT * FROM users, hive('thrift://x', 'd', 't', 'a Int8', 'a')
SELECT * FROM users AS a, nats('x') AS b
SELECT * FROM users u, dictionary('d') x
SELECT * FROM (SELECT 1) AS a, kafka('a', 'b') AS b
SELECT * FROM (hive('thrift://x', 'd', 't', 'a Int8', 'a'))
SELECT * FROM users a ANY INNER JOIN (SELECT 1 AS id) b ON a.id = b.id, filesystem('/')
SELECT count() FROM users WHERE id IN (SELECT id FROM users, filesystem('/'))
SELECT reverseDNSQuery('127.0.0.1')
SELECT logTrace('x')
""".strip().split("\n") + [  # where a comment ends
    "SELECT 1 --\r '\n, sleep(0.01) --'",
    "SELECT 1 --x\r/*\n, sleep(0.01) --*/",
    'SELECT 1 --\r"\n, sleep(0.01) --"',
]

# A line that begins with a blank or a parenthesis continues the one before it where that ends in a comment.
def _joined(lines):
    out = []
    for line in lines:
        if out and out[-1].endswith("-- x"):
            out[-1] += "\n" + line
        else:
            out.append(line)
    return out


CLICKHOUSE_REFUSED = _joined(CLICKHOUSE_REFUSED)

_PLAIN = """
1+1 'a' NULL now()>0 today()>toDate('2000-01-01') version()!='' currentDatabase() hostName()!='' timezone()!='' uptime()>=0 toString(1) toInt64('5')
lower('ABC') upper('abc') length('abc') substring('abc',1,2) concat('a','b') replaceAll('url(x)','x','y') position('file(x)','x') reverse('abc')
splitByChar(',','a,b') arrayJoin([1,2]) arrayMap(x->x+1,[1,2]) arrayFilter(x->x>1,[1,2]) arraySort([3,1]) has([1,2],1) length([1,2]) empty('')
domain('http://x.org/a') path('http://x.org/a') protocol('http://x/') URLHash('http://x/') URLHierarchy('http://x/a/b') cutURLParameter('http://x/?a=1','a')
extractURLParameter('http://x/?a=1','a') decodeURLComponent('a%20b') topLevelDomain('http://x.org') queryString('http://x/?a') fragment('http://x/#f')
toDate('2024-01-01') toDateTime('2024-01-01_00:00:00')=0 toYear(today())>0 toMonth(today())>0 toStartOfMonth(today())<=today() dateDiff('day',today(),today())
if(1,'a','b') multiIf(0,1,1,2,3) coalesce(NULL,1) nullIf(1,1) isNull(NULL) greatest(1,2) least(1,2) abs(-1) round(1.5) floor(1.5) sqrt(4) pow(2,3)
rand()>=0 generateUUIDv4()!=toUUID('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11') cityHash64('a') MD5('a')!='' hex('a') unhex('61') bitAnd(1,3) intDiv(7,2) 7%2
match('abc','a.c') extract('abc','b') like('abc','a%') 'abc'LIKE'a%' tuple(1,'a') toTypeName(1) toDecimal64('1.5',2) toFixedString('ab',2) ignore(1) throwIf(0)
toIntervalDay(1) today()-INTERVAL_1_DAY<today() formatReadableSize(1024) bar(1,0,2,3) visitParamExtractInt('{"a":1}','a') transform(1,[1],[2],0)
""".split()

CLICKHOUSE_HARMLESS = [f"SELECT {text.replace('_', ' ')} AS x" for text in _PLAIN] + """
SELECT * FROM users
SELECT id, name FROM users ORDER BY id LIMIT 2
SELECT * FROM users;
SELECT count() FROM users
SELECT count(*) AS n FROM default.users
SELECT * FROM "users"
SELECT * FROM `users`
SELECT u.id FROM users AS u WHERE u.id > :n
SELECT name FROM users WHERE name = :s OR id = :n
SELECT id FROM users WHERE id IN (1, 2)
SELECT id FROM users WHERE id IN (SELECT id FROM notes)
SELECT id FROM users WHERE id GLOBAL IN (SELECT id FROM notes)
SELECT id FROM users ANY INNER JOIN notes USING id
SELECT id FROM users ALL LEFT JOIN notes USING id
SELECT * FROM (SELECT id FROM users)
(SELECT id FROM users)
SELECT id FROM users UNION ALL SELECT id FROM notes
SELECT number FROM system.numbers LIMIT 3
SELECT 1 FROM system.one
SELECT name FROM system.tables WHERE database = 'default'
SELECT name FROM system.columns WHERE table = 'users'
SELECT name, value FROM system.settings WHERE name = 'readonly'
SELECT name FROM system.functions WHERE name = 'sleep'
SELECT name FROM system.table_functions
SELECT name FROM system.settings LIMIT 1
SELECT 'system.processes' AS x
SELECT "update", "delete", "insert" FROM odd
SELECT update, delete FROM odd
SELECT url, file, remote FROM odd
SELECT odd.url FROM odd
SELECT sleep, settings, format FROM odd
SELECT settings = 1 AS x FROM odd
SELECT settings AS x, format AS y FROM odd
SELECT url AS remote, file AS mysql FROM odd
SELECT format FROM odd ORDER BY format
SELECT format FROM odd ORDER BY format DESC
SELECT format FROM odd ORDER BY format ASC
SELECT count() AS format FROM odd
SELECT outfile FROM odd
SELECT cluster FROM odd
SELECT 1 AS url
SELECT 1 AS sleep
SELECT 1 AS settings
SELECT 'INSERT INTO users VALUES (1)' AS x
SELECT 'DROP TABLE users; SELECT 1' AS x
SELECT 'a; b' AS x
SELECT 'SELECT 1 SETTINGS readonly = 0' AS x
SELECT 'url(''http://x/'')' AS x
SELECT 'it\\'s url(1)' AS x
SELECT 'back\\\\' AS x
SELECT 'INTO OUTFILE ''x''' AS x
SELECT 'FORMAT CSV' AS x
SELECT '# no comment' AS x
SELECT '$1 $$ $tag$' AS x
SELECT 'é “quoted” text' AS x
SELECT "id" AS "é"  FROM users
SELECT 1 AS "url(x)"
SELECT 1 AS `file(x)`
SELECT 1 -- DROP TABLE users
SELECT 1 /* INSERT INTO users VALUES (1) */
SELECT /* url('x') */ 1
SELECT 1 /* ; */ ;
SELECT -- remote('x')
 1 AS x
SELECT created_at, updated_at FROM odd
SELECT CASE WHEN 1 THEN 'insert' ELSE 'delete' END AS x
SELECT replaceRegexpAll('drop table', 'drop', 'keep') AS x
SELECT 1 WHERE 'insert' != 'into'
SELECT sum(id), avg(id), min(name), max(name) FROM users
SELECT name, count() AS n FROM users GROUP BY name HAVING n > 0 ORDER BY n DESC
SELECT name, count() FROM users GROUP BY name WITH TOTALS
SELECT DISTINCT name FROM users
SELECT id FROM users LIMIT 1 BY name
SELECT id FROM users LIMIT 1, 2
SELECT id FROM users LIMIT 1 OFFSET 1
SELECT id FROM users PREWHERE id > 0
SELECT id FROM users WHERE id BETWEEN 1 AND 2
SELECT quantile(0.5)(id) FROM users
SELECT uniqExact(name) FROM users
SELECT groupArray(name) FROM users
SELECT countIf(id > 1), sumIf(id, id > 1) FROM users
SELECT id > 1 ? 'a' : 'b' AS x FROM users
SELECT id, x FROM users ARRAY JOIN [1, 2] AS x
SELECT [1, 2][1] AS x
SELECT (1, 'a').1 AS x
SELECT {'a'} AS x WHERE 0 OR 1 = 2 UNION ALL SELECT 'b'
WITH 1 AS x SELECT x
WITH toDate('2024-01-01') AS d SELECT d
WITH (SELECT max(id) FROM users) AS m SELECT m
SELECT :n + 1 AS x, :s AS s
SELECT ':n' AS x
SELECT toDateTime('2024-01-01 10:20:30') AS x
SELECT CAST(1 AS String) AS x
SELECT CAST('2024-01-01', 'Date') AS x
SELECT EXTRACT(YEAR FROM toDate('2024-02-03')) AS x
SELECT trim(BOTH ' ' FROM lower(' A ')) AS x
SELECT substring('abc' FROM 2) AS x
SELECT * FROM merge(currentDatabase(), '^users$')
SELECT dumpColumnStructure(id) FROM users
SELECT count() FROM users WHERE name LIKE '%url(%'
SELECT * FROM recent
SELECT id FROM spread
SELECT count() FROM spread
SELECT x FROM users ARRAY JOIN splitByChar(',', name) AS x
SELECT id, x FROM users LEFT ARRAY JOIN range(toUInt64(id)) AS x
SELECT x, y FROM users ARRAY JOIN [1, 2] AS x, arrayMap(v -> v + 1, [1, 2]) AS y
SELECT x, upper(name), lower(name) FROM users ARRAY JOIN arrayReverse([1, 2]) AS x WHERE has([1, 2], x) ORDER BY length(name), lower(name)
SELECT y FROM (WITH 1 AS x, toString(2) AS y SELECT x, y, upper(y), lower(y))
SELECT a.id, upper(b.name), lower(b.name) FROM users a ANY INNER JOIN (SELECT id, name FROM users) b USING id
""".strip().split("\n")

# Of version 18: what its grammar does not have, and table functions, which its readonly mode refuses altogether.
NOT_IN_18 = ("trim(BOTH", "substring('abc' FROM", "merge(", "{'a'}")

CLICKHOUSE_HARMLESS = [s for s in _joined([s.replace("-- remote('x')", "-- remote('x') -- x") for s in CLICKHOUSE_HARMLESS])
                       if not any(words in s for words in NOT_IN_18)]
