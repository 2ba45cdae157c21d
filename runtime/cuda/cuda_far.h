/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory and other hosts. The kernel's orders for a rank that is not reached go into that
 * rank's line, in order, and from there
 *
 *   by RDMA   as writes of one queue pair, the words of semaphores behind the data: straight from
 *             this rank's arena, else from pinned memory that the bytes were copied to; straight
 *             into the other's arena, whose host has no part in it
 *   by TCP    from pinned memory, by the transport of the comm beneath; the other end's receiving
 *             thread takes them from pinned memory into its arena (cuda_far_land.c)
 *
 * A write to a rank's output needs to know where that is in the call under way. Over TCP the
 * receiving end looks into its port (DEV_PLACE). By RDMA each rank writes that word, whenever it
 * changes, to those whose plans write to its output.
 *
 * A zero-SM call has a program instead of orders of a kernel: all that it sends is written down
 * when it is enqueued, and its streams say how far they have come (cuda_zero_far.c). It knows where
 * the others have their buffers.
 *
 * All of it is the service thread's, but for the landing, which is the transport's thread's, and
 * the writing of programs.
 */
#ifndef PEAL_RUNTIME_CUDA_FAR_H
#define PEAL_RUNTIME_CUDA_FAR_H

#include "cuda_service.h"
#include "rdma.h"

#define CUDA_PART (256u << 10) /* bytes of a frame, of a slot and of a work */
#define CUDA_SLOTS 32u
#define CUDA_LINE 256u /* orders of a rank; a power of two */
/* In the range of outputs over TCP, offsets in the arena: of zero-SM calls. */
#define CUDA_NAME_ARENA (1ull << 59)

/* The transfers of an event of the kernel: at most one is under way. */
struct cuda_transfer {
    uint32_t number;
    uint32_t unread; /* bytes' parts whose sources are not yet free, */
    uint32_t undone; /* and that are not yet in place; both with one more while orders come */
    uint32_t stream; /* the part that stays here goes by it, */
    uint32_t ticket; /* and is done with this */
    uint8_t lane;
    uint8_t event;
    uint8_t open;   /* more of its orders come */
    uint8_t far;    /* a part goes to another host, */
    uint8_t near;   /* and one stays here */
    uint8_t listed; /* its ticket is waited for */
    uint8_t zero;   /* of a zero-SM call: no event of a kernel */
};

/* A part on its way through pinned memory. */
struct cuda_slot {
    char *at;
    struct cuda_transfer *transfer; /* NULL: free */
    struct rt_event event;          /* TCP */
    struct rt_piece piece;
    uint32_t bytes;
    uint32_t ticket; /* of the copy into it */
    uint8_t sent;
};

struct cuda_item {
    struct cuda_transfer *transfer; /* NULL: a word */
    cu_ptr src;
    uint64_t dst; /* offset in the arena, or in the output of call `call` */
    uint64_t bytes;
    uint64_t copied; /* of them, into slots; */
    uint64_t put;    /* and handed on */
    uint64_t word;
    uint32_t call;
    uint32_t sem; /* a word: the semaphore's index, or CUDA_NO_SEM: a count */
    uint8_t to_out;
    uint8_t by_slots;
    uint8_t half; /* a word of 32 bits */
};

struct cuda_flight {
    struct cuda_transfer *transfer; /* NULL: a word */
    uint32_t slot;                  /* CUDA_SLOTS: none, the source was the arena */
};

/* What goes to a rank of another host. */
struct cuda_line {
    uint32_t rank;
    struct cuda_item items[CUDA_LINE];
    uint32_t head;  /* next to be handed on, */
    uint32_t ahead; /* and to be copied into slots */
    uint32_t tail;
    uint32_t slots[CUDA_SLOTS]; /* taken and not handed on, in order */
    uint32_t first;
    uint32_t last;
    /* RDMA; pair NULL: by TCP */
    void *pair;
    struct rdma_end mine;
    struct rdma_work batch[RDMA_POST_MAX];
    uint32_t batched;
    uint32_t posted; /* works, the batch among them; for ever, modulo 2^32 */
    uint32_t done;
    struct cuda_flight flight[RDMA_SENDS];
    uint64_t *words; /* of works that carry one: RDMA_SENDS */
    uint64_t arena;  /* the other's: address and key there; */
    uint64_t places; /* likewise the words in which it is told of places */
    uint32_t arena_key;
    uint32_t places_key;
    uint8_t writes;  /* plans of this rank write to its output, */
    uint8_t written; /* or its plans to this rank's */
    uint8_t owes;    /* it is to be told of this rank's output */
    uint8_t broken;  /* enum rdma_how */
    uint64_t broken_ns;
};

struct cuda_landing;

/* What a zero-SM call sends to another host: bytes, or a cell's new value. */
struct cuda_zero_order {
    struct cuda_transfer transfer;
    struct cuda_line *line;
    cu_ptr src;
    uint64_t dst;   /* offset in the other's arena */
    uint64_t bytes; /* 0: a cell */
    uint32_t cell;
    uint32_t value;
};

/* All of a call, by the queues whose streams ring for them, in their order. */
struct cuda_zero_program {
    struct cuda_zero_program *next;
    _Atomic int busy; /* 1: given to streams, and not over */
    int kept;         /* captured: it may be run again whenever */
    uint32_t first[CUDA_QUEUES_MAX + 1];
    uint32_t given[CUDA_QUEUES_MAX];
    uint32_t capacity;
    struct cuda_zero_order *orders;
};

struct cuda_zero_far {
    /* the caller's: */
    struct cuda_zero_program *programs;
    uint32_t mark[DEV_LANES][DEV_EVENTS]; /* orders of the queue up to the event's last; 0: none */
    /* the service thread's: */
    struct cuda_zero_program *open;
    uint32_t taken[CUDA_QUEUES_MAX];
    uint32_t freed[CUDA_QUEUES_MAX];
    uint32_t placed[CUDA_QUEUES_MAX];
};

struct cuda_far {
    struct peal_cuda_comm *comm;
    struct far_transport *tcp;
    struct cuda_landing *landing;
    struct cuda_line *lines; /* of the ranks that are not reached */
    uint32_t nlines;
    uint32_t *line_of; /* by rank; CUDA_NOWHERE: reached */
    struct cuda_transfer transfer[DEV_LANES][DEV_EVENTS];
    uint32_t waiting; /* transfers with a part within this host to wait for */
    /* pinned, one piece: the slots, done words of the streams, places of the others' outputs by
     * rank, words to be written */
    char *pinned;
    uint64_t pinned_bytes;
    struct cuda_slot slots[CUDA_SLOTS];
    uint32_t *tickets_done; /* by stream, written by it */
    cu_ptr tickets_device;  /* the device's address of that */
    uint32_t tickets[CUDA_STREAMS];
    uint64_t *places;
    uint64_t place;         /* of this rank's output, as last told */
    _Atomic uint32_t moves; /* whatever has come on, in either direction */
    struct rdma_nic *nic;   /* NULL: none */
    struct rdma_region arena;
    struct rdma_region own; /* of the pinned memory */
    uint32_t links_rdma;    /* of all ranks, from both ends */
    uint32_t links_tcp;
    int cut;
    char why[128]; /* a clause: why not all are by RDMA */
    struct cuda_zero_far zero;
};

static inline struct cuda_line *cuda_line_of(const struct cuda_far *far, uint32_t rank)
{
    return far && far->line_of[rank] != CUDA_NOWHERE ? &far->lines[far->line_of[rank]] : NULL;
}

static inline uint32_t cuda_line_index(const struct cuda_far *far, const struct cuda_line *line)
{
    return (uint32_t)(line - far->lines);
}

/* ---- cuda_far.c. Making: of all ranks of several hosts, whatever has come of them so far
 * (`status`): all get one answer. */
peal_status cuda_far_make(struct peal_cuda_comm *comm, const peal_table *table, peal_status status,
                          peal_diag *diag);
/* Behind the service thread's end; the transport is stopped in it. entered: with the context
 * current; else what is the host's alone. */
void cuda_far_free(struct peal_cuda_comm *comm, int entered);
/* The comm has failed: nothing of it reaches this rank's memory any more. */
void cuda_far_cut(struct cuda_far *far);
/* A queue pair has failed and nothing explains it: the rank, and why. */
int cuda_far_lost(const struct cuda_far *far, uint32_t *rank, uint32_t *reason);
void cuda_far_count(const struct peal_cuda_comm *comm, uint32_t *rdma, uint32_t *tcp,
                    const char **why);

/* ---- cuda_far_send.c */
/* 1: an order for a rank of another host cannot be taken now. */
int cuda_far_full(const struct cuda_far *far, const struct dev_order *order);
/* 1: the transfer that a signal follows has to be over before it is given to a stream or a line. */
int cuda_far_holds(const struct cuda_service *service, uint32_t lane,
                   const struct dev_order *order);
/* An order's piece: to another host, or given to the stream `by`. */
void cuda_far_begin(struct cuda_far *far, uint32_t lane, const struct dev_order *order);
void cuda_far_move(struct cuda_far *far, uint32_t lane, const struct dev_order *order);
/* The last piece has been seen. 0: all of it was within this host, which is for streams to end. */
int cuda_far_end(struct cuda_service *service, uint32_t lane, const struct dev_order *order,
                 uint32_t by, peal_status *status, peal_diag *diag);
void cuda_far_word(struct cuda_far *far, const struct dev_order *order);
/* Goes on with all that is under way. */
peal_status cuda_far_poll(struct cuda_service *service, uint32_t *moved, peal_diag *diag);
/* Of a line with room: an item, whose transfer is counted up by its parts. */
int cuda_far_has_room(const struct cuda_line *line);
void cuda_far_put(struct cuda_far *far, struct cuda_line *line, struct cuda_item item);
/* A part is read, or in place. */
void cuda_far_part(struct cuda_far *far, struct cuda_transfer *transfer, int read, int done);

/* ---- cuda_zero_far.c. The caller's: a program for a call of the row; its orders are given in
 * their queues' order, and counted. */
peal_status cuda_zero_program(struct peal_cuda_comm *comm, const struct rt_row *row, int kept,
                              struct cuda_zero_program **to, peal_diag *diag);
uint32_t cuda_zero_give(struct cuda_zero_program *program, uint32_t queue,
                        const struct cuda_zero_order *order);
void cuda_zero_far_free(struct peal_cuda_comm *comm);
/* The service thread's: takes what has been rung for, and answers. Gives what moved. */
uint32_t cuda_zero_far_poll(struct cuda_far *far);
/* The comm has failed: lets streams end. */
void cuda_zero_far_release(const struct peal_cuda_comm *comm);

/* ---- cuda_far_land.c */
peal_status cuda_land_make(struct cuda_far *far, peal_diag *diag);
void cuda_land_free(struct cuda_far *far, int entered);

/* ---- cuda_far_rdma.c */
/* Makes this rank's arena known to a device. */
int cuda_rdma_arena(const struct peal_cuda_comm *comm, struct rdma_nic *nic,
                    struct rdma_region *region);
/* NULL: what a NIC writes to this rank's memory is seen as it has to be; else why not. */
const char *cuda_rdma_unordered(const struct peal_cuda_comm *comm);
/* A device that knows the arena, and a queue pair for each line; far->nic stays NULL where not. */
void cuda_rdma_open(struct cuda_far *far, const peal_table *table);
/* Tells all ranks, and joins the pairs; lines that could not are by TCP. */
peal_status cuda_rdma_join(struct cuda_far *far, peal_diag *diag);
void cuda_rdma_close(struct cuda_far *far);
/* Of the item at the line's head, a part out of the arena or of a slot, or the word. 0: not now. */
int cuda_rdma_part(struct cuda_far *far, struct cuda_line *line, uint32_t slot, uint32_t bytes);
int cuda_rdma_word(struct cuda_far *far, struct cuda_line *line);
/* 1: it is known where the item is to go. */
int cuda_rdma_knows(const struct cuda_far *far, const struct cuda_line *line,
                    const struct cuda_item *item);
/* Tells of this rank's output, posts what is gathered, and takes what is done. */
void cuda_rdma_flush(struct cuda_far *far, struct cuda_line *line);
uint32_t cuda_rdma_poll(struct cuda_far *far);

#endif
