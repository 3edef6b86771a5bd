/*
 * Small tables once more as plain columns, behind the end of the DuckDB file (sql/stored_frame.h).
 *
 * They only make the first use of a table faster. So what fails here (memory, a size, a type that
 * is not stored) leaves that table without them, and the ingest goes on.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "kernel/checksum.h"
#include "kernel/ingest/ingest_impl.h"
#include "kernel/sql/plain.h"
#include "kernel/sql/stored_frame.h"

#define FIRST_SLOTS 1024 /* of a dictionary */

/* A column while it is read, and until it is written. */
struct frame_column {
    struct stored_column is;
    duckdb_logical_type type;
    duckdb_type id, internal;
    uint8_t scale;
    char *name;
    char *data;               /* values, or numbers of texts: `is.width` bytes for each row */
    uint64_t *validity;       /* NULL: no NULL so far */
    struct buf ends, texts;   /* of a dictionary */
    uint32_t *slots, n_slots; /* its entries by their hash, counted from 1; 0: free */
};

/* A table; without columns if it is not stored. */
struct ingest_frame {
    struct frame_column *columns;
    size_t n_columns;
    size_t n_rows, read; /* all of them; so many were read so far */
};

static void finish_frame(struct ingest_frame *f)
{
    for (size_t i = 0; i < f->n_columns; i++) {
        struct frame_column *c = &f->columns[i];

        if (c->type)
            duckdb_destroy_logical_type(&c->type);
        buf_finish(&c->ends);
        buf_finish(&c->texts);
        free(c->name);
        free(c->data);
        free(c->validity);
        free(c->slots);
    }
    free(f->columns);
    *f = (struct ingest_frame){ 0 };
}

static size_t validity_bytes(const struct ingest_frame *f)
{
    return (f->n_rows + 63) / 64 * sizeof(uint64_t);
}

/* ---- dictionaries ---------------------------------------------------------------------------- */

static uint64_t hash_text(const char *s, size_t len)
{
    uint64_t h = len * UINT64_C(0x9e3779b97f4a7c15), word;

    for (; len >= sizeof(word); s += sizeof(word), len -= sizeof(word)) {
        memcpy(&word, s, sizeof(word));
        h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, s, len);
    h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 32;
}

static const char *text_at(const struct frame_column *c, uint32_t number, size_t *ret_len)
{
    const uint32_t *ends = (const uint32_t *)(const void *)c->ends.data;
    uint32_t from = number ? ends[number - 1] : 0;

    *ret_len = ends[number] - from;
    return buf_cstr(&c->texts) + from;
}

static int make_slots(struct frame_column *c, struct err *err)
{
    uint32_t n = c->n_slots ? c->n_slots * 4 : FIRST_SLOTS;
    uint32_t *slots = calloc(n, sizeof(*slots));

    if (!slots)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a dictionary");
    for (uint32_t i = 0; i < c->is.n_texts; i++) {
        size_t len;
        const char *s = text_at(c, i, &len);
        uint32_t at = (uint32_t)hash_text(s, len) & (n - 1);

        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = i + 1;
    }
    free(c->slots);
    c->slots = slots;
    c->n_slots = n;
    return 0;
}

/* The number of a text, which is added if it is new. */
static int number_text(struct frame_column *c, const char *s, size_t len, uint32_t *ret,
                       struct err *err)
{
    uint32_t at, end;
    int r = c->is.n_texts >= c->n_slots / 2 ? make_slots(c, err) : 0;

    if (r < 0)
        return r;
    at = (uint32_t)hash_text(s, len) & (c->n_slots - 1);
    for (; c->slots[at]; at = (at + 1) & (c->n_slots - 1)) {
        size_t had_len;
        const char *had = text_at(c, c->slots[at] - 1, &had_len);

        if (had_len == len && memcmp(had, s, len) == 0) {
            *ret = c->slots[at] - 1;
            return 0;
        }
    }
    r = buf_append(&c->texts, s, len, err);
    end = (uint32_t)c->texts.len;
    if (r == 0)
        r = buf_append(&c->ends, &end, sizeof(end), err);
    if (r < 0)
        return r;
    *ret = c->is.n_texts++;
    c->slots[at] = c->is.n_texts;
    return 0;
}

static int number_enum(struct frame_column *c, const void *data, idx_t row, uint32_t *ret,
                       struct err *err)
{
    idx_t index = c->internal == DUCKDB_TYPE_UTINYINT  ? ((const uint8_t *)data)[row] :
                  c->internal == DUCKDB_TYPE_USMALLINT ? ((const uint16_t *)data)[row] :
                                                         ((const uint32_t *)data)[row];
    char *word = duckdb_enum_dictionary_value(c->type, index);
    int r = word ? number_text(c, word, strlen(word), ret, err) :
                   err_set(err, ERR_NO_MEMORY, "out of memory for a word");

    duckdb_free(word);
    return r;
}

static int number_texts(struct frame_column *c, void *data, const uint64_t *validity, idx_t n,
                        uint32_t *to, struct err *err)
{
    duckdb_string_t *texts = data;
    int r = 0;

    for (idx_t i = 0; r == 0 && i < n; i++) {
        to[i] = 0;
        if (plain_is_null(validity, i))
            continue;
        r = c->id == DUCKDB_TYPE_ENUM ?
                number_enum(c, data, i, &to[i], err) :
                number_text(c, duckdb_string_t_data(&texts[i]), duckdb_string_t_length(texts[i]),
                            &to[i], err);
    }
    return r;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int begin_column(struct ingest_frame *f, struct frame_column *c, duckdb_result *result,
                        idx_t index, struct err *err)
{
    const char *name = duckdb_column_name(result, index);
    int width;

    c->type = duckdb_column_logical_type(result, index);
    c->id = duckdb_get_type_id(c->type);
    if (c->id == DUCKDB_TYPE_DECIMAL) {
        c->internal = duckdb_decimal_internal_type(c->type);
        c->scale = duckdb_decimal_scale(c->type);
    }
    if (c->id == DUCKDB_TYPE_ENUM)
        c->internal = duckdb_enum_internal_type(c->type);
    width = stored_width(c->id, c->internal);
    if (width < 0)
        return err_set(err, ERR_VALIDATION, "columns of this type are not stored");
    c->is.form = width == 0 ? STORED_TEXTS : STORED_RAW;
    c->is.width = width == 0 ? sizeof(uint32_t) : (uint32_t)width;
    c->is.type = c->id == DUCKDB_TYPE_ENUM ? DUCKDB_TYPE_VARCHAR : c->id;
    buf_init(&c->ends, STORED_FRAME_BYTES_MAX);
    buf_init(&c->texts, STORED_FRAME_BYTES_MAX);
    c->name = name ? strdup(name) : NULL;
    c->data = malloc(f->n_rows * c->is.width + 1);
    return c->name && c->data ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory for a column");
}

/* Notes which of the next n rows are NULL. */
static int note_nulls(struct ingest_frame *f, struct frame_column *c, const uint64_t *validity,
                      idx_t n, struct err *err)
{
    for (idx_t i = 0; validity && i < n; i++) {
        if (!plain_is_null(validity, i))
            continue;
        if (!c->validity) {
            c->validity = malloc(validity_bytes(f));
            if (!c->validity)
                return err_set(err, ERR_NO_MEMORY, "out of memory for a column");
            memset(c->validity, 0xff, validity_bytes(f));
        }
        c->validity[(f->read + i) / 64] &= ~(UINT64_C(1) << ((f->read + i) % 64));
    }
    return 0;
}

static int take_chunk(struct ingest_frame *f, duckdb_data_chunk chunk, struct err *err)
{
    idx_t n = duckdb_data_chunk_get_size(chunk);
    int r = n > f->n_rows - f->read ? err_set(err, ERR_INTERNAL, "more rows than were read") : 0;

    for (size_t i = 0; r == 0 && i < f->n_columns; i++) {
        struct frame_column *c = &f->columns[i];
        duckdb_vector vector = duckdb_data_chunk_get_vector(chunk, i);
        void *data = duckdb_vector_get_data(vector), *to = c->data + f->read * c->is.width;
        const uint64_t *validity = duckdb_vector_get_validity(vector);

        r = note_nulls(f, c, validity, n, err);
        if (r == 0 && c->is.form == STORED_TEXTS)
            r = number_texts(c, data, validity, n, to, err);
        else if (r == 0)
            memcpy(to, data, n * c->is.width);
    }
    f->read += n;
    return r;
}

static int read_result(struct ingest *g, struct ingest_frame *f, duckdb_result *result,
                       struct err *err)
{
    int r = 0;

    f->columns = calloc(duckdb_column_count(result), sizeof(*f->columns));
    if (!f->columns)
        return err_set(err, ERR_NO_MEMORY, "out of memory for columns");
    f->n_columns = duckdb_column_count(result);
    for (size_t i = 0; r == 0 && i < f->n_columns; i++)
        r = begin_column(f, &f->columns[i], result, i, err);
    while (r == 0) {
        duckdb_data_chunk chunk = duckdb_fetch_chunk(*result);

        if (!chunk)
            break;
        r = sql_must_stop(g->e) ? err_set(err, ERR_CANCELLED, "interrupted") :
                                  take_chunk(f, chunk, err);
        duckdb_destroy_data_chunk(&chunk);
    }
    if (r == 0 && f->read != f->n_rows)
        r = err_set(err, ERR_INTERNAL, "fewer rows than were read");
    return r;
}

static int read_table(struct ingest *g, size_t part, struct ingest_frame *f, struct err *err)
{
    char table[INGEST_TABLE_SIZE], sql[INGEST_TABLE_SIZE + 32];
    duckdb_prepared_statement statement = NULL;
    duckdb_pending_result pending = NULL;
    duckdb_result result = { 0 };
    int r = 0;

    ingest_table_name(part, table);
    snprintf(sql, sizeof(sql), "SELECT * FROM %s", table);
    /* As a stream: a whole result would be one more copy of the table. */
    if (duckdb_prepare(g->e->con, sql, &statement) != DuckDBSuccess ||
        duckdb_pending_prepared_streaming(statement, &pending) != DuckDBSuccess ||
        duckdb_execute_pending(pending, &result) != DuckDBSuccess)
        r = err_set(err, ERR_INTERNAL, "reading the table again failed");
    else
        r = read_result(g, f, &result, err);
    duckdb_destroy_result(&result);
    duckdb_destroy_pending(&pending);
    duckdb_destroy_prepare(&statement);
    return r;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static uint32_t find_dtype(const char *dtype)
{
    static const struct stored_dtype dtypes[] = STORED_DTYPES;
    uint32_t i = 0;

    while (i + 1 < ARRAY_SIZE(dtypes) && strcmp(dtypes[i].name, dtype) != 0)
        i++;
    return i;
}

static bool to_double(const struct plain *p, const struct frame_column *c, size_t n, void *to)
{
    auto_free char *nulls = malloc(n + 1);

    for (size_t i = 0; nulls && i < n; i++)
        nulls[i] = plain_is_null(c->validity, i);
    return nulls && plain_to_double(p, c->data, nulls, n, to);
}

/*
 * Makes an array of the column if one holds all its values, with the dtype that
 * dataframe_column_finish() gives it.
 */
static int make_array(struct frame_column *c, size_t n, struct err *err)
{
    struct plain p = plain_of(c->id, c->internal, c->scale);
    bool has_nulls = plain_has_nulls(&p) && c->validity, fits = true;
    bool as_double = p.store == PLAIN_HUGE || (p.store == PLAIN_INTEGER && has_nulls);
    bool is_array = !as_double && !c->validity && p.store != PLAIN_DECIMAL &&
                    p.store != PLAIN_MOMENT;
    size_t width = as_double ? sizeof(double) : p.width;
    auto_free char *array = NULL;

    if (!p.width || (p.store == PLAIN_BOOLEAN && has_nulls))
        return 0;
    if (!is_array && !(array = malloc(n * width + 1)))
        return err_set(err, ERR_NO_MEMORY, "out of memory for a column");
    if (as_double)
        fits = to_double(&p, c, n, array);
    else if (!is_array)
        plain_gather(&p, c->data, c->validity, n, array);
    if (p.store == PLAIN_MOMENT)
        fits = plain_to_ns(&p, array, n);
    if (!fits)
        return 0;
    if (!is_array)
        SWAP_VALUES(array, c->data);
    free(TAKE_PTR(c->validity));
    c->is.form = STORED_ARRAY;
    c->is.width = (uint32_t)width;
    c->is.dtype = find_dtype(as_double ? "f8" : p.dtype);
    return 0;
}

static bool is_small(const struct ingest_part *p)
{
    return p->n_rows <= STORED_FRAME_ROWS_MAX &&
           p->n_rows * (int64_t)p->dialect.n_columns <= STORED_FRAME_CELLS_MAX;
}

void ingest_make_frames(struct ingest *g)
{
    g->frames = calloc(g->n_parts + 1, sizeof(*g->frames));
    for (size_t i = 0; g->frames && i < g->n_parts; i++) {
        struct ingest_frame *f = &g->frames[i];
        struct err ignored = ERR_INIT;
        int r;

        if (!is_small(&g->parts[i]))
            continue;
        f->n_rows = (size_t)g->parts[i].n_rows;
        r = read_table(g, i, f, &ignored);
        for (size_t k = 0; r == 0 && k < f->n_columns; k++)
            r = make_array(&f->columns[k], f->n_rows, &ignored);
        if (r < 0)
            finish_frame(f);
    }
}

void ingest_drop_frames(struct ingest *g)
{
    for (size_t i = 0; g->frames && i < g->n_parts; i++)
        finish_frame(&g->frames[i]);
    free(g->frames);
}

/* ---- writing --------------------------------------------------------------------------------- */

static uint64_t padded(uint64_t n)
{
    return (n + 7) & ~UINT64_C(7);
}

/* The pieces of a column, each of which begins at a multiple of 8. */
struct piece {
    const void *data;
    size_t len;
};

#define N_PIECES 5
static void list_pieces(const struct ingest_frame *f, const struct frame_column *c,
                        struct piece ret[N_PIECES])
{
    ret[0] = (struct piece){ c->name, strlen(c->name) };
    ret[1] = (struct piece){ c->data, f->n_rows * c->is.width };
    ret[2] = (struct piece){ c->validity, c->validity ? validity_bytes(f) : 0 };
    ret[3] = (struct piece){ c->ends.data, c->ends.len };
    ret[4] = (struct piece){ c->texts.data, c->texts.len };
}

/* Says where everything will lie. Bytes of the table's columns. */
static uint64_t lay_out(struct ingest_frame *f)
{
    uint64_t at = sizeof(struct stored_head) + f->n_columns * sizeof(struct stored_column);

    for (size_t i = 0; i < f->n_columns; i++) {
        struct frame_column *c = &f->columns[i];
        struct piece pieces[N_PIECES];
        uint64_t where[N_PIECES];

        list_pieces(f, c, pieces);
        c->is.check = 0;
        for (int k = 0; k < N_PIECES; k++) {
            c->is.check = checksum(c->is.check, pieces[k].data, pieces[k].len);
            where[k] = at;
            at += padded(pieces[k].len);
        }
        c->is.name_at = where[0];
        c->is.name_bytes = pieces[0].len;
        c->is.data_at = where[1];
        c->is.validity_at = c->validity ? where[2] : 0;
        c->is.ends_at = where[3];
        c->is.texts_at = where[4];
        c->is.texts_bytes = pieces[4].len;
    }
    return at;
}

static int write_piece(int fd, const void *data, size_t len, struct err *err)
{
    static const char zeros[8];
    int r = fd_write_all(fd, data, len, err);

    return r < 0 ? r : fd_write_all(fd, zeros, padded(len) - len, err);
}

static int write_frame(int fd, const struct ingest_frame *f, struct err *err)
{
    auto_buf struct buf list = BUF_INIT(STORED_FRAME_BYTES_MAX);
    struct stored_head head = { .n_rows = f->n_rows, .n_columns = f->n_columns };
    int r = 0;

    for (size_t i = 0; r == 0 && i < f->n_columns; i++)
        r = buf_append(&list, &f->columns[i].is, sizeof(f->columns[i].is), err);
    if (r < 0)
        return r;
    head.check = checksum(head.n_rows, list.data, list.len);
    r = write_piece(fd, &head, sizeof(head), err);
    if (r == 0)
        r = write_piece(fd, list.data, list.len, err);
    for (size_t i = 0; i < f->n_columns; i++) {
        struct piece pieces[N_PIECES];

        list_pieces(f, &f->columns[i], pieces);
        for (int k = 0; r == 0 && k < N_PIECES; k++)
            r = write_piece(fd, pieces[k].data, pieces[k].len, err);
    }
    return r;
}

static int write_frames(struct ingest *g, int fd, uint64_t size, struct err *err)
{
    struct stored_part parts[DATA_MAX_PARTS] = { 0 };
    size_t list_bytes = g->n_parts * sizeof(parts[0]);
    struct stored_trailer trailer = { .parts_at = padded(size),
                                      .n_parts = g->n_parts,
                                      .magic = STORED_FRAME_MAGIC };
    uint64_t at = trailer.parts_at + list_bytes;
    int r;

    _Static_assert(DATA_MAX_PARTS <= STORED_FRAME_PARTS_MAX, "readers take fewer tables");
    for (size_t i = 0; i < g->n_parts; i++) {
        uint64_t bytes = g->frames[i].columns ? lay_out(&g->frames[i]) : 0;

        if (bytes == 0 || bytes > STORED_FRAME_BYTES_MAX) {
            finish_frame(&g->frames[i]);
            continue;
        }
        parts[i] = (struct stored_part){ .at = at, .bytes = bytes };
        at += bytes;
    }
    trailer.check = checksum(0, parts, list_bytes);
    r = fd_write_all(fd, "\0\0\0\0\0\0\0", padded(size) - size, err);
    if (r == 0)
        r = fd_write_all(fd, parts, list_bytes, err);
    for (size_t i = 0; r == 0 && i < g->n_parts; i++)
        if (parts[i].bytes)
            r = write_frame(fd, &g->frames[i], err);
    return r < 0 ? r : fd_write_all(fd, &trailer, sizeof(trailer), err);
}

int ingest_write_frames(struct ingest *g, struct err *err)
{
    bool any = false;
    struct stat st;
    int r;

    for (size_t i = 0; g->frames && i < g->n_parts; i++)
        any = any || g->frames[i].columns;
    if (!any)
        return 0;
    auto_close int fd = open(g->in->out_path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, ERR_IO, errno, "opening the table's file");
    r = write_frames(g, fd, (uint64_t)st.st_size, err);
    /* The table is whole without them. */
    return r < 0 && ftruncate(fd, st.st_size) == 0 ? 0 : r;
}
