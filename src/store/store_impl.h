#ifndef RIDDLE_STORE_STORE_IMPL_H
#define RIDDLE_STORE_STORE_IMPL_H

/*
 * What a backend implements, and what the files of this folder share. A backend blocks; the threads
 * of store.c call it. One thread calls all of begin … abandon (the writer); get, list and
 * upload_bytes come from STORE_READERS other threads, each with a slot of its own, so a backend
 * that keeps a connection per slot needs no lock. Records that reach a backend have been checked by
 * record_check().
 */

#include "store/store.h"

#define STORE_READERS 2

/* What a backend can do. */
enum store_caps {
    STORE_CAP_DURABLE = 1 << 0, /* what commit acknowledged survives loss of power */
    STORE_CAP_SHARED = 1 << 1,  /* several servers may use it at once */
};

struct store_backend;

/* A cursor taken apart: the sort key of the last item of the page before. */
struct store_position {
    char time[CLOCK_ISO_SIZE];
    char id[STORE_CURSOR_SIZE];
    int64_t number; /* messages */
};

/*
 * Errors of put, remove and abandon: VALIDATION, CONFLICT, NOT_FOUND and TOO_LARGE concern that one
 * write and leave the transaction usable; after any other code the transaction is given up by
 * rollback().
 */
struct store_ops {
    const char *name;
    unsigned caps;
    int (*open)(const struct store_options *options, struct store_backend **ret, struct err *err);
    void (*close)(struct store_backend *b);

    /* Every write is inside of begin and commit; what rollback ends leaves no trace. */
    int (*begin)(struct store_backend *b, struct err *err);
    int (*commit)(struct store_backend *b, struct err *err);
    void (*rollback)(struct store_backend *b); /* also where nothing has begun */

    int (*put)(struct store_backend *b, enum record_type type, const void *record,
               enum store_mode mode, int64_t *ret_value, struct err *err);
    int (*remove)(struct store_backend *b, enum record_type type, const char *owner, const char *id,
                  int64_t *ret_n, struct err *err);
    int (*abandon)(struct store_backend *b, const char *error_json, int64_t *ret_n,
                   struct err *err);

    /* ret has an arena; the backend allocates the items in it. */
    int (*get)(struct store_backend *b, size_t slot, enum record_type type, const char *owner,
               const char *id, struct store_page *ret, struct err *err);
    /*
     * At most q->limit items, newest first, after `after` (NULL: from the start), ending early once
     * they hold more than STORE_PAGE_BYTES of text. ret_more tells whether there is another.
     */
    int (*list)(struct store_backend *b, size_t slot, enum record_type type,
                const struct store_query *q, const struct store_position *after,
                struct store_page *ret, bool *ret_more, struct err *err);
    /*
     * Removes runs that began before `before` (may be NULL), and of each owner the oldest past
     * max_bytes (0: no limit).
     */
    int (*trim)(struct store_backend *b, int64_t max_bytes, const char *before, int64_t *ret_n,
                struct err *err);
    /*
     * Between transactions, soon after something was removed: leaves no trace of it on the disk.
     * May be NULL.
     */
    int (*scrub)(struct store_backend *b, struct err *err);
    /*
     * Now and then: an error when what is written now will not be found by the next server. May be
     * NULL.
     */
    int (*check)(struct store_backend *b, struct err *err);
    /* Of records that have a quota, by the writer's thread. */
    int (*kept_bytes)(struct store_backend *b, const char *owner, int64_t *ret, struct err *err);
    int (*upload_bytes)(struct store_backend *b, size_t slot, const char *owner, int64_t *ret,
                        struct err *err);
};

extern const struct store_ops store_sqlite_ops;

#define STORE_PAGE_BYTES ((size_t)16 << 20)
#define STORE_ARENA_BYTES ((size_t)64 << 20)

/* ---- records as data ---- */

enum field_kind {
    FIELD_ID,   /* text that is not empty and holds no control character */
    FIELD_TEXT, /* any UTF-8 */
    FIELD_JSON,
    FIELD_TIME,
    FIELD_INT, /* int64_t; negative is null */
};

enum field_flags {
    FIELD_REQUIRED = 1 << 0,
    FIELD_HEAVY = 1 << 1,  /* not in lists */
    FIELD_FIXED = 1 << 2,  /* not changed by a later put */
    FIELD_KEPT = 1 << 3,   /* by the store itself: no put sets it */
    FIELD_HIDDEN = 1 << 4, /* not in the JSON */
};

struct record_field {
    const char *name;  /* column, and member of the struct */
    const char *shown; /* key in the JSON; NULL: name */
    size_t offset;
    enum field_kind kind;
    unsigned flags;
    size_t max_bytes;
};

struct record_info {
    const char *noun; /* "run" */
    const char *table;
    const char *key;  /* column of the id */
    const char *sort; /* column of the time that lists are sorted by */
    bool own_ids;     /* ids are unique for their owner, not among all */
    size_t size;      /* of the struct */
    const struct record_field *fields;
    size_t n_fields;
};

extern const struct record_info record_infos[_RECORD_MAX];

/*
 * The filters of a query, each a comparison with a column; NULL stands for the column that lists
 * are sorted by.
 */
struct query_filter {
    const char *name;
    const char *column;
    const char *op;
    size_t offset;  /* in struct store_query */
    unsigned types; /* bit per record type that has it */
};
#define QUERY_FILTERS 12
#define QUERY_LIKE 8 /* which of them is `like` */
extern const struct query_filter query_filters[QUERY_FILTERS];
/* NULL when the filter is not set. An owner that is store_any_owner is not set. */
const char *query_filter_value(const struct store_query *q, const struct query_filter *f);
/* VALIDATION for a filter that this kind of record does not have, a missing owner or a bad time. */
int query_check(enum record_type type, const struct store_query *q, struct err *err);

const struct record_field *record_field(enum record_type type,
                                        const char *name); /* aborts if there is none */
const char *record_text(const void *record, const struct record_field *f);
int64_t record_int(const void *record, const struct record_field *f);
void record_set_text(void *record, const struct record_field *f, const char *text);
void record_set_int(void *record, const struct record_field *f, int64_t value);

/*
 * Bytes of all text; VALIDATION for a missing member, TOO_LARGE past a member's maximum. Cheap
 * enough for the loop.
 */
int record_measure(enum record_type type, const void *record, size_t *ret_bytes, struct err *err);
/* The rest: UTF-8, times, ids. */
int record_check(enum record_type type, const void *record, struct err *err);
/*
 * One block: the struct and behind it its text, `bytes` as measured. Times that are NULL become
 * now. Caller frees.
 */
void *record_copy(enum record_type type, const void *record, size_t bytes);

void cursor_print(enum record_type type, const void *record, char ret[STORE_CURSOR_SIZE]);
int cursor_parse(enum record_type type, const char *cursor, struct store_position *ret,
                 struct err *err);

#endif
