/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs between ranks of different hosts, agreed on over the TCP links that are there
 * already and proven to be the job's: each end says whether it has a device, where its scratch is
 * and how its pairs are named; then whether the pairs are joined. Whatever fails on either end,
 * both of them stay with TCP.
 */
#include "rdma.h"

#include <stdio.h>
#include <string.h>

/* ---- what is asked for */

static int uses_rdma(const struct peal_plan *plan)
{
    for (uint32_t r = peal_plan_first(plan); r < peal_plan_end(plan); r++) {
        const struct plan_rank *rank = peal_plan_program(plan, r);
        for (uint32_t i = 0; i < rank->nsteps; i++)
            if ((rank->steps[i].engine == PEAL_ENGINE_RDMA ||
                 rank->steps[i].engine == PEAL_ENGINE_IBGDA) &&
                (peal_plan_op_moves(rank->steps[i].op) || peal_plan_op_signals(rank->steps[i].op)))
                return 1;
    }
    return 0;
}

static int is_named(const peal_table *table)
{
    for (uint32_t i = 0; i < table->nrows; i++)
        if (uses_rdma(table->rows[i].plan))
            return 1;
    return 0;
}

static struct rdma_nic *open_nic(struct rt_far *far, const struct rt_rdma_ask *ask)
{
    const struct rt_job *job = far->job;
    const struct plan_rank *rank = peal_plan_program(ask->table->rows[0].plan, job->rank);
    struct rdma_ask what = {.chosen = job->rdma,
                            .plan = rank ? rank->nic : "",
                            .busid = rank ? rank->busid : "",
                            .entries = RDMA_SENDS + RDMA_RECEIVES};
    if (!is_named(ask->table))
        return NULL;
    if (peal_streq(job->rdma, "off")) {
        peal_copy_text(far->why, sizeof far->why, "it was told not to");
        return NULL;
    }
    for (uint32_t r = 0; r < job->nranks; r++) {
        what.pairs += far->is_far[r] ? job->sockets : 0;
        what.turn += r < job->rank && rt_job_near(job, r, job->rank);
    }
    return rdma_open(far->ctx, &what, far->why, sizeof far->why);
}

/* ---- memory that there is from the start */

static int make_memory(struct rdma *rdma)
{
    const struct rt_layout *layout = &rdma->layout;
    uint64_t bytes = 2 * layout->scratch_bytes;
    char *scratch = rdma->base + layout->scratch + bytes * rdma->far->job->rank;
    size_t bounce = (size_t)RDMA_BOUNCES * RDMA_PART;
    struct rdma_nic *nic = rdma->nic;
    rdma->bounce = peal_alloc(rdma->far->ctx, bounce);
    return rdma->bounce && nic->ops->region(nic, rdma->bounce, bounce, &rdma->bounces) &&
           (!bytes || nic->ops->region(nic, scratch, bytes, &rdma->scratch));
}

static int make_pair(struct rdma *rdma, struct rdma_peer *peer, uint32_t p)
{
    struct rdma_pair *pair = &peer->pair[p];
    return rdma->nic->ops->pair(rdma->nic, RDMA_SENDS, RDMA_RECEIVES, &pair->pair, &pair->mine);
}

static int make_peer(struct rdma *rdma, uint32_t rank)
{
    struct rdma_peer *peer = &rdma->peers[rank];
    peal_ctx *ctx = rdma->far->ctx;
    uint32_t pairs = rdma->far->job->sockets;
    size_t records = rdma_records(pairs) * sizeof *peer->in;
    peer->rank = rank;
    if (!rdma->far->is_far[rank])
        return 1;
    peer->pair = peal_calloc(ctx, pairs, sizeof *peer->pair);
    peer->queue = peal_calloc(ctx, RDMA_QUEUE, sizeof *peer->queue);
    peer->in = peal_calloc(ctx, 1, records);
    if (!peer->pair || !peer->queue || !peer->in)
        return 0;
    peer->out = peer->in + (size_t)pairs * RDMA_RECEIVES;
    if (!rdma->nic->ops->region(rdma->nic, (char *)peer->in, records, &peer->records))
        return 0;
    for (uint32_t p = 0; p < pairs; p++)
        if (!make_pair(rdma, peer, p))
            return 0;
    peer->pairs = pairs;
    return 1;
}

static int make_locks(struct rdma *rdma)
{
    if (pthread_mutex_init(&rdma->lock, NULL) != 0)
        return 0;
    if (pthread_mutex_init(&rdma->hearing, NULL) == 0)
        return 1;
    (void)pthread_mutex_destroy(&rdma->lock);
    return 0;
}

/* All that this end has to have; NULL: why is in far->why. */
static struct rdma *make(struct rt_far *far, const struct rt_rdma_ask *ask)
{
    struct rdma_nic *nic = open_nic(far, ask);
    if (!nic)
        return NULL;
    struct rdma *rdma = peal_calloc(far->ctx, 1, sizeof *rdma);
    if (!rdma || !make_locks(rdma)) {
        nic->ops->close(nic);
        peal_free(far->ctx, rdma, sizeof *rdma);
        peal_copy_text(far->why, sizeof far->why, "out of memory");
        return NULL;
    }
    rdma->nic = rdma->cache.nic = nic;
    rdma->far = far;
    rdma->wake = -1;
    rdma->nranks = far->job->nranks;
    rdma->base = ask->segment->base;
    rdma->layout = ask->segment->layout;
    rdma->peers = peal_calloc(far->ctx, rdma->nranks, sizeof *rdma->peers);
    int made = rdma->peers && make_memory(rdma);
    for (uint32_t r = 0; made && r < rdma->nranks; r++)
        made = make_peer(rdma, r);
    if (made)
        return rdma;
    (void)snprintf(far->why, sizeof far->why, "%s has no room for it (locked memory: ulimit -l)",
                   nic->name);
    rt_rdma_drop(rdma);
    return NULL;
}

/* ---- telling each other */

static struct rdma_hello hello_for(const struct rdma *rdma, uint32_t rank)
{
    struct rdma_hello hello = {.mark = RDMA_MARK};
    if (!rdma)
        return hello;
    hello.has = 1;
    hello.pairs = rdma->far->job->sockets;
    hello.scratch = (uint64_t)(uintptr_t)rdma->scratch.at;
    hello.scratch_bytes = rdma->scratch.bytes;
    hello.scratch_key = rdma->scratch.peer_key;
    for (uint32_t p = 0; p < hello.pairs; p++)
        hello.end[p] = rdma->peers[rank].pair[p].mine;
    return hello;
}

/* Of the pair of ranks the first TCP link. */
static int link_to(const struct rt_far *far, const struct rt_rdma_ask *ask, uint32_t rank)
{
    return ask->links[rank * far->job->sockets];
}

static peal_status no_word(const struct rt_far *far, uint32_t rank, peal_status status,
                           peal_diag *diag)
{
    const struct rt_ident *ident = &far->job->idents[rank];
    if (status == PEAL_ERR_ABORTED)
        return peal_fail(diag, status, "joining was called off");
    return peal_fail(diag, status == PEAL_ERR_TIMEOUT ? status : PEAL_ERR_PEER,
                     "rank %u on %s does not say whether it has RDMA", rank, ident->host);
}

static int join_pairs(struct rdma *rdma, struct rdma_peer *peer, const struct rdma_hello *hello)
{
    const struct rdma_nic_ops *ops = rdma->nic->ops;
    for (uint32_t p = 0; p < peer->pairs; p++) {
        struct rdma_pair *pair = &peer->pair[p];
        if (!ops->join(rdma->nic, pair->pair, &pair->mine, &hello->end[p]))
            return 0;
        for (uint32_t slot = 0; slot < RDMA_RECEIVES; slot++)
            if (!rdma_post_receive(rdma, peer, p, slot))
                return 0;
    }
    peer->scratch = hello->scratch;
    peer->scratch_key = hello->scratch_key;
    return 1;
}

/* *joined: 1: this end is ready; 0: it is not; a peer without a device is asked no more. */
static peal_status hear(struct rt_far *far, const struct rt_rdma_ask *ask, struct rdma *rdma,
                        uint32_t rank, uint8_t *joined, peal_diag *diag)
{
    struct rdma_hello hello;
    uint64_t scratch = 2 * ask->segment->layout.scratch_bytes;
    peal_status status = sock_recv(link_to(far, ask, rank), &hello, sizeof hello, far->job->wait);
    if (status != PEAL_OK)
        return no_word(far, rank, status, diag);
    if (!rdma_hello_right(&hello, far->job->sockets, scratch))
        return peal_fail(diag, PEAL_ERR_PEER, "rank %u on %s sent damaged data", rank,
                         far->job->idents[rank].host);
    if (rdma && !hello.has)
        (void)snprintf(far->why, sizeof far->why, "rank %u on %s has none", rank,
                       far->job->idents[rank].host);
    *joined = rdma && hello.has && join_pairs(rdma, &rdma->peers[rank], &hello);
    return PEAL_OK;
}

static peal_status say_and_hear(struct rt_far *far, const struct rt_rdma_ask *ask,
                                struct rdma *rdma, uint8_t *joined, peal_diag *diag)
{
    uint32_t nranks = far->job->nranks;
    for (uint32_t r = 0; r < nranks; r++) {
        if (!far->is_far[r])
            continue;
        struct rdma_hello hello = hello_for(rdma, r);
        peal_status status = sock_send(link_to(far, ask, r), &hello, sizeof hello, far->job->wait);
        if (status != PEAL_OK)
            return no_word(far, r, status, diag);
    }
    for (uint32_t r = 0; r < nranks; r++)
        if (far->is_far[r])
            PEAL_TRY(hear(far, ask, rdma, r, &joined[r], diag));
    return PEAL_OK;
}

/* Pairs are used when both ends are ready. */
static peal_status confirm(struct rt_far *far, const struct rt_rdma_ask *ask, struct rdma *rdma,
                           const uint8_t *joined, peal_diag *diag)
{
    uint32_t nranks = far->job->nranks;
    for (uint32_t r = 0; r < nranks; r++) {
        if (!far->is_far[r])
            continue;
        peal_status status = sock_send(link_to(far, ask, r), &joined[r], 1, far->job->wait);
        if (status != PEAL_OK)
            return no_word(far, r, status, diag);
    }
    for (uint32_t r = 0; r < nranks; r++) {
        uint8_t theirs;
        if (!far->is_far[r])
            continue;
        peal_status status = sock_recv(link_to(far, ask, r), &theirs, 1, far->job->wait);
        if (status != PEAL_OK)
            return no_word(far, r, status, diag);
        far->by_rdma[r] = theirs == 1 && joined[r] == 1;
        if (rdma && !far->by_rdma[r])
            rdma->peers[r].pairs = 0;
        if (rdma && !far->by_rdma[r] && !far->why[0])
            (void)snprintf(far->why, sizeof far->why, "no queue pair with rank %u on %s", r,
                           far->job->idents[r].host);
    }
    return PEAL_OK;
}

peal_status rt_rdma_link(struct rt_far *far, const struct rt_rdma_ask *ask, struct rdma **made,
                         peal_diag *diag)
{
    uint32_t nranks = far->job->nranks, reached = 0;
    uint8_t *joined = peal_calloc(far->ctx, nranks, 1);
    if (!joined)
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    struct rdma *rdma = make(far, ask);
    peal_status status = say_and_hear(far, ask, rdma, joined, diag);
    if (status == PEAL_OK)
        status = confirm(far, ask, rdma, joined, diag);
    peal_free(far->ctx, joined, nranks);
    for (uint32_t r = 0; r < nranks; r++)
        reached += far->by_rdma[r];
    if (status != PEAL_OK || reached == 0) {
        rt_rdma_drop(rdma);
        return status;
    }
    peal_copy_text(far->device, sizeof far->device, rdma->nic->name);
    *made = rdma;
    return PEAL_OK;
}
