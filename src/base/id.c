/*
 * Random identifiers. Every call asks the kernel: there is no state that a forked process could
 * share with its parent.
 */

#include "base/id.h"

#include <string.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include "base/macros.h"

static void random_bytes(unsigned char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            abort();
        }
        p += n;
        len -= (size_t)n;
    }
}

static char hex_digit(unsigned v)
{
    return "0123456789abcdef"[v & 15];
}

void id_uuid4(char ret[ID_UUID_SIZE])
{
    unsigned char b[16];
    char *p = ret;

    random_bytes(b, sizeof(b));
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40); /* version 4 */
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80); /* variant of RFC 4122 */
    for (size_t i = 0; i < sizeof(b); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        *p++ = hex_digit(b[i] >> 4);
        *p++ = hex_digit(b[i]);
    }
    *p = '\0';
}

void id_hex(char *ret, size_t digits)
{
    unsigned char b[32];

    for (size_t done = 0; done < digits;) {
        size_t n = MIN_OF(digits - done, 2 * sizeof(b));

        random_bytes(b, (n + 1) / 2);
        for (size_t i = 0; i < n; i++)
            ret[done++] = hex_digit(i % 2 ? b[i / 2] : b[i / 2] >> 4);
    }
    ret[digits] = '\0';
}

int thread_id_check(const char *id, struct err *err)
{
    size_t n = strlen(id);
    if (n == 0 || n > THREAD_ID_MAX)
        return err_set(err, ERR_VALIDATION, "the id of a thread or session has 1 to %d characters",
                       THREAD_ID_MAX);
    for (const char *p = id; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
              strchr("-_.:", *p)))
            return err_set(err, ERR_VALIDATION,
                           "the id of a thread or session has only letters, digits and - _ . :");
    return 0;
}
