/*
 * Files that a request brings. When the body is whole each file gets a record and an ingest; the
 * answer waits for those, unless it was asked not to.
 */

#include "data/receive.h"

#include <stdio.h>
#include <string.h>
#include "base/fdio.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"

#define FIELDS_MAX 64
#define OVER_QUOTA "Session storage limit exceeded."

static bool is_wanted(const struct incoming *f)
{
    return f->in.err.code == ERR_NONE;
}

static const struct config *config_of(const struct receiver *rx)
{
    return rx->all->room->env.cfg;
}

static const char *field_name(bool for_thread)
{
    return for_thread ? "files[]" : "files";
}

/* ---- memory ---- */

static void uncount(struct intake *in)
{
    struct receiver *rx = (struct receiver *)in;
    rx->use->bytes -= rx->counted_bytes;
    if (rx->thread)
        rx->thread->incoming -= rx->counted_bytes;
    rx->counted_bytes = 0;
}

static void free_all(struct intake *in)
{
    struct receiver *rx = (struct receiver *)in;
    uncount(in);
    if (rx->prev) {
        *rx->prev = rx->next;
        if (rx->next)
            rx->next->prev = rx->prev;
    }
    for (struct incoming *f = incoming_first(rx), *next; f; f = next) {
        next = incoming_next(f);
        intake_file_finish(&f->in);
        file_unwatch(&f->watcher);
        file_set_unref(f->set);
        free(f);
    }
    intake_finish(in);
    if (rx->thread)
        data_thread_unpin(rx->thread);
    json_decref(rx->options);
    file_sets_unref(rx->all);
    free(rx);
}

void receiver_free(struct receiver *rx)
{
    free_all(&rx->in);
}

void receiver_hold(struct receiver *rx)
{
    rx->next = rx->all->held;
    rx->prev = &rx->all->held;
    if (rx->next)
        rx->next->prev = &rx->next;
    rx->all->held = rx;
}

void receivers_close(struct file_sets *all)
{
    while (all->held)
        receiver_free(all->held);
}

/* In the worker pool. */
static void remove_all(struct intake *in)
{
    const struct receiver *rx = (struct receiver *)in;
    for (const struct intake_file *f = in->files; f; f = f->next) {
        char dir[PATH_MAX];
        snprintf(dir, sizeof(dir), "%s", f->dir);
        (void)fd_remove_tree(dir, NULL);
        *strrchr(dir, '/') = '\0';
        if (!rx->terms.for_thread)
            (void)rmdir(dir); /* the owner's */
    }
}

static void fail(struct receiver *rx, const struct err *err)
{
    struct err why = *err;
    struct http_request *req = intake_take_request(&rx->in);
    intake_abort(&rx->in);
    if (req)
        http_reply_error(req, &why);
}

/* ---- the body ---- */

static int check_number(const struct receiver *rx, struct err *err)
{
    const struct config *cfg = config_of(rx);
    if (rx->terms.for_thread && rx->in.n_files >= (size_t)cfg->session_files_max)
        return err_set(err, ERR_TOO_LARGE, "a session has at most %lld files (SESSION_FILES_MAX)",
                       cfg->session_files_max);
    if (rx->in.n_files == RECEIVE_FILES_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "more than %d files in one request; send the others in another",
                       RECEIVE_FILES_MAX);
    if (!rx->terms.for_thread && rx->use->n + (int64_t)rx->in.n_files >= UPLOADS_PER_OWNER)
        return err_set(err, ERR_TOO_LARGE,
                       "there are already %d uploads; delete some (DELETE /uploads/{file_id})",
                       UPLOADS_PER_OWNER);
    return 0;
}

static int begin_file(struct intake *in, const struct multipart_part *part,
                      struct intake_file **ret, struct err *err)
{
    struct receiver *rx = (struct receiver *)in;
    bool for_thread = rx->terms.for_thread;
    char shown[STR_SHOWN_SIZE];
    if (!str_eq(part->name, "files") && !(for_thread && str_eq(part->name, "files[]")))
        return err_set(
            err, ERR_VALIDATION, "a file came in the field '%s'; files go into the field '%s'",
            str_show(part->name, strlen(part->name), shown, sizeof(shown)), field_name(for_thread));
    int r = check_number(rx, err);
    if (r < 0)
        return r;
    struct incoming *f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    f->rx = rx;
    id_hex(f->id, FILE_ID_DIGITS);
    file_part_dir(rx->all, in->owner, f->id, for_thread, f->in.dir);
    if (for_thread)
        file_safe_name(*part->filename ? part->filename : "upload", f->in.name);
    else
        snprintf(f->in.name, sizeof(f->in.name), FILE_PART);
    *ret = &f->in;
    return 0;
}

static int check_quota(const struct receiver *rx, int64_t more, struct err *err)
{
    int64_t taken = rx->thread ? rx->thread->bytes + rx->thread->incoming : rx->counted_bytes;
    if (!rx->terms.for_thread)
        return file_may_grow(rx->use, config_of(rx), more, err);
    return taken + more > config_of(rx)->session_quota_bytes ?
               err_set(err, ERR_TOO_LARGE, OVER_QUOTA) :
               0;
}

static int count_bytes(struct intake *in, struct intake_file *f, size_t len, struct err *err)
{
    struct receiver *rx = (struct receiver *)in;
    const struct config *cfg = config_of(rx);
    char shown[STR_SHOWN_SIZE];
    if (f->size + (int64_t)len > cfg->max_upload_bytes)
        return err_set(err, ERR_TOO_LARGE,
                       "'%s' is larger than the %lld bytes that a file may have (MAX_UPLOAD_BYTES)",
                       str_show(f->filename, strlen(f->filename), shown, sizeof(shown)),
                       cfg->max_upload_bytes);
    int r = check_quota(rx, (int64_t)len, err);
    if (r == 0 && rx->terms.for_thread)
        r = file_may_grow(rx->use, cfg, (int64_t)len, err);
    if (r < 0)
        return r;
    rx->counted_bytes += (int64_t)len;
    rx->use->bytes += (int64_t)len;
    if (rx->thread)
        rx->thread->incoming += (int64_t)len;
    return 0;
}

/* A form sends an empty name for a field that is left empty. */
static int end_file(struct intake *in, struct intake_file *f, struct err *err)
{
    (void)err;
    bool for_thread = ((struct receiver *)in)->terms.for_thread;
    if (f->size == 0 && (!for_thread || !*f->filename))
        err_set(&f->err, ERR_VALIDATION, *f->filename ? "File is empty" : "No file was chosen");
    else if (!*f->filename)
        snprintf(f->filename, sizeof(f->filename), "upload");
    return 0;
}

/* The thread may be named before or after its files. */
static int take_field(struct intake *in, const char *name, const char *value, struct err *err)
{
    struct receiver *rx = (struct receiver *)in;
    if (!rx->terms.for_thread)
        return read_options_field(rx->options, name, value, err);
    if (!str_eq(name, "session_id"))
        return 0;
    if (rx->thread)
        return err_set(err, ERR_VALIDATION, "session_id is there twice");
    int r = data_thread_pin(rx->all, in->owner, value, &rx->thread, err);
    if (r < 0)
        return r;
    r = check_quota(rx, rx->counted_bytes, err);
    rx->thread->incoming += rx->counted_bytes;
    return r;
}

static int nothing_sent(bool for_thread, struct err *err)
{
    return err_set(err, ERR_VALIDATION, "No files were sent; send them in the multipart field '%s'",
                   field_name(for_thread));
}

static int check(struct intake *in, struct err *err)
{
    const struct receiver *rx = (struct receiver *)in;
    auto_free char *text = NULL;
    size_t n = 0;
    if (!rx->terms.for_thread)
        return read_options_text(rx->options, &text, err);
    if (!rx->thread)
        return err_set(err, ERR_VALIDATION, "session_id is required");
    for (const struct incoming *f = incoming_first(rx); f; f = incoming_next(f))
        n += is_wanted(f);
    return n ? 0 : nothing_sent(true, err);
}

/* ---- what becomes of the files ---- */

/* Of a thread all files are kept, or none. */
static void answer(struct receiver *rx, bool settled)
{
    bool refused = rx->terms.for_thread && rx->err.code != ERR_NONE;
    struct err why = rx->err;
    for (struct incoming *f = incoming_first(rx); f && refused; f = incoming_next(f))
        if (f->set && !f->set->deleting && rx->all->room)
            (void)file_set_delete(f->set, NULL, NULL, NULL);
    rx->terms.answer(rx, settled, refused ? &why : NULL);
}

static void keep_first(struct receiver *rx, const struct err *err)
{
    if (rx->err.code == ERR_NONE && err->code != ERR_NONE)
        rx->err = *err;
}

static void changed(struct file_set *set, void *arg)
{
    struct incoming *f = arg;
    struct receiver *rx = f->rx;
    if (set->status == FILE_PROCESSING && !set->deleting && rx->all->room)
        return;
    file_unwatch(&f->watcher);
    if (set->deleting)
        err_set(&f->in.err, ERR_CONFLICT, "The upload was deleted while it was being read");
    else if (set->status == FILE_FAILED)
        f->in.err = set->error;
    keep_first(rx, &f->in.err);
    if (--rx->n_open == 0)
        answer(rx, true);
}

/* Every file has a record, or an error. */
static void recorded(struct receiver *rx)
{
    uncount(&rx->in); /* the sets count now */
    rx->n_open = 1;
    for (struct incoming *f = incoming_first(rx); f; f = incoming_next(f)) {
        if (!is_wanted(f))
            continue;
        file_set_list(f->set);
        f->watcher = (struct file_watcher){ .changed = changed, .arg = f };
        if (rx->terms.wait) {
            file_watch(f->set, &f->watcher);
            rx->n_open++;
        }
        if (file_ingest(f->set, &f->in.err) < 0) { /* out of memory; the next start takes it up */
            rx->n_open -= rx->terms.wait;
            file_unwatch(&f->watcher);
            keep_first(rx, &f->in.err);
        }
    }
    if (--rx->n_open == 0)
        answer(rx, rx->terms.wait);
}

static void refuse(struct incoming *f)
{
    keep_first(f->rx, &f->in.err);
    if (f->set)
        f->set->remove_files = true;
    file_set_unref(TAKE_PTR(f->set));
}

static void on_recorded(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct incoming *f = arg;
    struct receiver *rx = f->rx;
    if (err) {
        log_error("upload.record", LOG_STR("file_id", f->id), LOG_STR("error", err->message));
        f->in.err = *err;
        refuse(f);
    }
    if (--rx->n_open > 0)
        return;
    if (rx->all->room)
        recorded(rx);
    else
        receiver_free(rx); /* the server has stopped; the next one finds the records */
}

static bool is_table_taken(const struct receiver *rx, const struct incoming *of, const char *table)
{
    for (const struct incoming *f = incoming_first(rx); f != of; f = incoming_next(f))
        if (f->set && str_ieq(f->set->file.table, table))
            return true;
    return data_thread_has_table(rx->all, rx->thread->owner, rx->thread->id, table, of->in.name);
}

static struct file_set *make_set(const struct receiver *rx, const struct incoming *f,
                                 const char *options, int64_t now_ms)
{
    char created[CLOCK_ISO_SIZE], expires[CLOCK_ISO_SIZE], table[DATASET_TABLE_MAX],
        base[DATASET_TABLE_MAX];
    int64_t ttl_ms = config_of(rx)->upload_ttl_s * 1000;
    bool for_thread = rx->terms.for_thread;
    clock_iso8601(now_ms, created);
    clock_iso8601(now_ms + ttl_ms, expires);
    file_table_name(f->in.name, base);
    snprintf(table, sizeof(table), "%s", base);
    for (unsigned n = 2; for_thread && is_table_taken(rx, f, table) && n < 1000; n++)
        snprintf(table, sizeof(table), "%.50s_%u", base, n);
    struct file_facts facts = { .owner = rx->in.owner,
                                .id = f->id,
                                .filename = for_thread ? f->in.name : f->in.filename,
                                .sha256 = f->in.sha256,
                                .created_at = created,
                                .expires_at = ttl_ms && !for_thread ? expires : NULL,
                                .options = options,
                                .thread_id = for_thread ? rx->thread->id : NULL,
                                .table = for_thread ? table : NULL,
                                .size_bytes = f->in.size };
    return file_set_create(rx->all, &facts);
}

static int check_thread(const struct receiver *rx, struct err *err)
{
    size_t n = 0, most = (size_t)config_of(rx)->session_files_max;
    for (size_t i = 0; i < rx->thread->n_files; i++)
        n += !file_is_output(rx->thread->files[i]->file.name);
    for (const struct incoming *f = incoming_first(rx); f; f = incoming_next(f))
        n += is_wanted(f) && !data_thread_named(rx->thread, f->in.name);
    return n > most ? err_set(err, ERR_TOO_LARGE,
                              "a session has at most %zu files (SESSION_FILES_MAX); clear it first",
                              most) :
                      0;
}

static void commit(struct intake *in)
{
    struct receiver *rx = (struct receiver *)in;
    auto_free char *options = NULL;
    struct err why = ERR_INIT;
    int64_t now_ms = clock_wall_ms();
    int r = rx->all->room ? read_options_text(rx->options, &options, &why) :
                            err_set(&why, ERR_UNAVAILABLE, "the server is stopping");
    if (r == 0 && rx->terms.for_thread)
        r = check_thread(rx, &why);
    if (r < 0) {
        fail(rx, &why);
        return;
    }
    rx->n_open = 1;
    /* A millisecond apart, so that the store has them in the order that they came in. */
    for (struct incoming *f = incoming_first(rx); f; f = incoming_next(f), now_ms++) {
        if (!is_wanted(f))
            continue;
        f->set = make_set(rx, f, options, now_ms);
        r = f->set ? file_set_store(f->set, FILE_PROCESSING, NULL, STORE_CREATE, on_recorded, f,
                                    &f->in.err) :
                     err_set(&f->in.err, ERR_NO_MEMORY, "out of memory");
        if (r == 0)
            rx->n_open++;
        else
            refuse(f);
    }
    if (--rx->n_open == 0)
        recorded(rx);
}

/* ---- the request ---- */

int receive_begin(struct http_request *req, struct data_room *room,
                  const struct receive_terms *terms, struct err *err)
{
    static const struct intake_user user = { .begin = begin_file,
                                             .count = count_bytes,
                                             .end = end_file,
                                             .field = take_field,
                                             .check = check,
                                             .whole = commit,
                                             .uncount = uncount,
                                             .remove = remove_all,
                                             .free = free_all };
    struct receiver *rx = calloc(1, sizeof(*rx));
    if (!rx)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    rx->terms = *terms;
    rx->err = (struct err)ERR_INIT;
    rx->all = room->files;
    rx->use = file_use_of(room->files, http_owner(req));
    rx->options = json_object();
    int r = rx->use && rx->options ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        r = check_quota(rx, http_body_length(req) - INTAKE_FRAMING_MAX, err);
    if (r == 0)
        r = intake_start(&rx->in, req, RECEIVE_FILES_MAX + FIELDS_MAX, &user, err);
    if (r < 0) {
        json_decref(rx->options);
        free(rx);
        return r;
    }
    file_sets_ref(rx->all);
    return 0;
}

void receive_end(struct http_request *req, bool for_thread)
{
    struct err nothing = ERR_INIT;
    (void)nothing_sent(for_thread, &nothing);
    intake_end(req, nothing.message);
}
