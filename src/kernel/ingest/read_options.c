#include "kernel/ingest/read_options.h"

#include <string.h>
#include "base/macros.h"
#include "base/str.h"

static int wrong(const char *name, const char *expected, struct err *err)
{
    return err_set(err, ERR_VALIDATION, "option '%s' must be %s", name, expected);
}

static int set_encoding(struct read_options *o, const json_t *v, struct err *err)
{
    o->encoding = json_string_value(v);
    return o->encoding && *o->encoding && strlen(o->encoding) < 40 ?
               0 :
               wrong("encoding", "the name of an encoding, such as windows-1252", err);
}

static int set_delimiter(struct read_options *o, const json_t *v, struct err *err)
{
    const char *s = json_string_value(v);

    if (s && (str_ieq(s, "tab") || str_eq(s, "\\t")))
        s = "\t";
    if (s && str_ieq(s, "space"))
        s = " ";
    o->delimiter = s;
    return s && *s && strlen(s) <= 3 && !strpbrk(s, "\r\n") ?
               0 :
               wrong("delimiter", "one to three characters", err);
}

static int set_quote(struct read_options *o, const json_t *v, struct err *err)
{
    o->quote = json_string_value(v);
    return o->quote && strlen(o->quote) <= 1 ?
               0 :
               wrong("quote", "one character, or empty for none", err);
}

static int set_header(struct read_options *o, const json_t *v, struct err *err)
{
    o->header_line = json_integer_value(v);
    return json_is_integer(v) && o->header_line >= 0 && o->header_line <= 1000000 ?
               0 :
               wrong("header_line", "the number of the header's line, or 0 for a file without one",
                     err);
}

static int set_decimal(struct read_options *o, const json_t *v, struct err *err)
{
    const char *s = json_string_value(v);

    o->decimal = s ? *s : '\0';
    return str_eq(s, ".") || str_eq(s, ",") ? 0 : wrong("decimal", "'.' or ','", err);
}

static int set_thousands(struct read_options *o, const json_t *v, struct err *err)
{
    const char *s = json_string_value(v);

    o->thousands = s ? *s : '\0';
    return s && strlen(s) == 1 && strchr(".,' ", *s) ?
               0 :
               wrong("thousands", "one of . , ' and space", err);
}

static int set_order(struct read_options *o, const json_t *v, struct err *err)
{
    const char *s = json_string_value(v);

    o->order = str_ieq(s, "dmy") ? DATE_DMY :
               str_ieq(s, "mdy") ? DATE_MDY :
               str_ieq(s, "ymd") ? DATE_YMD :
                                   0;
    return o->order ? 0 : wrong("date_order", "dmy, mdy or ymd", err);
}

static int set_types(struct read_options *o, const json_t *v, struct err *err)
{
    const char *s = json_string_value(v);

    o->text = str_eq(s, "text");
    return o->text || str_eq(s, "auto") ? 0 : wrong("types", "auto or text", err);
}

static int set_sheet(struct read_options *o, const json_t *v, struct err *err)
{
    o->sheet = json_string_value(v);
    return o->sheet && *o->sheet ? 0 : wrong("sheet", "the name of a sheet", err);
}

static int set_nulls(struct read_options *o, const json_t *v, struct err *err)
{
    size_t i;
    json_t *word;

    if (!json_is_array(v) || json_array_size(v) > READ_NULL_WORDS)
        return wrong("nulls", "a list of at most 32 words", err);
    json_array_foreach(v, i, word) {
        if (!json_is_string(word))
            return wrong("nulls", "a list of words", err);
        o->null_words[o->n_null_words++] = json_string_value(word);
    }
    return 0;
}

static const struct {
    const char *name;
    int (*set)(struct read_options *o, const json_t *v, struct err *err);
} options[] = {
    { "encoding", set_encoding },  { "delimiter", set_delimiter }, { "quote", set_quote },
    { "header_line", set_header }, { "decimal", set_decimal },     { "thousands", set_thousands },
    { "date_order", set_order },   { "types", set_types },         { "sheet", set_sheet },
    { "nulls", set_nulls },
};

int read_options_parse(const json_t *json, struct read_options *ret, struct err *err)
{
    struct read_options o = READ_OPTIONS_INIT;
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)json, key, value) {
        size_t i = 0;

        while (i < ARRAY_SIZE(options) && !str_eq(options[i].name, key))
            i++;
        if (i == ARRAY_SIZE(options))
            return err_set(err, ERR_VALIDATION, "there is no option '%.60s' for reading a file",
                           key);
        int r = json_is_null(value) ? 0 : options[i].set(&o, value, err);
        if (r < 0)
            return r;
    }
    *ret = o;
    return 0;
}
