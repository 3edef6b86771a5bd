/* Work in threads of lower priority, and values that are freed there. */

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/background.h"
#include "check.h"

#define N_JOBS 100

struct noted {
    struct background_job job;
    int number;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int n_noted, niceness;
static pthread_t thread;

static void note(struct background_job *job)
{
    (void)job;
    pthread_mutex_lock(&lock);
    niceness = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
    thread = pthread_self();
    n_noted++;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
}

static void wait_for(int n)
{
    pthread_mutex_lock(&lock);
    while (n_noted < n)
        pthread_cond_wait(&more, &lock);
    pthread_mutex_unlock(&lock);
}

static void test_jobs(void **state)
{
    static struct noted jobs[N_JOBS];
    int own = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));

    (void)state;
    for (int i = 0; i < N_JOBS; i++) {
        jobs[i].job.fn = note;
        assert_true(background_run(&jobs[i].job));
    }
    wait_for(N_JOBS);
    assert_false(pthread_equal(thread, pthread_self()));
    assert_int_equal(niceness, own > 10 ? own : 10);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid)), own);
    assert_int_equal(background_start(), background_start());
}

static int order[6], n_order;

static void note_order(struct background_job *job)
{
    pthread_mutex_lock(&lock);
    order[n_order++] = ((struct noted *)job)->number;
    pthread_mutex_unlock(&lock);
    note(job);
}

/* The first one waits until all are queued; then the owner with one job does not wait for five. */
static void wait_and_note(struct background_job *job)
{
    wait_for(1);
    note_order(job);
}

static void test_owners_of_long_jobs_take_turns(void **state)
{
    static struct noted jobs[6];
    struct noted go = { .job.fn = note };

    (void)state;
    n_noted = 0;
    for (int i = 0; i < 6; i++) {
        jobs[i] = (struct noted){ .job.fn = i ? note_order : wait_and_note, .number = i };
        assert_true(background_run_long(&jobs[i].job, i < 5 ? "alice" : "bob"));
    }
    assert_true(background_run(&go.job)); /* which waits for none of them */
    wait_for(7);
    static const int expected[] = { 0, 5, 1, 2, 3, 4 };
    assert_memory_equal(order, expected, sizeof(order));
}

/* Under a sanitizer: everything is freed, once. */
static void test_discard(void **state)
{
    json_t *rows = json_array(), *kept = json_array();
    struct noted last = { .job.fn = note };
    int before = n_noted;

    (void)state;
    for (int i = 0; i < 50000; i++)
        json_array_append_new(rows, json_pack("[i, {s:s}]", i, "text", "x"));
    json_array_append(rows, kept);
    json_t *shared = json_incref(rows);
    json_discard(rows); /* others still have it */
    assert_int_equal(json_array_size(shared), 50001);
    json_discard(shared);
    json_discard(json_integer(1));
    json_discard(NULL);
    assert_true(background_run(&last.job));
    wait_for(before + 1);
    while (__atomic_load_n(&kept->refcount, __ATOMIC_ACQUIRE) > 1)
        usleep(1000); /* there may be several threads */
    json_decref(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_owners_of_long_jobs_take_turns),
        cmocka_unit_test(test_discard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
