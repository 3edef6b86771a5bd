/* Results of cells: which value is taken, as which table, as which JSON; figures and display(). */

#include "python_check.h"

/* ---- which value ---- */

static void test_order(void **state)
{
    (void)state;
    check_table("1 + 1", "[\"value\"]", "[[2]]");
    check_table("__result__ = 3\n4", "[\"value\"]", "[[3]]");
    check_table("result = 5\n__result__ = 6", "[\"value\"]", "[[5]]");
    check_table("result_rows = [[1, 2]]\nresult = 5", "[\"col_1\",\"col_2\"]", "[[1,2]]");
    check_table("result_rows = [[1, 2], [3, 4]]\nresult_columns = ['a', 'b']", "[\"a\",\"b\"]",
                "[[1,2],[3,4]]");
    check_table("result_df = pd.DataFrame({'x': [7]})\nresult_rows = [[1]]", "[\"x\"]", "[[7]]");
    /* None is no result: the next one counts. */
    check_table("result = None\n8", "[\"value\"]", "[[8]]");
}

static void test_only_this_cell(void **state)
{
    (void)state;
    check_ok("result = 1");
    auto_json json_t *r = run("x = result");
    assert_true(json_is_false(json_object_get(r, "has_result")));
    check_json(r, "rows", "[]");
    check_table("result + 1", "[\"value\"]", "[[2]]");
    /* Bound again to the very same object. */
    check_table("result = 1", "[\"value\"]", "[[1]]");
    check_table("if True:\n    result = 2", "[\"value\"]", "[[2]]");
    auto_json json_t *not_run = run("if False:\n    result = 3");
    assert_true(json_is_false(json_object_get(not_run, "has_result")));
    /* Not by name. */
    check_table("globals()['result'] = 77", "[\"value\"]", "[[77]]");
    /* Columns of an earlier cell are not those of this one. */
    check_ok("result_rows = [[1]]\nresult_columns = ['a']");
    check_table("result_rows = [[2]]", "[\"col_1\"]", "[[2]]");
}

static void test_none(void **state)
{
    (void)state;
    const char *cells[] = { "x = 1", "None", "5;", "# nothing", "print(end='')" };
    for (size_t i = 0; i < ARRAY_SIZE(cells); i++) {
        auto_json json_t *r = run(cells[i]);
        check_json(r, "verdict", "\"ok\"");
        assert_true(json_is_false(json_object_get(r, "has_result")));
        check_json(r, "columns", "[]");
        check_json(r, "value", "null");
    }
}

static void test_wrong_kinds(void **state)
{
    (void)state;
    check_failure(run("result_df = [1]"), "error", "PYTHON_EXECUTION_ERROR",
                  "result_df must be a pandas DataFrame, not list");
    check_failure(run("result_rows = 5"), "error", "PYTHON_EXECUTION_ERROR",
                  "result_rows must be a list of rows, not int");
    check_failure(run("result_rows = [[1]]\nresult_columns = 'a'"), "error",
                  "PYTHON_EXECUTION_ERROR", "result_columns must be a list of names, not str");
}

/* ---- as which table ---- */

static void test_shapes(void **state)
{
    (void)state;
    check_table("result = {'a': 1, 'b': [2]}", "[\"key\",\"value\"]", "[[\"a\",1],[\"b\",[2]]]");
    check_table("result = [[1, 2], (3,)]", "[\"col_1\",\"col_2\"]", "[[1,2],[3,null]]");
    check_table("result = [{'a': 1}, {'b': 2, 'a': 3}]", "[\"a\",\"b\"]", "[[1,null],[3,2]]");
    check_table("result = [1, 'x', None]", "[\"value\"]", "[[1],[\"x\"],[null]]");
    check_table("result = []", "[\"value\"]", "[]");
    check_table("result = {3, 1}", "[\"value\"]", "[[1],[3]]");
    check_table("np.array([1.5, np.nan])", "[\"value\"]", "[[1.5],[null]]");
    check_table("np.array([[1, 2], [3, 4]])", "[\"col_1\",\"col_2\"]", "[[1,2],[3,4]]");
    check_table("np.array(5)", "[\"value\"]", "[[5]]");
    check_table("np.array([(1, 'x')], dtype=[('a', 'i4'), ('b', 'U3')])", "[\"a\",\"b\"]",
                "[[1,\"x\"]]");
    check_table("pd.Index(['p', 'q'], name='k')", "[\"k\"]", "[[\"p\"],[\"q\"]]");
    check_table("pd.DataFrame()", "[]", "[]");
}

static void test_indexes(void **state)
{
    (void)state;
    check_ok("df = pd.DataFrame({'k': ['a', 'b', 'a'], 'n': [1, 2, 3]})");
    check_table("df", "[\"k\",\"n\"]", "[[\"a\",1],[\"b\",2],[\"a\",3]]");
    check_table("df.groupby('k').sum()", "[\"k\",\"n\"]", "[[\"a\",4],[\"b\",2]]");
    check_table("df.groupby('k')['n'].sum()", "[\"k\",\"n\"]", "[[\"a\",4],[\"b\",2]]");
    check_table("df.set_index(['k', 'n']).assign(z=0)", "[\"k\",\"n\",\"z\"]",
                "[[\"a\",1,0],[\"b\",2,0],[\"a\",3,0]]");
    check_table("pd.DataFrame({'v': [1]}, index=['r'])", "[\"index\",\"v\"]", "[[\"r\",1]]");
    check_table("df['k'].value_counts().rename('k').rename_axis(None)", "[\"index\",\"k\"]",
                "[[\"a\",2],[\"b\",1]]");
    check_table("pd.Series([5, 5, 7]).value_counts().rename(None)", "[\"index\",\"value\"]",
                "[[5,2],[7,1]]");
    /* Row numbers that a filter or a sort has left over are no data. */
    check_table("df[df.n > 1]", "[\"k\",\"n\"]", "[[\"b\",2],[\"a\",3]]");
    check_table("df.groupby('k').agg({'n': ['min', 'max']})", "[\"k\",\"n_min\",\"n_max\"]",
                "[[\"a\",1,3],[\"b\",2,2]]");
    check_table("pd.DataFrame([[1, 2]], columns=['a', 'a'])", "[\"a\",\"a\"]", "[[1,2]]");
    check_table("pd.DataFrame([[1]], columns=[2024])", "[\"2024\"]", "[[1]]");
}

static void test_types(void **state)
{
    (void)state;
    auto_json json_t *r = run(
        "pd.DataFrame({'i': [1], 'f': [1.5], 's': ['x'], 'b': [True], 'd': pd.to_datetime(['2024-01-02']),"
        " 'c': pd.Categorical(['q']), 'n': pd.array([1], dtype='Int64')})");
    check_json(
        r, "types",
        "[\"int64\",\"float64\",\"object\",\"bool\",\"datetime64[ns]\",\"category\",\"Int64\"]");
    check_json(r, "rows", "[[1,1.5,\"x\",true,\"2024-01-02 00:00:00\",\"q\",1]]");
    auto_json json_t *list = run("[[1, 'x', 2.5, True, None], [2, 'y', 3, False, None]]");
    check_json(list, "types", "[\"int64\",\"str\",\"float64\",\"bool\",\"object\"]");
}

/* ---- as which JSON ---- */

static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *expr, *json;
    } cases[] = {
        { "float('nan')", "null" },
        { "float('-inf')", "null" },
        { "pd.NaT", "null" },
        { "pd.NA", "null" },
        { "np.float32('inf')", "null" },
        { "np.datetime64('NaT')", "null" },
        { "0.1", "0.1" },
        { "2**63 - 1", "9223372036854775807" },
        { "-2**63", "-9223372036854775808" },
        { "2**63", "\"9223372036854775808\"" },
        { "np.int64(2**63 - 1)", "9223372036854775807" },
        { "np.uint64(2**64 - 1)", "\"18446744073709551615\"" },
        { "np.uint8(7)", "7" },
        { "np.bool_(True)", "true" },
        { "True", "true" },
        { "__import__('decimal').Decimal('1.10')", "\"1.10\"" },
        { "__import__('fractions').Fraction(1, 3)", "\"1/3\"" },
        { "pd.Timestamp('2024-01-02 03:04:05')", "\"2024-01-02 03:04:05\"" },
        { "pd.Timestamp('2024-01-02', tz='UTC')", "\"2024-01-02 00:00:00+00:00\"" },
        { "np.datetime64('2024-01-02')", "\"2024-01-02 00:00:00\"" },
        { "__import__('datetime').datetime(2024, 1, 2, 3)", "\"2024-01-02 03:00:00\"" },
        { "__import__('datetime').date(2024, 1, 2)", "\"2024-01-02\"" },
        { "__import__('datetime').time(3, 4)", "\"03:04:00\"" },
        { "pd.Timedelta(days=1)", "\"1 days 00:00:00\"" },
        { "np.timedelta64(1, 'D')", "\"1 days 00:00:00\"" },
        { "__import__('datetime').timedelta(hours=1)", "\"1:00:00\"" },
        { "pd.Period('2024-01')", "\"2024-01\"" },
        { "pd.Interval(0, 1)", "\"(0, 1]\"" },
        { "pd.Categorical(['a', None])", "[\"a\",null]" },
        { "1 + 2j", "\"(1+2j)\"" },
        { "b'\\x00\\xff'", "\"AP8=\"" },
        { "{'a': {1, 2}, 3: (4, float('nan'))}", "{\"a\":[1,2],\"3\":[4,null]}" },
        { "{1: 'x', '1': 'y'}", "{\"1\":\"y\"}" },
        { "{'a\\0': 1, 'a\\ufffd': 2}", "{\"a\xef\xbf\xbd\":2}" },
        { "np.array([[1, 2], [3, 4]])", "[[1,2],[3,4]]" },
        { "np.array(['2024-01-01', 'NaT'], dtype='M8[D]')", "[\"2024-01-01 00:00:00\",null]" },
        { "pd.Series([1, None])", "[1.0,null]" },
        { "pd.DataFrame({'a': [1]})", "[{\"a\":1}]" },
        { "'\\ud800 \\x00 \\\\u0000'", "\"\xef\xbf\xbd \xef\xbf\xbd \\\\u0000\"" },
        { "type('T', (), {'__str__': lambda s: 'mine'})()", "\"mine\"" },
        { "type('T', (), {'__str__': lambda s: 1 / 0})()",
          "\"<T object: str() failed with ZeroDivisionError>\"" },
        { "__import__('enum').IntEnum('E', 'A')['A']", "1" },
        { "range(3)", "[0,1,2]" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char code[400], rows[400];
        snprintf(code, sizeof(code), "result = [{'v': %s}]", cases[i].expr);
        snprintf(rows, sizeof(rows), "[[%s]]", cases[i].json);
        check_table(code, "[\"v\"]", rows);
    }
}

static void test_columns_of_frames(void **state)
{
    (void)state;
    check_table(
        "pd.DataFrame({'f': [1.5, np.inf], 'u': np.array([1, 2**64 - 1], dtype='uint64'),"
        " 'i': pd.array([1, None], dtype='Int64'), 'd': pd.to_datetime(['2024-01-01', None])})",
        "[\"f\",\"u\",\"i\",\"d\"]",
        "[[1.5,1,1,\"2024-01-01 00:00:00\"],[null,\"18446744073709551615\",null,null]]");
    check_table(
        "pd.DataFrame({'p': pd.period_range('2024-01', periods=1, freq='M'), 't': [pd.Timedelta(1, 'h')],"
        " 's': pd.array(['x'], dtype='string'), 'b': pd.array([None], dtype='boolean'), 'o': [[1, {'a': None}]]})",
        "[\"p\",\"t\",\"s\",\"b\",\"o\"]",
        "[[\"2024-01\",\"0 days 01:00:00\",\"x\",null,[1,{\"a\":null}]]]");
}

static void test_hostile_values(void **state)
{
    (void)state;
    /* Each would be endless, too deep or too long if it were simply written. */
    check_ok("a = []\na.append(a)\na");
    check_ok("a = []\nfor _ in range(60):\n    a = [a, a]\na");
    check_ok("a = {}\nfor _ in range(3000):\n    a = {'a': a}\na");
    check_ok("[0] * 3_000_000");
    check_ok("10 ** 5000");
    check_ok("class R:\n    def __repr__(self):\n        raise ValueError\nR()");
    check_ok("class S(str):\n    pass\nS('x')");
    check_failure(
        run("class X(dict):\n    def items(self):\n        raise KeyError('mine')\nresult = [X(a=1), 2]"),
        "error", "PYTHON_EXECUTION_ERROR", "KeyError: 'mine' (line 3)");
    auto_json json_t *r = run("'y' * 10_000_000");
    check_json(r, "row_count", "0");
    assert_true(json_is_true(json_object_get(r, "truncated")));
    assert_in_range(strlen(text_at(json_object_get(r, "value"), "text")), 60000, 65600);
}

static void test_truncation(void **state)
{
    (void)state;
    auto_json json_t *all = run_how("list(range(5))", (struct cell){ .max_rows = 5 });
    assert_true(json_is_false(json_object_get(all, "truncated")));
    auto_json json_t *some = run_how("pd.DataFrame({'a': range(1000)})",
                                     (struct cell){ .max_rows = 3 });
    check_json(some, "rows", "[[0],[1],[2]]");
    check_json(some, "row_count", "3");
    assert_true(json_is_true(json_object_get(some, "truncated")));
    /* [[0],[1],[2]] is 13 bytes. */
    auto_json json_t *fits = run_how("[0, 1, 2]", (struct cell){ .max_bytes = 13 });
    check_json(fits, "row_count", "3");
    assert_true(json_is_false(json_object_get(fits, "truncated")));
    auto_json json_t *tight = run_how("[0, 1, 2]", (struct cell){ .max_bytes = 12 });
    check_json(tight, "rows", "[[0],[1]]");
    assert_true(json_is_true(json_object_get(tight, "truncated")));
    /* Bytes, not characters. */
    auto_json json_t *wide = run_how("['\\u20ac', 'x']", (struct cell){ .max_bytes = 9 });
    check_json(wide, "row_count", "1");
    /* Only what is shown is converted. */
    check_ok(
        "class Count:\n    n = 0\n    def __str__(self):\n        Count.n += 1\n        return 'c'\n"
        "result = [Count() for _ in range(5000)]");
    check_table("Count.n", "[\"value\"]", "[[200]]");
}

static void test_value(void **state)
{
    (void)state;
    auto_json json_t *r = run("'x'");
    check_json(r, "value", "{\"text\":\"'x'\"}");
    auto_json json_t *df = run("pd.DataFrame({'a': ['<b>']})");
    const json_t *value = json_object_get(df, "value");
    assert_string_equal(text_at(value, "text"), "     a\n0  <b>");
    assert_non_null(strstr(text_at(value, "html"), "<td>&lt;b&gt;</td>"));
    auto_json json_t *large = run("pd.DataFrame({'a': range(51)})");
    assert_null(json_object_get(json_object_get(large, "value"), "html"));
    auto_json json_t *named = run("result = 5");
    check_json(named, "value", "null");
}

/* ---- figures and display() ---- */

static const json_t *event_data(size_t i)
{
    const json_t *event = json_array_get(events, i);
    return event;
}

static void check_png(size_t i)
{
    assert_true(str_starts(text_at(event_data(i), "png"), "iVBORw0KGgo"));
}

static void test_figures(void **state)
{
    (void)state;
    check_ok("import matplotlib.pyplot as plt\nplt.plot([1, 2]);");
    assert_int_equal(json_array_size(events), 1);
    check_png(0);
    assert_string_equal(text_at(event_data(0), "text"), "<Figure 640x480>");
    assert_null(json_object_get(event_data(0), "svg"));
    check_table("plt.get_fignums()", "[\"value\"]", "[]");

    /* What plotting calls return is no result. */
    auto_json json_t *hist = run("plt.hist([1, 2])");
    check_json(hist, "has_result", "false");
    check_json(hist, "value", "null");
    check_png(0);

    auto_json json_t *svg = run_how("plt.plot([1])", (struct cell){ .svg = true });
    check_json(svg, "verdict", "\"ok\"");
    check_png(0);
    assert_non_null(strstr(text_at(event_data(0), "svg"), "<svg"));

    check_ok("plt.plot([1])\nplt.show()\nplt.figure(figsize=(2, 1))\nplt.show()\nplt.show()");
    assert_int_equal(json_array_size(events), 2);
    assert_string_equal(text_at(event_data(1), "text"), "<Figure 200x100>");

    check_failure(run("plt.plot([1])\n1 / 0"), "error", "PYTHON_EXECUTION_ERROR",
                  "ZeroDivisionError: division by zero (line 2)");
    assert_int_equal(json_array_size(events), 1);
    check_png(0);
}

static void test_figure_limits(void **state)
{
    (void)state;
    check_ok("import matplotlib.pyplot as plt, warnings\nwarnings.simplefilter('ignore')\n"
             "for i in range(22):\n    plt.figure(figsize=(1, 1))");
    assert_int_equal(json_array_size(events), 20);
    /* One that cannot be drawn does not take the others with it. */
    check_ok(
        "plt.figure(figsize=(1, 1)).text(0, 0, '$\\\\nonsense$')\nplt.figure(figsize=(1, 1));");
    assert_int_equal(json_array_size(events), 1);
    check_table("plt.get_fignums()", "[\"value\"]", "[]");
}

static void test_display(void **state)
{
    (void)state;
    check_ok("display(pd.DataFrame({'a': [1]}), 'x')");
    assert_int_equal(json_array_size(events), 2);
    assert_non_null(strstr(text_at(event_data(0), "html"), "<td>1</td>"));
    assert_string_equal(text_at(event_data(1), "text"), "'x'");
    check_ok(
        "class Rich:\n    def _repr_svg_(self): return '<svg/>'\n    def _repr_png_(self): return b'png'\n"
        "    def _repr_json_(self): return {'n': float('nan')}\n    def _repr_html_(self): return '<i>'\n"
        "    def __repr__(self): return 'rich'\ndisplay(Rich())");
    auto_json json_t *whole = json_pack("{s:O}", "data", event_data(0));
    check_json(
        whole, "data",
        "{\"text\":\"rich\",\"html\":\"<i>\",\"svg\":\"<svg/>\",\"png\":\"cG5n\",\"json\":{\"n\":null}}");
    check_ok("class Bad:\n    def _repr_html_(self): 1 / 0\ndisplay(Bad(), Bad)");
    assert_int_equal(json_array_size(events), 2);
    assert_null(json_object_get(event_data(0), "html"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_only_this_cell),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_wrong_kinds),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_indexes),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_columns_of_frames),
        cmocka_unit_test(test_hostile_values),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_value),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_figure_limits),
        cmocka_unit_test(test_display),
    };
    return cmocka_run_group_tests(tests, start_python, stop_python);
}
