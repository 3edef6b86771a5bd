#include "base/seal.h"

#include <limits.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>
#include "base/library.h"
#include "base/macros.h"
#include "gen/platform.h"

#define NONCE_BYTES 12

#define CIPHER_FUNCTIONS(X)                                                                        \
    X(EVP_CIPHER_CTX_ctrl)                                                                         \
    X(EVP_CIPHER_CTX_free)                                                                         \
    X(EVP_CIPHER_CTX_new)                                                                          \
    X(EVP_CipherFinal_ex)                                                                          \
    X(EVP_CipherInit_ex)                                                                           \
    X(EVP_CipherUpdate)                                                                            \
    X(EVP_aes_256_gcm)

static struct {
#define X(name) __typeof__(name) *name;
    CIPHER_FUNCTIONS(X)
#undef X
    struct err why; /* it could not be loaded */
} crypto;

static void load_crypto(void)
{
    static const struct library_symbol symbols[] = {
#define X(name) { #name, &crypto.name },
        CIPHER_FUNCTIONS(X)
#undef X
    };
    (void)library_load(PLATFORM_CRYPTO_SONAME, PLATFORM_CRYPTO_PACKAGE, symbols,
                       ARRAY_SIZE(symbols), &crypto.why);
}

static int digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* False unless it is so many bytes. */
static bool from_hex(const char *hex, unsigned char *ret, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int high = digit(hex[2 * i]), low = high < 0 ? -1 : digit(hex[2 * i + 1]);
        if (low < 0)
            return false;
        ret[i] = (unsigned char)(high << 4 | low);
    }
    return hex[2 * n] == '\0';
}

int seal_check_key(const char *hex, struct err *err)
{
    unsigned char key[32];
    bool good = from_hex(hex, key, sizeof(key));
    explicit_bzero(key, sizeof(key));
    return good ?
               0 :
               err_set(err, ERR_VALIDATION, "the key is not %d hexadecimal digits", SEAL_KEY_HEX);
}

static int derive(const unsigned char key[32], const void *context, size_t len, const char *use,
                  char ret[HASH_HEX_SIZE], struct err *err)
{
    struct hash h = { NULL };
    int r = hash_begin(&h, err);
    if (r == 0)
        r = hash_update(&h, key, 32, err);
    if (r == 0)
        r = hash_update(&h, context, len, err);
    if (r == 0)
        r = hash_update(&h, use, strlen(use), err);
    if (r == 0)
        return hash_end(&h, ret, err);
    hash_drop(&h);
    return r;
}

int seal_begin(struct seal *s, const char *key_hex, const void *context, size_t len,
               char ret_check[HASH_HEX_SIZE], struct err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned char key[32] = { 0 };
    char derived[HASH_HEX_SIZE] = "";
    *s = (struct seal){ 0 };
    (void)pthread_once(&once, load_crypto);
    if (crypto.why.code != ERR_NONE)
        return err_set(err, crypto.why.code, "%s", crypto.why.message);
    int r = seal_check_key(key_hex, err);
    if (r == 0) {
        (void)from_hex(key_hex, key, sizeof(key));
        r = derive(key, context, len, "check", ret_check, err);
    }
    if (r == 0)
        r = derive(key, context, len, "key", derived, err);
    if (r == 0) {
        (void)from_hex(derived, s->key, sizeof(s->key));
        s->cipher = crypto.EVP_CIPHER_CTX_new();
        r = s->cipher ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for a cipher");
    }
    explicit_bzero(key, sizeof(key));
    explicit_bzero(derived, sizeof(derived));
    return r;
}

/* Number and place of a piece are its nonce: the key is of this file alone. */
static bool begin_piece(struct seal *s, bool is_last, bool seals)
{
    unsigned char nonce[NONCE_BYTES] = { is_last };
    for (int i = 0; i < 8; i++)
        nonce[NONCE_BYTES - 1 - i] = (unsigned char)(s->pieces >> (8 * i));
    s->pieces++;
    return crypto.EVP_CipherInit_ex(s->cipher, crypto.EVP_aes_256_gcm(), NULL, s->key, nonce,
                                    seals) == 1;
}

int seal_piece(struct seal *s, bool is_last, const void *plain, size_t len, void *ret,
               struct err *err)
{
    unsigned char *out = ret;
    int n = 0, rest = 0;
    if (len <= INT_MAX && begin_piece(s, is_last, true) &&
        (len == 0 || crypto.EVP_CipherUpdate(s->cipher, out, &n, plain, (int)len) == 1) &&
        crypto.EVP_CipherFinal_ex(s->cipher, out + n, &rest) == 1 &&
        crypto.EVP_CIPHER_CTX_ctrl(s->cipher, EVP_CTRL_AEAD_GET_TAG, SEAL_TAG_BYTES, out + len) ==
            1)
        return 0;
    return err_set(err, ERR_INTERNAL, "AES-256-GCM failed");
}

int seal_open_piece(struct seal *s, bool is_last, const void *sealed, size_t len, void *ret,
                    struct err *err)
{
    unsigned char *out = ret, tag[SEAL_TAG_BYTES];
    int n = 0, rest = 0;
    if (len >= SEAL_TAG_BYTES && len <= INT_MAX) {
        len -= SEAL_TAG_BYTES;
        memcpy(tag, (const unsigned char *)sealed + len, sizeof(tag));
        if (begin_piece(s, is_last, false) &&
            (len == 0 || crypto.EVP_CipherUpdate(s->cipher, out, &n, sealed, (int)len) == 1) &&
            crypto.EVP_CIPHER_CTX_ctrl(s->cipher, EVP_CTRL_AEAD_SET_TAG, sizeof(tag), tag) == 1 &&
            crypto.EVP_CipherFinal_ex(s->cipher, out + n, &rest) == 1)
            return 0;
    }
    return err_set(err, ERR_VALIDATION, "it is not as it was sealed");
}

void seal_end(struct seal *s)
{
    if (s->cipher)
        crypto.EVP_CIPHER_CTX_free(s->cipher);
    explicit_bzero(s, sizeof(*s));
}
