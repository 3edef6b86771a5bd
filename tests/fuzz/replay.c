/*
 * Feeds files to a fuzzer's entry as an ordinary test: every file of the directories and every file
 * named as an argument. What the fuzzer found once stays found. Prints its count the way the unit
 * tests do.
 */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fdio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int replay_file(const char *path)
{
    auto_buf struct buf b = BUF_INIT(16u << 20);
    struct err err = ERR_INIT;

    if (fd_read_file(path, &b, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return -1;
    }
    /* A crash should name its file. An exact copy lets AddressSanitizer see a read past the end. */
    fprintf(stderr, "%s\n", path);
    uint8_t *exact = malloc(b.len ? b.len : 1);
    if (!exact)
        return -1;
    for (size_t i = 0; i < b.len; i++)
        exact[i] = (uint8_t)b.data[i];
    LLVMFuzzerTestOneInput(exact, b.len);
    free(exact);
    return 1;
}

/* How many files were fed; negative if one could not be read. */
static int replay(const char *path)
{
    struct dirent **entries;
    struct stat st;
    int fed = 0;

    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return replay_file(path);
    int n = scandir(path, &entries, is_visible, alphasort);
    if (n < 0) {
        perror(path);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        char file[4096];

        snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
        int one = fed < 0 ? fed : replay(file);
        fed = one < 0 ? one : fed + one;
        free(entries[i]);
    }
    free(entries);
    return fed;
}

int main(int argc, char **argv)
{
    int fed = 0;

    for (int i = 1; i < argc; i++) {
        int n = replay(argv[i]);
        if (n < 0)
            return EXIT_FAILURE;
        fed += n;
    }
    printf("[  PASSED  ] %d test(s).\n", fed);
    return fed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
