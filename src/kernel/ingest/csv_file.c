/*
 * A CSV file as bytes: is it text, in which encoding, and how to make it UTF-8.
 *
 * DuckDB reads UTF-8 and Latin-1. UTF-16 (Excel's "Unicode text") and Windows-1252 (Excel's plain CSV) are turned into UTF-8
 * here. Files of other kinds are told by their first bytes, so that the message can name the kind. And all values are looked
 * through for what DuckDB would take less strictly than it should.
 */

#include "kernel/ingest/csv_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"

#define HEAD_BYTES (256 * 1024)
#define BLOCK_BYTES (256 * 1024)

const char *csv_encoding_name(enum csv_encoding encoding)
{
    static const char *const names[] = {
        [CSV_UTF8] = "utf-8",     [CSV_UTF16_LE] = "utf-16-le",        [CSV_UTF16_BE] = "utf-16-be",
        [CSV_LATIN1] = "latin-1", [CSV_WINDOWS_1252] = "windows-1252",
    };

    return encoding < _CSV_ENCODING_MAX ? names[encoding] : "unknown";
}

/* ---- kinds of files ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *magic;
    size_t len;
    const char *kind, *remedy;
} kinds[] = {
    { "PK\x05\x06", 4, "an empty ZIP archive", "send the CSV file itself" },
    { "PARE", 4, "an encrypted Parquet file", "write it without encryption" },
    { "\xd0\xcf\x11\xe0", 4, "an old Excel file (.xls), or a workbook with a password",
      "save it as .xlsx without a password, or the sheet as CSV" },
    { "<!DOCTYPE html", 14, "an HTML page", "save its table as .xlsx or CSV" },
    { "<!doctype html", 14, "an HTML page", "save its table as .xlsx or CSV" },
    { "<html", 5, "an HTML page", "save its table as .xlsx or CSV" },
    { "<table", 6, "an HTML page", "save its table as .xlsx or CSV" },
    { "<?xml", 5, "an XML document", "save it as .xlsx or CSV" },
    { "\x89PNG", 4, "a PNG image", "send a CSV file" },
    { "\xff\xd8\xff", 3, "a JPEG image", "send a CSV file" },
    { "GIF8", 4, "a GIF image", "send a CSV file" },
    { "%PDF-", 5, "a PDF document", "send its tables as CSV" },
    { "\x7f"
      "ELF",
      4, "a program (ELF)", "send a CSV file" },
    { "SQLite format 3", 15, "an SQLite database", "export its tables as CSV" },
    { "BZh", 3, "a bzip2 archive", "unpack it and send the CSV inside" },
    { "\xfd"
      "7zXZ",
      5, "an xz archive", "unpack it and send the CSV inside" },
    { "\x28\xb5\x2f\xfd", 4, "a zstd archive", "unpack it and send the CSV inside" },
    { "7z\xbc\xaf", 4, "a 7-Zip archive", "unpack it and send the CSV inside" },
    { "ARROW1", 6, "an Arrow file", "convert it to CSV" },
    { "\xff\xfe\x00\x00", 4, "text in UTF-32", "save it as UTF-8" },
    { "\x00\x00\xfe\xff", 4, "text in UTF-32", "save it as UTF-8" },
};

/* UTF-16 without a mark: text of the Latin scripts has a zero in every other byte. */
static bool looks_like_utf16(const unsigned char *head, size_t len, size_t zero_at)
{
    size_t pairs = len / 2, zeros = 0;

    for (size_t i = 0; i < pairs; i++) {
        if (head[2 * i + 1 - zero_at] == 0)
            return false;
        zeros += head[2 * i + zero_at] == 0;
    }
    return pairs >= 2 && zeros * 10 >= pairs * 7;
}

/*
 * Searching for the dialect is most of what DuckDB's sniffer does with a small file. Where the head leaves no doubt, it is
 * told the separator: one candidate occurs in each line, outside quotes, equally often, and no other does.
 */
static char certain_separator(const unsigned char *head, size_t len)
{
    static const char separators[] = ",;\t|";
    static const unsigned char number[256] = { [','] = 1, [';'] = 2, ['\t'] = 3, ['|'] = 4 };
    int counts[4] = { 0 }, first[4] = { 0 }, lines = 0;
    bool even[4] = { true, true, true, true }, quoted = false;

    for (size_t i = 0; i < MIN_OF(len, (size_t)65536); i++) {
        if (head[i] == '"')
            quoted = !quoted;
        if (quoted)
            continue;
        if (number[head[i]])
            counts[number[head[i]] - 1]++;
        if (head[i] != '\n')
            continue;
        for (int k = 0; k < 4; k++) {
            if (lines == 0)
                first[k] = counts[k];
            even[k] = even[k] && counts[k] == first[k];
            counts[k] = 0;
        }
        lines++;
    }
    char found = 0;
    for (int k = 0; k < 4; k++) {
        if (lines < 2 || !even[k] || first[k] == 0)
            continue;
        if (found)
            return 0;
        found = separators[k];
    }
    return found;
}

static void read_first_line(const unsigned char *head, size_t len, struct csv_file *ret)
{
    static const char separators[] = ",;\t|";
    size_t end = 0;
    bool other_quotes = false;

    while (end < len && head[end] != '\n' && head[end] != '\r')
        end++;
    for (const char *c = separators; *c; c++) {
        int n = 0;

        for (size_t i = 0; i < end; i++)
            n += head[i] == (unsigned char)*c;
        ret->n_separators = MAX_OF(ret->n_separators, n);
    }
    for (; end < len && isspace(head[end]); end++)
        ;
    ret->one_line = end == len;
    for (size_t i = 0; i + 1 < len && !other_quotes; i++) {
        if (head[i] == '\'')
            other_quotes = i == 0 || strchr(",;\t|\n\r", head[i - 1]);
        else if (head[i] == '\\')
            other_quotes = head[i + 1] == '"' || head[i + 1] == '\'';
    }
    ret->double_quotes_only = !other_quotes;
    ret->separator = other_quotes ? 0 : certain_separator(head, len);
}

static int check_head(const unsigned char *head, size_t len, const char *name, struct csv_file *ret,
                      struct err *err)
{
    size_t i = 0;

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        if (len >= kinds[k].len && memcmp(head, kinds[k].magic, kinds[k].len) == 0) {
            return err_set(err, ERR_VALIDATION, "'%.200s' is not a CSV file but %s; %s", name,
                           kinds[k].kind, kinds[k].remedy);
        }
    }
    if (len >= 2 && head[0] == 0xff && head[1] == 0xfe)
        ret->encoding = CSV_UTF16_LE;
    else if (len >= 2 && head[0] == 0xfe && head[1] == 0xff)
        ret->encoding = CSV_UTF16_BE;
    else if (looks_like_utf16(head, len, 1))
        ret->encoding = CSV_UTF16_LE;
    else if (looks_like_utf16(head, len, 0))
        ret->encoding = CSV_UTF16_BE;
    else {
        const unsigned char *nul = memchr(head, 0, len);

        if (nul) {
            return err_set(
                err, ERR_VALIDATION,
                "'%.200s' is a binary file, not CSV (a NUL byte at position %zu); export it as CSV text",
                name, (size_t)(nul - head));
        }
        if (len >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0)
            i = 3;
        while (i < len && isspace(head[i]))
            i++;
        if (i == len && len < HEAD_BYTES)
            return err_set(
                err, ERR_VALIDATION,
                "File is empty: '%.200s' has nothing but white space; send a CSV with a header line and rows",
                name);
        read_first_line(head + i, len - i, ret);
    }
    return 0;
}

int csv_file_inspect(const char *path, const char *name, struct csv_file *ret, struct err *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    auto_free unsigned char *head = malloc(HEAD_BYTES);
    struct csv_file file = { .encoding = CSV_UTF8 };
    struct stat st;
    size_t len = 0;

    if (!head)
        return err_set(err, ERR_NO_MEMORY, "out of memory for looking at file '%.200s'", name);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_VALIDATION, "file '%.200s' does not exist; check its name", name);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return err_set(err, ERR_VALIDATION,
                       "file '%.200s' cannot be read: permission denied; make it readable", name);
    if (fd < 0)
        return err_errno(err, ERR_VALIDATION, errno, "file '%.200s' cannot be opened", name);
    if (fstat(fd, &st) < 0)
        return err_errno(err, ERR_IO, errno, "looking at file '%.200s'", name);
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_VALIDATION,
                       "'%.200s' is a directory; give one of the CSV files in it", name);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_VALIDATION, "'%.200s' is not a regular file; give a CSV file",
                       name);
    if (st.st_size == 0)
        return err_set(
            err, ERR_VALIDATION,
            "File is empty: '%.200s' has no bytes; send a CSV with a header line and rows", name);
    file.size_bytes = st.st_size;
    while (len < HEAD_BYTES) {
        ssize_t n = read(fd, head + len, HEAD_BYTES - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, ERR_VALIDATION, errno, "file '%.200s' cannot be read", name);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    {
        int r = check_head(head, len, name, &file, err);

        if (r < 0)
            return r;
    }
    *ret = file;
    return 0;
}

/* ---- whole files --------------------------------------------------------------------------------------------------- */

int csv_file_map(const char *path, struct fd_mapping *ret, struct err *err)
{
    int r = fd_map_file(path, ret, err);

    return r == 0 && ret->len == 0 ? err_set(err, ERR_VALIDATION, "File is empty") : r;
}

int csv_file_is_utf8(const char *path, bool *ret, struct err *err)
{
    auto_mapping struct fd_mapping file = { 0 };
    int r = csv_file_map(path, &file, err);

    if (r == 0)
        *ret = str_is_utf8((const char *)file.data, file.len);
    return r;
}

int csv_file_one_byte_encoding(const char *path, enum csv_encoding *ret, struct err *err)
{
    auto_mapping struct fd_mapping file = { 0 };
    int r = csv_file_map(path, &file, err);

    if (r < 0)
        return r;
    *ret = CSV_LATIN1;
    for (size_t i = 0; i < file.len; i++) {
        if (file.data[i] >= 0x80 && file.data[i] <= 0x9f) {
            *ret = CSV_WINDOWS_1252;
            break;
        }
    }
    return 0;
}

/* Windows-1252, 0x80 to 0x9f. Five bytes have no meaning there and become U+FFFD. */
static const uint16_t windows_1252[32] = {
    0x20ac, 0xfffd, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0xfffd, 0x017d, 0xfffd, 0xfffd, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0xfffd, 0x017e, 0x0178,
};

static size_t put_utf8(unsigned char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (unsigned char)(0xc0 | c >> 6);
        out[1] = (unsigned char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (unsigned char)(0xe0 | c >> 12);
        out[1] = (unsigned char)(0x80 | (c >> 6 & 63));
        out[2] = (unsigned char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (unsigned char)(0xf0 | c >> 18);
    out[1] = (unsigned char)(0x80 | (c >> 12 & 63));
    out[2] = (unsigned char)(0x80 | (c >> 6 & 63));
    out[3] = (unsigned char)(0x80 | (c & 63));
    return 4;
}

/* The character at file.data[*pos], which moves behind it. A broken surrogate or half a unit at the end is VALIDATION. */
static int next_char(const struct fd_mapping *file, enum csv_encoding encoding, size_t *pos,
                     uint32_t *ret, struct err *err)
{
    const unsigned char *p = file->data + *pos;
    size_t high = encoding == CSV_UTF16_LE ? 1 : 0;
    uint32_t c, d;

    if (encoding == CSV_LATIN1 || encoding == CSV_WINDOWS_1252) {
        *pos += 1;
        *ret = encoding == CSV_WINDOWS_1252 && *p >= 0x80 && *p <= 0x9f ? windows_1252[*p - 0x80] :
                                                                          *p;
        return 0;
    }
    if (file->len - *pos < 2)
        return err_set(err, ERR_VALIDATION,
                       "the file is cut off in the middle of a UTF-16 character; save it as UTF-8");
    c = (uint32_t)p[high] << 8 | p[1 - high];
    *pos += 2;
    if (c >= 0xd800 && c <= 0xdbff && file->len - *pos >= 2) {
        d = (uint32_t)p[2 + high] << 8 | p[3 - high];
        if (d >= 0xdc00 && d <= 0xdfff) {
            *pos += 2;
            *ret = 0x10000 + ((c - 0xd800) << 10) + (d - 0xdc00);
            return 0;
        }
    }
    if (c >= 0xd800 && c <= 0xdfff) {
        return err_set(err, ERR_VALIDATION,
                       "the file is not valid UTF-16 (at byte %zu); save it as UTF-8", *pos - 2);
    }
    if (c == 0)
        return err_set(
            err, ERR_VALIDATION,
            "the file is binary, not CSV (a NUL character at byte %zu); export it as CSV text",
            *pos - 2);
    *ret = c;
    return 0;
}

int csv_file_to_utf8(const char *path, enum csv_encoding encoding, const char *out_path,
                     bool (*must_stop)(const void *arg), const void *arg, struct err *err)
{
    auto_mapping struct fd_mapping file = { 0 };
    auto_close int out = -1;
    auto_free unsigned char *block = malloc(BLOCK_BYTES);
    size_t pos = 0, n = 0;
    int r = csv_file_map(path, &file, err);

    if (r < 0)
        return r;
    if (!block)
        return err_set(err, ERR_NO_MEMORY, "out of memory for converting the file");
    out = open(out_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0)
        return err_errno(err, ERR_IO, errno, "making the converted file");
    while (r == 0 && pos < file.len) {
        bool first = pos == 0;
        uint32_t c = 0;

        r = next_char(&file, encoding, &pos, &c, err);
        if (r < 0)
            break;
        if (!(first && c == 0xfeff)) /* the byte order mark is not data */
            n += put_utf8(block + n, c);
        if (n + 4 > BLOCK_BYTES) {
            if (must_stop(arg))
                return err_set(err, ERR_CANCELLED, "interrupted");
            r = fd_write_all(out, block, n, err);
            n = 0;
        }
    }
    if (r == 0)
        r = fd_write_all(out, block, n, err);
    return r;
}

/* ---- a closer look at values --------------------------------------------------------------------------------------- */

/* Is the whole field around the point at `at` a number, perhaps in quotes? Versions, dates and addresses are not. */
static bool is_decimal_field(const struct fd_mapping *file, size_t at, unsigned char separator,
                             unsigned char quote, bool quoted)
{
    const unsigned char *d = file->data;
    size_t left = at, right = at + 1;
    bool opened = false;

    while (left > 0 && isdigit(d[left - 1]))
        left--;
    if (left == at || right == file->len || !isdigit(d[right]))
        return false;
    if (left > 0 && (d[left - 1] == '-' || d[left - 1] == '+'))
        left--;
    for (; left > 0 && (d[left - 1] == ' ' || (quote && d[left - 1] == quote)); left--)
        opened = opened || d[left - 1] == quote;
    if (opened != quoted) /* a line break inside the quotes is no start of a field */
        return false;
    while (right < file->len && isdigit(d[right]))
        right++;
    while (right < file->len && (d[right] == ' ' || (quote && d[right] == quote)))
        right++;
    return (left == 0 || d[left - 1] == separator || d[left - 1] == '\n' || d[left - 1] == '\r') &&
           (right == file->len || d[right] == separator || d[right] == '\n' || d[right] == '\r');
}

/* Ten digits and dashes, as 2024-01-31. Whether there is such a day is DuckDB's to say: about these it is always strict. */
static bool is_plain_date(const unsigned char *text)
{
    /* What a byte may differ from its pattern by: 0 to 9 where a digit stands, nothing at a dash. Past that, `room` overflows. */
    static const char pattern[] = "0000-00-00", room[] = "vvvv\x7fvv\x7fvv";
    uint64_t bad = 0;

    for (size_t i = 0; i <= 2; i += 2) { /* eight bytes each: the first and the last ones */
        uint64_t x, y, z;

        memcpy(&x, text + i, sizeof(x));
        memcpy(&y, pattern + i, sizeof(y));
        memcpy(&z, room + i, sizeof(z));
        x ^= y;
        bad |= x | (x + z);
    }
    return (bad & UINT64_C(0x8080808080808080)) == 0;
}

/*
 * The search goes through the file once and knows in which column it is. Blocks of 64 bytes without a quote are taken whole:
 * their separators, line ends and points are bit masks. Where there are quotes it goes byte by byte, because a separator or line
 * end inside them is text.
 */
#define BLOCK 64

struct search {
    struct fd_mapping file;
    unsigned char separator, quote; /* quote may be 0 */
    enum csv_sought
        *sought; /* what is still looked for: nothing in as many columns more as a block may have */
    bool *hit;
    size_t n_columns, n_left, n_dates; /* n_left: columns in which something is looked for; n_dates of them for dates */
    size_t column, start;     /* of the field */
    bool quoted, in_header;
};

static void note_hit(struct search *s, size_t column)
{
    s->hit[column] = true;
    s->n_left--;
    s->n_dates -= s->sought[column] == CSV_ODD_DATES;
    s->sought[column] = CSV_NOTHING;
}

/* Where DuckDB may see other fields than the search does, no date is known to be plain. */
static void give_up_dates(struct search *s)
{
    for (size_t i = 0; s->n_dates > 0 && i < s->n_columns; i++)
        if (s->sought[i] == CSV_ODD_DATES)
            note_hit(s, i);
}

static void look_at_point(struct search *s, size_t at, size_t column)
{
    if (s->sought[column] == CSV_DECIMALS &&
        is_decimal_field(&s->file, at, s->separator, s->quote, s->quoted))
        note_hit(s, column);
}

/* In a column of dates: the field from `from` up to `to`, with its quotes. */
static void look_at_date(struct search *s, size_t from, size_t to, size_t column)
{
    const unsigned char *d = s->file.data;

    if (s->quote && to - from >= 2 && d[from] == s->quote && d[to - 1] == s->quote) {
        from++;
        to--;
    }
    if (to != from && !(to - from == 10 && is_plain_date(d + from)))
        note_hit(s, column);
}

static bool ends_field(const struct search *s, size_t at)
{
    return at >= s->file.len || s->file.data[at] == s->separator || s->file.data[at] == '\n' ||
           s->file.data[at] == '\r';
}

static void take_quote(struct search *s, size_t at)
{
    bool follows_quote = at > 0 && s->file.data[at - 1] == s->quote;

    if (s->quoted) {
        s->quoted = false;
        if (!ends_field(s, at + 1) && s->file.data[at + 1] != s->quote)
            give_up_dates(s);
    } else if (at == 0 || ends_field(s, at - 1) || follows_quote) {
        s->quoted = true;
    } else { /* it opens at the start of a field only, so that 5" of pipe does not swallow the rest of the file */
        give_up_dates(s);
    }
}

static void end_field(struct search *s, size_t at)
{
    if (s->sought[s->column] == CSV_ODD_DATES && !s->in_header)
        look_at_date(s, s->start, at, s->column);
    s->start = at + 1;
}

static void take_byte(struct search *s, size_t at)
{
    unsigned char c = s->file.data[at];

    if (s->quote && c == s->quote) {
        take_quote(s, at);
    } else if (c == '.') {
        look_at_point(s, at, s->column);
    } else if (!s->quoted && c == s->separator) {
        end_field(s, at);
        s->column = MIN_OF(s->column + 1, s->n_columns);
    } else if (!s->quoted && (c == '\n' || c == '\r')) {
        end_field(s, at);
        s->column = 0;
        s->in_header = false;
    }
}

#ifdef __SSE2__
static uint64_t mask_of_16(const unsigned char *p, unsigned char c)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);

    return (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)c)));
}

static uint64_t mask_of(const unsigned char *p,
                        unsigned char c) /* written out: compilers leave a loop a loop */
{
    return mask_of_16(p, c) | mask_of_16(p + 16, c) << 16 | mask_of_16(p + 32, c) << 32 |
           mask_of_16(p + 48, c) << 48;
}

static void look_at_points(struct search *s, size_t at, uint64_t points, size_t column)
{
    for (; points; points &= points - 1)
        look_at_point(s, at + (size_t)__builtin_ctzll(points), column);
}

static bool take_block(struct search *s, size_t at)
{
    const unsigned char *p = s->file.data + at;
    const enum csv_sought *sought = s->sought;
    size_t column = s->column, start = s->start;
    uint64_t points, ends, marks, before = 1;

    if (s->quoted || (s->quote && mask_of(p, s->quote)))
        return false;
    points = mask_of(p, '.');
    ends = mask_of(p, '\n') | mask_of(p, '\r');
    for (marks = mask_of(p, s->separator) | ends; marks;
         marks &= marks - 1) { /* each is the end of a field */
        uint64_t mark = marks & -marks;
        size_t end = at + (size_t)__builtin_ctzll(marks);

        if (sought[column] == CSV_ODD_DATES)
            look_at_date(s, start, end, column);
        else if (sought[column] == CSV_DECIMALS && (points & (mark - before)))
            look_at_points(s, at, points & (mark - before), column);
        before = mark;
        start = end + 1;
        column = (column + 1) &
                 ((size_t) !!(ends & mark) - 1); /* 0 behind a line end; without a branch */
    }
    if (points & -before)
        look_at_points(s, at, points & -before, column);
    s->column = MIN_OF(column, s->n_columns);
    s->start = start;
    return true;
}
#else
static bool take_block(struct search *s, size_t at)
{
    (void)s;
    (void)at;
    return false;
}
#endif

int csv_file_find(const char *path, const struct csv_layout *layout, const enum csv_sought *sought,
                  size_t n_columns, bool *ret_hit, struct err *err)
{
    auto_mapping struct fd_mapping file = { 0 };
    auto_free enum csv_sought *left = calloc(n_columns + 1 + BLOCK, sizeof(*left));
    struct search s = { .separator = (unsigned char)layout->separator,
                        .quote = (unsigned char)layout->quote,
                        .sought = left,
                        .hit = ret_hit,
                        .n_columns = n_columns,
                        .in_header = layout->has_header };
    size_t at = 0;
    int r;

    if (!left)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %zu columns", n_columns);
    for (size_t i = 0; i < n_columns; i++) {
        left[i] = sought[i];
        s.n_left += sought[i] != CSV_NOTHING;
        s.n_dates += sought[i] == CSV_ODD_DATES;
    }
    r = csv_file_map(path, &file, err);
    if (r < 0)
        return r;
    s.file = file;
    while (at < file.len && s.in_header)
        take_byte(&s, at++);
    while (at < file.len && s.n_left > 0) {
        if (file.len - at >= BLOCK && take_block(&s, at)) {
            at += BLOCK;
        } else {
            for (size_t end = MIN_OF(at + BLOCK, file.len); at < end; at++)
                take_byte(&s, at);
        }
    }
    if (s.n_left > 0) {
        if (s.quoted)
            give_up_dates(&s);
        end_field(&s, file.len);
    }
    return 0;
}
