#ifndef RIDDLE_DATABASE_PQ_LIB_H
#define RIDDLE_DATABASE_PQ_LIB_H

/* libpq, loaded when a PostgreSQL database is asked for the first time. */

#include <postgresql/libpq-fe.h>
#include "base/err.h"

#define PQ_LIB_FUNCTIONS(X)                                                                        \
    X(cancel)                                                                                      \
    X(clear)                                                                                       \
    X(cmdTuples)                                                                                   \
    X(connectdbParams)                                                                             \
    X(consumeInput)                                                                                \
    X(enterPipelineMode)                                                                           \
    X(errorMessage)                                                                                \
    X(exec)                                                                                        \
    X(finish)                                                                                      \
    X(flush)                                                                                       \
    X(fname)                                                                                       \
    X(freeCancel)                                                                                  \
    X(ftype)                                                                                       \
    X(getCancel)                                                                                   \
    X(getResult)                                                                                   \
    X(getisnull)                                                                                   \
    X(getlength)                                                                                   \
    X(getvalue)                                                                                    \
    X(isBusy)                                                                                      \
    X(nfields)                                                                                     \
    X(ntuples)                                                                                     \
    X(pipelineSync)                                                                                \
    X(resultErrorField)                                                                            \
    X(resultStatus)                                                                                \
    X(sendQueryParams)                                                                             \
    X(sendQueryPrepared)                                                                           \
    X(serverVersion)                                                                               \
    X(setNoticeProcessor)                                                                          \
    X(setSingleRowMode)                                                                            \
    X(setnonblocking)                                                                              \
    X(socket)                                                                                      \
    X(status)                                                                                      \
    X(transactionStatus)

struct pq_lib {
#define X(name) __typeof__(PQ##name) *name;
    PQ_LIB_FUNCTIONS(X)
#undef X
};

/* The functions, once pq_lib_load() succeeded. */
extern struct pq_lib pq_lib;

/* In the loop's thread. UNAVAILABLE when there is no libpq, or one that is older than 14. */
int pq_lib_load(struct err *err);

#endif
