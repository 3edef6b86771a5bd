/*
 * POST /files/upload. Files are received into sessions/.uploading (intake.c). When the body is whole they move to their session; those that
 * look like tables are read once, in a jail that sees nothing else, so that a broken one becomes a raw file here and not a failure in the
 * chat; then the index is saved, the thread's chat, if there is one, gets them, and the client is told.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "api/files.h"
#include "data/thread_files_impl.h"
#include "data/intake.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"

#define FIELDS_MAX 16
#define NOTHING_SENT "No files were sent; send them in the multipart field 'files[]'"
#define OVER_QUOTA "Session storage limit exceeded."

enum arrival_state { ARRIVING, MOVING, TRYING, SAVING, TELLING };

struct arrival {
    struct intake_file in;
    char id[SESSION_FILE_DIGITS + 1];
    char name[UPLOAD_NAME_SIZE];
    char table[DATASET_TABLE_MAX], note[SESSION_NOTE_SIZE];
    struct session_file *file; /* a reference, once it is the session's */
};

struct arrivals {
    struct intake in;
    struct app *app; /* while the room is open */
    struct sessions *all;
    struct arrivals *next, **prev; /* of those whose body is whole */
    struct session *session;       /* pinned; NULL until the form has named it */
    struct upload_use *use;
    int64_t counted_bytes;
    enum arrival_state state;
    struct arrival *at; /* being tried */
    struct lease *lease;
    struct err err;
};

static struct arrival *first(const struct arrivals *a)
{
    return (struct arrival *)a->in.files;
}

static struct arrival *after(const struct arrival *f)
{
    return (struct arrival *)f->in.next;
}

static bool wanted(const struct arrival *f)
{
    return f->in.err.code == ERR_NONE;
}

/* ---- memory ---- */

static void uncount(struct intake *in)
{
    struct arrivals *a = (struct arrivals *)in;
    a->use->bytes -= a->counted_bytes;
    if (a->session)
        a->session->incoming -= a->counted_bytes;
    a->counted_bytes = 0;
}

static void arrivals_free(struct intake *in)
{
    struct arrivals *a = (struct arrivals *)in;
    uncount(in);
    if (a->prev) {
        *a->prev = a->next;
        if (a->next)
            a->next->prev = a->prev;
    }
    for (struct arrival *f = first(a), *next; f; f = next) {
        next = after(f);
        intake_file_finish(&f->in);
        session_file_unref(f->file);
        free(f);
    }
    intake_finish(in);
    if (a->session)
        session_unpin(a->session);
    sessions_unref(a->all);
    free(a);
}

/* In the worker pool. */
static void remove_all(struct intake *in)
{
    struct arrivals *a = (struct arrivals *)in;
    char path[PATH_MAX + 32];
    for (struct arrival *f = first(a); f; f = after(f)) {
        (void)fd_remove_tree(f->in.dir, NULL);
        if (!a->session || a->state == ARRIVING)
            continue;
        snprintf(path, sizeof(path), "%s/%s", a->session->dir, f->id);
        (void)fd_remove_tree(path, NULL);
    }
    if (a->session && a->state != ARRIVING && rmdir(a->session->dir) == 0) { /* it had no other files */
        snprintf(path, sizeof(path), "%s", a->session->dir);
        *strrchr(path, '/') = '\0';
        (void)rmdir(path);
    }
}

static void fail(struct arrivals *a, const struct err *err)
{
    struct err why = *err;
    struct http_request *req = intake_take_request(&a->in);
    intake_abort(&a->in);
    if (req)
        http_reply_error(req, &why);
}

/* ---- the body ---- */

static int begin_file(struct intake *in, const struct multipart_part *part, struct intake_file **ret, struct err *err)
{
    struct arrivals *a = (struct arrivals *)in;
    char shown[STR_SHOWN_SIZE];
    if (!str_eq(part->name, "files") && !str_eq(part->name, "files[]"))
        return err_set(err, ERR_VALIDATION, "a file came in the field '%s'; files go into the field 'files[]'",
                       str_show(part->name, strlen(part->name), shown, sizeof(shown)));
    if (in->n_files >= (size_t)a->all->room->env.cfg->session_files_max)
        return err_set(err, ERR_TOO_LARGE, "a session has at most %lld files (SESSION_FILES_MAX)",
                       a->all->room->env.cfg->session_files_max);
    struct arrival *f = calloc(1, sizeof(*f));
    if (!f)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    id_hex(f->id, SESSION_FILE_DIGITS);
    upload_file_name(*part->filename ? part->filename : "upload", f->name);
    snprintf(f->in.dir, sizeof(f->in.dir), "%.3800s/.uploading/%s", a->all->root, f->id);
    snprintf(f->in.name, sizeof(f->in.name), "%s", f->name);
    *ret = &f->in;
    return 0;
}

static int check_quota(const struct arrivals *a, int64_t more, struct err *err)
{
    long long quota = a->all->room->env.cfg->session_quota_bytes;
    int64_t taken = a->session ? a->session->bytes + a->session->incoming : a->counted_bytes;
    return taken + more > quota ? err_set(err, ERR_TOO_LARGE, OVER_QUOTA) : 0;
}

static int count_bytes(struct intake *in, struct intake_file *f, size_t len, struct err *err)
{
    struct arrivals *a = (struct arrivals *)in;
    const struct config *cfg = a->all->room->env.cfg;
    int r = upload_check_size(cfg, f, len, err);
    if (r == 0)
        r = check_quota(a, (int64_t)len, err);
    if (r == 0)
        r = uploads_may_grow(a->use, cfg, (int64_t)len, err);
    if (r < 0)
        return r;
    a->counted_bytes += (int64_t)len;
    a->use->bytes += (int64_t)len;
    if (a->session)
        a->session->incoming += (int64_t)len;
    return 0;
}

static int end_file(struct intake *in, struct intake_file *f, struct err *err)
{
    (void)in, (void)err;
    if (f->size == 0 && !*f->filename)
        err_set(&f->err, ERR_VALIDATION, "No file was chosen"); /* what a form sends for a field that is left empty */
    return 0;
}

/* The session may be named before or after its files. */
static int take_field(struct intake *in, const char *name, const char *value, struct err *err)
{
    struct arrivals *a = (struct arrivals *)in;
    if (!str_eq(name, "session_id"))
        return 0;
    if (a->session)
        return err_set(err, ERR_VALIDATION, "session_id is there twice");
    int r = session_pin(a->all, in->owner, value, &a->session, err);
    if (r < 0)
        return r;
    r = check_quota(a, a->counted_bytes, err);
    a->session->incoming += a->counted_bytes;
    return r;
}

static int check(struct intake *in, struct err *err)
{
    const struct arrivals *a = (struct arrivals *)in;
    size_t n = 0;
    if (!a->session)
        return err_set(err, ERR_VALIDATION, "session_id is required");
    for (const struct arrival *f = first(a); f; f = after(f))
        n += wanted(f);
    return n ? 0 : err_set(err, ERR_VALIDATION, NOTHING_SENT);
}

/* ---- what becomes of the files ---- */

static void reply(void *arg)
{
    struct arrivals *a = arg;
    struct app *app = a->all->room ? a->app : NULL;
    struct http_request *req = intake_take_request(&a->in);
    struct chat *c = app ? chat_find(app->agent, a->session->owner, a->session->id) : NULL;
    json_t *files = json_array();
    for (struct arrival *f = first(a); f; f = after(f)) {
        if (!f->file)
            continue;
        char place[KERNEL_PLACE_SIZE];
        const char *note = NULL;
        if (!c || !chat_file_place(c, f->file->path, place, &note))
            snprintf(place, sizeof(place), "/data/%s", f->file->name);
        if (!note && *f->note)
            note = f->note;
        if (!note && c && chat_is_busy(c))
            note = "A message is being answered; the file is there from the next one on.";
        json_array_append_new(files, json_pack("{s:s, s:I, s:s*, s:s*, s:s*}", "name", f->file->name, "size", (json_int_t)f->file->size,
                                               "where", *place ? place : NULL, "table", *f->file->table ? f->file->table : NULL, "note", note));
    }
    json_t *body = json_pack("{s:s, s:s, s:o}", "status", "ok", "session_id", a->session->id, "files", files);
    if (req)
        http_reply_json(req, 200, body);
    else
        json_decref(body);
    arrivals_free(&a->in);
}

static void on_saved(const struct err *err, void *arg)
{
    struct arrivals *a = arg;
    struct app *app = a->all->room ? a->app : NULL;
    if (!app) {
        arrivals_free(&a->in);
        return;
    }
    if (err) { /* what could not be acknowledged is not there */
        for (struct arrival *f = first(a); f; f = after(f))
            if (f->file)
                session_drop(a->session, f->file);
        fail(a, err);
        return;
    }
    a->state = TELLING;
    struct chat *c = chat_find(app->agent, a->session->owner, a->session->id);
    if (c)
        chat_refresh_data(c, reply, a);
    else
        reply(a);
}

/* They are the session's from here on. */
static void commit(struct arrivals *a)
{
    struct session *s = a->session;
    struct err err = ERR_INIT;
    int r = 0;
    uncount(&a->in);
    for (struct arrival *f = first(a); f && r == 0; f = after(f)) {
        if (!wanted(f))
            continue;
        struct session_file *file = session_file_create(s, f->id, f->name, f->in.size);
        if (!file) {
            r = err_set(&err, ERR_NO_MEMORY, "out of memory");
            break;
        }
        snprintf(file->sha256, sizeof(file->sha256), "%s", f->in.sha256);
        snprintf(file->table, sizeof(file->table), "%s", f->table);
        snprintf(file->note, sizeof(file->note), "%s", f->note);
        file->modified_ms = clock_wall_ms();
        f->file = session_file_ref(file);
        session_add(s, file);
    }
    a->state = SAVING;
    if (r == 0)
        r = session_save(s, on_saved, a, &err);
    if (r < 0)
        on_saved(&err, a);
}

/* ---- trials ---- */

static void try_next(struct arrivals *a, struct arrival *f);

static void tried(struct arrivals *a, const struct err *err)
{
    struct arrival *f = a->at;
    if (err) {
        struct err why = *err;
        upload_reword(&why, f->name);
        snprintf(f->note, sizeof(f->note), "%.*s", (int)str_utf8_cut(why.message, strlen(why.message), sizeof(f->note) - 1), why.message);
    } else {
        upload_table_name(f->name, f->table);
    }
    try_next(a, after(f));
}

static void on_ready(struct lease *lease, const struct err *err, void *arg)
{
    struct arrivals *a = arg;
    a->lease = NULL;
    if (!err)
        lease_release(lease);
    tried(a, err);
}

static void acquire(struct arrivals *a)
{
    struct arrival *f = a->at;
    struct app *app = a->app;
    char path[2 * PATH_MAX], table[DATASET_TABLE_MAX];
    struct err err = ERR_INIT;
    upload_table_name(f->name, table);
    snprintf(path, sizeof(path), "%s/%s/%s", a->session->dir, f->id, f->name);
    struct sandbox_file file = {
        .name = f->name, .path = path, .table = table, .sha256 = f->in.sha256, .is_beside = true
    };
    struct sandbox_spec spec = { .kind = RUN_SQL, .files = &file, .n_files = 1 };
    sandbox_limits_default(app->cfg, &spec.limits);
    a->state = TRYING;
    int r = executor_acquire(app->executor, a->session->owner, &spec, NULL, on_ready, a, &a->lease, &err);
    if (r < 0)
        tried(a, &err);
}

static void try_next(struct arrivals *a, struct arrival *f)
{
    for (; f; f = after(f)) {
        if (!wanted(f) || !upload_is_tabular(f->name))
            continue;
        if (f->in.size == 0) {
            snprintf(f->note, sizeof(f->note), "File is empty");
            continue;
        }
        a->at = f;
        acquire(a);
        return;
    }
    commit(a);
}

/* ---- to their place ---- */

static void move_work(void *arg)
{
    struct arrivals *a = arg;
    char path[PATH_MAX + 32];
    /* Whoever removed the session's last file may just have removed its directory: then once more. */
    for (struct arrival *f = first(a); f; f = after(f)) {
        if (!wanted(f))
            continue;
        snprintf(path, sizeof(path), "%s/%s", a->session->dir, f->id);
        int r = -1, code = 0;
        for (int tries = 0; tries < 3 && r < 0; tries++) {
            r = fd_mkdir_p(a->session->dir, 0700, &a->err);
            if (r == 0 && (r = rename(f->in.dir, path)) < 0)
                code = errno;
        }
        if (r < 0) {
            err_errno(&a->err, ERR_IO, code, "storing '%s'", f->name);
            return;
        }
    }
    a->err = (struct err)ERR_INIT;
    auto_close int dir = open(a->session->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fsync(dir) < 0)
        err_errno(&a->err, ERR_IO, errno, "storing the files");
}

static void move_done(void *arg)
{
    struct arrivals *a = arg;
    struct err err = a->err;
    if (!a->all->room)
        intake_abort(&a->in);
    else if (err.code)
        fail(a, &err);
    else
        try_next(a, first(a));
}

static void close_all(struct sessions *all)
{
    for (struct arrivals *a = all->arrivals, *next; a; a = next) {
        next = a->next;
        lease_release(TAKE_PTR(a->lease));
        if (a->state == TRYING)
            intake_abort(&a->in);
        else if (a->state == TELLING) /* its chat will not call back */
            arrivals_free(&a->in);
        /* The others are the worker pool's, and see that it is over when they come back. */
    }
}

static void whole(struct intake *in)
{
    struct arrivals *a = (struct arrivals *)in;
    struct err err = ERR_INIT;
    if (!a->all->room) {
        intake_abort(in);
        return;
    }
    size_t n = 0, most = (size_t)a->all->room->env.cfg->session_files_max;
    for (size_t i = 0; i < a->session->n_files; i++)
        n += !file_is_output(a->session->files[i]->name);
    for (const struct arrival *f = first(a); f; f = after(f))
        n += wanted(f) && !session_file_named(a->session, f->name);
    a->next = a->all->arrivals;
    a->prev = &a->all->arrivals;
    if (a->next)
        a->next->prev = &a->next;
    a->all->arrivals = a;
    a->all->close_arrivals = close_all;
    int r = n > most ? err_set(&err, ERR_TOO_LARGE, "a session has at most %zu files (SESSION_FILES_MAX); clear it first", most) : 0;
    if (r == 0) {
        a->state = MOVING;
        r = loop_work(a->all->loop, move_work, move_done, a, &err);
    }
    if (r < 0)
        fail(a, &err);
}

/* ---- the request ---- */

int session_receive_headers(struct http_request *req, struct err *err)
{
    static const struct intake_user user = { .begin = begin_file, .count = count_bytes, .end = end_file, .field = take_field,
                                             .check = check, .whole = whole, .uncount = uncount, .remove = remove_all, .free = arrivals_free };
    struct app *app = app_of(req);
    struct arrivals *a = calloc(1, sizeof(*a));
    if (!a)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    a->app = app;
    a->all = app->data->sessions;
    a->err = (struct err)ERR_INIT;
    a->use = uploads_use(app->data->uploads, http_owner(req));
    int r = a->use ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        r = check_quota(a, http_body_length(req) - INTAKE_FRAMING_MAX, err);
    if (r == 0)
        r = intake_start(&a->in, req, (size_t)app->cfg->session_files_max + 1 + FIELDS_MAX, &user, err);
    if (r < 0) {
        free(a);
        return r;
    }
    sessions_ref(a->all);
    return 0;
}

void session_receive_end(struct http_request *req)
{
    intake_end(req, NOTHING_SENT);
}
