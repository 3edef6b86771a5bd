/*
 * Kinds of files.
 *
 * Scratch files lie in the directory that the caller gives, beside the table that is being made: on a disk, not in memory. How
 * large one may get is known before it is begun: the limit on the size of a file, half of what is free on the disk, and for a
 * packed file what files of that kind ever unpack to. So a bomb ends with a message and not with a full disk.
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
#include <zlib.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/csv_file.h"
#include "kernel/ingest/encoding.h"
#include "kernel/ingest/read_options.h"
#include "kernel/sql/sql_impl.h"

#define HEAD_BYTES 4096
#define BLOCK_BYTES (1u << 20)
/* Text rarely packs better than 1:50; logs and sensor data may. Deflate ends at 1:1032. */
#define GZIP_RATIO_MAX 250
#define GZIP_FREE_BYTES (1ull << 30)
#define CSV_OF_SHEET_MAX (8ull << 30)
#define SHEET_TEXT_MAX (1ull << 30)
#define MAX_PASSED_SHEETS 50
/* A record is parsed as a whole, and each thread has two buffers of this size. */
#define JSON_RECORD_MAX (16 << 20)

const char *data_format_name(enum data_format format)
{
    static const char *const names[] = {
        [DATA_CSV] = "csv",         [DATA_JSON] = "json", [DATA_NDJSON] = "ndjson",
        [DATA_PARQUET] = "parquet", [DATA_XLSX] = "xlsx",
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
    return n > k && strncasecmp(name + n - k, suffix, k) == 0;
}

/* The first two characters that are no white space. Zeros are passed over: the text may be UTF-16. */
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
    if (len >= 4 && memcmp(head, "PK\3\4", 4) == 0)
        return DATA_XLSX;
    first_characters(head, len, c);
    /* A CSV may begin with a bracket, as in [Date],[Amount]; but not like this. */
    if ((c[0] == '[' && (c[1] == '{' || c[1] == ']')) ||
        (c[0] == '{' && (c[1] == '"' || c[1] == '}')))
        return has_ending(name, ".ndjson") || has_ending(name, ".jsonl") ? DATA_NDJSON : DATA_JSON;
    if (c[0] == '[' || c[0] == '{')
        return has_ending(name, ".ndjson") || has_ending(name, ".jsonl") ? DATA_NDJSON :
               has_ending(name, ".json")                                 ? DATA_JSON :
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

void data_source_finish(struct data_source *s)
{
    for (size_t i = 0; i < s->n_scratch; i++) {
        unlink(s->scratch[i]);
        free(s->scratch[i]);
    }
    s->n_scratch = 0;
    xlsx_table_finish(&s->sheet);
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

/* ---- gzip ---------------------------------------------------------------------------------------------------------- */

struct gunzip {
    const struct sql_ingest *in;
    const struct data_hooks *hooks;
    struct fd_mapping packed;
    size_t at;
    z_stream z;
    int fd;
    uint64_t written, most;
};

static int write_unpacked(struct gunzip *g, const unsigned char *block, size_t n, struct err *err)
{
    g->written += n;
    if (g->written > g->most)
        return err_set(
            err, ERR_VALIDATION,
            "'%.200s' unpacks to more than %llu MB from %zu kB, which is more than may be unpacked here; send it in "
            "smaller parts",
            g->in->name, (unsigned long long)(g->most >> 20), g->packed.len >> 10);
    if (g->hooks->must_stop(g->hooks->arg))
        return err_set(err, ERR_CANCELLED, "interrupted");
    if (g->hooks->progress)
        g->hooks->progress(g->hooks->arg, (double)g->at / (double)g->packed.len);
    return fd_write_all(g->fd, block, n, err);
}

/* A file may be several packed ones, one behind the other; zeros at the end are padding. */
static bool another_member(const struct gunzip *g)
{
    return g->packed.len - g->at >= 2 && memcmp(g->packed.data + g->at, "\x1f\x8b", 2) == 0;
}

static int unpack(struct gunzip *g, unsigned char *block, struct err *err)
{
    z_stream *z = &g->z;

    for (;;) {
        unsigned piece = (unsigned)MIN_OF(g->packed.len - g->at, (size_t)BLOCK_BYTES);

        z->next_in = (unsigned char *)g->packed.data + g->at;
        z->avail_in = piece;
        z->next_out = block;
        z->avail_out = BLOCK_BYTES;
        int status = inflate(z, Z_NO_FLUSH);
        g->at += piece - z->avail_in;
        if (status == Z_MEM_ERROR)
            return err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");
        if (status != Z_OK && status != Z_STREAM_END) {
            const char *what = status == Z_BUF_ERROR ? "ends in the middle" : "is damaged";

            return err_set(err, ERR_VALIDATION,
                           "'%.200s' is a gzip file that %s (at byte %zu); pack and send it again",
                           g->in->name, what, g->at);
        }
        int r = write_unpacked(g, block, BLOCK_BYTES - z->avail_out, err);
        if (r < 0 || (status == Z_STREAM_END && !another_member(g)))
            return r;
        if (status == Z_STREAM_END && inflateReset(z) != Z_OK)
            return err_set(err, ERR_INTERNAL, "zlib cannot go on");
    }
}

static int gunzip(struct data_source *s, const struct sql_ingest *in,
                  const struct data_hooks *hooks, struct err *err)
{
    auto_free unsigned char *block = malloc(BLOCK_BYTES);
    auto_mapping struct fd_mapping packed = { 0 };
    auto_close int fd = -1;
    struct gunzip g = { .in = in, .hooks = hooks };
    int r = csv_file_map(s->path, &packed, err);

    if (r == 0)
        r = data_source_add_scratch(s, in->temp_directory, ".data", &fd, err);
    if (r < 0)
        return r;
    if (!block || inflateInit2(&g.z, 16 + MAX_WBITS) != Z_OK)
        return err_set(err, ERR_NO_MEMORY, "out of memory for unpacking");
    g.packed = packed;
    g.fd = fd;
    g.most = data_source_room(fd, MAX_OF(GZIP_FREE_BYTES, (uint64_t)packed.len * GZIP_RATIO_MAX));
    r = unpack(&g, block, err);
    inflateEnd(&g.z);
    return r;
}

/* What came out of a gzip file and is none of the kinds that can be read. */
static int check_unpacked(const unsigned char *head, size_t len, const char *name, struct err *err)
{
    if (len == 0)
        return err_set(err, ERR_VALIDATION,
                       "File is empty: there is nothing in '%.200s'; send a file with rows", name);
    if (len >= 2 && memcmp(head, "\x1f\x8b", 2) == 0)
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
    int r = csv_file_map(s->path, &file, err);

    if (r < 0)
        return r;
    s->encoding = encoding ? encoding : encoding_find(file.data, file.len);
    if (str_ieq(s->encoding, "utf-8") && !memchr(file.data, 0, file.len) &&
        (!encoding || str_is_utf8((const char *)file.data, file.len)))
        return 0;
    r = data_source_add_scratch(s, in->temp_directory, ".utf8", &fd, err);
    return r < 0 ? r :
                   encoding_convert(file.data, file.len, s->encoding, s->path, hooks->must_stop,
                                    hooks->arg, &s->converted, err);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

/* Only the bytes of the array that is the table. */
static int cut_out(struct data_source *s, const struct sql_ingest *in,
                   const struct data_hooks *hooks, const struct fd_mapping *text, struct err *err)
{
    auto_close int fd = -1;
    int r = data_source_add_scratch(s, in->temp_directory, ".json", &fd, err);

    if (r == 0 && s->records.end - s->records.begin > data_source_room(fd, UINT64_MAX))
        r = err_set(err, ERR_VALIDATION,
                    "'%.200s' is too large for the room there is; send it in smaller parts",
                    in->name);
    for (size_t at = s->records.begin; r == 0 && at < s->records.end;) {
        size_t n = MIN_OF(s->records.end - at, (size_t)BLOCK_BYTES);

        if (hooks->must_stop(hooks->arg))
            return err_set(err, ERR_CANCELLED, "interrupted");
        r = fd_write_all(fd, text->data + at, n, err);
        at += n;
    }
    return r;
}

static int prepare_json(struct data_source *s, const struct sql_ingest *in,
                        const struct data_hooks *hooks, struct err *err)
{
    auto_mapping struct fd_mapping text = { 0 };
    struct csv_file file;
    int r = csv_file_inspect(s->path, in->name, &file, err);

    if (r == 0)
        r = data_source_to_utf8(s, in, hooks, NULL, err);
    if (r < 0)
        return r;
    r = csv_file_map(s->path, &text, err);
    if (r == 0)
        r = json_check_shape((const char *)text.data, text.len, in->name, err);
    if (s->format == DATA_NDJSON) {
        s->records.layout = RECORDS_LINES;
        return r;
    }
    if (r == 0)
        r = json_find_records((const char *)text.data, text.len, in->name, &s->records, err);
    if (r == 0 && s->records.layout == RECORDS_LINES)
        s->format = DATA_NDJSON;
    if (r == 0 && s->records.layout == RECORDS_INSIDE)
        r = cut_out(s, in, hooks, &text, err);
    return r;
}

/* ---- workbooks ----------------------------------------------------------------------------------------------------- */

static int prepare_xlsx(struct data_source *s, const struct sql_ingest *in,
                        const struct data_hooks *hooks, struct err *err)
{
    auto_mapping struct fd_mapping file = { 0 };
    auto_close int fd = -1;
    struct xlsx_options options = {
        .name = in->name,
        .sheet = in->options ? in->options->sheet : NULL,
        .max_text_bytes = in->memory_bytes > 0 ?
                              MIN_OF((uint64_t)in->memory_bytes / 2, SHEET_TEXT_MAX) :
                              SHEET_TEXT_MAX,
        .must_stop = hooks->must_stop,
        .stop_arg = hooks->arg,
        .progress = hooks->progress,
        .progress_arg = hooks->arg,
    };
    int r = csv_file_map(s->path, &file, err);

    if (r == 0)
        r = data_source_add_scratch(s, in->temp_directory, ".csv", &fd, err);
    if (r < 0)
        return r;
    options.out_fd = fd;
    options.max_csv_bytes = data_source_room(fd, CSV_OF_SHEET_MAX);
    for (;;) { /* an empty sheet, as a cover may be, is passed over */
        r = xlsx_to_csv(file.data, file.len, &options, &s->sheet, err);
        if (r < 0 || s->sheet.n_rows > 0 || options.sheet ||
            options.passed + 1 >= MIN_OF(s->sheet.n_sheets, (size_t)MAX_PASSED_SHEETS))
            return r;
        options.passed++;
        xlsx_table_finish(&s->sheet);
        if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
            return err_errno(err, ERR_IO, errno, "writing the rows of a sheet");
    }
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

    *s = (struct data_source){ .path = in->path };
    if (len >= 2 && memcmp(head, "\x1f\x8b", 2) == 0) {
        s->gzip = true;
        r = gunzip(s, in, hooks, err);
        if (r == 0) {
            len = read_head(s->path, head);
            r = check_unpacked(head, len, in->name, err);
        }
        if (r < 0)
            return r;
    }
    s->format = format_of(head, len, in->name);
    switch (s->format) {
    case DATA_JSON:
    case DATA_NDJSON:
        return prepare_json(s, in, hooks, err);
    case DATA_XLSX:
        return prepare_xlsx(s, in, hooks, err);
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
                   ",format='%s',records=true,compression='uncompressed',maximum_object_size=%d,sample_size=%lld%s)",
                   layouts[s->records.layout], JSON_RECORD_MAX, (long long)sample_rows,
                   sparse ? ",map_inference_threshold=-1" : "");
}
