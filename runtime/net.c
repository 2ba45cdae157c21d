/* SPDX-License-Identifier: Apache-2.0 */
/* The transport over TCP: its life, its thread, and the calling thread's side. */
#define _GNU_SOURCE /* ppoll */
#include "net.h"
#include "clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64
#define TICK_MS 100
/* How long the thread leaves all to the calling thread, which listens itself. */
#define ASIDE_MS 1

/* ---- watching */

static uint32_t wanted(const struct net_stream *stream)
{
    return (stream->stalled ? 0u : (uint32_t)EPOLLIN) | (stream->armed ? (uint32_t)EPOLLOUT : 0u);
}

void net_watch(const struct net *net, const struct net_stream *stream)
{
    struct epoll_event event = {.events = wanted(stream)};
    event.data.ptr = (void *)(uintptr_t)stream;
    if (net->poll >= 0)
        (void)epoll_ctl(net->poll, EPOLL_CTL_MOD, stream->fd, &event);
}

static int watch_all(struct net *net)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(net->poll, EPOLL_CTL_ADD, net->wake, &event) != 0)
        return 0;
    for (uint32_t r = 0; r < net->nranks; r++)
        for (uint32_t s = 0; s < net->peers[r].streams; s++) {
            struct net_stream *stream = &net->peers[r].stream[s];
            event.data.ptr = stream;
            if (epoll_ctl(net->poll, EPOLL_CTL_ADD, stream->fd, &event) != 0)
                return 0;
        }
    return 1;
}

void net_lose(struct net *net, struct net_peer *peer)
{
    (void)pthread_mutex_lock(&net->lock);
    peer->gone = 1;
    for (uint32_t s = 0; s < peer->streams; s++) {
        if (!peer->stream[s].closed)
            (void)epoll_ctl(net->poll, EPOLL_CTL_DEL, peer->stream[s].fd, NULL);
        peer->stream[s].closed = 1;
    }
    (void)pthread_mutex_unlock(&net->lock);
}

/* ---- listening: the calling thread's while it waits, else the thread's */

static void serve(struct net *net, struct net_stream *stream, uint32_t events)
{
    if (stream->closed)
        return;
    if (events & EPOLLOUT) {
        (void)pthread_mutex_lock(&net->lock);
        net_pump(net, stream->peer);
        (void)pthread_mutex_unlock(&net->lock);
        rt_far_news(net->far); /* sources may be free */
    }
    if (events & ~(uint32_t)EPOLLOUT && !net_receive(net, stream))
        net_lose(net, stream->peer);
}

/* Whoever is woken takes it back: it would wake for ever. */
static void hear_wake(const struct net *net)
{
    uint64_t woken;
    (void)!read(net->wake, &woken, sizeof woken);
}

/* With `hearing`. */
static void serve_all(struct net *net, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++)
        if (events[i].data.ptr)
            serve(net, events[i].data.ptr, events[i].events);
        else
            hear_wake(net);
}

static int is_driven(struct net *net)
{
    return atomic_load_explicit(&net->driven, memory_order_relaxed) != 0;
}

/* Woken for what the calling thread takes is woken for nothing: so for a while it is not. */
static void stand_aside(struct net *net)
{
    struct pollfd one = {.fd = net->wake, .events = POLLIN};
    if (poll(&one, 1, ASIDE_MS) > 0)
        hear_wake(net);
}

static void pay_acks(struct net *net)
{
    (void)pthread_mutex_lock(&net->lock);
    for (uint32_t r = 0; net->owes_acks && r < net->nranks; r++)
        if (net->peers[r].streams && !net->peers[r].gone)
            net_pump(net, &net->peers[r]);
    net->owes_acks = 0;
    (void)pthread_mutex_unlock(&net->lock);
}

static void net_pay(struct far_transport *self)
{
    pay_acks(net_of(self));
}

static void *net_main(void *argument)
{
    struct net *net = argument;
    while (!atomic_load_explicit(&net->stop, memory_order_acquire)) {
        struct epoll_event events[EVENTS];
        pay_acks(net); /* also while the calling thread waits: its peer may wait for them */
        if (atomic_exchange_explicit(&net->driven, 0, memory_order_relaxed)) {
            stand_aside(net);
            continue;
        }
        int count = epoll_wait(net->poll, events, EVENTS, TICK_MS);
        (void)pthread_mutex_lock(&net->hearing);
        if (!is_driven(net))
            serve_all(net, events, count);
        (void)pthread_mutex_unlock(&net->hearing);
    }
    return NULL;
}

static int net_listen(struct far_transport *self)
{
    struct net *net = net_of(self);
    struct epoll_event events[EVENTS];
    if (!net->beside)
        atomic_store_explicit(&net->driven, 1, memory_order_relaxed);
    if (pthread_mutex_trylock(&net->hearing) != 0)
        return 0;
    int count = epoll_wait(net->poll, events, EVENTS, 0);
    serve_all(net, events, count);
    (void)pthread_mutex_unlock(&net->hearing);
    return count > 0;
}

static void net_nap(struct far_transport *self, uint64_t ns)
{
    struct net *net = net_of(self);
    struct timespec limit = {0, (long)ns};
    struct pollfd one = {.fd = net->poll, .events = POLLIN};
    atomic_store_explicit(&net->driven, 1, memory_order_relaxed);
    if (ppoll(&one, 1, &limit, NULL) > 0)
        (void)net_listen(self);
}

/* What is not yet out goes out now, and not when the thread looks next. */
static void net_rest(struct far_transport *self)
{
    struct net *net = net_of(self);
    uint64_t one = 1;
    uint32_t waiting = 0;
    if (!is_driven(net))
        return;
    (void)pthread_mutex_lock(&net->lock);
    for (uint32_t r = 0; r < net->nranks; r++)
        waiting |= net->peers[r].streams && !net->peers[r].gone && net_unsent(&net->peers[r]);
    (void)pthread_mutex_unlock(&net->lock);
    if (!waiting)
        return;
    atomic_store_explicit(&net->driven, 0, memory_order_relaxed);
    (void)!write(net->wake, &one, sizeof one);
}

/* ---- the calling thread's side */

static struct net_peer *peer_of(struct far_transport *self, uint32_t rank)
{
    return &net_of(self)->peers[rank];
}

/* Only the calling thread puts, so room does not go away. */
static int net_room(struct far_transport *self, uint32_t rank, uint32_t items)
{
    struct net *net = net_of(self);
    struct net_peer *peer = peer_of(self, rank);
    (void)pthread_mutex_lock(&net->lock);
    int room = NET_QUEUE - (peer->tail - peer->head) >= items;
    (void)pthread_mutex_unlock(&net->lock);
    return room;
}

static int is_held(enum far_hold holds, const struct net_item *item)
{
    size_t bytes = 0;
    if (holds != FAR_HOLD_PUTS || item->kind != FRAME_DATA)
        return holds == FAR_HOLD_ALL;
    for (uint32_t i = 0; i < item->count && bytes <= FAR_PUT_BYTES; i++)
        bytes += item->pieces[i].bytes;
    return bytes <= FAR_PUT_BYTES;
}

static void hold(struct net *net, struct net_peer *peer)
{
    peer->held = 1;
    if (!peer->listed)
        net->held[net->nheld++] = peer->rank;
    peer->listed = 1;
}

/* At once as far as the socket takes it, unless more is to come. A word waits for the signal behind
 * it. */
static void put_item(struct far_transport *self, uint32_t rank, const struct net_item *item)
{
    struct net *net = net_of(self);
    struct net_peer *peer = peer_of(self, rank);
    (void)pthread_mutex_lock(&net->lock);
    if (!is_held(net->far->holds, item))
        peer->held = 0;
    else if (peer->head == peer->tail)
        hold(net, peer);
    peer->queue[peer->tail++ % NET_QUEUE] = *item;
    if (!peer->held && item->kind != FRAME_STORE)
        net_pump(net, peer);
    (void)pthread_mutex_unlock(&net->lock);
}

static void net_flush(struct far_transport *self)
{
    struct net *net = net_of(self);
    if (!net->nheld)
        return;
    (void)pthread_mutex_lock(&net->lock);
    for (uint32_t i = 0; i < net->nheld; i++) {
        struct net_peer *peer = &net->peers[net->held[i]];
        peer->held = peer->listed = 0;
        net_pump(net, peer);
    }
    net->nheld = 0;
    (void)pthread_mutex_unlock(&net->lock);
}

static void net_put(struct far_transport *self, uint32_t rank, struct rt_event *event,
                    struct rt_piece *pieces, uint32_t count)
{
    struct net_item item = {.kind = FRAME_DATA, .event = event, .pieces = pieces, .count = count};
    put_item(self, rank, &item);
}

static void net_issue(struct far_transport *self, struct rt_event *event, uint32_t moving)
{
    struct net *net = net_of(self);
    (void)pthread_mutex_lock(&net->lock);
    event->issued++;
    event->far = 1;
    event->unread += moving;
    event->unwritten += moving;
    if (event->unread == 0)
        atomic_store_explicit(&event->freed, event->issued, memory_order_release);
    if (event->unwritten == 0)
        atomic_store_explicit(&event->delivered, event->issued, memory_order_release);
    (void)pthread_mutex_unlock(&net->lock);
}

static void net_store(struct far_transport *self, uint32_t rank, uint64_t at, uint64_t word)
{
    struct net_item item = {.kind = FRAME_STORE, .at = at, .word = word};
    put_item(self, rank, &item);
}

static void net_signal(struct far_transport *self, uint32_t rank, uint32_t sem, uint32_t count,
                       uint32_t digest)
{
    struct net_item item = {
        .kind = FRAME_SIGNAL, .at = sem, .word = (uint64_t)digest << 32 | count};
    put_item(self, rank, &item);
}

static void net_cut_all(struct far_transport *self)
{
    struct net *net = net_of(self);
    (void)pthread_mutex_lock(&net->hearing);
    net->deaf = 1;
    (void)pthread_mutex_unlock(&net->hearing);
    (void)pthread_mutex_lock(&net->lock);
    for (uint32_t r = 0; r < net->nranks; r++)
        net_cut(&net->peers[r]);
    net->nheld = 0;
    (void)pthread_mutex_unlock(&net->lock);
}

static void net_tell(struct far_transport *self, const struct rt_error *error)
{
    struct net *net = net_of(self);
    (void)pthread_mutex_lock(&net->lock);
    net->error = *error;
    for (uint32_t r = 0; r < net->nranks; r++) {
        struct net_peer *peer = &net->peers[r];
        if (!peer->streams || peer->gone)
            continue;
        peer->owes_error = 1;
        if (error->status == PEAL_ERR_MISMATCH) /* what both have asked for is to be told */
            peer->owes_status = peer->owes_ask = 1;
        net_pump(net, peer);
    }
    (void)pthread_mutex_unlock(&net->lock);
}

static void net_ask(struct far_transport *self)
{
    struct net *net = net_of(self);
    (void)pthread_mutex_lock(&net->lock);
    for (uint32_t r = 0; r < net->nranks; r++) {
        struct net_peer *peer = &net->peers[r];
        if (!peer->streams || peer->gone || peer->owes_ask)
            continue;
        peer->owes_ask = 1;
        net_pump(net, peer);
    }
    (void)pthread_mutex_unlock(&net->lock);
}

static enum far_state net_state(struct far_transport *self, uint32_t rank, uint64_t *heard_ns)
{
    struct net *net = net_of(self);
    struct net_peer *peer = peer_of(self, rank);
    (void)pthread_mutex_lock(&net->lock);
    enum far_state state = peer->left ? FAR_LEFT : peer->gone ? FAR_GONE : FAR_HERE;
    (void)pthread_mutex_unlock(&net->lock);
    *heard_ns = atomic_load_explicit(&peer->heard_ns, memory_order_relaxed);
    return state;
}

/* ---- starting and stopping */

static peal_status no_start(struct net *net, const char *what, peal_diag *diag)
{
    if (net->poll >= 0)
        (void)close(net->poll);
    if (net->wake >= 0)
        (void)close(net->wake);
    net->poll = net->wake = -1;
    return peal_fail(diag, PEAL_ERR_IO, "%s for the network's thread: %s", what, strerror(errno));
}

static peal_status net_start(struct far_transport *self, struct peal_comm *comm, peal_diag *diag)
{
    struct net *net = net_of(self);
    uint64_t now = rt_now_ns();
    net->comm = comm;
    for (uint32_t r = 0; r < net->nranks; r++)
        atomic_store_explicit(&net->peers[r].heard_ns, now, memory_order_relaxed);
    net->poll = epoll_create1(EPOLL_CLOEXEC);
    net->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (net->poll < 0 || net->wake < 0 || !watch_all(net))
        return no_start(net, "no events", diag);
    if (pthread_create(&net->thread, NULL, net_main, net) != 0)
        return no_start(net, "no thread", diag);
    return PEAL_OK;
}

/* Everything is out and in place, and each peer has heard the good-bye or left itself. */
static int is_over(struct net *net, uint64_t since)
{
    int over = 1;
    (void)pthread_mutex_lock(&net->lock);
    for (uint32_t r = 0; r < net->nranks; r++) {
        const struct net_peer *peer = &net->peers[r];
        uint64_t heard = atomic_load_explicit(&peer->heard_ns, memory_order_relaxed);
        over &= !peer->streams || peer->gone || (net_idle(peer) && peer->bye_answered) ||
                rt_far_deserted(net->far, r, since, heard);
    }
    (void)pthread_mutex_unlock(&net->lock);
    return over;
}

static void say_bye(struct net *net)
{
    (void)pthread_mutex_lock(&net->lock);
    for (uint32_t r = 0; r < net->nranks; r++) {
        net->peers[r].owes_bye = net->peers[r].streams != 0;
        net_pump(net, &net->peers[r]);
    }
    (void)pthread_mutex_unlock(&net->lock);
}

/* Peers that have something to say to this rank yet see that nobody listens, although its sockets
 * stay as long as its world. By stream 0, which has said before it whatever peers are told. */
static void hang_up(const struct net *net)
{
    for (uint32_t r = 0; r < net->nranks; r++)
        if (net->peers[r].streams)
            (void)shutdown(net->peers[r].stream[0].fd, SHUT_WR);
}

void rt_net_hang_up(struct far_transport *self)
{
    hang_up(net_of(self));
}

void rt_net_beside(struct far_transport *self)
{
    net_of(self)->beside = 1;
}

static void net_stop(struct far_transport *self)
{
    struct net *net = net_of(self);
    uint64_t since = rt_now_ns(), until = since + (uint64_t)net->comm->timeout_ms * 1000000u;
    uint64_t one = 1;
    say_bye(net);
    while (!is_over(net, since) && !rt_world_failed(net->comm) && rt_now_ns() < until)
        rt_sleep_us(200);
    atomic_store_explicit(&net->stop, 1, memory_order_release);
    (void)!write(net->wake, &one, sizeof one);
    (void)pthread_join(net->thread, NULL);
    hang_up(net);
    (void)close(net->poll);
    (void)close(net->wake);
    net->poll = net->wake = -1;
}

/* ---- making */

static void net_free(struct far_transport *self)
{
    struct net *net = net_of(self);
    peal_ctx *ctx = net->far->ctx;
    for (uint32_t r = 0; net->peers && r < net->nranks; r++) {
        struct net_peer *peer = &net->peers[r];
        for (uint32_t s = 0; peer->stream && s < peer->streams; s++) {
            sock_close(&peer->stream[s].fd);
            peal_free(ctx, peer->stream[s].buffer, NET_BUFFER);
            peal_free(ctx, peer->stream[s].spare, FRAME_DATA_MAX);
        }
        peal_free(ctx, peer->stream, peer->streams * sizeof *peer->stream);
        peal_free(ctx, peer->queue, NET_QUEUE * sizeof *peer->queue);
    }
    peal_free(ctx, net->peers, net->nranks * sizeof *net->peers);
    peal_free(ctx, net->held, net->nranks * sizeof *net->held);
    (void)pthread_mutex_destroy(&net->lock);
    (void)pthread_mutex_destroy(&net->hearing);
    peal_free(ctx, net, sizeof *net);
}

static int make_stream(struct net *net, struct net_peer *peer, uint32_t index)
{
    struct net_stream *stream = &peer->stream[index];
    stream->fd = -1;
    stream->index = index;
    stream->peer = peer;
    stream->buffer = peal_alloc(net->far->ctx, NET_BUFFER);
    stream->spare = peal_alloc(net->far->ctx, FRAME_DATA_MAX);
    return stream->buffer && stream->spare;
}

static int make_peer(struct net *net, uint32_t rank)
{
    struct net_peer *peer = &net->peers[rank];
    peal_ctx *ctx = net->far->ctx;
    uint32_t streams = net->far->job->sockets;
    peer->rank = rank;
    if (!net->far->is_far[rank])
        return 1;
    peer->queue = peal_calloc(ctx, NET_QUEUE, sizeof *peer->queue);
    peer->stream = peal_calloc(ctx, streams, sizeof *peer->stream);
    if (!peer->queue || !peer->stream)
        return 0;
    peer->streams = streams;
    for (uint32_t s = 0; s < streams; s++)
        peer->stream[s].fd = -1;
    for (uint32_t s = 0; s < streams; s++)
        if (!make_stream(net, peer, s))
            return 0;
    return 1;
}

static int make_locks(struct net *net)
{
    if (pthread_mutex_init(&net->lock, NULL) != 0)
        return 0;
    if (pthread_mutex_init(&net->hearing, NULL) == 0)
        return 1;
    (void)pthread_mutex_destroy(&net->lock);
    return 0;
}

static const struct far_transport methods = {
    .start = net_start,
    .stop = net_stop,
    .free = net_free,
    .room = net_room,
    .put = net_put,
    .issue = net_issue,
    .store = net_store,
    .signal = net_signal,
    .flush = net_flush,
    .listen = net_listen,
    .nap = net_nap,
    .rest = net_rest,
    .pay = net_pay,
    .cut = net_cut_all,
    .tell = net_tell,
    .ask = net_ask,
    .state = net_state,
};

peal_status rt_net_make(struct rt_far *far, int *links, peal_diag *diag,
                        struct far_transport **transport)
{
    uint32_t sockets = far->job->sockets;
    struct net *net = peal_calloc(far->ctx, 1, sizeof *net);
    if (!net || !make_locks(net)) {
        peal_free(far->ctx, net, sizeof *net);
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    }
    net->transport = methods;
    net->far = far;
    net->poll = net->wake = -1;
    net->nranks = far->job->nranks;
    net->peers = peal_calloc(far->ctx, net->nranks, sizeof *net->peers);
    net->held = peal_calloc(far->ctx, net->nranks, sizeof *net->held);
    int made = net->peers != NULL && net->held != NULL;
    for (uint32_t r = 0; made && r < net->nranks; r++)
        made = make_peer(net, r);
    if (!made) {
        net_free(&net->transport);
        return peal_fail(diag, PEAL_ERR_MEMORY, "out of memory");
    }
    for (uint32_t r = 0; r < net->nranks; r++)
        for (uint32_t s = 0; s < net->peers[r].streams; s++) {
            net->peers[r].stream[s].fd = links[r * sockets + s];
            links[r * sockets + s] = -1;
        }
    *transport = &net->transport;
    return PEAL_OK;
}
