#ifndef RIDDLE_AGENT_AGENT_H
#define RIDDLE_AGENT_AGENT_H

/*
 * Chats: a person's messages about their data, and what answers them. A chat has data (tables), a
 * history, and a kernel whose variables live from message to message. A turn is one message and its
 * answer: `SQL: …`, `PYTHON: …` and `PLAN: …` run as they are; anything else goes to the model, or,
 * when there is none, to the planner (src/nl). Turns of one chat are answered in the order they
 * came.
 *
 * Nothing here blocks. Callbacks come in the loop's thread and never from within the call that
 * asked for them.
 *
 * What a chat acknowledged is kept: an answer is given once its capsule and its two messages are in
 * the store.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/config.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json.h"
#include "data/catalog.h"
#include "data/records.h"
#include "data/view.h"
#include "sandbox/image_file.h"
#include "llm/llm.h"
#include "net/loop.h"
#include "run/thread_kernel.h"
#include "sandbox/pool/executor.h"
#include "store/store.h"

struct agent;
struct chat;
struct turn;

struct agent_env {
    struct loop *loop;
    const struct config *cfg;
    struct executor *executor;
    struct records *records;       /* of the tables that chats are about */
    struct store *store;           /* NULL: nothing is kept but in memory */
    struct figure_store *figures;  /* NULL: figures are inside answers, whatever their size */
    const struct queries *queries; /* databases that code may ask; NULL: none */
    struct llm *llm;
    /* Where data is found, and who tells of changes to it; NULL: every chat is about `data`. */
    struct data_room *room;
    const struct data_view *data;
};

int agent_create(const struct agent_env *env, struct agent **ret, struct err *err);
/*
 * Ends everything without a word to listeners; before the executor and the model go. NULL is fine.
 */
void agent_stop(struct agent *a);
/*
 * Before agent_stop(): what threads hold becomes images. done comes when that is so, or after
 * max_ms.
 */
void agent_put_aside(struct agent *a, int64_t max_ms, void (*done)(void *arg), void *arg);
/* After agent_stop() and after the store is closed, which still calls back. NULL is fine. */
void agent_destroy(struct agent *a);

/*
 * What somebody has already learnt about the data of this key, so that chats need not look again. A
 * reference is taken.
 */
void agent_keep_catalog(struct agent *a, const char *key, struct catalog *catalog);

/* Moves between hot, warm and cold. */
enum move_state { MOVE_HOT, MOVE_WARM, MOVE_COLD, _MOVE_STATE_MAX };
struct agent_moves {
    uint64_t n[_MOVE_STATE_MAX][_MOVE_STATE_MAX]; /* [from][to] */
    double seconds[_MOVE_STATE_MAX][_MOVE_STATE_MAX];
};
/* Calls for those that there were. */
void agent_each_move(const struct agent_moves *moves,
                     void (*each)(void *arg, const char *from, const char *to, uint64_t n,
                                  double seconds),
                     void *arg);

struct agent_stats {
    size_t chats, hot, warm, turns;
    size_t cold;          /* threads that are files, in memory or not */
    int64_t images_bytes; /* of all files of images */
    uint64_t answered, failed;
    uint64_t evicted; /* kernels with variables given up for others */
    struct agent_moves moves;
};
void agent_stats(struct agent *a, struct agent_stats *ret);

/* ---- chats ---- */

struct chat_spec {
    const char *owner;
    const char *thread_id;            /* NULL: one is made up */
    const char *title;                /* may be NULL */
    const json_t *datasets, *uploads; /* arrays of ids; may be NULL */
    /* An object: it is a sandbox on these terms (run/sandbox_terms.h). NULL: a conversation. */
    const json_t *terms;
    const char *forked_from; /* whose messages the store copies; may be NULL */
};

/* chat is NULL when err is not. It is the callee's reference: chat_unref(). */
typedef void (*chat_fn)(struct chat *chat, const struct err *err, void *arg);

/* Finds the data at once (NOT_FOUND), then stores the new chat. */
int chat_create(struct agent *a, const struct chat_spec *spec, chat_fn done, void *arg,
                struct err *err);
/* NOT_FOUND comes by the callback. */
int chat_open(struct agent *a, const char *owner, const char *thread_id, chat_fn done, void *arg,
              struct err *err);
/* A chat that is in memory already, or NULL; borrowed. */
struct chat *chat_find(struct agent *a, const char *owner, const char *thread_id);
struct chat *chat_ref(struct chat *c);
void chat_unref(struct chat *c); /* NULL is fine */

const char *chat_id(const struct chat *c);
const struct data_view *chat_data(const struct chat *c); /* NULL while it has none */
bool chat_is_hot(const struct chat *c);                  /* it has a kernel that is awake */
bool chat_has_kernel(const struct chat *c);              /* awake or frozen */

/* Where its kernel is, for people. */
struct chat_sandbox {
    const char *state;         /* hot, warm (frozen) or cold (there is none) */
    struct kernel_moved moved; /* how it came there */
    bool has_variables;
    int64_t bytes; /* of its image; 0: it has none */
    const char
        *refusal; /* why it could not be written to a file; NULL: it could, or nobody tried */
};
void chat_sandbox(const struct chat *c, struct chat_sandbox *ret);
/* What its image lacks. Reads the file: not for lists of threads. */
void chat_image_notes(const struct chat *c, struct image_notes *ret);
/* Freezes its kernel. CONFLICT while a turn is under way or when it has no kernel that is awake. */
int chat_freeze(struct chat *c, struct err *err);
/*
 * Writes its kernel to a file and ends it; as chat_freeze(). Why that was not possible is in
 * chat_sandbox().
 */
int chat_cool(struct chat *c, struct err *err);
/* Brings its kernel up, thawed, from its image, or new. */
int chat_wake(struct chat *c, struct err *err);
/*
 * Calls once, from the loop, when its kernel is not on its way from one state to another, or when
 * the agent ends. The chat is held until then.
 */
void chat_when_settled(struct chat *c, void (*done)(void *arg), void *arg);
/*
 * A new chat of this id with the same data, the same history and the same variables: a kernel that
 * lives goes on, and the fork's is made from a copy of it. CONFLICT, at once or later, while a turn
 * is under way; UNAVAILABLE when there is no room for images.
 *
 * fork is NULL when err is not, and is the callee's reference. not_kept says why variables are not
 * in it; NULL: they are, or there were none. Its next answer tells of that, too.
 */
typedef void (*chat_fork_fn)(struct chat *fork, const char *not_kept, const struct err *err,
                             void *arg);
int chat_fork(struct chat *c, const char *id, const char *title, chat_fork_fn done, void *arg,
              struct err *err);

/*
 * Checkpoints: images of the chat that are kept beside its present one, CHECKPOINTS_MAX at most.
 * Each is {checkpoint_id, name, created_at, message_count, bytes}. They are removed with the chat
 * and when its data changes.
 */
#define CHECKPOINTS_MAX 8
typedef void (*chat_checkpoint_fn)(json_t *answer, const struct err *err, void *arg); /* borrowed */
/* [{…}], the oldest first. New reference; NULL: out of memory. */
json_t *chat_checkpoints(const struct chat *c);
/* name may be NULL. As chat_fork(); CONFLICT also when variables cannot be kept or it has many. */
int chat_checkpoint(struct chat *c, const char *name, chat_checkpoint_fn done, void *arg,
                    struct err *err);
/*
 * Gives the kernel up and goes on from the checkpoint. The answer is the checkpoint with
 * messages_after: how many later messages are history only. NOT_FOUND; CONFLICT while a turn is
 * under way.
 */
int chat_rollback(struct chat *c, const char *id, chat_checkpoint_fn done, void *arg,
                  struct err *err);
int chat_remove_checkpoint(struct chat *c, const char *id, struct err *err);

/*
 * What a file of the thread has to say: {thread_id, datasets, file_ids, data, image_bytes,
 * not_kept}. Its kernel becomes its image, if it has variables; not_kept says why it could not.
 * As chat_fork().
 */
int chat_export(struct chat *c, chat_checkpoint_fn done, void *arg, struct err *err);
/* Of a chat that is cold, or else CONFLICT. */
int chat_open_image(const struct chat *c, int *ret_fd, int64_t *ret_bytes, struct err *err);
/* Makes a file for an image that comes from outside; the next start removes it. A descriptor. */
#define AGENT_PATH_SIZE 4400
int agent_begin_image(struct agent *a, int64_t bytes, char ret[AGENT_PATH_SIZE], struct err *err);
/*
 * The variables of a chat without any: a link to the file, which only kernels in their jails read.
 * `data` is that of chat_export(). CONFLICT unless the thread has the same data and this server
 * has what the image is a difference to.
 */
int chat_import_image(struct chat *c, const char *file, const char *data, struct err *err);
/* Appends [{role, content}], CHAT_IMPORT_MAX at most, which a thread elsewhere had. */
#define CHAT_IMPORT_MAX 16
int chat_import_messages(struct chat *c, const json_t *messages,
                         void (*done)(const struct err *err, void *arg), void *arg,
                         struct err *err);

int64_t chat_message_count(const struct chat *c);
/* Of the image of a thread that is cold, in memory or not; some seconds old at most. 0: none. */
int64_t agent_image_bytes(struct agent *a, const char *owner, const char *thread_id);
/*
 * What the image of a thread that is not in memory lacks, as chat_image_notes(), and since when
 * there is one; 0: there is none.
 */
void agent_image_notes(const struct agent *a, const char *owner, const char *thread_id,
                       struct image_notes *ret, int64_t *ret_since_wall_ms);
/* The last move of a thread that is not in memory. False if it is not known any more. */
bool agent_last_move(const struct agent *a, const char *owner, const char *thread_id,
                     struct kernel_moved *ret);
/* Of all of the owner's, checkpoints included; those that share their bytes count once. */
int64_t agent_owner_image_bytes(struct agent *a, const char *owner);

/* Other data from the next turn on. What Python holds is kept only if the data is the same. */
int chat_set_data(struct chat *c, const json_t *datasets, const json_t *uploads, struct err *err);
/*
 * These data sets from now on: found at once (NOT_FOUND), used as chat_refresh_data() says. done
 * comes when what can be done now is done. Who keeps the thread's record stores them.
 */
int chat_change_data(struct chat *c, const json_t *datasets, const json_t *uploads,
                     void (*done)(void *arg), void *arg, struct err *err);
/*
 * Finds the data again, because files were added or removed: now, or before the next turn when one
 * is under way. A kernel with variables is kept, and new files are written into its /workspace; any
 * other is given up. done (may be NULL) comes when what can be done now is done.
 */
void chat_refresh_data(struct chat *c, void (*done)(void *arg), void *arg);
/*
 * Where code of this chat finds a file of its data, by the file's path on the host: "/data/x", or
 * "/workspace/x" in a kernel that is older than the file. False when the chat has no such file; ""
 * and a note when the kernel has no room for it.
 */
bool chat_file_place(const struct chat *c, const char *path, char ret[KERNEL_PLACE_SIZE],
                     const char **ret_note);
bool chat_is_busy(const struct chat *c); /* a turn is under way or waits */

/*
 * Gets the kernel now rather than with the first code, and learns about the data. done comes when
 * it is there, or after wait_ms. Before the first message only.
 */
void chat_warm(struct chat *c, int64_t wait_ms, void (*done)(void *arg, bool is_hot), void *arg);

/*
 * Stops its turns, gives up its kernel, and removes it from the store; done (may be NULL) comes
 * when it is gone.
 */
int chat_delete(struct agent *a, const char *owner, const char *thread_id, store_done_fn done,
                void *arg, struct err *err);

/* ---- what code left in /workspace ---- */

/* NOT_FOUND by the callback when the thread has no kernel (any more). See thread_kernel.h. */
int chat_read_file(struct chat *c, const char *path, int64_t offset, kernel_file_fn done, void *arg,
                   struct kernel_file_op **ret, struct err *err);
int chat_list_files(struct chat *c, kernel_list_fn done, void *arg, struct kernel_file_op **ret,
                    struct err *err);

int chat_write_file(struct chat *c, const char *path, const void *data, size_t len, bool append,
                    kernel_file_fn done, void *arg, struct kernel_file_op **ret, struct err *err);
int chat_remove_file(struct chat *c, const char *path, kernel_file_fn done, void *arg,
                     struct kernel_file_op **ret, struct err *err);
/* {files, variables, globals}. */
int chat_inspect(struct chat *c, kernel_list_fn done, void *arg, struct kernel_file_op **ret,
                 struct err *err);

/* ---- sandboxes: threads without a conversation (sandboxes.c) ---- */

/* Its terms; NULL: it is a conversation. Borrowed. */
const struct sandbox_terms *chat_terms(const struct chat *c);
/* {run_id, status, execution_time, debug} of the last execution; NULL: there was none. Borrowed. */
const json_t *chat_last_execution(const struct chat *c);
/* The `debug` of a result as clients see it: with `recent_logs`, and with all logs or without. */
json_t *execution_debug_info(const json_t *debug, bool with_logs);
/* When it is deleted unless it is used: in milliseconds from now. */
int64_t chat_expires_in_ms(const struct chat *c);

/* Executions of an owner's sandboxes since the server started. */
struct sandbox_stats {
    size_t active; /* sandboxes in memory */
    uint64_t executions, succeeded;
    double seconds; /* of all executions */
    struct agent_moves moves; /* of the owner's threads and sandboxes; without their times */
};
void agent_sandbox_stats(const struct agent *a, const char *owner, struct sandbox_stats *ret);
void agent_count_execution(struct agent *a, const char *owner, bool ok, double seconds);

/* ---- turns ---- */

/*
 * Events: status {stage, text}, token {text}, tool_call {id, name, input}, step {stream, text},
 * code_run {language, code, output, exec_ms, status, error?}, image {png, …}. data is borrowed. Of
 * an execution that is debugged also step {step, line, …} and status {stage: debugging | paused |
 * running, debug_id, …}; of code that waits for input(), status {stage: input, prompt}
 * (docs/debugger.md).
 *
 * The answer has what every form of the API shows: thread_id, run_id, assistant_message, status,
 * result, details, code_runs, images, files, chart, reading, choices, suggestions, flagged,
 * state_lost, model, usage, llm_calls, timings_ms. Borrowed.
 */
struct turn_listener {
    void (*event)(void *arg, const char *type, json_t *data); /* may be NULL */
    /*
     * The answer that done will come with, unless it cannot be stored: of an execution, while the
     * store syncs. May be NULL.
     */
    void (*made)(void *arg, json_t *answer);
    void (*done)(void *arg, json_t *answer, const struct err *err);
    void *arg;
};

struct chat_message {
    const char *text;
    /* Of each run of the turn; 0: RUN_TIMEOUT_SECONDS. */
    int64_t timeout_ms;
    /* [{role, content}]: the conversation before it; NULL: what the thread remembers. */
    const json_t *earlier;
};

/*
 * VALIDATION for an empty or too long message. MAX_INPUT_CHARS is of questions; `SQL: …` and
 * `PYTHON: …` may be as long as code.
 */
int chat_check_message(const struct config *cfg, const char *text, struct err *err);
/* Whether it runs as it is: `SQL: …`, `PYTHON: …`, `PLAN: {…}`. */
bool chat_is_code(const char *text);
/* UNAVAILABLE when too many wait; VALIDATION as chat_check_message(). */
int chat_send(struct chat *c, const struct chat_message *message,
              const struct turn_listener *listener, struct turn **ret, struct err *err);

/*
 * Code for the thread's kernel, with limits of its own. It waits for its turn as messages do, and
 * is no part of the conversation.
 */
struct chat_code {
    const char *language; /* sql or python */
    const char *code;     /* at most CODE_MAX_BYTES (limits.h) */
    int64_t timeout_ms, max_rows, max_output_bytes;
    const json_t *context; /* variables that Python sets first; may be NULL */
    const json_t *debug;   /* it is stepped through: docs/debugger.md; may be NULL */
};
/*
 * As chat_send(). FEATURE_DISABLED when Python is switched off. The answer has thread_id, run_id,
 * status, result, files, container_state, state_lost and timings_ms.
 */
int chat_execute(struct chat *c, const struct chat_code *code, const struct turn_listener *listener,
                 struct turn **ret, struct err *err);

/* ---- debug.c: executions that are stepped through ---- */

/*
 * A debugger that waits for the next Python execution of a sandbox that somebody else starts. begun
 * comes before that execution runs; afterwards nobody waits any more.
 */
struct chat_debugger {
    const json_t *options; /* as chat_code.debug */
    void (*begun)(void *arg, struct turn *t, const char *code);
    void *arg;
};
/* CONFLICT when one waits already. */
int chat_await(struct chat *c, const struct chat_debugger *d, struct err *err);
void chat_await_end(struct chat *c, const void *arg); /* also where it does not wait */

/*
 * A command for the debugged execution with this id: {command, …}. done comes once, from within
 * for those that need no answer of the kernel; value is borrowed. NOT_FOUND; CONFLICT for one that
 * needs a pause when there is none, or that another one is under way; UNAVAILABLE by the callback
 * when the execution ended before it was answered.
 */
typedef void (*debug_fn)(void *arg, const json_t *value, const struct err *err);
int chat_debug(struct chat *c, const char *debug_id, const json_t *command, debug_fn done,
               void *arg, struct err *err);
/* The callback with this arg does not come any more. */
void chat_debug_forget(struct chat *c, const void *arg);

/* ---- input.c ---- */

/* A line for input() of the code that runs. CONFLICT when none waits. */
int chat_input(struct chat *c, const char *text, struct err *err);

/* The one that runs or runs next; NULL: none. Borrowed. */
struct turn *chat_turn(const struct chat *c);
/* Stops all that run and wait; how many. */
size_t chat_stop(struct chat *c);

/*
 * Listens to a turn that is under way. The first event, a status, tells what was asked: {stage:
 * "following", run_id, created_at, message or language and code, skipped}. It and what came so far
 * are told from within; of long turns the oldest output and figures may be missing. UNAVAILABLE
 * when too many listen.
 */
int turn_follow(struct turn *t, const struct turn_listener *listener, struct err *err);
/* The listener with this arg hears no more. The turn goes on. */
void turn_leave(struct turn *t, const void *arg);
/* The same, and the turn is stopped if nobody else listens. What came of it is still stored. */
void turn_drop(struct turn *t, const void *arg);
/* Stops it; done still comes, with status cancelled. */
void turn_cancel(struct turn *t);
/* The same without patience: the kernel that runs its code is killed, and variables go with it. */
void turn_kill(struct turn *t);

#endif
