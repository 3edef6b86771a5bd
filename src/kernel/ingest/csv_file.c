/*
 * Is a file text? Files of other kinds are told by their first bytes, so that the message can name
 * the kind.
 */

#include "kernel/ingest/csv_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "kernel/ingest/encoding.h"

#define HEAD_BYTES (256 * 1024)

/* ---- kinds of files ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *magic;
    size_t len;
    const char *kind, *remedy;
} kinds[] = {
    { "PK\x05\x06", 4, "an empty ZIP archive", "send the CSV file itself" },
    { "PARE", 4, "an encrypted Parquet file", "write it without encryption" },
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
    { "BZh", 3, "a bzip2 archive", "unpack it and send the CSV inside" },
    { "\xfd"
      "7zXZ",
      5, "an xz archive", "unpack it and send the CSV inside" },
    { "7z\xbc\xaf", 4, "a 7-Zip archive", "unpack it and send the CSV inside" },
    { "ARROW1", 6, "an Arrow file", "convert it to CSV" },
};

static bool is_called_database(const char *name)
{
    static const char *const endings[] = { ".db", ".db3", ".sqlite", ".sqlite3", ".duckdb" };

    for (size_t k = 0; k < ARRAY_SIZE(endings); k++)
        if (str_ends(name, endings[k]))
            return true;
    return false;
}

static int check_head(const unsigned char *head, size_t len, const char *name, struct err *err)
{
    const unsigned char *nul;
    size_t controls = 0;
    bool blank = true;

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        if (len >= kinds[k].len && memcmp(head, kinds[k].magic, kinds[k].len) == 0) {
            return err_set(err, ERR_VALIDATION, "'%.200s' is not a CSV file but %s; %s", name,
                           kinds[k].kind, kinds[k].remedy);
        }
    }
    if (encoding_wide(head, len))
        return 0;
    nul = memchr(head, 0, len);
    for (size_t k = 0; k < len; k++) {
        controls += head[k] < 0x20 && !isspace(head[k]) && head[k] != 0x1f && head[k] != 1;
        blank = blank && isspace(head[k]);
    }
    if (nul && controls * 20 > len && is_called_database(name))
        return err_set(err, ERR_VALIDATION,
                       "'%.200s' is neither an SQLite nor a DuckDB database, or an encrypted one; "
                       "send an unencrypted copy",
                       name);
    if (nul && controls * 20 > len && controls > 3)
        return err_set(
            err, ERR_VALIDATION,
            "'%.200s' is a binary file, not CSV (a NUL byte at position %zu); export it as CSV "
            "text",
            name, (size_t)(nul - head));
    if (blank && len < HEAD_BYTES)
        return err_set(
            err, ERR_VALIDATION,
            "File is empty: '%.200s' has nothing but white space; send a CSV with a header line "
            "and rows",
            name);
    return 0;
}

int csv_file_inspect(const char *path, const char *name, struct csv_file *ret, struct err *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    auto_free unsigned char *head = malloc(HEAD_BYTES);
    struct csv_file file = { 0 };
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
        int r = check_head(head, len, name, err);

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
