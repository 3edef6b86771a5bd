/*
 * Files of a kernel's /workspace: what code left there is listed and read, and files that were
 * uploaded after the kernel started are written there.
 *
 * A kernel does one thing at a time. Pieces wait in a queue while code runs; code waits for the
 * piece under way, and for all files that are being added. A piece asked of one kernel never goes
 * to the next one (`epoch`).
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/macros.h"
#include "base/str.h"
#include "run/thread_kernel_impl.h"
#include "sandbox/workspace.h"

#define NAMES_TRIED 9 /* x.csv, x_2.csv, … */

enum op_kind { OP_LIST, OP_INSPECT, OP_READ, OP_WRITE, OP_REMOVE };

struct kernel_file_op {
    struct kernel_file_op *next;
    struct thread_kernel *kernel;
    enum op_kind kind;
    char path[KERNEL_PLACE_SIZE];
    int64_t offset, max_bytes;
    const void *data;
    size_t len;
    bool append, dropped;
    unsigned epoch;
    kernel_file_fn done;
    kernel_list_fn listed;
    void *arg;
};

/* ---- the queue ---- */

static struct kernel_file_op *pop(struct thread_kernel *k)
{
    struct kernel_file_op *op = k->ops;
    k->ops = op->next;
    if (!k->ops)
        k->ops_end = &k->ops;
    return op;
}

/* Tells whoever asked, and frees it. */
static void end_op(struct kernel_file_op *op, const struct file_piece *piece, const json_t *files,
                   const struct err *err)
{
    if (!op->dropped && op->listed)
        op->listed(files, err, op->arg);
    else if (!op->dropped)
        op->done(piece, err, op->arg);
    free(op);
}

static void on_end(struct thread_kernel *k, const struct file_piece *piece, const json_t *files,
                   const struct err *err)
{
    struct err ignored = ERR_INIT, why = ERR_INIT;
    kernel_enter(k);
    if (err)
        why = *err;
    struct kernel_file_op *op = pop(k);
    bool died = err && !lease_alive(k->lease);
    (void)kernel_step(k, died ? KERNEL_EV_DIED : KERNEL_EV_COPIED,
                      "its sandbox ended while its files were looked at", &ignored);
    end_op(op, piece, files, err ? &why : NULL);
    if (!k->closed)
        kernel_wake(k);
    kernel_leave(k);
}

static void on_piece(struct lease *lease, const struct file_piece *piece, const struct err *err,
                     void *arg)
{
    (void)lease;
    on_end(arg, piece, NULL, err);
}

static void on_list(struct lease *lease, struct run_result *result, const struct err *err,
                    void *arg)
{
    (void)lease;
    struct err why = ERR_INIT;
    struct thread_kernel *k = arg;
    const json_t *files = !result                    ? NULL :
                          k->ops->kind == OP_INSPECT ? result->body :
                                                       json_object_get(result->body, "files");
    if (err)
        why = *err;
    else if (result->verdict != VERDICT_OK)
        err_set(&why, ERR_UNAVAILABLE, "the kernel could not list its files");
    on_end(arg, NULL, why.code ? NULL : files, why.code ? &why : NULL);
    if (result)
        run_result_finish(result);
}

int kernel_begin_file(struct thread_kernel *k, struct err *err)
{
    struct kernel_file_op *op = k->ops;
    if (op->kind == OP_LIST)
        return lease_list_files(k->lease, on_list, k, err);
    if (op->kind == OP_INSPECT)
        return lease_inspect(k->lease, on_list, k, err);
    if (op->kind == OP_REMOVE)
        return lease_remove_file(k->lease, op->path, on_piece, k, err);
    if (op->kind == OP_READ)
        return lease_read_file(k->lease, op->path, op->offset, op->max_bytes, on_piece, k, err);
    return lease_write_file(k->lease, op->path, op->data, op->len, op->append, on_piece, k, err);
}

void kernel_pump_files(struct thread_kernel *k)
{
    while (k->ops && !k->closed && k->state != KERNEL_COPYING) {
        struct kernel_file_op *op = k->ops;
        struct err err = ERR_INIT;
        int r = 0;
        bool gone = kernel_state_is_gone(k->state) || k->state == KERNEL_STARTING;
        if (op->dropped) {
            end_op(pop(k), NULL, NULL, NULL);
            continue;
        }
        if (op->epoch != k->epoch || gone || (k->state == KERNEL_HOT && !lease_alive(k->lease)))
            r = err_set(&err, ERR_NOT_FOUND, "there is no sandbox whose files could be looked at");
        else if (k->state == KERNEL_HOT)
            r = kernel_step(k, KERNEL_EV_COPY, NULL, &err);
        else
            r = kernel_step(k, KERNEL_EV_WANT, NULL, &err);
        if (r == 0)
            break; /* it is under way, or the end of what runs leads back here */
        end_op(pop(k), NULL, NULL, &err);
    }
}

static int submit(struct thread_kernel *k, const struct kernel_file_op *like,
                  struct kernel_file_op **ret, struct err *err)
{
    struct kernel_file_op *op = malloc(sizeof(*op));
    if (!op)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *op = *like;
    op->kernel = k;
    op->epoch = k->epoch;
    *k->ops_end = op;
    k->ops_end = &op->next;
    if (ret)
        *ret = op;
    kernel_wake(k);
    return 0;
}

int thread_kernel_read_file(struct thread_kernel *k, const char *path, int64_t offset,
                            kernel_file_fn done, void *arg, struct kernel_file_op **ret,
                            struct err *err)
{
    struct kernel_file_op op = {
        .kind = OP_READ, .offset = offset, .max_bytes = FILE_PIECE_MAX, .done = done, .arg = arg
    };
    int r = workspace_path(path, op.path, err);
    return r < 0 ? r : submit(k, &op, ret, err);
}

int thread_kernel_list_files(struct thread_kernel *k, kernel_list_fn done, void *arg,
                             struct kernel_file_op **ret, struct err *err)
{
    struct kernel_file_op op = { .kind = OP_LIST, .listed = done, .arg = arg };
    return submit(k, &op, ret, err);
}

int thread_kernel_inspect(struct thread_kernel *k, kernel_list_fn done, void *arg,
                          struct kernel_file_op **ret, struct err *err)
{
    struct kernel_file_op op = { .kind = OP_INSPECT, .listed = done, .arg = arg };
    return submit(k, &op, ret, err);
}

int thread_kernel_write_file(struct thread_kernel *k, const char *path, const void *data,
                             size_t len, bool append, kernel_file_fn done, void *arg,
                             struct kernel_file_op **ret, struct err *err)
{
    struct kernel_file_op op = {
        .kind = OP_WRITE, .data = data, .len = len, .append = append, .done = done, .arg = arg
    };
    int r = workspace_path(path, op.path, err);
    return r < 0 ? r : submit(k, &op, ret, err);
}

int thread_kernel_remove_file(struct thread_kernel *k, const char *path, kernel_file_fn done,
                              void *arg, struct kernel_file_op **ret, struct err *err)
{
    struct kernel_file_op op = { .kind = OP_REMOVE, .done = done, .arg = arg };
    int r = workspace_path(path, op.path, err);
    return r < 0 ? r : submit(k, &op, ret, err);
}

void kernel_file_op_drop(struct kernel_file_op *op)
{
    if (op)
        op->dropped = true; /* its place in the queue frees it */
}

/* ---- adding files ---- */

struct waiter {
    struct waiter *next;
    void (*done)(void *arg);
    void *arg;
};

/*
 * One file after the other: a free name is looked for, then the file is read by the worker pool and
 * written piece by piece.
 */
struct adding {
    struct thread_kernel *kernel; /* NULL once nobody needs it any more */
    unsigned epoch;
    json_t *todo; /* [{path, name}] */
    size_t at;
    unsigned tried;
    char where[KERNEL_PLACE_SIZE];
    int fd;
    int64_t offset;
    bool working; /* the worker has it */
    bool last;
    size_t len;
    struct err err;
    struct waiter *waiters;
    char data[FILE_PIECE_MAX];
};

static void next_file(struct adding *a);
static void read_piece(struct adding *a);

static void adding_free(struct adding *a)
{
    while (a->waiters) {
        struct waiter *w = a->waiters;
        a->waiters = w->next;
        free(w);
    }
    if (a->fd >= 0)
        close(a->fd);
    json_decref(a->todo);
    free(a);
}

static void adding_end(struct adding *a)
{
    struct thread_kernel *k = a->kernel;
    kernel_enter(k);
    k->adding = NULL;
    for (struct waiter *w = a->waiters; w; w = w->next)
        w->done(w->arg);
    adding_free(a);
    kernel_wake(k);
    kernel_leave(k);
}

/* This one is in, or it cannot be and the reason is kept. */
static void added(struct adding *a, const struct err *err)
{
    struct thread_kernel *k = a->kernel;
    if (a->fd >= 0)
        close(TAKE_FD(a->fd));
    if (a->epoch == k->epoch) {
        const char *path = json_string_value(
            json_object_get(json_array_get(a->todo, a->at), "path"));
        json_t *entry = err ?
                            json_pack(
                                "{s:o}", "note",
                                json_sprintf(
                                    "Python, which keeps its variables, cannot have this file: %s",
                                    err->message)) :
                            json_pack("{s:s}", "where", a->where);
        if (!k->added)
            k->added = json_object();
        json_object_set_new(k->added, path, entry);
    }
    a->at++;
    next_file(a);
}

/* A file that was added earlier, and that the thread no longer has. */
static bool is_outdated(const struct thread_kernel *k, const char *where)
{
    struct sandbox_spec spec = { .kind = RUN_PYTHON };
    const char *path;
    json_t *entry;
    k->env.spec(k->env.arg, &spec);
    json_object_foreach(k->added, path, entry) {
        bool has = false;
        for (size_t i = 0; i < spec.n_files; i++)
            has = has || str_eq(spec.files[i].path, path);
        if (!has && str_eq(json_string_value(json_object_get(entry, "where")), where))
            return true;
    }
    return false;
}

static void on_emptied(const struct file_piece *piece, const struct err *err, void *arg)
{
    struct adding *a = arg;
    (void)piece, (void)err;
    added(a, &a->err);
}

static void on_written(const struct file_piece *piece, const struct err *err, void *arg)
{
    struct adding *a = arg;
    struct err ignored = ERR_INIT;
    (void)piece;
    /* half a file is worse than an empty one */
    if (err && a->offset > 0 && a->epoch == a->kernel->epoch) {
        a->err = *err;
        if (thread_kernel_write_file(a->kernel, a->where, "", 0, false, on_emptied, a, NULL,
                                     &ignored) == 0)
            return;
    }
    if (err || a->last) {
        added(a, err);
        return;
    }
    a->offset += (int64_t)a->len;
    read_piece(a);
}

static void read_work(void *arg)
{
    struct adding *a = arg;
    const char *path = json_string_value(json_object_get(json_array_get(a->todo, a->at), "path"));
    if (a->fd < 0)
        a->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    a->len = 0;
    a->last = false;
    while (a->fd >= 0 && a->len < sizeof(a->data) && !a->last) {
        ssize_t n = pread(a->fd, a->data + a->len, sizeof(a->data) - a->len,
                          a->offset + (int64_t)a->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        a->last = n == 0;
        a->len += (size_t)n;
    }
    if (a->fd < 0 || (a->len < sizeof(a->data) && !a->last))
        err_errno(&a->err, ERR_IO, errno, "reading it");
}

static void read_done(void *arg)
{
    struct adding *a = arg;
    a->working = false;
    if (!a->kernel) {
        adding_free(a);
        return;
    }
    int r = a->err.code ? -(int)a->err.code : 0;
    /* the piece before was its last */
    if (a->epoch != a->kernel->epoch || (r == 0 && a->len == 0 && a->offset > 0)) {
        added(a, NULL);
        return;
    }
    if (r == 0)
        r = thread_kernel_write_file(a->kernel, a->where, a->data, a->len, a->offset > 0,
                                     on_written, a, NULL, &a->err);
    if (r < 0)
        added(a, &a->err);
}

static void read_piece(struct adding *a)
{
    a->err = (struct err)ERR_INIT;
    a->working = true;
    if (loop_work(a->kernel->env.loop, read_work, read_done, a, &a->err) < 0) {
        a->working = false;
        added(a, &a->err);
    }
}

static void try_name(struct adding *a);

static void on_probed(const struct file_piece *piece, const struct err *err, void *arg)
{
    struct adding *a = arg;
    struct err why = ERR_INIT;
    bool taken = piece || err->code == ERR_VALIDATION; /* code's own, or a directory or a link */
    if (err && err->code != ERR_NOT_FOUND && !taken) {
        added(a, err);
    } else if (!taken || is_outdated(a->kernel, a->where)) {
        a->offset = 0;
        read_piece(a);
    } else if (a->tried < NAMES_TRIED) {
        try_name(a);
    } else {
        err_set(&why, ERR_CONFLICT, "code has files of that name in /workspace already");
        added(a, &why);
    }
}

static void try_name(struct adding *a)
{
    const char *name = json_string_value(json_object_get(json_array_get(a->todo, a->at), "name"));
    const char *dot = strrchr(name, '.');
    int stem = dot && dot != name ? (int)(dot - name) : (int)strlen(name);
    struct err err = ERR_INIT;
    if (++a->tried == 1)
        snprintf(a->where, sizeof(a->where), "/workspace/%s", name);
    else
        snprintf(a->where, sizeof(a->where), "/workspace/%.*s_%u%s", stem, name, a->tried,
                 name + stem);
    struct kernel_file_op op = { .kind = OP_READ, .max_bytes = 1, .done = on_probed, .arg = a };
    int r = workspace_path(a->where, op.path, &err);
    if (r == 0)
        r = submit(a->kernel, &op, NULL, &err);
    if (r < 0)
        added(a, &err);
}

static void next_file(struct adding *a)
{
    a->tried = 0;
    if (a->at < json_array_size(a->todo) && a->epoch == a->kernel->epoch)
        try_name(a);
    else
        adding_end(a);
}

void thread_kernel_add_files(struct thread_kernel *k, const struct sandbox_file *files, size_t n)
{
    struct adding *a = k->adding;
    bool fresh = !a;
    k->stale = true;
    if (n == 0 || (fresh && !(a = malloc(sizeof(*a)))))
        return;
    if (fresh) {
        memset(a, 0, offsetof(struct adding, data));
        a->fd = -1;
        a->kernel = k;
        a->epoch = k->epoch;
        a->todo = json_array();
        k->adding = a;
    }
    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            a->todo, json_pack("{s:s, s:s}", "path", files[i].path, "name", files[i].name));
    if (fresh)
        next_file(a);
}

void thread_kernel_note_reread(struct thread_kernel *k, const struct sandbox_file *file)
{
    if (json_object_get(k->added, file->path))
        return; /* Python has no table of it */
    if (!k->added)
        k->added = json_object();
    json_object_set_new(k->added, file->path,
                        json_pack("{s:o, s:s}", "where", json_sprintf("/data/%s", file->name),
                                  "note",
                                  "Python, which keeps its variables, has the table as it was "
                                  "read before; SQL has the new one"));
}

void thread_kernel_when_added(struct thread_kernel *k, void (*done)(void *arg), void *arg)
{
    struct adding *a = k->adding;
    struct waiter *w = a ? malloc(sizeof(*w)) : NULL;
    struct err err = ERR_INIT;
    if (w) {
        *w = (struct waiter){ .next = a->waiters, .done = done, .arg = arg };
        a->waiters = w;
    } else if (loop_defer(k->env.loop, done, arg, &err) < 0) {
        done(arg);
    }
}

bool thread_kernel_added_place(const struct thread_kernel *k, const char *path,
                               char ret[KERNEL_PLACE_SIZE], const char **ret_note)
{
    const json_t *entry = json_object_get(k->added, path);
    const char *where = json_string_value(json_object_get(entry, "where"));
    *ret_note = json_string_value(json_object_get(entry, "note"));
    snprintf(ret, KERNEL_PLACE_SIZE, "%s", where ? where : "");
    return entry != NULL;
}

/* ---- the end ---- */

void kernel_forget_files(struct thread_kernel *k)
{
    k->stale = false;
    json_decref(TAKE_PTR(k->added));
}

void kernel_close_files(struct thread_kernel *k)
{
    struct adding *a = TAKE_PTR(k->adding);
    while (k->ops)
        free(pop(k));
    if (a && a->working)
        a->kernel = NULL;
    else if (a)
        adding_free(a);
}
