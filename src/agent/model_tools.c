/* The tools of a model at work: each call is read, run or looked up, and answered in words. */

#include <stdio.h>
#include <string.h>
#include "agent/chart.h"
#include "agent/coerce.h"
#include "agent/model_impl.h"
#include "base/base64.h"
#include "base/str.h"

#define TOOL_TEXT_MAX (64u << 10)
#define TOOL_CALLS_MAX 40
#define CHOICES_MAX 4
#define TOOL_IMAGES_MAX 3            /* figures of one run that a model sees */
#define IMAGE_MAX_BYTES (4u << 20)   /* of one, as base64: below every provider's limit */
#define IMAGES_MAX_BYTES (16u << 20) /* of a turn: each call sends all of them again */
#define IMAGE_MAX_PIXELS 8000        /* a side */

static void next_tool(struct turn *t);

static const struct llm_tool_call *current(const struct turn *t)
{
    return &t->talk->pending[t->talk->at];
}

/* What a call is known by when it comes again. */
static char *key_of(const char *name, const json_t *args)
{
    auto_free char *written = json_dumps(args, JSON_SORT_KEYS | JSON_COMPACT);
    char *key = NULL;
    if (!written || asprintf(&key, "%s %s", name, written) < 0)
        return NULL;
    return key;
}

static void answer_with(struct turn *t, const char *text, bool is_error,
                        const struct llm_image *images, size_t n_images)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    struct llm_message message = { .role = LLM_TOOL,
                                   .content = text,
                                   .tool_call_id = current(t)->id,
                                   .is_error = is_error,
                                   .images = images,
                                   .n_images = n_images };
    history_add_answer(t, text, is_error);
    talk->at++;
    if (model_add_message(t, message, &err) < 0)
        model_give_up(t, &err);
    else
        next_tool(t);
}

static void answer(struct turn *t, const char *text, bool is_error)
{
    answer_with(t, text, is_error, NULL, 0);
}

/* So that the same call is answered without running it again. */
static void remember(struct turn *t, const char *text, bool is_error)
{
    struct model_talk *talk = t->talk;
    auto_json json_t *args = NULL;
    const struct llm_tool_call *call = current(t);
    struct err ignored = ERR_INIT;
    if (coerce_object(call->arguments, strlen(call->arguments), tools_schema(call->name), &args,
                      &ignored) < 0)
        return;
    auto_free char *key = key_of(call->name, args);
    if (key)
        json_object_set_new(talk->answered, key,
                            json_pack("{s:s, s:b, s:i}", "text", text, "is_error", is_error,
                                      "cells", (int)talk->cells));
}

/* ---- figures ---- */

/* What every provider takes: a PNG of at most so many pixels a side. False for what is no PNG. */
static bool has_fair_size(const char *png)
{
    unsigned char head[24];
    size_t n = 0;
    struct err ignored = ERR_INIT;
    auto_buf struct buf b = BUF_INIT(64);
    if (strlen(png) < 32 || base64_decode(png, 32, &b, &ignored) < 0 || b.len < sizeof(head))
        return false;
    memcpy(head, b.data, sizeof(head));
    uint32_t side[2];
    for (size_t i = 0; i < 2; i++, n += 4)
        side[i] = (uint32_t)head[16 + n] << 24 | (uint32_t)head[17 + n] << 16 |
                  (uint32_t)head[18 + n] << 8 | head[19 + n];
    return memcmp(head + 1, "PNG", 3) == 0 && side[0] <= IMAGE_MAX_PIXELS &&
           side[1] <= IMAGE_MAX_PIXELS;
}

void model_keep_figure(struct turn *t, const json_t *display)
{
    struct model_talk *talk = t->talk;
    json_t *png = json_object_get(display, "png");
    size_t len = json_string_length(png);
    if (!talk || !json_is_string(png) || !llm_sees(t->chat->agent->env.llm))
        return;
    if (json_array_size(talk->drawn) >= TOOL_IMAGES_MAX || len > IMAGE_MAX_BYTES ||
        talk->image_bytes + len > IMAGES_MAX_BYTES || !has_fair_size(json_string_value(png))) {
        talk->too_large++;
        return;
    }
    talk->image_bytes += len;
    json_array_append(talk->drawn, png);
}

/* The figures of the code that ran; talk->kept holds them. */
static size_t images_of(struct turn *t, const struct llm_image **ret)
{
    struct model_talk *talk = t->talk;
    struct llm_image *images = arena_alloc(&t->arena, TOOL_IMAGES_MAX * sizeof(*images));
    size_t i, n = 0;
    json_t *png;
    json_array_foreach(talk->drawn, i, png)
        if (images && json_array_append(talk->kept, png) == 0)
            images[n++] = (struct llm_image){ .type = "image/png",
                                              .base64 = json_string_value(png) };
    *ret = images;
    return n;
}

static void code_ran(struct turn *t)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    auto_buf struct buf text = BUF_INIT(TOOL_TEXT_MAX);
    const struct llm_image *images = NULL;
    bool failed = !json_is_null(json_object_get(t->result, "error"));
    size_t n_images = images_of(t, &images);
    if (tools_result_text(t, t->result, talk->files_before, &text, &err) < 0 && text.len == 0)
        (void)buf_append_str(&text, "the result is too large to show: select fewer columns or rows",
                             &err);
    if (talk->too_large)
        (void)buf_printf(&text, &err,
                         "\n%u of the figures can't be shown to you, being too large or too many: "
                         "draw fewer and smaller ones to look at them.",
                         talk->too_large);
    json_decref(TAKE_PTR(talk->files_before));
    talk->cells += str_eq(t->mode, "python");
    remember(t, buf_cstr(&text), failed);
    answer_with(t, buf_cstr(&text), failed, images, n_images);
}

static void run(struct turn *t, const char *language, const char *code, json_t *plan)
{
    struct turn_run what = { .language = language, .code = code, .plan = plan };
    json_decref(t->talk->files_before);
    t->talk->files_before = json_incref(t->files);
    json_array_clear(t->talk->drawn);
    t->talk->too_large = 0;
    turn_run_code(t, &what, code_ran);
}

static void tell_values(struct turn *t, const char *text)
{
    const char *told = *text ? text : "no text column has a value like this";
    remember(t, told, false);
    answer(t, told, false);
}

/* What the database found in columns that the index does not know all values of. */
static void values_found(void *arg, const struct run_result *result, const struct err *err)
{
    struct turn *t = arg;
    struct err why = ERR_INIT;
    auto_buf struct buf text = BUF_INIT(TOOL_TEXT_MAX);
    turn_count_wait(t);
    if (turn_should_stop(t))
        return;
    bool failed = err || result->verdict != VERDICT_OK;
    (void)tools_find_values(t, t->talk->wanted, &text, &why);
    if (failed && text.len == 0) {
        answer(t, err ? err->message : "the search failed; try run_sql with ILIKE", true);
        return;
    }
    if (!failed && json_array_size(json_object_get(result->body, "rows")) > 0)
        (void)tools_result_text(t, result->body, NULL, &text, &why);
    tell_values(t, buf_cstr(&text));
}

static void find_values(struct turn *t, const char *text)
{
    auto_buf struct buf sql = BUF_INIT(CODE_MAX_BYTES), found = BUF_INIT(TOOL_TEXT_MAX);
    struct err err = ERR_INIT;
    int r = text && *text ? tools_find_values_sql(t, text, &sql, &err) :
                            err_set(&err, ERR_VALIDATION, "the text is missing");
    if (r == 0 && sql.len == 0) {
        (void)tools_find_values(t, text, &found, &err);
        tell_values(t, buf_cstr(&found));
        return;
    }
    const char *kept = r == 0 ? arena_strdup(&t->arena, buf_cstr(&sql)) : NULL;
    t->talk->wanted = r == 0 ? arena_strdup(&t->arena, text) : NULL;
    if (r == 0 && (!kept || !t->talk->wanted))
        r = err_set(&err, ERR_NO_MEMORY, "out of memory");
    if (r == 0)
        r = turn_look_up(t, kept, 50, values_found, &err);
    if (r < 0)
        answer(t, err.message, true);
}

/* A checked specification; what does not fit is told with the columns that there are. */
static void show_chart(struct turn *t, const json_t *args)
{
    const json_t *result = json_array_get(t->results, json_array_size(t->results) - 1);
    auto_json json_t *hint = json_pack("{s:O*, s:O*, s:O*, s:O*}", "mark",
                                       json_object_get(args, "kind"), "x",
                                       json_object_get(args, "x"), "y", json_object_get(args, "y"),
                                       "series", json_object_get(args, "series"));
    auto_json json_t *chart = result ? chart_suggest(result, hint) : NULL;
    const json_t *meta = json_object_get(chart, "usermeta");
    auto_free char *columns = json_to_str(json_object_get(result, "columns"));
    bool fits = chart && json_equal(json_object_get(meta, "x"), json_object_get(args, "x")) &&
                json_equal(json_object_get(meta, "y"), json_object_get(args, "y"));
    if (!result) {
        answer(t, "there is no result to draw yet: run a query first", true);
    } else if (!fits) {
        const char *text = arena_printf(
            &t->arena,
            "this does not fit the last result, whose columns are %s and which has %zu rows",
            columns ? columns : "", json_array_size(json_object_get(result, "rows")));
        answer(t, text ? text : "this does not fit the last result", true);
    } else {
        json_object_set(t->extra, "chart", chart);
        answer(t, "the person sees this chart with your answer", false);
    }
}

static void ask_person(struct turn *t, const json_t *args)
{
    auto_buf struct buf text = BUF_INIT(64u << 10);
    const char *question = json_string_value(json_object_get(args, "question"));
    json_t *choices = json_array(), *choice;
    struct err err = ERR_INIT;
    size_t i;
    int r = buf_append_str(&text, question ? question : "Which do you mean?", &err);
    json_array_foreach(json_object_get(args, "choices"), i, choice) {
        if (!json_is_string(choice) || json_array_size(choices) == CHOICES_MAX)
            continue;
        json_array_append_new(choices, json_pack("{s:O}", "reading", choice));
        if (r == 0)
            r = buf_printf(&text, &err, "\n%zu. %s", json_array_size(choices),
                           json_string_value(choice));
    }
    if (json_array_size(choices) > 0)
        json_object_set(t->extra, "choices", choices);
    json_decref(choices);
    t->streamed = false; /* the question goes out whole */
    buf_clear(&t->text);
    (void)buf_append(&t->text, buf_cstr(&text), text.len, &err);
    t->status = "succeeded";
    history_add_answer(t, "the person was asked", false);
    turn_finish(t);
}

static void use(struct turn *t, const struct llm_tool_call *call, json_t *args)
{
    struct err err = ERR_INIT;
    auto_buf struct buf text = BUF_INIT(TOOL_TEXT_MAX);
    const char *code = json_string_value(
        json_object_get(args, str_eq(call->name, "run_python") ? "code" : "sql"));
    if (str_eq(call->name, "run_sql") || str_eq(call->name, "run_python")) {
        bool python = str_eq(call->name, "run_python");
        if (python && !turn_cfg(t)->enable_python)
            answer(t, "Python is switched off on this server; use run_sql", true);
        else if (!code || !*code)
            answer(t, "the code is missing", true);
        else
            run(t, python ? "python" : "sql", code, NULL);
    } else if (str_eq(call->name, "run_plan")) {
        json_t *plan = json_object_get(args, "plan");
        if (json_is_object(plan) && !json_object_get(plan, "dataset_id"))
            json_object_set_new(plan, "dataset_id", json_string(t->chat->data.dataset_id));
        if (turn_compile(t, plan, &code, &err) < 0)
            answer(t, err.message, true);
        else
            run(t, "plan", code, plan);
    } else if (str_eq(call->name, "find_values")) {
        find_values(t, json_string_value(json_object_get(args, "text")));
    } else if (str_eq(call->name, "show_chart")) {
        show_chart(t, args);
    } else if (str_eq(call->name, "ask_person")) {
        ask_person(t, args);
    } else {
        int r = str_eq(call->name, "describe_table") ? tools_describe_table(t, args, &text, &err) :
                                                       tools_list_files(t, &text, &err);
        answer(t, r < 0 ? err.message : buf_cstr(&text), r < 0);
    }
}

/* The same call with nothing run in between gives the same: it is not run again. */
static bool answer_again(struct turn *t, const struct llm_tool_call *call, const json_t *args)
{
    auto_free char *key = key_of(call->name, args);
    const json_t *first = key ? json_object_get(t->talk->answered, key) : NULL;
    if (!first)
        return false;
    unsigned cells = (unsigned)json_integer_value(json_object_get(first, "cells"));
    if (cells != t->talk->cells)
        return false;
    const char *text = arena_printf(&t->arena, "You made this very call before. It answered:\n%s",
                                    json_string_value(json_object_get(first, "text")));
    answer(t, text ? text : "you made this very call before",
           json_is_true(json_object_get(first, "is_error")));
    return true;
}

static void next_tool(struct turn *t)
{
    struct model_talk *talk = t->talk;
    struct err err = ERR_INIT;
    if (turn_should_stop(t))
        return;
    if (talk->at >= talk->n_pending) {
        model_next_call(t);
        return;
    }
    const struct llm_tool_call *call = current(t);
    const json_t *schema = tools_schema(call->name);
    auto_json json_t *args = NULL;
    if (++talk->tool_calls > TOOL_CALLS_MAX) {
        answer(t, "too many tool calls: answer with what you have", true);
        return;
    }
    if (!schema) {
        const char *text = arena_printf(&t->arena, "there is no tool '%.60s'; the tools are %s",
                                        call->name, tools_names());
        answer(t, text ? text : "unknown tool", true);
        return;
    }
    if (coerce_object(call->arguments, strlen(call->arguments), schema, &args, &err) < 0) {
        talk->bad_calls++;
        const char *text = arena_printf(&t->arena, "the arguments can't be read: %s", err.message);
        answer(t, text ? text : "the arguments can't be read", true);
        return;
    }
    turn_say(t, "tool_call",
             json_pack("{s:s, s:s, s:O}", "id", call->id, "name", call->name, "input", args));
    if (!answer_again(t, call, args))
        use(t, call, args);
}

void model_use_tools(struct turn *t)
{
    next_tool(t);
}
