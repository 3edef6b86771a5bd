#ifndef RIDDLE_DATA_REGISTRY_H
#define RIDDLE_DATA_REGISTRY_H

/*
 * The datasets of a directory: those that its registry.json declares, then every other folder with
 * CSV files in it.
 *
 * What the registry says is held to: a key that is not known, a value of the wrong type, a missing
 * file or a path that leads out of the directory is an error that names the place. A folder that
 * cannot be used is left out and noted. Version hashes are of the contents, whatever the registry
 * says they were.
 */

#include "data/dataset.h"

#define REGISTRY_FILE "registry.json"
#define REGISTRY_VERSION "1.0"
#define REGISTRY_MAX_BYTES (16 * 1024 * 1024)
#define REGISTRY_MAX_DATASETS 1000
#define REGISTRY_MAX_FILES 200    /* of a dataset */
#define REGISTRY_MAX_COLUMNS 2000 /* of a file */
#define REGISTRY_MAX_LIST 200     /* prompts, tags, values, relationships */
#define REGISTRY_MAX_TEXT 4096    /* bytes of a name, description or prompt */
#define PATH_BYTES_MAX 4096

struct registry;

/*
 * Reads the directory and hashes the files: for a worker thread when files may be large. A file
 * whose size, times and inode are those it had in `previous` (NULL: none) is not read again.
 * NOT_FOUND when there is no such directory, INVALID_JSON or VALIDATION for the registry, IO. The
 * caller owns one reference to *ret.
 */
int registry_load(const char *dir, const struct registry *previous, struct registry **ret,
                  struct err *err);

struct registry *registry_ref(struct registry *r);
void registry_unref(struct registry *r); /* NULL is fine */

size_t registry_count(const struct registry *r);
const struct dataset *registry_get(const struct registry *r,
                                   size_t i); /* as long as the registry lives */
const struct dataset *registry_find(const struct registry *r, const char *id); /* NULL: none */

/* What was left out and why: strings for the log. Borrowed. */
const json_t *registry_notes(const struct registry *r);

/*
 * Attaches what a scan found out about the contents `sha256` to every file that has them.
 * VALIDATION for a profile of another shape, NOT_FOUND when no file has these contents. Not while
 * another thread reads the registry.
 */
int registry_set_profile(struct registry *r, const char *sha256, json_t *profile, struct err *err);

/* Carries the profiles over after a reload, by contents. */
void registry_adopt_profiles(struct registry *r, const struct registry *previous);

/*
 * The registry file as JSON, its version checked and nothing else. NOT_FOUND, TOO_LARGE,
 * INVALID_JSON, VALIDATION, IO.
 */
int registry_read_json(const char *path, json_t **ret, struct err *err);

#endif
