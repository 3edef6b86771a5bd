/*
 * Reading while the sniffer is at work.
 *
 * Sniffing takes as long as reading a small file, and leaves all processors but one idle before a large one. So a plain file is
 * read by a guess at what the sniffer will say (csv_guess.c), in this thread, while another one lets it say it and then looks
 * for decimals among the integers and for dates that are not plain. If it says something else, the reading stops, the table is
 * thrown away and read again: what is kept is always what the sniffer's words have given, and a wrong guess costs no time, only
 * work that another processor did.
 */

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/str.h"
#include "kernel/ingest/csv_guess.h"
#include "kernel/ingest/ingest_impl.h"

#define MAX_COLUMNS 200

struct sniffing {
    struct ingest *g;
    const char *guess;          /* as options of read_csv */
    struct csv_dialect dialect; /* what the sniffer says */
    bool agrees;
};

static int compare(struct sniffing *s, struct err *err)
{
    auto_buf struct buf options = BUF_INIT(INGEST_STATEMENT_MAX);
    int r = csv_dialect_write_options(&s->dialect, &options, err);

    s->agrees = r == 0 && str_eq(buf_cstr(&options), s->guess);
    return r;
}

/* 0: s->dialect is what was found. */
static int sniff_alone(struct sniffing *s, duckdb_connection con, struct err *err)
{
    const struct ingest *g = s->g;
    auto_result duckdb_result result = { 0 };
    auto_free char *failure = NULL;
    char extra[32];
    int r;

    if (duckdb_query(con, "SET TimeZone='UTC'", &result) != DuckDBSuccess) /* as in the connection that reads */
        return err_set(err, ERR_INTERNAL, "%s", duckdb_result_error(&result));
    snprintf(extra, sizeof(extra), ",delim='%c'", g->file.separator);
    r = csv_dialect_sniff(&s->dialect, con, g->path, g->file.double_quotes_only, false, extra, &failure, err);
    if (r != 0)
        return r;
    s->dialect.plain_dates = csv_dialect_may_have_plain_dates(&s->dialect); /* as guessed, until they have been looked at */
    r = compare(s, err);
    if (r != 0 || !s->agrees)
        return r;
    r = ingest_look_closer(g, &s->dialect, err);
    return r < 0 ? r : compare(s, err);
}

static void *sniff_beside(void *arg)
{
    struct sniffing *s = arg;
    struct err ignored = ERR_INIT; /* it will be asked again */
    duckdb_connection con = NULL;

    if (duckdb_connect(s->g->e->db, &con) != DuckDBSuccess || sniff_alone(s, con, &ignored) != 0) {
        csv_dialect_finish(&s->dialect);
        s->agrees = false;
    }
    if (!s->agrees) /* the reading may stop */
        ingest_stop_reading(s->g);
    duckdb_disconnect(&con);
    return NULL;
}

static bool may_guess(const struct ingest *g)
{
    cpu_set_t cpus;

    return g->encoding == CSV_UTF8 && !g->source.tabs && g->file.n_separators < MAX_COLUMNS &&
           sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 1;
}

/* Both at once. g->dialect is what the sniffer says, without columns if it gave up. */
static int read_ahead(struct ingest *g, struct sniffing *s, enum ingest_ahead *ret, struct err *err)
{
    pthread_t thread;
    int r;

    if (pthread_create(&thread, NULL, sniff_beside, s) != 0) {
        csv_dialect_finish(&g->dialect);
        return 0;
    }
    r = ingest_read_rows(g, false, err);
    pthread_join(thread, NULL);
    csv_dialect_finish(&g->dialect);
    g->dialect = s->dialect;
    if (r < 0 || sql_must_stop(g->e))
        return r == 0 ? ingest_note_failure(g, "INTERRUPT Error: Interrupted!", err) : r;
    if (s->agrees && r == 0)
        *ret = INGEST_READ;
    else if (s->agrees && sql_classify(g->e, g->failure) == SQL_FAILED) /* for what is in the file: it would again */
        *ret = INGEST_FAILED;
    return *ret == INGEST_NOT_READ ? ingest_start_anew(g, err) : 0;
}

int ingest_sniff_beside_reading(struct ingest *g, enum ingest_ahead *ret, struct err *err)
{
    auto_buf struct buf options = BUF_INIT(INGEST_STATEMENT_MAX);
    struct sniffing s = { .g = g };
    int r = may_guess(g) ? csv_guess(g->path, &g->file, &g->dialect, err) : 0;

    *ret = INGEST_NOT_READ;
    if (r < 0)
        return r;
    if (r == 1) {
        r = csv_dialect_write_options(&g->dialect, &options, err);
        s.guess = buf_cstr(&options);
        if (r == 0)
            r = read_ahead(g, &s, ret, err);
        if (r != 0 || *ret != INGEST_NOT_READ)
            return r;
    }
    /* What went wrong while two were at work is not told: it may not go wrong alone. */
    return s.dialect.n_columns > 0 ? 0 : ingest_sniff(g, "", err);
}
