/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport over RDMA, around the one over TCP: pairs of ranks that both have a device use
 * this one for data, words and signals, all others that one; errors, questions and good-byes take
 * TCP between all.
 *
 * Two such ranks have some queue pairs. What is put is written straight to its place. A signal is
 * a record sent by the first pair, which carries all small data too: behind it in order. Where
 * other pairs carried data since, each sends a flag behind that, and the record says how many
 * flags of each are to have come before the signal is raised. So data and flags keep their order
 * although several pairs carry them, and only what crosses pairs costs a flag.
 *
 * The output of a call under way is told to those who have asked for it once, in each call: whose
 * signals have come by way of third ranks must not write to the place of the call before.
 *
 * The calling thread posts as much as the pairs take and never waits. One thread for each comm
 * looks after completions, and posts what was left; the calling thread, while it waits or asks,
 * does so too.
 */
#ifndef PEAL_RUNTIME_RDMA_H
#define PEAL_RUNTIME_RDMA_H

#include "far.h"
#include "rdma_nic.h"

#define RDMA_QUEUE 1024u /* of a peer; a power of two, as are the next two */
#define RDMA_SENDS 128u  /* works of a pair that are under way */
#define RDMA_RECEIVES 64u
#define RDMA_PART (256u << 10)  /* bytes of a work */
#define RDMA_SPREAD (16u << 10) /* a piece beyond this takes any pair */
#define RDMA_BOUNCES 8u         /* of RDMA_PART each */
#define RDMA_REGIONS 32u        /* kept in the cache */

/* ---- rdma_reg.c: memory that the device knows, by what holds it */

struct rdma_entry {
    struct rdma_region region;
    uint32_t refs; /* whoever still needs it there */
    uint64_t used; /* when it was last asked for */
};

struct rdma_span {
    char *at;
    uint64_t bytes;
};

/* Only memory of the world's segment is kept registered, and of that only what has been taken
 * (`spans`): it stays where it is as long as the world. */
struct rdma_cache {
    struct rdma_nic *nic;
    struct rdma_entry entries[RDMA_REGIONS];
    struct rdma_span spans[2]; /* from peal_mem_alloc; where private buffers are staged */
    uint64_t clock;
};

/* One that holds [at, at + bytes), to be given back by rdma_unuse; NULL: none, and none to be
 * made. */
struct rdma_entry *rdma_use(struct rdma_cache *cache, const char *at, uint64_t bytes);
void rdma_unuse(struct rdma_entry *entry);
void rdma_cache_clear(struct rdma_cache *cache);

/* ---- rdma_record.c: what is sent beside data */

enum rdma_kind {
    RDMA_STORE = 1, /* the word a to the name `at` */
    RDMA_SIGNAL,    /* semaphore `at`: a has the count, digest above; behind the flags */
    RDMA_WANT,      /* the sender writes to the receiver's output: to be told of it */
    RDMA_OUT,       /* of call `call`: the sender's output is at a, b bytes, key `at` */
    RDMA_BYE        /* the sender posts nothing more; at 1: and knows the same of the other */
};

struct rdma_record {
    uint32_t kind;
    uint32_t call;
    uint64_t at;
    uint64_t a;
    uint64_t b;
    uint64_t flags[JOB_SOCKETS_MAX]; /* of each pair, that were sent before */
};
_Static_assert(sizeof(struct rdma_record) == 96, "the form on the wire");

/* Places of a peer's records: of those that come, and of those that are sent. */
static inline size_t rdma_records(uint32_t pairs)
{
    return (size_t)pairs * RDMA_RECEIVES + RDMA_SENDS;
}

/* What a peer may name. */
struct rdma_bounds {
    const struct rt_layout *layout;
    uint32_t rank; /* this one */
    uint32_t peer;
    uint32_t pairs;
};
int rdma_record_right(const struct rdma_record *record, uint32_t bytes,
                      const struct rdma_bounds *bounds);

/* What the ends tell each other before they are joined; the form on the wire. */
#define RDMA_MARK                                                                                  \
    {                                                                                              \
        'P', 'E', 'A', 'L', 'R', 'D', 'M', '1'                                                     \
    }
struct rdma_hello {
    uint8_t mark[8];
    uint32_t has; /* 1: a device, and the rest of this */
    uint32_t pairs;
    uint64_t scratch; /* the rank's scratch, both copies: its address there, */
    uint64_t scratch_bytes;
    uint32_t scratch_key;
    uint32_t zero;
    struct rdma_end end[JOB_SOCKETS_MAX];
};
/* 1: it is one, and within what ranks of this table can have. */
int rdma_hello_right(const struct rdma_hello *hello, uint32_t pairs, uint64_t scratch_bytes);

/* ---- links */

struct rdma_item {
    uint32_t kind; /* 0: data; RDMA_STORE, RDMA_SIGNAL */
    uint32_t count;
    uint32_t call;
    struct rt_event *event;
    struct rt_piece *pieces;
    uint64_t at;
    uint64_t word;
};

/* What ends with a work's completion. */
struct rdma_flight {
    struct rt_event *event; /* NULL: no data */
    struct rdma_entry *entry;
    uint8_t frees;  /* the source is free then; else it was before */
    uint8_t bounce; /* 1 + which */
};

struct rdma_pair {
    void *pair; /* the device's; NULL: none */
    struct rdma_end mine;
    struct rdma_work batch[RDMA_POST_MAX];
    uint32_t batched;
    uint32_t posted; /* works, the batch among them; for ever, modulo 2^32 */
    uint32_t done;
    uint32_t dirty; /* 1: carried data since its last flag */
    uint64_t flags_out;
    uint64_t flags_in;
    struct rdma_flight flight[RDMA_SENDS];
};

struct rdma_peer {
    uint32_t rank;
    uint32_t pairs; /* 0: by TCP */
    struct rdma_pair *pair;
    struct rdma_record *in;     /* receives: RDMA_RECEIVES of each pair */
    struct rdma_record *out;    /* sends of the first pair */
    struct rdma_region records; /* both */
    struct rdma_item *queue;
    uint32_t head;
    uint32_t tail;
    uint32_t piece; /* of the item at the head, */
    size_t offset;  /* and in it */
    uint32_t turn;  /* the pair that the next large part takes */
    /* records that have come, in order, by their place in `in`; they wait for flags */
    uint32_t waiting[RDMA_RECEIVES];
    uint32_t first;
    uint32_t last;
    /* its memory */
    uint64_t scratch;
    uint32_t scratch_key;
    uint32_t out_call; /* of its output, which these tell */
    uint32_t out_key;
    uint64_t out_at;
    uint64_t out_bytes;
    uint8_t has_out; /* it has told of any */
    uint8_t asked;   /* it was asked to */
    uint8_t wants;   /* it asks to be told of this rank's */
    uint8_t owes_out, owes_want, owes_bye, owes_answer;
    uint8_t heard; /* something has come from it */
    uint8_t bye_in, bye_answered;
    uint8_t broken; /* enum rdma_how */
    uint64_t broken_ns;
};

struct rdma {
    struct far_transport transport; /* first */
    struct far_transport *tcp;
    struct rdma_nic *nic;
    struct rt_far *far;
    struct peal_comm *comm; /* NULL: not started */
    uint32_t nranks;
    int mixed;               /* some peers are reached by TCP */
    struct rdma_peer *peers; /* by rank */
    char *base;              /* the segment */
    struct rt_layout layout;
    struct rdma_region scratch; /* this rank's */
    struct rdma_cache cache;
    char *bounce; /* for sources that are registered nowhere */
    struct rdma_region bounces;
    uint32_t bounces_used; /* bit 1 << which */
    int starved;           /* some peer waits for one */
    /* the output of the call under way, or of the last */
    struct rdma_entry *out;
    uint64_t out_at;
    uint64_t out_bytes;
    uint32_t out_call;
    uint8_t has_out;
    int cut;                 /* a call has failed */
    pthread_mutex_t hearing; /* held while completions are taken, in their order; before `lock` */
    pthread_mutex_t lock;    /* over all of it but the device's queue */
    pthread_t thread;
    int wake;
    _Atomic uint32_t stop;
};

static inline struct rdma *rdma_of(struct far_transport *self)
{
    return (struct rdma *)(void *)self;
}

/* Which work or receive an id means. */
static inline uint64_t rdma_id(uint32_t rank, uint32_t pair, int receive, uint32_t number)
{
    return (uint64_t)rank << 48 | (uint64_t)pair << 40 | (uint64_t)(receive != 0) << 32 | number;
}

/* ---- rdma_send.c; under the lock. Posts what the pairs take. */
void rdma_pump(struct rdma *rdma, struct rdma_peer *peer);
void rdma_lose(struct rdma *rdma, struct rdma_peer *peer, enum rdma_how how);
/* A work of a pair, and all before it, has ended. */
void rdma_completed(struct rdma *rdma, struct rdma_pair *pair, uint32_t number, int fine);
int rdma_idle(const struct rdma_peer *peer); /* nothing is left to be posted or completed */
int rdma_post_receive(struct rdma *rdma, struct rdma_peer *peer, uint32_t pair, uint32_t slot);

/* ---- rdma_recv.c; under the lock. A receive has been used. 0: what came is wrong. */
int rdma_received(struct rdma *rdma, struct rdma_peer *peer, uint32_t pair, uint32_t slot,
                  const struct rdma_done *done);

#endif
