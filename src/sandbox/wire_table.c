/*
 * The messages of a kernel's control stream. To add one: its line in enum wire_type, its fields and
 * its entry here, what the kernel does with it in the table of kernel.c or what riddle does with it
 * in inbox.c. docs/wire.md follows (`make docs`).
 */

#include "sandbox/wire.h"

#define INT_MAX_SAFE ((int64_t)1 << 53)
#define NAME_MAX_BYTES 1024
#define TEXT_MAX_BYTES (1 << 20)
#define FILES_MAX 200
#define MOUNTS_MAX 128
#define TABLES_MAX SANDBOX_TABLES_MAX

#define FIELDS(list) .fields = list, .n_fields = ARRAY_SIZE(list)
#define RUNNING (WIRE_BUSY | WIRE_ASKING)

/* ---- riddle → kernel ---- */

static const struct wire_field join_fields[] = {
    { "groups", WIRE_INT, .max = MOUNTS_MAX,
      .doc = "descriptors that come along: files of control groups (version 1) "
             "that the kernel enters by writing `0` to each" },
};

static const struct wire_field start_fields[] = {
    { "dataset_id", WIRE_STR, .nullable = true, .max = NAME_MAX_BYTES,
      .doc = "qualifies table names" },
    { "mounts", WIRE_ARRAY, .max = MOUNTS_MAX, .doc = "see below" },
    { "tables", WIRE_ARRAY, .max = TABLES_MAX,
      .doc = "`{\"name\",\"mount\",\"part\"}`, with the index of its mount, and which table of "
             "that file it is. Those of one file follow each other" },
    { "memory_bytes", WIRE_INT, .min = 1, .max = INT_MAX_SAFE },
    { "workspace_bytes", WIRE_INT, .min = 1, .max = INT_MAX_SAFE },
    { "tmp_bytes", WIRE_INT, .min = 1, .max = INT_MAX_SAFE },
    { "inodes", WIRE_INT, .min = 1, .max = INT_MAX_SAFE },
    { "file_bytes", WIRE_INT, .min = 1, .max = INT_MAX_SAFE },
    { "pids", WIRE_INT, .min = 1, .max = 1 << 22 },
    { "open_files", WIRE_INT, .min = 1, .max = 1 << 20 },
    { "threads", WIRE_INT, .min = 1, .max = 1 << 16, .doc = "of DuckDB" },
    { "interrupts", WIRE_BOOL, .doc = "riddle has no signal for the kernel and sends `interrupt`" },
    { "image", WIRE_BOOL, .optional = true,
      .doc = "a descriptor comes along behind those of mounts: the kernel becomes what that file "
             "holds once its jail is closed. Another may follow: the base of the image" },
    { "own_base", WIRE_BOOL, .optional = true,
      .doc = "the kernel was forked from the process whose memory that base is" },
    { "python_allowed", WIRE_STR, .max = TEXT_MAX_BYTES },
    { "python_blocked", WIRE_STR, .max = TEXT_MAX_BYTES },
    { "agent", WIRE_BOOL, .optional = true,
      .doc = "a sandbox of `/sandbox`: `debug()` is there, and results are JSON" },
    { "debugging", WIRE_BOOL, .optional = true, .doc = "it keeps what `debug()` says" },
};

static const struct wire_field exec_fields[] = {
    { "kind", WIRE_STR, .min = 3, .max = 6, .doc = "`sql` or `python`" },
    { "code", WIRE_STR, .max = WIRE_REQUEST_MAX },
    { "restricted", WIRE_BOOL, .doc = "Python by the restricted policy" },
    { "svg", WIRE_BOOL, .doc = "figures as SVG too" },
    { "max_rows", WIRE_INT, .min = -1, .max = INT_MAX_SAFE, .doc = "-1: all" },
    { "max_bytes", WIRE_INT, .min = -1, .max = INT_MAX_SAFE, .doc = "of the rows" },
    { "context", WIRE_OBJECT, .optional = true, .max = 256, .doc = "variables that are set first" },
    { "debug", WIRE_OBJECT, .optional = true, .max = 16,
      .doc = "the cell is stepped through: `max_steps`, `max_bytes`, "
             "`stop_on_entry`, `rewind`, `exceptions`, `breakpoints` (debugger.md)" },
};

static const struct wire_field ingest_fields[] = {
    { "name", WIRE_STR, .min = 1, .max = NAME_MAX_BYTES,
      .doc =
          "of the file, for messages; mount 0 is the file, mount 1 the directory for the table" },
    { "unsynced", WIRE_BOOL, .doc = "do not wait for the disk" },
    { "options", WIRE_OBJECT, .optional = true, .max = 16,
      .doc = "how to read it, where it is said: files.md" },
};

static const struct wire_field list_fields[] = {
    { "variables", WIRE_BOOL, .optional = true, .doc = "those of Python as well" },
};

static const struct wire_field read_fields[] = {
    { "path", WIRE_STR, .min = 1, .max = 512 },
    { "offset", WIRE_INT, .max = INT64_MAX },
    { "max_bytes", WIRE_INT, .min = 1, .max = FILE_PIECE_MAX },
};

static const struct wire_field write_fields[] = {
    { "path", WIRE_STR, .min = 1, .max = 512 },
    { "append", WIRE_BOOL, .doc = "else the file is made anew" },
    { "remove", WIRE_BOOL, .optional = true, .doc = "the file is removed instead" },
};

static const struct wire_field export_fields[] = {
    { "sql", WIRE_STR, .nullable = true, .min = 1, .max = WIRE_REQUEST_MAX,
      .doc = "one SELECT; null: the next piece of the export that was begun" },
    { "format", WIRE_STR, .min = 3, .max = 8, .doc = "`csv`, `json`, `parquet` or `xlsx`" },
    { "plain", WIRE_BOOL, .doc = "CSV: text that looks like a formula stays as it is" },
    { "refused", WIRE_BOOL, .doc = "a table has the rows that were refused when it was read" },
};

static const struct wire_field reply_fields[] = {
    { "value", WIRE_ANY, .nullable = true },
    { "error", WIRE_ERROR, .nullable = true, .doc = "why there is no value" },
};

/* ---- kernel → riddle ---- */

static const struct wire_field ready_fields[] = {
    { "version", WIRE_INT, .max = UINT16_MAX, .doc = "of the wire" },
    { "missing", WIRE_STR, .max = 256,
      .doc = "layers that a partial jail goes without, separated by commas" },
};

static const struct wire_field failed_fields[] = {
    { "error", WIRE_ERROR, .doc = "what it could not do" },
};

#define ANSWER_FIELDS                                                                              \
    { "verdict", WIRE_VERDICT, .max = 0 },                                                         \
        { "error", WIRE_ERROR, .optional = true, .nullable = true },                               \
    {                                                                                              \
        "exec_time_ms", WIRE_REAL, .max = INT64_C(1000000000)                                      \
    }

#define TABLE_FIELDS                                                                               \
    { "columns", WIRE_STRS, .optional = true, .max = 65536 },                                      \
        { "types", WIRE_STRS, .optional = true, .max = 65536 },                                    \
        { "rows", WIRE_ARRAY, .optional = true, .max = 1 << 24 },                                  \
        { "row_count", WIRE_INT, .optional = true, .max = INT_MAX_SAFE },                          \
    {                                                                                              \
        "truncated", WIRE_BOOL, .optional = true                                                   \
    }

static const struct wire_field result_fields[] = {
    ANSWER_FIELDS,
    TABLE_FIELDS,
    { "value", WIRE_OBJECT, .optional = true, .nullable = true, .max = 2,
      .doc = "`{\"text\",\"html\"?}`: the last expression of a cell" },
    { "has_result", WIRE_BOOL, .optional = true },
    { "files", WIRE_ARRAY, .optional = true, .max = FILES_MAX,
      .doc = "in /workspace after a Python run" },
    { "files_truncated", WIRE_BOOL, .optional = true },
    { "returned", WIRE_ANY, .optional = true, .nullable = true,
      .doc = "of an agent's cell: `__result__` or the last expression" },
    { "debug", WIRE_OBJECT, .optional = true, .nullable = true, .max = 16,
      .doc = "of an agent's cell: what `debug()` and `inspect_var()` said" },
    { "stepped", WIRE_OBJECT, .optional = true, .nullable = true, .max = 4,
      .doc = "of a debugged cell: `{\"lines\",\"steps\"}`, how many ran and how many were told" },
};

static const struct wire_field ingested_fields[] = {
    ANSWER_FIELDS,
    TABLE_FIELDS,
    { "report", WIRE_OBJECT, .optional = true, .max = 24,
      .doc = "how the file was read: files.md" },
    { "tables", WIRE_ARRAY, .optional = true, .max = TABLES_MAX,
      .doc = "the tables of the file behind the first: "
             "`{\"name\",\"row_count\",\"columns\",\"types\",\"report\"}`" },
};

static const struct wire_field listed_fields[] = {
    ANSWER_FIELDS,
    { "files", WIRE_ARRAY, .optional = true, .max = FILES_MAX },
    { "files_truncated", WIRE_BOOL, .optional = true },
    { "variables", WIRE_OBJECT, .optional = true, .max = 500, .doc = "name → short repr" },
    { "globals", WIRE_STRS, .optional = true, .max = 1000 },
    { "not_kept", WIRE_STR, .optional = true, .max = 6400,
      .doc = "variables that the portable form of the kernel lacks, and why; once" },
    { "ported", WIRE_BOOL, .optional = true,
      .doc = "the kernel was made from a portable form; once" },
    { "no_image", WIRE_STR, .optional = true, .max = 6400,
      .doc = "why the kernel could not become its image, and has the portable form of it; once" },
};

static const struct wire_field piece_fields[] = {
    ANSWER_FIELDS,
    { "size", WIRE_INT, .optional = true, .max = INT64_MAX, .doc = "of the file" },
    { "bytes", WIRE_INT, .optional = true, .max = FILE_PIECE_MAX, .doc = "that came before" },
};

static const struct wire_field exported_fields[] = {
    ANSWER_FIELDS,
    TABLE_FIELDS,
    { "size", WIRE_INT, .optional = true, .max = INT64_MAX, .doc = "of all pieces so far" },
    { "bytes", WIRE_INT, .optional = true, .max = FILE_PIECE_MAX,
      .doc = "that came before; 0: there are no more" },
};

static const struct wire_field written_fields[] = {
    ANSWER_FIELDS,
    { "size", WIRE_INT, .optional = true, .max = INT64_MAX, .doc = "of the file, now" },
};

static const struct wire_field imaged_fields[] = {
    ANSWER_FIELDS,
    { "bytes", WIRE_INT, .optional = true, .max = INT64_MAX, .doc = "that were written" },
    { "not_kept", WIRE_STR, .optional = true, .max = 6400,
      .doc = "of a portable form: variables that are not in it, and why" },
    { "companion_lacks", WIRE_STR, .optional = true, .max = 6400,
      .doc = "the same of what follows the image; absent: nothing follows it" },
};

static const struct wire_field image_fields[] = {
    { "portable", WIRE_BOOL, .optional = true, .doc = "write files and pickled variables instead" },
    { "companion", WIRE_BOOL, .optional = true,
      .doc = "write pickled variables behind the image, for kernels that cannot become it" },
    { "live", WIRE_BOOL, .optional = true,
      .doc = "the pipe leads to a kernel that becomes this one now; what cannot be an image is "
             "written in the portable form" },
};

static const struct wire_field display_fields[] = {
    { "text", WIRE_STR, .optional = true, .max = WIRE_DISPLAY_MAX },
    { "html", WIRE_STR, .optional = true, .max = WIRE_DISPLAY_MAX },
    { "png", WIRE_STR, .optional = true, .max = WIRE_DISPLAY_MAX, .doc = "base64" },
    { "svg", WIRE_STR, .optional = true, .max = WIRE_DISPLAY_MAX },
    { "json", WIRE_ANY, .optional = true, .nullable = true },
    { "data", WIRE_ANY, .optional = true, .nullable = true },
    { "chart", WIRE_ANY, .optional = true, .nullable = true },
};

static const struct wire_field progress_fields[] = {
    { "fraction", WIRE_REAL, .max = 1 },
};

static const struct wire_field ask_fields[] = {
    { "what", WIRE_STR, .min = 1, .max = 32,
      .doc = "`input`: a line of text from whoever runs the cell; `debug`: the next command of "
             "the debugger, while the cell is paused" },
    { "args", WIRE_OBJECT, .max = 32, .doc = "by `what`; of `input` `{\"prompt\"}`" },
};

static const struct wire_field steps_fields[] = {
    { "steps", WIRE_ARRAY, .min = 1, .max = 10000, .doc = "executed lines, in order: debugger.md" },
};

/* ---- all of them ---- */

static const struct wire_message table[_WIRE_TYPE_MAX] = {
    [WIRE_JOIN] = { "join", WIRE_TO_KERNEL, WIRE_NEW, WIRE_EVENT, .max_bytes = 256, .max_nodes = 8,
                    FIELDS(join_fields), .doc = "First, once: enter control groups." },
    [WIRE_START] = { "start", WIRE_TO_KERNEL, WIRE_BOXED, WIRE_REQUEST, WIRE_READY,
                     WIRE_REQUEST_MAX, 8192, FIELDS(start_fields),
                     .doc = "Second, once: what the kernel is for. It closes its jail." },
    [WIRE_EXEC] = { "exec", WIRE_TO_KERNEL, WIRE_IDLE, WIRE_REQUEST, WIRE_RESULT, WIRE_REQUEST_MAX,
                    20000, FIELDS(exec_fields), .doc = "Run SQL or Python." },
    [WIRE_INGEST] = { "ingest", WIRE_TO_KERNEL, WIRE_IDLE, WIRE_REQUEST, WIRE_INGESTED, 16384, 16,
                      FIELDS(ingest_fields), .doc = "Make a table of a file." },
    [WIRE_LIST] = { "list", WIRE_TO_KERNEL, WIRE_IDLE, WIRE_REQUEST, WIRE_LISTED, 32, 4,
                    FIELDS(list_fields), .doc = "List the files of /workspace." },
    [WIRE_READ] = { "read", WIRE_TO_KERNEL, WIRE_IDLE, WIRE_REQUEST, WIRE_PIECE, 16384, 16,
                    FIELDS(read_fields),
                    .doc = "Read a piece of a file of /workspace: `bytes`, "
                           "if there are any, then `piece`." },
    [WIRE_WRITE] = { "write", WIRE_TO_KERNEL, WIRE_IDLE, WIRE_REQUEST, WIRE_WRITTEN, 16384, 16,
                     FIELDS(write_fields), .doc = "Write or append the `bytes` before it." },
    [WIRE_IMAGE] = { "image", WIRE_TO_KERNEL, WIRE_IDLE, WIRE_REQUEST, WIRE_IMAGED, 64, 8,
                     FIELDS(image_fields),
                     .doc = "Write an image of the kernel to the pipe that comes along, as a "
                            "difference to the base that may come along behind it. "
                            "The kernel goes on as it was." },
    [WIRE_INTERRUPT] = { "interrupt", WIRE_TO_KERNEL, WIRE_IDLE | RUNNING, WIRE_EVENT,
                         .max_bytes = 16, .max_nodes = 2,
                         .doc = "Stop the request with this id: "
                                "its answer has the verdict `interrupted`. "
                                "Ignored if it has ended." },
    [WIRE_REPLY] = { "reply", WIRE_TO_KERNEL, WIRE_ASKING, WIRE_ANSWER, .max_bytes = 16u << 20,
                     .max_nodes = 1000000, FIELDS(reply_fields),
                     .doc = "Answers `ask`. Dropped if the kernel waits no longer." },
    [WIRE_BYTES] = { "bytes", WIRE_TO_KERNEL | WIRE_TO_RIDDLE, WIRE_IDLE | WIRE_BUSY, WIRE_EVENT,
                     .max_bytes = FILE_PIECE_MAX,
                     .doc = "Not JSON: bytes of the `write`, `piece` or `exported` that follows." },
    [WIRE_READY] = { "ready", WIRE_TO_RIDDLE, WIRE_STARTING, WIRE_ANSWER, .max_bytes = 1024,
                     .max_nodes = 8, FIELDS(ready_fields),
                     .doc = "Answers `start`: the jail is closed." },
    [WIRE_FAILED] = { "failed", WIRE_TO_RIDDLE, WIRE_STARTING | RUNNING, WIRE_ANSWER,
                      .max_bytes = 65536, .max_nodes = 16, FIELDS(failed_fields),
                      .doc = "Answers anything: the kernel could not do its own part, and ends." },
    [WIRE_RESULT] = { "result", WIRE_TO_RIDDLE, RUNNING, WIRE_ANSWER, .max_bytes = WIRE_EVENT_MAX,
                      .max_nodes = 9000000, FIELDS(result_fields),
                      .doc =
                          "Answers `exec`. Bytes and values are bounded further by the request." },
    [WIRE_INGESTED] = { "ingested", WIRE_TO_RIDDLE, RUNNING, WIRE_ANSWER, .max_bytes = 16u << 20,
                        .max_nodes = 300000, FIELDS(ingested_fields), .doc = "Answers `ingest`." },
    [WIRE_LISTED] = { "listed", WIRE_TO_RIDDLE, RUNNING, WIRE_ANSWER, .max_bytes = 1u << 20,
                      .max_nodes = 4096, FIELDS(listed_fields), .doc = "Answers `list`." },
    [WIRE_PIECE] = { "piece", WIRE_TO_RIDDLE, RUNNING, WIRE_ANSWER, .max_bytes = 65536,
                     .max_nodes = 32, FIELDS(piece_fields), .doc = "Answers `read`." },
    [WIRE_WRITTEN] = { "written", WIRE_TO_RIDDLE, RUNNING, WIRE_ANSWER, .max_bytes = 65536,
                       .max_nodes = 32, FIELDS(written_fields), .doc = "Answers `write`." },
    [WIRE_IMAGED] = { "imaged", WIRE_TO_RIDDLE, RUNNING, WIRE_ANSWER, .max_bytes = 65536,
                      .max_nodes = 32, FIELDS(imaged_fields),
                      .doc = "Answers `image`. An error names what cannot be kept." },
    [WIRE_DISPLAY] = { "display", WIRE_TO_RIDDLE, RUNNING, WIRE_EVENT,
                       .max_bytes = WIRE_DISPLAY_MAX, .max_nodes = WIRE_DISPLAY_NODES,
                       FIELDS(display_fields),
                       .doc = "A figure, a table, anything that a cell shows." },
    [WIRE_PROGRESS] = { "progress", WIRE_TO_RIDDLE, RUNNING, WIRE_EVENT, .max_bytes = 256,
                        .max_nodes = 4, FIELDS(progress_fields),
                        .doc = "How far an `ingest` has come." },
    [WIRE_ASK] = { "ask", WIRE_TO_RIDDLE, RUNNING, WIRE_REQUEST, WIRE_REPLY, 1u << 20, 10000,
                   FIELDS(ask_fields),
                   .doc = "The running request needs something that only riddle has. "
                          "Another one replaces it." },
    [WIRE_EXPORT] = { "export", WIRE_TO_KERNEL, WIRE_IDLE, WIRE_REQUEST, WIRE_EXPORTED,
                      WIRE_REQUEST_MAX, 16, FIELDS(export_fields),
                      .doc = "A piece of the whole result as a file: `bytes`, if there are any, "
                             "then `exported`. The first request of its kernel." },
    [WIRE_EXPORTED] = { "exported", WIRE_TO_RIDDLE, RUNNING, WIRE_ANSWER, .max_bytes = 65536,
                        .max_nodes = 64, FIELDS(exported_fields), .doc = "Answers `export`." },
    [WIRE_PAUSE] = { "pause", WIRE_TO_KERNEL, WIRE_IDLE | RUNNING, WIRE_EVENT, .max_bytes = 16,
                     .max_nodes = 2,
                     .doc = "Pause the debugged request with this id at its next line. Ignored if "
                            "it has ended or is not debugged." },
    [WIRE_STEPS] = { "steps", WIRE_TO_RIDDLE, WIRE_BUSY, WIRE_EVENT, .max_bytes = WIRE_STEPS_MAX,
                     .max_nodes = WIRE_STEPS_NODES, FIELDS(steps_fields),
                     .doc = "Lines of a debugged `exec`." },
};

const struct wire_message *wire_message(unsigned type)
{
    return type < _WIRE_TYPE_MAX && table[type].name ? &table[type] : NULL;
}
