/* Model output, repaired: see coerce.h. */

#include "agent/coerce.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/str.h"

#define NESTING_MAX 8 /* of schemas that types are set by */
#define WRAPPERS_MAX 3
#define STRING_LEVELS 2 /* JSON in a string in a string */

struct span {
    const char *s;
    size_t len;
};

static struct span trim(struct span t)
{
    if (t.len >= 3 && memcmp(t.s, "\xef\xbb\xbf", 3) == 0)
        t.s += 3, t.len -= 3;
    while (t.len > 0 && isspace((unsigned char)t.s[0]))
        t.s++, t.len--;
    while (t.len > 0 && isspace((unsigned char)t.s[t.len - 1]))
        t.len--;
    return t;
}

/* ---- fences ---- */

struct block {
    struct span body, language;
    size_t start, end; /* in the text, with the fences */
};

/* The block of code at or behind `at`; one that is not closed ends with the text. */
static bool next_block(struct span t, size_t at, struct block *ret)
{
    const char *open = at < t.len ? memmem(t.s + at, t.len - at, "```", 3) : NULL;
    if (!open)
        return false;
    size_t start = (size_t)(open - t.s), from = start + 3, word = from;
    while (word < t.len && (isalnum((unsigned char)t.s[word]) || memchr("+-_.", t.s[word], 4)))
        word++;
    ret->language = (struct span){ t.s + from, word - from };
    const char *close = memmem(t.s + from, t.len - from, "```", 3);
    size_t end = close ? (size_t)(close - t.s) : t.len;
    word = MIN_OF(word, end);
    ret->start = start;
    ret->end = close ? end + 3 : end;
    ret->body = trim((struct span){ t.s + word, end - word });
    return true;
}

static bool is_language(struct span word, const char *const *names)
{
    for (; *names; names++)
        if (word.len == strlen(*names) && strncasecmp(word.s, *names, word.len) == 0)
            return true;
    return false;
}

/* ---- JSON that is nearly right ---- */

static size_t skip_space(struct span t, size_t i)
{
    while (i < t.len && isspace((unsigned char)t.s[i]))
        i++;
    return i;
}

/*
 * Copies the object that t begins with, up to its end, without commas before brackets and with raw
 * control characters in strings escaped. An object that does not end is closed behind its last
 * whole member, and *ret_cut is set. *ret_used: bytes of t.
 */
static int mend(struct span t, struct buf *b, bool *ret_cut, size_t *ret_used, struct err *err)
{
    char open[JSON_MAX_DEPTH];
    /* whole: length of b behind the last member that is certain */
    size_t depth = 0, whole = 0;
    bool in_string = false, is_value = false; /* is_value: behind a colon of the object itself */
    int r = 0;
    *ret_cut = false;
    for (size_t i = 0; i < t.len && r >= 0; i++) {
        char c = t.s[i];
        if (in_string) {
            if (c == '\\' && i + 1 < t.len) {
                r = buf_append(b, t.s + i++, 2, err);
                continue;
            }
            if ((unsigned char)c < 0x20) {
                r = buf_printf(b, err, "\\u%04x", (unsigned)(unsigned char)c);
                continue;
            }
            r = buf_append(b, &c, 1, err);
            in_string = c != '"';
            if (!in_string && depth == 1 && is_value)
                whole = b->len;
            continue;
        }
        if (depth == 1 && (c == ':' || c == ','))
            is_value = c == ':';
        if (c == ',') {
            size_t next = skip_space(t, i + 1);
            if (depth == 1)
                whole = b->len; /* what stands before a comma is complete */
            if (next < t.len && (t.s[next] == '}' || t.s[next] == ']'))
                continue;
        }
        if (c == '{' || c == '[') {
            if (depth == JSON_MAX_DEPTH)
                return err_set(err, ERR_VALIDATION, "the JSON nests deeper than %d",
                               JSON_MAX_DEPTH);
            open[depth++] = c;
        }
        if (c == '}' || c == ']') {
            if (depth == 0 || open[depth - 1] != (c == '}' ? '{' : '['))
                return err_set(err, ERR_VALIDATION, "a '%c' in the JSON closes nothing", c);
            depth--;
        }
        r = buf_append(b, &c, 1, err);
        in_string = c == '"';
        if (depth == 0) {
            *ret_used = i + 1;
            return r;
        }
        if (depth == 1 && (c == '}' || c == ']'))
            whole = b->len;
        if (depth == 1 && c == '{' && i == 0)
            whole = b->len;
    }
    if (r < 0)
        return r;
    *ret_cut = true;
    *ret_used = t.len;
    b->len = whole;
    b->data[whole] = '\0';
    return buf_append_str(b, "}", err);
}

static int parse_mended(struct span t, json_t **ret, bool *ret_cut, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(COERCE_MAX_BYTES * 6 + 16);
    size_t used = 0;
    int r = mend(t, &b, ret_cut, &used, err);
    if (r < 0)
        return r;
    struct span rest = { t.s + used, t.len - used };
    if (memchr(rest.s, '{', rest.len))
        return err_set(err, ERR_VALIDATION, "there is more than one JSON object; write one");
    return json_parse(b.data, b.len, ret, err);
}

/* The value in a text: as it is, from between fences, or from the first brace on. */
static int find_value(struct span t, json_t **ret, bool *ret_cut, struct err *err)
{
    static const char *const json_names[] = { "", "json", "json5", "jsonc", NULL };
    struct err first = ERR_INIT;
    struct block block, other;
    *ret_cut = false;
    if (json_parse(t.s, t.len, ret, &first) >= 0)
        return 0;
    if (next_block(t, 0, &block) && !next_block(t, block.end, &other) &&
        is_language(block.language, json_names) &&
        memchr(t.s, '{', t.len) >= (const void *)(t.s + block.start)) {
        if (json_parse(block.body.s, block.body.len, ret, &first) >= 0)
            return 0;
        t = block.body;
    }
    const char *brace = memchr(t.s, '{', t.len);
    if (!brace)
        return err_set(err, ERR_VALIDATION, "there is no JSON object in the text");
    t.len -= (size_t)(brace - t.s);
    t.s = brace;
    int r = parse_mended(t, ret, ret_cut, err);
    if (r < 0 && err->code == ERR_INVALID_JSON) {
        first = *err;
        return err_set(err, ERR_VALIDATION, "the JSON cannot be read: %s", first.message);
    }
    return r;
}

/* ---- types ---- */

static const char *type_of(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    size_t i;
    json_t *v;
    if (json_is_string(type))
        return json_string_value(type);
    json_array_foreach(type, i, v) /* ["integer", "null"] */
        if (!str_eq(json_string_value(v), "null"))
            return json_string_value(v);
    return NULL;
}

/*
 * What the text of a string stands for, if the schema wants something else; NULL if that is not
 * certain.
 */
static json_t *from_text(const char *s, size_t len, const char *type)
{
    struct span t = trim((struct span){ s, len });
    struct err ignored = ERR_INIT;
    json_t *v = NULL;
    if (t.len == 0 || json_parse(t.s, t.len, &v, &ignored) < 0)
        return NULL;
    bool fits = (str_eq(type, "integer") && json_is_integer(v)) ||
                (str_eq(type, "number") && json_is_number(v)) ||
                (str_eq(type, "boolean") && json_is_boolean(v)) ||
                (str_eq(type, "array") && json_is_array(v)) ||
                (str_eq(type, "object") && json_is_object(v));
    if (!fits)
        json_decref(TAKE_PTR(v));
    return v;
}

static void set_types(json_t *object, const json_t *schema, int depth)
{
    json_t *properties = json_object_get(schema, "properties"), *property;
    const char *key;
    if (depth == NESTING_MAX || !json_is_object(properties))
        return;
    json_object_foreach(properties, key, property) {
        json_t *v = json_object_get(object, key), *better = NULL, *item;
        const char *type = type_of(property);
        size_t i;
        if (!v || !type)
            continue;
        if (json_is_string(v) && !str_eq(type, "string"))
            better = from_text(json_string_value(v), json_string_length(v), type);
        else if (json_is_real(v) && str_eq(type, "integer") &&
                 json_real_value(v) == floor(json_real_value(v)) && fabs(json_real_value(v)) < 1e15)
            better = json_integer((json_int_t)json_real_value(v));
        if (better)
            json_object_set_new(object, key, better);
        v = json_object_get(object, key);
        if (json_is_object(v))
            set_types(v, property, depth + 1);
        json_array_foreach(v, i, item)
            if (json_is_object(item))
                set_types(item, json_object_get(property, "items"), depth + 1);
    }
}

/* ---- arguments ---- */

static const char *only_required_text(const json_t *schema)
{
    const json_t *required = json_object_get(schema, "required");
    const char *name = json_string_value(json_array_get(required, 0));
    if (json_array_size(required) != 1 || !name)
        return NULL;
    return str_eq(type_of(json_object_get(json_object_get(schema, "properties"), name)), "string") ?
               name :
               NULL;
}

static int check_required(const json_t *object, const json_t *schema, bool cut, struct err *err)
{
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(schema, "required"), i, name) {
        const char *key = json_string_value(name);
        if (key && !json_object_get(object, key))
            return err_set(err, ERR_VALIDATION,
                           cut ? "the text was cut off before '%.200s' was complete" :
                                 "'%.200s' is required",
                           key);
    }
    return 0;
}

static int check_size(size_t len, struct err *err)
{
    return len <= COERCE_MAX_BYTES ?
               0 :
               err_set(err, ERR_TOO_LARGE, "the text has more than %u bytes", COERCE_MAX_BYTES);
}

/* {"arguments": {…}} where the schema knows no such member. */
static json_t *unwrap_arguments(json_t *object, const json_t *schema)
{
    static const char *const names[] = { "arguments", "parameters", "input", "args" };
    for (size_t i = 0; i < ARRAY_SIZE(names) && json_object_size(object) == 1; i++) {
        json_t *inner = json_object_get(object, names[i]);
        if (json_is_object(inner) && schema &&
            !json_object_get(json_object_get(schema, "properties"), names[i])) {
            json_incref(inner);
            json_decref(object);
            return inner;
        }
    }
    return object;
}

int coerce_object(const char *text, size_t len, const json_t *schema, json_t **ret, struct err *err)
{
    struct span t = trim((struct span){ text, len });
    auto_json json_t *v = NULL;
    bool cut = false;
    int r = check_size(len, err);
    if (r >= 0 && t.len == 0)
        v = json_object(); /* how some models call a tool that needs nothing */
    else if (r >= 0)
        r = find_value(t, &v, &cut, err);
    for (int level = 0; level < STRING_LEVELS && r >= 0 && json_is_string(v); level++) {
        struct span inner = trim((struct span){ json_string_value(v), json_string_length(v) });
        struct err ignored = ERR_INIT;
        json_t *held = NULL;
        const char *name = only_required_text(schema);
        /* Text that may be JSON is; otherwise it is what the one member should say. */
        if (inner.len > 0 && (inner.s[0] == '{' || inner.s[0] == '"' || inner.s[0] == '`') &&
            find_value(inner, &held, &cut, &ignored) >= 0 &&
            (json_is_object(held) || json_is_string(held)) && !cut) {
            json_decref(v);
            v = held;
        } else {
            json_decref(held);
            cut = false;
            if (!name)
                return err_set(err, ERR_VALIDATION,
                               "the arguments must be a JSON object, not a string");
            v = json_pack("{s:o}", name, v);
            if (!v)
                return err_set(err, ERR_NO_MEMORY, "out of memory");
        }
    }
    if (r < 0)
        return r;
    if (!json_is_object(v))
        return err_set(err, ERR_VALIDATION, "the arguments must be a JSON object, not %s",
                       json_type_name(v));
    if (schema) {
        v = unwrap_arguments(v, schema);
        set_types(v, schema, 0);
    }
    r = check_required(v, schema, cut, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(v);
    return 0;
}

/* ---- drafts ---- */

static const char *text_member(const json_t *object, const char *const *names)
{
    for (; *names; names++) {
        const char *s = json_string_value(json_object_get(object, *names));
        if (s && s[strspn(s, " \t\r\n")])
            return s;
    }
    return NULL;
}

/* "SELECT …", "with x as …"; "Select a city." and "With pleasure!" are English. */
static bool starts_like_sql(struct span t)
{
    static const char *const words[] = { "select", "SELECT", "with", "WITH" };
    if (t.len > 0 && memchr(".!?:", t.s[t.len - 1], 4))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t n = strlen(words[i]);
        if (t.len > n && memcmp(t.s, words[i], n) == 0 && isspace((unsigned char)t.s[n]))
            return true;
    }
    return false;
}

/* Code without the fences that a model put around it all the same. */
static json_t *code_of(const char *s)
{
    struct span t = trim((struct span){ s, strlen(s) });
    struct block block;
    if (t.len > 3 && memcmp(t.s, "```", 3) == 0 && next_block(t, 0, &block) && block.end == t.len)
        t = block.body;
    return t.len ? json_text(t.s, t.len) : NULL;
}

static int make_draft(const char *mode, const char *member, json_t *value, const char *message,
                      json_t **ret, struct err *err)
{
    json_t *out = json_pack("{s:s, s:s}", "mode", mode, "message", message ? message : "");
    if (member && value)
        json_object_set_new(out, member, value);
    if (!out || (member && !value)) {
        json_decref(out);
        return err_set(err, ERR_VALIDATION, "mode '%s' needs '%s', and it is empty", mode,
                       member ? member : "");
    }
    *ret = out;
    return 0;
}

/* The plan that an object carries or is. New reference; NULL if none. */
static json_t *plan_of(json_t *object)
{
    json_t *plan = json_object_get(object, "plan");
    if (!plan)
        plan = json_object_get(object, "plan_json");
    if (json_is_string(plan))
        return from_text(json_string_value(plan), json_string_length(plan), "object");
    if (json_is_object(plan))
        return json_incref(plan);
    bool bare = json_is_string(json_object_get(object, "table")) &&
                !json_object_get(object, "sql") &&
                (json_object_get(object, "select") || json_object_get(object, "dataset_id") ||
                 json_object_get(object, "group_by"));
    return bare ? json_incref(object) : NULL;
}

static int draft_of_object(json_t *object, json_t **ret, struct err *err)
{
    static const char *const modes[] = { "query_mode", "mode", "query_type", NULL },
                             *const sqls[] = { "sql", "query", NULL },
                             *const pythons[] = { "python_code", "python", "code", NULL },
                             *const messages[] = { "assistant_message", "message", "answer",
                                                   "response", NULL };
    const char *mode = text_member(object, modes), *sql = text_member(object, sqls),
               *python = text_member(object, pythons), *message = text_member(object, messages);
    auto_json json_t *plan = plan_of(object);
    int n = (plan != NULL) + (sql != NULL) + (python != NULL);
    if (mode && str_ieq(mode, "chat")) {
        if (!message)
            return err_set(err, ERR_VALIDATION, "mode 'chat' needs 'assistant_message'");
        return make_draft("chat", NULL, NULL, message, ret, err);
    }
    if (mode && !str_ieq(mode, "plan") && !str_ieq(mode, "sql") && !str_ieq(mode, "python")) {
        char shown[STR_SHOWN_SIZE];
        return err_set(err, ERR_VALIDATION,
                       "'query_mode' is '%s'; it must be plan, sql, python or chat",
                       str_show(mode, strlen(mode), shown, sizeof(shown)));
    }
    if (mode ? str_ieq(mode, "plan") && plan : n == 1 && plan != NULL)
        return make_draft("plan", "plan", json_incref(plan), message, ret, err);
    if (mode ? str_ieq(mode, "sql") && sql : n == 1 && sql)
        return make_draft("sql", "sql", code_of(sql), message, ret, err);
    if (mode ? str_ieq(mode, "python") && python : n == 1 && python)
        return make_draft("python", "python_code", code_of(python), message, ret, err);
    /* The mode names what is not there, but something else is, and only that. */
    if (mode && n == 1) {
        if (plan)
            return make_draft("plan", "plan", json_incref(plan), message, ret, err);
        return sql ? make_draft("sql", "sql", code_of(sql), message, ret, err) :
                     make_draft("python", "python_code", code_of(python), message, ret, err);
    }
    if (mode)
        return err_set(err, ERR_VALIDATION, "mode '%s' needs '%s'", mode,
                       str_ieq(mode, "python") ? "python_code" : mode);
    if (n == 0 && message)
        return make_draft("chat", NULL, NULL, message, ret, err);
    return err_set(
        err, ERR_VALIDATION,
        n ? "'query_mode' is needed to tell which of plan, sql and python_code is meant" :
            "the object has none of plan, sql, python_code and assistant_message");
}

/* The object inside {"parsed": …} and the like. Takes the reference and gives one. */
static json_t *unwrap_draft(json_t *object)
{
    static const char *const names[] = { "parsed", "output", "result", "draft", "response" };
    for (int level = 0; level < WRAPPERS_MAX; level++) {
        json_t *inner = NULL;
        for (size_t i = 0; i < ARRAY_SIZE(names) && !inner; i++) {
            json_t *v = json_object_get(object, names[i]);
            if (json_is_object(v))
                inner = json_incref(v);
            else if (json_is_string(v))
                inner = from_text(json_string_value(v), json_string_length(v), "object");
        }
        if (!inner || json_object_get(object, "query_mode") || json_object_get(object, "mode")) {
            json_decref(inner);
            return object;
        }
        json_decref(object);
        object = inner;
    }
    return object;
}

/* The text around a block, as the message. */
static char *text_around(struct span t, const struct block *block)
{
    struct span before = trim((struct span){ t.s, block->start }),
                after = trim((struct span){ t.s + block->end, t.len - block->end });
    auto_buf struct buf b = BUF_INIT(COERCE_MAX_BYTES + 16);
    (void)buf_append(&b, before.s, before.len, NULL);
    if (before.len && after.len)
        (void)buf_append_str(&b, "\n", NULL);
    (void)buf_append(&b, after.s, after.len, NULL);
    return buf_take(&b);
}

/* 1: it was one, and *ret is set; 0: it is no such text. */
static int draft_of_blocks(struct span t, json_t **ret, struct err *err)
{
    static const char *const sql[] = { "sql", "duckdb", "postgresql", "sqlite", NULL },
                             *const python[] = { "python", "py", "python3", NULL };
    struct block found = { .start = 0 }, block;
    bool is_sql = false;
    size_t n = 0;
    for (size_t at = 0; next_block(t, at, &block); at = block.end) {
        bool s = is_language(block.language, sql) ||
                 (block.language.len == 0 && starts_like_sql(block.body));
        if ((!s && !is_language(block.language, python)) || block.body.len == 0)
            continue;
        found = block;
        is_sql = s;
        n++;
    }
    if (n == 0)
        return 0;
    if (n > 1)
        return err_set(err, ERR_VALIDATION, "there are %zu blocks of code; one is needed", n);
    if (found.end == t.len && (t.len < 3 || memcmp(t.s + t.len - 3, "```", 3) != 0))
        return err_set(err, ERR_VALIDATION, "the block of code was cut off");
    if (!str_is_utf8(t.s, t.len))
        return err_set(err, ERR_VALIDATION, "the text is not UTF-8");
    auto_free char *message = text_around(t, &found);
    json_t *code = json_text(found.body.s, found.body.len);
    int r = make_draft(is_sql ? "sql" : "python", is_sql ? "sql" : "python_code", code, message,
                       ret, err);
    return r < 0 ? r : 1;
}

int coerce_draft(const char *text, size_t len, json_t **ret, struct err *err)
{
    struct span t = trim((struct span){ text, len });
    json_t *v = NULL;
    struct err ignored = ERR_INIT;
    bool cut = false;
    int r = check_size(len, err);
    if (r < 0)
        return r;
    if (t.len == 0)
        return err_set(err, ERR_VALIDATION, "the answer is empty");
    if (memchr(t.s, '\0', t.len))
        return err_set(err, ERR_VALIDATION, "the answer has a NUL in it");
    bool is_json = t.s[0] == '{' || t.s[0] == '"' || t.s[0] == '[';
    if (!is_json) {
        r = draft_of_blocks(t, ret, err);
        if (r != 0)
            return r < 0 ? r : 0;
        if (starts_like_sql(t)) {
            if (!str_is_utf8(t.s, t.len))
                return err_set(err, ERR_VALIDATION, "the text is not UTF-8");
            return make_draft("sql", "sql", json_text(t.s, t.len), NULL, ret, err);
        }
        if (!memchr(t.s, '{', t.len))
            return err_set(err, ERR_VALIDATION,
                           "the answer is neither JSON nor a block of SQL or Python");
    }
    r = find_value(t, &v, &cut, err);
    if (r >= 0 && json_is_string(v)) {
        struct span inner = { json_string_value(v), json_string_length(v) };
        json_t *held = NULL;
        if (find_value(trim(inner), &held, &cut, &ignored) >= 0) {
            json_decref(v);
            v = held;
        }
    }
    if (r >= 0 && !json_is_object(v))
        r = err_set(err, ERR_VALIDATION, "the answer must be a JSON object, not %s",
                    json_type_name(v));
    if (r >= 0) {
        v = unwrap_draft(v);
        r = draft_of_object(v, ret, err);
        if (r < 0 && cut)
            (void)err_wrap(err, "the answer was cut off");
    }
    json_decref(v);
    return r;
}
