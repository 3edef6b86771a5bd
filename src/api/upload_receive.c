/*
 * POST /upload. When the body is whole (intake.c) each file gets a record and an ingest, and the answer waits for those (or not:
 * `wait=false`). Until then whatever ends the request removes every trace of it.
 */

#include <stdio.h>
#include <string.h>
#include "api/files.h"
#include "data/intake.h"
#include "data/uploads_impl.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"

#define FIELDS_MAX 64
#define NOTHING_SENT "No files were sent; send them in the multipart field 'files'"

struct incoming {
    struct intake_file in;
    struct receiver *rx;
    char file_id[UPLOAD_ID_DIGITS + 1];
    struct upload_set *set; /* NULL when there is an error instead */
    struct upload_watcher watcher;
};

struct receiver {
    struct intake in;
    struct uploads *up;
    struct upload_use *use;
    int64_t counted_bytes;
    struct incoming *files[UPLOAD_FILES_MAX];
    size_t n_files;
    bool wait;
    json_t *options; /* how all of them are to be read */
    size_t n_open; /* records, then ingests, that are still awaited */
};

/* ---- memory ---- */

static void free_incoming(struct incoming *f)
{
    intake_file_finish(&f->in);
    upload_unwatch(&f->watcher);
    upload_set_unref(f->set);
    free(f);
}

static void uncount(struct intake *in)
{
    struct receiver *rx = (struct receiver *)in;
    rx->use->bytes -= rx->counted_bytes;
    rx->counted_bytes = 0;
}

static void free_receiver(struct intake *in)
{
    struct receiver *rx = (struct receiver *)in;
    uncount(in);
    for (size_t i = 0; i < rx->n_files; i++)
        free_incoming(rx->files[i]);
    intake_finish(in);
    json_decref(rx->options);
    uploads_unref(rx->up);
    free(rx);
}

static void remove_files(struct intake *in)
{
    for (const struct intake_file *f = in->files; f; f = f->next) {
        char dir[PATH_MAX];
        snprintf(dir, sizeof(dir), "%s", f->dir);
        (void)fd_remove_tree(dir, NULL);
        *strrchr(dir, '/') = '\0';
        (void)rmdir(dir);
    }
}

/* ---- the body ---- */

static int begin_file(struct intake *in, const struct multipart_part *part, struct intake_file **ret, struct err *err)
{
    struct receiver *rx = (struct receiver *)in;
    char shown[STR_SHOWN_SIZE];
    if (!str_eq(part->name, "files"))
        return err_set(err, ERR_VALIDATION,
                       "a file came in the field '%s'; files go into the field 'files'",
                       str_show(part->name, strlen(part->name), shown, sizeof(shown)));
    if (rx->n_files == UPLOAD_FILES_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "more than %d files in one request; send the others in another",
                       UPLOAD_FILES_MAX);
    if (rx->use->n + (int64_t)rx->n_files >= UPLOADS_PER_OWNER)
        return err_set(err, ERR_TOO_LARGE,
                       "there are already %d uploads; delete some (DELETE /uploads/{file_id})",
                       UPLOADS_PER_OWNER);
    struct incoming *f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    f->rx = rx;
    id_hex(f->file_id, UPLOAD_ID_DIGITS);
    upload_dir(rx->up, in->owner, f->file_id, f->in.dir, sizeof(f->in.dir));
    snprintf(f->in.name, sizeof(f->in.name), UPLOAD_PART);
    rx->files[rx->n_files++] = f;
    *ret = &f->in;
    return 0;
}

int uploads_may_grow(const struct upload_use *use, const struct config *cfg, int64_t bytes, struct err *err)
{
    if (cfg->upload_quota_bytes > 0 && use->bytes + bytes > cfg->upload_quota_bytes)
        return err_set(err, ERR_TOO_LARGE,
                       "your uploads would take more than the %lld bytes that they may "
                       "(UPLOAD_QUOTA_BYTES); delete some first",
                       cfg->upload_quota_bytes);
    return 0;
}

int upload_check_size(const struct config *cfg, const struct intake_file *f, size_t len, struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    if (f->size + (int64_t)len > cfg->max_upload_bytes)
        return err_set(err, ERR_TOO_LARGE,
                       "'%s' is larger than the %lld bytes that a file may have (MAX_UPLOAD_BYTES)",
                       str_show(f->filename, strlen(f->filename), shown, sizeof(shown)),
                       cfg->max_upload_bytes);
    return 0;
}

static int count_bytes(struct intake *in, struct intake_file *f, size_t len, struct err *err)
{
    struct receiver *rx = (struct receiver *)in;
    const struct config *cfg = rx->up->room->env.cfg;
    int r = upload_check_size(cfg, f, len, err);
    if (r == 0)
        r = uploads_may_grow(rx->use, cfg, (int64_t)len, err);
    if (r == 0) {
        rx->counted_bytes += (int64_t)len;
        rx->use->bytes += (int64_t)len;
    }
    return r;
}

static int end_file(struct intake *in, struct intake_file *f, struct err *err)
{
    (void)in, (void)err;
    if (f->size == 0)
        err_set(&f->err, ERR_VALIDATION, *f->filename ? "File is empty" : "No file was chosen");
    else if (!*f->filename)
        snprintf(f->filename, sizeof(f->filename), "upload");
    return 0;
}

static int take_field(struct intake *in, const char *name, const char *value, struct err *err)
{
    struct receiver *rx = (struct receiver *)in;
    return upload_options_field(rx->options, name, value, err);
}

static int check(struct intake *in, struct err *err)
{
    struct receiver *rx = (struct receiver *)in;
    auto_free char *text = NULL;
    return upload_options_text(rx->options, &text, err);
}

static void commit(struct intake *in);

int upload_receive_headers(struct http_request *req, struct err *err)
{
    static const struct intake_user user = { .begin = begin_file, .count = count_bytes,
                                             .end = end_file, .field = take_field, .check = check,
                                             .whole = commit, .uncount = uncount, .remove = remove_files, .free = free_receiver };
    struct app *app = app_of(req);
    struct receiver *rx = calloc(1, sizeof(*rx));
    if (!rx)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    rx->up = app->data->uploads;
    rx->wait = http_query_bool(req, "wait", true);
    rx->use = uploads_use(app->data->uploads, http_owner(req));
    rx->options = json_object();
    int r = rx->use && rx->options ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        r = uploads_may_grow(rx->use, app->cfg, http_body_length(req) - INTAKE_FRAMING_MAX, err);
    if (r == 0)
        r = intake_start(&rx->in, req, UPLOAD_FILES_MAX + FIELDS_MAX, &user, err);
    if (r < 0) {
        json_decref(rx->options);
        free(rx);
        return r;
    }
    uploads_ref(rx->up);
    return 0;
}

void upload_receive_end(struct http_request *req)
{
    intake_end(req, NOTHING_SENT);
}

/* ---- what becomes of the files ---- */

static json_t *file_json(const struct incoming *f, bool settled)
{
    const struct upload_set *set = f->set;
    json_t *j = json_pack(
        "{s:s, s:o, s:I, s:o, s:O?, s:s?}", "file_id", f->file_id, "filename",
        json_text(f->in.filename, strlen(f->in.filename)), "size_bytes", (json_int_t)f->in.size,
        "rows", settled && !set->raw ? json_integer(set->file.row_count) : json_null(), "columns",
        settled ? set->columns : NULL, "table", set->raw ? NULL : set->file.table);
    if (settled)
        upload_set_report(set, j);
    if (!settled)
        json_object_set_new(j, "status", json_string(upload_status_name(set->status)));
    return j;
}

/* Answers, if somebody still waits. Files without an error are listed, the others told. */
static void answer(struct receiver *rx, bool settled)
{
    json_t *files = json_array(), *errors = json_array();
    const struct err *first = NULL;
    struct http_request *req = intake_take_request(&rx->in);
    for (size_t i = 0; i < rx->n_files; i++) {
        struct incoming *f = rx->files[i];
        if (f->in.err.code == ERR_NONE) {
            json_array_append_new(files, file_json(f, settled));
            continue;
        }
        first = first ? first : &f->in.err;
        json_array_append_new(
            errors, json_pack("{s:o, s:o}", "filename", json_text(f->in.filename, strlen(f->in.filename)),
                              "error", json_text(f->in.err.message, strlen(f->in.err.message))));
        /* Whoever sent it knows now. */
        if (req && f->set && !f->set->deleting && f->set->uploads->room)
            (void)upload_set_delete(f->set, NULL, NULL, NULL);
    }
    size_t n = json_array_size(files);
    json_t *body = n > 0 ? json_pack("{s:o, s:o}", "message",
                                     json_sprintf("%zu file(s) uploaded successfully", n), "files",
                                     json_incref(files)) :
                           json_pack("{s:{s:O}, s:o}", "detail", "errors", errors, "error",
                                     json_error(first));
    if (n > 0 && json_array_size(errors) > 0)
        json_object_set(body, "errors", errors);
    json_decref(files);
    json_decref(errors);
    if (req)
        http_reply_json(req, n == 0 ? err_http_status(first->code) : settled ? 200 : 202, body);
    else
        json_decref(body);
    free_receiver(&rx->in);
}

static void changed(struct upload_set *set, void *arg)
{
    struct incoming *f = arg;
    struct receiver *rx = f->rx;
    if (set->status == UPLOAD_PROCESSING && !set->deleting && rx->up->room)
        return;
    upload_unwatch(&f->watcher);
    if (set->deleting)
        err_set(&f->in.err, ERR_CONFLICT, "The upload was deleted while it was being read");
    else if (set->status == UPLOAD_FAILED)
        f->in.err = set->error;
    if (--rx->n_open == 0)
        answer(rx, true);
}

/* Every file has a record, or an error. */
static void recorded(struct receiver *rx)
{
    uncount(&rx->in); /* the sets count now */
    rx->n_open = 1;
    for (size_t i = 0; i < rx->n_files; i++) {
        struct incoming *f = rx->files[i];
        if (f->in.err.code != ERR_NONE)
            continue;
        upload_set_list(f->set);
        f->watcher = (struct upload_watcher){ .changed = changed, .arg = f };
        if (rx->wait) {
            upload_watch(f->set, &f->watcher);
            rx->n_open++;
        }
        if (upload_ingest(f->set, &f->in.err) < 0) { /* out of memory; the next start takes it up */
            rx->n_open -= rx->wait;
            upload_unwatch(&f->watcher);
        }
    }
    if (--rx->n_open == 0)
        answer(rx, rx->wait);
}

static void on_recorded(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct incoming *f = arg;
    struct receiver *rx = f->rx;
    if (err) {
        log_error("upload.record", LOG_STR("file_id", f->file_id), LOG_STR("error", err->message));
        f->in.err = *err;
        f->set->remove_files = true;
        upload_set_unref(TAKE_PTR(f->set));
    }
    if (--rx->n_open > 0)
        return;
    if (rx->up->room)
        recorded(rx);
    else
        free_receiver(&rx->in); /* the server has stopped; the next one finds the records */
}

static void commit(struct intake *in)
{
    struct receiver *rx = (struct receiver *)in;
    char created[CLOCK_ISO_SIZE], expires[CLOCK_ISO_SIZE];
    int64_t now = clock_wall_ms();
    struct data_room *room = rx->up->room;
    if (!room) {
        intake_abort(&rx->in);
        return;
    }
    clock_iso8601(now, created);
    clock_iso8601(now + room->env.cfg->upload_ttl_s * 1000, expires);
    auto_free char *options = NULL;
    struct err why = ERR_INIT;
    if (upload_options_text(rx->options, &options, &why) < 0) {
        intake_abort(&rx->in);
        return;
    }
    rx->n_open = 1;
    for (size_t i = 0; i < rx->n_files; i++) {
        struct incoming *f = rx->files[i];
        if (f->in.err.code != ERR_NONE)
            continue;
        struct upload_facts facts = { .owner = rx->in.owner,
                                      .file_id = f->file_id,
                                      .filename = f->in.filename,
                                      .sha256 = f->in.sha256,
                                      .created_at = created,
                                      .expires_at = room->env.cfg->upload_ttl_s ? expires : NULL,
                                      .options = options,
                                      .size_bytes = f->in.size };
        f->set = upload_set_create(rx->up, &facts);
        int r = f->set ? upload_set_store(f->set, UPLOAD_PROCESSING, NULL, STORE_CREATE,
                                          on_recorded, f, &f->in.err) :
                         err_set(&f->in.err, ERR_NO_MEMORY, "out of memory");
        if (r == 0) {
            rx->n_open++;
        } else if (f->set) {
            f->set->remove_files = true;
            upload_set_unref(TAKE_PTR(f->set));
        }
    }
    if (--rx->n_open == 0)
        recorded(rx);
}
