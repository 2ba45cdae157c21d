/* SPDX-License-Identifier: Apache-2.0 */
/* Sending: the queue of a peer into frames, frames into sockets. */
#include "net.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

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

void net_acked(struct net_stream *stream, uint64_t acked)
{
    while (stream->data_acked < acked)
        part_written(stream->flight[stream->data_acked++ % NET_WINDOW]);
}

/* ---- frames */

static void begin(struct net_stream *stream, const char *body)
{
    frame_seal(&stream->head, body);
    stream->body = body;
    stream->sent = 0;
    stream->total = sizeof stream->head + stream->head.bytes;
    stream->frees = NULL;
}

static int begin_small(struct net_stream *stream, struct frame head)
{
    stream->head = head;
    begin(stream, stream->small);
    return 1;
}

static int begin_error(const struct net *net, struct net_stream *stream)
{
    memcpy(stream->small, &net->error, sizeof net->error);
    return begin_small(stream, (struct frame){.kind = FRAME_ERROR, .bytes = sizeof net->error});
}

static int begin_status(const struct net *net, struct net_stream *stream)
{
    const struct rt_board *board = net->comm->board;
    struct frame head = {.kind = FRAME_STATUS};
    head.at = atomic_load_explicit(&board->done, memory_order_acquire);
    head.a = atomic_load_explicit(&board->call, memory_order_acquire);
    head.b = (uint64_t)atomic_load_explicit(&board->lane, memory_order_relaxed) << 32 |
             atomic_load_explicit(&board->step, memory_order_relaxed);
    return begin_small(stream, head);
}

/* What goes ahead of the queue. */
static int begin_urgent(const struct net *net, struct net_peer *peer, struct net_stream *stream)
{
    if (stream->ack_due != stream->ack_told) {
        stream->ack_told = stream->ack_due;
        return begin_small(stream, (struct frame){.kind = FRAME_ACK, .a = stream->ack_told});
    }
    if (stream->index != 0)
        return 0;
    if (peer->owes_error) {
        peer->owes_error = 0;
        return begin_error(net, stream);
    }
    if (peer->owes_status) {
        peer->owes_status = 0;
        return begin_status(net, stream);
    }
    if (peer->owes_ask) {
        peer->owes_ask = 0;
        return begin_small(stream, (struct frame){.kind = FRAME_ASK});
    }
    if (peer->owes_answer) {
        peer->owes_answer = 0;
        return begin_small(stream, (struct frame){.kind = FRAME_BYE, .at = 1});
    }
    return 0;
}

static int begin_signal(struct net_peer *peer, struct net_stream *stream,
                        const struct net_item *item)
{
    for (uint32_t s = 0; s < peer->streams; s++)
        memcpy(stream->small + 8 * s, &peer->stream[s].data_sent, 8);
    return begin_small(stream, (struct frame){.kind = FRAME_SIGNAL,
                                              .bytes = 8 * peer->streams,
                                              .at = item->at,
                                              .a = item->word,
                                              .b = peer->streams});
}

/* The next part of the item at the head. 0: the stream has enough on its way. */
static int begin_data(const struct net *net, struct net_peer *peer, struct net_stream *stream,
                      struct net_item *item)
{
    const struct rt_piece *piece = &item->pieces[peer->piece];
    size_t left = piece->bytes - peer->offset;
    size_t part = left < FRAME_DATA_MAX ? left : FRAME_DATA_MAX;
    if (stream->data_sent - stream->data_acked == NET_WINDOW)
        return 0;
    stream->flight[stream->data_sent++ % NET_WINDOW] = item->event;
    item->event->unwritten++;
    uint64_t at = (uint64_t)((uintptr_t)piece->dst - (uintptr_t)net->comm->base) + peer->offset;
    stream->head = (struct frame){
        .kind = FRAME_DATA, .bytes = (uint32_t)part, .at = at, .a = stream->data_sent};
    begin(stream, piece->src + peer->offset);
    peer->offset += part;
    if (peer->offset < piece->bytes)
        return 1;
    peer->offset = 0;
    if (++peer->piece < item->count)
        return 1;
    peer->piece = 0;
    peer->head++;
    part_written(item->event); /* the count that stood for parts not yet on their way */
    return 1;
}

/* With the last call that it has returned from: in that one nobody misses it. */
static int begin_bye(const struct net *net, struct net_stream *stream)
{
    uint32_t done = atomic_load_explicit(&net->comm->board->done, memory_order_acquire);
    return begin_small(stream, (struct frame){.kind = FRAME_BYE, .a = done});
}

/* Sources are free when no stream is still to read them: each data frame of a transfer counts,
 * and the last one begun takes the count that it was issued with. */
static int begin_item(const struct net *net, struct net_peer *peer, struct net_stream *stream)
{
    if (peer->head == peer->tail) {
        if (!peer->owes_bye || stream->index != 0)
            return 0;
        peer->owes_bye = 0;
        return begin_bye(net, stream);
    }
    struct net_item *item = &peer->queue[peer->head % NET_QUEUE];
    if (item->kind == FRAME_DATA) {
        struct rt_event *event = item->event;
        uint32_t at = peer->head;
        if (!begin_data(net, peer, stream, item))
            return 0;
        event->unread++;
        if (peer->head != at)
            part_read(event);
        stream->frees = event;
        return 1;
    }
    if (stream->index != 0)
        return 0;
    peer->head++;
    if (item->kind == FRAME_SIGNAL)
        return begin_signal(peer, stream, item);
    return begin_small(stream,
                       (struct frame){.kind = FRAME_STORE, .at = item->at, .a = item->word});
}

/* ---- sockets */

/* 1: the frame is out. 0: the socket is full. -1: the link is over. */
static int flush(struct net_stream *stream)
{
    while (stream->sent < stream->total) {
        size_t head = sizeof stream->head;
        struct iovec parts[2] = {{(char *)&stream->head + stream->sent, head - stream->sent},
                                 {(void *)(uintptr_t)stream->body, stream->head.bytes}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        if (stream->sent >= head) {
            parts[1].iov_base = (void *)((uintptr_t)stream->body + stream->sent - head);
            parts[1].iov_len = stream->total - stream->sent;
            message.msg_iov = &parts[1];
            message.msg_iovlen = 1;
        }
        ssize_t sent = sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
        stream->sent += (size_t)sent;
    }
    stream->total = 0;
    if (stream->frees)
        part_read(stream->frees);
    stream->frees = NULL;
    return 1;
}

static void pump_stream(struct net *net, struct net_peer *peer, struct net_stream *stream)
{
    int done = 1;
    while (done == 1 && !peer->gone) {
        if (stream->total == 0 && !begin_urgent(net, peer, stream) &&
            !begin_item(net, peer, stream))
            break;
        done = flush(stream);
    }
    if (done < 0)
        peer->gone = 1;
    int arm = done == 0;
    if (arm != stream->armed && !stream->closed) {
        stream->armed = arm;
        net_watch(net, stream);
    }
}

void net_pump(struct net *net, struct net_peer *peer)
{
    for (uint32_t s = 0; s < peer->streams; s++)
        pump_stream(net, peer, &peer->stream[s]);
}

/* A call has failed: its caller may do what it likes with the buffers. Frames that are half out
 * are finished from copies. */
void net_cut(struct net_peer *peer)
{
    peer->head = peer->tail;
    peer->piece = 0;
    peer->offset = 0;
    for (uint32_t s = 0; s < peer->streams; s++) {
        struct net_stream *stream = &peer->stream[s];
        if (stream->total == 0 || stream->head.kind != FRAME_DATA)
            continue;
        memcpy(stream->spare, stream->body, stream->head.bytes);
        stream->body = stream->spare;
    }
}

int net_idle(const struct net_peer *peer)
{
    if (peer->head != peer->tail || peer->owes_error || peer->owes_bye)
        return 0;
    for (uint32_t s = 0; s < peer->streams; s++)
        if (peer->stream[s].total || peer->stream[s].data_sent != peer->stream[s].data_acked)
            return 0;
    return 1;
}
