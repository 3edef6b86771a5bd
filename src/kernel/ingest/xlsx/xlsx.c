/*
 * Excel workbooks: which parts of the archive matter and what they say. The order of things: the relationships of the package name
 * the workbook; the workbook names its sheets; its relationships say in which files those, the strings and the styles are;
 * styles and strings are read into memory; then xlsx_sheet.c streams the sheet.
 */

#include "kernel/ingest/xlsx/xlsx.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/xlsx/xlsx_impl.h"

#define MAX_RELATIONSHIPS 10000
#define MAX_SHEETS 10000
#define MAX_STYLES 65536
#define MAX_STRINGS (1u << 24)
#define MAX_ATTRIBUTE_BYTES (64 * 1024)

/* ---- pieces -------------------------------------------------------------------------------------------------------- */

void xlsx_cell_name(size_t column, int64_t row, char ret[XLSX_CELL_NAME_SIZE])
{
    char letters[4];
    size_t n = 0;

    for (size_t c = column + 1; c > 0 && n < sizeof(letters); c = (c - 1) / 26)
        letters[n++] = (char)('A' + (c - 1) % 26);
    for (size_t i = 0; i < n; i++)
        ret[i] = letters[n - 1 - i];
    snprintf(ret + n, XLSX_CELL_NAME_SIZE - n, "%lld", (long long)row);
}

static int append_piece(struct xml *x, size_t begin, struct buf *out, struct err *err)
{
    if (out->len - begin + x->text_len > XLSX_MAX_CELL_BYTES)
        return err_set(err, ERR_VALIDATION, "a cell has more than %d characters",
                       XLSX_MAX_CELL_CHARS);
    return buf_append(out, x->text, x->text_len, err);
}

int xlsx_collect_text(struct xml *x, bool runs, struct buf *out, struct err *err)
{
    size_t begin = out->len, depth = x->depth, inside = runs ? 0 : depth;

    for (;;) {
        int token = xml_next(x, err);
        int r = 0;

        if (token < 0)
            return token;
        if (token == XML_TEXT && inside) {
            r = append_piece(x, begin, out, err);
        } else if (token == XML_START && runs && xml_is(x, "t") && !inside) {
            inside = x->depth;
        } else if (token == XML_START && xml_is(x, "rPh")) { /* how it is pronounced */
            r = xml_skip(x, err);
        } else if (token == XML_END) {
            if (x->depth < depth)
                return 0;
            if (x->depth < inside)
                inside = 0;
        }
        if (r < 0)
            return r;
    }
}

/* Opens a part as XML. 0: there is no such part. */
static int open_part(struct workbook *wb, const char *path, struct zip_stream **ret_stream,
                     struct xml *x, struct err *err)
{
    const struct zip_entry *entry = path[0] ? zip_find(&wb->zip, path) : NULL;
    int r;

    if (!entry)
        return 0;
    r = zip_stream_open(&wb->zip, entry, XLSX_MAX_PART_BYTES, ret_stream, err);
    if (r == 0)
        r = xml_init(x, zip_stream_read, *ret_stream, err);
    return r < 0 ? r : 1;
}

/* ---- relationships ------------------------------------------------------------------------------------------------- */

/* `target` as a relationship of a part in `directory` says it → the path in the archive. False: it is no part in it. */
static bool resolve(const char *directory, const char *target, char *ret, size_t size)
{
    int n;

    if (target[0] == '/')
        n = snprintf(ret, size, "%s", target + 1);
    else
        n = snprintf(ret, size, "%s%s", directory, target);
    if (n < 0 || (size_t)n >= size)
        return false;
    for (char *up; (up = strstr(ret, "/../"));) { /* ../xl/worksheets and its like */
        char *begin = up;

        while (begin > ret && begin[-1] != '/')
            begin--;
        memmove(begin, up + 4, strlen(up + 4) + 1);
    }
    return true;
}

/* Calls `visit` for each relationship inside the archive, with the last word of its type. */
static int each_relationship(struct workbook *wb, const char *path, const char *directory,
                             int (*visit)(void *arg, const char *kind, const char *id,
                                          const char *target, struct err *err),
                             void *arg, struct err *err)
{
    auto_zip_stream struct zip_stream *stream = NULL;
    auto_xml struct xml x = { 0 };
    auto_buf struct buf id = BUF_INIT(MAX_ATTRIBUTE_BYTES);
    auto_buf struct buf type = BUF_INIT(MAX_ATTRIBUTE_BYTES);
    auto_buf struct buf target = BUF_INIT(MAX_ATTRIBUTE_BYTES);
    auto_buf struct buf mode = BUF_INIT(MAX_ATTRIBUTE_BYTES);
    size_t n = 0;
    int r = open_part(wb, path, &stream, &x, err);

    if (r <= 0)
        return r;
    for (;;) {
        char resolved[512];
        int token = xml_next(&x, err);

        if (token <= XML_EOF)
            return token;
        if (token != XML_START || !xml_is(&x, "Relationship"))
            continue;
        if (++n > MAX_RELATIONSHIPS)
            return err_set(err, ERR_VALIDATION, "it has more than %d relationships",
                           MAX_RELATIONSHIPS);
        r = xml_attribute_text(&x, "Id", &id, err);
        if (r == 0)
            r = xml_attribute_text(&x, "Type", &type, err);
        if (r == 0)
            r = xml_attribute_text(&x, "Target", &target, err);
        if (r == 0)
            r = xml_attribute_text(&x, "TargetMode", &mode, err);
        if (r < 0)
            return r;
        const char *slash = strrchr(buf_cstr(&type), '/');
        if (str_eq(buf_cstr(&mode), "External") ||
            !resolve(directory, buf_cstr(&target), resolved, sizeof(resolved)))
            continue;
        r = visit(arg, slash ? slash + 1 : "", buf_cstr(&id), resolved, err);
        if (r < 0)
            return r;
    }
}

static int note_workbook(void *arg, const char *kind, const char *id, const char *target,
                         struct err *err)
{
    (void)id;
    (void)err;
    if (str_eq(kind, "officeDocument"))
        snprintf(arg, 512, "%s", target);
    return 0;
}

/* ---- the workbook -------------------------------------------------------------------------------------------------- */

struct sheet_choice {
    struct workbook *wb;
    struct xlsx_table *table;
    struct buf ids; /* of visible sheets in their order, each with its NUL; names likewise */
    struct buf names;
    size_t best; /* index of the first visible worksheet whose part is known */
};

static int note_part(void *arg, const char *kind, const char *id, const char *target,
                     struct err *err)
{
    struct sheet_choice *c = arg;
    const char *p = buf_cstr(&c->ids), *name = buf_cstr(&c->names);

    (void)err;
    if (str_eq(kind, "sharedStrings"))
        snprintf(c->wb->strings_path, sizeof(c->wb->strings_path), "%s", target);
    else if (str_eq(kind, "styles"))
        snprintf(c->wb->styles_path, sizeof(c->wb->styles_path), "%s", target);
    else if (str_eq(kind, "worksheet")) {
        for (size_t i = 0; i < c->best && i < c->table->n_sheets; i++) {
            const char *wanted = c->wb->options->sheet;

            if (str_eq(p, id) && (wanted ? str_eq(wanted, name) : i >= c->wb->options->passed)) {
                c->best = i;
                snprintf(c->wb->sheet_path, sizeof(c->wb->sheet_path), "%s", target);
                snprintf(c->table->sheet, sizeof(c->table->sheet), "%.*s",
                         (int)str_utf8_cut(name, strlen(name), sizeof(c->table->sheet) - 1), name);
                break;
            }
            p += strlen(p) + 1;
            name += strlen(name) + 1;
        }
    }
    return 0;
}

static int note_sheet(struct sheet_choice *c, struct xml *x, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(MAX_ATTRIBUTE_BYTES);
    int r = xml_attribute_text(x, "state", &text, err);

    if (r < 0 || str_eq(buf_cstr(&text), "hidden") || str_eq(buf_cstr(&text), "veryHidden"))
        return r;
    if (++c->table->n_sheets > MAX_SHEETS)
        return err_set(err, ERR_VALIDATION, "it has more than %d sheets", MAX_SHEETS);
    r = xml_attribute_text(x, "id", &text, err);
    if (r == 0)
        r = buf_append(&c->ids, buf_cstr(&text), strlen(buf_cstr(&text)) + 1, err);
    if (r == 0)
        r = xml_attribute_text(x, "name", &text, err);
    if (r == 0 && !str_is_utf8(buf_cstr(&text), text.len))
        r = err_set(err, ERR_VALIDATION, "the name of a sheet is not UTF-8");
    if (r == 0)
        r = buf_append(&c->names, buf_cstr(&text), strlen(buf_cstr(&text)) + 1, err);
    return r;
}

/* The sheets of the workbook part. */
static int list_sheets(struct sheet_choice *c, const char *path, struct err *err)
{
    auto_zip_stream struct zip_stream *stream = NULL;
    auto_xml struct xml x = { 0 };
    auto_buf struct buf text = BUF_INIT(MAX_ATTRIBUTE_BYTES);
    int r = open_part(c->wb, path, &stream, &x, err);

    if (r < 0)
        return r;
    if (r == 0)
        return err_set(err, ERR_VALIDATION, "it has no workbook in it");
    for (bool first = true;; first = false) {
        int token = xml_next(&x, err);

        if (token <= XML_EOF)
            return token;
        if (token != XML_START)
            continue;
        if (first && !xml_is(&x, "workbook"))
            return err_set(err, ERR_VALIDATION, "it has no workbook in it");
        /* Extensions have elements of the same name, below. */
        if (xml_is(&x, "workbookPr") && x.depth == 2) {
            r = xml_attribute_text(&x, "date1904", &text, err);
            c->wb->since_1904 = str_eq(buf_cstr(&text), "1") || str_eq(buf_cstr(&text), "true");
        } else if (xml_is(&x, "sheet")) {
            r = note_sheet(c, &x, err);
        }
        if (r < 0)
            return r;
    }
}

static int choose_sheet(struct workbook *wb, struct xlsx_table *t, struct err *err)
{
    struct sheet_choice c = { .wb = wb, .table = t, .best = SIZE_MAX };
    char path[512] = "xl/workbook.xml", directory[512], rels[1100];
    int r = each_relationship(wb, "_rels/.rels", "", note_workbook, path, err);

    buf_init(&c.ids, 4u << 20);
    buf_init(&c.names, 4u << 20);
    if (r == 0 && str_ends(path, ".bin"))
        r = err_set(err, ERR_VALIDATION, "it is a binary workbook (.xlsb)");
    if (r == 0)
        r = list_sheets(&c, path, err);
    if (r == 0) {
        char *slash = strrchr(path, '/');
        size_t n = slash ? (size_t)(slash + 1 - path) : 0;

        snprintf(directory, sizeof(directory), "%.*s", (int)n, path);
        snprintf(rels, sizeof(rels), "%s_rels/%s.rels", directory, path + n);
        r = each_relationship(wb, rels, directory, note_part, &c, err);
    }
    buf_finish(&c.ids);
    buf_finish(&c.names);
    if (r == 0 && t->n_sheets == 0)
        r = err_set(err, ERR_VALIDATION, "it has no visible sheet");
    if (r == 0 && !wb->sheet_path[0] && wb->options->sheet)
        r = err_set(err, ERR_VALIDATION, "it has no visible sheet '%.100s'", wb->options->sheet);
    if (r == 0 && !wb->sheet_path[0])
        r = err_set(err, ERR_VALIDATION, "it has no visible sheet with cells");
    return r;
}

/* ---- styles -------------------------------------------------------------------------------------------------------- */

struct custom_format {
    long id;
    enum number_format format;
};

static int add_custom(struct xml *x, struct buf *customs, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(MAX_ATTRIBUTE_BYTES);
    struct custom_format f;
    int r = xml_attribute_text(x, "numFmtId", &text, err);

    f.id = strtol(buf_cstr(&text), NULL, 10);
    if (r == 0)
        r = xml_attribute_text(x, "formatCode", &text, err);
    f.format = xlsx_format_of(buf_cstr(&text));
    return r < 0 ? r : buf_append(customs, &f, sizeof(f), err);
}

static int add_style(struct workbook *wb, struct xml *x, const struct buf *customs, struct err *err)
{
    struct xml_attributes a = xml_attributes(x);
    unsigned char format = FORMAT_NUMBER;

    if (wb->formats.len >= MAX_STYLES)
        return err_set(err, ERR_VALIDATION, "it has more than %d cell styles", MAX_STYLES);
    while (xml_next_attribute(&a)) {
        if (!xml_attribute_is(&a, "numFmtId"))
            continue;
        long id = strtol(a.value, NULL, 10); /* ends at the quote at the latest */
        size_t n = customs->len / sizeof(struct custom_format);

        format = (unsigned char)xlsx_builtin_format(id);
        for (size_t i = 0; i < n; i++) {
            struct custom_format f;

            memcpy(&f, customs->data + i * sizeof(f), sizeof(f));
            if (f.id == id) {
                format = (unsigned char)f.format;
                break;
            }
        }
    }
    return buf_append(&wb->formats, &format, 1, err);
}

static int read_styles(struct workbook *wb, struct err *err)
{
    auto_zip_stream struct zip_stream *stream = NULL;
    auto_xml struct xml x = { 0 };
    /* Excel has at most 250 of its own formats; more than these and looking them up would take long. */
    auto_buf struct buf customs = BUF_INIT(5000 * sizeof(struct custom_format));
    bool in_cell_styles = false, in_formats = false;
    int r = open_part(wb, wb->styles_path, &stream, &x, err);

    if (r <= 0)
        return r;
    for (;;) {
        int token = xml_next(&x, err);

        if (token <= XML_EOF)
            return token;
        r = 0;
        if (xml_is(&x, "cellXfs") && token != XML_TEXT)
            in_cell_styles = token == XML_START;
        else if (xml_is(&x, "numFmts") && token != XML_TEXT)
            in_formats = token == XML_START;
        else if (token == XML_START && xml_is(&x, "numFmt") && in_formats)
            r = add_custom(&x, &customs, err);
        else if (token == XML_START && xml_is(&x, "xf") && in_cell_styles)
            r = add_style(wb, &x, &customs, err);
        if (r == -ERR_TOO_LARGE)
            return err_set(err, ERR_VALIDATION, "it has too many number formats");
        if (r < 0)
            return r;
    }
}

/* ---- strings ------------------------------------------------------------------------------------------------------- */

static int read_string(struct workbook *wb, struct xml *x, struct err *err)
{
    size_t begin = wb->strings.len;
    int r = xlsx_collect_text(x, true, &wb->strings, err);

    if (r < 0)
        return r;
    if (wb->strings.len > begin) {
        if (!str_is_utf8(wb->strings.data + begin, wb->strings.len - begin))
            return err_set(err, ERR_VALIDATION, "its text is not UTF-8");
        wb->strings.len = begin + xlsx_unescape(wb->strings.data + begin, wb->strings.len - begin);
    }
    uint32_t end = (uint32_t)wb->strings.len;
    return buf_append(&wb->ends, &end, sizeof(end), err);
}

static int read_strings(struct workbook *wb, struct err *err)
{
    auto_zip_stream struct zip_stream *stream = NULL;
    auto_xml struct xml x = { 0 };
    int r = open_part(wb, wb->strings_path, &stream, &x, err);

    if (r <= 0)
        return r;
    for (;;) {
        int token = xml_next(&x, err);

        if (token <= XML_EOF)
            return token;
        if (token != XML_START || !xml_is(&x, "si"))
            continue;
        r = read_string(wb, &x, err);
        if (r == -ERR_TOO_LARGE)
            return err_set(err, ERR_VALIDATION,
                           "it has more text (%llu MB, or %u strings) than fits into memory",
                           (unsigned long long)(wb->options->max_text_bytes >> 20), MAX_STRINGS);
        if (r < 0)
            return r;
        if (wb->ends.len % (65536 * sizeof(uint32_t)) == 0 &&
            wb->options->must_stop(wb->options->stop_arg))
            return err_set(err, ERR_CANCELLED, "interrupted");
    }
}

/* ---- all of it ----------------------------------------------------------------------------------------------------- */

void xlsx_table_finish(struct xlsx_table *t)
{
    for (size_t i = 0; i < t->n_columns; i++)
        free(t->columns[i].name);
    free(t->columns);
    memset(t, 0, sizeof(*t));
}

static void workbook_finish(struct workbook *wb)
{
    zip_finish(&wb->zip);
    buf_finish(&wb->formats);
    buf_finish(&wb->strings);
    buf_finish(&wb->ends);
}

/* What else a ZIP archive without a workbook may be. */
static int refuse_archive(const struct workbook *wb, struct err *err)
{
    const char *name = wb->options->name;

    if (zip_find(&wb->zip, "content.xml") && zip_find(&wb->zip, "META-INF/manifest.xml"))
        return err_set(err, ERR_VALIDATION,
                       "'%.200s' is an OpenDocument file (.ods); save the sheet as .xlsx or CSV",
                       name);
    if (zip_find(&wb->zip, "word/document.xml") || zip_find(&wb->zip, "ppt/presentation.xml"))
        return err_set(
            err, ERR_VALIDATION,
            "'%.200s' is a text or presentation document; send its tables as .xlsx or CSV", name);
    return err_set(
        err, ERR_VALIDATION,
        "'%.200s' is a ZIP archive without an Excel workbook in it; unpack it and send the files inside",
        name);
}

static bool is_package(const struct workbook *wb)
{
    return zip_find(&wb->zip, "xl/workbook.xml") || zip_find(&wb->zip, "xl/workbook.bin") ||
           (zip_find(&wb->zip, "[Content_Types].xml") && !zip_find(&wb->zip, "word/document.xml") &&
            !zip_find(&wb->zip, "ppt/presentation.xml"));
}

int xlsx_to_csv(const void *data, size_t len, const struct xlsx_options *options,
                struct xlsx_table *ret, struct err *err)
{
    __attribute__((cleanup(workbook_finish))) struct workbook wb = { .options = options };
    struct xlsx_table t = { 0 };
    struct err why = ERR_INIT;
    bool package = true;

    buf_init(&wb.formats, MAX_STYLES);
    buf_init(&wb.strings, (size_t)MIN_OF(options->max_text_bytes, (uint64_t)UINT32_MAX));
    buf_init(&wb.ends, MAX_STRINGS * sizeof(uint32_t));
    int r = zip_open(&wb.zip, data, len, &why);
    if (r == 0) {
        package = is_package(&wb);
        r = package ? choose_sheet(&wb, &t, &why) : -ERR_VALIDATION;
    }
    if (r == 0)
        r = read_styles(&wb, &why);
    if (r == 0)
        r = read_strings(&wb, &why);
    if (r == 0)
        r = xlsx_read_sheet(&wb, &t, &why);
    if (r == 0) {
        *ret = t;
        return 0;
    }
    xlsx_table_finish(&t);
    if (!package)
        return refuse_archive(&wb, err);
    if (r == -ERR_VALIDATION || r == -ERR_TOO_LARGE)
        return err_set(
            err, ERR_VALIDATION,
            "'%.200s' cannot be read as an Excel workbook: %.600s; open it in a spreadsheet program and save it "
            "again as .xlsx or as CSV",
            options->name, why.message);
    return err_set(err, why.code, "%s", why.message);
}
