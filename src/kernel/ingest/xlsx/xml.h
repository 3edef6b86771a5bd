#ifndef RIDDLE_KERNEL_INGEST_XLSX_XML_H
#define RIDDLE_KERNEL_INGEST_XLSX_XML_H

/*
 * A pull parser for the XML of office documents, which comes as a stream of any length: UTF-8,
 * elements, attributes, text. There are no entities but the five of XML and numbers, and a DOCTYPE
 * is refused, so nothing in a document can name a file or grow. Messages are clauses for a sentence
 * that the caller begins; bad documents are VALIDATION.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/buf.h"
#include "base/err.h"

#define XML_MAX_DEPTH 128
#define XML_BUFFER_BYTES (256 * 1024) /* a tag with its attributes must fit into it */

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
    /* Of the token, until the next one is asked for: */
    const char *name; /* of an element, without its prefix */
    size_t name_len;
    const char *attributes;
    size_t attributes_len;
    const char *text;
    size_t text_len;
    /* The parser's own: */
    char *buf;
    size_t at, end;
    bool at_eof, in_cdata, close_next, seen_root;
    size_t depth;
    uint32_t open[XML_MAX_DEPTH]; /* names of the elements around, hashed */
    char character[4];            /* what a reference stands for */
};

int xml_init(struct xml *x, ssize_t (*read)(void *arg, char *buf, size_t n, struct err *err),
             void *arg, struct err *err);
void xml_finish(struct xml *x);
#define auto_xml __attribute__((cleanup(xml_finish)))

/* A token, or negative. */
int xml_next(struct xml *x, struct err *err);

bool xml_is(const struct xml *x, const char *name);

/*
 * Steps through the attributes of a START: name without prefix, value as written. False at the end
 * or at nonsense.
 */
struct xml_attributes {
    const char *at, *end;
    const char *name, *value;
    size_t name_len, value_len;
};
static inline struct xml_attributes xml_attributes(const struct xml *x)
{
    return (struct xml_attributes){ .at = x->attributes, .end = x->attributes + x->attributes_len };
}
bool xml_next_attribute(struct xml_attributes *a);
bool xml_attribute_is(const struct xml_attributes *a, const char *name);

/*
 * The value with its references replaced, "" if there is no such attribute. *ret is cleared first.
 */
int xml_attribute_text(const struct xml *x, const char *name, struct buf *ret, struct err *err);

/* Behind a START: everything up to its END. */
int xml_skip(struct xml *x, struct err *err);

#endif
