#ifndef RIDDLE_KERNEL_INGEST_XLSX_XML_H
#define RIDDLE_KERNEL_INGEST_XLSX_XML_H

/*
 * The XML of office documents, which comes as a stream of any length, token by token: expat parses
 * a block, and its tokens wait to be asked for. A DOCTYPE is refused, so nothing in a document can
 * name a file or grow. Messages are clauses for a sentence that the caller begins; bad documents
 * are VALIDATION. All text is UTF-8.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/err.h"

#define XML_MAX_DEPTH 128
#define XML_MAX_TAG_BYTES (1u << 20)     /* with its attributes; also of a comment */
#define XML_MAX_MEMORY_BYTES (64u << 20) /* of expat */

enum xml_token {
    XML_EOF,
    XML_START,
    XML_END,  /* an element without content has one too */
    XML_TEXT, /* a piece of it: others may follow */
    _XML_TOKEN_MAX
};

struct xml {
    ssize_t (*read)(void *arg, char *buf, size_t n, struct err *err); /* 0 at the end */
    void *read_arg;
    /* Of the token, until the next one is asked for. Names are without their prefixes. */
    const char *name; /* of an element */
    const char
        *attributes; /* name and value, each with its NUL, and so on; an empty name ends them */
    const char *text;
    size_t text_len;
    size_t depth; /* elements around, and the one of a START */
    /* The parser's own: */
    struct XML_ParserStruct *parser;
    struct buf tokens;
    size_t at;      /* in the tokens */
    size_t text_at; /* the last token, if it is text; else SIZE_MAX */
    size_t open, bytes_in;
    bool at_eof;
    struct err *err; /* of the call that parses */
};

int xml_init(struct xml *x, ssize_t (*read)(void *arg, char *buf, size_t n, struct err *err),
             void *arg, struct err *err);
void xml_finish(struct xml *x);
#define auto_xml __attribute__((cleanup(xml_finish)))

/* A token, or negative. */
int xml_next(struct xml *x, struct err *err);

bool xml_is(const struct xml *x, const char *name);

/* The value of an attribute of a START; "" if it has none of that name. */
const char *xml_attribute(const struct xml *x, const char *name);
/* … of any of that name: those of different prefixes have the same one here. */
bool xml_has(const struct xml *x, const char *name, const char *value);

/* Behind a START: everything up to its END. */
int xml_skip(struct xml *x, struct err *err);

#endif
