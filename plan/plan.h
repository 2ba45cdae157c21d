/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan in memory: what every rank does in one call of a collective. The
 * meaning of each part is normative in docs/plan-format.md; in short:
 *
 *  - The message is cut into chunks. A chunk is cut into tiles of tile_bytes
 *    (0: one tile); trip t of every lane's body works on tile t of its chunks.
 *  - A rank has lanes: in-order instruction streams, each pre, body x trips,
 *    post. Lanes of a rank run independently and end before the call returns.
 *  - sm steps are done when the lane goes on. Steps of the other engines are
 *    asynchronous: only `await` of their event, or a `signal ... after` it,
 *    is ordered behind them.
 *  - A semaphore belongs to one (producer rank, consumer rank, index). The k-th
 *    wait of a call needs the (k - lag)-th signal of that call.
 *  - In an alltoallv a data step moves only what its block has, up to a length that the block's
 *    giver knows and its getter learns within the call.
 *  - Scratch and packet regions exist twice; calls alternate between the two. Packet regions of
 *    plans that run ahead exist PLAN_AHEAD times.
 */
#ifndef PEAL_PLAN_PLAN_H
#define PEAL_PLAN_PLAN_H

#include "base.h"

enum plan_opcode {
#define X(id, name, moves, text) id,
#include "opcodes.def"
#undef X
    PLAN_OPCODE_COUNT
};

enum plan_buffer {
    PLAN_BUF_IN = 0,      /* the caller's input; index is a chunk */
    PLAN_BUF_OUT = 1,     /* the caller's output; index is a chunk */
    PLAN_BUF_SCRATCH = 2, /* index is a region, slot within its width */
    PLAN_BUF_PACKET = 3   /* the same; each word carries the call's stamp */
};

/* What the slots of a wire region hold (plan-format.md, "Wire slots"): numbered as peal_wire. */
#define PLAN_WIRE_NONE 0u
#define PLAN_WIRE_BF16 1u
#define PLAN_WIRE_FP8 2u
#define PLAN_WIRE_COUNT 3u
#define PLAN_WIRE_BLOCK 32u /* fp8: elements that share a scale */

#define PLAN_AHEAD                                                                                 \
    32u /* calls that a rank may be ahead of others in plans that run ahead; where                 \
           messages are small, the executor may let it be further */
#define PLAN_NO_EVENT 0xffu
#define PLAN_NO_LINK 0u    /* operand.link is 1 + index into links; 0: local */
#define PLAN_FLAG_FINAL 1u /* reduce: the result is complete; avg divides here */

#define PLAN_RANKS_MAX 65536u
#define PLAN_LANES_MAX 64u
#define PLAN_EVENTS_MAX 16u
#define PLAN_SEMS_MAX 256u
#define PLAN_REGIONS_MAX 1024u
#define PLAN_CHUNKS_MAX (1u << 22)
#define PLAN_OPERANDS_MAX 255u
#define PLAN_NAMES_MAX (1u << 22) /* ranks that the blocks of a custom collective name together */
#define PLAN_PAIRS_MAX (1u << 17) /* 32 chunks of each are within the limit of chunks */
#define PLAN_SLOT_BYTES_MAX (1ull << 32)
#define PLAN_MOVES_MAX (1ull << 28) /* operands of a rank, one for each chunk of a span */
#define PLAN_ALIGN 128u             /* chunk and tile boundaries, where the count allows */

struct plan_operand {
    uint32_t rank; /* whose memory */
    uint32_t index;
    uint32_t link;
    uint16_t slot;
    uint8_t buffer;
    uint8_t zero;
};

struct plan_step {
    uint8_t op;
    uint8_t engine; /* data steps and signal */
    uint8_t event;  /* data steps of asynchronous engines: the event they define; await: which */
    uint8_t flags;
    uint8_t nsrc;
    uint8_t ndst;
    uint16_t lag;      /* wait */
    uint32_t chunk;    /* data steps: whose tile is moved */
    uint32_t more;     /* data steps: chunks moved besides, as one message, each of them */
    uint32_t stride;   /* so much behind the one before; 0 where there are none */
    uint16_t skip;     /* slots left out between two chunks' slots */
    uint16_t zero;     /* programs are compared as bytes: no padding */
    uint32_t operands; /* data steps: first of nsrc + ndst operands of the rank */
    uint32_t peer;     /* signal: consumer; wait: producer */
    uint16_t sem;
    uint8_t after; /* signal: the event it follows, or PLAN_NO_EVENT */
    uint8_t what;  /* await: 0 source free, 1 delivered */
};
_Static_assert(sizeof(struct plan_step) == 36, "no padding");

/* A step's operand for chunk `nth` of its span: chunks lie stride apart, slots skip + 1. */
static inline struct plan_operand peal_plan_nth(const struct plan_step *step,
                                                struct plan_operand operand, uint32_t nth)
{
    if (operand.buffer >= PLAN_BUF_SCRATCH)
        operand.slot = (uint16_t)(operand.slot + nth * (step->skip + 1u));
    else
        operand.index += nth * step->stride;
    return operand;
}

struct plan_lane {
    uint32_t first; /* index of its first step in the rank's steps */
    uint32_t pre;
    uint32_t body;
    uint32_t post;
};

struct plan_rank {
    uint32_t host;
    uint32_t arch;  /* compute capability x 10, 0 otherwise */
    char busid[24]; /* the endpoint this program was made for; "" for a host rank */
    char nic[24];   /* the NIC it sends through, "" none */
    uint32_t nlanes;
    uint32_t nsteps;
    uint32_t noperands;
    uint32_t lanes_capacity;
    uint32_t steps_capacity;
    uint32_t operands_capacity;
    struct plan_lane *lanes;
    struct plan_step *steps;
    struct plan_operand *operands;
};

/* width slots for each of depth trips: trip t uses slots [(t % depth) * width, + width). The
 * same layout on every rank. */
struct plan_region {
    uint8_t buffer; /* PLAN_BUF_SCRATCH or PLAN_BUF_PACKET */
    uint16_t width;
    uint16_t depth;
    uint64_t slot_bytes; /* payload; packed bytes in a wire region */
    uint8_t wire;        /* PLAN_WIRE_*; of scratch */
};

struct plan_link {
    uint32_t from; /* ranks; the bytes go from -> to */
    uint32_t to;
    uint8_t link_class;
    uint8_t direct;    /* 1: loads and stores reach the other end */
    uint8_t multicast; /* 1: over a switch that stores to, and folds from, many ranks at once */
    char via[89];      /* for people: "gpu0 > nvs0 > gpu1" */
};

struct peal_plan {
    peal_ctx *ctx;
    peal_collective collective;
    uint32_t nranks;
    uint32_t root; /* broadcast, reduce, scatter, gather; sendrecv: who sends; else 0 */
    uint32_t peer; /* sendrecv: who receives; else 0 */
    /* sendrecv by a list: who sends and who receives each block, from and to by turns; root and
     * peer are the list's number in its table. */
    uint32_t npairs;
    uint32_t pairs_capacity; /* in pairs */
    uint32_t *pairs;
    /* custom: of each block the ranks that give it, and then those that get it, each list rising;
     * list i is names[list[i]] to before names[list[i + 1]]. */
    uint32_t nblocks;
    uint32_t nnames;
    uint32_t lists_capacity;
    uint32_t names_capacity;
    uint32_t *lists; /* 2 nblocks + 1 */
    uint32_t *names;
    uint64_t min_bytes;
    uint64_t max_bytes; /* a larger message is refused */
    char algorithm[64]; /* [a-z0-9-]+ */
    char detail[128];   /* printable ASCII without quotes */
    uint32_t channels;  /* for people */
    uint64_t time_ps;   /* predicted at max_bytes, 0 unknown */
    uint64_t bound_ps;
    uint64_t tile_bytes; /* multiple of PLAN_ALIGN; 0: one tile */
    uint32_t nchunks;
    uint32_t *weights; /* NULL: equal; else of a block's chunks, >= 1, their sum < 2^32 */
    uint32_t *prefix;  /* their nchunks + 1 running sums; made by peal_plan_seal */
    int ahead;         /* 1: a rank returns although others may not have entered */
    uint16_t nsems;    /* per ordered pair of ranks */
    uint32_t nregions;
    uint32_t nlinks;
    uint32_t regions_capacity;
    uint32_t links_capacity;
    struct plan_region *regions;
    struct plan_link *links;
    struct plan_rank *ranks; /* nranks of them; of a slice one; NULL: none, a head */
    int sliced;              /* 1: the program of one rank, and the links it names */
    uint32_t slice_rank;
    /* What the programs follow from; equal in all slices of one plan, and in the whole. Zero: not
     * stated, as in plans written by hand. */
    struct peal_hash128 origin;
    struct peal_hash128 id; /* set by peal_plan_seal: of the content; of a slice its origin */
};

/* The program of a rank, NULL where the plan does not hold it. Those it holds are those of
 * [first, end). */
struct plan_rank *peal_plan_program(const struct peal_plan *plan, uint32_t rank);
uint32_t peal_plan_first(const struct peal_plan *plan);
uint32_t peal_plan_end(const struct peal_plan *plan);
/* A plan of nranks that holds the empty program of one of them. */
peal_status peal_plan_create_slice(peal_ctx *ctx, uint32_t nranks, uint32_t rank,
                                   struct peal_plan **plan_out);
/* A plan of nranks without their programs (ranks is NULL): what all of them share. */
peal_status peal_plan_create_head(peal_ctx *ctx, uint32_t nranks, struct peal_plan **plan_out);
/* A plan with nranks empty programs. Destroy accepts NULL. */
peal_status peal_plan_create(peal_ctx *ctx, uint32_t nranks, struct peal_plan **plan_out);
void peal_plan_destroy(struct peal_plan *plan);
peal_status peal_plan_add_block(struct peal_plan *plan, const struct peal_block *block);
struct peal_block peal_plan_block(const struct peal_plan *plan, uint32_t block);
peal_status peal_plan_add_pair(struct peal_plan *plan, uint32_t from, uint32_t to);
/* Checks the form (indices, ranges, limits; not the schedule) and sets the id. */
peal_status peal_plan_seal(struct peal_plan *plan, peal_diag *diag);

/* ---- what each collective is (collectives.def) */

/* Which part of the message a rank's buffer holds. */
enum plan_shape {
    PLAN_NOTHING,
    PLAN_WHOLE,
    PLAN_OWN_BLOCK,  /* block r of N */
    PLAN_ROW,        /* blocks (r, j) of N x N, in the order of j */
    PLAN_COLUMN,     /* blocks (i, r), in the order of i */
    PLAN_LISTED,     /* those of the blocks whose lists have the rank */
    PLAN_ROOT_WHOLE, /* the root holds all, the others nothing */
    PLAN_PEER_WHOLE
};

struct plan_collective {
    uint32_t block_power; /* the message is 1, N or N x N equal blocks */
    enum plan_shape in;
    enum plan_shape out;
    int reduces; /* 1: the result folds all ranks' contributions, 0: it is one rank's */
    int rooted;
    int in_place; /* 1: the field knows it in place */
};
const struct plan_collective *peal_plan_collective(peal_collective collective);
/* Blocks of the plan's message: 1, N, N x N, or as many as pairs. nchunks is a multiple of it. */
uint32_t peal_plan_blocks(const struct peal_plan *plan);
/* The blocks of the message that a rank's buffer (in or out) holds, one behind the other:
 * first, first + stride, ...; by a list of pairs only their number is told. */
struct plan_held {
    uint32_t blocks; /* how many; 0: the rank has no use for the buffer */
    uint32_t first;
    uint32_t stride;
};
struct plan_held peal_plan_held(const struct peal_plan *plan, uint32_t rank, uint8_t buffer);
/* Blocks before this one in a rank's buffer, which holds it. */
uint32_t peal_plan_held_before(const struct peal_plan *plan, uint32_t rank, uint8_t buffer,
                               uint32_t block);
/* 1: the rank's buffer holds the chunk. */
int peal_plan_holds(const struct peal_plan *plan, uint32_t rank, uint8_t buffer, uint32_t chunk);
/* Elements of a rank's buffer before the chunk, which it holds. count: of the message. */
uint64_t peal_plan_place(const struct peal_plan *plan, uint32_t rank, uint8_t buffer,
                         uint32_t chunk, uint64_t count, size_t elem_bytes);
/* 1: blocks lie anywhere in a rank's buffers: by a list of pairs, or custom. */
int peal_plan_scattered(const struct peal_plan *plan);
/* Ranks whose inputs make the result of a chunk, and whether it is a sum. */
uint32_t peal_plan_contributors(const struct peal_plan *plan, uint32_t chunk);
int peal_plan_adds(const struct peal_plan *plan, uint32_t chunk);
/* The rank whose input the chunk is, where the collective does not reduce. */
uint32_t peal_plan_origin(const struct peal_plan *plan, uint32_t chunk);

/* Bus bandwidth over algorithm bandwidth, as nccl-tests defines it: what a link carries of each
 * byte of the message. */
double peal_plan_bus_factor(peal_collective collective, double ranks);

/* ---- geometry: the normative rounding rule (docs/plan-format.md, "Chunks") */

/* Elements [*first, *last) of chunk for a message of count elements. */
void peal_plan_chunk(const struct peal_plan *plan, uint64_t count, size_t elem_bytes,
                     uint32_t chunk, uint64_t *first, uint64_t *last);
/* Bytes of the largest chunk. */
uint64_t peal_plan_chunk_bytes(const struct peal_plan *plan, uint64_t count, size_t elem_bytes);
/* How often the body runs: at least once, also for an empty message. */
uint32_t peal_plan_trips(const struct peal_plan *plan, uint64_t count, size_t elem_bytes);

/* An upper bound of the bytes one step moves, over all messages up to max_bytes and all types:
 * what a slot must hold. */
uint64_t peal_plan_tile_bound(const struct peal_plan *plan);
/* An upper bound of the trips, likewise. */
uint64_t peal_plan_trip_bound(const struct peal_plan *plan);

/* Bytes that `count` float32 elements take in a wire slot; saturates. */
uint64_t peal_plan_wire_bytes(uint8_t wire, uint64_t count);
/* The coarsest format among the plan's regions. */
uint8_t peal_plan_wire(const struct peal_plan *plan);
/* The format of the operand's slot. */
static inline uint8_t peal_plan_operand_wire(const struct peal_plan *plan,
                                             const struct plan_operand *operand)
{
    return operand->buffer == PLAN_BUF_SCRATCH ? plan->regions[operand->index].wire
                                               : PLAN_WIRE_NONE;
}

/* In how many copies a buffer's regions exist; calls take turns with them. */
uint32_t peal_plan_copies(const struct peal_plan *plan, uint8_t buffer);
/* What all copies of all regions take. */
uint64_t peal_plan_scratch_bytes(const struct peal_plan *plan);
/* Where regions lie in one copy: offset of a region, and the total. Packet regions lie in a memory
 * of their own, and those of plans that run ahead in another. */
uint64_t peal_plan_region_bytes(const struct plan_region *region);
uint64_t peal_plan_region_offset(const struct peal_plan *plan, uint32_t region);
uint64_t peal_plan_memory_bytes(const struct peal_plan *plan, uint8_t buffer);
/* Bytes of memory behind one packet slot: a header word (digest and stamp) and a word for each
 * four bytes of payload, rounded to PLAN_ALIGN. */
uint64_t peal_plan_packet_slot_bytes(uint64_t payload_bytes);

/* Engines that a path allows for data movement, as bits 1 << peal_engine: the capability matrix. */
uint32_t peal_plan_engines(uint8_t link_class, uint8_t direct, uint32_t arch);
int peal_plan_engine_async(uint8_t engine);
/* 1: rdma, tcp or ibgda, which move over networks. */
int peal_plan_engine_nets(uint8_t engine);
int peal_plan_op_moves(uint8_t op);
/* 1: pack or unpack. */
int peal_plan_op_converts(uint8_t op);
/* 1: the opcode reduces. */
int peal_plan_op_folds(uint8_t op);
/* 1: multicast or load_reduce, which a switch makes for a group of ranks. */
int peal_plan_op_groups(uint8_t op);
/* 1: the step's destinations are one place on every rank of a group, stored to at once. */
int peal_plan_multicasts(const struct plan_rank *rank, const struct plan_step *step);
/* 1: signal or tell; wait or learn. */
int peal_plan_op_signals(uint8_t op);
int peal_plan_op_waits(uint8_t op);
/* alltoallv: who gives the chunk's block, and who gets it; the two that may know its length. */
uint32_t peal_plan_giver(const struct peal_plan *plan, uint32_t chunk);
uint32_t peal_plan_getter(const struct peal_plan *plan, uint32_t chunk);
const char *peal_plan_op_name(uint8_t op);

/* ---- a table: plans by collective, root, peer and size range */

struct table_row {
    peal_row_info info; /* predictions; strings inside are static or arrays */
    struct peal_plan *plan;
    uint32_t line; /* of the text that it was read from; 0: none */
};

struct peal_table {
    peal_ctx *ctx;
    uint32_t nranks;
    uint32_t nrows;
    struct table_row *rows; /* by (collective, root, peer); for each, rising adjacent ranges */
    int verified;
    char name[256]; /* of the file that it was read from; "": of none, or several */
    void *planner;  /* the compiler's own notes, freed by planner_free */
    void (*planner_free)(peal_ctx *ctx, void *planner);
};

peal_status peal_table_create(peal_ctx *ctx, uint32_t nrows, peal_table **table_out);
/* What can be told from the plan alone: all of *info but time_min_us, alpha_us,
 * latency_bound, hop_bytes and binding, which are left zero. */
void peal_plan_describe(const struct peal_plan *plan, peal_row_info *info);

/* ---- one plan to and from its section of a file */
peal_status peal_plan_encode(const struct peal_plan *plan, struct peal_buf *out);
peal_status peal_plan_decode(peal_ctx *ctx, const void *data, size_t bytes, const char *name,
                             peal_diag *diag, struct peal_plan **plan_out);
void peal_plan_print(const struct peal_plan *plan, struct peal_buf *out);
/* The text line of one step, without indentation or newline. */
void peal_plan_print_step(const struct peal_plan *plan, uint32_t rank, const struct plan_step *step,
                          struct peal_buf *out);

/* ---- proof of one plan; findings go to `found`, whose row field is `row` */
struct plan_proof {
    uint32_t findings;
    uint64_t steps;
    uint32_t proofs;
    uint64_t order;    /* digest of the order in which every element is reduced; 0: no one order */
    uint32_t executed; /* ranks, of all systems that were executed */
    uint32_t classes;  /* 0: all ranks were executed as one; else how many systems were, for */
    uint32_t blocks;   /* so many hosts */
    uint32_t rails;    /* and so many rails between them */
    uint32_t wire_roundings; /* most that a contribution passes on its way to a result */
};
peal_status peal_plan_verify(const struct peal_plan *plan, uint32_t row, peal_finding_fn found,
                             void *user, struct plan_proof *proof, peal_diag *diag);
/* Capability and bounds of a table's slices, each by itself: all that can be proven of one alone.
 */
peal_status peal_table_check_slices(const peal_table *table, peal_diag *diag);
/* A row's proof, added to the report of a table's. */
void peal_plan_add_proof(peal_verify_report *sum, const struct plan_proof *proof);

#endif
