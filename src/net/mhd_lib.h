#ifndef RIDDLE_NET_MHD_LIB_H
#define RIDDLE_NET_MHD_LIB_H

/*
 * libmicrohttpd, loaded when a server is made. It brings the whole of GnuTLS with it, and most
 * commands of `riddle` serve nobody: linked as usual it would be a third of the time in which each
 * of them starts.
 */

#include <microhttpd.h>
#include "base/err.h"

#define MHD_LIB_FUNCTIONS(X)                                                                       \
    X(add_response_header)                                                                         \
    X(create_response_for_upgrade)                                                                 \
    X(create_response_from_buffer)                                                                 \
    X(create_response_from_callback)                                                               \
    X(create_response_from_fd_at_offset64)                                                         \
    X(destroy_response)                                                                            \
    X(get_connection_info)                                                                         \
    X(get_connection_values)                                                                       \
    X(get_daemon_info)                                                                             \
    X(get_reason_phrase_for)                                                                       \
    X(get_timeout)                                                                                 \
    X(lookup_connection_value)                                                                     \
    X(queue_response)                                                                              \
    X(quiesce_daemon)                                                                              \
    X(resume_connection)                                                                           \
    X(run)                                                                                         \
    X(start_daemon)                                                                                \
    X(stop_daemon)                                                                                 \
    X(suspend_connection)                                                                          \
    X(upgrade_action)

struct mhd_lib {
#define X(name) __typeof__(MHD_##name) *name;
    MHD_LIB_FUNCTIONS(X)
#undef X
};

/* The functions, once mhd_lib_load() succeeded. */
extern struct mhd_lib mhd_lib;

/* In the loop's thread. UNAVAILABLE when there is no libmicrohttpd. */
int mhd_lib_load(struct err *err);

#endif
