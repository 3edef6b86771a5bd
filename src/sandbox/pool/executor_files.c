/*
 * Files of a leased sandbox, in the event loop: each piece is a request of its own, and its answer
 * is checked before anybody sees it.
 */

#include "sandbox/pool/executor_impl.h"

static void on_piece(struct lease *l, struct run_result *result, const struct err *err, void *arg)
{
    (void)arg;
    struct run_result own = result ? *result : (struct run_result){ 0 };
    struct err why = ERR_INIT;
    struct file_piece piece;
    bool good = result && workspace_answer(&l->file_op, &own, &piece, &why) == 0;
    if (!result)
        why = *err;
    if (why.code == ERR_PROTOCOL)
        l->spoilt = true;
    /* may release the lease */
    l->file_done(l, good ? &piece : NULL, good ? NULL : &why, l->file_arg);
    run_result_finish(&own);
}

/* Takes the operation's request over. */
static int begin(struct lease *l, struct workspace_op *op, lease_file_fn done, void *arg,
                 struct err *err)
{
    int r = workspace_begin(l->sandbox, op, executor_ran, l, err);
    json_decref(op->request);
    if (r < 0)
        return r;
    l->file_op = (struct workspace_op){ .write = op->write,
                                        .offset = op->offset,
                                        .max_bytes = op->max_bytes };
    l->file_done = done;
    l->file_arg = arg;
    executor_running(l, on_piece, NULL, true);
    return 0;
}

static int list(struct lease *l, bool variables, lease_done_fn done, void *arg, struct err *err)
{
    int r = lease_check_idle(l, err);
    if (r == 0)
        r = workspace_begin_list(l->sandbox, variables, executor_ran, l, err);
    if (r == 0)
        executor_running(l, done, arg, true);
    return r;
}

int lease_list_files(struct lease *l, lease_done_fn done, void *arg, struct err *err)
{
    return list(l, false, done, arg, err);
}

int lease_inspect(struct lease *l, lease_done_fn done, void *arg, struct err *err)
{
    return list(l, true, done, arg, err);
}

int lease_read_file(struct lease *l, const char *path, int64_t offset, int64_t max_bytes,
                    lease_file_fn done, void *arg, struct err *err)
{
    struct workspace_op op;
    int r = lease_check_idle(l, err);
    if (r == 0)
        r = workspace_read_op(path, offset, max_bytes, &op, err);
    return r < 0 ? r : begin(l, &op, done, arg, err);
}

int lease_write_file(struct lease *l, const char *path, const void *data, size_t len, bool append,
                     lease_file_fn done, void *arg, struct err *err)
{
    struct workspace_op op;
    int r = lease_check_idle(l, err);
    if (r == 0)
        r = workspace_write_op(path, data, len, append, &op, err);
    if (r < 0)
        return r;
    l->spoilt = true; /* it holds something of its owner's now: not for the next lease */
    return begin(l, &op, done, arg, err);
}

int lease_remove_file(struct lease *l, const char *path, lease_file_fn done, void *arg,
                      struct err *err)
{
    struct workspace_op op;
    int r = lease_check_idle(l, err);
    if (r == 0)
        r = workspace_remove_op(path, &op, err);
    return r < 0 ? r : begin(l, &op, done, arg, err);
}
