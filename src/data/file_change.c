/* An upload that its owner changes: another name, or its file read again in another way. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/str.h"
#include "data/file_sets.h"
#include "sandbox/table_names.h"

/* ---- another name ---- */

struct renaming {
    struct file_set *set;
    data_done_fn done;
    void *arg;
};

static void on_renamed(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct renaming *rn = arg;
    struct file_set *set = rn->set;
    struct data_room *room = set->all->room;
    if (room)
        file_set_notify(set);
    if (room && room->user)
        room->user->changed(room->user_arg, set->owner);
    rn->done(err, rn->arg);
    file_set_unref(set);
    free(rn);
}

/* The file keeps its name on disk, where its table is found by it. */
static int set_name(struct file_set *set, const char *filename, struct err *err)
{
    char name[FILE_NAME_SIZE], table[DATASET_TABLE_MAX];
    file_safe_name(filename, name);
    file_table_name(name, table);
    char *shown = arena_strdup(&set->arena, filename), *file = arena_strdup(&set->arena, name),
         *safe = arena_strdup(&set->arena, table);
    if (!shown || !file || !safe)
        return err_set(err, ERR_TOO_LARGE, "the upload was renamed too often; upload it again");
    set->filename = set->dataset.name = shown;
    set->file.name = set->file.path = file;
    set->file.table = safe;
    return 0;
}

int file_set_rename(struct file_set *set, const char *name, data_done_fn done, void *arg,
                    struct err *err)
{
    const char *was = strrchr(set->filename, '.'), *is = strrchr(name, '.');
    if (set->status != FILE_READY)
        return err_set(err, ERR_CONFLICT, "the upload is %s; only one that is ready can be renamed",
                       file_status_name(set->status));
    if (was && (!is || !str_ieq(was, is)))
        return err_set(err, ERR_VALIDATION, "the ending says what the file is: keep '%s'", was);
    struct renaming *rn = calloc(1, sizeof(*rn));
    if (!rn)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *rn = (struct renaming){ .set = file_set_ref(set), .done = done, .arg = arg };
    const char *before = set->filename;
    int r = set_name(set, name, err);
    if (r == 0)
        r = file_set_store(set, FILE_READY, NULL, STORE_PUT, on_renamed, rn, err);
    if (r < 0) {
        (void)set_name(set, before, NULL);
        file_set_unref(set);
        free(rn);
    }
    return r;
}

/*
 * ---- another reading ----
 *
 * A second set, which nobody finds, stands for the upload meanwhile: it has the same file and the
 * new options, and so a table and a profile of its own (sandbox/table_names.h). When those are
 * there, what the two know is swapped and stored.
 *
 * The table before stays on disk until the next time: runs that have begun with it are not
 * disturbed. It counts for the quota.
 */

struct reread {
    struct file_set *set, *fresh;
    data_done_fn done; /* NULL while it is begun */
    void *arg;
    int64_t begun_ms;
    struct err err;
};

static void reread_free(struct reread *rr)
{
    rr->set->reread_by = NULL;
    if (rr->fresh) {
        rr->fresh->reread = NULL;
        file_set_unref(rr->fresh);
    }
    file_set_unref(rr->set);
    free(rr);
}

static void reread_end(struct reread *rr, const struct err *err)
{
    struct file_set *set = rr->set;
    log_info("upload.reread", LOG_STR("file_id", set->dataset.id), LOG_STR("owner", set->owner),
             LOG_STR("status", err ? "failed" : "ready"), LOG_INT("rows", set->file.row_count),
             LOG_INT("ms", clock_now_ms() - rr->begun_ms));
    rr->done(err, rr->arg);
    reread_free(rr);
}

static bool same(const char *a, const char *b)
{
    return str_eq(a ? a : "", b ? b : "");
}

/* The table that the file has with these options, if no other name of it is in use. */
static void remove_table(const struct file_set *set, const char *options)
{
    struct sandbox_file file = {
        .name = set->file.name, .path = set->file.full_path, .options = options, .is_beside = true
    };
    void (*const names[])(const char *, const struct sandbox_file *, const char *,
                          char *) = { table_path, table_report_path, table_profile_path };
    char path[TABLE_PATH_SIZE];
    if (same(options, set->file.options) || (set->has_before && same(options, set->options_before)))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        names[i]("", &file, "", path);
        (void)unlink(path);
    }
}

/* What is known of the table; the names stay. */
static void swap(struct file_set *a, struct file_set *b)
{
    SWAP_VALUES(a->file.options, b->file.options);
    SWAP_VALUES(a->file.profile, b->file.profile);
    SWAP_VALUES(a->file.row_count, b->file.row_count);
    SWAP_VALUES(a->columns, b->columns);
    SWAP_VALUES(a->raw, b->raw);
    (void)file_set_describe(a);
}

static void on_stored(const struct err *err, int64_t value, void *arg)
{
    (void)value;
    struct reread *rr = arg;
    struct file_set *set = rr->set;
    struct data_room *room = set->all->room;
    if (err) {
        struct err why = *err;
        swap(set, rr->fresh);
        remove_table(set, rr->fresh->file.options);
        reread_end(rr, &why);
        return;
    }
    const char *before = set->options_before, *now_before = rr->fresh->file.options;
    bool had = set->has_before;
    set->options_before = now_before;
    set->has_before = !rr->fresh->raw;
    if (had)
        remove_table(set, before);
    file_set_count(set);
    if (room)
        file_set_notify(set);
    if (room && room->user) {
        room->user->reread(room->user_arg, set->owner, set->dataset.id);
        room->user->ready(room->user_arg, set->owner, set->dataset.id, true);
    }
    reread_end(rr, NULL);
}

void file_reread_settle(struct file_set *fresh, const struct err *err)
{
    struct reread *rr = fresh->reread;
    struct file_set *set = rr->set;
    struct err why = ERR_INIT;
    int r = 0;
    if (err) {
        why = *err;
        r = -(int)why.code;
        file_reword(&why, fresh->file.name);
    } else if (set->deleting || !set->listed) {
        r = err_set(&why, ERR_CONFLICT, "The upload was deleted while it was being read");
    }
    if (r == 0) {
        struct err other = ERR_INIT;
        err_set(&other, ERR_UNAVAILABLE, "the file was read in another way meanwhile; ask again");
        data_profile_stop(set->all->room, set, &other); /* it is of the table that goes */
        swap(set, fresh);
        r = file_set_store(set, FILE_READY, NULL, STORE_PUT, on_stored, rr, &why);
        if (r == 0)
            return;
        swap(set, fresh);
    }
    remove_table(set, fresh->file.options);
    if (rr->done)
        reread_end(rr, &why);
    else
        rr->err = why; /* it did not begin */
}

/* Its strings are the set's, which keeps them. */
static struct file_set *create_fresh(struct file_set *set, const char *options)
{
    struct file_facts facts = { .owner = set->owner,
                                .id = set->dataset.id,
                                .filename = set->filename,
                                .sha256 = set->file.sha256,
                                .created_at = set->created_at,
                                .size_bytes = set->file.size_bytes };
    struct file_set *fresh = file_set_create(set->all, &facts);
    if (!fresh)
        return NULL;
    fresh->use->bytes -= fresh->counted_bytes;
    fresh->counted_bytes = 0;
    fresh->file.full_path = set->file.full_path;
    fresh->file.options = options;
    return fresh;
}

int file_set_reread(struct file_set *set, const json_t *options, data_done_fn done, void *arg,
                    struct err *err)
{
    auto_free char *text = NULL;
    if (set->status != FILE_READY)
        return err_set(err, ERR_CONFLICT,
                       "the upload is %s; only one that is ready can be read again",
                       file_status_name(set->status));
    if (set->reread_by)
        return err_set(err, ERR_CONFLICT, "the upload is being read again already");
    if (!file_may_be_table(set))
        return err_set(err, ERR_VALIDATION, "the file is none that is read as a table");
    int r = read_options_merge(set->file.options, options, &text, err);
    if (r < 0)
        return r;
    const char *kept = same(text, set->file.options) ? set->file.options :
                       text                          ? arena_strdup(&set->arena, text) :
                                                       NULL;
    if (text && !kept)
        return err_set(err, ERR_TOO_LARGE, "the upload was read too often; upload it again");
    struct reread *rr = calloc(1, sizeof(*rr));
    if (!rr)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *rr = (struct reread){
        .set = file_set_ref(set), .arg = arg, .begun_ms = clock_now_ms(), .err = ERR_INIT
    };
    set->reread_by = rr;
    rr->fresh = create_fresh(set, kept);
    r = rr->fresh ? 0 : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (r == 0) {
        rr->fresh->reread = rr;
        r = file_ingest(rr->fresh, err);
    }
    if (r == 0 && rr->err.code) {
        *err = rr->err;
        r = -(int)rr->err.code;
    }
    if (r < 0)
        reread_free(rr);
    else
        rr->done = done;
    return r;
}
