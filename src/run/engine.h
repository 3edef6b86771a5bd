#ifndef RIDDLE_RUN_ENGINE_H
#define RIDDLE_RUN_ENGINE_H

/*
 * Databases as the engine that runs the SQL of a lease (executor_set_engine()): a query with its
 * line in the log (queries.h), and its rows in the form that a kernel's answers have.
 */

#include "run/queries.h"
#include "sandbox/pool/executor.h"

/* qs must live as long as the executor. */
struct sql_engine engine_of(const struct queries *qs);

#endif
