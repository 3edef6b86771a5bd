/*
 * The functions that a user's SQL may call, by theme. A name that is not here is refused, so a new version of DuckDB brings
 * no new door. Left out on purpose: what reads files (read_*, glob, parquet_*, sniff_csv), settings and variables
 * (current_setting, getvariable), sequences (nextval, currval), catalogs and privileges (duckdb_*, pg_*, has_*_privilege,
 * in_search_path), SQL inside SQL (query, query_table, json_execute_serialized_sql, json_serialize_sql), logs, users, network
 * addresses, and DuckDB's internal helpers (__internal_*, create_sort_key, stats, vector_type, icu_collate_*).
 *
 * Each list is sorted by strcmp() and searched by halves; a unit test checks the order.
 */

#include "plan/sql_functions.h"

#include <string.h>
#include "base/macros.h"

/* Operators, which the parser writes as functions. */
static const char *const operators[] = {
    "!__postfix", "!~~", "!~~*", "%", "&", "&&", "*", "**", "+", "-", "->", "->>", "/", "//", "<->",
    "<<", "<=>", "<@", ">>", "@", "@>", "^", "^@", "|", "||", "~", "~~", "~~*", "~~~",
};

/* Numbers and bits. */
static const char *const arithmetic[] = {
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bit_count",
    "bit_position", "bitstring", "cbrt", "ceil", "ceiling", "cos", "cosh", "cot", "degrees",
    "divide", "even", "exp", "factorial", "fdiv", "floor", "fmod", "gamma", "gcd", "get_bit",
    "greatest", "greatest_common_divisor", "isfinite", "isinf", "isnan", "lcm", "least",
    "least_common_multiple", "lgamma", "ln", "log", "log10", "log2", "mod", "multiply", "nextafter",
    "pi", "pow", "power", "radians", "random", "round", "round_even", "roundbankers", "set_bit",
    "setseed", "sign", "signbit", "sin", "sinh", "sqrt", "subtract", "tan", "tanh", "trunc", "xor",
};

/* Text, patterns, encodings and bytes. parse_path() and its kin take a path apart as text; they open nothing. */
static const char *const texts[] = {
    "ascii", "bar", "base64", "bin", "bit_length", "char_length", "character_length", "chr",
    "concat", "concat_ws", "contains", "damerau_levenshtein", "decode", "editdist3", "encode",
    "ends_with", "format", "format_bytes", "formatreadabledecimalsize", "formatreadablesize",
    "from_base64", "from_binary", "from_hex", "hamming", "hex", "ilike_escape", "instr", "jaccard",
    "jaro_similarity", "jaro_winkler_similarity", "lcase", "left", "left_grapheme", "length",
    "length_grapheme", "levenshtein", "like_escape", "lower", "lpad", "ltrim", "mismatches",
    "nfc_normalize", "not_ilike_escape", "not_like_escape", "octet_length", "ord", "parse_dirname",
    "parse_dirpath", "parse_filename", "parse_path", "pg_size_pretty", "position", "prefix",
    "printf", "regexp_escape", "regexp_extract", "regexp_extract_all", "regexp_full_match",
    "regexp_matches", "regexp_replace", "regexp_split_to_array", "regexp_split_to_table", "repeat",
    "replace", "reverse", "right", "right_grapheme", "rpad", "rtrim", "split", "split_part",
    "starts_with", "str_split", "str_split_regex", "string_split", "string_split_regex",
    "string_to_array", "strip_accents", "strlen", "strpos", "substr", "substring",
    "substring_grapheme", "suffix", "to_base", "to_base64", "to_binary", "to_hex", "translate",
    "trim", "ucase", "unbin", "unhex", "unicode", "upper", "url_decode", "url_encode",
};

/* Dates, times and intervals. */
static const char *const times[] = {
    "age", "century", "current_date", "current_localtime", "current_localtimestamp", "date_add",
    "date_diff", "date_part", "date_sub", "date_trunc", "datediff", "datepart", "datesub",
    "datetrunc", "day", "dayname", "dayofmonth", "dayofweek", "dayofyear", "decade", "epoch",
    "epoch_ms", "epoch_ns", "epoch_us", "era", "get_current_time", "get_current_timestamp", "hour",
    "isodow", "isoyear", "julian", "last_day", "make_date", "make_time", "make_timestamp",
    "make_timestamp_ms", "make_timestamp_ns", "make_timestamptz", "microsecond", "millennium",
    "millisecond", "minute", "month", "monthname", "nanosecond", "normalized_interval", "now",
    "quarter", "second", "strftime", "strptime", "time_bucket", "timezone", "timezone_hour",
    "timezone_minute", "to_centuries", "to_days", "to_decades", "to_hours", "to_microseconds",
    "to_millennia", "to_milliseconds", "to_minutes", "to_months", "to_quarters", "to_seconds",
    "to_timestamp", "to_weeks", "to_years", "today", "transaction_timestamp", "try_strptime",
    "week", "weekday", "weekofyear", "year", "yearweek",
};

/* Aggregates and statistics. */
static const char *const aggregates[] = {
    "any_value", "approx_count_distinct", "approx_quantile", "approx_top_k", "arbitrary", "arg_max",
    "arg_max_null", "arg_min", "arg_min_null", "argmax", "argmin", "array_agg", "avg", "bit_and",
    "bit_or", "bit_xor", "bitstring_agg", "bool_and", "bool_or", "corr", "count", "count_if",
    "count_star", "countif", "covar_pop", "covar_samp", "entropy", "equi_width_bins", "favg",
    "first", "fsum", "geomean", "geometric_mean", "group_concat", "grouping", "grouping_id",
    "histogram", "histogram_exact", "is_histogram_other_bin", "kahan_sum", "kurtosis",
    "kurtosis_pop", "last", "listagg", "mad", "max", "max_by", "mean", "median", "min", "min_by",
    "mode", "percentile_cont", "percentile_disc", "product", "quantile", "quantile_cont",
    "quantile_disc", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2",
    "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "reservoir_quantile", "sem", "skewness",
    "stddev", "stddev_pop", "stddev_samp", "string_agg", "sum", "sumkahan", "var_pop", "var_samp",
    "variance", "wavg", "weighted_avg",
};

/* Window functions. */
static const char *const windows[] = {
    "cume_dist", "dense_rank", "fill", "first_value", "lag", "last_value", "lead", "nth_value",
    "ntile", "percent_rank", "rank", "rank_dense", "row_number",
};

/* Lists, maps, structs, unions, lambdas over lists, and series. */
static const char *const nested[] = {
    "aggregate", "apply", "array_aggr", "array_aggregate", "array_append", "array_apply",
    "array_cat", "array_concat", "array_contains", "array_cosine_distance",
    "array_cosine_similarity", "array_cross_product", "array_distance", "array_distinct",
    "array_dot_product", "array_extract", "array_filter", "array_grade_up", "array_has",
    "array_has_all", "array_has_any", "array_indexof", "array_inner_product", "array_intersect",
    "array_length", "array_negative_dot_product", "array_negative_inner_product", "array_pop_back",
    "array_pop_front", "array_position", "array_prepend", "array_push_back", "array_push_front",
    "array_reduce", "array_resize", "array_reverse", "array_reverse_sort", "array_select",
    "array_slice", "array_sort", "array_to_string", "array_transform", "array_unique",
    "array_value", "array_where", "array_zip", "cardinality", "element_at", "filter", "flatten",
    "generate_series", "generate_subscripts", "grade_up", "len", "list", "list_aggr",
    "list_aggregate", "list_any_value", "list_append", "list_apply", "list_approx_count_distinct",
    "list_avg", "list_bit_and", "list_bit_or", "list_bit_xor", "list_bool_and", "list_bool_or",
    "list_cat", "list_concat", "list_contains", "list_cosine_distance", "list_cosine_similarity",
    "list_count", "list_distance", "list_distinct", "list_dot_product", "list_element",
    "list_entropy", "list_extract", "list_filter", "list_first", "list_grade_up", "list_has",
    "list_has_all", "list_has_any", "list_histogram", "list_indexof", "list_inner_product",
    "list_intersect", "list_kurtosis", "list_kurtosis_pop", "list_last", "list_mad", "list_max",
    "list_median", "list_min", "list_mode", "list_negative_dot_product",
    "list_negative_inner_product", "list_pack", "list_position", "list_prepend", "list_product",
    "list_reduce", "list_resize", "list_reverse", "list_reverse_sort", "list_select", "list_sem",
    "list_skewness", "list_slice", "list_sort", "list_stddev_pop", "list_stddev_samp",
    "list_string_agg", "list_sum", "list_transform", "list_unique", "list_value", "list_var_pop",
    "list_var_samp", "list_where", "list_zip", "map", "map_concat", "map_contains",
    "map_contains_entry", "map_contains_value", "map_entries", "map_extract", "map_extract_value",
    "map_from_entries", "map_keys", "map_values", "range", "reduce", "row", "struct_concat",
    "struct_contains", "struct_extract", "struct_extract_at", "struct_has", "struct_indexof",
    "struct_insert", "struct_pack", "struct_position", "struct_update", "union_extract",
    "union_tag", "union_value", "unnest", "unpivot_list", "variant_extract", "variant_typeof",
};

/* JSON values. The functions that parse or run SQL are not here. */
static const char *const json[] = {
    "array_to_json", "from_json", "from_json_strict", "json", "json_array", "json_array_length",
    "json_contains", "json_exists", "json_extract", "json_extract_path", "json_extract_path_text",
    "json_extract_string", "json_group_array", "json_group_object", "json_group_structure",
    "json_keys", "json_merge_patch", "json_object", "json_pretty", "json_quote", "json_structure",
    "json_transform", "json_transform_strict", "json_type", "json_valid", "json_value",
    "row_to_json", "to_json",
};

/* Conditionals, types, enums, hashes, identifiers. */
static const char *const general[] = {
    "alias", "any", "coalesce", "current_database", "current_schema", "enum_code", "enum_first",
    "enum_last", "enum_range", "enum_range_boundary", "error", "gen_random_uuid", "hash", "if",
    "ifnull", "md5", "md5_number", "not", "nullif", "pg_typeof", "sha1", "sha256", "typeof", "uuid",
    "uuid_extract_timestamp", "uuid_extract_version", "uuidv4", "uuidv7", "version",
};

/* Functions that stand in FROM and make rows out of nothing but their arguments. */
static const char *const tables[] = {
    "generate_series", "range", "repeat", "unnest",
};

const struct sql_function_group sql_function_groups[] = {
    { "operators", operators, ARRAY_SIZE(operators) },
    { "arithmetic", arithmetic, ARRAY_SIZE(arithmetic) },
    { "texts", texts, ARRAY_SIZE(texts) },
    { "times", times, ARRAY_SIZE(times) },
    { "aggregates", aggregates, ARRAY_SIZE(aggregates) },
    { "windows", windows, ARRAY_SIZE(windows) },
    { "nested", nested, ARRAY_SIZE(nested) },
    { "json", json, ARRAY_SIZE(json) },
    { "general", general, ARRAY_SIZE(general) },
};
const size_t sql_n_function_groups = ARRAY_SIZE(sql_function_groups);

const struct sql_function_group sql_table_functions = { "tables", tables, ARRAY_SIZE(tables) };

bool sql_function_in(const struct sql_function_group *group, const char *name)
{
    size_t low = 0, high = group->n_names;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(name, group->names[mid]);

        if (order == 0)
            return true;
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return false;
}

bool sql_function_is_allowed(const char *name)
{
    for (size_t i = 0; i < sql_n_function_groups; i++) {
        if (sql_function_in(&sql_function_groups[i], name))
            return true;
    }
    return false;
}
