/* The transient line of standard error. */

#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/str.h"
#include "cli/table.h"

#define PROGRESS_AFTER_MS 300
#define PROGRESS_WIDTH 30

void progress_init(struct progress *p)
{
    *p = (struct progress){ .tty = isatty(STDERR_FILENO) };
}

void progress_clear(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
    p->since_ms = 0;
}

void progress_bar(struct progress *p, const char *stage, double fraction)
{
    int64_t now_ms = clock_now_ms();
    if (!p->tty)
        return;
    if (p->since_ms == 0)
        p->since_ms = now_ms;
    if (now_ms - p->since_ms < PROGRESS_AFTER_MS)
        return;
    fraction = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
    int full = (int)(fraction * PROGRESS_WIDTH);
    auto_buf struct buf name = BUF_INIT(4096);
    (void)table_append_visible(&name, stage, MIN_OF(strlen(stage), (size_t)200), false, NULL);
    fprintf(stderr, "\r%.40s ", buf_cstr(&name));
    for (int i = 0; i < PROGRESS_WIDTH; i++)
        fputs(i < full ? "█" : "░", stderr);
    fprintf(stderr, " %3d%%\033[K", (int)(fraction * 100));
    fflush(stderr);
    p->shown = true;
}

void progress_text(struct progress *p, const char *text)
{
    struct table_style style;
    if (!p->tty)
        return;
    table_style_for(STDERR_FILENO, &style);
    auto_buf struct buf b = BUF_INIT(4096);
    (void)table_append_visible(
        &b, text,
        str_utf8_cut(text, strlen(text), (size_t)MAX_OF(20, MIN_OF(style.width - 2, 200))), false,
        NULL);
    fprintf(stderr, "\r%s%s%s\033[K", style.colour ? "\033[2m" : "", buf_cstr(&b),
            style.colour ? "\033[0m" : "");
    fflush(stderr);
    p->shown = true;
}
