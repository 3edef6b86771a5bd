/*
 * The words of every verdict, as the API and threads say them. RunnerResponse has its own test
 * (test_runner.c).
 */

#include "base/check.h"

#include "base/json.h"
#include "base/macros.h"
#include "run/outcome.h"

static const struct sandbox_limits limits = { .memory_bytes = 512 << 20,
                                              .pids = 64,
                                              .file_bytes = 64 << 20 };

static const struct {
    enum verdict verdict;
    enum run_kind kind;
    bool cancelled, interrupted;
    const char *own_type, *own; /* of the kernel; NULL: none */
    const char *status, *type, *message;
} endings[] = {
    { VERDICT_OK, RUN_SQL, false, false, NULL, NULL, "succeeded", NULL, NULL },
    { VERDICT_ERROR, RUN_SQL, false, false, "SQL_EXECUTION_ERROR", "no such {limit} table",
      "failed", "SQL_EXECUTION_ERROR",
      "no such {limit} table" }, /* marks in the kernel's words are none of ours */
    { VERDICT_ERROR, RUN_PYTHON, false, false, NULL, NULL, "failed", "RUNNER_INTERNAL_ERROR",
      "the run failed and gave no reason" },
    { VERDICT_TIMEOUT, RUN_PYTHON, false, false, NULL, NULL, "timed_out", "RUNNER_TIMEOUT",
      "Python execution exceeded timeout of 7 seconds" },
    { VERDICT_TIMEOUT, RUN_SQL, true, true, "KILLED", "interrupted", "timed_out", "RUNNER_TIMEOUT",
      "Query exceeded timeout of 7 seconds" },
    { VERDICT_MEMORY, RUN_PYTHON, false, false, "PYTHON_EXECUTION_ERROR", "MemoryError", "failed",
      "MEMORY_LIMIT",
      "the run needed more than its memory limit of 512 MB: select fewer rows or columns, "
      "aggregate in SQL first, or raise the limit "
      "(RIDDLE_MEMORY; of a sandbox: max_memory_mb)" },
    { VERDICT_PROCESSES, RUN_PYTHON, false, false, "PYTHON_EXECUTION_ERROR", "BlockingIOError",
      "failed", "PROCESS_LIMIT",
      "the run started more than its limit of 64 processes and threads: start fewer, or raise the "
      "limit (RIDDLE_PIDS; of a sandbox: max_threads)" },
    { VERDICT_OUTPUT, RUN_PYTHON, false, false, NULL, NULL, "failed", "OUTPUT_LIMIT",
      "the run printed far more than its limit of 65536 bytes: print less, leave rows in "
      "result_df, or raise max_output_bytes (at most "
      "1000000)" },
    { VERDICT_FILESIZE, RUN_PYTHON, false, false, "KILLED", "the kernel ended", "failed",
      "FILE_SIZE_LIMIT",
      "the run wrote a file larger than its limit of 64 MB: write smaller files, or raise the "
      "limit (RIDDLE_FILE_SIZE)" },
    { VERDICT_POLICY, RUN_SQL, false, false, "SQL_POLICY_VIOLATION", "only SELECT", "rejected",
      "SQL_POLICY_VIOLATION", "only SELECT" },
    { VERDICT_POLICY, RUN_PYTHON, false, false, "KILLED", "a forbidden system call", "rejected",
      "PYTHON_POLICY_VIOLATION", "a forbidden system call" },
    { VERDICT_KILLED, RUN_PYTHON, true, true, "KILLED", "interrupted", "cancelled", "CANCELLED",
      "The run was cancelled" },
    { VERDICT_KILLED, RUN_PYTHON, true, false, NULL, NULL, "cancelled", "CANCELLED",
      "The run was cancelled" },
    { VERDICT_KILLED, RUN_PYTHON, false, true, NULL, NULL, "failed", "KILLED",
      "the run was interrupted before it ended: run it again for a result" },
    { VERDICT_KILLED, RUN_PYTHON, false, false, "KILLED", "the kernel ended by itself (signal 11)",
      "failed", "KILLED",
      "the kernel ended by itself (signal 11): run it again, and see `riddle doctor` if it "
      "repeats" },
};

static void test_every_verdict_has_its_words(void **state)
{
    (void)state;
    bool seen[_VERDICT_MAX] = { false };
    for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
        const struct run_request req = { .kind = endings[i].kind,
                                         .timeout_ms = 6001,
                                         .max_output_bytes = 65536 };
        const struct outcome_of of = { .request = &req,
                                       .limits = &limits,
                                       .cancelled = endings[i].cancelled };
        struct run_result res = { .verdict = endings[i].verdict,
                                  .interrupted = endings[i].interrupted,
                                  .execute_us = 1600 };
        if (endings[i].own)
            res.body = json_pack("{s:{s:s, s:s, s:i, s:n}}", "error", "type", endings[i].own_type,
                                 "message", endings[i].own, "line", 3, "traceback");
        seen[res.verdict] = true;
        assert_string_equal(outcome_status(&of, res.verdict), endings[i].status);
        auto_json json_t *result = outcome_result(&of, &res);
        const json_t *error = json_object_get(result, "error");
        assert_string_equal(json_string_value(json_object_get(result, "verdict")),
                            verdict_name(res.verdict));
        assert_int_equal(json_integer_value(json_object_get(result, "exec_time_ms")), 2);
        if (endings[i].type) {
            assert_string_equal(json_string_value(json_object_get(error, "type")), endings[i].type);
            assert_string_equal(json_string_value(json_object_get(error, "message")),
                                endings[i].message);
            assert_int_equal(json_integer_value(json_object_get(error, "line")),
                             endings[i].own ? 3 : 0);
            assert_null(json_object_get(error, "traceback"));
        } else {
            assert_true(json_is_null(error));
        }
        run_result_finish(&res);
    }
    for (int v = 0; v < _VERDICT_MAX; v++)
        assert_true(seen[v]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_verdict_has_its_words) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
