/* What models write, and what it is taken for. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "agent/coerce.h"
#include "base/macros.h"
#include "shop.h"

#define QUERY                                                                                                                  \
    "{'type':'object','properties':{'sql':{'type':'string'},'max_rows':{'type':'integer'},'share':{'type':['number','null']}," \
    "'dry':{'type':'boolean'},'tables':{'type':'array'},'more':{'type':'object','properties':{'n':{'type':'integer'}}}},'required':['sql']}"

static void test_arguments(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want; /* want: JSON, or what the message has */
        bool fails;
    } cases[] = {
        { "{'sql':'S','max_rows':5}", "{'sql':'S','max_rows':5}", false },
        { "```json\n{'sql':'S'}\n```", "{'sql':'S'}", false },
        { "```\n{'sql':'S'}\n```", "{'sql':'S'}", false },
        { "Sure, here it is:\n```json\n{'sql':'S',}\n```\nDone.", "{'sql':'S'}", false },
        { "I will call {'sql':'S'}", "{'sql':'S'}", false },
        { "{'sql':'S','tables':['a','b',],}", "{'sql':'S','tables':['a','b']}", false },
        { "{'sql':'a,}b'}", "{'sql':'a,}b'}", false },
        { "{'sql':'a,}b',}", "{'sql':'a,}b'}", false },
        { "{'sql':'one\ntwo'}", "{'sql':'one\\u000atwo'}", false },
        /* strings that hold it */
        { "'S'", "{'sql':'S'}", false },
        { "'{\\'sql\\':\\'S\\'}'", "{'sql':'S'}", false },
        /* cut off */
        { "{'sql':'S','max_rows':5", "{'sql':'S'}", false },
        { "{'sql':'S'", "{'sql':'S'}", false },
        { "{'sql':'S','tables':['a','b']", "{'sql':'S','tables':['a','b']}", false },
        { "{'sql':'S','tables':['a','b'", "{'sql':'S'}", false },
        { "{'sql':'S','more':{'n':1}", "{'sql':'S','more':{'n':1}}", false },
        { "{'sql':'S','mo", "{'sql':'S'}", false },
        { "{'sql':'S',", "{'sql':'S'}", false },
        { "{'sql':'SELECT a FR", "cut off before 'sql'", true },
        { "{'max_rows':5,'sq", "cut off before 'sql'", true },
        { "{", "cut off before 'sql'", true },
        /* types */
        { "{'sql':'S','max_rows':'25','share':'0.5','dry':'true','tables':'[\\'a\\']','more':{'n':'3'}}",
          "{'sql':'S','max_rows':25,'share':0.5,'dry':true,'tables':['a'],'more':{'n':3}}", false },
        { "{'sql':'S','max_rows':25.0}", "{'sql':'S','max_rows':25}", false },
        { "{'sql':'S','max_rows':'many'}", "{'sql':'S','max_rows':'many'}", false },
        { "{'sql':'12'}", "{'sql':'12'}", false },
        { "{'arguments':{'sql':'S'}}", "{'sql':'S'}", false },
        /* not to be guessed */
        { "", "'sql' is required", true },
        { "{}", "'sql' is required", true },
        { "[1]", "not array", true },
        { "12", "not integer", true },
        { "SELECT 1", "no JSON object", true },
        { "{'sql':'S'} {'sql':'T'}", "more than one", true },
        { "{'sql':'S'}}", "{'sql':'S'}", false },
        { "{'sql':['S'}", "closes nothing", true },
        { "{'sql' 'S'}", "cannot be read", true },
        { "{'sql':'S','sql':'T'}", "cannot be read", true },
    };
    auto_json json_t *schema = json_of(QUERY);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = ERR_INIT;
        auto_json json_t *got = NULL;
        char text[512];
        snprintf(text, sizeof(text), "%s", cases[i].text);
        for (char *p = text; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        int r = coerce_object(text, strlen(text), schema, &got, &err);
        if (cases[i].fails) {
            if (r != -ERR_VALIDATION || !strstr(err.message, cases[i].want))
                fail_msg("%s: %d %s", cases[i].text, r, err.message);
            continue;
        }
        if (r < 0)
            fail_msg("%s: %s", cases[i].text, err.message);
        auto_json json_t *want = json_of(cases[i].want);
        if (!json_equal(got, want)) {
            auto_free char *shown = json_to_str(got);
            fail_msg("%s: %s", cases[i].text, shown);
        }
    }
    struct err err = ERR_INIT;
    auto_json json_t *empty = NULL;
    assert_int_equal(coerce_object("  ", 2, NULL, &empty, &err), 0);
    assert_int_equal(json_object_size(empty), 0);
    static char large[COERCE_MAX_BYTES + 2];
    memset(large, ' ', sizeof(large) - 1);
    assert_int_equal(coerce_object(large, sizeof(large) - 1, NULL, &empty, &err), -ERR_TOO_LARGE);
}

#define PLAN "{'table':'t','select':[{'column':'a'}]}"

static void test_drafts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
        bool fails;
    } cases[] = {
        { "{'query_mode':'plan','plan':" PLAN ",'assistant_message':'m'}",
          "{'mode':'plan','plan':" PLAN ",'message':'m'}", false },
        { "{'parsed':{'query_mode':'sql','sql':'SELECT 1'}}",
          "{'mode':'sql','sql':'SELECT 1','message':''}", false },
        { "{'output':{'mode':'python','python_code':'x = 1'}}",
          "{'mode':'python','python_code':'x = 1','message':''}", false },
        { "{'parsed':{'output':'{\\'mode\\':\\'sql\\',\\'sql\\':\\'S\\'}'}}",
          "{'mode':'sql','sql':'S','message':''}", false },
        { "{'query_mode':'chat','assistant_message':'hello'}", "{'mode':'chat','message':'hello'}",
          false },
        { "{'assistant_message':'hello'}", "{'mode':'chat','message':'hello'}", false },
        { PLAN, "{'mode':'plan','plan':" PLAN ",'message':''}", false },
        { "{'query_mode':'plan','plan':'{\\'table\\':\\'t\\'}'}",
          "{'mode':'plan','plan':{'table':'t'},'message':''}", false },
        { "{'query_mode':'plan','plan':null,'sql':'SELECT 1'}",
          "{'mode':'sql','sql':'SELECT 1','message':''}", false },
        { "{'sql':'```sql\nSELECT 1\n```'}", "{'mode':'sql','sql':'SELECT 1','message':''}",
          false },
        { "Here you are:\n```sql\nSELECT 1\n```\nIt counts.",
          "{'mode':'sql','sql':'SELECT 1','message':'Here you are:\\nIt counts.'}", false },
        { "```python\nresult = 1\n```", "{'mode':'python','python_code':'result = 1','message':''}",
          false },
        { "```\nselect 1\n```", "{'mode':'sql','sql':'select 1','message':''}", false },
        { "```json\n{'mode':'sql','sql':'S'}\n```", "{'mode':'sql','sql':'S','message':''}",
          false },
        { "SELECT 1", "{'mode':'sql','sql':'SELECT 1','message':''}", false },
        { "with a as (select 1) from a",
          "{'mode':'sql','sql':'with a as (select 1) from a','message':''}", false },
        { "{'query_mode':'sql','sql':'SELECT 1','assistant_message':'I cou",
          "{'mode':'sql','sql':'SELECT 1','message':''}", false },
        /* not to be guessed */
        { "", "empty", true },
        { "I cannot do that.", "neither JSON", true },
        { "With pleasure!", "neither JSON", true },
        { "Select a city first, please", "neither JSON", true },
        { "```sql\nSELECT 1\n```\nor\n```sql\nSELECT 2\n```", "2 blocks", true },
        { "```sql\nSELECT 1", "cut off", true },
        { "{'query_mode':'sql','sql':'SELECT", "cut off", true },
        { "{'query_mode':'plan'}", "needs 'plan'", true },
        { "{'query_mode':'sql','sql':'  '}", "needs 'sql'", true },
        { "{'query_mode':'chat'}", "assistant_message", true },
        { "{'query_mode':'dance','sql':'S'}", "'dance'", true },
        { "{'sql':'S','python_code':'x'}", "which of plan", true },
        { "{'a':1}", "none of plan", true },
        { "[1]", "not array", true },
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err err = ERR_INIT;
        auto_json json_t *got = NULL;
        char text[512];
        snprintf(text, sizeof(text), "%s", cases[i].text);
        for (char *p = text; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        int r = coerce_draft(text, strlen(text), &got, &err);
        if (cases[i].fails) {
            if (r != -ERR_VALIDATION || !strstr(err.message, cases[i].want))
                fail_msg("%s: %d %s", cases[i].text, r, err.message);
            continue;
        }
        if (r < 0)
            fail_msg("%s: %s", cases[i].text, err.message);
        auto_json json_t *want = json_of(cases[i].want);
        if (!json_equal(got, want)) {
            auto_free char *shown = json_to_str(got);
            fail_msg("%s: %s", cases[i].text, shown);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_arguments),
                                        cmocka_unit_test(test_drafts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
