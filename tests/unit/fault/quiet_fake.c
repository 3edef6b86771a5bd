#include "fault/quiet_fake.h"

#include <uv.h>
#include "base/check.h"
#include "base/config.h"
#include "fault/fault.h"
#include "sandbox/fake.h"

/* The fake provider, which stands for other processes: its own memory never runs out. */
static struct provider_ops ops;

static int quiet_open(uv_loop_t *loop, const struct config *cfg, const struct provider_options *opt,
                      struct provider **ret, struct err *err)
{
    fault_pause();
    int r = fake_provider.open(loop, cfg, opt, ret, err);
    if (r == 0)
        (*ret)->ops = &ops;
    fault_resume();
    return r;
}

static int quiet_spawn(struct provider *p, const struct spawn_spec *spec, spawn_fn done, void *arg,
                       struct err *err)
{
    fault_pause();
    int r = fake_provider.spawn(p, spec, done, arg, err);
    fault_resume();
    return r;
}

/* What a kernel says is read by the code under test. */
static struct hearing {
    struct kernel_link *link;
    const struct link_events *events;
    void *arg;
} hearings[1024];

static void hear_control(void *arg, const char *bytes, size_t len)
{
    struct hearing h = *(struct hearing *)arg;

    fault_resume();
    h.events->control(h.arg, bytes, len);
    fault_pause();
}

static void hear_output(void *arg, bool is_stderr, const char *bytes, size_t len)
{
    struct hearing h = *(struct hearing *)arg;

    fault_resume();
    h.events->output(h.arg, is_stderr, bytes, len);
    fault_pause();
}

static void hear_exited(void *arg, const struct kernel_exit *how)
{
    struct hearing h = *(struct hearing *)arg;

    fault_resume();
    h.events->exited(h.arg, how);
    fault_pause();
}

static void quiet_release(struct kernel_link *l)
{
    for (size_t i = 0; i < sizeof(hearings) / sizeof(hearings[0]); i++)
        if (hearings[i].link == l)
            hearings[i].link = NULL;
    fake_provider.release(l);
}

static int quiet_start(struct kernel_link *l, json_t *start, const struct kernel_mount *mounts,
                       size_t n_mounts, struct err *err)
{
    static const struct link_events hear = { .control = hear_control,
                                             .output = hear_output,
                                             .exited = hear_exited };

    fault_pause();
    if (l->events != &hear) {
        size_t i = 0;
        while (i < sizeof(hearings) / sizeof(hearings[0]) && hearings[i].link)
            i++;
        assert_true(i < sizeof(hearings) / sizeof(hearings[0]));
        hearings[i] = (struct hearing){ l, l->events, l->arg };
        l->events = &hear;
        l->arg = &hearings[i];
    }
    int r = fake_provider.start(l, start, mounts, n_mounts, err);
    fault_resume();
    return r;
}

static int quiet_send(struct kernel_link *l, const void *bytes, size_t len, struct err *err)
{
    fault_pause();
    int r = fake_provider.send(l, bytes, len, err);
    fault_resume();
    return r;
}

/* In place of the table of providers: the one that no setting chooses. */
const struct provider_ops *provider_find(const char *name, struct err *err)
{
    (void)name, (void)err;
    return &ops;
}

const struct provider_ops *provider_at(size_t i)
{
    return i == 0 ? &ops : NULL;
}

void quiet_fake_init(void)
{
    fault_spare_turns(true);
    fake_reset();
    ops = fake_provider;
    ops.open = quiet_open;
    ops.spawn = quiet_spawn;
    ops.start = quiet_start;
    ops.send = quiet_send;
    ops.release = quiet_release;
}
