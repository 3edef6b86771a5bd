/*
 * Fuzzes messages of the Debug Adapter Protocol: whatever a client sends, and however it is cut
 * into pieces, the same requests come out of it, and the same error ends it.
 *
 * Input: a byte that says how long the pieces are, then the bytes of the client.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "dap/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How many requests were taken; *ret_code is how it ended. */
static size_t take(const uint8_t *data, size_t size, size_t piece, int *ret_code)
{
    auto_buf struct buf in = BUF_INIT(DAP_MESSAGE_MAX + DAP_HEAD_MAX + (64u << 10));
    struct err err = ERR_INIT;
    size_t n = 0;
    *ret_code = 0;
    for (size_t at = 0; at < size && *ret_code >= 0; at += piece) {
        if (buf_append(&in, data + at, MIN_OF(piece, size - at), &err) < 0)
            abort();
        for (;;) {
            auto_json json_t *request = NULL;
            size_t before = in.len;
            *ret_code = dap_take_request(&in, &request, &err);
            if (*ret_code != 1)
                break;
            if (!json_is_string(json_object_get(request, "command")) || in.len >= before)
                abort();
            n++;
        }
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int whole, cut;
    if (size < 1 || size > 4096)
        return 0;
    size_t n = take(data + 1, size - 1, size, &whole);
    if (take(data + 1, size - 1, 1 + data[0] % 64, &cut) != n || whole != cut)
        abort();
    return 0;
}
