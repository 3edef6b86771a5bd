#ifndef RIDDLE_AGENT_AGENT_IMPL_H
#define RIDDLE_AGENT_AGENT_IMPL_H

/*
 * What the files of the agent share: chats (chat.c), turns (turn.c, turn_end.c) and who answers
 * (answer_*.c).
 */

#include "agent/agent.h"
#include "data/catalog.h"
#include "agent/reading.h"
#include "agent/turn_log.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/limits.h"
#include "run/sandbox_terms.h"
#include "run/thread_kernel.h"

#define TURNS_QUEUED_MAX 32 /* of one chat */
#define LISTENERS_MAX 16    /* of one turn */
#define TURN_ARENA_BYTES (64u << 20)
#define CATALOGS_KEPT 64

/* ---- chat.c ---- */

struct chat {
    struct agent *agent;
    struct chat *next, *prev;
    unsigned refs;
    char id[THREAD_ID_MAX + 1];
    char owner[64];
    json_t *datasets, *uploads;
    json_t *next_data; /* {datasets?, uploads?} of the next message; NULL: no other than now */
    struct data_view data;
    bool has_data, deleted;
    struct catalog *catalog; /* NULL until a turn needed it */
    json_t *history;         /* [{role, content, calls?}], the newest last, as many as the window */
    int64_t message_count;
    json_t *last_plan; /* of the last answer, for follow-ups */
    char *last_question;
    struct thread_kernel *kernel;
    bool data_is_gone;  /* something that its kernel may have read was deleted: it gets no image */
    bool is_branch;     /* it was forked from a kernel that lived, and has no image yet */
    bool is_put_aside;  /* the server stops */
    bool refresh_due;   /* files came or went during a turn */
    struct turn *turns; /* the first one runs */
    struct settle_waiter *settling; /* who waits for its kernel to settle */
    int64_t used_ms;
    struct sandbox_terms *terms;   /* NULL: a conversation */
    int64_t born_wall_ms;          /* of a sandbox */
    json_t *last_execution;        /* … and its last one */
    struct chat_debugger debugger; /* of its next one; .begun is NULL: none waits */
};

struct catalog_entry {
    char *key;
    struct catalog *catalog;
    int64_t used_ms;
};

struct agent {
    struct agent_env env;
    struct chat *chats;
    struct catalog_entry catalogs[CATALOGS_KEPT];
    size_t n_catalogs;
    struct learning *learning; /* under way */
    struct keeping *keeping;   /* of what cells left: outputs.c */
    struct loop_timer *sweep;
    char started_at[CLOCK_ISO_SIZE];
    struct {
        size_t n, cold;           /* files, and those that threads are now */
        int64_t bytes, at_ms;     /* of all of them, when they were last looked at */
        struct image_size *sizes; /* of those n, sorted */
    } images;                     /* image_quota.c */
    struct {
        void (*done)(void *arg);
        void *arg;
        int64_t until_ms;
        struct loop_timer *timer;
    } aside; /* of agent_put_aside() */
    struct agent_stats stats;
    struct owner_stats *owners;     /* sandboxes.c */
    struct remembered_move *moves;  /* moves.c */
    int64_t started_ms, expired_ms; /* … */
    bool closing;
};

/* ---- data: chat.c, keeper.c, learn.c ---- */

/* What a chat of this owner is about, by the room of the agent. As data_view_find(). */
int agent_find_data(struct agent *a, const char *owner, const char *thread_id,
                    const json_t *datasets, const json_t *uploads, struct data_view *ret,
                    struct err *err);
/* Files of a thread went or changed while it was not in memory: its image goes. */
void agent_forget_files(struct agent *a, const char *owner, const char *thread_id);
/* Learns what these tables hold ahead of the first question about them. */
void agent_learn(struct agent *a, const char *owner, const json_t *datasets, const json_t *uploads);

/* ---- outputs.c ---- */

/* A cell has ended: keeps what it saved to /data/outputs. files: what is in its /workspace now. */
void outputs_keep(struct chat *c, const json_t *files);
void outputs_close(struct agent *a);

/* ---- keeper.c ---- */

int keeper_begin(struct agent *a, struct err *err);
/* Tells who waits that the kernel has come to rest, if it has. */
void keeper_tell_settled(struct chat *c);
/* The agent ends: calls who waits, and has nobody wait any more. */
void keeper_forget(struct chat *c);
/* A chat that was read from the store goes on with its image, if there is one. */
void keeper_adopt(struct chat *c);
void keeper_forget_data(struct agent *a, const char *owner, const char *id);
void keeper_forget_chat(struct chat *c);
void keeper_remove_images(struct agent *a, const char *owner, const char *id);
/*
 * The image of a chat that is cold, for another one: a link that the next start removes, until
 * keeper_take_link() makes it that one's image.
 */
int keeper_link(const struct chat *from, const struct chat *to, struct err *err);
int keeper_link_file(const char *path, const struct chat *to, struct err *err);
int keeper_take_link(struct chat *c, struct err *err);
/*
 * A kernel for another chat that goes on as this one's is, which lives: thread_kernel_branch(). Its
 * first image is written when it rests; until then there is an empty file under the name of such a
 * link, for the next start to tell of.
 */
int keeper_branch(struct chat *from, struct chat *to, struct err *err);
/*
 * Names beside the image: they go with the thread and its data. CONFLICT when the chat can have no
 * image.
 */
#define IMAGE_PATH_SIZE 4400
int keeper_image_file(const struct chat *c, const char *suffix, char ret[IMAGE_PATH_SIZE],
                      struct err *err);
/* … with the thread only. */
int keeper_thread_file(const struct chat *c, const char *suffix, char ret[IMAGE_PATH_SIZE],
                       struct err *err);
#define CHECKPOINT_MARK ".cp-" /* in the names of checkpoints and of their index */
void keeper_remove_checkpoints(const struct chat *c);
/* Names of images: thread-data-owner-, then what they were made with, each in hexadecimal. */
#define IMAGE_THREAD_HEX 32
#define IMAGE_DATA_HEX 16
#define IMAGE_OWNER_HEX 16
#define IMAGE_OWNER_AT (IMAGE_THREAD_HEX + 1 + IMAGE_DATA_HEX + 1)
#define IMAGE_PARTIAL ".partial" /* at the end of what is not complete */
/* How they begin; of the owner: with the id "". */
bool keeper_thread_name(const char *owner, const char *id, char ret[HASH_HEX_SIZE]);
/* A file that says that an image went while its thread was not in memory; its size says why. */
enum image_loss { LOST_DATA_CHANGED, LOST_MID_FORK, LOST_TO_QUOTA };
#define IMAGE_LOST_TO_QUOTA "it was the oldest of the images of its owner beyond IMAGE_QUOTA_BYTES"
void keeper_leave_lost(const struct agent *a, const char *thread, enum image_loss loss);
/*
 * Gives up kernels that nobody has used for long, and the least recently used ones beyond
 * RIDDLE_HOT_THREADS.
 */
void agent_trim(struct agent *a, const struct chat *keep);
/* Now, whatever is under way. */
int chat_replace_data(struct chat *c, const json_t *datasets, const json_t *uploads,
                      struct err *err);
/* What chat_refresh_data() put off. */
void chat_refresh_due(struct chat *c);
/* calls: of history_of(); may be NULL */
void chat_remember(struct chat *c, const char *role, const char *content, const json_t *calls);
/*
 * The conversation is what the client says it was. Entries that the thread knows keep their calls.
 */
void chat_adopt(struct chat *c, const json_t *earlier);
struct catalog *agent_known_catalog(struct agent *a, const char *key); /* a reference, or NULL */

/* ---- image_quota.c ---- */

void keeper_stats(struct agent *a, struct agent_stats *ret);
/* UNAVAILABLE when images, with so many bytes more, take all the room that they may have. */
int keeper_check_room(struct agent *a, int64_t bytes, struct err *err);
/*
 * The chat has a new image: the oldest of its owner beyond IMAGE_QUOTA_BYTES go, and their threads
 * tell. The newest stays in any case.
 */
void keeper_trim_images(const struct chat *c);

/* ---- fork.c ---- */

/*
 * The chat's present state as its image: has_image, or refusal says why not; NULL: it has no
 * variables. CONFLICT, at once or later, while a turn is under way; UNAVAILABLE without room.
 */
typedef void (*chat_image_fn)(bool has_image, const char *refusal, const struct err *err,
                              void *arg);
int chat_take_image(struct chat *c, chat_image_fn done, void *arg, struct err *err);

/* ---- checkpoints.c ---- */

/* A chat that was read from the store: checkpoints of other data than it has now go. */
void checkpoints_adopt(const struct chat *c);

/* ---- sandboxes.c ---- */

/* Limits and policy of the code of a chat. */
void chat_limits(const struct chat *c, struct sandbox_limits *ret);
enum python_policy chat_policy(const struct chat *c);
/*
 * Makes the chat a sandbox on these terms, as asked for or as the store has them. UNAVAILABLE when
 * its owner has too many.
 */
int chat_set_terms(struct chat *c, const json_t *terms, int64_t born_wall_ms, struct err *err);
/* An execution ended; answer as listeners get it. */
void chat_note_execution(struct chat *c, const json_t *answer);
/* Deletes sandboxes that are too old or were not used for too long. */
void agent_expire_sandboxes(struct agent *a);
bool agent_has_sandboxes(const struct agent *a);
void agent_forget_stats(struct agent *a);
void agent_count_move(struct agent *a, const char *owner, size_t from, size_t to);

/* ---- moves.c ---- */

void moves_note(struct chat *c, const struct kernel_moved *moved);
void moves_forget(struct agent *a);

/* ---- turn.c ---- */

/* A piece of code that a turn ran and shows. */
struct turn_run {
    const char *language; /* sql, plan, python */
    json_t *plan;
    const char *code;
    bool among_frames; /* SQL that is tried again where DataFrames are */
};

typedef void (*turn_next_fn)(struct turn *t);

/* Somebody who listens. */
struct turn_ear {
    struct turn_ear *next;
    struct turn_listener listener;
};

struct turn {
    struct chat *chat;
    struct turn *next;
    struct arena arena;
    char run_id[ID_UUID_SIZE], created_at[CLOCK_ISO_SIZE];
    const char *message;   /* NULL: it only executes code */
    json_t *earlier;       /* of chat_message */
    json_t *data;          /* from here on the thread has this; NULL: what it has */
    struct chat_code code; /* what is executed; its limits are those of all code of the turn */
    struct turn_ear *ears;
    struct turn_log log;
    json_t *answer; /* of an execution, from when its capsule is handed to the store */
    bool cancelled, timed_out, started, finishing;
    bool streamed; /* words went out as they came */
    int64_t begun_us, call_begun_us, deadline_ms;
    struct loop_timer *timer;

    /* What came of it. */
    const char *mode; /* sql, plan, python, chat */
    const char *status;
    struct buf text;
    json_t *plan;
    const char *sql, *python;
    json_t *result;  /* of the last code that ran; NULL while none did */
    json_t *results; /* every result that text may quote */
    json_t *code_runs, *files;
    struct figures *figures; /* of all its runs; NULL until there is one */
    size_t n_shown;          /* of its displays: those of earlier runs */
    json_t *extra;           /* reading, chart, choices, suggestions, warning */
    struct err failure;      /* why there is no answer */
    bool failed, stored;
    json_t *usage;

    /* The code under way. */
    struct turn_run run;
    json_t *first_failure; /* of SQL that is tried again */
    turn_next_fn after_run;

    /* Time. */
    json_t *llm_ms, *exec_ms;
    int64_t first_token_us, restore_us;
    unsigned n_llm;

    /* Learning about the tables. */
    turn_next_fn after_catalog;
    struct learning *learning;
    struct turn *next_learner;

    /* verified.c */
    json_t *examples; /* [{run_id, question, same, plan?, sql?, python?}], the same one first; NULL:
                         not looked for */
    struct lookup *lookup;

    struct turn_debug *debug; /* debug.c; NULL: it is not debugged */
    struct {
        bool is_open;    /* its code waits for a line … */
        uint32_t ask;    /* … as the reply to this question */
        int64_t left_ms; /* of the turn's time, which stands meanwhile; 0: it has no limit */
    } input;

    struct reading *reading; /* answer_planner.c */
    const char *planner_note;
    struct model_talk *talk; /* answer_model.c */
    /* history.c: calls of the model and what they answered; NULL when there were none */
    json_t *transcript;
};

void turn_begin(struct turn *t);
void turn_begin_first(struct chat *c); /* soon: the turn whose turn it is */
struct run_request turn_request(const struct turn *t);
void turn_free(struct turn *t);
/* Tells the listener; taken is released. */
void turn_say(struct turn *t, const char *type, json_t *taken);
void turn_stage(struct turn *t, const char *stage, const char *text);
/* The stages of code that is about to run: validating, executing. */
void turn_stage_run(struct turn *t, const char *language);
/* Runs code, shows it, and calls next; the outcome is in result. */
void turn_run_code(struct turn *t, const struct turn_run *run, turn_next_fn next);
/* Shows code that ran by turn_query(). */
void turn_show_run(struct turn *t, const char *language, const char *code, json_t *plan,
                   double exec_ms);
/* After waiting for anything: true if the turn was stopped meanwhile, and then it has ended. */
bool turn_should_stop(struct turn *t);
/* Runs SQL whose result only the caller sees. */
int turn_query(struct turn *t, const char *sql, int64_t max_rows, kernel_job_fn done,
               struct err *err);
/* The same for what the catalog would know if it were larger, with the time of its queries. */
int turn_look_up(struct turn *t, const char *sql, int64_t max_rows, kernel_job_fn done,
                 struct err *err);
/* After code: adds the time that it waited for a sandbox. */
void turn_count_wait(struct turn *t);
/* Plan → SQL by what the catalog says. */
int turn_compile(struct turn *t, const json_t *plan, const char **ret_sql, struct err *err);
void turn_set_plan(struct turn *t, json_t *plan);
/* No answer: what went wrong. Ends the turn. */
void turn_fail(struct turn *t, const struct err *err);
/*
 * The words in text are no answer to what was asked: status rejected, with this error. The caller
 * finishes the turn.
 */
void turn_reject(struct turn *t, const char *type, const char *message);
/* The answer is complete: stores it and tells it. */
void turn_finish(struct turn *t);
/* A sentence about the result, by no model. */
void turn_summarise(struct turn *t);
const struct config *turn_cfg(const struct turn *t);

void turn_start_timer(struct turn *t, int64_t limit_ms);

/* ---- input.c ---- */

bool input_ask(struct turn *t, uint32_t id, const char *what, const json_t *args);

/* ---- debug.c ---- */

int debug_begin(struct turn *t, struct err *err); /* before its code runs, if it is debugged */
void debug_steps(void *turn, json_t *steps);
bool debug_ask(void *turn, uint32_t id, const char *what, const json_t *args);
void debug_end(struct turn *t); /* whoever waits for an answer is told that there is none */

/* ---- run_text.c ---- */

/* What a run printed and gave, for people; bounded. New reference. */
json_t *run_text(const json_t *result);

/* ---- learn.c ---- */

/* The catalog of the chat's data, then next. */
void turn_need_catalog(struct turn *t, turn_next_fn next);
void turn_forget_learning(struct turn *t);
void agent_stop_learning(struct agent *a); /* gives the kernels back */
void agent_forget_learning(struct agent *a);

/* ---- verified.c ---- */

/* The verified questions that are alike, into examples; then next. */
void turn_need_examples(struct turn *t, turn_next_fn next);
void turn_forget_lookup(struct turn *t);
/* Runs the code of the same question, then next. False: there is none. */
bool verified_run(struct turn *t, turn_next_fn next);
json_t *verified_origin(const struct turn *t); /* {run_id, question} of that one; new reference */
/* Puts alike questions in front of a list of texts. */
void verified_offer(const struct turn *t, json_t *list);

/* ---- who answers ---- */

/* SQL:, PYTHON: and PLAN: run as they are; false if the message is none of these. */
bool answer_directly(struct turn *t);
/* Runs the code of an execution. */
void answer_by_code(struct turn *t);
void answer_by_planner(struct turn *t);
/* Questions about the columns and tables themselves; false if it is none of these. */
bool answer_by_schema(struct turn *t);

/* ---- answer_python.c ---- */

/* Whether a question asks for Python rather than for an answer in any way. */
bool message_wants_python(const char *message);
/*
 * Whether it names a method of statistics that no plan expresses: what the planner makes of the
 * other words would be the answer to another question. about: catalog_describe().
 */
bool message_needs_more_than_a_query(const char *message, const json_t *about);
/* A cell that does what the plan says; sql is the plan's. */
int python_of_plan(const json_t *plan, const char *sql, const char *database, struct buf *b,
                   struct err *err);
void answer_by_model(struct turn *t);
void model_talk_destroy(struct turn *t);
void model_cancel(struct turn *t);
/* A display of the code under way: the model is shown figures as they were drawn, whatever their
 * size in the answer. */
void model_keep_figure(struct turn *t, const json_t *display);

#endif
