/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include <stddef.h>

void frame_seal(struct frame *frame, const void *body)
{
    frame->body_hash = frame->bytes ? peal_hash64(body, frame->bytes) : 0;
    frame->head_hash = peal_hash64(frame, offsetof(struct frame, head_hash));
}

int frame_body_right(const struct frame *frame, const void *body)
{
    return frame->bytes == 0 || peal_hash64(body, frame->bytes) == frame->body_hash;
}

/* [at, at + bytes) in [from, from + room). */
static int within(uint64_t at, uint64_t bytes, uint64_t from, uint64_t room)
{
    return at >= from && bytes <= room && at - from <= room - bytes;
}

/* Scratch of this rank, either parity's copy, or its output. */
static int data_fits(const struct frame *frame, const struct frame_bounds *bounds)
{
    const struct rt_layout *layout = bounds->layout;
    uint64_t copy = layout->scratch_bytes;
    uint64_t own = layout->scratch + 2 * copy * bounds->rank;
    if (frame->bytes == 0 || frame->bytes > FRAME_DATA_MAX || frame->a != bounds->received + 1)
        return 0;
    if (frame->at >= FAR_OUT)
        return within(frame->at - FAR_OUT, frame->bytes, 0, bounds->out_bytes);
    return within(frame->at, frame->bytes, own, copy) ||
           within(frame->at, frame->bytes, own + copy, copy);
}

/* The word that the peer writes in one of the two copies. */
static int store_fits(const struct frame *frame, const struct frame_bounds *bounds)
{
    const struct rt_layout *layout = bounds->layout;
    uint64_t word = bounds->peer * sizeof(rt_word);
    uint64_t own = layout->counts + 2 * layout->count_bytes * bounds->rank + word;
    return frame->bytes == 0 && word < layout->count_bytes &&
           (frame->at == own || frame->at == own + layout->count_bytes);
}

static int signal_fits(const struct frame *frame, const struct frame_bounds *bounds)
{
    return bounds->stream == 0 && frame->at < bounds->sems && frame->b == bounds->streams &&
           frame->bytes == 8 * bounds->streams;
}

static int ack_fits(const struct frame *frame, const struct frame_bounds *bounds)
{
    return frame->bytes == 0 && frame->a >= bounds->acked && frame->a <= bounds->sent;
}

int frame_check(const struct frame *frame, const struct frame_bounds *bounds)
{
    if (frame->head_hash != peal_hash64(frame, offsetof(struct frame, head_hash)))
        return 0;
    switch (frame->kind) {
    case FRAME_DATA:
        return data_fits(frame, bounds);
    case FRAME_STORE:
        return bounds->stream == 0 && store_fits(frame, bounds);
    case FRAME_SIGNAL:
        return signal_fits(frame, bounds);
    case FRAME_ACK:
        return ack_fits(frame, bounds);
    case FRAME_ERROR:
        return bounds->stream == 0 && frame->bytes == sizeof(struct rt_error);
    case FRAME_STATUS:
        return bounds->stream == 0 && frame->bytes == sizeof(struct frame_wait);
    case FRAME_ASK:
    case FRAME_BYE:
        return bounds->stream == 0 && frame->bytes == 0;
    default:
        return 0;
    }
}
