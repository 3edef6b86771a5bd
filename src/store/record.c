/*
 * Records as data: one table per kind of record says what its members are called, how long they may
 * be and how they are treated. Checking, copying, JSON and the SQL of every backend follow these
 * tables, so that a new member is one line here and one column in a migration.
 */

#include "store/store_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/json.h"
#include "base/limits.h"
#include "base/str.h"

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)

#define FIELD(type, member, kind_, flags_, max)                                                    \
    {                                                                                              \
        .name = #member, .offset = offsetof(struct type, member), .kind = (kind_),                 \
        .flags = (flags_), .max_bytes = (max)                                                      \
    }
#define FIELD_AS(type, member, key, kind_, flags_, max)                                            \
    {                                                                                              \
        .name = #member, .shown = (key), .offset = offsetof(struct type, member), .kind = (kind_), \
        .flags = (flags_), .max_bytes = (max)                                                      \
    }

static const struct record_field capsule_fields[] = {
    FIELD(capsule, run_id, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED, 128),
    FIELD(capsule, owner, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED | FIELD_HIDDEN, 128),
    FIELD(capsule, created_at, FIELD_TIME, FIELD_REQUIRED | FIELD_FIXED, 32),
    FIELD(capsule, dataset_id, FIELD_TEXT, FIELD_REQUIRED, 256),
    FIELD(capsule, dataset_version_hash, FIELD_TEXT, 0, 128),
    FIELD(capsule, query_mode, FIELD_ID, FIELD_REQUIRED, 32),
    FIELD(capsule, status, FIELD_ID, FIELD_REQUIRED, 32),
    FIELD(capsule, verdict, FIELD_TEXT, 0, 32),
    FIELD(capsule, exec_time_ms, FIELD_INT, 0, 0),
    FIELD(capsule, thread_id, FIELD_ID, 0, 128),
    FIELD(capsule, replay_of, FIELD_ID, 0, 128),
    FIELD(capsule, question, FIELD_TEXT, 0, QUESTION_MAX_BYTES),
    FIELD(capsule, error_json, FIELD_JSON, 0, ERROR_JSON_MAX),
    FIELD(capsule, timings_json, FIELD_JSON, 0, 16 * KB),
    FIELD(capsule, usage_json, FIELD_JSON, 0, 16 * KB),
    FIELD(capsule, limits_json, FIELD_JSON, FIELD_HEAVY, 64 * KB),
    FIELD(capsule, plan_json, FIELD_JSON, FIELD_HEAVY, PLAN_MAX_BYTES),
    FIELD(capsule, compiled_sql, FIELD_TEXT, FIELD_HEAVY, CODE_MAX_BYTES),
    FIELD(capsule, python_code, FIELD_TEXT, FIELD_HEAVY, CODE_MAX_BYTES),
    FIELD(capsule, result_json, FIELD_JSON, FIELD_HEAVY, RESULT_MAX_BYTES),
    FIELD(capsule, figure_bytes, FIELD_INT, FIELD_HEAVY | FIELD_HIDDEN, 0),
};

static const struct record_field thread_fields[] = {
    FIELD(thread, thread_id, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED, 128),
    FIELD(thread, owner, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED | FIELD_HIDDEN, 128),
    FIELD(thread, title, FIELD_TEXT, 0, KB),
    FIELD_AS(thread, datasets_json, "datasets", FIELD_JSON, 0, 64 * KB),
    FIELD_AS(thread, uploads_json, "uploads", FIELD_JSON, 0, 64 * KB),
    FIELD(thread, created_at, FIELD_TIME, FIELD_REQUIRED | FIELD_FIXED, 32),
    FIELD(thread, updated_at, FIELD_TIME, FIELD_REQUIRED, 32),
    FIELD(thread, state, FIELD_ID, FIELD_REQUIRED, 32),
    FIELD_AS(thread, terms_json, "terms", FIELD_JSON, FIELD_HIDDEN, 64 * KB),
    FIELD(thread, message_count, FIELD_INT, FIELD_KEPT, 0),
    FIELD(thread, pinned, FIELD_INT, FIELD_REQUIRED, 0),
    FIELD(thread, forked_from, FIELD_ID, FIELD_FIXED, 128),
};

static const struct record_field message_fields[] = {
    FIELD(message, id, FIELD_INT, FIELD_KEPT, 0),
    FIELD(message, owner, FIELD_ID, FIELD_REQUIRED | FIELD_HIDDEN, 128),
    FIELD(message, thread_id, FIELD_ID, FIELD_REQUIRED, 128),
    FIELD(message, created_at, FIELD_TIME, FIELD_REQUIRED, 32),
    FIELD(message, dataset_id, FIELD_TEXT, 0, 256),
    FIELD(message, role, FIELD_ID, FIELD_REQUIRED, 32),
    FIELD(message, content, FIELD_TEXT, FIELD_REQUIRED, MESSAGE_MAX_BYTES),
    FIELD(message, run_id, FIELD_ID, 0, 128),
    FIELD_AS(message, metadata_json, "metadata", FIELD_JSON, 0, MESSAGE_REST_MAX),
};

static const struct record_field upload_fields[] = {
    FIELD(upload, file_id, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED, 128),
    FIELD(upload, owner, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED | FIELD_HIDDEN, 128),
    FIELD(upload, filename, FIELD_ID, FIELD_REQUIRED, KB),
    FIELD(upload, size_bytes, FIELD_INT, FIELD_REQUIRED, 0),
    FIELD(upload, sha256, FIELD_TEXT, 0, 128),
    FIELD(upload, path, FIELD_TEXT, FIELD_HIDDEN, 4 * KB),
    FIELD(upload, rows, FIELD_INT, 0, 0),
    FIELD_AS(upload, columns_json, "columns", FIELD_JSON, 0, MB),
    FIELD_AS(upload, options_json, "options", FIELD_JSON, 0, 4 * KB),
    FIELD(upload, status, FIELD_ID, FIELD_REQUIRED, 32),
    FIELD(upload, error, FIELD_TEXT, 0, 8 * KB),
    FIELD(upload, created_at, FIELD_TIME, FIELD_REQUIRED | FIELD_FIXED, 32),
    FIELD(upload, expires_at, FIELD_TIME, 0, 32),
    FIELD(upload, thread_id, FIELD_ID, FIELD_FIXED | FIELD_HIDDEN, 128),
    FIELD(upload, table_name, FIELD_TEXT, FIELD_HIDDEN, 128),
    FIELD(upload, used_at, FIELD_TIME, FIELD_HIDDEN, 32),
};

static const struct record_field words_fields[] = {
    FIELD(dataset_words, dataset_id, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED, 128),
    FIELD(dataset_words, owner, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED | FIELD_HIDDEN, 128),
    FIELD_AS(dataset_words, words_json, "words", FIELD_JSON, FIELD_REQUIRED, 64 * KB),
    FIELD(dataset_words, updated_at, FIELD_TIME, FIELD_REQUIRED, 32),
};

static const struct record_field verified_fields[] = {
    FIELD(verified, run_id, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED, 128),
    FIELD(verified, owner, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED | FIELD_HIDDEN, 128),
    FIELD(verified, created_at, FIELD_TIME, FIELD_REQUIRED | FIELD_FIXED, 32),
    FIELD(verified, dataset_id, FIELD_ID, FIELD_REQUIRED, 256),
    FIELD(verified, question, FIELD_TEXT, FIELD_REQUIRED, QUESTION_MAX_BYTES),
    FIELD(verified, query_mode, FIELD_ID, FIELD_REQUIRED, 32),
    FIELD_AS(verified, plan_json, "plan", FIELD_JSON, 0, PLAN_MAX_BYTES),
    FIELD_AS(verified, compiled_sql, "sql", FIELD_TEXT, 0, CODE_MAX_BYTES),
    FIELD_AS(verified, python_code, "python", FIELD_TEXT, 0, CODE_MAX_BYTES),
};

static const struct record_field query_fields[] = {
    FIELD(asked_query, query_id, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED, 128),
    FIELD(asked_query, owner, FIELD_ID, FIELD_REQUIRED | FIELD_FIXED | FIELD_HIDDEN, 128),
    FIELD(asked_query, created_at, FIELD_TIME, FIELD_REQUIRED | FIELD_FIXED, 32),
    FIELD_AS(asked_query, dataset_id, "database", FIELD_ID, FIELD_REQUIRED, 128),
    FIELD(asked_query, thread_id, FIELD_ID, 0, 128),
    FIELD(asked_query, run_id, FIELD_ID, 0, 128),
    FIELD(asked_query, sql, FIELD_TEXT, FIELD_REQUIRED, 256 * KB),
    FIELD_AS(asked_query, params_json, "parameters", FIELD_JSON, 0, 64 * KB),
    FIELD_AS(asked_query, status, "verdict", FIELD_ID, FIELD_REQUIRED, 32),
    FIELD(asked_query, error, FIELD_TEXT, 0, 8 * KB),
    FIELD(asked_query, row_count, FIELD_INT, 0, 0),
    FIELD(asked_query, exec_time_ms, FIELD_INT, 0, 0),
    FIELD(asked_query, wrote, FIELD_INT, 0, 0),
};

#define FIELDS(a) .fields = (a), .n_fields = ARRAY_SIZE(a)

const struct record_info record_infos[_RECORD_MAX] = {
    [RECORD_CAPSULE] = { .noun = "run",
                         .table = "run_capsules",
                         .key = "run_id",
                         .sort = "created_at",
                         .size = sizeof(struct capsule),
                         FIELDS(capsule_fields) },
    [RECORD_THREAD] = { .noun = "thread",
                        .table = "threads",
                        .key = "thread_id",
                        .sort = "updated_at",
                        .own_ids = true,
                        .size = sizeof(struct thread),
                        FIELDS(thread_fields) },
    [RECORD_MESSAGE] = { .noun = "message",
                         .table = "thread_messages",
                         .key = "id",
                         .sort = "created_at",
                         .size = sizeof(struct message),
                         FIELDS(message_fields) },
    [RECORD_UPLOAD] = { .noun = "upload",
                        .table = "uploads",
                        .key = "file_id",
                        .sort = "created_at",
                        .size = sizeof(struct upload),
                        FIELDS(upload_fields) },
    [RECORD_WORDS] = { .noun = "words of a data set",
                       .table = "dataset_words",
                       .key = "dataset_id",
                       .sort = "updated_at",
                       .own_ids = true,
                       .size = sizeof(struct dataset_words),
                       FIELDS(words_fields) },
    [RECORD_VERIFIED] = { .noun = "verified question",
                          .table = "verified",
                          .key = "run_id",
                          .sort = "created_at",
                          .own_ids = true,
                          .size = sizeof(struct verified),
                          FIELDS(verified_fields) },
    [RECORD_QUERY] = { .noun = "query",
                       .table = "database_queries",
                       .key = "query_id",
                       .sort = "created_at",
                       .own_ids = true,
                       .size = sizeof(struct asked_query),
                       FIELDS(query_fields) },
};

#define TYPE(t) (1u << RECORD_##t)
#define TYPE_ANY ((1u << _RECORD_MAX) - 1)
#define FILTER(member, column_, op_, types_)                                                       \
    {                                                                                              \
        .name = #member, .column = (column_), .op = (op_),                                         \
        .offset = offsetof(struct store_query, member), .types = (types_)                          \
    }

const struct query_filter query_filters[QUERY_FILTERS] = {
    FILTER(owner, "owner", "=", TYPE_ANY),
    FILTER(dataset_id, "dataset_id", "=", TYPE(CAPSULE) | TYPE(VERIFIED) | TYPE(QUERY)),
    FILTER(status, "status", "=", TYPE(CAPSULE) | TYPE(UPLOAD) | TYPE(QUERY)),
    FILTER(query_mode, "query_mode", "=", TYPE(CAPSULE)),
    FILTER(thread_id, "thread_id", "=", TYPE(CAPSULE) | TYPE(MESSAGE) | TYPE(QUERY)),
    FILTER(since, NULL, ">=", TYPE_ANY),
    FILTER(until, NULL, "<", TYPE_ANY),
    FILTER(expires_before, "expires_at", "<", TYPE(UPLOAD)),
    FILTER(like, "verified_words", "MATCH", TYPE(VERIFIED)),
    FILTER(pinned, "pinned", "=", TYPE(THREAD)),
    FILTER(title_like, "title", "LIKE", TYPE(THREAD)),
    FILTER(state, "state", "=", TYPE(THREAD)),
};

const char store_any_owner[] = "(any owner)";

/* ---- members by their description ---- */

const struct record_field *record_field(enum record_type type, const char *name)
{
    const struct record_info *info = &record_infos[type];
    for (size_t i = 0; i < info->n_fields; i++)
        if (str_eq(info->fields[i].name, name))
            return &info->fields[i];
    abort();
}

const char *record_text(const void *record, const struct record_field *f)
{
    assert(f->kind != FIELD_INT);
    return *(const char *const *)((const char *)record + f->offset);
}

int64_t record_int(const void *record, const struct record_field *f)
{
    assert(f->kind == FIELD_INT);
    return *(const int64_t *)((const char *)record + f->offset);
}

void record_set_text(void *record, const struct record_field *f, const char *text)
{
    assert(f->kind != FIELD_INT);
    *(const char **)((char *)record + f->offset) = text;
}

void record_set_int(void *record, const struct record_field *f, int64_t value)
{
    assert(f->kind == FIELD_INT);
    *(int64_t *)((char *)record + f->offset) = value;
}

/* ---- times ---- */

static bool digits(const char **s, size_t n, int *ret)
{
    *ret = 0;
    for (size_t i = 0; i < n; i++, (*s)++) {
        if (**s < '0' || **s > '9')
            return false;
        *ret = *ret * 10 + (**s - '0');
    }
    return true;
}

static bool parse_zone(const char **s, int *ret_minutes)
{
    int hours, minutes = 0, sign = **s == '-' ? -1 : 1;
    *ret_minutes = 0;
    if (**s == '\0')
        return true; /* none: UTC */
    if (**s == 'Z' || **s == 'z') {
        (*s)++;
        return true;
    }
    if (**s != '+' && **s != '-')
        return false;
    (*s)++;
    if (!digits(s, 2, &hours))
        return false;
    if (**s == ':')
        (*s)++;
    if (**s != '\0' && !digits(s, 2, &minutes))
        return false;
    *ret_minutes = sign * (hours * 60 + minutes);
    return hours <= 23 && minutes <= 59;
}

static bool parse_time(const char *s, int64_t *ret_ms)
{
    struct tm tm = { 0 };
    int ms = 0, zone = 0;
    if (!digits(&s, 4, &tm.tm_year) || *s++ != '-' || !digits(&s, 2, &tm.tm_mon) || *s++ != '-' ||
        !digits(&s, 2, &tm.tm_mday))
        return false;
    if (*s == 'T' || *s == 't' || *s == ' ') {
        s++;
        if (!digits(&s, 2, &tm.tm_hour) || *s++ != ':' || !digits(&s, 2, &tm.tm_min))
            return false;
        if (*s == ':') {
            s++;
            if (!digits(&s, 2, &tm.tm_sec))
                return false;
            if (*s == '.') {
                int scale = 100, n = 0;
                for (s++; *s >= '0' && *s <= '9'; s++, scale /= 10, n++)
                    ms += (*s - '0') * scale;
                if (n == 0 || n > 9)
                    return false;
            }
        }
        if (!parse_zone(&s, &zone))
            return false;
    }
    if (*s != '\0' || tm.tm_year < 1 || tm.tm_mon < 1 || tm.tm_mday < 1 || tm.tm_hour > 23 ||
        tm.tm_min > 59 || tm.tm_sec > 59)
        return false;
    struct tm as_written = tm;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    time_t t = timegm(&tm);
    /*
     * timegm() carries 31 February over into March: a day that does not exist is refused instead.
     */
    if (tm.tm_mday != as_written.tm_mday || tm.tm_mon != as_written.tm_mon - 1)
        return false;
    *ret_ms = ((int64_t)t - (int64_t)zone * 60) * 1000 + ms;
    return true;
}

int store_parse_time(const char *text, char ret[CLOCK_ISO_SIZE], struct err *err)
{
    int64_t ms;
    char shown[STR_SHOWN_SIZE];
    if (!parse_time(text, &ms))
        return err_set(err, ERR_VALIDATION,
                       "'%s' is no time; write it as 2026-01-31 or 2026-01-31T12:00:00Z",
                       str_show(text, strlen(text), shown, sizeof(shown)));
    clock_iso8601(ms, ret);
    return 0;
}

int64_t store_time_ms(const char *text)
{
    int64_t ms;
    return text && parse_time(text, &ms) ? ms : 0;
}

static bool is_canonical_time(const char *s)
{
    int64_t ms;
    char again[CLOCK_ISO_SIZE];
    if (!parse_time(s, &ms))
        return false;
    clock_iso8601(ms, again);
    return str_eq(s, again);
}

/* ---- checking and copying ---- */

/* A time that the store fills in when it is missing. */
static bool filled_in(const struct record_field *f)
{
    return f->kind == FIELD_TIME && (f->flags & FIELD_REQUIRED);
}

int record_measure(enum record_type type, const void *record, size_t *ret_bytes, struct err *err)
{
    const struct record_info *info = &record_infos[type];
    size_t total = 0;
    for (size_t i = 0; i < info->n_fields; i++) {
        const struct record_field *f = &info->fields[i];
        if (f->kind == FIELD_INT) {
            if ((f->flags & FIELD_REQUIRED) && record_int(record, f) < 0)
                return err_set(err, ERR_VALIDATION, "%s: '%s' is required", info->noun, f->name);
            continue;
        }
        const char *text = record_text(record, f);
        if (!text) {
            if ((f->flags & FIELD_REQUIRED) && !filled_in(f))
                return err_set(err, ERR_VALIDATION, "%s: '%s' is required", info->noun, f->name);
            total += CLOCK_ISO_SIZE;
            continue;
        }
        size_t len = strnlen(text, f->max_bytes + 1);
        if (len > f->max_bytes)
            return err_set(err, ERR_TOO_LARGE,
                           "%s: '%s' is longer than the %zu bytes that can be kept", info->noun,
                           f->name, f->max_bytes);
        total += len + 1;
    }
    *ret_bytes = total;
    return 0;
}

static bool is_plain(const char *s)
{
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    return *s != '\0';
}

int record_check(enum record_type type, const void *record, struct err *err)
{
    const struct record_info *info = &record_infos[type];
    for (size_t i = 0; i < info->n_fields; i++) {
        const struct record_field *f = &info->fields[i];
        const char *text = f->kind == FIELD_INT ? NULL : record_text(record, f);
        if (!text)
            continue;
        if (!str_is_utf8(text, strlen(text)))
            return err_set(err, ERR_VALIDATION, "%s: '%s' is not valid UTF-8", info->noun, f->name);
        if (f->kind == FIELD_ID && !is_plain(text))
            return err_set(err, ERR_VALIDATION, "%s: '%s' is empty or holds control characters",
                           info->noun, f->name);
        if (f->kind == FIELD_TIME && !is_canonical_time(text))
            return err_set(err, ERR_VALIDATION,
                           "%s: '%s' is not a time of the form 2026-01-31T12:00:00.000+00:00",
                           info->noun, f->name);
        /* It goes into event streams as it is, where a line break would end an event. */
        if (f->kind == FIELD_JSON && strpbrk(text, "\r\n"))
            return err_set(err, ERR_VALIDATION, "%s: '%s' is not on one line", info->noun, f->name);
    }
    return 0;
}

void *record_copy(enum record_type type, const void *record, size_t bytes)
{
    const struct record_info *info = &record_infos[type];
    char *copy = malloc(info->size + bytes);
    char now[CLOCK_ISO_SIZE] = "";
    if (!copy)
        return NULL;
    char *at = copy + info->size;
    memcpy(copy, record, info->size);
    for (size_t i = 0; i < info->n_fields; i++) {
        const struct record_field *f = &info->fields[i];
        if (f->kind == FIELD_INT)
            continue;
        const char *text = record_text(record, f);
        if (!text && filled_in(f)) {
            if (!now[0])
                clock_iso8601(clock_wall_ms(), now);
            text = now;
        }
        if (!text)
            continue;
        size_t len = strlen(text) + 1;
        memcpy(at, text, len);
        record_set_text(copy, f, at);
        at += len;
    }
    assert(at <= copy + info->size + bytes);
    return copy;
}

const char *query_filter_value(const struct store_query *q, const struct query_filter *f)
{
    const char *value = *(const char *const *)((const char *)q + f->offset);
    return value == store_any_owner ? NULL : value;
}

int query_check(enum record_type type, const struct store_query *q, struct err *err)
{
    const char *noun = record_infos[type].noun;
    if (!q->owner || !q->owner[0])
        return err_set(err, ERR_VALIDATION, "list of %ss: 'owner' is required", noun);
    if (type == RECORD_MESSAGE && !q->thread_id)
        return err_set(err, ERR_VALIDATION, "list of messages: 'thread_id' is required");
    for (size_t i = 0; i < QUERY_FILTERS; i++) {
        const struct query_filter *f = &query_filters[i];
        const char *value = query_filter_value(q, f);
        bool is_time = !f->column || f->op[0] == '<';
        if (!value)
            continue;
        if (!(f->types & 1u << type))
            return err_set(err, ERR_VALIDATION, "list of %ss: there is no filter '%s'", noun,
                           f->name);
        if (strnlen(value, KB) == KB || !str_is_utf8(value, strlen(value)))
            return err_set(err, ERR_VALIDATION, "list of %ss: '%s' is too long or not valid UTF-8",
                           noun, f->name);
        if (is_time && !is_canonical_time(value))
            return err_set(
                err, ERR_VALIDATION,
                "list of %ss: '%s' is not a time of the form 2026-01-31T12:00:00.000+00:00", noun,
                f->name);
    }
    return 0;
}

/* ---- JSON ---- */

static int write_value(const void *record, const struct record_field *f, struct buf *b,
                       struct err *err)
{
    if (f->kind == FIELD_INT) {
        int64_t v = record_int(record, f);
        return v < 0 ? buf_append_str(b, "null", err) : buf_printf(b, err, "%lld", (long long)v);
    }
    const char *text = record_text(record, f);
    if (!text)
        return buf_append_str(b, "null", err);
    if (f->kind == FIELD_JSON)
        return buf_append_str(b, text, err);
    auto_json json_t *j = json_text(text, strlen(text));
    if (!j)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    return json_write(j, b, err);
}

int record_json(enum record_type type, const void *record, bool brief, struct buf *b,
                struct err *err)
{
    const struct record_info *info = &record_infos[type];
    const char *separator = "{";
    for (size_t i = 0; i < info->n_fields; i++) {
        const struct record_field *f = &info->fields[i];
        if ((f->flags & FIELD_HIDDEN) || (brief && (f->flags & FIELD_HEAVY)))
            continue;
        int r = buf_printf(b, err, "%s\"%s\":", separator, f->shown ? f->shown : f->name);
        if (r < 0)
            return r;
        r = write_value(record, f, b, err);
        if (r < 0)
            return r;
        separator = ",";
    }
    return buf_append_str(b, "}", err);
}

int records_end(const struct store_page *page, const char *next_key, struct buf *b,
                struct err *err)
{
    return *page->next ? buf_printf(b, err, "],\"%s\":\"%s\"}", next_key, page->next) :
                         buf_printf(b, err, "],\"%s\":null}", next_key);
}

int records_json(enum record_type type, const char *head, const struct store_page *page, bool brief,
                 const char *next_key, struct buf *b, struct err *err)
{
    int r = buf_append_str(b, head, err);
    for (size_t i = 0; r == 0 && i < page->n; i++) {
        const char *record = (const char *)page->items + i * record_infos[type].size;
        r = i ? buf_append_str(b, ",", err) : 0;
        if (r == 0)
            r = record_json(type, record, brief, b, err);
    }
    return r < 0 ? r : records_end(page, next_key, b, err);
}

/* ---- cursors: 20260131120000123_<id>, or the number of a message ---- */

#define CURSOR_DIGITS 17

void cursor_print(enum record_type type, const void *record, char ret[STORE_CURSOR_SIZE])
{
    const struct record_info *info = &record_infos[type];
    if (type == RECORD_MESSAGE) {
        snprintf(ret, STORE_CURSOR_SIZE, "%lld",
                 (long long)record_int(record, record_field(type, info->key)));
        return;
    }
    size_t n = 0;
    for (const char *p = record_text(record, record_field(type, info->sort));
         *p && n < CURSOR_DIGITS; p++)
        if (*p >= '0' && *p <= '9')
            ret[n++] = *p;
    snprintf(ret + n, STORE_CURSOR_SIZE - n, "_%s",
             record_text(record, record_field(type, info->key)));
}

int cursor_parse(enum record_type type, const char *cursor, struct store_position *ret,
                 struct err *err)
{
    struct store_position p = { .number = 0 };
    struct err ignored;
    long long number;
    if (type == RECORD_MESSAGE) {
        if (str_parse_i64(cursor, "cursor", 1, INT64_MAX, &number, &ignored) < 0)
            goto bad;
        p.number = number;
        *ret = p;
        return 0;
    }
    size_t n = strspn(cursor, "0123456789");
    size_t len = strnlen(cursor, STORE_CURSOR_SIZE);
    if (n != CURSOR_DIGITS || cursor[n] != '_' || len >= STORE_CURSOR_SIZE ||
        !is_plain(cursor + n + 1) || !str_is_utf8(cursor, len))
        goto bad;
    snprintf(p.time, sizeof(p.time), "%.4s-%.2s-%.2sT%.2s:%.2s:%.2s.%.3s+00:00", cursor, cursor + 4,
             cursor + 6, cursor + 8, cursor + 10, cursor + 12, cursor + 14);
    if (!is_canonical_time(p.time))
        goto bad;
    memcpy(p.id, cursor + n + 1, len - n);
    *ret = p;
    return 0;
bad:
    return err_set(err, ERR_VALIDATION, "cursor is not one that a list of %ss gave",
                   record_infos[type].noun);
}
