/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels on a link: frames of a head and, for some kinds, a body. Little-endian, as every
 * host that peal is built for. A head is believed only if its checksum is right, and used only if
 * frame_check finds it within this rank's memory.
 *
 * kind     at                      a                    b             body
 * data     name of the place       number on its stream  1: see below the bytes
 * store    name of the word        the word
 * signal   semaphore's index       count, digest above  streams       on each, data before it
 * ack                              data in place so far
 * error                                                               struct rt_error
 * ask
 * status   last call returned from call, digest above   lane, step    struct frame_wait
 * bye      1: answers the other's  last call returned from
 *
 * 1: nobody waits until the data is acknowledged, which may be done with what is sent next.
 */
#ifndef PEAL_RUNTIME_FRAME_H
#define PEAL_RUNTIME_FRAME_H

#include "far.h"

enum frame_kind {
    FRAME_DATA = 1,
    FRAME_STORE,
    FRAME_SIGNAL,
    FRAME_ACK,
    FRAME_ERROR,
    FRAME_ASK,
    FRAME_STATUS,
    FRAME_BYE
};

#define FRAME_DATA_MAX (256u << 10)
#define FRAME_BODY_MAX 64u /* of other kinds: eight streams, or an error */

struct frame {
    uint32_t kind;
    uint32_t bytes; /* of the body */
    uint64_t at;
    uint64_t a;
    uint64_t b;
    uint64_t body_hash;
    uint64_t head_hash; /* of all before it */
};
_Static_assert(sizeof(struct frame) == 48, "the form on the wire");
_Static_assert(sizeof(struct rt_error) <= FRAME_BODY_MAX, "an error fits");

/* In a status: the call in which the rank has waited for long, and for whom; and what it has asked
 * for (differ.c). */
struct frame_wait {
    uint32_t call;
    uint32_t awaited;
    uint64_t asked[3];
};
_Static_assert(sizeof(struct frame_wait) == 32, "the form on the wire");

/* What a peer may name. */
struct frame_bounds {
    const struct rt_layout *layout;
    uint32_t rank; /* this one */
    uint32_t peer;
    uint32_t streams;
    uint32_t stream;   /* on which it came */
    uint64_t received; /* data frames on it */
    uint64_t sent;     /* by this end, for acks */
    uint64_t acked;
    uint64_t out_bytes; /* of the output of the call under way */
    uint32_t sems;      /* of the peer, here */
};

void frame_seal(struct frame *frame, const void *body);
/* 1: its checksum is right, and what it names is there. */
int frame_check(const struct frame *frame, const struct frame_bounds *bounds);
int frame_body_right(const struct frame *frame, const void *body);

#endif
