/* SPDX-License-Identifier: Apache-2.0 */
/* Joining a world of several processes, by an id or an address, and splitting it. */
#include "clock.h"
#include "far.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define DEFAULT_HEAP (256ull << 20)
#define DEFAULT_TIMEOUT_MS 30000u
#define DEFAULT_SOCKETS 2u
#define RESOLVE_US 100000u /* between questions for an address */

/* ---- ids and meetings */

struct id_content {
    uint8_t mark[8];
    struct sock_addr root;
    struct auth_key key;
};
_Static_assert(sizeof(struct id_content) <= sizeof(peal_id), "an id holds it");
static const uint8_t id_mark[8] = {'P', 'E', 'A', 'L', 'I', 'D', '1', 0};

struct peal_meeting {
    peal_ctx *ctx;
    int listener;
};

peal_status peal_meeting_open(peal_ctx *ctx, const char *address, uint32_t port, peal_diag *diag,
                              peal_meeting **meeting_out, peal_id *id_out)
{
    struct id_content content = {.root = {.family = 4, .ip = {127, 0, 0, 1}}};
    const struct sock_wait wait = {rt_now_ns() + DEFAULT_TIMEOUT_MS * 1000000ull, NULL};
    if (!ctx || !meeting_out || !id_out || port > 65535)
        return peal_fail(diag, PEAL_ERR_ARG, "a meeting needs a context and a port up to 65535");
    if (address)
        PEAL_TRY(sock_interface(address, 0, wait, &content.root, diag));
    if (sock_is_any(&content.root))
        return peal_fail(diag, PEAL_ERR_ARG,
                         "%s is every interface, and leads nobody here: an id names one of them",
                         address);
    content.root.port = (uint16_t)port;
    memcpy(content.mark, id_mark, sizeof id_mark);
    PEAL_TRY(auth_random(content.key.bytes, sizeof content.key.bytes, diag));
    peal_meeting *meeting = peal_calloc(ctx, 1, sizeof *meeting);
    if (!meeting)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    meeting->ctx = ctx;
    peal_status status = sock_listen(&content.root, &meeting->listener, diag);
    if (status != PEAL_OK) {
        peal_free(ctx, meeting, sizeof *meeting);
        return status;
    }
    memset(id_out, 0, sizeof *id_out);
    memcpy(id_out, &content, sizeof content);
    *meeting_out = meeting;
    return PEAL_OK;
}

void peal_meeting_close(peal_meeting *meeting)
{
    if (!meeting)
        return;
    sock_close(&meeting->listener);
    peal_free(meeting->ctx, meeting, sizeof *meeting);
}

/* ---- what is asked for */

static peal_status check_rows(const peal_table *table, peal_diag *diag)
{
    if (table->nrows == 0)
        return peal_fail(diag, PEAL_ERR_ARG, "the table has no rows");
    for (uint32_t i = 0; i < table->nrows; i++)
        if (!table->rows[i].plan)
            return peal_fail(diag, PEAL_ERR_ARG, "row %u is not compiled", i);
    return PEAL_OK;
}

static peal_status check_params(const peal_join_params *p, const peal_table *table, peal_diag *diag)
{
    if (p->ranks == 0 || p->rank >= p->ranks)
        return peal_fail(diag, PEAL_ERR_ARG, "rank %u of %u", p->rank, p->ranks);
    if (table && p->ranks != table->nranks)
        return peal_fail(diag, PEAL_ERR_ARG, "rank %u of %u with a table of %u ranks", p->rank,
                         p->ranks, table->nranks);
    if (p->ranks > RT_RANKS_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "%u ranks; at most %u", p->ranks, RT_RANKS_MAX);
    if (p->sockets > JOB_SOCKETS_MAX || p->port > 65535)
        return peal_fail(diag, PEAL_ERR_ARG, "at most %u sockets, and ports up to 65535",
                         JOB_SOCKETS_MAX);
    if (p->rdma && strlen(p->rdma) >= sizeof((struct rt_job *)0)->rdma)
        return peal_fail(diag, PEAL_ERR_ARG, "no RDMA device has such a long name");
    if (!p->id && (!p->address || !p->port))
        return peal_fail(diag, PEAL_ERR_ARG, "joining takes an id, or an address and a port");
    if (p->id && (p->rank == 0) != (p->meeting != NULL))
        return peal_fail(diag, PEAL_ERR_ARG, "with an id, rank 0 and no other has the meeting");
    return table ? check_rows(table, diag) : PEAL_OK;
}

/* lent: the meeting goes on listening when this is over. */
static peal_status by_id(struct rt_ask *ask, int lent, peal_diag *diag)
{
    struct id_content content;
    memcpy(&content, ask->params.id, sizeof content);
    if (memcmp(content.mark, id_mark, sizeof id_mark) != 0)
        return peal_fail(diag, PEAL_ERR_ARG, "that is no id of a meeting");
    ask->key = content.key;
    ask->roots[0] = content.root;
    ask->plan.nroots = 1;
    if (ask->params.meeting && lent) {
        ask->plan.listener = sock_share(ask->params.meeting->listener);
    } else if (ask->params.meeting) {
        ask->plan.listener = ask->params.meeting->listener;
        ask->params.meeting->listener = -1;
    }
    return PEAL_OK;
}

/* Of the meeting, also before there is one. */
static struct sock_wait patience(const struct rt_ask *ask)
{
    return (struct sock_wait){ask->plan.deadline, ask->plan.cancel};
}

/* The first address of rank 0's that this host has. */
static const struct sock_addr *here(const struct rt_ask *ask)
{
    for (uint32_t i = 0; i < ask->plan.nroots; i++)
        if (sock_is_here(&ask->roots[i]))
            return &ask->roots[i];
    return NULL;
}

/* Without a key: one that only processes of this host and user find. */
static peal_status host_key(struct rt_ask *ask, peal_diag *diag)
{
    const peal_join_params *p = &ask->params;
    if (p->insecure) {
        auth_key_from(NULL, 0, &ask->key);
        return PEAL_OK;
    }
    if (!here(ask))
        return peal_fail(diag, PEAL_ERR_ARG,
                         "rank 0's host, %s, is another than rank %u's, and there is no key for "
                         "the job: give all ranks the same secret (peal run: PEAL_JOB_KEY or "
                         "PEAL_JOB_KEY_FILE), or let strangers in (--insecure)",
                         p->address, p->rank);
    (void)snprintf(ask->key_name, sizeof ask->key_name, "/peal-key-%lu-%u",
                   (unsigned long)geteuid(), p->port);
    ask->plan.key_name = ask->key_name;
    ask->plan.wait_for_key = 1;
    return PEAL_OK;
}

/* Where the others look for it; on an interface that is named where that is the host's loopback
 * alone, or no address of it at all. */
static peal_status listen_as_root(struct rt_ask *ask, peal_diag *diag)
{
    const struct sock_addr *at = here(ask);
    struct sock_addr addr;
    if (ask->params.interface && (!at || sock_is_loopback(at))) {
        PEAL_TRY(sock_interface(ask->params.interface, 0, patience(ask), &addr, diag));
        addr.port = (uint16_t)ask->params.port;
    } else if (at) {
        addr = *at;
    } else {
        return peal_fail(diag, PEAL_ERR_ARG,
                         "%s is no address of rank 0's host (say which interface to listen on)",
                         ask->params.address);
    }
    PEAL_TRY(sock_listen(&addr, &ask->plan.listener, diag));
    return ask->plan.wait_for_key ? rt_key_put(ask->key_name, &ask->key, diag) : PEAL_OK;
}

/* The same, as other ranks of its host have to see it. */
static void look_there_too(struct rt_ask *ask)
{
    const struct sock_addr *at = here(ask);
    struct sock_addr *more = &ask->roots[ask->plan.nroots];
    if (!ask->params.interface || !at || !sock_is_loopback(at) ||
        ask->plan.nroots == JOB_ROOTS_MAX ||
        sock_interface(ask->params.interface, 0, patience(ask), more, NULL) != PEAL_OK)
        return;
    more->port = (uint16_t)ask->params.port;
    ask->plan.nroots++;
}

/* A host's name may become known late, as that of a pod which is about to start. */
static peal_status find_address(struct rt_ask *ask, peal_diag *diag)
{
    const peal_join_params *p = &ask->params;
    const _Atomic uint32_t *cancel = ask->plan.cancel;
    ask->plan.deadline = rt_now_ns() + (uint64_t)p->timeout_ms * 1000000u;
    ask->plan.nroots = JOB_ROOTS_MAX;
    peal_diag why = PEAL_DIAG_INIT;
    for (int answered = 0;;) {
        peal_diag now = PEAL_DIAG_INIT;
        peal_status status = sock_resolve(p->address, (uint16_t)p->port, patience(ask), ask->roots,
                                          &ask->plan.nroots, &now);
        why = status == PEAL_AGAIN || !answered ? now : why;
        answered |= status == PEAL_AGAIN;
        if (status == PEAL_OK)
            return status;
        if (cancel && atomic_load_explicit(cancel, memory_order_acquire))
            return peal_fail(diag, PEAL_ERR_ABORTED, "joining was called off");
        if (status != PEAL_AGAIN && status != PEAL_ERR_TIMEOUT)
            return peal_fail(diag, status, "%s", now.text);
        if (status == PEAL_ERR_TIMEOUT || rt_now_ns() > ask->plan.deadline)
            return peal_fail(diag, answered ? PEAL_ERR_IO : PEAL_ERR_TIMEOUT,
                             "%s (tried for %u ms)", why.text, p->timeout_ms);
        rt_sleep_us(RESOLVE_US);
    }
}

static peal_status by_address(struct rt_ask *ask, peal_diag *diag)
{
    const peal_join_params *p = &ask->params;
    PEAL_TRY(find_address(ask, diag));
    if (p->key_bytes)
        auth_key_from(p->key, p->key_bytes, &ask->key);
    else
        PEAL_TRY(host_key(ask, diag));
    if (p->rank == 0)
        return listen_as_root(ask, diag);
    look_there_too(ask);
    return PEAL_OK;
}

peal_status rt_ask_read(const peal_join_params *given, const peal_table *table,
                        const _Atomic uint32_t *cancel, struct rt_ask *ask, peal_diag *diag)
{
    peal_join_params *p = &ask->params;
    memset(ask, 0, sizeof *ask);
    ask->plan.listener = -1;
    peal_status status = peal_import(p, sizeof *p, given);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "join parameters of an unknown size");
    PEAL_TRY(check_params(p, table, diag));
    p->heap_bytes = p->heap_bytes ? p->heap_bytes : DEFAULT_HEAP;
    p->timeout_ms = p->timeout_ms ? p->timeout_ms : DEFAULT_TIMEOUT_MS;
    ask->plan = (struct job_plan){.rank = p->rank,
                                  .ranks = p->ranks,
                                  .sockets = p->sockets ? p->sockets : DEFAULT_SOCKETS,
                                  .timeout_ms = p->timeout_ms,
                                  .heap_bytes = p->heap_bytes,
                                  .host = p->host,
                                  .interface = p->interface,
                                  .rdma = p->rdma,
                                  .key = &ask->key,
                                  .roots = ask->roots,
                                  .listener = -1,
                                  .restarts = 1,
                                  .cancel = cancel};
    return p->id ? by_id(ask, !table, diag) : by_address(ask, diag);
}

/* ---- */

static peal_status settle(struct rt_job *job, const peal_table *table, const peal_join_params *p,
                          peal_world *world, peal_diag *diag)
{
    PEAL_TRY(rt_far_check(job, table, diag));
    PEAL_TRY(rt_job_segment(job, table, p->heap_bytes, &world->segment, diag));
    peal_status status = rt_far_make(job, table, &world->segment, diag);
    PEAL_TRY(rt_job_agree(job, status, diag));
    return rt_far_census(job, diag);
}

static peal_status make_world(peal_ctx *ctx, struct rt_ask *ask, const peal_table *table,
                              peal_diag *diag, peal_world **world_out)
{
    peal_world *world;
    struct rt_job *job = NULL;
    peal_status status = rt_world_make(ctx, &world, diag);
    if (status != PEAL_OK) {
        sock_close(&ask->plan.listener);
        return status;
    }
    world->timeout_ms = ask->params.timeout_ms;
    world->private_buffers = 1;
    world->chaos = ask->params.chaos_seed;
    status = rt_job_make(ctx, &ask->plan, table, diag, &job);
    world->job = job;
    if (status == PEAL_OK)
        status = settle(job, table, &ask->params, world, diag);
    if (status != PEAL_OK) {
        rt_world_release(world);
        return status;
    }
    job->wait.cancel = NULL;
    *world_out = world;
    return PEAL_OK;
}

static peal_status join(peal_ctx *ctx, const peal_join_params *params, const peal_table *table,
                        const struct rt_watch *watch, peal_diag *diag, peal_world **world_out)
{
    struct rt_ask ask;
    peal_status status = rt_ask_read(params, table, watch->cancel, &ask, diag);
    if (status != PEAL_OK) {
        sock_close(&ask.plan.listener);
        return status;
    }
    ask.plan.came = watch->came;
    return make_world(ctx, &ask, table, diag, world_out);
}

void rt_join_drop(const peal_join_params *given)
{
    peal_join_params params;
    if (given && peal_import(&params, sizeof params, given) == PEAL_OK)
        peal_meeting_close(params.meeting);
}

peal_status rt_join(peal_ctx *ctx, const peal_join_params *params, const peal_table *table,
                    const struct rt_watch *watch, peal_diag *diag, peal_world **world_out)
{
    peal_status status = join(ctx, params, table, watch, diag, world_out);
    rt_join_drop(params);
    return status;
}

peal_status peal_world_join(peal_ctx *ctx, const peal_join_params *params, const peal_table *table,
                            peal_diag *diag, peal_world **world_out)
{
    const struct rt_watch nobody = {NULL, NULL};
    if (ctx && params && table && world_out)
        return rt_join(ctx, params, table, &nobody, diag, world_out);
    rt_join_drop(params);
    return peal_fail(diag, PEAL_ERR_ARG, "joining takes a context, parameters and a table");
}

/* ---- split and shrink */

static int own_place(const struct rt_job *job, const uint32_t *ranks, uint32_t count,
                     uint32_t *place)
{
    int found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (ranks[i] >= job->nranks)
            return 0;
        for (uint32_t k = 0; k < i; k++)
            if (ranks[k] == ranks[i])
                return 0;
        if (ranks[i] == job->rank) {
            *place = i;
            found = 1;
        }
    }
    return found;
}

/* Those who name the same ranks of the same world have the same key. */
static peal_status split_key(const struct rt_job *job, const uint32_t *ranks, uint32_t count,
                             struct auth_key *key)
{
    struct peal_buf what;
    peal_buf_init(&what, job->ctx, SIZE_MAX);
    peal_buf_put(&what, job->world, sizeof job->world);
    peal_buf_put(&what, ranks, count * sizeof *ranks);
    if (what.status == PEAL_OK)
        auth_key_derive(&job->key, what.data, what.used, key);
    peal_status status = what.status;
    peal_buf_free(&what);
    return status;
}

/* Rank 0 of a split that has no file left for its listener tells the others so, with the one that
 * was kept for that. */
static peal_status refuse(struct rt_job *job, struct job_plan *plan, const peal_table *table,
                          peal_diag *diag)
{
    peal_diag why = PEAL_DIAG_INIT;
    struct rt_job *none;
    (void)peal_fail(&why, PEAL_ERR_IO,
                    "rank 0 of the split, rank %u on %s, cannot listen for the others: %s",
                    job->rank, job->idents[job->rank].host, strerror(errno));
    sock_close(&job->spare);
    plan->listener = job->listener;
    plan->lent = 1;
    plan->refusal = &why;
    peal_status status = rt_job_make(job->ctx, plan, table, diag, &none);
    job->spare = sock_share(job->listener);
    return status;
}

peal_status peal_world_split(peal_world *world, const uint32_t *ranks, uint32_t count,
                             const peal_table *table, peal_diag *diag, peal_world **world_out)
{
    struct rt_ask ask;
    uint32_t place;
    if (!world || !ranks || !table || !world_out || !world->job)
        return peal_fail(diag, PEAL_ERR_ARG, "a split takes a joined world, ranks and a table");
    struct rt_job *job = world->job;
    if (count != table->nranks || count > RT_RANKS_MAX)
        return peal_fail(diag, PEAL_ERR_ARG, "%u ranks with a table of %u", count, table->nranks);
    PEAL_TRY(check_rows(table, diag));
    if (!own_place(job, ranks, count, &place))
        return peal_fail(diag, PEAL_ERR_ARG,
                         "a split lists ranks of the world, this one among "
                         "them, each once");
    memset(&ask, 0, sizeof ask);
    ask.params.rank = place;
    ask.params.ranks = count;
    ask.params.heap_bytes = world->segment.layout.heap_bytes;
    ask.params.timeout_ms = world->timeout_ms;
    ask.params.chaos_seed = world->chaos;
    if (split_key(job, ranks, count, &ask.key) != PEAL_OK)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    ask.roots[0] = job->idents[ranks[0]].addr;
    ask.plan = (struct job_plan){.rank = place,
                                 .ranks = count,
                                 .sockets = job->sockets,
                                 .timeout_ms = world->timeout_ms,
                                 .heap_bytes = ask.params.heap_bytes,
                                 .host = job->idents[job->rank].host,
                                 .host_id = job->idents[job->rank].host_id,
                                 .rdma = job->rdma,
                                 .key = &ask.key,
                                 .may_be_busy = 1,
                                 .roots = ask.roots,
                                 .nroots = 1,
                                 .listener = sock_share(job->listener)};
    if (place == 0 && ask.plan.listener < 0)
        return refuse(job, &ask.plan, table, diag);
    return make_world(world->ctx, &ask, table, diag, world_out);
}

/* ---- the rest */

peal_status peal_world_exchange(peal_world *world, const void *mine, size_t bytes, void *all,
                                peal_diag *diag)
{
    if (!world || !world->job || (bytes && (!mine || !all)))
        return peal_fail(diag, PEAL_ERR_ARG, "an exchange takes a joined world and buffers");
    return rt_job_exchange(world->job, mine, bytes, all, diag);
}

const char *peal_world_host(const peal_world *world, uint32_t rank)
{
    if (!world || !world->job || rank >= world->job->nranks)
        return NULL;
    return world->job->idents[rank].host;
}
