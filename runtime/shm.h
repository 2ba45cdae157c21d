/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared segment of a world. Processes map it at different addresses, so nothing in it is
 * a pointer. In this order, each part page-aligned:
 *
 *   head            what it is, and the first error
 *   boards          one a rank: which call it is in, where its buffers are
 *   semaphores      [consumer][producer][index], a line each
 *   packets         [rank][parity]
 *   heads           [rank][slot][call mod RT_AHEAD_MOST]: of packets of plans that run ahead, and
 *   cells           [size][rank][slot][call mod RT_AHEAD_MOST]: what they hold, where it is little,
 *   ring            [rank][call mod PLAN_AHEAD]: or else
 *   scratch         [rank][parity]
 *   heap            [rank]
 *
 * Pages take memory only once touched.
 */
#ifndef PEAL_RUNTIME_SHM_H
#define PEAL_RUNTIME_SHM_H

#include "base.h"
#include "kern.h"
#include "plan.h"

#include <stdalign.h>

#define RT_LINE 128 /* two cache lines: processors fetch them in pairs */
#define RT_PAGE 4096u
#define RT_RANKS_MAX 1024u
#define RT_AHEAD_MOST 256u /* calls that a rank may be ahead of others where messages are small */
#define RT_CELLS 2u        /* sizes of cells */
#define RT_WORLD_MAX (1ull << 46)

typedef kern_word rt_word;
typedef _Atomic uint32_t rt_half;

/* Everything that follows from the table and the parameters. */
struct rt_layout {
    uint32_t nranks;
    uint32_t nsems;
    uint64_t count_bytes; /* of one rank and parity: a word from each rank, where counts are told */
    uint64_t packet_bytes; /* of one rank and parity */
    uint64_t ring_bytes;   /* of one rank and copy */
    uint64_t ring_slots;   /* of packets, in a copy, at most */
    uint64_t scratch_bytes;
    uint64_t heap_bytes; /* of one rank */
    uint64_t boards;     /* offsets */
    uint64_t sems;
    uint64_t counts;
    uint64_t packets;
    uint64_t heads;
    uint64_t cells[RT_CELLS];
    uint64_t ring;
    uint64_t scratch;
    uint64_t heap;
    uint64_t total;
};

enum rt_abort {
    RT_ALIVE = 0,
    RT_FAILING = 1, /* somebody is writing the error record */
    RT_FAILED = 2
};

/* Why a peer is missed. */
enum rt_reason {
    RT_FINE,
    RT_DIED,
    RT_GONE, /* its connections are */
    RT_LEFT,
    RT_STOPPED,
    RT_SILENT,
    RT_DAMAGED, /* what came from it was */
    RT_BROKEN,  /* a queue pair with it failed */
    RT_REFUSED,
    RT_HELD_UP /* of a deadline: it is in no call, and its device in one of another comm */
};

/* The first error: what one rank saw, told by all. */
struct rt_error {
    int32_t status;
    uint32_t rank;    /* who saw it */
    uint32_t culprit; /* the rank it is about, RT_NOBODY */
    uint32_t lane;    /* RT_NOBODY: in no call, but before it, */
    uint32_t step;    /* and this is what it did */
    uint32_t call;
    uint32_t reason; /* enum rt_reason, of PEAL_ERR_PEER and deadlines */
};
#define RT_NOBODY UINT32_MAX
#define RT_JOINING 0u
#define RT_CHANGING 1u /* tables */

struct rt_head {
    rt_word magic; /* stored last */
    uint32_t version;
    uint64_t token[2]; /* which world it is */
    struct rt_layout layout;
    alignas(RT_LINE) rt_half state; /* enum rt_abort; read by every call, written once */
    rt_half sleepers;               /* ranks that may be asleep; read by every call */
    rt_half error[sizeof(struct rt_error) / 4];
};

struct rt_board {
    /* The number of the call it is in below, its digest above; written by every call, read only
     * by ranks that have waited long. */
    alignas(RT_LINE) rt_word call;
    rt_half done; /* the last call it has returned from */
    rt_half lane;
    rt_half step;
    rt_half awaited;                 /* the rank it waits for */
    rt_half waiting;                 /* the call for which these three hold */
    alignas(RT_LINE) rt_half asleep; /* 1: it sleeps on this word, or is about to */
    /* Addresses of this call's buffers, less the address of the segment. Written only when they
     * change: the line is in everybody's cache. */
    alignas(RT_LINE) rt_word in;
    rt_word out;
    rt_half foreign; /* RT_REACH_*: these are not mapped by others, who attach to them */
    rt_half slow;    /* 1: what others have just written is slow to load for this rank */
    /* ns a KiB that it takes to stage a large message, and to load it; 0: unknown. */
    rt_half dear[2];
    rt_half processor; /* of ranks that share some: the one it runs on, plus one; 0: unknown */
    rt_half held_up;   /* 1: it is in no call, and its device in one of another comm */
    /* As `call`, of each call that was not waited for; more than a rank can be ahead. */
    alignas(RT_LINE) rt_word ahead[2 * RT_AHEAD_MOST];
    alignas(RT_LINE) rt_half joined; /* 0, 1 while its comm is being made, 2 */
    rt_half left;                    /* 1: its comm is gone, and its process may go on */
    rt_half pid;                     /* behind the next one; 0: none has come yet */
    rt_word pid_space;               /* pids are comparable among equal ones; 0 never */
    rt_word table[2];                /* digest of its table */
    rt_word base;                    /* cross-memory attach: where its segment is, */
    rt_word probe;       /* and a word of its own; 0: it does not want to be reached so */
    rt_half reaches;     /* 1: it reaches all others so; 2: it does not */
    rt_word terms;       /* on which it cuts calls into parts; 0: it does not */
    rt_half offers;      /* how many new tables it has offered, */
    rt_word offer[2][2]; /* and the digests of the last two by the number's parity; 0: it cannot */
    rt_word asked[3];    /* the arguments of its calls since they were last others (differ.c) */
};

/* What a table needs, and where it lies. ERR_RANGE beyond what an address space holds. */
peal_status rt_layout_make(const peal_table *table, uint32_t nranks, uint64_t heap_bytes,
                           struct rt_layout *layout, peal_diag *diag);

static inline struct rt_head *rt_head(char *base)
{
    return (struct rt_head *)(void *)base;
}

static inline struct rt_board *rt_board(char *base, const struct rt_layout *layout, uint32_t rank)
{
    return (struct rt_board *)(void *)(base + layout->boards) + rank;
}

static inline rt_word *rt_sem(char *base, const struct rt_layout *layout, uint32_t consumer,
                              uint32_t producer, uint32_t index)
{
    uint64_t at = ((uint64_t)consumer * layout->nranks + producer) * layout->nsems + index;
    return (rt_word *)(void *)(base + layout->sems + at * RT_LINE);
}

/* Where a rank finds what `producer` told it in calls of a parity. */
static inline rt_word *rt_count(char *base, const struct rt_layout *layout, uint32_t consumer,
                                uint32_t parity, uint32_t producer)
{
    uint64_t at = layout->count_bytes * (2ull * consumer + parity);
    return (rt_word *)(void *)(base + layout->counts + at) + producer;
}

/* Bytes of a cell of each size. */
static inline uint64_t rt_cell_bytes(uint32_t size)
{
    return size ? 64 : 8;
}

/* The places of a rank's packet slot in all calls, one beside the other. */
static inline rt_word *rt_heads(char *base, const struct rt_layout *layout, uint32_t rank,
                                uint64_t slot)
{
    uint64_t at = (rank * layout->ring_slots + slot) * RT_AHEAD_MOST;
    return (rt_word *)(void *)(base + layout->heads) + at;
}

static inline char *rt_cells(char *base, const struct rt_layout *layout, uint32_t size,
                             uint32_t rank, uint64_t slot)
{
    uint64_t at = (rank * layout->ring_slots + slot) * RT_AHEAD_MOST;
    return base + layout->cells[size] + at * rt_cell_bytes(size);
}

/* ---- mapping */

/* Where a sealed segment is found while its maker shows it: a descriptor of its process. */
struct rt_card {
    uint64_t mark; /* RT_CARD; 0: there is none */
    uint64_t device;
    uint64_t node;
    uint32_t process; /* as /proc numbers it */
    uint32_t fd;
};
#define RT_CARD 0x6c6165702d647263u /* "crd-peal", little endian */

struct rt_segment {
    char *base;
    struct rt_layout layout;
    char name[256];      /* "": it has none */
    int owns_name;       /* it is still to be unlinked, by us */
    struct rt_card card; /* of ours, while it is shown */
    int counts;          /* for the size of /dev/shm: it is there that its memory comes from */
};

/* Of this process and its children. */
peal_status rt_segment_private(const struct rt_layout *layout, struct rt_segment *segment,
                               peal_diag *diag);

/* shm_seal.c: no name. 0: the system has no such memory, or shows it to nobody. */
int rt_segment_seal(const struct rt_layout *layout, const uint64_t token[2],
                    struct rt_segment *segment);
/* Closes what the card names, if it is still that: who has closed all descriptors of a process,
 * after a fork say, may have another by its number. */
void rt_card_hide(struct rt_card *card);
/* token NULL: any. UNSUPPORTED: it is not to be had from here. */
peal_status rt_segment_take(const struct rt_layout *layout, const struct rt_card *card,
                            const uint64_t token[2], struct rt_segment *segment, peal_diag *diag);

/* The object of that name holds the segment itself; or, where it is sealed, its card. */
peal_status rt_segment_create(const struct rt_layout *layout, const char *name, int sealed,
                              struct rt_segment *segment, peal_diag *diag);
/* Waits until the object is there and complete. layout: what this process's table asks for;
 * the heap is as large as its maker said. */
peal_status rt_segment_attach(const struct rt_layout *layout, const char *name, uint32_t timeout_ms,
                              struct rt_segment *segment, peal_diag *diag);

/* Maps the file, of the segment's layout, and writes its head; 0: no. */
int rt_segment_begin(struct rt_segment *segment, int fd, const uint64_t token[2]);
/* Maps one that another process has begun: AGAIN while it has not. */
peal_status rt_segment_accept(const struct rt_layout *wanted, int fd, struct rt_segment *segment,
                              peal_diag *diag);

/* Takes the memory of [at, at + bytes) now; ERR_MEMORY when there is none. */
peal_status rt_segment_reserve(const struct rt_segment *segment, uint64_t at, uint64_t bytes,
                               peal_diag *diag);
/* What a rank is sure to use: now rather than by a signal in the midst of a call. */
peal_status rt_segment_reserve_rank(const struct rt_segment *segment, uint32_t rank,
                                    peal_diag *diag);
/* All who are to have it do: its name goes, and what it is shown by. */
void rt_segment_unlink(struct rt_segment *segment);
void rt_segment_unmap(struct rt_segment *segment);

#endif
