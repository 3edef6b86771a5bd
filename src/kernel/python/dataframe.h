#ifndef RIDDLE_KERNEL_PYTHON_DATAFRAME_H
#define RIDDLE_KERNEL_PYTHON_DATAFRAME_H

/*
 * The bridge between DuckDB and pandas. Inside Python it is the module `_riddle_frames`:
 *
 *   query(sql)          runs the statements of the text and returns the last one's columns: [(name, array), …]
 *   query_frame(sql)    the same as a pandas.DataFrame; repeated names become a, a_1, …
 *   stored_frame(path, part)
 *                       a table of an ingested file as query_frame() gives it, without SQL;
 *                       None if its columns are not stored (sql/stored_frame.h), or once a
 *                       statement that is no SELECT was run
 *   set_lookup(f)       f(name) gives the DataFrame of that name or None; a table that DuckDB does not know is asked for there
 *   SqlError            a RuntimeError with DuckDB's message
 *
 * An interrupted query (sql_interrupt()) is a KeyboardInterrupt, one that is out of memory a
 * MemoryError, and what f raises comes out of query(). One query runs at a time; a second thread
 * waits, and f itself cannot run one.
 *
 * DuckDB → pandas: integers stay intN, with NULLs float64, or object where float64 would change a
 * value; DECIMAL and HUGEINT float64 (HUGEINT beyond 2^53: object of int); BOOLEAN bool, with NULLs
 * object; DATE and TIMESTAMP datetime64[ns], or object where ns cannot hold a value; TIMESTAMPTZ
 * datetime64[ns, UTC]; VARCHAR and ENUM object of str; TIME, INTERVAL, UUID, BLOB, BIT, BIGNUM,
 * LIST, ARRAY, STRUCT, MAP and UNION object of what Python has for them.
 *
 * pandas → DuckDB: numbers, bool, datetime64 and timedelta64 as they lie in memory; nullable and
 * categorical columns by their values; object columns by what they hold (str, bool, int, float,
 * Decimal, date, datetime, timedelta, bytes), everything else by str(). None, NA, NaT and NaN are
 * NULL.
 */

#include "base/err.h"
#include "kernel/sql/sql.h"

/*
 * In the zygote, after Py_Initialize() and with the GIL: puts the module into sys.modules and tells
 * DuckDB of DataFrames. Kernels inherit both. The engine must live as long as the module is used.
 */
int dataframe_init(struct sql_engine *engine, struct err *err);

/* Before an image is written: what stored_frame() has mapped becomes memory of the process. */
void dataframe_stored_detach(void);

#endif
