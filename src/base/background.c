/* A queue that is served by a thread for every two processors, and one for long work, by one. */

#include "base/background.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/macros.h"
#include "base/proc.h"

#define THREADS_MAX 4
#define BACKGROUND_NICE 10
#define DISCARD_AT_ONCE_MAX 1000 /* values, freed in 25 µs */
#define WRITE_AT_ONCE_MAX 5000   /* values, written in 150 µs */
#define TEXT_PER_VALUE 16        /* bytes of text that count as another value */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more, begun;
    struct background_job *first, **last;
    int n_threads; /* 0: none was started yet */
    int n_begun;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER,
            .more = PTHREAD_COND_INITIALIZER,
            .begun = PTHREAD_COND_INITIALIZER };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct background_job *first;
    uint64_t served; /* owner of the last job */
    bool has_thread;
} long_queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

/* Of this thread alone, on Linux. */
static void lower_priority(void)
{
    id_t self = (id_t)syscall(SYS_gettid);
    if (getpriority(PRIO_PROCESS, self) < BACKGROUND_NICE)
        (void)setpriority(PRIO_PROCESS, self, BACKGROUND_NICE);
    proc_run_in_long_slices(0);
}

static void *serve(void *arg)
{
    void *volatile first = malloc(1); /* a thread's heap is chosen now */
    free(first);
    (void)arg;
    lower_priority();
    pthread_mutex_lock(&queue.lock);
    queue.n_begun++;
    pthread_cond_signal(&queue.begun);
    for (;;) {
        while (!queue.first)
            pthread_cond_wait(&queue.more, &queue.lock);
        struct background_job *job = queue.first;
        queue.first = job->next;
        if (!queue.first)
            queue.last = NULL;
        pthread_mutex_unlock(&queue.lock);
        job->fn(job);
        pthread_mutex_lock(&queue.lock);
    }
    return NULL;
}

/* The first job of another owner than the last, or the first. With the lock. */
static struct background_job *take_long(void)
{
    struct background_job **at = &long_queue.first;
    while (*at && (*at)->owner == long_queue.served)
        at = &(*at)->next;
    if (!*at)
        at = &long_queue.first;
    struct background_job *job = *at;
    *at = job->next;
    long_queue.served = job->owner;
    return job;
}

static void *serve_long(void *arg)
{
    (void)arg;
    lower_priority();
    pthread_mutex_lock(&long_queue.lock);
    for (;;) {
        while (!long_queue.first)
            pthread_cond_wait(&long_queue.more, &long_queue.lock);
        struct background_job *job = take_long();
        pthread_mutex_unlock(&long_queue.lock);
        job->fn(job);
        pthread_mutex_lock(&long_queue.lock);
    }
    return NULL;
}

/* Signals are for the threads that were there before. */
static bool start_thread(void *(*fn)(void *arg))
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, fn, NULL) == 0;
    if (started)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* With the lock. */
static void start_threads(void)
{
    int wanted = (int)MAX_OF(1, MIN_OF(sysconf(_SC_NPROCESSORS_ONLN) / 2, THREADS_MAX));
    while (queue.n_threads < wanted && start_thread(serve))
        queue.n_threads++;
}

int background_start(void)
{
    pthread_mutex_lock(&queue.lock);
    if (queue.n_threads == 0)
        start_threads();
    while (queue.n_begun < queue.n_threads)
        pthread_cond_wait(&queue.begun, &queue.lock);
    int n = queue.n_threads;
    pthread_mutex_unlock(&queue.lock);
    return n;
}

bool background_run(struct background_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&queue.lock);
    if (queue.n_threads == 0)
        start_threads();
    bool taken = queue.n_threads > 0;
    if (taken) {
        *(queue.last ? queue.last : &queue.first) = job;
        queue.last = &job->next;
        pthread_cond_signal(&queue.more);
    }
    pthread_mutex_unlock(&queue.lock);
    return taken;
}

bool background_run_long(struct background_job *job, const char *owner)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *c = owner; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    job->owner = hash;
    job->next = NULL;
    pthread_mutex_lock(&long_queue.lock);
    if (!long_queue.has_thread)
        long_queue.has_thread = start_thread(serve_long);
    bool taken = long_queue.has_thread;
    if (taken) {
        struct background_job **last = &long_queue.first;
        while (*last)
            last = &(*last)->next;
        *last = job;
        pthread_cond_signal(&long_queue.more);
    }
    pthread_mutex_unlock(&long_queue.lock);
    return taken;
}

/* ---- values to be freed ---- */

struct discarded {
    struct background_job job;
    json_t *value;
};

static void discard(struct background_job *job)
{
    struct discarded *d = (struct discarded *)job;
    json_decref(d->value);
    free(d);
}

/* Subtracts what a value holds, itself included, until nothing is left. */
static void count_values(const json_t *value, size_t *left)
{
    if (*left == 0)
        return;
    --*left;
    if (json_is_string(value)) {
        *left -= MIN_OF(*left, json_string_length(value) / TEXT_PER_VALUE);
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value) && *left > 0; i++)
            count_values(json_array_get(value, i), left);
    } else if (json_is_object(value)) {
        json_t *object = (json_t *)(uintptr_t)value; /* iterating changes nothing */
        for (void *at = json_object_iter(object); at && *left > 0;
             at = json_object_iter_next(object, at))
            count_values(json_object_iter_value(at), left);
    }
}

bool json_is_large(const json_t *value)
{
    size_t left = WRITE_AT_ONCE_MAX;
    count_values(value, &left);
    return left == 0;
}

void json_discard(json_t *value)
{
    size_t left = DISCARD_AT_ONCE_MAX;
    if (!value)
        return;
    count_values(value, &left);
    struct discarded *d = left == 0 ? malloc(sizeof(*d)) : NULL;
    if (d) {
        *d = (struct discarded){ .job.fn = discard, .value = value };
        if (background_run(&d->job))
            return;
    }
    free(d);
    json_decref(value);
}
