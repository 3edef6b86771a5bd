/*
 * The whole result of a statement as a file, a piece at a time. Each piece is a request of its own,
 * and its answer is checked.
 */

#include <string.h>
#include "base/str.h"
#include "sandbox/pool/executor_impl.h"

static int send_request(struct lease *l, const char *sql, struct err *err)
{
    auto_json json_t *body = json_pack("{s:s?, s:s, s:b, s:b}", "sql", sql, "format",
                                       l->export_format, "plain", l->is_plain, "refused",
                                       l->is_refused);
    if (!body)
        return err_set(err, ERR_VALIDATION, "the SQL text is not valid UTF-8");
    struct sandbox_request req = { .type = WIRE_EXPORT,
                                   .body = body,
                                   .max_bytes_back = FILE_PIECE_MAX,
                                   .timeout_ms = l->export_timeout_ms,
                                   .max_output_bytes = 65536 };
    return sandbox_request(l->sandbox, &req, NULL, executor_ran, l, err);
}

int lease_begin_export(struct lease *l, struct err *err)
{
    return send_request(l, l->pending.code, err);
}

/* Why there is no piece. */
static int describe(const struct lease *l, const struct run_result *result, struct err *err)
{
    const json_t *message = json_object_get(json_object_get(result->body, "error"), "message");
    char shown[ERR_MESSAGE_MAX] = "the kernel gave no reason";
    if (json_is_string(message))
        str_show(json_string_value(message), json_string_length(message), shown, sizeof(shown));
    switch (result->verdict) {
    case VERDICT_ERROR:
    case VERDICT_POLICY:
        return err_set(err, ERR_VALIDATION, "%s", shown);
    case VERDICT_TIMEOUT:
        return err_set(err, ERR_TIMEOUT, "the export took longer than %lld s",
                       (long long)(l->export_timeout_ms / 1000));
    case VERDICT_MEMORY:
        return err_set(err, ERR_TOO_LARGE, "the export needs more memory than a sandbox has: %s",
                       shown);
    default:
        return err_set(err, ERR_UNAVAILABLE, "%s", shown);
    }
}

static void on_piece(struct lease *l, struct run_result *result, const struct err *err, void *arg)
{
    (void)arg;
    struct run_result own = result ? *result : (struct run_result){ 0 };
    struct err why = ERR_INIT;
    struct file_piece piece = { .data = buf_cstr(&own.bytes), .len = own.bytes.len };
    if (!result)
        why = *err;
    else if (own.verdict != VERDICT_OK)
        (void)describe(l, &own, &why);
    piece.size = json_integer_value(json_object_get(own.body, "size"));
    piece.end = piece.len == 0;
    l->file_done(l, why.code ? NULL : &piece, why.code ? &why : NULL,
                 l->file_arg); /* may release the lease */
    run_result_finish(&own);
}

int lease_export(struct lease *l, const struct lease_export *export, lease_file_fn done, void *arg,
                 struct err *err)
{
    struct pending_run p = { .is_export = true };
    l->export_format = export->format;
    l->is_plain = export->plain;
    l->is_refused = export->refused;
    l->export_timeout_ms = export->timeout_ms;
    l->file_done = done;
    l->file_arg = arg;
    int r = lease_keep_request(l, &p, export->sql, strlen(export->sql), on_piece, NULL, err);
    return r < 0 ? r : lease_begin(l, err);
}

int lease_export_next(struct lease *l, struct err *err)
{
    int r = lease_check_idle(l, err);
    if (r == 0)
        r = send_request(l, NULL, err);
    if (r == 0)
        executor_running(l, on_piece, NULL, true);
    return r;
}
