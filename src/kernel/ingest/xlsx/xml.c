/*
 * Tokens in x->tokens: a byte of enum xml_token, then
 *   START  name NUL, for each attribute name NUL value NUL, and NUL
 *   END    name NUL
 *   TEXT   length as uint32_t, bytes
 */

#include "kernel/ingest/xlsx/xml.h"

#include <expat.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"

#define BLOCK_BYTES (64 * 1024)
/* Of a block's tokens: <a/> becomes seven bytes, and a tag may have begun in an earlier block. */
#define MAX_TOKEN_BYTES (2 * XML_MAX_TAG_BYTES + 16 * BLOCK_BYTES)

/* ---- memory ---- */

/*
 * expat keeps every name that it has seen, so a document of nothing but names grows without end. No
 * other parser is open in this thread.
 */
static _Thread_local size_t bytes_in_use;

static void *limited_realloc(void *p, size_t n)
{
    size_t before = p ? malloc_usable_size(p) : 0;
    void *more;

    if (n > before && bytes_in_use + (n - before) > XML_MAX_MEMORY_BYTES)
        return NULL;
    more = realloc(p, n);
    if (more)
        bytes_in_use += malloc_usable_size(more) - before;
    return more;
}

static void *limited_malloc(size_t n)
{
    return limited_realloc(NULL, n);
}

static void limited_free(void *p)
{
    bytes_in_use -= p ? malloc_usable_size(p) : 0;
    free(p);
}

/* ---- tokens ---- */

static void put(struct xml *x, const void *data, size_t len)
{
    if (buf_append(&x->tokens, data, len, x->err) < 0)
        XML_StopParser(x->parser, XML_FALSE);
}

static void put_kind(struct xml *x, enum xml_token kind)
{
    x->text_at = kind == XML_TEXT ? x->tokens.len : SIZE_MAX;
    put(x, &(char){ (char)kind }, 1);
}

static void put_name(struct xml *x, const char *name)
{
    const char *colon = strchr(name, ':');

    name = colon && colon[1] ? colon + 1 : name;
    put(x, name, strlen(name) + 1);
}

static void on_start(void *arg, const char *name, const char **attributes)
{
    struct xml *x = arg;

    if (++x->open > XML_MAX_DEPTH) {
        err_set(x->err, ERR_VALIDATION, "its XML is nested more than %d deep", XML_MAX_DEPTH);
        XML_StopParser(x->parser, XML_FALSE);
        return;
    }
    put_kind(x, XML_START);
    put_name(x, name);
    for (; *attributes; attributes += 2) {
        put_name(x, attributes[0]);
        put(x, attributes[1], strlen(attributes[1]) + 1);
    }
    put(x, "", 1);
}

static void on_end(void *arg, const char *name)
{
    struct xml *x = arg;

    x->open--;
    put_kind(x, XML_END);
    put_name(x, name);
}

static void on_text(void *arg, const char *text, int len)
{
    struct xml *x = arg;
    uint32_t n = 0;

    if (x->text_at == SIZE_MAX) {
        put_kind(x, XML_TEXT);
        put(x, &n, sizeof(n));
    }
    put(x, text, (size_t)len);
    /* expat calls for each line. */
    n = (uint32_t)(x->tokens.len - x->text_at - 1 - sizeof(n));
    memcpy(x->tokens.data + x->text_at + 1, &n, sizeof(n));
}

static void on_doctype(void *arg, const char *name, const char *system_id, const char *public_id,
                       int has_internal)
{
    struct xml *x = arg;

    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal;
    err_set(x->err, ERR_VALIDATION, "its XML has a DOCTYPE, which is not allowed");
    XML_StopParser(x->parser, XML_FALSE);
}

int xml_init(struct xml *x, ssize_t (*read)(void *arg, char *buf, size_t n, struct err *err),
             void *arg, struct err *err)
{
    const XML_Memory_Handling_Suite memory = { limited_malloc, limited_realloc, limited_free };

    *x = (struct xml){ .read = read,
                       .read_arg = arg,
                       .parser = XML_ParserCreate_MM(NULL, &memory, NULL),
                       .tokens = BUF_INIT(MAX_TOKEN_BYTES) };
    if (!x->parser)
        return err_set(err, ERR_NO_MEMORY, "out of memory for reading XML");
    XML_SetUserData(x->parser, x);
    XML_SetElementHandler(x->parser, on_start, on_end);
    XML_SetCharacterDataHandler(x->parser, on_text);
    XML_SetStartDoctypeDeclHandler(x->parser, on_doctype);
    return 0;
}

void xml_finish(struct xml *x)
{
    if (x->parser)
        XML_ParserFree(x->parser);
    x->parser = NULL;
    buf_finish(&x->tokens);
}

static int refuse(const struct xml *x, struct err *err)
{
    switch (XML_GetErrorCode(x->parser)) {
    case XML_ERROR_NO_MEMORY:
        return err_set(err, ERR_VALIDATION, "its XML has more names than fit into %u MB",
                       XML_MAX_MEMORY_BYTES >> 20);
    case XML_ERROR_ABORTED: /* by a handler, which said why */
        return -(int)err->code;
    case XML_ERROR_NO_ELEMENTS:
    case XML_ERROR_UNCLOSED_TOKEN:
    case XML_ERROR_UNCLOSED_CDATA_SECTION:
    case XML_ERROR_PARTIAL_CHAR:
        return err_set(err, ERR_VALIDATION, "its XML ends in the middle");
    case XML_ERROR_UNDEFINED_ENTITY:
    case XML_ERROR_BAD_CHAR_REF:
        return err_set(err, ERR_VALIDATION, "its XML has a reference (&…;) that is not allowed");
    case XML_ERROR_UNKNOWN_ENCODING:
    case XML_ERROR_INCORRECT_ENCODING:
        return err_set(err, ERR_VALIDATION, "its XML is in an encoding that is not allowed");
    default:
        return err_set(err, ERR_VALIDATION, "its XML is malformed (%s, line %lu)",
                       XML_ErrorString(XML_GetErrorCode(x->parser)),
                       (unsigned long)XML_GetCurrentLineNumber(x->parser));
    }
}

/* The tokens of the next block. */
static int parse_block(struct xml *x, struct err *err)
{
    char *block = XML_GetBuffer(x->parser, BLOCK_BYTES);
    ssize_t n = block ? x->read(x->read_arg, block, BLOCK_BYTES, err) : 0;
    struct err why = ERR_INIT;

    if (!block)
        return refuse(x, err);
    if (n < 0)
        return (int)n;
    x->at_eof = n == 0;
    x->bytes_in += (size_t)n;
    x->err = &why;
    enum XML_Status status = XML_ParseBuffer(x->parser, (int)n, x->at_eof);
    x->err = NULL;
    if (status != XML_STATUS_OK) {
        int r = refuse(x, &why);
        return r == -ERR_TOO_LARGE ?
                   err_set(err, ERR_VALIDATION, "its XML has tags that are too long") :
                   err_set(err, why.code, "%s", why.message);
    }
    /* expat keeps a tag until it is whole. */
    XML_Index parsed = XML_GetCurrentByteIndex(x->parser);
    if (!x->at_eof && parsed >= 0 && x->bytes_in - (size_t)parsed > XML_MAX_TAG_BYTES)
        return err_set(err, ERR_VALIDATION, "its XML has a tag of more than %u bytes",
                       XML_MAX_TAG_BYTES);
    return 0;
}

static const char *after(const char *s)
{
    return s + strlen(s) + 1;
}

int xml_next(struct xml *x, struct err *err)
{
    while (x->at == x->tokens.len) {
        buf_clear(&x->tokens);
        x->at = 0;
        x->text_at = SIZE_MAX;
        if (x->at_eof)
            return XML_EOF;
        int r = parse_block(x, err);
        if (r < 0)
            return r;
    }
    const char *p = x->tokens.data + x->at;
    int token = *p++;
    if (token == XML_TEXT) {
        uint32_t n;

        memcpy(&n, p, sizeof(n));
        x->text = p + sizeof(n);
        x->text_len = n;
        p = x->text + n;
    } else {
        x->name = p;
        p = after(p);
    }
    if (token == XML_START) {
        x->depth++;
        x->attributes = p;
        while (*p)
            p = after(after(p));
        p++;
    } else if (token == XML_END) {
        x->depth--;
    }
    x->at = (size_t)(p - x->tokens.data);
    return token;
}

bool xml_is(const struct xml *x, const char *name)
{
    return str_eq(x->name, name);
}

const char *xml_attribute(const struct xml *x, const char *name)
{
    for (const char *a = x->attributes; *a; a = after(after(a)))
        if (str_eq(a, name))
            return after(a);
    return "";
}

bool xml_has(const struct xml *x, const char *name, const char *value)
{
    for (const char *a = x->attributes; *a; a = after(after(a)))
        if (str_eq(a, name) && str_eq(after(a), value))
            return true;
    return false;
}

int xml_skip(struct xml *x, struct err *err)
{
    size_t depth = x->depth;
    int r = XML_START;

    while (r > XML_EOF && x->depth >= depth)
        r = xml_next(x, err);
    return MIN_OF(r, 0);
}
