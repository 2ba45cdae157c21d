/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving: what peers put into this rank's memory, and the flags behind it. */
#include "clock.h"
#include "net.h"

#include <errno.h>
#include <sys/socket.h>

enum took { MORE, TOOK, STALLED, DAMAGED };

/* ---- data */

static char *place_of(const struct net *net, uint64_t at)
{
    if (at < FAR_OUT)
        return net->comm->base + at;
    return (char *)(uintptr_t)atomic_load_explicit(&net->far->out, memory_order_relaxed) +
           (at - FAR_OUT);
}

static struct far_landing *landing_of(const struct net *net)
{
    return atomic_load_explicit(&net->far->landing, memory_order_acquire);
}

/* NULL: it cannot be taken. */
static char *room_for(const struct net *net, const struct net_stream *stream)
{
    struct far_landing *landing = landing_of(net);
    if (!landing)
        return place_of(net, stream->in.at);
    return landing->room(landing, stream->peer->rank, stream->index, stream->in.at,
                         stream->in.bytes);
}

static enum took end_data(struct net *net, struct net_stream *stream)
{
    struct far_landing *landing = landing_of(net);
    if (!net->deaf && !frame_body_right(&stream->in, stream->to))
        return DAMAGED;
    if (!net->deaf && landing &&
        !landing->land(landing, stream->peer->rank, stream->index, stream->in.bytes))
        return DAMAGED;
    stream->in_body = 0;
    stream->data_in++;
    stream->hurried |= !stream->in.b;
    return TOOK;
}

/* From the buffer, as far as it goes. */
static enum took take_data(struct net *net, struct net_stream *stream)
{
    size_t left = stream->in.bytes - stream->body_got;
    size_t have = stream->end - stream->begin;
    size_t part = have < left ? have : left;
    if (!net->deaf && part)
        memcpy(stream->to + stream->body_got, stream->buffer + stream->begin, part);
    stream->begin += part;
    stream->body_got += part;
    return stream->body_got == stream->in.bytes ? end_data(net, stream) : MORE;
}

/* ---- the other kinds */

static enum took take_store(const struct net *net, const struct frame *frame)
{
    struct far_landing *landing = landing_of(net);
    if (landing)
        return net->deaf || landing->store(landing, frame->at, frame->a) ? TOOK : DAMAGED;
    atomic_store_explicit((rt_word *)(void *)(net->comm->base + frame->at), frame->a,
                          memory_order_relaxed);
    return TOOK;
}

static enum took raise_sem(const struct net *net, const struct net_peer *peer,
                           const struct frame *frame)
{
    const struct peal_comm *comm = net->comm;
    struct far_landing *landing = landing_of(net);
    if (landing)
        return net->deaf || landing->raise(landing, peer->rank, (uint32_t)frame->at, frame->a)
                   ? TOOK
                   : DAMAGED;
    rt_word *cell = rt_sem(comm->base, &comm->layout, comm->rank, peer->rank, (uint32_t)frame->at);
    rt_raise(cell, (uint32_t)frame->a, (uint32_t)(frame->a >> 32));
    rt_far_news(net->far);
    return TOOK;
}

/* TOOK: all that was sent before it is in place. On its own stream that has come before it, or will
 * never. */
static enum took is_behind(const struct net_peer *peer, const char *body)
{
    for (uint32_t s = 0; s < peer->streams; s++) {
        uint64_t before;
        memcpy(&before, body + 8 * s, 8);
        if (peer->stream[s].data_in < before)
            return s == 0 ? DAMAGED : STALLED;
    }
    return TOOK;
}

static void note_status(const struct net *net, const struct net_peer *peer,
                        const struct frame *frame, const char *body)
{
    struct frame_wait wait;
    memcpy(&wait, body, sizeof wait);
    const struct peal_comm *comm = net->comm;
    struct rt_board *board = rt_board(comm->base, &comm->layout, peer->rank);
    atomic_store_explicit(&board->lane, (uint32_t)(frame->b >> 32), memory_order_relaxed);
    atomic_store_explicit(&board->step, (uint32_t)frame->b, memory_order_relaxed);
    atomic_store_explicit(&board->awaited, wait.awaited, memory_order_relaxed);
    for (unsigned i = 0; i < 3; i++)
        atomic_store_explicit(&board->asked[i], wait.asked[i], memory_order_relaxed);
    atomic_store_explicit(&board->waiting, wait.call, memory_order_release);
    atomic_store_explicit(&board->done, (uint32_t)frame->at, memory_order_release);
    atomic_store_explicit(&board->call, frame->a, memory_order_release);
}

static void note_error(const struct net *net, const char *body)
{
    struct rt_error error;
    memcpy(&error, body, sizeof error);
    if (error.status < 0 && error.status >= PEAL_ERR_INTERNAL && error.rank < net->nranks &&
        (error.culprit < net->nranks || error.culprit == RT_NOBODY))
        rt_fail(net->comm->base, &error);
}

static void note_bye(const struct net *net, struct net_peer *peer, const struct frame *frame)
{
    const struct peal_comm *comm = net->comm;
    if (frame->at == 1) {
        peer->bye_answered = 1;
        return;
    }
    atomic_store_explicit(&rt_board(comm->base, &comm->layout, peer->rank)->done,
                          (uint32_t)frame->a, memory_order_release);
    peer->left = 1;
    peer->owes_answer = 1;
}

static void answer(struct net *net, struct net_peer *peer, const struct frame *frame,
                   struct net_stream *stream)
{
    (void)pthread_mutex_lock(&net->lock);
    if (frame->kind == FRAME_ACK)
        net_acked(stream, frame->a);
    else if (frame->kind == FRAME_BYE)
        note_bye(net, peer, frame);
    else
        peer->owes_status = 1;
    net_pump(net, peer);
    (void)pthread_mutex_unlock(&net->lock);
    if (frame->kind == FRAME_ACK)
        rt_far_news(net->far);
}

static enum took take_small(struct net *net, struct net_stream *stream, const char *body)
{
    struct net_peer *peer = stream->peer;
    const struct frame *frame = &stream->in;
    if (!frame_body_right(frame, body))
        return DAMAGED;
    switch (frame->kind) {
    case FRAME_STORE:
        return take_store(net, frame);
    case FRAME_SIGNAL: {
        enum took behind = is_behind(peer, body);
        return behind == TOOK ? raise_sem(net, peer, frame) : behind;
    }
    case FRAME_ERROR:
        note_error(net, body);
        return TOOK;
    case FRAME_STATUS:
        note_status(net, peer, frame, body);
        return TOOK;
    default:
        answer(net, peer, frame, stream);
        return TOOK;
    }
}

/* ---- frames */

static uint32_t sems_here(const struct net *net)
{
    const struct far_landing *landing = landing_of(net);
    return landing ? landing->sems : net->comm->layout.nsems;
}

static int check(struct net *net, const struct net_stream *stream)
{
    const struct peal_comm *comm = net->comm;
    struct frame_bounds bounds = {.layout = &comm->layout,
                                  .rank = comm->rank,
                                  .peer = stream->peer->rank,
                                  .streams = stream->peer->streams,
                                  .stream = stream->index,
                                  .received = stream->data_in,
                                  .sems = sems_here(net)};
    bounds.out_bytes = net->deaf || landing_of(net)
                           ? FAR_OUT
                           : atomic_load_explicit(&net->far->out_bytes, memory_order_acquire);
    bounds.sent = UINT64_MAX;
    if (stream->in.kind == FRAME_ACK) {
        (void)pthread_mutex_lock(&net->lock);
        bounds.sent = stream->data_sent;
        bounds.acked = stream->data_acked;
        (void)pthread_mutex_unlock(&net->lock);
    }
    return frame_check(&stream->in, &bounds);
}

/* The next frame in the buffer. */
static enum took take(struct net *net, struct net_stream *stream)
{
    size_t have = stream->end - stream->begin;
    if (stream->in_body) /* the rest may have been read straight to its place */
        return have || stream->body_got == stream->in.bytes ? take_data(net, stream) : MORE;
    if (have < sizeof stream->in)
        return MORE;
    memcpy(&stream->in, stream->buffer + stream->begin, sizeof stream->in);
    if (!check(net, stream))
        return DAMAGED;
    if (stream->in.kind == FRAME_DATA) {
        stream->begin += sizeof stream->in;
        stream->in_body = 1;
        stream->body_got = 0;
        stream->to = net->deaf ? NULL : room_for(net, stream);
        if (!net->deaf && !stream->to)
            return DAMAGED;
        return have > sizeof stream->in ? take_data(net, stream) : MORE;
    }
    if (have < sizeof stream->in + stream->in.bytes)
        return MORE;
    enum took took = take_small(net, stream, stream->buffer + stream->begin + sizeof stream->in);
    if (took == TOOK)
        stream->begin += sizeof stream->in + stream->in.bytes;
    return took;
}

static enum took take_all(struct net *net, struct net_stream *stream)
{
    enum took took;
    do
        took = take(net, stream);
    while (took == TOOK);
    if (took == DAMAGED) {
        struct rt_error error = {.status = PEAL_ERR_PEER,
                                 .rank = net->comm->rank,
                                 .culprit = stream->peer->rank,
                                 .call = net->comm->stamp,
                                 .reason = RT_DAMAGED};
        rt_fail(net->comm->base, &error);
        net->transport.tell(&net->transport, &error);
    }
    return took;
}

/* ---- sockets */

static void make_room(struct net_stream *stream)
{
    size_t have = stream->end - stream->begin;
    if (stream->begin == 0)
        return;
    memmove(stream->buffer, stream->buffer + stream->begin, have);
    stream->begin = 0;
    stream->end = have;
}

/* Straight to where it belongs when much is to come; else into the buffer. */
static ssize_t read_some(const struct net *net, struct net_stream *stream, int *emptied)
{
    size_t left = stream->in_body ? stream->in.bytes - stream->body_got : 0;
    make_room(stream);
    if (left >= NET_BUFFER / 2 && stream->end == 0 && !net->deaf) {
        ssize_t got = recv(stream->fd, stream->to + stream->body_got, left, MSG_DONTWAIT);
        stream->body_got += got > 0 ? (size_t)got : 0;
        *emptied = got > 0 && (size_t)got < left;
        return got;
    }
    size_t room = NET_BUFFER - stream->end;
    ssize_t got = recv(stream->fd, stream->buffer + stream->end, room, MSG_DONTWAIT);
    *emptied = got > 0 && (size_t)got < room;
    stream->end += got > 0 ? (size_t)got : 0;
    return got;
}

/* At once where a sender waits for it, and before he has to; else with what is sent next. */
static void owe_ack(struct net *net, struct net_stream *stream)
{
    (void)pthread_mutex_lock(&net->lock);
    if (stream->ack_due != stream->data_in) {
        stream->ack_due = stream->data_in;
        if (stream->hurried || stream->ack_due - stream->ack_told >= NET_WINDOW / 4)
            net_pump(net, stream->peer);
        else
            net->owes_acks = 1;
    }
    stream->hurried = 0;
    (void)pthread_mutex_unlock(&net->lock);
}

static void set_stalled(struct net *net, struct net_stream *stream, int stalled)
{
    if (stream->stalled == stalled)
        return;
    (void)pthread_mutex_lock(&net->lock);
    stream->stalled = stalled;
    net_watch(net, stream);
    (void)pthread_mutex_unlock(&net->lock);
}

/* What is there of one stream; a bounded number of reads, for the others' sake. All that has been
 * read is taken: of what is left in the buffer the socket tells nobody. */
static int receive_one(struct net *net, struct net_stream *stream)
{
    int emptied = 0;
    for (unsigned i = 0;; i++) {
        enum took took = take_all(net, stream);
        if (took == DAMAGED)
            return 0;
        set_stalled(net, stream, took == STALLED);
        if (took == STALLED || emptied || i == NET_READS)
            break;
        ssize_t got = read_some(net, stream, &emptied);
        if (got == 0)
            return 0;
        if (got < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
            return 0;
        if (got < 0)
            break;
    }
    owe_ack(net, stream);
    return 1;
}

/* A peer's end of one stream may be known here before what it has said on the first: why. */
static void hear_last(struct net *net, const struct net_stream *lost)
{
    struct net_stream *first = &lost->peer->stream[0];
    if (first != lost && !first->stalled && !first->closed)
        (void)receive_one(net, first);
}

int net_receive(struct net *net, struct net_stream *stream)
{
    struct net_peer *peer = stream->peer;
    atomic_store_explicit(&peer->heard_ns, rt_now_ns(), memory_order_relaxed);
    if (!stream->stalled && !receive_one(net, stream)) {
        hear_last(net, stream);
        return 0;
    }
    /* Data on another stream may be what stream 0 waits for. */
    if (peer->stream[0].stalled && !peer->stream[0].closed)
        return stream->index == 0 || receive_one(net, &peer->stream[0]);
    return 1;
}
