#ifndef RIDDLE_TESTS_UNIT_BASE_CHECK_H
#define RIDDLE_TESTS_UNIT_BASE_CHECK_H

/*
 * What the tests of this folder share: cmocka with what it needs, checks of which failure came, a
 * scratch directory.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

/* The call failed with exactly this code and message. */
#define assert_fails(call, err_, code_, message_)                                                  \
    do {                                                                                           \
        *(err_) = (struct err)ERR_INIT;                                                            \
        assert_int_equal((call), -(code_));                                                        \
        assert_int_equal((err_)->code, (code_));                                                   \
        assert_string_equal((err_)->message, (message_));                                          \
    } while (0)

/* The call succeeded and left err alone. */
#define assert_works(call, err_)                                                                   \
    do {                                                                                           \
        *(err_) = (struct err)ERR_INIT;                                                            \
        int works_ = (int)(call);                                                                  \
        if (works_ != 0)                                                                           \
            print_error("failed: %s\n", (err_)->message);                                          \
        assert_int_equal(works_, 0);                                                               \
        assert_int_equal((err_)->code, ERR_NONE);                                                  \
    } while (0)

static inline void make_scratch(char ret[64])
{
    strcpy(ret, "/tmp/riddle-unit-XXXXXX");
    assert_non_null(mkdtemp(ret));
}

#endif
