#ifndef RIDDLE_NET_CURL_LIB_H
#define RIDDLE_NET_CURL_LIB_H

/*
 * libcurl, loaded when somebody is called for the first time. It brings more than a dozen libraries
 * with it, and most commands of `riddle` call nobody: linked as usual it would double the time in
 * which each of them starts.
 */

#include <curl/curl.h>
#include "base/err.h"

#define CURL_LIB_FUNCTIONS(X)                                                                      \
    X(easy_cleanup)                                                                                \
    X(easy_getinfo)                                                                                \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_strerror)                                                                               \
    X(free)                                                                                        \
    X(getdate)                                                                                     \
    X(global_init)                                                                                 \
    X(multi_add_handle)                                                                            \
    X(multi_assign)                                                                                \
    X(multi_cleanup)                                                                               \
    X(multi_info_read)                                                                             \
    X(multi_init)                                                                                  \
    X(multi_remove_handle)                                                                         \
    X(multi_setopt)                                                                                \
    X(multi_socket_action)                                                                         \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(url)                                                                                         \
    X(url_cleanup)                                                                                 \
    X(url_get)                                                                                     \
    X(url_set)

struct curl_lib {
#define X(name) __typeof__(curl_##name) *name;
    CURL_LIB_FUNCTIONS(X)
#undef X
};

/* The functions, once curl_lib_load() succeeded. */
extern struct curl_lib curl_lib;

/* In the loop's thread. UNAVAILABLE when there is no libcurl. */
int curl_lib_load(struct err *err);

#endif
