/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's lanes of a script, for each channel: all channels do the same on their own share of the
 * chunks. */
#include "script.h"

struct emitting {
    struct build *b;
    const struct script_program *p;
    const struct script_sems *sems;
    uint32_t channel, channels;
    uint32_t rank, stage, lane;
    uint32_t *heard; /* waits of the lane so far, for each lane that signals it */
    uint32_t slots;  /* the channel's region */
    uint32_t staging;
};

static uint32_t sem_of(const struct emitting *e, enum script_sem sem, uint32_t from, uint32_t to)
{
    return e->channel * e->sems->count + e->sems->of[sem][from][to];
}

/* Chunk c of a block is cut into one for each channel. */
static uint32_t chunk_of(const struct emitting *e, uint32_t chunk)
{
    uint32_t each = e->p->script->head->nchunks / peal_plan_blocks(e->p->script->head);
    return chunk / each * each * e->channels + e->channel * each + chunk % each;
}

static struct plan_operand operand_of(const struct emitting *e,
                                      const struct script_operand *operand, uint32_t chunk)
{
    const struct script_program *p = e->p;
    switch (operand->place) {
    case SCRIPT_IN:
        return peal_op_user(operand->rank, PLAN_BUF_IN, chunk);
    case SCRIPT_OUT:
        return peal_op_user(operand->rank, PLAN_BUF_OUT, chunk);
    case SCRIPT_SLOT: {
        const struct script_pipe *pipe = &p->pipes[operand->pipe];
        return peal_op_slot(operand->rank, PLAN_BUF_SCRATCH, e->slots,
                            pipe->base + p->slots[operand->slot].number % pipe->width);
    }
    default:
        return peal_op_slot(e->rank, PLAN_BUF_SCRATCH, e->staging,
                            e->stage * p->in_flight + e->b->next_event);
    }
}

static void emit_move(struct emitting *e, const struct script_item *item)
{
    struct plan_operand operand[2 * PLAN_OPERANDS_MAX];
    uint32_t chunk = chunk_of(e, item->chunk);
    for (uint32_t i = 0; i < (uint32_t)item->nsrc + item->ndst; i++)
        operand[i] = operand_of(e, &e->p->operands[item->operand + i], chunk);
    if (item->kind == SCRIPT_PUSH) {
        uint32_t to = e->p->pushes[item->what].to % e->p->stages;
        peal_build_push(e->b, chunk, operand[0], operand[1], sem_of(e, SEM_PUSHED, e->stage, to));
        return;
    }
    peal_build_move(e->b, chunk, item->nsrc, operand, item->ndst, operand + item->nsrc,
                    PEAL_ENGINE_SM, item->final);
}

/* Until so many signals have come. */
static void hear(struct emitting *e, uint32_t from, enum script_sem sem, uint32_t count)
{
    uint32_t *heard = &e->heard[from * SEM_STREAMS + sem];
    for (; *heard < count; ++*heard)
        peal_build_wait(e->b, peal_script_rank(e->p, from),
                        sem_of(e, sem, from % e->p->stages, e->stage), 0);
}

/* A slot is free when its last but one taker has been read: in the same trip, or in one before. */
static void emit_claim(struct emitting *e, const struct script_item *item)
{
    const struct script_pipe *pipe = &e->p->pipes[item->what];
    uint32_t depth = e->b->plan->tile_bytes ? SLOT_DEPTH : 1;
    if (!pipe->credits && !e->b->plan->tile_bytes)
        return;
    peal_build_wait(e->b, peal_script_rank(e->p, pipe->to),
                    sem_of(e, SEM_CREDIT, pipe->to % e->p->stages, e->stage),
                    pipe->credits ? pipe->width : pipe->width * depth);
}

static void emit_item(struct emitting *e, const struct script_item *item)
{
    const struct script_program *p = e->p;
    switch (item->kind) {
    case SCRIPT_WAIT: {
        const struct script_signal *signal = &p->signals[item->what];
        hear(e, signal->from, (enum script_sem)signal->sem, signal->index + 1);
        break;
    }
    case SCRIPT_CLAIM:
        emit_claim(e, item);
        break;
    case SCRIPT_FREE:
        peal_build_await_event(e->b, p->pushes[item->what].event);
        break;
    case SCRIPT_SETTLE:
        (void)peal_build_stage(e->b);
        break;
    default:
        emit_move(e, item);
    }
}

static void emit_signals(struct emitting *e, uint32_t first)
{
    const struct script_program *p = e->p;
    for (uint32_t i = first; i != NO_INDEX; i = p->signals[i].chain) {
        const struct script_signal *signal = &p->signals[i];
        if (signal->sem == SEM_PUSHED) /* by the push itself */
            continue;
        if (signal->sem == SEM_CREDIT) {
            uint32_t pipe = p->pair_pipe[(size_t)signal->to * p->nlanes + signal->from];
            if (!p->pipes[pipe].credits && !e->b->plan->tile_bytes)
                continue;
        }
        peal_build_signal(
            e->b, peal_script_rank(p, signal->to),
            sem_of(e, (enum script_sem)signal->sem, e->stage, signal->to % p->stages));
    }
}

static void emit_body(struct emitting *e)
{
    const struct script_program *p = e->p;
    const struct script_lane *lane = &p->lanes[e->lane];
    peal_build_section(e->b, 1);
    for (uint32_t i = 0; i < p->nlanes * SEM_STREAMS; i++)
        e->heard[i] = 0;
    for (uint32_t i = 0; i < lane->nitems; i++) {
        emit_item(e, &lane->items[i]);
        emit_signals(e, lane->behind[i]);
    }
    for (uint32_t from = 0; from < p->nlanes; from++)
        for (uint32_t sem = SEM_PLAIN; sem <= SEM_PUSHED; sem++)
            hear(e, from, (enum script_sem)sem,
                 p->totals[((size_t)from * p->nlanes + e->lane) * SEM_STREAMS + sem]);
}

/* ---- before and after ---------------------------------------------------------------------- */

/* A lane of this stage tells the same stage of others that the rank has entered. */
static void emit_enter(struct emitting *e)
{
    const struct script_program *p = e->p;
    uint32_t sem = sem_of(e, SEM_ENTER, e->stage, e->stage);
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t other = (e->rank + i) % p->n;
        if (p->enters[(size_t)e->rank * p->nlanes + other * p->stages + e->stage])
            peal_build_signal(e->b, other, sem);
    }
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t other = (e->rank + i) % p->n;
        if (p->enters[(size_t)other * p->nlanes + e->lane])
            peal_build_wait(e->b, other, sem, 0);
    }
}

static void emit_leave(struct emitting *e)
{
    const struct script_program *p = e->p;
    uint32_t sem = sem_of(e, SEM_LEAVE, e->stage, e->stage);
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t other = (e->rank + i) % p->n;
        if (p->leaves[(size_t)e->lane * p->n + other])
            peal_build_signal(e->b, other, sem);
    }
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t other = (e->rank + i) % p->n;
        if (p->leaves[((size_t)other * p->stages + e->stage) * p->n + e->rank])
            peal_build_wait(e->b, other, sem, 0);
    }
}

/* Dissemination (Hensgen, Finkel, Manber 1988): nobody returns before all have entered. */
static void emit_barrier(struct emitting *e)
{
    uint32_t sem = e->channel * e->sems->count + e->sems->rounds[e->stage], n = e->p->n;
    if (!e->p->barrier[e->stage])
        return;
    for (uint32_t far = 1; far < n; far *= 2, sem++) {
        peal_build_signal(e->b, (e->rank + far) % n, sem);
        peal_build_wait(e->b, (e->rank + n - far) % n, sem, 0);
    }
}

static int is_idle(const struct emitting *e)
{
    const struct script_program *p = e->p;
    int idle = !p->lanes[e->lane].nitems && !p->barrier[e->stage];
    for (uint32_t r = 0; idle && r < p->n; r++)
        idle = !p->enters[(size_t)e->rank * p->nlanes + r * p->stages + e->stage] &&
               !p->leaves[((size_t)r * p->stages + e->stage) * p->n + e->rank];
    return idle;
}

static void emit_lane(struct emitting *e)
{
    e->lane = e->rank * e->p->stages + e->stage;
    if (is_idle(e))
        return;
    peal_build_lane(e->b);
    emit_enter(e);
    emit_body(e);
    peal_build_drain(e->b);
    emit_leave(e);
    emit_barrier(e);
}

void peal_script_emit(struct build *b, const struct candidate *candidate, uint32_t rank)
{
    const struct script_program *p = b->script;
    struct script_sems sems;
    struct emitting e = {.b = b, .p = p, .sems = &sems, .rank = rank};
    size_t room = (size_t)p->nlanes * SEM_STREAMS * sizeof *e.heard;
    e.channels = candidate->channels;
    e.heard = peal_alloc(p->ctx, room);
    if (!e.heard) {
        b->status = PEAL_ERR_MEMORY;
        return;
    }
    peal_script_sems(p, &sems);
    b->in_flight = p->in_flight;
    for (; e.channel < e.channels; e.channel++) {
        uint32_t each = (p->width ? 1u : 0u) + (p->staging ? 1u : 0u);
        e.slots = e.channel * each;
        e.staging = e.slots + (p->width ? 1 : 0);
        for (e.stage = 0; e.stage < p->stages; e.stage++)
            emit_lane(&e);
    }
    peal_free(p->ctx, e.heard, room);
}

/* ---- what all ranks share ---------------------------------------------------------------------
 */

void peal_script_sems(const struct script_program *p, struct script_sems *sems)
{
    uint8_t used[SEM_KINDS][SCRIPT_STAGES_MAX][SCRIPT_STAGES_MAX] = {0};
    for (uint32_t i = 0; i < p->nsignals; i++)
        used[p->signals[i].sem][p->signals[i].from % p->stages][p->signals[i].to % p->stages] = 1;
    for (uint32_t lane = 0; lane < p->nlanes; lane++)
        for (uint32_t r = 0, s = lane % p->stages; r < p->n; r++) {
            used[SEM_ENTER][s][s] |= p->enters[(size_t)r * p->nlanes + lane];
            used[SEM_LEAVE][s][s] |= p->leaves[(size_t)lane * p->n + r];
        }
    sems->count = 0;
    for (uint32_t k = 0; k < SEM_KINDS; k++)
        for (uint32_t a = 0; a < p->stages; a++)
            for (uint32_t z = 0; z < p->stages; z++) {
                sems->of[k][a][z] = (uint16_t)sems->count;
                sems->count += used[k][a][z];
            }
    for (uint32_t s = 0; s < p->stages; s++) {
        sems->rounds[s] = sems->count;
        for (uint32_t far = 1; p->barrier[s] && far < p->n; far *= 2)
            sems->count++;
    }
}

void peal_script_prepare(struct build *b, const struct candidate *candidate)
{
    const struct script_program *p = b->script;
    uint32_t depth = b->plan->tile_bytes ? SLOT_DEPTH : 1;
    struct script_sems sems;
    peal_script_sems(p, &sems);
    b->plan->nchunks = candidate->chunks;
    b->plan->nsems = (uint16_t)(sems.count * candidate->channels);
    for (uint32_t c = 0; c < candidate->channels; c++) {
        if (p->width)
            peal_build_region(b, PLAN_BUF_SCRATCH, p->width, depth, peal_build_slot_bytes(b));
        if (p->staging)
            peal_build_region(b, PLAN_BUF_SCRATCH, p->in_flight * p->stages, 1,
                              peal_build_slot_bytes(b));
    }
}
