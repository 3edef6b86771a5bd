/* Decodes and checks what a kernel sends. */

#include "sandbox/inbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/background.h"
#include "base/str.h"
#include "sandbox/room.h"
#include "sandbox/workspace.h"

void inbox_init(struct inbox *in)
{
    memset(in, 0, sizeof(*in));
    wire_reader_init(&in->reader, WIRE_TO_RIDDLE);
}

void inbox_finish(struct inbox *in)
{
    wire_reader_finish(&in->reader);
    buf_finish(&in->bytes);
}

void inbox_begin(struct inbox *in, const struct inbox_request *req)
{
    in->id = req->id;
    in->ask = 0;
    in->request = req->type;
    in->max_rows = req->max_rows;
    in->max_bytes = req->max_bytes;
    in->max_bytes_back = req->max_bytes_back;
    in->displays = in->display_bytes = in->display_nodes = 0;
    in->displays_dropped = false;
    in->max_steps_bytes = req->max_steps_bytes;
    in->steps_bytes = 0;
    in->n_bytes = in->n_messages = in->unasked_bytes = 0;
    buf_finish(&in->bytes);
    buf_init(&in->bytes, req->max_bytes_back);
}

void inbox_end(struct inbox *in)
{
    in->id = in->ask = 0;
}

static unsigned state_of(const struct inbox *in)
{
    if (!in->ready)
        return WIRE_STARTING;
    if (in->id == 0)
        return WIRE_IDLE;
    return in->ask ? WIRE_ASKING : WIRE_BUSY;
}

/* ---- by the head alone ---- */

static bool has_room_for_display(struct inbox *in, uint32_t len)
{
    if (in->displays < DISPLAYS_MAX && in->display_bytes + len <= DISPLAY_BYTES_MAX &&
        in->display_nodes < INBOX_DISPLAY_NODES_MAX)
        return true;
    in->displays_dropped = true;
    return false;
}

/* Whether a message of this kind and id is permitted now. */
static bool is_expected(const struct inbox *in, const struct wire_head *h)
{
    unsigned state = state_of(in);
    if (!(wire_message(h->type)->states & state))
        return false;
    /* `ready` and an early `failed` answer the start, whose id is 0. */
    if (state == WIRE_STARTING)
        return true;
    /* A question has an id of the kernel's own. */
    return h->type == WIRE_ASK ? h->id != 0 : h->id == in->id;
}

/* Whether the body is worth having. */
static bool is_wanted(struct inbox *in, const struct wire_head *h)
{
    if (!is_expected(in, h))
        return false;
    if (state_of(in) == WIRE_STARTING || h->type == WIRE_ASK)
        return true;
    switch (h->type) {
    case WIRE_BYTES:
        return h->len <= in->max_bytes_back;
    case WIRE_DISPLAY:
        return in->request == WIRE_EXEC && has_room_for_display(in, h->len);
    case WIRE_STEPS:
        in->steps_bytes += h->len;
        return in->request == WIRE_EXEC && in->steps_bytes <= in->max_steps_bytes;
    case WIRE_PROGRESS:
        return in->request == WIRE_INGEST;
    case WIRE_FAILED:
        return true;
    default:
        return h->type == wire_message(in->request)->answer;
    }
}

/* ---- answers ---- */

static bool is_shown_value(const json_t *value)
{
    const json_t *html = json_object_get(value, "html");
    return !value || json_is_null(value) ||
           (json_is_string(json_object_get(value, "text")) && (!html || json_is_string(html)) &&
            json_object_size(value) == (html ? 2u : 1u));
}

/* Columns, types and rows of a run agree with each other and with what was asked for. */
static bool is_table(const struct inbox *in, const json_t *body)
{
    const json_t *columns = json_object_get(body, "columns"), *rows = json_object_get(body, "rows"),
                 *row;
    size_t width = json_array_size(columns), n = json_array_size(rows), i;
    if (!columns || !rows || !json_object_get(body, "truncated") ||
        !json_object_get(body, "row_count"))
        return false;
    if (json_array_size(json_object_get(body, "types")) != width ||
        json_integer_value(json_object_get(body, "row_count")) != (json_int_t)n ||
        (in->max_rows >= 0 && (int64_t)n > in->max_rows))
        return false;
    json_array_foreach(rows, i, row) {
        if (!json_is_array(row) || json_array_size(row) != width)
            return false;
    }
    return true;
}

/* Counts of rows, and of the rows that are shown. */
static bool is_reading(const json_t *report)
{
    const json_t *refused = json_object_get(report, "refused"),
                 *shown = json_object_get(report, "refused_rows");
    return json_is_object(report) && json_is_integer(json_object_get(report, "rows")) &&
           (!refused || (json_is_integer(refused) && json_integer_value(refused) >= 0)) &&
           (!shown || json_is_array(shown));
}

static bool is_report(const json_t *body)
{
    return json_array_size(json_object_get(body, "columns")) ==
               json_array_size(json_object_get(body, "types")) &&
           json_is_integer(json_object_get(body, "row_count")) &&
           is_reading(json_object_get(body, "report"));
}

/*
 * What wire_check() cannot see: members that have to agree. A failed request has a reason, and one
 * that went well has what was asked for.
 */
static bool agrees(const struct inbox *in, enum wire_type type, enum wire_verdict verdict,
                   const json_t *body)
{
    bool ok = verdict == WIRE_VERDICT_OK;
    if (json_is_object(json_object_get(body, "error")) == ok)
        return false;
    switch (type) {
    case WIRE_RESULT:
        return is_table(in, body) && is_shown_value(json_object_get(body, "value")) &&
               workspace_files_ok(body);
    case WIRE_INGESTED:
        return !ok || is_report(body);
    case WIRE_LISTED:
        return workspace_files_ok(body);
    case WIRE_PIECE:
    case WIRE_EXPORTED:
        return !ok ||
               (json_is_integer(json_object_get(body, "size")) &&
                json_integer_value(json_object_get(body, "bytes")) == (json_int_t)in->bytes.len &&
                json_object_get(body, "bytes"));
    case WIRE_WRITTEN:
        return !ok || json_is_integer(json_object_get(body, "size"));
    default:
        return true;
    }
}

static enum inbox_what take_answer(struct inbox *in, enum wire_type type, json_t *body,
                                   struct inbox_item *ret)
{
    ret->verdict = (enum wire_verdict)wire_verdict_from_name(
        json_string_value(json_object_get(body, "verdict")));
    if (!agrees(in, type, ret->verdict, body)) {
        err_set(&ret->err, ERR_PROTOCOL, "the members of '%s' do not agree",
                wire_message(type)->name);
        return INBOX_BROKEN;
    }
    ret->body = json_incref(body);
    in->id = in->ask = 0;
    return INBOX_ANSWER;
}

/* ---- the others ---- */

static enum inbox_what take_ready(struct inbox *in, const json_t *body, struct inbox_item *ret)
{
    json_int_t version = json_integer_value(json_object_get(body, "version"));
    in->ready = true;
    if (version != WIRE_VERSION) {
        err_set(&ret->err, ERR_PROTOCOL,
                "riddle-kernel speaks version %lld of the wire and riddle version %d; "
                "install or build both together",
                (long long)version, WIRE_VERSION);
        return INBOX_FAILED;
    }
    snprintf(ret->text, sizeof(ret->text), "%s",
             json_string_value(json_object_get(body, "missing")));
    return INBOX_READY;
}

static enum inbox_what take_failed(const json_t *body, struct inbox_item *ret)
{
    const json_t *error = json_object_get(body, "error"),
                 *message = json_object_get(error, "message");
    char shown[ERR_MESSAGE_MAX];
    /* Those that users act upon: a file that changed under its name, and a damaged image. */
    static const enum err_code known[] = { ERR_CONFLICT, ERR_VALIDATION };
    enum err_code code = ERR_INTERNAL;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (str_eq(json_string_value(json_object_get(error, "type")), err_name(known[i])))
            code = known[i];
    str_show(json_string_value(message), json_string_length(message), shown, sizeof(shown));
    err_set(&ret->err, code, "%s", shown[0] ? shown : "the kernel gave no reason");
    return INBOX_FAILED;
}

static enum inbox_what take_display(struct inbox *in, const struct wire_head *h, size_t nodes,
                                    json_t **body, struct inbox_item *ret)
{
    in->displays++;
    in->display_bytes += h->len;
    in->display_nodes += nodes;
    if (in->display_nodes > INBOX_DISPLAY_NODES_MAX) {
        in->displays_dropped = true; /* and by their heads from now on */
        return INBOX_NOTHING;
    }
    ret->body = TAKE_PTR(*body);
    return INBOX_DISPLAY;
}

static enum inbox_what take_steps(const json_t *body, struct inbox_item *ret)
{
    json_t *steps = json_object_get(body, "steps"), *step;
    size_t i;
    json_array_foreach(steps, i, step) {
        if (!json_is_object(step) || !json_is_integer(json_object_get(step, "line"))) {
            err_set(&ret->err, ERR_PROTOCOL, "a step without its line");
            return INBOX_BROKEN;
        }
    }
    ret->body = json_incref(steps);
    return INBOX_STEPS;
}

static size_t max_nodes(const struct inbox *in, const struct wire_head *h)
{
    return h->type == WIRE_RESULT ? wire_result_nodes(in->max_bytes) : SIZE_MAX;
}

/* Owns the body. */
static enum inbox_what take_body(struct inbox *in, const struct wire_head *h, size_t nodes,
                                 json_t *owned, struct inbox_item *ret)
{
    auto_discard json_t *body = owned;
    switch (h->type) {
    case WIRE_READY:
        return take_ready(in, body, ret);
    case WIRE_FAILED:
        return take_failed(body, ret);
    case WIRE_DISPLAY:
        return take_display(in, h, nodes, &body, ret);
    case WIRE_STEPS:
        return take_steps(body, ret);
    case WIRE_PROGRESS:
        ret->fraction = json_number_value(json_object_get(body, "fraction"));
        return INBOX_PROGRESS;
    case WIRE_ASK:
        in->ask = ret->id = h->id;
        snprintf(ret->text, sizeof(ret->text), "%s",
                 json_string_value(json_object_get(body, "what")));
        ret->body = json_incref(json_object_get(body, "args"));
        return INBOX_ASK;
    default:
        return take_answer(in, h->type, body, ret);
    }
}

static enum inbox_what take_json(struct inbox *in, const struct wire_head *h, const char *text,
                                 struct inbox_item *ret)
{
    size_t nodes = max_nodes(in, h);
    json_t *body = NULL;
    if (wire_parse(h->type, text, h->len, &nodes, &body, &ret->err) < 0)
        return INBOX_BROKEN;
    return take_body(in, h, nodes, body, ret);
}

static enum inbox_what take_large(struct inbox *in, struct inbox_item *ret)
{
    struct wire_reader *r = &in->reader;
    struct inbox_large *large = calloc(1, sizeof(*large));
    int e = large ? 0 : err_set(&ret->err, ERR_NO_MEMORY, "out of memory");
    if (e == 0) {
        large->head = r->head;
        large->nodes = max_nodes(in, &r->head);
        buf_init(&large->text, r->head.len);
        if (r->kept.len == r->head.len) {
            large->text = r->kept;
            buf_init(&r->kept, 0);
        } else {
            e = buf_append(&large->text, r->body, r->head.len, &ret->err);
        }
    }
    if (e < 0) {
        inbox_large_free(large);
        return INBOX_BROKEN;
    }
    ret->large = large;
    return INBOX_LARGE;
}

static enum inbox_what take_message(struct inbox *in, struct inbox_item *ret)
{
    const struct wire_reader *r = &in->reader;
    if (r->head.type != WIRE_BYTES)
        return r->head.len > INBOX_AT_ONCE_MAX ? take_large(in, ret) :
                                                 take_json(in, &r->head, r->body, ret);
    buf_clear(&in->bytes);
    (void)buf_append(&in->bytes, r->body, r->head.len, NULL);
    return INBOX_NOTHING;
}

/* ---- the stream ---- */

static enum inbox_what take_head(struct inbox *in, struct inbox_item *ret)
{
    struct wire_reader *r = &in->reader;
    if (!is_expected(in, &r->head))
        in->unasked_bytes += r->head.len;
    if (++in->n_messages > INBOX_MESSAGES_MAX || in->unasked_bytes > INBOX_UNASKED_BYTES_MAX)
        return INBOX_FLOOD;
    r->skip = !is_wanted(in, &r->head);
    if (!r->skip && r->head.type == WIRE_RESULT && r->head.len > wire_result_bytes(in->max_bytes)) {
        err_set(&ret->err, ERR_PROTOCOL, "a result of %u bytes", r->head.len);
        return INBOX_BROKEN;
    }
    if (r->skip || r->head.len <= ROOM_MESSAGE_MIN || r->head.type == WIRE_BYTES)
        return INBOX_NOTHING;
    ret->n_bytes = r->head.len;
    return INBOX_ANNOUNCED;
}

static void item_init(struct inbox_item *item)
{
    memset(item, 0, offsetof(struct inbox_item, text));
    item->text[0] = '\0';
    item->err.code = ERR_NONE;
    item->what = INBOX_NOTHING;
}

void inbox_take(struct inbox *in, const char **bytes, size_t *len, struct inbox_item *ret)
{
    item_init(ret);
    if (in->over)
        *len = 0;
    while (ret->what == INBOX_NOTHING && !in->over) {
        size_t before = *len;
        enum wire_step step = wire_reader_step(&in->reader, bytes, len);
        in->n_bytes += (int64_t)(before - *len);
        if (in->n_bytes > INBOX_BYTES_MAX)
            ret->what = INBOX_FLOOD;
        else if (step == WIRE_MORE)
            return;
        else if (step == WIRE_HEAD)
            ret->what = take_head(in, ret);
        else if (step == WIRE_MESSAGE)
            ret->what = take_message(in, ret);
        else
            ret->what = INBOX_BROKEN;
        if (step == WIRE_BROKEN)
            err_set(&ret->err, ERR_PROTOCOL,
                    in->ready ? "the kernel sent something that is no message" :
                                "what was started is no riddle-kernel of this version");
    }
    in->over = in->over || ret->what == INBOX_BROKEN || ret->what == INBOX_FLOOD;
}

/* ---- large messages ---- */

void inbox_large_free(struct inbox_large *large)
{
    if (!large)
        return;
    buf_finish(&large->text);
    json_discard(large->body);
    free(large);
}

/* Members that are no text: `json` can be a file as it is; the runtime sends no large other one. */
static void flatten_display(json_t *body)
{
    static const char *const others[] = { "data", "chart" };
    const json_t *json = json_object_get(body, "json");
    if (json && !json_is_string(json)) {
        auto_free char *text = json_to_str(json);
        if (text)
            json_object_set_new(body, "json_text", json_string_nocheck(text));
        json_object_del(body, "json");
    }
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (!json_is_string(json_object_get(body, others[i])))
            json_object_del(body, others[i]);
}

void inbox_parse(struct inbox_large *large)
{
    const struct wire_head *h = &large->head;
    if (wire_parse(h->type, buf_cstr(&large->text), h->len, &large->nodes, &large->body,
                   &large->err) == 0 &&
        h->type == WIRE_DISPLAY && large->nodes > INBOX_TREE_NODES_MAX)
        flatten_display(large->body);
    /* Shorter ones are of the loop's heap: this thread had better not hold its lock. */
    if (large->text.cap > ROOM_MESSAGE_MIN)
        buf_finish(&large->text);
}

void inbox_parsed(struct inbox *in, struct inbox_large *large, struct inbox_item *ret)
{
    item_init(ret);
    if (in->over) {
        /* nothing follows any more */
    } else if (large->err.code != ERR_NONE) {
        ret->err = large->err;
        ret->what = INBOX_BROKEN;
        in->over = true;
    } else if (is_expected(in, &large->head)) {
        ret->what = take_body(in, &large->head, large->nodes, TAKE_PTR(large->body), ret);
        in->over = ret->what == INBOX_BROKEN;
    }
    inbox_large_free(large);
}
