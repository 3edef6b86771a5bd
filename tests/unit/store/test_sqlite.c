/*
 * The SQLite store and its file: schema and migrations, what is refused, what happens when the file
 * is locked, the disk full, the directory not writable, the content damaged; and that what was
 * acknowledged is there after `kill -9`.
 */

#include "store/support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/id.h"
#include "base/str.h"
#include "store/sqlite_impl.h"

static struct place place;
static struct err err;

static int setup(void **state)
{
    (void)state;
    place_make(&place);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    place_remove(&place);
    return 0;
}

static int try_open(const char *path, struct store **ret)
{
    const struct store_options options = { .path = path, .busy_timeout_ms = 50 };
    return store_open(&options, NULL, ret, &err);
}

/*
 * The call failed with this code, and its message is exactly this with the path of the place in it.
 */
#define assert_fails_at(call, code, fmt)                                                           \
    do {                                                                                           \
        char message_[ERR_MESSAGE_MAX];                                                            \
        snprintf(message_, sizeof(message_), fmt, place.path);                                     \
        assert_fails(call, &err, code, message_);                                                  \
    } while (0)

/* ---- another connection to the same file, as another program would have it ---- */

static sqlite3 *other_open(void)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(place.path, &db), SQLITE_OK);
    return db;
}

static void other_exec(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
}

static int64_t other_int(sqlite3 *db, const char *sql)
{
    int64_t value = -1;
    assert_works(sqlite_pragma_int(db, place.path, sql, &value, &err), &err);
    return value;
}

/* ---- the file ---- */

static void test_a_new_file(void **state)
{
    (void)state;
    struct stat st;
    place_open(&place, "sqlite");
    sqlite3 *db = other_open();
    assert_int_equal(other_int(db, "PRAGMA user_version"), sqlite_schema_version);
    assert_int_equal(other_int(db, "PRAGMA application_id"), SQLITE_STORE_APPLICATION);
    assert_int_equal(
        other_int(db, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'"), 1);
    assert_int_equal(
        other_int(db, "SELECT count(*) FROM pragma_table_list WHERE name IN ('run_capsules', "
                      "'threads', 'thread_messages', 'uploads') AND strict"),
        4);
    sqlite3_close(db);
    assert_int_equal(stat(place.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    place_close(&place);
    /* Closed, the log is in the database. */
    char wal[128];
    snprintf(wal, sizeof(wal), "%s-wal", place.path);
    assert_int_equal(access(wal, F_OK), -1);
}

/* SQLite finds this one instead of the C library's, so that syncs can be counted. */
static atomic_int syncs;

int fdatasync(int fd)
{
    atomic_fetch_add(&syncs, 1);
    return (int)syscall(SYS_fdatasync, fd);
}

static void test_an_acknowledged_write_was_synced(void **state)
{
    (void)state;
    place_open(&place, "sqlite");
    for (int i = 0; i < 5; i++) {
        char id[16];
        snprintf(id, sizeof(id), "r%d", i);
        struct capsule c = sample_capsule(id, "ann");
        int before = atomic_load(&syncs);
        keep(place.store, RECORD_CAPSULE, &c);
        assert_true(atomic_load(&syncs) > before);
    }
}

static off_t log_bytes(void)
{
    char log[128];
    struct stat st;
    snprintf(log, sizeof(log), "%s-wal", place.path);
    assert_int_equal(stat(log, &st), 0);
    return st.st_size;
}

/* All of them are synced before the answer: that takes longer than the execution. */
static void test_an_execution_writes_few_pages(void **state)
{
    (void)state;
    enum { RUNS = 50, PAGE = 4096 + 24 };
    place_open(&place, "sqlite");
    struct capsule c = sample_capsule("first", "ann");
    c.dataset_id = "";
    c.thread_id = "sandbox";
    keep(place.store, RECORD_CAPSULE, &c);
    off_t before = log_bytes();
    for (int i = 0; i < RUNS; i++) {
        char id[40];
        snprintf(id, sizeof(id), "%08x-run", (unsigned)i * 2654435761u);
        c.run_id = id;
        keep(place.store, RECORD_CAPSULE, &c);
    }
    /* The row, its id, time, thread and size; now and then the file grows by a page. */
    assert_in_range((log_bytes() - before) / PAGE, RUNS, 7 * RUNS);
}

static void test_lists_use_an_index(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "SELECT run_id FROM run_capsules WHERE owner = 'a' AND (created_at, run_id) < ('x', 'y') "
        "ORDER BY created_at DESC, run_id DESC",
        "SELECT question FROM run_capsules WHERE owner = 'a' AND status = 's' AND query_mode = 'm' "
        "ORDER BY created_at DESC, run_id DESC",
        "SELECT question FROM run_capsules WHERE owner = 'a' AND dataset_id = 'd' AND created_at >= 'x' "
        "AND dataset_id <> '' "
        "ORDER BY created_at DESC, run_id DESC",
        "SELECT question FROM run_capsules WHERE owner = 'a' AND thread_id = 't' "
        "ORDER BY created_at DESC, run_id DESC",
        "UPDATE run_capsules SET status = 'failed' WHERE status IN ('queued', 'running')",
        "SELECT title FROM threads WHERE owner = 'a' ORDER BY updated_at DESC, thread_id DESC",
        "SELECT content FROM thread_messages WHERE owner = 'a' AND thread_id = 't' AND id < 7 ORDER BY id DESC",
        "SELECT path FROM uploads WHERE owner = 'a' ORDER BY created_at DESC, file_id DESC",
        "SELECT sum(size_bytes) FROM uploads WHERE owner = 'a'",
    };
    place_open(&place, "sqlite");
    sqlite3 *db = other_open();
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        char sql[512];
        sqlite3_stmt *stmt;
        snprintf(sql, sizeof(sql), "EXPLAIN QUERY PLAN %s", lists[i]);
        assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
        while (sqlite3_step(stmt) == SQLITE_ROW) {
            const char *step = (const char *)sqlite3_column_text(stmt, 3);
            bool sorts = strstr(step, "TEMP B-TREE") != NULL;
            bool scans = str_starts(step, "SCAN") && !strstr(step, "run_capsules_in_flight");
            if (sorts || scans)
                fail_msg("%s: %s", lists[i], step);
        }
        sqlite3_finalize(stmt);
    }
    sqlite3_close(db);
}

/* ---- migrations ---- */

/* A database as the first version left it, with a run in it. */
static void make_old(int version)
{
    sqlite3 *db = other_open();
    char sql[128];
    for (int i = 0; i < version; i++)
        other_exec(db, sqlite_migrations[i]);
    snprintf(sql, sizeof(sql), "PRAGMA application_id = %d; PRAGMA user_version = %d",
             SQLITE_STORE_APPLICATION, version);
    other_exec(db, sql);
    other_exec(
        db,
        "INSERT INTO run_capsules (run_id, owner, created_at, dataset_id, query_mode, status) VALUES "
        "('old', 'ann', '2026-01-01T00:00:00.000+00:00', 'd', 'sql', 'succeeded')");
    sqlite3_close(db);
}

static void test_every_old_version_is_brought_forward(void **state)
{
    (void)state;
    assert_true(sqlite_schema_version >= 2);
    for (int version = 1; version <= sqlite_schema_version; version++) {
        make_old(version);
        place_open(&place, "sqlite");
        assert_string_equal(
            list_ids(place.store, RECORD_CAPSULE, &(struct store_query){ .owner = "ann" }), "old");
        struct upload u = sample_upload("f-1", "ann", 5);
        keep(place.store, RECORD_UPLOAD, &u);
        sqlite3 *db = other_open();
        assert_int_equal(other_int(db, "PRAGMA user_version"), sqlite_schema_version);
        assert_int_equal(other_int(db, "SELECT sum(bytes) FROM run_sizes WHERE owner = 'ann' "
                                       "AND run_id = 'old' AND created_at < '2026-01-02'"),
                         1024);
        sqlite3_close(db);
        place_close(&place);
        assert_int_equal(unlink(place.path), 0);
    }
}

static void test_a_step_that_fails_leaves_the_old_version(void **state)
{
    (void)state;
    make_old(1);
    sqlite3 *db = other_open();
    other_exec(
        db,
        "CREATE TABLE uploads_by_time (in_the_way)"); /* the second step makes an index of this name */
    sqlite3_close(db);
    struct store *s;
    assert_int_equal(try_open(place.path, &s), -ERR_INTERNAL);
    assert_non_null(strstr(err.message, "updating the schema: the store '"));
    db = other_open();
    assert_int_equal(other_int(db, "PRAGMA user_version"), 1);
    assert_int_equal(other_int(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'uploads'"), 0);
    other_exec(db, "DROP TABLE uploads_by_time");
    sqlite3_close(db);
    place_open(&place, "sqlite");
}

static void test_a_newer_database_is_refused(void **state)
{
    (void)state;
    struct store *s;
    char message[300];
    snprintf(message, sizeof(message),
             "opening: the store '%s' was written by a newer Riddle (schema 99, this one knows "
             "%d); use that "
             "one, or set CAPSULE_DB_PATH to another file",
             place.path, sqlite_schema_version);
    make_old(2);
    sqlite3 *db = other_open();
    other_exec(db, "PRAGMA user_version = 99");
    sqlite3_close(db);
    assert_fails(try_open(place.path, &s), &err, ERR_CONFIG, message);
    db = other_open();
    assert_int_equal(other_int(db, "PRAGMA user_version"), 99);
    sqlite3_close(db);
}

static void test_another_programs_database_is_left_alone(void **state)
{
    (void)state;
    struct store *s;
    sqlite3 *db = other_open();
    other_exec(db, "CREATE TABLE run_capsules (run_id TEXT PRIMARY KEY)");
    sqlite3_close(db);
    assert_fails_at(
        try_open(place.path, &s), ERR_CONFIG,
        "opening: '%s' is a database of another program; set CAPSULE_DB_PATH to a file of Riddle's own");
    db = other_open();
    assert_int_equal(
        other_int(db, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'delete'"), 1);
    assert_int_equal(other_int(db, "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"), 1);
    sqlite3_close(db);
}

/* ---- locked ---- */

#define LOCKED                                                                                     \
    "writing: the store '%s' is locked by another program; end what has it open, then try again"

static void test_a_locked_file(void **state)
{
    (void)state;
    struct store *s;
    struct store_page page;
    assert_works(try_open(place.path, &s), &err);
    sqlite3 *db = other_open();
    struct capsule c = sample_capsule("r-1", "ann");
    other_exec(db, "BEGIN IMMEDIATE");
    assert_fails_at(store_put_wait(s, RECORD_CAPSULE, &c, STORE_PUT, NULL, &err), ERR_UNAVAILABLE,
                    LOCKED);
    assert_fails_at(store_ready(s, &err), ERR_UNAVAILABLE, LOCKED);
    /* Reading goes on. */
    assert_works(
        store_list_wait(s, RECORD_CAPSULE, &(struct store_query){ .owner = "ann" }, &page, &err),
        &err);
    assert_int_equal(page.n, 0);
    store_page_finish(&page);
    assert_int_equal(store_ready(s, &err), -ERR_UNAVAILABLE);
    other_exec(db, "ROLLBACK");
    assert_works(store_put_wait(s, RECORD_CAPSULE, &c, STORE_PUT, NULL, &err), &err);
    assert_works(store_ready(s, &err), &err);
    sqlite3_close(db);
    store_close(s);
}

/* An announced write begins a transaction. If it does not come, or is refused, others get in. */
static void test_an_announced_write(void **state)
{
    (void)state;
    struct store *s;
    assert_works(try_open(place.path, &s), &err);
    sqlite3 *db = other_open();
    struct capsule c = sample_capsule("r-1", "ann"), bad = sample_capsule("r-2", "ann");
    bad.status = "\n";
    sqlite3_busy_timeout(db, 2000);
    for (int i = 0; i < 3; i++) {
        store_expect_put(s);
        store_expect_put(s);
        if (i > 0)
            assert_int_equal(store_put_wait(s, RECORD_CAPSULE, i == 1 ? &c : &bad, STORE_CREATE,
                                            NULL, &err),
                             i == 1 ? 0 : -ERR_VALIDATION);
        other_exec(db, "BEGIN IMMEDIATE; ROLLBACK");
    }
    assert_string_equal(list_ids(s, RECORD_CAPSULE, &(struct store_query){ .owner = "ann" }),
                        "r-1");
    other_exec(db, "BEGIN IMMEDIATE");
    store_expect_put(s);
    usleep(10000); /* the transaction cannot begin; the write is told why */
    assert_fails_at(store_put_wait(s, RECORD_CAPSULE, &c, STORE_PUT, NULL, &err), ERR_UNAVAILABLE,
                    LOCKED);
    sqlite3_close(db);
    store_expect_put(s);
    store_close(s);
}

static void test_a_file_that_is_locked_when_opened(void **state)
{
    (void)state;
    struct store *s;
    sqlite3 *db = other_open();
    other_exec(db, "BEGIN EXCLUSIVE");
    assert_fails_at(
        try_open(place.path, &s), ERR_UNAVAILABLE,
        "opening: the store '%s' is locked by another program; end what has it open, then try again");
    sqlite3_close(db);
    assert_works(try_open(place.path, &s), &err);
    store_close(s);
}

static int refused, accepted, failed_puts;

static void count_put(const struct err *e, int64_t value, void *arg)
{
    (void)value, (void)arg;
    failed_puts += e != NULL;
    accepted--;
}

/* While nothing can be written the queue grows, but not without end. */
static void test_the_queue_has_an_end(void **state)
{
    (void)state;
    place_open(&place, "sqlite");
    sqlite3 *db = other_open();
    other_exec(db, "BEGIN IMMEDIATE");
    refused = accepted = failed_puts = 0;
    while (refused == 0 && accepted < 100000) {
        char id[32];
        snprintf(id, sizeof(id), "r-%d", accepted);
        struct capsule c = sample_capsule(id, "ann");
        if (store_put_capsule(place.store, &c, STORE_PUT, count_put, NULL, &err) < 0)
            refused++;
        else
            accepted++;
    }
    assert_int_equal(refused, 1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_string_equal(err.message, "the store is behind with its work; try again later");
    struct store_stats stats;
    store_stats(place.store, &stats);
    assert_int_equal(stats.refused, 1);
    other_exec(db, "ROLLBACK");
    sqlite3_close(db);
    uv_run(&place.loop, UV_RUN_DEFAULT);
    assert_int_equal(accepted, 0);
    assert_int_equal(failed_puts, 0);
}

/* ---- not writable, damaged ---- */

static void test_paths_that_cannot_be(void **state)
{
    (void)state;
    struct store *s;
    assert_fails(try_open("", &s), &err, ERR_CONFIG, "opening: the store needs the path of a file");
    assert_fails(try_open(":memory:", &s), &err, ERR_CONFIG,
                 "opening: the store needs the path of a file");
    assert_works(fd_write_file(place.path, "x", &err), &err);
    char below[128];
    snprintf(below, sizeof(below), "%s/riddle.db", place.path);
    assert_int_equal(try_open(below, &s), -ERR_IO);
    assert_true(str_starts(
        err.message, "making the directory of the store; set RIDDLE_HOME or CAPSULE_DB_PATH: "));
    assert_int_equal(try_open(place.dir, &s), -ERR_IO);
    assert_non_null(strstr(err.message, "make the file and its directory writable"));
}

/*
 * Runs fn in a child, as nobody if this is root, whom no permission stops. Returns what it returns.
 */
static int in_child(int (*fn)(void), bool as_nobody)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (as_nobody && geteuid() == 0 &&
            (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
            _exit(99);
        int r = fn();
        fflush(NULL);
        _exit(r);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define CHILD_SKIPS 77
#define child_expects(condition)                                                                   \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_error("%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, err.message);  \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static int open_unwritable(void)
{
    struct store *s;
    char want[ERR_MESSAGE_MAX];
    child_expects(try_open(place.path, &s) == -ERR_IO);
    snprintf(
        want, sizeof(want),
        "opening: the store '%s' cannot be made; make its directory writable for this user, or set "
        "CAPSULE_DB_PATH: Permission denied",
        place.path);
    child_expects(str_eq(err.message, want));
    return 0;
}

static int open_unwritable_existing(void)
{
    struct store *s;
    char want[ERR_MESSAGE_MAX];
    child_expects(try_open(place.path, &s) == -ERR_IO);
    snprintf(want, sizeof(want), "opening: the store '%s' cannot be written", place.path);
    child_expects(str_starts(err.message, want));
    child_expects(strstr(err.message, "or set CAPSULE_DB_PATH"));
    return 0;
}

static void test_a_directory_that_cannot_be_written(void **state)
{
    (void)state;
    assert_int_equal(chmod(place.dir, 0555), 0);
    assert_int_equal(in_child(open_unwritable, true), 0);
    assert_int_equal(chmod(place.dir, 0700), 0);
    place_open(&place, "sqlite");
    place_close(&place);
    assert_int_equal(chmod(place.path, 0444), 0);
    assert_int_equal(chmod(place.dir, 0555), 0);
    assert_int_equal(in_child(open_unwritable_existing, true), 0);
    assert_int_equal(chmod(place.dir, 0700), 0);
}

static void test_a_file_that_is_no_database(void **state)
{
    (void)state;
    struct store *s;
    char junk[8192];
    memset(junk, 'j', sizeof(junk) - 1);
    junk[sizeof(junk) - 1] = '\0';
    assert_works(fd_write_file(place.path, junk, &err), &err);
    assert_fails_at(
        try_open(place.path, &s), ERR_IO,
        "opening: the store '%s' is damaged or is no SQLite database (file is not a database); put a "
        "backup in its place, or move it away to begin with an empty one");
}

static void test_a_damaged_file(void **state)
{
    (void)state;
    place_open(&place, "sqlite");
    for (int i = 0; i < 300; i++) {
        char id[16];
        snprintf(id, sizeof(id), "r%03d", i);
        struct capsule c = sample_capsule(id, "ann");
        c.question = "what is the average order value of customers who returned at least one item?";
        keep(place.store, RECORD_CAPSULE, &c);
    }
    place_close(&place);
    struct stat st;
    assert_int_equal(stat(place.path, &st), 0);
    int fd = open(place.path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    /* All pages but the first, which holds the schema. */
    for (off_t at = 4096; at < st.st_size; at += 4096)
        assert_int_equal(
            pwrite(fd, "\xde\xad\xbe\xef\xde\xad\xbe\xef\xde\xad\xbe\xef\xde\xad\xbe\xef", 16, at),
            16);
    close(fd);
    struct store *s;
    struct store_page page;
    if (try_open(place.path, &s) == 0) { /* nothing of it has been looked at yet */
        assert_int_equal(store_list_wait(s, RECORD_CAPSULE, &(struct store_query){ .owner = "ann" },
                                         &page, &err),
                         -ERR_IO);
        store_close(s);
    }
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.message, "is damaged or is no SQLite database"));
    assert_non_null(strstr(err.message, place.path));
}

/* ---- full ---- */

#define FULL                                                                                       \
    "no space is left for the store '%s'; free some, or point CAPSULE_DB_PATH to another disk"

/*
 * Fills the store until it fails, which must be for want of room; then all that was acknowledged is
 * there and it is still read.
 */
static int fill_up(void)
{
    struct store *s;
    struct store_page page;
    static char text[60000];
    char want[ERR_MESSAGE_MAX];
    int n = 0;
    snprintf(want, sizeof(want), "writing: " FULL, place.path);
    memset(text, 'x', sizeof(text) - 1);
    if (try_open(place.path, &s) < 0)
        child_expects(false);
    for (;; n++) {
        char id[16];
        snprintf(id, sizeof(id), "r%04d", n);
        struct capsule c = sample_capsule(id, "ann");
        c.question = text;
        child_expects(n < 1000);
        if (store_put_wait(s, RECORD_CAPSULE, &c, STORE_PUT, NULL, &err) < 0)
            break;
    }
    child_expects(err.code == ERR_IO && str_eq(err.message, want));
    child_expects(n > 0);
    child_expects(store_ready(s, &err) == -ERR_IO);
    for (int i = 0; i < n; i++) {
        char id[16];
        snprintf(id, sizeof(id), "r%04d", i);
        child_expects(store_get_wait(s, RECORD_CAPSULE, "ann", id, &page, &err) == 0);
        store_page_finish(&page);
    }
    store_close(s);
    return 0;
}

static int fill_up_limited(void)
{
    const struct rlimit limit = { 1 << 20, 1 << 20 };
    signal(SIGXFSZ, SIG_IGN);
    child_expects(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    return fill_up();
}

static int fill_up_tmpfs(void)
{
    char users[32], groups[32];
    bool root = geteuid() == 0;
    snprintf(users, sizeof(users), "0 %d 1", (int)geteuid());
    snprintf(groups, sizeof(groups), "0 %d 1", (int)getegid());
    if (unshare(CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER)) < 0 ||
        (!root && (fd_write_file("/proc/self/uid_map", users, &err) < 0 ||
                   fd_write_file("/proc/self/setgroups", "deny", &err) < 0 ||
                   fd_write_file("/proc/self/gid_map", groups, &err) < 0)) ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", place.dir, "tmpfs", 0, "size=2m") < 0)
        return CHILD_SKIPS;
    return fill_up();
}

static void test_a_file_size_limit(void **state)
{
    (void)state;
    assert_int_equal(in_child(fill_up_limited, false), 0);
}

static void test_a_full_disk(void **state)
{
    (void)state;
    int r = in_child(fill_up_tmpfs, false);
    if (r == CHILD_SKIPS)
        skip();
    assert_int_equal(r, 0);
}

/* One write that does not fit does not take with it those that share its transaction. */
static int one_too_large(void)
{
    const struct rlimit limit = { 1 << 20, 1 << 20 };
    struct told small[20] = { 0 }, large = { 0 };
    size_t size = (size_t)4 << 20;
    auto_free char *text = malloc(size);
    child_expects(text != NULL);
    memset(text, 'x', size - 1);
    text[0] = text[size - 2] = '"';
    text[size - 1] = '\0';
    signal(SIGXFSZ, SIG_IGN);
    child_expects(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    place_open(&place, "sqlite");
    sqlite3 *db = other_open();
    other_exec(db, "BEGIN IMMEDIATE"); /* until all are queued */
    for (int i = 0; i < 20; i++) {
        char id[16];
        snprintf(id, sizeof(id), "r%02d", i);
        struct capsule c = sample_capsule(id, "ann");
        if (i == 10) {
            c.result_json = text;
            child_expects(store_put_capsule(place.store, &c, STORE_PUT, tell_done, &large, &err) ==
                          0);
        } else {
            child_expects(
                store_put_capsule(place.store, &c, STORE_PUT, tell_done, &small[i], &err) == 0);
        }
    }
    other_exec(db, "ROLLBACK");
    sqlite3_close(db);
    uv_run(&place.loop, UV_RUN_DEFAULT);
    for (int i = 0; i < 20; i++)
        child_expects(small[i].err.code == ERR_NONE && small[i].calls == (i != 10));
    child_expects(large.calls == 1 && large.err.code == ERR_IO);
    struct store_page page;
    child_expects(store_list_wait(place.store, RECORD_CAPSULE,
                                  &(struct store_query){ .owner = "ann" }, &page, &err) == 0);
    child_expects(page.n == 19);
    store_page_finish(&page);
    place_close(&place);
    return 0;
}

static void test_what_does_not_fit_fails_alone(void **state)
{
    (void)state;
    assert_int_equal(in_child(one_too_large, false), 0);
}

/* ---- kill -9 ---- */

#define KILLS 30
#define WRITERS 8
#define ID_BYTES                                                                                   \
    40 /* what a writer sends for each acknowledgement; below PIPE_BUF, so never mixed */

static struct store *victim;
static int ack_pipe;

/* Writes runs and messages for ever, and tells of each when the store has acknowledged it. */
static void *victim_writer(void *arg)
{
    (void)arg;
    for (int i = 0;; i++) {
        struct err e;
        char ack[ID_BYTES] = "", id[ID_UUID_SIZE];
        int64_t number;
        id_uuid4(id);
        struct capsule c = sample_capsule(id, "ann");
        struct message m = sample_message("t-1", "ann", "hello");
        c.question = "how many orders were returned?";
        bool message = i % 4 == 3;
        if (store_put_wait(victim, message ? RECORD_MESSAGE : RECORD_CAPSULE,
                           message ? (void *)&m : &c, STORE_PUT, &number, &e) < 0)
            _exit(3);
        if (message)
            snprintf(ack, sizeof(ack), "%lld", (long long)number);
        else
            snprintf(ack, sizeof(ack), "%s", id);
        if (write(ack_pipe, ack, sizeof(ack)) != sizeof(ack))
            _exit(4);
    }
    return NULL;
}

static void be_victim(int fd)
{
    pthread_t threads[WRITERS];
    struct thread t = sample_thread("t-1", "ann");
    ack_pipe = fd;
    if (try_open(place.path, &victim) < 0 ||
        store_put_wait(victim, RECORD_THREAD, &t, STORE_PUT, NULL, &err) < 0)
        _exit(2);
    for (size_t i = 0; i < WRITERS; i++)
        if (pthread_create(&threads[i], NULL, victim_writer, NULL) != 0)
            _exit(5);
    for (;;)
        pause();
}

/* Every record that the child told of, read from the pipe until its end. */
static size_t drain(int fd, char (**acks)[ID_BYTES], size_t n, size_t *cap, size_t stop_after)
{
    for (size_t got = 0; stop_after == 0 || got < stop_after;) {
        if (n == *cap) {
            *cap = *cap * 2 + 1024;
            *acks = realloc(*acks, *cap * ID_BYTES);
            assert_non_null(*acks);
        }
        ssize_t r = read(fd, (*acks)[n], ID_BYTES);
        assert_true(r == 0 || r == ID_BYTES);
        if (r == 0)
            break;
        n++, got++;
    }
    return n;
}

static void test_what_was_acknowledged_survives_kill_9(void **state)
{
    (void)state;
    auto_free char(*acks)[ID_BYTES] = NULL;
    size_t n = 0, cap = 0, checked = 0;
    unsigned seed = (unsigned)getpid();
    for (int round = 0; round < KILLS; round++) {
        int fds[2], status;
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            close(fds[0]);
            be_victim(fds[1]);
        }
        close(fds[1]);
        size_t before = n;
        n = drain(fds[0], &acks, n, &cap, 1 + (size_t)rand_r(&seed) % 400);
        usleep((useconds_t)rand_r(&seed) % 2000); /* any point of a transaction */
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        n = drain(fds[0], &acks, n, &cap, 0);
        close(fds[0]);
        assert_true(n > before);

        struct store *s;
        assert_works(try_open(place.path, &s), &err);
        for (; checked < n; checked++) {
            struct store_page page;
            bool message = !strchr(acks[checked], '-');
            assert_works(store_get_wait(s, message ? RECORD_MESSAGE : RECORD_CAPSULE, "ann",
                                        acks[checked], &page, &err),
                         &err);
            store_page_finish(&page);
        }
        store_close(s);
    }
    sqlite3 *db = other_open();
    assert_int_equal(
        other_int(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"),
        1);
    assert_true(
        other_int(
            db,
            "SELECT (SELECT count(*) FROM run_capsules) + (SELECT count(*) FROM thread_messages)") >=
        (int64_t)n);
    /* The thread's count is of the same transactions as its messages. */
    assert_int_equal(
        other_int(db, "SELECT message_count - (SELECT count(*) FROM thread_messages) FROM threads"),
        0);
    sqlite3_close(db);
    print_message("%d kills, %zu acknowledged writes, none lost\n", KILLS, n);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_new_file),
        TEST(test_an_acknowledged_write_was_synced),
        TEST(test_an_execution_writes_few_pages),
        TEST(test_lists_use_an_index),
        TEST(test_every_old_version_is_brought_forward),
        TEST(test_a_step_that_fails_leaves_the_old_version),
        TEST(test_a_newer_database_is_refused),
        TEST(test_another_programs_database_is_left_alone),
        TEST(test_a_locked_file),
        TEST(test_an_announced_write),
        TEST(test_a_file_that_is_locked_when_opened),
        TEST(test_the_queue_has_an_end),
        TEST(test_paths_that_cannot_be),
        TEST(test_a_directory_that_cannot_be_written),
        TEST(test_a_file_that_is_no_database),
        TEST(test_a_damaged_file),
        TEST(test_a_file_size_limit),
        TEST(test_a_full_disk),
        TEST(test_what_does_not_fit_fails_alone),
        TEST(test_what_was_acknowledged_survives_kill_9),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
