/*
 * What the table of messages says, applied: checks, parsing within budgets, encoding, and the table
 * as documentation.
 */

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "base/str.h"
#include "sandbox/wire.h"

/* ---- checks ---- */

static bool in_range(const struct wire_field *f, int64_t n)
{
    return n >= f->min && n <= f->max;
}

static bool are_strings(const json_t *list)
{
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v) {
        if (!json_is_string(v))
            return false;
    }
    return true;
}

/* Only these four members; a traceback and a line may be null. */
static bool is_error(const json_t *e)
{
    const json_t *line = json_object_get(e, "line"), *traceback = json_object_get(e, "traceback");
    size_t known = 2u + (line ? 1u : 0u) + (traceback ? 1u : 0u);
    return json_is_string(json_object_get(e, "type")) &&
           json_is_string(json_object_get(e, "message")) &&
           (!line || json_is_null(line) ||
            (json_is_integer(line) && json_integer_value(line) >= 0)) &&
           (!traceback || json_is_null(traceback) || json_is_string(traceback)) &&
           json_object_size(e) == known;
}

static bool has_type(const struct wire_field *f, const json_t *v)
{
    switch (f->type) {
    case WIRE_INT:
        return json_is_integer(v) && in_range(f, json_integer_value(v));
    case WIRE_REAL: {
        double d = json_number_value(v);
        return json_is_number(v) && isfinite(d) && d >= (double)f->min && d <= (double)f->max;
    }
    case WIRE_BOOL:
        return json_is_boolean(v);
    case WIRE_STR:
        return json_is_string(v) && in_range(f, (int64_t)json_string_length(v));
    case WIRE_STRS:
        return json_is_array(v) && in_range(f, (int64_t)json_array_size(v)) && are_strings(v);
    case WIRE_ARRAY:
        return json_is_array(v) && in_range(f, (int64_t)json_array_size(v));
    case WIRE_OBJECT:
        return json_is_object(v) && in_range(f, (int64_t)json_object_size(v));
    case WIRE_VERDICT:
        return wire_verdict_from_name(json_string_value(v)) >= 0;
    case WIRE_ERROR:
        return is_error(v);
    default:
        return true;
    }
}

int wire_check(enum wire_type type, const json_t *body, struct err *err)
{
    const struct wire_message *m = wire_message(type);
    size_t known = 0;
    if (!m || (body && !json_is_object(body)))
        return err_set(err, ERR_VALIDATION, "a message that is no object");
    for (size_t i = 0; i < m->n_fields; i++) {
        const struct wire_field *f = &m->fields[i];
        const json_t *v = json_object_get(body, f->name);
        bool good = v ? (json_is_null(v) ? f->nullable : has_type(f, v)) : f->optional;
        if (!good)
            return err_set(err, ERR_VALIDATION, "'%s' of '%s' is %s", f->name, m->name,
                           v ? "of the wrong type or out of range" : "missing");
        known += v ? 1 : 0;
    }
    if (body && json_object_size(body) != known)
        return err_set(err, ERR_VALIDATION, "'%s' has a member that it must not have", m->name);
    return 0;
}

int wire_parse(enum wire_type type, const char *text, size_t len, size_t *nodes, json_t **ret,
               struct err *err)
{
    const struct wire_message *m = wire_message(type);
    auto_json json_t *body = NULL;
    struct err why = ERR_INIT;
    int r = 0;
    if (len == 0) /* as good as {} */
        body = json_object();
    else
        r = json_parse_within(text, len, MIN_OF(*nodes, (size_t)m->max_nodes), &body, nodes, &why);
    if (r == 0)
        r = wire_check(type, body, &why);
    if (r < 0)
        return err_set(err, ERR_PROTOCOL, "'%s': %s", m->name, why.message);
    *ret = TAKE_PTR(body);
    return 0;
}

size_t wire_result_bytes(int64_t max_bytes)
{
    const size_t most = wire_message(WIRE_RESULT)->max_bytes;
    return max_bytes < 0 ? most : MIN_OF(most, (size_t)max_bytes + RESULT_REST_MAX);
}

/* A value takes at least two bytes of text. */
uint32_t wire_result_nodes(int64_t max_bytes)
{
    const uint32_t most = wire_message(WIRE_RESULT)->max_nodes;
    return max_bytes < 0 ? most :
                           (uint32_t)MIN_OF((int64_t)most, max_bytes / 2 + WIRE_RESULT_MORE_NODES);
}

/* ---- encoding ---- */

static int append_head(struct buf *out, enum wire_type type, uint32_t id, size_t len,
                       struct err *err)
{
    const struct wire_message *m = wire_message(type);
    unsigned char raw[WIRE_HEAD_BYTES];
    if (len > m->max_bytes)
        return err_set(err, ERR_TOO_LARGE,
                       "'%s' would have %zu bytes; at most %" PRIu32 " are allowed", m->name, len,
                       m->max_bytes);
    wire_head_write(&(struct wire_head){ .len = (uint32_t)len, .id = id, .type = type }, raw);
    return buf_append(out, raw, sizeof(raw), err);
}

int wire_append(struct buf *out, enum wire_type type, uint32_t id, const json_t *body,
                struct err *err)
{
    auto_buf struct buf text = BUF_INIT(wire_message(type)->max_bytes);
    int r = wire_check(type, body, err);
    if (r == 0 && body)
        r = json_write(body, &text, err);
    if (r == 0)
        r = append_head(out, type, id, text.len, err);
    return r < 0 ? r : buf_append(out, buf_cstr(&text), text.len, err);
}

int wire_append_bytes(struct buf *out, uint32_t id, const void *bytes, size_t len, struct err *err)
{
    int r = append_head(out, WIRE_BYTES, id, len, err);
    return r < 0 ? r : buf_append(out, bytes, len, err);
}

json_t *wire_start_body(const struct wire_start *s)
{
    json_t *tables = json_array();
    for (size_t i = 0; i < s->n_tables; i++)
        json_array_append_new(tables, json_pack("{s:s, s:I, s:I}", "name", s->tables[i].name,
                                                "mount", (json_int_t)s->tables[i].mount, "part",
                                                (json_int_t)s->tables[i].part));
    return json_pack(
        "{s:s?, s:[], s:o, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:b, s:s, s:s, s:b, s:b}",
        "dataset_id", s->dataset_id, "mounts", "tables", tables, "memory_bytes",
        (json_int_t)s->memory_bytes, "workspace_bytes", (json_int_t)s->workspace_bytes, "tmp_bytes",
        (json_int_t)s->tmp_bytes, "inodes", (json_int_t)s->inodes, "file_bytes",
        (json_int_t)s->file_bytes, "pids", s->pids, "open_files", s->open_files, "threads",
        s->threads, "interrupts", s->interrupts, "python_allowed",
        s->python_allowed ? s->python_allowed : "", "python_blocked",
        s->python_blocked ? s->python_blocked : "", "agent", s->agent, "debugging", s->debugging);
}

/* ---- documentation ---- */

static void describe_size(struct buf *out, uint32_t n)
{
    if (n >= 1u << 20)
        (void)buf_printf(out, NULL, "%" PRIu32 " MiB", n >> 20);
    else if (n >= 1u << 10)
        (void)buf_printf(out, NULL, "%" PRIu32 " KiB", n >> 10);
    else
        (void)buf_printf(out, NULL, "%" PRIu32 " B", n);
}

static void describe_states(struct buf *out, unsigned states)
{
    static const char *const names[] = { "new", "boxed", "starting", "idle", "busy", "asking" };
    const char *comma = "";
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!(states & 1u << i))
            continue;
        (void)buf_printf(out, NULL, "%s%s", comma, names[i]);
        comma = ", ";
    }
}

static void describe_messages(struct buf *out, unsigned direction)
{
    static const char *const kinds[_WIRE_KIND_MAX] = { "request", "answer", "event" };
    (void)buf_append_str(
        out,
        "| no. | message | kind | taken when | body | values | |\n|---|---|---|---|---|---|---|\n",
        NULL);
    for (unsigned i = 0; i < _WIRE_TYPE_MAX; i++) {
        const struct wire_message *m = wire_message(i);
        if (!m || !(m->directions & direction))
            continue;
        (void)buf_printf(out, NULL, "| %u | `%s` | %s | ", i, m->name, kinds[m->kind]);
        describe_states(out, m->states);
        (void)buf_append_str(out, " | ", NULL);
        describe_size(out, m->max_bytes);
        (void)buf_printf(out, NULL, " | %" PRIu32 " | %s |\n", m->max_nodes, m->doc);
    }
}

static void describe_field(struct buf *out, const struct wire_field *f)
{
    static const char *const types[_WIRE_FIELD_TYPE_MAX] = { "integer", "number",        "boolean",
                                                             "text",    "array of text", "array",
                                                             "object",  "any",           "verdict",
                                                             "error" };
    (void)buf_printf(out, NULL, "`%s` %s", f->name, types[f->type]);
    if (f->type == WIRE_INT || f->type == WIRE_REAL)
        (void)buf_printf(out, NULL, " %" PRId64 "…%" PRId64, f->min, f->max);
    else if (f->type == WIRE_STR)
        (void)buf_printf(out, NULL, " of %" PRId64 "…%" PRId64 " bytes", f->min, f->max);
    else if (f->type == WIRE_STRS || f->type == WIRE_ARRAY || f->type == WIRE_OBJECT)
        (void)buf_printf(out, NULL, " of %" PRId64 "…%" PRId64, f->min, f->max);
    (void)buf_printf(out, NULL, "%s%s", f->nullable ? ", or null" : "",
                     f->optional ? ", optional" : "");
    if (f->doc)
        (void)buf_printf(out, NULL, ": %s", f->doc);
}

int wire_describe(struct buf *out, struct err *err)
{
    (void)buf_append_str(out, "### riddle → kernel\n\n", NULL);
    describe_messages(out, WIRE_TO_KERNEL);
    (void)buf_append_str(out, "\n### kernel → riddle\n\n", NULL);
    describe_messages(out, WIRE_TO_RIDDLE);
    (void)buf_append_str(out, "\n### Members\n\n| message | members |\n|---|---|\n", NULL);
    for (unsigned i = 0; i < _WIRE_TYPE_MAX; i++) {
        const struct wire_message *m = wire_message(i);
        if (!m || m->n_fields == 0)
            continue;
        (void)buf_printf(out, NULL, "| `%s` | ", m->name);
        for (size_t k = 0; k < m->n_fields; k++) {
            (void)buf_append_str(out, k ? "; " : "", NULL);
            describe_field(out, &m->fields[k]);
        }
        (void)buf_append_str(out, " |\n", NULL);
    }
    return out->len < out->max_bytes - 1 ?
               0 :
               err_set(err, ERR_TOO_LARGE, "the description is too long");
}
