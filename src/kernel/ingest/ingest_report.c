/*
 * What an ingest says: the report of one that went well, and why one did not.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/ingest_impl.h"

void ingest_write_error(struct ingest *g, const char *message)
{
    result_fail(g->out, WIRE_VERDICT_ERROR, "VALIDATION_ERROR", message);
}

void ingest_write_interrupted(struct ingest *g)
{
    result_fail(g->out, WIRE_VERDICT_INTERRUPTED, "VALIDATION_ERROR",
                "reading the file was interrupted");
}

/*
 * ---- the report ---------------------------------------------------------------------------------
 * -------------------
 */

static void write_texts(struct json_out *out, const char *key, char **texts, size_t n)
{
    json_out_key(out, key);
    json_out_open(out, '[');
    for (size_t i = 0; i < n; i++)
        json_out_text(out, texts[i]);
    json_out_close(out, ']');
}

static void write_member(struct json_out *out, const char *key, const char *text)
{
    json_out_key(out, key);
    json_out_text(out, text);
}

static void write_count(struct json_out *out, const char *key, int64_t n)
{
    json_out_key(out, key);
    json_out_int(out, n);
}

/* Bytes of the file may be anything. */
static void write_bytes(struct json_out *out, const char *key, const char *text)
{
    auto_json json_t *safe = json_text(text, strlen(text));

    write_member(out, key, safe ? json_string_value(safe) : "");
}

#define ROWS_HAVE(n) ((n) == 1 ? "row has" : "rows have")

static void write_note(struct json_out *out, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void write_note(struct json_out *out, const char *fmt, ...)
{
    char note[600];
    va_list args;

    va_start(args, fmt);
    vsnprintf(note, sizeof(note), fmt, args);
    va_end(args);
    note[str_utf8_cut(note, strlen(note), sizeof(note) - 8)] = '\0';
    json_out_text(out, note);
}

static const char *order_name(enum date_order order)
{
    return order == DATE_DMY ? "dmy" : order == DATE_MDY ? "mdy" : "ymd";
}

/* What a person should know about a column; "" for nothing. */
static void describe_column(const struct column *c, const struct column_signs *signs, char *ret,
                            size_t size)
{
    static const char *const codes[] = {
        [CODE_COMPACT] = "dates written as digits (20240131)",
        [CODE_SERIAL] = "Excel's day numbers, read as dates",
        [CODE_SECONDS] = "seconds since 1970, read as points in time (UTC)",
        [CODE_MILLIS] = "milliseconds since 1970, read as points in time (UTC)",
        [CODE_STAMP] = "points in time written as digits (20240131235959)"
    };

    ret[0] = '\0';
    if (c->code != CODE_NONE)
        snprintf(ret, size, "%s", codes[c->code]);
    else if (c->type == COLUMN_TEXT && !signs->text && c->bad_line > 0 && c->n_good >= 3 &&
             (c->no_number && c->no_when))
        snprintf(ret, size, "text, because '%s' in line %lld is neither number nor date", c->bad,
                 (long long)c->bad_line);
    else if (c->type == COLUMN_TEXT && c->mixed_signs)
        snprintf(ret, size,
                 "text, because a sign stands between thousands in some values and another one in "
                 "others");
    else if (c->type == COLUMN_TEXT && !signs->text && column_mixes_percent(c))
        snprintf(ret, size,
                 "text, because some values have a percent sign and others have none");
    else if (c->type == COLUMN_TEXT && !signs->text && c->n_values == 0 && c->n_nulls > 0)
        snprintf(ret, size, "text as written: it has nothing but words for no value ('%s')",
                 c->nulls[0].word);
    else if (c->type == COLUMN_TEXT && c->other_nulls && !(c->no_number && c->no_when))
        snprintf(ret, size, "text, because more than %d words stand for no value",
                 COLUMN_NULL_WORDS);
    else if (c->type == COLUMN_TEXT && c->any_phone && !c->no_number)
        snprintf(ret, size, "text, because the values look like telephone numbers");
    else if ((c->type == COLUMN_INTEGER || c->type == COLUMN_REAL) && c->affix == AFFIX_PERCENT)
        snprintf(ret, size, "percent: 5%% is 0.05");
    else if ((c->type == COLUMN_INTEGER || c->type == COLUMN_REAL) && c->affix != AFFIX_NONE)
        snprintf(ret, size, "%s: %s", c->affix == AFFIX_CURRENCY ? "currency" : "unit",
                 c->affix_text);
    else if (c->type == COLUMN_DATE && (c->when_kinds & (WHEN_MONTH | WHEN_QUARTER)))
        snprintf(ret, size, "%s, read as their first day",
                 c->when_kinds & WHEN_MONTH ? "months" : "quarters");
    else if (c->type != COLUMN_TEXT && c->short_years)
        snprintf(ret, size, "years of two digits, read as 1950 to 2049");
    else if ((c->type == COLUMN_INTEGER || c->type == COLUMN_REAL) && c->guessed)
        snprintf(ret, size, "%s",
                 c->type == COLUMN_INTEGER ?
                     "the sign between digits was taken for one between thousands" :
                     "the sign between digits was taken for the decimal sign");
}

static void write_column(const struct column *c, const struct column_signs *signs,
                         struct json_out *out)
{
    bool nulls = c->n_nulls > 0 && c->type != COLUMN_TEXT,
         order = c->type != COLUMN_TEXT && c->order_counts && c->order;
    char note[200];

    describe_column(c, signs, note, sizeof(note));
    if (c->dropped || (!nulls && !order && !note[0]))
        return;
    json_out_open(out, '{');
    write_member(out, "name", c->name);
    if (note[0])
        write_bytes(out, "note", note);
    if (nulls) {
        json_out_key(out, "nulls");
        json_out_open(out, '{');
        for (size_t i = 0; i < c->n_nulls; i++) {
            json_out_key_text(out, c->nulls[i].word);
            json_out_int(out, c->nulls[i].n);
        }
        json_out_close(out, '}');
    }
    if (order)
        write_member(out, "date_order", order_name(c->order));
    if (c->guessed) {
        json_out_key(out, "guessed");
        json_out_bool(out, true);
    }
    json_out_close(out, '}');
}

/* "1 row was refused", "2 rows were refused". */
static void write_counted(struct json_out *out, int64_t n, const char *one, const char *many)
{
    if (n > 0)
        write_note(out, "%lld %s", (long long)n, n == 1 ? one : many);
}

static void write_csv_notes(const struct ingest *g, const struct ingest_part *p,
                            struct json_out *out)
{
    const struct csv_table *t = &g->table;
    const struct csv_counts *c = &t->counts;
    const struct encoding_result *e = &g->source.converted;

    write_counted(out, c->refused, "row was refused: it has more fields than the table has columns",
                  "rows were refused: they have more fields than the table has columns");
    write_counted(out, c->above, "line above the header was skipped",
                  "lines above the header were skipped");
    if (c->above_rows)
        write_note(out,
                   "%lld of the lines above the header %s several fields; if they are rows of a "
                   "table, say header_line",
                   (long long)c->above_rows, c->above_rows == 1 ? "has" : "have");
    if (t->shape.unnamed_first)
        write_note(out, "the header has one name less than the rows have fields; the first "
                        "column was taken for the one without a name");
    if (t->shape.header_rows > 1)
        write_note(out, "%zu header lines were made one", t->shape.header_rows);
    if (t->shape.header_rows == 0)
        write_note(out, "no header line was found; columns are called column0, column1, …");
    write_counted(out, c->repeated, "line that repeats the header was skipped",
                  "lines that repeat the header, or the title above it, were skipped");
    /* What looked like lines at the end may be one text in quotes, which is a value. */
    bool below_as_seen = c->below == t->shape.n_totals + t->shape.n_notes;
    write_counted(out, below_as_seen ? t->shape.n_totals : 0,
                  "line of totals at the end was skipped",
                  "lines of totals at the end were skipped");
    write_counted(out, below_as_seen ? t->shape.n_notes : c->below,
                  "line of notes at the end was skipped", "lines of notes at the end were skipped");
    write_counted(out, c->rules, "line of dashes was skipped", "lines of dashes were skipped");
    write_counted(out, c->comments, "comment line was skipped", "comment lines were skipped");
    write_counted(out, c->blank_inside, "blank line was skipped", "blank lines were skipped");
    if (p->next_line)
        write_note(out,
                   "another table begins in line %lld, below a blank line; it is a table of its "
                   "own",
                   (long long)p->next_line);
    if (c->subtotals)
        write_note(out,
                   "%lld rows seem to be subtotals of rows above (first in line %lld); sums over "
                   "all rows count twice what they add up",
                   (long long)c->subtotals, (long long)c->subtotal_line);
    if (c->unlabelled == 1 && c->unlabelled_line == c->last_line && c->rows > 3 &&
        !t->columns[0].dropped)
        write_note(out,
                   "the last row (line %lld) has nothing in the first column: it may be a total",
                   (long long)c->last_line);
    if (t->shape.layout.n_cuts)
        write_note(out, "columns were told by their position in the lines");
    if (c->padded)
        write_note(
            out,
            "%lld %s fewer fields than the table has columns (first in line %lld); the rest is "
            "empty",
            (long long)c->padded, ROWS_HAVE(c->padded), (long long)c->padded_line);
    if (c->irregular)
        write_note(
            out,
            "%lld %s quotes in odd places (first in line %lld) and %s read by separators",
            (long long)c->irregular, ROWS_HAVE(c->irregular), (long long)c->irregular_line,
            c->irregular == 1 ? "was" : "were");
    if (e->n_replaced && str_ieq(g->source.encoding, "utf-8"))
        write_note(out,
                   "%lld bytes are no valid utf-8 and were read as windows-1252; where that has "
                   "none, U+FFFD stands",
                   (long long)e->n_replaced);
    else if (e->n_replaced)
        write_note(out, "bytes that are no valid %s became U+FFFD: %lld", g->source.encoding,
                   (long long)e->n_replaced);
    if (e->n_nul)
        write_note(out, "%lld NUL characters were left out", (long long)e->n_nul);
    if (c->rows == 0)
        write_note(out, "the table has no rows");
    for (size_t i = 0; i < t->n_columns; i++)
        if (t->columns[i].type != COLUMN_TEXT && t->columns[i].order_counts &&
            t->columns[i].guessed) {
            write_note(
                out,
                "whether day or month comes first is a guess (%s); say date_order=dmy or mdy if "
                "it is wrong",
                t->columns[i].order == DATE_DMY ? "the day" : "the month");
            break;
        }
    for (size_t i = 0; i < t->n_columns; i++) {
        const struct column *x = &t->columns[i];
        bool number = x->type == COLUMN_INTEGER || x->type == COLUMN_REAL;
        if (number && x->any_separated && x->guessed) {
            write_note(out,
                       "whether numbers have decimals or thousands behind their sign is a guess "
                       "(%s); say decimal=. or decimal=, if it is wrong",
                       x->type == COLUMN_INTEGER ? "thousands" : "decimals");
            break;
        }
    }
}

static void write_sheet_notes(const struct ingest *g, const struct ingest_part *p,
                              struct json_out *out)
{
    size_t n = xlsx_n_sheets(g->source.book);

    if (p == g->parts && g->n_parts > 1 && n > 1)
        write_note(out, "the workbook has %zu visible sheets; each with rows is a table", n);
    if (p == g->parts && g->source.n_passed)
        write_note(out, "%zu sheets without a table in them were passed over", g->source.n_passed);
    if (p == g->parts && g->source.only_one && n > 1)
        write_note(out, "the workbook has %zu visible sheets; only '%s' was read", n, p->part);
    if (p->n_valueless)
        write_note(out,
                   "%lld formulas have no stored value and were read as empty; open the file in a "
                   "spreadsheet program and save it",
                   (long long)p->n_valueless);
    if (p->n_errors)
        write_note(out, "%lld cells with an error (#N/A, #DIV/0! …) were read as empty",
                   (long long)p->n_errors);
}

static void write_csv(const struct ingest *g, const struct ingest_part *p, struct json_out *out)
{
    const struct csv_table *t = &g->table;
    char decimal[2] = { t->signs.decimal, '\0' }, thousands[2] = { t->signs.thousands, '\0' };
    char quote[2] = { t->shape.layout.quote, '\0' };

    write_count(out, "refused", t->counts.refused);
    write_count(out, "skipped", csv_table_skipped(t) - t->counts.header);
    if (p->n_kept < t->counts.refused)
        write_count(out, "refused_kept", p->n_kept);
    if (t->counts.refused) {
        json_out_key(out, "refused_rows");
        json_out_open(out, '[');
        for (int64_t i = 0; i < MIN_OF(t->counts.refused, (int64_t)CSV_REFUSED_SHOWN); i++) {
            json_out_open(out, '{');
            write_count(out, "line", t->refused[i].line);
            write_member(out, "reason", t->refused[i].reason);
            write_bytes(out, "text", t->refused[i].text);
            json_out_close(out, '}');
        }
        json_out_close(out, ']');
    }
    if (!g->source.book) {
        write_member(out, "encoding", g->source.encoding);
        if (t->shape.layout.delimiter[0])
            write_bytes(out, "delimiter", t->shape.layout.delimiter);
        if (quote[0])
            write_bytes(out, "quote", quote);
    }
    write_count(out, "header_line", t->shape.header_line);
    if (decimal[0])
        write_member(out, "decimal", decimal);
    if (thousands[0])
        write_member(out, "thousands", thousands);
    json_out_key(out, "columns");
    json_out_open(out, '[');
    for (size_t i = 0; i < t->n_columns; i++)
        write_column(&t->columns[i], &t->signs, out);
    json_out_close(out, ']');
}

static void write_list_notes(const struct ingest *g, const struct ingest_part *p,
                             struct json_out *out)
{
    size_t n = p->n_lists, read = 0;

    for (size_t i = 0; i < g->n_parts; i++)
        read += !g->parts[i].nested;
    if (g->source.only_one)
        write_note(out, "the file has %zu lists of objects; only '%s' was read", n, p->part);
    else
        write_note(out, "the file has %zu lists of objects; each is a table", n);
    if (!g->source.only_one && n > read)
        write_note(out, "%zu of them could not be read as tables or are too many", n - read);
}

static void write_json_notes(const struct ingest_part *p, struct json_out *out)
{
    if (p->nested)
        write_note(out, "the lists in column '%s' are the rows of this table", p->part);
    write_counted(out, (int64_t)p->json.n_large,
                  "column is text, because of integers that are too large for 64 bits",
                  "columns are text, because of integers that are too large for 64 bits");
    write_counted(out, (int64_t)p->json.n_mixed,
                  "column is text, because it has no values or some of several types",
                  "columns are text, because they have no values or some of several types");
    if (p->json.spread)
        write_note(out, p->json.spread == JSON_LISTS ?
                            "the file is one object of lists; each list was read as a column" :
                            "the file is one object of objects; each was read as a row, called by "
                            "its key");
}

static void write_archive_notes(const struct ingest *g, struct json_out *out)
{
    const struct archive *a = g->source.archive;

    if (g->source.only_one && a->n_files > 1)
        write_note(out, "the archive has %zu files with data; only '%s' was read", a->n_files,
                   a->wanted);
    else if (a->n_files > 1)
        write_note(out, "the archive has %zu files with data; each with rows is a table",
                   a->n_files);
    if (g->source.n_passed)
        write_note(out, "%zu files or lists without a table in them were passed over",
                   g->source.n_passed);
    if (g->n_parts == DATA_MAX_PARTS)
        write_note(out, "only the first %d tables were read", DATA_MAX_PARTS);
}

static void write_database_notes(const struct ingest *g, const struct ingest_part *p,
                                 struct json_out *out)
{
    const struct database *d = g->source.database;
    const struct database_changes *c = &p->changes;
    size_t n = database_n_tables(d);

    if (p == g->parts && g->source.only_one && n > 1)
        write_note(out, "the database has %zu tables; only '%s' was read", n, p->part);
    else if (p == g->parts && n > 1)
        write_note(out, "the database has %zu tables; '%s' is called after the file", n, p->part);
    if (p == g->parts && g->source.n_passed)
        write_note(out, "%zu tables could not be read: %s", g->source.n_passed,
                   g->source.passed_why);
    if (p == g->parts && g->n_parts == DATA_MAX_PARTS && n > DATA_MAX_PARTS)
        write_note(out, "only the first %d tables were read", DATA_MAX_PARTS);
    if (p == g->parts && database_n_views(d))
        write_note(out, "%zu views were left out: they are not run", database_n_views(d));
    if (p == g->parts && database_n_virtual(d))
        write_note(out, "%zu virtual tables (full-text and spatial indexes) were left out",
                   database_n_virtual(d));
    if (c->mixed)
        write_note(out, "columns with values of several types are text");
    if (c->n_null_words)
        write_note(out,
                   "%lld words for no value (n/a, - …) among numbers or dates were read as empty",
                   (long long)c->n_null_words);
    if (c->n_replaced)
        write_note(out, "bytes that are no valid UTF-8 became U+FFFD: %lld",
                   (long long)c->n_replaced);
    if (c->n_nul)
        write_note(out, "%lld NUL characters were left out", (long long)c->n_nul);
}

static void write_notes(const struct ingest *g, const struct ingest_part *p, struct json_out *out)
{
    bool is_first = p == g->parts;
    bool of_lists = is_first && p->n_lists > 1 && !g->source.archive;

    bool of_json = p->json.n_large || p->json.n_mixed || p->json.spread || p->nested;

    if (!ingest_is_delimited(g) && !of_lists && !of_json && !g->source.database &&
        !(is_first && g->source.archive))
        return;
    json_out_key(out, "notes");
    json_out_open(out, '[');
    if (ingest_is_delimited(g))
        write_csv_notes(g, p, out);
    if (g->source.book)
        write_sheet_notes(g, p, out);
    if (of_lists)
        write_list_notes(g, p, out);
    if (of_json)
        write_json_notes(p, out);
    if (g->source.database)
        write_database_notes(g, p, out);
    if (is_first && g->source.archive)
        write_archive_notes(g, out);
    json_out_close(out, ']');
}

/* How the file was read; the members are in docs/files.md. */
static void write_report(const struct ingest *g, const struct ingest_part *p, struct json_out *out)
{
    const struct data_source *s = &g->source;
    bool tabs = s->format == DATA_CSV && str_eq(g->table.shape.layout.delimiter, "\t");

    json_out_key(out, "report");
    json_out_open(out, '{');
    write_member(out, "format",
                 tabs          ? "tsv" :
                 s->written_as ? s->written_as :
                 s->book       ? xlsx_format_name(s->book) :
                                 data_format_name(s->format));
    if (s->compression != PACKED_NOT)
        write_member(out, "compression", packed_name(s->compression));
    else if (s->archive)
        write_member(out, "compression", "zip");
    write_count(out, "rows", g->n_rows);
    if (s->book) {
        write_member(out, "sheet", p->part);
        write_count(out, "sheets", (int64_t)xlsx_n_sheets(s->book));
    }
    if (s->database) {
        write_member(out, "table", p->part);
        write_count(out, "tables", (int64_t)database_n_tables(s->database));
    }
    if (p->member)
        write_member(out, "file", p->member);
    if (p->n_lists > 0 || p->nested)
        write_member(out, "records", p->part);
    if (ingest_is_delimited(g))
        write_csv(g, p, out);
    write_notes(g, p, out);
    json_out_close(out, '}');
}

static void write_part(struct ingest *g, size_t i, struct json_out *out)
{
    ingest_swap_part(g, i);
    write_count(out, "row_count", g->n_rows);
    write_texts(out, "columns", g->dialect.names, g->dialect.n_columns);
    write_texts(out, "types", g->dialect.types, g->dialect.n_columns);
    write_report(g, &g->parts[i], out);
    ingest_swap_part(g, i);
}

int ingest_write_report(struct ingest *g, struct err *err)
{
    struct json_out *out = &g->out->json;

    result_begin(g->out, WIRE_VERDICT_OK);
    write_part(g, 0, out);
    if (g->n_parts > 1) {
        json_out_key(out, "tables"); /* the others */
        json_out_open(out, '[');
        for (size_t i = 1; i < g->n_parts; i++) {
            json_out_open(out, '{');
            write_member(out, "name", g->parts[i].name);
            write_part(g, i, out);
            json_out_close(out, '}');
        }
        json_out_close(out, ']');
    }
    json_out_key(out, "error");
    json_out_null(out);
    return json_out_status(out, err);
}

/* ---- failures ------------------------------------------------------------------------------------------------------ */

/*
 * The first line of DuckDB's message, without its class; the rest of it is about options that the
 * user does not have. Where it names the file, that becomes the user's name of it.
 */
void ingest_short_reason(const struct ingest *g, char *ret, size_t size)
{
    const char *lines = g->failure;
    size_t n = 0, path = strlen(g->path), name = strlen(g->in->name);

    if (strstr(lines, "expected records")) {
        snprintf(ret, size, "every row must be an object with names and values");
        return;
    }
    for (const char *kind = strstr(lines, "Error: "); kind && kind - lines < 40;
         kind = strstr(lines, "Error: "))
        lines = kind + strlen("Error: ");
    while (*lines && n + 1 < size) {
        if (lines[0] == '\n' &&
            (str_starts(lines + 1, "Possible") || str_starts(lines + 1, "\n") ||
             str_starts(lines + 1, "Column") || str_starts(lines + 1, "This type")))
            break;
        if (str_starts(lines, g->path) && name < size - 1 - n) {
            memcpy(ret + n, g->in->name, name);
            n += name;
            lines += path;
            continue;
        }
        ret[n++] = lines[0] == '\n' ? ' ' : lines[0];
        lines++;
    }
    while (n > 0 && strchr(" .", ret[n - 1]))
        n--;
    ret[str_utf8_cut(ret, n, MIN_OF(n, (size_t)400))] = '\0';
}

/* The file-size limit or the disk's end, in the words of strerror(). */
static bool is_full_failure(const char *message)
{
    return strstr(message, "File too large") || strstr(message, "No space left");
}

static const char *what_it_is(const struct ingest *g)
{
    static const char *const names[] = {
        [DATA_CSV] = "CSV",         [DATA_JSON] = "JSON",      [DATA_NDJSON] = "NDJSON",
        [DATA_PARQUET] = "Parquet", [DATA_XLSX] = "the sheet", [DATA_SQLITE] = "SQLite",
        [DATA_DUCKDB] = "DuckDB",
    };

    return names[g->source.format];
}

static const char *what_to_do(const struct ingest *g)
{
    static const char *const remedies[] = {
        [DATA_CSV] = "check its separators, quotes and line ends, or export it again as UTF-8 CSV",
        [DATA_JSON] = "send valid JSON: an array of objects, or one object on each line",
        [DATA_NDJSON] = "send one JSON object on each line and nothing else",
        [DATA_PARQUET] = "write the file again, or send it as CSV",
        [DATA_XLSX] = "save the sheet as CSV and send that",
        [DATA_SQLITE] = "send a copy made by its owner (.backup), or its tables as CSV",
        [DATA_DUCKDB] = "export its tables as Parquet or CSV and send those",
    };

    return remedies[g->source.format];
}

int ingest_write_failure(struct ingest *g, struct err *err)
{
    char reason[512], message[1024];

    if (is_full_failure(g->failure)) {
        snprintf(
            message, sizeof(message),
            "'%.200s' becomes a table that is larger than the room for it (RIDDLE_INGEST_FILE_SIZE, or the disk); send it in "
            "smaller parts",
            g->in->name);
        ingest_write_error(g, message);
        return 0;
    }
    switch (sql_classify(g->e, g->failure)) {
    case SQL_FATAL:
        return err_set(err, ERR_INTERNAL, "DuckDB: %s", g->failure);
    case SQL_INTERRUPTED:
        ingest_write_interrupted(g);
        return 0;
    case SQL_NO_MEMORY:
        snprintf(
            message, sizeof(message),
            "'%.200s' needs more memory than there is; send it in parts or raise the memory limit",
            g->in->name);
        result_fail(g->out, WIRE_VERDICT_MEMORY, "VALIDATION_ERROR", message);
        return 0;
    default:
        ingest_short_reason(g, reason, sizeof(reason));
        snprintf(message, sizeof(message), "Could not parse %s: '%.200s': %s; %s", what_it_is(g),
                 g->in->name, reason, what_to_do(g));
        ingest_write_error(g, message);
        return 0;
    }
}
