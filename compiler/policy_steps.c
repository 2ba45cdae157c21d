/* SPDX-License-Identifier: Apache-2.0 */
/* A plan that a policy looks at before it is chosen: made rank by rank, as the policy asks. */
#include "policy_run.h"

#include <string.h>

void peal_policy_steps_end(struct policy_run *run)
{
    peal_emission_end(run->emission);
    run->emission = NULL;
    run->program = NULL;
}

peal_status peal_policy_program(void *opaque, uint32_t index, const peal_row_info *row,
                                uint32_t rank, peal_diag *diag, uint32_t *steps_out)
{
    struct planner *planner = opaque;
    struct policy_run *run = planner->policy;
    if (!run->emission)
        PEAL_TRY(peal_emission_begin(planner, planner->fabric, &planner->candidates[index],
                                     row->min_bytes, row->max_bytes, diag, &run->emission));
    const struct plan_source *source = peal_emission_source(run->emission);
    run->program = NULL;
    peal_status status = source->read(source->user, rank, &run->program);
    if (status != PEAL_OK)
        return peal_fail(diag, status, "rank %u of %s cannot be built: %s", rank, row->algorithm,
                         peal_status_text(status));
    run->program_rank = rank;
    *steps_out = run->program->program.nsteps;
    return PEAL_OK;
}

static const char *section_of(const struct plan_lane *lane, uint32_t index)
{
    if (index < lane->pre)
        return "pre";
    return index - lane->pre < lane->body ? "body" : "post";
}

static void add_peer(struct policy_run *run, uint32_t rank, struct policy_step *step)
{
    for (uint32_t i = 0; i < step->npeers; i++)
        if (run->peers[i] == rank)
            return;
    if (rank != run->program_rank)
        run->peers[step->npeers++] = rank;
}

/* What a data step moves, and over which links. */
static void describe_move(struct policy_run *run, const struct plan_step *from,
                          struct policy_step *step)
{
    const struct plan_slice *slice = run->program;
    const struct peal_plan *head = peal_emission_source(run->emission)->head;
    step->chunk = from->chunk;
    step->chunks = from->more + 1;
    step->bytes = peal_plan_tile_bound(head) * step->chunks;
    for (uint32_t i = 0; i < (uint32_t)from->nsrc + from->ndst; i++) {
        const struct plan_operand *operand = &slice->program.operands[from->operands + i];
        add_peer(run, operand->rank, step);
        int class = operand->link ? slice->links[operand->link - 1].link_class : -1;
        step->link_class = class > step->link_class ? class : step->link_class;
    }
}

void peal_policy_step(void *opaque, uint32_t nth, struct policy_step *step)
{
    struct policy_run *run = ((struct planner *)opaque)->policy;
    const struct plan_rank *program = &run->program->program;
    const struct plan_step *from = &program->steps[nth];
    uint32_t lane = 0;
    while (lane + 1 < program->nlanes && program->lanes[lane + 1].first <= nth)
        lane++;
    memset(step, 0, sizeof *step);
    step->rank = run->program_rank;
    step->lane = lane;
    step->index = nth - program->lanes[lane].first;
    step->section = section_of(&program->lanes[lane], step->index);
    step->op = peal_plan_op_name(from->op);
    step->moves = peal_plan_op_moves(from->op);
    step->engine = step->moves || peal_plan_op_signals(from->op)
                       ? peal_engine_name((peal_engine)from->engine)
                       : "";
    step->link_class = -1;
    step->peers = run->peers;
    if (step->moves)
        describe_move(run, from, step);
    else if (peal_plan_op_signals(from->op) || peal_plan_op_waits(from->op))
        add_peer(run, from->peer, step);
}
