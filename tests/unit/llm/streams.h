#ifndef RIDDLE_TESTS_UNIT_LLM_STREAMS_H
#define RIDDLE_TESTS_UNIT_LLM_STREAMS_H

/*
 * What the tests of providers share: a stream fed to a parser in pieces of any size, and what it
 * made of it.
 */

#include "base/check.h"
#include "llm/llm_impl.h"
#include "llm/sse_read.h"

struct fed {
    const struct llm_provider *provider;
    struct llm_draft draft;
    struct buf tokens;
    int result; /* of the last piece, or of closing the draft */
    struct err err;
};

/* In pieces of `step` bytes. Release with fed_finish(). */
void feed(struct fed *f, const struct llm_provider *p, const char *stream, size_t len, size_t step);
void fed_finish(struct fed *f);

/*
 * Fed whole, byte by byte and in some odd splits, the stream gives the same: checks all, and leaves
 * the last in *ret.
 */
void feed_all_ways(struct fed *ret, const struct llm_provider *p, const char *stream);

#endif
