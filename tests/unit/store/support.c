/* What the tests of the store share. */

#include "store/support.h"

#include <sys/stat.h>
#include "base/fdio.h"
#include "base/str.h"
#include "store/store_impl.h"

void place_make(struct place *p)
{
    *p = (struct place){ .store = NULL };
    make_scratch(p->dir);
    snprintf(p->path, sizeof(p->path), "%s/riddle.db", p->dir);
}

void place_open(struct place *p, const char *provider)
{
    struct err err;
    const struct store_options options = { .provider = provider,
                                           .path = p->path,
                                           .busy_timeout_ms = 2000 };
    assert_int_equal(uv_loop_init(&p->loop), 0);
    assert_works(store_open(&options, &p->loop, &p->store, &err), &err);
}

void place_close(struct place *p)
{
    store_close(p->store);
    p->store = NULL;
    assert_int_equal(uv_run(&p->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&p->loop), 0);
}

void place_remove(struct place *p)
{
    struct err err;
    if (p->store)
        place_close(p);
    assert_works(fd_remove_tree(p->dir, &err), &err);
}

struct capsule sample_capsule(const char *run_id, const char *owner)
{
    return (struct capsule){ .run_id = run_id,
                             .owner = owner,
                             .dataset_id = "ecommerce",
                             .query_mode = "sql",
                             .status = "succeeded",
                             .exec_time_ms = -1 };
}

struct thread sample_thread(const char *thread_id, const char *owner)
{
    return (struct thread){ .thread_id = thread_id, .owner = owner, .state = "hot" };
}

struct message sample_message(const char *thread_id, const char *owner, const char *content)
{
    return (struct message){
        .thread_id = thread_id, .owner = owner, .role = "user", .content = content
    };
}

struct upload sample_upload(const char *file_id, const char *owner, int64_t size_bytes)
{
    return (struct upload){ .file_id = file_id,
                            .owner = owner,
                            .filename = "sales.csv",
                            .size_bytes = size_bytes,
                            .rows = -1,
                            .status = "ready" };
}

int64_t keep(struct store *s, enum record_type type, const void *record)
{
    struct err err;
    int64_t value = -1;
    assert_works(store_put_wait(s, type, record, STORE_PUT, &value, &err), &err);
    return value;
}

char *shown(enum record_type type, const void *record, bool brief)
{
    struct err err;
    struct buf b = BUF_INIT(1 << 20);
    assert_works(record_json(type, record, brief, &b, &err), &err);
    return buf_take(&b);
}

char *fetched(struct store *s, enum record_type type, const char *owner, const char *id)
{
    struct err err;
    struct store_page page;
    assert_works(store_get_wait(s, type, owner, id, &page, &err), &err);
    assert_int_equal(page.n, 1);
    char *text = shown(type, page.items, false);
    store_page_finish(&page);
    return text;
}

const char *page_ids(enum record_type type, const struct store_page *page)
{
    static char text[16384];
    const struct record_info *info = &record_infos[type];
    const struct record_field *f = record_field(type, info->key);
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < page->n; i++) {
        const void *item = (const char *)page->items + i * info->size;
        if (f->kind == FIELD_INT)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%lld", i ? " " : "",
                                  (long long)record_int(item, f));
        else
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? " " : "",
                                  record_text(item, f));
        assert_true(n < sizeof(text));
    }
    return text;
}

const char *list_ids(struct store *s, enum record_type type, const struct store_query *q)
{
    struct err err;
    struct store_page page;
    assert_works(store_list_wait(s, type, q, &page, &err), &err);
    const char *ids = page_ids(type, &page);
    store_page_finish(&page);
    return ids;
}

void tell_done(const struct err *err, int64_t value, void *arg)
{
    struct told *told = arg;
    told->calls++;
    told->err = err ? *err : (struct err)ERR_INIT;
    told->value = value;
}

void tell_read(const struct err *err, const struct store_page *page, void *arg)
{
    struct told *told = arg;
    told->calls++;
    told->err = err ? *err : (struct err)ERR_INIT;
    assert_true((err == NULL) == (page != NULL));
    snprintf(told->text, sizeof(told->text), "%s", page ? page_ids(told->type, page) : "");
}
