/* SPDX-License-Identifier: Apache-2.0 */
/* The transport over RDMA: its life, its thread, and the calling thread's side. */
#include "rdma.h"
#include "clock.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define YIELDS 64u /* looks in vain before the thread sleeps */
#define TICK_MS 100
#define DONE_MAX 32
#define GRACE_NS 300000000u /* for a peer to say by TCP why it has broken off */
#define FLUSH_NS 5000000000u

/* ---- completions */

static int is_receive(uint64_t id)
{
    return (id >> 32 & 1) != 0;
}

static void complete(struct rdma *rdma, const struct rdma_done *done)
{
    uint32_t rank = (uint32_t)(done->id >> 48), p = (uint32_t)(done->id >> 40 & 0xff);
    uint32_t number = (uint32_t)done->id;
    struct rdma_peer *peer = &rdma->peers[rank];
    enum rdma_how how = (enum rdma_how)done->how;
    if (!is_receive(done->id))
        rdma_completed(rdma, &peer->pair[p], number, how == RDMA_FINE);
    else if (how == RDMA_FINE && !peer->broken && !rdma_received(rdma, peer, p, number, done))
        how = RDMA_DAMAGED;
    if (how == RDMA_FINE)
        return;
    /* A peer that has said good-bye takes its pairs down when it likes. */
    if (how == RDMA_DAMAGED) {
        struct rt_error error = {.status = PEAL_ERR_PEER,
                                 .rank = rdma->comm->rank,
                                 .culprit = rank,
                                 .call = rdma->comm->stamp,
                                 .reason = RT_DAMAGED};
        rt_fail(rdma->comm->base, &error);
        rdma->tcp->tell(rdma->tcp, &error);
    }
    rdma_lose(rdma, peer, how);
}

/* Takes what has ended, and posts what there is room for now. Gives whether there was any. With
 * `hearing`. */
static int take(struct rdma *rdma)
{
    struct rdma_done done[DONE_MAX];
    int count = rdma->nic->ops->poll(rdma->nic, done, DONE_MAX);
    if (count <= 0)
        return 0;
    (void)pthread_mutex_lock(&rdma->lock);
    for (int i = 0; i < count; i++)
        complete(rdma, &done[i]);
    for (int i = 0; i < count; i++)
        rdma_pump(rdma, &rdma->peers[done[i].id >> 48]);
    /* One that waited for a bounce buffer may be any. */
    if (rdma->starved) {
        rdma->starved = 0;
        for (uint32_t r = 0; r < rdma->nranks; r++)
            rdma_pump(rdma, &rdma->peers[r]);
    }
    (void)pthread_mutex_unlock(&rdma->lock);
    rt_far_news(rdma->far);
    return 1;
}

/* ---- the thread */

static int serve(struct rdma *rdma)
{
    (void)pthread_mutex_lock(&rdma->hearing);
    int took = take(rdma);
    (void)pthread_mutex_unlock(&rdma->hearing);
    return took;
}

static void doze(struct rdma *rdma)
{
    struct pollfd list[2] = {{.fd = rdma->nic->fd, .events = POLLIN},
                             {.fd = rdma->wake, .events = POLLIN}};
    /* What came before it was armed makes no event. */
    if (!rdma->nic->ops->arm(rdma->nic) || serve(rdma))
        return;
    (void)poll(list, 2, TICK_MS);
}

static void *rdma_main(void *argument)
{
    struct rdma *rdma = argument;
    uint32_t idle = 0;
    while (!atomic_load_explicit(&rdma->stop, memory_order_acquire)) {
        if (serve(rdma)) {
            idle = 0;
        } else if (++idle < YIELDS) {
            (void)sched_yield();
        } else {
            doze(rdma);
            idle = 0;
        }
    }
    return NULL;
}

/* ---- the calling thread's side */

static int by_tcp(const struct rdma *rdma, uint32_t rank)
{
    return rdma->peers[rank].pairs == 0;
}

/* Only the calling thread puts, so room does not go away. */
static int rdma_room(struct far_transport *self, uint32_t rank, uint32_t items)
{
    struct rdma *rdma = rdma_of(self);
    struct rdma_peer *peer = &rdma->peers[rank];
    if (by_tcp(rdma, rank))
        return rdma->tcp->room(rdma->tcp, rank, items);
    (void)pthread_mutex_lock(&rdma->lock);
    int room = RDMA_QUEUE - (peer->tail - peer->head) >= items;
    (void)pthread_mutex_unlock(&rdma->lock);
    return room;
}

static void put_item(struct rdma *rdma, uint32_t rank, const struct rdma_item *item)
{
    struct rdma_peer *peer = &rdma->peers[rank];
    (void)pthread_mutex_lock(&rdma->lock);
    peer->queue[peer->tail++ % RDMA_QUEUE] = *item;
    if (item->kind != RDMA_STORE) /* a signal is behind it */
        rdma_pump(rdma, peer);
    (void)pthread_mutex_unlock(&rdma->lock);
}

static void rdma_put(struct far_transport *self, uint32_t rank, struct rt_event *event,
                     struct rt_piece *pieces, uint32_t count)
{
    struct rdma *rdma = rdma_of(self);
    struct rdma_item item = {
        .count = count, .call = rdma->comm->stamp, .event = event, .pieces = pieces};
    if (by_tcp(rdma, rank))
        rdma->tcp->put(rdma->tcp, rank, event, pieces, count);
    else
        put_item(rdma, rank, &item);
}

static void rdma_store(struct far_transport *self, uint32_t rank, uint64_t at, uint64_t word)
{
    struct rdma *rdma = rdma_of(self);
    struct rdma_item item = {.kind = RDMA_STORE, .at = at, .word = word};
    if (by_tcp(rdma, rank))
        rdma->tcp->store(rdma->tcp, rank, at, word);
    else
        put_item(rdma, rank, &item);
}

static void rdma_signal(struct far_transport *self, uint32_t rank, uint32_t sem, uint32_t count,
                        uint32_t digest)
{
    struct rdma *rdma = rdma_of(self);
    struct rdma_item item = {
        .kind = RDMA_SIGNAL, .at = sem, .word = (uint64_t)digest << 32 | count};
    if (by_tcp(rdma, rank))
        rdma->tcp->signal(rdma->tcp, rank, sem, count, digest);
    else
        put_item(rdma, rank, &item);
}

/* The thread may sleep, and would have to be woken. */
static int rdma_listen(struct far_transport *self)
{
    struct rdma *rdma = rdma_of(self);
    int took = rdma->mixed && rdma->tcp->listen(rdma->tcp);
    if (pthread_mutex_trylock(&rdma->hearing) != 0)
        return took;
    took |= take(rdma);
    (void)pthread_mutex_unlock(&rdma->hearing);
    return took;
}

static void rdma_pay(struct far_transport *self)
{
    struct rdma *rdma = rdma_of(self);
    if (rdma->tcp->pay)
        rdma->tcp->pay(rdma->tcp);
}

/* Of what goes by RDMA nothing waits. */
static void rdma_flush(struct far_transport *self)
{
    struct rdma *rdma = rdma_of(self);
    if (rdma->tcp->flush)
        rdma->tcp->flush(rdma->tcp);
}

/* ---- the output of a call */

static peal_status rdma_enter(struct far_transport *self, char *out, uint64_t bytes,
                              peal_diag *diag)
{
    struct rdma *rdma = rdma_of(self);
    const struct peal_comm *comm = rdma->comm;
    char *heap = comm->base + comm->layout.heap + comm->layout.heap_bytes * comm->rank;
    uint64_t staged = 2 * comm->staged_bytes;
    int here = (uint64_t)(out - heap) <= comm->layout.heap_bytes;
    (void)pthread_mutex_lock(&rdma->lock);
    rdma->cache.spans[0] = (struct rdma_span){heap, comm->heap_used};
    rdma->cache.spans[1] = (struct rdma_span){heap + comm->layout.heap_bytes - staged, staged};
    if (rdma->out)
        rdma_unuse(rdma->out);
    rdma->out = here && bytes ? rdma_use(&rdma->cache, out, bytes) : NULL;
    rdma->out_at = (uint64_t)(uintptr_t)out;
    rdma->out_bytes = rdma->out ? bytes : 0;
    int fine = rdma->out || !here || !bytes;
    (void)pthread_mutex_unlock(&rdma->lock);
    return fine ? PEAL_OK
                : peal_fail(diag, PEAL_ERR_MEMORY,
                            "%s does not take an output of %llu bytes (a limit on locked memory? "
                            "ulimit -l)",
                            rdma->nic->name, (unsigned long long)bytes);
}

static void rdma_offer(struct far_transport *self)
{
    struct rdma *rdma = rdma_of(self);
    (void)pthread_mutex_lock(&rdma->lock);
    rdma->out_call = rdma->comm->stamp;
    rdma->has_out = 1;
    for (uint32_t r = 0; r < rdma->nranks; r++)
        if (rdma->peers[r].wants) {
            rdma->peers[r].owes_out = 1;
            rdma_pump(rdma, &rdma->peers[r]);
        }
    (void)pthread_mutex_unlock(&rdma->lock);
}

/* ---- failure */

/* Works that may still read a caller's buffer. */
static int is_flushed(struct rdma *rdma)
{
    int flushed = 1;
    (void)pthread_mutex_lock(&rdma->lock);
    for (uint32_t r = 0; r < rdma->nranks; r++)
        for (uint32_t p = 0; p < rdma->peers[r].pairs; p++)
            flushed &= rdma->peers[r].pair[p].posted == rdma->peers[r].pair[p].done;
    (void)pthread_mutex_unlock(&rdma->lock);
    return flushed;
}

/* A pair that has failed lets nothing in, and its works end. */
static void rdma_cut(struct far_transport *self)
{
    struct rdma *rdma = rdma_of(self);
    uint64_t until = rt_now_ns() + FLUSH_NS;
    (void)pthread_mutex_lock(&rdma->lock);
    rdma->cut = 1;
    for (uint32_t r = 0; r < rdma->nranks; r++) {
        rdma->peers[r].head = rdma->peers[r].tail;
        for (uint32_t p = 0; p < rdma->peers[r].pairs; p++)
            rdma->nic->ops->fail(rdma->nic, rdma->peers[r].pair[p].pair);
    }
    (void)pthread_mutex_unlock(&rdma->lock);
    rdma->tcp->cut(rdma->tcp);
    while (!is_flushed(rdma) && rt_now_ns() < until)
        rt_sleep_us(200);
}

static void rdma_tell(struct far_transport *self, const struct rt_error *error)
{
    rdma_of(self)->tcp->tell(rdma_of(self)->tcp, error);
}

static void rdma_ask_all(struct far_transport *self)
{
    rdma_of(self)->tcp->ask(rdma_of(self)->tcp);
}

/* A pair that breaks says less than what TCP may bring a little later: why the other end has
 * broken it. That it has refused a write is known here first. */
static enum far_state rdma_state(struct far_transport *self, uint32_t rank, uint64_t *heard_ns)
{
    struct rdma *rdma = rdma_of(self);
    const struct rdma_peer *peer = &rdma->peers[rank];
    enum far_state state = rdma->tcp->state(rdma->tcp, rank, heard_ns);
    (void)pthread_mutex_lock(&rdma->lock);
    if (state == FAR_HERE && peer->broken == RDMA_REFUSED)
        state = FAR_REFUSED;
    else if (state == FAR_HERE && peer->broken && !peer->bye_in &&
             rt_now_ns() > peer->broken_ns + GRACE_NS)
        state = FAR_BROKEN;
    (void)pthread_mutex_unlock(&rdma->lock);
    return state;
}

/* ---- starting and stopping */

static peal_status rdma_start(struct far_transport *self, struct peal_comm *comm, peal_diag *diag)
{
    struct rdma *rdma = rdma_of(self);
    rdma->comm = comm;
    rdma->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rdma->wake < 0)
        return peal_fail(diag, PEAL_ERR_IO, "no event for the RDMA thread: %s", strerror(errno));
    peal_status status = rdma->tcp->start(rdma->tcp, comm, diag);
    if (status == PEAL_OK && pthread_create(&rdma->thread, NULL, rdma_main, rdma) != 0) {
        rdma->tcp->stop(rdma->tcp);
        status = peal_fail(diag, PEAL_ERR_IO, "no thread for RDMA");
    }
    if (status != PEAL_OK) {
        (void)close(rdma->wake);
        rdma->wake = -1;
    }
    return status;
}

/* Pairs that carried nothing have nothing to end, and may lead nowhere: of rails that do not meet,
 * say. */
static int is_used(const struct rdma_peer *peer)
{
    uint32_t posted = 0;
    for (uint32_t p = 0; p < peer->pairs; p++)
        posted |= peer->pair[p].posted;
    return posted || peer->heard;
}

/* Nothing is under way to a peer, nor from it. */
static int is_over(struct rdma *rdma, uint64_t since)
{
    int over = 1;
    (void)pthread_mutex_lock(&rdma->lock);
    for (uint32_t r = 0; r < rdma->nranks && !rdma->cut; r++) {
        const struct rdma_peer *peer = &rdma->peers[r];
        uint64_t heard;
        if (!is_used(peer) || peer->broken || rdma->tcp->state(rdma->tcp, r, &heard) != FAR_HERE ||
            rt_far_deserted(rdma->far, r, since, heard))
            continue;
        over &= rdma_idle(peer) && peer->bye_answered;
    }
    (void)pthread_mutex_unlock(&rdma->lock);
    return over;
}

static void say_bye(struct rdma *rdma)
{
    (void)pthread_mutex_lock(&rdma->lock);
    for (uint32_t r = 0; r < rdma->nranks; r++) {
        rdma->peers[r].owes_bye = (uint8_t)is_used(&rdma->peers[r]);
        rdma_pump(rdma, &rdma->peers[r]);
    }
    (void)pthread_mutex_unlock(&rdma->lock);
}

static void rdma_stop(struct far_transport *self)
{
    struct rdma *rdma = rdma_of(self);
    uint64_t since = rt_now_ns(), until = since + (uint64_t)rdma->comm->timeout_ms * 1000000u;
    uint64_t one = 1;
    say_bye(rdma);
    while (!is_over(rdma, since) && !rt_world_failed(rdma->comm) && rt_now_ns() < until)
        rt_sleep_us(200);
    rdma->tcp->stop(rdma->tcp);
    atomic_store_explicit(&rdma->stop, 1, memory_order_release);
    (void)!write(rdma->wake, &one, sizeof one);
    (void)pthread_join(rdma->thread, NULL);
    (void)close(rdma->wake);
    rdma->wake = -1;
}

/* ---- making and freeing */

static void free_peer(struct rdma *rdma, struct rdma_peer *peer)
{
    peal_ctx *ctx = rdma->far->ctx;
    uint32_t pairs = rdma->far->job->sockets;
    for (uint32_t p = 0; peer->pair && p < pairs; p++)
        if (peer->pair[p].pair)
            rdma->nic->ops->unpair(rdma->nic, peer->pair[p].pair);
    if (peer->records.bytes)
        rdma->nic->ops->unregion(rdma->nic, &peer->records);
    peal_free(ctx, peer->pair, pairs * sizeof *peer->pair);
    peal_free(ctx, peer->in, rdma_records(pairs) * sizeof *peer->in);
    peal_free(ctx, peer->queue, RDMA_QUEUE * sizeof *peer->queue);
}

static void drop_region(struct rdma *rdma, struct rdma_region *region)
{
    if (region->bytes)
        rdma->nic->ops->unregion(rdma->nic, region);
}

void rt_rdma_drop(struct rdma *rdma)
{
    if (!rdma)
        return;
    peal_ctx *ctx = rdma->far->ctx;
    for (uint32_t r = 0; rdma->peers && r < rdma->nranks; r++)
        free_peer(rdma, &rdma->peers[r]);
    peal_free(ctx, rdma->peers, rdma->nranks * sizeof *rdma->peers);
    if (rdma->nic) {
        rdma_cache_clear(&rdma->cache);
        drop_region(rdma, &rdma->scratch);
        drop_region(rdma, &rdma->bounces);
        rdma->nic->ops->close(rdma->nic);
    }
    peal_free(ctx, rdma->bounce, (size_t)RDMA_BOUNCES * RDMA_PART);
    if (rdma->tcp)
        rdma->tcp->free(rdma->tcp);
    (void)pthread_mutex_destroy(&rdma->lock);
    (void)pthread_mutex_destroy(&rdma->hearing);
    peal_free(ctx, rdma, sizeof *rdma);
}

static void rdma_free_method(struct far_transport *self)
{
    rt_rdma_drop(rdma_of(self));
}

static const struct far_transport methods = {
    .start = rdma_start,
    .stop = rdma_stop,
    .free = rdma_free_method,
    .room = rdma_room,
    .put = rdma_put,
    .store = rdma_store,
    .signal = rdma_signal,
    .flush = rdma_flush,
    .listen = rdma_listen,
    .pay = rdma_pay,
    .enter = rdma_enter,
    .offer = rdma_offer,
    .cut = rdma_cut,
    .tell = rdma_tell,
    .ask = rdma_ask_all,
    .state = rdma_state,
};

struct far_transport *rt_rdma_around(struct rdma *rdma, struct far_transport *tcp)
{
    rdma->transport = methods;
    rdma->tcp = tcp;
    rt_net_beside(tcp);
    for (uint32_t r = 0; r < rdma->nranks; r++)
        rdma->mixed |= rdma->far->is_far[r] && by_tcp(rdma, r);
    return &rdma->transport;
}
