/* SHA-256 of bytes, of files, and of a dataset's list of files. */

#include "dataset/hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/macros.h"

#define CHUNK_BYTES (256 * 1024)

static void cleanup_digest(EVP_MD_CTX **ctx)
{
    EVP_MD_CTX_free(*ctx);
}
#define auto_digest __attribute__((cleanup(cleanup_digest)))

static int finish(EVP_MD_CTX *ctx, char ret_hex[HASH_HEX_SIZE], struct err *err)
{
    unsigned char digest[32];

    if (EVP_DigestFinal_ex(ctx, digest, NULL) != 1)
        return err_set(err, ERR_INTERNAL, "SHA-256 failed");
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

int hash_bytes(const void *data, size_t len, char ret_hex[HASH_HEX_SIZE], struct err *err)
{
    auto_digest EVP_MD_CTX *ctx = EVP_MD_CTX_new();

    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(ctx, data, len) != 1)
        return err_set(err, ERR_INTERNAL, "SHA-256 failed");
    return finish(ctx, ret_hex, err);
}

int hash_fd(int fd, char ret_hex[HASH_HEX_SIZE], struct err *err)
{
    auto_digest EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    auto_free unsigned char *chunk = malloc(CHUNK_BYTES);

    if (!chunk)
        return err_set(err, ERR_NO_MEMORY, "out of memory for hashing");
    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
        return err_set(err, ERR_INTERNAL, "SHA-256 failed");
    for (;;) {
        ssize_t n = read(fd, chunk, CHUNK_BYTES);

        if (n == 0)
            return finish(ctx, ret_hex, err);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, ERR_IO, errno, "cannot read");
        if (EVP_DigestUpdate(ctx, chunk, (size_t)n) != 1)
            return err_set(err, ERR_INTERNAL, "SHA-256 failed");
    }
}

int hash_add_line(struct buf *lines, const char *hex, const char *name, struct err *err)
{
    return buf_printf(lines, err, "%s  %s\n", hex, name);
}

int hash_version(const struct buf *lines, char ret[HASH_VERSION_SIZE], struct err *err)
{
    strcpy(ret, "sha256:");
    return hash_bytes(buf_cstr(lines), lines->len, ret + strlen(ret), err);
}
