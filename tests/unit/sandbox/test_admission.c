/*
 * Who may begin: turns of owners, places of their own, memory of what runs and of what is parked.
 */

#include "base/check.h"

#include "base/macros.h"
#include "sandbox/pool/admission.h"

#define MB (1ll << 20)

static struct admission adm;
static struct ticket tickets[256];
static const char *names[ARRAY_SIZE(tickets)]; /* who has which ticket */
static size_t n_tickets;
static struct err err;

static void begin(size_t places, int64_t memory_bytes, size_t queue_max)
{
    memset(tickets, 0, sizeof(tickets));
    n_tickets = 0;
    admission_init(&adm, &(struct admission_limits){ .places = { places, places, places },
                                                     .memory_bytes = memory_bytes,
                                                     .queue_max = queue_max });
}

static struct ticket *enter(const char *owner, enum place place)
{
    struct ticket *t = &tickets[n_tickets];
    names[n_tickets++] = owner;
    assert_works(admission_enter(&adm, t, owner, place, 100 * MB, false, &err), &err);
    return t;
}

/* Everything leaves; then nothing is counted any more. */
static void finish(void)
{
    for (size_t i = 0; i < n_tickets; i++)
        admission_leave(&adm, &tickets[i]);
    assert_null(adm.owners);
    assert_int_equal(adm.parked, 0);
    assert_int_equal(adm.held_parked, 0);
    for (int p = 0; p < _PLACE_MAX; p++) {
        assert_int_equal(adm.waiting[p], 0);
        assert_int_equal(adm.active[p], 0);
        assert_int_equal(adm.held[p], 0);
    }
}

/* Ends whatever is active, one after the other, and tells in which order it had begun. */
static const char *order(void)
{
    static char text[1024];
    size_t len = 0;
    struct ticket *t;
    text[0] = '\0';
    while ((t = admission_next(&adm))) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", len ? " " : "",
                                names[t - tickets]);
        admission_leave(&adm, t);
    }
    return text;
}

static void test_owners_take_turns(void **state)
{
    (void)state;
    begin(1, 1000 * MB, 64);
    for (int i = 0; i < 4; i++)
        enter("ann", PLACE_SQL);
    enter("bob", PLACE_SQL);
    enter("bob", PLACE_SQL);
    enter("cid", PLACE_SQL);
    assert_string_equal(order(), "ann bob cid ann bob ann ann");
    finish();
}

/* However many of ann's wait, bob's begins as soon as one has ended. */
static void test_many_of_one_owner_do_not_starve_another(void **state)
{
    (void)state;
    begin(2, 1000 * MB, 64);
    for (int i = 0; i < 64; i++)
        enter("ann", PLACE_PYTHON);
    struct ticket *first = admission_next(&adm), *second = admission_next(&adm);
    assert_null(admission_next(&adm));
    struct ticket *bobs = enter("bob", PLACE_PYTHON);
    assert_null(admission_next(&adm));
    admission_leave(&adm, first);
    assert_ptr_equal(admission_next(&adm), bobs);
    /* bob, who has one place, does not get the second before ann has one. */
    struct ticket *more = enter("bob", PLACE_PYTHON);
    admission_leave(&adm, second);
    struct ticket *next = admission_next(&adm);
    assert_string_equal(names[next - tickets], "ann");
    assert_int_equal(more->state, TICKET_WAITING);
    finish();
}

/*
 * A place that no single owner can take is free when another comes, however long the first one's
 * runs are.
 */
static void test_one_owner_does_not_take_every_place(void **state)
{
    (void)state;
    begin(3, 10000 * MB, 64);
    adm.limits.owner_places[PLACE_INGEST] = 2;
    for (int i = 0; i < 4; i++)
        enter("ann", PLACE_INGEST);
    while (admission_next(&adm))
        ;
    assert_int_equal(adm.active[PLACE_INGEST], 2);
    struct ticket *bobs = enter("bob", PLACE_INGEST);
    assert_ptr_equal(admission_next(&adm), bobs);
    assert_null(admission_next(&adm));
    finish();
}

/* Owners who come and go cannot hold up one who waits: a newcomer joins at the end. */
static void test_newcomers_do_not_pass_those_who_wait(void **state)
{
    (void)state;
    static char fresh[32][8];
    begin(1, 1000 * MB, 64);
    struct ticket *running = enter("ann", PLACE_SQL);
    assert_ptr_equal(admission_next(&adm), running);
    struct ticket *waiting = enter("ann", PLACE_SQL);
    for (int i = 0; i < 32 && waiting->state == TICKET_WAITING; i++) {
        snprintf(fresh[i], sizeof(fresh[i]), "o%d", i);
        enter(fresh[i], PLACE_SQL);
        admission_leave(&adm, running);
        running = admission_next(&adm);
        assert_true(i < 2);
    }
    assert_int_equal(waiting->state, TICKET_ACTIVE);
    finish();
}

static void test_each_kind_has_its_own_places(void **state)
{
    (void)state;
    begin(2, 10000 * MB, 64);
    for (int i = 0; i < 8; i++)
        enter("ann", PLACE_PYTHON);
    while (admission_next(&adm))
        ;
    assert_int_equal(adm.active[PLACE_PYTHON], 2);
    struct ticket *query = enter("ann", PLACE_SQL), *ingest = enter("ann", PLACE_INGEST);
    assert_ptr_equal(admission_next(&adm), query);
    assert_ptr_equal(admission_next(&adm), ingest);
    finish();
}

/*
 * One kind may have three quarters of the memory; a kind of which nothing runs may always have one.
 */
static void test_memory_bounds_what_runs(void **state)
{
    (void)state;
    begin(16, 800 * MB, 64);
    for (int i = 0; i < 10; i++)
        enter("ann", PLACE_PYTHON);
    while (admission_next(&adm))
        ;
    assert_int_equal(adm.active[PLACE_PYTHON], 6);
    for (int i = 0; i < 10; i++)
        enter("ann", PLACE_SQL);
    while (admission_next(&adm))
        ;
    assert_int_equal(adm.active[PLACE_SQL], 2);
    enter("ann", PLACE_INGEST);
    enter("ann", PLACE_INGEST);
    while (admission_next(&adm))
        ;
    assert_int_equal(adm.active[PLACE_INGEST], 1); /* past the limit, but not for ever without */
    assert_false(admission_wants_room(&adm));      /* none of that is parked: it ends by itself */
    finish();
}

static void test_parked_kernels_are_counted(void **state)
{
    (void)state;
    begin(16, 800 * MB, 64);
    struct ticket *t;
    for (int i = 0; i < 10; i++) {
        enter("ann", PLACE_PYTHON);
        if ((t = admission_next(&adm)))
            admission_park(&adm, t, 50 * MB);
    }
    assert_int_equal(adm.parked, 10);
    assert_int_equal(adm.held[PLACE_PYTHON], 500 * MB);
    assert_int_equal(adm.active[PLACE_PYTHON], 0);
    assert_false(admission_wants_room(&adm)); /* nobody waits */
    struct ticket *one = enter("ann", PLACE_PYTHON), *two = enter("ann", PLACE_PYTHON);
    assert_ptr_equal(admission_next(&adm), one);
    assert_null(admission_next(&adm)); /* 600 + 100 of 600 */
    assert_true(admission_wants_room(&adm));
    admission_leave(&adm, &tickets[0]);
    assert_true(admission_wants_room(&adm));
    admission_leave(&adm, &tickets[1]);
    /* Parked ones hold half of it or less: from here on the second waits for the first. */
    assert_int_equal(adm.held_parked, 400 * MB);
    assert_false(admission_wants_room(&adm));
    assert_ptr_equal(admission_next(&adm), two);
    finish();
}

/* A parked one that is to run again waits for a place as anybody else, and is counted once. */
static void test_a_parked_one_runs_again(void **state)
{
    (void)state;
    begin(1, 800 * MB, 0);
    struct ticket *kept = enter("ann", PLACE_PYTHON);
    assert_ptr_equal(admission_next(&adm), kept);
    admission_park(&adm, kept, 300 * MB); /* more than it may have is counted as what it may have */
    assert_int_equal(adm.held_parked, 100 * MB);
    struct ticket *other = enter("bob", PLACE_PYTHON);
    assert_ptr_equal(admission_next(&adm), other);
    admission_move(&adm, kept, PLACE_PYTHON,
                   100 * MB); /* never refused, though no queue is allowed */
    assert_int_equal(adm.held_parked, 0);
    assert_int_equal(adm.held[PLACE_PYTHON], 200 * MB);
    assert_null(admission_next(&adm));
    admission_leave(&adm, other);
    assert_ptr_equal(admission_next(&adm), kept);
    assert_int_equal(adm.held[PLACE_PYTHON], 100 * MB);
    /* A query in the same kernel takes a place of queries. */
    admission_park(&adm, kept, 20 * MB);
    admission_move(&adm, kept, PLACE_SQL, 100 * MB);
    assert_ptr_equal(admission_next(&adm), kept);
    assert_int_equal(adm.active[PLACE_SQL], 1);
    assert_int_equal(adm.held[PLACE_PYTHON], 0);
    finish();
}

/*
 * One that finds out that it has to ingest first gives its place up meanwhile, and keeps its turn.
 */
static void test_a_move_keeps_the_turn(void **state)
{
    (void)state;
    begin(1, 800 * MB, 64);
    struct ticket *first = enter("ann", PLACE_SQL), *second = enter("ann", PLACE_SQL),
                  *third = enter("ann", PLACE_SQL);
    assert_ptr_equal(admission_next(&adm), first);
    admission_move(&adm, first, PLACE_INGEST, 400 * MB);
    assert_ptr_equal(admission_next(&adm), second); /* the place is free */
    assert_ptr_equal(admission_next(&adm), first);
    assert_int_equal(adm.held[PLACE_INGEST], 400 * MB);
    admission_move(&adm, first, PLACE_SQL, 100 * MB);
    admission_leave(&adm, second);
    assert_ptr_equal(admission_next(&adm), first); /* before the third, which came later */
    assert_int_equal(third->state, TICKET_WAITING);
    finish();
}

static void test_a_queue_has_an_end_for_each_owner(void **state)
{
    (void)state;
    begin(2, 1000 * MB, 3);
    for (int i = 0; i < 5; i++) /* two places and three that wait */
        enter("ann", PLACE_SQL);
    struct ticket extra = { 0 };
    assert_fails(admission_enter(&adm, &extra, "ann", PLACE_SQL, MB, false, &err), &err,
                 ERR_UNAVAILABLE,
                 "the server is busy: 5 runs of yours are waiting; try again soon");
    assert_int_equal(extra.state, TICKET_NONE);
    assert_int_equal(adm.refused, 1);
    enter("bob", PLACE_SQL);    /* another's queue is another's */
    enter("ann", PLACE_PYTHON); /* and so is that of another kind */
    assert_works(admission_enter(&adm, &extra, "ann", PLACE_SQL, MB, true, &err),
                 &err); /* what was promised before waits */
    admission_leave(&adm, &extra);
    admission_leave(&adm, &extra); /* harmless */
    finish();
}

static void test_leaving_the_middle_of_a_queue(void **state)
{
    (void)state;
    begin(1, 1000 * MB, 64);
    struct ticket *t[4];
    for (size_t i = 0; i < ARRAY_SIZE(t); i++)
        t[i] = enter("ann", PLACE_SQL);
    admission_leave(&adm, t[1]);
    admission_leave(&adm, t[3]);
    assert_ptr_equal(admission_next(&adm), t[0]);
    admission_leave(&adm, t[0]);
    assert_ptr_equal(admission_next(&adm), t[2]);
    admission_leave(&adm, t[2]);
    assert_null(admission_next(&adm));
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owners_take_turns),
        cmocka_unit_test(test_many_of_one_owner_do_not_starve_another),
        cmocka_unit_test(test_one_owner_does_not_take_every_place),
        cmocka_unit_test(test_newcomers_do_not_pass_those_who_wait),
        cmocka_unit_test(test_each_kind_has_its_own_places),
        cmocka_unit_test(test_memory_bounds_what_runs),
        cmocka_unit_test(test_parked_kernels_are_counted),
        cmocka_unit_test(test_a_parked_one_runs_again),
        cmocka_unit_test(test_a_move_keeps_the_turn),
        cmocka_unit_test(test_a_queue_has_an_end_for_each_owner),
        cmocka_unit_test(test_leaving_the_middle_of_a_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
