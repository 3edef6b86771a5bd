#ifndef RIDDLE_AGENT_AGENT_IMPL_H
#define RIDDLE_AGENT_AGENT_IMPL_H

/* What the files of the agent share: chats (chat.c), their kernels (bench.c), turns (turn.c) and who answers (answer_*.c). */

#include "agent/agent.h"
#include "agent/catalog.h"
#include "agent/reading.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"

#define TURNS_QUEUED_MAX 32        /* of one chat */
#define TURN_ARENA_BYTES (64u << 20)
#define TURN_TEXT_MAX (1u << 20)
#define CODE_MAX_BYTES (1u << 20)
#define CATALOGS_KEPT 64
#define CATALOG_TABLES_MAX 64

/* ---- bench.c: the kernel of a chat ---- */

/* result is borrowed; err is set instead when there was no kernel to run it. */
typedef void (*bench_done_fn)(void *arg, const struct run_result *result, const struct err *err);

struct bench_job {
    enum run_kind kind;
    char *code;
    int64_t timeout_ms, max_rows, max_output_bytes;
    struct run_events events;
    bench_done_fn done;
    void *arg;
};

/*
 * Python gets a kernel that the chat keeps; SQL runs there, too, once it is there, because it may ask about DataFrames. Until then SQL runs
 * in a kernel that the executor lends for one statement, and never waits for Python to come up.
 */
struct bench {
    struct lease *lease;   /* kept */
    struct lease *lent;    /* while a statement waits or runs */
    struct lease *running; /* the one of these that runs the job */
    bool ready;            /* the kept one is there */
    bool has_state;  /* a cell ran in it */
    bool lost;       /* since the last answer, variables went away */
    const char *lost_why;
    bool has_job, admitted, waits; /* a job; it may run; it waits for others to end */
    struct chat *next_waiting;
    struct bench_job job;
    struct err failed; /* why the job could not begin */
    void (*when_ready)(void *arg, bool is_hot);
    void *when_ready_arg;
    struct loop_timer *patience;
    bool stale;            /* the kept one was made before the chat's data changed: statements go elsewhere */
    json_t *carried;       /* path on the host → {where, note?}: files that came after it */
    struct carry *carry;   /* files on their way into it */
    struct chat_op *ops, **ops_end; /* files to be read or written, the first one now if op_busy */
    bool op_busy, pumping;
    unsigned epoch;        /* counts the kept ones */
    int64_t since_us, restore_us; /* of the last kernel that had to be got; -1: it was there */
    int64_t ahead_us;             /* how long the kernel took that was got ahead of its first code; 0: none was */
};

void bench_init(struct chat *c);
/* One job at a time. job->code is copied. done never comes from within. */
int bench_run(struct chat *c, const struct bench_job *job, struct err *err);
/* Gets Python's kernel ahead of the first cell, without waiting for it. */
void bench_prepare(struct chat *c);
void bench_interrupt(struct chat *c);
/* Ends the job at once, and the kernel that it ran in; its done comes from within. */
void bench_kill(struct chat *c);
/* Forgets the job and gives the kernel up. why (static text, or NULL) is told with the next answer if variables went with it. */
void bench_drop(struct chat *c, const char *why);
bool bench_is_hot(const struct chat *c);
/* Calls once when the kernel that was prepared is there or cannot be had, or after wait_ms; soon if there is none to wait for. */
void bench_when_ready(struct chat *c, int64_t wait_ms, void (*fn)(void *arg, bool is_hot), void *arg);

/* A job that waited for files can begin. */
void bench_go_on(struct chat *c);
/* The kept kernel is gone or about to be, whatever was in it. */
void bench_lose_kernel(struct chat *c, const char *why);

/* ---- bench_files.c: files of its /workspace ---- */

bool bench_files_busy(const struct chat *c); /* no cell may begin */
void bench_files_wake(struct chat *c);       /* cells have ended, or the kernel is gone */
void bench_files_finish(struct chat *c);     /* forgets everything, without a word */
/* The data must stay until done. */
int bench_write_file(struct chat *c, const char *path, const void *data, size_t len, bool append, chat_file_fn done, void *arg,
                     struct err *err);
/* Writes those of the files that the kernel lacks into its /workspace. Cells wait for it. */
void bench_carry(struct chat *c, const struct sandbox_file *files, size_t n);
/* Calls when nothing is being carried any more. */
void bench_when_carried(struct chat *c, void (*done)(void *arg), void *arg);

/* ---- chat.c ---- */

struct chat {
    struct agent *agent;
    struct chat *next, *prev;
    unsigned refs;
    char id[CHAT_ID_MAX + 1];
    char owner[64];
    json_t *datasets, *uploads;
    struct agent_data data;
    bool has_data, deleted;
    struct catalog *catalog; /* NULL until a turn needed it */
    json_t *history;         /* [{role, content, code?}], the newest last, as many as the window */
    int64_t message_count;
    json_t *last_plan;       /* of the last answer, for follow-ups */
    char *last_question;
    struct bench bench;
    bool refresh_due;   /* files came or went during a turn */
    struct turn *turns; /* the first one runs */
    int64_t used_ms;
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
    /*
     * Code of at most so many chats runs at once: more would only make all of them slow, and run into their time limits. A chat has one
     * place in the queue, whatever it has to run.
     */
    size_t n_jobs, jobs_max;
    struct chat *waiting, **waiting_end;
    struct loop_timer *sweep;
    struct agent_stats stats;
    bool closing;
};

/* Gives up kernels that nobody has used for long, and the least recently used ones beyond RIDDLE_HOT_THREADS. */
void agent_trim(struct agent *a, const struct chat *keep);
/* What chat_refresh_data() put off. */
void chat_refresh_due(struct chat *c);
void chat_remember(struct chat *c, const char *role, const char *content, const char *code);
struct catalog *agent_known_catalog(struct agent *a, const char *key); /* a reference, or NULL */

/* ---- turn.c ---- */

/* A piece of code that a turn ran and shows. */
struct turn_run {
    const char *language; /* sql, plan, python */
    json_t *plan;
    const char *code;
    bool among_frames; /* SQL that is tried again where DataFrames are */
};

typedef void (*turn_next_fn)(struct turn *t);

struct turn {
    struct chat *chat;
    struct turn *next;
    struct arena arena;
    char run_id[ID_UUID_SIZE], created_at[CLOCK_ISO_SIZE];
    const char *message;
    struct turn_listener listener;
    bool dropped, cancelled, timed_out, started, finishing;
    bool streamed; /* words went out as they came */
    int64_t begun_us, call_begun_us, deadline_ms;
    struct loop_timer *timer;

    /* What came of it. */
    const char *mode; /* sql, plan, python, chat */
    const char *status;
    struct buf text;
    json_t *plan;
    const char *sql, *python;
    json_t *result; /* of the last code that ran; NULL while none did */
    json_t *results; /* every result that text may quote */
    json_t *code_runs, *images, *files;
    json_t *extra; /* reading, chart, choices, suggestions, warning */
    struct err failure; /* why there is no answer */
    bool failed;
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

    struct reading *reading; /* answer_planner.c */
    const char *planner_note;
    struct model_talk *talk; /* answer_model.c */
};

void turn_begin(struct turn *t);
void turn_free(struct turn *t);
/* Tells the listener; taken is released. */
void turn_say(struct turn *t, const char *type, json_t *taken);
void turn_stage(struct turn *t, const char *stage, const char *text);
/* Runs code, shows it, and calls next; the outcome is in result. */
void turn_run_code(struct turn *t, const struct turn_run *run, turn_next_fn next);
/* Shows code that ran by turn_query(). */
void turn_show_run(struct turn *t, const char *language, const char *code, json_t *plan, double exec_ms);
/* After waiting for anything: true if the turn was stopped meanwhile, and then it has ended. */
bool turn_should_stop(struct turn *t);
/* Runs SQL whose result only the caller sees. */
int turn_query(struct turn *t, const char *sql, int64_t max_rows, bench_done_fn done, struct err *err);
/* Plan → SQL by what the catalog says. */
int turn_compile(struct turn *t, const json_t *plan, const char **ret_sql, struct err *err);
void turn_set_plan(struct turn *t, json_t *plan);
/* No answer: what went wrong. Ends the turn. */
void turn_fail(struct turn *t, const struct err *err);
/* The answer is complete: stores it and tells it. */
void turn_finish(struct turn *t);
/* A sentence about the result, by no model. */
void turn_summarise(struct turn *t);
const struct config *turn_cfg(const struct turn *t);

/* ---- learn.c ---- */

/* The catalog of the chat's data, then next. */
void turn_need_catalog(struct turn *t, turn_next_fn next);
void turn_forget_learning(struct turn *t);
void agent_stop_learning(struct agent *a);   /* gives the kernels back */
void agent_forget_learning(struct agent *a);

/* ---- who answers ---- */

/* SQL:, PYTHON: and PLAN: run as they are; false if the message is none of these. */
bool answer_directly(struct turn *t);
void answer_by_planner(struct turn *t);
void answer_by_model(struct turn *t);
void model_talk_destroy(struct turn *t);
void model_cancel(struct turn *t);

#endif
