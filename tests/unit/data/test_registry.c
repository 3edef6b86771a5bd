/*
 * Loading a directory of datasets: what is good, every way to be wrong, folders that are dropped
 * in, profiles.
 */

#include <sys/stat.h>
#include "base/check.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/macros.h"
#include "base/str.h"
#include "data/generate.h"
#include "data/registry.h"

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    make_scratch(dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return fd_remove_tree(dir, NULL);
}

static const char *path_of(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void put(const char *name, const char *text)
{
    struct err err;
    auto_free char *folder = strdup(path_of(name));

    *strrchr(folder, '/') = '\0';
    assert_works(fd_mkdir_p(folder, 0755, &err), &err);
    assert_works(fd_replace_file(path_of(name), text, strlen(text), 0644, &err), &err);
}

static struct registry *load(const struct registry *previous)
{
    struct registry *r = NULL;
    struct err err;

    assert_works(registry_load(dir, previous, &r, &err), &err);
    return r;
}

/* ---- good ---- */

static void test_bundled(void **state)
{
    static const char *const ids[] = { "ecommerce", "support", "sensors", "transactions" };
    static const int rows[] = { 13526, 6417, 49950, 1000 };
    static const char *const quoted[][3] = {
        { "0", "What are the top 10 products by revenue?", "Show me the return rate by category" },
        { "1", "What's our SLA compliance rate by priority level?",
          "Which critical tickets have been open the longest?" },
        { "2", "How many anomalies were detected by location in the last 24 hours?",
          "Which sensors have battery below 20%?" },
    };
    struct registry *r;
    const struct dataset *d;
    auto_json json_t *schema = NULL, *summary = NULL;
    struct dataset_table found;
    const json_t *column;
    struct err err;

    (void)state;
    assert_works(datasets_generate(dir, &err), &err);
    r = load(NULL);
    assert_int_equal(registry_count(r), 4);
    assert_int_equal(json_array_size(registry_notes(r)), 0);
    for (size_t i = 0; i < 4; i++) {
        d = registry_get(r, i);
        assert_string_equal(d->id, ids[i]);
        assert_true(d->is_declared);
        assert_int_equal(dataset_row_count(d), rows[i]); /* so the declared hash is the true one */
        assert_int_equal(json_array_size(d->prompts), 6);
        assert_ptr_equal(registry_find(r, ids[i]), d);
    }
    for (size_t i = 0; i < ARRAY_SIZE(quoted); i++) {
        d = registry_get(r, (size_t)(quoted[i][0][0] - '0'));
        assert_string_equal(json_string_value(json_array_get(d->prompts, 0)), quoted[i][1]);
        assert_string_equal(json_string_value(json_array_get(d->prompts, 1)), quoted[i][2]);
    }
    assert_null(registry_find(r, "Ecommerce"));
    assert_null(registry_find(r, ""));

    d = registry_find(r, "ecommerce");
    assert_int_equal(d->n_files, 3);
    assert_string_equal(d->files[1].table, "order_items");
    assert_string_equal(d->files[1].path, "ecommerce/order_items.csv");
    assert_string_equal(d->files[1].full_path, path_of("ecommerce/order_items.csv"));
    assert_int_equal(d->n_relationships, 2);
    assert_string_equal(d->relationships[1].from, "order_items.product_id");
    assert_string_equal(d->relationships[1].to, "inventory.product_id");
    assert_true(dataset_find_table(d, "INVENTORY", &found));
    assert_int_equal(found.at, 2);
    assert_false(dataset_find_table(d, "inventory.csv", &found));

    summary = dataset_summary(d);
    assert_int_equal(json_object_size(summary), 5);
    assert_string_equal(json_string_value(json_object_get(summary, "version_hash")),
                        d->version_hash);
    assert_int_equal(json_array_size(json_object_get(summary, "prompts")), 6);

    schema = dataset_schema_json(d);
    assert_string_equal(json_string_value(json_object_get(schema, "id")), "ecommerce");
    column = json_array_get(json_object_get(schema, "files"), 0);
    assert_string_equal(json_string_value(json_object_get(column, "name")), "orders.csv");
    assert_int_equal(json_array_size(json_object_get(column, "sample_rows")), 0);
    assert_true(json_is_false(json_object_get(column, "profiled")));
    column = json_object_get(json_object_get(column, "schema"), "status");
    assert_string_equal(json_string_value(json_object_get(column, "type")), "string");
    assert_int_equal(json_array_size(json_object_get(column, "values")), 3);
    registry_unref(r);
}

/*
 * A hash names contents: of what changed it changes, and what was counted before no longer counts.
 */
static void test_version(void **state)
{
    struct registry *a, *b, *c;
    struct err err;
    char before[HASH_VERSION_SIZE];

    (void)state;
    assert_works(datasets_generate(dir, &err), &err);
    a = load(NULL);
    memcpy(before, registry_find(a, "transactions")->version_hash, sizeof(before));
    put("transactions/transactions.csv", "id,date\nTXN0001,2024-01-01\n");
    b = load(a);
    assert_string_not_equal(registry_find(b, "transactions")->version_hash, before);
    assert_int_equal(dataset_row_count(registry_find(b, "transactions")), -1);
    assert_string_equal(registry_find(b, "support")->version_hash,
                        registry_find(a, "support")->version_hash);
    assert_int_equal(dataset_row_count(registry_find(b, "support")), 6417);
    /* The old registry is what it was. */
    assert_string_equal(registry_find(a, "transactions")->version_hash, before);
    assert_works(datasets_generate(dir, &err), &err);
    c = load(b);
    assert_string_equal(registry_find(c, "transactions")->version_hash, before);
    registry_unref(a);
    registry_unref(b);
    registry_unref(c);
}

/*
 * A file that looks unchanged is not read again: shown by giving the cache a hash that the contents
 * do not have.
 */
static void test_hash_cache(void **state)
{
    struct registry *a, *b, *c;
    const struct dataset_file *f;

    (void)state;
    put("set/a.csv", "x\n1\n");
    put("set/b.csv", "x\n2\n");
    a = load(NULL);
    f = &registry_find(a, "set")->files[0];
    memset((char *)f->sha256, 'e', 64);
    b = load(a);
    assert_memory_equal(registry_find(b, "set")->files[0].sha256, f->sha256, HASH_HEX_SIZE);
    assert_string_equal(registry_find(b, "set")->files[1].sha256,
                        registry_find(a, "set")->files[1].sha256);
    put("set/a.csv", "x\n1\n"); /* the same bytes in a new file */
    c = load(a);
    assert_string_not_equal(registry_find(c, "set")->files[0].sha256, f->sha256);
    registry_unref(a);
    registry_unref(b);
    registry_unref(c);
}

static void test_references(void **state)
{
    struct registry *r;

    (void)state;
    put("set/a.csv", "x\n1\n");
    r = load(NULL);
    assert_ptr_equal(registry_ref(r), r);
    registry_unref(r);
    assert_string_equal(registry_get(r, 0)->id, "set");
    registry_unref(r);
    registry_unref(NULL);
}

/* ---- folders ---- */

static void test_dropped_folder(void **state)
{
    struct registry *r;
    const struct dataset *d;
    auto_json json_t *schema = NULL;
    const json_t *file;

    (void)state;
    put("Sales 2024 (final)/2024 north.csv", "x\n1\n");
    put("Sales 2024 (final)/Umsätze.CSV", "x\n2\n");
    put("Sales 2024 (final)/umsatze.csv", "x\n3\n");
    put("Sales 2024 (final)/umsatze!.csv", "x\n3\n");
    put("Sales 2024 (final)/.hidden.csv", "x\n3\n");
    put("Sales 2024 (final)/readme.txt", "no data");
    put("Sales 2024 (final)/.csv", "no name");
    put("数据/a.csv", "x\n1\n");
    put("sales_2024_final/a.csv", "x\n1\n");
    put("Sales_2024_final/a.csv", "x\n1\n");
    put("notes/readme.txt", "no data here");
    put(".hidden/a.csv", "x\n1\n");
    put("stray.csv", "x\n1\n");
    r = load(NULL);
    assert_int_equal(json_array_size(registry_notes(r)), 0);
    assert_int_equal(registry_count(r), 4);

    d = registry_get(r, 0);
    assert_string_equal(d->id, "Sales_2024_final");
    assert_string_equal(d->name, "Sales 2024 (final)");
    assert_string_equal(d->description, "");
    assert_false(d->is_declared);
    assert_int_equal(d->n_files, 4);
    assert_string_equal(d->files[0].name, "2024 north.csv");
    assert_string_equal(d->files[0].table, "t_2024_north");
    assert_string_equal(d->files[0].path, "Sales 2024 (final)/2024 north.csv");
    assert_string_equal(d->files[1].name, "Umsätze.CSV");
    assert_string_equal(d->files[1].table, "Ums_tze");
    assert_string_equal(d->files[2].table, "umsatze");
    assert_string_equal(d->files[3].name, "umsatze.csv");
    assert_string_equal(d->files[3].table, "umsatze_2");
    assert_int_equal(dataset_row_count(d), -1);
    assert_int_equal(d->size_bytes, 16);
    assert_int_equal(json_array_size(d->prompts), 0);

    assert_string_equal(registry_get(r, 1)->id, "Sales_2024_final_2");
    assert_string_equal(registry_get(r, 2)->id, "sales_2024_final");
    assert_string_equal(registry_get(r, 3)->id, "dataset");
    assert_string_equal(registry_get(r, 3)->name, "数据");
    /* Contents and names make the version: these two have both in common. */
    assert_string_equal(registry_get(r, 1)->version_hash, registry_get(r, 2)->version_hash);
    assert_string_not_equal(registry_get(r, 0)->version_hash, registry_get(r, 1)->version_hash);

    schema = dataset_schema_json(d);
    file = json_array_get(json_object_get(schema, "files"), 1);
    assert_string_equal(json_string_value(json_object_get(file, "name")), "Umsätze.CSV");
    assert_int_equal(json_object_size(json_object_get(file, "schema")), 0);
    assert_true(json_is_null(json_object_get(file, "row_count")));
    registry_unref(r);
}

static void test_folder_beside_registry(void **state)
{
    struct registry *r;

    (void)state;
    put("declared/a.csv", "x\n1\n");
    put("declared/extra.csv", "x\n1\n");
    put("mine/b.csv", "x\n1\n");
    put("other/c.csv", "x\n1\n");
    put("registry.json", "{\"version\":\"1.0\",\"datasets\":[{\"id\":\"mine\",\"name\":\"Mine\","
                         "\"files\":[{\"name\":\"a.csv\",\"path\":\"declared/a.csv\"}]}]}");
    r = load(NULL);
    assert_int_equal(registry_count(r), 3);
    assert_string_equal(registry_get(r, 0)->id, "mine");
    assert_int_equal(registry_get(r, 0)->n_files, 1); /* what is declared is all */
    assert_string_equal(registry_get(r, 1)->id, "mine_2");
    assert_string_equal(registry_get(r, 1)->name, "mine");
    assert_string_equal(registry_get(r, 2)->id, "other");
    registry_unref(r);
}

/* A folder that cannot be used is noted and does not take the others away. */
static void test_bad_folders_are_noted(void **state)
{
    struct registry *r;
    const json_t *notes;

    (void)state;
    put("a/a.csv", "x\n1\n");
    assert_int_equal(mkdir(path_of("b"), 0755), 0);
    assert_int_equal(symlink("/etc/passwd", path_of("b/leak.csv")), 0);
    assert_int_equal(mkdir(path_of("c"), 0755), 0);
    assert_int_equal(mkfifo(path_of("c/pipe.csv"), 0644), 0);
    assert_int_equal(mkdir(path_of("d"), 0755), 0);
    assert_int_equal(mkdir(path_of("d/dir.csv"), 0755), 0);
    assert_int_equal(mkdir(path_of("e"), 0755), 0);
    assert_int_equal(symlink("nowhere", path_of("e/gone.csv")), 0);
    assert_int_equal(mkdir(path_of("f"), 0755), 0);
    assert_int_equal(symlink("../a/a.csv", path_of("f/link.csv")), 0); /* within: fine */
    r = load(NULL);
    assert_int_equal(registry_count(r), 2);
    assert_string_equal(registry_get(r, 0)->id, "a");
    assert_string_equal(registry_get(r, 1)->id, "f");
    assert_string_equal(registry_get(r, 1)->files[0].full_path, path_of("a/a.csv"));
    notes = registry_notes(r);
    assert_int_equal(json_array_size(notes), 4);
    assert_string_equal(
        json_string_value(json_array_get(notes, 0)),
        "folder 'b' is left out: path 'b/leak.csv' leads out of the registry's directory");
    assert_string_equal(json_string_value(json_array_get(notes, 1)),
                        "folder 'c' is left out: 'c/pipe.csv' is a device or pipe, not a file");
    assert_string_equal(json_string_value(json_array_get(notes, 2)),
                        "folder 'd' is left out: 'd/dir.csv' is a directory, not a file");
    assert_string_equal(json_string_value(json_array_get(notes, 3)),
                        "folder 'e' is left out: file 'e/gone.csv' is missing");
    registry_unref(r);
}

static void test_too_many_files(void **state)
{
    struct registry *r;

    (void)state;
    for (int i = 0; i <= REGISTRY_MAX_FILES; i++) {
        char name[32];

        snprintf(name, sizeof(name), "many/%d.csv", i);
        put(name, "x\n");
    }
    r = load(NULL);
    assert_int_equal(registry_count(r), 0);
    assert_string_equal(json_string_value(json_array_get(registry_notes(r), 0)),
                        "folder 'many' is left out: it has 201 CSV files; the maximum is 200");
    registry_unref(r);
}

/* ---- bad ---- */

#define FILE_A "{\"name\":\"a.csv\",\"path\":\"set/a.csv\"}"
#define ONE(members) "{\"version\":\"1.0\",\"datasets\":[{" members "}]}"
#define FILES(list) ONE("\"id\":\"s\",\"name\":\"S\",\"files\":[" list "]")
#define MORE(members) ONE("\"id\":\"s\",\"name\":\"S\",\"files\":[" FILE_A "]," members)
#define COLUMN(members)                                                                            \
    FILES("{\"name\":\"a.csv\",\"path\":\"set/a.csv\",\"schema\":{\"x\":{" members "}}}")
#define RELATION(members)                                                                                                                \
    ONE("\"id\":\"s\",\"name\":\"S\",\"files\":[{\"name\":\"a.csv\",\"path\":\"set/a.csv\",\"schema\":{\"x\":{\"type\":\"integer\"}}}]," \
        "\"relationships\":[{" members "}]")

static const struct bad {
    const char *text;
    int code;            /* an enum would be unsigned, and have no negative */
    const char *message; /* after "registry 'PATH': " */
} bad[] = {
    /* the text */
    { "", ERR_INVALID_JSON, "invalid JSON at line 1, column 1: the text is empty" },
    { "{\"version\":\"1.0\",\n\"datasets\":[}", ERR_INVALID_JSON,
      "invalid JSON at line 2, column 13: unexpected token near '}'" },
    { "{\"version\":\"1.0\",\"version\":\"1.0\",\"datasets\":[]}", ERR_INVALID_JSON,
      "invalid JSON at line 1, column 26: duplicate object key near '\"version\"'" },
    /* the whole */
    { "[]", ERR_VALIDATION, "expected an object, not an array" },
    { "{\"datasets\":[]}", ERR_VALIDATION, "'version' is required" },
    { "{\"version\":\"2.0\",\"datasets\":[]}", ERR_VALIDATION,
      "'version' must be \"1.0\", not \"2.0\"" },
    { "{\"version\":1,\"datasets\":[]}", ERR_VALIDATION, "'version' must be a string, not 1" },
    { "{\"version\":\"1.0\"}", ERR_VALIDATION, "'datasets' is required" },
    { "{\"version\":\"1.0\",\"datasets\":{}}", ERR_VALIDATION,
      "'datasets' must be an array, not an object" },
    { "{\"version\":\"1.0\",\"dataset\":[]}", ERR_VALIDATION,
      "unknown field 'dataset'; did you mean 'datasets'?" },
    { "{\"version\":\"1.0\",\"datasets\":[7]}", ERR_VALIDATION,
      "entry 1: expected an object, not 7" },
    /* a dataset */
    { ONE("\"name\":\"S\",\"files\":[" FILE_A "]"), ERR_VALIDATION, "entry 1: 'id' is required" },
    { ONE("\"id\":7,\"name\":\"S\",\"files\":[" FILE_A "]"), ERR_VALIDATION,
      "entry 1: 'id' must be a string, not 7" },
    { ONE("\"id\":\"../up\",\"name\":\"S\",\"files\":[" FILE_A "]"), ERR_VALIDATION,
      "entry 1: id '../up' must begin with a letter or digit and hold only letters, digits, '_' and '-' (at most 64)" },
    { ONE("\"id\":\"s\",\"files\":[" FILE_A "]"), ERR_VALIDATION,
      "entry 1: dataset 's': 'name' is required" },
    { ONE("\"id\":\"s\",\"name\":\"S\""), ERR_VALIDATION,
      "entry 1: dataset 's': 'files' must name at least one file" },
    { FILES(""), ERR_VALIDATION, "entry 1: dataset 's': 'files' must name at least one file" },
    { MORE("\"promts\":[]"), ERR_VALIDATION,
      "entry 1: unknown field 'promts'; did you mean 'prompts'?" },
    { MORE("\"prompts\":\"one\""), ERR_VALIDATION,
      "entry 1: dataset 's': 'prompts' must be an array, not \"one\"" },
    { MORE("\"prompts\":[\"one\",2]"), ERR_VALIDATION,
      "entry 1: dataset 's': 'prompts' must hold strings; number 2 is of type integer" },
    { MORE("\"tags\":[null]"), ERR_VALIDATION,
      "entry 1: dataset 's': 'tags' must hold strings; number 1 is of type null" },
    { MORE("\"row_count\":-1"), ERR_VALIDATION,
      "entry 1: dataset 's': 'row_count' must be an integer of at least 0, not -1" },
    { MORE("\"size_bytes\":\"9\""), ERR_VALIDATION,
      "entry 1: dataset 's': 'size_bytes' must be an integer of at least 0, not \"9\"" },
    { "{\"version\":\"1.0\",\"datasets\":[{\"id\":\"s\",\"name\":\"S\",\"files\":[" FILE_A "]},"
      "{\"id\":\"s\",\"name\":\"T\",\"files\":[" FILE_A "]}]}",
      ERR_VALIDATION, "entry 2: two datasets have the id 's'" },
    /* its files */
    { FILES("7"), ERR_VALIDATION, "entry 1: dataset 's': file 1: expected an object, not 7" },
    { FILES("{\"path\":\"set/a.csv\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: 'name' is required" },
    { FILES("{\"name\":\"a.csv\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: 'path' is required" },
    { FILES("{\"name\":\"a b.csv\",\"path\":\"set/a.csv\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: name 'a b.csv' must be a table's name and an extension, such as 'orders.csv' "
      "(letters, digits and '_', at most 64)" },
    { FILES("{\"name\":\"x/a.csv\",\"path\":\"set/a.csv\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: name 'x/a.csv' must be a table's name and an extension, such as 'orders.csv' "
      "(letters, digits and '_', at most 64)" },
    { FILES(FILE_A ",{\"name\":\"A.csv\",\"path\":\"set/a.csv\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': two files make a table 'A'" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"/etc/passwd\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: path '/etc/passwd' must be relative to the registry's directory" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"../a.csv\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: path '../a.csv' leads out of the registry's directory" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"set/../../a.csv\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: path 'set/../../a.csv' leads out of the registry's directory" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"set/..\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: path 'set/..' leads out of the registry's directory" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"set//a.csv\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: path 'set//a.csv' must be names with a single '/' between them" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"./a.csv\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: path './a.csv' must be names with a single '/' between them" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"set/\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: path 'set/' must be names with a single '/' between them" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"out/passwd\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': path 'out/passwd' leads out of the registry's directory" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"sibling/a.csv\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': path 'sibling/a.csv' leads out of the registry's directory" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"set/none.csv\"}"), ERR_NOT_FOUND,
      "entry 1: dataset 's': file 'set/none.csv' is missing" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"set/a.csv/b\"}"), ERR_NOT_FOUND,
      "entry 1: dataset 's': file 'set/a.csv/b' is missing" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"set\"}"), ERR_VALIDATION,
      "entry 1: dataset 's': 'set' is a directory, not a file" },
    /* their columns */
    { FILES("{\"name\":\"a.csv\",\"path\":\"set/a.csv\",\"schema\":[]}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: 'schema' must be an object, not an array" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"set/a.csv\",\"schema\":{}}"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: 'schema' has no columns; leave it out to have it inferred" },
    { FILES("{\"name\":\"a.csv\",\"path\":\"set/a.csv\",\"schema\":{\"x\":\"integer\"}}"),
      ERR_VALIDATION,
      "entry 1: dataset 's': file 1: column 'x': expected an object, not \"integer\"" },
    { COLUMN(""), ERR_VALIDATION, "entry 1: dataset 's': file 1: column 'x': 'type' is required" },
    { COLUMN("\"type\":\"integer\",\"nulable\":true"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: column 'x': unknown field 'nulable'; did you mean 'nullable'?" },
    { COLUMN("\"type\":\"integer\",\"nullable\":\"yes\""), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: column 'x': 'nullable' must be true or false, not \"yes\"" },
    { COLUMN("\"type\":\"integer\",\"values\":[1,[2]]"), ERR_VALIDATION,
      "entry 1: dataset 's': file 1: column 'x': 'values' must hold single values; number 2 is of type array" },
    /* its relationships */
    { RELATION("\"from\":\"a.x\",\"to\":\"a\",\"type\":\"many-to-one\""), ERR_VALIDATION,
      "entry 1: dataset 's': relationship 1: 'to' must be 'table.column', not 'a'" },
    { RELATION("\"from\":\"b.x\",\"to\":\"a.x\",\"type\":\"many-to-one\""), ERR_VALIDATION,
      "entry 1: dataset 's': relationship 1: 'from' names 'b.x', but the dataset has no table 'b'" },
    { RELATION("\"from\":\"a.x\",\"to\":\"a.y\",\"type\":\"many-to-one\""), ERR_VALIDATION,
      "entry 1: dataset 's': relationship 1: 'to' names 'a.y', but the table's schema has no such column" },
    { RELATION("\"from\":\"a.x\",\"to\":\"a.x\",\"type\":\"some\""), ERR_VALIDATION,
      "entry 1: dataset 's': relationship 1: 'type' must be many-to-one, one-to-many, one-to-one or many-to-many, "
      "not 'some'" },
    { RELATION("\"from\":\"a.x\",\"to\":\"a.x\""), ERR_VALIDATION,
      "entry 1: dataset 's': relationship 1: 'type' is required" },
};

static void test_bad(void **state)
{
    char message[ERR_MESSAGE_MAX], beside[80];
    struct registry *r = NULL;
    struct err err;

    (void)state;
    put("set/a.csv", "x\n1\n");
    assert_int_equal(symlink("/etc", path_of("out")), 0);
    /* A directory whose name merely begins like ours is not ours. */
    snprintf(beside, sizeof(beside), "%s-beside", dir);
    assert_int_equal(mkdir(beside, 0755), 0);
    assert_int_equal(symlink(beside, path_of("sibling")), 0);
    put("sibling/a.csv", "x\n1\n");
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        put("registry.json", bad[i].text);
        snprintf(message, sizeof(message), "registry '%s': %s", path_of("registry.json"),
                 bad[i].message);
        assert_fails(registry_load(dir, NULL, &r, &err), &err, bad[i].code, message);
        assert_null(r);
    }
    assert_works(fd_remove_tree(beside, &err), &err);
    /* What the cases are made of is good. */
    put("registry.json", MORE("\"prompts\":[\"one\"]"));
    r = load(NULL);
    assert_string_equal(registry_get(r, 0)->id, "s");
    registry_unref(r);
}

static void test_limits(void **state)
{
    auto_json json_t *json = json_pack("{s:s, s:[]}", "version", "1.0", "datasets"), *copy = NULL;
    auto_free char *long_text = NULL, *text = NULL;
    char message[ERR_MESSAGE_MAX];
    struct registry *r = NULL;
    struct err err;

    (void)state;
    for (int i = 0; i <= REGISTRY_MAX_DATASETS; i++)
        json_array_append_new(json_object_get(json, "datasets"), json_object());
    text = json_to_str(json);
    put("registry.json", text);
    snprintf(message, sizeof(message),
             "registry '%s': 'datasets' has 1001 members; the maximum is 1000",
             path_of("registry.json"));
    assert_fails(registry_load(dir, NULL, &r, &err), &err, ERR_VALIDATION, message);

    long_text = calloc(1, REGISTRY_MAX_BYTES + 2);
    memset(long_text, ' ', REGISTRY_MAX_BYTES + 1);
    put("registry.json", long_text);
    assert_int_equal(registry_load(dir, NULL, &r, &err), -ERR_TOO_LARGE);

    long_text[REGISTRY_MAX_TEXT + 1] = '\0';
    copy = json_pack("{s:s, s:[{s:s, s:s}]}", "version", "1.0", "datasets", "id", "s", "name",
                     long_text);
    free(text);
    text = json_to_str(copy);
    put("registry.json", text);
    snprintf(message, sizeof(message),
             "registry '%s': entry 1: dataset 's': 'name' is longer than 4096 bytes",
             path_of("registry.json"));
    assert_fails(registry_load(dir, NULL, &r, &err), &err, ERR_VALIDATION, message);
    assert_null(r);
}

static void test_no_directory(void **state)
{
    char message[ERR_MESSAGE_MAX];
    struct registry *r = NULL;
    struct err err;

    (void)state;
    snprintf(message, sizeof(message),
             "there is no directory '%s'; 'riddle datasets generate' makes it", path_of("none"));
    assert_fails(registry_load(path_of("none"), NULL, &r, &err), &err, ERR_NOT_FOUND, message);
    put("file", "");
    assert_int_equal(registry_load(path_of("file"), NULL, &r, &err), -ERR_IO);
    r = load(NULL); /* an empty one is fine */
    assert_int_equal(registry_count(r), 0);
    registry_unref(r);
}

/* ---- profiles ---- */

static const char profile_text[] =
    "{\"row_count\":3,\"columns\":["
    "{\"name\":\"kind\",\"type\":\"VARCHAR\",\"nulls\":1,\"distinct\":2,\"min\":\"a\",\"max\":\"b\","
    "\"top\":[{\"value\":\"b\",\"count\":1},{\"value\":\"a\",\"count\":1}]},"
    "{\"name\":\"x\",\"type\":\"DOUBLE\",\"nulls\":0,\"distinct\":3,\"min\":1.5,\"max\":9.0,\"mean\":4.5,\"top\":[]}],"
    "\"sample_rows\":[[\"a\",1.5],[null,9.0]]}";

static json_t *parse(const char *text)
{
    json_t *json = NULL;
    struct err err;

    assert_works(json_parse(text, strlen(text), &json, &err), &err);
    return json;
}

static void test_profile(void **state)
{
    auto_json json_t *profile = parse(profile_text), *schema = NULL, *again = NULL;
    struct registry *r, *next;
    const struct dataset *d;
    const json_t *file, *column;
    struct err err;

    (void)state;
    put("set/a.csv", "kind,x\na,1.5\n");
    put("declared/a.csv", "kind,x\na,1.5\n");
    put("registry.json",
        "{\"version\":\"1.0\",\"datasets\":[{\"id\":\"d\",\"name\":\"D\",\"files\":[{\"name\":\"a.csv\",\"path\":"
        "\"declared/a.csv\",\"schema\":{\"x\":{\"type\":\"integer\",\"description\":\"How much\"},"
        "\"gone\":{\"type\":\"string\"}}}]}]}");
    r = load(NULL);
    d = registry_find(r, "set");
    assert_works(registry_set_profile(r, d->files[0].sha256, profile, &err), &err);
    assert_int_equal(dataset_row_count(d), 3);

    schema = dataset_schema_json(d);
    file = json_array_get(json_object_get(schema, "files"), 0);
    assert_true(json_is_true(json_object_get(file, "profiled")));
    auto_json json_t *rows = parse("[{\"kind\":\"a\",\"x\":\"1.5\"},{\"kind\":\"\",\"x\":\"9.0\"}]");
    assert_true(json_equal(json_object_get(file, "sample_rows"), rows));
    column = json_object_get(json_object_get(file, "schema"), "kind");
    assert_string_equal(json_string_value(json_object_get(column, "type")), "string");
    assert_string_equal(json_string_value(json_object_get(column, "sql_type")), "VARCHAR");
    assert_true(json_is_true(json_object_get(column, "nullable")));
    assert_int_equal(json_array_size(json_object_get(column, "values")), 2);
    column = json_object_get(json_object_get(file, "schema"), "x");
    assert_string_equal(json_string_value(json_object_get(column, "type")), "float");
    assert_true(json_is_false(json_object_get(column, "nullable")));
    assert_null(json_object_get(column, "values"));
    assert_true(json_real_value(json_object_get(column, "mean")) == 4.5);

    /* The same contents elsewhere have the same profile, beside what is declared there. */
    json_decref(schema);
    schema = dataset_schema_json(registry_find(r, "d"));
    file = json_array_get(json_object_get(schema, "files"), 0);
    assert_int_equal(json_object_size(json_object_get(file, "schema")), 2);
    column = json_object_get(json_object_get(file, "schema"), "x");
    assert_string_equal(json_string_value(json_object_get(column, "type")), "integer");
    assert_string_equal(json_string_value(json_object_get(column, "description")), "How much");
    assert_string_equal(json_string_value(json_object_get(column, "sql_type")), "DOUBLE");

    put("set/a.csv", "kind,x\nb,2\n");
    next = load(r);
    registry_adopt_profiles(next, r);
    assert_null(registry_find(next, "set")->files[0].profile);
    assert_ptr_equal(registry_find(next, "d")->files[0].profile, profile);
    registry_unref(r);
    again = dataset_schema_json(registry_find(next, "d"));
    assert_true(json_equal(again, schema));
    registry_unref(next);
}

static void test_bad_profile(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "[]", "profile: it has no 'row_count' or 'columns'" },
        { "{\"row_count\":1}", "profile: it has no 'row_count' or 'columns'" },
        { "{\"row_count\":\"1\",\"columns\":[]}", "profile: it has no 'row_count' or 'columns'" },
        { "{\"row_count\":1,\"columns\":[{}]}", "profile: column 1 has no name or type" },
        { "{\"row_count\":1,\"columns\":[{\"name\":\"a\",\"type\":7}]}",
          "profile: column 1 has no name or type" },
        { "{\"row_count\":1,\"columns\":[],\"tables\":[{}]}", "profile: part 1 has no name" },
    };
    struct registry *r;
    struct err err;

    (void)state;
    put("set/a.csv", "x\n1\n");
    r = load(NULL);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        auto_json json_t *profile = parse(cases[i].text);

        assert_fails(registry_set_profile(r, registry_get(r, 0)->files[0].sha256, profile, &err),
                     &err, ERR_VALIDATION, cases[i].message);
    }
    auto_json json_t *good = parse(profile_text);
    assert_fails(registry_set_profile(r, "abc", good, &err), &err, ERR_NOT_FOUND,
                 "no file has the contents abc");
    assert_null(registry_get(r, 0)->files[0].profile);
    registry_unref(r);
}

static void test_names(void **state)
{
    char name[16];

    (void)state;
    dataset_safe_name("--a  b!!c--", "x", true, name, sizeof(name));
    assert_string_equal(name, "a_b_c");
    dataset_safe_name("7 days", "x", true, name, sizeof(name));
    assert_string_equal(name, "t_7_days");
    dataset_safe_name("7 days", "x", false, name, sizeof(name));
    assert_string_equal(name, "7_days");
    dataset_safe_name("é", "fallback", true, name, sizeof(name));
    assert_string_equal(name, "fallback");
    dataset_safe_name("a name that is much too long", "x", true, name, sizeof(name));
    assert_string_equal(name, "a_name_that_i");
    assert_true(dataset_is_id("2024-sales_x"));
    assert_false(dataset_is_id("-x"));
    assert_false(dataset_is_id("a.b"));
    assert_false(dataset_is_id(""));
    assert_string_equal(dataset_type_of("DECIMAL(18,3)"), "float");
    assert_string_equal(dataset_type_of("TIMESTAMP WITH TIME ZONE"), "datetime");
    assert_string_equal(dataset_type_of("TIME"), "time");
    assert_string_equal(dataset_type_of("INTEGER[]"), "other");
    assert_string_equal(dataset_type_of("INTERVAL"), "other");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bundled),
        TEST(test_version),
        TEST(test_hash_cache),
        TEST(test_references),
        TEST(test_dropped_folder),
        TEST(test_folder_beside_registry),
        TEST(test_bad_folders_are_noted),
        TEST(test_too_many_files),
        TEST(test_bad),
        TEST(test_limits),
        TEST(test_no_directory),
        TEST(test_profile),
        TEST(test_bad_profile),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
