/* `riddle thread|sandbox fork|checkpoint|checkpoints|rollback`. */

#include "cli/branches.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/fdio.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/table.h"

#define PATH_MAX_BYTES 8192u

static const char *const actions[] = { "fork", "checkpoint", "checkpoints", "rollback" };

bool branches_knows(const char *action)
{
    for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
        if (str_eq(action, actions[i]))
            return true;
    return false;
}

static int call(const struct remote *to, bool is_sandbox, const char *id, const char *action,
                const json_t *body, json_t **ret, struct err *err)
{
    auto_buf struct buf path = BUF_INIT(PATH_MAX_BYTES);
    int r = buf_append_str(&path, is_sandbox ? "/sandbox/" : "/thread/", err);
    if (r == 0)
        r = remote_append_coded(&path, id, false, err);
    if (r == 0)
        r = buf_printf(&path, err, "/%s", action);
    return r < 0 ? r :
                   remote_call_json(to, str_eq(action, "checkpoints") ? "GET" : "POST",
                                    buf_cstr(&path), body, ret, err);
}

/* Text of a server, shown on a terminal. */
static void note(const char *before, const char *text)
{
    char shown[STR_SHOWN_SIZE];
    cli_complain("%s%s", before, str_show(text, strlen(text), shown, sizeof(shown)));
}

static int print_list(const json_t *checkpoints, struct err *err)
{
    auto_buf struct buf out = BUF_INIT(REMOTE_ANSWER_MAX_BYTES);
    auto_json json_t *rows = json_array();
    auto_json json_t *columns = json_pack("[s, s, s, s]", "id", "name", "made", "bytes");
    auto_json json_t *types = json_pack("[s, s, s, s]", "VARCHAR", "VARCHAR", "VARCHAR", "BIGINT");
    struct table_style style;
    const json_t *c;
    size_t i;
    json_array_foreach(checkpoints, i, c)
        json_array_append_new(rows, json_pack("[s, s, s, I]", remote_text(c, "checkpoint_id"),
                                              remote_text(c, "name"), remote_text(c, "created_at"),
                                              json_integer_value(json_object_get(c, "bytes"))));
    table_style_for(STDOUT_FILENO, &style);
    int r = table_render(columns, types, rows, &style, &out, err);
    return r < 0 ? r : fd_write_all(STDOUT_FILENO, buf_cstr(&out), out.len, err);
}

static int roll_back(const struct remote *to, bool is_sandbox, const char *id, const char *back_to,
                     struct err *err)
{
    auto_json json_t *list = NULL, *answer = NULL;
    int r = 0;
    if (!back_to) {
        r = call(to, is_sandbox, id, "checkpoints", NULL, &list, err);
        const json_t *all = json_object_get(list, "checkpoints");
        if (r == 0 && json_array_size(all) == 0)
            r = err_set(err, ERR_NOT_FOUND, "it has no checkpoint");
        if (r == 0)
            back_to = remote_text(json_array_get(all, json_array_size(all) - 1), "checkpoint_id");
    }
    if (r < 0)
        return r;
    auto_json json_t *body = json_pack("{s:s}", "checkpoint", back_to);
    r = call(to, is_sandbox, id, "rollback", body, &answer, err);
    if (r < 0)
        return r;
    const char *name = remote_text(answer, "name");
    char shown[STR_SHOWN_SIZE];
    printf("%s: back at %s%s%s\n", id, back_to, *name ? " " : "",
           str_show(name, strlen(name), shown, sizeof(shown)));
    return 0;
}

int branches_act(const struct remote *to, bool is_sandbox, const char *action, const char *name,
                 char **words, int n)
{
    struct err err = ERR_INIT;
    auto_json json_t *answer = NULL, *body = NULL;
    const char *id = n > 0 ? words[0] : "", *kind = is_sandbox ? "sandbox" : "thread";
    bool rolls = str_eq(action, "rollback"), makes = str_eq(action, "checkpoint");
    int r;
    if (n < 1 || n > (rolls ? 2 : 1) || !remote_is_id(id)) {
        cli_complain("'%s %s' takes the id of a %s%s", kind, action, kind,
                     rolls ? ", then a checkpoint if it is not the newest one" : "");
        return CLI_USAGE;
    }
    if (name && !makes) {
        cli_complain("'%s %s' takes no --name", kind, action);
        return CLI_USAGE;
    }
    if (name)
        body = json_pack("{s:s}", "name", name);
    if (name && !body) {
        cli_complain("the name is no UTF-8 text");
        return CLI_USAGE;
    }
    if (rolls) {
        r = roll_back(to, is_sandbox, id, n > 1 ? words[1] : NULL, &err);
    } else {
        r = call(to, is_sandbox, id, action, body, &answer, &err);
        if (r == 0 && makes)
            puts(remote_text(answer, "checkpoint_id"));
        else if (r == 0 && str_eq(action, "fork"))
            puts(remote_text(answer, is_sandbox ? "sandbox_id" : "thread_id"));
        else if (r == 0)
            r = print_list(json_object_get(answer, "checkpoints"), &err);
        if (r == 0 && *remote_text(answer, "not_kept"))
            note("variables are not in the fork: ", remote_text(answer, "not_kept"));
    }
    if (r < 0)
        cli_complain("%s: %s", id, err.message);
    return r < 0 ? CLI_FAILED : CLI_OK;
}
