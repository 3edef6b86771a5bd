#include "agent/turn_log.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/background.h"
#include "base/buf.h"
#include "base/str.h"

#define JOINED_BYTES (64u << 10) /* of one entry, so that the log loses little at a time */

struct turn_log_entry {
    struct turn_log_entry *next;
    char type[24];
    json_t *data;    /* NULL: text … */
    char stream[16]; /* … of this stream, "" for tokens */
    struct buf text;
    size_t bytes;
};

void turn_log_init(struct turn_log *log)
{
    *log = (struct turn_log){ 0 };
}

static void entry_free(struct turn_log_entry *e)
{
    json_discard(e->data);
    buf_finish(&e->text);
    free(e);
}

void turn_log_finish(struct turn_log *log)
{
    while (log->first) {
        struct turn_log_entry *e = log->first;
        log->first = e->next;
        entry_free(e);
    }
    json_decref(log->status);
    turn_log_init(log);
}

/* About what a value takes; exact for long strings, which are what matters. */
static size_t size_of(const json_t *v)
{
    const char *key;
    json_t *item;
    size_t i, n = 64;
    if (json_is_string(v)) {
        n += json_string_length(v);
    } else if (json_is_array(v)) {
        json_array_foreach(v, i, item)
            n += size_of(item);
    } else if (json_is_object(v)) {
        json_object_foreach((json_t *)v, key, item)
            n += strlen(key) + size_of(item);
    }
    return n;
}

static bool goes_first(const struct turn_log_entry *e)
{
    return str_eq(e->type, "step") || str_eq(e->type, "image");
}

/* Removes the one behind `before`, the first one when that is NULL. */
static void skip(struct turn_log *log, struct turn_log_entry *before)
{
    struct turn_log_entry *e = before ? before->next : log->first;
    if (before)
        before->next = e->next;
    else
        log->first = e->next;
    if (log->last == e)
        log->last = before;
    log->bytes -= e->bytes;
    log->skipped++;
    entry_free(e);
}

static void make_room(struct turn_log *log)
{
    struct turn_log_entry *before = NULL, *e;
    while (log->bytes > TURN_LOG_BYTES && (e = before ? before->next : log->first))
        if (goes_first(e))
            skip(log, before);
        else
            before = e;
    while (log->first && log->bytes > TURN_LOG_BYTES)
        skip(log, NULL);
}

static struct turn_log_entry *append(struct turn_log *log, const char *type)
{
    struct turn_log_entry *e = calloc(1, sizeof(*e));
    if (!e) {
        log->skipped++;
        return NULL;
    }
    (void)snprintf(e->type, sizeof(e->type), "%s", type);
    buf_init(&e->text, TURN_LOG_BYTES);
    if (log->last)
        log->last->next = e;
    else
        log->first = e;
    log->last = e;
    return e;
}

static void add_text(struct turn_log *log, const char *type, const char *stream, const json_t *text)
{
    struct turn_log_entry *e = log->last;
    struct err err = ERR_INIT;
    size_t len = json_string_length(text);
    if (!e || e->data || e->text.len >= JOINED_BYTES || !str_eq(e->type, type) ||
        !str_eq(e->stream, stream)) {
        e = append(log, type);
        if (!e)
            return;
        (void)snprintf(e->stream, sizeof(e->stream), "%s", stream);
        e->bytes = sizeof(*e);
        log->bytes += e->bytes;
    }
    if (buf_append(&e->text, json_string_value(text), len, &err) < 0) {
        log->skipped++;
        return;
    }
    e->bytes += len;
    log->bytes += len;
}

void turn_log_add(struct turn_log *log, const char *type, json_t *data)
{
    const json_t *text = json_object_get(data, "text");
    const char *stream = json_string_value(json_object_get(data, "stream"));
    if (str_eq(type, "status")) {
        json_decref(log->status);
        log->status = json_incref(data);
        return;
    }
    if (text && (str_eq(type, "token") || str_eq(type, "thinking") || str_eq(type, "step"))) {
        add_text(log, type, stream ? stream : "", text);
    } else {
        struct turn_log_entry *e = append(log, type);
        if (!e)
            return;
        e->data = json_incref(data);
        e->bytes = sizeof(*e) + size_of(data);
        log->bytes += e->bytes;
    }
    make_room(log);
}

void turn_log_replay(const struct turn_log *log,
                     void (*event)(void *arg, const char *type, json_t *data), void *arg)
{
    for (const struct turn_log_entry *e = log->first; e; e = e->next) {
        json_t *data = json_incref(e->data);
        if (!data)
            data = json_pack("{s:o, s:s*}", "text", json_text(e->text.data, e->text.len), "stream",
                             *e->stream ? e->stream : NULL);
        if (data)
            event(arg, e->type, data);
        json_decref(data);
    }
    if (log->status)
        event(arg, "status", log->status);
}
