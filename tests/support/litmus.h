/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small programs of several threads, explored in every order that memory allows. A thread may do
 * any of its operations that is not held back by an earlier one which is still to be done: an
 * acquire holds back all behind it, a release waits for all before it, operations on one place keep
 * their order, and so do those that depend on each other. Reads see the last write done: memory is
 * one for all. This is what the protocols of the device code have to be right under.
 */
#ifndef PEAL_TESTS_LITMUS_H
#define PEAL_TESTS_LITMUS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LITMUS_THREADS 3u
#define LITMUS_OPS 12u
#define LITMUS_PLACES 6u
#define LITMUS_STATES (1u << 20)

enum litmus_kind { LITMUS_NONE, LITMUS_WRITE, LITMUS_READ, LITMUS_AWAIT };

struct litmus_op {
    uint8_t kind; /* await: a poll that ends when the place holds at least `value` */
    uint8_t place;
    uint8_t value; /* written, awaited, or what a read has to find */
    uint8_t acquire;
    uint8_t release;
    uint16_t needs; /* operations of the thread whose results it depends on, a bit each */
};

struct litmus {
    const char *name;
    struct litmus_op threads[LITMUS_THREADS][LITMUS_OPS];
    uint8_t final[LITMUS_PLACES]; /* what places have to hold at the end; 0: anything */
};

struct litmus_state {
    uint16_t done[LITMUS_THREADS];
    uint8_t memory[LITMUS_PLACES];
};

struct litmus_run {
    const struct litmus *program;
    struct litmus_state *seen; /* a set; open addressing */
    uint32_t states;
    uint32_t ends;
    uint32_t wrong;
};

static inline int litmus_held(const struct litmus_op *ops, uint16_t done, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++) {
        if (done >> i & 1)
            continue;
        if (ops[i].acquire || ops[at].release || ops[i].place == ops[at].place ||
            (ops[at].needs >> i & 1))
            return 1;
    }
    return 0;
}

/* 1: it was not there. */
static inline int litmus_add(struct litmus_run *run, const struct litmus_state *state)
{
    uint64_t hash = 1469598103934665603u;
    const unsigned char *bytes = (const unsigned char *)state;
    for (size_t i = 0; i < sizeof *state; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    for (uint32_t at = (uint32_t)(hash >> 20) % LITMUS_STATES;; at = (at + 1) % LITMUS_STATES) {
        struct litmus_state *place = &run->seen[at];
        static const struct litmus_state none;
        if (memcmp(place, state, sizeof *state) == 0)
            return 0;
        if (memcmp(place, &none, sizeof none) != 0)
            continue;
        if (++run->states > LITMUS_STATES / 2)
            exit(1);
        *place = *state;
        return 1;
    }
}

static inline void litmus_end(struct litmus_run *run, const struct litmus_state *state)
{
    run->ends++;
    for (uint32_t i = 0; i < LITMUS_PLACES; i++)
        if (run->program->final[i] && run->program->final[i] != state->memory[i])
            run->wrong++;
}

static inline void litmus_explore(struct litmus_run *run, struct litmus_state state)
{
    int moved = 0, left = 0;
    if (!litmus_add(run, &state))
        return;
    for (uint32_t t = 0; t < LITMUS_THREADS; t++) {
        const struct litmus_op *ops = run->program->threads[t];
        for (uint32_t i = 0; i < LITMUS_OPS && ops[i].kind != LITMUS_NONE; i++) {
            struct litmus_state next = state;
            if (state.done[t] >> i & 1)
                continue;
            left = 1;
            if (litmus_held(ops, state.done[t], i) ||
                (ops[i].kind == LITMUS_AWAIT && state.memory[ops[i].place] < ops[i].value))
                continue;
            moved = 1;
            next.done[t] = (uint16_t)(next.done[t] | 1u << i);
            if (ops[i].kind == LITMUS_WRITE)
                next.memory[ops[i].place] = ops[i].value;
            if (ops[i].kind == LITMUS_READ && state.memory[ops[i].place] != ops[i].value)
                run->wrong++;
            litmus_explore(run, next);
        }
    }
    if (!left)
        litmus_end(run, &state);
    else if (!moved)
        run->wrong++; /* waits for ever */
}

/* Ways in which it goes wrong; *states (may be NULL) that were looked at. */
static inline uint32_t litmus_check(const struct litmus *program, uint32_t *states)
{
    struct litmus_run run = {.program = program};
    struct litmus_state first;
    memset(&first, 0, sizeof first);
    run.seen = calloc(LITMUS_STATES, sizeof *run.seen);
    if (!run.seen)
        exit(1);
    /* The empty state is the set's mark of an empty place: a bit that no thread has. */
    first.done[LITMUS_THREADS - 1] = 1u << 15;
    litmus_explore(&run, first);
    free(run.seen);
    if (states)
        *states = run.states;
    return run.wrong + (run.ends == 0);
}

/* ---- the protocols, with error `bug` of the list in test_device_bugs.c planted */

#define LITMUS_W(at, what)                                                                         \
    {                                                                                              \
        .kind = LITMUS_WRITE, .place = (at), .value = (what)                                       \
    }
#define LITMUS_R(at, what)                                                                         \
    {                                                                                              \
        .kind = LITMUS_READ, .place = (at), .value = (what)                                        \
    }
#define LITMUS_REL(at, what, on)                                                                   \
    {                                                                                              \
        .kind = LITMUS_WRITE, .place = (at), .value = (what), .release = (on)                      \
    }
#define LITMUS_ACQ(at, what, on)                                                                   \
    {                                                                                              \
        .kind = LITMUS_AWAIT, .place = (at), .value = (what), .acquire = (on)                      \
    }

/* Places: what is told of, the flag, others. */
static inline struct litmus litmus_signal(int bug)
{
    return (struct litmus){"signal and wait",
                           {{LITMUS_W(0, 1), LITMUS_REL(1, 1, bug != 1)},
                            {LITMUS_ACQ(1, 1, bug != 2), LITMUS_R(0, 1)}},
                           {0}};
}

/* Through a third rank: what one knows, the next one does. */
static inline struct litmus litmus_relay(int bug)
{
    return (struct litmus){"a signal handed on",
                           {{LITMUS_W(0, 1), LITMUS_REL(1, 1, bug != 1)},
                            {LITMUS_ACQ(1, 1, bug != 2), LITMUS_REL(2, 1, bug != 1)},
                            {LITMUS_ACQ(2, 1, bug != 2), LITMUS_R(0, 1)}},
                           {0}};
}

/* Header with release and acquire, payload relaxed: who has the header knows what came before. */
static inline struct litmus litmus_packet(int bug)
{
    return (struct litmus){
        "packet: header and payload",
        {{LITMUS_W(0, 1), LITMUS_REL(1, 1, bug != 9), LITMUS_W(2, 1), LITMUS_W(3, 1)},
         {LITMUS_ACQ(1, 1, bug != 10), LITMUS_ACQ(2, 1, 0), LITMUS_ACQ(3, 1, 0), LITMUS_R(0, 1)}},
        {0}};
}

/* A source is overwritten by whoever has its packet: data flows through registers on both sides,
 * and nothing is read or stored before what it depends on. */
static inline struct litmus litmus_source(int bug)
{
    struct litmus l = {"packet: its source is read",
                       {{LITMUS_R(0, 0), LITMUS_W(1, 1)}, {LITMUS_ACQ(1, 1, 0), LITMUS_W(0, 9)}},
                       {0}};
    l.threads[0][1].needs = bug != 7;
    l.threads[1][1].needs = bug != 6;
    return l;
}

/* Orders: place 0 is the order, 1 its turn, 2 the head. */
static inline struct litmus litmus_ring(int bug)
{
    return (struct litmus){
        "ring of orders",
        {{LITMUS_W(0, 1), LITMUS_REL(1, 1, bug != 22), LITMUS_ACQ(2, bug != 23, 1), LITMUS_W(0, 2),
          LITMUS_REL(1, 2, bug != 22)},
         {LITMUS_ACQ(1, 1, 1), LITMUS_R(0, 1), LITMUS_REL(2, 1, 1), LITMUS_ACQ(1, 2, 1),
          LITMUS_R(0, 2)}},
        {0}};
}

/* A slot for one tile: place 0, full 1, free 2. */
static inline struct litmus litmus_slot(int bug)
{
    return (struct litmus){
        "slot given back",
        {{LITMUS_W(0, 1), LITMUS_REL(1, 1, 1), LITMUS_ACQ(2, bug != 14, 1), LITMUS_W(0, 2),
          LITMUS_REL(1, 2, 1), LITMUS_ACQ(2, bug == 14 ? 1 : 2, 1), LITMUS_W(0, 3),
          LITMUS_REL(1, 3, 1)},
         {LITMUS_ACQ(1, 1, 1), LITMUS_R(0, 1), LITMUS_REL(2, 1, 1), LITMUS_ACQ(1, 2, 1),
          LITMUS_R(0, 2), LITMUS_REL(2, 2, 1), LITMUS_ACQ(1, 3, 1), LITMUS_R(0, 3)}},
        {0}};
}

/* Two ranks that put into each other's scratch, or tell each other a count, by the call's parity;
 * they only know of each other that a call was entered. Places: 0 and 1 slots of the first, 2 and 3
 * of the other, 4, 5 flags. */
static inline struct litmus litmus_calls(int bug)
{
    uint8_t odd = bug != 13 && bug != 40;
    return (struct litmus){
        "three calls by parity",
        {{LITMUS_W(2 + odd, 1), LITMUS_REL(5, 1, 1), LITMUS_ACQ(4, 1, 1), LITMUS_R(odd, 1),
          LITMUS_W(2, 2), LITMUS_REL(5, 2, 1), LITMUS_ACQ(4, 2, 1), LITMUS_R(0, 2),
          LITMUS_W(2 + odd, 3), LITMUS_REL(5, 3, 1), LITMUS_ACQ(4, 3, 1), LITMUS_R(odd, 3)},
         {LITMUS_W(odd, 1), LITMUS_REL(4, 1, 1), LITMUS_ACQ(5, 1, 1), LITMUS_R(2 + odd, 1),
          LITMUS_W(0, 2), LITMUS_REL(4, 2, 1), LITMUS_ACQ(5, 2, 1), LITMUS_R(2, 2),
          LITMUS_W(odd, 3), LITMUS_REL(4, 3, 1), LITMUS_ACQ(5, 3, 1), LITMUS_R(2 + odd, 3)}},
        {0}};
}

/* An engine writes and says so; the lane hands that on by a signal of its own. */
static inline struct litmus litmus_delivered(int bug)
{
    return (struct litmus){"delivered, then signalled",
                           {{LITMUS_W(0, 1), LITMUS_REL(1, 1, 1)},
                            {LITMUS_ACQ(1, bug != 5, bug != 27), LITMUS_REL(2, 1, bug != 27)},
                            {LITMUS_ACQ(2, 1, 1), LITMUS_R(0, 1)}},
                           {0}};
}

static inline struct litmus litmus_count(int bug)
{
    struct litmus l = {"count told and learnt",
                       {{LITMUS_W(0, 5), LITMUS_REL(1, 1, bug != 31)},
                        {LITMUS_ACQ(1, 1, bug != 32), LITMUS_R(0, 5)}},
                       {0}};
    return l;
}

/* The host raises 1 when it likes, the kernel 2 itself: place 0 the semaphore, 1 `raised`. */
static inline struct litmus litmus_order(int bug)
{
    return (struct litmus){"signals of two hands",
                           {{LITMUS_ACQ(1, bug != 29, 1), LITMUS_REL(0, 2, 1)},
                            {LITMUS_REL(0, 1, 1), LITMUS_REL(1, 1, 1)}},
                           {2}};
}

typedef struct litmus (*litmus_fn)(int bug);
static const litmus_fn litmus_all[] = {litmus_signal, litmus_relay, litmus_packet, litmus_source,
                                       litmus_ring,   litmus_slot,  litmus_calls,  litmus_delivered,
                                       litmus_count,  litmus_order};
#define LITMUS_COUNT (sizeof litmus_all / sizeof litmus_all[0])

#endif
