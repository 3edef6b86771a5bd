#ifndef RIDDLE_TESTS_UNIT_STORE_SUPPORT_H
#define RIDDLE_TESTS_UNIT_STORE_SUPPORT_H

/*
 * What the tests of the store share: a scratch directory, a store in it, and short ways to fill and
 * read it.
 */

#include "base/check.h"

#include "store/store.h"

/* A store on a file of its own. */
struct place {
    char dir[64];
    char path[96];
    uv_loop_t loop;
    struct store *store;
};

void place_make(struct place *p);                       /* the directory only */
void place_open(struct place *p, const char *provider); /* with the loop */
void place_close(struct place *p);                      /* and lets the loop end */
void place_remove(struct place *p);                     /* closes first, if it is open */

struct capsule sample_capsule(const char *run_id, const char *owner); /* only what is required */
struct thread sample_thread(const char *thread_id, const char *owner);
struct message sample_message(const char *thread_id, const char *owner, const char *content);
struct upload sample_upload(const char *file_id, const char *owner, int64_t size_bytes);

/* Puts and must succeed; returns the value. */
int64_t keep(struct store *s, enum record_type type, const void *record);

/*
 * The record as the API shows it; the same of the one with this id, which must be there. Caller
 * frees.
 */
char *shown(enum record_type type, const void *record, bool brief);
char *fetched(struct store *s, enum record_type type, const char *owner, const char *id);

/* The ids of a page with blanks between them, to compare a whole list at once. */
const char *page_ids(enum record_type type, const struct store_page *page);
/* The same of a list that must succeed. */
const char *list_ids(struct store *s, enum record_type type, const struct store_query *q);

/* What a callback told. */
struct told {
    int calls;
    struct err err;
    int64_t value;
    char text[256];
    enum record_type type;
};
void tell_done(const struct err *err, int64_t value, void *arg);
void tell_read(const struct err *err, const struct store_page *page, void *arg);

#endif
