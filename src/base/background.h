#ifndef RIDDLE_BASE_BACKGROUND_H
#define RIDDLE_BASE_BACKGROUND_H

/*
 * Threads of lower priority, for work whose amount a caller of the server decides: parsing what a
 * kernel sent, freeing it again. On a machine whose processors are short, the event loop and what
 * others run come first. The threads start with the first job and live as long as the process.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Starts the threads now; returns how many there are. A server does so before it starts any other
 * thread: each of these then has a heap of its own in glibc, and what they free in small pieces is
 * put together again in their time, not in the loop's.
 */
int background_start(void);

/* Part of what the job works on; the caller's until fn is called, then fn's. */
struct background_job {
    struct background_job *next;
    uint64_t owner; /* of a long one: a hash of the name */
    void (*fn)(struct background_job *job); /* in one of the threads */
};

/* In the order of the calls. False if no thread could be started: the job was not taken. */
bool background_run(struct background_job *job);
/*
 * The same for work that may take a second: in a thread of its own, one job at a time, so that no
 * other work waits for it. Owners take turns.
 */
bool background_run_long(struct background_job *job, const char *owner);

/*
 * Whether writing the value takes more than a fraction of a millisecond: it holds thousands of
 * others, or as much text.
 */
bool json_is_large(const json_t *value);

/*
 * json_decref() of a value that may hold very many others: freeing 200,000 of them takes 5 ms.
 * NULL is fine. In any thread.
 */
void json_discard(json_t *value);
static inline void cleanup_discard(json_t **value)
{
    json_discard(*value);
}
#define auto_discard __attribute__((cleanup(cleanup_discard)))

#endif
