/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving: records of a peer, in its order, each once the flags before it have come. */
#include "rdma.h"

static int flags_are_in(const struct rdma_peer *peer, const struct rdma_record *record)
{
    for (uint32_t p = 0; p < peer->pairs; p++)
        if (peer->pair[p].flags_in < record->flags[p])
            return 0;
    return 1;
}

static void note_out(struct rdma_peer *peer, const struct rdma_record *record)
{
    peer->has_out = 1;
    peer->out_call = record->call;
    peer->out_key = (uint32_t)record->at;
    peer->out_at = record->a;
    peer->out_bytes = record->b;
}

static void note_bye(struct rdma_peer *peer, const struct rdma_record *record)
{
    if (record->at) {
        peer->bye_answered = 1;
        return;
    }
    peer->bye_in = 1;
    peer->owes_answer = 1;
}

static void take(struct rdma *rdma, struct rdma_peer *peer, const struct rdma_record *record)
{
    const struct peal_comm *comm = rdma->comm;
    switch ((enum rdma_kind)record->kind) {
    case RDMA_STORE:
        atomic_store_explicit((rt_word *)(void *)(comm->base + record->at), record->a,
                              memory_order_relaxed);
        return;
    case RDMA_SIGNAL:
        rt_raise(rt_sem(comm->base, &comm->layout, comm->rank, peer->rank, (uint32_t)record->at),
                 (uint32_t)record->a, (uint32_t)(record->a >> 32));
        return;
    case RDMA_WANT:
        peer->wants = 1;
        peer->owes_out = rdma->has_out;
        return;
    case RDMA_OUT:
        note_out(peer, record);
        return;
    case RDMA_BYE:
        note_bye(peer, record);
        return;
    }
}

/* All that need not wait any more. */
static int take_all(struct rdma *rdma, struct rdma_peer *peer)
{
    int fine = 1;
    while (peer->first != peer->last && fine) {
        uint32_t slot = peer->waiting[peer->first % RDMA_RECEIVES];
        const struct rdma_record *record = &peer->in[slot];
        if (!flags_are_in(peer, record))
            break;
        take(rdma, peer, record);
        peer->first++;
        fine = rdma_post_receive(rdma, peer, 0, slot);
    }
    return fine;
}

int rdma_received(struct rdma *rdma, struct rdma_peer *peer, uint32_t pair, uint32_t slot,
                  const struct rdma_done *done)
{
    const struct rdma_bounds bounds = {.layout = &rdma->layout,
                                       .rank = rdma->comm->rank,
                                       .peer = peer->rank,
                                       .pairs = peer->pairs};
    if (done->flag) {
        peer->pair[pair].flags_in++;
        return rdma_post_receive(rdma, peer, pair, slot) && take_all(rdma, peer);
    }
    if (pair != 0 || !rdma_record_right(&peer->in[slot], done->bytes, &bounds))
        return 0;
    peer->waiting[peer->last++ % RDMA_RECEIVES] = slot;
    return take_all(rdma, peer);
}
