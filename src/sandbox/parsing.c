#include "sandbox/parsing.h"

#include <stdlib.h>
#include "base/macros.h"

#define AT_ONCE_MAX 2 /* of libuv's four workers */

struct parsing {
    uv_work_t work;
    uv_loop_t *loop;
    struct parsing *next;
    struct inbox_large *large;
    parsed_fn done; /* NULL: forgotten */
    void *arg;
};

/* Of the loop that this thread runs. */
static _Thread_local struct {
    struct parsing *first, **end;
    int n_under_way;
} queue;

static void start_next(void);

static void parse(uv_work_t *work)
{
    inbox_parse(((struct parsing *)work->data)->large);
}

static void parsing_free(struct parsing *p)
{
    inbox_large_free(p->large);
    free(p);
}

static void parsed(uv_work_t *work, int status)
{
    struct parsing *p = work->data;
    struct inbox_large *large = p->done ? TAKE_PTR(p->large) : NULL;
    parsed_fn done = p->done;
    void *arg = p->arg;
    (void)status; /* nothing is ever cancelled */
    parsing_free(p);
    queue.n_under_way--;
    start_next();
    if (done)
        done(arg, large);
}

static void start_next(void)
{
    while (queue.first && queue.n_under_way < AT_ONCE_MAX) {
        struct parsing *p = queue.first;
        queue.first = p->next;
        if (!p->done) {
            parsing_free(p);
            continue;
        }
        queue.n_under_way++;
        /* Fails only without a function to call. */
        (void)uv_queue_work(p->loop, &p->work, parse, parsed);
    }
    if (!queue.first)
        queue.end = NULL;
}

struct parsing *parsing_begin(uv_loop_t *loop, struct inbox_large *large, parsed_fn done,
                              void *arg)
{
    struct parsing *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->work.data = p;
    p->loop = loop;
    p->large = large;
    p->done = done;
    p->arg = arg;
    *(queue.end ? queue.end : &queue.first) = p;
    queue.end = &p->next;
    start_next();
    return p;
}

void parsing_forget(struct parsing *p)
{
    if (p)
        p->done = NULL;
}
