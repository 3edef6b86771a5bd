#ifndef RIDDLE_STORE_STORE_H
#define RIDDLE_STORE_STORE_H

/*
 * What Riddle keeps: run capsules, threads and their messages, records of uploads, words about data
 * sets, verified questions. A store is opened once; nothing but open, close and the *_wait calls
 * blocks. Work is done by threads of the store's own; callbacks come in the loop's thread, exactly
 * once for each call that returned 0, and never from within that call.
 *
 * A write whose callback came with err == NULL survives `kill -9` and loss of power.
 *
 * Everything has an owner, and each owner sees only what is theirs: another's id is NOT_FOUND, as
 * if it did not exist.
 *
 * Records handed in are copied. Records handed out live until the callback returns, or until the
 * page is finished.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/err.h"

struct store;

/* ---- records: NULL text and negative numbers stand for "unknown" ---- */

/*
 * Members named _json hold compact JSON text (no raw line break), as json_to_str() gives it. Times
 * are as clock_iso8601() writes them; created_at and updated_at are filled with the present when
 * they are NULL. A created_at once stored stays.
 */

/* What is needed to understand and repeat a run. */
struct capsule {
    const char *run_id, *owner, *created_at;
    const char *dataset_id, *dataset_version_hash;
    const char *query_mode; /* sql, plan, python, chat */
    const char *status;     /* queued, running, then how it ended */
    const char *verdict;
    int64_t exec_time_ms;
    const char *thread_id;
    const char *replay_of; /* run that this one repeats */
    const char *question;
    const char *error_json, *timings_json, *usage_json;
    /* Left out of lists: */
    const char *limits_json, *plan_json, *compiled_sql, *python_code, *result_json;
    /*
     * With a put, instead of result_json: a large one is written beside the loop. The store holds
     * a reference until its callback; nobody changes the value meanwhile.
     */
    const json_t *result;
    int64_t figure_bytes; /* of the files that the result refers to */
};

struct thread {
    const char *thread_id, *owner; /* an id is unique for its owner: clients may choose it */
    const char *title;
    const char *datasets_json, *uploads_json; /* arrays of ids */
    const char *created_at, *updated_at;
    const char *state;      /* open: a conversation; sandbox: one without */
    const char *terms_json; /* of a sandbox (run/sandbox_terms.h) */
    int64_t message_count;  /* kept by the store */
    int64_t pinned;         /* 1: its owner wants it on top */
    /* With the put that creates it: it begins with copies of the messages of this thread. */
    const char *forked_from;
};

struct message {
    int64_t id;             /* given by the store, ascending */
    const char *owner;      /* of the thread */
    const char *thread_id;  /* must exist, otherwise NOT_FOUND */
    const char *created_at; /* also becomes the thread's updated_at */
    const char *dataset_id, *role, *content, *run_id;
    const char *metadata_json;
};

struct upload {
    const char *file_id, *owner, *filename;
    int64_t size_bytes;
    const char *sha256;
    const char *path; /* on this machine; never shown */
    int64_t rows;
    const char *columns_json;
    const char *options_json; /* how it is read, where its owner said it: an object */
    const char *status, *error;
    const char *created_at, *expires_at;
    /* Of a file that belongs to a thread: */
    const char *thread_id;
    const char *table_name; /* "": it has none */
    const char *used_at;    /* the thread */
};

/* What an owner wrote about a data set: descriptions, units, metrics, notes. It goes with an upload
 * that is removed. */
struct dataset_words {
    const char *dataset_id, *owner;
    const char *words_json; /* {description?, notes?, metrics?, tables?} */
    const char *updated_at;
};

/* A question whose answer its owner confirmed, with the code that answered it. It goes with an
 * upload that is removed. */
struct verified {
    const char *run_id, *owner; /* the run that answered */
    const char *created_at;
    const char *dataset_id;
    const char *question;
    const char *query_mode; /* sql, plan, python */
    const char *plan_json, *compiled_sql, *python_code;
};

/* One statement that a database was asked. */
struct asked_query {
    const char *query_id, *owner;
    const char *created_at;
    const char *dataset_id;         /* the database's name */
    const char *thread_id, *run_id; /* whose code asked; NULL: the API */
    const char *sql, *params_json;  /* values that are marked so are "(redacted)" */
    const char *status;             /* ok, refused, error, timeout, cancelled, unavailable */
    const char *error;
    int64_t row_count, exec_time_ms;
    int64_t wrote; /* 1: it may have changed a table */
};

/* Of one owner; older ones are removed now and then. */
#define STORE_QUERIES_MAX 10000
#define STORE_QUERIES_BYTES 67108864

/* Of one owner and data set; a write past it is refused (VALIDATION). */
#define STORE_VERIFIED_MAX 500

struct store_page;

enum record_type {
    RECORD_CAPSULE,
    RECORD_THREAD,
    RECORD_MESSAGE,
    RECORD_UPLOAD,
    RECORD_WORDS,
    RECORD_VERIFIED,
    RECORD_QUERY,
    _RECORD_MAX
};

/*
 * Appends the record as the API shows it: _json members as the JSON that they are, owner and paths
 * left out. brief leaves out what a list does not carry, instead of showing it as null.
 */
int record_json(enum record_type type, const void *record, bool brief, struct buf *b,
                struct err *err);

/*
 * Appends a whole answer: head, the page's records with commas between, and `],"next":…}` (the
 * member is called next_key).
 */
int records_json(enum record_type type, const char *head, const struct store_page *page, bool brief,
                 const char *next_key, struct buf *b, struct err *err);
/* Of what came before the last record: `],"next":…}`. */
int records_end(const struct store_page *page, const char *next_key, struct buf *b,
                struct err *err);

/*
 * A time that a person wrote (2026-01-31, 2026-01-31T12:00, …:00.5Z, …+02:00) as the store writes
 * it. VALIDATION.
 */
int store_parse_time(const char *text, char ret[CLOCK_ISO_SIZE], struct err *err);

/* A time as the store writes it, in milliseconds since the epoch; 0 for none. */
int64_t store_time_ms(const char *text);

/* ---- open and close ---- */

struct store_options {
    const char *provider; /* NULL: sqlite */
    const char *path;     /* of the database file; its directory is made */
    int busy_timeout_ms;  /* how long to wait for another program's lock; 0: 5 s */
    int64_t quota_bytes;  /* of one owner's threads and what they told about data; 0: no limit */
};

/*
 * loop NULL: only the *_wait calls. Blocks: creates, migrates. CONFIG, IO or UNAVAILABLE say what
 * to do.
 */
int store_open(const struct store_options *options, uv_loop_t *loop, struct store **ret,
               struct err *err);
/* As the settings STORAGE_PROVIDER and CAPSULE_DB_PATH say. */
int store_configured_path(const struct config *cfg, char *ret, size_t n, struct err *err);
int store_open_configured(const struct config *cfg, uv_loop_t *loop, struct store **ret,
                          struct err *err);

/*
 * Does what was handed in, calls every callback that is due, then closes. The memory goes with the
 * loop's next turn, so the loop must still run once. From the loop's thread, not from a callback.
 * Takes NULL.
 */
void store_close(struct store *s);
/*
 * Copies the store of one file to another that is not there yet, and checks the copy. The first one
 * may be in use by a server.
 */
int store_copy(const char *from_path, const char *to_path, struct err *err);

/* Providers of this build, for --version: NULL past the last. */
const char *store_provider_name(size_t i);

/* ---- writes ---- */

/* err is NULL on success; value is the id of a message, otherwise how many records changed. */
typedef void (*store_done_fn)(const struct err *err, int64_t value, void *arg);

enum store_mode {
    STORE_PUT,    /* creates or replaces */
    STORE_CREATE, /* CONFLICT if it is there */
};

/*
 * At once: VALIDATION or TOO_LARGE for a record that cannot be kept, UNAVAILABLE when too much is
 * queued. Later: CONFLICT for an id that is another owner's, and what open says.
 */
int store_put_capsule(struct store *s, const struct capsule *c, enum store_mode mode,
                      store_done_fn done, void *arg, struct err *err);
int store_put_thread(struct store *s, const struct thread *t, enum store_mode mode,
                     store_done_fn done, void *arg, struct err *err);
int store_put_upload(struct store *s, const struct upload *u, enum store_mode mode,
                     store_done_fn done, void *arg, struct err *err);
int store_append_message(struct store *s, const struct message *m, store_done_fn done, void *arg,
                         struct err *err);
int store_put_wait(struct store *s, enum record_type type, const void *record, enum store_mode mode,
                   int64_t *ret_value, struct err *err); /* ret_value may be NULL */

/*
 * Several records, put in this order in one transaction: all of them or none. The error is that of
 * the first record that cannot be kept; value is that of the last one.
 */
#define STORE_BATCH_MAX 16

struct store_put {
    enum record_type type;
    const void *record;
    enum store_mode mode;
};

/*
 * TOO_LARGE when the owner's threads, messages, words and verified questions take more than they
 * may. To be asked before work that ends in such a record: what was begun is stored. An owner's
 * total is known from the first such write after the store was opened.
 */
int store_has_room(struct store *s, const char *owner, struct err *err);

/* One will come in a moment: the store gets ready for it meanwhile. A hint, no promise. */
void store_expect_put(struct store *s);
int store_put_batch(struct store *s, const struct store_put *puts, size_t n, store_done_fn done,
                    void *arg, struct err *err);
int store_put_batch_wait(struct store *s, const struct store_put *puts, size_t n,
                         int64_t *ret_value, struct err *err); /* ret_value may be NULL */

/* A thread goes with its messages. Messages alone cannot be removed. NOT_FOUND. */
int store_remove(struct store *s, enum record_type type, const char *owner, const char *id,
                 store_done_fn done, void *arg, struct err *err);
int store_remove_wait(struct store *s, enum record_type type, const char *owner, const char *id,
                      struct err *err);

/*
 * For the start of a server: runs that a dead one left queued or running become failed, with this
 * error (JSON). ret_n is how many.
 */
int store_abandon_runs_wait(struct store *s, const char *error_json, int64_t *ret_n,
                            struct err *err);

/*
 * Removes runs that began before this time (NULL: any). Of each owner whose runs take more than
 * max_bytes together (0: no limit), texts and figures, the oldest files of figures are dropped
 * (the outputs of the results say so), then the oldest runs removed. At most STORE_TRIM_MAX of each
 * at a time; the value of done says how many runs went or changed.
 */
#define STORE_TRIM_MAX 1000
int store_trim_runs(struct store *s, int64_t max_bytes, const char *before, store_done_fn done,
                    void *arg, struct err *err);

/* ---- reads ---- */

/*
 * In place of an owner, compared by address: the operator's own tools and sweeps. A string of any
 * content is not it.
 */
extern const char store_any_owner[];

#define STORE_LIMIT_DEFAULT 50
#define STORE_LIMIT_MAX 200
#define STORE_CURSOR_SIZE 192

struct store_query;

/*
 * Called beside the loop for a page that was read (of a list, or of a get, which has no query):
 * makes of it what is wanted, in page->text or page->value. It keeps no state of its own. A
 * page with a text has lost its records when it is handed out; n stays.
 */
typedef int (*store_make_fn)(const struct store_query *query, struct store_page *page,
                             struct err *err);

/* NULL filters match all. */
struct store_query {
    const char *owner; /* required */
    const char *dataset_id, *status,
        *query_mode; /* capsules; status also of uploads, dataset_id of verified questions; both of
                        queries */
    const char *thread_id;      /* capsules and queries; required for messages */
    const char *state;          /* threads */
    const char *since, *until;  /* since <= time < until, by what the list is sorted by */
    const char *expires_before; /* uploads */
    const char *like;   /* verified questions: those that share words with this text, the most alike
                         first; no cursor */
    const char *pinned; /* threads: "1" for those that are */
    const char *title_like; /* threads: a pattern of LIKE; `\` escapes */
    const char *cursor;     /* a page's next */
    int limit;              /* 0: default; clamped to 1…STORE_LIMIT_MAX */
    store_make_fn make;     /* NULL: records are all that is wanted */
};

/*
 * Newest first (threads by updated_at); messages of a page oldest first, the page being the newest
 * ones before the cursor.
 */
struct store_page {
    union {
        const struct capsule *capsules;
        const struct thread *threads;
        const struct message *messages;
        const struct upload *uploads;
        const struct dataset_words *words;
        const struct verified *verified;
        const struct asked_query *queries;
        void *items;
    };
    size_t n;
    char next[STORE_CURSOR_SIZE]; /* "" when there is no more */
    struct arena arena;           /* what all of it lives in */
    struct buf text;              /* what `make` made */
    json_t *value;
};

/* page is NULL when err is not. A get has exactly one item. */
typedef void (*store_read_fn)(const struct err *err, const struct store_page *page, void *arg);

int store_get(struct store *s, enum record_type type, const char *owner, const char *id,
              store_read_fn done, void *arg, struct err *err);
int store_get_made(struct store *s, enum record_type type, const char *owner, const char *id,
                   store_make_fn make, store_read_fn done, void *arg, struct err *err);
int store_list(struct store *s, enum record_type type, const struct store_query *query,
               store_read_fn done, void *arg, struct err *err);
/* The text of a page that a callback was handed, to be freed by the caller. */
char *store_page_take_text(const struct store_page *page, size_t *ret_len);
int store_get_wait(struct store *s, enum record_type type, const char *owner, const char *id,
                   struct store_page *ret, struct err *err);
int store_list_wait(struct store *s, enum record_type type, const struct store_query *query,
                    struct store_page *ret, struct err *err);
void store_page_finish(struct store_page *page);

/* value is the sum of size_bytes of the owner's uploads: for a quota. */
int store_upload_bytes(struct store *s, const char *owner, store_done_fn done, void *arg,
                       struct err *err);
int store_upload_bytes_wait(struct store *s, const char *owner, int64_t *ret, struct err *err);

/* ---- figures ---- */

#define STORE_BUCKETS 14
extern const int64_t store_bucket_us[STORE_BUCKETS]; /* upper bounds, inclusive */

struct store_histogram {
    uint64_t counts[STORE_BUCKETS + 1]; /* the last one holds what is above every bound */
    uint64_t count, sum_us;
};

struct store_stats {
    uint64_t writes, write_errors, reads, read_errors;
    uint64_t commits; /* transactions; writes / commits is how many share one */
    uint64_t refused; /* because too much was queued */
    size_t queued_writes, queued_reads;
    struct store_histogram write, read; /* from the call to the end of the work */
    struct store_histogram commit;      /* one transaction, sync included */
};
void store_stats(struct store *s, struct store_stats *ret);

/*
 * 0 unless the last write or the last read failed for a reason of the store's (disk, lock); then
 * that error.
 */
int store_ready(struct store *s, struct err *err);

const char *store_provider(const struct store *s);

#endif
