/*
 * The door to the store: which backends there are, opening and closing, and what each call asks of
 * the threads behind it.
 */

#include "store/dispatch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"

#define BUSY_TIMEOUT_MS 5000
#define ID_MAX_BYTES 128

static const struct store_ops *const backends[] = { &store_sqlite_ops };

/* ---- open and close ---- */

static const struct store_ops *find_backend(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
        if (str_eq(backends[i]->name, name))
            return backends[i];
    return NULL;
}

const char *store_provider_name(size_t i)
{
    return i < ARRAY_SIZE(backends) ? backends[i]->name : NULL;
}

const char *store_provider(const struct store *s)
{
    return s->ops->name;
}

static void store_free(struct store *s)
{
    dispatch_finish(s);
    free(s);
}

static void on_async(uv_async_t *async)
{
    dispatch_call_back(async->data);
}

static void on_closed(uv_handle_t *h)
{
    store_free(h->data);
}

int store_open(const struct store_options *options, uv_loop_t *loop, struct store **ret,
               struct err *err)
{
    struct store_options o = *options;
    const char *provider = o.provider ? o.provider : "sqlite";
    const struct store_ops *ops = find_backend(provider);
    char shown[STR_SHOWN_SIZE];
    if (!ops)
        return err_set(err, ERR_CONFIG, "there is no store '%s' in this build",
                       str_show(provider, strlen(provider), shown, sizeof(shown)));
    if (o.busy_timeout_ms <= 0)
        o.busy_timeout_ms = BUSY_TIMEOUT_MS;
    struct store *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    s->ops = ops;
    s->loop = loop;
    s->quota_bytes = o.quota_bytes;
    dispatch_init(s);

    int r = ops->open(&o, &s->backend, err);
    if (r < 0) {
        store_free(s);
        return r;
    }
    r = dispatch_start(s, err);
    if (r == 0 && loop) {
        int code = uv_async_init(loop, &s->async, on_async);
        if (code < 0)
            r = err_set(err, ERR_INTERNAL, "opening the store: %s", uv_strerror(code));
        else
            uv_unref((uv_handle_t *)&s->async); /* an idle store does not keep the loop running */
    }
    if (r < 0) {
        dispatch_stop(s);
        ops->close(s->backend);
        store_free(s);
        return r;
    }
    s->async.data = s;
    *ret = s;
    return 0;
}

int store_configured_path(const struct config *cfg, char *ret, size_t n, struct err *err)
{
    bool own = *cfg->capsule_db_path;
    int len = snprintf(ret, n, "%s%s", own ? cfg->capsule_db_path : cfg->home,
                       own ? "" : "/riddle.db");
    return len < (int)n ? 0 :
                          err_set(err, ERR_CONFIG, "RIDDLE_HOME or CAPSULE_DB_PATH is too long");
}

int store_open_configured(const struct config *cfg, uv_loop_t *loop, struct store **ret,
                          struct err *err)
{
    char path[PATH_MAX];
    int r = store_configured_path(cfg, path, sizeof(path), err);
    if (r < 0)
        return r;
    const struct store_options options = { .provider = cfg->storage_provider,
                                           .path = path,
                                           .quota_bytes = cfg->thread_quota_bytes };
    return store_open(&options, loop, ret, err);
}

void store_close(struct store *s)
{
    if (!s)
        return;
    dispatch_stop(s);
    if (s->loop)
        dispatch_call_back(s);
    s->ops->close(s->backend);
    if (s->loop)
        uv_close((uv_handle_t *)&s->async, on_closed);
    else
        store_free(s);
}

/* ---- handing in ---- */

static int write_async(struct store *s, struct request *r, store_done_fn done, void *arg,
                       struct err *err)
{
    r->done = done;
    r->arg = arg;
    return dispatch_submit(s, r, err);
}

static int write_wait(struct store *s, struct request *r, int64_t *ret_value, struct err *err)
{
    int result = dispatch_wait(s, r, err);
    if (result < 0)
        return result;
    if (ret_value)
        *ret_value = r->value;
    request_free(r);
    return 0;
}

static int read_async(struct store *s, struct request *r, store_read_fn done, void *arg,
                      struct err *err)
{
    r->read = done;
    r->arg = arg;
    return dispatch_submit(s, r, err);
}

static int read_wait(struct store *s, struct request *r, struct store_page *ret, struct err *err)
{
    int result = dispatch_wait(s, r, err);
    if (result < 0)
        return result;
    *ret = r->page;
    r->page = (struct store_page){ .n = 0 };
    request_free(r);
    return 0;
}

/* ---- what is asked ---- */

/* False when out of memory. The address of store_any_owner means something, so it is not copied. */
static bool copy_text(struct request *r, const char *text, const char **ret)
{
    *ret = text == store_any_owner || !text ? text : arena_strdup(&r->arena, text);
    return *ret || !text;
}

static int make_put(const struct store_put *puts, size_t n, struct request **ret, struct err *err)
{
    size_t bytes[STORE_BATCH_MAX];
    if (n == 0 || n > STORE_BATCH_MAX)
        return err_set(err, ERR_VALIDATION, "%zu records; a batch has 1 to %d", n, STORE_BATCH_MAX);
    for (size_t i = 0; i < n; i++) {
        int result = record_measure(puts[i].type, puts[i].record, &bytes[i], err);
        if (result < 0)
            return result;
    }
    struct request *r = request_new(REQUEST_PUT, puts[0].type);
    bool copied = r && (r->parts = arena_alloc(&r->arena, n * sizeof(*r->parts)));
    for (size_t i = 0; copied && i < n; i++) {
        void *record = record_copy(puts[i].type, puts[i].record, bytes[i]);
        r->parts[i] = (struct part){ puts[i].type, puts[i].mode, record };
        r->n_parts++;
        r->bytes += bytes[i];
        copied = record != NULL;
        const struct capsule *c = puts[i].type == RECORD_CAPSULE ? puts[i].record : NULL;
        if (copied && c && c->result && !r->unwritten) {
            r->capsule = record;
            r->unwritten = json_incref((json_t *)(uintptr_t)c->result);
        }
    }
    if (!copied) {
        request_free(r);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *ret = r;
    return 0;
}

/* A get or a remove. An id that is longer than any record's is not looked for. */
static int make_one(enum request_kind kind, enum record_type type, const char *owner,
                    const char *id, struct request **ret, struct err *err)
{
    const char *noun = record_infos[type].noun;
    if (!owner || !owner[0])
        return err_set(err, ERR_VALIDATION, "%s: 'owner' is required", noun);
    if (!id || strnlen(id, ID_MAX_BYTES + 1) > ID_MAX_BYTES ||
        strnlen(owner, ID_MAX_BYTES + 1) > ID_MAX_BYTES)
        return err_set(err, ERR_NOT_FOUND, "%s not found", noun);
    struct request *r = request_new(kind, type);
    if (!r || !copy_text(r, owner, &r->owner) || !copy_text(r, id, &r->id)) {
        request_free(r);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *ret = r;
    return 0;
}

static int make_remove(enum record_type type, const char *owner, const char *id,
                       struct request **ret, struct err *err)
{
    if (type == RECORD_MESSAGE)
        return err_set(err, ERR_VALIDATION, "a message is removed only with its thread");
    return make_one(REQUEST_REMOVE, type, owner, id, ret, err);
}

static int make_list(enum record_type type, const struct store_query *query, struct request **ret,
                     struct err *err)
{
    struct store_position after = { .number = 0 };
    const char *cursor = query->cursor && query->cursor[0] ? query->cursor : NULL;
    int result = query_check(type, query, err);
    if (result == 0 && cursor && query->like)
        result = err_set(err, ERR_VALIDATION, "list of %ss: 'like' takes no cursor",
                         record_infos[type].noun);
    if (result == 0 && cursor)
        result = cursor_parse(type, cursor, &after, err);
    if (result < 0)
        return result;
    struct request *r = request_new(REQUEST_LIST, type);
    bool copied = r != NULL;
    if (r) {
        r->query = *query;
        r->query.cursor = NULL;
        r->has_after = cursor != NULL;
        r->after = after;
        r->query.limit = query->limit == 0 ? STORE_LIMIT_DEFAULT :
                                             MIN_OF(MAX_OF(query->limit, 1), STORE_LIMIT_MAX);
    }
    for (size_t i = 0; copied && i < QUERY_FILTERS; i++) {
        const char **value = (const char **)((char *)&r->query + query_filters[i].offset);
        copied = copy_text(r, *value, value);
    }
    if (!copied) {
        request_free(r);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *ret = r;
    return 0;
}

/* ---- the calls ---- */

void store_expect_put(struct store *s)
{
    dispatch_expect(s);
}

int store_put_batch(struct store *s, const struct store_put *puts, size_t n, store_done_fn done,
                    void *arg, struct err *err)
{
    struct request *r;
    int result = make_put(puts, n, &r, err);
    return result < 0 ? result : write_async(s, r, done, arg, err);
}

int store_put_batch_wait(struct store *s, const struct store_put *puts, size_t n,
                         int64_t *ret_value, struct err *err)
{
    struct request *r;
    int result = make_put(puts, n, &r, err);
    return result < 0 ? result : write_wait(s, r, ret_value, err);
}

static int put(struct store *s, enum record_type type, const void *record, enum store_mode mode,
               store_done_fn done, void *arg, struct err *err)
{
    return store_put_batch(s, &(struct store_put){ type, record, mode }, 1, done, arg, err);
}

int store_put_capsule(struct store *s, const struct capsule *c, enum store_mode mode,
                      store_done_fn done, void *arg, struct err *err)
{
    return put(s, RECORD_CAPSULE, c, mode, done, arg, err);
}

int store_put_thread(struct store *s, const struct thread *t, enum store_mode mode,
                     store_done_fn done, void *arg, struct err *err)
{
    return put(s, RECORD_THREAD, t, mode, done, arg, err);
}

int store_put_upload(struct store *s, const struct upload *u, enum store_mode mode,
                     store_done_fn done, void *arg, struct err *err)
{
    return put(s, RECORD_UPLOAD, u, mode, done, arg, err);
}

int store_append_message(struct store *s, const struct message *m, store_done_fn done, void *arg,
                         struct err *err)
{
    return put(s, RECORD_MESSAGE, m, STORE_PUT, done, arg, err);
}

int store_put_wait(struct store *s, enum record_type type, const void *record, enum store_mode mode,
                   int64_t *ret_value, struct err *err)
{
    return store_put_batch_wait(s, &(struct store_put){ type, record, mode }, 1, ret_value, err);
}

int store_remove(struct store *s, enum record_type type, const char *owner, const char *id,
                 store_done_fn done, void *arg, struct err *err)
{
    struct request *r;
    int result = make_remove(type, owner, id, &r, err);
    return result < 0 ? result : write_async(s, r, done, arg, err);
}

int store_remove_wait(struct store *s, enum record_type type, const char *owner, const char *id,
                      struct err *err)
{
    struct request *r;
    int result = make_remove(type, owner, id, &r, err);
    return result < 0 ? result : write_wait(s, r, NULL, err);
}

int store_abandon_runs_wait(struct store *s, const char *error_json, int64_t *ret_n,
                            struct err *err)
{
    struct request *r = request_new(REQUEST_ABANDON, RECORD_CAPSULE);
    if (!r || !copy_text(r, error_json, &r->error_json)) {
        request_free(r);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    return write_wait(s, r, ret_n, err);
}

int store_trim_runs(struct store *s, int64_t max_bytes, const char *before, store_done_fn done,
                    void *arg, struct err *err)
{
    struct request *r = request_new(REQUEST_TRIM, RECORD_CAPSULE);
    if (!r || !copy_text(r, before, &r->before)) {
        request_free(r);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    r->max_bytes = max_bytes;
    return write_async(s, r, done, arg, err);
}

int store_get(struct store *s, enum record_type type, const char *owner, const char *id,
              store_read_fn done, void *arg, struct err *err)
{
    struct request *r;
    int result = make_one(REQUEST_GET, type, owner, id, &r, err);
    return result < 0 ? result : read_async(s, r, done, arg, err);
}

int store_get_made(struct store *s, enum record_type type, const char *owner, const char *id,
                   store_make_fn make, store_read_fn done, void *arg, struct err *err)
{
    struct request *r;
    int result = make_one(REQUEST_GET, type, owner, id, &r, err);
    if (result < 0)
        return result;
    r->query.make = make;
    return read_async(s, r, done, arg, err);
}

int store_list(struct store *s, enum record_type type, const struct store_query *query,
               store_read_fn done, void *arg, struct err *err)
{
    struct request *r;
    int result = make_list(type, query, &r, err);
    return result < 0 ? result : read_async(s, r, done, arg, err);
}

int store_get_wait(struct store *s, enum record_type type, const char *owner, const char *id,
                   struct store_page *ret, struct err *err)
{
    struct request *r;
    int result = make_one(REQUEST_GET, type, owner, id, &r, err);
    return result < 0 ? result : read_wait(s, r, ret, err);
}

int store_list_wait(struct store *s, enum record_type type, const struct store_query *query,
                    struct store_page *ret, struct err *err)
{
    struct request *r;
    int result = make_list(type, query, &r, err);
    return result < 0 ? result : read_wait(s, r, ret, err);
}

int store_upload_bytes(struct store *s, const char *owner, store_done_fn done, void *arg,
                       struct err *err)
{
    struct request *r;
    int result = make_one(REQUEST_UPLOAD_BYTES, RECORD_UPLOAD, owner, "", &r, err);
    return result < 0 ? result : write_async(s, r, done, arg, err);
}

int store_upload_bytes_wait(struct store *s, const char *owner, int64_t *ret, struct err *err)
{
    struct request *r;
    int result = make_one(REQUEST_UPLOAD_BYTES, RECORD_UPLOAD, owner, "", &r, err);
    return result < 0 ? result : write_wait(s, r, ret, err);
}
