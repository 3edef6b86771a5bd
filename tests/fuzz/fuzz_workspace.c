/*
 * Fuzzes what a kernel says about files in /workspace: a list or a piece is refused, or holds to
 * what callers rely on. Paths that are taken lead nowhere but down.
 *
 * Input: a byte for the offset, one for the greatest length of the piece, then the body as JSON.
 * The bytes are tried as a path, too.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "sandbox/workspace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Said in another way than the code that is tested does. */
static void check_path(const char *path, size_t len)
{
    if (len == 0 || len > 512 || strlen(path) != len || path[0] == '/' || path[len - 1] == '/' ||
        strstr(path, "//"))
        abort();
    char padded[600];
    snprintf(padded, sizeof(padded), "/%s/", path);
    if (strstr(padded, "/../") || strstr(padded, "/./") || strpbrk(path, "\n\r\t\x1b\x7f"))
        abort();
}

static void try_files(const json_t *body)
{
    size_t i;
    json_t *f;
    if (!workspace_files_ok(body))
        return;
    const json_t *files = json_object_get(body, "files");
    if (json_array_size(files) > 200)
        abort();
    json_array_foreach(files, i, f) {
        const json_t *path = json_object_get(f, "path");
        check_path(json_string_value(path), json_string_length(path));
        if (!json_is_integer(json_object_get(f, "size")) ||
            json_integer_value(json_object_get(f, "size")) < 0)
            abort();
    }
}

static void try_answer(json_t *body, int64_t offset, int64_t max_bytes, enum verdict verdict,
                       bool write)
{
    struct err err = ERR_INIT;
    struct file_piece piece;
    struct workspace_op op = { .write = write, .offset = offset, .max_bytes = max_bytes };
    struct run_result result = { .verdict = verdict,
                                 .body = json_incref(body),
                                 .bytes = BUF_INIT(300) };
    static const char filler[300];
    json_int_t n = json_integer_value(json_object_get(body, "bytes"));
    if (n > 0 && n < 300 && buf_append(&result.bytes, filler, (size_t)n, NULL) < 0)
        abort();
    int r = workspace_answer(&op, &result, &piece, &err);

    if (r < 0 && (err.code == ERR_NONE || !err.message[0]))
        abort();
    if (r == 0 && (verdict != VERDICT_OK || piece.size < 0 || (int64_t)piece.len > max_bytes ||
                   (piece.len == 0 && !piece.end)))
        abort();
    if (r == 0 && !write && (json_int_t)piece.len != n)
        abort();
    run_result_finish(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    auto_json json_t *body = NULL;
    char clean[WORKSPACE_PATH_MAX + 1];

    if (size < 2)
        return 0;
    auto_free char *text = malloc(size - 1);
    if (text) {
        memcpy(text, data + 2, size - 2);
        text[size - 2] = '\0';
        if (workspace_path(text, clean, &err) == 0)
            check_path(clean, strlen(clean));
    }
    if (json_parse((const char *)data + 2, size - 2, &body, &err) < 0)
        return 0;
    int64_t offset = data[0] == 255 ? INT64_MAX : data[0];
    try_files(body);
    try_answer(body, offset, data[1] + 1, VERDICT_OK, false);
    try_answer(body, offset, data[1] + 1, VERDICT_OK, true);
    try_answer(body, offset, data[1] + 1, VERDICT_ERROR, false);
    return 0;
}
