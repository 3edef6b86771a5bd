#include "sandbox/parsing.h"

#include <stdlib.h>
#include "base/macros.h"
#include "net/loop.h"

struct parsing {
    struct inbox_large *large;
    parsed_fn done; /* NULL: forgotten */
    void *arg;
};

static void parse(void *arg)
{
    inbox_parse(((struct parsing *)arg)->large);
}

static void parsed(void *arg)
{
    struct parsing *p = arg;
    if (p->done)
        p->done(p->arg, p->large);
    else
        inbox_large_free(p->large);
    free(p);
}

struct parsing *parsing_begin(uv_loop_t *loop, struct inbox_large *large, parsed_fn done, void *arg)
{
    struct err ignored = ERR_INIT;
    struct parsing *p = malloc(sizeof(*p));
    if (!p)
        return NULL;
    *p = (struct parsing){ .large = large, .done = done, .arg = arg };
    if (loop_background(loop, parse, parsed, p, &ignored) == 0)
        return p;
    free(p);
    return NULL;
}

void parsing_forget(struct parsing *p)
{
    if (p)
        p->done = NULL;
}
