/* Files of a leased sandbox, in the event loop: each piece is a request of its own, and its answer is checked before anybody sees it. */

#include "sandbox/executor_impl.h"

static void on_piece(struct lease *l, struct run_result *result, const struct err *err, void *arg)
{
    (void)arg;
    lease_file_fn done = l->file_done;
    void *done_arg = l->file_arg;
    struct err why = ERR_INIT;
    struct file_piece piece;
    auto_buf struct buf data = BUF_INIT(2 * FILE_PIECE_MAX);
    int r = 0;
    if (!result)
        why = *err;
    else
        r = workspace_answer(&l->file_op, result, &data, &piece, &why);
    if (result)
        run_result_finish(result);
    if (why.code == ERR_PROTOCOL)
        l->spoilt = true;
    bool good = result && r == 0;
    done(l, good ? &piece : NULL, good ? NULL : &why, done_arg); /* may release the lease */
}

static int begin(struct lease *l, json_t *request, lease_done_fn done, void *arg, struct err *err)
{
    int r = sandbox_begin_json(l->sandbox, request, WORKSPACE_TIMEOUT_MS, 65536, NULL, err);
    if (r == 0)
        r = executor_running(l, done, arg, err);
    l->is_file_op = true;
    return r;
}

static int begin_piece(struct lease *l, json_t *request, const struct workspace_op *op, lease_file_fn done, void *arg,
                       struct err *err)
{
    if (!request)
        return -(int)err->code;
    l->file_op = *op;
    l->file_done = done;
    l->file_arg = arg;
    return begin(l, request, on_piece, NULL, err);
}

static int check_idle(const struct lease *l, struct err *err)
{
    return l->state == LEASE_IDLE ? 0 : err_set(err, ERR_CONFLICT, "this sandbox is busy with another run");
}

int lease_list_files(struct lease *l, lease_done_fn done, void *arg, struct err *err)
{
    int r = check_idle(l, err);
    if (r < 0)
        return r;
    auto_json json_t *request = workspace_list_request();
    return request ? begin(l, request, done, arg, err) : err_set(err, ERR_NO_MEMORY, "out of memory");
}

int lease_read_file(struct lease *l, const char *path, int64_t offset, int64_t max_bytes, lease_file_fn done, void *arg,
                    struct err *err)
{
    struct workspace_op op;
    int r = check_idle(l, err);
    if (r < 0)
        return r;
    auto_json json_t *request = workspace_read_request(path, offset, max_bytes, &op, err);
    return begin_piece(l, request, &op, done, arg, err);
}

int lease_write_file(struct lease *l, const char *path, const void *data, size_t len, bool append, lease_file_fn done, void *arg,
                     struct err *err)
{
    struct workspace_op op;
    int r = check_idle(l, err);
    if (r < 0)
        return r;
    l->spoilt = true; /* it holds something of its owner's now: not for the next lease */
    auto_json json_t *request = workspace_write_request(path, data, len, append, &op, err);
    return begin_piece(l, request, &op, done, arg, err);
}
