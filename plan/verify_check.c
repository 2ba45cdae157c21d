/* SPDX-License-Identifier: Apache-2.0 */
/* Capability and bounds: what can be said of each step without executing it. */
#include "verify.h"

#include "verify_classes.h"

#include <string.h>

struct check {
    const struct peal_plan *plan;
    const struct plan_rank *program; /* of `rank` */
    const struct plan_link *links;   /* that its operands name */
    struct verify_out *out;
    uint64_t tile_bytes; /* the most a step can move */
    uint32_t rank;
    uint32_t lane;
    uint32_t at;
    uint8_t *learned;     /* by the rank: whose count */
    uint32_t *signals_to; /* for each peer of the rank: engines that the links to it allow */
};

static void bad(const struct check *c, const char *kind, const char *text)
{
    peal_verify_find(c->out, kind, c->rank, c->lane, c->at, "%s", text);
}

/* The buffer holds each chunk of the span. */
static void check_held(const struct check *c, const struct plan_step *step,
                       const struct plan_operand *operand)
{
    for (uint32_t i = 0; i <= step->more; i++) {
        uint32_t chunk = step->chunk + i * step->stride;
        if (peal_plan_holds(c->plan, operand->rank, operand->buffer, chunk))
            continue;
        peal_verify_find(c->out, "bounds", c->rank, c->lane, c->at,
                         "rank %u has no chunk %u in its %s", operand->rank, chunk,
                         operand->buffer == PLAN_BUF_IN ? "input" : "output");
        return;
    }
}

/* The moves of a span are made in any order: no slot that one stores to is another's. */
static void check_apart(const struct check *c, const struct plan_step *step,
                        const struct plan_operand *operand)
{
    uint32_t jump = step->skip + 1u;
    for (uint32_t i = step->nsrc; i < (uint32_t)step->nsrc + step->ndst; i++)
        for (uint32_t k = 0; k < (uint32_t)step->nsrc + step->ndst; k++) {
            const struct plan_operand *a = &operand[i], *b = &operand[k];
            uint32_t far = a->slot > b->slot ? a->slot - b->slot : b->slot - a->slot;
            if (a->buffer != b->buffer || a->buffer < PLAN_BUF_SCRATCH || a->rank != b->rank ||
                a->index != b->index || far == 0 || far % jump || far / jump > step->more)
                continue;
            peal_verify_find(c->out, "race", c->rank, c->lane, c->at,
                             "slots from %u and from %u of region %u overlap within the step",
                             a->slot, b->slot, a->index);
            return;
        }
}

static void check_operand(const struct check *c, const struct plan_step *step,
                          const struct plan_operand *operand)
{
    if (operand->buffer == PLAN_BUF_IN || operand->buffer == PLAN_BUF_OUT) {
        if (operand->index != step->chunk)
            bad(c, "bounds", "in and out operands must carry the step's chunk");
        else
            check_held(c, step, operand);
        return;
    }
    const struct plan_region *region = &c->plan->regions[operand->index];
    uint64_t most =
        region->wire ? peal_plan_wire_bytes(region->wire, (c->tile_bytes + 3) / 4) : c->tile_bytes;
    if (region->slot_bytes < most)
        peal_verify_find(c->out, "bounds", c->rank, c->lane, c->at,
                         "a tile of up to %llu bytes does not fit a slot of %llu",
                         (unsigned long long)most, (unsigned long long)region->slot_bytes);
    if (operand->buffer == PLAN_BUF_PACKET && step->engine != PEAL_ENGINE_SM)
        bad(c, "capability", "only sm reads and writes packets");
}

static void check_remote(const struct check *c, const struct plan_step *step,
                         const struct plan_operand *operand, int is_source)
{
    const struct plan_link *link = &c->links[operand->link - 1];
    uint32_t arch = c->program->arch;
    const char *name = peal_engine_name((peal_engine)step->engine);
    if (!(peal_plan_engines(link->link_class, link->direct, arch) & 1u << step->engine))
        peal_verify_find(c->out, "capability", c->rank, c->lane, c->at,
                         "engine %s cannot move over link %u (%s, %s)", name, operand->link,
                         peal_link_class_name((peal_link_class)link->link_class),
                         link->direct ? "direct" : "not direct");
    if (peal_plan_op_groups(step->op) && !link->multicast)
        peal_verify_find(c->out, "capability", c->rank, c->lane, c->at,
                         "link %u is not over a switch that multicasts", operand->link);
    if (is_source && !link->direct)
        peal_verify_find(c->out, "capability", c->rank, c->lane, c->at,
                         "engine %s only writes over a link that is not direct", name);
}

static void check_data(const struct check *c, const struct plan_step *step)
{
    const struct plan_operand *operand = &c->program->operands[step->operands];
    int reduces = peal_plan_op_folds(step->op);
    uint32_t arch = c->program->arch;
    int away = peal_plan_engine_nets(step->engine) || step->engine == PEAL_ENGINE_STAGED;
    int remote = 0;
    if ((reduces || peal_plan_op_converts(step->op) || peal_plan_op_groups(step->op)) &&
        step->engine != PEAL_ENGINE_SM)
        peal_verify_find(c->out, "capability", c->rank, c->lane, c->at, "engine %s cannot %s",
                         peal_engine_name((peal_engine)step->engine),
                         reduces ? "reduce" : peal_plan_op_name(step->op));
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++) {
        check_operand(c, step, &operand[i]);
        if (operand[i].rank == c->rank)
            continue;
        remote = 1;
        check_remote(c, step, &operand[i], i < step->nsrc);
    }
    if (step->more)
        check_apart(c, step, operand);
    if (!remote && away)
        bad(c, "capability", "this engine moves nothing inside one rank");
    if (step->engine == PEAL_ENGINE_TMA && arch && arch < 90)
        bad(c, "capability", "tma needs compute capability 9.0");
    if (away && step->ndst != 1)
        bad(c, "capability", "this engine has one destination");
}

/* A signal travels over a link of the table, by an engine that one of them allows. */
static void check_signal(const struct check *c, const struct plan_step *step)
{
    uint32_t allowed = 1u << PEAL_ENGINE_SM;
    if (step->peer != c->rank) {
        allowed = c->signals_to[step->peer];
        if (!allowed) {
            bad(c, "capability", "no link leads to the rank that is signalled");
            return;
        }
    } else {
        allowed |= 1u << PEAL_ENGINE_CE;
        if (step->after != PLAN_NO_EVENT)
            allowed |= 1u << PEAL_ENGINE_TMA;
    }
    if (!(allowed & 1u << step->engine))
        peal_verify_find(c->out, "capability", c->rank, c->lane, c->at,
                         "engine %s cannot signal rank %u",
                         peal_engine_name((peal_engine)step->engine), step->peer);
    if (step->engine == PEAL_ENGINE_SM && step->after != PLAN_NO_EVENT)
        bad(c, "capability", "sm raises no semaphore behind a transfer; await it first");
}

/* The events that transfers of a lane define, one bit each. */
static uint32_t defined_events(const struct plan_rank *rank, const struct plan_lane *lane)
{
    uint32_t defined = 0;
    for (uint32_t i = 0; i < lane->pre + lane->body + lane->post; i++) {
        const struct plan_step *step = &rank->steps[lane->first + i];
        if (peal_plan_op_moves(step->op) && step->event != PLAN_NO_EVENT)
            defined |= 1u << step->event;
    }
    return defined;
}

/* Every rank returns with the counts of all that it got. */
static void check_learned(struct check *c, const struct plan_rank *rank)
{
    if (c->plan->collective != PEAL_ALLTOALLV || !c->learned) /* by classes goes allreduce only */
        return;
    memset(c->learned, 0, c->plan->nranks);
    for (uint32_t i = 0; i < rank->nsteps; i++)
        if (rank->steps[i].op == PLAN_LEARN)
            c->learned[rank->steps[i].peer] = 1;
    for (uint32_t r = 0; r < c->plan->nranks; r++)
        if (r != c->rank && !c->learned[r])
            peal_verify_find(c->out, "result", c->rank, -1, -1,
                             "never learns how much rank %u sends it", r);
}

/* What keeps a call that nobody waits for apart from those of ranks that are behind: it stores to
 * packets of others, and touches nothing else that they know of. */
static void check_ahead(const struct check *c, const struct plan_step *step)
{
    if (!c->plan->ahead)
        return;
    if (!peal_plan_op_moves(step->op) || step->engine != PEAL_ENGINE_SM) {
        bad(c, "composition",
            "a plan that runs ahead has loads and stores of sm, and nothing else");
        return;
    }
    const struct plan_operand *operand = &c->program->operands[step->operands];
    for (uint32_t i = 0; i < (uint32_t)step->nsrc + step->ndst; i++)
        if (operand[i].buffer == PLAN_BUF_SCRATCH ||
            (operand[i].rank != c->rank &&
             (i < step->nsrc || operand[i].buffer != PLAN_BUF_PACKET)))
            bad(c, "composition",
                "a plan that runs ahead stores to packets of other ranks, and has no scratch");
}

static void check_rank(struct check *c)
{
    const struct plan_rank *rank = c->program;
    check_learned(c, rank);
    if (rank->nlanes > PLAN_LANES_MAX)
        peal_verify_find(c->out, "capability", c->rank, -1, -1,
                         "%u lanes; at most %u are resident at once", rank->nlanes, PLAN_LANES_MAX);
    for (c->lane = 0; c->lane < rank->nlanes; c->lane++) {
        const struct plan_lane *lane = &rank->lanes[c->lane];
        uint32_t defined = defined_events(rank, lane);
        for (c->at = 0; c->at < lane->pre + lane->body + lane->post; c->at++) {
            const struct plan_step *step = &rank->steps[lane->first + c->at];
            int in_body = c->at >= lane->pre && c->at < lane->pre + lane->body;
            check_ahead(c, step);
            if (peal_plan_op_moves(step->op) && !in_body)
                bad(c, "form", "data steps stand in the body");
            else if (peal_plan_op_moves(step->op))
                check_data(c, step);
            else if (peal_plan_op_signals(step->op))
                check_signal(c, step);
            else if (step->op == PLAN_AWAIT && !(defined >> step->event & 1))
                peal_verify_find(c->out, "capability", c->rank, c->lane, c->at,
                                 "awaits event e%u, which no transfer defines", step->event);
        }
    }
}

/* Links sorted by sender: first[r] .. first[r + 1] index order[]. */
static void index_links(const struct peal_plan *plan, uint32_t *first, uint32_t *order)
{
    for (uint32_t i = 0; i < plan->nlinks; i++)
        first[plan->links[i].from + 1]++;
    for (uint32_t r = 0; r < plan->nranks; r++)
        first[r + 1] += first[r];
    for (uint32_t i = plan->nlinks; i-- > 0;)
        order[--first[plan->links[i].from + 1]] = i;
    for (uint32_t r = 0; r < plan->nranks; r++)
        first[r] = first[r + 1];
    first[plan->nranks] = plan->nlinks;
}

peal_status peal_verify_check(const struct peal_plan *plan, struct verify_out *out)
{
    uint32_t n = plan->nranks;
    uint32_t *first = peal_calloc(plan->ctx, (size_t)n + 2, sizeof(uint32_t));
    uint32_t *order = peal_calloc(plan->ctx, (size_t)plan->nlinks + 1, sizeof(uint32_t));
    struct check c = {
        .plan = plan, .links = plan->links, .out = out, .tile_bytes = peal_plan_tile_bound(plan)};
    c.signals_to = peal_calloc(plan->ctx, n, sizeof(uint32_t));
    c.learned = peal_calloc(plan->ctx, n, 1);
    peal_status status = first && order && c.signals_to && c.learned ? PEAL_OK : PEAL_ERR_MEMORY;
    if (status == PEAL_OK)
        index_links(plan, first, order);
    for (c.rank = 0; status == PEAL_OK && c.rank < n; c.rank++) {
        c.program = &plan->ranks[c.rank];
        for (uint32_t i = first[c.rank]; i < first[c.rank + 1]; i++) {
            const struct plan_link *link = &plan->links[order[i]];
            c.signals_to[link->to] |=
                peal_plan_engines(link->link_class, link->direct, plan->ranks[c.rank].arch);
        }
        check_rank(&c);
        for (uint32_t i = first[c.rank]; i < first[c.rank + 1]; i++)
            c.signals_to[plan->links[order[i]].to] = 0;
    }
    peal_free(plan->ctx, first, ((size_t)n + 2) * sizeof(uint32_t));
    peal_free(plan->ctx, order, ((size_t)plan->nlinks + 1) * sizeof(uint32_t));
    peal_free(plan->ctx, c.learned, n);
    peal_free(plan->ctx, c.signals_to, n * sizeof(uint32_t));
    return status;
}

void peal_verify_check_slice(const struct peal_plan *head, uint64_t tile_bytes, uint32_t rank,
                             const struct plan_slice *slice, uint32_t *signals_to,
                             struct verify_out *out)
{
    struct check c = {.plan = head,
                      .program = &slice->program,
                      .links = slice->links,
                      .out = out,
                      .tile_bytes = tile_bytes,
                      .rank = rank,
                      .signals_to = signals_to};
    for (uint32_t i = 0; i < slice->nlinks; i++) {
        const struct plan_link *link = &slice->links[i];
        if (link->from == rank)
            signals_to[link->to] |=
                peal_plan_engines(link->link_class, link->direct, slice->program.arch);
    }
    check_rank(&c);
    for (uint32_t i = 0; i < slice->nlinks; i++)
        signals_to[slice->links[i].to] = 0;
}
