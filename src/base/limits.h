#ifndef RIDDLE_BASE_LIMITS_H
#define RIDDLE_BASE_LIMITS_H

/*
 * Limits that must agree with each other. What passes one of them has to fit the next one on its
 * way: code → request → frame → record, and result → frame → answer → event → record. The
 * assertions at the end hold them together. docs/limits.md lists them for users.
 *
 * A limit that only one module knows stays in that module.
 */

#include <stddef.h>

/* Bytes of a text of n bytes inside JSON: a control character becomes \u0000. */
#define JSON_ESCAPED_MAX(n) (6ull * (n))
/* Bytes of n bytes in base64. */
#define BASE64_MAX(n) (((n) + 2ull) / 3 * 4)

/* ---- code and the requests that carry it ---- */

#define CODE_MAX_BYTES (1u << 20)      /* of SQL, of a Python cell, of a compiled plan */
#define ERROR_JSON_MAX 65536           /* of the error of a run, as JSON, in its capsule */
#define INPUT_LINE_MAX 65536           /* that input() gets */
#define PLAN_MAX_BYTES (1u << 20)      /* of a plan, as JSON */
#define QUESTION_MAX_BYTES (64u << 10) /* that is kept with a run */
#define RUN_BODY_MAX (8u << 20)        /* of the body of POST /runs and of a RunnerRequest */

#define RUN_TIMEOUT_MAX_S 60
#define EXECUTE_TIMEOUT_MAX_S 600 /* of code that runs in a thread */
#define RUN_ROWS_MAX 1000
#define RUN_OUTPUT_MIN 1025 /* max_output_bytes: of stdout, of stderr, and of the rows as JSON */
#define RUN_OUTPUT_MAX 1000000

/* ---- files ---- */

#define SANDBOX_TABLES_MAX 1000  /* of all files of a sandbox */
#define SANDBOX_FILES_MAX 63     /* that a sandbox is shown; each may need two descriptors */
#define FILE_PIECE_MAX (1 << 20) /* of a file of /workspace, in one request or answer */

/* ---- figures and other outputs of display() ---- */

#define FIGURES_MAX 20                 /* that one cell draws, and of one answer in a thread */
#define DISPLAYS_MAX 64                /* of one run, figures included */
#define DISPLAY_PART_MAX (4u << 20)    /* of a PNG, an SVG, an HTML or a JSON, before base64 */
#define DISPLAY_BYTES_MAX (128u << 20) /* of all displays of a run, as they come from the kernel */
/*
 * A part of up to so many bytes of text is inside the answer, a larger one is a reference:
 * GET /runs/{run_id}/figures/{n}. So is what exceeds the second limit in one answer.
 */
#define DISPLAY_INLINE_MAX (256u << 10)
#define DISPLAYS_INLINE_MAX (1u << 20)

/* ---- frames between riddle and a kernel ---- */

#define WIRE_REQUEST_MAX (8u << 20) /* riddle → kernel */
#define WIRE_EVENT_MAX (32u << 20)  /* kernel → riddle */
#define WIRE_FRAME_REST 4096        /* of a frame, besides its one large member */

/* ---- answers, events and records ---- */

/* What Riddle asks for itself: values of columns, profiles. */
#define CATALOG_OUTPUT_MAX_BYTES (16u << 20)
/*
 * Column names and types, error and traceback, the list of files, a value: all but rows, output and
 * displays.
 */
#define RESULT_REST_MAX (8u << 20)
#define RESULT_MAX_BYTES (32u << 20)     /* of a run's result, as JSON */
#define TURN_TEXT_MAX (1u << 20)         /* of an answer's text in a thread */
#define MESSAGE_MAX_BYTES (4u << 20)     /* of a stored message */
#define MESSAGE_REST_MAX (10u << 20)     /* of its metadata: code, plan, chart */
#define RECORD_MAX_BYTES (48u << 20)     /* of a stored record, all members together */
#define RUNNER_RESPONSE_MAX (256u << 20) /* of `riddle run --json`: displays are inside */

/* ---- event streams ---- */

#define SSE_QUEUE_HIGH (256u << 10) /* waiting for a client, past which it counts as slow */
#define SSE_QUEUE_MAX (64u << 20)   /* waiting for one client; then its stream ends in an error */
#define SSE_TOTAL_MAX (256u << 20)  /* waiting for all; then that of the one who waits most does */

/* ---- they agree ---- */

/* Code reaches the kernel however it has to be escaped, and its capsule keeps it. */
_Static_assert(RUN_BODY_MAX >= JSON_ESCAPED_MAX(CODE_MAX_BYTES) + PLAN_MAX_BYTES,
               "code in a request");
_Static_assert(WIRE_REQUEST_MAX >= JSON_ESCAPED_MAX(CODE_MAX_BYTES) + WIRE_FRAME_REST,
               "code in a frame");
_Static_assert(WIRE_REQUEST_MAX >= FILE_PIECE_MAX + WIRE_FRAME_REST,
               "a piece of a file in a request");
/* Whatever a kernel may send fits a frame. */
_Static_assert(WIRE_EVENT_MAX >= FILE_PIECE_MAX + WIRE_FRAME_REST,
               "a piece of a file in an answer");
_Static_assert(WIRE_EVENT_MAX >= RUN_OUTPUT_MAX + RESULT_REST_MAX + WIRE_FRAME_REST,
               "rows in a frame");
_Static_assert(WIRE_EVENT_MAX >= CATALOG_OUTPUT_MAX_BYTES + RESULT_REST_MAX + WIRE_FRAME_REST,
               "a catalog in a frame");
_Static_assert(WIRE_EVENT_MAX >=
                   4 * BASE64_MAX(DISPLAY_PART_MAX) + DISPLAY_INLINE_MAX + WIRE_FRAME_REST,
               "a display in a frame");
/* Every figure that a cell may draw is kept. */
_Static_assert(FIGURES_MAX <= DISPLAYS_MAX, "figures of a run");
_Static_assert(DISPLAY_BYTES_MAX >= FIGURES_MAX * BASE64_MAX(DISPLAY_PART_MAX),
               "bytes of a run's figures");
_Static_assert(DISPLAY_INLINE_MAX <= DISPLAYS_INLINE_MAX, "inline parts");
_Static_assert(RUNNER_RESPONSE_MAX >= DISPLAY_BYTES_MAX + RESULT_MAX_BYTES,
               "displays in a RunnerResponse");
/* A run that succeeded can be answered, streamed and stored. */
_Static_assert(RESULT_MAX_BYTES >= RUN_OUTPUT_MAX + 2 * JSON_ESCAPED_MAX(RUN_OUTPUT_MAX) +
                                       JSON_ESCAPED_MAX(DISPLAYS_INLINE_MAX) + RESULT_REST_MAX,
               "a run's result");
_Static_assert(RECORD_MAX_BYTES >=
                   RESULT_MAX_BYTES + 2 * CODE_MAX_BYTES + PLAN_MAX_BYTES + (1u << 20),
               "a capsule");
_Static_assert(MESSAGE_MAX_BYTES >= TURN_TEXT_MAX && MESSAGE_MAX_BYTES >= CODE_MAX_BYTES,
               "a message");
_Static_assert(MESSAGE_REST_MAX >= JSON_ESCAPED_MAX(CODE_MAX_BYTES) + 2 * PLAN_MAX_BYTES,
               "its metadata");
/* A slow client still gets everything of a run: its output live, held back, and in the result. */
_Static_assert(SSE_QUEUE_MAX >= RESULT_MAX_BYTES + 2 * JSON_ESCAPED_MAX(RUN_OUTPUT_MAX) +
                                    JSON_ESCAPED_MAX(DISPLAYS_INLINE_MAX) + 2 * SSE_QUEUE_HIGH,
               "events of a run");
_Static_assert(SSE_QUEUE_HIGH >= DISPLAY_INLINE_MAX && SSE_TOTAL_MAX >= 4 * SSE_QUEUE_MAX,
               "event streams");

#endif
