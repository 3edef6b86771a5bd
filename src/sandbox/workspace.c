/*
 * riddle's side of files in /workspace. User code can make its kernel say anything, so every member
 * of an answer is checked before it is passed on: a path cannot climb, a piece is no longer than
 * was asked for, and one that brings nothing is the last.
 */

#include "sandbox/workspace.h"

#include <string.h>
#include "base/str.h"
#include "sandbox/sandbox_impl.h"

/* ---- what a kernel lists ---- */

bool workspace_files_ok(const json_t *body)
{
    const json_t *files = json_object_get(body, "files"),
                 *cut = json_object_get(body, "files_truncated");
    if (cut && !json_is_boolean(cut))
        return false;
    if (!files)
        return true;
    if (!json_is_array(files) || json_array_size(files) > WORKSPACE_FILES_MAX)
        return false;
    const char *before = NULL;
    size_t i;
    json_t *f;
    json_array_foreach(files, i, f) {
        const json_t *path = json_object_get(f, "path"), *size = json_object_get(f, "size"),
                     *modified = json_object_get(f, "modified");
        if (json_object_size(f) != 3 || !json_is_string(path) || !json_is_integer(size) ||
            !json_is_integer(modified) || json_integer_value(size) < 0 ||
            !workspace_path_ok(json_string_value(path), json_string_length(path)))
            return false;
        if (before && strcmp(before, json_string_value(path)) >= 0)
            return false;
        before = json_string_value(path);
    }
    return true;
}

/* ---- requests ---- */

int workspace_read_op(const char *path, int64_t offset, int64_t max_bytes, struct workspace_op *ret,
                      struct err *err)
{
    char clean[WORKSPACE_PATH_MAX + 1];
    int r = workspace_path(path, clean, err);
    if (r < 0)
        return r;
    if (offset < 0 || max_bytes < 1)
        return err_set(err, ERR_VALIDATION,
                       "a piece of a file begins at 0 or later and has at least one byte");
    struct workspace_op op = { .offset = offset,
                               .max_bytes = MIN_OF(max_bytes, (int64_t)FILE_PIECE_MAX) };
    op.request = json_pack("{s:s, s:I, s:I}", "path", clean, "offset", (json_int_t)offset,
                           "max_bytes", (json_int_t)op.max_bytes);
    if (!op.request)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *ret = op;
    return 0;
}

int workspace_write_op(const char *path, const void *data, size_t len, bool append,
                       struct workspace_op *ret, struct err *err)
{
    char clean[WORKSPACE_PATH_MAX + 1];
    int r = workspace_path(path, clean, err);
    if (r < 0)
        return r;
    if (len > FILE_PIECE_MAX)
        return err_set(err, ERR_TOO_LARGE,
                       "a piece of %zu bytes; a file is written in pieces of at most %d", len,
                       FILE_PIECE_MAX);
    struct workspace_op op = { .write = true, .data = data, .len = len };
    op.request = json_pack("{s:s, s:b}", "path", clean, "append", append);
    if (!op.request)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *ret = op;
    return 0;
}

int workspace_remove_op(const char *path, struct workspace_op *ret, struct err *err)
{
    int r = workspace_write_op(path, "", 0, false, ret, err);
    if (r == 0)
        json_object_set_new(ret->request, "remove", json_true());
    return r;
}

int workspace_begin(struct sandbox *sb, const struct workspace_op *op, sandbox_done_fn done,
                    void *arg, struct err *err)
{
    struct sandbox_request req = { .type = op->write ? WIRE_WRITE : WIRE_READ,
                                   .body = op->request,
                                   .bytes = op->data,
                                   .n_bytes = op->len,
                                   .max_bytes_back = (size_t)op->max_bytes,
                                   .timeout_ms = WORKSPACE_TIMEOUT_MS,
                                   .max_output_bytes = 65536 };
    return sandbox_request(sb, &req, NULL, done, arg, err);
}

int workspace_begin_list(struct sandbox *sb, bool variables, sandbox_done_fn done, void *arg,
                         struct err *err)
{
    auto_json json_t *body = variables ? json_pack("{s:b}", "variables", 1) : NULL;
    struct sandbox_request req = { .type = WIRE_LIST,
                                   .body = body,
                                   .timeout_ms = WORKSPACE_TIMEOUT_MS,
                                   .max_output_bytes = 65536 };
    return sandbox_request(sb, &req, NULL, done, arg, err);
}

/* ---- answers ---- */

static int answer_failure(const struct run_result *result, struct err *err)
{
    static const enum err_code known[] = { ERR_NOT_FOUND, ERR_VALIDATION, ERR_TOO_LARGE,
                                           ERR_UNAVAILABLE };
    const json_t *error = json_object_get(result->body, "error");
    const json_t *message = json_object_get(error, "message");
    char shown[ERR_MESSAGE_MAX] = "the kernel gave no reason";
    if (json_is_string(message))
        str_show(json_string_value(message), json_string_length(message), shown, sizeof(shown));
    enum err_code code = ERR_IO;
    if (result->verdict == VERDICT_TIMEOUT)
        return err_set(err, ERR_TIMEOUT,
                       "the kernel did not answer within %d s; its variables are lost",
                       WORKSPACE_TIMEOUT_MS / 1000);
    if (result->verdict == VERDICT_MEMORY)
        code = ERR_TOO_LARGE;
    else if (result->state_lost)
        code = ERR_UNAVAILABLE;
    else if (result->verdict != VERDICT_ERROR)
        code = ERR_CANCELLED;
    else
        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
            if (str_eq(json_string_value(json_object_get(error, "type")), err_name(known[i])))
                code = known[i];
    return err_set(err, code, "%s", shown);
}

int workspace_answer(const struct workspace_op *op, const struct run_result *result,
                     struct file_piece *ret, struct err *err)
{
    if (result->verdict != VERDICT_OK)
        return answer_failure(result, err);
    const json_t *size = json_object_get(result->body, "size"),
                 *bytes = json_object_get(result->body, "bytes");
    struct file_piece piece = { .size = json_integer_value(size), .end = true };
    bool good = json_is_integer(size) && piece.size >= 0;
    if (!op->write) {
        piece.data = buf_cstr(&result->bytes);
        piece.len = result->bytes.len;
        /* Bytes that came for something else, or were too many to be taken, do not add up. */
        good = good && json_is_integer(bytes) &&
               json_integer_value(bytes) == (json_int_t)piece.len &&
               (int64_t)piece.len <= op->max_bytes;
        /* Worked out, not believed: whoever reads piece by piece must come to an end. */
        piece.end = piece.len == 0 || op->offset >= piece.size - (int64_t)piece.len;
    }
    if (!good)
        return err_set(err, ERR_PROTOCOL, "the kernel's answer about a file is of the wrong shape");
    *ret = piece;
    return 0;
}

/* ---- files of a specification ---- */

int sandbox_files_check(const struct sandbox_spec *spec, struct err *err)
{
    char shown[STR_SHOWN_SIZE];
    for (size_t i = 0; i < spec->n_files; i++) {
        const char *name = spec->files[i].name;
        size_t len = strlen(name);
        str_show(name, len, shown, sizeof(shown));
        if (spec->files[i].raw &&
            (len == 0 || len > WORKSPACE_NAME_MAX || strchr(name, '/') || str_eq(name, ".") ||
             str_eq(name, "..") || str_eq(name, ".tables") || !str_is_utf8(name, len)))
            return err_set(err, ERR_VALIDATION, "'%s' cannot be the name of a file in /data",
                           shown);
        for (size_t k = 0; k < i && spec->kind == RUN_PYTHON; k++)
            if (str_eq(spec->files[k].name, name))
                return err_set(err, ERR_VALIDATION,
                               "two files are named '%s': give one of them another name", shown);
    }
    return 0;
}
