/*
 * Workbooks of Excel: which parts of the archive matter and what they say. The order of things: the
 * relationships of the package name the workbook; the workbook names its sheets; its relationships
 * say in which files those, the strings and the styles are; styles and strings are read into
 * memory; then xlsx_sheet.c streams each sheet.
 */

#include "kernel/ingest/xlsx/xlsx.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/xlsx/xlsx_impl.h"

#define MAX_RELATIONSHIPS 10000
#define MAX_STYLES 65536
#define MAX_STRINGS (1u << 24)

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

int xlsx_open_part(struct xlsx_book *wb, const char *path, struct package_stream **ret_stream,
                   struct xml *x, struct err *err)
{
    int64_t entry = path && path[0] ? package_find(&wb->package, path) : -1;
    int r;

    if (entry < 0)
        return 0;
    r = package_stream_open(&wb->package, entry, XLSX_MAX_PART_BYTES, ret_stream, err);
    if (r == 0)
        r = xml_init(x, package_stream_read, *ret_stream, err);
    return r < 0 ? r : 1;
}

/* ---- relationships ------------------------------------------------------------------------------------------------- */

/*
 * `target` as a relationship of a part in `directory` says it → the path in the archive. False: it
 * is no part in it.
 */
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
static int each_relationship(struct xlsx_book *wb, const char *path, const char *directory,
                             int (*visit)(void *arg, const char *kind, const char *id,
                                          const char *target, struct err *err),
                             void *arg, struct err *err)
{
    auto_package_stream struct package_stream *stream = NULL;
    auto_xml struct xml x = { 0 };
    size_t n = 0;
    int r = xlsx_open_part(wb, path, &stream, &x, err);

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
        const char *slash = strrchr(xml_attribute(&x, "Type"), '/');
        if (str_eq(xml_attribute(&x, "TargetMode"), "External") ||
            !resolve(directory, xml_attribute(&x, "Target"), resolved, sizeof(resolved)))
            continue;
        r = visit(arg, slash ? slash + 1 : "", xml_attribute(&x, "Id"), resolved, err);
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

int xlsx_add_sheet(struct xlsx_book *b, const char *id, const char *name, struct err *err)
{
    if (b->n_sheets == XLSX_MAX_SHEETS)
        return err_set(err, ERR_VALIDATION, "it has more than %d sheets", XLSX_MAX_SHEETS);
    if (b->n_sheets == b->sheets_cap) {
        size_t cap = b->sheets_cap ? 2 * b->sheets_cap : 16;
        struct xlsx_sheet *more = realloc(b->sheets, cap * sizeof(*more));

        if (!more)
            return err_set(err, ERR_NO_MEMORY, "out of memory for the sheets");
        b->sheets = more;
        b->sheets_cap = cap;
    }
    struct xlsx_sheet *s = &b->sheets[b->n_sheets++];
    *s = (struct xlsx_sheet){ arena_strdup(&b->arena, id), arena_strdup(&b->arena, name), NULL };
    return s->id && s->name ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for the sheets");
}

static int note_part(void *arg, const char *kind, const char *id, const char *target,
                     struct err *err)
{
    struct xlsx_book *wb = arg;

    if (str_eq(kind, "sharedStrings"))
        snprintf(wb->strings_path, sizeof(wb->strings_path), "%s", target);
    else if (str_eq(kind, "styles"))
        snprintf(wb->styles_path, sizeof(wb->styles_path), "%s", target);
    for (size_t i = 0; str_eq(kind, "worksheet") && i < wb->n_sheets; i++) {
        struct xlsx_sheet *s = &wb->sheets[i];

        if (!str_eq(s->id, id) || s->path)
            continue;
        s->path = arena_strdup(&wb->arena, target);
        return s->path ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for the sheets");
    }
    return 0;
}

static int note_sheet(struct xlsx_book *wb, struct xml *x, struct err *err)
{
    const char *state = xml_attribute(x, "state");

    if (str_eq(state, "hidden") || str_eq(state, "veryHidden"))
        return 0;
    return xlsx_add_sheet(wb, xml_attribute(x, "id"), xml_attribute(x, "name"), err);
}

/* The sheets of the workbook part. */
static int list_sheets(struct xlsx_book *wb, const char *path, struct err *err)
{
    auto_package_stream struct package_stream *stream = NULL;
    auto_xml struct xml x = { 0 };
    int r = xlsx_open_part(wb, path, &stream, &x, err);

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
            const char *since = xml_attribute(&x, "date1904");

            wb->since_1904 = str_eq(since, "1") || str_eq(since, "true");
        } else if (xml_is(&x, "sheet")) {
            r = note_sheet(wb, &x, err);
        }
        if (r < 0)
            return r;
    }
}

static int find_sheets(struct xlsx_book *wb, struct err *err)
{
    char path[512] = "xl/workbook.xml", directory[512], rels[1100];
    size_t n = 0;
    int r = each_relationship(wb, "_rels/.rels", "", note_workbook, path, err);

    if (r == 0 && str_ends(path, ".bin"))
        r = err_set(err, ERR_VALIDATION, "it is a binary workbook (.xlsb)");
    if (r == 0)
        r = list_sheets(wb, path, err);
    if (r == 0 && wb->n_sheets == 0)
        r = err_set(err, ERR_VALIDATION, "it has no visible sheet");
    if (r == 0) {
        char *slash = strrchr(path, '/');
        size_t len = slash ? (size_t)(slash + 1 - path) : 0;

        snprintf(directory, sizeof(directory), "%.*s", (int)len, path);
        snprintf(rels, sizeof(rels), "%s_rels/%s.rels", directory, path + len);
        r = each_relationship(wb, rels, directory, note_part, wb, err);
    }
    for (size_t i = 0; i < wb->n_sheets; i++) /* those of charts have no cells */
        if (wb->sheets[i].path)
            wb->sheets[n++] = wb->sheets[i];
    wb->n_sheets = n;
    if (r == 0 && n == 0)
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
    struct custom_format f = { .id = strtol(xml_attribute(x, "numFmtId"), NULL, 10),
                               .format = xlsx_format_of(xml_attribute(x, "formatCode")) };

    return buf_append(customs, &f, sizeof(f), err);
}

static int add_style(struct xlsx_book *wb, struct xml *x, const struct buf *customs,
                     struct err *err)
{
    long id = strtol(xml_attribute(x, "numFmtId"), NULL, 10);
    unsigned char format = (unsigned char)xlsx_builtin_format(id);

    if (wb->formats.len >= MAX_STYLES)
        return err_set(err, ERR_VALIDATION, "it has more than %d cell styles", MAX_STYLES);
    for (size_t at = 0; at < customs->len; at += sizeof(struct custom_format)) {
        struct custom_format f;

        memcpy(&f, customs->data + at, sizeof(f));
        if (f.id == id) {
            format = (unsigned char)f.format;
            break;
        }
    }
    return buf_append(&wb->formats, &format, 1, err);
}

static int read_styles(struct xlsx_book *wb, struct err *err)
{
    auto_package_stream struct package_stream *stream = NULL;
    auto_xml struct xml x = { 0 };
    /*
     * Excel has at most 250 of its own formats; more than these and looking them up would take
     * long.
     */
    auto_buf struct buf customs = BUF_INIT(5000 * sizeof(struct custom_format));
    bool in_cell_styles = false, in_formats = false;
    int r = xlsx_open_part(wb, wb->styles_path, &stream, &x, err);

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

static int read_string(struct xlsx_book *wb, struct xml *x, struct err *err)
{
    size_t begin = wb->strings.len;
    int r = xlsx_collect_text(x, true, &wb->strings, err);

    if (r < 0)
        return r;
    if (wb->strings.len > begin)
        wb->strings.len = begin + xlsx_unescape(wb->strings.data + begin, wb->strings.len - begin);
    uint32_t end = (uint32_t)wb->strings.len;
    return buf_append(&wb->ends, &end, sizeof(end), err);
}

static int read_strings(struct xlsx_book *wb, struct err *err)
{
    auto_package_stream struct package_stream *stream = NULL;
    auto_xml struct xml x = { 0 };
    int r = xlsx_open_part(wb, wb->strings_path, &stream, &x, err);

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
                           (unsigned long long)(wb->options.max_text_bytes >> 20), MAX_STRINGS);
        if (r < 0)
            return r;
        if (wb->ends.len % (65536 * sizeof(uint32_t)) == 0 &&
            wb->options.must_stop(wb->options.stop_arg))
            return err_set(err, ERR_CANCELLED, "interrupted");
    }
}

/* ---- all of it ----------------------------------------------------------------------------------------------------- */

void xlsx_close(struct xlsx_book *b)
{
    if (!b)
        return;
    xls_close(b);
    package_finish(&b->package);
    arena_finish(&b->arena);
    buf_finish(&b->formats);
    buf_finish(&b->strings);
    buf_finish(&b->ends);
    free(b->sheets);
    free(b);
}

const char *xlsx_format_name(const struct xlsx_book *b)
{
    return b->ods ? "ods" : b->xls ? "xls" : "xlsx";
}

size_t xlsx_n_sheets(const struct xlsx_book *b)
{
    return b->n_sheets;
}

const char *xlsx_sheet_name(const struct xlsx_book *b, size_t i)
{
    return b->sheets[i].name;
}

static bool has(const struct xlsx_book *wb, const char *name)
{
    return package_find(&wb->package, name) >= 0;
}

/* What else a ZIP archive without a workbook may be. */
static int refuse_archive(const struct xlsx_book *wb, struct err *err)
{
    const char *name = wb->options.name;

    if (has(wb, "word/document.xml") || has(wb, "ppt/presentation.xml"))
        return err_set(
            err, ERR_VALIDATION,
            "'%.200s' is a text or presentation document; send its tables as .xlsx or CSV", name);
    return err_set(
        err, ERR_VALIDATION,
        "'%.200s' is a ZIP archive without an Excel workbook in it; unpack it and send the files inside",
        name);
}

static bool is_package(const struct xlsx_book *wb)
{
    return has(wb, "xl/workbook.xml") || has(wb, "xl/workbook.bin") ||
           (has(wb, "[Content_Types].xml") && !has(wb, "word/document.xml") &&
            !has(wb, "ppt/presentation.xml"));
}

static bool is_ods(const struct xlsx_book *wb)
{
    return has(wb, "content.xml") && has(wb, "META-INF/manifest.xml");
}

/* Puts the reason into a sentence. */
static int refuse(const struct xlsx_book *wb, int r, const struct err *why, struct err *err)
{
    if (r == -ERR_VALIDATION || r == -ERR_TOO_LARGE)
        return err_set(
            err, ERR_VALIDATION,
            "'%.200s' cannot be read as %s: %.600s; open it in a spreadsheet program and save it "
            "again as .xlsx or as CSV",
            wb->options.name, wb->ods ? "an OpenDocument sheet" : "an Excel workbook",
            why->message);
    return err_set(err, why->code, "%s", why->message);
}

bool xlsx_is_old(const void *data, size_t len)
{
    return len >= 8 && memcmp(data, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8) == 0;
}

int xlsx_open(const void *data, size_t len, const struct xlsx_options *options,
              struct xlsx_book **ret, struct err *err)
{
    struct xlsx_book *wb = calloc(1, sizeof(*wb));
    struct err why = ERR_INIT;
    bool package = true;

    if (!wb)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a workbook");
    wb->options = *options;
    arena_init(&wb->arena, 16u << 20);
    buf_init(&wb->formats, MAX_STYLES);
    buf_init(&wb->strings, (size_t)MIN_OF(options->max_text_bytes, (uint64_t)UINT32_MAX));
    buf_init(&wb->ends, MAX_STRINGS * sizeof(uint32_t));
    bool old = xlsx_is_old(data, len);
    int r = old ? xls_list_sheets(wb, &why) : package_open(&wb->package, data, len, &why);
    if (r == 0 && !old) {
        wb->ods = is_ods(wb);
        package = wb->ods || is_package(wb);
    }
    if (r == 0 && wb->ods) {
        r = ods_list_sheets(wb, &why);
    } else if (r == 0 && !old) {
        r = package ? find_sheets(wb, &why) : -ERR_VALIDATION;
        if (r == 0)
            r = read_styles(wb, &why);
        if (r == 0)
            r = read_strings(wb, &why);
    }
    if (r == 0) {
        *ret = wb;
        return 0;
    }
    r = package ? refuse(wb, r, &why, err) : refuse_archive(wb, err);
    xlsx_close(wb);
    return r;
}

int xlsx_write_sheet(struct xlsx_book *b, size_t i, struct sheet_writer *w, struct err *err)
{
    struct err why = ERR_INIT;
    int r = b->ods ? ods_read_sheet(b, i, w, &why) :
            b->xls ? xls_read_sheet(b, i, w, &why) :
                     xlsx_read_sheet(b, &b->sheets[i], w, &why);

    return r < 0 ? refuse(b, r, &why, err) : 0;
}
