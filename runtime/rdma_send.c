/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: the queue of a peer into works, works into its queue pairs. */
#include "clock.h"
#include "rdma.h"

/* ---- events of transfers */

static void part_written(struct rt_event *event)
{
    if (--event->unwritten == 0)
        atomic_store_explicit(&event->delivered, event->issued, memory_order_release);
}

static void part_read(struct rt_event *event)
{
    if (--event->unread == 0)
        atomic_store_explicit(&event->freed, event->issued, memory_order_release);
}

/* What is flushed is neither read again nor known to be in place. */
static void end_flight(struct rdma *rdma, struct rdma_flight *flight, int fine)
{
    if (flight->entry)
        rdma_unuse(flight->entry);
    if (flight->bounce)
        rdma->bounces_used &= ~(1u << (flight->bounce - 1));
    if (flight->event && fine) {
        if (flight->frees)
            part_read(flight->event);
        part_written(flight->event);
    }
    *flight = (struct rdma_flight){0};
}

void rdma_completed(struct rdma *rdma, struct rdma_pair *pair, uint32_t number, int fine)
{
    /* One that was not posted is nobody's. */
    if (number - pair->done >= pair->posted - pair->batched - pair->done)
        return;
    do
        end_flight(rdma, &pair->flight[pair->done % RDMA_SENDS], fine);
    while (pair->done++ != number);
}

/* ---- works */

/* What is under way on its pairs is flushed. */
void rdma_lose(struct rdma *rdma, struct rdma_peer *peer, enum rdma_how how)
{
    if (peer->broken)
        return;
    peer->broken = (uint8_t)how;
    peer->broken_ns = rt_now_ns();
    for (uint32_t p = 0; p < peer->pairs; p++)
        rdma->nic->ops->fail(rdma->nic, peer->pair[p].pair);
}

/* Only the last work of a post is told of: completions come in order. */
static void post_batch(struct rdma *rdma, struct rdma_peer *peer, struct rdma_pair *pair)
{
    if (!pair->batched)
        return;
    uint32_t count = pair->batched;
    pair->batch[count - 1].told = 1;
    pair->batched = 0;
    uint32_t taken = rdma->nic->ops->post(rdma->nic, pair->pair, pair->batch, count);
    if (taken == count)
        return;
    for (; taken < count; taken++)
        end_flight(rdma, &pair->flight[--pair->posted % RDMA_SENDS], 0);
    rdma_lose(rdma, peer, RDMA_BROKEN);
}

static int has_room(const struct rdma_pair *pair, uint32_t works)
{
    return RDMA_SENDS - (pair->posted - pair->done) >= works;
}

static struct rdma_work *add_work(struct rdma *rdma, struct rdma_peer *peer, uint32_t index,
                                  const struct rdma_flight *flight)
{
    struct rdma_pair *pair = &peer->pair[index];
    if (pair->batched == RDMA_POST_MAX)
        post_batch(rdma, peer, pair);
    struct rdma_work *work = &pair->batch[pair->batched++];
    *work = (struct rdma_work){.id = rdma_id(peer->rank, index, 0, pair->posted)};
    pair->flight[pair->posted++ % RDMA_SENDS] = *flight;
    return work;
}

/* Its place is free again when the work that sent it is done: there are as many as works. */
static void add_record(struct rdma *rdma, struct rdma_peer *peer, struct rdma_record record)
{
    static const struct rdma_flight nothing;
    struct rdma_record *out = &peer->out[peer->pair[0].posted % RDMA_SENDS];
    for (uint32_t p = 0; p < peer->pairs; p++)
        record.flags[p] = peer->pair[p].flags_out;
    *out = record;
    struct rdma_work *work = add_work(rdma, peer, 0, &nothing);
    work->op = RDMA_SEND;
    work->from = (const char *)out;
    work->bytes = sizeof *out;
    work->own_key = peer->records.own_key;
    work->copied = sizeof *out <= rdma->nic->inline_bytes;
}

/* ---- what goes ahead of the queue */

static int add_urgent(struct rdma *rdma, struct rdma_peer *peer)
{
    struct rdma_record record = {.call = rdma->out_call};
    if (peer->owes_out) {
        peer->owes_out = 0;
        record.kind = RDMA_OUT;
        record.at = rdma->out ? rdma->out->region.peer_key : 0;
        record.a = rdma->out_at;
        record.b = rdma->out_bytes;
    } else if (peer->owes_want) {
        peer->owes_want = 0;
        record.kind = RDMA_WANT;
    } else {
        return 0;
    }
    add_record(rdma, peer, record);
    return 1;
}

/* A good-bye is behind all else, and its answer too: nothing of this end is then under way. */
static int add_bye(struct rdma *rdma, struct rdma_peer *peer)
{
    if (!peer->owes_bye && !(peer->owes_answer && rdma_idle(peer)))
        return 0;
    struct rdma_record record = {.kind = RDMA_BYE, .at = !peer->owes_bye};
    if (peer->owes_bye)
        peer->owes_bye = 0;
    else
        peer->owes_answer = 0;
    add_record(rdma, peer, record);
    return 1;
}

/* ---- data */

/* Where the bytes are to go; 0: that is not known yet. */
static int find_place(struct rdma *rdma, struct rdma_peer *peer, const struct rdma_item *item,
                      const char *name, size_t bytes, struct rdma_work *work)
{
    uint64_t at = (uint64_t)((uintptr_t)name - (uintptr_t)rdma->base);
    if (at < FAR_OUT) {
        uint64_t copies = 2 * rdma->layout.scratch_bytes;
        work->to = peer->scratch + (at - (rdma->layout.scratch + copies * peer->rank));
        work->peer_key = peer->scratch_key;
        return 1;
    }
    if (!peer->asked) {
        peer->asked = peer->owes_want = 1;
        return 0;
    }
    if (!peer->has_out || peer->out_call != item->call)
        return 0;
    if (at - FAR_OUT > peer->out_bytes || bytes > peer->out_bytes - (at - FAR_OUT)) {
        rdma_lose(rdma, peer, RDMA_REFUSED);
        return 0;
    }
    work->to = peer->out_at + (at - FAR_OUT);
    work->peer_key = peer->out_key;
    return 1;
}

static uint32_t free_bounce(const struct rdma *rdma)
{
    uint32_t b = 0;
    while (b < RDMA_BOUNCES && rdma->bounces_used & 1u << b)
        b++;
    return b;
}

static int in_scratch(const struct rdma *rdma, const char *from, size_t bytes)
{
    uint64_t skip = (uint64_t)((uintptr_t)from - (uintptr_t)rdma->scratch.at);
    return skip <= rdma->scratch.bytes && bytes <= rdma->scratch.bytes - skip;
}

/* How the device gets at the bytes: at once, from where they are, or from a copy. 0: later. */
static int find_source(struct rdma *rdma, const char *from, size_t bytes, struct rdma_work *work,
                       struct rdma_flight *flight)
{
    work->from = from;
    work->bytes = (uint32_t)bytes;
    if (bytes <= rdma->nic->inline_bytes) {
        work->copied = 1;
        return 1;
    }
    flight->frees = 1;
    work->own_key = rdma->scratch.own_key;
    if (in_scratch(rdma, from, bytes))
        return 1;
    flight->entry = rdma_use(&rdma->cache, from, bytes);
    if (flight->entry) {
        work->own_key = flight->entry->region.own_key;
        return 1;
    }
    uint32_t b = free_bounce(rdma);
    if (b == RDMA_BOUNCES) {
        rdma->starved = 1;
        return 0;
    }
    rdma->bounces_used |= 1u << b;
    flight->frees = 0;
    flight->bounce = (uint8_t)(1 + b);
    work->own_key = rdma->bounces.own_key;
    work->from = memcpy(rdma->bounce + (size_t)b * RDMA_PART, from, bytes);
    return 1;
}

/* Small pieces take the first pair, with the records behind them. pairs: none has room. */
static uint32_t choose_pair(struct rdma_peer *peer, size_t bytes)
{
    uint32_t tries = bytes > RDMA_SPREAD ? peer->pairs : 1;
    uint32_t start = bytes > RDMA_SPREAD ? peer->turn : 0;
    for (uint32_t i = 0; i < tries; i++) {
        uint32_t p = (start + i) % peer->pairs;
        if (!has_room(&peer->pair[p], 1))
            continue;
        if (bytes > RDMA_SPREAD)
            peer->turn = (p + 1) % peer->pairs;
        return p;
    }
    return peer->pairs;
}

/* The next part of the item at the head. */
static int add_data(struct rdma *rdma, struct rdma_peer *peer, struct rdma_item *item)
{
    const struct rt_piece *piece = &item->pieces[peer->piece];
    size_t left = piece->bytes - peer->offset;
    size_t part = left < RDMA_PART ? left : RDMA_PART;
    struct rdma_work how = {0};
    struct rdma_flight flight = {.event = item->event};
    if (!find_place(rdma, peer, item, piece->dst + peer->offset, part, &how))
        return 0;
    uint32_t p = choose_pair(peer, piece->bytes);
    if (p == peer->pairs || !find_source(rdma, piece->src + peer->offset, part, &how, &flight))
        return 0;
    item->event->unwritten++;
    item->event->unread += flight.frees;
    struct rdma_work *work = add_work(rdma, peer, p, &flight);
    how.id = work->id;
    *work = how;
    work->op = RDMA_WRITE;
    peer->pair[p].dirty = 1;
    if (work->copied) /* read by the post: before the event says so */
        post_batch(rdma, peer, &peer->pair[p]);
    peer->offset += part;
    if (peer->offset < piece->bytes)
        return 1;
    peer->offset = 0;
    if (++peer->piece < item->count)
        return 1;
    peer->piece = 0;
    peer->head++;
    part_read(item->event); /* the counts that stood for parts not yet on their way */
    part_written(item->event);
    return 1;
}

/* ---- words and signals */

static int add_signal(struct rdma *rdma, struct rdma_peer *peer, const struct rdma_item *item)
{
    static const struct rdma_flight nothing;
    for (uint32_t p = 0; p < peer->pairs; p++)
        if (!has_room(&peer->pair[p], 1))
            return 0;
    for (uint32_t p = 1; p < peer->pairs; p++) {
        if (!peer->pair[p].dirty)
            continue;
        peer->pair[p].dirty = 0;
        peer->pair[p].flags_out++;
        add_work(rdma, peer, p, &nothing)->op = RDMA_FLAG;
    }
    add_record(rdma, peer,
               (struct rdma_record){.kind = RDMA_SIGNAL, .at = item->at, .a = item->word});
    peer->head++;
    return 1;
}

static int add_item(struct rdma *rdma, struct rdma_peer *peer)
{
    if (peer->head == peer->tail)
        return has_room(&peer->pair[0], 1) && add_bye(rdma, peer);
    struct rdma_item *item = &peer->queue[peer->head % RDMA_QUEUE];
    if (item->kind == 0)
        return add_data(rdma, peer, item);
    if (item->kind == RDMA_SIGNAL)
        return add_signal(rdma, peer, item);
    if (!has_room(&peer->pair[0], 1))
        return 0;
    add_record(rdma, peer,
               (struct rdma_record){.kind = RDMA_STORE, .at = item->at, .a = item->word});
    peer->head++;
    return 1;
}

void rdma_pump(struct rdma *rdma, struct rdma_peer *peer)
{
    if (!peer->pairs || peer->broken || rdma->cut)
        return;
    int went = 1;
    while (went && !peer->broken) {
        went = has_room(&peer->pair[0], 1) && add_urgent(rdma, peer);
        went |= add_item(rdma, peer);
        /* Asking for the output's place is what lets data go on. */
        went |= peer->owes_want && has_room(&peer->pair[0], 1);
    }
    for (uint32_t p = 0; p < peer->pairs; p++)
        post_batch(rdma, peer, &peer->pair[p]);
}

int rdma_idle(const struct rdma_peer *peer)
{
    if (peer->head != peer->tail || peer->owes_bye || peer->owes_out || peer->owes_want)
        return 0;
    for (uint32_t p = 0; p < peer->pairs; p++)
        if (peer->pair[p].posted != peer->pair[p].done)
            return 0;
    return 1;
}

/* ---- receives */

int rdma_post_receive(struct rdma *rdma, struct rdma_peer *peer, uint32_t pair, uint32_t slot)
{
    struct rdma_record *to = &peer->in[pair * RDMA_RECEIVES + slot];
    return rdma->nic->ops->receive(rdma->nic, peer->pair[pair].pair,
                                   rdma_id(peer->rank, pair, 1, slot), (char *)to, sizeof *to,
                                   peer->records.own_key);
}
