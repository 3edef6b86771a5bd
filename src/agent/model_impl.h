#ifndef RIDDLE_AGENT_MODEL_IMPL_H
#define RIDDLE_AGENT_MODEL_IMPL_H

/* What answer_model.c (the talk), model_tools.c (the tools) and model_words.c (the words) share. */

#include "agent/claims.h"
#include "agent/tools.h"

#define MESSAGES_MAX 320

struct model_talk {
    struct llm_call *call;
    struct llm_message messages[MESSAGES_MAX];
    size_t n_messages;
    const char *system;
    const struct llm_tool_call *pending;
    size_t n_pending, at;
    unsigned bad_calls, nudges, tool_calls, bad_replies, longer;
    int64_t max_tokens; /* of the next call; 0: as configured */
    bool shortened;     /* the history was dropped, because all did not fit */
    size_t n_history;   /* messages at the front that are earlier turns */
    json_t *kept;       /* array: holds what messages refer to */
    bool is_rescue;
    bool handed_back; /* figures from nowhere, to the model */
    int64_t tokens;

    /* model_tools.c */
    /*
     * name and arguments of a call → {text, is_error, cells}: the same call again is answered from
     * here
     */
    json_t *answered;
    /* of Python, that ran: what was asked before one may be different behind it */
    unsigned cells;
    json_t *files_before; /* those of /workspace before the code under way */
    const char *wanted;   /* text of find_values under way */
    json_t *drawn;        /* PNGs of the code under way, as base64 */
    size_t image_bytes;   /* of all that the model was shown in this turn */
    unsigned too_large;   /* figures of the code under way that it is not shown */

    /* model_words.c */
    struct buf heard; /* of the reply under way */
    size_t sent;      /* of it, to the person */
    bool withheld;    /* it has a figure from nowhere: the rest waits for the end */
    struct claims *claims;
    bool said_something; /* a token went out */
    bool new_paragraph;  /* words of an earlier call went out: keep them apart */
};

int model_add_message(struct turn *t, struct llm_message message, struct err *err);
void model_next_call(struct turn *t);
/* The model can't go on. */
void model_give_up(struct turn *t, const struct err *err);
void model_finish(struct turn *t, const char *text, enum llm_stop stop);

/* ---- model_tools.c ---- */

/* Answers the calls of the last reply, one after the other; then the next call of the model. */
void model_use_tools(struct turn *t);

/* ---- model_words.c ---- */

void words_hear(struct turn *t, const char *text, size_t len);
/* The reply is whole: what was held back goes out. */
void words_release(struct turn *t);
void words_forget(struct turn *t); /* before the next reply */
/*
 * Figures of a text that are in nothing that was found, said before or shown. New reference; NULL
 * when out of memory.
 */
json_t *words_unfounded(struct turn *t, const char *text);

#endif
