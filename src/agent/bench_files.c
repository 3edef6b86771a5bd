/*
 * Files of a kept kernel's /workspace: what code left there is listed and read, and what came after the kernel is written there.
 *
 * A kernel does one thing at a time. Reads and writes wait in a queue, a piece each, while a cell runs; a cell that comes waits for the piece
 * under way, and for everything that is being carried in. Pieces asked of one kernel never go to the next one (`epoch`).
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "agent/agent_impl.h"
#include "base/str.h"
#include "sandbox/workspace.h"

#define NAMES_TRIED 9 /* x.csv, x_2.csv, … */

enum op_kind { OP_LIST, OP_READ, OP_WRITE };

struct chat_op {
    struct chat_op *next;
    struct chat *chat; /* a reference */
    enum op_kind kind;
    char path[CHAT_PLACE_SIZE];
    int64_t offset, max_bytes;
    const void *data;
    size_t len;
    bool append, dropped;
    unsigned epoch;
    chat_file_fn done;
    chat_list_fn listed;
    void *arg;
};

/* ---- the queue ---- */

bool bench_files_busy(const struct chat *c)
{
    return c->bench.op_busy || c->bench.carry;
}

/* A cell that waited for a kernel which is gone. */
static bool job_is_stranded(const struct bench *b)
{
    return b->admitted && !b->running && !b->lent && !b->lease;
}

static struct chat_op *pop(struct chat *c)
{
    struct bench *b = &c->bench;
    struct chat_op *op = b->ops;
    b->ops = op->next;
    if (!b->ops)
        b->ops_end = &b->ops;
    return op;
}

/* Tells whoever asked, and frees it. */
static void end_op(struct chat_op *op, const struct file_piece *piece, const json_t *files, const struct err *err)
{
    struct chat *c = op->chat;
    if (!op->dropped && op->listed)
        op->listed(files, err, op->arg);
    else if (!op->dropped)
        op->done(piece, err, op->arg);
    free(op);
    chat_unref(c);
}

static void settle(struct chat_op *op, const struct file_piece *piece, const json_t *files, const struct err *err)
{
    struct chat *c = chat_ref(op->chat);
    struct bench *b = &c->bench;
    b->op_busy = false;
    c->used_ms = clock_now_ms();
    (void)pop(c);
    if (err && !lease_alive(b->lease))
        bench_lose_kernel(c, "its sandbox ended while its files were looked at");
    end_op(op, piece, files, err);
    bench_go_on(c);
    bench_files_wake(c);
    chat_unref(c);
}

static void on_piece(struct lease *lease, const struct file_piece *piece, const struct err *err, void *arg)
{
    (void)lease;
    settle(arg, piece, NULL, err);
}

static void on_list(struct lease *lease, struct run_result *result, const struct err *err, void *arg)
{
    (void)lease;
    struct err why = ERR_INIT;
    const json_t *files = result ? json_object_get(result->body, "files") : NULL;
    if (err)
        why = *err;
    else if (result->verdict != VERDICT_OK)
        err_set(&why, ERR_UNAVAILABLE, "the kernel could not list its files");
    settle(arg, NULL, why.code ? NULL : files, why.code ? &why : NULL);
    if (result)
        run_result_finish(result);
}

static int begin(struct chat_op *op, struct err *err)
{
    struct lease *lease = op->chat->bench.lease;
    if (op->kind == OP_LIST)
        return lease_list_files(lease, on_list, op, err);
    if (op->kind == OP_READ)
        return lease_read_file(lease, op->path, op->offset, op->max_bytes, on_piece, op, err);
    return lease_write_file(lease, op->path, op->data, op->len, op->append, on_piece, op, err);
}

static void pump(void *arg)
{
    struct chat *c = arg;
    struct bench *b = &c->bench;
    if (c->agent->closing)
        return;
    b->pumping = false;
    if (job_is_stranded(b))
        bench_go_on(c);
    while (b->ops && !b->op_busy) {
        struct chat_op *op = b->ops;
        struct err err = ERR_INIT;
        if (op->dropped) {
            end_op(pop(c), NULL, NULL, NULL);
            continue;
        }
        if (op->epoch == b->epoch && bench_is_hot(c)) {
            if (b->running == b->lease)
                break; /* a cell runs; its end comes back here */
            b->op_busy = true;
            if (begin(op, &err) == 0)
                break;
            b->op_busy = false;
        } else {
            err_set(&err, ERR_NOT_FOUND, "there is no sandbox whose files could be looked at");
        }
        end_op(pop(c), NULL, NULL, &err);
    }
    chat_unref(c);
}

void bench_files_wake(struct chat *c)
{
    struct bench *b = &c->bench;
    struct err err = ERR_INIT;
    if (b->pumping || c->agent->closing || (!b->ops && !job_is_stranded(b)))
        return;
    if (loop_defer(c->agent->env.loop, pump, c, &err) == 0) {
        b->pumping = true;
        chat_ref(c);
    }
}

static int submit(struct chat *c, const struct chat_op *like, struct chat_op **ret, struct err *err)
{
    struct chat_op *op = malloc(sizeof(*op));
    if (!op)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *op = *like;
    op->chat = chat_ref(c);
    op->epoch = c->bench.epoch;
    *c->bench.ops_end = op;
    c->bench.ops_end = &op->next;
    if (ret)
        *ret = op;
    bench_files_wake(c);
    return 0;
}

int chat_read_file(struct chat *c, const char *path, int64_t offset, chat_file_fn done, void *arg, struct chat_op **ret, struct err *err)
{
    struct chat_op op = { .kind = OP_READ, .offset = offset, .max_bytes = FILE_PIECE_MAX, .done = done, .arg = arg };
    int r = workspace_path(path, op.path, err);
    return r < 0 ? r : submit(c, &op, ret, err);
}

int chat_list_files(struct chat *c, chat_list_fn done, void *arg, struct chat_op **ret, struct err *err)
{
    struct chat_op op = { .kind = OP_LIST, .listed = done, .arg = arg };
    return submit(c, &op, ret, err);
}

void chat_op_drop(struct chat_op *op)
{
    if (op)
        op->dropped = true; /* its place in the queue frees it */
}

/* ---- carrying new files in ---- */

struct waiter {
    struct waiter *next;
    void (*done)(void *arg);
    void *arg;
};

/* One file after the other: a name that is free is looked for, then the file is read by the worker pool and written piece by piece. */
struct carry {
    struct chat *chat; /* a reference; NULL once nobody needs it any more */
    unsigned epoch;
    json_t *todo; /* [{path, name}] */
    size_t at;
    unsigned tried;
    char where[CHAT_PLACE_SIZE];
    int fd;
    int64_t offset;
    bool working; /* the worker has it */
    bool last;
    size_t len;
    struct err err;
    struct waiter *waiters;
    char data[FILE_PIECE_MAX];
};

static void carry_next(struct carry *k);
static void read_piece(struct carry *k);

static void carry_free(struct carry *k)
{
    while (k->waiters) {
        struct waiter *w = k->waiters;
        k->waiters = w->next;
        free(w);
    }
    if (k->fd >= 0)
        close(k->fd);
    json_decref(k->todo);
    free(k);
}

static void carry_end(struct carry *k)
{
    struct chat *c = k->chat;
    c->bench.carry = NULL;
    for (struct waiter *w = k->waiters; w; w = w->next)
        w->done(w->arg);
    carry_free(k);
    bench_go_on(c);
    chat_unref(c);
}

/* This one is in, or it cannot be and the reason is kept. */
static void carried(struct carry *k, const struct err *err)
{
    struct bench *b = &k->chat->bench;
    if (k->fd >= 0)
        close(TAKE_FD(k->fd));
    if (k->epoch == b->epoch) {
        const char *path = json_string_value(json_object_get(json_array_get(k->todo, k->at), "path"));
        json_t *entry = err ? json_pack("{s:o}", "note", json_sprintf("Python, which keeps its variables, cannot have this file: %s", err->message))
                            : json_pack("{s:s}", "where", k->where);
        if (!b->carried)
            b->carried = json_object();
        json_object_set_new(b->carried, path, entry);
    }
    k->at++;
    carry_next(k);
}

/* A file of an earlier time that was carried there, and that the chat no longer has. */
static bool is_ours(const struct chat *c, const char *where)
{
    const char *path;
    json_t *entry;
    json_object_foreach(c->bench.carried, path, entry)
    {
        bool has = false;
        for (size_t i = 0; i < c->data.n_files; i++)
            has = has || str_eq(c->data.files[i].path, path);
        if (!has && str_eq(json_string_value(json_object_get(entry, "where")), where))
            return true;
    }
    return false;
}

static void on_emptied(const struct file_piece *piece, const struct err *err, void *arg)
{
    struct carry *k = arg;
    (void)piece, (void)err;
    carried(k, &k->err);
}

static void on_written(const struct file_piece *piece, const struct err *err, void *arg)
{
    struct carry *k = arg;
    struct err ignored = ERR_INIT;
    (void)piece;
    if (err && k->offset > 0 && k->epoch == k->chat->bench.epoch) { /* half a file would be worse than an empty one */
        k->err = *err;
        if (bench_write_file(k->chat, k->where, "", 0, false, on_emptied, k, &ignored) == 0)
            return;
    }
    if (err || k->last) {
        carried(k, err);
        return;
    }
    k->offset += (int64_t)k->len;
    read_piece(k);
}

static void read_work(void *arg)
{
    struct carry *k = arg;
    const char *path = json_string_value(json_object_get(json_array_get(k->todo, k->at), "path"));
    if (k->fd < 0)
        k->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    k->len = 0;
    k->last = false;
    while (k->fd >= 0 && k->len < sizeof(k->data) && !k->last) {
        ssize_t n = pread(k->fd, k->data + k->len, sizeof(k->data) - k->len, k->offset + (int64_t)k->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        k->last = n == 0;
        k->len += (size_t)n;
    }
    if (k->fd < 0 || (k->len < sizeof(k->data) && !k->last))
        err_errno(&k->err, ERR_IO, errno, "reading it");
}

static void read_done(void *arg)
{
    struct carry *k = arg;
    k->working = false;
    if (!k->chat) {
        carry_free(k);
        return;
    }
    int r = k->err.code ? -(int)k->err.code : 0;
    if (k->epoch != k->chat->bench.epoch || (r == 0 && k->len == 0 && k->offset > 0)) { /* it ended with the piece before */
        carried(k, NULL);
        return;
    }
    if (r == 0)
        r = bench_write_file(k->chat, k->where, k->data, k->len, k->offset > 0, on_written, k, &k->err);
    if (r < 0)
        carried(k, &k->err);
}

static void read_piece(struct carry *k)
{
    k->err = (struct err)ERR_INIT;
    k->working = true;
    if (loop_work(k->chat->agent->env.loop, read_work, read_done, k, &k->err) < 0) {
        k->working = false;
        carried(k, &k->err);
    }
}

static void try_name(struct carry *k);

static void on_probed(const struct file_piece *piece, const struct err *err, void *arg)
{
    struct carry *k = arg;
    struct err why = ERR_INIT;
    bool taken = piece || err->code == ERR_VALIDATION; /* code's own, or a directory or a link */
    if (err && err->code != ERR_NOT_FOUND && !taken) {
        carried(k, err);
    } else if (!taken || is_ours(k->chat, k->where)) {
        k->offset = 0;
        read_piece(k);
    } else if (k->tried < NAMES_TRIED) {
        try_name(k);
    } else {
        err_set(&why, ERR_CONFLICT, "code has files of that name in /workspace already");
        carried(k, &why);
    }
}

static void try_name(struct carry *k)
{
    const char *name = json_string_value(json_object_get(json_array_get(k->todo, k->at), "name"));
    const char *dot = strrchr(name, '.');
    int stem = dot && dot != name ? (int)(dot - name) : (int)strlen(name);
    struct err err = ERR_INIT;
    if (++k->tried == 1)
        snprintf(k->where, sizeof(k->where), "/workspace/%s", name);
    else
        snprintf(k->where, sizeof(k->where), "/workspace/%.*s_%u%s", stem, name, k->tried, name + stem);
    struct chat_op op = { .kind = OP_READ, .max_bytes = 1, .done = on_probed, .arg = k };
    int r = workspace_path(k->where, op.path, &err);
    if (r == 0)
        r = submit(k->chat, &op, NULL, &err);
    if (r < 0)
        carried(k, &err);
}

static void carry_next(struct carry *k)
{
    k->tried = 0;
    if (k->at < json_array_size(k->todo) && k->epoch == k->chat->bench.epoch)
        try_name(k);
    else
        carry_end(k);
}

int bench_write_file(struct chat *c, const char *path, const void *data, size_t len, bool append, chat_file_fn done, void *arg,
                     struct err *err)
{
    struct chat_op op = { .kind = OP_WRITE, .data = data, .len = len, .append = append, .done = done, .arg = arg };
    int r = workspace_path(path, op.path, err);
    return r < 0 ? r : submit(c, &op, NULL, err);
}

void bench_carry(struct chat *c, const struct sandbox_file *files, size_t n)
{
    struct carry *k = c->bench.carry;
    bool fresh = !k;
    if (n == 0 || (fresh && !(k = malloc(sizeof(*k)))))
        return;
    if (fresh) {
        memset(k, 0, offsetof(struct carry, data));
        k->fd = -1;
        k->chat = chat_ref(c);
        k->epoch = c->bench.epoch;
        k->todo = json_array();
        c->bench.carry = k;
    }
    for (size_t i = 0; i < n; i++)
        json_array_append_new(k->todo, json_pack("{s:s, s:s}", "path", files[i].path, "name", files[i].name));
    if (fresh)
        carry_next(k);
}

void bench_when_carried(struct chat *c, void (*done)(void *arg), void *arg)
{
    struct carry *k = c->bench.carry;
    struct waiter *w = k ? malloc(sizeof(*w)) : NULL;
    struct err err = ERR_INIT;
    if (w) {
        *w = (struct waiter){ .next = k->waiters, .done = done, .arg = arg };
        k->waiters = w;
    } else if (loop_defer(c->agent->env.loop, done, arg, &err) < 0) {
        done(arg);
    }
}

/* ---- the end ---- */

void bench_files_finish(struct chat *c)
{
    struct bench *b = &c->bench;
    struct carry *k = TAKE_PTR(b->carry);
    while (b->ops)
        free(pop(c));
    b->op_busy = false;
    if (k && k->working)
        k->chat = NULL;
    else if (k)
        carry_free(k);
}
