/*
 * SHA-256 by OpenSSL's libcrypto, loaded when the first thing is hashed: a zygote never does, and
 * `riddle run` starts its zygote before it does.
 */

#include "base/hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>
#include "base/library.h"
#include "base/macros.h"
#include "gen/platform.h"

#define CHUNK_BYTES (1u << 20)

#define CRYPTO_FUNCTIONS(X)                                                                        \
    X(EVP_DigestFinal_ex)                                                                          \
    X(EVP_DigestInit_ex)                                                                           \
    X(EVP_DigestUpdate)                                                                            \
    X(EVP_MD_CTX_free)                                                                             \
    X(EVP_MD_CTX_new)                                                                              \
    X(EVP_sha256)

static struct {
#define X(name) __typeof__(name) *name;
    CRYPTO_FUNCTIONS(X)
#undef X
    struct err why; /* it could not be loaded */
} crypto;

static void load_crypto(void)
{
    static const struct library_symbol symbols[] = {
#define X(name) { #name, &crypto.name },
        CRYPTO_FUNCTIONS(X)
#undef X
    };
    (void)library_load(PLATFORM_CRYPTO_SONAME, PLATFORM_CRYPTO_PACKAGE, symbols,
                       ARRAY_SIZE(symbols), &crypto.why);
}

int hash_begin(struct hash *h, struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    h->state = NULL;
    (void)pthread_once(&once, load_crypto);
    if (crypto.why.code != ERR_NONE)
        return err_set(err, crypto.why.code, "%s", crypto.why.message);
    h->state = crypto.EVP_MD_CTX_new();
    if (h->state && crypto.EVP_DigestInit_ex(h->state, crypto.EVP_sha256(), NULL) == 1)
        return 0;
    hash_drop(h);
    return err_set(err, ERR_NO_MEMORY, "out of memory for a hash");
}

int hash_update(struct hash *h, const void *data, size_t len, struct err *err)
{
    return crypto.EVP_DigestUpdate(h->state, data, len) == 1 ?
               0 :
               err_set(err, ERR_INTERNAL, "SHA-256 failed");
}

int hash_end(struct hash *h, char ret_hex[HASH_HEX_SIZE], struct err *err)
{
    unsigned char digest[32];
    bool good = crypto.EVP_DigestFinal_ex(h->state, digest, NULL) == 1;
    hash_drop(h);
    if (!good)
        return err_set(err, ERR_INTERNAL, "SHA-256 failed");
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

void hash_drop(struct hash *h)
{
    if (h->state)
        crypto.EVP_MD_CTX_free(h->state);
    h->state = NULL;
}

int hash_bytes(const void *data, size_t len, char ret_hex[HASH_HEX_SIZE], struct err *err)
{
    struct hash h;
    int r = hash_begin(&h, err);
    if (r == 0)
        r = hash_update(&h, data, len, err);
    if (r == 0)
        return hash_end(&h, ret_hex, err);
    hash_drop(&h);
    return r;
}

int hash_fd(int fd, void (*on_read)(void *arg, int64_t bytes), void *arg,
            char ret_hex[HASH_HEX_SIZE], struct err *err)
{
    auto_free unsigned char *chunk = malloc(CHUNK_BYTES);
    struct hash h = { NULL };
    int64_t total = 0;
    int r = chunk ? hash_begin(&h, err) : err_set(err, ERR_NO_MEMORY, "out of memory for a hash");
    while (r == 0) {
        ssize_t n = read(fd, chunk, CHUNK_BYTES);
        if (n == 0)
            return hash_end(&h, ret_hex, err);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            r = err_errno(err, ERR_IO, errno, "cannot read");
            break;
        }
        r = hash_update(&h, chunk, (size_t)n, err);
        total += n;
        if (on_read)
            on_read(arg, total);
    }
    hash_drop(&h);
    return r;
}
