/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as a graph for Graphviz: a cluster for each host, an edge for each link with its class
 * and what it carries; or hosts as nodes, with what goes between them added up. */
#include "emit.h"

#include "sort.h"

/* Bytes over each link; the tiles of all trips are the whole chunk. */
static void add_rank(const struct peal_plan *plan, uint32_t r, const uint64_t *chunk,
                     uint64_t *bytes)
{
    const struct plan_rank *rank = &plan->ranks[r];
    for (uint32_t s = 0; s < rank->nsteps; s++) {
        const struct plan_step *step = &rank->steps[s];
        if (!peal_plan_op_moves(step->op))
            continue;
        for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++) {
            const struct plan_operand *operand = &rank->operands[step->operands + i];
            if (operand->link != PLAN_NO_LINK)
                for (uint32_t nth = 0; nth <= step->more; nth++)
                    bytes[operand->link - 1] += chunk[step->chunk + nth * step->stride];
        }
    }
}

static const char *colour(uint8_t link_class)
{
    switch ((peal_link_class)link_class) {
    case PEAL_LINK_NVLINK:
    case PEAL_LINK_XGMI:
    case PEAL_LINK_C2C:
        return "forestgreen";
    case PEAL_LINK_PCIE:
    case PEAL_LINK_SMP:
        return "darkorange";
    case PEAL_LINK_NET:
        return "firebrick";
    default:
        return "gray40";
    }
}

static void put_edge(struct emit *emit, const char *prefix, uint32_t from, uint32_t to,
                     uint8_t link_class, uint64_t bytes)
{
    peal_buf_fmt(&emit->buf, "  %s%u -> %s%u [label=\"%s %llu\", color=%s", prefix, from, prefix,
                 to, peal_link_class_name((peal_link_class)link_class), (unsigned long long)bytes,
                 colour(link_class));
    peal_buf_str(&emit->buf, bytes ? "];\n" : ", style=dotted];\n");
    peal_emit_pass(emit);
}

/* ---- ranks */

static void put_ranks(const struct peal_plan *plan, struct emit *emit)
{
    for (uint32_t r = 0; r < plan->nranks; r++) {
        const struct plan_rank *rank = &plan->ranks[r];
        if (r == 0 || rank->host != plan->ranks[r - 1].host)
            peal_buf_fmt(&emit->buf, "  subgraph cluster_h%u_%u {\n    label=\"host %u\";\n",
                         rank->host, r, rank->host);
        peal_buf_fmt(&emit->buf, "    r%u [label=\"rank %u", r, r);
        if (rank->busid[0])
            peal_buf_fmt(&emit->buf, "\\n%s", rank->busid);
        peal_buf_str(&emit->buf, "\"];\n");
        if (r + 1 == plan->nranks || plan->ranks[r + 1].host != rank->host)
            peal_buf_str(&emit->buf, "  }\n");
        peal_emit_pass(emit);
    }
}

/* ---- hosts */

struct sum {
    uint64_t key; /* (from, to, class) of hosts */
    uint64_t bytes;
};

static uint64_t key_of(const struct peal_plan *plan, const struct plan_link *link)
{
    return (uint64_t)plan->ranks[link->from].host << 40 |
           (uint64_t)plan->ranks[link->to].host << 8 | link->link_class;
}

static int sum_before(const void *left, const void *right, const void *with)
{
    const struct sum *a = left, *b = right;
    (void)with;
    return a->key < b->key;
}

static void put_hosts(const struct peal_plan *plan, struct emit *emit)
{
    for (uint32_t r = 0; r < plan->nranks; r++)
        if (r == 0 || plan->ranks[r].host != plan->ranks[r - 1].host)
            peal_buf_fmt(&emit->buf, "  h%u [label=\"host %u\", shape=box];\n", plan->ranks[r].host,
                         plan->ranks[r].host);
}

static void put_sums(const struct peal_plan *plan, const uint64_t *bytes, struct sum *sums,
                     struct emit *emit)
{
    for (uint32_t i = 0; i < plan->nlinks; i++)
        sums[i] = (struct sum){key_of(plan, &plan->links[i]), bytes[i]};
    peal_sort(sums, plan->nlinks, sizeof *sums, sum_before, NULL);
    for (uint32_t i = 0; i < plan->nlinks; i++) {
        if (i + 1 < plan->nlinks && sums[i + 1].key == sums[i].key) {
            sums[i + 1].bytes += sums[i].bytes;
            continue;
        }
        put_edge(emit, "h", (uint32_t)(sums[i].key >> 40), (uint32_t)(sums[i].key >> 8),
                 (uint8_t)sums[i].key, sums[i].bytes);
    }
}

static void put_collapsed(const struct peal_plan *plan, const uint64_t *bytes, struct emit *emit)
{
    struct sum *sums = peal_calloc(plan->ctx, plan->nlinks, sizeof *sums);
    if (!sums) {
        emit->status = PEAL_ERR_MEMORY;
        return;
    }
    put_hosts(plan, emit);
    put_sums(plan, bytes, sums, emit);
    peal_free(plan->ctx, sums, plan->nlinks * sizeof *sums);
}

void peal_dot_emit(const struct peal_plan *plan, const uint64_t *chunk, int collapse,
                   struct emit *emit)
{
    uint64_t *bytes = peal_calloc(plan->ctx, plan->nlinks, sizeof *bytes);
    if (!bytes) {
        emit->status = PEAL_ERR_MEMORY;
        return;
    }
    for (uint32_t r = 0; r < plan->nranks; r++)
        add_rank(plan, r, chunk, bytes);
    peal_buf_fmt(&emit->buf, "digraph \"%s %s\" {\n", peal_collective_name(plan->collective),
                 plan->algorithm);
    peal_buf_str(&emit->buf, "  node [shape=circle, fontsize=10];\n  edge [fontsize=8];\n");
    if (collapse) {
        put_collapsed(plan, bytes, emit);
    } else {
        put_ranks(plan, emit);
        for (uint32_t i = 0; i < plan->nlinks; i++)
            put_edge(emit, "r", plan->links[i].from, plan->links[i].to, plan->links[i].link_class,
                     bytes[i]);
    }
    peal_buf_str(&emit->buf, "}\n");
    peal_free(plan->ctx, bytes, plan->nlinks * sizeof *bytes);
}
