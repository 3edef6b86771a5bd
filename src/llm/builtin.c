/*
 * No model at all: the planner of src/nl answers. It has a place among the providers, and nothing
 * to call.
 */

#include "llm/llm_impl.h"

static int configure(const struct config *cfg, struct llm_target *ret, struct err *err)
{
    (void)cfg;
    *ret = (struct llm_target){ .key_setting = "", .url_setting = "", .model_setting = "" };
    return llm_target_fill(ret, "", "", llm_join_url("", "", ""), err);
}

const struct llm_provider llm_builtin = {
    .name = "builtin",
    .configure = configure,
};
