/*
 * The threads of the store.
 *
 * Theory of operation. A call copies what it was given into a request and puts that into a queue.
 * One thread takes writes: all that are queued at that moment become one transaction, so that those
 * which arrive while a transaction is being synced share the next sync. STORE_READERS threads take
 * reads. A finished request goes into a third queue, from which the loop's thread calls back; one
 * that somebody waits for (*_wait) is signalled instead.
 *
 * A caller that is about to hand in a write may say so (dispatch_expect): the writer wakes up and
 * begins the transaction while the caller puts the write together. If none comes, it is rolled
 * back.
 *
 * What is to be made of a large page (store_make_fn) is made in the background, and so is a large
 * page freed.
 *
 * The result of a run is handed in as a value. A large one is turned into text by a thread in the
 * background, which then puts the request into the queue of writes.
 *
 * When a transaction fails as a whole its writes are tried again one by one, so that one that does
 * not fit on the disk does not take the others with it; not so when the store is locked, for that
 * was waited for already.
 */

#include "store/dispatch.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include "base/json.h"
#include "base/str.h"

#define QUEUE_MAX 8192
#define QUEUE_MAX_BYTES ((size_t)256 << 20)
#define BATCH_MAX 256
#define BATCH_MAX_BYTES ((size_t)64 << 20)
/* What was removed is scrubbed once no write came for this long, or at the latest after so long. */
#define SCRUB_QUIET_MS 300
#define SCRUB_LATEST_MS 3000
#define CHECK_MS 2000
#define EXPECT_MS 2 /* how long a transaction stays open for a write that was announced */
#define AT_ONCE_MAX ((size_t)64 << 10) /* of a page that the background has no part in */
#define REQUEST_TEXT_MAX ((size_t)128 << 10)

const int64_t store_bucket_us[STORE_BUCKETS] = { 100,    250,    500,     1000,   2500,
                                                 5000,   10000,  25000,   50000,  100000,
                                                 250000, 500000, 1000000, 5000000 };

/* ---- queues and requests ---- */

static void queue_init(struct queue *q)
{
    *q = (struct queue){ .head = NULL };
    q->tail = &q->head;
}

static void queue_push(struct queue *q, struct request *r)
{
    r->next = NULL;
    *q->tail = r;
    q->tail = &r->next;
    q->n++;
    q->bytes += r->bytes;
}

static struct request *queue_pop(struct queue *q)
{
    struct request *r = q->head;
    if (!r)
        return NULL;
    q->head = r->next;
    if (!q->head)
        q->tail = &q->head;
    q->n--;
    q->bytes -= r->bytes;
    r->next = NULL;
    return r;
}

void store_page_finish(struct store_page *page)
{
    arena_finish(&page->arena);
    buf_finish(&page->text);
    json_discard(page->value);
    *page = (struct store_page){ .n = 0 };
}

char *store_page_take_text(const struct store_page *page, size_t *ret_len)
{
    struct store_page *own = (struct store_page *)(uintptr_t)page; /* the request's, as its text */
    *ret_len = own->text.len;
    return buf_take(&own->text);
}

void request_free(struct request *r)
{
    if (!r)
        return;
    store_page_finish(&r->page);
    for (size_t i = 0; i < r->n_parts; i++)
        free(r->parts[i].record);
    arena_finish(&r->arena);
    json_discard(r->unwritten);
    free(r->written);
    free(r);
}

struct request *request_new(enum request_kind kind, enum record_type type)
{
    struct request *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->kind = kind;
    r->type = type;
    r->since_us = clock_now_us();
    arena_init(&r->arena, REQUEST_TEXT_MAX);
    arena_init(&r->page.arena, STORE_ARENA_BYTES);
    return r;
}

static bool is_write(const struct request *r)
{
    return r->kind == REQUEST_PUT || r->kind == REQUEST_REMOVE || r->kind == REQUEST_ABANDON ||
           r->kind == REQUEST_TRIM;
}

/* ---- figures; with the lock ---- */

static void histogram_add(struct store_histogram *h, int64_t us)
{
    size_t i = 0;
    while (i < STORE_BUCKETS && us > store_bucket_us[i])
        i++;
    h->counts[i]++;
    h->count++;
    h->sum_us += (uint64_t)MAX_OF(us, 0);
}

/* An answer about one record; everything else is trouble of the store. */
static bool is_answer(enum err_code code)
{
    return code == ERR_VALIDATION || code == ERR_CONFLICT || code == ERR_NOT_FOUND ||
           code == ERR_TOO_LARGE;
}

static void complete(struct store *s, struct request *r)
{
    bool write = is_write(r);
    pthread_mutex_lock(&s->lock);
    histogram_add(write ? &s->stats.write : &s->stats.read, clock_now_us() - r->since_us);
    *(write ? &s->stats.writes : &s->stats.reads) += 1;
    if (r->result < 0)
        *(write ? &s->stats.write_errors : &s->stats.read_errors) += 1;
    if (r->result == 0 || !is_answer(r->err.code))
        *(write ? &s->write_failure : &s->read_failure) = r->result == 0 ? (struct err)ERR_INIT :
                                                                           r->err;
    if (r->waited) {
        r->finished = true;
        pthread_cond_broadcast(&s->finished);
    } else {
        queue_push(&s->done, r);
    }
    bool call_back = !r->waited;
    pthread_mutex_unlock(&s->lock); /* a request that is waited for may be gone from here on */
    if (call_back)
        uv_async_send(&s->async);
}

/* ---- the writer ---- */

/* True if a part of the request was written although the whole of it failed. */
static bool apply(struct store *s, struct request *r)
{
    r->err = (struct err)ERR_INIT;
    r->result = 0;
    switch (r->kind) {
    case REQUEST_PUT:
        for (size_t i = 0; i < r->n_parts; i++) {
            const struct part *p = &r->parts[i];
            r->result = s->ops->put(s->backend, p->type, p->record, p->mode, &r->value, &r->err);
            if (r->result < 0)
                return i > 0;
        }
        return false;
    case REQUEST_REMOVE:
        r->result = s->ops->remove(s->backend, r->type, r->owner, r->id, &r->value, &r->err);
        return false;
    case REQUEST_ABANDON:
        r->result = s->ops->abandon(s->backend, r->error_json, &r->value, &r->err);
        return false;
    case REQUEST_TRIM:
        r->result = s->ops->trim(s->backend, r->max_bytes, r->before, &r->value, &r->err);
        s->trimmed = s->trimmed || r->value > 0;
        return false;
    default:
        abort();
    }
}

/*
 * One transaction of these requests. On failure nothing of them was written. *ret_refused is then
 * the index of a request of which an early part had been accepted and a later one was not, and n
 * otherwise.
 */
static int transact(struct store *s, struct request **batch, size_t n, size_t *ret_refused,
                    struct err *err)
{
    int64_t start_us = clock_now_us();
    int begun = s->begun;
    *ret_refused = n;
    s->begun = 0;
    if (begun < 0)
        *err = s->begin_failure;
    else if (begun == 0)
        begun = s->ops->begin(s->backend, err);
    if (begun < 0) {
        s->ops->rollback(s->backend);
        return -(int)err->code;
    }
    for (size_t i = 0; i < n; i++) {
        bool in_part = apply(s, batch[i]);
        bool answered = batch[i]->result == 0 || is_answer(batch[i]->err.code);
        if (in_part || !answered) {
            *err = batch[i]->err;
            *ret_refused = answered ? i : n;
            s->ops->rollback(s->backend);
            return -(int)err->code;
        }
    }
    if (s->ops->commit(s->backend, err) < 0) {
        s->ops->rollback(s->backend);
        return -(int)err->code;
    }
    pthread_mutex_lock(&s->lock);
    s->stats.commits++;
    histogram_add(&s->stats.commit, clock_now_us() - start_us);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static void fail(struct request *r, const struct err *err)
{
    r->err = *err;
    r->result = -err->code;
}

static void look_at_owners(struct store *s, struct request **batch, size_t n);

static void write_batch(struct store *s, struct request **batch, size_t n)
{
    struct request *valid[BATCH_MAX];
    struct err err = ERR_INIT;
    size_t n_valid = 0, refused = 0;
    for (size_t i = 0; i < n; i++) {
        struct request *r = batch[i];
        r->result = 0;
        for (size_t k = 0; k < r->n_parts && r->result == 0; k++)
            r->result = record_check(r->parts[k].type, r->parts[k].record, &r->err);
        if (r->result == 0)
            valid[n_valid++] = r;
    }
    int result = n_valid > 0 ? transact(s, valid, n_valid, &refused, &err) : 0;
    /* A batch that was refused half-way has its answer; the others are written without it. */
    while (result < 0 && refused < n_valid) {
        n_valid--;
        memmove(&valid[refused], &valid[refused + 1],
                (n_valid - refused) * sizeof(struct request *));
        result = n_valid > 0 ? transact(s, valid, n_valid, &refused, &err) : 0;
    }
    if (result < 0) {
        bool alone = n_valid > 1 && err.code != ERR_UNAVAILABLE;
        for (size_t i = 0; i < n_valid; i++)
            if (!alone || transact(s, &valid[i], 1, &refused, &err) < 0)
                fail(valid[i], &err);
    }
    look_at_owners(s, batch, n);
    for (size_t i = 0; i < n; i++)
        complete(s, batch[i]);
}

/* ---- quota ---- */

static const char *owner_of(enum record_type type, const void *record)
{
    bool counts = type == RECORD_THREAD || type == RECORD_MESSAGE || type == RECORD_WORDS ||
                  type == RECORD_VERIFIED;
    return counts ? record_text(record, record_field(type, "owner")) : NULL;
}

static size_t find_full(const struct store *s, const char *owner)
{
    size_t i = 0;
    while (i < s->n_full && !str_eq(s->full[i], owner))
        i++;
    return i;
}

/* Whether this owner has too much, after a write. */
static void look_at(struct store *s, const char *owner)
{
    int64_t bytes = 0;
    struct err ignored = ERR_INIT;
    if (s->ops->kept_bytes(s->backend, owner, &bytes, &ignored) < 0)
        return;
    pthread_mutex_lock(&s->lock);
    size_t at = find_full(s, owner);
    bool is_known = at < s->n_full;
    if (bytes > s->quota_bytes && !is_known) {
        char **more = realloc(s->full, (s->n_full + 1) * sizeof(*more));
        if (more) {
            s->full = more;
            if ((s->full[s->n_full] = strdup(owner)))
                s->n_full++;
        }
    } else if (bytes <= s->quota_bytes && is_known) {
        free(s->full[at]);
        s->full[at] = s->full[--s->n_full];
    }
    pthread_mutex_unlock(&s->lock);
}

/* Before the callbacks, so that whoever made room can use it. */
static void look_at_owners(struct store *s, struct request **batch, size_t n)
{
    bool removed = false;
    if (s->quota_bytes == 0 || !s->ops->kept_bytes)
        return;
    for (size_t i = 0; i < n; i++) {
        const char *last = NULL;
        removed |= batch[i]->kind == REQUEST_REMOVE;
        for (size_t k = 0; k < batch[i]->n_parts; k++) {
            const char *owner = owner_of(batch[i]->parts[k].type, batch[i]->parts[k].record);
            if (owner && !(last && str_eq(owner, last)))
                look_at(s, owner);
            last = owner ? owner : last;
        }
    }
    /* Whose record went is not always told: only this thread changes the list. */
    for (size_t i = s->n_full; removed && i > 0; i--) {
        auto_free char *owner = strdup(s->full[i - 1]);
        if (owner)
            look_at(s, owner);
    }
}

int store_has_room(struct store *s, const char *owner, struct err *err)
{
    pthread_mutex_lock(&s->lock);
    bool is_full = find_full(s, owner) < s->n_full;
    pthread_mutex_unlock(&s->lock);
    return is_full ? err_set(err, ERR_TOO_LARGE,
                             "your threads take more than the %lld bytes that they may "
                             "(THREAD_QUOTA_BYTES); delete some first",
                             (long long)s->quota_bytes) :
                     0;
}

/* ---- the writer, again ---- */

/* The next thing to do besides writing; with the lock. */
struct upkeep {
    int64_t scrub_since_ms; /* when something was removed; 0: all of it is scrubbed */
    int64_t check_ms;
};

/* Waits for writes or the announcement of one, for so long at most; with the lock. */
static void wait_for(struct store *s, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (!s->writes.head && !s->expected && (!s->closing || s->n_unwritten > 0))
        if (pthread_cond_timedwait(&s->writes_there, &s->lock, &until) != 0)
            return;
}

static void end_expected(struct store *s)
{
    if (s->begun > 0)
        s->ops->rollback(s->backend);
    s->begun = 0;
}

/* With the lock, but not while the transaction begins and ends. */
static void begin_expected(struct store *s)
{
    s->expected = false;
    pthread_mutex_unlock(&s->lock);
    s->begin_failure = (struct err)ERR_INIT;
    s->begun = s->ops->begin(s->backend, &s->begin_failure) < 0 ? -1 : 1;
    pthread_mutex_lock(&s->lock);
    s->expected = false; /* another one: it is begun already */
    wait_for(s, EXPECT_MS);
    if (s->writes.head)
        return;
    pthread_mutex_unlock(&s->lock);
    end_expected(s);
    pthread_mutex_lock(&s->lock);
}

/* Waits for writes, or for the time of the upkeep; with the lock. */
static void wait_for_writes(struct store *s, const struct upkeep *u)
{
    wait_for(s, u->scrub_since_ms ? SCRUB_QUIET_MS : MAX_OF(1, u->check_ms - clock_now_ms()));
    if (s->expected && !s->writes.head && !s->closing)
        begin_expected(s);
}

static void keep_up(struct store *s, struct upkeep *u, bool is_idle)
{
    struct err err = ERR_INIT;
    int64_t now = clock_now_ms();
    if (u->scrub_since_ms && (is_idle || now - u->scrub_since_ms >= SCRUB_LATEST_MS)) {
        /* Somebody reads the log just now: the next time. */
        u->scrub_since_ms = s->ops->scrub && s->ops->scrub(s->backend, &err) < 0 ? now : 0;
    }
    if (is_idle && now >= u->check_ms) {
        u->check_ms = now + CHECK_MS;
        if (!s->ops->check || s->ops->check(s->backend, &err) == 0)
            return;
        pthread_mutex_lock(&s->lock);
        s->write_failure = err;
        pthread_mutex_unlock(&s->lock);
    }
}

static void *writer_main(void *arg)
{
    struct store *s = arg;
    struct request *batch[BATCH_MAX];
    /* The last server may have been killed before it scrubbed. */
    struct upkeep upkeep = { .scrub_since_ms = clock_now_ms() };
    for (;;) {
        size_t n = 0, bytes = 0;
        pthread_mutex_lock(&s->lock);
        if (!s->closing || s->n_unwritten > 0)
            wait_for_writes(s, &upkeep);
        bool closing = s->closing && s->n_unwritten == 0;
        while (s->writes.head && n < BATCH_MAX && bytes <= BATCH_MAX_BYTES) {
            batch[n] = queue_pop(&s->writes);
            bytes += batch[n++]->bytes;
        }
        if (n > 0)
            s->expected = false;
        pthread_mutex_unlock(&s->lock);
        if (n == 0 && closing)
            return NULL; /* nothing is left */
        for (size_t i = 0; i < n; i++)
            if ((batch[i]->kind == REQUEST_REMOVE || batch[i]->kind == REQUEST_ABANDON) &&
                !upkeep.scrub_since_ms)
                upkeep.scrub_since_ms = clock_now_ms();
        if (n > 0)
            write_batch(s, batch, n);
        end_expected(s); /* none of the batch was fit to be written */
        if (s->trimmed && !upkeep.scrub_since_ms)
            upkeep.scrub_since_ms = clock_now_ms();
        s->trimmed = false;
        keep_up(s, &upkeep, n == 0);
    }
}

/* ---- the readers ---- */

static void reverse(struct store_page *page, size_t size)
{
    char *items = page->items;
    for (size_t i = 0, j = page->n; i + 1 < j; i++)
        for (size_t k = 0, a = i * size, b = --j * size; k < size; k++, a++, b++) {
            char t = items[a];
            items[a] = items[b];
            items[b] = t;
        }
}

static int read_list(struct store *s, size_t slot, struct request *r)
{
    const struct record_info *info = &record_infos[r->type];
    struct store_page *page = &r->page;
    bool more = false;
    const struct store_position *after = r->has_after ? &r->after : NULL;
    int result = s->ops->list(s->backend, slot, r->type, &r->query, after, page, &more, &r->err);
    if (result < 0)
        return result;
    if (more && page->n > 0 && !r->query.like) /* a ranked list is not continued */
        cursor_print(r->type, (char *)page->items + (page->n - 1) * info->size, page->next);
    if (r->type == RECORD_MESSAGE)
        reverse(page, info->size);
    return 0;
}

static void make(struct request *r)
{
    r->page.text = (struct buf)BUF_INIT(STORE_ARENA_BYTES);
    r->result = r->query.make(&r->query, &r->page, &r->err);
    if (r->page.text.len > 0) {
        arena_finish(&r->page.arena);
        r->page.items = NULL;
    }
}

/* In the background. */
static void make_later(struct background_job *job)
{
    struct request *r = (struct request *)job;
    struct store *s = r->store;
    make(r);
    complete(s, r);
    pthread_mutex_lock(&s->lock);
    s->n_making--;
    pthread_cond_broadcast(&s->finished);
    pthread_mutex_unlock(&s->lock);
}

/*
 * What is to be made of a page: of a large one in the background, whose threads have heaps of their
 * own; the many small pieces of a parsed value would slow down the heap of the loop. True: it is
 * completed there.
 */
static bool made_later(struct store *s, struct request *r)
{
    if (r->result < 0 || !r->query.make)
        return false;
    r->store = s;
    r->job.fn = make_later;
    pthread_mutex_lock(&s->lock);
    bool later = r->page.arena.used_bytes >= AT_ONCE_MAX && background_run(&r->job);
    s->n_making += later;
    pthread_mutex_unlock(&s->lock);
    if (!later)
        make(r);
    return later;
}

static void *reader_main(void *arg)
{
    struct reader *reader = arg;
    struct store *s = reader->store;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (!s->reads.head && !s->closing)
            pthread_cond_wait(&s->reads_there, &s->lock);
        struct request *r = queue_pop(&s->reads);
        pthread_mutex_unlock(&s->lock);
        if (!r)
            return NULL;
        if (r->kind == REQUEST_GET)
            r->result = s->ops->get(s->backend, reader->slot, r->type, r->owner, r->id, &r->page,
                                    &r->err);
        else if (r->kind == REQUEST_LIST)
            r->result = read_list(s, reader->slot, r);
        else
            r->result = s->ops->upload_bytes(s->backend, reader->slot, r->owner, &r->value,
                                             &r->err);
        if (!made_later(s, r))
            complete(s, r);
    }
}

/* ---- back in the loop ---- */

static void free_later(struct background_job *job)
{
    request_free((struct request *)job);
}

/* Giving megabytes back to the system takes milliseconds. */
static void request_free_beside(struct request *r)
{
    r->job.fn = free_later;
    if (r->page.arena.used_bytes < AT_ONCE_MAX || !background_run(&r->job))
        request_free(r);
}

void dispatch_call_back(struct store *s)
{
    struct queue done;
    pthread_mutex_lock(&s->lock);
    done = s->done;
    queue_init(&s->done);
    pthread_mutex_unlock(&s->lock);
    if (!done.head)
        return;
    for (struct request *r = done.head, *next; r; r = next) {
        next = r->next;
        const struct err *err = r->result < 0 ? &r->err : NULL;
        s->pending--;
        if (r->read)
            r->read(err, err ? NULL : &r->page, r->arg);
        else if (r->done)
            r->done(err, err ? 0 : r->value, r->arg);
        request_free_beside(r);
    }
    if (s->pending == 0)
        uv_unref((uv_handle_t *)&s->async);
}

/* ---- starting and stopping ---- */

void dispatch_init(struct store *s)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->writes_there, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&s->reads_there, NULL);
    pthread_cond_init(&s->finished, NULL);
    queue_init(&s->writes);
    queue_init(&s->reads);
    queue_init(&s->done);
}

void dispatch_finish(struct store *s)
{
    pthread_cond_destroy(&s->writes_there);
    pthread_cond_destroy(&s->reads_there);
    pthread_cond_destroy(&s->finished);
    pthread_mutex_destroy(&s->lock);
    for (size_t i = 0; i < s->n_full; i++)
        free(s->full[i]);
    free(s->full);
}

void dispatch_stop(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->writes_there);
    pthread_cond_broadcast(&s->reads_there);
    pthread_mutex_unlock(&s->lock);
    if (s->has_writer)
        pthread_join(s->writer, NULL);
    for (size_t i = 0; i < s->n_readers; i++)
        pthread_join(s->readers[i].thread, NULL);
    pthread_mutex_lock(&s->lock);
    while (s->n_making > 0)
        pthread_cond_wait(&s->finished, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* Signals are for the thread of the loop: those of the store block them all. */
int dispatch_start(struct store *s, struct err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&s->writer, NULL, writer_main, s);
    s->has_writer = r == 0;
    for (size_t i = 0; r == 0 && i < STORE_READERS; i++) {
        s->readers[i] = (struct reader){ .store = s, .slot = i };
        r = pthread_create(&s->readers[i].thread, NULL, reader_main, &s->readers[i]);
        s->n_readers += r == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0)
        return err_errno(err, ERR_UNAVAILABLE, r, "starting the threads of the store");
    return 0;
}

/* ---- results ---- */

static int write_result(struct request *r, struct err *err)
{
    const struct record_field *f = record_field(RECORD_CAPSULE, "result_json");
    auto_buf struct buf text = BUF_INIT(f->max_bytes + 1);
    if (json_write(r->unwritten, &text, err) < 0)
        return err->code == ERR_NO_MEMORY ?
                   -(int)err->code :
                   err_set(err, ERR_TOO_LARGE,
                           "run: '%s' is longer than the %zu bytes that can be kept", f->name,
                           f->max_bytes);
    r->bytes += text.len;
    r->capsule->result_json = r->written = buf_take(&text);
    return 0;
}

/* In the background. */
static void write_result_later(struct background_job *job)
{
    struct request *r = (struct request *)job;
    struct store *s = r->store;
    r->result = write_result(r, &r->err);
    bool failed = r->result < 0;
    if (failed)
        complete(s, r);
    pthread_mutex_lock(&s->lock);
    if (!failed)
        queue_push(&s->writes, r);
    s->n_unwritten--;
    pthread_cond_signal(&s->writes_there); /* the writer also waits for the last of these */
    pthread_mutex_unlock(&s->lock);
}

/* ---- handing in ---- */

/* With the lock. True if the request comes into the queue by itself, once its result is text. */
static bool is_written_later(struct store *s, struct request *r)
{
    if (!r->unwritten || r->written)
        return false;
    r->store = s;
    r->job.fn = write_result_later;
    if (!background_run(&r->job))
        return false;
    s->n_unwritten++;
    return true;
}

/* Takes the request in any case. */
static int submit(struct store *s, struct request *r, struct err *err)
{
    if (r->unwritten && (r->waited || !json_is_large(r->unwritten)) && write_result(r, err) < 0) {
        int failed = -(int)err->code;
        request_free(r);
        return failed;
    }
    struct queue *q = is_write(r) ? &s->writes : &s->reads;
    pthread_cond_t *there = NULL;
    int result = 0;
    assert(r->waited || s->loop);
    pthread_mutex_lock(&s->lock);
    if (s->closing) {
        result = err_set(err, ERR_UNAVAILABLE, "the store is closing");
    } else if (q->n >= QUEUE_MAX || (q->n > 0 && q->bytes + r->bytes > QUEUE_MAX_BYTES)) {
        s->stats.refused++;
        result = err_set(err, ERR_UNAVAILABLE,
                         "the store is behind with its work; try again later");
    } else if (!is_written_later(s, r)) {
        queue_push(q, r);
        there = is_write(r) ? &s->writes_there : &s->reads_there;
    }
    pthread_mutex_unlock(&s->lock);
    if (there) /* after the lock, which the thread that wakes up takes first */
        pthread_cond_signal(there);
    if (result < 0)
        request_free(r);
    return result;
}

void dispatch_expect(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    bool is_news = !s->writes.head && !s->expected;
    s->expected = is_news;
    pthread_mutex_unlock(&s->lock);
    if (is_news)
        pthread_cond_signal(&s->writes_there);
}

int dispatch_submit(struct store *s, struct request *r, struct err *err)
{
    if (s->pending++ == 0)
        uv_ref((uv_handle_t *)&s->async);
    int result = submit(s, r, err);
    if (result < 0 && --s->pending == 0)
        uv_unref((uv_handle_t *)&s->async);
    return result;
}

int dispatch_wait(struct store *s, struct request *r, struct err *err)
{
    r->waited = true;
    int result = submit(s, r, err);
    if (result < 0)
        return result;
    pthread_mutex_lock(&s->lock);
    while (!r->finished)
        pthread_cond_wait(&s->finished, &s->lock);
    pthread_mutex_unlock(&s->lock);
    if (r->result == 0)
        return 0;
    if (err)
        *err = r->err;
    result = r->result;
    request_free(r);
    return result;
}

/* ---- figures ---- */

void store_stats(struct store *s, struct store_stats *ret)
{
    pthread_mutex_lock(&s->lock);
    *ret = s->stats;
    ret->queued_writes = s->writes.n;
    ret->queued_reads = s->reads.n;
    pthread_mutex_unlock(&s->lock);
}

int store_ready(struct store *s, struct err *err)
{
    pthread_mutex_lock(&s->lock);
    struct err failure = s->write_failure.code != ERR_NONE ? s->write_failure : s->read_failure;
    pthread_mutex_unlock(&s->lock);
    if (failure.code == ERR_NONE)
        return 0;
    if (err)
        *err = failure;
    return -(int)failure.code;
}
