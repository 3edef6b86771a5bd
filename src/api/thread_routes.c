/* /thread and /threads: threads are begun, listed, looked at, moved between hot, warm and cold, and deleted. */

#include <stdio.h>
#include <string.h>
#include "api/chats.h"
#include "data/threads.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"

#define SEARCH_MAX 200
/* A server that has just started need not keep a new thread waiting for Python. */
#define WARM_WAIT_MS 500

/* ---- POST /thread/new ---- */

static const struct schema_field id_item = { .name = "",
                                             .types = SCHEMA_STRING,
                                             SCHEMA_RANGE(1, 200) };
static const struct schema_field new_fields[] = {
    SCHEMA_OPTIONAL("file_ids", ARRAY, "Uploads to ask about.", .items = &id_item, SCHEMA_MAX(16)),
    SCHEMA_OPTIONAL("datasets", ARRAY, "Datasets to ask about.", .items = &id_item, SCHEMA_MAX(16)),
    { .name = "title", .types = SCHEMA_STRING, .nullable = true, SCHEMA_MAX(200) },
    SCHEMA_OPTIONAL("thread_id", STRING, "An id of your own; must be new.", SCHEMA_RANGE(1, 100)),
    { .name = NULL },
};
static const struct schema new_schema = {
    .name = "NewThread",
    .doc = "What a new thread is about; the bundled transactions when nothing is named.",
    .fields = new_fields
};

/* A request that waits for the agent or the store. */
struct waiting {
    struct http_request *req; /* NULL: the client left */
    struct chat *chat;
    int (*move)(struct chat *c, struct err *err); /* to freeze, cool or wake */
    int64_t begun_us, created_us;
    bool had_files;
};

static struct waiting *wait_for(struct http_request *req)
{
    struct waiting *w = calloc(1, sizeof(*w));
    if (w) {
        w->req = req;
        w->begun_us = clock_now_us();
    }
    return w;
}

static void deferred(struct http_request *req, struct waiting *w, int r, struct err *err)
{
    if (r < 0) {
        free(w);
        if (err->code == ERR_UNAVAILABLE)
            http_reply_busy(req, 1, "%s", err->message);
        else
            http_reply_error(req, err);
    } else {
        http_hold(req, &w->req);
    }
}

static void on_warm(void *arg, bool is_hot)
{
    struct waiting *w = arg;
    struct http_request *req = w->req;
    const struct data_view *d = chat_data(w->chat);
    json_t *files = json_array();
    int64_t now = clock_now_us();
    for (size_t i = 0; d && i < d->n_files; i++)
        json_array_append_new(files, json_string(d->files[i].name));
    json_t *answer = json_pack(
        "{s:s, s:s, s:s, s:o, s:s, s:O, s:{s:f, s:f, s:f}}", "thread_id", chat_id(w->chat),
        "container_status", is_hot ? "hot" : "cold", "workspace", "/workspace", "attached_files",
        files, "dataset_id", d ? d->dataset_id : "", "prompts",
        d && d->prompts ? d->prompts : json_null(), "timings_ms", "schema_build",
        (double)(w->created_us - w->begun_us) / 1000, "container_startup",
        (double)(now - w->created_us) / 1000, "total", (double)(now - w->begun_us) / 1000);
    chat_unref(w->chat);
    free(w);
    if (req)
        http_reply_json(req, 200, answer);
    else
        json_decref(answer);
}

static void on_new(struct chat *chat, const struct err *err, void *arg)
{
    struct waiting *w = arg;
    if (err) {
        if (w->req)
            http_reply_error(w->req, err);
        free(w);
        return;
    }
    w->chat = chat;
    w->created_us = clock_now_us();
    chat_warm(chat, WARM_WAIT_MS, on_warm, w);
}

static void post_thread(struct http_request *req)
{
    struct err err = ERR_INIT;
    const json_t *body = http_body_json(req), *datasets = json_object_get(body, "datasets"),
                 *uploads = json_object_get(body, "file_ids");
    struct waiting *w = wait_for(req);
    struct chat_spec spec = { .owner = http_owner(req),
                              .thread_id = json_string_value(json_object_get(body, "thread_id")),
                              .title = json_string_value(json_object_get(body, "title")),
                              .datasets = json_is_array(datasets) ?
                                              datasets :
                                              NULL, /* [] is a thread without data */
                              .uploads = json_array_size(uploads) ? uploads : NULL };
    int r = w ? chat_create(app_of(req)->agent, &spec, on_new, w, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    deferred(req, w, r, &err);
}

/* ---- looking at threads ---- */

static void add_notes(json_t *sandbox, const struct image_notes *notes)
{
    if (notes->not_kept[0])
        json_object_set_new(sandbox, "not_kept", json_string(notes->not_kept));
    if (notes->not_elsewhere[0])
        json_object_set_new(sandbox, "not_elsewhere", json_string(notes->not_elsewhere));
}

static void add_since(json_t *sandbox, int64_t wall_ms)
{
    char since[CLOCK_ISO_SIZE];
    clock_iso8601(wall_ms, since);
    json_object_set_new(sandbox, "since", json_string(since));
}

static void add_move(json_t *sandbox, const struct kernel_moved *moved)
{
    add_since(sandbox, clock_wall_ms() - (clock_now_ms() - moved->at_ms));
    json_object_set_new(sandbox, "last_move", json_sprintf("%s→%s", moved->from, moved->to));
    json_object_set_new(sandbox, "last_move_ms", json_real((double)moved->us / 1000));
}

/*
 * {state, has_variables, since, last_move, last_move_ms}; the last three only when its kernel was
 * in another state before.
 */
static json_t *sandbox_json(const struct chat *c)
{
    struct chat_sandbox s = { .state = "cold" };
    if (c)
        chat_sandbox(c, &s);
    json_t *o = json_pack("{s:s, s:b}", "state", s.state, "has_variables", s.has_variables);
    if (s.bytes > 0)
        json_object_set_new(o, "bytes", json_integer(s.bytes));
    if (s.refusal)
        json_object_set_new(o, "not_cooled", json_string(s.refusal));
    struct image_notes notes = { 0 };
    if (c && s.bytes > 0)
        chat_image_notes(c, &notes);
    add_notes(o, &notes);
    if (s.moved.to && str_eq(s.moved.to, s.state))
        add_move(o, &s.moved);
    return o;
}

static void reply_read_error(struct http_request *req, const struct err *err)
{
    if (err->code == ERR_NOT_FOUND)
        http_reply_fail(req, ERR_NOT_FOUND, "Thread not found");
    else
        http_reply_error(req, err);
}

/* NULL: the thread was made without a word about them. */
static json_t *ids_json(const char *text)
{
    json_t *ids = NULL;
    if (text)
        (void)json_parse(text, strlen(text), &ids, NULL);
    return ids;
}

static void got_status(const struct err *err, const struct store_page *page, void *arg)
{
    struct waiting *w = arg;
    struct http_request *req = w->req;
    free(w);
    if (!req)
        return;
    if (err) {
        reply_read_error(req, err);
        return;
    }
    const struct thread *t = &page->threads[0];
    struct agent *agent = app_of(req)->agent;
    const struct chat *c = chat_find(agent, http_owner(req), t->thread_id);
    auto_json json_t *sandbox = sandbox_json(c);
    int64_t bytes = c ? 0 : agent_image_bytes(agent, http_owner(req), t->thread_id);
    if (bytes > 0) {
        json_object_set_new(sandbox, "bytes", json_integer(bytes));
        json_object_set_new(sandbox, "has_variables", json_true());
        struct image_notes notes;
        struct kernel_moved moved;
        int64_t since_ms;
        agent_image_notes(agent, http_owner(req), t->thread_id, &notes, &since_ms);
        add_notes(sandbox, &notes);
        if (since_ms > 0)
            add_since(sandbox, since_ms);
        if (agent_last_move(agent, http_owner(req), t->thread_id, &moved) &&
            str_eq(moved.to, "cold"))
            add_move(sandbox, &moved);
    }
    auto_json json_t *datasets = ids_json(t->datasets_json), *uploads = ids_json(t->uploads_json);
    http_reply_json(
        req, 200,
        json_pack("{s:s, s:O, s:O, s:I, s:s?, s:s?, s:s?, s:s*, s:O?, s:O?}", "thread_id",
                  t->thread_id, "sandbox_status", json_object_get(sandbox, "state"), "sandbox",
                  sandbox, "message_count", (json_int_t)t->message_count, "title", t->title,
                  "created_at", t->created_at, "updated_at", t->updated_at, "forked_from",
                  t->forked_from, "datasets", datasets, "file_ids", uploads));
}

static void get_status(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct waiting *w = wait_for(req);
    int r = w ? store_get(app_of(req)->store, RECORD_THREAD, http_owner(req),
                          http_param(req, "thread_id"), got_status, w, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    deferred(req, w, r, &err);
}

static void reply_stopped(struct http_request *req, size_t n)
{
    http_reply_json(req, 200,
                    json_pack("{s:s, s:I}", "thread_id", http_param(req, "thread_id"), "stopped",
                              (json_int_t)n));
}

/* A thread that is not in memory has nothing to stop. */
static void got_stopped(const struct err *err, const struct store_page *page, void *arg)
{
    (void)page;
    struct waiting *w = arg;
    struct http_request *req = w->req;
    free(w);
    if (req && err)
        reply_read_error(req, err);
    else if (req)
        reply_stopped(req, 0);
}

static void post_stop(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct chat *c = chat_find(app_of(req)->agent, http_owner(req), http_param(req, "thread_id"));
    if (c) {
        reply_stopped(req, chat_stop(c));
        return;
    }
    struct waiting *w = wait_for(req);
    int r = w ? store_get(app_of(req)->store, RECORD_THREAD, http_owner(req),
                          http_param(req, "thread_id"), got_stopped, w, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    deferred(req, w, r, &err);
}

/* ---- POST /thread/{id}/freeze, /wake ---- */

static void on_settled(void *arg)
{
    struct waiting *w = arg;
    struct http_request *req = w->req;
    if (req) {
        auto_json json_t *sandbox = sandbox_json(w->chat);
        http_reply_json(req, 200,
                        json_pack("{s:s, s:O, s:O}", "thread_id", chat_id(w->chat),
                                  "sandbox_status", json_object_get(sandbox, "state"), "sandbox",
                                  sandbox));
    }
    chat_unref(w->chat);
    free(w);
}

/* Moves the kernel, and answers when it has come to rest. */
static void opened_to_move(struct chat *c, const struct err *err, void *arg)
{
    struct waiting *w = arg;
    struct err why = ERR_INIT;
    if (err) {
        if (w->req)
            reply_read_error(w->req, err);
        free(w);
        return;
    }
    w->chat = c;
    if (w->req && w->move(c, &why) < 0) {
        http_reply_error(w->req, &why);
        chat_unref(c);
        free(w);
        return;
    }
    chat_when_settled(c, on_settled, w);
}

static void open_to(struct http_request *req, int (*move)(struct chat *c, struct err *err))
{
    struct err err = ERR_INIT;
    struct waiting *w = wait_for(req);
    int r = w ? 0 : err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        w->move = move;
        r = chat_open(app_of(req)->agent, http_owner(req), http_param(req, "thread_id"),
                      opened_to_move, w, &err);
    }
    deferred(req, w, r, &err);
}

static void post_freeze(struct http_request *req)
{
    open_to(req, chat_freeze);
}

static void post_cool(struct http_request *req)
{
    open_to(req, chat_cool);
}

static void post_wake(struct http_request *req)
{
    open_to(req, chat_wake);
}

static void got_threads(const struct err *err, const struct store_page *page, void *arg)
{
    struct waiting *w = arg;
    struct http_request *req = w->req;
    free(w);
    if (!req)
        return;
    if (err) {
        http_reply_error(req, err);
        return;
    }
    json_t *threads = json_object(), *order = json_array();
    for (size_t i = 0; i < page->n; i++) {
        const struct thread *t = &page->threads[i];
        const struct chat *c = chat_find(app_of(req)->agent, http_owner(req), t->thread_id);
        struct chat_sandbox sandbox = { .state = "cold" };
        if (c)
            chat_sandbox(c, &sandbox);
        json_t *thread = json_pack("{s:I, s:s, s:b, s:s?, s:s?, s:b}", "message_count",
                                   (json_int_t)t->message_count, "sandbox_status", sandbox.state,
                                   "cached", c != NULL, "title", t->title, "updated_at",
                                   t->updated_at, "pinned", t->pinned > 0);
        if (!c)
            sandbox.bytes = agent_image_bytes(app_of(req)->agent, http_owner(req), t->thread_id);
        if (sandbox.bytes > 0)
            json_object_set_new(thread, "bytes", json_integer(sandbox.bytes));
        json_object_set_new(threads, t->thread_id, thread);
        json_array_append_new(order, json_string(t->thread_id));
    }
    http_reply_json(req, 200,
                    json_pack("{s:o, s:o, s:s?}", "threads", threads, "order", order, "next",
                              *page->next ? page->next : NULL));
}

static void list_threads(struct http_request *req)
{
    struct err err = ERR_INIT;
    const char *wanted = http_query(req, "search"), *pinned = http_query(req, "pinned");
    char pattern[3 + 8 * SEARCH_MAX], *p = pattern;
    struct waiting *w = wait_for(req);
    *p++ = '%';
    for (const char *s = wanted; s && *s && p < pattern + 8 * SEARCH_MAX; s++) {
        if (strchr("%_\\", *s))
            *p++ = '\\';
        *p++ = *s;
    }
    strcpy(p, "%");
    struct store_query query = { .owner = http_owner(req),
                                 .state = "open",
                                 .cursor = http_query(req, "cursor"),
                                 .title_like = wanted && *wanted ? pattern : NULL,
                                 .pinned = pinned && str_eq(pinned, "true") ? "1" : NULL,
                                 .limit = (int)http_query_i64(req, "limit", STORE_LIMIT_DEFAULT) };
    int r = w ? store_list(app_of(req)->store, RECORD_THREAD, &query, got_threads, w, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    deferred(req, w, r, &err);
}

/* No messages: of a new thread, or of none. */
static void got_silent_thread(const struct err *err, const struct store_page *page, void *arg)
{
    (void)page;
    struct waiting *w = arg;
    struct http_request *req = w->req;
    free(w);
    if (!req)
        return;
    if (err)
        reply_read_error(req, err);
    else
        http_reply_json(req, 200,
                        json_pack("{s:s, s:[], s:n}", "thread_id", http_param(req, "thread_id"),
                                  "messages", "before"));
}

/*
 * Both histories: with all that is kept of each message, or only who said what. Of a thread that
 * nobody has used yet the first is empty, because clients make up ids and ask at once; the second
 * is not found.
 */
static int write_head(const struct store_query *query, struct store_page *page, struct err *err)
{
    auto_json json_t *id = json_string(query->thread_id);
    int r = buf_append_str(&page->text, "{\"thread_id\":", err);
    if (r == 0)
        r = json_write(id, &page->text, err);
    return r < 0 ? r : buf_append_str(&page->text, ",\"messages\":[", err);
}

static int write_messages(const struct store_query *query, struct store_page *page, struct err *err)
{
    int r = write_head(query, page, err);
    return r < 0 ? r :
                   records_json(RECORD_MESSAGE, "", page, false, "before", &page->text, err);
}

static int write_history(const struct store_query *query, struct store_page *page, struct err *err)
{
    int r = write_head(query, page, err);
    for (size_t i = 0; i < page->n && r == 0; i++) {
        const struct message *m = &page->messages[i];
        auto_json json_t *one = json_pack("{s:s, s:s, s:s?}", "role", m->role, "content",
                                          m->content ? m->content : "", "run_id", m->run_id);
        r = i ? buf_append_str(&page->text, ",", err) : 0;
        if (r == 0)
            r = json_write(one, &page->text, err);
    }
    return r < 0 ? r : records_end(page, "before", &page->text, err);
}

static void reply_messages(struct http_request *req, const struct err *err,
                           const struct store_page *page)
{
    if (req && err)
        reply_read_error(req, err);
    else if (req)
        reply_page(req, NULL, page);
}

static void got_messages(const struct err *err, const struct store_page *page, void *arg)
{
    struct waiting *w = arg;
    struct http_request *req = w->req;
    free(w);
    reply_messages(req, err, page);
}

static void got_history(const struct err *err, const struct store_page *page, void *arg)
{
    struct waiting *w = arg;
    struct http_request *req = w->req;
    struct err unread = ERR_INIT;
    if (req && !err && page->n == 0 &&
        store_get(app_of(req)->store, RECORD_THREAD, http_owner(req), http_param(req, "thread_id"),
                  got_silent_thread, w, &unread) == 0)
        return;
    free(w);
    reply_messages(req, unread.code ? &unread : err, page);
}

static void list_messages(struct http_request *req, int limit, store_make_fn make,
                          store_read_fn got)
{
    struct err err = ERR_INIT;
    struct waiting *w = wait_for(req);
    struct store_query query = { .owner = http_owner(req),
                                 .thread_id = http_param(req, "thread_id"),
                                 .cursor = http_query(req, "cursor"),
                                 .limit = limit,
                                 .make = make };
    int r = w ? store_list(app_of(req)->store, RECORD_MESSAGE, &query, got, w, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    deferred(req, w, r, &err);
}

static void get_messages(struct http_request *req)
{
    long long limit = http_query_i64(req, "limit", 50);
    list_messages(req, (int)MAX_OF(1, MIN_OF(limit, STORE_LIMIT_MAX)), write_messages,
                  got_messages);
}

static void get_history(struct http_request *req)
{
    list_messages(req, STORE_LIMIT_MAX, write_history, got_history);
}

static void deleted(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct waiting *w = arg;
    struct http_request *req = w->req;
    bool had_files = w->had_files;
    free(w);
    if (!req)
        return;
    /* files may be there before the thread is */
    if (err && !(err->code == ERR_NOT_FOUND && had_files))
        reply_read_error(req, err);
    else
        http_reply_json(
            req, 200,
            json_pack("{s:s, s:b}", "thread_id", http_param(req, "thread_id"), "deleted", 1));
}

static void delete_thread(struct http_request *req)
{
    struct err err = ERR_INIT;
    struct waiting *w = wait_for(req);
    int r = w ? chat_delete(app_of(req)->agent, http_owner(req), http_param(req, "thread_id"),
                            deleted, w, &err) :
                err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        w->had_files = data_thread_forget(app_of(req)->data, http_owner(req),
                                          http_param(req, "thread_id"));
    deferred(req, w, r, &err);
}

/* ---- the table ---- */

static const struct route_param messages_params[] = {
    THREAD_PARAM,
    ROUTE_QUERY("limit", INTEGER, "The newest so many, at most 200; 50 when missing."),
    ROUTE_QUERY("cursor", STRING, "`before` of a page.", SCHEMA_MAX(STORE_CURSOR_SIZE)),
    { .field = { .name = NULL } },
};
static const struct route_param list_params[] = {
    PAGE_PARAMS,
    ROUTE_QUERY("search", STRING, "Only threads whose title holds this text.",
                SCHEMA_MAX(SEARCH_MAX)),
    ROUTE_QUERY("pinned", BOOLEAN, "true: only pinned threads."),
    { .field = { .name = NULL } },
};

#define THREAD_ERRORS                                                                              \
    (ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(VALIDATION) | ROUTE_ERR(UNAVAILABLE) | ROUTE_ERR(CONFLICT))

static const struct route routes[] = {
    { HTTP_POST, "/thread/new", post_thread, .id = "createThread", .tag = "threads",
      .summary = "Begin a thread", .body = &new_schema, .errors = THREAD_ERRORS,
      .flags = ROUTE_BODY_OPTIONAL },
    { HTTP_POST, "/thread/{thread_id}/stop", post_stop, .id = "stopThread", .tag = "threads",
      .summary = "Stop what runs and waits in a thread", .params = thread_params,
      .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_POST, "/thread/{thread_id}/freeze", post_freeze, .id = "freezeThread", .tag = "threads",
      .summary = "Freeze the kernel of a thread: it keeps its variables and uses no processor",
      .params = thread_params,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(CONFLICT) | ROUTE_ERR(UNAVAILABLE) },
    { HTTP_POST, "/thread/{thread_id}/cool", post_cool, .id = "coolThread", .tag = "threads",
      .summary = "Write the kernel of a thread to a file and end it: the next code goes on with it",
      .params = thread_params,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(CONFLICT) | ROUTE_ERR(UNAVAILABLE) },
    { HTTP_POST, "/thread/{thread_id}/wake", post_wake, .id = "wakeThread", .tag = "threads",
      .summary = "Thaw the kernel of a thread, or start one", .params = thread_params,
      .errors = ROUTE_ERR(NOT_FOUND) | ROUTE_ERR(FEATURE_DISABLED) | ROUTE_ERR(UNAVAILABLE) },
    { HTTP_GET, "/thread/{thread_id}/status", get_status, .id = "getThreadStatus", .tag = "threads",
      .summary = "A thread and its sandbox", .params = thread_params,
      .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_GET, "/thread/{thread_id}/history", get_history, .id = "getThreadHistory",
      .tag = "threads", .summary = "Who said what", .params = thread_params,
      .errors = ROUTE_ERR(NOT_FOUND) },
    { HTTP_GET, "/threads", list_threads, .id = "listThreads", .tag = "threads",
      .summary = "Your threads, the last used first", .params = list_params },
    { HTTP_GET, "/threads/{thread_id}/messages", get_messages, .id = "listMessages",
      .tag = "threads", .summary = "Messages with their runs", .params = messages_params },
    { HTTP_DELETE, "/thread/{thread_id}", delete_thread, .id = "deleteThread", .tag = "threads",
      .summary = "Forget a thread", .params = thread_params, .errors = ROUTE_ERR(NOT_FOUND) },
};

const struct route_table thread_routes = { routes, ARRAY_SIZE(routes) };
