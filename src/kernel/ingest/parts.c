/* Files with several tables: each is read as the first is, and kept beside it (data, data1 …). */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/macros.h"
#include "kernel/ingest/ingest_impl.h"

void ingest_table_name(size_t part, char ret[INGEST_TABLE_SIZE])
{
    if (part == 0)
        snprintf(ret, INGEST_TABLE_SIZE, INGEST_DB ".main.data");
    else
        snprintf(ret, INGEST_TABLE_SIZE, INGEST_DB ".main.data%zu", part);
}

static bool is_taken(const struct ingest *g, const char *name)
{
    for (size_t i = 1; i < g->n_parts; i++)
        if (strcasecmp(g->parts[i].name, name) == 0)
            return true;
    return false;
}

/* Letters and digits of ASCII with '_' between them; the table's number if there are none. */
static void make_name(const struct ingest *g, const char *from, char ret[INGEST_PART_NAME])
{
    char base[INGEST_PART_NAME - 8];
    size_t n = 0;
    bool any = false;

    for (; from && *from && n < sizeof(base) - 1; from++) {
        bool word = isalnum((unsigned char)*from);

        any = any || word;
        if (word || (n > 0 && base[n - 1] != '_'))
            base[n++] = word ? *from : '_';
    }
    while (n > 0 && base[n - 1] == '_')
        n--;
    base[n] = '\0';
    if (!any)
        snprintf(base, sizeof(base), "%zu", g->n_parts + 1);
    snprintf(ret, INGEST_PART_NAME, "%s", base);
    for (unsigned k = 2; is_taken(g, ret) && k < 10000; k++)
        snprintf(ret, INGEST_PART_NAME, "%s_%u", base, k);
}

/* By the name of the file without its folders and its ending, and the list inside it. */
static void name_member(const struct ingest *g, const char *list, char ret[INGEST_PART_NAME])
{
    char from[ARCHIVE_NAME_SIZE + JSON_PATH_SIZE];
    const char *slash = strrchr(g->source.name, '/'), *base = slash ? slash + 1 : g->source.name;
    const char *dot = strrchr(base, '.');

    snprintf(from, sizeof(from), "%.*s%s%s", (int)(dot ? (size_t)(dot - base) : strlen(base)), base,
             list ? "." : "", list ? list : "");
    make_name(g, from, ret);
}

int ingest_keep_part(struct ingest *g, struct err *err)
{
    bool nested = g->title[0] && !ingest_is_delimited(g);
    const char *part = nested ? g->title : data_source_part_name(&g->source);
    struct ingest_part *p;

    if (!g->parts && !(g->parts = calloc(DATA_MAX_PARTS, sizeof(*g->parts))))
        return err_set(err, ERR_NO_MEMORY, "out of memory for the tables of a file");
    p = &g->parts[g->n_parts];
    *p = (struct ingest_part){ .table = g->table,
                               .dialect = g->dialect,
                               .n_rows = g->n_rows,
                               .n_kept = g->refused.n,
                               .json = g->json,
                               .n_valueless = g->source.sheet.n_valueless,
                               .n_errors = g->source.sheet.n_errors };
    p->format = g->source.format;
    p->encoding = g->source.encoding;
    p->converted = g->source.converted;
    p->n_lists = g->source.records.n_found;
    if (g->source.database)
        p->changes = database_changes(g->source.database);
    p->next_line = g->next_line;
    p->nested = nested;
    if (g->from > 0 || nested)
        make_name(g, g->title, p->name);
    else if (g->source.archive)
        name_member(g, p->n_lists > 1 ? part : NULL, p->name);
    else
        make_name(g, part, p->name);
    g->table = (struct csv_table){ 0 };
    g->dialect = (struct csv_dialect){ 0 };
    ingest_drop_refused(g);
    g->n_parts++;
    if ((part && !(p->part = strdup(part))) ||
        (g->source.archive && !(p->member = strdup(g->source.name))))
        return err_set(err, ERR_NO_MEMORY, "out of memory for the name of a table");
    return 0;
}

void ingest_swap_part(struct ingest *g, size_t i)
{
    struct ingest_part *p = &g->parts[i];

    SWAP_VALUES(g->table, p->table);
    SWAP_VALUES(g->dialect, p->dialect);
    SWAP_VALUES(g->n_rows, p->n_rows);
    SWAP_VALUES(g->source.format, p->format);
    SWAP_VALUES(g->source.encoding, p->encoding);
    SWAP_VALUES(g->source.converted, p->converted);
}

void ingest_drop_parts(struct ingest *g)
{
    for (size_t i = 0; i < g->n_parts; i++) {
        csv_table_finish(&g->parts[i].table);
        csv_dialect_finish(&g->parts[i].dialect);
        free(g->parts[i].part);
        free(g->parts[i].member);
    }
    free(g->parts);
    g->parts = NULL;
    g->n_parts = 0;
}
