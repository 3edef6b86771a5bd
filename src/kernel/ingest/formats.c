/*
 * Kinds of files.
 *
 * Scratch files lie in the directory that the caller gives, beside the table that is being made: on
 * a disk, not in memory. How large one may get is known before it is begun: the limit on the size
 * of a file, half of what is free on the disk, and for a packed file what files of that kind ever
 * unpack to. So a bomb ends with a message and not with a full disk.
 */

#include "kernel/ingest/formats.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/csv_file.h"
#include "kernel/ingest/encoding.h"
#include "kernel/ingest/read_options.h"
#include "kernel/ingest/scratch_db.h"
#include "kernel/ingest/unpack.h"
#include "kernel/sql/sql_impl.h"

#define HEAD_BYTES 4096
#define BLOCK_BYTES (1u << 20)
/* Text rarely packs better than 1:50; logs and sensor data may. Deflate ends at 1:1032. */
#define UNPACK_RATIO_MAX 250
#define UNPACK_FREE_BYTES (1ull << 30)
#define CSV_OF_SHEET_MAX (8ull << 30)
#define SHEET_TEXT_MAX (1ull << 30)
/* A record is parsed as a whole, and each thread has two buffers of this size. */
#define JSON_RECORD_MAX (16 << 20)

const char *data_format_name(enum data_format format)
{
    static const char *const names[] = {
        [DATA_CSV] = "csv",         [DATA_JSON] = "json", [DATA_NDJSON] = "ndjson",
        [DATA_PARQUET] = "parquet", [DATA_XLSX] = "xlsx", [DATA_SQLITE] = "sqlite",
        [DATA_DUCKDB] = "duckdb",
    };

    return format < _DATA_FORMAT_MAX ? names[format] : "unknown";
}

/* ---- what it is ---------------------------------------------------------------------------------------------------- */

/* Does the name end with `suffix`, the ending of a packed file aside? */
static bool has_ending(const char *name, const char *suffix)
{
    size_t n = strlen(name), k = strlen(suffix);

    if (n > 3 && strcasecmp(name + n - 3, ".gz") == 0)
        n -= 3;
    else if (n > 4 && strcasecmp(name + n - 4, ".zst") == 0)
        n -= 4;
    return n > k && strncasecmp(name + n - k, suffix, k) == 0;
}

/*
 * The first two characters that are no white space. Zeros are passed over: the text may be UTF-16.
 */
static void first_characters(const unsigned char *head, size_t len, unsigned char ret[2])
{
    size_t i = 0, n = 0;

    if (len >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0)
        i = 3;
    else if (len >= 2 && (memcmp(head, "\xff\xfe", 2) == 0 || memcmp(head, "\xfe\xff", 2) == 0))
        i = 2;
    ret[0] = ret[1] = 0;
    for (; i < len && n < 2; i++)
        if (head[i] != 0 && !isspace(head[i]))
            ret[n++] = head[i];
}

static enum data_format format_of(const unsigned char *head, size_t len, const char *name)
{
    unsigned char c[2];

    if (len >= 4 && memcmp(head, "PAR1", 4) == 0)
        return DATA_PARQUET;
    if ((len >= 4 && memcmp(head, "PK\3\4", 4) == 0) || xlsx_is_old(head, len))
        return DATA_XLSX;
    if (database_is_sqlite(head, len))
        return DATA_SQLITE;
    if (database_is_duckdb(head, len))
        return DATA_DUCKDB;
    first_characters(head, len, c);
    /* A CSV may begin with a bracket, as in [Date],[Amount]; but not like this. */
    if ((c[0] == '[' && (c[1] == '{' || c[1] == ']')) ||
        (c[0] == '{' && (c[1] == '"' || c[1] == '}')))
        return has_ending(name, ".ndjson") || has_ending(name, ".jsonl") ? DATA_NDJSON : DATA_JSON;
    if (c[0] == '[' || c[0] == '{')
        return has_ending(name, ".ndjson") || has_ending(name, ".jsonl") ? DATA_NDJSON :
               has_ending(name, ".json") || has_ending(name, ".geojson") ? DATA_JSON :
                                                                           DATA_CSV;
    return DATA_CSV;
}

/* What cannot be read is CSV here: its reader says what is wrong with it. */
static size_t read_head(const char *path, unsigned char head[HEAD_BYTES])
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    ssize_t n = 0;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        n = pread(fd, head, HEAD_BYTES, 0);
    return n > 0 ? (size_t)n : 0;
}

/* ---- scratch files ------------------------------------------------------------------------------------------------- */

/* All but the first. */
static void drop_scratch(struct data_source *s, size_t keep)
{
    while (s->n_scratch > keep) {
        unlink(s->scratch[--s->n_scratch]);
        free(s->scratch[s->n_scratch]);
    }
}

void data_source_drop_scratch(struct data_source *s, size_t keep, const char *path)
{
    drop_scratch(s, keep);
    s->path = path;
}

void data_source_finish(struct data_source *s)
{
    drop_scratch(s, 0);
    database_close(s->database);
    s->database = NULL;
    archive_close(s->archive);
    s->archive = NULL;
    xlsx_close(s->book);
    s->book = NULL;
    fd_mapping_finish(&s->book_file);
}

int data_source_add_scratch(struct data_source *s, const char *directory, const char *suffix,
                            int *ret_fd, struct err *err)
{
    char *path;

    if (!directory || !directory[0])
        return err_set(err, ERR_CONFIG, "no temporary directory to convert the file in");
    if (s->n_scratch == ARRAY_SIZE(s->scratch))
        return err_set(err, ERR_INTERNAL, "too many temporary files");
    if (asprintf(&path, "%s/riddle-%d-%zu%s", directory, (int)getpid(), s->n_scratch, suffix) < 0)
        return err_set(err, ERR_NO_MEMORY, "out of memory for a path");
    s->scratch[s->n_scratch++] = path;
    s->path = path;
    *ret_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *ret_fd < 0 ? err_errno(err, ERR_IO, errno, "making a temporary file") : 0;
}

uint64_t data_source_room(int fd, uint64_t most)
{
    struct rlimit limit;
    struct statvfs fs;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        most = MIN_OF(most, (uint64_t)limit.rlim_cur);
    if (fstatvfs(fd, &fs) == 0)
        most = MIN_OF(most, (uint64_t)fs.f_bavail * fs.f_frsize / 2);
    return most;
}

/* ---- packed files ---- */

static int unpack_file(struct data_source *s, const struct sql_ingest *in,
                       const struct data_hooks *hooks, struct err *err)
{
    auto_mapping struct fd_mapping packed = { 0 };
    auto_close int fd = -1;
    struct unpack u = { .name = in->name, .hooks = hooks };
    int r = csv_file_map(s->path, &packed, err);

    if (r == 0)
        r = data_source_add_scratch(s, in->temp_directory, ".data", &fd, err);
    if (r < 0)
        return r;
    u.data = packed.data;
    u.len = packed.len;
    u.fd = fd;
    u.most = data_source_room(fd,
                              MAX_OF(UNPACK_FREE_BYTES, (uint64_t)packed.len * UNPACK_RATIO_MAX));
    return unpack(&u, s->compression, err);
}

/* What came out of a packed file and is none of the kinds that can be read. */
static int check_unpacked(const unsigned char *head, size_t len, const char *name, struct err *err)
{
    if (len == 0)
        return err_set(err, ERR_VALIDATION,
                       "File is empty: there is nothing in '%.200s'; send a file with rows", name);
    if (unpack_kind(head, len) != PACKED_NOT)
        return err_set(err, ERR_VALIDATION,
                       "'%.200s' is packed twice; unpack it once and send that", name);
    if (len >= 262 && memcmp(head + 257, "ustar", 5) == 0)
        return err_set(err, ERR_VALIDATION,
                       "'%.200s' is a tar archive; unpack it and send the files inside", name);
    return 0;
}

/*
 * ---- encodings ----------------------------------------------------------------------------------
 * -------------------
 */

int data_source_to_utf8(struct data_source *s, const struct sql_ingest *in,
                        const struct data_hooks *hooks, const char *encoding, struct err *err)
{
    auto_mapping struct fd_mapping file = { 0 };
    auto_close int fd = -1;
    bool whole = false;
    int r = csv_file_map(s->path, &file, err);

    if (r < 0)
        return r;
    s->encoding = encoding ? encoding : encoding_find(file.data, file.len, &whole);
    if (encoding && str_ieq(encoding, "utf-8"))
        whole = str_is_utf8((const char *)file.data, file.len);
    if (whole && !memchr(file.data, 0, file.len))
        return 0;
    r = data_source_add_scratch(s, in->temp_directory, ".utf8", &fd, err);
    return r < 0 ? r :
                   encoding_convert(file.data, file.len, s->encoding, s->path, hooks->must_stop,
                                    hooks->arg, &s->converted, err);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

/* Only the bytes of the list that is the table. */
static int cut_out(struct data_source *s, const struct sql_ingest *in,
                   const struct data_hooks *hooks, struct err *err)
{
    const struct json_list *list = &s->records.lists[s->at_list];
    auto_mapping struct fd_mapping text = { 0 };
    auto_close int fd = -1;
    int r = csv_file_map(s->whole, &text, err);

    drop_scratch(s, s->n_own_scratch);
    if (r == 0)
        r = data_source_add_scratch(s, in->temp_directory, ".json", &fd, err);
    if (r == 0 && list->end - list->begin > data_source_room(fd, UINT64_MAX))
        r = err_set(err, ERR_VALIDATION,
                    "'%.200s' is too large for the room there is; send it in smaller parts",
                    in->name);
    for (size_t at = list->begin; r == 0 && at < list->end;) {
        size_t n = MIN_OF(list->end - at, (size_t)BLOCK_BYTES);

        if (hooks->must_stop(hooks->arg))
            return err_set(err, ERR_CANCELLED, "interrupted");
        r = fd_write_all(fd, text.data + at, n, err);
        at += n;
    }
    return r;
}

static int choose_list(struct data_source *s, const char *path, const struct sql_ingest *in,
                       struct err *err)
{
    s->only_one = true;
    for (s->at_list = 0; s->at_list < s->records.n_lists; s->at_list++)
        if (str_eq(s->records.lists[s->at_list].path, path))
            return 0;
    return err_set(err, ERR_VALIDATION, "'%.200s' has no list of objects '%.100s'", in->name, path);
}

static int prepare_database(struct data_source *s, const struct sql_ingest *in,
                            const struct data_hooks *hooks, struct err *err);

/* Rows in the text s->path, as a database. 0: `write` found none. */
static int prepare_rows(struct data_source *s, const struct sql_ingest *in,
                        const struct data_hooks *hooks,
                        int (*write)(const struct scratch_job *job, struct err *err),
                        const char *written_as, struct err *err)
{
    auto_mapping struct fd_mapping text = { 0 };
    auto_close int fd = -1;
    const char *before = s->path;
    size_t n_before = s->n_scratch;
    int r = csv_file_map(s->path, &text, err);

    if (r == 0)
        r = data_source_add_scratch(s, in->temp_directory, ".rows", &fd, err);
    if (r < 0)
        return r;
    const struct scratch_job job = { .text = (const char *)text.data,
                                     .len = text.len,
                                     .name = s->name,
                                     .out_path = s->path,
                                     .max_bytes = data_source_room(fd, UINT64_MAX),
                                     .hooks = hooks };
    r = write(&job, err);
    if (r == 0)
        data_source_drop_scratch(s, n_before, before);
    if (r <= 0)
        return r;
    s->format = DATA_SQLITE;
    s->written_as = written_as;
    r = prepare_database(s, in, hooks, err);
    return r < 0 ? r : 1;
}

static int prepare_json(struct data_source *s, const struct sql_ingest *in,
                        const struct data_hooks *hooks, struct err *err)
{
    auto_mapping struct fd_mapping text = { 0 };
    struct csv_file file;
    int r = csv_file_inspect(s->path, s->name, &file, err);

    if (r == 0)
        r = data_source_to_utf8(s, in, hooks, NULL, err);
    if (r < 0)
        return r;
    r = csv_file_map(s->path, &text, err);
    if (r == 0)
        r = json_check_shape((const char *)text.data, text.len, s->name, err);
    if (s->format == DATA_NDJSON) {
        s->records.layout = RECORDS_LINES;
        return r;
    }
    if (r == 0 && !s->archive && json_may_be_rows((const char *)text.data, text.len)) {
        r = prepare_rows(s, in, hooks, scratch_from_json, "json", err);
        if (r != 0)
            return MIN_OF(r, 0);
    }
    if (r == 0)
        r = json_find_records((const char *)text.data, text.len, s->name, &s->records, err);
    if (r == 0 && s->records.layout == RECORDS_LINES)
        s->format = DATA_NDJSON;
    if (r < 0 || s->records.layout != RECORDS_INSIDE)
        return r;
    s->whole = s->path;
    s->n_own_scratch = s->n_scratch;
    if (in->options && in->options->sheet && s->records.n_found > 1 && !s->archive)
        r = choose_list(s, in->options->sheet, in, err);
    return r < 0 ? r : cut_out(s, in, hooks, err);
}

/* ---- workbooks ----------------------------------------------------------------------------------------------------- */

#define COVER_ROWS 30

/* Writes the sheet's rows into the scratch file that is the last. */
static int write_sheet(struct data_source *s, size_t i, const struct sql_ingest *in,
                       struct err *err)
{
    auto_close int fd = -1;
    int r;

    if (s->n_scratch > s->n_own_scratch)
        drop_scratch(s, s->n_own_scratch);
    r = data_source_add_scratch(s, in->temp_directory, ".csv", &fd, err);
    if (r < 0)
        return r;
    s->at_sheet = i;
    sheet_writer_init(&s->sheet, fd, data_source_room(fd, CSV_OF_SHEET_MAX));
    r = xlsx_write_sheet(s->book, i, &s->sheet, err);
    sheet_writer_finish(&s->sheet);
    return r;
}

/* A few lines in one column, as on a cover, are not what the file is about. */
static bool is_cover(const struct data_source *s)
{
    return !s->has_part && s->sheet.width == 1 && s->sheet.n_rows <= COVER_ROWS &&
           s->next_sheet < xlsx_n_sheets(s->book) && s->n_put_off < DATA_MAX_PARTS;
}

static int next_sheet(struct data_source *s, const struct sql_ingest *in, struct err *err)
{
    while (s->next_sheet < xlsx_n_sheets(s->book) && !(s->only_one && s->has_part)) {
        int r = write_sheet(s, s->next_sheet++, in, err);

        if (r < 0)
            return r;
        if (s->sheet.n_rows == 0 && !s->only_one) {
            s->n_passed++;
        } else if (is_cover(s) && !s->only_one) {
            s->put_off[s->n_put_off++] = s->at_sheet;
        } else {
            s->has_part = true;
            return 1;
        }
    }
    if (s->at_put_off == s->n_put_off)
        return 0;
    int r = write_sheet(s, s->put_off[s->at_put_off++], in, err);
    s->has_part = true;
    return r < 0 ? r : 1;
}

/* ---- archives ---- */

/* 1: the next file of the archive is prepared; 0: that was the last one. */
static int next_member(struct data_source *s, const struct sql_ingest *in,
                       const struct data_hooks *hooks, struct err *err)
{
    int64_t entry = archive_next(s->archive);
    struct archive_hooks unpacking = { .must_stop = hooks->must_stop, .arg = hooks->arg };
    unsigned char head[HEAD_BYTES];
    auto_close int fd = -1;
    size_t len;
    int r;

    if (entry < 0)
        return 0;
    drop_scratch(s, s->archive->n_own_scratch);
    s->records = (struct json_records){ 0 };
    s->at_list = 0;
    s->encoding = NULL;
    s->converted = (struct encoding_result){ 0 };
    s->name = s->archive->member;
    r = data_source_add_scratch(s, in->temp_directory, ".data", &fd, err);
    if (r < 0)
        return r;
    unpacking.max_bytes = data_source_room(fd, UINT64_MAX);
    r = archive_unpack(s->archive, entry, fd, &unpacking, err);
    if (r < 0)
        return r;
    len = read_head(s->path, head);
    r = check_unpacked(head, len, s->name, err);
    s->format = format_of(head, len, s->name);
    if (r == 0 && (s->format == DATA_XLSX || s->format == DATA_SQLITE || s->format == DATA_DUCKDB))
        r = err_set(err, ERR_VALIDATION, "'%.200s' in '%.200s' is packed once more; send it itself",
                    s->name, in->name);
    if (r == 0 && (s->format == DATA_JSON || s->format == DATA_NDJSON))
        r = prepare_json(s, in, hooks, err);
    return r < 0 ? r : 1;
}

/* The one workbook of the archive is what is read: 0. */
static int take_book(struct data_source *s, const struct sql_ingest *in,
                     const struct data_hooks *hooks, struct err *err)
{
    struct archive_hooks unpacking = { .must_stop = hooks->must_stop, .arg = hooks->arg };
    int64_t entry = archive_next(s->archive);
    auto_close int fd = -1;
    int r = data_source_add_scratch(s, in->temp_directory, ".book", &fd, err);

    if (r < 0)
        return r;
    unpacking.max_bytes = data_source_room(fd, UINT64_MAX);
    return archive_unpack(s->archive, entry, fd, &unpacking, err);
}

/* 1: its first file that is prepared; 0: it is no archive of data files. */
static int prepare_archive(struct data_source *s, const struct sql_ingest *in,
                           const struct data_hooks *hooks, struct err *err)
{
    int r = archive_open(s->path, &s->archive, err);

    if (r <= 0)
        return r;
    s->archive->n_own_scratch = s->n_scratch;
    if (s->archive->has_book) {
        r = take_book(s, in, hooks, err);
        archive_close(TAKE_PTR(s->archive));
        return r;
    }
    if (in->options && in->options->sheet) {
        s->archive->wanted = in->options->sheet;
        s->only_one = true;
    }
    while ((r = next_member(s, in, hooks, err)) == -ERR_VALIDATION)
        s->n_passed++;
    if (r != 0)
        return r;
    return s->n_passed ? -ERR_VALIDATION :
                         err_set(err, ERR_VALIDATION, "'%.200s' has no file '%.100s' with a table",
                                 in->name, s->archive->wanted);
}

/* ---- databases ---- */

static int choose_table(struct data_source *s, size_t i, struct err *err)
{
    struct err why = ERR_INIT;
    int r;

    s->at_table = i;
    r = database_choose(s->database, i, &why);
    if (r == -ERR_VALIDATION)
        return err_set(err, ERR_VALIDATION, "table '%.100s' of '%.200s' %s",
                       database_table_name(s->database, i), s->name, why.message);
    return r < 0 ? err_set(err, why.code, "%s", why.message) : 0;
}

static int find_table(struct data_source *s, const char *name, struct err *err)
{
    s->only_one = true;
    for (size_t i = 0; i < database_n_tables(s->database); i++)
        if (str_eq(database_table_name(s->database, i), name))
            return choose_table(s, i, err);
    return err_set(err, ERR_VALIDATION, "'%.200s' has no table '%.100s'", s->name, name);
}

static int prepare_database(struct data_source *s, const struct sql_ingest *in,
                            const struct data_hooks *hooks, struct err *err)
{
    const struct database_options options = { .name = in->name,
                                              .engine = hooks->engine,
                                              .memory_bytes = in->memory_bytes,
                                              .text = in->options && in->options->text,
                                              .must_stop = hooks->must_stop,
                                              .stop_arg = hooks->arg };
    int r = database_open(s->path, s->format == DATA_SQLITE, &options, &s->database, err);

    if (r < 0)
        return r;
    return in->options && in->options->sheet ? find_table(s, in->options->sheet, err) :
                                               choose_table(s, 0, err);
}

int data_source_next_part(struct data_source *s, const struct sql_ingest *in,
                          const struct data_hooks *hooks, struct err *err)
{
    if (s->book)
        return next_sheet(s, in, err);
    if (s->database) {
        if (s->only_one || s->at_table + 1 >= database_n_tables(s->database))
            return 0;
        int r = choose_table(s, s->at_table + 1, err);
        return r < 0 ? r : 1;
    }
    if (s->at_list + 1 < s->records.n_lists && !(s->only_one && !s->archive)) {
        s->at_list++;
        int r = cut_out(s, in, hooks, err);
        return r < 0 ? r : 1;
    }
    return s->archive ? next_member(s, in, hooks, err) : 0;
}

const char *data_source_part_name(const struct data_source *s)
{
    return s->book                ? xlsx_sheet_name(s->book, s->at_sheet) :
           s->database            ? database_table_name(s->database, s->at_table) :
           s->records.n_lists > 0 ? s->records.lists[s->at_list].path :
                                    NULL;
}

static int choose_sheet(struct data_source *s, const char *name, const struct sql_ingest *in,
                        struct err *err)
{
    for (size_t i = 0; i < xlsx_n_sheets(s->book); i++)
        if (str_eq(xlsx_sheet_name(s->book, i), name)) {
            s->next_sheet = i;
            s->only_one = true;
            return 0;
        }
    return err_set(err, ERR_VALIDATION, "'%.200s' has no visible sheet '%.100s'", in->name, name);
}

static int prepare_book(struct data_source *s, const struct sql_ingest *in,
                        const struct data_hooks *hooks, struct err *err)
{
    struct xlsx_options options = {
        .name = in->name,
        .path = s->path,
        .max_text_bytes = in->memory_bytes > 0 ?
                              MIN_OF((uint64_t)in->memory_bytes / 2, SHEET_TEXT_MAX) :
                              SHEET_TEXT_MAX,
        .must_stop = hooks->must_stop,
        .stop_arg = hooks->arg,
        .progress = hooks->progress,
        .progress_arg = hooks->arg,
    };
    int r = csv_file_map(s->path, &s->book_file, err);

    s->n_own_scratch = s->n_scratch;
    if (r == 0)
        r = xlsx_open(s->book_file.data, s->book_file.len, &options, &s->book, err);
    if (r == 0 && in->options && in->options->sheet)
        r = choose_sheet(s, in->options->sheet, in, err);
    if (r == 0)
        r = next_sheet(s, in, err);
    if (r < 0)
        return r;
    if (r == 0 || s->sheet.n_rows == 0)
        return err_set(err, ERR_VALIDATION,
                       "File is empty: no visible sheet of '%.200s' has a cell", in->name);
    return 0;
}

/* ---- all of it ----------------------------------------------------------------------------------------------------- */

/* A name that says tabs is believed if the first line has one. */
bool data_source_says_tabs(const char *text, size_t len, const char *name)
{
    const char *end = memchr(text, '\n', len);

    return (has_ending(name, ".tsv") || has_ending(name, ".tab")) &&
           memchr(text, '\t', end ? (size_t)(end - text) : len);
}

int data_source_prepare(struct data_source *s, const struct sql_ingest *in,
                        const struct data_hooks *hooks, struct err *err)
{
    unsigned char head[HEAD_BYTES];
    size_t len = read_head(in->path, head);
    int r = 0;

    *s = (struct data_source){ .path = in->path,
                               .name = in->name,
                               .json_columns = BUF_INIT(JSON_COLUMNS_MAX) };
    s->compression = unpack_kind(head, len);
    if (s->compression != PACKED_NOT) {
        r = unpack_file(s, in, hooks, err);
        if (r == 0) {
            len = read_head(s->path, head);
            r = check_unpacked(head, len, in->name, err);
        }
        if (r < 0)
            return r;
    }
    s->format = format_of(head, len, in->name);
    if (s->format == DATA_CSV && has_ending(in->name, ".sql")) {
        struct csv_file file;

        r = csv_file_inspect(s->path, s->name, &file, err);
        if (r == 0)
            r = data_source_to_utf8(s, in, hooks, in->options ? in->options->encoding : NULL, err);
        if (r == 0)
            r = prepare_rows(s, in, hooks, scratch_from_sql, "sql", err);
        return MIN_OF(r, 0);
    }
    switch (s->format) {
    case DATA_JSON:
    case DATA_NDJSON:
        return prepare_json(s, in, hooks, err);
    case DATA_SQLITE:
    case DATA_DUCKDB:
        return prepare_database(s, in, hooks, err);
    case DATA_XLSX:
        r = prepare_archive(s, in, hooks, err);
        return r < 0 ? r : r == 1 ? 0 : prepare_book(s, in, hooks, err);
    default:
        return 0;
    }
}

int data_source_write_sql(const struct data_source *s, int64_t sample_rows, bool sparse,
                          struct buf *sql, struct err *err)
{
    static const char *const layouts[] = {
        [RECORDS_ARRAY] = "array",
        [RECORDS_LINES] = "newline_delimited",
        [RECORDS_OBJECTS] = "unstructured",
        [RECORDS_INSIDE] = "array",
    };
    int r;

    if (s->database)
        return database_write_sql(s->database, sql, err);
    if (s->format == DATA_PARQUET) {
        r = buf_append_str(sql, "read_parquet(", err);
        if (r == 0)
            r = sql_quote_path(sql, s->path, err);
        return r < 0 ? r : buf_append_str(sql, ")", err);
    }
    r = buf_append_str(sql, "read_json(", err);
    if (r == 0)
        r = sql_quote_path(sql, s->path, err);
    return r < 0 ?
               r :
               buf_printf(
                   sql, err,
                   ",format='%s',records=true,compression='uncompressed',maximum_object_size=%d,sample_size=%lld%s%.*s)",
                   layouts[s->records.layout], JSON_RECORD_MAX, (long long)sample_rows,
                   sparse ? ",map_inference_threshold=-1" : "", (int)s->json_columns.len,
                   s->json_columns.len ? s->json_columns.data : "");
}
