/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank on a device. It has a comm of the host beneath it (peal_comm), by which ranks meet, are
 * missed and fail, and whose rows say what follows from a call's arguments; nothing is moved by
 * that one. On the device it has
 *
 *   arena   one allocation that the other ranks map: what dev_layout says, then the cells of
 *           zero-SM calls, then the heap of peal_cuda_mem_alloc
 *   own     one that they do not: state, rank, table of peers, image
 *   port    pinned memory of the host, through which kernel and service thread speak
 *
 * A call is either one launch of the kernel (cuda_kernel.c), or copies and memory operations of
 * streams (cuda_zero.c).
 */
#ifndef PEAL_RUNTIME_CUDA_COMM_H
#define PEAL_RUNTIME_CUDA_COMM_H

#include "comm.h"
#include "cuda_driver.h"
#include "device/dev_ring.h"
#include "far.h"

#define CUDA_HEAP_ALIGN 512u
#define CUDA_QUEUES_MAX 8u
#define CUDA_ARENA_ALIGN 4096u

/* ---- memory (cuda_memory.c) */

enum cuda_kind {
    CUDA_NOTHING,
    CUDA_PLAIN, /* cuMemAlloc */
    CUDA_VMM,
    CUDA_IPC /* another process's */
};

struct cuda_block {
    enum cuda_kind kind;
    cu_ptr at;
    size_t bytes;
    size_t align;  /* of its address; 0: as the driver likes */
    cu_ptr handle; /* VMM, */
    int types;     /* and as what it can be exported: CU_HANDLE_* */
};

/* Memory on the context's device, whose first `clear` bytes are 0. types: CU_HANDLE_FD,
 * CU_HANDLE_FABRIC, or both of them, of which the fabric's may be refused; 0: for CUDA IPC. */
peal_status cuda_block_make(const struct peal_cuda *cuda, uint32_t device, size_t bytes,
                            size_t clear, int types, struct cuda_block *block, peal_diag *diag);
void cuda_block_free(const struct peal_cuda *cuda, struct cuda_block *block);
/* Gives the block, of which there is a handle, an address that the device reaches. */
peal_status cuda_block_map(const struct peal_cuda *cuda, uint32_t device, struct cuda_block *block,
                           peal_diag *diag);
/* Lets a device reach a block of this process. */
peal_status cuda_block_allow(const struct peal_cuda *cuda, const struct cuda_block *block,
                             uint32_t device, peal_diag *diag);

/* What a block is to another process. */
struct cuda_export {
    uint32_t types; /* CU_HANDLE_*; FD: the descriptor comes by another way */
    uint32_t zero;
    uint64_t bytes;
    unsigned char handle[64]; /* of the fabric, or CUDA IPC's */
};
/* fd: -1, or a descriptor, which the caller closes. */
peal_status cuda_block_export(const struct peal_cuda *cuda, const struct cuda_block *block,
                              struct cuda_export *to, int *fd, peal_diag *diag);
/* Takes a handle; fd: -1 means by the fabric's. */
peal_status cuda_handle_import(const struct peal_cuda *cuda, const struct cuda_export *from, int fd,
                               struct cuda_block *block, peal_diag *diag);
/* The same, and maps it; fd: closed by the caller. device: who will reach it. */
peal_status cuda_block_import(const struct peal_cuda *cuda, const struct cuda_export *from, int fd,
                              uint32_t device, struct cuda_block *block, peal_diag *diag);

/* ---- ranks (cuda_meet.c) */

/* What each rank tells the others when they meet. */
struct cuda_card {
    int32_t status; /* of what it has made so far, */
    uint32_t pid;
    uint64_t pid_space; /* pids are comparable among equal ones */
    uint64_t arena;     /* its address in its own process */
    uint64_t settings;  /* digest of the parameters that have to agree */
    uint32_t device;
    uint32_t blocks; /* lanes of its largest program */
    struct cu_uuid uuid;
    uint64_t handle;  /* of the arena's memory, in its own process */
    uint32_t group;   /* CUDA_GROUP_* */
    uint32_t nic_key; /* ibgda: of its arena */
    struct cuda_export memory;
    char socket[24]; /* where descriptors are sent to: an abstract name; "": none */
    char text[160];  /* and why, if it is an error */
};

enum cuda_reach {
    CUDA_UNREACHED, /* on another host */
    CUDA_DIRECT,    /* loads and stores reach it, */
    CUDA_COPIES     /* or only the copies of its own device do */
};

/* Who may ask for something at a time, of a rank: its caller, and its service thread. */
enum { CUDA_CALLER, CUDA_SERVICE, CUDA_ASKERS };

/* CUDA_COPIES: a stream of the peer's device, and events by which another one waits for it
 * (cuda_there.c). */
struct cuda_there {
    cu_handle stream;
    cu_handle behind; /* of this rank's device */
    cu_handle done;
};

struct cuda_peer {
    enum cuda_reach reach;
    cu_ptr arena;      /* where this rank has it; 0: unreached */
    int opens;         /* by CUDA IPC: it opens this rank's memory, as this rank its */
    int mine;          /* of this process: its addresses hold here, */
    uint32_t device;   /* on this device */
    cu_handle context; /* and in this context, retained */
    struct cuda_there there[CUDA_ASKERS];
    uint64_t nic_arena; /* ibgda: what NICs call it */
    uint32_t nic_key;
    struct cuda_block block; /* imported, or the rank's own */
};

/* Copies of one step (cuda_copies.c). */
#define CUDA_COPIES_MAX 64u
struct cuda_copies {
    uint32_t count;
    int single; /* 1: one by one, into a capture */
    cu_ptr to[CUDA_COPIES_MAX];
    cu_ptr from[CUDA_COPIES_MAX];
    size_t bytes[CUDA_COPIES_MAX];
};

struct cuda_service;
struct cuda_far;
struct cuda_zero_row;
struct cuda_words;

struct peal_cuda_comm {
    peal_cuda *cuda;
    peal_ctx *ctx;
    struct peal_comm *host;
    uint32_t rank;
    uint32_t nranks;
    uint32_t device;
    cu_handle context;
    peal_cuda_params params;
    peal_cuda_device_info about;
    int ordered;         /* the device sees a NIC's writes in their order, */
    uint32_t wait_flags; /* and of waits of streams for such: CU_WAIT_* */

    struct cuda_block arena;
    struct dev_layout layout;
    uint64_t cells; /* offsets in every arena: of zero-SM calls, */
    uint64_t heap;  /* and of the heap */
    uint64_t heap_end;
    uint64_t heap_used;    /* from the bottom by peal_cuda_mem_alloc, from the top for staging */
    uint64_t staged_bytes; /* so far, of an input or output */
    struct cuda_peer *peers;
    struct cuda_block multicast; /* the arenas of all ranks by the switch, where plans use it */
    int bound;                   /* to it */
    int uses_groups;             /* this rank's programs do */
    int met;                     /* all ranks were able to */

    struct cuda_block own;
    uint64_t own_rank;  /* addresses in it: of struct dev_rank, */
    uint64_t own_peers; /* and of the peers' */
    struct dev_port *port;
    cu_ptr port_device;
    uint64_t port_bytes;
    cu_handle module;
    cu_handle kernel;
    cu_handle work;   /* peal_dev_work */
    uint32_t threads; /* of a block */
    uint32_t shared_bytes;
    uint32_t most_lanes;

    const struct cuda_nic_calls *nic_calls; /* ibgda (cuda_nic.c) */
    void *nic;                              /* NULL: no plan has it */
    uint32_t nic_key;
    struct dev_mlx5_queue *queues; /* as the device begins with them, [lane][peer] */

    struct cuda_zero_row *zero; /* by row of the table */
    uint32_t *counted;          /* zero-SM: signals of each semaphore so far in the call: those to
                                   others [consumer][index], then waits [producer][index], then of
                                   how many signals the last of these went without */
    struct cuda_words *words;   /* pinned */
    uint32_t *barriers;         /* pinned, for a look at the cells of both barriers */
    cu_ptr words_device;
    cu_handle queue[CUDA_QUEUES_MAX];      /* zero-SM: streams that copy */
    cu_handle forked[CUDA_QUEUES_MAX + 1]; /* events */
    struct cu_mem_op ops[CU_OPS_MAX];      /* gathered for one call of the driver */
    uint32_t nops;
    struct cuda_copies copies; /* likewise, of a step */

    struct cuda_service *service;
    struct cuda_far *far;        /* NULL: all ranks are on this host */
    struct peal_cuda_comm *next; /* of the driver's */
    uint64_t calls;
    uint64_t zero_calls;
    uint64_t staged_calls;
    uint32_t stand_ins;
};

/* Makes the device's context current, and the former one again. */
peal_status cuda_enter(const struct peal_cuda_comm *comm, peal_diag *diag);
void cuda_leave(const struct peal_cuda_comm *comm);
/* To give something back, which would stay for good: so it is tried once more. 1: it is current. */
int cuda_enter_to_free(const struct peal_cuda *cuda, cu_handle context);

/* `status` and *diag say what this rank has made so far: all ranks get the same answer, and peers
 * are filled in. */
peal_status cuda_meet(struct peal_cuda_comm *comm, peal_status status, peal_diag *diag);
/* entered: with the context current; else what has contexts of its own. */
void cuda_part(struct peal_cuda_comm *comm, int entered);
/* The first rank's error, on all of them. */
peal_status cuda_agree(struct peal_cuda_comm *comm, peal_status status, peal_diag *diag);

/* Of a rank, where all ranks of its host find it: the first page of its part of the world's heap,
 * which nothing else uses. */
#define CUDA_CARD_ROOM 1024u
struct cuda_corner {
    _Atomic uint32_t stage; /* of exchanges. Nobody is more than one ahead, so two slots do; */
    _Atomic uint32_t users; /* of the arena, in its process; 0: it has not been shown, or is gone */
    _Atomic uint32_t bound; /* it is, to a multicast object */
    _Atomic uint32_t closed; /* of other ranks' memory it has nothing open any more */
    char slot[2][CUDA_CARD_ROOM];
};
_Static_assert(sizeof(struct cuda_corner) <= RT_PAGE, "a page");
_Static_assert(sizeof(struct cuda_card) <= CUDA_CARD_ROOM, "a slot");
struct cuda_corner *cuda_corner(const struct peal_comm *host, uint32_t rank);

/* ---- cuda_arena.c: arenas of ranks of one process, and who gives them back */
peal_status cuda_corner_make(struct peal_cuda_comm *comm, peal_diag *diag);
/* Before others are told of it. */
void cuda_arena_show(const struct peal_cuda_comm *comm);
/* Uses another rank's arena until it leaves it. ERR_PEER: it is gone. */
peal_status cuda_arena_take(struct peal_cuda_comm *comm, uint32_t rank,
                            const struct cuda_card *card, peal_diag *diag);
void cuda_arena_leave(struct peal_cuda_comm *comm, uint32_t rank);
void cuda_arena_free(struct peal_cuda_comm *comm); /* leaves its own */

/* ---- cuda_pass.c: descriptors between processes of a host */
struct cuda_pass {
    int socket; /* -1: none */
    char name[24];
};
peal_status cuda_pass_open(struct cuda_pass *pass, peal_diag *diag);
void cuda_pass_close(struct cuda_pass *pass);
/* Sends fd to those ranks whose `sends` is 1, and gets theirs whose `wants` is 1 into fds; -1 where
 * not. */
struct cuda_parcel {
    int fd;
    uint8_t *sends;
    uint8_t *wants;
    int *fds;
};
peal_status cuda_pass_all(struct peal_cuda_comm *comm, const struct cuda_pass *pass,
                          const struct cuda_card *cards, const struct cuda_parcel *parcel,
                          peal_diag *diag);

/* ---- cuda_multicast.c: the arenas of all ranks under one address, by an NVLink switch */
#define CUDA_GROUP_WANTS 1u /* a program of the rank stores to groups or folds from them, */
#define CUDA_GROUP_CAN 2u   /* and its memory could be bound to a multicast object */
uint32_t cuda_group_card(const struct peal_cuda_comm *comm);
/* *joins: a multicast object is to be made. The same on all ranks; UNSUPPORTED: it cannot be. */
peal_status cuda_group_check(const struct peal_cuda_comm *comm, const struct cuda_card *cards,
                             int *joins, peal_diag *diag);
/* The first rank makes it; the others take it; all add their devices, and when all have, bind their
 * memory. cuda_group_leave gives the object back, when arenas have been unbound. */
peal_status cuda_group_create(struct peal_cuda_comm *comm, struct cuda_export *to, int *fd,
                              peal_diag *diag);
peal_status cuda_group_join(struct peal_cuda_comm *comm, const struct cuda_export *from, int fd,
                            peal_diag *diag);
peal_status cuda_group_bind(struct peal_cuda_comm *comm, peal_diag *diag);
void cuda_group_unbind(const struct peal_cuda_comm *comm, uint32_t device, size_t bytes);
void cuda_group_leave(struct peal_cuda_comm *comm);

/* ---- the kernel (cuda_kernel.c) */
peal_status cuda_kernel_make(struct peal_cuda_comm *comm, peal_diag *diag);
/* When the ranks have met: puts the image and all else where the device finds it. */
peal_status cuda_kernel_place(struct peal_cuda_comm *comm, const void *image, size_t bytes,
                              peal_diag *diag);
void cuda_kernel_free(struct peal_cuda_comm *comm);
/* That all blocks of all ranks on this device can be resident at once. lanes: of all of them. */
peal_status cuda_kernel_fits(const struct peal_cuda_comm *comm, uint32_t lanes, peal_diag *diag);
peal_status cuda_kernel_call(struct peal_cuda_comm *comm, struct rt_row *row,
                             const struct dev_call *call, cu_handle stream, peal_diag *diag);

/* ---- a call's buffers (cuda_stage.c) */
/* Of rt_row.reach: what is not found where the caller has it. */
#define CUDA_REACH_IN (RT_REACH_IN | RT_NAMED_IN)
#define CUDA_REACH_OUT (RT_REACH_OUT | RT_NAMED_OUT)
struct cuda_buffers {
    uint64_t in; /* the caller's */
    uint64_t out;
    uint64_t shared_in; /* the same, or where they are staged for other ranks, in the arena */
    uint64_t shared_out;
};
/* That there is room for it. what: RT_REACH_* of what has to be staged. Errors: RANGE. */
peal_status cuda_stage_reserve(struct peal_cuda_comm *comm, const struct rt_row *row, uint32_t what,
                               peal_diag *diag);
/* Fills them in. By copies on the stream it puts what others read where they reach it; to be undone
 * behind the call. what: reserved. */
peal_status cuda_stage(struct peal_cuda_comm *comm, const struct rt_row *row, uint32_t what,
                       struct cuda_buffers *buffers, cu_handle stream, peal_diag *diag);
peal_status cuda_unstage(const struct peal_cuda_comm *comm, const struct rt_row *row,
                         const struct cuda_buffers *buffers, cu_handle stream, peal_diag *diag);
/* Whether the bytes are of peal_cuda_mem_alloc. */
int cuda_in_heap(const struct peal_cuda_comm *comm, uint64_t at, uint64_t bytes);

/* ---- memory of a device that this rank's does not reach (cuda_there.c) */
peal_status cuda_there_make(struct peal_cuda_comm *comm, uint32_t rank, uint32_t device,
                            peal_diag *diag);
void cuda_there_free(struct peal_cuda_comm *comm, uint32_t rank);
int cuda_is_there(const struct peal_cuda_comm *comm, uint32_t rank);
/* In the order of `stream`, of this rank's device, something in or out of `rank`'s memory: by that
 * stream itself where it reaches it. */
struct cuda_ask {
    uint32_t rank;
    uint32_t asker; /* CUDA_CALLER, CUDA_SERVICE */
    cu_handle stream;
};
/* *stream: which does it, its context current until the end, which is to be called in any case. */
peal_status cuda_there_begin(const struct peal_cuda_comm *comm, const struct cuda_ask *ask,
                             cu_handle *stream, peal_diag *diag);
peal_status cuda_there_end(const struct peal_cuda_comm *comm, const struct cuda_ask *ask,
                           cu_handle stream, peal_status status, peal_diag *diag);
peal_status cuda_there_ops(const struct peal_cuda_comm *comm, const struct cuda_ask *ask,
                           struct cu_mem_op *ops, unsigned count, peal_diag *diag);
/* Between the rank's memory and the host's. */
peal_status cuda_there_copy(const struct peal_cuda_comm *comm, const struct cuda_ask *ask,
                            cu_ptr to, cu_ptr from, size_t bytes, peal_diag *diag);
/* From device to device: by the stream, of this rank's. */
struct cuda_across {
    cu_ptr to;
    cu_ptr from;
    size_t bytes;
    uint32_t to_rank;
    uint32_t from_rank;
};
peal_status cuda_there_across(const struct peal_cuda_comm *comm, const struct cuda_across *across,
                              cu_handle stream, peal_diag *diag);

/* ---- copies of one step (cuda_copies.c) */
/* Adds one that does not depend on the others; when there are too many, the former are given to the
 * stream. flush gives it the rest. */
peal_status cuda_copies_add(const struct peal_cuda *cuda, struct cuda_copies *copies, cu_ptr to,
                            cu_ptr from, size_t bytes, cu_handle stream, peal_diag *diag);
peal_status cuda_copies_flush(const struct peal_cuda *cuda, struct cuda_copies *copies,
                              cu_handle stream, peal_diag *diag);

/* ---- calls without an SM (cuda_zero.c, cuda_zero_rows.c, cuda_zero_far.c, cuda_order.c) */

/* A step of any rank, as far as order goes. */
struct cuda_sync {
    uint32_t sem; /* (consumer x ranks + producer) x semaphores + index; CUDA_NO_SEM: a move */
    uint16_t lag;
    uint8_t waits;
    uint8_t zero;
};
#define CUDA_NO_SEM UINT32_MAX

/* So many steps of a lane, before the next turn. */
struct cuda_turn {
    uint32_t lane;
    uint32_t steps;
};

struct cuda_zero_row {
    uint32_t most;   /* blocks of the largest buffer of any rank */
    uint32_t posts;  /* some rank's kernel posts to a NIC */
    char why[120];   /* not "": it cannot be run so */
    uint32_t nlanes; /* of all ranks */
    uint32_t nsteps;
    struct plan_lane *lanes;
    struct cuda_sync *syncs;
    uint32_t *first_lane; /* of each rank; ranks + 1 */
    /* An order of this rank's steps in which they can be done one by one, for `trips`. */
    uint32_t trips;
    uint32_t nturns;
    uint32_t turns_capacity;
    struct cuda_turn *turns;
};

peal_status cuda_zero_make(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag);
/* entered: with the context current; else what is the host's alone. */
void cuda_zero_free(struct peal_cuda_comm *comm, int entered);
/* Whether the row can be run so; ERR_UNSUPPORTED says why not. */
peal_status cuda_zero_check(const struct peal_cuda_comm *comm, const struct rt_row *row,
                            peal_diag *diag);
peal_status cuda_zero_call(struct peal_cuda_comm *comm, struct rt_row *row, int in_place,
                           const struct cuda_buffers *buffers, cu_handle stream, peal_diag *diag);
/* What the cells of zero-SM calls take: 32 bits each, of the two barriers [producer], then of the
 * semaphores [producer][index]. */
uint64_t cuda_zero_bytes(uint32_t nranks, uint32_t nsems);
/* A producer's cells by number; offset in any arena. */
enum { CUDA_CELL_ENTER, CUDA_CELL_LEAVE, CUDA_CELL_SEM }; /* and the other semaphores */
static inline uint64_t cuda_zero_cell(const struct peal_cuda_comm *comm, uint32_t producer,
                                      uint32_t number)
{
    uint64_t at = (uint64_t)number * comm->nranks + producer;
    if (number >= CUDA_CELL_SEM)
        at = 2ull * comm->nranks + (uint64_t)producer * comm->layout.nsems + number - CUDA_CELL_SEM;
    return comm->cells + 4 * at;
}
/* Finds the turns of a row. */
peal_status cuda_order(struct peal_cuda_comm *comm, struct cuda_zero_row *zero, uint32_t trips,
                       peal_diag *diag);

/* ---- queue pairs of kernels (cuda_nic.c) */
/* A program of the plan has steps of ibgda. */
int cuda_nic_posts(const struct peal_plan *plan);
/* Where some plan has; in front of the meeting, and behind it. */
peal_status cuda_nic_make(struct peal_cuda_comm *comm, const peal_table *table, peal_diag *diag);
/* Whatever has come of the ranks so far (`status`): those of several hosts get one answer. */
peal_status cuda_nic_join(struct peal_cuda_comm *comm, const peal_table *table, peal_status status,
                          peal_diag *diag);
size_t cuda_nic_queues(const struct peal_cuda_comm *comm); /* how many */
void cuda_nic_free(struct peal_cuda_comm *comm);

/* ---- comms beside each other on one device (cuda_beside.c) */
/* Between these the comm has its port, and is counted. */
void cuda_beside_enter(struct peal_cuda_comm *comm);
void cuda_beside_leave(struct peal_cuda_comm *comm);
/* Thread blocks that the others may have on this one's device at a time. */
uint32_t cuda_beside_lanes(const struct peal_cuda_comm *comm);
/* Whether a call of another comm is under way on this one's device. */
int cuda_beside_busy(const struct peal_cuda_comm *comm);

/* ---- the service thread: orders of the kernel, deadlines (cuda_service.c, cuda_orders.c) */
peal_status cuda_service_start(struct peal_cuda_comm *comm, peal_diag *diag);
void cuda_service_stop(struct peal_cuda_comm *comm);
/* Takes note of what the kernel found: that a peer makes another call. Any thread. */
void cuda_read_report(const struct peal_cuda_comm *comm);

/* ---- pinned words behind the port, written by streams: what zero-SM calls are at */
enum { CUDA_IDLE, CUDA_ENTERS, CUDA_RUNS, CUDA_LEAVES };
struct cuda_words {
    _Atomic uint32_t busy;   /* how far the call under way is; 0: there is none */
    _Atomic uint32_t digest; /* of that one: what its ranks show each other when they enter */
    _Atomic uint32_t step;   /* of the last one that has begun */
    /* 1: a call has begun. Calls are alike, and short against what passes between two looks at the
     * words above: so the service thread takes it away, and counts. */
    _Atomic uint32_t fresh;
    /* To other hosts (cuda_zero_far.c): by the stream, */
    _Atomic uint64_t call; /* struct cuda_zero_program *; 0: between calls */
    _Atomic uint32_t rung[CUDA_QUEUES_MAX];
    /* and by the service thread */
    _Atomic uint32_t open;
    _Atomic uint32_t closed;
    _Atomic uint32_t freed[CUDA_QUEUES_MAX];
    _Atomic uint32_t placed[CUDA_QUEUES_MAX];
};

#endif
