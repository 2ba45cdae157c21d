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

static struct net_frame *couple(struct net_stream *stream, struct frame head)
{
    struct net_frame *frame = &stream->train[stream->frames++];
    frame->head = head;
    frame->body = frame->small;
    frame->frees = NULL;
    return frame;
}

static int begin_small(struct net_stream *stream, struct frame head)
{
    struct net_frame *frame = couple(stream, head);
    frame_seal(&frame->head, frame->small);
    return 1;
}

static int begin_error(const struct net *net, struct net_stream *stream)
{
    struct net_frame *frame =
        couple(stream, (struct frame){.kind = FRAME_ERROR, .bytes = sizeof net->error});
    memcpy(frame->small, &net->error, sizeof net->error);
    frame_seal(&frame->head, frame->small);
    return 1;
}

static int begin_status(const struct net *net, struct net_stream *stream)
{
    const struct rt_board *board = net->comm->board;
    struct frame_wait wait;
    struct frame head = {.kind = FRAME_STATUS, .bytes = sizeof wait};
    head.at = atomic_load_explicit(&board->done, memory_order_acquire);
    head.a = atomic_load_explicit(&board->call, memory_order_acquire);
    wait.call = atomic_load_explicit(&board->waiting, memory_order_acquire);
    wait.awaited = atomic_load_explicit(&board->awaited, memory_order_relaxed);
    for (unsigned i = 0; i < 3; i++)
        wait.asked[i] = atomic_load_explicit(&board->asked[i], memory_order_relaxed);
    head.b = (uint64_t)atomic_load_explicit(&board->lane, memory_order_relaxed) << 32 |
             atomic_load_explicit(&board->step, memory_order_relaxed);
    struct net_frame *frame = couple(stream, head);
    memcpy(frame->small, &wait, sizeof wait);
    frame_seal(&frame->head, frame->small);
    return 1;
}

/* What goes ahead of the queue; what is asked and said beside an error, ahead of that: behind it
 * the other end may go. */
static int begin_urgent(const struct net *net, struct net_peer *peer, struct net_stream *stream)
{
    if (stream->ack_due != stream->ack_told) {
        stream->ack_told = stream->ack_due;
        return begin_small(stream, (struct frame){.kind = FRAME_ACK, .a = stream->ack_told});
    }
    if (stream->index != 0)
        return 0;
    if (peer->owes_status) {
        peer->owes_status = 0;
        return begin_status(net, stream);
    }
    if (peer->owes_ask) {
        peer->owes_ask = 0;
        return begin_small(stream, (struct frame){.kind = FRAME_ASK});
    }
    if (peer->owes_error) {
        peer->owes_error = 0;
        return begin_error(net, stream);
    }
    if (peer->owes_answer) {
        peer->owes_answer = 0;
        return begin_small(stream, (struct frame){.kind = FRAME_BYE, .at = 1});
    }
    return 0;
}

static int begin_signal(const struct net_peer *peer, struct net_stream *stream,
                        const struct net_item *item)
{
    struct net_frame *frame = couple(stream, (struct frame){.kind = FRAME_SIGNAL,
                                                            .bytes = 8 * peer->streams,
                                                            .at = item->at,
                                                            .a = item->word,
                                                            .b = peer->streams});
    for (uint32_t s = 0; s < peer->streams; s++)
        memcpy(frame->small + 8 * s, &peer->stream[s].data_sent, 8);
    frame_seal(&frame->head, frame->small);
    return 1;
}

/* The next part of the item at the head. 0: the stream has enough on its way. Sources are free when
 * no stream is still to read them: each data frame of a transfer counts, and the last one begun
 * takes the count that it was issued with. */
static int begin_data(const struct net *net, struct net_peer *peer, struct net_stream *stream,
                      struct net_item *item)
{
    const struct rt_piece *piece = &item->pieces[peer->piece];
    struct rt_event *event = item->event;
    size_t left = piece->bytes - peer->offset;
    size_t part = left < FRAME_DATA_MAX ? left : FRAME_DATA_MAX;
    if (part > FRAME_DATA_MAX - stream->loaded ||
        stream->data_sent - stream->data_acked == NET_WINDOW)
        return 0;
    stream->flight[stream->data_sent++ % NET_WINDOW] = event;
    stream->loaded += part;
    event->unwritten++;
    event->unread++;
    uint64_t at = (uint64_t)((uintptr_t)piece->dst - (uintptr_t)net->comm->base) + peer->offset;
    struct net_frame *frame = couple(stream, (struct frame){.kind = FRAME_DATA,
                                                            .bytes = (uint32_t)part,
                                                            .at = at,
                                                            .a = stream->data_sent,
                                                            .b = event->unhurried});
    frame->body = piece->src + peer->offset;
    frame->frees = event;
    frame_seal(&frame->head, frame->body);
    peer->offset += part;
    if (peer->offset < piece->bytes)
        return 1;
    peer->offset = 0;
    if (++peer->piece < item->count)
        return 1;
    peer->piece = 0;
    peer->head++;
    part_written(event); /* the counts that stood for parts not yet on their way */
    part_read(event);
    return 1;
}

/* With the last call that it has returned from: in that one nobody misses it. */
static int begin_bye(const struct net *net, struct net_stream *stream)
{
    uint32_t done = atomic_load_explicit(&net->comm->board->done, memory_order_acquire);
    return begin_small(stream, (struct frame){.kind = FRAME_BYE, .a = done});
}

static int begin_item(const struct net *net, struct net_peer *peer, struct net_stream *stream)
{
    if (peer->held)
        return 0;
    if (peer->head == peer->tail) {
        if (!peer->owes_bye || stream->index != 0)
            return 0;
        peer->owes_bye = 0;
        return begin_bye(net, stream);
    }
    struct net_item *item = &peer->queue[peer->head % NET_QUEUE];
    if (item->kind == FRAME_DATA) {
        int first = peer->piece == 0 && peer->offset == 0;
        if (!begin_data(net, peer, stream, item))
            return 0;
        stream->items += (uint32_t)first;
        return 1;
    }
    if (stream->index != 0)
        return 0;
    peer->head++;
    stream->items++;
    if (item->kind == FRAME_SIGNAL)
        return begin_signal(peer, stream, item);
    return begin_small(stream,
                       (struct frame){.kind = FRAME_STORE, .at = item->at, .a = item->word});
}

/* As many frames as there are and fit. */
static void load(const struct net *net, struct net_peer *peer, struct net_stream *stream)
{
    stream->next = stream->frames = stream->items = 0;
    stream->loaded = 0;
    while (stream->frames < NET_TRAIN &&
           (begin_urgent(net, peer, stream) || begin_item(net, peer, stream)))
        continue;
    if (stream->items) {
        rt_word *writes = &net->far->sent[peer->rank].writes;
        atomic_fetch_add_explicit(writes, 1, memory_order_relaxed);
    }
}

/* ---- sockets */

static size_t frame_bytes(const struct net_frame *frame)
{
    return sizeof frame->head + frame->head.bytes;
}

/* What is left of the train. Gives the entries used. */
static unsigned list_parts(const struct net_stream *stream, struct iovec parts[2 * NET_TRAIN])
{
    unsigned used = 0;
    size_t skip = stream->sent;
    for (uint32_t f = stream->next; f < stream->frames; f++, skip = 0) {
        const struct net_frame *frame = &stream->train[f];
        size_t head = sizeof frame->head;
        if (skip < head)
            parts[used++] = (struct iovec){(char *)(uintptr_t)&frame->head + skip, head - skip};
        size_t past = skip > head ? skip - head : 0;
        if (frame->head.bytes > past)
            parts[used++] =
                (struct iovec){(void *)(uintptr_t)(frame->body + past), frame->head.bytes - past};
    }
    return used;
}

static void sent_more(struct net_stream *stream, size_t bytes)
{
    while (bytes > 0) {
        const struct net_frame *frame = &stream->train[stream->next];
        size_t left = frame_bytes(frame) - stream->sent;
        if (bytes < left) {
            stream->sent += bytes;
            return;
        }
        bytes -= left;
        stream->sent = 0;
        stream->next++;
        if (frame->frees)
            part_read(frame->frees);
    }
}

/* 1: the train is out. 0: the socket is full. -1: the link is over. */
static int flush(struct net_stream *stream)
{
    while (stream->next < stream->frames) {
        struct iovec parts[2 * NET_TRAIN];
        struct msghdr message = {.msg_iov = parts};
        message.msg_iovlen = list_parts(stream, parts);
        ssize_t sent = sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
        sent_more(stream, (size_t)sent);
    }
    return 1;
}

static void pump_stream(struct net *net, struct net_peer *peer, struct net_stream *stream)
{
    int done = 1;
    while (done == 1 && !peer->gone) {
        if (stream->next == stream->frames)
            load(net, peer, stream);
        if (stream->next == stream->frames)
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

/* A call has failed: its caller may do what it likes with the buffers. Frames of a train that is
 * half out are finished from copies. */
void net_cut(struct net_peer *peer)
{
    peer->head = peer->tail;
    peer->held = peer->listed = 0;
    peer->piece = 0;
    peer->offset = 0;
    for (uint32_t s = 0; s < peer->streams; s++) {
        struct net_stream *stream = &peer->stream[s];
        char *copy = stream->spare;
        for (uint32_t f = stream->next; f < stream->frames; f++) {
            struct net_frame *frame = &stream->train[f];
            if (frame->head.kind != FRAME_DATA)
                continue;
            memmove(copy, frame->body, frame->head.bytes);
            frame->body = copy;
            copy += frame->head.bytes;
        }
    }
}

int net_unsent(const struct net_peer *peer)
{
    if (peer->head != peer->tail || peer->owes_error || peer->owes_bye)
        return 1;
    for (uint32_t s = 0; s < peer->streams; s++)
        if (peer->stream[s].next != peer->stream[s].frames)
            return 1;
    return 0;
}

int net_idle(const struct net_peer *peer)
{
    for (uint32_t s = 0; s < peer->streams; s++)
        if (peer->stream[s].data_sent != peer->stream[s].data_acked)
            return 0;
    return !net_unsent(peer);
}
