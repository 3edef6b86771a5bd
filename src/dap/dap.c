/* The listener, and what clients may attach to. */

#include "dap/dap.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/str.h"
#include "dap/dap_impl.h"

#define BACKLOG 16
#define OFFERS_MAX 256
#define OFFERS_OF_OWNER_MAX 16
#define OFFER_BYTES_MAX (4u << 20)

/* ---- offers ---- */

void offer_free(struct offer *o)
{
    if (!o)
        return;
    json_decref(o->context);
    arena_finish(&o->arena);
    free(o);
}

static void drop_expired(struct dap *d)
{
    int64_t now = clock_now_ms();
    for (struct offer **at = &d->offers; *at;) {
        struct offer *o = *at;
        if (o->expires_ms > now) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        offer_free(o);
    }
}

struct offer *dap_take_offer(struct dap *d, const char *token, const char *owner,
                             const char *sandbox_id)
{
    drop_expired(d);
    for (struct offer **at = &d->offers; *at; at = &(*at)->next) {
        struct offer *o = *at;
        unsigned differs = strlen(token) != strlen(o->token);
        for (size_t i = 0; !differs && i < DAP_TOKEN_SIZE; i++)
            differs |= (unsigned char)(token[i] ^ o->token[i]); /* as long for any wrong one */
        if (differs || (owner && !str_eq(owner, o->owner)) ||
            (sandbox_id && !str_eq(sandbox_id, o->sandbox_id)))
            continue;
        *at = o->next;
        o->next = NULL;
        return o;
    }
    return NULL;
}

static struct offer *copy_offer(const struct dap_offer *from)
{
    struct offer *o = calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    arena_init(&o->arena, OFFER_BYTES_MAX);
    o->owner = arena_strdup(&o->arena, from->owner);
    o->sandbox_id = arena_strdup(&o->arena, from->sandbox_id);
    o->path = from->path ? arena_strdup(&o->arena, from->path) : NULL;
    o->code = from->code;
    o->code.language = arena_strdup(&o->arena, from->code.language);
    o->code.code = from->code.code ? arena_strdup(&o->arena, from->code.code) : NULL;
    o->code.context = o->context = json_deep_copy(from->code.context);
    o->stop_on_entry = from->stop_on_entry;
    o->expires_ms = clock_now_ms() + DAP_OFFER_SECONDS * 1000;
    id_hex(o->token, DAP_TOKEN_SIZE - 1);
    if (o->owner && o->sandbox_id && o->code.language && !from->code.code == !o->code.code &&
        !from->path == !o->path && !from->code.context == !o->context)
        return o;
    offer_free(o);
    return NULL;
}

/* ---- the listener ---- */

static void on_connection(uv_stream_t *listener, int status)
{
    struct dap *d = listener->data;
    if (status == 0)
        session_start(d);
}

static int listen_at(struct dap *d, struct err *err)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = { 0 };
    int len = sizeof(at);
    if (d->is_listening)
        return 0;
    const char *host = str_eq(d->host, "localhost") ? "127.0.0.1" : d->host;
    if (uv_ip4_addr(host, d->port, &at.v4) < 0 && uv_ip6_addr(host, d->port, &at.v6) < 0)
        return err_set(err, ERR_UNAVAILABLE, "debuggers cannot listen at '%s'", d->host);
    uv_tcp_init(loop_uv(d->loop), &d->listener);
    d->listener.data = d;
    int r = uv_tcp_bind(&d->listener, (const struct sockaddr *)&at.any, 0);
    if (r == 0)
        r = uv_listen((uv_stream_t *)&d->listener, BACKLOG, on_connection);
    if (r == 0)
        r = uv_tcp_getsockname(&d->listener, (struct sockaddr *)&at.any, &len);
    if (r < 0) {
        uv_close((uv_handle_t *)&d->listener, NULL);
        return err_set(err, ERR_UNAVAILABLE,
                       "debuggers cannot listen on port %d (RIDDLE_DAP_PORT): %s", d->port,
                       uv_strerror(r));
    }
    d->is_listening = true;
    d->port = ntohs(at.any.ss_family == AF_INET ? at.v4.sin_port : at.v6.sin6_port);
    log_info("dap.listen", LOG_INT("port", d->port));
    return 0;
}

int dap_offer(struct dap *d, const struct dap_offer *offer, char ret_token[DAP_TOKEN_SIZE],
              int *ret_port, struct err *err)
{
    size_t n = 0, of_owner = 0;
    drop_expired(d);
    for (const struct offer *o = d->offers; o; o = o->next) {
        n++;
        of_owner += str_eq(o->owner, offer->owner);
    }
    if (of_owner >= OFFERS_OF_OWNER_MAX || n >= OFFERS_MAX)
        return err_set(err, ERR_RATE_LIMITED,
                       "%zu debuggers are expected already; attach them, or wait %d seconds",
                       of_owner, DAP_OFFER_SECONDS);
    int r = listen_at(d, err);
    if (r < 0)
        return r;
    struct offer *o = copy_offer(offer);
    if (!o)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    o->next = d->offers;
    d->offers = o;
    memcpy(ret_token, o->token, DAP_TOKEN_SIZE);
    *ret_port = d->port;
    return 0;
}

int dap_create(struct loop *loop, struct agent *agent, const char *host, int port, struct dap **ret,
               struct err *err)
{
    struct dap *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    d->loop = loop;
    d->agent = agent;
    d->port = port;
    snprintf(d->host, sizeof(d->host), "%s", host);
    *ret = d;
    return 0;
}

static void on_listener_closed(uv_handle_t *h)
{
    free(h->data);
}

void dap_destroy(struct dap *d)
{
    if (!d)
        return;
    while (d->sessions)
        session_end(d->sessions);
    while (d->offers) {
        struct offer *o = d->offers;
        d->offers = o->next;
        offer_free(o);
    }
    if (d->is_listening)
        uv_close((uv_handle_t *)&d->listener, on_listener_closed);
    else
        free(d);
}
