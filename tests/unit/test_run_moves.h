/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of all collectives share: what each rank gives and gets, written down from
 * peal.h alone, tables of several collectives, and checked calls. */
#ifndef PEAL_TESTS_RUN_MOVES_H
#define PEAL_TESTS_RUN_MOVES_H

#include "test_run.h"

#include <string.h>

#define GUARD 64u

/* ---- the reference */

struct coll_call {
    peal_collective collective;
    unsigned ranks;
    unsigned root;
    unsigned peer;
    peal_dtype dtype;
    peal_op op;
    size_t count;
    unsigned salt;
    int in_place;
};

static inline int coll_reduces(peal_collective collective)
{
    return collective == PEAL_ALLREDUCE || collective == PEAL_REDUCE_SCATTER ||
           collective == PEAL_REDUCE;
}

static inline int coll_rooted(peal_collective collective)
{
    return collective == PEAL_BROADCAST || collective == PEAL_REDUCE ||
           collective == PEAL_SCATTER || collective == PEAL_GATHER;
}

static inline int coll_in_place(peal_collective collective)
{
    return collective != PEAL_ALLTOALL && collective != PEAL_ALLTOALLV &&
           collective != PEAL_SENDRECV && collective != PEAL_BARRIER;
}

/* Blocks that a rank gives, and gets. */
static inline unsigned coll_gives(const struct coll_call *c, unsigned rank)
{
    switch (c->collective) {
    case PEAL_REDUCE_SCATTER:
    case PEAL_ALLTOALL:
    case PEAL_ALLTOALLV:
        return c->ranks;
    case PEAL_BROADCAST:
    case PEAL_SENDRECV:
        return rank == c->root;
    case PEAL_SCATTER:
        return rank == c->root ? c->ranks : 0;
    case PEAL_BARRIER:
        return 0;
    default:
        return 1;
    }
}

static inline unsigned coll_gets(const struct coll_call *c, unsigned rank)
{
    switch (c->collective) {
    case PEAL_ALLGATHER:
    case PEAL_ALLTOALL:
    case PEAL_ALLTOALLV:
        return c->ranks;
    case PEAL_REDUCE:
        return rank == c->root;
    case PEAL_GATHER:
        return rank == c->root ? c->ranks : 0;
    case PEAL_SENDRECV:
        return rank == c->peer;
    case PEAL_BARRIER:
        return 0;
    default:
        return 1;
    }
}

/* What is given comes again after so many elements. It is a prime: by that much nothing is
 * misplaced. */
#define GIVEN_PERIOD 1021u

static inline size_t coll_period(const struct coll_call *c)
{
    return coll_reduces(c->collective) ? value_period(c->dtype, c->op) : GIVEN_PERIOD;
}

/* Element i of what a rank gives. */
static inline int64_t coll_given(const struct coll_call *c, unsigned rank, size_t i)
{
    if (coll_reduces(c->collective))
        return input_value(c->ranks, rank, i, c->dtype, c->op, c->salt);
    uint64_t mixed =
        ((uint64_t)i % GIVEN_PERIOD + 1) * 0x9e3779b97f4a7c15u + rank * 0x85ebca6bu + c->salt;
    mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u;
    return (int64_t)(mixed >> 57);
}

/* Element i of what a rank gets. */
static inline int64_t coll_gotten(const struct coll_call *c, unsigned rank, size_t i)
{
    size_t block = c->count ? i / c->count : 0;
    size_t within = c->count ? i % c->count : 0;
    switch (c->collective) {
    case PEAL_ALLREDUCE:
    case PEAL_REDUCE:
        return expected_value(c->ranks, i, c->dtype, c->op, c->salt);
    case PEAL_REDUCE_SCATTER:
        return expected_value(c->ranks, rank * c->count + i, c->dtype, c->op, c->salt);
    case PEAL_ALLGATHER:
    case PEAL_GATHER:
        return coll_given(c, (unsigned)block, within);
    case PEAL_SCATTER:
        return coll_given(c, c->root, rank * c->count + i);
    case PEAL_ALLTOALL:
    case PEAL_ALLTOALLV:
        return coll_given(c, (unsigned)block, rank * c->count + within);
    default:
        return coll_given(c, c->root, i);
    }
}

/* ---- one call */

/* What rank `from` sends rank `to` of a block in an alltoallv: nothing, all, or a part. */
static inline size_t coll_length(const struct coll_call *c, unsigned from, unsigned to)
{
    uint64_t mixed = (from * 31u + to * 17u + c->salt + 1) * 0x9e3779b97f4a7c15u >> 33;
    return mixed % 4 == 0 ? 0 : mixed % 4 == 1 ? c->count : (size_t)(mixed / 4 % (c->count + 1));
}

static inline peal_status coll_ragged(peal_comm *comm, const struct coll_call *c, const void *in,
                                      void *out, peal_diag *diag)
{
    size_t send[RANKS_MAX], got[RANKS_MAX];
    peal_comm_info info = {.size = sizeof info};
    if (peal_comm_get(comm, &info) != PEAL_OK)
        return PEAL_ERR_INTERNAL;
    for (unsigned r = 0; r < c->ranks; r++)
        send[r] = coll_length(c, info.rank, r);
    peal_status status = peal_alltoallv(comm, in, send, out, got, c->count, c->dtype, diag);
    for (unsigned r = 0; status == PEAL_OK && r < c->ranks; r++)
        if (got[r] != coll_length(c, r, info.rank))
            return PEAL_ERR_INTERNAL;
    return status;
}

static inline peal_status coll_make(peal_comm *comm, const struct coll_call *c, const void *in,
                                    void *out, peal_diag *diag)
{
    switch (c->collective) {
    case PEAL_ALLREDUCE:
        return peal_allreduce(comm, in, out, c->count, c->dtype, c->op, diag);
    case PEAL_REDUCE_SCATTER:
        return peal_reduce_scatter(comm, in, out, c->count, c->dtype, c->op, diag);
    case PEAL_ALLGATHER:
        return peal_allgather(comm, in, out, c->count, c->dtype, diag);
    case PEAL_BROADCAST:
        return peal_broadcast(comm, in, out, c->count, c->dtype, c->root, diag);
    case PEAL_REDUCE:
        return peal_reduce(comm, in, out, c->count, c->dtype, c->op, c->root, diag);
    case PEAL_SCATTER:
        return peal_scatter(comm, in, out, c->count, c->dtype, c->root, diag);
    case PEAL_GATHER:
        return peal_gather(comm, in, out, c->count, c->dtype, c->root, diag);
    case PEAL_ALLTOALL:
        return peal_alltoall(comm, in, out, c->count, c->dtype, diag);
    case PEAL_ALLTOALLV:
        return coll_ragged(comm, c, in, out, diag);
    case PEAL_SENDRECV:
        return peal_sendrecv(comm, in, out, c->count, c->dtype, c->root, c->peer, diag);
    default:
        return peal_barrier(comm, diag);
    }
}

/* Where a rank's buffers lie in its memory, which has room for two whole ones; what a rank has
 * no use for is NULL. */
struct coll_buffers {
    char *in;
    char *out;
    size_t in_bytes;
    size_t out_bytes;
};

static inline struct coll_buffers coll_lay(const struct coll_call *c, unsigned rank, char *memory,
                                           size_t half)
{
    struct coll_buffers b = {0};
    size_t block = c->count * peal_dtype_size(c->dtype);
    b.in_bytes = coll_gives(c, rank) * block;
    b.out_bytes = coll_gets(c, rank) * block;
    b.in = coll_gives(c, rank) ? memory + GUARD : NULL;
    b.out = coll_gets(c, rank) ? memory + GUARD + (c->in_place ? 0 : half) : NULL;
    if (!c->in_place || !b.in || !b.out)
        return b;
    if (c->collective == PEAL_ALLGATHER || c->collective == PEAL_GATHER)
        b.in += rank * block;
    if (c->collective == PEAL_REDUCE_SCATTER || c->collective == PEAL_SCATTER)
        b.out += rank * block;
    return b;
}

static inline int coll_say(const struct coll_call *c, unsigned rank, char problem[1024],
                           const char *what, size_t at, long long is, long long wanted)
{
    (void)snprintf(problem, 1024,
                   "rank %u: %s root %u peer %u, %zu x %s %s%s: %s, at %zu: %lld, not %lld", rank,
                   peal_collective_name(c->collective), c->root, c->peer, c->count,
                   peal_dtype_name(c->dtype), peal_op_name(c->op), c->in_place ? " in place" : "",
                   what, at, is, wanted);
    return 1;
}

static inline void coll_fill(const struct coll_call *c, unsigned rank, const struct coll_buffers *b)
{
    size_t elem = peal_dtype_size(c->dtype), count = b->in_bytes / elem, period = coll_period(c);
    for (size_t i = 0; i < count && i < period; i++)
        put_element(b->in, i, c->dtype, coll_given(c, rank, i));
    if (count)
        repeat(b->in, count, elem, period);
}

typedef int64_t (*coll_value)(const struct coll_call *c, unsigned rank, size_t i);

/* Elements [from, to) of a rank's buffer, which repeat as what one rank has given does. */
static inline int coll_compare(const struct coll_call *c, unsigned rank, coll_value value,
                               const char *buffer, size_t from, size_t to, const char *what,
                               char problem[1024])
{
    size_t elem = peal_dtype_size(c->dtype);
    if (from >= to)
        return 0;
    size_t look = worth_a_look(buffer + from * elem, to - from, elem, coll_period(c));
    for (size_t i = from; i < from + look; i++) {
        int64_t is = get_element(buffer, i, c->dtype), wanted = value(c, rank, i);
        if (is != wanted)
            return coll_say(c, rank, problem, what, i, is, wanted);
    }
    return 0;
}

/* Bytes that nobody had to write. */
static inline int coll_untouched(const char *at, size_t bytes)
{
    return bytes == 0 || ((unsigned char)*at == 0xee && memcmp(at, at + 1, bytes - 1) == 0);
}

static inline int coll_check_output(const struct coll_call *c, unsigned rank,
                                    const struct coll_buffers *b, char problem[1024])
{
    size_t elem = peal_dtype_size(c->dtype);
    for (unsigned k = 0; k < coll_gets(c, rank); k++) {
        size_t from = k * c->count, to = from + c->count, end = to;
        if (c->collective == PEAL_ALLTOALLV)
            end = from + coll_length(c, k, rank);
        if (coll_compare(c, rank, coll_gotten, b->out, from, end, "output", problem))
            return 1;
        if (!coll_untouched(b->out + end * elem, (to - end) * elem))
            return coll_say(c, rank, problem, "behind a block's end", end, 0, 0);
    }
    return 0;
}

/* All that was gotten is right, and nothing beside it was written. */
static inline int coll_check(const struct coll_call *c, unsigned rank, const struct coll_buffers *b,
                             char problem[1024])
{
    size_t elem = peal_dtype_size(c->dtype), count = b->in_bytes / elem;
    if (coll_check_output(c, rank, b, problem))
        return 1;
    size_t over[2] = {count, count}; /* what the output lies over */
    for (int end = 0; end < 2 && b->out && b->in && c->in_place; end++) {
        ptrdiff_t at = b->out + (end ? b->out_bytes : 0) - b->in;
        over[end] = at < 0 ? 0 : (size_t)at / elem < count ? (size_t)at / elem : count;
    }
    if (coll_compare(c, rank, coll_given, b->in, 0, over[0], "input overwritten", problem) ||
        coll_compare(c, rank, coll_given, b->in, over[1], count, "input overwritten", problem))
        return 1;
    if (b->out && !c->in_place &&
        (!coll_untouched(b->out + b->out_bytes, GUARD) || !coll_untouched(b->out - GUARD, GUARD)))
        return coll_say(c, rank, problem, "beside the output", 0, 0, 0);
    return 0;
}

/* memory: 2 * half bytes, half more than two guards and the largest buffer. 0: right. */
static inline int coll_checked(peal_comm *comm, const struct coll_call *c, unsigned rank,
                               char *memory, size_t half, char problem[1024])
{
    peal_diag diag = PEAL_DIAG_INIT;
    struct coll_buffers b = coll_lay(c, rank, memory, half);
    if (b.out)
        memset(b.out - (c->in_place ? 0 : GUARD), 0xee,
               b.out_bytes + (c->in_place ? 0 : 2 * GUARD));
    coll_fill(c, rank, &b);
    peal_status status = coll_make(comm, c, b.in, b.out, &diag);
    if (status == PEAL_OK)
        return coll_check(c, rank, &b, problem);
    char what[700];
    (void)snprintf(what, sizeof what, "%s: %s", peal_status_name(status), diag.text);
    return coll_say(c, rank, problem, what, 0, 0, 0);
}

/* ---- tables */

/* Hosts of GPUs behind an NVSwitch, with an RDMA NIC each. */
static inline peal_fabric *coll_cluster(peal_ctx *context, unsigned hosts, unsigned gpus)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    fprintf(to,
            "<peal version=\"1\" name=\"c\"><host name=\"h\" count=\"%u\"><system version=\"1\">"
            "<cpu numaid=\"0\" affinity=\"ffff\" arch=\"x86_64\" vendor=\"AuthenticAMD\" "
            "familyid=\"25\" modelid=\"1\">",
            hosts);
    for (unsigned g = 0; g < gpus; g++)
        fprintf(to,
                "<pci busid=\"0000:0%u:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" "
                "link_width=\"16\"><gpu dev=\"%u\" sm=\"90\" rank=\"%u\" gdr=\"1\"><nvlink "
                "target=\"0000:c7:00.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>",
                g, g, g);
    fprintf(to, "<pci busid=\"0000:09:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" "
                "link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" "
                "port=\"1\" guid=\"0x1\" gdr=\"1\"/></nic></pci>"
                "</cpu></system></host><network kind=\"rails\"/></peal>");
    fclose(to);
    peal_fabric *fabric = NULL;
    peal_diag diag = PEAL_DIAG_INIT;
    if (peal_fabric_parse(context, text, bytes, "cluster", NULL, &diag, &fabric) != PEAL_OK) {
        fprintf(stderr, "%s\n", diag.text);
        exit(1);
    }
    free(text);
    return fabric;
}

/* NULL: the request is not served. */
static inline peal_table *coll_table(peal_ctx *context, const peal_fabric *fabric,
                                     const peal_request *request)
{
    peal_diag diag = PEAL_DIAG_INIT;
    peal_table *table = NULL;
    peal_status status = peal_table_plan(context, fabric, request, &diag, &table);
    if (status == PEAL_ERR_UNSUPPORTED)
        return NULL;
    if (status == PEAL_OK)
        status = peal_table_compile(table, fabric, &diag);
    if (status == PEAL_OK)
        return table;
    fprintf(stderr, "%s %s of %u: %s\n", request->algorithm ? request->algorithm : "any",
            peal_collective_name(request->collective), request->ranks, diag.text);
    exit(1);
}

/* All collectives that are served, of all roots that `roots` has a bit for; NULL: none is. */
static inline peal_table *coll_all(peal_ctx *context, const peal_fabric *fabric,
                                   peal_request request, unsigned roots)
{
    peal_table *all = NULL;
    /* From the last to the first, so that joining puts rows before others. */
    for (int c = PEAL_CUSTOM - 1; c >= 0; c--) {
        int ends = coll_rooted((peal_collective)c) || c == PEAL_SENDRECV;
        for (unsigned root = 0; root < (ends ? request.ranks : 1); root++) {
            request.collective = (peal_collective)c;
            request.root = root;
            request.peer = c == PEAL_SENDRECV && request.ranks == 2 ? 1 - root : 0;
            if (!(roots >> root & 1) || (c == PEAL_SENDRECV && request.ranks != 2))
                continue;
            peal_table *one = coll_table(context, fabric, &request);
            if (one && all && peal_table_join(all, one, NULL) != PEAL_OK)
                exit(1);
            if (!all)
                all = one;
            else
                peal_table_destroy(one);
        }
    }
    return all;
}

/* The size of a call as peal.h counts it. */
static inline uint64_t coll_bytes(const struct coll_call *c)
{
    int whole = c->collective == PEAL_ALLREDUCE || c->collective == PEAL_REDUCE ||
                c->collective == PEAL_BROADCAST || c->collective == PEAL_SENDRECV;
    return (uint64_t)c->count * peal_dtype_size(c->dtype) * (whole ? 1 : c->ranks);
}

/* 1: the table has a row for it. */
static inline int coll_served(const peal_table *table, const struct coll_call *c)
{
    uint32_t row;
    return peal_table_lookup(table, c->collective, c->root, c->peer, coll_bytes(c), &row) ==
           PEAL_OK;
}

#endif
